/* png_writer: encodes PNG with libpng. After an error, longjmp() returns to the function in this file that called
 * libpng. */
#include "server/images/png_writer.h"

#include "server/images/no_memory.h"

#include <png.h>

struct png_output {
    void (*append)(void *context, const void *bytes, size_t length);
    void *context;
};

static void leave(png_structp encoder, png_const_charp reason)
{
    (void)reason;
    png_longjmp(encoder, 1);
}

static void hear_warning(png_structp encoder, png_const_charp warning)
{
    (void)encoder, (void)warning;
}

static void append_bytes(png_structp encoder, png_bytep bytes, size_t length)
{
    const struct png_output *output = png_get_io_ptr(encoder);
    output->append(output->context, bytes, length);
}

static void flush_nothing(png_structp encoder)
{
    (void)encoder;
}

static void write_rows(png_structp encoder, png_infop info, const struct png_picture *picture)
{
    png_color colours[256];
    for (int i = 0; i < 256; i++)
        colours[i] = (png_color){picture->palette[i][0], picture->palette[i][1], picture->palette[i][2]};
    /* No filter, because differences between indices of colours compress no better. */
    png_set_filter(encoder, PNG_FILTER_TYPE_BASE, PNG_FILTER_NONE);
    png_set_compression_level(encoder, 4);
    png_set_IHDR(encoder, info, (png_uint_32)picture->width, (png_uint_32)picture->height, 8, PNG_COLOR_TYPE_PALETTE,
                 PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    png_set_PLTE(encoder, info, colours, 256);
    png_write_info(encoder, info);
    for (int64_t y = 0; y < picture->height; y++)
        png_write_row(encoder, picture->pixels + y * picture->width);
    png_write_end(encoder, info);
}

static int write_picture(const struct png_picture *picture,
                         void (*append)(void *context, const void *bytes, size_t length), void *context,
                         struct error *error)
{
    struct png_output output = {append, context};
    png_structp encoder = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, leave, hear_warning);
    png_infop info = encoder ? png_create_info_struct(encoder) : NULL;
    if (!info || setjmp(png_jmpbuf(encoder)) != 0) {
        png_destroy_write_struct(&encoder, &info);
        return image_set_no_memory(error);
    }
    png_set_write_fn(encoder, &output, append_bytes, flush_nothing);
    write_rows(encoder, info, picture);
    png_destroy_write_struct(&encoder, &info);
    return 0;
}

int (*const png_write)(const struct png_picture *picture,
                       void (*append)(void *context, const void *bytes, size_t length), void *context,
                       struct error *error) = write_picture;
