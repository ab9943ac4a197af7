/* aligned: a text during its processing. For each byte it records the origin, which is the part of the original text
 * from which the byte was made. */
#ifndef SERVER_ALIGNED_H
#define SERVER_ALIGNED_H

#include "server/tokenizer/characters.h"

/* A range of bytes of the original text. */
struct span {
    uint32_t begin, end;
};

/* Part of a text that another struct owns. All bytes of a character have the same origin. */
struct view {
    const char *bytes;
    const struct span *origins; /* the origin of each byte (length). NULL if the bytes are the bytes of the original
                                   text from `base` on */
    size_t length;
    uint32_t base;
};

/* A growing text. If memory runs out, it is marked as failed, and ignores all further calls. */
struct aligned {
    char *bytes;
    struct span *origins; /* the origin of each byte (length) */
    size_t length, capacity;
    bool failed;
};

void aligned_free(struct aligned *text);
void aligned_clear(struct aligned *text); /* empties the text, and keeps its memory */
void aligned_put(struct aligned *text, uint32_t code, struct span origin);
/* Appends bytes that all have the origin `origin`. */
void aligned_bytes(struct aligned *text, const char *bytes, size_t length, struct span origin);
void aligned_view(struct aligned *text, const struct view *view); /* appends a copy of the view */
struct view aligned_all(const struct aligned *text);

/* The origin of byte `at` of the view. */
struct span view_origin(const struct view *view, size_t at);
struct view view_part(const struct view *view, size_t begin, size_t end);

/* Writes a new text character by character, and records the origin of each new character in the old text. */
struct transform {
    struct view from;
    size_t at;         /* number of bytes of `from` that were processed */
    struct span start; /* the origin of a character that is inserted at the start */
    struct aligned *to;
};

/* Writes a character. If change > 0, the character is inserted, and has the origin of the previous character. Otherwise
 * it replaces the next character of the old text, and the -change characters after this one are removed. */
void transform_put(struct transform *transform, uint32_t code, long change);

/* ---- Pieces of a text ---- */
struct text_piece {
    uint32_t begin, end; /* bytes of the text, from `begin` to before `end` */
    int32_t id; /* id of the added token, if the piece is an added token. -1 if the piece is text for the model */
};

/* A growing list of pieces. `failed` means the same as in struct aligned. */
struct pieces {
    struct text_piece *items;
    size_t count, capacity;
    bool failed;
};

void pieces_free(struct pieces *pieces);
void pieces_add(struct pieces *pieces, size_t begin, size_t end, int32_t id); /* ignores a piece with begin == end */

#endif
