/* kuixu's LinearMultiheadAttention (linear_multihead_attention.py). Inputs are (length, batch, features). E and F
 * project the positions of keys and values. The results K', V' are (batch, embed_dim, k). The class reads their
 * elements as (k, batch * heads, head_dim) without a transpose. This mixes features, heads and the sequences of one
 * call, so a whole call must be one item. */
#include "engine/families/family.h"

#include <jansson.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

struct multihead_arguments {
    int64_t embed_dim, num_heads, kdim, vdim, seq_len, proj_k;
    bool bias, add_bias_kv, add_zero_attn;
    json_t *param_sharing;
};

#define FIELD(field) offsetof(struct multihead_arguments, field)
#define COUNT(table) (sizeof(table) / sizeof *(table))

static const struct argument class_arguments[] = {
    {"embed_dim", ARGUMENT_SIZE, true, 0, FIELD(embed_dim)},
    {"num_heads", ARGUMENT_SIZE, true, 0, FIELD(num_heads)},
    {"dropout", ARGUMENT_DROPOUT, false, 0, 0},
    {"bias", ARGUMENT_BOOL, false, 1, FIELD(bias)},
    {"add_bias_kv", ARGUMENT_BOOL, false, 0, FIELD(add_bias_kv)},
    {"add_zero_attn", ARGUMENT_BOOL, false, 0, FIELD(add_zero_attn)},
    {"kdim", ARGUMENT_OPTIONAL_SIZE, false, 0, FIELD(kdim)},
    {"vdim", ARGUMENT_OPTIONAL_SIZE, false, 0, FIELD(vdim)},
    {"seq_len", ARGUMENT_SIZE, false, 512, FIELD(seq_len)},
    {"proj_k", ARGUMENT_SIZE, false, 128, FIELD(proj_k)},
    {"param_sharing", ARGUMENT_JSON, false, 0, FIELD(param_sharing)},
};

static const enum padding exact_only[] = {PADDING_EXACT, PADDING_DEFAULT};

static bool read_arguments(struct plan_builder *builder, const char *name, const struct model_config *config,
                           struct multihead_arguments *arguments)
{
    plan_choose_padding(builder, name, config->padding, exact_only);
    if (builder->failed)
        return false;
    if (arguments_read(name, class_arguments, COUNT(class_arguments), config->kwargs, arguments, builder->error) != 0) {
        builder->failed = true;
        return false;
    }
    if (arguments->embed_dim % arguments->num_heads != 0)
        plan_fail(builder, "%s: embed_dim %lld must be divisible by num_heads %lld", name,
                  (long long)arguments->embed_dim, (long long)arguments->num_heads);
    if (arguments->add_bias_kv && arguments->seq_len == 1)
        plan_fail(builder, "%s: add_bias_kv uses seq_len - 1 keys, so seq_len must be at least 2", name);
    if (arguments->kdim == 0)
        arguments->kdim = arguments->embed_dim;
    if (arguments->vdim == 0)
        arguments->vdim = arguments->embed_dim;
    return !builder->failed;
}

/* Computes q, k or v (`which` is 0, 1 or 2) by nn.functional.linear. If kdim or vdim differ from embed_dim, q, k and v
 * have separate weights. Otherwise each uses a third of in_proj_weight. */
static int in_projection(struct plan_builder *builder, const struct multihead_arguments *arguments, int which,
                         int64_t columns, int x)
{
    static const char *const names[] = {"q_proj_weight", "k_proj_weight", "v_proj_weight"};
    int64_t dim = arguments->embed_dim;
    int weight, bias = PLAN_NONE;
    if (arguments->kdim == dim && arguments->vdim == dim)
        weight = plan_slice_weight(builder, plan_matrix(builder, 3 * dim, dim, "in_proj_weight"), which * dim * dim,
                                   dim, dim);
    else
        weight = plan_matrix(builder, dim, columns, "%s", names[which]);
    if (arguments->bias)
        bias = plan_slice_weight(builder, plan_vector(builder, 3 * dim, "in_proj_bias"), which * dim, 1, dim);
    return plan_linear(builder, x, weight, bias);
}

/* linear(k, e_proj_weight, bias_e) over the positions. With add_bias_kv, bias_k is an additional last position. */
static int project(struct plan_builder *builder, const struct multihead_arguments *arguments, int x, int weight,
                   const char *bias, const char *tail)
{
    int e = plan_tensor(builder, 3, (int64_t[]){1, 1, arguments->proj_k}, "%s", bias), t = PLAN_NONE;
    if (arguments->add_bias_kv)
        t = plan_tensor(builder, 3, (int64_t[]){1, 1, arguments->embed_dim}, "%s", tail);
    return plan_project_call(builder, x, weight, e, t);
}

