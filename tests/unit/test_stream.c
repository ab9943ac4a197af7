/* Tests of a stream of text between its writer and its reader, and of its limits. http/test_generate_stream tests the
 * streams of real requests. */
#include "server/http/stream.h"

#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MIB ((size_t)1 << 20)

static struct budget budget = {.limit = 64 * (int64_t)MIB};

static void append(struct stream *stream, const char *text, size_t length, bool wakes)
{
    bool asleep = !wakes;
    assert_int_equal(stream_append(stream, text, length, &asleep), 0);
    assert_int_equal(asleep, wakes);
}

static void test_text_is_read_in_order(void **state)
{
    (void)state;
    struct stream *stream = stream_open(&budget);
    char buffer[8];
    bool asleep;
    assert_int_equal(stream_read(stream, buffer, sizeof buffer), STREAM_ASLEEP);
    append(stream, "0123456789", 10, true);
    append(stream, "abc", 3, false);
    assert_int_equal(stream_read(stream, buffer, 8), 8);
    assert_memory_equal(buffer, "01234567", 8);
    append(stream, "d", 1, false);
    assert_int_equal(stream_read(stream, buffer, 8), 6);
    assert_memory_equal(buffer, "89abcd", 6);
    assert_int_equal(stream_read(stream, buffer, 8), STREAM_ASLEEP);
    assert_false(stream_end(stream, false, &asleep));
    assert_true(asleep);
    assert_int_equal(stream_read(stream, buffer, 8), STREAM_ENDED);
    assert_true(stream_leave(stream));
    stream_close(stream);
    assert_int_equal(budget.used, 0);
}

/* The client reads, but one byte is always left. The text that was read occupies no memory. */
static void test_sent_text_is_freed(void **state)
{
    (void)state;
    struct stream *stream = stream_open(&budget);
    char *text = malloc(MIB / 2), *buffer = malloc(MIB / 2);
    memset(text, 'x', MIB / 2);
    append(stream, text, 1, false);
    struct mallinfo2 before = mallinfo2();
    for (int i = 0; i < 256; i++) {
        append(stream, text, MIB / 2, false);
        assert_int_equal(stream_read(stream, buffer, MIB / 2), MIB / 2);
    }
    struct mallinfo2 after = mallinfo2();
    assert_true(after.uordblks + after.hblkhd < before.uordblks + before.hblkhd + 8 * MIB);
    assert_int_equal(budget.used, 1);
    stream_close(stream);
    assert_int_equal(budget.used, 0);
    free(text);
    free(buffer);
}

static void test_a_slow_client_is_refused(void **state)
{
    (void)state;
    struct stream *stream = stream_open(&budget);
    char *text = calloc(1, MIB);
    char byte;
    bool asleep;
    append(stream, text, MIB, false);
    assert_int_equal(stream_append(stream, text, 1, &asleep), -1);
    assert_int_equal(stream_read(stream, &byte, 1), 1);
    append(stream, text, 1, false);
    assert_false(stream_end(stream, true, &asleep));
    assert_int_equal(stream_read(stream, &byte, 1), STREAM_BROKEN);
    stream_close(stream);
    free(text);
}

static void test_nothing_is_written_for_a_client_that_left(void **state)
{
    (void)state;
    struct stream *stream = stream_open(&budget);
    bool asleep;
    assert_true(stream_hold(stream));
    stream_release(stream);
    assert_false(stream_leave(stream));
    assert_false(stream_hold(stream));
    assert_int_equal(stream_append(stream, "a", 1, &asleep), -1);
    assert_true(stream_end(stream, false, &asleep));
    stream_close(stream);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text_is_read_in_order),
        cmocka_unit_test(test_sent_text_is_freed),
        cmocka_unit_test(test_a_slow_client_is_refused),
        cmocka_unit_test(test_nothing_is_written_for_a_client_that_left),
    };
    return cmocka_run_group_tests_name("stream", tests, NULL, NULL);
}
