/* image_memory() is an upper bound of the memory that image_read() allocates, including the memory of libjpeg and
 * libpng. The program counts memory in its own malloc(). The sanitizers have their own malloc(), so the program counts
 * nothing under them. */
#include "server/images/images.h"

#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jpeglib.h>
#include <png.h>

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define COUNTS 1

static int64_t live, peak; /* number of allocated bytes, and its maximum. The program has one thread */

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *block, size_t size);
void __libc_free(void *block);

static void *count(void *block)
{
    live += (int64_t)malloc_usable_size(block);
    peak = live > peak ? live : peak;
    return block;
}

void *malloc(size_t size)
{
    return count(__libc_malloc(size));
}

void *calloc(size_t n, size_t size)
{
    return count(__libc_calloc(n, size));
}

void *realloc(void *block, size_t size)
{
    int64_t before = (int64_t)malloc_usable_size(block);
    void *moved = __libc_realloc(block, size);
    live -= moved || size == 0 ? before : 0;
    return count(moved);
}

void free(void *block)
{
    live -= (int64_t)malloc_usable_size(block);
    __libc_free(block);
}
#else
#define COUNTS 0
static int64_t live, peak;
#endif

static const int height = 600, width = 900;

/* Draws row y: a ramp that differs in each row. */
static void draw_row(uint8_t *row, int bytes, int y)
{
    for (int x = 0; x < bytes; x++)
        row[x] = (uint8_t)(x / 5 + y * 3);
}

/* Makes a JPEG file. Its second and third component have 1 / `less` of the columns, and 1 / `less` of the rows, but at
 * least half of the rows. The caller frees the bytes. */
static uint8_t *make_jpeg(int less, bool progressive, size_t *size)
{
    struct jpeg_compress_struct encoder;
    struct jpeg_error_mgr manager;
    uint8_t *bytes = NULL, row[3 * 900], *rows[] = {row};
    unsigned long length = 0;
    encoder.err = jpeg_std_error(&manager);
    jpeg_create_compress(&encoder);
    jpeg_mem_dest(&encoder, &bytes, &length);
    encoder.image_height = (JDIMENSION)height;
    encoder.image_width = (JDIMENSION)width;
    encoder.input_components = 3;
    encoder.in_color_space = JCS_RGB;
    jpeg_set_defaults(&encoder);
    encoder.comp_info[0].h_samp_factor = less;
    encoder.comp_info[0].v_samp_factor = less > 2 ? 2 : less;
    if (progressive)
        jpeg_simple_progression(&encoder);
    jpeg_start_compress(&encoder, TRUE);
    for (int y = 0; y < height; y++) {
        draw_row(row, 3 * width, y);
        jpeg_write_scanlines(&encoder, rows, 1);
    }
    jpeg_finish_compress(&encoder);
    jpeg_destroy_compress(&encoder);
    *size = length;
    return bytes;
}

struct file {
    uint8_t *bytes;
    size_t size;
};

static void append(png_structp encoder, png_bytep bytes, size_t size)
{
    struct file *file = png_get_io_ptr(encoder);
    file->bytes = realloc(file->bytes, file->size + size);
    assert_non_null(file->bytes);
    memcpy(file->bytes + file->size, bytes, size);
    file->size += size;
}

/* Makes a PNG file with an RGBA picture, and with a text of text_bytes bytes. The caller frees the file. */
static uint8_t *make_png(bool interlaced, size_t text_bytes, size_t *size)
{
    struct file file = {NULL, 0};
    uint8_t row[4 * 900];
    png_structp encoder = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
    png_infop info = png_create_info_struct(encoder);
    char *words = calloc(1, text_bytes + 1), key[] = "Comment";
    assert_non_null(words);
    memset(words, 'a', text_bytes);
    png_text text = {.compression = PNG_TEXT_COMPRESSION_NONE, .key = key, .text = words};
    png_set_write_fn(encoder, &file, append, NULL);
    png_set_IHDR(encoder, info, (png_uint_32)width, (png_uint_32)height, 8, PNG_COLOR_TYPE_RGBA,
                 interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_BASE,
                 PNG_FILTER_TYPE_BASE);
    png_set_text(encoder, info, &text, 1);
    png_write_info(encoder, info);
    for (int passes = png_set_interlace_handling(encoder); passes > 0; passes--)
        for (int y = 0; y < height; y++) {
            draw_row(row, 4 * width, y);
            png_write_row(encoder, row);
        }
    png_write_end(encoder, info);
    png_destroy_write_struct(&encoder, &info);
    free(words);
    *size = file.size;
    return file.bytes;
}

/* Reads the picture with each kind of resizing, and compares the allocated memory with image_memory(). Frees the
 * bytes. */
static void check_memory(const char *name, uint8_t *bytes, size_t size)
{
    struct image_settings settings = image_settings_default(32, 32);
    float *pixels = malloc(3 * 32 * 32 * sizeof *pixels);
    int64_t memory;
    struct error error = {""};
    assert_non_null(pixels);
    for (int resize = 0; resize < IMAGE_RESIZE_COUNT; resize++) {
        settings.resize = (enum image_resize)resize;
        assert_int_equal(image_memory(&settings, bytes, size, &memory, &error), 0);
        int64_t before = peak = live;
        if (image_read(&settings, bytes, size, memory, pixels, &error) != 0)
            fail_msg("%s: %s", name, error.message);
        printf("# %s: %lld bytes, at most %lld\n", name, (long long)(peak - before), (long long)memory);
        assert_true(peak - before <= memory);
        assert_int_equal(live, before);
    }
    free(pixels);
    free(bytes);
}

static void jpeg_needs_no_more_memory_than_estimated(void **state)
{
    (void)state;
    char name[64];
    for (int less = 1; less <= 4; less *= 2)
        for (int progressive = 0; progressive < 2; progressive++) {
            size_t size;
            uint8_t *bytes = make_jpeg(less, progressive, &size);
            snprintf(name, sizeof name, "%s JPEG, colours 1 / %d", progressive ? "progressive" : "baseline", less);
            check_memory(name, bytes, size);
        }
}

static void png_needs_no_more_memory_than_estimated(void **state)
{
    (void)state;
    size_t size;
    uint8_t *bytes = make_png(false, 0, &size);
    check_memory("PNG", bytes, size);
    bytes = make_png(true, 0, &size);
    check_memory("interlaced PNG", bytes, size);
    bytes = make_png(false, 4 << 20, &size);
    check_memory("PNG with a long text", bytes, size);
}

/* Tests the counting itself. The other tests would also pass if nothing were counted. */
static void the_test_counts_the_memory_of_libjpeg(void **state)
{
    (void)state;
    if (!COUNTS)
        skip();
    int64_t before = peak = live;
    size_t size;
    free(make_jpeg(1, true, &size));
    assert_true(peak - before > 2 * 3 * height * width); /* the memory of libjpeg's coefficients */
    assert_int_equal(live, before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_test_counts_the_memory_of_libjpeg),
        cmocka_unit_test(jpeg_needs_no_more_memory_than_estimated),
        cmocka_unit_test(png_needs_no_more_memory_than_estimated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
