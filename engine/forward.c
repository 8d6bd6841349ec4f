#include "engine/forward.h"

#include "engine/attempt.h"
#include "engine/retry.h"
#include "engine/wait.h"

static const struct plan_step *plan_step_of(const struct run *run, const struct instance *instance)
{
    return &run->plan->steps[instance->step];
}

bool forward_pivot_passed(const struct run *run)
{
    for (uint16_t i = 0; i < run->instances_count; i++)
        if (plan_step_of(run, &run->instances[i])->pivot &&
            run->instances[i].execute.state == STEP_APPLIED)
            return true;
    return false;
}

const struct instance *forward_pivot_open(const struct run *run)
{
    for (uint16_t i = 0; i < run->instances_count; i++) {
        const struct instance *instance = &run->instances[i];
        bool open =
            attempt_in_motion(&instance->execute) || instance->execute.state == STEP_UNKNOWN;
        if (plan_step_of(run, instance)->pivot && open)
            return instance;
    }
    return NULL;
}

/* What the step's failure leads to. A wait that says `on_timeout: park` says it for itself. */
static enum on_failure failure_leads_to(const struct plan_step *step,
                                        const struct effect_state *side)
{
    return wait_is_parked(step, side) ? ON_FAILURE_PARK : step->on_failure;
}

/* A step that ended other than well, and whether it ended because repeats ran out. */
static bool step_failed(const struct run *run, const struct instance *instance)
{
    const struct effect_state *side = &instance->execute;
    const struct plan_step *step = plan_step_of(run, instance);
    if (failure_leads_to(step, side) == ON_FAILURE_CONTINUE)
        return false;
    if (side->state == STEP_REFUSED)
        return true;
    /* An unknown outcome fails the step only where repeating was allowed and did not help;
     * elsewhere, and at a pivot always, it stops the run (forward_blocked). */
    return side->state == STEP_UNKNOWN && !step->pivot && side->outcome != OUTCOME_CONFLICT &&
           attempt_may_repeat(&step->action, side, side->ended_at);
}

enum park_reason forward_blocked(const struct run *run, const struct instance *instance)
{
    const struct effect_state *side = &instance->execute;
    const struct plan_step *step = plan_step_of(run, instance);
    bool continues = step->on_failure == ON_FAILURE_CONTINUE;
    if (side->state == STEP_UNKNOWN && side->outcome == OUTCOME_CONFLICT)
        return PARK_KEY_CONFLICT;
    if (side->state == STEP_UNKNOWN && !continues && !step_failed(run, instance))
        return PARK_OUTCOME_UNKNOWN;
    if (!step_failed(run, instance))
        return PARK_NONE;
    if (failure_leads_to(step, side) == ON_FAILURE_PARK)
        return PARK_STEP_FAILED;
    return forward_pivot_passed(run) ? PARK_PIVOT_PASSED : PARK_NONE;
}

static bool step_done(const struct run *run, const struct instance *instance)
{
    const struct effect_state *side = &instance->execute;
    if (side->state == STEP_APPLIED || side->state == STEP_SKIPPED)
        return true;
    bool ended = side->state == STEP_REFUSED || side->state == STEP_UNKNOWN;
    return ended && side->outcome != OUTCOME_CONFLICT &&
           failure_leads_to(plan_step_of(run, instance), side) == ON_FAILURE_CONTINUE;
}

bool forward_wants_back(const struct run *run, struct wall now)
{
    for (uint16_t i = 0; i < run->instances_count; i++)
        if (step_failed(run, &run->instances[i]) &&
            forward_blocked(run, &run->instances[i]) == PARK_NONE)
            return true;
    return wall_passed(run->start.deadline_at, now) && !forward_pivot_passed(run);
}

