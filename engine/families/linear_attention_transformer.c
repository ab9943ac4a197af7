/* lucidrains' `linear-attention-transformer` 0.19.1 (linear_attention_transformer/linear_attention_transformer.py,
 * reversible.py, autopadder.py) with `local-attention` 1.11.2 and `product-key-memory` 0.3.0. The first
 * n_local_attn_heads heads of a layer attend within windows, and the other heads use linear attention. With
 * linformer_settings, a layer uses Linformer attention instead. At each depth, an axial layer and a layer that reads
 * a context may follow. */
#include "engine/families/family.h"

#include <jansson.h>
#include <stddef.h>
#include <stdio.h>

#define NAME_LENGTH 160

struct transformer_arguments {
    int64_t num_tokens, dim, depth, max_seq_len, heads, dim_head, emb_dim, blindspot_size, local_attn_window_size;
    bool causal, reversible, return_embeddings, receives_context, attend_axially;
    bool use_axial_pos_emb, use_rotary_emb, shift_tokens, ff_glu;
    int64_t ff_chunks; /* has no effect on results */
    json_t *linformer_settings, *context_linformer_settings, *n_local_attn_heads, *pkm_layers;
    int64_t k; /* set in linformer_settings */
    int64_t context_seq_len, context_k;
};

#define FIELD(field) offsetof(struct transformer_arguments, field)
#define COUNT(table) (sizeof(table) / sizeof *(table))

#define COMMON_ARGUMENTS                                                                                               \
    {"dim", ARGUMENT_SIZE, true, 0, FIELD(dim)}, {"depth", ARGUMENT_COUNT, true, 0, FIELD(depth)},                     \
        {"max_seq_len", ARGUMENT_SIZE, true, 0, FIELD(max_seq_len)}, {"heads", ARGUMENT_SIZE, false, 8, FIELD(heads)}, \
        {"causal", ARGUMENT_BOOL, false, 0, FIELD(causal)},                                                            \
        {"reversible", ARGUMENT_BOOL, false, 0, FIELD(reversible)},                                                    \
        {"ff_chunks", ARGUMENT_SIZE, false, 1, FIELD(ff_chunks)}, {"ff_glu", ARGUMENT_BOOL, false, 0, FIELD(ff_glu)},  \
        {"ff_dropout", ARGUMENT_DROPOUT, false, 0, 0}, {"attn_layer_dropout", ARGUMENT_DROPOUT, false, 0, 0},          \
        {"attn_dropout", ARGUMENT_DROPOUT, false, 0, 0},                                                               \
        {"blindspot_size", ARGUMENT_COUNT, false, 1, FIELD(blindspot_size)},                                           \
        {"n_local_attn_heads", ARGUMENT_JSON, false, 0, FIELD(n_local_attn_heads)},                                    \
        {"local_attn_window_size", ARGUMENT_SIZE, false, 128, FIELD(local_attn_window_size)},                          \
        {"receives_context", ARGUMENT_BOOL, false, 0, FIELD(receives_context)},                                        \
        {"pkm_layers", ARGUMENT_JSON, false, 0, FIELD(pkm_layers)},                                                    \
        {"pkm_num_keys", ARGUMENT_TRAINING, false, 0, 0} /* the class ignores it */,                                   \
        {"attend_axially", ARGUMENT_BOOL, false, 0, FIELD(attend_axially)},                                            \
        {"linformer_settings", ARGUMENT_OBJECT, false, 0, FIELD(linformer_settings)},                                  \
        {"context_linformer_settings", ARGUMENT_OBJECT, false, 0, FIELD(context_linformer_settings)},                  \
    {                                                                                                                  \
        "shift_tokens", ARGUMENT_BOOL, false, 0, FIELD(shift_tokens)                                                   \
    }

static const struct argument transformer_arguments[] = {
    COMMON_ARGUMENTS,
    {"dim_head", ARGUMENT_OPTIONAL_SIZE, false, 0, FIELD(dim_head)},
    {"bucket_size", ARGUMENT_TRAINING, false, 0, 0} /* the class ignores it */,
};

static const struct argument lm_arguments[] = {
    COMMON_ARGUMENTS,
    {"num_tokens", ARGUMENT_SIZE, true, 0, FIELD(num_tokens)},
    {"dim_head", ARGUMENT_OPTIONAL_SIZE, false, 64, FIELD(dim_head)},
    {"emb_dim", ARGUMENT_OPTIONAL_SIZE, false, 0, FIELD(emb_dim)},
    {"return_embeddings", ARGUMENT_BOOL, false, 0, FIELD(return_embeddings)},
    {"use_axial_pos_emb", ARGUMENT_BOOL, false, 1, FIELD(use_axial_pos_emb)},
    {"use_rotary_emb", ARGUMENT_BOOL, false, 0, FIELD(use_rotary_emb)},
};

