#include "engine/decide.h"

#include "compensations/unwind.h"
#include "engine/ask.h"
#include "engine/attempt.h"
#include "engine/base/map.h"
#include "engine/forward.h"
#include "engine/key.h"
#include "engine/repin.h"
#include "engine/retry.h"
#include "engine/task.h"
#include "engine/unknown.h"
#include "engine/wait.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static const struct plan_step *plan_step_of(const struct draft *draft,
                                            const struct instance *instance)
{
    return &draft->run->plan->steps[instance->step];
}

static struct str instance_name(const struct draft *draft, const struct instance *instance)
{
    return instance ? key_instance(plan_step_of(draft, instance), instance->item, draft->scratch)
                    : STR("");
}

/* --- parking and turning ------------------------------------------------------------------- */

static void run_park(struct draft *draft, enum park_reason reason, const struct instance *step)
{
    struct record_run now = draft->run->now;
    now.state = RUN_PARKED;
    now.reason = reason;
    now.residue = unwind_residue(draft->run, draft->scratch);
    draft_run(draft, &now);
    draft_event(draft, "parked", instance_name(draft, step), str_z(park_reason_name(reason)));
}

/* The run's error: the first failure, with the step that it came from. */
static struct str run_error(struct draft *draft, enum run_cause cause, const struct instance *step)
{
    const struct json *error;
    struct err err;
    struct json *out = json_object_new(draft->scratch, 5);
    json_object_add_z(out, "step",
                      step ? json_string(draft->scratch, instance_name(draft, step)) : &json_null);
    if (step && step->execute.error.ptr) {
        int code = json_parse(step->execute.error, draft->scratch, &error, &err);
        ASSERT(code == 0 && error->kind == JSON_OBJECT);
        for (uint32_t i = 0; i < MIN(error->count, 4u); i++)
            json_object_add(out, error->members[i].name, error->members[i].value);
        return json_text(out, draft->scratch);
    }
    json_object_add_z(out, "code", json_string_z(draft->scratch, run_cause_name(cause)));
    json_object_add_z(out, "status", &json_null);
    struct str message = draft->event->verb.reason;
    if (cause == CAUSE_DEADLINE)
        message = STR("the run's deadline has passed");
    json_object_add_z(out, "message", json_string(draft->scratch, message));
    json_object_add_z(out, "body", &json_null);
    return json_text(out, draft->scratch);
}

static void backward(struct draft *draft)
{
    struct unwind_result result = unwind_advance(draft);
    if (result.verdict == UNWIND_PARK)
        run_park(draft, result.reason, result.step);
}

/* One transaction raises the turn and sets the direction; from here nothing is claimed forward. */
static void run_turn(struct draft *draft, enum run_cause cause, const struct instance *step)
{
    struct record_run now = draft->run->now;
    ASSERT(now.direction == DIRECTION_EXECUTE);
    now.state = RUN_COMPENSATING;
    now.direction = DIRECTION_COMPENSATE;
    now.turn++;
    now.cause = cause;
    now.reason = PARK_NONE;
    now.residue = STR_NONE;
    now.ended_at = WALL_NONE; /* a completed child goes back */
    now.output = STR_NONE;
    if (!now.error.ptr)
        now.error = run_error(draft, cause, step);
    draft_run(draft, &now);
    draft_event(draft, "turned back", instance_name(draft, step), str_z(run_cause_name(cause)));
    unwind_begin(draft);
    backward(draft);
}

static void run_complete(struct draft *draft)
{
    struct record_run now = draft->run->now;
    struct err err;
    if (render_output(draft->run, draft->scratch, &now.output, &err) != 0) {
        /* The work is done; a result that cannot be told is no reason to undo it. */
        now.output = STR_NONE;
        draft_event(draft, "output failed", STR(""), arena_str(draft->scratch, str_z(err.text)));
    }
    now.state = RUN_COMPLETED;
    now.reason = PARK_NONE;
    now.ended_at = draft->event->now;
    now.residue = unwind_unknowns(draft->run, draft->scratch);
    draft_run(draft, &now);
}

