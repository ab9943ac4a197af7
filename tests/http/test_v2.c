/* /v2: metadata, JSON and binary tensors, compression, and the behaviour that clients of Triton and KServe expect. */
#include "tests/http/daemon.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#define CASES "tests/reference/"
#define MODEL "/v2/models/builtin/infer"
#define COLUMNS 259 /* number of columns of the output of the model "builtin" */

static struct daemon *the_daemon; /* serves the model "builtin" */
/* Serves a model with two inputs of floats, and a model with an input of floats and a mask. */
static struct daemon *two_models;

static int start(void **state)
{
    (void)state;
    the_daemon = daemon_start(ARGUMENTS("--payload-limit", "65536", "--max-client-batch-size", "4"));
    two_models = daemon_start(ARGUMENTS("--model", "two=" CASES "linformer_attention", "--model",
                                        CASES "linformer_pytorch_padder_linformer"));
    return 0;
}

static int stop(void **state)
{
    (void)state;
    daemon_stop(two_models);
    daemon_stop(the_daemon);
    return 0;
}

/* ---- Calls ---- */

/* A request body: JSON, followed by bytes. */
struct body {
    char bytes[4096];
    size_t json, length;
};

static struct body body_of(const char *json, const void *bytes, size_t length)
{
    struct body body = {.json = strlen(json), .length = strlen(json) + length};
    assert_true(body.length < sizeof body.bytes);
    memcpy(body.bytes, json, body.json);
    memcpy(body.bytes + body.json, bytes, length);
    return body;
}

/* Sends no Content-Type, like tritonclient. `extra` is an additional header, or NULL. */
static struct answer infer_bytes(const struct daemon *daemon, const char *path, const struct body *body,
                                 const char *extra)
{
    char header[80];
    snprintf(header, sizeof header, "Inference-Header-Content-Length: %zu", body->json);
    return daemon_call(daemon, &(struct call){.path = path,
                                              .body = body->bytes,
                                              .length = body->length,
                                              .headers = {"Content-Type:", header, extra}});
}

static struct answer infer(const struct daemon *daemon, const char *path, const char *json)
{
    return daemon_call(daemon, &(struct call){.path = path, .body = json, .headers = {"Content-Type:"}});
}

/* Expects the error in an answer, and frees the answer. */
static void expect_error(struct answer *answer, long status, const char *part)
{
    const char *message = json_string_value(json_object_get(answer->json, "error"));
    char *type = answer_header(answer, "Content-Type");
    if (answer->status != status || !message || !strstr(message, part))
        fail_msg("expected %ld \"%s\", found %ld %s", status, part, answer->status, answer->body);
    assert_int_equal(json_object_size(answer->json), 1);
    assert_string_equal(type, "application/json");
    free(type);
    answer_free(answer);
}

static void expect_refusal(const struct daemon *daemon, const char *path, const char *json, const char *part)
{
    struct answer answer = infer(daemon, path, json);
    expect_error(&answer, 400, part);
}

static const json_t *output_at(const json_t *answer, size_t index)
{
    return json_array_get(json_object_get(answer, "outputs"), index);
}

static const char *text_at(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    assert_non_null(text);
    return text;
}

static void expect_shape(const json_t *tensor, size_t rank, const int64_t *sizes)
{
    const json_t *shape = json_object_get(tensor, "shape");
    assert_int_equal(json_array_size(shape), rank);
    for (size_t d = 0; d < rank; d++)
        assert_int_equal(json_integer_value(json_array_get(shape, d)), sizes[d]);
}
#define SHAPE(...)                                                        \
    sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t), (const int64_t[]) \
    {                                                                     \
        __VA_ARGS__                                                       \
    }

/* Returns the JSON of an answer whose outputs are bytes. *bytes points to the first of these bytes. The test frees the
 * JSON. */
static json_t *binary_answer(const struct answer *answer, const char **bytes)
{
    char *header = answer_header(answer, "Inference-Header-Content-Length");
    char *type = answer_header(answer, "Content-Type");
    if (answer->status != 200)
        print_error("%ld %s\n", answer->status, answer->body);
    assert_int_equal(answer->status, 200);
    assert_non_null(header);
    assert_string_equal(type, "application/octet-stream");
    assert_true((size_t)atol(header) < answer->length);
    json_t *json = json_loadb(answer->body, (size_t)atol(header), 0, NULL);
    assert_non_null(json);
    *bytes = answer->body + atol(header);
    free(header);
    free(type);
    return json;
}

/* Returns the model's logits for the ids 100, 101, 102, from the native route. The test frees them. */
static json_t *expected_logits(void)
{
    return daemon_post_json(the_daemon, "/logits", "{\"inputs\": [[100, 101, 102]]}");
}

static double expected_at(const json_t *logits, size_t row, size_t column)
{
    return json_number_at(json_array_get(json_object_get(json_array_get(logits, 0), "logits"), row), column);
}

static void expect_logits(const float *floats, const json_t *expected)
{
    for (size_t i = 0; i < 3 * COLUMNS; i++)
        assert_true(floats[i] == (float)expected_at(expected, i / COLUMNS, i % COLUMNS));
}

/* Copies the bytes, because bytes after JSON may be unaligned. */
static void expect_logits_bytes(const char *bytes, const json_t *expected)
{
    float floats[3 * COLUMNS];
    memcpy(floats, bytes, sizeof floats);
    expect_logits(floats, expected);
}

