#include "engine/families/module/tensor.h"
#include "engine/plan/axes.h"

#include <assert.h>
#include <string.h>

/* ---- Questions ---- */

int tensor_elements(struct module *module, const struct tensor *t)
{
    int elements = module->one;
    for (int d = 0; d < t->rank; d++)
        elements = module_product(module, elements, t->dims[d].size);
    return elements;
}

int tensor_batched_dim(const struct tensor *t)
{
    for (int d = 0; d < t->rank; d++)
        if (t->dims[d].batched)
            return d;
    return -1;
}

bool tensor_is_ids(const struct module *module, const struct tensor *t)
{
    return t->value != PLAN_NONE && module->builder->plan->values[t->value].ids;
}

/* The index of the size that is the number of rows of an item on an axis. PLAN_NONE if there is no such size. */
static int rows_of_axis(struct module *module, int axis)
{
    const struct plan_axis *of = &module->builder->plan->axes[axis];
    switch (of->kind) {
    case AXIS_FIXED:
        return module_size(module, of->rows_per_item);
    case AXIS_SIZED:
        return module_product(module, of->sized.rows, of->sized.sequences);
    case AXIS_INPUT:
        for (int i = 0; i < module->builder->plan->n_factors; i++) {
            const struct plan_factor *factor = &module->builder->plan->factors[i];
            if (factor->kind == FACTOR_FREE && factor->free.input == of->input)
                return plan_size_free(module->builder, of->input, 0, factor->free.least, factor->free.most);
        }
        return PLAN_NONE;
    default:
        return PLAN_NONE;
    }
}

/* The number of all elements that an item has in the tensor's value or weight. */
static int stored_elements(struct module *module, const struct tensor *t)
{
    const struct plan *plan = module->builder->plan;
    if (t->value == PLAN_NONE)
        return module_size(module, plan->weights[t->weight].rows * plan->weights[t->weight].columns);
    const struct plan_value *value = &plan->values[t->value];
    int rows = rows_of_axis(module, value->axis);
    return rows == PLAN_NONE ? PLAN_NONE : module_product(module, rows, module_size(module, value->columns));
}

bool tensor_is_whole(struct module *module, const struct tensor *t, int *order)
{
    bool placed[MODULE_RANK] = {false};
    int expected = module->one, left = t->rank;
    if (module_failed(module) || t->first != module->zero || t->value == PLAN_NONE)
        return false;
    for (int d = 0; d < t->rank; d++)
        if (t->dims[d].size == module->one) { /* the position of a dimension of one element has no effect */
            placed[d] = true;
            order[--left] = d;
        }
    while (left > 0) {
        int found = -1;
        for (int d = 0; d < t->rank && found < 0; d++)
            if (!placed[d] && t->dims[d].stride == expected)
                found = d;
        if (found < 0)
            return false;
        placed[found] = true;
        order[--left] = found;
        expected = module_product(module, expected, t->dims[found].size);
    }
    return !module_failed(module) && expected == stored_elements(module, t);
}

/* Whether the tensor consists of all elements of its value, in the same order as in memory. */
static bool is_in_order(struct module *module, const struct tensor *t)
{
    int expected = module->one;
    if (t->first != module->zero || t->value == PLAN_NONE)
        return false;
    for (int d = t->rank - 1; d >= 0; d--) {
        if (t->dims[d].size != module->one && t->dims[d].stride != expected)
            return false;
        expected = module_product(module, expected, t->dims[d].size);
    }
    return !module_failed(module) && expected == stored_elements(module, t);
}

int tensor_stride(const struct module *module, const struct tensor *t, int dim)
{
    return t->dims[dim].size == module->one ? module->zero : t->dims[dim].stride;
}

/* ---- New values ---- */

/* Sets sizes and strides for elements that are in order in memory. */
static void lay_in_order(struct module *module, struct tensor *t)
{
    int stride = module->one;
    t->first = module->zero;
    for (int d = t->rank - 1; d >= 0; d--) {
        t->dims[d].stride = stride;
        stride = module_product(module, stride, t->dims[d].size);
    }
}

