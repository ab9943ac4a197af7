/* Simulates streams, events and graphs. Queued work runs only while a thread waits for the device, frees device memory
 * or queries an event. The pieces of work run one after another. SHIM_SEED chooses the stream among those that can
 * continue: 0 the oldest stream, odd a random stream, other even the newest stream.
 *
 * If the engine forgets an event, some seed therefore runs the work in the wrong order. If a thread does not wait for a
 * copy, the data are missing. With an odd seed, some more work runs before the waiting thread continues. Other threads
 * may run between two pieces. */
#include "streams.h"
#include "faults.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <vector>

struct recording {
    uint64_t recorded = 0, done = 0; /* numbers of recordings that were queued, and that are done */
    double at = 0;                   /* simulated time of the last recording that is done, in milliseconds */
    bool timed = false;
};

struct piece {
    std::function<void()> work;       /* work to run. Empty if the piece records an event or waits for one */
    std::shared_ptr<recording> event; /* event that the piece records or waits for, or NULL */
    bool records;
    uint64_t number; /* number of the recording to make or to wait for */
};

struct CUgraph_st {
    std::vector<std::function<void()>> nodes;
};

struct CUgraphExec_st {
    std::vector<std::function<void()>> nodes;
};

struct CUevent_st {
    std::shared_ptr<recording> state;
};

struct CUstream_st {
    int device;
    std::deque<piece> pieces;
    uint64_t queued = 0, done = 0;
    CUgraph_st *capture = nullptr;
};

static std::vector<CUstream_st *> streams; /* in the order of creation */
static uint64_t random_state = 1;
static thread_local CUstream_st *capturing; /* the stream that this thread captures */
static thread_local bool capture_lost;
static uint64_t counters[COUNTERS];
static double passed; /* simulated time in milliseconds */

/* Tests find this function by name in the engine's library. */
extern "C" __attribute__((visibility("default"))) uint64_t shim_count(int counter)
{
    shim::guard lock(shim::mutex);
    return counters[counter];
}

void shim::count(enum counter counter)
{
    guard lock(mutex);
    counters[counter]++;
}

void shim::pass(float milliseconds)
{
    guard lock(mutex);
    passed += milliseconds;
}

/* ---- Running ---- */

/* Returns whether the stream belongs to the current device and can continue. */
static bool can_go_on(const CUstream_st *stream)
{
    if (stream->pieces.empty() || stream->device != shim::current_device())
        return false;
    const piece &next = stream->pieces.front();
    return !next.event || next.records || next.event->done >= next.number;
}

static size_t random_number(unsigned seed)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u + seed;
    return random_state >> 33;
}

static CUstream_st *choose_stream()
{
    unsigned seed = shim::seed_of_order();
    std::vector<CUstream_st *> ready;
    for (auto stream : streams)
        if (can_go_on(stream))
            ready.push_back(stream);
    if (ready.empty())
        return nullptr;
    size_t any = random_number(seed) % ready.size();
    return ready[seed == 0 ? 0 : seed % 2 ? any : ready.size() - 1];
}

/* Runs one piece of work of a stream that can continue. Returns false if there is no such stream. */
static bool run_piece()
{
    shim::guard lock(shim::mutex);
    CUstream_st *stream = choose_stream();
    if (!stream)
        return false;
    piece next = std::move(stream->pieces.front());
    stream->pieces.pop_front();
    if (!next.event)
        next.work();
    else if (next.records) {
        next.event->done = next.number;
        next.event->at = passed;
    }
    stream->done++;
    return true;
}

static void count_wait()
{
    bool idle = true;
    for (auto stream : streams)
        idle = idle && (stream->device != shim::current_device() || stream->pieces.empty());
    shim::count(WAITS);
    if (idle)
        shim::count(IDLE_WAITS);
}

/* A device does not stop when the event that a thread waits for has happened. With an odd seed, the device therefore
 * runs some more work before the thread continues. */
static void go_on()
{
    unsigned seed = shim::seed_of_order();
    while (seed % 2 && random_number(seed) % 4 != 0 && run_piece())
        ;
}

