#include "server/dialects/v2/plan.h"

#include "server/dialects/v2/model.h"
#include "server/dialects/v2/query.h"

#include <inttypes.h>

#define STEP_BYTES 1200 /* estimated number of bytes of JSON for a step */

static void write_value(struct writer *writer, const struct model_step_value *value)
{
    writer_format(writer, "{\"role\":\"%s\",\"value\":%d,\"shape\":[%" PRId64 ",%" PRId64 "]}", value->role,
                  value->value, value->rows, value->columns);
}

static void write_operands(struct writer *writer, const struct model_step *step)
{
    writer_text(writer, ",\"reads\":[");
    for (int i = 0; i < step->n_reads; i++) {
        writer_text(writer, i > 0 ? "," : "");
        write_value(writer, &step->reads[i]);
    }
    writer_text(writer, "],\"weights\":[");
    for (int i = 0; i < step->n_weights; i++) {
        writer_text(writer, i > 0 ? ",{\"name\":" : "{\"name\":");
        writer_string0(writer, step->weights[i].name);
        writer_format(writer, ",\"shape\":[%" PRId64 ",%" PRId64 "]}", step->weights[i].rows, step->weights[i].columns);
    }
    writer_text(writer, "],\"writes\":");
    if (step->result.value < 0)
        writer_text(writer, "null");
    else
        write_value(writer, &step->result);
}

static void write_step(struct writer *writer, const struct model_step *step)
{
    writer_text(writer, "{\"operation\":");
    writer_string0(writer, step->operation);
    writer_text(writer, ",\"formula\":");
    writer_string0(writer, step->formula);
    writer_text(writer, ",\"settings\":");
    writer_string0(writer, step->settings);
    writer_format(writer, ",\"runs\":%s,\"flops\":%" PRId64 ",\"bytes\":%" PRId64, step->runs ? "true" : "false",
                  step->flops, step->bytes);
    write_operands(writer, step);
    writer_text(writer, "}");
}

static void write_steps(struct writer *writer, const struct model *model, int64_t rows, int64_t *flops)
{
    struct model_step step;
    writer_text(writer, ",\"steps\":[");
    for (int i = 0; i < model_n_steps(model) && !writer->failed; i++) {
        model_step_describe(model, rows, i, &step);
        writer_text(writer, i > 0 ? "," : "");
        write_step(writer, &step);
        *flops += step.flops;
    }
    writer_text(writer, "]");
}

enum outcome v2_plan(struct request *request)
{
    if (v2_model(request) != 0)
        return OUTCOME_FAILED;
    const struct model *model = request_engine_model(request);
    const struct model_info *info = request->info;
    int64_t tokens = info->inputs[0].max_length, flops = 0;
    if (v2_query_integer(request, "tokens", 1, tokens, &tokens) != 0 ||
        request_charge(request, (int64_t)model_n_steps(model) * STEP_BYTES) != 0)
        return OUTCOME_FAILED;
    struct writer *writer = &request->answer;
    int64_t rows = model_explained_rows(model, tokens);
    writer_text(writer, "{\"name\":");
    writer_string0(writer, request_model_name(request));
    writer_text(writer, ",\"architecture\":");
    writer_string0(writer, info->architecture);
    writer_format(writer, ",\"tokens\":%" PRId64 ",\"rows\":%" PRId64, tokens, rows);
    write_steps(writer, model, rows, &flops);
    writer_format(writer, ",\"flops\":%" PRId64 ",\"weights_bytes\":%zu,\"arena_bytes\":%zu}", flops,
                  info->weights_bytes, info->arena_bytes);
    return OUTCOME_ANSWERED;
}
