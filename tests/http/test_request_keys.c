/* Keys that have a meaning on several routes. The table of docs/http-api.md lists them. Other tests check the effect of
 * some of these keys. */
#include "tests/http/checkpoint.h"
#include "tests/http/daemon.h"
#include "tests/http/document.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PROMPTS "\"prompts\": {\"query\": \"a \", \"passage\": \"the \"},"

/* The graph of the module is: ids -> embed -> the mean of the rows -> linear. There are three classes. */
static const char classes_config[] =
    "{\"architecture\": \"module\", \"tokenizer\": {\"type\": \"byte\"}, " PROMPTS
    " \"graph\": {\"inputs\": [{\"name\": \"ids\", \"dtype\": \"int64\", \"shape\": [\"batch\", \"n\"]}],"
    " \"sizes\": {\"n\": {\"least\": 1, \"most\": 40}}, \"nodes\": ["
    "{\"op\": \"embedding\", \"to\": \"e\", \"weight\": \"@table\", \"indices\": \"ids\"},"
    "{\"op\": \"mean\", \"to\": \"m\", \"self\": \"e\", \"dim\": [1]},"
    "{\"op\": \"linear\", \"to\": \"y\", \"input\": \"m\", \"weight\": \"@w\", \"bias\": \"@b\"}],"
    " \"outputs\": {\"output\": \"y\"}}}";
static const struct checkpoint_shape classes_shapes[] = {{"table", 2, {259, 8}}, {"w", 2, {3, 8}}, {"b", 1, {3}}};

static char *folder;
static struct daemon *the_daemon;

/* Copies a model's folder, and adds prompts to its config.json. */
static void copy_with_prompts(const char *from, const char *name, char path[512])
{
    char command[2048];
    snprintf(path, 512, "%s/%s", folder, name);
    snprintf(command, sizeof command, "cp -r %s %s && sed 's|^{|{" PROMPTS "|' %s/config.json > %s/config.json", from,
             path, from, path);
    assert_int_equal(system(command), 0);
}

static int start(void **state)
{
    (void)state;
    char reader[512], writer[512], classes[512];
    folder = folder_make();
    copy_with_prompts("tests/models/bytes", "reader", reader);
    copy_with_prompts("weights/writer", "writer", writer);
    snprintf(classes, sizeof classes, "%s/classes", folder);
    struct checkpoint checkpoint = checkpoint_random(classes_config, classes_shapes, LENGTH(classes_shapes));
    checkpoint_write(&checkpoint, classes, 0);
    checkpoint_free(&checkpoint);
    the_daemon = daemon_start(ARGUMENTS("--model", reader, "--model", writer, "--model", classes));
    return 0;
}

static int stop(void **state)
{
    (void)state;
    daemon_stop(the_daemon);
    folder_remove(folder);
    free(folder);
    return 0;
}

/* ---- The table ---- */

#define TABLE_HEAD "| key | `/embed` |"

/* A column of the table: its heading, the path of a request, and a body without its last brace. */
static const struct {
    const char *column, *path, *body;
} columns[] = {
    {"/embed", "/embed", "{\"inputs\": \"a\""},
    {"/embed_all", "/embed_all", "{\"inputs\": \"a\""},
    {"/similarity", "/similarity", "{\"inputs\": {\"source_sentence\": \"a\", \"sentences\": [\"b\"]}"},
    {"/logits", "/logits", "{\"inputs\": \"a\""},
    {"/fill-mask", "/fill-mask", "{\"inputs\": \"[MASK]a\""},
    {"/predict", "/predict", "{\"model\": \"classes\", \"inputs\": \"a\""},
    {"/tokenize", "/tokenize", "{\"inputs\": \"a\""},
    {"/generate", "/generate", "{\"inputs\": \"a\""},
    {"/v1/embeddings", "/v1/embeddings", "{\"input\": \"a\""},
    {"/v1/completions", "/v1/completions", "{\"prompt\": \"a\", \"max_tokens\": 1"},
    {"/api/embed", "/api/embed", "{\"input\": \"a\""},
    {"/v2/…/infer", "/v2/models/builtin/infer",
     "{\"inputs\": [{\"name\": \"x\", \"datatype\": \"BYTES\", \"shape\": [1], \"data\": [\"a\"]}]"},
};

