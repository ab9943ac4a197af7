/* pass_reassociate: a sequence that is projected after a linear step, Eᵀ(x Wᵀ), can be projected before it instead,
 * (Eᵀx) Wᵀ. The results differ only by rounding. The number of rows of a sequence decides which order needs fewer
 * operations. If this number differs between sequences, both orders stay in the plan, and each step has a
 * plan_selection of the sequences that it computes. The number of rows of the batch has no influence, because otherwise
 * an item's results would depend on the other items of the batch.
 *
 *     K = Eᵀ(x Wᵀ + 1 bᵀ) + e 1ᵀ = (Eᵀx | Eᵀ1 | e) (W | b | 1)ᵀ        biases become extra columns of both factors
 *     Eᵀ M (x Wᵀ) = Eᵀ((M x) Wᵀ)                                      a mask M of rows can mask x instead
 *
 * Here 1 is a vector of ones, b is the bias of the linear step, and e is the bias of the projection. A bar separates
 * the columns of a matrix.
 *
 * If keys and values project the same x by the same E, they share Eᵀx. Otherwise there are two weights, E and F. Then
 * the step for Fᵀx directly follows the step for Eᵀx. A backend may fuse these two projections, because they read the
 * same x. With a mask, they read two different values, and a backend cannot fuse them. The reason is that this pass
 * masks x once for E and once for F. */
#include "engine/plan/axes.h"
#include "engine/plan/passes.h"

#include <stdint.h>

/* A chain: a linear step, perhaps a step that masks rows, and the projection of their result. */
struct chain {
    int linear, mask, project; /* indices of steps. `mask` is PLAN_NONE if no rows are masked */
};

static bool is_plain_linear(const struct plan_step *step)
{
    return step->operation == OP_LINEAR && step->linear.activation.kind == ACTIVATION_NONE && step->z == PLAN_NONE &&
           step->only.axis == PLAN_NONE;
}

/* The step that writes the value, if exactly one step reads the value. Otherwise PLAN_NONE. */
static int writer_for_one(const struct plan *plan, int value)
{
    return plan_count_readers(plan, value) == 1 ? plan_writer(plan, value) : PLAN_NONE;
}

/* Whether step `project` is the end of a chain. A projection with extra columns is not the end of a chain, because this
 * pass wrote it. A second rewrite could not keep these columns. */
static bool find_chain(const struct plan *plan, int project, struct chain *chain)
{
    const struct plan_step *last = &plan->steps[project];
    *chain = (struct chain){.project = project, .mask = PLAN_NONE};
    if (last->operation != OP_PROJECT_SEQUENCE || last->project_sequence.groups != 1 || last->only.axis != PLAN_NONE ||
        last->project_sequence.sums_column || last->project_sequence.bias_column)
        return false;
    chain->linear = writer_for_one(plan, last->x);
    if (chain->linear != PLAN_NONE && plan->steps[chain->linear].operation == OP_MASK_ROWS) {
        chain->mask = chain->linear;
        chain->linear = writer_for_one(plan, plan->steps[chain->mask].x);
    }
    if (chain->linear == PLAN_NONE || !is_plain_linear(&plan->steps[chain->linear]))
        return false;
    /* With a bias b, this pass cannot mask x instead: the linear step would turn the masked rows into b, not into 0.
     * Also, the mask must be computed before the linear step. */
    return chain->mask == PLAN_NONE || (plan->steps[chain->linear].bias == PLAN_NONE &&
                                        plan_last_writer(plan, plan->steps[chain->mask].z) < chain->linear);
}

/* What chains must have in common to share one Eᵀx. */
struct projected_source {
    int x, mask;      /* indices of values */
    int weight, bias; /* indices of the projection's weights */
    bool transposed;
    bool has_bias; /* whether the linear step has a bias */
};

static struct projected_source source_of(const struct plan *plan, const struct chain *chain)
{
    const struct plan_step *linear = &plan->steps[chain->linear], *project = &plan->steps[chain->project];
    return (struct projected_source){
        .x = linear->x,
        .mask = chain->mask == PLAN_NONE ? PLAN_NONE : plan->steps[chain->mask].z,
        .weight = project->weight,
        .bias = project->bias,
        .transposed = project->project_sequence.transposed,
        .has_bias = linear->bias != PLAN_NONE,
    };
}

/* The next chain with this source, whose projection is step `from` or a later one. */
static bool next_chain(const struct plan *plan, int from, const struct projected_source *source, struct chain *chain)
{
    for (int i = from; i < plan->n_steps; i++) {
        if (!find_chain(plan, i, chain))
            continue;
        struct projected_source found = source_of(plan, chain);
        if (found.x == source->x && found.mask == source->mask && found.weight == source->weight &&
            found.bias == source->bias && found.transposed == source->transposed && found.has_bias == source->has_bias)
            return true;
    }
    return false;
}

