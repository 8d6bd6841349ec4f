/*
 * test_scenarios.c: decisions as readable traces.
 *
 * Each tests/golden/decide/NAME.scenario is a claim in one comment, a workflow, `---`, and events
 * at the start of a line; what the core decides stands indented below each event. The test replays
 * the events and compares the whole file. UPDATE=1 writes what it got, to be read before it is
 * committed.
 *
 *     start {"n": 1}                 submit with this input
 *     start_in DURATION {"n": 1}     the same, to start later
 *     signal NAME [DATA]
 *     reply STEP STATUS [BODY]       an HTTP answer to the newest attempt; undo:STEP means its
 *                                    compensation, STEP.ITEM the item of a loop
 *     reply STEP WORD                no_answer, not_connected, local_shortage, cannot_send,
 *                                    not_sent, sql SQLSTATE, sql_open, exec CODE, timeout
 *     reply STEP child_END [BODY]    done, undone, abandoned, refused, started
 *     told STEP STATUS|WORD [BODY]   the same, an answer to the newest question of a reconcile
 *     told_late DURATION STEP ...    the same, to a question that was asked so long ago
 *     wait DURATION                  time passes
 *     due                            time passes up to run_due, then DUE
 *     locked                         the run holds the lock that it asked for
 *     recover                        as after a load: claimed attempts were taken over
 *     restored                       the same, in a database that was restored: the rows may be old
 *     reload                         forget the image, rebuild it from the rows
 *     room SERVICE N [M]             from here on so many requests may go to the service, M of them
 *                                    repeats; `open DURATION`: its breaker is
 *     look                           DUE now, as when a gate wakes the run
 *     cancel|pause|resume|compensate|abandon
 *     retry [input JSON | step_input JSON]
 *     approve|reject STEP [HASH]
 *     answer KEY applied|refused [JSON]    the participant says so by itself
 *     answer KEY attempt N applied|refused [JSON]    what its daemon heard without its lease
 *     settle STEP applied|not_applied [force]    skip STEP
 *     dry_run STEP                   a person looks at what the step would do
 *     take STEP [as NAME]            a worker takes the task; its token is kept under that name
 *     complete|fail|fail_for_now|heartbeat STEP [as NAME] [JSON]    with that token
 */
#include "dsl/dsl.h"
#include "engine/decide.h"
#include "engine/key.h"
#include "engine/render.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define FOLDER "tests/golden/decide"
#define ROWS_MAX 256
#define TAKES_MAX 16

struct scene {
    struct plan *plan;
    struct run *run;
    struct wall now, started;
    struct buf out;
    struct arena arena; /* of the whole scenario: rows keep their texts here */
    struct record_start start;
    struct record_run run_row;
    bool has_run_row;
    struct record_effect effects[ROWS_MAX];
    struct record_signal signals[8];
    struct record_input inputs[8];
    uint32_t effects_count, events, signals_count, inputs_count;
    struct {
        struct str name, token;
    } takes[TAKES_MAX];
    unsigned takes_count;
    struct gate_room rooms[8];
    bool limited;
};

static struct str word_next(struct str *line)
{
    while (line->len && line->ptr[0] == ' ') {
        line->ptr++;
        line->len--;
    }
    const char *end = line->len ? memchr(line->ptr, ' ', line->len) : NULL;
    struct str word = {line->ptr, end ? (size_t)(end - line->ptr) : line->len};
    line->ptr += word.len;
    line->len -= word.len;
    return word;
}

static struct str rest_of(struct str line)
{
    while (line.len && line.ptr[0] == ' ') {
        line.ptr++;
        line.len--;
    }
    return line;
}

/* --- what the core decided, as text ----------------------------------------------------------- */

static void time_print(struct scene *scene, const char *what, struct wall at)
{
    struct arena scratch = {0};
    if (wall_is_set(at))
        buf_printf(&scene->out, ", %s +" STR_FMT, what,
                   STR_ARG(duration_format(at.us - scene->started.us, &scratch)));
    arena_free(&scratch);
}

/* "undo:send.3" */
static void ref_print(struct scene *scene, const struct effect_ref *ref)
{
    buf_printf(&scene->out, "%s%s", ref->direction == DIRECTION_COMPENSATE ? "undo:" : "",
               scene->plan->steps[ref->step].id);
    if (ref->item.len)
        buf_printf(&scene->out, "." STR_FMT, STR_ARG(ref->item));
}

