/* Texts through the tokenizer.json of a model, on several routes. Expected ids and offsets come from the Python package
 * `tokenizers` (tests/tokenizers/reference). */
#define _GNU_SOURCE /* asprintf */
#include "tests/http/checkpoint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REFERENCE "tests/tokenizers/reference"
#define VOCABULARY 820
#define LENGTH_LIMIT 40 /* maximum number of tokens of an item */
#define DIM 8

/* The graph of the module begins with "ids -> embed". "linear" follows, or for classes "the mean of the rows ->
 * linear". */
#define GRAPH                                                                                             \
    "\"graph\": {\"inputs\": [{\"name\": \"ids\", \"dtype\": \"int64\", \"shape\": [\"batch\", \"n\"]}]," \
    " \"sizes\": {\"n\": {\"least\": 1, \"most\": 40}}, \"nodes\": ["                                     \
    "{\"op\": \"embedding\", \"to\": \"e\", \"weight\": \"@table\", \"indices\": \"ids\"},"
static const char words_config[] =
    "{\"architecture\": \"module\", %s " GRAPH
    "{\"op\": \"linear\", \"to\": \"y\", \"input\": \"e\", \"weight\": \"@w\", \"bias\": \"@b\"}],"
    " \"outputs\": {\"output\": \"y\"}}}";
static const char classes_config[] =
    "{\"architecture\": \"module\", \"labels\": [\"cat\", \"dog\", \"fish\"], " GRAPH
    "{\"op\": \"mean\", \"to\": \"m\", \"self\": \"e\", \"dim\": [1]},"
    "{\"op\": \"linear\", \"to\": \"y\", \"input\": \"m\", \"weight\": \"@w\", \"bias\": \"@b\"}],"
    " \"outputs\": {\"output\": \"y\"}}}";

static char *folder;
static struct daemon *the_daemon;

static char *path_of(const char *name, const char *file)
{
    char *path = NULL;
    assert_true(asprintf(&path, "%s/%s%s%s", folder, name, *file ? "/" : "", file) > 0);
    return path;
}

static void write_text(const char *path, const char *text, size_t length)
{
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, length, file), length);
    fclose(file);
}

static void copy_tokenizer(const char *name, const char *tokenizer)
{
    char from[256], *to = path_of(name, "tokenizer.json");
    struct error error;
    size_t length;
    snprintf(from, sizeof from, REFERENCE "/%s.json", tokenizer);
    char *json = file_read(from, SIZE_MAX / 2, &length, &error);
    assert_non_null(json);
    write_text(to, json, length);
    free(json);
    free(to);
}

/* Writes a model with `vocabulary` ids. Its outputs are logits over the ids, or over three classes. `keys` ends in a
 * comma. */
static void write_model(const char *name, const char *tokenizer, const char *keys, int64_t vocabulary, bool classes)
{
    const struct checkpoint_shape shapes[] = {{"table", 2, {vocabulary, DIM}},
                                              {"w", 2, {classes ? 3 : vocabulary, DIM}},
                                              {"b", 1, {classes ? 3 : vocabulary}}};
    char config[2048], *path = path_of(name, "");
    snprintf(config, sizeof config, classes ? classes_config : words_config, keys);
    struct checkpoint checkpoint = checkpoint_random(config, shapes, LENGTH(shapes));
    checkpoint_write(&checkpoint, path, 0);
    checkpoint_free(&checkpoint);
    if (tokenizer)
        copy_tokenizer(name, tokenizer);
    free(path);
}

/* Most models have the name of their tokenizer. "classes" is a model of classes, and "plain" has no tokenizer. */
static const char *const names[] = {"bert", "llama3", "t5", "pieces", "roberta", "cutting", "classes", "plain"};

