/* engine: a loaded model and the running of batches through it.
 *
 *     engine_open -> engine_load -> model_check for each item -> model_run for a batch -> …
 *         -> model_close -> engine_close
 *
 * An item is one sequence, or the call of a model with several inputs. Items of a batch do not affect each other. If
 * model_info.batch_invariant is true, an item's results are the same bits alone and in any batch.
 *
 * Threads: any thread may call model_check, model_info and the size functions. A model can run n_lanes batches at once,
 * one on each lane. An engine numbers its lanes from 0, and its models share them: lane i of a model is lane
 * first_lane + i of the engine. One thread at a time may use a lane of the engine, for whichever model. The CPU has one
 * lane, so a batch there has all threads.
 *
 * Memory: engine_load plans all memory. On the CPU, model_run allocates nothing, except an arena in the first batch
 * after a device has failed. CUDA may allocate memory for attention masks and graphs.
 *
 * Failures: if a device fails during a batch, the CPU runs that batch again. For this the weights stay in the host's
 * memory, too, in float32. The device is closed and opened again: first after a tenth of a second, then after longer
 * pauses of up to a minute. Meanwhile other devices, or the CPU, run its batches. If a working device lacks memory for
 * a batch, the CPU runs it. The device does not count as failed. */
#ifndef ENGINE_ENGINE_H
#define ENGINE_ENGINE_H

#include "config/config.h"
#include "engine/options.h"
#include "engine/plan/item.h"
#include "weights/weights.h"

#include <stdio.h>

struct engine; /* devices and their threads. After engine_open succeeded, the caller owes engine_close */
struct model;  /* weights and plan, resident on the engine's devices */

/* Chooses devices and kernels. Call it before other threads exist: engine_open overwrites the environment variable
 * OPENBLAS_CORETYPE. OpenBLAS reads its kernels from there, and keeps them for the life of the process. */
int engine_open(const struct engine_options *options, struct engine **engine, struct error *error);
void engine_close(struct engine *engine);               /* after model_close of all its models */
const char *engine_device(const struct engine *engine); /* "cpu", "cuda:0,cuda:1" */

/* A notice that "auto" chose the CPU, and why, or that "cuda:all" skipped devices. NULL: no notice. */
const char *engine_notice(const struct engine *engine);

/* If "auto" on the CPU does not use oneDNN although it would be faster, the reason; else NULL. */
const char *engine_cpu_notice(const struct engine *engine);

bool engine_is_on_cpu(const struct engine *engine);   /* and on no other device */
enum dtype engine_dtype(const struct engine *engine); /* of most models (see model_info). Never DTYPE_AUTO */
const char *engine_kernels(
    const struct engine *engine); /* "avx512, OpenBLAS 0.3.21 SkylakeX, oneDNN 2.6.3, 2 threads"; the first device's */

/* Writes the states of the devices, at most `room` of them. Returns their number, at most ENGINE_MAX_DEVICES. Any
 * thread. */
int engine_devices(const struct engine *engine, struct engine_device *devices, int room);

struct engine_counts engine_counts(const struct engine *engine);

/* Builds the plan of the class that the config names, and uploads its weights. Names, dtypes and shapes are compared
 * with the class before weights_read. `weights` may be closed afterwards. Calls `progress`, unless it is NULL, several
 * times with a fraction in [0, 1]. */
int engine_load(struct engine *engine, const struct model_config *config, struct weights *weights,
                void (*progress)(void *context, double fraction), void *context, struct model **model,
                struct error *error);
void model_close(struct model *model); /* NULL is harmless */

struct model_shape {
    int rank;
    int64_t sizes[ENGINE_MAX_RANK]; /* -1: it depends on the item */
};

