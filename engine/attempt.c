#include "engine/attempt.h"

#include "dsl/jsonschema.h"
#include "engine/admit.h"
#include "engine/approval.h"
#include "engine/ask.h"
#include "engine/base/rand.h"
#include "engine/key.h"
#include "engine/retry.h"
#include "engine/suspect.h"
#include "engine/task.h"
#include "engine/unknown.h"
#include "engine/wait.h"

#define ANSWER_BYTES_MAX (64 * 1024) /* kept for `reconcile`; longer ones cannot be read by it */

static bool may_repeat(const struct plan_action *action, const struct effect_state *side,
                       struct wall at)
{
    return unknown_way(action, side, at) == UNKNOWN_REPEAT;
}

static const struct plan_step *instance_step(const struct draft *draft,
                                             const struct instance *instance)
{
    return &draft->run->plan->steps[instance->step];
}

/* A SQL action in the engine's own database commits together with its record: nothing is claimed
 * ahead, and an attempt without an answer did not happen. */
static bool commits_with_record(const struct plan_action *action)
{
    return action->kind == ACTION_SQL && action->service == PLAN_SERVICE_NONE;
}

static void invoke_command(struct draft *draft, const struct instance *instance,
                           enum direction direction, const struct effect_state *side,
                           const struct rendered *rendered)
{
    const struct plan_action *action = step_action(instance_step(draft, instance), direction);
    struct run_command command = {
        .kind = COMMAND_INVOKE,
        .ref = {.step = instance->step,
                .item = instance->item,
                .direction = direction,
                .generation = side->generation},
        .attempt = side->attempts,
        .rendered = *rendered,
        .timeout_us = action->timeout_us,
        .deadline_at = wall_add(draft->event->now, action->timeout_us),
    };
    if (side->maybe_applied && action->effect == EFFECT_COMPENSABLE)
        command.send_until = side->key_valid_until;
    draft_command(draft, &command);
}

/* When the child is told to turn back; none: it has all the time it takes. */
static struct wall child_limit(const struct draft *draft, const struct plan_action *action)
{
    bool limited = action->timeout_us && !action->child.detached;
    return limited ? wall_add(draft->event->now, action->timeout_us) : WALL_NONE;
}

void attempt_claim(struct draft *draft, struct instance *instance, enum direction direction)
{
    attempt_renew(draft, instance, direction, STR_NONE, STR_NONE);
}

static void attempt_first(struct draft *draft, struct instance *instance, enum direction direction,
                          struct effect_state *side, const struct rendered *rendered);

void attempt_renew(struct draft *draft, struct instance *instance, enum direction direction,
                   struct str why, struct str step_input)
{
    const struct plan_action *action = step_action(instance_step(draft, instance), direction);
    const struct effect_state *old = instance_side(instance, direction);
    struct wall now = draft->event->now;
    struct rendered rendered;
    struct err err;
    ASSERT(old->state == STEP_PENDING || old->state == STEP_REFUSED);
    struct effect_state side = {
        .state = STEP_CLAIMED,
        .generation = (uint16_t)(old->generation + 1),
        .claim_no = draft->run->claims + 1,
        .claimed_at = now,
        .renewed = why,
        .step_input = step_input,
    };
    if (action_kind_waits(action->kind)) {
        wait_claim(draft, instance, direction, &side);
        return;
    }
    if (action->kind == ACTION_CHILD)
        side.next_at = child_limit(draft, action);
    else
        side.budget_at = wall_add(now, action->retry.budget_us);
    if (action->idempotency.ttl_us)
        side.key_valid_until = wall_add(now, action->idempotency.ttl_us);

