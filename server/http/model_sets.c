#include "server/http/model_sets.h"

#include <stddef.h>

/* Moves the set to the list `unused` if it is not the current set and no request holds it. The lock is held. */
static void leave_if_unused(struct model_sets *sets, struct model_set *set)
{
    if (!set || set->holders > 0 || set == sets->current)
        return;
    set->next = sets->unused;
    sets->unused = set;
    pthread_cond_signal(&sets->changed);
}

struct model_set *model_sets_acquire(struct model_sets *sets)
{
    pthread_mutex_lock(&sets->lock);
    struct model_set *set = sets->current;
    set->holders++;
    pthread_mutex_unlock(&sets->lock);
    return set;
}

void model_sets_release(struct model_sets *sets, struct model_set *set)
{
    pthread_mutex_lock(&sets->lock);
    set->holders--;
    leave_if_unused(sets, set);
    pthread_mutex_unlock(&sets->lock);
}

void model_sets_replace(struct model_sets *sets, struct model_set *set)
{
    pthread_mutex_lock(&sets->lock);
    struct model_set *former = sets->current;
    sets->current = set;
    leave_if_unused(sets, former);
    pthread_mutex_unlock(&sets->lock);
}

struct model_set *model_sets_take_unused(struct model_sets *sets)
{
    pthread_mutex_lock(&sets->lock);
    while (!sets->unused && !sets->closing)
        pthread_cond_wait(&sets->changed, &sets->lock);
    struct model_set *set = sets->unused;
    if (set)
        sets->unused = set->next;
    pthread_mutex_unlock(&sets->lock);
    return set;
}

void model_sets_close(struct model_sets *sets)
{
    pthread_mutex_lock(&sets->lock);
    sets->closing = true;
    pthread_cond_broadcast(&sets->changed);
    pthread_mutex_unlock(&sets->lock);
}
