/* TLS: encrypted connections, new certificates while the daemon serves, and invalid files. */
#include "tests/http/certificate.h"
#include "tests/http/checkpoint.h"
#include "tests/http/daemon.h"

#include <arpa/inet.h>
#include <curl/curl.h>
#include <gnutls/gnutls.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static char *folder;
static char used[100], key[100]; /* certificate file and key file that the daemon uses */
static char first[100], second[100], second_key[100], unix_path[100], hosts[140];
static struct daemon *the_daemon;

static void place(char *path, const char *name)
{
    snprintf(path, 100, "%s/%s", folder, name);
}

static void copy(const char *from, const char *to)
{
    char command[240];
    snprintf(command, sizeof command, "cp '%s' '%s'", from, to);
    assert_int_equal(system(command), 0);
}

static int start(void **state)
{
    (void)state;
    char *said;
    int status;
    folder = folder_make();
    place(used, "used.pem");
    place(key, "key.pem");
    place(first, "first.pem");
    place(second, "second.pem");
    place(second_key, "second_key.pem");
    place(unix_path, "d.sock");
    snprintf(hosts, sizeof hosts, "127.0.0.1,unix:%s", unix_path);
    certificate_write(first, key, -1, 10);
    certificate_write(second, second_key, -1, 20);
    copy(first, used);
    the_daemon =
        daemon_open(&(struct daemon_options){.arguments = ARGUMENTS("--host", hosts, "--tls-certificate", used,
                                                                    "--tls-key", key, "--payload-limit", "65536"),
                                             .log_unread = true},
                    &said, &status);
    assert_non_null(the_daemon);
    assert_non_null(strstr(said, "listening on https://127.0.0.1:"));
    assert_non_null(strstr(said, "other users can access a file with secrets"));
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

/* Returns the status, or 0 without an answer. An answer is missing, for example, if `trusted` is not the daemon's
 * certificate. */
static long embed(const char *trusted, const char *unix_socket, void *curl)
{
    struct answer answer = daemon_call(the_daemon, &(struct call){.path = "/embed",
                                                                  .body = "{\"inputs\": \"a text\"}",
                                                                  .headers = {"Content-Type: application/json"},
                                                                  .trusted = trusted,
                                                                  .unix_socket = unix_socket,
                                                                  .curl = curl});
    long status = answer.status;
    if (status != 0) /* curl also counts a failed connection */
        assert_true(curl == NULL || answer.connects <= 1);
    answer_free(&answer);
    return status;
}

static void requests_are_encrypted(void **state)
{
    (void)state;
    assert_int_equal(embed(first, NULL, NULL), 200);
    assert_int_equal(embed(second, NULL, NULL), 0);
    assert_int_equal(embed(NULL, NULL, NULL), 0);        /* without TLS */
    assert_int_equal(embed(NULL, unix_path, NULL), 200); /* a Unix socket needs no TLS */
}

static void large_answers_are_the_same_with_tls(void **state)
{
    (void)state;
    static char body[60000];
    size_t length = (size_t)snprintf(body, sizeof body, "{\"inputs\": [[5");
    while (length < 2000)
        length += (size_t)snprintf(body + length, sizeof body - length, ",5");
    length += (size_t)snprintf(body + length, sizeof body - length, "]]}");
    struct call call = {.path = "/embed_all", .body = body, .headers = {"Content-Type: application/json"}};
    call.unix_socket = unix_path;
    struct answer plain = daemon_call(the_daemon, &call);
    call.unix_socket = NULL;
    call.trusted = first;
    struct answer encrypted = daemon_call(the_daemon, &call);
    assert_int_equal(encrypted.status, 200);
    assert_true(encrypted.length > 500000);
    assert_string_equal(encrypted.body, plain.body);
    answer_free(&plain);
    answer_free(&encrypted);
}

/* libmicrohttpd accepts no answer before the end of a body. So the daemon writes this answer to the TLS session
 * itself. */
static void a_body_that_is_too_large_is_refused_before_its_end(void **state)
{
    (void)state;
    char *body = malloc(1 << 20);
    assert_non_null(body);
    memset(body, ' ', 1 << 20);
    struct answer answer =
        daemon_call(the_daemon, &(struct call){.path = "/embed",
                                               .body = body,
                                               .length = 1 << 20,
                                               .headers = {"Content-Type: application/json",
                                                           "Content-Length:", "Transfer-Encoding: chunked", "Expect:"},
                                               .trusted = first});
    free(body);
    expect_failure_answer(&answer, 413, "Validation", "--payload-limit");
}

static void streams_are_encrypted(void **state)
{
    (void)state;
    struct answer answer = daemon_call(
        the_daemon, &(struct call){.path = "/generate_stream",
                                   .body = "{\"inputs\": \"The\", \"parameters\": {\"max_new_tokens\": 30}}",
                                   .headers = {"Content-Type: application/json"},
                                   .trusted = first});
    assert_int_equal(answer.status, 200);
    assert_non_null(strstr(answer.body, "generated_text"));
    answer_free(&answer);
}

/* ---- Handshakes ---- */

/* Returns true if a handshake with these versions succeeds. */
static bool shakes_hands(const char *priorities)
{
    gnutls_session_t session;
    gnutls_certificate_credentials_t credentials;
    assert_int_equal(gnutls_certificate_allocate_credentials(&credentials), 0);
    assert_int_equal(gnutls_init(&session, GNUTLS_CLIENT), 0);
    assert_int_equal(gnutls_priority_set_direct(session, priorities, NULL), 0);
    assert_int_equal(gnutls_credentials_set(session, GNUTLS_CRD_CERTIFICATE, credentials), 0);
    int descriptor = raw_connect(the_daemon), status;
    gnutls_transport_set_int(session, descriptor);
    do
        status = gnutls_handshake(session);
    while (status < 0 && !gnutls_error_is_fatal(status));
    gnutls_deinit(session);
    gnutls_certificate_free_credentials(credentials);
    close(descriptor);
    return status == 0;
}

static void versions_of_tls_before_1_2_are_refused(void **state)
{
    (void)state;
    assert_true(shakes_hands("NORMAL:-VERS-ALL:+VERS-TLS1.3"));
    assert_true(shakes_hands("NORMAL:-VERS-ALL:+VERS-TLS1.2"));
    assert_false(shakes_hands("NORMAL:-VERS-ALL:+VERS-TLS1.1"));
    assert_false(shakes_hands("NORMAL:-VERS-ALL:+VERS-TLS1.0"));
}

/* Returns the seconds of processor time that the daemon has used. */
static double cpu_s(void)
{
    char path[64];
    unsigned long user = 0, system = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", daemon_process(the_daemon));
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%*d (%*[^)]) %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &system),
                     2);
    fclose(file);
    return (double)(user + system) / (double)sysconf(_SC_CLK_TCK);
}

