/* Tests of a build without libjpeg and libpng. This program includes the files that replace jpeg.c and png.c in such a
 * build. */
#include "server/images/images.h"
#include "server/images/jpeg_missing.c"
#include "server/images/png_missing.c"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void refuse(const char *file, const char *reason)
{
    const struct image_settings settings = image_settings_default(2, 2);
    size_t size;
    int64_t memory;
    float pixels[3 * 2 * 2];
    struct error error = {""};
    char *bytes = file_read(file, 1 << 20, &size, &error);
    assert_non_null(bytes);
    assert_int_equal(image_memory(&settings, bytes, size, &memory, &error), -1);
    assert_string_equal(error.message, reason);
    error.message[0] = '\0';
    assert_int_equal(image_read(&settings, bytes, size, 1 << 30, pixels, &error), -1);
    assert_string_equal(error.message, reason);
    free(bytes);
}

static void jpeg_and_png_without_their_libraries_are_refused(void **state)
{
    (void)state;
    refuse("tests/images/tiny.jpg",
           "this build cannot read JPEG images: libjpeg-turbo was not installed when it was built");
    refuse("tests/images/tiny.png", "this build cannot read PNG images: libpng was not installed when it was built");
    refuse("tests/images/picture.gif", "the image is neither JPEG nor PNG");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(jpeg_and_png_without_their_libraries_are_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