/* A row of the table: a key, with a valid value. */
static const struct {
    const char *key, *value;
} rows[] = {
    {"truncate", "true"},
    {"truncation_direction", "\"Left\""},
    {"truncate_prompt_tokens", "8"},
    {"add_special_tokens", "false"},
    {"prompt_name", "\"query\""},
    {"input_type", "\"query\""},
    {"encoding_format", "\"float\""},
    {"normalize", "true"},
    {"pooling", "\"cls\""},
    {"dimensions", "1"},
    {"top_k", "1"},
};

/* Posts the body with the key, and expects status 200. True if the answer does not name the key among the ignored
 * keys. */
static bool reads(size_t column, const char *format, size_t row)
{
    char keys[256], body[1024];
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    snprintf(keys, sizeof keys, format, rows[row].key, rows[row].value);
#pragma GCC diagnostic pop
    snprintf(body, sizeof body, "%s%s}", columns[column].body, keys);
    struct answer answer = daemon_post(the_daemon, columns[column].path, body);
    if (answer.status != 200)
        fail_msg("%s with %s: status %ld: %s", columns[column].path, keys, answer.status, answer.body);
    char *ignored = answer_header(&answer, "x-ignored-keys");
    bool read = !ignored || !strstr(ignored, rows[row].key);
    free(ignored);
    answer_free(&answer);
    return read;
}

/* Compares a cell with the behaviour of the route. Returns 1 if they differ. */
static int cell_is_wrong(size_t column, size_t row, const char *cell)
{
    bool beside = reads(column, ", \"%s\": %s", row);
    bool right = strcmp(cell, "yes") == 0          ? beside
                 : strcmp(cell, "–") == 0          ? !beside
                 : strcmp(cell, "parameters") == 0 ? !beside && reads(column, ", \"parameters\": {\"%s\": %s}", row)
                                                   : false;
    if (right)
        return 0;
    print_error("docs/http-api.md: %s on %s: the cell \"%s\" is wrong\n", rows[row].key, columns[column].column, cell);
    return 1;
}

/* Copies the next cell of a row, without spaces and grave accents. Advances *at past the cell. */
static void next_cell(const char **at, char cell[64])
{
    size_t length = strcspn(*at, "|");
    const char *begin = *at + strspn(*at, " `");
    const char *end = *at + length;
    while (end > begin && strchr(" `", end[-1]))
        end--;
    assert_true((size_t)(end - begin) < 64);
    memcpy(cell, begin, (size_t)(end - begin));
    cell[end - begin] = '\0';
    *at += length + ((*at)[length] == '|');
}

static const char *next_line(const char *at)
{
    return strchr(at, '\n') + 1;
}

static void the_api_page_lists_the_keys_of_each_route(void **state)
{
    (void)state;
    char *page = document_read("docs/http-api.md"), cell[64];
    const char *head = strstr(page, TABLE_HEAD);
    assert_non_null(head);
    const char *at = head + strlen("| key |");
    for (size_t column = 0; column < LENGTH(columns); column++) {
        next_cell(&at, cell);
        assert_string_equal(cell, columns[column].column);
    }
    assert_int_equal(*at, '\n');
    const char *line = next_line(next_line(head));
    int wrong = 0;
    for (size_t row = 0; row < LENGTH(rows); row++, line = next_line(line)) {
        at = line + 1;
        next_cell(&at, cell);
        assert_string_equal(cell, rows[row].key);
        for (size_t column = 0; column < LENGTH(columns); column++) {
            next_cell(&at, cell);
            wrong += cell_is_wrong(column, row, cell);
        }
    }
    assert_int_not_equal(*line, '|');
    free(page);
    assert_int_equal(wrong, 0);
}

