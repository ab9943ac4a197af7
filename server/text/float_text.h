/* float_text: writes a float as JSON text. */
#ifndef SERVER_FLOAT_TEXT_H
#define SERVER_FLOAT_TEXT_H

#include <stddef.h>

#define F32_TEXT 24 /* number of bytes that write_f32 may overwrite. The text itself is shorter */

/* Writes a finite value with the fewest digits that are read back as the same float. At most 9 digits are needed.
 * Examples: 1.0, -0.25, 3.4028235e+38. Of several such texts, writes the one nearest to the value. Writes no NUL.
 * Returns the length. */
size_t write_f32(char out[F32_TEXT], float value);

#endif