#define IDS "{\"name\": \"x\", \"shape\": [1, 3], \"datatype\": \"INT64\", \"data\": [100, 101, 102]}"
#define BINARY_IDS \
    "{\"name\": \"x\", \"shape\": [1, 3], \"datatype\": \"INT64\", \"parameters\": {\"binary_data_size\": 24}}"
static const int64_t three_ids[] = {100, 101, 102};

/* ---- What is known without a run ---- */

static void expect_body(const char *path, const char *text)
{
    struct answer answer = daemon_get(the_daemon, path);
    char *type = answer_header(&answer, "Content-Type");
    assert_int_equal(answer.status, 200);
    assert_string_equal(answer.body, text);
    assert_string_equal(type, "application/json");
    free(type);
    answer_free(&answer);
}

static void health_is_json(void **state)
{
    (void)state;
    expect_body("/v2/health/live", "{\"live\":true}");
    expect_body("/v2/health/ready", "{\"ready\":true}");
    expect_body("/v2/models/builtin/ready", "{\"name\":\"builtin\",\"ready\":true}");
    expect_body("/v2/models/builtin/versions/1/ready", "{\"name\":\"builtin\",\"ready\":true}");
}

static void metadata_names_the_parameters_of_forward(void **state)
{
    (void)state;
    struct answer server = daemon_get(the_daemon, "/v2"), model = daemon_get(two_models, "/v2/models/two"),
                  version = daemon_get(two_models, "/v2/models/two/versions/1");
    const json_t *inputs = json_object_get(model.json, "inputs"), *outputs = json_object_get(model.json, "outputs");
    assert_string_equal(text_at(server.json, "name"), "linformerd");
    text_at(server.json, "version");
    assert_string_equal(json_string_value(json_array_get(json_object_get(server.json, "extensions"), 0)),
                        "binary_tensor_data");
    assert_true(json_equal(model.json, version.json));
    assert_string_equal(text_at(model.json, "name"), "two");
    text_at(model.json, "platform");
    assert_int_equal(json_array_size(inputs), 2);
    assert_string_equal(text_at(json_array_get(inputs, 0), "name"), "x");
    assert_string_equal(text_at(json_array_get(inputs, 1), "name"), "context");
    assert_string_equal(text_at(json_array_get(inputs, 1), "datatype"), "FP32");
    expect_shape(json_array_get(inputs, 1), SHAPE(-1, -1, 32));
    assert_int_equal(json_array_size(outputs), 2);
    assert_string_equal(text_at(json_array_get(outputs, 0), "name"), "output");
    expect_shape(json_array_get(outputs, 0), SHAPE(-1, -1, 32));
    assert_string_equal(text_at(json_array_get(outputs, 1), "name"), "attention.0");
    expect_shape(json_array_get(outputs, 1), SHAPE(-1, 4, -1, 8));
    answer_free(&server);
    answer_free(&model);
    answer_free(&version);
    model = daemon_get(the_daemon, "/v2/models/builtin");
    assert_string_equal(text_at(json_array_get(json_object_get(model.json, "inputs"), 0), "datatype"), "INT64");
    expect_shape(json_array_get(json_object_get(model.json, "inputs"), 0), SHAPE(-1, -1));
    answer_free(&model);
    model = daemon_get(two_models, "/v2/models/linformer_pytorch_padder_linformer");
    assert_string_equal(text_at(json_array_get(json_object_get(model.json, "inputs"), 1), "datatype"), "BOOL");
    answer_free(&model);
}

static void the_index_lists_models(void **state)
{
    (void)state;
    struct answer answer = daemon_call(two_models, &(struct call){.method = "POST", .path = "/v2/repository/index"});
    static const char *const bad[] = {"[]", "{\"ready\": 1}", "{"};
    for (size_t i = 0; i < LENGTH(bad); i++) {
        struct answer refused = daemon_post(two_models, "/v2/repository/index", bad[i]);
        assert_int_equal(refused.status, 400);
        answer_free(&refused);
    }
    assert_int_equal(answer.status, 200);
    assert_int_equal(json_array_size(answer.json), 2);
    assert_string_equal(text_at(json_array_get(answer.json, 0), "name"), "two");
    assert_string_equal(text_at(json_array_get(answer.json, 0), "state"), "READY");
    answer_free(&answer);
}

/* ---- Runs ---- */

static void requests_in_json_have_answers_in_json(void **state)
{
    (void)state;
    static const char *const inputs[] = {
        IDS,
        "{\"name\": \"x\", \"shape\": [1, 3], \"datatype\": \"INT32\", \"data\": [[100, 101, 102]]}",
    };
    static const char *const outputs[] = {"", ", \"outputs\": []", ", \"outputs\": [{\"name\": \"output\"}]"};
    json_t *expected = expected_logits();
    for (size_t i = 0; i < 6; i++) {
        char body[512];
        float floats[3 * COLUMNS];

        snprintf(body, sizeof body, "{\"id\": \"a \\\"name\\\"\", \"inputs\": [%s]%s}", inputs[i % 2], outputs[i / 2]);
        struct answer answer = infer(the_daemon, MODEL, body);
        const json_t *output = output_at(answer.json, 0), *data = json_object_get(output, "data");
        char *type = answer_header(&answer, "Content-Type"),
             *length = answer_header(&answer, "Inference-Header-Content-Length");

        assert_int_equal(answer.status, 200);
        assert_string_equal(type, "application/json");
        assert_null(length);
        free(type);
        assert_string_equal(text_at(answer.json, "id"), "a \"name\"");
        assert_string_equal(text_at(answer.json, "model_name"), "builtin");
        assert_string_equal(text_at(answer.json, "model_version"), "1");
        assert_int_equal(json_array_size(json_object_get(answer.json, "outputs")), 1);
        assert_string_equal(text_at(output, "name"), "output");
        assert_string_equal(text_at(output, "datatype"), "FP32");
        expect_shape(output, SHAPE(1, 3, COLUMNS));
        assert_int_equal(json_array_size(data), 3 * COLUMNS);
        for (size_t f = 0; f < 3 * COLUMNS; f++)
            floats[f] = (float)json_number_at(data, f);
        expect_logits(floats, expected);
        answer_free(&answer);
    }
    json_decref(expected);
}

