/* parts: the struct tokenizer with all of its parts. Only files of this folder and of tests/tokenizers include it. */
#ifndef SERVER_TOKENIZER_PARTS_H
#define SERVER_TOKENIZER_PARTS_H

#include "server/tokenizer/added_tokens.h"
#include "server/tokenizer/decoder.h"
#include "server/tokenizer/model.h"
#include "server/tokenizer/normalizer.h"
#include "server/tokenizer/pre_tokenizer.h"
#include "server/tokenizer/sections.h"
#include "server/tokenizer/template.h"
#include "server/tokenizer/tokenizer.h"

struct tokenizer {
    struct characters characters;
    struct added_tokens added;
    struct normalizer normalizer;
    struct pre_tokenizer pre_tokenizer;
    struct text_model model;
    struct token_template template;
    struct decoder decoder;
    struct truncation_section truncation;
    struct pad_section padding;
    bool model_reads_bytes; /* the last step of the pre-tokenizer is ByteLevel, and the model reads bytes. So
                               the step does not map bytes to characters */
    int32_t roles[TOKENIZER_ROLES];
};

#endif
