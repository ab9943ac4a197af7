/* png_writer_missing: replaces png_writer.c in a build without libpng. */
#include "server/images/png_writer.h"

const bool png_writer_exists = false;

int png_write(const struct png_picture *picture, void (*append)(void *context, const void *bytes, size_t length),
              void *context, struct error *error)
{
    (void)picture, (void)append, (void)context;
    return error_set(error, "this build cannot write PNG images: libpng was not there when it was built");
}
