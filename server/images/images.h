/* images: converts a JPEG or PNG file in memory to the input of a model. The functions keep no state, so any thread may
 * call them.
 *
 * The result is the same as that of torchvision's transforms on PIL's Image.open(file).convert("RGB"). Alpha is
 * dropped, and grey and palettes are converted to RGB. The orientation in EXIF and bytes after the end of the picture
 * are ignored. Truncated files are refused, and so are damaged files, unless libjpeg only warns about the damage.
 * Pictures with 16 bits per channel, with CMYK, or with more than IMAGE_MAX_PIXELS pixels are also refused.
 *
 * Decoding takes about 10 ns per pixel, so it should run on a worker thread. Most files need little memory, because
 * rows are resized as they are decoded. Pictures of progressive JPEG and interlaced PNG are kept in memory as a whole,
 * with up to 6 bytes per pixel.
 *
 * The settings come from the model's config.json, or from image_settings_default(). */
#ifndef SERVER_IMAGES_IMAGES_H
#define SERVER_IMAGES_IMAGES_H

#include "config/config.h"
#include "server/images/no_memory.h"

#define IMAGE_MAX_PIXELS ((int64_t)64 << 20)

/* Sets *memory to the maximum number of bytes that image_read() allocates for the file. Reads only the header of the
 * file. Returns -1 with a message if the file is refused. */
int image_memory(const struct image_settings *settings, const void *bytes, size_t size, int64_t *memory,
                 struct error *error);

/* Writes the model's input to `pixels` (3, settings->height, settings->width), with the channels red, green, blue.
 * Returns -1 with a message if the file is refused, if it needs more than `most_memory` bytes, or if memory is lacking.
 * After a failure, `pixels` is undefined. */
int image_read(const struct image_settings *settings, const void *bytes, size_t size, int64_t most_memory,
               float *pixels, struct error *error);

#endif
