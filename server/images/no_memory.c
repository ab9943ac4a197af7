#include "server/images/no_memory.h"

#include <string.h>

/* No message about a file equals this text, because such a message names the kind of the file: "the JPEG image …". */
static const char no_memory[] = "out of memory";

int image_set_no_memory(struct error *error)
{
    return error_set(error, "%s", no_memory);
}

bool image_lacks_memory(const struct error *error)
{
    return strcmp(error->message, no_memory) == 0;
}
