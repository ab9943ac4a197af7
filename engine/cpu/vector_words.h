/* vector_words: loading and storing of elements, and of words, which products read. A word has 4 bytes. In the variant
 * for AVX512_BF16 a word is two bf16 that are neighbours along the depth of the product. In all other variants a word
 * is one float. Words are stored in arrays of floats, although a pair of bf16 means nothing as a float. Strides of
 * words count words, and strides of elements count elements. */
#ifndef ENGINE_CPU_VECTOR_WORDS_H
#define ENGINE_CPU_VECTOR_WORDS_H

#include "engine/cpu/vector_type.h"

#ifdef __AVX512BF16__
#define WORD_ELEMENTS 2
#else
#define WORD_ELEMENTS 1
#endif

typedef uint16_t halves __attribute__((vector_size(2 * WIDTH)));

INLINE int64_t words_of(int64_t elements)
{
    return (elements + WORD_ELEMENTS - 1) / WORD_ELEMENTS;
}

/* Pointers to element i of the row. elements_at is for reading, element_room for writing. */
INLINE const void *elements_at(enum element element, const void *row, int64_t i)
{
    return (const char *)row + i * element_bytes(element);
}

INLINE void *element_room(enum element element, void *row, int64_t i)
{
    return (char *)row + i * element_bytes(element);
}

/* Rounds to the nearest, ties to even. A NaN stays a NaN. The instruction of AVX512_BF16 turns subnormals into 0, like
 * its instruction for products. */
INLINE halves to_halves(vector x)
{
#ifdef __AVX512BF16__
    return (halves)_mm512_cvtneps_pbh((__m512)x);
#else
    bits word = (bits)x, rounded = (word + 0x7fff + (word >> 16 & 1)) >> 16, quiet = word >> 16 | 0x40;
    bits no_number = (bits)((word & 0x7fffffff) > 0x7f800000);
    return __builtin_convertvector((quiet & no_number) | (rounded & ~no_number), halves);
#endif
}

INLINE vector from_halves(halves x)
{
    return (vector)(__builtin_convertvector(x, bits) << 16);
}

/* Loads the first `count` elements, at most WIDTH. The other elements of the vector are 0. */
INLINE vector load_elements(enum element element, const void *from, int64_t count)
{
    if (element == ELEMENT_F32)
        return count == WIDTH ? load(from) : load_part(from, count, 0);
    halves x = {0};
    if (count == WIDTH)
        memcpy(&x, from, sizeof x);
    else
        memcpy(&x, from, (size_t)count * sizeof(uint16_t));
    return from_halves(x);
}

INLINE void store_elements(enum element element, void *to, vector v, int64_t count)
{
    if (element == ELEMENT_F32) {
        if (count == WIDTH)
            store(to, v);
        else
            store_part(to, v, count);
        return;
    }
    halves x = to_halves(v);
    if (count == WIDTH)
        memcpy(to, &x, sizeof x);
    else
        memcpy(to, &x, (size_t)count * sizeof(uint16_t));
}

/* A vector whose WIDTH words are `word`. The bits are copied as integers, because the word may be a NaN if it is read
 * as a float. */
INLINE vector all_word(const float *word)
{
#ifdef __AVX512BF16__
    int32_t pair;
    memcpy(&pair, word, sizeof pair);
    return (vector)_mm512_set1_epi32(pair);
#else
    return all(*word);
#endif
}

/* a b + c for each word. If words are pairs of bf16, both products of a pair are added to c. */
INLINE vector multiply_words(vector a, vector b, vector c)
{
#ifdef __AVX512BF16__
    return (vector)_mm512_dpbf16_ps((__m512)c, (__m512bh)a, (__m512bh)b);
#else
    return multiply_add(a, b, c);
#endif
}

/* Makes WIDTH words from the first `count` elements of a row, at most WIDTH * WORD_ELEMENTS elements. Elements after
 * these count as 0. */
INLINE vector load_words(enum element element, const void *from, int64_t count)
{
#ifdef __AVX512BF16__
    if (element == ELEMENT_BF16) {
        vector words = {0};
        if (count == 2 * WIDTH)
            memcpy(&words, from, sizeof words);
        else
            memcpy(&words, from, (size_t)count * sizeof(uint16_t));
        return words;
    }
    vector low = load_elements(element, from, count < WIDTH ? count : WIDTH), high = {0};
    if (count > WIDTH)
        high = load_elements(element, elements_at(element, from, WIDTH), count - WIDTH);
    return (vector)_mm512_cvtne2ps_pbh((__m512)high, (__m512)low);
#else
    return load_elements(element, from, count);
#endif
}

/* Converts a row of `count` elements to words_of(count) words. If the last word has only one element, its other half is
 * 0. */
INLINE void copy_words(enum element element, const void *from, int64_t count, float *to)
{
    const int64_t most = WIDTH * WORD_ELEMENTS;
    int64_t i = 0;
    for (; i + most <= count; i += most)
        store(to + i / WORD_ELEMENTS, load_words(element, elements_at(element, from, i), most));
    if (i < count)
        store_part(to + i / WORD_ELEMENTS, load_words(element, elements_at(element, from, i), count - i),
                   words_of(count - i));
}

/* Makes one word for each of `count` columns, from WORD_ELEMENTS rows that are `stride` elements apart. If `rows` is
 * smaller than WORD_ELEMENTS, the missing elements are 0. */
INLINE vector load_column_words(enum element element, const void *from, int64_t stride, int64_t rows, int64_t count)
{
#ifdef __AVX512BF16__
    halves upper = to_halves(load_elements(element, from, count)), lower = {0};
    if (rows > 1)
        lower = to_halves(load_elements(element, elements_at(element, from, stride), count));
    return (vector)(__builtin_convertvector(upper, bits) | __builtin_convertvector(lower, bits) << 16);
#else
    (void)stride, (void)rows;
    return load_elements(element, from, count);
#endif
}

/* Writes WIDTH floats as WIDTH / WORD_ELEMENTS words. */
INLINE void store_words(float *to, vector v)
{
    store_elements(WORD_ELEMENTS == 2 ? ELEMENT_BF16 : ELEMENT_F32, to, v, WIDTH);
}

#endif
