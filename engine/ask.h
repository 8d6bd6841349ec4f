/*
 * ask.h: finding out about an unknown outcome by asking the participant (`reconcile`).
 *
 * The side is STEP_UNKNOWN with a next_at while it is asked; each read and what it told is a
 * finding, stored before the next one. Nothing is inferred: a read that fails, or whose answer
 * proves nothing, is asked again with growing distance until `ask_until`; then a person is needed.
 * The reads have no effect, so a crash between two of them only means that one is repeated.
 */
#ifndef ENGINE_ASK_H
#define ENGINE_ASK_H

#include "engine/decision.h"

/* Makes `side` one that is asked from now on, for at most the action's `for`, but not before the
 * participant must have settled. `after_us`: until the first read. The caller writes the side.
 * Precondition: the action has a `reconcile`. */
void ask_begin(const struct draft *draft, const struct plan_action *action,
               struct effect_state *side, int64_t after_us);

/* The same for a side that ended unknown: a person retries it, or the way back needs to know. */
void ask_again(struct draft *draft, struct instance *instance, enum direction direction);

/* The next read is due: it is commanded, or the time for asking is over and the side ends unknown.
 * Precondition: unknown_is_asked. */
void ask_send(struct draft *draft, struct instance *instance, enum direction direction);

/* No more reads: the side ends unknown. Precondition: unknown_is_asked. */
void ask_give_up(struct draft *draft, struct instance *instance, enum direction direction);

/* The engine stopped while it waited for an answer: the next read is due at once. */
void ask_hasten(struct draft *draft, struct instance *instance, enum direction direction);

/* What the read told. Ends the side as applied or refused, has what is proven not applied repeated
 * like any retryable attempt, or sets the time of the next read. A reply to a read that is not the
 * newest is passed over. */
void ask_reply(struct draft *draft, struct instance *instance, enum direction direction,
               uint32_t number, const struct reply *reply);

/* What the reply to a read proves; `scope` is that of render_ask and gets the response. Unreadable,
 * or none of the expressions true: OUTCOME_UNKNOWN, and `detail` says why. Whether it was too early
 * to ask is not looked at. */
enum outcome ask_judge(const struct plan_reconcile *reconcile, const struct reply *reply,
                       struct expr_scope *scope, struct arena *arena, struct str *detail);

/* Appends a finding to `side`, whose counter and newest word change. */
void finding_add(struct draft *draft, const struct instance *instance, enum direction direction,
                 struct effect_state *side, struct record_finding *finding);

#endif
