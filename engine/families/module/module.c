/* module: the family of whole modules. It reads the graph of config.json from its inputs to its outputs. */
#include "engine/families/module/tensor.h"
#include "engine/plan/axes.h"
#include "engine/plan/passes.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define MAX_NODES 65536

/* ---- Free sizes and inputs ---- */

/* Reads a limit of the size `name`. */
static void read_limit(struct module *module, const char *name, const json_t *limits, const char *key, int64_t *limit)
{
    const json_t *json = json_object_get(limits, key);
    if (!json || json_is_null(json))
        return;
    *limit = json_integer_value(json);
    if (!json_is_integer(json) || *limit < 1 || *limit > INT32_MAX)
        module_fail(module, "size \"%.80s\": \"%s\": expected an integer from 1 to %d, or null", name, key, INT32_MAX);
}

static void read_sizes(struct module *module, const json_t *sizes)
{
    const char *name;
    json_t *limits;
    if (sizes && !json_is_object(sizes))
        module_fail(module, "\"sizes\": expected an object");
    json_object_foreach ((json_t *)sizes, name, limits) {
        struct named_size size = {.name = name, .size = PLAN_NONE, .least = 1, .most = INT32_MAX};
        if (!json_is_object(limits))
            module_fail(module, "size \"%.80s\": expected an object with \"least\" and \"most\"", name);
        read_limit(module, name, limits, "least", &size.least);
        read_limit(module, name, limits, "most", &size.most);
        if (size.least > size.most)
            module_fail(module, "size \"%.80s\": \"least\" is %lld, but \"most\" is only %lld", name,
                        (long long)size.least, (long long)size.most);
        if (module_failed(module))
            return;
        struct named_size *place = plan_grow(module->builder, &module->sizes, &module->n_sizes, sizeof *place);
        if (place)
            *place = size;
    }
}

/* Reads one dimension of an input: an integer, or the name of a free size. The first input with this name defines the
 * size. */
static int input_size(struct module *module, const json_t *json, int input, int dimension, int64_t *least,
                      int64_t *most)
{
    const char *name = json_string_value(json);
    if (json_is_integer(json) && json_integer_value(json) >= 1 && json_integer_value(json) <= INT32_MAX) {
        *least = *most = json_integer_value(json);
        return module_size(module, *least);
    }
    for (int i = 0; name && i < module->n_sizes; i++) {
        struct named_size *size = &module->sizes[i];
        if (strcmp(size->name, name) != 0)
            continue;
        *least = size->least;
        *most = size->most;
        if (size->size == PLAN_NONE) {
            size->size = plan_size_free(module->builder, input, dimension, size->least, size->most);
            plan_name_size(module->builder, size->size, name);
        }
        return size->size;
    }
    return module_fail(module, "inputs[%d].shape[%d]: expected an integer of at least 1, or a name from \"sizes\"",
                       input, dimension + 1);
}

static bool read_kind(struct module *module, const json_t *dtype, int index, enum input_kind *kind)
{
    static const struct {
        const char *name;
        enum input_kind kind;
    } kinds[] = {{"int64", INPUT_IDS}, {"int32", INPUT_IDS}, {"bool", INPUT_MASK}, {"float32", INPUT_ROWS}};
    for (size_t i = 0; json_is_string(dtype) && i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(json_string_value(dtype), kinds[i].name) == 0) {
            *kind = kinds[i].kind;
            return true;
        }
    return module_fail(module, "inputs[%d].dtype: expected int64, int32, bool or float32", index), false;
}

/* Declares a sequence of ids, or of rows. The routes /embed, /logits and /predict accept such inputs. */
static int sequence_input(struct module *module, const char *name, enum input_kind kind, struct tensor *t,
                          int64_t least, int64_t most)
{
    struct plan_builder *builder = module->builder;
    int input = builder->plan->n_inputs, value;
    int64_t columns = kind == INPUT_IDS ? 1 : module_constant(module, t->dims[2].size, "an input's last size");
    int64_t max_length = most == INT32_MAX ? 0 : most;
    value = kind == INPUT_IDS ? plan_input_ids(builder, name, INT32_MAX, max_length, PLAN_NONE)
                              : plan_input_rows(builder, name, columns, max_length, PLAN_NONE);
    if (builder->failed)
        return PLAN_NONE;
    builder->plan->inputs[input].input.min_length = least;
    if (least == most) /* the number of rows is fixed, which the axis of an input cannot express */
        value = plan_reshape(builder, value, plan_sized_axis(builder, t->dims[1].size, module->one), columns);
    return value;
}

