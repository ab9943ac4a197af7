/* Fuzz target: any bytes, read as a tokenizer.json and a text. A line "----" separates the two. Without such a line,
 * all bytes are the file, and the first 200 bytes are also the text. No offset may exceed the length of the text by
 * more than 48 bytes. Decoding the ids must give a text, or an error with a message. */
#include "server/tokenizer/tokenizer.h"
#include "tests/tokenizers/options.h"

#include <stdlib.h>
#include <string.h>

#define SEPARATOR "\n----\n"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
    if (!holds)
        abort();
}

static void decode(const struct tokenizer *tokenizer, const struct tokenizer_encoding *encoding)
{
    struct error error = {""};
    int32_t *ids = malloc((encoding->count + 1) * sizeof *ids);
    require(ids);
    for (size_t i = 0; i < encoding->count; i++)
        ids[i] = encoding->tokens[i].id;
    for (int skip = 0; skip < 2; skip++) {
        size_t length;
        char *text = tokenizer_decode(tokenizer, ids, encoding->count, skip, &length, &error);
        require(text ? text[length] == '\0' : error.message[0] != '\0');
        free(text);
    }
    free(ids);
}

static void encode(const struct tokenizer *tokenizer, const char *text, size_t length)
{
    struct error error = {""};
    struct tokenizer_encoding encoding = {0};
    struct tokenizer_options options = tokenizer_options_of(tokenizer);
    options.pad = false; /* a file may request padding to two thousand million tokens */
    for (int turn = 0; turn < 2; turn++) {
        int status = tokenizer_encode(tokenizer, text, length, &options, &encoding, &error);
        require(status == 0 || (encoding.count == 0 && error.message[0] != '\0'));
        for (size_t i = 0; i < encoding.count; i++) {
            size_t text_length = 0;
            const char *token = tokenizer_token_text(tokenizer, &encoding, i, &text_length);
            require(token && encoding.tokens[i].begin <= encoding.tokens[i].end &&
                    encoding.tokens[i].end <= length + 3 * 16);
        }
        decode(tokenizer, &encoding);
        options = (struct tokenizer_options){.add_special_tokens = true, .max_length = 5, .truncate_left = true};
    }
    tokenizer_encoding_free(&encoding);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *json = (const char *)data, *text = json;
    size_t json_length = size, text_length = size < 200 ? size : 200;
    for (size_t i = 0; i + sizeof SEPARATOR - 1 <= size; i++)
        if (memcmp(json + i, SEPARATOR, sizeof SEPARATOR - 1) == 0) {
            json_length = i;
            text = json + i + sizeof SEPARATOR - 1;
            text_length = size - i - (sizeof SEPARATOR - 1);
            break;
        }
    struct error error = {""};
    struct tokenizer *tokenizer;
    if (tokenizer_open(json, json_length, "input", &tokenizer, &error) != 0) {
        require(strncmp(error.message, "input: ", 7) == 0);
        return 0;
    }
    encode(tokenizer, text, text_length);
    tokenizer_close(tokenizer);
    return 0;
}
