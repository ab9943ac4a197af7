/* png_writer: writes a picture as a PNG file. The function keeps no state, so any thread may call it. */
#ifndef SERVER_IMAGES_PNG_WRITER_H
#define SERVER_IMAGES_PNG_WRITER_H

#include "config/config.h"

#include <stddef.h>
#include <stdint.h>

/* A picture whose pixels are indices of a palette. */
struct png_picture {
    int64_t width, height;
    const uint8_t *pixels;       /* indices of the palette (height, width) */
    const uint8_t (*palette)[3]; /* 256 colours: red, green, blue */
};

/* Encodes the picture, and passes the file in pieces to `append`. Returns -1 with a message if memory is lacking. The
 * pieces that were passed before a failure are useless. The pointer png_write is NULL if the build lacks libpng. */
extern int (*const png_write)(const struct png_picture *picture,
                              void (*append)(void *context, const void *bytes, size_t length), void *context,
                              struct error *error);

#endif
