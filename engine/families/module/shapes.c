/* shapes: operations that change the shape of a tensor, or the order of its elements. */
#include "engine/families/module/tensor.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Views ---- */

static void build_view(struct node *node, int variant)
{
    struct tensor t = node_tensor(node, "self");
    int sizes[MODULE_RANK], rank = node_sizes(node, variant ? "shape" : "size", sizes, MODULE_RANK);
    if (rank >= 0)
        node_give(node, tensor_reshape(node->module, t, rank, sizes));
}

void tensor_whole_sizes(struct module *module, const struct tensor *t, int *sizes)
{
    for (int d = 0; d < t->rank; d++)
        sizes[d] = t->dims[d].batched ? module_product(module, module->batch, t->dims[d].size) : t->dims[d].size;
}

static void build_flatten(struct node *node, int variant)
{
    (void)variant;
    struct module *module = node->module;
    struct tensor t = node_tensor(node, "self");
    if (module_failed(module) || t.rank == 0)
        return;
    int first = node_dim(node, "start_dim", t.rank, 0), last = node_dim(node, "end_dim", t.rank, -1);
    int whole[MODULE_RANK], sizes[MODULE_RANK], rank = 0;
    tensor_whole_sizes(module, &t, whole);
    if (last < first) {
        module_fail(module, "end_dim is before start_dim");
        return;
    }
    for (int d = 0; d < t.rank; d++)
        if (d <= first || d > last)
            sizes[rank++] = whole[d];
        else
            sizes[rank - 1] = module_product(module, sizes[rank - 1], whole[d]);
    node_give(node, tensor_reshape(module, t, rank, sizes));
}

static void build_unflatten(struct node *node, int variant)
{
    (void)variant;
    struct module *module = node->module;
    struct tensor t = node_tensor(node, "self");
    int parts[MODULE_RANK], whole[MODULE_RANK], sizes[2 * MODULE_RANK], rank = 0;
    int dim = node_dim(node, "dim", t.rank, NODE_REQUIRED), count = node_sizes(node, "sizes", parts, MODULE_RANK);
    if (count < 0 || module_failed(module))
        return;
    tensor_whole_sizes(module, &t, whole);
    for (int d = 0; d < t.rank; d++)
        if (d != dim)
            sizes[rank++] = whole[d];
        else
            for (int i = 0; i < count; i++) {
                bool left = module_is(module, parts[i], -1);
                int known = module->one;
                for (int j = 0; j < count && left; j++)
                    if (j != i)
                        known = module_product(module, known, parts[j]);
                sizes[rank++] = left ? plan_size_divide(module->builder, whole[d], known) : parts[i];
            }
    node_give(node, tensor_reshape(module, t, rank, sizes));
}

static void build_squeeze(struct node *node, int variant)
{
    (void)variant;
    struct module *module = node->module;
    struct tensor t = node_tensor(node, "self");
    int64_t dims[MODULE_RANK];
    bool some = node_has(node, "dim"), squeezed[MODULE_RANK] = {false};
    int count = node_integers(node, "dim", dims, MODULE_RANK);
    for (int i = 0; i < count && !module_failed(module); i++) {
        if (dims[i] < -t.rank || dims[i] >= t.rank)
            module_fail(module, "argument \"dim\" is %lld; the tensor has %d dimensions", (long long)dims[i], t.rank);
        else
            squeezed[dims[i] < 0 ? dims[i] + t.rank : dims[i]] = true;
    }
    for (int d = t.rank - 1; d >= 0 && !module_failed(module); d--)
        if (!some || squeezed[d])
            t = tensor_squeeze(module, t, d);
    node_give(node, t);
}

static void build_unsqueeze(struct node *node, int variant)
{
    (void)variant;
    struct tensor t = node_tensor(node, "self");
    int dim = node_dim(node, "dim", t.rank + 1, NODE_REQUIRED);
    if (!module_failed(node->module))
        node_give(node, tensor_unsqueeze(node->module, t, dim));
}

static void build_permute(struct node *node, int variant)
{
    (void)variant;
    struct module *module = node->module;
    struct tensor t = node_tensor(node, "self");
    int64_t dims[MODULE_RANK];
    int order[MODULE_RANK], count = node_integers(node, "dims", dims, MODULE_RANK);
    unsigned seen = 0;
    for (int i = 0; i < count; i++) {
        int64_t dim = dims[i] < 0 ? dims[i] + t.rank : dims[i];
        if (dim < 0 || dim >= t.rank)
            break;
        order[i] = (int)dim;
        seen |= 1u << dim;
    }
    if (count != t.rank || seen != (1u << t.rank) - 1)
        module_fail(module, "argument \"dims\" must contain each of the tensor's %d dimensions once", t.rank);
    else
        node_give(node, tensor_permute(module, t, order));
}