static void effect_print(struct scene *scene, const struct run_record *record)
{
    const struct effect_state *side = &record->effect.state;
    const char *verb = record->kind == RECORD_CLAIM    ? "insert"
                       : record->kind == RECORD_EFFECT ? "update"
                                                       : "begin ";
    buf_printf(&scene->out, "    %s ", verb);
    ref_print(scene, &record->effect.ref);
    if (side->generation > 1)
        buf_printf(&scene->out, "@%u", side->generation);
    buf_printf(&scene->out, " %s", step_state_name(side->state));
    if (side->waits_for)
        buf_printf(&scene->out, " for %s", waits_for_name(side->waits_for));
    if (side->attempts)
        buf_printf(&scene->out, ", attempts %u", side->attempts);
    if (side->attempts_free)
        buf_printf(&scene->out, " (%u free)", side->attempts_free);
    if (side->outcome != OUTCOME_NONE && side->outcome != OUTCOME_APPLIED)
        buf_printf(&scene->out, ", %s", outcome_name(side->outcome));
    if (side->maybe_applied)
        buf_add_z(&scene->out, ", maybe applied");
    if (side->by_hand)
        buf_add_z(&scene->out, ", by hand");
    if (side->output_invalid)
        buf_add_z(&scene->out, ", output invalid");
    time_print(scene, "next", side->next_at);
    if (side->state == STEP_UNKNOWN && wall_is_set(side->next_at))
        time_print(scene, "asked until", side->ask_until);
    if (side->items.ptr && record->kind == RECORD_CLAIM)
        buf_printf(&scene->out, ", items " STR_FMT, STR_ARG(side->items));
    if (side->output.ptr)
        buf_printf(&scene->out, ", output " STR_FMT, STR_ARG(side->output));
    if (side->error.ptr && side->state != STEP_CLAIMED)
        buf_printf(&scene->out, "\n        error " STR_FMT, STR_ARG(side->error));
    buf_add_char(&scene->out, '\n');
}

static void record_print(struct scene *scene, const struct run_record *record)
{
    switch (record->kind) {
    case RECORD_START: buf_add_z(&scene->out, "    run started\n"); break;
    case RECORD_CLAIM:
    case RECORD_EFFECT:
    case RECORD_BEGUN: effect_print(scene, record); break;
    case RECORD_ATTEMPT:
        buf_printf(&scene->out, "    attempt %u of ", record->attempt.number);
        ref_print(scene, &record->attempt.ref);
        buf_printf(&scene->out, " was %s\n", outcome_name(record->attempt.outcome));
        break;
    case RECORD_FINDING:
        buf_printf(&scene->out, "    found %u (%s) about ", record->finding.number,
                   finding_source_name(record->finding.source));
        ref_print(scene, &record->finding.ref);
        buf_printf(&scene->out, ": %s, " STR_FMT "\n", outcome_name(record->finding.says),
                   STR_ARG(record->finding.detail));
        break;
    case RECORD_RUN:
        buf_printf(&scene->out, "    run %s", run_state_name(record->run.state));
        if (record->run.paused)
            buf_add_z(&scene->out, ", paused");
        if (record->run.reason)
            buf_printf(&scene->out, ", because %s", park_reason_name(record->run.reason));
        if (record->run.cause)
            buf_printf(&scene->out, ", turned back by %s", run_cause_name(record->run.cause));
        if (record->run.output.ptr)
            buf_printf(&scene->out, ", output " STR_FMT, STR_ARG(record->run.output));
        if (record->run.error.ptr)
            buf_printf(&scene->out, "\n        error " STR_FMT, STR_ARG(record->run.error));
        if (record->run.residue.ptr)
            buf_printf(&scene->out, "\n        residue " STR_FMT, STR_ARG(record->run.residue));
        buf_add_char(&scene->out, '\n');
        break;
    case RECORD_EVENT:
        buf_printf(&scene->out, "    event %u: " STR_FMT " " STR_FMT " " STR_FMT "\n",
                   record->event.seq, STR_ARG(record->event.what), STR_ARG(record->event.step),
                   STR_ARG(record->event.detail));
        break;
    case RECORD_PIN: break;
    case RECORD_APPROVAL:
        buf_printf(&scene->out, "    approval of ");
        ref_print(scene, &record->approval.ref);
        buf_printf(&scene->out, " %s", approval_name(record->approval.state));
        time_print(scene, "until", record->approval.expires_at);
        if (record->approval.request.ptr)
            buf_printf(&scene->out, "\n        " STR_FMT "\n        asks " STR_FMT ": " STR_FMT,
                       STR_ARG(record->approval.request), STR_ARG(record->approval.by),
                       STR_ARG(record->approval.message));
        buf_add_char(&scene->out, '\n');
        break;
    case RECORD_INPUT:
        buf_printf(&scene->out, "    input %u from claim %u: " STR_FMT "\n", record->input.number,
                   record->input.from_claim, STR_ARG(record->input.input));
        break;
    case RECORD_SIGNAL:
        buf_printf(&scene->out, "    signal " STR_FMT " " STR_FMT "\n",
                   STR_ARG(record->signal.name), STR_ARG(record->signal.data));
        break;
    case RECORD_INBOX:
    case RECORD_NONE:
    case RECORD_KIND_COUNT: break;
    }
}

