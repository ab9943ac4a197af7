/* Tests of /predict and POST / with a fake engine: forms of answers, scores, top_k, pictures, and which routes serve a
 * model. */
#include "server/images/images.h"
#include "tests/http/native_call.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>

#define PICTURE "tests/images/rgb.png"
#define TOLERANCE 1e-6
#define CLASSES 4

static const char *const labels[CLASSES] = {"cat", "dog", "\"cow\"", "cat"};

static json_t *answer_of(struct request *request, int status)
{
    if (status != 0)
        print_error("%s\n", request->failure.error.message);
    assert_int_equal(request->failure.kind, FAILURE_NONE);
    json_t *json = json_loadb(request->answer.data, request->answer.length, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(json);
    assert_true((int64_t)request->answer.length <= request->answer_bytes);
    request_close(request);
    return json;
}

static json_t *expect_answer(const char *path, const char *body)
{
    struct request request;
    fake_reset();
    int status = native_call(path, body, strlen(body), &request);
    return answer_of(&request, status);
}

static void expect_failure_of(const char *path, const char *body, size_t length, enum failure_kind kind,
                              const char *message)
{
    struct request request;
    fake_reset();
    assert_int_equal(native_call(path, body, length, &request), -1);
    assert_int_equal(request.failure.kind, kind);
    char found[1024];
    snprintf(found, sizeof found, "%s", request.failure.error.message);
    request_close(&request);
    assert_string_equal(found, message);
    assert_int_equal(native_service.results.used, 0);
}

static void expect_failure(const char *path, const char *body, const char *message)
{
    expect_failure_of(path, body, strlen(body), FAILURE_INVALID, message);
}

/* The logit of the fake engine for an input whose first id is `id`. */
static double logit(int32_t id, int class)
{
    return fake_output(id, 0, class);
}

static double softmax(int32_t id, int class)
{
    double sum = 0;
    for (int i = 0; i < CLASSES; i++)
        sum += exp(logit(id, i));
    return exp(logit(id, class)) / sum;
}

static double sigmoid(int32_t id, int class)
{
    return 1 / (1 + exp(-logit(id, class)));
}

/* Expects the best `count` classes. With the ids of these tests, the logits of the fake engine rise with the class, so
 * the last class is the best. */
static void expect_classes(const json_t *list, int32_t id, size_t count, double (*score)(int32_t id, int class))
{
    assert_int_equal(json_array_size(list), count);
    for (size_t i = 0; i < count; i++) {
        const json_t *entry = json_array_get(list, i);
        int class = CLASSES - 1 - (int)i;
        assert_int_equal(json_object_size(entry), 2);
        assert_string_equal(json_string_value(json_object_get(entry, "label")), labels[class]);
        assert_true(fabs(json_real_value(json_object_get(entry, "score")) - score(id, class)) < TOLERANCE);
    }
}

static void classes_come_best_first(void **state)
{
    (void)state;
    static const struct {
        const char *body;
        size_t count;
        double (*score)(int32_t id, int class);
    } cases[] = {
        {"{\"model\": \"classes\", \"inputs\": \"a\"}", CLASSES, softmax},
        {"{\"model\": \"classes\", \"inputs\": [\"a\"]}", CLASSES, softmax},
        {"{\"model\": \"classes\", \"inputs\": [100, 2]}", CLASSES, softmax},
        {"{\"model\": \"classes\", \"inputs\": \"a\", \"raw_scores\": true}", CLASSES, logit},
        {"{\"model\": \"classes\", \"inputs\": \"a\", \"top_k\": 2, \"raw_scores\": null}", 2, softmax},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        json_t *list = expect_answer("/predict", cases[i].body);
        expect_classes(list, 100, cases[i].count, cases[i].score);
        json_decref(list);
    }
}

static void several_inputs_have_a_list_each(void **state)
{
    (void)state;
    static const char *const bodies[] = {
        "{\"model\": \"classes\", \"inputs\": [\"a\", \"b\"]}",
        "{\"model\": \"classes\", \"inputs\": [[\"a\"], [\"b\"]]}",
        "{\"model\": \"classes\", \"inputs\": [[100], [101, 7]]}",
        "{\"model\": \"classes\", \"inputs\": [[100], \"b\"]}",
    };
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        json_t *lists = expect_answer("/predict", bodies[i]);
        assert_int_equal(json_array_size(lists), 2);
        expect_classes(json_array_get(lists, 0), 100, CLASSES, softmax);
        expect_classes(json_array_get(lists, 1), 101, CLASSES, softmax);
        json_decref(lists);
    }
}

