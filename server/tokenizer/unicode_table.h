/* unicode_table: properties of code points, as runs. tests/tokenizers/unicode.py writes the tables. */
#ifndef SERVER_UNICODE_TABLE_H
#define SERVER_UNICODE_TABLE_H

#include <stddef.h>
#include <stdint.h>

/* All code points from `first` to the next run's have the value. */
struct unicode_run {
    uint32_t first;
    uint16_t value;
};

struct unicode_pair {
    uint32_t from, to;
};

extern const struct unicode_run unicode_flags[]; /* CHARACTER_… of characters.h; in ascending order, from 0 on */
extern const size_t n_unicode_flags;
extern const struct unicode_run unicode_scripts[]; /* a number for each script; 0: any script */
extern const size_t n_unicode_scripts;
extern const struct unicode_pair unicode_lowercase[]; /* non-ASCII, one character to one; ascending `from` */
extern const size_t n_unicode_lowercase;

#endif
