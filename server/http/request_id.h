/* request_id: the name of one request, for logs of several services. It is the client's, or it is made here. */
#ifndef SERVER_REQUEST_ID_H
#define SERVER_REQUEST_ID_H

#include <stdint.h>

#define REQUEST_ID_MOST 128 /* characters */

struct request_id {
    char text[REQUEST_ID_MOST + 1];
};

/* What ids that are made here are counted with. */
struct request_id_source {
    uint64_t seed; /* of this process */
    _Atomic uint64_t count;
};

void request_id_source_init(struct request_id_source *source);

/* `given` is the header x-request-id: 1 to REQUEST_ID_MOST visible ASCII characters. Without a valid one it is the
 * trace id of `traceparent` (W3C Trace Context), and without that 32 hexadecimal digits of our own. Both may be NULL.
 * Any thread. */
void request_id_set(struct request_id *id, struct request_id_source *source, const char *given,
                    const char *traceparent);

#endif