static void advance(struct draft *draft)
{
    if (draft->run->now.direction == DIRECTION_COMPENSATE) {
        backward(draft);
        return;
    }
    struct forward_result result = forward_advance(draft);
    if (result.verdict == FORWARD_TURN)
        run_turn(draft, result.cause, result.step);
    else if (result.verdict == FORWARD_DONE)
        run_complete(draft);
    else if (result.verdict == FORWARD_PARK)
        run_park(draft, result.reason, result.step);
}

/* --- events -------------------------------------------------------------------------------- */

static bool is_active(const struct run *run)
{
    return run->now.state == RUN_RUNNING || run->now.state == RUN_COMPENSATING;
}

static void start_decide(struct draft *draft)
{
    draft_record(draft, &(struct run_record){.kind = RECORD_START, .start = draft->event->start});
    if (is_active(draft->run)) /* else it is queued */
        advance(draft);
}

static void reply_decide(struct draft *draft)
{
    const struct effect_ref *ref = &draft->event->reply.ref;
    struct instance *instance = run_instance_make(draft->run, ref->step, ref->item);
    if (!instance)
        return; /* an item of a loop whose beginning was never written: the image was loaded anew */
    const struct effect_state *side = instance_side(instance, ref->direction);
    if (draft->event->reply.asked) {
        ask_reply(draft, instance, ref->direction, draft->event->reply.attempt,
                  draft->event->reply.reply);
        if (is_active(draft->run))
            advance(draft);
        return;
    }
    bool current = side->state == STEP_CLAIMED && side->generation == ref->generation &&
                   side->attempts == draft->event->reply.attempt;
    if (!current || run_state_is_terminal(draft->run->now.state)) {
        draft_event(draft, "late answer", instance_name(draft, instance),
                    str_z(reply_kind_name(draft->event->reply.reply->kind)));
        return;
    }
    attempt_reply(draft, instance, ref->direction, draft->event->reply.reply);
    if (is_active(draft->run))
        advance(draft);
}

/* What is due for one direction of one instance. */
static void side_due(struct draft *draft, struct instance *instance, enum direction direction)
{
    const struct effect_state *side = instance_side(instance, direction);
    if (!wall_passed(side->next_at, draft->event->now))
        return;
    bool worker = step_action(plan_step_of(draft, instance), direction)->kind == ACTION_WORKER;
    if (worker && (side->state == STEP_WAITING || side->state == STEP_CLAIMED)) {
        task_due(draft, instance, direction);
    } else if (side->state == STEP_CLAIMED) { /* else only a child's claim has a time */
        attempt_child_late(draft, instance);
    } else if (side->state == STEP_RETRYING && !draft->run->now.paused) {
        attempt_repeat(draft, instance, direction);
    } else if (side->state == STEP_UNKNOWN && !draft->run->now.paused) {
        ask_send(draft, instance, direction);
    } else if (side->state == STEP_WAITING) {
        wait_end(draft, instance, direction);
    }
}

/* A queued run begins once its time has come. */
static void queued_due(struct draft *draft)
{
    const struct run *run = draft->run;
    struct record_run now = run->now;
    if (now.state != RUN_QUEUED || now.paused || draft->event->hold ||
        !wall_passed(run->start.start_at, draft->event->now))
        return;
    now.state = RUN_RUNNING;
    draft_run(draft, &now);
}

static struct instance *due_instance(struct due_node *due)
{
    return due->direction == DIRECTION_COMPENSATE
               ? CONTAINER_OF(due, struct instance, compensate_due)
               : CONTAINER_OF(due, struct instance, execute_due);
}

static int by_file_order(const void *a, const void *b)
{
    struct due_node *const *left = a, *const *right = b;
    const struct instance *x = due_instance(*left), *y = due_instance(*right);
    int64_t order = (int64_t)x->step - y->step;
    if (!order)
        order = (x->item.len > 0) - (y->item.len > 0);
    if (!order)
        order = (int64_t)x->place - y->place;
    if (!order)
        order = (int64_t)(*left)->direction - (int64_t)(*right)->direction;
    return order < 0 ? -1 : order > 0;
}

