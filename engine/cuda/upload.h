/* upload: copies the inputs of a batch, and its tables of items and rows, to the device. Both are written to one block
 * of pinned host memory, which is copied in one piece. The shape of the batch (shape.h) determines the place of each
 * input and table in the block. The size of an attention mask depends on the request, because a mask has an element for
 * each row and key. So masks have separate memory. */
#ifndef ENGINE_CUDA_UPLOAD_H
#define ENGINE_CUDA_UPLOAD_H

#include "engine/cuda/run.h"

/* Offsets of the tables of an axis in the block. */
struct axis_places {
    size_t starts, item_starts, lengths, positions, blocks;
};

/* Memory for the masks of a batch. Its size is 0 at first, and grows when a batch needs more. Apart from CUDA graphs,
 * the engine allocates no other device memory while batches run. */
struct mask_room {
    char *host, *device; /* two blocks of `bytes` bytes. Host memory is pinned */
    size_t bytes, used;
};

/* The memory of a lane's uploads, and the offsets in it for the current batch. */
struct upload {
    char *host, *device; /* two blocks of `bytes` bytes. Host memory is pinned */
    size_t bytes, used;
    struct mask_room room;
    struct axis_places *axes;    /* by axis: offsets of its tables */
    size_t items, sizes, wanted; /* offsets of the tables of items, sizes and wanted rows */
    /* By input: offset of its rows. Only for inputs that have a value. */
    size_t rows[ENGINE_MAX_INPUTS];
    size_t masks[ENGINE_MAX_INPUTS];                         /* by input: offset of its table of score masks */
    struct device_axis *on_device;                           /* by axis: pointers to its tables in device memory */
    const struct score_mask *score_masks[ENGINE_MAX_INPUTS]; /* by input: its table of score masks in device memory */
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