static const struct argument settings_arguments[] = {{"k", ARGUMENT_SIZE, true, 0, FIELD(k)}};
static const struct argument context_settings_arguments[] = {
    {"seq_len", ARGUMENT_SIZE, true, 0, FIELD(context_seq_len)},
    {"k", ARGUMENT_SIZE, true, 0, FIELD(context_k)},
};

/* ---- Arguments ---- */

/* The value for one layer. The argument is an int for all layers, or a tuple with an int for each layer. */
static int64_t local_heads(const struct transformer_arguments *arguments, int64_t layer)
{
    json_t *heads = arguments->n_local_attn_heads;
    return json_integer_value(json_is_array(heads) ? json_array_get(heads, (size_t)layer) : heads);
}

static bool any_local_heads(const struct transformer_arguments *arguments)
{
    for (int64_t i = 0; i < arguments->depth; i++)
        if (local_heads(arguments, i) != 0)
            return true;
    return false;
}

static void check_local_heads(struct plan_builder *builder, const char *name,
                              const struct transformer_arguments *arguments)
{
    json_t *heads = arguments->n_local_attn_heads;
    if (heads && !json_is_integer(heads) && !json_is_array(heads))
        plan_fail(builder, "%s: n_local_attn_heads: expected an integer or a list of integers", name);
    if (json_is_array(heads) && (int64_t)json_array_size(heads) != arguments->depth)
        plan_fail(builder, "%s: n_local_attn_heads has %zu entries; expected %lld, the depth", name,
                  json_array_size(heads), (long long)arguments->depth);
    for (size_t i = 0; i < (json_is_array(heads) ? json_array_size(heads) : heads != NULL); i++) {
        json_t *layer = json_is_array(heads) ? json_array_get(heads, i) : heads;
        if (!json_is_integer(layer) || json_integer_value(layer) < 0 || json_integer_value(layer) > arguments->heads)
            plan_fail(builder, "%s: n_local_attn_heads: expected integers from 0 to %lld, the number of heads", name,
                      (long long)arguments->heads);
    }
}

/* Only the language model requires whole windows in max_seq_len. As in the library, it also does so for a tuple of
 * zeros. */
static void check_whole_windows(struct plan_builder *builder, const char *name,
                                const struct transformer_arguments *arguments)
{
    json_t *heads = arguments->n_local_attn_heads;
    if ((json_is_array(heads) || json_integer_value(heads) != 0) &&
        arguments->max_seq_len % arguments->local_attn_window_size != 0)
        plan_fail(builder, "%s: max_seq_len %lld must be divisible by local_attn_window_size %lld", name,
                  (long long)arguments->max_seq_len, (long long)arguments->local_attn_window_size);
}

/* A layer number or a tuple of layer numbers, counted from 1. Numbers beyond depth have no effect. */
static void check_memory_layers(struct plan_builder *builder, const char *name,
                                const struct transformer_arguments *arguments)
{
    json_t *layers = arguments->pkm_layers;
    if (layers && !json_is_integer(layers) && !json_is_array(layers))
        plan_fail(builder, "%s: pkm_layers: expected an integer or a list of integers", name);
    for (size_t i = 0; i < (json_is_array(layers) ? json_array_size(layers) : layers != NULL); i++) {
        json_t *layer = json_is_array(layers) ? json_array_get(layers, i) : layers;
        if (!json_is_integer(layer))
            plan_fail(builder, "%s: pkm_layers: expected integers", name);
    }
}

/* Whether the layer at this depth, counted from 0, has a product-key memory in place of its feed-forward part. */
static bool has_memory(const struct transformer_arguments *arguments, int64_t depth)
{
    json_t *layers = arguments->pkm_layers;
    if (!json_is_array(layers))
        return json_integer_value(layers) == depth + 1;
    for (size_t i = 0; i < json_array_size(layers); i++)
        if (json_integer_value(json_array_get(layers, i)) == depth + 1)
            return true;
    return false;
}

/* Rotary positions also apply to axial layers. Their sequences are shorter than the table, unless
 * local_attn_window_size is 1. */
