#include "server/dialects/v2/attention.h"

#include "server/dialects/results.h"
#include "server/dialects/text_inputs.h"
#include "server/dialects/v2/model.h"
#include "server/dialects/v2/query.h"
#include "server/images/panels.h"
#include "server/images/png_writer.h"

#include <inttypes.h>
#include <string.h>

#define MAX_LAYERS 1024
#define ENCODER_BYTES (1 << 20) /* maximum number of bytes that libpng and zlib use while they write a picture */

/* What the answer needs, in request memory. Each row of panels is one attention of the model, and each panel is one
 * head. */
struct attention_picture {
    struct panels panels;
    struct panel_row *rows; /* (panels.n_rows): the attentions to be drawn, and their values */
};

/* ---- The item ---- */

static int64_t first_attention(const struct model_info *info)
{
    return info->n_tensors > 0 ? info->n_tensors : 1;
}

static bool takes_ids_alone(const struct model_info *info)
{
    const struct model_input *first = &info->inputs[0];
    bool alone = first->kind == INPUT_IDS &&
                 (first->layout == LAYOUT_SEQUENCE || (first->layout == LAYOUT_TENSOR && first->rank == 1));
    for (int i = 1; i < info->n_inputs; i++)
        alone = alone && info->inputs[i].optional;
    return alone;
}

bool v2_attention_fits(const struct model_info *info)
{
    return takes_ids_alone(info) && info->n_outputs > first_attention(info);
}

static int check_model(struct request *request)
{
    const struct model_info *info = request->info;
    if (!png_write)
        return failure_set(&request->failure, FAILURE_UNSUPPORTED,
                           "this build cannot write PNG images: libpng was not installed when it was built");
    if (v2_attention_fits(info))
        return 0;
    return failure_set(&request->failure, FAILURE_INVALID, "model \"%s\" %s", request_model_name(request),
                       !takes_ids_alone(info)
                           ? "needs other inputs than one list of ids: use the infer route with attention outputs"
                           : "has no attention over k rows that can be drawn");
}

static void place_ids(struct request *request, const int32_t *ids, int64_t count)
{
    struct engine_input *input = &request->job.items[0].inputs[0];
    input->data = ids;
    input->length = count;
    input->sizes[0] = count;
}

/* Whether the text is valid UTF-8. */
static bool is_utf8(const char *text)
{
    uint32_t code;
    while (*text) {
        size_t bytes = text_character(text, SIZE_MAX, &code);
        if (bytes == 0)
            return false;
        text += bytes;
    }
    return true;
}

static int read_text(struct request *request, const char *text, bool truncate)
{
    const struct items_limit limit = items_limit(request->info, 0);
    struct text_inputs texts = {
        .request = request, .options = {.truncate = truncate, .add_special_tokens = true}, .limit = &limit};
    if (!is_utf8(text))
        return failure_set(&request->failure, FAILURE_INVALID, "text is not UTF-8");
    int32_t *ids = NULL;
    int64_t count = 0;
    if (text_inputs_prompt(request, NULL, NULL, &texts.options) == 0)
        ids = text_inputs_ids(&texts, "text", text, strlen(text), &count);
    if (ids)
        place_ids(request, ids, count);
    text_inputs_end(&texts);
    return ids ? 0 : -1;
}

/* Reads a list of ids such as "5,17,3". model_check later refuses ids that are not below the vocabulary. */
static int read_ids(struct request *request, const char *text)
{
    int32_t *ids = request_take(request, (int64_t)strlen(text) / 2 + 1, sizeof *ids);
    int64_t count = 0, id;
    if (!ids)
        return -1;
    for (const char *at = text;; at++) {
        id = v2_query_digits(&at, INT32_MAX);
        if (id < 0 || (*at && *at != ','))
            return failure_set(&request->failure, FAILURE_INVALID,
                               "ids[%" PRId64 "] is not an id: integers with commas between them were expected", count);
        ids[count++] = (int32_t)id;
        if (!*at)
            break;
    }
    place_ids(request, ids, count);
    return 0;
}

static int read_truncate(struct request *request, bool *truncate)
{
    const char *text = request->query(request, "truncate");
    *truncate = text ? strcmp(text, "true") == 0 : request_auto_truncate(request);
    if (!text || *truncate || strcmp(text, "false") == 0)
        return 0;
    return failure_set(&request->failure, FAILURE_INVALID, "truncate is \"%.40s\", true or false was expected", text);
}

static int read_item(struct request *request)
{
    const char *text = request->query(request, "text"), *ids = request->query(request, "ids");
    struct error error;
    bool truncate;
    request->job.items = request_take(request, 1, sizeof *request->job.items);
    if (!request->job.items || read_truncate(request, &truncate) != 0)
        return -1;
    request->job.n_items = 1;
    if (!text == !ids)
        return failure_set(&request->failure, FAILURE_INVALID,
                           "the query has %s, one of text and ids was expected: ?text=…",
                           text ? "text and ids" : "neither text nor ids");
    if ((text ? read_text(request, text, truncate) : read_ids(request, ids)) != 0)
        return -1;
    if (model_check(request_engine_model(request), request->job.items, &error) != 0)
        return failure_set(&request->failure, FAILURE_INVALID, "%s: %s", text ? "text" : "ids", error.message);
    return 0;
}

/* ---- The panels ---- */

