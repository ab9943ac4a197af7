/* pace: the measured speed of a model's batches, for estimating the time of other batches. The speed is the work of the
 * batches, in FLOPs or tokens, divided by their time. Later and larger batches have more weight. The caller must
 * prevent concurrent calls. */
#ifndef SERVER_PACE_H
#define SERVER_PACE_H

#include <stdint.h>

struct pace {
    double work, ns; /* sums over the batches: work in FLOPs or tokens, time in nanoseconds. Before a new batch is
                        added, both sums are multiplied by PACE_KEPT. Both are 0 before the first batch */
};

#define PACE_KEPT 0.8

static inline void pace_add(struct pace *pace, double work, int64_t ns)
{
    pace->work = PACE_KEPT * pace->work + work;
    pace->ns = PACE_KEPT * pace->ns + (double)ns;
}

/* The estimated time of this work in nanoseconds. 0 before the first batch. */
static inline double pace_ns(const struct pace *pace, double work)
{
    return pace->work > 0 ? work * pace->ns / pace->work : 0;
}

#endif
