/* served: which routes a model can serve. */
#include "server/dialects/native/served.h"

#include "server/dialects/native/generate_plan.h"
#include "server/dialects/native/model.h"
#include "server/dialects/text_inputs.h"
#include "server/dialects/v2/attention.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- Results ---- */

static bool only_v2_serves(const struct model_info *info)
{
    return info->n_tensors > 0 || info->inputs[0].layout == LAYOUT_IMAGE;
}

static bool gives_vectors(const struct model_info *info)
{
    return !only_v2_serves(info);
}

static bool gives_rows(const struct model_info *info)
{
    return !only_v2_serves(info) && !info->gives_vector;
}

static bool gives_logits(const struct model_info *info)
{
    return gives_rows(info) && info->has_logits;
}

static bool gives_classes(const struct model_info *info)
{
    return !only_v2_serves(info) && info->gives_vector;
}

/* Index: enum native_result. */
static const struct {
    const char *path, *what;
    bool (*gives)(const struct model_info *info);
} results[] = {
    [NATIVE_VECTORS] = {"/embed", "vectors", gives_vectors},
    [NATIVE_TOKENS] = {"/embed_all", "vectors of tokens", gives_rows},
    [NATIVE_LOGITS] = {"/logits", "logits", gives_logits},
    [NATIVE_CLASSES] = {"/predict", "classes", gives_classes},
};
_Static_assert(sizeof results / sizeof *results == NATIVE_RESULT_COUNT, "each result must have a route");

int native_serves(struct request *request, enum native_result result)
{
    const struct model_info *info = request->info;
    if (results[result].gives(info))
        return 0;
    const char *name = request_model_name(request);
    const char *gives = info->n_tensors > 0                      ? "tensors"
                        : info->inputs[0].layout == LAYOUT_IMAGE ? "images"
                        : info->gives_vector                     ? "one vector for each input"
                                                                 : "one vector for each token";
    char paths[160] = "";
    for (int i = 0; i < NATIVE_RESULT_COUNT; i++)
        if (results[i].gives(info))
            text_list_add(paths, sizeof paths, results[i].path);
    return failure_set(&request->failure, FAILURE_INVALID, "model \"%s\" does not return %s, but %s. Use %s%s%s", name,
                       results[result].what, gives, *paths ? paths : "/v2/models/", *paths ? "" : name,
                       *paths ? "" : "/infer");
}

bool native_is_classifier(const struct served_model *served)
{
    return served->labels && gives_classes(model_info(served->model));
}

/* ---- Routes ---- */

/* Whether the model can run on its first input alone, and this input is a sequence or a picture. */
static bool takes_one(const struct served_model *served)
{
    const struct model_info *info = model_info(served->model);
    bool alone = served->image.height > 0 || native_is_sequence(&info->inputs[0]);
    for (int i = 1; i < info->n_inputs; i++)
        alone = alone && info->inputs[i].optional;
    return alone;
}

static bool has_mask_token(const struct served_model *served)
{
    return served->codec && text_codec_role_id(served->codec, TOKENIZER_MASK) >= 0;
}

void native_write_routes(struct writer *writer, const struct served_model *served)
{
    const struct model_info *info = model_info(served->model);
    const char *separator = "[";
    bool takes[NATIVE_RESULT_COUNT];
    for (int i = 0; i < NATIVE_RESULT_COUNT; i++)
        takes[i] = takes_one(served) && results[i].gives(info);
    const struct {
        const char *path;
        bool served;
    } routes[] = {
        {"/embed", takes[NATIVE_VECTORS]},
        {"/embed_all", takes[NATIVE_TOKENS]},
        {"/logits", takes[NATIVE_LOGITS]},
        {"/fill-mask", takes[NATIVE_LOGITS] && has_mask_token(served)},
        {"/predict", takes[NATIVE_CLASSES]},
        {"/generate", generate_fits(info)},
        {"/v2/models/{}/attention.png", v2_attention_fits(info)},
    };
    for (size_t i = 0; i < sizeof routes / sizeof *routes; i++) {
        if (!routes[i].served)
            continue;
        writer_text(writer, separator);
        writer_string0(writer, routes[i].path);
        separator = ",";
    }
    writer_text(writer, *separator == '[' ? "[]" : "]");
}
