#include "engine/cuda/fusion.h"
#include "engine/cuda/lane.h"
#include "engine/cuda/project.h"

int lane_open(const struct plan *plan, struct cuda_lane *lane, struct error *error)
{
    if (shape_open(plan, &lane->shape, error) != 0 || upload_open(plan, &lane->upload, error) != 0 ||
        results_open(plan, &lane->results, error) != 0 || graphs_open(plan, &lane->graphs, error) != 0)
        return -1;
    cudaEvent_t *events[] = {&lane->is_up, &lane->is_computed, &lane->is_down};
    for (cudaEvent_t *event : events)
        if (cuda_open_event(event, cudaEventBlockingSync | cudaEventDisableTiming, error) != 0)
            return -1;
    return 0;
}

void lane_free(struct cuda_lane *lane)
{
    cudaEvent_t events[] = {lane->is_up, lane->is_computed, lane->is_down};
    graphs_free(&lane->graphs);
    for (int i = 0; i < 3; i++)
        if (events[i])
            cudaEventDestroy(events[i]);
    results_free(&lane->results);
    upload_free(&lane->upload);
    shape_free(&lane->shape);
}

/* Whether an item requests the softmax of an attention. The softmax is copied to the item while steps run. */
static bool wants_attention(const struct plan *plan, const struct batch *batch)
{
    for (int64_t i = 0; i < batch->n_items; i++)
        for (int e = 0; e < batch->items[i].n_extras; e++)
            if (batch->items[i].extras[e].output >= plan_attention_output(plan, 0))
                return true;
    return false;
}

/* Whether all launches depend only on the shape of the batch. */
static bool is_repeatable(const struct cuda_run *run, const struct cuda_lane *lane)
{
    const struct plan *plan = run->plan;
    if (!lane->results.fit || wants_attention(plan, run->batch))
        return false;
    for (int i = 0; i < plan->n_steps; i++)
        if (cuda_operation_of(run->dtype, plan->steps[i].operation)->by_item ||
            shape_launches_apart(plan, &lane->shape, i) || cuda_projects_by_length(run, &plan->steps[i]))
            return false;
    return true;
}

static void launch_steps(struct cuda_run *run)
{
    upload_place_inputs(run->upload, run);
    for (int i = 0; i < run->plan->n_steps && has_not_failed(run); i += run->launches[i].steps) {
        run->step = &run->plan->steps[i];
        run->launches[i].run(run, run->step);
    }
}

/* Lays out the batch in the lane's memory and copies it to the device. Batches of other lanes may run during the
 * copy. */
static void send(struct cuda_lane *lane, const struct backend *backend, struct cuda_run *run)
{
    shape_of_batch(run->plan, run->batch, &lane->shape);
    cudaError_t filled = upload_fill(&lane->upload, run->plan, run->batch, &lane->shape);
    if (filled == cudaErrorMemoryAllocation)
        run->refusal = "out of memory for attention masks";
    else
        note(run, filled);
    if (!has_not_failed(run))
        return;
    results_lay_out(&lane->results, run->plan, &lane->shape);
    upload_describe(&lane->upload, run);
    run->stream = backend->compute;
    run->shape = &lane->shape;
    run->upload = &lane->upload;
    run->results = &lane->results;
    run->is_repeatable = is_repeatable(run, lane);
    note(run, upload_send(&lane->upload, backend->up));
    note(run, cudaEventRecord(lane->is_up, backend->up));
}

/* Queues the batch after the running batches. Its results are fetched while the next batch is computed. */
static void submit(struct cuda_lane *lane, struct backend *backend, struct cuda_run *run)
{
    pthread_mutex_lock(&backend->submitting);
    if (has_not_failed(run))
        note(run, cudaStreamWaitEvent(backend->compute, lane->is_up, 0));
    if (has_not_failed(run))
        graphs_run(&lane->graphs, run, backend->capturing, launch_steps);
    if (has_not_failed(run))
        note(run, cudaEventRecord(lane->is_computed, backend->compute));
    if (has_not_failed(run))
        note(run, cudaStreamWaitEvent(backend->down, lane->is_computed, 0));
    if (lane->results.fit)
        /* Copies attention maps to the items, because results_fetch needs the memory of these maps. */
        results_complete_copies(run);
    if (has_not_failed(run))
        note(run, results_fetch(&lane->results, run->plan, run->batch, backend->down));
    if (has_not_failed(run))
        note(run, cudaEventRecord(lane->is_down, backend->down));
    pthread_mutex_unlock(&backend->submitting);
}

/* Called after a failure or a refusal. Waits until nothing uses the lane's memory. If the device fails during the wait,
 * this may be the reason why cuBLASLt failed. The batch then counts as a failure of the device. */
static void wait_for_device(struct backend *backend, struct cuda_run *run)
{
    pthread_mutex_lock(&backend->submitting);
    note(run, cudaStreamSynchronize(backend->up));
    note(run, cudaStreamSynchronize(backend->compute));
    note(run, cudaStreamSynchronize(backend->down));
    pthread_mutex_unlock(&backend->submitting);
    cudaGetLastError();
}

int lane_run(struct cuda_lane *lane, struct backend *backend, struct cuda_run run, const struct batch *batch,
             struct error *error)
{
    run.batch = batch;
    send(lane, backend, &run);
    submit(lane, backend, &run);
    results_complete_copies(&run);
    if (has_not_failed(&run))
        note(&run, durations_wait(&lane->durations, shape_hash(run.plan, &lane->shape), lane->is_down));
    if (has_not_failed(&run)) {
        results_deliver(&lane->results, run.plan, batch);
        return 0;
    }
    wait_for_device(backend, &run);
    if (run.status != cudaSuccess)
        return cuda_fail(error, "the CUDA device failed", run.status);
    if (run.product_failed)
        return error_set(error, "cuBLAS failed");
    if (run.step)
        error_set(error, "operation %s: %s", operation_name(run.step->operation), run.refusal);
    else
        error_set(error, "%s", run.refusal);
    return BACKEND_REFUSED;
}
