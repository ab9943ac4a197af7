/* Tests of the parts of documents that follow from tables in the code:
 * - docs/configuration.md and config/linformerd.example.json contain every setting.
 * - docs/serving-a-model.md contains every key of config.json and every class.
 * - README.md contains every class.
 * - docs/module-graph.md contains every operation of a module's graph.
 * - docs/operations.md names every setting that changes while the daemon serves, and no other setting.
 * `make docs` runs this program with WRITE_PAGES=1. The program then writes the list of settings to
 * docs/configuration.md, instead of comparing the list. */
#include "config/settings_table.h"
#include "engine/families/family.h"
#include "engine/families/module/graph.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h> /* needs the headers above */

#define PAGE "docs/configuration.md"
#define MODEL_PAGE "docs/serving-a-model.md"
#define GRAPH_PAGE "docs/module-graph.md"
#define EXAMPLE "config/linformerd.example.json"
#define BEGIN "<!-- begin settings -->\n"
#define END "<!-- end settings -->\n"
#define LARGEST_PAGE (1 << 20)

/* ---- The list of settings ---- */

static void write_values(FILE *out, const struct setting *setting)
{
    if (setting->kind == SETTING_INTEGER) {
        fprintf(out, " Values: ");
        if (setting->word)
            fprintf(out, "`%s`, ", setting->word);
        fprintf(out, "%lld to %lld", (long long)setting->minimum, (long long)setting->maximum);
        fprintf(out, setting->unit ? " %s." : ".", setting->unit);
    } else if (setting->choices) {
        fputs(" Values:", out);
        for (const char *const *choice = setting->choices; *choice; choice++)
            fprintf(out, "%s `%s`", choice > setting->choices ? "," : "", *choice);
        fputs(".", out);
    } else if (setting->expected) {
        fprintf(out, " Values: %s.", setting->expected);
    }
}

static void write_row(FILE *out, const struct setting *setting)
{
    char name[SETTING_NAME_BYTES];
    fprintf(out, "| `--%s%s%s`", setting->flag, setting->value_name ? " " : "",
            setting->value_name ? setting->value_name : "");
    if (setting->kind <= SETTING_CONFIG)
        fprintf(out, " | `%s`", setting_environment(setting, name));
    else
        fputs(" | –", out);
    if (setting->kind < SETTING_CONFIG)
        fprintf(out, " | `%s`", setting_key(setting, name));
    else
        fputs(" | –", out);
    if (setting->fallback)
        fprintf(out, " | `%s`", setting->fallback);
    else
        fputs(" | –", out);
    fprintf(out, " | %s", setting->help);
    write_values(out, setting);
    fputs(" |\n", out);
}

/* Returns the list of settings for docs/configuration.md. The caller frees the list. */
static char *settings_list(void)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    for (size_t i = 0; i < settings_table_count; i++) {
        if (i == 0 || strcmp(settings_table[i].group, settings_table[i - 1].group) != 0)
            fprintf(out, "\n## %s\n\n| flag | variable | key | default | meaning |\n|---|---|---|---|---|\n",
                    settings_table[i].group);
        write_row(out, &settings_table[i]);
    }
    fputs("\n", out);
    fclose(out);
    return text;
}

/* ---- The page ---- */

static char *read_page(const char *path)
{
    struct error error;
    size_t length;
    char *page = file_read(path, LARGEST_PAGE, &length, &error);
    if (!page)
        fail_msg("%s", error.message);
    return page;
}

static void write_page(const char *page, const char *begin, const char *list, const char *end)
{
    FILE *out = fopen(PAGE, "we");
    assert_non_null(out);
    fprintf(out, "%.*s%s%s", (int)(begin - page), page, list, end);
    assert_int_equal(fclose(out), 0);
}

static void configuration_page_lists_the_settings_of_the_daemon(void **state)
{
    (void)state;
    char *page = read_page(PAGE), *list = settings_list();
    char *begin = strstr(page, BEGIN), *end = strstr(page, END);
    assert_non_null(begin);
    assert_non_null(end);
    begin += strlen(BEGIN);
    bool same = (size_t)(end - begin) == strlen(list) && memcmp(begin, list, strlen(list)) == 0;
    if (!same && getenv("WRITE_PAGES"))
        write_page(page, begin, list, end);
    else if (!same)
        fail_msg(PAGE " is not what the settings table says: `make docs` writes it");
    free(list);
    free(page);
}

