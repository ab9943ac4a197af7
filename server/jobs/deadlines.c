#define _GNU_SOURCE /* pthread_setname_np */
#include "server/jobs/deadlines.h"

#include "server/common/clock.h"
#include "server/common/thread.h"
#include "server/jobs/lanes.h"

#define SECOND_NS INT64_C(1000000000)

/* Minimum time from a search of all queues for expired jobs to the next alarm, in nanoseconds. So a few searches are
 * enough for many deadlines that follow one another closely. A new job may still set an earlier alarm. */
#define ALARM_STEP_NS INT64_C(1000000)

/* Time between two checks of whether the clients of jobs that wait for slots have left. Jobs may wait for slots for a
 * long time. */
#define ASK_STEP_NS SECOND_NS

/* Sets *alarm_ns to time_ns if time_ns is earlier, and wakes the deadline thread, which then uses the new time. The
 * lock is held. */
static void set_alarm(struct batcher *batcher, int64_t *alarm_ns, int64_t time_ns)
{
    if (time_ns >= *alarm_ns)
        return;
    *alarm_ns = time_ns;
    pthread_cond_signal(&batcher->alarm);
}

void deadlines_watch(struct batcher *batcher, const struct job *job, bool waits_for_slots)
{
    if (job->deadline_ns)
        set_alarm(batcher, &batcher->alarm_ns, job->deadline_ns);
    if (waits_for_slots && batcher->ask_ns == INT64_MAX)
        set_alarm(batcher, &batcher->ask_ns, job->submitted_ns + ASK_STEP_NS);
}

/* Expires the jobs of a list whose deadline has passed (job_expire). Returns the earliest deadline of the other jobs.
 * The lock is held. */
static int64_t expire_list(struct batcher *batcher, struct job_queue *list, int64_t now)
{
    int64_t earliest = INT64_MAX;
    for (struct job *job = list->first, *next; job; job = next) {
        next = job->next;
        if (job->deadline_ns && now >= job->deadline_ns)
            job_expire(list, job, &batcher->ended);
        else if (job->deadline_ns && job->deadline_ns < earliest)
            earliest = job->deadline_ns;
    }
    return earliest;
}

/* Expires all waiting jobs whose deadline has passed (job_expire), and sets the next alarm. The lock is held. */
static void expire_waiting(struct batcher *batcher, int64_t now)
{
    int64_t earliest = INT64_MAX;
    for (int64_t i = 0; i < batcher->n_models; i++) {
        for (int list = 0; list < MODEL_QUEUE_LISTS; list++) {
            int64_t found = expire_list(batcher, &batcher->entries[i].waiting.lists[list], now);
            earliest = found < earliest ? found : earliest;
        }
        lanes_assign_slots(batcher, i);
    }
    batcher->alarm_ns = earliest < now + ALARM_STEP_NS ? now + ALARM_STEP_NS : earliest;
}

/* Makes a list of all jobs that wait for slots, linked by next_asked. Increases `running` of these jobs, so that no
 * other thread ends them. The lock is held. */
static struct job *hold_jobs_without_slots(struct batcher *batcher)
{
    struct job *held = NULL;
    for (int64_t i = 0; i < batcher->n_models; i++)
        for (struct job *job = batcher->entries[i].waiting.lists[MODEL_QUEUE_WAITING_FOR_SLOTS].first; job;
             job = job->next) {
            job->running++;
            job->next_asked = held;
            held = job;
        }
    return held;
}

/* Drops jobs that wait for slots and are no longer wanted. While `wanted` is called, a job may receive slots, run and
 * complete. Its lane does not end such a job, because `running` is above 0, so this function ends it. The lock is held,
 * but not during the calls of `wanted`. */
static void ask_jobs_without_slots(struct batcher *batcher)
{
    struct job *held = hold_jobs_without_slots(batcher);
    pthread_mutex_unlock(&batcher->lock);
    for (struct job *job = held; job; job = job->next_asked)
        job->unwanted = job->wanted && !job->wanted(job);
    pthread_mutex_lock(&batcher->lock);
    for (struct job *job = held, *next; job; job = next) {
        next = job->next_asked;
        job->running--;
        if (job->unwanted && !job->has_slots)
            job_cancel(waiting_list(batcher, job), job);
        if (!job_waits(job) && job->running == 0)
            job_end(job, &batcher->ended);
    }
    for (int64_t i = 0; i < batcher->n_models; i++)
        lanes_assign_slots(batcher, i);
    batcher->ask_ns = held ? clock_ns() + ASK_STEP_NS : INT64_MAX;
}

static void *deadline_thread(void *argument)
{
    struct batcher *batcher = argument;
    pthread_mutex_lock(&batcher->lock);
    for (;;) {
        int64_t now = clock_ns();
        if (now >= batcher->alarm_ns)
            expire_waiting(batcher, now);
        if (now >= batcher->ask_ns)
            ask_jobs_without_slots(batcher);
        int64_t wake_ns = batcher->alarm_ns < batcher->ask_ns ? batcher->alarm_ns : batcher->ask_ns;
        struct job_list ended = batcher->ended;
        if (ended.first) {
            batcher->ended = (struct job_list){NULL, NULL};
            pthread_mutex_unlock(&batcher->lock);
            job_list_finish(&ended);
            pthread_mutex_lock(&batcher->lock);
        } else if (batcher->stopping) {
            break;
        } else if (wake_ns == INT64_MAX) {
            pthread_cond_wait(&batcher->alarm, &batcher->lock);
        } else {
            struct timespec until = {wake_ns / SECOND_NS, wake_ns % SECOND_NS};
            pthread_cond_timedwait(&batcher->alarm, &batcher->lock, &until);
        }
    }
    pthread_mutex_unlock(&batcher->lock);
    return NULL;
}

int deadlines_start(struct batcher *batcher, struct error *error)
{
    int failure = pthread_create(&batcher->deadline_thread, NULL, deadline_thread, batcher);
    if (failure != 0)
        return thread_refused("deadlines", failure, error);
    pthread_setname_np(batcher->deadline_thread, "deadlines");
    return 0;
}

void deadlines_stop(struct batcher *batcher)
{
    pthread_mutex_lock(&batcher->lock);
    batcher->stopping = true;
    pthread_cond_signal(&batcher->alarm);
    pthread_mutex_unlock(&batcher->lock);
    pthread_join(batcher->deadline_thread, NULL);
}

void deadlines_cancel_jobs_without_slots(struct batcher *batcher)
{
    for (int64_t i = 0; i < batcher->n_models; i++) {
        struct job_queue *list = &batcher->entries[i].waiting.lists[MODEL_QUEUE_WAITING_FOR_SLOTS];
        for (struct job *job; (job = list->first) != NULL;) {
            job_cancel(list, job);
            if (job->running == 0) /* if `running` is above 0, ask_jobs_without_slots ends the job */
                job_end(job, &batcher->ended);
        }
    }
    pthread_cond_signal(&batcher->alarm);
}
