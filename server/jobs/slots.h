/* slots: the free slots of a model. A slot is the permission to generate one sequence. It is a number from 1 on. If the
 * engine has memory for slots of the model (model_info.n_slots), this number is also engine_item.slot. The batcher's
 * lock guards the slots. */
#ifndef SERVER_SLOTS_H
#define SERVER_SLOTS_H

#include <stdint.h>

struct slots;

struct slots *slots_open(int64_t count); /* returns NULL if memory is lacking */
void slots_close(struct slots *slots);   /* call it when all slots are free. NULL is harmless */

/* Takes `count` slots, and writes their numbers to `numbers`. If fewer slots are free, takes no slots and returns
 * -1. */
int slots_take(struct slots *slots, int64_t count, int64_t *numbers);
void slots_give(struct slots *slots, int64_t count, const int64_t *numbers);

int64_t slots_used(const struct slots *slots);
int64_t slots_count(const struct slots *slots);

#endif
