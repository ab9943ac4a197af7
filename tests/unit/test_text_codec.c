/* Tests of text_codec.h, which offers a tokenizer.json and the byte tokenizer behind the same functions. Expected ids
 * come from the package `tokenizers` of PyPI (tests/tokenizers/reference), or follow from the values of bytes. */
#include "server/tokenizer/text_codec.h"
#include "tests/sanitized.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>
#include <malloc.h>

#define FOLDER "tests/tokenizers/reference/"

/* A tokenizer of bytes after the normalizer NFKD. This tokenizer makes as many tokens of a text as possible. %s stands
 * for the vocabulary. */
static const char worst_file[] =
    "{\"normalizer\": {\"type\": \"NFKD\"}, \"pre_tokenizer\": {\"type\": \"ByteLevel\", \"add_prefix_space\": true, "
    "\"trim_offsets\": true, \"use_regex\": true}, \"post_processor\": {\"type\": \"ByteLevel\", \"add_prefix_space\": "
    "true, "
    "\"trim_offsets\": true, \"use_regex\": true}, \"decoder\": {\"type\": \"ByteLevel\", \"add_prefix_space\": true, "
    "\"trim_offsets\": true, \"use_regex\": true}, \"model\": {\"type\": \"BPE\", \"vocab\": {%s}, \"merges\": []}}";

/* Tokenizers whose files have no sections about truncation and padding. A codec ignores these sections, so only these
 * tokenizers are compared with the reference. */
static const char *const names[] = {"bert", "bytes_first", "clip",   "fused",  "gpt2", "llama2", "llama3", "pieces",
                                    "qwen", "roberta",     "speech", "splits", "t5",   "whole",  "words"};
/* Tokenizers whose files have sections about truncation or padding. */
static const char *const cut_names[] = {"bert_cased", "subwords"};
#define COUNT(array) (sizeof(array) / sizeof *(array))

static struct text_codec *open_codec(const char *name)
{
    char path[256];
    size_t length;
    struct error error;
    struct text_codec *codec;
    snprintf(path, sizeof path, FOLDER "%s.json", name);
    char *json = file_read(path, SIZE_MAX / 2, &length, &error);
    if (!json || text_codec_open(json, length, "tokenizer.json", path, &codec, &error) != 0)
        fail_msg("%s", error.message);
    free(json);
    return codec;
}

static struct text_codec *open_bytes(int offset)
{
    struct error error;
    struct text_codec *codec;
    if (text_codec_open_bytes(offset, &codec, &error) != 0)
        fail_msg("%s", error.message);
    return codec;
}

static json_t *read_json(const char *name, const char *suffix)
{
    char path[256];
    json_error_t fault;
    snprintf(path, sizeof path, FOLDER "%s%s", name, suffix);
    json_t *json = json_load_file(path, JSON_ALLOW_NUL, &fault);
    if (!json)
        fail_msg("%s: %s", path, fault.text);
    return json;
}

static const struct text_options whole = {.add_special_tokens = true, .max_tokens = TEXT_NO_LIMIT};

static void encode(const struct text_codec *codec, const char *text, size_t length, const struct text_options *options,
                   struct text_encoding *encoding)
{
    struct error error;
    if (text_codec_encode(codec, text, length, options, encoding, &error) != 0)
        fail_msg("%s", error.message);
}

static void encode_text(const struct text_codec *codec, const char *text, struct text_encoding *encoding)
{
    encode(codec, text, strlen(text), &whole, encoding);
}

static bool next(struct text_encoding *encoding, struct text_token *token)
{
    struct error error;
    int found = text_encoding_next(encoding, token, &error);
    assert_true(found >= 0);
    return found > 0;
}

/* ---- Ids and places ---- */

/* Returns the number of bytes of a UTF-8 text before the character with this index. Some positions of "fused" are
 * beyond the text, as in the reference. */
static size_t byte_of(const char *text, size_t length, json_int_t character)
{
    size_t at = 0;
    for (; character > 0 && at < length; character--)
        for (at++; ((unsigned char)text[at] & 0xC0) == 0x80;)
            at++;
    return at;
}

