/* Opens and uses tokenizers, while each allocation fails in turn. */
#include "tests/unit/alloc_fail.h"

#include "server/tokenizer/tokenizer.h"
#include "tests/tokenizers/options.h"

#include <jansson.h>
#include <stdio.h>

/* Tokenizers with parts of several kinds. They are small, so that they need few allocations. */
static const char *const files[] = {
    "{\"added_tokens\": [{\"id\": 9, \"content\": \"<S>\", \"single_word\": false, \"lstrip\": true, \"rstrip\": true, "
    "\"normalized\": true, \"special\": true}], \"normalizer\": {\"type\": \"Sequence\", \"normalizers\": [{\"type\": "
    "\"NFD\"}, "
    "{\"type\": \"Lowercase\"}, {\"type\": \"Replace\", \"pattern\": {\"String\": \"x\"}, \"content\": \"y\"}]}, "
    "\"pre_tokenizer\": {\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": \"Metaspace\", \"replacement\": "
    "\"_\"}, "
    "{\"type\": \"Punctuation\"}]}, \"decoder\": {\"type\": \"CTC\", \"pad_token\": \"e\", \"word_delimiter_token\": "
    "\"_\", "
    "\"cleanup\": true}, \"post_processor\": {\"type\": \"BertProcessing\", \"sep\": [\"s\", 1], \"cls\": [\"c\", 2]}, "
    "\"padding\": {\"strategy\": {\"Fixed\": 70}, \"direction\": \"Left\", \"pad_to_multiple_of\": null, \"pad_id\": "
    "0, "
    "\"pad_type_id\": 0, \"pad_token\": \"p\"}, \"model\": {\"type\": \"Unigram\", \"unk_id\": 0, "
    "\"vocab\": [[\"?\", 0], [\"e\", -1], [\"_\", -2.5]]}}",
    "{\"pre_tokenizer\": {\"type\": \"ByteLevel\", \"add_prefix_space\": true, \"trim_offsets\": true}, "
    "\"decoder\": {\"type\": \"ByteLevel\", \"add_prefix_space\": true, \"trim_offsets\": true}, "
    "\"model\": {\"type\": \"BPE\", \"unk_token\": \"?\", \"end_of_word_suffix\": \"w\", "
    "\"vocab\": {\"?\": 0, \"e\": 1, \"ee\": 2}, \"merges\": [\"e e\"]}}",
    "{\"model\": {\"type\": \"WordPiece\", \"unk_token\": \"?\", \"continuing_subword_prefix\": \"#\", "
    "\"max_input_chars_per_word\": 9, \"vocab\": {\"?\": 0, \"e\": 1}}}",
};

static const char *file;

static int decode(const struct tokenizer *tokenizer, const struct tokenizer_encoding *encoding, struct error *error)
{
    int32_t ids[256];
    size_t length;
    for (size_t i = 0; i < encoding->count; i++)
        ids[i] = encoding->tokens[i].id;
    char *text = tokenizer_decode(tokenizer, ids, encoding->count, false, &length, error);
    free(text);
    return text ? 0 : -1;
}

static int use(struct error *error)
{
    static const char text[] =
        "Eee <s> \xc3\xa9\xff x, eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee";
    struct tokenizer *tokenizer;
    struct tokenizer_encoding encoding = {0};
    if (tokenizer_open(file, strlen(file), "file", &tokenizer, error) != 0)
        return -1;
    struct tokenizer_options options = tokenizer_options_of(tokenizer);
    int status = tokenizer_encode(tokenizer, text, sizeof text - 1, &options, &encoding, error);
    assert_true(status == 0 || encoding.count == 0);
    assert_true(encoding.count <= 256);
    if (status == 0)
        status = decode(tokenizer, &encoding, error);
    tokenizer_encoding_free(&encoding);
    tokenizer_close(tokenizer);
    return status;
}

static void each_failure_is_reported(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        file = files[i];
        assert_true(alloc_fail_each(use) > 20);
    }
}

int main(void)
{
    json_set_alloc_funcs(malloc, free);
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_failure_is_reported)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
