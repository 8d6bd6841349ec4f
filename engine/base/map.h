/*
 * map.h: an intrusive hash table; the owner embeds a node and compares keys itself.
 *
 *     for (struct map_node *n = map_first(&map, hash); n; n = map_next(n))
 *         if (key matches the object around n) ...
 */
#ifndef BASE_MAP_H
#define BASE_MAP_H

#include "engine/base/base.h"

struct map_node {
    struct map_node *chain;
    uint64_t hash;
};

struct map {
    struct map_node **buckets;
    size_t size; /* a power of two, 0 before the first insert */
    size_t count;
};

/* The object of `type` around a node that is its member `member`. */
#define CONTAINER_OF(node, type, member) ((type *)(void *)((char *)(node)-offsetof(type, member)))

void map_free(struct map *map); /* the buckets only; nodes belong to their owners */
void map_insert(struct map *map, struct map_node *node, uint64_t hash);
void map_remove(struct map *map, struct map_node *node);
struct map_node *map_first(const struct map *map, uint64_t hash);
struct map_node *map_next(const struct map_node *node);
/* Any node, or NULL: for emptying a map. */
struct map_node *map_any(const struct map *map);

#endif
