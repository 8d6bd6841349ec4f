/*
 * retry.h: when the next attempt may be sent, if at all.
 */
#ifndef ENGINE_RETRY_H
#define ENGINE_RETRY_H

#include "engine/run.h"

#define PICKUPS_MAX 5 /* take-overs in mid-attempt before the run is parked as a crash loop */
/* Attempts that cost none (Retry-After, in progress, local shortage) are paced by this at least,
 * so that a participant that says "retry after 0" cannot be hammered. */
#define RETRY_FREE_DELAY_MIN_US (100 * MS_US)

/* True if another attempt is allowed by count: attempts less those that cost none, since a person
 * last opened a new budget. */
bool retry_has_attempts(const struct plan_retry *retry, const struct effect_state *side);

/* When to send next, WALL_NONE if the budget does not reach so far.
 *
 * Exponential from `delay` by `factor` up to `max_delay`, plus jitter, which only ever adds:
 * nothing comes before the base delay or before Retry-After, and a crowd spreads at the cap as
 * well as below it. Jitter is a function of `seed` (run and step) and the attempt, so that a
 * decision repeats exactly. `after_us` is what the participant asked for, 0 if nothing. */
struct wall retry_next(const struct plan_retry *retry, const struct effect_state *side,
                       uint64_t seed, int64_t after_us, struct wall now);

#endif
