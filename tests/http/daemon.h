/* daemon: the real binary under test, on a free port, and clients of it. LINFORMERD names the binary; the default is
 * build/linformerd. Programs run in the repository's root.
 *
 * Everything here fails the running test when something does not go as it must. */
#ifndef TESTS_HTTP_DAEMON_H
#define TESTS_HTTP_DAEMON_H

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h> /* needs those before it */

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

struct daemon;

/* Starts it with --port 0 and `arguments`, ended with NULL; returns once it listens. NULL: no others. */
struct daemon *daemon_start(const char *const *arguments);
#define ARGUMENTS(...) ((const char *const[]){__VA_ARGS__, NULL})

/* What is unusual about a start. Zero is the usual. */
struct daemon_options {
    const char *const *arguments;
    int descriptors;                /* the limit of open files */
    int ignored_signal;             /* as nohup does it */
    void (*restrict_process)(void); /* called in the child, before the program is loaded; NULL: nothing */
    bool log_unread;                /* after "listening on" the log is read by daemon_log_line alone */
};

/* The same. NULL: it ended before it listened, and *status is as waitpid has it; with "--check" it always does. *said
 * is all that it wrote until then, which the test frees. */
struct daemon *daemon_open(const struct daemon_options *options, char **said, int *status);

/* The same. NULL: it ended with status 1 before it listened, and `last_line` is that of its log. */
struct daemon *daemon_try(const struct daemon_options *options, char last_line[1024]);

/* Starts it with `arguments`, and expects that it ends with status 1 before it listens. Returns all that it wrote,
 * which the test frees. */
char *daemon_refused(const char *const *arguments);

/* The next line of a log that is unread. False: the daemon has ended. */
bool daemon_log_line(struct daemon *daemon, char *line, size_t size);

int daemon_port(const struct daemon *daemon);
void daemon_freeze(struct daemon *daemon); /* it stands still until daemon_thaw */
void daemon_thaw(struct daemon *daemon);
void daemon_signal(struct daemon *daemon, int number);
void daemon_terminate(struct daemon *daemon); /* sends SIGTERM */
void daemon_join(struct daemon *daemon);      /* it ends by itself, with status 0; frees */
void daemon_stop(struct daemon *daemon);      /* both */

/* ---- Requests through libcurl ---- */

struct answer {
    long status;          /* 0: no answer */
    int error;            /* CURLcode */
    long connects;        /* connections that had to be made for it */
    char *headers, *body; /* terminated */
    size_t length;
    json_t *json; /* NULL: the body is none */
};
void answer_free(struct answer *answer);

/* Value of a header; NULL: there is none. The test frees it. */
char *answer_header(const struct answer *answer, const char *name);

struct call {
    const char *method; /* NULL: POST with a body, else GET */
    const char *path;
    const char *body;
    size_t length;          /* 0: strlen(body) */
    const char *headers[6]; /* "Name: value"; "Name:" takes one of curl's away */
    const char *host;       /* NULL: 127.0.0.1 */
    void *curl;             /* an easy handle that keeps its connection; NULL: one of its own */
};
struct answer daemon_call(const struct daemon *daemon, const struct call *call);

/* With Content-Type: application/json. */
struct answer daemon_post(const struct daemon *daemon, const char *path, const char *body);
struct answer daemon_get(const struct daemon *daemon, const char *path);

/* Posts, expects 200 and JSON, which the test frees. */
json_t *daemon_post_json(const struct daemon *daemon, const char *path, const char *body);

/* Posts and expects a failure in the native shape whose message contains `part`. */
void expect_failure(const struct daemon *daemon, const char *path, const char *body, long status, const char *type,
                    const char *part);
void expect_failure_answer(struct answer *answer, long status, const char *type, const char *part); /* frees it */

double json_number_at(const json_t *list, size_t index);

/* ---- Raw sockets ---- */

int raw_connect(const struct daemon *daemon);
void raw_send(int descriptor, const char *text);

/* Whether all of it went out; false: the other side does not take it any more. */
bool raw_try_send(int descriptor, const char *bytes, size_t length);

/* All that comes until the other side closes, terminated; the test frees it. */
char *raw_read_all(int descriptor);

/* One answer with a Content-Length, headers and body, terminated; the test frees it. */
char *raw_read_answer(int descriptor);

#endif
