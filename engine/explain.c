/* explain: prints the plan as a table, for --explain. Also describes single steps, for callers that show the table in
 * another form. */
#include "engine/backend.h"
#include "engine/cpu/elements.h"
#include "engine/engine.h"
#include "engine/model.h"
#include "engine/plan/operations.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* The plan to explain, for one item of `rows` rows. */
struct explanation {
    const struct plan *plan;
    int64_t rows;
    bool bf16; /* whether products on the CPU are computed in bf16 */
    FILE *out;
};

static int64_t value_bytes(const struct explanation *e, int value)
{
    return plan_value_rows(e->plan, value, e->rows) * e->plan->values[value].columns *
           element_bytes(cpu_value_element(e->plan, e->bf16, value));
}

/* Bytes of the values and weights that a step reads and writes. */
static int64_t step_bytes(const struct explanation *e, const struct plan_step *step)
{
    const struct plan *plan = e->plan;
    int64_t bytes = step->y == PLAN_NONE ? 0 : value_bytes(e, step->y);
    for (int i = 0; i < PLAN_READS; i++)
        if (step->reads[i] != PLAN_NONE)
            bytes += value_bytes(e, step->reads[i]);
    for (int i = 0; i < PLAN_WEIGHTS; i++)
        if (step->weights[i] != PLAN_NONE)
            bytes += plan->weights[step->weights[i]].rows * plan->weights[step->weights[i]].columns *
                     element_bytes(cpu_weight_element(step, e->bf16, step->weights[i]));
    return bytes;
}

static void print_value(const struct explanation *e, const char *label, int value)
{
    if (value != PLAN_NONE)
        fprintf(e->out, " %s v%d (%" PRId64 ", %" PRId64 ")%s", label, value, plan_value_rows(e->plan, value, e->rows),
                e->plan->values[value].columns,
                cpu_value_element(e->plan, e->bf16, value) == ELEMENT_BF16 ? " bf16" : "");
}

static void print_weight(const struct explanation *e, const struct plan_step *step, const char *label, int weight)
{
    const struct plan_weight *of = weight == PLAN_NONE ? NULL : &e->plan->weights[weight];
    if (of)
        fprintf(e->out, "%s %s (%" PRId64 ", %" PRId64 ")%s", label, of->name, of->rows, of->columns,
                cpu_weight_element(step, e->bf16, weight) == ELEMENT_BF16 ? " bf16" : "");
}

/* The rows of the item. For an image, these are the pixels of the largest square image of at most `tokens` pixels. For
 * a module, the function returns the value of its free sizes. Otherwise it returns `tokens`. */
static int64_t explained_rows(const struct plan *plan, int64_t tokens)
{
    if (plan_counts_axes(plan))
        return plan_side(plan, tokens);
    int64_t side = (int64_t)sqrt((double)tokens);
    return plan->inputs[0].input.layout == LAYOUT_IMAGE ? side * side : tokens;
}

static void print_step(const struct explanation *e, int index)
{
    const struct plan *plan = e->plan;
    const struct plan_step *step = &plan->steps[index];
    const struct plan_operation *operation = &plan_operations[step->operation];
    FILE *out = e->out;
    fprintf(out, "%4d %-16s %14" PRId64 " %13" PRId64 " ", index, operation->name, plan_step_flops(plan, step, e->rows),
            step_bytes(e, step));
    print_value(e, "x", step->x);
    print_value(e, "keys", step->keys);
    print_value(e, "values", step->values);
    print_weight(e, step, "", step->weight);
    if (step->bias != PLAN_NONE)
        fprintf(out, " %s %s", step->space == PLAN_NONE ? "+" : "z", plan->weights[step->bias].name);
    operation->print(plan, step, out);
    print_weight(e, step, ",", step->second_weight);
    if (step->second_bias != PLAN_NONE)
        fprintf(out, " + %s", plan->weights[step->second_bias].name);
    print_value(e, operation->adds_residual ? "+ residual" : "z", step->z);
    print_value(e, "->", step->y);
    if (step->only.axis != PLAN_NONE && step->only.most == INT64_MAX)
        fprintf(out, ", items of at least %" PRId64 " rows", step->only.least);
    else if (step->only.axis != PLAN_NONE)
        fprintf(out, ", items of at most %" PRId64 " rows", step->only.most);
    fputc('\n', out);
}

