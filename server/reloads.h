/* reloads: the hooks that reload parts of the daemon after SIGHUP, and the thread that calls them.
 *
 *     reloads_open -> reloads_request … -> reloads_stop -> reloads_close or reloads_leave
 *
 * All requests that arrive while a reload runs cause one more reload together. So the last change of a file is always
 * read. */
#ifndef SERVER_RELOADS_H
#define SERVER_RELOADS_H

#include "config/config.h"

/* A hook reloads one part of the daemon, such as keys or models. It keeps the old state if the new one is bad. The
 * function logs both outcomes itself. */
struct reload_hook {
    void (*reload)(void *context);
    void *context;
};

struct reloads;

/* Starts the thread, which calls the hooks in their order for each reload. The array `hooks` (count) must outlive the
 * result. After success the caller must call reloads_close or reloads_leave. */
int reloads_open(const struct reload_hook *hooks, size_t count, struct reloads **reloads, struct error *error);

/* Requests a reload, and returns at once. Any thread may call reloads_request. */
void reloads_request(struct reloads *reloads);

/* After this call, no further hook begins. Does not wait for a running hook. */
void reloads_stop(struct reloads *reloads);

/* Whether a reload runs. Call it after reloads_stop, when no new reload can begin. */
bool reloads_busy(struct reloads *reloads);

/* Lets a running hook continue while the process ends. Call it instead of reloads_close, after reloads_stop. The struct
 * reloads, and all objects that the hooks use, must stay valid. */
void reloads_leave(struct reloads *reloads);

/* Calls reloads_stop, waits for the running hook, and ends the thread. */
void reloads_close(struct reloads *reloads);

#endif
