/* sizes: reads the sizes in the graph. They are integers, or expressions such as "batch*n" and "h//16 + 1". */
#include "engine/families/module/graph.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#define MAX_DEPTH 16       /* limit for the depth of nested parentheses */
#define MAX_CHARACTERS 256 /* limit for the characters of an expression */

struct parser {
    struct module *module;
    const char *text, *next;
    int depth;
};

int module_size(struct module *module, int64_t value)
{
    return plan_size_constant(module->builder, value);
}

bool module_is(const struct module *module, int size, int64_t value)
{
    int64_t found;
    return !module_failed(module) && plan_size_is_constant(module->builder->plan, size, &found) && found == value;
}

int module_product(struct module *module, int a, int b)
{
    return module_failed(module) ? PLAN_NONE : plan_size_multiply(module->builder, a, b);
}

int64_t module_constant(struct module *module, int size, const char *what)
{
    int64_t value = 1;
    if (!module_failed(module) && !plan_size_is_constant(module->builder->plan, size, &value))
        module_fail(module, "%s must be fixed, but is a free size", what);
    return value;
}

int module_split_batch(struct module *module, int size, bool *batched)
{
    int quotient = size;
    *batched = false;
    if (module_failed(module))
        return PLAN_NONE;
    const struct plan_size *of = &module->builder->plan->sizes[size];
    int batch = module->builder->plan->sizes[module->batch].terms[0].factors[0], with = 0;
    for (int t = 0; t < of->n_terms; t++) {
        int times = 0;
        for (int f = 0; f < of->terms[t].n_factors; f++)
            times += of->terms[t].factors[f] == batch;
        if (times > 1)
            return module_fail(module, "a size contains the square of the batch, which is not supported");
        with += times;
    }
    if (with == 0)
        return size;
    if (with < of->n_terms || !plan_size_divides(module->builder, size, module->batch, &quotient))
        return module_fail(module, "a size contains the batch in only some of its terms, which is not supported");
    *batched = true;
    return quotient;
}

/* ---- Expressions ---- */

static int parse_sum(struct parser *parser);

static void skip_spaces(struct parser *parser)
{
    while (*parser->next == ' ')
        parser->next++;
}

static bool take(struct parser *parser, const char *token)
{
    skip_spaces(parser);
    if (strncmp(parser->next, token, strlen(token)) != 0)
        return false;
    parser->next += strlen(token);
    return true;
}

static int fail(struct parser *parser)
{
    return module_fail(parser->module, "size \"%.80s\": expected a sum, product or quotient of integers and free sizes",
                       parser->text);
}

static int parse_name(struct parser *parser)
{
    struct module *module = parser->module;
    size_t length = 0;
    while (isalnum((unsigned char)parser->next[length]) || parser->next[length] == '_')
        length++;
    const char *name = parser->next;
    parser->next += length;
    if (length == strlen("batch") && strncmp(name, "batch", length) == 0)
        return module->batch;
    for (int i = 0; i < module->n_sizes; i++)
        if (strlen(module->sizes[i].name) == length && strncmp(module->sizes[i].name, name, length) == 0 &&
            module->sizes[i].size != PLAN_NONE)
            return module->sizes[i].size;
    return module_fail(module, "size \"%.80s\": no input has a size \"%.*s\"", parser->text, (int)length, name);
}

static int parse_factor(struct parser *parser)
{
    struct module *module = parser->module;
    if (module_failed(module))
        return PLAN_NONE;
    if (++parser->depth > MAX_DEPTH)
        return fail(parser);
    int size;
    if (take(parser, "-")) {
        size = module_product(module, module_size(module, -1), parse_factor(parser));
    } else if (take(parser, "(")) {
        size = parse_sum(parser);
        if (!module_failed(module) && !take(parser, ")"))
            return fail(parser);
    } else if (isdigit((unsigned char)*parser->next)) {
        char *end;
        long long value = strtoll(parser->next, &end, 10);
        if (value > INT32_MAX)
            return fail(parser);
        parser->next = end;
        size = module_size(module, value);
    } else if (isalpha((unsigned char)*parser->next) || *parser->next == '_') {
        size = parse_name(parser);
    } else {
        return fail(parser);
    }
    parser->depth--;
    return size;
}

static int parse_product(struct parser *parser)
{
    struct plan_builder *builder = parser->module->builder;
    int size = parse_factor(parser);
    while (!builder->failed) {
        if (take(parser, "//"))
            size = plan_size_divide(builder, size, parse_factor(parser));
        else if (take(parser, "*"))
            size = module_product(parser->module, size, parse_factor(parser));
        else if (take(parser, "%"))
            size = plan_size_remainder(builder, size, parse_factor(parser));
        else
            break;
    }
    return size;
}

static int parse_sum(struct parser *parser)
{
    struct plan_builder *builder = parser->module->builder;
    int size = parse_product(parser);
    while (!builder->failed) {
        if (take(parser, "+"))
            size = plan_size_add(builder, size, parse_product(parser));
        else if (take(parser, "-"))
            size = plan_size_subtract(builder, size, parse_product(parser));
        else
            break;
    }
    return size;
}

int module_read_size(struct module *module, const json_t *json)
{
    if (module_failed(module))
        return PLAN_NONE;
    if (json_is_integer(json)) {
        json_int_t value = json_integer_value(json);
        if (value > INT32_MAX && value < INT64_MAX) /* INT64_MAX means "to the end" */
            return module_fail(module, "a size of %lld is too large", (long long)value);
        return module_size(module, value);
    }
    if (!json_is_string(json))
        return module_fail(module, "expected a size: an integer, or an expression in a string");
    if (json_string_length(json) > MAX_CHARACTERS)
        return module_fail(module, "a size has more than %d characters", MAX_CHARACTERS);
    struct parser parser = {.module = module, .text = json_string_value(json), .next = json_string_value(json)};
    int size = parse_sum(&parser);
    skip_spaces(&parser);
    return module_failed(module) || *parser.next == '\0' ? size : fail(&parser);
}
