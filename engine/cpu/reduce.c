/* Reductions over a space. Its outer dimensions index the results, and its inner dimensions are reduced. A strip
 * consists of at most STRIP neighbouring results along the last outer dimension. A strip is computed in one of two
 * ways, depending on the item's strides:
 *
 *     side by side: all results of the strip read their next element at the same time. Good for adjacent elements.
 *     one by one: a result reads STRIP elements at a time, into STRIP partial results, which are combined at the end.
 *
 * Results are doubles, so that many floats can be added in order without losing digits. */
#include "engine/cpu/reduce.h"
#include "engine/plan/space.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define STRIP 128
#define ELEMENTS_ALONE 16384 /* limit in elements. One thread computes a step whose x has fewer elements */
#define TASKS_A_THREAD 4

/* The reduction of a step, for one item. */
struct reducer {
    const struct cpu_run *run;
    const struct plan_step *step;
    int n_outer, n_inner; /* number of outer and of inner dimensions. n_outer is at least 1 */
    struct space_dimension outer[PLAN_SPACE_RANK], inner[PLAN_SPACE_RANK];
    struct space_offsets first;
    int64_t count;  /* number of elements that one result reads */
    const float *x; /* the item's elements of x */
    bool x_ids;     /* elements of x are int32_t */
    float *y;
    bool side_by_side;
};

/* At most STRIP neighbouring results. */
struct strip {
    struct space_offsets at; /* places of the first result in x and y */
    struct space_offsets stride;
    int64_t count;
};

/* ---- The item's space ---- */

static void add_dimension(int *rank, struct space_dimension *dimensions)
{
    if (*rank == 0)
        dimensions[(*rank)++] = (struct space_dimension){.count = 1};
}

/* Evaluates the space for an item. Its last `reduced` dimensions are the inner ones. */
static struct reducer reducer_of(const struct cpu_run *run, const struct plan_step *step, int64_t item, int reduced,
                                 bool writes_inner)
{
    struct evaluated_space space = space_evaluate(&run->plan->spaces[step->space], space_operands_of(step),
                                                  run->batch->sizes + item * run->plan->n_sizes);
    struct reducer r = {.run = run, .step = step, .n_outer = space.rank - reduced, .n_inner = reduced};
    memcpy(r.outer, space.dimensions, (size_t)r.n_outer * sizeof *r.outer);
    memcpy(r.inner, space.dimensions + r.n_outer, (size_t)reduced * sizeof *r.inner);
    for (int d = 0; d < reduced && !writes_inner; d++)
        r.inner[d].stride.y = 0;
    r.n_outer = space_simplify(r.outer, r.n_outer);
    r.n_inner = space_simplify(r.inner, r.n_inner);
    add_dimension(&r.n_outer, r.outer);
    add_dimension(&r.n_inner, r.inner);
    r.first = space.first;
    r.count = space_count(r.inner, r.n_inner);
    r.x_ids = run->plan->values[step->x].ids;
    r.x = (r.x_ids ? (const float *)ids_of(run, step->x) : floats_of(run, step->x)) +
          layout_of(run, step->x)->item_starts[item] * columns_of(run, step->x);
    r.y = floats_of(run, step->y) + layout_of(run, step->y)->item_starts[item] * columns_of(run, step->y);
    int64_t across = llabs(r.outer[r.n_outer - 1].stride.x), along = llabs(r.inner[r.n_inner - 1].stride.x);
    r.side_by_side = r.outer[r.n_outer - 1].count > 1 && across < along;
    return r;
}

/* Calls `compute` for each strip in part number `part` of `parts` parts. */
static void for_strips(const struct reducer *r, int64_t part, int64_t parts,
                       void (*compute)(const struct reducer *r, const struct strip *strip))
{
    const struct space_dimension *last = &r->outer[r->n_outer - 1];
    int64_t pieces = parts_of(last->count, STRIP), strips = space_count(r->outer, r->n_outer - 1) * pieces;
    for (int64_t s = strips * part / parts; s < strips * (part + 1) / parts; s++) {
        int64_t first = s % pieces * STRIP;
        struct strip strip = {.at = space_at(r->outer, r->n_outer - 1, r->first, s / pieces).at,
                              .stride = last->stride,
                              .count = least(STRIP, last->count - first)};
        space_move(&strip.at, &last->stride, first);
        compute(r, &strip);
    }
}

/* Computes all strips of all items. Each item is divided into parts, which are tasks for the threads. The strips are
 * the same for any number of parts. */
