#include "server/dialects/openai/echo.h"

#include "server/dialects/native/model.h"
#include "server/dialects/text_inputs.h"

#include <stdlib.h>
#include <string.h>

int64_t echo_characters(const char *text, size_t length)
{
    int64_t count = 0;
    for (size_t at = 0; at < length; count++) {
        uint32_t code = 1;
        size_t bytes = text_character(text + at, length - at, &code);
        at += bytes > 0 ? bytes : code;
    }
    return count;
}

static int copy_text(struct request *request, const char *text, size_t length, struct echo *echo)
{
    echo->text = request_take(request, (int64_t)length + 1, 1);
    if (!echo->text)
        return -1;
    memcpy(echo->text, text, length);
    echo->length = length;
    echo->characters = echo_characters(text, length);
    return 0;
}

/* Sets the offsets of the tokens of a prompt that is a text. given->begins is where the tokenizer says that each token
 * begins. A special token has the offset of the token before it. */
static void offsets_in_text(const struct given_ids *given, int64_t prefix_characters, struct echo *echo)
{
    int64_t latest = 0;
    for (int64_t i = 0; i < given->count; i++) {
        int64_t begin = given->begins[i] - prefix_characters;
        latest = begin > latest ? begin : latest;
        echo->offsets[i] = latest < echo->characters ? latest : echo->characters;
    }
}

/* Sets the offsets of the tokens of a prompt that is a list of ids. The text of the prompt consists of the texts of its
 * tokens. */
static int offsets_of_ids(struct request *request, const struct given_ids *given, struct echo *echo)
{
    struct text_stream stream = {.codec = native_model(request)->codec};
    struct error error;
    int status = 0;
    int64_t characters = 0;
    text_stream_begin(&stream, 0);
    for (int64_t i = 0; status == 0 && i < given->count; i++) {
        size_t before = stream.text.length;
        echo->offsets[i] = characters < echo->characters ? characters : echo->characters;
        status = text_stream_add(&stream, given->ids, i + 1, i == given->count - 1, &error);
        if (status == 0 && stream.text.length > before)
            characters += echo_characters(stream.text.data + before, stream.text.length - before);
    }
    text_stream_free(&stream);
    return status == 0 ? 0 : failure_set(&request->failure, FAILURE_BACKEND, "%s", error.message);
}

static int decode(struct request *request, const struct text_codec *codec, const struct given_ids *given,
                  struct echo *echo)
{
    struct error error;
    size_t length;
    char *text = text_codec_decode(codec, given->ids, given->count, true, &length, &error);
    if (!text)
        return failure_set(&request->failure, FAILURE_BACKEND, "%s", error.message);
    int status = copy_text(request, text, length, echo);
    free(text);
    return status;
}

int echo_keep(struct request *request, const json_t *prompt, const struct given_ids *given,
              const struct text_inputs_options *prefix, bool offsets, struct echo *echo)
{
    const struct text_codec *codec = native_model(request)->codec;
    const char *text = json_string_value(prompt);
    if (offsets) {
        echo->offsets = request_take(request, given->count, sizeof *echo->offsets);
        if (!echo->offsets)
            return -1;
    }
    if (!text && !codec) /* the ids have no text, so all offsets stay 0 */
        return 0;
    if (text ? copy_text(request, text, json_string_length(prompt), echo) != 0
             : decode(request, codec, given, echo) != 0)
        return -1;
    if (offsets && text)
        offsets_in_text(given, prefix->prompt ? echo_characters(prefix->prompt, prefix->prompt_length) : 0, echo);
    return offsets && !text ? offsets_of_ids(request, given, echo) : 0;
}
