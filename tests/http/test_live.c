/* SIGHUP makes the daemon read its settings and API keys again. Files with faults change nothing. */
#include "tests/http/checkpoint.h"
#include "tests/http/daemon.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char *folder;
static char keys[100], config[100];
static struct daemon *the_daemon;

static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(chmod(path, 0600), 0);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

static int start(void **state)
{
    (void)state;
    char *said;
    int status;
    folder = folder_make();
    snprintf(keys, sizeof keys, "%s/keys", folder);
    snprintf(config, sizeof config, "%s/config.json", folder);
    /* the hash is the output of: printf secret-c | sha256sum */
    write_file(keys, "# people\n\nalice:secret-a\n  secret-b  \r\n"
                     "carol:sha256:26d46203179f0c4ddf89791220bc5493aeceadbc1c34590ef45cd89d302e302e\n");
    write_file(config, "{\"max_client_batch_size\": 4, \"access_log\": true}");
    the_daemon = daemon_open(&(struct daemon_options){.arguments = ARGUMENTS("--config", config, "--api-key-file", keys,
                                                                             "--api-key", "secret-d"),
                                                      .log_unread = true},
                             &said, &status);
    assert_non_null(the_daemon);
    assert_null(strstr(said, "open to other users"));
    assert_null(strstr(said, "secret-"));
    free(said);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    daemon_stop(the_daemon);
    folder_remove(folder);
    return 0;
}

static long status_with(const char *key, const char *body)
{
    char header[200];
    snprintf(header, sizeof header, "Authorization: Bearer %s", key);
    struct answer answer = daemon_call(
        the_daemon,
        &(struct call){.path = "/embed", .body = body, .headers = {"Content-Type: application/json", header}});
    long status = answer.status;
    answer_free(&answer);
    return status;
}

/* True if /metrics says that the last reload was successful. */
static bool reload_was_successful(void)
{
    struct answer answer = daemon_get(the_daemon, "/metrics");
    assert_int_equal(answer.status, 200);
    const char *line = strstr(answer.body, "\nlinformerd_last_reload_successful ");
    assert_non_null(line);
    bool successful = strncmp(strchr(line, ' '), " 1\n", 3) == 0;
    assert_true(successful || strncmp(strchr(line, ' '), " 0\n", 3) == 0);
    /* Without TLS, this metric is missing. */
    assert_null(strstr(answer.body, "\nlinformerd_certificate_expiry_timestamp_seconds "));
    answer_free(&answer);
    return successful;
}

#define BODY "{\"inputs\": \"a\"}"

/* Sends a request with the key. Expects that the log line has `name` as the name of the key. If `name` is NULL, the
 * line must contain no name of a key. */
static void expect_name(const char *key, const char *name)
{
    char expected[100];
    assert_int_equal(status_with(key, BODY), 200);
    char *line = daemon_wait_for_line(the_daemon, " status=200 "); /* lines of refused requests may still arrive */
    snprintf(expected, sizeof expected, " key=%s ", name ? name : "");
    assert_true((strstr(line, expected) != NULL) == (name != NULL));
    assert_true((strstr(line, " key=") != NULL) == (name != NULL));
    free(line);
}

static void each_key_of_the_file_is_valid(void **state)
{
    (void)state;
    expect_name("secret-a", "alice");
    expect_name("secret-b", NULL);
    expect_name("secret-c", "carol");
    expect_name("secret-d", NULL); /* the key of --api-key */
    static const char *const wrong[] = {
        "secret-e",
        "alice:secret-a",
        "alice",
        "",
        "# people",
        "people",
        "26d46203179f0c4ddf89791220bc5493aeceadbc1c34590ef45cd89d302e302e",
        "sha256:26d46203179f0c4ddf89791220bc5493aeceadbc1c34590ef45cd89d302e302e",
    };
    for (size_t i = 0; i < LENGTH(wrong); i++)
        assert_int_equal(status_with(wrong[i], BODY), 401);
}

static void a_reload_adds_new_keys_and_removes_old_ones(void **state)
{
    (void)state;
    write_file(keys, "alice:secret-a\nalice:secret-n\n");
    daemon_reload(the_daemon, "API keys loaded");
    expect_name("secret-a", "alice");
    expect_name("secret-n", "alice");
    assert_int_equal(status_with("secret-b", BODY), 401);
    write_file(keys, "alice:secret-n\n");
    daemon_reload(the_daemon, "API keys loaded");
    assert_int_equal(status_with("secret-a", BODY), 401);
    assert_int_equal(status_with("secret-n", BODY), 200);
}