static void command_print(struct scene *scene, const struct run_command *command)
{
    const struct request *request = &command->rendered.request;
    if (command->kind == COMMAND_ROLLBACK) {
        buf_add_z(&scene->out, "    roll back\n");
        return;
    }
    if (command->kind == COMMAND_LOCK) {
        buf_add_z(&scene->out, "    ask for the lock\n");
        return;
    }
    if (command->kind == COMMAND_CHILD_CANCEL) {
        buf_printf(&scene->out, "    tell " STR_FMT " to turn back\n",
                   STR_ARG(command->rendered.child));
        return;
    }
    if (command->kind == COMMAND_OFFER) {
        buf_printf(&scene->out, "    offer " STR_FMT " in " STR_FMT "\n",
                   STR_ARG(command->offer.key), STR_ARG(command->offer.queue));
        return;
    }
    bool asks = command->kind == COMMAND_ASK;
    buf_printf(&scene->out, "    %s " STR_FMT " #%u", asks ? "ask about" : "send",
               STR_ARG(asks ? command->rendered.reconciles : command->rendered.key_sent),
               command->attempt);
    if (command->rendered.child.ptr)
        buf_printf(&scene->out, ": run " STR_FMT " of %s", STR_ARG(command->rendered.child),
                   request->action->child.workflow);
    else if (request->target.ptr)
        buf_printf(&scene->out, ": %s " STR_FMT, http_method_name(request->action->http.method),
                   STR_ARG(request->target));
    if (request->body.ptr)
        buf_printf(&scene->out, " " STR_FMT, STR_ARG(request->body));
    buf_add_char(&scene->out, '\n');
}

static void rehearsal_print(struct scene *scene, const struct run_rehearsal *rehearsal)
{
    const struct request *request = &rehearsal->dry_run.request;
    char hash[65];
    sha256_hex(&rehearsal->action_hash, hash);
    assert_null(rehearsal->dry_run.key.ptr);
    assert_null(rehearsal->dry_run.key_sent.ptr);
    buf_printf(&scene->out, "    shows " STR_FMT " (%.12s): %s " STR_FMT "%s" STR_FMT "\n",
               STR_ARG(rehearsal->dry_run.instance), hash,
               http_method_name(request->action->http.method), STR_ARG(request->target),
               request->body.ptr ? " " : "", STR_ARG(request->body));
}

/* --- the rows, so that a reload can be played --------------------------------------------------
 */

static bool same_effect(const struct effect_ref *a, const struct effect_ref *b)
{
    return a->step == b->step && a->direction == b->direction && a->generation == b->generation &&
           str_eq(a->item, b->item);
}

