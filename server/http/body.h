/* body: the bytes of a request's body as they come in. */
#ifndef SERVER_BODY_H
#define SERVER_BODY_H

#include "server/common/budget.h"

#include <stddef.h>

/* Zero it and set the share's budget and the limit, perhaps lead. Memory grows with what has arrived, never with what a
 * client announces. */
struct body {
    struct share share; /* of the memory of all bodies that are being read */
    size_t limit;       /* bytes of this one */
    size_t lead;        /* bytes that stay free before data, which aligns what is read in place further on */
    char *data;
    size_t length, capacity;
};

enum body_status {
    BODY_OK,
    BODY_TOO_LARGE,
    BODY_NO_ROOM, /* the shared bound is reached, or memory is out */
};

enum body_status body_append(struct body *body, const char *bytes, size_t length);
void body_free(struct body *body); /* twice is harmless */

#endif
