#include "server/images/no_memory.h"

#include <string.h>

static const char no_memory[] = "out of memory"; /* messages about a file name it: "the JPEG image …" */

int image_set_no_memory(struct error *error)
{
    return error_set(error, "%s", no_memory);
}

bool image_lacks_memory(const struct error *error)
{
    return strcmp(error->message, no_memory) == 0;
}
