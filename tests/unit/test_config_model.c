#include "config/config.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static void parse(const char *text, struct model_config *config)
{
    struct error error = {""};
    if (model_config_parse(text, strlen(text), "config.json", config, &error) != 0)
        fail_msg("%s", error.message);
}

/* Expects that these `length` bytes are refused. The message begins with "config.json: " and contains `expected`. */
static void refuse_bytes(const char *text, size_t length, const char *expected)
{
    struct model_config config;
    memset(&config, 0xff, sizeof config);
    struct error error = {""};
    assert_int_equal(model_config_parse(text, length, "config.json", &config, &error), -1);
    if (strncmp(error.message, "config.json: ", 13) != 0 || !strstr(error.message, expected))
        fail_msg("'%s' is not in '%s'", expected, error.message);
    model_config_free(&config); /* the configuration is empty, and freeing it must be safe */
}

static void refuse(const char *text, const char *expected)
{
    refuse_bytes(text, strlen(text), expected);
}

static void reads_every_key(void **state)
{
    (void)state;
    struct model_config config;
    parse("{\"architecture\": \"linformer.LinformerLM\", \"kwargs\": {\"dim\": 8}, \"name\": \"tiny\", "
          "\"pooling\": \"last\", \"normalize\": false, \"padding\": \"autopad\", \"tokenizer\": {\"type\": \"byte\"}, "
          "\"auto_truncate\": true, \"ignore\": [\"ema_*\", \"step\"], \"labels\": [\"cat\", \"dog\"], "
          "\"image\": {\"size\": 32}}",
          &config);
    assert_string_equal(config.architecture, "linformer.LinformerLM");
    assert_string_equal(config.name, "tiny");
    assert_int_equal(json_integer_value(json_object_get(config.kwargs, "dim")), 8);
    assert_int_equal(config.pooling, POOLING_LAST);
    assert_false(config.normalize);
    assert_int_equal(config.padding, PADDING_AUTOPAD);
    assert_int_equal(config.tokenizer, TOKENIZER_BYTE);
    assert_int_equal(config.byte_offset, 3);
    assert_true(config.auto_truncate);
    assert_int_equal(json_array_size(config.ignore), 2);
    assert_string_equal(json_string_value(json_array_get(config.ignore, 1)), "step");
    assert_int_equal(json_array_size(config.labels), 2);
    assert_string_equal(json_string_value(json_array_get(config.labels, 0)), "cat");
    assert_int_equal(config.image.height, 32);
    model_config_free(&config);
    model_config_free(&config);
    assert_null(config.architecture);
    assert_null(config.ignore);
    assert_null(config.labels);
    parse("{\"architecture\": \"a\", \"tokenizer\": {\"offset\": 0, \"type\": \"byte\"}}", &config);
    assert_int_equal(config.byte_offset, 0);
    model_config_free(&config);
}

static void absent_keys_have_defaults(void **state)
{
    (void)state;
    struct model_config config;
    parse("{\"architecture\": \"a\"}", &config);
    assert_null(config.name);
    assert_int_equal(json_object_size(config.kwargs), 0);
    assert_int_equal(config.pooling, POOLING_MEAN);
    assert_true(config.normalize);
    assert_int_equal(config.padding, PADDING_DEFAULT);
    assert_int_equal(config.tokenizer, TOKENIZER_DEFAULT);
    assert_false(config.auto_truncate);
    assert_null(config.ignore);
    assert_null(config.labels);
    assert_int_equal(config.image.height, 0);
    model_config_free(&config);
    parse("{\"architecture\": \"a\", \"tokenizer\": null}", &config);
    assert_int_equal(config.tokenizer, TOKENIZER_NONE);
    model_config_free(&config);
}

static void reads_each_pooling_and_padding(void **state)
{
    (void)state;
    static const char *const paddings[] = {"slice", "zero", "masked", "autopad", "exact"};
    char text[100];
    struct model_config config;
    for (int i = 0; i < POOLING_COUNT; i++) {
        assert_int_equal(pooling_from_name(pooling_name((enum pooling)i)), i);
        snprintf(text, sizeof text, "{\"architecture\": \"a\", \"pooling\": \"%s\"}", pooling_name((enum pooling)i));
        parse(text, &config);
        assert_int_equal(config.pooling, i);
        model_config_free(&config);
    }
    for (int i = 0; i < 5; i++) {
        snprintf(text, sizeof text, "{\"architecture\": \"a\", \"padding\": \"%s\"}", paddings[i]);
        parse(text, &config);
        assert_int_equal(config.padding, PADDING_SLICE + i);
        assert_string_equal(padding_name(config.padding), paddings[i]);
        model_config_free(&config);
    }
    assert_int_equal(pooling_from_name("CLS"), POOLING_CLS);
    assert_int_equal(pooling_from_name("Mean"), POOLING_MEAN);
    assert_int_equal(pooling_from_name("sum"), -1);
    assert_int_equal(pooling_from_name(""), -1);
}

