/* body: the bytes of a request's body as they come in. */
#include "server/http/body.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_CAPACITY 4096

enum body_status body_append(struct body *body, const char *bytes, size_t length)
{
    if (length > body->limit - body->length)
        return BODY_TOO_LARGE;
    if (length > body->capacity - body->length) {
        size_t capacity = body->capacity ? body->capacity * 2 : FIRST_CAPACITY;
        char *data;

        while (capacity - body->length < length)
            capacity *= 2;
        if (capacity > body->limit)
            capacity = body->limit;
        if (!share_take(&body->share, (int64_t)(capacity - body->capacity)))
            return BODY_NO_ROOM;
        data = realloc(body->data ? body->data - body->lead : NULL, body->lead + capacity);
        if (!data) {
            share_give(&body->share, (int64_t)(capacity - body->capacity));
            return BODY_NO_ROOM;
        }
        body->data = data + body->lead;
        body->capacity = capacity;
    }
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
