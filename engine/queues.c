#include "engine/queues.h"

#include "engine/base/map.h"

#include <stdlib.h>

struct offer {
    struct map_node node, of_run; /* by key; by run id */
    struct offer *next, **place;
    struct queue *queue;
    struct str key, run_id;
    char bytes[];
};

/* Exists while something is offered in it or somebody waits at it. */
struct queue {
    struct map_node node; /* by name */
    struct str name;
    struct offer *first, **tail;
    struct queue_taker *takers, *last_taker;
};

struct queues {
    struct loop *loop;
    struct map names, keys, runs;
};

struct queues *queues_new(struct loop *loop)
{
    struct queues *queues = xcalloc(1, sizeof(*queues));
    queues->loop = loop;
    return queues;
}

static void offer_free(struct queues *queues, struct offer *offer)
{
    *offer->place = offer->next;
    if (offer->next)
        offer->next->place = offer->place;
    else
        offer->queue->tail = offer->place;
    map_remove(&queues->keys, &offer->node);
    map_remove(&queues->runs, &offer->of_run);
    free(offer);
}

static void queue_free(struct queues *queues, struct queue *queue)
{
    map_remove(&queues->names, &queue->node);
    free((char *)queue->name.ptr);
    free(queue);
}

static void queue_settle(struct queues *queues, struct queue *queue)
{
    if (!queue->first && !queue->takers)
        queue_free(queues, queue);
}

void queues_free(struct queues *queues)
{
    struct map_node *node;
    if (!queues)
        return;
    queues_clear(queues);
    while ((node = map_any(&queues->names))) {
        ASSERT(!CONTAINER_OF(node, struct queue, node)->takers);
        queue_free(queues, CONTAINER_OF(node, struct queue, node));
    }
    map_free(&queues->keys);
    map_free(&queues->runs);
    map_free(&queues->names);
    free(queues);
}

static struct queue *queue_find(const struct queues *queues, struct str name)
{
    struct map_node *node = map_first(&queues->names, str_hash(name));
    for (; node; node = map_next(node)) {
        struct queue *queue = CONTAINER_OF(node, struct queue, node);
        if (str_eq(queue->name, name))
            return queue;
    }
    return NULL;
}

static struct queue *queue_make(struct queues *queues, struct str name)
{
    struct queue *queue = queue_find(queues, name);
    if (queue)
        return queue;
    queue = xcalloc(1, sizeof(*queue));
    char *copy = xmalloc(name.len + 1);
    memcpy(copy, name.ptr, name.len);
    copy[name.len] = '\0';
    queue->name = (struct str){copy, name.len};
    queue->tail = &queue->first;
    map_insert(&queues->names, &queue->node, str_hash(name));
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

static void taker_ready(void *arg)
{
    struct queue_taker *taker = arg;
    taker->woken = false;
    taker->ready(taker->arg);
}

static void taker_wake(struct queues *queues, struct queue *queue)
{
    struct queue_taker *taker = queue->takers;
    if (!taker || !queue->first)
        return;
    taker_remove(taker);
    taker->woken = true;
    loop_defer(queues->loop, &taker->call, taker_ready, taker);
}

static void offer(void *arg, struct str queue_name, struct str run_id, struct str key)
{
    struct queues *queues = arg;
    if (is_offered(queues, key))
        return;
    struct offer *offer = xcalloc(1, sizeof(*offer) + key.len + 1);
    memcpy(offer->bytes, key.ptr, key.len);
    offer->key = (struct str){offer->bytes, key.len};
    ASSERT(str_starts(offer->key, run_id));
    offer->run_id = (struct str){offer->bytes, run_id.len};
    offer->queue = queue_make(queues, queue_name);
    offer->place = offer->queue->tail;
    *offer->queue->tail = offer;
    offer->queue->tail = &offer->next;
    map_insert(&queues->keys, &offer->node, str_hash(key));
    map_insert(&queues->runs, &offer->of_run, str_hash(run_id));
    taker_wake(queues, offer->queue);
}

static void forget(void *arg, struct str run_id)
{
    struct queues *queues = arg;
    struct map_node *node = map_first(&queues->runs, str_hash(run_id));
    while (node) {
        struct offer *offer = CONTAINER_OF(node, struct offer, of_run);
        struct queue *queue = offer->queue;
        node = map_next(node);
        if (str_eq(offer->run_id, run_id)) {
            offer_free(queues, offer);
            queue_settle(queues, queue);
        }
    }
}

void queues_clear(struct queues *queues)
{
    for (struct map_node *node; (node = map_any(&queues->keys));) {
        struct offer *offer = CONTAINER_OF(node, struct offer, node);
        struct queue *queue = offer->queue;
        offer_free(queues, offer);
        queue_settle(queues, queue);
    }
}

struct port_tasks queues_port(struct queues *queues)
{
    return (struct port_tasks){.arg = queues, .offer = offer, .forget = forget};
}

bool queues_pop(struct queues *queues, struct str name, struct arena *arena, struct str *key)
{
    struct queue *queue = queue_find(queues, name);
    struct offer *first = queue ? queue->first : NULL;
    if (!first)
        return false;
    *key = arena_str(arena, first->key);
    offer_free(queues, first);
    queue_settle(queues, queue);
    return true;
}

void queues_wait(struct queues *queues, struct str name, struct queue_taker *taker)
{
    struct queue *queue = queue_make(queues, name);
    ASSERT(!taker->queue);
    taker->queue = queue;
    taker->name = name;
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
    struct queue *queue = taker->queue;
    if (queue) {
        taker_remove(taker);
        queue_settle(queues, queue);
    }
    if (!taker->woken)
        return;
    /* It was told of a task that it will not take. */
    loop_defer_cancel(queues->loop, &taker->call);
    taker->woken = false;
    queue = queue_find(queues, taker->name);
    if (queue)
        taker_wake(queues, queue);
}
