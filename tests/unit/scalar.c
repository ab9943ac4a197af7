#include "tests/unit/scalar.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct scalar {
    const struct plan *plan;
    const struct batch *batch;
    double **values;
};

static const struct layout *layout_of(const struct scalar *scalar, int value)
{
    return &scalar->batch->layouts[scalar->plan->values[value].axis];
}

static int64_t rows_of(const struct scalar *scalar, int value)
{
    return layout_of(scalar, value)->item_starts[scalar->batch->n_items];
}

static int64_t columns_of(const struct scalar *scalar, int value)
{
    return scalar->plan->values[value].columns;
}

static double weight_at(const struct scalar *scalar, int weight, int64_t row, int64_t column)
{
    return scalar->plan->weights[weight].data[row * scalar->plan->weights[weight].columns + column];
}

/* The sequence that a row of the value belongs to. Most items are one sequence. */
static int64_t item_of(const struct scalar *scalar, int value, int64_t row)
{
    int64_t item = 0;
    while (layout_of(scalar, value)->starts[item + 1] <= row)
        item++;
    return item;
}

static double gelu_of(double x)
{
    return 0.5 * x * (1 + erf(x / sqrt(2)));
}

static void softmax(int64_t n, double scale, double *x)
{
    double maximum = -INFINITY, sum = 0;
    for (int64_t i = 0; i < n; i++)
        maximum = fmax(maximum, scale * x[i]);
    for (int64_t i = 0; i < n; i++)
        sum += x[i] = exp(scale * x[i] - maximum);
    for (int64_t i = 0; i < n; i++)
        x[i] /= sum;
}

double scalar_activation(struct plan_activation activation, double x)
{
    double a = (double)activation.a, b = (double)activation.b;
    switch (activation.kind) {
    case ACTIVATION_GELU:
        return gelu_of(x);
    case ACTIVATION_RELU:
        return x < 0 ? 0 : x;
    case ACTIVATION_GELU_TANH:
        return 0.5 * x * (1 + tanh(0.79788456080286536 * (x + 0.044715 * x * x * x)));
    case ACTIVATION_SILU:
        return x / (1 + exp(-x));
    case ACTIVATION_SIGMOID:
        return 1 / (1 + exp(-x));
    case ACTIVATION_TANH:
        return tanh(x);
    case ACTIVATION_LEAKY_RELU:
        return x > 0 ? x : a * x;
    case ACTIVATION_ELU:
        return x > 0 ? x : a * expm1(x);
    case ACTIVATION_SELU:
        return 1.0507009873554805 * (x > 0 ? x : 1.6732632423543772 * expm1(x));
    case ACTIVATION_SOFTPLUS:
        return a * x > b ? x : log1p(exp(a * x)) / a;
    case ACTIVATION_CLAMP:
        return fmin(fmax(x, a), b);
    case ACTIVATION_HARD_SWISH:
        return x * fmin(fmax(x + 3, 0), 6) / 6;
    case ACTIVATION_HARD_SIGMOID:
        return fmin(fmax(x + 3, 0), 6) / 6;
    case ACTIVATION_MISH:
        return x * tanh(log1p(exp(x)));
    case ACTIVATION_LOG_SIGMOID:
        return -log1p(exp(-x));
    case ACTIVATION_AFFINE:
        return a * x + b;
    case ACTIVATION_ABSOLUTE:
        return fabs(x);
    case ACTIVATION_SQUARE_ROOT:
        return sqrt(x);
    case ACTIVATION_INVERSE_ROOT:
        return 1 / sqrt(x);
    case ACTIVATION_SQUARE:
        return x * x;
    case ACTIVATION_RECIPROCAL:
        return 1 / x;
    case ACTIVATION_EXP:
        return exp(x);
    case ACTIVATION_EXPM1:
        return expm1(x);
    case ACTIVATION_LOG:
        return log(x);
    case ACTIVATION_LOG1P:
        return log1p(x);
    case ACTIVATION_SIN:
        return sin(x);
    case ACTIVATION_COS:
        return cos(x);
    case ACTIVATION_ERF:
        return erf(x);
    case ACTIVATION_FLOOR:
        return floor(x);
    case ACTIVATION_CEIL:
        return ceil(x);
    case ACTIVATION_ROUND:
        return rint(x);
    case ACTIVATION_TRUNCATE:
        return trunc(x);
    case ACTIVATION_SIGN:
        return (x > 0) - (x < 0);
    case ACTIVATION_NOT:
        return x == 0;
    case ACTIVATION_IS_NAN:
        return isnan(x);
    case ACTIVATION_NONE:
    case ACTIVATION_COUNT:
        break;
    }
    return x;
}

static double weighted_sum(const struct scalar *scalar, int weight, int bias, int64_t column, const double *x)
{
    double sum = bias == PLAN_NONE ? 0 : weight_at(scalar, bias, 0, column);
    for (int64_t i = 0; i < scalar->plan->weights[weight].columns; i++)
        sum += x[i] * weight_at(scalar, weight, column, i);
    return sum;
}

/* x[r] Wᵀ + b */
static double product_at(const struct scalar *scalar, const struct plan_step *step, int64_t row, int64_t column)
{
    const double *x = scalar->values[step->x] + row * columns_of(scalar, step->x);
    return weighted_sum(scalar, step->weight, step->bias, column, x);
}

static double feed_forward_at(const struct scalar *scalar, const struct plan_step *step, int64_t row, int64_t column)
{
    const double *x = scalar->values[step->x] + row * columns_of(scalar, step->x);
    int64_t hidden = scalar->plan->weights[step->second_weight].columns;
    double *h = calloc((size_t)hidden, sizeof *h);
    for (int64_t i = 0; i < hidden; i++) {
        h[i] = scalar_activation(step->feed_forward.activation, weighted_sum(scalar, step->weight, step->bias, i, x));
        h[i] *= step->feed_forward.gated ? weighted_sum(scalar, step->weight, step->bias, hidden + i, x) : 1;
    }
    double y = weighted_sum(scalar, step->second_weight, step->second_bias, column, h);
    free(h);
    return y;
}