/* Sets heads, n and k of each row. Adds the number of values of all rows to *floats. */
static int shape_rows(struct request *request, struct attention_picture *picture, int64_t *floats)
{
    int64_t shape[ENGINE_MAX_RANK];
    for (int64_t i = 0; i < picture->panels.n_rows; i++) {
        struct panel_row *row = &picture->rows[i];
        int output = (int)(first_attention(request->info) + row->number);
        if (model_output_shape(request_engine_model(request), request->job.items, output, shape) != 3)
            return failure_set(&request->failure, FAILURE_INVALID,
                               "attention %" PRId64 " of model \"%s\" is not a list of matrices", row->number,
                               request_model_name(request));
        row->heads = shape[0];
        row->n = shape[1];
        row->k = shape[2];
        if (results_count(request, row->heads * row->n, row->k, floats) != 0)
            return -1;
    }
    return 0;
}

static int read_scale(struct request *request, bool *each)
{
    const char *text = request->query(request, "scale");
    *each = text && strcmp(text, "each") == 0;
    if (!text || *each || strcmp(text, "all") == 0)
        return 0;
    return failure_set(&request->failure, FAILURE_INVALID, "scale is \"%.40s\", all or each was expected", text);
}

/* Reads layer, head, rows, scale and cell of the query, and fills picture->panels. Sets *floats to the number of values
 * of the rows. */
static int read_panels(struct request *request, struct attention_picture *picture, int64_t *floats)
{
    struct panels *panels = &picture->panels;
    int64_t layers = request->info->n_outputs - first_attention(request->info), layer = -1, head = -1, heads = 0;
    panels->most_n = INT64_MAX;
    if (read_scale(request, &panels->scaled_each) != 0 ||
        v2_query_integer(request, "layer", 0, layers - 1, &layer) != 0 ||
        v2_query_integer(request, "rows", 1, INT32_MAX, &panels->most_n) != 0 ||
        v2_query_integer(request, "cell", 1, PANELS_MAX_CELL, &panels->cell) != 0)
        return -1;
    panels->n_rows = layer < 0 ? layers : 1;
    if (panels->n_rows > MAX_LAYERS)
        return failure_set(&request->failure, FAILURE_INVALID,
                           "the model has %" PRId64 " layers, a picture shows at most %d: choose one with layer=N",
                           layers, MAX_LAYERS);
    picture->rows = request_take(request, panels->n_rows, sizeof *picture->rows);
    if (!picture->rows)
        return -1;
    panels->rows = picture->rows;
    for (int64_t i = 0; i < panels->n_rows; i++)
        picture->rows[i].number = layer < 0 ? i : layer;
    if (shape_rows(request, picture, floats) != 0)
        return -1;
    for (int64_t i = 0; i < panels->n_rows; i++)
        heads = picture->rows[i].heads > heads ? picture->rows[i].heads : heads;
    if (v2_query_integer(request, "head", 0, heads - 1, &head) != 0)
        return -1;
    panels->first_head = head < 0 ? 0 : head;
    panels->n_heads = head < 0 ? heads : 1;
    if (panels_fit(panels))
        return 0;
    return failure_set(&request->failure, FAILURE_INVALID,
                       "the picture would have %" PRId64 " x %" PRId64
                       " pixels, at most %d in each direction and %" PRId64
                       " in total are supported: choose a layer, a head, fewer rows or a smaller cell",
                       panels->width, panels->height, PANELS_MAX_SIDE, PANELS_MAX_PIXELS);
}

/* Allocates memory for the values of each row, and makes the item request them. */
static int want_values(struct request *request, struct attention_picture *picture, int64_t floats)
{
    struct engine_item *item = request->job.items;
    struct engine_extra *extras = request_take(request, picture->panels.n_rows, sizeof *extras);
    float *values = extras ? request_take(request, floats, sizeof *values) : NULL;
    if (!values)
        return -1;
    item->extras = extras;
    item->n_extras = (int)picture->panels.n_rows;
    for (int64_t i = 0; i < picture->panels.n_rows; i++) {
        struct panel_row *row = &picture->rows[i];
        extras[i] = (struct engine_extra){(int)(first_attention(request->info) + row->number), values};
        row->values = values;
        values += row->heads * row->n * row->k;
    }
    return 0;
}

enum outcome v2_attention_read(struct request *request)
{
    int64_t floats = 0;
    struct attention_picture *picture = request->options = request_memory(request, 1, sizeof *picture);
    if (!picture || v2_model(request) != 0 || check_model(request) != 0 || read_item(request) != 0 ||
        read_panels(request, picture, &floats) != 0)
        return OUTCOME_FAILED;
    request->answer_bytes = picture->panels.width * picture->panels.height;
    /* The memory for the pixels, and for the PNG file, which is at most a little larger. */
    if (request_charge(request, 2 * request->answer_bytes + ENCODER_BYTES) != 0 ||
        want_values(request, picture, floats) != 0)
        return OUTCOME_FAILED;
    return OUTCOME_RUN;
}

/* ---- The answer ---- */

static void append(void *context, const void *bytes, size_t length)
{
    writer_bytes(context, bytes, length);
}

int v2_attention_answer(struct request *request)
{
    const struct attention_picture *picture = request->options;
    const struct panels *panels = &picture->panels;
    uint8_t palette[PANELS_COLOURS][3];
    uint8_t *pixels = request_memory(request, panels->width * panels->height, 1);
    struct error error;
    if (!pixels)
        return -1;
    panels_palette(palette);
    panels_draw(panels, pixels);
    const struct png_picture png = {panels->width, panels->height, pixels, palette};
    if (png_write(&png, append, &request->answer, &error) != 0)
        return failure_set(&request->failure, FAILURE_BACKEND, "%s", error.message);
    static const struct answer_header headers[] = {{"Cache-Control", "no-store"}, {NULL, NULL}};
    request->answer_type = "image/png";
    request->answer_headers = headers;
    return 0;
}
