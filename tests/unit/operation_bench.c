#include "tests/unit/operation_bench.h"

#include "engine/cpu/elements.h"
#include "engine/cpu/operations.h"
#include "tests/sanitized.h"
#include "tests/unit/loaded.h"
#include "tests/unit/onednn.h"
#include "tests/unit/scalar.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* The address and thread sanitizers check memory accesses, not results. One batch of each plan is enough for them,
 * because all batches of a plan run the same kernels. One item alone is enough for the same reason. The CUDA shim is
 * slow, and runs two batches. */
#define BATCHES (SANITIZED ? 1 : bench_options.device.kind == DEVICE_CPU ? 3 : 2) /* number of batches of a plan */
#define ITEMS_ALONE (SANITIZED ? 1 : BENCH_ITEMS) /* maximum number of items of a batch that also run alone */

struct engine_options bench_options = {.device = {DEVICE_CPU}, .dtype = DTYPE_F32, .threads = 2, .all_threads = true};
double bench_tolerance;

/* By operation: whether a plan with the operation was compared with the reference, whether its x, keys or values were
 * bf16, and whether its y was bf16. */
static bool has_run[OP_COUNT], has_read_bf16[OP_COUNT], has_written_bf16[OP_COUNT];

static bool has_bf16(void)
{
    return bench_options.device.kind == DEVICE_CPU && bench_options.dtype == DTYPE_BF16;
}

static bool is_bf16(const struct plan *plan, int value)
{
    return value != PLAN_NONE && cpu_value_element(plan, has_bf16(), value) == ELEMENT_BF16;
}

static void note_operations(const struct plan *plan)
{
    for (int i = 0; i < plan->n_steps; i++) {
        const struct plan_step *step = &plan->steps[i];
        has_run[step->operation] = true;
        has_read_bf16[step->operation] |=
            is_bf16(plan, step->x) || is_bf16(plan, step->keys) || is_bf16(plan, step->values);
        has_written_bf16[step->operation] |= is_bf16(plan, step->y);
    }
}

const char *bench_untried(enum operation operation)
{
    if (!has_run[operation])
        return "runs";
    if (has_bf16() && cpu_operations[operation].reads_bf16 && !has_read_bf16[operation])
        return "reads bf16 in";
    return has_bf16() && cpu_operations[operation].writes_bf16 && !has_written_bf16[operation] ? "writes bf16 in"
                                                                                               : NULL;
}

/* Whether the setting "auto" must choose oneDNN for products with weights. If so, bench_begin checks that the backend
 * uses oneDNN, and not OpenBLAS. */
static bool is_for_onednn(void)
{
    enum instruction_set set;
    struct error error;
    const struct engine_options *given = &bench_options;
    bool automatic = given->kernels == SET_AUTO && given->products == LIBRARY_AUTO;
    return given->device.kind == DEVICE_CPU && given->dtype == DTYPE_F32 && automatic &&
           instruction_set_choose(SET_AUTO, &set, &error) == 0 && set == SET_AVX512 && has_onednn();
}

static const struct backend_functions *find_functions(struct error *error)
{
    return bench_options.device.kind == DEVICE_CPU ? &backend_cpu : backend_cuda_load(error);
}

bool bench_has_kernel(enum operation operation)
{
    struct error error;
    const struct backend_functions *functions = find_functions(&error);
    if (!functions)
        fail_msg("%s", error.message);
    return functions->has_operation(operation);
}

struct plan_builder *bench_begin(struct bench *bench, const struct tensor_shape *shapes, size_t count)
{
    memset(bench, 0, sizeof *bench);
    const struct backend_functions *functions = find_functions(&bench->error);
    bench->functions = functions;
    if (!functions || functions->open(&bench_options, 0, &bench->backend, &bench->error) != 0) {
        if (functions != &backend_cpu)
            fail_msg("%s", bench->error.message);
        print_message("skipped: %s\n", bench->error.message); /* the processor lacks these kernels */
        skip();
    }
    if (is_for_onednn())
        assert_non_null(strstr(functions->kernels(bench->backend), "oneDNN"));
    bench->weights = tensors_random(shapes, count, &bench->file);
    assert_int_equal(plan_begin(&bench->builder, bench->weights, &bench->error), 0);
    return &bench->builder;
}

