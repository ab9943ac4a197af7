/* vector_tile: small matrix products whose sums stay in registers. They multiply words (vector_words.h). Attention,
 * products with weights, and projections use these products. */
#ifndef ENGINE_CPU_VECTOR_TILE_H
#define ENGINE_CPU_VECTOR_TILE_H

#include "engine/cpu/vector_words.h"

/* A tile has TILE_ROWS by TILE_VECTORS sums. The sums fit in the vector registers, together with TILE_VECTORS registers
 * for b and one register for a. */
#if WIDTH == 16 || defined(__aarch64__)
#define TILE_ROWS 6
#define TILE_VECTORS 4
#elif WIDTH == 8
#define TILE_ROWS 6
#define TILE_VECTORS 2
#else
#define TILE_ROWS 4
#define TILE_VECTORS 2
#endif

#define PANEL (TILE_VECTORS * WIDTH)

/* The smallest number of floats that is at least n and fills whole vectors. */
INLINE int64_t whole_vectors(int64_t n)
{
    return (n + WIDTH - 1) / WIDTH * WIDTH;
}

/* c (rows, `wide` vectors) = a (rows, depth) b (depth, `wide` vectors). If `add`, adds the product to c. a and b
 * consist of words, c of floats. */
INLINE void multiply_tile(const float *a, int64_t a_stride, int64_t depth, const float *b, float *c, int64_t c_stride,
                          bool add, int rows, int wide)
{
    vector sums[TILE_ROWS][TILE_VECTORS];
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int w = 0; w < wide; w++)
            sums[r][w] = add ? load(c + r * c_stride + w * WIDTH) : all(0);
    for (int64_t t = 0; t < depth; t++, b += wide * WIDTH) {
        vector of_b[TILE_VECTORS];
#pragma GCC unroll 4
        for (int w = 0; w < wide; w++)
            of_b[w] = load(b + w * WIDTH);
#pragma GCC unroll 8
        for (int r = 0; r < rows; r++) {
            vector of_a = all_word(a + r * a_stride + t);
#pragma GCC unroll 4
            for (int w = 0; w < wide; w++)
                sums[r][w] = multiply_words(of_a, of_b[w], sums[r][w]);
        }
    }
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int w = 0; w < wide; w++)
            store(c + r * c_stride + w * WIDTH, sums[r][w]);
}

INLINE void multiply_rows(const float *a, int64_t a_stride, int64_t depth, const float *b, float *c, int64_t c_stride,
                          bool add, int rows, int64_t wide)
{
    if (wide == 1)
        multiply_tile(a, a_stride, depth, b, c, c_stride, add, rows, 1);
#if TILE_VECTORS > 2
    else if (wide == 2)
        multiply_tile(a, a_stride, depth, b, c, c_stride, add, rows, 2);
    else if (wide == 3)
        multiply_tile(a, a_stride, depth, b, c, c_stride, add, rows, 3);
#endif
    else
        multiply_tile(a, a_stride, depth, b, c, c_stride, add, rows, TILE_VECTORS);
}

/* ---- Packing of rows as columns of a product ---- */

#if WIDTH == 16
#define INTERLEAVE_LOW(a, b) SHUFFLE(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define INTERLEAVE_HIGH(a, b) SHUFFLE(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)
#elif WIDTH == 8
#define INTERLEAVE_LOW(a, b) SHUFFLE(a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#define INTERLEAVE_HIGH(a, b) SHUFFLE(a, b, 4, 12, 5, 13, 6, 14, 7, 15)
#else
#define INTERLEAVE_LOW(a, b) SHUFFLE(a, b, 0, 4, 1, 5)
#define INTERLEAVE_HIGH(a, b) SHUFFLE(a, b, 2, 6, 3, 7)
#endif

