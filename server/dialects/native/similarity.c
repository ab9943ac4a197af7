/* similarity: /similarity returns the cosine of the angle between the vectors of two texts, as
 * text-embeddings-inference does. It compares one source text with each text of a list. The vectors are those of
 * /embed. */
#include "server/dialects/native/body.h"
#include "server/dialects/native/embed.h"
#include "server/dialects/native/routes.h"
#include "server/dialects/results.h"

#include <math.h>

struct similarity_body {
    struct native_vectors vectors; /* must be the first member for NATIVE_VECTOR_OPTIONS */
    json_t *texts, *parameters;
};

static const struct option options[] = {
    {"inputs", OPTION_OBJECT, offsetof(struct similarity_body, texts)},
    {"parameters", OPTION_OBJECT, offsetof(struct similarity_body, parameters)},
    NATIVE_TEXT_OPTIONS,
    NATIVE_VECTOR_OPTIONS,
    {"options", OPTION_IGNORED, 0},
};

static const struct option parameter_options[] = {NATIVE_ENCODING_OPTIONS, NATIVE_VECTOR_OPTIONS};

/* The values of the keys of `inputs`. */
struct similarity_texts {
    json_t *source, *sentences;
};

static const struct option text_options[] = {
    {"source_sentence", OPTION_JSON, offsetof(struct similarity_texts, source)},
    {"sentences", OPTION_LIST, offsetof(struct similarity_texts, sentences)},
};

static int check_texts(struct request *request, const struct similarity_body *body,
                       const struct similarity_texts *texts)
{
    if (!body->texts)
        return failure_set(&request->failure, FAILURE_INVALID,
                           "inputs is missing, an object with source_sentence and sentences was expected");
    if (!texts->source || !texts->sentences)
        return failure_set(&request->failure, FAILURE_INVALID, "inputs.%s is missing, %s was expected",
                           texts->source ? "sentences" : "source_sentence",
                           texts->source ? "a list of strings" : "a string");
    if (!json_is_string(texts->source))
        return failure_set(&request->failure, FAILURE_INVALID, "inputs.source_sentence is %s, a string was expected",
                           json_kind(texts->source));
    if (json_array_size(texts->sentences) == 0)
        return failure_set(&request->failure, FAILURE_INVALID, "inputs.sentences is empty, at least one was expected");
    for (size_t i = 0; i < json_array_size(texts->sentences); i++) {
        const json_t *sentence = json_array_get(texts->sentences, i);
        if (!json_is_string(sentence))
            return failure_set(&request->failure, FAILURE_INVALID, "inputs.sentences[%zu] is %s, a string was expected",
                               i, json_kind(sentence));
    }
    return 0;
}

/* Returns a new list with the source text and the sentences, in this order. On failure sets request->failure and
 * returns NULL. */
static json_t *join_texts(struct request *request, const struct similarity_body *body)
{
    struct similarity_texts texts = {0};
    if ((body->texts && request_options(request, body->texts, text_options, OPTION_COUNT(text_options), &texts) != 0) ||
        check_texts(request, body, &texts) != 0)
        return NULL;
    int64_t bytes = (int64_t)(json_array_size(texts.sentences) + 1) * (int64_t)sizeof(json_t *);
    if (request_charge(request, 2 * bytes) != 0) /* a list is copied when it grows, so its memory exists twice */
        return NULL;
    json_t *list = json_array();
    if (list && json_array_append(list, texts.source) == 0 && json_array_extend(list, texts.sentences) == 0)
        return list;
    json_decref(list);
    failure_memory(&request->failure);
    return NULL;
}

/* Makes the items request their vectors, and charges the text of one number for each sentence. */
static int want_vectors(struct request *request, struct native_vectors *vectors)
{
    if (native_vectors_want(request, vectors) != 0)
        return -1;
    request->answer_bytes = results_text_bytes(request->job.n_items - 1, 1, false);
    return request_charge(request, request->answer_bytes);
}

static int read_body(struct request *request, const json_t *json, struct similarity_body *body)
{
    if (request_options(request, json, options, OPTION_COUNT(options), body) != 0 ||
        (body->parameters &&
         request_options(request, body->parameters, parameter_options, OPTION_COUNT(parameter_options), body) != 0))
        return -1;
    json_t *list = join_texts(request, body);
    if (!list)
        return -1;
    body->vectors.inputs.inputs = list;
    int status = want_vectors(request, &body->vectors);
    json_decref(list);
    return status;
}

enum outcome native_similarity_read(struct request *request)
{
    struct similarity_body body = {.vectors = {.inputs.compared = true, .unwritten = true}};
    json_t *json = native_body(request, NULL);
    if (!json)
        return OUTCOME_FAILED;
    native_defaults(request, &body.vectors.inputs);
    int status = read_body(request, json, &body);
    json_decref(json);
    return status == 0 ? OUTCOME_RUN : OUTCOME_FAILED;
}

/* The cosine of the angle between two vectors. 0 if a vector is zero. */
static float cosine(const float *a, const float *b, int64_t count)
{
    double product = 0, a_squares = 0, b_squares = 0;
    for (int64_t i = 0; i < count; i++) {
        product += (double)a[i] * b[i];
        a_squares += (double)a[i] * a[i];
        b_squares += (double)b[i] * b[i];
    }
    double lengths = sqrt(a_squares) * sqrt(b_squares);
    return lengths > 0 ? (float)(product / lengths) : 0;
}

int native_similarity_answer(struct request *request)
{
    struct writer *writer = &request->answer;
    int64_t count;
    const float *source = native_vector(request, 0, &count);
    writer_reserve(writer, (size_t)request->answer_bytes);
    writer_text(writer, "[");
    for (int64_t i = 1; i < request->job.n_items; i++) {
        if (i > 1)
            writer_text(writer, ",");
        writer_float(writer, cosine(source, native_vector(request, i, &count), count));
    }
    writer_text(writer, "]");
    return 0;
}
