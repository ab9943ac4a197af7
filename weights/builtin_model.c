#include "weights/weights.h"

#include <assert.h>

/* The addresses of the files in builtin.S. */
extern const char weights_builtin_config_begin[], weights_builtin_config_end[];
extern const char weights_builtin_model_begin[], weights_builtin_model_end[];
extern const char weights_builtin_tokenizer_begin[], weights_builtin_tokenizer_end[];
extern const char weights_writer_config_begin[], weights_writer_config_end[];
extern const char weights_writer_model_begin[], weights_writer_model_end[];
extern const char weights_writer_tokenizer_begin[], weights_writer_tokenizer_end[];

struct weights_builtin weights_builtin(enum weights_builtin_index index)
{
    assert(index < WEIGHTS_N_BUILTIN);
    if (index == WEIGHTS_BUILTIN_WRITER)
        return (struct weights_builtin){
            .config = weights_writer_config_begin,
            .config_length = (size_t)(weights_writer_config_end - weights_writer_config_begin),
            .model = weights_writer_model_begin,
            .model_size = (size_t)(weights_writer_model_end - weights_writer_model_begin),
            .tokenizer = weights_writer_tokenizer_begin,
            .tokenizer_length = (size_t)(weights_writer_tokenizer_end - weights_writer_tokenizer_begin),
        };
    return (struct weights_builtin){
        .config = weights_builtin_config_begin,
        .config_length = (size_t)(weights_builtin_config_end - weights_builtin_config_begin),
        .model = weights_builtin_model_begin,
        .model_size = (size_t)(weights_builtin_model_end - weights_builtin_model_begin),
        .tokenizer = weights_builtin_tokenizer_begin,
        .tokenizer_length = (size_t)(weights_builtin_tokenizer_end - weights_builtin_tokenizer_begin),
    };
}
