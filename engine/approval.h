/*
 * approval.h: a person's word before a request is sent.
 *
 * The side waits with its key and request hash durable; the row of the approval shows the exact
 * request. The decision is bound to the step, the generation and that hash, and is consumed by the
 * claim that follows in the same decision, so it is used once; after a crash the claim is there,
 * and with it the word. It covers the declared compensation. Another generation asks again.
 *
 * `people` is a list of {name, ids, groups}: ids are actors ("uid:1000", "role:ada") of one person.
 */
#ifndef ENGINE_APPROVAL_H
#define ENGINE_APPROVAL_H

#include "engine/decision.h"

/* Whether a person must be asked. Errors: ERR_INVALID, the condition cannot be read. */
MUST_USE int approval_is_wanted(struct draft *draft, const struct instance *instance,
                                enum direction direction, const struct effect_state *side,
                                bool *out, struct err *err);

/* Makes `side` one that waits for a person; the caller writes it. */
void approval_ask(struct draft *draft, const struct instance *instance, struct effect_state *side,
                  const struct rendered *rendered);

/* EVENT_APPROVE, EVENT_REJECT for an instance, or says in out->answer why not. True if the side
 * changed. */
bool approval_decide(struct draft *draft, struct instance *instance);

/* Nobody has decided in time. */
void approval_expire(struct draft *draft, struct instance *instance);

static inline bool approval_is_pending(const struct effect_state *side)
{
    return side->state == STEP_WAITING && side->approval == APPROVAL_PENDING;
}

/* Expired, and the workflow says to park then. */
static inline bool approval_is_parked(const struct plan_step *step, const struct effect_state *side)
{
    return step->approve && step->approve->park && side->approval == APPROVAL_EXPIRED &&
           side->state == STEP_REFUSED;
}

#endif