static int start(void **state)
{
    (void)state;
    char *arguments[2 * LENGTH(names) + 1] = {NULL};
    folder = folder_make();
    for (size_t i = 0; i < 5; i++)
        write_model(names[i], names[i], "", VOCABULARY, false);
    write_model("cutting", "bert", "\"auto_truncate\": true,", VOCABULARY, false);
    write_model("classes", "bert", "", VOCABULARY, true);
    write_model("plain", NULL, "", VOCABULARY, false);
    for (size_t i = 0; i < LENGTH(names); i++) {
        arguments[2 * i] = "--model";
        arguments[2 * i + 1] = path_of(names[i], "");
    }
    the_daemon = daemon_start((const char *const *)arguments);
    for (size_t i = 0; i < LENGTH(names); i++)
        free(arguments[2 * i + 1]);
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

static json_t *read_reference(const char *name)
{
    char path[256];
    snprintf(path, sizeof path, REFERENCE "/%s.json", name);
    return json_of_file(path);
}

/* Posts the body that json_pack made, and drops its reference. */
static json_t *post(const char *path, json_t *body)
{
    char *text = json_dumps(body, 0);
    json_t *answer = daemon_post_json(the_daemon, path, text);
    free(text);
    json_decref(body);
    return answer;
}

/* ---- /tokenize and /decode ---- */

static void compare_tokens(const char *name, size_t text, const json_t *tokens, const json_t *wanted)
{
    const json_t *ids = json_array_get(wanted, 0), *offsets = json_array_get(wanted, 1), *token;
    size_t i;
    assert_int_equal(json_array_size(tokens), json_array_size(ids));
    json_array_foreach (tokens, i, token) {
        const json_t *begin = json_object_get(token, "start"), *end = json_object_get(token, "stop");
        bool special = json_is_true(json_object_get(token, "special"));
        if (!json_equal(json_object_get(token, "id"), json_array_get(ids, i)))
            fail_msg("%s, text %zu: another id at %zu", name, text, i);
        assert_int_equal(json_is_null(begin), special);
        assert_int_equal(json_is_null(end), special);
        if (!special && (!json_equal(begin, json_array_get(offsets, 2 * i)) ||
                         !json_equal(end, json_array_get(offsets, 2 * i + 1))))
            fail_msg("%s, text %zu: another place at %zu", name, text, i);
    }
}

/* The texts have many scripts. The tokenizers are WordPiece, BPE and Unigram with templates, and Unigram with NFKC. */
static void tokens_are_those_of_the_reference(void **state)
{
    (void)state;
    json_t *texts = read_reference("texts");
    for (size_t n = 0; n < 4; n++) {
        char file[64];
        snprintf(file, sizeof file, "%s.results", names[n]);
        json_t *results = read_reference(file);
        json_t *answer = post("/tokenize", json_pack("{s:s, s:O}", "model", names[n], "inputs", texts));
        assert_int_equal(json_array_size(answer), json_array_size(texts));
        for (size_t i = 0; i < json_array_size(texts); i++)
            compare_tokens(names[n], i, json_array_get(answer, i), json_array_get(results, i));
        json_decref(answer);
        json_t *ids = json_array(), *decoded[2];
        for (size_t i = 0; i < json_array_size(texts); i++)
            json_array_append(ids, json_array_get(json_array_get(results, i), 0));
        for (int skip = 0; skip < 2; skip++)
            decoded[skip] = post(
                "/decode", json_pack("{s:s, s:O, s:b}", "model", names[n], "ids", ids, "skip_special_tokens", skip));
        for (size_t i = 0; i < json_array_size(texts); i++)
            for (int skip = 0; skip < 2; skip++)
                assert_true(json_equal(json_array_get(decoded[skip], i),
                                       json_array_get(json_array_get(results, i), skip ? 3 : 2)));
        json_decref(decoded[0]);
        json_decref(decoded[1]);
        json_decref(ids);
        json_decref(results);
    }
    json_decref(texts);
}

static void without_special_tokens_the_template_is_left_out(void **state)
{
    (void)state;
    json_t *with = post("/tokenize", json_pack("{s:s}", "inputs", "a cat"));
    json_t *without = post("/tokenize", json_pack("{s:s, s:b}", "inputs", "a cat", "add_special_tokens", 0));
    json_t *tokens = json_array_get(with, 0), *first = json_array_get(tokens, 0);
    assert_string_equal(json_string_value(json_object_get(first, "text")), "[CLS]");
    assert_true(json_is_true(json_object_get(first, "special")));
    json_array_remove(tokens, json_array_size(tokens) - 1);
    json_array_remove(tokens, 0);
    assert_true(json_equal(with, without));
    json_decref(with);
    json_decref(without);
}

/* ---- A text gives what its ids give ---- */

/* Returns the ids of the first text of the reference with `least` to `most` tokens. *text is the text. */
static json_t *ids_of_text(const char *name, size_t least, size_t most, json_t **text)
{
    char file[64];
    snprintf(file, sizeof file, "%s.results", name);
    json_t *texts = read_reference("texts"), *results = read_reference(file), *ids = NULL;
    for (size_t i = 0; !ids && i < json_array_size(texts); i++) {
        json_t *found = json_array_get(json_array_get(results, i), 0);
        if (json_array_size(found) < least || json_array_size(found) > most)
            continue;
        ids = json_incref(found);
        *text = json_incref(json_array_get(texts, i));
    }
    assert_non_null(ids);
    json_decref(texts);
    json_decref(results);
    return ids;
}

static const struct {
    const char *path, *key, *model;
} routes[] = {{"/embed", "inputs", "bert"},      {"/embed_all", "inputs", "llama3"}, {"/logits", "inputs", "t5"},
              {"/v1/embeddings", "input", "t5"}, {"/predict", "inputs", "classes"},  {"/", "inputs", "classes"},
              {"/embed", "inputs", "pieces"}};

static json_t *ask(size_t route, json_t *input, json_t *more)
{
    json_t *body = json_pack("{s:s, s:O}", "model", routes[route].model, routes[route].key, input);
    if (more)
        json_object_update(body, more);
    json_decref(more);
    return post(routes[route].path, body);
}

/* Returns the name of the reference tokenizer that the route's model uses. */
static const char *tokenizer_of(size_t route)
{
    return strcmp(routes[route].model, "classes") == 0 ? "bert" : routes[route].model;
}

static void every_route_accepts_texts(void **state)
{
    (void)state;
    for (size_t r = 0; r < LENGTH(routes); r++) {
        json_t *text, *ids = ids_of_text(tokenizer_of(r), 8, LENGTH_LIMIT, &text);
        json_t *found = ask(r, text, NULL), *wanted = ask(r, ids, NULL);
        if (!json_equal(found, wanted))
            fail_msg("%s: a text gives something else than its ids", routes[r].path);
        if (strcmp(routes[r].path, "/v1/embeddings") == 0)
            assert_int_equal(json_integer_value(json_object_get(json_object_get(found, "usage"), "prompt_tokens")),
                             json_array_size(ids));
        json_decref(found);
        json_decref(wanted);
        json_decref(text);
        json_decref(ids);
    }
}

/* Returns the ids that remain of a text that is too long. The `front` and `back` tokens of the template are kept. */
static json_t *cut(const json_t *ids, size_t front, size_t back, bool left)
{
    json_t *kept = json_array();
    size_t count = json_array_size(ids), room = LENGTH_LIMIT - front - back;
    for (size_t i = 0; i < front; i++)
        json_array_append(kept, json_array_get(ids, i));
    for (size_t i = 0; i < room; i++)
        json_array_append(kept, json_array_get(ids, left ? count - back - room + i : front + i));
    for (size_t i = 0; i < back; i++)
        json_array_append(kept, json_array_get(ids, count - back + i));
    return kept;
}

static void every_route_truncates_texts_on_request(void **state)
{
    (void)state;
    for (size_t r = 0; r < LENGTH(routes); r++) {
        const char *tokenizer = tokenizer_of(r);
        bool front = strcmp(tokenizer, "bert") == 0 || strcmp(tokenizer, "llama3") == 0;
        bool back = strcmp(tokenizer, "bert") == 0 || strcmp(tokenizer, "t5") == 0;
        json_t *text, *ids = ids_of_text(tokenizer, LENGTH_LIMIT + 5, 1000, &text);
        char *body, part[32];
        json_t *long_body = json_pack("{s:s, s:O}", "model", routes[r].model, routes[r].key, text);
        body = json_dumps(long_body, 0);
        struct answer refused = daemon_post(the_daemon, routes[r].path, body);
        snprintf(part, sizeof part, " has %zu tokens", json_array_size(ids));
        assert_in_range(refused.status, 400, 422);
        assert_non_null(strstr(refused.body, part));
        assert_non_null(strstr(refused.body, "set truncate to true"));
        answer_free(&refused);
        free(body);
        json_decref(long_body);
        for (int left = 0; left < 2; left++) {
            json_t *kept = cut(ids, front, back, left);
            json_t *found =
                ask(r, text, json_pack("{s:b, s:s}", "truncate", 1, "truncation_direction", left ? "Left" : "Right"));
            json_t *wanted = ask(r, kept, NULL);
            if (!json_equal(found, wanted))
                fail_msg("%s: cut on the %s is something else", routes[r].path, left ? "left" : "right");
            json_decref(found);
            json_decref(wanted);
            json_decref(kept);
        }
        json_decref(text);
        json_decref(ids);
    }
}

static void auto_truncate_in_config_json_truncates_texts(void **state)
{
    (void)state;
    json_t *text, *ids = ids_of_text("bert", LENGTH_LIMIT + 5, 1000, &text), *kept = cut(ids, 1, 1, false);
    json_t *found = post("/embed", json_pack("{s:s, s:O}", "model", "cutting", "inputs", text));
    json_t *wanted = post("/embed", json_pack("{s:s, s:O}", "model", "cutting", "inputs", kept));
    assert_true(json_equal(found, wanted));
    json_t *body = json_pack("{s:s, s:O, s:b}", "model", "cutting", "inputs", text, "truncate", 0);
    char *dumped = json_dumps(body, 0);
    expect_failure(the_daemon, "/embed", dumped, 422, "Validation", "tokens, model \"cutting\" accepts at most 40");
    free(dumped);
    json_decref(body);
    json_decref(found);
    json_decref(wanted);
    json_decref(kept);
    json_decref(text);
    json_decref(ids);
}

/* ---- /logits, the mask ---- */

static void the_best_tokens_have_their_texts(void **state)
{
    (void)state;
    json_t *answer =
        daemon_post_json(the_daemon, "/logits", "{\"inputs\": \"a [MASK]\", \"positions\": [2], \"top_k\": 820}");
    const json_t *first = json_array_get(answer, 0), *id;
    const json_t *ids = json_array_get(json_object_get(first, "tokens"), 0);
    const json_t *texts = json_array_get(json_object_get(first, "text"), 0);
    size_t i, found = 0;
    assert_int_equal(json_array_size(ids), VOCABULARY);
    assert_int_equal(json_array_size(texts), VOCABULARY);
    json_array_foreach (ids, i, id) {
        const char *text = json_string_value(json_array_get(texts, i));
        static const struct {
            json_int_t id;
            const char *text;
        } known[] = {{4, "[MASK]"}, {2, "[CLS]"}, {43, "a"}, {373, "##b"}, {819, ""}};
        for (size_t k = 0; k < LENGTH(known); k++) {
            if (json_integer_value(id) != known[k].id)
                continue;
            assert_string_equal(text, known[k].text);
            found++;
        }
    }
    assert_int_equal(found, 5);
    json_decref(answer);
}

static void every_tokenizer_reads_mask_in_brackets_as_its_mask(void **state)
{
    (void)state;
    json_t *found = post("/embed", json_pack("{s:s, s:s}", "model", "roberta", "inputs", "a [MASK] b"));
    json_t *wanted = post("/embed", json_pack("{s:s, s:s}", "model", "roberta", "inputs", "a <mask> b"));
    json_t *other = post("/embed", json_pack("{s:s, s:s}", "model", "roberta", "inputs", "a [MUSK] b"));
    assert_true(json_equal(found, wanted));
    assert_false(json_equal(found, other));
    json_decref(found);
    json_decref(wanted);
    json_decref(other);
}

/* ---- /v2 ---- */

/* The same batch in four forms. */
static const char *const batches[] = {
    "{\"inputs\": [{\"name\": \"ids\", \"datatype\": \"BYTES\", \"shape\": [2], \"data\": [\"ab\", \"[MASK]b\"]}]}",
    "{\"inputs\": [{\"name\": \"ids\", \"datatype\": \"BYTES\", \"shape\": [2, 1], "
    "\"data\": [[\"ab\"], [\"[MASK]b\"]]}]}",
    "{\"inputs\": [{\"name\": \"ids\", \"datatype\": \"INT64\", \"shape\": [2, 4], "
    "\"data\": [2, 43, 373, 3, 2, 4, 44, 3]}]}",
    "{\"inputs\": [{\"name\": \"input_text\", \"datatype\": \"BYTES\", \"shape\": [2], "
    "\"data\": [\"ab\", \"[MASK]b\"]}]}",
};

static void tensors_of_bytes_in_json_are_read_as_texts(void **state)
{
    (void)state;
    json_t *answers[4];
    for (size_t i = 0; i < LENGTH(batches); i++)
        answers[i] = daemon_post_json(the_daemon, "/v2/models/bert/infer", batches[i]);
    for (size_t i = 1; i < LENGTH(batches); i++) {
        assert_true(json_equal(answers[0], answers[i]));
        json_decref(answers[i]);
    }
    json_decref(answers[0]);
}

/* The batch with binary data. */
static const char binary[] = "{\"inputs\": [{\"name\": \"ids\", \"datatype\": \"BYTES\", \"shape\": [2], "
                             "\"parameters\": {\"binary_data_size\": 17}}]}\x02\0\0\0ab\x07\0\0\0[MASK]b";
#define BINARY_SIZE 17

static struct answer call_binary(const char *body, size_t length)
{
    char header[64];
    snprintf(header, sizeof header, "Inference-Header-Content-Length: %zu", sizeof binary - 1 - BINARY_SIZE);
    struct call call = {.path = "/v2/models/bert/infer",
                        .body = body,
                        .length = length,
                        .headers = {header, "Content-Type: application/octet-stream"}};
    return daemon_call(the_daemon, &call);
}

static void binary_tensors_of_bytes_are_read_as_texts(void **state)
{
    (void)state;
    struct answer answer = call_binary(binary, sizeof binary - 1);
    json_t *same = daemon_post_json(the_daemon, "/v2/models/bert/infer", batches[0]);
    assert_true(json_equal(answer.json, same));
    answer_free(&answer);
    json_decref(same);
    for (size_t cut_at = 1; cut_at < BINARY_SIZE; cut_at++) {
        char body[sizeof binary], size[24];
        memcpy(body, binary, sizeof binary);
        snprintf(size, sizeof size, "%2zu", cut_at);
        memcpy(strstr(body, "17}"), size, 2);
        answer = call_binary(body, sizeof binary - 1 - BINARY_SIZE + cut_at);
        assert_int_equal(answer.status, 400);
        answer_free(&answer);
    }
}

static void wrong_tensors_of_bytes_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *body, *part;
    } refused[] = {
        {"{\"inputs\": [{\"name\": \"ids\", \"datatype\": \"BYTES\", \"shape\": [2], \"data\": [\"ab\", \"b\"]}]}",
         "their numbers of tokens differ"},
        {"{\"inputs\": [{\"name\": \"ids\", \"datatype\": \"BYTES\", \"shape\": [3], \"data\": [\"ab\", \"b\"]}]}",
         "data has 2 elements, but its shape requires 3 texts"},
        {"{\"inputs\": [{\"name\": \"ids\", \"datatype\": \"BYTES\", \"shape\": [1], \"data\": [7]}]}",
         "a string was expected"},
        {"{\"inputs\": [{\"name\": \"ids\", \"datatype\": \"BYTES\", \"shape\": [1, 2], \"data\": [\"a\", \"b\"]}]}",
         "has size 2 in dimension 1; expected 1, or the shape [batch]"},
        {"{\"inputs\": [{\"name\": \"input_text\", \"datatype\": \"INT64\", \"shape\": [1], \"data\": [5]}]}",
         "input \\\"input_text\\\" is unknown"},
        {"{\"parameters\": {\"truncate\": 1}, \"inputs\": []}", "parameter truncate is an integer"},
        {"{\"parameters\": {\"truncation_direction\": \"up\"}, \"inputs\": []}", "truncation_direction is "},
    };
    for (size_t i = 0; i < LENGTH(refused); i++) {
        struct answer answer = daemon_post(the_daemon, "/v2/models/bert/infer", refused[i].body);
        if (answer.status != 400 || !strstr(answer.body, refused[i].part))
            fail_msg("\"%s\" is not in: %ld %s", refused[i].part, answer.status, answer.body);
        answer_free(&answer);
    }
}

