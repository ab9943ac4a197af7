/* resampler: resizes and crops a picture whose rows arrive one by one. As in Pillow, columns and rows are resized one
 * after the other, with values that are rounded to bytes in between. The resampler stores two rows of bytes,
 * and a row of sums for each row of the result. */
#ifndef SERVER_IMAGES_RESAMPLER_H
#define SERVER_IMAGES_RESAMPLER_H

#include "server/images/filter.h"

struct resampler {
    struct filter rows, columns;
    bool rows_first;  /* true if the rows are resized before the columns */
    int64_t width;    /* number of pixels in a row of sums: the width of the file if rows_first is true, otherwise
                         columns.size */
    int64_t next;     /* index of the next row of the file */
    int64_t active;   /* index of the first row of the result that may still change */
    uint8_t *row;     /* a row of sums, rounded to bytes (width, 3) */
    uint8_t *resized; /* a row with resized columns (columns.size, 3) */
    int32_t *sums;    /* the sums of each row of the result (rows.size, width, 3) */
};

/* Returns the maximum number of bytes that resampler_open() allocates. */
int64_t resampler_memory(enum image_resize resize, const struct geometry *geometry);

/* Prepares a resampler. After success the caller must call resampler_close(). After failure there is nothing to
 * free. */
int resampler_open(enum image_resize resize, const struct geometry *geometry, struct resampler *resampler,
                   struct error *error);
void resampler_close(struct resampler *resampler);

/* Processes the next row of the file, `row` (width, 3). */
void resampler_row(struct resampler *resampler, const uint8_t *row);

/* Call it after all rows. Writes `pixels` (3, rows.size, columns.size), scaled and normalised. */
void resampler_finish(struct resampler *resampler, const struct image_settings *settings, float *pixels);

#endif
