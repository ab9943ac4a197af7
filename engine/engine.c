/* The engine's public functions: opening devices, loading a model, checking items, running batches. */
#include "engine/engine.h"
#include "engine/devices.h"
#include "engine/families/family.h"
#include "engine/model.h"
#include "engine/plan/arithmetic.h"
#include "engine/plan/builder.h"
#include "engine/tensors.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FLOPS_SIZES 40

struct engine {
    struct devices *devices;
    struct error notice; /* empty if there is no notice */
    int64_t max_batch_tokens, max_batch_requests, max_slots;
    size_t image_arena_bytes;
};

struct model {
    struct engine *engine;
    struct plan *plan;
    struct placement placement;
    struct error notice;   /* empty if there is no notice */
    struct batch *batches; /* for each lane, the layout of its batch. info.n_lanes of these are open */
    char *architecture;
    char prefix[PLAN_PREFIX_BYTES]; /* prefix of the names in the file. Empty if there is none */
    struct model_input inputs[ENGINE_MAX_INPUTS];
    char **outputs;
    struct model_shape *shapes; /* the shape of each output. NULL if plan_counts_axes (plan.h) is false */
    struct model_info info;
    double item_flops[FLOPS_SIZES]; /* [i]: FLOPs of an item of 2^i rows, without the output layer */
    double wanted_flops;            /* FLOPs of the output layer for one requested row */
};

int engine_open(const struct engine_options *options, struct engine **engine, struct error *error)
{
    assert(options->max_batch_tokens >= 1 && options->max_batch_requests >= 1);
    struct engine *opened = calloc(1, sizeof *opened);
    if (!opened)
        return error_set(error, "out of memory while opening the engine");
    opened->max_batch_tokens = options->max_batch_tokens;
    opened->max_batch_requests = options->max_batch_requests;
    opened->max_slots = options->max_slots;
    opened->image_arena_bytes = options->image_arena_bytes;
    if (devices_open(options, &opened->devices, &opened->notice, error) != 0) {
        free(opened);
        return -1;
    }
    *engine = opened;
    return 0;
}

void engine_close(struct engine *engine)
{
    if (!engine)
        return;
    devices_close(engine->devices);
    free(engine);
}

const char *engine_device(const struct engine *engine)
{
    return devices_name(engine->devices);
}

const char *engine_notice(const struct engine *engine)
{
    return engine->notice.message[0] ? engine->notice.message : NULL;
}

const char *engine_cpu_notice(const struct engine *engine)
{
    const char *notice = devices_cpu_notice(engine->devices);
    return notice[0] ? notice : NULL;
}

bool engine_is_on_cpu(const struct engine *engine)
{
    return devices_are_cpu(engine->devices);
}

enum dtype engine_dtype(const struct engine *engine)
{
    return devices_dtype(engine->devices);
}

const char *engine_kernels(const struct engine *engine)
{
    return devices_kernels(engine->devices);
}

int engine_devices(const struct engine *engine, struct engine_device *devices, int room)
{
    return devices_states(engine->devices, devices, room);
}

struct engine_counts engine_counts(const struct engine *engine)
{
    return devices_counts(engine->devices);
}

/* ---- Loading ---- */

/* Returns the name of an output: "output", "attention.0", … or the name that the class sets. */
static char *output_name(const struct plan *plan, int output)
{
    char number[32];
    int attention = output - plan_attention_output(plan, 0);
    snprintf(number, sizeof number, "attention.%d", attention);
    if (attention >= 0)
        return strdup(plan->attention_name ? plan->attention_name : number);
    return strdup(plan->n_outputs > 0 ? plan->outputs[output].name : plan->output_name);
}

static int name_outputs(struct model *model, struct error *error)
{
    const struct plan *plan = model->plan;
    int count = plan_attention_output(plan, plan->n_attentions);
    model->outputs = calloc((size_t)count, sizeof *model->outputs);
    for (int i = 0; model->outputs && i < count; i++) {
        model->outputs[i] = output_name(plan, i);
        if (!model->outputs[i])
            break;
        model->info.n_outputs = i + 1;
    }
    model->info.outputs = (const char *const *)model->outputs;
    model->info.n_tensors = plan->n_outputs;
    return model->info.n_outputs == count ? 0 : error_set(error, "out of memory while loading a model");
}