static void row_keep(struct scene *scene, const struct run_record *from)
{
    struct run_record record = *from;
    if (record.kind == RECORD_BEGUN)
        return;
    run_record_copy(&record, &scene->arena);
    if (record.kind == RECORD_START)
        scene->start = record.start;
    if (record.kind == RECORD_EVENT) {
        scene->events = record.event.seq;
        if (str_eq(record.event.what, STR(RUN_EVENT_TRUSTED)))
            scene->start.suspect_from = WALL_NONE;
    }
    if (record.kind == RECORD_SIGNAL) {
        assert_true(scene->signals_count < ARRAY_LEN(scene->signals));
        scene->signals[scene->signals_count++] = record.signal;
    }
    if (record.kind == RECORD_INPUT) {
        assert_true(scene->inputs_count < ARRAY_LEN(scene->inputs));
        scene->inputs[scene->inputs_count++] = record.input;
    }
    if (record.kind == RECORD_RUN) {
        scene->run_row = record.run;
        scene->has_run_row = true;
    }
    if (record.kind != RECORD_CLAIM && record.kind != RECORD_EFFECT)
        return;
    uint32_t at = 0;
    while (at < scene->effects_count && !same_effect(&scene->effects[at].ref, &record.effect.ref))
        at++;
    assert_true((record.kind == RECORD_CLAIM) == (at == scene->effects_count));
    assert_true(at < ROWS_MAX);
    if (at < scene->effects_count) /* a store fixes the items when it inserts the row */
        record.effect.state.items = scene->effects[at].state.items;
    scene->effects[at] = record.effect;
    scene->effects_count = MAX(scene->effects_count, at + 1);
}

static bool is_newest(const struct scene *scene, uint32_t index)
{
    struct effect_ref newer = scene->effects[index].ref;
    newer.generation++;
    for (uint32_t i = 0; i < scene->effects_count; i++)
        if (same_effect(&scene->effects[i].ref, &newer))
            return false;
    return true;
}

static void reload(struct scene *scene, bool crashed)
{
    run_free(scene->run);
    scene->run = run_new(scene->plan, STR("r1"));
    run_apply(scene->run, &(struct run_record){.kind = RECORD_START, .start = scene->start});
    for (uint32_t i = 0; i < scene->effects_count; i++) {
        if (crashed && scene->effects[i].state.state == STEP_CLAIMED)
            scene->effects[i].state.pickups++;
        if (is_newest(scene, i))
            run_apply(scene->run,
                      &(struct run_record){.kind = RECORD_CLAIM, .effect = scene->effects[i]});
    }
    for (uint32_t i = 0; i < scene->inputs_count; i++)
        run_apply(scene->run,
                  &(struct run_record){.kind = RECORD_INPUT, .input = scene->inputs[i]});
    for (uint32_t i = 0; i < scene->signals_count; i++)
        run_apply(scene->run,
                  &(struct run_record){.kind = RECORD_SIGNAL, .signal = scene->signals[i]});
    if (scene->has_run_row)
        run_apply(scene->run, &(struct run_record){.kind = RECORD_RUN, .run = scene->run_row});
    run_apply(scene->run,
              &(struct run_record){.kind = RECORD_EVENT, .event = {.seq = scene->events}});
}

/* --- playing ------------------------------------------------------------------------------------
 */

static void task_print(struct scene *scene, const struct run_task *task)
{
    if (task->key.ptr) {
        buf_printf(&scene->out, "    handed out " STR_FMT " #%u " STR_FMT, STR_ARG(task->key),
                   task->attempt, STR_ARG(task->payload));
        if (task->compensates.ptr)
            buf_printf(&scene->out, ", compensates " STR_FMT, STR_ARG(task->compensates));
        scene->takes[scene->takes_count++].token = arena_str(&scene->arena, task->token);
        assert_true(scene->takes_count < TAKES_MAX);
    } else {
        buf_add_z(&scene->out, "    told");
    }
    time_print(scene, "until", task->deadline_at);
    buf_printf(&scene->out, "%s\n", task->turned_back ? ", the run has turned back" : "");
}

