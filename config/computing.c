/* computing: the settings of how a model is computed. This file contains the names of the enums' values, and reads the
 * list of devices. */
#include "config/settings_table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const dtype_names[] = {"auto", "f32", "tf32", "bf16", "f16", NULL};
const char *const cuda_f32_names[] = {"tensor", "plain", NULL};
const char *const instruction_set_names[] = {"auto", "avx512", "avx2", "baseline", NULL};
const char *const product_library_names[] = {"auto", "onednn", "openblas", NULL};

_Static_assert(sizeof dtype_names / sizeof *dtype_names == DTYPE_COUNT + 1, "a name for each dtype");
_Static_assert(sizeof cuda_f32_names / sizeof *cuda_f32_names == CUDA_F32_COUNT + 1, "a name for each choice");
_Static_assert(sizeof instruction_set_names / sizeof *instruction_set_names == SET_COUNT + 1, "a name for each set");
_Static_assert(sizeof product_library_names / sizeof *product_library_names == LIBRARY_COUNT + 1,
               "a name for each library");

const char *dtype_name(enum dtype dtype)
{
    return dtype_names[dtype];
}

const char *instruction_set_name(enum instruction_set set)
{
    return instruction_set_names[set];
}

/* ---- Devices -------------------------------------------------------------------------------------------------- */

#define INDEX_DIGITS 3

/* Parses "cuda" or "cuda:3" at *at, moves *at to the text after it, and returns the index. Returns -1 if *at contains
 * neither. */
static int read_index(const char **at)
{
    if (strncmp(*at, "cuda", 4) != 0)
        return -1;
    *at += 4;
    if (**at != ':')
        return 0;
    const char *text = *at + 1;
    size_t digits = strspn(text, "0123456789");
    *at = text + digits;
    return digits >= 1 && digits <= INDEX_DIGITS ? atoi(text) : -1;
}

/* Adds an index to the list. `name` is the value of the whole setting, for messages. */
static int add_index(struct device_choice *choice, int index, const char *name, struct error *error)
{
    for (int i = 0; i < choice->count; i++)
        if (choice->indices[i] == index)
            return error_set(error, "cuda:%d is named twice in '%.100s'", index, name);
    if (choice->count == DEVICE_CHOICE_LIMIT)
        return error_set(error, "expected at most %d devices, found more in '%.100s'", DEVICE_CHOICE_LIMIT, name);
    choice->indices[choice->count++] = index;
    return 0;
}

int device_choice_parse(const char *name, struct device_choice *choice, struct error *error)
{
    static const struct {
        const char *name;
        struct device_choice choice;
    } words[] = {
        {"auto", {.kind = DEVICE_AUTO}},
        {"cpu", {.kind = DEVICE_CPU}},
        {"cuda", {.kind = DEVICE_CUDA}},
        {"cuda:all", {.kind = DEVICE_CUDA, .all = true}},
    };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(name, words[i].name) == 0) {
            *choice = words[i].choice;
            return 0;
        }
    *choice = (struct device_choice){.kind = DEVICE_CUDA};
    for (const char *at = name;; at++) {
        int index = read_index(&at);
        if (index < 0 || (*at != ',' && *at != '\0'))
            return error_set(error, "expected %s, found '%.100s'", DEVICE_CHOICE_EXPECTED, name);
        if (add_index(choice, index, name, error) != 0)
            return -1;
        if (*at == '\0')
            return 0;
    }
}

const char *device_choice_name(const struct device_choice *choice, char buffer[DEVICE_CHOICE_NAME_BYTES])
{
    static const char *const names[] = {[DEVICE_AUTO] = "auto", [DEVICE_CPU] = "cpu", [DEVICE_CUDA] = "cuda"};
    snprintf(buffer, DEVICE_CHOICE_NAME_BYTES, "%s%s", names[choice->kind], choice->all ? ":all" : "");
    size_t length = 0;
    for (int i = 0; i < choice->count && length < DEVICE_CHOICE_NAME_BYTES; i++)
        length += (size_t)snprintf(buffer + length, DEVICE_CHOICE_NAME_BYTES - length, "%scuda:%d", i > 0 ? "," : "",
                                   choice->indices[i]);
    return buffer;
}