static void for_items(const struct cpu_run *run, const struct plan_step *step, int reduced, bool writes_inner,
                      void (*compute)(const struct reducer *r, const struct strip *strip))
{
    int64_t items = run->batch->n_items, elements = rows_of(run, step->x) * columns_of(run, step->x);
    int64_t parts = elements < ELEMENTS_ALONE ? 1 : parts_of(run->threads * TASKS_A_THREAD, items);
    int64_t tasks = elements < ELEMENTS_ALONE ? 1 : items * parts;
#pragma omp parallel for num_threads(threads_for(run, tasks)) schedule(dynamic)
    for (int64_t t = 0; t < items * parts; t++) {
        struct reducer r = reducer_of(run, step, t / parts, reduced, writes_inner);
        for_strips(&r, t % parts, parts, compute);
    }
}

/* Returns `count` elements of x as contiguous floats. If they are not contiguous floats, copies them to `room`. */
static const float *as_floats(const struct reducer *r, int64_t from, int64_t stride, int64_t count, float *room)
{
    const float *x = r->x + from;
    if (stride == 1 && !r->x_ids)
        return x;
    for (int64_t i = 0; i < count; i++) {
        int32_t id;
        memcpy(&id, &x[i * stride], sizeof id);
        room[i] = r->x_ids ? (float)id : x[i * stride];
    }
    return room;
}

/* ---- Results from elements ---- */

static void fill(int64_t n, double value, double *y)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = value;
}

/* The start value of a result. Combining it with a number gives this number. */
static double start_of(enum plan_reduction reduction)
{
    if (reduction == REDUCTION_MAXIMUM || reduction == REDUCTION_ARGMAX)
        return -INFINITY;
    if (reduction == REDUCTION_MINIMUM)
        return INFINITY;
    return reduction == REDUCTION_PRODUCT ? 1 : 0;
}

/* Computes all results y (strip->count) of a strip from their elements, side by side. */
static void reduce_side_by_side(const struct reducer *r, const struct strip *strip, struct vector_reduction reduction,
                                double *y)
{
    float room[STRIP];
    struct space_place place = space_at(r->inner, r->n_inner, strip->at, 0);
    for (int64_t i = 0; i < r->count; i++) {
        const float *x = as_floats(r, place.at.x, strip->stride.x, strip->count, room);
        reduction.place = i;
        r->run->vector->reduce(&reduction, strip->count, x, y);
        space_next(r->inner, r->n_inner, &place);
    }
}

/* Combines two partial results a and b. */
static double join(const struct vector_reduction *reduction, double a, double b)
{
    bool largest = reduction->reduction == REDUCTION_MAXIMUM ||
                   (reduction->reduction == REDUCTION_NORM && isinf(reduction->order));
    if (largest)
        return b > a || isnan(b) ? b : a;
    if (reduction->reduction == REDUCTION_MINIMUM)
        return b < a || isnan(b) ? b : a;
    return reduction->reduction == REDUCTION_PRODUCT ? a * b : a + b;
}

/* The largest of `count` partial results, and its place. A NaN counts as the largest. Of equal results, the first is
 * chosen. */
static double join_argmax(int64_t count, const double *parts, const double *places, double *place)
{
    int64_t best = 0;
    for (int64_t i = 1; i < count; i++) {
        bool equal = parts[i] == parts[best] || (isnan(parts[i]) && isnan(parts[best]));
        bool better = parts[i] > parts[best] || (isnan(parts[i]) && !isnan(parts[best]));
        if (better || (equal && places[i] < places[best]))
            best = i;
    }
    *place = places[best];
    return parts[best];
}

/* Computes one result, whose first element is at x[from]. For REDUCTION_ARGMAX, sets *place. */
static double reduce_one(const struct reducer *r, struct space_offsets from, struct vector_reduction reduction,
                         double *place)
{
    const struct space_dimension *last = &r->inner[r->n_inner - 1];
    double parts[STRIP], places[STRIP] = {0};
    float room[STRIP];
    int64_t runs = space_count(r->inner, r->n_inner - 1);
    struct space_place at = space_at(r->inner, r->n_inner - 1, from, 0);
    fill(STRIP, start_of(reduction.reduction), parts);
    reduction.places = places;
    reduction.step = 1;
    for (int64_t run = 0; run < runs; run++) {
        for (int64_t i = 0; i < last->count; i += STRIP) {
            int64_t count = least(STRIP, last->count - i);
            reduction.place = run * last->count + i;
            r->run->vector->reduce(&reduction, count,
                                   as_floats(r, at.at.x + i * last->stride.x, last->stride.x, count, room), parts);
        }
        space_next(r->inner, r->n_inner - 1, &at);
    }
    int64_t used = least(STRIP, last->count);
    if (reduction.reduction == REDUCTION_ARGMAX)
        return join_argmax(used, parts, places, place);
    double result = start_of(reduction.reduction);
    for (int64_t i = 0; i < used; i++)
        result = join(&reduction, result, parts[i]);
    return result;
}

