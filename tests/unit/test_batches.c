/* Tests of the built-in model. The results of a sequence must have the same bits alone, in any batch, and at any place
 * in a batch. If the model is not batch invariant, they may differ by 1e-6 (relative L2). They are also compared with
 * the results of PyTorch with the same weights. SEED chooses lengths and ids. */
#include "tests/unit/loaded.h"
#include "tests/unit/tensors.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SEQUENCES 24
#define MAX_IDS 4096        /* maximum number of ids of a batch */
#define MAX_BATCH_ROWS 8192 /* max_batch_tokens. The largest matrices have more rows than a batch has ids */
#define WANTED_ROWS 3

static struct loaded loaded;

/* One sequence, with memory for every result that an item can request. */
struct sequence {
    struct engine_item item;
    int32_t *ids, rows[WANTED_ROWS], top_columns[WANTED_ROWS * 4], targets[WANTED_ROWS];
    float *hidden, *pooled, *output, top_values[WANTED_ROWS * 4], log_probabilities[WANTED_ROWS];
};

static int load_model(void **state)
{
    (void)state;
    struct engine_options options = {.device = {DEVICE_CPU},
                                     .dtype = DTYPE_F32,
                                     .threads = 2,
                                     .all_threads = true,
                                     .max_batch_tokens = MAX_BATCH_ROWS,
                                     .max_batch_requests = SEQUENCES};
    loaded = load_builtin(WEIGHTS_BUILTIN, &options);
    return 0;
}

static int unload_model(void **state)
{
    (void)state;
    unload(&loaded);
    return 0;
}

static void make_sequence(struct sequence *sequence, int64_t length)
{
    const struct model_info *info = model_info(loaded.model);
    memset(sequence, 0, sizeof *sequence);
    sequence->ids = malloc((size_t)length * sizeof *sequence->ids);
    for (int64_t i = 0; i < length; i++)
        sequence->ids[i] = (int32_t)random_size(0, info->vocabulary - 1);
    for (int i = 0; i < WANTED_ROWS; i++)
        sequence->rows[i] = (int32_t)random_size(0, length - 1);
    sequence->hidden = calloc((size_t)(length * info->hidden_columns), sizeof(float));
    sequence->pooled = calloc((size_t)info->hidden_columns, sizeof(float));
    sequence->output = calloc((size_t)(WANTED_ROWS * info->output_columns), sizeof(float));
    sequence->item.inputs[0].data = sequence->ids;
    sequence->item.inputs[0].length = length;
    sequence->item.hidden = sequence->hidden;
    sequence->item.pooled = sequence->pooled;
    sequence->item.pooling = (enum pooling)random_size(0, POOLING_COUNT - 1);
    sequence->item.output = sequence->output;
    sequence->item.softmax = random_size(0, 1);
    sequence->item.rows = sequence->rows;
    sequence->item.n_rows = length < WANTED_ROWS ? length : WANTED_ROWS;
    if (random_size(0, 3) == 0) {
        sequence->item.top_k = 4;
        sequence->item.top_columns = sequence->top_columns;
        sequence->item.top_values = sequence->top_values;
    }
    for (int i = 0; i < WANTED_ROWS; i++)
        sequence->targets[i] = (int32_t)random_size(-1, info->output_columns - 1);
    if (random_size(0, 1) == 0) {
        sequence->item.targets = sequence->targets;
        sequence->item.log_probabilities = sequence->log_probabilities;
    }
}

static void free_sequence(struct sequence *sequence)
{
    free(sequence->ids);
    free(sequence->hidden);
    free(sequence->pooled);
    free(sequence->output);
}

/* Returns a copy of the sequence with separate memory for results. */
static struct sequence repeat_of(const struct sequence *sequence)
{
    struct sequence again = *sequence;
    const struct model_info *info = model_info(loaded.model);
    again.ids = NULL;
    again.item.hidden = again.hidden =
        calloc((size_t)(sequence->item.inputs[0].length * info->hidden_columns), sizeof(float));
    again.item.pooled = again.pooled = calloc((size_t)info->hidden_columns, sizeof(float));
    again.item.output = again.output = calloc((size_t)(WANTED_ROWS * info->output_columns), sizeof(float));
    memset(again.top_columns, 0, sizeof again.top_columns);
    memset(again.top_values, 0, sizeof again.top_values);
    memset(again.log_probabilities, 0, sizeof again.log_probabilities);
    return again;
}

static void run(struct engine_item *items, int64_t count)
{
    struct error error;
    for (int64_t i = 0; i < count; i++)
        if (model_check(loaded.model, &items[i], &error) != 0)
            fail_msg("%s", error.message);
    if (model_run(loaded.model, 0, items, count, &error) != 0)
        fail_msg("%s", error.message);
}

static void assert_same(const float *found, const float *expected, int64_t n)
{
    if (model_info(loaded.model)->batch_invariant) {
        assert_memory_equal(found, expected, (size_t)n * sizeof(float));
        return;
    }
    double difference = 0, norm = 0;
    for (int64_t i = 0; i < n; i++) {
        difference += pow((double)found[i] - (double)expected[i], 2);
        norm += pow((double)expected[i], 2);
    }
    assert_true(sqrt(difference) <= 1e-6 * sqrt(norm));
}

