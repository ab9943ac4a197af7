/* v2_shape: the shape of a tensor in a call or in metadata. */
#ifndef SERVER_DIALECTS_V2_SHAPE_H
#define SERVER_DIALECTS_V2_SHAPE_H

#include "engine/engine.h"
#include "server/text/writer.h"

#include <stdint.h>

#define V2_MAX_RANK (ENGINE_MAX_RANK + 1) /* that of an item, and the batch dimension */

struct v2_shape {
    int rank;
    int64_t sizes[V2_MAX_RANK]; /* -1: any size */
};

/* Elements of the dimensions from `first` on. Their product is known to fit. */
int64_t v2_elements(const struct v2_shape *shape, int first);

/* Elements of a shape from outside; sizes are >= 0. -1: their bytes, at 16 an element, do not fit an int64_t. */
int64_t v2_count(const struct v2_shape *shape);

void v2_write_shape(struct writer *writer, const struct v2_shape *shape); /* "[1,2]" */

#endif
