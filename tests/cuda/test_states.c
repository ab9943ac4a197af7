/* Sequences whose rows come in several batches, with sizes that the cases of tests/reference lack: large heads,
 * buckets, windows and folds. The last row of each part must agree with the row that the CPU computes for the whole
 * sequence. A batch may contain parts of several sequences, and a whole item. On the shim, the same parts alone must
 * give the same bits. Batches of single rows replay one graph. SEED repeats a run. */
#include "engine/backend.h"
#include "engine/plan/builder.h"
#include "tests/cuda/alone.h"
#include "tests/cuda/schedules.h"
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

enum {
    LONGEST = 160,
    SEQUENCES = 3,
    ITEMS = SEQUENCES + 1,
    ROWS = 480,
    OUT = 20,
    CONTEXT = 40,
    K = 6,
    MAX_COLUMNS = 300
};

enum kind { LINEAR, LOCAL, SHIFT, ATTEND_CONTEXT, LINEAR_CONTEXT };

/* A model with one operation on the heads [first_head, first_head + heads), each with `d` features. */
struct sizes {
    enum kind kind;
    int64_t first_head, heads, d;
    int64_t bucket; /* for LOCAL, the window */
    int64_t fold;
};

static const struct sizes sizes[] = {
    {LINEAR, 0, 2, 8, 1, 1},         {LINEAR, 1, 2, 9, 3, 1},         {LINEAR, 0, 1, 40, 1, 1},
    {LINEAR, 1, 1, 70, 5, 1}, /* on the shim, the context does not fit into shared memory */
    {LINEAR, 0, 2, 8, 45, 1}, /* a bucket has more than TILE rows (linear_attention.h) */
    {LINEAR, 0, 2, 12, 1, 8},        {LINEAR, 0, 1, 6, 2, 4},         {LOCAL, 1, 2, 17, 7, 1},
    {LOCAL, 0, 1, 8, 1, 1},          {LOCAL, 0, 2, 8, 80, 1}, /* more keys than a warp has threads */
    {LOCAL, 0, 1, 140, 16, 1},                                /* more features than a block computes */
    {SHIFT, 0, 1, 24, 1, 1},         {SHIFT, 0, 1, 7, 1, 1},          {ATTEND_CONTEXT, 0, 2, 8, 1, 1},
    {ATTEND_CONTEXT, 0, 2, 5, 1, 1}, {LINEAR_CONTEXT, 0, 2, 8, 1, 1},
};

static const struct {
    enum dtype dtype;
    double bound; /* maximum error, relative to the largest value */
} dtypes[] = {{DTYPE_F32, 1e-5}, {DTYPE_BF16, 4e-2}, {DTYPE_F16, 5e-3}};

/* A model on a backend. */
struct resident {
    const struct backend_functions *functions;
    struct backend *backend;
    struct backend_model *model;
    struct plan *plan;
    struct batch batch;
    const struct sizes *sizes;
    int64_t columns;
};

/* A sequence: its rows, its context, and the expected output (length, OUT) of the CPU. */
struct sequence {
    int64_t length;
    float *x, *expected;
    float context[CONTEXT * MAX_COLUMNS];
};

static int64_t columns_of(const struct sizes *s)
{
    return (s->first_head + s->heads + (s->kind == LINEAR || s->kind == LOCAL)) * s->d;
}

static int attend_context(struct plan_builder *builder, const struct sizes *s, int x)
{
    int context = plan_input_rows(builder, "context", columns_of(s), CONTEXT, PLAN_NONE);
    struct plan_head_range heads = {s->first_head, s->heads, s->d};
    if (s->kind == LINEAR_CONTEXT)
        return plan_linear_attend(builder, x, context, context, PLAN_NONE, heads, 1);
    int keys = plan_project_sequence(
        builder, context,
        (struct plan_projection){.weight = plan_matrix(builder, CONTEXT, K, "e"), .bias = PLAN_NONE, .groups = 1});
    return plan_attend(builder, x, keys, keys,
                       (struct plan_attention){.heads = s->heads, .kv_heads = s->heads, .scale = 0.4f});
}

