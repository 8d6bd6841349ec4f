/*
 * schedule.h: starts the runs of workflows that have a `schedule`.
 *
 * The owner of shard_of(workflow name) looks after its ticks. What was dealt with stands in
 * saga.schedule; a tick is put into the inbox of its run's owner by the transaction that notes it,
 * under an id that follows from the tick, so that crashes and several daemons make one run of it.
 */
#ifndef ENGINE_SCHEDULE_H
#define ENGINE_SCHEDULE_H

#include "engine/plans.h"
#include "engine/runner.h"
#include "engine/store_pg.h"

struct schedules;

struct schedules_options { /* everything is borrowed */
    struct loop *loop;
    struct runner *runner;
    struct store_pg *store;
    struct plans *plans;
    const struct json *env;
};

struct schedules *schedules_new(const struct schedules_options *options);
/* For a drain: starts nothing more. */
void schedules_stop(struct schedules *schedules);
/* NULL is allowed. After the store was closed: its answers come here. */
void schedules_free(struct schedules *schedules);

#endif
