/* Images over /v2: shapes, JSON and bytes, contexts of any rank, and refusals. Also the routes that accept no images.
 * test_reference.c tests the reference cases, including images. */
#include "tests/http/infer.h"
#include "tests/http/the_daemon.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATH "/v2/models/linear_attention_image/infer"
#define CHANNELS 8

static int start(void **state)
{
    (void)state;
    the_daemon =
        daemon_start(ARGUMENTS("--model", CASES_FOLDER "/linear_attention_image", "--model",
                               "small=" CASES_FOLDER "/linear_attention_image_same", "--model",
                               "conv3=" CASES_FOLDER "/linear_attention_image_conv3", "--max-batch-tokens", "100"));
    return 0;
}

/* Appends a tensor of small floats as an entry of `inputs`. `shape` has a comma after each size. */
static void add_tensor(char *json, const char *name, const char *shape, int elements)
{
    sprintf(json + strlen(json), "%s{\"name\": \"%s\", \"shape\": [%.*s], \"datatype\": \"FP32\", \"data\": [",
            json[strlen(json) - 1] == '[' ? "" : ", ", name, (int)strlen(shape) - 1, shape);
    for (int i = 0; i < elements; i++)
        sprintf(json + strlen(json), "%s%.2f", i ? "," : "", 0.25 * (i * 7 % 11) - 1);
    strcat(json, "]}");
}

/* Returns a body with the input x of shape (1, 8, height, width), and with a context unless `context` is NULL. */
static const char *body_of(int height, int width, const char *context, int context_elements)
{
    static char json[32768];
    char shape[64];
    strcpy(json, "{\"inputs\": [");
    snprintf(shape, sizeof shape, "1,%d,%d,%d,", CHANNELS, height, width);
    add_tensor(json, "x", shape, CHANNELS * height * width);
    if (context)
        add_tensor(json, "context", context, context_elements);
    return strcat(json, "]}");
}

static json_t *output_of(int height, int width, const char *context, int context_elements)
{
    json_t *answer = daemon_post_json(the_daemon, PATH, body_of(height, width, context, context_elements));
    json_t *output = json_incref(json_array_get(json_object_get(answer, "outputs"), 0));
    json_decref(answer);
    return output;
}

static void expect_json(json_t *found, const char *text)
{
    json_t *expected = json_loads(text, 0, NULL);
    assert_non_null(expected);
    if (!json_equal(found, expected))
        fail_msg("expected %s, found %s", text, json_dumps(found, JSON_COMPACT));
    json_decref(expected);
}

static void expect_refusal(const char *path, const char *body, long status, const char *part)
{
    struct answer answer = daemon_post(the_daemon, path, body);
    const json_t *error = json_object_get(answer.json, "error");
    const char *message = json_string_value(json_is_object(error) ? json_object_get(error, "message") : error);
    if (answer.status != status || !message || !strstr(message, part))
        fail_msg("expected %ld \"%s\", found %ld %s", status, part, answer.status, answer.body);
    answer_free(&answer);
}

static void metadata_shows_free_sizes_as_minus_one(void **state)
{
    (void)state;
    struct answer answer = daemon_get(the_daemon, "/v2/models/small");
    expect_json(json_object_get(answer.json, "inputs"),
                "[{\"name\": \"x\", \"datatype\": \"FP32\", \"shape\": [-1, 4, -1, -1]},"
                " {\"name\": \"context\", \"datatype\": \"FP32\", \"shape\": [-1, 4, -1]}]");
    expect_json(json_object_get(answer.json, "outputs"),
                "[{\"name\": \"output\", \"datatype\": \"FP32\", \"shape\": [-1, 3, -1, -1]}]");
    answer_free(&answer);
}