static bool step_ready(const struct run *run, const struct instance *instance)
{
    const struct plan_step *step = plan_step_of(run, instance);
    if (instance->execute.state != STEP_PENDING)
        return false;
    for (uint16_t i = 0; i < step->needs_count; i++)
        if (!step_done(run, run_instance(run, step->needs[i], STR(""))))
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

/* `if` is read when the step would start; one that cannot be read refuses the step. */
void forward_start(struct draft *draft, struct instance *instance)
{
    const struct plan_step *step = plan_step_of(draft->run, instance);
    struct render render = {.run = draft->run,
                            .instance = instance,
                            .direction = DIRECTION_EXECUTE,
                            .now = draft->event->now,
                            .env = draft->event->env};
    struct expr_scope scope;
    struct err err;
    bool wanted = true;
    int code = 0;
    if (step->condition) {
        code = render_scope(&render, draft->scratch, &scope, &err);
        if (!code)
            code = expr_eval_bool(step->condition, &scope, draft->scratch, &wanted, &err);
    }
    if (!code && wanted) {
        attempt_claim(draft, instance, DIRECTION_EXECUTE);
        return;
    }
    struct effect_state side = {.generation = (uint16_t)(instance->execute.generation + 1),
                                .state = code ? STEP_REFUSED : STEP_SKIPPED,
                                .outcome = code ? OUTCOME_REFUSED : OUTCOME_NONE,
                                .claimed_at = draft->event->now,
                                .ended_at = draft->event->now};
    if (code) {
        struct json *error = json_object_new(draft->scratch, 4);
        json_object_add_z(error, "code", json_string_z(draft->scratch, "cannot_evaluate_if"));
        json_object_add_z(error, "status", &json_null);
        json_object_add_z(error, "message",
                          json_string(draft->scratch, arena_str(draft->scratch, str_z(err.text))));
        json_object_add_z(error, "body", &json_null);
        side.error = json_text(error, draft->scratch);
    }
    draft_effect(draft, instance, DIRECTION_EXECUTE, &side);
}

struct forward_result forward_advance(struct draft *draft)
{
    struct run *run = draft->run;
    struct forward_result result = {.verdict = FORWARD_GOING};
    const struct instance *failed = NULL, *blocked = NULL;
    bool moving = false, all_done = true, claimed;
    ASSERT(run->now.direction == DIRECTION_EXECUTE);

    /* A claim may end at once (skipped, cannot be rendered) and make others ready: look again. */
    do {
        claimed = false;
        moving = false;
        all_done = true;
        failed = blocked = NULL;
        for (uint16_t i = 0; i < run->instances_count; i++) {
            struct instance *instance = &run->instances[i];
            moving |= attempt_in_motion(&instance->execute);
            all_done &= step_done(run, instance);
            if (forward_blocked(run, instance) != PARK_NONE)
                blocked = blocked ? blocked : instance;
            else if (step_failed(run, instance))
                failed = failed ? failed : instance;
        }
        bool overdue = wall_passed(run->start.deadline_at, draft->event->now) &&
                       !forward_pivot_passed(run) && !all_done;

        /* 1. While the pivot's outcome is open the run goes in neither direction. */
        if (forward_pivot_open(run) && (failed || overdue || blocked)) {
            if (moving)
                return result;
            break;
        }
        /* 2. A step that failed for good, or the deadline, turns the run back. The pivot has not
         *    been passed, or the failure would have blocked instead. */
        if (failed || overdue) {
            result.verdict = FORWARD_TURN;
            result.step = failed;
            result.cause = failed ? failure_cause(run, failed) : CAUSE_DEADLINE;
            return result;
        }
        /* 3. A run that waits for a person starts nothing new. */
        if (blocked || run->now.paused || draft->event->hold)
            break;
        /* 4. Everything whose needs are done is claimed. */
        for (uint16_t i = 0; i < run->instances_count; i++)
            if (step_ready(run, &run->instances[i])) {
                forward_start(draft, &run->instances[i]);
                claimed = true;
            }
    } while (claimed);

    /* 5. All done: complete. */
    if (all_done && !moving) {
        result.verdict = FORWARD_DONE;
        return result;
    }
    /* 6. Nothing moves and something is in the way: a person is needed. */
    if (blocked && !moving) {
        result.verdict = FORWARD_PARK;
        result.step = blocked;
        result.reason = forward_blocked(run, blocked);
    }
    return result;
}
