#include "server/tracing/collector.h"

#include "server/common/clock.h"
#include "server/tracing/curl_library.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct collector {
    struct curl_library curl;
    const _Atomic int64_t *end_ns;
    void *easy; /* curl's handle, which keeps the connection open between requests */
    struct curl_list *headers;
    char message[CURL_ERROR_BYTES];
};

/* curl calls this function for each piece of the answer. Bytes that do not fit in answer->body are dropped. */
static size_t answer_write(char *bytes, size_t size, size_t count, void *context)
{
    struct collector_answer *answer = context;
    size_t length = size * count, room = sizeof answer->body - answer->length;
    size_t kept = length < room ? length : room;
    memcpy(answer->body + answer->length, bytes, kept);
    answer->length += kept;
    return length;
}

/* curl calls this function at least once a second. A result other than 0 aborts the request. */
static int progress(void *context, int64_t to_receive, int64_t received, int64_t to_send, int64_t sent)
{
    (void)to_receive, (void)received, (void)to_send, (void)sent;
    const struct collector *collector = context;
    int64_t end_ns = atomic_load(collector->end_ns);
    return end_ns > 0 && clock_ns() >= end_ns;
}

static int add_header(struct collector *collector, const char *name, const char *value, struct error *error)
{
    size_t size = strlen(name) + strlen(value) + sizeof ": ";
    char *line = malloc(size);
    struct curl_list *longer = NULL;
    if (line) {
        snprintf(line, size, "%s: %s", name, value);
        longer = collector->curl.slist_append(collector->headers, line);
        free(line);
    }
    if (!longer)
        return error_set(error, "out of memory");
    collector->headers = longer;
    return 0;
}

static int add_headers(struct collector *collector, const struct tracing_options *options, struct error *error)
{
    if (add_header(collector, "Content-Type", "application/json", error) != 0 ||
        add_header(collector, "Expect", "", error) != 0) /* the empty value makes curl leave this header out */
        return -1;
    for (int i = 0; i < options->n_headers; i++)
        if (add_header(collector, options->headers[i].key, options->headers[i].value, error) != 0)
            return -1;
    return 0;
}

/* Sets the options that are the same for all requests. The return values of easy_setopt are ignored. The calls can fail
 * only for lack of memory, and a request without these options also fails. */
static void set_options(struct collector *collector, const struct tracing_options *options)
{
    int (*set)(void *, int, ...) = collector->curl.easy_setopt;
    void *easy = collector->easy;
    set(easy, CURL_URL, options->url);
    set(easy, CURL_USER_AGENT, "linformerd/" LINFORMERD_VERSION);
    set(easy, CURL_HEADERS, collector->headers);
    set(easy, CURL_TIMEOUT_MS, (long)options->timeout_ms);
    set(easy, CURL_NO_SIGNAL, 1L);
    set(easy, CURL_ERROR_BUFFER, collector->message);
    set(easy, CURL_WRITE, answer_write);
    set(easy, CURL_NO_PROGRESS, 0L);
    set(easy, CURL_PROGRESS, progress);
    set(easy, CURL_PROGRESS_DATA, collector);
    if (options->certificate)
        set(easy, CURL_CERTIFICATES, options->certificate);
}

int collector_open(const struct tracing_options *options, const _Atomic int64_t *end_ns, struct collector **opened,
                   struct error *error)
{
    struct collector *collector = calloc(1, sizeof *collector);
    if (!collector)
        return error_set(error, "out of memory");
    collector->end_ns = end_ns;
    if (curl_library_load(&collector->curl, error) != 0) {
        free(collector);
        return -1;
    }
    collector->easy = collector->curl.easy_init();
    int status = collector->easy ? add_headers(collector, options, error) : error_set(error, "out of memory");
    if (status != 0) {
        collector_close(collector);
        return -1;
    }
    set_options(collector, options);
    *opened = collector;
    return 0;
}

void collector_close(struct collector *collector)
{
    if (!collector)
        return;
    if (collector->easy)
        collector->curl.easy_cleanup(collector->easy);
    collector->curl.slist_free_all(collector->headers);
    free(collector);
}

/* Whether OTLP specifies that a body with this status must be sent again. */
static bool is_retryable(long status)
{
    return status == 429 || status == 502 || status == 503 || status == 504;
}

void collector_send(struct collector *collector, const char *json, size_t length, struct collector_answer *answer)
{
    const struct curl_library *curl = &collector->curl;
    long status = 0;
    int64_t retry_after_s = 0;
    memset(answer, 0, sizeof *answer);
    collector->message[0] = '\0';
    curl->easy_setopt(collector->easy, CURL_POST_BODY, json);
    curl->easy_setopt(collector->easy, CURL_POST_LENGTH, (long)length);
    curl->easy_setopt(collector->easy, CURL_WRITE_DATA, answer);
    int code = curl->easy_perform(collector->easy);
    if (code != 0) {
        answer->outcome = COLLECTOR_LATER;
        snprintf(answer->reason, sizeof answer->reason, "%s",
                 collector->message[0] ? collector->message : curl->easy_strerror(code));
        return;
    }
    curl->easy_getinfo(collector->easy, CURL_STATUS, &status);
    curl->easy_getinfo(collector->easy, CURL_RETRY_AFTER, &retry_after_s);
    answer->retry_after_s = retry_after_s;
    if (status >= 200 && status < 300)
        return;
    answer->outcome = is_retryable(status) ? COLLECTOR_LATER : COLLECTOR_REFUSED;
    snprintf(answer->reason, sizeof answer->reason, "the collector answered with status %ld", status);
}
