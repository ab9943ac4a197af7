/* Fuzz target: calls of /v2. The first byte of the input chooses a model. The rest of the first line is
 * Inference-Header-Content-Length, or "-" if the header is not sent. The rest of the input is the body. For any input,
 * the memory that the engine reads and writes must be valid. Each answer must be JSON, followed by the number of bytes
 * that the JSON states. All memory that a request charges to the limit of results must be given back. */
#include "server/dialects/dialects.h"
#include "tests/fake_engine.c" /* replaces the engine */

#include <stdio.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct settings settings = {.max_batch_tokens = 1024, .max_client_batch_size = 8, .payload_limit = 1 << 20};
static struct served_model models[3];
static struct model_set set = {.models = models, .n_models = 3};
static struct model_sets sets = MODEL_SETS_OF(&set);
static struct service service = {
    .options = {.settings = &settings, .sets = &sets},
    .results = {.limit = INT64_C(1) << 30},
};
static char header_length[32];
static unsigned checksum; /* checksum of the inputs. The sanitizer detects a wrong length when the inputs are read */

static const char *header(const struct request *request, const char *name)
{
    (void)request;
    return strcmp(name, "Inference-Header-Content-Length") == 0 && *header_length != '-' ? header_length : NULL;
}

/* Opens three models. The inputs of the first are ids and a mask. Those of the second are two tensors of floats, and an
 * attention mask. An item of the third is a whole call of forward(), with an attention mask and an input that is
 * ignored. */
static void open_models(void)
{
    enum { LONGEST = FAKE_MAX_LENGTH };
    static const char *const outputs[] = {"output"};
    static struct model_input inputs[3][4] = {
        {{.name = "x", .kind = INPUT_IDS, .columns = 1, .vocabulary = 259, .max_length = LONGEST},
         {.name = "mask", .kind = INPUT_MASK, .columns = 1, .max_length = LONGEST, .optional = true}},
        {{.name = "x", .kind = INPUT_ROWS, .columns = FAKE_COLUMNS, .max_length = LONGEST},
         {.name = "context", .kind = INPUT_ROWS, .columns = 2, .max_length = LONGEST, .optional = true},
         {.name = "mask", .kind = INPUT_ATTENTION_MASK, .columns = 3, .max_length = LONGEST, .optional = true}},
        {{.name = "query", .kind = INPUT_ROWS, .layout = LAYOUT_CALL, .columns = FAKE_COLUMNS, .max_length = LONGEST},
         {.name = "key", .kind = INPUT_ROWS, .layout = LAYOUT_CALL, .columns = 2, .max_length = LONGEST},
         {.name = "mask",
          .kind = INPUT_ATTENTION_MASK,
          .layout = LAYOUT_CALL,
          .columns = 3,
          .accepts_floats = true,
          .masks_per_sequence = 2,
          .max_length = LONGEST,
          .optional = true},
         {.name = "ignored", .kind = INPUT_IGNORED, .max_length = LONGEST, .optional = true}},
    };
    static const int n_inputs[] = {2, 3, 4};
    for (int i = 0; i < 3; i++) {
        struct model_info info = {.architecture = "fake.Model",
                                  .inputs = inputs[i],
                                  .n_inputs = n_inputs[i],
                                  .outputs = outputs,
                                  .n_outputs = 1,
                                  .vocabulary = i ? 0 : 259,
                                  .output_columns = FAKE_COLUMNS,
                                  .hidden_columns = FAKE_COLUMNS,
                                  .padding = "slice"};

        models[i] = (struct served_model){.name = i == 0   ? "ids"
                                                  : i == 1 ? "rows"
                                                           : "call",
                                          .model = fake_model(&info)};
    }
    atomic_store(&service.ready, true);
}

/* Number of bytes of input i of an item, as engine.h defines it. */
static size_t input_bytes(const struct model_input *input, const struct engine_item *item, int i)
{
    size_t rows = (size_t)item->inputs[i].length, width = (size_t)item->inputs[i].width;
    size_t masks = (size_t)item->inputs[i].n_masks;
    switch (input->kind) {
    case INPUT_IDS:
        return rows * sizeof(int32_t);
    case INPUT_ROWS:
        return rows * (input->layout == LAYOUT_CALL ? width : 1) * (size_t)input->columns * sizeof(float);
    case INPUT_MASK:
        return rows;
    case INPUT_ATTENTION_MASK:
        return (masks ? masks : 1) * rows * (size_t)item->inputs[i].columns *
               (item->inputs[i].floats ? sizeof(float) : 1);
    case INPUT_IGNORED:
        return 0;
    }
    return 0;
}

/* Reads all inputs of an item, and writes all requested results. */
static void run(const struct model_info *info, const struct engine_item *item)
{
    for (int i = 0; i < info->n_inputs; i++) {
        const unsigned char *bytes = item->inputs[i].data;

        for (size_t b = 0; bytes && b < input_bytes(&info->inputs[i], item, i); b++)
            checksum += bytes[b];
    }
    for (int64_t f = 0; item->output && f < item->n_rows * info->output_columns; f++)
        item->output[f] = 0.5f;
}

/* Checks that an answer is JSON, followed by as many bytes as the JSON states. */
static void check_answer(const struct request *request)
{
    const struct writer *answer = &request->answer;
    size_t length = request->answer_json_bytes ? request->answer_json_bytes : answer->length, bytes = 0;
    json_t *json = json_loadb(answer->data, length, JSON_REJECT_DUPLICATES, NULL);
    const json_t *output;
    size_t i;
    if (!json)
        abort();
    json_array_foreach (json_object_get(json, "outputs"), i, output) {
        const json_t *parameters = json_object_get(output, "parameters");

        bytes += (size_t)json_integer_value(json_object_get(parameters, "binary_data_size"));
    }
    if (length + bytes != answer->length)
        abort();
    json_decref(json);
}

static void call(const struct route_match *match, struct request *request)
{
    if (match->route->read(request) == OUTCOME_RUN) {
        for (int64_t i = 0; i < request->job.n_items; i++)
            run(request->info, &request->job.items[i]);
        if (match->route->answer(request) != 0)
            abort();
    } else {
        if (request->failure.kind == FAILURE_NONE || !*request->failure.error.message)
            abort();
        writer_free(&request->answer);
        request->answer_json_bytes = 0;
        match->dialect->write_failure(&request->answer, &request->failure);
    }
    check_answer(request);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const paths[] = {"/v2/models/ids/infer", "/v2/models/rows/infer", "/v2/models/call/infer"};
    const uint8_t *line = size ? memchr(data, '\n', size) : NULL;
    struct route_match match;
    struct request request;
    if (!line || line == data || (size_t)(line - data) > sizeof header_length)
        return 0;
    if (!models[0].model)
        open_models();
    snprintf(header_length, sizeof header_length, "%.*s", (int)(line - data - 1), (const char *)data + 1);
    routes_find(all_dialects, "POST", paths[data[0] % 3], &match);
    request_open(&request, &service, (const char *)line + 1, size - (size_t)(line + 1 - data));
    request_begin(&request);
    request.header = header;
    memcpy(request.parameters, match.parameters, sizeof request.parameters);
    call(&match, &request);
    request_close(&request);
    if (atomic_load(&service.results.used) != 0)
        abort();
    return 0;
}
