/* /fill-mask with a model that has a tokenizer.json, and with the model "builtin", whose tokens are bytes. Expected
 * probabilities are those of /logits. Expected texts are those of /decode. */
#include "tests/http/checkpoint.h"
#include "tests/http/daemon.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The sizes and the mask id of the model docs/examples/animals. BODY is the size of a buffer for a request body. */
enum { VOCABULARY = 365, LONGEST = 64, MASK = 4, BODY = 65536 };

/* The graph of the module is: ids -> embed -> linear. The ids are bytes, and there is no mask token. */
static const char bytes_config[] =
    "{\"architecture\": \"module\", \"tokenizer\": {\"type\": \"byte\", \"offset\": 0},"
    " \"graph\": {\"inputs\": [{\"name\": \"ids\", \"dtype\": \"int64\", \"shape\": [\"batch\", \"n\"]}],"
    " \"sizes\": {\"n\": {\"least\": 1, \"most\": 40}}, \"nodes\": ["
    "{\"op\": \"embedding\", \"to\": \"e\", \"weight\": \"@table\", \"indices\": \"ids\"},"
    "{\"op\": \"linear\", \"to\": \"y\", \"input\": \"e\", \"weight\": \"@w\", \"bias\": \"@b\"}],"
    " \"outputs\": {\"output\": \"y\"}}}";
static const struct checkpoint_shape bytes_shapes[] = {{"table", 2, {256, 8}}, {"w", 2, {256, 8}}, {"b", 1, {256}}};

static char *folder;
static struct daemon *animals, *builtin;

static int start(void **state)
{
    (void)state;
    char path[512];
    folder = folder_make();
    snprintf(path, sizeof path, "%s/bytes", folder);
    struct checkpoint bytes = checkpoint_random(bytes_config, bytes_shapes, LENGTH(bytes_shapes));
    checkpoint_write(&bytes, path, 0);
    checkpoint_free(&bytes);
    animals = daemon_start(ARGUMENTS("--model", "docs/examples/animals", "--model", path, "--model",
                                     "ids=tests/reference/linformer_lm", "--model",
                                     "rows=tests/reference/linformer_encoder"));
    builtin = daemon_start(NULL);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    daemon_stop(animals);
    daemon_stop(builtin);
    folder_remove(folder);
    free(folder);
    return 0;
}

/* ---- What is expected ---- */

/* Returns the ids of a text, as a new reference. */
static json_t *ids_of(const char *text)
{
    char body[BODY];
    snprintf(body, sizeof body, "{\"inputs\": \"%s\"}", text);
    json_t *answer = daemon_post_json(animals, "/tokenize", body), *ids = json_array(), *token;
    size_t i;
    json_array_foreach (json_array_get(answer, 0), i, token)
        json_array_append(ids, json_object_get(token, "id"));
    json_decref(answer);
    return ids;
}

static json_t *post(struct daemon *daemon, const char *path, json_t *body)
{
    char *text = json_dumps(body, 0);
    json_t *answer = daemon_post_json(daemon, path, text);
    free(text);
    json_decref(body);
    return answer;
}

static void expect_sequence(const json_t *filling, const json_t *ids, size_t position, bool skip_special)
{
    json_t *filled = json_copy((json_t *)ids);
    json_array_set(filled, position, json_object_get(filling, "token"));
    json_t *decoded =
        post(animals, "/decode", json_pack("{s:o, s:b}", "ids", filled, "skip_special_tokens", skip_special));
    assert_string_equal(json_string_value(json_object_get(filling, "sequence")),
                        json_string_value(json_array_get(decoded, 0)));
    json_decref(decoded);
}

/* Compares the candidates for the mask at `position` with /logits. */
static void expect_fillings(const json_t *fillings, const json_t *ids, size_t position, bool alone, int top_k)
{
    json_t *answer = post(
        animals, "/logits",
        json_pack("{s:[O], s:[i], s:i, s:b}", "inputs", ids, "positions", (int)position, "top_k", top_k, "softmax", 1));
    json_t *best = json_array_get(answer, 0);
    assert_int_equal(json_array_size(fillings), top_k);
    for (size_t i = 0; i < json_array_size(fillings); i++) {
        const json_t *filling = json_array_get(fillings, i);
        assert_true(json_equal(json_object_get(filling, "score"),
                               json_array_get(json_array_get(json_object_get(best, "logits"), 0), i)));
        assert_true(json_equal(json_object_get(filling, "token"),
                               json_array_get(json_array_get(json_object_get(best, "tokens"), 0), i)));
        assert_true(json_equal(json_object_get(filling, "token_str"),
                               json_array_get(json_array_get(json_object_get(best, "text"), 0), i)));
        assert_int_equal(json_object_size(filling), 4);
        expect_sequence(filling, ids, position, alone);
    }
    json_decref(answer);
}

