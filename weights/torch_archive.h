/* The file that torch.save(model.state_dict(), PATH) writes since PyTorch 1.6: a zip archive. Its entry NAME/data.pkl
 * is a pickle of a dictionary of names and tensors. A tensor is a view of a storage: an entry NAME/data/KEY of plain
 * numbers. Private to weights/. */
#ifndef WEIGHTS_TORCH_ARCHIVE_H
#define WEIGHTS_TORCH_ARCHIVE_H

#include "weights/tensor_table.h"
#include "weights/zip_archive.h"

/* A file with several state_dicts, or none, is refused. A training checkpoint may have its state_dict under one of
 * these keys, and further values that contain no other state_dict. */
#define TORCH_ARCHIVE_WRAPPERS "\"state_dict\", \"model\" or \"model_state_dict\""

struct torch_archive;

/* Reads the directory of the archive and the pickle. Checks that each tensor lies within its storage, and that the
 * tensors together have at most 4 times the bytes of the file. Tensors with the same place in the same storage are one
 * tensor with several names. The data of the tensors is NULL until torch_archive_read. Errors do not name the file.
 * After success, the caller must call torch_archive_close. */
int torch_archive_open(const struct zip_source *source, struct torch_archive **archive, struct error *error);

/* Reads the storages that the tensors use. A tensor whose elements are not contiguous is copied into separate memory.
 * After a failure, only torch_archive_close may follow. */
int torch_archive_read(struct torch_archive *archive, const struct zip_source *source, struct error *error);

const struct tensor_table *torch_archive_table(const struct torch_archive *archive);
void torch_archive_close(struct torch_archive *archive); /* NULL does nothing */

#endif
