/* The daemon on the shim's devices while calls of the CUDA runtime fail. Clients must get correct answers. /health,
 * /info and /metrics must report the failures. Before a test reads the state of a failed device, a rule
 * (tests/cuda/faults.h) keeps the device from opening. The test then removes the rule, and waits for the device.
 * Therefore no check depends on time. */
#define _GNU_SOURCE /* asprintf */
#include "tests/http/daemon.h"

#include "tests/cuda/faults.h"
#include "tests/cuda/schedules.h"

#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MODEL "tests/reference/linformer_lm"
#define VOCABULARY 97
#define LONGEST 24
#define BODIES 12
#define CLIENTS 4
#define ROUNDS 12
#define TOLERANCE 1e-4

static char *bodies[BODIES];
static json_t *expected[BODIES]; /* answers of the CPU */

/* ---- Requests ---- */

static char *random_body(unsigned *seed)
{
    char ids[LONGEST * 4 + 1] = "";
    char *body;
    int length = 1 + rand_r(seed) % LONGEST;
    for (int i = 0; i < length; i++)
        sprintf(ids + strlen(ids), "%s%d", i ? "," : "", rand_r(seed) % VOCABULARY);
    assert_true(asprintf(&body, "{\"model\": \"%c\", \"inputs\": [[%s]]}", rand_r(seed) % 2 ? 'a' : 'b', ids) > 0);
    return body;
}

static bool is_near(const json_t *found, const json_t *wanted)
{
    if (json_is_real(wanted) || json_is_integer(wanted))
        return fabs(json_number_value(found) - json_number_value(wanted)) < TOLERANCE;
    if (json_is_object(wanted))
        wanted = json_object_get(wanted, "logits"), found = json_object_get(found, "logits");
    if (json_array_size(wanted) == 0 || json_array_size(found) != json_array_size(wanted))
        return false;
    for (size_t i = 0; i < json_array_size(wanted); i++)
        if (!is_near(json_array_get(found, i), json_array_get(wanted, i)))
            return false;
    return true;
}

static bool is_served(const struct daemon *daemon, int body)
{
    struct answer answer = daemon_post(daemon, "/logits", bodies[body]);
    bool served = answer.status == 200 && is_near(answer.json, expected[body]);
    if (!served)
        print_error("%s: %ld %.200s\n", bodies[body], answer.status, answer.body);
    answer_free(&answer);
    return served;
}

static void expect_served(const struct daemon *daemon)
{
    for (int i = 0; i < BODIES; i++)
        assert_true(is_served(daemon, i));
}

/* ---- Reports about devices ---- */

static bool says(const struct daemon *daemon, const char *path, const char *health)
{
    struct answer answer = daemon_get(daemon, path);
    assert_int_equal(answer.status, 200);
    bool same = strcmp(json_string_value(json_object_get(answer.json, "status")), health) == 0;
    answer_free(&answer);
    return same;
}

static void wait_until_ok(const struct daemon *daemon)
{
    while (!says(daemon, "/health", "ok"))
        nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
}

static int64_t metric(const struct daemon *daemon, const char *name)
{
    struct answer answer = daemon_get(daemon, "/metrics");
    char *line;
    assert_true(asprintf(&line, "\n%s ", name) > 0);
    const char *found = strstr(answer.body, line);
    assert_non_null(found);
    int64_t value = strtoll(found + strlen(line), NULL, 10);
    free(line);
    answer_free(&answer);
    return value;
}

static void expect_state(const struct daemon *daemon, size_t device, const char *state)
{
    struct answer answer = daemon_get(daemon, "/info");
    const json_t *entry = json_array_get(json_object_get(answer.json, "devices"), device);
    assert_string_equal(json_string_value(json_object_get(entry, "state")), state);
    answer_free(&answer);
}

/* ---- The daemon ---- */