static int compare_text(const struct text_codec *codec, const json_t *text, const json_t *wanted,
                        struct text_encoding *encoding)
{
    const json_t *ids = json_array_get(wanted, 0), *offsets = json_array_get(wanted, 1);
    const char *bytes = json_string_value(text);
    struct text_token token;
    encode(codec, bytes, json_string_length(text), &whole, encoding);
    if (encoding->count != (int64_t)json_array_size(ids))
        return 1;
    int32_t *found = calloc((size_t)encoding->count + 1, sizeof *found);
    int wrong = 0;
    size_t i = 0;
    text_encoding_ids(encoding, found);
    for (; next(encoding, &token); i++) {
        json_int_t begin = json_integer_value(json_array_get(offsets, 2 * i)),
                   end = json_integer_value(json_array_get(offsets, 2 * i + 1));
        json_int_t id = json_integer_value(json_array_get(ids, i));
        wrong |= token.id != id || found[i] != id || token.begin != begin || token.end != end;
        if (token.special || wrong)
            continue;
        size_t length = json_string_length(text), first = byte_of(bytes, length, begin),
               last = byte_of(bytes, length, end);
        wrong |= token.text != bytes + first || token.length != last - first;
    }
    assert_int_equal(i, wrong ? i : (size_t)encoding->count);
    free(found);
    return wrong;
}

/* Whether the text contains "[MASK]", and this is an ordinary text for the tokenizer of the reference. */
static bool reads_mask_otherwise(const struct text_codec *codec, const char *text)
{
    size_t length;
    int32_t id = text_codec_role_id(codec, TOKENIZER_MASK);
    const char *mask = text_codec_token(codec, id, &length);
    return id >= 0 && memcmp(mask, TEXT_MASK, length) != 0 && strstr(text, TEXT_MASK);
}

static void ids_and_places_are_those_of_the_reference(void **state)
{
    (void)state;
    json_t *texts = read_json("texts", ".json");
    int wrong = 0;
    for (size_t n = 0; n < COUNT(names); n++) {
        struct text_codec *codec = open_codec(names[n]);
        json_t *results = read_json(names[n], ".results.json");
        struct text_encoding encoding = {0};
        for (size_t i = 0; i < json_array_size(texts); i++) {
            if (reads_mask_otherwise(codec, json_string_value(json_array_get(texts, i))))
                continue;
            if (compare_text(codec, json_array_get(texts, i), json_array_get(results, i), &encoding) == 0)
                continue;
            wrong++;
            print_message("%s, text %zu\n", names[n], i);
        }
        text_encoding_free(&encoding);
        json_decref(results);
        text_codec_close(codec);
    }
    json_decref(texts);
    assert_int_equal(wrong, 0);
}

/* The text of an id must be its text in the tokenizer's file, decoded. */
static void a_token_is_decoded_alone(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int32_t id;
        const char *text;
    } cases[] = {{"bert", 4, "[MASK]"},       {"bert", 572, "##\xCF\x82"}, {"bert", 45, "c"},
                 {"roberta", 500, "<mask>"},  {"bert", 598, ""},           {"bert", -1, ""},
                 {"gpt2", 0, "<|endoftext|>"}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct text_codec *codec = open_codec(cases[i].name);
        size_t length;
        const char *text = text_codec_token(codec, cases[i].id, &length);
        if (length != strlen(cases[i].text) || memcmp(text, cases[i].text, length) != 0)
            fail_msg("%s %d: \"%.*s\"", cases[i].name, (int)cases[i].id, (int)length, text);
        assert_true(text_codec_longest_token(codec) >= length);
        text_codec_close(codec);
    }
}

/* ---- The mask ---- */

/* A text with "[MASK]" must have the same tokens as the text with the tokenizer's own mask, such as "<mask>". The
 * positions must refer to the text with "[MASK]". */
