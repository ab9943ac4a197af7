/* plan: what a model computes, as a flat array of steps over values; the same for every backend.
 *
 * A value is a matrix: one row for each row of its axis, row-major. An axis says how the rows of a batch's items lie
 * one behind the other: as ragged as an input (n_b rows for item b), or a fixed number of rows an item. Operations on
 * single rows see one matrix of all rows of the batch; those that must know where a sequence begins ask the axis.
 *
 * A call (LAYOUT_CALL) is an item of w sequences: row p * w + s of it is position p of sequence s. What is projected
 * from n to k positions has k rows for each n of the input, whatever w is.
 *
 * A family (families/) builds a plan from config and weights through the functions below, reading like the library's
 * forward(). They record the first failure in the builder and do nothing after it, so a family needs no checks between
 * them. plan_finish then rewrites the plan (plan_passes.h) into one that gives the same with fewer operations, finds
 * each value's lifetime and gives it its place in one arena. */
#ifndef ENGINE_PLAN_H
#define ENGINE_PLAN_H

#include "engine/engine.h"

#define PLAN_NONE (-1)
#define PLAN_ROW_BLOCK 64 /* kernels may write rows up to a multiple of it: values are that long in the arena */

#define PLAN_BEST_KEYS 32         /* OP_RETRIEVE's */
#define PLAN_CAUSAL_EPSILON 1e-3f /* OP_LINEAR_ATTEND's least denominator */

/* One line of mathematics each; r is a row, b an item, n_b its rows, p the position of r in its item.
 * Shapes: (rows, columns). W, E, T … are weights. */
