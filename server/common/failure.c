/* failure: a table that maps each kind of failure to an HTTP status and an error type. */
#include "server/common/failure.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>

static const struct {
    int status;
    const char *type;
} kinds[FAILURE_COUNT] = {
    [FAILURE_NONE] = {200, ""},
    [FAILURE_MALFORMED] = {400, "Validation"},
    [FAILURE_KEY] = {401, "Unauthorized"},
    [FAILURE_NOT_FOUND] = {404, "Validation"},
    [FAILURE_NO_MODEL] = {404, "Validation"},
    [FAILURE_METHOD] = {405, "Validation"},
    [FAILURE_TOO_LARGE] = {413, "Validation"},
    [FAILURE_MEDIA_TYPE] = {415, "Validation"},
    [FAILURE_INVALID] = {422, "Validation"},
    [FAILURE_OVERLOADED] = {429, "Overloaded"},
    [FAILURE_GONE] = {499, "Backend"},
    [FAILURE_BACKEND] = {500, "Backend"},
    [FAILURE_UNSUPPORTED] = {501, "Backend"},
    [FAILURE_UNAVAILABLE] = {503, "Unhealthy"},
    [FAILURE_EXPIRED] = {504, "Backend"},
};

int failure_set(struct failure *failure, enum failure_kind kind, const char *format, ...)
{
    char message[sizeof failure->error.message];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    failure->kind = kind;
    return error_set(&failure->error, "%s", message); /* error_set makes the message valid UTF-8 */
}

int failure_memory(struct failure *failure)
{
    return failure_set(failure, FAILURE_BACKEND, "out of memory");
}

int failure_status(enum failure_kind kind)
{
    assert(kind < FAILURE_COUNT);
    return kinds[kind].status;
}

const char *failure_type_of(int status)
{
    for (int kind = FAILURE_NONE + 1; kind < FAILURE_COUNT; kind++) {
        if (kinds[kind].status == status)
            return kinds[kind].type;
    }
    return status < 500 ? "Validation" : "Backend";
}

const char *failure_type(enum failure_kind kind)
{
    assert(kind < FAILURE_COUNT);
    return kinds[kind].type;
}
