#include "server/dialects/v2/texts.h"

#include "server/dialects/text_inputs.h"
#include "server/dialects/v2/entry.h"
#include "server/dialects/v2/tensors.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define DATATYPE "BYTES"
#define PATH_BYTES 160

/* The texts of a tensor while they are read. */
struct texts_reading {
    struct text_inputs texts;
    const struct v2_tensor *tensor;
    const struct model_input *input;
    struct engine_input *ids; /* (batch): the ids of each text */
    int64_t count;            /* number of texts that have been read */
};

bool v2_texts_are_given(const struct v2_tensor *tensor, const struct model_input *input)
{
    return input->kind == INPUT_IDS && !input->refused && strcmp(tensor->datatype, DATATYPE) == 0;
}

/* Reads a parameter that is a string. Sets *word to NULL if the parameter is absent or null. If the parameter is no
 * string, the message says that `expected` was expected. */
static int read_word(struct request *request, const json_t *parameters, const char *name, const char *expected,
                     const char **word)
{
    const json_t *value = json_object_get(parameters, name);
    *word = json_word(value);
    if (!value || json_is_null(value) || *word)
        return 0;
    return failure_set(&request->failure, FAILURE_INVALID, "parameter %s is %s, %s was expected", name,
                       json_kind(value), expected);
}

int v2_texts_options(struct request *request, const json_t *parameters, struct text_inputs_options *options)
{
    const char *direction, *prompt, *type;
    if (v2_entry_bool(request, parameters, "truncate", &options->truncate) != 0 ||
        v2_entry_bool(request, parameters, "add_special_tokens", &options->add_special_tokens) != 0 ||
        read_word(request, parameters, "truncation_direction", "\"Left\" or \"Right\"", &direction) != 0 ||
        read_word(request, parameters, "prompt_name", "the name of a prompt", &prompt) != 0 ||
        read_word(request, parameters, "input_type", "the name of a prompt", &type) != 0 ||
        text_inputs_prompt(request, prompt, type, options) != 0 ||
        text_inputs_truncation(request, json_object_get(parameters, "truncate_prompt_tokens"), INT64_MAX,
                               &options->most_tokens) != 0)
        return -1;
    options->truncate = options->truncate || options->most_tokens > 0;
    return items_direction(request, direction, &options->truncate_left);
}

/* ---- The texts ---- */

static int add_text(struct texts_reading *reading, const char *text, size_t length)
{
    struct engine_input *input = &reading->ids[reading->count];
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "input \"%.100s\"[%" PRId64 "]", reading->tensor->name, reading->count);
    int64_t count;
    int32_t *ids = text_inputs_ids(&reading->texts, path, text, length, &count);
    if (!ids)
        return -1;
    *input = (struct engine_input){.data = ids, .length = count};
    if (reading->input->layout == LAYOUT_TENSOR)
        input->sizes[0] = count;
    reading->count++;
    return 0;
}

static int refuse_count(const struct texts_reading *reading, const char *what, int64_t found)
{
    return failure_set(&reading->texts.request->failure, FAILURE_INVALID,
                       "input \"%.100s\": data has %" PRId64 " %s, but its shape requires %" PRId64 " texts",
                       reading->tensor->name, found, what, reading->tensor->shape.sizes[0]);
}

/* Reads `data`, which is a list of texts. If the shape is (batch, 1), it may also be a list of lists of one text. */
static int from_json(struct texts_reading *reading, const json_t *data)
{
    struct failure *failure = &reading->texts.request->failure;
    int64_t count = reading->tensor->shape.sizes[0];
    if ((int64_t)json_array_size(data) != count)
        return refuse_count(reading, "elements", (int64_t)json_array_size(data));
    for (int64_t i = 0; i < count; i++) {
        const json_t *text = json_array_get(data, (size_t)i);
        if (reading->tensor->shape.rank == 2 && json_array_size(text) == 1)
            text = json_array_get(text, 0);
        if (!json_is_string(text))
            return failure_set(failure, FAILURE_INVALID, "input \"%.100s\"[%" PRId64 "] is %s, a string was expected",
                               reading->tensor->name, i, json_kind(text));
        if (add_text(reading, json_string_value(text), json_string_length(text)) != 0)
            return -1;
    }
    return 0;
}

