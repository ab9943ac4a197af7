/* gate: decides which requests for work are accepted, and counts those under way. A request passes it twice: it is
 * admitted when its headers are there, and accepted when its body is complete. Any thread. */
#ifndef SERVER_GATE_H
#define SERVER_GATE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

enum gate_phase {
    GATE_STARTING, /* no request is admitted yet */
    GATE_OPEN,
    GATE_CLOSING,  /* requests are admitted, and each answer closes its connection */
    GATE_DRAINING, /* no request is admitted; admitted ones are still accepted */
    GATE_SHUT,     /* no request is accepted */
};

struct gate {
    pthread_mutex_t lock; /* guards the rest */
    pthread_cond_t left;  /* a count below went down */
    enum gate_phase phase;
    int64_t arriving; /* requests: admitted, the body comes in */
    int64_t inside;   /* accepted, not answered yet */
    int64_t leaving;  /* the answer is being sent */
};

void gate_init(struct gate *gate);
void gate_destroy(struct gate *gate); /* when every admitted request has left */
void gate_open(struct gate *gate);    /* no effect once it is closing or draining */
void gate_begin_closing(struct gate *gate);
void gate_drain(struct gate *gate);
bool gate_closing(struct gate *gate); /* or a later phase */

/* Waits until no request is arriving, at most `arrival_ns`, and shuts the gate. Then waits until none is inside,
 * however long that takes. Then waits until none is leaving, at most `leave_ns`, because a client may read its answer
 * slowly. */
void gate_shut(struct gate *gate, int64_t arrival_ns, int64_t leave_ns);

bool gate_admit(struct gate *gate);   /* true: gate_accept or gate_abandon is owed */
bool gate_accept(struct gate *gate);  /* true: gate_answer is owed. False: nothing is owed */
void gate_abandon(struct gate *gate); /* the body will never be complete */
void gate_answer(struct gate *gate);  /* the answer is ready, or its client is gone; gate_leave is owed */
void gate_leave(struct gate *gate);   /* the answer is sent */

#endif
