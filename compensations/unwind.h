/*
 * unwind.h: the walk backward: what of a run must be undone, in which order, and when it is over.
 *
 * compensations/README.md states the guarantee in prose.
 */
#ifndef COMPENSATIONS_UNWIND_H
#define COMPENSATIONS_UNWIND_H

#include "compensations/undo.h"
#include "engine/decision.h"

/* Pure function of the run's state. Precondition: the run goes backward, or is asked about as if
 * it did. */
struct undo unwind_status(const struct run *run, const struct instance *instance);

/* Nothing is left to undo of it. */
bool unwind_is_over(const struct run *run, const struct instance *instance);

/* Something of the run is left to undo, or in the way. */
bool unwind_is_open(const struct run *run);

enum unwind_verdict {
    UNWIND_NONE,
    UNWIND_GOING,
    UNWIND_PARK, /* nothing moves and something is in the way */
    UNWIND_DONE, /* compensated; the records were written */
};

struct unwind_result {
    enum unwind_verdict verdict;
    enum park_reason reason;
    const struct instance *step;
};

/* Ends what must not go on once the run has turned: waits are withdrawn, repeats given up, except
 * those that find out about an unknown outcome. */
void unwind_begin(struct draft *draft);

/* Applies the rules until nothing more can be done. Precondition: the run goes backward. */
struct unwind_result unwind_advance(struct draft *draft);

/* What is left: a JSON list of {step, key, state, why, reason}, absent if nothing is. */
struct str unwind_residue(const struct run *run, struct arena *arena);
/* The same for a run that completed: only best-effort steps whose outcome is unknown. */
struct str unwind_unknowns(const struct run *run, struct arena *arena);

#endif
