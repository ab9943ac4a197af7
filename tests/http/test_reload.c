/* Models that change while the daemon serves, by SIGHUP or by the routes that load and unload a model. In the first
 * test, several clients constantly send requests. Each answer must come from the old or from the new weights, and no
 * request may be lost. */
#define _GNU_SOURCE
#include "tests/http/checkpoint.h"
#include "tests/http/generation.h"

#include <curl/curl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CASE "linformer_lm"
#define BODY "{\"model\": \"m\", \"inputs\": [[1, 2, 3, 4, 5]], \"encoding_format\": \"base64\"}"
#define CLIENTS 3
#define RELOADS 20

/* Writes the weights of the case into PARENT/NAME. To value i of one tensor, the function adds `shift` times the
 * remainder of i / 7. New files replace the old files. */
static void write_model(const char *parent, const char *name, float shift)
{
    struct checkpoint checkpoint = checkpoint_read(CASE);
    struct checkpoint_tensor *tensor = checkpoint_tensor(&checkpoint, "linformer.net.layers.0.0.fn.proj_k");
    for (size_t i = 0; i < tensor->bytes / sizeof(float); i++) {
        float value;
        memcpy(&value, tensor->data + i * sizeof value, sizeof value);
        value += shift * (float)(i % 7);
        memcpy(tensor->data + i * sizeof value, &value, sizeof value);
    }
    char fresh[300], folder[300], from[400], to[400];
    snprintf(fresh, sizeof fresh, "%s/.new", parent);
    snprintf(folder, sizeof folder, "%s/%s", parent, name);
    mkdir(folder, 0700);
    checkpoint_write(&checkpoint, fresh, 0);
    static const char *const files[] = {"model.safetensors", "config.json"};
    for (size_t i = 0; i < LENGTH(files); i++) {
        snprintf(from, sizeof from, "%s/%s", fresh, files[i]);
        snprintf(to, sizeof to, "%s/%s", folder, files[i]);
        assert_int_equal(rename(from, to), 0);
    }
    assert_int_equal(rmdir(fresh), 0);
    checkpoint_free(&checkpoint);
}

static void write_text(const char *parent, const char *name, const char *file, const char *text)
{
    char path[400];
    snprintf(path, sizeof path, "%s/%s/%s", parent, name, file);
    FILE *out = fopen(path, "w");
    assert_non_null(out);
    fputs(text, out);
    fclose(out);
}

/* Returns the answer to BODY. The test frees it. */
static char *answer_of(const struct daemon *daemon)
{
    struct answer answer = daemon_post(daemon, "/embed_all", BODY);
    assert_int_equal(answer.status, 200);
    char *text = strdup(answer.body);
    answer_free(&answer);
    return text;
}

/* number of old versions that the daemon has freed, counted in the log lines that were read so far */
static int freed;

static bool next_line(struct daemon *daemon, char line[8192])
{
    bool found = daemon_log_line(daemon, line, 8192);
    freed += found && strstr(line, "freed the weights of an old model");
    return found;
}

/* Waits for a line that contains `part`. Returns a copy, which the test frees. */
static char *wait_line(struct daemon *daemon, const char *part)
{
    char line[8192];
    while (next_line(daemon, line))
        if (strstr(line, part))
            return strdup(line);
    fail_msg("the log ended without: %s", part);
    return NULL;
}

static void expect_line(struct daemon *daemon, const char *part)
{
    free(wait_line(daemon, part));
}

/* Sends SIGHUP. Expects that the line "models reloaded" contains `expected`. */
static void reload(struct daemon *daemon, const char *expected)
{
    daemon_signal(daemon, SIGHUP);
    char *line = wait_line(daemon, "models reloaded");
    if (!strstr(line, expected))
        fail_msg("'%s' is not in: %s", expected, line);
    free(line);
}

static struct daemon *start(const char *const *arguments)
{
    char last_line[1024] = "";
    struct daemon *daemon =
        daemon_try(&(struct daemon_options){.arguments = arguments, .log_unread = true, .built_in = true}, last_line);
    if (!daemon)
        fail_msg("%s", last_line);
    return daemon;
}

/* ---- Clients ---- */

struct clients {
    const struct daemon *daemon;
    const char *answers[2];
    atomic_bool stop;
    atomic_int right[2], wrong, unanswered, tokens;
    pthread_t threads[CLIENTS + 1];
};

