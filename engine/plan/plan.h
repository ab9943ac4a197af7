/* plan: what a model computes, as a flat array of steps over values. A model has one plan, which all backends run.
 *
 * A batch consists of items, such as sequences or images. A value is a row-major matrix that contains rows of all
 * items. Its axis states how many rows each item has. On most axes, this is the number of rows of an input, which
 * differs between items: n_b for item b. On a fixed axis, all items have the same number of rows. In memory, the rows
 * of item 1 follow the rows of item 0, and so on. An operation on single rows sees one matrix with all rows of the
 * batch. An operation that must know where a sequence begins reads the axis.
 *
 * A call (LAYOUT_CALL in item.h) is an item of w sequences. Row p * w + s of a call is position p of sequence s. So the
 * rows of the w sequences alternate. A projection from n to k positions projects each sequence by itself. It turns the
 * n * w rows of a call into k * w rows, for any w.
 *
 * A family is the file that builds plans for one Python library, through builder.h. After plan_finish, a plan changes
 * in one respect only: a backend may take over or free the data of its weights. Other words used here:
 *
 *     arena    one block of memory that holds all values of a batch
 *     module   a graph of operations and classes, which config.json describes
 *     leaf     a class that is a part of a module
 *     context  a second sequence, whose keys and values an attention reads. As a C parameter, it is a caller's pointer
 *     resume   to continue a sequence whose first rows were in an earlier batch
 *     slot     memory for one sequence. Between batches, it keeps the intermediate results that later rows need */
#ifndef ENGINE_PLAN_PLAN_H
#define ENGINE_PLAN_PLAN_H

#include "engine/plan/item.h"

#define PLAN_NONE (-1)

/* Kernels may write rows up to the next multiple of this number, so the arena reserves memory for them. */
#define PLAN_ROW_BLOCK 64

/* How many pairs of keys OP_RETRIEVE chooses for each row and head. operations.c has the formula. */
#define PLAN_BEST_KEYS 32

#define PLAN_CAUSAL_EPSILON 1e-3f /* the smallest denominator of OP_LINEAR_ATTEND */

/* engine/plan/operations.c has one row for each operation, with its formula and shapes. docs/adding-an-operation.md
 * lists all places that depend on an operation. */
enum operation {
    OP_EMBED,
    OP_ADD_POSITIONS,
    OP_LAYER_NORM,
    OP_GROUP_NORM,
    OP_LINEAR,
    OP_FEED_FORWARD,
    OP_ACTIVATE,
    OP_ADD,
    OP_MASK_ROWS,
    OP_ADD_SINUSOIDS,
    OP_PROJECT_SEQUENCE,
    OP_CONVOLVE_SEQUENCE,
    OP_PROJECT_CALL,
    OP_ATTEND,
    OP_ATTEND_CALL,
    OP_SHIFT_TOKENS,
    OP_ROTATE,
    OP_LINEAR_ATTEND,
    OP_LOCAL_ATTEND,
    OP_CONCATENATE,
    OP_APPEND_ROWS,
    OP_CONVOLVE_IMAGE,
    OP_CONVOLVE_GROUPS,
    OP_CONVOLVE_CHANNELS,
    OP_GATE,
    OP_GATHER_ROWS,
    OP_CUT_PADDING,
    OP_PAD_ROWS,
    OP_RESHAPE,
    OP_RETRIEVE,
    OP_ARRANGE,
    OP_COMBINE,
    OP_SELECT,
    OP_REDUCE,
    OP_SOFTMAX,
    OP_MULTIPLY,
    OP_GIVE_HIDDEN,
    OP_GIVE_POOLED,
    OP_GIVE_OUTPUT,
    OP_GIVE_IMAGE,
    OP_GIVE_TENSOR,
    OP_COUNT
};

/* Functions of two numbers. Comparisons and logical functions return 1 or 0. For a logical function, every operand
 * except 0 is true. The operands are x and z. As in torch, the remainder of x by z has the sign of z. The maximum or
 * minimum of a NaN and a number is a NaN. */
