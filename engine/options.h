/* options: the options of an engine and its devices, and the reports of devices. */
#ifndef ENGINE_OPTIONS_H
#define ENGINE_OPTIONS_H

#include "config/config.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ENGINE_MAX_DEVICES DEVICE_CHOICE_LIMIT
#define ENGINE_MAX_LANES 64 /* of a model */

/* An event of a device: it failed, or it works again. */
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
    struct device_choice device;   /* "auto" also chooses the CPU for a model that does not fit on the CUDA device */
    enum dtype dtype;              /* of products with weights. A device refuses a type that it lacks */
    enum instruction_set kernels;  /* the CPU's */
    enum product_library products; /* the CPU's */
    int64_t threads;               /* 0: one for each core that this process may use */
    int64_t cuda_tuning_ms;        /* time limit for measuring products while a model is loaded on a CUDA device; 0: no
                                      measuring, so the algorithms are the same at each load */
    bool all_threads;              /* for tests: even small batches use all threads, although one would be cheaper */
    int64_t max_batch_tokens;      /* >= 1; rows of all items of a batch. A longer item is a batch by itself, if the
                                      model itself limits the input (own_limit). Other inputs have at most this length */
    int64_t max_batch_requests;    /* >= 1; items of a batch */
    size_t image_arena_bytes; /* bound on the activations of an image larger than max_batch_tokens, which is a batch
                                 by itself, of at most 512 x 512 pixels; 0: such images are refused */

    /* Called when a device fails, when an attempt to open it again fails, and when it works again. NULL: no reports. It
     * is called without locks, on threads that run batches or on the engine's own thread. It must be short, and of the
     * engine's functions it may call only model_ready_lanes. */
    void (*report)(void *context, const struct engine_event *event);
    void *report_context;
};

/* A device's state. */
struct engine_device {
    const char *name; /* "cpu", "cuda:1" */
    const char *kernels;
    bool works;         /* false: it failed, and the engine tries to open it again */
    int64_t faults;     /* batches that failed on it */
    int64_t recoveries; /* number of times that it worked again after a failure */
};

/* Numbers of batches since engine_open. */
struct engine_counts {
    int64_t reruns;          /* failed on a device, or were refused by it, and ran again on the CPU */
    int64_t standby_batches; /* ran on the CPU in place of a device, reruns included */
};

#endif
