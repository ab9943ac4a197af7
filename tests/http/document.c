/* document: see document.h. */
#define _GNU_SOURCE /* strchrnul */
#include "tests/http/document.h"

#include "tests/http/daemon.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ELLIPSIS "\xe2\x80\xa6"
#define ABSOLUTE_DIFFERENCE 1e-4
#define RELATIVE_DIFFERENCE 1e-3

char *document_read(const char *path)
{
    FILE *file = fopen(path, "re");
    if (!file)
        fail_msg("%s cannot be read", path);
    char *text = NULL;
    size_t size = 0;
    ssize_t length = getdelim(&text, &size, '\0', file);
    fclose(file);
    if (length < 0)
        fail_msg("%s is empty", path);
    return text;
}

/* ---- Commands ---- */

/* Appends a line and "\n" to a text. */
static char *text_add(char *text, const char *line, size_t length)
{
    size_t old = text ? strlen(text) : 0;
    text = realloc(text, old + length + 2);
    assert_non_null(text);
    memcpy(text + old, line, length);
    memcpy(text + old + length, "\n", 2);
    return text;
}

static bool goes_on(const char *command)
{
    size_t quotes = 0, length = strlen(command);
    for (const char *at = command; *at; at++)
        quotes += *at == '\'';
    return quotes % 2 == 1 || (length >= 2 && strchr("\\|", command[length - 2]));
}

static struct document_command *command_add(struct document_command **commands, size_t *count)
{
    *commands = realloc(*commands, (*count + 1) * sizeof **commands);
    assert_non_null(*commands);
    struct document_command *command = &(*commands)[(*count)++];
    *command = (struct document_command){0};
    return command;
}

struct document_command *document_commands(const char *page, size_t *count)
{
    struct document_command *commands = NULL, *command = NULL;
    bool inside = false;
    int number = 0;
    *count = 0;
    for (const char *line = page, *end; *line; line = end + (*end == '\n')) {
        end = strchrnul(line, '\n');
        size_t length = (size_t)(end - line);
        number++;
        if (strncmp(line, "```", 3) == 0) {
            inside = !inside && length == 10 && memcmp(line, "```console", 10) == 0;
            command = NULL;
        } else if (!inside) {
            continue;
        } else if (command && !command->output && goes_on(command->text)) {
            command->text = text_add(command->text, line, length);
        } else if (length > 2 && memcmp(line, "$ ", 2) == 0) {
            command = command_add(&commands, count);
            command->line = number;
            command->text = text_add(NULL, line + 2, length - 2);
        } else if (command) {
            command->output = text_add(command->output, line, length);
        } else {
            fail_msg("line %d: a console block begins with a command, \"%.*s\" was found", number, (int)length, line);
        }
    }
    for (size_t i = 0; i < *count; i++)
        if (!commands[i].output)
            commands[i].output = strdup("");
    return commands;
}

void document_commands_free(struct document_command *commands, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        free(commands[i].text);
        free(commands[i].output);
    }
    free(commands);
}

/* ---- Comparing ---- */

static const char *skip_space(const char *text)
{
    while (isspace((unsigned char)*text))
        text++;
    return text;
}

/* Returns the end of the number that begins at `text`, or NULL if no number begins there. `start` is the beginning of
 * the whole text. A digit after a letter, a digit, or one of _ . - + belongs to a name. */
static const char *number_end(const char *start, const char *text)
{
    if (text > start && (isalnum((unsigned char)text[-1]) || strchr("_.-+", text[-1])))
        return NULL;
    const char *at = text + (*text == '-');
    if (!isdigit((unsigned char)*at))
        return NULL;
    char *end;
    strtod(text, &end);
    return end;
}

static bool is_integer(const char *text, const char *end)
{
    for (; text < end; text++)
        if (strchr(".eE", *text))
            return false;
    return true;
}

static bool numbers_match(const char *expected, const char *expected_end, const char *found, const char *found_end)
{
    if (is_integer(expected, expected_end) && is_integer(found, found_end))
        return expected_end - expected == found_end - found &&
               memcmp(expected, found, (size_t)(found_end - found)) == 0;
    double wanted = strtod(expected, NULL);
    return fabs(strtod(found, NULL) - wanted) <= ABSOLUTE_DIFFERENCE + RELATIVE_DIFFERENCE * fabs(wanted);
}

/* An ellipsis matches like "*" in a shell. If the text after the last ellipsis does not match, this ellipsis is
 * extended by one character. Earlier ellipses need not be extended again. */
bool document_matches(const char *expected, const char *found)
{
    const char *wanted = skip_space(expected), *at = skip_space(found);
    const char *behind_ellipsis = NULL, *taken = NULL;
    for (;;) {
        if (strncmp(wanted, ELLIPSIS, strlen(ELLIPSIS)) == 0) {
            wanted = behind_ellipsis = skip_space(wanted + strlen(ELLIPSIS));
            taken = at;
            continue;
        }
        const char *wanted_end = number_end(expected, wanted), *found_end = number_end(found, at);
        if (!*wanted && !*at)
            return true;
        if (wanted_end && found_end && numbers_match(wanted, wanted_end, at, found_end)) {
            wanted = skip_space(wanted_end);
            at = skip_space(found_end);
        } else if (!(wanted_end && found_end) && *wanted && *wanted == *at) {
            wanted = skip_space(wanted + 1);
            at = skip_space(at + 1);
        } else if (behind_ellipsis && *taken) {
            wanted = behind_ellipsis;
            at = taken = skip_space(taken + 1);
        } else {
            return false;
        }
    }
}
