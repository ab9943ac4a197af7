/* tatp22's `linformer-pytorch` (linformer_pytorch/linformer_pytorch.py). Post-norm. E and F are nn.Linear over the
 * sequence, with a bias, or nn.Conv1d, or plain matrices. E and F may be shared. "none" shares nothing. "headwise"
 * shares them between the heads. "kv" also uses one matrix as both E and F. "layerwise" also shares this matrix between
 * the layers, so it ignores k_reduce_by_layer. */
#include "engine/families/family.h"

#include <jansson.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LAYER_NORM_EPSILON 1e-5f
#define PREFIX_LENGTH 128

enum sharing { SHARING_NONE, SHARING_HEADWISE, SHARING_KV, SHARING_LAYERWISE, SHARING_COUNT };
static const char *const sharing_names[] = {"none", "headwise", "kv", "layerwise", NULL};

enum method { METHOD_LEARNABLE, METHOD_CONVOLUTION, METHOD_NO_PARAMS, METHOD_COUNT };
static const char *const method_names[] = {"learnable", "convolution", "no_params", NULL};

static const char *const activation_names[] = {"gelu", "relu", NULL};
static const enum activation activations[] = {ACTIVATION_GELU, ACTIVATION_RELU};

static const char *const checkpoint_names[] = {"C0", "C1", "C2", NULL};

/* The arguments of Linformer and LinformerLM. MHAttention uses some of them. `dim` is the width of a head in
 * MHAttention. */
struct linformer_pytorch_arguments {
    int64_t num_tokens, input_size, channels, dim_k, dim_ff, dim_d, nhead, depth, k_reduce_by_layer;
    int64_t w_o_intermediate_dim, ff_intermediate, emb_dim, dim;
    bool full_attention, include_ff, decoder_mode, causal, return_emb;
    json_t *activation_name, *sharing_name, *method_name, *checkpoint_name, *causal_mask;

    enum sharing sharing;
    enum method method;
    enum activation activation;
    int checkpoint_level; /* above 0, Linformer has only its first input. At 2, MHAttention reads only its first
                             input */
};

#define FIELD(field) offsetof(struct linformer_pytorch_arguments, field)
#define COUNT(table) (sizeof(table) / sizeof *(table))

/* The arguments of each LinformerLM, including the two in a LinformerEncDec. */
#define LAYER_ARGUMENTS                                                                                               \
    {"input_size", ARGUMENT_SIZE, true, 0, FIELD(input_size)}, {"channels", ARGUMENT_SIZE, true, 0, FIELD(channels)}, \
        {"dim_d", ARGUMENT_OPTIONAL_SIZE, false, 0, FIELD(dim_d)}, {"dropout_ff", ARGUMENT_DROPOUT, false, 0, 0},     \
        {"nhead", ARGUMENT_SIZE, false, 4, FIELD(nhead)}, {"dropout", ARGUMENT_DROPOUT, false, 0, 0},                 \
        {"parameter_sharing", ARGUMENT_JSON, false, 0, FIELD(sharing_name)},                                          \
        {"k_reduce_by_layer", ARGUMENT_INTEGER, false, 0, FIELD(k_reduce_by_layer)},                                  \
        {"full_attention", ARGUMENT_BOOL, false, 0, FIELD(full_attention)},                                           \
        {"include_ff", ARGUMENT_BOOL, false, 1, FIELD(include_ff)},                                                   \
        {"w_o_intermediate_dim", ARGUMENT_OPTIONAL_SIZE, false, 0, FIELD(w_o_intermediate_dim)},                      \
        {"method", ARGUMENT_JSON, false, 0, FIELD(method_name)},                                                      \
    {                                                                                                                 \
        "ff_intermediate", ARGUMENT_OPTIONAL_SIZE, false, 0, FIELD(ff_intermediate)                                   \
    }
#define BOTH_ARGUMENTS                                                      \
    {"activation", ARGUMENT_JSON, false, 0, FIELD(activation_name)},        \
    {                                                                       \
        "checkpoint_level", ARGUMENT_JSON, false, 0, FIELD(checkpoint_name) \
    }
#define MODE_ARGUMENTS                                              \
    {"decoder_mode", ARGUMENT_BOOL, false, 0, FIELD(decoder_mode)}, \
    {                                                               \
        "causal", ARGUMENT_BOOL, false, 0, FIELD(causal)            \
    }
#define LM_ARGUMENTS                                                                                              \
    {"num_tokens", ARGUMENT_SIZE, true, 0, FIELD(num_tokens)}, {"dim_k", ARGUMENT_SIZE, false, 64, FIELD(dim_k)}, \
        {"dim_ff", ARGUMENT_SIZE, false, 1024, FIELD(dim_ff)}, {"depth", ARGUMENT_COUNT, false, 2, FIELD(depth)}, \
    {                                                                                                             \
        "emb_dim", ARGUMENT_OPTIONAL_SIZE, false, 0, FIELD(emb_dim)                                               \
    }

