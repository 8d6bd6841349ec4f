#include "compensations/unwind.h"

#include "engine/ask.h"
#include "engine/attempt.h"
#include "engine/group.h"
#include "engine/unknown.h"

static const struct plan_step *plan_step_of(const struct run *run, const struct instance *instance)
{
    return &run->plan->steps[instance->step];
}

struct undo unwind_status(const struct run *run, const struct instance *instance)
{
    return undo_of(plan_step_of(run, instance), instance);
}

bool unwind_is_over(const struct run *run, const struct instance *instance)
{
    return undo_is_over(unwind_status(run, instance).status);
}

bool unwind_is_open(const struct run *run)
{
    for (const struct instance *at = run_instance_next(run, NULL); at;
         at = run_instance_next(run, at))
        if (!unwind_is_over(run, at))
            return true;
    return false;
}

static void wait_withdraw(struct draft *draft, const struct instance *instance)
{
    struct effect_state side = instance->execute;
    side.state = side.maybe_applied ? STEP_UNKNOWN : STEP_WITHDRAWN;
    side.next_at = WALL_NONE;
    side.ended_at = draft->event->now;
    draft_effect(draft, instance, DIRECTION_EXECUTE, &side);
}

/* Claimed by the decision that turned the run: nothing was sent, and nothing will be. */
static void claim_withdraw(struct draft *draft, const struct instance *instance)
{
    struct effect_state side = instance->execute;
    side.state = STEP_WITHDRAWN;
    side.attempts = 0;
    side.ended_at = draft->event->now;
    draft_effect(draft, instance, DIRECTION_EXECUTE, &side);
}

/* A loop begins no more items. It has failed by the first of them that did, else it is withdrawn.
 */
static void loop_end(struct draft *draft, const struct instance *own)
{
    const struct instance *failed = group_find(own->group, STANDING_FAILED);
    if (!failed) {
        wait_withdraw(draft, own);
        return;
    }
    struct effect_state side = own->execute;
    side.state = STEP_REFUSED;
    side.outcome = OUTCOME_REFUSED;
    side.error = failed->execute.error;
    side.ended_at = draft->event->now;
    draft_effect(draft, own, DIRECTION_EXECUTE, &side);
}

/* The participant could not tell on the way forward. */
static bool asked_in_vain(const struct plan_step *step, const struct effect_state *side)
{
    return step->action.reconcile && side->state == STEP_UNKNOWN && !unknown_is_asked(side) &&
           wall_is_set(side->ask_until);
}

/* It is asked once more on the way back. */
static void question_reopen(struct draft *draft, const struct instance *instance)
{
    struct effect_state side = instance->execute;
    side.ask_until = WALL_NONE;
    draft_effect(draft, instance, DIRECTION_EXECUTE, &side);
}

