/* shape: the shape of a tensor in a call or in metadata. */
#ifndef SERVER_DIALECTS_V2_SHAPE_H
#define SERVER_DIALECTS_V2_SHAPE_H

#include "engine/engine.h"
#include "server/text/writer.h"

#include <stdint.h>

#define V2_MAX_RANK (ENGINE_MAX_RANK + 1) /* the rank of an item, and one more for the batch dimension */

struct v2_shape {
    int rank;
    int64_t sizes[V2_MAX_RANK]; /* -1 stands for any size */
};

/* The number of elements of the dimensions from `first` on. The caller must know that this number does not overflow. */
int64_t v2_elements(const struct v2_shape *shape, int first);

/* The number of elements of a shape that a client sent. Its sizes are at least 0. Returns -1 if the number of bytes, at
 * 16 bytes for each element, does not fit in an int64_t. */
int64_t v2_count(const struct v2_shape *shape);

void v2_write_shape(struct writer *writer, const struct v2_shape *shape); /* "[1,2]" */

#endif
