/*
 * breakers.h: what this daemon's breakers tell those of the others, and the other way round.
 *
 * A change is written to saga.service_state once; what others found open is read each second, while
 * this daemon has services with limits. Both need the database: without it each daemon goes on with
 * what it sees itself, and tells its newest state when the database is back.
 */
#ifndef ENGINE_BREAKERS_H
#define ENGINE_BREAKERS_H

#include "engine/runner.h"
#include "engine/store_pg.h"

struct breakers;

struct breakers_options { /* everything is borrowed */
    struct loop *loop;
    struct store_pg *store;
    const char *daemon;
};

struct breakers *breakers_new(const struct breakers_options *options);
/* What the runner is told of; before its first turn. */
void breakers_run(struct breakers *breakers, struct runner *runner);
struct port_services breakers_port(struct breakers *breakers);
/* Neither reads nor writes any more. */
void breakers_stop(struct breakers *breakers);
/* NULL is allowed. After the store was closed: its answers come here. */
void breakers_free(struct breakers *breakers);

#endif
