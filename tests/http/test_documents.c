/* Runs every command of README.md and docs/, and compares its output with the page. The arguments of the daemon are
 * those of the last command `linformerd …` above on the page. Without such a command, the daemon serves the built-in
 * models. It listens on a free port, which replaces localhost:8080 in the commands. */
#include "server/dialects/dialects.h"
#include "tests/http/daemon.h"
#include "tests/http/document.h"

#include <glob.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ADDRESS "localhost:8080"

static glob_t pages;

/* ---- Running a page's commands ---- */

/* Returns the output of a shell command: standard output, and standard error if the command redirects it there. The
 * caller frees it. */
static char *shell_output(const char *command)
{
    char *text = NULL;
    size_t size = 0;
    FILE *pipe = popen(command, "re");
    assert_non_null(pipe);
    ssize_t length = getdelim(&text, &size, '\0', pipe);
    pclose(pipe);
    return length < 0 ? strcpy(realloc(text, 1), "") : text;
}

/* The command with the daemon's address instead of the address on the page. The caller frees it. */
static char *with_port(const char *command, int port)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    for (const char *at; (at = strstr(command, ADDRESS)); command = at + strlen(ADDRESS))
        fprintf(out, "%.*s127.0.0.1:%d", (int)(at - command), command, port);
    fputs(command, out);
    fclose(out);
    return text;
}

/* Starts the daemon with the arguments of the page's command. */
static struct daemon *start_as_told(const char *command)
{
    const char *arguments[32];
    size_t count = 0;
    char *words = strdup(command), *rest = NULL;
    strtok_r(words, " \\\n", &rest);
    for (char *word; (word = strtok_r(NULL, " \\\n", &rest)) && count < LENGTH(arguments) - 1;)
        arguments[count++] = word;
    arguments[count] = NULL;
    struct daemon *daemon = daemon_start_built_in(arguments);
    free(words);
    return daemon;
}

static bool starts_daemon(const struct document_command *command)
{
    static const char *const others[] = {"--explain", "--check", "--help", "--version", "|", "2>"};
    if (strncmp(command->text, "linformerd", 10) != 0)
        return false;
    for (size_t i = 0; i < LENGTH(others); i++)
        if (strstr(command->text, others[i]))
            return false;
    if (*command->output)
        fail_msg("line %d: what a daemon that serves prints is not compared, so the page cannot show it",
                 command->line);
    return true;
}

static bool run_command(const struct document_command *command, const struct daemon *daemon, const char *path)
{
    char *text = with_port(command->text, daemon ? daemon_port(daemon) : 0);
    char *found = shell_output(text);
    bool matches = document_matches(command->output, found);
    if (!matches)
        fprintf(stderr, "%s:%d: %sexpected:\n%sfound:\n%s\n", path, command->line, command->text, command->output,
                found);
    free(found);
    free(text);
    return matches;
}

static void stop_daemon(struct daemon *daemon)
{
    if (daemon)
        daemon_stop(daemon);
}

/* Runs the commands of a page one after another. */
static void run_page(const char *path)
{
    char *page = document_read(path);
    size_t count;
    struct document_command *commands = document_commands(page, &count);
    struct daemon *daemon = NULL;
    int wrong = 0;
    for (size_t i = 0; i < count; i++) {
        if (starts_daemon(&commands[i])) {
            stop_daemon(daemon);
            daemon = start_as_told(commands[i].text);
            continue;
        }
        if (!daemon && strstr(commands[i].text, ADDRESS))
            daemon = daemon_start_built_in(NULL);
        wrong += !run_command(&commands[i], daemon, path);
    }
    stop_daemon(daemon);
    document_commands_free(commands, count);
    free(page);
    assert_int_equal(wrong, 0);
}

/* ---- The tests ---- */

static void commands_print_what_the_page_shows(void **state)
{
    run_page(*state);
}

