#include "engine/standing.h"

#include "engine/approval.h"
#include "engine/unknown.h"
#include "engine/wait.h"

/* Where repeating was allowed and did not help, the step has failed; elsewhere, and at a pivot
 * always, a person is needed. */
static enum standing unknown_standing(const struct plan_step *step, const struct effect_state *side)
{
    if (side->outcome == OUTCOME_CONFLICT)
        return STANDING_STOPPED;
    if (step->on_failure == ON_FAILURE_CONTINUE)
        return STANDING_DONE;
    switch (unknown_way(&step->action, side, side->ended_at)) {
    case UNKNOWN_REPEAT:
    case UNKNOWN_FAIL: return step->pivot ? STANDING_STOPPED : STANDING_FAILED;
    case UNKNOWN_GO_ON: return STANDING_DONE;
    case UNKNOWN_ASK:
    case UNKNOWN_PARK: return STANDING_STOPPED;
    case UNKNOWN_NONE: break;
    }
    ASSERT(!"a way");
    return STANDING_NONE;
}

enum standing standing_of(const struct plan_step *step, const struct effect_state *side)
{
    bool continues = step->on_failure == ON_FAILURE_CONTINUE && !wait_is_parked(step, side);
    switch (side->state) {
    case STEP_PENDING: return STANDING_PENDING;
    case STEP_CLAIMED:
    case STEP_RETRYING:
    case STEP_WAITING: return STANDING_MOVING;
    case STEP_APPLIED:
    case STEP_SKIPPED: return STANDING_DONE;
    case STEP_REFUSED:
        if (approval_is_parked(step, side))
            return STANDING_STOPPED;
        return continues ? STANDING_DONE : STANDING_FAILED;
    case STEP_UNKNOWN:
        return unknown_is_asked(side) ? STANDING_MOVING : unknown_standing(step, side);
    case STEP_WITHDRAWN: return STANDING_NONE;
    case STEP_NONE: break;
    }
    ASSERT(!"a step state");
    return STANDING_NONE;
}
