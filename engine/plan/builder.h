/* builder: the functions by which a family (families/) makes a plan from config and weights. A family's code then reads
 * like forward() of the Python library.
 *
 *     plan_begin -> inputs, weights, operations -> plan_give -> plan_finish or plan_check
 *
 * These functions record the first failure in the builder. After it they do nothing and return PLAN_NONE or NULL, so a
 * family needs no checks between calls. plan_finish rewrites the plan (passes.h): the same results with fewer
 * operations. Then it finds each value's lifetime and its place in one arena.
 *
 * A class can also be built as a leaf: a part of a larger plan. While its scope is open, inputs are values of that
 * plan, tensors' names begin with the leaf's path, and what the class gives is a value of that plan.
 *
 * Begin and failures are in builder.c, inputs in inputs.c, scopes in scope.c, limits of rows in require.c, weights in
 * weights.c and derived.c, operations in steps.c, the names of tensors in names.c, and the end in finish.c. */
#ifndef ENGINE_PLAN_BUILDER_H
#define ENGINE_PLAN_BUILDER_H

#include "engine/plan/plan.h"
#include "weights/weights.h"

#define PLAN_PREFIX_BYTES 64
#define PLAN_NAME_BYTES 512 /* of a tensor's name in the file, with a leaf's path */

/* A class within a larger plan. All memory is borrowed. */
struct plan_leaf {
    const char *class_name; /* as in config.json */
    const char *path;       /* precedes the names of its tensors, with a point between; "": nothing does */
    struct json_t *kwargs;
    enum padding padding;
    int n_inputs;
    struct plan_binding {
        const char *name; /* the parameter's name in the class's forward() */
        int value;        /* on an axis without padding */
        bool image;       /* the rows are pixels of images of height * width, which are sizes */
        int height, width;
    } inputs[ENGINE_MAX_INPUTS];
};

/* The leaf that is being built. */
struct plan_scope {
    const struct plan_leaf *leaf;         /* NULL: no scope is open */
    enum padding around;                  /* builder->padding outside of the scope */
    bool taken[ENGINE_MAX_INPUTS];        /* by binding: the class has that input */
    const char *names[ENGINE_MAX_INPUTS]; /* the class's inputs in order */
    int values[ENGINE_MAX_INPUTS];        /* of these inputs; PLAN_NONE: absent */
    int n_inputs;
    int height, width; /* sizes: of the image that is bound to an input; PLAN_NONE: none is */
    int output;        /* PLAN_NONE: the class has given none yet */
};

struct plan_builder {
    struct plan *plan;
    const struct weights *weights;
    bool *used;                     /* by weights_index: the plan has the tensor */
    const struct json_t *ignore;    /* patterns for names of surplus tensors, borrowed; NULL: none */
    char prefix[PLAN_PREFIX_BYTES]; /* precedes the class's own names in the file */
    bool prefix_known;              /* a tensor was found with it */
    enum padding padding;           /* of the class that is being built; plan_choose_padding sets it */
    struct plan_scope scope;
    struct error *error;
    bool failed;
    bool without_data; /* names, dtypes and shapes alone are compared; set after plan_begin, ended by plan_check */
    bool as_built;     /* for tests: skips the passes, so that optimized results can be compared */

    size_t image_arena_bytes; /* for plan_enlarge_images; 0: images have max_rows pixels at most */

    void (*progress)(void *context, double fraction); /* reports the part of all elements read so far; may be NULL */
    void *progress_context;
    int64_t taken_elements, all_elements;
};

/* On success plan_finish or plan_check is owed, even if a later call fails. */
int plan_begin(struct plan_builder *builder, const struct weights *weights, struct error *error);

/* Ends building. Refuses surplus tensors. Runs the passes (fuse, re-associate, narrow and block), then plans memory for
 * batches of max_rows rows and max_items items. max_rows is raised to the longest input. On success the caller owes
 * plan_free. On failure it owes nothing. */
int plan_finish(struct plan_builder *builder, int64_t max_rows, int64_t max_items, struct plan **plan);

/* Ends building with `without_data`: refuses surplus tensors. The tensors need no data yet: the caller checks the
 * file first and reads the data afterwards. *plan has no data and no places. On success the caller owes plan_free. */
int plan_check(struct plan_builder *builder, struct plan **plan);

