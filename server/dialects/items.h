/* items: the JSON of a body whose inputs are lists, and the memory of what is read from them. All dialects share it.
 *
 * A long list of numbers costs jansson an object for each number. So there are two readers: server/text/numbers.h reads
 * a list's text, and jansson reads everything else. items_read alone chooses between them. */
#ifndef SERVER_DIALECTS_ITEMS_H
#define SERVER_DIALECTS_ITEMS_H

#include "engine/engine.h"
#include "server/http/request.h"
#include "server/text/numbers.h"

#include <jansson.h>

#define ITEMS_MOST_LISTS (ENGINE_MAX_INPUTS + 1)

/* The lists of a body that are text until items_read. In the body's JSON a mark stands for each. */
struct items_lists {
    struct numbers numbers[ITEMS_MOST_LISTS]; /* (count) text NULL: the list is back in the JSON */
    size_t count;
};

/* Parses `length` bytes of the body; lists at `place` stay text where they can. If jansson must parse all lists,
 * `check` is called first with `context`, and may refuse with -1; NULL: no check. Returns a new reference. NULL:
 * request->failure. */
json_t *items_parse(struct request *request, size_t length, struct numbers_place place,
                    int (*check)(struct request *request, const void *context), const void *context,
                    struct items_lists *lists);

/* The two readers of one list. Both get the `context` of items_read. */
struct items_readers {
    /* Returns 1 if the list was read, -1 with request->failure, and 0 if from_json is to read it or to refuse it. */
    int (*from_numbers)(void *context, const struct numbers *numbers);
    /* Returns 0, or -1 with request->failure. `value` is of any kind. */
    int (*from_json)(void *context, const json_t *value);
};

/* Reads the value of a member at the place of items_parse. -1: request->failure. */
int items_read(struct request *request, struct items_lists *lists, json_t *value, const struct items_readers *readers,
               void *context);

/* The longest item that a model takes. */
struct items_limit {
    int64_t tokens;
    bool own;            /* the model's own limit; else it follows from --max-batch-tokens */
    const char *cutting; /* how a request asks for cutting: "set truncate to true" */
};

/* Of an item with input `index` alone. */
struct items_limit items_limit(const struct model_info *info, int index);

/* Refuses an item of `count` > limit->tokens tokens, which the request does not want to be cut. `path` names it. -1:
 * request->failure. */
int items_too_long(struct request *request, const char *path, int64_t count, const struct items_limit *limit);

/* Whether items that are too long lose their beginning. `direction` is "Left" or "Right", in upper or lower case; NULL:
 * right. -1: request->failure, another word. */
int items_direction(struct request *request, const char *direction, bool *left);

/* Zeroed memory for `count` values of `size` bytes, charged to the request. NULL: request->failure. */
void *items_memory(struct request *request, int64_t count, size_t size);

#endif