/* ---- Counting ---- */

/* Bounds of the rows of a sequence on the axis. If padding or the model fixes the number of rows, both bounds are this
 * number. Otherwise they are 1 and INT64_MAX. */
static struct plan_selection rows_of_sequences(const struct plan *plan, int axis)
{
    int64_t exactly = plan_same_rows(plan, axis);
    return exactly ? (struct plan_selection){axis, exactly, exactly} : (struct plan_selection){axis, 1, INT64_MAX};
}

/* The least number of rows for which `after` needs fewer operations than `before`. INT64_MAX if there is none. */
static int64_t least_rows(struct plan_flops before, struct plan_flops after)
{
    return after.row < before.row ? after.item / (before.row - after.row) + 1 : INT64_MAX;
}

/* The FLOPs of all chains of the source, from `first` on, in both orders. */
static struct plan_decision count_flops(const struct plan *plan, struct chain first,
                                        const struct projected_source *source)
{
    struct plan_decision decision = {.what = ""};
    int64_t k = plan_constant_rows(plan, plan->values[plan->steps[first.project].y].axis);
    int64_t d = plan->values[source->x].columns, more = source->has_bias + (source->bias != PLAN_NONE);
    decision.after.row = 2 * k * d;
    for (struct chain chain = first; next_chain(plan, chain.project, source, &chain); chain.project++) {
        int64_t columns = plan->values[plan->steps[chain.project].x].columns;
        decision.before.row += 2 * columns * (d + k);
        decision.after.item += 2 * k * (d + more) * columns;
    }
    decision.least_rows = least_rows(decision.before, decision.after);
    return decision;
}

/* Changes the decision's FLOPs per row into FLOPs per item. Call it if every item has `rows` rows of the source,
 * whatever the length of its inputs. */
static void fix_rows(struct plan_decision *decision, int64_t rows)
{
    decision->before.item += decision->before.row * rows;
    decision->after.item += decision->after.row * rows;
    decision->before.row = decision->after.row = 0;
}

/* ---- Rewriting ---- */

struct rewrite {
    struct projected_source source;
    /* The sequences that are projected before the linear step, and those that are projected after it. */
    struct plan_selection projected_first, multiplied_first;
    bool both;     /* a batch may contain sequences of both kinds */
    int x;         /* x of the source, masked if the chain has a mask */
    int projected; /* Eᵀx, with its extra columns */
};

/* Masks x once for all chains of the source, as soon as x and the mask are computed. */
static void mask_source(struct plan_builder *builder, struct chain *chain, struct rewrite *rewrite)
{
    const struct plan *plan = builder->plan;
    struct plan_step mask = plan->steps[chain->mask];
    const struct plan_value *x = plan_value_at(builder, rewrite->x);
    int ready = plan_last_writer(plan, rewrite->x), mask_ready = plan_last_writer(plan, mask.z);
    mask.x = rewrite->x;
    mask.y = rewrite->x = plan_new_value(builder, x->axis, x->columns);
    plan_insert_step(builder, (ready > mask_ready ? ready : mask_ready) + 1, mask);
    chain->linear++; /* the new step comes before the steps of the chain */
    chain->mask++;
    chain->project++;
}

/* The index at which to insert the step Eᵀx. Just before the chain there may be another projection of the same x, for
 * the same sequences. Then the step follows this projection, so that a backend can fuse both. Otherwise it comes
 * directly before the chain's projection. The search goes back over projections and linear steps, and ends at any other
 * step. So Eᵀx for a later layer is not computed long before this layer reads it, and needs memory only for a short
 * time. */
static int place_of_projection(const struct plan *plan, const struct chain *chain, const struct rewrite *rewrite)
{
    for (int i = chain->project - 1; i >= 0; i--) {
        const struct plan_step *other = &plan->steps[i];
        if (other->operation != OP_PROJECT_SEQUENCE && other->operation != OP_LINEAR)
            break;
        if (other->operation == OP_PROJECT_SEQUENCE && other->x == rewrite->x &&
            other->only.axis == rewrite->projected_first.axis && other->only.least == rewrite->projected_first.least &&
            other->only.most == rewrite->projected_first.most)
            return i + 1;
    }
    return chain->project;
}

/* Inserts the step Eᵀx, with an extra column for each bias. */
static void project_source(struct plan_builder *builder, struct chain *chain, struct rewrite *rewrite)
{
    if (builder->failed)
        return;
    struct plan_step project = builder->plan->steps[chain->project];
    project.only = rewrite->projected_first;
    project.project_sequence.sums_column = rewrite->source.has_bias;
    project.project_sequence.bias_column = project.bias != PLAN_NONE;
    project.x = rewrite->x;
    project.y = rewrite->projected =
        plan_new_value(builder, plan_value_at(builder, project.y)->axis,
                       plan_value_at(builder, rewrite->x)->columns + project.project_sequence.sums_column +
                           project.project_sequence.bias_column);
    int place = place_of_projection(builder->plan, chain, rewrite);
    plan_insert_step(builder, place, project);
    if (chain->linear >= place)
        chain->linear++;
    if (chain->mask != PLAN_NONE && chain->mask >= place)
        chain->mask++;
    chain->project++; /* `place` is before the projection, whose index grows by one */
}

