#include "tests/unit/scalar.h"
#include "tests/unit/scalar_parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Returns the number of keys of one sequence of an item. *first is the row of the first key of sequence 0. The next
 * keys follow at a distance of `width` rows. */
static int64_t keys_of(const struct scalar *scalar, const struct plan_step *step, int64_t item, int64_t *first)
{
    *first = layout_of(scalar, step->keys)->starts[item];
    return (layout_of(scalar, step->keys)->starts[item + 1] - *first) / width_of(scalar, step->x, item);
}

/* The number that an item's mask adds to a score, for a head of one of its sequences. */
static double mask_score(const struct scalar *scalar, const struct plan_step *step, int64_t item, int64_t head,
                         int64_t position, int64_t key)
{
    if (step->attend.mask == PLAN_NONE || !scalar->batch->items[item].inputs[step->attend.mask].data)
        return 0;
    const void *data = scalar->batch->items[item].inputs[step->attend.mask].data;
    int64_t columns = scalar->batch->items[item].inputs[step->attend.mask].columns;
    int64_t length = scalar->batch->items[item].inputs[step->attend.mask].length;
    int64_t mask = scalar->batch->items[item].inputs[step->attend.mask].n_masks ? head : 0;
    int64_t place = (mask * length + (length == 1 ? 0 : position)) * columns + key;
    if (scalar->batch->items[item].inputs[step->attend.mask].floats)
        return ((const float *)data)[place];
    return (((const uint8_t *)data)[place] != 0) == step->attend.masked_byte ? (double)step->attend.masked_score : 0;
}

/* Computes a row of the softmax of one head. It has k elements, or key_room elements if key_room is larger. */
static void attention_row(const struct scalar *scalar, const struct plan_step *step, int64_t row, int64_t head,
                          double *weights)
{
    int64_t columns = columns_of(scalar, step->x), key_columns = columns_of(scalar, step->keys), first;
    int64_t dim_head = columns / step->attend.heads,
            offset = head * step->attend.kv_heads / step->attend.heads * dim_head;
    int64_t item = sequence_index(scalar, step->x, row), k = keys_of(scalar, step, item, &first);
    int64_t width = width_of(scalar, step->x, item), place = padder_position(layout_of(scalar, step->x), item, row);
    int64_t position = place / width, sequence = place % width;
    for (int64_t j = 0; j < k; j++) {
        double score = 0;
        for (int64_t d = 0; d < dim_head; d++)
            score += scalar->values[step->x][row * columns + head * dim_head + d] *
                     scalar->values[step->keys][(first + j * width + sequence) * key_columns + offset + d];
        weights[j] = (double)step->attend.scale * score +
                     mask_score(scalar, step, item, sequence * step->attend.heads + head, position, j);
    }
    for (int64_t j = k; j < step->attend.key_room; j++)
        weights[j] = 0;
    for (int64_t j = 0; step->attend.causal && j < k; j++)
        if (j > position)
            weights[j] = -INFINITY;
    scalar_softmax(step->attend.key_room > k && !step->attend.causal ? step->attend.key_room : k, 1, weights);
}

/* Computes a row of y. All columns of a head use the same softmax. */
void scalar_attend_row(const struct scalar *scalar, const struct plan_step *step, int64_t row, double *y)
{
    int64_t value_columns = columns_of(scalar, step->values), dim_value = value_columns / step->attend.kv_heads, first;
    int64_t item = sequence_index(scalar, step->x, row), k = keys_of(scalar, step, item, &first);
    int64_t width = width_of(scalar, step->x, item);
    first += (row - layout_of(scalar, step->x)->starts[item]) % width;
    double *weights = calloc((size_t)(k + step->attend.key_room), sizeof *weights);
    for (int64_t head = 0; head < step->attend.heads; head++) {
        int64_t offset = head * step->attend.kv_heads / step->attend.heads * dim_value;
        attention_row(scalar, step, row, head, weights);
        for (int64_t c = 0; c < dim_value; c++) {
            double sum = 0;
            for (int64_t j = 0; j < k; j++)
                sum += weights[j] * scalar->values[step->values][(first + j * width) * value_columns + offset + c];
            y[head * dim_value + c] = sum;
        }
    }
    free(weights);
}

/* Adds the mean of the softmax over the heads to `weights` (width, rows of a sequence, k). */
static void mean_attention(const struct scalar *scalar, const struct plan_step *attend, int64_t item, int64_t k,
                           double *weights)
{
    const struct layout *layout = layout_of(scalar, attend->x);
    int64_t width = width_of(scalar, attend->x, item), rows = (layout->starts[item + 1] - layout->starts[item]) / width;
    double *of_head = calloc((size_t)k, sizeof *of_head);
    for (int64_t i = 0; i < width * rows * attend->attend.heads; i++) {
        int64_t place = i / attend->attend.heads;
        attention_row(scalar, attend, layout->starts[item] + place % rows * width + place / rows,
                      i % attend->attend.heads, of_head);
        for (int64_t j = 0; j < k; j++)
            weights[place * k + j] += of_head[j] / (double)attend->attend.heads;
    }
    free(of_head);
}