/* Each n columns of the row have a mean and a variance of their own. */
static void layer_norm_row(const struct scalar *scalar, const struct plan_step *step, int64_t row, double *y)
{
    int64_t n = scalar->plan->weights[step->weight].columns, columns = columns_of(scalar, step->x);
    const double *x = scalar->values[step->x] + row * columns;
    for (int64_t first = 0; first < columns; first += n) {
        double mean = 0, variance = 0;
        for (int64_t i = first; i < first + n; i++)
            mean += x[i] / (double)n;
        for (int64_t i = first; i < first + n; i++)
            variance += (x[i] - mean) * (x[i] - mean) / (double)n;
        for (int64_t i = first; i < first + n; i++)
            y[i] = (x[i] - mean) / sqrt(variance + (double)step->layer_norm.epsilon) *
                       weight_at(scalar, step->weight, 0, i - first) +
                   weight_at(scalar, step->bias, 0, i - first);
    }
}

/* The sequence that has the row of the value. */
static struct padder_sequence sequence_of(const struct scalar *scalar, int value, int64_t row)
{
    int axis = scalar->plan->values[value].axis;
    struct padder_sequence sequence = padder_sequence(scalar->plan, scalar->batch, axis, 0);
    for (int64_t i = 1; row >= sequence.first + sequence.rows; i++)
        sequence = padder_sequence(scalar->plan, scalar->batch, axis, i);
    return sequence;
}

/* The mean and the variance of a group are over all rows of the row's sequence. */
static void group_norm_row(const struct scalar *scalar, const struct plan_step *step, int64_t row, double *y)
{
    int64_t columns = columns_of(scalar, step->x), size = columns / step->group_norm.groups;
    struct padder_sequence sequence = sequence_of(scalar, step->x, row);
    const double *own = scalar->values[step->x] + row * columns;
    double count = (double)(sequence.rows * size);
    for (int64_t first = 0; first < columns; first += size) {
        const double *x = scalar->values[step->x] + sequence.first * columns + first;
        double mean = 0, variance = 0;
        for (int64_t i = 0; i < sequence.rows * size; i++)
            mean += x[i / size * columns + i % size] / count;
        for (int64_t i = 0; i < sequence.rows * size; i++)
            variance += pow(x[i / size * columns + i % size] - mean, 2) / count;
        for (int64_t c = first; c < first + size; c++)
            y[c] = (own[c] - mean) / sqrt(variance + (double)step->group_norm.epsilon) *
                       (step->weight == PLAN_NONE ? 1 : weight_at(scalar, step->weight, 0, c)) +
                   (step->bias == PLAN_NONE ? 0 : weight_at(scalar, step->bias, 0, c));
    }
}

/* A further column of a projection: sums of E's columns, or biases. */
static double projected_column_at(const struct scalar *scalar, const struct plan_step *step, int64_t row,
                                  int64_t column)
{
    const struct layout *from = layout_of(scalar, step->x);
    int64_t item = item_of(scalar, step->y, row), j = row - layout_of(scalar, step->y)->starts[item];
    double sum = 0;
    if (!step->project_sequence.sums_column || column > columns_of(scalar, step->x))
        return (double)scalar->plan->weights[step->bias].data[j];
    for (int64_t p = 0; p < from->starts[item + 1] - from->starts[item]; p++)
        sum += step->project_sequence.transposed ? weight_at(scalar, step->weight, j, p)
                                                 : weight_at(scalar, step->weight, p, j);
    return sum;
}

static double project_at(const struct scalar *scalar, const struct plan_step *step, int64_t row, int64_t column)
{
    const struct layout *from = layout_of(scalar, step->x);
    const struct plan_weight *weight = &scalar->plan->weights[step->weight];
    int64_t item = item_of(scalar, step->y, row), j = row - layout_of(scalar, step->y)->starts[item];
    int64_t columns = columns_of(scalar, step->x), group = column / (columns / step->project_sequence.groups);
    int64_t rows = weight->rows / step->project_sequence.groups,
            k = step->project_sequence.transposed ? rows : weight->columns;
    if (column >= columns)
        return projected_column_at(scalar, step, row, column);
    bool adds_bias = step->bias != PLAN_NONE && !step->project_sequence.bias_column;
    double sum = adds_bias ? (double)scalar->plan->weights[step->bias].data[group * k + j] : 0;
    for (int64_t r = from->starts[item]; r < from->starts[item + 1]; r++) {
        int64_t p = r - from->starts[item];
        double e = step->project_sequence.transposed ? weight_at(scalar, step->weight, group * rows + j, p)
                                                     : weight_at(scalar, step->weight, group * rows + p, j);
        sum += e * scalar->values[step->x][r * columns + column];
    }
    return sum;
}

/* Weights stand for all groups, or for one each; (d, d, stride). */
static double convolve_at(const struct scalar *scalar, const struct plan_step *step, int64_t row, int64_t column)
{
    const struct layout *from = layout_of(scalar, step->x);
    const struct plan_weight *bias = &scalar->plan->weights[step->bias];
    const float *weight = scalar->plan->weights[step->weight].data;
    int64_t item = item_of(scalar, step->y, row), j = row - layout_of(scalar, step->y)->starts[item];
    int64_t columns = columns_of(scalar, step->x), d = columns / step->convolve_sequence.groups, group = column / d,
            o = column % d;
    int64_t which = bias->rows * bias->columns > d ? group : 0;
    double sum = bias->data[which * d + o];
    for (int64_t t = 0; t < step->convolve_sequence.stride; t++) {
        int64_t r = from->starts[item] + j * step->convolve_sequence.stride + t;
        for (int64_t i = 0; i < d && r < from->starts[item + 1]; i++)
            sum += (double)weight[((which * d + o) * d + i) * step->convolve_sequence.stride + t] *
                   scalar->values[step->x][r * columns + group * d + i];
    }
    return sum;
}

/* The sequences of an item that lie side by side in its rows; 1 but in calls. */
static int64_t width_of(const struct scalar *scalar, int value, int64_t item)
{
    int input = scalar->plan->axes[scalar->plan->values[value].axis].input;
    return input == PLAN_NONE ? 1 : padder_width(scalar->plan, &scalar->batch->items[item], input);
}

