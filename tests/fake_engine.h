/* fake_engine: an implementation of engine.h without mathematics, for tests of the server. It is linked instead of the
 * engine. Each value of the last hidden state and of the output is a function of the id, the row and the column, and is
 * exact in a float. A test can therefore tell to which id a value belongs. Some ids cause failures. A gate can stop
 * batches. Each batch is recorded. The state is global. Call fake_reset() between tests, while no batch runs. */
#ifndef TESTS_FAKE_ENGINE_H
#define TESTS_FAKE_ENGINE_H

#include "engine/engine.h"

#define FAKE_VOCABULARY 1000
#define FAKE_COLUMNS 4 /* columns of the last hidden state */
#define FAKE_MAX_LENGTH 64

/* Ids that cause failures: */
#define FAKE_ID_NAN 990      /* each result contains NaN in the row of this id */
#define FAKE_ID_INFINITE 991 /* each result contains infinity in the row of this id */
#define FAKE_ID_FAIL 992     /* model_run fails for the whole batch: "the fake device failed" */

/* Creates a model with the properties in `info`, which is copied. If n_lanes or n_devices is 0, the model has one. If
 * `info` is NULL, the model is a language model with one input `x` of ids, with logits, and with the sizes above. If
 * the input is INPUT_ROWS, the id of a row is (int)row[0]. The caller must call model_close. */
struct model *fake_model(const struct model_info *info);

float fake_hidden(int32_t id, int64_t row, int64_t column);
float fake_output(int32_t id, int64_t row, int64_t column);

void fake_reset(void);

/* Sets the limits of a batch. 0 means no limit. A batch of one item may exceed max_batch_tokens. fake_violations
 * returns the number of batches that are empty, exceed a limit, or run on a wrong lane. A lane is wrong if another
 * batch runs on it, or if it does not belong to the batch's model. */
void fake_limits(int64_t max_batch_tokens, int64_t max_batch_requests);
int64_t fake_violations(void);

/* The gate is open at first. A closed gate stops each batch before the batch writes results. fake_gate_pass closes the
 * gate, and lets one batch through: a stopped batch if there is one, otherwise the next batch. */
void fake_gate_close(void);
void fake_gate_open(void);
void fake_gate_pass(void);

/* Sets the minimum duration of a batch per token, measured from the moment when the batch has passed the gate. The
 * default is 0. model_item_flops returns n for an item of n tokens. */
void fake_pace(int64_t ns_per_token);

/* Sets a function that each batch calls after it has passed the gate. The default is NULL: no function is called. */
void fake_on_batch(void (*call)(const struct model *model, const struct engine_item *items, int64_t n_items));

/* Makes each warm-up on this lane of the engine fail with "the fake device is cold". -1, the default, means no lane.
 * fake_warm_ups returns the number of all warm-ups. Warm-ups do not count as batches. */
void fake_cold_lane(int lane);
int64_t fake_warm_ups(void);

/* Closes the gate only for the batches of one model. */
void fake_gate_close_for(const struct model *model);

/* Assigns the engine's lanes first_lane to first_lane + n_lanes - 1 to the model. Call it before batches run. */
void fake_lanes(struct model *model, int first_lane, int n_lanes);

/* Sets whether the device of a lane of the engine works. At first all devices work. */
void fake_lane_works(int lane, bool works);

/* Waits until `count` batches have reached the gate since fake_reset, including batches that passed the gate. */
void fake_wait_for_batches(int64_t count);

/* fake_batches returns the number of recorded batches. fake_batch reads a batch. Index 0 is the batch that started
 * first. fake_batch writes the first id of each item, at most `size` ids, and returns the number of items. */
int64_t fake_batches(void);
int64_t fake_batch(int64_t index, const struct model **model, int32_t *ids, int64_t size);
int fake_batch_lane(int64_t index); /* lane of the engine on which the batch ran */

#endif