void scalar_attention(const struct plan *plan, const struct batch *batch, double **values, int step, int64_t item,
                      double *weights)
{
    struct scalar scalar = {plan, batch, values};
    const struct plan_step *attend = &plan->steps[step];
    const struct layout *layout = layout_of(&scalar, attend->x);
    int64_t first, k = keys_of(&scalar, attend, item, &first);
    k = attend->attend.key_room > k ? attend->attend.key_room : k;
    if (attend->operation == OP_ATTEND_CALL) {
        mean_attention(&scalar, attend, item, k, weights);
        return;
    }
    int64_t own = padder_own_rows(plan, &batch->items[item], plan->values[attend->x].axis);
    for (int64_t head = 0; head < attend->attend.heads; head++)
        for (int64_t r = layout->starts[item]; r < layout->starts[item] + own; r++, weights += k)
            attention_row(&scalar, attend, r, head, weights);
}

/* One feature of a head's row. Each head of the value has d features. */
static double feature_at(const struct scalar *scalar, int value, int64_t row, int64_t head, int64_t d, int64_t feature)
{
    return scalar->values[value][row * columns_of(scalar, value) + head * d + feature];
}

/* Whether the row at `position` reads the key at position `key` in linear attention. Both positions are counted from
 * the first row of the item. */
static bool reads_key(const struct plan_step *step, int64_t position, int64_t key)
{
    if (position % step->linear_attend.fold != key % step->linear_attend.fold)
        return false;
    int64_t row = position / step->linear_attend.fold, from = key / step->linear_attend.fold;
    return !step->linear_attend.causal ||
           (step->linear_attend.bucket == 1 ? from <= row
                                            : from / step->linear_attend.bucket < row / step->linear_attend.bucket);
}

/* Returns the sum of exp(feature of the key) over the keys that the row reads. Sets `products` to the sum of the values
 * of these keys. Each value is multiplied by the exponential of its key. */
static double sum_keys(const struct scalar *scalar, const struct plan_step *step, int64_t row, int64_t head,
                       int64_t feature, double *products)
{
    int64_t item = sequence_index(scalar, step->x, row), d = step->linear_attend.dim_value;
    int64_t position = row - layout_of(scalar, step->x)->starts[item];
    const int64_t *keys = layout_of(scalar, step->keys)->starts + item;
    double weights = 0;
    memset(products, 0, (size_t)d * sizeof *products);
    for (int64_t r = keys[0]; r < keys[1]; r++) {
        if (!mask_at(scalar, step->z, r) || !reads_key(step, position, r - keys[0]))
            continue;
        double weight = exp(feature_at(scalar, step->keys, r, head, step->linear_attend.dim_head, feature));
        weights += weight;
        for (int64_t c = 0; c < d; c++)
            products[c] += weight * feature_at(scalar, step->values, r, head, d, c);
    }
    return weights;
}

/* Computes the dim_value columns of y for one head. */
static void linear_attend_head(const struct scalar *scalar, const struct plan_step *step, int64_t row, int64_t head,
                               double *y)
{
    int64_t d = step->linear_attend.dim_head, dim_value = step->linear_attend.dim_value;
    double *query = calloc((size_t)(d + dim_value), sizeof *query), *products = query + d, denominator = 0;
    for (int64_t i = 0; i < d; i++)
        query[i] = feature_at(scalar, step->x, row, head, d, i);
    if (!step->linear_attend.raw_queries)
        scalar_softmax(d, 1, query);
    memset(y, 0, (size_t)dim_value * sizeof *y);
    for (int64_t i = 0; i < d; i++) {
        double weights = sum_keys(scalar, step, row, head, i, products);
        double factor = query[i] * (double)step->linear_attend.scale;
        denominator += factor * weights;
        if (!step->linear_attend.causal)
            factor = weights == 0 ? 0 : factor / weights;
        for (int64_t c = 0; c < dim_value; c++)
            y[c] += factor * products[c];
    }
    for (int64_t c = 0; c < dim_value && step->linear_attend.causal; c++)
        y[c] /= fmax(denominator, (double)PLAN_CAUSAL_EPSILON);
    free(query);
}

void scalar_linear_attend_row(const struct scalar *scalar, const struct plan_step *step, int64_t row, double *y)
{
    int64_t d = step->linear_attend.dim_value, heads = columns_of(scalar, step->y) / d;
    for (int64_t head = 0; head < heads; head++)
        linear_attend_head(scalar, step, row, step->linear_attend.first_head + head, y + head * d);
}

/* Computes the scores of `count` keys from row `first` on: the keys of the row's window and of the neighbouring
 * windows. Returns the number of visible keys. */