/* ---- Hostile texts ---- */

static void hostile_texts_harm_no_later_request(void **state)
{
    (void)state;
    enum { LENGTH_BYTES = 5 << 20 };
    char *body = malloc(LENGTH_BYTES + 128);
    for (int letters = 0; letters < 2; letters++) {
        int at = sprintf(body, "{\"truncate\": true, \"inputs\": \"");
        for (int i = 0; i < LENGTH_BYTES; i++)
            body[at + i] = letters ? 'a' : "\xEF\xB7\xBA"[i % 3];
        strcpy(body + at + LENGTH_BYTES - LENGTH_BYTES % 3, "\"}");
        struct answer answer = daemon_post(the_daemon, "/embed", body);
        /* 413 comes from --payload-limit. 422 or 429 come from the limit of memory, which depends on the machine's
         * memory. */
        if (answer.status != 200 && answer.status != 413 && answer.status != 422 && answer.status != 429)
            fail_msg("%ld %s", answer.status, answer.body);
        answer_free(&answer);
    }
    free(body);
    expect_failure(the_daemon, "/embed", "{\"inputs\": \"\\ud800\"}", 400, "Validation", "not JSON");
    json_decref(daemon_post_json(the_daemon, "/embed", "{\"inputs\": \"a\\u0000b\"}"));
    json_t *tokens = daemon_post_json(the_daemon, "/tokenize", "{\"inputs\": \"a\\u0000b\", \"model\": \"llama3\"}");
    assert_true(json_array_size(json_array_get(tokens, 0)) >= 3);
    json_decref(tokens);
    expect_failure(the_daemon, "/embed", "{\"inputs\": \"\"}", 422, "Validation", "inputs is empty");
    expect_failure(the_daemon, "/embed", "{\"inputs\": [\"a\", \"\"]}", 422, "Validation", "inputs[1] is empty");
    expect_failure(the_daemon, "/embed", "{\"inputs\": \" \", \"add_special_tokens\": false}", 422, "Validation",
                   "inputs has no tokens");
    expect_failure(the_daemon, "/decode", "{\"ids\": [598]}", 422, "Validation", "below 598");
}

