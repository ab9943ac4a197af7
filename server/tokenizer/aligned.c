/* aligned: growing texts with the origin of each byte. */
#include "server/tokenizer/aligned.h"

#include <stdlib.h>
#include <string.h>

void aligned_free(struct aligned *text)
{
    free(text->bytes);
    free(text->origins);
    *text = (struct aligned){0};
}

void aligned_clear(struct aligned *text)
{
    text->length = 0;
    text->failed = false;
}

static bool reserve(struct aligned *text, size_t more)
{
    if (text->failed)
        return false;
    if (text->capacity - text->length >= more)
        return true;
    size_t wanted = text->capacity * 2 > text->length + more ? text->capacity * 2 : text->length + more + 64;
    char *bytes = wanted <= UINT32_MAX ? realloc(text->bytes, wanted) : NULL;
    if (bytes)
        text->bytes = bytes;
    struct span *origins = bytes ? realloc(text->origins, wanted * sizeof *origins) : NULL;
    if (!origins) {
        text->failed = true;
        return false;
    }
    text->origins = origins;
    text->capacity = wanted;
    return true;
}

void aligned_put(struct aligned *text, uint32_t code, struct span origin)
{
    if (!reserve(text, 4))
        return;
    size_t size = utf8_write(code, text->bytes + text->length);
    for (size_t i = 0; i < size; i++)
        text->origins[text->length + i] = origin;
    text->length += size;
}

void aligned_bytes(struct aligned *text, const char *bytes, size_t length, struct span origin)
{
    if (length == 0 || !reserve(text, length))
        return;
    memcpy(text->bytes + text->length, bytes, length);
    for (size_t i = 0; i < length; i++)
        text->origins[text->length + i] = origin;
    text->length += length;
}

void aligned_view(struct aligned *text, const struct view *view)
{
    if (view->length == 0 || !reserve(text, view->length))
        return;
    memcpy(text->bytes + text->length, view->bytes, view->length);
    struct span *origins = text->origins + text->length;
    if (view->origins)
        memcpy(origins, view->origins, view->length * sizeof *origins);
    for (size_t at = 0; !view->origins && at < view->length;) {
        size_t end = at + utf8_size((unsigned char)view->bytes[at]);
        struct span origin = {view->base + (uint32_t)at, view->base + (uint32_t)end};
        for (; at < end; at++)
            origins[at] = origin;
    }
    text->length += view->length;
}

struct view aligned_all(const struct aligned *text)
{
    return (struct view){.bytes = text->bytes ? text->bytes : "", .origins = text->origins, .length = text->length};
}

struct span view_origin(const struct view *view, size_t at)
{
    if (view->origins)
        return view->origins[at];
    while (utf8_continues(view->bytes[at]))
        at--;
    size_t size = utf8_size((unsigned char)view->bytes[at]);
    return (struct span){view->base + (uint32_t)at, view->base + (uint32_t)(at + size)};
}

struct view view_part(const struct view *view, size_t begin, size_t end)
{
    return (struct view){.bytes = view->bytes + begin,
                         .origins = view->origins ? view->origins + begin : NULL,
                         .length = end - begin,
                         .base = view->base + (uint32_t)begin};
}

void transform_put(struct transform *transform, uint32_t code, long change)
{
    const struct view *from = &transform->from;
    if (change > 0 || transform->at >= from->length) {
        aligned_put(transform->to, code, transform->at == 0 ? transform->start : view_origin(from, transform->at - 1));
        return;
    }
    aligned_put(transform->to, code, view_origin(from, transform->at));
    for (; change <= 0 && transform->at < from->length; change++)
        transform->at += utf8_size((unsigned char)from->bytes[transform->at]);
}

void pieces_free(struct pieces *pieces)
{
    free(pieces->items);
    *pieces = (struct pieces){0};
}

void pieces_add(struct pieces *pieces, size_t begin, size_t end, int32_t id)
{
    if (begin == end || pieces->failed)
        return;
    if (pieces->count == pieces->capacity) {
        size_t wanted = pieces->capacity ? pieces->capacity * 2 : 64;
        struct text_piece *items = realloc(pieces->items, wanted * sizeof *items);
        if (!items) {
            pieces->failed = true;
            return;
        }
        pieces->items = items;
        pieces->capacity = wanted;
    }
    pieces->items[pieces->count++] = (struct text_piece){(uint32_t)begin, (uint32_t)end, id};
}
