/* A plan's life, its axes, values and inputs. plan_weights.c and plan_operations.c have the rest of building it; the
 * passes of plan_passes.h finish it. */
#include "engine/plan_builder.h"
#include "engine/plan_passes.h"

#include <assert.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static const char *const operation_names[OP_COUNT] = {
    [OP_EMBED] = "embed",
    [OP_ADD_POSITIONS] = "add_positions",
    [OP_LAYER_NORM] = "layer_norm",
    [OP_LINEAR] = "linear",
    [OP_FEED_FORWARD] = "feed_forward",
    [OP_ACTIVATE] = "activate",
    [OP_ADD] = "add",
    [OP_MASK_ROWS] = "mask_rows",
    [OP_ADD_SINUSOIDS] = "add_sinusoids",
    [OP_PROJECT_SEQUENCE] = "project_sequence",
    [OP_CONVOLVE_SEQUENCE] = "convolve_sequence",
    [OP_PROJECT_CALL] = "project_call",
    [OP_ATTEND] = "attend",
    [OP_ATTEND_CALL] = "attend_call",
    [OP_SHIFT_TOKENS] = "shift_tokens",
    [OP_ROTATE] = "rotate",
    [OP_LINEAR_ATTEND] = "linear_attend",
    [OP_LOCAL_ATTEND] = "local_attend",
    [OP_CONCATENATE] = "concatenate",
    [OP_APPEND_ROWS] = "append_rows",
    [OP_CONVOLVE_IMAGE] = "convolve_image",
    [OP_GATE] = "gate",
    [OP_GATHER_ROWS] = "gather_rows",
    [OP_CUT_PADDING] = "cut_padding",
    [OP_RETRIEVE] = "retrieve",
    [OP_GIVE_HIDDEN] = "give_hidden",
    [OP_GIVE_POOLED] = "give_pooled",
    [OP_GIVE_OUTPUT] = "give_output",
    [OP_GIVE_IMAGE] = "give_image",
};

const char *operation_name(enum operation operation)
{
    return operation_names[operation];
}

int plan_fail(struct plan_builder *builder, const char *format, ...)
{
    if (builder->failed)
        return PLAN_NONE;
    builder->failed = true;
    va_list arguments;
    va_start(arguments, format);
    char message[sizeof builder->error->message];
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    error_set(builder->error, "%s", message);
    return PLAN_NONE;
}

void *plan_grow(struct plan_builder *builder, void *array, int *count, size_t size)
{
    void **elements = array;
    if ((*count & (*count - 1)) == 0) {
        size_t room = *count ? 2 * (size_t)*count : 1;
        void *larger = realloc(*elements, room * size);
        if (!larger) {
            plan_fail(builder, "out of memory while building the plan");
            return NULL;
        }
        *elements = larger;
    }
    void *element = (char *)*elements + (size_t)*count * size;
    memset(element, 0, size);
    ++*count;
    return element;
}

int plan_begin(struct plan_builder *builder, const struct weights *weights, struct error *error)
{
    memset(builder, 0, sizeof *builder);
    builder->weights = weights;
    builder->error = error;
    for (size_t i = 0; i < weights_count(weights); i++)
        builder->all_elements += weights_at(weights, i)->elements;
    builder->plan = calloc(1, sizeof *builder->plan);
    builder->used = calloc(weights_count(weights) + 1, sizeof *builder->used);
    if (!builder->plan || !builder->used) {
        free(builder->plan);
        free(builder->used);
        return error_set(error, "out of memory while building the plan");
    }
    builder->plan->output_name = "output";
    return 0;
}

