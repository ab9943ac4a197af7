/* request_id: an identifier of one request. With the identifier, operators can match the log lines of several
 * services. */
#ifndef SERVER_REQUEST_ID_H
#define SERVER_REQUEST_ID_H

#include <stdint.h>

#define REQUEST_ID_MAX_LENGTH 128 /* maximum number of characters of an id */

struct request_id {
    char text[REQUEST_ID_MAX_LENGTH + 1];
};

/* A generator of ids for requests whose headers contain none. */
struct request_id_source {
    uint64_t seed; /* a random number, chosen once per process */
    _Atomic uint64_t count;
};

void request_id_source_init(struct request_id_source *source);

/* Sets the id to the first valid one of these:
 * - `given`, the header x-request-id: 1 to REQUEST_ID_MAX_LENGTH visible ASCII characters
 * - trace_id, of TRACE_ID_BYTES, in hexadecimal digits
 * - 32 hexadecimal digits of the generator: its seed and its count
 *
 * `given` and `trace_id` may be NULL. Any thread may call request_id_set. */
void request_id_set(struct request_id *id, struct request_id_source *source, const char *given,
                    const unsigned char *trace_id);

#endif