    struct render render = draft_render(draft, instance, direction, &side);
    bool too_deep = action->kind == ACTION_CHILD && direction == DIRECTION_EXECUTE &&
                    draft->run->start.depth >= RUN_DEPTH_MAX;
    if (too_deep)
        err_set(&err, ERR_LIMIT, "children are nested %d deep, the limit", RUN_DEPTH_MAX);
    bool wanted = false;
    if (too_deep || render_action(&render, draft->scratch, &rendered, &err) != 0 ||
        approval_is_wanted(draft, instance, direction, &side, &wanted, &err) != 0) {
        side.state = STEP_REFUSED;
        side.outcome = OUTCOME_REFUSED;
        side.next_at = WALL_NONE;
        side.ended_at = now;
        side.error = draft_error(draft, too_deep ? "nesting_limit" : "cannot_render", err.text);
        draft_effect(draft, instance, direction, &side);
        return;
    }
    side.request_hash = rendered.request.hash;
    if (wanted) {
        approval_ask(draft, instance, &side, &rendered);
        draft_effect(draft, instance, direction, &side);
        return;
    }
    attempt_first(draft, instance, direction, &side, &rendered);
}

/* The first send, or the offer to workers. */
static void attempt_first(struct draft *draft, struct instance *instance, enum direction direction,
                          struct effect_state *side, const struct rendered *rendered)
{
    const struct plan_action *action = step_action(instance_step(draft, instance), direction);
    if (suspect_hold(draft, instance, direction, side))
        return;
    if (action->kind ==
        ACTION_WORKER) { /* its attempts, and their time, begin with the first take */
        side->budget_at = WALL_NONE;
        task_offer(draft, instance, direction, side);
        draft_effect(draft, instance, direction, side);
        return;
    }
    if (!admit_request(draft, instance, direction, side))
        return;
    side->attempts = 1;
    if (commits_with_record(action) && !side->stored) {
        struct run_record record = {
            .kind = RECORD_BEGUN,
            .effect = {.ref = {instance->step, instance->item, direction, side->generation},
                       .state = *side},
        };
        draft_record(draft, &record);
    } else {
        draft_effect(draft, instance, direction, side);
    }
    invoke_command(draft, instance, direction, side, rendered);
}

void attempt_approved(struct draft *draft, struct instance *instance, struct effect_state *side)
{
    const struct plan_action *action = &instance_step(draft, instance)->action;
    struct rendered rendered;
    side->next_at = action->kind == ACTION_CHILD ? child_limit(draft, action) : WALL_NONE;
    if (!attempt_render_again(draft, instance, DIRECTION_EXECUTE, side, &rendered))
        return;
    side->state = STEP_CLAIMED;
    if (action->kind != ACTION_CHILD)
        side->budget_at = wall_add(draft->event->now, action->retry.budget_us);
    attempt_first(draft, instance, DIRECTION_EXECUTE, side, &rendered);
}

bool attempt_render_again(struct draft *draft, struct instance *instance, enum direction direction,
                          struct effect_state *side, struct rendered *out)
{
    struct render render = draft_render(draft, instance, direction, side);
    struct err err;
    bool rendered = render_action(&render, draft->scratch, out, &err) == 0;
    if (rendered && sha256_eq(&out->request.hash, &side->request_hash))
        return true;
    side->state = STEP_UNKNOWN;
    side->outcome = OUTCOME_CONFLICT;
    side->ended_at = draft->event->now;
    side->error = draft_error(draft, "key_conflict",
                              rendered ? "the request under this key is no longer the one that was "
                                         "claimed"
                                       : err.text);
    draft_effect(draft, instance, direction, side);
    return false;
}

bool attempt_is_over(const struct draft *draft, const struct instance *instance,
                     enum direction direction)
{
    const struct effect_state *side = instance_side((struct instance *)instance, direction);
    const struct plan_action *action = step_action(instance_step(draft, instance), direction);
    struct wall now = draft->event->now;
    bool over = wall_is_set(side->budget_at) && now.us > side->budget_at.us;
    return over || (side->maybe_applied && !may_repeat(action, side, now));
}

