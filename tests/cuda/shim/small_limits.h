/* small_limits: those that only large models and batches reach, small; the engine is compiled for the shim with these.
 */
#ifndef TESTS_CUDA_SHIM_SMALL_LIMITS_H
#define TESTS_CUDA_SHIM_SMALL_LIMITS_H

#define GRAPHS 4              /* graphs.h */
#define RESULTS_BYTES 24000   /* results.cu */
#define PART_ROWS 64          /* project.cu */
#define WINDOW_ROWS 64        /* convolve.cu */
#define SPOILED_ROWS 100      /* shape.cu */
#define TOP_K_WARPS 2         /* top_k.cu; each thread is a fiber */
#define WORKSPACE_BYTES 65536 /* multiply.cu */

#endif
