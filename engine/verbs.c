/*
 * verbs.c: what people, parents and participants say of a run. Each is one decision: obeyed, or
 * refused with the reason in out->answer; a repeated one is obeyed already.
 */
#include "engine/decide_impl.h"

#include "dsl/jsonschema.h"
#include "engine/answer.h"
#include "engine/approval.h"
#include "engine/ask.h"
#include "engine/attempt.h"
#include "engine/forward.h"
#include "engine/key.h"
#include "engine/rehearsal.h"
#include "engine/repin.h"
#include "engine/suspect.h"
#include "engine/task.h"
#include "engine/unknown.h"
#include "engine/wait.h"

#include <stdarg.h>
#include <stdio.h>

#define NAMES_IN_HINT 3

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

/* As the verbs name a side: "charge", "charge:compensate". */
static struct str side_name(const struct draft *draft, const struct instance *instance,
                            enum direction direction)
{
    struct str name = decide_instance_name(draft, instance);
    return direction != DIRECTION_COMPENSATE
               ? name
               : arena_printf(draft->scratch, STR_FMT ":%s", STR_ARG(name),
                              direction_name(DIRECTION_COMPENSATE));
}

/* A completed run is undone while its window is open, a completed child when its parent asks. */
static bool may_be_undone(const struct draft *draft)
{
    const struct run *run = draft->run;
    int64_t window_us = run->plan->compensatable_for_us;
    if (run->now.state != RUN_COMPLETED || draft->event->kind != EVENT_COMPENSATE)
        return false;
    if (run->start.parent.len)
        return draft->event->verb.by_parent;
    return window_us && draft->event->now.us <= wall_add(run->now.ended_at, window_us).us;
}

/* Why a completed run does not turn back, and what would make it. */
static const char *window_text(const struct draft *draft)
{
    int64_t window_us = draft->run->plan->compensatable_for_us;
    bool cancel = draft->event->kind == EVENT_CANCEL;
    if (draft->run->start.parent.len)
        return ": it is undone when its parent turns back";
    if (!window_us)
        return ", and its workflow has no `compensatable_for`";
    struct wall until = wall_add(draft->run->now.ended_at, window_us);
    bool open = draft->event->now.us <= until.us;
    return arena_printf(draft->scratch,
                        cancel && open ? ": until " STR_FMT " `compensate` undoes it"
                                       : ", and it could be undone until " STR_FMT,
                        STR_ARG(wall_format(until, draft->scratch)))
        .ptr;
}

/* On the way back nothing is left to turn: what stopped it is to be decided. Only a late success of
 * an abandoned run waits for a person's word that it is to be undone. */
static void parked_back_decide(struct draft *draft, enum run_cause cause)
{
    const struct run *run = draft->run;
    if (run->now.reason == PARK_LATE_SUCCESS) {
        verb_event(draft, STR(""));
        decide_unpark(draft);
        decide_recover_lost(draft, PARK_LATE_SUCCESS);
        decide_due(draft);
    } else if (run->now.cause != cause) { /* else a repeated verb, obeyed already */
        refuse(draft, ERR_CONFLICT,
               "the run goes back already, and is parked (%s): `retry`, `settle` or `skip` what "
               "stopped it, or `abandon`",
               park_reason_name(run->now.reason));
    }
}