static void decide(struct scene *scene, struct run_event *event)
{
    struct arena scratch = {0};
    struct run_decision decision;
    event->now = scene->now;
    event->rooms = scene->limited ? scene->rooms : NULL;
    run_decide(scene->run, event, &scratch, &decision);
    for (uint32_t i = 0; i < decision.records_count; i++) {
        record_print(scene, &decision.records[i]);
        row_keep(scene, &decision.records[i]);
    }
    if (decision.commit_action)
        buf_add_z(&scene->out, "    commit the records with the SQL action\n");
    for (uint32_t i = 0; i < decision.commands_count; i++)
        command_print(scene, &decision.commands[i]);
    if (decision.task)
        task_print(scene, decision.task);
    if (decision.rehearsal)
        rehearsal_print(scene, decision.rehearsal);
    if (decision.answer.code)
        buf_printf(&scene->out, "    refused (%s): %s\n", err_code_name(decision.answer.code),
                   decision.answer.text);
    if (!decision.records_count && !decision.commands_count && !decision.answer.code &&
        !decision.task && !decision.rehearsal)
        buf_add_z(&scene->out, "    nothing\n");
    const char *broken = run_check(scene->run);
    if (broken)
        buf_printf(&scene->out, "    BROKEN: %s\n", broken);
    arena_free(&scratch);
}

/* Forgets the run before: a scenario may start several. */
static void scene_forget(struct scene *scene)
{
    run_free(scene->run);
    scene->run = NULL;
    scene->has_run_row = false;
    scene->effects_count = scene->events = scene->signals_count = scene->inputs_count = 0;
}

static void play_start(struct scene *scene, struct str input, int64_t delay_us)
{
    struct run_event event = {.kind = EVENT_START};
    event.start.input = input.len ? input : STR("{}");
    event.start.created_at = scene->now;
    if (scene->plan->deadline_us)
        event.start.deadline_at = wall_add(scene->now, delay_us + scene->plan->deadline_us);
    if (delay_us)
        event.start.start_at = wall_add(scene->now, delay_us);
    const struct json *parsed;
    struct err err;
    assert_int_equal(json_parse(event.start.input, &scene->arena, &parsed, &err), 0);
    assert_int_equal(render_lock(scene->plan, parsed, &scene->arena, &event.start.lock, &err), 0);
    scene_forget(scene);
    scene->run = run_new(scene->plan, STR("r1"));
    decide(scene, &event);
}

/* "undo:charge", "send.3" -> the instance and its direction. */
static struct instance *instance_read(struct scene *scene, struct str name,
                                      enum direction *direction)
{
    *direction = DIRECTION_EXECUTE;
    if (str_starts(name, STR("undo:"))) {
        *direction = DIRECTION_COMPENSATE;
        name.ptr += 5;
        name.len -= 5;
    }
    const char *dot = memchr(name.ptr, '.', name.len);
    struct str id = {name.ptr, dot ? (size_t)(dot - name.ptr) : name.len};
    struct str item = dot ? (struct str){dot + 1, name.len - id.len - 1} : STR("");
    uint16_t step = plan_step_find(scene->plan, id);
    assert_true(step != PLAN_STEP_NONE);
    struct instance *instance = run_instance(scene->run, step, item);
    assert_non_null(instance);
    return instance;
}

static void reply_read(struct str what, struct str rest, struct reply *reply)
{
    static const struct request_pair json = {{"content-type", 12}, {"application/json", 16}};
    static struct request_pair retry_after[2];
    rest = rest_of(rest);
    if (what.ptr[0] >= '0' && what.ptr[0] <= '9') {
        reply->kind = REPLY_HTTP;
        reply->status = atoi(what.ptr);
        reply->headers = &json;
        reply->headers_count = 1;
        if (str_starts(rest, STR("retry-after "))) {
            retry_after[0] = json;
            retry_after[1] =
                (struct request_pair){STR("retry-after"), {rest.ptr + 12, rest.len - 12}};
            reply->headers = retry_after;
            reply->headers_count = 2;
        } else {
            reply->body = rest.len ? rest : STR_NONE;
        }
    } else if (str_starts(what, STR("child_"))) {
        reply->kind = REPLY_CHILD;
        reply->child = child_end_of((struct str){what.ptr + 6, what.len - 6});
        assert_true(reply->child != CHILD_NONE);
        reply->body = rest.len ? rest : STR_NONE;
        reply->error = reply->child == CHILD_REFUSED ? STR("no such child") : STR_NONE;
    } else if (str_eq(what, STR("timeout"))) {
        reply->kind = REPLY_NO_ANSWER;
        reply->timed_out = true;
        reply->error = STR("no answer in time");
    } else if (str_eq(what, STR("exec"))) {
        reply->kind = REPLY_EXEC;
        reply->status = atoi(rest.ptr);
    } else if (str_eq(what, STR("sql_open"))) {
        reply->kind = REPLY_SQL_OPEN;
        reply->body = STR("{\"rows\":[],\"count\":1}");
    } else if (str_eq(what, STR("sql"))) {
        reply->kind = REPLY_SQL;
        snprintf(reply->sqlstate, sizeof(reply->sqlstate), "%.5s", rest.ptr);
        reply->error = STR("the database refused");
    } else {
        reply->kind = str_eq(what, STR("no_answer"))        ? REPLY_NO_ANSWER
                      : str_eq(what, STR("not_connected"))  ? REPLY_NOT_CONNECTED
                      : str_eq(what, STR("local_shortage")) ? REPLY_LOCAL_SHORTAGE
                      : str_eq(what, STR("not_sent"))       ? REPLY_NOT_SENT
                                                            : REPLY_CANNOT_SEND;
        reply->error = STR("it broke");
    }
}

