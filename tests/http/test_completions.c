/* /v1/completions: the ids are those that linear-attention-transformer generates (tests/generation/greedy.json). Other
 * tests check the keys of requests, and that the pieces of a stream make up the whole answer. */
#include "tests/http/daemon.h"
#include "tests/http/generation.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* Posts {"model": "texts", KEYS}, and expects 200 and JSON. The caller drops the reference. */
static json_t *complete(const char *keys)
{
    char body[2048];
    snprintf(body, sizeof body, "{\"model\":\"texts\",%s}", keys);
    struct answer answer = daemon_post(the_daemon, "/v1/completions", body);
    json_t *json = json_loadb(answer.body, answer.length, JSON_ALLOW_NUL, NULL);
    if (answer.status != 200 || !json)
        fail_msg("%s: %ld %s", body, answer.status, answer.body);
    answer_free(&answer);
    return json;
}

static const json_t *choice_at(const json_t *answer, size_t index)
{
    const json_t *choice = json_array_get(json_object_get(answer, "choices"), index);
    assert_non_null(choice);
    assert_int_equal(json_integer_value(json_object_get(choice, "index")), index);
    return choice;
}

static const char *text_at(const json_t *answer, size_t index)
{
    return json_string_value(json_object_get(choice_at(answer, index), "text"));
}