/* Collects the sides of one heap whose time has come: they stand together at its top. */
static void due_collect(const struct heap *heap, size_t at, struct wall now, struct due_node **list,
                        size_t *count)
{
    if (at > heap->count || heap->nodes[at]->key > now.us)
        return;
    list[(*count)++] = CONTAINER_OF(heap->nodes[at], struct due_node, node);
    due_collect(heap, at * 2, now, list, count);
    due_collect(heap, at * 2 + 1, now, list, count);
}

static bool is_sent_again(const struct draft *draft, struct due_node *due)
{
    struct instance *instance = due_instance(due);
    const struct effect_state *side = instance_side(instance, due->direction);
    return side->state == STEP_UNKNOWN ||
           (side->state == STEP_RETRYING && !attempt_is_over(draft, instance, due->direction));
}

static void due_decide(struct draft *draft)
{
    struct run *run = draft->run;
    queued_due(draft);
    if (!is_active(run))
        return;
    /* The deadline goes first: it decides whether repeats are still wanted. */
    if (run->now.direction == DIRECTION_EXECUTE)
        advance(draft);
    size_t count = 0;
    struct due_node **list =
        arena_array(draft->scratch, struct due_node *, run->retries.count + run->waits.count);
    due_collect(&run->retries, 1, draft->event->now, list, &count);
    due_collect(&run->waits, 1, draft->event->now, list, &count);
    qsort(list, count, sizeof(struct due_node *), by_file_order);
    /* What ends comes before what is sent again: it may turn the run back. */
    for (size_t i = 0; i < count && is_active(run); i++)
        if (!is_sent_again(draft, list[i]))
            side_due(draft, due_instance(list[i]), list[i]->direction);
    if (count && is_active(run))
        advance(draft);
    for (size_t i = 0; i < count && is_active(run); i++)
        if (is_sent_again(draft, list[i]))
            side_due(draft, due_instance(list[i]), list[i]->direction);
    if (is_active(run))
        advance(draft);
}

static void side_recover(struct draft *draft, struct instance *instance, enum direction direction)
{
    const struct effect_state *side = instance_side(instance, direction);
    if (step_action(plan_step_of(draft, instance), direction)->kind == ACTION_WORKER)
        task_recover(draft, instance, direction); /* its worker may not even have noticed */
    else if (side->state == STEP_CLAIMED)
        attempt_recover(draft, instance, direction);
    else if (unknown_is_asked(side))
        ask_hasten(draft, instance, direction);
}

static void sides_recover(struct draft *draft)
{
    for (struct instance *instance = run_instance_next(draft->run, NULL); instance;
         instance = run_instance_next(draft->run, instance)) {
        side_recover(draft, instance, DIRECTION_EXECUTE);
        side_recover(draft, instance, DIRECTION_COMPENSATE);
    }
}

/* The attempt was in flight each time that the engine went down. */
static bool crash_loops(const struct draft *draft, const struct instance *instance,
                        enum direction direction)
{
    const struct effect_state *side = instance_side((struct instance *)instance, direction);
    return side->state == STEP_CLAIMED && side->pickups > PICKUPS_MAX &&
           step_action(plan_step_of(draft, instance), direction)->kind != ACTION_WORKER;
}

static void recover_decide(struct draft *draft)
{
    struct run *run = draft->run;
    queued_due(draft);
    if (!is_active(run))
        return;
    for (struct instance *instance = run_instance_next(run, NULL); instance;
         instance = run_instance_next(run, instance))
        if (crash_loops(draft, instance, DIRECTION_EXECUTE) ||
            crash_loops(draft, instance, DIRECTION_COMPENSATE)) {
            run_park(draft, PARK_CRASH_LOOP, instance);
            return;
        }
    sides_recover(draft);
    due_decide(draft);
}

static void task_decide(struct draft *draft)
{
    bool ended =
        draft->event->kind == EVENT_TAKE ? task_take_decide(draft) : task_report_decide(draft);
    if (ended && is_active(draft->run))
        advance(draft);
}

