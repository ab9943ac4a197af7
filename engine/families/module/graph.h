/* graph: the state that the family of whole modules keeps while it builds a plan. A module is a graph in config.json.
 * Its nodes are operations, or leaves: classes of the other families. docs/module-graph.md describes the graph.
 *
 * A node's result is a tensor. A tensor is a view of a value or weight of the plan, with sizes and strides as in
 * PyTorch. So operations that only change the shape add no step to the plan. Other operations read their operands in
 * place. If the elements of an operand are not in the order needed, they are first copied into a new value in that
 * order.
 *
 * In PyTorch a tensor has a batch dimension of size B. A value of the plan has no batch dimension, because each item
 * has its own rows. So a tensor's dimension of size B * s in PyTorch has the size s here, and is marked `batched`. Some
 * PyTorch code puts time before the batch. Then a dimension has size s * B, and the batch index varies fastest. */
#ifndef ENGINE_FAMILIES_MODULE_GRAPH_H
#define ENGINE_FAMILIES_MODULE_GRAPH_H

#include "engine/families/family.h"
#include "engine/plan/sizes.h"

#include <jansson.h>

#define MODULE_RANK 8 /* maximum number of dimensions of a tensor, including the batch */

struct tensor_dimension {
    int size;   /* index of a size of the plan, without the batch */
    int stride; /* index of a size: the stride in elements */
    bool batched;
    bool inner; /* only if `batched`. true: the dimension is s * B, and the batch varies fastest. false: it is B * s,
                   and the batch varies slowest */
};

struct tensor {
    /* Index of the value or the weight that contains the elements. The other index is PLAN_NONE. */
    int value, weight;
    int first; /* index of a size: the offset of the first element */
    int rank;
    struct tensor_dimension dims[MODULE_RANK];
    bool boolean; /* the elements are 0 and 1, for false and true */
    bool counts; /* the tensor is an arange: its elements are 0, 1, 2 … along the last dimension, whose stride is 1 */
};

struct named_tensor {
    const char *name; /* borrowed from the graph */
    struct tensor tensor;
    uint64_t hash;
    int next; /* index of the previous tensor in the same bucket. -1 if there is none */
};

struct named_size {
    const char *name;
    int64_t least, most;
    int size; /* index of the size. PLAN_NONE until an input has this size */
};

struct module {
    struct plan_builder *builder;
    struct named_tensor *tensors;
    int n_tensors;
    int *buckets;  /* hash table (n_buckets): for each bucket, the index of the latest tensor in it, or -1 */
    int n_buckets; /* 0, or a power of two of at least n_tensors */
    struct named_size *sizes;
    int n_sizes;
    int64_t numbers; /* number of elements of all weights that module_numbers has made */
    struct {
        int weight;
        int64_t first, step;
    } counted[8]; /* the latest of these weights */
    int n_counted;
    int batch, zero, one; /* indices of sizes: the batch size, 0 and 1 */
    const char *op;       /* operation of the node that is being built, for messages */
    const char *shown;    /* the same for --explain. For a leaf it is the class */
    const char *to;       /* the name of the node's result */
};

/* Records a failure, with a message that names the node. Returns PLAN_NONE. */
int module_fail(struct module *module, const char *format, ...) __attribute__((format(printf, 2, 3)));

static inline bool module_failed(const struct module *module)
{
    return module->builder->failed;
}

/* A view of the whole tensor of this name in the file of weights. */
struct tensor module_weight(struct module *module, const char *name);

/* Returns a weight of one row with the numbers first, first + step, first + 2 * step … It has at least `count` columns.
 * Calls with the same `first` and `step` may return the same weight. All these weights of one graph together have at
 * most MAX_NUMBERS elements (graph.c). Returns PLAN_NONE after a failure. */
int module_numbers(struct module *module, int64_t first, int64_t step, int64_t count);

/* The tensor of this name in the graph. NULL if there is none. */
const struct tensor *module_find(const struct module *module, const char *name);

/* Gives the tensor a name in the graph. The string must outlive the module. */
void module_name(struct module *module, const char *name, struct tensor tensor);

/* ---- Sizes (sizes.c) ---- */

/* Reads a size from an integer or an expression. The size may contain the batch. Returns PLAN_NONE after a failure. */
int module_read_size(struct module *module, const json_t *json);

/* Removes the batch from a size. For B * s it returns s and sets *batched. For a size without the batch it returns the
 * size itself. It fails if only some terms of the size contain the batch. */
int module_split_batch(struct module *module, int size, bool *batched);

int module_size(struct module *module, int64_t value);
int64_t module_constant(struct module *module, int size, const char *what); /* fails if the size depends on the item */
bool module_is(const struct module *module, int size, int64_t value);
int module_product(struct module *module, int a, int b);

/* ---- A node's arguments (node.c) ---- */

/* An argument without a default must be present. If it is missing, these functions record a failure that names it. */

#define NODE_KEYS 24

struct node {
    struct module *module;
    const json_t *json;
    const char *read[NODE_KEYS]; /* names of the arguments that were read */
    int n_read;
};

struct tensor node_tensor(struct node *node, const char *name);
bool node_has(struct node *node, const char *name); /* false if the argument is missing or null */
/* Reads an argument that is a tensor, a number or a size. A size that depends on the item becomes a tensor without
 * dimensions. Returns true and sets *tensor for a tensor. Otherwise returns false and sets *number. */
bool node_operand(struct node *node, const char *name, struct tensor *tensor, double *number);
double node_number(struct node *node, const char *name, double fallback);
bool node_bool(struct node *node, const char *name, bool fallback);
const char *node_string(struct node *node, const char *name, const char *fallback); /* required if fallback is NULL */
int64_t node_integer(struct node *node, const char *name, int64_t fallback);
int node_size(struct node *node, const char *name, int fallback); /* required if fallback is PLAN_NONE */
/* Reads a list of integers, or one integer. Returns their number, at most `room`. */
int node_integers(struct node *node, const char *name, int64_t *integers, int room);
/* Reads a list of sizes. Returns their number, or -1 after a failure. */
int node_sizes(struct node *node, const char *name, int *sizes, int room);
/* A list of tensors: the number of tensors, and tensor `index`. */
int node_count(struct node *node, const char *name);
struct tensor node_list_tensor(struct node *node, const char *name, int index);
/* The number of a dimension of a tensor with `rank` dimensions. A negative number counts from the end. */
int node_dim(struct node *node, const char *name, int rank, int64_t fallback);
#define NODE_REQUIRED INT64_MIN

/* Fails if the node has an argument that was not read. */
void node_finish(struct node *node);

/* Names the node's result as its key `to` says, which is a string here. */
void node_give(struct node *node, struct tensor tensor);
/* Names one of several results. `to` is a list of names here. A name may be null. */
void node_give_one(struct node *node, int index, struct tensor tensor);

/* ---- Operations: tables of names and functions ---- */

struct module_operation {
    const char *name;
    void (*build)(struct node *node, int variant);
    int variant; /* tells the function which operation is meant, if it builds several */
};

extern const struct module_operation module_elements[], module_shapes[], module_resolution[], module_layers[],
    module_reductions[], module_pooling[], module_products[];

#endif
