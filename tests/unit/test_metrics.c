#define _GNU_SOURCE /* memmem */
#include "server/common/metrics.h"

#include "config/config.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SECOND_NS INT64_C(1000000000)

/* Opens the metrics of two models. The quotation mark in the second name must be escaped. */
static struct metrics *open_two(void)
{
    static const char *const names[] = {"a", "b\""};
    struct metrics *metrics = metrics_open(names, 2);
    assert_non_null(metrics);
    return metrics;
}

static char *text_of(const struct metrics *metrics)
{
    static const struct metrics_model_now models_now[] = {{.requests = 3,
                                                           .tokens = 70,
                                                           .generates = true,
                                                           .waiting_for_slots = 6,
                                                           .slots = 64,
                                                           .slots_used = 60,
                                                           .slot_bytes = 4096},
                                                          {.requests = 1, .tokens = 2}};
    struct metrics_now now = {
        .models = models_now,
        .n_models = 2,
        .log_lines_dropped = 11,
        .connections = 5,
        .process = {.cpu_s = 1.25,
                    .resident_bytes = 123456789,
                    .virtual_bytes = 987654321,
                    .threads = 9,
                    .open_fds = 21,
                    .max_fds = 1024},
        .started_s = 1700000000.25,
        .uptime_s = 12.5,
        .devices = {{.name = "cuda:0", .works = true}, {.name = "cuda:1", .faults = 3, .recoveries = 2}},
        .n_devices = 2,
        .batches = {.reruns = 4, .standby_batches = 9}};
    size_t length = 0;
    char *text = metrics_text(metrics, &now, &length);
    assert_non_null(text);
    assert_int_equal(strlen(text), length);
    assert_int_equal(text[length - 1], '\n');
    return text;
}

/* Returns the value of the sample whose name and labels are written exactly as `name`, or -1 if there is none. */
static double sample(const char *text, const char *name)
{
    size_t length = strlen(name);
    for (const char *line = text; *line; line = strchr(line, '\n') + 1)
        if (strncmp(line, name, length) == 0 && line[length] == ' ')
            return strtod(line + length, NULL);
    return -1;
}

static void expect_sample(const char *text, const char *name, double value)
{
    double found = sample(text, name);
    if (found != value)
        fail_msg("%s: expected %.9g, found %.9g", name, value, found);
}

static void test_gauges_have_the_current_values(void **context)
{
    (void)context;
    struct metrics *metrics = open_two();
    char *text = text_of(metrics);
    expect_sample(text, "linformerd_queue_requests{model=\"a\"}", 3);
    expect_sample(text, "linformerd_queue_requests{model=\"b\\\"\"}", 1);
    expect_sample(text, "linformerd_log_lines_dropped_total", 11);
    expect_sample(text, "linformerd_queue_tokens{model=\"a\"}", 70);
    expect_sample(text, "linformerd_connections", 5);
    expect_sample(text, "linformerd_device_up{device=\"cuda:0\"}", 1);
    expect_sample(text, "linformerd_device_up{device=\"cuda:1\"}", 0);
    expect_sample(text, "linformerd_device_faults_total{device=\"cuda:1\"}", 3);
    expect_sample(text, "linformerd_device_recoveries_total{device=\"cuda:1\"}", 2);
    expect_sample(text, "linformerd_rerun_batches_total", 4);
    expect_sample(text, "linformerd_standby_batches_total", 9);
    expect_sample(text, "linformerd_resident_memory_bytes", 123456789);
    expect_sample(text, "linformerd_uptime_seconds", 12.5);
    expect_sample(text, "process_cpu_seconds_total", 1.25);
    expect_sample(text, "process_resident_memory_bytes", 123456789);
    expect_sample(text, "process_virtual_memory_bytes", 987654321);
    expect_sample(text, "process_threads", 9);
    expect_sample(text, "process_open_fds", 21);
    expect_sample(text, "process_max_fds", 1024);
    expect_sample(text, "process_start_time_seconds", 1700000000.25);
    expect_sample(text, "linformerd_build_info{version=\"" LINFORMERD_VERSION "\"}", 1);
    free(text);
    metrics_close(metrics);
}

