#include "engine/plan/sizes.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define MAX_DEPTH 4 /* limit for the nesting of quotients and remainders, and so for the depth of recursion */

static const struct plan_size *at(const struct plan *plan, int size)
{
    return &plan->sizes[size];
}

static int too_complex(struct plan_builder *builder)
{
    return plan_fail(builder, "a size has more than %d terms, or a term has more than %d factors", PLAN_SIZE_TERMS,
                     PLAN_TERM_FACTORS);
}

static int overflows(struct plan_builder *builder)
{
    return plan_fail(builder, "a coefficient of a size does not fit into 64 bits");
}

/* ---- Polynomials. Terms are sorted by their factors, and factors are sorted within a term ---- */

static int compare_factors(const struct plan_term *a, const struct plan_term *b)
{
    for (int i = 0; i < a->n_factors && i < b->n_factors; i++)
        if (a->factors[i] != b->factors[i])
            return a->factors[i] < b->factors[i] ? -1 : 1;
    return a->n_factors - b->n_factors;
}

static bool equal(const struct plan_size *a, const struct plan_size *b)
{
    bool same = a->n_terms == b->n_terms;
    for (int i = 0; same && i < a->n_terms; i++)
        same = a->terms[i].coefficient == b->terms[i].coefficient && compare_factors(&a->terms[i], &b->terms[i]) == 0;
    return same;
}

/* Adds a term to a polynomial. Returns false if the builder has failed. */
static bool add_term(struct plan_builder *builder, struct plan_size *sum, const struct plan_term *term)
{
    int place = 0;
    if (term->coefficient == 0)
        return true;
    while (place < sum->n_terms && compare_factors(&sum->terms[place], term) < 0)
        place++;
    if (place < sum->n_terms && compare_factors(&sum->terms[place], term) == 0) {
        int64_t *coefficient = &sum->terms[place].coefficient;
        if (__builtin_add_overflow(*coefficient, term->coefficient, coefficient))
            return overflows(builder), false;
        if (*coefficient == 0) {
            sum->n_terms--;
            memmove(&sum->terms[place], &sum->terms[place + 1], (size_t)(sum->n_terms - place) * sizeof *sum->terms);
        }
        return true;
    }
    if (sum->n_terms == PLAN_SIZE_TERMS)
        return too_complex(builder), false;
    memmove(&sum->terms[place + 1], &sum->terms[place], (size_t)(sum->n_terms - place) * sizeof *sum->terms);
    sum->terms[place] = *term;
    sum->n_terms++;
    return true;
}

static bool multiply_terms(struct plan_builder *builder, const struct plan_term *a, const struct plan_term *b,
                           struct plan_term *product)
{
    if (a->n_factors + b->n_factors > PLAN_TERM_FACTORS)
        return too_complex(builder), false;
    if (__builtin_mul_overflow(a->coefficient, b->coefficient, &product->coefficient))
        return overflows(builder), false;
    product->n_factors = 0;
    for (int i = 0, j = 0; i < a->n_factors || j < b->n_factors;) {
        bool first = j == b->n_factors || (i < a->n_factors && a->factors[i] <= b->factors[j]);
        product->factors[product->n_factors++] = first ? a->factors[i++] : b->factors[j++];
    }
    return true;
}

/* Whether the term b divides the term a: each factor of b is a factor of a, and the coefficient of b divides the
 * coefficient of a. If so, sets *quotient. Returns false if the coefficient of b is -1, because the division could
 * overflow. */
static bool divide_terms(const struct plan_term *a, const struct plan_term *b, struct plan_term *quotient)
{
    if (b->coefficient == 0 || b->coefficient == -1 || a->coefficient % b->coefficient != 0)
        return false;
    quotient->coefficient = a->coefficient / b->coefficient;
    quotient->n_factors = 0;
    int j = 0;
    for (int i = 0; i < a->n_factors; i++) {
        if (j < b->n_factors && a->factors[i] == b->factors[j])
            j++;
        else
            quotient->factors[quotient->n_factors++] = a->factors[i];
    }
    return j == b->n_factors;
}

