/* png_missing: replaces png.c in a build without libpng. */
#include "server/images/format.h"

#include <stddef.h>

static int refuse_png(const uint8_t *bytes, size_t size, struct image_source **source, struct error *error)
{
    (void)bytes, (void)size, (void)source;
    return error_set(error, "this build cannot read PNG images: libpng was not installed when it was built");
}

const struct image_format format_png = {refuse_png, NULL, NULL};
