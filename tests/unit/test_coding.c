/* Tests of the content codings gzip and deflate. The headers of a request choose a coding. Unpacking what was packed
 * must give the same bytes. */
#include "server/http/coding.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

static struct budget budget = {.limit = 1 << 24};

static void accept_encoding_chooses_the_coding(void **state)
{
    (void)state;
    static const struct {
        const char *accept;
        enum coding wanted;
    } cases[] = {
        {NULL, CODING_NONE},
        {"", CODING_NONE},
        {"gzip", CODING_GZIP},
        {"GZip", CODING_GZIP},
        {"deflate", CODING_DEFLATE},
        {"gzip, deflate", CODING_GZIP},
        {"deflate,gzip", CODING_DEFLATE},
        {"gzip;q=0.5, deflate;q=0.8", CODING_DEFLATE},
        {"gzip ; q=0.5 , deflate ;q=0.4", CODING_GZIP},
        {"gzip;q=0", CODING_NONE},
        {"identity, gzip;q=0.5", CODING_NONE},
        {"br, zstd", CODING_NONE},
        {"br, gzip;q=0.1", CODING_GZIP},
        {"*", CODING_NONE},
        {",,;q=1,gzip;", CODING_GZIP},
        {"gzipp, xgzip", CODING_NONE},
    };
    for (size_t i = 0; i < LENGTH(cases); i++) {
        if (coding_wanted(cases[i].accept) != cases[i].wanted)
            print_error("%s\n", cases[i].accept);
        assert_int_equal(coding_wanted(cases[i].accept), cases[i].wanted);
    }
    assert_int_equal(coding_of(NULL), CODING_NONE);
    assert_int_equal(coding_of("identity"), CODING_NONE);
    assert_int_equal(coding_of("gzip"), CODING_GZIP);
    assert_int_equal(coding_of("gzip, gzip"), CODING_UNKNOWN);
}

static struct body body_of(const struct writer *packed, size_t limit)
{
    struct body body = {.share.budget = &budget, .limit = limit};
    assert_int_equal(body_append(&body, packed->data, packed->length), BODY_OK);
    return body;
}

static void unpacking_restores_packed_bytes(void **state)
{
    (void)state;
    static const size_t lengths[] = {0, 1, 1000, 32 * 1024, 32 * 1024 + 1, 1000000};
    for (size_t i = 0; i < LENGTH(lengths) * 2; i++) {
        enum coding coding = i % 2 ? CODING_GZIP : CODING_DEFLATE;
        size_t length = lengths[i / 2];
        struct writer answer = {0};
        struct failure failure;
        char *bytes = malloc(length + 1);
        uint32_t random = 1;

        for (size_t b = 0; b < length; b++)
            bytes[b] = (char)((random = random * 1664525u + 1013904223u) >> 24);
        writer_bytes(&answer, bytes, length);
        assert_true(coding_pack(coding, &answer));
        struct body body = body_of(&answer, 1 << 21);
        assert_int_equal(coding_unpack(coding, &body, &failure), 0);
        assert_int_equal(body.length, length);
        if (length > 0)
            assert_memory_equal(body.data, bytes, length);
        body_free(&body);
        writer_free(&answer);
        free(bytes);
    }
    assert_int_equal(budget.used, 0);
}

/* Binary data after a JSON header is read in place. body.lead bytes before the body align this data for a header of any
 * length. */
static void unpacked_bodies_keep_their_alignment(void **state)
{
    (void)state;
    for (size_t lead = 0; lead < 16; lead++) {
        struct writer answer = {0};
        struct failure failure;
        char *bytes = calloc(1, 100000);

        writer_bytes(&answer, bytes, 100000);
        assert_true(coding_pack(CODING_GZIP, &answer));
        struct body body = body_of(&answer, 100000);
        body_free(&body);
        body.lead = lead;
        assert_int_equal(body_append(&body, answer.data, answer.length), BODY_OK);
        assert_int_equal((uintptr_t)body.data % 16, lead);
        assert_int_equal(coding_unpack(CODING_GZIP, &body, &failure), 0);
        assert_int_equal((uintptr_t)body.data % 16, lead);
        body_free(&body);
        writer_free(&answer);
        free(bytes);
    }
}

static void limits_hold_for_unpacked_bytes(void **state)
{
    (void)state;
    struct writer answer = {0};
    struct failure failure;
    char *bytes = calloc(1, 100000);
    writer_bytes(&answer, bytes, 100000);
    assert_true(coding_pack(CODING_DEFLATE, &answer));
    assert_true(answer.length < 1000);
    struct body body = body_of(&answer, 99999);
    assert_int_equal(coding_unpack(CODING_DEFLATE, &body, &failure), -1);
    assert_int_equal(failure.kind, FAILURE_TOO_LARGE);
    body_free(&body);
    budget.limit = 50000;
    body = body_of(&answer, 100000);
    assert_int_equal(coding_unpack(CODING_DEFLATE, &body, &failure), -1);
    assert_int_equal(failure.kind, FAILURE_OVERLOADED);
    body_free(&body);
    assert_int_equal(budget.used, 0);
    writer_free(&answer);
    free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(accept_encoding_chooses_the_coding),
        cmocka_unit_test(unpacking_restores_packed_bytes),
        cmocka_unit_test(unpacked_bodies_keep_their_alignment),
        cmocka_unit_test(limits_hold_for_unpacked_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
