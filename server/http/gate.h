/* gate: decides whether a request for work may proceed, and counts the requests in progress. A request for work is a
 * request to a model, to /tokenize or to /decode, or a request to load or unload a model. A request passes the gate in
 * two steps. It is admitted when its headers have arrived, and accepted when its body is complete. Any thread may call
 * the functions. */
#ifndef SERVER_GATE_H
#define SERVER_GATE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

enum gate_phase {
    GATE_STARTING, /* no request is admitted yet */
    GATE_OPEN,
    GATE_CLOSING,  /* requests are still admitted, but each answer closes its connection */
    GATE_DRAINING, /* no request is admitted. Requests that were admitted before are still accepted */
    GATE_SHUT,     /* no request is accepted */
};

struct gate {
    pthread_mutex_t lock;     /* guards the other members */
    pthread_cond_t decreased; /* signalled when one of the counts has decreased */
    enum gate_phase phase;
    int64_t arriving; /* number of requests that were admitted, and whose body is arriving */
    int64_t inside;   /* number of requests that were accepted, and have no answer yet */
    int64_t leaving;  /* number of requests whose answer is being sent */
};

void gate_init(struct gate *gate);
void gate_destroy(struct gate *gate); /* call it when every admitted request has left */
void gate_open(struct gate *gate);    /* has no effect if the gate is already in a later phase */
void gate_begin_closing(struct gate *gate);
void gate_drain(struct gate *gate);
bool gate_closing(struct gate *gate); /* whether the phase is GATE_CLOSING or later */

/* Waits until no request is arriving, but at most `arrival_ns`. Then shuts the gate, and waits without limit until no
 * request is inside. Finally waits until no request is leaving, but at most `leave_ns`, because a client may read its
 * answer slowly. */
void gate_shut(struct gate *gate, int64_t arrival_ns, int64_t leave_ns);

bool gate_admit(struct gate *gate);   /* if it returns true, the caller must call gate_accept or gate_abandon later */
bool gate_accept(struct gate *gate);  /* if it returns true, the caller must call gate_answer later. After false, no
                                         further call is needed */
void gate_abandon(struct gate *gate); /* call it if the body will never be complete */
/* Call it when the answer is ready, or the client is gone. gate_leave must follow. */
void gate_answer(struct gate *gate);
void gate_leave(struct gate *gate); /* call it when the answer is sent, or the client is gone */

#endif
