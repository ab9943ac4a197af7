/* engine: a loaded model and the running of batches through it.
 *
 *     engine_open -> engine_load -> model_check for each item -> model_run for a batch -> …
 *         -> model_close -> engine_close
 *
 * An item is one sequence, one image, or all inputs of one call of forward(). Items of a batch do not affect each
 * other. If model_info.batch_invariant is true, an item's results have the same bits whether it runs alone or in any
 * batch.
 *
 * Threads: any thread may call model_check, model_info, model_output_shape, model_hidden_rows, model_item_tokens and
 * model_item_flops. A lane is a place where one batch at a time runs. A model can run n_lanes batches at once, one on
 * each of its lanes. An engine numbers its lanes from 0, and all its models share the lanes. Lane i of a model is the
 * engine's lane (first_lane + i). Only one thread at a time may use a lane, whatever model it runs there. The CPU has
 * one lane, so a batch on the CPU uses all CPU threads.
 *
 * Memory: engine_load plans the memory of all batches. On the CPU, the engine's code allocates no memory in model_run.
 * The pages of an arena become resident when a batch first uses them. After a device has failed, the first batch on the
 * CPU also starts threads. CUDA may allocate memory for attention masks and graphs.
 *
 * Failures: if a device fails during a batch, the CPU runs that batch again. For this purpose the host's memory keeps a
 * float32 copy of the weights. The failed device is closed. The engine tries to open it again after a tenth of a
 * second, then after longer pauses of up to a minute. Meanwhile other devices, or the CPU, run the batches of the
 * failed device. If a working device lacks memory for a batch, the CPU runs it. The device does not count as failed
 * then. */
#ifndef ENGINE_ENGINE_H
#define ENGINE_ENGINE_H

#include "config/config.h"
#include "engine/options.h"
#include "engine/plan/item.h"
#include "weights/weights.h"

#include <stdio.h>

struct engine; /* devices and their threads. The caller of a successful engine_open must call engine_close */
struct model;  /* weights and plan, resident on the engine's devices */

/* Chooses devices and kernels. Call it before other threads exist, because engine_open overwrites the environment
 * variable OPENBLAS_CORETYPE. The variable tells OpenBLAS which kernels to use. OpenBLAS keeps these kernels for the
 * life of the process. */
int engine_open(const struct engine_options *options, struct engine **engine, struct error *error);
void engine_close(struct engine *engine);               /* after model_close of all its models */
const char *engine_device(const struct engine *engine); /* such as "cpu" or "cuda:0,cuda:1" */

/* A message that "auto" chose the CPU, with the reason, or that "cuda:all" does not use all devices. NULL if there is
 * nothing to report. */
const char *engine_notice(const struct engine *engine);

/* The reason why the CPU multiplies without oneDNN, although the option `products` is auto and oneDNN would be faster.
 * NULL if there is nothing to report. */
const char *engine_cpu_notice(const struct engine *engine);

bool engine_is_on_cpu(const struct engine *engine); /* true if the CPU is the only device */

/* The dtype of most models. model_info has the dtype of each model. Never DTYPE_AUTO. */
enum dtype engine_dtype(const struct engine *engine);

/* The kernels of the first device, such as "avx512, OpenBLAS 0.3.21 SkylakeX, oneDNN 2.6.3, 2 threads". */
const char *engine_kernels(const struct engine *engine);

/* Writes the state of each device into `devices`, at most `room` states. Returns the number of written states, at most
 * ENGINE_MAX_DEVICES. Any thread may call it. */
int engine_devices(const struct engine *engine, struct engine_device *devices, int room);

struct engine_counts engine_counts(const struct engine *engine);

/* Builds the plan of the class that the config names, and uploads its weights. Compares the names, dtypes and shapes of
 * the file's tensors with the class, before weights_read reads any data. `weights` may be closed afterwards. Calls
 * `progress` several times with the fraction done, in [0, 1]. `progress` may be NULL. */
int engine_load(struct engine *engine, const struct model_config *config, struct weights *weights,
                void (*progress)(void *context, double fraction), void *context, struct model **model,
                struct error *error);
void model_close(struct model *model); /* NULL is harmless */

struct model_shape {
    int rank;
    int64_t sizes[ENGINE_MAX_RANK]; /* -1 if the size depends on the item */
};

