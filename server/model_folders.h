/* model_folders: the folders of the models that --model names. A folder without config.json stands for its subfolders
 * that contain a config.json, in the order of their names. */
#ifndef SERVER_MODEL_FOLDERS_H
#define SERVER_MODEL_FOLDERS_H

#include "config/config.h"

#include <stdint.h>

struct model_folders {
    struct model_source *sources; /* `count` sources */
    size_t count;                 /* 0 if the built-in models must be served */
};

/* Finds the folders of the models that the settings name. Zero the struct first. The caller must call
 * model_folders_free, even after a failure. */
int model_folders_find(const struct settings *settings, struct model_folders *folders, struct error *error);
void model_folders_free(struct model_folders *folders);

/* Returns a number that changes when a file of the model is added, removed, replaced or written. The number is computed
 * from the names, devices, inodes, sizes and times of the files that end in .json, .safetensors, .pt, .pth or .bin. The
 * contents of the files are not read. */
uint64_t model_folder_fingerprint(const char *folder);

/* Finds the subfolder `name` of a repository, if the subfolder contains a config.json. `name` may come from a client.
 * So it is only compared with the names in the folder, and never becomes a part of a path. Returns the path, which the
 * caller frees, or NULL if there is no such folder. */
char *model_repository_find(const char *repository, const char *name);

/* Calls `found` for each model of the repository, in the order of their names. */
void model_repository_list(const char *repository, void (*found)(void *context, const char *name), void *context);

/* Whether the folder contains a file with this name. */
bool model_folder_has(const char *folder, const char *name);

/* Returns the path of the folder's weights, which the caller frees: the first existing file of a list of names that
 * begins with model.safetensors. If no such file exists, returns NULL, and the message names other files that may
 * contain weights. */
char *model_folder_weights(const char *folder, struct error *error);

#endif
