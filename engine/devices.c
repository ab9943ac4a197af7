/* There are two locks. `lock` guards the states of the devices, and is held briefly. `placing` guards the lists of
 * replicas on the devices, and the data that models share on a device or the CPU. Threads that load or close models
 * hold `placing` while a plan is prepared or unprepared, which takes seconds. The thread that opens devices again also
 * holds it. A thread that needs both locks locks `placing` first.
 *
 * A batch enters a device before it runs there, and leaves the device afterwards. Batches enter only a device that
 * works. A failed device is opened again when its last batch has left. So a replica does not change while a batch runs
 * on it, and the batch needs no lock to use the replica. */
#define _GNU_SOURCE /* pthread_setname_np */
#include "engine/devices.h"

#include <ctype.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SECOND_NS INT64_C(1000000000)
#define FIRST_PAUSE_NS (SECOND_NS / 10)
#define LONGEST_PAUSE_NS (60 * SECOND_NS)

/* A plan on a device. */
struct replica {
    struct device *device;
    struct plan *plan;
    struct backend_model *resident; /* NULL if the device failed and is closed */
    int64_t number; /* a new number at each prepare. If the states of a sequence have another number, its earlier rows
                       must be computed again (sequences.h) */
    atomic_bool refused;  /* the device refused a batch, and this was reported */
    struct replica *next; /* next replica on the same device */
};

struct device {
    const struct backend_functions *functions;
    struct backend *backend; /* NULL if closed. `placing` guards this member and the next one */
    struct replica *replicas;
    int index;
    char name[24], kernels[320];
    enum dtype dtype;

    atomic_bool works; /* `lock` guards this member and those below. `works` may be read without the lock if an old
                          value does no harm */
    int running;       /* number of batches on the device */
    int64_t faults, recoveries;
    int attempts;           /* consecutive failed attempts to open the device again */
    int64_t works_since_ns; /* time of the last successful opening, by CLOCK_MONOTONIC */
    int64_t retry_ns, pause_ns;
};

struct devices {
    struct engine_options options;
    char name[ENGINE_MAX_DEVICES * sizeof(((struct device *)0)->name)];
    struct device *list; /* (count) devices, without the CPU */
    int count;
    struct backend *cpu;     /* the CPU for plans that no device accepts. NULL if the setting names devices. Then such a
                                plan is refused */
    struct error cpu_notice; /* warning about missing acceleration of `cpu`. Empty if there is none */
    struct backend *standby; /* the CPU, which runs batches of failed devices. NULL if the engine has no devices */
    pthread_mutex_t cpu_turn; /* held while a batch runs on the CPU, so that only one runs at a time */
    atomic_int_fast64_t reruns, standby_batches;

    int64_t placed; /* number of times that a plan was prepared on a device. Guarded by `placing` */
    pthread_mutex_t placing, lock;
    pthread_cond_t changed; /* wakes `thread` when a batch has left a failed device, or for closing. CLOCK_MONOTONIC */
    pthread_t thread;
    bool thread_runs, closing;
};

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * SECOND_NS + now.tv_nsec;
}