/* Prints the changes that the passes made, with the FLOPs before and after. Returns the FLOPs saved. Decisions for
 * items that request only one row do not count. */
static int64_t print_decisions(const struct explanation *e)
{
    const struct plan *plan = e->plan;
    int64_t saved = 0, rows = e->rows;
    FILE *out = e->out;
    for (int i = 0; i < plan->n_decisions; i++) {
        const struct plan_decision *decision = &plan->decisions[i];
        int64_t before = decision->before.item + decision->before.row * rows;
        int64_t after = decision->after.item + decision->after.row * rows;
        bool taken = rows >= decision->least_rows;
        fprintf(out, "%s: FLOPs %" PRId64 " -> %" PRId64 "%s", decision->what, before, after,
                taken ? "" : ", not applied");
        int64_t spared = 0;
        for (int v = 0; v < decision->n_spared; v++)
            spared += 2 * value_bytes(e, decision->spared[v]); /* the value would be written once and read once */
        if (spared > 0)
            fprintf(out, ", %" PRId64 " bytes less to write and read", spared);
        if (decision->least_rows == INT64_MAX)
            fprintf(out, ": never fewer FLOPs\n");
        else if (decision->least_rows > 1)
            fprintf(out, "%s from %" PRId64 " rows on\n", taken ? ", applied" : ": fewer FLOPs", decision->least_rows);
        else
            fputc('\n', out);
        saved += taken && !decision->one_row ? before - after : 0;
    }
    return saved;
}

/* The value from which the first output is computed. */
static int output_value(const struct plan *plan)
{
    int step = plan->n_steps - 1;
    while (plan->steps[step].operation == OP_GIVE_TENSOR && plan->steps[step].give_tensor.output > 0 && step > 0)
        step--;
    return plan->steps[step].x;
}

/* Bytes of an item of `rows` rows in binary: those of the required inputs, and of the first output. */
static int64_t request_bytes(const struct model *model, int64_t rows)
{
    const struct plan *plan = model_plan(model);
    const struct model_info *info = model_info(model);
    int output = output_value(plan);
    int64_t columns = plan->n_outputs > 0 ? plan->values[output].columns : info->output_columns;
    int64_t elements = plan_value_rows(plan, output, rows) * columns;
    for (int i = 0; i < plan->n_inputs; i++)
        if (plan->inputs[i].value != PLAN_NONE && !info->inputs[i].optional)
            elements += plan_value_rows(plan, plan->inputs[i].value, rows) * info->inputs[i].columns;
    return elements * (int64_t)sizeof(float);
}

/* Prints a shape of sizes, with the batch first. */
static void print_sizes(const struct explanation *e, int rank, const int *sizes)
{
    char text[120];
    fprintf(e->out, "(batch");
    for (int d = 0; d < rank; d++)
        fprintf(e->out, ", %s", plan_size_text(e->plan, sizes[d], text, sizeof text));
    fprintf(e->out, ")\n");
}

/* Prints the results of a module's graph, with their sizes as formulas. */
static void print_nodes(const struct explanation *e)
{
    char text[120];
    for (int i = 0; i < e->plan->n_nodes; i++) {
        const struct plan_node *node = &e->plan->nodes[i];
        fprintf(e->out, "node %s: %s (", node->name, node->operation);
        for (int d = 0; d < node->rank; d++) {
            const char *size = plan_size_text(e->plan, node->dimensions[d].size, text, sizeof text);
            bool batched = node->dimensions[d].batched, inner = node->dimensions[d].is_inner, simple;
            simple = !strpbrk(size, " /%");
            fputs(d > 0 ? ", " : "", e->out);
            if (!batched)
                fputs(size, e->out);
            else if (strcmp(size, "1") == 0)
                fputs("batch", e->out);
            else
                fprintf(e->out, "%s%s%s%s%s", inner ? "" : "batch*", simple ? "" : "(", size, simple ? "" : ")",
                        inner ? "*batch" : "");
        }
        fprintf(e->out, ")\n");
    }
}

