/* float_text: a float as JSON text. */
#ifndef SERVER_FLOAT_TEXT_H
#define SERVER_FLOAT_TEXT_H

#include <stddef.h>

#define F32_TEXT 24 /* bytes that write_f32 may touch */

/* Writes a finite value so that reading it back gives the same float: 1.0, -0.25, 3.4028235e+38. With as few digits as
 * do, at most 9, and of several such texts the nearest to the value. No terminator. Returns the length. */
size_t write_f32(char out[F32_TEXT], float value);

#endif
