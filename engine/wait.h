/*
 * wait.h: steps that only wait: for a while (sleep), for a time (until), for a signal (wait_for).
 *
 * Nothing is sent and nothing needs a key; the end of the wait is durable from the claim on. A
 * signal is a fact of the run: the first of its name stays, and every step that waits for the name
 * takes its data, also one that is claimed later.
 */
#ifndef ENGINE_WAIT_H
#define ENGINE_WAIT_H

#include "engine/decision.h"

/* Claims `side`, a fresh one: it waits, or ends at once (a time that is past, a signal that came
 * early), or is refused because its end cannot be rendered. Precondition: the action waits. */
void wait_claim(struct draft *draft, const struct instance *instance, enum direction direction,
                struct effect_state *side);

/* The wait's time is over. Precondition: the side is waiting. */
void wait_end(struct draft *draft, const struct instance *instance, enum direction direction);

/* EVENT_SIGNAL: keeps the signal and ends the waits for it; or says in out->answer why not. */
void wait_signal(struct draft *draft);

/* A wait_for that ran out of time and says `on_timeout: park`. */
bool wait_is_parked(const struct plan_step *step, const struct effect_state *side);

#endif
