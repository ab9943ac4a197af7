/* Fuzz target: the parsers of config/. If the first line of the input is "linformerd", each further line is an argument
 * of the command line, or a variable of the environment if it begins with LINFORMERD_. Any other input is read twice:
 * as a model's config.json, and as a file of settings. The kwargs of config.json are read with a table of arguments. */
#define _GNU_SOURCE /* memfd_create */
#include "config/config.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MAX_LINES 64

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
    if (!holds)
        abort();
}

static void read_settings(int argc, char **argv, char **environment)
{
    struct settings settings;
    enum settings_action action;
    const char *explain;
    struct error error = {""};
    if (settings_read(argc, argv, environment, &settings, &action, &explain, &error) != 0) {
        require(error.message[0] != '\0' && !settings.models && !settings.host);
        return;
    }
    require(action == SETTINGS_EXPLAIN || !explain); /* `explain` is NULL for --explain without a folder */
    if (action == SETTINGS_SERVE)
        require(settings.host && settings.port >= 0 && settings.port <= 65535 && settings.max_batch_tokens >= 0);
    for (size_t i = 0; i < settings.n_models; i++)
        require(settings.models[i].path[0] != '\0');
    settings_free(&settings);
}

/* `text` ends with a zero byte. The function overwrites the line breaks in `text` with zero bytes. */
static void read_command_line(char *text)
{
    char *argv[MAX_LINES + 1] = {NULL}, *environment[MAX_LINES + 1] = {NULL};
    int n_arguments = 0, n_variables = 0;
    for (char *line; n_arguments + n_variables < MAX_LINES && (line = strsep(&text, "\n"));)
        if (strncmp(line, "LINFORMERD_", 11) == 0)
            environment[n_variables++] = line;
        else
            argv[n_arguments++] = line;
    read_settings(n_arguments, argv, environment);
}

static void read_settings_file(const uint8_t *data, size_t size)
{
    char path[32];
    int file = memfd_create("settings", MFD_CLOEXEC);
    require(file >= 0 && write(file, data, size) == (ssize_t)size);
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    char *argv[] = {"linformerd", "--config", path, NULL}, *environment[] = {NULL};
    read_settings(3, argv, environment);
    close(file);
}

static void read_arguments(const json_t *kwargs)
{
    struct family {
        int64_t dim, heads, depth;
        bool causal;
        json_t *linformer_settings, *any;
    } family;
    static const struct argument table[] = {
        {"dim", ARGUMENT_SIZE, true, 0, offsetof(struct family, dim)},
        {"heads", ARGUMENT_OPTIONAL_SIZE, false, 8, offsetof(struct family, heads)},
        {"depth", ARGUMENT_COUNT, false, 0, offsetof(struct family, depth)},
        {"causal", ARGUMENT_BOOL, false, 1, offsetof(struct family, causal)},
        {"linformer_settings", ARGUMENT_OBJECT, false, 0, offsetof(struct family, linformer_settings)},
        {"dropout", ARGUMENT_TRAINING, false, 0, 0},
        {"any", ARGUMENT_JSON, false, 0, offsetof(struct family, any)},
    };
    struct error error = {""};
    if (arguments_read("Family", table, sizeof table / sizeof *table, kwargs, &family, &error) != 0) {
        require(strncmp(error.message, "Family: ", 8) == 0);
        return;
    }
    require(family.dim >= 1 && family.heads >= 0 && family.depth >= 0);
    require(!family.linformer_settings || json_is_object(family.linformer_settings));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char first_line[] = "linformerd\n";
    if (size >= sizeof first_line - 1 && memcmp(data, first_line, sizeof first_line - 1) == 0) {
        char *text = strndup((const char *)data, size);
        require(text);
        read_command_line(text);
        free(text);
        return 0;
    }
    struct model_config config;
    struct error error = {""};
    if (model_config_parse((const char *)data, size, "input", &config, &error) == 0) {
        require(config.architecture && json_is_object(config.kwargs));
        read_arguments(config.kwargs);
        model_config_free(&config);
    } else {
        require(strncmp(error.message, "input: ", 7) == 0 && !config.architecture);
    }
    read_settings_file(data, size);
    return 0;
}
