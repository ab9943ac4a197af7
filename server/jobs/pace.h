/* pace: the speed of a model's batches, to estimate the time of the next one. It comes from FLOPs and measured times.
 * Later and larger batches count more. The caller guards it against other threads. */
#ifndef SERVER_PACE_H
#define SERVER_PACE_H

#include <stdint.h>

struct pace {
    double work, ns; /* sums over the batches; each new batch scales the sums before it by PACE_KEPT. 0: none ran */
};

#define PACE_KEPT 0.8

static inline void pace_add(struct pace *pace, double work, int64_t ns)
{
    pace->work = PACE_KEPT * pace->work + work;
    pace->ns = PACE_KEPT * pace->ns + (double)ns;
}

/* Estimated time of a batch with that many FLOPs; 0: unknown yet. */
static inline double pace_ns(const struct pace *pace, double work)
{
    return pace->work > 0 ? work * pace->ns / pace->work : 0;
}

#endif