static int build(struct plan_builder *builder, const struct sizes *s)
{
    static const int64_t shifts[] = {1, 0};
    struct plan_head_range heads = {s->first_head, s->heads, s->d};
    int x = plan_input_rows(builder, "x", columns_of(s), LONGEST, PLAN_NONE);
    if (s->bucket * s->fold > 1)
        plan_pad_to_multiple(builder, x, s->bucket * s->fold);
    switch (s->kind) {
    case LINEAR:
        return plan_causal_linear_attend(builder, x, x, x, PLAN_NONE, heads, s->fold, s->bucket);
    case LOCAL:
        return plan_local_attend(builder, x, x, x, PLAN_NONE, heads, s->bucket, true);
    case SHIFT:
        return plan_shift_tokens(builder, x, 2, shifts);
    default:
        return attend_context(builder, s, x);
    }
}

static struct resident place(const struct backend_functions *functions, enum dtype dtype, const struct sizes *s,
                             const struct weights *weights, int64_t n_slots)
{
    struct engine_options options = {.dtype = dtype, .threads = 1};
    struct resident r = {.functions = functions, .sizes = s, .columns = columns_of(s)};
    struct plan_builder builder;
    struct error error;
    must(functions->open(&options, 0, &r.backend, &error), &error);
    must(plan_begin(&builder, weights, &error), &error);
    builder.n_slots = n_slots;
    int y = build(&builder, s);
    if (s->bucket * s->fold > 1)
        y = plan_cut_padding(&builder, y);
    int64_t width = s->kind == SHIFT ? r.columns : s->heads * s->d;
    plan_give(&builder, y, plan_matrix(&builder, OUT, width, "out"), PLAN_NONE, true);
    must(plan_finish(&builder, ROWS, ITEMS, &r.plan), &error);
    assert_int_equal(r.plan->n_slots, n_slots);
    must(functions->prepare(r.backend, r.plan, false, &r.model, &error), &error);
    must(padder_open(r.plan, &r.batch, &error), &error);
    return r;
}

static void leave(struct resident *r)
{
    padder_free(r->plan, &r->batch);
    r->functions->unprepare(r->model);
    plan_free(r->plan);
    r->functions->close(r->backend);
}

static void run(struct resident *r, const struct engine_item *items, int64_t count)
{
    struct error error;
    padder_lay_out(r->plan, &r->batch, items, count);
    must(r->functions->run(r->model, 0, &r->batch, &error), &error);
}

/* Returns an item with the rows [first, first + rows) of a sequence. If the item has no slot, `output` receives the
 * output of all rows, otherwise only of the last row. */
static struct engine_item item_of(const struct resident *r, const struct sequence *s, int64_t slot, int64_t first,
                                  int64_t rows, const int32_t *last, float *output)
{
    struct engine_item item = {.slot = slot, .first = first, .output = output, .n_rows = slot ? 1 : rows};
    item.inputs[0].data = s->x + first * r->columns;
    item.inputs[0].length = rows;
    item.rows = slot ? last : NULL;
    if (r->plan->n_inputs > 1 && first == 0) {
        item.inputs[1].data = s->context;
        item.inputs[1].length = CONTEXT;
    }
    return item;
}

/* ---- Parts ---- */

struct progress {
    int64_t done, parts, rows[LONGEST];
    int32_t last;
    float found[LONGEST][OUT]; /* output of the last row of each part */
};

static void expect_row(const float *found, const float *expected, double largest, double bound, int64_t row)
{
    for (int i = 0; i < OUT; i++)
        if (!(fabs((double)found[i] - expected[i]) <= bound * largest))
            fail_msg("row %lld, column %d is %g, expected %g", (long long)row, i, (double)found[i],
                     (double)expected[i]);
}

static double largest_of(const struct sequence *s)
{
    double largest = 0;
    for (int64_t i = 0; i < s->length * OUT; i++)
        largest = fmax(largest, fabs((double)s->expected[i]));
    return largest;
}

