/*
 * late_answers.h: brings what participants said after the lease was lost to whoever owns the run.
 *
 * Each answer becomes a row of the inbox, as a callback does. The database is often what was away,
 * so answers wait here until it can be asked; an answer is put again until that is known to have
 * worked, under an id of its own, so that it arrives once. They are evidence beyond what is
 * promised: a daemon that dies takes its own with it, and the run stays as unknown as it was.
 */
#ifndef ENGINE_LATE_ANSWERS_H
#define ENGINE_LATE_ANSWERS_H

#include "engine/runner.h"
#include "engine/store_pg.h"

#define LATE_ANSWERS_MAX 1024 /* kept at once; more are dropped, which the log tells */

struct late_answers;

struct late_answers_options { /* everything is borrowed */
    struct loop *loop;
    struct store_pg *store;
    const char *daemon;
};

struct late_answers *late_answers_new(const struct late_answers_options *options);
struct port_strays late_answers_port(struct late_answers *answers);
/* NULL is allowed. After the store was closed: its answers come here. */
void late_answers_free(struct late_answers *answers);

#endif