/* The data may be lists nested like the shape, or one flat list. The results must be equal. */
static void nested_and_flat_data_have_the_same_result(void **state)
{
    (void)state;
    json_t *flat = json_loads(body_of(2, 3, NULL, 0), 0, NULL), *nested = json_array(), *batch = json_array();
    json_t *x = json_array_get(json_object_get(flat, "inputs"), 0), *data = json_object_get(x, "data");
    json_t *expected = daemon_post_json(the_daemon, PATH, body_of(2, 3, NULL, 0));
    for (size_t c = 0; c < CHANNELS; c++) {
        json_t *rows = json_array();
        for (size_t i = 0; i < 2; i++) {
            json_t *row = json_array();
            for (size_t j = 0; j < 3; j++)
                json_array_append(row, json_array_get(data, (c * 2 + i) * 3 + j));
            json_array_append_new(rows, row);
        }
        json_array_append_new(nested, rows);
    }
    json_array_append_new(batch, nested);
    json_object_set_new(x, "data", batch);
    char *body = json_dumps(flat, JSON_COMPACT);
    json_t *found = daemon_post_json(the_daemon, PATH, body);
    assert_true(json_equal(found, expected));
    free(body);
    json_decref(found);
    json_decref(expected);
    json_decref(flat);
}

static void bytes_and_json_have_the_same_result(void **state)
{
    (void)state;
    float x[CHANNELS * 6];
    json_t *json = output_of(2, 3, NULL, 0);
    const struct infer_tensor tensor = {"x", "FP32", 4, {1, CHANNELS, 2, 3}, x, sizeof x};
    for (int i = 0; i < CHANNELS * 6; i++)
        x[i] = 0.25f * (float)(i * 7 % 11) - 1;
    struct infer_request body = infer_body_of(&tensor, 1, NULL, 0);
    struct infer_answer answer = infer_send(the_daemon, "linear_attention_image", &body);
    struct infer_tensor output = infer_output(&answer, 0);
    assert_true(output.rank == 4 && output.shape[1] == CHANNELS && output.shape[2] == 2 && output.shape[3] == 3);
    assert_int_equal(json_array_size(json_object_get(json, "data")), CHANNELS * 6);
    for (size_t i = 0; i < CHANNELS * 6; i++) {
        float found;
        memcpy(&found, (const char *)output.data + i * sizeof found, sizeof found);
        assert_true(found == (float)json_number_at(json_object_get(json, "data"), i));
    }
    infer_answer_free(&answer);
    infer_body_free(&body);
    json_decref(json);
}

/* The result depends on the pixels of a context, not on its dimensions. */
static void the_dimensions_of_a_context_change_no_result(void **state)
{
    (void)state;
    static const char *const shapes[] = {"1,8,6,", "1,8,2,3,", "1,8,1,3,2,"};
    json_t *none = output_of(2, 3, NULL, 0), *first = output_of(2, 3, shapes[0], 48), *one = output_of(2, 3, "1,8,", 8);
    for (size_t i = 1; i < LENGTH(shapes); i++) {
        json_t *other = output_of(2, 3, shapes[i], 48);
        assert_true(json_equal(other, first));
        json_decref(other);
    }
    assert_false(json_equal(none, first));
    assert_false(json_equal(one, first) || json_equal(one, none));
    json_decref(none);
    json_decref(first);
    json_decref(one);
}