static void check_rotary(struct plan_builder *builder, const char *name, const struct transformer_arguments *arguments)
{
    if (!arguments->use_rotary_emb)
        return;
    if (arguments->dim_head == 0)
        plan_fail(builder, "%s: use_rotary_emb needs dim_head", name);
    if (arguments->dim_head % 2 != 0 && !arguments->linformer_settings)
        plan_fail(builder, "%s: use_rotary_emb needs an even dim_head, not %lld", name, (long long)arguments->dim_head);
    if (arguments->emb_dim % 2 != 0)
        plan_fail(builder, "%s: use_rotary_emb needs an even emb_dim, not %lld", name, (long long)arguments->emb_dim);
    if (arguments->attend_axially && arguments->depth > 0 &&
        (arguments->local_attn_window_size != 1 || arguments->dim / arguments->heads != arguments->dim_head))
        plan_fail(
            builder,
            "%s: use_rotary_emb with attend_axially: expected local_attn_window_size 1 and dim_head %lld, which is "
            "dim / heads; found %lld and %lld",
            name, (long long)(arguments->dim / arguments->heads), (long long)arguments->local_attn_window_size,
            (long long)arguments->dim_head);
}

/* Checks the assertions of the library, and other conditions under which it fails because of wrong shapes. */
static bool refuse_combinations(struct plan_builder *builder, const char *name,
                                const struct transformer_arguments *arguments)
{
    int64_t dim = arguments->dim, heads = arguments->heads;
    if (arguments->causal && arguments->linformer_settings)
        plan_fail(builder,
                  "%s: causal with linformer_settings: Linformer self attention is for non-causal networks only", name);
    if (dim % heads != 0 && arguments->depth > 0 &&
        (arguments->dim_head == 0 || arguments->attend_axially || arguments->linformer_settings ||
         (arguments->receives_context && arguments->context_linformer_settings)))
        plan_fail(builder, "%s: dim %lld must be divisible by heads %lld", name, (long long)dim, (long long)heads);
    if (arguments->shift_tokens && dim < (arguments->causal ? 2 : 3))
        plan_fail(builder, "%s: shift_tokens needs a dim of at least %d", name, arguments->causal ? 2 : 3);
    check_local_heads(builder, name, arguments);
    check_memory_layers(builder, name, arguments);
    return !builder->failed;
}

/* Reads the arguments of a named tuple, which may be NULL. */
static void read_settings(struct plan_builder *builder, const char *name, const char *argument,
                          const struct argument *table, size_t count, const json_t *settings,
                          struct transformer_arguments *arguments)
{
    if (builder->failed || !settings ||
        arguments_read(argument, table, count, settings, arguments, builder->error) == 0)
        return;
    error_prefix(builder->error, "%s", name);
    builder->failed = true;
}

static bool read_arguments(struct plan_builder *builder, const char *name, const struct argument *table, size_t count,
                           const json_t *kwargs, struct transformer_arguments *arguments)
{
    if (arguments_read(name, table, count, kwargs, arguments, builder->error) != 0) {
        builder->failed = true;
        return false;
    }
    read_settings(builder, name, "linformer_settings", settings_arguments, COUNT(settings_arguments),
                  arguments->linformer_settings, arguments);
    read_settings(builder, name, "context_linformer_settings", context_settings_arguments,
                  COUNT(context_settings_arguments), arguments->context_linformer_settings, arguments);
    if (builder->failed)
        return false;
    if (arguments->emb_dim == 0)
        arguments->emb_dim = arguments->dim;
    return refuse_combinations(builder, name, arguments);
}

static bool read_lm_arguments(struct plan_builder *builder, const char *name, const json_t *kwargs,
                              struct transformer_arguments *arguments)
{
    *arguments = (struct transformer_arguments){0};
    if (!read_arguments(builder, name, lm_arguments, COUNT(lm_arguments), kwargs, arguments))
        return false;
    check_whole_windows(builder, name, arguments);
    check_rotary(builder, name, arguments);
    if (arguments->return_embeddings && arguments->emb_dim != arguments->dim)
        plan_fail(builder,
                  "%s: return_embeddings needs emb_dim %lld to equal dim %lld, because of the class's last norm", name,
                  (long long)arguments->emb_dim, (long long)arguments->dim);
    return !builder->failed;
}

/* ---- Lengths ---- */

static int64_t least_common_multiple(int64_t a, int64_t b)
{
    int64_t x = a, y = b;
    while (y != 0) {
        int64_t rest = x % y;
        x = y;
        y = rest;
    }
    return a / x * b;
}

/* LinearAttentionTransformer.pad_to_multiple. The library does not consider that layers may be Linformer layers. If a
 * causal model has a blindspot_size of 0, the result is 0. A multiple of 0 adds no padding, like a multiple of 1. */
static int64_t pad_to_multiple(const struct transformer_arguments *arguments)
{
    return least_common_multiple(any_local_heads(arguments) ? arguments->local_attn_window_size : 1,
                                 arguments->causal ? arguments->blindspot_size : 1);
}

