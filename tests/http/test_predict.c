/* /predict, /classify, POST / and the classes of /v2, with modules that classify texts and pictures. This program
 * computes the expected scores from the models' weights, in double precision. */
#include "server/images/images.h"
#include "tests/http/checkpoint.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TOLERANCE 1e-5
#define PICTURE "tests/images/rgb420.jpg"
#define HEIGHT 4
#define WIDTH 6
#define PIXELS (3 * HEIGHT * WIDTH)
#define VOCABULARY 259
#define DIM 8
#define CLASSES 3

static const char *const labels[CLASSES] = {"cat", "dog", "fish"};

/* The graph of the module is: ids -> embed -> the mean of the rows -> linear. */
static const char text_config[] =
    "{\"architecture\": \"module\", \"tokenizer\": {\"type\": \"byte\"}, \"labels\": [\"cat\", \"dog\", \"fish\"],"
    " \"graph\": {\"inputs\": [{\"name\": \"ids\", \"dtype\": \"int64\", \"shape\": [\"batch\", \"n\"]}],"
    " \"sizes\": {\"n\": {\"least\": 1, \"most\": 40}}, \"nodes\": ["
    "{\"op\": \"embedding\", \"to\": \"e\", \"weight\": \"@table\", \"indices\": \"ids\"},"
    "{\"op\": \"mean\", \"to\": \"m\", \"self\": \"e\", \"dim\": [1]},"
    "{\"op\": \"linear\", \"to\": \"y\", \"input\": \"m\", \"weight\": \"@w\", \"bias\": \"@b\"}],"
    " \"outputs\": {\"output\": \"y\"}}}";
static const struct checkpoint_shape text_shapes[] = {
    {"table", 2, {VOCABULARY, DIM}}, {"w", 2, {CLASSES, DIM}}, {"b", 1, {CLASSES}}};

/* The graph of the module is: picture -> linear over all numbers of the picture. The first %s is the key `image`,
 * followed by a comma. */
static const char picture_config[] =
    "{\"architecture\": \"module\", %s \"labels\": [%s],"
    " \"graph\": {\"inputs\": [{\"name\": \"img\", \"dtype\": \"float32\", \"shape\": [\"batch\", 3, 4, 6]}],"
    " \"sizes\": {}, \"nodes\": ["
    "{\"op\": \"view\", \"to\": \"v\", \"self\": \"img\", \"size\": [\"batch\", 72]},"
    "{\"op\": \"linear\", \"to\": \"y\", \"input\": \"v\", \"weight\": \"@w\", \"bias\": \"@b\"}],"
    " \"outputs\": {\"output\": \"y\"}}}";
static const struct checkpoint_shape picture_shapes[] = {{"w", 2, {CLASSES, PIXELS}}, {"b", 1, {CLASSES}}};

static char *folder;
static struct daemon *the_daemon;
static struct checkpoint pictures, texts;

static struct checkpoint picture_model(const char *image, const char *names)
{
    char config[2048];
    snprintf(config, sizeof config, picture_config, image, names);
    return checkpoint_random(config, picture_shapes, LENGTH(picture_shapes));
}

static void write_model(const struct checkpoint *checkpoint, const char *name)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    checkpoint_write(checkpoint, path, 0);
}

/* Writes a model whose logits overflow. */
static void write_broken(void)
{
    struct checkpoint broken = checkpoint_random(text_config, text_shapes, LENGTH(text_shapes));
    struct checkpoint_tensor *weight = checkpoint_tensor(&broken, "w"), *table = checkpoint_tensor(&broken, "table");
    float *w = (float *)weight->data, *rows = (float *)table->data;
    for (int i = 0; i < CLASSES * DIM; i++)
        w[i] = 3e38F;
    for (int i = 0; i < VOCABULARY * DIM; i++)
        rows[i] = 10;
    write_model(&broken, "broken");
    checkpoint_free(&broken);
}

static int start(void **state)
{
    (void)state;
    char paths[3][512];
    static const char *const names[] = {"pictures", "texts", "broken"};
    folder = folder_make();
    pictures = picture_model("\"image\": {\"size\": [4, 6]},", "\"cat\", \"dog\", \"fish\"");
    texts = checkpoint_random(text_config, text_shapes, LENGTH(text_shapes));
    write_model(&pictures, "pictures");
    write_model(&texts, "texts");
    write_broken();
    for (size_t i = 0; i < LENGTH(names); i++)
        snprintf(paths[i], sizeof paths[i], "%s/%s", folder, names[i]);
    the_daemon = daemon_start(ARGUMENTS("--model", paths[0], "--model", paths[1], "--model", paths[2]));
    return 0;
}

