/*
 * rehearsal.h: a person wants to see what a step would do before it does it.
 *
 * A step may declare a `dry_run`: a request that its service answers with what the action would do.
 * It is of no attempt, has no key, and nothing is recorded of it; the run goes on, or goes on
 * waiting, as if nobody had looked.
 */
#ifndef ENGINE_REHEARSAL_H
#define ENGINE_REHEARSAL_H

#include "engine/decision.h"

/* EVENT_DRY_RUN for an instance: out->rehearsal holds the request, or out->answer says why there is
 * none: ERR_NOT_FOUND (the step declares no `dry_run`), ERR_INVALID (a loop itself, or it cannot be
 * rendered), ERR_CONFLICT (the step is not reached, in flight or done, the run goes back or has
 * ended, or a person has replaced what the step sends). */
void rehearsal_decide(struct draft *draft, const struct instance *instance);

#endif
