/* builder: how a family (families/) makes a plan from config and weights, reading like the library's forward().
 *
 *     plan_begin -> inputs, weights, operations -> plan_give -> plan_finish or plan_check
 *
 * These functions record the first failure in the builder and do nothing after it, so a family needs no checks between
 * them; PLAN_NONE or NULL is returned then. plan_finish rewrites the plan (passes.h) into one that gives the same with
 * fewer operations, finds each value's lifetime and gives it its place in one arena.
 *
 * builder.c begins and fails; inputs.c, weights.c and steps.c have the inputs, weights and operations, names.c the
 * names that files give to weights; finish.c ends.
 */
#ifndef ENGINE_PLAN_BUILDER_H
#define ENGINE_PLAN_BUILDER_H

#include "engine/plan/plan.h"
#include "weights/weights.h"

#define PLAN_PREFIX_BYTES 64

struct plan_builder {
    struct plan *plan;
    const struct weights *weights;
    bool *used;                     /* by weights_index: taken by the plan */
    const struct json_t *ignore;    /* a list of patterns of surplus tensors' names, borrowed; NULL: none */
    char prefix[PLAN_PREFIX_BYTES]; /* of all names in the file, before those of the class */
    bool prefix_known;              /* a tensor was found with it */
    struct error *error;
    bool failed;
    bool without_data; /* names, dtypes and shapes alone are compared; set after plan_begin, ended by plan_check */
    bool as_built; /* plan_finish leaves the steps as the family built them: what its passes give is held against it */

    size_t image_arena_bytes; /* for plan_enlarge_images; 0: images have max_rows pixels at most */

    void (*progress)(void *context, double fraction); /* of the weights' elements that are taken; NULL: nobody asks */
    void *progress_context;
    int64_t taken_elements, all_elements;
};

/* plan_begin succeeded: plan_finish or plan_check is owed, whatever happens between. */
int plan_begin(struct plan_builder *builder, const struct weights *weights, struct error *error);

/* Ends building: refuses surplus tensors, fuses, plans memory for batches of max_rows rows (at least the longest
 * input) and max_items items. On success the plan is the caller's (plan_free), on failure nothing is. */
int plan_finish(struct plan_builder *builder, int64_t max_rows, int64_t max_items, struct plan **plan);

/* Ends building with `without_data`: refuses surplus tensors. The weights' data may be NULL then, so that it is read
 * only if the file fits the class. *plan has no data and no places, and is the caller's as above. */
int plan_check(struct plan_builder *builder, struct plan **plan);

