/* secret: reads files that contain keys. */
#ifndef SERVER_SECRET_H
#define SERVER_SECRET_H

#include "config/config.h"

/* Reads a file like file_read. Warns in the log if users other than the owner and the group may read the file, or if
 * users other than the owner may change it. The caller must call secret_free. */
char *secret_read(const char *path, size_t limit, size_t *length, struct error *error);

/* Overwrites the bytes of the text, and frees the text. */
void secret_free(char *text, size_t length);

#endif
