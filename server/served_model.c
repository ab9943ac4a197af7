#define _GNU_SOURCE /* asprintf */
#include "server/served_model.h"

#include "server/model_folders.h"
#include "server/tokenizer/text_codec.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHANNELS 3
#define TOKENIZER_NAME "tokenizer.json"
#define TOKENIZER_MAX_BYTES ((size_t)256 << 20) /* a vocabulary of 256 000 tokens takes some 35 MB */

/* ---- Labels ---- */

static int compare_labels(const void *a, const void *b)
{
    const struct served_label *first = *(const struct served_label *const *)a;
    const struct served_label *second = *(const struct served_label *const *)b;
    int order = strcmp(first->text, second->text);
    return order != 0 ? order : first < second ? -1 : 1;
}

/* Sets `is_repeated_later` of each label whose text is also the text of a later label. For example, the list of
 * ImageNet contains "crane" twice. */
static int mark_repeated(struct served_label *labels, size_t count, struct error *error)
{
    struct served_label **sorted = calloc(count, sizeof *sorted);
    if (!sorted)
        return error_set(error, "out of memory");
    for (size_t i = 0; i < count; i++)
        sorted[i] = &labels[i];
    qsort(sorted, count, sizeof *sorted, compare_labels);
    for (size_t i = 0; i + 1 < count; i++)
        sorted[i]->is_repeated_later = strcmp(sorted[i]->text, sorted[i + 1]->text) == 0;
    free(sorted);
    return 0;
}

static int open_labels(struct served_model *served, const json_t *labels, struct error *error)
{
    const struct model_info *info = model_info(served->model);
    size_t count = json_array_size(labels);
    if (info->n_tensors > 0)
        return error_set(error, "labels: the model outputs tensors; expected one output (batch, classes)");
    if ((int64_t)count != info->output_columns)
        return error_set(error, "labels: found %zu names; expected %lld, one for each column of output \"%s\"", count,
                         (long long)info->output_columns, info->outputs[0]);
    served->labels = calloc(count, sizeof *served->labels);
    if (!served->labels)
        return error_set(error, "out of memory");
    for (size_t i = 0; i < count; i++)
        served->labels[i].text = json_string_value(json_array_get(labels, i));
    return mark_repeated(served->labels, count, error);
}

/* ---- Pictures ---- */

/* Returns the only required input, or NULL if several inputs are required. */
static const struct model_input *needed_input(const struct model_info *info)
{
    for (int i = 1; i < info->n_inputs; i++)
        if (!info->inputs[i].optional)
            return NULL;
    return &info->inputs[0];
}

static bool is_picture(const struct model_input *input)
{
    return input && input->kind == INPUT_ROWS && input->layout == LAYOUT_TENSOR && input->rank == 3 &&
           input->shape[0] == CHANNELS;
}

/* Returns a size of the input as text. A size of -1 is a free size. */
static const char *size_text(int64_t size, char text[32])
{
    snprintf(text, 32, size < 0 ? "any" : "%lld", (long long)size);
    return text;
}

static int refuse_input(const struct model_input *input, struct error *error)
{
    char sizes[160] = "", size[32];
    for (int d = 0; input && input->layout == LAYOUT_TENSOR && d < input->rank; d++)
        text_list_add(sizes, sizeof sizes, size_text(input->shape[d], size));
    if (!input)
        return error_set(error, "image: expected a model that needs one input, an image of shape (batch, 3, height, "
                                "width); this model needs several inputs");
    if (input->kind != INPUT_ROWS || !*sizes)
        return error_set(error,
                         "image: input \"%s\" of the model does not accept floats of shape (batch, 3, height, width)",
                         input->name);
    return error_set(error,
                     "image: input \"%s\" of the model has shape (batch, %s); expected (batch, 3, height, width)",
                     input->name, sizes);
}

static int open_image(struct served_model *served, const struct image_settings *given, struct error *error)
{
    const struct model_input *input = needed_input(model_info(served->model));
    if (!is_picture(input))
        return given->height > 0 ? refuse_input(input, error) : 0;
    int64_t height = input->shape[1], width = input->shape[2];
    if (given->height == 0) {
        if (height > 0 && width > 0)
            served->image = image_settings_default(height, width);
        return 0;
    }
    char rows[32], columns[32];
    if ((height >= 0 && given->height != height) || (width >= 0 && given->width != width))
        return error_set(error, "image: size is [%lld, %lld] (height, width); expected [%s, %s], that of input \"%s\"",
                         (long long)given->height, (long long)given->width, size_text(height, rows),
                         size_text(width, columns), input->name);
    served->image = *given;
    return 0;
}

/* ---- Texts ---- */