static void turn_decide(struct draft *draft, enum run_cause cause)
{
    cause = draft->event->verb.by_parent ? CAUSE_PARENT : cause;
    const struct run *run = draft->run;
    const struct instance *open;
    if (run->now.direction == DIRECTION_COMPENSATE && run->now.state == RUN_PARKED &&
        cause != CAUSE_PARENT) {
        parked_back_decide(draft, cause);
        return;
    }
    if (run->now.direction == DIRECTION_COMPENSATE && run->now.state != RUN_ABANDONED)
        return; /* already going back, or done with it: a repeated verb is obeyed by that */
    if (run->now.state == RUN_QUEUED && run->now.reason != PARK_NONE) {
        refuse(draft, ERR_CONFLICT,
               "the run was abandoned and waits for its lock: it is parked once it holds it, or "
               "abandon it again");
        return;
    }
    if (run_state_is_terminal(run->now.state) && !may_be_undone(draft)) {
        refuse(draft, ERR_CONFLICT, "the run has ended %s%s", state_name(draft),
               run->now.state == RUN_COMPLETED ? window_text(draft) : "");
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
               decide_step(draft, open)->id);
        return;
    }
    verb_event(draft, STR(""));
    decide_recover_lost(draft, run->now.reason);
    decide_turn(draft, cause, NULL);
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
         instance && decide_is_active(draft->run);
         instance = run_instance_next(draft->run, instance)) {
        task_recover(draft, instance, DIRECTION_EXECUTE);
        task_recover(draft, instance, DIRECTION_COMPENSATE);
    }
    decide_due(draft);
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
                   "\"" STR_FMT "\" names no step: they are named as charge, send.3 (an item of a "
                   "loop), charge:execute (its action) or charge:compensate (its undo)",
                   STR_ARG(draft->event->verb.step));
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
    const struct plan_step *step = decide_step(draft, instance);
    struct str name = side_name(draft, instance, direction);
    const struct effect_state *side = instance_side((struct instance *)instance, direction);
    if (side->outcome == OUTCOME_CONFLICT) {
        refuse(draft, ERR_CONFLICT,
               "step \"" STR_FMT "\" is a key_conflict: settle it, skip it or abandon the run",
               STR_ARG(name));
        return false;
    }
    if (suspect_is_held(side))
        return true; /* with the retry, a person vouches that it was not applied */
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

/* Why a refused side takes a new key: kept with it. */
static struct str renewal_text(struct draft *draft)
{
    return arena_printf(draft->scratch, "refused, then retried by " STR_FMT ": " STR_FMT,
                        STR_ARG(draft->event->verb.actor), STR_ARG(draft->event->verb.reason));
}

static void retry_side(struct draft *draft, struct instance *instance, enum direction direction)
{
    const struct plan_action *action = step_action(decide_step(draft, instance), direction);
    const struct effect_state *side = instance_side(instance, direction);
    struct str given = draft->event->verb.step_input;
    bool changed = given.ptr || draft->event->verb.input.ptr;
    /* A refusal may be stored at the participant under the old key, so a person's retry of one
     * takes a new generation; anything that may have been applied, or may still be, keeps it. */
    if (side->state == STEP_REFUSED && wants_back(draft))
        return; /* the run will not go on forward: nothing new is sent */
    if (side->state == STEP_REFUSED && direction == DIRECTION_EXECUTE && !side->claim_no)
        forward_start(draft, instance); /* its `if` could not be read */
    else if (side->state == STEP_REFUSED && side->outcome == OUTCOME_REFUSED &&
             (changed || !action->idempotency.forgets_failures || !side->attempts))
        attempt_renew(draft, instance, direction, renewal_text(draft), given);
    else if (side->state == STEP_UNKNOWN && action->reconcile)
        ask_again(draft, instance, direction);
    else { /* due at once */
        if (suspect_is_held(side))
            suspect_release(draft, instance, direction);
        attempt_reopen(draft, instance, direction, &action->retry);
    }
}

/* The run id that the workflow makes of an input; absent: none, or not of the input alone. */
static struct str run_id_of(const struct draft *draft, const struct json *input)
{
    const struct template *template = draft->run->plan->run_id;
    struct expr_scope scope = {.input = input, .index = -1, .now = draft->event->now};
    struct str out = STR_NONE;
    struct err err;
    if (!template ||
        template_render_text(template, &scope, TEXT_PLAIN, draft->scratch, &out, &err) != 0)
        return STR_NONE;
    return out;
}

/* A run is the one of its business key: under another key it would stand beside that key's own run,
 * and both would do the same business. */
static bool business_key_check(struct draft *draft, const struct json *corrected)
{
    const struct json *first;
    struct err err;
    if (json_parse(draft->run->start.input, draft->scratch, &first, &err) != 0)
        return true;
    struct str was = run_id_of(draft, first), would = run_id_of(draft, corrected);
    if (!was.ptr || !would.ptr || !str_eq(was, draft->run->id) || str_eq(would, was))
        return true;
    refuse(draft, ERR_INVALID,
           "input: its run would be \"" STR_FMT "\": a corrected input is for the same run_id; "
           "compensate this one and start the other",
           STR_ARG(would));
    return false;
}