/* --- verbs --------------------------------------------------------------------------------- */

static void refuse(struct draft *draft, enum err_code code, const char *fmt, ...) PRINTF_LIKE(3, 4);

static void refuse(struct draft *draft, enum err_code code, const char *fmt, ...)
{
    char text[ERR_TEXT_BYTES];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    err_set(&draft->out->answer, code, "%s", text);
}

static const char *state_name(const struct draft *draft)
{
    return run_state_name(draft->run->now.state);
}

static void verb_event(struct draft *draft, struct str step)
{
    draft_event(draft, run_event_name(draft->event->kind), step, draft->event->verb.reason);
}

static bool wants_back(const struct draft *draft)
{
    return draft->run->now.direction == DIRECTION_EXECUTE &&
           forward_wants_back(draft->run, draft->event->now);
}

/* The run leaves `parked` in the direction in which it stopped. */
static void run_unpark(struct draft *draft)
{
    struct record_run now = draft->run->now;
    now.state = now.direction == DIRECTION_EXECUTE ? RUN_RUNNING : RUN_COMPENSATING;
    now.reason = PARK_NONE;
    now.residue = STR_NONE;
    draft_run(draft, &now);
}

/* A crash loop and a quarantine park a run with claims whose answers nobody waits for. Whatever
 * makes such a run move again finds out about them first. */
static void lost_recover(struct draft *draft, enum park_reason reason)
{
    if (reason != PARK_CRASH_LOOP && reason != PARK_QUARANTINE)
        return;
    sides_recover(draft);
}

static void turn_decide(struct draft *draft, enum run_cause cause)
{
    cause = draft->event->verb.by_parent ? CAUSE_PARENT : cause;
    const struct run *run = draft->run;
    const struct instance *open;
    if (run->now.direction == DIRECTION_COMPENSATE && run->now.state != RUN_ABANDONED)
        return; /* already going back, or done with it: a repeated verb is obeyed by that */
    /* A completed child is undone when its parent asks. */
    bool asked = run->now.state == RUN_COMPLETED && draft->event->verb.by_parent &&
                 draft->event->kind == EVENT_COMPENSATE;
    if (run_state_is_terminal(run->now.state) && !asked) {
        refuse(draft, ERR_CONFLICT, "the run has ended %s", state_name(draft));
        return;
    }
    if (forward_pivot_passed(run)) {
        refuse(draft, ERR_CONFLICT,
               "pivot_passed: the run has passed its point of no return and only goes forward");
        return;
    }
    open = forward_pivot_open(run);
    if (open) {
        refuse(draft, ERR_CONFLICT,
               "the outcome of the pivot \"%s\" is not known yet; wait for it or settle it first",
               plan_step_of(draft, open)->id);
        return;
    }
    verb_event(draft, STR(""));
    lost_recover(draft, run->now.reason);
    run_turn(draft, cause, NULL);
}

static void pause_decide(struct draft *draft, bool paused)
{
    struct record_run now = draft->run->now;
    if (run_state_is_terminal(now.state)) {
        refuse(draft, ERR_CONFLICT, "the run has ended %s", state_name(draft));
        return;
    }
    if (now.paused == paused)
        return;
    now.paused = paused;
    draft_run(draft, &now);
    verb_event(draft, STR(""));
    if (paused)
        return;
    for (struct instance *instance = run_instance_next(draft->run, NULL);
         instance && is_active(draft->run); instance = run_instance_next(draft->run, instance)) {
        task_recover(draft, instance, DIRECTION_EXECUTE);
        task_recover(draft, instance, DIRECTION_COMPENSATE);
    }
    due_decide(draft);
}

/* The side that stops this instance, DIRECTION_NONE if none does. */
static enum direction stopped_side(const struct run *run, const struct instance *instance)
{
    if (run->now.direction == DIRECTION_EXECUTE)
        return forward_blocked(run, instance) != PARK_NONE ? DIRECTION_EXECUTE : DIRECTION_NONE;
    if (unwind_status(run, instance).status != UNDO_BLOCKED)
        return DIRECTION_NONE;
    return instance->compensate.state == STEP_PENDING ? DIRECTION_EXECUTE : DIRECTION_COMPENSATE;
}

