/* builder: the functions with which a family (families/) builds a plan from config and weights. A family is the file
 * for one Python library. With these functions, its code looks like forward() of the Python library.
 *
 *     plan_begin -> inputs, weights, operations -> plan_give -> plan_finish or plan_check
 *
 * These functions record the first failure in the builder. After a failure they do nothing and return PLAN_NONE or
 * NULL, so a family needs no checks between calls. plan_finish runs the passes (passes.h), which rewrite the plan so
 * that it computes the same results with fewer operations. Then plan_finish finds each value's lifetime and its place
 * in one arena, the memory of all values of a batch.
 *
 * A class can also be built as a leaf, which is a part of a larger plan. Between plan_open_scope and plan_close_scope
 * the scope of the leaf is open. In an open scope, the inputs and the output of the class are values of the larger
 * plan. The names of the class's tensors begin with the leaf's path.
 *
 * The functions are in builder.c (beginning, failures), inputs.c, scope.c, require.c (limits of rows), weights.c,
 * derived.c (weights made of other weights), steps.c (operations), names.c (names of tensors) and finish.c. */
#ifndef ENGINE_PLAN_BUILDER_H
#define ENGINE_PLAN_BUILDER_H

#include "engine/plan/plan.h"
#include "weights/weights.h"

#define PLAN_PREFIX_BYTES 64
#define PLAN_NAME_BYTES 512 /* size of a buffer for the name of a tensor in the file, including the path of a leaf */

/* A class within a larger plan. All memory is borrowed. */
struct plan_leaf {
    const char *class_name; /* as in config.json */
    const char *path; /* precedes the names of the leaf's tensors, separated by a point. "" if the names have no path */
    struct json_t *kwargs;
    enum padding padding;
    int n_inputs;
    struct plan_binding {
        const char *name; /* the parameter's name in the class's forward() */
        int value;        /* a value of the larger plan, on an axis without padding */
        bool image; /* whether the rows of the value are the pixels of images. Then `height` and `width` are indices of
                       sizes: the size of each image */
        int height, width;
    } inputs[ENGINE_MAX_INPUTS];
};

/* The leaf that is being built. */
struct plan_scope {
    const struct plan_leaf *leaf;         /* NULL if no scope is open */
    enum padding outer_padding;           /* builder->padding outside of the scope */
    bool taken[ENGINE_MAX_INPUTS];        /* for each of leaf->inputs: whether the class has declared the input */
    const char *names[ENGINE_MAX_INPUTS]; /* the inputs of the class, in the order of their declaration */
    int values[ENGINE_MAX_INPUTS];        /* the values of these inputs. PLAN_NONE for an absent input */
    int n_inputs;
    int height, width; /* indices of sizes: the image that is bound to an input. PLAN_NONE if no image is bound */
    int output;        /* the value that the class returns. PLAN_NONE until the class calls plan_give */
};

struct plan_builder {
    struct plan *plan;
    const struct weights *weights;
    bool *used; /* for each tensor of the file, in the order of weights_index: whether the plan uses the tensor */
    /* Patterns for the names of tensors that the file may contain although the class lacks them. Borrowed. NULL if
     * there are no patterns. */
    const struct json_t *ignore;
    char prefix[PLAN_PREFIX_BYTES]; /* prefix that a Python wrapper puts before the class's names in the file, such as
                                       "module." */
    bool prefix_known;              /* the prefix is final, because a tensor was found with it */
    enum padding padding;           /* padding of the class that is being built. Set by plan_choose_padding */
    struct plan_scope scope;
    struct error *error;
    bool failed;
    bool without_data; /* build only to compare names, dtypes and shapes. The caller sets it after plan_begin, and ends
                          with plan_check */
    bool as_built;     /* for tests: skip the passes, so that results with and without them can be compared */

    int64_t n_slots;          /* the number of slots, for plan_resume (passes.h). 0 if every item is a whole sequence */
    size_t image_arena_bytes; /* limit for plan_enlarge_images (passes.h). 0 if images have at most max_rows pixels */

    /* Called with taken_elements / all_elements: the part of the file's elements that is already read. May be NULL. */
    void (*progress)(void *context, double fraction);
    void *progress_context;
    int64_t taken_elements, all_elements;
};