/* Reads texts from binary data. Each text follows its length, a little-endian integer of four bytes. */
static int from_bytes(struct texts_reading *reading, const char *bytes, int64_t n_bytes)
{
    while (n_bytes > 0 && reading->count < reading->tensor->shape.sizes[0]) {
        uint32_t length = 0;
        if (n_bytes >= (int64_t)sizeof length)
            memcpy(&length, bytes, sizeof length);
        if ((int64_t)length > n_bytes - (int64_t)sizeof length)
            return failure_set(&reading->texts.request->failure, FAILURE_INVALID,
                               "input \"%.100s\"[%" PRId64 "] is cut off: four bytes with the text's length, and then "
                               "the text were expected",
                               reading->tensor->name, reading->count);
        if (add_text(reading, bytes + sizeof length, length) != 0)
            return -1;
        bytes += sizeof length + length;
        n_bytes -= (int64_t)(sizeof length + length);
    }
    if (n_bytes > 0)
        return refuse_count(reading, "bytes after the texts", n_bytes);
    if (reading->count < reading->tensor->shape.sizes[0])
        return refuse_count(reading, "texts", reading->count);
    return 0;
}

/* ---- The tensor ---- */

static int check_tensor(struct request *request, const struct v2_tensor *tensor, const struct model_input *input)
{
    const struct text_codec *codec = text_inputs_codec(request);
    const struct v2_shape *shape = &tensor->shape;
    bool one_each = shape->rank == 1 || (shape->rank == 2 && shape->sizes[1] == 1);
    bool is_sequence = input->layout == LAYOUT_SEQUENCE || (input->layout == LAYOUT_TENSOR && input->rank == 1);
    if (!codec)
        return failure_set(&request->failure, FAILURE_INVALID,
                           "input \"%.100s\" has datatype " DATATYPE ", but model \"%s\" has no tokenizer: INT64 or "
                           "INT32 was expected",
                           tensor->name, request_model_name(request));
    if (!is_sequence)
        return failure_set(&request->failure, FAILURE_INVALID,
                           "input \"%.100s\" has datatype " DATATYPE ", INT64 or INT32 was expected: the input is not "
                           "a sequence of ids",
                           tensor->name);
    if (text_codec_ids(codec) > input->vocabulary)
        return failure_set(&request->failure, FAILURE_INVALID,
                           "input \"%.100s\" has datatype " DATATYPE ", INT64 or INT32 was expected: the tokenizer "
                           "returns ids up to %" PRId64 ", but ids of this input are below %" PRId64,
                           tensor->name, text_codec_ids(codec) - 1, input->vocabulary);
    if (!one_each)
        return failure_set(
            &request->failure, FAILURE_INVALID,
            shape->rank == 2 ? "input \"%.100s\" has size %" PRId64 " in dimension 1; expected 1, or the shape [batch]"
                             : "input \"%.100s\" has %" PRId64 " dimensions; expected the shape [batch] or [batch,1]",
            tensor->name, shape->rank == 2 ? shape->sizes[1] : (int64_t)shape->rank);
    return v2_tensor_check_batch(request, shape->sizes[0]);
}

int v2_texts_read(struct request *request, const struct text_inputs_options *options, struct v2_tensor *tensor,
                  int index)
{
    const struct model_input *input = &request->info->inputs[index];
    struct items_limit limit = items_limit(request->info, index);
    if (options->most_tokens > 0 && options->most_tokens < limit.tokens)
        limit.tokens = options->most_tokens;
    limit.cutting = "set the parameter truncate to true";
    if (check_tensor(request, tensor, input) != 0)
        return -1;
    struct texts_reading reading = {
        .texts = {.request = request, .options = *options, .limit = &limit},
        .tensor = tensor,
        .input = input,
        .ids = request_take(request, tensor->shape.sizes[0], sizeof *reading.ids),
    };
    if (!reading.ids)
        return -1;
    int status =
        tensor->data ? from_json(&reading, tensor->data) : from_bytes(&reading, tensor->bytes, tensor->n_bytes);
    text_inputs_end(&reading.texts);
    tensor->texts = reading.ids;
    return status;
}
