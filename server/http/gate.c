/* gate: three counts of requests and a phase, under one lock. */
#include "server/http/gate.h"

#include "server/common/clock.h"

#include <assert.h>

void gate_init(struct gate *gate)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&gate->decreased, &attributes);
    pthread_condattr_destroy(&attributes);
    pthread_mutex_init(&gate->lock, NULL);
    gate->phase = GATE_STARTING;
    gate->arriving = gate->inside = gate->leaving = 0;
}

void gate_destroy(struct gate *gate)
{
    assert(gate->arriving == 0 && gate->inside == 0 && gate->leaving == 0);
    pthread_cond_destroy(&gate->decreased);
    pthread_mutex_destroy(&gate->lock);
}

/* Enters a later phase, and may skip phases. An earlier phase has no effect. */
static void enter(struct gate *gate, enum gate_phase phase)
{
    pthread_mutex_lock(&gate->lock);
    if (gate->phase < phase)
        gate->phase = phase;
    pthread_mutex_unlock(&gate->lock);
}

void gate_open(struct gate *gate)
{
    enter(gate, GATE_OPEN);
}

void gate_begin_closing(struct gate *gate)
{
    enter(gate, GATE_CLOSING);
}

void gate_drain(struct gate *gate)
{
    enter(gate, GATE_DRAINING);
}

bool gate_closing(struct gate *gate)
{
    pthread_mutex_lock(&gate->lock);
    bool closing = gate->phase >= GATE_CLOSING;
    pthread_mutex_unlock(&gate->lock);
    return closing;
}

/* Waits until the count is 0, but at most `patience_ns`. The lock is held. */
static void wait_for_none(struct gate *gate, const int64_t *count, int64_t patience_ns)
{
    int64_t until_ns = clock_ns() + patience_ns;
    struct timespec until = {.tv_sec = until_ns / 1000000000, .tv_nsec = until_ns % 1000000000};
    while (*count > 0 && pthread_cond_timedwait(&gate->decreased, &gate->lock, &until) == 0)
        ;
}

void gate_shut(struct gate *gate, int64_t arrival_ns, int64_t leave_ns)
{
    pthread_mutex_lock(&gate->lock);
    wait_for_none(gate, &gate->arriving, arrival_ns);
    gate->phase = GATE_SHUT;
    while (gate->inside > 0)
        pthread_cond_wait(&gate->decreased, &gate->lock);
    wait_for_none(gate, &gate->leaving, leave_ns);
    pthread_mutex_unlock(&gate->lock);
}

bool gate_admit(struct gate *gate)
{
    pthread_mutex_lock(&gate->lock);
    bool admitted = gate->phase == GATE_OPEN || gate->phase == GATE_CLOSING;
    gate->arriving += admitted;
    pthread_mutex_unlock(&gate->lock);
    return admitted;
}

bool gate_accept(struct gate *gate)
{
    pthread_mutex_lock(&gate->lock);
    bool accepted = gate->phase != GATE_SHUT;
    gate->arriving--;
    gate->inside += accepted;
    pthread_cond_broadcast(&gate->decreased);
    pthread_mutex_unlock(&gate->lock);
    return accepted;
}

void gate_abandon(struct gate *gate)
{
    pthread_mutex_lock(&gate->lock);
    gate->arriving--;
    pthread_cond_broadcast(&gate->decreased);
    pthread_mutex_unlock(&gate->lock);
}

void gate_answer(struct gate *gate)
{
    pthread_mutex_lock(&gate->lock);
    gate->inside--;
    gate->leaving++;
    pthread_cond_broadcast(&gate->decreased);
    pthread_mutex_unlock(&gate->lock);
}

void gate_leave(struct gate *gate)
{
    pthread_mutex_lock(&gate->lock);
    gate->leaving--;
    pthread_cond_broadcast(&gate->decreased);
    pthread_mutex_unlock(&gate->lock);
}
