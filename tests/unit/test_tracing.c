/* Tests of the parts of tracing that need no collector: traceparent, environment variables, the sampler, and the
 * constants of curl. tests/http/test_tracing.c tests the spans. */
#include "server/tracing/curl_library.h"
#include "server/tracing/options.h"
#include "server/tracing/otlp.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <curl/curl.h>

#define TRACE "4bf92f3577b34da6a3ce929d0e0e4736"
#define SPAN "00f067aa0ba902b7"

/* The daemon is compiled without curl's header, and declares curl's constants itself. This file includes the header,
 * and compares the constants. */
#define SAME(ours, curls) _Static_assert((int)(ours) == (int)(curls), #ours)
SAME(CURL_NO_PROGRESS, CURLOPT_NOPROGRESS);
SAME(CURL_POST_LENGTH, CURLOPT_POSTFIELDSIZE);
SAME(CURL_NO_SIGNAL, CURLOPT_NOSIGNAL);
SAME(CURL_TIMEOUT_MS, CURLOPT_TIMEOUT_MS);
SAME(CURL_WRITE_DATA, CURLOPT_WRITEDATA);
SAME(CURL_URL, CURLOPT_URL);
SAME(CURL_ERROR_BUFFER, CURLOPT_ERRORBUFFER);
SAME(CURL_POST_BODY, CURLOPT_POSTFIELDS);
SAME(CURL_USER_AGENT, CURLOPT_USERAGENT);
SAME(CURL_HEADERS, CURLOPT_HTTPHEADER);
SAME(CURL_PROGRESS_DATA, CURLOPT_XFERINFODATA);
SAME(CURL_CERTIFICATES, CURLOPT_CAINFO);
SAME(CURL_WRITE, CURLOPT_WRITEFUNCTION);
SAME(CURL_PROGRESS, CURLOPT_XFERINFOFUNCTION);
SAME(CURL_STATUS, CURLINFO_RESPONSE_CODE);
SAME(CURL_RETRY_AFTER, CURLINFO_RETRY_AFTER);
SAME(CURL_ERROR_BYTES, CURL_ERROR_SIZE);
SAME(CURL_GLOBAL_ALL_FLAGS, CURL_GLOBAL_ALL);
_Static_assert(sizeof(curl_off_t) == sizeof(int64_t), "the progress function gets 64-bit integers");

/* The rules come from https://www.w3.org/TR/trace-context/. */
static void test_only_valid_traceparents_are_accepted(void **state)
{
    (void)state;
    static const struct {
        const char *header;
        bool sampled;
    } valid[] = {{"00-" TRACE "-" SPAN "-01", true},
                 {"00-" TRACE "-" SPAN "-00", false},
                 {"00-" TRACE "-" SPAN "-02", false},
                 {"00-" TRACE "-" SPAN "-ff", true},
                 {"cc-" TRACE "-" SPAN "-01-what-the-future-will-be-like", true}};
    static const char *const invalid[] = {"",
                                          "00",
                                          "00-" TRACE,
                                          "00-" TRACE "-" SPAN "-0",
                                          "00-" TRACE "-" SPAN "-01-more",
                                          "ff-" TRACE "-" SPAN "-01",
                                          "0x-" TRACE "-" SPAN "-01",
                                          "00-00000000000000000000000000000000-" SPAN "-01",
                                          "00-" TRACE "-0000000000000000-01",
                                          "00-4BF92F3577B34DA6A3CE929D0E0E4736-" SPAN "-01",
                                          "00_" TRACE "-" SPAN "-01",
                                          "00-" TRACE "_" SPAN "-01",
                                          "00-" TRACE "-" SPAN "_01",
                                          "00-" TRACE "-g0f067aa0ba902b7-01",
                                          "00-" TRACE "-" SPAN "-0g"};
    struct trace_context context;
    for (size_t i = 0; i < sizeof valid / sizeof *valid; i++) {
        char trace[33], span[17];
        assert_true(trace_context_parse(valid[i].header, &context));
        trace_digits(trace, context.trace_id, TRACE_ID_BYTES);
        trace_digits(span, context.span_id, SPAN_ID_BYTES);
        assert_string_equal(trace, TRACE);
        assert_string_equal(span, SPAN);
        assert_int_equal(context.sampled, valid[i].sampled);
    }
    for (size_t i = 0; i < sizeof invalid / sizeof *invalid; i++)
        assert_false(trace_context_parse(invalid[i], &context));
    assert_false(trace_context_parse(NULL, &context));
}

/* ---- The environment ---- */

static const char *const variables[] = {"OTEL_SDK_DISABLED",
                                        "OTEL_TRACES_EXPORTER",
                                        "OTEL_EXPORTER_OTLP_ENDPOINT",
                                        "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
                                        "OTEL_EXPORTER_OTLP_PROTOCOL",
                                        "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
                                        "OTEL_EXPORTER_OTLP_HEADERS",
                                        "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
                                        "OTEL_EXPORTER_OTLP_TIMEOUT",
                                        "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT",
                                        "OTEL_EXPORTER_OTLP_CERTIFICATE",
                                        "OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE",
                                        "OTEL_SERVICE_NAME",
                                        "OTEL_RESOURCE_ATTRIBUTES",
                                        "OTEL_TRACES_SAMPLER",
                                        "OTEL_TRACES_SAMPLER_ARG"};

