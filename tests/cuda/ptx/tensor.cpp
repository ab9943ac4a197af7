/* Tensor cores. PTX ISA, "Matrix multiply-accumulate operation using mma instruction" and "ldmatrix". With g = lane / 4
 * and t = lane % 4, register n of a lane contains these elements (row, column) of a matrix:
 *
 *     16 bits: A (16, 16): (g + n % 2 * 8, 2t + n / 2 * 8) and the next column in the upper half
 *              B (16, 8):  (2t + n * 8, g) and the next row in the upper half
 *     TF32:    A (16, 8):  (g + n % 2 * 8, t + n / 2 * 4)
 *              B (8, 8):   (t + n * 4, g)
 *     C, D (16, 8):        (g + n / 2 * 8, 2t + n % 2).
 *
 * The manual defines neither the order nor the precision of the additions. The emulator computes the sum in double. It
 * then truncates the sum to a float, as chips do (Fasi, Higham, Mikaitis and Pranesh, "Numerical behavior of NVIDIA
 * tensor cores", 2021). The lower 13 bits of an operand in TF32 are ignored. */
#include "tests/cuda/ptx/access.h"
#include "tests/cuda/ptx/half.h"
#include "tests/cuda/ptx/paths.h"

#include <cmath>
#include <cstring>

