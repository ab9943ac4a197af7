/* template: reads the section post_processor: TemplateProcessing, BertProcessing, RobertaProcessing, ByteLevel, or a
 * sequence of them. */
#include "server/tokenizer/template.h"

#include "server/tokenizer/reader.h"
#include "server/tokenizer/vocabulary.h"

#include <stdlib.h>
#include <string.h>

#define WHERE "post_processor"
#define SEQUENCE_DEPTH 32

enum process_kind { PROCESS_TEMPLATE, PROCESS_BERT, PROCESS_ROBERTA, PROCESS_BYTE_LEVEL, PROCESS_SEQUENCE };

static const char *const process_names[] = {"TemplateProcessing", "BertProcessing", "RobertaProcessing",
                                            "ByteLevel",          "Sequence",       NULL};

static int add_place(struct token_template *template, struct template_place place, struct error *error)
{
    struct template_place *places = realloc(template->places, (template->count + 1) * sizeof *places);
    if (!places)
        return error_set(error, WHERE ": out of memory");
    template->places = places;
    places[template->count++] = place;
    template->added += place.text != NULL;
    return 0;
}

static int add_special(struct token_template *template, const json_t *text, const json_t *id, struct error *error)
{
    if (!json_is_string(text) || !json_is_integer(id) || json_integer_value(id) < 0 ||
        json_integer_value(id) >= VOCABULARY_ID_LIMIT)
        return error_set(error, WHERE ": expected the text of a special token and its id");
    return add_place(
        template,
        (struct template_place){json_string_value(text), json_string_length(text), (int32_t)json_integer_value(id)},
        error);
}

/* Refuses a second part that adds tokens. Such a part would also process the tokens that the first part adds. */
static int begin_places(struct token_template *template, bool one_sequence, struct error *error)
{
    if (template->has_places)
        return error_set(error, WHERE ": expected one part that adds special tokens, found a second one");
    template->has_places = true;
    template->one_sequence = one_sequence;
    return 0;
}

static int add_trim(struct token_template *template, bool add_prefix_space, struct error *error)
{
    bool *trims = template->has_places ? &template->trims_after : &template->trims_before;
    if (*trims)
        return error_set(error, WHERE ": expected one part that trims offsets, found a second one");
    *trims = true;
    *(template->has_places ? &template->prefix_after : &template->prefix_before) = add_prefix_space;
    return 0;
}

/* Reads a pair such as ["[CLS]", 101]. */
static int add_pair(const json_t *json, const char *key, struct token_template *template, struct error *error)
{
    const json_t *pair = json_object_get(json, key);
    if (json_array_size(pair) != 2)
        return error_set(error, WHERE ": %s: expected [text, id]", key);
    return add_special(template, json_array_get(pair, 0), json_array_get(pair, 1), error);
}

static int read_pairs(const json_t *json, struct token_template *template, struct error *error)
{
    if (begin_places(template, true, error) != 0 || add_pair(json, "cls", template, error) != 0 ||
        add_place(template, (struct template_place){.id = -1}, error) != 0)
        return -1;
    return add_pair(json, "sep", template, error);
}

static int read_roberta(const json_t *json, struct token_template *template, struct error *error)
{
    static const char *const keys[] = {"type", "sep", "cls", "trim_offsets", "add_prefix_space", NULL};
    bool trims = false, prefix = false;
    if (part_keys(json, WHERE, keys, error) != 0 || part_bool(json, WHERE, "trim_offsets", true, &trims, error) != 0 ||
        part_bool(json, WHERE, "add_prefix_space", true, &prefix, error) != 0)
        return -1;
    if (trims && add_trim(template, prefix, error) != 0)
        return -1;
    return read_pairs(json, template, error);
}

static int read_byte_level(const json_t *json, struct token_template *template, struct error *error)
{
    static const char *const keys[] = {"type", "add_prefix_space", "trim_offsets", "use_regex", NULL};
    /* use_regex is read, but not used, because only the pre-tokenizer needs it. */
    bool trims = false, prefix = false, use_regex;
    if (part_keys(json, WHERE, keys, error) != 0 || part_bool(json, WHERE, "trim_offsets", true, &trims, error) != 0 ||
        part_bool(json, WHERE, "add_prefix_space", true, &prefix, error) != 0 ||
        part_bool(json, WHERE, "use_regex", false, &use_regex, error) != 0)
        return -1;
    return trims ? add_trim(template, prefix, error) : 0;
}