/* After success the caller must call plan_finish or plan_check, even if a later call fails. */
int plan_begin(struct plan_builder *builder, const struct weights *weights, struct error *error);

/* Ends building. Refuses a file with tensors that the class does not have. Runs the passes, then plans memory for
 * batches of max_rows rows and max_items items. If an input can be longer than max_rows, max_rows is raised to the
 * input's maximum length. After success the caller must call plan_free. After failure there is nothing to free. */
int plan_finish(struct plan_builder *builder, int64_t max_rows, int64_t max_items, struct plan **plan);

/* Ends building with `without_data`. Refuses a file with tensors that the class does not have. The tensors need no data
 * yet, so a caller can check the file first and read the data afterwards. The weights of *plan have no data, and its
 * values have no places. After success the caller must call plan_free. */
int plan_check(struct plan_builder *builder, struct plan **plan);

/* Records a failure that the family itself detects. Always returns PLAN_NONE. */
int plan_fail(struct plan_builder *builder, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Records that the file lacks a tensor. `shape` is the expected shape, as a text for the message. If the name of an
 * unused tensor ends with the missing name, the message mentions the unused tensor. torch's DataParallel causes such
 * names by its prefix "module.". */
int plan_fail_missing(struct plan_builder *builder, const char *name, const char *shape);

/* Finds a tensor of the file by the name that the class gives it. The file may have a wrapper's prefix before all
 * names, or the names of an older version of the library. Returns NULL if the file lacks the tensor, without recording
 * a failure. */
const struct weights_tensor *plan_find_tensor(struct plan_builder *builder, const char *name);

/* Whether "ignore" in config.json has a pattern for the tensor's name. */
bool plan_ignores(const struct plan_builder *builder, const char *name);

/* Between these two calls, the build function of a class builds a leaf. Scopes do not nest. plan_close_scope returns
 * the class's output. */
void plan_open_scope(struct plan_builder *builder, const struct plan_leaf *leaf);
int plan_close_scope(struct plan_builder *builder);

/* `ids` is a value that contains the ids of an input, perhaps in other rows. Limits the ids of this input to 0 <= id <
 * vocabulary. `what` names the reader of the ids in messages. */
void plan_limit_ids(struct plan_builder *builder, int ids, int64_t vocabulary, const char *what);

/* These functions declare inputs, in the order of the parameters of forward(). Call plan_choose_padding first. They
 * return the input's value. The plan copies the name. A max_length of 0 means that the model has no limit. With padding
 * "exact", max_length is the only length allowed. `fallback` is the index of an earlier input whose rows replace an
 * absent input, or PLAN_NONE. An input with a fallback is optional.
 *
 * In a scope they return the value that the leaf binds to the name. For an absent input they return the value of the
 * fallback, if there is a fallback. Otherwise they return PLAN_NONE for an optional input, and for a mask that would be
 * ones everywhere. */
int plan_input_ids(struct plan_builder *builder, const char *name, int64_t vocabulary, int64_t max_length,
                   int fallback);
int plan_input_rows(struct plan_builder *builder, const char *name, int64_t columns, int64_t max_length, int fallback);
/* plan_input_image declares an image of any size (LAYOUT_IMAGE). plan_input_pixels declares optional pixels
 * (LAYOUT_CHANNELS). A row of the value is a pixel. item.h documents `refused`. */
int plan_input_image(struct plan_builder *builder, const char *name, int64_t channels);
int plan_input_pixels(struct plan_builder *builder, const char *name, int64_t channels, const char *refused);
/* These two functions declare an optional mask, and rows of floats, which are optional only with a fallback. Both have
 * as many rows as another input, whose value is `like`. */
int plan_input_mask(struct plan_builder *builder, const char *name, int like);
int plan_input_rows_like(struct plan_builder *builder, const char *name, int64_t columns, int like, int fallback);
/* Declares an optional input without a value. Operations read such an input in place, from the memory of each item. Its
 * kind is INPUT_ATTENTION_MASK or INPUT_IGNORED. The caller sets the members of `input` that this kind uses. The input
 * has as many rows as another input, whose value is `like`. Returns the index of the new input. In a scope the function
 * returns PLAN_NONE, and fails if the leaf binds a value to an INPUT_ATTENTION_MASK. */
int plan_input_beside(struct plan_builder *builder, struct model_input input, int like);
/* Declares a tensor of any shape (LAYOUT_TENSOR): `sizes` are the indices of `rank` sizes, without the batch. `kind` is
 * INPUT_IDS, INPUT_ROWS or INPUT_MASK. A row of the value consists of `columns` innermost elements of the tensor.
 * `columns` is 1 for ids and masks. The axis of the value is plan_sized_axis(elements / columns, 1). */
int plan_input_tensor(struct plan_builder *builder, const char *name, enum input_kind kind, int64_t vocabulary,
                      int rank, const int *sizes, int64_t columns);
/* Declares that the class reads whole calls of forward(): an item contains all sequences of a call. Sets the input's
 * layout to LAYOUT_CALL (item.h). In a scope the function changes no layout. It only checks that the value has the rows
 * of an input of the larger plan with LAYOUT_CALL, and fails otherwise. */
void plan_call_layout(struct plan_builder *builder, int input_value);

/* Pads each item of the input to `rows` rows, with zeros or ids 0. The model's results contain the rows of the unpadded
 * item only. Masks are 1 on added rows. Returns the padded value. In a scope, this is a padded copy, or the value
 * itself if it needs no more rows. Use the returned value from then on. Declare inputs with the same number of rows
 * after this call, with the returned value as `like`. */
int plan_pad(struct plan_builder *builder, int input_value, int64_t rows);

/* Like plan_pad, but pads to the next multiple of `multiple` rows, as the class Autopadder does. Masks are 0 on added
 * rows. */
int plan_pad_to_multiple(struct plan_builder *builder, int input_value, int64_t multiple);
/* Makes the model refuse items whose number of rows, padding included, is not a multiple of `multiple`. */
void plan_require_multiple(struct plan_builder *builder, int input_value, int64_t multiple);

/* Sets the padding that the configuration requests, or the class's default if it requests none. `allowed` ends with
 * PADDING_DEFAULT. */
enum padding plan_choose_padding(struct plan_builder *builder, const char *class_name, enum padding asked,
                                 const enum padding *allowed);

/* These functions read a weight by its name, given as a printf format, and convert it to float32. They return the
 * weight's index. */
int plan_vector(struct plan_builder *builder, int64_t columns, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
int plan_matrix(struct plan_builder *builder, int64_t rows, int64_t columns, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* Reads a tensor of any shape, given as `rank` sizes. The last size becomes the columns of the weight (rows, columns).
 */
int plan_tensor(struct plan_builder *builder, int rank, const int64_t *shape, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* States another name of a weight that two parts of the class share. The file must also have this name. It is an alias
 * of the weight's tensor (weights.h), or the name of a second tensor that equals the weight's tensor. */
void plan_share_weight(struct plan_builder *builder, int weight, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Makes one weight from the rows of several weights, which have the same number of columns. */
int plan_stack_weights(struct plan_builder *builder, const int *weights, int64_t count);
/* Makes a weight (rows, columns) from the elements of another weight, beginning with element `first`. */
int plan_slice_weight(struct plan_builder *builder, int weight, int64_t first, int64_t rows, int64_t columns);
/* Makes the transpose (columns, rows) of a weight, whose elements are read as a matrix of `rows` rows. */
int plan_transpose(struct plan_builder *builder, int weight, int64_t rows);
/* Reorders a weight of nn.Conv2d (out, in, height, width) for plan_convolve_image: (out, height * width * in). If there
 * are groups, `in` counts the input channels of one group. The height of an nn.Conv1d is 1. */
int plan_kernel(struct plan_builder *builder, int weight, int64_t out, int64_t in);

/* The next functions are for modules, whose weights have the shapes that the file states. */

/* Reads the tensor of this name, of any shape and any type. Integers and booleans become float32. Sets *rank, at most
 * WEIGHTS_MAX_RANK, and the sizes in `shape`. The last size becomes the columns of the weight. */
int plan_named_weight(struct plan_builder *builder, const char *name, int *rank, int64_t *shape);

/* Makes a weight (rows, columns) from some elements of another weight. The result has counts[0] * counts[1] * …
 * elements. Element (i, j, …) is the other weight's element at first + i * strides[0] + j * strides[1] + …. If this
 * selects all elements in order, and the shape stays the same, the function returns the other weight itself. */
int plan_view_weight(struct plan_builder *builder, int weight, int rank, const int64_t *counts, const int64_t *strides,
                     int64_t first, int64_t rows, int64_t columns);

/* Makes a weight with the elements first, first + step, first + 2 * step … */
int plan_number_weight(struct plan_builder *builder, int64_t rows, int64_t columns, float first, float step);

/* Turns a batch norm with running statistics into x * scale + shift. All weights are vectors of the same length.
 * Returns scale, and sets *shift. */
int plan_batch_norm(struct plan_builder *builder, int gain, int bias, int mean, int variance, double epsilon,
                    int *shift);

/* Makes the matrix (2 * bins, n) of the discrete Fourier transform of frames of n samples. Its rows are alternately
 * cosines and negative sines. Each row is multiplied by `scale` and by the window function of the frame, such as a Hann
 * window. `taper` (1, length) is the weight with this function, a factor for each of the `length` samples in the middle
 * of the frame. PLAN_NONE stands for factors of 1. The factors of the other samples are 0. */
int plan_fourier_weight(struct plan_builder *builder, int64_t n, int64_t length, int64_t bins, int taper, double scale);

/* Makes the matrix (out, in) that interpolates `in` samples linearly to `out` samples. Sample i of the result is at
 * position (i + 1/2) * step - 1/2 of the source, limited to [0, in - 1]. If `aligned`, its position is i * (in - 1) /
 * (out - 1), or 0 if `out` is 1. */
int plan_interpolation_weight(struct plan_builder *builder, int64_t in, int64_t out, double step, bool aligned);

/* Makes the matrix (out, in) that computes the means of `out` windows over `in` samples. Window i begins with sample
 * floor(i * in / out), and ends before sample ceil((i + 1) * in / out). */
int plan_windows_weight(struct plan_builder *builder, int64_t in, int64_t out);

/* Makes a weight with `count` more columns. Each new column is a vector with one element for each row of the weight, or
 * PLAN_NONE for a column of ones. */
int plan_widen(struct plan_builder *builder, int weight, const int *columns, int count);

/* The elements that a step reads: those of a value, those of a weight, or one number in place of all elements. */
struct plan_source {
    int value, weight; /* PLAN_NONE if not used */
    float number;
};

/* The value that a step writes: a new value, or a value whose other parts earlier steps have written. */
struct plan_target {
    int axis;
    int64_t columns;
    bool ids;  /* the elements are int32_t, not float */
    int value; /* a value that an earlier step has written in part, with the same axis, columns and type of elements.
                  PLAN_NONE for a new value */
};

/* Appends a space to the plan: the elements that a step visits (struct plan_space in plan.h). Returns its index. */
int plan_add_space(struct plan_builder *builder, const struct plan_space *space);

/* Limits a size. If the bounds of the free sizes show that no item can keep the limit, this is a failure. If they show
 * that every item keeps the limit, no item is checked. Otherwise each item is checked. */
void plan_limit_size(struct plan_builder *builder, struct plan_size_limit limit);

/* Operations. Each function appends a step to the plan, and returns the new value. operations.c has their formulas and
 * shapes. A weight or bias may be PLAN_NONE where the formula allows none. */
int plan_embed(struct plan_builder *builder, int ids, int table);
int plan_add_positions(struct plan_builder *builder, int x, int table, int minor_table, int64_t period);
int plan_layer_norm(struct plan_builder *builder, int x, int gain, int bias, float epsilon);
/* Each group of columns is normalised over all rows of a sequence. gain and bias are (columns of x), or PLAN_NONE. */
int plan_group_norm(struct plan_builder *builder, int x, int64_t groups, int gain, int bias, float epsilon);
int plan_linear(struct plan_builder *builder, int x, int weight, int bias);
int plan_activate(struct plan_builder *builder, int x, enum activation activation); /* `activation` has no parameters */
/* x may hold ids, which become floats. If `to_ids`, y holds ids, and each is the integer part of the result. A NaN, or
 * a number outside of int32_t, becomes INT32_MIN. */
int plan_activate_with(struct plan_builder *builder, int x, struct plan_activation activation, bool to_ids);
int plan_mask_rows(struct plan_builder *builder, int x, int mask);
int plan_add_sinusoids(struct plan_builder *builder, int x, int frequencies);
int plan_add(struct plan_builder *builder, int x, int z, float scale);
/* The projections E of a sequence, with their biases: one for each group of columns. */
struct plan_projection {
    int weight, bias; /* bias (groups, k) or PLAN_NONE */
    int64_t groups;
    bool transposed; /* true: the weight is (groups * k, n), as in nn.Linear. false: it is (groups * n, k) */
};
int plan_project_sequence(struct plan_builder *builder, int x, struct plan_projection projection);

/* nn.Conv1d(d, d, stride, stride) along the sequence, for each group of d columns. weight is (d, d * stride) and bias
 * (1, d). All groups share one weight and bias, or each group has its own. In the second case, the weights are stacked
 * by rows, and the biases, too. `length` is the length of the sequence. */
int plan_convolve_sequence(struct plan_builder *builder, int x, int weight, int bias, int64_t groups, int64_t stride,
                           int64_t length);

/* Projects each sequence of a call from n to k positions. weight is E (k, n), and bias is (1, k). A `tail` (1, columns
 * of x) is one more position. With a tail, each sequence of the call has n - 1 positions. The tail is then the last of
 * the n positions that E reads. `tail` is PLAN_NONE if there is none. */
int plan_project_call(struct plan_builder *builder, int x, int weight, int bias, int tail);

struct plan_attention {
    int64_t heads, kv_heads;
    float scale;
    bool causal;
    int64_t key_room; /* minimum number of keys. If a sequence has fewer, keys of zeros are added */
    bool masked;      /* an item may contain an attention mask */
    int mask; /* index of the input that is the mask. A mask byte adds masked_score to the score if (byte != 0) ==
                 masked_byte */
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
/* The table is (positions, dim_head). A row contains dim_head / 2 sines, then dim_head / 2 cosines. */
int plan_rotate(struct plan_builder *builder, int x, int table);
/* `mask` selects the keys that the attention reads. */
int plan_linear_attend(struct plan_builder *builder, int queries, int keys, int values, int mask,
                       struct plan_head_range heads, int64_t fold);
/* Queries, keys and values are rows of the same sequence, so they have the same axis. */
int plan_causal_linear_attend(struct plan_builder *builder, int queries, int keys, int values, int mask,
                              struct plan_head_range heads, int64_t fold, int64_t bucket);
/* The attention of ImageLinearAttention. Values and keys may have different numbers of features. There is no scale, and
 * the softmax of the queries is optional. */
int plan_image_linear_attend(struct plan_builder *builder, int queries, int keys, int values, int64_t heads,
                             bool softmax_queries);
int plan_local_attend(struct plan_builder *builder, int queries, int keys, int values, int mask,
                      struct plan_head_range heads, int64_t window, bool causal);
int plan_concatenate(struct plan_builder *builder, int x, int z);
int plan_append_rows(struct plan_builder *builder, int x, int z);

/* A convolution of images. Each sequence on the axis of x is an image, and a row of x is a pixel. If height and width
 * are set, they are the sizes of each image in x. The axis of y then has as many sequences as the axis of x, each with
 * made_height * made_width rows. If height and width are PLAN_NONE, the rows of x are the pixels of an input, and y is
 * on a new axis. Pixels of LAYOUT_CHANNELS form an image of height 1. If keeps_pixels is set, y has the axis of x, and
 * images are refused if the convolution would change their number of pixels. */
struct plan_convolution {
    int weight, bias; /* the weight is made by plan_kernel. The bias is (out), or PLAN_NONE */
    struct plan_window window;
    int64_t groups;                             /* number of groups of columns of x and y, at least 1 */
    int height, width, made_height, made_width; /* indices of sizes. PLAN_NONE if x holds an input image */
    float scale;
    bool keeps_pixels;
};
int plan_convolve_image(struct plan_builder *builder, int x, struct plan_convolution convolution);
int plan_gate(struct plan_builder *builder, int x, struct plan_activation activation);
int plan_retrieve(struct plan_builder *builder, int x, int keys, int values, int64_t heads);

/* Operations over a space. `space` is an index from plan_add_space. At most one step may write each element of y. */

/* Copies elements. x and y both hold ids, or both hold floats. */
int plan_arrange(struct plan_builder *builder, struct plan_source x, int space, struct plan_target y);
/* Computes f(x, z), or f(z, x) if `z_first`. Ids become floats, so ids above 2^24 are rounded. y holds floats. */
int plan_combine(struct plan_builder *builder, enum plan_function function, int x, struct plan_source z, bool z_first,
                 int space, struct plan_target y);
/* Selects x where `condition` is not 0, and z elsewhere. The offset and strides of the condition are the members
 * keys_first and keys of the space. If y holds ids, x and z must each be a value that holds ids, or a number. If y
 * holds floats, ids become floats. */
int plan_select(struct plan_builder *builder, int condition, struct plan_source x, struct plan_source z, int space,
                struct plan_target y);

/* Reduces the last `reduced` dimensions of the space. The strides of y along these dimensions are 0. REDUCTION_CUMULATE
 * is an exception: it reduces one dimension, and y has a stride along this dimension. x may hold ids. enum
 * plan_reduction documents `parameter`. */
int plan_reduce(struct plan_builder *builder, enum plan_reduction reduction, int x, int space, int reduced,
                float parameter, struct plan_target y);
/* The softmax over the last dimension of the space, or its logarithm. */
int plan_softmax(struct plan_builder *builder, int x, int space, bool logarithm, struct plan_target y);
/* The last dimensions of the space are m, n and k. Computes y (m, n) = scale * x (m, k) z (k, n), once for each index
 * of the dimensions before m. The strides of x along n, of z along m and of y along k are not read. */
int plan_multiply(struct plan_builder *builder, int x, struct plan_source z, float scale, int space,
                  struct plan_target y);

/* Returns the elements of x in the same order, with another number of columns or on another axis. The number of
 * elements of an item stays the same. */
int plan_reshape(struct plan_builder *builder, int x, int axis, int64_t columns);

int plan_cut_padding(struct plan_builder *builder, int x); /* returns x itself if x has no padding */

/* Adds rows of zeros to each item. If padding.rows is set, an item must have at most this many rows. */
int plan_pad_rows(struct plan_builder *builder, int x, struct plan_padding padding);
/* Makes the mask of `padded`, a value that plan_pad_rows returned. `mask` is the mask before padding, or PLAN_NONE for
 * ones. Returns PLAN_NONE if the new mask would be ones everywhere. */
int plan_pad_mask(struct plan_builder *builder, int mask, int padded);

/* States the model's results: the last hidden state, its pooled form, and the class's output. `weight` and `bias` are
 * the output layer over the hidden state, or PLAN_NONE if the class has none. Call it once, as the last operation. In a
 * scope the class's output becomes a value of the larger plan. Names and sizes of outputs then have no effect. */
void plan_give(struct plan_builder *builder, int hidden, int weight, int bias, bool logits);
/* Call it after plan_give if the last hidden state is one row per item. The output's shape is then (columns), not (1,
 * columns). */
void plan_give_vector(struct plan_builder *builder);

/* Records a result of a module's graph for --explain. `shape` gives its rank and dimensions. */
void plan_add_node(struct plan_builder *builder, const char *name, const char *operation,
                   const struct plan_node *shape);

/* The outputs of a module, which are tensors. These two functions replace plan_give. plan_add_output appends an output
 * with its name and the indices of its sizes, without the batch. plan_give_tensor fills output number `output` with the
 * item's rows of x, which contain the output's elements in order. */
void plan_add_output(struct plan_builder *builder, const char *name, int rank, const int *sizes);
void plan_give_tensor(struct plan_builder *builder, int x, int output);
/* Replaces plan_give if the input is an image. */
void plan_give_image(struct plan_builder *builder, int x);
/* Replaces the names "output" and "attention.0" by the names that the class uses. The strings are not copied. */
void plan_name_outputs(struct plan_builder *builder, const char *output, const char *attention);
/* Splits the columns of the output into `count` sizes, whose product is the number of columns. Call it after plan_give.
 */
void plan_shape_output(struct plan_builder *builder, int count, const int64_t *sizes);

/* Appends a zeroed element to one of the plan's arrays, and returns the element. The capacity is the next power of two.
 * Returns NULL if memory is lacking, and records the failure. */
void *plan_grow(struct plan_builder *builder, void *array, int *count, size_t size);

/* Returns a step that reads only x and has no weights. It computes all sequences (plan_selection). */
struct plan_step plan_step_of(enum operation operation, int x);

/* Appends the step. It writes the value that y describes. Returns this value. */
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