/* Copies the plan's weights, because the backend may later take over the originals. */
static float **copy_weights(const struct plan *plan)
{
    float **copies = calloc((size_t)plan->n_weights + 1, sizeof *copies);
    for (int i = 0; i < plan->n_weights; i++) {
        size_t bytes = (size_t)(plan->weights[i].rows * plan->weights[i].columns) * sizeof **copies;
        copies[i] = malloc(bytes + 1);
        if (bytes > 0)
            memcpy(copies[i], plan->weights[i].data, bytes);
    }
    return copies;
}

/* Exchanges the plan's weights with the copies, before and after the reference reads them. A kernel that reads a weight
 * that its backend has taken over finds NULL, as in the daemon. */
static void exchange_weights(struct bench *bench)
{
    for (int i = 0; i < bench->plan->n_weights; i++) {
        float *data = bench->plan->weights[i].data;
        bench->plan->weights[i].data = bench->copies[i];
        bench->copies[i] = data;
    }
}

void bench_place(struct bench *bench)
{
    must(plan_finish(&bench->builder, BENCH_ROWS, BENCH_ITEMS, &bench->plan), &bench->error);
    must(padder_open(bench->plan, &bench->batch, &bench->error), &bench->error);
    bench->copies = copy_weights(bench->plan);
    must(bench->functions->prepare(bench->backend, bench->plan, false, &bench->model, &bench->error), &bench->error);
}

void bench_compute(struct bench *bench, const struct engine_item *items, int64_t count)
{
    padder_lay_out(bench->plan, &bench->batch, items, count);
    must(bench->functions->run(bench->model, 0, &bench->batch, &bench->error), &bench->error);
}

void bench_end(struct bench *bench)
{
    if (bench->model) {
        bench->functions->unprepare(bench->model);
        padder_free(bench->plan, &bench->batch);
    }
    for (int i = 0; bench->copies && i < bench->plan->n_weights; i++)
        free(bench->copies[i]);
    free(bench->copies);
    plan_free(bench->plan);
    weights_close(bench->weights);
    free(bench->file);
    bench->functions->close(bench->backend);
}

/* ---- Random items of sequences and calls ---- */

static void *random_rows(const struct plan_input *input, int64_t rows)
{
    int32_t *ids = calloc((size_t)(rows * input->input.columns), 4);
    uint8_t *mask = (uint8_t *)ids;
    for (int64_t i = 0; i < rows * input->input.columns; i++) {
        float x = random_float() * 3;
        if (input->input.kind == INPUT_IDS)
            ids[i] = (int32_t)(random_next() % 7);
        else if (input->input.kind == INPUT_MASK)
            mask[i] = random_next() % 3 > 0;
        else
            memcpy(&ids[i], &x, 4);
    }
    return ids;
}

/* Makes a random mask of attention scores, whose shape follows from the item's other inputs. In each row, at least one
 * key is not masked. */
static void random_attention_mask(const struct plan *plan, struct engine_item *item, int index)
{
    const struct model_input *input = &plan->inputs[index].input;
    int64_t width = padder_width(plan, item, input->like), length = padder_length(plan, item, input->like) / width;
    int64_t columns = input->columns ? input->columns : padder_length(plan, item, input->columns_like);
    if (input->accepts_one_row && random_next() % 2)
        length = 1;
    int64_t masks = input->masks_per_sequence && random_next() % 2 ? input->masks_per_sequence * width : 0;
    int64_t elements = (masks ? masks : 1) * length * columns;
    bool floats = input->accepts_floats && random_next() % 2;
    float *added = calloc((size_t)elements, sizeof *added);
    for (int64_t i = 0; i < elements; i++) {
        if (floats)
            added[i] = i % columns && random_next() % 4 == 0 ? -INFINITY : random_float() * 2;
        else
            ((uint8_t *)added)[i] = i % columns == 0 || random_next() % 3 > 0;
    }
    item->inputs[index].data = added;
    item->inputs[index].length = length;
    item->inputs[index].columns = columns;
    item->inputs[index].n_masks = masks;
    item->inputs[index].floats = floats;
}

