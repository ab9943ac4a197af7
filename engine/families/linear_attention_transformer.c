/* lucidrains' `linear-attention-transformer` 0.19.1 (linear_attention_transformer/linear_attention_transformer.py,
 * reversible.py) where its layers are Linformer attention (linformer_settings). */
#include "engine/families/family.h"

#include <stddef.h>
#include <stdio.h>

struct arguments {
    int64_t num_tokens, dim, depth, max_seq_len, heads, dim_head, emb_dim, local_attn_window_size;
    bool causal, reversible, return_embeddings, receives_context, attend_axially;
    bool use_axial_pos_emb, use_rotary_emb, shift_tokens, ff_glu;
    json_t *linformer_settings, *context_linformer_settings, *n_local_attn_heads, *pkm_layers;
    int64_t k; /* of linformer_settings */
    int64_t context_seq_len, context_k;
};

#define FIELD(field) offsetof(struct arguments, field)
#define COUNT(table) (sizeof(table) / sizeof *(table))

static const struct argument lm_arguments[] = {
    {"num_tokens", ARGUMENT_SIZE, true, 0, FIELD(num_tokens)},
    {"dim", ARGUMENT_SIZE, true, 0, FIELD(dim)},
    {"depth", ARGUMENT_COUNT, true, 0, FIELD(depth)},
    {"max_seq_len", ARGUMENT_SIZE, true, 0, FIELD(max_seq_len)},
    {"heads", ARGUMENT_SIZE, false, 8, FIELD(heads)},
    {"dim_head", ARGUMENT_OPTIONAL_SIZE, false, 64, FIELD(dim_head)},
    {"causal", ARGUMENT_BOOL, false, 0, FIELD(causal)},
    {"emb_dim", ARGUMENT_OPTIONAL_SIZE, false, 0, FIELD(emb_dim)},
    {"reversible", ARGUMENT_BOOL, false, 0, FIELD(reversible)},
    {"ff_chunks", ARGUMENT_TRAINING, false, 0, 0},
    {"ff_glu", ARGUMENT_BOOL, false, 0, FIELD(ff_glu)},
    {"ff_dropout", ARGUMENT_TRAINING, false, 0, 0},
    {"attn_layer_dropout", ARGUMENT_TRAINING, false, 0, 0},
    {"attn_dropout", ARGUMENT_TRAINING, false, 0, 0},
    {"blindspot_size", ARGUMENT_TRAINING, false, 0, 0} /* of causal attention */,
    {"n_local_attn_heads", ARGUMENT_JSON, false, 0, FIELD(n_local_attn_heads)},
    {"local_attn_window_size", ARGUMENT_SIZE, false, 128, FIELD(local_attn_window_size)},
    {"return_embeddings", ARGUMENT_BOOL, false, 0, FIELD(return_embeddings)},
    {"receives_context", ARGUMENT_BOOL, false, 0, FIELD(receives_context)},
    {"pkm_layers", ARGUMENT_JSON, false, 0, FIELD(pkm_layers)},
    {"pkm_num_keys", ARGUMENT_TRAINING, false, 0, 0} /* the class ignores it */,
    {"attend_axially", ARGUMENT_BOOL, false, 0, FIELD(attend_axially)},
    {"linformer_settings", ARGUMENT_OBJECT, false, 0, FIELD(linformer_settings)},
    {"context_linformer_settings", ARGUMENT_OBJECT, false, 0, FIELD(context_linformer_settings)},
    {"use_axial_pos_emb", ARGUMENT_BOOL, false, 1, FIELD(use_axial_pos_emb)},
    {"use_rotary_emb", ARGUMENT_BOOL, false, 0, FIELD(use_rotary_emb)},
    {"shift_tokens", ARGUMENT_BOOL, false, 0, FIELD(shift_tokens)},
};

static const struct argument settings_arguments[] = {{"k", ARGUMENT_SIZE, true, 0, FIELD(k)}};
static const struct argument context_settings_arguments[] = {
    {"seq_len", ARGUMENT_SIZE, true, 0, FIELD(context_seq_len)},
    {"k", ARGUMENT_SIZE, true, 0, FIELD(context_k)},
};

/* An int for all layers, or a tuple with one for each. With linformer_settings no layer has local heads, but the class
 * checks the argument all the same. */
static void check_local_heads(struct plan_builder *builder, const char *name, const struct arguments *arguments)
{
    json_t *heads = arguments->n_local_attn_heads;
    if (!heads || (json_is_integer(heads) && json_integer_value(heads) == 0))
        return;
    if (!json_is_integer(heads) && !json_is_array(heads))
        plan_fail(builder, "%s: n_local_attn_heads: expected an integer or a list of them", name);
    if (json_is_array(heads) && (int64_t)json_array_size(heads) != arguments->depth)
        plan_fail(builder, "%s: n_local_attn_heads has %zu entries; expected depth %lld", name, json_array_size(heads),
                  (long long)arguments->depth);
    for (size_t i = 0; i < (json_is_array(heads) ? json_array_size(heads) : 1); i++) {
        json_t *layer = json_is_array(heads) ? json_array_get(heads, i) : heads;
        if (!json_is_integer(layer) || json_integer_value(layer) < 0 || json_integer_value(layer) > arguments->heads)
            plan_fail(builder, "%s: n_local_attn_heads: expected integers from 0 to heads %lld", name,
                      (long long)arguments->heads);
    }
    if (arguments->max_seq_len % arguments->local_attn_window_size != 0)
        plan_fail(builder, "%s: max_seq_len %lld must be divisible by local_attn_window_size %lld", name,
                  (long long)arguments->max_seq_len, (long long)arguments->local_attn_window_size);
}

