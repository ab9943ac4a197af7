/* A family is the source file that builds the plans for one Python library, and lists its classes. family_module is
 * also a family, and builds the plans of users' modules. Each class has a function that builds a plan from config and
 * weights. */
#ifndef ENGINE_FAMILIES_FAMILY_H
#define ENGINE_FAMILIES_FAMILY_H

#include "engine/plan/builder.h"

struct family_class {
    const char *name;        /* import path as exported by the package, such as "linformer.LinformerLM" */
    const char *module_name; /* import path with the Python module, such as "linformer.linformer.LinformerLM" */

    /* Builds the plan. The builder records a failure. `name` names the class in messages. */
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

/* The class ImageLinearAttention of linear_attention_transformer, which shares no part with the library's other
 * classes. */
void image_linear_attention_build(struct plan_builder *builder, const char *name, const struct model_config *config);

/* Finds the class with the name `architecture`. Returns NULL if there is none. The message then lists the classes. */
const struct family_class *family_find(const char *architecture, struct error *error);

/* Builds a class as a leaf, which is a part of a larger plan. Returns the value of the class's first output, without
 * padding, after the output layer of the class. Attentions are numbered over the whole plan. Returns PLAN_NONE after a
 * failure, whose message begins with the leaf's path. */
int family_build_leaf(struct plan_builder *builder, const struct plan_leaf *leaf);

/* ---- Shared by two families: linear_attention_transformer uses LinformerSelfAttention of lucidrains' linformer ----
 */

/* The values "slice" and "exact". The list ends with PADDING_DEFAULT. */
extern const enum padding lucidrains_paddings[];

struct linformer_attention {
    int64_t dim, seq_len, k, heads, dim_head; /* dim is a multiple of heads. A dim_head of 0 means dim / heads */
    bool one_kv_head, share_kv;
};

/* LinformerSelfAttention.forward(x, context). The tensors are named `prefix` + "to_q.weight" and so on. */
int linformer_self_attention(struct plan_builder *builder, const struct linformer_attention *attention, int x,
                             int context, const char *prefix);

/* FeedForward.forward(x): w2(gelu(w1(x))), where w1(x) has 4 * dim columns. */
int lucidrains_feed_forward(struct plan_builder *builder, int64_t dim, int x, const char *prefix);

/* nn.LayerNorm(dim)(x). The tensors are named `prefix` + "weight" and `prefix` + "bias". */
int lucidrains_layer_norm(struct plan_builder *builder, int64_t dim, int x, const char *prefix);

#endif
