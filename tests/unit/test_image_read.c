/* The tensors that image_read() makes of pictures must be those of torchvision, within TOLERANCE. tests/images/make.py
 * makes the pictures and the tensors, and cases.json lists them. IMAGE_CASES=FOLDER names another folder that make.py
 * wrote. Damaged pictures are refused with a reason. */
#include "server/images/images.h"

#include <jansson.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <zlib.h>

#define FOLDER "tests/images"
#define TOLERANCE 1e-6F
#define LARGEST_FILE ((size_t)16 << 20)

struct bytes {
    uint8_t *data; /* the block has exactly `size` bytes, so that the address sanitizer finds reads beyond its end */
    size_t size;
};

static const char *cases_folder(void)
{
    return getenv("IMAGE_CASES") ? getenv("IMAGE_CASES") : FOLDER;
}

static struct bytes bytes_of(const void *data, size_t size)
{
    struct bytes bytes = {malloc(size), size};
    assert_non_null(bytes.data);
    memcpy(bytes.data, data, size);
    return bytes;
}

static struct bytes read_bytes(const char *folder, const char *name)
{
    char path[512];
    struct error error;
    size_t size;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    char *text = file_read(path, LARGEST_FILE, &size, &error);
    if (!text)
        fail_msg("%s", error.message);
    struct bytes bytes = bytes_of(text, size);
    free(text);
    return bytes;
}

static json_t *read_cases(void)
{
    char path[512];
    snprintf(path, sizeof path, "%s/cases.json", cases_folder());
    json_t *cases = json_load_file(path, 0, NULL);
    assert_non_null(cases);
    return cases;
}

/* Returns the settings of a value of the key `image`, read from a config.json as in the daemon. */
static struct image_settings settings_of(const json_t *image)
{
    struct model_config config;
    struct error error;
    char *text = json_dumps(image, 0), *file = malloc(strlen(text) + 64);
    assert_non_null(file);
    sprintf(file, "{\"architecture\": \"a.B\", \"image\": %s}", text);
    if (model_config_parse(file, strlen(file), "config.json", &config, &error) != 0)
        fail_msg("%s", error.message);
    struct image_settings settings = config.image;
    model_config_free(&config);
    free(file);
    free(text);
    return settings;
}

static size_t values_of(const struct image_settings *settings)
{
    return 3 * (size_t)settings->height * (size_t)settings->width;
}

/* Reads a picture with the memory that image_memory() states. Also checks that image_read() fails with one byte less,
 * and that each failure has a message. */
static int read_image(const struct image_settings *settings, struct bytes picture, float **pixels, struct error *error)
{
    int64_t memory = 0;
    *pixels = malloc(values_of(settings) * sizeof **pixels);
    assert_non_null(*pixels);
    error->message[0] = '\0';
    int result = image_memory(settings, picture.data, picture.size, &memory, error);
    if (result == 0) {
        struct error small = {""};
        assert_int_equal(image_read(settings, picture.data, picture.size, memory - 1, *pixels, &small), -1);
        assert_non_null(strstr(small.message, " bytes of memory"));
        result = image_read(settings, picture.data, picture.size, memory, *pixels, error);
    }
    assert_true(result == 0 ? error->message[0] == '\0' : error->message[0] != '\0');
    return result;
}

/* Returns the value at `index` of a tensor. The name of its file says whether the values are bytes or floats. */
static float value_at(const char *name, struct bytes tensor, size_t index)
{
    float value;
    if (strstr(name, ".u8"))
        return tensor.data[index];
    memcpy(&value, tensor.data + index * sizeof value, sizeof value);
    return value;
}

static void compare_tensor(const json_t *entry, const struct image_settings *settings, const float *pixels)
{
    const char *picture = json_string_value(json_object_get(entry, "picture"));
    const char *name = json_string_value(json_object_get(entry, "expected"));
    struct bytes tensor = read_bytes(cases_folder(), name);
    assert_int_equal(tensor.size, values_of(settings) * (strstr(name, ".u8") ? 1 : sizeof(float)));
    for (size_t i = 0; i < values_of(settings); i++) {
        float expected = value_at(name, tensor, i), difference = pixels[i] - expected;
        if (!(difference <= TOLERANCE && difference >= -TOLERANCE))
            fail_msg("%s as %s: value %zu is %.9g, expected %.9g", picture, name, i, (double)pixels[i],
                     (double)expected);
    }
    free(tensor.data);
}

static void pictures_become_torchvisions_tensors(void **state)
{
    (void)state;
    size_t i;
    const json_t *entry;
    json_t *cases = read_cases();
    json_array_foreach (json_object_get(cases, "pictures"), i, entry) {
        struct error error;
        float *pixels;
        struct image_settings settings = settings_of(json_object_get(entry, "image"));
        struct bytes picture = read_bytes(cases_folder(), json_string_value(json_object_get(entry, "picture")));
        if (read_image(&settings, picture, &pixels, &error) != 0)
            fail_msg("%s: %s", json_string_value(json_object_get(entry, "picture")), error.message);
        compare_tensor(entry, &settings, pixels);
        free(pixels);
        free(picture.data);
    }
    assert_true(i > 0);
    json_decref(cases);
}

