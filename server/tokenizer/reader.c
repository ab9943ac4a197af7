/* reader: finds the large members of the file by one pass over its bytes, and parses the rest with jansson. */
#include "server/tokenizer/reader.h"

#include "server/tokenizer/characters.h"

#include <stdlib.h>
#include <string.h>

/* ---- The stream ---- */
static void skip_space(struct json_stream *cursor)
{
    while (cursor->at < cursor->end &&
           (*cursor->at == ' ' || *cursor->at == '\n' || *cursor->at == '\r' || *cursor->at == '\t'))
        cursor->at++;
}

bool cursor_take(struct json_stream *cursor, char wanted)
{
    skip_space(cursor);
    if (cursor->at == cursor->end || *cursor->at != wanted)
        return false;
    cursor->at++;
    return true;
}

bool cursor_at_end(struct json_stream *cursor)
{
    skip_space(cursor);
    return cursor->at == cursor->end;
}

void cursor_free(struct json_stream *cursor)
{
    free(cursor->text);
    cursor->text = NULL;
}

static bool append(struct json_stream *cursor, const char *bytes, size_t length)
{
    if (cursor->capacity - cursor->length <= length) {
        size_t wanted = cursor->capacity * 2 + length + 256;
        char *text = realloc(cursor->text, wanted);
        if (!text) {
            cursor->failed = true;
            return false;
        }
        cursor->text = text;
        cursor->capacity = wanted;
    }
    memcpy(cursor->text + cursor->length, bytes, length);
    cursor->length += length;
    cursor->text[cursor->length] = '\0';
    return true;
}

static int hex_value(char digit)
{
    return digit >= '0' && digit <= '9'   ? digit - '0'
           : digit >= 'a' && digit <= 'f' ? digit - 'a' + 10
           : digit >= 'A' && digit <= 'F' ? digit - 'A' + 10
                                          : -1;
}

/* Reads four hexadecimal digits. */
static bool take_unit(struct json_stream *cursor, uint32_t *unit)
{
    if (cursor->end - cursor->at < 4)
        return false;
    *unit = 0;
    for (int i = 0; i < 4; i++) {
        int value = hex_value(*cursor->at++);
        if (value < 0)
            return false;
        *unit = *unit << 4 | (uint32_t)value;
    }
    return true;
}

/* Reads the code point of an escape, after "\u". A surrogate without its partner is an error. */
static bool take_code(struct json_stream *cursor)
{
    uint32_t code, low;
    if (!take_unit(cursor, &code) || (code >= 0xdc00 && code < 0xe000))
        return false;
    if (code >= 0xd800 && code < 0xdc00) {
        if (cursor->end - cursor->at < 2 || cursor->at[0] != '\\' || cursor->at[1] != 'u')
            return false;
        cursor->at += 2;
        if (!take_unit(cursor, &low) || low < 0xdc00 || low >= 0xe000)
            return false;
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    }
    char bytes[4];
    return append(cursor, bytes, utf8_write(code, bytes));
}

static bool take_escape(struct json_stream *cursor)
{
    static const char escapes[] = "\"\\/bfnrt", characters[] = "\"\\/\b\f\n\r\t";
    if (cursor->at == cursor->end)
        return false;
    char escape = *cursor->at++;
    if (escape == 'u')
        return take_code(cursor);
    const char *found = escape ? strchr(escapes, escape) : NULL;
    return found && append(cursor, characters + (found - escapes), 1);
}

bool cursor_string(struct json_stream *cursor)
{
    cursor->length = 0;
    if (!cursor_take(cursor, '"') || !append(cursor, "", 0))
        return false;
    for (;;) {
        const char *begin = cursor->at;
        while (cursor->at < cursor->end && *cursor->at != '"' && *cursor->at != '\\' &&
               (unsigned char)*cursor->at >= 0x20)
            cursor->at++;
        if (cursor->at == cursor->end || !append(cursor, begin, (size_t)(cursor->at - begin)))
            return false;
        char stop = *cursor->at++;
        if (stop == '"')
            return true;
        if (stop != '\\' || !take_escape(cursor))
            return false;
    }
}

