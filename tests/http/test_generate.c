/* /generate: the ids are those that linear-attention-transformer generates (tests/generation/greedy.json). One client
 * asks alone, and several clients ask at once. The other tests check the parameters of a request. */
#include "tests/http/daemon.h"
#include "tests/http/generation.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CLIENTS 6

static char *folder;
static struct daemon *the_daemon;

static int start(void **state)
{
    (void)state;
    the_daemon = generation_daemon_start(&folder);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    generation_daemon_stop(the_daemon, folder);
    return 0;
}

static struct answer post(const struct daemon *daemon, const char *body)
{
    return daemon_call(
        daemon, &(struct call){.path = "/generate", .body = body, .headers = {"Content-Type: application/json"}});
}

static const json_t *tokens_of(const struct answer *answer)
{
    if (answer->status != 200)
        fail_msg("%ld %s", answer->status, answer->body);
    return json_object_get(json_object_get(answer->json, "details"), "tokens");
}

static json_int_t id_at(const json_t *tokens, size_t index)
{
    return json_integer_value(json_object_get(json_array_get(tokens, index), "id"));
}

static void expect_run(const json_t *run)
{
    const json_t *ids = json_object_get(run, "ids");
    const char *model = json_string_value(json_object_get(run, "model"));
    char parameters[64];
    snprintf(parameters, sizeof parameters, "\"max_new_tokens\":%zu", json_array_size(ids));
    char *body = generation_body(model, json_object_get(run, "prompt"), parameters);
    struct answer answer = post(the_daemon, body);
    const json_t *tokens = tokens_of(&answer);
    assert_int_equal(json_array_size(tokens), json_array_size(ids));
    for (size_t i = 0; i < json_array_size(ids); i++)
        if (id_at(tokens, i) != json_integer_value(json_array_get(ids, i)))
            fail_msg("%s: token %zu is %lld, the library's is %lld", model, i, (long long)id_at(tokens, i),
                     (long long)json_integer_value(json_array_get(ids, i)));
    answer_free(&answer);
    free(body);
}

static void test_greedy_ids_are_the_library_s(void **state)
{
    (void)state;
    json_t *runs = generation_greedy_runs(), *run;
    size_t i;
    json_array_foreach (runs, i, run)
        expect_run(run);
    json_decref(runs);
}

/* ---- Several clients ---- */

struct client {
    pthread_t thread;
    char *body;
    struct answer answer;
};

static void *call_generate(void *argument)
{
    struct client *client = argument;
    client->answer = post(the_daemon, client->body);
    return NULL;
}

/* Clients have prompts of different lengths. Each answer must equal the answer that the same request receives alone. */
static void test_answers_do_not_depend_on_other_clients(void **state)
{
    (void)state;
    static const char *const models[] = {"linear_attention_lm_everything", "texts"};
    const int first_count = daemon_is_slow() ? 10 : 30; /* number of new tokens of the first client */
    for (size_t m = 0; m < LENGTH(models); m++) {
        struct client clients[CLIENTS];
        for (int i = 0; i < CLIENTS; i++) {
            char parameters[128];
            json_t *prompt = json_array();
            for (int j = 0; j < 1 + 7 * i; j++)
                json_array_append_new(prompt, json_integer((7 * j + i) % 61));
            snprintf(parameters, sizeof parameters,
                     "\"max_new_tokens\":%d,\"temperature\":0.9,\"top_k\":20,\"seed\":%d,\"details\":true",
                     first_count + 5 * i, i);
            clients[i].body = generation_body(models[m], prompt, parameters);
            json_decref(prompt);
        }
        for (int i = 0; i < CLIENTS; i++)
            assert_int_equal(pthread_create(&clients[i].thread, NULL, call_generate, &clients[i]), 0);
        for (int i = 0; i < CLIENTS; i++)
            pthread_join(clients[i].thread, NULL);
        for (int i = 0; i < CLIENTS; i++) {
            struct answer alone = post(the_daemon, clients[i].body);
            assert_int_equal(json_array_size(tokens_of(&alone)), first_count + 5 * i);
            assert_string_equal(clients[i].answer.body, alone.body);
            answer_free(&clients[i].answer);
            answer_free(&alone);
            free(clients[i].body);
        }
    }
}

/* ---- Slots ---- */