static int stop(void **state)
{
    (void)state;
    daemon_stop(the_daemon);
    checkpoint_free(&pictures);
    checkpoint_free(&texts);
    folder_remove(folder);
    free(folder);
    return 0;
}

/* ---- Expected scores ---- */

static const float *weights_of(struct checkpoint *checkpoint, const char *name)
{
    return (const float *)checkpoint_tensor(checkpoint, name)->data;
}

/* Computes the logits W x + b, and their softmax. */
static void linear(struct checkpoint *checkpoint, const double *x, int columns, double *logits, double *scores)
{
    const float *w = weights_of(checkpoint, "w"), *b = weights_of(checkpoint, "b");
    double sum = 0;
    for (int i = 0; i < CLASSES; i++) {
        logits[i] = b[i];
        for (int c = 0; c < columns; c++)
            logits[i] += w[i * columns + c] * x[c];
        sum += exp(logits[i]);
    }
    for (int i = 0; i < CLASSES; i++)
        scores[i] = exp(logits[i]) / sum;
}

static void expect_text(const char *text, double *logits, double *scores)
{
    const float *table = weights_of(&texts, "table");
    double mean[DIM] = {0};
    size_t length = strlen(text);
    for (size_t i = 0; i < length; i++)
        for (int c = 0; c < DIM; c++)
            mean[c] += table[((unsigned char)text[i] + 3) * DIM + c] / (double)length;
    linear(&texts, mean, DIM, logits, scores);
}

static void expect_picture(const char *bytes, size_t size, double *logits, double *scores)
{
    struct image_settings settings = image_settings_default(HEIGHT, WIDTH);
    float pixels[PIXELS];
    double x[PIXELS];
    int64_t memory;
    struct error error;
    assert_int_equal(image_memory(&settings, bytes, size, &memory, &error), 0);
    assert_int_equal(image_read(&settings, bytes, size, memory, pixels, &error), 0);
    for (int i = 0; i < PIXELS; i++)
        x[i] = pixels[i];
    linear(&pictures, x, PIXELS, logits, scores);
}

static int class_of(const json_t *prediction)
{
    const char *label = json_string_value(json_object_get(prediction, "label"));
    for (int i = 0; i < CLASSES; i++)
        if (strcmp(label, labels[i]) == 0)
            return i;
    fail_msg("%s is no label", label);
    return 0;
}

/* Expects a list of `count` different classes, with the highest score first. */
static void compare(const json_t *list, size_t count, const double *expected)
{
    double before = INFINITY;
    bool seen[CLASSES] = {false};
    assert_int_equal(json_array_size(list), count);
    for (size_t i = 0; i < count; i++) {
        const json_t *prediction = json_array_get(list, i);
        double score = json_number_value(json_object_get(prediction, "score"));
        int class = class_of(prediction);
        assert_true(score <= before && !seen[class]);
        assert_true(fabs(score - expected[class]) <= TOLERANCE);
        before = score;
        seen[class] = true;
    }
}

/* ---- Texts ---- */

static void texts_have_the_scores_of_their_classes(void **state)
{
    (void)state;
    double logits[CLASSES], scores[CLASSES], others[CLASSES];
    expect_text("a cat", logits, scores);
    json_t *one = daemon_post_json(the_daemon, "/predict", "{\"model\": \"texts\", \"inputs\": \"a cat\"}");
    compare(one, CLASSES, scores);
    json_decref(one);
    json_t *raw = daemon_post_json(the_daemon, "/predict",
                                   "{\"model\": \"texts\", \"inputs\": \"a cat\", \"raw_scores\": true, \"top_k\": 2}");
    compare(raw, 2, logits);
    json_decref(raw);
    json_t *lists =
        daemon_post_json(the_daemon, "/predict", "{\"model\": \"texts\", \"inputs\": [[\"fish\"], [\"a cat\"]]}");
    compare(json_array_get(lists, 1), CLASSES, scores);
    expect_text("fish", logits, others);
    compare(json_array_get(lists, 0), CLASSES, others);
    json_decref(lists);
}

