/*
 * base.h: the few macros every file may use.
 *
 * ASSERT stays on in release builds: a programmer error must stop the daemon, whose crash path
 * is its recovery path, rather than let it write a wrong record.
 */
#ifndef BASE_BASE_H
#define BASE_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MUST_USE __attribute__((warn_unused_result))
#define PRINTF_LIKE(fmt, args) __attribute__((format(printf, fmt, args)))
#define NORETURN __attribute__((noreturn))

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))

/* Casts `void *` callback arguments; the magic number catches a wrong or freed object. */
#define CAST_OBJ(to, from, type_magic)                       \
    do {                                                     \
        (to) = (from);                                       \
        ASSERT((to) != NULL && (to)->magic == (type_magic)); \
    } while (0)

#define ASSERT(cond)                                  \
    do {                                              \
        if (!(cond))                                  \
            assert_failed(__FILE__, __LINE__, #cond); \
    } while (0)

NORETURN void assert_failed(const char *file, int line, const char *cond);

/* Allocation that cannot fail: out of memory ends the process (see "Errors" in CONTRIBUTING). */
void *xmalloc(size_t size);
void *xcalloc(size_t count, size_t size);
void *xrealloc(void *old, size_t size);
char *xstrdup(const char *text);

#endif