/* The corrected input must be one that a submit would take. False after refusing. */
static bool input_check(struct draft *draft, const struct json **out)
{
    const struct plan *plan = draft->run->plan;
    struct schema_errors errors = {0};
    struct err err;
    *out = NULL;
    if (!draft->event->verb.input.ptr)
        return true;
    if (json_parse(draft->event->verb.input, draft->scratch, out, &err) != 0) {
        refuse(draft, ERR_INVALID, "input: %s", err.text);
        return false;
    }
    if ((*out)->kind != JSON_OBJECT) {
        refuse(draft, ERR_INVALID, "input: it must be an object");
        return false;
    }
    if (!plan->input || schema_check(plan->input, *out, draft->scratch, &errors))
        return business_key_check(draft, *out);
    refuse(draft, ERR_INVALID, "input: " STR_FMT,
           STR_ARG(schema_errors_text(&errors, draft->scratch)));
    return false;
}

/* Other bytes need another key, and only what was refused for certain may have one. */
static bool step_input_check(struct draft *draft, const struct instance *instance,
                             enum direction direction)
{
    const struct plan_action *action = step_action(decide_step(draft, instance), direction);
    const struct effect_state *side = instance_side((struct instance *)instance, direction);
    struct str name = side_name(draft, instance, direction);
    const struct json *given;
    struct err err;
    if (json_parse(draft->event->verb.step_input, draft->scratch, &given, &err) != 0) {
        refuse(draft, ERR_INVALID, "step input: %s", err.text);
        return false;
    }
    const char *problem = render_given_problem(action, given);
    if (problem) {
        refuse(draft, ERR_INVALID, "step \"" STR_FMT "\" cannot take another input: %s",
               STR_ARG(name), problem);
        return false;
    }
    if (side->state == STEP_REFUSED && side->outcome == OUTCOME_REFUSED && side->claim_no)
        return true;
    refuse(draft, ERR_CONFLICT,
           "step \"" STR_FMT "\" keeps its key, and with it its request: only what was refused for "
           "certain can be sent with another one",
           STR_ARG(name));
    return false;
}

/* A corrected input that would not reach what has stopped would be thought to have been sent. */
static bool input_reaches(struct draft *draft, const struct instance *instance,
                          enum direction direction)
{
    const struct effect_state *side = instance_side((struct instance *)instance, direction);
    bool renewed = side->state == STEP_REFUSED &&
                   (side->outcome == OUTCOME_REFUSED || !side->claim_no || wants_back(draft));
    if (renewed)
        return true;
    struct str name = side_name(draft, instance, direction);
    refuse(draft, ERR_CONFLICT,
           "step \"" STR_FMT "\" keeps its key, and with it the request of the old input: retry "
           "without an input, or compensate it and start another run",
           STR_ARG(name));
    return false;
}

/* Each side that stopped may be sent again; with another step input there must be just one. */
static bool retry_allowed(struct draft *draft)
{
    struct run *run = draft->run;
    bool given = draft->event->verb.step_input.ptr;
    bool corrected = draft->event->verb.input.ptr;
    unsigned stopped = 0;
    for (struct instance *at = run_instance_next(run, NULL); at; at = run_instance_next(run, at)) {
        enum direction direction = stopped_side(run, at);
        if (direction == DIRECTION_NONE)
            continue;
        stopped++;
        if (!retry_check(draft, at, direction) ||
            (corrected && !input_reaches(draft, at, direction)) ||
            (given && !step_input_check(draft, at, direction)))
            return false;
    }
    if (given && stopped != 1) {
        refuse(draft, ERR_CONFLICT, "%u steps have stopped: a step input is for one", stopped);
        return false;
    }
    return true;
}

static void input_correct(struct draft *draft)
{
    struct run_record record = {
        .kind = RECORD_INPUT,
        .input = {.number = draft->run->inputs_count + 1,
                  .from_claim = draft->run->claims + 1,
                  .direction = draft->run->now.direction,
                  .input = draft->event->verb.input,
                  .at = draft->event->now,
                  .actor = draft->event->verb.actor},
    };
    draft_record(draft, &record);
}

/* True after refusing what would let an abandoned run go on where it stopped: whoever started it
 * may have done its work in another way since. */
