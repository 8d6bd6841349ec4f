#include "engine/base/base.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void assert_failed(const char *file, int line, const char *cond)
{
    fprintf(stderr, "%s:%d: assertion failed: %s\n", file, line, cond);
    abort();
}

static NORETURN void out_of_memory(size_t size)
{
    fprintf(stderr, "out of memory (%zu bytes wanted)\n", size);
    abort();
}

void *xmalloc(size_t size)
{
    void *ptr = malloc(size ? size : 1);
    if (!ptr)
        out_of_memory(size);
    return ptr;
}

void *xcalloc(size_t count, size_t size)
{
    void *ptr = calloc(count ? count : 1, size ? size : 1);
    if (!ptr)
        out_of_memory(size);
    return ptr;
}

void *xrealloc(void *old, size_t size)
{
    void *ptr = realloc(old, size ? size : 1);
    if (!ptr)
        out_of_memory(size);
    return ptr;
}

char *xstrdup(const char *text)
{
    size_t size = strlen(text) + 1;
    return memcpy(xmalloc(size), text, size);
}