static void read_input(struct module *module, const json_t *json, int index)
{
    const json_t *shape = json_object_get(json, "shape");
    const char *name = json_string_value(json_object_get(json, "name"));
    size_t rank = json_array_size(shape);
    enum input_kind kind;
    int64_t least[MODULE_RANK], most[MODULE_RANK];
    int sizes[MODULE_RANK];
    if (!name || rank < 1 || rank > ENGINE_MAX_RANK || !json_is_string(json_array_get(shape, 0)) ||
        strcmp(json_string_value(json_array_get(shape, 0)), "batch") != 0) {
        module_fail(module, "inputs[%d]: expected a name and a shape of 1 to %d sizes, the first \"batch\"", index,
                    ENGINE_MAX_RANK);
        return;
    }
    if (!read_kind(module, json_object_get(json, "dtype"), index, &kind))
        return;
    struct tensor t = {.value = PLAN_NONE, .weight = PLAN_NONE, .rank = (int)rank, .boolean = kind == INPUT_MASK};
    t.dims[0] = (struct tensor_dimension){.size = module->one, .stride = module->zero, .batched = true};
    for (size_t d = 1; d < rank && !module_failed(module); d++) {
        sizes[d - 1] = input_size(module, json_array_get(shape, d), index, (int)d - 1, &least[d], &most[d]);
        t.dims[d].size = sizes[d - 1];
    }
    if (module_failed(module))
        return;
    t = tensor_new(module, t.rank, t.dims);
    t.boolean = kind == INPUT_MASK;
    int64_t columns = 1;
    bool sequence = (kind == INPUT_IDS && rank == 2) || (kind == INPUT_ROWS && rank == 3 && least[2] == most[2]);
    if (sequence) {
        t.value = sequence_input(module, name, kind, &t, least[1], most[1]);
    } else {
        if (kind == INPUT_ROWS && rank > 1 && least[rank - 1] == most[rank - 1])
            columns = least[rank - 1];
        t.value = plan_input_tensor(module->builder, name, kind, kind == INPUT_IDS ? INT32_MAX : 0, (int)rank - 1,
                                    sizes, columns);
    }
    module_name(module, name, t);
}

static void read_inputs(struct module *module, const json_t *inputs)
{
    size_t i;
    const json_t *input;
    if (!json_is_array(inputs) || json_array_size(inputs) == 0 || json_array_size(inputs) > ENGINE_MAX_INPUTS) {
        module_fail(module, "\"inputs\": expected a list of 1 to %d inputs", ENGINE_MAX_INPUTS);
        return;
    }
    json_array_foreach (inputs, i, input)
        if (!module_failed(module))
            read_input(module, input, (int)i);
}

/* ---- Nodes ---- */

static const struct module_operation *const tables[] = {module_elements, module_shapes,     module_resolution,
                                                        module_layers,   module_reductions, module_pooling,
                                                        module_products};

static const struct module_operation *find_operation(const char *name)
{
    for (size_t t = 0; t < sizeof tables / sizeof *tables; t++)
        for (const struct module_operation *o = tables[t]; o->name; o++)
            if (strcmp(o->name, name) == 0)
                return o;
    return NULL;
}

/* Converts a tensor to a value for an input of a leaf. Each index of the batched dimension is a sequence of the value's
 * axis. */
static void bind_input(struct module *module, struct plan_leaf *leaf, const char *name, const json_t *json)
{
    const struct tensor *found = json_is_string(json) ? module_find(module, json_string_value(json)) : NULL;
    if (!found) {
        module_fail(module, "input \"%.80s\": expected the name of an input or of an earlier result", name);
        return;
    }
    if (leaf->n_inputs == ENGINE_MAX_INPUTS) {
        module_fail(module, "input \"%.80s\": the class has more than %d inputs", name, ENGINE_MAX_INPUTS);
        return;
    }
    struct tensor t = tensor_as_value(module, *found);
    if (!module_failed(module) && (!t.dims[0].batched || t.dims[0].inner)) {
        module_fail(module, "input \"%.80s\": expected the batch as the first dimension", name);
        return;
    }
    bool ids = tensor_is_ids(module, &t), image = t.rank == 4;
    struct plan_binding binding = {.name = name, .image = image, .height = t.dims[2].size, .width = t.dims[3].size};
    if (image) /* channels are columns, pixels are rows */
        t = tensor_permute(module, t, (const int[]){0, 2, 3, 1});
    int value = tensor_rows(module, t, ids || t.rank < 3 ? 0 : image ? 1 : t.rank - 2, true);
    if (!module_failed(module) && t.boolean && !ids)
        value = plan_activate_with(module->builder, value, (struct plan_activation){.kind = ACTIVATION_NONE}, true);
    binding.value = value;
    leaf->inputs[leaf->n_inputs++] = binding;
}

