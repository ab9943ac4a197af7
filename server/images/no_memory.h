/* no_memory: the error for lacking memory. It tells callers that the machine is at fault, and not the image. */
#ifndef SERVER_IMAGES_NO_MEMORY_H
#define SERVER_IMAGES_NO_MEMORY_H

#include "config/config.h"

int image_set_no_memory(struct error *error); /* returns -1 */
bool image_lacks_memory(const struct error *error);

#endif
