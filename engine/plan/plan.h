/* plan: what a model computes, as a flat array of steps over values. It is the same for every backend.
 *
 * A value is a row-major matrix with one row for each row of its axis. An axis gives the number of rows of each item:
 * those of an input (n_b rows for item b, which may differ), or a fixed number. The rows of a batch's items follow one
 * another. Operations on single rows see one matrix of all rows of the batch. Operations that depend on where a
 * sequence begins read the axis.
 *
 * A call (LAYOUT_CALL) is an item of w sequences. Its row p * w + s is position p of sequence s. A projection from n to
 * k positions makes k rows of every n rows of the input, for any w.
 *
 * A family builds a plan through builder.h. After plan_finish only the weights may change: a backend may take over or
 * free their data. */
#ifndef ENGINE_PLAN_PLAN_H
#define ENGINE_PLAN_PLAN_H

#include "engine/plan/item.h"

#define PLAN_NONE (-1)
#define PLAN_ROW_BLOCK 64 /* kernels may write rows up to the next multiple; the arena has room for them */

#define PLAN_BEST_KEYS 32         /* OP_RETRIEVE sums the values of this many best key pairs */
#define PLAN_CAUSAL_EPSILON 1e-3f /* OP_LINEAR_ATTEND's least denominator */

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

/* Functions of two numbers. Comparisons and logic give 1 or 0; a number that is not 0 is true. The
 * operands are x and z. As in torch, the remainder of x by z has the sign of z, and a NaN wins over every number. */
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

/* What becomes of several numbers. A NaN among them wins, as in torch. */
enum plan_reduction {
    REDUCTION_SUM,
    REDUCTION_MEAN,
    REDUCTION_MAXIMUM,
    REDUCTION_MINIMUM,
    REDUCTION_PRODUCT,
    REDUCTION_NORM,      /* of order 1, 2 or infinity: the parameter */
    REDUCTION_VARIANCE,  /* the sum of squares is divided by their count less the parameter */
    REDUCTION_DEVIATION, /* the variance's root */
    REDUCTION_ARGMAX,    /* the index of the first maximum, as a float */
    REDUCTION_CUMULATE,  /* running sums: each number plus all numbers before it */
    REDUCTION_COUNT
};

/* Functions of one number; a and b are members of plan_activation. */
enum activation {
    ACTIVATION_NONE, /* x */
    ACTIVATION_GELU, /* x Φ(x), Φ by the exact erf */
    ACTIVATION_RELU,
    ACTIVATION_GELU_TANH, /* GELU with a hyperbolic tangent in place of erf */
    ACTIVATION_SILU,      /* x sigmoid(x) */
    ACTIVATION_SIGMOID,
    ACTIVATION_TANH,
    ACTIVATION_LEAKY_RELU, /* a x below 0 */
    ACTIVATION_ELU,        /* a (e^x - 1) below 0 */
    ACTIVATION_SELU,
    ACTIVATION_SOFTPLUS, /* log(1 + e^(a x)) / a; x where a x is above b */
    ACTIVATION_CLAMP,    /* to [a, b]; b if a is above */
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
    ACTIVATION_SIGN,   /* -1, 0 or 1; 0 of a NaN, as in torch */
    ACTIVATION_NOT,    /* 1 where x is 0, else 0 */
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
    int64_t size[2], stride[2];  /* >= 1; 0: no window */
    int64_t before[2], after[2]; /* rows and columns of zeros around the image: top and left, bottom and right */
    int64_t dilation[2];         /* >= 1: distance between the window's pixels */
};

enum plan_axis_kind {
    AXIS_FIXED,     /* the same number of rows for each item */
    AXIS_INPUT,     /* the rows of an input, perhaps padded */
    AXIS_PROJECTED, /* k rows for every n rows of the input */
    AXIS_WINDOW,    /* the pixels that a convolution makes of an input's image */
    AXIS_PADDED,    /* the rows of another axis, padded by a step of the plan */
    AXIS_JOINED,    /* an item's rows on one axis, then its rows on another */
    AXIS_SIZED,     /* a number of rows that depends on the item: sizes.h. An item may be several sequences */
    AXIS_WANTED,    /* the rows of another axis that the item requests, plus `reach` rows on either side */
};

/* How items are padded. At most one of the two is set; both 0: no padding. */
struct plan_padding {
    int64_t rows;     /* items are zero-padded to this many rows, with masks 1 */
    int64_t multiple; /* items are zero-padded to the next multiple, with masks 0 */
};