static void test_without_slots_the_generated_ids_are_the_same(void **state)
{
    (void)state;
    struct daemon *daemon = daemon_start(
        ARGUMENTS("--max-generations", "0", "--model", "tests/reference/linear_attention_lm_causal_local_shift"));
    const char *body = "{\"model\":\"linear_attention_lm_causal_local_shift\",\"inputs\":[9,8,7],"
                       "\"parameters\":{\"max_new_tokens\":80}}";
    struct answer with = post(the_daemon, body), without = post(daemon, body);
    const json_t *tokens = tokens_of(&with), *others = tokens_of(&without);
    assert_int_equal(json_array_size(tokens), 80);
    for (size_t i = 0; i < 80; i++)
        assert_int_equal(id_at(tokens, i), id_at(others, i));
    answer_free(&with);
    answer_free(&without);
    daemon_stop(daemon);
}

/* ---- Other models ---- */

/* The tokens are those that repeated calls of /logits choose. */
static void test_a_model_without_states_generates_as_by_logits(void **state)
{
    (void)state;
    json_t *ids = json_pack("[i,i,i]", 3, 1, 4);
    char *body = generation_body("linformer_pytorch_lm_causal", ids, "\"max_new_tokens\":5");
    struct answer answer = post(the_daemon, body);
    const json_t *tokens = tokens_of(&answer);
    for (size_t i = 0; i < 5; i++) {
        char logits[512], *list = json_dumps(ids, JSON_COMPACT);
        snprintf(logits, sizeof logits,
                 "{\"model\":\"linformer_pytorch_lm_causal\",\"inputs\":%s,\"positions\":\"last\",\"top_k\":1}", list);
        struct answer step = daemon_call(
            the_daemon,
            &(struct call){.path = "/logits", .body = logits, .headers = {"Content-Type: application/json"}});
        assert_int_equal(step.status, 200);
        const json_t *row = json_array_get(json_object_get(json_array_get(step.json, 0), "tokens"), 0);
        assert_int_equal(id_at(tokens, i), json_integer_value(json_array_get(row, 0)));
        json_array_append(ids, json_array_get(row, 0));
        answer_free(&step);
        free(list);
    }
    answer_free(&answer);
    free(body);
    json_decref(ids);
}

/* The encoder reads `inputs`. The tokens after `decoder_input` depend on them. */
static void test_an_encoder_reads_the_inputs(void **state)
{
    (void)state;
    static const char *const bodies[] = {
        "{\"model\":\"linear_attention_encoder_decoder\",\"inputs\":[5,6,7],\"parameters\":{\"max_new_tokens\":30}}",
        "{\"model\":\"linear_attention_encoder_decoder\",\"inputs\":[5,6,7],"
        "\"parameters\":{\"max_new_tokens\":30,\"decoder_input\":[1]}}",
        "{\"model\":\"linear_attention_encoder_decoder\",\"inputs\":[50,6,7],\"parameters\":{\"max_new_tokens\":30}}",
    };
    struct answer answers[LENGTH(bodies)];
    for (size_t i = 0; i < LENGTH(bodies); i++) {
        answers[i] = post(the_daemon, bodies[i]);
        assert_int_equal(json_array_size(tokens_of(&answers[i])), 30);
    }
    assert_string_equal(answers[0].body, answers[1].body);
    assert_string_not_equal(answers[0].body, answers[2].body);
    for (size_t i = 0; i < LENGTH(bodies); i++)
        answer_free(&answers[i]);
}

/* ---- Texts ---- */

static const char *text_of(const struct answer *answer)
{
    if (answer->status != 200)
        fail_msg("%ld %s", answer->status, answer->body);
    return json_string_value(json_object_get(answer->json, "generated_text"));
}

/* The text of a token contains only whole characters. The joined texts of all tokens are the whole text. */
static void test_texts_of_tokens_make_up_the_text(void **state)
{
    (void)state;
    struct answer answer = post(the_daemon, "{\"model\":\"texts\",\"inputs\":\"caf\xc3\xa9 \",\"parameters\":{"
                                            "\"max_new_tokens\":120,\"temperature\":3,\"seed\":4,\"details\":true}}");
    const json_t *tokens = tokens_of(&answer), *token;
    char joined[2048] = "";
    size_t i;
    json_array_foreach (tokens, i, token)
        if (!json_is_true(json_object_get(token, "special")))
            strcat(joined, json_string_value(json_object_get(token, "text")));
    assert_string_equal(joined, text_of(&answer));
    assert_int_equal(json_integer_value(json_object_get(json_object_get(answer.json, "details"), "seed")), 4);
    answer_free(&answer);
}