static void test_requests_and_errors_are_counted_by_label(void **context)
{
    (void)context;
    struct metrics *metrics = open_two();
    char copy[] = "/embed"; /* the name "/embed" at another address counts as the same route */
    metrics_request(metrics, "/embed", 0, 200, 3, 1, 1);
    metrics_request(metrics, copy, 0, 200, 3, 1, 1);
    metrics_request(metrics, "/embed", 0, 422, 3, 0, 0);
    metrics_request(metrics, "/logits", METRICS_NO_MODEL, 504, 3, 3, 0);
    metrics_request(metrics, "/logits", METRICS_NO_MODEL, 418, 3, 0, 0);
    metrics_request(metrics, "/logits", METRICS_NO_MODEL, 7, 3, 0, 0); /* 7 is no HTTP status, and counts as 599 */
    char *text = text_of(metrics);
    expect_sample(text, "linformerd_requests_total{route=\"/embed\",model=\"a\",status=\"200\"}", 2);
    expect_sample(text, "linformerd_requests_total{route=\"/embed\",model=\"a\",status=\"422\"}", 1);
    expect_sample(text, "linformerd_requests_total{route=\"/logits\",status=\"504\"}", 1);
    expect_sample(text, "linformerd_requests_total{route=\"/logits\",status=\"599\"}", 1);
    expect_sample(text, "linformerd_requests_total{route=\"/logits\",status=\"200\"}", -1);
    expect_sample(text, "linformerd_errors_total{error_type=\"Validation\",status=\"422\"}", 1);
    expect_sample(text, "linformerd_errors_total{error_type=\"Validation\",status=\"418\"}", 1);
    expect_sample(text, "linformerd_errors_total{error_type=\"Backend\",status=\"504\"}", 1);
    expect_sample(text, "linformerd_errors_total{error_type=\"Backend\",status=\"500\"}", 0);
    expect_sample(text, "linformerd_errors_total{error_type=\"Overloaded\",status=\"429\"}", 0);
    expect_sample(text, "linformerd_errors_total{error_type=\"Unhealthy\",status=\"503\"}", 0);
    expect_sample(text, "linformerd_errors_total{error_type=\"Unauthorized\",status=\"401\"}", 0);
    free(text);
    metrics_close(metrics);
}

static void test_histograms_count_values_up_to_each_bound(void **context)
{
    (void)context;
    struct metrics *metrics = open_two();
    metrics_request(metrics, "/embed", 0, 200, SECOND_NS, SECOND_NS / 1000, SECOND_NS / 4);
    metrics_request(metrics, "/embed", 0, 200, SECOND_NS + 1, 0, 100 * SECOND_NS);
    metrics_request(metrics, "/health", METRICS_NO_MODEL, 200, 1000, 0, 0);
    metrics_batch(metrics, 0, 1, 16, SECOND_NS);
    metrics_batch(metrics, 0, 3, 100000, SECOND_NS / 2);
    char *text = text_of(metrics);
    expect_sample(text, "linformerd_request_duration_seconds_bucket{route=\"/embed\",model=\"a\",le=\"0.5\"}", 0);
    expect_sample(text, "linformerd_request_duration_seconds_bucket{route=\"/embed\",model=\"a\",le=\"1\"}", 1);
    expect_sample(text, "linformerd_request_duration_seconds_bucket{route=\"/embed\",model=\"a\",le=\"2.5\"}", 2);
    expect_sample(text, "linformerd_request_duration_seconds_sum{route=\"/embed\",model=\"a\"}", 2.000000001);
    expect_sample(text, "linformerd_request_duration_seconds_count{route=\"/health\"}", 1);
    expect_sample(text, "linformerd_request_queue_duration_seconds_bucket{model=\"a\",le=\"0.0005\"}", 1);
    expect_sample(text, "linformerd_request_queue_duration_seconds_bucket{model=\"a\",le=\"0.001\"}", 2);
    expect_sample(text, "linformerd_request_inference_duration_seconds_bucket{model=\"a\",le=\"60\"}", 1);
    expect_sample(text, "linformerd_request_inference_duration_seconds_bucket{model=\"a\",le=\"+Inf\"}", 2);
    expect_sample(text, "linformerd_request_inference_duration_seconds_sum{model=\"a\"}", 100.25);
    expect_sample(text, "linformerd_batch_items_bucket{model=\"a\",le=\"1\"}", 1);
    expect_sample(text, "linformerd_batch_items_bucket{model=\"a\",le=\"4\"}", 2);
    expect_sample(text, "linformerd_batch_items_sum{model=\"a\"}", 4);
    expect_sample(text, "linformerd_batch_tokens_bucket{model=\"a\",le=\"65536\"}", 1);
    expect_sample(text, "linformerd_batch_tokens_count{model=\"a\"}", 2);
    expect_sample(text, "linformerd_batch_duration_seconds_sum{model=\"a\"}", 1.5);
    free(text);
    metrics_close(metrics);
}