static struct tensor swapped(struct module *module, struct tensor t, int a, int b)
{
    int order[MODULE_RANK];
    for (int d = 0; d < t.rank; d++)
        order[d] = d == a ? b : d == b ? a : d;
    return tensor_permute(module, t, order);
}

static void build_transpose(struct node *node, int variant)
{
    (void)variant;
    struct tensor t = node_tensor(node, "self");
    int a = node_dim(node, "dim0", t.rank, NODE_REQUIRED), b = node_dim(node, "dim1", t.rank, NODE_REQUIRED);
    if (!module_failed(node->module))
        node_give(node, swapped(node->module, t, a, b));
}

static void build_t(struct node *node, int variant)
{
    (void)variant;
    struct tensor t = node_tensor(node, "self");
    if (t.rank > 2)
        module_fail(node->module, "expected a tensor of at most 2 dimensions");
    else
        node_give(node, t.rank == 2 ? swapped(node->module, t, 0, 1) : t);
}

/* Moves the dimensions `source` to the places `destination`. The other dimensions keep their order. */
static void build_movedim(struct node *node, int variant)
{
    (void)variant;
    struct module *module = node->module;
    struct tensor t = node_tensor(node, "self");
    int64_t from[MODULE_RANK], to[MODULE_RANK];
    int order[MODULE_RANK], count = node_integers(node, "source", from, MODULE_RANK);
    bool moved[MODULE_RANK] = {false};
    for (int d = 0; d < t.rank; d++)
        order[d] = -1;
    if (node_integers(node, "destination", to, MODULE_RANK) != count)
        module_fail(module, "source and destination differ in length");
    for (int i = 0; i < count && !module_failed(module); i++) {
        int64_t source = from[i] < 0 ? from[i] + t.rank : from[i], place = to[i] < 0 ? to[i] + t.rank : to[i];
        if (source < 0 || source >= t.rank || place < 0 || place >= t.rank)
            module_fail(module, "source[%d] is %lld, destination[%d] is %lld; the tensor has %d dimensions", i,
                        (long long)from[i], i, (long long)to[i], t.rank);
        else if (moved[source])
            module_fail(module, "argument \"source\" has dimension %lld twice", (long long)source);
        else if (order[place] >= 0)
            module_fail(module, "argument \"destination\" has dimension %lld twice", (long long)place);
        if (module_failed(module))
            return;
        order[place] = (int)source;
        moved[source] = true;
    }
    for (int d = 0, next = 0; d < t.rank && !module_failed(module); d++) {
        if (order[d] >= 0)
            continue;
        while (moved[next])
            next++;
        order[d] = next++;
    }
    if (!module_failed(module))
        node_give(node, tensor_permute(module, t, order));
}

static void build_expand(struct node *node, int variant)
{
    (void)variant;
    struct tensor t = node_tensor(node, "self");
    int sizes[MODULE_RANK], rank = node_sizes(node, "size", sizes, MODULE_RANK);
    node_bool(node, "implicit", false);
    if (rank >= 0)
        node_give(node, tensor_expand(node->module, t, rank, sizes));
}

static void build_expand_as(struct node *node, int variant)
{
    (void)variant;
    struct tensor t = node_tensor(node, "self"), other = node_tensor(node, "other");
    int sizes[MODULE_RANK];
    if (module_failed(node->module))
        return;
    tensor_whole_sizes(node->module, &other, sizes);
    node_give(node, tensor_expand(node->module, t, other.rank, sizes));
}

/* ---- Parts ---- */

/* Reads a bound as in Python. A negative bound counts from the end. A bound beyond the end means the end. If the bound
 * or the dimension depends on the item, the bound must lie within the dimension. plan_limit_size ensures this. It
 * checks each item if the sizes alone do not prove it. */
