/* model_config: reads a model's config.json. */
#include "config/generation_settings.h"
#include "config/image_settings.h"
#include "config/text.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Index: enum pooling. */
static const char *const pooling_names[] = {"mean", "cls", "last", "max"};
_Static_assert(sizeof pooling_names / sizeof *pooling_names == POOLING_COUNT, "a name for each pooling");

/* Index: enum padding. "default" stands for an absent key. As a value, only a leaf of a graph accepts it. */
static const char *const padding_names[] = {"default", "slice", "zero", "masked", "autopad", "exact"};
#define DEFAULT_BYTE_OFFSET 3 /* the ids before it are pad, end and mask */
#define PADDING_COUNT (sizeof padding_names / sizeof *padding_names)

int pooling_from_name(const char *name)
{
    for (int i = 0; i < POOLING_COUNT; i++) {
        if (strcasecmp(name, pooling_names[i]) == 0)
            return i;
    }
    return -1;
}

const char *pooling_name(enum pooling pooling)
{
    return pooling_names[pooling];
}

const char *padding_name(enum padding padding)
{
    return padding_names[padding];
}

int padding_from_name(const char *name)
{
    for (size_t i = 0; i < PADDING_COUNT; i++)
        if (strcasecmp(name, padding_names[i]) == 0)
            return (int)i;
    return -1;
}

static int copy_string(const json_t *value, char **copy, struct error *error)
{
    if (!json_is_string(value) || json_string_length(value) == 0)
        return text_expected(error, "a string that is not empty", value);
    *copy = strdup(json_string_value(value));
    return *copy ? 0 : error_set(error, "out of memory");
}

static int read_architecture(json_t *value, struct model_config *config, struct error *error)
{
    return copy_string(value, &config->architecture, error);
}

static int read_kwargs(json_t *value, struct model_config *config, struct error *error)
{
    if (!json_is_object(value))
        return text_expected(error, "an object", value);
    config->kwargs = json_incref(value);
    return 0;
}

static int read_graph(json_t *value, struct model_config *config, struct error *error)
{
    if (!json_is_object(value))
        return text_expected(error, "an object", value);
    config->graph = json_incref(value);
    return 0;
}

static int read_name(json_t *value, struct model_config *config, struct error *error)
{
    if (json_is_string(value) && strchr(json_string_value(value), '/'))
        return text_expected(error, "a name without a slash", value);
    return copy_string(value, &config->name, error);
}

static int read_pooling(json_t *value, struct model_config *config, struct error *error)
{
    int pooling = json_is_string(value) ? pooling_from_name(json_string_value(value)) : -1;
    if (pooling < 0)
        return text_expected(error, "mean, cls, last or max", value);
    config->pooling = (enum pooling)pooling;
    return 0;
}

static int read_bool(const json_t *value, bool *flag, struct error *error)
{
    if (!json_is_boolean(value))
        return text_expected(error, "true or false", value);
    *flag = json_is_true(value);
    return 0;
}

static int read_normalize(json_t *value, struct model_config *config, struct error *error)
{
    return read_bool(value, &config->normalize, error);
}

static int read_auto_truncate(json_t *value, struct model_config *config, struct error *error)
{
    return read_bool(value, &config->auto_truncate, error);
}

static int read_padding(json_t *value, struct model_config *config, struct error *error)
{
    int padding = json_is_string(value) ? padding_from_name(json_string_value(value)) : -1;
    if (padding <= PADDING_DEFAULT)
        return text_expected(error, "slice, zero, masked, autopad or exact", value);
    config->padding = (enum padding)padding;
    return 0;
}

#define TOKENIZER_EXPECTED "the name of a file in the model's folder, {\"type\": \"byte\"} or null"