/* Like the route of the server Infinity, /classify returns one list for each input, even for a single text. */
static void classify_answers_in_the_form_of_infinity(void **state)
{
    (void)state;
    static const char *const bodies[] = {
        "{\"model\": \"texts\", \"input\": \"a cat\"}",
        "{\"model\": \"texts\", \"input\": [\"a cat\"], \"raw_scores\": true}",
        "{\"model\": \"texts\", \"input\": [\"a cat\", \"fish\"], \"raw_scores\": false}",
    };
    double logits[CLASSES], scores[CLASSES], others[CLASSES], none[CLASSES];
    expect_text("a cat", logits, scores);
    expect_text("fish", none, others);
    for (size_t i = 0; i < LENGTH(bodies); i++) {
        json_t *answer = daemon_post_json(the_daemon, "/classify", bodies[i]);
        const json_t *data = json_object_get(answer, "data"), *usage = json_object_get(answer, "usage");
        size_t count = i == 2 ? 2 : 1;
        json_int_t tokens = i == 2 ? 9 : 5; /* number of bytes of the texts */
        assert_string_equal(json_string_value(json_object_get(answer, "object")), "classify");
        assert_string_equal(json_string_value(json_object_get(answer, "model")), "texts");
        assert_true(json_string_length(json_object_get(answer, "id")) > 0);
        assert_true(json_integer_value(json_object_get(answer, "created")) > 0);
        assert_int_equal(json_integer_value(json_object_get(usage, "prompt_tokens")), tokens);
        assert_int_equal(json_integer_value(json_object_get(usage, "total_tokens")), tokens);
        assert_int_equal(json_array_size(data), count);
        compare(json_array_get(data, 0), CLASSES, i == 1 ? logits : scores);
        if (count == 2)
            compare(json_array_get(data, 1), CLASSES, others);
        json_decref(answer);
    }
    expect_failure(the_daemon, "/classify", "{\"model\": \"texts\"}", 422, "Validation", "input");
    expect_failure(the_daemon, "/classify", "{\"model\": \"texts\", \"input\": 7}", 422, "Validation", "input");
    expect_failure(the_daemon, "/classify", "{\"model\": \"texts\", \"input\": [\"a\"], \"raw_scores\": 1}", 422,
                   "Validation", "raw_scores");
}

/* ---- Classes of /v2 ---- */

/* Compares a class of an answer, "SCORE:INDEX:LABEL" of `length` bytes, with the logits. The score must not exceed
 * *before, and replaces it. Returns the index of the class. */
static int compare_class(const char *text, size_t length, const double *logits, double *before)
{
    char copy[64], *end, expected[32];
    assert_true(length < sizeof copy);
    memcpy(copy, text, length);
    copy[length] = '\0';
    double score = strtod(copy, &end);
    assert_int_equal(*end, ':');
    long class = strtol(end + 1, NULL, 10);
    assert_in_range(class, 0, CLASSES - 1);
    snprintf(expected, sizeof expected, ":%ld:%s", class, labels[class]);
    assert_string_equal(end, expected);
    assert_true(fabs(score - logits[class]) <= TOLERANCE);
    assert_true(score <= *before);
    *before = score;
    return (int)class;
}

#define CLASSIFY(parameters)                                                                                        \
    "{\"inputs\": [{\"name\": \"ids\", \"shape\": [2], \"datatype\": \"BYTES\", \"data\": [\"a cat\", \"fish\"]}]," \
    " \"outputs\": [{\"name\": \"output\", \"parameters\": {" parameters "}}]}"
#define INFER "/v2/models/texts/infer"

/* Checks datatype and shape of the only output. Returns this output. */
static const json_t *classes_output(const json_t *answer, json_int_t classes)
{
    const json_t *outputs = json_object_get(answer, "outputs"), *output = json_array_get(outputs, 0);
    const json_t *shape = json_object_get(output, "shape");
    assert_int_equal(json_array_size(outputs), 1);
    assert_string_equal(json_string_value(json_object_get(output, "datatype")), "BYTES");
    assert_int_equal(json_array_size(shape), 2);
    assert_int_equal(json_integer_value(json_array_get(shape, 0)), 2);
    assert_int_equal(json_integer_value(json_array_get(shape, 1)), classes);
    return output;
}

