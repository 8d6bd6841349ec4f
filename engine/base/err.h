/*
 * err.h: operating errors are returned; this carries their one line of text.
 *
 * A fallible function returns 0 or an enum err_code, is MUST_USE and takes `struct err *err`
 * last. The detector describes, callers that know more wrap, the boundary (floor 6 and up) logs
 * or answers. Author errors (a bad workflow file) are diagnostics (dsl/diag.h), programmer errors
 * are ASSERT, and what a participant says is an outcome (engine/outcome.h): none of those is an
 * err. Text: lower case, no full stop, names in double quotes, the kind of object stated.
 */
#ifndef BASE_ERR_H
#define BASE_ERR_H

#include "engine/base/base.h"

#define ERR_CODES(X)                                                               \
    X(ERR_NONE, "none")                                                            \
    X(ERR_INVALID, "invalid") /* the input breaks a rule */                        \
    X(ERR_NOT_FOUND, "not_found")                                                  \
    X(ERR_CONFLICT, "conflict") /* the state forbids it; a repeat will not help */ \
    X(ERR_PERMISSION, "permission")                                                \
    X(ERR_LIMIT, "limit")             /* a documented limit was reached */         \
    X(ERR_UNAVAILABLE, "unavailable") /* may work later */                         \
    X(ERR_TIMEOUT, "timeout")                                                      \
    X(ERR_DATABASE, "database") /* PostgreSQL refused; sqlstate is set */          \
    X(ERR_IO, "io")                                                                \
    X(ERR_INTERNAL, "internal")

enum err_code {
#define X(code, name) code,
    ERR_CODES(X)
#undef X
        ERR_COUNT
};

#define ERR_TEXT_BYTES 512 /* longer text is cut at the end */

struct err {
    enum err_code code;
    char sqlstate[6]; /* "" unless PostgreSQL said it */
    char text[ERR_TEXT_BYTES];
};

/* Both return the code, so that callers can write `return err_set(...)`. */
int err_set(struct err *err, enum err_code code, const char *fmt, ...) PRINTF_LIKE(3, 4);
/* Puts "context: " before the text. */
int err_wrap(struct err *err, const char *fmt, ...) PRINTF_LIKE(2, 3);
const char *err_code_name(enum err_code code);

#endif
