/* Reads the settings. The sources are applied in ascending priority: defaults, file, environment, flags. Each value is
 * checked when its source is read. */
#include "config/settings_table.h"
#include "config/text.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(sizeof(enum log_format) == sizeof(int) && sizeof(enum log_level) == sizeof(int) &&
                   sizeof(enum dtype) == sizeof(int) && sizeof(enum instruction_set) == sizeof(int) &&
                   sizeof(enum product_library) == sizeof(int) && sizeof(enum cuda_f32) == sizeof(int),
               "a SETTING_CHOICE is stored as an int");

/* ---- Values --------------------------------------------------------------------------------------------------- */

static int refuse_value(const struct setting *setting, const char *expected, const char *value, struct error *error)
{
    if (setting->secret)
        return error_set(error, "expected %s; the found value is not shown", expected);
    return error_set(error, "expected %s, found '%.100s'", expected, value);
}

static int apply_integer(const struct setting *setting, const char *value, int64_t *field, struct error *error)
{
    const char *digits = value + (*value == '-');
    char *end;
    if (setting->word && strcmp(value, setting->word) == 0) {
        *field = 0;
        return 0;
    }
    errno = 0;
    long long number = strtoll(value, &end, 10);
    bool is_integer = isdigit((unsigned char)*digits) && *end == '\0' && errno == 0;
    if (!is_integer || number < setting->minimum || number > setting->maximum) {
        char expected[96];
        snprintf(expected, sizeof expected, "%s%s%s from %lld to %lld", setting->word ? setting->word : "",
                 setting->word ? " or " : "", setting->unit ? setting->unit : "a number", (long long)setting->minimum,
                 (long long)setting->maximum);
        return refuse_value(setting, expected, value, error);
    }
    *field = number;
    return 0;
}

/* The index of `value` in the list of choices, or -1. */
static int find_choice(const struct setting *setting, const char *value, struct error *error)
{
    char expected[96] = "one of ";
    for (int i = 0; setting->choices[i]; i++)
        if (strcmp(setting->choices[i], value) == 0)
            return i;
    for (int i = 0; setting->choices[i]; i++)
        snprintf(expected + strlen(expected), sizeof expected - strlen(expected), "%s%s", i ? ", " : "",
                 setting->choices[i]);
    return refuse_value(setting, expected, value, error);
}

static int apply_text(const struct setting *setting, const char *value, char **field, struct error *error)
{
    if (setting->is_valid && !setting->is_valid(value))
        return refuse_value(setting, setting->expected, value, error);
    char *copy = strdup(value);
    if (!copy)
        return error_set(error, "out of memory");
    free(*field);
    *field = copy;
    return 0;
}

static void free_models(struct settings *settings)
{
    for (size_t i = 0; i < settings->n_models; i++) {
        free(settings->models[i].name);
        free(settings->models[i].path);
    }
    free(settings->models);
    settings->models = NULL;
    settings->n_models = 0;
}

/* Appends the model that the `length` bytes "DIR" or "NAME=DIR" describe. */
static int add_model(struct settings *settings, const char *value, size_t length, struct error *error)
{
    const char *equals = memchr(value, '=', length);
    if (equals == value)
        return error_set(error, "the name before = is empty in '%.*s'; if this is a folder, write ./%.*s", (int)length,
                         value, (int)length, value);
    bool named = equals && !memchr(value, '/', (size_t)(equals - value));
    const char *path = named ? equals + 1 : value;
    size_t path_length = length - (size_t)(path - value);
    if (path_length == 0)
        return error_set(error, "expected a folder or NAME=FOLDER, found '%.*s'", (int)length, value);

    struct model_source *models = realloc(settings->models, (settings->n_models + 1) * sizeof *models);
    if (!models)
        return error_set(error, "out of memory");
    settings->models = models;
    struct model_source *model = &models[settings->n_models++];
    model->name = named ? strndup(value, (size_t)(equals - value)) : NULL;
    model->path = strndup(path, path_length);
    return model->path && (model->name || !named) ? 0 : error_set(error, "out of memory");
}

/* Adds the models of a list in the environment, such as "first,name=second". */
static int add_models(struct settings *settings, const char *list, struct error *error)
{
    for (;;) {
        size_t length = strcspn(list, ",");
        if (add_model(settings, list, length, error) != 0)
            return -1;
        if (list[length] == '\0')
            return 0;
        list += length + 1;
    }
}

static int check_model_names(const struct settings *settings, struct error *error)
{
    for (size_t i = 0; i < settings->n_models; i++)
        for (size_t j = 0; j < i && settings->models[i].name; j++)
            if (settings->models[j].name && strcmp(settings->models[i].name, settings->models[j].name) == 0)
                return error_set(error, "two models have the name '%.100s'", settings->models[i].name);
    return 0;
}

