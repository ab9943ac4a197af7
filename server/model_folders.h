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

/* Writes a list "a.bin, b.pt": the folder's files whose names end in one of the `count` suffixes, sorted by name. Names
 * that do not fit are left out. The list is empty if there is no such file. */
void model_folder_list(const char *folder, const char *const *suffixes, size_t count, char *names, size_t size);

#endif