struct tensor tensor_new(struct module *module, int rank, const struct tensor_dimension *dims)
{
    struct tensor t = {.value = PLAN_NONE, .weight = PLAN_NONE, .rank = rank};
    memcpy(t.dims, dims, (size_t)rank * sizeof *dims);
    lay_in_order(module, &t);
    return t;
}

/* The axis whose rows are the leading dimensions of the tensor, up to `end`. If dimension 0 contains the batch as its
 * slowest index, the axis has a sequence for each index of this dimension. */
static int axis_of(struct module *module, const struct tensor *t, int end)
{
    int rows = module->one, sequences = module->one;
    for (int d = 0; d < end; d++) {
        if (d == 0 && t->dims[d].batched && !t->dims[d].inner)
            sequences = t->dims[d].size;
        else
            rows = module_product(module, rows, t->dims[d].size);
    }
    return plan_sized_axis(module->builder, rows, sequences);
}

/* The number of elements in the dimensions from `from` on, if it is the same for every item. */
static bool constant_columns(struct module *module, const struct tensor *t, int from, int64_t *columns)
{
    *columns = 1;
    for (int d = from; d < t->rank; d++) {
        int64_t size;
        if (module_failed(module) || !plan_size_is_constant(module->builder->plan, t->dims[d].size, &size) ||
            __builtin_mul_overflow(*columns, size, columns) || *columns > INT32_MAX)
            return false;
    }
    return true;
}

struct plan_target tensor_target(struct module *module, const struct tensor *t)
{
    struct plan_target target = {.columns = 1, .value = PLAN_NONE, .ids = false};
    int64_t columns;
    int end = t->rank;
    if (t->rank > 0 && !t->dims[t->rank - 1].batched && constant_columns(module, t, t->rank - 1, &columns)) {
        target.columns = columns;
        end--;
    }
    target.axis = axis_of(module, t, end);
    return target;
}

struct tensor tensor_arranged(struct module *module, struct tensor t)
{
    struct tensor made = tensor_new(module, t.rank, t.dims);
    struct plan_space space = {.rank = t.rank, .x_first = t.first, .z_first = module->zero, .y_first = module->zero};
    if (module_failed(module))
        return made;
    for (int d = 0; d < t.rank; d++)
        space.dimensions[d] = space_dimension(t.dims[d].size, tensor_stride(module, &t, d), module->zero,
                                              tensor_stride(module, &made, d));
    struct plan_target target = tensor_target(module, &made);
    target.ids = tensor_is_ids(module, &t);
    struct plan_source source = {.value = t.value, .weight = t.value == PLAN_NONE ? t.weight : PLAN_NONE};
    made.value = plan_arrange(module->builder, source, plan_add_space(module->builder, &space), target);
    return made;
}

struct tensor tensor_as_value(struct module *module, struct tensor t)
{
    return t.value == PLAN_NONE ? tensor_arranged(module, t) : t;
}

int tensor_rows(struct module *module, struct tensor t, int n_last, bool exact)
{
    int64_t columns;
    if (module_failed(module))
        return PLAN_NONE;
    if (n_last > t.rank)
        return module_fail(module, "an operand has %d dimensions; expected at least %d", t.rank, n_last);
    if (!constant_columns(module, &t, t.rank - n_last, &columns))
        return module_fail(module, "the last %d dimensions of an operand must have fixed sizes", n_last);
    if (tensor_batched_dim(&t) >= t.rank - n_last)
        return module_fail(module, "the operation would mix the items of a batch");
    if (!is_in_order(module, &t))
        t = tensor_arranged(module, t);
    if (module_failed(module))
        return PLAN_NONE;
    const struct plan_value *value = &module->builder->plan->values[t.value];
    int axis = axis_of(module, &t, t.rank - n_last);
    if (value->columns == columns && (!exact || value->axis == axis))
        return t.value;
    return plan_reshape(module->builder, t.value, axis, columns);
}