/* `[["a"]]` and `[[100]]` are a batch of one text. */
static void a_batch_of_one_is_a_list_of_lists(void **state)
{
    (void)state;
    static const char *const bodies[] = {"{\"model\": \"classes\", \"inputs\": [[\"a\"]]}",
                                         "{\"model\": \"classes\", \"inputs\": [[100]]}"};
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        json_t *lists = expect_answer("/predict", bodies[i]);
        assert_int_equal(json_array_size(lists), 1);
        expect_classes(json_array_get(lists, 0), 100, CLASSES, softmax);
        json_decref(lists);
    }
}

/* With `parameters`, the answer to one text is a list of lists, because Hugging Face's InferenceClient reads the first
 * element as the list for the text. */
static void parameters_have_the_meaning_of_a_pipeline(void **state)
{
    (void)state;
    static const struct {
        const char *parameters;
        size_t count;
        double (*score)(int32_t id, int class);
    } cases[] = {
        {"{}", CLASSES, softmax},
        {"{\"top_k\": 1}", 1, softmax},
        {"{\"top_k\": 100}", CLASSES, softmax},
        {"{\"function_to_apply\": \"sigmoid\"}", CLASSES, sigmoid},
        {"{\"function_to_apply\": \"none\", \"top_k\": 3}", 3, logit},
        {"{\"function_to_apply\": \"softmax\"}", CLASSES, softmax},
    };
    for (size_t i = 0; i < 2 * sizeof cases / sizeof *cases; i++) {
        char body[256];
        snprintf(body, sizeof body, "{\"model\": \"classes\", \"inputs\": \"a\", \"parameters\": %s}",
                 cases[i / 2].parameters);
        json_t *lists = expect_answer(i % 2 ? "/" : "/predict", body);
        assert_int_equal(json_array_size(lists), 1);
        expect_classes(json_array_get(lists, 0), 100, cases[i / 2].count, cases[i / 2].score);
        json_decref(lists);
    }
}

static void one_class_has_the_label_0_and_is_scored_by_the_sigmoid(void **state)
{
    (void)state;
    json_t *list = expect_answer("/predict", "{\"model\": \"score\", \"inputs\": \"a\"}");
    assert_int_equal(json_array_size(list), 1);
    const json_t *entry = json_array_get(list, 0);
    assert_string_equal(json_string_value(json_object_get(entry, "label")), "LABEL_0");
    assert_true(fabs(json_real_value(json_object_get(entry, "score")) - sigmoid(100, 0)) < TOLERANCE);
    json_decref(list);
}

/* Replaces the engine by one with large logits. The softmax must not overflow, and equal scores must keep the order of
 * their logits. */
static int run_with_large_logits(struct model *model, int lane, const struct engine_item *items, int64_t n_items,
                                 struct error *error)
{
    static const float logits[CLASSES] = {-3e38F, 2e38F, 3e38F, 2e38F};
    (void)model;
    (void)lane;
    (void)n_items;
    (void)error;
    memcpy(items[0].output, logits, sizeof logits);
    return 0;
}

static void equal_scores_keep_the_order_of_logits(void **state)
{
    (void)state;
    native_run = run_with_large_logits;
    json_t *list = expect_answer("/predict", "{\"model\": \"classes\", \"inputs\": \"a\"}");
    native_run = model_run;
    static const char *const order[CLASSES] = {"\"cow\"", "dog", "cat", "cat"};
    for (size_t i = 0; i < CLASSES; i++) {
        const json_t *entry = json_array_get(list, i);
        assert_string_equal(json_string_value(json_object_get(entry, "label")), order[i]);
        assert_true(json_real_value(json_object_get(entry, "score")) == (i == 0 ? 1 : 0));
    }
    json_decref(list);
}