static void refuses_values_of_another_type(void **state)
{
    (void)state;
    refuse("{}", "\"architecture\" is missing");
    refuse("{\"architecture\": 3}", "architecture: expected a string that is not empty, found 3");
    refuse("{\"architecture\": \"\"}", "architecture: expected a string that is not empty");
    refuse("{\"architecture\": null}", "found null");
    refuse("{\"kwargs\": []}", "kwargs: expected an object, found a list");
    refuse("{\"name\": \"\"}", "name: expected a string that is not empty");
    refuse("{\"name\": \"a/b\"}", "name: expected a name without a slash, found \"a/b\"");
    refuse("{\"name\": 1.5}", "found the fraction 1.5");
    refuse("{\"pooling\": \"sum\"}", "pooling: expected mean, cls, last or max, found \"sum\"");
    refuse("{\"pooling\": null}", "found null");
    refuse("{\"pooling\": false}", "found false");
    refuse("{\"normalize\": 1}", "normalize: expected true or false, found 1");
    refuse("{\"padding\": \"default\"}", "padding: expected slice, zero, masked, autopad or exact, found \"default\"");
    refuse("{\"padding\": {}}", "found an object");
    refuse("{\"tokenizer\": true}",
           "tokenizer: expected the name of a file in the model's folder, {\"type\": \"byte\"} or null, found true");
    refuse("{\"tokenizer\": \"\"}", "tokenizer: expected the name of a file in the model's folder");
    refuse("{\"tokenizer\": \"../tokenizer.json\"}", "tokenizer: expected the name of a file in the model's folder");
    refuse("{\"tokenizer\": \"..\"}", "found \"..\"");
    refuse("{\"tokenizer\": {}}", "tokenizer: the key \"type\" is missing");
    refuse("{\"tokenizer\": {\"type\": \"bpe\"}}", "found \"bpe\"");
    refuse("{\"tokenizer\": {\"type\": \"byte\", \"vocab\": 1}}",
           "unknown key \"vocab\"; the known ones are type and offset");
    refuse("{\"tokenizer\": {\"offset\": 0}}", "tokenizer: the key \"type\" is missing");
    refuse("{\"tokenizer\": {\"type\": \"byte\", \"offset\": 1}}", "tokenizer: expected the offset 0 or 3, found 1");
    refuse("{\"tokenizer\": {\"type\": \"byte\", \"offset\": 4294967299}}", "the offset 0 or 3, found 4294967299");
    refuse("{\"tokenizer\": {\"type\": \"byte\", \"offset\": false}}", "the offset 0 or 3, found false");
    refuse("{\"auto_truncate\": \"yes\"}", "auto_truncate: expected true or false, found \"yes\"");
    refuse("{\"ignore\": \"ema_*\"}", "ignore: expected a list of tensor names");
    refuse("{\"ignore\": [\"ema_*\", 1]}", "ignore: expected strings that are not empty, found 1");
    refuse("{\"labels\": {\"0\": \"cat\"}}", "labels: expected a list of at least one string, found an object");
    refuse("{\"labels\": []}", "labels: expected a list of at least one string, found a list");
    refuse("{\"labels\": [\"cat\", \"\"]}", "labels: expected strings that are not empty, found \"\"");
    refuse("{\"ignore\": [\"\"]}", "ignore: expected strings that are not empty");
}

static void reads_prompts_and_refuses_wrong_ones(void **state)
{
    (void)state;
    struct model_config config;
    parse("{\"architecture\": \"a\", \"default_prompt\": \"q\", \"prompts\": {\"q\": \"query: \", \"none\": \"\"}}",
          &config);
    assert_string_equal(json_string_value(json_object_get(config.prompts, "q")), "query: ");
    assert_string_equal(config.default_prompt, "q");
    model_config_free(&config);
    assert_null(config.prompts);
    assert_null(config.default_prompt);
    refuse("{\"prompts\": [\"query: \"]}", "prompts: expected an object that maps names to texts");
    refuse("{\"prompts\": {\"q\": null}}", "prompts: q: expected a text, found null");
    refuse("{\"prompts\": {\"\": \"query: \"}}", "prompts: the name of a prompt is empty");
    refuse("{\"default_prompt\": 1}", "default_prompt: expected a string that is not empty, found 1");
    refuse("{\"architecture\": \"a\", \"default_prompt\": \"q\", \"prompts\": {\"a\": \"\", \"b\": \"\"}}",
           "default_prompt: found \"q\"; expected a name from \"prompts\": a, b");
    refuse("{\"architecture\": \"a\", \"default_prompt\": \"q\"}",
           "default_prompt: found \"q\"; expected a name from \"prompts\", which is missing or empty");
}

