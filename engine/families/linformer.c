/* lucidrains' `linformer` 0.2.3 (linformer/linformer.py, linformer/reversible.py). Wang et al. 2020, equation 7: head =
 * softmax(Q (E K)ᵀ / sqrt(d)) F V. Here E and F are the parameters proj_k and proj_v of shape (seq_len, k). Only their
 * first n rows are used, if the item has n rows (padding "slice"). */
#include "engine/families/family.h"

#include <assert.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>

#define LAYER_NORM_EPSILON 1e-5f /* nn.LayerNorm's default */
#define FEED_FORWARD_MULTIPLE 4

struct linformer_arguments {
    int64_t num_tokens, depth;
    struct linformer_attention attention;
    bool reversible;
};

#define FIELD(field) offsetof(struct linformer_arguments, field)
#define ATTENTION_ARGUMENTS                                                        \
    {"dim", ARGUMENT_SIZE, true, 0, FIELD(attention.dim)},                         \
        {"seq_len", ARGUMENT_SIZE, true, 0, FIELD(attention.seq_len)},             \
        {"k", ARGUMENT_SIZE, false, 256, FIELD(attention.k)},                      \
        {"heads", ARGUMENT_SIZE, false, 8, FIELD(attention.heads)},                \
        {"dim_head", ARGUMENT_OPTIONAL_SIZE, false, 0, FIELD(attention.dim_head)}, \
        {"one_kv_head", ARGUMENT_BOOL, false, 0, FIELD(attention.one_kv_head)},    \
        {"share_kv", ARGUMENT_BOOL, false, 0, FIELD(attention.share_kv)},          \
    {                                                                              \
        "dropout", ARGUMENT_DROPOUT, false, 0, 0                                   \
    }
#define STACK_ARGUMENTS                                          \
    {"depth", ARGUMENT_COUNT, true, 0, FIELD(depth)},            \
    {                                                            \
        "reversible", ARGUMENT_BOOL, false, 0, FIELD(reversible) \
    }

static const struct argument attention_arguments[] = {ATTENTION_ARGUMENTS};
static const struct argument linformer_arguments[] = {ATTENTION_ARGUMENTS, STACK_ARGUMENTS};
static const struct argument lm_arguments[] = {
    ATTENTION_ARGUMENTS, STACK_ARGUMENTS, {"num_tokens", ARGUMENT_SIZE, true, 0, FIELD(num_tokens)}};

#define COUNT(table) (sizeof(table) / sizeof *(table))

const enum padding lucidrains_paddings[] = {PADDING_SLICE, PADDING_EXACT, PADDING_DEFAULT};

static bool read_arguments(struct plan_builder *builder, const char *name, const struct argument *table, size_t count,
                           const struct model_config *config, struct linformer_arguments *arguments)
{
    plan_choose_padding(builder, name, config->padding, lucidrains_paddings);
    if (builder->failed)
        return false;
    *arguments = (struct linformer_arguments){.depth = 1}; /* LinformerSelfAttention has no such argument */
    if (arguments_read(name, table, count, config->kwargs, arguments, builder->error) != 0)
        builder->failed = true;
    else if (arguments->depth > 0 && arguments->attention.dim % arguments->attention.heads != 0)
        plan_fail(builder, "%s: dim %lld must be divisible by heads %lld", name, (long long)arguments->attention.dim,
                  (long long)arguments->attention.heads);
    return !builder->failed;
}

/* For a sequence of n rows, the library cuts E to its first n rows. This needs no step, because OP_PROJECT_SEQUENCE
 * reads only these rows. */
static int project(struct plan_builder *builder, int x, int weight)
{
    return plan_project_sequence(builder, x,
                                 (struct plan_projection){.weight = weight, .bias = PLAN_NONE, .groups = 1});
}

