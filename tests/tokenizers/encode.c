/* encode TOKENIZER.json: encodes texts and decodes their ids, for compare.py.
 *
 * Input, for each text: u32 number of bytes, the bytes. Output, for each text:
 * - i32 number of tokens, or -1 and a message
 * - for each token: i32 id, u32 begin, u32 end, u32 special, the text of the token
 * - the decoded text, and the decoded text without special tokens.
 * A text in the output is u32 number of bytes, the bytes. All numbers are little-endian. */
#include "server/tokenizer/tokenizer.h"
#include "tests/tokenizers/options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void put_number(uint32_t number)
{
    fwrite(&number, sizeof number, 1, stdout);
}

static void put_text(const char *text, size_t length)
{
    put_number((uint32_t)length);
    fwrite(text, 1, length, stdout);
}

static int put_decoded(const struct tokenizer *tokenizer, const struct tokenizer_encoding *encoding, bool skip)
{
    struct error error;
    size_t length;
    int32_t *ids = malloc((encoding->count + 1) * sizeof *ids);
    if (!ids)
        return -1;
    for (size_t i = 0; i < encoding->count; i++)
        ids[i] = encoding->tokens[i].id;
    char *text = tokenizer_decode(tokenizer, ids, encoding->count, skip, &length, &error);
    free(ids);
    if (!text)
        return -1;
    put_text(text, length);
    free(text);
    return 0;
}

static int put_encoding(const struct tokenizer *tokenizer, const char *text, size_t length,
                        struct tokenizer_encoding *encoding)
{
    struct error error;
    struct tokenizer_options options = tokenizer_options_of(tokenizer);
    if (tokenizer_encode(tokenizer, text, length, &options, encoding, &error) != 0) {
        put_number(UINT32_MAX);
        put_text(error.message, strlen(error.message));
        return 0;
    }
    put_number((uint32_t)encoding->count);
    for (size_t i = 0; i < encoding->count; i++) {
        const struct encoded_token *token = &encoding->tokens[i];
        size_t text_length = 0;
        const char *token_text = tokenizer_token_text(tokenizer, encoding, i, &text_length);
        put_number((uint32_t)token->id);
        put_number(token->begin);
        put_number(token->end);
        put_number(token->special);
        put_text(token_text, text_length);
    }
    return put_decoded(tokenizer, encoding, false) != 0 || put_decoded(tokenizer, encoding, true) != 0 ? -1 : 0;
}

int main(int argc, char **argv)
{
    struct error error;
    struct tokenizer *tokenizer;
    size_t length;
    if (argc != 2)
        return 2;
    char *json = file_read(argv[1], SIZE_MAX / 2, &length, &error);
    if (!json || tokenizer_open(json, length, argv[1], &tokenizer, &error) != 0) {
        fprintf(stderr, "%s\n", error.message);
        return 1;
    }
    free(json);
    struct tokenizer_encoding encoding = {0};
    int status = 0;
    for (uint32_t size; status == 0 && fread(&size, sizeof size, 1, stdin) == 1;) {
        char *text = malloc((size_t)size + 1); /* a separate block, so that a sanitizer detects a read beyond it */
        status = !text || fread(text, 1, size, stdin) != size || put_encoding(tokenizer, text, size, &encoding) != 0;
        fflush(stdout);
        free(text);
    }
    tokenizer_encoding_free(&encoding);
    tokenizer_close(tokenizer);
    return status;
}