static void *send_requests(void *argument)
{
    struct clients *clients = argument;
    CURL *curl = curl_easy_init();
    while (!atomic_load(&clients->stop)) {
        struct answer answer = daemon_call(
            clients->daemon,
            &(struct call){
                .path = "/embed_all", .body = BODY, .headers = {"Content-Type: application/json"}, .curl = curl});
        if (answer.status != 200)
            atomic_fetch_add(&clients->unanswered, 1);
        else if (strcmp(answer.body, clients->answers[0]) == 0)
            atomic_fetch_add(&clients->right[0], 1);
        else if (strcmp(answer.body, clients->answers[1]) == 0)
            atomic_fetch_add(&clients->right[1], 1);
        else
            atomic_fetch_add(&clients->wrong, 1);
        answer_free(&answer);
    }
    curl_easy_cleanup(curl);
    return NULL;
}

/* Requests streams of a model while it is reloaded. Each stream must end with its last event. */
static void *send_streams(void *argument)
{
    struct clients *clients = argument;
    static const char body[] =
        "{\"model\": \"writer\", \"inputs\": \"abc\", \"parameters\": {\"max_new_tokens\": 30, \"details\": true}}";
    while (!atomic_load(&clients->stop)) {
        struct answer answer = daemon_post(clients->daemon, "/generate_stream", body);
        bool whole = answer.status == 200 && strstr(answer.body, "\"finish_reason\":\"length\"");
        atomic_fetch_add(whole ? &clients->tokens : &clients->unanswered, 1);
        answer_free(&answer);
    }
    return NULL;
}

static void clients_start(struct clients *clients)
{
    for (int i = 0; i < CLIENTS; i++)
        assert_int_equal(pthread_create(&clients->threads[i], NULL, send_requests, clients), 0);
    assert_int_equal(pthread_create(&clients->threads[CLIENTS], NULL, send_streams, clients), 0);
}

static void clients_stop(struct clients *clients)
{
    atomic_store(&clients->stop, true);
    for (int i = 0; i <= CLIENTS; i++)
        pthread_join(clients->threads[i], NULL);
    print_message("%d and %d answers, %d streams, %d wrong, %d unanswered\n", clients->right[0], clients->right[1],
                  clients->tokens, clients->wrong, clients->unanswered);
    assert_int_equal(clients->wrong, 0);
    assert_int_equal(clients->unanswered, 0);
    assert_true(clients->right[0] > 0 && clients->right[1] > 0 && clients->tokens > 0);
}

/* ---- The tests ---- */

static void no_answer_is_lost_while_models_are_reloaded(void **state)
{
    (void)state;
    freed = 0;
    char *folder = folder_make(), model[300], writer[300];
    snprintf(model, sizeof model, "m=%s/m", folder);
    snprintf(writer, sizeof writer, "writer=%s/writer", folder);
    write_model(folder, "m", 0);
    generation_model_write(folder, "writer", "");
    struct daemon *daemon = start(ARGUMENTS("--model", model, "--model", writer, "--max-batch-tokens", "512"));
    char *answers[2];
    answers[0] = answer_of(daemon);
    write_model(folder, "m", 1);
    reload(daemon, "loaded=1 failed=0 unchanged=1");
    answers[1] = answer_of(daemon);
    assert_string_not_equal(answers[0], answers[1]);
    struct clients clients = {.daemon = daemon, .answers = {answers[0], answers[1]}};
    clients_start(&clients);
    for (int i = 0; i < RELOADS; i++) {
        write_model(folder, "m", (float)(i % 2));
        generation_model_write(folder, "writer", "");
        reload(daemon, "loaded=2 failed=0 unchanged=0");
        char *answer = answer_of(daemon); /* a request that begins after the reload uses the new weights */
        assert_string_equal(answer, answers[i % 2]);
        free(answer);
    }
    clients_stop(&clients);
    daemon_terminate(daemon);
    for (char line[8192]; next_line(daemon, line);)
        ;
    assert_int_equal(freed, 1 + 2 * RELOADS); /* each old version was freed */
    daemon_join(daemon);
    free(answers[0]);
    free(answers[1]);
    folder_remove(folder);
    free(folder);
}

