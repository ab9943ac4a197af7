/* image_settings: the key `image` of config.json. */
#include "config/image_settings.h"

#include <math.h>
#include <string.h>

#define MAX_EDGE 16384 /* limit for each edge that the file states. Its square fits in an int64_t */
#define DEFAULT_EDGE 224

/* Index: enum image_resize. */
static const char *const resize_names[] = {"none", "bilinear", "bicubic"};
_Static_assert(sizeof resize_names / sizeof *resize_names == IMAGE_RESIZE_COUNT, "a name for each kind");

static bool is_edge(const json_t *value)
{
    return json_is_integer(value) && json_integer_value(value) >= 1 && json_integer_value(value) <= MAX_EDGE;
}

static int read_edges(const json_t *value, int64_t *height, int64_t *width)
{
    if (is_edge(value)) {
        *height = json_integer_value(value);
        *width = 0;
        return 0;
    }
    if (json_array_size(value) != 2 || !is_edge(json_array_get(value, 0)) || !is_edge(json_array_get(value, 1)))
        return -1;
    *height = json_integer_value(json_array_get(value, 0));
    *width = json_integer_value(json_array_get(value, 1));
    return 0;
}

static int read_size(const json_t *value, struct image_settings *settings, struct error *error)
{
    if (read_edges(value, &settings->height, &settings->width) != 0)
        return text_expected(error, "[height, width] or one number for both, each from 1 to 16384", value);
    if (settings->width == 0)
        settings->width = settings->height;
    return 0;
}

static int read_resize(const json_t *value, struct image_settings *settings, struct error *error)
{
    for (int i = 0; i < IMAGE_RESIZE_COUNT && json_is_string(value); i++)
        if (strcmp(json_string_value(value), resize_names[i]) == 0) {
            settings->resize = (enum image_resize)i;
            return 0;
        }
    return text_expected(error, "none, bilinear or bicubic", value);
}

static int read_crop(const json_t *value, struct image_settings *settings, struct error *error)
{
    const char *name = json_is_string(value) ? json_string_value(value) : "";
    settings->crop = strcmp(name, "center") == 0;
    return settings->crop || strcmp(name, "none") == 0 ? 0 : text_expected(error, "center or none", value);
}

static int read_resize_size(const json_t *value, struct image_settings *settings, struct error *error)
{
    if (read_edges(value, &settings->resize_height, &settings->resize_width) != 0)
        return text_expected(error, "the shorter edge or [height, width], each from 1 to 16384", value);
    return 0;
}

/* Whether the value is a number that is finite as a float. */
static bool is_finite(const json_t *value)
{
    return json_is_number(value) && isfinite((float)json_number_value(value));
}

static int read_scale(const json_t *value, struct image_settings *settings, struct error *error)
{
    settings->scale = json_number_value(value);
    return is_finite(value) && settings->scale > 0 ? 0 : text_expected(error, "a number above 0", value);
}

static int read_channels(const json_t *value, float channels[3])
{
    if (json_array_size(value) != 3)
        return -1;
    for (size_t i = 0; i < 3; i++) {
        const json_t *channel = json_array_get(value, i);
        if (!is_finite(channel))
            return -1;
        channels[i] = (float)json_number_value(channel);
    }
    return 0;
}

static int read_mean(const json_t *value, struct image_settings *settings, struct error *error)
{
    return read_channels(value, settings->mean) == 0 ? 0 : text_expected(error, "a list of three numbers", value);
}

static int read_std(const json_t *value, struct image_settings *settings, struct error *error)
{
    const float *std = settings->std;
    if (read_channels(value, settings->std) != 0 || std[0] == 0 || std[1] == 0 || std[2] == 0)
        return text_expected(error, "a list of three numbers that are not 0", value);
    return 0;
}

static const struct {
    const char *name;
    int (*read)(const json_t *value, struct image_settings *settings, struct error *error);
} keys[] = {
    {"size", read_size}, {"resize", read_resize}, {"resize_size", read_resize_size},
    {"crop", read_crop}, {"scale", read_scale},   {"mean", read_mean},
    {"std", read_std},
};
#define N_KEYS (sizeof keys / sizeof *keys)

static int read_key(const char *name, const json_t *value, struct image_settings *settings, struct error *error)
{
    for (size_t i = 0; i < N_KEYS; i++)
        if (strcmp(name, keys[i].name) == 0)
            return keys[i].read(value, settings, error) == 0 ? 0 : error_prefix(error, "%s", name);
    char known[256] = "";
    for (size_t i = 0; i < N_KEYS; i++)
        text_list_add(known, sizeof known, keys[i].name);
    return error_set(error, "unknown key \"%.80s\"; the known ones are %s", name, known);
}

/* Computes the size of the resized picture from the other keys. `given` tells whether the file itself states this
 * size. */
static int choose_resize_size(bool given, struct image_settings *settings, struct error *error)
{
    if (given && settings->resize == IMAGE_RESIZE_NONE)
        return error_set(error, "resize_size: has no meaning, because \"resize\" is \"none\"");
    if (given && !settings->crop)
        return error_set(error, "resize_size: has no meaning, because \"crop\" is \"none\": the picture is resized to "
                                "\"size\"");
    if (given)
        return 0;
    settings->resize_height = image_settings_default(settings->height, settings->width).resize_height;
    settings->resize_width = 0;
    return 0;
}

/* Checks the model inputs that the bytes 0 and 255 become. All other bytes become numbers between these two. */
static int check_values(const struct image_settings *settings, struct error *error)
{
    for (int c = 0; c < 3; c++) {
        float white = (float)(255 * settings->scale);
        if (!isfinite((0 - settings->mean[c]) / settings->std[c]) ||
            !isfinite((white - settings->mean[c]) / settings->std[c]))
            return error_set(error, "scale, mean and std lead to values that are not finite");
    }
    return 0;
}

int image_settings_parse(json_t *value, struct image_settings *settings, struct error *error)
{
    if (!json_is_object(value))
        return text_expected(error, "an object", value);
    *settings = image_settings_default(DEFAULT_EDGE, DEFAULT_EDGE);
    const char *name;
    json_t *member;
    json_object_foreach (value, name, member) {
        if (read_key(name, member, settings, error) != 0)
            return -1;
    }
    if (choose_resize_size(json_object_get(value, "resize_size") != NULL, settings, error) != 0)
        return -1;
    return check_values(settings, error);
}

struct image_settings image_settings_default(int64_t height, int64_t width)
{
    int64_t larger = height > width ? height : width;
    return (struct image_settings){
        .height = height,
        .width = width,
        .resize = IMAGE_RESIZE_BILINEAR,
        .crop = true,
        .resize_height = (larger * 8 + 3) / 7, /* rounded. 224 becomes 256, and 299 becomes 342 */
        .scale = 1.0 / 255,
        .mean = {0.485F, 0.456F, 0.406F},
        .std = {0.229F, 0.224F, 0.225F},
    };
}
