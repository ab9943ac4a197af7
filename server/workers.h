/* workers: a few threads for work that would hold up an event loop, above all the JSON of large bodies and answers. */
#ifndef SERVER_WORKERS_H
#define SERVER_WORKERS_H

#include "config/config.h"

struct workers;

/* Belongs to whoever adds it and lives until `run` was called, which may free it. */
struct task {
    void (*run)(struct task *task);
    struct task *next;
};

int workers_open(int count, struct workers **workers, struct error *error);
void workers_close(struct workers *workers); /* runs what was added, then ends the threads. NULL is harmless */
void workers_add(struct workers *workers, struct task *task); /* any thread; first come first served */

#endif
