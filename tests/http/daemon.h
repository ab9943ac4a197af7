/* daemon: runs the real binary on a free port, and sends requests to it. The environment variable LINFORMERD names the
 * binary. The default is build/linformerd. Programs run in the repository's root. Any failure of these functions fails
 * the running test. */
#ifndef TESTS_HTTP_DAEMON_H
#define TESTS_HTTP_DAEMON_H

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h> /* cmocka.h needs the headers above */

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

struct daemon;

/* Starts the daemon with --port 0 and `arguments`. Returns when the daemon listens. `arguments` ends with NULL, and may
 * be NULL. If the variable LINFORMERD_MODEL is not set, and no argument begins with --model or --config, two models are
 * added: tests/models/bytes with the name "builtin", and weights/writer with the name "builtin-writer". In the model
 * "builtin", each byte of a text is a token. */
struct daemon *daemon_start(const char *const *arguments);
/* Like daemon_start, but adds no models. If no setting names a model, the daemon serves the models in its binary. */
struct daemon *daemon_start_built_in(const char *const *arguments);
#define ARGUMENTS(...) ((const char *const[]){__VA_ARGS__, NULL})

/* Options of a start. If all are zero, the start is like that of daemon_start. */
struct daemon_options {
    const char *const *arguments;
    int descriptors;                /* limit for open files, 0: no change */
    int ignored_signal;             /* signal that the daemon ignores from its start, as under nohup, 0: none */
    void (*restrict_process)(void); /* called in the child before the child executes the daemon, may be NULL */
    bool built_in;                  /* without a model in the arguments, serve the models in the binary */
    bool log_unread;                /* after the line "listening on", no thread reads the log */
};

/* Starts the daemon. Returns NULL if the daemon ended before it listened, as with "--check". *status is then the status
 * from waitpid. *said is the log up to this end, or up to the first line with "listening on". The caller frees
 * *said. */
struct daemon *daemon_open(const struct daemon_options *options, char **said, int *status);

/* Like daemon_open, but if the daemon ends before it listens, expects the status 1. `last_line` is then the last line
 * of its log, and the result is NULL. */
struct daemon *daemon_try(const struct daemon_options *options, char last_line[1024]);

/* Starts the daemon with `arguments`, and expects that it ends with status 1 before it listens. Returns the whole log,
 * which the caller frees. */
char *daemon_refused(const char *const *arguments);

/* Reads the next line of the log. The daemon must have been started with `log_unread`. Returns false if the daemon has
 * ended. */
bool daemon_log_line(struct daemon *daemon, char *line, size_t size);

/* Reads the log until a line contains `part`. daemon_wait_for_line returns this line. The caller frees it. */
char *daemon_wait_for_line(struct daemon *daemon, const char *part);
void daemon_expect_line(struct daemon *daemon, const char *part);

/* Sends SIGHUP, and reads the log until the end of the reload. One of the lines must contain `part`. If `part` is NULL,
 * the lines are not checked. */
void daemon_reload(struct daemon *daemon, const char *part);

int daemon_port(const struct daemon *daemon); /* 1 if the daemon listens only on Unix sockets */
int daemon_process(const struct daemon *daemon);
void daemon_freeze(struct daemon *daemon); /* stops the process until daemon_thaw */
void daemon_thaw(struct daemon *daemon);
void daemon_signal(struct daemon *daemon, int number);
void daemon_terminate(struct daemon *daemon); /* sends SIGTERM */
void daemon_join(struct daemon *daemon);      /* waits for the end, expects status 0, and frees the daemon */
void daemon_stop(struct daemon *daemon);      /* daemon_terminate and daemon_join */

/* The sanitizer of the daemon: "address", "thread" or "". The test program itself may run without one
 * (tests/run.sh). */
const char *daemon_sanitizer(void);

/* True if the daemon computes slowly: if it has a sanitizer, or if LINFORMERD_DEVICE is set, as for the CUDA shim and
 * for the PTX emulator. Programs may then leave out requests that run the same code of the daemon as other requests. */
bool daemon_is_slow(void);

/* ---- Requests through libcurl ---- */

struct answer {
    long status;          /* 0: no answer */
    int error;            /* CURLcode */
    long connects;        /* number of new connections for this request */
    char *headers, *body; /* each ends with a zero byte */
    size_t length;
    json_t *json; /* NULL if the body is not JSON */
};
void answer_free(struct answer *answer);

/* Value of a header, NULL if the answer lacks it. The caller frees the value. */
char *answer_header(const struct answer *answer, const char *name);

/* Expects that the answer has the header with this value. If `value` is NULL, expects that the answer lacks the
 * header. */
void expect_header(const struct answer *answer, const char *name, const char *value);

struct call {
    const char *method; /* NULL: POST if there is a body, otherwise GET */
    const char *path;
    const char *body;
    size_t length;           /* 0: strlen(body) */
    const char *headers[6];  /* "Name: value". "Name:" removes a header that curl adds */
    const char *host;        /* NULL: 127.0.0.1 */
    int port;                /* 0: the daemon's port */
    const char *unix_socket; /* path of a Unix socket, NULL: connect to the port */
    const char *trusted;     /* PEM file of the expected certificate, NULL: no TLS */
    void *curl;              /* an easy handle that keeps its connection, NULL: a new handle */
};
struct answer daemon_call(const struct daemon *daemon, const struct call *call);

/* Sends a POST with Content-Type: application/json. */
struct answer daemon_post(const struct daemon *daemon, const char *path, const char *body);
struct answer daemon_get(const struct daemon *daemon, const char *path);

/* Both expect 200 and JSON. The caller frees the JSON. */
json_t *daemon_post_json(const struct daemon *daemon, const char *path, const char *body);
json_t *daemon_get_json(const struct daemon *daemon, const char *path);

/* Returns the JSON in a file. Fails the test if the file cannot be read. The caller must free the result. */
json_t *json_of_file(const char *path);

/* Sends a POST, and expects a failure in the form of the native routes. Its message must contain `part`. */
void expect_failure(const struct daemon *daemon, const char *path, const char *body, long status, const char *type,
                    const char *part);
/* Expects that the answer is a failure in the form of the native routes. Frees the answer. */
void expect_failure_answer(struct answer *answer, long status, const char *type, const char *part);

double json_number_at(const json_t *list, size_t index);

/* ---- Raw sockets ---- */

int raw_connect(const struct daemon *daemon);
void raw_send(int descriptor, const char *text);

/* Sends all bytes. Returns false if the other side has closed the connection. */
bool raw_try_send(int descriptor, const char *bytes, size_t length);

/* Reads all bytes until the other side closes, and adds a zero byte. The caller frees the result. */
char *raw_read_all(int descriptor);

/* Reads one answer with a Content-Length: headers and body. A zero byte follows. The caller frees the result. */
char *raw_read_answer(int descriptor);

#endif
