#include "tests/unit/fused_plans.h"

/* Builds the steps before the norm. shapes_of_pair lists their weights and those of the norm. */
static int build_first(struct plan_builder *builder, enum fused_pair pair, int64_t columns)
{
    if (pair == ADD || pair == NORM_SHIFT) {
        int x = plan_input_rows(builder, "x", columns, 40, PLAN_NONE);
        return pair == ADD ? plan_add(builder, x, plan_activate(builder, x, ACTIVATION_GELU), 0.5f) : x;
    }
    int x = plan_input_ids(builder, "x", 7, 40, PLAN_NONE);
    x = plan_embed(builder, x, plan_matrix(builder, 7, columns, "table"));
    if (pair == EMBED_SINUSOIDS)
        return plan_add_sinusoids(builder, x, plan_vector(builder, columns / 2, "frequencies"));
    if (pair == EMBED_POSITIONS)
        return plan_add_positions(builder, x, plan_matrix(builder, 40, columns, "positions"), PLAN_NONE, 1);
    return plan_add_positions(builder, x, plan_matrix(builder, 5, columns, "rows"),
                              plan_matrix(builder, 8, columns, "columns"), 8);
}

static int64_t shapes_of_pair(enum fused_pair pair, int64_t columns, struct tensor_shape *shapes)
{
    int64_t count = 0;
    shapes[count++] = (struct tensor_shape){"gain", 0, columns};
    shapes[count++] = (struct tensor_shape){"bias", 0, columns};
    if (pair == ADD || pair == NORM_SHIFT)
        return count;
    shapes[count++] = (struct tensor_shape){"table", 7, columns};
    if (pair == EMBED_SINUSOIDS)
        shapes[count++] = (struct tensor_shape){"frequencies", 0, columns / 2};
    if (pair == EMBED_POSITIONS)
        shapes[count++] = (struct tensor_shape){"positions", 40, columns};
    if (pair == EMBED_AXIAL_POSITIONS) {
        shapes[count++] = (struct tensor_shape){"rows", 5, columns};
        shapes[count++] = (struct tensor_shape){"columns", 8, columns};
    }
    return count;
}

void build_pair(struct bench *bench, enum fused_pair pair, int64_t columns, bool read_twice)
{
    static const int64_t shifts[] = {1, 0, -1};
    struct tensor_shape shapes[6];
    struct plan_builder *builder = bench_begin(bench, shapes, (size_t)shapes_of_pair(pair, columns, shapes));
    builder->as_built = true; /* no passes, because a pass would gather the requested rows before the norm */
    int first = build_first(builder, pair, columns);
    int norm = plan_layer_norm(builder, first, plan_vector(builder, columns, "gain"),
                               plan_vector(builder, columns, "bias"), 1e-5f);
    int last = pair == NORM_SHIFT ? plan_shift_tokens(builder, norm, 3, shifts) : norm;
    /* The norm's input is read again after the shift. Otherwise the result of the shift could take the place of this
     * input in memory. */
    if (pair == NORM_SHIFT)
        last = plan_concatenate(builder, last, first);
    if (read_twice)
        last = plan_concatenate(builder, last, pair == NORM_SHIFT ? norm : first);
    plan_give(builder, last, PLAN_NONE, PLAN_NONE, false);
}

int add_projection(struct plan_builder *builder, int x, struct fused_projection e, const char *weight, const char *bias)
{
    int64_t rows = e.groups * (e.transposed ? e.k : e.rows);
    return plan_project_sequence(
        builder, x,
        (struct plan_projection){.weight = plan_matrix(builder, rows, e.transposed ? e.rows : e.k, weight),
                                 .bias = e.with_bias ? plan_matrix(builder, e.groups, e.k, bias) : PLAN_NONE,
                                 .groups = e.groups,
                                 .transposed = e.transposed});
}

static int64_t shapes_of_projection(struct fused_projection e, const char *weight, const char *bias,
                                    struct tensor_shape *shapes)
{
    shapes[0] = (struct tensor_shape){weight, e.groups * (e.transposed ? e.k : e.rows), e.transposed ? e.rows : e.k};
    shapes[1] = (struct tensor_shape){bias, e.groups, e.k};
    return e.with_bias ? 2 : 1;
}

void build_projections(struct bench *bench, struct fused_projection e, struct fused_projection f, int64_t columns)
{
    struct plan_attention attention = {.heads = 1, .kv_heads = 1, .scale = 0.1f};
    struct tensor_shape shapes[4];
    int64_t count = shapes_of_projection(e, "e", "eb", shapes);
    count += shapes_of_projection(f, "f", "fb", &shapes[count]);
    struct plan_builder *builder = bench_begin(bench, shapes, (size_t)count);
    builder->as_built = true;
    int x = plan_input_rows(builder, "x", columns, 40, PLAN_NONE);
    int first = add_projection(builder, x, e, "e", "eb"), second = add_projection(builder, x, f, "f", "fb");
    first = plan_attend(builder, x, first, first, attention);
    second = plan_attend(builder, x, second, second, attention);
    plan_give(builder, plan_concatenate(builder, first, second), PLAN_NONE, PLAN_NONE, false);
}

void build_chains(struct bench *bench, struct fused_projection e, bool key_bias, bool value_bias, bool padded)
{
    struct tensor_shape shapes[8] = {{"keys", 24, 24}, {"values", 24, 24}};
    int64_t count = 2;
    if (key_bias)
        shapes[count++] = (struct tensor_shape){"kb", 0, 24};
    if (value_bias)
        shapes[count++] = (struct tensor_shape){"vb", 0, 24};
    count += shapes_of_projection(e, "e", "eb", &shapes[count]);
    count += shapes_of_projection(e, "f", "fb", &shapes[count]);
    struct plan_builder *builder = bench_begin(bench, shapes, (size_t)count);
    int x = plan_input_rows(builder, "x", 24, 40, PLAN_NONE);
    if (padded)
        plan_pad(builder, x, 40);
    int keys = plan_linear(builder, x, plan_matrix(builder, 24, 24, "keys"),
                           key_bias ? plan_vector(builder, 24, "kb") : PLAN_NONE);
    keys = add_projection(builder, keys, e, "e", "eb");
    int values = plan_linear(builder, x, plan_matrix(builder, 24, 24, "values"),
                             value_bias ? plan_vector(builder, 24, "vb") : PLAN_NONE);
    values = add_projection(builder, values, e, "f", "fb");
    struct plan_attention attention = {.heads = 2, .kv_heads = 2, .scale = 0.02f};
    plan_give(builder, plan_attend(builder, x, keys, values, attention), PLAN_NONE, PLAN_NONE, false);
}
