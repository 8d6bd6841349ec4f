/*
 * arena.h: memory by lifetime.
 *
 * An arena is named after how long it lives (plan_arena, run_arena, scratch) and freed as a
 * whole. Everything it returns is zeroed unless said otherwise and aligned for any type. There is
 * no single free; whatever must outlive the arena is copied at one visible place.
 */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include "engine/base/str.h"

struct arena_block;

struct arena {                  /* zeroed: empty */
    struct arena_block *blocks; /* newest first */
    size_t used_bytes;          /* handed out since the last reset */
};

void arena_free(struct arena *arena);
/* Forgets everything but keeps one block, so that a scratch arena settles without malloc. */
void arena_reset(struct arena *arena);

void *arena_alloc(struct arena *arena, size_t size);
#define arena_new(arena, type) ((type *)arena_alloc((arena), sizeof(type)))
#define arena_array(arena, type, count) ((type *)arena_alloc_array((arena), (count), sizeof(type)))
void *arena_alloc_array(struct arena *arena, size_t count, size_t size);

struct str arena_str(struct arena *arena, struct str text); /* absent stays absent */
char *arena_strdup(struct arena *arena, const char *text);
struct str arena_printf(struct arena *arena, const char *fmt, ...) PRINTF_LIKE(2, 3);

#endif
