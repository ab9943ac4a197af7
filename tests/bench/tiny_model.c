/* tiny_model: writes the folder of a model whose forward pass takes almost no time, to measure the server alone. It is
 * a linformer.LinformerLM with dim 32, depth 1 and random weights.
 *
 *     tiny_model FOLDER */
#include "tests/unit/tensors.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#define LAYER "linformer.net.layers.0."

enum { TOKENS = 256, DIM = 32, SEQ_LEN = 64, K = 16, HEADS = 2, HIDDEN = 4 * DIM };

static const struct tensor_shape shapes[] = {
    {"token_emb.weight", TOKENS, DIM},      {"pos_emb.weight", SEQ_LEN, DIM},      {LAYER "0.norm.weight", 0, DIM},
    {LAYER "0.norm.bias", 0, DIM},          {LAYER "0.fn.to_q.weight", DIM, DIM},  {LAYER "0.fn.to_k.weight", DIM, DIM},
    {LAYER "0.fn.to_v.weight", DIM, DIM},   {LAYER "0.fn.proj_k", SEQ_LEN, K},     {LAYER "0.fn.proj_v", SEQ_LEN, K},
    {LAYER "0.fn.to_out.weight", DIM, DIM}, {LAYER "0.fn.to_out.bias", 0, DIM},    {LAYER "1.norm.weight", 0, DIM},
    {LAYER "1.norm.bias", 0, DIM},          {LAYER "1.fn.w1.weight", HIDDEN, DIM}, {LAYER "1.fn.w1.bias", 0, HIDDEN},
    {LAYER "1.fn.w2.weight", DIM, HIDDEN},  {LAYER "1.fn.w2.bias", 0, DIM},        {"to_logits.weight", TOKENS, DIM},
    {"to_logits.bias", 0, TOKENS},
};

static void write_file(const char *folder, const char *name, const void *bytes, size_t size)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(bytes, 1, size, file) != size || fclose(file) != 0) {
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
        exit(1);
    }
}

int main(int argc, char **argv)
{
    char config[256];
    size_t size;
    if (argc != 2) {
        fprintf(stderr, "usage: tiny_model FOLDER\n");
        return 2;
    }
    int length = snprintf(config, sizeof config,
                          "{\"architecture\": \"linformer.LinformerLM\", \"kwargs\": {\"num_tokens\": %d, \"dim\": %d, "
                          "\"seq_len\": %d, \"depth\": 1, \"k\": %d, \"heads\": %d}}\n",
                          TOKENS, DIM, SEQ_LEN, K, HEADS);
    void *file = tensors_random_file(shapes, sizeof shapes / sizeof shapes[0], &size);
    write_file(argv[1], "config.json", config, (size_t)length);
    write_file(argv[1], "model.safetensors", file, size);
    free(file);
    return 0;
}
