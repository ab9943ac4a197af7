/* numbers: scans each list twice. The first scan checks the grammar and counts the numbers, the second scan reads their
 * values. */
#include "server/text/numbers.h"
#include "server/text/json_text.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    LONGEST_NUMBER = 64, /* a number with this many characters or more is left to jansson */
    WHOLE_DIGITS = 18,   /* every number with this many digits fits in 64 bits */
    MARK = 3,            /* length of a mark such as "[0]", which replaces a list */
    EXPONENT_DIGITS = 2, /* maximum number of digits of an exponent. 10^WHOLE_DIGITS * 10^99 is still a finite double */
};

static bool is_digit(char character)
{
    return character >= '0' && character <= '9';
}

static const char *skip_space(const char *at, const char *end)
{
    while (at < end && (*at == ' ' || *at == '\n' || *at == '\t' || *at == '\r'))
        at++;
    return at;
}

/* ---- Finding a list ---- */

static const char *skip_digits(const char *at, const char *end)
{
    while (at < end && is_digit(*at))
        at++;
    return at;
}

/* Returns the end of the number at `at`. Returns NULL if there is no number, if its text is too long, or if its value
 * may be too large for jansson. */
static const char *skip_number(const char *at, const char *end)
{
    const char *first = at;
    at += at < end && *at == '-';
    const char *start = at;

    at = skip_digits(at, end);
    if (at == start || at - start > WHOLE_DIGITS || (*start == '0' && at - start > 1))
        return NULL;
    if (at < end && *at == '.') {
        start = ++at;
        at = skip_digits(at, end);
        if (at == start)
            return NULL;
    }
    if (at < end && (*at == 'e' || *at == 'E')) {
        at++;
        at += at < end && (*at == '-' || *at == '+');
        start = at;
        at = skip_digits(at, end);
        if (at == start || at - start > EXPONENT_DIGITS)
            return NULL;
    }
    return at - first < LONGEST_NUMBER ? at : NULL;
}

/* Checks the grammar of the list at numbers->text, and counts its elements. Returns false if the list does not consist
 * of numbers or of nested lists of numbers with equal depth. */
static bool measure(struct numbers *numbers, const char *end)
{
    const char *at = numbers->text;
    int depth = 0;
    for (;;) { /* in each iteration, a value is expected next */
        at = skip_space(at, end);
        if (at < end && *at == '[') {
            if (depth == NUMBERS_DEPTH || (numbers->depth && depth == numbers->depth))
                return false;
            numbers->lists[depth++]++;
            at++;
            continue;
        }
        if (numbers->depth && depth != numbers->depth)
            return false;
        numbers->depth = depth;
        at = skip_number(at, end);
        if (!at)
            return false;
        numbers->count++;
        for (at = skip_space(at, end); at < end && *at == ']'; at = skip_space(at, end)) {
            at++;
            if (--depth == 0) {
                numbers->length = (size_t)(at - numbers->text);
                return true;
            }
        }
        if (at == end || *at++ != ',')
            return false;
    }
}

static bool is_key(const char *const *keys, const char *start, const char *end)
{
    size_t length = (size_t)(end - start);
    while (*keys && (strlen(*keys) != length || memcmp(*keys, start, length) != 0))
        keys++;
    return *keys;
}

/* The position of find_value in a body. */
struct cursor {
    const char *at, *end;
    int depth;
    bool escaped; /* a key with an escape was found at a depth from least_depth to most_depth (struct numbers_place). It
                     may be any key */
};

/* Returns the value of the next member whose key is in place->keys, or NULL if there is none. Does not check that the
 * text before the member is valid JSON. */
static const char *find_value(struct cursor *cursor, const struct numbers_place *place)
{
    const char *end = cursor->end, *value = NULL;
    for (; !value && cursor->at < end; cursor->at++) {
        const char *start = cursor->at + 1;
        switch (*cursor->at) {
        case '{':
        case '[':
            cursor->depth++;
            continue;
        case '}':
        case ']':
            cursor->depth--;
            continue;
        case '"':
            break;
        default:
            continue;
        }
        cursor->at = json_text_string_end(start, end);
        const char *colon = cursor->at < end ? skip_space(cursor->at + 1, end) : end;
        bool is_there = place->least_depth <= cursor->depth && cursor->depth <= place->most_depth;
        if (!is_there || colon == end || *colon != ':')
            continue;
        cursor->escaped = cursor->escaped || memchr(start, '\\', (size_t)(cursor->at - start));
        if (is_key(place->keys, start, cursor->at))
            value = skip_space(colon + 1, end);
    }
    return value;
}

/* A search of at most NUMBERS_REST bytes of text. The lists that are found do not count. */
static struct cursor cursor_new(const char *body, size_t length)
{
    return (struct cursor){.at = body, .end = body + (length < NUMBERS_REST ? length : NUMBERS_REST)};
}