static void play_reply(struct scene *scene, struct str rest, bool asked, int64_t ago_us)
{
    struct reply reply = {.sent_at = {scene->now.us - ago_us}, .ended_at = scene->now};
    struct run_event event = {.kind = EVENT_REPLY};
    enum direction direction;
    struct instance *instance = instance_read(scene, word_next(&rest), &direction);
    struct str what = word_next(&rest);
    const struct effect_state *side = instance_side(instance, direction);
    reply_read(what, rest, &reply);
    event.reply.ref =
        (struct effect_ref){instance->step, instance->item, direction, side->generation};
    event.reply.attempt = asked ? side->findings : side->attempts;
    event.reply.asked = asked;
    event.reply.reply = &reply;
    decide(scene, &event);
}

static void play_verb(struct scene *scene, struct str verb, struct str rest)
{
    struct run_event event = {.kind = run_event_of(verb)};
    if (event.kind < EVENT_CANCEL)
        fail_msg("unknown event \"" STR_FMT "\"", STR_ARG(verb));
    if (event.kind == EVENT_SIGNAL) {
        event.verb.name = word_next(&rest);
        event.verb.output = rest_of(rest).len ? rest_of(rest) : STR_NONE;
        event.verb.actor = STR("tester");
        decide(scene, &event);
        return;
    }
    if (event.kind == EVENT_ANSWER) { /* answer KEY [attempt N] applied|refused [JSON] */
        event.verb.name = word_next(&rest);
        struct str word = word_next(&rest);
        if (str_eq_z(word, "attempt")) {
            event.verb.attempt = (uint32_t)atoi(arena_str(&scene->arena, word_next(&rest)).ptr);
            word = word_next(&rest);
        }
        event.verb.applied = str_eq_z(word, "applied");
        event.verb.output = rest_of(rest).len ? rest_of(rest) : STR_NONE;
        event.verb.reason = STR("called back");
        event.verb.actor = STR("tester");
        decide(scene, &event);
        return;
    }
    if (event.kind == EVENT_APPROVE || event.kind == EVENT_REJECT) { /* approve STEP [HASH] */
        event.verb.step = word_next(&rest);
        event.verb.name = word_next(&rest);
        event.verb.reason = STR("told to");
        event.verb.actor = STR("tester");
        decide(scene, &event);
        return;
    }
    if (event.kind == EVENT_RETRY) { /* retry [input JSON | step_input JSON] */
        struct str what = word_next(&rest);
        if (str_eq(what, STR("input")))
            event.verb.input = rest_of(rest);
        else if (str_eq(what, STR("step_input")))
            event.verb.step_input = rest_of(rest);
    } else {
        event.verb.step = word_next(&rest);
    }
    event.verb.by_parent = str_eq(event.verb.step, STR("by_parent"));
    if (event.verb.by_parent)
        event.verb.step = STR("");
    event.verb.applied = str_eq(word_next(&rest), STR("applied"));
    event.verb.force = str_eq(word_next(&rest), STR("force"));
    event.verb.reason = STR("told to");
    event.verb.actor = STR("tester");
    decide(scene, &event);
}

static struct str token_of(const struct scene *scene, struct str name)
{
    for (unsigned i = scene->takes_count; i-- > 0;)
        if (!name.len || str_eq(scene->takes[i].name, name))
            return scene->takes[i].token;
    return STR("none");
}

