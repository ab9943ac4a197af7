/* The modules of tests/modules/reference in one running daemon. Requests to /v2 name every input and output. Each
 * stored call is sent as a whole. Its items are then sent one by one, and from several clients at once. Outputs must be
 * within 1e-5 of PyTorch's. If the daemon is batch invariant, an item must have the same bits alone and in a batch. */
#include "tests/http/infer.h"
#include "tests/http/the_daemon.h"

#include <curl/curl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FOLDER "tests/modules/reference"
#define MIN_MODULES 16
#define TOLERANCE 1e-5
#define COMPANY_TOLERANCE 1e-6 /* allowed difference from the item alone, if batches are not invariant */
#define MAX_TENSORS 8          /* maximum number of inputs or outputs of a module */
#define CLIENTS 12
#define MAX_ROUNDS 50 /* maximum number of rounds until requests share a batch */

static struct cases modules;

static int start(void **state)
{
    (void)state;
    the_daemon = daemon_start(ARGUMENTS("--model", FOLDER, "--max-batch-tokens", "65536", "--max-batch-ms", "0"));
    return 0;
}

/* ---- Names ---- */

static json_t *graph_of(const char *module)
{
    char path[512];
    snprintf(path, sizeof path, FOLDER "/%s/config.json", module);
    json_t *config = json_load_file(path, 0, NULL), *graph = json_object_get(config, "graph");
    assert_non_null(graph);
    json_incref(graph);
    json_decref(config);
    return graph;
}

static const char *string_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    assert_non_null(text);
    return text;
}

/* The metadata for clients must have the names and types of the graph's inputs, in the same order. */
static void compare_inputs(const json_t *graph, const json_t *metadata)
{
    static const char *const datatypes[][2] = {
        {"int64", "INT64"}, {"int32", "INT64"}, {"float32", "FP32"}, {"bool", "BOOL"}};
    const json_t *inputs = json_object_get(graph, "inputs"), *told = json_object_get(metadata, "inputs");
    assert_int_equal(json_array_size(told), json_array_size(inputs));
    for (size_t i = 0; i < json_array_size(inputs); i++) {
        const json_t *input = json_array_get(inputs, i), *found = json_array_get(told, i);
        assert_string_equal(string_of(found, "name"), string_of(input, "name"));
        assert_int_equal(json_array_size(json_object_get(found, "shape")),
                         json_array_size(json_object_get(input, "shape")));
        for (size_t d = 0; d < LENGTH(datatypes); d++)
            if (strcmp(string_of(input, "dtype"), datatypes[d][0]) == 0)
                assert_string_equal(string_of(found, "datatype"), datatypes[d][1]);
    }
}

static void metadata_has_the_names_of_the_graph(void **state)
{
    (void)state;
    char path[256];
    for (size_t m = 0; m < modules.count; m++) {
        snprintf(path, sizeof path, "/v2/models/%s", modules.names[m]);
        struct answer answer = daemon_get(the_daemon, path);
        json_t *graph = graph_of(modules.names[m]);
        const json_t *told = json_object_get(answer.json, "outputs");
        const char *name;
        json_t *node;
        size_t index = 0;
        assert_int_equal(answer.status, 200);
        compare_inputs(graph, answer.json);
        json_object_foreach (json_object_get(graph, "outputs"), name, node)
            assert_string_equal(string_of(json_array_get(told, index++), "name"), name);
        assert_true(index > 0);
        json_decref(graph);
        answer_free(&answer);
    }
}

/* ---- Whole calls ---- */

/* The stored calls must have each output of the graph. */
static void expect_all_outputs(const char *module, const struct weights *calls)
{
    struct infer_tensor outputs[MAX_TENSORS];
    json_t *graph = graph_of(module);
    assert_int_equal(case_tensors(calls, 0, "out", outputs, MAX_TENSORS),
                     json_object_size(json_object_get(graph, "outputs")));
    json_decref(graph);
}

