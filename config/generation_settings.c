/* generation_settings: the key `generation` of config.json. */
#include "config/generation_settings.h"

#include <string.h>

struct generation_settings generation_settings_default(void)
{
    return (struct generation_settings){.temperature = 1, .top_p = 1, .repetition_penalty = 1};
}

static int read_number(const json_t *value, bool valid, const char *expected, double *number, struct error *error)
{
    if (!json_is_number(value) || !valid)
        return text_expected(error, expected, value);
    *number = json_number_value(value);
    return 0;
}

static int read_key(const char *name, const json_t *value, struct generation_settings *settings, struct error *error)
{
    double number = json_number_value(value); /* 0 if the value is no number */
    if (strcmp(name, "temperature") == 0)
        return read_number(value, number > 0, "a number above 0", &settings->temperature, error);
    if (strcmp(name, "top_p") == 0)
        return read_number(value, number > 0 && number <= 1, "a number above 0, at most 1", &settings->top_p, error);
    if (strcmp(name, "min_p") == 0)
        return read_number(value, number >= 0 && number <= 1, "a number from 0 to 1", &settings->min_p, error);
    if (strcmp(name, "repetition_penalty") == 0)
        return read_number(value, number > 0, "a number above 0", &settings->repetition_penalty, error);
    if (strcmp(name, "top_k") == 0) {
        if (!json_is_integer(value) || json_integer_value(value) < 0)
            return text_expected(error, "an integer of at least 0", value);
        settings->top_k = json_integer_value(value);
        return 0;
    }
    if (strcmp(name, "do_sample") == 0) {
        if (!json_is_boolean(value))
            return text_expected(error, "true or false", value);
        settings->do_sample = json_is_true(value);
        return 0;
    }
    return error_set(error,
                     "unknown key; the known ones are do_sample, temperature, top_k, top_p, min_p, repetition_penalty");
}

int generation_settings_parse(json_t *value, struct generation_settings *settings, struct error *error)
{
    const char *name;
    json_t *member;
    if (!json_is_object(value))
        return text_expected(error, "an object", value);
    json_object_foreach (value, name, member)
        if (read_key(name, member, settings, error) != 0)
            return error_prefix(error, "%.80s", name);
    return 0;
}