static void play_task(struct scene *scene, struct str word, struct str rest)
{
    struct reply reply = {.kind = REPLY_WORKER, .sent_at = scene->now, .ended_at = scene->now};
    bool for_now = str_eq(word, STR("fail_for_now"));
    struct run_event event = {.kind = for_now ? EVENT_FAIL : run_event_of(word)};
    struct arena scratch = {0};
    enum direction direction;
    struct instance *instance = instance_read(scene, word_next(&rest), &direction);
    struct str name = STR("");
    rest = rest_of(rest);
    if (str_starts(rest, STR("as "))) {
        word_next(&rest);
        name = word_next(&rest);
    }
    rest = rest_of(rest);
    reply.failed = event.kind == EVENT_FAIL;
    reply.retryable = for_now;
    reply.body = rest.len ? rest : STR_NONE;
    reply.error = STR("it said so");
    event.task.key = key_make(
        STR("r1"), key_instance(&scene->plan->steps[instance->step], instance->item, &scratch),
        direction, MAX(instance_side(instance, direction)->generation, (uint16_t)1), &scratch);
    event.task.token = token_of(scene, name);
    event.task.reply = &reply;
    unsigned before = scene->takes_count;
    decide(scene, &event);
    if (scene->takes_count > before)
        scene->takes[before].name = name;
    arena_free(&scratch);
}

static void play_room(struct scene *scene, struct str rest)
{
    struct str name = word_next(&rest), word = word_next(&rest);
    int64_t duration_us;
    uint16_t service = 0;
    while (!str_eq_z(name, scene->plan->services[service].name))
        assert_true(++service < scene->plan->services_count);
    assert_true(scene->plan->services_count <= ARRAY_LEN(scene->rooms));
    for (uint16_t i = 0; !scene->limited && i < scene->plan->services_count; i++)
        scene->rooms[i] = (struct gate_room){.sends = UINT32_MAX, .repeats = UINT32_MAX};
    scene->limited = true;
    struct gate_room *room = &scene->rooms[service];
    *room = (struct gate_room){.reason = GATE_LIMIT};
    if (str_eq(word, STR("open"))) {
        assert_true(duration_parse(word_next(&rest), &duration_us));
        room->reason = GATE_BREAKER;
        room->open_until = wall_add(scene->now, duration_us);
        return;
    }
    room->sends = room->repeats = (uint32_t)atoi(word.ptr);
    if (rest_of(rest).len)
        room->repeats = (uint32_t)atoi(rest_of(rest).ptr);
}

static void play_line(struct scene *scene, struct str line)
{
    struct str rest = line;
    struct str word = word_next(&rest);
    int64_t duration_us;
    if (str_eq(word, STR("start"))) {
        play_start(scene, rest_of(rest), 0);
    } else if (str_eq(word, STR("start_in"))) {
        assert_true(duration_parse(word_next(&rest), &duration_us));
        play_start(scene, rest_of(rest), duration_us);
    } else if (str_eq(word, STR("reply"))) {
        play_reply(scene, rest, false, 0);
    } else if (str_eq(word, STR("told"))) {
        play_reply(scene, rest, true, 0);
    } else if (str_eq(word, STR("told_late"))) {
        assert_true(duration_parse(word_next(&rest), &duration_us));
        play_reply(scene, rest, true, duration_us);
    } else if (str_eq(word, STR("wait"))) {
        assert_true(duration_parse(word_next(&rest), &duration_us));
        scene->now = wall_add(scene->now, duration_us);
    } else if (str_eq(word, STR("due"))) {
        struct wall due = run_due(scene->run);
        struct arena scratch = {0};
        if (wall_is_set(due)) {
            scene->now.us = MAX(scene->now.us, due.us);
            buf_printf(&scene->out, "    at +" STR_FMT "\n",
                       STR_ARG(duration_format(scene->now.us - scene->started.us, &scratch)));
            decide(scene, &(struct run_event){.kind = EVENT_DUE});
        } else {
            buf_add_z(&scene->out, "    never\n");
        }
        arena_free(&scratch);
    } else if (str_eq(word, STR("room"))) {
        play_room(scene, rest);
    } else if (str_eq(word, STR("look"))) {
        decide(scene, &(struct run_event){.kind = EVENT_DUE});
    } else if (str_eq(word, STR("locked"))) {
        decide(scene, &(struct run_event){.kind = EVENT_LOCKED});
    } else if (str_eq(word, STR("recover"))) {
        reload(scene, true);
        decide(scene, &(struct run_event){.kind = EVENT_RECOVER});
    } else if (str_eq(word, STR("restored"))) {
        scene->start.suspect_from = scene->start.created_at;
        reload(scene, true);
        decide(scene, &(struct run_event){.kind = EVENT_RECOVER});
    } else if (str_eq(word, STR("take")) || str_eq(word, STR("complete")) ||
               str_eq(word, STR("fail")) || str_eq(word, STR("fail_for_now")) ||
               str_eq(word, STR("heartbeat"))) {
        play_task(scene, word, rest);
    } else if (str_eq(word, STR("reload"))) {
        reload(scene, false);
    } else {
        play_verb(scene, word, rest);
    }
}

