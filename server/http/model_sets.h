/* model_sets: the models that requests use. A set is a list of loaded models, which never changes. When a model is
 * loaded or unloaded, a new set becomes the current one. Each request holds the set that was current when its body was
 * complete (request_begin). So its model stays loaded until its answer is ready.
 *
 * Threads: any thread may call the functions. The lock is held for a few instructions only. */
#ifndef SERVER_HTTP_MODEL_SETS_H
#define SERVER_HTTP_MODEL_SETS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct served_model;

/* The owner of the models makes sets, and fills in the first members. */
struct model_set {
    struct served_model *models; /* (n_models) */
    int64_t n_models;            /* at least 1 */
    bool takes_pictures;         /* one of the models does */
    bool tokenizes;              /* one of the models does */

    /* Private to model_sets.c. */
    int64_t holders;        /* number of requests. Guarded by the lock */
    struct model_set *next; /* in model_sets.unused */
};

struct model_sets {
    pthread_mutex_t lock;
    pthread_cond_t changed;    /* signalled when `unused` or `closing` changes */
    struct model_set *current; /* NULL before the first model_sets_replace */
    struct model_set *unused;  /* former sets that no request holds any more */
    bool closing;
};

/* A static initialiser, for a set that stays current. */
#define MODEL_SETS_OF(set)                                                                       \
    {                                                                                            \
        .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER, .current = (set) \
    }

/* Returns the current set. The caller must call model_sets_release. */
struct model_set *model_sets_acquire(struct model_sets *sets);
void model_sets_release(struct model_sets *sets, struct model_set *set);

/* Makes `set` the current set. */
void model_sets_replace(struct model_sets *sets, struct model_set *set);

/* Waits for a former set that no request holds, and gives it back to its owner. Returns NULL after model_sets_close, if
 * there is no such set. */
struct model_set *model_sets_take_unused(struct model_sets *sets);
void model_sets_close(struct model_sets *sets);

#endif