/* The name must not be a path, so the file is in the model's folder. */
static int read_tokenizer_file(const json_t *value, struct model_config *config, struct error *error)
{
    const char *name = json_string_value(value);
    if (!*name || strchr(name, '/') || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        return text_expected(error, TOKENIZER_EXPECTED, value);
    config->tokenizer = TOKENIZER_FILE;
    return copy_string(value, &config->tokenizer_file, error);
}

static int read_byte_tokenizer(json_t *value, struct model_config *config, struct error *error)
{
    const char *key;
    json_t *member;
    json_object_foreach (value, key, member) {
        if (strcmp(key, "type") != 0 && strcmp(key, "offset") != 0)
            return error_set(error, "unknown key \"%.80s\"; the known ones are type and offset", key);
    }
    const json_t *type = json_object_get(value, "type");
    if (!type)
        return error_set(error, "the key \"type\" is missing; expected " TOKENIZER_EXPECTED);
    if (!json_is_string(type) || strcmp(json_string_value(type), "byte") != 0)
        return text_expected(error, "the type \"byte\"", type);
    const json_t *offset = json_object_get(value, "offset");
    json_int_t first = offset ? json_integer_value(offset) : DEFAULT_BYTE_OFFSET;
    if (offset && (!json_is_integer(offset) || (first != 0 && first != DEFAULT_BYTE_OFFSET)))
        return text_expected(error, "the offset 0 or 3", offset);
    config->tokenizer = TOKENIZER_BYTE;
    config->byte_offset = (int)first;
    return 0;
}

static int read_tokenizer(json_t *value, struct model_config *config, struct error *error)
{
    if (json_is_string(value))
        return read_tokenizer_file(value, config, error);
    if (json_is_object(value))
        return read_byte_tokenizer(value, config, error);
    if (!json_is_null(value))
        return text_expected(error, TOKENIZER_EXPECTED, value);
    config->tokenizer = TOKENIZER_NONE;
    return 0;
}

static int read_id(const json_t *value, int64_t *id, struct error *error)
{
    if (!json_is_integer(value) || json_integer_value(value) < 0 || json_integer_value(value) > INT32_MAX)
        return text_expected(error, "an id: an integer of at least 0", value);
    *id = json_integer_value(value);
    return 0;
}

static int read_eos_token(json_t *value, struct model_config *config, struct error *error)
{
    return read_id(value, &config->eos_token, error);
}

static int read_bos_token(json_t *value, struct model_config *config, struct error *error)
{
    return read_id(value, &config->bos_token, error);
}

/* Checks the key pad_token. Its value has no effect, because padding always has the id 0. */
static int read_pad_token(json_t *value, struct model_config *config, struct error *error)
{
    (void)config;
    int64_t id;
    return read_id(value, &id, error);
}

static int read_ignore(json_t *value, struct model_config *config, struct error *error)
{
    if (!json_is_array(value))
        return text_expected(error, "a list of tensor names, in which * matches any characters", value);
    size_t i;
    const json_t *pattern;
    json_array_foreach (value, i, pattern)
        if (!json_is_string(pattern) || json_string_length(pattern) == 0)
            return text_expected(error, "strings that are not empty", pattern);
    config->ignore = json_incref(value);
    return 0;
}

static int read_labels(json_t *value, struct model_config *config, struct error *error)
{
    if (!json_is_array(value) || json_array_size(value) == 0)
        return text_expected(error, "a list of at least one string", value);
    size_t i;
    const json_t *label;
    json_array_foreach (value, i, label)
        if (!json_is_string(label) || json_string_length(label) == 0)
            return text_expected(error, "strings that are not empty", label);
    config->labels = json_incref(value);
    return 0;
}

static int read_prompts(json_t *value, struct model_config *config, struct error *error)
{
    if (!json_is_object(value))
        return text_expected(error, "an object that maps names to texts, as in {\"query\": \"query: \"}", value);
    const char *name;
    const json_t *prompt;
    json_object_foreach (value, name, prompt) {
        if (!*name)
            return error_set(error, "the name of a prompt is empty");
        if (!json_is_string(prompt)) {
            text_expected(error, "a text", prompt);
            return error_prefix(error, "%s", name);
        }
    }
    config->prompts = json_incref(value);
    return 0;
}

static int read_default_prompt(json_t *value, struct model_config *config, struct error *error)
{
    return copy_string(value, &config->default_prompt, error);
}

static int read_causal(json_t *value, struct model_config *config, struct error *error)
{
    return read_bool(value, &config->causal, error);
}

static int read_image(json_t *value, struct model_config *config, struct error *error)
{
    return image_settings_parse(value, &config->image, error);
}

static int read_generation(json_t *value, struct model_config *config, struct error *error)
{
    return generation_settings_parse(value, &config->generation, error);
}

static const struct {
    const char *name;
    int (*read)(json_t *value, struct model_config *config, struct error *error);
} keys[] = {
    {"architecture", read_architecture},
    {"kwargs", read_kwargs},
    {"graph", read_graph},
    {"name", read_name},
    {"pooling", read_pooling},
    {"normalize", read_normalize},
    {"padding", read_padding},
    {"tokenizer", read_tokenizer},
    {"auto_truncate", read_auto_truncate},
    {"eos_token", read_eos_token},
    {"bos_token", read_bos_token},
    {"pad_token", read_pad_token},
    {"ignore", read_ignore},
    {"labels", read_labels},
    {"image", read_image},
    {"causal", read_causal},
    {"generation", read_generation},
    {"prompts", read_prompts},
    {"default_prompt", read_default_prompt},
};
#define N_KEYS (sizeof keys / sizeof *keys)

static int read_key(const char *name, json_t *value, struct model_config *config, struct error *error)
{
    for (size_t i = 0; i < N_KEYS; i++)
        if (strcmp(name, keys[i].name) == 0)
            return keys[i].read(value, config, error) == 0 ? 0 : error_prefix(error, "%s", name);
    char known[sizeof error->message] = "";
    for (size_t i = 0; i < N_KEYS; i++)
        text_list_add(known, sizeof known, keys[i].name);
    return error_set(error, "unknown key \"%.80s\"; the known ones are %s", name, known);
}

static int check_default_prompt(const struct model_config *config, struct error *error)
{
    if (!config->default_prompt || json_object_get(config->prompts, config->default_prompt))
        return 0;
    char known[sizeof error->message] = "";
    const char *name;
    json_t *prompt;
    json_object_foreach (config->prompts, name, prompt)
        text_list_add(known, sizeof known, name);
    return error_set(error, "default_prompt: found \"%.80s\"; expected a name from \"prompts\"%s%s",
                     config->default_prompt, *known ? ": " : ", which is missing or empty", known);
}

static int check_causal(const struct model_config *config, struct error *error)
{
    if (!config->causal || config->graph)
        return 0;
    return error_set(error,
                     "causal: found true without a \"graph\"; this key is only for modules, other classes have an "
                     "argument causal in \"kwargs\"");
}

int model_config_parse(const char *text, size_t length, const char *origin, struct model_config *config,
                       struct error *error)
{
    *config = (struct model_config){
        .normalize = true, /* the default of text-embeddings-inference */
        .eos_token = -1,
        .bos_token = -1,
        .generation = generation_settings_default(),
    };
    json_t *object = text_parse_object(text, length, true, error);
    if (!object)
        goto fail;
    const char *name;
    json_t *value;
    json_object_foreach (object, name, value) {
        if (read_key(name, value, config, error) != 0)
            goto fail;
    }
    if (!config->architecture) {
        error_set(error, "the key \"architecture\" is missing; expected the import path of a class, "
                         "as in \"linformer.LinformerLM\"");
        goto fail;
    }
    if (check_default_prompt(config, error) != 0 || check_causal(config, error) != 0)
        goto fail;
    if (!config->kwargs && !(config->kwargs = json_object())) {
        error_set(error, "out of memory");
        goto fail;
    }
    json_decref(object);
    return 0;

fail:
    json_decref(object);
    model_config_free(config);
    return error_prefix(error, "%s", origin);
}

int model_config_read(const char *path, struct model_config *config, struct error *error)
{
    *config = (struct model_config){0};
    size_t length;
    char *text = file_read(path, TEXT_FILE_LIMIT_BYTES, &length, error);
    if (!text)
        return -1;
    int result = model_config_parse(text, length, path, config, error);
    free(text);
    return result;
}

void model_config_free(struct model_config *config)
{
    free(config->architecture);
    free(config->name);
    free(config->tokenizer_file);
    free(config->default_prompt);
    json_decref(config->kwargs);
    json_decref(config->graph);
    json_decref(config->ignore);
    json_decref(config->labels);
    json_decref(config->prompts);
    *config = (struct model_config){0};
}
