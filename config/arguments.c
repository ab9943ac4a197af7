/* arguments: reads the arguments of a Python class through a table. */
#include "config/text.h"

#include <assert.h>
#include <string.h>

#define SIZE_LIMIT INT32_MAX

/* Index: enum argument_type. */
static const char *const type_descriptions[] = {
    "an integer from 1 to 2147483647",           /* ARGUMENT_SIZE */
    "an integer from 1 to 2147483647 or null",   /* ARGUMENT_OPTIONAL_SIZE */
    "an integer from 0 to 2147483647",           /* ARGUMENT_COUNT */
    "an integer from 0 to 2147483647 or null",   /* ARGUMENT_OPTIONAL_COUNT */
    "an integer from -2147483647 to 2147483647", /* ARGUMENT_INTEGER */
    "true or false",                             /* ARGUMENT_BOOL */
    "an object or null",                         /* ARGUMENT_OBJECT */
    "a number from 0 to 1",                      /* ARGUMENT_DROPOUT */
    "any value",                                 /* ARGUMENT_TRAINING */
    "any value",                                 /* ARGUMENT_JSON */
};

static int expected(const struct argument *argument, const json_t *value, struct error *error)
{
    char found[80];
    return error_set(error, "argument %s: expected %s, found %s", argument->name, type_descriptions[argument->type],
                     text_describe(value, found, sizeof found));
}

static bool is_integer_from(const json_t *value, int64_t minimum)
{
    return json_is_integer(value) && json_integer_value(value) >= minimum && json_integer_value(value) <= SIZE_LIMIT;
}

/* Whether `value` is of the argument's type and range. */
static bool is_acceptable(enum argument_type type, const json_t *value)
{
    switch (type) {
    case ARGUMENT_SIZE:
        return is_integer_from(value, 1);
    case ARGUMENT_OPTIONAL_SIZE:
        return json_is_null(value) || is_integer_from(value, 1);
    case ARGUMENT_COUNT:
        return is_integer_from(value, 0);
    case ARGUMENT_OPTIONAL_COUNT:
        return json_is_null(value) || is_integer_from(value, 0);
    case ARGUMENT_INTEGER:
        return is_integer_from(value, -SIZE_LIMIT);
    case ARGUMENT_BOOL:
        return json_is_boolean(value);
    case ARGUMENT_OBJECT:
        return json_is_null(value) || json_is_object(value);
    case ARGUMENT_DROPOUT:
        return json_is_number(value) && json_number_value(value) >= 0 && json_number_value(value) <= 1;
    case ARGUMENT_TRAINING:
    case ARGUMENT_JSON:
        return true;
    }
    return false;
}

/* Writes `value` into the family's struct. If `value` is NULL, writes the fallback. */
static void store(const struct argument *argument, const json_t *value, void *out)
{
    char *field = (char *)out + argument->offset;
    int64_t number = !value ? argument->fallback : json_is_integer(value) ? json_integer_value(value) : 0;
    bool truth = value ? json_is_true(value) : argument->fallback != 0;
    switch (argument->type) {
    case ARGUMENT_SIZE:
    case ARGUMENT_OPTIONAL_SIZE:
    case ARGUMENT_COUNT:
    case ARGUMENT_OPTIONAL_COUNT:
    case ARGUMENT_INTEGER:
        memcpy(field, &number, sizeof number);
        break;
    case ARGUMENT_BOOL:
        memcpy(field, &truth, sizeof truth);
        break;
    case ARGUMENT_OBJECT:
        value = json_is_null(value) ? NULL : value;
        memcpy(field, &value, sizeof value);
        break;
    case ARGUMENT_JSON:
        memcpy(field, &value, sizeof value);
        break;
    case ARGUMENT_DROPOUT:
    case ARGUMENT_TRAINING:
        break;
    }
}

/* Fails if `kwargs` contains an argument that is not in the table. */
static int refuse_unknown(const struct argument *table, size_t count, const json_t *kwargs, struct error *error)
{
    const char *name;
    json_t *value;
    json_object_foreach ((json_t *)kwargs, name, value) {
        size_t i = 0;
        while (i < count && strcmp(table[i].name, name) != 0)
            i++;
        if (i < count)
            continue;
        char known[sizeof error->message] = "";
        for (i = 0; i < count; i++)
            text_list_add(known, sizeof known, table[i].name);
        return error_set(error, "unknown argument \"%.60s\"; the class has %s", name, count ? known : "none");
    }
    return 0;
}

int arguments_read(const char *class_name, const struct argument *table, size_t count, const json_t *kwargs, void *out,
                   struct error *error)
{
    assert(json_is_object(kwargs));
    if (refuse_unknown(table, count, kwargs, error) != 0)
        return error_prefix(error, "%s", class_name);
    for (size_t i = 0; i < count; i++) {
        const json_t *value = json_object_get(kwargs, table[i].name);
        if (!value && table[i].required) {
            error_set(error, "argument %s is missing; expected %s", table[i].name, type_descriptions[table[i].type]);
            return error_prefix(error, "%s", class_name);
        }
        if (value && !is_acceptable(table[i].type, value)) {
            expected(&table[i], value, error);
            return error_prefix(error, "%s", class_name);
        }
        store(&table[i], value, out);
    }
    return 0;
}