static int bound(struct node *node, const char *name, int size, int fallback)
{
    struct module *module = node->module;
    struct plan_builder *builder = module->builder;
    int asked = node_size(node, name, fallback), at;
    int64_t least, most, value, all;
    if (module_failed(module))
        return fallback;
    at = asked;
    plan_size_bounds(builder->plan, asked, &least, &most);
    if (most < 0)
        at = plan_size_add(builder, asked, size);
    if (module_failed(module))
        return fallback;
    int rest = plan_size_subtract(builder, size, at);
    if (module_failed(module)) /* the size may have too many terms */
        return fallback;
    plan_size_bounds(builder->plan, rest, &least, &most);
    bool fixed =
        plan_size_is_constant(builder->plan, asked, &value) && plan_size_is_constant(builder->plan, size, &all);
    if (fixed && least < 0)
        return size;
    if (fixed && most > all && fallback != PLAN_NONE) /* a bound before the first element, as only slices allow */
        return module->zero;
    if (plan_size_is_constant(builder->plan, asked, &value) && value >= INT32_MAX)
        return size;
    plan_limit_size(builder, (struct plan_size_limit){.size = plan_size_subtract(builder, size, at),
                                                      .least = 0,
                                                      .most = INT64_MAX,
                                                      .multiple = 1,
                                                      .what = "the size of the dimension minus the bound of a slice"});
    plan_limit_size(builder,
                    (struct plan_size_limit){
                        .size = at, .least = 0, .most = INT64_MAX, .multiple = 1, .what = "the bound of a slice"});
    return at;
}

static void build_slice(struct node *node, int variant)
{
    (void)variant;
    struct module *module = node->module;
    struct tensor t = node_tensor(node, "self");
    int dim = node_dim(node, "dim", t.rank, 0);
    if (module_failed(module))
        return;
    int size = t.dims[dim].size, start = bound(node, "start", size, module->zero), end = bound(node, "end", size, size);
    int64_t step = node_integer(node, "step", 1), least, most;
    if (module_failed(module))
        return;
    if (t.dims[dim].batched && start == module->zero && end == size && step == 1) {
        node_give(node, t);
        return;
    }
    if (step < 1) {
        module_fail(module, "argument \"step\" is %lld; expected 1 or more", (long long)step);
        return;
    }
    int length = plan_size_subtract(module->builder, end, start);
    if (step > 1)
        length =
            plan_size_divide(module->builder, plan_size_add(module->builder, length, module_size(module, step - 1)),
                             module_size(module, step));
    if (module_failed(module))
        return;
    plan_size_bounds(module->builder->plan, length, &least, &most);
    if (most < 1) {
        module_fail(module, "the slice has no elements");
        return;
    }
    if (least < 1)
        plan_limit_size(
            module->builder,
            (struct plan_size_limit){
                .size = length, .least = 1, .most = INT64_MAX, .multiple = 1, .what = "the length of a slice"});
    node_give(node, tensor_slice(module, t, dim, start, length, step));
}

static void build_select(struct node *node, int variant)
{
    (void)variant;
    struct module *module = node->module;
    struct tensor t = node_tensor(node, "self");
    int dim = node_dim(node, "dim", t.rank, NODE_REQUIRED);
    if (module_failed(module))
        return;
    int index = bound(node, "index", t.dims[dim].size, PLAN_NONE);
    if (module_failed(module))
        return;
    plan_limit_size(module->builder,
                    (struct plan_size_limit){.size = plan_size_subtract(module->builder, t.dims[dim].size, index),
                                             .least = 1,
                                             .most = INT64_MAX,
                                             .multiple = 1,
                                             .what = "the size of the dimension minus the selected index"});
    t = tensor_slice(module, t, dim, index, module->one, 1);
    if (!module_failed(module))
        node_give(node, tensor_squeeze(module, t, dim));
}

/* Splits a dimension into `count` parts of the given lengths, one after another. */
static void give_parts(struct node *node, struct tensor t, int dim, const int *lengths, int count)
{
    struct module *module = node->module;
    int start = module->zero;
    for (int i = 0; i < count && !module_failed(module); i++) {
        node_give_one(node, i, tensor_slice(module, t, dim, start, lengths[i], 1));
        start = plan_size_add(module->builder, start, lengths[i]);
    }
    if (!module_failed(module) && start != t.dims[dim].size)
        module_fail(module, "the sizes of the parts do not add up to the size of the dimension");
}

#define MAX_PARTS 256

/* The size of every part of a chunk or split, except for the last part. */
static int part_size(struct node *node, int size, bool split)
{
    struct module *module = node->module;
    if (split)
        return node_size(node, "split_size", PLAN_NONE);
    int64_t parts = node_integer(node, "chunks", NODE_REQUIRED);
    if (!module_failed(module) && parts < 1)
        module_fail(module, "argument \"chunks\" is %lld; expected 1 or more", (long long)parts);
    if (module_failed(module))
        return PLAN_NONE;
    return plan_size_divide(module->builder, plan_size_add(module->builder, size, module_size(module, parts - 1)),
                            module_size(module, parts));
}

