/* jpeg_missing: replaces jpeg.c in a build without libjpeg. */
#include "server/images/format.h"

#include <stddef.h>

static int refuse_jpeg(const uint8_t *bytes, size_t size, struct image_source **source, struct error *error)
{
    (void)bytes, (void)size, (void)source;
    return error_set(error, "this build cannot read JPEG images: libjpeg-turbo was not installed when it was built");
}

const struct image_format format_jpeg = {refuse_jpeg, NULL, NULL};
