#include "engine/families/family.h"

#include <string.h>

static const struct family *const families[] = {
    &family_linformer,
    &family_linear_attention_transformer,
    &family_linformer_pytorch,
    &family_linear_multihead_attention,
    &family_keras,
    &family_module,
};

#define N_FAMILIES (sizeof families / sizeof *families)

const struct family_class *family_find(const char *architecture, struct error *error)
{
    char known[sizeof error->message] = "";
    for (size_t f = 0; f < N_FAMILIES; f++) {
        for (size_t c = 0; c < families[f]->n_classes; c++) {
            const struct family_class *class = &families[f]->classes[c];
            if (strcmp(architecture, class->name) == 0 || strcmp(architecture, class->module_name) == 0)
                return class;
            text_list_add(known, sizeof known, class->name);
        }
    }
    error_set(error, "architecture \"%.80s\" is not supported; expected one of %s", architecture, known);
    return NULL;
}
