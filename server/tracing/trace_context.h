/* trace_context: the place of a request in a trace, as the header traceparent gives it (W3C Trace Context). */
#ifndef SERVER_TRACING_TRACE_CONTEXT_H
#define SERVER_TRACING_TRACE_CONTEXT_H

#include <stdbool.h>

#define TRACE_ID_BYTES 16
#define SPAN_ID_BYTES 8

struct trace_context {
    unsigned char trace_id[TRACE_ID_BYTES];
    unsigned char span_id[SPAN_ID_BYTES]; /* of the caller's span */
    bool sampled;                         /* the caller records the trace */
};

/* Reads a header, which may be NULL. Returns whether it is valid. If not, *context is undefined. */
bool trace_context_parse(const char *header, struct trace_context *context);

/* Writes the bytes as 2 * count hexadecimal digits, followed by a NUL. */
void trace_digits(char *text, const unsigned char *bytes, int count);

#endif
