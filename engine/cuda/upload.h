/* upload: what a batch needs on the device, laid out in pinned memory and copied at once: tables of items and rows,
 * inputs. Where each lies follows from the batch's class. Attention masks are as large as they are, positions times
 * positions, and lie in a room of their own. */
#ifndef ENGINE_CUDA_UPLOAD_H
#define ENGINE_CUDA_UPLOAD_H

#include "engine/cuda/run.h"

/* Offsets of an axis' tables. */
struct axis_places {
    size_t starts, lengths, positions, blocks;
};

/* Masks of a batch. What requests may hold bounds them, not the plan, so the room is none at first and grows: the only
 * memory that is taken while batches run. */
struct mask_room {
    char *host, *device; /* `bytes` each; the host's is pinned */
    size_t bytes, used;
};

/* An upload's memory, and where in it things are for the batch at hand. */
struct upload {
    char *host, *device; /* `bytes` each; the host's is pinned */
    size_t bytes, used;
    struct mask_room room;
    struct axis_places *axes;                                /* by axis */
    size_t items, wanted;                                    /* offsets */
    size_t rows[ENGINE_MAX_INPUTS];                          /* of each input, where it has a value */
    size_t masks[ENGINE_MAX_INPUTS];                         /* of the tables of score masks */
    struct device_axis *on_device;                           /* by axis */
    const struct score_mask *score_masks[ENGINE_MAX_INPUTS]; /* on the device */
};

/* Room for the largest batch. Whether it succeeds or not, upload_free is owed. */
int upload_open(const struct plan *plan, struct upload *upload, struct error *error);
void upload_free(struct upload *upload);

/* Fills the host's memory with the batch: nothing is copied to the device yet. cudaErrorMemoryAllocation:
 * the masks find no room. */
cudaError_t upload_fill(struct upload *upload, const struct plan *plan, const struct batch *batch,
                        const struct shape_class *shape);

/* What was filled, to the device. */
cudaError_t upload_send(const struct upload *upload, cudaStream_t stream);

/* Tells the run where it is. */
void upload_describe(const struct upload *upload, struct cuda_run *run);

/* The inputs' rows into their values' places in the arena. */
void upload_place_inputs(const struct upload *upload, struct cuda_run *run);

#endif