static const struct argument linformer_arguments[] = {
    LAYER_ARGUMENTS,
    BOTH_ARGUMENTS,
    MODE_ARGUMENTS,
    {"dim_k", ARGUMENT_SIZE, true, 0, FIELD(dim_k)},
    {"dim_ff", ARGUMENT_SIZE, false, 256, FIELD(dim_ff)},
    {"depth", ARGUMENT_COUNT, false, 1, FIELD(depth)},
};
static const struct argument lm_arguments[] = {
    LAYER_ARGUMENTS,
    BOTH_ARGUMENTS,
    MODE_ARGUMENTS,
    LM_ARGUMENTS,
    {"dropout_tokens", ARGUMENT_DROPOUT, false, 0, 0},
    {"return_emb", ARGUMENT_BOOL, false, 0, FIELD(return_emb)},
};
/* The arguments of LinformerEncDec: those of each side, which have a prefix, and those of both sides. */
static const struct argument side_arguments[] = {LAYER_ARGUMENTS, LM_ARGUMENTS};
static const struct argument both_arguments[] = {BOTH_ARGUMENTS};
/* The arguments E_proj and F_proj are modules. Their tensors are in the state_dict. */
static const struct argument attention_arguments[] = {
    {"input_size", ARGUMENT_SIZE, true, 0, FIELD(input_size)},
    {"dim", ARGUMENT_SIZE, true, 0, FIELD(dim)},
    {"channels", ARGUMENT_SIZE, true, 0, FIELD(channels)},
    {"dim_k", ARGUMENT_SIZE, true, 0, FIELD(dim_k)},
    {"nhead", ARGUMENT_SIZE, true, 0, FIELD(nhead)},
    {"dropout", ARGUMENT_DROPOUT, false, 0, 0},
    {"checkpoint_level", ARGUMENT_JSON, true, 0, FIELD(checkpoint_name)},
    {"parameter_sharing", ARGUMENT_JSON, true, 0, FIELD(sharing_name)},
    {"full_attention", ARGUMENT_BOOL, true, 0, FIELD(full_attention)},
    {"causal_mask", ARGUMENT_JSON, false, 0, FIELD(causal_mask)},
    {"w_o_intermediate_dim", ARGUMENT_OPTIONAL_SIZE, false, 0, FIELD(w_o_intermediate_dim)},
    {"decoder_mode", ARGUMENT_BOOL, false, 0, FIELD(decoder_mode)},
    {"method", ARGUMENT_JSON, false, 0, FIELD(method_name)},
};

/* Returns the index of a string argument in a list of names. Returns the fallback if the argument is absent. */
static int read_name(struct plan_builder *builder, const char *class_name, const char *argument, const json_t *value,
                     const char *const *names, int fallback)
{
    if (!value)
        return fallback;
    char known[80] = "";
    for (int i = 0; names[i]; i++) {
        if (json_is_string(value) && strcmp(json_string_value(value), names[i]) == 0)
            return i;
        size_t length = strlen(known);
        snprintf(known + length, sizeof known - length, "%s\"%s\"", i ? ", " : "", names[i]);
    }
    plan_fail(builder, "%s: argument %s: expected one of %s", class_name, argument, known);
    return fallback;
}

static void read_names(struct plan_builder *builder, const char *name, struct linformer_pytorch_arguments *arguments)
{
    arguments->sharing = (enum sharing)read_name(builder, name, "parameter_sharing", arguments->sharing_name,
                                                 sharing_names, SHARING_LAYERWISE);
    arguments->method =
        (enum method)read_name(builder, name, "method", arguments->method_name, method_names, METHOD_LEARNABLE);
    arguments->activation =
        activations[read_name(builder, name, "activation", arguments->activation_name, activation_names, 0)];
    arguments->checkpoint_level =
        read_name(builder, name, "checkpoint_level", arguments->checkpoint_name, checkpoint_names, 0);
}

/* Checks what the class itself asserts, and refuses what it cannot run. */
static void refuse_combinations(struct plan_builder *builder, const char *name,
                                const struct linformer_pytorch_arguments *arguments)
{
    if (arguments->dim_d == 0 && arguments->channels % arguments->nhead != 0)
        plan_fail(builder, "%s: channels %lld must be divisible by nhead %lld unless dim_d is set", name,
                  (long long)arguments->channels, (long long)arguments->nhead);
    if (arguments->ff_intermediate && arguments->sharing == SHARING_LAYERWISE)
        plan_fail(builder, "%s: parameter_sharing must not be \"layerwise\" with ff_intermediate", name);
    if (arguments->ff_intermediate && arguments->decoder_mode)
        plan_fail(builder, "%s: ff_intermediate cannot be used with decoder_mode", name);
    if (arguments->ff_intermediate && arguments->ff_intermediate != arguments->channels && !arguments->include_ff &&
        arguments->depth > 1)
        plan_fail(builder, "%s: ff_intermediate needs include_ff: only feed-forward layers change the width", name);
    if (arguments->checkpoint_level > 0 && arguments->decoder_mode)
        plan_fail(builder, "%s: decoder_mode needs embeddings, which only checkpoint_level \"C0\" accepts", name);
}