enum plan_function {
    FUNCTION_ADD,
    FUNCTION_SUBTRACT,
    FUNCTION_MULTIPLY,
    FUNCTION_DIVIDE,
    FUNCTION_FLOOR_DIVIDE,
    FUNCTION_TRUNCATE_DIVIDE,
    FUNCTION_REMAINDER,
    FUNCTION_POWER,
    FUNCTION_MAXIMUM,
    FUNCTION_MINIMUM,
    FUNCTION_EQUAL,
    FUNCTION_NOT_EQUAL,
    FUNCTION_LESS,
    FUNCTION_LESS_EQUAL,
    FUNCTION_AND,
    FUNCTION_OR,
    FUNCTION_XOR,
    FUNCTION_COUNT
};

/* Functions that reduce several numbers to one. REDUCTION_CUMULATE is an exception, and returns as many numbers as it
 * reads. As in torch, the result is a NaN if one of the numbers is a NaN. REDUCTION_ARGMAX treats a NaN as the largest
 * number. */
enum plan_reduction {
    REDUCTION_SUM,
    REDUCTION_MEAN,
    REDUCTION_MAXIMUM,
    REDUCTION_MINIMUM,
    REDUCTION_PRODUCT,
    REDUCTION_NORM,      /* the norm of order 1, 2 or infinity. The step's parameter is the order */
    REDUCTION_VARIANCE,  /* the sum of squared differences from the mean, divided by max(count - parameter, 0) */
    REDUCTION_DEVIATION, /* the square root of the variance */
    REDUCTION_ARGMAX,    /* the index of the first maximum, as a float */
    REDUCTION_CUMULATE,  /* running sums. Each result is a number plus all numbers before it */
    REDUCTION_COUNT
};

/* Functions of one number x. The parameters a and b are members of plan_activation. */
enum activation {
    ACTIVATION_NONE, /* x */
    ACTIVATION_GELU, /* x Φ(x). Φ is computed with the exact erf */
    ACTIVATION_RELU,
    ACTIVATION_GELU_TANH, /* GELU with a hyperbolic tangent in place of erf */
    ACTIVATION_SILU,      /* x sigmoid(x) */
    ACTIVATION_SIGMOID,
    ACTIVATION_TANH,
    ACTIVATION_LEAKY_RELU, /* a x if x < 0, else x */
    ACTIVATION_ELU,        /* a (e^x - 1) if x < 0, else x */
    ACTIVATION_SELU,
    ACTIVATION_SOFTPLUS, /* log(1 + e^(a x)) / a, or x if a x > b */
    ACTIVATION_CLAMP,    /* x limited to [a, b], or b if a > b */
    ACTIVATION_HARD_SWISH,
    ACTIVATION_HARD_SIGMOID,
    ACTIVATION_MISH, /* x tanh(log(1 + e^x)) */
    ACTIVATION_LOG_SIGMOID,
    ACTIVATION_AFFINE, /* a x + b */
    ACTIVATION_ABSOLUTE,
    ACTIVATION_SQUARE_ROOT,
    ACTIVATION_INVERSE_ROOT,
    ACTIVATION_SQUARE,
    ACTIVATION_RECIPROCAL,
    ACTIVATION_EXP,
    ACTIVATION_EXPM1, /* e^x - 1 */
    ACTIVATION_LOG,
    ACTIVATION_LOG1P, /* log(1 + x) */
    ACTIVATION_SIN,
    ACTIVATION_COS,
    ACTIVATION_ERF,
    ACTIVATION_FLOOR,
    ACTIVATION_CEIL,
    ACTIVATION_ROUND, /* half to even */
    ACTIVATION_TRUNCATE,
    ACTIVATION_SIGN,   /* -1, 0 or 1. The sign of a NaN is 0, as in torch */
    ACTIVATION_NOT,    /* 1 if x is 0, else 0 */
    ACTIVATION_IS_NAN, /* 1 or 0 */
    ACTIVATION_COUNT
};

