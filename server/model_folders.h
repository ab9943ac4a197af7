/* model_folders: the folders of the models that --model names. A folder may lack config.json. Such a folder stands for
 * those of its subfolders that contain a config.json, in the order of their names. */
#ifndef SERVER_MODEL_FOLDERS_H
#define SERVER_MODEL_FOLDERS_H

#include "config/config.h"

#include <stdint.h>

struct model_folders {
    struct model_source *sources; /* (count) */
    size_t count;                 /* 0 if the built-in models are to be served */
};

/* Zero the struct first. The caller must call model_folders_free, even after a failure. */
int model_folders_find(const struct settings *settings, struct model_folders *folders, struct error *error);
void model_folders_free(struct model_folders *folders);

/* A number that changes when a file of the model is added, removed, replaced or written. It is computed from the names,
 * inodes, sizes and times of visible files with the endings of configurations and weights. The content of the files is
 * not read. */
uint64_t model_folder_fingerprint(const char *folder);

/* Finds the subfolder `name` of a repository, if it contains a config.json. `name` may come from a client. It is
 * compared with the names in the folder, and never becomes a part of a path by itself. Returns the path, which the
 * caller frees. NULL if there is no such folder. */
char *model_repository_find(const char *repository, const char *name);

/* Calls `found` for each model of the repository, in the order of their names. */
void model_repository_list(const char *repository, void (*found)(void *context, const char *name), void *context);

/* Whether the folder contains a file with this name. */
bool model_folder_has(const char *folder, const char *name);

/* Returns the path of the folder's weights, which the caller frees: the first existing name of a list that begins with
 * model.safetensors. If none exists, returns NULL, and the message names other files with weights. */
char *model_folder_weights(const char *folder, struct error *error);

#endif
