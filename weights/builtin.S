/* The built-in model's files, for weights/builtin_model.c. Paths start at the root of the repository. */
    .section .rodata

    .globl weights_builtin_config_begin, weights_builtin_config_end
    .hidden weights_builtin_config_begin, weights_builtin_config_end
weights_builtin_config_begin:
    .incbin "weights/builtin/config.json"
weights_builtin_config_end:

    .balign 64
    .globl weights_builtin_model_begin, weights_builtin_model_end
    .hidden weights_builtin_model_begin, weights_builtin_model_end
weights_builtin_model_begin:
    .incbin "weights/builtin/model.safetensors"
weights_builtin_model_end:

    /* Without this section the linker makes the stack executable. */
    .section .note.GNU-stack, "", %progbits