/* Division that rounds down, as in Python. */
static int64_t floor_of(int64_t a, int64_t b)
{
    return a / b - (a % b != 0 && (a % b < 0) != (b < 0));
}

/* ---- The plan's sizes ---- */

static int number_of(struct plan_builder *builder, const struct plan_size *size)
{
    struct plan *plan = builder->plan;
    for (int i = 0; i < plan->n_sizes; i++)
        if (equal(at(plan, i), size))
            return i;
    if (plan->n_sizes == PLAN_MAX_SIZES)
        return plan_fail(builder, "the model has more than %d different sizes", PLAN_MAX_SIZES);
    struct plan_size *place = plan_grow(builder, &plan->sizes, &plan->n_sizes, sizeof *place);
    if (!place)
        return PLAN_NONE;
    *place = *size;
    return plan->n_sizes - 1;
}

int plan_size_constant(struct plan_builder *builder, int64_t value)
{
    if (builder->failed)
        return PLAN_NONE;
    struct plan_size size = {.n_terms = value != 0, .terms = {{.coefficient = value}}};
    return number_of(builder, &size);
}

static bool same_factor(const struct plan_factor *a, const struct plan_factor *b)
{
    if (a->kind != b->kind)
        return false;
    if (a->kind == FACTOR_FREE)
        return a->free.input == b->free.input && a->free.dimension == b->free.dimension;
    return a->of.dividend == b->of.dividend && a->of.divisor == b->of.divisor;
}

static int size_of_factor(struct plan_builder *builder, const struct plan_factor *factor)
{
    struct plan *plan = builder->plan;
    int number = 0;
    while (number < plan->n_factors && !same_factor(&plan->factors[number], factor))
        number++;
    if (number == plan->n_factors) {
        struct plan_factor *place = plan_grow(builder, &plan->factors, &plan->n_factors, sizeof *place);
        if (!place)
            return PLAN_NONE;
        *place = *factor;
    }
    struct plan_size size = {.n_terms = 1, .terms = {{.coefficient = 1, .n_factors = 1, .factors = {number}}}};
    return number_of(builder, &size);
}

int plan_size_free(struct plan_builder *builder, int input, int dimension, int64_t least, int64_t most)
{
    if (builder->failed)
        return PLAN_NONE;
    assert(1 <= least && least <= most);
    if (least == most)
        return plan_size_constant(builder, least);
    struct plan_factor factor = {.kind = FACTOR_FREE, .free = {input, dimension, least, most, ""}};
    return size_of_factor(builder, &factor);
}

void plan_name_size(struct plan_builder *builder, int size, const char *name)
{
    if (builder->failed)
        return;
    const struct plan_size *of = at(builder->plan, size);
    if (of->n_terms != 1 || of->terms[0].n_factors != 1)
        return;
    struct plan_factor *factor = &builder->plan->factors[of->terms[0].factors[0]];
    if (factor->kind == FACTOR_FREE)
        snprintf(factor->free.name, sizeof factor->free.name, "%s", name);
}

int plan_size_add(struct plan_builder *builder, int a, int b)
{
    if (builder->failed)
        return PLAN_NONE;
    struct plan_size sum = *at(builder->plan, a);
    const struct plan_size *other = at(builder->plan, b);
    for (int i = 0; i < other->n_terms; i++)
        if (!add_term(builder, &sum, &other->terms[i]))
            return PLAN_NONE;
    return number_of(builder, &sum);
}

int plan_size_subtract(struct plan_builder *builder, int a, int b)
{
    return plan_size_add(builder, a, plan_size_multiply(builder, b, plan_size_constant(builder, -1)));
}

