/* leaf: builds a class as a part of a larger plan. */
#include "engine/families/family.h"

#include <jansson.h>

static void build_class(struct plan_builder *builder, const struct plan_leaf *leaf)
{
    struct model_config config = {.kwargs = leaf->kwargs, .padding = leaf->padding};
    const struct family_class *class = family_find(leaf->class_name, builder->error);
    if (!json_is_object(leaf->kwargs))
        plan_fail(builder, "kwargs: expected an object");
    else if (class)
        class->build(builder, class->name, &config);
    else
        builder->failed = true;
}

int family_build_leaf(struct plan_builder *builder, const struct plan_leaf *leaf)
{
    if (builder->failed)
        return PLAN_NONE;
    if (builder->scope.leaf)
        return plan_fail(builder, "a leaf cannot contain another leaf");
    plan_open_scope(builder, leaf);
    if (!builder->failed)
        build_class(builder, leaf);
    int output = plan_close_scope(builder);
    if (builder->failed)
        error_prefix(builder->error, "\"%s\"", leaf->path);
    return output;
}
