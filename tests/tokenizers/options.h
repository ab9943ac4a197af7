/* options: the options that a tokenizer.json itself contains. The library `tokenizers` applies them by default. */
#ifndef TESTS_TOKENIZERS_OPTIONS_H
#define TESTS_TOKENIZERS_OPTIONS_H

#include "server/tokenizer/parts.h"

/* Returns these options. truncate_left and max_length are from the file's truncation section. Without this section,
 * texts are not truncated. */
static inline struct tokenizer_options tokenizer_options_of(const struct tokenizer *tokenizer)
{
    const struct truncation_section *truncation = &tokenizer->truncation;
    return (struct tokenizer_options){.add_special_tokens = true,
                                      .pad = true,
                                      .truncate_left = truncation->left,
                                      .max_length =
                                          truncation->is_there ? (size_t)truncation->max_length : TOKENIZER_NO_LIMIT};
}

#endif
