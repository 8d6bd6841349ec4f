/*
 * unknown.h: what may be done about an action that may or may not have been applied.
 *
 * The table "After an unknown outcome": a pure function of the action's declarations, its key's
 * lifetime and the time. The same table serves compensations.
 */
#ifndef ENGINE_UNKNOWN_H
#define ENGINE_UNKNOWN_H

#include "engine/run.h"

enum unknown_way {
    UNKNOWN_NONE,
    UNKNOWN_REPEAT, /* the same bytes again, under the same key */
    UNKNOWN_ASK,    /* the participant is asked; only what is proven not applied is repeated */
    UNKNOWN_PARK,   /* a person must say what became of it */
    UNKNOWN_FAIL,   /* the run turns back, and the way back finds out (`on_unknown: compensate`) */
    UNKNOWN_GO_ON,  /* it is listed in the residue (`on_unknown: continue`) */
};

/* At the time `at`. A key that is past its lifetime is never relied on, whatever is declared. */
enum unknown_way unknown_way(const struct plan_action *action, const struct effect_state *side,
                             struct wall at);

/* A participant may apply an attempt as late as this: before it "not applied" proves nothing.
 * Precondition: the action has a `reconcile`. */
struct wall unknown_settled_at(const struct plan_action *action, const struct effect_state *side);

/* Reads go on: the side is unknown and the next one has a time. */
static inline bool unknown_is_asked(const struct effect_state *side)
{
    return side->state == STEP_UNKNOWN && wall_is_set(side->next_at);
}

/* It can be asked, and since the run last changed its direction it has not been. */
bool unknown_may_ask(const struct plan_action *action, const struct effect_state *side);

#endif
