/* operation_tests: the tests of the operations, by subject. test_operations.c lists them with their tolerances, and
 * runs them on a backend. */
#ifndef TESTS_UNIT_OPERATION_TESTS_H
#define TESTS_UNIT_OPERATION_TESTS_H

#include "tests/unit/operation_bench.h"

#define EXACT 1e-5 /* tolerance of results in float32 */

#define COUNT(shapes) (sizeof(shapes) / sizeof *(shapes))

/* ---- operations_rows.c ---- */

void test_embed_and_positions(void **state);
void test_axial_positions(void **state);
void test_layer_norm(void **state);
void test_group_norm(void **state);
void test_products_of_norm(void **state);
void test_linear(void **state);
void test_values_that_two_steps_read_are_not_fused(void **state);
void test_project_sequence(void **state);
void test_convolve_sequence(void **state);
void test_shift_tokens(void **state);
void test_shift_of_norms(void **state);
void test_two_projections(void **state);
void test_rotate_concatenate_gate_cut(void **state);
void test_reshape(void **state);
void test_pad_rows(void **state);
void test_output_layer(void **state);

/* ---- operations_attention.c ---- */

void test_a_product_can_read_the_result_of_attention(void **state);
void test_attend(void **state);
void test_full_attention(void **state);
void test_padded_and_masked(void **state);
void test_masked_attention(void **state);
void test_calls(void **state);
void test_pairs(void **state);
void test_linear_attend(void **state);
void test_causal_linear_attend(void **state);
void test_causal_attention_to_a_context(void **state);
void test_local_attend(void **state);
void test_retrieve(void **state);

/* ---- operations_image.c ---- */

void test_convolve_image(void **state);
void test_convolve_groups(void **state);
void test_convolve_rows(void **state);
void test_image_attention(void **state);

/* ---- operations_space.c ---- */

void test_permute(void **state);
void test_arrange_parts(void **state);
void test_arrange_rows(void **state);
void test_arrange_ids(void **state);
void test_combine(void **state);
void test_functions(void **state);
void test_select(void **state);
void test_select_ids(void **state);

/* ---- operations_numbers.c ---- */

void test_activations(void **state);
void test_epilogues(void **state);
void test_every_activation_is_fused(void **state);
void test_computed_ids_select_rows_of_a_table(void **state);

/* ---- operations_reduce.c ---- */

void test_reduce(void **state);
void test_cumulate(void **state);
void test_argmax(void **state);
void test_softmax(void **state);
void test_multiply(void **state);

/* ---- operations_sequences.c ---- */

void test_norm_of_sequences(void **state);
void test_space_of_sequences(void **state);
void test_convolve_sequences(void **state);
void test_give_tensor(void **state);
void test_reshape_ids(void **state);
void test_folded_positions(void **state);
void test_folded_attention(void **state);
void test_folded_linear_and_local_attention(void **state);
void test_folded_convolve_append_pad(void **state);

#endif
