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
#include "engine/options.h"
#include "engine/plan/item.h"
#include "weights/weights.h"

#include <stdio.h>

struct engine; /* devices and their threads; engine_open succeeded: engine_close is owed, after all its models */
struct model;  /* weights and plan, resident on the engine's devices */

/* A device that fails costs no batch: it runs again on the CPU, which stands behind all devices with the same weights
 * in float32 (so these stay in the host's memory, too). The device is closed and opened again, first after a tenth of a
 * second, then after longer pauses of up to a minute; meanwhile others have its batches, or the CPU has. A batch that a
 * device cannot run though it works, for want of memory, runs again on the CPU as well, and is no fault of the
 * device's.
 *
 * Chooses devices and kernels. Call it before other threads exist:
 * OpenBLAS is told which kernels to use through the environment (OPENBLAS_CORETYPE, whatever it was), and keeps them
 * for the life of the process. */
int engine_open(const struct engine_options *options, struct engine **engine, struct error *error);
void engine_close(struct engine *engine);
const char *engine_device(const struct engine *engine);     /* "cpu", "cuda:0,cuda:1" */
const char *engine_notice(const struct engine *engine);     /* why "auto" is the CPU here, or that "cuda:all" is not
                                                                all devices; NULL: neither */
const char *engine_cpu_notice(const struct engine *engine); /* where the engine is the CPU, why "auto" does without
                                                               oneDNN, which is faster there; NULL: it does not */
bool engine_is_on_cpu(const struct engine *engine);         /* and on no other device */
enum dtype engine_dtype(const struct engine *engine);       /* of most models, see model_info; not DTYPE_AUTO */
const char *engine_kernels(
    const struct engine *engine); /* "avx512, OpenBLAS 0.3.21 SkylakeX, oneDNN 2.6.3, 2 threads"; the first device's */

/* The states of the devices, from any thread. Writes at most `room` of them; returns how many: at most
 * ENGINE_MAX_DEVICES. */
int engine_devices(const struct engine *engine, struct engine_device *devices, int room);

struct engine_counts engine_counts(const struct engine *engine);

/* Builds the plan of the class that the config names and uploads its weights. Names, dtypes and shapes are compared
 * with the class before weights_read. `weights` may be closed afterwards. `progress`, when not NULL, is called now and
 * then with a fraction in [0, 1]. */
int engine_load(struct engine *engine, const struct model_config *config, struct weights *weights,
                void (*progress)(void *context, double fraction), void *context, struct model **model,
                struct error *error);
void model_close(struct model *model); /* NULL is harmless */

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
    bool is_on_cpu;          /* and on no other device */
    enum dtype dtype;        /* not DTYPE_AUTO */
    const char *kernels;     /* as engine_kernels, of its device */
    const char *prefix;      /* before all names of the file's tensors; NULL: they have the class's names */
    const char *notice;      /* why "auto" did not take the engine's device for this model; NULL: it did */
    const char *cpu_notice;  /* why the CPU multiplies by some weights without oneDNN, though the engine has it; NULL:
                                it does not, or the model is on other devices */
    bool batch_invariant;
    const char *padding;  /* "slice" … */
    enum pooling pooling; /* of config.json, like all that follows */
    bool normalize, auto_truncate;
    enum tokenizer tokenizer;
    int byte_offset; /* TOKENIZER_BYTE: 0 or 3 */
};
const struct model_info *model_info(const struct model *model);

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

/* About how many floating point operations an item takes in a batch: for comparing items, and batches that ran. */
double model_item_flops(const struct model *model, const struct engine_item *item);

/* Gives the calling thread all that running batches on the lane takes of the system, above all its threads, and runs a
 * batch of one short item there. A server does so before it is ready, on each thread and lane that will run batches.
 * -1: there is too little, or the batch failed; without it libgomp would end the process later. `flops` is that item's.
 */
int model_warm_up(struct model *model, int lane, double *flops, struct error *error);

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