enum operation {
    OP_EMBED,         /* y[r] = T[x[r]]                                  x ids (r, 1); T (vocabulary, d); y (r, d) */
    OP_ADD_POSITIONS, /* y[r] = x[r] + (A[p / period] + B[p mod period])  A, B (…, d); without B: + A[p] */
    OP_LAYER_NORM,    /* y[r] = (x[r] - mean) / sqrt(variance + epsilon) * g + b       g, b (d); x (r, groups*d), each
                         group of d columns for itself */
    OP_LINEAR,       /* y[r] = activation(x[r] Wᵀ + b) + z[r]      W (out, in), b (out) or none; z (r, out) or none */
    OP_FEED_FORWARD, /* y[r] = h[r] Uᵀ + c + z[r], h[r] = activation(x[r] Wᵀ + b)   W (hidden, in), U (out, hidden);
                        gated: h[r, i] = activation(g[r, i]) * g[r, hidden + i], g[r] = x[r] Wᵀ + b, W (2*hidden, in) */
    OP_ACTIVATE,     /* y = activation(x): gelu is x Φ(x), Φ by the exact erf */
    OP_ADD,          /* y = scale * (x + z) */
    OP_MASK_ROWS,    /* y[r] = x[r] where m[r], else 0                               m ids (r, 1), 0 or not */
    OP_ADD_SINUSOIDS,     /* y[r] = x[r] + (sin(p f), cos(p f))                    f (d / 2); products p f in float */
    OP_PROJECT_SEQUENCE,  /* y_b = E[:n_b]ᵀ x_b + e   E (n, k) or its transpose; x ragged (n_b, d); y fixed (k, d) an
                             item;  with several groups each has its own E and e for d / groups columns. Further
                             columns of y, where there are: E[:n_b]ᵀ 1, then e, which the others then lack */
    OP_CONVOLVE_SEQUENCE, /* y_b[j, g, o] = e[o] + sum over t, i of W[o, i, t] x_b[j s + t, g, i], 0 beyond n_b
                            W (d, d, s); groups of d columns; several W stand for one a group */
    OP_PROJECT_CALL,  /* y_b[s, c, j] = sum over p of E[j, p] X_b[p, s, c] + e[j], X_b: x_b, then for each s the row t
                         E (k, n), e (k), t (d) or none; x call (n * w, d); y_b (w, d, k) is read as (k * w, d) */
    OP_ATTEND,        /* y[r,h] = softmax(scale * x[r,h] K_b[h]ᵀ + M_b[p]) V_b[h]   x (r, heads*d); K (k, kv_heads*d)
                         V (k, kv_heads*d'); y (r, heads*d'); causal: only keys j <= p; up to key_room keys stand
                         beyond K_b with score 0 and value 0; M (n, k) or none: an attention mask */
    OP_ATTEND_CALL,   /* y[p,s,h] = softmax(scale * x[p,s,h] K_b[:,s,h]ᵀ + M_b[s,h,p]) V_b[:,s,h], heads of a call
                         x, y (n * w, heads*d); K, V (k * w, heads*d); M (w, heads, n, k) or (n, k) or none */
    OP_SHIFT_TOKENS,  /* y[p, segment s] = x[p - shift_s, segment s], 0 outside the item; segments of d / n_shifts
                         features; what is left over stays */
    OP_ROTATE,        /* y[r, h, 2i : 2i + 2] = x[r, h, 2i : 2i + 2] turned by the angle with sine T[p, i] and cosine
                         T[p, d/2 + i]                                    x (r, heads*d); T (…, d) */
    OP_LINEAR_ATTEND, /* y[r,h] = c softmax(x[r,h]) softmax_rows(K_b[h])ᵀ V_b[h]; masked rows of K and V are left out.
                         Causal: exp(K) in place of its softmax, rows of earlier buckets only (bucket 1: rows <= p),
                         divided by max(c softmax(x[r,h]) · their sum of exp(K), 1e-3).
                         raw queries: x[r,h] in place of its softmax.
                         fold f: rows p, p + f, p + 2f … are sequences of their own
                         x, K (…, all heads*d); V (…, all heads*d'); y (r, heads*d') */
    OP_LOCAL_ATTEND,  /* y[r,h] = softmax(d^-1/2 x[r,h] K_b[h]ᵀ) V_b[h] over the rows of r's window and those beside
                         it (causal: the one before, and rows <= p); masked keys are left out   x, K, V as above;
                         a row with no key left: the mean of all keys of its windows, those outside the item being -1 */
    OP_CONCATENATE,   /* y[r] = (x[r], z[r]) */
    OP_APPEND_ROWS,   /* y_b = x_b, then the rows of z_b */
    OP_CONVOLVE_IMAGE, /* y_b[i, j] = scale * (e + W (x_b[i s + u - top, j s' + v - left] for u, v of a window)), with 0
                         outside of the image   x_b (height * width, in); W (out, window * in), e (out) */
    OP_GATE,           /* y[r, i] = activation(x[r, i]) * x[r, d + i]                     x (r, 2d); y (r, d) */
    OP_GATHER_ROWS,    /* y = the rows of x that y's axis has */
    OP_CUT_PADDING,    /* y_b = the item's own rows of x_b, without what padding added */
    OP_RETRIEVE,       /* y[r] = sum over h and the 32 best pairs (i, j) of softmax(s_i + t_j) V[i n + j], where
                          s = K[h,:,0] x[r,0,h], t = K[h,:,1] x[r,1,h], each cut to its 32 best
                          x (r, 2*heads*d); K (heads, n, 2, d); V (n * n, columns of y) */
    OP_GIVE_HIDDEN,    /* item b's hidden = x_b */
    OP_GIVE_POOLED,    /* item b's pooled = mean, first, last or maximum of the rows of x_b */
    OP_GIVE_OUTPUT,    /* item b's output = f(x_b[wanted rows] Wᵀ + b), f: identity, softmax, top_k; without W: x_b */
    OP_GIVE_IMAGE,     /* item b's output = x_bᵀ: channels first */
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

struct plan_axis {
    int input;                 /* ragged like this input; PLAN_NONE: fixed */
    int64_t rows_per_item;     /* of a fixed axis */
    int64_t padded_rows;       /* of a ragged axis: every item is brought to so many rows with zeros; 0: none is */
    int64_t row_multiple;      /* of a ragged axis: … to the next multiple of so many, masked; 0: none is */
    int64_t k, n;              /* of a ragged axis: k rows for each n of the input's; 0: one for each */
    struct plan_window window; /* of a ragged axis: the pixels that it makes of the input's image, if any */
    bool joined;               /* an item's rows are those on two axes, one behind the other: */
    int first, second;
    bool wanted;   /* of a ragged axis: only those rows that the item wants of the last hidden state */
    int64_t reach; /* … and so many on either side, where there are */
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

struct plan_step {
    enum operation operation;
    struct plan_selection only; /* OP_LINEAR, OP_PROJECT_SEQUENCE */
    int x, y, z; /* values; z: the second of OP_ADD, OP_CONCATENATE and OP_APPEND_ROWS, the residual of OP_LINEAR and
                    OP_FEED_FORWARD, a mask; PLAN_NONE where none */
    int keys, values;               /* of the attends */
    int weight, bias;               /* W, T, E, A, V or g; b, B, e, K */
    int tail;                       /* a weight: t of OP_PROJECT_CALL */
    int second_weight, second_bias; /* U and c of OP_FEED_FORWARD */
    bool gated;                     /* OP_FEED_FORWARD */
    int mask;                       /* of OP_ATTEND, OP_ATTEND_CALL: an input (not a value) that an item may give */
    bool masked_byte;               /* where a byte of the mask is this, M is masked_score, else 0 */
    float masked_score;
    enum activation activation;
    float scale;             /* OP_ATTEND, OP_ATTEND_CALL, OP_ADD, OP_CONVOLVE_IMAGE; c of OP_LINEAR_ATTEND */
    float epsilon;           /* OP_LAYER_NORM */
    int attention;           /* OP_ATTEND, OP_ATTEND_CALL: which one in order of execution */
    bool causal;             /* of all attends but OP_ATTEND_CALL */
    int64_t key_room;        /* OP_ATTEND, OP_ATTEND_CALL; 0: as many as there are keys */
    int64_t groups;          /* OP_PROJECT_SEQUENCE, OP_CONVOLVE_SEQUENCE: of columns */
    bool transposed;         /* OP_PROJECT_SEQUENCE: the weight is (groups * k, n), else (groups * n, k) */
    bool sums_column;        /* OP_PROJECT_SEQUENCE of one group: y has a column of E's sums */
    bool bias_column;        /* … and one of its biases */
    int64_t stride;          /* OP_CONVOLVE_SEQUENCE: rows of a window */
    int64_t heads, kv_heads; /* OP_ATTEND: head h reads keys and values of head h * kv_heads / heads; OP_ATTEND_CALL */
    int64_t first_head;      /* OP_LINEAR_ATTEND, OP_LOCAL_ATTEND: of those in x, K and V; y has `heads` from it on */
    int64_t dim_head;        /* of the same: d */
    int64_t dim_value;       /* OP_LINEAR_ATTEND: d' */
    bool raw_queries;        /* OP_LINEAR_ATTEND */
    int64_t bucket, fold;    /* OP_LINEAR_ATTEND; both >= 1 */
    struct plan_window kernel; /* OP_CONVOLVE_IMAGE */
    int64_t window;            /* OP_LOCAL_ATTEND: divides the rows of every item */
    int64_t period;            /* OP_ADD_POSITIONS */
    int64_t n_shifts;          /* OP_SHIFT_TOKENS: 1, 0, -1 or 1, 0 */
    int64_t shifts[3];
};

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

struct plan_builder {
    struct plan *plan;
    const struct weights *weights;
    bool *used; /* by weights_index: taken by the plan */
    struct error *error;
    bool failed;
    bool as_built; /* plan_finish leaves the steps as the family built them: what its passes give is held against it */

