/* A family is one Python library: its classes, each with a function that turns config and weights into a plan. */
#ifndef ENGINE_FAMILIES_FAMILY_H
#define ENGINE_FAMILIES_FAMILY_H

#include "engine/plan/builder.h"

struct family_class {
    const char *name;        /* import path through the package: "linformer.LinformerLM" */
    const char *module_name; /* through the module: "linformer.linformer.LinformerLM" */

    /* Builds the plan; failures go to the builder. `name` is the class's, for messages. */
    void (*build)(struct plan_builder *builder, const char *name, const struct model_config *config);
};

struct family {
    const char *package;
    const struct family_class *classes;
    size_t n_classes;
};

extern const struct family family_linformer;
extern const struct family family_linear_attention_transformer;
extern const struct family family_linformer_pytorch;
extern const struct family family_linear_multihead_attention;
extern const struct family family_keras;
extern const struct family family_module;

/* linear_attention_transformer's ImageLinearAttention, a class with no part in common with the others. */
void build_image_linear_attention(struct plan_builder *builder, const char *name, const struct model_config *config);

/* The class that an architecture names; NULL: none, and `error` lists those there are. */
const struct family_class *family_find(const char *architecture, struct error *error);

/* Builds a class as a part of a larger plan. Returns its output: the class's first one, without padding, after its
 * output layer. Attention outputs count on over the whole plan. PLAN_NONE after a failure, whose message begins with
 * the leaf's path. */
int family_build_leaf(struct plan_builder *builder, const struct plan_leaf *leaf);

/* ---- What two families share: lucidrains' LinformerSelfAttention is used by linear_attention_transformer too ---- */

/* "slice", or "exact"; ends with PADDING_DEFAULT. */
extern const enum padding lucidrains_paddings[];

struct linformer_attention {
    int64_t dim, seq_len, k, heads, dim_head; /* dim a multiple of heads; dim_head 0: dim / heads */
    bool one_kv_head, share_kv;
};

/* LinformerSelfAttention.forward(x, context); tensors are named `prefix` + "to_q.weight" … */
int linformer_self_attention(struct plan_builder *builder, const struct linformer_attention *attention, int x,
                             int context, const char *prefix);

/* FeedForward.forward(x): w2(gelu(w1(x))), with a hidden part of 4 * dim. */
int lucidrains_feed_forward(struct plan_builder *builder, int64_t dim, int x, const char *prefix);

/* nn.LayerNorm(dim)(x), tensors `prefix` + "weight" and "bias". */
int lucidrains_layer_norm(struct plan_builder *builder, int64_t dim, int x, const char *prefix);

#endif