/* A layer number or a tuple of them, from 1; those beyond depth change nothing. */
static void check_memory_layers(struct plan_builder *builder, const char *name, const struct arguments *arguments)
{
    json_t *layers = arguments->pkm_layers;
    if (layers && !json_is_integer(layers) && !json_is_array(layers))
        plan_fail(builder, "%s: pkm_layers: expected an integer or a list of them", name);
    for (size_t i = 0; i < (json_is_array(layers) ? json_array_size(layers) : layers != NULL); i++) {
        json_t *layer = json_is_array(layers) ? json_array_get(layers, i) : layers;
        if (!json_is_integer(layer))
            plan_fail(builder, "%s: pkm_layers: expected integers", name);
        else if (json_integer_value(layer) >= 1 && json_integer_value(layer) <= arguments->depth)
            plan_fail(builder, "%s: pkm_layers: product-key memory layers are not served", name);
    }
}

/* The library's own assertions, and what it would need beyond Linformer attention. */
static bool refuse_combinations(struct plan_builder *builder, const char *name, const struct arguments *arguments)
{
    if (!arguments->linformer_settings)
        plan_fail(builder, "%s: linformer_settings is not given; only layers with LinformerSettings are served", name);
    if (arguments->causal)
        plan_fail(builder,
                  "%s: causal with linformer_settings: Linformer self attention is for non-causal networks only", name);
    if (arguments->receives_context || arguments->attend_axially)
        plan_fail(builder, "%s: %s is not served", name,
                  arguments->receives_context ? "receives_context" : "attend_axially");
    if (arguments->use_rotary_emb && arguments->dim_head == 0)
        plan_fail(builder, "%s: use_rotary_emb needs dim_head", name);
    check_local_heads(builder, name, arguments);
    check_memory_layers(builder, name, arguments);
    return !builder->failed;
}

static bool read_arguments(struct plan_builder *builder, const char *name, const struct model_config *config,
                           struct arguments *arguments)
{
    if (arguments_read(name, lm_arguments, COUNT(lm_arguments), config->kwargs, arguments, builder->error) != 0) {
        builder->failed = true;
        return false;
    }
    if (!refuse_combinations(builder, name, arguments))
        return false;
    if (arguments_read("LinformerSettings", settings_arguments, COUNT(settings_arguments),
                       arguments->linformer_settings, arguments, builder->error) != 0 ||
        (arguments->context_linformer_settings &&
         arguments_read("LinformerContextSettings", context_settings_arguments, COUNT(context_settings_arguments),
                        arguments->context_linformer_settings, arguments, builder->error) != 0)) {
        builder->failed = true;
        return false;
    }
    if (arguments->emb_dim == 0)
        arguments->emb_dim = arguments->dim;
    return true;
}

/* x + pos_emb(x): absolute, the sinusoids that the checkpoint holds, or axial (row + column of a grid of width w). */
static int add_positions(struct plan_builder *builder, const struct arguments *arguments, int x)
{
    int64_t length = arguments->max_seq_len, emb_dim = arguments->emb_dim, width = arguments->local_attn_window_size;
    if (arguments->use_rotary_emb) {
        plan_matrix(builder, length, (arguments->dim_head + 1) / 2 * 2,
                    "layer_pos_emb.emb"); /* Linformer layers don't rotate */
        return plan_add_positions(builder, x, plan_matrix(builder, length, emb_dim, "pos_emb.emb"), PLAN_NONE, 1);
    }
    if (!arguments->use_axial_pos_emb)
        return plan_add_positions(builder, x, plan_matrix(builder, length, emb_dim, "pos_emb.emb.weight"), PLAN_NONE,
                                  1);
    int rows = plan_tensor(builder, 4, (int64_t[]){1, (length + width - 1) / width, 1, emb_dim}, "pos_emb.weights.0");
    int columns = plan_tensor(builder, 4, (int64_t[]){1, 1, width, emb_dim}, "pos_emb.weights.1");
    return plan_add_positions(builder, x, rows, columns, width);
}

/* PreNorm's layer norm, then PreShiftTokens when asked for; `fn` receives the prefix of what stands inside. */
static int pre_norm(struct plan_builder *builder, const struct arguments *arguments, int x, const char *prefix,
                    char *fn, size_t fn_size)
{
    static const int64_t shifts[] = {1, 0, -1};
    char norm[128];
    snprintf(norm, sizeof norm, "%snorm.", prefix);
    snprintf(fn, fn_size, "%sfn.%s", prefix, arguments->shift_tokens ? "fn." : "");
    x = lucidrains_layer_norm(builder, arguments->dim, x, norm);
    return arguments->shift_tokens ? plan_shift_tokens(builder, x, 3, shifts) : x;
}

