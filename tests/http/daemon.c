/* daemon: see daemon.h. */
#define _GNU_SOURCE /* pipe2 */
#include "tests/http/daemon.h"

#include "tests/sanitized.h"

#include <arpa/inet.h>
#include <curl/curl.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAX_ARGUMENTS = 32 };

struct daemon {
    pid_t process;
    int port;
    FILE *log;
    bool log_unread;
    /* Copies the rest of the log to stderr, so that the pipe never fills. With `log_unread`, this thread does not
     * exist. */
    pthread_t reader;
};

/* ---- The process ---- */

static void *pass_log_on(void *argument)
{
    struct daemon *daemon = argument;
    char line[1024];
    while (fgets(line, sizeof line, daemon->log))
        fputs(line, stderr);
    return NULL;
}

/* Reads the log up to the first line with "listening on", and writes what it reads to `said`. Returns the port, or 1
 * for a Unix socket. Returns 0 if the log ends before this line. */
static int read_port(FILE *log, FILE *said)
{
    char line[1024];
    while (fgets(line, sizeof line, log)) {
        const char *address = strstr(line, "listening on "), *colon;
        fputs(line, stderr);
        fputs(line, said);
        if (!address)
            continue;
        if (strstr(address, "listening on unix:"))
            return 1;
        colon = strrchr(address, ':'); /* the last colon, because an IPv6 address in brackets contains colons */
        return colon ? atoi(colon + 1) : 0;
    }
    return 0;
}

static void run_daemon(const struct daemon_options *options, int log, char **arguments)
{
    struct rlimit descriptors = {(rlim_t)options->descriptors, (rlim_t)options->descriptors};
    signal(SIGHUP, SIG_DFL); /* the test program may ignore SIGHUP, and the child inherits this */
    if (options->ignored_signal)
        signal(options->ignored_signal, SIG_IGN);
    if (options->descriptors)
        setrlimit(RLIMIT_NOFILE, &descriptors);
    else if (getrlimit(RLIMIT_NOFILE, &descriptors) == 0) {
        descriptors.rlim_cur = descriptors.rlim_max;
        setrlimit(RLIMIT_NOFILE, &descriptors);
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that fails leaves no daemon behind */
    /* The timeouts are long, because a slow machine must not fail a test. A flag on the command line overrides these
     * variables. */
    setenv("LINFORMERD_REQUEST_TIMEOUT_MS", "3600000", 1);
    setenv("LINFORMERD_CONNECTION_TIMEOUT_S", "3600", 1);
    setenv("LINFORMERD_CUDA_TUNING_MS", "0", 0); /* tuning would take long on the CUDA shim */
    /* The CPU is the default, even if there is a GPU. For test programs whose name ends in @cuda, tests/run.sh sets
     * this variable. */
    setenv("LINFORMERD_DEVICE", "cpu", 0);
    dup2(log, STDERR_FILENO);
    if (options->restrict_process)
        options->restrict_process();
    execv(arguments[0], arguments);
    perror(arguments[0]);
    _exit(127);
}

static bool names_model(const char *const *arguments)
{
    static const char *const options[] = {"--model", "--models", "--config"};
    for (; arguments && *arguments; arguments++)
        for (size_t i = 0; i < LENGTH(options); i++)
            if (strncmp(*arguments, options[i], strlen(options[i])) == 0)
                return true;
    return getenv("LINFORMERD_MODEL") != NULL;
}

/* Starts the process. Does not read its log. */
static struct daemon *launch(const struct daemon_options *options)
{
    const char *const *given = options->arguments;
    const char *binary = getenv("LINFORMERD");
    char *arguments[MAX_ARGUMENTS] = {(char *)(binary ? binary : "build/linformerd"), (char *)"--port", (char *)"0"};
    struct daemon *daemon = calloc(1, sizeof *daemon);
    int pipes[2], count = 3;
    assert_non_null(daemon);
    signal(SIGPIPE, SIG_IGN);
    curl_global_init(CURL_GLOBAL_ALL);
    static const char *const stand_ins[] = {"--model", "builtin=tests/models/bytes", "--model",
                                            "builtin-writer=weights/writer"};
    for (size_t i = 0; !options->built_in && !names_model(given) && i < LENGTH(stand_ins); i++)
        arguments[count++] = (char *)stand_ins[i];
    for (; given && *given; given++) {
        assert_true(count < MAX_ARGUMENTS - 1);
        arguments[count++] = (char *)*given;
    }
    assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
    daemon->process = fork();
    assert_true(daemon->process >= 0);
    if (daemon->process == 0)
        run_daemon(options, pipes[1], arguments);
    close(pipes[1]);
    daemon->log = fdopen(pipes[0], "r");
    assert_non_null(daemon->log);
    daemon->log_unread = options->log_unread;
    return daemon;
}

struct daemon *daemon_open(const struct daemon_options *options, char **said, int *status)
{
    struct daemon *daemon = launch(options);
    size_t length;
    FILE *text = open_memstream(said, &length);
    assert_non_null(text);
    daemon->port = read_port(daemon->log, text);
    assert_int_equal(fclose(text), 0);
    if (daemon->port == 0) {
        assert_int_equal(waitpid(daemon->process, status, 0), daemon->process);
        fclose(daemon->log);
        free(daemon);
        return NULL;
    }
    if (!daemon->log_unread)
        assert_int_equal(pthread_create(&daemon->reader, NULL, pass_log_on, daemon), 0);
    return daemon;
}

struct daemon *daemon_try(const struct daemon_options *options, char last_line[1024])
{
    char *said;
    int status;
    struct daemon *daemon = daemon_open(options, &said, &status);
    for (char *line = said; !daemon && *line; line += strcspn(line, "\n"), line += *line == '\n')
        snprintf(last_line, 1024, "%.*s", (int)strcspn(line, "\n") + 1, line);
    free(said);
    if (!daemon) {
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 1);
    }
    return daemon;
}

