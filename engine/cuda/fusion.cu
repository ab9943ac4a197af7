#include "engine/cuda/fusion.h"
#include "engine/cuda/norm.h"
#include "engine/cuda/project.h"
#include "engine/cuda/rows.h"
#include "engine/cuda/upload.h"

#include <stdlib.h>

static struct norm norm_of(struct cuda_run *run, const struct plan_step *step)
{
    struct norm norm = {float_weight_of(run, step->weight), float_weight_of(run, step->bias), step->layer_norm.epsilon};
    return norm;
}

/* The place for the operand x of the last step of the launch, if later steps read x. NULL if none reads x. */
template <typename T>
static T *row_to_keep(const struct cuda_run *run, const struct plan_step *first, const struct plan_step *last)
{
    return run->launches[first - run->plan->steps].keeps ? elements_of<T>(run, last->x) : NULL;
}

/* ---- Embeddings and their positions ---- */

template <typename T> struct embedding {
    const int32_t *ids;
    struct places places;
    const T *table;         /* (vocabulary, columns) */
    const T *major, *minor; /* the tables A and B of OP_ADD_POSITIONS */
    int64_t period, columns, vocabulary;
};

/* Sets `values` to N elements of the table's row for the id, beginning with `column`. Sets them to NaN if the table has
 * no such row. */
template <typename T, int N>
static __device__ __forceinline__ void load_embedding(float (&values)[N], const struct embedding<T> &e, int32_t id,
                                                      int64_t column)
{
    for (int i = 0; i < N; i++)
        values[i] = NAN;
    if (id >= 0 && id < e.vocabulary)
        load(values, e.table + id * e.columns + column);
}

/* y is the norm of the sums. If norm.gain is NULL, y is the sums themselves. */
template <typename T, int N>
static __global__ void embed_with_positions(int64_t rows, struct embedding<T> e, struct norm norm, T *sums, T *y)
{
    int64_t row = warp_of_grid();
    if (row >= rows || !is_there(e.places, row))
        return;
    int64_t position = whole_position_of(e.places, row);
    int32_t id = e.ids[row];
    const T *major = e.major + position / e.period * e.columns;
    const T *minor = e.minor ? e.minor + position % e.period * e.columns : NULL;
    T *row_of_sums = sums ? sums + row * e.columns : NULL;
    y += row * e.columns;
    auto make = [=](float(&values)[N], int64_t c) {
        load_embedding(values, e, id, c);
        add_tables(values, major, minor, c);
    };
    if (norm.gain) {
        normalise<N>(e.columns, norm, make, row_of_sums,
                     [=](const float(&values)[N], int64_t c) { store(y + c, values); });
        return;
    }
    for (int64_t c = warp_thread() * N; c < e.columns; c += WARP * N) {
        float values[N];
        make(values, c);
        store(y + c, values);
    }
}

template <typename T>
static __global__ void embed_with_sinusoids(int64_t rows, struct embedding<T> e, const float *frequencies, T *y)
{
    int64_t row = warp_of_grid();
    if (row >= rows || !is_there(e.places, row))
        return;
    float position = (float)whole_position_of(e.places, row);
    for (int64_t c = warp_thread(); c < e.columns; c += WARP) {
        float x[1];
        load_embedding(x, e, e.ids[row], c);
        y[row * e.columns + c] = of_float<T>(sinusoid(position, frequencies, c, e.columns / 2) + x[0]);
    }
}

/* The uploaded ids. The kernel does not read the copy of the ids in the arena, because the kernel may overwrite this
 * copy. */
static const int32_t *uploaded_ids(const struct cuda_run *run, int value)
{
    int input = 0;
    while (run->plan->inputs[input].value != value)
        input++;
    return (const int32_t *)(run->upload->device + run->upload->rows[input]);
}

template <typename T> static embedding<T> embedding_of(struct cuda_run *run, const struct plan_step *embed)
{
    embedding<T> e = {};
    e.ids = uploaded_ids(run, embed->x);
    e.places = places_of(run, embed->x);
    e.table = weight_of<T>(run, embed->table);
    e.columns = columns_of(run, embed->y);
    e.vocabulary = run->plan->weights[embed->table].rows;
    return e;
}

/* `norm` is the layer norm that follows, or NULL. */
template <typename T>
static void launch_embedding(struct cuda_run *run, const struct plan_step *step, const struct plan_step *norm)
{
    const struct plan_step *positions = step + 1;
    struct embedding<T> e = embedding_of<T>(run, step);
    e.major = weight_of<T>(run, positions->table);
    e.minor = weight_of<T>(run, positions->minor_table);
    e.period = positions->add_positions.period;
    struct norm how = {};
    if (norm)
        how = norm_of(run, norm);
    with_pack<T>(e.columns, [&](auto n) {
        launch_rows(run, embed_with_positions<T, n.value>, rows_of(run, step->x), e, how,
                    norm ? row_to_keep<T>(run, step, norm) : NULL, elements_of<T>(run, (norm ? norm : positions)->y));
    });
}

