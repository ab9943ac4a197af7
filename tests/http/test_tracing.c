/* Spans of requests, as OpenTelemetry's collector receives them. */
#include "tests/http/collector.h"

#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define TRACE "4bf92f3577b34da6a3ce929d0e0e4736"
#define SPAN "00f067aa0ba902b7"

static struct daemon *start_traced(const struct collector *collector)
{
    return daemon_start(ARGUMENTS("--otlp-endpoint", collector_url(collector)));
}

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static const char *text_of(const json_t *span, const char *key)
{
    const char *text = json_string_value(json_object_get(span, key));
    if (!text)
        fail_msg("the span has no %s", key);
    return text;
}

static int64_t time_of(const json_t *span, const char *key)
{
    return strtoll(text_of(span, key), NULL, 10);
}

/* Returns the span with this name. If `parent` is not NULL, the span must have this parent. */
static const json_t *find_span(const json_t *spans, const char *name, const char *parent)
{
    size_t index;
    json_t *span;
    json_array_foreach ((json_t *)spans, index, span) {
        const char *its = json_string_value(json_object_get(span, "parentSpanId"));
        if (strcmp(text_of(span, "name"), name) == 0 && (!parent || (its && strcmp(its, parent) == 0)))
            return span;
    }
    fail_msg("there is no span %s", name);
    return NULL;
}

static void expect_status(const json_t *span, int64_t status, const char *error_type)
{
    const json_t *attributes = json_object_get(span, "attributes");
    assert_int_equal(attribute_integer(attributes, "http.response.status_code"), status);
    assert_int_equal(attribute_exists(attributes, "error.type"), error_type != NULL);
    if (error_type)
        assert_string_equal(attribute_text(attributes, "error.type"), error_type);
    assert_int_equal(json_integer_value(json_object_get(json_object_get(span, "status"), "code")), error_type ? 2 : 0);
}

static void a_request_has_spans_for_queue_and_inference(void **state)
{
    (void)state;
    struct collector *collector = collector_start();
    /* Batches have no time limit, so both inputs are always in one batch. */
    struct daemon *daemon = daemon_start(ARGUMENTS("--otlp-endpoint", collector_url(collector), "--max-batch-ms", "0"));
    int64_t before_ns = now_ns();
    struct answer answer = daemon_call(daemon, &(struct call){.path = "/embed?a=b",
                                                              .body = "{\"inputs\": [\"one\", \"fives\"]}",
                                                              .headers = {"Content-Type: application/json",
                                                                          "x-request-id: mine", "User-Agent: test/1"}});
    int64_t after_ns = now_ns(), bytes = (int64_t)answer.length;
    assert_int_equal(answer.status, 200);
    answer_free(&answer);
    json_t *spans = collector_spans(collector, 3);
    const json_t *server = find_span(spans, "POST /embed", NULL);
    const char *id = text_of(server, "spanId"), *trace = text_of(server, "traceId");
    const json_t *queue = find_span(spans, "queue", id), *inference = find_span(spans, "inference", id);
    assert_null(json_object_get(server, "parentSpanId"));
    assert_int_equal(json_integer_value(json_object_get(server, "kind")), 2);
    assert_int_equal(json_integer_value(json_object_get(queue, "kind")), 1);
    assert_string_equal(text_of(queue, "traceId"), trace);
    assert_string_equal(text_of(inference, "traceId"), trace);
    assert_string_not_equal(text_of(queue, "spanId"), text_of(inference, "spanId"));

    const json_t *attributes = json_object_get(server, "attributes");
    assert_string_equal(attribute_text(attributes, "http.request.method"), "POST");
    assert_string_equal(attribute_text(attributes, "url.path"), "/embed");
    assert_string_equal(attribute_text(attributes, "url.scheme"), "http");
    assert_string_equal(attribute_text(attributes, "http.route"), "/embed");
    assert_string_equal(attribute_text(attributes, "client.address"), "127.0.0.1");
    assert_string_equal(attribute_text(attributes, "user_agent.original"), "test/1");
    assert_string_equal(attribute_text(attributes, "linformerd.request_id"), "mine");
    assert_string_equal(attribute_text(attributes, "gen_ai.request.model"), "builtin");
    assert_int_equal(attribute_integer(attributes, "http.response.body.size"), bytes);
    expect_status(server, 200, NULL);
    attributes = json_object_get(inference, "attributes");
    assert_int_equal(attribute_integer(attributes, "linformerd.items"), 2);
    assert_int_equal(attribute_integer(attributes, "linformerd.tokens"), 8);
    assert_int_equal(attribute_integer(attributes, "linformerd.batches"), 1);
    assert_int_equal(attribute_integer(attributes, "linformerd.batch.items"), 2);

    int64_t begin_ns = time_of(server, "startTimeUnixNano"), end_ns = time_of(server, "endTimeUnixNano");
    int64_t queued_ns = time_of(queue, "startTimeUnixNano"), started_ns = time_of(queue, "endTimeUnixNano");
    assert_true(begin_ns >= before_ns - 1000000); /* the comparison allows 1 ms, because the clock may be adjusted */
    assert_true(begin_ns <= queued_ns && queued_ns <= started_ns && queued_ns <= after_ns + 1000000);
    assert_int_equal(time_of(inference, "startTimeUnixNano"), started_ns);
    assert_true(time_of(inference, "endTimeUnixNano") > started_ns);
    assert_true(time_of(inference, "endTimeUnixNano") <= end_ns);
    json_decref(spans);
    daemon_stop(daemon);
    collector_stop(collector);
}

