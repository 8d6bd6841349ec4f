#include "engine/base/arena.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define ARENA_BLOCK_BYTES 4096 /* the first block; later ones double up to 256 KiB */
#define ARENA_BLOCK_BYTES_MAX (256 * 1024)
#define ARENA_ALIGN 16

struct arena_block {
    struct arena_block *older;
    size_t size, used;
    _Alignas(ARENA_ALIGN) unsigned char data[];
};

static void blocks_free(struct arena_block *block)
{
    while (block) {
        struct arena_block *older = block->older;
        free(block);
        block = older;
    }
}

void arena_free(struct arena *arena)
{
    blocks_free(arena->blocks);
    *arena = (struct arena){0};
}

void arena_reset(struct arena *arena)
{
    struct arena_block *kept = arena->blocks;
    if (!kept)
        return;
    if (kept->size > ARENA_BLOCK_BYTES_MAX) { /* one huge payload must not be kept for ever */
        arena_free(arena);
        return;
    }
    blocks_free(kept->older);
    kept->older = NULL;
    kept->used = 0;
    arena->used_bytes = 0;
}

static struct arena_block *block_add(struct arena *arena, size_t wanted)
{
    size_t size = arena->blocks ? MIN(arena->blocks->size * 2, (size_t)ARENA_BLOCK_BYTES_MAX)
                                : ARENA_BLOCK_BYTES;
    size = MAX(size, wanted);
    struct arena_block *block = xmalloc(sizeof(*block) + size);
    block->older = arena->blocks;
    block->size = size;
    block->used = 0;
    arena->blocks = block;
    return block;
}

/* Not zeroed yet. */
static void *bytes_take(struct arena *arena, size_t size)
{
    ASSERT(size < SIZE_MAX / 2);
    size = (MAX(size, (size_t)1) + ARENA_ALIGN - 1) & ~(size_t)(ARENA_ALIGN - 1);
    struct arena_block *block = arena->blocks;
    if (!block || block->size - block->used < size)
        block = block_add(arena, size);
    void *ptr = block->data + block->used;
    block->used += size;
    arena->used_bytes += size;
    return ptr;
}

void *arena_alloc(struct arena *arena, size_t size)
{
    return memset(bytes_take(arena, size), 0, size);
}

void *arena_alloc_array(struct arena *arena, size_t count, size_t size)
{
    ASSERT(count == 0 || size <= SIZE_MAX / 4 / count);
    return arena_alloc(arena, count * size);
}

struct str arena_str(struct arena *arena, struct str text)
{
    if (!text.ptr)
        return STR_NONE;
    char *copy = bytes_take(arena, text.len + 1);
    memcpy(copy, text.ptr, text.len);
    copy[text.len] = '\0';
    return (struct str){copy, text.len};
}

char *arena_strdup(struct arena *arena, const char *text)
{
    return text ? (char *)arena_str(arena, str_z(text)).ptr : NULL;
}

struct str arena_printf(struct arena *arena, const char *fmt, ...)
{
    va_list args, again;
    va_start(args, fmt);
    va_copy(again, args);
    int len = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    ASSERT(len >= 0);
    char *text = arena_alloc(arena, (size_t)len + 1);
    vsnprintf(text, (size_t)len + 1, fmt, again);
    va_end(again);
    return (struct str){text, (size_t)len};
}