/* Refuses --protect-metrics without an API key. Without a key /metrics would stay open, which nobody would notice. Also
 * refuses one half of a pair of TLS files. */
static int check_protection(const struct settings *settings, struct error *error)
{
    if (settings->protect_metrics && !settings->api_key && !settings->api_key_file)
        return error_set(error,
                         "--protect-metrics requires an API key, but neither --api-key nor --api-key-file is set");
    if (!settings->tls_certificate != !settings->tls_key)
        return error_set(error, "--tls-certificate and --tls-key must be set together, but --%s is not set",
                         settings->tls_key ? "tls-certificate" : "tls-key");
    return 0;
}

/* Sets any member of struct settings, except models. */
static int apply(const struct setting *setting, const char *value, struct settings *settings, struct error *error)
{
    void *field = (char *)settings + setting->offset;
    if (*value == '\0')
        return error_set(error, "the value is empty");
    if (setting->kind == SETTING_INTEGER)
        return apply_integer(setting, value, field, error);
    if (setting->kind == SETTING_TEXT)
        return apply_text(setting, value, field, error);
    if (setting->kind == SETTING_DEVICE)
        return device_choice_parse(value, field, error);
    int choice = find_choice(setting, value, error);
    if (choice < 0)
        return -1;
    if (setting->kind == SETTING_BOOL)
        *(bool *)field = choice == 1;
    else
        memcpy(field, &choice, sizeof choice);
    return 0;
}

static int apply_defaults(struct settings *settings, struct error *error)
{
    for (size_t i = 0; i < settings_table_count; i++)
        if (settings_table[i].fallback && apply(&settings_table[i], settings_table[i].fallback, settings, error) != 0)
            return error_prefix(error, "default of --%s", settings_table[i].flag);
    return 0;
}

/* ---- Names ---------------------------------------------------------------------------------------------------- */

/* A source in which settings have names: flags, environment or file. */
struct setting_place {
    const char *what;
    setting_spelling *spelling;
    enum setting_kind last; /* last kind of setting that is allowed in this source */
};

static const struct setting_place file_place = {"key", setting_key, SETTING_MODELS};
static const struct setting_place environment_place = {"environment variable", setting_environment, SETTING_CONFIG};
static const struct setting_place flag_place = {"flag", setting_flag, SETTING_VERSION};

/* The setting whose name in this source equals the first `length` bytes of `name`, or NULL. */
static const struct setting *find(const struct setting_place *place, const char *name, size_t length)
{
    const struct setting *setting = setting_find(name, length, place->spelling);
    return setting && setting->kind <= place->last ? setting : NULL;
}

/* Fails for an unknown name. The first `prefix` bytes of `name`, dashes or LINFORMERD_, do not belong to the name in
 * the table. */
static int refuse_name(const struct setting_place *place, const char *name, size_t length, size_t prefix,
                       struct error *error)
{
    char spelled[SETTING_NAME_BYTES];
    const struct setting *nearest = setting_nearest(name + prefix, length - prefix, place->last);
    int shown = length > 100 ? 100 : (int)length;
    if (nearest)
        return error_set(error, "unknown %s %.*s; did you mean %s?", place->what, shown, name,
                         place->spelling(nearest, spelled));
    return error_set(error, "unknown %s %.*s; linformerd --help lists all settings", place->what, shown, name);
}

/* ---- The file ------------------------------------------------------------------------------------------------- */

static int apply_member_models(const json_t *value, struct settings *settings, struct error *error)
{
    if (json_is_string(value))
        return add_model(settings, json_string_value(value), json_string_length(value), error);
    if (!json_is_array(value))
        return error_set(error, "expected a string or a list of strings");
    for (size_t i = 0; i < json_array_size(value); i++) {
        const json_t *model = json_array_get(value, i);
        if (!json_is_string(model))
            return error_set(error, "expected a string or a list of strings");
        if (add_model(settings, json_string_value(model), json_string_length(model), error) != 0)
            return -1;
    }
    return 0;
}

static int apply_member(const struct setting *setting, const json_t *value, struct settings *settings,
                        struct error *error)
{
    char text[80];
    if (setting->kind == SETTING_MODELS)
        return apply_member_models(value, settings, error);
    if (setting->kind == SETTING_INTEGER && json_is_integer(value))
        return apply(setting, text_describe(value, text, sizeof text), settings, error);
    if (setting->kind == SETTING_BOOL && json_is_boolean(value))
        return apply(setting, json_is_true(value) ? "true" : "false", settings, error);
    bool is_word = setting->word && json_is_string(value) && strcmp(json_string_value(value), setting->word) == 0;
    if (is_word || (setting->kind != SETTING_INTEGER && setting->kind != SETTING_BOOL && json_is_string(value)))
        return apply(setting, json_string_value(value), settings, error);
    const char *expected = setting->word                      ? "an integer or \"auto\""
                           : setting->kind == SETTING_INTEGER ? "an integer"
                           : setting->kind == SETTING_BOOL    ? "true or false"
                                                              : "a string";
    return refuse_value(setting, expected, text_describe(value, text, sizeof text), error);
}

