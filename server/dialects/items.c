#include "server/dialects/items.h"

#include <inttypes.h>
#include <strings.h>

_Static_assert(ITEMS_MAX_LISTS <= NUMBERS_MAX_LISTS, "each list must have a mark");

/* Parses the body with a mark in place of each list of numbers. Returns NULL without a failure if jansson must parse
 * the whole body.
 *
 * An invalid body is such a case. A position in jansson's message is then a position in the body itself. */
static json_t *parse_marked(struct request *request, size_t length, struct numbers_place place,
                            struct items_lists *lists)
{
    lists->count = numbers_find(request->body, length, place, lists->numbers, ITEMS_MAX_LISTS);
    if (lists->count == 0)
        return NULL;
    char rest[NUMBERS_REST];
    size_t rest_length = numbers_rest(lists->numbers, lists->count, request->body, length, rest);
    json_t *json = request_json(request, rest, rest_length);
    if (json)
        return json;
    lists->count = 0;
    if (request->failure.kind == FAILURE_MALFORMED || request->failure.kind == FAILURE_INVALID)
        request->failure.kind = FAILURE_NONE;
    return NULL;
}

json_t *items_parse(struct request *request, size_t length, struct numbers_place place,
                    int (*check)(struct request *request, const void *context), const void *context,
                    struct items_lists *lists)
{
    json_t *json = parse_marked(request, length, place, lists);
    if (json || request->failure.kind != FAILURE_NONE)
        return json;
    if (check && check(request, context) != 0)
        return NULL;
    return request_json(request, request->body, length);
}

/* The list that the mark `value` replaces. NULL if `value` is not a mark. If jansson parsed the body with marks, each
 * list at the place of items_parse is a mark. */
static struct numbers *marked_list(struct items_lists *lists, const json_t *value)
{
    const json_t *mark = json_array_get(value, 0);
    json_int_t index = json_integer_value(mark);
    if (!json_is_integer(mark) || json_array_size(value) != 1 || index < 0 || index >= (json_int_t)lists->count)
        return NULL;
    return lists->numbers[index].text ? &lists->numbers[index] : NULL;
}

/* Replaces the mark by the list. */
static int replace_mark(struct request *request, struct numbers *numbers, json_t *mark)
{
    json_t *list = request_json_list(request, numbers->text, numbers->length);
    if (!list)
        return -1;
    numbers->text = NULL;
    json_array_clear(mark);
    int status = json_array_extend(mark, list);
    json_decref(list);
    return status == 0 ? 0 : failure_memory(&request->failure);
}

int items_read(struct request *request, struct items_lists *lists, json_t *value, const struct items_readers *readers,
               void *context)
{
    struct numbers *numbers = marked_list(lists, value);
    if (numbers) {
        int status = readers->from_numbers(context, numbers);
        if (status != 0)
            return status > 0 ? 0 : -1;
        if (replace_mark(request, numbers, value) != 0)
            return -1;
    }
    return readers->from_json(context, value);
}

struct items_limit items_limit(const struct model_info *info, int index)
{
    return items_limit_beside(info, index, 0);
}

/* The index of the input that provides the rows of input `index`, if the item contains only the inputs `given`. This is
 * the input itself, or a fallback in its place. */
static int source_of(const struct model_info *info, int index, unsigned given)
{
    while (!(given >> index & 1) && info->inputs[index].optional && info->inputs[index].fallback >= 0 &&
           info->inputs[index].fallback < index) /* a fallback precedes its input */
        index = info->inputs[index].fallback;
    return index;
}

/* The rows of the input also replace those of absent inputs, so the smallest limit of all these inputs applies. For
 * example, keys may have a limit although queries have none. */
struct items_limit items_limit_beside(const struct model_info *info, int index, unsigned given)
{
    const struct model_input *limiting = &info->inputs[index];
    for (int i = 0; i < info->n_inputs; i++)
        if (source_of(info, i, given | 1u << index) == index && info->inputs[i].max_length < limiting->max_length)
            limiting = &info->inputs[i];
    return (struct items_limit){
        .tokens = limiting->max_length, .own = limiting->own_limit, .cutting = "set truncate to true"};
}

int items_too_long(struct request *request, const char *path, int64_t count, const struct items_limit *limit)
{
    if (!limit->own)
        return failure_set(&request->failure, FAILURE_INVALID,
                           "%s has %" PRId64 " tokens, this server accepts at most %" PRId64
                           " for model \"%s\" (--max-batch-tokens): shorten it, or %s",
                           path, count, limit->tokens, request_model_name(request), limit->cutting);
    return failure_set(&request->failure, FAILURE_INVALID,
                       "%s has %" PRId64 " tokens, model \"%s\" accepts at most %" PRId64 ": shorten it, or %s", path,
                       count, request_model_name(request), limit->tokens, limit->cutting);
}

int items_direction(struct request *request, const char *direction, bool *left)
{
    *left = direction && strcasecmp(direction, "left") == 0;
    if (!direction || *left || strcasecmp(direction, "right") == 0)
        return 0;
    return failure_set(&request->failure, FAILURE_INVALID,
                       "truncation_direction is \"%.100s\", \"Left\" or \"Right\" was expected", direction);
}