static bool is_digit(const struct json_stream *cursor)
{
    return cursor->at < cursor->end && *cursor->at >= '0' && *cursor->at <= '9';
}

bool cursor_integer(struct json_stream *cursor, int64_t *value)
{
    skip_space(cursor);
    const char *begin = cursor->at;
    *value = 0;
    for (; is_digit(cursor) && *value < (int64_t)1 << 49; cursor->at++)
        *value = *value * 10 + (*cursor->at - '0');
    return cursor->at > begin && !is_digit(cursor) && (cursor->at - begin == 1 || *begin != '0');
}

/* Reads the digits of a number, or of its fraction. Appends as many digits as fit in 64 bits to *digits. Changes
 * *exponent so that *digits times 10^*exponent is the number. */
static bool take_digits(struct json_stream *cursor, uint64_t *digits, int *exponent, bool fraction)
{
    const char *begin = cursor->at;
    bool full = false;
    for (; is_digit(cursor); cursor->at++) {
        unsigned digit = (unsigned)(*cursor->at - '0');
        full = full || *digits > (UINT64_MAX - digit) / 10;
        if (!full) {
            *digits = *digits * 10 + digit;
            *exponent -= fraction;
        } else if (!fraction && *exponent < 100000) {
            *exponent += 1;
        }
    }
    return cursor->at > begin;
}

static bool take_exponent(struct json_stream *cursor, int *exponent)
{
    if (cursor->at == cursor->end || (*cursor->at != 'e' && *cursor->at != 'E'))
        return true;
    cursor->at++;
    bool negative = cursor->at < cursor->end && *cursor->at == '-';
    cursor->at += cursor->at < cursor->end && (*cursor->at == '-' || *cursor->at == '+');
    int value = 0;
    const char *begin = cursor->at;
    for (; is_digit(cursor); cursor->at++)
        value = value < 100000 ? value * 10 + (*cursor->at - '0') : value;
    *exponent += negative ? -value : value;
    return cursor->at > begin;
}

/* Returns 10^exponent, correctly rounded. `exponent` is at most 308. */
static double power_of_ten(int exponent)
{
    char text[16] = "1e";
    int length = 2;
    if (exponent >= 100)
        text[length++] = (char)('0' + exponent / 100);
    if (exponent >= 10)
        text[length++] = (char)('0' + exponent / 10 % 10);
    text[length] = (char)('0' + exponent % 10);
    return strtod(text, NULL);
}

static double scale(double value, int exponent)
{
    static const double small[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10,
                                   1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21};
    int size = exponent < 0 ? -exponent : exponent;
    double power = size < (int)(sizeof small / sizeof *small) ? small[size] : power_of_ten(size > 308 ? 308 : size);
    return exponent < 0 ? value / power : value * power;
}

bool cursor_number(struct json_stream *cursor, double *value)
{
    bool negative = cursor_take(cursor, '-');
    uint64_t digits = 0;
    int exponent = 0;
    if (!take_digits(cursor, &digits, &exponent, false))
        return false;
    if (cursor->at < cursor->end && *cursor->at == '.') {
        cursor->at++;
        if (!take_digits(cursor, &digits, &exponent, true))
            return false;
    }
    if (!take_exponent(cursor, &exponent))
        return false;
    double number = (double)digits;
    if (digits != 0 && exponent > 308)
        return false;
    for (; exponent < -308 && number != 0; exponent += 308)
        number /= 1e308;
    number = scale(number, exponent);
    *value = negative ? -number : number;
    return number <= 1.7976931348623157e308;
}

