/* products_onednn: linear tiles by oneDNN, for products.c. Weights are packed panel by panel. A primitive is generated
 * code for one depth, width and number of rows. It is made when the weight is packed. */
#ifndef ENGINE_CPU_PRODUCTS_ONEDNN_H
#define ENGINE_CPU_PRODUCTS_ONEDNN_H

#include "engine/cpu/vector.h"

#define ONEDNN_SCRATCHPAD_BYTES 4096 /* oneDNN 2.6.3 asks for 640 */

struct onednn;
struct onednn_weight;

/* So many `threads` may run tiles at the same time. -1: the library is missing, cannot generate code here, or this
 * build has no headers of it. */
int onednn_open(int threads, bool bf16, struct onednn **onednn, struct error *error);
void onednn_close(struct onednn *onednn);                    /* NULL is harmless */
const char *onednn_description(const struct onednn *onednn); /* "oneDNN 2.6.3" */

/* Packs w (columns, depth), which stays the caller's. One pack or free at a time; tiles of other weights may run. */
int onednn_pack(struct onednn *onednn, int64_t columns, int64_t depth, const float *w, struct onednn_weight **weight,
                struct error *error);
void onednn_free_weight(struct onednn *onednn, struct onednn_weight *weight);
size_t onednn_weight_bytes(const struct onednn_weight *weight);

/* y (rows, width) = x (rows, depth) wᵀ for one panel. Both have room for rows rounded up, to PLAN_ROW_BLOCK at most.
 * `scratchpad` has ONEDNN_SCRATCHPAD_BYTES. -1: out of memory. */
int onednn_tile(const struct onednn *onednn, const struct onednn_weight *weight, int64_t panel, int64_t rows,
                const void *x, float *y, void *scratchpad, int thread);

#endif
