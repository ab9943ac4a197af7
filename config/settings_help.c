#include "config/settings_table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COLUMNS 100
#define INDENT 30 /* column where explanations begin */

/* Writes the words of `text`, broken into lines that begin at the column INDENT and end at COLUMNS or before. *column
 * is where the last line ends. */
static void write_words(FILE *out, const char *text, size_t *column)
{
    while (*text) {
        size_t length = strcspn(text, " ");
        if (*column > INDENT && *column + 1 + length > COLUMNS) {
            fprintf(out, "\n%*s", INDENT, "");
            *column = INDENT;
        } else if (*column > INDENT) {
            fputc(' ', out);
            (*column)++;
        }
        fprintf(out, "%.*s", (int)length, text);
        *column += length;
        text += length + strspn(text + length, " ");
    }
}

/* Writes the choices, such as "auto, f32 or bf16". */
static void write_choices(FILE *out, const char *const *choices)
{
    for (const char *const *choice = choices; *choice; choice++)
        fprintf(out, "%s%s", choice == choices ? "" : choice[1] ? ", " : " or ", *choice);
}

/* Writes the lines below the explanation, such as "Default: 60 seconds. Variable: LINFORMERD_CONNECTION_TIMEOUT_S." */
static void write_sources(FILE *out, const struct setting *setting)
{
    char name[SETTING_NAME_BYTES];
    bool counted = setting->unit && !setting->word && strcmp(setting->fallback, "0") != 0;
    fprintf(out, "%*s", INDENT, "");
    if (setting->choices) {
        fputs("Values: ", out);
        write_choices(out, setting->choices);
        fprintf(out, ".\n%*s", INDENT, "");
    }
    if (setting->fallback)
        fprintf(out, "Default: %s%s%s. ", setting->fallback, counted ? " " : "", counted ? setting->unit : "");
    fprintf(out, "Variable: %s.\n", setting_environment(setting, name));
}

static void write_setting(FILE *out, const struct setting *setting)
{
    int width = fprintf(out, "  --%s%s%s", setting->flag, setting->value_name ? " " : "",
                        setting->value_name ? setting->value_name : "");
    fprintf(out, "%*s", width < INDENT ? INDENT - width : 1, "");
    size_t column = INDENT;
    write_words(out, setting->help, &column);
    fputc('\n', out);
    if (setting->kind <= SETTING_CONFIG)
        write_sources(out, setting);
}

char *settings_help(void)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (!out)
        return NULL;
    fputs("linformerd " LINFORMERD_VERSION " serves Linformer models over HTTP.\n"
          "\n"
          "Usage: linformerd [--model [NAME=]DIR]... [--flag VALUE]...\n"
          "\n"
          "Example: linformerd --model small=models/small --port 8080\n"
          "\n"
          "A flag wins over its environment variable, the variable over the file of --config, the file over\n"
          "the default.\n",
          out);
    for (size_t i = 0; i < settings_table_count; i++) {
        if (i == 0 || strcmp(settings_table[i].group, settings_table[i - 1].group) != 0)
            fprintf(out, "\n%s\n", settings_table[i].group);
        write_setting(out, &settings_table[i]);
    }
    int failed = ferror(out);
    if (fclose(out) != 0 || failed) {
        free(text);
        return NULL;
    }
    return text;
}