char *daemon_refused(const char *const *arguments)
{
    char *said;
    int status;
    assert_null(daemon_open(&(struct daemon_options){.arguments = arguments}, &said, &status));
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 1)
        fail_msg("expected exit status 1, found wait status %x: %s", (unsigned)status, said);
    return said;
}

static struct daemon *start(const struct daemon_options *options)
{
    char last_line[1024] = "";
    struct daemon *daemon = daemon_try(options, last_line);
    assert_non_null(daemon);
    return daemon;
}

struct daemon *daemon_start(const char *const *arguments)
{
    return start(&(struct daemon_options){.arguments = arguments});
}

struct daemon *daemon_start_built_in(const char *const *arguments)
{
    return start(&(struct daemon_options){.arguments = arguments, .built_in = true});
}

bool daemon_log_line(struct daemon *daemon, char *line, size_t size)
{
    assert_true(daemon->log_unread);
    return fgets(line, (int)size, daemon->log) != NULL;
}

char *daemon_wait_for_line(struct daemon *daemon, const char *part)
{
    char line[8192];
    while (daemon_log_line(daemon, line, sizeof line))
        if (strstr(line, part))
            return strdup(line);
    fail_msg("the log ended without: %s", part);
    return NULL;
}

void daemon_expect_line(struct daemon *daemon, const char *part)
{
    free(daemon_wait_for_line(daemon, part));
}

void daemon_reload(struct daemon *daemon, const char *part)
{
    char line[8192];
    bool found = part == NULL;
    daemon_signal(daemon, SIGHUP);
    do {
        assert_true(daemon_log_line(daemon, line, sizeof line));
        found = found || strstr(line, part);
    } while (!strstr(line, "reload ended"));
    if (!found)
        fail_msg("expected a line with \"%s\"", part);
}

const char *daemon_sanitizer(void)
{
    const char *given = getenv("SANITIZER");
    return given ? given : SANITIZER_OF_BUILD;
}

bool daemon_is_slow(void)
{
    return *daemon_sanitizer() || getenv("LINFORMERD_DEVICE");
}

int daemon_process(const struct daemon *daemon)
{
    return (int)daemon->process;
}

int daemon_port(const struct daemon *daemon)
{
    return daemon->port;
}

void daemon_freeze(struct daemon *daemon)
{
    int status;
    assert_int_equal(kill(daemon->process, SIGSTOP), 0);
    assert_int_equal(waitpid(daemon->process, &status, WUNTRACED), daemon->process);
    assert_true(WIFSTOPPED(status));
}

void daemon_thaw(struct daemon *daemon)
{
    assert_int_equal(kill(daemon->process, SIGCONT), 0);
}

void daemon_signal(struct daemon *daemon, int number)
{
    assert_int_equal(kill(daemon->process, number), 0);
}