static void expect_mask(const struct text_codec *codec, const char *given, const char *own)
{
    struct text_encoding found = {0}, wanted = {0};
    struct text_token token, other;
    int64_t masks = 0;
    encode_text(codec, given, &found);
    encode_text(codec, own, &wanted);
    assert_int_equal(found.count, wanted.count);
    while (next(&found, &token)) {
        assert_true(next(&wanted, &other));
        assert_int_equal(token.id, other.id);
        assert_int_equal(token.special, other.special);
        if (token.special)
            continue;
        assert_true(token.end >= token.begin);
        bool is_mask = token.id == text_codec_role_id(codec, TOKENIZER_MASK);
        masks += is_mask;
        const char *end = token.text + token.length;
        if (is_mask &&
            (token.length < strlen(TEXT_MASK) || memcmp(end - strlen(TEXT_MASK), TEXT_MASK, strlen(TEXT_MASK)) != 0))
            fail_msg("the place of a mask is \"%.*s\"", (int)token.length, token.text);
        if (!is_mask && (token.length != other.length || memcmp(token.text, other.text, token.length) != 0))
            fail_msg("\"%.*s\" is not \"%.*s\"", (int)token.length, token.text, (int)other.length, other.text);
    }
    assert_true(masks > 0);
    text_encoding_free(&found);
    text_encoding_free(&wanted);
}

static const char long_mask_file[] =
    "{\"added_tokens\": [{\"id\": 0, \"content\": \"<|mask|>\", \"single_word\": false, \"lstrip\": false, "
    "\"rstrip\": false, \"normalized\": false, \"special\": true}], \"model\": {\"type\": \"BPE\", \"vocab\": "
    "{\"<|mask|>\": 0, \"a\": 1, \"b\": 2, \"\xC3\xA9\": 3}, \"merges\": []}}";

static void the_mask_has_one_text_everywhere(void **state)
{
    (void)state;
    struct text_codec *roberta = open_codec("roberta"), *words = open_codec("words"), *bert = open_codec("bert"), *own;
    struct error error;
    expect_mask(roberta, "the [MASK] cat", "the <mask> cat");
    expect_mask(roberta, "[MASK]", "<mask>");
    expect_mask(roberta, "\xC3\xA9\xE4\xB8\xAD[MASK]\xC3\xBC[MASK] x", "\xC3\xA9\xE4\xB8\xAD<mask>\xC3\xBC<mask> x");
    expect_mask(words, "a [MASK] b", "a <mask> b");
    expect_mask(bert, "a [MASK] b", "a [MASK] b");
    if (text_codec_open(long_mask_file, strlen(long_mask_file), "long", "long", &own, &error) != 0)
        fail_msg("%s", error.message);
    expect_mask(own, "a[MASK]b\xC3\xA9[MASK][MASK]a", "a<|mask|>b\xC3\xA9<|mask|><|mask|>a");
    struct text_encoding encoding = {0};
    encode_text(own, "a[MASK", &encoding);
    assert_int_equal(encoding.count, 1); /* "[MASK" has no ids, because the vocabulary has no unknown token */
    text_encoding_free(&encoding);
    text_codec_close(own);
    text_codec_close(bert);
    text_codec_close(words);
    text_codec_close(roberta);
}

/* ---- Truncation ---- */

static void truncation_keeps_the_template(void **state)
{
    (void)state;
    struct text_codec *codec = open_codec("bert");
    struct text_encoding encoding = {0};
    int32_t all[64], ids[64];
    static const char text[] = "h\xC3\xA4user and cats";
    encode_text(codec, text, &encoding);
    assert_true(encoding.count > 8 && encoding.count <= 64);
    int64_t count = encoding.count;
    text_encoding_ids(&encoding, all);
    assert_int_equal(text_codec_template_tokens(codec), 2);
    for (int left = 0; left < 2; left++) {
        struct text_options options = {true, left, 6};
        encode(codec, text, strlen(text), &options, &encoding);
        assert_int_equal(encoding.count, 6);
        text_encoding_ids(&encoding, ids);
        assert_int_equal(ids[0], 2);
        assert_int_equal(ids[5], 3);
        assert_memory_equal(ids + 1, left ? all + count - 5 : all + 1, 4 * sizeof *ids);
        options.add_special_tokens = false;
        encode(codec, text, strlen(text), &options, &encoding);
        assert_int_equal(encoding.count, 6);
        text_encoding_ids(&encoding, ids);
        assert_memory_equal(ids, left ? all + count - 7 : all + 1, 6 * sizeof *ids);
    }
    struct text_options tiny = {true, false, 1};
    encode(codec, text, strlen(text), &tiny, &encoding);
    assert_int_equal(encoding.count, 2); /* the two tokens of the template are never cut */
    text_encoding_free(&encoding);
    text_codec_close(codec);
}