static int apply_file(const char *path, struct settings *settings, struct error *error)
{
    size_t length;
    if (*path == '\0') /* an empty flag value was refused before */
        return error_set(error, SETTING_ENVIRONMENT_PREFIX "CONFIG: the value is empty");
    char *text = file_read(path, TEXT_FILE_LIMIT_BYTES, &length, error);
    if (!text)
        return -1;
    /* The message must not quote the text, which may contain the API key. */
    json_t *object = text_parse_object(text, length, false, error);
    free(text);
    if (!object)
        return error_prefix(error, "%s", path);
    int result = 0;
    const char *key;
    json_t *value;
    json_object_foreach (object, key, value) {
        const struct setting *setting = find(&file_place, key, strlen(key));
        if (!setting)
            result = refuse_name(&file_place, key, strlen(key), 0, error);
        else if (apply_member(setting, value, settings, error) != 0)
            result = error_prefix(error, "%s", key);
        if (result != 0)
            break;
    }
    json_decref(object);
    return result == 0 ? 0 : error_prefix(error, "%s", path);
}

/* ---- The environment ------------------------------------------------------------------------------------------ */

/* Whether Kubernetes set the variable. Kubernetes gives every pod variables about every service. If the name of a
 * service begins with linformerd, its variables look like settings: LINFORMERD_SERVICE_HOST,
 * LINFORMERD_PORT_8080_TCP_ADDR, and LINFORMERD_PORT=tcp://10.0.0.1:8080. `variable` has an equals sign. */
static bool is_service_link(const char *variable)
{
    const char *equals = strchr(variable, '=');
    const char *service = strstr(variable, "_SERVICE_");
    if (service && service < equals)
        return strncmp(service, "_SERVICE_HOST=", 14) == 0 || strncmp(service, "_SERVICE_PORT", 13) == 0;
    const char *port = strstr(variable, "_PORT");
    if (!port || port > equals)
        return false;
    if (port + 5 == equals)
        return strncmp(equals, "=tcp://", 7) == 0 || strncmp(equals, "=udp://", 7) == 0;
    return port[5] == '_' && isdigit((unsigned char)port[6]);
}

static bool is_ours(const char *variable)
{
    return strncmp(variable, SETTING_ENVIRONMENT_PREFIX, strlen(SETTING_ENVIRONMENT_PREFIX)) == 0 &&
           strchr(variable, '=') && !is_service_link(variable);
}

/* The value of LINFORMERD_CONFIG, or NULL. */
static const char *find_file(char **environment)
{
    const char *name = SETTING_ENVIRONMENT_PREFIX "CONFIG=";
    for (char **variable = environment; *variable; variable++)
        if (strncmp(*variable, name, strlen(name)) == 0)
            return *variable + strlen(name);
    return NULL;
}

static int apply_variable(const char *variable, struct settings *settings, struct error *error)
{
    size_t length = strcspn(variable, "=");
    const char *value = variable + length + 1;
    const struct setting *setting = find(&environment_place, variable, length);
    if (!setting)
        return refuse_name(&environment_place, variable, length, strlen(SETTING_ENVIRONMENT_PREFIX), error);
    int result = 0;
    if (setting->kind == SETTING_MODELS) {
        free_models(settings);
        result = add_models(settings, value, error);
    } else if (setting->kind != SETTING_CONFIG) {
        result = apply(setting, value, settings, error);
    }
    return result == 0 ? 0 : error_prefix(error, "%.*s", (int)length, variable);
}

static int apply_environment(char **environment, struct settings *settings, struct error *error)
{
    for (char **variable = environment; *variable; variable++)
        if (is_ours(*variable) && apply_variable(*variable, settings, error) != 0)
            return -1;
    return 0;
}

/* ---- Flags ---------------------------------------------------------------------------------------------------- */

/* A walk over the command line. argv[at] is the next argument. */
struct flags {
    int argc;
    char **argv;
    int at;
    const struct setting *setting; /* the setting of the last flag */
    const char *value;             /* NULL if the flag has no value */
};

static int refuse_flag(const struct flags *flags, const char *argument, size_t length, struct error *error)
{
    size_t dashes = strspn(argument, "-");
    if (dashes > 0 && dashes < length) {
        for (size_t i = 0; i < settings_table_count; i++) {
            const char *flag = settings_table[i].flag;
            if (settings_table[i].secret && strncmp(argument + dashes, flag, strlen(flag)) == 0)
                return error_set(error, "unknown flag that begins with --%s; write --%s=%s", flag, flag,
                                 settings_table[i].value_name);
        }
        return refuse_name(&flag_place, argument, length, dashes, error);
    }
    if (flags->setting && flags->setting->secret)
        return error_set(error, "unexpected argument after --%s; quote a value with spaces", flags->setting->flag);
    return error_set(error, "unexpected argument '%.100s'; use --model for the folder of a model", argument);
}