template <typename T> static void run_embed_positions(struct cuda_run *run, const struct plan_step *step)
{
    launch_embedding<T>(run, step, NULL);
}

template <typename T> static void run_embed_positions_norm(struct cuda_run *run, const struct plan_step *step)
{
    launch_embedding<T>(run, step, step + 2);
}

template <typename T> static void run_embed_sinusoids(struct cuda_run *run, const struct plan_step *step)
{
    launch_rows(run, embed_with_sinusoids<T>, rows_of(run, step->x), embedding_of<T>(run, step),
                float_weight_of(run, step[1].weight), elements_of<T>(run, step[1].y));
}

/* ---- A sum and its norm ---- */

/* y may overwrite x or z. */
template <typename T, int N>
static __global__ void add_and_norm(int64_t rows, int64_t columns, const T *x, const T *z, float scale,
                                    struct norm norm, T *sums, T *y)
{
    int64_t row = warp_of_grid();
    if (row >= rows)
        return;
    x += row * columns;
    z += row * columns;
    y += row * columns;
    auto make = [=](float(&values)[N], int64_t c) {
        float others[N];
        load(values, x + c);
        load(others, z + c);
        for (int i = 0; i < N; i++)
            values[i] = scale * (values[i] + others[i]);
    };
    normalise<N>(columns, norm, make, sums ? sums + row * columns : NULL,
                 [=](const float(&values)[N], int64_t c) { store(y + c, values); });
}

template <typename T> static void run_add_norm(struct cuda_run *run, const struct plan_step *step)
{
    int64_t columns = columns_of(run, step->x);
    with_pack<T>(columns, [&](auto n) {
        launch_rows(run, add_and_norm<T, n.value>, rows_of(run, step->x), columns, elements_of<T>(run, step->x),
                    elements_of<T>(run, step->z), step->add.scale, norm_of(run, step + 1),
                    row_to_keep<T>(run, step, step + 1), elements_of<T>(run, step[1].y));
    });
}

/* ---- A norm whose rows are shifted ---- */

/* Writes a pack of a row to the row that is `shift` rows further. All elements of the pack belong to one segment. If no
 * row is shifted to the row's own place, writes zeros to this place. */
template <typename T, int N>
static __device__ __forceinline__ void shift_pack(const float (&values)[N], int64_t columns, int64_t shift,
                                                  int64_t position, int64_t length, T *y)
{
    const float zeros[N] = {};
    if (position + shift >= 0 && position + shift < length)
        store(y + shift * columns, values);
    if (position - shift < 0 || position - shift >= length)
        store(y, zeros);
}

/* Normalises rows, and writes each segment to the row that it is shifted to. A warp computes one row. */
template <typename T, int N>
static __global__ void norm_and_shift(int64_t rows, int64_t columns, const T *x, struct places places, struct norm norm,
                                      struct shifts shifts, T *normed, T *y)
{
    int64_t row = warp_of_grid();
    if (row >= rows || !is_there(places, row))
        return;
    int64_t item = sequence_of(places, row), position = row - places.starts[item], length = places.lengths[item];
    x += row * columns;
    y += row * columns;
    T *row_of_normed = normed ? normed + row * columns : NULL;
    auto make = [=](float(&values)[N], int64_t c) { load(values, x + c); };
    normalise<N>(columns, norm, make, (T *)NULL, [=](const float(&values)[N], int64_t c) {
        if (row_of_normed)
            store(row_of_normed + c, values);
        if (segment_of(shifts, columns, c) == segment_of(shifts, columns, c + N - 1)) {
            shift_pack(values, columns, shift_of(shifts, columns, c), position, length, y + c);
            return;
        }
        for (int i = 0; i < N; i++) {
            const float value[1] = {values[i]};
            shift_pack(value, columns, shift_of(shifts, columns, c + i), position, length, y + c + i);
        }
    });
}

template <typename T> static void run_norm_shift(struct cuda_run *run, const struct plan_step *step)
{
    int64_t columns = columns_of(run, step->x);
    with_pack<T>(columns, [&](auto n) {
        launch_rows(run, norm_and_shift<T, n.value>, rows_of(run, step->x), columns, elements_of<T>(run, step->x),
                    places_of(run, step->x), norm_of(run, step), shifts_of(step + 1),
                    row_to_keep<T>(run, step, step + 1), elements_of<T>(run, step[1].y));
    });
}

/* ---- Finding steps to fuse ---- */

static bool is_read_behind(const struct plan *plan, int value, int step)
{
    for (int i = step + 1; i < plan->n_steps; i++) {
        if (plan_reads_value(&plan->steps[i], value))
            return true;
    }
    return false;
}