struct model_info {
    const char *architecture; /* as config.json has it */
    const struct model_input *inputs;
    int n_inputs;
    const char *const *outputs; /* names. [0] is the class's own output. An item may request the others, which are the
                                   softmax of the i-th attention. They have the class's name, such as
                                   "attention_scores" or "attn_output_weights", or else "attention.<i>". The outputs of
                                   a module come first, under its own names. Attentions over several sequences an item
                                   are not counted */
    int n_outputs;
    int n_tensors; /* outputs of a module that gives tensors: outputs[0] to outputs[n_tensors - 1]; 0: it has rows */
    bool gives_vector; /* the output is one row an item, of the shape (output_columns), and so is the hidden state */
    const struct model_shape *shapes; /* by output, without the batch; NULL: see model_output_shape */
    int64_t vocabulary;               /* of inputs[0] when it is ids; 0: the model takes floats */
    int64_t output_columns;           /* of the class's output */
    int64_t hidden_columns;           /* of the last hidden state: what the class's own output layer reads */
    bool has_logits;                  /* the output is logits over `vocabulary` ids */
    int64_t parameters;               /* elements of all tensors of the file */
    size_t weights_bytes;             /* resident, on all its devices together */
    size_t arena_bytes;               /* likewise: activations of the largest batch */
    int first_lane, n_lanes;          /* n_lanes >= 1, at most ENGINE_MAX_LANES */
    const char *device;               /* "cpu", "cuda:0,cuda:1" */
    bool is_on_cpu;                   /* and on no other device */
    enum dtype dtype;                 /* not DTYPE_AUTO */
    const char *kernels;              /* as engine_kernels, of its device */
    const char *prefix;               /* before all names of the file's tensors; NULL: they have the class's names */
    const char *notice;               /* why "auto" did not choose the engine's device for this model; NULL: it did */
    const char *cpu_notice;           /* why the CPU multiplies some weights without oneDNN; NULL: not applicable */
    bool batch_invariant;
    const char *padding;  /* "slice" … */
    enum pooling pooling; /* this and the members below come from config.json */
    bool normalize, auto_truncate;
    enum tokenizer_kind tokenizer;
    int byte_offset; /* TOKENIZER_BYTE: 0 or 3 */
};
const struct model_info *model_info(const struct model *model);

/* Whether the model can run the item: inputs given, lengths, ids, rows, top_k. -1 names the input, what was expected
 * and what was found. */
int model_check(const struct model *model, const struct engine_item *item, struct error *error);

/* The shape of an output, with all rows, for an item that passed model_check:
 *     the class's own output                  (length, output_columns); output_columns may be several sizes
 *     … with LAYOUT_CALL                      (length, width, output_columns)
 *     … with LAYOUT_IMAGE                     (output_columns, height, width)
 *     … of a module                           its own shape, perhaps of rank 0
 *     "attention.<i>", "attention_scores"     (heads, length, k), k: the number of keys of the attention
 *     "attn_output_weights"                   (width, length, k)
 * The tensor of a request has the batch as one more size in front. With LAYOUT_CALL the tensor has this very shape.
 * Returns the rank, at most ENGINE_MAX_RANK. */
int model_output_shape(const struct model *model, const struct engine_item *item, int output, int64_t *shape);

/* Rows of the last hidden state for an item, checked or not; 0: the model gives tensors alone. */
int64_t model_hidden_rows(const struct model *model, const struct engine_item *item);

/* The item's rows that count towards max_batch_tokens. At least 1. For a module: the largest number of rows of any
 * value. */
int64_t model_item_tokens(const struct model *model, const struct engine_item *item);

/* An estimate of the floating point operations for an item. Only good for comparing items or batches. */
double model_item_flops(const struct model *model, const struct engine_item *item);

/* Allocates the resources with which the calling thread runs batches on the lane, mainly its OpenMP threads. Then runs
 * a batch of one short item on the lane, and sets `flops` to the FLOPs of this item. A server calls it before it is
 * ready, on each thread and lane that will run batches. -1: not enough resources, or the batch failed. Without this
 * warm-up, libgomp could end the process later. */
int model_warm_up(struct model *model, int lane, double *flops, struct error *error);

/* Runs one batch on a lane, 0 <= lane < n_lanes. Each item passed model_check, and n_items <= max_batch_requests. Their
 * tokens sum to at most max_batch_tokens, unless n_items == 1. -1: both the device and the CPU failed; results are then
 * undefined. Weights or inputs may lead to results that are not finite. The caller must check for that. */
int model_run(struct model *model, int lane, const struct engine_item *items, int64_t n_items, struct error *error);

/* The lanes that should run batches now, with bit i for lane i: the lanes whose device works. If no device works, lane
 * 0 alone, whose batches then run on the CPU. Any other lane also runs its batches on the CPU. Any thread; never waits.
 */
uint64_t model_ready_lanes(const struct model *model);

/* --explain: prints each operation with its shapes, FLOPs and bytes, for a batch of one item of `tokens` rows. Then
 * prints what the planner decided. On the CPU, bytes count bf16 operands as such. On a device all operands count as
 * float32.
 *
 * The last three lines are "request_bytes N", "weights_bytes N" and "arena_bytes N". Weights and arena stay resident.
 * request_bytes is the item's input and output in binary, which the server holds while it answers. */
void model_explain(const struct model *model, int64_t tokens, FILE *out);

#endif
