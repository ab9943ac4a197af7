/* Checkpoints in other dtypes, and damaged checkpoints. Numbers stored as F16, BF16 or F64 give the same results as
 * these numbers stored as F32. With a damaged checkpoint, the daemon does not start. Its message names the tensor and
 * the fault. With the checkpoint of another model, the message names a tensor. */
#include "tests/http/checkpoint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TOLERANCE 1e-5

/* ---- Number formats: every reference case ---- */

/* Writes each case twice: as <case> in `dtype`, and as <case>.rounded in F32 with the values rounded to `dtype`. */
static void write_cases(const struct cases *cases, enum weights_dtype dtype, const char *folder)
{
    char path[512];
    for (size_t i = 0; i < cases->count; i++) {
        for (int round = 0; round < 2; round++) {
            struct checkpoint checkpoint = checkpoint_read(cases->names[i]);

            if (!round)
                checkpoint_convert(&checkpoint, dtype);
            else if (dtype != WEIGHTS_F64) /* F64 rounds to the original values */
                checkpoint_round(&checkpoint, dtype);
            snprintf(path, sizeof path, "%s/%s%s", folder, cases->names[i], round ? ".rounded" : "");
            checkpoint_write(&checkpoint, path, 0);
            checkpoint_free(&checkpoint);
        }
    }
}

/* Both models must give the same bits. With F64, the outputs must be within TOLERANCE of the library's. With other
 * dtypes, they must be within 0.5, and some output must differ by more than TOLERANCE. */
static void compare_case(const struct daemon *daemon, const char *name, enum weights_dtype dtype)
{
    struct weights *calls = case_calls(CASES_FOLDER, name);
    struct infer_request body;
    char rounded_name[256];
    double distance = 0;
    snprintf(rounded_name, sizeof rounded_name, "%s.rounded", name);
    for (int index = 0; (body = case_body(calls, index)).bytes; index++) {
        struct infer_answer stored = infer_send(daemon, name, &body);
        struct infer_answer rounded = infer_send(daemon, rounded_name, &body);

        assert_int_equal(stored.length, rounded.length);
        assert_memory_equal(stored.bytes, rounded.bytes, stored.length);
        double found = case_compare(calls, index, &stored, dtype == WEIGHTS_F64 ? TOLERANCE : 0.5);
        distance = found > distance ? found : distance;
        infer_answer_free(&rounded);
        infer_answer_free(&stored);
        infer_body_free(&body);
    }
    if (dtype != WEIGHTS_F64)
        assert_true(distance > TOLERANCE); /* smaller distances mean that nothing was rounded */
    print_message("%s in %s: relative L2 distance from the library in F32 %.2g\n", name, weights_dtype_name(dtype),
                  distance);
    weights_close(calls);
}

static void serve_as(enum weights_dtype dtype)
{
    struct cases cases = cases_find(CASES_FOLDER, MIN_CASES);
    char *folder = folder_make();
    write_cases(&cases, dtype, folder);
    struct daemon *daemon = daemon_start(ARGUMENTS("--model", folder, "--max-batch-tokens", "512"));
    for (size_t i = 0; i < cases.count; i++)
        compare_case(daemon, cases.names[i], dtype);
    daemon_stop(daemon);
    folder_remove(folder);
    free(folder);
    cases_free(&cases);
}

static void half_precision_is_served(void **state)
{
    (void)state;
    serve_as(WEIGHTS_F16);
}

static void bf16_is_served(void **state)
{
    (void)state;
    serve_as(WEIGHTS_BF16);
}

static void f64_is_served(void **state)
{
    (void)state;
    serve_as(WEIGHTS_F64);
}

/* ---- Damaged checkpoints: a model of each library ---- */

/* For each model, a tensor whose shape follows from the arguments of the class. The first two sizes of the tensor
 * differ. */
static const struct model {
    const char *name, *tensor;
} models[] = {
    {"linformer_lm", "linformer.net.layers.0.0.fn.proj_k"},
    {"linear_attention_lm_causal", "out.weight"},
    {"linear_attention_encoder_decoder", "dec.out.weight"},
    {"linformer_pytorch_share_none", "seq.0.fn.heads.1.E.weight"},
    {"linear_multihead_attention_default", "f_proj_weight"},
    {"keras_default", "attention_output/kernel"},
};

enum damage { MISSING, RENAMED, TRANSPOSED, TRUNCATED, SURPLUS, INTEGERS, CUT, DAMAGES };

static void transpose(struct checkpoint_tensor *tensor)
{
    int64_t rows = tensor->shape[0];
    tensor->shape[0] = tensor->shape[1];
    tensor->shape[1] = rows;
}

static void damage(struct checkpoint *checkpoint, const struct model *model, enum damage damage)
{
    struct checkpoint_tensor *tensor = checkpoint_tensor(checkpoint, model->tensor);
    switch (damage) {
    case MISSING:
        checkpoint_remove(checkpoint, model->tensor);
        break;
    case RENAMED:
        tensor->name = realloc(tensor->name, strlen(model->tensor) + 2);
        strcat(tensor->name, "_");
        break;
    case TRANSPOSED:
        transpose(tensor);
        break;
    case TRUNCATED:
        tensor->bytes -= tensor->bytes / (size_t)tensor->shape[0];
        tensor->shape[0]--;
        break;
    case SURPLUS:
        checkpoint_add(checkpoint, "further.weight", 3);
        break;
    case INTEGERS:
        tensor->dtype = WEIGHTS_I32;
        break;
    case CUT:
    case DAMAGES:
        break;
    }
}

