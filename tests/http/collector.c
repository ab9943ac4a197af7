/* collector: the rules for bodies come from https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding and from
 * opentelemetry/proto/trace/v1/trace.proto, version 1. The checks run on the thread of the test. */
#include "tests/http/collector.h"

#include <microhttpd.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEADER "x-collector-key" /* name of the header whose value collector_header returns */

struct collector {
    struct MHD_Daemon *server;
    char url[64];
    pthread_mutex_t lock; /* guards the members below except `spans` and `resource`, which only tests use */
    pthread_cond_t changed;
    unsigned int status;
    const char *answer;
    bool held;
    int requests;
    json_t *bodies; /* received bodies that are not checked yet */
    json_t *spans, *resource;
    char *header;
};

struct post {
    char *bytes;
    size_t length;
};

/* ---- The server's thread ---- */

static enum MHD_Result answer(struct MHD_Connection *connection, unsigned int status, const char *body)
{
    struct MHD_Response *response = MHD_create_response_from_buffer(strlen(body), (void *)body, MHD_RESPMEM_MUST_COPY);
    MHD_add_response_header(response, "Content-Type", "application/json");
    enum MHD_Result result = MHD_queue_response(connection, status, response);
    MHD_destroy_response(response);
    return result;
}

static enum MHD_Result take(struct collector *collector, struct MHD_Connection *connection, const char *method,
                            const char *url, const struct post *post)
{
    const char *type = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Content-Type");
    const char *header = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, HEADER);
    json_t *body = json_loadb(post->bytes, post->length, 0, NULL);
    bool good = body && strcmp(method, "POST") == 0 && strcmp(url, "/v1/traces") == 0 && type &&
                strcmp(type, "application/json") == 0;
    pthread_mutex_lock(&collector->lock);
    collector->requests++;
    pthread_cond_broadcast(&collector->changed);
    while (collector->held)
        pthread_cond_wait(&collector->changed, &collector->lock);
    unsigned int status = good ? collector->status : 400;
    const char *text = good ? collector->answer : "{}";
    free(collector->header);
    collector->header = header ? strdup(header) : NULL;
    if (status == 200)
        json_array_append(collector->bodies, body);
    json_decref(body); /* under the lock, because the thread of the test calls json_incref */
    pthread_cond_broadcast(&collector->changed);
    pthread_mutex_unlock(&collector->lock);
    return answer(connection, status, text);
}

static enum MHD_Result handle(void *context, struct MHD_Connection *connection, const char *url, const char *method,
                              const char *version, const char *data, size_t *size, void **request)
{
    (void)version;
    struct post *post = *request;
    if (!post) {
        *request = calloc(1, sizeof *post);
        return MHD_YES;
    }
    if (*size > 0) {
        post->bytes = realloc(post->bytes, post->length + *size);
        memcpy(post->bytes + post->length, data, *size);
        post->length += *size;
        *size = 0;
        return MHD_YES;
    }
    return take(context, connection, method, url, post);
}

static void completed(void *context, struct MHD_Connection *connection, void **request,
                      enum MHD_RequestTerminationCode code)
{
    (void)context, (void)connection, (void)code;
    struct post *post = *request;
    if (post)
        free(post->bytes);
    free(post);
}

/* ---- The form of a body ---- */

/* Fails if the object has a key that `allowed` lacks. `allowed` is a list of words, with a space before and after each
 * word. */
static void expect_keys(const json_t *object, const char *allowed)
{
    const char *key;
    json_t *value;
    assert_true(json_is_object(object));
    json_object_foreach ((json_t *)object, key, value) {
        char word[64];
        snprintf(word, sizeof word, " %s ", key);
        if (!strstr(allowed, word))
            fail_msg("the key %s is none of%s", key, allowed);
    }
}