/* The leaf's result as an image of the same height and width as x, the leaf's first input. */
static struct tensor image_output(struct module *module, int value, struct tensor x)
{
    const struct plan_value made = *plan_value_at(module->builder, value);
    const struct plan_axis axis = module->builder->plan->axes[made.axis];
    int pixels = axis.kind == AXIS_FIXED ? module_size(module, axis.rows_per_item) : axis.sized.rows;
    if (pixels != module_product(module, x.dims[2].size, x.dims[3].size))
        module_fail(module, "the image that the class returns must have the size of its input");
    struct tensor y =
        tensor_of_rows(module, value, tensor_permute(module, x, (const int[]){0, 2, 3, 1}), 1, made.columns);
    return tensor_permute(module, y, (const int[]){0, 3, 1, 2});
}

/* The leaf's result as a tensor (batch, rows, columns). x is the leaf's first input, and has the same batch. */
static struct tensor leaf_output(struct module *module, int value, struct tensor x)
{
    const struct plan_value *made = plan_value_at(module->builder, value);
    const struct plan_axis *axis = &module->builder->plan->axes[made->axis];
    struct tensor_dimension dims[3] = {x.dims[0], {.size = x.rank > 1 ? x.dims[1].size : module->one}};
    if (axis->kind == AXIS_FIXED)
        dims[1].size = module_size(module, axis->rows_per_item);
    else if (axis->kind == AXIS_SIZED)
        dims[1].size = axis->sized.rows;
    dims[2].size = module_size(module, made->columns);
    struct tensor y = tensor_new(module, 3, dims);
    y.value = value;
    return y;
}

static void build_leaf(struct node *node)
{
    struct module *module = node->module;
    const json_t *json = node->json;
    struct plan_leaf leaf = {.class_name = node_string(node, "class", NULL),
                             .path = node_string(node, "path", ""),
                             .kwargs = json_object_get(json, "kwargs"),
                             .padding = PADDING_DEFAULT};
    const char *padding = node_string(node, "padding", "default");
    module->shown = leaf.class_name;
    node_has(node, "kwargs"), node_has(node, "inputs");
    int named = padding_from_name(padding);
    if (!json_is_object(leaf.kwargs))
        module_fail(module, "argument \"kwargs\": expected an object");
    else if (named < 0)
        module_fail(module, "padding \"%.40s\" is unknown; expected slice, zero, masked, autopad or exact", padding);
    if (module_failed(module))
        return;
    leaf.padding = (enum padding)named;
    if (strncmp(leaf.class_name, "linear_multihead_attention.", strlen("linear_multihead_attention.")) == 0) {
        module_fail(module, "the class mixes the items of a batch, so it is supported only alone, not within a module");
        return;
    }
    const char *name;
    json_t *input;
    json_object_foreach (json_object_get(json, "inputs"), name, input)
        bind_input(module, &leaf, name, input);
    if (!module_failed(module) && leaf.n_inputs == 0)
        module_fail(module, "argument \"inputs\": expected an object with at least one input");
    if (module_failed(module))
        return;
    json_t *inputs = json_object_get(json, "inputs");
    struct tensor x = *module_find(module, json_string_value(json_object_iter_value(json_object_iter(inputs))));
    int value = family_build_leaf(module->builder, &leaf);
    if (!module_failed(module))
        node_give_one(node, 0, x.rank == 4 ? image_output(module, value, x) : leaf_output(module, value, x));
}

/* The name of the first result, for messages. */
static const char *result_name(const json_t *to)
{
    const json_t *name = json_is_array(to) ? json_array_get(to, 0) : to;
    return json_is_string(name) ? json_string_value(name) : "";
}

/* Adds the name of the node to the message of a failure in a function of the plan. */
static void name_failure(const struct module *module)
{
    struct error *error = module->builder->error;
    char message[sizeof error->message];
    if (strncmp(error->message, "graph: ", strlen("graph: ")) == 0)
        return;
    memcpy(message, error->message, sizeof message);
    error_set(error, "graph: node \"%.80s\" (%.40s): %s", module->to, module->op, message);
}

