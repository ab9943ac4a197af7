/* Several clients send items of random lengths, with random masks, to several models at once. The daemon combines these
 * items into batches. Each item's results are compared with those of the same item sent alone. If the daemon is batch
 * invariant, the bits must be equal. The environment variable SEED chooses the requests. */
#include "tests/http/infer.h"

#include <curl/curl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_INPUTS 4
#define MAX_OUTPUTS 2
#define MAX_ITEMS 3 /* maximum number of items of a request */
#define MAX_REQUESTS 160
#define CLIENTS 16
#define MAX_ROUNDS 50 /* maximum number of rounds until requests share a batch */
/* Allowed relative L2 differences if batches are not invariant. A weight of attention is an exponential of its score,
 * so the rounding error of a large score makes a larger relative error. The largest one in 3717 items was 1.7e-6. */
#define TOLERANCE 1e-6
#define ATTENTION_TOLERANCE 3e-6

/* ---- Random numbers: xorshift64 ---- */

static uint64_t seed = 20261120, random_state;

static int64_t random_size(int64_t from, int64_t to)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return from + (int64_t)(random_state % (uint64_t)(to - from + 1));
}

/* ---- Models, and requests to them ---- */

static int n_requests = MAX_REQUESTS;

enum kind { NONE, IDS, ROWS, MASK, SCORES }; /* SCORES: a mask of attention scores */

/* Shapes of inputs. B is the number of items of a request. n is a length from `least` to `most`. If `like` is not 0, n
 * is the length of the input with the index `like` - 1. IDS and MASK have the shape (B, n). ROWS and SCORES have the
 * shape (B, n, columns). In a model with `call`, ROWS have the shape (n, B, columns), and SCORES have (n, columns). */
struct input {
    const char *name;
    enum kind kind;
    int64_t columns; /* IDS: number of different ids */
    int64_t least, most;
    int like;
    bool optional;
};

#define FREE(name_, kind_, columns_, least_, most_)                                       \
    {                                                                                     \
        .name = name_, .kind = kind_, .columns = columns_, .least = least_, .most = most_ \
    }
#define OPTIONAL(name_, kind_, columns_, least_, most_)                                                     \
    {                                                                                                       \
        .name = name_, .kind = kind_, .columns = columns_, .least = least_, .most = most_, .optional = true \
    }
#define LIKE(name_, kind_, columns_, like_)                                                \
    {                                                                                      \
        .name = name_, .kind = kind_, .columns = columns_, .like = like_, .optional = true \
    }

static const struct model {
    const char *name;
    const char *outputs[MAX_OUTPUTS];
    struct input inputs[MAX_INPUTS];
    bool call; /* all sequences of a request are one item, so their results are compared as a whole */
} models[] = {
    {.name = "builtin", .outputs = {"output", "attention.3"}, .inputs = {FREE("x", IDS, 259, 1, 400)}},
    {.name = "linformer_lm", .outputs = {"output", "attention.1"}, .inputs = {FREE("x", IDS, 97, 1, 24)}},
    {.name = "linformer_attention",
     .outputs = {"output"},
     .inputs = {FREE("x", ROWS, 32, 1, 24), OPTIONAL("context", ROWS, 32, 1, 24)}},
    {.name = "linear_attention_lm",
     .outputs = {"output"},
     .inputs = {FREE("x", IDS, 61, 1, 64), LIKE("input_mask", MASK, 0, 1)}},
    {.name = "linear_attention_lm_causal_local_shift",
     .outputs = {"output"},
     .inputs = {FREE("x", IDS, 61, 1, 64), LIKE("input_mask", MASK, 0, 1)}},
    {.name = "linear_attention_context_linformer",
     .outputs = {"output", "attention.0"},
     .inputs = {FREE("x", IDS, 61, 1, 64), FREE("context", ROWS, 32, 1, 64)}},
    {.name = "linear_attention_encoder_decoder",
     .outputs = {"output"},
     .inputs = {FREE("src", IDS, 61, 1, 64), FREE("tgt", IDS, 61, 1, 64), LIKE("src_mask", MASK, 0, 1),
                LIKE("tgt_mask", MASK, 0, 2)}},
    {.name = "linformer_pytorch_share_none",
     .outputs = {"output", "attention.0"},
     .inputs = {FREE("tensor", ROWS, 24, 1, 32), LIKE("input_mask", MASK, 0, 1), LIKE("embeddings_mask", MASK, 0, 1)}},
    {.name = "keras_attention_mask",
     .outputs = {"attention_output", "attention_scores"},
     .inputs = {FREE("query", ROWS, 20, 1, 30), FREE("value", ROWS, 20, 14, 14), LIKE("attention_mask", SCORES, 8, 1)}},
    {.name = "linear_multihead_attention_attn_mask",
     .outputs = {"attn_output", "attn_output_weights"},
     .inputs = {FREE("query", ROWS, 24, 1, 12), FREE("key", ROWS, 24, 8, 8), FREE("value", ROWS, 24, 8, 8),
                LIKE("attn_mask", SCORES, 8, 1)},
     .call = true},
};

