#include "compensations/undo.h"

#include "engine/suspect.h"
#include "engine/unknown.h"

static struct undo undo(enum undo_status status)
{
    return (struct undo){.status = status};
}

static struct undo undo_blocked(enum park_reason reason)
{
    return (struct undo){.status = UNDO_BLOCKED, .reason = reason};
}

/* The compensation has been claimed at least once. */
static struct undo compensation_status(const struct effect_state *side)
{
    switch (side->state) {
    case STEP_CLAIMED:
    case STEP_RETRYING:
    case STEP_WAITING: return undo(UNDO_MOVING);
    case STEP_APPLIED: return undo(side->by_hand ? UNDO_BY_HAND : UNDO_UNDONE);
    case STEP_SKIPPED: return undo(UNDO_BY_HAND);
    case STEP_UNKNOWN:
        if (unknown_is_asked(side))
            return undo(UNDO_MOVING);
        if (suspect_is_held(side))
            return undo_blocked(PARK_SUSPECT);
        return undo_blocked(side->outcome == OUTCOME_CONFLICT ? PARK_KEY_CONFLICT
                                                              : PARK_COMPENSATION_FAILED);
    case STEP_REFUSED: return undo_blocked(PARK_COMPENSATION_FAILED);
    case STEP_NONE:
    case STEP_PENDING:
    case STEP_WITHDRAWN: break;
    }
    ASSERT(!"a claimed compensation");
    return undo(UNDO_NONE);
}

/* Not undone because the workflow says so: `none: "reason"`, `pivot: false`, or an irreversible
 * step whose failure does not count. */
static bool undo_is_declared_away(const struct plan_step *step)
{
    if (step->compensate.kind != ACTION_NONE)
        return false;
    return step->compensate_none || !step->pivot;
}

static struct undo applied_status(const struct plan_step *step)
{
    if (step->action.effect == EFFECT_PURE && step->compensate.kind == ACTION_NONE)
        return undo(UNDO_NOTHING);
    if (step->compensate.kind != ACTION_NONE)
        return undo(UNDO_DUE);
    return undo_is_declared_away(step) ? undo(UNDO_DECLARED) : undo_blocked(PARK_PIVOT_PASSED);
}

/* Whether repeating the action under its key is allowed now and has not been tried on the way
 * back already. A budget that was opened anew tells it also where no attempt has cost any. */
static bool may_ask(const struct plan_step *step, const struct effect_state *side)
{
    struct wall first_budget = wall_add(side->claimed_at, step->action.retry.budget_us);
    return side->attempts > 0 && side->attempts_base == 0 &&
           side->budget_at.us == first_budget.us &&
           unknown_way(&step->action, side, side->ended_at) == UNKNOWN_REPEAT;
}

static struct undo unknown_status(const struct plan_step *step, const struct effect_state *side)
{
    if (step->action.effect == EFFECT_PURE && step->compensate.kind == ACTION_NONE)
        return undo(UNDO_NOTHING);
    if (undo_is_declared_away(step))
        return undo(UNDO_DECLARED);
    if (side->outcome == OUTCOME_CONFLICT)
        return undo_blocked(PARK_KEY_CONFLICT);
    if (unknown_may_ask(&step->action, side))
        return undo(UNDO_ASK);
    if (step->compensate.kind != ACTION_NONE && step->compensate.tolerant)
        return undo(UNDO_DUE);
    if (may_ask(step, side))
        return undo(UNDO_ASK);
    return undo_blocked(suspect_is_held(side) ? PARK_SUSPECT : PARK_OUTCOME_UNKNOWN);
}

struct undo undo_of(const struct plan_step *step, const struct instance *instance)
{
    const struct effect_state *side = &instance->execute;
    if (step->for_each && !instance->item.len)
        return undo(side->by_hand ? UNDO_BY_HAND : UNDO_NOTHING);
    switch (side->state) {
    case STEP_PENDING:
    case STEP_WITHDRAWN: return undo(UNDO_NOTHING);
    case STEP_REFUSED: return undo(side->by_hand ? UNDO_BY_HAND : UNDO_NOTHING);
    case STEP_CLAIMED:
    case STEP_RETRYING:
    case STEP_WAITING: return undo(UNDO_MOVING);
    case STEP_SKIPPED: return undo(side->by_hand ? UNDO_BY_HAND : UNDO_NOTHING);
    case STEP_APPLIED:
        return instance->compensate.state != STEP_PENDING
                   ? compensation_status(&instance->compensate)
                   : applied_status(step);
    case STEP_UNKNOWN:
        if (unknown_is_asked(side))
            return undo(UNDO_MOVING);
        return instance->compensate.state != STEP_PENDING
                   ? compensation_status(&instance->compensate)
                   : unknown_status(step, side);
    case STEP_NONE: break;
    }
    ASSERT(!"a step state");
    return undo(UNDO_NONE);
}
