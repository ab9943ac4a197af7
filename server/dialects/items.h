/* items: reads bodies whose inputs are lists, and limits the length of items. All dialects use it. An item is one
 * sequence, one image, or all inputs of one call of forward().
 *
 * jansson would allocate an object for each number of a list. So there are two readers: server/text/numbers.h reads the
 * text of a list of numbers, and jansson reads everything else. items_read chooses between them. */
#ifndef SERVER_DIALECTS_ITEMS_H
#define SERVER_DIALECTS_ITEMS_H

#include "engine/engine.h"
#include "server/http/request.h"
#include "server/text/numbers.h"

#include <jansson.h>

#define ITEMS_MAX_LISTS (ENGINE_MAX_INPUTS + 2)

/* The lists of a body that jansson has not parsed. In the JSON of the body, a mark such as [0] replaces each of them
 * (numbers.h). */
struct items_lists {
    struct numbers numbers[ITEMS_MAX_LISTS]; /* (count). `text` is NULL if items_read has let jansson parse the list */
    size_t count;
};

/* Parses `length` bytes of the body. If numbers.h can read the lists of numbers at `place`, they stay unparsed in
 * `lists`. Otherwise jansson parses all lists.
 *
 * Before jansson parses all lists, the function calls `check` with `context`. `check` may refuse the request by
 * returning -1. NULL means no check. Returns a new reference. On failure sets request->failure and returns NULL. */
json_t *items_parse(struct request *request, size_t length, struct numbers_place place,
                    int (*check)(struct request *request, const void *context), const void *context,
                    struct items_lists *lists);

/* The two readers of one list. items_read passes its `context` to them. */
struct items_readers {
    /* Returns 1 if it has read the list. Returns 0 if from_json must read or refuse the list. On failure sets
     * request->failure and returns -1. */
    int (*from_numbers)(void *context, const struct numbers *numbers);
    /* `value` may be of any kind. On failure sets request->failure and returns -1. */
    int (*from_json)(void *context, const json_t *value);
};

/* Reads the value of a member of the body at the `place` of items_parse. On failure sets request->failure and returns
 * -1. */
int items_read(struct request *request, struct items_lists *lists, json_t *value, const struct items_readers *readers,
               void *context);

/* The length of the longest item that a model accepts. */
struct items_limit {
    int64_t tokens;
    bool own;            /* true: the limit is the model's own. false: it follows from --max-batch-tokens */
    const char *cutting; /* advice for clients on how to have longer items cut, such as "set truncate to true" */
};

/* The limit for an item that contains only input `index`. */
struct items_limit items_limit(const struct model_info *info, int index);

/* The limit for input `index` of an item that also contains the inputs `given`. Bit i stands for input i. */
struct items_limit items_limit_beside(const struct model_info *info, int index, unsigned given);

/* Refuses an item whose number of tokens, `count`, exceeds the limit. Call it if the request does not ask for longer
 * items to be cut. `path` names the item in the message. Sets request->failure, and returns -1. */
int items_too_long(struct request *request, const char *path, int64_t count, const struct items_limit *limit);

/* Sets *left to whether items that are too long lose their beginning. `direction` is "Left" or "Right", in upper or
 * lower case. NULL means right. For another word, sets request->failure and returns -1. */
int items_direction(struct request *request, const char *direction, bool *left);

#endif