struct plan_activation {
    enum activation kind;
    float a, b; /* parameters of some kinds */
};

struct plan_image {
    int64_t height, width;
};

/* The pixels that a convolution reads for one pixel of its result. [0] is along the height, [1] along the width. */
struct plan_window {
    int64_t size[2], stride[2];  /* in pixels. Each is at least 1 */
    int64_t before[2], after[2]; /* number of rows and columns of zeros around the image. `before` counts those at the
                                    top and left, `after` those at the bottom and right */
    int64_t dilation[2];         /* >= 1: distance between the window's pixels */
};

enum plan_axis_kind {
    AXIS_FIXED,     /* the same number of rows for each item */
    AXIS_INPUT,     /* the rows of an input, with its padding if it is padded */
    AXIS_PROJECTED, /* k rows for every n rows of the input */
    AXIS_WINDOW,    /* the pixels that a convolution makes from an input image */
    AXIS_PADDED,    /* the rows of another axis, padded by a step of the plan */
    AXIS_JOINED,    /* an item's rows on one axis, then its rows on another */
    AXIS_SIZED,     /* a number of rows that is computed from sizes of the item (see sizes.h). An item may consist of
                       several sequences */
    AXIS_WANTED,    /* the rows of another axis that the item requests, plus `reach` rows on either side of each */
};

/* How items are padded. At least one of the two members is 0. If both are 0, items are not padded. */
struct plan_padding {
    int64_t rows;     /* zeros are added until an item has this number of rows. Masks are 1 on the added rows */
    int64_t multiple; /* zeros are added up to the next multiple of this number. Masks are 0 on the added rows */
};

struct plan_axis {
    enum plan_axis_kind kind;
    int input;   /* index of the input that the number of rows depends on. PLAN_NONE if it depends on no single input */
    bool shared; /* items with the same source may share these rows (shared_rows.h). plan_finish sets it */
    union {      /* by kind */
        int64_t rows_per_item;
        struct plan_padding input_padding; /* AXIS_INPUT */
        struct {
            int of; /* index of the axis before padding */
            struct plan_padding by;
        } padded; /* AXIS_PADDED */
        struct {
            int64_t k, n;
        } projected;
        struct plan_window window;
        struct {
            int first, second; /* indices of axes */
        } joined;
        struct {
            int rows;      /* index of a size: the number of rows of one sequence */
            int sequences; /* index of a size: the number of sequences of an item. Their rows follow one another */
        } sized;           /* `input` is PLAN_NONE */
        struct {
            int of;        /* index of an axis of kind AXIS_INPUT */
            int64_t reach; /* number of neighbour rows on each side. There are fewer at the ends of an item */
        } wanted;
    };
};

#define PLAN_MAX_SIZES 4096
#define PLAN_SIZE_TERMS 8
#define PLAN_TERM_FACTORS 6

enum plan_factor_kind {
    FACTOR_FREE,      /* the size of one dimension of an input, which differs between items. Called a free size */
    FACTOR_QUOTIENT,  /* the quotient of two sizes, rounded down */
    FACTOR_REMAINDER, /* the remainder of two sizes */
};

/* A size is a sum of terms. A term is a coefficient times several factors. See sizes.h. */
struct plan_factor {
    enum plan_factor_kind kind;
    int depth; /* how many quotients and remainders are nested */
    union {
        struct {
            int input, dimension;
            int64_t least, most;
            char name[32]; /* the name of the size in messages and --explain. "" if the size has no name */
        } free;
        struct {
            int dividend, divisor; /* indices of sizes */
        } of;
    };
};

struct plan_term {
    int64_t coefficient;
    int n_factors, factors[PLAN_TERM_FACTORS];
};

struct plan_size {
    int n_terms;
    struct plan_term terms[PLAN_SIZE_TERMS];
};