/* Runs the sequence alone, and compares the results with those in the batch. */
static void compare_alone(const struct sequence *sequence)
{
    const struct model_info *info = model_info(loaded.model);
    struct sequence alone = repeat_of(sequence);
    alone.item.top_columns = alone.top_columns;
    alone.item.top_values = alone.top_values;
    alone.item.log_probabilities = alone.log_probabilities;
    run(&alone.item, 1);
    assert_same(sequence->hidden, alone.hidden, sequence->item.inputs[0].length * info->hidden_columns);
    assert_same(sequence->pooled, alone.pooled, info->hidden_columns);
    if (sequence->item.top_k == 0)
        assert_same(sequence->output, alone.output, sequence->item.n_rows * info->output_columns);
    else if (info->batch_invariant)
        assert_memory_equal(sequence->top_columns, alone.top_columns, sizeof alone.top_columns);
    assert_same(sequence->top_values, alone.top_values, sequence->item.n_rows * sequence->item.top_k);
    if (sequence->item.targets)
        assert_same(sequence->log_probabilities, alone.log_probabilities, sequence->item.n_rows);
    free_sequence(&alone);
}

static void results_do_not_depend_on_batch_mates(void **state)
{
    (void)state;
    for (int round = 0; round < 4; round++) {
        struct sequence sequences[SEQUENCES];
        struct engine_item items[SEQUENCES];
        int64_t count = random_size(2, SEQUENCES), room = MAX_IDS, rows = 0;
        for (int64_t i = 0; i < count; i++) {
            int64_t most = room - (count - i - 1);
            make_sequence(&sequences[i], random_size(1, most < 400 ? most : 400));
            room -= sequences[i].item.inputs[0].length;
            items[i] = sequences[i].item;
            rows += model_item_tokens(loaded.model, &items[i]);
        }
        assert_true(rows <= MAX_BATCH_ROWS);
        run(items, count);
        for (int64_t i = 0; i < count; i++) {
            compare_alone(&sequences[i]);
            free_sequence(&sequences[i]);
        }
    }
}

/* ---- Comparison with PyTorch ---- */

static const struct weights_tensor *tensor(const struct weights *weights, int index, const char *name)
{
    char full[64];
    snprintf(full, sizeof full, "%d/%s", index, name);
    return weights_find(weights, full);
}

static int64_t integer_at(const struct weights_tensor *integers, int64_t index)
{
    int64_t value;
    memcpy(&value, (const char *)integers->data + (size_t)index * sizeof value, sizeof value);
    return value;
}

static double relative_l2(int64_t n, const float *found, const struct weights_tensor *expected_tensor)
{
    float *expected = malloc((size_t)n * sizeof *expected);
    assert_int_equal(expected_tensor->elements, n);
    weights_to_f32(expected_tensor, expected);
    double difference = 0, norm = 0;
    for (int64_t i = 0; i < n; i++) {
        difference += pow((double)found[i] - (double)expected[i], 2);
        norm += pow((double)expected[i], 2);
    }
    free(expected);
    return sqrt(difference / norm);
}

static void normalize(int64_t n, float *vector)
{
    double norm = 0;
    for (int64_t i = 0; i < n; i++)
        norm += pow((double)vector[i], 2);
    for (int64_t i = 0; i < n; i++)
        vector[i] = (float)((double)vector[i] / sqrt(norm));
}

static void compare_with_pytorch(const struct weights *parity, int index)
{
    const struct model_info *info = model_info(loaded.model);
    const struct weights_tensor *x = tensor(parity, index, "in/x"), *rows = tensor(parity, index, "out/rows");
    struct engine_item item = {0};
    int32_t *ids = calloc((size_t)x->elements, sizeof *ids), *wanted = calloc((size_t)rows->elements, sizeof *wanted);
    for (int64_t i = 0; i < x->elements; i++)
        ids[i] = (int32_t)integer_at(x, i);
    for (int64_t i = 0; i < rows->elements; i++)
        wanted[i] = (int32_t)integer_at(rows, i);
    item.inputs[0].data = ids;
    item.inputs[0].length = x->elements;
    item.rows = wanted;
    item.n_rows = rows->elements;
    item.output = calloc((size_t)(rows->elements * info->output_columns), sizeof(float));
    item.pooled = calloc((size_t)info->hidden_columns, sizeof(float));
    run(&item, 1);
    normalize(info->hidden_columns, item.pooled);
    double output =
        relative_l2(rows->elements * info->output_columns, item.output, tensor(parity, index, "out/output"));
    double pooled = relative_l2(info->hidden_columns, item.pooled, tensor(parity, index, "out/embedding"));
    print_message("%lld ids: logits off by %.1e, embedding by %.1e\n", (long long)x->elements, output, pooled);
    assert_true(output <= 1e-5 && pooled <= 1e-5);
    free(item.output);
    free(item.pooled);
    free(ids);
    free(wanted);
}

static void builtin_agrees_with_pytorch(void **state)
{
    (void)state;
    struct weights *parity;
    struct error error;
    if (weights_open("weights/builtin/parity.safetensors", &parity, &error) != 0 || weights_read(parity, &error) != 0)
        fail_msg("%s", error.message);
    int index = 0;
    for (; tensor(parity, index, "in/x"); index++)
        compare_with_pytorch(parity, index);
    assert_true(index > 0);
    weights_close(parity);
}

int main(void)
{
    const char *given = getenv("SEED");
    uint64_t seed = given ? strtoull(given, NULL, 10) : 20261120;
    random_seed(seed);
    print_message("SEED=%llu\n", (unsigned long long)seed);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results_do_not_depend_on_batch_mates),
        cmocka_unit_test(builtin_agrees_with_pytorch),
    };
    return cmocka_run_group_tests(tests, load_model, unload_model);
}
