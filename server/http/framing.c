/* framing: checks the request line and the header lines, before every route and every refusal (RFC 9112, sections 2.2,
 * 3, 5 and 6). Also checks the bytes after a chunked body (section 7.1).
 *
 * libmicrohttpd before 1.0 accepts three kinds of lines that a proxy may understand differently. It does not report
 * these lines:
 * - a line that continues on the next line: `A: b` and ` c` arrive as the name `Ac`
 * - a path or a value with a NUL: the string ends at the NUL
 * - a line that ends in LF without CR
 *
 * The addresses of the strings reveal all three kinds. Method, path, version, names and values are pointers into one
 * buffer with the received request. In this buffer libmicrohttpd has replaced CR, LF and the spaces of the request line
 * by NULs. So a name must begin exactly two bytes after the end of the previous value. Any other distance is refused.
 * The path must begin exactly one byte after the end of the method. A larger distance means several spaces. The version
 * must begin exactly one byte after the end of the target. A larger distance means a NUL. libmicrohttpd 1.0 and later
 * arranges headers differently in memory. With MHD_OPTION_STRICT_FOR_CLIENT, which event_loop.c sets, these versions
 * refuse such lines themselves.
 *
 * The lines with chunk sizes cannot be checked in this way. In these lines, libmicrohttpd before 1.0 accepts a bare LF
 * and a bare CR. When it reports a chunk, it has already consumed the line, and may have moved its buffer. Reading the
 * socket with MSG_PEEK does not help either, because libmicrohttpd may have read the line together with the headers. So
 * the end of a chunked body is always ambiguous. framing_is_chunked lets the caller close the connection after such a
 * request. Bytes after this request are not read.
 *
 * Trailers have no meaning for the daemon, and few clients send them. A continued line, a bare LF or a header such as
 * Content-Length in a trailer can mislead a proxy. Also, the end of the last line cannot be checked. So every trailer
 * is refused. */
#include "server/http/framing.h"

#include <string.h>
#include <strings.h>

enum { LINE_END = 2 /* length of CR LF in bytes */ };

struct framing {
    struct failure *failure;
    const char *end; /* end of the previous value in libmicrohttpd's buffer. NULL if this version of libmicrohttpd needs
                        no comparison of addresses */
    const char *length, *coding, *host; /* values of Content-Length, Transfer-Encoding and Host. NULL until seen */
};

static int refuse(struct framing *framing, const char *what)
{
    return failure_set(framing->failure, FAILURE_MALFORMED, "%s", what);
}

/* Whether the text contains only ASCII letters, digits and characters of `others`. strspn is slower, because each call
 * builds a table of 256 characters. */
static bool has_only(const char *text, size_t length, const char *others)
{
    for (size_t i = 0; i < length; i++) {
        unsigned char lower = (unsigned char)text[i] | 0x20;
        bool plain = (lower >= 'a' && lower <= 'z') || (text[i] >= '0' && text[i] <= '9');
        if (!plain && (text[i] == '\0' || !strchr(others, text[i])))
            return false;
    }
    return true;
}

/* Whether the name is a token of RFC 9110, section 5.6.2. A token is never empty and contains no spaces. */
static bool is_name(const char *name, size_t length)
{
    return length > 0 && has_only(name, length, "!#$%&'*+-.^_`|~");
}

static bool has_control(const char *value, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        if (((unsigned char)value[i] < ' ' && value[i] != '\t') || value[i] == '\x7f')
            return true;
    }
    return false;
}

static int check_length(struct framing *framing, const char *value, size_t length)
{
    if (framing->length)
        return refuse(framing, "several Content-Length headers are given, one was expected");
    if (length == 0 || strspn(value, "0123456789") != length)
        return failure_set(framing->failure, FAILURE_MALFORMED,
                           "Content-Length is \"%.40s\", only digits were expected", value);
    framing->length = value;
    return 0;
}

static int check_coding(struct framing *framing, const char *value)
{
    if (framing->coding)
        return refuse(framing, "several Transfer-Encoding headers are given, one was expected");
    if (strcasecmp(value, "chunked") != 0)
        return failure_set(framing->failure, FAILURE_MALFORMED,
                           "Transfer-Encoding is \"%.100s\", only \"chunked\" is supported", value);
    framing->coding = value;
    return 0;
}

/* An empty Host is valid (RFC 9112, section 3.2). A Host that is not empty must be a name or an address as in RFC 3986,
 * optionally with a port. */
