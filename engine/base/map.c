#include "engine/base/map.h"

#include <stdlib.h>

#define MAP_SIZE_MIN 64

void map_free(struct map *map)
{
    free(map->buckets);
    *map = (struct map){0};
}

static void map_grow(struct map *map)
{
    size_t size = map->size ? map->size * 2 : MAP_SIZE_MIN;
    struct map_node **buckets = xcalloc(size, sizeof(struct map_node *));
    for (size_t i = 0; i < map->size; i++)
        for (struct map_node *node = map->buckets[i], *next; node; node = next) {
            next = node->chain;
            node->chain = buckets[node->hash & (size - 1)];
            buckets[node->hash & (size - 1)] = node;
        }
    free(map->buckets);
    map->buckets = buckets;
    map->size = size;
}

void map_insert(struct map *map, struct map_node *node, uint64_t hash)
{
    if (map->count >= map->size)
        map_grow(map);
    struct map_node **bucket = &map->buckets[hash & (map->size - 1)];
    node->hash = hash;
    node->chain = *bucket;
    *bucket = node;
    map->count++;
}

void map_remove(struct map *map, struct map_node *node)
{
    ASSERT(map->size);
    struct map_node **at = &map->buckets[node->hash & (map->size - 1)];
    while (*at != node) {
        ASSERT(*at);
        at = &(*at)->chain;
    }
    *at = node->chain;
    map->count--;
}

struct map_node *map_first(const struct map *map, uint64_t hash)
{
    struct map_node *node = map->size ? map->buckets[hash & (map->size - 1)] : NULL;
    while (node && node->hash != hash)
        node = node->chain;
    return node;
}

struct map_node *map_next(const struct map_node *node)
{
    struct map_node *next = node->chain;
    while (next && next->hash != node->hash)
        next = next->chain;
    return next;
}

struct map_node *map_any(const struct map *map)
{
    for (size_t i = 0; map->count && i < map->size; i++)
        if (map->buckets[i])
            return map->buckets[i];
    return NULL;
}
