/* ollama: the table of routes for clients of Ollama. Inputs are read in the same way as for /embed. Keys that /embed
 * also accepts have the same meaning as for /embed. docs/api.md in Ollama's repository describes Ollama's own keys. */
#include "server/dialects/ollama/ollama.h"

#include "server/common/clock.h"
#include "server/dialects/native/body.h"
#include "server/dialects/native/embed.h"

#include <inttypes.h>

/* The key `options` contains settings of Ollama's model runner, and `keep_alive` the time for which Ollama keeps a
 * model in memory. Both are ignored. */
#define VECTOR_OPTIONS                                                             \
    NATIVE_READING_OPTIONS, NATIVE_VECTOR_OPTIONS, {"options", OPTION_IGNORED, 0}, \
    {                                                                              \
        "keep_alive", OPTION_IGNORED, 0                                            \
    }

static const struct option embed_options[] = {
    {"input", OPTION_JSON, offsetof(struct native_inputs, inputs)},
    VECTOR_OPTIONS,
};

static const struct option embeddings_options[] = {
    {"prompt", OPTION_JSON, offsetof(struct native_inputs, inputs)},
    VECTOR_OPTIONS,
};

/* Fails if the request contains a list of inputs instead of a single input. */
static int check_one(struct request *request, const struct native_inputs *inputs)
{
    if (!inputs->many)
        return 0;
    return failure_set(&request->failure, FAILURE_INVALID,
                       "%s is a list of inputs, one text was expected: use /api/embed for several", inputs->key);
}

/* `key` is the key for the inputs. `one` is true if the route accepts only a single input. */
static enum outcome read_vectors(struct request *request, const char *key, bool one, const struct option *table,
                                 size_t count)
{
    struct native_vectors body = {.inputs.key = key};
    json_t *json = native_body(request, &body.inputs);
    if (!json)
        return OUTCOME_FAILED;
    body.normalize = request->info->normalize;
    body.inputs.truncate = true; /* the default of this key in Ollama's API */
    bool read = request_options(request, json, table, count, &body) == 0 && native_vectors_want(request, &body) == 0 &&
                (!one || check_one(request, &body.inputs) == 0);
    json_decref(json);
    return read ? OUTCOME_RUN : OUTCOME_FAILED;
}

static enum outcome embed_read(struct request *request)
{
    return read_vectors(request, "input", false, embed_options, OPTION_COUNT(embed_options));
}

static int embed_answer(struct request *request)
{
    struct writer *writer = &request->answer;
    const struct job *job = &request->job;
    int64_t tokens = 0;
    writer_reserve(writer, (size_t)request->answer_bytes);
    writer_text(writer, "{\"model\":");
    writer_string0(writer, request_model_name(request));
    writer_text(writer, ",\"embeddings\":[");
    for (int64_t i = 0; i < job->n_items; i++) {
        if (i > 0)
            writer_text(writer, ",");
        native_vector_write(request, i);
        tokens += job->items[i].inputs[0].length;
    }
    writer_format(writer, "],\"total_duration\":%" PRId64 ",\"prompt_eval_count\":%" PRId64 "}",
                  clock_ns() - job->submitted_ns, tokens);
    return 0;
}

static enum outcome embeddings_read(struct request *request)
{
    return read_vectors(request, "prompt", true, embeddings_options, OPTION_COUNT(embeddings_options));
}

static int embeddings_answer(struct request *request)
{
    writer_reserve(&request->answer, (size_t)request->answer_bytes);
    writer_text(&request->answer, "{\"embedding\":");
    native_vector_write(request, 0);
    writer_text(&request->answer, "}");
    return 0;
}

static void write_failure(struct writer *writer, const struct failure *failure)
{
    writer_text(writer, "{\"error\":");
    writer_string0(writer, failure->error.message);
    writer_text(writer, "}");
}

static const struct route routes[] = {
    {"POST", "/api/embed", ACCEPTS_JSON, .work = WORK_INFERENCE, .read = embed_read, .answer = embed_answer},
    {"POST", "/api/embeddings", ACCEPTS_JSON, .work = WORK_INFERENCE, .read = embeddings_read,
     .answer = embeddings_answer},
};

const struct dialect ollama_dialect = {
    .prefixes = {"/api"},
    .routes = routes,
    .n_routes = sizeof routes / sizeof routes[0],
    .invalid_status = 400,
    .write_failure = write_failure,
    .out_of_memory = "{\"error\":\"out of memory\"}",
};