/* Runs sequences in parts of random lengths. A batch may contain parts of several sequences, and a whole item. */
static void run_together(struct resident *r, const struct sequence *sequences, struct progress *all, double bound)
{
    static float whole[LONGEST * OUT];
    for (bool more = true; more;) {
        struct engine_item items[ITEMS];
        int of[ITEMS];
        int64_t count = 0;
        if (random_size(0, 3) == 0) {
            of[count] = -1;
            items[count++] = item_of(r, &sequences[0], 0, 0, sequences[0].length, NULL, whole);
        }
        for (int i = 0; i < SEQUENCES; i++) {
            struct progress *p = &all[i];
            int64_t rows = random_size(0, 2) ? 1 : random_size(1, 60), left = sequences[i].length - p->done;
            if (left == 0 || random_size(0, 4) == 0)
                continue;
            p->rows[p->parts] = rows = rows < left ? rows : left;
            p->last = (int32_t)rows - 1;
            of[count] = i;
            items[count++] =
                item_of(r, &sequences[i], 1 + (i + 1) % SEQUENCES, p->done, rows, &p->last, p->found[p->parts]);
        }
        if (count > 0)
            run(r, items, count);
        for (int64_t i = 0; i < count; i++) {
            if (of[i] < 0) {
                for (int64_t row = 0; row < sequences[0].length; row++)
                    expect_row(whole + row * OUT, sequences[0].expected + row * OUT, largest_of(&sequences[0]), bound,
                               row);
                continue;
            }
            const struct sequence *s = &sequences[of[i]];
            struct progress *p = &all[of[i]];
            p->done += p->rows[p->parts];
            expect_row(p->found[p->parts++], s->expected + (p->done - 1) * OUT, largest_of(s), bound, p->done - 1);
        }
        more = false;
        for (int i = 0; i < SEQUENCES; i++)
            more |= all[i].done < sequences[i].length;
    }
}

static void run_alone(struct resident *r, const struct sequence *s, const struct progress *p, enum dtype dtype)
{
    for (int64_t part = 0, done = 0; part < p->parts; done += p->rows[part++]) {
        float found[OUT];
        double difference = 0, norm = 0;
        int32_t last = (int32_t)p->rows[part] - 1;
        struct engine_item item = item_of(r, s, SEQUENCES + 1, done, p->rows[part], &last, found);
        run(r, &item, 1);
        for (int i = 0; i < OUT; i++) {
            difference += pow((double)found[i] - (double)p->found[part][i], 2);
            norm += pow((double)found[i], 2);
        }
        assert_true(sqrt(difference) <= alone_tolerance(dtype) * sqrt(norm));
    }
}

static struct weights *make_weights(const struct sizes *s, void **file)
{
    int64_t width = s->kind == SHIFT ? columns_of(s) : s->heads * s->d;
    const struct tensor_shape shapes[] = {{"out", OUT, width}, {"e", CONTEXT, K}};
    return tensors_random(shapes, s->kind == ATTEND_CONTEXT ? 2 : 1, file);
}

/* Makes random sequences. The CPU computes the expected rows. */
static void make_sequences(const struct sizes *s, const struct weights *weights, struct sequence *sequences)
{
    struct resident cpu = place(&backend_cpu, DTYPE_F32, s, weights, 0);
    assert_in_range(cpu.columns, 1, MAX_COLUMNS);
    for (int i = 0; i < SEQUENCES; i++) {
        struct sequence *made = &sequences[i];
        made->length = random_size(1, LONGEST / (s->bucket * s->fold)) * s->bucket * s->fold;
        made->x = malloc((size_t)(LONGEST * cpu.columns) * sizeof *made->x);
        made->expected = malloc(LONGEST * OUT * sizeof *made->expected);
        for (int64_t j = 0; j < made->length * cpu.columns; j++)
            made->x[j] = random_float() * 2;
        for (int64_t j = 0; j < CONTEXT * cpu.columns; j++)
            made->context[j] = random_float() * 2;
        struct engine_item item = item_of(&cpu, made, 0, 0, made->length, NULL, made->expected);
        run(&cpu, &item, 1);
    }
    leave(&cpu);
}

static const struct backend_functions *load_cuda(void)
{
    struct error error;
    const struct backend_functions *cuda = backend_cuda_load(&error);
    if (!cuda)
        fail_msg("%s", error.message);
    return cuda;
}

