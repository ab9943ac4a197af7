/* item: describes the inputs of a model, and the inputs and requested results of one item of a batch. An item is one
 * sequence, one image, or one whole call of forward(). engine.h includes this header. */
#ifndef ENGINE_PLAN_ITEM_H
#define ENGINE_PLAN_ITEM_H

#include "config/config.h"

#define ENGINE_MAX_INPUTS 5
#define ENGINE_MAX_RANK 6

enum input_kind {
    INPUT_IDS,  /* one int32_t per row, 0 <= id < vocabulary */
    INPUT_ROWS, /* float[columns] per row */
    INPUT_MASK, /* one uint8_t per row: 0 (false) or any other number (true) */
    /* A mask for the scores of an attention. A row is uint8_t[columns], where 0 means false, or float[columns], which
       is added to the scores. Floats are allowed if model_input.accepts_floats is true. engine_input.floats says that
       an item's mask has floats. A mask has one row for each row of the input `like`. If accepts_one_row is true, a
       mask of one row may apply to all rows. An item has one mask for all its sequences, or masks_per_sequence masks
       for each sequence, one after another. */
    INPUT_ATTENTION_MASK,
    INPUT_IGNORED, /* a parameter of the class that neither class nor engine reads. Its data may have any type and
                      shape. If the item contains the input, data is not NULL */
};

/* How an item's tensor of one input lies in memory. */
enum input_layout {
    LAYOUT_SEQUENCE, /* (length, columns). A tensor (batch, length, columns) of a request is `batch` items */
    LAYOUT_CALL,  /* (length, width, columns), where width is the batch size of the Python call. The whole tensor is one
                     item with length * width rows. The item must not be split, nor joined with another item */
    LAYOUT_IMAGE, /* (columns, length, width): an image, channels first. Its height is `length`. Its length * width
                     pixels are the rows. A tensor (batch, columns, length, width) is `batch` items */
    LAYOUT_CHANNELS, /* (columns, length): pixels, channels first. Their arrangement in an image does not matter */
    LAYOUT_TENSOR,   /* any shape, of `rank` sizes in engine_input.sizes. The last size need not equal `columns`, the
                        number of innermost elements that make one row. A tensor (batch, sizes…) is `batch` items */
};

struct model_input {
    const char *name; /* the parameter's name in the class's forward() */
    enum input_kind kind;
    enum input_layout layout;
    int64_t columns;  /* number of elements of a row. At least 1 for INPUT_ROWS. For INPUT_ATTENTION_MASK, 0 means the
                         length of the input columns_like. 1 for other kinds */
    int columns_like; /* INPUT_ATTENTION_MASK with `columns` 0: index of the input whose length is the number of
                         columns */
    bool accepts_floats;  /* INPUT_ATTENTION_MASK: the mask may consist of floats */
    bool accepts_one_row; /* INPUT_ATTENTION_MASK: a mask of one row may apply to all rows */
    /* INPUT_ATTENTION_MASK: number of masks for each of the `width` sequences of an item. 0 if an item has one mask for
     * all sequences. */
    int64_t masks_per_sequence;
    const char *refused; /* the reason why the class fails if an item contains this input. NULL if the class accepts the
                            input */
    int64_t vocabulary;  /* INPUT_IDS: number of valid ids */
    int like;            /* index of the input whose number of rows this input must have. -1 if there is none */
    int rank;            /* LAYOUT_TENSOR: number of sizes of an item */
    int64_t shape[ENGINE_MAX_RANK]; /* LAYOUT_TENSOR: `rank` sizes of an item. -1 if a size may differ between items */
    int64_t min_length;             /* least length of an item. With LAYOUT_IMAGE, the least number of pixels */
    int64_t max_length;
    bool own_limit;   /* true if the model itself sets max_length. Otherwise max_length follows from max_batch_tokens */
    int64_t multiple; /* the number of rows, padding included, must be a multiple of this */
    bool optional;
    int fallback; /* index of the input whose rows are read if an item lacks this input. -1 if there is none */
};

/* A requested output other than outputs[0]. */
struct engine_extra {
    int output;  /* index into model_info.outputs, >= 1 */
    float *data; /* of the shape that model_output_shape returns */
};

