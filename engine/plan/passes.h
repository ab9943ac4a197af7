/* The passes that plan_finish runs over a built plan, in this order. Each pass leaves a plan with the same results. A
 * pass that fails records the failure in the builder. */
#ifndef ENGINE_PLAN_PASSES_H
#define ENGINE_PLAN_PASSES_H

#include "engine/plan/builder.h"

/* Merges an activation, and an addition after it, into the linear step before them. The linear step then computes both
 * while its result is in the cache. */
void plan_fuse(struct plan_builder *builder);

/* Uses Eᵀ(x Wᵀ) = (Eᵀx) Wᵀ, where E projects the sequence and W is the weight of a linear step. The plan then computes
 * each item in the cheaper order, which depends on the item's number of rows. */
void plan_reassociate(struct plan_builder *builder);

/* Makes steps compute only one row of each item, if a later step selects this row and nothing reads the other rows. */
void plan_select_rows(struct plan_builder *builder);

/* Makes the last steps compute only those rows of the last hidden state that the items request. */
void plan_narrow(struct plan_builder *builder);

/* Joins two linear steps, and perhaps a gate between them, into one OP_FEED_FORWARD. The new step works on one block of
 * rows at a time. No other step may read the values between them. */
void plan_block(struct plan_builder *builder);

/* Finds out whether the rows of a sequence may come in several batches. If so, assigns each step its place in a slot.
 * Call it after all passes that change steps. */
void plan_resume(struct plan *plan, int64_t n_slots);

/* Computes the lifetime of every value and its place in the arena (the memory of all values), for the largest batch.
 * Returns -1 with a message if sizes overflow or memory is lacking. */
int plan_place_values(struct plan *plan, int64_t max_rows, int64_t max_items, struct error *error);

/* For a class that reads an image of any size. Places the values again, so that the largest image whose activations fit
 * in `arena_bytes` can be computed. This image has at most 512 x 512 pixels. Does nothing for other plans, or if the
 * plan already has room for such an image. */
int plan_enlarge_images(struct plan *plan, size_t arena_bytes, struct error *error);

/* ---- What passes share (passes.c) ---- */

/* How often steps read the value. A step that reads it twice counts twice. */
int plan_count_readers(const struct plan *plan, int value);

/* The first and the last step that writes the value. Several steps may write a part each. PLAN_NONE if the value is an
 * input. */
int plan_writer(const struct plan *plan, int value);
int plan_last_writer(const struct plan *plan, int value);

/* Inserts the step before step `index`. The indices of steps from `index` on grow by one. */
void plan_insert_step(struct plan_builder *builder, int index, struct plan_step step);
void plan_remove_step(struct plan *plan, int index);

/* Removes steps whose results nothing reads. OP_ATTEND and OP_ATTEND_CALL stay, because items may request their
 * softmax. */
void plan_drop_unread_steps(struct plan *plan);

/* Records a decision of a pass. Its text is given in printf's format. */
void plan_decide(struct plan_builder *builder, struct plan_decision decision, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
