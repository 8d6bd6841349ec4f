#include "engine/forward.h"

#include "engine/attempt.h"
#include "engine/group.h"
#include "engine/items.h"
#include "engine/retry.h"
#include "engine/suspect.h"

static const struct plan_step *plan_step_of(const struct run *run, const struct instance *instance)
{
    return &run->plan->steps[instance->step];
}

bool forward_pivot_passed(const struct run *run)
{
    for (uint16_t i = 0; i < run->instances_count; i++) {
        const struct instance *own = &run->instances[i];
        bool applied = own->group ? own->group->applied > 0 : own->execute.state == STEP_APPLIED;
        if (applied && plan_step_of(run, own)->pivot)
            return true;
    }
    return false;
}

/* Of the items, where the step is a loop that has begun. */
static bool any_stands(const struct instance *own, enum standing standing)
{
    return own->group ? own->group->standings[standing] > 0 : own->standing == standing;
}

const struct instance *forward_pivot_open(const struct run *run)
{
    for (uint16_t i = 0; i < run->instances_count; i++) {
        const struct instance *own = &run->instances[i];
        bool open = any_stands(own, STANDING_MOVING) || any_stands(own, STANDING_STOPPED);
        const struct effect_state *side = &own->execute;
        bool unsent = side_is_held(side) ||
                      (side->state == STEP_WAITING && side->approval == APPROVAL_PENDING);
        if (unsent && !side->attempts)
            continue; /* nothing of it was sent */
        if (open && plan_step_of(run, own)->pivot)
            return own;
    }
    return NULL;
}

static enum park_reason failure_blocks(const struct run *run, const struct plan_step *step)
{
    bool wait_parks =
        step->action.kind == ACTION_WAIT_FOR && step->action.wait_for.on_timeout == ON_TIMEOUT_PARK;
    if (step->on_failure == ON_FAILURE_REPAIR)
        return PARK_REPAIR;
    if (step->on_failure == ON_FAILURE_PARK || wait_parks)
        return PARK_STEP_FAILED;
    return forward_pivot_passed(run) ? PARK_PIVOT_PASSED : PARK_NONE;
}

enum park_reason forward_blocked(const struct run *run, const struct instance *instance)
{
    if (instance->standing == STANDING_STOPPED && instance->execute.approval == APPROVAL_EXPIRED)
        return PARK_APPROVAL_EXPIRED;
    if (instance->standing == STANDING_STOPPED && suspect_is_held(&instance->execute))
        return PARK_SUSPECT;
    if (instance->standing == STANDING_STOPPED)
        return instance->execute.outcome == OUTCOME_CONFLICT ? PARK_KEY_CONFLICT
                                                             : PARK_OUTCOME_UNKNOWN;
    if (instance->standing == STANDING_FAILED)
        return failure_blocks(run, plan_step_of(run, instance));
    return PARK_NONE;
}

/* Whether the step, or an item of it, turns the run back, and whether one holds it up. */
static void step_look(const struct run *run, const struct instance *own, bool *failed,
                      bool *blocked)
{
    bool fails = any_stands(own, STANDING_FAILED);
    bool parks = fails && failure_blocks(run, plan_step_of(run, own)) != PARK_NONE;
    *failed = fails && !parks;
    *blocked = parks || any_stands(own, STANDING_STOPPED);
}

/* The instance because of which the step was looked at: the step itself, or the first such item. */
static const struct instance *step_culprit(const struct instance *own, enum standing standing)
{
    const struct instance *item = own->group ? group_find(own->group, standing) : NULL;
    return item ? item : own;
}

bool forward_wants_back(const struct run *run, struct wall now)
{
    bool failed, blocked;
    for (uint16_t i = 0; i < run->instances_count; i++) {
        step_look(run, &run->instances[i], &failed, &blocked);
        if (failed)
            return true;
    }
    return wall_passed(run->start.deadline_at, now) && !forward_pivot_passed(run);
}

