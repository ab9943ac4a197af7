/* paths: the lanes of a warp may be at different instructions. Of these paths, the one with the lowest instruction
 * runs, until it comes to the instruction of another path. Then the two become one path. */
#ifndef TESTS_CUDA_PTX_PATHS_H
#define TESTS_CUDA_PTX_PATHS_H

#include "tests/cuda/ptx/decode.h"

namespace ptx
{
/* Call it for an instruction that the lanes `wanted` execute together. Returns false if not all of them have reached
 * it. Then the active lanes wait at the instruction, and the caller must not execute it. No lane waits for lanes that
 * have ended. */
bool meet(warp &warp, uint32_t wanted);

/* Like `meet`, for the lanes that an operand names. The process ends in three cases: active lanes name different lanes,
 * an active lane is not named, or a named lane has ended. The manual allows the last case, but leaves the value of such
 * a lane open. */
bool meet_masked(warp &warp, const instruction &i, unsigned operand);

/* Like `meet`, for all 32 lanes. The process ends if one of them has ended. */
bool meet_whole(warp &warp, const instruction &i);

/* Joins paths at the same instruction, and makes the lowest one that does not wait the warp's path. Ends the process if
 * all wait. The warp ends if no lane is left. */
void choose_path(warp &warp);

/* The instruction at which warp.now meets another path next, unless it branches. */
uint32_t next_meeting(const warp &warp);
} // namespace ptx

#endif
