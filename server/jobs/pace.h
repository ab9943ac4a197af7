/* pace: how fast a model's batches run, to foresee how long one will take. From counted work (FLOPs) and measured
 * times, the later batches and the larger ones counting more. The caller guards it. */
#ifndef SERVER_PACE_H
#define SERVER_PACE_H

#include <stdint.h>

struct pace {
    double work, ns; /* sums over the batches, those before each counting PACE_KEPT of what they did; 0: none ran */
};

#define PACE_KEPT 0.8

static inline void pace_add(struct pace *pace, double work, int64_t ns)
{
    pace->work = PACE_KEPT * pace->work + work;
    pace->ns = PACE_KEPT * pace->ns + (double)ns;
}

/* So long a batch of that work will take; 0 as long as nothing is known. */
static inline double pace_ns(const struct pace *pace, double work)
{
    return pace->work > 0 ? work * pace->ns / pace->work : 0;
}

#endif