/* ---- Bytes ---- */

static void bytes_are_encoded_and_decoded_as_tokens(void **state)
{
    (void)state;
    struct text_codec *codec = open_bytes(3);
    struct text_encoding encoding = {0};
    struct text_token token;
    static const char text[] = "a\xC3\xA9[MASK]z";
    static const struct {
        int32_t id;
        bool special;
        int64_t begin, end;
        const char *text;
    } tokens[] = {{'a' + 3, false, 0, 1, "a"},
                  {0xC3 + 3, false, 1, 2, "\xC3\xA9"},
                  {0xA9 + 3, false, 1, 2, "\xC3\xA9"},
                  {2, true, 0, 0, "[MASK]"},
                  {'z' + 3, false, 8, 9, "z"}};
    for (int64_t most = 1; most <= 6; most++) {
        for (int left = 0; left < 2; left++) {
            struct text_options options = {true, left, most};
            encode(codec, text, strlen(text), &options, &encoding);
            int64_t count = most < 5 ? most : 5;
            assert_int_equal(encoding.count, count);
            for (int64_t i = left ? 5 - count : 0; next(&encoding, &token); i++) {
                assert_int_equal(token.id, tokens[i].id);
                assert_int_equal(token.special, tokens[i].special);
                assert_int_equal(token.begin, tokens[i].begin);
                assert_int_equal(token.end, tokens[i].end);
                assert_int_equal(token.length, strlen(tokens[i].text));
                assert_memory_equal(token.text, tokens[i].text, token.length);
                count--;
            }
            assert_int_equal(count, 0);
        }
    }
    assert_int_equal(text_codec_memory(codec, text, strlen(text)), 0);
    assert_int_equal(text_codec_ids(codec), 259);
    assert_int_equal(text_codec_role_id(codec, TOKENIZER_MASK), 2);
    assert_int_equal(text_codec_role_id(codec, TOKENIZER_PAD), 0);
    assert_int_equal(text_codec_role_id(codec, TOKENIZER_EOS), 1);
    assert_int_equal(text_codec_role_id(codec, TOKENIZER_BOS), -1);
    assert_true(text_codec_special(codec, 2) && !text_codec_special(codec, 3));
    text_encoding_free(&encoding);
    text_codec_close(codec);
    codec = open_bytes(0);
    assert_int_equal(text_codec_role_id(codec, TOKENIZER_MASK), -1);
    text_codec_close(codec);
}

/* ---- Memory ---- */

/* Returns the number of bytes that malloc has allocated. Under a sanitizer the result is 0, because a sanitizer has its
 * own allocator. */
static int64_t allocated(void)
{
    struct mallinfo2 info = mallinfo2();
    return (int64_t)(info.uordblks + info.hblkhd);
}

static void check_memory(const struct text_codec *codec, const char *name, const char *unit)
{
    enum { LENGTH = SANITIZED ? 5000 : 100000 };
    static char text[LENGTH];
    size_t length = 0, size = strlen(unit);
    for (; length + size <= LENGTH; length += size)
        memcpy(text + length, unit, size);
    struct text_encoding encoding = {0};
    struct text_token token;
    int64_t before = allocated();
    encode(codec, text, length, &whole, &encoding);
    while (next(&encoding, &token))
        assert_true(token.special || (token.text >= text && token.text + token.length <= text + length));
    int64_t taken = allocated() - before, estimate = text_codec_memory(codec, text, length);
    if (taken > estimate)
        fail_msg("%s: %zu bytes of \"%s\" take %lld bytes, more than %lld", name, length, unit, (long long)taken,
                 (long long)estimate);
    text_encoding_free(&encoding);
    int64_t n_ids = 2000;
    int32_t *ids = calloc((size_t)n_ids, sizeof *ids);
    for (int64_t i = 0; i < n_ids; i++)
        ids[i] = (int32_t)(i % text_codec_ids(codec));
    struct error error;
    before = allocated();
    char *decoded = text_codec_decode(codec, ids, n_ids, false, &length, &error);
    assert_non_null(decoded);
    assert_true(allocated() - before <= text_codec_decode_memory(codec, ids, n_ids));
    free(decoded);
    free(ids);
}

