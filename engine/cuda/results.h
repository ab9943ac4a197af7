/* results: copies requested results from the device to the items' buffers.
 *
 * Most results have a place on the device that follows from the batch's class. Steps write them there. From there they
 * are copied to pinned memory with the same layout, while the next batch is computed. The host copies them to the
 * items.
 *
 * Two kinds of results are copied while their batch is computed. An output of many rows by a large vocabulary may have
 * no room there. Attention maps have no place. Both go through the two halves of the pinned memory. While the host
 * hands on one half to the items, the device fills the other. */
#ifndef ENGINE_CUDA_RESULTS_H
#define ENGINE_CUDA_RESULTS_H

#include "engine/cuda/run.h"

/* Half of the pinned memory, filled with consecutive pieces of results. */
struct results_half {
    char *host;
    size_t used;
    struct results_piece *pieces; /* with their destinations; n_pieces of PIECES are used */
    int n_pieces;
    cudaEvent_t is_there; /* all of them are in the host's memory */
};

struct results {
    char *host, *device; /* `bytes` each; the host's is pinned */
    size_t bytes;
    bool fit;      /* the batch's results have room; else steps copy what they compute */
    int64_t top_k; /* best columns that a wanted row has room for */
    int64_t hidden_columns, output_columns;
    size_t hidden, pooled, output, top_values, top_columns; /* offsets of arrays by row, by item and by wanted row */
    size_t *tensors;               /* by output of a module: the offset of its value's rows, if an item wants it */
    struct results_half halves[2]; /* of `host` */
    int filling;                   /* the half that is filled */
};

/* Whether it succeeds or not, results_free is owed. */
int results_open(const struct plan *plan, struct results *results, struct error *error);
void results_free(struct results *results);

/* Gives results of a batch of that class their places. */
void results_lay_out(struct results *results, const struct plan *plan, const struct shape_class *shape);

/* Copies the items' requested results to the host's memory. */
cudaError_t results_fetch(const struct results *results, const struct plan *plan, const struct batch *batch,
                          cudaStream_t stream);

/* Copies them from there to the items. The copies of results_fetch must have ended. */
void results_deliver(const struct results *results, const struct plan *plan, const struct batch *batch);

/* Copies from the device to an item, on the run's stream: kernels that are launched later may overwrite `from`. The
 * item has it after results_hand_on, which is owed. In a batch whose results fit that call comes before results_fetch.
 */
void results_copy(struct cuda_run *run, void *to, const void *from, int64_t bytes);
void results_hand_on(struct cuda_run *run);

#endif
