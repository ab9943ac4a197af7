/* routes: the search through the dialects' tables. */
#include "server/http/routes.h"

#include <assert.h>
#include <string.h>

int dialect_status(const struct dialect *dialect, enum failure_kind kind)
{
    return kind == FAILURE_INVALID ? dialect->invalid_status : failure_status(kind);
}

/* Whether the path matches the segments of the pattern. Copies the segments for {} to `parameters`, even if a later
 * segment of the path does not match. */
static bool path_matches(const char *pattern, const char *path,
                         char parameters[REQUEST_PARAMETERS][REQUEST_PARAMETER_BYTES])
{
    size_t count = 0;
    for (size_t i = 0; i < REQUEST_PARAMETERS; i++)
        parameters[i][0] = '\0';
    while (*pattern) {
        if (strncmp(pattern, "{}", 2) == 0) {
            size_t length = strcspn(path, "/");
            assert(count < REQUEST_PARAMETERS);
            if (length == 0 || length >= REQUEST_PARAMETER_BYTES)
                return false;
            memcpy(parameters[count], path, length);
            parameters[count++][length] = '\0';
            pattern += 2;
            path += length;
        } else if (*pattern++ != *path++) {
            return false;
        }
    }
    return *path == '\0';
}

static void allow_method(char *allow, size_t size, const char *method)
{
    if (strstr(allow, method))
        return;
    if (*allow)
        strncat(allow, ", ", size - strlen(allow) - 1);
    strncat(allow, method, size - strlen(allow) - 1);
}

static bool dialect_has_prefix_of(const struct dialect *dialect, const char *path)
{
    for (const char *const *prefix = dialect->prefixes; *prefix; prefix++) {
        size_t length = strlen(*prefix);
        if (strncmp(path, *prefix, length) == 0 && (path[length] == '\0' || path[length] == '/'))
            return true;
    }
    return false;
}

static const struct dialect *dialect_of_path(const struct dialect *const *dialects, const char *path)
{
    while (dialects[1] && !dialect_has_prefix_of(*dialects, path))
        dialects++;
    return *dialects;
}

const struct route *routes_at(const struct dialect *const *dialects, size_t index)
{
    for (; *dialects; index -= (*dialects++)->n_routes)
        if (index < (*dialects)->n_routes)
            return &(*dialects)->routes[index];
    return NULL;
}

static void find_in_dialect(const struct dialect *dialect, const char *method, const char *path,
                            struct route_match *match)
{
    const char *wanted = strcmp(method, "HEAD") == 0 ? "GET" : method;
    char parameters[REQUEST_PARAMETERS][REQUEST_PARAMETER_BYTES];
    for (size_t i = 0; i < dialect->n_routes; i++) {
        const struct route *route = &dialect->routes[i];
        if (!path_matches(route->path, path, parameters))
            continue;
        match->path_known = true;
        allow_method(match->allow, sizeof match->allow, route->method);
        if (strcmp(route->method, "GET") == 0)
            allow_method(match->allow, sizeof match->allow, "HEAD");
        if (strcmp(route->method, wanted) == 0 && !match->route) {
            match->dialect = dialect;
            match->route = route;
            memcpy(match->parameters, parameters, sizeof parameters);
        }
    }
}

void routes_find(const struct dialect *const *dialects, const char *method, const char *path, struct route_match *match)
{
    memset(match, 0, sizeof *match);
    match->dialect = dialect_of_path(dialects, path);
    for (; *dialects; dialects++)
        find_in_dialect(*dialects, method, path, match);
    if (match->path_known)
        allow_method(match->allow, sizeof match->allow, "OPTIONS");
}