/* "send.3": the item of a loop, "charge": the step. NULL after refusing. */
static struct instance *named_instance(struct draft *draft, struct str name)
{
    struct run *run = draft->run;
    const char *dot = name.len ? memchr(name.ptr, '.', name.len) : NULL;
    struct str id = {name.ptr, dot ? (size_t)(dot - name.ptr) : name.len};
    uint16_t index = plan_step_find(run->plan, id);
    if (index == PLAN_STEP_NONE) {
        refuse(draft, ERR_NOT_FOUND, "the workflow has no step \"" STR_FMT "\"", STR_ARG(id));
        return NULL;
    }
    struct str item = dot ? (struct str){dot + 1, name.len - id.len - 1} : STR("");
    struct instance *instance = dot && !item.len ? NULL : run_instance_make(run, index, item);
    if (instance)
        return instance;
    if (!run->plan->steps[index].for_each)
        refuse(draft, ERR_NOT_FOUND, "the step \"" STR_FMT "\" is no loop: it has no items",
               STR_ARG(id));
    else if (!run->instances[index].group)
        refuse(draft, ERR_NOT_FOUND, "the loop \"" STR_FMT "\" has not begun: it has no items yet",
               STR_ARG(id));
    else
        refuse(draft, ERR_NOT_FOUND, "the loop \"" STR_FMT "\" has no item \"" STR_FMT "\"",
               STR_ARG(id), STR_ARG(item));
    return NULL;
}

/* The instance that a verb names: STEP = ID[.ITEM][:execute|:compensate]. NULL after refusing. */
static struct instance *verb_step(struct draft *draft, enum direction *direction)
{
    struct run *run = draft->run;
    struct str name = draft->event->verb.step;
    const char *colon = name.len ? memchr(name.ptr, ':', name.len) : NULL;
    *direction = DIRECTION_NONE;
    if (colon) {
        *direction =
            direction_of((struct str){colon + 1, name.len - (size_t)(colon + 1 - name.ptr)});
        name.len = (size_t)(colon - name.ptr);
        if (*direction == DIRECTION_NONE) {
            refuse(draft, ERR_INVALID,
                   "a step is named ID[.ITEM], ID[.ITEM]:execute or ID[.ITEM]:compensate");
            return NULL;
        }
    }
    struct instance *instance = named_instance(draft, name);
    if (!instance)
        return NULL;
    if (*direction == DIRECTION_NONE)
        *direction = stopped_side(run, instance);
    /* A repeated verb means what it meant the first time. */
    if (*direction == DIRECTION_NONE && instance->execute.by_hand)
        *direction = DIRECTION_EXECUTE;
    if (*direction == DIRECTION_NONE)
        *direction = run->now.direction;
    return instance;
}

/* Whether a person's retry may send the stopped side again; says why not. */
static bool retry_check(struct draft *draft, const struct instance *instance,
                        enum direction direction)
{
    const struct plan_step *step = plan_step_of(draft, instance);
    struct str name = instance_name(draft, instance);
    const struct effect_state *side = instance_side((struct instance *)instance, direction);
    if (side->outcome == OUTCOME_CONFLICT) {
        refuse(draft, ERR_CONFLICT,
               "step \"" STR_FMT "\" is a key_conflict: settle it, skip it or abandon the run",
               STR_ARG(name));
        return false;
    }
    enum unknown_way way = unknown_way(step_action(step, direction), side, draft->event->now);
    if (side->state == STEP_UNKNOWN && way != UNKNOWN_REPEAT &&
        !step_action(step, direction)->reconcile) {
        refuse(draft, ERR_CONFLICT,
               "the outcome of step \"" STR_FMT
               "\" is unknown and it must not be repeated blindly: "
               "settle it first",
               STR_ARG(name));
        return false;
    }
    return true;
}

