/* embed: /embed returns one vector for each input. /embed_all returns one vector for each token. */
#include "server/dialects/native/embed.h"

#include "server/dialects/native/body.h"
#include "server/dialects/native/inputs.h"
#include "server/dialects/native/named.h"
#include "server/dialects/native/routes.h"
#include "server/dialects/native/served.h"
#include "server/dialects/results.h"

#include <inttypes.h>
#include <math.h>

/* The form in which vectors are written. The answer needs it after the JSON is freed. */
struct vector_form {
    bool normalize, base64;
    int64_t dimensions;
};

static const struct option embed_options[] = {NATIVE_INPUT_OPTIONS, NATIVE_VECTOR_OPTIONS};

static const struct option embed_all_options[] = {
    NATIVE_INPUT_OPTIONS,
    {"normalize", OPTION_BOOL, offsetof(struct native_vectors, normalize)},
    {"dimensions", OPTION_LIMIT, offsetof(struct native_vectors, dimensions)},
};

static int64_t vector_columns(const struct model_info *info)
{
    return info->gives_vector ? info->output_columns : info->hidden_columns;
}

/* Sets form->dimensions to `dimensions`, the value of the request's key. 0 means all columns. Refuses more dimensions
 * than columns. */
static int set_dimensions(struct request *request, int64_t dimensions, int64_t columns, struct vector_form *form)
{
    form->dimensions = dimensions > 0 ? dimensions : columns;
    if (dimensions <= columns)
        return 0;
    return failure_set(&request->failure, FAILURE_INVALID,
                       "dimensions is %" PRId64 ", but vectors of model \"%s\" have %" PRId64 " numbers", dimensions,
                       request_model_name(request), columns);
}

/* Allocates memory for the vector of each item. If `written` is true, also charges memory for the text of the
 * vectors. */
static int want_vectors(struct request *request, enum pooling pooling, bool written, const struct vector_form *form)
{
    struct job *job = &request->job;
    int64_t columns = vector_columns(request->info), floats = 0;
    if (results_count(request, job->n_items, columns, &floats) != 0)
        return -1;
    request->answer_bytes = written ? results_text_bytes(floats, job->n_items, form->base64) : 0;
    if (request_charge(request, request->answer_bytes + floats * (int64_t)sizeof(float)) != 0)
        return -1;
    float *results = request_memory(request, floats, sizeof *results);
    if (!results)
        return -1;
    for (int64_t i = 0; i < job->n_items; i++) {
        struct engine_item *item = &job->items[i];
        *(request->info->gives_vector ? &item->output : &item->pooled) = results + i * columns;
        item->n_rows = request->info->gives_vector ? 1 : 0;
        item->pooling = pooling;
    }
    return 0;
}

int native_vectors_want(struct request *request, struct native_vectors *vectors)
{
    int pooling = vectors->pooling ? pooling_from_name(vectors->pooling) : (int)request->info->pooling;
    struct vector_form *form = request_memory(request, 1, sizeof *form);
    request->options = form;
    if (!form || native_serves(request, NATIVE_VECTORS) != 0 || native_items(request, &vectors->inputs) != 0 ||
        native_encoding(request, &vectors->inputs, &form->base64) != 0)
        return -1;
    if (pooling < 0)
        return failure_set(&request->failure, FAILURE_INVALID,
                           "pooling is \"%.100s\", one of mean, cls, last, max was expected", vectors->pooling);
    form->normalize = vectors->normalize;
    if (set_dimensions(request, vectors->dimensions, vector_columns(request->info), form) != 0 ||
        want_vectors(request, (enum pooling)pooling, !vectors->unwritten, form) != 0)
        return -1;
    return native_check(request, &vectors->inputs);
}

enum outcome native_embed_json(struct request *request, const json_t *json, const struct native_inputs *inputs)
{
    struct native_vectors body = {.inputs = *inputs, .normalize = request->info->normalize};
    bool read = native_options(request, json, embed_options, OPTION_COUNT(embed_options), &body) == 0 &&
                native_vectors_want(request, &body) == 0;
    return read ? OUTCOME_RUN : OUTCOME_FAILED;
}

enum outcome native_embed_read(struct request *request)
{
    struct native_inputs inputs = {.takes_files = true, .named = true};
    json_t *json = native_body(request, &inputs);
    if (!json)
        return OUTCOME_FAILED;
    enum outcome outcome = native_embed_json(request, json, &inputs);
    json_decref(json);
    return outcome;
}

