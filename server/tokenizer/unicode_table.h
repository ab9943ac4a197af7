/* unicode_table: properties of code points, as runs of code points with the same property. tests/tokenizers/unicode.py
 * generates the tables. */
#ifndef SERVER_UNICODE_TABLE_H
#define SERVER_UNICODE_TABLE_H

#include <stddef.h>
#include <stdint.h>

/* All code points from `first` to the start of the next run have the value `value`. */
struct unicode_run {
    uint32_t first;
    uint16_t value;
};

struct unicode_pair {
    uint32_t from, to;
};

/* The values are CHARACTER_… flags of characters.h. The runs are in ascending order, from code point 0. */
extern const struct unicode_run unicode_flags[];
extern const size_t n_unicode_flags;
extern const struct unicode_run unicode_scripts[]; /* the values are numbers of scripts. 0 means any script */
extern const size_t n_unicode_scripts;
/* Non-ASCII letters whose lower case is one character. The pairs are in ascending order of `from`. */
extern const struct unicode_pair unicode_lowercase[];
extern const size_t n_unicode_lowercase;

#endif
