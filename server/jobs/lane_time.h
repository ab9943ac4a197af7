/* lane_time: divides the time of a lane between generation and all other work, while jobs of both kinds wait. The
 * method is weighted fair queueing (Demers, Keshav and Shenker 1989) with two queues. Each kind pays for the time that
 * it uses. The price is this time divided by the kind's fraction of the lane (lane_time_fraction). The kind that has
 * paid less leads the next batch: its items are added first, as many as fit. Items of the other kind may fill the
 * remaining room. Their estimated price is limited to the price of the leader's items. So steps of generation and other
 * items run together, and no kind uses more than its fraction through batches that it does not lead.
 *
 * A kind cannot save time for later. If none of its jobs waits, the amount by which the other kind has paid more is set
 * to 0. So a kind that was idle cannot claim the lane for a long time afterwards, and a kind that used the lane alone
 * owes nothing. The caller must prevent concurrent calls. */
#ifndef SERVER_LANE_TIME_H
#define SERVER_LANE_TIME_H

#include "server/jobs/job.h"

#include <stdbool.h>

struct lane_time {
    double ahead; /* what generation has paid, minus what the other kind has paid. The unit is nanoseconds divided by a
                     fraction. 0 at first */
};

/* The fraction of the lane's time for a kind, if both kinds wait. `percent` is the percentage for generation, from 1 to
 * 99. */
static inline double lane_time_fraction(enum job_kind kind, int64_t percent)
{
    return (double)(kind == JOB_GENERATION ? percent : 100 - percent) / 100;
}

/* The kind that leads the next batch. Call it if jobs of at least one kind wait. */
static inline enum job_kind lane_time_turn(struct lane_time *time, bool generation_waits, bool others_wait)
{
    if (!others_wait && time->ahead > 0)
        time->ahead = 0;
    if (!generation_waits && time->ahead < 0)
        time->ahead = 0;
    return generation_waits && (!others_wait || time->ahead < 0) ? JOB_GENERATION : JOB_OTHER;
}

/* The maximum cost of the items of the other kind in a batch, if the items of the leader cost `cost`. Both costs have
 * the same unit. */
static inline double lane_time_allowance(enum job_kind leader, double cost, int64_t percent)
{
    return cost * (1 - lane_time_fraction(leader, percent)) / lane_time_fraction(leader, percent);
}

static inline void lane_time_pay(struct lane_time *time, enum job_kind kind, double ns, int64_t percent)
{
    double paid = ns / lane_time_fraction(kind, percent);
    time->ahead += kind == JOB_GENERATION ? paid : -paid;
}

#endif