/* Records a failure of the family's own. Always PLAN_NONE. */
int plan_fail(struct plan_builder *builder, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The same for a tensor that the file lacks; `shape` is the class's, as text. A tensor that nothing has taken yet and
 * whose name ends in this one, as behind DataParallel's "module.", is named as well. */
int plan_fail_missing(struct plan_builder *builder, const char *name, const char *shape);

/* The tensor that the class calls so: the file may have a wrapper's prefix before all names, and names of an older
 * library. NULL: it has none, and nothing is recorded. */
const struct weights_tensor *plan_find_tensor(struct plan_builder *builder, const char *name);

/* Whether config.json names a tensor of the file among those that are not the class's. */
bool plan_ignores(const struct plan_builder *builder, const char *name);

/* Inputs, in the order of forward()'s parameters. They return values. max_length 0: no limit of the model's own. */
int plan_input_ids(struct plan_builder *builder, const char *name, int64_t vocabulary, int64_t max_length,
                   int fallback);
int plan_input_rows(struct plan_builder *builder, const char *name, int64_t columns, int64_t max_length, int fallback);
/* An image of any size (LAYOUT_IMAGE), and pixels that need not be given (LAYOUT_CHANNELS): then there are none. Rows
 * are pixels. `refused` as in model_input. */
int plan_input_image(struct plan_builder *builder, const char *name, int64_t channels);
int plan_input_pixels(struct plan_builder *builder, const char *name, int64_t channels, const char *refused);
/* One row for each row of `like` (an input's value): a mask, or floats that go with it. */
int plan_input_mask(struct plan_builder *builder, const char *name, int like);
int plan_input_rows_like(struct plan_builder *builder, const char *name, int64_t columns, int like, int fallback);
/* Inputs without a value; they return the input's index. Of `mask` the kind INPUT_ATTENTION_MASK or INPUT_IGNORED,
 * columns and what else belongs to it are the caller's; it is optional, and as long as `like` (an input's value). */
int plan_input_beside(struct plan_builder *builder, struct model_input mask, int like);
/* Makes calls (LAYOUT_CALL) of an input's items. */
void plan_call_layout(struct plan_builder *builder, int input_value);

/* Brings each item of the input to `rows` rows, with zeros or ids 0; results are those of its own rows. */
void plan_pad(struct plan_builder *builder, int input_value, int64_t rows);

/* … to the next multiple of `multiple` rows, where masks are 0: what a class Autopadder does. */
void plan_pad_to_multiple(struct plan_builder *builder, int input_value, int64_t multiple);
/* Items whose rows, padding included, are no multiple of it are refused. */
void plan_require_multiple(struct plan_builder *builder, int input_value, int64_t multiple);

/* Takes the padding that the configuration asks for, or the class's default; `allowed` ends with PADDING_DEFAULT. */
enum padding plan_choose_padding(struct plan_builder *builder, const char *class_name, enum padding asked,
                                 const enum padding *allowed);

/* Weights by name (printf format), converted to float32. They return weights. */
int plan_vector(struct plan_builder *builder, int64_t columns, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
int plan_matrix(struct plan_builder *builder, int64_t rows, int64_t columns, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* Any shape, given as `rank` sizes; kept as (rows, columns) with the last size as columns. */
int plan_tensor(struct plan_builder *builder, int rank, const int64_t *shape, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* A further name of a weight that the class shares: stored once, it is the same tensor; stored twice, it must be equal.
 */
void plan_shared(struct plan_builder *builder, int weight, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The rows of several weights of as many columns, one below the other. */
int plan_stack(struct plan_builder *builder, const int *weights, int64_t count);
/* (rows, columns) of a weight's elements from `first` on. */
int plan_part(struct plan_builder *builder, int weight, int64_t first, int64_t rows, int64_t columns);
/* The weight read as (rows, columns), as (columns, rows). */
int plan_transpose(struct plan_builder *builder, int weight, int64_t rows);
/* nn.Conv2d's (out, in, height, width) as OP_CONVOLVE_IMAGE reads it: (out, height * width * in). */
int plan_kernel(struct plan_builder *builder, int weight, int64_t out, int64_t in);

/* The weight with the columns beside it: vectors of as many elements as it has rows; PLAN_NONE stands for ones. */
int plan_widen(struct plan_builder *builder, int weight, const int *columns, int count);

/* Operations. They return the new value. */
int plan_embed(struct plan_builder *builder, int ids, int table);
int plan_add_positions(struct plan_builder *builder, int x, int table, int minor_table, int64_t period);
int plan_layer_norm(struct plan_builder *builder, int x, int gain, int bias, float epsilon);
int plan_linear(struct plan_builder *builder, int x, int weight, int bias);
int plan_activate(struct plan_builder *builder, int x, enum activation activation);
int plan_mask_rows(struct plan_builder *builder, int x, int mask);
int plan_add_sinusoids(struct plan_builder *builder, int x, int frequencies);
int plan_add(struct plan_builder *builder, int x, int z, float scale);
/* E and its bias for one group of columns or for each of several. */
struct plan_projection {
    int weight, bias; /* bias (groups, k) or PLAN_NONE */
    int64_t groups;
    bool transposed; /* the weight is (groups * k, n), as nn.Linear has it; else (groups * n, k) */
};
int plan_project_sequence(struct plan_builder *builder, int x, struct plan_projection projection);

/* nn.Conv1d(d, d, stride, stride) along the sequence, for each of `groups` groups of columns. weight (d, d * stride)
 * and bias (1, d), or as many of them below one another as there are groups. `length` is the whole sequence's. */
int plan_convolve_sequence(struct plan_builder *builder, int x, int weight, int bias, int64_t groups, int64_t stride,
                           int64_t length);

/* E (k, n) with bias (1, k) over the positions of calls; `tail` (1, d) or PLAN_NONE: then calls are n - 1 long. */
int plan_project_call(struct plan_builder *builder, int x, int weight, int bias, int tail);

struct plan_attention {
    int64_t heads, kv_heads;
    float scale;
    bool causal;
    int64_t key_room;
    bool masked; /* an item may give an attention mask: */
    int mask;    /* the input, and what its bytes do */
    bool masked_byte;
    float masked_score;
};
int plan_attend(struct plan_builder *builder, int queries, int keys, int values, struct plan_attention attention);
int plan_attend_call(struct plan_builder *builder, int queries, int keys, int values, struct plan_attention attention);
int plan_shift_tokens(struct plan_builder *builder, int x, int64_t n_shifts, const int64_t *shifts);

/* Heads [first_head, first_head + heads) of dim_head features each. */
struct plan_head_range {
    int64_t first_head, heads, dim_head;
};
/* T (positions, dim_head): sines, then cosines. */
int plan_rotate(struct plan_builder *builder, int x, int table);
/* mask: of the keys. */
int plan_linear_attend(struct plan_builder *builder, int queries, int keys, int values, int mask,
                       struct plan_head_range heads, int64_t fold);
/* Within one sequence: keys and values stand on the queries' axis. */
int plan_causal_linear_attend(struct plan_builder *builder, int queries, int keys, int values, int mask,
                              struct plan_head_range heads, int64_t fold, int64_t bucket);
/* ImageLinearAttention's: values of another size than keys, no scale, and queries whose softmax may be left out. */
int plan_image_linear_attend(struct plan_builder *builder, int queries, int keys, int values, int64_t heads,
                             bool softmax_queries);
int plan_local_attend(struct plan_builder *builder, int queries, int keys, int values, int mask,
                      struct plan_head_range heads, int64_t window, bool causal);
int plan_concatenate(struct plan_builder *builder, int x, int z);
int plan_append_rows(struct plan_builder *builder, int x, int z);

/* x stands on an axis with the pixels of an input, which are an image or (LAYOUT_CHANNELS) one of height 1. The pixels
 * of y have an axis of their own. keeps_pixels: they have that of x, and images which another number of pixels is made
 * of are refused. */
struct plan_convolution {
    int weight, bias; /* plan_kernel's, and (out) */
    struct plan_window window;
    float scale;
    bool keeps_pixels;
};
int plan_convolve_image(struct plan_builder *builder, int x, struct plan_convolution convolution);
int plan_gate(struct plan_builder *builder, int x, enum activation activation);
int plan_retrieve(struct plan_builder *builder, int x, int keys, int values, int64_t heads);
int plan_cut_padding(struct plan_builder *builder, int x); /* x itself where nothing is padded */

/* What the model gives: the last hidden state (also pooled) and the class's output, through `weight` and `bias` when
 * the class has an output layer over its hidden state. Called once, last. */
void plan_give(struct plan_builder *builder, int hidden, int weight, int bias, bool logits);
/* In place of plan_give where the input is an image. */
void plan_give_image(struct plan_builder *builder, int x);
/* The class's own names in place of "output" and "attention.0"; not copied. */
void plan_name_outputs(struct plan_builder *builder, const char *output, const char *attention);
/* Sizes whose product is the output's columns; call it after plan_give. */
void plan_shape_output(struct plan_builder *builder, int count, const int64_t *sizes);

/* Appends a zeroed element to one of the plan's arrays, whose room is always the next power of two. NULL: failed. */
void *plan_grow(struct plan_builder *builder, void *array, int *count, size_t size);

/* A step of x alone: no other values, no weights, all items. */
struct plan_step plan_step_of(enum operation operation, int x);

static inline const struct plan_value *plan_value_at(const struct plan_builder *builder, int value)
{
    return &builder->plan->values[value];
}

static inline const struct plan_weight *plan_weight_at(const struct plan_builder *builder, int weight)
{
    return &builder->plan->weights[weight];
}

#endif