static bool read_arguments(struct plan_builder *builder, const char *name, const struct argument *table, size_t count,
                           const struct model_config *config, struct linformer_pytorch_arguments *arguments)
{
    memset(arguments, 0, sizeof *arguments);
    if (arguments_read(name, table, count, config->kwargs, arguments, builder->error) != 0) {
        builder->failed = true;
        return false;
    }
    read_names(builder, name, arguments);
    return !builder->failed;
}

/* ---- E and F ---- */

/* The number k of projected rows of layer `layer`. As in get_attn it is max(1, dim_k - index * k_reduce_by_layer). With
 * "layerwise" it is dim_k, because all layers use the E of Linformer. */
static int64_t layer_dim_k(const struct linformer_pytorch_arguments *arguments, int64_t layer)
{
    if (arguments->sharing == SHARING_LAYERWISE)
        return arguments->dim_k;
    int64_t k = arguments->dim_k - layer * arguments->k_reduce_by_layer;
    return k < 1 ? 1 : k;
}

/* One matrix of a head, "E" or "F": its weight, and its bias or PLAN_NONE. */
struct head_matrix {
    int weight, bias;
};

static struct head_matrix take_matrix(struct plan_builder *builder, const struct linformer_pytorch_arguments *arguments,
                                      int64_t dim_k, const char *prefix, int64_t head, const char *which)
{
    long long h = (long long)head;
    int64_t stride = arguments->input_size / dim_k, d = arguments->dim;
    struct head_matrix matrix = {.weight = PLAN_NONE, .bias = PLAN_NONE};
    switch (arguments->method) {
    case METHOD_LEARNABLE:
        matrix.weight = plan_matrix(builder, dim_k, arguments->input_size, "%sheads.%lld.%s.weight", prefix, h, which);
        matrix.bias = plan_vector(builder, dim_k, "%sheads.%lld.%s.bias", prefix, h, which);
        break;
    case METHOD_CONVOLUTION:
        matrix.weight = plan_tensor(builder, 3, (int64_t[]){d, d, stride}, "%sheads.%lld.%s.weight", prefix, h, which);
        matrix.bias = plan_vector(builder, d, "%sheads.%lld.%s.bias", prefix, h, which);
        break;
    case METHOD_NO_PARAMS:
    case METHOD_COUNT:
        matrix.weight = plan_matrix(builder, arguments->input_size, dim_k, "%sheads.%lld.%s", prefix, h, which);
        break;
    }
    return matrix;
}

/* Declares the other names under which the class stores the same matrix. */
static void take_shared(struct plan_builder *builder, const struct linformer_pytorch_arguments *arguments,
                        struct head_matrix matrix, const char *prefix, int64_t head, const char *which)
{
    long long h = (long long)head;
    if (arguments->method == METHOD_NO_PARAMS) {
        plan_share_weight(builder, matrix.weight, "%sheads.%lld.%s", prefix, h, which);
        return;
    }
    plan_share_weight(builder, matrix.weight, "%sheads.%lld.%s.weight", prefix, h, which);
    plan_share_weight(builder, matrix.bias, "%sheads.%lld.%s.bias", prefix, h, which);
}

/* Stacks the matrices of the heads by rows. */
static struct head_matrix stack_heads(struct plan_builder *builder, const struct linformer_pytorch_arguments *arguments,
                                      int64_t dim_k, const char *prefix, const char *which)
{
    int64_t heads = arguments->nhead;
    struct head_matrix stacked = {.weight = PLAN_NONE, .bias = PLAN_NONE};
    int *weights = calloc((size_t)heads * 2, sizeof *weights), *biases = weights + heads;
    if (!weights) {
        plan_fail(builder, "out of memory for %lld heads", (long long)heads);
        return stacked;
    }
    for (int64_t h = 0; h < heads && !builder->failed; h++) {
        struct head_matrix matrix = take_matrix(builder, arguments, dim_k, prefix, h, which);
        weights[h] = matrix.weight;
        biases[h] = matrix.bias;
    }
    stacked.weight = plan_stack_weights(builder, weights, heads);
    if (arguments->method != METHOD_NO_PARAMS)
        stacked.bias = plan_stack_weights(builder, biases, heads);
    free(weights);
    return stacked;
}

