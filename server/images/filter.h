/* filter: the weights for resizing one axis of a picture. The arithmetic is Pillow's, in fixed point. "The file" is the
 * picture in the file, and "the input" is the model's input. */
#ifndef SERVER_IMAGES_FILTER_H
#define SERVER_IMAGES_FILTER_H

#include "server/images/geometry.h"

#define FILTER_BITS 22 /* bits of a weight after the point, as in Pillow for 8 bits per channel */

/* The positions of the file from which one position of the input is computed: [first, first + count). From one position
 * of the input to the next, first and first + count never decrease. A black position has a count of 0. */
struct filter_window {
    int64_t first, count;
};

struct filter {
    int64_t size;                  /* positions of the input */
    int64_t taps;                  /* largest count of a window */
    struct filter_window *windows; /* (size) */
    int32_t *weights;              /* (size, taps). The weights of a window add up to nearly 1 */
};

/* The most bytes of memory that filter_open() allocates. */
int64_t filter_memory(enum image_resize resize, const struct geometry_axis *axis);

/* After success the caller must call filter_close(). After failure there is nothing to free. */
int filter_open(enum image_resize resize, const struct geometry_axis *axis, struct filter *filter, struct error *error);
void filter_close(struct filter *filter); /* harmless on a zeroed struct */

/* Converts a sum of bytes times weights to a byte. The sum must have started with FILTER_HALF, for rounding. */
#define FILTER_HALF ((int32_t)1 << (FILTER_BITS - 1))

static inline uint8_t filter_byte(int32_t sum)
{
    int32_t value = sum >> FILTER_BITS;
    return (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
}

#endif
