/* images: a JPEG or PNG file in memory becomes the input of a model. Any thread; no state between calls.
 *
 * The result is that of torchvision's transforms on PIL's Image.open(file).convert("RGB"). Alpha is dropped, grey and
 * palettes become RGB, the orientation in EXIF is ignored. Bytes after the end of the picture are ignored, too.
 * Refused are truncated and damaged files, 16 bits a channel, CMYK, and more than IMAGE_MOST_PIXELS.
 *
 * Decoding takes some 10 ns a pixel, so it belongs on a worker. Memory stays small for most files, because rows are
 * resized as they are decoded. Progressive JPEG and interlaced PNG are held as a whole: up to 6 bytes a pixel.
 *
 * The settings are those of a model's config.json, or image_settings_default(). */
#ifndef SERVER_IMAGES_IMAGES_H
#define SERVER_IMAGES_IMAGES_H

#include "config/config.h"

#define IMAGE_MOST_PIXELS ((int64_t)64 << 20)

/* From the file's header alone: the bytes of memory that image_read() takes at most, beside its arguments. -1: the file
 * is refused. The error says why. */
int image_memory(const struct image_settings *settings, const void *bytes, size_t size, int64_t *memory,
                 struct error *error);

/* Writes the model's input: `pixels` (3, settings->height, settings->width), red, green, blue. -1: the file is refused,
 * or needs more than `most_memory` bytes, or there is no memory. The error says why; `pixels` is undefined. */
int image_read(const struct image_settings *settings, const void *bytes, size_t size, int64_t most_memory,
               float *pixels, struct error *error);

#endif