struct request {
    const struct model *model;
    struct infer_tensor inputs[MAX_INPUTS];
    size_t n_inputs;
    int64_t n_items; /* number of items that may be in different batches */
    struct infer_request body;
    struct infer_answer alone[MAX_ITEMS]; /* results of each item while the daemon runs nothing else */
    struct answer answer;                 /* answer while the daemon runs other requests */
};

static size_t count_outputs(const struct model *model)
{
    return model->outputs[1] ? 2 : 1;
}

static void fill(const struct input *input, char *data, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        int64_t id = random_size(0, input->kind == IDS ? input->columns - 1 : 0);
        float value = (float)random_size(-1000, 1000) / 500;

        if (input->kind == IDS)
            memcpy(data + i * 8, &id, sizeof id);
        else if (input->kind == ROWS)
            memcpy(data + i * 4, &value, sizeof value);
        else /* Zeros in column 0 of attn_mask leave a score visible. A row without a visible score would be NaN. */
            data[i] = input->kind == SCORES && i % input->columns == 0 ? 0 : (char)random_size(0, 1);
    }
}

static struct infer_tensor random_tensor(const struct model *model, const struct input *input, int64_t n, int64_t batch)
{
    static const char *const datatypes[] = {[IDS] = "INT64", [ROWS] = "FP32", [MASK] = "BOOL", [SCORES] = "BOOL"};
    static const size_t sizes[] = {[IDS] = 8, [ROWS] = 4, [MASK] = 1, [SCORES] = 1};
    struct infer_tensor tensor = {.name = input->name, .datatype = datatypes[input->kind]};
    if (model->call) {
        tensor.shape[tensor.rank++] = n;
        if (input->kind == ROWS)
            tensor.shape[tensor.rank++] = batch;
    } else {
        tensor.shape[tensor.rank++] = batch;
        tensor.shape[tensor.rank++] = n;
    }
    if (input->kind == ROWS || input->kind == SCORES)
        tensor.shape[tensor.rank++] = input->columns;
    tensor.bytes = (size_t)infer_elements(&tensor) * sizes[input->kind];
    char *data = malloc(tensor.bytes);
    assert_non_null(data);
    fill(input, data, infer_elements(&tensor));
    tensor.data = data;
    return tensor;
}

static void make_request(struct request *request)
{
    const struct model *model = &models[random_size(0, LENGTH(models) - 1)];
    int64_t batch = random_size(1, MAX_ITEMS), lengths[MAX_INPUTS];
    *request = (struct request){.model = model, .n_items = model->call ? 1 : batch};
    for (int i = 0; i < MAX_INPUTS && model->inputs[i].kind != NONE; i++) {
        const struct input *input = &model->inputs[i];

        lengths[i] = input->like ? lengths[input->like - 1] : random_size(input->least, input->most);
        if (!input->optional || random_size(0, 3) > 0)
            request->inputs[request->n_inputs++] = random_tensor(model, input, lengths[i], batch);
    }
    request->body = infer_body_of(request->inputs, request->n_inputs, model->outputs, count_outputs(model));
}

static void free_request(struct request *request)
{
    for (size_t i = 0; i < request->n_inputs; i++)
        free((void *)request->inputs[i].data);
    for (int64_t b = 0; b < request->n_items; b++)
        infer_answer_free(&request->alone[b]);
    infer_body_free(&request->body);
}

/* ---- One at a time ---- */

static void ask_alone(const struct daemon *daemon, struct request *request)
{
    const struct model *model = request->model;
    for (int64_t b = 0; b < request->n_items; b++) {
        struct infer_tensor inputs[MAX_INPUTS];

        for (size_t i = 0; i < request->n_inputs; i++) {
            inputs[i] = request->inputs[i];
            inputs[i].bytes /= (size_t)request->n_items;
            inputs[i].data = (const char *)inputs[i].data + (size_t)b * inputs[i].bytes;
            if (!model->call)
                inputs[i].shape[0] = 1;
        }
        struct infer_request body = infer_body_of(inputs, request->n_inputs, model->outputs, count_outputs(model));
        request->alone[b] = infer_send(daemon, model->name, &body);
        infer_body_free(&body);
    }
}

/* ---- All at once ---- */

/* The requests that all clients share. Each client takes the next request until none is left. */
struct crowd {
    const struct daemon *daemon;
    struct request *requests;
    atomic_int next;
};

static void *be_client(void *context)
{
    struct crowd *crowd = context;
    CURL *curl = curl_easy_init();
    int index;
    while ((index = atomic_fetch_add(&crowd->next, 1)) < n_requests) {
        struct request *request = &crowd->requests[index];

        request->answer = infer_call(crowd->daemon, request->model->name, &request->body, curl);
    }
    curl_easy_cleanup(curl);
    return NULL;
}