static bool step_ready(const struct run *run, const struct instance *instance)
{
    const struct plan_step *step = plan_step_of(run, instance);
    if (instance->standing != STANDING_PENDING)
        return false;
    for (uint16_t i = 0; i < step->needs_count; i++)
        if (run->instances[step->needs[i]].standing != STANDING_DONE)
            return false;
    /* What is held back waits for everything that could still turn the run back. */
    for (uint16_t i = 0; i < step->held_by_count; i++)
        if (run->instances[step->held_by[i]].standing != STANDING_DONE)
            return false;
    return true;
}

/* A refusal, also one that could not lower an earlier unknown; else retries or their time are over.
 */
static enum run_cause failure_cause(const struct run *run, const struct instance *instance)
{
    const struct effect_state *side = &instance->execute;
    const struct plan_retry *retry = &plan_step_of(run, instance)->action.retry;
    bool had_more = side->state == STEP_UNKNOWN && retry_has_attempts(retry, side) &&
                    wall_is_set(retry_next(retry, side, 0, 0, side->ended_at));
    return side->outcome == OUTCOME_REFUSED || had_more ? CAUSE_STEP_REFUSED : CAUSE_BUDGET;
}

static struct render render_of(const struct draft *draft, const struct instance *instance)
{
    return (struct render){.run = draft->run,
                           .instance = instance,
                           .direction = DIRECTION_EXECUTE,
                           .now = draft->event->now,
                           .env = draft->event->env};
}

static struct str error_make(struct draft *draft, const char *code, const struct err *err)
{
    struct json *error = json_object_new(draft->scratch, 4);
    json_object_add_z(error, "code", json_string_z(draft->scratch, code));
    json_object_add_z(error, "status", &json_null);
    json_object_add_z(error, "message",
                      json_string(draft->scratch, arena_str(draft->scratch, str_z(err->text))));
    json_object_add_z(error, "body", &json_null);
    return json_text(error, draft->scratch);
}

/* Nothing of it is sent: it is skipped, refused, or a loop that begins. */
static struct effect_state side_begin(const struct draft *draft, const struct instance *instance,
                                      enum step_state state)
{
    return (struct effect_state){.generation = (uint16_t)(instance->execute.generation + 1),
                                 .state = state,
                                 .claimed_at = draft->event->now};
}

static void step_refuse(struct draft *draft, struct instance *instance, const char *code,
                        const struct err *err)
{
    struct effect_state side = side_begin(draft, instance, STEP_REFUSED);
    side.outcome = OUTCOME_REFUSED;
    side.ended_at = draft->event->now;
    side.error = error_make(draft, code, err);
    draft_effect(draft, instance, DIRECTION_EXECUTE, &side);
}

/* The items are fixed here and never evaluated again. */
static void loop_start(struct draft *draft, struct instance *own)
{
    struct render render = render_of(draft, own);
    struct effect_state side = side_begin(draft, own, STEP_WAITING);
    const char *why;
    struct err err;
    if (items_evaluate(&render, draft->scratch, &side.items, &why, &err) != 0)
        step_refuse(draft, own, why, &err);
    else
        draft_effect(draft, own, DIRECTION_EXECUTE, &side);
}

/* `if` is read when the step or item would start; one that cannot be read refuses it. */
void forward_start(struct draft *draft, struct instance *instance)
{
    const struct plan_step *step = plan_step_of(draft->run, instance);
    struct render render = render_of(draft, instance);
    struct expr_scope scope;
    struct err err;
    bool wanted = true;
    int code = 0;
    if (instance_is_loop(draft->run, instance)) {
        loop_start(draft, instance);
        return;
    }
    if (step->condition) {
        code = render_scope(&render, draft->scratch, &scope, &err);
        if (!code)
            code = expr_eval_bool(step->condition, &scope, draft->scratch, &wanted, &err);
    }
    if (code) {
        step_refuse(draft, instance, "cannot_evaluate_if", &err);
    } else if (wanted) {
        attempt_claim(draft, instance, DIRECTION_EXECUTE);
    } else {
        struct effect_state side = side_begin(draft, instance, STEP_SKIPPED);
        side.ended_at = draft->event->now;
        draft_effect(draft, instance, DIRECTION_EXECUTE, &side);
    }
}

/* Begins items in their order until enough are in motion or one has failed; ends the loop once all
 * are through. True if anything changed. */