/* Sets the item's inputs to random rows. A call contains 1 to 3 sequences. */
static void random_inputs(const struct plan *plan, struct engine_item *item)
{
    int64_t width = random_size(1, 3);
    for (int i = 0; i < plan->n_inputs; i++) {
        const struct plan_input *input = &plan->inputs[i];
        int64_t most = input->input.max_length, fewest = input->input.min_length;
        if (input->input.optional && random_next() % 2)
            continue;
        if (input->input.kind == INPUT_ATTENTION_MASK) {
            random_attention_mask(plan, item, i);
            continue;
        }
        if (input->input.layout == LAYOUT_CALL)
            item->inputs[i].width = width;
        most = most < BENCH_ROWS / BENCH_ITEMS ? most : BENCH_ROWS / BENCH_ITEMS / width;
        item->inputs[i].length =
            input->input.like >= 0 ? item->inputs[input->input.like].length : random_size(fewest, most);
        item->inputs[i].data =
            random_rows(input, item->inputs[i].length * (input->input.layout == LAYOUT_CALL ? width : 1));
    }
}

/* ---- Images ---- */

static bool gives_image(const struct plan *plan)
{
    return plan->steps[plan->n_steps - 1].operation == OP_GIVE_IMAGE;
}

/* Whether model_check would accept the item, and whether it fits into its part of the arena. */
static bool image_runs(const struct plan *plan, const struct engine_item *item)
{
    for (int i = 0; i < plan->n_steps; i++) {
        const struct plan_step *step = &plan->steps[i];
        if (!plan_convolves_input(step))
            continue;
        int from = plan->values[step->x].axis, to = plan->values[step->y].axis;
        struct plan_image image = padder_image(plan, item, plan->axes[from].input);
        if (image.width == 0)
            continue;
        if (!plan_window_fits(&step->convolve_image.window, image))
            return false;
        struct plan_image made = plan_convolved(&step->convolve_image.window, image);
        if (from == to && made.height * made.width != image.height * image.width)
            return false;
    }
    for (int i = 0; i < plan->n_axes; i++)
        if (padder_axis_rows(plan, item, i) > BENCH_ROWS / BENCH_ITEMS)
            return false;
    return true;
}

/* Makes an item with an image of random size that the plan accepts. If the plan reads a context, some items have
 * one. */
static void random_image(const struct plan *plan, struct engine_item *item, struct bench_results *results)
{
    memset(item, 0, sizeof *item);
    memset(results, 0, sizeof *results);
    item->inputs[0].data = "";
    do {
        item->inputs[0].length = random_size(1, 8);
        item->inputs[0].width = random_size(1, 8);
        if (plan->n_inputs > 1 && random_next() % 2) {
            item->inputs[1].data = "";
            item->inputs[1].length = random_size(1, 12);
        }
    } while (!image_runs(plan, item));
    for (int i = 0; i < plan->n_inputs; i++)
        if (item->inputs[i].data)
            item->inputs[i].data = random_rows(&plan->inputs[i], padder_length(plan, item, i));
    item->n_rows = padder_axis_rows(plan, item, plan->hidden_axis);
    results->output = item->output = calloc((size_t)(item->n_rows * plan->output_columns), sizeof(float));
}

/* ---- Tensors ---- */

static bool gives_tensors(const struct plan *plan)
{
    return plan->n_outputs > 0;
}

/* The value of a size of the plan for the item. padder_size writes to its result before it has read all sizes of the
 * item. The result must therefore not be a member of the item. */
static int64_t size_of(const struct plan *plan, const struct engine_item *item, int size)
{
    int64_t found;
    assert_true(padder_size(plan, item, size, &found));
    assert_true(found > 0);
    return found;
}

static void random_sizes(const struct plan *plan, struct engine_item *item)
{
    for (int i = 0; i < plan->n_factors; i++) {
        const struct plan_factor *factor = &plan->factors[i];
        int64_t most = factor->free.most < 12 ? factor->free.most : 12;
        if (factor->kind == FACTOR_FREE)
            item->inputs[factor->free.input].sizes[factor->free.dimension] = random_size(factor->free.least, most);
    }
    for (int i = 0; i < plan->n_inputs; i++)
        for (int d = 0; d < plan->inputs[i].input.rank; d++)
            item->inputs[i].sizes[d] = size_of(plan, item, plan->inputs[i].sizes[d]);
}

static int64_t tensor_elements(const struct plan *plan, const struct engine_item *item, int output)
{
    int64_t elements = 1;
    for (int d = 0; d < plan->outputs[output].rank; d++)
        elements *= size_of(plan, item, plan->outputs[output].sizes[d]);
    return elements;
}