void daemon_terminate(struct daemon *daemon)
{
    daemon_signal(daemon, SIGTERM);
}

void daemon_join(struct daemon *daemon)
{
    int status;
    if (daemon->log_unread)
        pass_log_on(daemon); /* the part that the test has not read may contain a report of a sanitizer */
    else
        pthread_join(daemon->reader, NULL);
    assert_int_equal(waitpid(daemon->process, &status, 0), daemon->process);
    fclose(daemon->log);
    free(daemon);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

void daemon_stop(struct daemon *daemon)
{
    daemon_terminate(daemon);
    daemon_join(daemon);
}

/* ---- Requests through libcurl ---- */

struct text {
    char *data;
    size_t length, capacity;
};

static size_t text_append(char *data, size_t size, size_t count, void *context)
{
    struct text *text = context;
    if (text->length + size * count + 1 > text->capacity) {
        text->capacity = 2 * (text->length + size * count + 1);
        text->data = realloc(text->data, text->capacity);
    }
    if (!text->data)
        return 0;
    memcpy(text->data + text->length, data, size * count);
    text->length += size * count;
    text->data[text->length] = '\0';
    return size * count;
}

static void set_options(CURL *curl, const struct call *call, const char *url, struct curl_slist *headers)
{
    bool head = call->method && strcmp(call->method, "HEAD") == 0;
    curl_easy_setopt(curl, CURLOPT_URL, url);
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_NOPROXY, "*");
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, text_append);
    curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, text_append);
    if (call->body) {
        curl_easy_setopt(curl, CURLOPT_POST, 1L);
        curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE,
                         (curl_off_t)(call->length ? call->length : strlen(call->body)));
        curl_easy_setopt(curl, CURLOPT_POSTFIELDS, call->body);
    } else {
        curl_easy_setopt(curl, head ? CURLOPT_NOBODY : CURLOPT_HTTPGET, 1L);
    }
    curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, head ? NULL : call->method);
}

struct answer daemon_call(const struct daemon *daemon, const struct call *call)
{
    CURL *curl = call->curl ? call->curl : curl_easy_init();
    struct curl_slist *headers = NULL;
    struct text head = {0}, body = {0};
    struct answer answer = {0};
    char url[8192];
    assert_non_null(curl);
    curl_easy_setopt(curl, CURLOPT_UNIX_SOCKET_PATH, call->unix_socket);
    curl_easy_setopt(curl, CURLOPT_CAINFO, call->trusted);
    snprintf(url, sizeof url, "%s://%s:%d%s", call->trusted ? "https" : "http", call->host ? call->host : "127.0.0.1",
             call->port ? call->port : daemon->port, call->path);
    for (size_t i = 0; i < LENGTH(call->headers) && call->headers[i]; i++)
        headers = curl_slist_append(headers, call->headers[i]);
    set_options(curl, call, url, headers);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, &body);
    curl_easy_setopt(curl, CURLOPT_HEADERDATA, &head);
    answer.error = (int)curl_easy_perform(curl);
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &answer.status);
    curl_easy_getinfo(curl, CURLINFO_NUM_CONNECTS, &answer.connects);
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, NULL);
    curl_slist_free_all(headers);
    if (!call->curl)
        curl_easy_cleanup(curl);
    answer.headers = head.data ? head.data : strdup("");
    answer.body = body.data ? body.data : strdup("");
    answer.length = body.length;
    answer.json = json_loadb(answer.body, answer.length, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    return answer;
}

void answer_free(struct answer *answer)
{
    json_decref(answer->json);
    free(answer->headers);
    free(answer->body);
    memset(answer, 0, sizeof *answer);
}

char *answer_header(const struct answer *answer, const char *name)
{
    size_t length = strlen(name);
    for (const char *line = answer->headers; line && *line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
        if (strncasecmp(line, name, length) == 0 && line[length] == ':') {
            const char *value = line + length + 1 + strspn(line + length + 1, " ");

            return strndup(value, strcspn(value, "\r\n"));
        }
    }
    return NULL;
}

void expect_header(const struct answer *answer, const char *name, const char *value)
{
    char *found = answer_header(answer, name);
    if (value)
        assert_string_equal(found ? found : "(no header)", value);
    else
        assert_null(found);
    free(found);
}

