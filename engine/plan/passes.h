/* The passes that plan_finish runs over a built plan, in this order. Each leaves a plan that gives the same results,
 * and failures in the builder. */
#ifndef ENGINE_PLAN_PASSES_H
#define ENGINE_PLAN_PASSES_H

#include "engine/plan/builder.h"

/* Makes an activation and then an addition that follow a linear step its epilogues. */
void plan_fuse(struct plan_builder *builder);

/* Eᵀ(x Wᵀ) = (Eᵀx) Wᵀ: computes each item in the cheaper order, which depends on the item's rows. */
void plan_reassociate(struct plan_builder *builder);

/* Makes steps compute one row of each item, if a later step selects this row alone. */
void plan_select_rows(struct plan_builder *builder);

/* Makes the last steps compute only the rows of the last hidden state that items request. */
void plan_narrow(struct plan_builder *builder);

/* Joins two linear steps into one if no other step reads the value between them. */
void plan_block(struct plan_builder *builder);

/* Gives every value its lifetime and its place in the arena, for the largest batch. -1: the sizes overflow, or memory
 * ran out; `error` says so. */
int plan_place_values(struct plan *plan, int64_t max_rows, int64_t max_items, struct error *error);

/* Places the values of an image's plan again, for the largest image whose activations fit `arena_bytes`, at most 512 x
 * 512 pixels, if that is larger. The class states no largest image. Other plans stay as they are. */
int plan_enlarge_images(struct plan *plan, size_t arena_bytes, struct error *error);

/* ---- What passes share (passes.c) ---- */

/* How often steps read the value. */
int plan_count_readers(const struct plan *plan, int value);

/* The first step that writes the value, and the last one: several may write a part each. PLAN_NONE: it is an input. */
int plan_writer(const struct plan *plan, int value);
int plan_last_writer(const struct plan *plan, int value);

/* Inserts the step before step `index`. The indices of steps from `index` on grow by one. */
void plan_insert_step(struct plan_builder *builder, int index, struct plan_step step);
void plan_remove_step(struct plan *plan, int index);

/* Records what a pass decided, in printf's format. */
void plan_decide(struct plan_builder *builder, struct plan_decision decision, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