/* ---- The large members ---- */
/* Skips the value at the cursor without parsing it. */
static bool skip_value(struct json_stream *cursor)
{
    size_t depth = 0;
    bool quoted = false;
    skip_space(cursor);
    for (; cursor->at < cursor->end; cursor->at++) {
        char c = *cursor->at;
        if (quoted) {
            if (c == '\\' && cursor->end - cursor->at > 1)
                cursor->at++;
            else if (c == '"')
                quoted = false;
        } else if (c == '"') {
            quoted = true;
        } else if (c == '[' || c == '{') {
            depth++;
        } else if (depth == 0 && (c == ',' || c == ']' || c == '}')) {
            return true;
        } else if (c == ']' || c == '}') {
            depth--;
        }
    }
    return false;
}

/* Calls `member` for each member of the object at the cursor. `member` receives a cursor at the value, and moves it to
 * the end of the value. Stops at the first syntax error. jansson then finds and reports the same error. */
static void walk_object(struct json_stream *cursor, struct reader *reader,
                        void (*member)(struct json_stream *, struct reader *))
{
    if (!cursor_take(cursor, '{'))
        return;
    do {
        const char *before = cursor->at;
        if (!cursor_string(cursor) || !cursor_take(cursor, ':'))
            return;
        skip_space(cursor);
        member(cursor, reader);
        if (cursor->at <= before)
            return;
    } while (cursor_take(cursor, ','));
    cursor_take(cursor, '}');
}

static void keep_large(struct json_stream *cursor, struct reader *reader)
{
    struct json_stream *found = strcmp(cursor->text, "vocab") == 0    ? &reader->vocab
                                : strcmp(cursor->text, "merges") == 0 ? &reader->merges
                                                                      : NULL;
    const char *begin = cursor->at;
    if (skip_value(cursor) && found && !found->at)
        *found = (struct json_stream){.at = begin, .end = cursor->at};
}

static void walk_model(struct json_stream *cursor, struct reader *reader)
{
    if (strcmp(cursor->text, "model") == 0 && cursor->at < cursor->end && *cursor->at == '{')
        walk_object(cursor, reader, keep_large);
    else
        skip_value(cursor);
}

/* Returns a copy of the file with null in place of the large members. */
static char *without_large(const char *json, size_t length, const struct reader *reader, size_t *rest_length)
{
    const struct json_stream *first = &reader->vocab, *second = &reader->merges;
    if (!first->at || (second->at && second->at < first->at)) {
        const struct json_stream *other = first;
        first = second;
        second = other;
    }
    char *rest = malloc(length + 16);
    if (!rest)
        return NULL;
    char *to = rest;
    const char *from = json;
    const struct json_stream *large[] = {first, second};
    for (int i = 0; i < 2; i++) {
        if (!large[i]->at)
            continue;
        memcpy(to, from, (size_t)(large[i]->at - from));
        to += large[i]->at - from;
        memcpy(to, "null", 4);
        to += 4;
        from = large[i]->end;
    }
    memcpy(to, from, (size_t)(json + length - from));
    to += json + length - from;
    *rest_length = (size_t)(to - rest);
    return rest;
}

int reader_open(const char *json, size_t length, struct reader *reader, struct error *error)
{
    *reader = (struct reader){0};
    if (!utf8_is_valid(json, length))
        return error_set(error, "expected UTF-8");
    struct json_stream cursor = {.at = json, .end = json + length};
    walk_object(&cursor, reader, walk_model);
    cursor_free(&cursor);
    size_t rest_length;
    char *rest = cursor.failed ? NULL : without_large(json, length, reader, &rest_length);
    if (!rest)
        return error_set(error, "out of memory");
    json_error_t fault;
    reader->root = json_loadb(rest, rest_length, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &fault);
    free(rest);
    if (!reader->root) { /* `rest` has other lines than the whole text */
        json_decref(json_loadb(json, length, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &fault));
        return error_set(error, "not JSON: line %d, column %d: %s", fault.line, fault.column, fault.text);
    }
    if (!json_is_object(reader->root)) {
        reader_close(reader);
        return error_set(error, "expected a JSON object");
    }
    return 0;
}

