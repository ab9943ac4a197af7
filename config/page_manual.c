/* The manual page, in the language of man(7). */
#include "config/pages.h"

#include <string.h>

/* Writes text so that roff prints it as it is. In roff, a hyphen may become a longer dash, a backslash begins an
 * escape, and a full stop or an apostrophe at the start of a line begins a request. */
static void write_escaped(FILE *out, const char *text)
{
    for (const char *at = text; *at; at++) {
        bool starts = at == text || at[-1] == '\n';
        if (*at == '-')
            fputs("\\-", out);
        else if (*at == '\\')
            fputs("\\e", out);
        else
            fprintf(out, "%s%c", starts && (*at == '.' || *at == '\'') ? "\\&" : "", *at);
    }
}

static void write_heading(FILE *out, const char *macro, const char *name)
{
    fprintf(out, ".%s \"%s\"\n", macro, name);
}

/* Writes a sentence such as "Values: 0 to 65535." or "Values: auto, f32 or bf16." */
static void write_values(FILE *out, const struct setting *setting)
{
    if (setting->kind == SETTING_INTEGER) {
        fprintf(out, "Values: %s%s%lld to %lld%s%s.\n", setting->word ? setting->word : "",
                setting->word ? ", or " : "", (long long)setting->minimum, (long long)setting->maximum,
                setting->unit ? " " : "", setting->unit ? setting->unit : "");
    } else if (setting->choices) {
        fputs("Values:", out);
        for (const char *const *choice = setting->choices; *choice; choice++)
            fprintf(out, "%s %s", choice == setting->choices ? "" : choice[1] ? "," : " or", *choice);
        fputs(".\n", out);
    } else if (setting->expected) {
        fputs("Values: ", out);
        write_escaped(out, setting->expected);
        fputs(".\n", out);
    }
}

static void write_setting(FILE *out, const struct setting *setting)
{
    char name[SETTING_NAME_BYTES];
    fputs(".TP\n\\fB", out);
    write_escaped(out, setting_flag(setting, name));
    fputs("\\fR", out);
    if (setting->value_name) {
        fputs(" \\fI", out);
        write_escaped(out, setting->value_name);
        fputs("\\fR", out);
    }
    fputc('\n', out);
    write_escaped(out, setting->help);
    fputc('\n', out);
    write_values(out, setting);
    if (setting->fallback) {
        fputs("Default: ", out);
        write_escaped(out, setting->fallback);
        fputs(".\n", out);
    }
    if (setting->kind <= SETTING_CONFIG)
        fprintf(out, "Variable: \\fB%s\\fR.\n", setting_environment(setting, name));
    if (setting->kind < SETTING_CONFIG)
        fprintf(out, "Key of the file: \\fB%s\\fR.\n", setting_key(setting, name));
}

static const char introduction[] = ".B linformerd\n"
                                   "serves models of the Linformer family of transformers over HTTP.\n"
                                   "A model is a folder with the files config.json and model.safetensors.\n"
                                   "Without a model, the daemon serves two small models that the program contains.\n"
                                   ".PP\n"
                                   "The daemon stays in the foreground and writes its log to standard error.\n"
                                   "When it is ready, it logs a line with \"listening on\" and its address.\n";

static const char priority[] =
    "Most settings have a flag, an environment variable, and a key in the file of \\fB\\-\\-config\\fR.\n"
    "A flag wins over its variable, the variable over the file, and the file over the default.\n"
    "A value follows its flag as the next argument, or after an equals sign.\n";

static const char ends[] =
    ".SH \"EXIT STATUS\"\n"
    ".TP\n0\nThe daemon was stopped by SIGTERM or SIGINT, and has answered what it accepted.\n"
    "Or it has printed what a flag asks for.\n"
    ".TP\n1\nThe daemon cannot start, for example because of a bad model. A message says why.\n"
    ".TP\n2\nA setting is wrong. A message names the setting, and the expected and the found value.\n"
    ".SH EXAMPLES\n"
    "Serve two models, and send a request:\n"
    ".PP\n.RS 4\n.nf\n"
    "linformerd \\-\\-model small=/srv/small \\-\\-model large=/srv/large\n"
    "curl localhost:8080/embed \\-\\-json \\(aq{\"inputs\": \"a text\", \"model\": \"small\"}\\(aq\n"
    ".fi\n.RE\n"
    ".PP\nPrint the operations of a model, with their shapes and costs:\n"
    ".PP\n.RS 4\n.nf\nlinformerd \\-\\-explain /srv/small\n.fi\n.RE\n"
    ".SH \"SEE ALSO\"\n.BR curl (1),\n.BR systemd.exec (5)\n";

void page_write_manual(FILE *out)
{
    fputs(".TH LINFORMERD 8 \"\" \"linformerd " LINFORMERD_VERSION "\" \"System Administration\"\n", out);
    fputs(".SH NAME\nlinformerd \\- serves Linformer models over HTTP\n", out);
    fputs(".SH SYNOPSIS\n.B linformerd\n[\\fB\\-\\-model\\fR [\\fINAME\\fR=]\\fIDIR\\fR]...\n"
          "[\\fB\\-\\-flag\\fR \\fIVALUE\\fR]...\n",
          out);
    fprintf(out, ".SH DESCRIPTION\n%s.SH OPTIONS\n%s", introduction, priority);
    for (size_t i = 0; i < settings_table_count; i++) {
        if (i == 0 || strcmp(settings_table[i].group, settings_table[i - 1].group) != 0)
            write_heading(out, "SS", settings_table[i].group);
        write_setting(out, &settings_table[i]);
    }
    fputs(ends, out);
}
