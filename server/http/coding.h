/* coding: compression of bodies and answers by gzip and deflate. "deflate" is zlib's format, as RFC 9110 defines it and
 * as tritonclient sends it. A deflate stream without the zlib header is not accepted. */
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

enum coding coding_of(const char *content_encoding); /* returns CODING_NONE for NULL and for "identity" */
/* Returns the known coding with the highest q in the header Accept-Encoding. Returns CODING_NONE if there is none. */
enum coding coding_wanted(const char *accept_encoding);
const char *coding_name(enum coding coding); /* the coding's name in Content-Encoding. NULL for CODING_NONE */

/* Replaces the compressed bytes of the body by the uncompressed bytes. The limit and the budget of the body also apply
 * to the uncompressed bytes. So a small body cannot expand beyond the limit. With CODING_NONE, the body stays
 * unchanged. On failure sets `failure` and returns -1. The caller frees the body in every case. */
int coding_unpack(enum coding coding, struct body *body, struct failure *failure);

/* Compresses the answer. If memory is lacking, returns false and leaves the answer unchanged. */
bool coding_pack(enum coding coding, struct writer *answer);

#endif
