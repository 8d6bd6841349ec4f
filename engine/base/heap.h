/*
 * heap.h: a binary min-heap of intrusive nodes, smallest key on top.
 */
#ifndef BASE_HEAP_H
#define BASE_HEAP_H

#include "engine/base/base.h"

struct heap_node {
    int64_t key;
    size_t place; /* 1-based; 0: not in a heap */
};

struct heap {
    struct heap_node **nodes; /* nodes[0] is unused */
    size_t count, size;
};

void heap_free(struct heap *heap);
/* Inserts the node or moves it to its new key. */
void heap_set(struct heap *heap, struct heap_node *node, int64_t key);
void heap_remove(struct heap *heap, struct heap_node *node); /* a node not in the heap is fine */
struct heap_node *heap_top(const struct heap *heap);         /* NULL: empty */

#endif
