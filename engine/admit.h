/*
 * admit.h: whether a request to a service may go out now, and what becomes of it if not.
 *
 * A decision is told by its event how much room each service has (gate.h). What finds none waits:
 * its key and request hash are durable, no attempt is counted. Forward its budget runs on; on the
 * way back the budget stands still: it begins, or begins anew, when the request goes out. A key's
 * lifetime runs on in both directions.
 *
 * Reads that ask what became of a request are not limited, only put off by an open breaker
 * (ask.h): they are few, and what they find out is what the way back waits for.
 */
#ifndef ENGINE_ADMIT_H
#define ENGINE_ADMIT_H

#include "engine/decision.h"

/* Whoever waits is woken when there is room; it is looked at again after this at the latest. */
#define ADMIT_LOOK_AGAIN_US HOUR_US

/* True if the request of `side`, which is not written yet, may go out: its place is taken, and its
 * budget runs. False after `side` was written as held back. Precondition: its time is not over. */
bool admit_request(struct draft *draft, struct instance *instance, enum direction direction,
                   struct effect_state *side);

/* The side is held back, and its service has room for it, or no limits any more. */
bool admit_has_room(const struct draft *draft, const struct instance *instance,
                    enum direction direction);

/* Why a side that was held back until its time was over has failed: into `side`, if it was never
 * sent. */
void admit_in_vain(struct draft *draft, const struct instance *instance, enum direction direction,
                   struct effect_state *side);

/* Until when no read goes to the service of `action`; none: now. */
struct wall admit_ask_at(const struct draft *draft, const struct plan_action *action);

#endif
