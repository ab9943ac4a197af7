/* Reads an image while each allocation of the project's own code fails in turn. Allocations of libjpeg and libpng do
 * not fail. */
#include "server/images/images.h"
#include "tests/unit/alloc_fail.h"

#define EDGE 4

static const char *picture;
static int refused; /* number of pictures that were refused for another reason than lack of memory */

static int read_picture(struct error *error)
{
    struct image_settings settings = image_settings_default(EDGE, EDGE);
    size_t size;
    float pixels[3 * EDGE * EDGE];
    char *bytes = file_read(picture, 1 << 20, &size, error);
    if (!bytes)
        return -1;
    int result = image_read(&settings, bytes, size, 1 << 24, pixels, error);
    refused += result != 0 && !image_lacks_memory(error);
    free(bytes);
    return result;
}

static void reading_survives_each_failure(void **state)
{
    (void)state;
    static const char *const names[] = {"tests/images/rgb420.jpg", "tests/images/progressive.jpg",
                                        "tests/images/interlaced_palette4.png", "tests/images/large.png"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        picture = names[i];
        assert_true(alloc_fail_each(read_picture) > 10);
        assert_int_equal(refused, 0); /* lack of memory was the reason of each failure */
    }
}

/* If a faulty picture is refused, all its memory is freed. */
static void a_refused_picture_leaves_no_memory_behind(void **state)
{
    (void)state;
    static const char *const names[] = {"tests/images/few_rows.png",      "tests/images/rgb16.png",
                                        "tests/images/checksum_data.png", "tests/images/cmyk.jpg",
                                        "tests/images/scans.jpg",         "tests/images/huge.jpg"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct error error = {""};
        long live = alloc_fail.live;
        picture = names[i];
        assert_int_equal(read_picture(&error), -1);
        assert_int_equal(refused, (int)i + 1);
        assert_int_equal(alloc_fail.live, live);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reading_survives_each_failure),
        cmocka_unit_test(a_refused_picture_leaves_no_memory_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
