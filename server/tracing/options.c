/* options: reads the variables of https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/ and
 * of https://opentelemetry.io/docs/specs/otel/protocol/exporter/. An empty variable counts as not set. */
#include "server/tracing/options.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define DEFAULT_TIMEOUT_MS 10000
#define DEFAULT_SERVICE "linformerd"
#define ROUTE "/v1/traces"

/* Returns the value of a variable, or NULL if the variable is empty or not set. */
static const char *variable(const char *name)
{
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

/* Returns the value of the variable for traces. If it is not set, returns the value of the variable for all signals of
 * OpenTelemetry. Sets *name to the name of the chosen variable. */
static const char *first_variable(const char *for_traces, const char *for_all, const char **name)
{
    *name = variable(for_traces) ? for_traces : for_all;
    return variable(*name);
}

static char *copy(const char *text, size_t length, struct error *error)
{
    char *made = strndup(text, length);
    if (!made)
        error_set(error, "out of memory");
    return made;
}

/* ---- The endpoint ---- */

/* Returns `base` followed by ROUTE, with one slash between them. */
static char *url_below(const char *base, struct error *error)
{
    size_t length = strlen(base);
    while (length > 0 && base[length - 1] == '/')
        length--;
    char *url = malloc(length + sizeof ROUTE);
    if (!url) {
        error_set(error, "out of memory");
        return NULL;
    }
    memcpy(url, base, length);
    memcpy(url + length, ROUTE, sizeof ROUTE);
    return url;
}

static int check_url(const char *source, const char *url, struct error *error)
{
    if (strncmp(url, "http://", 7) == 0 || strncmp(url, "https://", 8) == 0)
        return 0;
    return error_set(error, "%s: expected a URL that begins with http:// or https://, found '%.100s'", source, url);
}

/* Refuses protocols other than HTTP, such as gRPC. Collectors receive gRPC on another port, so sending would fail for
 * each span. */
static int check_protocol(struct error *error)
{
    const char *name;
    const char *protocol = first_variable("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL", &name);
    if (!protocol || strncmp(protocol, "http/", 5) == 0)
        return 0;
    return error_set(error,
                     "%s: expected http/json or http/protobuf, found '%.40s'; the daemon sends JSON over HTTP, usually "
                     "to port 4318",
                     name, protocol);
}

static bool switched_off(void)
{
    const char *disabled = variable("OTEL_SDK_DISABLED"), *exporter = variable("OTEL_TRACES_EXPORTER");
    return (disabled && strcasecmp(disabled, "true") == 0) || (exporter && strcmp(exporter, "none") == 0);
}

/* Sets options->url, or leaves it NULL if nothing is traced. */
static int read_endpoint(const char *endpoint, struct tracing_options *options, struct error *error)
{
    const char *for_traces = variable("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT");
    const char *for_all = variable("OTEL_EXPORTER_OTLP_ENDPOINT");
    const char *source = endpoint     ? "--otlp-endpoint"
                         : for_traces ? "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
                                      : "OTEL_EXPORTER_OTLP_ENDPOINT";
    const char *base = endpoint ? endpoint : for_traces ? for_traces : for_all;
    if (!base || switched_off())
        return 0;
    if (check_url(source, base, error) != 0 || (!endpoint && check_protocol(error) != 0))
        return -1;
    options->url = base == for_traces ? copy(base, strlen(base), error) : url_below(base, error);
    return options->url ? 0 : -1;
}

/* ---- Lists of pairs ---- */

static int hexadecimal(char digit)
{
    return isdigit((unsigned char)digit) ? digit - '0' : tolower((unsigned char)digit) - 'a' + 10;
}

/* Decodes escapes, such as %41 for A. A percent sign without two hexadecimal digits stays unchanged. */
static void decode_percents(char *text)
{
    char *out = text;
    for (const char *in = text; *in; in++) {
        bool encoded = *in == '%' && isxdigit((unsigned char)in[1]) && isxdigit((unsigned char)in[2]);
        *out++ = encoded ? (char)(hexadecimal(in[1]) << 4 | hexadecimal(in[2])) : *in;
        in += encoded ? 2 : 0;
    }
    *out = '\0';
}

/* Returns a copy without the white space at both ends, with decoded escapes. */
static char *pair_text(const char *text, size_t length, struct error *error)
{
    while (length > 0 && isspace((unsigned char)text[0])) {
        text++;
        length--;
    }
    while (length > 0 && isspace((unsigned char)text[length - 1]))
        length--;
    char *made = copy(text, length, error);
    if (made)
        decode_percents(made);
    return made;
}

/* Whether the pair is valid as a header. Without this check, a value with an encoded line end could add another
 * header. */
static bool is_header(const struct tracing_pair *pair)
{
    for (const char *at = pair->key; *at; at++)
        if (!isgraph((unsigned char)*at) || *at == ':')
            return false;
    for (const char *at = pair->value; *at; at++)
        if (iscntrl((unsigned char)*at))
            return false;
    return true;
}

/* Reads a list of the form "key=value,key=value". Values may be secret, so messages do not contain values. */
static int read_pairs(const char *name, const char *list, struct tracing_pair pairs[TRACING_PAIRS], int *count,
                      bool headers, struct error *error)
{
    for (const char *at = list; at && *at;) {
        size_t length = strcspn(at, ",");
        const char *equals = memchr(at, '=', length);
        if (strspn(at, " \t") < length) { /* empty elements of the list are allowed */
            if (!equals || equals == at)
                return error_set(error, "%s: expected a list of key=value, part %d lacks a key or =", name, *count + 1);
            if (*count == TRACING_PAIRS)
                return error_set(error, "%s: expected at most %d pairs, found more", name, TRACING_PAIRS);
            struct tracing_pair *pair = &pairs[(*count)++];
            pair->key = pair_text(at, (size_t)(equals - at), error);
            pair->value = pair_text(equals + 1, length - (size_t)(equals + 1 - at), error);
            if (!pair->key || !pair->value)
                return -1;
            if (headers && !is_header(pair))
                return error_set(error, "%s: part %d is not a valid HTTP header", name, *count);
        }
        at += length;
        at += *at == ',';
    }
    return 0;
}

static int read_headers(struct tracing_options *options, struct error *error)
{
    const char *name;
    const char *list = first_variable("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS", &name);
    return read_pairs(name, list, options->headers, &options->n_headers, true, error);
}

/* Reads the attributes and the name of the service. The name may be one of the attributes, but OTEL_SERVICE_NAME takes
 * precedence. */
static int read_resource(struct tracing_options *options, struct error *error)
{
    static const char list[] = "OTEL_RESOURCE_ATTRIBUTES";
    const char *service = variable("OTEL_SERVICE_NAME");
    if (read_pairs(list, variable(list), options->attributes, &options->n_attributes, false, error) != 0)
        return -1;
    for (int i = 0; i < options->n_attributes; i++) {
        struct tracing_pair *pair = &options->attributes[i];
        if (strcmp(pair->key, "service.name") != 0)
            continue;
        if (!service)
            service = pair->value;
        options->service_name = copy(service, strlen(service), error);
        free(pair->key);
        free(pair->value);
        *pair = options->attributes[--options->n_attributes];
        options->attributes[options->n_attributes] = (struct tracing_pair){NULL, NULL};
        return options->service_name ? 0 : -1;
    }
    service = service ? service : DEFAULT_SERVICE;
    options->service_name = copy(service, strlen(service), error);
    return options->service_name ? 0 : -1;
}

/* ---- Numbers and the sampler ---- */

static int read_timeout(struct tracing_options *options, struct error *error)
{
    const char *name;
    const char *text = first_variable("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "OTEL_EXPORTER_OTLP_TIMEOUT", &name);
    options->timeout_ms = DEFAULT_TIMEOUT_MS;
    if (!text)
        return 0;
    char *end;
    errno = 0;
    long value = strtol(text, &end, 10);
    if (*end || end == text || errno != 0 || value < 1 || value > 3600000)
        return error_set(error, "%s: expected milliseconds from 1 to 3600000, found '%.40s'", name, text);
    options->timeout_ms = value;
    return 0;
}

/* Reads the ratio of the sampler. It is 1 if the variable is not set, as the specification requires. */
static int read_ratio(double *ratio, struct error *error)
{
    static const char name[] = "OTEL_TRACES_SAMPLER_ARG";
    const char *text = variable(name);
    char *end;
    *ratio = 1;
    if (!text)
        return 0;
    double value = strtod(text, &end);
    if (*end || end == text || !(value >= 0 && value <= 1))
        return error_set(error, "%s: expected a number from 0 to 1, found '%.40s'", name, text);
    *ratio = value;
    return 0;
}

static int read_sampler(struct sampler *sampler, struct error *error)
{
    static const char name[] = "OTEL_TRACES_SAMPLER", prefix[] = "parentbased_";
    const char *given = variable(name) ? variable(name) : "parentbased_always_on", *kind = given;
    sampler->follows_parent = strncmp(kind, prefix, strlen(prefix)) == 0;
    kind += sampler->follows_parent ? strlen(prefix) : 0;
    sampler->ratio = strcmp(kind, "always_on") == 0;
    if (strcmp(kind, "always_on") == 0 || strcmp(kind, "always_off") == 0)
        return 0;
    if (strcmp(kind, "traceidratio") == 0)
        return read_ratio(&sampler->ratio, error);
    return error_set(error,
                     "%s: expected always_on, always_off or traceidratio, or one of these after parentbased_, found "
                     "'%.40s'",
                     name, given);
}

/* The last 7 bytes of a trace id are random in all versions of Trace Context. Like OpenTelemetry's samplers, this
 * function reads the last 8 bytes as a big-endian number. So services with the same ratio trace the same requests. */
bool sampler_takes(const struct sampler *sampler, const struct trace_context *parent,
                   const unsigned char trace_id[TRACE_ID_BYTES])
{
    if (sampler->follows_parent && parent)
        return parent->sampled;
    if (sampler->ratio >= 1) /* without this test, rounding could exclude the largest ids */
        return true;
    uint64_t number = 0;
    for (int i = TRACE_ID_BYTES - 8; i < TRACE_ID_BYTES; i++)
        number = number << 8 | trace_id[i];
    return (double)(number >> 1) < sampler->ratio * 0x1p63;
}

/* ---- All options ---- */

static int read_certificate(struct tracing_options *options, struct error *error)
{
    const char *name;
    const char *path = first_variable("OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE", "OTEL_EXPORTER_OTLP_CERTIFICATE", &name);
    if (!path)
        return 0;
    options->certificate = copy(path, strlen(path), error);
    return options->certificate ? 0 : -1;
}

int tracing_options_read(const char *endpoint, struct tracing_options *options, struct error *error)
{
    memset(options, 0, sizeof *options);
    if (read_endpoint(endpoint, options, error) != 0)
        return -1;
    if (!options->url)
        return 0;
    if (read_headers(options, error) == 0 && read_resource(options, error) == 0 && read_timeout(options, error) == 0 &&
        read_certificate(options, error) == 0 && read_sampler(&options->sampler, error) == 0)
        return 0;
    tracing_options_free(options);
    return -1;
}

static void free_pairs(struct tracing_pair *pairs)
{
    for (int i = 0; i < TRACING_PAIRS; i++) {
        free(pairs[i].key);
        free(pairs[i].value);
    }
}

void tracing_options_free(struct tracing_options *options)
{
    free(options->url);
    free(options->certificate);
    free(options->service_name);
    free_pairs(options->headers);
    free_pairs(options->attributes);
    memset(options, 0, sizeof *options);
}
