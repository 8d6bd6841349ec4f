#include "engine/queues.h"

#include "engine/base/map.h"

#include <stdlib.h>

struct offer {
    struct map_node node; /* by key */
    struct offer *next;
    struct queue *queue;
    struct str key;
    char bytes[];
};

/* One that nobody offers to or takes from any more is kept: names are few. */
struct queue {
    struct map_node node; /* by name */
    struct str name;
    struct offer *first, **tail;
    struct queue_taker *takers, *last_taker;
};

struct queues {
    struct loop *loop;
    struct map names, keys;
};

struct queues *queues_new(struct loop *loop)
{
    struct queues *queues = xcalloc(1, sizeof(*queues));
    queues->loop = loop;
    return queues;
}

static void offer_free(struct queues *queues, struct offer *offer)
{
    map_remove(&queues->keys, &offer->node);
    free(offer);
}

void queues_free(struct queues *queues)
{
    struct map_node *node;
    if (!queues)
        return;
    while ((node = map_any(&queues->keys)))
        offer_free(queues, CONTAINER_OF(node, struct offer, node));
    while ((node = map_any(&queues->names))) {
        struct queue *queue = CONTAINER_OF(node, struct queue, node);
        ASSERT(!queue->takers);
        map_remove(&queues->names, node);
        free((char *)queue->name.ptr);
        free(queue);
    }
    map_free(&queues->keys);
    map_free(&queues->names);
    free(queues);
}

static struct queue *queue_find(struct queues *queues, struct str name)
{
    uint64_t hash = str_hash(name);
    for (struct map_node *node = map_first(&queues->names, hash); node; node = map_next(node)) {
        struct queue *queue = CONTAINER_OF(node, struct queue, node);
        if (str_eq(queue->name, name))
            return queue;
    }
    struct queue *queue = xcalloc(1, sizeof(*queue));
    char *copy = xmalloc(name.len + 1);
    memcpy(copy, name.ptr, name.len);
    copy[name.len] = '\0';
    queue->name = (struct str){copy, name.len};
    queue->tail = &queue->first;
    map_insert(&queues->names, &queue->node, hash);
    return queue;
}

static bool is_offered(const struct queues *queues, struct str key)
{
    for (struct map_node *node = map_first(&queues->keys, str_hash(key)); node;
         node = map_next(node))
        if (str_eq(CONTAINER_OF(node, struct offer, node)->key, key))
            return true;
    return false;
}

static void taker_remove(struct queue_taker *taker)
{
    struct queue *queue = taker->queue;
    if (taker->prev)
        taker->prev->next = taker->next;
    else
        queue->takers = taker->next;
    if (taker->next)
        taker->next->prev = taker->prev;
    else
        queue->last_taker = taker->prev;
    taker->queue = NULL;
}

static void taker_wake(void *arg)
{
    struct queue_taker *taker = arg;
    taker->woken = NULL;
    taker->ready(taker->arg);
}

static void wake_next(struct queues *queues, struct queue *queue)
{
    struct queue_taker *taker = queue->takers;
    if (!taker || !queue->first)
        return;
    taker_remove(taker);
    taker->woken = queue;
    loop_defer(queues->loop, &taker->call, taker_wake, taker);
}

static void offer(void *arg, struct str queue_name, struct str run_id, struct str key)
{
    struct queues *queues = arg;
    (void)run_id;
    if (is_offered(queues, key))
        return;
    struct offer *offer = xcalloc(1, sizeof(*offer) + key.len + 1);
    memcpy(offer->bytes, key.ptr, key.len);
    offer->key = (struct str){offer->bytes, key.len};
    offer->queue = queue_find(queues, queue_name);
    *offer->queue->tail = offer;
    offer->queue->tail = &offer->next;
    map_insert(&queues->keys, &offer->node, str_hash(key));
    wake_next(queues, offer->queue);
}

struct port_tasks queues_port(struct queues *queues)
{
    return (struct port_tasks){.arg = queues, .offer = offer};
}

bool queues_pop(struct queues *queues, struct str name, struct arena *arena, struct str *key)
{
    struct queue *queue = queue_find(queues, name);
    struct offer *first = queue->first;
    if (!first)
        return false;
    queue->first = first->next;
    if (!queue->first)
        queue->tail = &queue->first;
    *key = arena_str(arena, first->key);
    offer_free(queues, first);
    return true;
}

void queues_wait(struct queues *queues, struct str name, struct queue_taker *taker)
{
    struct queue *queue = queue_find(queues, name);
    ASSERT(!taker->queue);
    taker->queue = queue;
    taker->next = NULL;
    taker->prev = queue->last_taker;
    if (queue->last_taker)
        queue->last_taker->next = taker;
    else
        queue->takers = taker;
    queue->last_taker = taker;
}

void queues_unwait(struct queues *queues, struct queue_taker *taker)
{
    if (taker->queue)
        taker_remove(taker);
    loop_defer_cancel(queues->loop, &taker->call);
    if (taker->woken)
        wake_next(queues, taker->woken);
    taker->woken = NULL;
}
