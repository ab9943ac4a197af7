/* Tests of the log. Each test redirects stderr into a pipe, writes lines to the log, and reads the pipe. */
#include "server/common/log.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define PIPE_BYTES 65536

static char captured[PIPE_BYTES + 1];
static int reading, stderr_copy;

static void capture_begin(void)
{
    int ends[2];
    fflush(stderr);
    assert_int_equal(pipe(ends), 0);
    reading = ends[0];
    stderr_copy = dup(STDERR_FILENO);
    assert_true(dup2(ends[1], STDERR_FILENO) >= 0);
    close(ends[1]);
}

/* Ends the redirection, and returns the text that was written. The text must fit into the pipe's buffer, so that the
 * writer never waits. */
static char *capture_end(void)
{
    assert_true(dup2(stderr_copy, STDERR_FILENO) >= 0);
    close(stderr_copy);
    size_t length = 0;
    for (ssize_t count; (count = read(reading, captured + length, PIPE_BYTES - length)) > 0;)
        length += (size_t)count;
    close(reading);
    captured[length] = '\0';
    assert_int_equal(strlen(captured), length);
    return captured;
}

/* Checks the form of the time at the beginning of the line, and returns the rest of the line. */
static const char *after_time(const char *line)
{
    int at = 0;
    assert_int_equal(sscanf(line, "%*4d-%*2d-%*2dT%*2d:%*2d:%*2d.%*3dZ %n", &at), 0);
    assert_int_equal(at, 25);
    return line + at;
}

static json_t *parsed(const char *line)
{
    json_error_t error;
    json_t *object = json_loads(line, 0, &error);
    if (!object)
        fail_msg("no JSON: %s: %s", error.text, line);
    return object;
}

static void expect_key(const json_t *object, const char *key, const char *value)
{
    assert_non_null(json_string_value(json_object_get(object, key)));
    assert_string_equal(json_string_value(json_object_get(object, key)), value);
}

static void test_a_line_of_text_has_level_message_and_pairs(void **context)
{
    (void)context;
    log_configure(LOG_FORMAT_TEXT, LOG_LEVEL_INFO);
    capture_begin();
    log_write(LOG_LEVEL_INFO, "model loaded", "name", "builtin", LOG_INTEGER("parameters", 913000), NULL);
    assert_string_equal(after_time(capture_end()), "INFO model loaded name=builtin parameters=913000\n");
    capture_begin();
    log_write(LOG_LEVEL_ERROR, "x", NULL);
    assert_string_equal(after_time(capture_end()), "ERROR x\n");
}

static void test_text_values_are_quoted_and_escaped(void **context)
{
    (void)context;
    log_configure(LOG_FORMAT_TEXT, LOG_LEVEL_INFO);
    capture_begin();
    log_write(LOG_LEVEL_WARNING, "two\nlines", "a", "", "b", "x y", "c", "1=2", "d", "\"\\", "e", "a\r\n\tb", "f",
              "\x1b[31m", "g", "gr\xc3\xbc\xc3\x9f", NULL);
    assert_string_equal(after_time(capture_end()),
                        "WARNING two\\nlines a=\"\" b=\"x y\" c=\"1=2\" d=\"\\\"\\\\\" e=\"a\\u000d\\n\\u0009b\" "
                        "f=\"\\u001b[31m\" g=gr\xc3\xbc\xc3\x9f\n");
}

static void test_a_line_of_json_has_level_message_and_pairs(void **context)
{
    (void)context;
    log_configure(LOG_FORMAT_JSON, LOG_LEVEL_DEBUG);
    capture_begin();
    log_write(LOG_LEVEL_DEBUG, "model \"loaded\"", "name", "a\\b", "path", "x\ny\x7f", NULL);
    char *line = capture_end();
    assert_int_equal(line[strlen(line) - 1], '\n');
    assert_ptr_equal(strchr(line, '\n'), line + strlen(line) - 1);
    json_t *object = parsed(line);
    assert_int_equal(json_object_size(object), 5);
    assert_int_equal(strlen(json_string_value(json_object_get(object, "time"))), 24);
    expect_key(object, "level", "debug");
    expect_key(object, "message", "model \"loaded\"");
    expect_key(object, "name", "a\\b");
    expect_key(object, "path", "x\ny\x7f");
    json_decref(object);
}

static void test_numbers_are_numbers_in_json(void **context)
{
    (void)context;
    log_configure(LOG_FORMAT_JSON, LOG_LEVEL_INFO);
    capture_begin();
    log_write(LOG_LEVEL_INFO, "m", LOG_INTEGER("least", INT64_MIN), "left out", NULL, LOG_DECIMAL("ms", 1.5),
              LOG_DECIMAL("none", (double)NAN), "text", "7", NULL);
    json_t *object = parsed(capture_end());
    assert_int_equal(json_object_size(object), 7);
    assert_true(json_integer_value(json_object_get(object, "least")) == INT64_MIN);
    assert_true(json_real_value(json_object_get(object, "ms")) == 1.5);
    assert_true(json_is_null(json_object_get(object, "none")));
    expect_key(object, "text", "7");
    json_decref(object);
    log_configure(LOG_FORMAT_TEXT, LOG_LEVEL_INFO);
    capture_begin();
    log_write(LOG_LEVEL_INFO, "m", LOG_INTEGER("n", -3), LOG_DECIMAL("ms", 0.0625), NULL);
    assert_string_equal(after_time(capture_end()), "INFO m n=-3 ms=0.062\n");
}

