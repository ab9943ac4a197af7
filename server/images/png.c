/* png: decodes PNG with libpng and its conversions to RGB. Chunks that do not change the pixels are skipped without
 * interpreting them. A wrong checksum is an error in every chunk. After an error, longjmp() returns to the function
 * in this file that called libpng. */
#include "server/images/format.h"
#include "server/images/no_memory.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <png.h>

/* The memory of libpng and zlib: at most MEMORY_PER_COLUMN bytes for each pixel of the width, plus MEMORY_FIXED bytes.
 * libpng needs rows of up to four bytes per pixel, before and after each conversion. zlib needs the window of
 * inflate. */
#define MEMORY_PER_COLUMN 32
#define MEMORY_FIXED ((int64_t)128 << 10)

struct png_source {
    struct image_source source; /* must be the first member */
    png_structp decoder;
    png_infop info;
    const uint8_t *next; /* points to the `left` bytes of the file that were not read yet */
    size_t left;
    int64_t held;       /* number of rows in memory: 1, or all if the file is interlaced */
    uint8_t *rows;      /* (held, width, 3): the rows in memory */
    png_colorp palette; /* the file's palette (colours). NULL if libpng converts the rows to RGB */
    int colours;
    struct error *error; /* receives the error of the current call */
};

static void leave(png_structp decoder, png_const_charp reason)
{
    struct png_source *png = png_get_error_ptr(decoder);
    if (strstr(reason, "memory"))
        image_set_no_memory(png->error);
    else
        error_set(png->error, "the PNG image cannot be read: %s", reason);
    png_longjmp(decoder, 1);
}

static void hear_warning(png_structp decoder, png_const_charp warning)
{
    (void)decoder, (void)warning;
}

static void next_bytes(png_structp decoder, png_bytep bytes, size_t length)
{
    struct png_source *png = png_get_io_ptr(decoder);
    if (length > png->left)
        png_error(decoder, "it ends too early");
    memcpy(bytes, png->next, length);
    png->next += length;
    png->left -= length;
}

static void png_source_close(struct image_source *source)
{
    struct png_source *png = (struct png_source *)source;
    png_destroy_read_struct(&png->decoder, &png->info, NULL);
    free(png->rows);
    free(png);
}

static void set_limits(png_structp decoder)
{
    /* No limit here, because images.c checks the size. */
    png_set_user_limits(decoder, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
    png_set_crc_action(decoder, PNG_CRC_ERROR_QUIT, PNG_CRC_ERROR_QUIT);
    /* Ignore all chunks except IHDR, PLTE, tRNS, IDAT and IEND. */
    png_set_keep_unknown_chunks(decoder, PNG_HANDLE_CHUNK_NEVER, NULL, -1);
    png_set_keep_unknown_chunks(decoder, PNG_HANDLE_CHUNK_NEVER, (png_const_bytep) "tRNS", 1);
}

static void read_header(struct png_source *png)
{
    png_structp decoder = png->decoder;
    png_read_info(decoder, png->info);
    if (png_get_bit_depth(decoder, png->info) > 8)
        png_error(decoder, "it has 16 bits per channel, expected at most 8");
    struct image_source *source = &png->source;
    source->height = png_get_image_height(decoder, png->info);
    source->width = png_get_image_width(decoder, png->info);
    png->held = png_get_interlace_type(decoder, png->info) == PNG_INTERLACE_NONE ? 1 : source->height;
    source->memory =
        (int64_t)sizeof *png + MEMORY_FIXED + source->width * MEMORY_PER_COLUMN + png->held * source->width * 3;
}

static int png_source_open(const uint8_t *bytes, size_t size, struct image_source **source, struct error *error)
{
    struct png_source *png = calloc(1, sizeof *png);
    if (!png)
        return image_set_no_memory(error);
    png->next = bytes;
    png->left = size;
    png->error = error;
    png->decoder = png_create_read_struct(PNG_LIBPNG_VER_STRING, png, leave, hear_warning);
    if (png->decoder)
        png->info = png_create_info_struct(png->decoder);
    if (!png->info) {
        png_source_close(&png->source);
        return image_set_no_memory(error);
    }
    if (setjmp(png_jmpbuf(png->decoder)) != 0) {
        png_source_close(&png->source);
        return -1;
    }
    png_set_read_fn(png->decoder, png, next_bytes);
    set_limits(png->decoder);
    read_header(png);
    *source = &png->source;
    return 0;
}

/* Makes libpng convert each row to (width, 3) bytes, or to (width) indices of the palette. Returns the number of passes
 * over the picture. */
static int begin_rows(struct png_source *png)
{
    png_structp decoder = png->decoder;
    bool indices = png_get_PLTE(decoder, png->info, &png->palette, &png->colours) != 0 &&
                   png_get_color_type(decoder, png->info) == PNG_COLOR_TYPE_PALETTE;
    if (indices) {
        png_set_packing(decoder);
    } else {
        png->palette = NULL;
        png_set_expand_gray_1_2_4_to_8(decoder);
        png_set_gray_to_rgb(decoder);
        png_set_strip_alpha(decoder);
    }
    int passes = png_set_interlace_handling(decoder);
    png_read_update_info(decoder, png->info);
    if (png_get_rowbytes(decoder, png->info) != (indices ? 1 : 3) * (size_t)png->source.width)
        png_error(decoder, "its colours cannot be converted to RGB");
    return passes;
}

/* Replaces the (width) indices in `row` by (width, 3) bytes in place. Begins at the end, because the bytes overwrite
 * the indices. */
static void look_up_colours(struct png_source *png, uint8_t *row)
{
    for (int64_t x = png->source.width - 1; x >= 0; x--) {
        int index = row[x];
        if (index >= png->colours)
            png_error(png->decoder, "a pixel has a colour that is not in the palette");
        row[3 * x] = png->palette[index].red;
        row[3 * x + 1] = png->palette[index].green;
        row[3 * x + 2] = png->palette[index].blue;
    }
}

static int png_source_read(struct image_source *source, struct resampler *resampler, struct error *error)
{
    struct png_source *png = (struct png_source *)source;
    png->error = error;
    png->rows = malloc((size_t)png->held * (size_t)source->width * 3);
    if (!png->rows)
        return image_set_no_memory(error);
    if (setjmp(png_jmpbuf(png->decoder)) != 0)
        return -1;
    for (int left = begin_rows(png); left > 0; left--)
        for (int64_t y = 0; y < source->height; y++) {
            uint8_t *row = png->rows + (y % png->held) * source->width * 3;
            png_read_row(png->decoder, row, NULL);
            if (left > 1)
                continue;
            if (png->palette)
                look_up_colours(png, row);
            resampler_row(resampler, row);
        }
    png_read_end(png->decoder, NULL);
    return 0;
}

const struct image_format format_png = {png_source_open, png_source_read, png_source_close};