static void a_module_agrees_with_pytorch(void **state)
{
    const char *module = *state;
    struct weights *calls = case_calls(FOLDER, module);
    struct infer_request body;
    int index = 0;
    expect_all_outputs(module, calls);
    for (; (body = case_body(calls, index)).bytes; index++) {
        struct infer_answer answer = infer_send(the_daemon, module, &body);
        print_message("%s call %d: relative L2 error %.2g\n", module, index,
                      case_compare(calls, index, &answer, TOLERANCE));
        infer_answer_free(&answer);
        infer_body_free(&body);
    }
    assert_true(index > 1);
    weights_close(calls);
}

/* ---- Items alone, and from several clients at once ---- */

/* One item of a call: its request, the answer alone, the answer among other requests, and the stored outputs. */
struct item {
    const char *module;
    struct infer_request body;
    struct infer_answer alone;
    struct answer together;
    struct infer_tensor expected[MAX_TENSORS];
    size_t n_outputs;
};

struct items {
    struct item *list;
    int count;
    struct weights **calls; /* calls of each module, which own the expected tensors */
};

/* Reduces tensors of shape (batch, …) to the part of one item. */
static void keep_item(struct infer_tensor *tensors, size_t count, int64_t batch, int64_t item)
{
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(tensors[i].shape[0], batch);
        tensors[i].shape[0] = 1;
        tensors[i].bytes /= (size_t)batch;
        tensors[i].data = (const char *)tensors[i].data + (size_t)item * tensors[i].bytes;
    }
}

static struct item make_item(const char *module, const struct weights *calls, int index, int64_t batch, int64_t number)
{
    struct item item = {.module = module};
    struct infer_tensor inputs[MAX_TENSORS];
    const char *names[MAX_TENSORS];
    size_t n_inputs = case_tensors(calls, index, "in", inputs, MAX_TENSORS);
    item.n_outputs = case_tensors(calls, index, "out", item.expected, MAX_TENSORS);
    keep_item(inputs, n_inputs, batch, number);
    keep_item(item.expected, item.n_outputs, batch, number);
    for (size_t i = 0; i < item.n_outputs; i++)
        names[i] = item.expected[i].name;
    item.body = infer_body_of(inputs, n_inputs, names, item.n_outputs);
    return item;
}

static struct items make_items(void)
{
    struct items items = {.calls = calloc(modules.count, sizeof *items.calls)};
    struct infer_tensor inputs[MAX_TENSORS];
    for (size_t m = 0; m < modules.count; m++) {
        items.calls[m] = case_calls(FOLDER, modules.names[m]);
        for (int index = 0; case_tensors(items.calls[m], index, "in", inputs, MAX_TENSORS) > 0; index++)
            for (int64_t b = 0; b < inputs[0].shape[0]; b++) {
                items.list = realloc(items.list, (size_t)(items.count + 1) * sizeof *items.list);
                assert_non_null(items.list);
                items.list[items.count++] = make_item(modules.names[m], items.calls[m], index, inputs[0].shape[0], b);
            }
    }
    return items;
}

static void free_items(struct items *items)
{
    for (int i = 0; i < items->count; i++) {
        infer_body_free(&items->list[i].body);
        infer_answer_free(&items->list[i].alone);
    }
    for (size_t m = 0; m < modules.count; m++)
        weights_close(items->calls[m]);
    free(items->calls);
    free(items->list);
}

static void compare_alone(const struct item *item)
{
    assert_int_equal(infer_count(&item->alone), item->n_outputs);
    for (size_t i = 0; i < item->n_outputs; i++) {
        struct infer_tensor found = infer_output(&item->alone, i);
        double distance = infer_relative_l2(&found, &item->expected[i]);
        if (strcmp(found.name, item->expected[i].name) != 0 || !(distance <= TOLERANCE))
            fail_msg("%s, %s of an item alone: relative L2 error %.2g", item->module, found.name, distance);
    }
}

