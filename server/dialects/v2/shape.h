/* shape: the shape of a tensor in an inference request or in the metadata. */
#ifndef SERVER_DIALECTS_V2_SHAPE_H
#define SERVER_DIALECTS_V2_SHAPE_H

#include "engine/engine.h"
#include "server/text/writer.h"

#include <stdint.h>

#define V2_MAX_RANK (ENGINE_MAX_RANK + 1) /* the maximum rank of an item, plus the batch dimension */

struct v2_shape {
    int rank;
    int64_t sizes[V2_MAX_RANK]; /* -1 stands for any size */
};

/* The product of the sizes from dimension `first` on. The caller must know that this product does not overflow. */
int64_t v2_elements(const struct v2_shape *shape, int first);

/* The number of elements of a shape that a client has sent. All sizes must be at least 0. Returns -1 if 16 times this
 * number does not fit in an int64_t. So the number of bytes of the elements does not overflow. */
int64_t v2_count(const struct v2_shape *shape);

void v2_write_shape(struct writer *writer, const struct v2_shape *shape); /* writes "[1,2]" */

#endif
