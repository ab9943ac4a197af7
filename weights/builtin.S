/* The files of the built-in models, for weights/builtin_model.c. Paths start at the root of the repository. */
    .macro file name, path
    .balign 64
    .globl \name\()_begin, \name\()_end
    .hidden \name\()_begin, \name\()_end
\name\()_begin:
    .incbin "\path"
\name\()_end:
    .endm

    .section .rodata
    file weights_builtin_config, weights/builtin/config.json
    file weights_builtin_model, weights/builtin/model.safetensors
    file weights_builtin_tokenizer, weights/builtin/tokenizer.json
    file weights_writer_config, weights/writer/config.json
    file weights_writer_model, weights/writer/model.safetensors
    file weights_writer_tokenizer, weights/writer/tokenizer.json

    /* Without this section the linker makes the stack executable. */
    .section .note.GNU-stack, "", %progbits
