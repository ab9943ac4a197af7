/* plan: what a model computes, as a flat array of steps over values; the same for every backend.
 *
 * A value is a matrix: one row for each row of its axis, row-major. An axis says how the rows of a batch's items lie
 * one behind the other: as ragged as an input (n_b rows for item b), or a fixed number of rows an item. Operations on
 * single rows see one matrix of all rows of the batch; those that must know where a sequence begins ask the axis.
 *
 * A call (LAYOUT_CALL) is an item of w sequences: row p * w + s of it is position p of sequence s. What is projected
 * from n to k positions has k rows for each n of the input, whatever w is.
 *
 * A family builds a plan through builder.h; nothing changes it once plan_finish is through with it. */
#ifndef ENGINE_PLAN_PLAN_H
#define ENGINE_PLAN_PLAN_H

#include "engine/plan/item.h"

#define PLAN_NONE (-1)
#define PLAN_ROW_BLOCK 64 /* kernels may write rows up to a multiple of it: values are that long in the arena */

#define PLAN_BEST_KEYS 32         /* OP_RETRIEVE's */
#define PLAN_CAUSAL_EPSILON 1e-3f /* OP_LINEAR_ATTEND's least denominator */

/* operations.c has one row for each, with its formula and shapes. docs/adding-an-operation.md lists all places that
 * know an operation. */
enum operation {
    OP_EMBED,
    OP_ADD_POSITIONS,
    OP_LAYER_NORM,
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
    OP_GATE,
    OP_GATHER_ROWS,
    OP_CUT_PADDING,
    OP_RETRIEVE,
    OP_GIVE_HIDDEN,
    OP_GIVE_POOLED,
    OP_GIVE_OUTPUT,
    OP_GIVE_IMAGE,
    OP_COUNT
};

enum activation { ACTIVATION_NONE, ACTIVATION_GELU, ACTIVATION_RELU, ACTIVATION_COUNT };

struct plan_image {
    int64_t height, width;
};

/* What a convolution reads for a pixel. [0] is along the height, [1] along the width. */
struct plan_window {
    int64_t size[2], stride[2];  /* >= 1; of no window: 0 */
    int64_t before[2], after[2]; /* rows and columns of zeros around the image: top and left, bottom and right */
};

enum plan_axis_kind {
    AXIS_FIXED,     /* as many rows for each item */
    AXIS_INPUT,     /* the rows of an input, perhaps padded */
    AXIS_PROJECTED, /* k rows for each n of an input's */
    AXIS_WINDOW,    /* the pixels that a window makes of an input's image */
    AXIS_JOINED,    /* an item's rows on two axes, one behind the other */
    AXIS_WANTED,    /* those rows of another axis that the item wants of the last hidden state, and their neighbours */
};

struct plan_axis {
    enum plan_axis_kind kind;
    int input; /* whose rows they come from; AXIS_FIXED: PLAN_NONE */
    union {    /* by kind */
        int64_t rows_per_item;
        struct {
            int64_t rows;     /* every item is brought to so many with zeros; 0: none is */
            int64_t multiple; /* … to the next multiple of so many, masked; 0: none is */
        } padded;             /* AXIS_INPUT */
        struct {
            int64_t k, n;
        } projected;
        struct plan_window window;
        struct {
            int first, second; /* axes */
        } joined;
        struct {
            int of;        /* an AXIS_INPUT */
            int64_t reach; /* so many rows on either side, where there are */
        } wanted;
    };
};

struct plan_value {
    int axis;
    int64_t columns;
    bool ids;      /* int32_t elements (masks, too); else float */
    size_t offset; /* bytes into the arena; plan_finish */
    size_t bytes;  /* for the largest batch, rows rounded up to PLAN_ROW_BLOCK; plan_finish */
    int first_step, last_step;
};

/* A weight in float32, row-major, rank 1 as one row. The plan owns `data` until a backend took it over. */
struct plan_weight {
    char *name;
    int64_t rows, columns;
    float *data;
    int64_t tensor; /* weights_index of what it was made of; -1: of several */
};

/* Which items a step computes: those with `least` to `most` rows on `axis`; PLAN_NONE: all of them. Another item's rows
 * of y stay as they are with OP_PROJECT_SEQUENCE; OP_LINEAR may spoil them. */
struct plan_selection {
    int axis;
    int64_t least, most;
};

