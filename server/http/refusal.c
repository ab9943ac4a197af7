/* refusal: checks of a request's headers. */
#include "server/http/refusal.h"

#include "server/http/coding.h"
#include "server/http/cors.h"
#include "server/http/keys.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static bool needs_key(const struct route *route, const struct settings *settings)
{
    return route->metrics ? settings->protect_metrics : !route->open;
}

/* Returns the key that the client sent, or NULL if there is none. Azure's clients send the key in the header
 * api-key. */
static const char *given_key(const struct request *request)
{
    const char *authorization = request->header(request, "Authorization");
    if (authorization && strncasecmp(authorization, "Bearer ", 7) == 0)
        return authorization + 7;
    return request->header(request, "api-key");
}

static int check_key(struct request *request)
{
    struct keys *keys = request->service->options.keys;
    if (!keys_needed(keys))
        return 0;
    const char *given = given_key(request);
    if (!given)
        return failure_set(&request->failure, FAILURE_KEY,
                           "an API key is required: \"Authorization: Bearer KEY\" or \"api-key: KEY\"");
    given += strspn(given, " ");
    size_t length = strlen(given);
    while (length > 0 && (given[length - 1] == ' ' || given[length - 1] == '\t'))
        length--;
    if (!keys_contain(keys, given, length, request->key_name))
        return failure_set(&request->failure, FAILURE_KEY, "the API key is wrong");
    return 0;
}

static bool is_type(const char *media_type, size_t length, const char *expected)
{
    return length == strlen(expected) && strncasecmp(media_type, expected, length) == 0;
}

/* Whether the body may be JSON. `curl -d` announces a form, even if the body is JSON. The body of a real form never
 * begins like JSON, so it is refused when it is parsed. */
static bool is_json(const char *media_type)
{
    size_t length = strcspn(media_type, "; \t");
    return is_type(media_type, length, "application/json") ||
           is_type(media_type, length, "application/x-www-form-urlencoded") ||
           (length > 5 && strncasecmp(media_type + length - 5, "+json", 5) == 0);
}

/* Whether the media type may be that of a picture. For application/octet-stream, the first bytes of the file decide
 * later. */
static bool is_picture(const char *media_type)
{
    static const char *const types[] = {"image/jpeg", "image/jpg", "image/png", "application/octet-stream"};
    size_t length = strcspn(media_type, "; \t");
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (is_type(media_type, length, types[i]))
            return true;
    return false;
}

static int check_media_type(const struct route *route, struct request *request, const char *type)
{
    bool picture = route->accepts == ACCEPTS_PICTURE;
    if (route->accepts == ACCEPTS_NONE || route->accepts == ACCEPTS_BINARY || !type || !*type || is_json(type) ||
        (picture && is_picture(type)))
        return 0;
    return failure_set(&request->failure, FAILURE_MEDIA_TYPE,
                       "Content-Type is \"%.100s\", application/json was expected%s", type,
                       picture ? ", or image/jpeg or image/png" : "");
}

static int check_body_headers(const struct route *route, struct request *request)
{
    const char *type = request->header(request, "Content-Type");
    const char *encoding = request->header(request, "Content-Encoding");
    const char *length = request->header(request, "Content-Length");
    const struct settings *settings = request->service->options.settings;
    if ((route->accepts == ACCEPTS_JSON || route->accepts == ACCEPTS_PICTURE) && encoding &&
        strcasecmp(encoding, "identity") != 0)
        return failure_set(&request->failure, FAILURE_MEDIA_TYPE,
                           "Content-Encoding is \"%.100s\", a body that is not compressed was expected", encoding);
    if (route->accepts == ACCEPTS_BINARY && coding_of(encoding) == CODING_UNKNOWN)
        return failure_set(&request->failure, FAILURE_MEDIA_TYPE,
                           "Content-Encoding is \"%.100s\", gzip, deflate or none was expected", encoding);
    if (check_media_type(route, request, type) != 0)
        return -1;
    if (length && strtoull(length, NULL, 10) > (unsigned long long)settings->payload_limit)
        return refusal_too_large(&request->failure, settings);
    return 0;
}

/* Refuses requests that a page of another origin sends through a user's browser. A browser sends such a POST before it
 * checks whether the page may read the answer. So without this check, any page could keep the daemon busy. */
static int check_page(const struct route *route, struct request *request)
{
    if (!route->work || strcmp(route->method, "POST") != 0 || !cors_is_foreign(request))
        return 0;
    const char *origin = request->header(request, "Origin");
    return failure_set(&request->failure, FAILURE_INVALID,
                       "pages of \"%.100s\" may not send this request; the server's flag --cors-allow-origin allows it",
                       origin ? origin : "another origin");
}

int refusal_too_large(struct failure *failure, const struct settings *settings)
{
    return failure_set(failure, FAILURE_TOO_LARGE,
                       "the body is larger than the %lld bytes that this server accepts (--payload-limit)",
                       (long long)settings->payload_limit);
}

int refusal_of_headers(const struct route_match *match, struct request *request, const char *method)
{
    if (!match->route && strcmp(method, "OPTIONS") == 0 && match->path_known)
        return 0;
    if (!match->path_known)
        return failure_set(&request->failure, FAILURE_NOT_FOUND, "there is no such path on this server");
    if (!match->route)
        return failure_set(&request->failure, FAILURE_METHOD, "the method is %.20s, one of %s was expected", method,
                           match->allow);
    if (needs_key(match->route, request->service->options.settings) && check_key(request) != 0)
        return -1;
    return check_page(match->route, request) == 0 ? check_body_headers(match->route, request) : -1;
}

bool refusal_has_body(const struct request *request)
{
    const char *length = request->header(request, "Content-Length");
    return request->header(request, "Transfer-Encoding") || (length && strtoull(length, NULL, 10) > 0);
}
