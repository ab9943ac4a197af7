#include "weights/weights.h"

/* The addresses of the files in builtin.S. */
extern const char weights_builtin_config_begin[], weights_builtin_config_end[];
extern const char weights_builtin_model_begin[], weights_builtin_model_end[];

struct weights_builtin weights_builtin(void)
{
    return (struct weights_builtin){
        .config = weights_builtin_config_begin,
        .config_length = (size_t)(weights_builtin_config_end - weights_builtin_config_begin),
        .model = weights_builtin_model_begin,
        .model_size = (size_t)(weights_builtin_model_end - weights_builtin_model_begin),
    };
}
