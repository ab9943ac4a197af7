/* filter: the weights with which one axis of a picture is resized. Pillow's arithmetic, in fixed point. */
#ifndef SERVER_IMAGES_FILTER_H
#define SERVER_IMAGES_FILTER_H

#include "server/images/geometry.h"

#define FILTER_BITS 22 /* of a weight after the point, as in Pillow for 8 bits a channel */

/* The positions of the file that one position of the input is made of: [first, first + count). In order of the input's
 * positions, first and first + count never go down. A black position has a count of 0. */
struct filter_window {
    int64_t first, count;
};

struct filter {
    int64_t size;                  /* of the input */
    int64_t taps;                  /* of a window at most */
    struct filter_window *windows; /* (size) */
    int32_t *weights;              /* (size, taps); those of a window add up to nearly 1 */
};

/* Bytes of memory that filter_open() takes at most. */
int64_t filter_memory(enum image_resize resize, const struct geometry_axis *axis);

/* After success filter_close() is owed, after failure nothing. */
int filter_open(enum image_resize resize, const struct geometry_axis *axis, struct filter *filter, struct error *error);
void filter_close(struct filter *filter); /* harmless on a zeroed struct */

/* The byte of a sum of bytes times weights, which began with FILTER_HALF. */
#define FILTER_HALF ((int32_t)1 << (FILTER_BITS - 1))

static inline uint8_t filter_byte(int32_t sum)
{
    int32_t value = sum >> FILTER_BITS;
    return (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
}

#endif
