/* json_text: finds positions in the text of JSON, without parsing it. */
#ifndef SERVER_JSON_TEXT_H
#define SERVER_JSON_TEXT_H

/* Returns the position of a string's closing quote, or `end` if there is none. `at` is directly after the opening
 * quote. */
static inline const char *json_text_string_end(const char *at, const char *end)
{
    while (at < end && *at != '"')
        at += *at == '\\' && end - at > 1 ? 2 : 1;
    return at;
}

#endif