static const char *word(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

static json_int_t number(const json_t *object, const char *key)
{
    return json_integer_value(json_object_get(object, key));
}

/* ---- Ids ---- */

/* With "n", each prompt has n choices. With greedy generation, they are equal. */
static void test_greedy_ids_are_the_library_s(void **state)
{
    (void)state;
    json_t *runs = generation_greedy_runs(), *run;
    size_t i;
    json_array_foreach (runs, i, run) {
        json_int_t ids = (json_int_t)json_array_size(json_object_get(run, "ids"));
        json_t *body = json_pack("{s:O,s:[O,O],s:I,s:i,s:i}", "model", json_object_get(run, "model"), "prompt",
                                 json_object_get(run, "prompt"), json_object_get(run, "prompt"), "max_tokens", ids,
                                 "temperature", 0, "n", 2);
        char *text = json_dumps(body, JSON_COMPACT);
        struct answer answer = daemon_post(the_daemon, "/v1/completions", text);
        if (answer.status != 200)
            fail_msg("%s: %ld %s", text, answer.status, answer.body);
        for (size_t c = 0; c < 4; c++)
            assert_true(
                json_equal(json_object_get(choice_at(answer.json, c), "token_ids"), json_object_get(run, "ids")));
        json_int_t prompt = (json_int_t)json_array_size(json_object_get(run, "prompt"));
        const json_t *usage = json_object_get(answer.json, "usage");
        assert_int_equal(number(usage, "prompt_tokens"), 2 * prompt);
        assert_int_equal(number(usage, "completion_tokens"), 4 * ids);
        assert_int_equal(number(usage, "total_tokens"), 2 * prompt + 4 * ids);
        answer_free(&answer);
        json_decref(body);
        free(text);
    }
    json_decref(runs);
}

/* A prompt is a text, its ids, or a list of either. */
static void test_a_prompt_is_a_text_its_ids_or_a_list_of_either(void **state)
{
    (void)state;
    static const char *const prompts[] = {"\"ab\"", "[100,101]", "[\"ab\"]", "[[100,101]]", "[\"ab\",[100,101]]"};
    char keys[256];
    json_t *first = complete("\"prompt\":\"ab\",\"temperature\":0,\"max_tokens\":30,\"return_token_ids\":true");
    for (size_t i = 0; i < LENGTH(prompts); i++) {
        snprintf(keys, sizeof keys, "\"prompt\":%s,\"temperature\":0,\"max_tokens\":30,\"return_token_ids\":true",
                 prompts[i]);
        json_t *answer = complete(keys);
        size_t count = json_array_size(json_object_get(answer, "choices"));
        assert_int_equal(count, i == 4 ? 2 : 1);
        for (size_t c = 0; c < count; c++)
            assert_true(json_equal(json_object_get(choice_at(answer, c), "token_ids"),
                                   json_object_get(choice_at(first, 0), "token_ids")));
        json_decref(answer);
    }
    json_decref(first);
}

/* Checks all fields of an answer, and the default of max_tokens. The text is that of /generate. */
static void test_an_answer_has_the_fields_of_openai(void **state)
{
    (void)state;
    json_t *answer = complete("\"prompt\":\"ab\",\"temperature\":0");
    const json_t *choice = choice_at(answer, 0);
    assert_memory_equal(word(answer, "id"), "cmpl-", 5);
    assert_string_equal(word(answer, "object"), "text_completion");
    assert_string_equal(word(answer, "model"), "texts");
    assert_true(number(answer, "created") > 1700000000);
    assert_string_equal(word(choice, "finish_reason"), "length");
    assert_true(json_is_null(json_object_get(choice, "logprobs")));
    assert_null(json_object_get(choice, "token_ids"));
    struct answer native = daemon_post(
        the_daemon, "/generate", "{\"model\":\"texts\",\"inputs\":\"ab\",\"parameters\":{\"max_new_tokens\":16}}");
    json_t *whole = json_loadb(native.body, native.length, JSON_ALLOW_NUL, NULL);
    const json_t *text = json_object_get(choice, "text"), *usage = json_object_get(answer, "usage");
    assert_true(json_string_length(text) > 0);
    assert_true(json_equal(text, json_object_get(whole, "generated_text")));
    assert_int_equal(number(usage, "prompt_tokens"), 2);
    assert_int_equal(number(usage, "completion_tokens"), 16);
    assert_int_equal(number(usage, "total_tokens"), 18);
    assert_int_equal(json_object_size(answer), 6);
    assert_int_equal(json_object_size(choice), 4);
    assert_int_equal(json_object_size(usage), 3);
    json_decref(whole);
    answer_free(&native);
    json_decref(answer);
}

/* With `echo`, the answer begins with the text of the prompt. */
static void test_echo_puts_the_prompt_before_the_text(void **state)
{
    (void)state;
    char expected[1024];
    json_t *plain = complete("\"prompt\":\"caf\xc3\xa9\",\"temperature\":0");
    json_t *echo = complete("\"prompt\":[\"caf\xc3\xa9\",[102,100,105,198,172]],\"temperature\":0,\"echo\":true");
    json_t *none = complete("\"prompt\":\"caf\xc3\xa9\",\"max_tokens\":0,\"echo\":true,\"return_token_ids\":true");
    snprintf(expected, sizeof expected, "caf\xc3\xa9%s", text_at(plain, 0));
    assert_string_equal(text_at(echo, 0), expected);
    assert_string_equal(text_at(echo, 1), expected);
    assert_string_equal(text_at(none, 0), "caf\xc3\xa9");
    assert_int_equal(json_array_size(json_object_get(choice_at(none, 0), "token_ids")), 0);
    assert_int_equal(number(json_object_get(none, "usage"), "completion_tokens"), 0);
    assert_string_equal(word(choice_at(none, 0), "finish_reason"), "length");
    json_decref(plain);
    json_decref(echo);
    json_decref(none);
}

/* A prompt that config.json defines is put before a text, on /v1/completions and on /generate. */
static void test_prompt_name_puts_a_prompt_before_the_text(void **state)
{
    (void)state;
    static const struct {
        const char *path, *named, *plain;
    } cases[] = {
        {"/v1/completions", "{\"model\":\"ending\",\"prompt\":\"a\",\"prompt_name\":\"query\",\"temperature\":0}",
         "{\"model\":\"ending\",\"prompt\":\"query: a\",\"temperature\":0}"},
        {"/generate", "{\"model\":\"ending\",\"inputs\":\"a\",\"prompt_name\":\"query\"}",
         "{\"model\":\"ending\",\"inputs\":\"query: a\"}"},
    };
    for (size_t i = 0; i < LENGTH(cases); i++) {
        struct answer named = daemon_post(the_daemon, cases[i].path, cases[i].named);
        struct answer plain = daemon_post(the_daemon, cases[i].path, cases[i].plain);
        json_t *first = json_loadb(named.body, named.length, JSON_ALLOW_NUL, NULL);
        json_t *second = json_loadb(plain.body, plain.length, JSON_ALLOW_NUL, NULL);
        assert_int_equal(named.status, 200);
        static const char *const keys[] = {"choices", "usage", "generated_text"};
        for (size_t k = 0; k < LENGTH(keys); k++)
            assert_true(json_object_get(first, keys[k]) == json_object_get(second, keys[k]) ||
                        json_equal(json_object_get(first, keys[k]), json_object_get(second, keys[k])));
        json_decref(first);
        json_decref(second);
        answer_free(&named);
        answer_free(&plain);
    }
}

/* ---- Sampling ---- */

static void test_a_seed_repeats_its_answer(void **state)
{
    (void)state;
    const char *keys = "\"prompt\":\"ab\",\"max_tokens\":40,\"seed\":7,\"n\":3,\"return_token_ids\":true";
    json_t *first = complete(keys), *again = complete(keys);
    json_t *other = complete("\"prompt\":\"ab\",\"max_tokens\":40,\"seed\":8,\"return_token_ids\":true");
    const json_t *ids = json_object_get(choice_at(first, 0), "token_ids");
    assert_true(json_equal(json_object_get(first, "choices"), json_object_get(again, "choices")));
    assert_false(json_equal(ids, json_object_get(choice_at(first, 1), "token_ids")));
    assert_false(json_equal(ids, json_object_get(choice_at(other, 0), "token_ids")));
    json_decref(first);
    json_decref(again);
    json_decref(other);
}

/* Filters that leave one token give the greedy ids. */
static void test_filters_that_keep_one_token_are_greedy(void **state)
{
    (void)state;
    static const char *const filters[] = {"\"top_k\":1", "\"top_p\":1e-9", "\"min_p\":1", "\"temperature\":0"};
    json_t *greedy = complete("\"prompt\":\"ab\",\"temperature\":0,\"return_token_ids\":true,\"best_of\":1");
    for (size_t i = 0; i < LENGTH(filters); i++) {
        char keys[256];
        snprintf(keys, sizeof keys, "\"prompt\":\"ab\",%s,\"return_token_ids\":true", filters[i]);
        json_t *answer = complete(keys);
        assert_true(json_equal(json_object_get(choice_at(answer, 0), "token_ids"),
                               json_object_get(choice_at(greedy, 0), "token_ids")));
        json_decref(answer);
    }
    json_decref(greedy);
}

/* ---- Logprobs ---- */

/* The log-probabilities are those of /generate. Offsets of tokens are positions in the text. */
static void test_logprobs_are_those_of_generate(void **state)
{
    (void)state;
    json_t *answer =
        complete("\"prompt\":\"ab\",\"max_tokens\":60,\"seed\":3,\"logprobs\":2,\"return_token_ids\":true");
    const json_t *choice = choice_at(answer, 0), *logprobs = json_object_get(choice, "logprobs");
    const json_t *ids = json_object_get(choice, "token_ids"), *offsets = json_object_get(logprobs, "text_offset");
    struct answer native = daemon_post(the_daemon, "/generate",
                                       "{\"model\":\"texts\",\"inputs\":\"ab\",\"parameters\":{\"max_new_tokens\":60,"
                                       "\"do_sample\":true,\"seed\":3,\"details\":true,\"top_n_tokens\":2}}");
    json_t *whole = json_loadb(native.body, native.length, JSON_ALLOW_NUL, NULL);
    const json_t *tokens = json_object_get(json_object_get(whole, "details"), "tokens");
    const json_t *text = json_object_get(choice, "text");
    json_int_t characters = 0;
    assert_true(json_array_size(ids) > 10);
    assert_int_equal(json_array_size(ids), json_array_size(tokens));
    for (size_t i = 0; i < json_array_size(ids); i++) {
        const json_t *token = json_array_get(tokens, i);
        double logprob = json_number_at(json_object_get(logprobs, "token_logprobs"), i);
        const char *name = json_string_value(json_array_get(json_object_get(logprobs, "tokens"), i));
        const json_t *top = json_array_get(json_object_get(logprobs, "top_logprobs"), i);
        const json_t *piece = json_object_get(token, "text");
        assert_true(json_equal(json_array_get(ids, i), json_object_get(token, "id")));
        assert_true(logprob == json_real_value(json_object_get(token, "logprob")));
        assert_in_range(json_object_size(top), 2, 3);
        assert_true(json_real_value(json_object_get(top, name)) == logprob);
        assert_int_equal(json_integer_value(json_array_get(offsets, i)), characters);
        if (json_is_true(json_object_get(token, "special")))
            continue;
        for (size_t b = 0; b < json_string_length(piece); b++)
            characters += (json_string_value(piece)[b] & 0xc0) != 0x80;
    }
    assert_true(json_equal(text, json_object_get(whole, "generated_text")));
    json_decref(whole);
    answer_free(&native);
    json_decref(answer);
}

/* ---- Stop texts ---- */

/* The answer contains neither the stop text nor anything after it. */
static void test_an_answer_ends_before_the_stop_text(void **state)
{
    (void)state;
    int stopped = 0;
    for (int seed = 0; seed < 12; seed++) {
        char keys[256], more[512];
        snprintf(keys, sizeof keys, "\"prompt\":\"hello\",\"max_tokens\":60,\"temperature\":2,\"seed\":%d", seed);
        json_t *answer = complete(keys);
        const char *text = text_at(answer, 0), *letter = text;
        while (*letter && !(letter[0] >= 'a' && letter[0] <= 'z' && letter[1] >= 'a' && letter[1] <= 'z'))
            letter++;
        if (*letter) {
            snprintf(more, sizeof more, "%s,\"stop\":[\"zzzzzzzzzzz\",\"%.2s\"]", keys, letter);
            json_t *cut = complete(more);
            assert_int_equal(strlen(text_at(cut, 0)), letter - text);
            assert_memory_equal(text_at(cut, 0), text, letter - text);
            assert_string_equal(word(choice_at(cut, 0), "finish_reason"), "stop");
            stopped++;
            json_decref(cut);
        }
        json_decref(answer);
    }
    assert_in_range(stopped, 1, 12);
}

static void test_the_eos_token_ends_the_text(void **state)
{
    (void)state;
    int ended = 0;
    for (int seed = 0; seed < 20; seed++) {
        char body[256];
        snprintf(body, sizeof body,
                 "{\"model\":\"ending\",\"prompt\":\"a\",\"max_tokens\":200,\"seed\":%d,\"return_token_ids\":true}",
                 seed);
        struct answer answer = daemon_post(the_daemon, "/v1/completions", body);
        json_t *json = json_loadb(answer.body, answer.length, JSON_ALLOW_NUL, NULL);
        const json_t *choice = choice_at(json, 0), *ids = json_object_get(choice, "token_ids");
        bool last = json_integer_value(json_array_get(ids, json_array_size(ids) - 1)) == 258;
        assert_string_equal(word(choice, "finish_reason"), last ? "stop" : "length");
        ended += last;
        json_decref(json);
        answer_free(&answer);
    }
    assert_in_range(ended, 1, 20);
}

/* ---- Streams ---- */

static void append(json_t *whole, const char *key, const json_t *piece)
{
    json_t *list = json_object_get(whole, key);
    if (!list) {
        list = json_array();
        json_object_set_new(whole, key, list);
    }
    json_array_extend(list, json_object_get(piece, key));
}

/* Adds the choice of a chunk to the joined answer. */
static void add_choice(json_t *whole, const json_t *piece)
{
    const json_t *text = json_object_get(whole, "text"), *more = json_object_get(piece, "text");
    const json_t *logprobs = json_object_get(piece, "logprobs");
    static const char *const lists[] = {"text_offset", "token_logprobs", "tokens", "top_logprobs"};
    size_t before = json_string_length(text), added = json_string_length(more);
    char *both = malloc(before + added + 1);
    memcpy(both, before > 0 ? json_string_value(text) : "", before);
    memcpy(both + before, json_string_value(more), added);
    json_object_set_new(whole, "text", json_stringn(both, before + added));
    free(both);
    assert_true(json_is_null(json_object_get(whole, "finish_reason")) || !json_object_get(whole, "finish_reason"));
    json_object_set(whole, "finish_reason", json_object_get(piece, "finish_reason"));
    json_object_set(whole, "index", json_object_get(piece, "index"));
    if (json_object_get(piece, "token_ids"))
        append(whole, "token_ids", piece);
    if (json_is_null(logprobs)) {
        json_object_set(whole, "logprobs", (json_t *)logprobs);
        return;
    }
    if (!json_object_get(whole, "logprobs"))
        json_object_set_new(whole, "logprobs", json_object());
    for (size_t i = 0; i < LENGTH(lists); i++)
        append(json_object_get(whole, "logprobs"), lists[i], logprobs);
}

/* Joins the chunks of a stream into one answer. The stream must end with "data: [DONE]". */
static json_t *join_chunks(const struct answer *answer)
{
    json_t *joined = json_pack("{s:[],s:n}", "choices", "usage"), *choices = json_object_get(joined, "choices");
    bool done = false;
    for (const char *at = answer->body, *end; *at; at = end + 2) {
        end = strstr(at, "\n\n");
        if (!end || strncmp(at, "data: ", 6) != 0 || done)
            fail_msg("no event: %s", at);
        done = strncmp(at, "data: [DONE]\n", 13) == 0;
        if (done)
            continue;
        json_t *chunk = json_loadb(at + 6, (size_t)(end - at - 6), JSON_ALLOW_NUL, NULL), *piece;
        size_t i;
        assert_non_null(chunk);
        assert_string_equal(word(chunk, "object"), "text_completion");
        if (!json_object_get(joined, "id"))
            json_object_set(joined, "id", json_object_get(chunk, "id"));
        assert_true(json_equal(json_object_get(joined, "id"), json_object_get(chunk, "id")));
        json_array_foreach (json_object_get(chunk, "choices"), i, piece) {
            size_t index = (size_t)number(piece, "index");
            while (json_array_size(choices) <= index)
                json_array_append_new(choices, json_object());
            add_choice(json_array_get(choices, index), piece);
        }
        assert_true(json_is_null(json_object_get(joined, "usage")));
        if (json_object_get(chunk, "usage"))
            json_object_set(joined, "usage", json_object_get(chunk, "usage"));
        json_decref(chunk);
    }
    assert_true(done);
    return joined;
}

static void test_chunks_are_the_answer_in_pieces(void **state)
{
    (void)state;
    static const char *const keys[] = {
        "\"prompt\":\"caf\xc3\xa9 \",\"max_tokens\":100,\"temperature\":3,\"seed\":%d,\"return_token_ids\":true",
        "\"prompt\":[\"ab\",\"a longer "
        "prompt\"],\"n\":2,\"max_tokens\":30,\"temperature\":2,\"seed\":%d,\"logprobs\":3",
        "\"prompt\":\"hello\",\"max_tokens\":60,\"temperature\":2,\"seed\":%d,\"echo\":true,"
        "\"stop\":[\"e\",\"th\",\"xyz\",\"\xc3\xa9\xc3\xa9\",\"a b\"]",
        "\"prompt\":[\"hello\"],\"max_tokens\":0,\"seed\":%d,\"echo\":true",
        "\"prompt\":[\"caf\xc3\xa9\",\"a b\"],\"max_tokens\":9,\"seed\":%d,\"echo\":true,\"logprobs\":2",
    };
    for (size_t i = 0; i < LENGTH(keys); i++) {
        for (int seed = 0; seed < 10; seed++) {
            char given[512], body[1024];
            snprintf(given, sizeof given, keys[i], seed);
            snprintf(body, sizeof body,
                     "{\"model\":\"texts\",\"stream\":true,\"stream_options\":{\"include_usage\":%s},%s}",
                     seed % 2 ? "true" : "false", given);
            json_t *whole = complete(given);
            struct answer answer = daemon_post(the_daemon, "/v1/completions", body);
            if (answer.status != 200)
                fail_msg("%s: %ld %s", body, answer.status, answer.body);
            json_t *joined = join_chunks(&answer);
            if (!json_equal(json_object_get(joined, "choices"), json_object_get(whole, "choices")))
                fail_msg("%s:\n%s\n%s", body, json_dumps(joined, 0), json_dumps(whole, 0));
            assert_true(seed % 2 ? json_equal(json_object_get(joined, "usage"), json_object_get(whole, "usage"))
                                 : json_is_null(json_object_get(joined, "usage")));
            json_decref(joined);
            json_decref(whole);
            answer_free(&answer);
        }
    }
}

/* The first letters of a stop text are generated in earlier steps than its last letter. They must not be sent. */
static void test_parts_of_a_stop_text_are_not_sent(void **state)
{
    (void)state;
    int stopped = 0;
    for (int seed = 0; seed < 12; seed++) {
        char keys[256], more[512], body[1024];
        snprintf(keys, sizeof keys, "\"prompt\":\"hello\",\"max_tokens\":60,\"temperature\":2,\"seed\":%d", seed);
        json_t *whole = complete(keys);
        const char *letter = text_at(whole, 0);
        while (*letter && !(letter[0] >= 'a' && letter[0] <= 'z' && letter[1] >= 'a' && letter[1] <= 'z'))
            letter++;
        if (*letter) {
            snprintf(more, sizeof more, "%s,\"stop\":[\"%.2s\",\"%.1s~~~\"]", keys, letter, letter);
            snprintf(body, sizeof body, "{\"model\":\"texts\",\"stream\":true,%s}", more);
            json_t *cut = complete(more);
            struct answer answer = daemon_post(the_daemon, "/v1/completions", body);
            json_t *joined = join_chunks(&answer);
            assert_true(json_equal(json_object_get(joined, "choices"), json_object_get(cut, "choices")));
            stopped++;
            json_decref(joined);
            json_decref(cut);
            answer_free(&answer);
        }
        json_decref(whole);
    }
    assert_in_range(stopped, 1, 12);
}

/* ---- Keys without a meaning ---- */

/* The answer's header X-Ignored-Keys names the keys that have no meaning on the route, also for streams. With --strict,
 * the request is refused. */
static void test_unknown_keys_are_named_and_with_strict_refused(void **state)
{
    (void)state;
    static const char *const paths[] = {"/v1/completions", "/generate_stream"};
    static const char *const bodies[] = {
        "{\"prompt\":[1],\"suffix\":\"x\",\"user\":\"me\",\"stream\":true,\"stream_options\":{\"obfuscate\":1}}",
        "{\"inputs\":[1],\"suffix\":\"x\",\"parameters\":{\"obfuscate\":true},\"stream\":true}",
    };
    struct daemon *strict =
        daemon_start(ARGUMENTS("--strict", "--model", "tests/reference/linear_attention_lm_causal"));
    for (size_t i = 0; i < LENGTH(paths); i++) {
        struct answer answer = daemon_post(the_daemon, paths[i], bodies[i]);
        struct answer refused = daemon_post(strict, paths[i], bodies[i]);
        char *header = answer_header(&answer, "x-ignored-keys");
        assert_int_equal(answer.status, 200);
        assert_string_equal(header ? header : "", "suffix, obfuscate");
        assert_int_equal(refused.status, i == 0 ? 400 : 422);
        assert_non_null(strstr(refused.body, "unknown key"));
        free(header);
        answer_free(&answer);
        answer_free(&refused);
    }
    daemon_stop(strict);
}

/* ---- Failures ---- */

static void test_a_late_failure_is_the_last_event(void **state)
{
    (void)state;
    struct answer answer =
        daemon_post(the_daemon, "/v1/completions",
                    "{\"model\":\"failing\",\"prompt\":\"abc\",\"max_tokens\":200,\"seed\":1,\"stream\":true}");
    const char *last = strstr(answer.body, "data: {\"error\":");
    assert_int_equal(answer.status, 200);
    assert_memory_equal(answer.body, "data: {\"id\":", 12);
    assert_non_null(last);
    assert_non_null(strstr(last, "\"type\":\"server_error\""));
    assert_string_equal(strstr(last, "\n\n"), "\n\n");
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
        {400, "{\"model\":\"linformer_lm\",\"prompt\":[1]}", "linformer.LinformerLM is not causal"},
        {400, "{\"model\":\"texts\"}", "prompt is missing"},
        {400, "{\"model\":\"texts\",\"prompt\":[]}", "prompt is empty"},
        {400, "{\"model\":\"texts\",\"prompt\":\"\"}", "prompt is empty"},
        {400, "{\"model\":\"texts\",\"prompt\":[\"a\",3]}", "prompt[1] is an integer"},
        {400, "{\"model\":\"texts\",\"prompt\":[[1],[259]]}", "prompt[1][0] is 259"},
        {400, "{\"model\":\"texts\",\"prompt\":\"a\",\"max_tokens\":-1}", "max_tokens is -1"},
        {400, "{\"model\":\"texts\",\"prompt\":\"a\",\"max_tokens\":9999999}", "max_tokens is 9999999"},
        {400, "{\"model\":\"texts\",\"prompt\":\"a\",\"max_tokens\":true}", "an integer was expected"},
        {400, "{\"model\":\"texts\",\"prompt\":\"a\",\"temperature\":-1}", "temperature is -1"},
        {400, "{\"model\":\"texts\",\"prompt\":\"a\",\"top_p\":0}", "top_p is 0"},
        {400, "{\"model\":\"texts\",\"prompt\":\"a\",\"top_k\":-2}", "top_k is -2"},
        {400, "{\"model\":\"texts\",\"prompt\":\"a\",\"logprobs\":65}", "logprobs is 65"},
        {400, "{\"model\":\"texts\",\"prompt\":\"a\",\"n\":0}", "n is 0"},
        {400, "{\"model\":\"texts\",\"prompt\":\"a\",\"n\":65}", "at most 64 at a time (--max-generations)"},
        {400, "{\"model\":\"texts\",\"prompt\":[\"a\",\"b\"],\"n\":9223372036854775807}",
         "at most 64 at a time (--max-generations)"},
        {400, "{\"model\":\"texts\",\"prompt\":\"a\",\"best_of\":2}", "best_of is 2"},
        {400, "{\"model\":\"texts\",\"prompt\":\"a\",\"stop\":[\"\"]}", "stop: expected texts"},
        {400, "{\"model\":\"texts\",\"prompt\":\"a\",\"stream_options\":{}}", "stream_options needs stream"},
        {400, "{\"model\":\"texts\",\"prompt\":\"a\",\"prompt_name\":\"query\"}", "has no prompts"},
        {400, "{\"model\":\"texts\",\"prompt\":\"a\",\"stream\":true,\"seed\":-1}", "seed is negative"},
        {404, "{\"model\":\"nobody\",\"prompt\":[1]}", "nobody"},
    };
    for (size_t i = 0; i < LENGTH(cases); i++) {
        struct answer answer = daemon_post(the_daemon, "/v1/completions", cases[i].body);
        const char *message = word(json_object_get(answer.json, "error"), "message");
        if (answer.status != cases[i].status || !message || !strstr(message, cases[i].message))
            fail_msg("%s: %ld %s", cases[i].body, answer.status, answer.body);
        answer_free(&answer);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_greedy_ids_are_the_library_s),
        cmocka_unit_test(test_a_prompt_is_a_text_its_ids_or_a_list_of_either),
        cmocka_unit_test(test_an_answer_has_the_fields_of_openai),
        cmocka_unit_test(test_echo_puts_the_prompt_before_the_text),
        cmocka_unit_test(test_prompt_name_puts_a_prompt_before_the_text),
        cmocka_unit_test(test_a_seed_repeats_its_answer),
        cmocka_unit_test(test_filters_that_keep_one_token_are_greedy),
        cmocka_unit_test(test_logprobs_are_those_of_generate),
        cmocka_unit_test(test_an_answer_ends_before_the_stop_text),
        cmocka_unit_test(test_the_eos_token_ends_the_text),
        cmocka_unit_test(test_chunks_are_the_answer_in_pieces),
        cmocka_unit_test(test_parts_of_a_stop_text_are_not_sent),
        cmocka_unit_test(test_unknown_keys_are_named_and_with_strict_refused),
        cmocka_unit_test(test_a_late_failure_is_the_last_event),
        cmocka_unit_test(test_wrong_requests_are_refused_with_their_fault),
    };
    return cmocka_run_group_tests_name("completions", tests, start, stop);
}