static void ask_all(const struct daemon *daemon, struct request *requests)
{
    struct crowd crowd = {.daemon = daemon, .requests = requests};
    pthread_t clients[CLIENTS];
    for (int i = 0; i < CLIENTS; i++)
        assert_int_equal(pthread_create(&clients[i], NULL, be_client, &crowd), 0);
    for (int i = 0; i < CLIENTS; i++)
        pthread_join(clients[i], NULL);
}

static void compare(const struct request *request, const struct infer_answer *together, bool same_bits)
{
    assert_int_equal(infer_count(together), count_outputs(request->model));
    for (size_t i = 0; i < infer_count(together); i++) {
        struct infer_tensor all = infer_output(together, i);

        all.bytes /= (size_t)request->n_items;
        for (int64_t b = 0; b < request->n_items; b++) {
            struct infer_tensor alone = infer_output(&request->alone[b], i), found = all;

            found.data = (const char *)all.data + (size_t)b * all.bytes;
            assert_int_equal(found.bytes, alone.bytes);
            double tolerance = strncmp(alone.name, "attention", 9) == 0 ? ATTENTION_TOLERANCE : TOLERANCE;
            double difference = infer_relative_l2(&found, &alone);
            if (same_bits ? memcmp(found.data, alone.data, alone.bytes) != 0 : !(difference <= tolerance))
                fail_msg("%s, %s of item %lld is not what it is alone: the difference is %g", request->model->name,
                         alone.name, (long long)b, difference);
        }
    }
}

/* ---- Batches ---- */

/* Returns the sum of a metric of /metrics over all models. */
static int64_t metric(const struct daemon *daemon, const char *name)
{
    struct answer answer = daemon_get(daemon, "/metrics");
    char line[128];
    int64_t value = 0;
    snprintf(line, sizeof line, "\n%s{model=", name);
    const char *found = strstr(answer.body, line);
    assert_non_null(found);
    for (; found; found = strstr(found + 1, line))
        value += atoll(strstr(found, "} ") + 2);
    answer_free(&answer);
    return value;
}

/* Sends the items of random requests one by one, and then all requests at once. Returns the number of requests minus
 * the number of batches for the requests sent at once. */
static int64_t run_round(const struct daemon *daemon, bool same_bits)
{
    struct request requests[MAX_REQUESTS];
    int64_t items = 0;
    for (int i = 0; i < n_requests; i++) {
        make_request(&requests[i]);
        ask_alone(daemon, &requests[i]);
        items += requests[i].n_items;
    }
    int64_t batches = metric(daemon, "linformerd_batch_items_count");
    items += metric(daemon, "linformerd_batch_items_sum");
    ask_all(daemon, requests);
    batches = metric(daemon, "linformerd_batch_items_count") - batches;
    assert_int_equal(metric(daemon, "linformerd_batch_items_sum"), items);
    for (int i = 0; i < n_requests; i++) {
        struct infer_answer together = infer_read(requests[i].answer);

        compare(&requests[i], &together, same_bits);
        infer_answer_free(&together);
        free_request(&requests[i]);
    }
    print_message("%d requests in %lld batches\n", n_requests, (long long)batches);
    return n_requests - batches;
}

static bool has_avx512; /* the daemon chose AVX-512 */

static void run(const char *kernels)
{
    /* Batches have no time limit. With a limit they would be small on the CUDA shim, because a batch on the shim
     * takes longer than the limit assumes. */
    struct daemon *daemon = daemon_start(ARGUMENTS("--model", "builtin=tests/models/bytes", "--model", CASES_FOLDER,
                                                   "--max-batch-tokens", "2048", "--max-batch-ms", "0", kernels));
    struct answer info = daemon_get(daemon, "/info");
    bool same_bits = json_is_true(json_object_get(info.json, "batch_invariant"));
    int64_t met = 0;
    const char *used = json_string_value(json_object_get(info.json, "kernels"));

    if (!kernels)
        has_avx512 = used && strncmp(used, "avx512", 6) == 0;
    answer_free(&info);
    random_state = seed;
    print_message("SEED=%llu, %s\n", (unsigned long long)seed, same_bits ? "the same bits" : "nearly the same bits");
    for (int round = 0; met < n_requests / 8 && round < MAX_ROUNDS; round++)
        met += run_round(daemon, same_bits);
    assert_true(met >= n_requests / 8);
    daemon_stop(daemon);
}

static void results_do_not_depend_on_batch_mates(void **state)
{
    (void)state;
    run(NULL);
}

static void results_with_older_kernels_do_not_depend_on_batch_mates(void **state)
{
    (void)state;
    if (has_avx512 && !daemon_is_slow())
        run("--kernels=avx2");
    run("--kernels=baseline");
}

int main(void)
{
    const char *given = getenv("SEED");
    seed = given ? strtoull(given, NULL, 10) : seed;
    seed = seed ? seed : 1;
    n_requests = getenv("LINFORMERD_DEVICE") ? 32 : MAX_REQUESTS; /* the CUDA shim is slow */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results_do_not_depend_on_batch_mates),
        cmocka_unit_test(results_with_older_kernels_do_not_depend_on_batch_mates),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