#define PLAN_SPACE_RANK 8

struct plan_dimension {
    int count;         /* index of a size: the number of elements along the dimension, 0 or more */
    int x, z, keys, y; /* indices of sizes: the strides of the operands and of y */
};

/* The elements that a step visits in each item. Element (i, j, …) of the operand x is at offset x_first + i *
 * dimensions[0].x + j * dimensions[1].x + …. Offsets count elements from the start of the item's rows of x, or from the
 * start of the weight if x is a weight. The same holds for z, keys and y. Counts, offsets and strides are indices of
 * sizes, because their numbers may differ between items. A stride may be negative, or 0, which repeats an element. If a
 * step lacks an operand, the offset and strides of this operand are not read. The builder of the plan makes sure that
 * no element lies outside of its value. space.h evaluates a space for an item. */
struct plan_space {
    int rank;
    struct plan_dimension dimensions[PLAN_SPACE_RANK];
    int x_first, z_first, keys_first, y_first; /* indices of sizes: the offsets of the first element */
};

/* The limits that a size must keep in every item. */
struct plan_size_limit {
    int size;
    int64_t least, most, multiple; /* the size must be a multiple of `multiple`, which is at least 1 */
    char what[160];                /* names the size in messages, such as "the length of a slice" */
};

/* An output of a module, which is a tensor. Its sizes do not include the batch. */
struct plan_output {
    char *name;
    int rank;
    int sizes[ENGINE_MAX_RANK];
};

/* A result of a module's graph, for --explain. */
struct plan_node {
    char *name, *operation; /* the operation, or the class of a leaf */
    int rank;
    struct {
        int size;      /* index of a size: the dimension divided by the batch size, or the whole dimension if not
                          `batched` */
        bool batched;  /* whether the batch size is a factor of the dimension */
        bool is_inner; /* only if `batched`. true: the dimension is size * batch, and the batch varies fastest. false:
                          it is batch * size, and the batch varies slowest */
    } dimensions[PLAN_SPACE_RANK];
};

struct plan_value {
    int axis;
    int64_t columns;
    bool ids;      /* true: the elements are int32_t, which are ids or a mask. false: they are float */
    size_t offset; /* bytes from the start of the arena. Set by plan_finish */
    size_t bytes;  /* bytes of the value in the largest batch, with the number of rows rounded up to a multiple of
                      PLAN_ROW_BLOCK. Set by plan_finish */
    int first_step, last_step;
};

/* A weight in float32, row-major. A vector is a matrix of one row. The plan owns `data` until a backend takes it over.
 */
struct plan_weight {
    char *name;
    int64_t rows, columns;
    float *data;
    int64_t tensor; /* the weights_index of the file's tensor that became this weight. -1 if it was made of other
                       weights, or of numbers */
};

/* Selects the sequences that a step computes: all sequences with `least` to `most` rows on `axis`. If axis is
 * PLAN_NONE, the step computes every sequence. OP_PROJECT_SEQUENCE leaves rows of unselected sequences in y as they
 * are. OP_LINEAR may overwrite rows of unselected sequences with arbitrary values. */
struct plan_selection {
    int axis;
    int64_t least, most;
};

/* A step: the values that it reads and writes, its weights, and the parameters of its operation. An index is PLAN_NONE
 * if the step has no such value or weight. */
