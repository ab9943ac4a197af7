/* settings_live: the settings that may change while the daemon serves. */
#include "config/settings_table.h"

#include <stdatomic.h>
#include <string.h>

_Static_assert(sizeof(_Atomic int64_t) == sizeof(int64_t) && sizeof(_Atomic bool) == sizeof(bool),
               "a live setting is read through its plain type while the settings are parsed");

static bool equal_texts(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

static bool equal_models(const struct settings *a, const struct settings *b)
{
    bool equal = a->n_models == b->n_models;
    for (size_t i = 0; equal && i < a->n_models; i++)
        equal = equal_texts(a->models[i].name, b->models[i].name) && equal_texts(a->models[i].path, b->models[i].path);
    return equal;
}

static bool equal_devices(const struct device_choice *a, const struct device_choice *b)
{
    char name_a[DEVICE_CHOICE_NAME_BYTES], name_b[DEVICE_CHOICE_NAME_BYTES];
    return strcmp(device_choice_name(a, name_a), device_choice_name(b, name_b)) == 0;
}

static bool equal(const struct setting *setting, const struct settings *a, const struct settings *b)
{
    const void *of_a = (const char *)a + setting->offset, *of_b = (const char *)b + setting->offset;
    switch (setting->kind) {
    case SETTING_INTEGER:
        return *(const int64_t *)of_a == *(const int64_t *)of_b;
    case SETTING_TEXT:
        return equal_texts(*(char *const *)of_a, *(char *const *)of_b);
    case SETTING_CHOICE:
        return *(const int *)of_a == *(const int *)of_b;
    case SETTING_DEVICE:
        return equal_devices(of_a, of_b);
    case SETTING_BOOL:
        return *(const bool *)of_a == *(const bool *)of_b;
    case SETTING_MODELS:
        return equal_models(a, b);
    case SETTING_CONFIG:
    case SETTING_EXPLAIN:
    case SETTING_CHECK:
    case SETTING_HELP:
    case SETTING_VERSION:
        break;
    }
    return true;
}

static void copy(const struct setting *setting, const struct settings *from, struct settings *to)
{
    const void *source = (const char *)from + setting->offset;
    void *target = (char *)to + setting->offset;
    if (setting->kind == SETTING_INTEGER)
        atomic_store((_Atomic int64_t *)target, *(const int64_t *)source);
    else if (setting->kind == SETTING_BOOL)
        atomic_store((_Atomic bool *)target, *(const bool *)source);
}

void settings_apply(const struct settings *started, const struct settings *changed, struct settings *running,
                    void (*fixed)(void *context, const char *flag), void *context)
{
    for (size_t i = 0; i < settings_table_count; i++) {
        const struct setting *setting = &settings_table[i];
        if (setting->live)
            copy(setting, changed, running);
        else if (!equal(setting, started, changed))
            fixed(context, setting->flag);
    }
}