struct tensor tensor_of_rows(struct module *module, int value, struct tensor t, int n_last, int64_t columns)
{
    t.rank -= n_last;
    t.dims[t.rank++] = (struct tensor_dimension){.size = module_size(module, columns)};
    struct tensor made = tensor_new(module, t.rank, t.dims);
    made.value = value;
    return made;
}

/* ---- Views ---- */

struct tensor tensor_permute(struct module *module, struct tensor t, const int *order)
{
    struct tensor made = t;
    (void)module;
    made.counts = false;
    for (int d = 0; d < t.rank; d++)
        made.dims[d] = t.dims[order[d]];
    return made;
}

struct tensor tensor_unsqueeze(struct module *module, struct tensor t, int dim)
{
    if (t.rank == MODULE_RANK) {
        module_fail(module, "a tensor of more than %d dimensions is not supported", MODULE_RANK);
        return t;
    }
    memmove(&t.dims[dim + 1], &t.dims[dim], (size_t)(t.rank - dim) * sizeof *t.dims);
    t.dims[dim] = (struct tensor_dimension){.size = module->one, .stride = module->zero};
    t.counts &= dim < t.rank;
    t.rank++;
    return t;
}

struct tensor tensor_squeeze(struct module *module, struct tensor t, int dim)
{
    if (t.dims[dim].size != module->one || t.dims[dim].batched)
        return t;
    t.counts &= dim < t.rank - 1;
    t.rank--;
    memmove(&t.dims[dim], &t.dims[dim + 1], (size_t)(t.rank - dim) * sizeof *t.dims);
    return t;
}

/* The step that wrote the value, if it is a linear step without a residual. */
static const struct plan_step *product_of(const struct module *module, int value)
{
    const struct plan *plan = module->builder->plan;
    for (int i = plan->n_steps - 1; i >= 0; i--)
        if (plan->steps[i].y == value)
            return plan->steps[i].operation == OP_LINEAR && plan->steps[i].z == PLAN_NONE ? &plan->steps[i] : NULL;
    return NULL;
}

/* Computes a slice of the columns of x Wᵀ + b as a product with a part of W. The whole product remains only if another
 * step reads it. PLAN_NONE if the tensor is not a product. */
static int slice_product(struct module *module, const struct tensor *t, int64_t start, int64_t length)
{
    struct plan_builder *builder = module->builder;
    const struct plan_step *product = t->value == PLAN_NONE ? NULL : product_of(module, t->value);
    if (!product || !is_in_order(module, t) ||
        !module_is(module, t->dims[t->rank - 1].size, builder->plan->values[t->value].columns))
        return PLAN_NONE;
    int x = product->x, weight = product->weight, bias = product->bias;
    int64_t in = plan_weight_at(builder, weight)->columns;
    weight = plan_slice_weight(builder, weight, start * in, length, in);
    bias = bias == PLAN_NONE ? PLAN_NONE : plan_slice_weight(builder, bias, start, 1, length);
    return plan_linear(builder, x, weight, bias);
}

struct tensor tensor_slice(struct module *module, struct tensor t, int dim, int start, int length, int64_t step)
{
    int64_t first, count;
    if (module_failed(module))
        return t;
    if (t.dims[dim].batched) {
        module_fail(module, "a slice of the batch dimension is not supported");
        return t;
    }
    bool constant = plan_size_is_constant(module->builder->plan, start, &first) &&
                    plan_size_is_constant(module->builder->plan, length, &count);
    if (constant && step == 1 && dim == t.rank - 1 && length != t.dims[dim].size && length != module->zero) {
        int value = slice_product(module, &t, first, count);
        if (value != PLAN_NONE)
            return tensor_of_rows(module, value, t, 1, count);
    }
    t.first = plan_size_add(module->builder, t.first, module_product(module, start, t.dims[dim].stride));
    t.dims[dim].size = length;
    t.dims[dim].stride = module_product(module, t.dims[dim].stride, module_size(module, step));
    t.counts &= dim != t.rank - 1 || (start == module->zero && step == 1);
    return t;
}

