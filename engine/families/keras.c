/* dholland42's `linformer` for Keras (linformer/attention.py, linformer/entrypoint.py): a MultiHeadAttention that
 * projects keys and values along the sequence, after computing their heads. Dense kernels are (in, heads, size). The
 * two projections, called transforms, have no bias. Without projection_dim there is no projection, so the number of
 * keys is the length of the item. */
#include "engine/families/family.h"

#include <jansson.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

#define MAX_OUTPUT_SIZES 3

struct keras_arguments {
    int64_t num_heads, key_dim, value_dim, projection_dim;
    bool use_bias;
    json_t *output_shape, *attention_axes, *dtype;

    int64_t output_sizes[MAX_OUTPUT_SIZES];
    int n_output_sizes; /* 0 if the output is as wide as the query */
};

#define FIELD(field) offsetof(struct keras_arguments, field)
#define COUNT(table) (sizeof(table) / sizeof *(table))

static const struct argument class_arguments[] = {
    {"num_heads", ARGUMENT_SIZE, true, 0, FIELD(num_heads)},
    {"key_dim", ARGUMENT_SIZE, true, 0, FIELD(key_dim)},
    {"value_dim", ARGUMENT_OPTIONAL_COUNT, false, 0, FIELD(value_dim)}, /* 0 stands for None, as in projection_dim */
    {"projection_dim", ARGUMENT_OPTIONAL_COUNT, false, 0, FIELD(projection_dim)},
    {"dropout", ARGUMENT_DROPOUT, false, 0, 0},
    {"use_bias", ARGUMENT_BOOL, false, 1, FIELD(use_bias)},
    {"output_shape", ARGUMENT_JSON, false, 0, FIELD(output_shape)},
    {"attention_axes", ARGUMENT_JSON, false, 0, FIELD(attention_axes)},
    {"kernel_initializer", ARGUMENT_TRAINING, false, 0, 0},
    {"bias_initializer", ARGUMENT_TRAINING, false, 0, 0},
    {"kernel_regularizer", ARGUMENT_TRAINING, false, 0, 0},
    {"bias_regularizer", ARGUMENT_TRAINING, false, 0, 0},
    {"activity_regularizer", ARGUMENT_TRAINING, false, 0, 0},
    {"kernel_constraint", ARGUMENT_TRAINING, false, 0, 0},
    {"bias_constraint", ARGUMENT_TRAINING, false, 0, 0},
    {"name", ARGUMENT_TRAINING, false, 0, 0},
    {"trainable", ARGUMENT_TRAINING, false, 0, 0},
    {"dtype", ARGUMENT_JSON, false, 0, FIELD(dtype)},
};

static const enum padding exact_only[] = {PADDING_EXACT, PADDING_DEFAULT};

/* Reads an integer or a list of integers. */
static void read_output_shape(struct plan_builder *builder, const char *name, struct keras_arguments *arguments)
{
    const json_t *shape = arguments->output_shape;
    if (!shape || json_is_null(shape))
        return;
    size_t count = json_is_array(shape) ? json_array_size(shape) : 1;
    if (count > MAX_OUTPUT_SIZES) {
        plan_fail(builder, "%s: argument output_shape: expected at most %d sizes, found %zu", name, MAX_OUTPUT_SIZES,
                  count);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        const json_t *size = json_is_array(shape) ? json_array_get(shape, i) : shape;
        if (!json_is_integer(size) || json_integer_value(size) < 1 || json_integer_value(size) > INT32_MAX)
            plan_fail(builder,
                      "%s: argument output_shape: expected null, an integer of at least 1, or a list of such integers",
                      name);
        arguments->output_sizes[i] = json_integer_value(size);
    }
    arguments->n_output_sizes = (int)count;
}

/* Items are (length, features), so the only axis that attention can have is 1. None also means 1. */
static void check_axes(struct plan_builder *builder, const char *name, const json_t *axes)
{
    const json_t *axis = json_is_array(axes) && json_array_size(axes) == 1 ? json_array_get(axes, 0) : axes;
    if (axes && !json_is_null(axes) && !(json_is_integer(axis) && json_integer_value(axis) == 1))
        plan_fail(builder, "%s: argument attention_axes: expected null, 1 or [1], for (batch, length, features)", name);
}

