/* Products with weights in bf16, only for the variant of AVX512_BF16: products of blocks of rows and a weight, and
 * projections along the sequence. Bias, activation and residual are applied while the result is in the first-level
 * cache. */
#include "engine/cpu/vector_tile.h"

#define SHORT_ROWS 4 /* number of rows of a smaller tile, for the last rows of a block */

_Static_assert(TILE_ROWS == VECTOR_TILE_ROWS && PANEL == VECTOR_PANEL && WORD_ELEMENTS == 2, "as vector.h says");

/* Not inlined. Within other functions, the compiler would not keep the sums in registers. */
static __attribute__((noinline)) void multiply_full_tile(const float *a, int64_t a_stride, int64_t depth,
                                                         const float *b, float *c, int64_t c_stride, bool add,
                                                         int64_t wide)
{
    multiply_rows(a, a_stride, depth, b, c, c_stride, add, TILE_ROWS, wide);
}

static __attribute__((noinline)) void multiply_short_tile(const float *a, int64_t a_stride, int64_t depth,
                                                          const float *b, float *c, int64_t c_stride, bool add,
                                                          int64_t wide)
{
    multiply_rows(a, a_stride, depth, b, c, c_stride, add, SHORT_ROWS, wide);
}

static __attribute__((noinline)) void multiply_row(const float *a, int64_t depth, const float *b, float *c, bool add,
                                                   int64_t wide)
{
    multiply_rows(a, 0, depth, b, c, 0, add, 1, wide);
}

void VARIANT(vector_to_words)(int64_t rows, int64_t depth, enum element element, const void *x, float *words)
{
    for (int64_t r = 0; r < rows; r++)
        copy_words(element, elements_at(element, x, r * depth), depth, words + r * words_of(depth));
}

void VARIANT(vector_pack_weight)(int64_t columns, int64_t depth, const float *w, float *packed)
{
    for (int64_t first = 0; first < columns; first += PANEL) {
        int64_t count = least(PANEL, columns - first);
        pack_rows(ELEMENT_F32, w + first * depth, depth, count, depth, whole_vectors(count),
                  packed + words_of(depth) * first);
    }
}

/* Fetches residual and y of these rows into the cache while their product is computed. Always inlined, because GCC 12
 * assumes that a function that only prefetches has no effect, and removes its calls. */
INLINE void prefetch_rows(const struct vector_finish *finish)
{
    const int64_t line = 64;
    for (int64_t r = 0; r < finish->rows; r++) {
        const char *z = (const char *)(finish->residual + r * finish->residual_stride);
        const char *y = (const char *)finish->y + r * finish->y_stride * element_bytes(finish->y_element);
        for (int64_t i = 0; finish->residual && i < finish->columns * (int64_t)sizeof(float); i += line)
            __builtin_prefetch(z + i);
        for (int64_t i = 0; i < finish->columns * element_bytes(finish->y_element); i += line)
            __builtin_prefetch(y + i, 1);
    }
}

/* Computes the product of rows [first, first + rows) of a block and one panel of the weight, with the operations after
 * it. */
static void linear_rows(const struct vector_linear *linear, const struct vector_finish *panel, const float *weight,
                        int64_t first, int64_t rows)
{
    int64_t words = words_of(linear->depth), wide = whole_vectors(panel->columns) / WIDTH;
    const float *x = linear->x + first * words;
    struct vector_finish finish = *panel;
    finish.rows = rows;
    finish.x = linear->scratch;
    finish.x_stride = PANEL;
    finish.residual = panel->residual ? panel->residual + first * panel->residual_stride : NULL;
    finish.y = element_room(panel->y_element, panel->y, first * panel->y_stride);
    prefetch_rows(&finish);
    if (rows > SHORT_ROWS)
        multiply_full_tile(x, words, words, weight, linear->scratch, PANEL, false, wide);
    else if (rows > 1)
        multiply_short_tile(x, words, words, weight, linear->scratch, PANEL, false, wide);
    else
        multiply_row(x, words, weight, linear->scratch, false, wide);
    VARIANT(vector).finish_linear(&finish);
}

/* A block of 64 rows is ten tiles of 6 rows and a short tile of 4 rows. So tiles read no more than PLAN_ROW_BLOCK
 * rows. */
void VARIANT(vector_linear)(const struct vector_linear *linear)
{
    const struct vector_finish *finish = &linear->finish;
    for (int64_t first = 0; first < finish->columns; first += PANEL) {
        struct vector_finish panel = vector_finish_columns(finish, first, least(PANEL, finish->columns - first));
        for (int64_t r = 0; r < finish->rows; r += TILE_ROWS)
            linear_rows(linear, &panel, linear->weight + first * words_of(linear->depth), r,
                        least(TILE_ROWS, finish->rows - r));
    }
}

_Static_assert(PLAN_ROW_BLOCK % TILE_ROWS <= SHORT_ROWS, "the last rows of a block fit into a short tile");

/* Adds the product of the last row of x, if the number of rows is odd. A word of E contains two positions. The second
 * position of the last word does not belong to x, so it is set to 0. */
static void project_last_row(const struct vector_project *p, const float *packed, int64_t wide, float *alone)
{
    int64_t word = p->rows / WORD_ELEMENTS;
    for (int64_t j = 0; j < p->k; j++) {
        uint32_t pair;
        memcpy(&pair, p->e + j * p->e_stride + word, sizeof pair);
        pair &= 0xffff;
        memcpy(alone + j, &pair, sizeof pair);
    }
    for (int64_t j = 0; j < p->k; j += TILE_ROWS)
        multiply_full_tile(alone + j, 1, 1, packed, p->c + j * PANEL, PANEL, true, wide);
}

void VARIANT(vector_project)(const struct vector_project *p)
{
    const int64_t chunk = VECTOR_CHUNK_WORDS * WORD_ELEMENTS, whole = p->rows / WORD_ELEMENTS * WORD_ELEMENTS;
    int64_t width = whole_vectors(p->columns), wide = width / WIDTH;
    memset(p->c, 0, (size_t)(p->k * PANEL) * sizeof *p->c);
    for (int64_t first = 0; first < p->rows; first += chunk) {
        int64_t rows = least(chunk, p->rows - first), words = (least(whole, first + rows) - first) / WORD_ELEMENTS;
        pack_columns(p->x_element, elements_at(p->x_element, p->x, first * p->x_stride), p->x_stride, rows, p->columns,
                     width, p->scratch);
        for (int64_t j = 0; j < p->k; j += TILE_ROWS)
            multiply_full_tile(p->e + j * p->e_stride + first / WORD_ELEMENTS, p->e_stride, words, p->scratch,
                               p->c + j * PANEL, PANEL, true, wide);
        if (first + rows > whole)
            project_last_row(p, p->scratch + words * width, wide, p->scratch + VECTOR_PROJECT_SCRATCH);
    }
}