static void test_sizes(void **state)
{
    static struct sequence sequences[SEQUENCES];
    static struct progress all[SEQUENCES];
    const struct sizes *s = *state;
    void *file;
    struct weights *weights = make_weights(s, &file);
    make_sequences(s, weights, sequences);
    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++) {
        struct resident cuda = place(load_cuda(), dtypes[d].dtype, s, weights, SEQUENCES + 1);
        memset(all, 0, sizeof all);
        run_together(&cuda, sequences, all, dtypes[d].bound);
        for (int i = 0; i < SEQUENCES; i++)
            run_alone(&cuda, &sequences[i], &all[i], dtypes[d].dtype);
        leave(&cuda);
    }
    for (int i = 0; i < SEQUENCES; i++) {
        free(sequences[i].x);
        free(sequences[i].expected);
    }
    weights_close(weights);
    free(file);
}

/* ---- Steps ---- */

/* From the third batch of single rows on, a batch is one launch of a graph. Batches of three and four sequences have
 * the same batch shape, so they share the graph. */
static void test_steps_replay_a_graph(void **state)
{
    (void)state;
    static struct sequence sequences[SEQUENCES];
    float found[ITEMS][OUT];
    const int32_t last = 0;
    void *file;
    struct weights *weights = make_weights(&sizes[0], &file);
    make_sequences(&sizes[0], weights, sequences);
    struct resident cuda = place(load_cuda(), DTYPE_F32, &sizes[0], weights, ITEMS);
    for (int64_t step = 0; step < 12; step++) {
        struct engine_item items[ITEMS];
        int64_t n = 3 + step % 2, launched = (int64_t)count(LAUNCHES), graphs = (int64_t)count(GRAPH_LAUNCHES);
        for (int64_t i = 0; i < n; i++)
            items[i] = item_of(&cuda, &sequences[i % SEQUENCES], 1 + i, 0, 1, &last, found[i]);
        run(&cuda, items, n);
        for (int64_t i = 0; i < n; i++) {
            const struct sequence *s = &sequences[i % SEQUENCES];
            expect_row(found[i], s->expected, largest_of(s), dtypes[0].bound, 0);
        }
        if (on_device() || step < 2)
            continue;
        assert_int_equal((int64_t)count(GRAPH_LAUNCHES) - graphs, 1);
        assert_int_equal((int64_t)count(LAUNCHES) - launched, 0);
    }
    for (int i = 0; i < SEQUENCES; i++) {
        free(sequences[i].x);
        free(sequences[i].expected);
    }
    leave(&cuda);
    weights_close(weights);
    free(file);
}

/* The size of the model's memory includes the memory of the slots. */
static void test_the_memory_of_slots_is_counted(void **state)
{
    (void)state;
    void *file;
    size_t bytes[2];
    struct weights *weights = make_weights(&sizes[7], &file);
    for (int64_t i = 0; i < 2; i++) {
        struct resident cuda = place(load_cuda(), DTYPE_F32, &sizes[7], weights, 10 + 90 * i);
        bytes[i] = cuda.functions->scratch_bytes(cuda.model);
        assert_true(cuda.plan->state_floats >= 4 * 2 * 7 * 17); /* keys and values of two windows of two heads */
        if (i == 1)
            assert_int_equal(bytes[1] - bytes[0], 90 * cuda.plan->state_floats * (int64_t)sizeof(float));
        leave(&cuda);
    }
    weights_close(weights);
    free(file);
}

static int run_states(void)
{
    enum { CASES = sizeof sizes / sizeof *sizes };
    static const char *const kinds[] = {"linear", "local", "shift", "attend a context", "linear, of a context"};
    static char names[CASES][64];
    struct CMUnitTest tests[CASES + 2];
    random_seed(getenv("SEED") ? strtoull(getenv("SEED"), NULL, 10) : 20261123);
    for (int i = 0; i < CASES; i++) {
        snprintf(names[i], sizeof names[i], "%s, d %d, bucket %d, fold %d", kinds[sizes[i].kind], (int)sizes[i].d,
                 (int)sizes[i].bucket, (int)sizes[i].fold);
        tests[i] = (struct CMUnitTest){names[i], test_sizes, NULL, NULL, (void *)&sizes[i]};
    }
    tests[CASES] = (struct CMUnitTest)cmocka_unit_test(test_steps_replay_a_graph);
    tests[CASES + 1] = (struct CMUnitTest)cmocka_unit_test(test_the_memory_of_slots_is_counted);
    return _cmocka_run_group_tests("states of sequences", tests, CASES + 2, NULL, NULL);
}

int main(void)
{
    return run_schedules(run_states);
}
