/* graph: the state that the family of whole modules keeps while it builds a plan. A module is a graph in config.json.
 * Its nodes are operations, or leaves: classes of the other families. docs/module-graph.md describes the
 * graph.
 *
 * A node's result is a tensor: a view of a plan's value, or of a weight, with sizes and strides as in PyTorch. So
 * operations that only change the shape cost nothing. Others read their operands in place, or arranged in a new value
 * if their elements do not lie as needed.
 *
 * The batch is not a dimension of values, since a value has the rows of each item. A dimension whose size contains the
 * batch is `batched`: of size B * s, where s is the tensor's size for one item. In code that puts time first it may be
 * s * B, with the batch as its inner part. */
#ifndef ENGINE_FAMILIES_MODULE_GRAPH_H
#define ENGINE_FAMILIES_MODULE_GRAPH_H

#include "engine/families/family.h"
#include "engine/plan/sizes.h"

#include <jansson.h>

#define MODULE_RANK 8 /* of a tensor, with the batch */

struct tensor_dimension {
    int size;   /* a plan's size, without the batch */
    int stride; /* likewise; in elements */
    bool batched;
    bool inner; /* of a batched dimension: the batch is the inner part, of size s * B. Else the outer one, B * s */
};

struct tensor {
    int value, weight; /* the elements are a value's, or else a weight's */
    int first;         /* a size: the first element */
    int rank;
    struct tensor_dimension dims[MODULE_RANK];
    bool boolean; /* the elements are 0 or 1 and stand for false and true */
    bool counts;  /* the elements are 0, 1, 2 … along the last dimension, whose stride is 1: arange */
};

struct named_tensor {
    const char *name; /* borrowed from the graph */
    struct tensor tensor;
};

struct named_size {
    const char *name;
    int64_t least, most;
    int size; /* PLAN_NONE: no input has it yet */
};

struct module {
    struct plan_builder *builder;
    struct named_tensor *tensors;
    int n_tensors;
    struct named_size *sizes;
    int n_sizes;
    int batch, zero, one; /* sizes */
    const char *op;       /* of the node at hand, for messages */
    const char *to;       /* the name of its result */
};

/* Fails with a message that names the node. Returns PLAN_NONE. */
int module_fail(struct module *module, const char *format, ...) __attribute__((format(printf, 2, 3)));

static inline bool module_failed(const struct module *module)
{
    return module->builder->failed;
}

/* The tensor of the file with that name: all of it. */
struct tensor module_weight(struct module *module, const char *name);

/* The tensor with that name; NULL: there is none. */
const struct tensor *module_find(const struct module *module, const char *name);

/* Adds a tensor under a name, which the caller keeps. */
void module_name(struct module *module, const char *name, struct tensor tensor);

/* ---- Sizes (sizes.c) ---- */

/* Reads an integer or an expression. It may contain the batch. PLAN_NONE: failed. */
int module_read_size(struct module *module, const json_t *json);

/* Splits the batch off a size: B * s -> s, with `batched` true. A size in which the batch is in some terms only is
 * refused. */
int module_split_batch(struct module *module, int size, bool *batched);

int module_size(struct module *module, int64_t value);
int64_t module_constant(struct module *module, int size, const char *what); /* refuses a size that is free */
bool module_is(const struct module *module, int size, int64_t value);
int module_product(struct module *module, int a, int b);

/* ---- A node's arguments (node.c). A missing argument without a default is refused by name ---- */

#define NODE_KEYS 24

struct node {
    struct module *module;
    const json_t *json;
    const char *read[NODE_KEYS]; /* names of the arguments that were asked for */
    int n_read;
};

struct tensor node_tensor(struct node *node, const char *name);
bool node_has(struct node *node, const char *name); /* not null */
/* A tensor, or a number, or a size without free parts. Returns whether it is a tensor. */
bool node_operand(struct node *node, const char *name, struct tensor *tensor, double *number);
double node_number(struct node *node, const char *name, double fallback);
bool node_bool(struct node *node, const char *name, bool fallback);
const char *node_string(struct node *node, const char *name, const char *fallback); /* fallback NULL: required */
int64_t node_integer(struct node *node, const char *name, int64_t fallback);
int node_size(struct node *node, const char *name, int fallback); /* PLAN_NONE: required */
/* A list of integers, or one integer. Returns their number, at most `room`. */
int node_integers(struct node *node, const char *name, int64_t *integers, int room);
/* A list of sizes. Returns their number, or -1: failed. */
int node_sizes(struct node *node, const char *name, int *sizes, int room);
/* A list of tensors. */
int node_count(struct node *node, const char *name);
struct tensor node_list_tensor(struct node *node, const char *name, int index);
/* A dimension of `tensor`: negative ones count from the end. */
int node_dim(struct node *node, const char *name, int rank, int64_t fallback);
#define NODE_REQUIRED INT64_MIN

/* Refuses arguments that nothing has asked for. */
void node_finish(struct node *node);

/* Names the result. `to` is a string. */
void node_give(struct node *node, struct tensor tensor);
/* Names one of several results; a name may be null. */
void node_give_one(struct node *node, int index, struct tensor tensor);

/* ---- Operations: tables of names and functions ---- */

struct module_operation {
    const char *name;
    void (*build)(struct node *node, int variant);
    int variant; /* for functions that serve several names */
};

extern const struct module_operation module_elements[], module_shapes[], module_resolution[], module_layers[],
    module_reductions[], module_products[];

#endif
