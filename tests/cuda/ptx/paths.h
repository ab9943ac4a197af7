/* paths: the lanes of a warp may be at different instructions. Lanes at the same instruction form a path. Among the
 * paths that do not wait, the path at the lowest instruction runs. When it comes to the instruction of another path,
 * the two paths merge. */
#ifndef TESTS_CUDA_PTX_PATHS_H
#define TESTS_CUDA_PTX_PATHS_H

#include "tests/cuda/ptx/decode.h"

namespace ptx
{
/* For an instruction that the lanes `wanted` must execute together. Returns true if all of them have reached it.
 * Otherwise the active lanes wait at the instruction, and the caller must not execute it. No lane waits for lanes that
 * have ended. */
bool meet(warp &warp, uint32_t wanted);

/* Like `meet`, for the lanes in the mask that the given operand contains. The process ends in three cases: the masks of
 * two active lanes differ, an active lane is not in the mask, or a lane in the mask has ended. The manual allows the
 * last case, but leaves the values of ended lanes undefined. */
bool meet_masked(warp &warp, const instruction &i, unsigned operand);

/* Like `meet`, for all 32 lanes. The process ends if one of them has ended. */
bool meet_whole(warp &warp, const instruction &i);

/* Merges paths at the same instruction. The lowest path that does not wait becomes warp.now. Ends the process if all
 * paths wait. Ends the warp if no lane is left. */
void choose_path(warp &warp);

/* Returns the next instruction at which warp.now meets another path, unless warp.now branches before. */
uint32_t next_meeting(const warp &warp);
} // namespace ptx

#endif
