#include "engine/base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char *const err_names[] = {
#define X(code, name) name,
    ERR_CODES(X)
#undef X
};
_Static_assert(ARRAY_LEN(err_names) == ERR_COUNT, "one name per error code");

const char *err_code_name(enum err_code code)
{
    ASSERT(code < ERR_COUNT);
    return err_names[code];
}

int err_set(struct err *err, enum err_code code, const char *fmt, ...)
{
    va_list args;
    ASSERT(code != ERR_NONE && code < ERR_COUNT);
    err->code = code;
    err->sqlstate[0] = '\0';
    va_start(args, fmt);
    vsnprintf(err->text, sizeof(err->text), fmt, args);
    va_end(args);
    return code;
}

int err_wrap(struct err *err, const char *fmt, ...)
{
    char inner[ERR_TEXT_BYTES];
    va_list args;
    ASSERT(err->code != ERR_NONE);
    memcpy(inner, err->text, sizeof(inner));
    va_start(args, fmt);
    vsnprintf(err->text, sizeof(err->text), fmt, args);
    va_end(args);
    size_t used = strlen(err->text);
    snprintf(err->text + used, sizeof(err->text) - used, ": %s", inner);
    return err->code;
}