static void expect_digits(const json_t *value, size_t count, const char *digits)
{
    assert_true(json_is_string(value));
    const char *text = json_string_value(value);
    if ((count && strlen(text) != count) || strspn(text, digits) != strlen(text) || !*text)
        fail_msg("'%s' is not %zu characters of %s", text, count, digits);
}

static void expect_id(const json_t *value, size_t bytes)
{
    expect_digits(value, 2 * bytes, "0123456789abcdef");
    assert_true(strspn(json_string_value(value), "0") < 2 * bytes);
}

static void expect_attributes(const json_t *attributes)
{
    size_t index;
    json_t *attribute;
    assert_true(json_is_array(attributes));
    json_array_foreach ((json_t *)attributes, index, attribute) {
        expect_keys(attribute, " key value ");
        assert_true(json_is_string(json_object_get(attribute, "key")));
        const json_t *value = json_object_get(attribute, "value");
        expect_keys(value, " stringValue intValue doubleValue boolValue ");
        assert_int_equal(json_object_size(value), 1);
        const json_t *integer = json_object_get(value, "intValue"), *decimal = json_object_get(value, "doubleValue");
        if (integer)
            expect_digits(integer, 0, "-0123456789");
        else if (decimal)
            assert_true(json_is_number(decimal));
        else
            assert_true(json_is_string(json_object_get(value, "stringValue")));
        for (size_t i = 0; i < index; i++)
            assert_string_not_equal(json_string_value(json_object_get(attribute, "key")),
                                    json_string_value(json_object_get(json_array_get(attributes, i), "key")));
    }
}

static void expect_span(const json_t *span)
{
    expect_keys(span, " traceId spanId parentSpanId name kind startTimeUnixNano endTimeUnixNano attributes status ");
    expect_id(json_object_get(span, "traceId"), 16);
    expect_id(json_object_get(span, "spanId"), 8);
    if (json_object_get(span, "parentSpanId"))
        expect_id(json_object_get(span, "parentSpanId"), 8);
    assert_true(json_string_length(json_object_get(span, "name")) > 0);
    assert_in_range(json_integer_value(json_object_get(span, "kind")), 1, 5);
    expect_digits(json_object_get(span, "startTimeUnixNano"), 19, "0123456789");
    expect_digits(json_object_get(span, "endTimeUnixNano"), 19, "0123456789");
    expect_attributes(json_object_get(span, "attributes"));
    const json_t *status = json_object_get(span, "status");
    expect_keys(status, " code message ");
    assert_in_range(json_integer_value(json_object_get(status, "code")), 0, 2);
}

/* Checks a body, and appends its spans to the list of received spans. */
static void check_body(struct collector *collector, const json_t *body)
{
    size_t index;
    json_t *span;
    expect_keys(body, " resourceSpans ");
    assert_int_equal(json_array_size(json_object_get(body, "resourceSpans")), 1);
    const json_t *resource_spans = json_array_get(json_object_get(body, "resourceSpans"), 0);
    expect_keys(resource_spans, " resource scopeSpans ");
    expect_keys(json_object_get(resource_spans, "resource"), " attributes ");
    json_t *resource = json_object_get(json_object_get(resource_spans, "resource"), "attributes");
    expect_attributes(resource);
    json_decref(collector->resource);
    collector->resource = json_incref(resource);
    assert_int_equal(json_array_size(json_object_get(resource_spans, "scopeSpans")), 1);
    const json_t *scope_spans = json_array_get(json_object_get(resource_spans, "scopeSpans"), 0);
    expect_keys(scope_spans, " scope spans ");
    expect_keys(json_object_get(scope_spans, "scope"), " name version ");
    json_array_foreach (json_object_get(scope_spans, "spans"), index, span) {
        expect_span(span);
        json_array_append(collector->spans, span);
    }
    assert_true(index > 0);
}

/* ---- For tests ---- */