int plan_size_multiply(struct plan_builder *builder, int a, int b)
{
    if (builder->failed)
        return PLAN_NONE;
    const struct plan_size *first = at(builder->plan, a), *second = at(builder->plan, b);
    struct plan_size product = {.n_terms = 0};
    for (int i = 0; i < first->n_terms; i++)
        for (int j = 0; j < second->n_terms; j++) {
            struct plan_term term;
            if (!multiply_terms(builder, &first->terms[i], &second->terms[j], &term) ||
                !add_term(builder, &product, &term))
                return PLAN_NONE;
        }
    return number_of(builder, &product);
}

static bool same_term(const struct plan_term *a, const struct plan_term *b)
{
    return a->coefficient == b->coefficient && a->n_factors == b->n_factors &&
           memcmp(a->factors, b->factors, (size_t)a->n_factors * sizeof *a->factors) == 0;
}

/* Whether a = t * b for one term t. If so, sets *quotient to t. b has several terms. */
static bool divide_by_sum(const struct plan_size *a, const struct plan_size *b, struct plan_term *quotient)
{
    struct plan_term other;
    bool found = a->n_terms == b->n_terms && b->n_terms > 1;
    for (int i = 0, matches = 0; found && matches < b->n_terms; i++) {
        matches = 0;
        if (i == a->n_terms)
            return false;
        if (!divide_terms(&a->terms[i], &b->terms[0], quotient))
            continue;
        for (int j = 0; j < b->n_terms; j++)
            for (int k = 0; k < a->n_terms; k++)
                matches += divide_terms(&a->terms[k], &b->terms[j], &other) && same_term(&other, quotient);
    }
    return found;
}

bool plan_size_divides(struct plan_builder *builder, int a, int b, int *quotient)
{
    if (builder->failed)
        return false;
    const struct plan_size *dividend = at(builder->plan, a), *divisor = at(builder->plan, b);
    struct plan_size result = {.n_terms = 0};
    if (a == b && divisor->n_terms > 0) {
        *quotient = plan_size_constant(builder, 1);
        return *quotient != PLAN_NONE;
    }
    if (divisor->n_terms > 1 && divide_by_sum(dividend, divisor, &result.terms[0])) {
        result.n_terms = 1;
        *quotient = number_of(builder, &result);
        return *quotient != PLAN_NONE;
    }
    if (divisor->n_terms != 1)
        return false;
    for (int i = 0; i < dividend->n_terms; i++) {
        struct plan_term term;
        if (!divide_terms(&dividend->terms[i], &divisor->terms[0], &term) || !add_term(builder, &result, &term))
            return false;
    }
    *quotient = number_of(builder, &result);
    return *quotient != PLAN_NONE;
}

/* How deep quotients and remainders are nested in two sizes. 0 if the sizes have none. */
static int deepest(const struct plan *plan, int a, int b)
{
    const struct plan_size *sizes[] = {at(plan, a), at(plan, b)};
    int depth = 0;
    for (int s = 0; s < 2; s++)
        for (int t = 0; t < sizes[s]->n_terms; t++)
            for (int f = 0; f < sizes[s]->terms[t].n_factors; f++) {
                int found = plan->factors[sizes[s]->terms[t].factors[f]].depth;
                depth = found > depth ? found : depth;
            }
    return depth;
}

static int divide(struct plan_builder *builder, enum plan_factor_kind kind, int a, int b)
{
    int64_t dividend, divisor, least, most;
    if (builder->failed)
        return PLAN_NONE;
    if (plan_size_is_constant(builder->plan, b, &divisor) && divisor < 1)
        return plan_fail(builder, "a size is divided by %lld; expected a divisor of at least 1", (long long)divisor);
    if (plan_size_is_constant(builder->plan, a, &dividend) && plan_size_is_constant(builder->plan, b, &divisor)) {
        int64_t quotient = floor_of(dividend, divisor);
        return plan_size_constant(builder, kind == FACTOR_QUOTIENT ? quotient : dividend - quotient * divisor);
    }
    plan_size_bounds(builder->plan, b, &least, &most);
    if (least < 1)
        return plan_fail(builder, "a size is divided by a size that may be 0");
    struct plan_factor factor = {.kind = kind, .of = {a, b}, .depth = 1 + deepest(builder->plan, a, b)};
    if (factor.depth > MAX_DEPTH)
        return plan_fail(builder, "quotients and remainders of sizes are nested more than %d deep", MAX_DEPTH);
    return size_of_factor(builder, &factor);
}

