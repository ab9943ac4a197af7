/* routes: the dialects, and the search through them. */
#include "server/routes.h"

#include "server/native.h"
#include "server/openai.h"
#include "server/v2.h"

#include <assert.h>
#include <string.h>

/* The first whose prefix fits a path answers for it; the native one fits all and so is the last. */
static const struct dialect *const dialects[] = {&openai_dialect, &v2_dialect, &native_dialect};
enum { N_DIALECTS = sizeof dialects / sizeof dialects[0] };

int dialect_status(const struct dialect *dialect, enum failure_kind kind)
{
    return kind == FAILURE_INVALID ? dialect->invalid_status : failure_status(kind);
}

/* Whether the path has the pattern's segments. What stands for each {} goes to `parameters`, also of a path that
 * differs further on. */
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

static const struct dialect *dialect_of_path(const char *path)
{
    for (size_t i = 0; i + 1 < N_DIALECTS; i++) {
        for (const char *const *prefix = dialects[i]->prefixes; *prefix; prefix++) {
            size_t length = strlen(*prefix);

            if (strncmp(path, *prefix, length) == 0 && (path[length] == '\0' || path[length] == '/'))
                return dialects[i];
        }
    }
    return dialects[N_DIALECTS - 1];
}

const struct route *routes_at(size_t index)
{
    for (size_t i = 0; i < N_DIALECTS; index -= dialects[i++]->n_routes) {
        if (index < dialects[i]->n_routes)
            return &dialects[i]->routes[index];
    }
    return NULL;
}

void routes_find(const char *method, const char *path, struct route_match *match)
{
    const char *wanted = strcmp(method, "HEAD") == 0 ? "GET" : method;
    char parameters[REQUEST_PARAMETERS][REQUEST_PARAMETER_BYTES];

    memset(match, 0, sizeof *match);
    match->dialect = dialect_of_path(path);
    for (size_t i = 0; i < N_DIALECTS; i++) {
        for (size_t r = 0; r < dialects[i]->n_routes; r++) {
            const struct route *route = &dialects[i]->routes[r];

            if (!path_matches(route->path, path, parameters))
                continue;
            match->path_known = true;
            allow_method(match->allow, sizeof match->allow, route->method);
            if (strcmp(route->method, "GET") == 0)
                allow_method(match->allow, sizeof match->allow, "HEAD");
            if (strcmp(route->method, wanted) == 0) {
                match->dialect = dialects[i];
                match->route = route;
                memcpy(match->parameters, parameters, sizeof parameters);
            }
        }
    }
    if (match->path_known)
        allow_method(match->allow, sizeof match->allow, "OPTIONS");
}
