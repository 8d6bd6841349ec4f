#include "compensations/unwind.h"

#include "engine/attempt.h"

static const struct plan_step *plan_step_of(const struct run *run, const struct instance *instance)
{
    return &run->plan->steps[instance->step];
}

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
           attempt_may_repeat(&step->action, side, side->ended_at);
}

static struct undo unknown_status(const struct plan_step *step, const struct effect_state *side)
{
    if (step->action.effect == EFFECT_PURE && step->compensate.kind == ACTION_NONE)
        return undo(UNDO_NOTHING);
    if (undo_is_declared_away(step))
        return undo(UNDO_DECLARED);
    if (side->outcome == OUTCOME_CONFLICT)
        return undo_blocked(PARK_KEY_CONFLICT);
    if (step->compensate.kind != ACTION_NONE && step->compensate.tolerant)
        return undo(UNDO_DUE);
    return may_ask(step, side) ? undo(UNDO_ASK) : undo_blocked(PARK_OUTCOME_UNKNOWN);
}

struct undo unwind_status(const struct run *run, const struct instance *instance)
{
    const struct plan_step *step = plan_step_of(run, instance);
    const struct effect_state *side = &instance->execute;
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
        return instance->compensate.state != STEP_PENDING
                   ? compensation_status(&instance->compensate)
                   : unknown_status(step, side);
    case STEP_NONE: break;
    }
    ASSERT(!"a step state");
    return undo(UNDO_NONE);
}

void unwind_begin(struct draft *draft)
{
    struct run *run = draft->run;
    for (uint16_t i = 0; i < run->instances_count; i++) {
        struct instance *instance = &run->instances[i];
        const struct plan_step *step = plan_step_of(run, instance);
        if (instance->execute.state == STEP_WAITING) {
            struct effect_state side = instance->execute;
            side.state = STEP_WITHDRAWN;
            side.next_at = WALL_NONE;
            side.ended_at = draft->event->now;
            draft_effect(draft, instance, DIRECTION_EXECUTE, &side);
        } else if (instance->execute.state == STEP_RETRYING &&
                   (!instance->execute.maybe_applied || step->compensate.tolerant)) {
            attempt_give_up(draft, instance, DIRECTION_EXECUTE);
        } else {
            attempt_recall(draft, instance); /* a child that runs is told */
        }
    }
}

static bool is_over(enum undo_status status)
{
    return status >= UNDO_NOTHING;
}

bool unwind_is_over(const struct run *run, const struct instance *instance)
{
    return is_over(unwind_status(run, instance).status);
}

/* Does what is due for one instance; true if its state changed. */
static bool instance_advance(struct draft *draft, struct instance *instance,
                             enum undo_status status)
{
    const struct plan_step *step = plan_step_of(draft->run, instance);
    if (status == UNDO_DUE) {
        attempt_claim(draft, instance, DIRECTION_COMPENSATE);
        return true;
    }
    if (status == UNDO_ASK) {
        attempt_reopen(draft, instance, DIRECTION_EXECUTE, &step->compensate.retry);
        attempt_repeat(draft, instance, DIRECTION_EXECUTE);
        return true;
    }
    return false;
}

static void run_end(struct draft *draft)
{
    struct record_run now = draft->run->now;
    now.state = RUN_COMPENSATED;
    now.reason = PARK_NONE;
    now.ended_at = draft->event->now;
    now.residue = unwind_residue(draft->run, draft->scratch);
    draft_run(draft, &now);
}

struct unwind_result unwind_advance(struct draft *draft)
{
    struct run *run = draft->run;
    struct unwind_result result = {.verdict = UNWIND_GOING};
    const struct instance *blocked = NULL;
    bool moving = false, open = false;
    bool still = run->now.paused || draft->event->hold;
    /* settled[i]: instance i and everything that needed it, directly or not, is over. */
    bool *settled = arena_array(draft->scratch, bool, run->instances_count);
    ASSERT(run->now.direction == DIRECTION_COMPENSATE);

    /* File order is a topological order of `needs`, so walking it backward meets every step after
     * all steps that needed it. */
    for (uint16_t i = run->instances_count; i-- > 0;) {
        struct instance *instance = &run->instances[i];
        const struct plan_step *step = plan_step_of(run, instance);
        /* 1. Nothing is undone before everything that was built on it is over. */
        bool free = true;
        for (uint16_t n = 0; n < step->needed_by_count; n++)
            free &= settled[step->needed_by[n]];
        /* 2. What is due is claimed; what is unknown is found out where that is allowed, at once,
         *    because the answer may take long. */
        struct undo undo = unwind_status(run, instance);
        if (!still && (undo.status == UNDO_ASK || (free && undo.status == UNDO_DUE)) &&
            instance_advance(draft, instance, undo.status))
            undo = unwind_status(run, instance);
        settled[i] = free && is_over(undo.status);
        moving |= undo.status == UNDO_MOVING;
        open |= !is_over(undo.status);
        if (undo.status == UNDO_BLOCKED && (!blocked || free)) {
            blocked = instance;
            result.reason = undo.reason;
        }
    }
    /* 3. Everything over: compensated. */
    if (!open) {
        run_end(draft);
        result.verdict = UNWIND_DONE;
    } else if (blocked && !moving && !still) {
        /* 4. Nothing moves and something is in the way: a person is needed. */
        result.verdict = UNWIND_PARK;
        result.step = blocked;
    }
    return result;
}