/* ---- config.json ---- */

/* The test reads the keys from the message that refuses an unknown key, because this message lists all keys. */
static void page_has_every_key_of_config_json(void **state)
{
    (void)state;
    static const char unknown[] = "{\"no such key\": 1}", known[] = "the known ones are ";
    struct model_config config;
    struct error error;
    char *page = read_page(MODEL_PAGE), row[128], *rest = NULL;
    int keys = 0;
    assert_int_equal(model_config_parse(unknown, strlen(unknown), "config.json", &config, &error), -1);
    char *list = strstr(error.message, known);
    assert_non_null(list);
    for (char *key = strtok_r(list + strlen(known), ", ", &rest); key; key = strtok_r(NULL, ", ", &rest)) {
        snprintf(row, sizeof row, "\n| `%s` |", key);
        if (!strstr(page, row))
            fail_msg(MODEL_PAGE " lacks a row for %s", key);
        keys++;
    }
    assert_true(keys >= 7);
    free(page);
}

/* ---- Classes ---- */

/* The test reads the classes, such as "linformer.LinformerLM", from the message that refuses an unknown class. */
static void pages_have_every_class(void **state)
{
    (void)state;
    static const char known[] = "expected one of ";
    struct error error;
    char *model_page = read_page(MODEL_PAGE), *readme = read_page("README.md"), *rest = NULL;
    int classes = 0;
    assert_null(family_find("none", &error));
    char *list = strstr(error.message, known);
    assert_non_null(list);
    for (char *class = strtok_r(list + strlen(known), ", ", &rest); class; class = strtok_r(NULL, ", ", &rest)) {
        char whole[128], brief[128], alone[128];
        const char *point = strrchr(class, '.'); /* NULL for "module", which contains no point */
        snprintf(whole, sizeof whole, "`%s`", class);
        snprintf(brief, sizeof brief, "`%s`", point ? point : class);
        snprintf(alone, sizeof alone, "`%s`", point ? point + 1 : class);
        if (!strstr(model_page, whole) && !strstr(model_page, brief))
            fail_msg(MODEL_PAGE " lacks the class %s", class);
        if (!strstr(readme, alone))
            fail_msg("README.md lacks the class %s", class);
        classes++;
    }
    assert_true(classes >= 10);
    free(readme);
    free(model_page);
}

/* ---- Operations of a module's graph ---- */

static const struct module_operation *const operations[] = {module_elements, module_shapes,     module_resolution,
                                                            module_layers,   module_reductions, module_pooling,
                                                            module_products};

static bool operation_is_served(const char *name)
{
    for (size_t t = 0; t < sizeof operations / sizeof *operations; t++)
        for (const struct module_operation *o = operations[t]; o->name; o++)
            if (strcmp(o->name, name) == 0)
                return true;
    return false;
}

/* Returns the section about operations of docs/module-graph.md. The caller frees the text. */
static char *operations_part(void)
{
    char *page = read_page(GRAPH_PAGE), *begin = strstr(page, "\n## Operations\n");
    assert_non_null(begin);
    char *end = strstr(begin + 1, "\n## ");
    if (end)
        *end = '\0';
    char *part = strdup(begin);
    free(page);
    return part;
}

/* Whether the first column of the row contains the name. The column contains several names: "| `a`, `b` |". */
static bool row_names(const char *row, const char *name)
{
    char quoted[64];
    size_t cell = 2 + strcspn(row + 2, "|");
    snprintf(quoted, sizeof quoted, "`%s`", name);
    const char *found = strstr(row, quoted);
    return found && found < row + cell;
}

static void graph_page_has_every_operation(void **state)
{
    (void)state;
    char *part = operations_part();
    int missing = 0;
    for (size_t t = 0; t < sizeof operations / sizeof *operations; t++)
        for (const struct module_operation *o = operations[t]; o->name; o++) {
            bool found = false;
            for (const char *row = part; !found && (row = strstr(row, "\n| `")); row++)
                found = row_names(row + 1, o->name);
            if (!found)
                print_error(GRAPH_PAGE " lacks a row for %s\n", o->name);
            missing += !found;
        }
    free(part);
    assert_int_equal(missing, 0);
}