/* Writes the dividend a as q b + r, because the quotient (q b + r) / b equals q + r / b. This gives equal quotients the
 * same form. Sets *multiple to q and *rest to r. Returns false if q is 0. */
static bool split_multiple(struct plan_builder *builder, int a, int b, struct plan_size *multiple,
                           struct plan_size *rest)
{
    const struct plan_size *dividend = at(builder->plan, a), *divisor = at(builder->plan, b);
    int64_t constant;
    *multiple = *rest = (struct plan_size){.n_terms = 0};
    if (divisor->n_terms != 1)
        return false;
    bool is_constant = plan_size_is_constant(builder->plan, b, &constant) && constant > 0;
    for (int i = 0; i < dividend->n_terms; i++) {
        struct plan_term quotient, whole = dividend->terms[i], left = dividend->terms[i];
        if (divide_terms(&dividend->terms[i], &divisor->terms[0], &quotient)) {
            if (!add_term(builder, multiple, &quotient))
                return false;
            continue;
        }
        whole.coefficient = is_constant ? floor_of(left.coefficient, constant) : 0;
        left.coefficient -= is_constant ? whole.coefficient * constant : 0;
        if (!add_term(builder, multiple, &whole) || !add_term(builder, rest, &left))
            return false;
    }
    return multiple->n_terms > 0;
}

int plan_size_divide(struct plan_builder *builder, int a, int b)
{
    int quotient;
    struct plan_size multiple, rest;
    if (plan_size_divides(builder, a, b, &quotient))
        return quotient;
    if (!builder->failed && split_multiple(builder, a, b, &multiple, &rest))
        return plan_size_add(builder, number_of(builder, &multiple),
                             divide(builder, FACTOR_QUOTIENT, number_of(builder, &rest), b));
    return divide(builder, FACTOR_QUOTIENT, a, b);
}

int plan_size_remainder(struct plan_builder *builder, int a, int b)
{
    int quotient;
    return plan_size_divides(builder, a, b, &quotient) ? plan_size_constant(builder, 0)
                                                       : divide(builder, FACTOR_REMAINDER, a, b);
}

bool plan_size_is_constant(const struct plan *plan, int size, int64_t *value)
{
    const struct plan_size *of = at(plan, size);
    *value = of->n_terms ? of->terms[0].coefficient : 0;
    return of->n_terms == 0 || (of->n_terms == 1 && of->terms[0].n_factors == 0);
}

/* ---- Bounds: sums and products of intervals. They saturate instead of overflowing ---- */

struct interval {
    int64_t least, most;
};

static int64_t saturated_sum(int64_t a, int64_t b)
{
    int64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? (a > 0 ? INT64_MAX : INT64_MIN) : sum;
}

static int64_t saturated_product(int64_t a, int64_t b)
{
    int64_t product;
    return __builtin_mul_overflow(a, b, &product) ? ((a > 0) == (b > 0) ? INT64_MAX : INT64_MIN) : product;
}

static struct interval product_of(struct interval a, struct interval b)
{
    int64_t ends[] = {saturated_product(a.least, b.least), saturated_product(a.least, b.most),
                      saturated_product(a.most, b.least), saturated_product(a.most, b.most)};
    struct interval product = {ends[0], ends[0]};
    for (int i = 1; i < 4; i++) {
        product.least = ends[i] < product.least ? ends[i] : product.least;
        product.most = ends[i] > product.most ? ends[i] : product.most;
    }
    return product;
}

