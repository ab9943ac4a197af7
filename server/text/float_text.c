/* float_text: computes the shortest decimal that is read back as the same float. Of several such decimals, computes the
 * one that is nearest to the float.
 *
 * The method is Schubfach (R. Giulietti, "The Schubfach way to render doubles", 2020), for 32 bits. The real numbers
 * that are rounded to the float form an interval. Its bounds are the midpoints between the float and its two
 * neighbours. The bounds belong to the interval if the float's mantissa is even. Let 10^k be the largest power of ten
 * that is at most as wide as the interval. At least one multiple of 10^k lies in the interval, and at most one multiple
 * of 10^(k+1). So dividing three numbers by 10^k is enough for the decision: the float and the two bounds. The
 * quotients are computed with 64 bits of 10^-k, and one bit that tells whether digits were lost. This precision
 * suffices. */
#include "server/text/float_text.h"

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "words are written as characters, the lowest byte first");

enum { MIN_POWER = -31, POWERS = 77 };

/* These functions return floor(log10(2^q)), floor(log10(3/4 * 2^q)) and floor(log2(10^e)). The results are exact for
 * all q and e that occur here. */
static int log10_of_2(int q)
{
    return q * 1262611 >> 22;
}

static int log10_of_3_4(int q)
{
    return (q * 1262611 - 524031) >> 22;
}

static int log2_of_10(int e)
{
    return e * 1741647 >> 19;
}

/* Returns the first 64 bits of 10^e, plus one unit in the last place: floor(10^e / 2^r) + 1 with r = log2_of_10(e) -
 * 63. */
static uint64_t power_of_ten(int e)
{
    static const uint64_t powers[POWERS] = {
        0x81CEB32C4B43FCF5, 0xA2425FF75E14FC32, 0xCAD2F7F5359A3B3F, 0xFD87B5F28300CA0E, 0x9E74D1B791E07E49,
        0xC612062576589DDB, 0xF79687AED3EEC552, 0x9ABE14CD44753B53, 0xC16D9A0095928A28, 0xF1C90080BAF72CB2,
        0x971DA05074DA7BEF, 0xBCE5086492111AEB, 0xEC1E4A7DB69561A6, 0x9392EE8E921D5D08, 0xB877AA3236A4B44A,
        0xE69594BEC44DE15C, 0x901D7CF73AB0ACDA, 0xB424DC35095CD810, 0xE12E13424BB40E14, 0x8CBCCC096F5088CC,
        0xAFEBFF0BCB24AAFF, 0xDBE6FECEBDEDD5BF, 0x89705F4136B4A598, 0xABCC77118461CEFD, 0xD6BF94D5E57A42BD,
        0x8637BD05AF6C69B6, 0xA7C5AC471B478424, 0xD1B71758E219652C, 0x83126E978D4FDF3C, 0xA3D70A3D70A3D70B,
        0xCCCCCCCCCCCCCCCD, 0x8000000000000001, 0xA000000000000001, 0xC800000000000001, 0xFA00000000000001,
        0x9C40000000000001, 0xC350000000000001, 0xF424000000000001, 0x9896800000000001, 0xBEBC200000000001,
        0xEE6B280000000001, 0x9502F90000000001, 0xBA43B74000000001, 0xE8D4A51000000001, 0x9184E72A00000001,
        0xB5E620F480000001, 0xE35FA931A0000001, 0x8E1BC9BF04000001, 0xB1A2BC2EC5000001, 0xDE0B6B3A76400001,
        0x8AC7230489E80001, 0xAD78EBC5AC620001, 0xD8D726B7177A8001, 0x878678326EAC9001, 0xA968163F0A57B401,
        0xD3C21BCECCEDA101, 0x84595161401484A1, 0xA56FA5B99019A5C9, 0xCECB8F27F4200F3B, 0x813F3978F8940985,
        0xA18F07D736B90BE6, 0xC9F2C9CD04674EDF, 0xFC6F7C4045812297, 0x9DC5ADA82B70B59E, 0xC5371912364CE306,
        0xF684DF56C3E01BC7, 0x9A130B963A6C115D, 0xC097CE7BC90715B4, 0xF0BDC21ABB48DB21, 0x96769950B50D88F5,
        0xBC143FA4E250EB32, 0xEB194F8E1AE525FE, 0x92EFD1B8D0CF37BF, 0xB7ABC627050305AE, 0xE596B7B0C643C71A,
        0x8F7E32CE7BEA5C70, 0xB35DBF821AE4F38C,
    };
    assert(e >= MIN_POWER && e < MIN_POWER + POWERS);
    return powers[e - MIN_POWER];
}

/* Returns power * factor / 2^64. The last bit of the result is set if digits are lost. `power` is too large by less
 * than one unit, so the product is too large by less than 2^32. This excess may add 1 to the upper half of the lost
 * digits. So an upper half of 1 counts as 0. */
static uint32_t multiply(uint64_t power, uint32_t factor)
{
    unsigned __int128 product = (unsigned __int128)power * factor;
    return (uint32_t)(product >> 64) | ((uint32_t)(product >> 32) > 1);
}

/* Returns the decimal digits of a float above 0. The float is about digits * 10^*exponent. The digits may end with
 * zeros. */