/* Writes the parts that the message must contain. The list ends with "". Quotes in the parts are escaped, as in the
 * log. `shape` is the shape that the class expects. `last` is the name of the tensor at the end of the file. */
static void expected_words(const struct model *model, enum damage damage, int rank, const int64_t *shape,
                           const char *last, char words[4][128])
{
    int64_t changed[WEIGHTS_MAX_RANK];
    char expected[64], found[64];
    memcpy(changed, shape, sizeof changed);
    changed[0] = damage == TRANSPOSED ? shape[1] : shape[0] - 1;
    changed[1] = damage == TRANSPOSED ? shape[0] : shape[1];
    weights_shape_text(rank, shape, expected, sizeof expected);
    weights_shape_text(rank, changed, found, sizeof found);
    memset(words, 0, 4 * sizeof *words);
    snprintf(words[0], sizeof *words, "tensor \\\"%s\\\"", damage == SURPLUS ? "further.weight" : model->tensor);
    switch (damage) {
    case MISSING:
    case RENAMED:
        snprintf(words[1], sizeof *words, "%s is missing", expected);
        break;
    case TRANSPOSED:
    case TRUNCATED:
        snprintf(words[1], sizeof *words, "expected shape %s", expected);
        snprintf(words[2], sizeof *words, "found %s", found);
        break;
    case SURPLUS:
        snprintf(words[1], sizeof *words, "[3] has no counterpart");
        break;
    case INTEGERS:
        snprintf(words[1], sizeof *words, "expected dtype F32, F16, BF16 or F64");
        snprintf(words[2], sizeof *words, "found I32");
        break;
    case CUT:
    case DAMAGES:
        snprintf(words[0], sizeof *words, "tensor '%s'", last);
        snprintf(words[1], sizeof *words, "end beyond the file, which has ");
        break;
    }
}

static void refuse(const struct model *model, enum damage kind, const char *parent)
{
    struct checkpoint checkpoint = checkpoint_read(model->name);
    const struct checkpoint_tensor *tensor = checkpoint_tensor(&checkpoint, model->tensor);
    int64_t shape[WEIGHTS_MAX_RANK];
    int rank = tensor->rank;
    char folder[512], file[600], words[4][128];
    memcpy(shape, tensor->shape, sizeof shape);
    damage(&checkpoint, model, kind);
    snprintf(folder, sizeof folder, "%s/%s-%d", parent, model->name, kind);
    snprintf(file, sizeof file, "%s/model.safetensors", folder);
    checkpoint_write(&checkpoint, folder, kind == CUT ? 6 : 0);
    expected_words(model, kind, rank, shape, checkpoint.tensors[checkpoint.count - 1].name, words);
    checkpoint_free(&checkpoint);
    char *log = daemon_refused(ARGUMENTS("--model", folder));
    if (!strstr(log, file))
        fail_msg("%s is not in: %s", file, log);
    for (int i = 0; words[i][0]; i++) {
        if (!strstr(log, words[i]))
            fail_msg("%s, damage %d: \"%s\" is not in: %s", model->name, kind, words[i], log);
    }
    free(log);
}

static void damaged_checkpoints_are_refused_by_name(void **state)
{
    (void)state;
    char *parent = folder_make();
    for (size_t i = 0; i < LENGTH(models); i++) {
        for (int kind = 0; kind < DAMAGES; kind++)
            refuse(&models[i], (enum damage)kind, parent);
    }
    folder_remove(parent);
    free(parent);
}

static bool has_tensor(const struct checkpoint *checkpoint, const char *name)
{
    for (size_t i = 0; i < checkpoint->count; i++)
        if (strcmp(checkpoint->tensors[i].name, name) == 0)
            return true;
    return false;
}

/* The message must name a tensor of one of the two models. */
static void a_checkpoint_of_another_model_is_refused_by_name(void **state)
{
    (void)state;
    char *parent = folder_make(), folder[512], name[128] = "";
    for (size_t i = 0; i < LENGTH(models); i++) {
        struct checkpoint own = checkpoint_read(models[i].name);
        struct checkpoint other = checkpoint_read(models[(i + 1) % LENGTH(models)].name);
        char *config = other.config;
        snprintf(folder, sizeof folder, "%s/%zu", parent, i);
        other.config = own.config;
        checkpoint_write(&other, folder, 0);
        other.config = config;
        char *log = daemon_refused(ARGUMENTS("--model", folder));
        const char *found = strstr(log, "tensor \\\"");
        if (!found || sscanf(found, "tensor \\\"%127[^\\]", name) != 1 ||
            (!has_tensor(&own, name) && !has_tensor(&other, name)))
            fail_msg("%s: no tensor is named in: %s", models[i].name, log);
        free(log);
        checkpoint_free(&own);
        checkpoint_free(&other);
    }
    folder_remove(parent);
    free(parent);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(half_precision_is_served),
        cmocka_unit_test(bf16_is_served),
        cmocka_unit_test(f64_is_served),
        cmocka_unit_test(damaged_checkpoints_are_refused_by_name),
        cmocka_unit_test(a_checkpoint_of_another_model_is_refused_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
