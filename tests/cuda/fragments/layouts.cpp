#include "tests/cuda/fragments/layouts.h"

#include <cute/atom/copy_traits_sm75.hpp>
#include <cute/atom/mma_traits_sm80.hpp>

#define THREADS 32
#define ROW_BITS 128
#define ELEMENT_BITS 16

namespace
{
/* CuTe gives each element a number: m + M k for A (m, k), n + N k for B (n, k), and m + M n for D (m, n). */
template <typename Operation> struct product {
    typedef cute::MMA_Traits<Operation> traits;
    static constexpr int m = cute::size<0>(typename traits::Shape_MNK{}),
                         n = cute::size<1>(typename traits::Shape_MNK{});

    static int elements(enum fragment_operand operand)
    {
        return operand == OPERAND_A   ? (int)cute::size<1>(typename traits::ALayout{})
               : operand == OPERAND_B ? (int)cute::size<1>(typename traits::BLayout{})
                                      : (int)cute::size<1>(typename traits::CLayout{});
    }

    static struct fragment_place place(enum fragment_operand operand, int thread, int element)
    {
        if (operand == OPERAND_B) {
            int number = typename traits::BLayout{}(thread, element);
            return {number / n, number % n};
        }
        int number = operand == OPERAND_A ? (int)typename traits::ALayout{}(thread, element)
                                          : (int)typename traits::CLayout{}(thread, element);
        return {number % m, number / m};
    }
};

typedef product<cute::SM80_16x8x16_F32BF16BF16F32_TN> product_bf16;
typedef product<cute::SM80_16x8x16_F32F16F16F32_TN> product_f16;
typedef product<cute::SM80_16x8x8_F32TF32TF32F32_TN> product_tf32;

/* CuTe gives each bit a number. The source layout maps a thread and a bit of the thread's row to this number. The
 * destination layout maps a thread and a bit of the thread's registers to this number. */
template <typename Operation> struct fragment_place loaded(int thread, int element)
{
    typename cute::Copy_Traits<Operation>::SrcLayout source;
    typename cute::Copy_Traits<Operation>::DstLayout destination;
    int first = destination(thread, element * ELEMENT_BITS);
    for (int bit = 0; bit < ELEMENT_BITS; bit++)
        if ((int)destination(thread, element * ELEMENT_BITS + bit) != first + bit)
            return {-1, 0};
    for (int row = 0; row < THREADS; row++)
        for (int bit = 0; bit < ROW_BITS; bit += ELEMENT_BITS)
            if ((int)source(row, bit) == first)
                return {row, bit / ELEMENT_BITS};
    return {-1, 0};
}
} // namespace

int layout_elements(enum instruction instruction, enum fragment_operand operand)
{
    return instruction == MMA_BF16  ? product_bf16::elements(operand)
           : instruction == MMA_F16 ? product_f16::elements(operand)
                                    : product_tf32::elements(operand);
}

struct fragment_place layout_place(enum instruction instruction, enum fragment_operand operand, int thread, int element)
{
    return instruction == MMA_BF16  ? product_bf16::place(operand, thread, element)
           : instruction == MMA_F16 ? product_f16::place(operand, thread, element)
                                    : product_tf32::place(operand, thread, element);
}

struct fragment_place layout_loaded(bool transposed, int thread, int element)
{
    return transposed ? loaded<cute::SM75_U16x8_LDSM_T>(thread, element)
                      : loaded<cute::SM75_U32x4_LDSM_N>(thread, element);
}
