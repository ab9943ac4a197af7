#include "server/dialects/openapi.h"

extern const char openapi_begin[], openapi_end[]; /* begin and end of openapi.json, which openapi_source.S includes */

const char *openapi_text(size_t *length)
{
    *length = (size_t)(openapi_end - openapi_begin);
    return openapi_begin;
}

enum outcome openapi_read(struct request *request)
{
    size_t length;
    const char *text = openapi_text(&length);
    writer_bytes(&request->answer, text, length);
    return OUTCOME_ANSWERED;
}