struct plan_step {
    enum operation operation;
    struct plan_selection only; /* OP_LINEAR, OP_PROJECT_SEQUENCE */
    int space;     /* index of the space: the elements that the step visits. PLAN_NONE for operations without a space */
    int y;         /* the value that is written. PLAN_NONE if the step writes the results of items instead */
    int64_t state; /* in a plan that resumes: offset of the step's data in a slot, in floats. PLAN_NONE if the step
                      keeps nothing in a slot */
    union {
        int reads[4];
        struct {
            int x, z;         /* z: the second operand, a residual or a mask */
            int keys, values; /* of the attention operations. `keys` is also the condition of OP_SELECT */
        };
    };
    union {
        int weights[5];
        struct {
            int weight, bias;               /* the first and second weight in the operation's formula:
                                               W and b, g and b, or E and e */
            int second_weight, second_bias; /* OP_FEED_FORWARD: U and c */
            int tail;                       /* OP_PROJECT_CALL: t */
        };
        struct {
            /* `table` is T of OP_EMBED and OP_ROTATE, or A of OP_ADD_POSITIONS. minor_table is B of OP_ADD_POSITIONS.
             */
            int table, minor_table;
        };
        struct {
            int value_table, key_table; /* OP_RETRIEVE: V and K */
        };
        struct {
            int x_weight, z_weight; /* for operations over a space: the weight that is the operand x or z */
        };
    };
    union { /* by operation */
        struct {
            int64_t period;
        } add_positions;
        struct {
            float epsilon;
        } layer_norm;
        struct {
            int64_t groups; /* number of groups of columns */
            float epsilon;
        } group_norm;
        struct {
            struct plan_activation activation;
        } linear;
        struct {
            struct plan_activation activation;
            bool gated;
        } feed_forward;
        struct {
            struct plan_activation activation;
        } activate, gate;
        struct {
            float scale;
        } add;
        struct {
            int64_t groups;   /* number of groups of columns */
            bool transposed;  /* true: the weight is (groups * k, n). false: it is (groups * n, k) */
            bool sums_column; /* allowed with one group only. y has an extra column E[:n_b]ᵀ 1. Its row j is the sum of
                                 E[p, j] over the positions p of the sequence */
            bool bias_column; /* allowed with one group only. y has an extra column e. Its row j is e[j] */
        } project_sequence;
        struct {
            int64_t groups; /* number of groups of columns */
            int64_t stride; /* rows of a window, and rows between the starts of two windows */
        } convolve_sequence;
        struct {
            int index; /* the attention's number, in order of execution. PLAN_NONE if the axis of x divides an item into
                          several sequences. Items then cannot request the softmax of this attention */
            int64_t heads, kv_heads; /* head h reads keys and values of head h * kv_heads / heads */
            int64_t key_room;        /* minimum number of keys. If a sequence has fewer, keys of zeros are added */
            float scale;
            bool causal;      /* only with OP_ATTEND: row p reads only keys 0 to p */
            int mask;         /* index of the optional input (not a value) that is the attention mask. PLAN_NONE if
                                 there is no mask */
            bool masked_byte; /* a mask byte adds masked_score to the score if (byte != 0) == masked_byte. If not, it
                                 adds 0 */
            float masked_score;
        } attend; /* also used by OP_ATTEND_CALL */
        struct {
            int64_t count; /* number of segments of columns, 2 or 3 */
            int64_t by[3]; /* for each segment: row p of y copies the segment's columns from row p - by of x */
        } shift_tokens;
        struct {
            int64_t first_head, heads;   /* the heads of x, K and V that the step reads. y has only these heads */
            int64_t dim_head, dim_value; /* features of a head's key (d) and value (d') */
            int64_t bucket, fold;        /* both are at least 1. See OP_LINEAR_ATTEND in operations.c */
            float scale;                 /* the factor c of the formula */
            bool causal, raw_queries;
        } linear_attend;
        struct {
            int64_t first_head, heads, dim_head; /* as in linear_attend */
            int64_t window; /* rows per window. The number of rows of every item without a slot is a multiple of
                               `window` */
            bool causal;
        } local_attend;
        struct {
            struct plan_window window;
            /* Indices of sizes: height and width of each image in x. PLAN_NONE if x contains an input image. */
            int height, width;
            int64_t groups; /* number of groups of columns */
            float scale;
        } convolve_image; /* also used by OP_CONVOLVE_GROUPS and OP_CONVOLVE_CHANNELS */
        struct {
            int64_t heads;
        } retrieve;
        struct {
            bool ones;    /* y is 1 in the rows of x, whatever x contains */
            int32_t fill; /* the number in the added rows if y is a mask. Added rows of ids and floats are 0 */
        } pad_rows;
        struct {
            enum plan_reduction reduction;
            int reduced; /* number of dimensions that are reduced, which are the last ones of the space */
            float parameter;
        } reduce;
        struct {
            bool logarithm;
        } softmax;
        struct {
            float scale;
        } multiply;
        struct {
            float x; /* used in place of every element of x, if the step has no value x and no weight x */
        } arrange;
        struct {
            enum plan_function function;
            bool z_first; /* the result is f(z, x) instead of f(x, z) */
            float z;      /* used in place of every element of z, if the step has no value z and no weight z */
        } combine;
        struct {
            float x, z; /* used in place of elements, as in arrange and combine */
        } select;
        struct {
            int output; /* index into plan->outputs */
        } give_tensor;
    };
};