/* Reads a place such as {"SpecialToken": {"id": name, "type_id": 0}}. special_tokens contains one or more ids and their
 * texts for each name. */
static int add_named(const json_t *piece, const json_t *special_tokens, struct token_template *template,
                     struct error *error)
{
    const char *name = json_string_value(json_object_get(piece, "id"));
    const json_t *entry = name ? json_object_get(special_tokens, name) : NULL;
    const json_t *ids = json_object_get(entry, "ids"), *tokens = json_object_get(entry, "tokens");
    if (!entry)
        return error_set(error, WHERE ": special_tokens: \"%s\" is missing", name ? name : "");
    if (!json_is_array(ids) || !json_is_array(tokens) || json_array_size(ids) != json_array_size(tokens))
        return error_set(error, WHERE ": special_tokens: \"%s\": expected the same number of ids and tokens", name);
    for (size_t i = 0; i < json_array_size(ids); i++)
        if (add_special(template, json_array_get(tokens, i), json_array_get(ids, i), error) != 0)
            return -1;
    return 0;
}

static int add_piece(const json_t *piece, const json_t *special_tokens, struct token_template *template,
                     struct error *error)
{
    const json_t *sequence = json_object_get(piece, "Sequence"), *special = json_object_get(piece, "SpecialToken");
    if (json_object_size(piece) == 1 && json_is_object(special))
        return add_named(special, special_tokens, template, error);
    const char *id = json_string_value(json_object_get(sequence, "id"));
    if (json_object_size(piece) != 1 || !id || (strcmp(id, "A") != 0 && strcmp(id, "B") != 0))
        return error_set(error, WHERE ": single: expected {\"Sequence\": …} or {\"SpecialToken\": …}");
    if (strcmp(id, "B") == 0)
        return error_set(error, WHERE
                         ": single: expected only sequence A, found sequence B: pairs of texts are not supported");
    return add_place(template, (struct template_place){.id = -1}, error);
}

static int read_template(const json_t *json, struct token_template *template, struct error *error)
{
    static const char *const keys[] = {"type", "single", "pair", "special_tokens", NULL};
    const json_t *single = json_object_get(json, "single"), *tokens = json_object_get(json, "special_tokens");
    if (part_keys(json, WHERE, keys, error) != 0 || begin_places(template, false, error) != 0)
        return -1;
    if (!json_is_array(single) || !json_is_object(tokens))
        return error_set(error, WHERE ": expected \"single\", a list, and \"special_tokens\", an object");
    for (size_t i = 0; i < json_array_size(single); i++)
        if (add_piece(json_array_get(single, i), tokens, template, error) != 0)
            return -1;
    return 0;
}

static int read_part(const json_t *json, int depth, struct token_template *template, struct error *error)
{
    static const char *const bert[] = {"type", "sep", "cls", NULL}, *const sequence[] = {"type", "processors", NULL};
    int kind = 0;
    if (!part_type(json, WHERE, error) || part_choice(json, WHERE, "type", true, process_names, &kind, error) != 0)
        return -1;
    if (kind == PROCESS_TEMPLATE)
        return read_template(json, template, error);
    if (kind == PROCESS_BERT)
        return part_keys(json, WHERE, bert, error) != 0 ? -1 : read_pairs(json, template, error);
    if (kind == PROCESS_ROBERTA)
        return read_roberta(json, template, error);
    if (kind == PROCESS_BYTE_LEVEL)
        return read_byte_level(json, template, error);
    const json_t *parts = json_object_get(json, "processors");
    if (part_keys(json, WHERE, sequence, error) != 0)
        return -1;
    if (!json_is_array(parts))
        return error_set(error, WHERE ": processors: expected a list");
    if (depth == SEQUENCE_DEPTH)
        return error_set(error, WHERE ": a Sequence is nested more than %d times", SEQUENCE_DEPTH);
    for (size_t i = 0; i < json_array_size(parts); i++)
        if (read_part(json_array_get(parts, i), depth + 1, template, error) != 0)
            return -1;
    return 0;
}

int token_template_read(json_t *json, struct token_template *template, struct error *error)
{
    *template = (struct token_template){0};
    if (!json || json_is_null(json))
        return 0;
    template->json = json_incref(json);
    if (read_part(json, 0, template, error) == 0)
        return 0;
    token_template_free(template);
    return -1;
}

void token_template_free(struct token_template *template)
{
    free(template->places);
    json_decref(template->json);
    *template = (struct token_template){0};
}