/* True if this command of curl sends a request to the route. */
static bool asks_route(const char *command, const struct route *route)
{
    const char *url = strstr(command, ADDRESS);
    bool posts = strstr(command, "--json") || strstr(command, "--data") || strstr(command, "-X POST");
    char path[256];
    struct route_match match;
    if (!url)
        return false;
    url += strlen(ADDRESS);
    snprintf(path, sizeof path, "%.*s", (int)strcspn(url, " \n'\"?"), url);
    routes_find(all_dialects, posts ? "POST" : "GET", path, &match);
    return match.route == route;
}

/* Writes the path of a route in the form of the page. The first {} is a model, the second {} is its version. */
static void page_path(const struct route *route, char path[128])
{
    static const char *const names[] = {"{model}", "{version}"};
    size_t length = 0;
    int hole = 0;
    for (const char *at = route->path; *at && length < 100; at++) {
        bool is_hole = strncmp(at, "{}", 2) == 0;
        length += (size_t)sprintf(path + length, is_hole ? "%s" : "%.1s", is_hole ? names[hole++ % 2] : at);
        at += is_hole;
    }
}

/* Returns 1 if the page names the route, and shows a request to it. Otherwise prints what is missing, and returns 0. */
static int route_is_shown(const char *page, const struct document_command *commands, size_t count,
                          const struct route *route)
{
    char path[128], name[160];
    page_path(route, path);
    snprintf(name, sizeof name, "`%s %s`", route->method, path);
    if (!strstr(page, name)) {
        print_error("docs/http-api.md does not name %s\n", name);
        return 0;
    }
    for (size_t i = 0; i < count; i++)
        if (asks_route(commands[i].text, route))
            return 1;
    print_error("docs/http-api.md has no request to %s\n", name);
    return 0;
}

static void every_route_has_an_example(void **state)
{
    (void)state;
    const struct route *route;
    char *page = document_read("docs/http-api.md");
    size_t count, routes = 0, shown = 0;
    struct document_command *commands = document_commands(page, &count);
    for (; (route = routes_at(all_dialects, routes)); routes++)
        shown += (size_t)route_is_shown(page, commands, count, route);
    document_commands_free(commands, count);
    free(page);
    assert_int_equal(shown, routes);
}

/* Writes the names of a sample's labels in the form of the table: "`route`, `status`". Returns the number of labels.
 * "le" is not counted. */
static int sample_labels(const char *sample, char labels[256])
{
    const char *at = sample + strcspn(sample, "{ ");
    int count = 0;
    labels[0] = '\0';
    while (*at == '{' || *at == ',') {
        const char *name = ++at;
        at += strcspn(at, "=");
        if (strncmp(name, "le=", 3) != 0) {
            size_t length = strlen(labels);
            snprintf(labels + length, 256 - length, "%s`%.*s`", count > 0 ? ", " : "", (int)(at - name), name);
            count++;
        }
        at += 2; /* skips the two characters =" */
        at += strcspn(at, "\"") + 1;
    }
    return count;
}

/* Writes the first three columns that a metric's row on the page must have. The labels are those of the sample with
 * most labels. */
static void metric_row(const char *metrics, const char *name, const char *type, char row[512])
{
    char most[256] = "", labels[256];
    int most_count = 0;
    for (const char *at = metrics; (at = strstr(at, name)); at++) {
        if ((at > metrics && at[-1] != '\n') || !strchr("{_", at[strlen(name)]))
            continue;
        int count = sample_labels(at, labels);
        if (count > most_count)
            snprintf(most, sizeof most, "%s", labels);
        most_count = count > most_count ? count : most_count;
    }
    snprintf(row, 512, "\n| `%s` | %s | %s%s|", name, type, most, most_count > 0 ? " " : "");
}

/* Returns /metrics after a request that generates. Without such a request, the metrics by model have no sample. The
 * daemon counts the request a moment after its answer. */
static char *metrics_of_daemon(void)
{
    struct daemon *daemon = daemon_start(ARGUMENTS("--model", "tests/reference/linear_attention_lm_causal"));
    json_decref(daemon_post_json(daemon, "/generate", "{\"inputs\": [1]}"));
    char *text = NULL;
    while (!text || !strstr(text, "route=\"/generate\"")) {
        struct answer answer = daemon_get(daemon, "/metrics");
        free(text);
        text = strdup(answer.body);
        answer_free(&answer);
    }
    daemon_stop(daemon);
    return text;
}