template <typename Condition> static void run_until(Condition is_met)
{
    shim::open_memory();
    for (bool met = false; !met;) {
        shim::guard lock(shim::mutex);
        met = is_met();
        if (!met && !run_piece())
            shim::die("the host waits for work that no stream has");
        if (met) {
            count_wait();
            go_on();
        }
    }
    shim::close_memory();
}

void shim::run_work()
{
    open_memory();
    while (run_piece())
        ;
    close_memory();
}

void shim::drop_work()
{
    guard lock(mutex);
    for (auto stream : streams) {
        if (stream->device != current_device())
            continue;
        for (auto &piece : stream->pieces)
            if (piece.event && piece.records)
                piece.event->done = piece.number;
        stream->pieces.clear();
        stream->done = stream->queued;
    }
}

/* Returns an error if waiting must fail. On a broken device, this drops all queued work. */
static cudaError_t fail_waiting()
{
    if (cudaError_t error = shim::refuse_in_capture())
        return error;
    cudaError_t error = shim::fault(shim::call::synchronize);
    if (error != cudaSuccess && shim::is_broken())
        shim::drop_work();
    return error == cudaSuccess ? error : shim::fail(error);
}

/* Returns an error if the device broke during the wait. In this case, another thread may have dropped the work. */
static cudaError_t end_waiting()
{
    return shim::is_broken() ? shim::fail(shim::fault(shim::call::free)) : cudaSuccess;
}

static void check_stream(const CUstream_st *stream)
{
    if (!stream)
        shim::die("the default stream is used");
    if (stream->device != shim::current_device())
        shim::die("a stream of another device than the current one is used");
}

cudaError_t shim::enqueue(cudaStream_t stream, std::function<void()> work)
{
    guard lock(mutex);
    check_stream(stream);
    if (stream->capture) {
        if (stream != capturing)
            die("a stream is used while another thread captures it");
        stream->capture->nodes.push_back(std::move(work));
        return cudaSuccess;
    }
    stream->pieces.push_back({std::move(work), nullptr, false, 0});
    stream->queued++;
    return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned)
{
    if (cudaError_t error = shim::fault(shim::call::open))
        return shim::fail(error);
    shim::guard lock(shim::mutex);
    *stream = new CUstream_st{shim::current_device(), {}};
    streams.push_back(*stream);
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    check_stream(stream);
    if (cudaError_t error = fail_waiting())
        return error;
    uint64_t queued;
    {
        shim::guard lock(shim::mutex);
        queued = stream->queued;
    }
    run_until([=] { return stream->done >= queued; });
    return end_waiting();
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    shim::visit there(stream->device);
    cudaStreamSynchronize(stream);
    shim::guard lock(shim::mutex);
    streams.erase(std::find(streams.begin(), streams.end(), stream));
    delete stream;
    return cudaSuccess;
}

/* A copy to or from pinned memory is queued like other work. A copy from memory that is not pinned reads the memory at
 * once. A copy to memory that is not pinned returns only when it is done. */
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream)
{
    bool up = kind == cudaMemcpyHostToDevice;
    if (cudaError_t error = shim::fault(shim::call::copy))
        return shim::fail(error);
    if (shim::is_device_memory(to, bytes) != up || shim::is_device_memory(from, bytes) == up)
        return shim::fail(cudaErrorInvalidValue);
    if (shim::is_pinned_memory(up ? from : to, bytes)) {
        if (!up && !shim::is_capturing())
            memset(to, 0xff, bytes);
        return shim::enqueue(stream, [=] { memcpy(to, from, bytes); });
    }
    if (cudaError_t error = shim::refuse_in_capture())
        return error;
    shim::count(PAGEABLE_COPIES);
    if (up) {
        std::vector<char> data((const char *)from, (const char *)from + bytes);
        return shim::enqueue(stream, [=] { memcpy(to, data.data(), bytes); });
    }
    shim::enqueue(stream, [=] { memcpy(to, from, bytes); });
    return cudaStreamSynchronize(stream);
}

