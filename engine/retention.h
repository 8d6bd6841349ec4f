/*
 * retention.h: removes the data of finished runs when their time is over.
 *
 * The owner of a shard looks now and then for finished runs of it that are due (saga.retire_find),
 * holds them back in its runner, so that no event reaches them meanwhile, and removes them in
 * batches (saga.retire). What is left of a run is its tombstone. Units never wait for any of this.
 */
#ifndef ENGINE_RETENTION_H
#define ENGINE_RETENTION_H

#include "engine/plans.h"
#include "engine/runner.h"
#include "engine/store_pg.h"

struct retention;

struct retention_options { /* everything is borrowed */
    struct loop *loop;
    struct runner *runner;
    struct store_pg *store;
    struct plans *plans;
    const char *daemon;
    int64_t retain_us; /* of runs whose workflow says nothing; 0: they are kept for ever */
};

struct retention *retention_new(const struct retention_options *options);
/* For a drain: begins nothing more. */
void retention_stop(struct retention *retention);
/* NULL is allowed. After the store was closed: its answers come here. */
void retention_free(struct retention *retention);

#endif
