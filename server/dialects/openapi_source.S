/* The text of openapi.json, for openapi.c. Paths start at the root of the repository. */
    .section .rodata
    .globl openapi_begin, openapi_end
    .hidden openapi_begin, openapi_end
openapi_begin:
    .incbin "server/dialects/openapi.json"
openapi_end:

    .section .note.GNU-stack, "", %progbits
