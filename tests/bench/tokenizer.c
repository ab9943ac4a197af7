/* tokenizer TOKENIZER.json TEXTS SECONDS: encodes all texts of a file again and again, on one thread. TEXTS contains
 * for each text its number of bytes (u32) and the bytes. Prints texts per second and tokens per second, and the time
 * and memory that opening needs. */
#include "server/tokenizer/tokenizer.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double now_s(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

/* Returns the bytes that malloc has allocated, with its overhead. */
static size_t heap_bytes(void)
{
    struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}

/* Encodes each text once. Returns the number of texts, and adds their tokens to *tokens. */
static size_t encode_all(const struct tokenizer *tokenizer, const char *texts, size_t size,
                         struct tokenizer_encoding *encoding, size_t *tokens)
{
    struct tokenizer_options options = {.add_special_tokens = true, .max_length = TOKENIZER_NO_LIMIT};
    struct error error;
    size_t count = 0;
    for (size_t at = 0; at + sizeof(uint32_t) <= size; count++) {
        uint32_t length;
        memcpy(&length, texts + at, sizeof length);
        at += sizeof length;
        if (length > size - at || tokenizer_encode(tokenizer, texts + at, length, &options, encoding, &error) != 0) {
            fprintf(stderr, "%s\n", length > size - at ? "a text is cut" : error.message);
            exit(1);
        }
        at += length;
        *tokens += encoding->count;
    }
    return count;
}

int main(int argc, char **argv)
{
    struct error error;
    struct tokenizer *tokenizer;
    size_t json_length, size, count = 0, tokens = 0;
    if (argc != 4)
        return 2;
    char *json = file_read(argv[1], SIZE_MAX / 2, &json_length, &error);
    char *texts = json ? file_read(argv[2], SIZE_MAX / 2, &size, &error) : NULL;
    size_t before = heap_bytes();
    double begin = now_s();
    if (!texts || tokenizer_open(json, json_length, argv[1], &tokenizer, &error) != 0) {
        fprintf(stderr, "%s\n", error.message);
        return 1;
    }
    double open_ms = (now_s() - begin) * 1e3;
    size_t bytes = heap_bytes() - before;
    struct tokenizer_encoding encoding = {0};
    encode_all(tokenizer, texts, size, &encoding, &tokens); /* warms caches */
    tokens = 0;
    double seconds = atof(argv[3]);
    begin = now_s();
    do
        count += encode_all(tokenizer, texts, size, &encoding, &tokens);
    while (now_s() - begin < seconds);
    double took = now_s() - begin;
    printf("texts_per_s %.1f tokens_per_s %.0f open_ms %.1f bytes %zu\n", (double)count / took, (double)tokens / took,
           open_ms, bytes);
    tokenizer_encoding_free(&encoding);
    tokenizer_close(tokenizer);
    free(texts);
    free(json);
    return 0;
}