size_t numbers_find(const char *body, size_t length, struct numbers_place place, struct numbers *numbers, size_t most)
{
    const char *end = body + length;
    size_t n = 0, beside = length;
    struct cursor cursor = cursor_new(body, length);
    for (const char *value; (value = find_value(&cursor, &place)) != NULL;) {
        cursor.at = value;
        if (value < end && *value != '[')
            continue;
        if (value == end || n == most)
            return 0;
        struct numbers *found = &numbers[n++];

        *found = (struct numbers){.text = value};
        if (!measure(found, end))
            return 0;
        beside -= found->length;
        cursor.at = value + found->length;
        cursor.end = (size_t)(end - cursor.end) < found->length ? end : cursor.end + found->length;
    }
    return !cursor.escaped && beside + n * MARK <= NUMBERS_REST ? n : 0;
}

/* Counts the list whose first element is at `at`. */
static struct numbers_counts count_values(const char *at, const char *end)
{
    struct numbers_counts counts = {.longest = 1, .values = 1, .first = *at};
    /* Indexed by depth: number of elements so far of the open list or object. */
    int64_t elements[NUMBERS_DEPTH + 1] = {0, 1};
    for (int depth = 1; at < end && depth > 0; at++) {
        switch (*at) {
        case '"':
            at = json_text_string_end(at + 1, end);
            break;
        case '[':
        case '{':
            if (++depth <= NUMBERS_DEPTH)
                elements[depth] = 1;
            break;
        case ']':
        case '}':
            depth--;
            break;
        case ',':
            counts.values++;
            if (depth <= NUMBERS_DEPTH && ++elements[depth] > counts.longest)
                counts.longest = elements[depth];
            break;
        }
    }
    counts.elements = elements[1];
    return counts;
}

struct numbers_counts numbers_count(const char *body, size_t length, const char *key)
{
    const struct numbers_place place = {.keys = (const char *const[]){key, NULL}, .least_depth = 1, .most_depth = 1};
    const char *end = body + length;
    struct cursor cursor = {.at = body, .end = end};
    const char *value = find_value(&cursor, &place);
    if (!value || value == end || *value != '[')
        return (struct numbers_counts){0};
    value = skip_space(value + 1, end);
    return value < end && *value != ']' ? count_values(value, end) : (struct numbers_counts){0};
}

size_t numbers_rest(const struct numbers *numbers, size_t n, const char *body, size_t length, char rest[NUMBERS_REST])
{
    const char *at = body;
    size_t filled = 0;
    for (size_t i = 0; i < n; i++) {
        size_t before = (size_t)(numbers[i].text - at);
        memcpy(rest + filled, at, before);
        memcpy(rest + filled + before, (char[MARK]){'[', (char)('0' + i), ']'}, MARK);
        filled += before + MARK;
        at = numbers[i].text + numbers[i].length;
    }
    memcpy(rest + filled, at, (size_t)(body + length - at));
    return filled + (size_t)(body + length - at);
}

/* ---- Reading a list. Its grammar was checked before, and another character follows each number ---- */

static const char *read_id(const char *at, const struct numbers_target *target, int32_t *id)
{
    bool negative = *at == '-';
    int64_t value = 0;
    for (at += negative; is_digit(*at); at++)
        value = value * 10 + (*at - '0');
    bool is_none = negative && value > 0 && -value == target->none;
    *id = is_none ? -1 : (int32_t)value;
    bool in_range = is_none || value < (negative ? 1 : target->below);
    return in_range && *at != '.' && *at != 'e' && *at != 'E' ? at : NULL;
}

static double power_of_ten(int exponent)
{
    static const double powers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                    1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    return powers[exponent];
}

/* Returns 2^exponent, which must be a normal double. */
static double power_of_two(int exponent)
{
    uint64_t bits = (uint64_t)(exponent + 1023) << 52;
    double power;
    memcpy(&power, &bits, sizeof power);
    return power;
}

/* Returns digits / 10^places, correctly rounded, for digits > 0 and places from 1 to 19. The integer quotient has 63 or
 * 64 bits. If the division leaves a remainder, the last bit of the quotient is set. So rounding the integer quotient
 * gives the same result as rounding the exact quotient. */
static double divide(uint64_t digits, int places)
{
    static const uint64_t powers[] = {1,
                                      10,
                                      100,
                                      1000,
                                      10000,
                                      100000,
                                      1000000,
                                      10000000,
                                      100000000,
                                      1000000000,
                                      10000000000,
                                      100000000000,
                                      1000000000000,
                                      10000000000000,
                                      100000000000000,
                                      1000000000000000,
                                      10000000000000000,
                                      100000000000000000,
                                      1000000000000000000,
                                      UINT64_C(10000000000000000000)};
    int shift = __builtin_clzll(digits), divisor_shift = __builtin_clzll(powers[places]);
    uint64_t divisor = powers[places] << divisor_shift;
    unsigned __int128 dividend = (unsigned __int128)(digits << shift) << 63;
    uint64_t quotient = (uint64_t)(dividend / divisor);
    quotient |= (unsigned __int128)quotient * divisor != dividend;
    return (double)quotient * power_of_two(divisor_shift - shift - 63);
}

