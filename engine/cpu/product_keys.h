/* product_keys: product key memory (OP_RETRIEVE), a table of n * n values. A row of the table is found by one key of
 * each of two sets of n keys. */
#ifndef ENGINE_CPU_PRODUCT_KEYS_H
#define ENGINE_CPU_PRODUCT_KEYS_H

#include "engine/cpu/run.h"

cpu_kernel cpu_retrieve;
cpu_scratch cpu_retrieve_scratch;

#endif
