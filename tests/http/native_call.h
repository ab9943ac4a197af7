/* native_call: calls routes without a socket, with the fake engine. Unit tests, allocation tests and the fuzzer use it.
 * native_open adds these models:
 * - "bytes" accepts text, "ids" accepts only ids, "rows" accepts floats.
 * - "tensors", "classes", "score" and "pictures" are modules, whose inputs are tensors. "tensors" accepts floats.
 *   "classes" and "score" accept text. "pictures" accepts pictures. These three return one vector for each item.
 *   Only the columns of "classes" have names.
 * - "words" accepts text with a tokenizer.json (WordPiece with a template). It has the prompt "query". It generates
 *   without slots, so each of its jobs contains whole sequences.
 * - "pair" has several inputs, and the tokenizer of "words".
 * - "writer" accepts text like "bytes". It generates with slots, so each of its jobs contains only new rows.
 *
 * Include this header in one file of a program. */
#ifndef TESTS_HTTP_NATIVE_CALL_H
#define TESTS_HTTP_NATIVE_CALL_H

#include "server/dialects/dialects.h"
#include "server/tokenizer/text_codec.h"
#include "tests/fake_engine.h"

#include <stdlib.h>
#include <string.h>

static struct settings native_settings = {
    .max_batch_tokens = 1024, .max_client_batch_size = 8, .max_queue_requests = 100, .http_threads = 1};
static struct served_model native_models[10];
static struct model_set native_set = {.models = native_models};
static struct model_sets native_sets = MODEL_SETS_OF(&native_set);
static struct service native_service = {
    .options = {.settings = &native_settings, .sets = &native_sets},
    .results = {.limit = INT64_C(1) << 30},
};

/* The function that runs jobs. Allocation tests replace it. */
static int (*native_run)(struct model *model, int lane, const struct engine_item *items, int64_t n_items,
                         struct error *error) = model_run;

static inline void native_add(const char *name, const struct model_info *info, struct served_label *labels)
{
    int64_t index = native_set.n_models++;
    native_models[index] = (struct served_model){.name = name,
                                                 .model = fake_model(info),
                                                 .labels = labels,
                                                 .generation = {.temperature = 1, .top_p = 1, .repetition_penalty = 1},
                                                 .eos_token = -1,
                                                 .bos_token = -1};
}

/* Gives the model that was added last a tokenizer with one id for each byte. */
static inline void native_add_bytes(void)
{
    struct error error;
    if (text_codec_open_bytes(3, &native_models[native_set.n_models - 1].codec, &error) != 0)
        abort();
}

/* Gives the model that was added last the tokenizer of a file, such as tokenizer.json. */
static inline void native_add_tokenizer(const char *path)
{
    struct error error;
    size_t length;
    char *json = file_read(path, SIZE_MAX / 2, &length, &error);
    if (!json || text_codec_open(json, length, "tokenizer.json", path, &native_models[native_set.n_models - 1].codec,
                                 &error) != 0)
        abort();
    free(json);
}

/* Adds the models that are modules. Their inputs are tensors. All except "tensors" return one vector for each item. */
static inline void native_open_modules(struct model_info info)
{
    static struct served_label labels[] = {{"cat", true}, {"dog", false}, {"\"cow\"", false}, {"cat", false}};
    static struct model_input ids = {.name = "ids",
                                     .kind = INPUT_IDS,
                                     .layout = LAYOUT_TENSOR,
                                     .columns = 1,
                                     .vocabulary = 259,
                                     .rank = 1,
                                     .shape = {-1},
                                     .max_length = FAKE_MAX_LENGTH,
                                     .own_limit = true};
    static struct model_input rows = {.name = "x",
                                      .kind = INPUT_ROWS,
                                      .layout = LAYOUT_TENSOR,
                                      .columns = 1,
                                      .rank = 2,
                                      .shape = {-1, FAKE_COLUMNS},
                                      .max_length = FAKE_MAX_LENGTH};
    static struct model_input picture = {.name = "image",
                                         .kind = INPUT_ROWS,
                                         .layout = LAYOUT_TENSOR,
                                         .columns = 6,
                                         .rank = 3,
                                         .shape = {3, 4, 6},
                                         .max_length = FAKE_MAX_LENGTH};
    info.inputs = &rows;
    native_add("tensors", &info, NULL);
    info.vocabulary = 259;
    info.inputs = &ids;
    info.gives_vector = true;
    info.output_columns = sizeof labels / sizeof *labels;
    info.hidden_columns = 2;
    native_add("classes", &info, labels);
    native_add_bytes();
    info.output_columns = 1;
    native_add("score", &info, NULL);
    native_add_bytes();
    info.vocabulary = 0;
    info.inputs = &picture;
    info.output_columns = 3;
    native_add("pictures", &info, NULL);
    native_models[native_set.n_models - 1].image = image_settings_default(4, 6);
}