void attempt_repeat(struct draft *draft, struct instance *instance, enum direction direction)
{
    struct effect_state side = *instance_side(instance, direction);
    struct rendered rendered;
    ASSERT(side.state == STEP_RETRYING || side_is_held(&side));
    /* It was held back (by a pause, or while no daemon ran) for longer than it may be repeated. */
    const struct plan_action *action = step_action(instance_step(draft, instance), direction);
    if (attempt_is_over(draft, instance, direction)) {
        attempt_give_up(draft, instance, direction);
        return;
    }
    if (action->kind == ACTION_WORKER) {
        task_offer(draft, instance, direction, &side);
        draft_effect(draft, instance, direction, &side);
        return;
    }
    if (!admit_request(draft, instance, direction, &side) ||
        !attempt_render_again(draft, instance, direction, &side, &rendered))
        return;
    /* The attempt whose answer a dead owner did not see is sent again, not another one. */
    bool same = side.state == STEP_WAITING && side.pickups;
    side.state = STEP_CLAIMED;
    side.attempts += !same;
    side.next_at = WALL_NONE;
    draft_effect(draft, instance, direction, &side);
    invoke_command(draft, instance, direction, &side, &rendered);
}

/* A child is asked again, or started again if it never was: its run id makes both one. Nothing
 * about it is unknown by a crash. */
static void child_recover(struct draft *draft, struct instance *instance, enum direction direction)
{
    struct effect_state side = *instance_side(instance, direction);
    const struct plan_action *action = step_action(instance_step(draft, instance), direction);
    struct rendered rendered;
    if (!attempt_render_again(draft, instance, direction, &side, &rendered))
        return;
    side.pickups = 0; /* it waited for its child, which can be no owner's death */
    draft_effect(draft, instance, direction, &side);
    bool unwanted = direction == DIRECTION_EXECUTE && !action->child.detached &&
                    draft->run->now.direction == DIRECTION_COMPENSATE;
    if (unwanted)
        attempt_recall(draft, instance);
    else
        invoke_command(draft, instance, direction, &side, &rendered);
}

void attempt_recall(struct draft *draft, const struct instance *instance)
{
    const struct plan_step *step = instance_step(draft, instance);
    const struct effect_state *side = &instance->execute;
    if (step->action.kind != ACTION_CHILD || step->action.child.detached ||
        side->state != STEP_CLAIMED)
        return;
    struct run_command command = {
        .kind = COMMAND_CHILD_CANCEL,
        .ref = {instance->step, instance->item, DIRECTION_EXECUTE, side->generation},
        .attempt = side->attempts,
    };
    command.rendered.child =
        key_child(draft->run->id, key_instance(step, instance->item, draft->scratch),
                  side->generation, draft->scratch);
    draft_command(draft, &command);
}

void attempt_child_late(struct draft *draft, struct instance *instance)
{
    struct effect_state side = instance->execute;
    const struct plan_step *step = instance_step(draft, instance);
    if (side.next_at.us == wall_add(side.claimed_at, step->action.timeout_us).us)
        draft_event(draft, "child timed out", key_instance(step, instance->item, draft->scratch),
                    STR("it is told to turn back"));
    side.next_at = wall_add(draft->event->now, CHILD_RECALL_EVERY_US);
    draft_effect(draft, instance, DIRECTION_EXECUTE, &side);
    attempt_recall(draft, instance);
}

static const char owner_lost[] = "the engine stopped before it saw the answer to this attempt";

