/* float_text: a float as decimal digits, computed in double.
 *
 * Nine significant decimal digits always tell two floats apart, and double leaves room: scaling by a power of ten is
 * wrong by less than 2^-51 relative, the nearest nine digits by less than 5e-9, while half the distance to the next
 * float is at least 2.98e-8 of the value. So nine digits read back right without further proof. Seven and eight are
 * taken when they lie within 0.49 of the distance to the nearer neighbour, which keeps them clear of where reading
 * could round either way. */
#include "server/float_text.h"

#include <assert.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

/* 10^exponent; correctly rounded for every exponent used here because the compiler reads the literals. */
static double power_of_ten(int exponent)
{
    static const double powers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11, 1e12, 1e13,
                                    1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22, 1e23, 1e24, 1e25, 1e26, 1e27,
                                    1e28, 1e29, 1e30, 1e31, 1e32, 1e33, 1e34, 1e35, 1e36, 1e37, 1e38, 1e39, 1e40, 1e41,
                                    1e42, 1e43, 1e44, 1e45, 1e46, 1e47, 1e48, 1e49, 1e50, 1e51, 1e52, 1e53, 1e54};

    assert(exponent >= 0 && exponent < (int)(sizeof powers / sizeof powers[0]));
    return powers[exponent];
}

static double scale(double value, int exponent)
{
    return exponent >= 0 ? value * power_of_ten(exponent) : value / power_of_ten(-exponent);
}

/* The digits of `value` > 0 in *digits, without zeros at the end; returns the exponent of the first one. */
static int decimal(float value, uint32_t *digits, int *n_digits)
{
    uint32_t bits;
    int exponent2, exponent10;
    double exact = value, tolerance;

    memcpy(&bits, &value, sizeof bits);
    exponent2 = (int)(bits >> 23);
    /* A power of two has its lower neighbour at half the distance of the upper one. */
    tolerance = ldexp((bits & 0x7FFFFF) ? 0.49 : 0.245, (exponent2 ? exponent2 : 1) - 150);
    frexp(exact, &exponent2);
    exponent10 = (int)floor((exponent2 - 1) * 0.30102999566398120);
    if (scale(exact, -exponent10) >= 10.0)
        exponent10++;

    for (int n = 7;; n++) {
        double scaled = scale(exact, n - 1 - exponent10), rounded = floor(scaled + 0.5);

        if (n < 9 && fabs(scale(rounded, exponent10 - n + 1) - exact) > tolerance)
            continue;
        *digits = (uint32_t)rounded;
        *n_digits = n;
        if (rounded == power_of_ten(n)) { /* 9.9999999 became 10 */
            *digits /= 10;
            exponent10++;
        }
        break;
    }
    while (*digits % 10 == 0) {
        *digits /= 10;
        --*n_digits;
    }
    return exponent10;
}

size_t write_f32(char out[F32_TEXT], float value)
{
    char *at = out, text[10] = "0";
    uint32_t digits;
    int n_digits, exponent;

    assert(isfinite(value));
    if (signbit(value))
        *at++ = '-';
    if (value == 0.0f) {
        memcpy(at, "0.0", 3);
        return (size_t)(at + 3 - out);
    }
    exponent = decimal(fabsf(value), &digits, &n_digits);
    for (int i = n_digits; i-- > 0; digits /= 10)
        text[i] = (char)('0' + digits % 10);

    if (exponent >= 9 || exponent < -5) {
        *at++ = text[0];
        *at++ = '.';
        if (n_digits == 1)
            *at++ = '0';
        memcpy(at, text + 1, (size_t)n_digits - 1);
        at += n_digits - 1;
        *at++ = 'e';
        *at++ = exponent < 0 ? '-' : '+';
        exponent = exponent < 0 ? -exponent : exponent;
        *at++ = (char)('0' + exponent / 10);
        *at++ = (char)('0' + exponent % 10);
    } else {
        /* Places from `exponent` down to the last digit, and one behind the point at least. */
        int last = exponent - n_digits + 1 < -1 ? exponent - n_digits + 1 : -1;

        for (int place = exponent > 0 ? exponent : 0; place >= last; place--) {
            int index = exponent - place;

            if (place == -1)
                *at++ = '.';
            *at++ = index >= 0 && index < n_digits ? text[index] : '0';
        }
    }
    return (size_t)(at - out);
}