/* Adds a model whose inputs are ids, more ids, a mask, floats, and a mask that is added to scores. */
static inline void native_open_pair(struct model_info info)
{
    static struct model_input inputs[] = {
        {.name = "src", .kind = INPUT_IDS, .columns = 1, .vocabulary = FAKE_VOCABULARY, .like = -1, .fallback = -1},
        {.name = "tgt", .kind = INPUT_IDS, .columns = 1, .vocabulary = FAKE_VOCABULARY, .like = -1, .fallback = -1},
        {.name = "src_mask", .kind = INPUT_MASK, .columns = 1, .optional = true, .fallback = -1},
        {.name = "context", .kind = INPUT_ROWS, .columns = 2, .like = -1, .optional = true, .fallback = -1},
        {.name = "scores", .kind = INPUT_ATTENTION_MASK, .accepts_floats = true, .optional = true, .fallback = -1},
    };
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++) {
        inputs[i].max_length = FAKE_MAX_LENGTH;
        inputs[i].own_limit = true;
    }
    info.inputs = inputs;
    info.n_inputs = sizeof inputs / sizeof *inputs;
    info.vocabulary = info.output_columns = FAKE_VOCABULARY;
    native_add("pair", &info, NULL);
    native_add_tokenizer("tests/tokenizers/reference/bert.json");
}

/* Adds a model that generates bytes of text. Its jobs contain only new rows. */
static inline void native_open_writer(struct model_info info)
{
    static struct model_input ids = {.name = "x",
                                     .kind = INPUT_IDS,
                                     .columns = 1,
                                     .vocabulary = 259,
                                     .max_length = FAKE_MAX_LENGTH,
                                     .own_limit = true};
    info.inputs = &ids;
    info.vocabulary = info.output_columns = ids.vocabulary;
    info.is_causal = info.earlier_rows_stay = true;
    info.window = FAKE_MAX_LENGTH;
    info.n_slots = 4;
    native_add("writer", &info, NULL);
    native_add_bytes();
}

static inline void native_open(void)
{
    static struct model_input ids = {
        .name = "x", .kind = INPUT_IDS, .columns = 1, .max_length = FAKE_MAX_LENGTH, .own_limit = true};
    static struct model_input rows = {
        .name = "x", .kind = INPUT_ROWS, .columns = FAKE_COLUMNS, .max_length = FAKE_MAX_LENGTH};
    static struct model_input words = {
        .name = "x", .kind = INPUT_IDS, .columns = 1, .max_length = FAKE_MAX_LENGTH, .own_limit = true};
    static const char *const outputs[] = {"output"};
    struct model_info info = {.architecture = "fake.Model",
                              .inputs = &ids,
                              .n_inputs = 1,
                              .outputs = outputs,
                              .n_outputs = 1,
                              .vocabulary = 259,
                              .output_columns = 259,
                              .hidden_columns = FAKE_COLUMNS,
                              .has_logits = true,
                              .padding = "slice"};
    ids.vocabulary = info.vocabulary;
    native_add("bytes", &info, NULL);
    native_add_bytes();
    info.vocabulary = info.output_columns = ids.vocabulary = FAKE_VOCABULARY;
    native_add("ids", &info, NULL);
    info.inputs = &rows;
    info.vocabulary = 0;
    info.output_columns = FAKE_COLUMNS;
    info.has_logits = false;
    native_add("rows", &info, NULL);
    native_open_modules(info);
    info.inputs = &words;
    info.vocabulary = info.output_columns = words.vocabulary = FAKE_VOCABULARY;
    info.has_logits = info.is_causal = true;
    native_add("words", &info, NULL);
    native_add_tokenizer("tests/tokenizers/reference/bert.json");
    native_models[native_set.n_models - 1].prompts = json_pack("{s:s}", "query", "query: ");
    info.is_causal = false;
    native_open_pair(info);
    native_open_writer(info);
    atomic_store(&native_service.ready, true);
}

static inline void native_close(void)
{
    while (native_set.n_models > 0) {
        struct served_model *served = &native_models[--native_set.n_models];
        text_codec_close(served->codec);
        json_decref((json_t *)served->prompts);
        model_close(served->model);
    }
}

static inline const char *native_no_header(const struct request *request, const char *name)
{
    (void)request;
    (void)name;
    return NULL;
}

/* Runs all jobs of a request. On failure sets request->failure and returns -1. */
static inline int native_run_jobs(struct request *request)
{
    struct error error;
    do {
        if (native_run(native_models[request->model_index].model, 0, request->job.items, request->job.n_items,
                       &error) != 0)
            return failure_set(&request->failure, FAILURE_BACKEND, "%s", error.message);
    } while (request->next && request->next(request));
    return request->failure.kind == FAILURE_NONE ? 0 : -1;
}

/* Calls the POST route of a path. On success returns 0, and request->answer is complete. Otherwise sets
 * request->failure and returns -1. In both cases the caller must call request_close. */
static inline int native_call(const char *path, const char *body, size_t length, struct request *request)
{
    struct route_match match;
    routes_find(all_dialects, "POST", path, &match);
    request_open(request, &native_service, body, length);
    request_begin(request);
    memcpy(request->parameters, match.parameters, sizeof request->parameters);
    request->header = native_no_header;
    switch (match.route->read(request)) {
    case OUTCOME_FAILED:
        return -1;
    case OUTCOME_ANSWERED:
        break;
    case OUTCOME_SLOW:
        if (match.route->answer(request))
            return -1;
        break;
    case OUTCOME_RUN:
        if (native_run_jobs(request) != 0 || match.route->answer(request) != 0)
            return -1;
        break;
    }
    return request->answer.failed ? failure_memory(&request->failure) : 0;
}

#endif