/* Every tensor of the file must have been taken: what is left over means another class or other arguments. */
static void refuse_surplus(struct plan_builder *builder)
{
    for (size_t i = 0; i < weights_count(builder->weights); i++) {
        const struct weights_tensor *tensor = weights_at(builder->weights, i);
        char shape[128];
        if (!builder->used[i])
            plan_fail(builder, "%s: tensor \"%s\" %s is surplus: the class with these kwargs has no such parameter",
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

int plan_finish(struct plan_builder *builder, int64_t max_rows, int64_t max_items, struct plan **plan)
{
    refuse_surplus(builder);
    if (!builder->failed && !builder->as_built) {
        plan_fuse(builder);
        plan_reassociate(builder);
        plan_narrow(builder);
        plan_block(builder);
    }
    if (!builder->failed)
        drop_unread_weights(builder->plan);
    if (!builder->failed && plan_place_values(builder->plan, max_rows, max_items, builder->error) != 0)
        builder->failed = true;
    free(builder->used);
    if (builder->failed) {
        plan_free(builder->plan);
        return -1;
    }
    *plan = builder->plan;
    return 0;
}

void plan_free(struct plan *plan)
{
    if (!plan)
        return;
    for (int i = 0; i < plan->n_weights; i++) {
        free(plan->weights[i].name);
        free(plan->weights[i].data);
    }
    free(plan->axes);
    free(plan->values);
    free(plan->weights);
    free(plan->steps);
    free(plan->decisions);
    free(plan);
}

bool plan_window_fits(const struct plan_window *window, struct plan_image image)
{
    return image.height + window->before[0] + window->after[0] >= window->size[0] &&
           image.width + window->before[1] + window->after[1] >= window->size[1];
}

struct plan_image plan_convolved(const struct plan_window *window, struct plan_image image)
{
    int64_t height = image.height + window->before[0] + window->after[0] - window->size[0];
    int64_t width = image.width + window->before[1] + window->after[1] - window->size[1];
    return (struct plan_image){height / window->stride[0] + 1, width / window->stride[1] + 1};
}

/* Of a square image, or of pixels side by side. */
static int64_t convolved_rows(const struct plan *plan, const struct plan_axis *axis, int64_t rows)
{
    struct plan_image image = {1, rows};
    if (plan->inputs[axis->input].input.layout == LAYOUT_IMAGE)
        image.height = image.width = (int64_t)sqrt((double)rows);
    if (!plan_window_fits(&axis->window, image))
        return 0;
    image = plan_convolved(&axis->window, image);
    return image.height * image.width;
}

static int64_t axis_rows(const struct plan *plan, int index, int64_t rows, int64_t items)
{
    const struct plan_axis *axis = &plan->axes[index];
    if (axis->input == PLAN_NONE)
        return axis->rows_per_item * items;
    if (axis->joined)
        return axis_rows(plan, axis->first, rows, items) + axis_rows(plan, axis->second, rows, items);
    if (plan_may_lack(plan, axis->input))
        return 0;
    if (axis->window.size[0])
        return convolved_rows(plan, axis, rows);
    return axis->n ? rows / axis->n * axis->k : rows;
}

int64_t plan_value_rows(const struct plan *plan, int value, int64_t rows, int64_t items)
{
    return axis_rows(plan, plan->values[value].axis, rows, items);
}

bool plan_may_lack(const struct plan *plan, int input)
{
    const struct plan_input *of = &plan->inputs[input];
    return of->input.optional && of->fallback == PLAN_NONE && of->input.like == PLAN_NONE;
}

/* ---- Axes and values ---- */

static int ragged_axis(struct plan_builder *builder, int input)
{
    struct plan_axis *axis = plan_grow(builder, &builder->plan->axes, &builder->plan->n_axes, sizeof *axis);
    if (!axis)
        return PLAN_NONE;
    axis->input = input;
    return builder->plan->n_axes - 1;
}

int plan_unpadded_axis(struct plan_builder *builder, int input)
{
    const struct plan *plan = builder->plan;
    for (int i = 0; i < plan->n_axes; i++)
        if (plan->axes[i].input == input && plan->axes[i].padded_rows == 0 && plan->axes[i].row_multiple == 0 &&
            plan->axes[i].n == 0 && plan->axes[i].window.size[0] == 0 && !plan->axes[i].joined)
            return i;
    return ragged_axis(builder, input);
}

int plan_fixed_axis(struct plan_builder *builder, int64_t rows_per_item)
{
    struct plan *plan = builder->plan;
    for (int i = 0; i < plan->n_axes; i++)
        if (plan->axes[i].input == PLAN_NONE && plan->axes[i].rows_per_item == rows_per_item)
            return i;
    struct plan_axis *axis = plan_grow(builder, &plan->axes, &plan->n_axes, sizeof *axis);
    if (!axis)
        return PLAN_NONE;
    *axis = (struct plan_axis){.input = PLAN_NONE, .rows_per_item = rows_per_item};
    return plan->n_axes - 1;
}

int plan_projected_axis(struct plan_builder *builder, int input, int64_t k, int64_t n)
{
    struct plan_axis *axis = plan_grow(builder, &builder->plan->axes, &builder->plan->n_axes, sizeof *axis);
    if (!axis)
        return PLAN_NONE;
    *axis = (struct plan_axis){.input = input, .k = k, .n = n};
    return builder->plan->n_axes - 1;
}

int plan_window_axis(struct plan_builder *builder, int input, const struct plan_window *window)
{
    struct plan_axis *axis = plan_grow(builder, &builder->plan->axes, &builder->plan->n_axes, sizeof *axis);
    if (!axis)
        return PLAN_NONE;
    *axis = (struct plan_axis){.input = input, .window = *window};
    return builder->plan->n_axes - 1;
}

int plan_joined_axis(struct plan_builder *builder, int first, int second)
{
    struct plan_axis *axis = plan_grow(builder, &builder->plan->axes, &builder->plan->n_axes, sizeof *axis);
    if (!axis)
        return PLAN_NONE;
    *axis =
        (struct plan_axis){.input = builder->plan->axes[first].input, .joined = true, .first = first, .second = second};
    return builder->plan->n_axes - 1;
}

int plan_new_value(struct plan_builder *builder, int axis, int64_t columns)
{
    if (builder->failed)
        return PLAN_NONE;
    struct plan_value *value = plan_grow(builder, &builder->plan->values, &builder->plan->n_values, sizeof *value);
    if (!value)
        return PLAN_NONE;
    value->axis = axis;
    value->columns = columns;
    return builder->plan->n_values - 1;
}

/* ---- Inputs ---- */

/* `axis` PLAN_NONE: one of its own. */
static int new_input(struct plan_builder *builder, struct plan_input input, int axis)
{
    if (builder->failed)
        return PLAN_NONE;
    struct plan *plan = builder->plan;
    assert(plan->n_inputs < ENGINE_MAX_INPUTS);
    if (axis == PLAN_NONE)
        axis = ragged_axis(builder, plan->n_inputs);
    input.value = plan_new_value(builder, axis, input.input.columns);
    if (input.value == PLAN_NONE)
        return PLAN_NONE;
    plan->values[input.value].ids = input.input.kind != INPUT_ROWS;
    input.input.min_length = 1;
    input.input.multiple = 1;
    input.input.own_limit = input.input.max_length != 0;
    plan->inputs[plan->n_inputs++] = input;
    return input.value;
}

int plan_input_ids(struct plan_builder *builder, const char *name, int64_t vocabulary, int64_t max_length, int fallback)
{
    struct model_input input = {.name = name,
                                .kind = INPUT_IDS,
                                .columns = 1,
                                .vocabulary = vocabulary,
                                .like = PLAN_NONE,
                                .max_length = max_length,
                                .optional = fallback != PLAN_NONE};
    return new_input(builder, (struct plan_input){.input = input, .fallback = fallback}, PLAN_NONE);
}

int plan_input_rows(struct plan_builder *builder, const char *name, int64_t columns, int64_t max_length, int fallback)
{
    struct model_input input = {.name = name,
                                .kind = INPUT_ROWS,
                                .columns = columns,
                                .like = PLAN_NONE,
                                .max_length = max_length,
                                .optional = fallback != PLAN_NONE};
    return new_input(builder, (struct plan_input){.input = input, .fallback = fallback}, PLAN_NONE);
}

int plan_input_image(struct plan_builder *builder, const char *name, int64_t channels)
{
    struct model_input input = {
        .name = name, .kind = INPUT_ROWS, .layout = LAYOUT_IMAGE, .columns = channels, .like = PLAN_NONE};
    return new_input(builder, (struct plan_input){.input = input, .fallback = PLAN_NONE}, PLAN_NONE);
}

int plan_input_pixels(struct plan_builder *builder, const char *name, int64_t channels, const char *refused)
{
    struct model_input input = {.name = name,
                                .kind = INPUT_ROWS,
                                .layout = LAYOUT_CHANNELS,
                                .columns = channels,
                                .like = PLAN_NONE,
                                .refused = refused,
                                .optional = true};
    return new_input(builder, (struct plan_input){.input = input, .fallback = PLAN_NONE}, PLAN_NONE);
}

static int input_like(struct plan_builder *builder, struct model_input input, int like, int fallback)
{
    if (builder->failed)
        return PLAN_NONE;
    int axis = plan_value_at(builder, like)->axis;
    input.like = builder->plan->axes[axis].input;
    input.layout = builder->plan->inputs[input.like].input.layout;
    return new_input(builder, (struct plan_input){.input = input, .fallback = fallback}, axis);
}

int plan_input_mask(struct plan_builder *builder, const char *name, int like)
{
    struct model_input input = {.name = name, .kind = INPUT_MASK, .columns = 1, .optional = true};
    return input_like(builder, input, like, PLAN_NONE);
}

int plan_input_rows_like(struct plan_builder *builder, const char *name, int64_t columns, int like, int fallback)
{
    struct model_input input = {
        .name = name, .kind = INPUT_ROWS, .columns = columns, .optional = fallback != PLAN_NONE};
    return input_like(builder, input, like, fallback);
}

int plan_input_beside(struct plan_builder *builder, struct model_input mask, int like)
{
    if (builder->failed)
        return PLAN_NONE;
    struct plan *plan = builder->plan;
    assert(plan->n_inputs < ENGINE_MAX_INPUTS);
    mask.like = plan->axes[plan_value_at(builder, like)->axis].input;
    mask.layout = plan->inputs[mask.like].input.layout;
    mask.optional = true;
    plan->inputs[plan->n_inputs] = (struct plan_input){.input = mask, .value = PLAN_NONE, .fallback = PLAN_NONE};
    return plan->n_inputs++;
}

void plan_call_layout(struct plan_builder *builder, int input_value)
{
    if (!builder->failed)
        builder->plan->inputs[builder->plan->axes[plan_value_at(builder, input_value)->axis].input].input.layout =
            LAYOUT_CALL;
}

void plan_pad(struct plan_builder *builder, int input_value, int64_t rows)
{
    if (!builder->failed)
        builder->plan->axes[plan_value_at(builder, input_value)->axis].padded_rows = rows;
}

void plan_pad_to_multiple(struct plan_builder *builder, int input_value, int64_t multiple)
{
    if (!builder->failed)
        builder->plan->axes[plan_value_at(builder, input_value)->axis].row_multiple = multiple;
}

void plan_require_multiple(struct plan_builder *builder, int input_value, int64_t multiple)
{
    for (int i = 0; !builder->failed && i < builder->plan->n_inputs; i++)
        if (builder->plan->inputs[i].value == input_value)
            builder->plan->inputs[i].input.multiple = multiple;
}

enum padding plan_choose_padding(struct plan_builder *builder, const char *class_name, enum padding asked,
                                 const enum padding *allowed)
{
    enum padding chosen = asked == PADDING_DEFAULT ? allowed[0] : asked;
    char can[80] = "";
    builder->plan->padding = chosen;
    for (size_t i = 0; allowed[i] != PADDING_DEFAULT; i++) {
        if (allowed[i] == chosen)
            return chosen;
        size_t length = strlen(can);
        snprintf(can + length, sizeof can - length, "%s%s", length ? " or " : "", padding_name(allowed[i]));
    }
    plan_fail(builder, "padding \"%s\": %s can have %s with these kwargs", padding_name(asked), class_name, can);
    return chosen;
}