static int clear_environment(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
        unsetenv(variables[i]);
    return 0;
}

static struct tracing_options read_options(const char *endpoint)
{
    struct tracing_options options;
    struct error error = {""};
    if (tracing_options_read(endpoint, &options, &error) != 0)
        fail_msg("%s", error.message);
    return options;
}

static void expect_url(const char *endpoint, const char *url)
{
    struct tracing_options options = read_options(endpoint);
    if (url)
        assert_string_equal(options.url, url);
    else
        assert_null(options.url);
    tracing_options_free(&options);
}

static void expect_refusal(const char *name, const char *value, const char *part)
{
    struct tracing_options options;
    struct error error = {""};
    setenv(name, value, 1);
    assert_int_equal(tracing_options_read("http://c", &options, &error), -1);
    if (!strstr(error.message, part) || !strstr(error.message, name))
        fail_msg("%s lacks %s or %s", error.message, part, name);
    unsetenv(name);
}

static void test_the_endpoint_follows_flag_and_environment(void **state)
{
    (void)state;
    expect_url(NULL, NULL);
    expect_url("http://c:4318", "http://c:4318/v1/traces");
    setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "", 1);
    expect_url(NULL, NULL);
    setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "https://all/base//", 1);
    expect_url(NULL, "https://all/base/v1/traces");
    setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://traces/elsewhere", 1);
    expect_url(NULL, "http://traces/elsewhere");
    expect_url("http://flag/", "http://flag/v1/traces");
    setenv("OTEL_TRACES_EXPORTER", "none", 1);
    expect_url("http://flag/", NULL);
    unsetenv("OTEL_TRACES_EXPORTER");
    setenv("OTEL_SDK_DISABLED", "True", 1);
    expect_url("http://flag/", NULL);
    setenv("OTEL_SDK_DISABLED", "false", 1);
    expect_url("http://flag/", "http://flag/v1/traces");
}

static void test_the_protocol_grpc_is_refused(void **state)
{
    (void)state;
    struct tracing_options options;
    struct error error = {""};
    setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4317", 1);
    setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", 1);
    assert_int_equal(tracing_options_read(NULL, &options, &error), -1);
    assert_non_null(strstr(error.message, "OTEL_EXPORTER_OTLP_PROTOCOL: expected http/json"));
    expect_url("http://c", "http://c/v1/traces"); /* --otlp-endpoint is only for linformerd, so the protocol in the
                                                     environment is ignored */
    setenv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/protobuf", 1);
    expect_url(NULL, "http://c:4317/v1/traces");
}

static void expect_pair(const struct tracing_pair *pair, const char *key, const char *value)
{
    assert_string_equal(pair->key, key);
    assert_string_equal(pair->value, value);
}

static void test_lists_in_the_environment_are_read(void **state)
{
    (void)state;
    setenv("OTEL_EXPORTER_OTLP_HEADERS", " api-key = a%20b%2Cc=d ,,x-other=,", 1);
    setenv("OTEL_RESOURCE_ATTRIBUTES", "a=1,service.name=mine,b=%zz%4", 1);
    struct tracing_options options = read_options("http://c");
    assert_int_equal(options.n_headers, 2);
    expect_pair(&options.headers[0], "api-key", "a b,c=d");
    expect_pair(&options.headers[1], "x-other", "");
    assert_string_equal(options.service_name, "mine");
    assert_int_equal(options.n_attributes, 2);
    expect_pair(&options.attributes[0], "a", "1");
    expect_pair(&options.attributes[1], "b", "%zz%4");
    assert_int_equal(options.timeout_ms, 10000);
    tracing_options_free(&options);

    setenv("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "only=this", 1);
    setenv("OTEL_SERVICE_NAME", "other", 1);
    setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "250", 1);
    options = read_options("http://c");
    assert_int_equal(options.n_headers, 1);
    expect_pair(&options.headers[0], "only", "this");
    assert_string_equal(options.service_name, "other");
    assert_int_equal(options.timeout_ms, 250);
    tracing_options_free(&options);
}