/* Makes an item of random tensors. Its first output goes to item->output, and the second to results->attention. */
static void random_tensors(const struct plan *plan, struct engine_item *item, struct bench_results *results)
{
    int axis;
    memset(item, 0, sizeof *item);
    memset(results, 0, sizeof *results);
    do {
        random_sizes(plan, item);
    } while (padder_item_rows(plan, item, &axis) > BENCH_ROWS / BENCH_ITEMS);
    for (int i = 0; i < plan->n_inputs; i++)
        item->inputs[i].data = random_rows(&plan->inputs[i], padder_length(plan, item, i));
    results->output = item->output = calloc((size_t)tensor_elements(plan, item, 0), sizeof(float));
    if (plan->n_outputs == 1)
        return;
    results->attention.output = 1;
    results->attention.data = calloc((size_t)tensor_elements(plan, item, 1), sizeof(float));
    item->extras = &results->attention;
    item->n_extras = 1;
}

static void random_sequences(const struct plan *plan, struct engine_item *item, struct bench_results *results)
{
    memset(item, 0, sizeof *item);
    random_inputs(plan, item);
    size_t length = (size_t)padder_length(plan, item, 0);
    results->hidden = item->hidden = calloc(length * (size_t)plan->hidden_columns, sizeof(float));
    results->pooled = item->pooled = calloc((size_t)plan->hidden_columns, sizeof(float));
    results->output = item->output = calloc(length * (size_t)plan->output_columns, sizeof(float));
    results->attention = (struct engine_extra){.output = 1, .data = calloc(length * 6 * 130, sizeof(float))};
    item->extras = &results->attention;
    item->n_extras = 1;
    item->pooling = (enum pooling)(random_next() % POOLING_COUNT);
    item->softmax = random_next() % 2;
    item->n_rows = (int64_t)length;
    results->rows = calloc(length, sizeof *results->rows);
    if (random_next() % 2) {
        item->n_rows = random_size(1, (int64_t)length);
        for (int64_t i = 0; i < item->n_rows; i++)
            results->rows[i] = (int32_t)(random_next() % length);
        item->rows = results->rows;
    }
}

void bench_random_item(const struct plan *plan, struct engine_item *item, struct bench_results *results)
{
    (gives_tensors(plan) ? random_tensors : gives_image(plan) ? random_image : random_sequences)(plan, item, results);
}

void bench_free_item(struct engine_item *item, struct bench_results *results)
{
    for (int i = 0; i < ENGINE_MAX_INPUTS; i++)
        free((void *)item->inputs[i].data);
    free(results->hidden);
    free(results->pooled);
    free(results->output);
    free(results->rows);
    free(results->attention.data);
}

static void assert_close(const char *what, int64_t n, const float *found, const double *expected)
{
    double largest = 0.3;
    for (int64_t i = 0; i < n; i++)
        largest = fmax(largest, fabs(expected[i]));
    for (int64_t i = 0; i < n; i++)
        if (!(fabs(found[i] - expected[i]) <= bench_tolerance * largest))
            fail_msg("%s[%lld]: found %.9g, expected %.9g", what, (long long)i, (double)found[i], expected[i]);
}

/* Compares the item's output tensors with the reference. */
static void compare_tensors(const struct plan *plan, const struct batch *batch, double **values, int64_t index)
{
    const struct engine_item *item = &batch->items[index];
    for (int i = 0; i < plan->n_steps; i++) {
        const struct plan_step *step = &plan->steps[i];
        if (step->operation != OP_GIVE_TENSOR || step->give_tensor.output > 1)
            continue;
        int output = step->give_tensor.output;
        assert_close(plan->outputs[output].name, tensor_elements(plan, item, output),
                     output == 0 ? item->output : item->extras[0].data,
                     scalar_tensor(plan, batch, values, step, index));
    }
}