void reader_close(struct reader *reader)
{
    json_decref(reader->root);
    cursor_free(&reader->vocab);
    cursor_free(&reader->merges);
    *reader = (struct reader){0};
}

/* ---- Parts ---- */
int part_keys(const json_t *part, const char *where, const char *const *allowed, struct error *error)
{
    const char *key;
    json_t *value;
    json_object_foreach ((json_t *)part, key, value) {
        size_t i = 0;
        while (allowed[i] && strcmp(allowed[i], key) != 0)
            i++;
        if (!allowed[i])
            return error_set(error, "%s: unknown key \"%s\"", where, key);
    }
    return 0;
}

/* Returns the value of a key. If the key is missing, returns NULL, and *status tells whether this is an error. */
static const json_t *part_value(const json_t *part, const char *where, const char *key, bool required, int *status,
                                struct error *error)
{
    const json_t *value = json_object_get(part, key);
    *status = value || !required ? 0 : error_set(error, "%s: the key \"%s\" is missing", where, key);
    return value;
}

int part_bool(const json_t *part, const char *where, const char *key, bool required, bool *value, struct error *error)
{
    int status;
    const json_t *found = part_value(part, where, key, required, &status, error);
    if (!found)
        return status;
    if (!json_is_boolean(found))
        return error_set(error, "%s: %s: expected true or false", where, key);
    *value = json_is_true(found);
    return 0;
}

int part_integer(const json_t *part, const char *where, const char *key, bool required, int64_t least, int64_t *value,
                 struct error *error)
{
    int status;
    const json_t *found = part_value(part, where, key, required, &status, error);
    if (!found)
        return status;
    if (!json_is_integer(found) || json_integer_value(found) < least)
        return error_set(error, "%s: %s: expected an integer of at least %lld", where, key, (long long)least);
    *value = json_integer_value(found);
    return 0;
}

int part_text(const json_t *part, const char *where, const char *key, bool required, bool nullable, const char **text,
              size_t *length, struct error *error)
{
    int status;
    const json_t *found = part_value(part, where, key, required, &status, error);
    if (!found)
        return status;
    if (nullable && json_is_null(found))
        return 0;
    if (!json_is_string(found))
        return error_set(error, "%s: %s: expected a string%s", where, key, nullable ? " or null" : "");
    *text = json_string_value(found);
    *length = json_string_length(found);
    return 0;
}

int part_character(const json_t *part, const char *where, const char *key, uint32_t *code, struct error *error)
{
    const char *text = NULL;
    size_t length = 0, at = 0;
    if (part_text(part, where, key, true, false, &text, &length, error) != 0)
        return -1;
    if (length > 0)
        *code = utf8_next(text, &at);
    if (length == 0 || at != length)
        return error_set(error, "%s: %s: expected one character", where, key);
    return 0;
}

const char *part_type(const json_t *part, const char *where, struct error *error)
{
    if (!json_is_object(part)) {
        error_set(error, "%s: expected an object", where);
        return NULL;
    }
    const char *type = NULL;
    size_t length;
    return part_text(part, where, "type", true, false, &type, &length, error) == 0 ? type : NULL;
}

int part_choice(const json_t *part, const char *where, const char *key, bool required, const char *const *names,
                int *index, struct error *error)
{
    const char *text = NULL;
    size_t length;
    if (part_text(part, where, key, required, false, &text, &length, error) != 0)
        return -1;
    if (!text)
        return 0;
    char list[512] = "";
    for (int i = 0; names[i]; i++) {
        if (strcmp(names[i], text) == 0) {
            *index = i;
            return 0;
        }
        text_list_add(list, sizeof list, names[i]);
    }
    return error_set(error, "%s: %s: expected one of %s; found \"%s\"", where, key, list, text);
}
