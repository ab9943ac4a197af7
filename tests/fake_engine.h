/* fake_engine: the functions of engine.h without mathematics, for tests of the server. It is linked instead of the
 * engine. A result is a function of id, row and column, and exact in a float. So a test can tell to which id a result
 * belongs. Some ids cause failures. A gate can stop batches, and each batch is recorded. The state is global: call
 * fake_reset() between tests, when no batch runs. */
#ifndef TESTS_FAKE_ENGINE_H
#define TESTS_FAKE_ENGINE_H

#include "engine/engine.h"

#define FAKE_VOCABULARY 1000
#define FAKE_COLUMNS 4 /* columns of the last hidden state */
#define FAKE_MAX_LENGTH 64

/* Ids that cause failures of the item: */
#define FAKE_ID_NAN 990      /* NaN in this row of each result */
#define FAKE_ID_INFINITE 991 /* infinity in this row of each result */
#define FAKE_ID_FAIL 992     /* model_run fails: "the fake device failed" */

/* Makes a model with the properties in `info`. 0 lanes or devices mean one. `info` is copied. NULL stands for a
 * language model with one input `x` of ids, with logits, and with the sizes above. In a model of INPUT_ROWS, the id of
 * a row is (int)row[0]. The caller must call model_close. */
struct model *fake_model(const struct model_info *info);

float fake_hidden(int32_t id, int64_t row, int64_t column);
float fake_output(int32_t id, int64_t row, int64_t column);

void fake_reset(void);

/* Sets the limits of a batch, 0 for no limit. fake_violations counts three kinds of batches: over a limit, on a lane
 * where another batch runs, and on a lane that their model does not have. */
void fake_limits(int64_t max_batch_tokens, int64_t max_batch_requests);
int64_t fake_violations(void);

/* The gate is open at first. A closed gate stops each batch before it writes results. fake_gate_pass lets one batch
 * through: a stopped one, or the next one. */
void fake_gate_close(void);
void fake_gate_open(void);
void fake_gate_pass(void);

/* Sets the least time of a batch for each token, beginning at the gate. It is 0 at first. An item of n tokens has n
 * FLOPs. */
void fake_pace(int64_t ns_per_token);

/* Calls `call` in each batch, after the gate. At first it is NULL, and nothing is called. */
void fake_on_batch(void (*call)(const struct model *model, const struct engine_item *items, int64_t n_items));

/* Lets warm-ups on this lane of the engine fail with "the fake device is cold". -1 stands for no lane, as at first.
 * fake_warm_ups counts all warm-ups. They do not count as batches. */
void fake_cold_lane(int lane);
int64_t fake_warm_ups(void);

/* Closes the gate only for the batches of one model. */
void fake_gate_close_for(const struct model *model);

/* Gives the model the engine's lanes [first_lane, first_lane + n_lanes). Call it before batches run. */
void fake_lanes(struct model *model, int first_lane, int n_lanes);

/* Sets whether the device of a lane of the engine works. At first all devices work. */
void fake_lane_works(int lane, bool works);

/* Waits until `count` batches have reached the gate since fake_reset. Batches that went through count, too. */
void fake_wait_for_batches(int64_t count);

/* The recorded batches, in order. fake_batch writes the first id of each item, at most `size` of them, and returns the
 * number of items. */
int64_t fake_batches(void);
int64_t fake_batch(int64_t index, const struct model **model, int32_t *ids, int64_t size);
int fake_batch_lane(int64_t index); /* lane of the engine */

#endif
