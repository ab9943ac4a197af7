#include "server/dialects/v2/shape.h"

int64_t v2_elements(const struct v2_shape *shape, int first)
{
    int64_t count = 1;
    for (int d = first; d < shape->rank; d++)
        count *= shape->sizes[d];
    return count;
}

int64_t v2_count(const struct v2_shape *shape)
{
    int64_t count = 1;
    for (int d = 0; d < shape->rank; d++) {
        if (__builtin_mul_overflow(count, shape->sizes[d], &count))
            return -1;
    }
    return count > INT64_MAX / 16 ? -1 : count;
}

void v2_write_shape(struct writer *writer, const struct v2_shape *shape)
{
    for (int d = 0; d < shape->rank; d++) {
        writer_text(writer, d > 0 ? "," : "[");
        writer_integer(writer, shape->sizes[d]);
    }
    writer_text(writer, "]");
}