static void normalize(float *vector, int64_t count)
{
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += (double)vector[i] * vector[i];
    double norm = sqrt(sum);
    if (norm < 1e-12) /* as in torch.nn.functional.normalize, so a vector of zeros stays zero */
        norm = 1e-12;
    for (int64_t i = 0; i < count; i++)
        vector[i] = (float)(vector[i] / norm);
}

static void write_vector(struct writer *writer, const float *vector, int64_t count, bool base64)
{
    if (base64)
        writer_base64(writer, vector, count);
    else
        writer_floats(writer, vector, count);
}

/* Writes the first form->dimensions values of a vector. Normalises them in place if the form says so. */
static void write_formed(struct writer *writer, float *vector, const struct vector_form *form)
{
    if (form->normalize)
        normalize(vector, form->dimensions);
    write_vector(writer, vector, form->dimensions, form->base64);
}

const float *native_vector(const struct request *request, int64_t item, int64_t *count)
{
    const struct vector_form *form = request->options;
    const struct engine_item *of = &request->job.items[item];
    *count = form->dimensions;
    return request->info->gives_vector ? of->output : of->pooled;
}

void native_vector_write(struct request *request, int64_t item)
{
    const struct vector_form *form = request->options;
    const struct engine_item *of = &request->job.items[item];
    float *vector = request->info->gives_vector ? of->output : of->pooled;
    write_formed(&request->answer, vector, form);
}

int native_embed_answer(struct request *request)
{
    struct writer *writer = &request->answer;
    writer_reserve(writer, (size_t)request->answer_bytes);
    writer_text(writer, "[");
    for (int64_t i = 0; i < request->job.n_items; i++) {
        if (i > 0)
            writer_text(writer, ",");
        native_vector_write(request, i);
    }
    writer_text(writer, "]");
    return 0;
}

/* Allocates memory for the results (rows, hidden_columns) of each item. */
static int want_hidden(struct request *request, const struct vector_form *form)
{
    struct job *job = &request->job;
    int64_t columns = request->info->hidden_columns, floats = 0, rows = 0;
    for (int64_t i = 0; i < job->n_items; i++) {
        int64_t length = model_hidden_rows(request_engine_model(request), &job->items[i]);
        rows += length;
        if (results_count(request, length, columns, &floats) != 0)
            return -1;
    }
    request->answer_bytes = results_text_bytes(floats, rows, form->base64);
    if (request_charge(request, request->answer_bytes + floats * (int64_t)sizeof(float)) != 0)
        return -1;
    float *results = request_memory(request, floats, sizeof *results);
    if (!results)
        return -1;
    for (int64_t i = 0; i < job->n_items; i++) {
        job->items[i].hidden = results;
        results += model_hidden_rows(request_engine_model(request), &job->items[i]) * columns;
    }
    return 0;
}

static int read_embed_all(struct request *request, const json_t *json, struct native_vectors *body)
{
    struct vector_form *form = request_memory(request, 1, sizeof *form);
    request->options = form;
    if (!form || native_serves(request, NATIVE_TOKENS) != 0 ||
        native_options(request, json, embed_all_options, OPTION_COUNT(embed_all_options), body) != 0 ||
        native_items(request, &body->inputs) != 0 || native_encoding(request, &body->inputs, &form->base64) != 0 ||
        set_dimensions(request, body->dimensions, request->info->hidden_columns, form) != 0 ||
        want_hidden(request, form) != 0)
        return -1;
    form->normalize = body->normalize;
    return native_check(request, &body->inputs);
}

enum outcome native_embed_all_read(struct request *request)
{
    struct native_vectors body = {.inputs.named = true};
    json_t *json = native_body(request, &body.inputs);
    if (!json)
        return OUTCOME_FAILED;
    int status = read_embed_all(request, json, &body);
    json_decref(json);
    return status == 0 ? OUTCOME_RUN : OUTCOME_FAILED;
}

int native_embed_all_answer(struct request *request)
{
    const struct vector_form *form = request->options;
    struct writer *writer = &request->answer;
    int64_t columns = request->info->hidden_columns;
    writer_reserve(writer, (size_t)request->answer_bytes);
    writer_text(writer, "[");
    for (int64_t i = 0; i < request->job.n_items; i++) {
        const struct engine_item *item = &request->job.items[i];
        int64_t rows = model_hidden_rows(request_engine_model(request), item);
        writer_text(writer, i > 0 ? ",[" : "[");
        for (int64_t row = 0; row < rows; row++) {
            if (row > 0)
                writer_text(writer, ",");
            write_formed(writer, item->hidden + row * columns, form);
        }
        writer_text(writer, "]");
    }
    writer_text(writer, "]");
    return 0;
}
