#include "engine/families/module/graph.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int module_fail(struct module *module, const char *format, ...)
{
    char message[400];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    if (module->op)
        return plan_fail(module->builder, "graph: node \"%.80s\" (%.40s): %s", module->to, module->op, message);
    return plan_fail(module->builder, "graph: %s", message);
}

#define MAX_NUMBERS (1 << 26) /* limit for the elements of all weights that module_numbers makes for a graph */

int module_numbers(struct module *module, int64_t first, int64_t step, int64_t count)
{
    const int room = (int)(sizeof module->counted / sizeof *module->counted);
    if (module_failed(module))
        return PLAN_NONE;
    for (int i = 0; i < room && i < module->n_counted; i++)
        if (module->counted[i].first == first && module->counted[i].step == step &&
            module->builder->plan->weights[module->counted[i].weight].columns >= count)
            return module->counted[i].weight;
    module->numbers += count;
    if (module->numbers > MAX_NUMBERS)
        return module_fail(module,
                           "all ranges and all sizes that are used as numbers have more than %d elements together",
                           MAX_NUMBERS);
    int weight = plan_number_weight(module->builder, 1, count, (float)first, (float)step);
    int place = module->n_counted++ % room;
    module->counted[place].weight = weight;
    module->counted[place].first = first;
    module->counted[place].step = step;
    return weight;
}

/* ---- Tensors by name. They are in a hash table with chains, so that finding a tensor takes constant time ---- */

/* FNV-1a, http://www.isthe.com/chongo/tech/comp/fnv */
static uint64_t hash_of(const char *name)
{
    uint64_t hash = 14695981039346656037u;
    for (; *name; name++)
        hash = (hash ^ (unsigned char)*name) * 1099511628211u;
    return hash;
}

static void chain(struct module *module, int index)
{
    struct named_tensor *tensor = &module->tensors[index];
    int *bucket = &module->buckets[tensor->hash & (uint64_t)(module->n_buckets - 1)];
    tensor->next = *bucket;
    *bucket = index;
}

/* Makes room for one more tensor in the table. */
static bool grow_table(struct module *module)
{
    if (module->n_tensors < module->n_buckets)
        return true;
    int count = module->n_buckets ? 2 * module->n_buckets : 64;
    int *buckets = malloc((size_t)count * sizeof *buckets);
    if (!buckets)
        return module_fail(module, "out of memory"), false;
    free(module->buckets);
    module->buckets = buckets;
    module->n_buckets = count;
    for (int b = 0; b < count; b++)
        buckets[b] = -1;
    for (int i = 0; i < module->n_tensors; i++)
        chain(module, i);
    return true;
}

const struct tensor *module_find(const struct module *module, const char *name)
{
    uint64_t hash = hash_of(name);
    int i = module->n_buckets ? module->buckets[hash & (uint64_t)(module->n_buckets - 1)] : -1;
    while (i >= 0 && (module->tensors[i].hash != hash || strcmp(module->tensors[i].name, name) != 0))
        i = module->tensors[i].next;
    return i < 0 ? NULL : &module->tensors[i].tensor;
}

static bool is_size(const struct module *module, const char *name)
{
    for (int i = 0; i < module->n_sizes; i++)
        if (strcmp(module->sizes[i].name, name) == 0)
            return true;
    return strcmp(name, "batch") == 0;
}

/* Refuses empty results. A size that depends on the item must be at least 1. */
static void expect_elements(struct module *module, const char *name, const struct tensor *t, int dim)
{
    struct plan_size_limit limit = {.size = t->dims[dim].size, .least = 1, .most = INT64_MAX, .multiple = 1};
    int64_t least, most;
    if (module_failed(module))
        return;
    plan_size_bounds(module->builder->plan, limit.size, &least, &most);
    snprintf(limit.what, sizeof limit.what, "the size of dimension %d of \"%.80s\"", dim, name);
    if (most < 1)
        module_fail(module, "dimension %d of the result has %lld elements; expected at least 1", dim, (long long)most);
    else if (least < 1)
        plan_limit_size(module->builder, limit);
}

static void record(struct module *module, const char *name, const struct tensor *t)
{
    struct plan_node node = {.rank = t->rank};
    for (int d = 0; d < t->rank; d++) {
        node.dimensions[d].size = t->dims[d].size;
        node.dimensions[d].batched = t->dims[d].batched;
        node.dimensions[d].is_inner = t->dims[d].inner;
    }
    plan_add_node(module->builder, name, module->shown, &node);
}

void module_name(struct module *module, const char *name, struct tensor tensor)
{
    if (module_failed(module))
        return;
    if (name[0] == '\0')
        module_fail(module, "the name of an input or result is empty");
    else if (name[0] == '@')
        module_fail(module, "the name \"%.80s\" begins with @, which marks weights", name);
    else if (module_find(module, name))
        module_fail(module, "the name \"%.80s\" is in use for another input or result", name);
    else if (is_size(module, name))
        module_fail(module, "the name \"%.80s\" is in use for a size", name);
    if (module_failed(module))
        return;
    int batched = 0;
    for (int d = 0; d < tensor.rank; d++)
        batched += tensor.dims[d].batched;
    if (batched > 1) {
        module_fail(module, "the operation would mix the items of a batch");
        return;
    }
    for (int d = 0; d < tensor.rank; d++)
        expect_elements(module, name, &tensor, d);
    if (!grow_table(module))
        return;
    struct named_tensor *place = plan_grow(module->builder, &module->tensors, &module->n_tensors, sizeof *place);
    if (!place)
        return;
    *place = (struct named_tensor){.name = name, .tensor = tensor, .hash = hash_of(name)};
    chain(module, module->n_tensors - 1);
    if (module->op)
        record(module, name, &tensor);
}

struct tensor module_weight(struct module *module, const char *name)
{
    struct tensor t = {.value = PLAN_NONE, .weight = PLAN_NONE};
    int64_t shape[WEIGHTS_MAX_RANK], stride = 1;
    if (module_failed(module))
        return t;
    t.weight = plan_named_weight(module->builder, name, &t.rank, shape);
    if (!module_failed(module) && t.rank > MODULE_RANK - 1)
        module_fail(module, "tensor \"%.80s\" has %d dimensions; expected at most %d", name, t.rank, MODULE_RANK - 1);
    t.first = module->zero;
    for (int d = t.rank - 1; d >= 0 && !module_failed(module); d--) {
        t.dims[d] =
            (struct tensor_dimension){.size = module_size(module, shape[d]), .stride = module_size(module, stride)};
        stride *= shape[d];
    }
    return t;
}
