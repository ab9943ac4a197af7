/* workers: a few threads for work that would hold up an event loop, above all the JSON of large bodies and answers.
 *
 * Peers take turns: a task waits for those that run, and then for at most one task of each other peer, however many
 * tasks these have. */
#ifndef SERVER_WORKERS_H
#define SERVER_WORKERS_H

#include "config/config.h"

struct workers;

/* Belongs to the thread that adds it and lives until `run` was called, which may free it. */
struct task {
    void (*run)(struct task *task);
    uint64_t peer; /* for whom it is done; any number */

    /* Of workers.c. */
    struct task *next;
    int64_t round;
};

int workers_open(int count, struct workers **workers, struct error *error);
void workers_close(struct workers *workers); /* runs what was added, then ends the threads. NULL is harmless */

/* Any thread. A peer's tasks are begun in the order in which they were added. */
void workers_add(struct workers *workers, struct task *task);

#endif
