/* format: a file format, which gives the rows of a picture from top to bottom. One file each: jpeg.c, png.c. When the
 * build lacks the library, jpeg_missing.c or png_missing.c takes that file's place. */
#ifndef SERVER_IMAGES_FORMAT_H
#define SERVER_IMAGES_FORMAT_H

#include "server/images/resampler.h"

/* A file whose header was read. Each format has it first in a struct of its own. */
struct image_source {
    int64_t height, width;
    int64_t memory; /* bytes at most, while the rows are decoded */
};

struct image_format {
    /* Reads the header. The `bytes` must outlive the source. After success close() is owed, after failure nothing. */
    int (*open)(const uint8_t *bytes, size_t size, struct image_source **source, struct error *error);

    /* Gives all rows to the resampler, once. -1: the file is damaged, or there is no memory. */
    int (*read)(struct image_source *source, struct resampler *resampler, struct error *error);
    void (*close)(struct image_source *source);
};

extern const struct image_format format_jpeg, format_png;

#endif