/* A line near the limit of its length contains the number completely or not at all. The JSON is valid. */
static void test_a_number_at_the_end_of_a_line_is_never_cut(void **context)
{
    (void)context;
    char value[4100];
    log_configure(LOG_FORMAT_JSON, LOG_LEVEL_INFO);
    for (int length = 3900; length < 4090; length++) {
        memset(value, 'x', (size_t)length);
        value[length] = '\0';
        capture_begin();
        log_write(LOG_LEVEL_INFO, "m", "value", value, LOG_INTEGER("n", 1234567890123), NULL);
        json_t *object = parsed(capture_end());
        const json_t *number = json_object_get(object, "n");
        assert_true(!number || json_integer_value(number) == 1234567890123);
        json_decref(object);
    }
}

/* Each call writes a line, or is counted in left_out of the next line. This holds for any duration of the calls. */
static void test_limited_lines_are_counted(void **context)
{
    (void)context;
    enum { CALLS = 100 };
    struct log_limit limit = {0}, other = {0};
    int64_t lines = 0, told = 0;
    log_configure(LOG_FORMAT_JSON, LOG_LEVEL_INFO);
    capture_begin();
    for (int i = 0; i <= CALLS; i++) {
        if (i == CALLS)
            usleep(1100000);
        log_write_limited(&limit, LOG_LEVEL_WARNING, "often", NULL);
        log_write_limited(&limit, LOG_LEVEL_DEBUG, "not at this level", NULL);
    }
    log_write_limited(&other, LOG_LEVEL_WARNING, "another", NULL);
    for (char *line = strtok(capture_end(), "\n"); line; line = strtok(NULL, "\n")) {
        json_t *object = parsed(line);
        bool often = strcmp(json_string_value(json_object_get(object, "message")), "often") == 0;
        assert_true(often || strstr(line, "another"));
        lines++;
        told += often ? 1 + json_integer_value(json_object_get(object, "left_out")) : 0;
        json_decref(object);
    }
    assert_int_equal(told, CALLS + 1);
    assert_true(lines >= 3 && lines < CALLS);
}

static void test_lines_below_the_level_are_not_written(void **context)
{
    (void)context;
    log_configure(LOG_FORMAT_TEXT, LOG_LEVEL_WARNING);
    assert_true(log_enabled(LOG_LEVEL_ERROR));
    assert_true(log_enabled(LOG_LEVEL_WARNING));
    assert_false(log_enabled(LOG_LEVEL_INFO));
    capture_begin();
    log_write(LOG_LEVEL_INFO, "unseen", NULL);
    log_write(LOG_LEVEL_DEBUG, "unseen", NULL);
    log_announce("listening on http://127.0.0.1:1", NULL);
    assert_string_equal(after_time(capture_end()), "INFO listening on http://127.0.0.1:1\n");
}

/* Each invalid byte becomes one U+FFFD: a single continuation byte, an overlong slash, a surrogate, a number beyond
 * U+10FFFF, and incomplete characters. */
static void test_invalid_utf8_becomes_replacement_characters(void **context)
{
    (void)context;
    static const struct {
        const char *bytes;
        int replaced;
    } cases[] = {{"\x80", 1},         {"\xc0\xaf", 2},         {"\xed\xa0\x80", 3}, {"\xf4\x90\x80\x80", 4},
                 {"\xf8", 1},         {"\xe2\x82", 2},         {"\xff", 1},         {"\xc3", 1},
                 {"\xf0\x9f\x98", 3}, {"\xf0\x8f\xbf\xbf", 4}, {"\xe0\x80\x80", 3}};
    log_configure(LOG_FORMAT_JSON, LOG_LEVEL_INFO);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char expected[64] = "a";
        for (int j = 0; j < cases[i].replaced; j++)
            strcat(expected, "\xef\xbf\xbd");
        strcat(expected, "b");
        char value[16];
        snprintf(value, sizeof value, "a%sb", cases[i].bytes);
        capture_begin();
        log_write(LOG_LEVEL_INFO, "m", "value", value, NULL);
        json_t *object = parsed(capture_end());
        expect_key(object, "value", expected);
        json_decref(object);
    }
}

/* The text format escapes characters that affect a terminal or a viewer: C1 controls, and the line ends of Unicode. */
static void test_control_characters_of_unicode_are_escaped(void **context)
{
    (void)context;
    log_configure(LOG_FORMAT_TEXT, LOG_LEVEL_INFO);
    capture_begin();
    log_write(LOG_LEVEL_INFO, "m", "a", "\xc2\x9b", "b", "\xe2\x80\xa8\xe2\x80\xa9", "c", "\xf0\x9f\x98\x80", NULL);
    assert_string_equal(after_time(capture_end()), "INFO m a=\\u009b b=\\u2028\\u2029 c=\xf0\x9f\x98\x80\n");
}