/* JSON of different lengths puts the bytes at all alignments. */
static void requests_in_bytes_can_have_answers_in_bytes(void **state)
{
    (void)state;
    json_t *expected = expected_logits();
    const int32_t brief[] = {100, 101, 102};
    for (int spaces = 0; spaces < 17; spaces++) {
        char json[512];
        const char *bytes;
        bool narrow = spaces % 2;

        snprintf(json, sizeof json,
                 "{\"inputs\": [{\"name\": \"x\", \"shape\": [1, 3], \"datatype\": \"%s\", \"parameters\": "
                 "{\"binary_data_size\": %d}}],%*s \"parameters\": {\"binary_data_output\": true, \"other\": 5}}",
                 narrow ? "INT32" : "INT64", narrow ? 12 : 24, spaces, "");
        struct body body = body_of(json, narrow ? (const void *)brief : three_ids, narrow ? 12 : 24);
        struct answer answer = infer_bytes(the_daemon, spaces > 8 ? MODEL : "/v2/models/builtin/versions/1/infer",
                                           &body, "Content-Type: application/octet-stream");
        json_t *header = binary_answer(&answer, &bytes);
        const json_t *parameters = json_object_get(output_at(header, 0), "parameters");

        assert_null(json_object_get(output_at(header, 0), "data"));
        assert_int_equal(json_integer_value(json_object_get(parameters, "binary_data_size")), 3 * COLUMNS * 4);
        assert_int_equal(answer.body + answer.length - bytes, 3 * COLUMNS * 4);
        expect_logits_bytes(bytes, expected);
        json_decref(header);
        answer_free(&answer);
    }
    json_decref(expected);
}

/* A header length of 0 means that the request has no JSON. The answer is bytes. */
static void a_raw_request_is_one_item(void **state)
{
    (void)state;
    struct body body = body_of("", three_ids, sizeof three_ids);
    struct answer answer = infer_bytes(the_daemon, MODEL, &body, NULL);
    json_t *expected = expected_logits();
    const char *bytes;
    json_t *header = binary_answer(&answer, &bytes);
    expect_shape(output_at(header, 0), SHAPE(1, 3, COLUMNS));
    expect_logits_bytes(bytes, expected);
    json_decref(header);
    answer_free(&answer);
    json_decref(expected);
    body.length -= 3;
    answer = infer_bytes(the_daemon, MODEL, &body, NULL);
    expect_error(&answer, 400, "not a multiple of the 8 bytes");
    body.length = 0;
    answer = daemon_call(
        the_daemon, &(struct call){.method = "POST", .path = MODEL, .headers = {"Inference-Header-Content-Length: 0"}});
    expect_error(&answer, 400, "empty");
}

/* The request chooses bytes or JSON for each output. */
static void one_output_may_be_bytes_and_another_json(void **state)
{
    (void)state;
    struct body body = body_of("{\"inputs\": [" BINARY_IDS "], \"outputs\": [{\"name\": \"attention.1\"},"
                               " {\"name\": \"output\", \"parameters\": {\"binary_data\": true}}]}",
                               three_ids, sizeof three_ids);
    struct answer answer = infer_bytes(the_daemon, MODEL, &body, NULL);
    json_t *expected = expected_logits();
    const char *bytes;
    json_t *header = binary_answer(&answer, &bytes);
    const json_t *attention = json_object_get(output_at(header, 0), "data");
    double sum = 0;
    assert_string_equal(text_at(output_at(header, 0), "name"), "attention.1");
    expect_shape(output_at(header, 0), SHAPE(1, 4, 3, 32));
    for (size_t i = 0; i < 4 * 3 * 32; i++)
        sum += json_number_at(attention, i);
    assert_true(fabs(sum - 12) < 1e-4); /* sum of the probabilities of 4 heads and 3 queries */
    expect_logits_bytes(bytes, expected);
    json_decref(header);
    answer_free(&answer);
    json_decref(expected);
}

/* The answer has the items of a batch in their order. Each item has the same result as alone, up to 1e-6. */
static void items_of_a_batch_have_their_results_in_order(void **state)
{
    (void)state;
    static const char *const rows[] = {"[7, 8]", "[9, 10]", "[11, 12]"};
    struct answer all = infer(the_daemon, MODEL,
                              "{\"inputs\": [{\"name\": \"x\", \"shape\": [3, 2], \"datatype\": \"INT64\","
                              " \"data\": [[7, 8], [9, 10], [11, 12]]}]}");
    expect_shape(output_at(all.json, 0), SHAPE(3, 2, COLUMNS));
    for (size_t b = 0; b < 3; b++) {
        char body[256];

        snprintf(body, sizeof body,
                 "{\"inputs\": [{\"name\": \"x\", \"shape\": [1, 2], \"datatype\": \"INT64\", \"data\": %s}]}",
                 rows[b]);
        struct answer one = infer(the_daemon, MODEL, body);
        for (size_t i = 0; i < 2 * COLUMNS; i++) {
            double together = json_number_at(json_object_get(output_at(all.json, 0), "data"), b * 2 * COLUMNS + i);
            double alone = json_number_at(json_object_get(output_at(one.json, 0), "data"), i);

            assert_true(fabs(together - alone) <= 1e-6 + 1e-6 * fabs(alone));
        }
        answer_free(&one);
    }
    answer_free(&all);
}

