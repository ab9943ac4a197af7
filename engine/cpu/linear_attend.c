/* Linear attention. For one head of one sequence, with queries Q (n, d), keys K (m, d) and values V (m, e), it is
 *
 *     context (d, e) = softmax(K)ᵀ V              the softmax of each column of K
 *     y (n, e)       = scale softmax(Q) context   the softmax of each row of Q, or Q itself with raw_queries
 *
 * The softmax of a column needs the sum over all m rows, so it is computed in parts. The powers are exp(K - maximum).
 * The context is first summed up from powers times values. At the end, it is divided by the sums of the powers.
 *
 * The causal form uses exp(K) in place of softmax(K). It divides the rows into buckets of equal length. A row of y
 * reads the context of earlier buckets only, and has its own denominator. If a bucket is 1 row, a row also reads
 * itself. The context is summed up chunk by chunk. A chunk is one large bucket, or several small buckets. Within a
 * chunk of several buckets, a row reads earlier buckets through scores between the rows, as in ordinary attention.
 *
 * A step with fold f divides each sequence into f sequences, which are computed separately. Folded sequence i contains
 * the rows at positions i, i + f, i + 2 f, … of the whole sequence.
 *
 * The rows of a sequence may come in several batches (engine_item.slot). In this case, the sequence's slot keeps the
 * context and the sums of powers. If a bucket has several rows, the slot also keeps the sums over the rows of an
 * incomplete bucket. They are separate, because rows of this bucket must not read them. */
#include "engine/cpu/linear_attend.h"

#include <math.h>
#include <string.h>

#define BLOCK_ROWS 128 /* number of rows that are computed at a time */
/* In rows. If a bucket has fewer rows, a chunk is several buckets. Such a chunk has at least INNER_BUCKET rows, and at
 * most BLOCK_ROWS. */
#define INNER_BUCKET 64

/* Sums over keys. */
struct key_sums {
    float *context; /* (d, e): sum of powersᵀ values */
    float *sums;    /* (d): sum of the powers */
};

/* One head of one sequence, and the calling thread's scratch. If the sequence is a folded sequence, its neighbouring
 * rows are `fold` rows apart in memory. The strides contain this factor. */
struct head_sequence {
    const struct cpu_run *run;
    const struct plan_step *step;
    const float *queries; /* (query_rows, d) */
    const float *keys;    /* (key_rows, d) */
    const float *values;  /* (key_rows, e) */
    const int32_t *mask;  /* (key_rows, 1), 0 for a masked row. NULL if there is no mask */
    float *out;           /* (query_rows, e) */
    int64_t query_stride, key_stride, value_stride, out_stride, mask_stride;
    int64_t query_rows, key_rows, d, e;
    int64_t earlier_rows;    /* number of rows of the sequence in earlier batches */
    bool in_parts;           /* the sequence has a slot, which must contain all sums after this batch */
    float *rows;             /* (BLOCK_ROWS, d): a block of queries after load_queries */
    float *powers;           /* (BLOCK_ROWS, d): a block of exp(keys - maxima) */
    float *scores;           /* (BLOCK_ROWS, BLOCK_ROWS): scores between the rows of a chunk */
    float *product;          /* (BLOCK_ROWS, e): the product of these scores and the values */
    struct key_sums seen;    /* sums over the keys so far. If the sequence has a slot, these sums are in the slot */
    struct key_sums pending; /* sums over the rows of an incomplete bucket. Only if the sequence has a slot */
    struct key_sums block;   /* sums over one block */
    float *maxima;           /* (d): maximum of each column of the keys. 0 in the causal form */
};

static bool is_masked(const struct head_sequence *s, int64_t row)
{
    return s->mask && !s->mask[row * s->mask_stride];
}

/* powers (rows, d) = exp(keys - maxima), and 0 in masked rows. */
static void load_powers(const struct head_sequence *s, int64_t first, int64_t rows)
{
    s->run->vector->exp_rows(rows, s->d, s->keys + first * s->key_stride, s->key_stride, s->maxima, s->powers);
    for (int64_t j = 0; s->mask && j < rows; j++)
        if (is_masked(s, first + j))
            memset(s->powers + j * s->d, 0, (size_t)s->d * sizeof *s->powers);
}