static bool read_arguments(struct plan_builder *builder, const char *name, const struct model_config *config,
                           struct keras_arguments *arguments)
{
    memset(arguments, 0, sizeof *arguments);
    plan_choose_padding(builder, name, config->padding, exact_only);
    if (builder->failed)
        return false;
    if (arguments_read(name, class_arguments, COUNT(class_arguments), config->kwargs, arguments, builder->error) != 0) {
        builder->failed = true;
        return false;
    }
    if (arguments->value_dim == 0)
        arguments->value_dim = arguments->key_dim;
    const json_t *dtype = arguments->dtype;
    if (dtype && !json_is_null(dtype) && !(json_is_string(dtype) && strcmp(json_string_value(dtype), "float32") == 0))
        plan_fail(builder, "%s: argument dtype: expected null or \"float32\"", name);
    read_output_shape(builder, name, arguments);
    check_axes(builder, name, arguments->attention_axes);
    return !builder->failed;
}

/* A size that no argument contains: the first size of a tensor with `rank` dimensions. 1 after a failure. */
static int64_t first_size(struct plan_builder *builder, const char *name, int rank, const char *shape)
{
    if (builder->failed)
        return 1;
    const struct weights_tensor *tensor = plan_find_tensor(builder, name);
    char found[128];
    if (!tensor)
        plan_fail_missing(builder, name, shape);
    else if (tensor->rank != rank || tensor->shape[0] < 1)
        plan_fail(builder, "%s: tensor \"%s\": expected shape %s, found %s", weights_origin(builder->weights), name,
                  shape, weights_shape_text(tensor->rank, tensor->shape, found, sizeof found));
    return builder->failed ? 1 : tensor->shape[0];
}

#define DENSE_SHAPE "[features, num_heads, size of a head]"
#define TRANSFORM_SHAPE "[length, projection_dim]"

/* ---- Inputs ---- */

struct inputs {
    int query, key, value; /* indices of values with floats */
    int mask;              /* index of an input. PLAN_NONE if the model has no mask */
    int64_t query_columns, key_columns, value_columns, key_length, value_length;
};

/* The model of entrypoint.py. It begins with an Embedding, whose rows are query, key and value. */
static void take_embedded(struct plan_builder *builder, int64_t vocabulary, struct inputs *inputs)
{
    int ids = plan_input_ids(builder, "query", vocabulary, inputs->key_length, PLAN_NONE);
    int table = plan_matrix(builder, vocabulary, inputs->query_columns, "embedding/embeddings");
    inputs->query = inputs->key = inputs->value = plan_embed(builder, ids, table);
    inputs->key_columns = inputs->value_columns = inputs->query_columns;
    inputs->value_length = inputs->key_length;
    inputs->mask = PLAN_NONE;
}

/* call(query, value, key=None, attention_mask=None). There must be as many keys as values, unless both have a
 * transform. */
static void take_layer_inputs(struct plan_builder *builder, const struct keras_arguments *arguments,
                              struct inputs *inputs)
{
    enum { VALUE = 1, KEY = 2 };
    bool same = inputs->key_columns == inputs->value_columns && inputs->key_length == inputs->value_length;
    int fallback = same ? VALUE : PLAN_NONE;
    inputs->query = plan_input_rows(builder, "query", inputs->query_columns, 0, PLAN_NONE);
    inputs->value = plan_input_rows(builder, "value", inputs->value_columns, inputs->value_length, PLAN_NONE);
    if (arguments->projection_dim)
        inputs->key = plan_input_rows(builder, "key", inputs->key_columns, inputs->key_length, fallback);
    else
        inputs->key = plan_input_rows_like(builder, "key", inputs->key_columns, inputs->value, fallback);
    struct model_input mask = {.name = "attention_mask",
                               .kind = INPUT_ATTENTION_MASK,
                               .columns = arguments->projection_dim,
                               .columns_like = KEY,
                               .accepts_one_row = true}; /* a mask of padded keys has one row for all queries */
    inputs->mask = plan_input_beside(builder, mask, inputs->query);
}

static struct inputs take_inputs(struct plan_builder *builder, const struct keras_arguments *arguments)
{
    bool projected = arguments->projection_dim != 0;
    const struct weights_tensor *embeddings = plan_find_tensor(builder, "embedding/embeddings");
    struct inputs inputs = {
        .query_columns = first_size(builder, "query/kernel", 3, DENSE_SHAPE),
        .key_columns = first_size(builder, "key/kernel", 3, DENSE_SHAPE),
        .value_columns = first_size(builder, "value/kernel", 3, DENSE_SHAPE),
        .key_length = projected ? first_size(builder, "key_transform/kernel", 2, TRANSFORM_SHAPE) : 0,
        .value_length = projected ? first_size(builder, "value_transform/kernel", 2, TRANSFORM_SHAPE) : 0,
    };
    if (embeddings)
        take_embedded(builder, first_size(builder, "embedding/embeddings", 2, "[vocabulary, features]"), &inputs);
    else
        take_layer_inputs(builder, arguments, &inputs);
    return inputs;
}

