/*
 * repin.h: whether an open run may go on under another version of its workflow.
 *
 * A run is pinned to the version that it was started with, forward and backward. A person may pin
 * it to another one while it rests (parked, or paused with nothing in flight): what has not run yet
 * then runs as the new version says, and what must be undone is undone by its compensations. What
 * has run must mean the same there: the same step ids, tiers, shapes of keys and pivots, so that no
 * effect gets a second key and none is forgotten.
 */
#ifndef ENGINE_REPIN_H
#define ENGINE_REPIN_H

#include "engine/run.h"

/* Errors: ERR_CONFLICT, naming the step and what stands in the way. */
MUST_USE int repin_check(const struct run *run, const struct plan *to, struct err *err);

#endif
