/* The decoders of all bodies: the first byte chooses a route, the rest is the body. For any input, each answer and each
 * failure must be JSON, and all charged memory must be given back. */
#include "tests/fake_engine.c" /* in the engine's place */
#include "tests/http/native_call.h"

#include <stdio.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Whether the fake engine has an answer: it has none for ids that stand for a broken device, and takes the first float
 * of a row for an id. */
static bool answerable(const struct request *request)
{
    int64_t columns = request->info->inputs[0].columns;
    for (int64_t i = 0; i < request->job.n_items; i++) {
        const void *data = request->job.items[i].inputs[0].data;

        for (int64_t n = 0; n < request->job.items[i].inputs[0].length; n++) {
            float id =
                request->info->vocabulary ? (float)((const int32_t *)data)[n] : ((const float *)data)[n * columns];

            if (!(id > -1e6f && id < 1e6f) || (id >= FAKE_ID_NAN && id < FAKE_ID_FAIL + 1))
                return false;
        }
    }
    return true;
}

static unsigned checksum; /* of inputs. Reading them finds a wrong length */

/* Bytes of an input of an item. */
static int64_t input_bytes(const struct model_input *input, const struct engine_input *given)
{
    if (input->kind == INPUT_MASK)
        return given->length;
    if (input->kind == INPUT_ATTENTION_MASK)
        return given->length * given->columns * (given->floats ? (int64_t)sizeof(float) : 1);
    return given->length * (input->kind == INPUT_ROWS ? input->columns : 1) * (int64_t)sizeof(float);
}

/* Reads the sequences of all items. */
static void read_inputs(const struct request *request)
{
    for (int64_t i = 0; i < request->job.n_items; i++)
        for (int k = 0; k < request->info->n_inputs; k++) {
            const struct engine_input *given = &request->job.items[i].inputs[k];
            const unsigned char *bytes = given->data;
            bool is_sequence = request->info->inputs[k].layout == LAYOUT_SEQUENCE;
            for (int64_t b = 0; bytes && is_sequence && b < input_bytes(&request->info->inputs[k], given); b++)
                checksum += bytes[b];
        }
}

static void expect_json(const struct writer *writer)
{
    json_error_t error;
    json_t *json = json_loadb(writer->data, writer->length, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);
    if (!json) {
        fprintf(stderr, "%s at %d: %.*s\n", error.text, error.position, (int)writer->length, writer->data);
        abort();
    }
    json_decref(json);
}

static void call(const struct route_match *match, struct request *request)
{
    struct error error;
    enum outcome outcome = match->route->read(request);
    if (outcome == OUTCOME_RUN) {
        fake_reset();
        read_inputs(request);
        if (!answerable(request) || native_run(native_models[request->model_index].model, 0, request->job.items,
                                               request->job.n_items, &error) != 0)
            return;
        if (match->route->answer(request) != 0)
            abort();
    } else if (outcome == OUTCOME_FAILED) {
        if (request->failure.kind == FAILURE_NONE || !*request->failure.error.message)
            abort();
        writer_free(&request->answer);
        match->dialect->write_failure(&request->answer, &request->failure);
    }
    if (!request->answer.failed)
        expect_json(&request->answer);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const paths[] = {"/embed",
                                        "/embed_all",
                                        "/logits",
                                        "/tokenize",
                                        "/decode",
                                        "/v1/embeddings",
                                        "/predict",
                                        "/",
                                        "/similarity",
                                        "/fill-mask",
                                        "/api/embed",
                                        "/api/embeddings",
                                        "/openai/deployments/bytes/embeddings"};
    struct route_match match;
    struct request request;
    if (size == 0)
        return 0;
    if (!native_models[0].model)
        native_open();
    routes_find(all_dialects, "POST", paths[(data[0] - '0') % (sizeof paths / sizeof paths[0])], &match);
    request_open(&request, &native_service, (const char *)data + 1, size - 1);
    memcpy(request.parameters, match.parameters, sizeof request.parameters);
    request_begin(&request);
    request.header = native_no_header;
    call(&match, &request);
    request_close(&request);
    if (atomic_load(&native_service.results.used) != 0)
        abort();
    return 0;
}
