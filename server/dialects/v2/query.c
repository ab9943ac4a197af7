#include "server/dialects/v2/query.h"

#include <inttypes.h>

int64_t v2_query_digits(const char **text, int64_t most)
{
    const char *digit = *text;
    int64_t value = 0;
    if (*digit < '0' || *digit > '9')
        return -1;
    for (; *digit >= '0' && *digit <= '9'; digit++) {
        int64_t units = *digit - '0';
        if (value > most / 10 || value * 10 > most - units)
            return -1;
        value = value * 10 + units;
    }
    *text = digit;
    return value;
}

int v2_query_integer(struct request *request, const char *key, int64_t least, int64_t most, int64_t *value)
{
    const char *text = request->query(request, key), *end = text;
    if (!text)
        return 0;
    int64_t found = v2_query_digits(&end, most);
    if (found < least || *end)
        return failure_set(&request->failure, FAILURE_INVALID,
                           "%s is \"%.40s\", an integer from %" PRId64 " to %" PRId64 " was expected", key, text, least,
                           most);
    *value = found;
    return 0;
}
