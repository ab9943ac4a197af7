/* Compares the tokenizers of tests/tokenizers/reference with the results of the package `tokenizers` of PyPI for the
 * same texts. */
#include "server/tokenizer/tokenizer.h"
#include "tests/tokenizers/options.h"

#include "server/tokenizer/pattern.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>
#include <pthread.h>

#define FOLDER "tests/tokenizers/reference/"
#define THREADS 4

static json_t *read_json(const char *name, const char *suffix)
{
    char path[512];
    json_error_t fault;
    snprintf(path, sizeof path, FOLDER "%s%s", name, suffix);
    json_t *json = json_load_file(path, JSON_ALLOW_NUL, &fault);
    if (!json)
        fail_msg("%s: %s", path, fault.text);
    return json;
}

static struct tokenizer *open_file(const char *name)
{
    char path[512];
    struct error error;
    struct tokenizer *tokenizer;
    size_t length;
    snprintf(path, sizeof path, FOLDER "%s.json", name);
    char *json = file_read(path, SIZE_MAX / 2, &length, &error);
    if (!json || tokenizer_open(json, length, path, &tokenizer, &error) != 0)
        fail_msg("%s", error.message);
    free(json);
    return tokenizer;
}

/* Lists the names of all references. Returns their number. */
static size_t list_names(char names[64][64])
{
    size_t count = 0;
    DIR *folder = opendir(FOLDER);
    assert_non_null(folder);
    for (struct dirent *entry; (entry = readdir(folder)) && count < 64;) {
        char *dot = strchr(entry->d_name, '.');
        if (dot && strcmp(dot, ".results.json") == 0)
            snprintf(names[count++], 64, "%.*s", (int)(dot - entry->d_name), entry->d_name);
    }
    closedir(folder);
    return count;
}

/* Describes how the reference's result for a text differs from the project's. Returns NULL if they agree. */
static const char *differs(const struct tokenizer *tokenizer, const json_t *text, const json_t *wanted,
                           struct tokenizer_encoding *encoding)
{
    struct error error;
    struct tokenizer_options options = tokenizer_options_of(tokenizer);
    const json_t *ids = json_array_get(wanted, 0), *offsets = json_array_get(wanted, 1),
                 *tokens = json_array_get(wanted, 4);
    if (tokenizer_encode(tokenizer, json_string_value(text), json_string_length(text), &options, encoding, &error) != 0)
        return "error";
    if (encoding->count != json_array_size(ids))
        return "number of tokens";
    int32_t plain[1024];
    if (encoding->count > sizeof plain / sizeof *plain)
        return "length of the test's buffer";
    for (size_t i = 0; i < encoding->count; i++) {
        const struct encoded_token *token = &encoding->tokens[i];
        size_t length;
        plain[i] = token->id;
        if (token->id != json_integer_value(json_array_get(ids, i)))
            return "id";
        if (token->begin != json_integer_value(json_array_get(offsets, 2 * i)) ||
            token->end != json_integer_value(json_array_get(offsets, 2 * i + 1)))
            return "offset";
        const json_t *token_text = json_array_get(tokens, i);
        const char *found = tokenizer_token_text(tokenizer, encoding, i, &length);
        if (tokens &&
            (length != json_string_length(token_text) || memcmp(found, json_string_value(token_text), length) != 0))
            return "token's text";
    }
    for (int skip = 0; skip < 2; skip++) {
        size_t length;
        const json_t *decoded = json_array_get(wanted, skip ? 3 : 2);
        char *found = tokenizer_decode(tokenizer, plain, encoding->count, skip, &length, &error);
        bool equal = found && length == json_string_length(decoded) && strlen(found) <= length &&
                     memcmp(found, json_string_value(decoded), length) == 0;
        free(found);
        if (!equal)
            return skip ? "text without special tokens" : "decoded text";
    }
    return NULL;
}

static int compare_all(const char *name, const struct tokenizer *tokenizer, const json_t *texts)
{
    json_t *results = read_json(name, ".results.json");
    struct tokenizer_encoding encoding = {0};
    int wrong = 0;
    assert_int_equal(json_array_size(results), json_array_size(texts));
    for (size_t i = 0; i < json_array_size(texts); i++) {
        const char *what = differs(tokenizer, json_array_get(texts, i), json_array_get(results, i), &encoding);
        if (what && ++wrong <= 3)
            print_message("%s, text %zu: another %s\n", name, i, what);
    }
    tokenizer_encoding_free(&encoding);
    json_decref(results);
    return wrong;
}

