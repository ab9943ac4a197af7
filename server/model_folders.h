/* model_folders: the models' folders that --model names. A folder without config.json stands for the folders in it that
 * have one, in the order of their names. */
#ifndef SERVER_MODEL_FOLDERS_H
#define SERVER_MODEL_FOLDERS_H

#include "config/config.h"

struct model_folders {
    struct model_source *sources; /* (count) */
    size_t count;                 /* 0: the built-in model */
};

/* Zero the struct first. model_folders_free is owed, also after a failure. */
int model_folders_find(const struct settings *settings, struct model_folders *folders, struct error *error);
void model_folders_free(struct model_folders *folders);

/* Whether the folder has a file of that name. */
bool model_folder_has(const char *folder, const char *name);

/* Writes the names "a.bin, b.pt" of the folder's files that end in one of the `count` suffixes, in their order, as many
 * as there is room for. Empty: none does. */
void model_folder_list(const char *folder, const char *const *suffixes, size_t count, char *names, size_t size);

#endif
