#include "tests/unit/scalar.h"
#include "tests/unit/scalar_parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

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

static void feed_forward_row(const struct scalar *scalar, const struct plan_step *step, int64_t row, double *y)
{
    int64_t columns = columns_of(scalar, step->y), hidden = scalar->plan->weights[step->second_weight].columns;
    const double *x = scalar->values[step->x] + row * columns_of(scalar, step->x);
    double *h = calloc((size_t)hidden, sizeof *h);
    for (int64_t i = 0; i < hidden; i++) {
        h[i] = scalar_activation(step->feed_forward.activation, weighted_sum(scalar, step->weight, step->bias, i, x));
        h[i] *= step->feed_forward.gated ? weighted_sum(scalar, step->weight, step->bias, hidden + i, x) : 1;
    }
    for (int64_t c = 0; c < columns; c++)
        y[c] = weighted_sum(scalar, step->second_weight, step->second_bias, c, h) +
               (step->z == PLAN_NONE ? 0 : scalar->values[step->z][row * columns + c]);
    free(h);
}

/* Each group of n columns of the row has its own mean and variance. */
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

/* The sequence that contains the row of the value. */
static struct padder_sequence sequence_of(const struct scalar *scalar, int value, int64_t row)
{
    int axis = scalar->plan->values[value].axis;
    struct padder_sequence sequence = padder_sequence(scalar->plan, scalar->batch, axis, 0);
    for (int64_t i = 1; row >= sequence.first + sequence.rows; i++)
        sequence = padder_sequence(scalar->plan, scalar->batch, axis, i);
    return sequence;
}

/* The mean and the variance of a group are computed over all rows of the row's sequence. */
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