static int check_host(struct framing *framing, const char *value, size_t length)
{
    if (framing->host)
        return refuse(framing, "several Host headers are given, one was expected");
    if (!has_only(value, length, "-._~!$&'()*+,;=%:[]"))
        return failure_set(framing->failure, FAILURE_MALFORMED,
                           "Host is \"%.100s\", the name of a host and perhaps a port was expected", value);
    framing->host = value;
    return 0;
}

static int check_line(struct framing *framing, const char *name, size_t name_length, const char *value,
                      size_t value_length)
{
    if (!is_name(name, name_length))
        return failure_set(framing->failure, FAILURE_MALFORMED,
                           "\"%.40s\" is not a header name: it is empty, or contains a space, a separator, a control "
                           "character or a non-ASCII byte",
                           name);
    if (framing->end && name != framing->end + LINE_END)
        return refuse(framing, "a header contains a NUL, is continued on a second line, or does not end in CR LF");
    if (has_control(value, value_length))
        return failure_set(framing->failure, FAILURE_MALFORMED, "header %.40s contains a control character", name);
    if (framing->end)
        framing->end = value + value_length;
    if (strcasecmp(name, MHD_HTTP_HEADER_CONTENT_LENGTH) == 0)
        return check_length(framing, value, value_length);
    if (strcasecmp(name, MHD_HTTP_HEADER_TRANSFER_ENCODING) == 0)
        return check_coding(framing, value);
    if (strcasecmp(name, MHD_HTTP_HEADER_HOST) == 0)
        return check_host(framing, value, value_length);
    return 0;
}

static enum MHD_Result on_header(void *context, enum MHD_ValueKind kind, const char *name, size_t name_length,
                                 const char *value, size_t value_length)
{
    (void)kind;
    return check_line(context, name, name_length, value ? value : "", value_length) == 0 ? MHD_YES : MHD_NO;
}

/* Returns the end of the headers in libmicrohttpd's buffer. The buffer begins with the method. */
static const char *headers_end(struct MHD_Connection *connection, const char *method)
{
    return method + MHD_get_connection_info(connection, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE)->header_size;
}

/* Checks that the headers do not contradict each other or the HTTP version. `version` is a text such as "HTTP/1.1". */
static int check_headers(struct framing *framing, const char *version)
{
    if (framing->coding && framing->length)
        return refuse(framing, "both Transfer-Encoding and Content-Length are given, one was expected");
    if (framing->coding && strcmp(version, MHD_HTTP_VERSION_1_1) != 0)
        return refuse(framing, "Transfer-Encoding is given, which only HTTP/1.1 supports");
    if (!framing->host && strcmp(version, MHD_HTTP_VERSION_1_0) != 0)
        return refuse(framing, "Host is missing, which HTTP/1.1 requires");
    return 0;
}

struct framing_target framing_target_of(const char *target)
{
    return (struct framing_target){.end = target + strlen(target), .encoded_nul = strstr(target, "%00") != NULL};
}

int framing_check(struct MHD_Connection *connection, const struct framing_target *target, const char *method,
                  const char *url, const char *version, struct failure *failure)
{
    bool compares = strncmp(MHD_get_version(), "0.", 2) == 0;
    struct framing framing = {.failure = failure, .end = compares ? version + strlen(version) : NULL};
    failure->kind = FAILURE_NONE;
    if (compares && url != method + strlen(method) + 1)
        return refuse(&framing, "several spaces are between method and path, one was expected");
    if (target->encoded_nul || (compares && version != target->end + 1))
        return refuse(&framing, "the path or the query contains a NUL");
    MHD_get_connection_values_n(connection, MHD_HEADER_KIND, on_header, &framing);
    if (failure->kind != FAILURE_NONE)
        return -1;
    if (compares && headers_end(connection, method) != framing.end + 2 * LINE_END)
        return refuse(&framing,
                      "the last header contains a NUL, is continued on a second line, or does not end in CR LF");
    return check_headers(&framing, version);
}

bool framing_is_chunked(struct MHD_Connection *connection)
{
    return MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_TRANSFER_ENCODING) != NULL;
}

int framing_check_end(struct MHD_Connection *connection, struct failure *failure)
{
    if (MHD_get_connection_values_n(connection, MHD_FOOTER_KIND, NULL, NULL) == 0)
        return 0;
    return failure_set(failure, FAILURE_MALFORMED, "trailers follow the chunked body, none was expected");
}
