/* gate: who may still come in, and who is inside. Requests for work pass it twice: admitted when their headers are
 * there, accepted when their body is. Any thread. */
#ifndef SERVER_GATE_H
#define SERVER_GATE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

enum gate_phase {
    GATE_STARTING, /* nobody is admitted yet */
    GATE_OPEN,
    GATE_CLOSING,  /* all are admitted, and their connections close behind them */
    GATE_DRAINING, /* nobody new is admitted; those admitted are accepted once complete */
    GATE_SHUT,     /* nobody is accepted either */
};

struct gate {
    pthread_mutex_t lock; /* guards the rest */
    pthread_cond_t left;
    enum gate_phase phase;
    int64_t arriving, inside, leaving;
};

void gate_init(struct gate *gate);
void gate_destroy(struct gate *gate);
void gate_open(struct gate *gate); /* unless it drains already */
void gate_begin_closing(struct gate *gate);
void gate_drain(struct gate *gate);
bool gate_closing(struct gate *gate); /* or a later phase */

/* Shuts the gate once nobody arrives any more, or after `arrival_ns` all the same, waits until nobody is inside, and
 * then until nobody leaves, or for `leave_ns`: how fast answers are read is not ours. */
void gate_shut(struct gate *gate, int64_t arrival_ns, int64_t leave_ns);

bool gate_admit(struct gate *gate);   /* true: gate_accept or gate_abandon is owed */
bool gate_accept(struct gate *gate);  /* true: gate_answer is owed; false: nothing is */
void gate_abandon(struct gate *gate); /* the body never became complete */
void gate_answer(struct gate *gate);  /* the answer is there, or nobody waits for it; gate_leave is owed */
void gate_leave(struct gate *gate);   /* it is sent */

#endif