/* Only a model with a graph may set this key to true. A class has an argument `causal` instead. */
static void causal_is_only_for_models_with_a_graph(void **state)
{
    (void)state;
    struct model_config config;
    parse("{\"architecture\": \"module\", \"graph\": {}, \"causal\": true}", &config);
    assert_true(config.causal);
    model_config_free(&config);
    parse("{\"architecture\": \"a\", \"causal\": false}", &config);
    assert_false(config.causal);
    model_config_free(&config);
    refuse("{\"architecture\": \"a\", \"causal\": 1}", "causal: expected true or false, found 1");
    refuse("{\"architecture\": \"a\", \"causal\": true}", "causal: found true without a \"graph\"");
}

static void refuses_unknown_keys_and_names_the_known(void **state)
{
    (void)state;
    refuse(
        "{\"architecture\": \"a\", \"Pooling\": \"mean\"}",
        "unknown key \"Pooling\"; the known ones are architecture, kwargs, graph, name, pooling, normalize, padding, "
        "tokenizer, auto_truncate, eos_token, bos_token, pad_token, ignore, labels, image, causal, "
        "generation, prompts, default_prompt");
}

static void refuses_texts_that_are_no_json_object(void **state)
{
    (void)state;
    refuse("", "is empty");
    refuse_bytes(NULL, 0, "is empty");
    refuse("[]", "expected a JSON object, found a list");
    refuse("3", "line 1, column 1");
    refuse("{\"architecture\": \"a\",\n \"name\": }", "line 2, column 10");
    refuse("{\"architecture\": \"a\"} x", "line 1");
    refuse("{\"architecture\": \"a\",\n \"architecture\": \"b\"}", "line 2, column 15: duplicate object key");
    refuse("{\"kwargs\": {\"dim\": 1, \"dim\": 2}}", "duplicate object key");
    refuse("{\"name\": \"a\\u0000b\"}", "NUL character");
    refuse("{\"na\\u0000me\": 1}", "NUL character");
    refuse_bytes("{\"architecture\"\0: \"a\"}", 23, "line 1, column 16");
    refuse_bytes("{\"architecture\": \"a\"}\0", 22, "line 1");
    refuse_bytes("\0", 1, "line 1");
    refuse("{\"name\": \"\xff\"}", "unable to decode byte 0xff");
    refuse("{\"kwargs\": {\"dim\": 99999999999999999999}}", "integer");
    refuse("{\"kwargs\": {\"dim\": 1e999}}", "real number");
}

static void refuses_deep_nesting(void **state)
{
    (void)state;
    char text[10000] = "{\"kwargs\": ";
    memset(text + 11, '[', sizeof text - 12);
    text[sizeof text - 1] = '\0';
    refuse(text, "depth");
}

/* The block ends where the text is cut, so the address sanitizer finds reads beyond it. */
static void refuses_every_truncated_text(void **state)
{
    (void)state;
    const char *whole = "{\"architecture\": \"a\", \"kwargs\": {\"dim\": 1}, \"tokenizer\": {\"type\": \"byte\"}}";
    for (size_t length = 0; length < strlen(whole); length++) {
        char *text = malloc(length ? length : 1);
        assert_non_null(text);
        memcpy(text, whole, length);
        refuse_bytes(text, length, "");
        free(text);
    }
}

static void reads_a_file_and_refuses_large_and_missing_ones(void **state)
{
    (void)state;
    char path[] = "/tmp/linformerd-config-XXXXXX";
    int file = mkstemp(path);
    const char *text = "{\"architecture\": \"a\"}";
    assert_true(file >= 0 && write(file, text, strlen(text)) == (ssize_t)strlen(text));
    struct model_config config;
    struct error error = {""};
    assert_int_equal(model_config_read(path, &config, &error), 0);
    assert_string_equal(config.architecture, "a");
    model_config_free(&config);

    assert_int_equal(ftruncate(file, (16 << 20) + 1), 0);
    assert_int_equal(model_config_read(path, &config, &error), -1);
    assert_non_null(strstr(error.message, "expected at most 16777216"));
    close(file);
    unlink(path);
    assert_int_equal(model_config_read(path, &config, &error), -1);
    assert_non_null(strstr(error.message, path));
    model_config_free(&config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_every_key),
        cmocka_unit_test(absent_keys_have_defaults),
        cmocka_unit_test(reads_each_pooling_and_padding),
        cmocka_unit_test(refuses_values_of_another_type),
        cmocka_unit_test(reads_prompts_and_refuses_wrong_ones),
        cmocka_unit_test(causal_is_only_for_models_with_a_graph),
        cmocka_unit_test(refuses_unknown_keys_and_names_the_known),
        cmocka_unit_test(refuses_texts_that_are_no_json_object),
        cmocka_unit_test(refuses_deep_nesting),
        cmocka_unit_test(refuses_every_truncated_text),
        cmocka_unit_test(reads_a_file_and_refuses_large_and_missing_ones),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