/* The inputs of one item, and the results that it requests. The caller owns all memory and keeps it until model_run
 * returns. model_run writes the results into this memory. Zero the struct first. An input with data NULL is absent, and
 * a result that is NULL is not requested. In the shapes below, `length` is the number of rows of inputs[0]. With
 * LAYOUT_CALL, inputs[0] has inputs[0].length * inputs[0].width rows. If inputs[0] is an image, the output is an image,
 * perhaps of another size. The output is then the only result: hidden, pooled, rows, softmax, top_k and targets must be
 * unset. For a module that returns tensors, the same members must be unset. In this case, `output` is the whole first
 * tensor, n_rows is 0, and `extras` are the other tensors. */
struct engine_item {
    struct engine_input {
        const void *data; /* of the type that model_input.kind prescribes. NULL if the item lacks the input. A missing
                             INPUT_MASK counts as all ones */
        int64_t length;   /* number of rows. With LAYOUT_CALL the number of positions, with LAYOUT_IMAGE the height.
                             With INPUT_ATTENTION_MASK the number of rows of one mask */
        int64_t width;   /* LAYOUT_CALL: the batch size of the call, the same for all inputs. LAYOUT_IMAGE: the width of
                            the image */
        int64_t columns; /* INPUT_ATTENTION_MASK: number of columns of `data` */
        /* INPUT_ATTENTION_MASK: the number of masks in `data` (n_masks, length, columns). This number is width *
         * model_input.masks_per_sequence, or 0 if `data` is one mask (length, columns) for all heads and sequences. */
        int64_t n_masks;
        int64_t sizes[ENGINE_MAX_RANK]; /* LAYOUT_TENSOR: the item's shape */
        bool floats;                    /* INPUT_ATTENTION_MASK: true if `data` is float, false if uint8_t */
    } inputs[ENGINE_MAX_INPUTS];

    /* The rows of a sequence may come in several batches. Then this item contains the rows from `first` on. The slot
     * keeps the intermediate results of earlier batches that later rows need, called the states of the sequence. Other
     * inputs of the sequence, such as the output of an encoder, come only with first == 0. Such an item may request
     * only rows of the output. */
    int64_t slot;  /* number of a slot, 1 to model_info.n_slots. Two items of a batch must not have the same slot. 0 if
                      the item is a whole sequence */
    int64_t first; /* with a slot: number of rows of the sequence that earlier batches have computed. 0 begins a new
                      sequence */
    /* Used if `first` > 0: an item with all inputs of the sequence. The item's first rows are those of the earlier
     * batches. If the device that runs the batch lacks the states of the sequence, the earlier rows are computed again
     * from this item. NULL if the caller has no such item. Then the batch fails if its device lacks the states. */
    const struct engine_item *earlier;

    float *hidden; /* (length, hidden_columns). For a module (model_hidden_rows, hidden_columns) */
    float *pooled; /* (hidden_columns), not normalised */
    enum pooling pooling;

    float *output;       /* (n_rows, output_columns). With LAYOUT_IMAGE (output_columns, n_rows) */
    const int32_t *rows; /* (n_rows): indices of the requested rows of the output, each in [0, length). NULL if n_rows
                            == length, for all rows */
    int64_t n_rows;      /* at most length */
    bool softmax;        /* `output` and top_values are probabilities: the softmax over the columns */
    int64_t top_k; /* if > 0, the largest top_k columns of each row are returned in place of `output`, in descending
                      order. If values are equal, the lower column comes first */
    int32_t *top_columns; /* (n_rows, top_k) */
    float *top_values;    /* (n_rows, top_k): logits, or with `softmax` probabilities over all columns */
    /* The natural logarithms of probabilities, torch.log_softmax over the columns. They may be requested with `output`
     * or with top_k. If they are requested alone, the item needs no memory for whole rows. `softmax` does not change
     * them. */
    const int32_t *targets;   /* (n_rows): for each row, the index of a column, or -1 for none. NULL if no logarithm is
                                 requested */
    float *log_probabilities; /* (n_rows): receives the logarithm for the target of each row. 0 if the target is -1 */

    const struct engine_extra *extras; /* (n_extras) */
    int n_extras;

    /* The CPU engine calls this function as soon as requested row number `index` is complete in `output`. It runs on
     * one of the threads that compute the batch. Several threads may call it at once for different rows and items,
     * which divides the caller's work among them. A CUDA device does not call it. NULL if nothing is to be called. */
    void (*finish)(void *context, int64_t index);
    void *finish_context;
};

/* Whether the item requests any result for its n_rows rows of the output. */
static inline bool engine_item_wants_rows(const struct engine_item *item)
{
    return item->output || item->top_k > 0 || item->targets;
}

#endif
