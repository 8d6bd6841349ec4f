/*
 * bulk.h: works off verbs for many runs.
 *
 * The owner of shard_of(bulk id) lets saga.bulk_work_v1 put the next requests into the inboxes of
 * the runs' owners, at the rate that was asked for. All of it is in saga.bulk: after a crash
 * whoever owns the shard then goes on.
 */
#ifndef ENGINE_BULK_H
#define ENGINE_BULK_H

#include "engine/runner.h"
#include "engine/store_pg.h"

struct bulks;

/* Everything is borrowed. */
struct bulks *bulks_new(struct loop *loop, struct runner *runner, struct store_pg *store);
/* There is a new one: looks at once. */
void bulks_nudge(struct bulks *bulks);
/* For a drain: releases nothing more. */
void bulks_stop(struct bulks *bulks);
/* NULL is allowed. After the store was closed: its answers come here. */
void bulks_free(struct bulks *bulks);

#endif