/* chunk makes a given number of parts, and split makes parts of a given size. With both, the last part may be smaller.
 * There must be as many names of results as parts. */
static void build_chunk(struct node *node, int variant)
{
    struct module *module = node->module;
    struct plan_builder *builder = module->builder;
    struct tensor t = node_tensor(node, "self");
    const json_t *to = json_object_get(node->json, "to");
    int dim = node_dim(node, "dim", t.rank, 0), lengths[MAX_PARTS];
    size_t count = json_is_array(to) ? json_array_size(to) : 1;
    if (module_failed(module))
        return;
    int size = t.dims[dim].size, each = part_size(node, size, variant);
    if (module_failed(module))
        return;
    if (count < 1 || count > MAX_PARTS) {
        module_fail(module, "\"to\": expected 1 to %d names", MAX_PARTS);
        return;
    }
    for (size_t i = 0; i + 1 < count; i++)
        lengths[i] = each;
    int last = plan_size_subtract(builder, size, module_product(module, module_size(module, (int64_t)count - 1), each));
    lengths[count - 1] = last;
    plan_limit_size(
        builder,
        (struct plan_size_limit){
            .size = last, .least = 1, .most = INT64_MAX, .multiple = 1, .what = "the length of the last part"});
    plan_limit_size(builder, (struct plan_size_limit){.size = plan_size_subtract(builder, each, last),
                                                      .least = 0,
                                                      .most = INT64_MAX,
                                                      .multiple = 1,
                                                      .what = "the size of a part minus the size of the last part"});
    give_parts(node, t, dim, lengths, (int)count);
}

static void build_split_with_sizes(struct node *node, int variant)
{
    (void)variant;
    struct tensor t = node_tensor(node, "self");
    int dim = node_dim(node, "dim", t.rank, 0), lengths[MAX_PARTS];
    int count = node_sizes(node, "split_sizes", lengths, MAX_PARTS);
    if (count >= 0 && !module_failed(node->module))
        give_parts(node, t, dim, lengths, count);
}

static void build_unbind(struct node *node, int variant)
{
    (void)variant;
    struct module *module = node->module;
    struct tensor t = node_tensor(node, "self");
    int dim = node_dim(node, "dim", t.rank, 0);
    if (module_failed(module))
        return;
    int64_t count = module_constant(module, t.dims[dim].size, "the size of an unbound dimension");
    for (int64_t i = 0; i < count && i < MAX_PARTS && !module_failed(module); i++) {
        struct tensor part = tensor_slice(module, t, dim, module_size(module, i), module->one, 1);
        if (!module_failed(module))
            node_give_one(node, (int)i, tensor_squeeze(module, part, dim));
    }
}

/* ---- Copies ---- */

/* Writes all of x at place `start` of a dimension of y. */
static void copy_into(struct module *module, struct tensor x, int dim, int start, struct tensor *y,
                      struct plan_target *target)
{
    struct plan_space space = {.rank = y->rank, .x_first = x.first, .z_first = module->zero};
    if (module_failed(module))
        return;
    space.y_first = module_product(module, start, y->dims[dim].stride);
    for (int d = 0; d < y->rank; d++)
        space.dimensions[d] =
            space_dimension(x.dims[d].size, tensor_stride(module, &x, d), module->zero, y->dims[d].stride);
    struct plan_source source = {.value = x.value, .weight = x.value == PLAN_NONE ? x.weight : PLAN_NONE};
    y->value = plan_arrange(module->builder, source, plan_add_space(module->builder, &space), *target);
    target->value = y->value;
}

/* The sizes of a concatenation. All dimensions except dimension `dim` must agree. They must also agree in whether they
 * contain the batch. */
static bool join_sizes(struct module *module, const struct tensor *first, const struct tensor *t, int dim,
                       struct tensor_dimension *dims)
{
    if (t->rank != first->rank)
        return module_fail(module, "tensors of %d and %d dimensions cannot be joined", first->rank, t->rank), false;
    for (int d = 0; d < t->rank; d++) {
        if (d == dim)
            continue;
        if (dims[d].size != t->dims[d].size || dims[d].batched != t->dims[d].batched ||
            dims[d].inner != t->dims[d].inner)
            return module_fail(module, "the tensors to join differ in dimension %d", d), false;
    }
    dims[dim].size = plan_size_add(module->builder, dims[dim].size, t->dims[dim].size);
    return !module_failed(module);
}

static struct tensor part_of(struct node *node, int index, int new_dim)
{
    struct tensor t = node_list_tensor(node, "tensors", index);
    return new_dim < 0 || module_failed(node->module) ? t : tensor_unsqueeze(node->module, t, new_dim);
}

