#include "engine/idmap.h"
#include "engine/base/rand.h"

#include <stdlib.h>

/* The slot of the id, or the empty one where it would go. Linear probing. */
static size_t slot_find(const struct idmap *map, uint64_t id)
{
    size_t at = rand_mix(id) & (map->size - 1);
    while (map->slots[at].id && map->slots[at].id != id)
        at = (at + 1) & (map->size - 1);
    return at;
}

static void grow(struct idmap *map)
{
    struct idmap larger = {.size = MAX(map->size * 2, (size_t)64), .used = map->used};
    larger.slots = xcalloc(larger.size, sizeof(*larger.slots));
    for (size_t i = 0; i < map->size; i++)
        if (map->slots[i].id)
            larger.slots[slot_find(&larger, map->slots[i].id)] = map->slots[i];
    free(map->slots);
    *map = larger;
}

void idmap_put(struct idmap *map, uint64_t id, void *value)
{
    ASSERT(id != 0 && value);
    if (map->used * 2 >= map->size)
        grow(map);
    size_t at = slot_find(map, id);
    ASSERT(!map->slots[at].id);
    map->slots[at] = (struct idmap_slot){id, value};
    map->used++;
}

void *idmap_get(const struct idmap *map, uint64_t id)
{
    return map->size && id ? map->slots[slot_find(map, id)].value : NULL;
}

/* Moves later entries of the same chain forward, so that no tombstones are needed. */
void idmap_remove(struct idmap *map, uint64_t id)
{
    size_t mask = map->size - 1, hole = slot_find(map, id);
    ASSERT(map->slots[hole].id == id);
    map->slots[hole] = (struct idmap_slot){0};
    map->used--;
    for (size_t at = (hole + 1) & mask; map->slots[at].id; at = (at + 1) & mask) {
        struct idmap_slot moved = map->slots[at];
        map->slots[at] = (struct idmap_slot){0};
        map->slots[slot_find(map, moved.id)] = moved;
    }
}

void idmap_free(struct idmap *map)
{
    free(map->slots);
    *map = (struct idmap){0};
}
