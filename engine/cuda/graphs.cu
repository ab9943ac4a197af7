#include "engine/cuda/graphs.h"

#include <stdlib.h>
#include <string.h>

#define MAX_ATTEMPTS 3

int graphs_open(const struct plan *plan, struct graphs *graphs, struct error *error)
{
    graphs->places = (struct graph *)calloc(GRAPHS, sizeof *graphs->places);
    if (!graphs->places)
        return error_set(error, "out of memory while preparing a model");
    for (int i = 0; i < GRAPHS; i++)
        if (shape_open(plan, &graphs->places[i].shape, error) != 0)
            return -1;
    return 0;
}

void graphs_free(struct graphs *graphs)
{
    for (int i = 0; graphs->places && i < GRAPHS; i++) {
        if (graphs->places[i].exec)
            cudaGraphExecDestroy(graphs->places[i].exec);
        shape_free(&graphs->places[i].shape);
    }
    free(graphs->places);
}

/* Finds the place of the shape. A new shape receives the place that has not been used for the longest time. */
static struct graph *find(struct graphs *graphs, const struct plan *plan, const struct batch_shape *shape)
{
    struct graph *oldest = &graphs->places[0];
    for (int i = 0; i < GRAPHS; i++) {
        struct graph *place = &graphs->places[i];
        if (place->used && shape_equals(plan, &place->shape, shape))
            return place;
        if (place->used < oldest->used)
            oldest = place;
    }
    if (oldest->exec)
        cudaGraphExecDestroy(oldest->exec);
    oldest->exec = NULL;
    oldest->attempts = 0;
    oldest->used = 0;
    shape_copy(plan, &oldest->shape, shape);
    return oldest;
}

/* If capturing fails, place->exec stays NULL, and the error is cleared. If the device does not work, the launches that
 * follow will fail, too. */
static void capture(struct graph *place, struct cuda_run *run, cudaStream_t stream,
                    void (*launch_steps)(struct cuda_run *run))
{
    struct cuda_run captured = *run;
    cudaGraph_t graph = NULL;
    captured.stream = stream;
    captured.capturing = true;
    if (cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal) == cudaSuccess) {
        launch_steps(&captured);
        note(&captured, cudaStreamEndCapture(stream, &graph));
        if (has_not_failed(&captured) && cudaGraphInstantiate(&place->exec, graph, 0) != cudaSuccess)
            place->exec = NULL;
    }
    if (graph)
        cudaGraphDestroy(graph);
    if (!place->exec) {
        place->attempts++;
        cudaGetLastError();
    }
}

void graphs_run(struct graphs *graphs, struct cuda_run *run, cudaStream_t capturing,
                void (*launch_steps)(struct cuda_run *run))
{
    if (!run->is_repeatable || run->status != cudaSuccess) {
        launch_steps(run);
        return;
    }
    struct graph *place = find(graphs, run->plan, run->shape);
    bool seen = place->used > 0;
    place->used = ++graphs->batches;
    if (seen && !place->exec && place->attempts < MAX_ATTEMPTS)
        capture(place, run, capturing, launch_steps);
    if (place->exec)
        note(run, cudaGraphLaunch(place->exec, run->stream));
    else
        launch_steps(run);
}