/* Sets *e and *f to E and F of an attention. They are the same matrix, except with SHARING_NONE and SHARING_HEADWISE.
 */
static void take_projections(struct plan_builder *builder, const struct linformer_pytorch_arguments *arguments,
                             int64_t dim_k, const char *prefix, struct head_matrix *e, struct head_matrix *f)
{
    if (arguments->sharing == SHARING_NONE) {
        *e = stack_heads(builder, arguments, dim_k, prefix, "E");
        *f = stack_heads(builder, arguments, dim_k, prefix, "F");
        return;
    }
    bool same = arguments->sharing != SHARING_HEADWISE;
    *e = take_matrix(builder, arguments, dim_k, prefix, 0, "E");
    *f = same ? *e : take_matrix(builder, arguments, dim_k, prefix, 0, "F");
    for (int64_t h = 0; h < arguments->nhead && !builder->failed; h++) {
        take_shared(builder, arguments, *e, prefix, h, "E");
        take_shared(builder, arguments, *f, prefix, h, "F");
    }
}

static int project(struct plan_builder *builder, const struct linformer_pytorch_arguments *arguments, int x,
                   struct head_matrix matrix)
{
    int64_t heads = arguments->nhead;
    if (arguments->method == METHOD_CONVOLUTION)
        return plan_convolve_sequence(builder, x, matrix.weight, matrix.bias, heads,
                                      arguments->input_size / arguments->dim_k, arguments->input_size);
    return plan_project_sequence(builder, x,
                                 (struct plan_projection){
                                     .weight = matrix.weight,
                                     .bias = matrix.bias,
                                     .groups = arguments->sharing == SHARING_NONE ? heads : 1,
                                     .transposed = arguments->method == METHOD_LEARNABLE,
                                 });
}

/* ---- MHAttention.forward ---- */

struct masks {
    int input, embeddings; /* PLAN_NONE if the class has no such mask */
};

/* "to_q", "to_k" or "to_v": one nn.Linear per head, joined to one matrix. */
static int heads_linear(struct plan_builder *builder, const struct linformer_pytorch_arguments *arguments,
                        int64_t channels, int x, const char *prefix, const char *which)
{
    int *weights = calloc((size_t)arguments->nhead, sizeof *weights);
    if (!weights)
        return plan_fail(builder, "out of memory for %lld heads", (long long)arguments->nhead);
    for (int64_t h = 0; h < arguments->nhead && !builder->failed; h++)
        weights[h] = plan_matrix(builder, arguments->dim, channels, "%s%s.%lld.weight", prefix, which, (long long)h);
    int stacked = plan_stack_weights(builder, weights, arguments->nhead);
    free(weights);
    return plan_linear(builder, x, stacked, PLAN_NONE);
}

/* LinearAttentionHead.forward of all heads. dim_k is the layer's number of projected rows. `causal` tells whether the
 * layer has the causal mask. */
static int attention_heads(struct plan_builder *builder, const struct linformer_pytorch_arguments *arguments,
                           int64_t dim_k, int queries, int keys, int values, struct masks masks, bool causal,
                           const char *prefix)
{
    struct linformer_pytorch_arguments layer = *arguments;
    layer.dim_k = dim_k;
    struct head_matrix e, f;
    if (arguments->method == METHOD_CONVOLUTION && dim_k > arguments->input_size)
        return plan_fail(builder, "method \"convolution\": a layer has dim_k %lld%s; expected at most input_size %lld",
                         (long long)dim_k, dim_k != arguments->dim_k ? " after k_reduce_by_layer" : "",
                         (long long)arguments->input_size);
    take_projections(builder, &layer, dim_k, prefix, &e, &f);
    if (masks.input != PLAN_NONE) {
        keys = plan_mask_rows(builder, keys, masks.input);
        values = plan_mask_rows(builder, values, masks.input);
    }
    if (masks.embeddings != PLAN_NONE)
        queries = plan_mask_rows(builder, queries, masks.embeddings);
    if (!arguments->full_attention) {
        keys = project(builder, &layer, keys, e);
        values = project(builder, &layer, values, f);
    }
    int64_t stride = arguments->input_size / dim_k;
    int64_t k = arguments->method == METHOD_CONVOLUTION ? arguments->input_size / stride : dim_k;
    if (causal && !arguments->full_attention && k != arguments->dim_k)
        return plan_fail(builder, "causal: the class's mask has dim_k %lld columns, but a layer attends to %lld rows",
                         (long long)arguments->dim_k, (long long)k);
    bool padded_keys = arguments->full_attention && builder->padding == PADDING_MASKED;
    return plan_attend(builder, queries, keys, values,
                       (struct plan_attention){
                           .heads = arguments->nhead,
                           .kv_heads = arguments->nhead,
                           .scale = (float)(1.0 / sqrt((double)arguments->dim)),
                           .causal = causal,
                           .key_room = padded_keys ? arguments->input_size : 0,
                       });
}