static void clear_sums(const struct head_sequence *s, struct key_sums sums)
{
    memset(sums.context, 0, (size_t)(s->d * s->e) * sizeof(float));
    memset(sums.sums, 0, (size_t)s->d * sizeof(float));
}

/* to += from. */
static void add_sums(const struct head_sequence *s, struct key_sums from, struct key_sums to)
{
    s->run->vector->add(s->d * s->e, to.context, from.context, 1.0f, to.context);
    s->run->vector->add(s->d, to.sums, from.sums, 1.0f, to.sums);
}

/* Adds the sums over one block to `to`. s->powers must contain the powers of the block. The block is summed up
 * separately first, because one long chain of additions would lose digits. */
static void add_block(const struct head_sequence *s, int64_t first, int64_t rows, struct key_sums to)
{
    products_multiply(s->run->products, &(struct product){
                                            .m = s->d,
                                            .n = s->e,
                                            .k = rows,
                                            .a = s->powers,
                                            .a_stride = s->d,
                                            .transpose_a = true,
                                            .b = s->values + first * s->value_stride,
                                            .b_stride = s->value_stride,
                                            .c = s->block.context,
                                            .c_stride = s->e,
                                        });
    memset(s->block.sums, 0, (size_t)s->d * sizeof *s->block.sums);
    s->run->vector->sum_rows(rows, s->d, s->powers, s->d, s->block.sums);
    add_sums(s, s->block, to);
}

static void add_rows(const struct head_sequence *s, int64_t first, int64_t end, struct key_sums to)
{
    for (; first < end; first += BLOCK_ROWS) {
        int64_t rows = least(BLOCK_ROWS, end - first);
        load_powers(s, first, rows);
        add_block(s, first, rows, to);
    }
}

/* Loads queries (rows, d) into s->rows as scale * softmax(query). With raw_queries, loads scale * query. */
static void load_queries(const struct head_sequence *s, int64_t first, int64_t rows)
{
    float scale = s->step->linear_attend.scale;
    for (int64_t r = 0; r < rows; r++) {
        float *row = s->rows + r * s->d;
        memcpy(row, s->queries + (first + r) * s->query_stride, (size_t)s->d * sizeof *row);
        if (!s->step->linear_attend.raw_queries)
            s->run->vector->softmax(s->d, 1.0f, row);
        for (int64_t i = 0; i < s->d; i++)
            row[i] *= scale;
    }
}

/* out (rows, e) = rows (rows, d) context (d, e). */
static void read_context(const struct head_sequence *s, int64_t first, int64_t rows)
{
    products_multiply(s->run->products, &(struct product){
                                            .m = rows,
                                            .n = s->e,
                                            .k = s->d,
                                            .a = s->rows,
                                            .a_stride = s->d,
                                            .b = s->seen.context,
                                            .b_stride = s->e,
                                            .c = s->out + first * s->out_stride,
                                            .c_stride = s->out_stride,
                                        });
}

/* Raises maxima[c] to the maximum of column c over the keys that are not masked. Rows between two masked rows are
 * processed together. */
static void raise_maxima(const struct head_sequence *s)
{
    for (int64_t first = 0, end; first < s->key_rows; first = end + 1) {
        for (end = first; end < s->key_rows && !is_masked(s, end);)
            end++;
        s->run->vector->maximum_rows(end - first, s->d, s->keys + first * s->key_stride, s->key_stride, s->maxima);
    }
}

/* Computes context = softmax(K)ᵀ V, with the softmax of each column of K. If all rows are masked, the sums and the
 * context are 0. */
static void sum_all_keys(const struct head_sequence *s)
{
    clear_sums(s, s->seen);
    for (int64_t i = 0; i < s->d; i++)
        s->maxima[i] = -INFINITY;
    raise_maxima(s);
    add_rows(s, 0, s->key_rows, s->seen);
    for (int64_t i = 0; i < s->d; i++)
        for (int64_t e = 0; e < s->e && s->seen.sums[i] != 0; e++)
            s->seen.context[i * s->e + e] /= s->seen.sums[i];
}

