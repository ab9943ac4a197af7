/* no_memory: the error for lack of memory. It tells callers that the machine is at fault, not the image. */
#ifndef SERVER_IMAGES_NO_MEMORY_H
#define SERVER_IMAGES_NO_MEMORY_H

#include "config/config.h"

int image_set_no_memory(struct error *error); /* always returns -1 */
bool image_lacks_memory(const struct error *error);

#endif
