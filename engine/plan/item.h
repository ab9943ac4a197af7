/* item: the inputs of a model, and the inputs and requested results of one item of a batch. engine.h includes it. */
#ifndef ENGINE_PLAN_ITEM_H
#define ENGINE_PLAN_ITEM_H

#include "config/config.h"

#define ENGINE_MAX_INPUTS 5
#define ENGINE_MAX_RANK 6

enum input_kind {
    INPUT_IDS,  /* int32_t a row, 0 <= id < vocabulary */
    INPUT_ROWS, /* float[columns] a row */
    INPUT_MASK, /* uint8_t a row, 0 or not */
    /* A mask for the scores of an attention. A row is uint8_t[columns], 0 or not, or float[columns] to be added to the
     * scores. Floats need model_input.takes_floats, and engine_input.floats says that they are given. There is one row
     * for each position of input `like`; with takes_one_row there may be one for all positions. An item gives one such
     * mask, or n_masks of them one after another. */
    INPUT_ATTENTION_MASK,
    INPUT_IGNORED, /* a parameter of the class that neither class nor engine reads. Any type and shape. If it is given,
                    * data is not NULL */
};

/* How an item's tensor of one input lies in memory. */
enum input_layout {
    LAYOUT_SEQUENCE, /* (length, columns). A tensor (batch, length, columns) is `batch` items */
    LAYOUT_CALL,     /* (length, width, columns), where width is the call's batch. The whole tensor is one item with
                        length * width rows. It must not be split or joined with another */
    LAYOUT_IMAGE,    /* (columns, length, width): an image, channels first. Its length * width pixels are the rows. A
                        tensor (batch, columns, length, width) is `batch` items */
    LAYOUT_CHANNELS, /* (columns, length): pixels, channels first, in any arrangement */
    LAYOUT_TENSOR,   /* any shape of `rank` sizes: engine_input.sizes. The last one is not `columns`, which is 1 or more
                        of the tensor's innermost elements. A tensor (batch, sizes…) is `batch` items */
};

struct model_input {
    const char *name; /* the parameter's name in the class's forward() */
    enum input_kind kind;
    enum input_layout layout;
    int64_t columns;     /* INPUT_ROWS: any; INPUT_ATTENTION_MASK: 0 means the length of columns_like; others: 1 */
    int columns_like;    /* an input */
    bool takes_floats;   /* INPUT_ATTENTION_MASK */
    bool takes_one_row;  /* INPUT_ATTENTION_MASK: one row may stand for all of them */
    int64_t n_masks;     /* INPUT_ATTENTION_MASK: masks that an item may give for each sequence of its width; 0: one */
    const char *refused; /* why the class fails if the input is given; NULL: it does not fail */
    int64_t vocabulary;  /* of INPUT_IDS */
    int like;            /* the input that has the same number of rows; -1: none */
    int rank;            /* LAYOUT_TENSOR */
    int64_t shape[ENGINE_MAX_RANK]; /* LAYOUT_TENSOR: rank sizes of an item; -1: free */
    int64_t min_length;             /* least length of an item; with LAYOUT_IMAGE least pixels */
    int64_t max_length;
    bool own_limit;   /* max_length is the model's; else it follows from max_batch_tokens */
    int64_t multiple; /* the number of rows, padding included, must be a multiple of this */
    bool optional;
};

/* An output besides the first. */
struct engine_extra {
    int output;  /* index into model_info.outputs, >= 1 */
    float *data; /* of the shape that model_output_shape gives */
};

/* The inputs of one item, and the results that it requests. All memory is the caller's and outlives model_run, which
 * writes results in place. Zero the struct first: a NULL input is not given, a NULL result is not requested. In shapes
 * `length` is the rows of inputs[0]; with LAYOUT_CALL its length * width. If inputs[0] is an image, the output is an
 * image, perhaps of another size. It is the only result: without hidden, pooled, rows, softmax and top_k. The same
 * holds for a module that gives tensors: `output` is the first of them in full, n_rows is 0, and `extras` are the
 * others. */
struct engine_item {
    struct engine_input {
        const void *data; /* as model_input.kind says; NULL: not given (a mask: all ones) */
        int64_t length;   /* rows; with LAYOUT_CALL positions; with LAYOUT_IMAGE the height; of INPUT_ATTENTION_MASK
                             rows of one mask */
        int64_t width;    /* LAYOUT_CALL: the call's batch, the same for all inputs; LAYOUT_IMAGE: the image's */
        int64_t columns;  /* INPUT_ATTENTION_MASK: of `data` */
        int64_t n_masks;  /* INPUT_ATTENTION_MASK: 0: a tensor (length, columns), for all heads and the whole width;
                             else (n_masks, length, columns), n_masks being width * model_input.n_masks */
        int64_t sizes[ENGINE_MAX_RANK]; /* LAYOUT_TENSOR: the item's shape */
        bool floats;                    /* INPUT_ATTENTION_MASK: `data` is float, not uint8_t */
    } inputs[ENGINE_MAX_INPUTS];

    float *hidden; /* (length, hidden_columns); of a module (model_hidden_rows, hidden_columns) */
    float *pooled; /* (hidden_columns), not normalised */
    enum pooling pooling;

    float *output;       /* (n_rows, output_columns); with LAYOUT_IMAGE (output_columns, n_rows) */
    const int32_t *rows; /* (n_rows): rows of the output, each in [0, length). NULL with n_rows == length: all rows */
    int64_t n_rows;      /* at most length */
    bool softmax;        /* probabilities over the columns in place of the output */
    int64_t top_k;       /* > 0: the best top_k columns of each row, best first, ties by column, in place of `output` */
    int32_t *top_columns; /* (n_rows, top_k) */
    float *top_values;    /* (n_rows, top_k): logits, or probabilities over all columns with softmax */

    const struct engine_extra *extras; /* n_extras of them */
    int n_extras;
};

#endif
