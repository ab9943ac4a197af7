/* format: a file format, as functions that decode the rows of a picture from top to bottom. The formats are in jpeg.c
 * and png.c. If the build lacks a library, jpeg_missing.c or png_missing.c is used instead. */
#ifndef SERVER_IMAGES_FORMAT_H
#define SERVER_IMAGES_FORMAT_H

#include "server/images/resampler.h"

/* A file whose header was read. Each format has its own struct, whose first member is this struct. */
struct image_source {
    int64_t height, width;
    int64_t memory; /* maximum number of bytes in use while the rows are decoded */
};

struct image_format {
    /* Reads the header of a file. `bytes` must outlive the source. After success the caller must call close(). After
     * failure there is nothing to free. */
    int (*open)(const uint8_t *bytes, size_t size, struct image_source **source, struct error *error);

    /* Decodes all rows and passes them to the resampler. Call it once. Returns -1 if the file is damaged, or if memory
     * is lacking. */
    int (*read)(struct image_source *source, struct resampler *resampler, struct error *error);
    void (*close)(struct image_source *source);
};

extern const struct image_format format_jpeg, format_png;

#endif