static int attention_block(struct plan_builder *builder, const struct arguments *arguments, int x, const char *prefix)
{
    struct linformer_attention attention = {
        .dim = arguments->dim,
        .seq_len = arguments->max_seq_len,
        .k = arguments->k,
        .heads = arguments->heads,
        .dim_head = arguments->dim_head,
    };
    char fn[128];
    x = pre_norm(builder, arguments, x, prefix, fn, sizeof fn);
    return linformer_self_attention(builder, &attention, x, x, fn);
}

/* The first feed-forward of a layer has no GLU whatever ff_glu says; Chunk adds one more "fn." to the names. */
static int feed_forward_block(struct plan_builder *builder, const struct arguments *arguments, int x,
                              const char *prefix)
{
    char fn[128], chunk[136];
    x = pre_norm(builder, arguments, x, prefix, fn, sizeof fn);
    snprintf(chunk, sizeof chunk, "%sfn.", fn);
    return lucidrains_feed_forward(builder, arguments->dim, x, chunk);
}

/* SequentialSequence.forward, or ReversibleSequence.forward, which gives the mean of its two streams. */
static int layers(struct plan_builder *builder, const struct arguments *arguments, int x, const char *prefix)
{
    static const char *const sequential_names[] = {"layers", "0", "1"};
    static const char *const reversible_names[] = {"blocks", "f.net", "g.net"};
    const char *const *names = arguments->reversible ? reversible_names : sequential_names;
    char f[96], g[96];
    int x1 = x, x2 = x;
    for (int64_t i = 0; i < arguments->depth && !builder->failed; i++) {
        snprintf(f, sizeof f, "%slayers.%s.%lld.%s.", prefix, names[0], (long long)i, names[1]);
        snprintf(g, sizeof g, "%slayers.%s.%lld.%s.", prefix, names[0], (long long)i, names[2]);
        x1 = plan_add(builder, x1, attention_block(builder, arguments, x2, f), 1.0f);
        if (!arguments->reversible)
            x2 = x1;
        x2 = plan_add(builder, x2, feed_forward_block(builder, arguments, x1, g), 1.0f);
        if (!arguments->reversible)
            x1 = x2;
    }
    return arguments->reversible ? plan_add(builder, x1, x2, 0.5f) : x1;
}

/* LinearAttentionTransformer, between project_in and project_out where emb_dim differs from dim. */
static int transformer(struct plan_builder *builder, const struct arguments *arguments, int x)
{
    int64_t dim = arguments->dim, emb_dim = arguments->emb_dim;
    if (emb_dim == dim)
        return layers(builder, arguments, x, "transformer.");
    x = plan_linear(builder, x, plan_matrix(builder, dim, emb_dim, "transformer.project_in.weight"),
                    plan_vector(builder, dim, "transformer.project_in.bias"));
    x = layers(builder, arguments, x, "transformer.fn.");
    return plan_linear(builder, x, plan_matrix(builder, emb_dim, dim, "transformer.project_out.weight"),
                       plan_vector(builder, emb_dim, "transformer.project_out.bias"));
}

static void build_lm(struct plan_builder *builder, const char *name, const struct model_config *config)
{
    struct arguments arguments;
    plan_choose_padding(builder, name, config->padding, lucidrains_paddings);
    if (builder->failed || !read_arguments(builder, name, config, &arguments))
        return;
    if (arguments.return_embeddings && arguments.emb_dim != arguments.dim) {
        plan_fail(builder,
                  "%s: return_embeddings with emb_dim %lld other than dim %lld: the class's last norm does not fit",
                  name, (long long)arguments.emb_dim, (long long)arguments.dim);
        return;
    }
    int ids = plan_input_ids(builder, "x", arguments.num_tokens, arguments.max_seq_len, PLAN_NONE);
    int table = plan_matrix(builder, arguments.num_tokens, arguments.emb_dim, "token_emb.weight");
    int x = add_positions(builder, &arguments, plan_embed(builder, ids, table));
    x = transformer(builder, &arguments, x);
    x = lucidrains_layer_norm(builder, arguments.emb_dim, x, "norm.");
    if (arguments.return_embeddings)
        plan_give(builder, x, PLAN_NONE, PLAN_NONE, false);
    else
        plan_give(builder, x, plan_matrix(builder, arguments.num_tokens, arguments.emb_dim, "out.weight"),
                  plan_vector(builder, arguments.num_tokens, "out.bias"), true);
}

static const struct family_class classes[] = {
    {"linear_attention_transformer.LinearAttentionTransformerLM",
     "linear_attention_transformer.linear_attention_transformer.LinearAttentionTransformerLM", build_lm},
};

const struct family family_linear_attention_transformer = {"linear_attention_transformer", classes, COUNT(classes)};
