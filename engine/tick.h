/*
 * tick.h: which tick of a schedule is to be started now.
 */
#ifndef ENGINE_TICK_H
#define ENGINE_TICK_H

#include "dsl/plan.h"

/* A tick that is not older was not missed: the daemon was only slow. */
#define TICK_GRACE_US MINUTE_US

/* The tick to start at `now`, when `last` was the last one that was dealt with; WALL_NONE: none is
 * due. What lies between them is passed over, as `catch_up` says. `queued`: ticks wait for the run
 * before them, so none of them was missed. */
struct wall tick_due(const struct plan_schedule *schedule, struct wall last, struct wall now,
                     bool queued);

/* WORKFLOW-20261025T023000Z */
struct str tick_run_id(struct str workflow, struct wall tick, struct arena *arena);

#endif