static void a_bad_model_leaves_the_old_one(void **state)
{
    (void)state;
    char *folder = folder_make(), path[400], model[300];
    snprintf(model, sizeof model, "m=%s/m", folder);
    write_model(folder, "m", 0);
    struct daemon *daemon = start(ARGUMENTS("--model", model));
    char *before = answer_of(daemon);
    reload(daemon, "loaded=0 failed=0 unchanged=1");
    write_text(folder, "m", "training.log", "step 1\n"); /* this file is not a part of the model */
    reload(daemon, "loaded=0 failed=0 unchanged=1");

    write_text(folder, "m", "config.json", "{\"architecture\": \"linformer.LinformerLM\", \"kwargs\": {}}");
    daemon_signal(daemon, SIGHUP);
    char *line = wait_line(daemon, "cannot reload a model: the old one is kept");
    assert_non_null(strstr(line, "name=m"));
    if (!strstr(line, "argument dim is missing"))
        fail_msg("%s", line);
    free(line);
    expect_line(daemon, "loaded=0 failed=1 unchanged=0");

    write_model(folder, "m", 0);
    snprintf(path, sizeof path, "%s/m/model.safetensors", folder);
    assert_int_equal(truncate(path, 1000), 0);
    daemon_signal(daemon, SIGHUP);
    line = wait_line(daemon, "the old one is kept");
    assert_non_null(strstr(line, "model.safetensors"));
    free(line);
    expect_line(daemon, "models reloaded");

    unlink(path);
    daemon_signal(daemon, SIGHUP);
    expect_line(daemon, "the old one is kept");
    expect_line(daemon, "models reloaded");
    char *after = answer_of(daemon);
    assert_string_equal(before, after);
    struct answer answer = daemon_get(daemon, "/metrics");
    assert_non_null(strstr(answer.body, "linformerd_model_loads_total{model=\"m\",outcome=\"failed\"} 3"));
    assert_non_null(strstr(answer.body, "\nlinformerd_last_reload_successful 0\n"));
    answer_free(&answer);
    answer = daemon_get(daemon, "/health/ready");
    assert_int_equal(answer.status, 200);
    answer_free(&answer);
    free(after);

    write_model(folder, "m", 1);
    reload(daemon, "loaded=1 failed=0");
    after = answer_of(daemon);
    assert_string_not_equal(before, after);
    free(before);
    free(after);
    daemon_terminate(daemon);
    daemon_join(daemon);
    folder_remove(folder);
    free(folder);
}

static void a_new_folder_is_a_new_model(void **state)
{
    (void)state;
    char *folder = folder_make();
    write_model(folder, "m", 0);
    struct daemon *daemon = start(ARGUMENTS("--model", folder));
    write_model(folder, "n", 1);
    reload(daemon, "loaded=1 failed=0 unchanged=1");
    struct answer answer = daemon_get(daemon, "/v2/models/n/ready");
    assert_int_equal(answer.status, 200);
    answer_free(&answer);
    daemon_terminate(daemon);
    daemon_join(daemon);
    folder_remove(folder);
    free(folder);
}

static char *answer_of_name(const struct daemon *daemon, const char *name)
{
    char body[200];
    snprintf(body, sizeof body, "{\"model\": \"%s\", \"inputs\": [[1, 2, 3]], \"encoding_format\": \"base64\"}", name);
    struct answer answer = daemon_post(daemon, "/embed_all", body);
    assert_int_equal(answer.status, 200);
    char *text = strdup(answer.body);
    answer_free(&answer);
    return text;
}

/* The files of a new folder may be incomplete when SIGHUP comes. The next SIGHUP tries to load it again. */
static void a_new_folder_that_failed_is_tried_again(void **state)
{
    (void)state;
    char *folder = folder_make(), path[400];
    write_model(folder, "m", 0);
    struct daemon *daemon = start(ARGUMENTS("--model", folder));
    write_model(folder, "n", 1);
    snprintf(path, sizeof path, "%s/n/model.safetensors", folder);
    assert_int_equal(truncate(path, 1000), 0);
    reload(daemon, "loaded=0 failed=1 unchanged=1");
    reload(daemon, "loaded=0 failed=1 unchanged=1");
    write_model(folder, "n", 1);
    reload(daemon, "loaded=1 failed=0 unchanged=1");
    free(answer_of_name(daemon, "n"));
    daemon_terminate(daemon);
    daemon_join(daemon);
    folder_remove(folder);
    free(folder);
}

