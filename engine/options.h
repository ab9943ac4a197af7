/* options: what an engine and its devices are opened with, and what devices report. */
#ifndef ENGINE_OPTIONS_H
#define ENGINE_OPTIONS_H

#include "config/config.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ENGINE_MAX_DEVICES DEVICE_CHOICE_LIMIT
#define ENGINE_MAX_LANES 64 /* of a model */

/* What happened to a device. */
struct engine_event {
    const char *device;  /* "cuda:0" */
    const char *failure; /* why it failed, or could not be opened again; NULL: it works again */
    int64_t pause_ms;    /* with a failure: delay before the next attempt. 0: the device works but refused a batch
                            (reported once a model) */
    bool lasts;          /* reported once: ENGINE_LASTING_ATTEMPTS attempts to open it failed. Perhaps only a new
                            process can */
};
#define ENGINE_LASTING_ATTEMPTS 5

struct engine_options {
    struct device_choice device;   /* "auto" takes the CPU, too, for a model that does not fit on the CUDA device */
    enum dtype dtype;              /* of products with weights; a device refuses what it lacks */
    enum instruction_set kernels;  /* the CPU's */
    enum product_library products; /* the CPU's */
    int64_t threads;               /* 0: one a core this process may use */
    int64_t cuda_tuning_ms;   /* at most, in which products are timed when a model is put on a CUDA device; 0: none is,
                                 and which algorithm takes which does not change from load to load */
    bool all_threads;         /* even for small batches, which one thread runs at less cost: tests want that */
    int64_t max_batch_tokens; /* >= 1; rows of all items of a batch; a longer item is a batch of its own, but an
                                 input without a longest length of its class's (own_limit) has no more */
    int64_t max_batch_requests; /* >= 1; items of a batch */
    size_t image_arena_bytes;   /* an image larger than max_batch_tokens is a batch of its own, too, as far as this much
                                   memory holds its activations, up to 512 x 512 pixels; 0: it is refused */

    /* Told when a device fails, and when it is back or still is not; NULL: nobody is. Called without locks, on threads
     * that run batches and on one of the engine's own; must be short, and may call model_ready_lanes alone. */
    void (*report)(void *context, const struct engine_event *event);
    void *report_context;
};

/* A device's state. */
struct engine_device {
    const char *name; /* "cpu", "cuda:1" */
    const char *kernels;
    bool works;         /* else it failed, and is tried again now and then */
    int64_t faults;     /* batches that failed on it */
    int64_t recoveries; /* times that it came back */
};

/* Of batches, since engine_open. */
struct engine_counts {
    int64_t reruns;          /* failed on a device, or were refused by it, and ran again on the CPU */
    int64_t standby_batches; /* ran on the CPU in place of a device, reruns included */
};

#endif
