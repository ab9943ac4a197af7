/* normal_form: utf8proc decomposes and composes single characters. This file sorts the marks and computes the origins.
 * The first character of a decomposition replaces the original character. The others count as inserted after it.
 *
 * `tokenizers` uses an older version of Unicode than utf8proc. So a character decomposes, or has a combining class,
 * only if unicode_table.c agrees. */
#include "server/tokenizer/normal_form.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#define MAX_DECOMPOSED 32     /* maximum number of characters of a decomposition. The decomposition of U+FDFA has 18 */
#define MAX_INSERTED 16       /* maximum number of marks that are sorted by insertion */
#define FIRST_COMPOSING 0x300 /* characters with lower code points do not compose with the character before them */

void normal_form_free(struct normal_form_work *work)
{
    free(work->items);
    free(work->sorted);
    *work = (struct normal_form_work){0};
}

static int reserve(struct normal_form_work *work, size_t more)
{
    if (work->capacity - work->count >= more)
        return 0;
    size_t wanted = work->capacity * 2 + more + 256;
    struct decomposed *items = realloc(work->items, wanted * sizeof *items);
    if (items)
        work->items = items;
    struct decomposed *sorted = items ? realloc(work->sorted, wanted * sizeof *sorted) : NULL;
    if (!sorted)
        return -1;
    work->sorted = sorted;
    work->capacity = wanted;
    return 0;
}

static unsigned char combining_class(const struct characters *characters, uint32_t code)
{
    if (!(character_flags(characters, code) & CHARACTER_MARK))
        return 0;
    return (unsigned char)utf8proc_get_property((utf8proc_int32_t)code)->combining_class;
}

/* Sorts marks by their class. Marks of the same class keep their order. The time is linear even for many marks. */
static void sort_marks(struct decomposed *marks, struct decomposed *sorted, size_t count)
{
    if (count <= MAX_INSERTED) {
        for (size_t i = 1; i < count; i++) {
            struct decomposed mark = marks[i];
            size_t at = i;
            for (; at > 0 && marks[at - 1].class > mark.class; at--)
                marks[at] = marks[at - 1];
            marks[at] = mark;
        }
        return;
    }
    size_t begins[257] = {0};
    for (size_t i = 0; i < count; i++)
        begins[marks[i].class + 1]++;
    for (int class = 0; class < 256; class ++)
        begins[class + 1] += begins[class];
    for (size_t i = 0; i < count; i++)
        sorted[begins[marks[i].class]++] = marks[i];
    memcpy(marks, sorted, count * sizeof *marks);
}

/* Writes the full decomposition of one character to `parts`. Returns the number of characters. */
static size_t decompose(uint32_t code, bool compatible, const struct characters *characters,
                        utf8proc_int32_t parts[MAX_DECOMPOSED])
{
    parts[0] = (utf8proc_int32_t)code;
    if (!(character_flags(characters, code) & CHARACTER_DECOMPOSES))
        return 1;
    int last_class = 0;
    utf8proc_option_t options = UTF8PROC_DECOMPOSE | (compatible ? UTF8PROC_COMPAT : 0);
    utf8proc_ssize_t count =
        utf8proc_decompose_char((utf8proc_int32_t)code, parts, MAX_DECOMPOSED, options, &last_class);
    if (count >= 1 && count <= MAX_DECOMPOSED)
        return (size_t)count;
    parts[0] = (utf8proc_int32_t)code;
    return 1;
}

/* Fills work->items with the decomposition of the whole text, with the marks in canonical order. */
static int decompose_text(bool compatible, const struct characters *characters, struct normal_form_work *work,
                          const struct view *from)
{
    size_t first_mark = 0;
    work->count = 0;
    for (size_t at = 0; at < from->length;) {
        utf8proc_int32_t parts[MAX_DECOMPOSED];
        size_t count = decompose(utf8_next(from->bytes, &at), compatible, characters, parts);
        if (reserve(work, count) != 0)
            return -1;
        for (size_t i = 0; i < count; i++) {
            struct decomposed item = {(uint32_t)parts[i], i > 0, combining_class(characters, (uint32_t)parts[i])};
            if (item.class == 0) {
                sort_marks(work->items + first_mark, work->sorted, work->count - first_mark);
                first_mark = work->count + 1;
            }
            work->items[work->count++] = item;
        }
    }
    if (first_mark < work->count)
        sort_marks(work->items + first_mark, work->sorted, work->count - first_mark);
    return 0;
}

/* Returns the composition of two characters, or 0 if they do not compose. */
static uint32_t compose(const struct characters *characters, uint32_t first, uint32_t second)
{
    if (second < FIRST_COMPOSING)
        return 0;
    utf8proc_int32_t pair[3] = {(utf8proc_int32_t)first, (utf8proc_int32_t)second, 0};
    if (utf8proc_normalize_utf32(pair, 2, UTF8PROC_COMPOSE | UTF8PROC_STABLE) != 1)
        return 0;
    return character_flags(characters, (uint32_t)pair[0]) & CHARACTER_DECOMPOSES ? (uint32_t)pair[0] : 0;
}

/* Composes the items in place. A starter is a character with combining class 0. A character composes with the last
 * starter if no mark between them has the same or a higher class. With each composition, the starter replaces one more
 * character of the old text, unless the composed character was inserted. */
static void compose_items(const struct characters *characters, struct normal_form_work *work)
{
    struct decomposed *items = work->items;
    struct decomposed *starter = NULL;
    int last_class = -1; /* class of the last mark that was kept after the starter. -1 if there is none */
    size_t kept = 0;
    for (size_t i = 0; i < work->count; i++) {
        struct decomposed item = items[i];
        uint32_t code = starter && last_class < (int)item.class ? compose(characters, starter->code, item.code) : 0;
        if (code != 0) {
            starter->code = code;
            starter->change += item.change - 1;
            continue;
        }
        items[kept++] = item;
        if (item.class == 0) {
            starter = &items[kept - 1];
            last_class = -1;
        } else if (starter) {
            last_class = item.class;
        }
    }
    work->count = kept;
}

int normal_form_put(enum normal_form form, const struct characters *characters, struct normal_form_work *work,
                    struct transform *transform)
{
    bool compatible = form == NORMAL_FORM_KD || form == NORMAL_FORM_KC;
    if (decompose_text(compatible, characters, work, &transform->from) != 0)
        return -1;
    if (form == NORMAL_FORM_C || form == NORMAL_FORM_KC)
        compose_items(characters, work);
    for (size_t i = 0; i < work->count; i++)
        transform_put(transform, work->items[i].code, work->items[i].change);
    return 0;
}
