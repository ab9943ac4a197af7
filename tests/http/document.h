/* document: a Markdown page, and what a reader would do with it.
 *
 * A block that begins with ```console holds commands, each behind "$ ", with their output below them. A command goes on
 * in the next line while a ' is open, or where the line ends in a backslash or a |. */
#ifndef TESTS_HTTP_DOCUMENT_H
#define TESTS_HTTP_DOCUMENT_H

#include <stdbool.h>
#include <stddef.h>

/* All bytes of a file, terminated; the caller frees them. Fails the running test if it cannot be read. */
char *document_read(const char *path);

struct document_command {
    int line;     /* of the page, from 1 */
    char *text;   /* without "$ " */
    char *output; /* "": the page shows none */
};

/* The commands of a page in their order; *count of them. document_commands_free() is owed. */
struct document_command *document_commands(const char *page, size_t *count);
void document_commands_free(struct document_command *commands, size_t count);

/* Whether `found` is what `expected` shows. White space does not count. A number with a decimal point or an exponent
 * may differ by 1e-4 and 1e-3 of it; others must be equal. "…" in `expected` stands for anything. */
bool document_matches(const char *expected, const char *found);

#endif