struct model_info {
    const char *architecture; /* the class's name, as in config.json */
    const struct model_input *inputs;
    int n_inputs;
    /* Names of the outputs.
     *
     *     For a class    outputs[0] is the class's own output. The others are the softmax of each attention, in order
     *                    of execution. The class gives their names, such as "attention_scores" or
     *                    "attn_output_weights". Otherwise the names are "attention.<i>".
     *     For a module   the tensors that the module returns come first, under the module's own names. The softmax of
     *                    each of its attentions follows.
     *
     * An item may request any of these outputs. The list lacks attentions for which the plan divides an item into
     * several sequences (AXIS_SIZED in plan.h). */
    const char *const *outputs;
    int n_outputs;
    int n_tensors; /* for a module that returns tensors: their number. They are outputs[0] to outputs[n_tensors - 1]. 0
                      if the model returns rows */
    bool gives_vector; /* the output and the hidden state are one vector per item. The output has the shape
                          (output_columns) */
    /* Shapes of the outputs, without the batch. NULL if only model_output_shape can compute them. */
    const struct model_shape *shapes;
    int64_t vocabulary;     /* ids of inputs[0] are below this number. 0 if inputs[0] holds floats */
    int64_t output_columns; /* number of columns of the class's output */
    int64_t hidden_columns; /* number of columns of the last hidden state, which the class's own output layer reads */
    bool has_logits;        /* the output is logits over `vocabulary` ids */
    bool is_causal;         /* has_logits, and row p of the output says which id follows the rows up to p */
    bool earlier_rows_stay; /* is_causal, and rows of the output do not change when further rows follow */
    int64_t window;         /* when the model generates text, the class reads only the last `window` rows of a sequence.
                               `window` is at most the max_length of sequence_input. It is 0 if neither the class nor
                               the model limits these rows */
    int sequence_input;     /* index of the input that has the same rows as the output. -1 if there is none */
    /* Number of slots, 0 or more. With a slot, the rows of a sequence may come in several batches (engine_item.slot).
     * Each device has memory for all slots. The states of a sequence (engine_item.slot) are on the device of its latest
     * batch. If another device runs the next batch, the earlier rows of the sequence are computed again. 0 if the model
     * needs all rows at once, or if max_slots is 0. */
    int64_t n_slots;
    size_t slot_bytes;    /* bytes of one slot */
    int64_t parameters;   /* elements of all tensors of the file */
    size_t weights_bytes; /* resident bytes, summed over all devices of the model */
    size_t arena_bytes;   /* bytes for the activations and scratch of the largest batch, summed over all devices of the
                             model. It includes the slots on CUDA devices, but not those on the CPU */
    int first_lane, n_lanes; /* n_lanes >= 1, at most ENGINE_MAX_LANES */
    int n_devices;           /* >= 1. Lane i of the model is on its device i % n_devices */
    const char *device;      /* such as "cpu" or "cuda:0,cuda:1" */
    bool is_on_cpu;          /* true if the CPU is the model's only device */
    enum dtype dtype;        /* never DTYPE_AUTO */
    const char *kernels;     /* like engine_kernels, for the model's device */
    /* In the file, the name of each tensor is this prefix and the class's own name for the tensor. NULL if the names
     * have no prefix. */
    const char *prefix;
    const char *notice;     /* with the setting device "auto": the reason why this model runs on the CPU, although the
                               engine has a CUDA device. NULL if the model runs on the engine's device */
    const char *cpu_notice; /* the reason why the CPU multiplies some weights without oneDNN. NULL if there is nothing
                               to report */
    bool batch_invariant;
    const char *padding;  /* how items are padded, as in config.json: "slice", "zero", "masked", "exact" or "autopad" */
    enum pooling pooling; /* config.json sets this member and the members below */
    bool normalize, auto_truncate;
};
const struct model_info *model_info(const struct model *model);

/* Checks whether the model can run the item: its inputs, lengths, ids, rows, top_k and targets. Returns 0 if the model
 * can run it. Otherwise returns -1, and the message names the input, the expected and the found value. */
int model_check(const struct model *model, const struct engine_item *item, struct error *error);