void attempt_recover(struct draft *draft, struct instance *instance, enum direction direction)
{
    const struct plan_action *action = step_action(instance_step(draft, instance), direction);
    struct effect_state side = *instance_side(instance, direction);
    struct wall now = draft->event->now;
    struct rendered rendered;
    ASSERT(side.state == STEP_CLAIMED);
    if (action->kind == ACTION_CHILD) {
        child_recover(draft, instance, direction);
        return;
    }
    enum unknown_way way = UNKNOWN_REPEAT;
    if (!commits_with_record(action)) {
        side.maybe_applied = true;
        side.unknown_at = now;
        side.outcome = OUTCOME_UNKNOWN;
        way = unknown_way(action, &side, now);
    }
    if (way == UNKNOWN_ASK && action->reconcile) {
        side.error = draft_error(draft, "owner_lost", owner_lost);
        ask_begin(draft, action, &side, 0);
        draft_effect(draft, instance, direction, &side);
        return;
    }
    if (wall_passed(side.budget_at, now) || way != UNKNOWN_REPEAT) {
        side.state = side.maybe_applied ? STEP_UNKNOWN : STEP_REFUSED;
        side.ended_at = now;
        side.error = draft_error(draft, "owner_lost", owner_lost);
        draft_effect(draft, instance, direction, &side);
        return;
    }
    if (!admit_request(draft, instance, direction, &side) ||
        !attempt_render_again(draft, instance, direction, &side, &rendered))
        return;
    draft_effect(draft, instance, direction, &side);
    invoke_command(draft, instance, direction, &side, &rendered);
}

/* Going back, an action that is not known to be applied is not sent again, except to find out
 * about one that may be. A tolerant compensation needs no finding out. */
static bool may_schedule(const struct draft *draft, const struct plan_step *step,
                         enum direction direction, const struct effect_state *side)
{
    if (draft->run->now.direction == DIRECTION_EXECUTE || direction == DIRECTION_COMPENSATE)
        return true;
    return side->maybe_applied && !step->compensate.tolerant;
}

/* Accepted is not done, and what may have been done is not done again, where the participant can
 * be asked first. */
static bool is_asked(const struct plan_action *action, enum outcome outcome,
                     const struct effect_state *side, struct wall now)
{
    if (!action->reconcile)
        return false;
    return outcome == OUTCOME_IN_PROGRESS ||
           (side->maybe_applied && unknown_way(action, side, now) == UNKNOWN_ASK);
}

static void attempt_schedule(struct draft *draft, const struct instance *instance,
                             enum direction direction, const struct verdict *verdict,
                             struct effect_state *side)
{
    const struct plan_step *step = instance_step(draft, instance);
    const struct plan_action *action = step_action(step, direction);
    struct wall next = WALL_NONE;
    if (is_asked(action, verdict->outcome, side, draft->event->now)) {
        bool accepted = verdict->outcome == OUTCOME_IN_PROGRESS;
        ask_begin(draft, action, side, accepted ? action->reconcile->every_us : 0);
        return;
    }
    uint64_t seed =
        str_hash(draft->run->id) ^
        rand_mix((uint64_t)instance->place << 32 | (instance->step * 2u + (unsigned)direction));
    int64_t after_us = verdict->after_us;
    if (verdict->free && !after_us)
        after_us = MAX(action->retry.delay_us, RETRY_FREE_DELAY_MIN_US);
    if (may_schedule(draft, step, direction, side) &&
        (verdict->free || retry_has_attempts(&action->retry, side)))
        next = retry_next(&action->retry, side, seed, after_us, draft->event->now);
    if (wall_is_set(next) && side->maybe_applied && !may_repeat(action, side, next))
        next = WALL_NONE;
    if (wall_is_set(next)) {
        side->state = STEP_RETRYING;
        side->next_at = next;
        return;
    }
    side->state = side->maybe_applied ? STEP_UNKNOWN : STEP_REFUSED;
    side->ended_at = draft->event->now;
}

/* An attempt that did not go right the first time is history of its own; so is every later one. */
static void attempt_history(struct draft *draft, const struct instance *instance,
                            enum direction direction, const struct effect_state *side,
                            const struct reply *reply, const struct verdict *verdict)
{
    if (side->attempts == 1 && verdict->outcome == OUTCOME_APPLIED && !side->pickups)
        return;
    struct run_record record = {
        .kind = RECORD_ATTEMPT,
        .attempt = {.ref = {instance->step, instance->item, direction, side->generation},
                    .number = side->attempts,
                    .sent_at = wall_is_set(reply->sent_at) ? reply->sent_at : draft->event->now,
                    /* When it was taken note of: a run's history only grows at its end. */
                    .ended_at = draft->event->now,
                    .outcome = verdict->outcome,
                    .status = verdict->status,
                    .error = verdict->error},
    };
    draft_record(draft, &record);
}

