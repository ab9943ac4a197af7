/* The table of headers in docs/http-api.md lists each header that the daemon sends in the exchanges below, and no
 * other. */
#include "tests/http/daemon.h"
#include "tests/http/document.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define PAGE "docs/http-api.md"
#define TABLE "| header | answers with this header |"
#define KEY "Authorization: Bearer secret"
#define ORIGIN "Origin: https://a.example"
#define JSON "Content-Type: application/json"
#define INFER "/v2/models/builtin/infer"
#define TEXT "{\"name\": \"x\", \"datatype\": \"BYTES\", \"shape\": [1], \"data\": [\"a\"]}"

/* Names of headers. Names that differ only in upper and lower case are equal. */
struct names {
    size_t count;
    char names[64][64];
};

static bool has_name(const struct names *names, const char *name)
{
    for (size_t i = 0; i < names->count; i++)
        if (strcasecmp(names->names[i], name) == 0)
            return true;
    return false;
}

static void add_name(struct names *names, const char *name, size_t length)
{
    char text[64];
    assert_true(length > 0 && length < sizeof text && names->count < LENGTH(names->names));
    snprintf(text, sizeof text, "%.*s", (int)length, name);
    if (!has_name(names, text))
        strcpy(names->names[names->count++], text);
}

/* Adds the names of an answer's headers. All lines but the first have the form "name: value". */
static void add_names_of(struct names *names, struct answer *answer, long status)
{
    if (answer->status != status)
        fail_msg("expected status %ld, found %ld: %s", status, answer->status, answer->body);
    for (const char *line = strchr(answer->headers, '\n'); line && line[1] && line[1] != '\r';
         line = strchr(line + 1, '\n'))
        add_name(names, line + 1, strcspn(line + 1, ":"));
    answer_free(answer);
}

static struct names sent_by_daemon(void)
{
    static const struct {
        struct call call;
        long status;
    } exchanges[] = {
        {{.path = "/", .headers = {KEY, "Accept: text/html", "Accept-Encoding: gzip"}}, 200},
        {{.path = "/embed", .body = "{\"inputs\": \"a\", \"nothing\": 1}", .headers = {KEY, JSON, ORIGIN}}, 200},
        {{.path = "/embed", .headers = {KEY}}, 405},
        {{.path = "/embed", .body = "{\"inputs\": \"a\"}", .headers = {JSON}}, 401},
        {{.path = "/embed", .method = "OPTIONS", .headers = {ORIGIN, "Access-Control-Request-Method: POST"}}, 204},
        {{.path = "/nowhere", .headers = {KEY}}, 404},
        {{.path = "/generate_stream",
          .body = "{\"inputs\": \"a\", \"parameters\": {\"max_new_tokens\": 1}}",
          .headers = {KEY, JSON}},
         200},
        {{.path = INFER,
          .body = "{\"inputs\": [" TEXT "], \"parameters\": {\"binary_data_output\": true}}",
          .headers = {KEY, "Accept-Encoding: gzip"}},
         200},
        {{.path = "/v2/models/builtin/attention.png?text=a", .headers = {KEY}}, 200},
        {{.path = "/metrics", .headers = {KEY}}, 200},
        {{.path = "/openapi.json", .headers = {KEY}}, 200},
    };
    struct daemon *daemon = daemon_start(
        ARGUMENTS("--api-key", "secret", "--cors-allow-origin", "https://a.example", "--drain-delay-ms", "3600000"));
    struct names names = {0};
    for (size_t i = 0; i < LENGTH(exchanges); i++) {
        struct answer answer = daemon_call(daemon, &exchanges[i].call);
        add_names_of(&names, &answer, exchanges[i].status);
    }
    daemon_terminate(daemon);
    struct answer answer = {0};
    do { /* repeats until the daemon has received the signal */
        answer_free(&answer);
        answer = daemon_get(daemon, "/health/ready");
    } while (answer.status != 503);
    add_names_of(&names, &answer, 503); /* adds Retry-After and Connection */
    daemon_signal(daemon, SIGINT);
    daemon_join(daemon);
    return names;
}

/* Returns the names in the first column of the table. Each name is between grave accents. */
static struct names listed_in_page(void)
{
    char *page = document_read(PAGE);
    const char *line = strstr(page, TABLE);
    assert_non_null(line);
    struct names names = {0};
    line = strchr(strchr(line, '\n') + 1, '\n') + 1;
    for (; *line == '|'; line = strchr(line, '\n') + 1) {
        const char *end = strchr(line + 1, '|');
        for (const char *at = strchr(line, '`'); at && at < end; at = strchr(at, '`')) {
            size_t length = strcspn(++at, "`");
            add_name(&names, at, length);
            at += length + 1;
        }
    }
    free(page);
    return names;
}

/* Prints the names that `these` contains and `those` lacks. Returns their number. */
static int only_in(const struct names *these, const struct names *those, const char *what)
{
    int count = 0;
    for (size_t i = 0; i < these->count; i++)
        if (!has_name(those, these->names[i])) {
            print_error("%s: %s %s\n", PAGE, these->names[i], what);
            count++;
        }
    return count;
}

static void the_api_page_lists_the_headers_that_are_sent(void **state)
{
    (void)state;
    struct names listed = listed_in_page(), sent = sent_by_daemon();
    int differences = only_in(&sent, &listed, "is sent, but not in the table") +
                      only_in(&listed, &sent, "is in the table, but was not sent");
    assert_int_equal(differences, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_api_page_lists_the_headers_that_are_sent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