/* Returns the number that must divide the number of rows, according to the assertions of the layers. */
static int64_t needed_multiple(const struct transformer_arguments *arguments)
{
    int64_t window = arguments->local_attn_window_size, needed = 1;
    if (arguments->depth > 0 && !arguments->linformer_settings) {
        needed = any_local_heads(arguments) ? window : 1;
        if (arguments->causal && arguments->blindspot_size > 0)
            needed = least_common_multiple(needed, arguments->blindspot_size);
    }
    return arguments->depth > 0 && arguments->attend_axially ? least_common_multiple(needed, window) : needed;
}

/* The largest number of rows that the positions and the layers allow. 0 if there is no limit. */
static int64_t longest(const struct transformer_arguments *arguments, bool has_positions)
{
    int64_t length = arguments->max_seq_len, width = arguments->local_attn_window_size;
    if (arguments->linformer_settings && arguments->depth > 0)
        return length;
    if (!has_positions)
        return 0;
    bool axial = !arguments->use_rotary_emb && arguments->use_axial_pos_emb;
    return axial ? (length + width - 1) / width * width : length;
}

/* If the padding is "autopad", pads the input like Autopadder. Returns the value to use from then on. */
static int pad(struct plan_builder *builder, const struct transformer_arguments *arguments, int input)
{
    int64_t multiple = pad_to_multiple(arguments);
    if (builder->padding == PADDING_AUTOPAD && multiple > 1)
        input = plan_pad_to_multiple(builder, input, multiple);
    plan_require_multiple(builder, input, needed_multiple(arguments));
    return input;
}

/* The longest input whose padded rows fit. With padding "exact", the only length. 0 if there is no limit. */
static int64_t max_length(struct plan_builder *builder, const char *name, const struct transformer_arguments *arguments,
                          bool has_positions)
{
    int64_t most = longest(arguments, has_positions), multiple = pad_to_multiple(arguments);
    if (builder->padding == PADDING_EXACT)
        return arguments->max_seq_len;
    if (builder->padding != PADDING_AUTOPAD || multiple <= 1 || most == 0)
        return most;
    if (most < multiple)
        plan_fail(builder, "%s: sequences are padded to multiples of %lld, which exceeds max_seq_len %lld", name,
                  (long long)multiple, (long long)arguments->max_seq_len);
    return most - most % multiple;
}

static const enum padding linear_paddings[] = {PADDING_AUTOPAD, PADDING_EXACT, PADDING_DEFAULT};
static const enum padding linformer_paddings[] = {PADDING_SLICE, PADDING_AUTOPAD, PADDING_EXACT, PADDING_DEFAULT};

static void choose_padding(struct plan_builder *builder, const char *name, const struct model_config *config,
                           const struct transformer_arguments *arguments)
{
    plan_choose_padding(builder, name, config->padding,
                        arguments->linformer_settings ? linformer_paddings : linear_paddings);
}

/* ---- Layers ---- */

/* The inputs that forward() passes to the layers. */
struct routed {
    int input_mask, context, context_mask;
    int rotary; /* weight of layer_pos_emb, or PLAN_NONE */
};

/* x + pos_emb(x). The positions are absolute embeddings, sinusoids from the checkpoint, or axial embeddings: row +
 * column of a grid of width w. */
static int add_positions(struct plan_builder *builder, const struct transformer_arguments *arguments, int x,
                         const char *prefix)
{
    int64_t length = arguments->max_seq_len, emb_dim = arguments->emb_dim, width = arguments->local_attn_window_size;
    if (arguments->use_rotary_emb || !arguments->use_axial_pos_emb)
        return plan_add_positions(builder, x,
                                  plan_matrix(builder, length, emb_dim, "%spos_emb.emb%s", prefix,
                                              arguments->use_rotary_emb ? "" : ".weight"),
                                  PLAN_NONE, 1);
    int64_t grid_rows = (length + width - 1) / width;
    int rows = plan_tensor(builder, 4, (int64_t[]){1, grid_rows, 1, emb_dim}, "%spos_emb.weights.0", prefix);
    int columns = plan_tensor(builder, 4, (int64_t[]){1, 1, width, emb_dim}, "%spos_emb.weights.1", prefix);
    return plan_add_positions(builder, x, rows, columns, width);
}

/* The arguments of SelfAttention, and the fold of FoldAxially around it. */
struct attention_arguments {
    int64_t dim_head, local_heads, blindspot_size, fold;
    bool causal;
};

/* SelfAttention.forward: `source` is the value from which keys and values are computed, and `mask` selects its rows.
 * `rotary` is a table or PLAN_NONE. */
