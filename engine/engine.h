/* engine: a loaded model and the running of batches through it.
 *
 *     engine_open -> engine_load -> model_check for each item -> model_run for a batch -> … -> model_close ->
 * engine_close
 *
 * An item is one sequence (or the call of a model with several inputs). Items of a batch don't see each other: where
 * model_info.batch_invariant holds, an item's results are the same bits alone and in any batch.
 *
 * Threads: model_check, model_info and the size functions may be called from any thread. model_run on a lane: a model
 * can have n_lanes batches in flight, one on each. An engine numbers its lanes from 0 and its models share them: lane i
 * of a model is lane first_lane + i of the engine, and each of these is used by one thread at a time, whichever model
 * it is for. The CPU's is one lane, so one batch at a time has all its threads. model_run allocates nothing: all memory
 * is planned by engine_load. */
#ifndef ENGINE_ENGINE_H
#define ENGINE_ENGINE_H

#include "config/config.h"
#include "weights/weights.h"

#include <stdio.h>

#define ENGINE_MAX_INPUTS 5
#define ENGINE_MAX_RANK 4
#define ENGINE_MAX_DEVICES 32
#define ENGINE_MAX_LANES 64 /* of a model */

struct engine; /* devices and their threads; engine_open succeeded: engine_close is owed, after all its models */
struct model;  /* weights and plan, resident on the engine's devices */

/* What happened to a device. */
struct engine_event {
    const char *device;  /* "cuda:0" */
    const char *failure; /* why it failed, or could not be opened again; NULL: it works again */
    int64_t pause_ms;    /* with a failure: so long until it is tried again; 0: it works, and refused a batch, the first
                            of a model's. Later ones are only counted */
    bool lasts;          /* once: it could not be opened again ENGINE_LASTING_ATTEMPTS times, so that perhaps only a new
                            process can */
};
#define ENGINE_LASTING_ATTEMPTS 5

struct engine_options {
    const char *device;       /* "auto": the first CUDA device where there is one, else the CPU; "cpu"; "cuda": the
                                 first; "cuda:1,cuda:0"; "cuda:all" */
    const char *dtype;        /* "auto", "f32", "tf32", "bf16" or "f16": of products with weights; a device refuses
                                 what it lacks; auto is f32 on the CPU, bf16 on CUDA */
    const char *kernels;      /* the CPU's: "auto" (also NULL), "avx512", "avx2" or "baseline" */
    const char *products;     /* the CPU's: "auto" (also NULL), "onednn" or "openblas" */
    int64_t threads;          /* 0: one a core this process may use */
    int64_t cuda_tuning_ms;   /* at most, in which products are timed when a model is put on a CUDA device; 0: none is,
                                 and which algorithm takes which does not change from load to load */
    bool all_threads;         /* even for small batches, which one thread runs at less cost: tests want that */
    int64_t max_batch_tokens; /* >= 1; rows of all items of a batch; a longer item is a batch of its own, but an
                                 input without a longest length of its class's (own_limit) has no more */
    int64_t max_batch_requests; /* >= 1; items of a batch */

    /* Told when a device fails, and when it is back or still is not; NULL: nobody is. Called without locks, on threads
     * that run batches and on one of the engine's own; must be short, and may call model_ready_lanes alone. */
    void (*report)(void *context, const struct engine_event *event);
    void *report_context;
};

/* A device that fails costs no batch: it runs again on the CPU, which stands behind all devices with the same weights
 * in float32 (so these stay in the host's memory, too). The device is closed and opened again, first after a tenth of a
 * second, then after longer pauses of up to a minute; meanwhile others have its batches, or the CPU has. A batch that a
 * device cannot run though it works, for want of memory, runs again on the CPU as well, and is no fault of the
 * device's.
 *
 * The strings of the options outlive the engine. Chooses devices and kernels. Call it before other threads exist:
 * OpenBLAS is told which kernels to use through the environment (OPENBLAS_CORETYPE, whatever it was), and keeps them
 * for the life of the process. */
int engine_open(const struct engine_options *options, struct engine **engine, struct error *error);
void engine_close(struct engine *engine);
const char *engine_device(const struct engine *engine);     /* "cpu", "cuda:0,cuda:1" */
const char *engine_notice(const struct engine *engine);     /* why "auto" is the CPU here, or that "cuda:all" is not
                                                                all devices; NULL: neither */
const char *engine_cpu_notice(const struct engine *engine); /* where the engine is the CPU, why "auto" does without
                                                               oneDNN, which is faster there; NULL: it does not */
const char *engine_dtype(const struct engine *engine);      /* "f32", "bf16": of most models, see model_info */
const char *engine_kernels(
    const struct engine *engine); /* "avx512, OpenBLAS 0.3.21 SkylakeX, oneDNN 2.6.3, 2 threads"; the first device's */

