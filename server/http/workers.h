/* workers: a few threads for work that would block an event loop too long, mainly the JSON of large bodies and answers.
 *
 * Clients take turns. They are called peers here. A task waits for running tasks, and then for at most one task of each
 * other peer. It does not matter how many tasks the other peers have added. */
#ifndef SERVER_WORKERS_H
#define SERVER_WORKERS_H

#include "config/config.h"

struct workers;

/* The caller of workers_add owns the task. It must live until `run` is called. `run` may free it. */
struct task {
    void (*run)(struct task *task);
    uint64_t peer; /* the client whose request needs the task (peer.h). Any number is allowed */

    /* Private to workers.c. */
    struct task *next;
    int64_t round;
};

int workers_open(int count, struct workers **workers, struct error *error);
void workers_close(struct workers *workers); /* runs the waiting tasks, then ends the threads. NULL is harmless */

/* Any thread may call it. The tasks of a peer are started in the order in which they were added. */
void workers_add(struct workers *workers, struct task *task);

#endif