/* Makes words of elements, and transposes a square (WIDTH, WIDTH) of them. Each round interleaves rows i and i + WIDTH
 * / 2, which rotates the bits of an element's index by one. After log2(WIDTH) rounds, the row and the column of each
 * element are exchanged. */
INLINE void transpose(enum element element, const void *from, int64_t from_stride, float *to, int64_t to_stride)
{
    vector rows[WIDTH], next[WIDTH];
#pragma GCC unroll 16
    for (int i = 0; i < WIDTH; i++)
        rows[i] = load_words(element, elements_at(element, from, i * from_stride), WIDTH * WORD_ELEMENTS);
#pragma GCC unroll 4
    for (int round = 1; round < WIDTH; round *= 2) {
#pragma GCC unroll 8
        for (int i = 0; i < WIDTH / 2; i++) {
            next[2 * i] = INTERLEAVE_LOW(rows[i], rows[i + WIDTH / 2]);
            next[2 * i + 1] = INTERLEAVE_HIGH(rows[i], rows[i + WIDTH / 2]);
        }
#pragma GCC unroll 16
        for (int i = 0; i < WIDTH; i++)
            rows[i] = next[i];
    }
#pragma GCC unroll 16
    for (int i = 0; i < WIDTH; i++)
        store(to + i * to_stride, rows[i]);
}

/* Transposes rows (count, depth) to words (depth, width), so that rows become columns of a product. Columns from
 * `count` to `width` are 0.
 */
INLINE void pack_rows_as(enum element element, const void *rows, int64_t stride, int64_t count, int64_t depth,
                         int64_t width, float *panel)
{
    int64_t whole = count / WIDTH * WIDTH, t = 0;
    for (; (t + WIDTH) * WORD_ELEMENTS <= depth; t += WIDTH)
        for (int64_t j = 0; j < whole; j += WIDTH)
            transpose(element, elements_at(element, rows, j * stride + t * WORD_ELEMENTS), stride,
                      panel + t * width + j, width);
    for (int64_t j = 0; j < width; j++) {
        const void *row = elements_at(element, rows, j < count ? j * stride : 0);
        for (int64_t u = j < whole ? t : 0; u < words_of(depth); u++) {
            int64_t left = depth - u * WORD_ELEMENTS;
            vector word = {0};
            if (j < count)
                word = load_words(element, elements_at(element, row, u * WORD_ELEMENTS),
                                  left < WORD_ELEMENTS ? left : WORD_ELEMENTS);
            memcpy(panel + u * width + j, &word, sizeof *panel);
        }
    }
}

static inline void pack_rows(enum element element, const void *rows, int64_t stride, int64_t count, int64_t depth,
                             int64_t width, float *panel)
{
    if (element == ELEMENT_F32)
        pack_rows_as(ELEMENT_F32, rows, stride, count, depth, width, panel);
    else
        pack_rows_as(ELEMENT_BF16, rows, stride, count, depth, width, panel);
}

/* Copies rows (depth, count) to words (depth, width). Columns from `count` to `width` are 0. */
INLINE void pack_columns_as(enum element element, const void *rows, int64_t stride, int64_t depth, int64_t count,
                            int64_t width, float *panel)
{
    for (int64_t j = 0; j < depth; j += WORD_ELEMENTS, panel += width)
        for (int64_t i = 0; i < width; i += WIDTH) {
            vector words = {0};
            int64_t left = count - i < WIDTH ? count - i : WIDTH;
            if (left > 0)
                words = load_column_words(element, elements_at(element, rows, j * stride + i), stride, depth - j, left);
            store(panel + i, words);
        }
}

static inline void pack_columns(enum element element, const void *rows, int64_t stride, int64_t depth, int64_t count,
                                int64_t width, float *panel)
{
    if (element == ELEMENT_F32)
        pack_columns_as(ELEMENT_F32, rows, stride, depth, count, width, panel);
    else
        pack_columns_as(ELEMENT_BF16, rows, stride, depth, count, width, panel);
}

#endif