/* `channels` is the width of x. */
static int attention(struct plan_builder *builder, const struct linformer_pytorch_arguments *arguments, int64_t dim_k,
                     int64_t channels, int x, int context, struct masks masks, bool causal, const char *prefix)
{
    int64_t inner = arguments->dim * arguments->nhead, between = arguments->w_o_intermediate_dim;
    int queries = heads_linear(builder, arguments, channels, x, prefix, "to_q");
    int keys = heads_linear(builder, arguments, channels, context, prefix, "to_k");
    int values = heads_linear(builder, arguments, channels, context, prefix, "to_v");
    int out = attention_heads(builder, arguments, dim_k, queries, keys, values, masks, causal, prefix);
    if (between == 0)
        return plan_linear(builder, out, plan_matrix(builder, channels, inner, "%sw_o.weight", prefix),
                           plan_vector(builder, channels, "%sw_o.bias", prefix));
    out = plan_linear(builder, out, plan_matrix(builder, between, inner, "%sw_o_1.weight", prefix),
                      plan_vector(builder, between, "%sw_o_1.bias", prefix));
    return plan_linear(builder, out, plan_matrix(builder, channels, between, "%sw_o_2.weight", prefix),
                       plan_vector(builder, channels, "%sw_o_2.bias", prefix));
}

/* ---- Linformer.forward ---- */

static int layer_norm(struct plan_builder *builder, int64_t channels, int x, const char *prefix)
{
    return plan_layer_norm(builder, x, plan_vector(builder, channels, "%snorm.weight", prefix),
                           plan_vector(builder, channels, "%snorm.bias", prefix), LAYER_NORM_EPSILON);
}

/* Residual(FeedForward): norm(resample(x) + w_2(act(w_1 x))), with resample only if the width changes. */
static int feed_forward(struct plan_builder *builder, const struct linformer_pytorch_arguments *arguments, int64_t in,
                        int64_t out, int x, const char *prefix)
{
    int y = plan_linear(builder, x, plan_matrix(builder, arguments->dim_ff, in, "%sfn.w_1.weight", prefix),
                        plan_vector(builder, arguments->dim_ff, "%sfn.w_1.bias", prefix));
    y = plan_activate(builder, y, arguments->activation);
    y = plan_linear(builder, y, plan_matrix(builder, out, arguments->dim_ff, "%sfn.w_2.weight", prefix),
                    plan_vector(builder, out, "%sfn.w_2.bias", prefix));
    if (in != out)
        x = plan_linear(builder, x, plan_matrix(builder, out, in, "%sresample.weight", prefix),
                        plan_vector(builder, out, "%sresample.bias", prefix));
    return layer_norm(builder, out, plan_add(builder, x, y, 1.0f), prefix);
}

/* Residual(MHAttention) */
static int attention_layer(struct plan_builder *builder, const struct linformer_pytorch_arguments *arguments,
                           int64_t dim_k, int64_t channels, int x, int context, struct masks masks, bool causal,
                           const char *prefix)
{
    char fn[PREFIX_LENGTH];
    snprintf(fn, sizeof fn, "%sfn.", prefix);
    int y = attention(builder, arguments, dim_k, channels, x, context, masks, causal, fn);
    return layer_norm(builder, channels, plan_add(builder, x, y, 1.0f), prefix);
}

/* Names the next entry of Linformer.seq. */
static const char *next_layer(char *buffer, const char *prefix, int64_t *position)
{
    snprintf(buffer, PREFIX_LENGTH, "%sseq.%lld.", prefix, (long long)*position);
    ++*position;
    return buffer;
}

/* In decoder_mode each layer also attends to `embeddings`, and only this attention has a causal mask. */
static int linformer(struct plan_builder *builder, const struct linformer_pytorch_arguments *arguments, int x,
                     int embeddings, struct masks masks, const char *prefix)
{
    char layer[PREFIX_LENGTH];
    int64_t position = 0, channels = arguments->channels;
    for (int64_t i = 0; i < arguments->depth && !builder->failed; i++) {
        int64_t dim_k = layer_dim_k(arguments, i);
        int64_t in = i > 0 && arguments->ff_intermediate ? arguments->ff_intermediate : channels;
        int64_t out = i < arguments->depth - 1 && arguments->ff_intermediate ? arguments->ff_intermediate : channels;
        x = attention_layer(builder, arguments, dim_k, in, x, x, masks, arguments->causal && !arguments->decoder_mode,
                            next_layer(layer, prefix, &position));
        if (arguments->include_ff)
            x = feed_forward(builder, arguments, in, out, x, next_layer(layer, prefix, &position));
        if (!arguments->decoder_mode)
            continue;
        x = attention_layer(builder, arguments, dim_k, channels, x, embeddings, masks, arguments->causal,
                            next_layer(layer, prefix, &position));
        if (arguments->include_ff)
            x = feed_forward(builder, arguments, channels, channels, x, next_layer(layer, prefix, &position));
    }
    return x;
}