/* ---- Compression ---- */

/* Compresses with gzip, or with zlib's format. tritonclient and RFC 9110 call zlib's format "deflate". */
static struct body packed(const struct body *body, bool gzip)
{
    struct body out = {.json = body->json};
    z_stream stream = {0};
    assert_int_equal(deflateInit2(&stream, 6, Z_DEFLATED, gzip ? 31 : 15, 8, Z_DEFAULT_STRATEGY), Z_OK);
    stream.next_in = (Bytef *)body->bytes;
    stream.avail_in = (uInt)body->length;
    stream.next_out = (Bytef *)out.bytes;
    stream.avail_out = sizeof out.bytes;
    assert_int_equal(deflate(&stream, Z_FINISH), Z_STREAM_END);
    out.length = stream.total_out;
    deflateEnd(&stream);
    return out;
}

static char *unpacked(const struct answer *answer, bool gzip, size_t *length)
{
    enum { SIZE = 65536 };
    char *out = malloc(SIZE);
    z_stream stream = {0};
    assert_int_equal(inflateInit2(&stream, gzip ? 31 : 15), Z_OK);
    stream.next_in = (Bytef *)answer->body;
    stream.avail_in = (uInt)answer->length;
    stream.next_out = (Bytef *)out;
    stream.avail_out = SIZE;
    assert_int_equal(inflate(&stream, Z_FINISH), Z_STREAM_END);
    *length = stream.total_out;
    inflateEnd(&stream);
    return out;
}

/* The length of the JSON in the header counts uncompressed bytes, in requests and answers. */
static void gzip_and_deflate_work_for_requests_and_answers(void **state)
{
    (void)state;
    struct body plain =
        body_of("{\"inputs\": [" BINARY_IDS "], \"parameters\": {\"binary_data_output\": true}}", three_ids, 24);
    json_t *expected = expected_logits();
    for (int gzip = 0; gzip < 2; gzip++) {
        struct body body = packed(&plain, gzip);
        char length[80];
        size_t size;

        snprintf(length, sizeof length, "Inference-Header-Content-Length: %zu", plain.json);
        struct answer answer = daemon_call(
            the_daemon,
            &(struct call){
                .path = MODEL,
                .body = body.bytes,
                .length = body.length,
                .headers = {"Content-Type:", length, gzip ? "Content-Encoding: gzip" : "Content-Encoding: deflate",
                            gzip ? "Accept-Encoding: br, gzip;q=0.9, deflate;q=0.8" : "Accept-Encoding: deflate"}});
        char *encoding = answer_header(&answer, "Content-Encoding");
        char *header = answer_header(&answer, "Inference-Header-Content-Length");

        assert_int_equal(answer.status, 200);
        assert_string_equal(encoding, gzip ? "gzip" : "deflate");
        char *text = unpacked(&answer, gzip, &size);
        assert_int_equal(size, (size_t)atol(header) + 3 * COLUMNS * 4);
        expect_logits_bytes(text + atol(header), expected);
        free(text);
        free(header);
        free(encoding);
        answer_free(&answer);
    }
    json_decref(expected);
}

static void wrong_content_encodings_are_refused(void **state)
{
    (void)state;
    struct body plain = body_of("{\"inputs\": [" IDS "]}", "", 0), body = packed(&plain, true);
    body.length -= 9;
    struct answer answer = infer_bytes(the_daemon, MODEL, &body, "Content-Encoding: gzip");
    expect_error(&answer, 400, "cut off");
    body = packed(&plain, false);
    answer = infer_bytes(the_daemon, MODEL, &body, "Content-Encoding: gzip");
    expect_error(&answer, 400, "not valid gzip");
    body.length += 3;
    answer = infer_bytes(the_daemon, MODEL, &body, "Content-Encoding: deflate");
    expect_error(&answer, 400, "bytes after its end");
    answer = infer_bytes(the_daemon, MODEL, &plain, "Content-Encoding: br");
    expect_error(&answer, 415, "\"br\"");
    answer = infer_bytes(the_daemon, MODEL, &plain, "Content-Encoding: identity");
    assert_int_equal(answer.status, 200);
    answer_free(&answer);
}

/* The body is compressed to a thousandth of its size. The limit counts uncompressed bytes. */
static void decompression_stops_at_the_payload_limit(void **state)
{
    (void)state;
    enum { SIZE = 1 << 20 };
    char *zeros = calloc(1, SIZE);
    struct body body = {.json = 10};
    uLongf length = sizeof body.bytes;
    struct answer answer;
    assert_int_equal(compress2((Bytef *)body.bytes, &length, (const Bytef *)zeros, SIZE, 9), Z_OK);
    body.length = length;
    answer = infer_bytes(the_daemon, MODEL, &body, "Content-Encoding: deflate");
    expect_error(&answer, 413, "65536 bytes that this server accepts (--payload-limit)");
    free(zeros);
}

/* ---- Several inputs ---- */