/* Compares the output attention.0, the softmax of the first attention, of every item with the reference. */
static void compare_attention(const struct plan *plan, const struct batch *batch, double **values)
{
    int step = 0;
    while (step < plan->n_steps && plan->steps[step].operation != OP_ATTEND &&
           plan->steps[step].operation != OP_ATTEND_CALL)
        step++;
    for (int64_t i = 0; i < batch->n_items && step < plan->n_steps && !gives_tensors(plan); i++) {
        const struct plan_step *attend = &plan->steps[step];
        int64_t width = padder_width(plan, &batch->items[i], 0);
        int64_t k = padder_axis_rows(plan, &batch->items[i], plan->values[attend->keys].axis) / width;
        int64_t elements = padder_own_rows(plan, &batch->items[i], plan->values[attend->x].axis) *
                           (attend->attend.key_room > k ? attend->attend.key_room : k);
        if (attend->operation == OP_ATTEND)
            elements *= attend->attend.heads;
        double *expected = calloc((size_t)elements, sizeof *expected);
        scalar_attention(plan, batch, values, step, i, expected);
        assert_close("attention", elements, batch->items[i].extras[0].data, expected);
        free(expected);
    }
}

static void compare_item(const struct plan *plan, const struct batch *batch, double **values, int64_t index)
{
    const struct engine_item *item = &batch->items[index];
    int hidden = plan->steps[plan->n_steps - 1].x;
    int64_t length = padder_length(plan, item, 0);
    const struct layout *layout = &batch->layouts[plan->values[hidden].axis];
    double *expected =
        calloc((size_t)((length + item->n_rows + 1) * (plan->output_columns + plan->hidden_columns)), sizeof *expected);
    if (gives_image(plan)) {
        scalar_image(plan, batch, values, index, expected);
        assert_close("image", item->n_rows * plan->output_columns, item->output, expected);
        free(expected);
        return;
    }
    assert_close("hidden", length * plan->hidden_columns, item->hidden,
                 values[hidden] + layout->starts[index] * plan->hidden_columns);
    scalar_pooled(plan, batch, values, index, expected);
    assert_close("pooled", plan->hidden_columns, item->pooled, expected);
    scalar_output(plan, batch, values, index, expected);
    assert_close("output", item->n_rows * plan->output_columns, item->output, expected);
    free(expected);
}

/* Expects equality within bench_tolerance, for backends that are not batch invariant. */
static void assert_near(size_t n, const float *found, const float *expected)
{
    double largest = 0.3;
    for (size_t i = 0; i < n; i++)
        largest = fmax(largest, fabs((double)expected[i]));
    for (size_t i = 0; i < n; i++)
        if (!(fabs((double)found[i] - (double)expected[i]) <= bench_tolerance * largest))
            fail_msg("alone[%zu]: found %.9g, in the batch %.9g", i, (double)found[i], (double)expected[i]);
}

/* Whether column `a` of a row comes before column `b` in descending order. Of equal values, the first column comes
 * first. */
static bool is_better(const float *row, int64_t a, int64_t b)
{
    return row[a] > row[b] || (row[a] == row[b] && a < b);
}

/* Compares the k best columns of each row with the whole row. Two batches of the item alone compute the two results. */
static void compare_top_k(struct bench *bench, const struct engine_item *item)
{
    struct engine_item top = *item, full = *item;
    int64_t columns = bench->plan->output_columns;
    full.hidden = full.pooled = NULL;
    full.n_extras = 0;
    top = full;
    top.output = NULL;
    full.output = calloc((size_t)(full.n_rows * columns), sizeof *full.output);
    top.top_k = random_size(1, columns);
    top.top_columns = calloc((size_t)(top.n_rows * top.top_k), sizeof *top.top_columns);
    top.top_values = calloc((size_t)(top.n_rows * top.top_k), sizeof *top.top_values);
    bench_compute(bench, &full, 1);
    bench_compute(bench, &top, 1);
    for (int64_t r = 0; r < top.n_rows; r++) {
        const float *row = full.output + r * columns, *values = top.top_values + r * top.top_k;
        const int32_t *places = top.top_columns + r * top.top_k;
        int64_t better = 0; /* number of columns that are better than the last of the top_k */
        for (int64_t i = 0; i < top.top_k; i++) {
            assert_in_range(places[i], 0, columns - 1);
            assert_true(i == 0 || is_better(row, places[i - 1], places[i]));
            assert_true(values[i] == row[places[i]]);
        }
        for (int64_t c = 0; c < columns; c++)
            better += is_better(row, c, places[top.top_k - 1]);
        assert_int_equal(better, top.top_k - 1);
    }
    free(full.output);
    free(top.top_columns);
    free(top.top_values);
}

/* Compares the log-probabilities of random targets with those computed from the whole row. In half of the calls, the
 * item also requests top_k. */