/* cat, or with variant 1 stack, where each tensor first gets a new dimension. */
static void build_cat(struct node *node, int variant)
{
    struct module *module = node->module;
    int count = node_count(node, "tensors");
    struct tensor first = count > 0 ? node_list_tensor(node, "tensors", 0) : (struct tensor){.rank = 0};
    int dim = node_dim(node, "dim", first.rank + variant, 0), new_dim = variant ? dim : -1;
    if (module_failed(module))
        return;
    first = part_of(node, 0, new_dim);
    struct tensor_dimension dims[MODULE_RANK];
    bool ids = true;
    for (int d = 0; d < first.rank; d++)
        dims[d] = first.dims[d];
    if (!module_failed(module) && dims[dim].batched)
        module_fail(module, "joining along the batch dimension is not supported");
    for (int i = 0; i < count && !module_failed(module); i++) {
        struct tensor t = part_of(node, i, new_dim);
        ids &= tensor_is_ids(module, &t);
        if (i > 0 && !join_sizes(module, &first, &t, dim, dims))
            return;
    }
    struct tensor y = tensor_new(module, first.rank, dims);
    struct plan_target target = tensor_target(module, &y);
    target.ids = ids;
    int start = module->zero;
    for (int i = 0; i < count && !module_failed(module); i++) {
        struct tensor t = part_of(node, i, new_dim);
        if (!ids && tensor_is_ids(module, &t))
            t = tensor_as_floats(module, t);
        copy_into(module, t, dim, start, &y, &target);
        start = plan_size_add(module->builder, start, t.dims[dim].size);
    }
    node_give(node, y);
}

#define MAX_RUNS 4096 /* limit for the runs of indices, within which the step is constant. Each run is one copy */

/* The length of the run of indices that begins at `first`. Within a run, the step between indices is constant. */
static int64_t run_length(const float *indices, int64_t count, int64_t first)
{
    int64_t length = count - first < 2 ? 1 : 2;
    while (first + length < count &&
           indices[first + length] - indices[first + length - 1] == indices[first + 1] - indices[first])
        length++;
    return length;
}

/* The elements of x at one run of indices: indices[0] to indices[length - 1]. */
static struct tensor indexed_run(struct module *module, struct tensor x, int dim, const float *indices, int64_t length)
{
    int64_t start = (int64_t)indices[0], step = length > 1 ? (int64_t)indices[1] - start : 1;
    x.first =
        plan_size_add(module->builder, x.first, module_product(module, module_size(module, start), x.dims[dim].stride));
    x.dims[dim].size = module_size(module, length);
    x.dims[dim].stride = module_product(module, x.dims[dim].stride, module_size(module, step));
    return x;
}

/* Selects rows of a dimension, at indices that are in the file. */
static void build_index_select(struct node *node, int variant)
{
    (void)variant;
    struct module *module = node->module;
    struct tensor t = node_tensor(node, "self"), index = node_tensor(node, "index");
    int dim = node_dim(node, "dim", t.rank, NODE_REQUIRED), runs = 0;
    if (module_failed(module))
        return;
    if (index.rank != 1 || index.value != PLAN_NONE) {
        module_fail(module, "argument \"index\" must be a vector of the weights file, not a computed tensor");
        return;
    }
    if (t.dims[dim].batched) {
        module_fail(module, "selecting from the batch dimension is not supported");
        return;
    }
    int64_t count = module_constant(module, index.dims[0].size, "the number of indices");
    int64_t size = module_constant(module, t.dims[dim].size, "the size of an indexed dimension");
    int weight = tensor_vector(module, index, count);
    if (module_failed(module))
        return;
    const float *indices = module->builder->plan->weights[weight].data;
    for (int64_t i = 0; indices && i < count; i++)
        if (!(indices[i] >= 0 && indices[i] < (float)size && indices[i] == floorf(indices[i]))) {
            module_fail(module, "index %g; expected whole numbers from 0 to %lld", (double)indices[i],
                        (long long)size - 1);
            return;
        }
    t = tensor_as_value(module, t);
    struct tensor_dimension dims[MODULE_RANK];
    memcpy(dims, t.dims, sizeof dims);
    dims[dim].size = index.dims[0].size;
    struct tensor y = tensor_new(module, t.rank, dims);
    struct plan_target target = tensor_target(module, &y);
    target.ids = tensor_is_ids(module, &t);
    /* A copy, which changes of the plan's weights do not affect. */
    float *copy = indices ? malloc((size_t)count * sizeof *copy) : NULL;
    if (indices && !copy)
        module_fail(module, "out of memory");
    if (copy)
        memcpy(copy, indices, (size_t)count * sizeof *copy);
    for (int64_t first = 0, length; first < count && !module_failed(module); first += length) {
        length = copy ? run_length(copy, count, first) : count;
        static const float without_data[] = {0, 0};
        if (++runs > MAX_RUNS)
            module_fail(module, "the indices consist of more than %d runs with a constant step", MAX_RUNS);
        struct tensor run = indexed_run(module, t, dim, copy ? copy + first : without_data, length);
        copy_into(module, run, dim, module_size(module, first), &y, &target);
    }
    free(copy);
    node_give(node, y);
}

