/* body: collects the bytes of a request's body as they arrive. */
#include "server/http/body.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_CAPACITY 4096

/* Makes room for `length` more bytes. The caller has checked that they do not exceed the limit of the body. */
static enum body_status grow(struct body *body, size_t length)
{
    size_t capacity = body->capacity ? body->capacity * 2 : FIRST_CAPACITY;
    while (capacity - body->length < length)
        capacity *= 2;
    if (capacity > body->limit)
        capacity = body->limit;
    int64_t more = (int64_t)(capacity - body->capacity);
    if (!share_take(&body->share, more))
        return BODY_NO_ROOM;
    char *data = realloc(body->data ? body->data - body->lead : NULL, body->lead + capacity);
    if (!data) {
        share_give(&body->share, more);
        return BODY_NO_ROOM;
    }
    body->data = data + body->lead;
    body->capacity = capacity;
    return BODY_OK;
}

enum body_status body_append(struct body *body, const char *bytes, size_t length)
{
    if (length > body->limit - body->length)
        return BODY_TOO_LARGE;
    if (length > body->capacity - body->length && grow(body, length) != BODY_OK)
        return BODY_NO_ROOM;
    memcpy(body->data + body->length, bytes, length);
    body->length += length;
    return BODY_OK;
}

void body_free(struct body *body)
{
    free(body->data ? body->data - body->lead : NULL);
    share_end(&body->share);
    body->data = NULL;
    body->length = body->capacity = 0;
}

int body_no_room(struct failure *failure)
{
    return failure_set(failure, FAILURE_OVERLOADED, "too many bodies are being received; try again later");
}
