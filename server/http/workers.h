/* workers: a few threads for work that would hold up an event loop, above all the JSON of large bodies and answers.
 *
 * Peers (clients) take turns. A task waits for the tasks that run, and then for at most one task of each other peer,
 * however many tasks that peer has. */
#ifndef SERVER_WORKERS_H
#define SERVER_WORKERS_H

#include "config/config.h"

struct workers;

/* The caller of workers_add owns the task. It lives until `run` is called; `run` may free it. */
struct task {
    void (*run)(struct task *task);
    uint64_t peer; /* the client that it is done for (peer.h); any number */

    /* Private to workers.c. */
    struct task *next;
    int64_t round;
};

int workers_open(int count, struct workers **workers, struct error *error);
void workers_close(struct workers *workers); /* runs the tasks that wait, then ends the threads. NULL is harmless */

/* Any thread. A peer's tasks are begun in the order in which they were added. */
void workers_add(struct workers *workers, struct task *task);

#endif