/* Prints the free sizes of the item that is explained. */
static void print_free_sizes(const struct explanation *e)
{
    const char *before = "one item";
    for (int i = 0; i < e->plan->n_factors; i++) {
        const struct plan_factor *factor = &e->plan->factors[i];
        if (factor->kind != FACTOR_FREE || factor->free.input == PLAN_NONE)
            continue;
        int64_t value = e->rows < factor->free.least  ? factor->free.least
                        : e->rows > factor->free.most ? factor->free.most
                                                      : e->rows;
        fprintf(e->out, "%s, %s %" PRId64, before, factor->free.name, value);
        before = "";
    }
    fprintf(e->out, "%s\n", before);
}

static void print_tensor_input(const struct explanation *e, int index)
{
    const struct plan_input *input = &e->plan->inputs[index];
    fprintf(e->out, "input %s: v%d, %s ", input->input.name, input->value,
            input->input.kind == INPUT_ROWS  ? "floats"
            : input->input.kind == INPUT_IDS ? "ids"
                                             : "a mask");
    print_sizes(e, input->input.rank, input->sizes);
}

static void print_outputs(const struct explanation *e)
{
    for (int i = 0; i < e->plan->n_outputs; i++) {
        fprintf(e->out, "output %s: ", e->plan->outputs[i].name);
        print_sizes(e, e->plan->outputs[i].rank, e->plan->outputs[i].sizes);
    }
}

static void print_inputs(const struct explanation *e, const struct model_info *info)
{
    const struct plan *plan = e->plan;
    for (int i = 0; i < plan->n_inputs; i++)
        if (plan->inputs[i].value == PLAN_NONE)
            fprintf(e->out, "input %s: %s\n", plan->inputs[i].input.name,
                    plan->inputs[i].input.kind == INPUT_IGNORED ? "ignored" : "an attention mask");
        else if (plan->inputs[i].input.layout == LAYOUT_TENSOR)
            print_tensor_input(e, i);
        else
            fprintf(e->out, "input %s: v%d, %s, %" PRId64 " to %" PRId64 " rows%s\n", plan->inputs[i].input.name,
                    plan->inputs[i].value, plan->values[plan->inputs[i].value].ids ? "ids" : "floats",
                    info->inputs[i].min_length, info->inputs[i].max_length,
                    plan_may_lack(plan, i) ? ", absent in this item" : "");
}

/* Prints the element types if products are not in float32. */
static void print_elements(const struct explanation *e, const struct model_info *info)
{
    if (e->bf16)
        fprintf(e->out, "elements are float32 unless marked bf16; in the arena each occupies 4 bytes\n");
    else if (info->dtype != DTYPE_F32)
        fprintf(e->out, "bytes are counted in float32, although %s computes in %s\n", info->device,
                dtype_name(info->dtype));
}

/* Prints what a new token costs when the model generates text, and why. */
static void print_generation(const struct explanation *e)
{
    const struct plan *plan = e->plan;
    int64_t slot_bytes = plan->state_floats * (int64_t)sizeof(float);
    if (plan->resumes) {
        fprintf(e->out,
                "a sequence may come in parts: a new row costs the same after any number of rows. A slot, the state of "
                "one sequence, has %" PRId64 " bytes, and %" PRId64 " slots have %" PRId64 " bytes\n",
                slot_bytes, plan->n_slots, plan->n_slots * slot_bytes);
    } else if (plan->causal && plan->unresumed != PLAN_NONE) {
        const struct plan_step *step = &plan->steps[plan->unresumed];
        fprintf(e->out, "each new token runs the whole sequence again: step %d, %s%s%s, needs all positions at once\n",
                plan->unresumed, plan_operations[step->operation].name, step->weight == PLAN_NONE ? "" : " ",
                step->weight == PLAN_NONE ? "" : plan->weights[step->weight].name);
    } else if (plan->causal) {
        fprintf(e->out, "each new token runs the whole sequence again: the model's rows cannot come in parts\n");
    }
}