/* Two sequences with prompts of 10 and 5 tokens generate three tokens and one token. The end of a third sequence is
 * also counted. */
static void test_tokens_and_ends_of_generations_are_counted(void **context)
{
    (void)context;
    struct metrics *metrics = open_two();
    metrics_first_token(metrics, 0, 10, SECOND_NS / 1000, SECOND_NS / 4);
    metrics_first_token(metrics, 0, 5, 0, SECOND_NS);
    metrics_next_token(metrics, 0, SECOND_NS / 100);
    metrics_next_token(metrics, 0, SECOND_NS / 50);
    metrics_generation_end(metrics, 0, "length");
    metrics_generation_end(metrics, 0, "eos_token");
    char length[] = "length"; /* the name "length" at another address counts as the same reason */
    metrics_generation_end(metrics, 0, length);
    metrics_first_token(NULL, 0, 1, 1, 1); /* with NULL for the metrics, this and the next two calls do nothing */
    metrics_next_token(NULL, 0, 1);
    metrics_generation_end(NULL, 0, "length");
    char *text = text_of(metrics);
    expect_sample(text, "linformerd_generations_running{model=\"a\"}", 60);
    expect_sample(text, "linformerd_generations_waiting{model=\"a\"}", 6);
    expect_sample(text, "linformerd_generation_slots{model=\"a\"}", 64);
    expect_sample(text, "linformerd_generation_slots_bytes{model=\"a\"}", 4096);
    expect_sample(text, "linformerd_generations_running{model=\"b\\\"\"}", -1);
    expect_sample(text, "linformerd_prompt_tokens_total{model=\"a\"}", 15);
    expect_sample(text, "linformerd_prompt_tokens_total{model=\"b\\\"\"}", -1);
    expect_sample(text, "linformerd_generation_tokens_total{model=\"a\"}", 4);
    expect_sample(text, "linformerd_generations_total{model=\"a\",finish_reason=\"length\"}", 2);
    expect_sample(text, "linformerd_generations_total{model=\"a\",finish_reason=\"eos_token\"}", 1);
    expect_sample(text, "linformerd_time_to_first_token_seconds_bucket{model=\"a\",le=\"0.25\"}", 1);
    expect_sample(text, "linformerd_time_to_first_token_seconds_sum{model=\"a\"}", 1.25);
    expect_sample(text, "linformerd_inter_token_latency_seconds_bucket{model=\"a\",le=\"0.01\"}", 1);
    expect_sample(text, "linformerd_inter_token_latency_seconds_count{model=\"a\"}", 2);
    expect_sample(text, "linformerd_generation_queue_duration_seconds_bucket{model=\"a\",le=\"0.001\"}", 2);
    free(text);
    metrics_close(metrics);
}

/* If a request expires while it waits, the metrics count its waiting time, but no inference. */
static void test_requests_without_inference_have_no_inference_time(void **context)
{
    (void)context;
    struct metrics *metrics = open_two();
    metrics_request(metrics, "/embed", 0, 504, 5, 5, 0);
    metrics_request(metrics, "/embed", 0, 422, -1, 0, 0); /* a negative duration counts as 0 */
    char *text = text_of(metrics);
    expect_sample(text, "linformerd_request_queue_duration_seconds_count{model=\"a\"}", 1);
    expect_sample(text, "linformerd_request_inference_duration_seconds_count{model=\"a\"}", 0);
    expect_sample(text, "linformerd_request_duration_seconds_sum{route=\"/embed\",model=\"a\"}", 0.000000005);
    free(text);
    metrics_close(metrics);
}

