/* checkpoint: a reference case's model.safetensors, taken apart, changed and written again into a model folder of its
 * own. Everything here fails the running test when something does not go as it must. */
#ifndef TESTS_HTTP_CHECKPOINT_H
#define TESTS_HTTP_CHECKPOINT_H

#include "tests/http/infer.h"

#include <jansson.h>

struct checkpoint_tensor {
    char *name;
    enum weights_dtype dtype;
    int rank;
    int64_t shape[WEIGHTS_MAX_RANK];
    char *data;
    size_t bytes;
};

struct checkpoint {
    struct checkpoint_tensor *tensors;
    size_t count;
    json_t *metadata; /* NULL: none */
    char *config;     /* config.json as it is */
};

/* checkpoint_free is owed. */
struct checkpoint checkpoint_read(const char *case_name);
void checkpoint_free(struct checkpoint *checkpoint);

/* A model that no case has: F32 tensors of numbers in ±0.1, the same for the same shapes. checkpoint_free is owed. */
struct checkpoint_shape {
    const char *name;
    int rank;
    int64_t shape[4];
};
struct checkpoint checkpoint_random(const char *config, const struct checkpoint_shape *shapes, size_t count);

/* Makes `folder` with config.json and model.safetensors, which lacks its last `cut` bytes. */
void checkpoint_write(const struct checkpoint *checkpoint, const char *folder, size_t cut);

/* Fails the test when there is none of that name. */
struct checkpoint_tensor *checkpoint_tensor(struct checkpoint *checkpoint, const char *name);

void checkpoint_remove(struct checkpoint *checkpoint, const char *name);
void checkpoint_add(struct checkpoint *checkpoint, const char *name, int64_t elements); /* F32 zeros */

/* Rounds all that is F32 to what `dtype` holds, to nearest even; it stays F32. */
void checkpoint_round(struct checkpoint *checkpoint, enum weights_dtype dtype);

/* Stores all that is F32 as F16 or BF16, rounded in the same way, or as F64: each value is a little off, so that it is
 * no F32, and rounds to the one that it was. */
void checkpoint_convert(struct checkpoint *checkpoint, enum weights_dtype dtype);

/* A new folder for model folders. The test frees the path, after folder_remove, which removes what is in it, too. */
char *folder_make(void);
void folder_remove(const char *path);

#endif
