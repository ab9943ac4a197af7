/* images: recognises the format of a file, checks the limits, and connects the format with the resampler. */
#include "server/images/images.h"
#include "server/images/format.h"

#include <assert.h>
#include <string.h>

/* The first bytes of a file, for each format. */
static const struct {
    const char *signature;
    const struct image_format *format;
} formats[] = {
    {"\xff\xd8\xff", &format_jpeg},
    {"\x89PNG\r\n\x1a\n", &format_png},
};
#define N_FORMATS (sizeof formats / sizeof *formats)

static const struct image_format *find_format(const void *bytes, size_t size)
{
    for (size_t i = 0; i < N_FORMATS; i++) {
        size_t length = strlen(formats[i].signature);
        if (size >= length && memcmp(bytes, formats[i].signature, length) == 0)
            return formats[i].format;
    }
    return NULL;
}

/* An opened file, and the geometry for its rows. */
struct opened {
    const struct image_format *format;
    struct image_source *source;
    struct geometry geometry;
    int64_t memory;
};

/* Recognises the format, and reads the header. Allocates no memory for pixels. After success the caller must call
 * format->close(). After failure there is nothing to free. */
static int open_image(const struct image_settings *settings, const void *bytes, size_t size, struct opened *opened,
                      struct error *error)
{
    assert(settings->height >= 1 && settings->width >= 1);
    opened->format = find_format(bytes, size);
    if (!opened->format)
        return error_set(error, "the image is neither JPEG nor PNG");
    if (opened->format->open(bytes, size, &opened->source, error) != 0)
        return -1;
    const struct image_source *source = opened->source;
    if (source->width > IMAGE_MAX_PIXELS / source->height) {
        error_set(error, "the image has %lld x %lld pixels (width x height); at most %lld are supported",
                  (long long)source->width, (long long)source->height, (long long)IMAGE_MAX_PIXELS);
        goto fail;
    }
    if (geometry_find(settings, source->height, source->width, &opened->geometry, error) != 0)
        goto fail;
    opened->memory = source->memory + resampler_memory(settings->resize, &opened->geometry);
    return 0;

fail:
    opened->format->close(opened->source);
    return -1;
}

static int read_rows(const struct image_settings *settings, const struct opened *opened, float *pixels,
                     struct error *error)
{
    struct resampler resampler;
    if (resampler_open(settings->resize, &opened->geometry, &resampler, error) != 0)
        return -1;
    int result = opened->format->read(opened->source, &resampler, error);
    if (result == 0)
        resampler_finish(&resampler, settings, pixels);
    resampler_close(&resampler);
    return result;
}

int image_memory(const struct image_settings *settings, const void *bytes, size_t size, int64_t *memory,
                 struct error *error)
{
    struct opened opened;
    if (open_image(settings, bytes, size, &opened, error) != 0)
        return -1;
    *memory = opened.memory;
    opened.format->close(opened.source);
    return 0;
}

int image_read(const struct image_settings *settings, const void *bytes, size_t size, int64_t most_memory,
               float *pixels, struct error *error)
{
    struct opened opened;
    if (open_image(settings, bytes, size, &opened, error) != 0)
        return -1;
    int result = opened.memory <= most_memory
                     ? read_rows(settings, &opened, pixels, error)
                     : error_set(error, "the image needs %lld bytes of memory; at most %lld are available",
                                 (long long)opened.memory, (long long)most_memory);
    opened.format->close(opened.source);
    return result;
}