static int self_attention(struct plan_builder *builder, const struct transformer_arguments *arguments,
                          const struct attention_arguments *attention, int x, int source, int mask, int rotary,
                          const char *prefix)
{
    int64_t dim = arguments->dim, columns = attention->dim_head * arguments->heads, local = attention->local_heads;
    int queries = plan_linear(builder, x, plan_matrix(builder, columns, dim, "%sto_q.weight", prefix), PLAN_NONE);
    int keys = plan_linear(builder, source, plan_matrix(builder, columns, dim, "%sto_k.weight", prefix), PLAN_NONE);
    int values = plan_linear(builder, source, plan_matrix(builder, columns, dim, "%sto_v.weight", prefix), PLAN_NONE);
    if (rotary != PLAN_NONE) {
        queries = plan_rotate(builder, queries, rotary);
        keys = plan_rotate(builder, keys, rotary);
    }
    struct plan_head_range locals = {0, local, attention->dim_head};
    struct plan_head_range globals = {local, arguments->heads - local, attention->dim_head};
    int64_t bucket = attention->blindspot_size > 0 ? attention->blindspot_size : 1;
    int out = PLAN_NONE;
    if (locals.heads > 0)
        out = plan_local_attend(builder, queries, keys, values, mask, locals, arguments->local_attn_window_size,
                                attention->causal);
    if (globals.heads > 0) {
        int global =
            attention->causal
                ? plan_causal_linear_attend(builder, queries, keys, values, mask, globals, attention->fold, bucket)
                : plan_linear_attend(builder, queries, keys, values, mask, globals, attention->fold);
        out = locals.heads > 0 ? plan_concatenate(builder, out, global) : global;
    }
    return plan_linear(builder, out, plan_matrix(builder, dim, columns, "%sto_out.weight", prefix),
                       plan_vector(builder, dim, "%sto_out.bias", prefix));
}

/* FeedForward.forward with glu: w2(gelu(x) * v), where x and v are the halves of w1's output. */
static int gated_feed_forward(struct plan_builder *builder, int64_t dim, int x, const char *prefix)
{
    int64_t hidden = 4 * dim;
    x = plan_linear(builder, x, plan_matrix(builder, 2 * hidden, dim, "%sw1.weight", prefix),
                    plan_vector(builder, 2 * hidden, "%sw1.bias", prefix));
    x = plan_gate(builder, x, (struct plan_activation){.kind = ACTIVATION_GELU});
    return plan_linear(builder, x, plan_matrix(builder, dim, hidden, "%sw2.weight", prefix),
                       plan_vector(builder, dim, "%sw2.bias", prefix));
}

/* PKM.forward with those default arguments that the class does not change. */
static int product_key_memory(struct plan_builder *builder, int64_t dim, int x, const char *prefix)
{
    const int64_t heads = 4, keys = 128, dim_head = 128;
    char norm[NAME_LENGTH + 8];
    snprintf(norm, sizeof norm, "%snorm.", prefix);
    x = plan_linear(builder, x, plan_matrix(builder, 2 * heads * dim_head, dim, "%sto_queries.weight", prefix),
                    PLAN_NONE);
    x = lucidrains_layer_norm(builder, dim_head, x, norm); /* normalises the queries of each head */
    return plan_retrieve(builder, x, plan_tensor(builder, 4, (int64_t[]){heads, keys, 2, dim_head}, "%skeys", prefix),
                         plan_matrix(builder, keys * keys, dim, "%svalues.weight", prefix), heads);
}

/* PreNorm's layer norm, then PreShiftTokens if `shift`. Writes the prefix of the wrapped module to `fn`. The shift
 * ignores masks, because it expects an argument `mask` that the library never passes. */
static int pre_norm(struct plan_builder *builder, const struct transformer_arguments *arguments, bool shift, int x,
                    const char *prefix, char *fn)
{
    static const int64_t shifts[] = {1, 0, -1}; /* if causal, only the first two are used */
    char norm[NAME_LENGTH];
    snprintf(norm, sizeof norm, "%snorm.", prefix);
    snprintf(fn, NAME_LENGTH, "%sfn.%s", prefix, shift ? "fn." : "");
    x = lucidrains_layer_norm(builder, arguments->dim, x, norm);
    return shift ? plan_shift_tokens(builder, x, arguments->causal ? 2 : 3, shifts) : x;
}

/* The kinds of layers, in the order in which each depth has them. */
enum layer { LAYER_SELF, LAYER_AXIAL, LAYER_CONTEXT, LAYER_COUNT };

static bool has_layer(const struct transformer_arguments *arguments, enum layer layer)
{
    return layer == LAYER_SELF || (layer == LAYER_AXIAL ? arguments->attend_axially : arguments->receives_context);
}

