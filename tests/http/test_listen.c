/* Sockets: Unix sockets, sockets that the daemon inherits, and restarts without a lost request. */
#define _GNU_SOURCE /* SOCK_CLOEXEC */
#include "tests/http/checkpoint.h"
#include "tests/http/daemon.h"

#include <arpa/inet.h>
#include <curl/curl.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum { CLIENTS = 8, SOME_ANSWERS = 40 };

static char *folder;
static char path[100], host[120]; /* path of a Unix socket, and its address with "unix:" */

static int open_folder(void **state)
{
    (void)state;
    folder = folder_make();
    snprintf(path, sizeof path, "%s/d.sock", folder);
    snprintf(host, sizeof host, "unix:%s", path);
    return 0;
}

static int close_folder(void **state)
{
    (void)state;
    folder_remove(folder);
    return 0;
}

static long status_of(const struct daemon *daemon, const char *unix_socket)
{
    struct answer answer = daemon_call(daemon, &(struct call){.path = "/health", .unix_socket = unix_socket});
    long status = answer.status;
    answer_free(&answer);
    return status;
}

/* ---- Unix sockets ---- */

static void a_unix_socket_is_served_and_finally_removed(void **state)
{
    (void)state;
    struct stat status;
    struct daemon *daemon = daemon_start(ARGUMENTS("--host", host, "--unix-socket-mode", "600"));
    assert_int_equal(status_of(daemon, path), 200);
    assert_int_equal(stat(path, &status), 0);
    assert_true(S_ISSOCK(status.st_mode));
    assert_int_equal(status.st_mode & 0777, 0600);
    daemon_stop(daemon);
    assert_int_equal(access(path, F_OK), -1);
}

static void a_port_and_a_unix_socket_are_served_together(void **state)
{
    (void)state;
    char hosts[140];
    snprintf(hosts, sizeof hosts, "127.0.0.1,%s", host);
    struct daemon *daemon = daemon_start(ARGUMENTS("--host", hosts));
    assert_int_equal(status_of(daemon, path), 200);
    assert_int_equal(status_of(daemon, NULL), 200);
    daemon_stop(daemon);
}

/* The log names the clients of a Unix socket. */
static void the_log_names_the_client(void **state)
{
    (void)state;
    char *said;
    int status;
    struct daemon *daemon = daemon_open(
        &(struct daemon_options){.arguments = ARGUMENTS("--host", host, "--access-log"), .log_unread = true}, &said,
        &status);
    assert_non_null(daemon);
    free(said);
    assert_int_equal(status_of(daemon, path), 200);
    daemon_expect_line(daemon, "request client=unix ");
    daemon_stop(daemon);
}

static int bind_here(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    return fd;
}

static void a_stale_socket_is_replaced(void **state)
{
    (void)state;
    close(bind_here());
    struct daemon *daemon = daemon_start(ARGUMENTS("--host", host));
    assert_int_equal(status_of(daemon, path), 200);
    daemon_stop(daemon);
}

static void refused_with(const char *const *arguments, const char *part)
{
    char *said = daemon_refused(arguments);
    if (!strstr(said, part))
        fail_msg("expected \"%s\", found %s", part, said);
    free(said);
}

static void a_path_in_use_is_refused(void **state)
{
    (void)state;
    int fd = bind_here();
    assert_int_equal(listen(fd, 1), 0);
    refused_with(ARGUMENTS("--host", host), "another process listens on it");
    assert_int_equal(access(path, F_OK), 0);
    close(fd);
    unlink(path);

    fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    assert_int_equal(write(fd, "data", 4), 4);
    close(fd);
    refused_with(ARGUMENTS("--host", host), "the path exists, and is not a socket");
    struct stat status;
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(status.st_size, 4);
    unlink(path);
    refused_with(ARGUMENTS("--host", "unix:/nowhere/d.sock"), "/nowhere/d.sock: No such file or directory");
    refused_with(ARGUMENTS("--host", "127.0.0.1,,::1"), "a list of 1 to");
}

/* ---- Load ---- */

struct load {
    int port;
    const char *unix_socket;
    char *expected;
    pthread_t threads[CLIENTS];
    _Atomic int started, answered, failed;
    _Atomic bool over;
};

static struct answer embed(const struct load *load, void *curl)
{
    return daemon_call(NULL, &(struct call){.path = "/embed",
                                            .body = "{\"inputs\": \"a text\"}",
                                            .headers = {"Content-Type: application/json"},
                                            .port = load->port,
                                            .unix_socket = load->unix_socket,
                                            .curl = curl});
}

static void *client(void *argument)
{
    struct load *load = argument;
    bool keeps = atomic_fetch_add(&load->started, 1) % 2;
    CURL *curl = keeps ? curl_easy_init() : NULL;
    while (!atomic_load(&load->over)) {
        struct answer answer = embed(load, curl);
        if (answer.status == 200 && strcmp(answer.body, load->expected) == 0) {
            atomic_fetch_add(&load->answered, 1);
        } else {
            atomic_fetch_add(&load->failed, 1);
            fprintf(stderr, "failed: status %ld, curl %d, %s\n", answer.status, answer.error, answer.body);
        }
        answer_free(&answer);
    }
    curl_easy_cleanup(curl);
    return NULL;
}

static void load_begin(struct load *load)
{
    struct answer answer = embed(load, NULL);
    assert_int_equal(answer.status, 200);
    load->expected = strdup(answer.body);
    answer_free(&answer);
    for (int i = 0; i < CLIENTS; i++)
        assert_int_equal(pthread_create(&load->threads[i], NULL, client, load), 0);
}

