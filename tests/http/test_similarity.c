/* /similarity. Expected numbers are cosines that this program computes from the vectors of /embed. */
#include "tests/http/daemon.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TOLERANCE 1e-6
enum { TEXTS = 4, BODY = 65536 };

static const char *const texts[TEXTS] = {"The dog barks in the kennel.", "Caf\\u00e9 \\u65e5", "The puppy likes bones.",
                                         "The dog barks in the kennel."};
static struct daemon *animals, *builtin;

static int start(void **state)
{
    (void)state;
    animals =
        daemon_start(ARGUMENTS("--model", "docs/examples/animals", "--model", "ids=tests/reference/linformer_lm",
                               "--model", "rows=tests/reference/linformer_encoder", "--max-client-batch-size", "8"));
    builtin = daemon_start(NULL);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    daemon_stop(animals);
    daemon_stop(builtin);
    return 0;
}

/* Returns the cosine of two vectors of /embed. */
static double cosine(const json_t *a, const json_t *b)
{
    double product = 0, a_squares = 0, b_squares = 0;
    for (size_t i = 0; i < json_array_size(a); i++) {
        double x = json_number_at(a, i), y = json_number_at(b, i);
        product += x * y;
        a_squares += x * x;
        b_squares += y * y;
    }
    return product / sqrt(a_squares * b_squares);
}

/* Expects that /similarity returns the cosine of the first text with each other text. `keys` are added to the bodies of
 * /similarity and /embed, and begin with a comma. */
static void agrees(const struct daemon *daemon, const char *keys)
{
    char body[2048];
    snprintf(body, sizeof body, "{\"inputs\": [\"%s\", \"%s\", \"%s\", \"%s\"], \"normalize\": false%s}", texts[0],
             texts[1], texts[2], texts[3], keys);
    json_t *vectors = daemon_post_json(daemon, "/embed", body);
    snprintf(body, sizeof body,
             "{\"inputs\": {\"source_sentence\": \"%s\", \"sentences\": [\"%s\", \"%s\", \"%s\"]}%s}", texts[0],
             texts[1], texts[2], texts[3], keys);
    json_t *found = daemon_post_json(daemon, "/similarity", body);
    assert_int_equal(json_array_size(found), TEXTS - 1);
    for (size_t i = 0; i + 1 < TEXTS; i++) {
        double expected = cosine(json_array_get(vectors, 0), json_array_get(vectors, i + 1));
        if (fabs(json_number_at(found, i) - expected) > TOLERANCE)
            fail_msg("text %zu, %s: expected %.9g, found %.9g", i + 1, keys, expected, json_number_at(found, i));
    }
    assert_true(fabs(json_number_at(found, TEXTS - 2) - 1) < TOLERANCE);
    json_decref(vectors);
    json_decref(found);
}

static void similarity_is_the_cosine_of_the_vectors(void **state)
{
    (void)state;
    agrees(animals, "");
    agrees(builtin, "");
    agrees(builtin, ", \"pooling\": \"cls\"");
    agrees(builtin, ", \"dimensions\": 3, \"add_special_tokens\": false");
    agrees(animals, ", \"pooling\": \"max\", \"add_special_tokens\": false");
}

/* The similarity of a sentence does not depend on the other sentences. */
static void similarities_do_not_depend_on_other_sentences(void **state)
{
    (void)state;
    json_t *together =
        daemon_post_json(animals, "/similarity",
                         "{\"inputs\": {\"source_sentence\": \"a dog\", \"sentences\": [\"a cow\", \"a young owl\"]}}");
    json_t *alone = daemon_post_json(
        animals, "/similarity", "{\"inputs\": {\"source_sentence\": \"a dog\", \"sentences\": [\"a young owl\"]}}");
    assert_int_equal(json_array_size(alone), 1);
    assert_true(json_equal(json_array_get(together, 1), json_array_get(alone, 0)));
    json_decref(together);
    json_decref(alone);
}

static const char *long_text(char *text, int count)
{
    char *end = text;
    for (int i = 0; i < count; i++)
        end += sprintf(end, " %s", i % 2 ? "dog" : "cow");
    return text;
}

