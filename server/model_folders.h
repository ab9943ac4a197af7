/* model_folders: the folders of the models that --model names. A folder may lack config.json. Such a folder stands for
 * those of its subfolders that contain a config.json, in the order of their names. */
#ifndef SERVER_MODEL_FOLDERS_H
#define SERVER_MODEL_FOLDERS_H

#include "config/config.h"

struct model_folders {
    struct model_source *sources; /* (count) */
    size_t count;                 /* 0 if the built-in models are to be served */
};

/* Zero the struct first. The caller must call model_folders_free, even after a failure. */
int model_folders_find(const struct settings *settings, struct model_folders *folders, struct error *error);
void model_folders_free(struct model_folders *folders);

/* Whether the folder contains a file with this name. */
bool model_folder_has(const char *folder, const char *name);

/* Writes a list such as "a.bin, b.pt". It contains the files of the folder whose names end in one of the `count`
 * suffixes, sorted by name. Names that do not fit are left out. The list is empty if there is no such file. */
void model_folder_list(const char *folder, const char *const *suffixes, size_t count, char *names, size_t size);

#endif