static void reduce_one_by_one(const struct reducer *r, const struct strip *strip, struct vector_reduction reduction,
                              double *y)
{
    double mean[STRIP], *places = reduction.places;
    const double *means = reduction.mean;
    struct space_offsets at = strip->at;
    for (int64_t i = 0; i < strip->count; i++) {
        if (means)
            fill(STRIP, means[i], mean);
        reduction.mean = mean;
        y[i] = reduce_one(r, at, reduction, &places[i]);
        space_move(&at, &strip->stride, 1);
    }
}

/* Computes the results y (strip->count) of a strip. `mean` is (strip->count) for variances and deviations, and NULL
 * otherwise. `places` is (strip->count). */
static void reduce_strip(const struct reducer *r, const struct strip *strip, enum plan_reduction kind,
                         const double *mean, double *places, double *y)
{
    struct vector_reduction reduction = {
        .reduction = kind, .order = r->step->reduce.parameter, .mean = mean, .places = places};
    fill(strip->count, start_of(kind), y);
    fill(strip->count, 0, places);
    (r->side_by_side ? reduce_side_by_side : reduce_one_by_one)(r, strip, reduction, y);
}

/* ---- OP_REDUCE ---- */

/* Computes a result from the combination y of its elements. */
static double finish(const struct plan_step *step, double y, double place, double count)
{
    double parameter = (double)step->reduce.parameter;
    double variance = y / fmax(count - parameter, 0); /* it is infinite or NaN if the divisor is 0, as in torch */
    switch (step->reduce.reduction) {
    case REDUCTION_MEAN:
        return y / count;
    case REDUCTION_NORM:
        return parameter == 2 ? sqrt(y) : y;
    case REDUCTION_VARIANCE:
        return variance;
    case REDUCTION_DEVIATION:
        return sqrt(variance);
    case REDUCTION_ARGMAX:
        return place;
    case REDUCTION_SUM:
    case REDUCTION_MAXIMUM:
    case REDUCTION_MINIMUM:
    case REDUCTION_PRODUCT:
    case REDUCTION_CUMULATE:
    case REDUCTION_COUNT:
        break;
    }
    return y;
}

static void reduce(const struct reducer *r, const struct strip *strip)
{
    enum plan_reduction kind = r->step->reduce.reduction;
    bool deviates = kind == REDUCTION_VARIANCE || kind == REDUCTION_DEVIATION;
    double y[STRIP], mean[STRIP], places[STRIP];
    if (deviates) {
        reduce_strip(r, strip, REDUCTION_SUM, NULL, places, mean);
        for (int64_t i = 0; i < strip->count; i++)
            mean[i] /= (double)r->count;
    }
    reduce_strip(r, strip, kind, deviates ? mean : NULL, places, y);
    for (int64_t i = 0; i < strip->count; i++)
        r->y[strip->at.y + i * strip->stride.y] = (float)finish(r->step, y[i], places[i], (double)r->count);
}

/* Computes running sums. After each element, writes the sum of all elements so far. */
static void cumulate(const struct reducer *r, const struct strip *strip)
{
    const struct vector_reduction reduction = {.reduction = REDUCTION_CUMULATE};
    double sums[STRIP];
    float room[STRIP];
    struct space_place place = space_at(r->inner, r->n_inner, strip->at, 0);
    fill(strip->count, 0, sums);
    for (int64_t i = 0; i < r->count; i++) {
        const float *x = as_floats(r, place.at.x, strip->stride.x, strip->count, room);
        r->run->vector->reduce(&reduction, strip->count, x, sums);
        for (int64_t c = 0; c < strip->count; c++)
            r->y[place.at.y + c * strip->stride.y] = (float)sums[c];
        space_next(r->inner, r->n_inner, &place);
    }
}

void cpu_reduce(const struct cpu_run *run, const struct plan_step *step)
{
    bool cumulates = step->reduce.reduction == REDUCTION_CUMULATE;
    for_items(run, step, step->reduce.reduced, cumulates, cumulates ? cumulate : reduce);
}