/* y is (w, d, k) read as rows of d columns. */
static double project_call_at(const struct scalar *scalar, const struct plan_step *step, int64_t row, int64_t column)
{
    const struct layout *from = layout_of(scalar, step->x);
    const struct plan_weight *e = &scalar->plan->weights[step->weight];
    int64_t item = item_of(scalar, step->y, row), d = columns_of(scalar, step->x), w = width_of(scalar, step->x, item);
    int64_t place = (row - layout_of(scalar, step->y)->starts[item]) * d + column;
    int64_t j = place % e->rows, c = place / e->rows % d, s = place / e->rows / d;
    int64_t n = (from->starts[item + 1] - from->starts[item]) / w;
    double sum = scalar->plan->weights[step->bias].data[j];
    for (int64_t p = 0; p < n; p++)
        sum +=
            weight_at(scalar, step->weight, j, p) * scalar->values[step->x][(from->starts[item] + p * w + s) * d + c];
    return step->tail == PLAN_NONE
               ? sum
               : sum + weight_at(scalar, step->weight, j, n) * (double)scalar->plan->weights[step->tail].data[c];
}

/* The keys of one sequence of an item: *first is the row of the first, and the next ones follow at a distance of width
 * rows. Returns their number. */
static int64_t keys_of(const struct scalar *scalar, const struct plan_step *step, int64_t item, int64_t *first)
{
    *first = layout_of(scalar, step->keys)->starts[item];
    return (layout_of(scalar, step->keys)->starts[item + 1] - *first) / width_of(scalar, step->x, item);
}

/* What an item's mask adds for a head of one of its sequences. */
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

/* One row of one head's softmax, k long. */
static void attention_row(const struct scalar *scalar, const struct plan_step *step, int64_t row, int64_t head,
                          double *weights)
{
    int64_t columns = columns_of(scalar, step->x), key_columns = columns_of(scalar, step->keys), first;
    int64_t dim_head = columns / step->attend.heads,
            offset = head * step->attend.kv_heads / step->attend.heads * dim_head;
    int64_t item = item_of(scalar, step->x, row), k = keys_of(scalar, step, item, &first);
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
    softmax(step->attend.key_room > k && !step->attend.causal ? step->attend.key_room : k, 1, weights);
}