static const struct plan_step *attention_step(const struct plan *plan, int attention)
{
    const struct plan_step *step = plan->steps;
    while ((step->operation != OP_ATTEND && step->operation != OP_ATTEND_CALL) || step->attend.index != attention)
        step++;
    return step;
}

/* The number of rows of an axis. -1 if it depends on the item. */
static int64_t free_rows(const struct plan *plan, int axis)
{
    int64_t rows;
    return plan_rows_are_constant(plan, axis, &rows) ? rows : -1;
}

static struct model_shape free_shape(const struct plan *plan, int output)
{
    struct model_shape shape = {0};
    int attention = output - plan_attention_output(plan, 0);
    if (attention >= 0) {
        const struct plan_step *step = attention_step(plan, attention);
        int64_t keys = free_rows(plan, plan->values[step->keys].axis);
        return (struct model_shape){3,
                                    {step->attend.heads, free_rows(plan, plan->values[step->x].axis),
                                     step->attend.key_room ? step->attend.key_room : keys}};
    }
    if (plan->n_outputs > 0) {
        shape.rank = tensors_free_shape(plan, output, shape.sizes);
        return shape;
    }
    if (!plan->vector)
        shape.sizes[shape.rank++] = free_rows(plan, plan->hidden_axis);
    shape.sizes[shape.rank++] = plan->output_columns;
    return shape;
}

/* The shapes of a module's outputs. Plans for which plan_counts_axes is false have none. */
static int shape_outputs(struct model *model, struct error *error)
{
    if (!plan_counts_axes(model->plan))
        return 0;
    model->shapes = calloc((size_t)model->info.n_outputs, sizeof *model->shapes);
    if (!model->shapes)
        return error_set(error, "out of memory while loading a model");
    for (int i = 0; i < model->info.n_outputs; i++)
        model->shapes[i] = free_shape(model->plan, i);
    model->info.shapes = model->shapes;
    return 0;
}

/* The index of the input that has the same rows as the output. */
static int sequence_input(const struct plan *plan)
{
    if (plan->hidden_axis == PLAN_NONE)
        return PLAN_NONE;
    const struct plan_axis *axis = &plan->axes[plan->hidden_axis];
    return axis->kind == AXIS_WANTED ? plan->axes[axis->wanted.of].input : axis->input;
}

static int64_t window_of(const struct plan *plan, const struct model_info *info)
{
    const struct model_input *input = info->sequence_input == PLAN_NONE ? NULL : &info->inputs[info->sequence_input];
    int64_t most = input && input->own_limit ? input->max_length : 0;
    return plan->window > 0 && (most == 0 || plan->window < most) ? plan->window : most;
}

static void fill_info(struct model *model, const struct model_config *config, int64_t parameters)
{
    const struct plan *plan = model->plan;
    const struct placement *placement = &model->placement;
    struct model_info *info = &model->info;
    for (int i = 0; i < plan->n_inputs; i++) {
        model->inputs[i] = plan->inputs[i].input;
        tensors_limit_length(plan, &model->inputs[i], i);
    }
    info->parameters = parameters;
    info->weights_bytes = placement->weights_bytes;
    info->arena_bytes = placement->arena_bytes;
    info->architecture = model->architecture;
    info->inputs = model->inputs;
    info->n_inputs = plan->n_inputs;
    info->gives_vector = plan->vector;
    info->vocabulary = plan->inputs[0].input.vocabulary;
    info->output_columns = plan->output_columns;
    info->hidden_columns = plan->hidden_columns;
    info->earlier_rows_stay = plan->resumes;
    info->n_slots = plan->n_slots;
    info->slot_bytes = plan->n_slots > 0 ? (size_t)plan->state_floats * sizeof(float) : 0;
    info->has_logits = plan->has_logits;
    info->is_causal = plan->has_logits && plan->causal;
    info->sequence_input = sequence_input(plan);
    info->window = window_of(plan, info);
    info->first_lane = placement->first_lane;
    info->n_devices = placement->n_replicas > 0 ? placement->n_replicas : 1;
    info->device = placement->device;
    info->is_on_cpu = placement->n_replicas == 0;
    info->dtype = placement->dtype;
    info->kernels = placement->kernels;
    info->prefix = model->prefix[0] ? model->prefix : NULL;
    info->notice = model->notice.message[0] ? model->notice.message : NULL;
    info->cpu_notice = placement->cpu_notice.message[0] ? placement->cpu_notice.message : NULL;
    info->batch_invariant = placement->batch_invariant;
    info->padding = padding_name(plan->padding);
    info->pooling = config->pooling;
    info->normalize = config->normalize;
    info->auto_truncate = config->auto_truncate;
}

