#include "engine/standing.h"

#include "engine/attempt.h"
#include "engine/wait.h"

/* An unknown outcome fails the step only where repeating was allowed and did not help; elsewhere,
 * and at a pivot always, a person is needed. */
static bool unknown_is_failure(const struct plan_step *step, const struct effect_state *side)
{
    return !step->pivot && attempt_may_repeat(&step->action, side, side->ended_at);
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
    case STEP_REFUSED: return continues ? STANDING_DONE : STANDING_FAILED;
    case STEP_UNKNOWN:
        if (side->outcome == OUTCOME_CONFLICT)
            return STANDING_STOPPED;
        if (continues)
            return STANDING_DONE;
        return unknown_is_failure(step, side) ? STANDING_FAILED : STANDING_STOPPED;
    case STEP_WITHDRAWN: return STANDING_NONE;
    case STEP_NONE: break;
    }
    ASSERT(!"a step state");
    return STANDING_NONE;
}
