/* png_writer_missing: replaces png_writer.c in a build without libpng. */
#include "server/images/png_writer.h"

int (*const png_write)(const struct png_picture *picture,
                       void (*append)(void *context, const void *bytes, size_t length), void *context,
                       struct error *error) = NULL;