static int linformer(struct plan_builder *builder, const struct transformer_arguments *arguments, int64_t seq_len,
                     int64_t k, int x, int context, const char *prefix)
{
    struct linformer_attention attention = {
        .dim = arguments->dim,
        .seq_len = seq_len,
        .k = k,
        .heads = arguments->heads,
        .dim_head = arguments->dim_head,
    };
    return linformer_self_attention(builder, &attention, x, context, prefix);
}

static int attention_block(struct plan_builder *builder, const struct transformer_arguments *arguments,
                           enum layer layer, int64_t depth, const struct routed *routed, int x, const char *prefix)
{
    char fn[NAME_LENGTH];
    int64_t dim_head = arguments->dim_head ? arguments->dim_head : arguments->dim / arguments->heads;
    x = pre_norm(builder, arguments, arguments->shift_tokens && layer == LAYER_SELF, x, prefix, fn);
    if (layer == LAYER_SELF && arguments->linformer_settings)
        return linformer(builder, arguments, arguments->max_seq_len, arguments->k, x, x, fn);
    if (layer == LAYER_CONTEXT && arguments->context_linformer_settings)
        return linformer(builder, arguments, arguments->context_seq_len, arguments->context_k, x, routed->context, fn);
    struct attention_arguments attention = {.dim_head = dim_head, .fold = 1};
    if (layer == LAYER_CONTEXT)
        return self_attention(builder, arguments, &attention, x, routed->context, routed->context_mask, PLAN_NONE, fn);
    attention.causal = arguments->causal;
    attention.blindspot_size = 1;
    if (layer == LAYER_SELF) {
        attention.blindspot_size = arguments->blindspot_size;
        attention.local_heads = local_heads(arguments, depth);
    } else {
        attention.dim_head = arguments->dim / arguments->heads;
        attention.fold = arguments->local_attn_window_size;
        snprintf(fn, sizeof fn, "%sfn.fn.", prefix);
    }
    return self_attention(builder, arguments, &attention, x, x, routed->input_mask, routed->rotary, fn);
}

/* The feed-forward part after LAYER_SELF has no GLU, whatever ff_glu is. Chunk adds one more "fn." to the names. */
static int feed_forward_block(struct plan_builder *builder, const struct transformer_arguments *arguments,
                              enum layer layer, int64_t depth, int x, const char *prefix)
{
    char fn[NAME_LENGTH], chunk[NAME_LENGTH + 8];
    x = pre_norm(builder, arguments, arguments->shift_tokens && layer == LAYER_SELF, x, prefix, fn);
    if (layer == LAYER_SELF && has_memory(arguments, depth))
        return product_key_memory(builder, arguments->dim, x, fn);
    snprintf(chunk, sizeof chunk, "%sfn.", fn);
    return layer != LAYER_SELF && arguments->ff_glu ? gated_feed_forward(builder, arguments->dim, x, chunk)
                                                    : lucidrains_feed_forward(builder, arguments->dim, x, chunk);
}

/* The x of SequentialSequence, or the two streams of ReversibleSequence. */
struct streams {
    int x1, x2;
};

static void run_layer(struct plan_builder *builder, const struct transformer_arguments *arguments, enum layer layer,
                      int64_t depth, const struct routed *routed, int64_t index, const char *prefix,
                      struct streams *streams)
{
    static const char *const sequential_names[] = {"layers", "0", "1"};
    static const char *const reversible_names[] = {"blocks", "f.net", "g.net"};
    const char *const *names = arguments->reversible ? reversible_names : sequential_names;
    char f[NAME_LENGTH - 32], g[NAME_LENGTH - 32];
    snprintf(f, sizeof f, "%slayers.%s.%lld.%s.", prefix, names[0], (long long)index, names[1]);
    snprintf(g, sizeof g, "%slayers.%s.%lld.%s.", prefix, names[0], (long long)index, names[2]);
    int y = attention_block(builder, arguments, layer, depth, routed, streams->x2, f);
    streams->x1 = plan_add(builder, streams->x1, y, 1.0f);
    if (!arguments->reversible)
        streams->x2 = streams->x1;
    y = feed_forward_block(builder, arguments, layer, depth, streams->x1, g);
    streams->x2 = plan_add(builder, streams->x2, y, 1.0f);
    if (!arguments->reversible)
        streams->x1 = streams->x2;
}

/* LinearAttentionTransformer.forward. If `reversible` is set, the result is the mean of the two streams. */
static int transformer(struct plan_builder *builder, const struct transformer_arguments *arguments,
                       const struct routed *routed, int x, const char *prefix)
{
    struct streams streams = {x, x};
    int64_t index = 0;
    for (int64_t i = 0; i < arguments->depth && !builder->failed; i++)
        for (int layer = 0; layer < LAYER_COUNT; layer++)
            if (has_layer(arguments, (enum layer)layer))
                run_layer(builder, arguments, (enum layer)layer, i, routed, index++, prefix, &streams);
    return arguments->reversible ? plan_add(builder, streams.x1, streams.x2, 0.5f) : streams.x1;
}