static void requests_without_work_or_with_faults_have_a_span(void **state)
{
    (void)state;
    struct collector *collector = collector_start();
    struct daemon *daemon = start_traced(collector);
    struct answer answer = daemon_get(daemon, "/health");
    answer_free(&answer);
    answer = daemon_post(daemon, "/embed", "{\"inputs\": 7}");
    answer_free(&answer);
    answer = daemon_call(daemon, &(struct call){.method = "BREW", .path = "/nowhere/%ff%22"});
    answer_free(&answer);
    answer = daemon_post(daemon, "/v2/models/builtin/infer", "{}");
    answer_free(&answer);
    json_t *spans = collector_spans(collector, 4);
    assert_int_equal(json_array_size(spans), 4);
    expect_status(find_span(spans, "GET /health", NULL), 200, NULL);
    expect_status(find_span(spans, "POST /embed", NULL), 422, NULL);
    expect_status(find_span(spans, "POST /v2/models/{}/infer", NULL), 400, NULL);
    const json_t *unknown = find_span(spans, "HTTP", NULL), *attributes = json_object_get(unknown, "attributes");
    expect_status(unknown, 404, NULL);
    assert_string_equal(attribute_text(attributes, "http.request.method"), "_OTHER");
    assert_string_equal(attribute_text(attributes, "http.request.method_original"), "BREW");
    assert_string_equal(attribute_text(attributes, "url.path"), "/nowhere/\xef\xbf\xbd\"");
    assert_false(attribute_exists(attributes, "http.route"));
    json_decref(spans);
    daemon_stop(daemon);
    collector_stop(collector);
}

/* A result that is not finite causes an answer with status 500. */
static void an_error_of_the_server_is_an_error_of_the_span(void **state)
{
    (void)state;
    struct collector *collector = collector_start();
    struct daemon *daemon = daemon_start(
        ARGUMENTS("--otlp-endpoint", collector_url(collector), "--model", "tests/reference/linformer_encoder"));
    struct answer info = daemon_get(daemon, "/info");
    const json_t *input =
        json_array_get(json_object_get(json_array_get(json_object_get(info.json, "models"), 0), "inputs"), 0);
    int64_t columns = json_integer_value(json_object_get(input, "columns"));
    char *body = calloc(1, (size_t)columns * 8 + 64);
    strcpy(body, "{\"embeddings\": [[");
    for (int64_t i = 0; i < columns; i++)
        strcat(body, i % 2 ? ",3e38" : i > 0 ? ",-3e38" : "-3e38");
    strcat(body, "]]}");
    struct answer answer = daemon_post(daemon, "/embed", body);
    assert_int_equal(answer.status, 500);
    answer_free(&answer);
    answer_free(&info);
    free(body);
    json_t *spans = collector_spans(collector, 4);
    expect_status(find_span(spans, "POST /embed", NULL), 500, "500");
    json_decref(spans);
    daemon_stop(daemon);
    collector_stop(collector);
}

static void get_with(const struct daemon *daemon, const char *header)
{
    struct answer answer = daemon_call(daemon, &(struct call){.path = "/health", .headers = {header}});
    assert_int_equal(answer.status, 200);
    answer_free(&answer);
}

/* The collector receives spans in the order of the requests. If an untraced request sent a span, this span would come
 * before the last span. */
