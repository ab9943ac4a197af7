/* scanner: hand-written code for the regular expressions with which most tokenizers split texts. The matches of these
 * expressions cover every text without gaps, so each match begins where the last match ended. The scanners need linear
 * time and no stack. The library Oniguruma needs a stack entry for each character of a long match. */
#ifndef SERVER_SCANNER_H
#define SERVER_SCANNER_H

#include "server/tokenizer/characters.h"

/* 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
 * Returns the end of the match that begins at `at` < length. */
size_t scanner_gpt2(const struct characters *characters, const char *text, size_t length, size_t at);

/* (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
 * with N = most_digits. */
size_t scanner_cl100k(const struct characters *characters, const char *text, size_t length, size_t at, int most_digits);

#endif
