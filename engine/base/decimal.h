/*
 * decimal.h: exact arithmetic on the text of JSON numbers; nothing goes through a double.
 *
 * A result keeps its scale: 1990 * 0.01 is 19.90, 1.50 + 1.5 is 3.00. There is no division, so
 * every result is exact or refused. Limits: a whole number must fit 64 bits, a decimal has at
 * most DECIMAL_DIGITS_MAX digits, before and after the operation.
 *
 * Errors: ERR_LIMIT if an operand or the result does not fit.
 */
#ifndef BASE_DECIMAL_H
#define BASE_DECIMAL_H

#include "engine/base/arena.h"
#include "engine/base/err.h"

#define DECIMAL_DIGITS_MAX 36 /* the most that 128 bits hold with room for one addition */

/* The operands are valid JSON numbers; `out` lies in the arena. */
MUST_USE int decimal_add(struct str a, struct str b, struct arena *arena, struct str *out,
                         struct err *err);
MUST_USE int decimal_sub(struct str a, struct str b, struct arena *arena, struct str *out,
                         struct err *err);
MUST_USE int decimal_mul(struct str a, struct str b, struct arena *arena, struct str *out,
                         struct err *err);
/* Drops the digits after the point (19.90 -> 19, -0.5 -> 0); the result fits 64 bits. */
MUST_USE int decimal_trunc(struct str a, int64_t *out, struct err *err);

/* True if the text is a JSON number. */
bool decimal_is_number(struct str text);
/* True if the number has no fraction, however it is written (1, 1.0, 1e2). */
bool decimal_is_whole(struct str number);

#endif
