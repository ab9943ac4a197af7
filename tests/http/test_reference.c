/* One running daemon serves every reference case. Each call goes through /v2 with binary tensors, and all stored
 * outputs are compared. Most calls also go through the native routes in JSON, first with each input as a key of the
 * request, and then with all inputs in one object. Outputs must be within 1e-5 of the library's. */
#include "tests/http/infer.h"
#include "tests/http/the_daemon.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MIN_CALLS 150     /* minimum number of calls of all cases, through /v2 */
#define MIN_LOGITS 100    /* minimum number of calls through /logits */
#define MIN_EMBED_ALL 100 /* minimum number of calls through /embed_all */
#define MIN_NAMED 100     /* minimum number of calls with all inputs in one object */
#define TOLERANCE 1e-5

static struct cases cases;
static int n_calls, n_logits, n_embed_all, n_named; /* numbers of calls that were compared */

static int start(void **state)
{
    (void)state;
    the_daemon = daemon_start(ARGUMENTS("--model", CASES_FOLDER, "--max-batch-tokens", "512"));
    return 0;
}

/* ---- /v2 ---- */

/* Compares the calls of a case. Returns their number. */
static int compare_calls(const char *name, const struct weights *calls)
{
    int index = 0;
    struct infer_request body;
    for (; (body = case_body(calls, index)).bytes; index++) {
        struct infer_answer answer = infer_send(the_daemon, name, &body);

        print_message("%s call %d: relative L2 error %.2g\n", name, index,
                      case_compare(calls, index, &answer, TOLERANCE));
        infer_answer_free(&answer);
        infer_body_free(&body);
    }
    assert_true(index > 0);
    return index;
}

/* ---- Native routes ---- */

/* Returns an element of a tensor as JSON: an id, a boolean or a float. */
static json_t *element_of(const struct weights_tensor *tensor, const float *floats, int64_t index)
{
    int64_t id = 0;
    if (tensor->dtype == WEIGHTS_I64)
        memcpy(&id, (const char *)tensor->data + index * 8, sizeof id);
    return tensor->dtype == WEIGHTS_I64    ? json_integer(id)
           : tensor->dtype == WEIGHTS_BOOL ? json_boolean(((const char *)tensor->data)[index])
                                           : json_real((double)floats[index]);
}

/* Returns the rows of one sequence as JSON: (n, columns) of a tensor (batch, n, columns), or (n) of a tensor (batch,
 * n). */
static json_t *rows_of(const struct weights_tensor *tensor, int64_t sequence)
{
    json_t *list = json_array();
    int64_t columns = tensor->rank == 3 ? tensor->shape[2] : 1;
    float *floats = calloc((size_t)tensor->elements, sizeof *floats);
    if (tensor->dtype == WEIGHTS_F32)
        weights_to_f32(tensor, floats);
    for (int64_t r = 0; r < tensor->shape[1]; r++) {
        int64_t first = (sequence * tensor->shape[1] + r) * columns;
        json_t *row = json_array();
        for (int64_t c = 0; c < columns && tensor->rank == 3; c++)
            json_array_append_new(row, element_of(tensor, floats, first + c));
        json_array_append_new(list, tensor->rank == 3 ? row : element_of(tensor, floats, first));
        if (tensor->rank != 3)
            json_decref(row);
    }
    free(floats);
    return list;
}

static json_t *items_of(const struct weights_tensor *tensor)
{
    json_t *items = json_array();
    for (int64_t b = 0; b < tensor->shape[0]; b++)
        json_array_append_new(items, rows_of(tensor, b));
    return items;
}