static bool forward_is_over(struct draft *draft)
{
    const struct record_run *now = &draft->run->now;
    if (now->state != RUN_PARKED || now->reason != PARK_LATE_SUCCESS ||
        now->direction != DIRECTION_EXECUTE)
        return false;
    refuse(draft, ERR_CONFLICT,
           "the run was abandoned and does not go forward again: compensate it, or abandon it");
    return true;
}

static void retry_decide(struct draft *draft)
{
    struct run *run = draft->run;
    const struct json *input;
    if (run->now.state != RUN_PARKED) {
        refuse(draft, ERR_CONFLICT, "the run is %s, only a parked run can be retried",
               state_name(draft));
        return;
    }
    if (forward_is_over(draft))
        return;
    if (!input_check(draft, &input) || !retry_allowed(draft))
        return;
    enum park_reason reason = run->now.reason;
    verb_event(draft, STR(""));
    if (reason == PARK_SUSPECT)
        suspect_trust(draft);
    if (input)
        input_correct(draft);
    decide_unpark(draft);
    for (struct instance *instance = run_instance_next(run, NULL); instance;
         instance = run_instance_next(run, instance)) {
        enum direction direction = stopped_side(run, instance);
        if (direction != DIRECTION_NONE)
            retry_side(draft, instance, direction);
    }
    decide_recover_lost(draft, reason);
    decide_due(draft);
}

/* The newest evidence says otherwise than the person. */
static bool contradicts(const struct effect_state *side, bool applied)
{
    bool says_applied = side->found == OUTCOME_APPLIED || side->found == OUTCOME_IN_PROGRESS;
    bool says_not = side->found == OUTCOME_REFUSED || side->found == OUTCOME_RETRYABLE;
    return applied ? says_not : says_applied;
}

/* What these verbs are for in this run, as they name it: ": what can be settled is \"a\", \"b\"".
 */