static struct str file_read(const char *path, struct arena *arena)
{
    struct buf text = {0};
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    int c;
    while ((c = fgetc(file)) != EOF)
        buf_add_char(&text, (char)c);
    fclose(file);
    struct str copy = arena_str(arena, buf_str(&text));
    buf_free(&text);
    return copy;
}

static struct plan *plan_make(struct str yaml, const char *path)
{
    struct diags diags;
    diags_init(&diags, path, yaml);
    struct plan *plan = dsl_compile(yaml, NULL, &diags);
    if (!plan) {
        struct buf text = {0};
        diags_sort(&diags);
        diags_print(&diags, false, &text);
        fail_msg("%s", text.data);
    }
    diags_free(&diags);
    return plan;
}

static void scenario_play(const char *path)
{
    struct scene scene = {.now = {INT64_C(1790000000) * SECOND_US}};
    struct str text = file_read(path, &scene.arena);
    const char *line = strstr(text.ptr, "\n---\n");
    assert_non_null(line);
    line += 5;
    scene.started = scene.now;
    buf_add(&scene.out, text.ptr, (size_t)(line - text.ptr));
    scene.plan = plan_make((struct str){text.ptr, (size_t)(line - 4 - text.ptr)}, path);
    while (*line) {
        const char *end = strchr(line, '\n');
        size_t len = end ? (size_t)(end - line) : strlen(line);
        if (len && line[0] != ' ') {
            buf_add(&scene.out, line, len);
            buf_add_char(&scene.out, '\n');
            if (line[0] != '#')
                play_line(&scene, arena_str(&scene.arena, (struct str){line, len}));
        } else if (!len) {
            buf_add_char(&scene.out, '\n');
        }
        line += len + (end ? 1 : 0);
    }
    if (getenv("UPDATE")) {
        FILE *file = fopen(path, "wb");
        assert_non_null(file);
        fwrite(scene.out.data, 1, scene.out.len, file);
        fclose(file);
    } else {
        assert_string_equal(scene.out.data, text.ptr);
    }
    run_free(scene.run);
    plan_unref(scene.plan);
    buf_free(&scene.out);
    arena_free(&scene.arena);
}

static void scenario_test(void **state)
{
    scenario_play(*state);
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static int is_scenario(const struct dirent *entry)
{
    return strstr(entry->d_name, ".scenario") != NULL;
}

int main(void)
{
    struct dirent **names;
    int count = scandir(FOLDER, &names, is_scenario, by_name);
    if (count <= 0) {
        fprintf(stderr, "no scenarios in " FOLDER "\n");
        return 1;
    }
    struct CMUnitTest *tests = xcalloc((size_t)count, sizeof(*tests));
    for (int i = 0; i < count; i++) {
        struct buf path = {0};
        buf_printf(&path, FOLDER "/%s", names[i]->d_name);
        tests[i] = (struct CMUnitTest){
            .name = names[i]->d_name, .test_func = scenario_test, .initial_state = path.data};
    }
    int failed = _cmocka_run_group_tests("decisions", tests, (size_t)count, NULL, NULL);
    for (int i = 0; i < count; i++) {
        free(tests[i].initial_state);
        free(names[i]);
    }
    free(names);
    free(tests);
    return failed;
}