#define PLAN_READS ((int)(sizeof((struct plan_step *)0)->reads / sizeof(int)))
#define PLAN_WEIGHTS ((int)(sizeof((struct plan_step *)0)->weights / sizeof(int)))

/* Floating point operations for an item of n rows: item + n * row. */
struct plan_flops {
    int64_t item, row;
};

/* A decision of a pass, for --explain. */
struct plan_decision {
    char what[192];
    struct plan_flops before, after;
    int64_t least_rows; /* items with fewer rows keep the operations of `before` */
    bool one_row;       /* `after` counts an item that requests one row, and `before` an item that requests all rows */
    int n_spared;       /* intermediate values that the pass removed */
    int spared[2];
};

struct plan_input {
    char *name; /* input.name points to it */
    struct model_input input;
    int sizes[ENGINE_MAX_RANK]; /* LAYOUT_TENSOR: indices of input.rank sizes */
    int value; /* the value with the rows of all items of the batch. PLAN_NONE if operations read each item's data in
                  place */
};

struct plan {
    struct plan_input inputs[ENGINE_MAX_INPUTS];
    int n_inputs;
    struct plan_axis *axes;
    int n_axes;
    struct plan_value *values;
    int n_values;
    struct plan_weight *weights;
    int n_weights;
    struct plan_step *steps;
    int n_steps;
    struct plan_factor *factors;
    int n_factors;
    struct plan_size *sizes;
    int n_sizes;
    struct plan_space *spaces;
    int n_spaces;
    struct plan_size_limit *size_limits;
    int n_size_limits;
    struct plan_decision *decisions;
    int n_decisions;

    struct plan_node *nodes; /* the nodes of a module's graph, in order */
    int n_nodes;
    /* The outputs of a module. Empty for a class, which has one output named output_name. */
    struct plan_output *outputs;
    int n_outputs;
    const char *output_name; /* name of the class's own output */
    /* Name of the softmax of the class's attention. NULL if the names are "attention.<i>". */
    const char *attention_name;
    int64_t output_sizes[ENGINE_MAX_RANK - 1]; /* their product is output_columns */
    int n_output_sizes;                        /* 0 if the output's only size is output_columns */
    int64_t output_columns, hidden_columns;
    int hidden_axis; /* the axis of the last hidden state. PLAN_NONE if the plan's results are tensors */
    bool vector;     /* the last hidden state is one row per item, and the output's shape has no size for the rows */
    bool has_logits;
    bool causal;    /* row p of the output says which id follows the rows up to p, so the model can generate */
    int64_t window; /* when the model generates text, the class reads only the last `window` rows of a sequence. 0 if
                       the class sets no such limit */
    int n_attentions;
    enum padding padding;

    /* Set by plan_resume (passes.h). */
    bool resumes;  /* the rows of a sequence may come in several batches */
    int unresumed; /* the first step that needs all rows at once. PLAN_NONE if there is none. If there is one, `resumes`
                      is false */
    int resumed_axis;     /* the axis of the sequence whose rows may come in several batches. Used only if `resumes` */
    int64_t state_floats; /* number of floats of a slot, at least 1 */
    int64_t n_slots;      /* number of slots. 0 if every item is a whole sequence */