static struct str by_hand_hint(const struct draft *draft)
{
    bool settle = draft->event->kind == EVENT_SETTLE;
    struct buf list = {0};
    unsigned count = 0;
    for (struct instance *at = run_instance_next(draft->run, NULL); at;
         at = run_instance_next(draft->run, at)) {
        enum direction direction = stopped_side(draft->run, at);
        if (direction == DIRECTION_NONE ||
            (settle && instance_side(at, direction)->state != STEP_UNKNOWN))
            continue;
        if (count < NAMES_IN_HINT)
            buf_printf(&list, "%s\"" STR_FMT "\"", count ? ", " : "",
                       STR_ARG(side_name(draft, at, direction)));
        count++;
    }
    struct str hint = STR("");
    if (count)
        hint = arena_printf(draft->scratch, "; what can be %s is " STR_FMT "%s",
                            settle ? "settled" : "skipped", STR_ARG(buf_str(&list)),
                            count > NAMES_IN_HINT ? " and others" : "");
    buf_free(&list);
    return hint;
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
    struct str name = side_name(draft, instance, direction);
    enum step_state wanted = !settle                      ? STEP_SKIPPED
                             : draft->event->verb.applied ? STEP_APPLIED
                                                          : STEP_REFUSED;
    if (side.by_hand && side.state == wanted)
        return; /* a repeated decision is obeyed already */
    if (run_state_is_terminal(draft->run->now.state)) {
        refuse(draft, ERR_CONFLICT, "the run has ended %s", state_name(draft));
        return;
    }
    if (forward_is_over(draft))
        return;
    bool parked = draft->run->now.state == RUN_PARKED;
    /* A person may know before the participant can tell. */
    bool asked = settle && unknown_is_asked(&side);
    bool fits = side.state == STEP_UNKNOWN || (!settle && side.state == STEP_REFUSED);
    /* A compensation that turned out not to be needed stays as it is. */
    if (direction == DIRECTION_COMPENSATE && unwind_is_over(draft->run, instance))
        fits = false;
    if (!fits || (!parked && !asked)) {
        refuse(draft, ERR_CONFLICT,
               "step \"" STR_FMT "\" is %s in a run that is %s: nothing to %s" STR_FMT,
               STR_ARG(name), step_state_name(side.state), state_name(draft),
               settle ? "settle" : "skip", STR_ARG(by_hand_hint(draft)));
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
                    step_action(decide_step(draft, instance), direction)->kind == ACTION_CHILD;
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
    verb_event(draft, decide_instance_name(draft, instance));
    draft_effect(draft, instance, direction, &side);
    decide_recover_lost(draft, draft->run->now.reason);
    if (parked)
        decide_unpark(draft);
    if (again && conflict) {
        attempt_renew(
            draft, instance, direction,
            arena_printf(draft->scratch, "settled as not applied by " STR_FMT ": " STR_FMT,
                         STR_ARG(draft->event->verb.actor), STR_ARG(draft->event->verb.reason)),
            STR_NONE);
    } else if (again) {
        const struct plan_action *action = step_action(decide_step(draft, instance), direction);
        attempt_reopen(draft, instance, direction, &action->retry);
    }
    decide_due(draft);
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
    if (draft->out->records_count && decide_is_active(draft->run))
        decide_advance(draft);
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

static void approve_decide(struct draft *draft)
{
    struct instance *instance = named_instance(draft, draft->event->verb.step);
    if (!instance)
        return;
    if (!approval_decide(draft, instance))
        return;
    verb_event(draft, decide_instance_name(draft, instance));
    if (decide_is_active(draft->run))
        decide_advance(draft);
}

/* The key names the side. What is told of an earlier generation is history. */
static void answer_decide(struct draft *draft)
{
    struct run *run = draft->run;
    struct str name, key = draft->event->verb.name;
    enum direction direction;
    uint16_t generation;
    struct instance *instance = NULL;
    if (key_parse(key, &name, &direction, &generation))
        instance = run_instance_named(run, name);
    const struct effect_state *side = instance ? instance_side(instance, direction) : NULL;
    if (!side || !side->attempts || generation > side->generation) {
        refuse(draft, ERR_NOT_FOUND, "nothing was sent under the key \"" STR_FMT "\"",
               STR_ARG(key));
        return;
    }
    const struct plan_action *action = step_action(decide_step(draft, instance), direction);
    if (action->kind == ACTION_CHILD || action_kind_waits(action->kind)) {
        refuse(draft, ERR_CONFLICT, "what becomes of a %s is not told from outside",
               action_kind_name(action->kind));
        return;
    }
    if (generation < side->generation) {
        draft_event(draft, "late answer", decide_instance_name(draft, instance),
                    arena_printf(draft->scratch, "%s, about key generation %u",
                                 draft->event->verb.applied ? "applied" : "refused", generation));
        return;
    }
    struct answer answer = {.applied = draft->event->verb.applied,
                            .attempt = draft->event->verb.attempt,
                            .output = draft->event->verb.output,
                            .text = draft->event->verb.reason,
                            .actor = draft->event->verb.actor};
    if (answer_take(draft, instance, direction, &answer))
        decide_ended(draft);
}

static void dry_run_decide(struct draft *draft)
{
    const struct instance *instance = named_instance(draft, draft->event->verb.step);
    if (instance)
        rehearsal_decide(draft, instance);
}

void verb_decide(struct draft *draft)
{
    switch (draft->event->kind) {
    case EVENT_CANCEL: turn_decide(draft, CAUSE_CANCELLED); break;
    case EVENT_COMPENSATE: turn_decide(draft, CAUSE_OPERATOR); break;
    case EVENT_PAUSE: pause_decide(draft, true); break;
    case EVENT_RESUME: pause_decide(draft, false); break;
    case EVENT_RETRY: retry_decide(draft); break;
    case EVENT_SETTLE:
    case EVENT_SKIP: by_hand_decide(draft); break;
    case EVENT_ABANDON: abandon_decide(draft); break;
    case EVENT_SIGNAL: signal_decide(draft); break;
    case EVENT_MIGRATE: migrate_decide(draft); break;
    case EVENT_APPROVE:
    case EVENT_REJECT: approve_decide(draft); break;
    case EVENT_ANSWER: answer_decide(draft); break;
    case EVENT_DRY_RUN: dry_run_decide(draft); break;
    case EVENT_NONE:
    case EVENT_START:
    case EVENT_REPLY:
    case EVENT_DUE:
    case EVENT_RECOVER:
    case EVENT_LOCKED:
    case EVENT_TAKE:
    case EVENT_COMPLETE:
    case EVENT_FAIL:
    case EVENT_HEARTBEAT:
    case EVENT_KIND_COUNT: ASSERT(!"a verb");
    }
}
