/* names: finds the tensors of a class in a file. The file may have a wrapper's prefix before the class's names, or the
 * names of an older version of the library.
 */
#include "engine/plan/scope.h"

#include <ctype.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

/* Prefixes that wrappers put before names. "module." comes from DataParallel and DistributedDataParallel, "_orig_mod."
 * from torch.compile, "net." from a wrapper in the libraries, and "model." from modules for training. */
static const char *const prefixes[] = {"module.", "_orig_mod.", "net.", "model."};
#define N_PREFIXES (sizeof prefixes / sizeof *prefixes)

/* Whether the name matches the pattern. `*` matches any number of characters. Other characters match themselves. */
static bool matches(const char *pattern, const char *name)
{
    /* The last star of the pattern so far, and the end of the characters that this star matches so far. */
    const char *star = NULL, *behind = NULL;
    while (*name) {
        if (*pattern == '*') {
            star = pattern++;
            behind = name;
        } else if (*pattern == *name) {
            pattern++;
            name++;
        } else if (star) {
            pattern = star + 1;
            name = ++behind;
        } else {
            return false;
        }
    }
    return pattern[strspn(pattern, "*")] == '\0';
}

bool plan_ignores(const struct plan_builder *builder, const char *name)
{
    size_t length = strlen(builder->prefix), i;
    const char *bare = strncmp(name, builder->prefix, length) == 0 ? name + length : name;
    const json_t *pattern;
    json_array_foreach (builder->ignore, i, pattern)
        if (matches(json_string_value(pattern), name) || matches(json_string_value(pattern), bare))
            return true;
    return false;
}

static bool all_begin_with(const struct plan_builder *builder, const char *prefix)
{
    for (size_t i = 0; i < weights_count(builder->weights); i++) {
        const char *name = weights_at(builder->weights, i)->name;
        if (strncmp(name, prefix, strlen(prefix)) != 0 && !plan_ignores(builder, name))
            return false;
    }
    return true;
}

/* Appends the prefix of one wrapper to the builder's prefix, if all names begin with the longer prefix. Names that
 * "ignore" in config.json matches do not count. */
static bool lengthen_prefix(struct plan_builder *builder)
{
    for (size_t i = 0; i < N_PREFIXES; i++) {
        char longer[sizeof builder->prefix];
        int length = snprintf(longer, sizeof longer, "%s%s", builder->prefix, prefixes[i]);
        if (length < (int)sizeof longer && all_begin_with(builder, longer)) {
            memcpy(builder->prefix, longer, sizeof longer);
            return true;
        }
    }
    return false;
}

/* axial-positional-embedding up to 0.2.1 had attributes pos_emb.weights_0, weights_1 in place of a ParameterList. */
static const struct weights_tensor *find_older(const struct weights *weights, const char *name)
{
    static const char list[] = "pos_emb.weights.";
    const char *found = strstr(name, list);
    char older[PLAN_NAME_BYTES + PLAN_PREFIX_BYTES];
    if (!found || !isdigit((unsigned char)found[sizeof list - 1]))
        return NULL;
    int before = (int)(found - name + (ptrdiff_t)sizeof list - 2);
    snprintf(older, sizeof older, "%.*s_%s", before, name, name + before + 1);
    return weights_find(weights, older);
}

static const struct weights_tensor *find_behind_prefix(const struct plan_builder *builder, const char *name)
{
    char full[PLAN_NAME_BYTES + sizeof builder->prefix];
    snprintf(full, sizeof full, "%s%s", builder->prefix, name);
    const struct weights_tensor *tensor = weights_find(builder->weights, full);
    return tensor ? tensor : find_older(builder->weights, full);
}

/* The first tensor that is found determines the prefix. Later tensors do not, because some classes have names that
 * begin with "net.". */
const struct weights_tensor *plan_find_tensor(struct plan_builder *builder, const char *name)
{
    char in_file[PLAN_NAME_BYTES];
    name = plan_full_name(builder, name, in_file);
    const struct weights_tensor *tensor = find_behind_prefix(builder, name);
    while (!tensor && !builder->prefix_known && lengthen_prefix(builder))
        tensor = find_behind_prefix(builder, name);
    if (tensor)
        builder->prefix_known = true;
    else if (!builder->prefix_known)
        builder->prefix[0] = '\0';
    return tensor;
}
