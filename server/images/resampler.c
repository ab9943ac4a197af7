/* resampler: each row of the file is multiplied by weights, and added to all rows of the result that depend on it. The
 * sums are integers, so the order of the additions does not matter. */
#include "server/images/resampler.h"
#include "server/images/no_memory.h"

#include <stdlib.h>

/* Whether the rows are resized first. Pillow 13 resizes the rows first if this removes more than twice as many rows as
 * resizing the columns removes columns. Earlier versions always resize the columns first, and some bytes of their
 * results differ by 1. */
static bool begins_with_rows(const struct geometry *geometry)
{
    int64_t fewer_rows = geometry->rows.original - geometry->rows.resized;
    return fewer_rows > 0 && fewer_rows > 2 * (geometry->columns.original - geometry->columns.resized);
}

static int64_t width_of_sums(const struct geometry *geometry)
{
    return begins_with_rows(geometry) ? geometry->columns.original : geometry->columns.size;
}

int64_t resampler_memory(enum image_resize resize, const struct geometry *geometry)
{
    int64_t values = 3 * width_of_sums(geometry);
    return filter_memory(resize, &geometry->rows) + filter_memory(resize, &geometry->columns) + values +
           3 * geometry->columns.size + values * geometry->rows.size * (int64_t)sizeof(int32_t);
}

int resampler_open(enum image_resize resize, const struct geometry *geometry, struct resampler *resampler,
                   struct error *error)
{
    *resampler = (struct resampler){.rows_first = begins_with_rows(geometry), .width = width_of_sums(geometry)};
    if (filter_open(resize, &geometry->rows, &resampler->rows, error) != 0 ||
        filter_open(resize, &geometry->columns, &resampler->columns, error) != 0)
        goto fail;
    size_t values = 3 * (size_t)resampler->width, sums = values * (size_t)geometry->rows.size;
    resampler->row = malloc(values);
    resampler->resized = malloc(3 * (size_t)geometry->columns.size);
    resampler->sums = malloc(sums * sizeof *resampler->sums);
    if (!resampler->row || !resampler->resized || !resampler->sums) {
        image_set_no_memory(error);
        goto fail;
    }
    for (size_t i = 0; i < sums; i++)
        resampler->sums[i] = FILTER_HALF;
    return 0;

fail:
    resampler_close(resampler);
    return -1;
}

void resampler_close(struct resampler *resampler)
{
    filter_close(&resampler->rows);
    filter_close(&resampler->columns);
    free(resampler->row);
    free(resampler->resized);
    free(resampler->sums);
    *resampler = (struct resampler){0};
}

/* Resizes `row` (width, 3) of the file to `resized` (columns->size, 3). */
static void resize_row(const struct filter *columns, const uint8_t *row, uint8_t *resized)
{
    for (int64_t x = 0; x < columns->size; x++) {
        struct filter_window window = columns->windows[x];
        const uint8_t *pixel = row + 3 * window.first;
        const int32_t *weights = columns->weights + x * columns->taps;
        int32_t red = FILTER_HALF, green = FILTER_HALF, blue = FILTER_HALF;
        for (int64_t i = 0; i < window.count; i++) {
            red += weights[i] * pixel[3 * i];
            green += weights[i] * pixel[3 * i + 1];
            blue += weights[i] * pixel[3 * i + 2];
        }
        resized[3 * x] = filter_byte(red);
        resized[3 * x + 1] = filter_byte(green);
        resized[3 * x + 2] = filter_byte(blue);
    }
}

/* Adds the weighted values of a row (width, 3) to all rows of the result that depend on it. `y` is the index of the
 * row. */
static void add_row(struct resampler *resampler, int64_t y, const uint8_t *row)
{
    const struct filter *rows = &resampler->rows;
    int64_t values = 3 * resampler->width;
    for (int64_t i = resampler->active; i < rows->size && rows->windows[i].first <= y; i++) {
        int32_t weight = rows->weights[i * rows->taps + y - rows->windows[i].first];
        int32_t *sums = resampler->sums + i * values;
        for (int64_t v = 0; v < values; v++)
            sums[v] += weight * row[v];
    }
}

void resampler_row(struct resampler *resampler, const uint8_t *row)
{
    const struct filter_window *windows = resampler->rows.windows;
    int64_t y = resampler->next++, *active = &resampler->active;
    while (*active < resampler->rows.size && windows[*active].first + windows[*active].count <= y)
        (*active)++;
    if (*active == resampler->rows.size || windows[*active].first > y)
        return; /* the row is outside the crop */
    if (!resampler->rows_first) {
        resize_row(&resampler->columns, row, resampler->resized);
        row = resampler->resized;
    }
    add_row(resampler, y, row);
}

/* Returns row y of the result, with the shape (columns.size, 3). */
static const uint8_t *finish_row(struct resampler *resampler, int64_t y)
{
    const int32_t *sums = resampler->sums + y * 3 * resampler->width;
    for (int64_t v = 0; v < 3 * resampler->width; v++)
        resampler->row[v] = filter_byte(sums[v]);
    if (!resampler->rows_first)
        return resampler->row;
    resize_row(&resampler->columns, resampler->row, resampler->resized);
    return resampler->resized;
}

void resampler_finish(struct resampler *resampler, const struct image_settings *settings, float *pixels)
{
    int64_t height = resampler->rows.size, width = resampler->columns.size;
    float values[3][256]; /* the normalised value of each byte, for each channel */
    for (int c = 0; c < 3; c++)
        for (int b = 0; b < 256; b++)
            values[c][b] = ((float)(b * settings->scale) - settings->mean[c]) / settings->std[c];
    for (int64_t y = 0; y < height; y++) {
        const uint8_t *row = finish_row(resampler, y);
        for (int64_t c = 0; c < 3; c++)
            for (int64_t x = 0; x < width; x++)
                pixels[(c * height + y) * width + x] = values[c][row[3 * x + c]];
    }
}