/* Posts a single text. */
static json_t *fill(const char *text, const char *more)
{
    char body[BODY];
    snprintf(body, sizeof body, "{\"inputs\": \"%s\"%s}", text, more);
    return daemon_post_json(animals, "/fill-mask", body);
}

/* ---- Tests ---- */

static void one_mask_has_one_list(void **state)
{
    (void)state;
    const char *text = "The [MASK] barks in the kennel.";
    json_t *ids = ids_of(text), *fillings = fill(text, "");
    assert_int_equal(json_integer_value(json_array_get(ids, 2)), MASK);
    expect_fillings(fillings, ids, 2, true, 5);
    assert_string_equal(json_string_value(json_object_get(json_array_get(fillings, 0), "sequence")),
                        "the dog barks in the kennel.");
    json_decref(fillings);
    json_decref(ids);
}

static void each_of_several_masks_has_a_list(void **state)
{
    (void)state;
    const char *text = "[MASK] gives the [MASK] some [MASK].";
    json_t *ids = ids_of(text), *lists = fill(text, ", \"parameters\": {\"top_k\": 3}");
    const size_t places[] = {1, 4, 6};
    assert_int_equal(json_array_size(lists), LENGTH(places));
    for (size_t i = 0; i < LENGTH(places); i++) {
        expect_fillings(json_array_get(lists, i), ids, places[i], false, 3);
        const char *sequence =
            json_string_value(json_object_get(json_array_get(json_array_get(lists, i), 0), "sequence"));
        assert_non_null(strstr(sequence, "[MASK]"));
        assert_non_null(strstr(sequence, "[CLS]"));
    }
    json_decref(lists);
    json_decref(ids);
}

/* The answer for a text does not depend on other texts of the request, nor on whether the request has one text or a
 * list. */
static void answers_do_not_depend_on_other_texts(void **state)
{
    (void)state;
    static const char *const texts[] = {"The [MASK] barks.", "The [MASK] is a young [MASK].",
                                        "[MASK] [MASK] the dog \\u65e5 caf\\u00e9 [MASK] in the kennel every day."};
    char body[BODY];
    snprintf(body, sizeof body, "{\"inputs\": [\"%s\", \"%s\", \"%s\"]}", texts[0], texts[1], texts[2]);
    json_t *together = daemon_post_json(animals, "/fill-mask", body);
    assert_int_equal(json_array_size(together), LENGTH(texts));
    for (size_t i = 0; i < LENGTH(texts); i++) {
        json_t *alone = fill(texts[i], ""), *ids = ids_of(texts[i]);
        json_t *from_ids = post(animals, "/fill-mask", json_pack("{s:O}", "inputs", ids));
        json_t *from_list = post(animals, "/fill-mask", json_pack("{s:[O]}", "inputs", ids));
        snprintf(body, sizeof body, "{\"inputs\": [\"%s\"]}", texts[i]);
        json_t *of_one = daemon_post_json(animals, "/fill-mask", body);
        assert_true(json_equal(json_array_get(together, i), alone));
        assert_true(json_equal(from_ids, alone));
        assert_true(json_equal(from_list, alone));
        assert_true(json_equal(of_one, alone));
        json_decref(alone);
        json_decref(ids);
        json_decref(from_ids);
        json_decref(from_list);
        json_decref(of_one);
    }
    json_decref(together);
}

static void top_k_is_limited_by_the_vocabulary(void **state)
{
    (void)state;
    json_t *all = fill("The [MASK] barks.", ", \"top_k\": 365"), *filling;
    double sum = 0, last = 1;
    size_t i;
    assert_int_equal(json_array_size(all), VOCABULARY);
    json_array_foreach (all, i, filling) {
        double score = json_number_value(json_object_get(filling, "score"));
        assert_true(score <= last);
        last = score;
        sum += score;
    }
    assert_true(fabs(sum - 1) < 1e-5);
    json_decref(all);
    json_t *one = fill("The [MASK] barks.", ", \"top_k\": 7, \"parameters\": {\"top_k\": 1}");
    assert_int_equal(json_array_size(one), 1);
    json_decref(one);
    expect_failure(animals, "/fill-mask", "{\"inputs\": \"a [MASK]\", \"top_k\": 366}", 422, "Validation",
                   "top_k is 366, but model \"animals\" has only 365 tokens");
    expect_failure(animals, "/fill-mask", "{\"inputs\": \"a [MASK]\", \"parameters\": {\"top_k\": 0}}", 422,
                   "Validation", "top_k");
    expect_failure(animals, "/fill-mask", "{\"inputs\": \"a [MASK]\", \"parameters\": {\"top_k\": 1e9}}", 422,
                   "Validation", "top_k");
}

