/* coding: compression of bodies and answers by gzip and deflate. */
#include "server/http/coding.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <zlib.h>

#define STEP_BYTES (32 * 1024)
/* Maximum number of bytes to pass to zlib at once, because zlib counts in 32 bits. */
#define INPUT_BYTES (UINT32_C(1) << 30)
#define DEFLATE_MEMORY 8 /* zlib's default for the parameter memLevel of deflateInit2 */

static const struct {
    const char *name;
    int window_bits; /* the value of the parameter windowBits that selects this format in zlib */
} formats[] = {
    [CODING_NONE] = {"identity", 0},
    [CODING_GZIP] = {"gzip", MAX_WBITS + 16},
    [CODING_DEFLATE] = {"deflate", MAX_WBITS},
};

static enum coding coding_named(const char *name, size_t length)
{
    for (int i = CODING_NONE; i < CODING_UNKNOWN; i++) {
        if (strlen(formats[i].name) == length && strncasecmp(formats[i].name, name, length) == 0)
            return (enum coding)i;
    }
    return CODING_UNKNOWN;
}

enum coding coding_of(const char *content_encoding)
{
    return content_encoding && *content_encoding ? coding_named(content_encoding, strlen(content_encoding))
                                                 : CODING_NONE;
}

/* Parses a header such as "gzip;q=0.8, deflate". Unknown codings are skipped. */
enum coding coding_wanted(const char *accept_encoding)
{
    enum coding best = CODING_NONE;
    double best_weight = 0;
    for (const char *at = accept_encoding ? accept_encoding : ""; *at; at += *at == ',') {
        at += strspn(at, " \t");
        enum coding coding = coding_named(at, strcspn(at, " \t;,"));
        size_t length = strcspn(at, ",");
        const char *quality = memchr(at, ';', length);
        double weight = 1;
        if (quality) {
            quality += 1 + strspn(quality + 1, " \t");
            if (strncasecmp(quality, "q=", 2) == 0)
                weight = strtod(quality + 2, NULL);
        }
        if (coding != CODING_UNKNOWN && weight > best_weight) {
            best = coding;
            best_weight = weight;
        }
        at += length;
    }
    return best;
}

const char *coding_name(enum coding coding)
{
    return coding == CODING_GZIP || coding == CODING_DEFLATE ? formats[coding].name : NULL;
}

static int cannot_unpack(struct failure *failure, enum coding coding, const char *why)
{
    return failure_set(failure, FAILURE_MALFORMED, "Content-Encoding is \"%s\", but the body is not valid %s: %s",
                       formats[coding].name, formats[coding].name, why);
}

/* Converts the status of one inflate() call to 0, or to a failure and -1. */
static int check_step(int status, const z_stream *stream, enum coding coding, struct failure *failure)
{
    switch (status) {
    case Z_OK:
    case Z_STREAM_END:
        return 0;
    case Z_MEM_ERROR:
        return failure_memory(failure);
    case Z_BUF_ERROR:
        return cannot_unpack(failure, coding, "it is cut off");
    default:
        return cannot_unpack(failure, coding, stream->msg ? stream->msg : "its data is damaged");
    }
}

static int append(struct body *body, const char *bytes, size_t length, struct failure *failure)
{
    if (length == 0)
        return 0;
    switch (body_append(body, bytes, length)) {
    case BODY_OK:
        return 0;
    case BODY_TOO_LARGE:
        return failure_set(
            failure, FAILURE_TOO_LARGE,
            "the decompressed body is larger than the %zu bytes that this server accepts (--payload-limit)",
            body->limit);
    case BODY_NO_ROOM:
        break;
    }
    return body_no_room(failure);
}

static int unpack(z_stream *stream, enum coding coding, const struct body *packed, struct body *body,
                  struct failure *failure)
{
    char step[STEP_BYTES];
    size_t left = packed->length;
    int status = Z_OK;
    stream->next_in = (Bytef *)packed->data;
    while (status != Z_STREAM_END) {
        if (stream->avail_in == 0) {
            stream->avail_in = left < INPUT_BYTES ? (uInt)left : INPUT_BYTES;
            left -= stream->avail_in;
        }
        stream->next_out = (Bytef *)step;
        stream->avail_out = sizeof step;
        status = inflate(stream, Z_NO_FLUSH);
        if (check_step(status, stream, coding, failure) != 0 ||
            append(body, step, sizeof step - stream->avail_out, failure) != 0)
            return -1;
    }
    return left + stream->avail_in == 0 ? 0 : cannot_unpack(failure, coding, "there are bytes after its end");
}

int coding_unpack(enum coding coding, struct body *body, struct failure *failure)
{
    if (coding == CODING_NONE)
        return 0;
    struct body packed = *body;
    z_stream stream = {0};
    if (inflateInit2(&stream, formats[coding].window_bits) != Z_OK)
        return failure_memory(failure);
    *body = (struct body){.share.budget = packed.share.budget, .limit = packed.limit, .lead = packed.lead};
    int result = unpack(&stream, coding, &packed, body, failure);
    inflateEnd(&stream);
    body_free(&packed);
    return result;
}

/* Uses the fastest level. Higher levels compress floats hardly better. */
bool coding_pack(enum coding coding, struct writer *answer)
{
    struct writer packed = {0};
    z_stream stream = {0};
    size_t left = answer->length;
    int status = Z_OK;
    if (deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, formats[coding].window_bits, DEFLATE_MEMORY,
                     Z_DEFAULT_STRATEGY) != Z_OK)
        return false;
    stream.next_in = (Bytef *)answer->data;
    while (status == Z_OK) {
        if (stream.avail_in == 0) {
            stream.avail_in = left < INPUT_BYTES ? (uInt)left : INPUT_BYTES;
            left -= stream.avail_in;
        }
        writer_reserve(&packed, STEP_BYTES);
        if (packed.failed)
            break;
        stream.next_out = (Bytef *)packed.data + packed.length;
        stream.avail_out = STEP_BYTES;
        status = deflate(&stream, left == 0 ? Z_FINISH : Z_NO_FLUSH);
        packed.length += STEP_BYTES - stream.avail_out;
    }
    deflateEnd(&stream);
    if (status != Z_STREAM_END) {
        writer_free(&packed);
        return false;
    }
    writer_free(answer);
    *answer = packed;
    return true;
}
