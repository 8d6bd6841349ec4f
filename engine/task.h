/*
 * task.h: the life of a worker's task: offered, taken, kept alive by heartbeats, ended.
 *
 * A step with a `worker` action is `waiting` while its task is offered in a queue (certainly not
 * sent) and `claimed` from the moment a worker takes it: the take is an attempt, durable before the
 * worker is told. `next_at` holds the time at which either state ends by itself: the schedule
 * timeout of an offer, the last heartbeat plus the heartbeat's limit of a taken task. Nothing of a
 * task lives in memory alone, so a worker does not notice that a daemon was restarted.
 *
 * The token that a take gives names the attempt and fences: once another worker has taken the task,
 * the old token ends nothing any more.
 */
#ifndef ENGINE_TASK_H
#define ENGINE_TASK_H

#include "engine/decision.h"

/* Makes a side that is to be sent one that is offered. The caller writes it. */
void task_offer(struct draft *draft, const struct instance *instance, enum direction direction,
                struct effect_state *side);

/* After a load: offered tasks are offered again, to the queue in memory. */
void task_recover(struct draft *draft, const struct instance *instance, enum direction direction);

/* EVENT_TAKE: claims the offered task and fills draft->out->task. True if the step has ended
 * instead and the walk must go on. */
bool task_take_decide(struct draft *draft);
/* EVENT_COMPLETE, EVENT_FAIL, EVENT_HEARTBEAT: what the worker says. True if an attempt ended and
 * the walk must go on. Repeating the last word is answered as the first time. */
bool task_report_decide(struct draft *draft);

/* next_at has passed: nobody took it (refused), or its worker is silent (unknown). */
void task_due(struct draft *draft, struct instance *instance, enum direction direction);

#endif