/* A requested number of classes that is larger than their real number requests all classes. */
static void v2_returns_the_best_classes(void **state)
{
    (void)state;
    static const char *const bodies[] = {CLASSIFY("\"classification\": 1"), CLASSIFY("\"classification\": 2"),
                                         CLASSIFY("\"classification\": 9223372036854775807")};
    double logits[2][CLASSES], scores[CLASSES];
    expect_text("a cat", logits[0], scores);
    expect_text("fish", logits[1], scores);
    for (size_t i = 0; i < LENGTH(bodies); i++) {
        json_t *answer = daemon_post_json(the_daemon, INFER, bodies[i]);
        const json_t *data = json_object_get(classes_output(answer, (json_int_t)i + 1), "data");
        assert_int_equal(json_array_size(data), 2 * (i + 1));
        for (size_t item = 0; item < 2; item++) {
            double before = INFINITY, left = -INFINITY;
            bool seen[CLASSES] = {false};
            for (size_t k = 0; k <= i; k++) {
                const json_t *text = json_array_get(data, item * (i + 1) + k);
                int class = compare_class(json_string_value(text), json_string_length(text), logits[item], &before);
                assert_false(seen[class]);
                seen[class] = true;
            }
            for (int class = 0; class < CLASSES; class ++)
                left = !seen[class] && logits[item][class] > left ? logits[item][class] : left;
            assert_true(left <= before + TOLERANCE); /* no class with a higher logit was left out */
        }
        json_decref(answer);
    }
}

static void v2_returns_classes_as_bytes(void **state)
{
    (void)state;
    double logits[2][CLASSES], scores[CLASSES], before = INFINITY;
    expect_text("a cat", logits[0], scores);
    expect_text("fish", logits[1], scores);
    struct answer answer = daemon_post(the_daemon, INFER, CLASSIFY("\"classification\": 2, \"binary_data\": true"));
    assert_int_equal(answer.status, 200);
    char *header = answer_header(&answer, "Inference-Header-Content-Length");
    assert_non_null(header);
    size_t at = strtoul(header, NULL, 10), size = answer.length - at;
    free(header);
    json_t *json = json_loadb(answer.body, at, 0, NULL);
    assert_non_null(json);
    const json_t *parameters = json_object_get(classes_output(json, 2), "parameters");
    assert_int_equal(json_integer_value(json_object_get(parameters, "binary_data_size")), size);
    for (int i = 0; i < 4; i++) {
        assert_true(at + 4 <= answer.length);
        const unsigned char *bytes = (const unsigned char *)answer.body + at;
        size_t length = bytes[0] | (size_t)bytes[1] << 8 | (size_t)bytes[2] << 16 | (size_t)bytes[3] << 24;
        assert_true(length <= answer.length - at - 4);
        before = i == 2 ? INFINITY : before;
        compare_class(answer.body + at + 4, length, logits[i / 2], &before);
        at += 4 + length;
    }
    assert_int_equal(at, answer.length);
    json_decref(json);
    answer_free(&answer);
}

static void v2_refuses_bad_numbers_of_classes(void **state)
{
    (void)state;
    static const char *const bodies[] = {
        CLASSIFY("\"classification\": -1"),    CLASSIFY("\"classification\": 1.5"),
        CLASSIFY("\"classification\": true"),  CLASSIFY("\"classification\": \"2\""),
        CLASSIFY("\"classification\": [2]"),   CLASSIFY("\"classification\": -9223372036854775808"),
        CLASSIFY("\"classification\": 1e999"), CLASSIFY("\"classification\": 99999999999999999999"),
    };
    for (size_t i = 0; i < LENGTH(bodies); i++) {
        struct answer answer = daemon_post(the_daemon, INFER, bodies[i]);
        if (answer.status != 400 || !json_is_string(json_object_get(answer.json, "error")))
            fail_msg("%s: status %ld, %s", bodies[i], answer.status, answer.body);
        assert_int_equal(json_object_size(answer.json), 1);
        if (i < 6)
            assert_non_null(strstr(answer.body, "classification"));
        answer_free(&answer);
    }
    json_t *zero = daemon_post_json(the_daemon, INFER, CLASSIFY("\"classification\": 0"));
    const json_t *output = json_array_get(json_object_get(zero, "outputs"), 0);
    assert_string_equal(json_string_value(json_object_get(output, "datatype")), "FP32");
    json_decref(zero);
}