    /* Set by plan_finish (builder.h). */
    int64_t max_rows; /* the largest sum of rows over the items of a batch, on an axis where items have different
                         numbers of rows */
    int64_t max_items;
    size_t arena_bytes;
};

void plan_free(struct plan *plan); /* NULL is harmless */

/* Returns the name of the operation, such as "linear". */
const char *operation_name(enum operation operation);

/* Return names such as "add" and "gelu". */
const char *function_name(enum plan_function function);
const char *activation_name(enum activation activation);

/* Returns a name such as "sum". */
const char *reduction_name(enum plan_reduction reduction);

/* The length of an item's input: its number of rows, and the size of the image that these rows form. If the rows form
 * no image, the height is 1. The image is set for an AXIS_WINDOW, and may be unset for other axes. */
struct plan_given {
    int64_t rows;
    struct plan_image image;
};

/* Functions that return the lengths of an item's inputs. `context` is the caller's pointer, such as a pointer to the
 * item. */
struct plan_lengths {
    /* The length of the item's input with index axis->input. For an AXIS_INPUT, the rows include padding. */
    struct plan_given (*axis)(const struct plan *plan, const struct plan_axis *axis, const void *context);
    /* The free size of an input's dimension. */
    int64_t (*dimension)(const struct plan *plan, int input, int dimension, const void *context);
};

/* Sets *value to the size for one item. Returns false if a number overflows, or if a divisor is less than 1. */
bool plan_size_value(const struct plan *plan, int size, const struct plan_lengths *lengths, const void *context,
                     int64_t *value);

bool plan_size_is_constant(const struct plan *plan, int size, int64_t *value);

/* Bounds of a size over all items. The bounds may be wider than necessary. INT64_MIN and INT64_MAX mean that there is
 * no bound. */
void plan_size_bounds(const struct plan *plan, int size, int64_t *least, int64_t *most);

/* Writes the size as text, such as "2*n + 1". A free size is written as its name. If it has no name, the name of its
 * input and the number of its dimension are written, such as "x.1". The batch dimension is written as "batch". Returns
 * `text`. */
const char *plan_size_text(const struct plan *plan, int size, char *text, size_t room);

/* The rows of one item on an axis, summed over its sequences. -1 if the number overflows, or if a size is below 0. */
int64_t plan_axis_rows(const struct plan *plan, int axis, const struct plan_lengths *lengths, const void *context);

/* The index of the size that counts the sequences of an item on the axis. PLAN_NONE if an item is one sequence. */
int plan_sequences(const struct plan *plan, int axis);

/* The number of sequences of one item on the axis. 0 if this number cannot be computed for the item. */
int64_t plan_axis_sequences(const struct plan *plan, int axis, const struct plan_lengths *lengths, const void *context);

/* Returns how many rows there are after padding `rows` rows. */
int64_t plan_padded_rows(struct plan_padding padding, int64_t rows);

/* Rows of a value for an item whose every input has `rows` rows, padding included. Optional inputs without a fallback
 * count as absent. Images are square. */
int64_t plan_value_rows(const struct plan *plan, int value, int64_t rows);

/* Like plan_value_rows, but returns the rows of one of the item's sequences. */
int64_t plan_value_sequence_rows(const struct plan *plan, int value, int64_t rows);

/* Whether the tokens of an item (model_item_tokens in engine.h) are its largest number of rows on any axis. This is the
 * case in plans of modules that return tensors, and in plans with LAYOUT_TENSOR or an AXIS_SIZED. In other plans, the
 * tokens are the largest number of rows among the item's inputs and its axes of the kinds AXIS_WINDOW, AXIS_JOINED and
 * AXIS_PADDED. */
bool plan_counts_axes(const struct plan *plan);

