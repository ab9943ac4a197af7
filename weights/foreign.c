#include "weights/foreign.h"

#include <stddef.h>
#include <string.h>

#define NO_SAFETENSORS ", not a safetensors file: "
#define NO_TORCH ", not a file of torch.save: "
#define SAVE_LOADED "load the weights into the class and save the model with weights/export.py"
#define FETCH "fetch the file with \"git lfs pull\""
#define SAVE_TORCH "save the state_dict with safetensors.torch.save_file, or the model with weights/export.py"
#define SAVE_AGAIN "load it in Python and save it again: torch.save(torch.load(PATH), \"model.pt\")"

/* The formats, each with the answers of foreign_format and foreign_not_torch. A pickle begins with the byte 0x80 and
 * the version of its protocol. A TAR file, as torch.save wrote before PyTorch 0.4, has no fixed start. */
static const struct {
    const char *start; /* NUL-terminated. No start listed here contains a 0 byte */
    const char *for_safetensors, *for_torch;
} formats[] = {
    {"PK\3\4", "a zip archive, as written by torch.save" NO_SAFETENSORS "name it model.pt, or " SAVE_TORCH, NULL},
    {"\x80\2", "a pickle, as written by torch.save before PyTorch 1.6" NO_SAFETENSORS SAVE_TORCH,
     "a pickle without a zip archive, as written by torch.save before PyTorch 1.6; " SAVE_AGAIN},
    {"\x80\3", "a pickle" NO_SAFETENSORS SAVE_TORCH, "a pickle" NO_TORCH SAVE_AGAIN},
    {"\x80\4", "a pickle" NO_SAFETENSORS SAVE_TORCH, "a pickle" NO_TORCH SAVE_AGAIN},
    {"\x80\5", "a pickle" NO_SAFETENSORS SAVE_TORCH, "a pickle" NO_TORCH SAVE_AGAIN},
    {"\x89HDF", "an HDF5 file, as written by Keras" NO_SAFETENSORS SAVE_LOADED,
     "an HDF5 file, as written by Keras" NO_TORCH SAVE_LOADED},
    {"GGUF", "a GGUF file" NO_SAFETENSORS SAVE_LOADED, "a GGUF file" NO_TORCH SAVE_LOADED},
    {"version ", "a text that looks like a Git LFS pointer" NO_SAFETENSORS FETCH,
     "a text that looks like a Git LFS pointer" NO_TORCH FETCH},
};
#define N_FORMATS (sizeof formats / sizeof *formats)

static size_t find(const void *bytes)
{
    size_t index = 0;
    while (index < N_FORMATS && memcmp(bytes, formats[index].start, strlen(formats[index].start)) != 0)
        index++;
    return index;
}

const char *foreign_format(const void *bytes)
{
    size_t index = find(bytes);
    return index < N_FORMATS ? formats[index].for_safetensors : NULL;
}

const char *foreign_not_torch(const void *bytes)
{
    size_t index = find(bytes);
    return index < N_FORMATS ? formats[index].for_torch : "not a zip archive, as written by torch.save; " SAVE_TORCH;
}