/* Opens worst_file with the alphabet of ByteLevel as its vocabulary. In this alphabet, printable bytes stand for
 * themselves. The other bytes become U+0100 and the following characters. */
static struct text_codec *open_worst(void)
{
    char *vocabulary = calloc(256, 32), *file = calloc(1, sizeof worst_file + 256 * 32);
    size_t length = 0;
    for (unsigned byte = 0, others = 0; byte < 256; byte++) {
        bool is_itself = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
        unsigned code = is_itself ? byte : 0x100 + others++;
        length += (size_t)sprintf(vocabulary + length, "%s\"\\u%04x\": %u", byte > 0 ? ", " : "", code, byte);
    }
    sprintf(file, worst_file, vocabulary);
    struct text_codec *codec;
    struct error error;
    if (text_codec_open(file, strlen(file), "worst", "worst", &codec, &error) != 0)
        fail_msg("%s", error.message);
    free(vocabulary);
    free(file);
    return codec;
}

static void the_estimated_memory_suffices(void **state)
{
    (void)state;
    static const char *const units[] = {
        "a", " ", "a b ", "a ", "!", "1", "\n", "\x01", "[MASK]", "<mask>", "ab1!",
        /* characters of two bytes, of which NFKD makes 3 and 2 characters, and characters of three bytes, of which it
         * makes 4, 4, 3, 6 and 7 */
        "\xCE\x90", "\xC3\xA9", "\xE2\xA8\x8C", "\xE2\x81\x97", "\xE0\xBD\xB9", "\xE3\x8D\x96", "\xE3\x88\x9D",
        /* Hangul, Chinese, Greek with three marks, a character that becomes 18 characters, an emoji, a musical
         * symbol */
        "\xEA\xB0\x81", "\xE4\xB8\xAD", "\xE1\xBE\x82", "\xEF\xB7\xBA", "\xF0\x9F\x98\x80", "\xF0\x9D\x87\x80",
        /* invalid UTF-8 */
        "\xFF", "\xE4\xB8"};
    for (size_t n = 0; n <= COUNT(names) + COUNT(cut_names); n++) {
        size_t index = n - COUNT(names);
        const char *name = n < COUNT(names) ? names[n] : index < COUNT(cut_names) ? cut_names[index] : "worst";
        struct text_codec *codec = index == COUNT(cut_names) ? open_worst() : open_codec(name);
        for (size_t i = 0; i < COUNT(units); i++)
            check_memory(codec, name, units[i]);
        text_codec_close(codec);
    }
}

/* ---- Files that are refused ---- */

static void a_refusal_names_the_file(void **state)
{
    (void)state;
    struct text_codec *codec;
    struct error error;
    assert_int_equal(text_codec_open("{}", 2, "tokenizer.json", "models/a/tokenizer.json", &codec, &error), -1);
    assert_non_null(strstr(error.message, "models/a/tokenizer.json"));
    assert_int_equal(text_codec_open("{", 1, "tokenizer.json", "models/a/tokenizer.json", &codec, &error), -1);
    assert_non_null(strstr(error.message, "models/a/tokenizer.json: not JSON"));
}

/* The reader reads the vocabulary apart from the rest of the file. */
static void a_fault_after_a_vocabulary_is_named_with_its_line(void **state)
{
    (void)state;
    static const char text[] = "{\n\"model\": {\"vocab\": {\n\"a\": 0\n}},\n  fault}";
    struct text_codec *codec;
    struct error error;
    assert_int_equal(text_codec_open(text, strlen(text), "tokenizer.json", "a/tokenizer.json", &codec, &error), -1);
    assert_non_null(strstr(error.message, "a/tokenizer.json: not JSON: line 5, column 7: "));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_and_places_are_those_of_the_reference),
        cmocka_unit_test(a_token_is_decoded_alone),
        cmocka_unit_test(the_mask_has_one_text_everywhere),
        cmocka_unit_test(truncation_keeps_the_template),
        cmocka_unit_test(bytes_are_encoded_and_decoded_as_tokens),
        cmocka_unit_test(the_estimated_memory_suffices),
        cmocka_unit_test(a_refusal_names_the_file),
        cmocka_unit_test(a_fault_after_a_vocabulary_is_named_with_its_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