/* ---- truncate_prompt_tokens ---- */

static void expect_same(const char *path, const char *body, const char *other)
{
    json_t *found = daemon_post_json(the_daemon, path, body), *expected = daemon_post_json(the_daemon, path, other);
    if (!json_equal(found, expected))
        fail_msg("%s: %s has another answer than %s", path, body, other);
    json_decref(found);
    json_decref(expected);
}

static void prompts_are_cut_to_a_number_of_tokens(void **state)
{
    (void)state;
    expect_same("/embed", "{\"inputs\": [70, 71, 72, 73], \"truncate_prompt_tokens\": 3}",
                "{\"inputs\": [70, 71, 72]}");
    expect_same("/embed",
                "{\"inputs\": [[70, 71, 72], [73]], \"truncate_prompt_tokens\": 2, \"truncation_direction\": \"left\"}",
                "{\"inputs\": [[71, 72], [73]]}");
    expect_same("/embed", "{\"inputs\": [\"abcd\", \"e\"], \"truncate_prompt_tokens\": 2}",
                "{\"inputs\": [\"ab\", \"e\"]}");
    expect_same("/logits", "{\"inputs\": \"abcd\", \"truncate_prompt_tokens\": 2}", "{\"inputs\": \"ab\"}");
    expect_same("/similarity",
                "{\"inputs\": {\"source_sentence\": \"abc\", \"sentences\": [\"bcd\"]}, "
                "\"parameters\": {\"truncate_prompt_tokens\": 2}}",
                "{\"inputs\": {\"source_sentence\": \"ab\", \"sentences\": [\"bc\"]}}");
    expect_same("/embed", "{\"inputs\": \"ab\", \"truncate_prompt_tokens\": 5000}", "{\"inputs\": \"ab\"}");
#define TEXT_TENSOR(text) \
    "{\"inputs\": [{\"name\": \"x\", \"datatype\": \"BYTES\", \"shape\": [1], \"data\": [" text "]}]"
    expect_same("/v2/models/builtin/infer",
                TEXT_TENSOR("\"abcd\"") ", \"parameters\": {\"truncate_prompt_tokens\": 2}}",
                TEXT_TENSOR("\"ab\"") "}");
}

static void truncate_prompt_tokens_minus_one_is_the_models_length(void **state)
{
    (void)state;
    char text[1101] = "", body[1300], other[1300];
    memset(text, 'a', sizeof text - 1);
    snprintf(body, sizeof body, "{\"inputs\": \"%s\", \"truncate_prompt_tokens\": -1}", text);
    snprintf(other, sizeof other, "{\"inputs\": \"%s\", \"truncate\": true}", text);
    expect_same("/embed", body, other);
    snprintf(body, sizeof body, "{\"inputs\": \"%s\", \"truncate_prompt_tokens\": 5000}", text);
    expect_same("/embed", body, other);
}

/* For the next token, the last tokens of a prompt matter most. */
static void completions_keep_the_last_tokens(void **state)
{
    (void)state;
    json_t *answer = daemon_post_json(the_daemon, "/v1/completions",
                                      "{\"prompt\": [9, 8, 7, 6, 5], \"max_tokens\": 4, \"temperature\": 0, "
                                      "\"truncate_prompt_tokens\": 2}");
    json_t *expected =
        daemon_post_json(the_daemon, "/v1/completions", "{\"prompt\": [6, 5], \"max_tokens\": 4, \"temperature\": 0}");
    assert_true(json_equal(json_object_get(answer, "choices"), json_object_get(expected, "choices")));
    assert_true(json_equal(json_object_get(answer, "usage"), json_object_get(expected, "usage")));
    json_decref(answer);
    json_decref(expected);
}