/* True if this is the name of the first parameter of forward() in the libraries. */
static bool is_first(const char *name)
{
    static const char *const names[] = {"x", "src", "tensor", "query"};
    for (size_t i = 0; i < LENGTH(names); i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return false;
}

/* Returns a request with all inputs of the call. If `named`, the inputs are members of one object. Otherwise the first
 * input is `inputs` or `embeddings`, and the others are further keys of the request. Returns NULL if the native routes
 * cannot express this call. */
static json_t *request_for(const char *name, const struct weights *calls, int index, bool named)
{
    struct infer_tensor tensors[8];
    size_t count = case_tensors(calls, index, "in", tensors, LENGTH(tensors));
    json_t *request = json_pack("{s:s}", "model", name), *inputs = named ? json_object() : json_incref(request);
    /* These routes have no key for images. In linear_multihead, an item would be a whole call. */
    bool expressible = !strstr(name, "_image") && !strstr(name, "linear_multihead");
    for (size_t i = 0; i < count; i++) {
        char path[64];
        snprintf(path, sizeof path, "%d/in/%s", index, tensors[i].name);
        const struct weights_tensor *tensor = weights_find(calls, path);
        const char *key = named || !is_first(tensors[i].name) ? tensors[i].name
                          : tensor->dtype == WEIGHTS_I64      ? "inputs"
                                                              : "embeddings";
        bool own_name = !named && json_object_get(request, "embeddings");
        expressible = expressible && tensor->rank <= 3 && !(own_name && strcmp(key, "embeddings") == 0);
        json_object_set_new(inputs, key, expressible ? items_of(tensor) : json_null());
    }
    if (named)
        json_object_set(request, "inputs", inputs);
    json_decref(inputs);
    if (expressible)
        return request;
    json_decref(request);
    return NULL;
}

/* Adds the squares of the differences between the rows to *difference, and the squares of the expected numbers to
 * *norm. */
static void add_squares(const json_t *row, const float *expected, int64_t columns, double *difference, double *norm)
{
    assert_int_equal(json_array_size(row), columns);
    for (int64_t c = 0; c < columns; c++) {
        *difference += pow(json_number_at(row, (size_t)c) - (double)expected[c], 2);
        *norm += pow((double)expected[c], 2);
    }
}

static double relative_l2(const json_t *answer, const struct weights_tensor *output, bool logits)
{
    int64_t length = output->shape[1], columns = output->elements / (output->shape[0] * length);
    double difference = 0, norm = 0;
    float *expected = calloc((size_t)output->elements, sizeof *expected);
    weights_to_f32(output, expected);
    assert_int_equal(json_array_size(answer), output->shape[0]);
    for (int64_t b = 0; b < output->shape[0]; b++) {
        const json_t *item = json_array_get(answer, (size_t)b);
        const json_t *rows = logits ? json_object_get(item, "logits") : item;
        assert_int_equal(json_array_size(rows), length);
        for (int64_t r = 0; r < length; r++)
            add_squares(json_array_get(rows, (size_t)r), expected + (b * length + r) * columns, columns, &difference,
                        &norm);
    }
    free(expected);
    return sqrt(difference / norm);
}

/* Returns the output of the class. */
static const struct weights_tensor *output_of(const struct weights *calls, int index)
{
    static const char *const names[] = {"output", "attention_output"};
    const struct weights_tensor *output = NULL;
    for (size_t i = 0; i < LENGTH(names) && !output; i++) {
        char path[64];
        snprintf(path, sizeof path, "%d/out/%s", index, names[i]);
        output = weights_find(calls, path);
    }
    return output;
}

/* Returns targets for all positions of a call. A target is an id or null. */
static json_t *targets_for(const struct weights_tensor *output)
{
    json_t *targets = json_array();
    for (int64_t b = 0; b < output->shape[0]; b++) {
        json_t *list = json_array();
        for (int64_t r = 0; r < output->shape[1]; r++)
            json_array_append_new(list, (b + r) % 5 == 4 ? json_null() : json_integer((7 * r + b) % output->shape[2]));
        json_array_append_new(targets, list);
    }
    return targets;
}

/* Returns the logarithm of the softmax of a row at `column`, computed in double precision. */
static double log_softmax(const float *row, int64_t columns, int64_t column)
{
    double most = -INFINITY, sum = 0;
    for (int64_t c = 0; c < columns; c++)
        most = fmax(most, (double)row[c]);
    for (int64_t c = 0; c < columns; c++)
        sum += exp((double)row[c] - most);
    return (double)row[column] - most - log(sum);
}

/* Compares the log-probabilities of /logits with those computed from the library's output. */
static void compare_targets(json_t *request, const struct weights_tensor *output)
{
    json_t *targets = targets_for(output);
    int64_t columns = output->shape[2];
    double worst = 0;
    float *expected = calloc((size_t)output->elements, sizeof *expected);
    weights_to_f32(output, expected);
    json_object_set(request, "targets", targets);
    char *body = json_dumps(request, JSON_COMPACT | JSON_REAL_PRECISION(9));
    json_t *answer = daemon_post_json(the_daemon, "/logits", body);
    for (int64_t row = 0; row < output->shape[0] * output->shape[1]; row++) {
        size_t b = (size_t)(row / output->shape[1]), r = (size_t)(row % output->shape[1]);
        const json_t *target = json_array_get(json_array_get(targets, b), r);
        const json_t *found = json_array_get(json_object_get(json_array_get(answer, b), "logprobs"), r);
        assert_true(json_is_null(found) == json_is_null(target));
        if (!json_is_null(target))
            worst = fmax(worst, fabs(json_number_value(found) -
                                     log_softmax(expected + row * columns, columns, json_integer_value(target))));
    }
    print_message("    log-probabilities: largest error %.2g\n", worst);
    assert_true(worst <= TOLERANCE);
    json_object_del(request, "targets");
    json_decref(answer);
    json_decref(targets);
    free(expected);
    free(body);
}

/* Sends a request to /logits. If the model has no logits, sends it to /embed_all. */
static struct answer send_native(const json_t *request, bool *logits)
{
    char *body = json_dumps(request, JSON_COMPACT | JSON_REAL_PRECISION(9));
    struct answer answer = daemon_post(the_daemon, "/logits", body);
    *logits = answer.status == 200;
    if (!*logits) {
        expect_failure_answer(&answer, 422, "Validation", "does not return logits");
        answer = daemon_post(the_daemon, "/embed_all", body);
    }
    if (answer.status != 200)
        fail_msg("%s: %ld %s", json_string_value(json_object_get(request, "model")), answer.status, answer.body);
    free(body);
    return answer;
}

/* Compares the answer of the route with the library's output. Returns true if the call was compared. */
static bool compare_native(const char *name, const struct weights *calls, int index, bool named)
{
    json_t *request = request_for(name, calls, index, named);
    const struct weights_tensor *output = output_of(calls, index);
    bool logits;
    if (!request)
        return false;
    struct answer answer = send_native(request, &logits);
    double distance = relative_l2(answer.json, output, logits);
    print_message("%s call %d, native%s: relative L2 error %.2g\n", name, index, named ? ", named" : "", distance);
    assert_true(distance <= TOLERANCE);
    if (logits)
        compare_targets(request, output);
    n_logits += logits;
    n_embed_all += !logits;
    answer_free(&answer);
    json_decref(request);
    return true;
}

static void compare_case(void **state)
{
    const char *name = *state;
    struct weights *calls = case_calls(CASES_FOLDER, name);
    int count = compare_calls(name, calls);
    n_calls += count;
    for (int index = 0; index < count; index++)
        for (int named = 0; named < 2; named++)
            n_named += compare_native(name, calls, index, named) && named;
    weights_close(calls);
}

static void enough_calls_were_compared(void **state)
{
    (void)state;
    print_message("%d calls through /v2, %d through /logits, %d through /embed_all, %d of them with named inputs\n",
                  n_calls, n_logits, n_embed_all, n_named);
    assert_true(n_calls >= MIN_CALLS && n_logits >= MIN_LOGITS && n_embed_all >= MIN_EMBED_ALL && n_named >= MIN_NAMED);
}

/* If a device fails, the CPU computes the batch, with the same results. Only the metrics show a failed device. */
static void the_cpu_ran_no_batch_in_place_of_a_device(void **state)
{
    (void)state;
    struct answer answer = daemon_get(the_daemon, "/metrics");
    assert_int_equal(answer.status, 200);
    assert_non_null(strstr(answer.body, "\nlinformerd_standby_batches_total 0\n"));
    answer_free(&answer);
}

int main(void)
{
    cases = cases_find(CASES_FOLDER, MIN_CASES);
    struct CMUnitTest *tests = calloc(cases.count + 2, sizeof *tests);

    for (size_t i = 0; i < cases.count; i++)
        tests[i] = (struct CMUnitTest){cases.names[i], compare_case, NULL, NULL, cases.names[i]};
    tests[cases.count] = (struct CMUnitTest)cmocka_unit_test(enough_calls_were_compared);
    tests[cases.count + 1] = (struct CMUnitTest)cmocka_unit_test(the_cpu_ran_no_batch_in_place_of_a_device);
    int failed = _cmocka_run_group_tests("reference cases over HTTP", tests, cases.count + 2, start, the_daemon_stop);
    free(tests);
    cases_free(&cases);
    return failed;
}
