/* foreign: files of other formats that were given the name of a safetensors file. */
#ifndef WEIGHTS_FOREIGN_H
#define WEIGHTS_FOREIGN_H

#define FOREIGN_BYTES 8

/* For a message: the format that the first FOREIGN_BYTES bytes of a file belong to, and how its tensors come into a
 * safetensors file. NULL: they belong to no format that is known here. */
const char *foreign_format(const void *bytes);

#endif