static void wrong_truncate_prompt_tokens_are_refused(void **state)
{
    (void)state;
    static const char *const wrong[] = {"0", "-2", "1.5", "\"3\"", "true", "[]"};
    for (size_t i = 0; i < LENGTH(wrong); i++) {
        char body[128];
        snprintf(body, sizeof body, "{\"inputs\": \"a\", \"truncate_prompt_tokens\": %s}", wrong[i]);
        expect_failure(the_daemon, "/embed", body, 422, "Validation", "truncate_prompt_tokens is ");
    }
}

/* ---- input_type ---- */

static void an_input_type_names_a_prompt(void **state)
{
    (void)state;
    static const struct {
        const char *type, *prompt;
    } types[] = {{"query", "query"},
                 {"search_query", "query"},
                 {"passage", "passage"},
                 {"document", "passage"},
                 {"search_document", "passage"}};
    for (size_t i = 0; i < LENGTH(types); i++) {
        char typed[128], named[128];
        snprintf(typed, sizeof typed, "{\"inputs\": \"dog\", \"input_type\": \"%s\"}", types[i].type);
        snprintf(named, sizeof named, "{\"inputs\": \"dog\", \"prompt_name\": \"%s\"}", types[i].prompt);
        expect_same("/embed", typed, named);
    }
    expect_same("/embed", "{\"inputs\": \"dog\", \"input_type\": \"query\"}", "{\"inputs\": \"a dog\"}");
    expect_same("/embed", "{\"inputs\": \"dog\", \"input_type\": \"query\", \"prompt_name\": \"passage\"}",
                "{\"inputs\": \"the dog\"}");
    struct answer answer =
        daemon_post(the_daemon, "/embed", "{\"inputs\": \"dog\", \"input_type\": \"classification\"}");
    char *ignored = answer_header(&answer, "x-ignored-keys");
    assert_int_equal(answer.status, 200);
    assert_string_equal(ignored ? ignored : "(no header)", "input_type");
    free(ignored);
    answer_free(&answer);
}

/* ---- Vectors of tokens ---- */

static void vectors_of_tokens_are_normalised_and_cut(void **state)
{
    (void)state;
    json_t *whole = daemon_post_json(the_daemon, "/embed_all", "{\"inputs\": \"ab\"}");
    json_t *found =
        daemon_post_json(the_daemon, "/embed_all", "{\"inputs\": \"ab\", \"normalize\": true, \"dimensions\": 3}");
    for (size_t token = 0; token < 2; token++) {
        const json_t *long_one = json_array_get(json_array_get(whole, 0), token);
        const json_t *vector = json_array_get(json_array_get(found, 0), token);
        double squares = 0;
        assert_int_equal(json_array_size(vector), 3);
        assert_true(json_array_size(long_one) > 3);
        for (size_t i = 0; i < 3; i++)
            squares += pow(json_number_at(long_one, i), 2);
        for (size_t i = 0; i < 3; i++)
            assert_true(fabs(json_number_at(vector, i) - json_number_at(long_one, i) / sqrt(squares)) < 1e-6);
    }
    json_decref(whole);
    json_decref(found);
    expect_failure(the_daemon, "/embed_all", "{\"inputs\": \"a\", \"dimensions\": 100000}", 422, "Validation",
                   "dimensions is 100000");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_api_page_lists_the_keys_of_each_route),
        cmocka_unit_test(prompts_are_cut_to_a_number_of_tokens),
        cmocka_unit_test(truncate_prompt_tokens_minus_one_is_the_models_length),
        cmocka_unit_test(completions_keep_the_last_tokens),
        cmocka_unit_test(wrong_truncate_prompt_tokens_are_refused),
        cmocka_unit_test(an_input_type_names_a_prompt),
        cmocka_unit_test(vectors_of_tokens_are_normalised_and_cut),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