/* LinearAttentionTransformerLM.forward up to its output layer. */
static int language_model(struct plan_builder *builder, const struct transformer_arguments *arguments,
                          struct routed routed, int ids, const char *prefix)
{
    int64_t dim = arguments->dim, emb_dim = arguments->emb_dim;
    char inner[NAME_LENGTH / 2], norm[NAME_LENGTH / 2];
    int x =
        plan_embed(builder, ids, plan_matrix(builder, arguments->num_tokens, emb_dim, "%stoken_emb.weight", prefix));
    x = add_positions(builder, arguments, x, prefix);
    if (arguments->use_rotary_emb) /* Linformer layers do not use the table, but the file contains it */
        routed.rotary = plan_matrix(builder, arguments->max_seq_len, (arguments->dim_head + 1) / 2 * 2,
                                    "%slayer_pos_emb.emb", prefix);
    snprintf(inner, sizeof inner, "%stransformer.%s", prefix, emb_dim == dim ? "" : "fn.");
    if (emb_dim != dim)
        x = plan_linear(builder, x, plan_matrix(builder, dim, emb_dim, "%stransformer.project_in.weight", prefix),
                        plan_vector(builder, dim, "%stransformer.project_in.bias", prefix));
    x = transformer(builder, arguments, &routed, x, inner);
    if (emb_dim != dim)
        x = plan_linear(builder, x, plan_matrix(builder, emb_dim, dim, "%stransformer.project_out.weight", prefix),
                        plan_vector(builder, emb_dim, "%stransformer.project_out.bias", prefix));
    snprintf(norm, sizeof norm, "%snorm.", prefix);
    return lucidrains_layer_norm(builder, emb_dim, x, norm);
}

static void give(struct plan_builder *builder, const struct transformer_arguments *arguments, int hidden,
                 const char *prefix)
{
    builder->plan->causal = arguments->causal;
    builder->plan->window = arguments->max_seq_len; /* AutoregressiveWrapper reads only this many rows, even if there
                                                       are axial positions for more rows */
    if (arguments->return_embeddings)
        plan_give(builder, hidden, PLAN_NONE, PLAN_NONE, false);
    else
        plan_give(builder, hidden,
                  plan_matrix(builder, arguments->num_tokens, arguments->emb_dim, "%sout.weight", prefix),
                  plan_vector(builder, arguments->num_tokens, "%sout.bias", prefix), true);
}

/* ---- The classes ---- */

/* Declares the inputs after x, in the order of forward(). */
static struct routed more_inputs(struct plan_builder *builder, const struct transformer_arguments *arguments, int x)
{
    struct routed routed = {PLAN_NONE, PLAN_NONE, PLAN_NONE, PLAN_NONE};
    routed.input_mask = plan_input_mask(builder, "input_mask", x);
    if (!arguments->receives_context)
        return routed;
    int64_t most = arguments->context_linformer_settings ? arguments->context_seq_len : 0;
    routed.context = plan_input_rows(builder, "context", arguments->dim, most, PLAN_NONE);
    routed.context_mask = plan_input_mask(builder, "context_mask", routed.context);
    return routed;
}

static void build_transformer(struct plan_builder *builder, const char *name, const struct model_config *config)
{
    struct transformer_arguments arguments = {0};
    if (!read_arguments(builder, name, transformer_arguments, COUNT(transformer_arguments), config->kwargs, &arguments))
        return;
    choose_padding(builder, name, config, &arguments);
    int x = plan_input_rows(builder, "x", arguments.dim, max_length(builder, name, &arguments, false), PLAN_NONE);
    x = pad(builder, &arguments, x);
    struct routed routed = more_inputs(builder, &arguments, x);
    plan_give(builder, transformer(builder, &arguments, &routed, x, ""), PLAN_NONE, PLAN_NONE, false);
}

static void build_lm(struct plan_builder *builder, const char *name, const struct model_config *config)
{
    struct transformer_arguments arguments;
    if (!read_lm_arguments(builder, name, config->kwargs, &arguments))
        return;
    choose_padding(builder, name, config, &arguments);
    int x = plan_input_ids(builder, "x", arguments.num_tokens, max_length(builder, name, &arguments, true), PLAN_NONE);
    x = pad(builder, &arguments, x);
    struct routed routed = more_inputs(builder, &arguments, x);
    give(builder, &arguments, language_model(builder, &arguments, routed, x, ""), "");
}

