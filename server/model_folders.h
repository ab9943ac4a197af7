/* model_folders: which folders --model names. One without config.json, but with folders that have it, stands for these,
 * in the order of their names. */
#ifndef SERVER_MODEL_FOLDERS_H
#define SERVER_MODEL_FOLDERS_H

#include "config/config.h"

struct model_folders {
    struct model_source *sources; /* none: the built-in model */
    size_t count;
};

/* On failure too model_folders_free is owed. Zero the struct first. */
int model_folders_find(const struct settings *settings, struct model_folders *folders, struct error *error);
void model_folders_free(struct model_folders *folders);

#endif
