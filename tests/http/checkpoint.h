/* checkpoint: reads the model.safetensors of a reference case, changes it, and writes it into a new model folder. Any
 * failure of these functions fails the running test. */
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
    json_t *metadata; /* `__metadata__` of the file, or NULL */
    char *config;     /* the text of config.json */
};

/* The caller must call checkpoint_free(). */
struct checkpoint checkpoint_read(const char *case_name);
void checkpoint_free(struct checkpoint *checkpoint);

struct checkpoint_shape {
    const char *name;
    int rank;
    int64_t shape[4];
};

/* Returns a new model. Its tensors are F32, with random numbers from -0.1 to 0.1. Equal lists of shapes give equal
 * numbers. The caller must call checkpoint_free(). */
struct checkpoint checkpoint_random(const char *config, const struct checkpoint_shape *shapes, size_t count);

/* Makes `folder` with config.json and model.safetensors. The last `cut` bytes of model.safetensors are missing. */
void checkpoint_write(const struct checkpoint *checkpoint, const char *folder, size_t cut);

/* Fails the test if there is no tensor with this name. */
struct checkpoint_tensor *checkpoint_tensor(struct checkpoint *checkpoint, const char *name);

void checkpoint_remove(struct checkpoint *checkpoint, const char *name);
void checkpoint_add(struct checkpoint *checkpoint, const char *name, int64_t elements); /* F32 zeros */

/* Rounds the values of F32 tensors to the nearest value of `dtype`, ties to even. The tensors stay F32. */
void checkpoint_round(struct checkpoint *checkpoint, enum weights_dtype dtype);

/* Converts F32 tensors to F16 or BF16 with the rounding of checkpoint_round, or to F64. For F64, each value other than
 * 0 is first changed by less than half of the last bit of an F32. So F32 cannot represent the changed value, but
 * rounding it gives the original value. */
void checkpoint_convert(struct checkpoint *checkpoint, enum weights_dtype dtype);

/* Makes a temporary folder. folder_remove removes the folder with its contents. The caller frees the path. */
char *folder_make(void);
void folder_remove(const char *path);

#endif
