/* pictures: makes an item from a JPEG or PNG file. The file is the body, or base64 text in the body. Decoding a picture
 * may take a second, so these functions run on worker threads. server/http/exchange.c chooses the thread for each
 * body. */
#include "server/dialects/native/pictures.h"

#include "server/common/clock.h"
#include "server/dialects/native/model.h"
#include "server/images/images.h"
#include "server/text/base64.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* The first bytes of the two file formats. JSON never begins with them. */
static const char jpeg_mark[] = "\xFF\xD8\xFF", png_mark[] = "\x89PNG";

static bool begins_with(const struct request *request, const char *mark)
{
    size_t length = strlen(mark);
    return request->body_length >= length && memcmp(request->body, mark, length) == 0;
}

bool native_body_is_picture(const struct request *request)
{
    const char *type = request->header(request, "Content-Type");
    return (type && strncasecmp(type, "image/", 6) == 0) || begins_with(request, jpeg_mark) ||
           begins_with(request, png_mark);
}

static int refuse(struct request *request, const char *path, const struct error *error)
{
    if (image_lacks_memory(error))
        return failure_memory(&request->failure);
    return failure_set(&request->failure, FAILURE_INVALID, "%s: %s", path, error->message);
}

/* Fails if the deadline has passed. It is checked before each picture, because a request may contain thousands of
 * pictures. */
static int check_deadline(struct request *request)
{
    int64_t deadline_ns = request->job.deadline_ns;
    if (deadline_ns == 0 || clock_ns() < deadline_ns)
        return 0;
    return failure_set(&request->failure, FAILURE_EXPIRED, "the deadline passed while images were read");
}

int native_picture(struct request *request, const char *path, const void *file, size_t size, struct engine_item *item)
{
    const struct image_settings *settings = &native_model(request)->image;
    int64_t memory, height = settings->height, width = settings->width;
    struct error error;
    if (check_deadline(request) != 0)
        return -1;
    if (image_memory(settings, file, size, &memory, &error) != 0)
        return refuse(request, path, &error);
    float *pixels = request_take(request, 3 * height * width, sizeof *pixels);
    if (!pixels || request_charge(request, memory) != 0)
        return -1;
    int status = image_read(settings, file, size, memory, pixels, &error);
    share_give(&request->memory, memory);
    if (status != 0)
        return refuse(request, path, &error);
    item->inputs[0] = (struct engine_input){.data = pixels, .length = 1, .sizes = {3, height, width}};
    return 0;
}

/* Skips a prefix such as "data:image/png;base64,". Returns the base64 text after it, and reduces *length. */
static const char *behind_prefix(const char *text, size_t *length)
{
    const char *comma = *length > 5 && strncasecmp(text, "data:", 5) == 0 ? memchr(text, ',', *length) : NULL;
    if (!comma)
        return text;
    *length -= (size_t)(comma + 1 - text);
    return comma + 1;
}

static int refuse_text(struct request *request, const char *path, size_t length, size_t at)
{
    if (at == length)
        return failure_set(&request->failure, FAILURE_INVALID,
                           "%s is cut off: base64 of a JPEG or PNG file was expected", path);
    return failure_set(&request->failure, FAILURE_INVALID,
                       "%s: character %zu is not a base64 character; base64 of a JPEG or PNG file was expected", path,
                       at);
}

int native_picture_text(struct request *request, const char *path, const char *text, size_t length,
                        struct engine_item *item)
{
    const char *begun = text;
    text = behind_prefix(text, &length);
    int64_t room = (int64_t)BASE64_MAX_BYTES(length);
    if (request_charge(request, room) != 0)
        return -1;
    unsigned char *file = malloc((size_t)room);
    size_t size;
    int status;
    if (!file)
        status = failure_memory(&request->failure);
    else if (!base64_read(text, length, file, &size))
        status = refuse_text(request, path, length + (size_t)(text - begun), size + (size_t)(text - begun));
    else
        status = native_picture(request, path, file, size, item);
    free(file);
    share_give(&request->memory, room);
    return status;
}