/* Adds a tensor (1, rows, columns) of floats to a list. */
static void add_tensor(char *json, const char *name, int rows, int columns)
{
    sprintf(json + strlen(json), "%s{\"name\": \"%s\", \"shape\": [1, %d, %d], \"datatype\": \"FP32\", \"data\": [",
            json[strlen(json) - 1] == '[' ? "" : ", ", name, rows, columns);
    for (int i = 0; i < rows * columns; i++)
        sprintf(json + strlen(json), "%s%d", i ? "," : "", i % 7);
    strcat(json, "]}");
}

static void optional_inputs_may_be_left_out(void **state)
{
    (void)state;
    for (int with_context = 0; with_context < 2; with_context++) {
        char json[8192] = "{\"inputs\": [";

        add_tensor(json, "x", with_context ? 3 : 24, 32);
        if (with_context)
            add_tensor(json, "context", 20, 32);
        strcat(json, "], \"outputs\": [{\"name\": \"attention.0\"}]}");
        struct answer answer = infer(two_models, "/v2/models/two/infer", json);
        if (answer.status != 200)
            print_error("%s\n", answer.body);
        assert_int_equal(answer.status, 200);
        expect_shape(output_at(answer.json, 0), SHAPE(1, 4, with_context ? 3 : 24, 8));
        answer_free(&answer);
    }
}

/* Returns the model's output for three rows with a mask. `mask` is JSON, or "" for no mask. The test frees the
 * answer. */
static struct answer masked(const char *mask, const char *bytes)
{
    char json[4000] = "{\"inputs\": [";
    add_tensor(json, "tensor", 3, 24);
    if (*mask)
        sprintf(json + strlen(json), ", {\"name\": \"input_mask\", \"shape\": [1, 3], \"datatype\": \"BOOL\", %s}",
                mask);
    strcat(json, "]}");
    struct body body = body_of(json, bytes, strlen(bytes));
    return infer_bytes(two_models, "/v2/models/linformer_pytorch_padder_linformer/infer", &body, NULL);
}

static void masks_accept_only_booleans(void **state)
{
    (void)state;
    struct answer none = masked("", ""), all = masked("\"data\": [true, true, true]", ""),
                  bytes = masked("\"parameters\": {\"binary_data_size\": 3}", "\1\1\1"),
                  some = masked("\"data\": [[true, false, true]]", ""), wrong = masked("\"data\": [1, 0, 1]", "");
    const json_t *data = json_object_get(output_at(none.json, 0), "data");
    assert_int_equal(json_array_size(data), 72);
    assert_true(json_equal(none.json, all.json));
    assert_true(json_equal(none.json, bytes.json));
    assert_int_equal(some.status, 200);
    assert_false(json_equal(none.json, some.json));
    answer_free(&none);
    answer_free(&all);
    answer_free(&bytes);
    answer_free(&some);
    expect_error(&wrong, 400, "input \"input_mask\"[0][0] is an integer, true or false was expected");
}

/* ---- Refusals ---- */

#define X "{\"name\": \"x\", \"datatype\": \"INT64\", "

