#include "engine/plan/operations.h"
#include "engine/plan/flops.h"
#include "engine/plan/print.h"
#include "engine/plan/states.h"

#include <stdlib.h>

static int64_t furthest_shift(const struct plan_step *step)
{
    int64_t furthest = 0;
    for (int64_t s = 0; s < step->shift_tokens.count; s++)
        furthest = llabs(step->shift_tokens.by[s]) > furthest ? llabs(step->shift_tokens.by[s]) : furthest;
    return furthest;
}

const struct plan_operation plan_operations[] = {
    /* x ids (r, 1), T (vocabulary, d), y (r, d) */
    [OP_EMBED] = {.name = "embed",
                  .formula = "y[r] = T[x[r]]",
                  .rows = ROWS_ALONE,
                  .flops = flops_of_nothing,
                  .print = print_nothing},

    /* A, B (positions, d). Without B the sum is x[r] + A[p] */
    [OP_ADD_POSITIONS] = {.name = "add_positions",
                          .formula = "y[r] = x[r] + (A[p / period] + B[p mod period])",
                          .rows = ROWS_ALONE,
                          .position = true,
                          .flops = flops_of_addition,
                          .print = print_nothing},

    /* g, b (d), x (r, groups*d). Each group of d columns is normalised by itself. */
    [OP_LAYER_NORM] = {.name = "layer_norm",
                       .formula = "y[r] = (x[r] - mean) / sqrt(variance + epsilon) * g + b",
                       .rows = ROWS_ALONE,
                       .flops = flops_of_layer_norm,
                       .print = print_nothing},

    /* g, b (d) or none. Mean and variance are computed over a group of columns and all rows of the sequence that
       contains r */
    [OP_GROUP_NORM] = {.name = "group_norm",
                       .formula = "y[r] = (x[r] - mean) / sqrt(variance + epsilon) * g + b",
                       .rows = ROWS_TOGETHER,
                       .flops = flops_of_layer_norm,
                       .print = print_group_norm},

    /* W (out, in), b (out) or none, z (r, out) or none */
    [OP_LINEAR] = {.name = "linear",
                   .formula = "y[r] = activation(x[r] Wᵀ + b) + z[r]",
                   .rows = ROWS_ALONE,
                   .adds_residual = true,
                   .flops = flops_of_linear,
                   .print = print_linear},

    /* W (hidden, in), U (out, hidden), z (r, out) or none. Gated: W (2*hidden, in), g[r] = x[r] Wᵀ + b, h[r, i] =
       activation(g[r, i]) * g[r, hidden + i] */
    [OP_FEED_FORWARD] = {.name = "feed_forward",
                         .formula = "y[r] = h[r] Uᵀ + c + z[r], h[r] = activation(x[r] Wᵀ + b)",
                         .rows = ROWS_TOGETHER, /* plan_narrow never sees this operation, because plan_block adds it
                                                   later */
                         .adds_residual = true,
                         .state = state_of_nothing,
                         .flops = flops_of_feed_forward,
                         .print = print_feed_forward},

    /* x and y may hold ids */
    [OP_ACTIVATE] = {.name = "activate",
                     .formula = "y = activation(x)",
                     .rows = ROWS_ALONE,
                     .flops = flops_of_activation,
                     .print = print_activate},

    [OP_ADD] = {.name = "add",
                .formula = "y = scale * (x + z)",
                .rows = ROWS_ALONE,
                .flops = flops_of_addition,
                .print = print_nothing},

    /* m is the operand z, which holds ids (r, 1). Any id except 0 means true. */
    [OP_MASK_ROWS] = {.name = "mask_rows",
                      .formula = "y[r] = x[r] where m[r], else 0",
                      .rows = ROWS_ALONE,
                      .in_place = true,
                      .flops = flops_of_nothing,
                      .print = print_nothing},

    /* f (d / 2). The products p f are computed in float. */
    [OP_ADD_SINUSOIDS] = {.name = "add_sinusoids",
                          .formula = "y[r] = x[r] + (sin(p f), cos(p f))",
                          .rows = ROWS_ALONE,
                          .position = true,
                          .flops = flops_of_sinusoids,
                          .print = print_nothing},

    /* E (n, k) or its transpose. Item b has x_b (n_b, d) and y_b (k, d). With several groups, each group of d / groups
     * columns has its own E and e. y may have two further columns. The first is E[:n_b]ᵀ 1. The second is e, which is
     * not added to the other columns in this case */
    [OP_PROJECT_SEQUENCE] = {.name = "project_sequence",
                             .formula = "y_b = E[:n_b]ᵀ x_b + e",
                             .rows = ROWS_TOGETHER,
                             .flops = flops_of_projection,
                             .print = print_projection},

    /* W (d, d, s) with stride s. x has groups of d columns. All groups share one W, or each group has its own */
    [OP_CONVOLVE_SEQUENCE] = {.name = "convolve_sequence",
                              .formula = "y_b[j, g, o] = e[o] + sum over t, i of W[o, i, t] x_b[j s + t, g, i], 0 "
                                         "beyond n_b",
                              .rows = ROWS_TOGETHER,
                              .flops = flops_of_sequence_convolution,
                              .print = print_sequence_convolution},

    /* x is a call (n * w, d) of w sequences. t (d) or none. With t, each sequence of X_b is the sequence of x_b,
       followed by the row t. Without t, X_b is x_b. E (k, n), e (k). Later steps read y_b (w, d, k) as (k * w, d) */
    [OP_PROJECT_CALL] = {.name = "project_call",
                         .formula = "y_b[s, c, j] = sum over p of E[j, p] X_b[p, s, c] + e[j]",
                         .rows = ROWS_TOGETHER,
                         .flops = flops_of_call_projection,
                         .print = print_call_projection},

    /* x (r, heads*d), K (k, kv_heads*d), V (k, kv_heads*d'), y (r, heads*d'). Causal: position p reads only keys j <=
       p. If K_b has fewer than key_room keys, keys with score 0 and value 0 are added up to key_room. M (n, k) or none
       is the attention mask */
    [OP_ATTEND] = {.name = "attend",
                   .formula = "y[r,h] = softmax(scale * x[r,h] K_b[h]ᵀ + M_b[p]) V_b[h]",
                   .rows = ROWS_ALONE,
                   .state = state_of_attention,
                   .flops = flops_of_attention,
                   .print = print_attention},

    /* An item is a call of w sequences. x, y (n * w, heads*d), K, V (k * w, heads*d), M (w, heads, n, k) or (n, k) or
       none */
    [OP_ATTEND_CALL] = {.name = "attend_call",
                        .formula = "y[p,s,h] = softmax(scale * x[p,s,h] K_b[:,s,h]ᵀ + M_b[s,h,p]) V_b[:,s,h]",
                        .rows = ROWS_TOGETHER,
                        .flops = flops_of_call_attention,
                        .print = print_attention},

    /* A segment is d / n_shifts features. Features after the last segment are copied */
    [OP_SHIFT_TOKENS] = {.name = "shift_tokens",
                         .formula = "y[p, segment s] = x[p - shift_s, segment s], 0 outside the item",
                         .rows = ROWS_ALONE,
                         .reach = furthest_shift,
                         .state = state_of_shift,
                         .flops = flops_of_nothing,
                         .print = print_nothing},

    /* x (r, heads*d), T (positions, d). The sine of the angle is T[p, i], the cosine is T[p, d/2 + i]. */
    [OP_ROTATE] = {.name = "rotate",
                   .formula = "y[r, h, 2i : 2i + 2] = x[r, h, 2i : 2i + 2] turned by the angle T[p, i]",
                   .rows = ROWS_ALONE,
                   .position = true,
                   .flops = flops_of_rotation,
                   .print = print_nothing},

    /* x, K (…, all heads*d), V (…, all heads*d'), y (r, heads*d'). Masked rows of K and V are left out. Causal: exp(K)
       replaces softmax(K), and only rows of earlier buckets are read. With buckets of 1 row, rows <= p are read. The
       result is divided by max(c softmax(x[r,h]) · (sum of exp(K) over these rows), 1e-3). Raw queries: x[r,h] replaces
       its softmax. Fold f: rows p, p + f, p + 2f … form a separate sequence. */
    [OP_LINEAR_ATTEND] = {.name = "linear_attend",
                          .formula = "y[r,h] = c softmax(x[r,h]) softmax_rows(K_b[h])ᵀ V_b[h]",
                          .rows = ROWS_TOGETHER, /* one product contains all rows of an item, and their number may
                                                    change the rounding */
                          .state = state_of_linear_attention,
                          .flops = flops_of_linear_attention,
                          .print = print_linear_attention},

    /* x, K, V as in linear_attend. Row r reads the keys of its own window, of the window before and of the window
       after. Causal: it reads only its own window and the window before, and only rows <= p. Masked keys are left out.
       If a row has no key left, its result is the mean of the values of all these windows. In this mean, each value
       outside the item is -1 */
    [OP_LOCAL_ATTEND] = {.name = "local_attend",
                         .formula = "y[r,h] = softmax(d^-1/2 x[r,h] K_b[h]ᵀ) V_b[h], over windows",
                         .rows = ROWS_TOGETHER,
                         .state = state_of_local_attention,
                         .flops = flops_of_local_attention,
                         .print = print_local_attention},

    [OP_CONCATENATE] = {.name = "concatenate",
                        .formula = "y[r] = (x[r], z[r])",
                        .rows = ROWS_ALONE,
                        .flops = flops_of_nothing,
                        .print = print_nothing},

    [OP_APPEND_ROWS] = {.name = "append_rows",
                        .formula = "y_b = x_b, then the rows of z_b",
                        .rows = ROWS_TOGETHER,
                        .flops = flops_of_nothing,
                        .print = print_nothing},

    /* x_b (height * width, in), W (out, window * in), e (out). u, v are offsets of the window's pixels, and multiples
     * of the dilation. Pixels outside of the image are 0 */
    [OP_CONVOLVE_IMAGE] = {.name = "convolve_image",
                           .formula = "y_b[i, j] = scale * (e + sum over u, v of W[u, v] x_b[i s + u - top, j s' + v - "
                                      "left])",
                           .rows = ROWS_TOGETHER,
                           .flops = flops_of_image_convolution,
                           .print = print_image_convolution},

    /* Like convolve_image, with columns in groups of d. W (out, window * d). A column of y reads only its own group of
       x */
    [OP_CONVOLVE_GROUPS] = {.name = "convolve_groups",
                            .formula = "y_b[i, j, g] = scale * (e + sum over u, v of W[g, u, v] x_b[i s + u - top, j "
                                       "s' + v - left, g])",
                            .rows = ROWS_TOGETHER,
                            .flops = flops_of_image_convolution,
                            .print = print_image_convolution},

    /* Like convolve_groups, with groups of one column. W (window, out). Several columns of y may read the same column
       of x */
    [OP_CONVOLVE_CHANNELS] = {.name = "convolve_channels",
                              .formula = "y_b[i, j, c] = scale * (e + sum over u, v of W[u, v, c] x_b[i s + u - top, j "
                                         "s' + v - left, c])",
                              .rows = ROWS_TOGETHER,
                              .flops = flops_of_image_convolution,
                              .print = print_image_convolution},

    /* x (r, 2d), y (r, d) */
    [OP_GATE] = {.name = "gate",
                 .formula = "y[r, i] = activation(x[r, i]) * x[r, d + i]",
                 .rows = ROWS_ALONE,
                 .flops = flops_of_gate,
                 .print = print_gate},

    [OP_GATHER_ROWS] = {.name = "gather_rows",
                        .formula = "y = the rows of x that y's axis has",
                        .rows = ROWS_TOGETHER, /* plan_narrow itself adds this operation, and does not move it */
                        .in_place = true,
                        .state = state_of_nothing,
                        .flops = flops_of_nothing,
                        .print = print_nothing},

    [OP_CUT_PADDING] = {.name = "cut_padding",
                        .formula = "y_b = the item's own rows of x_b, without what padding added",
                        .rows = ROWS_TOGETHER,
                        .state = state_of_nothing,
                        .flops = flops_of_nothing,
                        .print = print_nothing},

    /* Each item has as many elements in y as in x */
    [OP_RESHAPE] = {.name = "reshape",
                    .formula = "y = the elements of x in order, in other rows",
                    .rows = ROWS_TOGETHER,
                    .in_place = true,
                    .flops = flops_of_nothing,
                    .print = print_nothing},

    /* The rows added to a mask are 0 or 1. With `ones`, every element of x_b counts as 1, so y is 1 in the rows of x */
    [OP_PAD_ROWS] = {.name = "pad_rows",
                     .formula = "y_b = x_b, then rows of zeros up to the rows of y's axis",
                     .rows = ROWS_TOGETHER,
                     .flops = flops_of_nothing,
                     .print = print_padding},

    /* Let s be the 32 largest of K[h,:,0] x[r,0,h], and t the 32 largest of K[h,:,1] x[r,1,h]. The sum runs over h and
       the 32 pairs (i, j) with the largest s_i + t_j. x (r, 2*heads*d), K (heads, n, 2, d), V (n * n, columns of y) */
    [OP_RETRIEVE] = {.name = "retrieve",
                     .formula = "y[r] = sum over h, (i, j) of softmax(s_i + t_j) V[i n + j]",
                     .rows = ROWS_TOGETHER, /* one product contains all rows of an item, and their number may change the
                                               rounding */
                     .state = state_of_nothing,
                     .flops = flops_of_retrieval,
                     .print = print_nothing},

    /* Writes the elements of y that the space visits. Other steps may write other elements. x may be a weight or one
       number */
    [OP_ARRANGE] = {.name = "arrange",
                    .formula = "y_b[s.y] = x_b[s.x] over the space s",
                    .rows = ROWS_TOGETHER,
                    .flops = flops_of_nothing,
                    .print = print_nothing},

    /* f is a function of two numbers, listed in plan.h. z may be a weight or one number. */
    [OP_COMBINE] = {.name = "combine",
                    .formula = "y_b[s.y] = f(x_b[s.x], z_b[s.z]) over the space s",
                    .rows = ROWS_TOGETHER,
                    .flops = flops_of_result,
                    .print = print_combine},

    /* c is the operand `keys`, which holds ids or floats. x is selected where c is not 0. x and z may be weights or
       numbers */
    [OP_SELECT] = {.name = "select",
                   .formula = "y_b[s.y] = x_b[s.x] where c_b[s.c], else z_b[s.z], over the space s",
                   .rows = ROWS_TOGETHER,
                   .flops = flops_of_nothing,
                   .print = print_nothing},

    /* r runs over the last dimensions of the space. f is listed in plan.h. With REDUCTION_CUMULATE, y has an element
     * for each r */
    [OP_REDUCE] = {.name = "reduce",
                   .formula = "y_b[s.y] = f over r of x_b[s.x + r.x] over the space s",
                   .rows = ROWS_TOGETHER,
                   .flops = flops_of_addition,
                   .print = print_reduce},

    /* r runs over the last dimension of the space. */
    [OP_SOFTMAX] = {.name = "softmax",
                    .formula = "y_b[s.y + r.y] = softmax over r of x_b[s.x + r.x], or its logarithm, over the space s",
                    .rows = ROWS_TOGETHER,
                    .flops = flops_of_softmax,
                    .print = print_softmax},

    /* The last dimensions of the space are m, n, k. z may be a weight */
    [OP_MULTIPLY] = {.name = "multiply",
                     .formula = "y_b[s.y, m, n] = scale * sum over k of x_b[s.x, m, k] z_b[s.z, k, n] over the space s",
                     .rows = ROWS_TOGETHER,
                     .flops = flops_of_multiplication,
                     .print = print_multiply},

    [OP_GIVE_HIDDEN] = {.name = "give_hidden",
                        .formula = "item b's hidden = x_b",
                        .rows = ROWS_TOGETHER,
                        .state = state_of_nothing,
                        .flops = flops_of_nothing,
                        .print = print_nothing},

    [OP_GIVE_POOLED] = {.name = "give_pooled",
                        .formula = "item b's pooled = mean, first, last or maximum of the rows of x_b",
                        .rows = ROWS_TOGETHER,
                        .state = state_of_nothing,
                        .flops = flops_of_addition,
                        .print = print_nothing},

    /* f is the identity, the softmax, top_k, or the log-probability of a target. Without W the output is f(x_b[wanted
     * rows]). */
    [OP_GIVE_OUTPUT] = {.name = "give_output",
                        .formula = "item b's output = f(x_b[wanted rows] Wᵀ + b)",
                        .rows = ROWS_TOGETHER,
                        .state = state_of_nothing,
                        .flops = flops_of_output,
                        .print = print_nothing},

    /* The output is written channels first. */
    [OP_GIVE_IMAGE] = {.name = "give_image",
                       .formula = "item b's output = x_bᵀ",
                       .rows = ROWS_TOGETHER,
                       .flops = flops_of_nothing,
                       .print = print_nothing},

    /* Ids are converted to floats. */
    [OP_GIVE_TENSOR] = {.name = "give_tensor",
                        .formula = "item b's output i = x_b",
                        .rows = ROWS_TOGETHER,
                        .flops = flops_of_nothing,
                        .print = print_tensor},
};
_Static_assert(sizeof plan_operations / sizeof *plan_operations == OP_COUNT, "the table has a row for each operation");

const char *operation_lack(enum operation operation)
{
    const struct plan_operation *row = &plan_operations[operation];
    if (!row->name)
        return "name";
    if (!row->formula)
        return "formula";
    if (row->rows == ROWS_UNSAID)
        return "rows";
    if (!row->flops)
        return "flops";
    return row->print ? NULL : "print";
}

const char *operation_name(enum operation operation)
{
    return plan_operations[operation].name;
}

int64_t plan_step_flops(const struct plan *plan, const struct plan_step *step, int64_t rows)
{
    int64_t sequence = rows;
    if (step->only.axis != PLAN_NONE && plan->axes[step->only.axis].kind == AXIS_SIZED)
        sequence = plan_value_sequence_rows(plan, step->x, rows);
    if (step->only.axis != PLAN_NONE && (sequence < step->only.least || sequence > step->only.most))
        return 0;
    return plan_operations[step->operation].flops(plan, step, rows);
}