static void refuse(const char *name, struct bytes picture, const char *reason)
{
    const struct image_settings settings = image_settings_default(16, 16);
    struct error error;
    float *pixels;
    if (read_image(&settings, picture, &pixels, &error) == 0)
        fail_msg("%s: it is read, expected: %s", name, reason);
    if (!strstr(error.message, reason))
        fail_msg("%s: '%s' is not in '%s'", name, reason, error.message);
    free(pixels);
}

static void faulty_pictures_are_refused(void **state)
{
    (void)state;
    size_t i;
    const json_t *entry;
    json_t *cases = read_cases();
    json_array_foreach (json_object_get(cases, "refused"), i, entry) {
        const char *name = json_string_value(json_object_get(entry, "picture"));
        struct bytes picture = read_bytes(cases_folder(), name);
        refuse(name, picture, json_string_value(json_object_get(entry, "reason")));
        free(picture.data);
    }
    json_decref(cases);
}

/* ---- Damage */

static void every_truncated_picture_is_refused(void **state)
{
    (void)state;
    static const char *const names[] = {"rgb420.jpg",     "progressive.jpg", "tiny.jpg",
                                        "interlaced.png", "palette2.png",    "tiny.png"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct bytes whole = read_bytes(FOLDER, names[i]);
        for (size_t size = 0; size < whole.size; size++) {
            struct bytes part = bytes_of(whole.data, size);
            refuse(names[i], part, size < 8 ? "" : "it ends too early");
            free(part.data);
        }
        free(whole.data);
    }
}

/* Changes one bit of each byte in turn. The picture must be read, or refused with a reason. */
static void damaged_bytes_do_no_harm(void **state)
{
    (void)state;
    static const char *const names[] = {"rgb420.jpg", "progressive.jpg", "interlaced.png", "palette2.png"};
    const struct image_settings settings = image_settings_default(8, 8);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct bytes picture = read_bytes(FOLDER, names[i]);
        for (size_t at = 0; at < picture.size; at++) {
            struct error error;
            float *pixels;
            uint8_t before = picture.data[at];
            picture.data[at] ^= (uint8_t)(1 << at % 8);
            read_image(&settings, picture, &pixels, &error);
            picture.data[at] = before;
            free(pixels);
        }
        free(picture.data);
    }
}

/* ---- Large pictures in small files */

static void put_number(uint8_t *bytes, uint32_t number)
{
    for (int i = 0; i < 4; i++)
        bytes[i] = (uint8_t)(number >> (24 - 8 * i));
}

static size_t put_chunk(uint8_t *file, const char *name, const void *data, size_t size)
{
    put_number(file, (uint32_t)size);
    memcpy(file + 4, name, 4);
    memcpy(file + 8, data, size);
    put_number(file + 8 + size, (uint32_t)crc32(0, file + 4, (uInt)size + 4));
    return size + 12;
}

/* Makes a PNG file with black pixels of one bit. A zTXt chunk of the file contains a compressed text of `text`
 * bytes. */
static struct bytes black_png(uint32_t height, uint32_t width, bool interlaced, size_t text)
{
    size_t raw = (size_t)(height + 8) * (width / 8 + 8) * 2, most = compressBound(raw > text ? raw : text);
    uint8_t *zeros = calloc(1, raw > text ? raw : text), *packed = malloc(most), header[13] = {0};
    uint8_t *file = malloc(2 * most + 256);
    assert_true(zeros && packed && file);
    memcpy(file, "\x89PNG\r\n\x1a\n", 8);
    put_number(header, width);
    put_number(header + 4, height);
    header[8] = 1;
    header[12] = interlaced;
    size_t size = 8 + put_chunk(file + 8, "IHDR", header, sizeof header);
    if (text > 0) {
        uLongf length = most - 2;
        memcpy(packed, "a\0", 3);
        assert_int_equal(compress(packed + 3, &length, zeros, text), Z_OK);
        size += put_chunk(file + size, "zTXt", packed, length + 3);
    }
    /* IDAT contains more zeros than the passes of an interlaced picture need. libpng only warns of "extra compressed
     * data". */
    uLongf length = most;
    assert_int_equal(compress(packed, &length, zeros, raw), Z_OK);
    size += put_chunk(file + size, "IDAT", packed, length);
    size += put_chunk(file + size, "IEND", "", 0);
    struct bytes picture = bytes_of(file, size);
    free(file);
    free(packed);
    free(zeros);
    return picture;
}

/* The needed memory follows from the header. It is small unless the picture is interlaced, because the rows are read
 * one by one. */