static int64_t local_scores(const struct scalar *scalar, const struct plan_step *step, int64_t row, int64_t head,
                            int64_t first, int64_t count, double *scores)
{
    const int64_t *starts = layout_of(scalar, step->x)->starts + sequence_index(scalar, step->x, row);
    int64_t d = step->local_attend.dim_head, visible = 0;
    for (int64_t j = 0; j < count; j++) {
        int64_t key = first + j;
        scores[j] = 0;
        if (key < starts[0] || key >= starts[1] || (step->local_attend.causal && key > row) ||
            !mask_at(scalar, step->z, key)) {
            scores[j] = -INFINITY;
            continue;
        }
        visible++;
        for (int64_t i = 0; i < d; i++)
            scores[j] += feature_at(scalar, step->x, row, head, d, i) * feature_at(scalar, step->keys, key, head, d, i);
    }
    return visible;
}

/* Computes the dim_head columns of y for one head. If no key is visible, all keys of the windows have the same weight.
 * The values of keys outside of the item are -1. */
static void local_attend_head(const struct scalar *scalar, const struct plan_step *step, int64_t row, int64_t head,
                              double *y)
{
    const int64_t *starts = layout_of(scalar, step->x)->starts + sequence_index(scalar, step->x, row);
    int64_t d = step->local_attend.dim_head, w = step->local_attend.window;
    int64_t first = starts[0] + ((row - starts[0]) / w - 1) * w, count = (step->local_attend.causal ? 2 : 3) * w;
    double *scores = calloc((size_t)count, sizeof *scores);
    int64_t visible = local_scores(scalar, step, row, head, first, count, scores);
    if (visible)
        scalar_softmax(count, 1 / sqrt((double)d), scores);
    for (int64_t c = 0; c < d; c++) {
        y[c] = 0;
        for (int64_t j = 0; j < count; j++) {
            bool inside = first + j >= starts[0] && first + j < starts[1];
            double value = inside ? feature_at(scalar, step->values, first + j, head, d, c) : -1;
            y[c] += visible ? scores[j] * value : value / (double)count;
        }
    }
    free(scores);
}

void scalar_local_attend_row(const struct scalar *scalar, const struct plan_step *step, int64_t row, double *y)
{
    int64_t d = step->local_attend.dim_head, heads = columns_of(scalar, step->y) / d;
    for (int64_t head = 0; head < heads; head++)
        local_attend_head(scalar, step, row, step->local_attend.first_head + head, y + head * d);
}

/* Finds the PLAN_BEST_KEYS largest scores. Writes them and their positions in descending order of the scores.
 * Overwrites them in `scores` with -INFINITY. */
static void take_best(int64_t count, double *scores, int64_t *places, double *best)
{
    for (int64_t b = 0; b < PLAN_BEST_KEYS; b++) {
        places[b] = 0;
        for (int64_t i = 1; i < count; i++)
            if (scores[i] > scores[places[b]])
                places[b] = i;
        best[b] = scores[places[b]];
        scores[places[b]] = -INFINITY;
    }
}

/* Finds the best keys of a row and a head for one half of the query. */
static void best_keys(const struct scalar *scalar, const struct plan_step *step, int64_t row, int64_t head,
                      int64_t half, int64_t *places, double *best)
{
    const struct plan_weight *keys = &scalar->plan->weights[step->key_table];
    int64_t d = keys->columns, n = keys->rows / step->retrieve.heads / 2;
    const double *x =
        scalar->values[step->x] + row * columns_of(scalar, step->x) + (half * step->retrieve.heads + head) * d;
    double *scores = calloc((size_t)n, sizeof *scores);
    for (int64_t i = 0; i < n; i++)
        for (int64_t c = 0; c < d; c++)
            scores[i] += x[c] * weight_at(scalar, step->key_table, (head * n + i) * 2 + half, c);
    take_best(n, scores, places, best);
    free(scores);
}

void scalar_retrieve_row(const struct scalar *scalar, const struct plan_step *step, int64_t row, double *y)
{
    int64_t n = scalar->plan->weights[step->key_table].rows / step->retrieve.heads / 2;
    int64_t places[2][PLAN_BEST_KEYS], pairs[PLAN_BEST_KEYS], columns = columns_of(scalar, step->y);
    double best[2][PLAN_BEST_KEYS], sums[PLAN_BEST_KEYS * PLAN_BEST_KEYS], weights[PLAN_BEST_KEYS];
    memset(y, 0, (size_t)columns * sizeof *y);
    for (int64_t head = 0; head < step->retrieve.heads; head++) {
        for (int64_t half = 0; half < 2; half++)
            best_keys(scalar, step, row, head, half, places[half], best[half]);
        for (int64_t i = 0; i < PLAN_BEST_KEYS * PLAN_BEST_KEYS; i++)
            sums[i] = best[0][i / PLAN_BEST_KEYS] + best[1][i % PLAN_BEST_KEYS];
        take_best(PLAN_BEST_KEYS * PLAN_BEST_KEYS, sums, pairs, weights);
        scalar_softmax(PLAN_BEST_KEYS, 1, weights);
        for (int64_t p = 0; p < PLAN_BEST_KEYS; p++) {
            int64_t value = places[0][pairs[p] / PLAN_BEST_KEYS] * n + places[1][pairs[p] % PLAN_BEST_KEYS];
            for (int64_t c = 0; c < columns; c++)
                y[c] += weights[p] * weight_at(scalar, step->value_table, value, c);
        }
    }
}