void unwind_begin(struct draft *draft)
{
    struct run *run = draft->run;
    for (struct instance *instance = run_instance_next(run, NULL); instance;
         instance = run_instance_next(run, instance)) {
        const struct plan_step *step = plan_step_of(run, instance);
        bool ask = instance->execute.maybe_applied && !step->compensate.tolerant;
        if (instance->group && instance->execute.state == STEP_WAITING)
            loop_end(draft, instance);
        else if (instance->execute.state == STEP_WAITING && !ask)
            wait_withdraw(draft, instance);
        else if (instance->execute.state == STEP_CLAIMED &&
                 draft_unclaim(draft, instance, DIRECTION_EXECUTE))
            claim_withdraw(draft, instance);
        else if (instance->execute.state == STEP_RETRYING && !ask)
            attempt_give_up(draft, instance, DIRECTION_EXECUTE);
        else if (asked_in_vain(step, &instance->execute))
            question_reopen(draft, instance);
        else
            attempt_recall(draft, instance); /* a child that runs is told */
    }
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
    if (status == UNDO_ASK && unknown_may_ask(&step->action, &instance->execute)) {
        ask_again(draft, instance, DIRECTION_EXECUTE);
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

/* What a step on the way back comes to. */
struct retreat {
    bool over;    /* nothing of it is left to undo */
    bool moving;  /* something will still happen by itself */
    bool blocked; /* a person is needed */
};

/* What is due is claimed; what is unknown is found out where that is allowed, at once, because the
 * answer may take long. */
static struct retreat step_retreat(struct draft *draft, struct instance *instance, bool free,
                                   bool still)
{
    struct undo undo = unwind_status(draft->run, instance);
    if (!still && (undo.status == UNDO_ASK || (free && undo.status == UNDO_DUE)) &&
        instance_advance(draft, instance, undo.status))
        undo = unwind_status(draft->run, instance);
    return (struct retreat){.over = undo_is_over(undo.status),
                            .moving = undo.status == UNDO_MOVING,
                            .blocked = undo.status == UNDO_BLOCKED};
}

/* Items of a loop are undone like a sequence that is max_parallel wide: newest claim first, none
 * before what was in flight has ended, none past one that a person is needed for. */
static bool item_may_be_undone(const struct group *group, uint32_t max_parallel)
{
    return !group->standings[STANDING_MOVING] && !group->undos[UNDO_BLOCKED] &&
           group->undos[UNDO_MOVING] < max_parallel;
}

static struct retreat loop_retreat(struct draft *draft, struct instance *own, bool free, bool still)
{
    struct run *run = draft->run;
    struct group *group = own->group;
    uint32_t max_parallel = plan_step_of(run, own)->max_parallel;
    struct instance *item;
    while (!still && group->undos[UNDO_MOVING] < max_parallel &&
           (item = group_next_undo(run, group, UNDO_ASK)) && draft_may_claim(draft))
        instance_advance(draft, item, UNDO_ASK);
    while (!still && free && item_may_be_undone(group, max_parallel) &&
           (item = group_next_undo(run, group, UNDO_DUE)) && draft_may_claim(draft))
        instance_advance(draft, item, UNDO_DUE);
    return (struct retreat){.over = group_is_over(group) && unwind_is_over(run, own),
                            .moving = group->undos[UNDO_MOVING] > 0 || wall_is_set(run->cut_at),
                            .blocked = group->undos[UNDO_BLOCKED] > 0};
}

/* The step, or the first item of it in item order, that a person is needed for. */
static const struct instance *blocked_instance(const struct run *run, const struct instance *own)
{
    for (const struct instance *at = own; at && at->step == own->step;
         at = run_instance_next(run, at))
        if (unwind_status(run, at).status == UNDO_BLOCKED)
            return at;
    return own;
}

/* The time of the way back is over: nothing is sent again, nothing is asked any more. */
static void budget_end(struct draft *draft)
{
    for (struct instance *at = run_instance_next(draft->run, NULL); at;
         at = run_instance_next(draft->run, at))
        for (int direction = DIRECTION_EXECUTE; direction <= DIRECTION_COMPENSATE; direction++) {
            const struct effect_state *side = instance_side(at, direction);
            if (side->state == STEP_RETRYING || side_is_held(side))
                attempt_give_up(draft, at, direction);
            else if (unknown_is_asked(side))
                ask_give_up(draft, at, direction);
        }
}

struct unwind_result unwind_advance(struct draft *draft)
{
    struct run *run = draft->run;
    struct unwind_result result = {.verdict = UNWIND_GOING};
    const struct instance *blocked = NULL;
    bool moving = false, open = false;
    bool rests = run->now.paused || draft->event->hold;
    bool over = wall_passed(run->now.compensate_until, draft->event->now);
    bool still = rests || over;
    if (over) {
        run->budget_told = run->now.compensate_until;
        budget_end(draft);
    }
    /* settled[i]: instance i and everything that needed it, directly or not, is over. */
    bool *settled = arena_array(draft->scratch, bool, run->instances_count);
    ASSERT(run->now.direction == DIRECTION_COMPENSATE);

    /* File order is a topological order of `needs`, so walking it backward meets every step after
     * all steps that needed it. */
    for (uint16_t i = run->instances_count; i-- > 0;) {
        struct instance *own = &run->instances[i];
        const struct plan_step *step = plan_step_of(run, own);
        /* 1. Nothing is undone before everything that was built on it is over. */
        bool free = true;
        for (uint16_t n = 0; n < step->needed_by_count; n++)
            free &= settled[step->needed_by[n]];
        /* 2. What may be done about the step, or the items of a loop, is done. */
        struct retreat retreat = own->group ? loop_retreat(draft, own, free, still)
                                            : step_retreat(draft, own, free, still);
        settled[i] = free && retreat.over;
        moving |= retreat.moving;
        open |= !retreat.over;
        if (retreat.blocked && (!blocked || free))
            blocked = own;
    }
    /* 3. Everything over: compensated. */
    if (!open) {
        run_end(draft);
        result.verdict = UNWIND_DONE;
    } else if ((blocked || over) && !moving && !rests) {
        /* 4. Nothing moves, and something is in the way or the time is over: a person is needed. */
        result.verdict = UNWIND_PARK;
        result.step = blocked ? blocked_instance(run, blocked) : NULL;
        result.reason = over ? PARK_COMPENSATION_BUDGET : unwind_status(run, result.step).reason;
    }
    return result;
}
