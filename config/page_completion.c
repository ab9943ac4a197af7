/* Completion of flags and values, for bash and zsh. */
#include "config/pages.h"

#include <string.h>

/* What completes the value of a flag. */
enum completed { COMPLETED_NOTHING, COMPLETED_CHOICES, COMPLETED_FOLDERS, COMPLETED_FILES };

/* Values of SETTING_DEVICE that need no number. */
static const char *const devices[] = {"auto", "cpu", "cuda", "cuda:all", NULL};

static const char *const *choices_of(const struct setting *setting)
{
    return setting->kind == SETTING_DEVICE ? devices : setting->choices;
}

/* The name of a value says whether it is a path: "[NAME=]DIR", "FILE". */
static enum completed completed_by(const struct setting *setting)
{
    if (choices_of(setting))
        return COMPLETED_CHOICES;
    if (setting->value_name && strstr(setting->value_name, "DIR"))
        return COMPLETED_FOLDERS;
    if (setting->value_name && (strstr(setting->value_name, "FILE") || strstr(setting->value_name, "PATH")))
        return COMPLETED_FILES;
    return COMPLETED_NOTHING;
}

/* ---- bash ---- */

/* Bash splits words at =. So the flag is one or more words before its value, and NAME=DIR is three words. */
static const char bash_begin[] = "# Completion of linformerd's flags for bash.\n"
                                 "_linformerd() {\n"
                                 "    local word=${COMP_WORDS[COMP_CWORD]} at=$((COMP_CWORD - 1)) joined=\n"
                                 "    [ \"$word\" != = ] || { word='' && joined=1; }\n"
                                 "    [ \"${COMP_WORDS[at]}\" != = ] || joined=1\n"
                                 "    while [ \"$at\" -gt 0 ] && [[ ${COMP_WORDS[at]} != --* ]] &&\n"
                                 "        [[ ${COMP_WORDS[at]} == = || ${COMP_WORDS[at + 1]} == = ]]; do\n"
                                 "        at=$((at - 1))\n"
                                 "    done\n"
                                 "    COMPREPLY=()\n"
                                 "    case ${COMP_WORDS[at]} in\n";

static const char bash_end[] = "    mapfile -t COMPREPLY < <(compgen -W \"$flags\" -- \"$word\")\n"
                               "}\n"
                               "complete -F _linformerd linformerd\n";

/* Writes a line of the case statement: what completes the value of this flag. A flag of SETTING_BOOL has a value only
 * after =. */
static void write_bash_values(FILE *out, const struct setting *setting)
{
    enum completed completed = completed_by(setting);
    if (!setting->value_name && setting->kind != SETTING_BOOL)
        return;
    fprintf(out, "    --%s)\n", setting->flag);
    if (completed == COMPLETED_CHOICES) {
        fputs("        mapfile -t COMPREPLY < <(compgen -W '", out);
        for (const char *const *choice = choices_of(setting); *choice; choice++)
            fprintf(out, "%s%s", choice == choices_of(setting) ? "" : " ", *choice);
        fputs("' -- \"$word\")\n", out);
    } else if (completed != COMPLETED_NOTHING) {
        fprintf(
            out,
            "        compopt -o filenames 2>/dev/null\n        mapfile -t COMPREPLY < <(compgen -%c -- \"$word\")\n",
            completed == COMPLETED_FOLDERS ? 'd' : 'f');
    }
    fputs(setting->kind == SETTING_BOOL ? "        [ -z \"$joined\" ] || return\n        ;;\n"
                                        : "        return\n        ;;\n",
          out);
}

void page_write_bash(FILE *out)
{
    fputs(bash_begin, out);
    for (size_t i = 0; i < settings_table_count; i++)
        write_bash_values(out, &settings_table[i]);
    fputs("    esac\n    local flags='", out);
    for (size_t i = 0; i < settings_table_count; i++)
        fprintf(out, "%s--%s", i > 0 ? " " : "", settings_table[i].flag);
    fputs("'\n", out);
    fputs(bash_end, out);
}

/* ---- zsh ---- */

/* Writes a part of an argument of _arguments, within single quotes. A backslash precedes each character of `special`,
 * because these characters have a meaning in this part. */
static void write_zsh_escaped(FILE *out, const char *text, size_t length, const char *special)
{
    for (size_t i = 0; i < length; i++)
        if (text[i] == '\'')
            fputs("'\\''", out);
        else
            fprintf(out, "%s%c", strchr(special, text[i]) ? "\\" : "", text[i]);
}

/* The length of the first sentence, without its full stop. */
static size_t first_sentence(const char *help)
{
    const char *end = strstr(help, ". ");
    size_t length = end ? (size_t)(end - help) : strlen(help);
    return length > 0 && help[length - 1] == '.' ? length - 1 : length;
}

/* As in '--dtype=[Number format]:DTYPE:(auto f32)'. Two colons before the name of the value mean that the value is
 * optional. */
static void write_zsh_setting(FILE *out, const struct setting *setting)
{
    bool is_bool = setting->kind == SETTING_BOOL, is_optional = is_bool || setting->kind == SETTING_EXPLAIN;
    const char *value = is_bool ? "value" : setting->value_name;
    fprintf(out, "    '%s--%s%s[", setting->kind == SETTING_MODELS ? "*" : "", setting->flag,
            is_bool ? "=-"
            : value ? "="
                    : "");
    write_zsh_escaped(out, setting->help, first_sentence(setting->help), "[]:\\");
    fputc(']', out);
    if (value) {
        fputs(is_optional ? "::" : ":", out);
        write_zsh_escaped(out, value, strlen(value), ":\\");
        fputc(':', out);
    }
    enum completed completed = completed_by(setting);
    if (completed == COMPLETED_CHOICES) {
        for (const char *const *choice = choices_of(setting); *choice; choice++) {
            fputc(choice == choices_of(setting) ? '(' : ' ', out);
            write_zsh_escaped(out, *choice, strlen(*choice), ":\\");
        }
        fputc(')', out);
    } else if (value) {
        fputs(completed == COMPLETED_FOLDERS ? "_directories" : completed == COMPLETED_FILES ? "_files" : " ", out);
    }
    fputs("' \\\n", out);
}

void page_write_zsh(FILE *out)
{
    fputs("#compdef linformerd\n_arguments \\\n", out);
    for (size_t i = 0; i < settings_table_count; i++)
        write_zsh_setting(out, &settings_table[i]);
    fputs("    && return 0\nreturn 1\n", out);
}