struct plan_axis {
    enum plan_axis_kind kind;
    int input; /* the input that the rows depend on; PLAN_NONE: all items have the same number of rows */
    union {    /* by kind */
        int64_t rows_per_item;
        struct plan_padding padded; /* AXIS_INPUT */
        struct {
            int of; /* an axis */
            struct plan_padding by;
        } extended; /* AXIS_PADDED */
        struct {
            int64_t k, n;
        } projected;
        struct plan_window window;
        struct {
            int first, second; /* axes */
        } joined;
        struct {
            int rows;      /* a size: of one sequence */
            int sequences; /* a size: of an item. The sequences' rows follow one another */
        } sized;           /* `input` is PLAN_NONE */
        struct {
            int of;        /* an AXIS_INPUT */
            int64_t reach; /* neighbours on each side, fewer at the ends */
        } wanted;
    };
};

#define PLAN_MAX_SIZES 4096
#define PLAN_SIZE_TERMS 8
#define PLAN_TERM_FACTORS 6

enum plan_factor_kind {
    FACTOR_FREE,      /* the size of an input's dimension */
    FACTOR_QUOTIENT,  /* of two sizes, rounded down */
    FACTOR_REMAINDER, /* of two sizes */
};

/* A factor of a size's terms. See sizes.h. */
struct plan_factor {
    enum plan_factor_kind kind;
    int depth; /* of quotients and remainders within one another */
    union {
        struct {
            int input, dimension;
            int64_t least, most;
        } free;
        struct {
            int dividend, divisor; /* sizes */
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
    int count;         /* 0 or more */
    int x, z, keys, y; /* strides */
};

/* The elements that a step visits in each item: element (i, j, …) of x is at x_first + i * x + j * x' + … within the
 * item's rows of x, counted in elements. The same holds for z, keys and y. If the operand is a weight, it is within the
 * weight. All numbers are sizes, so each item has its own. A stride of 0 repeats an element; strides may be negative.
 * If a step lacks an operand, its first element and strides are not read. The builder of the plan makes sure that no
 * element lies outside of its value. space.h evaluates a space for an item. */
struct plan_space {
    int rank;
    struct plan_dimension dimensions[PLAN_SPACE_RANK];
    int x_first, z_first, keys_first, y_first;
};

/* Limits of a size, for every item. */
struct plan_size_limit {
    int size;
    int64_t least, most, multiple; /* multiple: at least 1 */
    char what[160];                /* for messages: "the length of a slice" */
};

/* An output of a module: its tensor's sizes, without the batch. */
struct plan_output {
    char *name;
    int rank;
    int sizes[ENGINE_MAX_RANK];
};

struct plan_value {
    int axis;
    int64_t columns;
    bool ids;      /* int32_t elements, of ids or a mask; else float */
    size_t offset; /* bytes into the arena; set by plan_finish */
    size_t bytes;  /* in the largest batch, rows rounded up to PLAN_ROW_BLOCK; set by plan_finish */
    int first_step, last_step;
};

/* A weight in float32, row-major. A vector is one row. The plan owns `data` until a backend takes it over. */
struct plan_weight {
    char *name;
    int64_t rows, columns;
    float *data;
    int64_t tensor; /* weights_index of the tensor that it was made of; -1: made of several tensors */
};

/* The sequences that a step computes: those with `least` to `most` rows on `axis`. With axis PLAN_NONE it computes all
 * of them. OP_PROJECT_SEQUENCE leaves rows of unselected sequences in y as they are. OP_LINEAR may overwrite rows of
 * unselected sequences with arbitrary values. */
struct plan_selection {
    int axis;
    int64_t least, most;
};

/* The values that a step reads and writes, its weights, and the parameters of its operation. PLAN_NONE: none. */
struct plan_step {
    enum operation operation;
    struct plan_selection only; /* OP_LINEAR, OP_PROJECT_SEQUENCE */
    int space;                  /* the elements that the step visits. PLAN_NONE: its operation has no space */
    int y;                      /* the value that is written. PLAN_NONE: the step writes results of items */
    union {
        int reads[4];
        struct {
            int x, z;         /* z: the second operand, a residual or a mask */
            int keys, values; /* of the attends */
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
            int table, minor_table; /* OP_EMBED, OP_ADD_POSITIONS, OP_ROTATE: T; A and B */
        };
        struct {
            int value_table, key_table; /* OP_RETRIEVE: V and K */
        };
        struct {
            int x_weight, z_weight; /* operations over a space: the operand x or z, if it is a weight */
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
            int64_t groups; /* of columns */
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
            int64_t groups;   /* of columns */
            bool transposed;  /* the weight is (groups * k, n), else (groups * n, k) */
            bool sums_column; /* only with one group: y has an extra column: the sums over the rows of E */
            bool bias_column; /* only with one group: y has an extra column holding the bias */
        } project_sequence;
        struct {
            int64_t groups; /* of columns */
            int64_t stride; /* rows of a window */
        } convolve_sequence;
        struct {
            int index;               /* number of the attention, in order of execution; PLAN_NONE: items are
                                        several sequences, so the softmax cannot be requested */
            int64_t heads, kv_heads; /* head h reads keys and values of head h * kv_heads / heads */
            int64_t key_room;        /* fewer keys are filled up with zeros to this many; 0: they are not */
            float scale;
            bool causal;      /* OP_ATTEND */
            int mask;         /* an input (not a value) that an item may give */
            bool masked_byte; /* mask bytes equal to this add masked_score to the score; others add 0 */
            float masked_score;
        } attend; /* and OP_ATTEND_CALL */
        struct {
            int64_t count; /* 3: `by` is {1, 0, -1}; 2: {1, 0} */
            int64_t by[3];
        } shift_tokens;
        struct {
            int64_t first_head, heads;   /* the heads of x, K and V that the step reads; y has these heads alone */
            int64_t dim_head, dim_value; /* d and d' */
            int64_t bucket, fold;        /* operations.c says what they do; both >= 1 */
            float scale;                 /* c */
            bool causal, raw_queries;
        } linear_attend;
        struct {
            int64_t first_head, heads, dim_head; /* as above */
            int64_t window;                      /* divides the rows of every item */
            bool causal;
        } local_attend;
        struct {
            struct plan_window window;
            int height, width; /* sizes of x's image; PLAN_NONE: x's axis is the image of an input */
            int64_t groups;    /* of columns */
            float scale;
        } convolve_image; /* and OP_CONVOLVE_GROUPS, OP_CONVOLVE_CHANNELS */
        struct {
            int64_t heads;
        } retrieve;
        struct {
            bool ones;    /* y has ones for the rows of x, whatever x is */
            int32_t fill; /* of the added rows, in a mask; ids and floats: 0 */
        } pad_rows;
        struct {
            enum plan_reduction reduction;
            int reduced; /* the last dimensions of the space */
            float parameter;
        } reduce;
        struct {
            bool logarithm;
        } softmax;
        struct {
            float scale;
        } multiply;
        struct {
            float x; /* stands for every element of x, if x is neither a value nor a weight */
        } arrange;
        struct {
            enum plan_function function;
            bool z_first; /* f(z, x) */
            float z;      /* stands for every element of z, as above */
        } combine;
        struct {
            float x, z; /* as above */
        } select;
        struct {
            int output; /* of plan->outputs */
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
    bool one_row;       /* `after` is of an item that requests one row; `before` of one that requests all */
    int n_spared;       /* intermediate values that the pass removed */
    int spared[2];
};

struct plan_input {
    char *name; /* input.name points to it */
    struct model_input input;
    int sizes[ENGINE_MAX_RANK]; /* LAYOUT_TENSOR: input.rank sizes */
    int value;    /* the rows of all items of the batch; PLAN_NONE: operations read each item's data in place */
    int fallback; /* the input whose rows replace this one if an item lacks it; PLAN_NONE: no input does */
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