static void wrong_options_are_named(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"\"top_k\": 0", "top_k is 0, at least 1 was expected"},
        {"\"top_k\": 5", "top_k is 5, but model \"classes\" has only 4 classes"},
        {"\"top_k\": 2, \"parameters\": {\"top_k\": 3}",
         "top_k is 2, but parameters.top_k is 3: one of them was expected"},
        {"\"parameters\": {\"top_k\": -1}", "top_k is -1, at least 1 was expected"},
        {"\"parameters\": 3", "parameters is an integer, an object was expected"},
        {"\"parameters\": {\"function_to_apply\": \"relu\"}",
         "function_to_apply is \"relu\", one of softmax, sigmoid, none was expected"},
        {"\"raw_scores\": true, \"parameters\": {\"function_to_apply\": \"softmax\"}",
         "raw_scores is true, and function_to_apply is \"softmax\": one of them was expected"},
        {"\"raw_scores\": 1", "raw_scores is an integer, true or false was expected"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char body[256];
        snprintf(body, sizeof body, "{\"model\": \"classes\", \"inputs\": \"a\", %s}", cases[i][0]);
        expect_failure("/predict", body, cases[i][1]);
    }
    expect_failure("/predict", "{\"model\": \"classes\", \"inputs\": [[\"a\", \"b\"]]}",
                   "inputs[0] has 2 texts, one was expected: model \"classes\" does not accept pairs");
    expect_failure("/predict", "{\"model\": \"classes\", \"inputs\": [[\"a\"], 7]}",
                   "inputs[1] is an integer, a string or a list of ids was expected");
    expect_failure("/embed", "{\"model\": \"classes\", \"inputs\": [[\"a\"]]}",
                   "inputs[0][0] is a string, an integer id was expected");
}

static void keys_without_a_meaning_are_reported(void **state)
{
    (void)state;
    struct request request;
    static const char body[] = "{\"model\": \"classes\", \"inputs\": \"a\", \"encoding_format\": \"float\", "
                               "\"parameters\": {\"truncation\": true}, \"options\": {}}";
    assert_int_equal(native_call("/predict", body, strlen(body), &request), 0);
    assert_string_equal(request.ignored.list, "encoding_format, truncation");
    request_close(&request);
    native_settings.strict = true;
    expect_failure(
        "/predict", "{\"model\": \"classes\", \"inputs\": \"a\", \"topk\": 1}",
        "unknown key \"topk\"; the known ones are inputs, embeddings, model, truncate, "
        "truncation_direction, add_special_tokens, prompt_name, input_type, truncate_prompt_tokens, raw_scores, "
        "top_k, parameters, ids");
    native_settings.strict = false;
}

static void routes_that_serve_a_model_are_named(void **state)
{
    (void)state;
    expect_failure("/predict", "{\"inputs\": \"a\"}",
                   "model \"bytes\" does not return classes, but one vector for each token. Use /embed, /embed_all, "
                   "/logits");
    expect_failure("/embed_all", "{\"model\": \"classes\", \"inputs\": \"a\"}",
                   "model \"classes\" does not return vectors of tokens, but one vector for each input. Use /embed, "
                   "/predict");
    expect_failure("/logits", "{\"model\": \"classes\", \"inputs\": \"a\"}",
                   "model \"classes\" does not return logits, but one vector for each input. Use /embed, /predict");
    expect_failure("/logits", "{\"model\": \"rows\", \"embeddings\": [[1, 2, 3, 4]]}",
                   "model \"rows\" does not return logits, but one vector for each token. Use /embed, /embed_all");
}

/* A POST / that requests no generation must answer like /predict for a model with labels, and with a vector for other
 * models. */
static void the_root_path_classifies_with_labels_and_else_embeds(void **state)
{
    (void)state;
    json_t *list = expect_answer("/", "{\"model\": \"classes\", \"inputs\": \"a\"}");
    expect_classes(list, 100, CLASSES, softmax);
    json_decref(list);
    json_t *vectors = expect_answer("/", "{\"model\": \"score\", \"inputs\": \"a\"}");
    assert_true(json_is_real(json_array_get(json_array_get(vectors, 0), 0)));
    json_decref(vectors);
}

