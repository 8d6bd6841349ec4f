#include "engine/decide.h"

#include "engine/admit.h"
#include "engine/answer.h"
#include "engine/approval.h"
#include "engine/ask.h"
#include "engine/attempt.h"
#include "engine/base/map.h"
#include "engine/decide_impl.h"
#include "engine/forward.h"
#include "engine/key.h"
#include "engine/retry.h"
#include "engine/suspect.h"
#include "engine/task.h"
#include "engine/unknown.h"
#include "engine/wait.h"

#include <stdlib.h>

const struct plan_step *decide_step(const struct draft *draft, const struct instance *instance)
{
    return &draft->run->plan->steps[instance->step];
}

struct str decide_instance_name(const struct draft *draft, const struct instance *instance)
{
    return instance ? key_instance(decide_step(draft, instance), instance->item, draft->scratch)
                    : STR("");
}

/* --- parking and turning ------------------------------------------------------------------- */

void decide_park(struct draft *draft, enum park_reason reason, const struct instance *step)
{
    struct record_run now = draft->run->now;
    now.state = RUN_PARKED;
    now.reason = reason;
    now.residue = unwind_residue(draft->run, draft->scratch);
    draft_run(draft, &now);
    draft_event(draft, "parked", decide_instance_name(draft, step),
                str_z(park_reason_name(reason)));
}

