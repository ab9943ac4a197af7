/* document: the commands on a Markdown page, and their outputs.
 *
 * Commands are in blocks that begin with ```console. A command follows "$ ". Its output is below it. A command
 * continues on the next line if a ' is still open, or if the line ends in a backslash or a |. */
#ifndef TESTS_HTTP_DOCUMENT_H
#define TESTS_HTTP_DOCUMENT_H

#include <stdbool.h>
#include <stddef.h>

/* The text of a file, followed by a zero byte. The caller frees the result. If the file cannot be read or is empty, the
 * running test fails. */
char *document_read(const char *path);

struct document_command {
    int line;     /* line on the page, from 1 */
    char *text;   /* without "$ " */
    char *output; /* expected output, "" if the page shows no output */
};

/* The commands of a page, in the order of the page. *count is their number. The caller must call
 * document_commands_free(). */
struct document_command *document_commands(const char *page, size_t *count);
void document_commands_free(struct document_command *commands, size_t count);

/* True if `found` agrees with `expected`. White space does not count. "…" in `expected` stands for any text. Two
 * integers must be equal. If a number has a decimal point or an exponent, the two numbers may differ by 1e-4 plus 1e-3
 * of the expected value. */
bool document_matches(const char *expected, const char *found);

#endif
