/* collector: stands in for OpenTelemetry's collector. It receives the spans that a daemon sends to /v1/traces.
 * collector_spans checks that the bodies have the form of OTLP. Any failure of these functions fails the test. */
#ifndef TESTS_HTTP_COLLECTOR_H
#define TESTS_HTTP_COLLECTOR_H

#include "tests/http/daemon.h"

struct collector;

struct collector *collector_start(void);
void collector_stop(struct collector *collector);

/* "http://127.0.0.1:PORT" */
const char *collector_url(const struct collector *collector);

/* From now on, answers to valid requests have this status and body. If the status is not 200, the spans of the request
 * are not kept. */
void collector_answer(struct collector *collector, unsigned int status, const char *body);

/* From now on, requests wait until collector_release. */
void collector_hold(struct collector *collector);
void collector_release(struct collector *collector);

/* Checks the received bodies in the order of their arrival, until they contain at least `count` spans. Waits for
 * further bodies if necessary. Returns a list of all spans that were checked so far. The test drops the reference. */
json_t *collector_spans(struct collector *collector, size_t count);

/* collector_resource returns the attributes of the resource in the last checked body. collector_header returns the
 * value of the header x-collector-key of the last request. The test drops the reference, and frees the text. */
json_t *collector_resource(struct collector *collector);
char *collector_header(struct collector *collector);

/* The number of requests that the collector has received. */
int collector_requests(struct collector *collector);

/* The attribute of a span or resource, as text. Fails if it is missing or has another type. */
const char *attribute_text(const json_t *attributes, const char *key);
int64_t attribute_integer(const json_t *attributes, const char *key);
bool attribute_exists(const json_t *attributes, const char *key);

#endif