/* repeat: visits each dimension as (times, size), with a stride of 0 for `times`. */
static void build_repeat(struct node *node, int variant)
{
    (void)variant;
    struct module *module = node->module;
    struct tensor t = node_tensor(node, "self");
    int times[MODULE_RANK], rank = node_sizes(node, "repeats", times, MODULE_RANK), sizes[MODULE_RANK];
    if (rank < t.rank)
        module_fail(module, "argument \"repeats\" has fewer numbers than the tensor has dimensions");
    while (t.rank < rank && !module_failed(module))
        t = tensor_unsqueeze(module, t, 0);
    if (module_failed(module))
        return;
    for (int d = rank - 1; d >= 0 && !module_failed(module); d--) {
        bool batched;
        int count = module_split_batch(module, times[d], &batched);
        if (module_failed(module))
            return;
        if (batched && t.dims[d].size == module->one && !t.dims[d].batched) {
            t.dims[d].batched = true;
            t.dims[d].size = count;
            t.dims[d].stride = module->zero;
        } else if (batched || (t.dims[d].batched && count != module->one)) {
            module_fail(module, "repeating the batch dimension is not supported");
        } else if (count != module->one && t.dims[d].size == module->one) {
            t.dims[d].size = count;
            t.dims[d].stride = module->zero;
        } else if (count != module->one) {
            t = tensor_unsqueeze(module, t, d);
            t.dims[d].size = count;
        }
    }
    if (module_failed(module))
        return;
    t.counts = false;
    struct tensor copied = tensor_arranged(module, t);
    tensor_whole_sizes(module, &copied, sizes);
    int whole[MODULE_RANK], merged = 0;
    for (int d = 0, i = 0; i < rank; i++, d++) { /* (times, size) -> times * size */
        struct tensor source = node_tensor(node, "self");
        int lead = rank - source.rank;
        bool pair = i >= lead && source.dims[i - lead].size != module->one && !module_is(module, times[i], 1);
        whole[merged++] = pair ? module_product(module, sizes[d], sizes[d + 1]) : sizes[d];
        d += pair;
    }
    node_give(node, tensor_reshape(module, copied, merged, whole));
}

/* Windows of a dimension, which become a new last dimension. */
static void build_unfold(struct node *node, int variant)
{
    (void)variant;
    struct module *module = node->module;
    struct tensor t = node_tensor(node, "self");
    int dim = node_dim(node, "dimension", t.rank, NODE_REQUIRED), order[MODULE_RANK];
    int64_t size = node_integer(node, "size", NODE_REQUIRED), step = node_integer(node, "step", NODE_REQUIRED);
    if (module_failed(module))
        return;
    if (size < 1)
        module_fail(module, "argument \"size\" is %lld; expected 1 or more", (long long)size);
    else if (step < 1)
        module_fail(module, "argument \"step\" is %lld; expected 1 or more", (long long)step);
    else if (t.dims[dim].batched)
        module_fail(module, "windows over the batch dimension are not supported");
    if (module_failed(module))
        return;
    t = tensor_windows(module, tensor_as_value(module, t), dim, size, step, 1);
    if (module_failed(module))
        return;
    for (int d = 0; d < t.rank; d++)
        order[d] = d == t.rank - 1 ? dim + 1 : d <= dim ? d : d + 1;
    node_give(node, tensor_permute(module, t, order));
}

/* Returns the dimension, which may be negative, as an index that is not negative. The batch is not accepted. */
static int dim_of_items(struct module *module, const struct tensor *t, int64_t dim)
{
    int64_t d = dim < 0 ? dim + t->rank : dim;
    if (d < 0 || d >= t->rank)
        return module_fail(module, "argument \"dims\" contains %lld; the tensor has %d dimensions", (long long)dim,
                           t->rank);
    if (t->dims[d].batched)
        return module_fail(module, "argument \"dims\" contains the batch dimension, which is not supported");
    return (int)d;
}

