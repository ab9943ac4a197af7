/* product_keys: memories of n * n values, found by two sets of n keys. */
#ifndef ENGINE_CPU_PRODUCT_KEYS_H
#define ENGINE_CPU_PRODUCT_KEYS_H

#include "engine/cpu/run.h"

cpu_kernel cpu_retrieve;
cpu_scratch cpu_retrieve_scratch;

#endif