static void a_reload_with_bad_keys_changes_nothing(void **state)
{
    (void)state;
    static const struct {
        const char *text, *message;
    } bad[] = {
        {"alice:secret-n\nbob:two words\n", "line 2: a key of visible ASCII characters"},
        {":secret-x\n", "line 1: the name must have 1 to 63"},
        {"sha256:abc\n", "line 1: 64 hexadecimal digits"},
        {"alice:secret-x\nbob:secret-x\n", "line 2: the key is given twice"},
        {"# none\n", "contains no key, at least one was expected"},
    };
    for (size_t i = 0; i < LENGTH(bad); i++) {
        write_file(keys, bad[i].text);
        daemon_reload(the_daemon, bad[i].message);
        assert_int_equal(status_with("secret-n", BODY), 200);
        assert_int_equal(status_with("secret-x", BODY), 401);
        assert_false(reload_was_successful());
    }
    assert_int_equal(unlink(keys), 0);
    daemon_reload(the_daemon, "No such file");
    assert_int_equal(status_with("secret-n", BODY), 200);
    write_file(keys, "alice:secret-n\n");
    assert_int_equal(chmod(keys, 0644), 0);
    daemon_reload(the_daemon, "other users can access a file with secrets");
    assert_true(reload_was_successful());
}

static void changed_live_settings_apply_after_a_reload(void **state)
{
    (void)state;
    assert_int_equal(status_with("secret-n", "{\"inputs\": [\"a\", \"b\", \"c\", \"d\", \"e\"]}"), 422);
    write_file(config, "{\"max_client_batch_size\": 5, \"strict\": true}");
    daemon_reload(the_daemon, NULL);
    assert_int_equal(status_with("secret-n", "{\"inputs\": [\"a\", \"b\", \"c\", \"d\", \"e\"]}"), 200);
    assert_int_equal(status_with("secret-n", "{\"inputs\": \"a\", \"odd\": 1}"), 422);
}

static void changed_settings_that_need_a_restart_are_logged(void **state)
{
    (void)state;
    write_file(config, "{\"max_client_batch_size\": 4, \"max_batch_tokens\": 1000, \"http_threads\": 3}");
    daemon_signal(the_daemon, SIGHUP);
    daemon_expect_line(the_daemon, "a changed setting needs a restart setting=http-threads");
    daemon_expect_line(the_daemon, "a changed setting needs a restart setting=max-batch-tokens");
    daemon_expect_line(the_daemon, "reload ended");
    assert_int_equal(status_with("secret-n", "{\"inputs\": \"a\", \"odd\": 1}"), 200);
}

/* A settings file with a fault changes no setting. The keys are still read again. */
static void a_reload_with_bad_settings_changes_nothing(void **state)
{
    (void)state;
    write_file(config, "{\"max_client_batch_size\": 0}");
    write_file(keys, "alice:secret-m\n");
    assert_true(reload_was_successful());
    daemon_reload(the_daemon, "cannot reload; the old state is kept");
    assert_false(reload_was_successful());
    assert_int_equal(status_with("secret-m", "{\"inputs\": [\"a\", \"b\", \"c\", \"d\"]}"), 200);
    assert_int_equal(status_with("secret-m", "{\"inputs\": [\"a\", \"b\", \"c\", \"d\", \"e\"]}"), 422);
}

static void a_new_log_level_applies_after_a_reload(void **state)
{
    (void)state;
    write_file(config, "{\"log_level\": \"debug\"}");
    daemon_reload(the_daemon, NULL);
    assert_int_equal(status_with("secret-m", "nonsense"), 400);
    daemon_expect_line(the_daemon, "DEBUG request ");
}

static void name_keys(const char *file)
{
    char text[200];
    snprintf(text, sizeof text, "{\"api_key_file\": \"%s/%s\"}", folder, file);
    write_file(config, text);
}

/* If the settings cannot be read, the daemon keeps the file of keys of the last valid settings. Otherwise, keys that
 * the operator has replaced would become valid again. */
static void bad_settings_restore_no_former_keys(void **state)
{
    (void)state;
    struct daemon *former = the_daemon;
    char path[200], *said;
    int status;
    snprintf(path, sizeof path, "%s/former", folder);
    write_file(path, "secret-f\n");
    snprintf(path, sizeof path, "%s/later", folder);
    write_file(path, "secret-l\n");
    name_keys("former");
    the_daemon = daemon_open(&(struct daemon_options){.arguments = ARGUMENTS("--config", config), .log_unread = true},
                             &said, &status);
    assert_non_null(the_daemon);
    free(said);
    assert_int_equal(status_with("secret-f", BODY), 200);
    name_keys("later");
    daemon_reload(the_daemon, "API keys loaded");
    assert_int_equal(status_with("secret-f", BODY), 401);
    for (int i = 0; i < 2; i++) {
        write_file(config, "{");
        daemon_reload(the_daemon, "cannot reload; the old state is kept");
        assert_int_equal(status_with("secret-f", BODY), 401);
        assert_int_equal(status_with("secret-l", BODY), 200);
        name_keys("later");
        daemon_reload(the_daemon, "API keys loaded");
    }
    daemon_stop(the_daemon);
    the_daemon = former;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_key_of_the_file_is_valid),
        cmocka_unit_test(a_reload_adds_new_keys_and_removes_old_ones),
        cmocka_unit_test(a_reload_with_bad_keys_changes_nothing),
        cmocka_unit_test(changed_live_settings_apply_after_a_reload),
        cmocka_unit_test(changed_settings_that_need_a_restart_are_logged),
        cmocka_unit_test(a_reload_with_bad_settings_changes_nothing),
        cmocka_unit_test(a_new_log_level_applies_after_a_reload),
        cmocka_unit_test(bad_settings_restore_no_former_keys),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