static void both_names_of_a_folder_are_reloaded(void **state)
{
    (void)state;
    char *folder = folder_make(), first[300], second[300], unnamed[300];
    snprintf(first, sizeof first, "first=%s/m", folder);
    snprintf(second, sizeof second, "second=%s/m", folder);
    snprintf(unnamed, sizeof unnamed, "%s/m", folder);
    write_model(folder, "m", 0);
    struct daemon *daemon = start(ARGUMENTS("--model", first, "--model", second, "--model", unnamed));
    char *before = answer_of_name(daemon, "second");
    write_model(folder, "m", 1);
    reload(daemon, "loaded=3 failed=0 unchanged=0");
    static const char *const names[] = {"first", "second", "m"};
    for (size_t i = 0; i < LENGTH(names); i++) {
        char *after = answer_of_name(daemon, names[i]);
        assert_string_not_equal(before, after);
        free(after);
    }
    free(before);
    daemon_terminate(daemon);
    daemon_join(daemon);
    folder_remove(folder);
    free(folder);
}

/* A request loads a model whose folder did not exist at the start. After that, SIGHUP finds the folder without a
 * request. */
static void a_model_of_a_request_is_found_by_its_folder(void **state)
{
    (void)state;
    char *folder = folder_make();
    write_model(folder, "m", 0);
    struct daemon *daemon = start(ARGUMENTS("--model", folder, "--model-control", "--model-repository", folder));
    write_model(folder, "n", 1);
    struct answer answer =
        daemon_call(daemon, &(struct call){.method = "POST", .path = "/v2/repository/models/n/load"});
    assert_int_equal(answer.status, 200);
    answer_free(&answer);
    reload(daemon, "loaded=0 failed=0 unchanged=2");
    daemon_terminate(daemon);
    daemon_join(daemon);
    folder_remove(folder);
    free(folder);
}

/* Clients begin bodies and never complete them. No such client may keep an old version in memory, because the number of
 * old versions is limited. */
