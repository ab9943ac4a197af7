/* fused_plans: plans with neighbouring steps that a backend may run as one step. Some tests compare the results with
 * the reference, others count kernel launches. The functions build_... call bench_begin. The caller calls
 * bench_place. */
#ifndef TESTS_UNIT_FUSED_PLANS_H
#define TESTS_UNIT_FUSED_PLANS_H

#include "tests/unit/operation_bench.h"

enum fused_pair { EMBED_POSITIONS, EMBED_AXIAL_POSITIONS, EMBED_SINUSOIDS, ADD, NORM_SHIFT, PAIRS };

/* Builds a plan with a pair of steps. The pair NORM_SHIFT is a norm and a shift. Each other pair is the step that gives
 * the pair its name, and a norm. If `read_twice` is set, another step also reads the value between the two steps. */
void build_pair(struct bench *bench, enum fused_pair pair, int64_t columns, bool read_twice);

/* A projection along a sequence (Linformer's E or F), from at most `rows` rows to k rows. */
struct fused_projection {
    int64_t k, groups, rows;
    bool transposed, with_bias;
};

/* Adds the projection of x with the weight and the bias of these names. Returns the projected value. */
int add_projection(struct plan_builder *builder, int x, struct fused_projection e, const char *weight,
                   const char *bias);

/* Builds a plan with the projections Eᵀx and Fᵀx in neighbouring steps, and an attention over each of them. */
void build_projections(struct bench *bench, struct fused_projection e, struct fused_projection f, int64_t columns);

/* Builds a plan in which E and F project keys and values. The pass re-associate changes the order of the matrix
 * products, for all items or only for long items. */
void build_chains(struct bench *bench, struct fused_projection e, bool key_bias, bool value_bias, bool padded);

#endif