static void errors_name_the_tensor(void **state)
{
    (void)state;
    static const struct {
        const char *body, *part;
    } cases[] = {
        {"", "empty"},
        {"{\"inputs\": [" IDS "]", "not JSON"},
        {"{\"inputs\": [{\"name\": \"x\", \"shape\": [1, 1], \"datatype\": \"INT64\", \"data\": [NaN]}]}", "NaN"},
        {"[]", "the body is a list"},
        {"{}", "inputs is missing"},
        {"{\"inputs\": []}", "\"x\" is missing"},
        {"{\"inputs\": {}}", "inputs is an object"},
        {"{\"inputs\": [5]}", "inputs[0] is an integer"},
        {"{\"inputs\": [{}]}", "inputs[0]: name is missing"},
        {"{\"inputs\": [{\"name\": 5}]}", "inputs[0]: name is an integer"},
        {"{\"inputs\": [" X "\"shap\": [1]}]}", "input \"x\" has no shape"},
        {"{\"inputs\": [{\"name\": \"y\"}]}", "input \"y\" is unknown; model \"builtin\" has \"x\""},
        {"{\"inputs\": [" IDS ", " IDS "]}", "input \"x\" is given twice"},
        {"{\"inputs\": [{\"name\": \"x\", \"shape\": [1, 1], \"data\": [1]}]}", "input \"x\" has no datatype"},
        {"{\"inputs\": [" X "\"data\": [1]}]}", "input \"x\" has no shape"},
        {"{\"inputs\": [" X "\"shape\": [1, 1]}]}", "input \"x\": neither data"},
        {"{\"inputs\": [" X "\"shape\": [1, 1], \"data\": 5}]}", "inputs[0]: data is an integer"},
        {"{\"inputs\": [" X "\"shape\": [1, -1], \"data\": [5]}]}", "input \"x\": shape[1]"},
        {"{\"inputs\": [" X "\"shape\": [1, 1.0], \"data\": [5]}]}", "input \"x\": shape[1]"},
        {"{\"inputs\": [" X "\"shape\": [1], \"data\": [5]}]}", "input \"x\" has shape [1], [-1, -1] was expected"},
        {"{\"inputs\": [" X "\"shape\": [1, 1, 1, 1, 1, 1, 1, 1, 1], \"data\": [5]}]}", "9 dimensions"},
        {"{\"inputs\": [" X "\"shape\": [4294967296, 4294967296], \"data\": [5]}]}", "input \"x\" has less data"},
        {"{\"inputs\": [" X "\"shape\": [1, 1000000000], \"data\": [5]}]}", "input \"x\" has less data"},
        {"{\"inputs\": [" X "\"shape\": [1, 3], \"data\": [5, 6]}]}",
         "a list of 2 values where shape [1, 3] requires 3"},
        {"{\"inputs\": [" X "\"shape\": [2, 2], \"data\": [[5, 6], [7]]}]}", "a list of 1 values where shape [2, 2]"},
        {"{\"inputs\": [" X "\"shape\": [2, 1], \"data\": [[5], 6]}]}", "data has an integer where a list"},
        {"{\"inputs\": [" X "\"shape\": [1, 1], \"data\": [[[5]]]}]}", "input \"x\"[0][0] is a list, an integer id"},
        {"{\"inputs\": [" X "\"shape\": [1, 0], \"data\": []}]}", "\"x\" is empty"},
        {"{\"inputs\": [" X "\"shape\": [0, 1], \"data\": []}]}", "0 items"},
        {"{\"inputs\": [" X "\"shape\": [5, 1], \"data\": [1, 2, 3, 4, 5]}]}", "5 items, 1 to 4"},
        {"{\"inputs\": [" X "\"shape\": [2, 2], \"data\": [5, 6, 7, 259]}]}", "input \"x\"[1][1] is 259; ids of model"},
        {"{\"inputs\": [" X "\"shape\": [1, 1], \"data\": [4294967300]}]}", "is 4294967300"},
        {"{\"inputs\": [" X "\"shape\": [1, 1], \"data\": [-1]}]}", "at least 0"},
        {"{\"inputs\": [" X "\"shape\": [1, 1], \"data\": [1.0]}]}", "is a float, an integer id was expected"},
        {"{\"inputs\": [{\"name\": \"x\", \"shape\": [1, 1], \"datatype\": \"FP32\", \"data\": [1]}]}",
         "input \"x\" has datatype FP32, INT64 or INT32 was expected"},
        {"{\"inputs\": [" X "\"shape\": [1, 1], \"parameters\": {\"binary_data_size\": 8}}]}", "0 bytes are left"},
        {"{\"inputs\": [" X "\"shape\": [1, 1], \"parameters\": {\"binary_data_size\": -8}}]}", "binary_data_size"},
        {"{\"inputs\": [" X "\"shape\": [1, 1], \"parameters\": 5}]}", "inputs[0]: parameters is an integer"},
        {"{\"inputs\": [" X "\"shape\": [1, 1], \"data\": [1], \"parameters\": {\"binary_data_size\": 8}}]}", "both"},
        {"{\"inputs\": [" X "\"shape\": [1, 1], \"parameters\": {\"shared_memory_region\": \"a\"}}]}", "shared memory"},
        {"{\"inputs\": [" IDS "], \"outputs\": [{\"name\": \"logits\"}]}", "output \"logits\" is unknown; model"},
        {"{\"inputs\": [" IDS "], \"outputs\": [{\"name\": \"output\"}, {\"name\": \"output\"}]}", "requested twice"},
        {"{\"inputs\": [" IDS "], \"outputs\": [{\"name\": \"attention.0\"}, {\"name\": \"attention.1\"},"
         " {\"name\": \"attention.2\"}, {\"name\": \"attention.3\"}, {\"name\": \"output\"}, {\"name\": \"more\"}]}",
         "output \"more\" is unknown"},
        {"{\"inputs\": [" IDS "], \"outputs\": [{\"name\": \"output\", \"parameters\": {\"binary_data\": 1}}]}",
         "output \"output\": parameter binary_data is an integer"},
        {"{\"inputs\": [" IDS "], \"outputs\": [{\"name\": \"output\", \"parameters\": {\"classification\": -3}}]}",
         "classification"},
        {"{\"inputs\": [" IDS "], \"id\": 5}", "id is an integer"},
        {"{\"inputs\": [" IDS "], \"parameters\": {\"binary_data_output\": \"yes\"}}",
         "binary_data_output is a string"},
    };
    for (size_t i = 0; i < LENGTH(cases); i++)
        expect_refusal(the_daemon, MODEL, cases[i].body, cases[i].part);
}

static void wrong_numbers_of_bytes_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *json;
        size_t length;
        const char *part;
    } cases[] = {
        {"{\"inputs\": [" BINARY_IDS "]}", 23, "binary_data_size is 24, but only 23 bytes are left"},
        {"{\"inputs\": [" BINARY_IDS "]}", 25, "1 byte is left after the data"},
        {"{\"inputs\": [" BINARY_IDS "]}", 1, "binary_data_size is 24, but only 1 byte is left after the JSON"},
        {"{\"inputs\": [" IDS "]}", 8, "8 bytes are left after"},
        {"{\"inputs\": [" X "\"shape\": [1, 2], \"parameters\": {\"binary_data_size\": 24}}]}", 24,
         "input \"x\" has 24 bytes of data, which does not match INT64 with shape [1, 2]"},
    };
    const int64_t ids[4] = {1, 2, 3, 4}, beyond[3] = {1, 2, 300};
    const float not_finite[2] = {1, NAN};
    struct answer answer;
    for (size_t i = 0; i < LENGTH(cases); i++) {
        struct body body = body_of(cases[i].json, ids, cases[i].length);

        answer = infer_bytes(the_daemon, MODEL, &body, NULL);
        expect_error(&answer, 400, cases[i].part);
    }
    struct body body = body_of("{\"inputs\": [" BINARY_IDS "]}", beyond, 24);
    answer = infer_bytes(the_daemon, MODEL, &body, NULL);
    expect_error(&answer, 400, "input \"x\"[0][2] is 300; ids of model \"builtin\" are below 259");
    body.json = body.length + 1;
    answer = infer_bytes(the_daemon, MODEL, &body, NULL);
    expect_error(&answer, 400, "Inference-Header-Content-Length is");
    float row[32] = {not_finite[0], not_finite[1]};
    body = body_of("{\"inputs\": [{\"name\": \"x\", \"shape\": [1, 1, 32], \"datatype\": \"FP32\", \"parameters\": "
                   "{\"binary_data_size\": 128}}]}",
                   row, sizeof row);
    answer = infer_bytes(two_models, "/v2/models/two/infer", &body, NULL);
    expect_error(&answer, 400, "input \"x\"[0][0][1] is nan");
}

