/* document: the commands on a Markdown page, and their outputs.
 *
 * A block that begins with ```console has commands. A command follows "$ ", and its output is below it. A command
 * continues on the next line if a ' is still open, or if the line ends in a backslash or a |. */
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

/* Whether `found` agrees with `expected`. White space does not count. "…" in `expected` stands for any text. A number
 * with a decimal point or an exponent may differ by 1e-4 plus 1e-3 of its value. Other numbers must be equal. */
bool document_matches(const char *expected, const char *found);

#endif
