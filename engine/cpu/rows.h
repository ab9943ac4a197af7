/* rows: operations on single rows, and on rows and their neighbours. */
#ifndef ENGINE_CPU_ROWS_H
#define ENGINE_CPU_ROWS_H

#include "engine/cpu/run.h"

cpu_kernel cpu_embed, cpu_add_positions, cpu_layer_norm, cpu_activate, cpu_add, cpu_mask_rows, cpu_add_sinusoids,
    cpu_concatenate, cpu_gate, cpu_shift_tokens, cpu_rotate, cpu_cut_padding, cpu_reshape, cpu_pad_rows,
    cpu_append_rows, cpu_gather_rows;

#endif