static void retry_side(struct draft *draft, struct instance *instance, enum direction direction)
{
    const struct plan_action *action = step_action(plan_step_of(draft, instance), direction);
    const struct effect_state *side = instance_side(instance, direction);
    /* A refusal may be stored at the participant under the old key, so a person's retry of one
     * takes a new generation; anything that may have been applied, or may still be, keeps it. */
    if (side->state == STEP_REFUSED && wants_back(draft))
        return; /* the run will not go on forward: nothing new is sent */
    if (side->state == STEP_REFUSED && direction == DIRECTION_EXECUTE && !side->claim_no)
        forward_start(draft, instance); /* its `if` could not be read */
    else if (side->state == STEP_REFUSED && side->outcome == OUTCOME_REFUSED)
        attempt_claim(draft, instance, direction);
    else if (side->state == STEP_UNKNOWN && action->reconcile)
        ask_again(draft, instance, direction);
    else /* due at once */
        attempt_reopen(draft, instance, direction, &action->retry);
}

static void retry_decide(struct draft *draft)
{
    struct run *run = draft->run;
    if (run->now.state != RUN_PARKED) {
        refuse(draft, ERR_CONFLICT, "the run is %s, only a parked run can be retried",
               state_name(draft));
        return;
    }
    enum park_reason reason = run->now.reason;
    for (struct instance *instance = run_instance_next(run, NULL); instance;
         instance = run_instance_next(run, instance)) {
        enum direction direction = stopped_side(run, instance);
        if (direction != DIRECTION_NONE && !retry_check(draft, instance, direction))
            return;
    }
    verb_event(draft, STR(""));
    run_unpark(draft);
    for (struct instance *instance = run_instance_next(run, NULL); instance;
         instance = run_instance_next(run, instance)) {
        enum direction direction = stopped_side(run, instance);
        if (direction != DIRECTION_NONE)
            retry_side(draft, instance, direction);
    }
    lost_recover(draft, reason);
    due_decide(draft);
}

/* The newest evidence says otherwise than the person. */
static bool contradicts(const struct effect_state *side, bool applied)
{
    bool says_applied = side->found == OUTCOME_APPLIED || side->found == OUTCOME_IN_PROGRESS;
    bool says_not = side->found == OUTCOME_REFUSED || side->found == OUTCOME_RETRYABLE;
    return applied ? says_not : says_applied;
}

