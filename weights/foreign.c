#include "weights/foreign.h"

#include <stddef.h>
#include <string.h>

#define NOT_SAFETENSORS ", and no safetensors file: "
#define SAVE_TORCH "save the state_dict with safetensors.torch.save_file, or the model with weights/export.py"
#define SAVE_LOADED "load the weights into the class and save the model with weights/export.py"

/* A pickle begins with the byte 0x80 and the version of its protocol. */
static const struct {
    const char *start; /* NUL-terminated. No start listed here contains a 0 byte */
    const char *format;
} formats[] = {
    {"PK\3\4", "a zip archive, as torch.save writes one" NOT_SAFETENSORS SAVE_TORCH},
    {"\x80\2", "a pickle, as torch.save wrote one before PyTorch 1.6" NOT_SAFETENSORS SAVE_TORCH},
    {"\x80\3", "a pickle" NOT_SAFETENSORS SAVE_TORCH},
    {"\x80\4", "a pickle" NOT_SAFETENSORS SAVE_TORCH},
    {"\x80\5", "a pickle" NOT_SAFETENSORS SAVE_TORCH},
    {"\x89HDF", "an HDF5 file, as Keras writes one" NOT_SAFETENSORS SAVE_LOADED},
    {"GGUF", "a GGUF file" NOT_SAFETENSORS SAVE_LOADED},
    {"version ", "a text that begins as a pointer of Git LFS does" NOT_SAFETENSORS "\"git lfs pull\" fetches the file"},
};

const char *foreign_format(const void *bytes)
{
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (memcmp(bytes, formats[i].start, strlen(formats[i].start)) == 0)
            return formats[i].format;
    return NULL;
}
