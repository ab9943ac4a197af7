/* limits: computes the values of settings that are auto. */
#include "server/limits.h"

#define BATCH_TOKENS 16384
#define IMAGE_ARENA (INT64_C(1) << 30) /* maximum arena of an image, in bytes (limits_image_arena) */

/* Number of bytes of one number in a body, as assumed for the limit. Python writes a float with up to 23 characters, as
 * in -1.2345678901234567e-05, followed by a comma and a space. */
#define JSON_FLOAT 25
#define JSON_ID 12
#define BINARY 4
#define AROUND (INT64_C(64) << 10) /* number of bytes of a body besides its numbers */

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

size_t limits_image_arena(const struct settings *settings, int64_t memory)
{
    return settings->max_batch_tokens ? 0 : (size_t)least(IMAGE_ARENA, memory / 4);
}

void limits_set_batch_tokens(struct settings *settings)
{
    if (settings->max_batch_tokens == 0)
        settings->max_batch_tokens = BATCH_TOKENS;
}

/* Returns a + b * c * d, or INT64_MAX if the result overflows. No argument is negative. */
static int64_t add_product(int64_t a, int64_t b, int64_t c, int64_t d)
{
    int64_t product = 0;
    if (__builtin_mul_overflow(b, c, &product) || __builtin_mul_overflow(product, d, &product) ||
        __builtin_add_overflow(a, product, &a))
        return INT64_MAX;
    return a;
}

/* Returns the size of the longest item of a model in bytes, as JSON or as binary data. Attention masks do not count,
 * because they may be very large, and few clients send a mask. */
static int64_t item_bytes(const struct model_info *info, int64_t batch_tokens, bool json)
{
    int64_t bytes = AROUND;
    for (int i = 0; i < info->n_inputs; i++) {
        const struct model_input *input = &info->inputs[i];
        int64_t rows = input->layout == LAYOUT_CALL ? most(input->max_length, batch_tokens) : input->max_length;
        if (input->kind == INPUT_ROWS)
            bytes = add_product(bytes, rows, input->columns, json ? JSON_FLOAT : BINARY);
        else if (input->kind == INPUT_IDS || input->kind == INPUT_MASK)
            bytes = add_product(bytes, rows, 1, json ? JSON_ID : BINARY);
    }
    return bytes;
}

void limits_set_payload(struct settings *settings, struct model *const *models, int64_t n_models, int64_t memory)
{
    if (settings->payload_limit != 0)
        return;
    settings->payload_limit = LIMITS_PAYLOAD;
    for (int64_t i = 0; i < n_models; i++) {
        const struct model_info *info = model_info(models[i]);
        int64_t json = item_bytes(info, settings->max_batch_tokens, true);
        int64_t binary = item_bytes(info, settings->max_batch_tokens, false);
        int64_t wanted = json <= memory / 8 ? json : binary;
        settings->payload_limit = most(settings->payload_limit, least(wanted, memory / 8));
    }
}