/* The output of the model is already a vector, so pooling has no effect. */
static void vectors_are_not_pooled(void **state)
{
    (void)state;
    static const char *const poolings[] = {"mean", "max", "last"};
    for (size_t i = 0; i < sizeof poolings / sizeof *poolings; i++) {
        char body[256];
        snprintf(body, sizeof body,
                 "{\"model\": \"classes\", \"inputs\": \"abc\", \"normalize\": false, \"pooling\": \"%s\"}",
                 poolings[i]);
        json_t *vectors = expect_answer("/embed", body);
        assert_int_equal(json_array_size(json_array_get(vectors, 0)), CLASSES);
        for (int class = 0; class < CLASSES; class ++)
            assert_true(json_real_value(json_array_get(json_array_get(vectors, 0), (size_t) class)) ==
                        (double)fake_output(100, 0, class));
        json_decref(vectors);
    }
    expect_failure("/embed", "{\"model\": \"classes\", \"inputs\": \"abc\", \"dimensions\": 5}",
                   "dimensions is 5, but vectors of model \"classes\" have 4 numbers");
}

/* A model with an input tensor (length, columns) accepts `embeddings`. The reader of lists and jansson, which reads
 * bodies with escapes, must both accept them. */
static void rows_of_a_tensor_are_embeddings(void **state)
{
    (void)state;
    static const char *const bodies[] = {
        "{\"model\": \"tensors\", \"embeddings\": [[7, 0, 0, 0], [8, 1, 2, 3]]}",
        "{\"model\": \"tensors\", \"embeddings\": [[7, 0, 0, 0], [8, 1, 2, 3]], \"truncate\": false, \"\\u0061\": 1}",
    };
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        struct request request;
        assert_int_equal(native_call("/embed_all", bodies[i], strlen(bodies[i]), &request), 0);
        const struct engine_input *input = &request.job.items[0].inputs[0];
        const float *rows = input->data;
        assert_int_equal(input->sizes[0], 2);
        assert_int_equal(input->sizes[1], FAKE_COLUMNS);
        assert_true(rows[0] == 7 && rows[4] == 8 && rows[7] == 3);
        request_close(&request);
    }
    expect_failure("/embed", "{\"model\": \"tensors\", \"embeddings\": [[1, 2, 3]]}",
                   "embeddings[0] has 3 values, but rows of model \"tensors\" have 4");
}

static void long_texts_are_cut_to_the_tensor(void **state)
{
    (void)state;
    char text[FAKE_MAX_LENGTH + 10], body[256];
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = '\0';
    struct request request;
    snprintf(body, sizeof body, "{\"model\": \"classes\", \"truncate\": true, \"inputs\": \"%s\"}", text);
    assert_int_equal(native_call("/predict", body, strlen(body), &request), 0);
    assert_int_equal(request.job.items[0].inputs[0].sizes[0], FAKE_MAX_LENGTH);
    request_close(&request);
}

/* ---- Pictures ---- */

struct file {
    char *bytes;
    size_t size;
};

static struct file read_file(const char *path)
{
    struct file file;
    struct error error;
    file.bytes = file_read(path, 1 << 20, &file.size, &error);
    if (!file.bytes)
        fail_msg("%s", error.message);
    return file;
}

/* Returns the base64 of the file, without line breaks. */
static char *base64_of(const struct file *file)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char *text = calloc(file->size / 3 * 4 + 5, 1), *at = text;
    for (size_t i = 0; i < file->size; i += 3) {
        size_t left = file->size - i;
        uint32_t bits = 0;
        for (size_t n = 0; n < 3; n++)
            bits = bits << 8 | (n < left ? (unsigned char)file->bytes[i + n] : 0);
        for (size_t n = 0; n < 4; n++)
            *at++ = n <= left ? letters[bits >> (18 - 6 * n) & 63] : '=';
    }
    return text;
}

static void expect_picture(const struct request *request, int64_t item, const struct file *file)
{
    struct image_settings settings = image_settings_default(4, 6);
    float pixels[3 * 4 * 6];
    int64_t memory;
    struct error error;
    assert_int_equal(image_memory(&settings, file->bytes, file->size, &memory, &error), 0);
    assert_int_equal(image_read(&settings, file->bytes, file->size, memory, pixels, &error), 0);
    const struct engine_input *input = &request->job.items[item].inputs[0];
    assert_memory_equal(input->data, pixels, sizeof pixels);
    assert_int_equal(input->sizes[0], 3);
    assert_int_equal(input->sizes[1], 4);
    assert_int_equal(input->sizes[2], 6);
}

/* The memory that a request for pictures still charges when it has been read: items, their pixels, three results each,
 * room for sorting, and the answer. The memory of files and decoders has been given back. */
