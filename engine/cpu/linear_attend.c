/* One head of one sequence, with queries Q (n, d), keys K (m, d) and values V (m, e), is
 *
 *     context (d, e) = softmax over the rows of K, transposed, times V
 *     y (n, e)       = scale * softmax of each row of Q, times context
 *
 * The softmax over rows is computed in parts. The context is summed up from the powers exp(K - maximum). At the end it
 * is divided by the sums of these powers. The causal form sums up the context bucket by bucket, where a bucket is a
 * number of rows. A row of y reads the context of earlier buckets only, and has its own denominator. */
#include "engine/cpu/linear_attend.h"

#include <math.h>
#include <string.h>

#define BLOCK_ROWS 128 /* rows that are computed at a time */
/* In rows. Of smaller buckets, several are computed at a time, with scores between their rows. */
#define INNER_BUCKET 64

/* One head of one sequence, and the calling thread's scratch. In a folded sequence, row j is j * fold rows after the
 * first row. The strides include the fold. */
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
    float *rows;       /* (BLOCK_ROWS, d): a block of queries, prepared for the product */
    float *powers;     /* (BLOCK_ROWS, d): a block of exp(keys - maxima) */
    float *scores;     /* (BLOCK_ROWS, BLOCK_ROWS) */
    float *product;    /* (BLOCK_ROWS, e) */
    float *context;    /* (d, e): sum over the keys so far of powersᵀ values */
    float *partial;    /* (d, e): likewise, for one block */
    float *sums;       /* (d): sums of the powers so far */
    float *block_sums; /* (d): sums of the powers of one block */
    float *maxima;     /* (d): of each column of the keys */
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

/* Adds a block to context and sums. The block is summed up separately first, because one long chain of additions would
 * lose digits.
 */
static void add_block(const struct head_sequence *s, int64_t first, int64_t rows)
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
                                            .c = s->partial,
                                            .c_stride = s->e,
                                        });
    s->run->vector->add(s->d * s->e, s->context, s->partial, 1.0f, s->context);
    memset(s->block_sums, 0, (size_t)s->d * sizeof *s->block_sums);
    s->run->vector->sum_rows(rows, s->d, s->powers, s->d, s->block_sums);
    s->run->vector->add(s->d, s->sums, s->block_sums, 1.0f, s->sums);
}

/* rows (rows, d) = scale * softmax of each query, or of raw queries scale * query. */
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

/* out (rows, e) = rows (rows, d) context (d, e) */
static void read_context(const struct head_sequence *s, int64_t first, int64_t rows)
{
    products_multiply(s->run->products, &(struct product){
                                            .m = rows,
                                            .n = s->e,
                                            .k = s->d,
                                            .a = s->rows,
                                            .a_stride = s->d,
                                            .b = s->context,
                                            .b_stride = s->e,
                                            .c = s->out + first * s->out_stride,
                                            .c_stride = s->out_stride,
                                        });
}

/* maxima = the maximum of each column over the keys that are not masked. Rows between two masked rows are processed
 * together.
 */
static void raise_maxima(const struct head_sequence *s)
{
    for (int64_t first = 0, end; first < s->key_rows; first = end + 1) {
        for (end = first; end < s->key_rows && !is_masked(s, end);)
            end++;
        s->run->vector->maximum_rows(end - first, s->d, s->keys + first * s->key_stride, s->key_stride, s->maxima);
    }
}

/* Every query reads the context of all keys. If all rows are masked, the sums are 0, and so is the result. */
static void attend_all(const struct head_sequence *s)
{
    for (int64_t i = 0; i < s->d; i++)
        s->maxima[i] = -INFINITY;
    raise_maxima(s);
    for (int64_t first = 0; first < s->key_rows; first += BLOCK_ROWS) {
        int64_t rows = least(BLOCK_ROWS, s->key_rows - first);
        load_powers(s, first, rows);
        add_block(s, first, rows);
    }
    for (int64_t i = 0; i < s->d; i++)
        for (int64_t e = 0; e < s->e && s->sums[i] != 0; e++)
            s->context[i * s->e + e] /= s->sums[i];
    for (int64_t first = 0; first < s->query_rows; first += BLOCK_ROWS) {
        int64_t rows = least(BLOCK_ROWS, s->query_rows - first);
        load_queries(s, first, rows);
        read_context(s, first, rows);
    }
}