/* settle and skip: a person's word ends one side, and the run goes on by itself. */
static void by_hand_decide(struct draft *draft)
{
    enum direction direction;
    bool settle = draft->event->kind == EVENT_SETTLE;
    struct instance *instance = verb_step(draft, &direction);
    if (!instance)
        return;
    struct effect_state side = *instance_side(instance, direction);
    struct str name = instance_name(draft, instance);
    enum step_state wanted = !settle                      ? STEP_SKIPPED
                             : draft->event->verb.applied ? STEP_APPLIED
                                                          : STEP_REFUSED;
    if (side.by_hand && side.state == wanted)
        return; /* a repeated decision is obeyed already */
    if (run_state_is_terminal(draft->run->now.state)) {
        refuse(draft, ERR_CONFLICT, "the run has ended %s", state_name(draft));
        return;
    }
    bool parked = draft->run->now.state == RUN_PARKED;
    /* A person may know before the participant can tell. */
    bool asked = settle && unknown_is_asked(&side);
    bool fits = side.state == STEP_UNKNOWN || (!settle && side.state == STEP_REFUSED);
    /* A compensation that turned out not to be needed stays as it is. */
    if (direction == DIRECTION_COMPENSATE && unwind_is_over(draft->run, instance))
        fits = false;
    if (!fits || (!parked && !asked)) {
        refuse(draft, ERR_CONFLICT, "step \"" STR_FMT "\" is %s in a run that is %s: nothing to %s",
               STR_ARG(name), step_state_name(side.state), state_name(draft),
               settle ? "settle" : "skip");
        return;
    }
    if (settle && contradicts(&side, draft->event->verb.applied) && !draft->event->verb.force) {
        refuse(draft, ERR_CONFLICT,
               "step \"" STR_FMT
               "\": what was found out says %s; use --force to settle it otherwise",
               STR_ARG(name), outcome_name(side.found));
        return;
    }
    /* What is proven not applied and still wanted is done: again under its key, or under a new one
     * where the participant holds the old key for something else. */
    bool again =
        wanted == STEP_REFUSED && direction == draft->run->now.direction && !wants_back(draft);
    /* A child that was abandoned keeps its id; another attempt needs another child. */
    bool conflict = side.outcome == OUTCOME_CONFLICT ||
                    step_action(plan_step_of(draft, instance), direction)->kind == ACTION_CHILD;
    if (settle) {
        struct record_finding finding = {
            .number = ++side.findings,
            .source = FINDING_PERSON,
            .says = draft->event->verb.applied ? OUTCOME_APPLIED : OUTCOME_RETRYABLE,
            .detail = draft->event->verb.reason,
            .body = draft->event->verb.output,
            .actor = draft->event->verb.actor,
        };
        finding_add(draft, instance, direction, &side, &finding);
    }
    side.state = wanted;
    side.by_hand = !again;
    side.next_at = WALL_NONE;
    side.maybe_applied = false;
    side.outcome = wanted != STEP_REFUSED ? OUTCOME_APPLIED
                   : conflict             ? OUTCOME_REFUSED
                                          : OUTCOME_RETRYABLE;
    side.output = draft->event->verb.output;
    side.ended_at = draft->event->now;
    verb_event(draft, instance_name(draft, instance));
    draft_effect(draft, instance, direction, &side);
    lost_recover(draft, draft->run->now.reason);
    if (parked)
        run_unpark(draft);
    if (again && conflict) {
        attempt_claim(draft, instance, direction);
    } else if (again) {
        const struct plan_action *action = step_action(plan_step_of(draft, instance), direction);
        attempt_reopen(draft, instance, direction, &action->retry);
    }
    due_decide(draft);
}

static void abandon_decide(struct draft *draft)
{
    struct record_run now = draft->run->now;
    if (now.state == RUN_ABANDONED)
        return;
    if (run_state_is_terminal(now.state)) {
        refuse(draft, ERR_CONFLICT, "the run has ended %s", state_name(draft));
        return;
    }
    now.state = RUN_ABANDONED;
    now.reason = PARK_NONE;
    now.ended_at = draft->event->now;
    now.residue = unwind_residue(draft->run, draft->scratch);
    verb_event(draft, STR(""));
    draft_run(draft, &now);
}

static void signal_decide(struct draft *draft)
{
    wait_signal(draft);
    if (draft->out->records_count && is_active(draft->run))
        advance(draft);
}

/* What has run stays what it is; the rest follows another version from now on. */
static void migrate_decide(struct draft *draft)
{
    const struct run *run = draft->run;
    const struct plan *to = draft->event->verb.plan;
    if (run_state_is_terminal(run->now.state)) {
        refuse(draft, ERR_CONFLICT, "the run has ended %s", state_name(draft));
        return;
    }
    if (run->now.state != RUN_PARKED && !run->now.paused) {
        refuse(draft, ERR_CONFLICT, "the run is %s: pause it first", state_name(draft));
        return;
    }
    if (repin_check(run, to, &draft->out->answer) != 0 || draft->event->verb.dry_run ||
        sha256_eq(&run->plan->hash, &to->hash))
        return;
    draft_record(draft, &(struct run_record){.kind = RECORD_PIN, .pin = {.plan = to}});
    draft_event(draft, "migrated", STR(""),
                arena_printf(draft->scratch, "from version %s to %s: " STR_FMT, run->plan->version,
                             to->version, STR_ARG(draft->event->verb.reason)));
    draft->out->reload = true;
}

