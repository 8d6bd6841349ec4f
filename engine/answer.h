/*
 * answer.h: what a participant says of a key by itself: a callback, a worker that comes late.
 *
 * It is evidence, stored as a finding whatever becomes of it. Where the outcome is open it ends the
 * side; a success of what counted as not applied makes it applied, so that the way back finds it.
 */
#ifndef ENGINE_ANSWER_H
#define ENGINE_ANSWER_H

#include "engine/decision.h"

struct answer {
    bool applied;      /* else refused, for good */
    uint32_t attempt;  /* a refusal is of this one only: evidence. 0: of the key */
    struct str output; /* JSON text of the output, or of the refusal's body; absent: none */
    struct str text;   /* one line, or "" */
    struct str actor;  /* who brought it, or "" */
};

/* True if the side changed: the run goes on, or back, from there. Precondition: the answer is about
 * the side's current generation, and that was sent. */
bool answer_take(struct draft *draft, struct instance *instance, enum direction direction,
                 const struct answer *answer);

#endif
