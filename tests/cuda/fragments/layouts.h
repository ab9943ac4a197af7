/* layouts: where NVIDIA's library CuTe places the elements of small matrices in the registers of a warp. Only
 * layouts.cpp includes CuTe's headers. */
#ifndef TESTS_CUDA_FRAGMENTS_LAYOUTS_H
#define TESTS_CUDA_FRAGMENTS_LAYOUTS_H

/* Instructions for D += A B. A is (16, 16) with elements of 16 bits, and (16, 8) in TF32. B has 8 columns. */
enum instruction { MMA_BF16, MMA_F16, MMA_TF32 };
enum fragment_operand { OPERAND_A, OPERAND_B, OPERAND_D };

struct fragment_place {
    int row, column;
};

/* Returns the number of elements of an operand that a thread holds. */
int layout_elements(enum instruction instruction, enum fragment_operand operand);

/* Returns the place of a thread's element in the operand. Elements are counted from the first register. If a register
 * contains two elements, its lower half comes first. */
struct fragment_place layout_place(enum instruction instruction, enum fragment_operand operand, int thread,
                                   int element);

/* ldmatrix with four matrices. Each thread passes the address of a row with 8 elements of 16 bits. The number of the
 * thread is the number of the row. Returns the row and the column of an element that a thread receives. A row of -1
 * means that these 16 bits of the thread's registers are not one element of a row. */
struct fragment_place layout_loaded(bool transposed, int thread, int element);

#endif
