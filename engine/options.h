/* options: the options of an engine and its devices, and the reports of devices. */
#ifndef ENGINE_OPTIONS_H
#define ENGINE_OPTIONS_H

#include "config/config.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ENGINE_MAX_DEVICES DEVICE_CHOICE_LIMIT
#define ENGINE_MAX_LANES 64 /* upper limit for the lanes of a model */

/* An event of a device: it failed, it refused a batch, or it works again. */
struct engine_event {
    const char *device;  /* such as "cuda:0" */
    const char *failure; /* why the device failed, refused a batch, or stays closed. NULL if it works again */
    int64_t pause_ms;    /* after a failure: delay before the next attempt to open the device. 0 if the device works but
                            refused a batch, which is reported once for each model on the device */
    bool lasts; /* ENGINE_LASTING_ATTEMPTS attempts to open the device have failed. Perhaps only a new process can open
                   it. Reported once */
};
#define ENGINE_LASTING_ATTEMPTS 5

struct engine_options {
    struct device_choice device;   /* "auto" also chooses the CPU for a model that does not fit on the CUDA device */
    enum dtype dtype;              /* number format of products with weights. engine_open fails if the device does not
                                      support it */
    enum instruction_set kernels;  /* instruction set of the CPU's kernels */
    enum product_library products; /* library for matrix products on the CPU */
    int64_t threads;               /* number of CPU threads. 0 means one for each core that this process may use */
    enum cuda_f32 cuda_f32;        /* how a CUDA device computes products of floats with dtype f32 */
    int64_t cuda_tuning_ms; /* time limit for measuring algorithms of products while a model is loaded on a CUDA device.
                               0 measures nothing, so each load chooses the same algorithms */
    bool all_threads;       /* for tests: even small batches use all threads, although one thread would be faster */
    int64_t max_batch_tokens; /* >= 1. Limit on the rows of all items of a batch. If the model itself limits the length
                                 of the input (model_input.own_limit), an item may be longer, and runs as a batch by
                                 itself. Other inputs have at most this length */
    int64_t max_batch_requests; /* >= 1. Limit on the items of a batch */
    int64_t max_slots;          /* >= 0. Number of slots of a model (engine_item.slot) */
    /* Limit on the activations of an image with more than max_batch_tokens pixels, in bytes. Such an image runs as a
     * batch by itself, and has at most 512 x 512 pixels. 0 refuses such images */
    size_t image_arena_bytes;

    /* Called when a device fails, when an attempt to open it again fails, and when it works again. Also called when a
     * device first refuses a batch of a model. NULL if no reports are wanted. The function is called on threads that
     * run batches, or on the engine's own thread. The thread holds no lock during the call. The function must be short.
     * model_ready_lanes is the only function of the engine that it may call. */
    void (*report)(void *context, const struct engine_event *event);
    void *report_context;
};

/* The state of a device. */
struct engine_device {
    const char *name; /* such as "cpu" or "cuda:1" */
    const char *kernels;
    bool works;         /* false if the device failed and the engine tries to open it again */
    int64_t faults;     /* number of batches that failed on the device */
    int64_t recoveries; /* number of times that the device worked again after a failure */
};

/* Numbers of batches since engine_open. */
struct engine_counts {
    int64_t reruns;          /* batches that failed on a device, or that it refused, and that ran again on the CPU */
    int64_t standby_batches; /* batches that ran on the CPU in place of a device, including reruns */
};

#endif