/* An answer that cannot be kept, or is not what the workflow declares, is told; the work is done
 * all the same, and never repeated for its answer's sake. */
void attempt_output_look(struct draft *draft, const struct instance *instance,
                         enum direction direction, struct effect_state *side)
{
    const struct plan_step *step = instance_step(draft, instance);
    struct str name = key_instance(step, instance->item, draft->scratch);
    const struct json *value = &json_null;
    struct schema_errors errors = {0};
    struct err err;
    if (side->output_invalid) {
        draft_event(draft, "output invalid", name,
                    STR("the answer was too large, no text, or no JSON although it said so"));
        return;
    }
    if (direction == DIRECTION_COMPENSATE || !step->output_schema)
        return;
    if (side->output.ptr && json_parse(side->output, draft->scratch, &value, &err) != 0)
        value = &json_null;
    if (schema_check(step->output_schema, value, draft->scratch, &errors))
        return;
    side->output_invalid = true;
    draft_event(draft, "output invalid", name,
                arena_printf(draft->scratch, "it does not fit output_schema: " STR_FMT " " STR_FMT,
                             STR_ARG(errors.list[0].pointer), STR_ARG(errors.list[0].message)));
}

/* `reconcile` may read it: the status resource of a 202 is named there. */
static void answer_keep(struct draft *draft, const struct plan_action *action,
                        const struct reply *reply, struct effect_state *side)
{
    if (!action->reconcile || !outcome_is_answer(reply))
        return;
    struct str answer = json_text(outcome_response(reply, draft->scratch), draft->scratch);
    side->answer = answer.len <= ANSWER_BYTES_MAX ? answer : STR_NONE;
}

void attempt_judge(struct draft *draft, const struct instance *instance, enum direction direction,
                   const struct reply *reply, struct verdict *out)
{
    const struct plan_action *action = step_action(instance_step(draft, instance), direction);
    const struct effect_state *side = instance_side((struct instance *)instance, direction);
    struct render render = draft_render(draft, instance, direction, side);
    struct expr_scope scope;
    struct err err;
    int code = render_scope(&render, draft->scratch, &scope, &err);
    ASSERT(code == 0); /* the stored input was read when the effect was claimed */
    outcome_judge(action, reply, &scope, draft->scratch, out);
}

