/* upload: copies the inputs of a batch, and its tables of items and rows, to the device. They are written to pinned
 * host memory, and copied in one piece. The shape of the batch (shape.h) determines their places. An attention mask has
 * an element for each row and key, and its size depends on the request. So masks have separate memory. */
#ifndef ENGINE_CUDA_UPLOAD_H
#define ENGINE_CUDA_UPLOAD_H

#include "engine/cuda/run.h"

/* Offsets of the tables of an axis. */
struct axis_places {
    size_t starts, item_starts, lengths, positions, blocks;
};

/* Memory for the masks of a batch. This memory is empty at first, and grows. Apart from CUDA graphs, no other memory is
 * allocated while batches run. */
struct mask_room {
    char *host, *device; /* `bytes` each. The memory of the host is pinned */
    size_t bytes, used;
};

/* The memory of a lane's uploads, and the offsets in it for the current batch. */
struct upload {
    char *host, *device; /* `bytes` each. The memory of the host is pinned */
    size_t bytes, used;
    struct mask_room room;
    struct axis_places *axes;                                /* by axis */
    size_t items, sizes, wanted;                             /* offsets */
    size_t rows[ENGINE_MAX_INPUTS];                          /* offset of each input that has a value */
    size_t masks[ENGINE_MAX_INPUTS];                         /* offsets of the tables of score masks */
    struct device_axis *on_device;                           /* by axis */
    const struct score_mask *score_masks[ENGINE_MAX_INPUTS]; /* on the device */
};

/* Allocates memory for the largest batch. The caller must call upload_free, even after failure. */
int upload_open(const struct plan *plan, struct upload *upload, struct error *error);
void upload_free(struct upload *upload);

/* Writes the batch to the host's memory, without copying it to the device. Returns cudaErrorMemoryAllocation if there
 * is no memory for the masks. */
cudaError_t upload_fill(struct upload *upload, const struct plan *plan, const struct batch *batch,
                        const struct batch_shape *shape);

/* Copies the filled memory to the device. */
cudaError_t upload_send(const struct upload *upload, cudaStream_t stream);

/* Sets the run's pointers to the copies on the device. */
void upload_describe(const struct upload *upload, struct cuda_run *run);

/* Launches kernels that copy the inputs' rows to their values in the arena. */
void upload_place_inputs(const struct upload *upload, struct cuda_run *run);

#endif
