/* filter: computes the weights like precompute_coeffs() and normalize_coeffs_8bpc() in Pillow's Resample.c. The
 * operations have the same order, so that the weights have the same bits. */
#include "server/images/filter.h"
#include "server/images/no_memory.h"

#include <math.h>
#include <stdlib.h>

static double bilinear(double x)
{
    x = fabs(x);
    return x < 1.0 ? 1.0 - x : 0.0;
}

/* Keys' cubic convolution with a = -0.5. */
static double bicubic(double x)
{
    const double a = -0.5;
    x = fabs(x);
    if (x < 1.0)
        return ((a + 2.0) * x - (a + 3.0)) * x * x + 1;
    if (x < 2.0)
        return (((x - 5) * x + 8) * x - 4) * a;
    return 0.0;
}

/* Indexed by enum image_resize. For a picture that keeps its size, each function gives one weight of 1. */
static const struct {
    double (*weight)(double distance);
    double support; /* half the width of the function, in positions of the smaller one of the file's picture and the
                       resized picture */
} kinds[IMAGE_RESIZE_COUNT] = {
    [IMAGE_RESIZE_NONE] = {bilinear, 1.0},
    [IMAGE_RESIZE_BILINEAR] = {bilinear, 1.0},
    [IMAGE_RESIZE_BICUBIC] = {bicubic, 2.0},
};

/* The ratio of positions in the file to positions in the resized picture. */
static double scale_of(const struct geometry_axis *axis)
{
    return (double)axis->original / (double)axis->resized;
}

/* Half the width of the function, in positions of the file. It is the support if the picture becomes larger. It is
 * larger than the support if the picture becomes smaller, so that the result is antialiased. */
static double reach_of(enum image_resize resize, const struct geometry_axis *axis)
{
    return kinds[resize].support * fmax(scale_of(axis), 1.0);
}

static int64_t taps_of(enum image_resize resize, const struct geometry_axis *axis)
{
    return (int64_t)ceil(reach_of(resize, axis)) * 2 + 1;
}

int64_t filter_memory(enum image_resize resize, const struct geometry_axis *axis)
{
    int64_t taps = taps_of(resize, axis);
    return axis->size * (int64_t)sizeof(struct filter_window) + axis->size * taps * (int64_t)sizeof(int32_t) +
           taps * (int64_t)sizeof(double);
}

static struct filter_window find_window(enum image_resize resize, const struct geometry_axis *axis, int64_t position)
{
    if (position < 0)
        return (struct filter_window){0, 0};
    if (position >= axis->resized)
        return (struct filter_window){axis->original, 0};
    double center = ((double)position + 0.5) * scale_of(axis), reach = reach_of(resize, axis);
    int64_t first = (int64_t)(center - reach + 0.5), end = (int64_t)(center + reach + 0.5);
    first = first < 0 ? 0 : first;
    end = end > axis->original ? axis->original : end;
    return (struct filter_window){first, end - first};
}

/* Computes the weights of one window. `exact` is memory for the weights before rounding. */
static void weigh_window(enum image_resize resize, const struct geometry_axis *axis, int64_t position,
                         struct filter_window window, double *exact, int32_t *weights)
{
    double scale = scale_of(axis), center = ((double)position + 0.5) * scale, inverse = 1.0 / fmax(scale, 1.0), sum = 0;
    for (int64_t i = 0; i < window.count; i++) {
        exact[i] = kinds[resize].weight(((double)(i + window.first) - center + 0.5) * inverse);
        sum += exact[i];
    }
    for (int64_t i = 0; i < window.count; i++) {
        double weight = sum != 0 ? exact[i] / sum : exact[i];
        weights[i] = (int32_t)(weight * (1 << FILTER_BITS) + (weight < 0 ? -0.5 : 0.5));
    }
}

int filter_open(enum image_resize resize, const struct geometry_axis *axis, struct filter *filter, struct error *error)
{
    int64_t taps = taps_of(resize, axis);
    *filter = (struct filter){.size = axis->size, .taps = taps};
    filter->windows = malloc((size_t)axis->size * sizeof *filter->windows);
    filter->weights = calloc((size_t)axis->size, (size_t)taps * sizeof *filter->weights);
    double *exact = malloc((size_t)taps * sizeof *exact);
    if (!filter->windows || !filter->weights || !exact) {
        free(exact);
        filter_close(filter);
        return image_set_no_memory(error);
    }
    for (int64_t i = 0; i < axis->size; i++) {
        filter->windows[i] = find_window(resize, axis, axis->offset + i);
        weigh_window(resize, axis, axis->offset + i, filter->windows[i], exact, filter->weights + i * taps);
    }
    free(exact);
    return 0;
}

void filter_close(struct filter *filter)
{
    free(filter->windows);
    free(filter->weights);
    *filter = (struct filter){0};
}
