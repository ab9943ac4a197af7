/* graphs: a lane's CUDA graphs. The first batch of a class is launched kernel by kernel. Meanwhile CUDA loads its
 * kernels and cuBLASLt chooses the algorithms that cuda_products_warm did not. The second batch is captured in a graph,
 * and from then on a batch of the class is one launch.
 *
 * At most GRAPHS classes are kept. A new one takes the place of the one that was not used for the longest time. If a
 * graph cannot be captured or instantiated, batches of its class are launched kernel by kernel. */
#ifndef ENGINE_CUDA_GRAPHS_H
#define ENGINE_CUDA_GRAPHS_H

#include "engine/cuda/run.h"

#ifndef GRAPHS
#define GRAPHS 64
#endif

struct graph {
    struct shape_class shape;
    uint64_t used;        /* number of the lane's batch that used it last; 0: the place is free */
    int attempts;         /* to capture it that failed */
    cudaGraphExec_t exec; /* NULL: not captured */
};

struct graphs {
    struct graph *places; /* GRAPHS of them */
    uint64_t batches;
};

/* Whether it succeeds or not, graphs_free is owed. */
int graphs_open(const struct plan *plan, struct graphs *graphs, struct error *error);
void graphs_free(struct graphs *graphs);

/* Runs the plan's steps on run->stream, as a graph if the batch's launches follow from its class. A graph is captured
 * on the stream `capturing`. */
void graphs_run(struct graphs *graphs, struct cuda_run *run, cudaStream_t capturing,
                void (*launch_steps)(struct cuda_run *run));

#endif