static void build_node(struct module *module, const json_t *json, size_t index)
{
    struct node node = {.module = module, .json = json};
    const char *op = json_string_value(json_object_get(json, "op"));
    if (!op) {
        module_fail(module, "nodes[%zu]: expected an object whose \"op\" is a string", index);
        return;
    }
    module->op = module->shown = op;
    module->to = result_name(json_object_get(json, "to"));
    const struct module_operation *operation = find_operation(op);
    if (strcmp(op, "leaf") == 0)
        build_leaf(&node);
    else if (operation)
        operation->build(&node, operation->variant);
    else
        module_fail(module, "the operation is not supported; docs/module-graph.md lists the supported operations");
    if (!module_failed(module))
        node_finish(&node);
    if (module_failed(module))
        name_failure(module);
    module->op = NULL;
}

static void build_nodes(struct module *module, const json_t *nodes)
{
    size_t i;
    const json_t *node;
    if (!json_is_array(nodes) || json_array_size(nodes) > MAX_NODES)
        module_fail(module, "\"nodes\": expected a list of at most %d nodes", MAX_NODES);
    json_array_foreach (nodes, i, node)
        if (!module_failed(module))
            build_node(module, node, i);
}

/* ---- Outputs ---- */

/* Returns the plan's last step if it is an output layer: a linear step without activation or residual that writes
 * the value. Otherwise returns NULL. */
static const struct plan_step *output_layer(const struct plan *plan, int value)
{
    const struct plan_step *last = plan->n_steps > 0 ? &plan->steps[plan->n_steps - 1] : NULL;
    bool linear = last && last->operation == OP_LINEAR && last->y == value && last->z == PLAN_NONE &&
                  last->linear.activation.kind == ACTIVATION_NONE;
    return linear ? last : NULL;
}

/* States the results for /embed, /logits and /predict. An output (batch, d) is a vector. An output (batch, n, d)
 * consists of rows, if n is the length of the first input. If the model reads ids, rows that a linear step computes are
 * logits. */
static bool give_native(struct module *module, struct tensor t)
{
    struct plan_builder *builder = module->builder;
    struct plan *plan = builder->plan;
    int64_t columns;
    if (t.rank < 2 || t.rank > 3 || !t.dims[0].batched || t.dims[0].size != module->one ||
        !plan_size_is_constant(plan, t.dims[t.rank - 1].size, &columns) || tensor_is_ids(module, &t))
        return false;
    if (t.rank == 3 && (plan->inputs[0].input.layout != LAYOUT_SEQUENCE ||
                        t.dims[1].size != module_find(module, plan->inputs[0].input.name)->dims[1].size))
        return false;
    int value = tensor_rows(module, t, 1, true);
    if (module_failed(module))
        return true;
    const struct plan_step *layer =
        t.rank == 3 && plan->inputs[0].input.kind == INPUT_IDS ? output_layer(plan, value) : NULL;
    if (layer) {
        int hidden = layer->x, weight = layer->weight, bias = layer->bias;
        plan->n_steps--; /* plan_give computes this product instead, only for the requested rows */
        plan_give(builder, hidden, weight, bias, true);
    } else {
        plan_give(builder, value, PLAN_NONE, PLAN_NONE, false);
    }
    if (t.rank == 2)
        plan_give_vector(builder);
    return true;
}

static void give_tensor(struct module *module, const char *name, struct tensor t, int index)
{
    int sizes[MODULE_RANK];
    if (t.rank > ENGINE_MAX_RANK) {
        module_fail(module, "output \"%.80s\" has %d dimensions; expected at most %d", name, t.rank, ENGINE_MAX_RANK);
        return;
    }
    if (t.rank < 1 || !t.dims[0].batched) {
        module_fail(module, "output \"%.80s\": the first dimension must be the batch", name);
        return;
    }
    if (t.dims[0].size != module->one) {
        module_fail(module, "output \"%.80s\": the first dimension must be the batch, not a multiple of the batch",
                    name);
        return;
    }
    for (int d = 1; d < t.rank; d++)
        sizes[d - 1] = t.dims[d].size;
    t = tensor_as_floats(module, tensor_as_value(module, t));
    int64_t last;
    bool fixed = t.rank > 1 && plan_size_is_constant(module->builder->plan, t.dims[t.rank - 1].size, &last);
    int value = tensor_rows(module, t, fixed, true);
    plan_add_output(module->builder, name, t.rank - 1, sizes);
    plan_give_tensor(module->builder, value, index);
}

