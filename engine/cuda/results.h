/* results: copies requested results from the device to the items' buffers.
 *
 * Steps write most results to one block of device memory. The shape of the batch (shape.h) determines the place of each
 * result in this block. While the next batch is computed, the device copies the block to pinned host memory with the
 * same layout. The host then copies the results to the items.
 *
 * Some results are copied while their own batch is computed. The softmaxes of attentions are always copied in this way.
 * If the results of a batch do not fit into the block, all of them are copied in this way. This happens with many rows
 * of the output and a large vocabulary. Such copies pass through the two halves of the pinned memory. While the
 * host copies from one half to the items, the device fills the other half. */
#ifndef ENGINE_CUDA_RESULTS_H
#define ENGINE_CUDA_RESULTS_H

#include "engine/cuda/run.h"

/* Half of the pinned memory, filled with consecutive pieces of results. */
struct results_half {
    char *host;
    size_t used;
    struct results_piece *pieces; /* (PIECES): each piece with its destination. n_pieces of them are used */
    int n_pieces;
    cudaEvent_t is_there; /* recorded after the copies of all pieces to host memory */
};

struct results {
    char *host, *device; /* `bytes` each. The host's memory is pinned */
    size_t bytes;
    bool fit;      /* the results of the batch fit in the memory. Otherwise steps copy their results while they run */
    int64_t top_k; /* number of largest columns of each wanted row for which the block has room */
    int64_t hidden_columns, output_columns;
    /* Offsets of arrays in the block. `hidden` has one entry for each row, `pooled` one for each item. The other arrays
     * have one entry for each wanted row. */
    size_t hidden, pooled, output, top_values, top_columns, log_probabilities;
    /* By output of a module: the offset of the rows of the output's value. Only the outputs that an item requests have
     * room in the block. */
    size_t *tensors;
    struct results_half halves[2]; /* the halves of `host` */
    int filling;                   /* the half that is being filled */
};

/* The caller must call results_free, even after failure. */
int results_open(const struct plan *plan, struct results *results, struct error *error);
void results_free(struct results *results);

/* Computes the places of the results for batches of the shape. */
void results_lay_out(struct results *results, const struct plan *plan, const struct batch_shape *shape);

/* Copies the items' requested results to the host's memory. */
cudaError_t results_fetch(const struct results *results, const struct plan *plan, const struct batch *batch,
                          cudaStream_t stream);

/* Copies the results from the host's memory to the items. The copies that results_fetch started must have ended. */
void results_deliver(const struct results *results, const struct plan *plan, const struct batch *batch);

/* Copies from the device to an item's buffer `to`, on the run's stream. So kernels that are launched later may
 * overwrite `from`. The caller must call results_complete_copies afterwards, which completes the copies into the
 * buffers. If `fit` is true, results_complete_copies must be called before results_fetch. */
void results_copy(struct cuda_run *run, void *to, const void *from, int64_t bytes);
void results_complete_copies(struct cuda_run *run);

#endif