/* A device's state, from any thread. */
struct engine_device {
    const char *name; /* "cpu", "cuda:1" */
    const char *kernels;
    bool works;         /* else it failed, and is tried again now and then */
    int64_t faults;     /* batches that failed on it */
    int64_t recoveries; /* times that it came back */
};

/* Writes at most `room` of them; returns how many: at most ENGINE_MAX_DEVICES. */
int engine_devices(const struct engine *engine, struct engine_device *devices, int room);

/* Of batches, since engine_open. */
struct engine_counts {
    int64_t reruns;          /* failed on a device, or were refused by it, and ran again on the CPU */
    int64_t standby_batches; /* ran on the CPU in place of a device, reruns included */
};
struct engine_counts engine_counts(const struct engine *engine);

/* Builds the plan of the class that the config names and uploads its weights; `weights` may be closed afterwards.
 * `progress`, when not NULL, is called now and then with a fraction in [0, 1]. */
int engine_load(struct engine *engine, const struct model_config *config, const struct weights *weights,
                void (*progress)(void *context, double fraction), void *context, struct model **model,
                struct error *error);
void model_close(struct model *model); /* NULL is harmless */

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

struct model_info {
    const char *architecture; /* as config.json has it */
    const struct model_input *inputs;
    int n_inputs;
    const char *const *outputs; /* names; [0] is the class's own output, the others are given when they are wanted:
                                   "attention.<i>" is P-bar, after the softmax, of the i-th attention over k, where the
                                   class has no name for it ("attention_scores", "attn_output_weights") */
    int n_outputs;
    int64_t vocabulary;      /* of inputs[0] when it is ids; 0: the model takes floats */
    int64_t output_columns;  /* of the class's output */
    int64_t hidden_columns;  /* of the last hidden state: what the class's own output layer reads */
    bool has_logits;         /* the output is logits over `vocabulary` ids */
    int64_t parameters;      /* elements of all tensors of the file */
    size_t weights_bytes;    /* resident, on all its devices together */
    size_t arena_bytes;      /* likewise: activations of the largest batch */
    int first_lane, n_lanes; /* n_lanes >= 1, at most ENGINE_MAX_LANES */
    const char *device;      /* "cpu", "cuda:0,cuda:1" */
    const char *dtype;       /* "f32", "bf16" … */
    const char *kernels;     /* as engine_kernels, of its device */
    const char *notice;      /* why "auto" did not take the engine's device for this model; NULL: it did */
    bool batch_invariant;
    const char *padding;  /* "slice" … */
    enum pooling pooling; /* of config.json, like the next two */
    bool normalize;
    enum tokenizer tokenizer;
};
const struct model_info *model_info(const struct model *model);

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
    struct {
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

/* Whether the model can run the item: inputs given, lengths, ids, rows, top_k. -1 names the input, what was expected
 * and what was found. */
int model_check(const struct model *model, const struct engine_item *item, struct error *error);

/* The shape of an output for an item that passed model_check, all its rows. The class's own: (length, output_columns),
 * or the sizes whose product output_columns is; with LAYOUT_CALL (length, width, output_columns); with LAYOUT_IMAGE
 * (output_columns, height, width). "attention.<i>" and "attention_scores": (heads, length, k); "attn_output_weights":
 * (width, length, k). The tensor of a request has its batch in front of that; with LAYOUT_CALL this is the tensor.
 * Returns the rank, at most ENGINE_MAX_RANK. */
int model_output_shape(const struct model *model, const struct engine_item *item, int output, int64_t *shape);

/* Rows that count towards max_batch_tokens. At least 1. */
int64_t model_item_tokens(const struct model *model, const struct engine_item *item);

/* Runs one batch on a lane, 0 <= lane < n_lanes: each item passed model_check, n_items <= max_batch_requests, and their
 * tokens sum to at most max_batch_tokens unless n_items == 1. Fails (-1) when the device does, and the CPU behind it;
 * then results are undefined. A result may hold values that are not finite, when weights or inputs make it so: the
 * caller looks. */
int model_run(struct model *model, int lane, const struct engine_item *items, int64_t n_items, struct error *error);

/* The lanes that are to take batches now, bit i being lane i: those whose devices work or, where none does, the first
 * one, for the CPU. The others run a batch on the CPU, too, if they are given one. Any thread; waits for nothing. */
uint64_t model_ready_lanes(const struct model *model);

/* --explain: every operation with its shapes, FLOPs and bytes for a batch of `tokens` rows in one item, then what the
 * planner decided. Bytes, and which operands are bf16, are as the CPU has them; on a device they are float32's. Its
 * last lines are "weights_bytes N" and "arena_bytes N", which stay resident; before them "request_bytes N": the input
 * and output of that item in binary, which the server holds besides while it answers. */
void model_explain(const struct model *model, int64_t tokens, FILE *out);

#endif
