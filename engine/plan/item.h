/* item: what a model takes, and what one item of a batch gives and wants. engine.h has it for the server. */
#ifndef ENGINE_PLAN_ITEM_H
#define ENGINE_PLAN_ITEM_H

#include "config/config.h"

#define ENGINE_MAX_INPUTS 5
#define ENGINE_MAX_RANK 4

enum input_kind {
    INPUT_IDS,  /* int32_t a row, 0 <= id < vocabulary */
    INPUT_ROWS, /* float[columns] a row */
    INPUT_MASK, /* uint8_t a row, 0 or not */
    /* For the scores of an attention: uint8_t[columns] a row, 0 or not, or, when model_input.takes_floats and the item
     * says so, float[columns], which are added. One row for each position of input `like`, or where takes_one_row one
     * for all, and so for the whole item or, behind one another, for each of its n_masks. */
    INPUT_ATTENTION_MASK,
    INPUT_IGNORED, /* the class takes it and does not read it, nor does the engine: any type and shape; where it is
                    * given, data is not NULL */
};

/* How an item's tensor of one input lies in memory. */
enum input_layout {
    LAYOUT_SEQUENCE, /* (length, columns): a tensor (batch, length, columns) is as many items */
    LAYOUT_CALL,     /* (length, width, columns), width being the call's batch: the whole tensor is one item, with
                        length * width rows, and must not be split or joined with another */
    LAYOUT_IMAGE,    /* (columns, length, width): an image, channels first, of length * width pixels, which are its
                        rows; a tensor (batch, columns, length, width) is as many items */
    LAYOUT_CHANNELS, /* (columns, length): the same with pixels of whatever arrangement */
};

struct model_input {
    const char *name; /* the parameter's name in the class's forward() */
    enum input_kind kind;
    enum input_layout layout;
    int64_t columns;     /* of INPUT_ROWS; of INPUT_ATTENTION_MASK, where 0 is the length of `columns_like`; else 1 */
    int columns_like;    /* an input */
    bool takes_floats;   /* INPUT_ATTENTION_MASK */
    bool takes_one_row;  /* INPUT_ATTENTION_MASK: one row may stand for all of them */
    int64_t n_masks;     /* INPUT_ATTENTION_MASK: an item may give so many for each of its width; 0: one alone */
    const char *refused; /* why the class fails when this is given; NULL: it does not */
    int64_t vocabulary;  /* of INPUT_IDS */
    int like;            /* has as many rows as this input; -1: of its own */
    int64_t min_length;  /* of an item's length; with LAYOUT_IMAGE of its pixels */
    int64_t max_length;
    bool own_limit;   /* max_length is the model's; else it follows from max_batch_tokens */
    int64_t multiple; /* the rows, with what padding adds, must be one of it; 1: any number */
    bool optional;
};

/* An output besides the first. */
struct engine_extra {
    int output;  /* index into model_info.outputs, >= 1 */
    float *data; /* of the shape that model_output_shape gives */
};

/* What one item gives and wants. Everything is the caller's and outlives model_run; results are written in place.
 * Zero the struct first: what is NULL is not given, or not wanted. `length` is the rows of inputs[0]: with LAYOUT_CALL
 * its length * width. Where inputs[0] is an image, the output is too, perhaps of another size, and it is all that there
 * is: whole, without hidden, pooled, rows, softmax and top_k. */
struct engine_item {
    struct engine_input {
        const void *data; /* as model_input.kind says; NULL: not given (a mask: all ones) */
        int64_t length;   /* rows; with LAYOUT_CALL positions; with LAYOUT_IMAGE the height; of INPUT_ATTENTION_MASK
                             rows of one mask */
        int64_t width;    /* LAYOUT_CALL: the call's batch, the same for all inputs; LAYOUT_IMAGE: the image's */
        int64_t columns;  /* INPUT_ATTENTION_MASK: of `data` */
        int64_t n_masks;  /* INPUT_ATTENTION_MASK: 0: a tensor (length, columns), for all heads and the whole width;
                             else (n_masks, length, columns), n_masks being width * model_input.n_masks */
        bool floats;      /* INPUT_ATTENTION_MASK: `data` is float, not uint8_t */
    } inputs[ENGINE_MAX_INPUTS];

    float *hidden; /* (length, hidden_columns) */
    float *pooled; /* (hidden_columns), not normalised */
    enum pooling pooling;

    float *output;       /* (n_rows, output_columns); with LAYOUT_IMAGE (output_columns, n_rows) */
    const int32_t *rows; /* which rows of the output; each in [0, length); NULL with n_rows == length: all, in order */
    int64_t n_rows;      /* at most length */
    bool softmax;        /* probabilities over the columns in place of the output */
    int64_t top_k;       /* > 0: the best top_k columns of each row, best first, ties by column, in place of `output` */
    int32_t *top_columns; /* (n_rows, top_k) */
    float *top_values;    /* (n_rows, top_k): logits, or probabilities over all columns with softmax */

    const struct engine_extra *extras; /* n_extras of them */
    int n_extras;
};

#endif