/* The form that is not causal. Every query reads the context of all keys. All keys come with the first part of a
 * sequence. */
static void attend_all(const struct head_sequence *s)
{
    if (s->earlier_rows == 0)
        sum_all_keys(s);
    for (int64_t first = 0; first < s->query_rows; first += BLOCK_ROWS) {
        int64_t rows = least(BLOCK_ROWS, s->query_rows - first);
        load_queries(s, first, rows);
        read_context(s, first, rows);
    }
}

/* For each row of a chunk of several buckets, adds to `out` the part that comes from earlier buckets of this chunk. If
 * a bucket is 1 row, a row also reads itself. Sets inner[r] to the sum of the scores of row r, which is a part of the
 * row's denominator. */
static void attend_chunk(const struct head_sequence *s, int64_t first, int64_t rows, float *inner)
{
    int64_t bucket = s->step->linear_attend.bucket;
    products_multiply(s->run->products, &(struct product){
                                            .m = rows,
                                            .n = rows,
                                            .k = s->d,
                                            .a = s->rows,
                                            .a_stride = s->d,
                                            .b = s->powers,
                                            .b_stride = s->d,
                                            .transpose_b = true,
                                            .c = s->scores,
                                            .c_stride = BLOCK_ROWS,
                                        });
    for (int64_t r = 0; r < rows; r++) {
        int64_t seen = bucket == 1 ? r + 1 : r / bucket * bucket;
        float *row = s->scores + r * BLOCK_ROWS;
        inner[r] = 0;
        for (int64_t j = 0; j < seen; j++)
            inner[r] += row[j];
        memset(row + seen, 0, (size_t)(rows - seen) * sizeof *row);
    }
    products_multiply(s->run->products, &(struct product){
                                            .m = rows,
                                            .n = s->e,
                                            .k = rows,
                                            .a = s->scores,
                                            .a_stride = BLOCK_ROWS,
                                            .b = s->values + first * s->value_stride,
                                            .b_stride = s->value_stride,
                                            .c = s->product,
                                            .c_stride = s->e,
                                        });
    for (int64_t r = 0; r < rows; r++) {
        float *out = s->out + (first + r) * s->out_stride;
        s->run->vector->add(s->e, out, s->product + r * s->e, 1.0f, out);
    }
}

/* out /= max(row · sums + inner, epsilon). A NaN stays a NaN. */
static void divide(const struct head_sequence *s, int64_t first, int64_t rows, const float *inner)
{
    for (int64_t r = 0; r < rows; r++) {
        float denominator = inner[r], *out = s->out + (first + r) * s->out_stride;
        for (int64_t i = 0; i < s->d; i++)
            denominator += s->rows[r * s->d + i] * s->seen.sums[i];
        float inverse = 1.0f / (denominator < PLAN_CAUSAL_EPSILON ? PLAN_CAUSAL_EPSILON : denominator);
        for (int64_t i = 0; i < s->e; i++)
            out[i] *= inverse;
    }
}

/* Computes the results of rows [start, end). These rows read the sums over the keys so far. With inner_scores, [start,
 * end) is a chunk of several buckets, and a row also reads earlier buckets of this chunk. */
static void read_rows(const struct head_sequence *s, int64_t start, int64_t end, bool inner_scores)
{
    for (int64_t first = start; first < end; first += BLOCK_ROWS) {
        int64_t rows = least(BLOCK_ROWS, end - first);
        float inner[BLOCK_ROWS] = {0};
        load_queries(s, first, rows);
        read_context(s, first, rows);
        if (inner_scores) {
            load_powers(s, first, rows);
            attend_chunk(s, first, rows, inner);
        }
        divide(s, first, rows, inner);
    }
}

/* Computes the first rows of this batch, up to the end of the bucket that an earlier batch left incomplete. Returns the
 * number of these rows. */