static struct daemon *start_on(const char *device)
{
    faults_set("");
    return daemon_start(ARGUMENTS("--model", "a=" MODEL, "--model", "b=" MODEL, "--device", device, "--dtype", "f32",
                                  "--cuda-f32", "plain", "--threads", "1"));
}

static void the_cpu_serves_while_the_only_device_fails(void **state)
{
    (void)state;
    struct daemon *daemon = start_on("cuda");
    expect_served(daemon);
    assert_true(says(daemon, "/health", "ok"));
    assert_int_equal(metric(daemon, "linformerd_device_up{device=\"cuda:0\"}"), 1);
    assert_int_equal(metric(daemon, "linformerd_standby_batches_total"), 0);
    expect_state(daemon, 0, "ok");

    faults_set("synchronize 1 1 700 sticky\nopen 1 0 2\n");
    expect_served(daemon);
    assert_true(says(daemon, "/health", "degraded"));
    assert_true(says(daemon, "/health/ready", "degraded"));
    assert_true(says(daemon, "/health/live", "ok"));
    assert_int_equal(metric(daemon, "linformerd_device_up{device=\"cuda:0\"}"), 0);
    assert_int_equal(metric(daemon, "linformerd_device_faults_total{device=\"cuda:0\"}"), 1);
    assert_int_equal(metric(daemon, "linformerd_rerun_batches_total"), 1);
    assert_int_equal(metric(daemon, "linformerd_standby_batches_total"), BODIES);
    expect_state(daemon, 0, "failed");

    faults_set("");
    wait_until_ok(daemon);
    expect_served(daemon);
    assert_int_equal(metric(daemon, "linformerd_device_up{device=\"cuda:0\"}"), 1);
    assert_int_equal(metric(daemon, "linformerd_device_recoveries_total{device=\"cuda:0\"}"), 1);
    assert_int_equal(metric(daemon, "linformerd_standby_batches_total"), BODIES);
    expect_state(daemon, 0, "ok");

    faults_set("synchronize 1 0 700\n");
    expect_served(daemon);
    daemon_stop(daemon); /* stops the daemon while the device does not work */
}

/* The first device fails, and the CPU runs its batch again. The other device runs all later batches. */
static void the_other_device_serves_when_one_of_two_fails(void **state)
{
    (void)state;
    setenv("SHIM_DEVICES", "2", 1);
    struct daemon *daemon = start_on("cuda:1,cuda:0");
    faults_set("copy 1 0 700 device 1\nopen 1 0 2 device 1\n");
    expect_served(daemon);
    assert_true(says(daemon, "/health", "degraded"));
    expect_state(daemon, 0, "failed");
    expect_state(daemon, 1, "ok");
    assert_int_equal(metric(daemon, "linformerd_device_up{device=\"cuda:1\"}"), 0);
    assert_int_equal(metric(daemon, "linformerd_device_up{device=\"cuda:0\"}"), 1);
    assert_int_equal(metric(daemon, "linformerd_rerun_batches_total"), 1);
    assert_int_equal(metric(daemon, "linformerd_standby_batches_total"), 1);
    faults_set("");
    wait_until_ok(daemon);
    daemon_stop(daemon);
    unsetenv("SHIM_DEVICES");
}

/* If cuBLASLt refuses products, the device computes them without cuBLASLt. */
static void refused_products_stay_on_the_device(void **state)
{
    (void)state;
    struct daemon *daemon = start_on("cuda");
    faults_set("product 1 0 801\n");
    expect_served(daemon);
    assert_true(says(daemon, "/health", "ok"));
    expect_state(daemon, 0, "ok");
    assert_int_equal(metric(daemon, "linformerd_device_up{device=\"cuda:0\"}"), 1);
    assert_int_equal(metric(daemon, "linformerd_device_faults_total{device=\"cuda:0\"}"), 0);
    assert_int_equal(metric(daemon, "linformerd_rerun_batches_total"), 0);
    assert_int_equal(metric(daemon, "linformerd_standby_batches_total"), 0);
    daemon_stop(daemon);
}