/* Hugging Face's InferenceClient posts to the root of the server. */
static void the_root_answers_like_predict(void **state)
{
    (void)state;
    double logits[CLASSES], scores[CLASSES];
    expect_text("a cat", logits, scores);
    json_t *lists = daemon_post_json(the_daemon, "/",
                                     "{\"model\": \"texts\", \"inputs\": \"a cat\", \"parameters\": {\"top_k\": 9}}");
    assert_int_equal(json_array_size(lists), 1);
    compare(json_array_get(lists, 0), CLASSES, scores);
    json_decref(lists);
}

/* The output is a vector, so pooling and rows of tokens do not apply. */
static void a_vector_is_embedded_without_pooling(void **state)
{
    (void)state;
    double logits[CLASSES], scores[CLASSES];
    expect_text("a cat", logits, scores);
    json_t *vectors =
        daemon_post_json(the_daemon, "/embed",
                         "{\"model\": \"texts\", \"inputs\": \"a cat\", \"normalize\": false, \"pooling\": \"max\"}");
    for (size_t i = 0; i < CLASSES; i++)
        assert_true(fabs(json_number_at(json_array_get(vectors, 0), i) - logits[i]) <= TOLERANCE);
    json_decref(vectors);
    expect_failure(the_daemon, "/embed_all", "{\"model\": \"texts\", \"inputs\": \"a\"}", 422, "Validation",
                   "but one vector for each input. Use /embed, /predict");
    expect_failure(the_daemon, "/logits", "{\"model\": \"texts\", \"inputs\": \"a\"}", 422, "Validation",
                   "does not return logits, but one vector for each input");
}

static void long_texts_are_cut_or_refused(void **state)
{
    (void)state;
    char body[256];
    static const char text[] = "a text of more than forty characters, which is too long";
    snprintf(body, sizeof body, "{\"model\": \"texts\", \"inputs\": \"%s\"}", text);
    expect_failure(the_daemon, "/predict", body, 422, "Validation", "accepts at most 40");
    snprintf(body, sizeof body, "{\"model\": \"texts\", \"truncate\": true, \"inputs\": \"%s\"}", text);
    char kept[41] = "";
    double logits[CLASSES], scores[CLASSES];
    memcpy(kept, text, sizeof kept - 1);
    expect_text(kept, logits, scores);
    json_t *list = daemon_post_json(the_daemon, "/predict", body);
    compare(list, CLASSES, scores);
    json_decref(list);
}

static void logits_that_are_not_finite_fail(void **state)
{
    (void)state;
    expect_failure(the_daemon, "/predict", "{\"model\": \"broken\", \"inputs\": \"a\"}", 500, "Backend",
                   "NaN or an infinity");
}

/* The answers have the same headers as on other routes: times, a number of tokens, and ignored keys. */
static void answers_have_the_usual_headers(void **state)
{
    (void)state;
    static const char *const names[] = {"x-total-time", "x-queue-time", "x-inference-time", "x-compute-tokens"};
    struct answer answer = daemon_post(the_daemon, "/predict",
                                       "{\"model\": \"texts\", \"inputs\": \"abc\", \"encoding_format\": \"base64\"}");
    assert_int_equal(answer.status, 200);
    for (size_t i = 0; i < LENGTH(names); i++) {
        char *value = answer_header(&answer, names[i]);
        assert_non_null(value);
        free(value);
    }
    char *ignored = answer_header(&answer, "x-ignored-keys");
    assert_string_equal(ignored, "encoding_format");
    free(ignored);
    answer_free(&answer);
}

/* ---- Pictures ---- */

static struct answer post_file(const char *path, const char *type, const char *bytes, size_t size)
{
    char header[128];
    snprintf(header, sizeof header, "Content-Type:%s%s", *type ? " " : "", type);
    return daemon_call(the_daemon, &(struct call){.path = path, .body = bytes, .length = size, .headers = {header}});
}

static void refuse_file(const char *path, const char *type, const char *bytes, size_t size, long status,
                        const char *part)
{
    struct answer answer = post_file(path, type, bytes, size);
    expect_failure_answer(&answer, status, "Validation", part);
}

