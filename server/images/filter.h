/* filter: the weights for resizing one axis of a picture. The arithmetic is Pillow's, in fixed point. In this header,
 * "the file" is the picture in the file, and "the input" is the model's input. */
#ifndef SERVER_IMAGES_FILTER_H
#define SERVER_IMAGES_FILTER_H

#include "server/images/geometry.h"

#define FILTER_BITS 22 /* number of bits of a weight after the binary point, as in Pillow for 8 bits per channel */

/* The positions of the file from which one position of the input is computed: from `first` to before `first + count`.
 * From one position of the input to the next, `first` and `first + count` never decrease. The count of a black position
 * is 0. */
struct filter_window {
    int64_t first, count;
};

struct filter {
    int64_t size;                  /* number of positions of the input */
    int64_t taps;                  /* upper limit for the count of a window */
    struct filter_window *windows; /* `size` windows, one for each position of the input */
    int32_t *weights;              /* (size, taps): the weights of each window, which add up to nearly 1 */
};

/* Returns the maximum number of bytes that filter_open() allocates. */
int64_t filter_memory(enum image_resize resize, const struct geometry_axis *axis);

/* Computes the windows and their weights. After success the caller must call filter_close(). After failure there is
 * nothing to free. */
int filter_open(enum image_resize resize, const struct geometry_axis *axis, struct filter *filter, struct error *error);
void filter_close(struct filter *filter); /* may be called for a zeroed struct */

/* The function below converts a sum of bytes times weights to a byte. Such a sum must begin with FILTER_HALF, so that
 * it is rounded. */
#define FILTER_HALF ((int32_t)1 << (FILTER_BITS - 1))

static inline uint8_t filter_byte(int32_t sum)
{
    int32_t value = sum >> FILTER_BITS;
    return (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
}

#endif