/* A 16-bit number, and the same number as a float. */
struct half {
    uint16_t bits;
    float value;
};

/* Returns the binary output for a row of 32 numbers. The row repeats the numbers of `halves`. If `datatype` is FP32,
 * the numbers are sent as floats. The test frees the answer. */
static struct answer infer_row(const char *datatype, const struct half *halves, size_t count)
{
    char json[256];
    uint16_t bits[32];
    float floats[32];
    bool wide = strcmp(datatype, "FP32") == 0;
    for (size_t i = 0; i < 32; i++) {
        bits[i] = halves[i % count].bits;
        floats[i] = halves[i % count].value;
    }
    snprintf(json, sizeof json,
             "{\"inputs\": [{\"name\": \"x\", \"shape\": [1, 1, 32], \"datatype\": \"%s\", \"parameters\": "
             "{\"binary_data_size\": %d}}], \"parameters\": {\"binary_data_output\": true}}",
             datatype, wide ? 128 : 64);
    struct body body = body_of(json, wide ? (const void *)floats : bits, wide ? 128 : 64);
    return infer_bytes(two_models, "/v2/models/two/infer", &body, NULL);
}

static void f16_and_bf16_are_converted_exactly(void **state)
{
    (void)state;
    /* subnormal and normal numbers, the smallest positive numbers, the largest of F16, and zeros */
    static const struct half fp16[] = {{0x3c00, 1},           {0x0001, 0x1p-24f},   {0x03ff, 0x3ffp-24f},
                                       {0x0400, 0x1p-14f},    {0x3c01, 0x401p-10f}, {0xc000, -2},
                                       {0x63d0, 1000},        {0x8000, -0.0f},      {0x0000, 0},
                                       {0xb555, -0x555p-12f}, {0x7bff, 65504}};
    static const struct half bf16[] = {{0x3f80, 1},    {0xbf80, -1},    {0x0001, 0x1p-133f}, {0x4049, 3.140625f},
                                       {0x447a, 1000}, {0x8000, -0.0f}, {0x3eab, 0xabp-9f},  {0x0080, 0x1p-126f}};
    const struct half *const halves[] = {fp16, bf16};
    const size_t counts[] = {LENGTH(fp16), LENGTH(bf16)};
    for (size_t i = 0; i < 2; i++) {
        struct answer found = infer_row(i == 0 ? "FP16" : "BF16", halves[i], counts[i]);
        struct answer expected = infer_row("FP32", halves[i], counts[i]);
        assert_int_equal(expected.status, 200);
        if (found.status != 200)
            fail_msg("%s", found.body);
        assert_int_equal(found.length, expected.length);
        assert_memory_equal(found.body, expected.body, expected.length);
        assert_non_null(strstr(found.body, "\"datatype\":\"FP32\""));
        answer_free(&found);
        answer_free(&expected);
    }
}

static void wrong_f16_and_bf16_inputs_are_refused(void **state)
{
    (void)state;
    static const struct half beyond[] = {{0x7c00, 0}, {0x7e00, 0}};
    static const struct half beyond_bf16[] = {{0x3f80, 1}, {0x7f80, 0}};
    struct answer answer = infer_row("FP16", beyond, 1);
    expect_error(&answer, 400, "input \"x\"[0][0][0] is inf, a finite 32 bit float was expected");
    answer = infer_row("FP16", beyond + 1, 1);
    expect_error(&answer, 400, "is nan, a finite");
    answer = infer_row("BF16", beyond_bf16, 2);
    expect_error(&answer, 400, "input \"x\"[0][0][1] is inf");
    expect_refusal(two_models, "/v2/models/two/infer",
                   "{\"inputs\": [{\"name\": \"x\", \"shape\": [1, 1, 2], \"datatype\": \"FP16\", \"data\": [1, 2]}]}",
                   "has shape [1, 1, 2], [-1, -1, 32] was expected");
    char json[512] = "{\"inputs\": [{\"name\": \"x\", \"shape\": [1, 1, 32], \"datatype\": \"BF16\", \"data\": [0";
    for (int i = 1; i < 32; i++)
        strcat(json, ",0");
    expect_refusal(two_models, "/v2/models/two/infer", strcat(json, "]}]}"),
                   "input \"x\": data in JSON cannot be BF16: send binary data, or the datatype FP32");
    expect_refusal(two_models, "/v2/models/two/infer",
                   "{\"inputs\": [{\"name\": \"x\", \"shape\": [1, 1, 32], \"datatype\": \"FP64\", \"data\": [1]}]}",
                   "input \"x\" has datatype FP64, FP32, FP16 or BF16 was expected");
    struct body body = body_of("{\"inputs\": [{\"name\": \"x\", \"shape\": [1, 1, 32], \"datatype\": \"FP16\", "
                               "\"parameters\": {\"binary_data_size\": 128}}]}",
                               (const char[128]){0}, 128);
    answer = infer_bytes(two_models, "/v2/models/two/infer", &body, NULL);
    expect_error(&answer, 400, "input \"x\" has 128 bytes of data, which does not match FP16 with shape [1, 1, 32]");
}