/* ---- LinformerLM.forward, up to its output layer ---- */

static int positions(struct plan_builder *builder, const struct linformer_pytorch_arguments *arguments, int x,
                     const char *prefix)
{
    if (arguments->emb_dim % 2 != 0) {
        plan_fail(builder, "the embedding has %lld features; the class's sinusoids need an even number",
                  (long long)arguments->emb_dim);
        return PLAN_NONE;
    }
    return plan_add_sinusoids(builder, x, plan_vector(builder, arguments->emb_dim / 2, "%spos_emb.inv_freq", prefix));
}

static int language_model(struct plan_builder *builder, const struct linformer_pytorch_arguments *arguments, int ids,
                          int embeddings, struct masks masks, const char *prefix)
{
    char inner[PREFIX_LENGTH];
    int64_t channels = arguments->channels, emb_dim = arguments->emb_dim;
    int x =
        plan_embed(builder, ids, plan_matrix(builder, arguments->num_tokens, emb_dim, "%sto_token_emb.weight", prefix));
    x = positions(builder, arguments, x, prefix);
    snprintf(inner, sizeof inner, "%slinformer.%s", prefix, emb_dim == channels ? "" : "fn.");
    if (emb_dim == channels)
        return linformer(builder, arguments, x, embeddings, masks, inner);
    x = plan_linear(builder, x, plan_matrix(builder, channels, emb_dim, "%slinformer.project_in.weight", prefix),
                    plan_vector(builder, channels, "%slinformer.project_in.bias", prefix));
    x = linformer(builder, arguments, x, embeddings, masks, inner);
    return plan_linear(builder, x, plan_matrix(builder, emb_dim, channels, "%slinformer.project_out.weight", prefix),
                       plan_vector(builder, emb_dim, "%slinformer.project_out.bias", prefix));
}

static void give_logits(struct plan_builder *builder, const struct linformer_pytorch_arguments *arguments, int hidden,
                        const char *prefix)
{
    plan_give(builder, hidden,
              plan_matrix(builder, arguments->num_tokens, arguments->emb_dim, "%sto_logits.weight", prefix),
              plan_vector(builder, arguments->num_tokens, "%sto_logits.bias", prefix), true);
}

/* ---- The classes ---- */

static const enum padding all_paddings[] = {PADDING_ZERO, PADDING_MASKED, PADDING_EXACT, PADDING_DEFAULT};
static const enum padding exact_only[] = {PADDING_EXACT, PADDING_DEFAULT};
static const enum padding exact_or_zero[] = {PADDING_EXACT, PADDING_ZERO, PADDING_DEFAULT};

/* The common part of Linformer and LinformerLM before their layers. */
static bool prepare(struct plan_builder *builder, const char *name, const struct argument *table, size_t count,
                    const struct model_config *config, struct linformer_pytorch_arguments *arguments)
{
    if (!read_arguments(builder, name, table, count, config, arguments))
        return false;
    refuse_combinations(builder, name, arguments);
    plan_choose_padding(builder, name, config->padding, arguments->decoder_mode ? exact_or_zero : all_paddings);
    arguments->dim = arguments->dim_d ? arguments->dim_d : arguments->channels / arguments->nhead;
    if (arguments->emb_dim == 0)
        arguments->emb_dim = arguments->channels;
    return !builder->failed;
}

/* The rows to which decoder_mode attends. The class Padder pads only `tensor` to input_size rows. The class needs the
 * same number of rows in `tensor` and "embeddings". So with padding "zero", zeros are appended to "embeddings" up to
 * input_size rows. */
static int embeddings_input(struct plan_builder *builder, const struct linformer_pytorch_arguments *arguments,
                            int64_t channels, int tensor)
{
    if (builder->padding != PADDING_ZERO)
        return plan_input_rows_like(builder, "embeddings", channels, tensor, PLAN_NONE);
    int embeddings = plan_input_rows(builder, "embeddings", channels, arguments->input_size, PLAN_NONE);
    return plan_pad(builder, embeddings, arguments->input_size);
}

/* Declares the inputs after the first one, in the order of forward(). With checkpointing there are none. `tensor` is
 * the value of the first input. */
