/* pictures: the item of a model that accepts pictures. */
#ifndef SERVER_DIALECTS_NATIVE_PICTURES_H
#define SERVER_DIALECTS_NATIVE_PICTURES_H

#include "server/http/routes.h"

/* Whether the body is the file of a picture, according to Content-Type or to the first bytes of the body. */
bool native_body_is_picture(const struct request *request);

/* These functions make the item of a model that accepts pictures. native_picture reads a file, native_picture_text
 * reads a file in base64. `path` names the picture in messages. */
int native_picture(struct request *request, const char *path, const void *file, size_t size, struct engine_item *item);
int native_picture_text(struct request *request, const char *path, const char *text, size_t length,
                        struct engine_item *item);

#endif