static void give_outputs(struct module *module, const json_t *outputs)
{
    const char *name;
    json_t *json;
    int index = 0;
    if (!json_is_object(outputs) || json_object_size(outputs) == 0 || json_object_size(outputs) > INT16_MAX) {
        module_fail(module, "\"outputs\": expected an object with at least one output");
        return;
    }
    json_object_foreach ((json_t *)outputs, name, json) {
        const struct tensor *t = json_is_string(json) ? module_find(module, json_string_value(json)) : NULL;
        if (!t)
            module_fail(module, "output \"%.80s\": no result has that name", name);
        if (module_failed(module))
            return;
        if (json_object_size(outputs) > 1 || strcmp(name, "output") != 0 || !give_native(module, *t))
            give_tensor(module, name, *t, index++);
    }
}

/* What the output of a module without logits lacks. */
static const char *missing_for_logits(const struct plan *plan, const json_t *outputs)
{
    const struct model_input *input = &plan->inputs[0].input;
    if (json_object_size(outputs) != 1 || !json_object_get(outputs, "output"))
        return "one output with the name \"output\"";
    if (input->kind != INPUT_IDS || input->layout != LAYOUT_SEQUENCE)
        return "ids (batch, n) as the first input";
    if (plan->vector || plan->n_outputs > 0)
        return "the shape (batch, n, vocabulary)";
    return "a linear layer as the last node";
}

/* Marks the plan as causal, if config.json says so. A graph does not show whether a module is causal. Its parts may set
 * causal and window, which have no meaning for the whole module. */
static void set_causal(struct module *module, const struct model_config *config)
{
    struct plan *plan = module->builder->plan;
    plan->causal = config->causal;
    plan->window = 0;
    if (!config->causal)
        return;
    const struct model_input *input = &plan->inputs[0].input;
    if (!plan->has_logits)
        module_fail(module, "causal is true, but the output is not logits: expected %s",
                    missing_for_logits(plan, json_object_get(config->graph, "outputs")));
    else if (input->min_length == input->max_length)
        module_fail(module, "causal is true, but input \"%.80s\" always has %lld ids, so a sequence cannot grow",
                    input->name, (long long)input->min_length);
    else if (plan->output_columns != input->vocabulary)
        module_fail(module, "causal is true, but the output has logits for %lld ids, and input \"%.80s\" accepts %lld",
                    (long long)plan->output_columns, input->name, (long long)input->vocabulary);
}

static void build_module(struct plan_builder *builder, const char *name, const struct model_config *config)
{
    static const enum padding paddings[] = {PADDING_SLICE, PADDING_DEFAULT};
    struct module module = {.builder = builder};
    const char *key;
    json_t *value;
    plan_choose_padding(builder, name, config->padding, paddings);
    if (builder->failed)
        return;
    if (!config->graph) {
        plan_fail(builder, "architecture \"module\": the key \"graph\" is missing");
        return;
    }
    module.zero = plan_size_constant(builder, 0);
    module.one = plan_size_constant(builder, 1);
    module.batch = plan_size_free(builder, PLAN_NONE, 0, 1, INT64_MAX);
    json_object_foreach (config->graph, key, value)
        if (strcmp(key, "inputs") != 0 && strcmp(key, "sizes") != 0 && strcmp(key, "nodes") != 0 &&
            strcmp(key, "outputs") != 0)
            module_fail(&module, "unknown key \"%.80s\"; expected inputs, sizes, nodes or outputs", key);
    read_sizes(&module, json_object_get(config->graph, "sizes"));
    if (!builder->failed)
        read_inputs(&module, json_object_get(config->graph, "inputs"));
    if (!builder->failed)
        build_nodes(&module, json_object_get(config->graph, "nodes"));
    if (!builder->failed)
        give_outputs(&module, json_object_get(config->graph, "outputs"));
    if (!builder->failed)
        set_causal(&module, config);
    if (!builder->failed)
        plan_drop_unread_steps(builder->plan);
    free(module.tensors);
    free(module.buckets);
    free(module.sizes);
}

static const struct family_class classes[] = {{"module", "module", build_module}};

const struct family family_module = {"module", classes, sizeof classes / sizeof *classes};