/* Inserts the step (Eᵀx) Wᵀ. It writes the same y as the chain's projection. The new step must precede the projection,
 * because a linear step may overwrite the rows of other sequences. A projection does not overwrite them. */
static void multiply_projected(struct plan_builder *builder, struct chain *chain, const struct rewrite *rewrite)
{
    if (builder->failed)
        return;
    struct plan_step linear = builder->plan->steps[chain->linear];
    int columns[2], count = 0;
    if (rewrite->source.has_bias)
        columns[count++] = linear.bias;
    if (rewrite->source.bias != PLAN_NONE)
        columns[count++] = PLAN_NONE;
    if (count > 0)
        linear.weight = plan_widen(builder, linear.weight, columns, count);
    linear.bias = PLAN_NONE;
    linear.only = rewrite->projected_first;
    linear.x = rewrite->projected;
    linear.y = builder->plan->steps[chain->project].y;
    plan_insert_step(builder, chain->project, linear);
    chain->project++;
}

/* Keeps the original steps for the sequences that are projected after the linear step. If there are no such sequences,
 * removes these steps. Removes the step that masks rows in any case, because the linear step now reads the masked x. */
static void keep_for_others(struct plan *plan, struct chain chain, const struct rewrite *rewrite)
{
    struct plan_step *linear = &plan->steps[chain.linear], *project = &plan->steps[chain.project];
    linear->x = rewrite->x;
    project->x = linear->y;
    linear->only = project->only = rewrite->multiplied_first;
    if (!rewrite->both)
        plan_remove_step(plan, chain.project);
    if (chain.mask != PLAN_NONE)
        plan_remove_step(plan, chain.mask);
    if (!rewrite->both)
        plan_remove_step(plan, chain.linear);
}

static void rewrite_chains(struct plan_builder *builder, struct chain chain, struct rewrite *rewrite)
{
    if (chain.mask != PLAN_NONE)
        mask_source(builder, &chain, rewrite);
    project_source(builder, &chain, rewrite);
    do {
        multiply_projected(builder, &chain, rewrite);
        if (!builder->failed)
            keep_for_others(builder->plan, chain, rewrite);
        /* The search starts at step 0, because removing steps moves later chains to lower indices, perhaps before the
         * first chain. A rewritten chain is not found again. Its steps are removed, or have a plan_selection, which
         * find_chain refuses. */
    } while (!builder->failed && next_chain(builder->plan, 0, &rewrite->source, &chain));
}

static void consider(struct plan_builder *builder, struct chain chain)
{
    struct plan *plan = builder->plan;
    struct rewrite rewrite = {.source = source_of(plan, &chain)};
    struct chain earlier;
    if (next_chain(plan, 0, &rewrite.source, &earlier) && earlier.project < chain.project)
        return; /* an earlier chain with this source was left unchanged, so the source was considered before */
    struct plan_decision decision = count_flops(plan, chain, &rewrite.source);
    struct plan_selection rows = rows_of_sequences(plan, plan->values[rewrite.source.x].axis);
    if (plan->axes[rows.axis].kind != AXIS_INPUT && rows.least == rows.most)
        fix_rows(&decision, rows.least);
    rewrite.x = rewrite.source.x;
    rewrite.both = decision.least_rows > rows.least;
    bool never = decision.least_rows > rows.most;
    decision.least_rows = never ? INT64_MAX : rewrite.both ? decision.least_rows : 1;
    plan_decide(builder, decision, "re-associate %s and %s", plan->weights[rewrite.source.weight].name,
                plan->weights[plan->steps[chain.linear].weight].name);
    if (decision.least_rows == INT64_MAX)
        return;
    rewrite.projected_first = rewrite.multiplied_first = (struct plan_selection){.axis = PLAN_NONE};
    if (rewrite.both) {
        rewrite.projected_first = (struct plan_selection){rows.axis, decision.least_rows, INT64_MAX};
        rewrite.multiplied_first = (struct plan_selection){rows.axis, 0, decision.least_rows - 1};
    }
    rewrite_chains(builder, chain, &rewrite);
}

void plan_reassociate(struct plan_builder *builder)
{
    struct chain chain;
    for (int i = 0; i < builder->plan->n_steps && !builder->failed; i++)
        if (find_chain(builder->plan, i, &chain))
            consider(builder, chain);
}