struct answer daemon_post(const struct daemon *daemon, const char *path, const char *body)
{
    return daemon_call(daemon,
                       &(struct call){.path = path, .body = body, .headers = {"Content-Type: application/json"}});
}

struct answer daemon_get(const struct daemon *daemon, const char *path)
{
    return daemon_call(daemon, &(struct call){.path = path});
}

/* Returns the JSON of an answer with status 200, and frees the answer. `body` is the body of the request, or "". */
static json_t *json_of_answer(struct answer *answer, const char *path, const char *body)
{
    if (answer->status != 200 || !answer->json)
        print_error("%s %s: %ld %s\n", path, body, answer->status, answer->body);
    assert_int_equal(answer->status, 200);
    assert_non_null(answer->json);
    json_t *json = json_incref(answer->json);
    answer_free(answer);
    return json;
}

json_t *daemon_post_json(const struct daemon *daemon, const char *path, const char *body)
{
    struct answer answer = daemon_post(daemon, path, body);
    return json_of_answer(&answer, path, body);
}

json_t *daemon_get_json(const struct daemon *daemon, const char *path)
{
    struct answer answer = daemon_get(daemon, path);
    return json_of_answer(&answer, path, "");
}

void expect_failure_answer(struct answer *answer, long status, const char *type, const char *part)
{
    const char *message = json_string_value(json_object_get(answer->json, "error"));
    const char *found_type = json_string_value(json_object_get(answer->json, "error_type"));
    if (answer->status != status || !message || !strstr(message, part))
        print_error("expected %ld \"%s\", found %ld (curl %d) %s\n", status, part, answer->status, answer->error,
                    answer->body);
    assert_int_equal(answer->status, status);
    assert_non_null(message);
    assert_non_null(strstr(message, part));
    assert_non_null(found_type);
    assert_string_equal(found_type, type);
    assert_int_equal(json_object_size(answer->json), 2);
    answer_free(answer);
}

void expect_failure(const struct daemon *daemon, const char *path, const char *body, long status, const char *type,
                    const char *part)
{
    struct answer answer = daemon_post(daemon, path, body);
    expect_failure_answer(&answer, status, type, part);
}

double json_number_at(const json_t *list, size_t index)
{
    const json_t *number = json_array_get(list, index);
    assert_true(json_is_number(number));
    return json_number_value(number);
}

/* ---- Raw sockets ---- */

int raw_connect(const struct daemon *daemon)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)daemon->port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(descriptor >= 0);
    assert_int_equal(connect(descriptor, (struct sockaddr *)&address, sizeof address), 0);
    return descriptor;
}

bool raw_try_send(int descriptor, const char *bytes, size_t length)
{
    while (length > 0) {
        ssize_t sent = send(descriptor, bytes, length, MSG_NOSIGNAL);

        if (sent < 0 && errno == EINTR)
            continue;
        if (sent <= 0)
            return false;
        bytes += sent;
        length -= (size_t)sent;
    }
    return true;
}

void raw_send(int descriptor, const char *text)
{
    assert_true(raw_try_send(descriptor, text, strlen(text)));
}

char *raw_read_all(int descriptor)
{
    struct text text = {0};
    char part[4096];
    ssize_t length;
    text_append(part, 1, 0, &text);
    while ((length = recv(descriptor, part, sizeof part, 0)) > 0)
        text_append(part, 1, (size_t)length, &text);
    if (length < 0)
        print_error("recv: %s after: %s\n", strerror(errno), text.data);
    assert_int_equal(length, 0);
    return text.data;
}

char *raw_read_answer(int descriptor)
{
    struct text text = {0};
    size_t wanted = 0;
    char byte;
    while (wanted == 0 || text.length < wanted) {
        assert_int_equal(recv(descriptor, &byte, 1, 0), 1);
        text_append(&byte, 1, 1, &text);
        if (wanted == 0 && text.length > 4 && memcmp(text.data + text.length - 4, "\r\n\r\n", 4) == 0) {
            const char *length = strcasestr(text.data, "\r\nContent-Length:");

            wanted = text.length + (length ? (size_t)atol(length + 17) : 0);
        }
    }
    return text.data;
}

json_t *json_of_file(const char *path)
{
    json_error_t error;
    json_t *json = json_load_file(path, JSON_ALLOW_NUL, &error);
    if (!json)
        fail_msg("%s:%d: %s", path, error.line, error.text);
    return json;
}