/* ---- OP_SOFTMAX: side by side, the exponentials are computed twice, for their sum and for y ---- */

/* y[i] = exp(x[i] - maximum[i]) for one element of each result of the strip. `place` is the place of the first result's
 * element. If `as_it_is`, y[i] = x[i] - maximum[i]. */
static void exponentials(const struct reducer *r, const struct strip *strip, struct space_offsets place,
                         const float *maximum, bool as_it_is, float *y)
{
    float room[STRIP];
    const float *x = as_floats(r, place.x, strip->stride.x, strip->count, room);
    if (!as_it_is)
        r->run->vector->exp_rows(1, strip->count, x, 0, maximum, y);
    for (int64_t i = 0; i < strip->count && as_it_is; i++)
        y[i] = x[i] - maximum[i];
}

static void softmax_side_by_side(const struct reducer *r, const struct strip *strip)
{
    const struct vector_reduction sum = {.reduction = REDUCTION_SUM};
    bool logarithm = r->step->softmax.logarithm;
    double largest[STRIP], sums[STRIP], places[STRIP];
    float maximum[STRIP], y[STRIP];
    reduce_strip(r, strip, REDUCTION_MAXIMUM, NULL, places, largest);
    for (int64_t i = 0; i < strip->count; i++)
        maximum[i] = (float)largest[i];
    fill(strip->count, 0, sums);
    struct space_place place = space_at(r->inner, r->n_inner, strip->at, 0);
    for (int64_t e = 0; e < r->count; e++) { /* after this loop, `place` is the first place again */
        exponentials(r, strip, place.at, maximum, false, y);
        r->run->vector->reduce(&sum, strip->count, y, sums);
        space_next(r->inner, r->n_inner, &place);
    }
    for (int64_t i = 0; i < strip->count; i++)
        sums[i] = logarithm ? log(sums[i]) : 1 / sums[i];
    for (int64_t e = 0; e < r->count; e++) {
        exponentials(r, strip, place.at, maximum, logarithm, y);
        for (int64_t i = 0; i < strip->count; i++)
            r->y[place.at.y + i * strip->stride.y] = logarithm ? y[i] - (float)sums[i] : y[i] * (float)sums[i];
        space_next(r->inner, r->n_inner, &place);
    }
}

/* The sum of exp(x - maximum) over n contiguous elements. */
static double sum_of_exponentials(const struct vector_functions *vector, int64_t n, const float *x, float maximum)
{
    const struct vector_reduction sum = {.reduction = REDUCTION_SUM};
    double parts[STRIP], result = 0;
    float maxima[STRIP], room[STRIP];
    for (int64_t i = 0; i < STRIP; i++)
        maxima[i] = maximum;
    fill(STRIP, 0, parts);
    for (int64_t i = 0; i < n; i += STRIP) {
        int64_t count = least(STRIP, n - i);
        vector->exp_rows(1, count, x + i, 0, maxima, room);
        vector->reduce(&sum, count, room, parts);
    }
    for (int64_t i = 0; i < least(STRIP, n); i++)
        result += parts[i];
    return result;
}

/* Computes one softmax whose elements of y are contiguous. Copies x to y, and computes the softmax in place. */
static void softmax_dense(const struct reducer *r, struct space_offsets at)
{
    const struct vector_reduction largest = {.reduction = REDUCTION_MAXIMUM};
    const struct space_dimension *along = &r->inner[0];
    float *y = r->y + at.y;
    const float *x = as_floats(r, at.x, along->stride.x, along->count, y);
    if (x != y)
        memcpy(y, x, (size_t)along->count * sizeof *y);
    if (!r->step->softmax.logarithm) {
        r->run->vector->softmax(along->count, 1, y);
        return;
    }
    double place, maximum = reduce_one(r, at, largest, &place);
    float sum = (float)log(sum_of_exponentials(r->run->vector, along->count, y, (float)maximum));
    for (int64_t i = 0; i < along->count; i++)
        y[i] = y[i] - (float)maximum - sum;
}

static void softmax_strip(const struct reducer *r, const struct strip *strip)
{
    if (r->side_by_side || r->inner[0].stride.y != 1) {
        softmax_side_by_side(r, strip);
        return;
    }
    struct space_offsets at = strip->at;
    for (int64_t i = 0; i < strip->count; i++) {
        softmax_dense(r, at);
        space_move(&at, &strip->stride, 1);
    }
}

void cpu_softmax(const struct cpu_run *run, const struct plan_step *step)
{
    for_items(run, step, 1, true, softmax_strip);
}
