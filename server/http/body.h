/* body: collects the bytes of a request's body as they arrive. */
#ifndef SERVER_BODY_H
#define SERVER_BODY_H

#include "server/common/budget.h"
#include "server/common/failure.h"

#include <stddef.h>

/* Zero the struct. Then set share.budget and `limit`, and also `lead` if binary data needs alignment. Memory grows with
 * the bytes that have arrived, never with the length that a client announces. */
struct body {
    struct share share; /* share of the budget that limits all bodies being received */
    size_t limit;       /* maximum length of this body in bytes */
    size_t lead; /* number of unused bytes before `data`. They align binary data that follows the JSON in the body */
    char *data;
    size_t length, capacity;
};

enum body_status {
    BODY_OK,
    BODY_TOO_LARGE,
    BODY_NO_ROOM, /* the budget or the memory is used up */
};

enum body_status body_append(struct body *body, const char *bytes, size_t length);
void body_free(struct body *body); /* may be called twice */

int body_no_room(struct failure *failure); /* sets the failure for BODY_NO_ROOM. Always returns -1 */

#endif