struct tensor tensor_expand(struct module *module, struct tensor t, int rank, const int *sizes)
{
    if (rank < t.rank || rank > MODULE_RANK) {
        module_fail(module, "a tensor of %d dimensions cannot be expanded to %d", t.rank, rank);
        return t;
    }
    while (t.rank < rank && !module_failed(module))
        t = tensor_unsqueeze(module, t, 0);
    for (int d = 0; d < rank && !module_failed(module); d++) {
        bool batched;
        if (module_is(module, sizes[d], -1))
            continue;
        int size = module_split_batch(module, sizes[d], &batched);
        if (module_failed(module) || (size == t.dims[d].size && batched == t.dims[d].batched))
            continue;
        if (t.dims[d].size != module->one || (t.dims[d].batched && size != module->one)) {
            module_fail(module, "dimension %d cannot be expanded, because its size is not 1", d);
            return t;
        }
        t.counts = false;
        t.dims[d] = (struct tensor_dimension){.size = size, .stride = module->zero, .batched = batched};
    }
    return t;
}

/* ---- Other shapes ---- */

/* Regroups `count` dimensions into `n_sizes` new dimensions, beginning with the innermost. Returns false if the
 * elements of a new dimension have no common stride. */
static bool regroup(struct module *module, const struct tensor_dimension *dims, int count, const int *sizes,
                    int n_sizes, struct tensor_dimension *made)
{
    int old = count - 1, size = module->one, stride = module->one;
    for (int n = n_sizes - 1; n >= 0; n--) {
        made[n] = (struct tensor_dimension){.size = sizes[n], .stride = module->zero};
        if (sizes[n] == module->one)
            continue;
        for (;;) {
            int quotient;
            if (size == module->one) {
                if (old < 0)
                    return false;
                size = dims[old].size;
                stride = dims[old--].stride;
                continue;
            }
            if (size == sizes[n] || plan_size_divides(module->builder, size, sizes[n], &quotient))
                break;
            while (old >= 0 && dims[old].size == module->one)
                old--;
            if (old < 0 || dims[old].stride != module_product(module, stride, size))
                return false;
            size = module_product(module, size, dims[old--].size);
            if (module_failed(module))
                return false;
        }
        int quotient = module->one;
        if (size != sizes[n] && !plan_size_divides(module->builder, size, sizes[n], &quotient))
            return false;
        made[n].stride = stride;
        stride = module_product(module, stride, sizes[n]);
        size = quotient;
    }
    while (old >= 0 && dims[old].size == module->one)
        old--;
    return old < 0 && size == module->one && !module_failed(module);
}

/* Computes the requested shape: sizes without the batch, and the batched dimension. A size of -1 is computed from the
 * others. */
static bool read_shape(struct module *module, const struct tensor *t, int rank, const int *sizes,
                       struct tensor_dimension *made)
{
    int known = module->one, left = -1, all = tensor_elements(module, t);
    bool batched = false;
    for (int d = 0; d < rank && !module_failed(module); d++) {
        made[d] = (struct tensor_dimension){.size = module->one};
        if (module_is(module, sizes[d], -1)) {
            left = d;
            continue;
        }
        made[d].size = module_split_batch(module, sizes[d], &made[d].batched);
        batched |= made[d].batched;
        known = module_product(module, known, made[d].size);
    }
    if (module_failed(module))
        return false;
    if (left >= 0 && !plan_size_divides(module->builder, all, known, &made[left].size))
        made[left].size = plan_size_divide(module->builder, all, known);
    if (left >= 0 && !batched && tensor_batched_dim(t) >= 0)
        made[left].batched = batched = true;
    int total = left < 0 ? known : module_product(module, known, made[left].size);
    char found[80], expected[80];
    if (!module_failed(module) && (total != all || batched != (tensor_batched_dim(t) >= 0)))
        module_fail(module, "a tensor of %s elements cannot have a shape of %s",
                    plan_size_text(module->builder->plan, all, found, sizeof found),
                    plan_size_text(module->builder->plan, total, expected, sizeof expected));
    return !module_failed(module);
}