/* The run's error: the first failure, with the step that it came from. */
static struct str run_error(struct draft *draft, enum run_cause cause, const struct instance *step)
{
    const struct json *error;
    struct err err;
    struct json *out = json_object_new(draft->scratch, 5);
    json_object_add_z(out, "step",
                      step ? json_string(draft->scratch, decide_instance_name(draft, step))
                           : &json_null);
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

void decide_backward(struct draft *draft)
{
    struct unwind_result result = unwind_advance(draft);
    if (result.verdict == UNWIND_PARK)
        decide_park(draft, result.reason, result.step);
}

struct wall decide_compensate_until(const struct draft *draft)
{
    int64_t budget_us = draft->run->plan->compensation_budget_us;
    return budget_us ? wall_add(draft->event->now, budget_us) : WALL_NONE;
}

/* The run waits until it is told that it holds its lock. */
static void lock_ask(struct draft *draft)
{
    draft->run->lock_asked = true;
    draft->run->lock_held = false;
    draft_command(draft, &(struct run_command){.kind = COMMAND_LOCK});
}

/* A run lets go of its lock with its end: one that is opened again waits for it first. */
static enum run_state back_state(const struct run *run)
{
    return run->start.lock.len && run_state_is_terminal(run->now.state) ? RUN_QUEUED
                                                                        : RUN_COMPENSATING;
}

/* The run is in the state of back_state. */
static void back_begin(struct draft *draft)
{
    if (draft->run->now.state == RUN_QUEUED)
        lock_ask(draft);
    else
        decide_backward(draft);
}

/* One transaction raises the turn and sets the direction; from here nothing is claimed forward. */
void decide_turn(struct draft *draft, enum run_cause cause, const struct instance *step)
{
    struct record_run now = draft->run->now;
    ASSERT(now.direction == DIRECTION_EXECUTE);
    now.state = back_state(draft->run);
    now.direction = DIRECTION_COMPENSATE;
    now.turn++;
    now.cause = cause;
    now.reason = PARK_NONE;
    now.residue = STR_NONE;
    now.ended_at = WALL_NONE; /* a completed child goes back */
    now.output = STR_NONE;
    now.compensate_until = decide_compensate_until(draft);
    if (!now.error.ptr)
        now.error = run_error(draft, cause, step);
    draft_run(draft, &now);
    draft_event(draft, "turned back", decide_instance_name(draft, step),
                str_z(run_cause_name(cause)));
    unwind_begin(draft);
    back_begin(draft);
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

void decide_advance(struct draft *draft)
{
    if (draft->run->now.direction == DIRECTION_COMPENSATE) {
        decide_backward(draft);
        return;
    }
    struct forward_result result = forward_advance(draft);
    if (result.verdict == FORWARD_TURN)
        decide_turn(draft, result.cause, result.step);
    else if (result.verdict == FORWARD_DONE)
        run_complete(draft);
    else if (result.verdict == FORWARD_PARK)
        decide_park(draft, result.reason, result.step);
}

/* --- events -------------------------------------------------------------------------------- */

bool decide_is_active(const struct run *run)
{
    return run->now.state == RUN_RUNNING || run->now.state == RUN_COMPENSATING;
}

/* A run that was opened again holds its lock again. */
static void queued_again(struct draft *draft)
{
    struct record_run now = draft->run->now;
    if (now.reason == PARK_LATE_SUCCESS) {
        decide_park(draft, PARK_LATE_SUCCESS, NULL);
        return;
    }
    now.state = RUN_COMPENSATING;
    now.compensate_until = decide_compensate_until(draft);
    draft_run(draft, &now);
}

static bool is_new(const struct run *run)
{
    return run->now.state == RUN_QUEUED && run->now.direction == DIRECTION_EXECUTE &&
           run->now.reason == PARK_NONE;
}

/* It waits for its lock or its place, and its deadline counts. */
static bool waits_forward(const struct run *run)
{
    return is_new(run) && (run->start.lock.len || run->place_wanted);
}

/* A queued run begins once its time has come, it holds its lock, and its tenant has a place for it:
 * in this order, so that a place is never kept for one that waits for others. */
static void queued_due(struct draft *draft)
{
    struct run *run = draft->run;
    const struct run_event *event = draft->event;
    struct record_run now = run->now;
    if (now.state != RUN_QUEUED)
        return;
    if (event->kind == EVENT_LOCKED) {
        run->lock_asked = false;
        run->lock_held = true;
    }
    bool waited = waits_forward(run);
    run->place_wanted = false;
    if (waited && wall_passed(run->start.deadline_at, event->now)) {
        decide_turn(draft, CAUSE_DEADLINE, NULL);
        return;
    }
    if (now.paused || event->hold ||
        (wall_is_set(run->start.start_at) && !wall_passed(run->start.start_at, event->now)))
        return;
    if (run->start.lock.len && !run->lock_held) {
        lock_ask(draft);
        return;
    }
    run->place_wanted = is_new(run) && event->no_place;
    if (run->place_wanted)
        return;
    if (!is_new(run)) {
        queued_again(draft);
        return;
    }
    now.state = RUN_RUNNING;
    draft_run(draft, &now);
}

static void start_decide(struct draft *draft)
{
    draft_record(draft, &(struct run_record){.kind = RECORD_START, .start = draft->event->start});
    queued_due(draft);
    if (decide_is_active(draft->run)) /* else it is queued */
        decide_advance(draft);
}

/* The side has ended otherwise in the meantime: the answer is evidence, and counts where it is one
 * about the key that is current. */
static void reply_late(struct draft *draft, struct instance *instance)
{
    const struct effect_ref *ref = &draft->event->reply.ref;
    const struct reply *reply = draft->event->reply.reply;
    const struct effect_state *side = instance_side(instance, ref->direction);
    struct verdict verdict = {0};
    if (reply->kind == REPLY_SQL_OPEN) /* its record is not this one */
        draft_command(draft, &(struct run_command){.kind = COMMAND_ROLLBACK});
    else if (side->generation == ref->generation && reply->kind != REPLY_CHILD)
        attempt_judge(draft, instance, ref->direction, reply, &verdict);
    if (verdict.outcome == OUTCOME_APPLIED || verdict.outcome == OUTCOME_REFUSED) {
        struct answer answer = {.applied = verdict.outcome == OUTCOME_APPLIED,
                                .output = verdict.output,
                                .text = arena_printf(draft->scratch, "the answer to attempt %u",
                                                     draft->event->reply.attempt)};
        if (answer_take(draft, instance, ref->direction, &answer))
            decide_ended(draft);
        return;
    }
    draft_event(draft, "late answer", decide_instance_name(draft, instance),
                str_z(reply_kind_name(reply->kind)));
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
        if (decide_is_active(draft->run))
            decide_advance(draft);
        return;
    }
    bool current = side->state == STEP_CLAIMED && side->generation == ref->generation &&
                   side->attempts == draft->event->reply.attempt;
    if (!current || run_state_is_terminal(draft->run->now.state)) {
        reply_late(draft, instance);
        return;
    }
    attempt_reply(draft, instance, ref->direction, draft->event->reply.reply);
    if (decide_is_active(draft->run))
        decide_advance(draft);
}

/* What is due for one direction of one instance. */
static void side_due(struct draft *draft, struct instance *instance, enum direction direction)
{
    const struct effect_state *side = instance_side(instance, direction);
    if (!wall_passed(side->next_at, draft->event->now) &&
        !admit_has_room(draft, instance, direction))
        return;
    if (side_is_held(side)) {
        if (!draft->run->now.paused && !draft->event->hold)
            attempt_repeat(draft, instance, direction);
        return;
    }
    if (approval_is_pending(side)) {
        approval_expire(draft, instance);
        return;
    }
    bool worker = step_action(decide_step(draft, instance), direction)->kind == ACTION_WORKER;
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

/* And those that waited for room at their service, which has some now. */
static void admitted_collect(const struct draft *draft, struct due_node **list, size_t *count)
{
    const struct heap *heap = &draft->run->retries;
    for (size_t i = 1; draft->run->held && i <= heap->count; i++) {
        struct due_node *due = CONTAINER_OF(heap->nodes[i], struct due_node, node);
        if (heap->nodes[i]->key > draft->event->now.us &&
            admit_has_room(draft, due_instance(due), due->direction))
            list[(*count)++] = due;
    }
}

static bool is_sent_again(const struct draft *draft, struct due_node *due)
{
    struct instance *instance = due_instance(due);
    const struct effect_state *side = instance_side(instance, due->direction);
    return side->state == STEP_UNKNOWN || ((side->state == STEP_RETRYING || side_is_held(side)) &&
                                           !attempt_is_over(draft, instance, due->direction));
}

void decide_due(struct draft *draft)
{
    struct run *run = draft->run;
    queued_due(draft);
    if (!decide_is_active(run))
        return;
    /* The deadline goes first: it decides whether repeats are still wanted. */
    if (run->now.direction == DIRECTION_EXECUTE)
        decide_advance(draft);
    size_t count = 0;
    struct due_node **list =
        arena_array(draft->scratch, struct due_node *, run->retries.count + run->waits.count);
    due_collect(&run->retries, 1, draft->event->now, list, &count);
    due_collect(&run->waits, 1, draft->event->now, list, &count);
    admitted_collect(draft, list, &count);
    qsort(list, count, sizeof(struct due_node *), by_file_order);
    /* What ends comes before what is sent again: it may turn the run back. */
    for (size_t i = 0; i < count && decide_is_active(run); i++)
        if (!is_sent_again(draft, list[i]))
            side_due(draft, due_instance(list[i]), list[i]->direction);
    if (count && decide_is_active(run))
        decide_advance(draft);
    for (size_t i = 0; i < count && decide_is_active(run); i++)
        if (is_sent_again(draft, list[i]))
            side_due(draft, due_instance(list[i]), list[i]->direction);
    if (decide_is_active(run))
        decide_advance(draft);
}

static void side_recover(struct draft *draft, struct instance *instance, enum direction direction)
{
    const struct effect_state *side = instance_side(instance, direction);
    if (suspect_recover(draft, instance, direction))
        return;
    if (step_action(decide_step(draft, instance), direction)->kind == ACTION_WORKER)
        task_recover(draft, instance, direction); /* its worker may not even have noticed */
    else if (side->state == STEP_CLAIMED)
        attempt_recover(draft, instance, direction);
    else if (unknown_is_asked(side))
        ask_hasten(draft, instance, direction);
}

void decide_recover_sides(struct draft *draft)
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
           step_action(decide_step(draft, instance), direction)->kind != ACTION_WORKER;
}

static void recover_decide(struct draft *draft)
{
    struct run *run = draft->run;
    queued_due(draft);
    if (!decide_is_active(run))
        return;
    for (struct instance *instance = run_instance_next(run, NULL); instance;
         instance = run_instance_next(run, instance))
        if (crash_loops(draft, instance, DIRECTION_EXECUTE) ||
            crash_loops(draft, instance, DIRECTION_COMPENSATE)) {
            decide_park(draft, PARK_CRASH_LOOP, instance);
            return;
        }
    decide_recover_sides(draft);
    decide_due(draft);
}

/* The run leaves `parked` in the direction in which it stopped. */
void decide_unpark(struct draft *draft)
{
    struct record_run now = draft->run->now;
    now.state = now.direction == DIRECTION_EXECUTE ? RUN_RUNNING : RUN_COMPENSATING;
    now.reason = PARK_NONE;
    now.residue = STR_NONE;
    if (now.direction == DIRECTION_COMPENSATE)
        now.compensate_until = decide_compensate_until(draft);
    draft_run(draft, &now);
}

/* A crash loop, a quarantine and a late success park a run with claims whose answers nobody waits
 * for. Whatever makes such a run move again finds out about them first. */
void decide_recover_lost(struct draft *draft, enum park_reason reason)
{
    if (reason != PARK_CRASH_LOOP && reason != PARK_QUARANTINE && reason != PARK_LATE_SUCCESS)
        return;
    decide_recover_sides(draft);
}

/* What the run leaves behind is told anew; its state stays. */
static void residue_renew(struct draft *draft)
{
    struct record_run now = draft->run->now;
    now.residue = now.state == RUN_COMPLETED ? unwind_unknowns(draft->run, draft->scratch)
                                             : unwind_residue(draft->run, draft->scratch);
    draft_run(draft, &now);
}

/* It waited for just such a word, and goes on if nothing else is in the way. */
static bool waits_for_outcome(enum park_reason reason)
{
    return reason == PARK_OUTCOME_UNKNOWN || reason == PARK_COMPENSATION_FAILED ||
           reason == PARK_KEY_CONFLICT || reason == PARK_SUSPECT;
}

/* The run was over: undone, it is undone again; closed by a person, a person is needed. */
static void success_is_late(struct draft *draft)
{
    struct record_run now = draft->run->now;
    bool closed = now.state == RUN_ABANDONED;
    draft_event(draft, "late success", STR(""), STR("the run had ended"));
    now.ended_at = WALL_NONE;
    now.residue = STR_NONE;
    now.state = back_state(draft->run);
    if (closed && now.state == RUN_QUEUED) {
        now.reason = PARK_LATE_SUCCESS; /* parked once it holds its lock */
    } else if (closed) {
        now.state = RUN_ABANDONED;
        draft_run(draft, &now); /* it is open again */
        decide_park(draft, PARK_LATE_SUCCESS, NULL);
        return;
    }
    now.compensate_until = decide_compensate_until(draft);
    draft_run(draft, &now);
    back_begin(draft);
}

void decide_ended(struct draft *draft)
{
    switch (draft->run->now.state) {
    case RUN_RUNNING:
    case RUN_COMPENSATING: decide_advance(draft); return;
    case RUN_PARKED:
        if (!waits_for_outcome(draft->run->now.reason)) {
            residue_renew(draft);
            return;
        }
        decide_unpark(draft);
        decide_due(draft);
        return;
    case RUN_COMPENSATED:
    case RUN_ABANDONED:
        if (unwind_is_open(draft->run))
            success_is_late(draft);
        else
            residue_renew(draft);
        return;
    case RUN_COMPLETED: residue_renew(draft); return; /* it is what the run wanted */
    case RUN_QUEUED: return;                          /* it is seen when the run goes on */
    case RUN_NONE: break;
    }
    ASSERT(!"a run whose sides can end");
}

static void task_decide(struct draft *draft)
{
    bool ended =
        draft->event->kind == EVENT_TAKE ? task_take_decide(draft) : task_report_decide(draft);
    if (ended)
        decide_ended(draft);
}

/* The inbox row that the event came by is settled in the same unit. */
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
                  .code = answer->code,
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
    if (event->kind != EVENT_DRY_RUN) /* which goes on with nothing */
        run->cut_at = WALL_NONE;
    ASSERT((event->kind == EVENT_START) == (run->now.state == RUN_NONE));
    switch (event->kind) {
    case EVENT_NONE:
    case EVENT_KIND_COUNT: ASSERT(!"an event"); break;
    case EVENT_START: start_decide(&draft); break;
    case EVENT_REPLY: reply_decide(&draft); break;
    case EVENT_DUE: decide_due(&draft); break;
    case EVENT_RECOVER: recover_decide(&draft); break;
    case EVENT_LOCKED: decide_due(&draft); break;
    case EVENT_TAKE:
    case EVENT_COMPLETE:
    case EVENT_FAIL:
    case EVENT_HEARTBEAT: task_decide(&draft); break;
    case EVENT_CANCEL:
    case EVENT_COMPENSATE:
    case EVENT_PAUSE:
    case EVENT_RESUME:
    case EVENT_RETRY:
    case EVENT_SETTLE:
    case EVENT_SKIP:
    case EVENT_ABANDON:
    case EVENT_SIGNAL:
    case EVENT_MIGRATE:
    case EVENT_APPROVE:
    case EVENT_REJECT:
    case EVENT_ANSWER:
    case EVENT_DRY_RUN: verb_decide(&draft); break;
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
    if (run->now.state == RUN_QUEUED)
        return wall_first(run->now.paused || run->lock_asked || run->place_wanted
                              ? WALL_NONE
                              : run->start.start_at,
                          waits_forward(run) ? run->start.deadline_at : WALL_NONE);
    if (!decide_is_active(run))
        return WALL_NONE;
    struct wall due = wall_first(run->cut_at, heap_due(&run->waits));
    if (!run->now.paused)
        due = wall_first(due, heap_due(&run->retries));
    bool told = run->budget_told.us == run->now.compensate_until.us;
    if (run->now.direction == DIRECTION_COMPENSATE && !run->now.paused && !told)
        due = wall_first(due, run->now.compensate_until);
    if (!wall_is_set(run->start.deadline_at))
        return due;
    bool turnable = run->now.direction == DIRECTION_EXECUTE && !forward_pivot_passed(run) &&
                    !forward_pivot_open(run);
    return turnable ? wall_first(due, run->start.deadline_at) : due;
}