/* ---- Events ---- */

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags)
{
    *event = new CUevent_st{std::make_shared<recording>()};
    (*event)->state->timed = !(flags & cudaEventDisableTiming);
    return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    delete event;
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    if (cudaError_t error = shim::refuse_in_capture())
        return error;
    shim::guard lock(shim::mutex);
    check_stream(stream);
    stream->pieces.push_back({nullptr, event->state, true, ++event->state->recorded});
    stream->queued++;
    return cudaSuccess;
}

/* Queues a wait for the last recording of the event. If the event was never recorded, the wait has no effect. */
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned)
{
    if (cudaError_t error = shim::refuse_in_capture())
        return error;
    shim::guard lock(shim::mutex);
    check_stream(stream);
    stream->pieces.push_back({nullptr, event->state, false, event->state->recorded});
    stream->queued++;
    return cudaSuccess;
}

/* Each query runs one piece of work. Therefore a loop that repeats the query ends. */
cudaError_t cudaEventQuery(cudaEvent_t event)
{
    if (cudaError_t error = fail_waiting())
        return error;
    shim::open_memory();
    run_piece();
    shim::close_memory();
    shim::guard lock(shim::mutex);
    return event->state->done >= event->state->recorded ? end_waiting() : cudaErrorNotReady;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    if (cudaError_t error = fail_waiting())
        return error;
    auto state = event->state;
    uint64_t recorded;
    {
        shim::guard lock(shim::mutex);
        recorded = state->recorded;
    }
    run_until([=] { return state->done >= recorded; });
    return end_waiting();
}

/* Returns the time between the last recordings of both events. */
cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t begin, cudaEvent_t end)
{
    shim::guard lock(shim::mutex);
    const recording &first = *begin->state, &last = *end->state;
    if (!first.timed || !last.timed || first.recorded == 0 || last.recorded == 0)
        return shim::fail(cudaErrorInvalidValue);
    if (first.done < first.recorded || last.done < last.recorded)
        return shim::fail(cudaErrorNotReady);
    *milliseconds = (float)(last.at - first.at);
    shim::count(MEASUREMENTS);
    return cudaSuccess;
}

/* ---- Graphs: the nodes run in order, with the arguments and pointers of the capture ---- */

bool shim::is_capturing()
{
    return capturing != nullptr;
}

cudaError_t shim::refuse_in_capture()
{
    if (!capturing)
        return cudaSuccess;
    capture_lost = true;
    return fail(cudaErrorStreamCaptureUnsupported);
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode)
{
    shim::guard lock(shim::mutex);
    if (capturing || stream->capture || mode != cudaStreamCaptureModeThreadLocal)
        return shim::fail(cudaErrorStreamCaptureUnsupported);
    capturing = stream;
    capture_lost = false;
    stream->capture = new CUgraph_st;
    return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph)
{
    shim::guard lock(shim::mutex);
    *graph = nullptr;
    if (capturing != stream)
        return shim::fail(cudaErrorStreamCaptureUnsupported);
    if (capture_lost)
        delete stream->capture;
    else
        *graph = stream->capture;
    capturing = nullptr;
    stream->capture = nullptr;
    return capture_lost ? shim::fail(cudaErrorStreamCaptureInvalidated) : cudaSuccess;
}

/* SHIM_GRAPHS is the maximum number of graphs that exist at the same time. There is no maximum by default. */
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long)
{
    shim::guard lock(shim::mutex);
    const char *most = getenv("SHIM_GRAPHS");
    *exec = nullptr;
    if (most && counters[INSTANTIATED] - counters[DESTROYED] >= strtoull(most, nullptr, 10))
        return shim::fail(cudaErrorMemoryAllocation);
    *exec = new CUgraphExec_st{graph->nodes};
    shim::count(INSTANTIATED);
    return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    delete graph;
    return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream)
{
    shim::guard lock(shim::mutex);
    if (cudaError_t error = shim::fault(shim::call::launch))
        return shim::fail(error);
    shim::count(GRAPH_LAUNCHES);
    for (auto &node : exec->nodes)
        shim::enqueue(stream, node);
    return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec)
{
    shim::count(DESTROYED);
    delete exec;
    return cudaSuccess;
}
