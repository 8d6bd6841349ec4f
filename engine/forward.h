/*
 * forward.h: the walk forward: what to claim next, when to turn back, when the run is complete.
 */
#ifndef ENGINE_FORWARD_H
#define ENGINE_FORWARD_H

#include "engine/decision.h"

enum forward_verdict {
    FORWARD_NONE,
    FORWARD_GOING, /* something is in motion or was claimed */
    FORWARD_TURN,  /* the run must turn back: `cause` and `step` say why */
    FORWARD_PARK,  /* nothing moves and a person is needed: `reason` and `step` say why */
    FORWARD_DONE,  /* every step is done: the run is complete */
};

struct forward_result {
    enum forward_verdict verdict;
    enum run_cause cause;
    enum park_reason reason;
    const struct instance *step; /* NULL: the run as a whole (deadline) */
};

/* Applies the rules until nothing more can be done. Precondition: the run goes forward. */
struct forward_result forward_advance(struct draft *draft);

/* Reads the step's `if` and claims, skips or refuses it. Precondition: it is pending, or was
 * refused before it was claimed. */
void forward_start(struct draft *draft, struct instance *instance);

/* The pivot has been applied: failures park, there is no way back. */
bool forward_pivot_passed(const struct run *run);
/* The pivot was sent and its outcome is not known yet: neither direction until it is. NULL: no. */
const struct instance *forward_pivot_open(const struct run *run);

/* A step has failed for good or the deadline is over: once the pivot allows it, the run turns back.
 */
bool forward_wants_back(const struct run *run, struct wall now);

/* Why this step stops a forward run for a person, PARK_NONE if it does not. */
enum park_reason forward_blocked(const struct run *run, const struct instance *instance);

#endif