static struct interval bounds_of_factor(const struct plan *plan, const struct plan_factor *factor)
{
    if (factor->kind == FACTOR_FREE)
        return (struct interval){factor->free.least, factor->free.most};
    struct interval dividend, divisor;
    plan_size_bounds(plan, factor->of.dividend, &dividend.least, &dividend.most);
    plan_size_bounds(plan, factor->of.divisor, &divisor.least, &divisor.most);
    divisor.least = divisor.least < 1 ? 1 : divisor.least;
    if (factor->kind == FACTOR_REMAINDER)
        return (struct interval){0, divisor.most == INT64_MAX ? INT64_MAX : divisor.most - 1};
    int64_t least = dividend.least < 0 ? dividend.least : divisor.most == INT64_MAX ? 0 : dividend.least / divisor.most;
    return (struct interval){least, dividend.most < 0            ? -1
                                    : dividend.most == INT64_MAX ? INT64_MAX
                                                                 : dividend.most / divisor.least};
}

void plan_size_bounds(const struct plan *plan, int size, int64_t *least, int64_t *most)
{
    const struct plan_size *of = at(plan, size);
    struct interval sum = {0, 0};
    for (int i = 0; i < of->n_terms; i++) {
        struct interval term = {of->terms[i].coefficient, of->terms[i].coefficient};
        for (int f = 0; f < of->terms[i].n_factors; f++)
            term = product_of(term, bounds_of_factor(plan, &plan->factors[of->terms[i].factors[f]]));
        sum.least = saturated_sum(sum.least, term.least);
        sum.most = saturated_sum(sum.most, term.most);
    }
    *least = sum.least;
    *most = sum.most;
}

/* ---- Values ---- */

static bool value_of_factor(const struct plan *plan, const struct plan_factor *factor,
                            const struct plan_lengths *lengths, const void *context, int64_t *value)
{
    if (factor->kind == FACTOR_FREE) {
        *value = lengths->dimension(plan, factor->free.input, factor->free.dimension, context);
        return true;
    }
    int64_t dividend, divisor;
    if (!plan_size_value(plan, factor->of.dividend, lengths, context, &dividend) ||
        !plan_size_value(plan, factor->of.divisor, lengths, context, &divisor) || divisor < 1)
        return false;
    int64_t quotient = floor_of(dividend, divisor);
    *value = factor->kind == FACTOR_QUOTIENT ? quotient : dividend - quotient * divisor;
    return true;
}

bool plan_size_value(const struct plan *plan, int size, const struct plan_lengths *lengths, const void *context,
                     int64_t *value)
{
    const struct plan_size *of = at(plan, size);
    *value = 0;
    for (int t = 0; t < of->n_terms; t++) {
        int64_t term = of->terms[t].coefficient, factor;
        for (int f = 0; f < of->terms[t].n_factors; f++)
            if (!value_of_factor(plan, &plan->factors[of->terms[t].factors[f]], lengths, context, &factor) ||
                __builtin_mul_overflow(term, factor, &term))
                return false;
        if (__builtin_add_overflow(*value, term, value))
            return false;
    }
    return true;
}

/* ---- Steps and limits that use sizes ---- */

int plan_add_space(struct plan_builder *builder, const struct plan_space *space)
{
    if (builder->failed)
        return PLAN_NONE;
    assert(space->rank <= PLAN_SPACE_RANK);
    struct plan *plan = builder->plan;
    struct plan_space *place = plan_grow(builder, &plan->spaces, &plan->n_spaces, sizeof *place);
    if (!place)
        return PLAN_NONE;
    *place = *space;
    return plan->n_spaces - 1;
}

