/* aligned: a text in work, with the part of the original text that each byte was made from. */
#ifndef SERVER_ALIGNED_H
#define SERVER_ALIGNED_H

#include "server/tokenizer/characters.h"

/* Bytes of the original text. */
struct span {
    uint32_t begin, end;
};

/* Part of a text, borrowed. All bytes of a character have the same origin. */
struct view {
    const char *bytes;
    const struct span *origins; /* (length) NULL: the bytes are the original's from byte `base` on */
    size_t length;
    uint32_t base;
};

/* A growing text. If memory runs out, it is marked as failed, and ignores all further calls. */
struct aligned {
    char *bytes;
    struct span *origins; /* (length) */
    size_t length, capacity;
    bool failed;
};

void aligned_free(struct aligned *text);
void aligned_clear(struct aligned *text); /* keeps the memory */
void aligned_put(struct aligned *text, uint32_t code, struct span origin);
void aligned_bytes(struct aligned *text, const char *bytes, size_t length, struct span origin); /* all from `origin` */
void aligned_view(struct aligned *text, const struct view *view);                               /* a copy */
struct view aligned_all(const struct aligned *text);

/* The origin of byte `at` of the view. */
struct span view_origin(const struct view *view, size_t at);
struct view view_part(const struct view *view, size_t begin, size_t end);

/* Writes a text character by character from an older one, and keeps count of the older one's characters. */
struct transform {
    struct view from;
    size_t at;         /* bytes of `from` that are used up */
    struct span start; /* the origin of a character that is inserted at the start */
    struct aligned *to;
};

/* change > 0: the character is inserted, and has the origin of the one before. Otherwise it replaces the next
 * character, and -change more characters are removed behind it. */
void transform_put(struct transform *transform, uint32_t code, long change);

/* ---- Pieces of a text ---- */
struct text_piece {
    uint32_t begin, end; /* bytes of the text */
    int32_t id;          /* of the added token that the piece is; -1: text for the model */
};

/* A growing list; `failed` as above. */
struct pieces {
    struct text_piece *items;
    size_t count, capacity;
    bool failed;
};

void pieces_free(struct pieces *pieces);
void pieces_add(struct pieces *pieces, size_t begin, size_t end, int32_t id); /* an empty piece is left out */

#endif
