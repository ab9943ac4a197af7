#include "server/dialects/native/generate_inputs.h"

#include "server/dialects/native/body.h"

#include <inttypes.h>
#include <string.h>

int generate_inputs_check(struct request *request)
{
    static const char *const keys[] = {"context", "context_mask", "embeddings"};
    if ((int64_t)request->body_length / 2 < NATIVE_MAX_TOKENS)
        return 0; /* no list is too long, because each element and its comma have at least two bytes */
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (native_check_list(request, keys[i]) != 0)
            return -1;
    return 0;
}

static int read_row(struct request *request, const char *name, int64_t row, const json_t *value, int64_t columns,
                    float *out)
{
    if (!json_is_array(value))
        return failure_set(&request->failure, FAILURE_INVALID,
                           "%s[%" PRId64 "] is %s, a list of %" PRId64 " floats was expected", name, row,
                           json_kind(value), columns);
    if ((int64_t)json_array_size(value) != columns)
        return failure_set(&request->failure, FAILURE_INVALID,
                           "%s[%" PRId64 "] has %zu values, but rows of model \"%s\" have %" PRId64, name, row,
                           json_array_size(value), request_model_name(request), columns);
    return native_read_floats(request, name, row, value, columns, out);
}

static int read_rows(struct request *request, const struct model_input *input, const json_t *list, int64_t count,
                     struct engine_input *given)
{
    float *rows = request_take(request, count, (size_t)input->columns * sizeof *rows);
    if (!rows)
        return -1;
    for (int64_t i = 0; i < count; i++)
        if (read_row(request, input->name, i, json_array_get(list, (size_t)i), input->columns,
                     rows + i * input->columns) != 0)
            return -1;
    given->data = rows;
    return 0;
}

static int read_mask(struct request *request, const struct model_input *input, const json_t *list, int64_t count,
                     struct engine_input *given)
{
    uint8_t *mask = request_take(request, count, sizeof *mask);
    if (!mask)
        return -1;
    for (int64_t i = 0; i < count; i++) {
        const json_t *value = json_array_get(list, (size_t)i);
        if (!json_is_boolean(value))
            return failure_set(&request->failure, FAILURE_INVALID, "%s[%" PRId64 "] is %s, true or false was expected",
                               input->name, i, json_kind(value));
        mask[i] = json_is_true(value);
    }
    given->data = mask;
    return 0;
}

static int find_input(struct request *request, const char *name)
{
    for (int i = 0; i < request->info->n_inputs; i++)
        if (strcmp(request->info->inputs[i].name, name) == 0)
            return i;
    return failure_set(&request->failure, FAILURE_INVALID, "%s is given, but model \"%s\" has no such input", name,
                       request_model_name(request));
}

static int read_input(struct request *request, const char *name, const json_t *list, struct engine_item *item)
{
    int index = list ? find_input(request, name) : 0;
    if (!list || index < 0)
        return list ? -1 : 0;
    const struct model_input *input = &request->info->inputs[index];
    int64_t count = (int64_t)json_array_size(list);
    bool is_mask = input->kind == INPUT_MASK;
    if ((input->kind != INPUT_ROWS && !is_mask) || input->layout != LAYOUT_SEQUENCE)
        return failure_set(&request->failure, FAILURE_INVALID,
                           "%s of model \"%s\" accepts neither rows of floats nor a mask: use /v2", name,
                           request_model_name(request));
    if (!json_is_array(list) || count == 0)
        return failure_set(&request->failure, FAILURE_INVALID, "%s is %s, a list of %s was expected", name,
                           json_is_array(list) ? "empty" : json_kind(list), is_mask ? "booleans" : "rows");
    if (native_check_elements(request, name, count) != 0)
        return -1;
    item->inputs[index].length = count;
    return is_mask ? read_mask(request, input, list, count, &item->inputs[index])
                   : read_rows(request, input, list, count, &item->inputs[index]);
}

int generate_inputs_read(struct request *request, const struct generate_inputs *named, struct engine_item *item)
{
    return read_input(request, "context", named->context, item) == 0 &&
                   read_input(request, "context_mask", named->context_mask, item) == 0 &&
                   read_input(request, "embeddings", named->embeddings, item) == 0
               ? 0
               : -1;
}