/* For the rows of one chunk, adds to `out` the part that comes from earlier buckets of the same chunk. If buckets have
 * 1 row, a row also reads itself. inner[r] becomes the sum of the scores of row r, which is a part of its denominator.
 */
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
            denominator += s->rows[r * s->d + i] * s->sums[i];
        float inverse = 1.0f / (denominator < PLAN_CAUSAL_EPSILON ? PLAN_CAUSAL_EPSILON : denominator);
        for (int64_t i = 0; i < s->e; i++)
            out[i] *= inverse;
    }
}

/* Processes one chunk after another. First its rows read the context, then the chunk is added to the context. A chunk
 * is one large bucket, whose rows do not read each other, or several small buckets that fit in a block. */
static void attend_causal(const struct head_sequence *s)
{
    int64_t bucket = s->step->linear_attend.bucket, chunk = bucket;
    bool inner_scores = bucket < INNER_BUCKET;
    if (inner_scores)
        chunk = round_up(INNER_BUCKET, bucket);
    memset(s->maxima, 0, (size_t)s->d * sizeof *s->maxima);
    for (int64_t start = 0; start < s->query_rows; start += chunk) {
        int64_t end = least(start + chunk, s->query_rows);
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
        for (int64_t first = start; first < end; first += BLOCK_ROWS) {
            int64_t rows = least(BLOCK_ROWS, end - first);
            load_powers(s, first, rows);
            add_block(s, first, rows);
        }
    }
}

/* Divides the scratch for the sequence, and sets context and sums to 0. */
static void place_scratch(struct head_sequence *s, float *scratch)
{
    int64_t d = s->d, e = s->e;
    s->rows = scratch;
    s->powers = s->rows + BLOCK_ROWS * d;
    s->product = s->powers + BLOCK_ROWS * d;
    s->scores = s->product + BLOCK_ROWS * e;
    s->context = s->scores + BLOCK_ROWS * BLOCK_ROWS;
    s->partial = s->context + d * e;
    s->sums = s->partial + d * e;
    s->block_sums = s->sums + d;
    s->maxima = s->block_sums + d;
    memset(s->context, 0, (size_t)(d * e) * sizeof *s->context);
    memset(s->sums, 0, (size_t)d * sizeof *s->sums);
}

int64_t cpu_linear_attend_scratch(const struct cpu_run *run, const struct plan_step *step)
{
    (void)run; /* only the step matters */
    int64_t d = step->linear_attend.dim_head, e = step->linear_attend.dim_value;
    return 2 * BLOCK_ROWS * d + BLOCK_ROWS * e + BLOCK_ROWS * BLOCK_ROWS + 2 * d * e + 3 * d;
}

static struct head_sequence sequence_of(const struct cpu_run *run, const struct plan_step *step, int64_t sequence,
                                        int64_t fold, int64_t head)
{
    const struct layout *from = layout_of(run, step->x);
    const struct layout *keys = layout_of(run, step->keys);
    int64_t query_columns = columns_of(run, step->x), key_columns = columns_of(run, step->keys);
    int64_t value_columns = columns_of(run, step->values), out_columns = columns_of(run, step->y);
    int64_t d = step->linear_attend.dim_head, e = step->linear_attend.dim_value,
            value_column = (step->linear_attend.first_head + head) * e;
    int64_t query = from->starts[sequence] + fold, key = keys->starts[sequence] + fold,
            column = (step->linear_attend.first_head + head) * d;
    struct head_sequence s = {
        .run = run,
        .step = step,
        .queries = floats_of(run, step->x) + query * query_columns + column,
        .keys = floats_of(run, step->keys) + key * key_columns + column,
        .values = floats_of(run, step->values) + key * value_columns + value_column,
        .mask = step->z == PLAN_NONE ? NULL : ids_of(run, step->z) + key,
        .out = floats_of(run, step->y) + query * out_columns + head * e,
        .query_stride = query_columns * step->linear_attend.fold,
        .key_stride = key_columns * step->linear_attend.fold,
        .value_stride = value_columns * step->linear_attend.fold,
        .out_stride = out_columns * step->linear_attend.fold,
        .mask_stride = step->linear_attend.fold,
        .query_rows = (from->starts[sequence + 1] - from->starts[sequence]) / step->linear_attend.fold,
        .key_rows = (keys->starts[sequence + 1] - keys->starts[sequence]) / step->linear_attend.fold,
        .d = d,
        .e = e,
    };
    place_scratch(&s, scratch_of(run));
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
