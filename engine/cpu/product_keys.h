/* product_keys: product key memory (OP_RETRIEVE). It consists of a table of n * n rows and two sets of n keys. A pair
 * of keys, one from each set, selects a row of the table. */
#ifndef ENGINE_CPU_PRODUCT_KEYS_H
#define ENGINE_CPU_PRODUCT_KEYS_H

#include "engine/cpu/run.h"

cpu_kernel cpu_retrieve;
cpu_scratch cpu_retrieve_scratch;

#endif