static struct masks mask_inputs(struct plan_builder *builder, const struct linformer_pytorch_arguments *arguments,
                                int64_t channels, int tensor, int *embeddings)
{
    struct masks masks = {PLAN_NONE, PLAN_NONE};
    *embeddings = PLAN_NONE;
    if (arguments->checkpoint_level > 0)
        return masks;
    masks.input = plan_input_mask(builder, "input_mask", tensor);
    if (arguments->decoder_mode)
        *embeddings = embeddings_input(builder, arguments, channels, tensor);
    masks.embeddings = plan_input_mask(builder, "embeddings_mask", tensor);
    return masks;
}

static int pad_to_size(struct plan_builder *builder, const struct linformer_pytorch_arguments *arguments, int tensor)
{
    return builder->padding == PADDING_ZERO ? plan_pad(builder, tensor, arguments->input_size) : tensor;
}

static void build_linformer(struct plan_builder *builder, const char *name, const struct model_config *config)
{
    struct linformer_pytorch_arguments arguments;
    int embeddings;
    if (!prepare(builder, name, linformer_arguments, COUNT(linformer_arguments), config, &arguments))
        return;
    int tensor = plan_input_rows(builder, "tensor", arguments.channels, arguments.input_size, PLAN_NONE);
    tensor = pad_to_size(builder, &arguments, tensor);
    struct masks masks = mask_inputs(builder, &arguments, arguments.channels, tensor, &embeddings);
    int x = linformer(builder, &arguments, tensor, embeddings, masks, "");
    plan_give(builder, x, PLAN_NONE, PLAN_NONE, false);
}

static void build_lm(struct plan_builder *builder, const char *name, const struct model_config *config)
{
    struct linformer_pytorch_arguments arguments;
    int embeddings;
    if (!prepare(builder, name, lm_arguments, COUNT(lm_arguments), config, &arguments))
        return;
    int tensor = plan_input_ids(builder, "tensor", arguments.num_tokens, arguments.input_size, PLAN_NONE);
    tensor = pad_to_size(builder, &arguments, tensor);
    struct masks masks = mask_inputs(builder, &arguments, arguments.channels, tensor, &embeddings);
    int x = language_model(builder, &arguments, tensor, embeddings, masks, "");
    builder->plan->causal = arguments.causal;
    if (arguments.return_emb)
        plan_give(builder, x, PLAN_NONE, PLAN_NONE, false);
    else
        give_logits(builder, &arguments, x, "");
}

/* The masks of MHAttention. At checkpoint_level C2 the class accepts masks, but ignores them. */
static struct masks attention_masks(struct plan_builder *builder, const struct linformer_pytorch_arguments *arguments,
                                    int tensor)
{
    struct masks masks = {PLAN_NONE, PLAN_NONE};
    if (arguments->checkpoint_level < 2) {
        masks.input = plan_input_mask(builder, "input_mask", tensor);
        masks.embeddings = plan_input_mask(builder, "embeddings_mask", tensor);
        return masks;
    }
    plan_input_beside(builder, (struct model_input){.name = "input_mask", .kind = INPUT_IGNORED}, tensor);
    plan_input_beside(builder, (struct model_input){.name = "embeddings_mask", .kind = INPUT_IGNORED}, tensor);
    return masks;
}

static void build_attention(struct plan_builder *builder, const char *name, const struct model_config *config)
{
    struct linformer_pytorch_arguments arguments;
    if (!read_arguments(builder, name, attention_arguments, COUNT(attention_arguments), config, &arguments))
        return;
    if (arguments.causal_mask && !json_is_boolean(arguments.causal_mask) && !json_is_null(arguments.causal_mask)) {
        plan_fail(builder, "%s: argument causal_mask: expected null or true", name);
        return;
    }
    plan_choose_padding(builder, name, config->padding, exact_only);
    if (arguments.sharing == SHARING_LAYERWISE) /* E_proj and F_proj are arguments, and may differ */
        arguments.sharing = SHARING_HEADWISE;
    int tensor = plan_input_rows(builder, "tensor", arguments.channels, arguments.input_size, PLAN_NONE);
    /* Without decoder_mode the input is checked, but not read. */
    int embeddings =
        plan_input_rows_like(builder, "embeddings", arguments.channels, tensor, arguments.decoder_mode ? PLAN_NONE : 0);
    struct masks masks = attention_masks(builder, &arguments, tensor);
    int x = attention(builder, &arguments, arguments.dim_k, arguments.channels, tensor,
                      arguments.decoder_mode ? embeddings : tensor, masks, json_is_true(arguments.causal_mask), "");
    plan_give(builder, x, PLAN_NONE, PLAN_NONE, false);
}

/* ---- LinformerEncDec: two LinformerLMs, whose arguments have prefixes ---- */

/* Returns the kwargs whose names begin with the prefix, with names without the prefix: "enc_dim_k" becomes "dim_k". For
 * the prefix "", returns the kwargs that belong to neither side. */
