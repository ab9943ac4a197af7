/* fused_plans: plans with neighbouring steps that a backend may run as one step. Some tests compare the results with
 * the reference, others count kernel launches. The functions call bench_begin. The caller calls bench_place. */
#ifndef TESTS_UNIT_FUSED_PLANS_H
#define TESTS_UNIT_FUSED_PLANS_H

#include "tests/unit/operation_bench.h"

enum fused_pair { EMBED_POSITIONS, EMBED_AXIAL_POSITIONS, EMBED_SINUSOIDS, ADD, NORM_SHIFT, PAIRS };

/* Builds a plan with the pair of steps, followed by a norm. The pair NORM_SHIFT is a norm and a shift. `read_twice`:
 * another step also reads the value between the two steps. */
void build_pair(struct bench *bench, enum fused_pair pair, int64_t columns, bool read_twice);

/* A projection along a sequence, from n = `rows` rows to k. */
struct fused_projection {
    int64_t k, groups, rows;
    bool transposed, with_bias;
};

/* Adds the projection with the weight and the bias of these names. Returns its value. */
int add_projection(struct plan_builder *builder, int x, struct fused_projection e, const char *weight,
                   const char *bias);

/* A plan with the projections Eᵀx and Fᵀx in neighbouring steps, and an attention over each. */
void build_projections(struct bench *bench, struct fused_projection e, struct fused_projection f, int64_t columns);

/* Builds a plan in which E and F project keys and values. The pass re-associate changes the order of the products, for
 * all items or only for long items. */
void build_chains(struct bench *bench, struct fused_projection e, bool key_bias, bool value_bias, bool padded);

#endif
