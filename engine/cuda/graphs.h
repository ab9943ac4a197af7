/* graphs: a lane's CUDA graphs. The first batch of a class is launched kernel by kernel, which lets CUDA load its
 * kernels, and cuBLASLt choose what cuda_products_warm did not; the second is captured; from then on a batch of the
 * class is one launch. At most GRAPHS classes are kept: a new one takes the place of that which was not used for
 * longest. Where a graph cannot be captured or instantiated, batches of its class go on being launched kernel by
 * kernel. */
#ifndef ENGINE_CUDA_GRAPHS_H
#define ENGINE_CUDA_GRAPHS_H

#include "engine/cuda/run.h"

#ifndef GRAPHS
#define GRAPHS 64
#endif

struct graph {
    struct shape_class shape;
    uint64_t used;        /* by the so many-th batch of the lane; 0: the place is free */
    int attempts;         /* to capture it, that failed */
    cudaGraphExec_t exec; /* NULL: not captured */
};

struct graphs {
    struct graph *places; /* GRAPHS of them */
    uint64_t batches;
};

/* Whether it succeeds or not, graphs_free is owed. */
int graphs_open(const struct plan *plan, struct graphs *graphs, struct error *error);
void graphs_free(struct graphs *graphs);

/* Runs the plan's steps on run->stream: as a graph, which is captured on `capturing`, where the batch is one for it. */
void graphs_run(struct graphs *graphs, struct cuda_run *run, cudaStream_t capturing,
                void (*launch_steps)(struct cuda_run *run));

#endif