/* Opens the tokenizer in the file `name` of the folder. */
static int read_tokenizer(struct served_model *served, const char *folder, const char *name, struct error *error)
{
    char *path = NULL;
    size_t length;
    if (asprintf(&path, "%s/%s", folder, name) < 0)
        return error_set(error, "out of memory");
    char *json = file_read(path, TOKENIZER_MAX_BYTES, &length, error);
    int status = json ? text_codec_open(json, length, name, path, &served->codec, error) : -1;
    free(json);
    free(path);
    return status;
}

/* Checks that the model accepts every id that the codec can produce. */
static int check_ids(const struct served_model *served, struct error *error)
{
    int64_t vocabulary = model_info(served->model)->vocabulary, ids = text_codec_ids(served->codec);
    if (ids <= vocabulary)
        return 0;
    bool offset_helps = text_codec_byte_offset(served->codec) > 0 && vocabulary > UINT8_MAX;
    return error_set(error, "tokenizer \"%s\" returns ids up to %lld, but the model accepts only ids below %lld%s",
                     text_codec_name(served->codec), (long long)ids - 1, (long long)vocabulary,
                     offset_helps ? ". With \"offset\": 0, the ids are the bytes, up to 255" : "");
}

/* Whether a model without the key `tokenizer` has a file tokenizer.json. */
static bool has_tokenizer(const char *folder, const struct weights_builtin *builtin)
{
    return folder ? model_folder_has(folder, TOKENIZER_NAME) : builtin && builtin->tokenizer;
}

static int open_codec(struct served_model *served, const char *folder, const struct weights_builtin *builtin,
                      const struct model_config *config, struct error *error)
{
    bool takes_ids = model_info(served->model)->inputs[0].kind == INPUT_IDS;
    bool is_default = config->tokenizer == TOKENIZER_DEFAULT;
    if (config->tokenizer == TOKENIZER_NONE || (is_default && !has_tokenizer(folder, builtin)))
        return 0;
    const char *name = config->tokenizer == TOKENIZER_BYTE ? "byte"
                       : is_default                        ? TOKENIZER_NAME
                                                           : config->tokenizer_file;
    if (!takes_ids && !is_default)
        return error_set(error, "tokenizer \"%s\" returns ids, but input \"%s\" of the model accepts no ids", name,
                         model_info(served->model)->inputs[0].name);
    served->codec_unused = !takes_ids;
    if (!takes_ids)
        return 0;
    if (config->tokenizer == TOKENIZER_FILE && !folder)
        return error_set(error, "tokenizer \"%s\" names a file, but the built-in model has no folder with files", name);
    int status;
    if (config->tokenizer == TOKENIZER_BYTE)
        status = text_codec_open_bytes(config->byte_offset, &served->codec, error);
    else if (folder)
        status = read_tokenizer(served, folder, name, error);
    else
        status = text_codec_open(builtin->tokenizer, builtin->tokenizer_length, name, "the built-in tokenizer.json",
                                 &served->codec, error);
    served->tokenizes = config->tokenizer != TOKENIZER_BYTE;
    return status == 0 ? check_ids(served, error) : -1;
}

static int open_prompts(struct served_model *served, const struct model_config *config, struct error *error)
{
    if (json_object_size(config->prompts) > 0 && !served->codec)
        return error_set(error, "prompts: found texts, but the model has no tokenizer and accepts no texts");
    served->prompts = config->prompts;
    served->default_prompt = config->default_prompt;
    return 0;
}

/* Sets eos_token and bos_token. Uses the ids in config.json. If config.json contains none, uses the tokens of the
 * tokenizer. */
static int open_ends(struct served_model *served, const struct model_config *config, struct error *error)
{
    int64_t vocabulary = model_info(served->model)->output_columns;
    const struct {
        const char *key;
        int64_t given;
        enum tokenizer_role role;
        int32_t *id;
    } ends[] = {{"eos_token", config->eos_token, TOKENIZER_EOS, &served->eos_token},
                {"bos_token", config->bos_token, TOKENIZER_BOS, &served->bos_token}};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        if (ends[i].given >= vocabulary)
            return error_set(error, "%s: expected an id below %lld, found %lld", ends[i].key, (long long)vocabulary,
                             (long long)ends[i].given);
        *ends[i].id = (int32_t)ends[i].given;
        if (ends[i].given < 0 && served->codec)
            *ends[i].id = text_codec_role_id(served->codec, ends[i].role);
    }
    return 0;
}

int served_model_open(struct served_model *served, const char *folder, const struct weights_builtin *builtin,
                      const struct model_config *config, struct error *error)
{
    served->generation = config->generation;
    if (config->labels && open_labels(served, config->labels, error) != 0)
        return -1;
    if (open_image(served, &config->image, error) != 0)
        return -1;
    if (open_codec(served, folder, builtin, config, error) != 0 || open_ends(served, config, error) != 0)
        return -1;
    return open_prompts(served, config, error);
}

void served_model_free(struct served_model *served)
{
    free(served->labels);
    served->labels = NULL;
    text_codec_close(served->codec);
    served->codec = NULL;
}