/* The largest number of rows of an item on any axis, at least 1. Sets *axis to this axis. Returns -1 if a size of the
 * item overflows, or if an axis has less than one row. Then *axis is the axis at fault. */
int64_t plan_item_rows(const struct plan *plan, const struct plan_lengths *lengths, const void *context, int *axis);

/* For plans with plan_counts_axes. Returns the largest n, from 1 to `rows`, for which no axis has more than `rows` rows
 * if all free sizes are n, clamped to their bounds. Returns 1 if there is no such n. */
int64_t plan_side(const struct plan *plan, int64_t rows);

/* Sets *value to the size for an item whose free sizes are all `side`, clamped to their bounds. Returns false in the
 * same cases as plan_size_value. */
bool plan_size_at(const struct plan *plan, int size, int64_t side, int64_t *value);

/* The number of rows of every sequence on the axis. 0 if it depends on the item. The rows of an input count as
 * depending on the item. */
int64_t plan_constant_rows(const struct plan *plan, int axis);

/* Like plan_constant_rows, but also counts inputs: for the axis of an input whose number of rows is fixed by padding or
 * by the model, returns this number. */
int64_t plan_same_rows(const struct plan *plan, int axis);

/* Like plan_constant_rows, but for the rows of an item, summed over its sequences. Sets *rows to this number. Returns
 * false if it depends on the item. */
bool plan_rows_are_constant(const struct plan *plan, int axis, int64_t *rows);

/* The index of an attention's softmax in model_info.outputs. */
static inline int plan_attention_output(const struct plan *plan, int attention)
{
    return (plan->n_outputs > 0 ? plan->n_outputs : 1) + attention;
}

/* A lower bound of the rows of every item on the axis. 0 if none is known. */
int64_t plan_least_rows(const struct plan *plan, int axis);

/* The number of rows of an axis in the largest batch of n_items items. INT64_MAX if the number overflows. */
int64_t plan_most_rows(const struct plan *plan, int axis, int64_t n_items);

/* The number of sequences of an axis in the largest batch of n_items items. It is at most the number of rows, because a
 * sequence has at least one row. */
int64_t plan_most_sequences(const struct plan *plan, int axis, int64_t n_items);

/* The largest number of rows of one sequence on the value's axis. */
int64_t plan_most_sequence_rows(const struct plan *plan, int value);

/* Whether an item may have no rows for the input. This is allowed if the input is optional, has no fallback, and need
 * not have as many rows as another input (model_input.like). */
bool plan_may_lack(const struct plan *plan, int input);

/* Whether the image, with the window's zeros around it, is at least as large as the window. Only then may
 * plan_convolved be called. plan_convolved returns the size of the convolution's result. */
bool plan_window_fits(const struct plan_window *window, struct plan_image image);
struct plan_image plan_convolved(const struct plan_window *window, struct plan_image image);

/* Whether the step is a convolution of an image that has the size of the input image. The size differs between items,
 * so each item's size must be checked. */
static inline bool plan_convolves_input(const struct plan_step *step)
{
    bool convolves = step->operation == OP_CONVOLVE_IMAGE || step->operation == OP_CONVOLVE_GROUPS ||
                     step->operation == OP_CONVOLVE_CHANNELS;
    return convolves && step->convolve_image.height == PLAN_NONE;
}

static inline bool plan_reads_value(const struct plan_step *step, int value)
{
    bool reads = false;
    for (int i = 0; i < PLAN_READS; i++)
        reads |= step->reads[i] == value;
    return reads;
}

static inline bool plan_reads_weight(const struct plan_step *step, int weight)
{
    bool reads = false;
    for (int i = 0; i < PLAN_WEIGHTS; i++)
        reads |= step->weights[i] == weight;
    return reads;
}

/* Floating point operations of a step for one item of `rows` rows. A multiplication and an addition count as two. */
int64_t plan_step_flops(const struct plan *plan, const struct plan_step *step, int64_t rows);

#endif
