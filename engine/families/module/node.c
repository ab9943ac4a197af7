/* node: reads the arguments of a node by name, and checks them. They are members of a JSON object. */
#include "engine/families/module/graph.h"

#include <math.h>
#include <string.h>

static const struct tensor no_tensor = {.value = PLAN_NONE, .weight = PLAN_NONE};

/* The member with this name, which is recorded as read. NULL if it is missing or null. */
static const json_t *member(struct node *node, const char *name)
{
    const json_t *json = json_object_get(node->json, name);
    if (node->n_read < NODE_KEYS)
        node->read[node->n_read++] = name;
    return json_is_null(json) ? NULL : json;
}

static int fail_expected(struct node *node, const char *name, const char *expected)
{
    return module_fail(node->module, "argument \"%s\": expected %s", name, expected);
}

bool node_has(struct node *node, const char *name)
{
    return member(node, name) != NULL;
}

/* The tensor that a string names: a result, an input, or a weight after "@". */
static struct tensor resolve(struct node *node, const char *name, const json_t *json)
{
    struct module *module = node->module;
    if (module_failed(module))
        return no_tensor;
    if (!json_is_string(json)) {
        fail_expected(node, name, "the name of a tensor");
        return no_tensor;
    }
    const char *text = json_string_value(json);
    if (text[0] == '@')
        return module_weight(module, text + 1);
    const struct tensor *found = module_find(module, text);
    if (!found)
        module_fail(module, "argument \"%s\": no input or earlier result is named \"%.80s\"", name, text);
    return found ? *found : no_tensor;
}

struct tensor node_tensor(struct node *node, const char *name)
{
    const json_t *json = member(node, name);
    if (!json) {
        module_fail(node->module, "argument \"%s\" is missing", name);
        return no_tensor;
    }
    return resolve(node, name, json);
}

/* A number, or a string for a number that JSON cannot express. */
static bool read_number(const json_t *json, double *number)
{
    static const struct {
        const char *text;
        double number;
    } words[] = {{"inf", INFINITY}, {"-inf", -INFINITY}, {"nan", NAN}};
    if (json_is_number(json) || json_is_boolean(json)) {
        *number = json_is_boolean(json) ? json_is_true(json) : json_number_value(json);
        return true;
    }
    for (size_t i = 0; json_is_string(json) && i < sizeof words / sizeof *words; i++)
        if (strcmp(json_string_value(json), words[i].text) == 0) {
            *number = words[i].number;
            return true;
        }
    return false;
}

#define MAX_NUMBER (1 << 24) /* beyond this number, floats cannot represent every integer */

/* A size as a tensor without dimensions. A size n that depends on the item is element n of a weight 0, 1, 2 … */
static bool size_operand(struct module *module, int size, struct tensor *tensor, double *number)
{
    int64_t least, most;
    bool batched;
    module_split_batch(module, size, &batched);
    if (module_failed(module))
        return false;
    plan_size_bounds(module->builder->plan, size, &least, &most);
    *number = (double)least;
    if (least == most)
        return false;
    if (batched || least < 0 || most > MAX_NUMBER) {
        module_fail(module, "a size that is used as a number must be at most %d, and must not contain the batch",
                    MAX_NUMBER);
        return false;
    }
    *tensor = (struct tensor){.value = PLAN_NONE, .first = size, .rank = 0};
    tensor->weight = module_numbers(module, 0, 1, most + 1);
    return true;
}

bool node_operand(struct node *node, const char *name, struct tensor *tensor, double *number)
{
    struct module *module = node->module;
    const json_t *json = member(node, name);
    *tensor = no_tensor;
    *number = 0;
    if (!json) {
        module_fail(module, "argument \"%s\" is missing", name);
        return false;
    }
    if (read_number(json, number))
        return false;
    const char *text = json_string_value(json);
    if (text && (text[0] == '@' || module_find(module, text))) {
        *tensor = resolve(node, name, json);
        return true;
    }
    return size_operand(module, module_read_size(module, json), tensor, number);
}

double node_number(struct node *node, const char *name, double fallback)
{
    const json_t *json = member(node, name);
    double number = fallback;
    if (json && !read_number(json, &number))
        fail_expected(node, name, "a number");
    return number;
}

bool node_bool(struct node *node, const char *name, bool fallback)
{
    const json_t *json = member(node, name);
    if (json && !json_is_boolean(json))
        fail_expected(node, name, "true or false");
    return json ? json_is_true(json) : fallback;
}

