/* access: the addresses of an instruction, checked and turned into addresses of the host. */
#ifndef TESTS_CUDA_PTX_ACCESS_H
#define TESTS_CUDA_PTX_ACCESS_H

#include "tests/cuda/ptx/machine.h"

namespace ptx
{
enum access { READS, WRITES, ADDS_UP /* an atomic operation */ };

/* The address of each lane. Lanes that are not active get the address of an active lane, so that loops need not leave
 * them out. */
void find_addresses(warp &warp, const reference &reference, uint64_t (&addresses)[LANES]);

/* Checks that each active lane may access `bytes` bytes, a power of 2, at its address. Turns the addresses into the
 * host's. */
void check_access(warp &warp, const instruction &i, uint64_t (&addresses)[LANES], unsigned bytes, access access);

/* Checks the bounds of accesses to state space .shared, and notes them for races. Turns the addresses into the host's.
 * The caller has checked the alignment. */
void check_shared(warp &warp, const instruction &i, uint64_t (&addresses)[LANES], unsigned bytes, access access);

void check_alignment(const warp &warp, const instruction &i, const uint64_t (&addresses)[LANES], unsigned bytes);

/* Checks one lane's access to global memory. */
void check_global(const warp &warp, const instruction &i, unsigned lane, uint64_t address, uint64_t bytes);

/* Notes an access to shared memory. Ends the process if another warp accessed the same bytes since the last barrier,
 * and one of the two writes. `addresses` are addresses of PTX within bounds. */
void note_accesses(warp &warp, const instruction &i, const uint64_t (&addresses)[LANES], unsigned bytes, access access);
} // namespace ptx

#endif
