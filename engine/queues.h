/*
 * queues.h: which tasks of this daemon's runs workers may take, by queue; in memory only.
 *
 * What is here are hints: the take is decided by the run (task.h), and an entry whose run has moved
 * on is void. After a restart or take-over the runs offer their tasks again.
 */
#ifndef ENGINE_QUEUES_H
#define ENGINE_QUEUES_H

#include "engine/loop.h"
#include "engine/port.h"

struct queues;

struct queues *queues_new(struct loop *loop);
void queues_free(struct queues *queues); /* NULL is allowed; takers must be gone */

struct port_tasks queues_port(struct queues *queues);
/* The lease is lost: whoever owns the runs offers their tasks. */
void queues_clear(struct queues *queues);

/* The key of the task that was offered first, copied into `arena`; false: the queue is empty. */
bool queues_pop(struct queues *queues, struct str queue, struct arena *arena, struct str *key);

/* Somebody who waits for a task; embedded by its owner. */
struct queue_taker {
    struct queue_taker *next, *prev;
    struct queue *queue; /* NULL: does not wait */
    struct str name;     /* of the queue; its owner's memory */
    bool woken;          /* ready will be called */
    struct loop_call call;
    void (*ready)(void *arg); /* there may be a task: called from the loop, the wait is over */
    void *arg;
};

/* Each task that is offered wakes one taker, the one that has waited longest. */
void queues_wait(struct queues *queues, struct str queue, struct queue_taker *taker);
void queues_unwait(struct queues *queues, struct queue_taker *taker);

#endif