/* The product of the sizes before dimension `batched`. If `inner`, the size of this dimension is included. */
static int before_batch(struct module *module, const struct tensor_dimension *dims, int batched, bool inner)
{
    int product = module->one;
    for (int d = 0; d < batched + inner; d++)
        product = module_product(module, product, dims[d].size);
    return product;
}

/* Regroups the dimensions before and after the batch separately. A dimension s * B belongs to those before the batch.
 */
static bool view(struct module *module, const struct tensor *t, int rank, struct tensor_dimension *made)
{
    int sizes[MODULE_RANK], batched = tensor_batched_dim(t), place = 0;
    struct tensor_dimension before[MODULE_RANK], after[MODULE_RANK];
    for (int d = 0; d < rank; d++)
        sizes[d] = made[d].size;
    while (place < rank && !made[place].batched)
        place++;
    if (batched < 0)
        return regroup(module, t->dims, t->rank, sizes, rank, made);
    int end = batched + t->dims[batched].inner, left = before_batch(module, t->dims, batched, t->dims[batched].inner);
    bool inner = before_batch(module, made, place, false) != left;
    int split = place + inner;
    if (module_failed(module) || before_batch(module, made, place, inner) != left)
        return false;
    if (!regroup(module, t->dims, end, sizes, split, before) ||
        !regroup(module, t->dims + end, t->rank - end, sizes + split, rank - split, after))
        return false;
    memcpy(made, before, (size_t)split * sizeof *made);
    memcpy(made + split, after, (size_t)(rank - split) * sizeof *made);
    made[place].batched = true;
    made[place].inner = inner;
    return true;
}

struct tensor tensor_reshape(struct module *module, struct tensor t, int rank, const int *sizes)
{
    struct tensor made = t;
    made.rank = rank;
    if (rank > MODULE_RANK) {
        module_fail(module, "a tensor of more than %d dimensions is not supported", MODULE_RANK);
        return t;
    }
    if (module_failed(module) || !read_shape(module, &t, rank, sizes, made.dims))
        return t;
    struct tensor_dimension shape[MODULE_RANK];
    memcpy(shape, made.dims, sizeof shape);
    made.counts = false;
    if (view(module, &t, rank, made.dims))
        return made;
    memcpy(made.dims, shape, sizeof shape);
    struct tensor arranged = tensor_arranged(module, t);
    made.value = arranged.value;
    made.weight = PLAN_NONE;
    made.first = arranged.first;
    if (!module_failed(module) && !view(module, &arranged, rank, made.dims))
        module_fail(module, "the new shape would mix the items of a batch");
    return made;
}

/* ---- Weights ---- */

int tensor_weight(struct module *module, struct tensor t, int64_t rows, int64_t columns)
{
    int64_t counts[MODULE_RANK], strides[MODULE_RANK], first, elements = 1;
    if (module_failed(module))
        return PLAN_NONE;
    const struct plan *plan = module->builder->plan;
    if (t.value != PLAN_NONE)
        return module_fail(module, "the weight is a computed tensor; expected a tensor of the weights file");
    bool constant = plan_size_is_constant(plan, t.first, &first);
    for (int d = 0; d < t.rank && constant; d++) {
        constant = plan_size_is_constant(plan, t.dims[d].size, &counts[d]) &&
                   plan_size_is_constant(plan, t.dims[d].stride, &strides[d]) &&
                   !__builtin_mul_overflow(elements, counts[d], &elements);
    }
    if (!constant)
        return module_fail(module, "the weight has a free size, or too many elements; expected %lld elements",
                           (long long)(rows * columns));
    if (elements != rows * columns)
        return module_fail(module, "the weight has %lld elements; expected %lld", (long long)elements,
                           (long long)(rows * columns));
    return plan_view_weight(module->builder, t.weight, t.rank, counts, strides, first, rows, columns);
}

int tensor_vector(struct module *module, struct tensor t, int64_t count)
{
    return tensor_weight(module, t, 1, count);
}