static void test_routes_over_the_limit_count_as_other(void **context)
{
    (void)context;
    struct metrics *metrics = open_two();
    static char names[144][32];
    for (int i = 0; i < 144; i++) {
        snprintf(names[i], sizeof names[i], "/route/%d", i);
        metrics_request(metrics, names[i], METRICS_NO_MODEL, 200, 1, 0, 0);
    }
    char *text = text_of(metrics);
    expect_sample(text, "linformerd_requests_total{route=\"/route/126\",status=\"200\"}", 1);
    expect_sample(text, "linformerd_requests_total{route=\"other\",status=\"200\"}", 17);
    free(text);
    metrics_close(metrics);
}

static void test_label_is_escaped(void **context)
{
    (void)context;
    struct metrics *metrics = open_two();
    metrics_request(metrics, "/a\"b\\c\nd", METRICS_NO_MODEL, 200, 1, 0, 0);
    char *text = text_of(metrics);
    expect_sample(text, "linformerd_requests_total{route=\"/a\\\"b\\\\c\\nd\",status=\"200\"}", 1);
    free(text);
    metrics_close(metrics);
}

/* Expects that a line "# TYPE" before the sample declares its family, with a type that fits the sample's name. */
static void expect_declared(const char *text, const char *line)
{
    static const char *const suffixes[] = {"", "_bucket", "_sum", "_count"};
    char name[128], type[160];
    size_t length = strcspn(line, "{ ");
    for (int i = 0; i < 4; i++) {
        size_t suffix = strlen(suffixes[i]);
        if (length <= suffix || strncmp(line + length - suffix, suffixes[i], suffix) != 0)
            continue;
        snprintf(name, sizeof name, "%.*s", (int)(length - suffix), line);
        snprintf(type, sizeof type, "# TYPE %s %s", name, i > 0 ? "histogram\n" : "");
        const char *found = strstr(text, type);
        if (found && found < line)
            return;
    }
    fail_msg("no TYPE before: %.*s", (int)strcspn(line, "\n"), line);
}

/* Every line is a comment of a known form, or `name{labels} value` after its TYPE. No sample occurs twice. */
static void test_each_line_follows_the_exposition_format(void **context)
{
    (void)context;
    struct metrics *metrics = open_two();
    metrics_request(metrics, "/embed", 0, 200, 3, 1, 1);
    metrics_request(metrics, "/logits", 1, 500, 3, 1, 1);
    metrics_batch(metrics, 0, 1, 16, SECOND_NS);
    char *text = text_of(metrics);
    for (char *line = text; *line; line = strchr(line, '\n') + 1) {
        bool declares = strncmp(line, "# HELP ", 7) == 0 || strncmp(line, "# TYPE ", 7) == 0;
        const char *prefixed = declares ? line + 7 : line;
        assert_true(strncmp(prefixed, "linformerd_", 11) == 0 || strncmp(prefixed, "process_", 8) == 0);
        if (declares)
            continue;
        expect_declared(text, line);
        size_t length = strcspn(line, "\n"), name = length;
        while (line[name - 1] != ' ')
            name--;
        char *end;
        strtod(line + name, &end);
        assert_ptr_equal(end, line + length);
        char *twin = memmem(line + length, strlen(line + length), line, name);
        if (twin && twin[-1] == '\n')
            fail_msg("there twice: %.*s", (int)length, line);
    }
    free(text);
    metrics_close(metrics);
}

#define RECORDERS 4
#define RECORDS_EACH 5000

static void *record_many(void *argument)
{
    static const char *const routes[] = {"/embed", "/logits", "/health"};
    for (int i = 0; i < RECORDS_EACH; i++) {
        metrics_request(argument, routes[i % 3], 0, i % 2 ? 200 : 422, 1000, 1000, 1000);
        metrics_batch(argument, 0, 2, 3, 1000);
    }
    return NULL;
}