    struct plan_output *outputs; /* of a module; empty: the class has one output, named output_name */
    int n_outputs;
    const char *output_name;                   /* of the class's own output */
    const char *attention_name;                /* of its attention's softmax; NULL: "attention.<i>" */
    int64_t output_sizes[ENGINE_MAX_RANK - 1]; /* their product is output_columns */
    int n_output_sizes;                        /* 0: the one size is output_columns */
    int64_t output_columns, hidden_columns;
    int hidden_axis; /* of the last hidden state; PLAN_NONE: the plan gives tensors */
    bool vector;     /* the last hidden state is one row an item, and the output's shape lacks the rows */
    bool has_logits;
    int n_attentions;
    enum padding padding;

    /* plan_finish */
    int64_t max_rows; /* of all items together, on an axis whose items differ in rows */
    int64_t max_items;
    size_t arena_bytes;
};

void plan_free(struct plan *plan); /* NULL is harmless */

/* "linear" … */
const char *operation_name(enum operation operation);

/* "add" …; "gelu" … */
const char *function_name(enum plan_function function);
const char *activation_name(enum activation activation);

/* "sum" … */
const char *reduction_name(enum plan_reduction reduction);

/* One item's part of an input: the number of its rows, and their image. Rows that are no image have height 1. */
struct plan_given {
    int64_t rows;
    struct plan_image image;
};

/* What an item gives, for some `context` that stands for the item. */
struct plan_lengths {
    /* The item's part of axis->input. For an AXIS_INPUT it includes padding. */
    struct plan_given (*axis)(const struct plan *plan, const struct plan_axis *axis, const void *context);
    /* The free size of an input's dimension. */
    int64_t (*dimension)(const struct plan *plan, int input, int dimension, const void *context);
};

/* The value of a size for one item. false: a number overflows, or a divisor is less than 1. */
bool plan_size_value(const struct plan *plan, int size, const struct plan_lengths *lengths, const void *context,
                     int64_t *value);

bool plan_size_is_constant(const struct plan *plan, int size, int64_t *value);

/* Bounds of a size over all items. They may be wider than necessary. INT64_MAX and INT64_MIN: no bound. */
void plan_size_bounds(const struct plan *plan, int size, int64_t *least, int64_t *most);

/* Writes the size as text, such as "2*n + 1". A free size is named as input.dimension. Returns `text`. */
const char *plan_size_text(const struct plan *plan, int size, char *text, size_t room);

/* Rows of an axis for one item, of all its sequences; -1: the number overflows, or a size is below 0. */
int64_t plan_axis_rows(const struct plan *plan, int axis, const struct plan_lengths *lengths, const void *context);

/* The size that is the number of sequences of an item on the axis; PLAN_NONE: an item is one sequence. */
int plan_sequences(const struct plan *plan, int axis);

/* That number for one item; 0: the item has no such number of sequences. */
int64_t plan_axis_sequences(const struct plan *plan, int axis, const struct plan_lengths *lengths, const void *context);

/* The rows that padding makes of `rows`. */
int64_t plan_padded_rows(struct plan_padding padding, int64_t rows);

/* Rows of a value for an item with `rows` rows of every input, padding included. Optional inputs without a
 * fallback count as absent. Images are square. */
int64_t plan_value_rows(const struct plan *plan, int value, int64_t rows);

/* The rows of one sequence of that value. */
int64_t plan_value_sequence_rows(const struct plan *plan, int value, int64_t rows);

/* How an item's tokens are counted. true: its largest number of rows on any axis, in plans with tensors or sized axes.
 * false: the rows of its inputs. */
bool plan_counts_axes(const struct plan *plan);

/* The most rows of an item on any axis, at least 1. -1: a size of the item overflows, or an axis has less than one row.
 * `axis` is the axis with these rows. */
int64_t plan_item_rows(const struct plan *plan, const struct plan_lengths *lengths, const void *context, int *axis);

/* With plan_counts_axes: the largest number n, at least 1, so that no axis has more than `rows` rows if all free sizes
 * are n. */
int64_t plan_side(const struct plan *plan, int64_t rows);

/* The value of a size for an item whose free sizes are all `side`, within their bounds; false: see plan_size_value. */
bool plan_size_at(const struct plan *plan, int size, int64_t side, int64_t *value);

/* The number of rows of every sequence of the axis; 0: it depends on the item. */
int64_t plan_constant_rows(const struct plan *plan, int axis);

/* Whether all items have the same number of rows on the axis, and this number. */
bool plan_rows_are_constant(const struct plan *plan, int axis, int64_t *rows);

/* The index of an attention's softmax in model_info.outputs. */
static inline int plan_attention_output(const struct plan *plan, int attention)
{
    return (plan->n_outputs > 0 ? plan->n_outputs : 1) + attention;
}

/* A number of rows that every item has at least on the axis; 0: none is known. */
int64_t plan_least_rows(const struct plan *plan, int axis);

/* Rows of an axis in the largest batch of n_items items; INT64_MAX: the number overflows. */
int64_t plan_most_rows(const struct plan *plan, int axis, int64_t n_items);

/* Sequences of an axis in the same batch. There are at most as many as rows, since a sequence has at
 * least one row. */
int64_t plan_most_sequences(const struct plan *plan, int axis, int64_t n_items);

/* The most rows of one sequence on the value's axis. */
int64_t plan_most_sequence_rows(const struct plan *plan, int value);

/* Whether an item may lack the input, and no fallback replaces its rows. */
bool plan_may_lack(const struct plan *plan, int input);

/* Whether the image, with the window's zeros around it, is at least as large as the window. Then plan_convolved returns
 * the size of the convolution's result. */
bool plan_window_fits(const struct plan_window *window, struct plan_image image);
struct plan_image plan_convolved(const struct plan_window *window, struct plan_image image);

/* Whether the step is a convolution of an image whose size is the input's. Each item has its own size, which must be
 * checked. */
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

/* Floating point operations of a step for one item of `rows` rows; a multiplication and an addition are two. */
int64_t plan_step_flops(const struct plan *plan, const struct plan_step *step, int64_t rows);

#endif