/* The client sends the first bytes of a TLS record, and nothing more. */
static void a_client_that_pauses_in_its_handshake_costs_no_cpu(void **state)
{
    (void)state;
    static const char bytes[] = {22, 3, 1, 2, 0};
    int descriptor = raw_connect(the_daemon);
    assert_true(raw_try_send(descriptor, bytes, sizeof bytes));
    double before = cpu_s();
    sleep(2);
    double spent = cpu_s() - before;
    close(descriptor);
    if (spent > 0.25)
        fail_msg("expected at most 0.25 s of processor time in 2 s, found %g", spent);
}

/* ---- New certificates ---- */

/* /metrics contains the time at which the certificate in use expires. It must be `days` days from now, or up to an hour
 * less. */
static void expect_days(int days)
{
    struct answer answer = daemon_call(the_daemon, &(struct call){.path = "/metrics", .unix_socket = unix_path});
    assert_int_equal(answer.status, 200);
    const char *line = strstr(answer.body, "\nlinformerd_certificate_expiry_timestamp_seconds ");
    assert_non_null(line);
    long long end = strtoll(strchr(line, ' '), NULL, 10), now = (long long)time(NULL);
    assert_in_range(end, now + days * 86400LL - 3600, now + days * 86400LL);
    answer_free(&answer);
}

static void a_reload_replaces_the_certificate(void **state)
{
    (void)state;
    CURL *open = curl_easy_init();
    assert_int_equal(embed(first, NULL, open), 200);
    expect_days(10);
    copy(second, used);
    copy(second_key, key);
    daemon_reload(the_daemon, "certificate loaded");
    struct answer answer = daemon_call(
        the_daemon, &(struct call){.path = "/health", .trusted = first, .curl = open}); /* the connection stays open */
    assert_int_equal(answer.status, 200);
    assert_int_equal(answer.connects, 0);
    answer_free(&answer);
    curl_easy_cleanup(open);
    assert_int_equal(embed(second, NULL, NULL), 200);
    assert_int_equal(embed(first, NULL, NULL), 0);
    expect_days(20);
}

/* This test needs the certificates that a_reload_replaces_the_certificate has installed. */
static void a_reload_with_a_bad_certificate_keeps_the_old_one(void **state)
{
    (void)state;
    copy(first, used); /* the key file belongs to the second certificate */
    daemon_reload(the_daemon, "the key does not belong to the certificate");
    assert_int_equal(embed(second, NULL, NULL), 200);
    certificate_write(used, key, -10, -1);
    daemon_reload(the_daemon, "has expired");
    assert_int_equal(embed(second, NULL, NULL), 200);
    expect_days(20);
    assert_int_equal(unlink(used), 0);
    daemon_reload(the_daemon, "No such file");
    assert_int_equal(embed(second, NULL, NULL), 200);
}

static void expect_refusal(const char *certificate, const char *its_key, const char *part)
{
    char *said = daemon_refused(ARGUMENTS("--tls-certificate", certificate, "--tls-key", its_key));
    if (!strstr(said, part) || !strstr(said, folder))
        fail_msg("expected \"%s\", found %s", part, said);
    free(said);
}

static void bad_files_are_refused_by_name(void **state)
{
    (void)state;
    char certificate[100], its_key[100];
    place(certificate, "bad.pem");
    place(its_key, "bad_key.pem");
    certificate_write(certificate, its_key, -10, -1);
    expect_refusal(certificate, its_key, "bad.pem: certificate 1 has expired on ");
    certificate_write(certificate, its_key, 2, 5);
    expect_refusal(certificate, its_key, "bad.pem: certificate 1 is not valid before ");
    expect_refusal(second, its_key, "bad_key.pem: the key does not belong to the certificate in ");
    expect_refusal(its_key, its_key, "bad_key.pem: certificates in PEM format were expected");
    expect_refusal(second, second, "second.pem: a private key in PEM format was expected");
    assert_int_equal(unlink(its_key), 0);
    expect_refusal(second, its_key, "bad_key.pem");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_are_encrypted),
        cmocka_unit_test(large_answers_are_the_same_with_tls),
        cmocka_unit_test(a_body_that_is_too_large_is_refused_before_its_end),
        cmocka_unit_test(streams_are_encrypted),
        cmocka_unit_test(versions_of_tls_before_1_2_are_refused),
        cmocka_unit_test(a_client_that_pauses_in_its_handshake_costs_no_cpu),
        cmocka_unit_test(a_reload_replaces_the_certificate),
        cmocka_unit_test(a_reload_with_a_bad_certificate_keeps_the_old_one),
        cmocka_unit_test(bad_files_are_refused_by_name),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