/* Each model has its own counts, which begin at 0. Requests without a model have no label `model`. */
static void test_models_have_separate_counts(void **context)
{
    (void)context;
    struct metrics *metrics = open_two();
    metrics_request(metrics, "/embed", 0, 200, 3, 1, 1);
    metrics_request(metrics, "/embed", 1, 200, 3, 1, 1);
    metrics_request(metrics, "/embed", 1, 422, 3, 0, 0);
    metrics_request(metrics, "/embed", METRICS_NO_MODEL, 422, 3, 0, 0);
    metrics_batch(metrics, 1, 5, 16, SECOND_NS);
    char *text = text_of(metrics);
    expect_sample(text, "linformerd_requests_total{route=\"/embed\",model=\"a\",status=\"200\"}", 1);
    expect_sample(text, "linformerd_requests_total{route=\"/embed\",model=\"b\\\"\",status=\"200\"}", 1);
    expect_sample(text, "linformerd_requests_total{route=\"/embed\",model=\"b\\\"\",status=\"422\"}", 1);
    expect_sample(text, "linformerd_requests_total{route=\"/embed\",status=\"422\"}", 1);
    expect_sample(text, "linformerd_errors_total{error_type=\"Validation\",status=\"422\"}", 2);
    expect_sample(text, "linformerd_batch_items_sum{model=\"a\"}", 0);
    expect_sample(text, "linformerd_batch_items_sum{model=\"b\\\"\"}", 5);
    expect_sample(text, "linformerd_request_queue_duration_seconds_count{model=\"b\\\"\"}", 1);
    free(text);
    metrics_close(metrics);
}

/* The table of statuses is small, because clients cannot choose statuses. Further statuses count as 599. */
static void test_statuses_over_the_limit_count_as_other(void **context)
{
    (void)context;
    struct metrics *metrics = open_two();
    for (int status = 200; status < 240; status++)
        metrics_request(metrics, "/embed", 0, status, 1, 0, 0);
    char *text = text_of(metrics);
    expect_sample(text, "linformerd_requests_total{route=\"/embed\",model=\"a\",status=\"222\"}", 1);
    expect_sample(text, "linformerd_requests_total{route=\"/embed\",model=\"a\",status=\"599\"}", 17);
    free(text);
    metrics_close(metrics);
}

static void test_no_count_of_many_threads_is_lost(void **context)
{
    (void)context;
    struct metrics *metrics = open_two();
    pthread_t threads[RECORDERS];
    for (int i = 0; i < RECORDERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, record_many, metrics), 0);
    free(text_of(metrics)); /* reads the metrics while other threads write to them */
    for (int i = 0; i < RECORDERS; i++)
        pthread_join(threads[i], NULL);
    char *text = text_of(metrics);
    expect_sample(text, "linformerd_request_queue_duration_seconds_count{model=\"a\"}", RECORDERS * RECORDS_EACH);
    expect_sample(text, "linformerd_batch_items_sum{model=\"a\"}", 2.0 * RECORDERS * RECORDS_EACH);
    expect_sample(text, "linformerd_errors_total{error_type=\"Validation\",status=\"422\"}",
                  RECORDERS * RECORDS_EACH / 2);
    double routes = sample(text, "linformerd_request_duration_seconds_count{route=\"/embed\",model=\"a\"}") +
                    sample(text, "linformerd_request_duration_seconds_count{route=\"/logits\",model=\"a\"}") +
                    sample(text, "linformerd_request_duration_seconds_count{route=\"/health\",model=\"a\"}");
    assert_true(routes == RECORDERS * RECORDS_EACH);
    free(text);
    metrics_close(metrics);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gauges_have_the_current_values),
        cmocka_unit_test(test_requests_and_errors_are_counted_by_label),
        cmocka_unit_test(test_histograms_count_values_up_to_each_bound),
        cmocka_unit_test(test_tokens_and_ends_of_generations_are_counted),
        cmocka_unit_test(test_requests_without_inference_have_no_inference_time),
        cmocka_unit_test(test_routes_over_the_limit_count_as_other),
        cmocka_unit_test(test_label_is_escaped),
        cmocka_unit_test(test_models_have_separate_counts),
        cmocka_unit_test(test_statuses_over_the_limit_count_as_other),
        cmocka_unit_test(test_each_line_follows_the_exposition_format),
        cmocka_unit_test(test_no_count_of_many_threads_is_lost),
    };
    return cmocka_run_group_tests_name("metrics", tests, NULL, NULL);
}
