/* body: the bytes of a request's body as they come in. */
#ifndef SERVER_BODY_H
#define SERVER_BODY_H

#include "server/common/budget.h"
#include "server/common/failure.h"

#include <stddef.h>

/* Zero it, then set share.budget and limit, and lead if needed. Memory grows with the bytes that have arrived, never
 * with the length that a client announces. */
struct body {
    struct share share; /* of the memory for all bodies that are being received */
    size_t limit;       /* bytes of this body at most */
    size_t lead;        /* free bytes before data, which align binary data further on */
    char *data;
    size_t length, capacity;
};

enum body_status {
    BODY_OK,
    BODY_TOO_LARGE,
    BODY_NO_ROOM, /* the budget is used up, or memory is out */
};

enum body_status body_append(struct body *body, const char *bytes, size_t length);
void body_free(struct body *body); /* twice is harmless */

int body_no_room(struct failure *failure); /* the failure for BODY_NO_ROOM; returns -1 */

#endif
