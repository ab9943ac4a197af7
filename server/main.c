#define _GNU_SOURCE /* environ */
#include "server/daemon.h"
#include "server/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Whether all that was printed arrived: `linformerd --help >/dev/full` is a failure. */
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

int main(int argc, char **argv)
{
    struct settings settings;
    enum settings_action action;
    const char *folder = NULL;
    struct error error;
    if (settings_read(argc, argv, environ, &settings, &action, &folder, &error) != 0) {
        fprintf(stderr, "linformerd: %s\n", error.message);
        return 2;
    }
    log_configure(settings.log_format, settings.log_level);

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
    case SETTINGS_SERVE:
        status = daemon_serve(&settings);
        break;
    }
    settings_free(&settings);
    return status;
}
