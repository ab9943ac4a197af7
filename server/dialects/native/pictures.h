/* pictures: makes the items of models whose first input is a picture. */
#ifndef SERVER_DIALECTS_NATIVE_PICTURES_H
#define SERVER_DIALECTS_NATIVE_PICTURES_H

#include "server/http/routes.h"

/* Whether the body is a picture file, according to its Content-Type or to its first bytes. */
bool native_body_is_picture(const struct request *request);

/* Both functions decode a JPEG or PNG file into the first input of `item`. native_picture decodes the bytes of a file,
 * native_picture_text its base64 text. `path` names the picture in messages. On failure they set request->failure and
 * return -1. */
int native_picture(struct request *request, const char *path, const void *file, size_t size, struct engine_item *item);
int native_picture_text(struct request *request, const char *path, const char *text, size_t length,
                        struct engine_item *item);

#endif
