/* coding: gzip and deflate of bodies and answers. "deflate" is zlib's format, as HTTP defines it and tritonclient sends
 * it, not the bare stream. */
#ifndef SERVER_CODING_H
#define SERVER_CODING_H

#include "server/common/failure.h"
#include "server/http/body.h"
#include "server/text/writer.h"

enum coding {
    CODING_NONE,
    CODING_GZIP,
    CODING_DEFLATE,
    CODING_UNKNOWN,
};

enum coding coding_of(const char *content_encoding);    /* NULL and "identity" are none */
enum coding coding_wanted(const char *accept_encoding); /* the one with the highest q that is known here, else none */
const char *coding_name(enum coding coding);            /* for Content-Encoding; NULL: none */

/* Puts what is packed in the body in its place, within the body's own limit and budget, so that a small body cannot
 * become a large one. CODING_NONE leaves it. -1: `failure`; the body is still the caller's to free. */
int coding_unpack(enum coding coding, struct body *body, struct failure *failure);

/* Packs the answer. False: there was no memory, and the answer is as it was. */
bool coding_pack(enum coding coding, struct writer *answer);

#endif