struct client {
    pthread_t thread;
    const struct daemon *daemon;
    unsigned seed;
    int failed;
};

static void *be_client(void *argument)
{
    struct client *client = argument;
    for (int i = 0; i < ROUNDS; i++)
        client->failed += !is_served(client->daemon, rand_r(&client->seed) % BODIES);
    return NULL;
}

static void faults_under_load_fail_no_request(void **state)
{
    (void)state;
    static const char *const rules[] = {"launch 30 1 700 sticky\n", "synchronize 2 1 2\n", "copy 3 1 700 sticky\n"};
    struct client clients[CLIENTS] = {0};
    struct daemon *daemon = start_on("cuda");
    for (size_t round = 0; round < LENGTH(rules); round++) {
        faults_set(rules[round]);
        for (int i = 0; i < CLIENTS; i++) {
            clients[i].daemon = daemon;
            clients[i].seed = (unsigned)(round * CLIENTS) + (unsigned)i;
            assert_int_equal(pthread_create(&clients[i].thread, NULL, be_client, &clients[i]), 0);
        }
        for (int i = 0; i < CLIENTS; i++) {
            pthread_join(clients[i].thread, NULL);
            assert_int_equal(clients[i].failed, 0);
        }
        faults_set("");
        wait_until_ok(daemon);
    }
    int64_t faults = metric(daemon, "linformerd_device_faults_total{device=\"cuda:0\"}");
    assert_true(faults >= (int64_t)LENGTH(rules));
    assert_int_equal(metric(daemon, "linformerd_rerun_batches_total"), faults);
    assert_int_equal(metric(daemon, "linformerd_device_recoveries_total{device=\"cuda:0\"}"), LENGTH(rules));
    daemon_stop(daemon);
}

/* The first model does not fit on the device, the second model fits. /info must name the device of each model. */
static void a_model_that_does_not_fit_is_on_the_cpu(void **state)
{
    (void)state;
    faults_set("malloc 3 1 2\n");
    struct daemon *daemon = daemon_start(ARGUMENTS("--model", "a=" MODEL, "--model", "b=" MODEL, "--device", "auto",
                                                   "--dtype", "f32", "--threads", "1"));
    struct answer answer = daemon_get(daemon, "/info");
    const json_t *models = json_object_get(answer.json, "models");
    assert_string_equal(json_string_value(json_object_get(answer.json, "device")), "cuda:0");
    assert_string_equal(json_string_value(json_object_get(json_array_get(models, 0), "device")), "cpu");
    assert_string_equal(json_string_value(json_object_get(json_array_get(models, 1), "device")), "cuda:0");
    for (size_t i = 0; i < 2; i++)
        assert_non_null(json_string_value(json_object_get(json_array_get(models, i), "dtype")));
    answer_free(&answer);
    assert_true(says(daemon, "/health", "ok"));
    expect_served(daemon);
    assert_int_equal(metric(daemon, "linformerd_standby_batches_total"), 0);
    daemon_stop(daemon);
}

/* ---- Generation ---- */

#define CAUSAL "linear_attention_lm_causal_local_shift"
#define GREEDY "tests/generation/greedy.json" /* ids that the original library generates */
#define NEW_TOKENS 12

struct generating_client {
    pthread_t thread;
    const struct daemon *daemon;
    const json_t *run;
    char *body;
    struct answer answer;
};

static void *generate(void *argument)
{
    struct generating_client *client = argument;
    client->answer = daemon_post(client->daemon, "/generate", client->body);
    return NULL;
}

static void expect_generated(struct generating_client *client)
{
    const json_t *tokens = json_object_get(json_object_get(client->answer.json, "details"), "tokens");
    const json_t *ids = json_object_get(client->run, "ids");
    assert_int_equal(json_array_size(tokens), NEW_TOKENS);
    for (size_t i = 0; i < NEW_TOKENS; i++)
        assert_int_equal(json_integer_value(json_object_get(json_array_get(tokens, i), "id")),
                         json_integer_value(json_array_get(ids, i)));
    answer_free(&client->answer);
    free(client->body);
}