/* Returns the candidate with this token in a list. */
static const json_t *filling_of(const json_t *fillings, const char *token)
{
    const json_t *filling;
    size_t i;
    json_array_foreach (fillings, i, filling)
        if (strcmp(json_string_value(json_object_get(filling, "token_str")), token) == 0)
            return filling;
    fail_msg("no filling has the token %s", token);
    return NULL;
}

/* Scores are probabilities over all tokens. The target "\u2581wolf" is a token. "owl" and "horse of mine" are texts,
 * which stand for their first tokens. */
static void targets_are_the_only_candidates(void **state)
{
    (void)state;
    const char *text = "Ada gives the [MASK] some honey.";
    json_t *all = fill(text, ", \"top_k\": 365");
    json_t *some = fill(
        text, ", \"parameters\": {\"targets\": [\"owl\", \"bear\", \"\\u2581wolf\", \"bear\", \"horse of mine\"]}");
    static const char *const expected[] = {"bear", "wolf", "owl", "horse"};
    assert_int_equal(json_array_size(some), LENGTH(expected));
    double last = 1;
    for (size_t i = 0; i < LENGTH(expected); i++) {
        assert_true(json_equal(filling_of(some, expected[i]), filling_of(all, expected[i])));
        double score = json_number_value(json_object_get(json_array_get(some, i), "score"));
        assert_true(score <= last);
        last = score;
    }
    json_t *best = fill(text, ", \"targets\": [\"bear\", \"owl\"], \"top_k\": 1");
    json_t *one = fill(text, ", \"targets\": \"bear\"");
    assert_true(json_equal(best, one));
    json_decref(all);
    json_decref(some);
    json_decref(best);
    json_decref(one);
    static const struct {
        const char *targets, *part;
    } refused[] = {
        {"[]", "targets is empty"},
        {"3", "targets is an integer, a string was expected"},
        {"[\"dog\", null]", "targets[1] is null, a string was expected"},
        {"[\"dog\", \"\"]", "targets[1] is empty"},
    };
    for (size_t i = 0; i < LENGTH(refused); i++) {
        char body[512];
        snprintf(body, sizeof body, "{\"inputs\": \"a [MASK]\", \"targets\": %s}", refused[i].targets);
        expect_failure(animals, "/fill-mask", body, 422, "Validation", refused[i].part);
    }
}

/* Returns a text of `count` words. The word with the index `mask` is the mask. */
static const char *long_text(char *text, int count, int mask)
{
    char *end = text;
    for (int i = 0; i < count; i++)
        end += sprintf(end, "%s", i == mask ? " [MASK]" : " dog");
    return text;
}

static void long_texts_are_cut_if_wanted(void **state)
{
    (void)state;
    char text[BODY / 2], body[BODY];
    snprintf(body, sizeof body, "{\"inputs\": \"%s\"}", long_text(text, 200, 3));
    expect_failure(animals, "/fill-mask", body, 422, "Validation", "model \"animals\" accepts at most 64");
    static const char *const ways[] = {", \"truncate\": true", ", \"parameters\": {\"truncate\": true}"};
    for (size_t i = 0; i < LENGTH(ways); i++) {
        json_t *cut = fill(long_text(text, 200, 3), ways[i]), *fits = fill(long_text(text, LONGEST - 2, 3), "");
        assert_true(json_equal(cut, fits));
        json_decref(cut);
        json_decref(fits);
    }
    json_t *cut =
        fill(long_text(text, 200, 199), ", \"parameters\": {\"truncate\": true, \"truncation_direction\": \"Left\"}");
    json_t *fits = fill(long_text(text, LONGEST - 2, LONGEST - 3), "");
    assert_true(json_equal(cut, fits));
    json_decref(cut);
    json_decref(fits);
    snprintf(body, sizeof body, "{\"inputs\": [\"a [MASK]\", \"%s\"], \"truncate\": true}", long_text(text, 200, 199));
    expect_failure(animals, "/fill-mask", body, 422, "Validation",
                   "inputs[1] does not contain the mask token ([MASK]) in the part that truncate keeps");
}

