/* daemon: the real binary under test, on a free port, and its clients. LINFORMERD names the binary; the default is
 * build/linformerd. Programs run in the repository's root. Any failure here fails the running test. */
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

/* Starts the daemon with --port 0 and `arguments`, ended with NULL. Returns when it listens. `arguments` may be NULL.
 * If the arguments name no model, the daemon serves tests/models/bytes under the name "builtin", and weights/writer
 * under the name "builtin-writer". In the model "builtin", each byte of a text is a token. */
struct daemon *daemon_start(const char *const *arguments);
/* The same, but without a model in the arguments the daemon serves the models in its binary. */
struct daemon *daemon_start_built_in(const char *const *arguments);
#define ARGUMENTS(...) ((const char *const[]){__VA_ARGS__, NULL})

/* Options of a start. All zero: an ordinary start. */
struct daemon_options {
    const char *const *arguments;
    int descriptors;                /* the limit of open files */
    int ignored_signal;             /* as under nohup; 0: none */
    void (*restrict_process)(void); /* called in the child, before the program is loaded; NULL: nothing */
    bool built_in;                  /* without a model in the arguments, serve the models in the binary */
    bool log_unread;                /* after "listening on" only daemon_log_line reads the log */
};

/* Starts the daemon. NULL: it ended before it listened, as with "--check", and *status is waitpid's. *said is all that
 * it wrote until then; the test frees it. */
struct daemon *daemon_open(const struct daemon_options *options, char **said, int *status);

/* The same. NULL: it ended with status 1 before it listened, and `last_line` is the last line of its log. */
struct daemon *daemon_try(const struct daemon_options *options, char last_line[1024]);

/* Starts it with `arguments`, and expects that it ends with status 1 before it listens. Returns all that it wrote,
 * which the test frees. */
char *daemon_refused(const char *const *arguments);

/* The next line of a log that is unread. False: the daemon has ended. */
bool daemon_log_line(struct daemon *daemon, char *line, size_t size);

/* Reads the log until a line contains `part`. daemon_wait_for_line returns this line, which the test frees. */
char *daemon_wait_for_line(struct daemon *daemon, const char *part);
void daemon_expect_line(struct daemon *daemon, const char *part);

/* Sends SIGHUP, and reads the log until the end of the reload. A line must contain `part`. NULL stands for any lines.
 */
void daemon_reload(struct daemon *daemon, const char *part);

int daemon_port(const struct daemon *daemon); /* 1 if it listens only on Unix sockets */
int daemon_process(const struct daemon *daemon);
void daemon_freeze(struct daemon *daemon); /* stops the process until daemon_thaw */
void daemon_thaw(struct daemon *daemon);
void daemon_signal(struct daemon *daemon, int number);
void daemon_terminate(struct daemon *daemon); /* sends SIGTERM */
void daemon_join(struct daemon *daemon);      /* waits for its end, expects status 0, and frees it */
void daemon_stop(struct daemon *daemon);      /* both */

/* The sanitizer of the daemon, "address" or "thread", or "". The program itself may have none: tests/run.sh. */
const char *daemon_sanitizer(void);

/* Whether the daemon computes slowly, because it has a sanitizer or runs on the CUDA shim. Programs may then send fewer
 * requests that execute the same lines. */
bool daemon_is_slow(void);

/* ---- Requests through libcurl ---- */

struct answer {
    long status;          /* 0: no answer */
    int error;            /* CURLcode */
    long connects;        /* new connections that it needed */
    char *headers, *body; /* terminated */
    size_t length;
    json_t *json; /* NULL: the body is none */
};
void answer_free(struct answer *answer);

/* Value of a header; NULL: there is none. The test frees it. */
char *answer_header(const struct answer *answer, const char *name);

/* Expects that the answer has the header with this value. NULL: that it lacks the header. */
void expect_header(const struct answer *answer, const char *name, const char *value);

struct call {
    const char *method; /* NULL: POST with a body, else GET */
    const char *path;
    const char *body;
    size_t length;           /* 0: strlen(body) */
    const char *headers[6];  /* "Name: value"; "Name:" removes one of curl's own headers */
    const char *host;        /* NULL: 127.0.0.1 */
    int port;                /* 0: that of the daemon */
    const char *unix_socket; /* path of a Unix socket to connect to; NULL: the port */
    const char *trusted;     /* PEM file of the certificate to expect, over TLS; NULL: without TLS */
    void *curl;              /* an easy handle that keeps its connection; NULL: a new one */
};
struct answer daemon_call(const struct daemon *daemon, const struct call *call);

/* With Content-Type: application/json. */
struct answer daemon_post(const struct daemon *daemon, const char *path, const char *body);
struct answer daemon_get(const struct daemon *daemon, const char *path);

/* They expect 200 and JSON, which the test frees. */
json_t *daemon_post_json(const struct daemon *daemon, const char *path, const char *body);
json_t *daemon_get_json(const struct daemon *daemon, const char *path);

/* The JSON in a file. If it cannot be read, the test fails. The caller must free it. */
json_t *json_of_file(const char *path);

/* Posts and expects a failure in the native shape whose message contains `part`. */
void expect_failure(const struct daemon *daemon, const char *path, const char *body, long status, const char *type,
                    const char *part);
void expect_failure_answer(struct answer *answer, long status, const char *type, const char *part); /* frees it */

double json_number_at(const json_t *list, size_t index);

/* ---- Raw sockets ---- */

int raw_connect(const struct daemon *daemon);
void raw_send(int descriptor, const char *text);

/* Sends all bytes. False: the other side has closed the connection. */
bool raw_try_send(int descriptor, const char *bytes, size_t length);

/* All bytes until the other side closes, terminated. The test frees them. */
char *raw_read_all(int descriptor);

/* One answer with a Content-Length: headers and body, terminated. The test frees it. */
char *raw_read_answer(int descriptor);

#endif