static void test_return_full_text_puts_the_prompt_first(void **state)
{
    (void)state;
    struct answer plain =
        post(the_daemon, "{\"model\":\"texts\",\"inputs\":\"abc\",\"parameters\":{\"max_new_tokens\":30}}");
    struct answer full =
        post(the_daemon, "{\"model\":\"texts\",\"inputs\":\"abc\",\"parameters\":{\"max_new_tokens\":30,"
                         "\"return_full_text\":true}}");
    char expected[1024], stop[256];
    snprintf(expected, sizeof expected, "abc%s", text_of(&plain));
    assert_string_equal(text_of(&full), expected);
    assert_null(json_object_get(plain.json, "details"));

    /* With these stop texts, the text must be the same as without stop texts. */
    snprintf(stop, sizeof stop,
             "{\"model\":\"texts\",\"inputs\":\"abc\",\"parameters\":{\"max_new_tokens\":30,\"details\":true,\"stop\":["
             "%s]}}",
             "\"zzzzzzzz\",\"\xef\xbf\xbd\"");
    struct answer unstopped = post(the_daemon, stop);
    assert_string_equal(text_of(&unstopped), text_of(&plain));
    answer_free(&plain);
    answer_free(&full);
    answer_free(&unstopped);
}

/* The first small letter of a sampled text is given as a stop text. The text must then end with this letter. */
static void test_stop_text_ends_the_sequence(void **state)
{
    (void)state;
    const char *all =
        "{\"model\":\"texts\",\"inputs\":\"hello\",\"parameters\":{\"max_new_tokens\":60,\"temperature\":2,"
        "\"seed\":%d,\"details\":true%s}}";
    int stopped = 0;
    for (int seed = 0; seed < 8 && !(stopped > 0 && daemon_is_slow()); seed++) {
        char body[512];
        snprintf(body, sizeof body, all, seed, "");
        struct answer answer = post(the_daemon, body);
        const char *text = text_of(&answer), *letter = text;
        while (*letter && !(*letter >= 'a' && *letter <= 'z'))
            letter++;
        if (*letter) {
            char stop[64];
            snprintf(stop, sizeof stop, ",\"stop\":[\"%c\"]", *letter);
            snprintf(body, sizeof body, all, seed, stop);
            struct answer short_one = post(the_daemon, body);
            const char *found = text_of(&short_one);
            assert_int_equal(strlen(found), letter - text + 1);
            assert_memory_equal(found, text, strlen(found));
            const json_t *details = json_object_get(short_one.json, "details");
            assert_string_equal(json_string_value(json_object_get(details, "finish_reason")), "stop_sequence");
            stopped++;
            answer_free(&short_one);
        }
        answer_free(&answer);
    }
    assert_in_range(stopped, 1, 8);
}

static void test_eos_token_ends_the_sequence(void **state)
{
    (void)state;
    int ended = 0;
    for (int seed = 0; seed < 20 && !(ended > 0 && daemon_is_slow()); seed++) {
        char body[256];
        snprintf(body, sizeof body,
                 "{\"model\":\"ending\",\"inputs\":\"a\",\"parameters\":{\"max_new_tokens\":200,\"temperature\":1,"
                 "\"do_sample\":true,\"seed\":%d,\"details\":true}}",
                 seed);
        struct answer answer = post(the_daemon, body);
        const json_t *tokens = tokens_of(&answer), *details = json_object_get(answer.json, "details");
        size_t count = json_array_size(tokens);
        bool last = id_at(tokens, count - 1) == 258;
        assert_string_equal(json_string_value(json_object_get(details, "finish_reason")),
                            last ? "eos_token" : "length");
        for (size_t i = 0; i + 1 < count; i++)
            assert_int_not_equal(id_at(tokens, i), 258);
        ended += last;
        answer_free(&answer);
    }
    assert_in_range(ended, 1, 20);
}

static void test_top_tokens_begin_with_the_greedy_token(void **state)
{
    (void)state;
    struct answer answer =
        post(the_daemon, "{\"model\":\"texts\",\"inputs\":\"abc\",\"parameters\":{\"max_new_tokens\":3,"
                         "\"top_n_tokens\":4,\"details\":true}}");
    const json_t *tokens = tokens_of(&answer);
    const json_t *top = json_object_get(json_object_get(answer.json, "details"), "top_tokens");
    assert_int_equal(json_array_size(top), 3);
    for (size_t i = 0; i < 3; i++) {
        const json_t *best = json_array_get(top, i);
        assert_int_equal(json_array_size(best), 4);
        assert_int_equal(id_at(best, 0), id_at(tokens, i)); /* the first candidate is the greedy token */
        for (size_t j = 1; j < 4; j++)
            assert_true(json_real_value(json_object_get(json_array_get(best, j), "logprob")) <=
                        json_real_value(json_object_get(json_array_get(best, j - 1), "logprob")));
    }
    answer_free(&answer);
}

