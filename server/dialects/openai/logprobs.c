#include "server/dialects/openai/logprobs.h"

#include "server/dialects/text_inputs.h"

#include <inttypes.h>

/* Whether the text is UTF-8 without NUL characters. Many JSON parsers refuse NUL in a key. */
static bool is_plain(const char *text, size_t length)
{
    for (size_t at = 0, bytes; at < length; at += bytes) {
        uint32_t code;
        bytes = text_character(text + at, length - at, &code);
        if (bytes == 0 || code == 0)
            return false;
    }
    return true;
}

/* Writes the name of a token as a JSON string. The name is the text of the token. If this text is not UTF-8, because
 * the token is a part of a character, the name is "bytes:\xc3", as in OpenAI's API. If the token has no text, the name
 * is "token_id:13", as in vLLM. So different tokens at one place usually have different names. */
static void write_token(struct writer *writer, const struct generate_plan *plan, int32_t id)
{
    size_t length = 0;
    const char *text = plan->codec ? text_codec_token(plan->codec, id, &length) : "";
    if (length == 0) {
        writer_format(writer, "\"token_id:%" PRId32 "\"", id);
    } else if (is_plain(text, length)) {
        writer_string(writer, text, length);
    } else {
        writer_text(writer, "\"bytes:");
        for (size_t i = 0; i < length; i++)
            writer_format(writer, "\\\\x%02x", (unsigned char)text[i]);
        writer_text(writer, "\"");
    }
}

static int32_t token_id(const struct generated *sequence, int64_t index)
{
    return sequence->ids[sequence->n_prompt + index];
}

/* Whether a token has a log-probability. The first token of a prompt has none, because no token precedes it. */
static bool has_logprob(const struct generated *sequence, int64_t index)
{
    return index > -sequence->n_prompt;
}

static float logprob_of(const struct generated *sequence, int64_t index)
{
    return index < 0 ? sequence->prompt_logprobs[sequence->n_prompt + index] : sequence->logprobs[index];
}

static const struct sampled_token *best_of(const struct generated *sequence, int64_t index, int64_t n_best)
{
    return index < 0 ? &sequence->prompt_best[(sequence->n_prompt + index) * n_best] : &sequence->best[index * n_best];
}

/* Writes {" the":-0.5,…}: the n_best most probable tokens at the place of token number `index`, and this token
 * itself. */
static void write_best(struct writer *writer, const struct generate_plan *plan, const struct generated *sequence,
                       int64_t index)
{
    int64_t n_best = plan->generation.n_best;
    bool among = false;
    writer_text(writer, "{");
    for (int64_t i = 0; i < n_best; i++) {
        const struct sampled_token *token = &best_of(sequence, index, n_best)[i];
        among |= token->id == token_id(sequence, index);
        writer_text(writer, i > 0 ? "," : "");
        write_token(writer, plan, token->id);
        writer_text(writer, ":");
        writer_float(writer, token->logprob);
    }
    if (!among) {
        writer_text(writer, n_best > 0 ? "," : "");
        write_token(writer, plan, token_id(sequence, index));
        writer_text(writer, ":");
        writer_float(writer, logprob_of(sequence, index));
    }
    writer_text(writer, "}");
}

static void write_offsets(struct writer *writer, const struct generate_plan *plan, const struct logprobs_piece *piece)
{
    const struct generated *sequence = piece->sequence;
    const struct generated_text *text = &plan->texts[sequence->number];
    int64_t offset = piece->offset;
    for (int64_t i = piece->first; i < piece->end; i++) {
        int64_t begins = i < 0 ? piece->echo->offsets[sequence->n_prompt + i] : offset;
        writer_format(writer, "%s%" PRId64, i > piece->first ? "," : "", begins);
        size_t begin = i > 0 ? text->token_ends[i - 1] : 0;
        if (i >= 0 && text->token_ends[i] > begin)
            offset += echo_characters(text->stream.text.data + begin, text->token_ends[i] - begin);
    }
}

void logprobs_write(struct writer *writer, const struct generate_plan *plan, const struct logprobs_piece *piece)
{
    const struct generated *sequence = piece->sequence;
    writer_text(writer, "{\"text_offset\":[");
    write_offsets(writer, plan, piece);
    writer_text(writer, "],\"token_logprobs\":[");
    for (int64_t i = piece->first; i < piece->end; i++) {
        writer_text(writer, i > piece->first ? "," : "");
        if (has_logprob(sequence, i))
            writer_float(writer, logprob_of(sequence, i));
        else
            writer_text(writer, "null");
    }
    writer_text(writer, "],\"tokens\":[");
    for (int64_t i = piece->first; i < piece->end; i++) {
        writer_text(writer, i > piece->first ? "," : "");
        write_token(writer, plan, token_id(sequence, i));
    }
    writer_text(writer, "],\"top_logprobs\":[");
    for (int64_t i = piece->first; i < piece->end; i++) {
        writer_text(writer, i > piece->first ? "," : "");
        if (has_logprob(sequence, i))
            write_best(writer, plan, sequence, i);
        else
            writer_text(writer, "null");
    }
    writer_text(writer, "]}");
}