const char *node_string(struct node *node, const char *name, const char *fallback)
{
    const json_t *json = member(node, name);
    if ((json && !json_is_string(json)) || (!json && !fallback))
        fail_expected(node, name, "a string");
    return json_is_string(json) ? json_string_value(json) : fallback ? fallback : "";
}

int64_t node_integer(struct node *node, const char *name, int64_t fallback)
{
    const json_t *json = member(node, name);
    if (!json && fallback == NODE_REQUIRED)
        module_fail(node->module, "argument \"%s\" is missing", name);
    if (!json)
        return fallback;
    if (json_is_string(json))
        return module_constant(node->module, module_read_size(node->module, json), name);
    json_int_t value = json_integer_value(json);
    if (!json_is_integer(json) || value < -INT32_MAX || value > INT32_MAX)
        fail_expected(node, name, "a 32-bit integer");
    return value;
}

int node_size(struct node *node, const char *name, int fallback)
{
    const json_t *json = member(node, name);
    if (!json && fallback == PLAN_NONE)
        return module_fail(node->module, "argument \"%s\" is missing", name);
    return json ? module_read_size(node->module, json) : fallback;
}

int node_integers(struct node *node, const char *name, int64_t *integers, int room)
{
    const json_t *json = member(node, name), *element;
    size_t i;
    if (!json)
        return 0;
    if (json_is_integer(json)) {
        integers[0] = node_integer(node, name, 0);
        return 1;
    }
    if (!json_is_array(json) || json_array_size(json) > (size_t)room) {
        module_fail(node->module, "argument \"%s\": expected an integer, or a list of at most %d integers", name, room);
        return 0;
    }
    json_array_foreach (json, i, element) {
        integers[i] = module_constant(node->module, module_read_size(node->module, element), name);
        if (integers[i] < -INT32_MAX || integers[i] > INT32_MAX)
            fail_expected(node, name, "32-bit integers");
    }
    return (int)json_array_size(json);
}

int node_sizes(struct node *node, const char *name, int *sizes, int room)
{
    const json_t *json = member(node, name), *element;
    size_t i;
    if (!json)
        return module_fail(node->module, "argument \"%s\" is missing", name);
    if (!json_is_array(json) || json_array_size(json) > (size_t)room)
        return module_fail(node->module, "argument \"%s\": expected a list of at most %d sizes", name, room);
    json_array_foreach (json, i, element)
        sizes[i] = module_read_size(node->module, element);
    return module_failed(node->module) ? -1 : (int)json_array_size(json);
}

int node_count(struct node *node, const char *name)
{
    const json_t *json = member(node, name);
    if (!json_is_array(json) || json_array_size(json) == 0 || json_array_size(json) > INT16_MAX) {
        fail_expected(node, name, "a non-empty list");
        return 0;
    }
    return (int)json_array_size(json);
}

struct tensor node_list_tensor(struct node *node, const char *name, int index)
{
    return resolve(node, name, json_array_get(json_object_get(node->json, name), (size_t)index));
}

int node_dim(struct node *node, const char *name, int rank, int64_t fallback)
{
    int64_t dim = node_integer(node, name, fallback);
    if (module_failed(node->module))
        return 0;
    if (dim < -rank || dim >= rank)
        return module_fail(node->module, "argument \"%s\" is %lld; the tensor has %d dimensions", name, (long long)dim,
                           rank),
               0;
    return (int)(dim < 0 ? dim + rank : dim);
}

void node_finish(struct node *node)
{
    const char *name;
    json_t *value;
    json_object_foreach ((json_t *)node->json, name, value) {
        bool known = strcmp(name, "op") == 0 || strcmp(name, "to") == 0;
        for (int i = 0; i < node->n_read && !known; i++)
            known = strcmp(name, node->read[i]) == 0;
        if (!known)
            module_fail(node->module, "argument \"%.80s\" is not supported", name);
    }
}

void node_give(struct node *node, struct tensor tensor)
{
    const json_t *to = json_object_get(node->json, "to");
    if (!json_is_string(to))
        module_fail(node->module, "\"to\": expected one name, since there is one result");
    else
        module_name(node->module, json_string_value(to), tensor);
}

void node_give_one(struct node *node, int index, struct tensor tensor)
{
    const json_t *to = json_object_get(node->json, "to"), *name = json_array_get(to, (size_t)index);
    if (json_is_string(to) && index == 0)
        name = to;
    if (!json_is_string(name) && !json_is_null(name))
        module_fail(node->module, "\"to\": expected a list with a name, or null, for each result");
    else if (json_is_string(name))
        module_name(node->module, json_string_value(name), tensor);
}