/* ---- Loading ---- */

static void two_models_have_two_tokenizers(void **state)
{
    (void)state;
    json_t *info = NULL;
    struct answer answer = daemon_get(the_daemon, "/info");
    info = json_object_get(answer.json, "models");
    assert_string_equal(json_string_value(json_object_get(json_array_get(info, 0), "tokenizer")), "tokenizer.json");
    assert_int_equal(json_integer_value(json_object_get(json_array_get(info, 0), "template_tokens")), 2);
    assert_int_equal(json_integer_value(json_object_get(json_array_get(info, 1), "template_tokens")), 1);
    assert_true(json_is_null(json_object_get(json_array_get(info, 7), "tokenizer")));
    answer_free(&answer);
    expect_failure(the_daemon, "/embed", "{\"model\": \"plain\", \"inputs\": \"a\"}", 422, "Validation",
                   "inputs is a text, but model \"plain\" has no tokenizer: send lists of ids");
}

static void expect_refused(const char *name, const char *part)
{
    char *path = path_of(name, ""), *said = daemon_refused(ARGUMENTS("--check", "--model", path));
    if (!strstr(said, part))
        fail_msg("\"%s\" is not in: %s", part, said);
    free(said);
    free(path);
}

static void tokenizers_that_do_not_fit_are_refused_at_load(void **state)
{
    (void)state;
    write_model("small", "bert", "", 597, false);
    expect_refused("small", "returns ids up to 597, but the model accepts only ids below 597");
    write_model("missing", NULL, "\"tokenizer\": \"other.json\",", VOCABULARY, false);
    expect_refused("missing", "missing/other.json: cannot be opened");
    write_model("broken", NULL, "", VOCABULARY, false);
    char *path = path_of("broken", "tokenizer.json");
    write_text(path, "{\"version\": \"2.0\"}", 18);
    expect_refused("broken", "broken/tokenizer.json: ");
    free(path);
    write_model("null", "bert", "\"tokenizer\": null,", 100, false);
    path = path_of("null", "");
    int status;
    char *said;
    assert_null(
        daemon_open(&(struct daemon_options){.arguments = ARGUMENTS("--check", "--model", path)}, &said, &status));
    assert_int_equal(status, 0);
    free(said);
    free(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokens_are_those_of_the_reference),
        cmocka_unit_test(without_special_tokens_the_template_is_left_out),
        cmocka_unit_test(every_route_accepts_texts),
        cmocka_unit_test(every_route_truncates_texts_on_request),
        cmocka_unit_test(auto_truncate_in_config_json_truncates_texts),
        cmocka_unit_test(the_best_tokens_have_their_texts),
        cmocka_unit_test(every_tokenizer_reads_mask_in_brackets_as_its_mask),
        cmocka_unit_test(tensors_of_bytes_in_json_are_read_as_texts),
        cmocka_unit_test(binary_tensors_of_bytes_are_read_as_texts),
        cmocka_unit_test(wrong_tensors_of_bytes_are_refused),
        cmocka_unit_test(hostile_texts_harm_no_later_request),
        cmocka_unit_test(two_models_have_two_tokenizers),
        cmocka_unit_test(tokenizers_that_do_not_fit_are_refused_at_load),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