/* Sends all requests for the model at the same time. */
static void generate_all(const struct daemon *daemon, const json_t *runs)
{
    struct generating_client clients[8];
    size_t count = 0, i;
    json_t *run;
    json_array_foreach ((json_t *)runs, i, run) {
        if (strcmp(json_string_value(json_object_get(run, "model")), CAUSAL) != 0 || count == LENGTH(clients))
            continue;
        json_t *body = json_pack("{s:O,s:{s:i}}", "inputs", json_object_get(run, "prompt"), "parameters",
                                 "max_new_tokens", NEW_TOKENS);
        clients[count] =
            (struct generating_client){.daemon = daemon, .run = run, .body = json_dumps(body, JSON_COMPACT)};
        json_decref(body);
        assert_int_equal(pthread_create(&clients[count].thread, NULL, generate, &clients[count]), 0);
        count++;
    }
    assert_true(count > 2);
    for (i = 0; i < count; i++)
        pthread_join(clients[i].thread, NULL);
    for (i = 0; i < count; i++)
        expect_generated(&clients[i]);
}

/* Both devices run sequences at the same time. When one device fails, its sequences must continue. */
static void sequences_of_a_failing_device_continue(void **state)
{
    (void)state;
    json_t *runs = json_load_file(GREEDY, 0, NULL);
    assert_non_null(runs);
    setenv("SHIM_DEVICES", "2", 1);
    faults_set("");
    struct daemon *daemon = daemon_start(
        ARGUMENTS("--model", "tests/reference/" CAUSAL, "--device", "cuda:all", "--dtype", "f32", "--threads", "1"));
    generate_all(daemon, runs);
    assert_int_equal(metric(daemon, "linformerd_standby_batches_total"), 0);
    faults_set("launch 60 1 700 sticky device 0\nopen 1 1 2 device 0\n");
    do /* the other device may run most of the batches */
        generate_all(daemon, runs);
    while (metric(daemon, "linformerd_device_faults_total{device=\"cuda:0\"}") == 0);
    faults_set("");
    wait_until_ok(daemon);
    generate_all(daemon, runs);
    daemon_stop(daemon);
    unsetenv("SHIM_DEVICES");
    json_decref(runs);
}

static int begin(void **state)
{
    (void)state;
    char program[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 16);
    unsigned seed = (unsigned)time(NULL);
    const char *given = getenv("LINFORMERD_TEST_SEED");
    assert_true(length > 0);
    program[length] = '\0';
    strcpy(strrchr(program, '/'), "/linformerd");
    setenv("LINFORMERD", program, 1);
    faults_begin();
    seed = given ? (unsigned)strtoul(given, NULL, 10) : seed;
    printf("# LINFORMERD_TEST_SEED=%u\n", seed);
    struct daemon *daemon = start_on("cpu");
    for (int i = 0; i < BODIES; i++) {
        bodies[i] = random_body(&seed);
        expected[i] = daemon_post_json(daemon, "/logits", bodies[i]);
    }
    daemon_stop(daemon);
    return 0;
}

static int end(void **state)
{
    (void)state;
    faults_end();
    for (int i = 0; i < BODIES; i++) {
        free(bodies[i]);
        json_decref(expected[i]);
    }
    return 0;
}

static int run_faults(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_cpu_serves_while_the_only_device_fails),
        cmocka_unit_test(the_other_device_serves_when_one_of_two_fails),
        cmocka_unit_test(refused_products_stay_on_the_device),
        cmocka_unit_test(faults_under_load_fail_no_request),
        cmocka_unit_test(a_model_that_does_not_fit_is_on_the_cpu),
        cmocka_unit_test(sequences_of_a_failing_device_continue),
    };
    return cmocka_run_group_tests_name("the daemon and devices that fail", tests, begin, end);
}

int main(void)
{
    return run_schedules(run_faults);
}
