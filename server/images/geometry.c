/* geometry: computes the same sizes and offsets as resize and center_crop in torchvision.transforms.functional. */
#include "server/images/geometry.h"

/* The new length of the longer edge if the shorter edge is resized to `resized`. The quotient is rounded down, as by
 * Python's int(a * b / c). */
static int64_t scale_edge(int64_t resized, int64_t longer, int64_t shorter)
{
    return (int64_t)((double)(resized * longer) / (double)shorter);
}

static void resize_axes(const struct image_settings *settings, struct geometry_axis *rows,
                        struct geometry_axis *columns)
{
    rows->resized = rows->original;
    columns->resized = columns->original;
    if (settings->resize == IMAGE_RESIZE_NONE)
        return;
    if (!settings->crop) {
        rows->resized = settings->height;
        columns->resized = settings->width;
    } else if (settings->resize_width > 0) {
        rows->resized = settings->resize_height;
        columns->resized = settings->resize_width;
    } else if (columns->original <= rows->original) {
        columns->resized = settings->resize_height;
        rows->resized = scale_edge(columns->resized, rows->original, columns->original);
    } else {
        rows->resized = settings->resize_height;
        columns->resized = scale_edge(rows->resized, columns->original, rows->original);
    }
}

/* The offset of the centred input in the resized picture. If the picture is larger, the offset is int(round(rest /
 * 2.0)) as in Python, which rounds a half to the even number. If the picture is smaller, the number of added pixels
 * before it is rounded down. */
static int64_t center_offset(int64_t resized, int64_t size)
{
    int64_t rest = resized - size;
    if (rest < 0)
        return -(-rest / 2);
    return rest % 2 == 0 ? rest / 2 : rest / 2 + rest / 2 % 2;
}

int geometry_find(const struct image_settings *settings, int64_t height, int64_t width, struct geometry *geometry,
                  struct error *error)
{
    struct geometry_axis rows = {.original = height, .size = settings->height};
    struct geometry_axis columns = {.original = width, .size = settings->width};
    resize_axes(settings, &rows, &columns);
    if (!settings->crop && (rows.resized != rows.size || columns.resized != columns.size))
        return error_set(error,
                         "the image has %lld x %lld pixels (width x height), expected %lld x %lld: the model's "
                         "config.json neither resizes nor crops",
                         (long long)width, (long long)height, (long long)columns.size, (long long)rows.size);
    rows.offset = center_offset(rows.resized, rows.size);
    columns.offset = center_offset(columns.resized, columns.size);
    *geometry = (struct geometry){.rows = rows, .columns = columns};
    return 0;
}