/* Reverses the order of elements along some dimensions. */
static void build_flip(struct node *node, int variant)
{
    (void)variant;
    struct module *module = node->module;
    struct plan_builder *builder = module->builder;
    struct tensor t = node_tensor(node, "self");
    int64_t dims[MODULE_RANK];
    int count = node_integers(node, "dims", dims, MODULE_RANK);
    for (int i = 0; i < count && !module_failed(module); i++) {
        int d = dim_of_items(module, &t, dims[i]);
        if (module_failed(module))
            return;
        int last = plan_size_subtract(builder, t.dims[d].size, module->one);
        t.first = plan_size_add(builder, t.first, module_product(module, last, t.dims[d].stride));
        t.dims[d].stride = module_product(module, t.dims[d].stride, module_size(module, -1));
        t.counts = false;
    }
    node_give(node, t);
}

/* The number of elements of a rolled dimension that move to its front: the remainder of the shift by the size. */
static int rolled_length(struct module *module, int size, int64_t shift)
{
    struct plan_builder *builder = module->builder;
    int64_t all, least, most;
    if (module_failed(module))
        return PLAN_NONE;
    if (plan_size_is_constant(builder->plan, size, &all))
        return module_size(module, ((shift % all) + all) % all);
    int length = module_size(module, shift);
    plan_size_bounds(builder->plan, size, &least, &most);
    if (least >= 1 && llabs(shift) >= least)
        return plan_size_remainder(builder, length, size);
    if (least < 1) /* the formula of the size does not show that it is at least 1, so it cannot be a divisor */
        plan_limit_size(builder, (struct plan_size_limit){.size = size,
                                                          .least = llabs(shift) + 1,
                                                          .most = INT64_MAX,
                                                          .multiple = 1,
                                                          .what = "the size of a rolled dimension"});
    return shift < 0 ? plan_size_add(builder, size, length) : length;
}

/* Elements move by `shifts` places along a dimension. Those that pass the end continue at the start. */
static void build_roll(struct node *node, int variant)
{
    (void)variant;
    struct module *module = node->module;
    struct tensor t = node_tensor(node, "self");
    int64_t shifts[MODULE_RANK], dims[MODULE_RANK];
    int count = node_integers(node, "shifts", shifts, MODULE_RANK);
    if (node_integers(node, "dims", dims, MODULE_RANK) != count)
        module_fail(module, "roll needs a dimension for each shift");
    for (int i = 0; i < count && !module_failed(module); i++) {
        int d = dim_of_items(module, &t, dims[i]);
        if (module_failed(module))
            return;
        int start = rolled_length(module, t.dims[d].size, shifts[i]);
        if (module_failed(module) || start == module->zero)
            continue;
        struct tensor y = tensor_new(module, t.rank, t.dims);
        struct plan_target target = tensor_target(module, &y);
        target.ids = tensor_is_ids(module, &t);
        int rest = plan_size_subtract(module->builder, t.dims[d].size, start);
        copy_into(module, tensor_slice(module, t, d, rest, start, 1), d, module->zero, &y, &target);
        copy_into(module, tensor_slice(module, t, d, module->zero, rest, 1), d, start, &y, &target);
        t = y;
    }
    node_give(node, t);
}

/* ---- Padding. The counts are those of the last dimension, then those of the dimension before it, and so on ---- */

/* Writes the elements added at one side of a dimension: a number, or mirrored or repeated elements. */
static void pad_side(struct module *module, const struct tensor *x, int dim, int64_t count, bool after,
                     const char *mode, double number, struct tensor *y, struct plan_target *target)
{
    struct plan_builder *builder = module->builder;
    struct tensor part = *x;
    int n = x->dims[dim].size, size = module_size(module, count);
    int start = after ? plan_size_subtract(builder, y->dims[dim].size, size) : module->zero;
    if (count == 0 || module_failed(module))
        return;
    if (strcmp(mode, "constant") == 0) {
        struct plan_space space = {.rank = y->rank, .x_first = module->zero, .z_first = module->zero};
        space.y_first = module_product(module, start, y->dims[dim].stride);
        for (int d = 0; d < y->rank; d++)
            space.dimensions[d] =
                space_dimension(d == dim ? size : y->dims[d].size, module->zero, module->zero, y->dims[d].stride);
        struct plan_source source = {.value = PLAN_NONE, .weight = PLAN_NONE, .number = (float)number};
        y->value = plan_arrange(builder, source, plan_add_space(builder, &space), *target);
        target->value = y->value;
        return;
    }
    bool reflects = strcmp(mode, "reflect") == 0;
    int first = after ? plan_size_subtract(builder, n, module_size(module, reflects ? 2 : 1))
                      : module_size(module, reflects ? count : 0);
    part.first = plan_size_add(builder, x->first, module_product(module, first, x->dims[dim].stride));
    part.dims[dim].size = size;
    part.dims[dim].stride =
        reflects ? module_product(module, x->dims[dim].stride, module_size(module, -1)) : module->zero;
    copy_into(module, part, dim, start, y, target);
}

