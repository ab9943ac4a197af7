/* sections: reads truncation and padding. Ignores the rules for pairs of texts. */
#include "server/tokenizer/sections.h"

#include "server/tokenizer/reader.h"
#include "server/tokenizer/vocabulary.h"

#include <stdlib.h>
#include <string.h>

static const char *const directions[] = {"Right", "Left", NULL};

int truncation_read(const json_t *json, size_t added, struct truncation_section *truncation, struct error *error)
{
    static const char where[] = "truncation";
    static const char *const keys[] = {"direction", "max_length", "strategy", "stride", NULL};
    static const char *const strategies[] = {"LongestFirst", "OnlyFirst", NULL};
    int direction = 0, strategy;
    int64_t stride = 0;
    *truncation = (struct truncation_section){0};
    if (!json || json_is_null(json))
        return 0;
    if (!json_is_object(json))
        return error_set(error, "%s: expected an object or null", where);
    if (part_keys(json, where, keys, error) != 0 ||
        part_choice(json, where, "direction", false, directions, &direction, error) != 0 ||
        part_choice(json, where, "strategy", true, strategies, &strategy, error) != 0 ||
        part_integer(json, where, "max_length", true, 0, &truncation->max_length, error) != 0 ||
        part_integer(json, where, "stride", true, 0, &stride, error) != 0)
        return -1;
    if (truncation->max_length > 0 &&
        (truncation->max_length <= (int64_t)added || stride >= truncation->max_length - (int64_t)added))
        return error_set(error, "%s: max_length: expected more than stride (%lld) plus the template's tokens (%zu)",
                         where, (long long)stride, added);
    truncation->is_there = true;
    truncation->left = direction == 1;
    return 0;
}

static int read_strategy(const json_t *json, struct pad_section *padding, struct error *error)
{
    const json_t *fixed = json_object_get(json, "Fixed");
    const char *name = json_string_value(json);
    padding->length = -1;
    if (name && strcmp(name, "BatchLongest") == 0)
        return 0;
    padding->length = json_integer_value(fixed);
    if (json_object_size(json) == 1 && json_is_integer(fixed) && padding->length >= 0 && padding->length <= INT32_MAX)
        return 0;
    return error_set(error, "padding: strategy: expected \"BatchLongest\" or {\"Fixed\": length}");
}

static int read_rest(const json_t *json, struct pad_section *padding, struct error *error)
{
    static const char where[] = "padding";
    const char *text = NULL;
    int direction = 0;
    int64_t id = 0, type_id = 0;
    if (part_choice(json, where, "direction", true, directions, &direction, error) != 0 ||
        part_integer(json, where, "pad_id", true, 0, &id, error) != 0 ||
        part_integer(json, where, "pad_type_id", true, 0, &type_id, error) != 0 ||
        part_text(json, where, "pad_token", true, false, &text, &padding->text_length, error) != 0)
        return -1;
    if (!json_is_null(json_object_get(json, "pad_to_multiple_of")) &&
        part_integer(json, where, "pad_to_multiple_of", false, 0, &padding->multiple_of, error) != 0)
        return -1;
    if (padding->multiple_of > INT32_MAX)
        return error_set(error, "%s: pad_to_multiple_of: expected at most %d", where, INT32_MAX);
    if (id >= VOCABULARY_ID_LIMIT)
        return error_set(error, "%s: pad_id: expected an id below %lld", where, (long long)VOCABULARY_ID_LIMIT);
    padding->id = (int32_t)id;
    padding->left = direction == 1;
    padding->text = malloc(padding->text_length + 1);
    if (!padding->text)
        return error_set(error, "%s: out of memory", where);
    memcpy(padding->text, text, padding->text_length);
    return 0;
}

int padding_read(const json_t *json, struct pad_section *padding, struct error *error)
{
    static const char *const keys[] = {"strategy",  "direction", "pad_to_multiple_of", "pad_id", "pad_type_id",
                                       "pad_token", NULL};
    *padding = (struct pad_section){0};
    if (!json || json_is_null(json))
        return 0;
    if (!json_is_object(json))
        return error_set(error, "padding: expected an object or null");
    padding->is_there = true;
    if (part_keys(json, "padding", keys, error) != 0 ||
        read_strategy(json_object_get(json, "strategy"), padding, error) != 0)
        return -1;
    return read_rest(json, padding, error);
}

void padding_free(struct pad_section *padding)
{
    free(padding->text);
    *padding = (struct pad_section){0};
}