namespace ptx
{
namespace
{
float cut_to_float(double x)
{
    uint64_t bits = std::bit_cast<uint64_t>(x) & ~(uint64_t)0x1fffffff;
    return x != x ? std::bit_cast<float>(0x7fffffffu) : (float)std::bit_cast<double>(bits);
}

/* Index of the first operand of each fragment: d[4], a[4], b[2], c[4]. */
enum { OF_D = 0, OF_A = 4, OF_B = 8, OF_C = 10 };

/* Computes D = A B + C. A has the shape (16, depth), B (depth, 8). C is read from the registers, and D written to
 * them. */
template <unsigned depth>
void finish_product(warp &warp, const instruction &i, const double (&a)[16][depth], const double (&b)[depth][8])
{
    double sums[16][8];
    for (unsigned n = 0; n < 4; n++) {
        const float *c = warp.lanes<float>(i.at[OF_C + n]);
        for (unsigned lane = 0; lane < LANES; lane++)
            sums[lane / 4 + n / 2 * 8][lane % 4 * 2 + n % 2] = c[lane];
    }
    for (unsigned row = 0; row < 16; row++)
        for (unsigned k = 0; k < depth; k++)
            for (unsigned column = 0; column < 8; column++)
                sums[row][column] += a[row][k] * b[k][column];
    for (unsigned n = 0; n < 4; n++) {
        float *d = warp.lanes<float>(i.at[OF_D + n]);
        for (unsigned lane = 0; lane < LANES; lane++)
            d[lane] = cut_to_float(sums[lane / 4 + n / 2 * 8][lane % 4 * 2 + n % 2]);
    }
}

template <typename T> void multiply_halves(warp &warp, const instruction &i)
{
    double a[16][16], b[16][8];
    if (!meet_whole(warp, i))
        return;
    for (unsigned upper = 0; upper < 2; upper++) {
        for (unsigned n = 0; n < 4; n++) {
            const uint32_t *from = warp.lanes<uint32_t>(i.at[OF_A + n]);
            for (unsigned lane = 0; lane < LANES; lane++)
                a[lane / 4 + n % 2 * 8][lane % 4 * 2 + n / 2 * 8 + upper] =
                    to_float(T{(uint16_t)(from[lane] >> upper * 16)});
        }
        for (unsigned n = 0; n < 2; n++) {
            const uint32_t *from = warp.lanes<uint32_t>(i.at[OF_B + n]);
            for (unsigned lane = 0; lane < LANES; lane++)
                b[lane % 4 * 2 + n * 8 + upper][lane / 4] = to_float(T{(uint16_t)(from[lane] >> upper * 16)});
        }
    }
    finish_product<16>(warp, i, a, b);
}

/* Clears the bits that TF32 ignores. A NaN is not changed, because its upper bits may be those of an infinity. */
float as_tf32(uint32_t bits)
{
    float x = std::bit_cast<float>(bits);
    return x != x ? x : std::bit_cast<float>(bits & ~0x1fffu);
}

void multiply_tf32(warp &warp, const instruction &i)
{
    double a[16][8], b[8][8];
    if (!meet_whole(warp, i))
        return;
    for (unsigned n = 0; n < 4; n++) {
        const uint32_t *from = warp.lanes<uint32_t>(i.at[OF_A + n]);
        for (unsigned lane = 0; lane < LANES; lane++)
            a[lane / 4 + n % 2 * 8][lane % 4 + n / 2 * 4] = as_tf32(from[lane]);
    }
    for (unsigned n = 0; n < 2; n++) {
        const uint32_t *from = warp.lanes<uint32_t>(i.at[OF_B + n]);
        for (unsigned lane = 0; lane < LANES; lane++)
            b[lane % 4 + n * 4][lane / 4] = as_tf32(from[lane]);
    }
    finish_product<8>(warp, i, a, b);
}

/* Finds the addresses of the rows of i.parts matrices, each 8 x 8. Lane l supplies row l % 8 of matrix l / 8. Lanes
 * after the last row get the address of another lane. Returns false if some lanes of the warp have not reached the
 * instruction. */
bool find_rows(warp &warp, const instruction &i, const uint16_t *(&rows)[LANES], access access)
{
    uint64_t addresses[LANES];
    if (!meet_whole(warp, i))
        return false;
    warp.active = i.parts == 4 ? ALL_LANES : (1u << i.parts * 8) - 1;
    find_addresses(warp, i.address, addresses);
    check_alignment(warp, i, addresses, 16);
    check_shared(warp, i, addresses, 16, access);
    warp.active = ALL_LANES;
    for (unsigned lane = 0; lane < LANES; lane++)
        rows[lane] = (const uint16_t *)addresses[lane];
    return true;
}

/* Each lane receives the elements (g, 2t) and (g, 2t + 1) of each matrix, or of its transpose. */
template <bool transposed> void load_matrices(warp &warp, const instruction &i)
{
    const uint16_t *rows[LANES];
    if (!find_rows(warp, i, rows, READS))
        return;
    for (unsigned m = 0; m < i.parts; m++) {
        uint32_t results[LANES];
        for (unsigned lane = 0; lane < LANES; lane++) {
            unsigned g = lane / 4, t = lane % 4 * 2;
            const uint16_t *const *matrix = rows + m * 8;
            uint32_t lower = transposed ? matrix[t][g] : matrix[g][t];
            uint32_t upper = transposed ? matrix[t + 1][g] : matrix[g][t + 1];
            results[lane] = upper << 16 | lower;
        }
        put_lanes(warp, i.at[m], results);
    }
}

template <bool transposed> void store_matrices(warp &warp, const instruction &i)
{
    const uint16_t *rows[LANES];
    if (!find_rows(warp, i, rows, WRITES))
        return;
    for (unsigned m = 0; m < i.parts; m++) {
        const uint32_t *from = warp.lanes<uint32_t>(i.at[m]);
        for (unsigned lane = 0; lane < LANES; lane++) {
            unsigned g = lane / 4, t = lane % 4 * 2;
            uint16_t *const *matrix = (uint16_t *const *)rows + m * 8;
            (transposed ? matrix[t][g] : matrix[g][t]) = (uint16_t)from[lane];
            (transposed ? matrix[t + 1][g] : matrix[g][t + 1]) = (uint16_t)(from[lane] >> 16);
        }
    }
}

/* Decodes ldmatrix and stmatrix, such as ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16. */
bool decode_matrices(decoder &d, const statement &s, const words &words, instruction &i)
{
    bool loads = words[0] == "ldmatrix", transposed = has(words, "trans");
    std::string shape = words.size() > 4 ? words[4] : "";
    i.parts = shape == "x1" ? 1 : shape == "x2" ? 2 : shape == "x4" ? 4 : 0;
    std::string expected = words[0] + ".sync.aligned.m8n8." + shape + (transposed ? ".trans" : "");
    if (i.parts == 0 || (s.opcode != expected + ".shared.b16" && s.opcode != expected + ".shared::cta.b16"))
        return false;
    d.expect_operands(2, 2);
    i.address = d.address(s.operands[loads ? 1 : 0]);
    std::vector<operand> data = d.parts_of(s.operands[loads ? 0 : 1]);
    if (data.size() != i.parts)
        return false;
    for (unsigned m = 0; m < i.parts; m++)
        (loads ? d.put_destination(i, m, data[m], 'w') : d.put(i, m, data[m], 'w'));
    if (loads)
        i.run = transposed ? load_matrices<true> : load_matrices<false>;
    else
        i.run = transposed ? store_matrices<true> : store_matrices<false>;
    return true;
}

const std::map<std::string, handler> products = {
    {"mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", multiply_halves<bf16>},
    {"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", multiply_halves<f16>},
    {"mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", multiply_tf32}};
} // namespace

bool decode_tensor(decoder &d, const statement &s, const words &words, instruction &i)
{
    const unsigned sizes[] = {4, 4, 2, 4};
    auto found = products.find(s.opcode);
    i.changes_path = i.may_pause = true;
    if (words[0] != "mma")
        return decode_matrices(d, s, words, i);
    if (found == products.end())
        return false;
    d.expect_operands(4, 4);
    for (unsigned n = 0, at = 0; n < 4; n++) {
        std::vector<operand> parts = d.parts_of(s.operands[n]);
        if (parts.size() != sizes[n])
            d.refuse("a fragment of another size");
        for (const operand &part : parts)
            n == 0 ? d.put_destination(i, at++, part, 'w') : d.put(i, at++, part, 'w');
    }
    i.run = found->second;
    return true;
}
} // namespace ptx
