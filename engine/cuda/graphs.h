/* graphs: the CUDA graphs of a lane. Batches of the same shape (shape.h) launch the same kernels. The first batch of a
 * shape is launched kernel by kernel. During this batch, CUDA loads the kernels, and cuBLASLt chooses the algorithms
 * that cuda_products_warm has not chosen. The second batch is captured in a CUDA graph. Each later batch of the shape
 * is one launch of this graph.
 *
 * At most GRAPHS shapes are kept. A new shape replaces the shape that has not been used for the longest time. If a
 * graph cannot be captured or instantiated, batches of its shape are launched kernel by kernel. */
#ifndef ENGINE_CUDA_GRAPHS_H
#define ENGINE_CUDA_GRAPHS_H

#include "engine/cuda/run.h"

#ifndef GRAPHS
#define GRAPHS 64
#endif

struct graph {
    struct batch_shape shape;
    uint64_t used;        /* number of the lane's last batch that used this element. 0 if the element is free */
    int attempts;         /* number of failed attempts to capture the graph */
    cudaGraphExec_t exec; /* NULL if the graph is not captured */
};

struct graphs {
    struct graph *places; /* (GRAPHS) */
    uint64_t batches;
};

/* The caller must call graphs_free, even after failure. */
int graphs_open(const struct plan *plan, struct graphs *graphs, struct error *error);
void graphs_free(struct graphs *graphs);

/* Runs the plan's steps on run->stream. Uses a graph if all launches of the batch depend only on its shape. A graph is
 * captured on the stream `capturing`. */
void graphs_run(struct graphs *graphs, struct cuda_run *run, cudaStream_t capturing,
                void (*launch_steps)(struct cuda_run *run));

#endif
