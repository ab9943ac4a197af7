/* otlp: writes spans as the JSON of an ExportTraceServiceRequest (OTLP 1,
 * https://opentelemetry.io/docs/specs/otlp/). */
#ifndef SERVER_TRACING_OTLP_H
#define SERVER_TRACING_OTLP_H

#include "server/text/writer.h"
#include "server/tracing/options.h"
#include "server/tracing/span.h"

void otlp_write(struct writer *writer, const struct tracing_options *options, const struct request_span *spans,
                int64_t count);

/* Returns the number of spans that the collector has rejected, according to the body of its answer with status 200. At
 * most `sent`. */
int64_t otlp_rejected(const char *body, size_t length, int64_t sent);

#endif