static int64_t kept_bytes(const struct request *request)
{
    int64_t item =
        (int64_t)sizeof(struct engine_item) + 3 * 4 * 6 * (int64_t)sizeof(float) + 3 * (int64_t)sizeof(float);
    return request->job.n_items * item + 3 * 2 * (int64_t)sizeof(int64_t) + request->answer_bytes;
}

static void expect_three(const json_t *list)
{
    assert_int_equal(json_array_size(list), 3);
    for (size_t i = 0; i < 3; i++)
        assert_memory_equal(json_string_value(json_object_get(json_array_get(list, i), "label")), "LABEL_", 6);
}

/* Pictures in base64: without a prefix, with the prefix of a data URL, or with line breaks. A body contains one picture
 * or several, with or without `parameters`. */
static void pictures_in_base64_are_classified(void **state)
{
    (void)state;
    struct file file = read_file(PICTURE);
    char *text = base64_of(&file), *body = malloc(3 * strlen(text) + 256);
    static const struct {
        const char *before, *between, *after;
        size_t count;
    } cases[] = {
        {"\"", NULL, "\"", 1},
        {"[\"", NULL, "\"]", 1},
        {"\"data:image/png;base64,", NULL, "\"", 1},
        {"\"\\n ", NULL, "\\r\\n\"", 1},
        {"\"", NULL, "\", \"parameters\": {\"top_k\": 5}", 1},
        {"[\"", "\", \"", "\"]", 2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sprintf(body, "{\"model\": \"pictures\", \"inputs\": %s%s%s%s%s}", cases[i].before, text,
                cases[i].between ? cases[i].between : "", cases[i].between ? text : "", cases[i].after);
        struct request request;
        int status = native_call("/predict", body, strlen(body), &request);
        assert_int_equal(request.job.n_items, cases[i].count);
        for (size_t n = 0; n < cases[i].count; n++)
            expect_picture(&request, (int64_t)n, &file);
        request_read_done(&request);
        assert_int_equal(native_service.results.used, kept_bytes(&request));
        json_t *json = answer_of(&request, status);
        expect_three(cases[i].count > 1 ? json_array_get(json, 1) : json);
        json_decref(json);
        assert_int_equal(native_service.results.used, 0);
    }
    free(body);
    free(text);
    free(file.bytes);
}

/* The body may be a picture's file if the first model reads pictures, because such a body cannot name a model. */
static void a_body_can_be_the_file_of_a_picture(void **state)
{
    (void)state;
    struct served_model first = native_models[0], pictures = native_models[6];
    struct file file = read_file(PICTURE);
    expect_failure_of("/predict", file.bytes, file.size, FAILURE_INVALID,
                      "model \"bytes\" does not return classes, but one vector for each token. Use /embed, /embed_all, "
                      "/logits");
    expect_failure_of("/embed", file.bytes, file.size, FAILURE_INVALID,
                      "the body is an image, but model \"bytes\" accepts ids; to name another model, send JSON with "
                      "the image in base64");
    native_models[0] = pictures;
    static const char *const paths[] = {"/predict", "/embed", "/"};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        struct request request;
        int status = native_call(paths[i], file.bytes, file.size, &request);
        expect_picture(&request, 0, &file);
        json_t *json = answer_of(&request, status);
        if (i == 0)
            expect_three(json);
        json_decref(json);
    }
    struct request request;
    assert_int_equal(native_call("/logits", file.bytes, file.size, &request), -1);
    assert_int_equal(request.failure.kind, FAILURE_MALFORMED);
    request_close(&request);
    expect_failure_of("/predict", file.bytes, 100, FAILURE_INVALID,
                      "the body: the PNG image cannot be read: it ends too early");
    native_models[0] = first;
    free(file.bytes);
}

