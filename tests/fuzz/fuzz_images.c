/* Fuzz target: any bytes, read as a JPEG or PNG file. An accepted picture must have finite values. A refusal must give
 * a reason. image_read must refuse a picture for which image_memory computes more than MAX_MEMORY bytes. For any other
 * picture, the memory that image_memory computes must be enough. The number of bytes of the input chooses the
 * settings. */
#include "server/images/format.h"
#include "server/images/images.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define EDGE 9
#define MAX_MEMORY ((int64_t)8 << 20)
#define MAX_PIXELS ((int64_t)1 << 20) /* maximum number of pixels. Larger pictures would only take longer */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
    if (!holds)
        abort();
}

static struct image_settings settings_for(size_t size)
{
    struct image_settings settings = image_settings_default(EDGE, EDGE + 2);
    settings.resize = (enum image_resize)(size % IMAGE_RESIZE_COUNT);
    settings.crop = settings.resize == IMAGE_RESIZE_NONE || size % 2 == 0;
    if (size % 5 == 0)
        settings.resize_width = EDGE;
    return settings;
}

/* Whether the file has a valid header, and at most MAX_PIXELS pixels. */
static bool is_small(const struct image_format *format, const uint8_t *data, size_t size)
{
    struct image_source *source;
    struct error error = {""};
    if (format->open(data, size, &source, &error) != 0) {
        require(error.message[0] != '\0');
        return false;
    }
    require(source->height >= 1 && source->width >= 1 && source->memory > 0);
    bool small = source->width <= MAX_PIXELS / source->height;
    format->close(source);
    return small;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct image_settings settings = settings_for(size);
    struct error error = {""};
    float pixels[3 * EDGE * (EDGE + 2)];
    int64_t memory;
    if (!is_small(&format_jpeg, data, size) && !is_small(&format_png, data, size)) {
        image_memory(&settings, data, size, &memory, &error);
        return 0;
    }
    if (image_memory(&settings, data, size, &memory, &error) != 0) {
        require(error.message[0] != '\0');
        return 0;
    }
    int64_t most = memory < MAX_MEMORY ? memory : MAX_MEMORY;
    if (image_read(&settings, data, size, most, pixels, &error) != 0) {
        require(error.message[0] != '\0');
        require(memory > MAX_MEMORY || !strstr(error.message, "bytes of memory"));
        return 0;
    }
    require(memory <= MAX_MEMORY && error.message[0] == '\0');
    for (size_t i = 0; i < sizeof pixels / sizeof *pixels; i++)
        require(isfinite(pixels[i]));
    return 0;
}
