/* Fuzz target: the decoders of the bodies of the routes for POST, except those of /v2 (fuzz_v2.c). The first byte of
 * the input chooses a route. The rest of the input is the body. For any input, each answer, each event of a stream and
 * each failure must be JSON. All memory that a request charges to the limit of results must be given back. */
#define _GNU_SOURCE            /* memmem */
#include "tests/fake_engine.c" /* replaces the engine */
#include "tests/http/native_call.h"

#include <stdio.h>

#define MAX_JOBS 20 /* maximum number of jobs of a request. After these, the request ends as if its client had left */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Whether the request avoids the ids that cause failures of the fake engine, and ids whose absolute value is a million
 * or more. In a row of floats, the first float is the id. */
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

static unsigned checksum; /* checksum of the inputs. The sanitizer detects a wrong length when the inputs are read */

/* Number of bytes in an item's input. */
static int64_t input_bytes(const struct model_input *input, const struct engine_input *given)
{
    if (input->kind == INPUT_MASK)
        return given->length;
    if (input->kind == INPUT_ATTENTION_MASK)
        return given->length * given->columns * (given->floats ? (int64_t)sizeof(float) : 1);
    return given->length * (input->kind == INPUT_ROWS ? input->columns : 1) * (int64_t)sizeof(float);
}

/* Reads each byte of the sequences of all items. */
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

static void expect_json(const char *text, size_t length)
{
    json_error_t error;
    json_t *json = json_loadb(text, length, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);
    if (!json) {
        fprintf(stderr, "%s at %d: %.*s\n", error.text, error.position, (int)length, text);
        abort();
    }
    json_decref(json);
}

/* Aborts unless the text consists of events. An event is "data:", followed by JSON or [DONE], followed by an empty
 * line. */
static void expect_events(const char *text, size_t length)
{
    static const char begin[] = "data:", done[] = " [DONE]";
    while (length > 0) {
        const char *end = memmem(text, length, "\n\n", 2);
        size_t event = end ? (size_t)(end - text) : 0;
        if (event < sizeof begin - 1 || memcmp(text, begin, sizeof begin - 1) != 0) {
            fprintf(stderr, "not an event: %.*s\n", (int)length, text);
            abort();
        }
        const char *data = text + sizeof begin - 1;
        size_t data_length = event - (sizeof begin - 1);
        if (data_length != sizeof done - 1 || memcmp(data, done, data_length) != 0)
            expect_json(data, data_length);
        text += event + 2;
        length -= event + 2;
    }
}

static void expect_failure(const struct route_match *match, struct request *request)
{
    if (request->failure.kind == FAILURE_NONE || !*request->failure.error.message)
        abort();
    writer_free(&request->answer);
    match->dialect->write_failure(&request->answer, &request->failure);
    if (!request->answer.failed)
        expect_json(request->answer.data, request->answer.length);
}

/* Runs the jobs of a request. Returns false if the request gets no answer. */
static bool run_jobs(struct request *request)
{
    struct error error;
    for (int jobs = 0; jobs < MAX_JOBS; jobs++) {
        fake_reset();
        read_inputs(request);
        if (!answerable(request) || native_run(native_models[request->model_index].model, 0, request->job.items,
                                               request->job.n_items, &error) != 0)
            return false;
        if (!request->next || !request->next(request))
            return true;
    }
    return false;
}

static void call(const struct route_match *match, struct request *request)
{
    enum outcome outcome = match->route->read(request);
    bool failed = outcome == OUTCOME_FAILED;
    if (outcome == OUTCOME_RUN) {
        if (!run_jobs(request))
            return;
        failed = request->failure.kind != FAILURE_NONE;
        if (!failed && match->route->answer(request) != 0)
            abort();
    }
    const struct writer *answer = &request->answer;
    if (request->streamed && outcome == OUTCOME_RUN && !answer->failed)
        expect_events(answer->data, answer->length);
    if (failed)
        expect_failure(match, request);
    else if (!request->streamed && !answer->failed)
        expect_json(answer->data, answer->length);
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
                                        "/openai/deployments/bytes/embeddings",
                                        "/generate",
                                        "/generate_stream",
                                        "/v1/completions",
                                        "/openai/deployments/writer/completions",
                                        "/classify",
                                        "/rerank",
                                        "/embed_sparse",
                                        "/invocations"};
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
