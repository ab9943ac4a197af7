/* trace_context: the position of a request in a trace, as stated in the header traceparent (W3C Trace Context). */
#ifndef SERVER_TRACING_TRACE_CONTEXT_H
#define SERVER_TRACING_TRACE_CONTEXT_H

#include <stdbool.h>

#define TRACE_ID_BYTES 16
#define SPAN_ID_BYTES 8

struct trace_context {
    unsigned char trace_id[TRACE_ID_BYTES];
    unsigned char span_id[SPAN_ID_BYTES]; /* id of the caller's span */
    bool sampled;                         /* the caller records the trace */
};

/* Parses a header, which may be NULL. Returns false if it is not valid. *context is then undefined. */
bool trace_context_parse(const char *header, struct trace_context *context);

/* Writes the bytes as 2 * count hexadecimal digits, followed by a NUL. */
void trace_digits(char *text, const unsigned char *bytes, int count);

#endif
