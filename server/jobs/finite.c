#include "server/jobs/finite.h"

#include <math.h>
#include <string.h>

#define BLOCK 64 /* number of floats that are tested together without a branch */

/* Returns the index of the first value that is NaN or infinite, or -1 if there is none. The loop over a block contains
 * no branch, so the compiler uses vector instructions. */
static int64_t find_not_finite(const float *values, int64_t count)
{
    int64_t start = 0;
    for (; start + BLOCK <= count; start += BLOCK) {
        uint32_t bits[BLOCK], found = 0;
        memcpy(bits, values + start, sizeof bits);
        for (int i = 0; i < BLOCK; i++)
            found |= (bits[i] & 0x7f800000u) == 0x7f800000u;
        if (found)
            break;
    }
    for (; start < count; start++)
        if (!isfinite(values[start]))
            return start;
    return -1;
}

/* Whether all values are finite. `values` has the shape (rows, columns), or is NULL if the item did not request the
 * values. */
static bool is_finite(const char *name, const float *values, int64_t rows, int64_t columns, struct flaw *flaw)
{
    int64_t index = values ? find_not_finite(values, rows * columns) : -1;
    if (index >= 0)
        *flaw = (struct flaw){.output = name, .row = index / columns};
    return index < 0;
}

static bool extras_are_finite(const struct model *model, const struct engine_item *item, struct flaw *flaw)
{
    for (int i = 0; i < item->n_extras; i++) {
        int64_t shape[ENGINE_MAX_RANK], elements = 1;
        int output = item->extras[i].output, rank = model_output_shape(model, item, output, shape);
        for (int d = 0; d < rank; d++)
            elements *= shape[d];
        int64_t columns = rank > 0 ? shape[rank - 1] : 1;
        if (!is_finite(model_info(model)->outputs[output], item->extras[i].data, elements / columns, columns, flaw))
            return false;
    }
    return true;
}

static bool logarithms_are_finite(const struct engine_item *item, struct flaw *flaw)
{
    bool finite = !item->targets || is_finite("the log-probabilities", item->log_probabilities, item->n_rows, 1, flaw);
    if (!finite && item->rows)
        flaw->row = item->rows[flaw->row];
    return finite;
}

/* Checks the first output of a module. The last dimension of the output counts as a row. */
static bool tensor_is_finite(const struct model *model, const struct engine_item *item, struct flaw *flaw)
{
    int64_t shape[ENGINE_MAX_RANK], rows = 1;
    int rank = model_output_shape(model, item, 0, shape);
    for (int d = 0; d < rank - 1; d++)
        rows *= shape[d];
    return is_finite("the output", item->output, rows, rank > 0 ? shape[rank - 1] : 1, flaw);
}

static bool output_is_finite(const struct model *model, const struct engine_item *item, struct flaw *flaw)
{
    const struct model_info *info = model_info(model);
    if (info->n_tensors > 0)
        return tensor_is_finite(model, item, flaw);
    if (item->top_k == 0 && info->inputs[0].layout == LAYOUT_IMAGE) {
        /* The output of an image has the shape (channels, pixels), so a row is a channel. */
        bool is_right = is_finite("the output", item->output, info->output_columns, item->n_rows, flaw);
        flaw->is_channel = !is_right;
        return is_right;
    }
    bool finite = item->top_k > 0
                      ? is_finite("the output's best values", item->top_values, item->n_rows, item->top_k, flaw)
                      : is_finite("the output", item->output, item->n_rows, info->output_columns, flaw);
    if (!finite && item->rows)
        flaw->row = item->rows[flaw->row];
    return finite;
}

bool item_is_finite(const struct model *model, const struct engine_item *item, struct flaw *flaw)
{
    int64_t columns = model_info(model)->hidden_columns;
    return extras_are_finite(model, item, flaw) &&
           is_finite("the last hidden state", item->hidden, model_hidden_rows(model, item), columns, flaw) &&
           is_finite("the pooled vector", item->pooled, 1, columns, flaw) && output_is_finite(model, item, flaw) &&
           logarithms_are_finite(item, flaw);
}