static int64_t attend_pending(const struct head_sequence *s)
{
    int64_t bucket = s->step->linear_attend.bucket, done = s->earlier_rows % bucket;
    if (done == 0)
        return 0;
    int64_t rows = least(bucket - done, s->query_rows);
    read_rows(s, 0, rows, false);
    add_rows(s, 0, rows, s->pending);
    if (done + rows == bucket) {
        add_sums(s, s->pending, s->seen);
        clear_sums(s, s->pending);
    }
    return rows;
}

/* Computes a single new row of a sequence with a slot, as in generation. The sums are in the slot, and are read and
 * written only once. */
static void attend_next(const struct head_sequence *s)
{
    const struct vector_functions *vector = s->run->vector;
    int64_t bucket = s->step->linear_attend.bucket;
    const float none = 0;
    load_queries(s, 0, 1);
    load_powers(s, 0, 1);
    if (bucket == 1) { /* the row also reads its own key and value */
        vector->add(s->d, s->seen.sums, s->powers, 1.0f, s->seen.sums);
        vector->step_context(s->d, s->e, s->rows, s->powers, s->values, s->seen.context, s->out);
        divide(s, 0, 1, &none);
        return;
    }
    vector->step_context(s->d, s->e, s->rows, NULL, NULL, s->seen.context, s->out);
    divide(s, 0, 1, &none);
    vector->add(s->d, s->pending.sums, s->powers, 1.0f, s->pending.sums);
    vector->step_context(s->d, s->e, NULL, s->powers, s->values, s->pending.context, NULL);
    if ((s->earlier_rows + 1) % bucket == 0) {
        add_sums(s, s->pending, s->seen);
        clear_sums(s, s->pending);
    }
}

/* Processes one chunk after another. The rows of the chunk read the sums first. Afterwards, the chunk is added to the
 * sums. The rows of one large bucket do not read one another. Several small buckets fit in one block. */
static void attend_causal(const struct head_sequence *s)
{
    int64_t bucket = s->step->linear_attend.bucket, chunk = bucket;
    bool inner_scores = bucket < INNER_BUCKET;
    if (inner_scores)
        chunk = round_up(INNER_BUCKET, bucket);
    memset(s->maxima, 0, (size_t)s->d * sizeof *s->maxima);
    if (s->earlier_rows == 0)
        clear_sums(s, s->seen);
    if (s->earlier_rows == 0 && s->in_parts && bucket > 1)
        clear_sums(s, s->pending);
    if (s->in_parts && s->query_rows == 1) {
        attend_next(s);
        return;
    }
    for (int64_t start = attend_pending(s); start < s->query_rows; start += chunk) {
        int64_t end = least(start + chunk, s->query_rows), complete = end - (end - start) % bucket;
        read_rows(s, start, end, inner_scores);
        if (end == s->query_rows && !s->in_parts)
            break; /* no later row reads the sums of this chunk */
        add_rows(s, start, complete, s->seen);
        if (complete < end)
            add_rows(s, complete, end, s->pending);
    }
}

static struct key_sums place_sums(const struct head_sequence *s, float **memory)
{
    struct key_sums sums = {.context = *memory, .sums = *memory + s->d * s->e};
    *memory = sums.sums + s->d;
    return sums;
}

/* Places the arrays of the sequence in the scratch. `state` is the head's part of the slot, or NULL without a slot. If
 * the attention is not causal, the slot keeps only the finished context, without sums. */
static void place(struct head_sequence *s, float *scratch, float *state)
{
    int64_t d = s->d, e = s->e;
    s->rows = scratch;
    s->powers = s->rows + BLOCK_ROWS * d;
    s->product = s->powers + BLOCK_ROWS * d;
    s->scores = s->product + BLOCK_ROWS * e;
    float *memory = s->scores + BLOCK_ROWS * BLOCK_ROWS;
    s->block = place_sums(s, &memory);
    s->seen = place_sums(s, &memory);
    s->maxima = memory;
    if (state && !s->step->linear_attend.causal)
        s->seen.context = state;
    if (!state || !s->step->linear_attend.causal)
        return;
    s->seen = place_sums(s, &state);
    if (s->step->linear_attend.bucket > 1)
        s->pending = place_sums(s, &state);
}