/* The reason why the class fails with a mask. NULL if the class accepts the mask. In the failing case, the class calls
 * a function that it does not import. */
static const char *padding_mask_refused(const struct multihead_arguments *arguments)
{
    if (arguments->add_bias_kv)
        return "the class fails on masks if add_bias_kv is true";
    return arguments->add_zero_attn ? "the class fails on masks if add_zero_attn is true" : NULL;
}

/* The class requires a mask with as many columns as keys, but then adds the mask to scores of proj_k keys. */
static const char *attention_mask_refused(const struct multihead_arguments *arguments)
{
    if (padding_mask_refused(arguments))
        return padding_mask_refused(arguments);
    return arguments->proj_k == arguments->seq_len
               ? NULL
               : "the class accepts it only if proj_k equals seq_len, because its columns must match both";
}

static int take_inputs(struct plan_builder *builder, const struct multihead_arguments *arguments, int *key, int *value)
{
    int query = plan_input_rows(builder, "query", arguments->embed_dim, 0, PLAN_NONE);
    plan_call_layout(builder, query);
    *key = plan_input_rows(builder, "key", arguments->kdim, arguments->seq_len - arguments->add_bias_kv, PLAN_NONE);
    plan_call_layout(builder, *key);
    *value = plan_input_rows_like(builder, "value", arguments->vdim, *key, PLAN_NONE);
    struct model_input padding_mask = {
        .name = "key_padding_mask", .kind = INPUT_IGNORED, .refused = padding_mask_refused(arguments)};
    plan_input_beside(builder, padding_mask, *key);
    return query;
}

/* forward(). If kdim and vdim equal embed_dim, the class compares the values of the tensors to choose one of three
 * computations. All three have the same results. */
static void build_attention(struct plan_builder *builder, const char *name, const struct model_config *config)
{
    struct multihead_arguments arguments;
    if (!read_arguments(builder, name, config, &arguments))
        return;
    int64_t dim = arguments.embed_dim, heads = arguments.num_heads, n = arguments.seq_len, k = arguments.proj_k;
    int key, value, query = take_inputs(builder, &arguments, &key, &value);
    struct model_input attn_mask = {.name = "attn_mask",
                                    .kind = INPUT_ATTENTION_MASK,
                                    .columns = k,
                                    .accepts_floats = true,
                                    .masks_per_sequence = heads,
                                    .refused = attention_mask_refused(&arguments)};
    int mask = plan_input_beside(builder, attn_mask, query);
    int e = plan_matrix(builder, k, n, "e_proj_weight"), f = e;
    bool layerwise =
        json_is_string(arguments.param_sharing) && strcmp(json_string_value(arguments.param_sharing), "layerwise") == 0;
    if (layerwise)
        plan_share_weight(builder, e, "f_proj_weight");
    else
        f = plan_matrix(builder, k, n, "f_proj_weight");

    int queries = in_projection(builder, &arguments, 0, dim, query);
    int keys = in_projection(builder, &arguments, 1, arguments.kdim, key);
    int values = in_projection(builder, &arguments, 2, arguments.vdim, value);
    keys = project(builder, &arguments, keys, e, "bias_e", "bias_k");
    values = project(builder, &arguments, values, f, "bias_f", "bias_v");
    int x = plan_attend_call(builder, queries, keys, values,
                             (struct plan_attention){.heads = heads,
                                                     .kv_heads = heads,
                                                     .scale = (float)(1.0 / sqrt((double)(dim / heads))),
                                                     .key_room = arguments.add_zero_attn ? k + 1 : 0,
                                                     .masked = mask != PLAN_NONE,
                                                     .mask = mask,
                                                     .masked_byte = true,
                                                     .masked_score = -INFINITY});
    x = plan_linear(builder, x, plan_matrix(builder, dim, dim, "out_proj.weight"),
                    arguments.bias ? plan_vector(builder, dim, "out_proj.bias") : PLAN_NONE);
    plan_give(builder, x, PLAN_NONE, PLAN_NONE, false);
    plan_name_outputs(builder, "attn_output", "attn_output_weights");
}

static const struct family_class classes[] = {
    {"linear_multihead_attention.LinearMultiheadAttention", "linear_multihead_attention.LinearMultiheadAttention",
     build_attention},
};

const struct family family_linear_multihead_attention = {"linear_multihead_attention", classes, COUNT(classes)};