static void long_texts_are_cut_if_wanted(void **state)
{
    (void)state;
    char text[BODY / 2], body[BODY];
    static const char form[] = "{\"inputs\": {\"source_sentence\": \"dog\", \"sentences\": [\"a\", \"%s\"]}%s}";
    snprintf(body, sizeof body, form, long_text(text, 100), "");
    expect_failure(animals, "/similarity", body, 422, "Validation",
                   "inputs.sentences[1] has 102 tokens, model \"animals\" accepts at most 64");
    static const char *const ways[] = {", \"truncate\": true", ", \"parameters\": {\"truncate\": true}"};
    json_t *cut[LENGTH(ways)];
    for (size_t i = 0; i < LENGTH(ways); i++) {
        snprintf(body, sizeof body, form, long_text(text, 100), ways[i]);
        cut[i] = daemon_post_json(animals, "/similarity", body);
    }
    snprintf(body, sizeof body, form, long_text(text, 62), "");
    json_t *fits = daemon_post_json(animals, "/similarity", body);
    for (size_t i = 0; i < LENGTH(ways); i++) {
        assert_true(json_equal(cut[i], fits));
        json_decref(cut[i]);
    }
    snprintf(body, sizeof body, form, long_text(text, 101),
             ", \"parameters\": {\"truncate\": true, \"truncation_direction\": \"left\"}");
    json_t *left = daemon_post_json(animals, "/similarity", body);
    assert_false(json_equal(left, fits)); /* `left` comes from a text whose beginning was cut */
    json_decref(left);
    json_decref(fits);
}

static void hostile_bodies_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *inputs, *part;
    } refused[] = {
        {"null", "inputs is missing, an object with source_sentence and sentences was expected"},
        {"\"a\"", "inputs is a string, an object was expected"},
        {"[1, 2, 3]", "inputs is a list, an object was expected"},
        {"{}", "inputs.source_sentence is missing"},
        {"{\"source_sentence\": \"a\"}", "inputs.sentences is missing"},
        {"{\"sentences\": [\"a\"]}", "inputs.source_sentence is missing"},
        {"{\"source_sentence\": [1], \"sentences\": [\"a\"]}", "inputs.source_sentence is a list"},
        {"{\"source_sentence\": \"a\", \"sentences\": \"b\"}", "sentences is a string, a list was expected"},
        {"{\"source_sentence\": \"a\", \"sentences\": []}", "inputs.sentences is empty"},
        {"{\"source_sentence\": \"a\", \"sentences\": [\"b\", 1]}", "inputs.sentences[1] is an integer"},
        {"{\"source_sentence\": \"a\", \"sentences\": [\"b\", [\"c\"]]}", "inputs.sentences[1] is a list"},
        {"{\"source_sentence\": \"\", \"sentences\": [\"b\"]}", "inputs.source_sentence is empty"},
        {"{\"source_sentence\": \"a\", \"sentences\": [\"b\", \"\"]}", "inputs.sentences[1] is empty"},
        {"{\"source_sentence\": \"a\", \"sentences\": [\"\", \"\", \"\", \"\", \"\", \"\", \"\", \"\"]}",
         "the request has 9 inputs, this server accepts at most 8 in one request"},
    };
    char body[512];
    for (size_t i = 0; i < LENGTH(refused); i++) {
        snprintf(body, sizeof body, "{\"inputs\": %s}", refused[i].inputs);
        expect_failure(animals, "/similarity", body, 422, "Validation", refused[i].part);
    }
#define PAIR "\"inputs\": {\"source_sentence\": \"a\", \"sentences\": [\"b\"]}"
    expect_failure(animals, "/similarity", "{" PAIR ", \"parameters\": 1}", 422, "Validation", "parameters");
    expect_failure(animals, "/similarity", "{" PAIR ", \"dimensions\": 49}", 422, "Validation", "vectors");
    expect_failure(animals, "/similarity", "{" PAIR ", \"model\": \"ids\"}", 422, "Validation",
                   "inputs.source_sentence is a text, but model \"ids\" has no tokenizer");
    expect_failure(animals, "/similarity", "{" PAIR ", \"model\": \"rows\"}", 422, "Validation", "model \"rows\"");
    expect_failure(animals, "/similarity", "{" PAIR ", \"model\": \"none\"}", 404, "Validation", "none");
    expect_failure(animals, "/similarity", "{" PAIR, 400, "Validation", "JSON");
    agrees(animals, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(similarity_is_the_cosine_of_the_vectors),
        cmocka_unit_test(similarities_do_not_depend_on_other_sentences),
        cmocka_unit_test(long_texts_are_cut_if_wanted),
        cmocka_unit_test(hostile_bodies_are_refused),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