static void build(const struct family_class *class, const struct model_config *config, struct plan_builder *builder)
{
    builder->ignore = config->ignore;
    class->build(builder, class->name, config);
}

/* Builds the plan without the data of the weights, and frees it. This way, a file that does not fit the class is
 * refused before its data is read. */
static int check_weights(const struct family_class *class, const struct model_config *config,
                         const struct weights *weights, struct error *error)
{
    struct plan_builder builder;
    struct plan *plan;
    if (plan_begin(&builder, weights, error) != 0)
        return -1;
    builder.without_data = true;
    build(class, config, &builder);
    if (plan_check(&builder, &plan) != 0)
        return -1;
    plan_free(plan);
    return 0;
}

/* Allocates a struct batch for each lane. */
static int open_lanes(struct model *model, struct error *error)
{
    int count = model->placement.n_lanes;
    model->batches = calloc((size_t)count, sizeof *model->batches);
    if (!model->batches)
        return error_set(error, "out of memory while loading a model");
    for (; model->info.n_lanes < count; model->info.n_lanes++)
        if (padder_open(model->plan, &model->batches[model->info.n_lanes], error) != 0)
            return -1;
    model->batches[0].shares = model->placement.n_replicas == 0; /* true on the CPU, which has one lane */
    return 0;
}

/* Estimates the FLOPs of items with 1, 2, 4, … rows, up to the first size beyond the longest item. For a module, the
 * rows of an item are those of its longest axis. */
static void count_flops(struct model *model)
{
    const struct plan *plan = model->plan;
    for (int size = 0; size < FLOPS_SIZES; size++) {
        int64_t rows = INT64_C(1) << size;
        bool beyond = size > 0 && rows / 2 > plan->max_rows;
        if (!beyond && plan_counts_axes(plan))
            rows = plan_side(plan, rows);
        for (int i = 0; !beyond && i < plan->n_steps; i++)
            if (plan->steps[i].operation != OP_GIVE_OUTPUT)
                model->item_flops[size] += (double)plan_step_flops(plan, &plan->steps[i], rows);
        if (beyond)
            model->item_flops[size] = 2 * model->item_flops[size - 1];
    }
    for (int i = 0; i < plan->n_steps; i++)
        if (plan->steps[i].operation == OP_GIVE_OUTPUT)
            model->wanted_flops += (double)plan_step_flops(plan, &plan->steps[i], PLAN_ROW_BLOCK) / PLAN_ROW_BLOCK;
}

/* Refuses a module's plan whose arena needs more memory than the machine has. A graph in config.json may request any
 * sizes. Allocating the arena would succeed even then, because its pages become resident only when batches use them. */
