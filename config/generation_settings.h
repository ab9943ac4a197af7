/* generation_settings: the key `generation` of config.json. Only files of this folder include it. */
#ifndef CONFIG_GENERATION_SETTINGS_H
#define CONFIG_GENERATION_SETTINGS_H

#include "config/text.h"

/* The settings of a model whose config.json has no such key: the likeliest token is chosen, without a penalty. */
struct generation_settings generation_settings_default(void);

/* Reads the value of `generation`, an object. An absent key keeps its default. */
int generation_settings_parse(json_t *value, struct generation_settings *settings, struct error *error);

#endif
