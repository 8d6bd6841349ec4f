/*
 * idmap.h: from the id of an invocation to what an invoker keeps of it.
 */
#ifndef ENGINE_IDMAP_H
#define ENGINE_IDMAP_H

#include "engine/base/base.h"

struct idmap_slot {
    uint64_t id; /* 0: empty, so 0 is no id */
    void *value;
};

struct idmap { /* zeroed: empty */
    struct idmap_slot *slots;
    size_t size, used;
};

void idmap_put(struct idmap *map, uint64_t id, void *value); /* the id must be new */
void *idmap_get(const struct idmap *map, uint64_t id);       /* NULL: not there */
void idmap_remove(struct idmap *map, uint64_t id);
void idmap_free(struct idmap *map);

#endif