static void operations_md_lists_all_metrics(void **state)
{
    (void)state;
    static const char type[] = "# TYPE ", begin[] = "\n| `linformerd_";
    char *page = document_read("docs/operations.md"), *metrics = metrics_of_daemon();
    int wrong = 0, count = 0;
    for (const char *at = metrics; (at = strstr(at, type)); count++) {
        char name[128], kind[16], row[512];
        assert_int_equal(sscanf(at += strlen(type), "%127s %15s", name, kind), 2);
        metric_row(metrics, name, kind, row);
        if (strstr(page, row))
            continue;
        wrong++;
        print_error("docs/operations.md lacks the row%s\n", row);
    }
    for (const char *at = page; (at = strstr(at, begin));) {
        char line[128];
        at += 3;
        snprintf(line, sizeof line, "# TYPE %.*s ", (int)strcspn(at + 1, "`"), at + 1);
        if (strstr(metrics, line))
            continue;
        wrong++;
        print_error("docs/operations.md has %s, /metrics has not\n", line + strlen(type));
    }
    free(metrics);
    free(page);
    assert_true(count > 10);
    assert_int_equal(wrong, 0);
}

/* Tests the comparison itself, which must not accept every page. */
static void a_page_that_differs_is_found(void **state)
{
    (void)state;
    static const struct {
        const char *expected, *found;
        bool same;
    } pairs[] = {
        {"[1, 2]", "[1,2]\n", true},
        {"[1,2]", "[1,3]", false},
        {"[0.25]", "[0.25004]", true},
        {"[0.25]", "[0.26]", false},
        {"[-0.25]", "[0.25]", false},
        {"1", "12", false},
        {"12", "1", false},
        {"a\xe2\x80\xa6z", "abcz", true},
        {"a\xe2\x80\xa6z", "abcy", false},
        {"\xe2\x80\xa6", "", true},
        {"a\xe2\x80\xa6 1, 2", "a1,1,2", true},
        {"", "x", false},
        {"x", "", false},
        {"v2 0.1.0", "v3 0.1.0", false},
        {"1e-5", "0.00001", true},
        {"200 OK", "404 OK", false},
    };
    for (size_t i = 0; i < LENGTH(pairs); i++)
        if (document_matches(pairs[i].expected, pairs[i].found) != pairs[i].same)
            fail_msg("\"%s\" and \"%s\": %d was expected", pairs[i].expected, pairs[i].found, pairs[i].same);
}

/* The commands find the daemon under test in PATH, like an installed daemon. They use no HTTP proxy. */
static void prepare_environment(void)
{
    const char *binary = getenv("LINFORMERD");
    char *copy = strdup(binary ? binary : "build/linformerd");
    char *folder = realpath(dirname(copy), NULL);
    char path[8192];
    assert_non_null(folder);
    snprintf(path, sizeof path, "%s:%s", folder, getenv("PATH"));
    setenv("PATH", path, 1);
    setenv("LINFORMERD_DEVICE", "cpu", 0);
    setenv("NO_PROXY", "*", 1);
    setenv("no_proxy", "*", 1);
    free(folder);
    free(copy);
}

int main(void)
{
    prepare_environment();
    assert_int_equal(glob("README.md", 0, NULL, &pages), 0);
    assert_int_equal(glob("docs/*.md", GLOB_APPEND, NULL, &pages), 0);
    struct CMUnitTest *tests = calloc(pages.gl_pathc + 3, sizeof *tests);
    size_t count = 0;
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(a_page_that_differs_is_found);
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(every_route_has_an_example);
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(operations_md_lists_all_metrics);
    for (size_t i = 0; i < pages.gl_pathc; i++)
        tests[count++] = (struct CMUnitTest){.name = pages.gl_pathv[i],
                                             .test_func = commands_print_what_the_page_shows,
                                             .initial_state = pages.gl_pathv[i]};
    int failed = _cmocka_run_group_tests("documents", tests, count, NULL, NULL);
    free(tests);
    globfree(&pages);
    return failed;
}