static void ids_are_those_of_all_reference_tokenizers(void **state)
{
    (void)state;
    char names[64][64];
    size_t count = list_names(names);
    json_t *texts = read_json("texts", ".json");
    int wrong = 0;
    assert_true(count >= 16);
    assert_true(json_array_size(texts) >= 200);
    for (size_t i = 0; i < count; i++) {
        struct tokenizer *tokenizer = open_file(names[i]);
        wrong += compare_all(names[i], tokenizer, texts);
        tokenizer_close(tokenizer);
    }
    json_decref(texts);
    assert_int_equal(wrong, 0);
}

struct reader_thread {
    pthread_t thread;
    const struct tokenizer *tokenizer;
    const json_t *texts;
    int wrong;
};

static void *compare_on_thread(void *argument)
{
    struct reader_thread *reader = argument;
    json_t *results = read_json("clip", ".results.json");
    struct tokenizer_encoding encoding = {0};
    for (size_t i = 0; i < json_array_size(reader->texts); i++)
        reader->wrong +=
            differs(reader->tokenizer, json_array_get(reader->texts, i), json_array_get(results, i), &encoding) != NULL;
    tokenizer_encoding_free(&encoding);
    json_decref(results);
    return NULL;
}

static void threads_share_a_tokenizer(void **state)
{
    (void)state;
    struct reader_thread readers[THREADS];
    struct tokenizer *tokenizer = open_file("clip"); /* Oniguruma runs the regular expression of this tokenizer */
    json_t *texts = read_json("texts", ".json");
    for (int i = 0; i < THREADS; i++) {
        readers[i] = (struct reader_thread){.tokenizer = tokenizer, .texts = texts};
        assert_int_equal(pthread_create(&readers[i].thread, NULL, compare_on_thread, &readers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(readers[i].thread, NULL);
        assert_int_equal(readers[i].wrong, 0);
    }
    json_decref(texts);
    tokenizer_close(tokenizer);
}

static void a_long_word_keeps_all_its_letters(void **state)
{
    (void)state;
    char names[64][64];
    size_t count = list_names(names), length = 200000;
    char *text = malloc(length);
    assert_non_null(text);
    memset(text, 'a', length);
    for (size_t i = 0; i < count; i++) {
        struct error error;
        struct tokenizer *tokenizer = open_file(names[i]);
        struct tokenizer_encoding encoding = {0};
        struct tokenizer_options options = {.max_length = TOKENIZER_NO_LIMIT};
        assert_int_equal(tokenizer_encode(tokenizer, text, length, &options, &encoding, &error), 0);
        assert_true(encoding.count > 0);
        assert_int_equal(encoding.tokens[0].begin, 0);
        assert_int_equal(encoding.tokens[encoding.count - 1].end, length);
        for (size_t j = 1; j < encoding.count; j++)
            assert_in_range(encoding.tokens[j].begin, encoding.tokens[j - 1].begin, encoding.tokens[j - 1].end);
        tokenizer_encoding_free(&encoding);
        tokenizer_close(tokenizer);
    }
    free(text);
}

/* Opens a tokenizer, and encodes a text with the options of its file. */
static struct tokenizer *encode_with(const char *json, const char *text, size_t length,
                                     struct tokenizer_encoding *encoding)
{
    struct error error;
    struct tokenizer *tokenizer;
    if (tokenizer_open(json, strlen(json), "file", &tokenizer, &error) != 0)
        fail_msg("%s", error.message);
    struct tokenizer_options options = tokenizer_options_of(tokenizer);
    assert_int_equal(tokenizer_encode(tokenizer, text, length, &options, encoding, &error), 0);
    return tokenizer;
}

/* In "abcd", "b c" is merged first. The merge "a b" is then impossible, and "bc d" comes before "a bc". */
static void an_outdated_merge_is_skipped(void **state)
{
    (void)state;
    static const char json[] =
        "{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"b\": 1, \"c\": 2, \"d\": 3, \"bc\": 4, "
        "\"ab\": 5, \"bcd\": 6, \"abc\": 7}, \"merges\": [\"b c\", \"a b\", \"bc d\", \"a bc\"]}}";
    enum { TIMES = 40 };
    char text[4 * TIMES];
    for (int i = 0; i < 4 * TIMES; i++)
        text[i] = "abcd"[i % 4];
    for (size_t length = 4; length <= sizeof text; length += sizeof text - 4) { /* a short word, and a long one */
        struct tokenizer_encoding encoding = {0};
        struct tokenizer *tokenizer = encode_with(json, text, length, &encoding);
        assert_int_equal(encoding.count, length / 2);
        for (size_t i = 0; i < encoding.count; i++)
            assert_int_equal(encoding.tokens[i].id, i % 2 ? 6 : 0);
        tokenizer_encoding_free(&encoding);
        tokenizer_close(tokenizer);
    }
}

/* The offsets are those of `tokenizers` 0.23.3. It also finds empty matches of the expression, but not directly behind
 * another match. */
static void empty_matches_split_the_text(void **state)
{
    (void)state;
    static const struct {
        const char *behavior;
        size_t count;
        uint32_t offsets[6][2];
    } cases[] = {{"Isolated", 6, {{0, 1}, {1, 3}, {3, 4}, {4, 5}, {5, 6}, {6, 7}}},
                 {"Removed", 4, {{0, 1}, {3, 4}, {4, 5}, {5, 6}}},
                 {"MergedWithNext", 5, {{0, 1}, {1, 4}, {4, 5}, {5, 6}, {6, 7}}},
                 {"MergedWithPrevious", 4, {{0, 3}, {3, 4}, {4, 5}, {5, 7}}}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char json[512];
        snprintf(
            json, sizeof json,
            "{\"pre_tokenizer\": {\"type\": \"Split\", \"pattern\": {\"Regex\": \"a*\"}, \"behavior\": \"%s\", "
            "\"invert\": false}, \"model\": {\"type\": \"WordLevel\", \"vocab\": {\"?\": 0}, \"unk_token\": \"?\"}}",
            cases[i].behavior);
        static const char text[] = "baacb\xc3\xa9"
                                   "a";
        struct tokenizer_encoding encoding = {0};
        struct tokenizer *tokenizer = encode_with(json, text, sizeof text - 1, &encoding);
        assert_int_equal(encoding.count, cases[i].count);
        for (size_t j = 0; j < encoding.count; j++) {
            assert_int_equal(encoding.tokens[j].begin, cases[i].offsets[j][0]);
            assert_int_equal(encoding.tokens[j].end, cases[i].offsets[j][1]);
        }
        tokenizer_encoding_free(&encoding);
        tokenizer_close(tokenizer);
    }
}

/* ---- Scanners ---- */
#define CL100K(contraction, digits)                            \
    contraction "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}" digits \
                "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

static const char *const scanned[] = {
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
    CL100K("(?i:'s|'t|'re|'ve|'m|'ll|'d)", "{1,3}"),
    CL100K("(?i:'s|'t|'re|'ve|'m|'ll|'d)", ""),
    "'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*|"
    "\\s*[\\r\\n]|\\s+(?!\\S)|\\s+",
};

/* Writes random characters that are relevant to the expressions. Returns the number of bytes. */
static size_t random_text(char *text, size_t most)
{
    static const char *const parts[] = {"'",
                                        "s",
                                        "S",
                                        "ll",
                                        "LL",
                                        "lL",
                                        "re",
                                        "VE",
                                        "d",
                                        "M",
                                        "t",
                                        "\xc5\xbf",
                                        " ",
                                        "  ",
                                        "\n",
                                        "\r",
                                        "\t",
                                        "a",
                                        "\xc3\xa9",
                                        "\xe4\xb8\xad",
                                        "1",
                                        "\xd9\xa3",
                                        "\xc2\xbd",
                                        ".",
                                        "!?",
                                        "\xcc\x81",
                                        "\xf0\x9f\x98\x80",
                                        "\xc2\xa0",
                                        "\xe3\x80\x80",
                                        "\xc2\x85"};
    size_t length = 0;
    for (int i = rand() % 14; i >= 0; i--) {
        const char *part = parts[(size_t)rand() % (sizeof parts / sizeof *parts)];
        assert_true(length + strlen(part) < most);
        memcpy(text + length, part, strlen(part));
        length += strlen(part);
    }
    return length;
}

static void expect_same_matches(struct pattern *scanner, struct pattern *expression,
                                const struct characters *characters, const char *text, size_t length)
{
    struct error error;
    struct pattern_search one, other;
    size_t begin, end, other_begin, other_end;
    int found;
    assert_int_equal(pattern_search_begin(&one, scanner, characters, text, length, &error), 0);
    assert_int_equal(pattern_search_begin(&other, expression, characters, text, length, &error), 0);
    do {
        found = pattern_search_next(&one, &begin, &end, &error);
        assert_int_equal(pattern_search_next(&other, &other_begin, &other_end, &error), found);
        if (found && (begin != other_begin || end != other_end))
            fail_msg("\"%.*s\": Oniguruma matches %zu to %zu, the scanner %zu to %zu", (int)length, text, other_begin,
                     other_end, begin, end);
    } while (found);
    pattern_search_end(&one);
    pattern_search_end(&other);
}

/* Scanners are C functions for some expressions. They must find the matches that Oniguruma finds. Oniguruma runs an
 * expression in a group, because there is no scanner for it. */
static void scanners_match_as_oniguruma_does(void **state)
{
    (void)state;
    static struct characters characters;
    const unsigned seed = 17;
    print_message("seed %u\n", seed);
    srand(seed);
    characters_init(&characters);
    for (size_t i = 0; i < sizeof scanned / sizeof *scanned; i++) {
        struct pattern scanner, expression;
        struct error error;
        char group[512], text[256];
        int length = snprintf(group, sizeof group, "(?:%s)", scanned[i]);
        assert_int_equal(pattern_compile(scanned[i], strlen(scanned[i]), "test", &scanner, &error), 0);
        assert_int_equal(pattern_compile(group, (size_t)length, "test", &expression, &error), 0);
        assert_int_not_equal(scanner.kind, PATTERN_EXPRESSION);
        assert_int_equal(expression.kind, PATTERN_EXPRESSION);
        for (int turn = 0; turn < 20000; turn++)
            expect_same_matches(&scanner, &expression, &characters, text, random_text(text, sizeof text));
        pattern_free(&scanner);
        pattern_free(&expression);
    }
}

static void tokens_have_ids_and_roles(void **state)
{
    (void)state;
    struct tokenizer *bert = open_file("bert");
    size_t length = 0;
    assert_int_equal(tokenizer_id(bert, "[MASK]", 6), 4);
    assert_int_equal(tokenizer_role_id(bert, TOKENIZER_MASK), 4);
    assert_int_equal(tokenizer_role_id(bert, TOKENIZER_PAD), 0);
    assert_int_equal(tokenizer_role_id(bert, TOKENIZER_UNK), 1);
    assert_int_equal(tokenizer_role_id(bert, TOKENIZER_BOS), -1);
    assert_memory_equal(tokenizer_token(bert, 2, &length), "[CLS]", 5);
    assert_int_equal(length, 5);
    assert_null(tokenizer_token(bert, -1, &length));
    assert_null(tokenizer_token(bert, (int32_t)tokenizer_ids(bert), &length));
    assert_int_equal(tokenizer_id(bert, "[NONE]", 6), -1);
    assert_true(tokenizer_special(bert, 2));
    assert_false(tokenizer_special(bert, 100));
    assert_int_equal(tokenizer_template_tokens(bert), 2);
    tokenizer_close(bert);
}

static void truncation_keeps_the_template(void **state)
{
    (void)state;
    struct error error;
    struct tokenizer *bert = open_file("bert");
    struct tokenizer_encoding whole = {0}, cut = {0};
    const char text[] = "the license of the program is the license";
    struct tokenizer_options options = {.add_special_tokens = true, .max_length = TOKENIZER_NO_LIMIT};
    assert_int_equal(tokenizer_encode(bert, text, sizeof text - 1, &options, &whole, &error), 0);
    assert_true(whole.count > 7);
    options.max_length = 5;
    assert_int_equal(tokenizer_encode(bert, text, sizeof text - 1, &options, &cut, &error), 0);
    assert_int_equal(cut.count, 5);
    assert_int_equal(cut.tokens[4].id, whole.tokens[whole.count - 1].id);
    for (int i = 0; i < 4; i++)
        assert_int_equal(cut.tokens[i].id, whole.tokens[i].id);
    options.truncate_left = true;
    assert_int_equal(tokenizer_encode(bert, text, sizeof text - 1, &options, &cut, &error), 0);
    assert_int_equal(cut.tokens[0].id, whole.tokens[0].id);
    for (size_t i = 1; i < 5; i++) {
        assert_int_equal(cut.tokens[i].id, whole.tokens[whole.count - 5 + i].id);
        assert_int_equal(cut.tokens[i].begin, whole.tokens[whole.count - 5 + i].begin);
    }
    options.max_length = 1; /* fewer than the tokens of the template */
    assert_int_equal(tokenizer_encode(bert, text, sizeof text - 1, &options, &cut, &error), 0);
    assert_int_equal(cut.count, 2);
    options.add_special_tokens = false;
    assert_int_equal(tokenizer_encode(bert, text, sizeof text - 1, &options, &cut, &error), 0);
    assert_int_equal(cut.count, 1);
    tokenizer_encoding_free(&whole);
    tokenizer_encoding_free(&cut);
    tokenizer_close(bert);
}

/* The three bytes of a surrogate are three characters, as in Python's bytes.decode(errors="replace"). */
static void invalid_utf8_counts_as_characters(void **state)
{
    (void)state;
    struct error error;
    struct tokenizer *gpt2 = open_file("gpt2");
    struct tokenizer_encoding broken = {0}, replaced = {0};
    struct tokenizer_options options = {.max_length = TOKENIZER_NO_LIMIT};
    const char text[] = "\xed\xa0\x80"
                        "a\xff";
    const char same[] = "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"
                        "a\xef\xbf\xbd";
    assert_int_equal(tokenizer_encode(gpt2, text, sizeof text - 1, &options, &broken, &error), 0);
    assert_int_equal(tokenizer_encode(gpt2, same, sizeof same - 1, &options, &replaced, &error), 0);
    assert_int_equal(broken.count, replaced.count);
    for (size_t i = 0; i < broken.count; i++) {
        assert_int_equal(broken.tokens[i].id, replaced.tokens[i].id);
        assert_int_equal(broken.tokens[i].end, replaced.tokens[i].end);
    }
    assert_int_equal(broken.tokens[broken.count - 1].end, 5);
    tokenizer_encoding_free(&broken);
    tokenizer_encoding_free(&replaced);
    tokenizer_close(gpt2);
}

/* ---- Refusals ---- */
#define MODEL "\"model\": {\"type\": \"WordLevel\", \"vocab\": {\"a\": 0, \"?\": 1}, \"unk_token\": \"?\"}"

static void refused(const char *json, const char *message)
{
    struct error error = {""};
    struct tokenizer *tokenizer;
    char expected[1100];
    snprintf(expected, sizeof expected, "file: %s", message);
    assert_int_equal(tokenizer_open(json, strlen(json), "file", &tokenizer, &error), -1);
    assert_string_equal(error.message, expected);
}

static void unknown_parts_are_refused_by_name(void **state)
{
    (void)state;
    refused("{\"version\": \"2.0\", " MODEL "}", "tokenizer: version: expected one of 1.0; found \"2.0\"");
    refused("{\"new\": 1, " MODEL "}", "tokenizer: unknown key \"new\"");
    refused("{}", "the key \"model\" is missing");
    refused("{\"normalizer\": {\"type\": \"Rot13\"}, " MODEL "}",
            "normalizer: type: expected one of BertNormalizer, Strip, StripAccents, NFC, NFD, NFKC, NFKD, Sequence, "
            "Lowercase, Nmt, Precompiled, Replace, Prepend, ByteLevel; found \"Rot13\"");
    refused("{\"normalizer\": {\"type\": \"NFC\", \"form\": 1}, " MODEL "}", "normalizer: unknown key \"form\"");
    refused("{\"pre_tokenizer\": {\"type\": \"FixedLength\", \"length\": 0}, " MODEL "}",
            "pre_tokenizer: length: expected an integer of at least 1");
    refused("{\"pre_tokenizer\": {\"type\": \"Split\", \"pattern\": {\"Regex\": \"(\"}, \"behavior\": \"Removed\", "
            "\"invert\": false}, " MODEL "}",
            "pre_tokenizer: the regular expression \"(\": end pattern with unmatched parenthesis");
    refused("{\"decoder\": {\"type\": \"Strip\", \"content\": \"ab\", \"start\": 0, \"stop\": 0}, " MODEL "}",
            "decoder: content: expected one character");
    refused("{\"post_processor\": {\"type\": \"TemplateProcessing\", \"single\": [{\"Sequence\": {\"id\": \"B\", "
            "\"type_id\": 0}}], \"pair\": [], \"special_tokens\": {}}, " MODEL "}",
            "post_processor: single: expected only sequence A, found sequence B: pairs of texts are not supported");
    refused("{\"truncation\": {\"max_length\": 8, \"strategy\": \"OnlySecond\", \"stride\": 0}, " MODEL "}",
            "truncation: strategy: expected one of LongestFirst, OnlyFirst; found \"OnlySecond\"");
}

#define ADDED(content)                                                                                         \
    "{\"id\": 9, \"content\": \"" content "\", \"single_word\": false, \"lstrip\": false, \"rstrip\": false, " \
    "\"normalized\": true, \"special\": false}"

static void models_that_contradict_themselves_are_refused(void **state)
{
    (void)state;
    refused("{\"model\": {\"type\": \"WordLevel\", \"vocab\": {\"a\": 0, \"b\": 0}, \"unk_token\": \"?\"}}",
            "model: vocab: two tokens have the id 0");
    refused("{\"model\": {\"type\": \"WordLevel\", \"vocab\": {\"a\": 4000000000}, \"unk_token\": \"?\"}}",
            "model: vocab: expected an id from 0 to 16777215 for \"a\", found 4000000000");
    refused("{\"model\": {\"type\": \"WordLevel\", \"vocab\": {\"a\": -1}, \"unk_token\": \"?\"}}",
            "model: vocab: expected \"text\": id after \"a\"");
    refused("{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0}, \"merges\": [[\"a\", \"a\"]]}}",
            "model: merges: \"aa\" is not in the vocabulary");
    refused("{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0}}}", "model: merges: expected a list");
    refused("{\"model\": {\"type\": \"Unigram\", \"vocab\": [[\"a\", 0.5]], \"unk_id\": 1}}",
            "model: unk_id: expected an index of vocab, below 1; found 1");
    refused("{\"model\": {\"type\": \"Unigram\", \"vocab\": [[\"a\", 1e999]]}}",
            "model: vocab: expected [\"text\", score] at index 0");
    refused("{\"normalizer\": {\"type\": \"Lowercase\"}, \"added_tokens\": [" ADDED("Day") ", " ADDED("day") "], " MODEL
                                                                                                             "}",
            "added_tokens: \"Day\" and \"day\" are the same text after normalization");
    refused("{\"added_tokens\": [" ADDED("a") ", 7], " MODEL "}", "added_tokens[1]: expected an object");
    refused("{\"added_tokens\": [{\"content\": \"a\"}], " MODEL "}", "added_tokens[0]: the key \"id\" is missing");
    refused("{\"normalizer\": {\"type\": \"Precompiled\", \"precompiled_charsmap\": \"AAA=\"}, " MODEL "}",
            "normalizer: precompiled_charsmap: expected at least 4 bytes in base64");
}

static void text_without_a_token_is_an_error(void **state)
{
    (void)state;
    static const char json[] = "{\"model\": {\"type\": \"WordLevel\", \"vocab\": {\"a\": 0}, \"unk_token\": \"?\"}}";
    struct error error;
    struct tokenizer *tokenizer;
    struct tokenizer_encoding encoding = {0};
    assert_int_equal(tokenizer_open(json, sizeof json - 1, "file", &tokenizer, &error), 0);
    struct tokenizer_options options = tokenizer_options_of(tokenizer);
    assert_int_equal(tokenizer_encode(tokenizer, "b", 1, &options, &encoding, &error), -1);
    assert_string_equal(error.message,
                        "the tokenizer has no token for \"b\", and its unk_token \"?\" is not in its vocabulary");
    assert_int_equal(encoding.count, 0);
    assert_int_equal(tokenizer_encode(tokenizer, "a", 1, &options, &encoding, &error), 0);
    assert_int_equal(encoding.count, 1);
    tokenizer_encoding_free(&encoding);
    tokenizer_close(tokenizer);
}

/* On a text of many a's that ends in b, the expression (a|aa)+$ needs a number of steps that is exponential in the
 * length. */
static void an_endless_regular_expression_is_stopped(void **state)
{
    (void)state;
    static const char json[] = "{\"pre_tokenizer\": {\"type\": \"Split\", \"pattern\": {\"Regex\": \"(a|aa)+$\"}, "
                               "\"behavior\": \"Removed\", \"invert\": false}, " MODEL "}";
    struct error error;
    struct tokenizer *tokenizer;
    struct tokenizer_encoding encoding = {0};
    assert_int_equal(tokenizer_open(json, sizeof json - 1, "file", &tokenizer, &error), 0);
    struct tokenizer_options options = tokenizer_options_of(tokenizer);
    char text[100];
    memset(text, 'a', sizeof text);
    text[sizeof text - 1] = 'b';
    assert_int_equal(tokenizer_encode(tokenizer, text, sizeof text, &options, &encoding, &error), -1);
    assert_string_equal(error.message, "a regular expression of the tokenizer needs too many steps for this text");
    tokenizer_encoding_free(&encoding);
    tokenizer_close(tokenizer);
}

/* The added token matches a line break and all white space behind it. It matches again at each line break in this white
 * space. */
static void added_tokens_that_overlap_are_bounded(void **state)
{
    (void)state;
    static const char json[] =
        "{\"added_tokens\": [{\"id\": 2, \"content\": \"\\n\", \"single_word\": false, \"lstrip\": false, "
        "\"rstrip\": true, \"normalized\": false, \"special\": false}], " MODEL "}";
    enum { LENGTH = 100000 };
    struct error error;
    struct tokenizer_encoding encoding = {0};
    struct tokenizer *tokenizer = encode_with(json, "a\n\n", 3, &encoding);
    assert_int_equal(encoding.count, 3);
    assert_int_equal(encoding.tokens[1].end, 3);
    assert_int_equal(encoding.tokens[2].begin, 2);
    char *text = malloc(LENGTH);
    assert_non_null(text);
    memset(text, '\n', LENGTH);
    struct tokenizer_options options = tokenizer_options_of(tokenizer);
    assert_int_equal(tokenizer_encode(tokenizer, text, LENGTH, &options, &encoding, &error), -1);
    const char *expected = "white space in this text belongs to several added tokens: ";
    assert_int_equal(strncmp(error.message, expected, strlen(expected)), 0);
    assert_non_null(strstr(error.message, " bytes are repeated, at most 865536 are supported"));
    free(text);
    tokenizer_encoding_free(&encoding);
    tokenizer_close(tokenizer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_are_those_of_all_reference_tokenizers),
        cmocka_unit_test(threads_share_a_tokenizer),
        cmocka_unit_test(a_long_word_keeps_all_its_letters),
        cmocka_unit_test(an_outdated_merge_is_skipped),
        cmocka_unit_test(empty_matches_split_the_text),
        cmocka_unit_test(scanners_match_as_oniguruma_does),
        cmocka_unit_test(tokens_have_ids_and_roles),
        cmocka_unit_test(truncation_keeps_the_template),
        cmocka_unit_test(invalid_utf8_counts_as_characters),
        cmocka_unit_test(unknown_parts_are_refused_by_name),
        cmocka_unit_test(models_that_contradict_themselves_are_refused),
        cmocka_unit_test(text_without_a_token_is_an_error),
        cmocka_unit_test(an_endless_regular_expression_is_stopped),
        cmocka_unit_test(added_tokens_that_overlap_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
