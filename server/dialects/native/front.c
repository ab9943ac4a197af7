/* front: GET / returns the console to browsers, and a list of models and routes (index.c) to other clients. The console
 * is a page that shows the daemon's state and sends requests to it. */
#include "server/console/console.h"
#include "server/dialects/native/routes.h"
#include "server/http/coding.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* The value of the parameter q, the quality, among the parameters of a media range, such as ";level=1;q=0.5". 1 if
 * there is no q. */
static double quality(const char *parameters, size_t length)
{
    for (size_t i = 0; i + 2 < length; i++)
        if ((parameters[i] == 'q' || parameters[i] == 'Q') && parameters[i + 1] == '=' &&
            strchr("; \t", parameters[i - (i > 0)]))
            return strtod(parameters + i + 2, NULL);
    return 1;
}

/* Whether the header Accept contains text/html with a quality above 0. Browsers send this type. Clients of an API send
 * no Accept, or a wildcard. */
static bool accepts_page(const char *accept)
{
    static const char type[] = "text/html";
    while (accept && *accept) {
        accept += strspn(accept, ", \t");
        size_t length = strcspn(accept, ","), name = strcspn(accept, ",; \t");
        if (name == sizeof type - 1 && strncasecmp(accept, type, name) == 0)
            return quality(accept + name, length - name) > 0;
        accept += length;
    }
    return false;
}

/* Whether the value of If-None-Match, `list`, contains the tag. A weak tag matches a strong tag. */
static bool has_tag(const char *list, const char *tag)
{
    tag += strncmp(tag, "W/", 2) == 0 ? 2 : 0;
    return list && (strcmp(list, "*") == 0 || strstr(list, tag));
}

static const struct answer_header page_headers[] = {
    {"Content-Security-Policy", console_policy},
    {"ETag", console_tag},
    {"Cache-Control", "no-cache"}, /* a browser keeps the page, and asks each time whether the page has changed */
    {"Vary", "Accept, Accept-Encoding"},
    {"X-Content-Type-Options", "nosniff"},
    {"X-Frame-Options", "DENY"},
    {"Referrer-Policy", "no-referrer"},
    {NULL, NULL},
};

static const struct answer_header index_headers[] = {{"Vary", "Accept"}, {NULL, NULL}};

static void write_page(struct request *request)
{
    bool packed = coding_wanted(request->header(request, "Accept-Encoding")) == CODING_GZIP;
    const char *bytes = packed ? console_packed : console_page;
    const char *end = packed ? console_packed_end : console_page_end;
    writer_bytes(&request->answer, bytes, (size_t)(end - bytes));
    request->answer_encoding = packed ? coding_name(CODING_GZIP) : NULL;
    request->answer_type = "text/html; charset=utf-8";
}

enum outcome native_front(struct request *request)
{
    if (!accepts_page(request->header(request, "Accept"))) {
        request->answer_headers = index_headers;
        return native_index(request);
    }
    request->answer_headers = page_headers;
    request->unchanged = has_tag(request->header(request, "If-None-Match"), console_tag);
    if (!request->unchanged)
        write_page(request);
    return OUTCOME_ANSWERED;
}