static bool loop_advance(struct draft *draft, struct instance *own)
{
    const struct group *group = own->group;
    uint32_t max_parallel = plan_step_of(draft->run, own)->max_parallel;
    bool changed = false;
    while (group->next < group->count && group->standings[STANDING_MOVING] < max_parallel &&
           !group->standings[STANDING_FAILED] && !group->standings[STANDING_STOPPED] &&
           draft_may_claim(draft)) {
        forward_start(draft, group_instance(draft->run, own, group->next));
        changed = true;
    }
    if (group->standings[STANDING_DONE] == group->count) {
        struct effect_state side = own->execute;
        side.state = STEP_APPLIED;
        side.outcome = OUTCOME_APPLIED;
        side.ended_at = draft->event->now;
        draft_effect(draft, own, DIRECTION_EXECUTE, &side);
        changed = true;
    }
    return changed;
}

/* Done, with all items: of a loop that is applied a person may have sent one again. */
static bool step_is_over(const struct instance *own)
{
    const struct group *group = own->group;
    return own->standing == STANDING_DONE &&
           (!group || own->execute.by_hand || group->standings[STANDING_DONE] == group->count);
}

/* Begins what may begin of a step; true if anything changed. */
static bool step_advance(struct draft *draft, struct instance *own)
{
    if (own->group && own->execute.state == STEP_WAITING)
        return loop_advance(draft, own);
    if (!step_ready(draft->run, own))
        return false;
    forward_start(draft, own);
    return true;
}

struct forward_result forward_advance(struct draft *draft)
{
    struct run *run = draft->run;
    struct forward_result result = {.verdict = FORWARD_GOING};
    const struct instance *failed = NULL, *blocked = NULL;
    bool moving, all_done, claimed;
    ASSERT(run->now.direction == DIRECTION_EXECUTE);

    /* A claim may end at once (skipped, cannot be rendered) and make others ready: look again. */
    do {
        claimed = false;
        moving = wall_is_set(run->cut_at);
        all_done = true;
        failed = blocked = NULL;
        for (uint16_t i = 0; i < run->instances_count; i++) {
            const struct instance *own = &run->instances[i];
            bool fails, blocks;
            if (step_is_over(own))
                continue;
            all_done = false;
            if (own->standing == STANDING_PENDING)
                continue;
            moving |= any_stands(own, STANDING_MOVING);
            step_look(run, own, &fails, &blocks);
            if (blocks && !blocked)
                blocked = own;
            if (fails && !failed)
                failed = own;
        }
        bool overdue = wall_passed(run->start.deadline_at, draft->event->now) &&
                       !forward_pivot_passed(run) && !all_done;

        /* 1. While the pivot's outcome is open the run goes in neither direction. */
        if ((failed || overdue || blocked) && forward_pivot_open(run)) {
            if (moving)
                return result;
            break;
        }
        /* 2. A step that failed for good, or the deadline, turns the run back. The pivot has not
         *    been passed, or the failure would have blocked instead. */
        if (failed || overdue) {
            result.verdict = FORWARD_TURN;
            result.step = failed ? step_culprit(failed, STANDING_FAILED) : NULL;
            result.cause = failed ? failure_cause(run, result.step) : CAUSE_DEADLINE;
            return result;
        }
        /* 3. A run that waits for a person starts nothing new. */
        if (blocked || run->now.paused || draft->event->hold)
            break;
        /* 4. Everything whose needs are done is claimed. */
        for (uint16_t i = 0; i < run->instances_count; i++)
            claimed |= step_advance(draft, &run->instances[i]);
    } while (claimed);

    /* 5. All done: complete. */
    if (all_done && !moving) {
        result.verdict = FORWARD_DONE;
        return result;
    }
    /* 6. Nothing moves and something is in the way: a person is needed. */
    if (blocked && !moving) {
        result.verdict = FORWARD_PARK;
        result.step = step_culprit(
            blocked, any_stands(blocked, STANDING_STOPPED) ? STANDING_STOPPED : STANDING_FAILED);
        result.reason = forward_blocked(run, result.step);
    }
    return result;
}