static uint32_t shortest(uint32_t bits, int *exponent)
{
    uint32_t fraction = bits & 0x7FFFFF, biased = bits >> 23;
    uint32_t mantissa = biased ? fraction | 0x800000 : fraction; /* the float is mantissa * 2^q */
    int q = (int)(biased ? biased : 1) - 150;
    /* The float is a power of two, so its lower neighbour is only half as far away as the upper one. */
    bool narrow = fraction == 0 && biased > 1;
    uint32_t odd = mantissa & 1; /* 1 if the mantissa is odd: the bounds are then rounded to the neighbours, and do not
                                    belong to the interval */
    int k = narrow ? log10_of_3_4(q) : log10_of_2(q);
    int shift = q + log2_of_10(-k) + 1;
    uint64_t power = power_of_ten(-k);
    /* Four times the quotients of the float and of the two bounds by 10^k. */
    uint32_t middle = multiply(power, 4 * mantissa << shift);
    uint32_t lower = multiply(power, (4 * mantissa - (narrow ? 1 : 2)) << shift) + odd;
    uint32_t upper = multiply(power, (4 * mantissa + 2) << shift) - odd;
    uint32_t below = middle / 4, tens = below / 10;
    bool below_in = lower <= 4 * below, above_in = 4 * (below + 1) <= upper;
    bool tens_in = lower <= 40 * tens, tens_above_in = 40 * (tens + 1) <= upper;
    /* If both neighbouring multiples are inside the interval, choose the nearer one. If they are equally near, choose
     * the even one. */
    bool above_nearer = middle > 4 * below + 2 || (middle == 4 * below + 2 && below % 2 == 1);
    uint32_t near = below + (below_in != above_in ? above_in : above_nearer);
    /* The code contains almost no branches, because the processor cannot predict branches that depend on the digits. */
    bool brief = below >= 10 && tens_in != tens_above_in;

    *exponent = k + brief;
    return brief ? tens + tens_above_in : near;
}

/* Returns the eight digits of a number below 10^8, one in each byte. The first digit is in the lowest byte. */
static uint64_t eight_digits(uint32_t number)
{
    /* Splits one word into two halves with 4 digits each, then into quarters with 2 digits, then into bytes with 1
     * digit. */
    uint64_t fours = number / 10000 | (uint64_t)(number % 10000) << 32;
    uint64_t hundreds = (fours * 10486 >> 20) & 0x0000007F0000007F;
    uint64_t twos = hundreds | (fours - hundreds * 100) << 16;
    uint64_t tens = (twos * 103 >> 10) & 0x000F000F000F000F;

    return tens | (twos - tens * 10) << 8;
}

/* Nine digits. The first digit is not 0. The first eight characters are in one word, the ninth is separate. */
struct digits {
    uint64_t eight;
    char ninth;
    int count;    /* number of digits without zeros at the end */
    int exponent; /* exponent of the first digit */
};

static struct digits digits_of(uint32_t bits)
{
    struct digits digits = {.ninth = '0'};
    int exponent;
    uint32_t decimal = shortest(bits, &exponent);
    if (decimal >= 100000000) {
        digits.ninth = (char)('0' + decimal % 10);
        decimal /= 10;
        exponent++;
    }
    uint64_t word = eight_digits(decimal);
    int leading = __builtin_ctzll(word) / 8;
    word >>= 8 * leading;
    digits.eight = word | 0x3030303030303030;
    digits.count = digits.ninth != '0' ? 9 : 8 - __builtin_clzll(word) / 8;
    digits.exponent = exponent + 7 - leading;
    return digits;
}

static char *write_scientific(char *at, const struct digits *digits)
{
    int exponent = digits->exponent;
    memcpy(at + 1, &digits->eight, 8);
    at[9] = digits->ninth;
    at[0] = at[1];
    at[1] = '.';
    at += digits->count > 2 ? digits->count + 1 : 3; /* at least one digit follows the point. It may be 0 */
    *at++ = 'e';
    *at++ = exponent < 0 ? '-' : '+';
    exponent = exponent < 0 ? -exponent : exponent;
    *at++ = (char)('0' + exponent / 10);
    *at++ = (char)('0' + exponent % 10);
    return at;
}

/* Writes a number without an exponent, for exponents in [-5, 8]. */
static char *write_plain(char *at, const struct digits *digits)
{
    int exponent = digits->exponent;
    if (exponent < 0) {
        memcpy(at, "0.000000", 8);
        at += 1 - exponent;
        memcpy(at, &digits->eight, 8);
        at[8] = digits->ninth;
        return at + digits->count;
    }
    memcpy(at, &digits->eight, 8);
    at[8] = digits->ninth;
    at += exponent + 1;
    *at++ = '.';
    if (digits->count <= exponent + 1) {
        *at = '0';
        return at + 1;
    }
    uint64_t behind = exponent < 7 ? digits->eight >> 8 * (exponent + 1) : 0;
    memcpy(at, &behind, 8);
    at[7 - exponent] = digits->ninth;
    return at + digits->count - exponent - 1;
}

size_t write_f32(char out[F32_TEXT], float value)
{
    char *at = out;
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    assert((bits & 0x7F800000) != 0x7F800000); /* the value is finite */
    *at = '-';
    at += bits >> 31;
    bits &= 0x7FFFFFFF;
    if (bits == 0) {
        memcpy(at, "0.0", 3);
        return (size_t)(at + 3 - out);
    }
    struct digits digits = digits_of(bits);
    if (digits.exponent >= 9 || digits.exponent < -5)
        at = write_scientific(at, &digits);
    else
        at = write_plain(at, &digits);
    return (size_t)(at - out);
}
