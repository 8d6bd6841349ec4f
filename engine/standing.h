/*
 * standing.h: where an action stands, as the walk forward sees it.
 */
#ifndef ENGINE_STANDING_H
#define ENGINE_STANDING_H

#include "engine/run.h"

enum standing {
    STANDING_NONE,    /* withdrawn: the run has turned back */
    STANDING_PENDING, /* not begun */
    STANDING_MOVING,  /* something will still happen by itself */
    STANDING_DONE,    /* what needs it may begin */
    STANDING_FAILED,  /* ended for good, other than well: the run turns back, or parks */
    STANDING_STOPPED, /* a person must say what became of it */
    STANDING_COUNT
};

/* Of the execute side of an instance of this step. */
enum standing standing_of(const struct plan_step *step, const struct effect_state *side);

#endif