/* The body of the request is the file, with the right type, with a wrong type, or without a type. */
static void files_of_images_have_the_scores_of_their_classes(void **state)
{
    (void)state;
    static const char *const types[] = {"image/jpeg", "image/png", "application/octet-stream", "application/json", ""};
    static const char *const paths[] = {"/predict", "/"};
    double logits[CLASSES], scores[CLASSES];
    struct error error;
    size_t size;
    char *bytes = file_read(PICTURE, 1 << 20, &size, &error);
    assert_non_null(bytes);
    expect_picture(bytes, size, logits, scores);
    for (size_t i = 0; i < 2 * LENGTH(types); i++) {
        struct answer answer = post_file(paths[i % 2], types[i / 2], bytes, size);
        if (answer.status != 200)
            fail_msg("%s, %s: %s", paths[i % 2], types[i / 2], answer.body);
        compare(answer.json, CLASSES, scores);
        answer_free(&answer);
    }
    refuse_file("/predict", "image/gif", bytes, size, 415, "application/json was expected, or image/jpeg or image/png");
    refuse_file("/logits", "image/jpeg", bytes, size, 415, "application/json was expected");
    refuse_file("/predict", "image/jpeg", bytes, size / 2, 422, "the body: the JPEG image cannot be read");
    free(bytes);
}

static void hostile_files_are_refused(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"tests/images/huge.png", "at most 67108864 are supported"}, {"tests/images/huge.jpg", "at most"},
        {"tests/images/rgb16.png", "16 bits per channel"},           {"tests/images/cmyk.jpg", "CMYK"},
        {"README.md", "the image is neither JPEG nor PNG"},
    };
    for (size_t i = 0; i < LENGTH(cases); i++) {
        struct error error;
        size_t size;
        char *bytes = file_read(cases[i][0], 1 << 20, &size, &error);
        assert_non_null(bytes);
        refuse_file("/predict", "image/png", bytes, size, 422, cases[i][1]);
        free(bytes);
    }
    expect_failure(the_daemon, "/predict", "{\"inputs\": \"http://host/cat.png\"}", 422, "Validation",
                   "is not a base64 character");
}

static void info_names_the_classes(void **state)
{
    (void)state;
    struct answer answer = daemon_get(the_daemon, "/info");
    const json_t *classifier = json_object_get(json_object_get(answer.json, "model_type"), "classifier");
    json_t *expected = json_pack("{s:{s:s, s:s, s:s}, s:{s:i, s:i, s:i}}", "id2label", "0", "cat", "1", "dog", "2",
                                 "fish", "label2id", "cat", 0, "dog", 1, "fish", 2);
    assert_true(json_equal(classifier, expected));
    json_decref(expected);
    const json_t *model = json_array_get(json_object_get(answer.json, "models"), 0);
    assert_string_equal(json_string_value(json_object_get(model, "gives")), "vector");
    assert_int_equal(json_integer_value(json_array_get(json_object_get(model, "image"), 1)), WIDTH);
    answer_free(&answer);
}

/* ---- Loading ---- */

static void expect_refused(const char *image, const char *names, const char *part)
{
    char path[512];
    struct checkpoint model = picture_model(image, names);
    snprintf(path, sizeof path, "%s/refused", folder);
    checkpoint_write(&model, path, 0);
    char *said = daemon_refused(ARGUMENTS("--model", path));
    if (!strstr(said, part))
        fail_msg("expected \"%s\", found %s", part, said);
    free(said);
    checkpoint_free(&model);
    folder_remove(path);
}

static void wrong_image_sizes_and_labels_are_refused(void **state)
{
    (void)state;
    expect_refused("\"image\": {\"size\": [6, 4]},", "\"a\", \"b\", \"c\"",
                   "image: size is [6, 4] (height, width); expected [4, 6], that of input \\\"img\\\"");
    expect_refused("", "\"a\", \"b\"", "labels: found 2 names; expected 3");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_have_the_scores_of_their_classes),
        cmocka_unit_test(classify_answers_in_the_form_of_infinity),
        cmocka_unit_test(v2_returns_the_best_classes),
        cmocka_unit_test(v2_returns_classes_as_bytes),
        cmocka_unit_test(v2_refuses_bad_numbers_of_classes),
        cmocka_unit_test(the_root_answers_like_predict),
        cmocka_unit_test(a_vector_is_embedded_without_pooling),
        cmocka_unit_test(long_texts_are_cut_or_refused),
        cmocka_unit_test(logits_that_are_not_finite_fail),
        cmocka_unit_test(answers_have_the_usual_headers),
        cmocka_unit_test(files_of_images_have_the_scores_of_their_classes),
        cmocka_unit_test(hostile_files_are_refused),
        cmocka_unit_test(info_names_the_classes),
        cmocka_unit_test(wrong_image_sizes_and_labels_are_refused),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