static void models_and_texts_without_mask_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *body, *part;
    } bodies[] = {
        {"{\"inputs\": \"no mask\"}", "inputs does not contain the mask token ([MASK])"},
        {"{\"inputs\": [\"a [MASK]\", \"no mask\"]}", "inputs[1] does not contain the mask token"},
        {"{\"inputs\": [2, 36, 3]}", "inputs does not contain the mask token"},
        {"{\"model\": \"ids\", \"inputs\": \"a [MASK]\"}", "model \"ids\" has no tokenizer"},
        {"{\"model\": \"ids\", \"inputs\": [1, 2]}", "model \"ids\" has no tokenizer"},
        {"{\"model\": \"rows\", \"inputs\": \"a [MASK]\"}", "model \"rows\" does not return logits"},
        {"{\"model\": \"bytes\", \"inputs\": \"a [MASK]\"}", "the tokenizer of model \"bytes\" has no mask token"},
    };
    for (size_t i = 0; i < LENGTH(bodies); i++)
        expect_failure(animals, "/fill-mask", bodies[i].body, 422, "Validation", bodies[i].part);
}

/* All sequences of an answer together may have at most 2^24 tokens. Each mask has top_k sequences. */
static void answers_of_too_many_tokens_are_refused(void **state)
{
    (void)state;
    char text[BODY / 4] = "", body[BODY];
    char *end = text;
    for (int i = 0; i < 1024; i++)
        end += sprintf(end, "[MASK]");
    snprintf(body, sizeof body, "{\"inputs\": \"%s\", \"top_k\": 259}", text);
    expect_failure(builtin, "/fill-mask", body, 422, "Validation",
                   "the sequences of the answer have 271581184 tokens, this route returns at most 16777216");
    snprintf(body, sizeof body, "{\"inputs\": \"%s\", \"top_k\": 1}", text);
    json_t *answer = daemon_post_json(builtin, "/fill-mask", body);
    assert_int_equal(json_array_size(answer), 1024);
    json_decref(answer);
}

static void hostile_bodies_are_refused(void **state)
{
    (void)state;
    static const struct {
        long status;
        const char *body;
    } bodies[] = {
        {400, "{\"inputs\": \"a [MASK]\""},
        {400, "{\"inputs\": \"[MASK] \\ud83d\"}"},
        {422, "[]"},
        {422, "{}"},
        {422, "{\"inputs\": null}"},
        {422, "{\"inputs\": {}}"},
        {422, "{\"inputs\": []}"},
        {422, "{\"inputs\": \"\"}"},
        {422, "{\"inputs\": [[\"a [MASK]\"]]}"},
        {422, "{\"inputs\": [4, -1]}"},
        {422, "{\"inputs\": [4, 365]}"},
        {422, "{\"inputs\": [4, 9999999999999]}"},
        {422, "{\"inputs\": \"a [MASK]\", \"parameters\": []}"},
        {422, "{\"inputs\": \"a [MASK]\", \"top_k\": -1}"},
        {422, "{\"inputs\": \"a [MASK]\", \"top_k\": 1.5}"},
        {422, "{\"inputs\": \"a [MASK]\", \"top_k\": 9223372036854775807}"},
        {422, "{\"inputs\": \"a [MASK]\", \"truncation_direction\": \"up\"}"},
        {422, "{\"inputs\": \"a [MASK]\", \"targets\": {}}"},
        {422, "{\"embeddings\": [[1]], \"inputs\": null}"},
    };
    for (size_t i = 0; i < LENGTH(bodies); i++)
        expect_failure(animals, "/fill-mask", bodies[i].body, bodies[i].status, "Validation", "");
    json_t *answer = fill("\\u0000 [MASK] \\uffff \\u0301 \\ud83d\\udc36", "");
    assert_int_equal(json_array_size(answer), 5);
    json_decref(answer);
}

/* The model "builtin" fills a mask with a byte. */
static void a_model_of_bytes_fills_a_mask_with_a_byte(void **state)
{
    (void)state;
    json_t *answer = daemon_post_json(builtin, "/fill-mask", "{\"inputs\": \"This option ca[MASK] be used.\"}");
    json_t *best = json_array_get(answer, 0);
    assert_int_equal(json_array_size(answer), 5);
    assert_string_equal(json_string_value(json_object_get(best, "token_str")), "n");
    assert_int_equal(json_integer_value(json_object_get(best, "token")), 'n' + 3);
    assert_string_equal(json_string_value(json_object_get(best, "sequence")), "This option can be used.");
    json_decref(answer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_mask_has_one_list),
        cmocka_unit_test(each_of_several_masks_has_a_list),
        cmocka_unit_test(answers_do_not_depend_on_other_texts),
        cmocka_unit_test(top_k_is_limited_by_the_vocabulary),
        cmocka_unit_test(targets_are_the_only_candidates),
        cmocka_unit_test(long_texts_are_cut_if_wanted),
        cmocka_unit_test(models_and_texts_without_mask_are_refused),
        cmocka_unit_test(answers_of_too_many_tokens_are_refused),
        cmocka_unit_test(hostile_bodies_are_refused),
        cmocka_unit_test(a_model_of_bytes_fills_a_mask_with_a_byte),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