void model_explain(const struct model *model, int64_t tokens, FILE *out)
{
    const struct plan *plan = model_plan(model);
    const struct model_info *info = model_info(model);
    struct explanation e = {.plan = plan, .rows = explained_rows(plan, tokens), .out = out};
    int64_t flops = 0;
    e.bf16 = info->is_on_cpu && info->dtype == DTYPE_BF16;
    fprintf(out, "%s, padding %s, %" PRId64 " parameters; ", info->architecture, info->padding, info->parameters);
    if (plan_counts_axes(plan))
        print_free_sizes(&e);
    else
        fprintf(out, "one item of %" PRId64 " rows\n", e.rows);
    print_inputs(&e, info);
    print_outputs(&e);
    print_nodes(&e);
    fprintf(out, "step operation                  FLOPs         bytes  shapes\n");
    for (int i = 0; i < plan->n_steps; i++) {
        print_step(&e, i);
        flops += plan_step_flops(plan, &plan->steps[i], e.rows);
    }
    print_elements(&e, info);
    int64_t saved = print_decisions(&e);
    print_generation(&e);
    fprintf(out, "flops_before %" PRId64 "\nflops %" PRId64 "\n", flops + saved, flops);
    fprintf(out, "request_bytes %" PRId64 "\nweights_bytes %zu\narena_bytes %zu\n", request_bytes(model, e.rows),
            info->weights_bytes, info->arena_bytes);
}

/* ---- Single steps ---- */

int model_n_steps(const struct model *model)
{
    return model_plan(model)->n_steps;
}

int64_t model_explained_rows(const struct model *model, int64_t tokens)
{
    return explained_rows(model_plan(model), tokens);
}

static struct model_step_value described_value(const struct explanation *e, const char *role, int value)
{
    if (value == PLAN_NONE)
        return (struct model_step_value){.role = role, .value = -1};
    return (struct model_step_value){role, value, plan_value_rows(e->plan, value, e->rows),
                                     e->plan->values[value].columns};
}

/* Sets step->settings to what the operation prints, without the separators in front. */
static void describe_settings(const struct plan *plan, const struct plan_step *of, struct model_step *step)
{
    char text[sizeof step->settings] = "";
    FILE *out = fmemopen(text, sizeof text - 1, "w");
    if (!out)
        return;
    plan_operations[of->operation].print(plan, of, out);
    fclose(out);
    snprintf(step->settings, sizeof step->settings, "%s", text + strspn(text, ", "));
}

void model_step_describe(const struct model *model, int64_t rows, int index, struct model_step *step)
{
    static const char *const roles[] = {"x", "z", "keys", "values"}; /* the roles of the elements of plan_step.reads */
    _Static_assert(sizeof roles / sizeof *roles == PLAN_READS, "each operand has a role");
    _Static_assert(sizeof step->weights / sizeof *step->weights == PLAN_WEIGHTS, "the struct has room for each weight");
    const struct plan *plan = model_plan(model);
    const struct plan_step *of = &plan->steps[index];
    const struct model_info *info = model_info(model);
    const struct explanation e = {
        .plan = plan, .rows = rows, .bf16 = info->is_on_cpu && info->dtype == DTYPE_BF16, .out = NULL};
    *step = (struct model_step){
        .operation = plan_operations[of->operation].name,
        .formula = plan_operations[of->operation].formula,
        .flops = plan_step_flops(plan, of, rows),
        .bytes = step_bytes(&e, of),
        .result = described_value(&e, "y", of->y),
    };
    step->runs = of->only.axis == PLAN_NONE || step->flops > 0;
    for (int i = 0; i < PLAN_READS; i++)
        if (of->reads[i] != PLAN_NONE)
            step->reads[step->n_reads++] = described_value(&e, roles[i], of->reads[i]);
    for (int i = 0; i < PLAN_WEIGHTS; i++)
        if (of->weights[i] != PLAN_NONE) {
            const struct plan_weight *weight = &plan->weights[of->weights[i]];
            step->weights[step->n_weights++] = (struct model_step_weight){weight->name, weight->rows, weight->columns};
        }
    describe_settings(plan, of, step);
}
