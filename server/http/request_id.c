/* request_id: chooses the client's id, the trace id, or a new id. */
#include "server/http/request_id.h"

#include "server/common/clock.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

enum { TRACE_ID_AT = 3, TRACE_ID_DIGITS = 32, TRACEPARENT_LENGTH = 55 };

void request_id_source_init(struct request_id_source *source)
{
    if (getrandom(&source->seed, sizeof source->seed, GRND_NONBLOCK) != sizeof source->seed)
        source->seed = (uint64_t)clock_ns() ^ (uint64_t)getpid() << 48;
    atomic_store(&source->count, 0);
}

static bool is_valid(const char *given)
{
    size_t length = strlen(given);
    if (length < 1 || length > REQUEST_ID_MOST)
        return false;
    for (size_t i = 0; i < length; i++) {
        if (given[i] <= ' ' || given[i] > '~')
            return false;
    }
    return true;
}

static bool are_digits(const char *text, size_t count)
{
    return strspn(text, "0123456789abcdef") >= count;
}

/* The header is "VV-TRACE-SPAN-FF": 2, 32, 16 and 2 hexadecimal digits. Versions after 00 may be longer. Version ff and
 * a trace id of zeros are invalid. */
static bool is_traceparent(const char *text)
{
    if (strnlen(text, TRACEPARENT_LENGTH) < TRACEPARENT_LENGTH || !are_digits(text, 2) || text[2] != '-' ||
        !are_digits(text + TRACE_ID_AT, TRACE_ID_DIGITS) || text[35] != '-' || !are_digits(text + 36, 16) ||
        text[52] != '-' || !are_digits(text + 53, 2))
        return false;
    if (strncmp(text, "00", 2) == 0 ? text[TRACEPARENT_LENGTH] != '\0' : strncmp(text, "ff", 2) == 0)
        return false;
    return strspn(text + TRACE_ID_AT, "0") < TRACE_ID_DIGITS;
}

/* Writes 16 digits. Most requests need 32 of them, which take snprintf 0.4 microseconds. */
static void write_digits(char *text, uint64_t number)
{
    for (int i = 15; i >= 0; i--, number >>= 4)
        text[i] = "0123456789abcdef"[number & 15];
}

void request_id_set(struct request_id *id, struct request_id_source *source, const char *given, const char *traceparent)
{
    if (given && is_valid(given)) {
        snprintf(id->text, sizeof id->text, "%s", given);
    } else if (traceparent && is_traceparent(traceparent)) {
        snprintf(id->text, sizeof id->text, "%.*s", TRACE_ID_DIGITS, traceparent + TRACE_ID_AT);
    } else {
        write_digits(id->text, source->seed);
        write_digits(id->text + 16, atomic_fetch_add(&source->count, 1));
        id->text[32] = '\0';
    }
}
