/* resampler: a row is resized along the columns when it comes, and then added to all rows of the result that it is part
 * of. Integers are added, so the order makes no difference. */
#include "server/images/resampler.h"

#include <stdlib.h>

int64_t resampler_memory(enum image_resize resize, const struct layout *layout)
{
    int64_t values = 3 * layout->columns.size;
    return filter_memory(resize, &layout->rows) + filter_memory(resize, &layout->columns) + values +
           values * layout->rows.size * (int64_t)sizeof(int32_t);
}

int resampler_open(enum image_resize resize, const struct layout *layout, struct resampler *resampler,
                   struct error *error)
{
    *resampler = (struct resampler){0};
    if (filter_open(resize, &layout->rows, &resampler->rows, error) != 0 ||
        filter_open(resize, &layout->columns, &resampler->columns, error) != 0)
        goto fail;
    size_t values = 3 * (size_t)layout->columns.size, sums = values * (size_t)layout->rows.size;
    resampler->row = malloc(values);
    resampler->sums = malloc(sums * sizeof *resampler->sums);
    if (!resampler->row || !resampler->sums) {
        error_set(error, "out of memory");
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
    free(resampler->sums);
    *resampler = (struct resampler){0};
}

/* `row` (width, 3) of the file becomes `resized` (columns->size, 3). */
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

void resampler_row(struct resampler *resampler, const uint8_t *row)
{
    const struct filter *rows = &resampler->rows;
    const struct filter_window *windows = rows->windows;
    int64_t y = resampler->next++, values = 3 * resampler->columns.size;
    while (resampler->active < rows->size && windows[resampler->active].first + windows[resampler->active].count <= y)
        resampler->active++;
    if (resampler->active == rows->size || windows[resampler->active].first > y)
        return; /* cropped */
    resize_row(&resampler->columns, row, resampler->row);
    for (int64_t i = resampler->active; i < rows->size && windows[i].first <= y; i++) {
        int32_t weight = rows->weights[i * rows->taps + y - windows[i].first];
        int32_t *sums = resampler->sums + i * values;
        for (int64_t v = 0; v < values; v++)
            sums[v] += weight * resampler->row[v];
    }
}

void resampler_finish(const struct resampler *resampler, const struct image_settings *settings, float *pixels)
{
    int64_t n = resampler->rows.size * resampler->columns.size;
    for (int64_t c = 0; c < 3; c++) {
        float values[256]; /* of each byte */
        for (int b = 0; b < 256; b++)
            values[b] = ((float)(b * settings->scale) - settings->mean[c]) / settings->std[c];
        for (int64_t i = 0; i < n; i++)
            pixels[c * n + i] = values[filter_byte(resampler->sums[3 * i + c])];
    }
}