static void wrong_inputs_are_refused_with_their_fault(void **state)
{
    (void)state;
#define X(shape) "{\"inputs\": [{\"name\": \"x\", \"datatype\": \"FP32\", \"shape\": [" shape "], \"data\": "
    static const struct {
        const char *body, *part;
    } cases[] = {
        {X("1, 8, 1") "[1]}]}", "\"x\" has shape [1, 8, 1], [-1, 8, -1, -1] was expected"},
        {X("1, 1, 1, 8") "[1]}]}", "\"x\" has shape [1, 1, 1, 8], [-1, 8, -1, -1] was expected"},
        {X("1, 8, 0, 5") "[]}]}", "\"x\" is empty"},
        {X("0, 8, 1, 1") "[]}]}", "0 items"},
        {X("1, 8, 4294967296, 4294967296") "[1]}]}", "less data"},
        {X("1, 8, 1, 1") "[1, 2, 3, 4, 5, 6, 7]}]}", "a list of 7 values"},
        {X("1, 8, 1, 1") "[1, 2, 3, 4, 5, 6, 7, true]}]}", "\"x\"[0][7][0][0] is a boolean, a number was expected"},
    };
    for (size_t i = 0; i < LENGTH(cases); i++)
        expect_refusal(PATH, cases[i].body, 400, cases[i].part);
    expect_refusal(PATH, body_of(10, 11, NULL, 0), 400, "10 x 11 pixels; this server accepts at most 100");
    expect_refusal(PATH, body_of(10, 10, "1,8,", 8), 400, "101 pixels");
    expect_refusal(PATH, body_of(2, 2, "1,7,8,", 56), 400, "\"context\" has shape [1, 7, 8], [-1, 8, -1] was expected");
    expect_refusal(PATH, body_of(2, 2, "8,", 8), 400, "\"context\" has shape [8], [-1, 8, -1] was expected");
    expect_refusal(PATH, body_of(2, 2, "2,8,1,", 16), 400, "\"context\" has a batch of 2");
    expect_refusal(PATH, body_of(2, 2, "1,8,0,", 0), 400, "\"context\" is empty");
    expect_refusal(PATH, "{\"inputs\": []}", 400, "\"x\" is missing");
}

/* This model applies no softmax to the queries. So the result is a product of queries and values. It grows with the
 * square of large numbers, and overflows. */
static void an_output_that_is_not_finite_fails(void **state)
{
    (void)state;
    expect_refusal("/v2/models/conv3/infer", X("1, 8, 1, 1") "[3e38, 3e38, 3e38, 3e38, 3e38, 3e38, 3e38, 3e38]}]}", 500,
                   "image 0: channel 0 of the output contains NaN or an infinity");
}

/* The number of bytes of a raw request does not determine height and width. */
static void raw_requests_without_image_sizes_are_refused(void **state)
{
    (void)state;
    const float pixel[CHANNELS] = {0};
    struct answer answer = daemon_call(the_daemon, &(struct call){.path = PATH,
                                                                  .body = (const char *)pixel,
                                                                  .length = sizeof pixel,
                                                                  .headers = {"Inference-Header-Content-Length: 0"}});
    assert_int_equal(answer.status, 400);
    assert_non_null(strstr(answer.body, "do not determine the shape"));
    answer_free(&answer);
}

static void other_routes_refuse_images(void **state)
{
    (void)state;
    static const char *const bodies[] = {"{\"embeddings\": [[1, 2, 3, 4, 5, 6, 7, 8]]}", "{\"inputs\": [[1, 2]]}"};
    static const char *const part = "images. Use /v2/models/linear_attention_image/infer";
    for (size_t i = 0; i < LENGTH(bodies); i++) {
        expect_refusal("/embed", bodies[i], 422, part);
        expect_refusal("/embed_all", bodies[i], 422, part);
        expect_refusal("/logits", bodies[i], 422, part);
        expect_refusal("/predict", bodies[i], 422, part);
    }
    expect_refusal("/v1/embeddings", "{\"model\": \"linear_attention_image\", \"input\": [1, 2]}", 400,
                   "accepts images, for which this route has no key: use /v2/models/linear_attention_image/infer");
    struct answer info = daemon_get(the_daemon, "/info");
    assert_int_equal(json_integer_value(json_object_get(info.json, "max_input_length")), 100);
    answer_free(&info);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(metadata_shows_free_sizes_as_minus_one),
        cmocka_unit_test(nested_and_flat_data_have_the_same_result),
        cmocka_unit_test(bytes_and_json_have_the_same_result),
        cmocka_unit_test(the_dimensions_of_a_context_change_no_result),
        cmocka_unit_test(wrong_inputs_are_refused_with_their_fault),
        cmocka_unit_test(an_output_that_is_not_finite_fails),
        cmocka_unit_test(raw_requests_without_image_sizes_are_refused),
        cmocka_unit_test(other_routes_refuse_images),
    };
    return cmocka_run_group_tests(tests, start, the_daemon_stop);
}