void plan_limit_size(struct plan_builder *builder, struct plan_size_limit limit)
{
    if (builder->failed)
        return;
    struct plan *plan = builder->plan;
    int64_t least, most, value;
    char text[80];
    plan_size_bounds(plan, limit.size, &least, &most);
    bool constant = plan_size_is_constant(plan, limit.size, &value);
    bool holds = !constant || value % limit.multiple == 0;
    plan_size_text(plan, limit.size, text, sizeof text);
    if (!holds)
        plan_fail(builder, "%s is %s; expected a multiple of %lld", limit.what, text, (long long)limit.multiple);
    else if (most < limit.least && limit.most == INT64_MAX)
        plan_fail(builder, "%s is %s; expected at least %lld", limit.what, text, (long long)limit.least);
    else if (most < limit.least || least > limit.most)
        plan_fail(builder, "%s is %s; expected %lld to %lld", limit.what, text, (long long)limit.least,
                  (long long)limit.most);
    if (builder->failed)
        return;
    if (least >= limit.least && most <= limit.most && (constant || limit.multiple == 1))
        return;
    struct plan_size_limit *place = plan_grow(builder, &plan->size_limits, &plan->n_size_limits, sizeof *place);
    if (place)
        *place = limit;
}

/* ---- Text ---- */

static void append(char *text, size_t room, const char *more)
{
    size_t length = strlen(text);
    if (length < room)
        snprintf(text + length, room - length, "%s", more);
}

/* Appends a number or a name as it is, and any other size in parentheses. */
static void append_operand(const struct plan *plan, int size, char *text, size_t room)
{
    const struct plan_size *of = at(plan, size);
    const struct plan_term *term = &of->terms[0];
    bool name = of->n_terms == 1 && term->n_factors == 1 && term->coefficient == 1 &&
                plan->factors[term->factors[0]].kind == FACTOR_FREE;
    bool number = of->n_terms == 0 || (of->n_terms == 1 && term->n_factors == 0 && term->coefficient > 0);
    char part[64];
    append(text, room, name || number ? "" : "(");
    append(text, room, plan_size_text(plan, size, part, sizeof part));
    append(text, room, name || number ? "" : ")");
}

static void append_factor(const struct plan *plan, const struct plan_factor *factor, char *text, size_t room)
{
    char number[32];
    if (factor->kind != FACTOR_FREE) {
        append_operand(plan, factor->of.dividend, text, room);
        append(text, room, factor->kind == FACTOR_QUOTIENT ? "//" : "%");
        append_operand(plan, factor->of.divisor, text, room);
    } else if (factor->free.input == PLAN_NONE) {
        append(text, room, "batch");
    } else if (factor->free.name[0] != '\0') {
        append(text, room, factor->free.name);
    } else {
        append(text, room, plan->inputs[factor->free.input].input.name);
        snprintf(number, sizeof number, ".%d", factor->free.dimension);
        append(text, room, number);
    }
}

static void append_term(const struct plan *plan, const struct plan_term *term, bool first, char *text, size_t room)
{
    uint64_t size = term->coefficient < 0 ? -(uint64_t)term->coefficient : (uint64_t)term->coefficient;
    bool written = size != 1 || term->n_factors == 0, product = written || term->n_factors > 1;
    char number[32];
    append(text, room, term->coefficient < 0 ? (first ? "-" : " - ") : first ? "" : " + ");
    snprintf(number, sizeof number, "%" PRIu64, size);
    append(text, room, written ? number : "");
    for (int f = 0; f < term->n_factors; f++) {
        const struct plan_factor *factor = &plan->factors[term->factors[f]];
        bool within = product && factor->kind != FACTOR_FREE;
        append(text, room, written || f > 0 ? "*" : "");
        append(text, room, within ? "(" : "");
        append_factor(plan, factor, text, room);
        append(text, room, within ? ")" : "");
    }
}

const char *plan_size_text(const struct plan *plan, int size, char *text, size_t room)
{
    const struct plan_size *of = at(plan, size);
    bool first = true;
    text[0] = '\0';
    for (int constant = 0; constant < 2; constant++) /* the constant term comes last */
        for (int t = 0; t < of->n_terms; t++) {
            if ((of->terms[t].n_factors == 0) != constant)
                continue;
            append_term(plan, &of->terms[t], first, text, room);
            first = false;
        }
    append(text, room, first ? "0" : "");
    return text;
}