/* A row of y: all columns of a head have its softmax in common. */
static void attend_row(const struct scalar *scalar, const struct plan_step *step, int64_t row, double *y)
{
    int64_t value_columns = columns_of(scalar, step->values), dim_value = value_columns / step->attend.kv_heads, first;
    int64_t item = item_of(scalar, step->x, row), k = keys_of(scalar, step, item, &first);
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

/* (width, rows of a sequence, k): the mean over the heads. */
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

static double shift_at(const struct scalar *scalar, const struct plan_step *step, int64_t row, int64_t column)
{
    const struct layout *from = layout_of(scalar, step->x);
    int64_t columns = columns_of(scalar, step->x), segment = column / (columns / step->shift_tokens.count);
    int64_t item = item_of(scalar, step->y, row),
            shift = segment < step->shift_tokens.count ? step->shift_tokens.by[segment] : 0;
    int64_t position = padder_position(layout_of(scalar, step->y), item, row) - shift;
    int64_t length = from->starts[item + 1] - from->starts[item];
    if (from->positions) /* an item is one sequence */
        length = padder_axis_rows(scalar->plan, &scalar->batch->items[item], scalar->plan->values[step->x].axis);
    if (position < 0 || position >= length)
        return 0;
    return scalar->values[step->x][padder_row(from, item, position) * columns + column];
}

static double positions_at(const struct scalar *scalar, const struct plan_step *step, int64_t row, int64_t column)
{
    int64_t position = padder_position(layout_of(scalar, step->x), item_of(scalar, step->x, row), row);
    double sum = scalar->values[step->x][row * columns_of(scalar, step->x) + column];
    sum += weight_at(scalar, step->table, position / step->add_positions.period, column);
    return sum + (step->minor_table == PLAN_NONE
                      ? 0
                      : weight_at(scalar, step->minor_table, position % step->add_positions.period, column));
}

static double sinusoid_at(const struct scalar *scalar, const struct plan_step *step, int64_t row, int64_t column)
{
    int64_t columns = columns_of(scalar, step->x), half = columns / 2;
    int64_t position = padder_position(layout_of(scalar, step->x), item_of(scalar, step->x, row), row);
    float angle = (float)position * scalar->plan->weights[step->weight].data[column % half];
    return scalar->values[step->x][row * columns + column] + (column < half ? sin((double)angle) : cos((double)angle));
}

static bool mask_at(const struct scalar *scalar, int mask, int64_t row)
{
    return mask == PLAN_NONE || scalar->values[mask][row] != 0;
}

static double rotated_at(const struct scalar *scalar, const struct plan_step *step, int64_t row, int64_t column)
{
    int64_t columns = columns_of(scalar, step->x), d = scalar->plan->weights[step->table].columns;
    int64_t position = padder_position(layout_of(scalar, step->x), item_of(scalar, step->x, row), row),
            i = column % d / 2;
    const double *x = scalar->values[step->x] + row * columns;
    double other = column % 2 ? x[column - 1] : -x[column + 1];
    return x[column] * weight_at(scalar, step->table, position, d / 2 + i) +
           other * weight_at(scalar, step->table, position, i);
}

/* A feature of a head's row, of a value whose heads have d of them. */
static double feature_at(const struct scalar *scalar, int value, int64_t row, int64_t head, int64_t d, int64_t feature)
{
    return scalar->values[value][row * columns_of(scalar, value) + head * d + feature];
}

/* Whether linear attention's row at `position` reads the key at `key`, both in the item. */
static bool reads_key(const struct plan_step *step, int64_t position, int64_t key)
{
    if (position % step->linear_attend.fold != key % step->linear_attend.fold)
        return false;
    int64_t row = position / step->linear_attend.fold, from = key / step->linear_attend.fold;
    return !step->linear_attend.causal ||
           (step->linear_attend.bucket == 1 ? from <= row
                                            : from / step->linear_attend.bucket < row / step->linear_attend.bucket);
}

/* Sums of exp(key's feature) and of that times the value's over what the row reads. */
static void add_keys(const struct scalar *scalar, const struct plan_step *step, int64_t row, int64_t column,
                     int64_t feature, double *weights, double *products)
{
    int64_t item = item_of(scalar, step->x, row), d = step->linear_attend.dim_value,
            head = step->linear_attend.first_head + column / d;
    int64_t position = row - layout_of(scalar, step->x)->starts[item];
    const int64_t *keys = layout_of(scalar, step->keys)->starts + item;
    *weights = *products = 0;
    for (int64_t r = keys[0]; r < keys[1]; r++) {
        if (!mask_at(scalar, step->z, r) || !reads_key(step, position, r - keys[0]))
            continue;
        double weight = exp(feature_at(scalar, step->keys, r, head, step->linear_attend.dim_head, feature));
        *weights += weight;
        *products += weight * feature_at(scalar, step->values, r, head, d, column % d);
    }
}

static double linear_attend_at(const struct scalar *scalar, const struct plan_step *step, int64_t row, int64_t column)
{
    int64_t d = step->linear_attend.dim_head;
    int64_t head = step->linear_attend.first_head + column / step->linear_attend.dim_value;
    double *query = calloc((size_t)d, sizeof *query), numerator = 0, denominator = 0, weights, products;
    for (int64_t i = 0; i < d; i++)
        query[i] = feature_at(scalar, step->x, row, head, d, i);
    if (!step->linear_attend.raw_queries)
        softmax(d, 1, query);
    for (int64_t i = 0; i < d; i++) {
        add_keys(scalar, step, row, column, i, &weights, &products);
        double factor = query[i] * (double)step->linear_attend.scale;
        numerator += step->linear_attend.causal ? factor * products : weights == 0 ? 0 : factor * products / weights;
        denominator += factor * weights;
    }
    free(query);
    return step->linear_attend.causal ? numerator / fmax(denominator, (double)PLAN_CAUSAL_EPSILON) : numerator;
}

static double local_attend_at(const struct scalar *scalar, const struct plan_step *step, int64_t row, int64_t column)
{
    int64_t d = step->local_attend.dim_head, head = step->local_attend.first_head + column / d,
            w = step->local_attend.window, around = step->local_attend.causal ? 2 : 3, visible = 0;
    const int64_t *starts = layout_of(scalar, step->x)->starts + item_of(scalar, step->x, row);
    int64_t first = starts[0] + ((row - starts[0]) / w - 1) * w;
    double *scores = calloc((size_t)(around * w), sizeof *scores), sum = 0;
    for (int64_t j = 0; j < around * w; j++) {
        int64_t key = first + j;
        if (key < starts[0] || key >= starts[1] || (step->local_attend.causal && key > row) ||
            !mask_at(scalar, step->z, key)) {
            scores[j] = -INFINITY;
            continue;
        }
        visible++;
        for (int64_t i = 0; i < d; i++)
            scores[j] += feature_at(scalar, step->x, row, head, d, i) * feature_at(scalar, step->keys, key, head, d, i);
    }
    if (visible)
        softmax(around * w, 1 / sqrt((double)d), scores);
    for (int64_t j = 0; j < around * w; j++) {
        bool inside = first + j >= starts[0] && first + j < starts[1];
        double value = inside ? feature_at(scalar, step->values, first + j, head, d, column % d) : -1;
        sum += visible ? scores[j] * value : value / (double)(around * w);
    }
    free(scores);
    return sum;
}

/* The best of `count` scores: their places, best first. Takes them out of the scores. */
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

/* The best keys of one half, for a row and head. */
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

static double retrieve_at(const struct scalar *scalar, const struct plan_step *step, int64_t row, int64_t column)
{
    int64_t n = scalar->plan->weights[step->key_table].rows / step->retrieve.heads / 2;
    int64_t places[2][PLAN_BEST_KEYS], pairs[PLAN_BEST_KEYS];
    double best[2][PLAN_BEST_KEYS], sums[PLAN_BEST_KEYS * PLAN_BEST_KEYS], weights[PLAN_BEST_KEYS], y = 0;
    for (int64_t head = 0; head < step->retrieve.heads; head++) {
        for (int64_t half = 0; half < 2; half++)
            best_keys(scalar, step, row, head, half, places[half], best[half]);
        for (int64_t i = 0; i < PLAN_BEST_KEYS * PLAN_BEST_KEYS; i++)
            sums[i] = best[0][i / PLAN_BEST_KEYS] + best[1][i % PLAN_BEST_KEYS];
        take_best(PLAN_BEST_KEYS * PLAN_BEST_KEYS, sums, pairs, weights);
        softmax(PLAN_BEST_KEYS, 1, weights);
        for (int64_t p = 0; p < PLAN_BEST_KEYS; p++) {
            int64_t value = places[0][pairs[p] / PLAN_BEST_KEYS] * n + places[1][pairs[p] % PLAN_BEST_KEYS];
            y += weights[p] * weight_at(scalar, step->value_table, value, column);
        }
    }
    return y;
}

static double concatenated_at(const struct scalar *scalar, const struct plan_step *step, int64_t row, int64_t column)
{
    int64_t left = columns_of(scalar, step->x), right = columns_of(scalar, step->z);
    return column < left ? scalar->values[step->x][row * left + column]
                         : scalar->values[step->z][row * right + column - left];
}

static double appended_at(const struct scalar *scalar, const struct plan_step *step, int64_t row, int64_t column)
{
    int64_t item = item_of(scalar, step->y, row), columns = columns_of(scalar, step->y);
    const int64_t *first = layout_of(scalar, step->x)->starts + item;
    int64_t position = row - layout_of(scalar, step->y)->starts[item], own = first[1] - first[0];
    if (position < own)
        return scalar->values[step->x][(first[0] + position) * columns + column];
    int64_t from = layout_of(scalar, step->z)->starts[item] + position - own;
    return scalar->values[step->z][from * columns + column];
}

/* W[u, v] for a channel of the group, as each operation has it. */
static double kernel_at(const struct scalar *scalar, const struct plan_step *step, int64_t column, int64_t pixel,
                        int64_t channel, int64_t channels)
{
    if (step->operation == OP_CONVOLVE_CHANNELS)
        return weight_at(scalar, step->weight, pixel, column);
    return weight_at(scalar, step->weight, column, pixel * channels + channel);
}

/* The image's height and width: sizes of the item, or those of its input. */
static struct plan_image convolution_image(const struct scalar *scalar, const struct plan_step *step, int64_t item)
{
    const int64_t *sizes = scalar->batch->sizes + item * scalar->plan->n_sizes;
    if (step->convolve_image.height == PLAN_NONE)
        return padder_image(scalar->plan, &scalar->batch->items[item],
                            scalar->plan->axes[scalar->plan->values[step->x].axis].input);
    return (struct plan_image){sizes[step->convolve_image.height], sizes[step->convolve_image.width]};
}

static double convolved_at(const struct scalar *scalar, const struct plan_step *step, int64_t row, int64_t column)
{
    const struct plan_window *window = &step->convolve_image.window;
    struct padder_sequence made = sequence_of(scalar, step->y, row);
    struct plan_image image = convolution_image(scalar, step, made.item);
    int64_t all = columns_of(scalar, step->x), in = all / step->convolve_image.groups;
    int64_t group = column / (columns_of(scalar, step->y) / step->convolve_image.groups);
    int64_t first = layout_of(scalar, step->x)->item_starts[made.item] + made.number * image.height * image.width,
            place = row - made.first;
    int64_t reach = (window->size[1] - 1) * window->dilation[1];
    int64_t width = (image.width + window->before[1] + window->after[1] - reach - 1) / window->stride[1] + 1;
    double sum = step->bias == PLAN_NONE ? 0 : weight_at(scalar, step->bias, 0, column);
    for (int64_t p = 0; p < window->size[0] * window->size[1]; p++) {
        int64_t u = p / window->size[1] * window->dilation[0], v = p % window->size[1] * window->dilation[1];
        int64_t i = place / width * window->stride[0] + u - window->before[0];
        int64_t j = place % width * window->stride[1] + v - window->before[1];
        for (int64_t c = 0; c < in && i >= 0 && i < image.height && j >= 0 && j < image.width; c++)
            sum += kernel_at(scalar, step, column, p, c, in) *
                   scalar->values[step->x][(first + i * image.width + j) * all + group * in + c];
    }
    return (double)step->convolve_image.scale * sum;
}

static double gated_at(const struct scalar *scalar, const struct plan_step *step, int64_t row, int64_t column)
{
    int64_t columns = columns_of(scalar, step->y);
    const double *x = scalar->values[step->x] + row * 2 * columns;
    return scalar_activation(step->gate.activation, x[column]) * x[columns + column];
}

static double gathered_at(const struct scalar *scalar, const struct plan_step *step, int64_t row, int64_t column)
{
    int64_t item = item_of(scalar, step->y, row);
    int64_t position = padder_position(layout_of(scalar, step->y), item, row);
    int64_t from = padder_row(layout_of(scalar, step->x), item, position);
    return scalar->values[step->x][from * columns_of(scalar, step->x) + column];
}

static double embedded_at(const struct scalar *scalar, const struct plan_step *step, int64_t row, int64_t column)
{
    double id = scalar->values[step->x][row];
    return id >= 0 && id < (double)scalar->plan->weights[step->table].rows
               ? weight_at(scalar, step->table, (int64_t)id, column)
               : NAN;
}

/* As int32_t if y has ids. */
static double activated_at(const struct scalar *scalar, const struct plan_step *step, int64_t place)
{
    double y = scalar_activation(step->activate.activation, scalar->values[step->x][place]);
    bool fits = y > INT32_MIN - 1.0 && y < INT32_MAX + 1.0;
    return !scalar->plan->values[step->y].ids ? y : fits ? trunc(y) : (double)INT32_MIN;
}

static double cut_at(const struct scalar *scalar, const struct plan_step *step, int64_t row, int64_t column)
{
    int64_t item = item_of(scalar, step->y, row);
    int64_t from = row - layout_of(scalar, step->y)->starts[item] + layout_of(scalar, step->x)->starts[item];
    return scalar->values[step->x][from * columns_of(scalar, step->x) + column];
}

static double padded_at(const struct scalar *scalar, const struct plan_step *step, int64_t row, int64_t column)
{
    int64_t item = item_of(scalar, step->y, row), columns = columns_of(scalar, step->y);
    int64_t position = row - layout_of(scalar, step->y)->starts[item];
    const int64_t *own = layout_of(scalar, step->x)->starts + item;
    if (position >= own[1] - own[0])
        return step->pad_rows.fill;
    return step->pad_rows.ones ? 1 : scalar->values[step->x][(own[0] + position) * columns + column];
}

static double value_at(const struct scalar *scalar, const struct plan_step *step, int64_t row, int64_t column)
{
    int64_t place = row * columns_of(scalar, step->y) + column;
    bool adds = step->operation == OP_LINEAR || step->operation == OP_FEED_FORWARD || step->operation == OP_ADD;
    double residual = adds && step->z != PLAN_NONE ? scalar->values[step->z][place] : 0;
    switch (step->operation) {
    case OP_EMBED:
        return embedded_at(scalar, step, row, column);
    case OP_ADD_POSITIONS:
        return positions_at(scalar, step, row, column);
    case OP_LINEAR:
        return scalar_activation(step->linear.activation, product_at(scalar, step, row, column)) + residual;
    case OP_FEED_FORWARD:
        return feed_forward_at(scalar, step, row, column) + residual;
    case OP_ACTIVATE:
        return activated_at(scalar, step, place);
    case OP_MASK_ROWS:
        return mask_at(scalar, step->z, row) ? scalar->values[step->x][place] : 0;
    case OP_ADD_SINUSOIDS:
        return sinusoid_at(scalar, step, row, column);
    case OP_CONVOLVE_SEQUENCE:
        return convolve_at(scalar, step, row, column);
    case OP_ADD:
        return (double)step->add.scale * (scalar->values[step->x][place] + residual);
    case OP_PROJECT_SEQUENCE:
        return project_at(scalar, step, row, column);
    case OP_PROJECT_CALL:
        return project_call_at(scalar, step, row, column);
    case OP_ROTATE:
        return rotated_at(scalar, step, row, column);
    case OP_LINEAR_ATTEND:
        return linear_attend_at(scalar, step, row, column);
    case OP_LOCAL_ATTEND:
        return local_attend_at(scalar, step, row, column);
    case OP_RETRIEVE:
        return retrieve_at(scalar, step, row, column);
    case OP_CONCATENATE:
        return concatenated_at(scalar, step, row, column);
    case OP_APPEND_ROWS:
        return appended_at(scalar, step, row, column);
    case OP_CONVOLVE_IMAGE:
    case OP_CONVOLVE_GROUPS:
    case OP_CONVOLVE_CHANNELS:
        return convolved_at(scalar, step, row, column);
    case OP_GATE:
        return gated_at(scalar, step, row, column);
    case OP_GATHER_ROWS:
        return gathered_at(scalar, step, row, column);
    case OP_RESHAPE: /* the items of a batch follow one another in both values */
        return scalar->values[step->x][row * columns_of(scalar, step->y) + column];
    case OP_CUT_PADDING:
        return cut_at(scalar, step, row, column);
    case OP_PAD_ROWS:
        return padded_at(scalar, step, row, column);
    case OP_SHIFT_TOKENS:
        return shift_at(scalar, step, row, column);
    case OP_LAYER_NORM:
    case OP_GROUP_NORM:
    case OP_ATTEND:
    case OP_ATTEND_CALL: /* run_row has them, a row at once */
    case OP_ARRANGE:
    case OP_COMBINE:
    case OP_SELECT:
    case OP_REDUCE:
    case OP_SOFTMAX:
    case OP_MULTIPLY: /* run_over_space */
    case OP_GIVE_HIDDEN:
    case OP_GIVE_POOLED:
    case OP_GIVE_OUTPUT:
    case OP_GIVE_IMAGE:
    case OP_GIVE_TENSOR: /* they have no y */
    case OP_COUNT:
        break;
    }
    return NAN;
}

/* ---- Operations over a space: a loop within a loop, one for each dimension ---- */

/* A walk over an item's space. `sizes` are the item's. */
struct walk {
    const struct scalar *scalar;
    const struct plan_step *step;
    const struct plan_space *space;
    const int64_t *sizes;
    int64_t item;
};

/* Indices of elements within the item, before strides are added. */
struct visited {
    int64_t x, z, keys, y;
};

static double *item_at(const struct walk *walk, int value)
{
    return walk->scalar->values[value] +
           layout_of(walk->scalar, value)->item_starts[walk->item] * columns_of(walk->scalar, value);
}

/* An element of a value, else of a weight, else the number. */
static double operand_at(const struct walk *walk, int value, int weight, float number, int64_t index)
{
    if (value != PLAN_NONE)
        return item_at(walk, value)[index];
    return weight == PLAN_NONE ? (double)number : (double)walk->scalar->plan->weights[weight].data[index];
}

static double remainder_of(double a, double b)
{
    return b == 0 ? NAN : fmod(a, b) != 0 && (fmod(a, b) < 0) != (b < 0) ? fmod(a, b) + b : fmod(a, b);
}

static double function_of(enum plan_function function, double a, double b)
{
    switch (function) {
    case FUNCTION_ADD:
        return a + b;
    case FUNCTION_SUBTRACT:
        return a - b;
    case FUNCTION_MULTIPLY:
        return a * b;
    case FUNCTION_DIVIDE:
        return a / b;
    case FUNCTION_FLOOR_DIVIDE:
        return b == 0 ? a / b : round((a - remainder_of(a, b)) / b);
    case FUNCTION_TRUNCATE_DIVIDE:
        return trunc(a / b);
    case FUNCTION_REMAINDER:
        return remainder_of(a, b);
    case FUNCTION_POWER:
        return pow(a, b);
    case FUNCTION_MAXIMUM:
        return isnan(a) || isnan(b) ? NAN : fmax(a, b);
    case FUNCTION_MINIMUM:
        return isnan(a) || isnan(b) ? NAN : fmin(a, b);
    case FUNCTION_EQUAL:
        return a == b;
    case FUNCTION_NOT_EQUAL:
        return a != b;
    case FUNCTION_LESS:
        return a < b;
    case FUNCTION_LESS_EQUAL:
        return a <= b;
    case FUNCTION_AND:
        return a != 0 && b != 0;
    case FUNCTION_OR:
        return a != 0 || b != 0;
    case FUNCTION_XOR:
        return (a != 0) != (b != 0);
    case FUNCTION_COUNT:
        break;
    }
    return NAN;
}

static void visit_element(const struct walk *walk, struct visited at)
{
    const struct plan_step *step = walk->step;
    double *y = item_at(walk, step->y) + at.y, x, z;
    if (step->operation == OP_ARRANGE) {
        *y = operand_at(walk, step->x, step->x_weight, step->arrange.x, at.x);
    } else if (step->operation == OP_COMBINE) {
        x = operand_at(walk, step->x, step->x_weight, 0, at.x);
        z = operand_at(walk, step->z, step->z_weight, step->combine.z, at.z);
        *y = step->combine.z_first ? function_of(step->combine.function, z, x)
                                   : function_of(step->combine.function, x, z);
    } else {
        x = operand_at(walk, step->x, step->x_weight, step->select.x, at.x);
        z = operand_at(walk, step->z, step->z_weight, step->select.z, at.z);
        *y = item_at(walk, step->keys)[at.keys] != 0 ? x : z;
    }
}

static void visit_dimension(const struct walk *walk, int dimension, struct visited at)
{
    if (dimension == walk->space->rank) {
        visit_element(walk, at);
        return;
    }
    const struct plan_dimension *along = &walk->space->dimensions[dimension];
    for (int64_t i = 0; i < walk->sizes[along->count]; i++) {
        visit_dimension(walk, dimension + 1, at);
        at.x += walk->sizes[along->x];
        at.z += walk->sizes[along->z];
        at.keys += walk->sizes[along->keys];
        at.y += walk->sizes[along->y];
    }
}

/* The elements of x over the dimensions from this one on, in order; those of y beside them. */
struct gathered {
    int64_t count, room;
    double *x, **y;
};

static void gather_dimensions(const struct walk *walk, int dimension, struct visited at, struct gathered *gathered)
{
    if (dimension == walk->space->rank) {
        if (gathered->count == gathered->room) {
            gathered->room = gathered->room * 2 + 1;
            gathered->x = realloc(gathered->x, (size_t)gathered->room * sizeof *gathered->x);
            gathered->y = realloc(gathered->y, (size_t)gathered->room * sizeof *gathered->y);
        }
        gathered->x[gathered->count] = item_at(walk, walk->step->x)[at.x];
        gathered->y[gathered->count++] = item_at(walk, walk->step->y) + at.y;
        return;
    }
    const struct plan_dimension *along = &walk->space->dimensions[dimension];
    for (int64_t i = 0; i < walk->sizes[along->count]; i++) {
        gather_dimensions(walk, dimension + 1, at, gathered);
        at.x += walk->sizes[along->x];
        at.y += walk->sizes[along->y];
    }
}

static double variance_of(const struct gathered *g, double correction)
{
    double mean = 0, sum = 0;
    for (int64_t i = 0; i < g->count; i++)
        mean += g->x[i] / (double)g->count;
    for (int64_t i = 0; i < g->count; i++)
        sum += (g->x[i] - mean) * (g->x[i] - mean);
    return sum / ((double)g->count - correction);
}

static double reduced(enum plan_reduction reduction, double parameter, const struct gathered *g)
{
    double sum = 0, product = 1, norm = 0;
    int64_t largest = 0, smallest = 0;
    for (int64_t i = 0; i < g->count; i++) {
        sum += g->x[i];
        product *= g->x[i];
        norm = isinf(parameter) ? fmax(norm, fabs(g->x[i])) : norm + pow(fabs(g->x[i]), parameter);
        largest = g->x[i] > g->x[largest] ? i : largest;
        smallest = g->x[i] < g->x[smallest] ? i : smallest;
    }
    switch (reduction) {
    case REDUCTION_SUM:
        return sum;
    case REDUCTION_MEAN:
        return sum / (double)g->count;
    case REDUCTION_MAXIMUM:
        return g->x[largest];
    case REDUCTION_MINIMUM:
        return g->x[smallest];
    case REDUCTION_PRODUCT:
        return product;
    case REDUCTION_NORM:
        return isinf(parameter) ? norm : pow(norm, 1 / parameter);
    case REDUCTION_VARIANCE:
        return variance_of(g, parameter);
    case REDUCTION_DEVIATION:
        return sqrt(variance_of(g, parameter));
    case REDUCTION_ARGMAX:
        return (double)largest;
    case REDUCTION_CUMULATE:
    case REDUCTION_COUNT:
        break;
    }
    return NAN;
}

static void reduce_gathered(const struct plan_step *step, struct gathered *g)
{
    double sum = 0;
    if (step->operation == OP_SOFTMAX) {
        softmax(g->count, 1, g->x);
        for (int64_t i = 0; i < g->count; i++)
            *g->y[i] = step->softmax.logarithm ? log(g->x[i]) : g->x[i];
    } else if (step->reduce.reduction == REDUCTION_CUMULATE) {
        for (int64_t i = 0; i < g->count; i++)
            *g->y[i] = sum += g->x[i];
    } else {
        *g->y[0] = reduced(step->reduce.reduction, (double)step->reduce.parameter, g);
    }
}

/* The dimensions before those that are reduced. */
static void reduce_dimension(const struct walk *walk, int dimension, struct visited at)
{
    const struct plan_step *step = walk->step;
    if (dimension == walk->space->rank - (step->operation == OP_REDUCE ? step->reduce.reduced : 1)) {
        struct gathered gathered = {0, 0, NULL, NULL};
        gather_dimensions(walk, dimension, at, &gathered);
        reduce_gathered(step, &gathered);
        free(gathered.x);
        free(gathered.y);
        return;
    }
    const struct plan_dimension *along = &walk->space->dimensions[dimension];
    for (int64_t i = 0; i < walk->sizes[along->count]; i++) {
        reduce_dimension(walk, dimension + 1, at);
        at.x += walk->sizes[along->x];
        at.y += walk->sizes[along->y];
    }
}

/* y += scale x z over m, n and k. The strides that the operation does not read may be any. */
static void multiply_item(const struct walk *walk, int dimension, struct visited at)
{
    const struct plan_dimension *along = &walk->space->dimensions[dimension];
    int last = walk->space->rank - dimension; /* 3: m, 2: n, 1: k */
    if (last == 0) {
        double z = operand_at(walk, walk->step->z, walk->step->z_weight, 0, at.z);
        item_at(walk, walk->step->y)[at.y] +=
            (double)walk->step->multiply.scale * item_at(walk, walk->step->x)[at.x] * z;
        return;
    }
    for (int64_t i = 0; i < walk->sizes[along->count]; i++) {
        multiply_item(walk, dimension + 1, at);
        at.x += last == 2 ? 0 : walk->sizes[along->x];
        at.z += last == 3 ? 0 : walk->sizes[along->z];
        at.y += last == 1 ? 0 : walk->sizes[along->y];
    }
}

static void visit_space(const struct walk *walk, struct visited first)
{
    if (walk->step->operation == OP_REDUCE || walk->step->operation == OP_SOFTMAX)
        reduce_dimension(walk, 0, first);
    else if (walk->step->operation == OP_MULTIPLY)
        multiply_item(walk, 0, first);
    else
        visit_dimension(walk, 0, first);
}

static void run_over_space(const struct scalar *scalar, const struct plan_step *step)
{
    for (int64_t item = 0; item < scalar->batch->n_items; item++) {
        const int64_t *sizes = scalar->batch->sizes + item * scalar->plan->n_sizes;
        const struct plan_space *space = &scalar->plan->spaces[step->space];
        struct walk walk = {scalar, step, space, sizes, item};
        visit_space(&walk, (struct visited){sizes[space->x_first], sizes[space->z_first], sizes[space->keys_first],
                                            sizes[space->y_first]});
    }
}

static void run_row(const struct scalar *scalar, const struct plan_step *step, int64_t row)
{
    int64_t columns = columns_of(scalar, step->y);
    double *y = scalar->values[step->y] + row * columns;
    if (step->operation == OP_LAYER_NORM)
        layer_norm_row(scalar, step, row, y);
    else if (step->operation == OP_GROUP_NORM)
        group_norm_row(scalar, step, row, y);
    else if (step->operation == OP_ATTEND || step->operation == OP_ATTEND_CALL)
        attend_row(scalar, step, row, y);
    else
        for (int64_t c = 0; c < columns; c++)
            y[c] = value_at(scalar, step, row, c);
}

static double *gather_input(const struct scalar *scalar, int index)
{
    const struct plan_value *value = &scalar->plan->values[scalar->plan->inputs[index].value];
    int64_t rows = rows_of(scalar, scalar->plan->inputs[index].value);
    int32_t *gathered = calloc((size_t)(rows * value->columns) + 1, sizeof *gathered);
    double *doubles = calloc((size_t)(rows * value->columns) + 1, sizeof *doubles);
    padder_gather(scalar->plan, scalar->batch, index, gathered);
    for (int64_t i = 0; i < rows * value->columns; i++) {
        float x;
        memcpy(&x, &gathered[i], sizeof x);
        doubles[i] = value->ids ? (double)gathered[i] : (double)x;
    }
    free(gathered);
    return doubles;
}

static bool selects(const struct scalar *scalar, const struct plan_step *step, int64_t row)
{
    if (step->only.axis == PLAN_NONE)
        return true;
    const int64_t *starts = scalar->batch->layouts[step->only.axis].starts + item_of(scalar, step->y, row);
    return starts[1] - starts[0] >= step->only.least && starts[1] - starts[0] <= step->only.most;
}

double **scalar_run(const struct plan *plan, const struct batch *batch)
{
    struct scalar scalar = {plan, batch, calloc((size_t)plan->n_values, sizeof(double *))};
    for (int i = 0; i < plan->n_inputs; i++)
        if (plan->inputs[i].value != PLAN_NONE)
            scalar.values[plan->inputs[i].value] = gather_input(&scalar, i);
    for (int i = 0; i < plan->n_steps; i++) {
        const struct plan_step *step = &plan->steps[i];
        if (step->y == PLAN_NONE)
            continue;
        int64_t rows = rows_of(&scalar, step->y), columns = columns_of(&scalar, step->y);
        if (!scalar.values[step->y]) /* several steps may each give some items' rows */
            scalar.values[step->y] = calloc((size_t)(rows * columns) + 1, sizeof(double));
        if (step->space != PLAN_NONE)
            run_over_space(&scalar, step);
        for (int64_t row = 0; step->space == PLAN_NONE && row < rows; row++)
            if (selects(&scalar, step, row))
                run_row(&scalar, step, row);
    }
    return scalar.values;
}

void scalar_free(const struct plan *plan, double **values)
{
    for (int i = 0; i < plan->n_values; i++)
        free(values[i]);
    free(values);
}

static const struct plan_step *give_step(const struct plan *plan, enum operation operation)
{
    for (int i = 0; i < plan->n_steps; i++)
        if (plan->steps[i].operation == operation)
            return &plan->steps[i];
    abort();
}

void scalar_pooled(const struct plan *plan, const struct batch *batch, double **values, int64_t item, double *pooled)
{
    struct scalar scalar = {plan, batch, values};
    const struct plan_step *step = give_step(plan, OP_GIVE_POOLED);
    const struct layout *layout = layout_of(&scalar, step->x);
    int64_t first = layout->starts[item], columns = columns_of(&scalar, step->x);
    int64_t last = first + padder_length(plan, &batch->items[item], plan->axes[plan->hidden_axis].input) - 1;
    enum pooling pooling = batch->items[item].pooling;
    for (int64_t c = 0; c < columns; c++) {
        double sum = 0, largest = -INFINITY;
        for (int64_t r = first; r <= last; r++) {
            sum += values[step->x][r * columns + c];
            largest = fmax(largest, values[step->x][r * columns + c]);
        }
        pooled[c] = pooling == POOLING_MEAN  ? sum / (double)(last - first + 1)
                    : pooling == POOLING_MAX ? largest
                                             : values[step->x][(pooling == POOLING_CLS ? first : last) * columns + c];
    }
}

void scalar_output(const struct plan *plan, const struct batch *batch, double **values, int64_t item, double *output)
{
    struct scalar scalar = {plan, batch, values};
    const struct plan_step *step = give_step(plan, OP_GIVE_OUTPUT);
    const struct engine_item *wanted = &batch->items[item];
    for (int64_t i = 0; i < wanted->n_rows; i++, output += plan->output_columns) {
        int64_t row = padder_row(layout_of(&scalar, step->x), item, wanted->rows ? wanted->rows[i] : i);
        for (int64_t c = 0; c < plan->output_columns; c++)
            output[c] = step->weight == PLAN_NONE ? values[step->x][row * plan->output_columns + c]
                                                  : product_at(&scalar, step, row, c);
        if (wanted->softmax)
            softmax(plan->output_columns, 1, output);
    }
}

void scalar_image(const struct plan *plan, const struct batch *batch, double **values, int64_t item, double *output)
{
    struct scalar scalar = {plan, batch, values};
    const struct plan_step *step = give_step(plan, OP_GIVE_IMAGE);
    const int64_t *starts = layout_of(&scalar, step->x)->starts + item;
    for (int64_t c = 0; c < plan->output_columns; c++)
        for (int64_t r = starts[0]; r < starts[1]; r++)
            *output++ = values[step->x][r * plan->output_columns + c];
}

const double *scalar_tensor(const struct plan *plan, const struct batch *batch, double **values,
                            const struct plan_step *step, int64_t item)
{
    struct scalar scalar = {plan, batch, values};
    return values[step->x] + layout_of(&scalar, step->x)->item_starts[item] * columns_of(&scalar, step->x);
}
