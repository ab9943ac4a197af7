/* resampler: resizes and crops a picture whose rows come one by one, in two passes as Pillow does: first along the
 * columns, rounded to bytes, then along the rows. It holds one row, and a sum for each value of the result. */
#ifndef SERVER_IMAGES_RESAMPLER_H
#define SERVER_IMAGES_RESAMPLER_H

#include "server/images/filter.h"

struct resampler {
    struct filter rows, columns;
    int64_t next;   /* the row of the file that comes next */
    int64_t active; /* the first row of the result that is not complete */
    uint8_t *row;   /* (columns.size, 3) */
    int32_t *sums;  /* (rows.size, columns.size, 3) */
};

/* Bytes of memory that resampler_open() takes at most. */
int64_t resampler_memory(enum image_resize resize, const struct layout *layout);

/* After success resampler_close() is owed, after failure nothing. */
int resampler_open(enum image_resize resize, const struct layout *layout, struct resampler *resampler,
                   struct error *error);
void resampler_close(struct resampler *resampler);

/* The next row of the file: `row` (width, 3). */
void resampler_row(struct resampler *resampler, const uint8_t *row);

/* When all rows are there: `pixels` (3, rows.size, columns.size), scaled and normalised. */
void resampler_finish(const struct resampler *resampler, const struct image_settings *settings, float *pixels);

#endif