/* Reads a number with strtod, after copying it to a text that ends with NUL. */
static const char *read_long(const char *at, double *value)
{
    size_t length = strcspn(at, ",] \t\r\n");
    char copy[LONGEST_NUMBER];
    assert(length < sizeof copy);
    memcpy(copy, at, length);
    copy[length] = '\0';
    *value = strtod(copy, NULL);
    return at + length;
}

/* Reads a number with the same result as strtod. Only "-0" becomes 0, because jansson reads it as an integer. */
static const char *read_double(const char *at, double *value)
{
    const char *start = at;
    bool negative = *at == '-', whole = true;
    uint64_t digits = 0;
    int n_digits = 0, exponent = 0, power = 0;
    at += negative;
    for (; is_digit(*at); at++) {
        digits = digits * 10 + (uint64_t)(*at - '0');
        n_digits += n_digits > 0 || *at != '0';
    }
    if (*at == '.') {
        whole = false;
        for (at++; is_digit(*at); at++) {
            digits = digits * 10 + (uint64_t)(*at - '0');
            n_digits += n_digits > 0 || *at != '0';
            exponent--;
        }
    }
    if (*at == 'e' || *at == 'E') {
        bool smaller = at[1] == '-';
        whole = false;
        for (at += 1 + (at[1] == '-' || at[1] == '+'); is_digit(*at); at++)
            power = power * 10 + (*at - '0');
        exponent += smaller ? -power : power;
    }
    if (n_digits > 19) /* the digits may not fit in 64 bits */
        return read_long(start, value);
    if (digits < UINT64_C(1) << 53 && exponent >= -22 && exponent <= 22)
        *value = exponent < 0 ? (double)digits / power_of_ten(-exponent) : (double)digits * power_of_ten(exponent);
    else if (exponent < 0 && exponent >= -19)
        *value = divide(digits, -exponent);
    else if (whole)
        *value = (double)digits;
    else
        return read_long(start, value);
    if (negative && !(whole && digits == 0))
        *value = -*value;
    return at;
}

static const char *read_float(const char *at, float *value)
{
    double exact;
    at = read_double(at, &exact);
    *value = (float)exact;
    return isfinite(*value) ? at : NULL;
}

/* Reads the number at `at` into element n of the target. Returns the end of the number. If the number is wrong, returns
 * `at` if the target counts wrong numbers, or NULL. */
static const char *read_number(const char *at, const struct numbers_target *target, int64_t n)
{
    const char *end = target->ids ? read_id(at, target, &target->ids[n]) : read_float(at, &target->floats[n]);
    if (end || !target->n_wrong)
        return end;
    ++*target->n_wrong;
    if (target->ids)
        target->ids[n] = -1;
    else
        target->floats[n] = NAN;
    return at;
}

/* Reads an innermost list. `at` is directly after its opening bracket. Adds the number of numbers that were read to
 * *count. Returns the position of the closing bracket, or NULL if a number is wrong. */
static const char *read_list(const char *at, const struct numbers_target *target, int64_t *count)
{
    int64_t n = *count;
    do {
        while (*at != '-' && !is_digit(*at))
            at++;
        at = read_number(at, target, n);
        if (!at)
            return NULL;
        n++;
        while (*at != ',' && *at != ']')
            at++;
    } while (*at++ == ',');
    *count = n;
    return at - 1;
}

bool numbers_read(const struct numbers *numbers, const struct numbers_target *target)
{
    const char *end = numbers->text + numbers->length;
    int64_t inside[NUMBERS_DEPTH + 1] = {0}; /* indexed by depth: number of elements of the open list that were read */
    int64_t count = 0, item = 0;
    int depth = 0;
    for (const char *at = numbers->text; at < end; at++) {
        if (*at == '[') {
            inside[++depth] = 0;
            if (depth == numbers->depth) {
                int64_t first = count;
                at = read_list(at + 1, target, &count);
                if (!at)
                    return false;
                inside[depth] = count - first;
            }
        }
        if (*at == ']') {
            if (target->sizes[depth - 1] && target->sizes[depth - 1] != inside[depth]) {
                if (target->list)
                    *target->list = (struct numbers_list){item, inside[depth - 1], inside[depth]};
                return false;
            }
            if (depth == target->item_depth)
                target->ends[item++] = count;
            inside[--depth]++;
        }
    }
    return true;
}

const char *numbers_at(const struct numbers *numbers, int64_t index)
{
    const char *at = numbers->text;
    for (;; index--) {
        while (*at != '-' && !is_digit(*at))
            at++;
        if (index == 0)
            return at;
        while (*at != ',' && *at != ']')
            at++;
    }
}
