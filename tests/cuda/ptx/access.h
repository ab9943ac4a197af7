/* access: the addresses of an instruction, checked and turned into addresses of the host. */
#ifndef TESTS_CUDA_PTX_ACCESS_H
#define TESTS_CUDA_PTX_ACCESS_H

#include "tests/cuda/ptx/machine.h"

namespace ptx
{
enum access { READS, WRITES, ADDS_UP /* an atomic operation */ };

/* The address of each lane. Lanes that are not active get that of an active lane, so that
 * loops need not leave them out. */
void find_addresses(warp &warp, const reference &reference, uint64_t (&addresses)[LANES]);

/* Checks that the active lanes may access `bytes` bytes, a power of 2, there. Turns the addresses into the host's. */
void check_access(warp &warp, const instruction &i, uint64_t (&addresses)[LANES], unsigned bytes, access access);

/* The same for state space .shared, with one size for bounds and alignment. */
void check_shared(warp &warp, const instruction &i, uint64_t (&addresses)[LANES], unsigned bytes, access access);

void check_alignment(const warp &warp, const instruction &i, const uint64_t (&addresses)[LANES], unsigned bytes);

/* Checks one lane's access to global memory. */
void check_global(const warp &warp, const instruction &i, unsigned lane, uint64_t address, uint64_t bytes);

/* Notes that warps access shared memory, and ends the process if two warps do without a barrier between them, one of
 * them writing. `addresses` are PTX's, and within bounds. */
void note_accesses(warp &warp, const instruction &i, const uint64_t (&addresses)[LANES], unsigned bytes, access access);
} // namespace ptx

#endif
