/*
 * locks.h: the locks of workflows, which all daemons share through saga.lock_ticket.
 *
 * A run that waits has a ticket there; saga.locks_take_v1 lets the first of those with the same
 * value hold it, and the unit that ends a run takes its ticket away. So whoever carries a run may
 * ask for it, as often as it likes, and nothing of a lock is lost with a daemon. What is kept here
 * is only which runs of this daemon ask. They are asked for at once, whenever a lock came free
 * here, and four times a second, because a holder may end at another daemon; of each lock only the
 * oldest ones, the others now and then, for those before them may be paused.
 */
#ifndef ENGINE_LOCKS_H
#define ENGINE_LOCKS_H

#include "engine/runner.h"
#include "engine/store_pg.h"

struct locks;

struct locks_options { /* everything is borrowed */
    struct loop *loop;
    struct store_pg *store;
};

struct locks *locks_new(const struct locks_options *options);
/* Who is told; before its first turn. */
void locks_run(struct locks *locks, struct runner *runner);
struct port_locks locks_port(struct locks *locks);
/* Asks no more. */
void locks_stop(struct locks *locks);
/* NULL is allowed. After the store was closed: its answers come here. */
void locks_free(struct locks *locks);

#endif