static void compare_together(const struct item *item, bool same_bits)
{
    struct infer_answer together = infer_read(item->together);
    assert_int_equal(infer_count(&together), item->n_outputs);
    for (size_t i = 0; i < item->n_outputs; i++) {
        struct infer_tensor found = infer_output(&together, i), alone = infer_output(&item->alone, i);
        assert_int_equal(found.bytes, alone.bytes);
        if (same_bits ? memcmp(found.data, alone.data, alone.bytes) != 0
                      : !(infer_relative_l2(&found, &alone) <= COMPANY_TOLERANCE))
            fail_msg("%s, %s is not what it is alone", item->module, found.name);
    }
    infer_answer_free(&together);
}

/* The items that all clients share. Each client takes the next item until none is left. */
struct crowd {
    struct items *items;
    atomic_int next;
};

static void *be_client(void *context)
{
    struct crowd *crowd = context;
    CURL *curl = curl_easy_init();
    int index;
    while ((index = atomic_fetch_add(&crowd->next, 1)) < crowd->items->count) {
        struct item *item = &crowd->items->list[index];
        item->together = infer_call(the_daemon, item->module, &item->body, curl);
    }
    curl_easy_cleanup(curl);
    return NULL;
}

/* Returns the number of batches that all modules have run. */
static int64_t count_batches(void)
{
    static const char name[] = "\nlinformerd_batch_items_count{model=";
    struct answer answer = daemon_get(the_daemon, "/metrics");
    int64_t count = 0;
    for (const char *found = strstr(answer.body, name); found; found = strstr(found + 1, name))
        count += atoll(strstr(found, "} ") + 2);
    answer_free(&answer);
    return count;
}

/* Returns the number of requests minus the number of batches. It is greater than 0 if requests shared a batch. */
static int64_t ask_together(struct items *items, bool same_bits)
{
    struct crowd crowd = {.items = items};
    pthread_t clients[CLIENTS];
    int64_t batches = count_batches();
    for (int i = 0; i < CLIENTS; i++)
        assert_int_equal(pthread_create(&clients[i], NULL, be_client, &crowd), 0);
    for (int i = 0; i < CLIENTS; i++)
        pthread_join(clients[i], NULL);
    batches = count_batches() - batches;
    for (int i = 0; i < items->count; i++)
        compare_together(&items->list[i], same_bits);
    print_message("%d requests in %lld batches\n", items->count, (long long)batches);
    return items->count - batches;
}

static void items_do_not_depend_on_batch_mates(void **state)
{
    (void)state;
    struct answer info = daemon_get(the_daemon, "/info");
    bool same_bits = json_is_true(json_object_get(info.json, "batch_invariant"));
    struct items items = make_items();
    int64_t met = 0;
    for (int i = 0; i < items.count; i++) {
        items.list[i].alone = infer_send(the_daemon, items.list[i].module, &items.list[i].body);
        compare_alone(&items.list[i]);
    }
    for (int round = 0; met < items.count / 8 && round < MAX_ROUNDS; round++)
        met += ask_together(&items, same_bits);
    assert_true(met >= items.count / 8);
    free_items(&items);
    answer_free(&info);
}

int main(void)
{
    modules = cases_find(FOLDER, MIN_MODULES);
    struct CMUnitTest *tests = calloc(modules.count + 2, sizeof *tests);
    for (size_t i = 0; i < modules.count; i++)
        tests[i] = (struct CMUnitTest){modules.names[i], a_module_agrees_with_pytorch, NULL, NULL, modules.names[i]};
    tests[modules.count] = (struct CMUnitTest)cmocka_unit_test(metadata_has_the_names_of_the_graph);
    tests[modules.count + 1] = (struct CMUnitTest)cmocka_unit_test(items_do_not_depend_on_batch_mates);
    int failed = _cmocka_run_group_tests("modules over HTTP", tests, modules.count + 2, start, the_daemon_stop);
    free(tests);
    cases_free(&modules);
    return failed;
}
