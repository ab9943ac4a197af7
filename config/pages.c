/* pages NAME: writes one of the files of pages.h to standard output. */
#include "config/pages.h"

#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    page_writer *write;
} pages[] = {{"manual", page_write_manual}, {"bash", page_write_bash}, {"zsh", page_write_zsh}};

int main(int argc, char **argv)
{
    for (size_t i = 0; i < sizeof pages / sizeof *pages && argc == 2; i++)
        if (strcmp(argv[1], pages[i].name) == 0) {
            pages[i].write(stdout);
            return fflush(stdout) == 0 && !ferror(stdout) ? EXIT_SUCCESS : EXIT_FAILURE;
        }
    fprintf(stderr, "usage: pages manual|bash|zsh\n");
    return 2;
}
