/* products_onednn: tiles of products with a weight, computed by oneDNN for products.c. Weights are packed panel by
 * panel. A panel is PRODUCTS_PANEL columns. oneDNN generates code, called a primitive, for each depth, width and number
 * of rows. The primitives are made when the weight is packed. */
#ifndef ENGINE_CPU_PRODUCTS_ONEDNN_H
#define ENGINE_CPU_PRODUCTS_ONEDNN_H

#include "engine/cpu/vector.h"

#define ONEDNN_SCRATCHPAD_BYTES 4096 /* scratchpad of a primitive. oneDNN 2.6.3 needs 640 bytes */

struct onednn;
struct onednn_weight;

/* Up to `threads` threads may run tiles at the same time. Returns -1 if the library is missing or cannot generate code
 * on this machine. Also returns -1 if this program was built without oneDNN's headers. */
int onednn_open(int threads, bool bf16, struct onednn **onednn, struct error *error);
void onednn_close(struct onednn *onednn);                    /* NULL is harmless */
const char *onednn_description(const struct onednn *onednn); /* for example "oneDNN 2.6.3" */

/* Packs w (columns, depth). The caller keeps w. Only one thread at a time may pack or free a weight. During this, other
 * threads may run tiles of other weights. */
int onednn_pack(struct onednn *onednn, int64_t columns, int64_t depth, const float *w, struct onednn_weight **weight,
                struct error *error);
void onednn_free_weight(struct onednn *onednn, struct onednn_weight *weight);
size_t onednn_weight_bytes(const struct onednn_weight *weight);

/* y (rows, width) = x (rows, depth) wᵀ for one panel. Both x and y must have memory for more rows: `rows` rounded up to
 * the next number in row_counts (products_onednn.c), at most PLAN_ROW_BLOCK. `scratchpad` has ONEDNN_SCRATCHPAD_BYTES
 * bytes. Returns -1 if memory is lacking. */
int onednn_tile(const struct onednn *onednn, const struct onednn_weight *weight, int64_t panel, int64_t rows,
                const void *x, float *y, void *scratchpad, int thread);

#endif