struct collector *collector_start(void)
{
    struct collector *collector = calloc(1, sizeof *collector);
    pthread_mutex_init(&collector->lock, NULL);
    pthread_cond_init(&collector->changed, NULL);
    collector->status = 200;
    collector->answer = "{\"partialSuccess\":{}}";
    collector->bodies = json_array();
    collector->spans = json_array();
    collector->server = MHD_start_daemon(MHD_USE_INTERNAL_POLLING_THREAD, 0, NULL, NULL, handle, collector,
                                         MHD_OPTION_NOTIFY_COMPLETED, completed, NULL, MHD_OPTION_END);
    assert_non_null(collector->server);
    snprintf(collector->url, sizeof collector->url, "http://127.0.0.1:%d",
             MHD_get_daemon_info(collector->server, MHD_DAEMON_INFO_BIND_PORT)->port);
    return collector;
}

void collector_stop(struct collector *collector)
{
    collector_release(collector);
    MHD_stop_daemon(collector->server);
    json_decref(collector->bodies);
    json_decref(collector->spans);
    json_decref(collector->resource);
    free(collector->header);
    pthread_cond_destroy(&collector->changed);
    pthread_mutex_destroy(&collector->lock);
    free(collector);
}

const char *collector_url(const struct collector *collector)
{
    return collector->url;
}

void collector_answer(struct collector *collector, unsigned int status, const char *body)
{
    pthread_mutex_lock(&collector->lock);
    collector->status = status;
    collector->answer = body;
    pthread_mutex_unlock(&collector->lock);
}

static void set_held(struct collector *collector, bool held)
{
    pthread_mutex_lock(&collector->lock);
    collector->held = held;
    pthread_cond_broadcast(&collector->changed);
    pthread_mutex_unlock(&collector->lock);
}

void collector_hold(struct collector *collector)
{
    set_held(collector, true);
}

void collector_release(struct collector *collector)
{
    set_held(collector, false);
}

json_t *collector_spans(struct collector *collector, size_t count)
{
    while (json_array_size(collector->spans) < count) {
        pthread_mutex_lock(&collector->lock);
        while (json_array_size(collector->bodies) == 0)
            pthread_cond_wait(&collector->changed, &collector->lock);
        json_t *body = json_incref(json_array_get(collector->bodies, 0));
        json_array_remove(collector->bodies, 0);
        pthread_mutex_unlock(&collector->lock);
        check_body(collector, body);
        json_decref(body);
    }
    return json_copy(collector->spans);
}

json_t *collector_resource(struct collector *collector)
{
    return json_incref(collector->resource);
}

char *collector_header(struct collector *collector)
{
    pthread_mutex_lock(&collector->lock);
    char *header = collector->header ? strdup(collector->header) : NULL;
    pthread_mutex_unlock(&collector->lock);
    return header;
}

int collector_requests(struct collector *collector)
{
    pthread_mutex_lock(&collector->lock);
    int requests = collector->requests;
    pthread_mutex_unlock(&collector->lock);
    return requests;
}

static const json_t *attribute(const json_t *attributes, const char *key)
{
    size_t index;
    json_t *pair;
    json_array_foreach ((json_t *)attributes, index, pair)
        if (strcmp(json_string_value(json_object_get(pair, "key")), key) == 0)
            return json_object_get(pair, "value");
    return NULL;
}

bool attribute_exists(const json_t *attributes, const char *key)
{
    return attribute(attributes, key) != NULL;
}

const char *attribute_text(const json_t *attributes, const char *key)
{
    const char *text = json_string_value(json_object_get(attribute(attributes, key), "stringValue"));
    if (!text)
        fail_msg("there is no text attribute %s", key);
    return text;
}

int64_t attribute_integer(const json_t *attributes, const char *key)
{
    const char *text = json_string_value(json_object_get(attribute(attributes, key), "intValue"));
    if (!text)
        fail_msg("there is no integer attribute %s", key);
    return text ? strtoll(text, NULL, 10) : 0;
}
