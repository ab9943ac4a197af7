/* Prompts: a request that names a prompt has the same answer as a request whose texts begin with this prompt. */
#include "tests/http/checkpoint.h"
#include "tests/http/daemon.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PROMPTS "\"prompts\": {\"query\": \"Ada gives \", \"passage\": \"In the kennel, \", \"none\": \"\"}"

/* The graph of the module is: ids -> embed -> the mean of the rows -> linear. There are three classes. */
static const char classes_config[] =
    "{\"architecture\": \"module\", \"tokenizer\": {\"type\": \"byte\"}, " PROMPTS ","
    " \"graph\": {\"inputs\": [{\"name\": \"ids\", \"dtype\": \"int64\", \"shape\": [\"batch\", \"n\"]}],"
    " \"sizes\": {\"n\": {\"least\": 1, \"most\": 40}}, \"nodes\": ["
    "{\"op\": \"embedding\", \"to\": \"e\", \"weight\": \"@table\", \"indices\": \"ids\"},"
    "{\"op\": \"mean\", \"to\": \"m\", \"self\": \"e\", \"dim\": [1]},"
    "{\"op\": \"linear\", \"to\": \"y\", \"input\": \"m\", \"weight\": \"@w\", \"bias\": \"@b\"}],"
    " \"outputs\": {\"output\": \"y\"}}}";
static const struct checkpoint_shape classes_shapes[] = {{"table", 2, {259, 8}}, {"w", 2, {3, 8}}, {"b", 1, {3}}};

static char *folder;
static struct daemon *the_daemon;

/* Makes the folder `name` with the weights of docs/examples/animals, and with `keys` in its config.json. If `tokenizer`
 * is true, the folder also contains the tokenizer. */
static void make_animals(const char *name, const char *keys, bool tokenizer, char path[512])
{
    char command[2048];
    snprintf(path, 512, "%s/%s", folder, name);
    snprintf(command, sizeof command,
             "mkdir %s && cp docs/examples/animals/model.safetensors %s %s && "
             "sed 's|^{|{%s|' docs/examples/animals/config.json > %s/config.json",
             path, tokenizer ? "docs/examples/animals/tokenizer.json" : "", path, keys, path);
    assert_int_equal(system(command), 0);
}

