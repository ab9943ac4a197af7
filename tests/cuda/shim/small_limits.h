/* small_limits: small values for limits of the engine. With them, tests reach code that otherwise needs large models.
 * Each comment names the file of the engine that uses the limit. */
#ifndef TESTS_CUDA_SHIM_SMALL_LIMITS_H
#define TESTS_CUDA_SHIM_SMALL_LIMITS_H

#define CONTEXTS_BYTES 4096   /* linear_attend.cu */
#define FEED_FORWARD_ROWS 48  /* feed_forward.cu */
#define FEW_SUMS 400          /* project.cu */
#define FULL_ROWS 40          /* shape.cu */
#define GRAPHS 4              /* graphs.h */
#define GROUPED_ROWS 150      /* shape.cu */
#define IMAGE_ROWS 32         /* convolve.cu */
#define MAX_REPETITIONS 2     /* fastest.cu */
#define PART_KEYS 24          /* linear_attend.cu */
#define PART_ROWS 64          /* project.cu */
#define PIECES 24             /* results.cu */
#define RESULTS_BYTES 24000   /* results.cu */
#define ROWS_AT_ONCE 16       /* product_keys.cu */
#define SHARED_FEATURES 64    /* linear_attention.h */
#define SPOILED_ROWS 100      /* shape.cu */
#define STAGED 400            /* weights.cu */
#define TOP_K_WARPS 2         /* top_k.cu. Small, because each thread is a fiber */
#define WINDOW_ROWS 64        /* convolve.cu */
#define WORKSPACE_BYTES 65536 /* products.cu */

#endif