static void wrong_pictures_are_named(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"\"inputs\": \"aGVsbG8gd29ybGQ=\"", "inputs: the image is neither JPEG nor PNG"},
        {"\"inputs\": [\"\", \"\"]", "inputs[0]: the image is neither JPEG nor PNG"},
        {"\"inputs\": \"iVBORw0KGgo=\"", "inputs: the PNG image cannot be read: it ends too early"},
        {"\"inputs\": \"http://host/cat.png\"",
         "inputs: character 4 is not a base64 character; base64 of a JPEG or PNG file was expected"},
        {"\"inputs\": \"data:image/png;base64,iVB*\"",
         "inputs: character 25 is not a base64 character; base64 of a JPEG or PNG file was expected"},
        {"\"inputs\": \"iVBOR\"", "inputs is cut off: base64 of a JPEG or PNG file was expected"},
        {"\"inputs\": [1, 2, 3]",
         "inputs is a list of numbers, strings with base64 of a JPEG or PNG file were expected"},
        {"\"inputs\": {\"a\": 1}", "inputs.a is unknown; the inputs of model \"pictures\" are \"image\""},
        {"\"inputs\": [\"iVBOR\", null]", "inputs[0] is cut off: base64 of a JPEG or PNG file was expected"},
        {"\"embeddings\": [[1, 2]]",
         "model \"pictures\" accepts images, not embeddings: send `inputs`, or use /v2/models/pictures/infer"},
        {"\"top_k\": 1", "model \"pictures\" accepts images, but `inputs` is missing"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char body[256];
        snprintf(body, sizeof body, "{\"model\": \"pictures\", %s}", cases[i][0]);
        expect_failure("/predict", body, cases[i][1]);
    }
}

/* After the deadline, no further picture of a request may be read. */
static void no_picture_is_read_after_the_deadline(void **state)
{
    (void)state;
    static const char body[] = "{\"model\": \"pictures\", \"inputs\": \"aGVsbG8gd29ybGQ=\"}";
    struct route_match match;
    struct request request;
    routes_find(all_dialects, "POST", "/predict", &match);
    request_open(&request, &native_service, body, strlen(body));
    request_begin(&request);
    request.header = native_no_header;
    request.job.deadline_ns = 1;
    assert_int_equal(match.route->read(&request), OUTCOME_FAILED);
    assert_int_equal(request.failure.kind, FAILURE_EXPIRED);
    request_close(&request);
}

/* The picture alone needs all the memory that a request may charge, so the request is refused. */
static void pictures_that_need_too_much_memory_are_refused(void **state)
{
    (void)state;
    struct file file = read_file(PICTURE);
    int64_t limit = native_service.results.limit, memory;
    struct image_settings settings = image_settings_default(4, 6);
    struct error error;
    char *text = base64_of(&file), *body = malloc(strlen(text) + 256);
    assert_int_equal(image_memory(&settings, file.bytes, file.size, &memory, &error), 0);
    sprintf(body, "{\"model\": \"pictures\", \"inputs\": \"%s\"}", text);
    struct request request;
    native_service.results.limit = memory;
    assert_int_equal(native_call("/predict", body, strlen(body), &request), -1);
    assert_int_equal(request.failure.kind, FAILURE_INVALID);
    assert_non_null(strstr(request.failure.error.message, "the request needs"));
    request_close(&request);
    native_service.results.limit = limit;
    assert_int_equal(native_service.results.used, 0);
    free(body);
    free(text);
    free(file.bytes);
}

static int open_models(void **state)
{
    (void)state;
    native_open();
    return 0;
}

static int close_models(void **state)
{
    (void)state;
    native_close();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(classes_come_best_first),
        cmocka_unit_test(several_inputs_have_a_list_each),
        cmocka_unit_test(a_batch_of_one_is_a_list_of_lists),
        cmocka_unit_test(parameters_have_the_meaning_of_a_pipeline),
        cmocka_unit_test(one_class_has_the_label_0_and_is_scored_by_the_sigmoid),
        cmocka_unit_test(equal_scores_keep_the_order_of_logits),
        cmocka_unit_test(wrong_options_are_named),
        cmocka_unit_test(keys_without_a_meaning_are_reported),
        cmocka_unit_test(routes_that_serve_a_model_are_named),
        cmocka_unit_test(the_root_path_classifies_with_labels_and_else_embeds),
        cmocka_unit_test(vectors_are_not_pooled),
        cmocka_unit_test(rows_of_a_tensor_are_embeddings),
        cmocka_unit_test(long_texts_are_cut_to_the_tensor),
        cmocka_unit_test(pictures_in_base64_are_classified),
        cmocka_unit_test(a_body_can_be_the_file_of_a_picture),
        cmocka_unit_test(wrong_pictures_are_named),
        cmocka_unit_test(pictures_that_need_too_much_memory_are_refused),
        cmocka_unit_test(no_picture_is_read_after_the_deadline),
    };
    return cmocka_run_group_tests(tests, open_models, close_models);
}
