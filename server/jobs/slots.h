/* slots: which of a model's slots (engine_item.slot) are free. The batcher's lock guards them. */
#ifndef SERVER_SLOTS_H
#define SERVER_SLOTS_H

#include <stdint.h>

struct slots;

struct slots *slots_open(int64_t count); /* NULL: out of memory */
void slots_close(struct slots *slots);   /* all slots must be free. NULL is harmless */

/* Takes `count` slots, all or none, and writes their numbers, from 1 on. Returns 0, or -1 if fewer are free. */
int slots_take(struct slots *slots, int64_t count, int64_t *numbers);
void slots_give(struct slots *slots, int64_t count, const int64_t *numbers);

int64_t slots_used(const struct slots *slots);
int64_t slots_count(const struct slots *slots);

#endif
