/* access: finds the addresses that an instruction accesses, checks them, and converts them to addresses of the host. */
#ifndef TESTS_CUDA_PTX_ACCESS_H
#define TESTS_CUDA_PTX_ACCESS_H

#include "tests/cuda/ptx/machine.h"

namespace ptx
{
enum access { READS, WRITES, ADDS_UP /* an atomic operation */ };

/* Computes the address of each lane. Inactive lanes get the address of an active lane, which lets loops include all
 * lanes. */
void find_addresses(warp &warp, const reference &reference, uint64_t (&addresses)[LANES]);

/* Checks that each active lane may access `bytes` bytes, a power of 2, at its address. Converts the addresses to
 * addresses of the host. */
void check_access(warp &warp, const instruction &i, uint64_t (&addresses)[LANES], unsigned bytes, access access);

/* Checks the bounds of accesses to state space .shared, and records the accesses to detect races (note_accesses).
 * Converts the addresses to addresses of the host. The caller has checked the alignment. */
void check_shared(warp &warp, const instruction &i, uint64_t (&addresses)[LANES], unsigned bytes, access access);

void check_alignment(const warp &warp, const instruction &i, const uint64_t (&addresses)[LANES], unsigned bytes);

/* Checks one lane's access to global memory. */
void check_global(const warp &warp, const instruction &i, unsigned lane, uint64_t address, uint64_t bytes);

/* Records accesses to shared memory. Ends the process if another warp accessed the same bytes since the last barrier,
 * and at least one of the two accesses is a write. races.cpp describes the exceptions. `addresses` are within the
 * bounds of state space .shared. */
void note_accesses(warp &warp, const instruction &i, const uint64_t (&addresses)[LANES], unsigned bytes, access access);
} // namespace ptx

#endif
