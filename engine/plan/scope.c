#include "engine/plan/scope.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#define MAX_PATH_BYTES 255 /* limit for a leaf's path, so that the path and a tensor's name fit in PLAN_NAME_BYTES */

/* ---- Begin and end ---- */

void plan_open_scope(struct plan_builder *builder, const struct plan_leaf *leaf)
{
    assert(!builder->scope.leaf && leaf->n_inputs <= ENGINE_MAX_INPUTS);
    builder->scope = (struct plan_scope){
        .leaf = leaf, .outer_padding = builder->padding, .height = PLAN_NONE, .width = PLAN_NONE, .output = PLAN_NONE};
    if (strlen(leaf->path) > MAX_PATH_BYTES)
        plan_fail(builder, "the path is longer than %d bytes", MAX_PATH_BYTES);
    for (int i = 0; i < leaf->n_inputs; i++) {
        assert(leaf->inputs[i].value >= 0 && leaf->inputs[i].value < builder->plan->n_values);
        for (int j = 0; j < i; j++)
            if (strcmp(leaf->inputs[i].name, leaf->inputs[j].name) == 0)
                plan_fail(builder, "input \"%s\" is bound twice", leaf->inputs[i].name);
    }
}

static void refuse_surplus_inputs(struct plan_builder *builder)
{
    const struct plan_scope *scope = &builder->scope;
    char known[256] = "";
    for (int i = 0; i < scope->n_inputs; i++)
        text_list_add(known, sizeof known, scope->names[i]);
    for (int i = 0; i < scope->leaf->n_inputs; i++)
        if (!scope->taken[i])
            plan_fail(builder, "%s has no input \"%s\" with these kwargs; expected %s", scope->leaf->class_name,
                      scope->leaf->inputs[i].name, known);
}

int plan_close_scope(struct plan_builder *builder)
{
    if (!builder->failed)
        refuse_surplus_inputs(builder);
    int output = builder->failed ? PLAN_NONE : builder->scope.output;
    assert(builder->failed || output != PLAN_NONE);
    builder->padding = builder->scope.outer_padding;
    builder->scope = (struct plan_scope){.leaf = NULL};
    return output;
}

const char *plan_full_name(const struct plan_builder *builder, const char *name, char full[PLAN_NAME_BYTES])
{
    const char *path = builder->scope.leaf ? builder->scope.leaf->path : "";
    snprintf(full, PLAN_NAME_BYTES, "%s%s%s", path, *path ? "." : "", name);
    return full;
}

void plan_give_bound(struct plan_builder *builder, int x, int weight, int bias)
{
    assert(builder->failed || builder->scope.output == PLAN_NONE);
    x = plan_cut_padding(builder, x);
    builder->scope.output = weight == PLAN_NONE ? x : plan_linear(builder, x, weight, bias);
}

/* ---- Inputs ---- */

/* Appends an input to the list of the class's inputs. Returns the value that the leaf binds to this input
 * (plan_leaf.inputs). Returns PLAN_NONE if the leaf binds no value. */
static int take_binding(struct plan_builder *builder, const char *name)
{
    struct plan_scope *scope = &builder->scope;
    assert(scope->n_inputs < ENGINE_MAX_INPUTS);
    int value = PLAN_NONE;
    for (int i = 0; i < scope->leaf->n_inputs; i++) {
        if (strcmp(scope->leaf->inputs[i].name, name) != 0)
            continue;
        scope->taken[i] = true;
        value = scope->leaf->inputs[i].value;
        if (scope->leaf->inputs[i].image) {
            scope->height = scope->leaf->inputs[i].height;
            scope->width = scope->leaf->inputs[i].width;
        }
    }
    scope->names[scope->n_inputs] = name;
    scope->values[scope->n_inputs++] = value;
    return value;
}

/* Checks that the value bound to an input has the right type and number of columns. Limits its ids to the
 * vocabulary. */
static void check_elements(struct plan_builder *builder, const struct model_input *input, int value)
{
    static const char *const kinds[] = {[INPUT_IDS] = "ids", [INPUT_ROWS] = "floats", [INPUT_MASK] = "a mask"};
    const struct plan_value *found = plan_value_at(builder, value);
    if (found->ids != (input->kind != INPUT_ROWS))
        plan_fail(builder, "input \"%s\": expected %s, found %s", input->name, kinds[input->kind],
                  found->ids ? "ids or a mask" : "floats");
    else if (found->columns != input->columns)
        plan_fail(builder, "input \"%s\": expected %lld columns, found %lld", input->name, (long long)input->columns,
                  (long long)found->columns);
    else if (input->kind == INPUT_IDS) {
        char what[80];
        snprintf(what, sizeof what, "input \"%s\"", input->name);
        plan_limit_ids(builder, value, input->vocabulary, what);
    }
}

/* Checks that the value comes from an image if the class reads an image (LAYOUT_IMAGE). A value for LAYOUT_CHANNELS
 * must have the rows of an input that is not an image. */