    void (*progress)(void *context, double fraction); /* of the weights' elements that are taken; NULL: nobody asks */
    void *progress_context;
    int64_t taken_elements, all_elements;
};

/* plan_begin succeeded: plan_finish is owed, whatever happens between. */
int plan_begin(struct plan_builder *builder, const struct weights *weights, struct error *error);

/* Ends building: refuses surplus tensors, fuses, plans memory for batches of max_rows rows (at least the longest
 * input) and max_items items. On success the plan is the caller's (plan_free), on failure nothing is. */
int plan_finish(struct plan_builder *builder, int64_t max_rows, int64_t max_items, struct plan **plan);
void plan_free(struct plan *plan);

/* Records a failure of the family's own. Always PLAN_NONE. */
int plan_fail(struct plan_builder *builder, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The same for a tensor that the file lacks; `shape` is the class's, as text. A tensor that nothing has taken yet and
 * whose name ends in this one, as behind DataParallel's "module.", is named as well. */
int plan_fail_missing(struct plan_builder *builder, const char *name, const char *shape);

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

/* "linear" … and the line of mathematics, for --explain. */
const char *operation_name(enum operation operation);

/* Rows of a value in a batch with `rows` rows of every input and `items` items. What need not be given, and nothing
 * stands for, is not. Images are square. */
int64_t plan_value_rows(const struct plan *plan, int value, int64_t rows, int64_t items);

/* Whether an item may go without the input and its rows: nothing stands for them. */
bool plan_may_lack(const struct plan *plan, int input);

/* Whether the image with its zeros around is as large as the window; and the image that it makes of it then. */
bool plan_window_fits(const struct plan_window *window, struct plan_image image);
struct plan_image plan_convolved(const struct plan_window *window, struct plan_image image);

static inline bool plan_reads_weight(const struct plan_step *step, int weight)
{
    return step->weight == weight || step->bias == weight || step->tail == weight || step->second_weight == weight ||
           step->second_bias == weight;
}

/* Floating point operations of a step for one item of `rows` rows; a multiplication and an addition are two. */
int64_t plan_step_flops(const struct plan *plan, const struct plan_step *step, int64_t rows);

#endif