static void verb_answer(struct draft *draft)
{
    const struct err *answer = &draft->out->answer;
    if (!draft->event->verb.inbox_id.ptr)
        return;
    struct run_record record = {
        .kind = RECORD_INBOX,
        .inbox = {.id = draft->event->verb.inbox_id,
                  .outcome = answer->code == ERR_NONE ? STR("done")
                             : draft->event->kind == EVENT_SIGNAL && answer->code == ERR_CONFLICT
                                 ? STR("conflict")
                                 : STR("refused"),
                  .answer = arena_str(draft->scratch, str_z(answer->text))},
    };
    draft_record(draft, &record);
}

/* --- one record per row --------------------------------------------------------------------- */

/* A store writes each row at most once a unit: of several records for one row the last state
 * stays, at the place of the first, and an insert stays an insert. */
static void decision_compact(const struct run *run, struct run_decision *out, struct arena *scratch)
{
    uint32_t kept = 0;
    uint32_t *first = run_records_rows(out->records, out->records_count, scratch);
    uint32_t *place = arena_array(scratch, uint32_t, out->records_count);
    for (uint32_t i = 0; i < out->records_count; i++) {
        const struct run_record *record = &out->records[i];
        bool is_first = first[i] == i;
        uint32_t at = place[i] = is_first ? kept : place[first[i]];
        enum record_kind kind = is_first ? record->kind : out->records[at].kind;
        out->records[at] = *record;
        out->records[at].kind = kind;
        /* Only what was really claimed is bound to the turn of its claim. */
        if (kind == RECORD_CLAIM && record->effect.state.state != STEP_CLAIMED)
            out->records[at].effect.turn = run->now.turn;
        kept += is_first;
    }
    out->records_count = kept;
}

void run_decide(struct run *run, const struct run_event *event, struct arena *scratch,
                struct run_decision *out)
{
    struct draft draft = {.run = run, .event = event, .scratch = scratch, .out = out};
    *out = (struct run_decision){0};
    run->cut_at = WALL_NONE;
    ASSERT((event->kind == EVENT_START) == (run->now.state == RUN_NONE));
    switch (event->kind) {
    case EVENT_NONE:
    case EVENT_KIND_COUNT: ASSERT(!"an event"); break;
    case EVENT_START: start_decide(&draft); break;
    case EVENT_REPLY: reply_decide(&draft); break;
    case EVENT_DUE: due_decide(&draft); break;
    case EVENT_RECOVER: recover_decide(&draft); break;
    case EVENT_TAKE:
    case EVENT_COMPLETE:
    case EVENT_FAIL:
    case EVENT_HEARTBEAT: task_decide(&draft); break;
    case EVENT_CANCEL: turn_decide(&draft, CAUSE_CANCELLED); break;
    case EVENT_COMPENSATE: turn_decide(&draft, CAUSE_OPERATOR); break;
    case EVENT_PAUSE: pause_decide(&draft, true); break;
    case EVENT_RESUME: pause_decide(&draft, false); break;
    case EVENT_RETRY: retry_decide(&draft); break;
    case EVENT_SETTLE:
    case EVENT_SKIP: by_hand_decide(&draft); break;
    case EVENT_ABANDON: abandon_decide(&draft); break;
    case EVENT_SIGNAL: signal_decide(&draft); break;
    case EVENT_MIGRATE: migrate_decide(&draft); break;
    }
    verb_answer(&draft);
    decision_compact(run, out, scratch);
}

static struct wall heap_due(const struct heap *heap)
{
    const struct heap_node *top = heap_top(heap);
    return top ? (struct wall){top->key} : WALL_NONE;
}

struct wall run_due(const struct run *run)
{
    if (run->now.state == RUN_QUEUED && !run->now.paused)
        return run->start.start_at;
    if (!is_active(run))
        return WALL_NONE;
    struct wall due = wall_first(run->cut_at, heap_due(&run->waits));
    if (!run->now.paused)
        due = wall_first(due, heap_due(&run->retries));
    if (!wall_is_set(run->start.deadline_at))
        return due;
    bool turnable = run->now.direction == DIRECTION_EXECUTE && !forward_pivot_passed(run) &&
                    !forward_pivot_open(run);
    return turnable ? wall_first(due, run->start.deadline_at) : due;
}
