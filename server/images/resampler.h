/* resampler: resizes and crops a picture whose rows come one by one. As in Pillow there are two passes, with values
 * rounded to bytes between them. It holds a row, and a sum for each value of the rows of the result. */
#ifndef SERVER_IMAGES_RESAMPLER_H
#define SERVER_IMAGES_RESAMPLER_H

#include "server/images/filter.h"

struct resampler {
    struct filter rows, columns;
    bool rows_first;  /* the rows are added up before the columns are resized */
    int64_t width;    /* of a row of sums: that of the file if rows_first, else columns.size */
    int64_t next;     /* the row of the file that comes next */
    int64_t active;   /* the first row of the result that is not complete */
    uint8_t *row;     /* (width, 3) */
    uint8_t *resized; /* (columns.size, 3) */
    int32_t *sums;    /* (rows.size, width, 3) */
};

/* Bytes of memory that resampler_open() takes at most. */
int64_t resampler_memory(enum image_resize resize, const struct geometry *geometry);

/* After success resampler_close() is owed, after failure nothing. */
int resampler_open(enum image_resize resize, const struct geometry *geometry, struct resampler *resampler,
                   struct error *error);
void resampler_close(struct resampler *resampler);

/* The next row of the file: `row` (width, 3). */
void resampler_row(struct resampler *resampler, const uint8_t *row);

/* When all rows are there: `pixels` (3, rows.size, columns.size), scaled and normalised. */
void resampler_finish(struct resampler *resampler, const struct image_settings *settings, float *pixels);

#endif