static void memory_of_large_pictures_is_known_before(void **state)
{
    (void)state;
    const struct image_settings settings = image_settings_default(16, 16);
    int64_t memory;
    struct error error = {""};
    float *pixels;
    struct bytes rows = black_png(4000, 4000, false, 0), whole = black_png(4000, 4000, true, 0);
    assert_int_equal(image_memory(&settings, rows.data, rows.size, &memory, &error), 0);
    assert_in_range(memory, 1, 1 << 20);
    assert_int_equal(read_image(&settings, rows, &pixels, &error), 0);
    free(pixels);
    assert_int_equal(image_memory(&settings, whole.data, whole.size, &memory, &error), 0);
    assert_in_range(memory, 3 * 4000 * 4000, 3 * 4000 * 4000 + (1 << 20));
    free(rows.data);
    free(whole.data);
}

/* If such a picture were resized before it is cropped, it would have 18 x 1800000 pixels. */
static void long_thin_pictures_need_little_memory(void **state)
{
    (void)state;
    struct image_settings settings = image_settings_default(16, 16);
    int64_t memory;
    struct error error = {""};
    float *pixels;
    struct bytes wide = black_png(1, 100000, false, 0), high = black_png(100000, 1, false, 0);
    assert_int_equal(read_image(&settings, wide, &pixels, &error), 0);
    free(pixels);
    assert_int_equal(read_image(&settings, high, &pixels, &error), 0);
    free(pixels);
    settings.crop = false;
    settings.resize = IMAGE_RESIZE_BICUBIC;
    assert_int_equal(read_image(&settings, wide, &pixels, &error), 0);
    free(pixels);
    assert_int_equal(image_memory(&settings, wide.data, wide.size, &memory, &error), 0);
    assert_in_range(memory, 1, 8 << 20);
    free(wide.data);
    free(high.data);
}

static void huge_texts_in_png_files_are_skipped(void **state)
{
    (void)state;
    const struct image_settings settings = image_settings_default(16, 16);
    struct error error = {""};
    float *pixels;
    struct bytes picture = black_png(20, 20, false, 100 << 20);
    assert_int_equal(read_image(&settings, picture, &pixels, &error), 0);
    free(pixels);
    free(picture.data);
}

static void a_picture_of_another_size_is_refused(void **state)
{
    (void)state;
    struct image_settings settings = image_settings_default(16, 20);
    struct error error = {""};
    float *pixels;
    settings.crop = false;
    settings.resize = IMAGE_RESIZE_NONE;
    struct bytes picture = black_png(20, 16, false, 0);
    assert_int_equal(read_image(&settings, picture, &pixels, &error), -1);
    assert_non_null(strstr(error.message, "16 x 20 pixels (width x height), expected 20 x 16"));
    free(pixels);
    free(picture.data);
}

/* ---- Threads */

#define N_THREADS 4
#define N_ROUNDS 50

struct reading {
    struct bytes picture;
    float pixels[3 * 16 * 16];
    bool failed; /* true if any round failed */
};

static void *read_often(void *argument)
{
    struct reading *reading = argument;
    const struct image_settings settings = image_settings_default(16, 16);
    struct error error;
    for (int i = 0; i < N_ROUNDS; i++)
        if (image_read(&settings, reading->picture.data, reading->picture.size, 16 << 20, reading->pixels, &error) != 0)
            reading->failed = true;
    return NULL;
}

/* Some threads read valid pictures, others read invalid pictures. */
static void threads_do_not_disturb_each_other(void **state)
{
    (void)state;
    static const char *const names[N_THREADS] = {"progressive.jpg", "interlaced.png", "scans.jpg", "few_rows.png"};
    static struct reading alone[N_THREADS], together[N_THREADS];
    pthread_t threads[N_THREADS];
    for (int i = 0; i < N_THREADS; i++) {
        alone[i].picture = together[i].picture = read_bytes(FOLDER, names[i]);
        read_often(&alone[i]);
    }
    for (int i = 0; i < N_THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, read_often, &together[i]), 0);
    for (int i = 0; i < N_THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(together[i].failed, i >= 2);
        assert_memory_equal(together[i].pixels, alone[i].pixels, sizeof alone[i].pixels);
        free(alone[i].picture.data);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pictures_become_torchvisions_tensors),
        cmocka_unit_test(faulty_pictures_are_refused),
        cmocka_unit_test(every_truncated_picture_is_refused),
        cmocka_unit_test(damaged_bytes_do_no_harm),
        cmocka_unit_test(memory_of_large_pictures_is_known_before),
        cmocka_unit_test(long_thin_pictures_need_little_memory),
        cmocka_unit_test(huge_texts_in_png_files_are_skipped),
        cmocka_unit_test(a_picture_of_another_size_is_refused),
        cmocka_unit_test(threads_do_not_disturb_each_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