/* ---- LinearMultiHeadAttention.call ---- */

/* EinsumDense abc,cde->abde: all heads at once, (length, heads * size). */
static int dense(struct plan_builder *builder, const struct keras_arguments *arguments, int x, int64_t columns,
                 int64_t size, const char *which)
{
    int64_t heads = arguments->num_heads;
    int kernel = plan_tensor(builder, 3, (int64_t[]){columns, heads, size}, "%s/kernel", which), bias = PLAN_NONE;
    if (arguments->use_bias)
        bias = plan_tensor(builder, 2, (int64_t[]){heads, size}, "%s/bias", which);
    return plan_linear(builder, x, plan_transpose(builder, kernel, columns), bias);
}

/* EinsumDense bsnh,se->benh, or tf.identity. */
static int transform(struct plan_builder *builder, const struct keras_arguments *arguments, int x, int64_t length,
                     const char *which)
{
    if (!arguments->projection_dim)
        return x;
    struct plan_projection projection = {
        .weight = plan_matrix(builder, length, arguments->projection_dim, "%s/kernel", which),
        .bias = PLAN_NONE,
        .groups = 1,
    };
    return plan_project_sequence(builder, x, projection);
}

/* EinsumDense from (heads, value_dim) to output_shape. */
static int output_dense(struct plan_builder *builder, const struct keras_arguments *arguments, int x,
                        const int64_t *sizes, int count)
{
    int64_t shape[2 + MAX_OUTPUT_SIZES] = {arguments->num_heads, arguments->value_dim};
    memcpy(shape + 2, sizes, (size_t)count * sizeof *sizes);
    int kernel = plan_tensor(builder, 2 + count, shape, "attention_output/kernel"), bias = PLAN_NONE;
    if (arguments->use_bias)
        bias = plan_tensor(builder, count, sizes, "attention_output/bias");
    return plan_linear(builder, x, plan_transpose(builder, kernel, arguments->num_heads * arguments->value_dim), bias);
}

static void build_attention(struct plan_builder *builder, const char *name, const struct model_config *config)
{
    struct keras_arguments arguments;
    if (!read_arguments(builder, name, config, &arguments))
        return;
    struct inputs inputs = take_inputs(builder, &arguments);
    int queries = dense(builder, &arguments, inputs.query, inputs.query_columns, arguments.key_dim, "query");
    int keys = dense(builder, &arguments, inputs.key, inputs.key_columns, arguments.key_dim, "key");
    int values = dense(builder, &arguments, inputs.value, inputs.value_columns, arguments.value_dim, "value");
    keys = transform(builder, &arguments, keys, inputs.key_length, "key_transform");
    values = transform(builder, &arguments, values, inputs.value_length, "value_transform");
    /* keras.layers.Softmax adds -1e9 where the mask is false. If a whole row is false, the softmax is uniform. */
    int x = plan_attend(builder, queries, keys, values,
                        (struct plan_attention){.heads = arguments.num_heads,
                                                .kv_heads = arguments.num_heads,
                                                .scale = (float)(1.0 / sqrt((double)arguments.key_dim)),
                                                .masked = inputs.mask != PLAN_NONE,
                                                .mask = inputs.mask,
                                                .masked_byte = false,
                                                .masked_score = -1e9f});
    int count = arguments.n_output_sizes ? arguments.n_output_sizes : 1;
    x = output_dense(builder, &arguments, x, arguments.n_output_sizes ? arguments.output_sizes : &inputs.query_columns,
                     count);
    plan_give(builder, x, PLAN_NONE, PLAN_NONE, false);
    plan_name_outputs(builder, "attention_output", "attention_scores");
    plan_shape_output(builder, arguments.n_output_sizes, arguments.output_sizes);
}

static const struct family_class classes[] = {
    {"linformer.attention.LinearMultiHeadAttention", "linformer.attention.LinearMultiHeadAttention", build_attention},
};

const struct family family_keras = {"linformer (Keras)", classes, COUNT(classes)};