int linformer_self_attention(struct plan_builder *builder, const struct linformer_attention *attention, int x,
                             int context, const char *prefix)
{
    int64_t dim = attention->dim, heads = attention->heads;
    assert(dim % heads == 0);
    int64_t dim_head = attention->dim_head ? attention->dim_head : dim / heads;
    int64_t kv_heads = attention->one_kv_head ? 1 : heads;

    int queries =
        plan_linear(builder, x, plan_matrix(builder, dim_head * heads, dim, "%sto_q.weight", prefix), PLAN_NONE);
    int keys = plan_linear(builder, context, plan_matrix(builder, dim_head * kv_heads, dim, "%sto_k.weight", prefix),
                           PLAN_NONE);
    int projected_keys =
        project(builder, keys, plan_matrix(builder, attention->seq_len, attention->k, "%sproj_k", prefix));
    int projected_values = projected_keys;
    if (!attention->share_kv) {
        int values = plan_linear(builder, context,
                                 plan_matrix(builder, dim_head * kv_heads, dim, "%sto_v.weight", prefix), PLAN_NONE);
        projected_values =
            project(builder, values, plan_matrix(builder, attention->seq_len, attention->k, "%sproj_v", prefix));
    }

    float scale = (float)pow((double)dim_head, -0.5);
    struct plan_attention attend = {.heads = heads, .kv_heads = kv_heads, .scale = scale};
    int out = plan_attend(builder, queries, projected_keys, projected_values, attend);
    return plan_linear(builder, out, plan_matrix(builder, dim, dim_head * heads, "%sto_out.weight", prefix),
                       plan_vector(builder, dim, "%sto_out.bias", prefix));
}

int lucidrains_feed_forward(struct plan_builder *builder, int64_t dim, int x, const char *prefix)
{
    int64_t hidden = dim * FEED_FORWARD_MULTIPLE;
    x = plan_linear(builder, x, plan_matrix(builder, hidden, dim, "%sw1.weight", prefix),
                    plan_vector(builder, hidden, "%sw1.bias", prefix));
    x = plan_activate(builder, x, ACTIVATION_GELU);
    return plan_linear(builder, x, plan_matrix(builder, dim, hidden, "%sw2.weight", prefix),
                       plan_vector(builder, dim, "%sw2.bias", prefix));
}

int lucidrains_layer_norm(struct plan_builder *builder, int64_t dim, int x, const char *prefix)
{
    return plan_layer_norm(builder, x, plan_vector(builder, dim, "%sweight", prefix),
                           plan_vector(builder, dim, "%sbias", prefix), LAYER_NORM_EPSILON);
}

/* PreNorm(dim, attention) and PreNorm(dim, ff). `prefix` is the prefix of the PreNorm. */
static int attention_block(struct plan_builder *builder, const struct linformer_arguments *arguments, int x,
                           const char *prefix)
{
    char norm[128], fn[128];
    snprintf(norm, sizeof norm, "%snorm.", prefix);
    snprintf(fn, sizeof fn, "%sfn.", prefix);
    x = lucidrains_layer_norm(builder, arguments->attention.dim, x, norm);
    return linformer_self_attention(builder, &arguments->attention, x, x, fn);
}

static int feed_forward_block(struct plan_builder *builder, const struct linformer_arguments *arguments, int x,
                              const char *prefix)
{
    char norm[128], fn[128];
    snprintf(norm, sizeof norm, "%snorm.", prefix);
    snprintf(fn, sizeof fn, "%sfn.", prefix);
    x = lucidrains_layer_norm(builder, arguments->attention.dim, x, norm);
    return lucidrains_feed_forward(builder, arguments->attention.dim, x, fn);
}

/* SequentialSequence.forward */
static int sequential(struct plan_builder *builder, const struct linformer_arguments *arguments, int x,
                      const char *prefix)
{
    char f[96], g[96];
    for (int64_t i = 0; i < arguments->depth && !builder->failed; i++) {
        snprintf(f, sizeof f, "%slayers.%lld.0.", prefix, (long long)i);
        snprintf(g, sizeof g, "%slayers.%lld.1.", prefix, (long long)i);
        x = plan_add(builder, x, attention_block(builder, arguments, x, f), 1.0f);
        x = plan_add(builder, x, feed_forward_block(builder, arguments, x, g), 1.0f);
    }
    return x;
}

