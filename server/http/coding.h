/* coding: gzip and deflate of bodies and answers. "deflate" is zlib's format, as RFC 9110 defines it and tritonclient
 * sends it. The bare deflate stream is not accepted. */
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

enum coding coding_of(const char *content_encoding);    /* NULL and "identity" are CODING_NONE */
enum coding coding_wanted(const char *accept_encoding); /* the known coding with the highest q, else CODING_NONE */
const char *coding_name(enum coding coding);            /* for Content-Encoding; NULL: CODING_NONE */

/* Replaces the packed bytes of the body by the unpacked ones. The body's own limit and budget hold for these, so a
 * small body cannot become a huge one. CODING_NONE changes nothing. -1: `failure`; the caller still frees the body. */
int coding_unpack(enum coding coding, struct body *body, struct failure *failure);

/* Packs the answer. False: there was no memory, and the answer is unchanged. */
bool coding_pack(enum coding coding, struct writer *answer);

#endif
