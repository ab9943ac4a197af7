/* scanner: one function for each regular expression, and functions for the runs of characters in them. */
#include "server/tokenizer/scanner.h"

#define LETTER CHARACTER_LETTER
#define NUMBER CHARACTER_NUMBER
#define SPACE CHARACTER_SPACE

/* A text and the flags of its characters. */
struct scan {
    const struct characters *characters;
    const char *text;
    size_t length;
};

/* Returns the flags of the character at *at, and moves *at to the next character. */
static unsigned next_flags(const struct scan *reading, size_t *at)
{
    return character_flags(reading->characters, utf8_next(reading->text, at));
}

/* Returns the end of the run of characters that have a flag of `wanted`. If `wanted` is 0, the characters must have no
 * flag of `mask`. */
static size_t run_end(const struct scan *reading, size_t at, unsigned mask, unsigned wanted)
{
    while (at < reading->length) {
        size_t next = at;
        unsigned found = next_flags(reading, &next) & mask;
        if (wanted ? !(found & wanted) : found != 0)
            break;
        at = next;
    }
    return at;
}

static size_t letters_end(const struct scan *reading, size_t at)
{
    return run_end(reading, at, LETTER, LETTER);
}

static size_t symbols_end(const struct scan *reading, size_t at)
{
    return run_end(reading, at, SPACE | LETTER | NUMBER, 0);
}

/* Returns the end of a match of \s+(?!\S)|\s+, which is a run of white space. If other text follows, and the run has
 * more than one character, the last character does not belong to the match. */
static size_t spaces_end(const struct scan *reading, size_t at)
{
    size_t end = run_end(reading, at, SPACE, SPACE);
    if (end == reading->length)
        return end;
    size_t last = end - 1;
    while (utf8_continues(reading->text[last]))
        last--;
    return last > at ? last : end;
}

static bool is_line_break(char byte)
{
    return byte == '\r' || byte == '\n';
}

/* Returns the end of "s", "t", "m", "d", "re", "ve" or "ll" after an apostrophe at `at`, or 0 if none of them follows.
 * With `fold`, letters may have upper or lower case, and U+017F (long s) counts as an s. */
static size_t contraction_end(const struct scan *reading, size_t at, bool fold)
{
    const char *text = reading->text + at + 1;
    size_t left = reading->length - at - 1;
    int lower = fold ? 0x20 : 0;
    int first = left > 0 ? text[0] | (text[0] >= 'A' && text[0] <= 'Z' ? lower : 0) : 0;
    int second = left > 1 ? text[1] | (text[1] >= 'A' && text[1] <= 'Z' ? lower : 0) : 0;
    if (first == 's' || first == 't' || first == 'm' || first == 'd')
        return at + 2;
    if (((first == 'r' || first == 'v') && second == 'e') || (first == 'l' && second == 'l'))
        return at + 3;
    if (fold && left > 1 && text[0] == '\xc5' && text[1] == '\xbf')
        return at + 3;
    return 0;
}

size_t scanner_gpt2(const struct characters *characters, const char *text, size_t length, size_t at)
{
    struct scan reading = {characters, text, length};
    size_t end = text[at] == '\'' ? contraction_end(&reading, at, false) : 0;
    if (end > 0)
        return end;
    size_t first = at + (text[at] == ' ' && at + 1 < length), next = first;
    unsigned flags = next_flags(&reading, &next);
    if (flags & LETTER)
        return letters_end(&reading, next);
    if (flags & NUMBER)
        return run_end(&reading, next, NUMBER, NUMBER);
    if (!(flags & SPACE))
        return symbols_end(&reading, next);
    return spaces_end(&reading, at);
}

static size_t digits_end(const struct scan *reading, size_t at, int most)
{
    for (int i = 0; i < most && at < reading->length; i++) {
        size_t next = at;
        if (!(next_flags(reading, &next) & NUMBER))
            break;
        at = next;
    }
    return at;
}

/* Returns the end of a match of [^\s\p{L}\p{N}]+[\r\n]*. `at` is its first symbol. */
static size_t symbols_and_breaks_end(const struct scan *reading, size_t at)
{
    size_t end = symbols_end(reading, at);
    while (end < reading->length && is_line_break(reading->text[end]))
        end++;
    return end;
}

/* Returns the end of a match of \s*[\r\n]+|\s+(?!\S)|\s+. */
static size_t breaks_or_spaces_end(const struct scan *reading, size_t at)
{
    size_t end = run_end(reading, at, SPACE, SPACE);
    for (size_t i = end; i > at; i--)
        if (is_line_break(reading->text[i - 1]))
            return i;
    return spaces_end(reading, at);
}

size_t scanner_cl100k(const struct characters *characters, const char *text, size_t length, size_t at, int most_digits)
{
    struct scan reading = {characters, text, length};
    size_t end = text[at] == '\'' ? contraction_end(&reading, at, true) : 0;
    if (end > 0)
        return end;
    size_t next = at;
    unsigned flags = next_flags(&reading, &next);
    if (flags & LETTER)
        return letters_end(&reading, next);
    if (flags & NUMBER)
        return digits_end(&reading, at, most_digits);
    size_t second = next;
    unsigned flags_second = next < length ? next_flags(&reading, &second) : 0;
    if (!is_line_break(text[at]) && (flags_second & LETTER))
        return letters_end(&reading, second);
    if (!(flags & SPACE))
        return symbols_and_breaks_end(&reading, at);
    if (text[at] == ' ' && next < length && !(flags_second & (SPACE | LETTER | NUMBER)))
        return symbols_and_breaks_end(&reading, next);
    return breaks_or_spaces_end(&reading, at);
}