void attempt_reply(struct draft *draft, struct instance *instance, enum direction direction,
                   const struct reply *reply)
{
    const struct plan_action *action = step_action(instance_step(draft, instance), direction);
    struct effect_state side = *instance_side(instance, direction);
    struct verdict verdict;
    ASSERT(side.state == STEP_CLAIMED || reply->kind == REPLY_WORKER);
    attempt_judge(draft, instance, direction, reply, &verdict);

    /* An open transaction that is not to be applied is rolled back: certainly not applied. */
    if (reply->kind == REPLY_SQL_OPEN) {
        draft->out->commit_action = verdict.outcome == OUTCOME_APPLIED;
        if (verdict.outcome == OUTCOME_UNKNOWN || verdict.outcome == OUTCOME_CONFLICT)
            verdict.outcome = OUTCOME_REFUSED;
        if (!draft->out->commit_action)
            draft_command(draft, &(struct run_command){.kind = COMMAND_ROLLBACK});
    }
    struct effect_state before = side;
    side.next_at = WALL_NONE;
    side.pickups = 0;
    side.attempts_free += verdict.free;
    bool accepted = verdict.outcome == OUTCOME_IN_PROGRESS && action->reconcile;
    if (verdict.outcome == OUTCOME_UNKNOWN || accepted) {
        side.maybe_applied = true;
        side.unknown_at = draft->event->now;
    }
    answer_keep(draft, action, reply, &side);
    side.outcome = outcome_join(side.maybe_applied, verdict.outcome);
    side.error = verdict.error;
    switch (verdict.outcome) {
    case OUTCOME_APPLIED:
        side.state = STEP_APPLIED;
        side.maybe_applied = false;
        side.ended_at = draft->event->now;
        side.output = verdict.output;
        side.output_invalid = verdict.output_invalid;
        attempt_output_look(draft, instance, direction, &side);
        break;
    case OUTCOME_REFUSED:
        if (is_asked(action, verdict.outcome, &side, draft->event->now)) {
            ask_begin(draft, action, &side, 0);
            break;
        }
        side.state = side.maybe_applied ? STEP_UNKNOWN : STEP_REFUSED;
        side.ended_at = draft->event->now;
        break;
    case OUTCOME_CONFLICT:
        side.state = STEP_UNKNOWN;
        side.ended_at = draft->event->now;
        break;
    case OUTCOME_RETRYABLE:
    case OUTCOME_IN_PROGRESS:
    case OUTCOME_UNKNOWN: attempt_schedule(draft, instance, direction, &verdict, &side); break;
    case OUTCOME_NONE: ASSERT(!"an outcome");
    }
    if (before.state == STEP_CLAIMED) {
        draft_effect(draft, instance, direction, &side);
        attempt_history(draft, instance, direction, &before, reply, &verdict);
        return;
    }
    /* The attempt's own row says what was known when it was given up. */
    struct record_finding finding = {.number = ++side.findings,
                                     .source = FINDING_ANSWER,
                                     .says = verdict.outcome,
                                     .detail = STR("after it had been given up"),
                                     .body = verdict.output};
    finding_add(draft, instance, direction, &side, &finding);
    side.by_hand = false;
    draft_effect(draft, instance, direction, &side);
}

void attempt_not_applied(struct draft *draft, struct instance *instance, enum direction direction,
                         struct effect_state *side)
{
    const struct verdict verdict = {.outcome = OUTCOME_RETRYABLE};
    side->maybe_applied = false;
    side->outcome = OUTCOME_RETRYABLE;
    side->next_at = WALL_NONE;
    attempt_schedule(draft, instance, direction, &verdict, side);
    draft_effect(draft, instance, direction, side);
}

void attempt_not_taken(struct draft *draft, struct instance *instance, enum direction direction)
{
    struct effect_state side = *instance_side(instance, direction);
    ASSERT(side.state == STEP_WAITING);
    side.state = side.maybe_applied ? STEP_UNKNOWN : STEP_REFUSED;
    side.outcome = outcome_join(side.maybe_applied, OUTCOME_REFUSED);
    side.next_at = WALL_NONE;
    side.ended_at = draft->event->now;
    side.error = draft_error(draft, "not_taken", "no worker took the task in time");
    draft_effect(draft, instance, direction, &side);
}

void attempt_give_up(struct draft *draft, struct instance *instance, enum direction direction)
{
    struct effect_state side = *instance_side(instance, direction);
    ASSERT(side.state == STEP_RETRYING || side_is_held(&side));
    if (side_is_held(&side))
        admit_in_vain(draft, instance, direction, &side);
    side.state = side.maybe_applied ? STEP_UNKNOWN : STEP_REFUSED;
    side.next_at = WALL_NONE;
    side.ended_at = draft->event->now;
    draft_effect(draft, instance, direction, &side);
}

void attempt_reopen(struct draft *draft, struct instance *instance, enum direction direction,
                    const struct plan_retry *policy)
{
    struct effect_state side = *instance_side(instance, direction);
    ASSERT(side.state == STEP_REFUSED || side.state == STEP_UNKNOWN);
    side.state = STEP_RETRYING;
    side.attempts_base = side.attempts - side.attempts_free;
    side.next_at = draft->event->now;
    side.budget_at = wall_add(draft->event->now, policy->budget_us);
    side.ended_at = WALL_NONE;
    draft_effect(draft, instance, direction, &side);
}