static json_t *side_kwargs(const json_t *kwargs, const char *prefix)
{
    json_t *side = json_object();
    const char *key;
    json_t *value;
    json_object_foreach ((json_t *)kwargs, key, value) {
        bool of_both = strncmp(key, "enc_", 4) != 0 && strncmp(key, "dec_", 4) != 0;
        if (*prefix ? strncmp(key, prefix, strlen(prefix)) == 0 : of_both)
            json_object_set(side, key + strlen(prefix), value);
    }
    return side;
}

static bool read_part(struct plan_builder *builder, const char *name, const struct argument *table, size_t count,
                      const json_t *kwargs, const char *prefix, struct linformer_pytorch_arguments *arguments)
{
    char side_name[96];
    json_t *side = side_kwargs(kwargs, prefix);
    snprintf(side_name, sizeof side_name, *prefix ? "%s: %s*" : "%s: arguments without enc_ or dec_", name, prefix);
    if (!side)
        plan_fail(builder, "%s: out of memory", name);
    else if (arguments_read(side_name, table, count, side, arguments, builder->error) != 0)
        builder->failed = true;
    json_decref(side); /* the config keeps the values */
    return !builder->failed;
}

/* Reads the arguments of one of the two LinformerLMs. Messages call these arguments "enc_*" or "dec_*". */
static bool read_side(struct plan_builder *builder, const char *name, const struct model_config *config,
                      const char *prefix, struct linformer_pytorch_arguments *arguments)
{
    char side_name[96];
    memset(arguments, 0, sizeof *arguments);
    snprintf(side_name, sizeof side_name, "%s: %s*", name, prefix);
    if (!read_part(builder, name, both_arguments, COUNT(both_arguments), config->kwargs, "", arguments) ||
        !read_part(builder, name, side_arguments, COUNT(side_arguments), config->kwargs, prefix, arguments))
        return false;
    read_names(builder, side_name, arguments);
    arguments->decoder_mode = arguments->causal = strcmp(prefix, "dec_") == 0;
    if (!builder->failed)
        refuse_combinations(builder, side_name, arguments);
    arguments->dim = arguments->dim_d ? arguments->dim_d : arguments->channels / arguments->nhead;
    if (arguments->emb_dim == 0)
        arguments->emb_dim = arguments->channels;
    return !builder->failed;
}

static void build_encoder_decoder(struct plan_builder *builder, const char *name, const struct model_config *config)
{
    struct linformer_pytorch_arguments encoder, decoder;
    if (!read_side(builder, name, config, "enc_", &encoder) || !read_side(builder, name, config, "dec_", &decoder))
        return;
    bool padded = plan_choose_padding(builder, name, config->padding, exact_or_zero) == PADDING_ZERO;
    if (encoder.input_size != decoder.input_size || encoder.emb_dim != decoder.channels) {
        plan_fail(builder,
                  "%s: the decoder expects embeddings of (%lld, %lld), but the encoder returns (%lld, %lld): their "
                  "input_size and width must be equal",
                  name, (long long)decoder.input_size, (long long)decoder.channels, (long long)encoder.input_size,
                  (long long)encoder.emb_dim);
        return;
    }
    struct masks none = {PLAN_NONE, PLAN_NONE}, masks = none;
    int x = plan_input_ids(builder, "x", encoder.num_tokens, encoder.input_size, PLAN_NONE);
    int y = plan_input_ids(builder, "y", decoder.num_tokens, decoder.input_size, 0);
    x = pad_to_size(builder, &encoder, x);
    y = pad_to_size(builder, &decoder, y);
    masks.input = plan_input_mask(builder, "input_mask", x);
    masks.embeddings = plan_input_mask(builder, "embeddings_mask", x);
    int embeddings = language_model(builder, &encoder, x, PLAN_NONE, masks, "encoder.");
    int hidden = language_model(builder, &decoder, y, embeddings, none, "decoder.");
    builder->plan->causal = padded; /* a sequence can grow only if it is padded */
    give_logits(builder, &decoder, hidden, "decoder.");
}

static const struct family_class classes[] = {
    {"linformer_pytorch.LinformerLM", "linformer_pytorch.linformer_pytorch.LinformerLM", build_lm},
    {"linformer_pytorch.Linformer", "linformer_pytorch.linformer_pytorch.Linformer", build_linformer},
    {"linformer_pytorch.MHAttention", "linformer_pytorch.linformer_pytorch.MHAttention", build_attention},
    {"linformer_pytorch.LinformerEncDec", "linformer_pytorch.linformer_pytorch.LinformerEncDec", build_encoder_decoder},
};

const struct family family_linformer_pytorch = {"linformer_pytorch", classes, COUNT(classes)};
