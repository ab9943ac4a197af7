#include "server/http/cors.h"

#include <string.h>

/* Whether the list contains the origin. An example of a list is "https://a.example,https://b.example". The list "*"
 * contains each origin. The comparison is case-sensitive, because browsers send origins in lower case. */
static bool is_allowed(const char *list, const char *origin)
{
    if (strcmp(list, "*") == 0)
        return true;
    size_t length = strlen(origin);
    for (;;) {
        size_t entry = strcspn(list, ",");
        if (entry == length && memcmp(list, origin, length) == 0)
            return true;
        if (list[entry] == '\0')
            return false;
        list += entry + 1;
    }
}

void cors_headers(const struct request *request, const struct route_match *match,
                  void (*add)(void *context, const char *name, const char *value), void *context)
{
    const char *list = request->service->options.settings->cors_allow_origin;
    if (!list)
        return;
    add(context, "Vary", "Origin"); /* a cache must not give one origin's answer to another origin */
    const char *origin = request->header(request, "Origin");
    if (!origin || !is_allowed(list, origin))
        return;
    add(context, "Access-Control-Allow-Origin", strcmp(list, "*") == 0 ? "*" : origin);
    if (!match) {
        add(context, "Access-Control-Expose-Headers", "*");
        return;
    }
    add(context, "Access-Control-Allow-Methods", match->allow);
    add(context, "Access-Control-Allow-Headers", "*, Authorization"); /* "*" does not include Authorization */
    add(context, "Access-Control-Max-Age", "7200"); /* in seconds: the maximum that Chromium accepts */
}

bool cors_is_foreign(const struct request *request)
{
    const char *list = request->service->options.settings->cors_allow_origin;
    const char *origin = request->header(request, "Origin"), *site = request->header(request, "Sec-Fetch-Site");
    if (!site || (strcmp(site, "cross-site") != 0 && strcmp(site, "same-site") != 0))
        return false;
    return !list || (strcmp(list, "*") != 0 && (!origin || !is_allowed(list, origin)));
}

bool cors_trusts(const struct request *request)
{
    const char *list = request->service->options.settings->cors_allow_origin;
    const char *origin = request->header(request, "Origin");
    return !origin || (list && is_allowed(list, origin));
}