static bool is_input(const struct plan *plan, int value)
{
    for (int i = 0; i < plan->n_inputs; i++)
        if (plan->inputs[i].value == value)
            return true;
    return false;
}

static bool overlap(const struct plan_value *a, const struct plan_value *b)
{
    return a->offset < b->offset + b->bytes && b->offset < a->offset + a->bytes;
}

/* Whether the step has this operation, and reads the result of the step before it as x. */
static bool follows(const struct plan *plan, int step, enum operation operation)
{
    return step < plan->n_steps && plan->steps[step].operation == operation &&
           plan->steps[step].x == plan->steps[step - 1].y;
}

/* Whether the step is a layer norm of whole rows, and reads the result of the step before it as x. */
static bool norm_follows(const struct plan *plan, int step)
{
    return follows(plan, step, OP_LAYER_NORM) &&
           plan->weights[plan->steps[step].weight].columns == plan->values[plan->steps[step].x].columns;
}

/* Whether a fused kernel may write one value while it reads the other. Both may be at the same place if they have the
 * same number of columns, because a warp reads its row before it writes the row. */
static bool may_write_over(const struct plan *plan, int written, int read)
{
    const struct plan_value *y = &plan->values[written], *x = &plan->values[read];
    return !overlap(y, x) || (y->offset == x->offset && y->columns == x->columns);
}

template <typename T> static struct cuda_launch fuse_embed(const struct plan *plan, int i)
{
    struct cuda_launch launch = {};
    bool positions = follows(plan, i + 1, OP_ADD_POSITIONS);
    if (!is_input(plan, plan->steps[i].x) || (!positions && !follows(plan, i + 1, OP_ADD_SINUSOIDS)) ||
        is_read_behind(plan, plan->steps[i].y, i + 1))
        return launch;
    launch.run = positions ? run_embed_positions<T> : run_embed_sinusoids<T>;
    launch.steps = 2;
    if (positions && norm_follows(plan, i + 2)) {
        launch.run = run_embed_positions_norm<T>;
        launch.steps = 3;
    }
    return launch;
}

template <typename T> static struct cuda_launch fuse_add(const struct plan *plan, int i)
{
    struct cuda_launch launch = {};
    const struct plan_step *add = &plan->steps[i];
    if (!norm_follows(plan, i + 1) || !may_write_over(plan, add[1].y, add->x) ||
        !may_write_over(plan, add[1].y, add->z))
        return launch;
    launch.run = run_add_norm<T>;
    launch.steps = 2;
    return launch;
}

/* A row of x is written to several rows of y. So x and y must not overlap, and y must have all rows of the item. A
 * shift that keeps a segment in slots is not fused. In a fused kernel, the warp of an item's last row could write the
 * segment before the warp of the first row has read the old segment. */
template <typename T> static struct cuda_launch fuse_norm(const struct plan *plan, int i)
{
    struct cuda_launch launch = {};
    const struct plan_step *norm = &plan->steps[i];
    if (!follows(plan, i + 1, OP_SHIFT_TOKENS) || (plan->n_slots > 0 && norm[1].state != PLAN_NONE))
        return launch;
    const struct plan_value *x = &plan->values[norm->x], *y = &plan->values[norm[1].y];
    if (plan->weights[norm->weight].columns != x->columns || x->axis != y->axis ||
        plan->axes[x->axis].kind == AXIS_WANTED || overlap(x, y))
        return launch;
    launch.run = run_norm_shift<T>;
    launch.steps = 2;
    return launch;
}

template <typename T> static struct cuda_launch launch_of(const struct plan *plan, enum dtype dtype, int i)
{
    enum operation operation = plan->steps[i].operation;
    struct cuda_launch launch = {};
    if (operation == OP_EMBED)
        launch = fuse_embed<T>(plan, i);
    if (operation == OP_ADD)
        launch = fuse_add<T>(plan, i);
    if (operation == OP_LAYER_NORM)
        launch = fuse_norm<T>(plan, i);
    if (launch.steps == 0) {
        launch.run = cuda_operation_of(dtype, operation)->run;
        launch.steps = operation == OP_PROJECT_SEQUENCE && cuda_projects_pair(plan, &plan->steps[i]) ? 2 : 1;
    }
    int last = i + launch.steps - 1;
    launch.keeps = is_read_behind(plan, plan->steps[last].x, last);
    return launch;
}

struct cuda_launch *fusion_find(const struct plan *plan, enum dtype dtype)
{
    struct cuda_launch *launches = (struct cuda_launch *)calloc((size_t)plan->n_steps + 1, sizeof *launches);
    for (int i = 0; launches && i < plan->n_steps; i += launches[i].steps)
        launches[i] = dtype == DTYPE_BF16  ? launch_of<bf16>(plan, dtype, i)
                      : dtype == DTYPE_F16 ? launch_of<f16>(plan, dtype, i)
                                           : launch_of<float>(plan, dtype, i);
    return launches;
}
