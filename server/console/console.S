/* The console's page and the values of its headers, declared in server/console/console.h. console.mk makes the included
 * files. */
    .section .rodata
    .globl console_page, console_page_end, console_packed, console_packed_end, console_policy, console_tag
    .hidden console_page, console_page_end, console_packed, console_packed_end, console_policy, console_tag

console_page:
    .incbin "page.html"
console_page_end:

console_packed:
    .incbin "page.html.gz"
console_packed_end:

console_policy:
    .ascii "default-src 'none'; script-src 'sha256-"
    .incbin "script.sha256"
    .ascii "'; style-src 'sha256-"
    .incbin "style.sha256"
    .ascii "'; connect-src 'self'; img-src data: blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    .asciz "require-trusted-types-for 'script'; trusted-types 'none'"

/* The tag is weak (W/), because the page and its compressed form have the same tag. */
console_tag:
    .ascii "W/\""
    .incbin "page.sha256"
    .asciz "\""

    /* Without this section the linker makes the stack executable. */
    .section .note.GNU-stack, "", %progbits
