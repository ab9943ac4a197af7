/* model_sets: the models that requests use. A set is a list of loaded models, which never changes. When a model is
 * loaded or unloaded, a new set becomes the current one. Each request holds the set that was current when its body was
 * complete (request_begin). So the model of a request stays loaded until the answer is ready.
 *
 * Threads: any thread may call the functions. The lock is held for a few instructions only. */
#ifndef SERVER_HTTP_MODEL_SETS_H
#define SERVER_HTTP_MODEL_SETS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct served_model;

/* A list of loaded models. The owner of the models creates the sets, and fills in the first four members. */
struct model_set {
    struct served_model *models; /* an array of `n_models` models */
    int64_t n_models;            /* at least 1 */
    bool takes_pictures;         /* at least one of the models accepts pictures */
    bool tokenizes;              /* at least one of the models has a tokenizer.json */

    /* Only model_sets.c uses the members below. */
    int64_t holders;        /* number of requests that hold the set. The lock guards it */
    struct model_set *next; /* the next set in the list model_sets.unused */
};

struct model_sets {
    pthread_mutex_t lock;
    pthread_cond_t changed;    /* signalled when a set joins `unused`, or when `closing` becomes true */
    struct model_set *current; /* NULL before the first model_sets_replace */
    struct model_set *unused;  /* list of former sets that no request holds any more */
    bool closing;
};

/* A static initialiser with `set` as the current set. It is meant for programs that never replace the set. */
#define MODEL_SETS_OF(set)                                                                       \
    {                                                                                            \
        .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER, .current = (set) \
    }

/* Returns the current set, which the caller then holds. The caller must call model_sets_release. */
struct model_set *model_sets_acquire(struct model_sets *sets);
void model_sets_release(struct model_sets *sets, struct model_set *set);

/* Makes `set` the current set. */
void model_sets_replace(struct model_sets *sets, struct model_set *set);

/* Waits for a former set that no request holds, and returns this set to its owner. After model_sets_close, returns NULL
 * if there is no such set. */
struct model_set *model_sets_take_unused(struct model_sets *sets);
void model_sets_close(struct model_sets *sets);

#endif
