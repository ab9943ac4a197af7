/* share: divides the time of a lane between generation and all other work, while both wait. This is weighted fair
 * queueing (Demers, Keshav and Shenker 1989) with two queues: each kind pays for the time that it uses, divided by its
 * share. The kind that has paid less has the turn. It leads the batch: it takes its items first, as many as fit. Items
 * of the other kind then ride along, while they cost no more, divided by their share, than those of the leader. So
 * steps of generation and other items run together, and no kind gets ahead in a batch that it does not lead.
 *
 * Time that a kind did not use while nothing of it waited is lost. So a kind that was idle cannot claim the lane for
 * long, and a kind that used the whole lane alone owes nothing. The caller must prevent concurrent calls. */
#ifndef SERVER_SHARE_H
#define SERVER_SHARE_H

#include "server/jobs/job.h"

#include <stdbool.h>

struct lane_share {
    double ahead; /* what generation has paid beyond the other kind, in nanoseconds / share. 0 at first */
};

/* The fraction of the time for a kind. `percent` is that of generation, from 1 to 99. */
static inline double share_of(enum job_kind kind, int64_t percent)
{
    return (double)(kind == JOB_GENERATION ? percent : 100 - percent) / 100;
}

/* The kind that leads the next batch. At least one kind waits. */
static inline enum job_kind share_turn(struct lane_share *share, bool generation_waits, bool others_wait)
{
    if (!others_wait && share->ahead > 0)
        share->ahead = 0;
    if (!generation_waits && share->ahead < 0)
        share->ahead = 0;
    return generation_waits && (!others_wait || share->ahead < 0) ? JOB_GENERATION : JOB_OTHER;
}

/* What items that ride along may cost, if the items of the leader cost `cost`, in any unit. */
static inline double share_allowance(enum job_kind leader, double cost, int64_t percent)
{
    return cost * (1 - share_of(leader, percent)) / share_of(leader, percent);
}

static inline void share_pay(struct lane_share *share, enum job_kind kind, double ns, int64_t percent)
{
    double paid = ns / share_of(kind, percent);
    share->ahead += kind == JOB_GENERATION ? paid : -paid;
}

#endif
