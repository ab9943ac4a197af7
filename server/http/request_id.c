/* request_id: chooses the client's id, the trace id, or a new id. */
#include "server/http/request_id.h"

#include "server/common/clock.h"
#include "server/tracing/trace_context.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

void request_id_source_init(struct request_id_source *source)
{
    if (getrandom(&source->seed, sizeof source->seed, GRND_NONBLOCK) != sizeof source->seed)
        source->seed = (uint64_t)clock_ns() ^ (uint64_t)getpid() << 48;
    atomic_store(&source->count, 0);
}

static bool is_valid(const char *given)
{
    size_t length = strlen(given);
    if (length < 1 || length > REQUEST_ID_MAX_LENGTH)
        return false;
    for (size_t i = 0; i < length; i++) {
        if (given[i] <= ' ' || given[i] > '~')
            return false;
    }
    return true;
}

/* Writes 16 hexadecimal digits. Most requests need 32 digits. Writing them with snprintf would take 0.4
 * microseconds. */
static void write_digits(char *text, uint64_t number)
{
    for (int i = 15; i >= 0; i--, number >>= 4)
        text[i] = "0123456789abcdef"[number & 15];
}

void request_id_set(struct request_id *id, struct request_id_source *source, const char *given,
                    const unsigned char *trace_id)
{
    if (given && is_valid(given)) {
        snprintf(id->text, sizeof id->text, "%s", given);
    } else if (trace_id) {
        trace_digits(id->text, trace_id, TRACE_ID_BYTES);
    } else {
        write_digits(id->text, source->seed);
        write_digits(id->text + 16, atomic_fetch_add(&source->count, 1));
        id->text[32] = '\0';
    }
}
