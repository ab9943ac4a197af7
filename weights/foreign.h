/* foreign: recognises files of other formats that have the name of a safetensors file or of an archive of torch.save.
 */
#ifndef WEIGHTS_FOREIGN_H
#define WEIGHTS_FOREIGN_H

#define FOREIGN_BYTES 8

/* Returns a text for a message: the format of a file that starts with these FOREIGN_BYTES bytes, and how to convert it
 * to safetensors. Returns NULL if the format is not known here. */
const char *foreign_format(const void *bytes);

/* For a file that should be an archive of torch.save. Returns NULL if the bytes begin a zip archive. Otherwise returns
 * the format and how to convert it. If the format is not known here, the text says that the file is no zip archive. */
const char *foreign_not_torch(const void *bytes);

#endif