/* EncoderDecoder is not a class of the library, but the pair of models in its README. The decoder reads the encoder's
 * result after Autopadder has removed its padding. The remaining rows are those of src. */
struct encoder_decoder {
    json_t *enc, *dec;
};

static const struct argument pair_arguments[] = {
    {"enc", ARGUMENT_OBJECT, true, 0, offsetof(struct encoder_decoder, enc)},
    {"dec", ARGUMENT_OBJECT, true, 0, offsetof(struct encoder_decoder, dec)},
};

static bool read_pair(struct plan_builder *builder, const char *name, const json_t *kwargs,
                      struct transformer_arguments *encoder, struct transformer_arguments *decoder)
{
    struct encoder_decoder pair;
    if (arguments_read(name, pair_arguments, COUNT(pair_arguments), kwargs, &pair, builder->error) != 0) {
        builder->failed = true;
        return false;
    }
    if (!pair.enc || !pair.dec) {
        plan_fail(builder, "%s: enc and dec: expected objects", name);
        return false;
    }
    if (!read_lm_arguments(builder, "enc", pair.enc, encoder) ||
        !read_lm_arguments(builder, "dec", pair.dec, decoder)) {
        error_prefix(builder->error, "%s", name);
        return false;
    }
    int64_t columns = encoder->return_embeddings ? encoder->emb_dim : encoder->num_tokens;
    if (encoder->receives_context)
        plan_fail(builder, "%s: enc has receives_context, but an encoder receives no context", name);
    if (decoder->receives_context && columns != decoder->dim)
        plan_fail(builder, "%s: the encoder returns %lld features%s; the decoder expects a context of dim %lld", name,
                  (long long)columns, encoder->return_embeddings ? "" : " (without return_embeddings, logits)",
                  (long long)decoder->dim);
    return !builder->failed;
}

/* The limit on the rows of src. It follows from the encoder, and from the decoder's attention to the encoder's
 * result. */
static int64_t max_source_length(struct plan_builder *builder, const char *name,
                                 const struct transformer_arguments *encoder,
                                 const struct transformer_arguments *decoder)
{
    int64_t most = max_length(builder, name, encoder, true);
    bool limited = decoder->receives_context && decoder->context_linformer_settings && decoder->depth > 0;
    return limited && decoder->context_seq_len < most ? decoder->context_seq_len : most;
}

static void build_pair(struct plan_builder *builder, const char *name, const struct model_config *config)
{
    struct transformer_arguments encoder, decoder;
    if (!read_pair(builder, name, config->kwargs, &encoder, &decoder))
        return;
    /* "slice" only if both models allow it. */
    choose_padding(builder, name, config, encoder.linformer_settings ? &decoder : &encoder);
    int src = plan_input_ids(builder, "src", encoder.num_tokens, max_source_length(builder, name, &encoder, &decoder),
                             PLAN_NONE);
    int tgt = plan_input_ids(builder, "tgt", decoder.num_tokens, max_length(builder, name, &decoder, true), PLAN_NONE);
    src = pad(builder, &encoder, src);
    tgt = pad(builder, &decoder, tgt);
    struct routed encoded = {PLAN_NONE, PLAN_NONE, PLAN_NONE, PLAN_NONE}, decoded = encoded;
    encoded.input_mask = plan_input_mask(builder, "src_mask", src);
    decoded.input_mask = plan_input_mask(builder, "tgt_mask", tgt);

    int context = language_model(builder, &encoder, encoded, src, "enc.");
    if (!encoder.return_embeddings)
        context =
            plan_linear(builder, context, plan_matrix(builder, encoder.num_tokens, encoder.emb_dim, "enc.out.weight"),
                        plan_vector(builder, encoder.num_tokens, "enc.out.bias"));
    decoded.context = plan_cut_padding(builder, context);
    decoded.context_mask = plan_cut_padding(builder, encoded.input_mask);
    give(builder, &decoder, language_model(builder, &decoder, decoded, tgt, "dec."), "dec.");
}

static const struct family_class classes[] = {
    {"linear_attention_transformer.LinearAttentionTransformerLM",
     "linear_attention_transformer.linear_attention_transformer.LinearAttentionTransformerLM", build_lm},
    {"linear_attention_transformer.LinearAttentionTransformer",
     "linear_attention_transformer.linear_attention_transformer.LinearAttentionTransformer", build_transformer},
    {"linear_attention_transformer.EncoderDecoder", "linear_attention_transformer.EncoderDecoder", build_pair},
    {"linear_attention_transformer.ImageLinearAttention", "linear_attention_transformer.images.ImageLinearAttention",
     image_linear_attention_build},
};

const struct family family_linear_attention_transformer = {"linear_attention_transformer", classes, COUNT(classes)};