/* Records a failure of the family's own. Always returns PLAN_NONE. */
int plan_fail(struct plan_builder *builder, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The same for a tensor that the file lacks. `shape` is the expected shape as text. If an unused tensor's name ends in
 * this name, the message names that tensor too. DataParallel's prefix "module." makes such names. */
int plan_fail_missing(struct plan_builder *builder, const char *name, const char *shape);

/* Finds a tensor by the class's name for it. The file may have a wrapper's prefix before all names, or names of an
 * older library. NULL: the file lacks the tensor. That records no failure. */
const struct weights_tensor *plan_find_tensor(struct plan_builder *builder, const char *name);

/* Whether "ignore" in config.json has a pattern for the tensor's name. */
bool plan_ignores(const struct plan_builder *builder, const char *name);

/* Between these two calls a class's build function makes a leaf. Scopes do not nest. plan_close_scope returns the
 * class's output. */
void plan_open_scope(struct plan_builder *builder, const struct plan_leaf *leaf);
int plan_close_scope(struct plan_builder *builder);

/* `ids` is the value of an input. Limits its ids to 0 <= id < vocabulary. `what` names their reader. */
void plan_limit_ids(struct plan_builder *builder, int ids, int64_t vocabulary, const char *what);

/* Inputs, in the order of forward()'s parameters. They return values. The plan copies the name. max_length 0: the model
 * has no limit. With padding "exact" max_length is the one length. Call plan_choose_padding first.
 *
 * In a scope they return the value that is bound to the name. An absent input is its fallback's value. Else an absent
 * mask is PLAN_NONE where it would be ones everywhere, and any other optional input is PLAN_NONE. */
int plan_input_ids(struct plan_builder *builder, const char *name, int64_t vocabulary, int64_t max_length,
                   int fallback);
int plan_input_rows(struct plan_builder *builder, const char *name, int64_t columns, int64_t max_length, int fallback);
/* An image of any size (LAYOUT_IMAGE), and optional pixels (LAYOUT_CHANNELS). Rows are pixels. `refused`: see
 * model_input. */
int plan_input_image(struct plan_builder *builder, const char *name, int64_t channels);
int plan_input_pixels(struct plan_builder *builder, const char *name, int64_t channels, const char *refused);
/* An input with as many rows as `like` (an input's value): a mask, or floats. */
int plan_input_mask(struct plan_builder *builder, const char *name, int like);
int plan_input_rows_like(struct plan_builder *builder, const char *name, int64_t columns, int like, int fallback);
/* An optional input without a value. It has as many rows as `like` (an input's value). Returns the input's index. The
 * caller sets kind, columns and the other members that the kind uses; the kind is INPUT_ATTENTION_MASK or
 * INPUT_IGNORED. In a scope it returns PLAN_NONE, and a bound INPUT_ATTENTION_MASK is refused. */
int plan_input_beside(struct plan_builder *builder, struct model_input mask, int like);
/* A tensor of any shape (LAYOUT_TENSOR): `sizes` are `rank` sizes of the plan, the batch not counted. `kind` is
 * INPUT_IDS, INPUT_ROWS or INPUT_MASK. A row of its value is `columns` innermost elements: 1 for ids and masks. The
 * value is on plan_sized_axis(elements / columns, 1). */
int plan_input_tensor(struct plan_builder *builder, const char *name, enum input_kind kind, int64_t vocabulary,
                      int rank, const int *sizes, int64_t columns);
/* Changes the input's layout to LAYOUT_CALL. In a scope the value's input must have that layout. */
void plan_call_layout(struct plan_builder *builder, int input_value);

/* Pads each item of the input to `rows` rows, with zeros or ids 0. Only rows of the unpadded item are returned. Masks
 * are 1 on added rows. Returns the value to go on with: in a scope a padded copy. Inputs that are like the input are
 * declared after this call, and like that value. */
int plan_pad(struct plan_builder *builder, int input_value, int64_t rows);

/* The same to the next multiple of `multiple` rows, as the class Autopadder does. Masks are 0 on added rows. */
int plan_pad_to_multiple(struct plan_builder *builder, int input_value, int64_t multiple);
/* Refuses items whose rows, padding included, are no multiple of `multiple`. */
void plan_require_multiple(struct plan_builder *builder, int input_value, int64_t multiple);

/* Sets the padding that the configuration requests, or else the class's default. `allowed` ends with PADDING_DEFAULT.
 */
enum padding plan_choose_padding(struct plan_builder *builder, const char *class_name, enum padding asked,
                                 const enum padding *allowed);

/* Weights by name (printf format), converted to float32. They return weights. */
int plan_vector(struct plan_builder *builder, int64_t columns, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
int plan_matrix(struct plan_builder *builder, int64_t rows, int64_t columns, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* Any shape, given as `rank` sizes. The weight is (rows, columns), with the last size as columns. */
int plan_tensor(struct plan_builder *builder, int rank, const int64_t *shape, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Another name of a weight that parts of the class share. If the file has a tensor of that name, too, it must be equal.
 */
void plan_shared(struct plan_builder *builder, int weight, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Joins the rows of several weights, which have the same number of columns. */
int plan_stack(struct plan_builder *builder, const int *weights, int64_t count);
/* A weight (rows, columns) made of another weight's elements, from element `first` on. */
int plan_part(struct plan_builder *builder, int weight, int64_t first, int64_t rows, int64_t columns);
/* The transpose (columns, rows) of a weight that is read as (rows, columns). */
int plan_transpose(struct plan_builder *builder, int weight, int64_t rows);
/* Reorders a weight of nn.Conv2d (out, in, height, width) for plan_convolve_image: (out, height * width * in). With
 * groups `in` counts the channels of one. nn.Conv1d's height is 1. */
int plan_kernel(struct plan_builder *builder, int weight, int64_t out, int64_t in);

/* For modules, whose weights have the shapes of the file. */

/* The tensor of that name, of any shape and of any type. Integers and booleans become float32. Sets the rank, at
 * most WEIGHTS_MAX_RANK, and the sizes. The weight's columns are the last size. */
int plan_named_weight(struct plan_builder *builder, const char *name, int *rank, int64_t *shape);

/* A weight (rows, columns) of some elements of another: element (i, j, …) of `counts` is the one at
 * first + i * strides[0] + j * strides[1] + …. If they are all of its elements in order, it is that weight. */
int plan_view_weight(struct plan_builder *builder, int weight, int rank, const int64_t *counts, const int64_t *strides,
                     int64_t first, int64_t rows, int64_t columns);

/* A weight of numbers: first, first + step, first + 2 step … */
int plan_number_weight(struct plan_builder *builder, int64_t rows, int64_t columns, float first, float step);

/* Batch norm with running statistics is x * scale + shift. All are vectors of one length. Returns scale. */
int plan_batch_norm(struct plan_builder *builder, int gain, int bias, int mean, int variance, double epsilon,
                    int *shift);

/* The discrete Fourier transform of frames of n samples: (2 * bins, n), rows of cosines and of negative sines in turn,
 * times `scale` and the taper. The taper (1, length) lies in the middle of the frame; PLAN_NONE: ones. */
int plan_fourier_weight(struct plan_builder *builder, int64_t n, int64_t length, int64_t bins, int taper, double scale);

/* Linear interpolation of `in` samples to `out` of them: (out, in). A sample of the result is at (i + 1/2) * step - 1/2
 * of the source, or with `aligned` at i * (in - 1) / (out - 1). */
int plan_interpolation_weight(struct plan_builder *builder, int64_t in, int64_t out, double step, bool aligned);

/* Appends columns to a weight. Each is a vector with one element for each row of the weight, or PLAN_NONE for ones. */
int plan_widen(struct plan_builder *builder, int weight, const int *columns, int count);

/* Elements that a step reads: those of a value, else of a weight, else one number. */
struct plan_source {
    int value, weight; /* PLAN_NONE: none */
    float number;
};

/* Where a step writes: a new value, or one of which earlier steps wrote other parts. */
struct plan_target {
    int axis;
    int64_t columns;
    bool ids;  /* int32_t elements */
    int value; /* of an earlier step, with the same axis, columns and elements; PLAN_NONE: a new one */
};

/* Appends an index space to the plan. Returns its number. */
int plan_add_space(struct plan_builder *builder, const struct plan_space *space);

/* Limits a size. If the bounds of the free sizes suffice, it is checked now, else for each item. */
void plan_limit_size(struct plan_builder *builder, struct plan_size_limit limit);

/* Operations. They return the new value. */
int plan_embed(struct plan_builder *builder, int ids, int table);
int plan_add_positions(struct plan_builder *builder, int x, int table, int minor_table, int64_t period);
int plan_layer_norm(struct plan_builder *builder, int x, int gain, int bias, float epsilon);
/* Each group of columns is normalised over all rows of a sequence. gain and bias (columns of x), or PLAN_NONE. */
int plan_group_norm(struct plan_builder *builder, int x, int64_t groups, int gain, int bias, float epsilon);
int plan_linear(struct plan_builder *builder, int x, int weight, int bias);
int plan_activate(struct plan_builder *builder, int x, enum activation activation); /* one without parameters */
/* x may have ids, which become floats. With `to_ids` y has ids: the whole part of the result. A NaN, or a number that
 * int32_t does not hold, becomes INT32_MIN. */
int plan_activate_with(struct plan_builder *builder, int x, struct plan_activation activation, bool to_ids);
int plan_mask_rows(struct plan_builder *builder, int x, int mask);
int plan_add_sinusoids(struct plan_builder *builder, int x, int frequencies);
int plan_add(struct plan_builder *builder, int x, int z, float scale);
/* E and its bias, once for each group of columns. */
struct plan_projection {
    int weight, bias; /* bias (groups, k) or PLAN_NONE */
    int64_t groups;
    bool transposed; /* the weight is (groups * k, n), as nn.Linear has it; else (groups * n, k) */
};
int plan_project_sequence(struct plan_builder *builder, int x, struct plan_projection projection);

/* nn.Conv1d(d, d, stride, stride) along the sequence, for each group of columns. weight is (d, d * stride) and bias
 * (1, d). All groups share one weight and bias, or each group has its own; these are stacked by rows. `length` is the
 * sequence's. */
int plan_convolve_sequence(struct plan_builder *builder, int x, int weight, int bias, int64_t groups, int64_t stride,
                           int64_t length);

/* E (k, n) with bias (1, k) over the positions of calls. With `tail` (1, d), calls are n - 1 positions long, and `tail`
 * is the last position. PLAN_NONE: no tail. */
int plan_project_call(struct plan_builder *builder, int x, int weight, int bias, int tail);

struct plan_attention {
    int64_t heads, kv_heads;
    float scale;
    bool causal;
    int64_t key_room;
    bool masked; /* an item may give an attention mask */
    int mask;    /* its input; mask bytes equal to masked_byte add masked_score to the score */
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
/* `mask` is for the keys. */
int plan_linear_attend(struct plan_builder *builder, int queries, int keys, int values, int mask,
                       struct plan_head_range heads, int64_t fold);
/* Within one sequence: keys and values have the queries' axis. */
int plan_causal_linear_attend(struct plan_builder *builder, int queries, int keys, int values, int mask,
                              struct plan_head_range heads, int64_t fold, int64_t bucket);
/* The attention of ImageLinearAttention. Values may have another size than keys. There is no scale, and the softmax of
 * the queries is optional. */
int plan_image_linear_attend(struct plan_builder *builder, int queries, int keys, int values, int64_t heads,
                             bool softmax_queries);
int plan_local_attend(struct plan_builder *builder, int queries, int keys, int values, int mask,
                      struct plan_head_range heads, int64_t window, bool causal);
int plan_concatenate(struct plan_builder *builder, int x, int z);
int plan_append_rows(struct plan_builder *builder, int x, int z);

/* A row of x is a pixel of an image, which is a sequence of x's axis. With height and width, sizes say how large it is;
 * then y's axis is one of made_height * made_width rows, with x's sequences. Without them, the axis of x has the pixels
 * of an input. Pixels of LAYOUT_CHANNELS are an image of height 1. y has a new axis for its pixels. With keeps_pixels y
 * keeps x's axis; images whose pixel count would change are refused. */
struct plan_convolution {
    int weight, bias; /* weight of plan_kernel; bias (out), or PLAN_NONE */
    struct plan_window window;
    int64_t groups;                             /* of the columns of x and of y; 1: none */
    int height, width, made_height, made_width; /* sizes; PLAN_NONE: the image is an input's */
    float scale;
    bool keeps_pixels;
};
int plan_convolve_image(struct plan_builder *builder, int x, struct plan_convolution convolution);
int plan_gate(struct plan_builder *builder, int x, struct plan_activation activation);
int plan_retrieve(struct plan_builder *builder, int x, int keys, int values, int64_t heads);

/* Operations over a space, which is one of plan_add_space. Each element of y is written by one step at most. */

/* Copies. x and y are both ids, or both floats. */
int plan_arrange(struct plan_builder *builder, struct plan_source x, int space, struct plan_target y);
/* f(x, z), or f(z, x) if `z_first`. Ids become floats, so those above 2^24 are rounded. y has floats. */
int plan_combine(struct plan_builder *builder, enum plan_function function, int x, struct plan_source z, bool z_first,
                 int space, struct plan_target y);
/* x where `condition` is not 0, else z. The space's `keys` have the first element and the strides of the condition. If
 * y has ids, so have x and z, as far as they are values. If y has floats, ids become floats. */
int plan_select(struct plan_builder *builder, int condition, struct plan_source x, struct plan_source z, int space,
                struct plan_target y);

/* The last `reduced` dimensions of the space are reduced; y's strides there are 0, except for REDUCTION_CUMULATE,
 * which has one such dimension. x may have ids. `parameter`: see plan_reduction. */
int plan_reduce(struct plan_builder *builder, enum plan_reduction reduction, int x, int space, int reduced,
                float parameter, struct plan_target y);
/* Over the last dimension of the space. */
int plan_softmax(struct plan_builder *builder, int x, int space, bool logarithm, struct plan_target y);
/* The last dimensions of the space are m, n and k: y (m, n) = scale * x (m, k) z (k, n), for each element of those
 * before. The strides of x along n, of z along m and of y along k are not read. */
int plan_multiply(struct plan_builder *builder, int x, struct plan_source z, float scale, int space,
                  struct plan_target y);

/* The elements of x in the same order, with another number of columns or on another axis. An item keeps its number of
 * elements. */
int plan_reshape(struct plan_builder *builder, int x, int axis, int64_t columns);

int plan_cut_padding(struct plan_builder *builder, int x); /* returns x itself if the plan adds no padding */

/* Adds rows of zeros to each item. An item must have at most padding.rows rows, if that is set. */
int plan_pad_rows(struct plan_builder *builder, int x, struct plan_padding padding);
/* The mask of `padded`, a value of plan_pad_rows. `mask` has a row for each row without padding. PLAN_NONE: ones. The
 * result is PLAN_NONE if it would be ones everywhere. */
int plan_pad_mask(struct plan_builder *builder, int mask, int padded);

/* The model's results: the last hidden state, also pooled, and the class's output. `weight` and `bias` are the output
 * layer over the hidden state, if the class has one. Called once, as the last operation. In a scope the class's output
 * becomes a value of the plan, and names and sizes of outputs have no effect. */
void plan_give(struct plan_builder *builder, int hidden, int weight, int bias, bool logits);
/* After plan_give: the last hidden state is one row an item. The output's shape is then (columns), not (1, columns). */
void plan_give_vector(struct plan_builder *builder);

/* The outputs of a module, which are tensors. They replace plan_give: plan_add_output names an output and its sizes,
 * the batch not counted, and plan_give_tensor gives it the item's rows of x, which hold the elements in order. */
void plan_add_output(struct plan_builder *builder, const char *name, int rank, const int *sizes);
void plan_give_tensor(struct plan_builder *builder, int x, int output);
/* Replaces plan_give if the input is an image. */
void plan_give_image(struct plan_builder *builder, int x);
/* Replaces the names "output" and "attention.0" by the class's own. The strings are not copied. */
void plan_name_outputs(struct plan_builder *builder, const char *output, const char *attention);
/* Gives the output several sizes, whose product is its columns. Call it after plan_give. */
void plan_shape_output(struct plan_builder *builder, int count, const int64_t *sizes);

/* Removes steps whose results nothing reads. Attentions stay: items may request their softmax. */
void plan_drop_unread_steps(struct plan *plan);

/* Appends a zeroed element to one of the plan's arrays. The capacity is the next power of two. NULL: failed. */
void *plan_grow(struct plan_builder *builder, void *array, int *count, size_t size);

/* A step that reads x alone, without weights, for all items. */
struct plan_step plan_step_of(enum operation operation, int x);

/* Appends the step, which writes y. Returns its value. */
int plan_append_step(struct plan_builder *builder, struct plan_step step, struct plan_target y);

static inline const struct plan_value *plan_value_at(const struct plan_builder *builder, int value)
{
    return &builder->plan->values[value];
}

static inline const struct plan_weight *plan_weight_at(const struct plan_builder *builder, int weight)
{
    return &builder->plan->weights[weight];
}

#endif
