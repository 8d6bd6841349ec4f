#include "engine/base/heap.h"

#include <stdlib.h>

void heap_free(struct heap *heap)
{
    free(heap->nodes);
    *heap = (struct heap){0};
}

static void place(struct heap *heap, struct heap_node *node, size_t at)
{
    heap->nodes[at] = node;
    node->place = at;
}

static void sift(struct heap *heap, struct heap_node *node)
{
    size_t at = node->place;
    while (at > 1 && heap->nodes[at / 2]->key > node->key) {
        place(heap, heap->nodes[at / 2], at);
        at /= 2;
    }
    for (size_t child; (child = at * 2) <= heap->count; at = child) {
        if (child < heap->count && heap->nodes[child + 1]->key < heap->nodes[child]->key)
            child++;
        if (heap->nodes[child]->key >= node->key)
            break;
        place(heap, heap->nodes[child], at);
    }
    place(heap, node, at);
}

void heap_set(struct heap *heap, struct heap_node *node, int64_t key)
{
    if (!node->place) {
        if (heap->count + 1 >= heap->size) {
            heap->size = heap->size ? heap->size * 2 : 8;
            heap->nodes = xrealloc(heap->nodes, heap->size * sizeof(struct heap_node *));
        }
        node->place = ++heap->count;
        heap->nodes[node->place] = node;
    }
    node->key = key;
    sift(heap, node);
}

void heap_remove(struct heap *heap, struct heap_node *node)
{
    if (!node->place)
        return;
    struct heap_node *last = heap->nodes[heap->count--];
    if (last != node) {
        last->place = node->place;
        heap->nodes[last->place] = last;
        sift(heap, last);
    }
    node->place = 0;
}

struct heap_node *heap_top(const struct heap *heap)
{
    return heap->count ? heap->nodes[1] : NULL;
}