static void test_wrong_variables_are_refused_by_name(void **state)
{
    (void)state;
    char many[33 * 4 + 1] = "";
    for (int i = 0; i < 33; i++)
        strcat(many, "a=b,");
    expect_refusal("OTEL_EXPORTER_OTLP_HEADERS", "no-equals", "part 1 lacks");
    expect_refusal("OTEL_EXPORTER_OTLP_HEADERS", "a=b,=c", "part 2 lacks");
    expect_refusal("OTEL_EXPORTER_OTLP_HEADERS", "a=b%0d%0aHost: c", "part 1 is not a valid HTTP header");
    expect_refusal("OTEL_EXPORTER_OTLP_HEADERS", "a%3A=b", "part 1 is not a valid HTTP header");
    expect_refusal("OTEL_EXPORTER_OTLP_HEADERS", many, "at most 32 pairs");
    expect_refusal("OTEL_EXPORTER_OTLP_TIMEOUT", "10s", "milliseconds from 1");
    expect_refusal("OTEL_EXPORTER_OTLP_TIMEOUT", "0", "found '0'");
    expect_refusal("OTEL_TRACES_SAMPLER", "sometimes", "found 'sometimes'");
    setenv("OTEL_TRACES_SAMPLER", "traceidratio", 1);
    expect_refusal("OTEL_TRACES_SAMPLER_ARG", "1.5", "a number from 0 to 1");
    expect_refusal("OTEL_TRACES_SAMPLER_ARG", "nan", "a number from 0 to 1");
    struct tracing_options options;
    struct error error = {""};
    assert_int_equal(tracing_options_read("collector:4318", &options, &error), -1);
    assert_non_null(strstr(error.message, "--otlp-endpoint: expected a URL"));
}

/* ---- The sampler ---- */

static bool takes(const char *kind, const char *ratio, const char *parent_flags, unsigned char first_random)
{
    setenv("OTEL_TRACES_SAMPLER", kind, 1);
    setenv("OTEL_TRACES_SAMPLER_ARG", ratio, 1);
    struct tracing_options options = read_options("http://c");
    struct trace_context parent = {.sampled = parent_flags && strcmp(parent_flags, "01") == 0};
    unsigned char trace_id[TRACE_ID_BYTES] = {[8] = first_random};
    bool taken = sampler_takes(&options.sampler, parent_flags ? &parent : NULL, trace_id);
    tracing_options_free(&options);
    return taken;
}

/* The cases are those of the table in OpenTelemetry's specification. For a ratio, the second half of the trace id
 * decides whether the trace is sampled. 0x40… is a quarter of 2^64, 0x80… is a half. */
static void test_samplers_follow_the_table_of_opentelemetry(void **state)
{
    (void)state;
    assert_true(takes("always_on", "", "00", 0xff));
    assert_false(takes("always_off", "", "01", 0));
    assert_true(takes("parentbased_always_on", "", NULL, 0xff));
    assert_true(takes("parentbased_always_on", "", "01", 0xff));
    assert_false(takes("parentbased_always_on", "", "00", 0));
    assert_false(takes("parentbased_always_off", "", NULL, 0));
    assert_true(takes("parentbased_always_off", "", "01", 0xff));
    assert_true(takes("traceidratio", "0.3", NULL, 0x40));
    assert_false(takes("traceidratio", "0.2", NULL, 0x40));
    assert_false(takes("traceidratio", "0.5", NULL, 0x80));
    assert_true(takes("traceidratio", "0.51", NULL, 0x80));
    assert_true(takes("traceidratio", "1", NULL, 0xff));
    assert_false(takes("traceidratio", "0", NULL, 0));
    assert_false(takes("traceidratio", "0.2", "01", 0x40));
    assert_true(takes("parentbased_traceidratio", "0", "01", 0xff));
    assert_false(takes("parentbased_traceidratio", "1", "00", 0));
    assert_true(takes("parentbased_traceidratio", "0.3", NULL, 0x40));
}

/* ---- The answer of the collector ---- */

static int64_t rejected(const char *body)
{
    return otlp_rejected(body, strlen(body), 10);
}

static void test_the_number_of_rejected_spans_is_read(void **state)
{
    (void)state;
    assert_int_equal(rejected(""), 0);
    assert_int_equal(rejected("{}"), 0);
    assert_int_equal(rejected("{\"partialSuccess\":{}}"), 0);
    assert_int_equal(rejected("{\"partialSuccess\":{\"rejectedSpans\":\"3\",\"errorMessage\":\"no\"}}"), 3);
    assert_int_equal(rejected("{\"partialSuccess\":{\"rejectedSpans\":4}}"), 4);
    assert_int_equal(rejected("{\"partialSuccess\":{\"rejectedSpans\":\"99\"}}"), 10);
    assert_int_equal(rejected("{\"partialSuccess\":{\"rejectedSpans\":-1}}"), 0);
    assert_int_equal(rejected("\x0a\x02\x08\x01"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_only_valid_traceparents_are_accepted),
        cmocka_unit_test_setup(test_the_endpoint_follows_flag_and_environment, clear_environment),
        cmocka_unit_test_setup(test_the_protocol_grpc_is_refused, clear_environment),
        cmocka_unit_test_setup(test_lists_in_the_environment_are_read, clear_environment),
        cmocka_unit_test_setup(test_wrong_variables_are_refused_by_name, clear_environment),
        cmocka_unit_test_setup(test_samplers_follow_the_table_of_opentelemetry, clear_environment),
        cmocka_unit_test(test_the_number_of_rejected_spans_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