static void a_slow_body_keeps_no_old_version(void **state)
{
    (void)state;
    enum { SLOW = 8 };
    int clients[SLOW];
    char *folder = folder_make(), model[300];
    snprintf(model, sizeof model, "m=%s/m", folder);
    write_model(folder, "m", 0);
    struct daemon *daemon = start(ARGUMENTS("--model", model));
    for (int i = 0; i < SLOW; i++) {
        clients[i] = raw_connect(daemon);
        raw_send(clients[i], "POST /embed_all HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                             "Content-Length: 100\r\n\r\n{");
        free(answer_of(daemon)); /* after this answer, the daemon has also read the headers of the slow client */
        write_model(folder, "m", (float)i);
        reload(daemon, "loaded=1 failed=0");
    }
    for (int i = 0; i < SLOW; i++)
        close(clients[i]);
    daemon_terminate(daemon);
    daemon_join(daemon);
    folder_remove(folder);
    free(folder);
}

/* ---- The routes ---- */

static void control(const struct daemon *daemon, const char *path, const char *body, long status, const char *part)
{
    struct answer answer = daemon_call(daemon, &(struct call){.method = "POST", .path = path, .body = body});
    if (answer.status != status || !strstr(answer.body, part))
        fail_msg("%s: status %ld, %s", path, answer.status, answer.body);
    answer_free(&answer);
}

static void models_are_loaded_and_unloaded_on_request(void **state)
{
    (void)state;
    char *folder = folder_make(), *stored = folder_make(), model[300];
    snprintf(model, sizeof model, "m=%s/m", folder);
    write_model(folder, "m", 0);
    write_model(stored, "extra", 1);
    struct daemon *daemon = start(ARGUMENTS("--model", model, "--model-control", "--model-repository", stored));
    control(daemon, "/v2/repository/index", NULL, 200,
            "{\"name\":\"extra\",\"state\":\"UNAVAILABLE\",\"reason\":\"not loaded yet\"}");
    control(daemon, "/v2/repository/models/m/unload", NULL, 400, "only loaded model");
    control(daemon, "/v2/repository/models/extra/load", "{}", 200, "{}");
    control(daemon, "/v2/repository/index", NULL, 200,
            "{\"name\":\"extra\",\"version\":\"1\",\"state\":\"READY\",\"reason\":\"\"}");
    control(daemon, "/v2/repository/models/extra/load", NULL, 200, "{}"); /* the model is already up to date */
    json_decref(daemon_post_json(daemon, "/embed", "{\"model\": \"extra\", \"inputs\": [[1, 2, 3]]}"));
    control(daemon, "/v2/repository/models/m/unload", "{\"parameters\": {\"unload_dependents\": false}}", 200, "{}");
    expect_failure(daemon, "/embed", BODY, 404, "Validation", "there is no model \"m\" here, only \"extra\"");
    control(daemon, "/v2/repository/index", "{\"ready\": true}", 200, "[{\"name\":\"extra\"");
    control(daemon, "/v2/repository/index", NULL, 200,
            "{\"name\":\"m\",\"state\":\"UNAVAILABLE\",\"reason\":\"unloaded\"}");
    reload(daemon, "loaded=0 failed=0 unchanged=1"); /* SIGHUP does not load an unloaded model */
    control(daemon, "/v2/repository/models/m/load", NULL, 200, "{}");
    free(answer_of(daemon));

    control(daemon, "/v2/repository/models/none/load", NULL, 404, "there is no model");
    control(daemon, "/v2/repository/models/%2e%2e/load", NULL, 404, "");
    control(daemon, "/v2/repository/models/..%2fm/load", NULL, 404, "");
    control(daemon, "/v2/repository/models/extra/load", "{\"parameters\": {\"config\": \"{}\"}}", 400,
            "expected none, because");
    control(daemon, "/v2/repository/models/extra/load", "[", 400, "");
    write_text(stored, "extra", "config.json", "{}");
    control(daemon, "/v2/repository/models/extra/load", NULL, 400, "failed to load");
    json_decref(daemon_post_json(daemon, "/embed", "{\"model\": \"extra\", \"inputs\": [[1, 2, 3]]}"));
    daemon_terminate(daemon);
    daemon_join(daemon);
    folder_remove(folder);
    folder_remove(stored);
    free(folder);
    free(stored);
}

static void pages_of_other_origins_control_no_models(void **state)
{
    (void)state;
    struct daemon *daemon =
        start(ARGUMENTS("--model-control", "--cors-allow-origin", "https://a.example,https://b.example"));
    static const struct {
        const char *header;
        long status;
    } cases[] = {{"Origin: https://evil.example", 400}, {"Origin: null", 400}, {"Origin: https://b.example", 200}};
    for (size_t i = 0; i < LENGTH(cases); i++) {
        struct answer answer =
            daemon_call(daemon, &(struct call){.method = "POST",
                                               .path = "/v2/repository/models/builtin-writer/unload",
                                               .headers = {"Content-Type: text/plain", cases[i].header}});
        assert_int_equal(answer.status, cases[i].status);
        answer_free(&answer);
        answer = daemon_get(daemon, "/v2/models/builtin-writer/ready");
        assert_true((answer.status == 200) == (cases[i].status != 200));
        answer_free(&answer);
    }
    daemon_terminate(daemon);
    daemon_join(daemon);
}

static void control_is_off_by_default(void **state)
{
    (void)state;
    struct daemon *daemon = start(ARGUMENTS(NULL));
    control(daemon, "/v2/repository/models/builtin/unload", NULL, 400, "flag --model-control enables it");
    control(daemon, "/v2/repository/models/builtin/load", NULL, 400, "flag --model-control enables it");
    daemon_terminate(daemon);
    daemon_join(daemon);
}

static void built_in_models_can_come_and_go(void **state)
{
    (void)state;
    struct daemon *daemon = start(ARGUMENTS("--model-control"));
    static const char text[] = "{\"model\": \"builtin-writer\", \"inputs\": \"The \", \"parameters\": "
                               "{\"max_new_tokens\": 4, \"do_sample\": false}}";
    json_t *before = daemon_post_json(daemon, "/generate", text);
    control(daemon, "/v2/repository/models/builtin-writer/unload", NULL, 200, "{}");
    control(daemon, "/v2/repository/models/builtin-writer/load", NULL, 200, "{}");
    json_t *after = daemon_post_json(daemon, "/generate", text);
    assert_true(json_equal(before, after));
    json_decref(before);
    json_decref(after);
    daemon_terminate(daemon);
    daemon_join(daemon);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_answer_is_lost_while_models_are_reloaded),
        cmocka_unit_test(a_bad_model_leaves_the_old_one),
        cmocka_unit_test(a_new_folder_is_a_new_model),
        cmocka_unit_test(a_new_folder_that_failed_is_tried_again),
        cmocka_unit_test(both_names_of_a_folder_are_reloaded),
        cmocka_unit_test(a_model_of_a_request_is_found_by_its_folder),
        cmocka_unit_test(a_slow_body_keeps_no_old_version),
        cmocka_unit_test(models_are_loaded_and_unloaded_on_request),
        cmocka_unit_test(pages_of_other_origins_control_no_models),
        cmocka_unit_test(control_is_off_by_default),
        cmocka_unit_test(built_in_models_can_come_and_go),
    };
    curl_global_init(CURL_GLOBAL_DEFAULT);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