struct tensor tensor_padded(struct module *module, struct tensor x, int dim, int64_t before, int64_t after,
                            const char *mode, double number)
{
    struct plan_builder *builder = module->builder;
    struct tensor y;
    struct tensor_dimension dims[MODULE_RANK];
    if (module_failed(module) || (before == 0 && after == 0))
        return x;
    if (x.dims[dim].batched) {
        module_fail(module, "padding the batch dimension is not supported");
        return x;
    }
    if (before < 0 || after < 0) { /* negative padding removes elements */
        int64_t cut_before = before < 0 ? -before : 0, cut_after = after < 0 ? -after : 0;
        int length = plan_size_subtract(builder, x.dims[dim].size, module_size(module, cut_before + cut_after));
        x = tensor_slice(module, x, dim, module_size(module, cut_before), length, 1);
        return tensor_padded(module, x, dim, before < 0 ? 0 : before, after < 0 ? 0 : after, mode, number);
    }
    if (strcmp(mode, "reflect") == 0)
        plan_limit_size(builder,
                        (struct plan_size_limit){.size = x.dims[dim].size,
                                                 .least = 1 + (before > after ? before : after),
                                                 .most = INT64_MAX,
                                                 .multiple = 1,
                                                 .what = "the size of a dimension that is padded by reflection"});
    memcpy(dims, x.dims, sizeof dims);
    dims[dim].size = plan_size_add(builder, x.dims[dim].size, module_size(module, before + after));
    y = tensor_new(module, x.rank, dims);
    struct plan_target target = tensor_target(module, &y);
    x = tensor_as_floats(module, x);
    copy_into(module, x, dim, module_size(module, before), &y, &target);
    pad_side(module, &x, dim, before, false, mode, number, &y, &target);
    pad_side(module, &x, dim, after, true, mode, number, &y, &target);
    return y;
}

static void build_pad(struct node *node, int variant)
{
    (void)variant;
    struct module *module = node->module;
    struct tensor t = node_tensor(node, "self");
    int64_t pad[2 * MODULE_RANK];
    int count = node_integers(node, "pad", pad, 2 * MODULE_RANK);
    const char *mode = node_string(node, "mode", "constant");
    double number = node_number(node, "value", 0);
    if (count % 2 != 0 || count / 2 > t.rank)
        module_fail(module, "argument \"pad\" has %d numbers; expected an even number, at most twice the %d dimensions",
                    count, t.rank);
    if (strcmp(mode, "constant") != 0 && strcmp(mode, "reflect") != 0 && strcmp(mode, "replicate") != 0)
        module_fail(module, "mode \"%.40s\" is not supported; expected constant, reflect or replicate", mode);
    for (int i = 0; i < count / 2 && !module_failed(module); i++)
        t = tensor_padded(module, t, t.rank - 1 - i, pad[2 * i], pad[2 * i + 1], mode, number);
    node_give(node, t);
}

const struct module_operation module_shapes[] = {
    {"view", build_view, 0},
    {"reshape", build_view, 1},
    {"_unsafe_view", build_view, 0},
    {"flatten", build_flatten, 0},
    {"unflatten", build_unflatten, 0},
    {"squeeze", build_squeeze, 0},
    {"unsqueeze", build_unsqueeze, 0},
    {"permute", build_permute, 0},
    {"transpose", build_transpose, 0},
    {"t", build_t, 0},
    {"movedim", build_movedim, 0},
    {"expand", build_expand, 0},
    {"expand_as", build_expand_as, 0},
    {"slice", build_slice, 0},
    {"select", build_select, 0},
    {"chunk", build_chunk, 0},
    {"split", build_chunk, 1},
    {"split_with_sizes", build_split_with_sizes, 0},
    {"unbind", build_unbind, 0},
    {"cat", build_cat, 0},
    {"stack", build_cat, 1},
    {"repeat", build_repeat, 0},
    {"index_select", build_index_select, 0},
    {"unfold", build_unfold, 0},
    {"flip", build_flip, 0},
    {"roll", build_roll, 0},
    {"pad", build_pad, 0},
    {NULL, NULL, 0},
};