static int start(void **state)
{
    (void)state;
    char named[512], standard[512], classes[512];
    folder = folder_make();
    make_animals("named", PROMPTS ",", true, named);
    make_animals("standard", PROMPTS ", \"default_prompt\": \"passage\",", true, standard);
    snprintf(classes, sizeof classes, "%s/classes", folder);
    struct checkpoint checkpoint = checkpoint_random(classes_config, classes_shapes, LENGTH(classes_shapes));
    checkpoint_write(&checkpoint, classes, 0);
    checkpoint_free(&checkpoint);
    the_daemon = daemon_start(
        ARGUMENTS("--model", named, "--model", standard, "--model", classes, "--model", "docs/examples/animals"));
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

/* A route and its body. %1$s stands for the prompt before each text, %2$s for other keys. */
static const struct {
    const char *path, *body;
} routes[] = {
    {"/", "{\"inputs\": [\"%1$sa dog [MASK]\", \"%1$sb\"] %2$s}"},
    {"/embed", "{\"inputs\": [\"%1$sa dog [MASK]\", \"%1$sb\"] %2$s}"},
    {"/embed_all", "{\"inputs\": \"%1$sa dog\" %2$s}"},
    {"/logits", "{\"inputs\": \"%1$sa dog\", \"top_k\": 3 %2$s}"},
    {"/fill-mask", "{\"inputs\": \"%1$sthe [MASK] some honey.\" %2$s}"},
    {"/fill-mask", "{\"inputs\": \"%1$sthe [MASK] some honey.\", \"parameters\": {\"top_k\": 2 %2$s}}"},
    {"/similarity", "{\"inputs\": {\"source_sentence\": \"%1$sa dog\", \"sentences\": [\"%1$sb\"]} %2$s}"},
    {"/similarity",
     "{\"inputs\": {\"source_sentence\": \"%1$sa dog\", \"sentences\": [\"%1$sb\"]}, \"parameters\": {\"x\": 1 %2$s}}"},
    {"/tokenize", "{\"inputs\": [\"%1$sa dog\", \"%1$s\\u00e9\"] %2$s}"},
    {"/v1/embeddings", "{\"model\": \"named\", \"input\": [\"%1$sa dog\", \"%1$sb\"] %2$s}"},
    {"/predict", "{\"model\": \"classes\", \"inputs\": [\"%1$sa dog\", \"%1$sb\"] %2$s}"},
    {"/v2/models/named/infer", "{\"inputs\": [{\"name\": \"x\", \"datatype\": \"BYTES\", \"shape\": [1], "
                               "\"data\": [\"%1$sa dog\"]}], \"parameters\": {\"x\": 1 %2$s}}"},
};

static json_t *ask(size_t route, const char *prompt, const char *keys)
{
    char body[1024];
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    snprintf(body, sizeof body, routes[route].body, prompt, keys);
#pragma GCC diagnostic pop
    return daemon_post_json(the_daemon, routes[route].path, body);
}

static void prompts_precede_texts_on_every_route(void **state)
{
    (void)state;
    for (size_t i = 0; i < LENGTH(routes); i++) {
        json_t *plain = ask(i, "", ""), *by_hand = ask(i, "Ada gives ", "");
        json_t *by_name = ask(i, "", ", \"prompt_name\": \"query\""), *none = ask(i, "", ", \"prompt_name\": \"none\"");
        json_t *null = ask(i, "", ", \"prompt_name\": null");
        json_t *by_type = ask(i, "", ", \"input_type\": \"search_query\"");
        if (!json_equal(by_name, by_hand) || json_equal(by_name, plain))
            fail_msg("%s: the prompt does not stand before the text", routes[i].path);
        assert_true(json_equal(by_type, by_hand));
        assert_true(json_equal(none, plain));
        assert_true(json_equal(null, plain));
        json_decref(plain);
        json_decref(by_hand);
        json_decref(by_name);
        json_decref(none);
        json_decref(null);
        json_decref(by_type);
    }
}

static void the_default_prompt_is_for_requests_that_name_none(void **state)
{
    (void)state;
#define STANDARD "\"model\": \"standard\""
    json_t *given = daemon_post_json(the_daemon, "/embed", "{\"inputs\": \"In the kennel, a dog\"}");
    json_t *left_out = daemon_post_json(the_daemon, "/embed", "{" STANDARD ", \"inputs\": \"a dog\"}");
    json_t *named =
        daemon_post_json(the_daemon, "/embed", "{" STANDARD ", \"inputs\": \"a dog\", \"prompt_name\": \"query\"}");
    json_t *by_hand = daemon_post_json(the_daemon, "/embed", "{\"inputs\": \"Ada gives a dog\"}");
    assert_true(json_equal(left_out, given));
    assert_true(json_equal(named, by_hand));
    json_decref(given);
    json_decref(left_out);
    json_decref(named);
    json_decref(by_hand);
}

static void prompts_do_not_change_ids(void **state)
{
    (void)state;
    json_t *plain = daemon_post_json(the_daemon, "/embed", "{\"inputs\": [[2, 36, 3]]}");
    json_t *named = daemon_post_json(the_daemon, "/embed", "{\"inputs\": [[2, 36, 3]], \"prompt_name\": \"query\"}");
    json_t *standard = daemon_post_json(the_daemon, "/embed", "{" STANDARD ", \"inputs\": [[2, 36, 3]]}");
    assert_true(json_equal(named, plain));
    assert_true(json_equal(standard, plain));
    json_decref(plain);
    json_decref(named);
    json_decref(standard);
}

static void unknown_names_of_prompts_are_refused(void **state)
{
    (void)state;
    static const char known[] = "the prompts of model \\\"named\\\" are query, passage, none";
    for (size_t i = 0; i < LENGTH(routes); i++) {
        char body[1024];
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        snprintf(body, sizeof body, routes[i].body, "", ", \"prompt_name\": \"questions\"");
#pragma GCC diagnostic pop
        struct answer answer = daemon_post(the_daemon, routes[i].path, body);
        assert_int_equal(answer.status, strncmp(routes[i].path, "/v", 2) == 0 ? 400 : 422);
        assert_non_null(strstr(answer.body, "prompt_name is \\\"questions\\\""));
        assert_non_null(strstr(answer.body, strcmp(routes[i].path, "/predict") == 0 ? "query, passage" : known));
        answer_free(&answer);
    }
    expect_failure(the_daemon, "/embed", "{\"inputs\": [[2]], \"prompt_name\": \"x\"}", 422, "Validation",
                   "prompt_name is \"x\"");
    expect_failure(the_daemon, "/embed", "{\"model\": \"animals\", \"inputs\": \"a\", \"prompt_name\": \"x\"}", 422,
                   "Validation", "model \"animals\" has no prompts");
    expect_failure(the_daemon, "/embed", "{\"inputs\": \"a\", \"prompt_name\": 1}", 422, "Validation", "prompt_name");
    expect_failure(the_daemon, "/embed", "{\"inputs\": \"a\", \"prompt_name\": \"query\\u0000\"}", 422, "Validation",
                   "prompt_name");
    expect_failure(the_daemon, "/embed", "{\"inputs\": \"\", \"prompt_name\": \"query\"}", 422, "Validation",
                   "inputs is empty");
}

/* The tokens of the prompt count for the length of a text. A text that is too long is cut together with its prompt. */
static void long_texts_with_prompts_are_cut(void **state)
{
    (void)state;
    char text[512] = "", body[1024];
    for (int i = 0; i < 61; i++)
        strcat(text, "dog ");
    snprintf(body, sizeof body, "{\"inputs\": \"%s\", \"prompt_name\": \"query\"}", text);
    expect_failure(the_daemon, "/embed", body, 422, "Validation", "accepts at most 64");
    snprintf(body, sizeof body, "{\"inputs\": \"%s\", \"prompt_name\": \"query\", \"truncate\": true}", text);
    json_t *named = daemon_post_json(the_daemon, "/embed", body);
    snprintf(body, sizeof body, "{\"inputs\": \"Ada gives %s\", \"truncate\": true}", text);
    json_t *by_hand = daemon_post_json(the_daemon, "/embed", body);
    assert_true(json_equal(named, by_hand));
    json_decref(named);
    json_decref(by_hand);
}

static void wrong_keys_of_config_json_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *keys, *part;
        bool tokenizer;
    } wrong[] = {
        {"\"default_prompt\": \"query\",", "default_prompt: found \\\"query\\\"; expected a name from \\\"prompts\\\"",
         true},
        {PROMPTS ", \"default_prompt\": \"quest\",", "expected a name from \\\"prompts\\\": query, passage, none",
         true},
        {PROMPTS ",", "prompts: found texts, but the model has no tokenizer and accepts no texts", false},
    };
    for (size_t i = 0; i < LENGTH(wrong); i++) {
        char name[16], path[512];
        snprintf(name, sizeof name, "wrong%zu", i);
        make_animals(name, wrong[i].keys, wrong[i].tokenizer, path);
        char *said = daemon_refused(ARGUMENTS("--model", path));
        if (!strstr(said, wrong[i].part))
            fail_msg("expected %s, found %s", wrong[i].part, said);
        free(said);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prompts_precede_texts_on_every_route),
        cmocka_unit_test(the_default_prompt_is_for_requests_that_name_none),
        cmocka_unit_test(prompts_do_not_change_ids),
        cmocka_unit_test(unknown_names_of_prompts_are_refused),
        cmocka_unit_test(long_texts_with_prompts_are_cut),
        cmocka_unit_test(wrong_keys_of_config_json_are_refused),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