static void header_lengths_must_be_numbers(void **state)
{
    (void)state;
    static const char *const wrong[] = {"-1", "1x", "0x10", "99999999999999999999999999", "1 2"};
    for (size_t i = 0; i < LENGTH(wrong); i++) {
        char header[80];

        snprintf(header, sizeof header, "Inference-Header-Content-Length: %s", wrong[i]);
        struct answer answer = daemon_call(
            the_daemon, &(struct call){.path = MODEL, .body = "{\"inputs\": [" IDS "]}", .headers = {header}});
        expect_error(&answer, 400, "Inference-Header-Content-Length");
    }
}

static void the_engine_refuses_lengths_and_missing_inputs(void **state)
{
    (void)state;
    char json[8192] = "{\"inputs\": [";
    add_tensor(json, "context", 3, 32);
    expect_refusal(two_models, "/v2/models/two/infer", strcat(json, "]}"), "input \"x\" is missing");
    strcpy(json, "{\"inputs\": [");
    add_tensor(json, "x", 25, 32);
    expect_refusal(two_models, "/v2/models/two/infer", strcat(json, "]}"), "25 rows");
    strcpy(json, "{\"inputs\": [");
    add_tensor(json, "x", 3, 32);
    strcat(json, ", {\"name\": \"context\", \"shape\": [2, 1, 32], \"datatype\": \"FP32\", \"data\": [0");
    for (int i = 1; i < 64; i++)
        strcat(json, ",0");
    expect_refusal(two_models, "/v2/models/two/infer", strcat(json, "]}]}"), "input \"context\" has a batch of 2");
}

static void unknown_models_and_paths_are_404(void **state)
{
    (void)state;
    static const char *const paths[] = {"/v2/models/none", "/v2/models/none/ready", "/v2/models/builtin/other",
                                        "/v2/nothing"};
    struct answer answer = infer(the_daemon, "/v2/models/none/infer", "{\"inputs\": [" IDS "]}");
    expect_error(&answer, 404, "there is no model \"none\" here, only \"builtin\"");
    for (size_t i = 0; i < LENGTH(paths); i++) {
        answer = daemon_get(the_daemon, paths[i]);
        expect_error(&answer, 404, "there is no");
    }
    answer = daemon_get(the_daemon, MODEL);
    expect_error(&answer, 405, "POST");
}

/* Each model has only version 1. */
static void other_versions_are_404_and_name_the_versions(void **state)
{
    (void)state;
    static const char *const paths[] = {"/v2/models/builtin/versions/2", "/v2/models/builtin/versions/2/ready",
                                        "/v2/models/builtin/versions/2/infer"};
    struct answer answer;
    for (size_t i = 0; i < LENGTH(paths); i++) {
        answer = i == 2 ? infer(the_daemon, paths[i], "{\"inputs\": [" IDS "]}") : daemon_get(the_daemon, paths[i]);
        expect_error(&answer, 404, "model \"builtin\" has no version \"2\", only \"1\"");
    }
    answer = daemon_get(the_daemon, "/v2/models/builtin/versions/");
    expect_error(&answer, 404, "there is no such path");
    answer = daemon_get(the_daemon, "/v2/models/none/versions/2");
    expect_error(&answer, 404, "there is no model \"none\"");
}

static void all_routes_but_health_need_the_key(void **state)
{
    (void)state;
    struct daemon *daemon = daemon_start(ARGUMENTS("--api-key", "secret"));
    struct answer answer = infer(daemon, MODEL, "{\"inputs\": [" IDS "]}");
    expect_error(&answer, 401, "API key");
    answer = daemon_get(daemon, "/v2/models/builtin");
    expect_error(&answer, 401, "API key");
    answer = daemon_get(daemon, "/v2/health/ready");
    assert_int_equal(answer.status, 200);
    answer_free(&answer);
    daemon_stop(daemon);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(health_is_json),
        cmocka_unit_test(metadata_names_the_parameters_of_forward),
        cmocka_unit_test(the_index_lists_models),
        cmocka_unit_test(requests_in_json_have_answers_in_json),
        cmocka_unit_test(requests_in_bytes_can_have_answers_in_bytes),
        cmocka_unit_test(a_raw_request_is_one_item),
        cmocka_unit_test(one_output_may_be_bytes_and_another_json),
        cmocka_unit_test(items_of_a_batch_have_their_results_in_order),
        cmocka_unit_test(gzip_and_deflate_work_for_requests_and_answers),
        cmocka_unit_test(wrong_content_encodings_are_refused),
        cmocka_unit_test(decompression_stops_at_the_payload_limit),
        cmocka_unit_test(optional_inputs_may_be_left_out),
        cmocka_unit_test(masks_accept_only_booleans),
        cmocka_unit_test(errors_name_the_tensor),
        cmocka_unit_test(wrong_numbers_of_bytes_are_refused),
        cmocka_unit_test(f16_and_bf16_are_converted_exactly),
        cmocka_unit_test(wrong_f16_and_bf16_inputs_are_refused),
        cmocka_unit_test(header_lengths_must_be_numbers),
        cmocka_unit_test(the_engine_refuses_lengths_and_missing_inputs),
        cmocka_unit_test(unknown_models_and_paths_are_404),
        cmocka_unit_test(other_versions_are_404_and_name_the_versions),
        cmocka_unit_test(all_routes_but_health_need_the_key),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