static void compare_targets(struct bench *bench, const struct engine_item *item)
{
    struct engine_item full = *item;
    int64_t columns = bench->plan->output_columns;
    bool best = random_next() % 2;
    full.hidden = full.pooled = NULL;
    full.n_extras = 0;
    full.softmax = false;
    struct engine_item chosen = full;
    full.output = calloc((size_t)(full.n_rows * columns), sizeof *full.output);
    chosen.output = NULL;
    chosen.softmax = random_next() % 2;
    chosen.top_k = best ? columns : 0;
    chosen.top_columns = best ? calloc((size_t)(full.n_rows * columns), sizeof *chosen.top_columns) : NULL;
    chosen.top_values = best ? calloc((size_t)(full.n_rows * columns), sizeof *chosen.top_values) : NULL;
    int32_t *targets = calloc((size_t)full.n_rows, sizeof *targets);
    for (int64_t r = 0; r < full.n_rows; r++)
        targets[r] = (int32_t)random_size(-1, columns - 1);
    chosen.targets = targets;
    chosen.log_probabilities = calloc((size_t)full.n_rows, sizeof *chosen.log_probabilities);
    bench_compute(bench, &full, 1);
    bench_compute(bench, &chosen, 1);
    for (int64_t r = 0; r < full.n_rows; r++) {
        const float *row = full.output + r * columns;
        double sum = 0, most = -INFINITY;
        for (int64_t c = 0; c < columns; c++)
            most = fmax(most, (double)row[c]);
        for (int64_t c = 0; c < columns; c++)
            sum += exp((double)row[c] - most);
        double expected = targets[r] < 0 ? 0 : (double)row[targets[r]] - most - log(sum);
        assert_true(fabs((double)chosen.log_probabilities[r] - expected) <= 1e-5 * fmax(1, fabs(expected)));
    }
    free(full.output);
    free(chosen.top_columns);
    free(chosen.top_values);
    free(chosen.log_probabilities);
    free(targets);
}

static void compare_alone(struct bench *bench, const struct engine_item *item)
{
    struct engine_item alone = *item;
    alone.n_extras = 0;
    size_t hidden = item->hidden ? (size_t)(padder_length(bench->plan, item, 0) * bench->plan->hidden_columns) : 0;
    size_t output = gives_tensors(bench->plan) ? (size_t)tensor_elements(bench->plan, item, 0)
                                               : (size_t)(item->n_rows * bench->plan->output_columns);
    alone.hidden = item->hidden ? calloc(hidden, sizeof(float)) : NULL;
    alone.output = calloc(output, sizeof(float));
    bench_compute(bench, &alone, 1);
    if (bench->functions->batch_invariant(bench->backend)) {
        if (hidden > 0)
            assert_memory_equal(alone.hidden, item->hidden, hidden * sizeof(float));
        assert_memory_equal(alone.output, item->output, output * sizeof(float));
    } else {
        assert_near(hidden, alone.hidden, item->hidden);
        assert_near(output, alone.output, item->output);
    }
    free(alone.hidden);
    free(alone.output);
}

void bench_run(struct bench *bench)
{
    bench_place(bench);
    note_operations(bench->plan);
    for (int batch = 0; batch < BATCHES; batch++) {
        struct engine_item items[BENCH_ITEMS];
        struct bench_results results[BENCH_ITEMS];
        int64_t count = random_size(1, BENCH_ITEMS);
        for (int64_t i = 0; i < count; i++)
            bench_random_item(bench->plan, &items[i], &results[i]);
        bench_compute(bench, items, count);
        exchange_weights(bench);
        double **values = scalar_run(bench->plan, &bench->batch);
        for (int64_t i = 0; i < count; i++)
            (gives_tensors(bench->plan) ? compare_tensors : compare_item)(bench->plan, &bench->batch, values, i);
        compare_attention(bench->plan, &bench->batch, values);
        scalar_free(bench->plan, values);
        exchange_weights(bench);
        for (int64_t i = 0; i < count && i < ITEMS_ALONE; i++)
            compare_alone(bench, &items[i]);
        if (!gives_image(bench->plan) && !gives_tensors(bench->plan)) {
            compare_top_k(bench, &items[0]);
            compare_targets(bench, &items[0]);
        }
        for (int64_t i = 0; i < count; i++)
            bench_free_item(&items[i], &results[i]);
    }
    bench_end(bench);
}