/* An element of an additional column of a projection: the sum of a column of E, or the bias. */
static double projected_column_at(const struct scalar *scalar, const struct plan_step *step, int64_t row,
                                  int64_t column)
{
    const struct layout *from = layout_of(scalar, step->x);
    int64_t item = sequence_index(scalar, step->y, row), j = row - layout_of(scalar, step->y)->starts[item];
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
    int64_t item = sequence_index(scalar, step->y, row), j = row - layout_of(scalar, step->y)->starts[item];
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

/* All groups have one weight (d, d, stride) in common, or each group has its own weight. */
static double convolve_at(const struct scalar *scalar, const struct plan_step *step, int64_t row, int64_t column)
{
    const struct layout *from = layout_of(scalar, step->x);
    const struct plan_weight *bias = &scalar->plan->weights[step->bias];
    const float *weight = scalar->plan->weights[step->weight].data;
    int64_t item = sequence_index(scalar, step->y, row), j = row - layout_of(scalar, step->y)->starts[item];
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

/* The result (w, d, k) is stored as rows of d columns. */
static double project_call_at(const struct scalar *scalar, const struct plan_step *step, int64_t row, int64_t column)
{
    const struct layout *from = layout_of(scalar, step->x);
    const struct plan_weight *e = &scalar->plan->weights[step->weight];
    int64_t item = sequence_index(scalar, step->y, row), d = columns_of(scalar, step->x),
            w = width_of(scalar, step->x, item);
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

static double shift_at(const struct scalar *scalar, const struct plan_step *step, int64_t row, int64_t column)
{
    const struct layout *from = layout_of(scalar, step->x);
    int64_t columns = columns_of(scalar, step->x), segment = column / (columns / step->shift_tokens.count);
    int64_t item = sequence_index(scalar, step->y, row),
            shift = segment < step->shift_tokens.count ? step->shift_tokens.by[segment] : 0;
    int64_t position = padder_position(layout_of(scalar, step->y), item, row) - shift;
    int64_t length = from->starts[item + 1] - from->starts[item];
    if (from->positions) /* an axis with `positions` has one sequence per item */
        length = padder_axis_rows(scalar->plan, &scalar->batch->items[item], scalar->plan->values[step->x].axis);
    if (position < 0 || position >= length)
        return 0;
    return scalar->values[step->x][padder_row(from, item, position) * columns + column];
}

static double positions_at(const struct scalar *scalar, const struct plan_step *step, int64_t row, int64_t column)
{
    int64_t position = padder_position(layout_of(scalar, step->x), sequence_index(scalar, step->x, row), row);
    double sum = scalar->values[step->x][row * columns_of(scalar, step->x) + column];
    sum += weight_at(scalar, step->table, position / step->add_positions.period, column);
    return sum + (step->minor_table == PLAN_NONE
                      ? 0
                      : weight_at(scalar, step->minor_table, position % step->add_positions.period, column));
}

static double sinusoid_at(const struct scalar *scalar, const struct plan_step *step, int64_t row, int64_t column)
{
    int64_t columns = columns_of(scalar, step->x), half = columns / 2;
    int64_t position = padder_position(layout_of(scalar, step->x), sequence_index(scalar, step->x, row), row);
    float angle = (float)position * scalar->plan->weights[step->weight].data[column % half];
    return scalar->values[step->x][row * columns + column] + (column < half ? sin((double)angle) : cos((double)angle));
}

static double rotated_at(const struct scalar *scalar, const struct plan_step *step, int64_t row, int64_t column)
{
    int64_t columns = columns_of(scalar, step->x), d = scalar->plan->weights[step->table].columns;
    int64_t position = padder_position(layout_of(scalar, step->x), sequence_index(scalar, step->x, row), row),
            i = column % d / 2;
    const double *x = scalar->values[step->x] + row * columns;
    double other = column % 2 ? x[column - 1] : -x[column + 1];
    return x[column] * weight_at(scalar, step->table, position, d / 2 + i) +
           other * weight_at(scalar, step->table, position, i);
}

static double concatenated_at(const struct scalar *scalar, const struct plan_step *step, int64_t row, int64_t column)
{
    int64_t left = columns_of(scalar, step->x), right = columns_of(scalar, step->z);
    return column < left ? scalar->values[step->x][row * left + column]
                         : scalar->values[step->z][row * right + column - left];
}

static double appended_at(const struct scalar *scalar, const struct plan_step *step, int64_t row, int64_t column)
{
    int64_t item = sequence_index(scalar, step->y, row), columns = columns_of(scalar, step->y);
    const int64_t *first = layout_of(scalar, step->x)->starts + item;
    int64_t position = row - layout_of(scalar, step->y)->starts[item], own = first[1] - first[0];
    if (position < own)
        return scalar->values[step->x][(first[0] + position) * columns + column];
    int64_t from = layout_of(scalar, step->z)->starts[item] + position - own;
    return scalar->values[step->z][from * columns + column];
}

/* W[u, v] of the kernel for a channel of the group. The layout of the weight depends on the operation. */
static double kernel_at(const struct scalar *scalar, const struct plan_step *step, int64_t column, int64_t pixel,
                        int64_t channel, int64_t channels)
{
    if (step->operation == OP_CONVOLVE_CHANNELS)
        return weight_at(scalar, step->weight, pixel, column);
    return weight_at(scalar, step->weight, column, pixel * channels + channel);
}

/* The height and the width of the image that the step convolves: sizes of the plan, or the size of the item's input. */
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
    int64_t item = sequence_index(scalar, step->y, row);
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

/* If y contains ids, truncates the result to int32_t. A result outside of int32_t becomes INT32_MIN. */
static double activated_at(const struct scalar *scalar, const struct plan_step *step, int64_t place)
{
    double y = scalar_activation(step->activate.activation, scalar->values[step->x][place]);
    bool fits = y > INT32_MIN - 1.0 && y < INT32_MAX + 1.0;
    return !scalar->plan->values[step->y].ids ? y : fits ? trunc(y) : (double)INT32_MIN;
}

static double cut_at(const struct scalar *scalar, const struct plan_step *step, int64_t row, int64_t column)
{
    int64_t item = sequence_index(scalar, step->y, row);
    int64_t from = row - layout_of(scalar, step->y)->starts[item] + layout_of(scalar, step->x)->starts[item];
    return scalar->values[step->x][from * columns_of(scalar, step->x) + column];
}

static double padded_at(const struct scalar *scalar, const struct plan_step *step, int64_t row, int64_t column)
{
    int64_t item = sequence_index(scalar, step->y, row), columns = columns_of(scalar, step->y);
    int64_t position = row - layout_of(scalar, step->y)->starts[item];
    const int64_t *own = layout_of(scalar, step->x)->starts + item;
    if (position >= own[1] - own[0])
        return step->pad_rows.fill;
    return step->pad_rows.ones ? 1 : scalar->values[step->x][(own[0] + position) * columns + column];
}

static double value_at(const struct scalar *scalar, const struct plan_step *step, int64_t row, int64_t column)
{
    int64_t place = row * columns_of(scalar, step->y) + column;
    bool adds = step->operation == OP_LINEAR || step->operation == OP_ADD;
    double residual = adds && step->z != PLAN_NONE ? scalar->values[step->z][place] : 0;
    switch (step->operation) {
    case OP_EMBED:
        return embedded_at(scalar, step, row, column);
    case OP_ADD_POSITIONS:
        return positions_at(scalar, step, row, column);
    case OP_LINEAR:
        return scalar_activation(step->linear.activation, product_at(scalar, step, row, column)) + residual;
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
    case OP_RESHAPE: /* the elements keep their order, because the items of a batch follow one another in x and in y */
        return scalar->values[step->x][row * columns_of(scalar, step->y) + column];
    case OP_CUT_PADDING:
        return cut_at(scalar, step, row, column);
    case OP_PAD_ROWS:
        return padded_at(scalar, step, row, column);
    case OP_SHIFT_TOKENS:
        return shift_at(scalar, step, row, column);
    case OP_FEED_FORWARD:
    case OP_LINEAR_ATTEND:
    case OP_LOCAL_ATTEND:
    case OP_RETRIEVE:
    case OP_LAYER_NORM:
    case OP_GROUP_NORM:
    case OP_ATTEND:
    case OP_ATTEND_CALL: /* run_row computes these operations row by row */
    case OP_ARRANGE:
    case OP_COMBINE:
    case OP_SELECT:
    case OP_REDUCE:
    case OP_SOFTMAX:
    case OP_MULTIPLY: /* scalar_run_over_space computes these operations */
    case OP_GIVE_HIDDEN:
    case OP_GIVE_POOLED:
    case OP_GIVE_OUTPUT:
    case OP_GIVE_IMAGE:
    case OP_GIVE_TENSOR: /* these operations have no y */
    case OP_COUNT:
        break;
    }
    return NAN;
}

static void run_row(const struct scalar *scalar, const struct plan_step *step, int64_t row)
{
    int64_t columns = columns_of(scalar, step->y);
    double *y = scalar->values[step->y] + row * columns;
    switch (step->operation) {
    case OP_FEED_FORWARD:
        feed_forward_row(scalar, step, row, y);
        break;
    case OP_LAYER_NORM:
        layer_norm_row(scalar, step, row, y);
        break;
    case OP_GROUP_NORM:
        group_norm_row(scalar, step, row, y);
        break;
    case OP_ATTEND:
    case OP_ATTEND_CALL:
        scalar_attend_row(scalar, step, row, y);
        break;
    case OP_LINEAR_ATTEND:
        scalar_linear_attend_row(scalar, step, row, y);
        break;
    case OP_LOCAL_ATTEND:
        scalar_local_attend_row(scalar, step, row, y);
        break;
    case OP_RETRIEVE:
        scalar_retrieve_row(scalar, step, row, y);
        break;
    default:
        for (int64_t c = 0; c < columns; c++)
            y[c] = value_at(scalar, step, row, c);
    }
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
    const int64_t *starts = scalar->batch->layouts[step->only.axis].starts + sequence_index(scalar, step->y, row);
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
        if (!scalar.values[step->y]) /* several steps may write different rows of y */
            scalar.values[step->y] = calloc((size_t)(rows * columns) + 1, sizeof(double));
        if (step->space != PLAN_NONE)
            scalar_run_over_space(&scalar, step);
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
            scalar_softmax(plan->output_columns, 1, output);
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