static void the_callers_trace_continues(void **state)
{
    (void)state;
    struct collector *collector = collector_start();
    struct daemon *daemon = start_traced(collector);
    get_with(daemon, "traceparent: 00-" TRACE "-" SPAN "-01");
    get_with(daemon, "traceparent: 00-" TRACE "-" SPAN "-00");
    /* The parent id is invalid, so the daemon begins a new trace. */
    get_with(daemon, "traceparent: 00-" TRACE "-0000000000000000-00");
    json_t *spans = collector_spans(collector, 2);
    const json_t *first = json_array_get(spans, 0), *second = json_array_get(spans, 1);
    assert_int_equal(json_array_size(spans), 2);
    assert_string_equal(text_of(first, "traceId"), TRACE);
    assert_string_equal(text_of(first, "parentSpanId"), SPAN);
    assert_string_not_equal(text_of(first, "spanId"), SPAN);
    assert_string_equal(attribute_text(json_object_get(first, "attributes"), "linformerd.request_id"), TRACE);
    assert_string_not_equal(text_of(second, "traceId"), TRACE);
    assert_null(json_object_get(second, "parentSpanId"));
    /* The request's id, which is also in the log and in the answer, is the id of the trace. */
    assert_string_equal(attribute_text(json_object_get(second, "attributes"), "linformerd.request_id"),
                        text_of(second, "traceId"));
    json_decref(spans);
    daemon_stop(daemon);
    collector_stop(collector);
}

static void the_environment_sets_the_exporter(void **state)
{
    (void)state;
    struct collector *collector = collector_start();
    setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector_url(collector), 1);
    setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-collector-key=a%20secret", 1);
    setenv("OTEL_SERVICE_NAME", "mine", 1);
    setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=test", 1);
    setenv("OTEL_TRACES_SAMPLER", "parentbased_always_off", 1);
    struct daemon *daemon = daemon_start(NULL);
    get_with(daemon, NULL);
    get_with(daemon, "traceparent: 00-" TRACE "-" SPAN "-01");
    json_t *spans = collector_spans(collector, 1), *resource = collector_resource(collector);
    assert_int_equal(json_array_size(spans), 1);
    assert_string_equal(text_of(json_array_get(spans, 0), "traceId"), TRACE);
    assert_string_equal(attribute_text(resource, "service.name"), "mine");
    assert_string_equal(attribute_text(resource, "deployment.environment"), "test");
    char *header = collector_header(collector);
    assert_string_equal(header, "a secret");
    free(header);
    json_decref(resource);
    json_decref(spans);
    daemon_stop(daemon);

    char *said = daemon_refused(ARGUMENTS("--otlp-endpoint", "localhost:4318"));
    assert_non_null(strstr(said, "expected a URL that begins with http:// or https://"));
    free(said);
    setenv("OTEL_TRACES_SAMPLER", "sometimes", 1);
    said = daemon_refused(NULL);
    assert_non_null(strstr(said, "OTEL_TRACES_SAMPLER: expected always_on"));
    free(said);
    unsetenv("OTEL_EXPORTER_OTLP_ENDPOINT");
    unsetenv("OTEL_EXPORTER_OTLP_HEADERS");
    unsetenv("OTEL_SERVICE_NAME");
    unsetenv("OTEL_RESOURCE_ATTRIBUTES");
    unsetenv("OTEL_TRACES_SAMPLER");
    collector_stop(collector);
}

static int64_t metric(const struct daemon *daemon, const char *name)
{
    struct answer answer = daemon_get(daemon, "/metrics");
    char line[128];
    snprintf(line, sizeof line, "\n%s ", name);
    const char *found = strstr(answer.body, line);
    assert_non_null(found);
    int64_t value = atoll(found + strlen(line));
    answer_free(&answer);
    return value;
}

/* The collector does not answer the first batch, of 1 to 512 spans. 2048 further spans fit into the daemon's buffer. A
 * span ends after its answer is sent. So the first read of the metrics can come before the last span. Each read of the
 * metrics also adds a span. */
static void a_slow_collector_delays_no_request(void **state)
{
    (void)state;
    enum { REQUESTS = 4000, MAX_WAITING = 2048 + 512 };
    struct collector *collector = collector_start();
    collector_hold(collector);
    struct daemon *daemon = start_traced(collector);
    CURL *curl = curl_easy_init();
    for (int i = 0; i < REQUESTS; i++) {
        struct answer answer = daemon_call(daemon, &(struct call){.path = "/health", .curl = curl});
        assert_int_equal(answer.status, 200);
        answer_free(&answer);
    }
    curl_easy_cleanup(curl);
    int64_t dropped = 0, reads = 0;
    while (dropped < REQUESTS - MAX_WAITING) {
        dropped = metric(daemon, "linformerd_spans_dropped_total");
        reads++;
    }
    assert_in_range(dropped, REQUESTS - MAX_WAITING, REQUESTS - 2048 - 1 + reads - 1);
    assert_int_equal(metric(daemon, "linformerd_spans_sent_total"), 0);
    collector_release(collector);
    json_t *spans = collector_spans(collector, (size_t)(REQUESTS - dropped));
    json_decref(spans);
    while (metric(daemon, "linformerd_spans_sent_total") < REQUESTS - dropped)
        ;
    daemon_stop(daemon);
    collector_stop(collector);
}

