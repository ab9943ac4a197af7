/* fused_plans: plans with neighbouring steps that a backend may do in one go, for tests that hold them against the
 * reference and those that count what is done. The bench is begun, nothing is placed yet. */
#ifndef TESTS_UNIT_FUSED_PLANS_H
#define TESTS_UNIT_FUSED_PLANS_H

#include "tests/unit/operation_bench.h"

enum pair { EMBED_POSITIONS, EMBED_AXIAL_POSITIONS, EMBED_SINUSOIDS, ADD, NORM_SHIFT, PAIRS };

/* A pair with a norm of it, which is shifted where the pair is these two. `read_twice`: others, too, read what is
 * between. */
void build_pair(struct bench *bench, enum pair pair, int64_t columns, bool read_twice);

/* Of a projection along a sequence; `rows` of it: its n. */
struct projected {
    int64_t k, groups, rows;
    bool transposed, with_bias;
};

/* Its y, through the matrices with these names. */
int add_projection(struct plan_builder *builder, int x, struct projected e, const char *weight, const char *bias);

/* Eᵀx and Fᵀx one after the other, and an attention over each. */
void build_projections(struct bench *bench, struct projected e, struct projected f, int64_t columns);

/* Keys and values, with biases or without, through E and F, which a pass does first; where it can be either, with items
 * of both kinds. */
void build_chains(struct bench *bench, struct projected e, bool key_bias, bool value_bias, bool padded);

#endif
