/* reloads: the things that the daemon reloads when SIGHUP comes, and the thread that reloads them.
 *
 *     reloads_open -> reloads_request … -> reloads_stop -> reloads_close or reloads_leave
 *
 * Requests that come while a reload runs cause one more reload together. So the last change of a file is always read.
 */
#ifndef SERVER_RELOADS_H
#define SERVER_RELOADS_H

#include "config/config.h"

/* One thing to reload, such as keys or models. The function keeps the old state if the new one is bad. It logs both
 * outcomes itself. */
struct reload_hook {
    void (*reload)(void *context);
    void *context;
};

struct reloads;

/* Starts the thread. It calls the hooks in their order. The array `hooks` (count) must outlive the result. After
 * success the caller must call reloads_close or reloads_leave. */
int reloads_open(const struct reload_hook *hooks, size_t count, struct reloads **reloads, struct error *error);

/* Asks for a reload. Returns at once. Any thread may call it. */
void reloads_request(struct reloads *reloads);

/* From now on, no further hook begins. Does not wait for a running hook. */
void reloads_stop(struct reloads *reloads);

/* Whether a reload runs. Call it after reloads_stop: then no reload begins any more. */
bool reloads_busy(struct reloads *reloads);

/* Lets the running hook go on, for a process that ends now. Call it instead of reloads_close, after reloads_stop. The
 * object and what the hooks use must stay valid. */
void reloads_leave(struct reloads *reloads);

/* Stops, waits for the running hook, and ends the thread. */
void reloads_close(struct reloads *reloads);

#endif