/* Waits until the clients have received SOME_ANSWERS more answers, or until a request has failed. */
static void load_wait(struct load *load)
{
    int until = atomic_load(&load->answered) + SOME_ANSWERS;
    while (atomic_load(&load->answered) < until && atomic_load(&load->failed) == 0)
        usleep(1000);
}

static void load_end(struct load *load)
{
    atomic_store(&load->over, true);
    for (int i = 0; i < CLIENTS; i++)
        pthread_join(load->threads[i], NULL);
    assert_int_equal(atomic_load(&load->failed), 0);
    free(load->expected);
}

/* ---- Restarts ---- */

/* The drain delay is much longer than a test, so a slow machine cannot exceed it. No test waits for its end. */
#define PATIENT "--drain-delay-ms", "600000"

/* Replaces the daemon three times by a new one. A new daemon starts while the previous one still serves. */
static void replace(struct load *load, const char *const *arguments)
{
    struct daemon *daemon = daemon_start(arguments);
    load->port = daemon_port(daemon);
    load_begin(load);
    for (int i = 0; i < 3; i++) {
        load_wait(load);
        struct daemon *next = daemon_start(arguments);
        load_wait(load);
        daemon_stop(daemon);
        load_wait(load);
        daemon = next;
    }
    load_end(load);
    daemon_stop(daemon);
}

/* Reserves a free port. The port stays reserved while the returned socket is open. */
static int reserve_port(char port[8])
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &one, sizeof one), 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &length), 0);
    snprintf(port, 8, "%d", ntohs(address.sin_port));
    return fd;
}

static void a_second_daemon_takes_over_the_port(void **state)
{
    (void)state;
    char port[8];
    struct load load = {.unix_socket = NULL};
    int reserved = reserve_port(port);
    replace(&load, ARGUMENTS("--reuse-port", "--port", port, PATIENT));
    close(reserved);
}

static void a_second_daemon_takes_over_the_unix_socket(void **state)
{
    (void)state;
    struct load load = {.unix_socket = path};
    replace(&load, ARGUMENTS("--reuse-port", "--host", host, PATIENT));
    assert_int_equal(access(path, F_OK), -1);
}

static void without_the_flag_the_port_is_in_use(void **state)
{
    (void)state;
    char port[8];
    struct daemon *daemon = daemon_start(ARGUMENTS("--reuse-port"));
    snprintf(port, sizeof port, "%d", daemon_port(daemon));
    refused_with(ARGUMENTS("--port", port), "Address already in use");
    daemon_stop(daemon);
}

/* ---- Sockets of the service manager ---- */

static int inherited; /* the descriptor that the daemon inherits */
static const char *inherited_count = "1";

static void give_socket(void)
{
    char process[16];
    snprintf(process, sizeof process, "%d", (int)getpid());
    setenv("LISTEN_PID", process, 1);
    setenv("LISTEN_FDS", inherited_count, 1);
    setenv("LISTEN_FDNAMES", "web", 1);
    if (inherited == 3)
        fcntl(3, F_SETFD, 0);
    else
        dup2(inherited, 3);
}

static struct daemon *start_with_socket(void)
{
    char last_line[1024];
    return daemon_try(&(struct daemon_options){.restrict_process = give_socket, .arguments = ARGUMENTS(PATIENT)},
                      last_line);
}

/* While no daemon runs, clients wait for an answer. */
static void a_restart_with_an_inherited_socket_loses_no_request(void **state)
{
    (void)state;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    inherited = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(inherited, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(inherited, 100), 0);
    struct daemon *daemon = start_with_socket();
    assert_non_null(daemon);
    struct load load = {.port = daemon_port(daemon)};
    load_begin(&load);
    for (int i = 0; i < 3; i++) {
        load_wait(&load);
        daemon_stop(daemon);
        daemon = start_with_socket();
        assert_int_equal(daemon_port(daemon), load.port);
        load_wait(&load);
    }
    load_end(&load);
    daemon_stop(daemon);
    close(inherited);
}

static void a_descriptor_that_does_not_listen_is_refused(void **state)
{
    (void)state;
    char last_line[1024];
    inherited = open("/dev/null", O_RDONLY | O_CLOEXEC);
    assert_null(daemon_try(&(struct daemon_options){.restrict_process = give_socket}, last_line));
    assert_non_null(strstr(last_line, "descriptor 3 (web) is not a listening stream socket"));
    inherited_count = "many";
    assert_null(daemon_try(&(struct daemon_options){.restrict_process = give_socket}, last_line));
    assert_non_null(strstr(last_line, "LISTEN_FDS is 'many'"));
    inherited_count = "1";
    close(inherited);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_unix_socket_is_served_and_finally_removed),
        cmocka_unit_test(a_port_and_a_unix_socket_are_served_together),
        cmocka_unit_test(the_log_names_the_client),
        cmocka_unit_test(a_stale_socket_is_replaced),
        cmocka_unit_test(a_path_in_use_is_refused),
        cmocka_unit_test(a_second_daemon_takes_over_the_port),
        cmocka_unit_test(a_second_daemon_takes_over_the_unix_socket),
        cmocka_unit_test(without_the_flag_the_port_is_in_use),
        cmocka_unit_test(a_restart_with_an_inherited_socket_loses_no_request),
        cmocka_unit_test(a_descriptor_that_does_not_listen_is_refused),
    };
    return cmocka_run_group_tests(tests, open_folder, close_folder);
}
