/* The models of docs/serve-your-own-module.md classify drawings and texts outside of their training data. The model of
 * docs/serve-with-a-tokenizer.md finds masked words. The expected answer is in the drawing's file name or in this file.
 * If an operation of the graph were wrong, or a picture or text were read wrongly, the models would only guess. */
#include "tests/http/daemon.h"

#include <glob.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PICTURES "docs/examples/drawings/*.*"
#define MAX_BYTES 65536

/* Returns the first class of the answer. The test frees it. */
static char *best_label(struct answer *answer)
{
    if (answer->status != 200)
        fail_msg("status %ld: %s", answer->status, answer->body);
    const json_t *best = json_array_get(answer->json, 0);
    char *label = strdup(json_string_value(json_object_get(best, "label")));
    answer_free(answer);
    return label;
}

static char *label_of_picture(const struct daemon *daemon, const char *path)
{
    static char bytes[MAX_BYTES];
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    size_t length = fread(bytes, 1, sizeof bytes, file);
    assert_true(feof(file));
    fclose(file);
    struct call call = {.path = "/predict", .body = bytes, .length = length, .headers = {"Content-Type:"}};
    struct answer answer = daemon_call(daemon, &call);
    return best_label(&answer);
}

/* The 40 drawings are PNG and JPEG files of 256 x 256 pixels. At most one answer may be wrong. */
static void drawings_of_cats_and_dogs_are_classified(void **state)
{
    (void)state;
    struct daemon *daemon = daemon_start(ARGUMENTS("--model", "docs/examples/cats_and_dogs"));
    glob_t drawings;
    size_t right = 0;
    assert_int_equal(glob(PICTURES, 0, NULL, &drawings), 0);
    assert_int_equal(drawings.gl_pathc, 40);
    for (size_t i = 0; i < drawings.gl_pathc; i++) {
        char *label = label_of_picture(daemon, drawings.gl_pathv[i]);
        bool agrees = strncmp(basename(drawings.gl_pathv[i]), label, strlen(label)) == 0;
        if (!agrees)
            print_message("%s: %s\n", drawings.gl_pathv[i], label);
        right += agrees;
        free(label);
    }
    globfree(&drawings);
    daemon_stop(daemon);
    assert_in_range(right, 39, 40);
}

static void texts_are_classified_by_language(void **state)
{
    (void)state;
    static const struct {
        const char *label, *text;
    } texts[] = {
        {"C", "static int area(const struct tensor_shape *shape)\\n{\\n    return shape->width * shape->height;\\n}"},
        {"C", "for (size_t i = 0; i < count; i++)\\n    sum += values[i];"},
        {"C", "#include <stdio.h>"},
        {"Python", "def area(shape):\\n    return shape.width * shape.height"},
        {"Python", "import numpy as np"},
        {"Python", "for value in values:\\n    total += value"},
        {"shell", "for file in *.txt; do\\n    echo \\\"$file\\\"\\ndone"},
        {"shell", "set -euo pipefail"},
        {"Markdown", "The area of a rectangle is its width times its height. See [the table](area.md)."},
        {"Markdown", "| shape | area |\\n|---|---|"},
    };
    struct daemon *daemon = daemon_start(ARGUMENTS("--model", "docs/examples/languages"));
    for (size_t i = 0; i < LENGTH(texts); i++) {
        char body[512];
        snprintf(body, sizeof body, "{\"inputs\": \"%s\"}", texts[i].text);
        struct answer answer = daemon_post(daemon, "/predict", body);
        char *label = best_label(&answer);
        if (strcmp(label, texts[i].label) != 0)
            fail_msg("%s: expected %s, found %s", texts[i].text, texts[i].label, label);
        free(label);
    }
    daemon_stop(daemon);
}

/* Returns the most probable word for the mask. The test frees it. */
static char *best_word(const struct daemon *daemon, const char *text)
{
    char body[512];
    snprintf(body, sizeof body, "{\"inputs\": \"%s\", \"parameters\": {\"top_k\": 1}}", text);
    json_t *answer = daemon_post_json(daemon, "/fill-mask", body);
    char *word = strdup(json_string_value(json_object_get(json_array_get(answer, 0), "token_str")));
    json_decref(answer);
    return word;
}

/* The texts have the same form as the texts of the training script. Each kind of fact occurs once. */
static void masked_words_are_found(void **state)
{
    (void)state;
    static const struct {
        const char *word, *text;
    } texts[] = {
        {"dog", "The [MASK] barks in the kennel at night."},
        {"puppy", "Ada found the [MASK] in the kennel."},
        {"honey", "Ben gives the bear some [MASK]."},
        {"croaks", "Clara hears how the frog [MASK]."},
        {"paddock", "The horse sleeps with its foal in the [MASK]."},
        {"owl", "The owlet is a young [MASK]."},
        {"owlet", "The [MASK] likes mice in summer."},
        {"grass", "The cow eats [MASK] every day. Hugo hears how the cow moos."},
        {"hive", "The larva likes nectar. Felix found the larva in the [MASK]."},
    };
    struct daemon *daemon = daemon_start(ARGUMENTS("--model", "docs/examples/animals"));
    for (size_t i = 0; i < LENGTH(texts); i++) {
        char *word = best_word(daemon, texts[i].text);
        if (strcmp(word, texts[i].word) != 0)
            fail_msg("%s: expected %s, found %s", texts[i].text, texts[i].word, word);
        free(word);
    }
    daemon_stop(daemon);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(drawings_of_cats_and_dogs_are_classified),
        cmocka_unit_test(texts_are_classified_by_language),
        cmocka_unit_test(masked_words_are_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
