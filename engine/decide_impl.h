/*
 * decide_impl.h: what decide.c (events) and verbs.c share; nobody else includes it.
 */
#ifndef ENGINE_DECIDE_IMPL_H
#define ENGINE_DECIDE_IMPL_H

#include "compensations/unwind.h"
#include "engine/decide.h"

const struct plan_step *decide_step(const struct draft *draft, const struct instance *instance);
/* "charge", "send.3"; "" for NULL. */
struct str decide_instance_name(const struct draft *draft, const struct instance *instance);

/* running or compensating */
bool decide_is_active(const struct run *run);
/* Everything that follows from the state as it is, in the run's direction. */
void decide_advance(struct draft *draft);
void decide_backward(struct draft *draft);
/* One transaction raises the turn and sets the direction; from here nothing is claimed forward. */
void decide_turn(struct draft *draft, enum run_cause cause, const struct instance *step);
/* When the way back that begins now must be over. */
struct wall decide_compensate_until(const struct draft *draft);
void decide_park(struct draft *draft, enum park_reason reason, const struct instance *step);
/* The run leaves `parked` in the direction in which it stopped. */
void decide_unpark(struct draft *draft);
void decide_due(struct draft *draft);
void decide_recover_sides(struct draft *draft);
/* A crash loop, a quarantine and a late success park a run with claims whose answers nobody waits
 * for. Whatever makes such a run move again finds out about them first. */
void decide_recover_lost(struct draft *draft, enum park_reason reason);
/* A side has ended, perhaps after its run. What counted as not applied and was applied after all
 * is undone like everything else. */
void decide_ended(struct draft *draft);

/* verbs.c: an event from EVENT_CANCEL on. */
void verb_decide(struct draft *draft);

#endif