/* The values that a step reads and writes, its weights, and the parameters of its operation. PLAN_NONE: none. */
struct plan_step {
    enum operation operation;
    struct plan_selection only; /* OP_LINEAR, OP_PROJECT_SEQUENCE */
    int y;                      /* written; none: the step writes items' results */
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
            int weight, bias;               /* what the formula has first and second: W and b, g and b, E and e */
            int second_weight, second_bias; /* OP_FEED_FORWARD: U and c */
            int tail;                       /* OP_PROJECT_CALL: t */
        };
        struct {
            int table, minor_table; /* OP_EMBED, OP_ADD_POSITIONS, OP_ROTATE: T; A and B */
        };
        struct {
            int value_table, key_table; /* OP_RETRIEVE: V and K */
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
            enum activation activation;
        } linear;
        struct {
            enum activation activation;
            bool gated;
        } feed_forward;
        struct {
            enum activation activation;
        } activate, gate;
        struct {
            float scale;
        } add;
        struct {
            int64_t groups;   /* of columns */
            bool transposed;  /* the weight is (groups * k, n), else (groups * n, k) */
            bool sums_column; /* of one group: y has a column of E's sums */
            bool bias_column; /* … and one of its biases */
        } project_sequence;
        struct {
            int64_t groups; /* of columns */
            int64_t stride; /* rows of a window */
        } convolve_sequence;
        struct {
            int index;               /* which attention it is in order of execution */
            int64_t heads, kv_heads; /* head h reads keys and values of head h * kv_heads / heads */
            int64_t key_room;        /* 0: as many as there are keys */
            float scale;
            bool causal;        /* OP_ATTEND */
            int mask;           /* an input (not a value) that an item may give */
            bool masked_byte;   /* where a byte of the mask is this, M is masked_score, else 0 */
            float masked_score; /* added to a score */
        } attend;               /* and OP_ATTEND_CALL */
        struct {
            int64_t count; /* shifts are 1, 0, -1 or 1, 0 */
            int64_t by[3];
        } shift_tokens;
        struct {
            int64_t first_head, heads;   /* of those in x, K and V; y has `heads` from first_head on */
            int64_t dim_head, dim_value; /* d and d' */
            int64_t bucket, fold;        /* both >= 1 */
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
            float scale;
        } convolve_image;
        struct {
            int64_t heads;
        } retrieve;
    };
};

#define PLAN_READS ((int)(sizeof((struct plan_step *)0)->reads / sizeof(int)))
#define PLAN_WEIGHTS ((int)(sizeof((struct plan_step *)0)->weights / sizeof(int)))

/* Floating point operations for an item of n rows: item + n * row. */
struct plan_flops {
    int64_t item, row;
};

/* What a pass found, for --explain. */
struct plan_decision {
    char what[192];
    struct plan_flops before, after;
    int64_t least_rows; /* of an item; one with fewer rows takes the operations before */
    bool one_row;       /* `after` is where one row is wanted; where all are, it is `before` */
    int n_spared;       /* values that one step would write and another one read, and that are not needed */
    int spared[2];
};

struct plan_input {
    struct model_input input;
    int value;    /* the batch's rows of it, one item behind the other; PLAN_NONE: operations read the items' own */
    int fallback; /* an item that does not give it gives this input's rows again; PLAN_NONE: it must be given */
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
    struct plan_decision *decisions;
    int n_decisions;

    const char *output_name;                   /* of the class's own output */
    const char *attention_name;                /* of its attention's softmax; NULL: "attention.<i>" */
    int64_t output_sizes[ENGINE_MAX_RANK - 1]; /* whose product output_columns is */
    int n_output_sizes;                        /* 0: output_columns itself */
    int64_t output_columns, hidden_columns;
    int hidden_axis; /* of the last hidden state */
    bool has_logits;
    int n_attentions;
    enum padding padding;

    /* plan_finish */
    int64_t max_rows; /* of a ragged axis */
    int64_t max_items;
    size_t arena_bytes;
};

void plan_free(struct plan *plan); /* NULL is harmless */

/* "linear" … */
const char *operation_name(enum operation operation);

/* What one item has of an input: its rows, and these as an image (of height 1 where they are none). */
struct plan_given {
    int64_t rows;
    struct plan_image image;
};

/* Tells what an item has of axis->input; of an AXIS_INPUT with what padding adds. */
typedef struct plan_given plan_giver(const struct plan *plan, const struct plan_axis *axis, const void *context);

/* Rows of an axis for one item. */
int64_t plan_axis_rows(const struct plan *plan, int axis, plan_giver *giver, const void *context);

/* The same for a value and an item with `rows` rows of every input, padding included. What need not be given, and
 * nothing stands for, is not. Images are square. */
int64_t plan_value_rows(const struct plan *plan, int value, int64_t rows);

/* Rows of an axis in the largest batch of n_items items; INT64_MAX: more than that. */
int64_t plan_most_rows(const struct plan *plan, int axis, int64_t n_items);

/* Rows of one sequence on the value's axis, at most. */
int64_t plan_most_sequence_rows(const struct plan *plan, int value);

/* Whether an item may go without the input and its rows: nothing stands for them. */
bool plan_may_lack(const struct plan *plan, int input);

/* Whether the image with its zeros around is as large as the window; and the image that it makes of it then. */
bool plan_window_fits(const struct plan_window *window, struct plan_image image);
struct plan_image plan_convolved(const struct plan_window *window, struct plan_image image);

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
