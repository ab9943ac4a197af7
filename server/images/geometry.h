/* geometry: which pixels of the resized picture become the model's input. */
#ifndef SERVER_IMAGES_GEOMETRY_H
#define SERVER_IMAGES_GEOMETRY_H

#include "config/config.h"

/* One axis of the picture, in pixels. Position i of the input is position offset + i of the resized picture. Positions
 * outside of the resized picture are black. */
struct geometry_axis {
    int64_t original; /* of the file */
    int64_t resized;
    int64_t offset; /* below 0: the input begins before the resized picture */
    int64_t size;   /* of the input */
};

struct geometry {
    struct geometry_axis rows, columns;
};

/* -1: without resizing and cropping, the picture must have the input's size. */
int geometry_find(const struct image_settings *settings, int64_t height, int64_t width, struct geometry *geometry,
                  struct error *error);

#endif