/* A line of text must be valid UTF-8, and each of its backslashes must begin this escape. "" stands for no escape. */
static void expect_whole_characters(const char *line, const char *escape)
{
    json_t *string = json_string(line); /* NULL if the line is not UTF-8 */
    assert_non_null(string);
    json_decref(string);
    for (const char *at = strchr(line, '\\'); at; at = strchr(at + strlen(escape), '\\'))
        if (!*escape || strncmp(at, escape, strlen(escape)) != 0)
            fail_msg("%s", at);
}

/* Logs values of many lengths around the limit of a line. The value must not be cut within a character or an escape. */
static void test_long_values_are_cut_between_characters(void **context)
{
    (void)context;
    char value[9000];
    static const char *const units[] = {"\xc3\xbc", "\n", "x", "\x1b"}, *const escapes[] = {"", "\\n", "", "\\u001b"};
    for (int kind = 0; kind < 4; kind++) {
        const char *unit = units[kind];
        for (int count = 1980; count < 4200; count += kind == 0 && count > 2100 ? 500 : 1) {
            size_t begin = (size_t)count / 2 % 6; /* moves the limit to each byte of a character or an escape */
            memset(value, 'x', begin);
            value[begin] = '\0';
            for (char *at = value + begin; at < value + begin + (size_t)count * strlen(unit); at += strlen(unit))
                strcpy(at, unit);
            log_configure(count % 2 ? LOG_FORMAT_JSON : LOG_FORMAT_TEXT, LOG_LEVEL_INFO);
            capture_begin();
            log_write(LOG_LEVEL_INFO, "m", "value", value, "next", "1", NULL);
            char *line = capture_end();
            assert_true(strlen(line) <= 4096);
            assert_ptr_equal(strchr(line, '\n'), line + strlen(line) - 1);
            bool whole = strstr(line, "next") != NULL;
            assert_true(whole || strstr(line, "\xe2\x80\xa6") || strlen(line) > 4070);
            if (count % 2)
                json_decref(parsed(line));
            else
                expect_whole_characters(line, escapes[kind]);
        }
    }
}

static void test_errno_is_kept(void **context)
{
    (void)context;
    log_configure(LOG_FORMAT_TEXT, LOG_LEVEL_INFO);
    capture_begin();
    close(STDERR_FILENO);
    errno = ENOENT;
    log_write(LOG_LEVEL_INFO, "nobody reads this", NULL);
    int found = errno;
    capture_end();
    assert_int_equal(found, ENOENT);
}

#define WRITERS 4
#define LINES_EACH 40

static void *write_lines(void *argument)
{
    char value[301];
    memset(value, *(const char *)argument, 300);
    value[300] = '\0';
    for (int i = 0; i < LINES_EACH; i++)
        log_write(LOG_LEVEL_INFO, "m", "value", value, NULL);
    return NULL;
}

static void test_lines_of_threads_stay_whole(void **context)
{
    (void)context;
    pthread_t threads[WRITERS];
    log_configure(LOG_FORMAT_JSON, LOG_LEVEL_INFO);
    capture_begin();
    for (int i = 0; i < WRITERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, write_lines, &"abcd"[i]), 0);
    for (int i = 0; i < WRITERS; i++)
        pthread_join(threads[i], NULL);
    int lines = 0;
    for (char *line = strtok(capture_end(), "\n"); line; line = strtok(NULL, "\n"), lines++) {
        json_t *object = parsed(line);
        const char *value = json_string_value(json_object_get(object, "value"));
        assert_int_equal(strlen(value), 300);
        assert_int_equal(strspn(value, (char[]){value[0], '\0'}), 300);
        json_decref(object);
    }
    assert_int_equal(lines, WRITERS * LINES_EACH);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_line_of_text_has_level_message_and_pairs),
        cmocka_unit_test(test_text_values_are_quoted_and_escaped),
        cmocka_unit_test(test_a_line_of_json_has_level_message_and_pairs),
        cmocka_unit_test(test_numbers_are_numbers_in_json),
        cmocka_unit_test(test_a_number_at_the_end_of_a_line_is_never_cut),
        cmocka_unit_test(test_limited_lines_are_counted),
        cmocka_unit_test(test_lines_below_the_level_are_not_written),
        cmocka_unit_test(test_invalid_utf8_becomes_replacement_characters),
        cmocka_unit_test(test_control_characters_of_unicode_are_escaped),
        cmocka_unit_test(test_long_values_are_cut_between_characters),
        cmocka_unit_test(test_errno_is_kept),
        cmocka_unit_test(test_lines_of_threads_stay_whole),
    };
    return cmocka_run_group_tests_name("log", tests, NULL, NULL);
}
