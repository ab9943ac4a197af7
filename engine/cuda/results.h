/* results: the way of what items want back to the host. Steps leave it on the device in a place that follows from the
 * batch's class; from there it is copied to pinned memory of the same layout, while the next batch may be computed, and
 * by the host to the items' own buffers. What has no room there (an output of many rows by a large vocabulary) or no
 * place (attention maps) is copied while the batch is computed, by way of the two halves of that memory: while one is
 * handed on to the items, the device computes what comes next and copies it into the other. */
#ifndef ENGINE_CUDA_RESULTS_H
#define ENGINE_CUDA_RESULTS_H

#include "engine/cuda/run.h"

/* What goes to items, piece behind piece. */
struct results_half {
    char *host;
    size_t used;
    struct results_piece *pieces; /* (n_pieces) of PIECES */
    int n_pieces;
    cudaEvent_t is_there; /* all of them, in the host's memory */
};

struct results {
    char *host, *device; /* `bytes` each; the host's is pinned */
    size_t bytes;
    bool fit;      /* the batch's results; else steps copy what they give */
    int64_t top_k; /* best columns that a wanted row has room for */
    int64_t hidden_columns, output_columns;
    size_t hidden, pooled, output, top_values, top_columns; /* offsets; by row, item, wanted row */
    struct results_half halves[2];                          /* of host */
    int filling;                                            /* which of them */
};

/* Whether it succeeds or not, results_free is owed. */
int results_open(const struct plan *plan, struct results *results, struct error *error);
void results_free(struct results *results);

/* Makes the places for a batch of that class. */
void results_lay_out(struct results *results, const struct plan *plan, const struct shape_class *shape);

/* Copies what the batch's items want of it to the host's memory. */
cudaError_t results_fetch(const struct results *results, const struct plan *plan, const struct batch *batch,
                          cudaStream_t stream);

/* … and on to the items, once it is there. */
void results_deliver(const struct results *results, const struct plan *plan, const struct batch *batch);

/* Copies from the device to an item, on the run's stream, so that what is launched next may write over it. The item has
 * it after results_hand_on, which is owed, and which in a batch whose results fit comes before results_fetch. */
void results_copy(struct cuda_run *run, void *to, const void *from, int64_t bytes);
void results_hand_on(struct cuda_run *run);

#endif