static void the_last_spans_are_sent_at_the_end(void **state)
{
    (void)state;
    struct collector *collector = collector_start();
    struct daemon *daemon = start_traced(collector);
    get_with(daemon, NULL);
    get_with(daemon, NULL);
    daemon_stop(daemon);
    json_t *spans = collector_spans(collector, 2); /* if spans were lost, this call would wait forever */
    assert_int_equal(json_array_size(spans), 2);
    json_decref(spans);
    collector_stop(collector);
}

static void rejected_spans_are_sent_again_or_counted(void **state)
{
    (void)state;
    struct collector *collector = collector_start();
    collector_answer(collector, 503, "later");
    struct daemon *daemon = start_traced(collector);
    get_with(daemon, NULL);
    while (collector_requests(collector) < 1)
        ;
    collector_answer(collector, 200, "{}");
    json_t *spans = collector_spans(collector, 1); /* the daemon has sent the same batch again */
    assert_int_equal(json_array_size(spans), 1);
    json_decref(spans);
    assert_int_equal(metric(daemon, "linformerd_spans_dropped_total"), 0);

    collector_answer(collector, 400, "no"); /* after status 400, the daemon does not send the batch again */
    get_with(daemon, NULL);
    while (metric(daemon, "linformerd_spans_dropped_total") < 1)
        ;
    daemon_stop(daemon);
    collector_answer(collector, 200, "{\"partialSuccess\":{\"rejectedSpans\":\"1\"}}");
    daemon = start_traced(collector);
    get_with(daemon, NULL);
    while (metric(daemon, "linformerd_spans_dropped_total") < 1)
        ;
    daemon_stop(daemon);
    collector_stop(collector);

    daemon = daemon_start(ARGUMENTS("--otlp-endpoint", "http://127.0.0.1:1")); /* no collector listens at this port */
    get_with(daemon, NULL);
    daemon_stop(daemon); /* the daemon ends nevertheless */
}

/* Counts the threads of a daemon that have this name. */
static int threads_named(const struct daemon *daemon, const char *name)
{
    char command[256], text[16] = "";
    snprintf(command, sizeof command, "cat /proc/%d/task/*/comm | grep -cx %s", daemon_process(daemon), name);
    FILE *out = popen(command, "r");
    assert_non_null(fgets(text, sizeof text, out));
    pclose(out);
    return atoi(text);
}

static bool maps_curl(const struct daemon *daemon)
{
    char path[64], line[1024];
    bool found = false;
    snprintf(path, sizeof path, "/proc/%d/maps", daemon_process(daemon));
    FILE *maps = fopen(path, "re");
    assert_non_null(maps);
    while (fgets(line, sizeof line, maps))
        found |= strstr(line, "libcurl") != NULL;
    fclose(maps);
    return found;
}

static void without_an_endpoint_no_thread_is_started(void **state)
{
    (void)state;
    struct collector *collector = collector_start();
    struct daemon *without = daemon_start(NULL), *with = start_traced(collector);
    assert_int_equal(threads_named(without, "traces"), 0);
    assert_int_equal(threads_named(with, "traces"), 1);
    assert_false(maps_curl(without));
    assert_true(maps_curl(with));
    daemon_stop(without);
    daemon_stop(with);
    collector_stop(collector);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_has_spans_for_queue_and_inference),
        cmocka_unit_test(requests_without_work_or_with_faults_have_a_span),
        cmocka_unit_test(an_error_of_the_server_is_an_error_of_the_span),
        cmocka_unit_test(the_callers_trace_continues),
        cmocka_unit_test(the_environment_sets_the_exporter),
        cmocka_unit_test(a_slow_collector_delays_no_request),
        cmocka_unit_test(the_last_spans_are_sent_at_the_end),
        cmocka_unit_test(rejected_spans_are_sent_again_or_counted),
        cmocka_unit_test(without_an_endpoint_no_thread_is_started),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
