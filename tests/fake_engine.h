/* fake_engine: engine.h without mathematics, for tests of what is above the engine. Linked in the engine's place.
 *
 * Results are a function of id, row and column, small enough to be exact in a float, so that a test can tell whose
 * result it holds. Some ids make trouble on purpose. A gate holds batches until the test lets them go, and every batch
 * is recorded. The state is one per process: fake_reset() between tests, when nothing runs. */
#ifndef TESTS_FAKE_ENGINE_H
#define TESTS_FAKE_ENGINE_H

#include "engine/engine.h"

#define FAKE_VOCABULARY 1000
#define FAKE_COLUMNS 4 /* of the last hidden state */
#define FAKE_MAX_LENGTH 64

/* An item that holds one of these … */
#define FAKE_ID_NAN 990      /* … has a NaN in that row of each result */
#define FAKE_ID_INFINITE 991 /* … has an infinity there */
#define FAKE_ID_FAIL 992     /* … makes model_run fail: "the fake device failed" */

/* A language model with one input `x` of ids, logits, and the sizes above; or what `info` says, which is copied, 0
 * lanes being one. Rows of an INPUT_ROWS model count as the id (int)row[0]. model_close ends it. */
struct model *fake_model(const struct model_info *info);

float fake_hidden(int32_t id, int64_t row, int64_t column);
float fake_output(int32_t id, int64_t row, int64_t column);

void fake_reset(void);

/* What the batcher promised; a batch beyond it is a violation, as are two at once on a lane of the engine, and a lane
 * that the model does not have. 0: any. */
void fake_limits(int64_t max_batch_tokens, int64_t max_batch_requests);
int64_t fake_violations(void);

/* The gate is open at first. Closed, it stops each batch before anything is written; fake_gate_pass lets one through,
 * the one that stands there or the next to come. */
void fake_gate_close(void);
void fake_gate_open(void);
void fake_gate_pass(void);

/* A batch takes at least so long for each token, once it is through the gate; at first no time. An item of n tokens
 * counts n FLOPs. */
void fake_pace(int64_t ns_per_token);

/* Warming up fails on this lane of the engine with "the fake device is cold"; -1, as at first: on none. Warm-ups are no
 * batches: fake_warm_ups counts them. */
void fake_cold_lane(int lane);
int64_t fake_warm_ups(void);

/* Closed for the batches of one model. */
void fake_gate_close_for(const struct model *model);

/* The lanes of this model, from the engine's `first_lane` on. Call it before batches run. */
void fake_lanes(struct model *model, int first_lane, int n_lanes);

/* The device of a lane of the engine works (so it is at first), or has failed. */
void fake_lane_works(int lane, bool works);

/* Waits until `count` batches have come to the gate since fake_reset, those that went through included. */
void fake_wait_for_batches(int64_t count);

/* The record, in order. `ids` are the first id of each item. Returns the number of items, at most `size` ids. */
int64_t fake_batches(void);
int64_t fake_batch(int64_t index, const struct model **model, int32_t *ids, int64_t size);
int fake_batch_lane(int64_t index); /* of the engine */

#endif
