/* Triton's configuration and statistics of models. The expected form comes from Triton's documentation: the model
 * configuration, and the statistics extension. */
#include "tests/http/the_daemon.h"

#include <string.h>

static int start(void **state)
{
    (void)state;
    the_daemon = daemon_start(ARGUMENTS("--model", "tests/reference/linformer_lm", "--model",
                                        "tests/reference/linear_multihead_attention_attn_mask"));
    return 0;
}

/* ---- Configuration ---- */

static void shapes_in_the_configuration_leave_out_the_batch(void **state)
{
    (void)state;
    json_t *metadata = daemon_get_json(the_daemon, "/v2/models/linformer_lm"),
           *config = daemon_get_json(the_daemon, "/v2/models/linformer_lm/config");
    json_t *versioned = daemon_get_json(the_daemon, "/v2/models/linformer_lm/versions/1/config");
    assert_true(json_equal(config, versioned));
    assert_true(json_integer_value(json_object_get(config, "max_batch_size")) > 0);
    static const struct {
        const char *described, *configured;
    } lists[] = {{"inputs", "input"}, {"outputs", "output"}};
    for (size_t i = 0; i < LENGTH(lists); i++) {
        json_t *tensors = json_object_get(metadata, lists[i].described), *tensor;
        size_t index;
        assert_int_equal(json_array_size(json_object_get(config, lists[i].configured)), json_array_size(tensors));
        json_array_foreach (tensors, index, tensor) {
            json_t *found = json_array_get(json_object_get(config, lists[i].configured), index);
            char type[32] = "TYPE_";
            strcat(type, json_string_value(json_object_get(tensor, "datatype")));
            assert_string_equal(json_string_value(json_object_get(found, "data_type")), type);
            assert_true(json_equal(json_object_get(found, "name"), json_object_get(tensor, "name")));
            json_array_remove(json_object_get(tensor, "shape"), 0);
            assert_true(json_equal(json_object_get(found, "dims"), json_object_get(tensor, "shape")));
        }
    }
    json_decref(metadata);
    json_decref(config);
    json_decref(versioned);
}

/* In the class of this model, the first dimension is not the batch. */
static void a_model_without_a_batch_has_whole_shapes(void **state)
{
    (void)state;
    json_t *metadata = daemon_get_json(the_daemon, "/v2/models/linear_multihead_attention_attn_mask");
    json_t *config = daemon_get_json(the_daemon, "/v2/models/linear_multihead_attention_attn_mask/config");
    assert_int_equal(json_integer_value(json_object_get(config, "max_batch_size")), 0);
    const json_t *shape = json_object_get(json_array_get(json_object_get(metadata, "inputs"), 0), "shape");
    const json_t *dims = json_object_get(json_array_get(json_object_get(config, "input"), 0), "dims");
    assert_true(json_equal(shape, dims));
    json_decref(metadata);
    json_decref(config);
}

/* ---- Statistics ---- */

static int64_t count_at(const json_t *statistics, const char *name, const char *member)
{
    const json_t *entry = json_object_get(json_object_get(statistics, "inference_stats"), name);
    assert_true(json_is_integer(json_object_get(entry, member)));
    return json_integer_value(json_object_get(entry, member));
}

static const json_t *first(const json_t *answer)
{
    return json_array_get(json_object_get(answer, "model_stats"), 0);
}

/* A request is counted after its answer is sent. So the first statistics may not include it yet. */
static json_t *statistics_after(int64_t requests)
{
    for (;;) {
        json_t *answer = daemon_get_json(the_daemon, "/v2/models/linformer_lm/stats");
        if (count_at(first(answer), "success", "count") + count_at(first(answer), "fail", "count") >= requests)
            return answer;
        json_decref(answer);
    }
}

static void requests_and_batches_are_counted(void **state)
{
    (void)state;
    json_t *before = statistics_after(0);
    assert_int_equal(count_at(first(before), "success", "count"), 0);
    assert_int_equal(json_integer_value(json_object_get(first(before), "last_inference")), 0);
    json_decref(before);
    for (int i = 0; i < 3; i++)
        json_decref(daemon_post_json(the_daemon, "/embed", "{\"inputs\": [[1, 2], [3], [4]]}"));
    expect_failure(the_daemon, "/embed", "{\"inputs\": [[-1]]}", 422, "Validation", "ids");
    json_decref(daemon_get_json(the_daemon, "/info"));

    json_t *answer = statistics_after(4);
    const json_t *found = first(answer);
    assert_string_equal(json_string_value(json_object_get(found, "version")), "1");
    assert_int_equal(count_at(found, "success", "count"), 3);
    assert_int_equal(count_at(found, "fail", "count"), 1);
    assert_int_equal(json_integer_value(json_object_get(found, "inference_count")), 9);
    assert_true(json_integer_value(json_object_get(found, "last_inference")) > INT64_C(1500000000000));
    static const char *const parts[] = {"queue", "compute_input", "compute_infer", "compute_output"};
    int64_t sum = 0;
    for (size_t i = 0; i < LENGTH(parts); i++) {
        assert_int_equal(count_at(found, parts[i], "count"), 3);
        sum += count_at(found, parts[i], "ns");
    }
    assert_true(count_at(found, "compute_infer", "ns") > 0);
    assert_true(count_at(found, "compute_input", "ns") > 0);
    assert_true(sum > 0 && count_at(found, "success", "ns") >= count_at(found, "compute_infer", "ns"));

    /* `items` counts the items of all batches, `executions` counts the batches. */
    const json_t *batches = json_object_get(found, "batch_stats"), *batch;
    int64_t items = 0, executions = 0;
    size_t index;
    json_array_foreach (batches, index, batch) {
        int64_t count = json_integer_value(json_object_get(json_object_get(batch, "compute_infer"), "count"));
        items += count * json_integer_value(json_object_get(batch, "batch_size"));
        executions += count;
    }
    assert_int_equal(items, 9);
    assert_int_equal(executions, json_integer_value(json_object_get(found, "execution_count")));
    json_decref(answer);
}

static void each_path_has_statistics(void **state)
{
    (void)state;
    json_t *all = daemon_get_json(the_daemon, "/v2/models/stats"),
           *one = daemon_get_json(the_daemon, "/v2/models/linformer_lm/versions/1/stats");
    assert_int_equal(json_array_size(json_object_get(all, "model_stats")), 2);
    assert_true(json_equal(first(all), first(one)));
    json_decref(all);
    json_decref(one);
    static const char *const unknown[] = {"/v2/models/none/stats", "/v2/models/linformer_lm/versions/2/stats",
                                          "/v2/models/none/config", "/v2/models/linformer_lm/versions/2/config"};
    for (size_t i = 0; i < LENGTH(unknown); i++) {
        struct answer answer = daemon_get(the_daemon, unknown[i]);
        assert_int_equal(answer.status, 404);
        answer_free(&answer);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shapes_in_the_configuration_leave_out_the_batch),
        cmocka_unit_test(a_model_without_a_batch_has_whole_shapes),
        cmocka_unit_test(requests_and_batches_are_counted),
        cmocka_unit_test(each_path_has_statistics),
    };
    return cmocka_run_group_tests(tests, start, the_daemon_stop);
}
