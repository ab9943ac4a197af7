/* main: reads the settings, and then does what they request: serves, checks, explains or prints. */
#define _GNU_SOURCE /* environ */
#include "server/common/log.h"
#include "server/daemon.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define SPINS "1000" /* value of GOMP_SPINCOUNT: iterations of an empty loop, which take a few microseconds */

/* Flushes standard output, and returns the exit status. So `linformerd --help >/dev/full` fails. */
static int printed(void)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return EXIT_SUCCESS;
    perror("linformerd: standard output");
    return EXIT_FAILURE;
}

static int print_help(void)
{
    char *help = settings_help();
    if (!help) {
        fputs("linformerd: out of memory\n", stderr);
        return EXIT_FAILURE;
    }
    fputs(help, stdout);
    free(help);
    return printed();
}

static int print_version(void)
{
    printf("linformerd %s\n", LINFORMERD_VERSION);
    return printed();
}

/* Limits the spinning of libgomp's threads. They spin for milliseconds while they wait for each other, on cores that
 * event loops and clients need. Without a limit, one request in ten took ten times as long. libgomp reads the limit
 * from the environment before main begins, so the program sets it and executes itself again. If the operator has set
 * OMP_WAIT_POLICY or GOMP_SPINCOUNT, the function does nothing. */
static void bound_spinning(char **argv)
{
    char path[PATH_MAX];
    if (getenv("OMP_WAIT_POLICY") || getenv("GOMP_SPINCOUNT"))
        return;
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    if (length <= 0 || setenv("GOMP_SPINCOUNT", SPINS, 1) != 0)
        return;
    path[length] = '\0';
    execv(path, argv); /* if execv fails, the daemon serves without the limit */
}

int main(int argc, char **argv)
{
    struct settings settings;
    enum settings_action action;
    const char *folder = NULL;
    struct error error;
    const struct settings_source source = {.argc = argc, .argv = argv, .environment = environ};
    if (settings_read(argc, argv, environ, &settings, &action, &folder, &error) != 0) {
        fprintf(stderr, "linformerd: %s\n", error.message);
        return 2;
    }
    bool explains =
        action == SETTINGS_EXPLAIN; /* only the plan or an error is printed, without the log lines about loading */
    log_configure(settings.log_format, explains ? LOG_LEVEL_ERROR : settings.log_level);

    int status = EXIT_FAILURE;
    switch (action) {
    case SETTINGS_HELP:
        status = print_help();
        break;
    case SETTINGS_VERSION:
        status = print_version();
        break;
    case SETTINGS_EXPLAIN:
        status = daemon_explain(&settings, folder);
        break;
    case SETTINGS_CHECK:
        bound_spinning(argv);
        status = daemon_check(&settings, &source);
        break;
    case SETTINGS_SERVE:
        bound_spinning(argv);
        status = daemon_serve(&settings, &source);
        break;
    }
    settings_free(&settings);
    return status;
}