static int check_memory(const struct plan *plan, struct error *error)
{
    size_t bytes = (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
    if (!plan_counts_axes(plan) || plan->arena_bytes <= bytes)
        return 0;
    return error_set(
        error, "the model's activations need %zu bytes for batches of %lld rows; this machine has %zu bytes of memory",
        plan->arena_bytes, (long long)plan->max_rows, bytes);
}

int engine_load(struct engine *engine, const struct model_config *config, struct weights *weights,
                void (*progress)(void *context, double fraction), void *context, struct model **model,
                struct error *error)
{
    const struct family_class *class = family_find(config->architecture, error);
    return class ? model_load(engine, class, config, weights, progress, context, model, error) : -1;
}

int model_load(struct engine *engine, const struct family_class *class, const struct model_config *config,
               struct weights *weights, void (*progress)(void *context, double fraction), void *context,
               struct model **model, struct error *error)
{
    struct model *loaded = calloc(1, sizeof *loaded);
    if (!loaded)
        return error_set(error, "out of memory while loading a model");
    loaded->engine = engine;
    loaded->architecture = strdup(config->architecture);
    if (!loaded->architecture) {
        error_set(error, "out of memory while loading a model");
        goto fail;
    }
    struct plan_builder builder;
    if (check_weights(class, config, weights, error) != 0 || weights_read(weights, error) != 0 ||
        plan_begin(&builder, weights, error) != 0)
        goto fail;
    builder.progress = progress;
    builder.progress_context = context;
    builder.image_arena_bytes = engine->image_arena_bytes;
    builder.n_slots = engine->max_slots;
    build(class, config, &builder);
    if (plan_finish(&builder, engine->max_batch_tokens, engine->max_batch_requests, &loaded->plan) != 0)
        goto fail;
    memcpy(loaded->prefix, builder.prefix, sizeof loaded->prefix);
    if (check_memory(loaded->plan, error) != 0 || name_outputs(loaded, error) != 0 ||
        shape_outputs(loaded, error) != 0 ||
        placement_open(engine->devices, loaded->plan, &loaded->placement, &loaded->notice, error) != 0 ||
        open_lanes(loaded, error) != 0)
        goto fail;
    fill_info(loaded, config, builder.all_elements);
    count_flops(loaded);
    *model = loaded;
    return 0;
fail:
    model_close(loaded);
    return -1;
}

void model_close(struct model *model)
{
    if (!model)
        return;
    placement_close(&model->placement);
    for (int i = 0; i < model->info.n_lanes; i++)
        padder_free(model->plan, &model->batches[i]);
    free(model->batches);
    plan_free(model->plan);
    for (int i = 0; i < model->info.n_outputs; i++)
        free(model->outputs[i]);
    free(model->outputs);
    free(model->shapes);
    free(model->architecture);
    free(model);
}

const struct model_info *model_info(const struct model *model)
{
    return &model->info;
}

const struct plan *model_plan(const struct model *model)
{
    return model->plan;
}

/* ---- Items ---- */

static int check_ids(const char *name, int64_t vocabulary, const int32_t *ids, int64_t length, struct error *error)
{
    for (int64_t i = 0; i < length; i++)
        if (ids[i] < 0 || ids[i] >= vocabulary)
            return error_set(error, "%s[%lld] is %ld; the model's ids are 0 to %lld", name, (long long)i, (long)ids[i],
                             (long long)vocabulary - 1);
    return 0;
}

/* Checks the number of sequences of a call. All inputs must have the same number, and none may have more rows than fit
 * in the arena. */
static int check_width(const struct model *model, const struct engine_item *item, int index, struct error *error)
{
    const char *name = model->inputs[index].name;
    long long width = padder_width(model->plan, item, index), first = padder_width(model->plan, item, 0);
    if (width < 1)
        return error_set(error, "input \"%s\" is empty; expected (length, batch, features)", name);
    if (width != first)
        return error_set(error, "input \"%s\" has batch size %lld; expected %lld, the batch size of \"%s\"", name,
                         width, first, model->inputs[0].name);
    long long most = model->plan->max_rows, length = padder_length(model->plan, item, index) / width;
    if (length > most / width)
        return error_set(error,
                         "input \"%s\" has %lld rows and batch size %lld; this server accepts at most %lld rows in all "
                         "(--max-batch-tokens)",
                         name, length, width, most);
    return 0;
}

/* Checks an attention mask. There may be one mask for the whole item, or one for each head of each of its sequences. */
static int check_attention_mask(const struct model *model, const struct engine_item *item, int index,
                                struct error *error)
{
    const struct model_input *input = &model->inputs[index];
    long long columns = input->columns ? input->columns : padder_length(model->plan, item, input->columns_like);
    long long width = padder_width(model->plan, item, input->like);
    long long length = padder_length(model->plan, item, input->like) / width, masks = input->masks_per_sequence * width;
    long long found_masks = item->inputs[index].n_masks, found_length = item->inputs[index].length;
    long long found_columns = item->inputs[index].columns;
    if (item->inputs[index].floats && !input->accepts_floats)
        return error_set(error, "input \"%s\" contains floats; expected booleans", input->name);
    bool all_rows = found_length == length || (input->accepts_one_row && found_length == 1);
    if (!all_rows || found_columns != columns)
        return error_set(
            error,
            "input \"%s\" has %lld rows of %lld elements; expected %lld rows, as many as \"%s\", of %lld elements",
            input->name, found_length, found_columns, length, model->inputs[input->like].name, columns);
    if (found_masks != 0 && found_masks != masks)
        return error_set(error, "input \"%s\" has %lld masks; expected %s%lld", input->name, found_masks,
                         masks ? "1 or " : "1, not ", masks ? masks : found_masks);
    return 0;
}

static int check_image(const struct model *model, const struct engine_item *item, int index, struct error *error)
{
    const char *name = model->inputs[index].name;
    long long height = item->inputs[index].length, width = item->inputs[index].width, most = model->plan->max_rows;
    if (height < 1 || width < 1)
        return error_set(error, "input \"%s\" is empty; expected at least one pixel", name);
    if (height > most / width)
        return error_set(error,
                         "input \"%s\" is an image of %lld x %lld pixels; this server accepts at most %lld pixels "
                         "(--max-batch-tokens)",
                         name, height, width, most);
    return 0;
}

/* Checks an image before one convolution. With the zeros around it, the image must be at least as large as the window.
 * If the class does not allow the number of pixels to change, the result must have as many pixels as the image. The
 * result must also fit in the arena. */
static int check_convolution(const struct model *model, const struct engine_item *item, const struct plan_step *step,
                             struct error *error)
{
    const struct plan *plan = model->plan;
    int from = plan->values[step->x].axis, to = plan->values[step->y].axis, input = plan->axes[from].input;
    struct plan_image image = padder_image(plan, item, input);
    const char *name = model->inputs[input].name;
    long long pixels = image.height * image.width, height = image.height, width = image.width;
    if (pixels == 0)
        return 0;
    if (!plan_window_fits(&step->convolve_image.window, image))
        return error_set(error,
                         "input \"%s\" is an image of %lld x %lld pixels, which is too small, even with padding, for "
                         "the model's kernel of %lld x %lld",
                         name, height, width, (long long)step->convolve_image.window.size[0],
                         (long long)step->convolve_image.window.size[1]);
    struct plan_image made = plan_convolved(&step->convolve_image.window, image);
    if (to == from && (pixels % made.width != 0 || pixels / made.width != made.height))
        return error_set(error,
                         "input \"%s\" is an image of %lld x %lld pixels, which the model's stride and padding change "
                         "to %lld x %lld; the class needs the same number of pixels",
                         name, height, width, (long long)made.height, (long long)made.width);
    if (made.height > plan->max_rows / made.width)
        return error_set(error,
                         "input \"%s\" is an image of %lld x %lld pixels, which the model's stride and padding change "
                         "to %lld x %lld; this server accepts at most %lld pixels (--max-batch-tokens)",
                         name, height, width, (long long)made.height, (long long)made.width, (long long)plan->max_rows);
    return 0;
}

/* Checks the sizes of images and of the results of convolutions. */
static int check_convolutions(const struct model *model, const struct engine_item *item, struct error *error)
{
    const struct plan *plan = model->plan;
    for (int i = 0; i < plan->n_steps; i++)
        if (plan_convolves_input(&plan->steps[i]) && check_convolution(model, item, &plan->steps[i], error) != 0)
            return -1;
    if (model->inputs[0].layout != LAYOUT_IMAGE)
        return 0;
    long long tokens = model_item_tokens(model, item), most = plan->max_rows;
    if (tokens > most)
        return error_set(error,
                         "the item has %lld pixels to attend to, those of the image and its context; this server "
                         "accepts at most %lld (--max-batch-tokens)",
                         tokens, most);
    return 0;
}

/* Writes the message that an input is too long for the class, or for the arena. The item contains this input, or the
 * fallback that replaces it. */
static int refuse_long(const struct model *model, const struct engine_item *item, int index, long long length,
                       struct error *error)
{
    const struct model_input *input = &model->inputs[index];
    int fallback = item->inputs[index].data ? PLAN_NONE : input->fallback;
    return error_set(error, "input \"%s\"%s%s%s has %lld rows; %s accepts at most %lld%s", input->name,
                     fallback < 0 ? "" : " (missing, replaced by \"", fallback < 0 ? "" : model->inputs[fallback].name,
                     fallback < 0 ? "" : "\")", length, input->own_limit ? "the model" : "this server",
                     (long long)input->max_length, input->own_limit ? "" : " (--max-batch-tokens)");
}

/* Whether the rows of the input may come in several batches. Call it only if the plan has slots. */
static bool is_of_sequence(const struct model *model, int index)
{
    return index == model->plan->axes[model->plan->resumed_axis].input;
}

/* Whether the item contains later rows of a sequence. The first rows, and the other inputs of the sequence, were in an
 * earlier batch. */
static bool is_later_part(const struct engine_item *item)
{
    return item->slot > 0 && item->first > 0;
}

static int check_length(const struct model *model, const struct engine_item *item, int index, struct error *error)
{
    const struct model_input *input = &model->inputs[index];
    if (input->layout == LAYOUT_IMAGE)
        return check_image(model, item, index, error);
    if (input->layout == LAYOUT_TENSOR)
        return tensors_check_input(model->plan, item, index, error);
    if (!padder_data(model->plan, item, index) && plan_may_lack(model->plan, index))
        return 0;
    if (input->layout == LAYOUT_CALL && check_width(model, item, index, error) != 0)
        return -1;
    long long length = padder_length(model->plan, item, index) / padder_width(model->plan, item, index);
    if (input->like >= 0) {
        long long expected =
            padder_length(model->plan, item, input->like) / padder_width(model->plan, item, input->like);
        return length == expected ? 0
                                  : error_set(error, "input \"%s\" has %lld rows; expected %lld, as many as \"%s\"",
                                              input->name, length, expected, model->inputs[input->like].name);
    }
    if (length < 1)
        return error_set(error, "input \"%s\" is empty; expected at least one row", input->name);
    if (length > input->max_length)
        return refuse_long(model, item, index, length, error);
    if (item->slot > 0 && is_of_sequence(model, index))
        return 0;
    if (length < input->min_length)
        return error_set(error, "input \"%s\" has %lld rows; %sthe model accepts exactly %lld", input->name, length,
                         model->plan->padding == PADDING_EXACT ? "with padding \"exact\" " : "",
                         (long long)input->min_length);
    long long rows = padder_axis_rows(model->plan, item, model->plan->values[model->plan->inputs[index].value].axis);
    if (rows % input->multiple != 0)
        return error_set(error, "input \"%s\" has %lld rows (%lld with padding); the model accepts multiples of %lld",
                         input->name, length, rows, (long long)input->multiple);
    return 0;
}

/* Checks the slot of an item, the number of its rows, and that it has no inputs or requests that are not allowed with a
 * slot. */
static int check_part(const struct model *model, const struct engine_item *item, struct error *error)
{
    const struct plan *plan = model->plan;
    if (item->slot == 0)
        return 0;
    if (item->slot < 0 || item->slot > plan->n_slots)
        return error_set(error, "slot is %lld; expected 0 to %lld", (long long)item->slot, (long long)plan->n_slots);
    if (item->first < 0)
        return error_set(error, "first row is %lld; expected at least 0", (long long)item->first);
    for (int i = 0; i < model->info.n_inputs; i++) {
        const struct model_input *input = &model->inputs[i];
        bool refused = is_later_part(item) || (input->like >= 0 && is_of_sequence(model, input->like));
        if (!is_of_sequence(model, i) && refused && item->inputs[i].data)
            return error_set(error, "input \"%s\" is not accepted for a sequence that comes in parts", input->name);
    }
    int sequence = plan->axes[plan->resumed_axis].input;
    const struct model_input *input = &model->inputs[sequence];
    int64_t length = item->inputs[sequence].length;
    if (input->own_limit && (length < 0 || length > input->max_length - item->first))
        return error_set(error,
                         "input \"%s\" has %lld rows after %lld earlier rows; the model accepts at most %lld in all",
                         input->name, (long long)length, (long long)item->first, (long long)input->max_length);
    if (item->hidden || item->pooled || item->n_extras > 0)
        return error_set(error, "a sequence that comes in parts returns only rows of the output");
    return 0;
}

/* If an input is absent, the rows of its fallback replace it. So the ids of the fallback must also fit the vocabulary
 * of the absent input. */
static int check_input(const struct model *model, const struct engine_item *item, int index, struct error *error)
{
    const struct model_input *input = &model->inputs[index];
    const void *data = padder_data(model->plan, item, index);
    if (is_later_part(item) && !is_of_sequence(model, index))
        return 0;
    if (!data && !input->optional)
        return error_set(error, "input \"%s\" is missing", input->name);
    if (item->inputs[index].data && input->refused)
        return error_set(error, "input \"%s\" is not accepted: %s", input->name, input->refused);
    if (input->kind == INPUT_ATTENTION_MASK && data)
        return check_attention_mask(model, item, index, error);
    if (model->plan->inputs[index].value == PLAN_NONE)
        return 0;
    if (check_length(model, item, index, error) != 0)
        return -1;
    return data && input->kind == INPUT_IDS
               ? check_ids(input->name, input->vocabulary, data, padder_length(model->plan, item, index), error)
               : 0;
}

/* Checks that the item requests the whole output, if the output is an image or the model returns tensors. */
static int check_whole_output(const struct engine_item *item, const char *gives, struct error *error)
{
    if (item->hidden || item->pooled || item->rows || item->softmax || item->top_k != 0 || item->targets)
        return error_set(error, "the model %s; only the whole output can be requested", gives);
    return 0;
}

static int check_output(const struct model *model, const struct engine_item *item, struct error *error)
{
    if (model->info.n_tensors > 0)
        return check_whole_output(item, "returns tensors", error);
    if (model->inputs[0].layout == LAYOUT_IMAGE && check_whole_output(item, "returns an image", error) != 0)
        return -1;
    if (!engine_item_wants_rows(item))
        return 0;
    int64_t length = model_hidden_rows(model, item), columns = model->info.output_columns;
    if (item->top_k < 0 || item->top_k > columns)
        return error_set(error, "top_k is %lld; expected 1 to %lld", (long long)item->top_k, (long long)columns);
    if (item->n_rows < 0 || item->n_rows > length || (!item->rows && item->n_rows != length))
        return error_set(error, "%lld rows of the output are requested; the output has %lld", (long long)item->n_rows,
                         (long long)length);
    for (int64_t i = 0; item->rows && i < item->n_rows; i++)
        if (item->rows[i] < 0 || item->rows[i] >= length)
            return error_set(error, "positions[%lld] is %ld; the input has positions 0 to %lld", (long long)i,
                             (long)item->rows[i], (long long)length - 1);
    for (int64_t i = 0; item->targets && i < item->n_rows; i++)
        if (item->targets[i] < -1 || item->targets[i] >= columns)
            return error_set(error, "position %lld has the target %ld; the output has logits for ids 0 to %lld",
                             (long long)(item->rows ? item->rows[i] : i), (long)item->targets[i],
                             (long long)columns - 1);
    return 0;
}

static int check_extra(const struct model *model, const struct engine_item *item, int index, struct error *error)
{
    int output = item->extras[index].output;
    if (output < 1 || output >= model->info.n_outputs)
        return error_set(error, "output %d is requested; the model has %d outputs", output, model->info.n_outputs);
    for (int i = 0; i < index; i++)
        if (item->extras[i].output == output)
            return error_set(error, "output \"%s\" is requested twice", model->info.outputs[output]);
    return 0;
}

int model_check(const struct model *model, const struct engine_item *item, struct error *error)
{
    if (check_part(model, item, error) != 0)
        return -1;
    for (int i = 0; i < model->info.n_inputs; i++)
        if (check_input(model, item, i, error) != 0)
            return -1;
    if (plan_counts_axes(model->plan) && tensors_check_item(model->plan, item, error) != 0)
        return -1;
    if (tensors_check_limits(model->plan, item, error) != 0)
        return -1;
    if (check_convolutions(model, item, error) != 0)
        return -1;
    for (int i = 0; i < item->n_extras; i++)
        if (check_extra(model, item, i, error) != 0)
            return -1;
    return check_output(model, item, error);
}

int64_t model_hidden_rows(const struct model *model, const struct engine_item *item)
{
    const struct plan *plan = model->plan;
    int64_t rows = plan->hidden_axis == PLAN_NONE ? 0 : padder_own_rows(plan, item, plan->hidden_axis);
    return rows > 0 ? rows : 0;
}

/* The shape of the class's own output. It is (length, columns) or (length, sizes…). For a call it is (length, width,
 * columns), and for an image (columns, height, width). */
static int own_output_shape(const struct model *model, const struct engine_item *item, int64_t *shape)
{
    const struct plan *plan = model->plan;
    int input = plan->axes[plan->hidden_axis].input, rank = 0;
    enum input_layout layout = input == PLAN_NONE ? LAYOUT_SEQUENCE : plan->inputs[input].input.layout;
    if (layout == LAYOUT_IMAGE) {
        struct plan_image image = padder_axis_image(plan, item, plan->hidden_axis);
        shape[rank++] = plan->output_columns;
        shape[rank++] = image.height;
        shape[rank++] = image.width;
        return rank;
    }
    int64_t width = layout == LAYOUT_CALL ? padder_width(plan, item, input) : 1;
    if (!plan->vector)
        shape[rank++] = model_hidden_rows(model, item) / width;
    if (layout == LAYOUT_CALL)
        shape[rank++] = width;
    if (plan->n_output_sizes == 0)
        shape[rank++] = plan->output_columns;
    for (int i = 0; i < plan->n_output_sizes; i++)
        shape[rank++] = plan->output_sizes[i];
    return rank;
}

int model_output_shape(const struct model *model, const struct engine_item *item, int output, int64_t *shape)
{
    const struct plan *plan = model->plan;
    assert(output >= 0 && output < model->info.n_outputs);
    if (output < plan->n_outputs)
        return tensors_output_shape(plan, item, output, shape);
    if (output == 0)
        return own_output_shape(model, item, shape);
    const struct plan_step *step = attention_step(plan, output - plan_attention_output(plan, 0));
    int axis = plan->values[step->x].axis, input = plan->axes[axis].input;
    int64_t width = input == PLAN_NONE ? 1 : padder_width(plan, item, input);
    int64_t keys = padder_axis_rows(plan, item, plan->values[step->keys].axis) / width;
    shape[0] = step->operation == OP_ATTEND_CALL ? width : step->attend.heads;
    shape[1] = padder_own_rows(plan, item, axis) / width;
    shape[2] = step->attend.key_room ? step->attend.key_room : keys;
    return 3;
}

int64_t model_item_tokens(const struct model *model, const struct engine_item *item)
{
    const struct plan *plan = model->plan;
    int64_t tokens = 1;
    int longest;
    if (plan_counts_axes(plan))
        return most(1, padder_item_rows(plan, item, &longest));
    for (int i = 0; i < model->info.n_inputs; i++) {
        int value = plan->inputs[i].value;
        int64_t rows = value == PLAN_NONE ? 0 : padder_axis_rows(plan, item, plan->values[value].axis);
        tokens = rows > tokens ? rows : tokens;
    }
    for (int i = 0; i < plan->n_axes; i++) {
        enum plan_axis_kind kind = plan->axes[i].kind;
        if (kind != AXIS_WINDOW && kind != AXIS_JOINED && kind != AXIS_PADDED)
            continue;
        int64_t rows = padder_axis_rows(plan, item, i);
        tokens = rows > tokens ? rows : tokens;
    }
    return tokens;
}

double model_item_flops(const struct model *model, const struct engine_item *item)
{
    int64_t rows = model_item_tokens(model, item), wanted = engine_item_wants_rows(item) ? item->n_rows : 0;
    int size = 0;
    while (size < FLOPS_SIZES - 2 && rows >> (size + 1) > 0)
        size++;
    double least = ldexp(1, size), part = ((double)rows - least) / least;
    return model->item_flops[size] + part * (model->item_flops[size + 1] - model->item_flops[size]) +
           (double)wanted * model->wanted_flops;
}

int model_enter(struct model *model, int lane, struct error *error)
{
    return placement_enter(&model->placement, lane, error);
}

int model_run(struct model *model, int lane, const struct engine_item *items, int64_t n_items, struct error *error)
{
    assert(lane >= 0 && lane < model->info.n_lanes && n_items >= 1 && n_items <= model->plan->max_items);
    struct batch *batch = &model->batches[lane];
    padder_lay_out(model->plan, batch, items, n_items);
    return placement_run(&model->placement, lane, batch, error);
}

void model_time_steps(struct model *model, double *seconds)
{
    model->batches[0].seconds = seconds;
}

uint64_t model_ready_lanes(const struct model *model)
{
    return placement_ready_lanes(&model->placement);
}
