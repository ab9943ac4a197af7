/* Tests of the byte tokenizer: the ids of bytes, and `[MASK]`. */
#include "server/tokenizer/byte_tokenizer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void expect_ids_from(int offset, const char *text, size_t length, int64_t count, const int32_t *expected)
{
    int32_t ids[32];
    assert_int_equal(byte_tokenizer_count(offset, text, length), count);
    for (int64_t skip = 0; skip <= count; skip++) {
        ids[count - skip] = -1;
        byte_tokenizer_encode(offset, text, length, skip, count - skip, ids);
        assert_memory_equal(ids, expected + skip, (size_t)(count - skip) * sizeof ids[0]);
        assert_int_equal(ids[count - skip], -1);
    }
}

static void expect_ids(const char *text, size_t length, int64_t count, const int32_t *expected)
{
    expect_ids_from(3, text, length, count, expected);
}

static void bytes_become_ids_after_the_special_ones(void **state)
{
    (void)state;
    expect_ids("", 0, 0, NULL);
    expect_ids("aZ", 2, 2, (const int32_t[]){100, 93});
    expect_ids("\xC3\xA9\0\xFF", 4, 4, (const int32_t[]){198, 172, 3, 258});
}

static void the_mask_is_one_id(void **state)
{
    (void)state;
    expect_ids("[MASK]", 6, 1, (const int32_t[]){2});
    expect_ids("[MASK][MASK]", 12, 2, (const int32_t[]){2, 2});
    expect_ids("[[MASK]]", 8, 3, (const int32_t[]){'[' + 3, 2, ']' + 3});
    expect_ids("[MASK", 5, 5, (const int32_t[]){'[' + 3, 'M' + 3, 'A' + 3, 'S' + 3, 'K' + 3});
    expect_ids("[mask]", 6, 6, (const int32_t[]){'[' + 3, 'm' + 3, 'a' + 3, 's' + 3, 'k' + 3, ']' + 3});
}

static void ids_become_their_bytes_again(void **state)
{
    (void)state;
    char bytes[BYTE_TOKENIZER_BYTES];
    for (int byte = 0; byte < 256; byte++) {
        assert_int_equal(byte_tokenizer_bytes(3, byte + 3, bytes), 1);
        assert_int_equal((unsigned char)bytes[0], byte);
        assert_false(byte_tokenizer_special(3, byte + 3));
    }
    assert_int_equal(byte_tokenizer_bytes(3, 0, bytes), 0);
    assert_int_equal(byte_tokenizer_bytes(3, 1, bytes), 0);
    assert_int_equal(byte_tokenizer_bytes(3, 259, bytes), 0);
    assert_int_equal(byte_tokenizer_bytes(3, 2, bytes), 6);
    assert_memory_equal(bytes, "[MASK]", 6);
    assert_true(byte_tokenizer_special(3, 2));
}

/* The ids are those of torch.from_numpy(np.frombuffer(text, dtype=np.uint8)). */
static void without_an_offset_ids_are_bytes_and_none_is_special(void **state)
{
    (void)state;
    char bytes[BYTE_TOKENIZER_BYTES];
    expect_ids_from(0, "aZ\0\xFF", 4, 4, (const int32_t[]){97, 90, 0, 255});
    expect_ids_from(0, "[MASK]", 6, 6, (const int32_t[]){'[', 'M', 'A', 'S', 'K', ']'});
    assert_int_equal(byte_tokenizer_vocabulary(0), 256);
    assert_int_equal(byte_tokenizer_vocabulary(3), 259);
    for (int byte = 0; byte < 256; byte++) {
        assert_int_equal(byte_tokenizer_bytes(0, byte, bytes), 1);
        assert_int_equal((unsigned char)bytes[0], byte);
        assert_false(byte_tokenizer_special(0, byte));
    }
    assert_int_equal(byte_tokenizer_bytes(0, 256, bytes), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_become_ids_after_the_special_ones),
        cmocka_unit_test(the_mask_is_one_id),
        cmocka_unit_test(ids_become_their_bytes_again),
        cmocka_unit_test(without_an_offset_ids_are_bytes_and_none_is_special),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