static void graph_page_has_no_operation_that_is_not_served(void **state)
{
    (void)state;
    char *part = operations_part(), name[64];
    int names = 0, others = 0;
    for (const char *row = part; (row = strstr(row, "\n| `")); row++) {
        const char *end = row + 3 + strcspn(row + 3, "|");
        for (const char *at = row + 3; (at = strchr(at, '`')) && at < end; at++) {
            snprintf(name, sizeof name, "%.*s", (int)strcspn(at + 1, "`"), at + 1);
            if (!operation_is_served(name))
                print_error(GRAPH_PAGE " has a row for %s, which is not served\n", name);
            others += !operation_is_served(name);
            names++;
            at += strlen(name) + 1;
        }
    }
    free(part);
    assert_int_equal(others, 0);
    assert_true(names > 100);
}

/* ---- The example ---- */

static bool value_is_default(const json_t *value, const struct setting *setting)
{
    if (setting->kind == SETTING_INTEGER && !(setting->word && strcmp(setting->word, setting->fallback) == 0))
        return json_is_integer(value) && json_integer_value(value) == atoll(setting->fallback);
    if (setting->kind == SETTING_BOOL)
        return json_is_boolean(value) && json_is_true(value) == (strcmp(setting->fallback, "true") == 0);
    return json_is_string(value) && strcmp(json_string_value(value), setting->fallback) == 0;
}

static void example_has_every_key_with_its_default(void **state)
{
    (void)state;
    json_error_t error;
    json_t *example = json_load_file(EXAMPLE, 0, &error);
    if (!example)
        fail_msg(EXAMPLE ":%d: %s", error.line, error.text);
    for (size_t i = 0; i < settings_table_count; i++) {
        char key[SETTING_NAME_BYTES];
        const struct setting *setting = &settings_table[i];
        if (setting->kind >= SETTING_CONFIG)
            continue;
        const json_t *value = json_object_get(example, setting_key(setting, key));
        if (!value)
            fail_msg(EXAMPLE " lacks %s", key);
        if (setting->fallback && !value_is_default(value, setting))
            fail_msg(EXAMPLE ": %s is not the default, %s", key, setting->fallback);
    }
    json_decref(example);
}

/* The section about reloading names each setting that changes while the daemon serves, and no other setting. */
static void section_names_the_live_settings(void **state)
{
    (void)state;
    size_t length = 0;
    struct error error;
    char *page = file_read("docs/operations.md", 1 << 20, &length, &error);
    if (!page)
        fail_msg("%s", error.message);
    char *section = strstr(page, "\n### Reload\n"), *end = section ? strstr(section + 1, "\n##") : NULL;
    assert_non_null(end);
    *end = '\0';
    for (size_t i = 0; i < settings_table_count; i++) {
        char flag[SETTING_NAME_BYTES + 2];
        snprintf(flag, sizeof flag, "`--%s`", settings_table[i].flag);
        if (settings_table[i].live != (strstr(section, flag) != NULL))
            fail_msg("docs/operations.md, Reload: %s is %s", flag,
                     settings_table[i].live ? "missing" : "not a setting that changes");
    }
    free(page);
}

static void daemon_reads_the_example(void **state)
{
    (void)state;
    char *arguments[] = {"linformerd", "--config", EXAMPLE, NULL}, *environment[] = {NULL};
    struct settings settings;
    enum settings_action action;
    const char *folder;
    struct error error;
    if (settings_read(3, arguments, environment, &settings, &action, &folder, &error) != 0)
        fail_msg("%s", error.message);
    assert_int_equal(action, SETTINGS_SERVE);
    assert_int_equal(settings.n_models, 2);
    assert_string_equal(settings.models[0].name, "small");
    assert_non_null(settings.api_key);
    settings_free(&settings);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(configuration_page_lists_the_settings_of_the_daemon),
        cmocka_unit_test(page_has_every_key_of_config_json),
        cmocka_unit_test(pages_have_every_class),
        cmocka_unit_test(graph_page_has_every_operation),
        cmocka_unit_test(graph_page_has_no_operation_that_is_not_served),
        cmocka_unit_test(example_has_every_key_with_its_default),
        cmocka_unit_test(section_names_the_live_settings),
        cmocka_unit_test(daemon_reads_the_example),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
