/* paths: the lanes of a warp may be at different instructions. Of these paths, the one with the lowest instruction
 * runs, until it comes to the instruction of another path: then they are one again. */
#ifndef TESTS_CUDA_PTX_PATHS_H
#define TESTS_CUDA_PTX_PATHS_H

#include "tests/cuda/ptx/decode.h"

namespace ptx
{
/* For an instruction that `wanted` lanes execute together. False: not all of them are there. Then the active lanes wait
 * at the instruction, for others, and the caller must not go on. Lanes that have ended are not waited for. */
bool meet(warp &warp, uint32_t wanted);

/* The same for the lanes that an operand names. The process ends if active lanes name different ones, if one of them is
 * not named, or if a named one has ended. The manual allows the latter, but leaves open what such a lane gives. */
bool meet_masked(warp &warp, const instruction &i, unsigned operand);

/* The same for all 32 lanes. The process ends if one of them has ended. */
bool meet_whole(warp &warp, const instruction &i);

/* Joins paths at the same instruction, and makes the lowest one that does not wait the warp's path. Ends the process if
 * all wait. The warp ends if no lane is left. */
void choose_path(warp &warp);

/* The instruction at which warp.now meets another path next, unless it branches. */
uint32_t next_meeting(const warp &warp);
} // namespace ptx

#endif
