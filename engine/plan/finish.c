/* finish: the end of building. Refuses surplus tensors, runs the passes, and places the values in the arena. */
#include "engine/plan/builder.h"
#include "engine/plan/operations.h"
#include "engine/plan/passes.h"
#include "engine/plan/shared_rows.h"

#include <assert.h>
#include <stdlib.h>

/* Checks that the plan uses every tensor of the file. An unused tensor means that the file belongs to another class, or
 * to other arguments. */
static void refuse_surplus(struct plan_builder *builder)
{
    for (size_t i = 0; i < weights_count(builder->weights); i++) {
        const struct weights_tensor *tensor = weights_at(builder->weights, i);
        char shape[128];
        if (!builder->used[i] && !plan_ignores(builder, tensor->name))
            plan_fail(builder,
                      "%s: tensor \"%s\" %s has no counterpart in the class with these kwargs; \"ignore\" in "
                      "config.json leaves tensors out",
                      weights_origin(builder->weights), tensor->name,
                      weights_shape_text(tensor->rank, tensor->shape, shape, sizeof shape));
    }
}

static void drop_unread_weights(struct plan *plan)
{
    for (int w = 0; w < plan->n_weights; w++) {
        bool read = false;
        for (int i = 0; i < plan->n_steps && !read; i++)
            read = plan_reads_weight(&plan->steps[i], w);
        if (!read) {
            free(plan->weights[w].data);
            plan->weights[w].data = NULL;
            plan->weights[w].rows = plan->weights[w].columns = 0;
        }
    }
}

/* Fails if the row of an operation in the table of operations.c is incomplete. The message names the missing member. */
static void refuse_incomplete_operations(struct plan_builder *builder)
{
    for (int i = 0; i < builder->plan->n_steps; i++) {
        enum operation operation = builder->plan->steps[i].operation;
        const char *lack = operation_lack(operation), *name = operation_name(operation);
        if (lack)
            plan_fail(builder, "operation %d (\"%s\") has no %s in engine/plan/operations.c", operation,
                      name ? name : "", lack);
    }
}

static int give(struct plan_builder *builder, struct plan **plan)
{
    free(builder->used);
    if (builder->failed) {
        plan_free(builder->plan);
        return -1;
    }
    *plan = builder->plan;
    return 0;
}

int plan_check(struct plan_builder *builder, struct plan **plan)
{
    assert(builder->without_data);
    refuse_surplus(builder);
    return give(builder, plan);
}

int plan_finish(struct plan_builder *builder, int64_t max_rows, int64_t max_items, struct plan **plan)
{
    assert(!builder->without_data);
    refuse_incomplete_operations(builder);
    refuse_surplus(builder);
    if (!builder->failed && !builder->as_built) {
        plan_fuse(builder);
        plan_reassociate(builder);
        plan_select_rows(builder);
        plan_narrow(builder);
        plan_block(builder);
    }
    if (!builder->failed) {
        drop_unread_weights(builder->plan);
        plan_resume(builder->plan, builder->n_slots);
        plan_mark_shared_axes(builder->plan);
    }
    if (!builder->failed && plan_place_values(builder->plan, max_rows, max_items, builder->error) != 0)
        builder->failed = true;
    if (!builder->failed && plan_enlarge_images(builder->plan, builder->image_arena_bytes, builder->error) != 0)
        builder->failed = true;
    return give(builder, plan);
}
