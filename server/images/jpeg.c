/* jpeg: decodes JPEG with libjpeg-turbo. Its defaults are also those of PIL: the slow integer DCT and fancy upsampling.
 * As in PIL, warnings about damaged data are ignored, except for the warning that the data ends too early. After an
 * error, longjmp() returns to the function in this file that called libjpeg. */
#include "server/images/format.h"
#include "server/images/no_memory.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

#include <jpeglib.h>

#include <jerror.h> /* must follow jpeglib.h */

/* Limits for progressive files. Encoders usually write about 10 scans. A scan of a few bytes can change all pixels, so
 * the number of scans times the number of pixels is also limited. */
#define MAX_SCANS 100
#define MAX_SCANNED_PIXELS ((int64_t)1 << 30)

/* libjpeg's memory for a few rows of all components: at most MEMORY_PER_COLUMN bytes for each pixel of the width, plus
 * MEMORY_FIXED bytes. */
#define MEMORY_PER_COLUMN 256
#define MEMORY_FIXED ((int64_t)64 << 10)

struct jpeg_source {
    struct image_source source; /* must be the first member */
    struct jpeg_decompress_struct decoder;
    struct jpeg_error_mgr manager;
    struct jpeg_progress_mgr progress;
    int most_scans;
    jmp_buf escape;
    struct error *error; /* receives the error of the current call */
};

static void leave(j_common_ptr decoder)
{
    struct jpeg_source *jpeg = decoder->client_data;
    char reason[JMSG_LENGTH_MAX];
    jpeg->manager.format_message(decoder, reason);
    if (decoder->err->msg_code == JERR_OUT_OF_MEMORY)
        image_set_no_memory(jpeg->error);
    else
        error_set(jpeg->error, "the JPEG image cannot be read: %s", reason);
    longjmp(jpeg->escape, 1);
}

static void leave_with(j_decompress_ptr decoder, const char *reason)
{
    struct jpeg_source *jpeg = decoder->client_data;
    error_set(jpeg->error, "the JPEG image cannot be read: %s", reason);
    longjmp(jpeg->escape, 1);
}

/* Handles a message of libjpeg. A warning has a negative level. */
static void hear_message(j_common_ptr decoder, int level)
{
    if (level < 0 && decoder->err->msg_code == JWRN_JPEG_EOF)
        leave_with((j_decompress_ptr)decoder, "it ends too early");
}

static void hear_progress(j_common_ptr common)
{
    const struct jpeg_source *jpeg = common->client_data;
    j_decompress_ptr decoder = (j_decompress_ptr)common;
    if (decoder->input_scan_number > jpeg->most_scans)
        leave_with(decoder, "it has too many scans");
}

static void jpeg_source_close(struct image_source *source)
{
    struct jpeg_source *jpeg = (struct jpeg_source *)source;
    jpeg_destroy_decompress(&jpeg->decoder);
    free(jpeg);
}

/* The memory of the coefficients in bytes. If there are several scans, libjpeg keeps all coefficients in memory. A
 * block has 64 coefficients of 16 bits. */
static int64_t coefficient_bytes(j_decompress_ptr decoder)
{
    int64_t bytes = 0;
    for (int i = 0; i < decoder->num_components; i++) {
        /* libjpeg rounds the numbers of blocks up to multiples of the component's sampling factors. */
        const jpeg_component_info *component = &decoder->comp_info[i];
        bytes += ((int64_t)component->width_in_blocks + component->h_samp_factor) *
                 ((int64_t)component->height_in_blocks + component->v_samp_factor) * (int64_t)sizeof(JBLOCK);
    }
    return bytes;
}

static void read_header(struct jpeg_source *jpeg)
{
    j_decompress_ptr decoder = &jpeg->decoder;
    jpeg_read_header(decoder, TRUE);
    if (decoder->num_components != 1 && decoder->num_components != 3)
        leave_with(decoder, decoder->num_components == 4 ? "its colours are CMYK or YCCK, expected RGB, YCbCr or grey"
                                                         : "it has neither one nor three colour components");
    struct image_source *source = &jpeg->source;
    source->height = decoder->image_height;
    source->width = decoder->image_width;
    source->memory = (int64_t)sizeof *jpeg + MEMORY_FIXED + source->width * MEMORY_PER_COLUMN;
    if (jpeg_has_multiple_scans(decoder))
        source->memory += coefficient_bytes(decoder);
    int64_t most = MAX_SCANNED_PIXELS / (source->height * source->width);
    jpeg->most_scans = most < MAX_SCANS ? (int)most : MAX_SCANS;
}

static int jpeg_source_open(const uint8_t *bytes, size_t size, struct image_source **source, struct error *error)
{
    struct jpeg_source *jpeg = calloc(1, sizeof *jpeg);
    if (!jpeg)
        return image_set_no_memory(error);
    jpeg->error = error;
    jpeg->decoder.client_data = jpeg;
    jpeg->decoder.err = jpeg_std_error(&jpeg->manager);
    jpeg->manager.error_exit = leave;
    jpeg->manager.emit_message = hear_message;
    jpeg->progress.progress_monitor = hear_progress;
    if (setjmp(jpeg->escape) != 0) {
        jpeg_source_close(&jpeg->source);
        return -1;
    }
    jpeg_create_decompress(&jpeg->decoder);
    jpeg->decoder.progress = &jpeg->progress;
    jpeg_mem_src(&jpeg->decoder, bytes, size);
    read_header(jpeg);
    *source = &jpeg->source;
    return 0;
}

static int jpeg_source_read(struct image_source *source, struct resampler *resampler, struct error *error)
{
    struct jpeg_source *jpeg = (struct jpeg_source *)source;
    j_decompress_ptr decoder = &jpeg->decoder;
    jpeg->error = error;
    if (setjmp(jpeg->escape) != 0)
        return -1;
    decoder->out_color_space = JCS_RGB;
    jpeg_start_decompress(decoder);
    if (decoder->output_width != source->width || decoder->output_components != 3)
        leave_with(decoder, "its colours cannot be converted to RGB");
    JSAMPARRAY rows = decoder->mem->alloc_sarray((j_common_ptr)decoder, JPOOL_IMAGE, 3 * decoder->output_width, 1);
    while (decoder->output_scanline < decoder->output_height) {
        jpeg_read_scanlines(decoder, rows, 1);
        resampler_row(resampler, rows[0]);
    }
    jpeg_finish_decompress(decoder);
    return 0;
}

const struct image_format format_jpeg = {jpeg_source_open, jpeg_source_read, jpeg_source_close};
