/* workers: a few threads for work that would block an event loop too long, mainly the JSON of large bodies and answers.
 *
 * Clients, which are called peers here, are served in turn. A new task of an idle peer waits for the running tasks, and
 * for at most one waiting task of each other peer. The number of tasks that another peer has added does not matter. */
#ifndef SERVER_WORKERS_H
#define SERVER_WORKERS_H

#include "config/config.h"

struct workers;

/* A unit of work. The caller of workers_add owns the task, which must live until `run` is called. `run` may free the
 * task. */
struct task {
    void (*run)(struct task *task);
    uint64_t peer; /* identifies the client whose request needs the task (peer.h). Any number is allowed */

    /* Only workers.c uses the members below. */
    struct task *next;
    int64_t round;
};

int workers_open(int count, struct workers **workers, struct error *error);
void workers_close(struct workers *workers); /* runs the waiting tasks, then ends the threads. NULL is harmless */

/* Adds a task. Any thread may call workers_add. The tasks of a peer are started in the order in which they were
 * added. */
void workers_add(struct workers *workers, struct task *task);

#endif