/* Reads the next flag and its value into `flags`. Returns 1 if there was one, 0 at the end, and -1 after an error. */
static int next_flag(struct flags *flags, struct error *error)
{
    if (flags->at >= flags->argc)
        return 0;
    const char *argument = flags->argv[flags->at++];
    size_t length = strcspn(argument, "=");
    const struct setting *setting = find(&flag_place, argument, length);
    if (!setting)
        return refuse_flag(flags, argument, length, error);
    flags->setting = setting;
    flags->value = argument[length] == '=' ? argument + length + 1 : NULL;
    if (setting->kind == SETTING_BOOL && !flags->value)
        flags->value = "true";
    if (!setting->value_name && setting->kind != SETTING_BOOL && flags->value)
        return error_set(error, "--%s does not accept a value", setting->flag);
    if (setting->value_name && !flags->value) {
        const char *next = flags->at < flags->argc ? flags->argv[flags->at] : "--";
        bool missing = strncmp(next, "--", 2) == 0;
        if (missing && setting->kind == SETTING_EXPLAIN)
            return 1;
        if (missing)
            return error_set(error, "--%s needs a value, as in --%s=%s", setting->flag, setting->flag,
                             setting->value_name);
        flags->value = next;
        flags->at++;
    }
    return 1;
}

/* Finds --help or --version, which are obeyed even if other arguments are wrong. Otherwise returns SETTINGS_SERVE. */
static enum settings_action find_action(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            return SETTINGS_HELP;
        if (strcmp(argv[i], "--version") == 0)
            return SETTINGS_VERSION;
    }
    return SETTINGS_SERVE;
}

/* Reads the flags that do not belong to struct settings: --config, --explain and --check. *file, *explain and
 * *action stay unchanged if their flags are missing. */
static int read_side_flags(int argc, char **argv, const char **file, const char **explain, enum settings_action *action,
                           struct error *error)
{
    struct flags flags = {.argc = argc, .argv = argv, .at = 1};
    int result;
    while ((result = next_flag(&flags, error)) == 1) {
        enum setting_kind kind = flags.setting->kind;
        if (kind == SETTING_CHECK && *action != SETTINGS_EXPLAIN)
            *action = SETTINGS_CHECK;
        if (kind != SETTING_CONFIG && kind != SETTING_EXPLAIN)
            continue;
        if (flags.value && *flags.value == '\0')
            return error_set(error, "--%s: the value is empty", flags.setting->flag);
        *(kind == SETTING_CONFIG ? file : explain) = flags.value;
        if (kind == SETTING_EXPLAIN)
            *action = SETTINGS_EXPLAIN;
    }
    return result;
}

static int apply_flags(int argc, char **argv, struct settings *settings, struct error *error)
{
    struct flags flags = {.argc = argc, .argv = argv, .at = 1};
    bool models_replaced = false;
    int result;
    while ((result = next_flag(&flags, error)) == 1) {
        if (flags.setting->kind == SETTING_MODELS) {
            if (!models_replaced)
                free_models(settings);
            models_replaced = true;
            result = add_model(settings, flags.value, strlen(flags.value), error);
        } else if (flags.setting->kind < SETTING_MODELS) {
            result = apply(flags.setting, flags.value, settings, error);
        }
        if (result < 0)
            return error_prefix(error, "--%s", flags.setting->flag);
    }
    return result;
}

/* ---- All of it ------------------------------------------------------------------------------------------------ */

int settings_read(int argc, char **argv, char **environment, struct settings *settings, enum settings_action *action,
                  const char **explain, struct error *error)
{
    *settings = (struct settings){0};
    *explain = NULL;
    *action = find_action(argc, argv);
    if (*action != SETTINGS_SERVE)
        return 0;
    const char *file = find_file(environment);
    if (read_side_flags(argc, argv, &file, explain, action, error) != 0)
        return -1;
    if (apply_defaults(settings, error) != 0 || (file && apply_file(file, settings, error) != 0) ||
        apply_environment(environment, settings, error) != 0 || apply_flags(argc, argv, settings, error) != 0 ||
        check_model_names(settings, error) != 0 || check_protection(settings, error) != 0) {
        settings_free(settings);
        return -1;
    }
    return 0;
}

void settings_free(struct settings *settings)
{
    free_models(settings);
    for (size_t i = 0; i < settings_table_count; i++)
        if (settings_table[i].kind == SETTING_TEXT)
            free(*(char **)((char *)settings + settings_table[i].offset));
    *settings = (struct settings){0};
}
