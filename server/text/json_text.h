/* json_text: finds places in the text of JSON, without parsing it. */
#ifndef SERVER_JSON_TEXT_H
#define SERVER_JSON_TEXT_H

/* `at` is directly after the opening quote of a string. Returns the place of the closing quote, or `end`. */
static inline const char *json_text_string_end(const char *at, const char *end)
{
    while (at < end && *at != '"')
        at += *at == '\\' && end - at > 1 ? 2 : 1;
    return at;
}

#endif