/* The shape of an output for an item that passed model_check. All rows are counted, even if the item requests fewer.
 *
 *     output 0 of a class                     (length, output_columns)
 *     … with LAYOUT_CALL                      (length, width, output_columns)
 *     … with LAYOUT_IMAGE                     (output_columns, height, width)
 *     an output of a module                   its own shape, perhaps of rank 0
 *     "attention.<i>", "attention_scores"     (heads, length, k), k: the number of keys of the attention
 *     "attn_output_weights"                   (width, length, k)
 *
 * A class may split the dimension output_columns into several sizes, whose product is output_columns. A tensor of a
 * request has one more size in front of this shape, the batch, because it joins several items. Inputs with LAYOUT_CALL
 * are an exception: one item is the whole tensor, and `width` is its batch. Returns the rank, at most
 * ENGINE_MAX_RANK. */
int model_output_shape(const struct model *model, const struct engine_item *item, int output, int64_t *shape);

/* The number of rows of the last hidden state for an item. The item need not have passed model_check. Returns 0 if the
 * model returns only tensors. */
int64_t model_hidden_rows(const struct model *model, const struct engine_item *item);

/* The number of tokens of the item, at least 1. max_batch_tokens limits the sum of these numbers over a batch.
 * plan_counts_axes in plan.h says which rows are counted. */
int64_t model_item_tokens(const struct model *model, const struct engine_item *item);

/* An estimate of the floating point operations for an item. Use it only to compare items or batches. */
double model_item_flops(const struct model *model, const struct engine_item *item);

/* Allocates the resources with which the calling thread runs batches on the lane, mainly its OpenMP threads. Then runs
 * a batch of one short item on the lane, and sets `flops` to the FLOPs of this item. If the model accepts no short
 * item, nothing runs, and `flops` is 0. A server must call this function before it reports itself ready, on each thread
 * and lane that will run batches. Returns -1 if resources are lacking or the batch failed. Without this warm-up,
 * libgomp could end the process later, when it cannot start a thread. */
int model_warm_up(struct model *model, int lane, double *flops, struct error *error);

/* Runs one batch on a lane, 0 <= lane < n_lanes. Each item must have passed model_check, and n_items <=
 * max_batch_requests. The items' tokens must sum to at most max_batch_tokens, unless n_items == 1. Returns -1 if both
 * the device and the CPU failed. The results are then undefined. Results may be infinite or NaN, depending on weights
 * and inputs. The caller must check for such results. */
int model_run(struct model *model, int lane, const struct engine_item *items, int64_t n_items, struct error *error);

/* The lanes that should run batches now. Bit i stands for lane i of the model. The bit is set if the device of this
 * lane works. If no device works, only bit 0 is set, so that batches still have a lane. model_run may be called for any
 * lane. If the lane's device does not work, model_run runs the batch on the CPU. Any thread may call model_ready_lanes.
 * The function never waits. */
uint64_t model_ready_lanes(const struct model *model);

/* --explain: prints each operation with its shapes, FLOPs and bytes, for a batch of one item of `tokens` rows. Then
 * prints the decisions of the plan's passes. On the CPU, a bf16 operand counts 2 bytes per element. On other devices
 * every operand counts 4 bytes per element.
 *
 * The last three lines are "request_bytes N", "weights_bytes N" and "arena_bytes N". Weights and arena stay resident.
 * request_bytes counts the item's required inputs and its first output, with 4 bytes for each element. The server holds
 * both while it answers. */
void model_explain(const struct model *model, int64_t tokens, FILE *out);

/* One step of a model's plan, with the numbers of model_explain. Names and formulas live as long as the model. */
struct model_step {
    const char *operation, *formula;
    int64_t flops, bytes;
    bool runs; /* false if only items with fewer or more rows run this step */
    /* The values that the step reads, and the value that it writes. A value has the number `value` in the plan. */
    struct model_step_value {
        const char *role; /* "x", "keys", "values" or "z". "y" for the result */
        int value;
        int64_t rows, columns;
    } reads[4], result; /* result.value is -1 if the step writes results of the items instead */
    int n_reads;
    struct model_step_weight {
        const char *name;
        int64_t rows, columns;
    } weights[5];
    int n_weights;
    char settings[200]; /* parameters of the operation, such as "4 heads". "" if there are none */
};

int model_n_steps(const struct model *model);

/* The number of rows for which model_explain describes an item of `tokens` tokens, 1 <= tokens <= the max_length of the
 * first input. Images have as many rows as pixels. For a module, the number is the value of its free sizes. */
int64_t model_explained_rows(const struct model *model, int64_t tokens);

/* Describes a step, 0 <= index < model_n_steps, for one item with `rows` rows of model_explained_rows. Any thread may
 * call it. */
void model_step_describe(const struct model *model, int64_t rows, int index, struct model_step *step);

#endif