static int64_t shorter(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* ---- Which devices ---- */

static int refuse_index(int count, int index, struct error *error)
{
    if (count == 1)
        return error_set(error, "there is no cuda:%d; there is one CUDA device, cuda:0", index);
    return error_set(error, "there is no cuda:%d; there are %d CUDA devices, cuda:0 to cuda:%d", index, count,
                     count - 1);
}

/* Writes the indices of the chosen devices to `chosen`. `count` is the number of devices of the machine. Returns the
 * number of chosen devices, or -1 if the machine lacks one of them. */
static int choose_devices(const struct device_choice *choice, int count, int chosen[ENGINE_MAX_DEVICES],
                          struct error *error)
{
    int named = choice->count > 0 ? choice->count : 1; /* without indices, indices[0] is 0, which is the first device */
    int n = !choice->all ? named : count < ENGINE_MAX_DEVICES ? count : ENGINE_MAX_DEVICES;
    for (int i = 0; i < n; i++) {
        chosen[i] = choice->all ? i : choice->indices[i];
        if (chosen[i] >= count)
            return refuse_index(count, chosen[i], error);
    }
    return n;
}

/* ---- Opening and closing ---- */

static int device_open(struct devices *devices, struct device *device, struct error *error)
{
    return device->functions->open(&devices->options, device->index, &device->backend, error);
}

static void device_close(struct device *device)
{
    if (device->backend)
        device->functions->close(device->backend);
    device->backend = NULL;
}

static void close_list(struct devices *devices)
{
    for (int i = 0; i < devices->count; i++)
        device_close(&devices->list[i]);
    free(devices->list);
    devices->list = NULL;
    devices->count = 0;
}

static int open_list(struct devices *devices, const struct backend_functions *functions, struct error *notice,
                     struct error *error)
{
    int chosen[ENGINE_MAX_DEVICES];
    int count = functions->count ? functions->count(error) : 1;
    int n = count < 0 ? -1 : choose_devices(&devices->options.device, count, chosen, error);
    if (n < 0)
        return -1;
    if (n == ENGINE_MAX_DEVICES && n < count && devices->options.device.all)
        error_set(notice, "cuda:all uses the first %d of %d devices; another daemon can use the others", n, count);
    devices->list = calloc((size_t)n, sizeof *devices->list);
    if (!devices->list)
        return error_set(error, "out of memory while opening the engine");
    for (; devices->count < n; devices->count++) {
        struct device *device = &devices->list[devices->count];
        device->functions = functions;
        device->index = chosen[devices->count];
        snprintf(device->name, sizeof device->name, "%s:%d", functions->name, device->index);
        if (device_open(devices, device, error) != 0)
            return error_prefix(error, "%s", device->name);
        snprintf(device->kernels, sizeof device->kernels, "%s", functions->kernels(device->backend));
        device->dtype = functions->dtype(device->backend);
        atomic_init(&device->works, true);
        device->works_since_ns = now_ns();
        if (devices->count > 0)
            strcat(devices->name, ",");
        strcat(devices->name, device->name);
    }
    return 0;
}

/* Opens the CPU in addition to devices: as the standby, or for plans that no device accepts. Both compute in float32,
 * because the dtype of the options is meant for the devices. */
static int open_cpu_behind(const struct devices *devices, enum product_library products, struct backend **cpu,
                           struct error *error)
{
    struct engine_options options = devices->options;
    options.dtype = DTYPE_F32;
    options.products = products;
    return backend_cpu.open(&options, 0, cpu, error);
}

/* Opens the CPU first, because this calls setenv. Opening a device starts threads, and no other thread may run during
 * setenv. */
static int open_cuda(struct devices *devices, struct error *notice, struct error *error)
{
    bool automatic = devices->options.device.kind == DEVICE_AUTO;
    const struct backend_functions *functions = backend_cuda_load(error);
    if (!functions || open_cpu_behind(devices, LIBRARY_OPENBLAS, &devices->standby, error) != 0)
        return -1;
    if (automatic && open_cpu_behind(devices, devices->options.products, &devices->cpu, error) != 0)
        return -1;
    return open_list(devices, functions, notice, error);
}

static void close_all(struct devices *devices)
{
    close_list(devices);
    if (devices->cpu)
        backend_cpu.close(devices->cpu);
    if (devices->standby)
        backend_cpu.close(devices->standby);
    devices->cpu = devices->standby = NULL;
    devices->name[0] = '\0';
}

/* Opens the CPU as the only device. If "auto" falls back to the CPU, the CPU may not support the dtype that was meant
 * for CUDA. The message then also says why there is no CUDA device. */
static int open_cpu_alone(struct devices *devices, const struct error *notice, struct error *error)
{
    snprintf(devices->name, sizeof devices->name, "%s", backend_cpu.name);
    if (backend_cpu.open(&devices->options, 0, &devices->cpu, error) == 0) {
        devices->cpu_notice = *error;
        return 0;
    }
    return notice->message[0] ? error_set(error, "%s; CUDA is not used: %s", error->message, notice->message) : -1;
}

static int open_all(struct devices *devices, struct error *notice, struct error *error)
{
    const struct device_choice *choice = &devices->options.device;
    if (choice->kind != DEVICE_CPU) {
        char name[DEVICE_CHOICE_NAME_BYTES];
        if (open_cuda(devices, notice, error) == 0)
            return 0;
        close_all(devices);
        if (choice->kind != DEVICE_AUTO)
            return error_prefix(error, "device \"%s\"", device_choice_name(choice, name));
        *notice = *error;
    }
    return open_cpu_alone(devices, notice, error);
}

static void *recover_devices(void *argument);

int devices_open(const struct engine_options *options, struct devices **result, struct error *notice,
                 struct error *error)
{
    struct devices *devices = calloc(1, sizeof *devices);
    if (!devices)
        return error_set(error, "out of memory while opening the engine");
    devices->options = *options;
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&devices->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    pthread_mutex_init(&devices->placing, NULL);
    pthread_mutex_init(&devices->lock, NULL);
    pthread_mutex_init(&devices->cpu_turn, NULL);
    int status = open_all(devices, notice, error);
    if (status == 0 && devices->count > 0) {
        int failure = pthread_create(&devices->thread, NULL, recover_devices, devices);
        devices->thread_runs = failure == 0;
        if (failure != 0)
            status = error_set(error,
                               "cannot start a thread for devices: %s; is the number of threads limited (ulimit -u, a "
                               "container's pids.max), or memory (ulimit -v)?",
                               strerror(failure));
        else
            pthread_setname_np(devices->thread, "devices");
    }
    if (status != 0) {
        devices_close(devices);
        return -1;
    }
    *result = devices;
    return 0;
}

void devices_close(struct devices *devices)
{
    if (devices->thread_runs) {
        pthread_mutex_lock(&devices->lock);
        devices->closing = true;
        pthread_cond_signal(&devices->changed);
        pthread_mutex_unlock(&devices->lock);
        pthread_join(devices->thread, NULL);
    }
    close_all(devices);
    pthread_cond_destroy(&devices->changed);
    pthread_mutex_destroy(&devices->placing);
    pthread_mutex_destroy(&devices->lock);
    pthread_mutex_destroy(&devices->cpu_turn);
    free(devices);
}

/* ---- Names and states ---- */

const char *devices_name(const struct devices *devices)
{
    return devices->name;
}

const char *devices_cpu_notice(const struct devices *devices)
{
    return devices->cpu_notice.message;
}

const char *devices_kernels(const struct devices *devices)
{
    return devices->count > 0 ? devices->list[0].kernels : backend_cpu.kernels(devices->cpu);
}

bool devices_are_cpu(const struct devices *devices)
{
    return devices->count == 0;
}

enum dtype devices_dtype(const struct devices *devices)
{
    return devices->count > 0 ? devices->list[0].dtype : backend_cpu.dtype(devices->cpu);
}

int devices_states(struct devices *devices, struct engine_device *states, int room)
{
    int count = devices->count < room ? devices->count : room;
    if (devices->count == 0 && room > 0) {
        *states = (struct engine_device){.name = devices->name, .kernels = devices_kernels(devices), .works = true};
        return 1;
    }
    pthread_mutex_lock(&devices->lock);
    for (int i = 0; i < count; i++) {
        const struct device *device = &devices->list[i];
        states[i] = (struct engine_device){
            .name = device->name,
            .kernels = device->kernels,
            .works = atomic_load(&device->works),
            .faults = device->faults,
            .recoveries = device->recoveries,
        };
    }
    pthread_mutex_unlock(&devices->lock);
    return count;
}

struct engine_counts devices_counts(const struct devices *devices)
{
    return (struct engine_counts){
        .reruns = atomic_load(&devices->reruns),
        .standby_batches = atomic_load(&devices->standby_batches),
    };
}

/* ---- Placing a plan. `placing` is held. ---- */

static int replica_prepare(struct devices *devices, struct replica *replica, struct error *error)
{
    const struct device *device = replica->device;
    replica->number = ++devices->placed;
    return device->functions->prepare(device->backend, replica->plan, true, &replica->resident, error);
}

static void replica_unprepare(struct replica *replica)
{
    if (replica->resident)
        replica->device->functions->unprepare(replica->resident);
    replica->resident = NULL;
}

static int check_device(const struct device *device, const struct plan *plan, struct error *error)
{
    const struct backend_functions *functions = device->functions;
    if (backend_check_operations(functions, plan, error) != 0)
        return -1;
    if (!atomic_load(&device->works))
        return error_set(error, "%s has failed and has not recovered yet", device->name);
    return 0;
}

static void take_off_devices(struct placement *placement)
{
    for (int i = 0; i < placement->n_replicas; i++) {
        struct replica *replica = &placement->replicas[i], **link = &replica->device->replicas;
        while (*link != replica)
            link = &(*link)->next;
        *link = replica->next;
        replica_unprepare(replica);
    }
    free(placement->replicas);
    placement->replicas = NULL;
    placement->n_replicas = 0;
}

static int put_on_devices(struct placement *placement, struct error *error)
{
    struct devices *devices = placement->devices;
    placement->replicas = calloc((size_t)devices->count, sizeof *placement->replicas);
    if (!placement->replicas)
        return error_set(error, "out of memory while loading a model");
    for (int i = 0; i < devices->count; i++) {
        struct device *device = &devices->list[i];
        struct replica *replica = &placement->replicas[i];
        *replica = (struct replica){.device = device, .plan = placement->plan};
        if (check_device(device, placement->plan, error) != 0 || replica_prepare(devices, replica, error) != 0) {
            take_off_devices(placement);
            return error_prefix(error, "%s", device->name);
        }
        replica->next = device->replicas;
        device->replicas = replica;
        placement->n_replicas++;
    }
    return 0;
}

static void describe_replicas(struct placement *placement)
{
    const struct device *first = placement->replicas[0].device;
    int lanes = INT_MAX;
    for (int i = 0; i < placement->n_replicas; i++) {
        const struct replica *replica = &placement->replicas[i];
        const struct backend_functions *functions = replica->device->functions;
        int own = functions->lanes ? functions->lanes(replica->resident) : 1;
        lanes = own < lanes ? own : lanes;
        placement->weights_bytes += functions->weights_bytes(replica->resident);
        placement->arena_bytes += placement->plan->arena_bytes + functions->scratch_bytes(replica->resident);
    }
    placement->first_lane = 1; /* lane 0 belongs to the CPU */
    lanes = lanes < ENGINE_MAX_LANES / placement->n_replicas ? lanes : ENGINE_MAX_LANES / placement->n_replicas;
    placement->n_lanes = lanes * placement->n_replicas;
    placement->device = placement->devices->name;
    placement->dtype = first->dtype;
    placement->kernels = first->kernels;
    placement->batch_invariant = false; /* the bits of the results differ on the CPU, which is the standby */
}

static void describe_cpu(struct placement *placement)
{
    placement->first_lane = 0;
    placement->n_lanes = 1;
    placement->device = backend_cpu.name;
    placement->dtype = backend_cpu.dtype(placement->devices->cpu);
    placement->kernels = backend_cpu.kernels(placement->devices->cpu);
    placement->batch_invariant = backend_cpu.batch_invariant(placement->devices->cpu);
    placement->weights_bytes = backend_cpu.weights_bytes(placement->cpu);
    placement->arena_bytes = placement->plan->arena_bytes + backend_cpu.scratch_bytes(placement->cpu);
}

/* Opens placement->sequences if the plan has slots. Call it only for a plan on devices. A plan that is only on the CPU
 * cannot lose states. */
static int open_sequences(struct placement *placement, struct error *error)
{
    if (placement->plan->n_slots == 0)
        return 0;
    return sequences_open(placement->plan, placement->n_lanes, &placement->sequences, error);
}

static int place(struct placement *placement, struct error *notice, struct error *error)
{
    struct devices *devices = placement->devices;
    if (devices->count > 0) {
        if (put_on_devices(placement, error) == 0) {
            if (backend_cpu.prepare(devices->standby, placement->plan, true, &placement->cpu, error) != 0)
                return error_prefix(error, "the CPU standby of %s", devices->name);
            describe_replicas(placement);
            return open_sequences(placement, error);
        }
        if (!devices->cpu)
            return -1;
        *notice = *error;
    }
    if (backend_cpu.prepare(devices->cpu, placement->plan, false, &placement->cpu, error) != 0)
        return -1;
    placement->cpu_notice = *error;
    describe_cpu(placement);
    return 0;
}

int placement_open(struct devices *devices, struct plan *plan, struct placement *placement, struct error *notice,
                   struct error *error)
{
    *placement = (struct placement){.devices = devices, .plan = plan};
    pthread_mutex_lock(&devices->placing);
    int status = place(placement, notice, error);
    pthread_mutex_unlock(&devices->placing);
    if (status != 0)
        placement_close(placement);
    return status;
}

void placement_close(struct placement *placement)
{
    struct devices *devices = placement->devices;
    if (!devices)
        return;
    pthread_mutex_lock(&devices->placing);
    take_off_devices(placement);
    if (placement->cpu)
        backend_cpu.unprepare(placement->cpu);
    placement->cpu = NULL;
    sequences_close(placement->sequences);
    placement->sequences = NULL;
    pthread_mutex_unlock(&devices->placing);
}

/* ---- Running ---- */

static bool device_enter(struct devices *devices, struct device *device)
{
    pthread_mutex_lock(&devices->lock);
    bool works = atomic_load(&device->works);
    device->running += works;
    pthread_mutex_unlock(&devices->lock);
    return works;
}

/* Sets the time of the next attempt to open the device. The caller holds `lock`. */
static void device_pause(struct device *device, int64_t now)
{
    device->pause_ns = device->pause_ns ? shorter(2 * device->pause_ns, LONGEST_PAUSE_NS) : FIRST_PAUSE_NS;
    device->retry_ns = now + device->pause_ns;
}

static void report(const struct devices *devices, const struct device *device, const struct error *failure,
                   int64_t pause_ns, bool lasts)
{
    struct engine_event event = {.device = device->name,
                                 .failure = failure ? failure->message : NULL,
                                 .pause_ms = pause_ns / 1000000,
                                 .lasts = lasts};
    if (devices->options.report)
        devices->options.report(devices->options.report_context, &event);
}

/* `failure` is NULL if the batch ran or was refused. Only the first failure of a device is reported. Other batches that
 * run on the device may also fail. These failures are only counted. */
static void device_leave(struct devices *devices, struct device *device, const struct error *failure)
{
    int64_t now = failure ? now_ns() : 0, pause_ns = 0;
    pthread_mutex_lock(&devices->lock);
    device->running--;
    bool first = failure && atomic_load(&device->works);
    device->faults += failure != NULL;
    if (first) {
        atomic_store(&device->works, false);
        if (now - device->works_since_ns > LONGEST_PAUSE_NS)
            device->pause_ns = 0;
        device_pause(device, now);
        pause_ns = device->pause_ns;
    }
    if (!atomic_load(&device->works))
        pthread_cond_signal(&devices->changed);
    pthread_mutex_unlock(&devices->lock);
    if (first)
        report(devices, device, failure, pause_ns, false);
}

/* `lane` is a lane of the placement. */
static int run_at(struct placement *placement, struct sequences_place place, int lane, const struct batch *batch,
                  struct error *error)
{
    return placement->sequences ? sequences_run(placement->sequences, place, lane, batch, error)
                                : place.functions->run(place.resident, place.lane, batch, error);
}

static int run_on_cpu(struct placement *placement, int lane, const struct batch *batch, struct error *error)
{
    struct devices *devices = placement->devices;
    struct sequences_place place = {.functions = &backend_cpu, .resident = placement->cpu, .number = 0, .lane = 0};
    pthread_mutex_lock(&devices->cpu_turn);
    int status = run_at(placement, place, lane, batch, error);
    pthread_mutex_unlock(&devices->cpu_turn);
    return status == 0 ? 0 : -1;
}

int placement_run(struct placement *placement, int lane, const struct batch *batch, struct error *error)
{
    struct devices *devices = placement->devices;
    if (placement->n_replicas == 0)
        return run_on_cpu(placement, lane, batch, error);
    struct replica *replica = &placement->replicas[lane % placement->n_replicas];
    struct device *device = replica->device;
    if (device_enter(devices, device)) {
        struct sequences_place place = {.functions = device->functions,
                                        .resident = replica->resident,
                                        .number = replica->number,
                                        .lane = lane / placement->n_replicas};
        int status = run_at(placement, place, lane, batch, error);
        device_leave(devices, device, status == 0 || status == BACKEND_REFUSED ? NULL : error);
        if (status == 0)
            return 0;
        if (status == BACKEND_REFUSED && !atomic_exchange(&replica->refused, true))
            report(devices, device, error, 0, false);
        atomic_fetch_add(&devices->reruns, 1);
    }
    atomic_fetch_add(&devices->standby_batches, 1);
    return run_on_cpu(placement, lane, batch, error);
}

int placement_enter(struct placement *placement, int lane, struct error *error)
{
    struct devices *devices = placement->devices;
    if (placement->n_replicas == 0)
        return backend_cpu.enter(devices->cpu, error);
    struct device *device = placement->replicas[lane % placement->n_replicas].device;
    if (!device->functions->enter || !device_enter(devices, device))
        return 0;
    int status = device->functions->enter(device->backend, error);
    device_leave(devices, device, NULL);
    return status;
}

uint64_t placement_ready_lanes(const struct placement *placement)
{
    int n = placement->n_replicas;
    uint64_t ready = 0;
    for (int i = 0; i < n; i++)
        if (atomic_load(&placement->replicas[i].device->works))
            for (int lane = i; lane < placement->n_lanes; lane += n)
                ready |= UINT64_C(1) << lane;
    return ready ? ready : 1;
}

/* ---- Recovering ---- */

/* Places the replicas of a device again. Afterwards the device has either all of its replicas, or none. The caller
 * holds `placing`, and no batch runs on the device. */
static int device_reopen(struct devices *devices, struct device *device, struct error *error)
{
    for (struct replica *replica = device->replicas; replica; replica = replica->next)
        replica_unprepare(replica);
    device_close(device);
    if (device_open(devices, device, error) != 0)
        return -1;
    for (struct replica *replica = device->replicas; replica; replica = replica->next) {
        if (replica_prepare(devices, replica, error) == 0)
            continue;
        for (struct replica *other = device->replicas; other; other = other->next)
            replica_unprepare(other);
        device_close(device);
        return -1;
    }
    return 0;
}

static void device_recover(struct devices *devices, struct device *device)
{
    struct error error;
    pthread_mutex_lock(&devices->placing);
    int status = device_reopen(devices, device, &error);
    pthread_mutex_unlock(&devices->placing);
    int64_t now = now_ns(), pause_ns = 0;
    pthread_mutex_lock(&devices->lock);
    device->attempts = status == 0 ? 0 : device->attempts + 1;
    bool lasts = device->attempts == ENGINE_LASTING_ATTEMPTS;
    if (status == 0) {
        device->recoveries++;
        device->works_since_ns = now;
        atomic_store(&device->works, true);
    } else {
        device_pause(device, now);
        pause_ns = device->pause_ns;
    }
    pthread_mutex_unlock(&devices->lock);
    report(devices, device, status == 0 ? NULL : &error, pause_ns, lasts);
}

/* Among the failed devices without batches, returns the device whose next attempt is due first. NULL if there is none.
 * The caller holds `lock`. */
static struct device *next_to_recover(const struct devices *devices)
{
    struct device *next = NULL;
    for (int i = 0; i < devices->count; i++) {
        struct device *device = &devices->list[i];
        if (!atomic_load(&device->works) && device->running == 0 && (!next || device->retry_ns < next->retry_ns))
            next = device;
    }
    return next;
}

static void *recover_devices(void *argument)
{
    struct devices *devices = argument;
    pthread_mutex_lock(&devices->lock);
    while (!devices->closing) {
        struct device *device = next_to_recover(devices);
        if (!device) {
            pthread_cond_wait(&devices->changed, &devices->lock);
        } else if (now_ns() < device->retry_ns) {
            struct timespec until = {device->retry_ns / SECOND_NS, device->retry_ns % SECOND_NS};
            pthread_cond_timedwait(&devices->changed, &devices->lock, &until);
        } else {
            pthread_mutex_unlock(&devices->lock);
            device_recover(devices, device);
            pthread_mutex_lock(&devices->lock);
        }
    }
    pthread_mutex_unlock(&devices->lock);
    return NULL;
}