/* ---- Refusals ---- */

static void test_wrong_requests_are_refused_with_their_fault(void **state)
{
    (void)state;
    static const struct {
        long status;
        const char *body, *message;
    } cases[] = {
        {422, "{\"model\":\"linformer_lm\",\"inputs\":[1]}", "linformer.LinformerLM is not causal"},
        {422, "{\"model\":\"texts\"}", "inputs is missing"},
        {422, "{\"model\":\"texts\",\"inputs\":[]}", "inputs is empty"},
        {422, "{\"model\":\"texts\",\"inputs\":\"\"}", "inputs is empty"},
        {422, "{\"model\":\"texts\",\"inputs\":[259]}", "below 259"},
        {422, "{\"model\":\"texts\",\"inputs\":[-1]}", "at least 0"},
        {422, "{\"model\":\"texts\",\"inputs\":[1.5]}", "an integer id was expected"},
        {422, "{\"model\":\"texts\",\"inputs\":{\"a\":1}}", "a text or a list of ids was expected"},
        {422, "{\"model\":\"linear_attention_lm_causal\",\"inputs\":\"abc\"}", "has no tokenizer"},
        {422, "{\"model\":\"texts\",\"inputs\":[1],\"parameters\":{\"temperature\":0}}", "parameters.temperature is 0"},
        {422, "{\"model\":\"texts\",\"inputs\":[1],\"parameters\":{\"temperature\":\"hot\"}}", "a number was expected"},
        {422, "{\"model\":\"texts\",\"inputs\":[1],\"parameters\":{\"top_p\":1.5}}", "parameters.top_p is 1.5"},
        {422, "{\"model\":\"texts\",\"inputs\":[1],\"parameters\":{\"max_new_tokens\":0}}", "max_new_tokens is 0"},
        {422, "{\"model\":\"texts\",\"inputs\":[1],\"parameters\":{\"max_new_tokens\":9999999}}", "at most 1048576"},
        {422, "{\"model\":\"texts\",\"inputs\":[1],\"parameters\":{\"stop\":[1]}}", "parameters.stop"},
        {422, "{\"model\":\"texts\",\"inputs\":[1],\"parameters\":{\"stop\":[\"\"]}}", "parameters.stop"},
        {422, "{\"model\":\"texts\",\"inputs\":[1],\"parameters\":{\"seed\":-1}}", "parameters.seed"},
        {422, "{\"model\":\"texts\",\"inputs\":[1],\"parameters\":{\"decoder_input\":[1]}}", "models with an encoder"},
        {422, "{\"model\":\"texts\",\"inputs\":[1],\"parameters\":3}", "an object was expected"},
        {404, "{\"model\":\"nobody\",\"inputs\":[1]}", "nobody"},
        {400, "{\"inputs\":[1", ""},
    };
    for (size_t i = 0; i < LENGTH(cases); i++) {
        struct answer answer = post(the_daemon, cases[i].body);
        if (answer.status != cases[i].status || !strstr(answer.body, cases[i].message))
            fail_msg("%s: %ld %s", cases[i].body, answer.status, answer.body);
        answer_free(&answer);
    }
}

static void test_long_stop_texts_are_refused(void **state)
{
    (void)state;
    char body[2048];
    for (int length = 1024; length <= 1025; length++) {
        snprintf(body, sizeof body, "{\"model\":\"texts\",\"inputs\":\"a\",\"parameters\":{\"stop\":\"%0*d\"}}", length,
                 0);
        struct answer answer = post(the_daemon, body);
        assert_int_equal(answer.status, length == 1024 ? 200 : 422);
        answer_free(&answer);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_greedy_ids_are_the_library_s),
        cmocka_unit_test(test_answers_do_not_depend_on_other_clients),
        cmocka_unit_test(test_without_slots_the_generated_ids_are_the_same),
        cmocka_unit_test(test_a_model_without_states_generates_as_by_logits),
        cmocka_unit_test(test_an_encoder_reads_the_inputs),
        cmocka_unit_test(test_texts_of_tokens_make_up_the_text),
        cmocka_unit_test(test_return_full_text_puts_the_prompt_first),
        cmocka_unit_test(test_stop_text_ends_the_sequence),
        cmocka_unit_test(test_eos_token_ends_the_sequence),
        cmocka_unit_test(test_top_tokens_begin_with_the_greedy_token),
        cmocka_unit_test(test_wrong_requests_are_refused_with_their_fault),
        cmocka_unit_test(test_long_stop_texts_are_refused),
    };
    return cmocka_run_group_tests_name("generation", tests, start, stop);
}