int64_t cpu_linear_attend_scratch(const struct cpu_run *run, const struct plan_step *step)
{
    (void)run; /* the scratch depends only on the step */
    int64_t d = step->linear_attend.dim_head, e = step->linear_attend.dim_value;
    return 2 * BLOCK_ROWS * d + BLOCK_ROWS * e + BLOCK_ROWS * BLOCK_ROWS + 2 * d * e + 3 * d;
}

/* The number of floats of a slot that belong to one head of one folded sequence. */
static int64_t state_floats(const struct plan_step *step)
{
    int64_t d = step->linear_attend.dim_head, e = step->linear_attend.dim_value;
    if (!step->linear_attend.causal)
        return d * e;
    return (step->linear_attend.bucket > 1 ? 2 : 1) * (d * e + d);
}

/* The number of rows among `rows` rows at offset, offset + fold, offset + 2 * fold, … */
static int64_t folded_rows(int64_t rows, int64_t offset, int64_t fold)
{
    return rows > offset ? (rows - offset + fold - 1) / fold : 0;
}

/* Describes one head of folded sequence f. */
static struct head_sequence sequence_of(const struct cpu_run *run, const struct plan_step *step, int64_t sequence,
                                        int64_t f, int64_t head)
{
    const struct layout *from = layout_of(run, step->x);
    const struct layout *keys = layout_of(run, step->keys);
    int64_t query_columns = columns_of(run, step->x), key_columns = columns_of(run, step->keys);
    int64_t value_columns = columns_of(run, step->values), out_columns = columns_of(run, step->y);
    int64_t d = step->linear_attend.dim_head, e = step->linear_attend.dim_value, fold = step->linear_attend.fold;
    int64_t value_column = (step->linear_attend.first_head + head) * e,
            column = (step->linear_attend.first_head + head) * d;
    int64_t earlier = padder_earlier_rows(run->plan, run->batch, sequence);
    int64_t offset = ((f - earlier) % fold + fold) % fold; /* offset of the folded sequence's first row in this batch */
    int64_t owner = padder_owner(keys, sequence);
    int64_t query = from->starts[sequence] + offset, key = keys->starts[owner] + offset;
    float *state = state_of(run, sequence);
    struct head_sequence s = {
        .run = run,
        .step = step,
        .queries = floats_of(run, step->x) + query * query_columns + column,
        .keys = floats_of(run, step->keys) + key * key_columns + column,
        .values = floats_of(run, step->values) + key * value_columns + value_column,
        .mask = step->z == PLAN_NONE ? NULL : ids_of(run, step->z) + key,
        .out = floats_of(run, step->y) + query * out_columns + head * e,
        .query_stride = query_columns * fold,
        .key_stride = key_columns * fold,
        .value_stride = value_columns * fold,
        .out_stride = out_columns * fold,
        .mask_stride = fold,
        .query_rows = folded_rows(from->starts[sequence + 1] - from->starts[sequence], offset, fold),
        .key_rows = folded_rows(keys->starts[owner + 1] - keys->starts[owner], offset, fold),
        .d = d,
        .e = e,
        .earlier_rows = (earlier + offset) / fold,
        .in_parts = state != NULL,
    };
    place(&s, scratch_of(run), state ? state + (f * step->linear_attend.heads + head) * state_floats(step) : NULL);
    return s;
}

void cpu_linear_attend(const struct cpu_run *run, const struct plan_step *step)
{
    int64_t tasks = layout_of(run, step->x)->n_sequences * step->linear_attend.fold * step->linear_attend.heads;
#pragma omp parallel for num_threads(threads_for(run, tasks)) schedule(dynamic)
    for (int64_t t = 0; t < tasks; t++) {
        struct head_sequence s =
            sequence_of(run, step, t / step->linear_attend.heads / step->linear_attend.fold,
                        t / step->linear_attend.heads % step->linear_attend.fold, t % step->linear_attend.heads);
        if (step->linear_attend.causal)
            attend_causal(&s);
        else
            attend_all(&s);
    }
}
