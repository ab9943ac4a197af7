/* geometry: computes which pixels of the resized picture become the model's input. */
#ifndef SERVER_IMAGES_GEOMETRY_H
#define SERVER_IMAGES_GEOMETRY_H

#include "config/config.h"

/* One axis of the picture, in pixels. Position i of the input is position offset + i of the resized picture. Positions
 * outside the resized picture are black. */
struct geometry_axis {
    int64_t original; /* size of the picture in the file */
    int64_t resized;
    int64_t offset; /* offset of the input in the resized picture. Negative if the input begins before it */
    int64_t size;   /* size of the model's input */
};

struct geometry {
    struct geometry_axis rows, columns;
};

/* Computes the geometry of both axes. Returns -1 if the settings neither resize nor crop, and the picture does not have
 * the size of the input. */
int geometry_find(const struct image_settings *settings, int64_t height, int64_t width, struct geometry *geometry,
                  struct error *error);

#endif
