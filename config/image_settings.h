/* image_settings: the key `image` of config.json. Only files of this folder include it. */
#ifndef CONFIG_IMAGE_SETTINGS_H
#define CONFIG_IMAGE_SETTINGS_H

#include "config/text.h"

/* Reads the value of `image`, an object. An absent key has the default of image_settings_default(). */
int image_settings_parse(json_t *value, struct image_settings *settings, struct error *error);

#endif