static void check_layout(struct plan_builder *builder, const struct model_input *input, int value)
{
    if (builder->failed)
        return;
    const struct plan_axis *axis = &builder->plan->axes[plan_value_at(builder, value)->axis];
    bool from_input = axis->kind == AXIS_INPUT;
    bool is_image = from_input && builder->plan->inputs[axis->input].input.layout == LAYOUT_IMAGE;
    is_image |= builder->scope.height != PLAN_NONE;
    if (input->layout == LAYOUT_IMAGE && !is_image)
        plan_fail(builder, "input \"%s\": expected an image that is an input of the model", input->name);
    if (input->layout == LAYOUT_CHANNELS && is_image)
        plan_fail(builder, "input \"%s\": expected a sequence, found an image", input->name);
    else if (input->layout == LAYOUT_CHANNELS && !from_input)
        plan_fail(builder, "input \"%s\": expected a sequence as long as an input of the model", input->name);
}

static void limit_rows(struct plan_builder *builder, const struct model_input *input, int value)
{
    if (builder->failed || input->max_length == 0)
        return;
    struct plan_size_limit limit = {
        .least = builder->padding == PADDING_EXACT ? input->max_length : 1,
        .most = input->max_length,
        .multiple = 1,
    };
    snprintf(limit.what, sizeof limit.what, "the length of input \"%s\" of \"%s\"", input->name,
             builder->scope.leaf->path);
    plan_limit_rows(builder, plan_value_at(builder, value)->axis, limit);
}

/* Returns the value with the same padding as `like`. PLAN_NONE stands for a mask of ones. */
static int pad_like(struct plan_builder *builder, const struct model_input *input, int value, int like)
{
    if (builder->failed || like == PLAN_NONE)
        return value;
    const struct plan_axis *axis = &builder->plan->axes[plan_value_at(builder, like)->axis];
    int own = axis->kind == AXIS_PADDED ? axis->padded.of : plan_value_at(builder, like)->axis;
    if (value != PLAN_NONE && plan_value_at(builder, value)->axis != own)
        return plan_fail(builder, "input \"%s\": expected the same length as that of the sequence it is used with",
                         input->name);
    if (axis->kind != AXIS_PADDED)
        return value;
    return input->kind == INPUT_MASK ? plan_pad_mask(builder, value, like)
                                     : plan_pad_rows(builder, value, axis->padded.by);
}

int plan_bound_input(struct plan_builder *builder, const struct model_input *input, int like)
{
    struct plan_scope *scope = &builder->scope;
    int index = scope->n_inputs, value = take_binding(builder, input->name);
    if (value != PLAN_NONE && input->refused)
        return plan_fail(builder, "input \"%s\" is not accepted: %s", input->name, input->refused);
    if (value == PLAN_NONE && input->fallback != PLAN_NONE)
        value = scope->values[index] = scope->values[input->fallback];
    if (value == PLAN_NONE && !input->optional)
        return plan_fail(builder, "input \"%s\" of the class is missing in the node's \"inputs\"", input->name);
    if (value != PLAN_NONE) {
        check_elements(builder, input, value);
        check_layout(builder, input, value);
        limit_rows(builder, input, value);
    }
    return value == PLAN_NONE && input->kind != INPUT_MASK ? PLAN_NONE : pad_like(builder, input, value, like);
}

int plan_unbound_input(struct plan_builder *builder, const struct model_input *input)
{
    int value = take_binding(builder, input->name);
    if (value != PLAN_NONE && input->refused)
        return plan_fail(builder, "input \"%s\" is not accepted: %s", input->name, input->refused);
    if (value != PLAN_NONE && input->kind != INPUT_IGNORED)
        return plan_fail(builder, "input \"%s\": a mask of attention scores cannot be a result of the graph",
                         input->name);
    return PLAN_NONE;
}

void plan_need_call(struct plan_builder *builder, const struct plan_axis *axis)
{
    if (axis->kind != AXIS_INPUT || builder->plan->inputs[axis->input].input.layout != LAYOUT_CALL)
        plan_fail(builder, "%s accepts only whole calls, (length, batch, features), and not single sequences",
                  builder->scope.leaf->class_name);
}

void plan_bound_multiple(struct plan_builder *builder, int value, int64_t multiple)
{
    int axis = plan_value_at(builder, value)->axis;
    const struct plan_axis *rows = &builder->plan->axes[axis];
    struct plan_size_limit limit = {.least = 1, .most = INT64_MAX, .multiple = multiple};
    if (rows->kind == AXIS_PADDED && rows->padded.by.multiple && rows->padded.by.multiple % multiple == 0)
        return;
    snprintf(limit.what, sizeof limit.what, "the length of the padded sequence of \"%s\"", builder->scope.leaf->path);
    plan_limit_rows(builder, axis, limit);
}