/* ReversibleSequence.forward: two streams that begin with the same x. This library returns their sum. */
static int reversible(struct plan_builder *builder, const struct linformer_arguments *arguments, int x,
                      const char *prefix)
{
    char f[96], g[96];
    int x1 = x, x2 = x;
    for (int64_t i = 0; i < arguments->depth && !builder->failed; i++) {
        snprintf(f, sizeof f, "%sblocks.%lld.f.net.", prefix, (long long)i);
        snprintf(g, sizeof g, "%sblocks.%lld.g.net.", prefix, (long long)i);
        x1 = plan_add(builder, x1, attention_block(builder, arguments, x2, f), 1.0f);
        x2 = plan_add(builder, x2, feed_forward_block(builder, arguments, x1, g), 1.0f);
    }
    return plan_add(builder, x1, x2, 1.0f);
}

static int stack(struct plan_builder *builder, const struct linformer_arguments *arguments, int x, const char *prefix)
{
    return arguments->reversible ? reversible(builder, arguments, x, prefix)
                                 : sequential(builder, arguments, x, prefix);
}

static void build_self_attention(struct plan_builder *builder, const char *name, const struct model_config *config)
{
    struct linformer_arguments arguments;
    if (!read_arguments(builder, name, attention_arguments, COUNT(attention_arguments), config, &arguments))
        return;
    int64_t dim = arguments.attention.dim;
    int x = plan_input_rows(builder, "x", dim, 0, PLAN_NONE);
    int context = plan_input_rows(builder, "context", dim, arguments.attention.seq_len, 0);
    int out = linformer_self_attention(builder, &arguments.attention, x, context, "");
    plan_give(builder, out, PLAN_NONE, PLAN_NONE, false);
}

static void build_linformer(struct plan_builder *builder, const char *name, const struct model_config *config)
{
    struct linformer_arguments arguments;
    if (!read_arguments(builder, name, linformer_arguments, COUNT(linformer_arguments), config, &arguments))
        return;
    int x = plan_input_rows(builder, "x", arguments.attention.dim, arguments.attention.seq_len, PLAN_NONE);
    x = stack(builder, &arguments, x, "net.");
    plan_give(builder, x, PLAN_NONE, PLAN_NONE, false);
}

static void build_lm(struct plan_builder *builder, const char *name, const struct model_config *config)
{
    struct linformer_arguments arguments;
    if (!read_arguments(builder, name, lm_arguments, COUNT(lm_arguments), config, &arguments))
        return;
    int64_t dim = arguments.attention.dim, seq_len = arguments.attention.seq_len;
    int ids = plan_input_ids(builder, "x", arguments.num_tokens, seq_len, PLAN_NONE);
    int x = plan_embed(builder, ids, plan_matrix(builder, arguments.num_tokens, dim, "token_emb.weight"));
    x = plan_add_positions(builder, x, plan_matrix(builder, seq_len, dim, "pos_emb.weight"), PLAN_NONE, 1);
    x = stack(builder, &arguments, x, "linformer.net.");
    plan_give(builder, x, plan_matrix(builder, arguments.num_tokens, dim, "to_logits.weight"),
              plan_vector(builder, arguments.num_tokens, "to_logits.bias"), true);
}

static const struct family_class classes[] = {
    {"linformer.LinformerLM", "linformer.linformer.LinformerLM", build_lm},
    {"linformer.Linformer", "linformer.linformer.Linformer", build_linformer},
    {"linformer.LinformerSelfAttention", "linformer.linformer.LinformerSelfAttention", build_self_attention},
};

const struct family family_linformer = {"linformer", classes, COUNT(classes)};
