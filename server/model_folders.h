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

/* Returns the path of the folder's weights, which the caller frees: the first existing name of a list that begins with
 * model.safetensors. If none exists, returns NULL, and the message names other files with weights. */
char *model_folder_weights(const char *folder, struct error *error);

#endif
