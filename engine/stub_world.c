/*
 * stub_world.c: see the header. One daemon, one lane, one submit; the events of one instant happen
 * in the order in which they were asked for.
 */
#include "engine/stub_world.h"

#include <stdarg.h>
#include <stdlib.h>

#include "engine/base/map.h"
#include "engine/base/rand.h"
#include "engine/key.h"
#include "engine/outcome.h"
#include "engine/runner.h"
#include "engine/stub_ask.h"

#define LEAD_US MS_US /* the daemon is there before the client */
/* Whoever hears nothing (the daemon died) asks again after that. */
#define APPROVER "approver"
#define ASK_AGAIN_US (5 * SECOND_US)

struct stub_event {
    struct stub_event *before, *after; /* of the queue */
    int64_t at;
    void (*fn)(struct stub_event *event);
    struct stub_world *world;
    uint64_t incarnation; /* of the daemon that it is meant for */
    void *data;
};

struct message { /* a unit on its way */
    struct unit *unit;
    uint64_t seq, invocation;
    struct unit_answer answer;
};

/* What is sent, for counting and for choosing the answer. */
struct target {
    uint16_t step;
    struct str item;
    enum direction direction;
    bool asks; /* the question about the effect */
};

struct flight { /* an attempt, or a question, on its way */
    struct map_node node;
    uint64_t id;
    const struct plan_action *action;
    struct str service, name;
    struct stub_effect *effect;
    struct test_answer answer;
    int64_t timeout_us, sent_at;
    bool own_database, is_again;
    bool is_made_up; /* a question that nobody has written an answer to */
    uint32_t send;
    struct target target;
    struct reply reply;
};

struct sends { /* how often it was sent: which answer is next */
    struct sends *next;
    struct target target;
    uint32_t count;
};

struct stub_world {
    const struct stub_config *config;
    struct stub_result *out;
    struct arena *arena;             /* the result's */
    struct stub_event *first, *last; /* ascending */
    int64_t now, starts_at;
    uint64_t order;
    struct runner *runner; /* NULL: dead */
    uint64_t incarnation, epoch, seq;
    int64_t turn_at;
    bool row_exists;
    struct map flights;
    struct sends *sends;
    struct stub_effect **effects_tail;
    uint32_t calls_size, asks_size, lines_size, unplayed_size;
};

static void daemon_boots(struct stub_event *event);
static void daemon_poke(struct stub_world *world, int64_t delay_us);

/* --- small things ------------------------------------------------------------------------ */

static int64_t since_submit(const struct stub_world *world)
{
    return world->now - world->starts_at;
}

static void *grown(struct arena *arena, void *list, uint32_t count, uint32_t *size, size_t each)
{
    if (count < *size)
        return list;
    *size = *size ? 2 * *size : 32;
    void *larger = arena_alloc_array(arena, *size, each);
    if (count)
        memcpy(larger, list, count * each);
    return larger;
}

static void tell(struct stub_world *world, const char *fmt, ...) PRINTF_LIKE(2, 3);
static void tell(struct stub_world *world, const char *fmt, ...)
{
    struct stub_result *out = world->out;
    struct buf text = {0};
    va_list args;
    va_start(args, fmt);
    buf_vprintf(&text, fmt, args);
    va_end(args);
    out->lines =
        grown(world->arena, out->lines, out->lines_count, &world->lines_size, sizeof(*out->lines));
    out->lines[out->lines_count++] =
        (struct stub_line){since_submit(world), arena_str(world->arena, buf_str(&text))};
    buf_free(&text);
}

static void broken(struct stub_world *world, const char *what)
{
    if (what && !world->out->broken)
        world->out->broken = arena_strdup(world->arena, what);
}

static struct stub_event *schedule(struct stub_world *world, int64_t delay_us, void *data,
                                   void (*fn)(struct stub_event *event))
{
    struct stub_event *event = arena_new(world->arena, struct stub_event);
    event->fn = fn;
    event->world = world;
    event->incarnation = world->incarnation;
    event->data = data;
    event->at = wall_add((struct wall){world->now}, delay_us).us;
    struct stub_event *before = world->last; /* most events come last, or nearly */
    while (before && before->at > event->at)
        before = before->before;
    event->before = before;
    event->after = before ? before->after : world->first;
    *(before ? &before->after : &world->first) = event;
    *(event->after ? &event->after->before : &world->last) = event;
    return event;
}

static bool event_reaches(const struct stub_event *event)
{
    return event->world->runner && event->incarnation == event->world->incarnation;
}

/* --- the daemon -------------------------------------------------------------------------- */

static void daemon_turn(struct stub_event *event)
{
    struct stub_world *world = event->world;
    if (!event_reaches(event))
        return;
    if (world->turn_at && world->now >= world->turn_at)
        world->turn_at = 0;
    runner_turn(world->runner, (struct wall){world->now});
    struct wall due = runner_due(world->runner);
    if (runner_has_work(world->runner))
        daemon_poke(world, 0);
    else if (wall_is_set(due))
        daemon_poke(world, MAX(due.us - world->now, INT64_C(0)));
}

static void daemon_poke(struct stub_world *world, int64_t delay_us)
{
    int64_t at = world->now + delay_us;
    if (world->turn_at && world->turn_at <= at)
        return;
    world->turn_at = at;
    schedule(world, delay_us, NULL, daemon_turn);
}

static void daemon_crash(struct stub_world *world, const char *when)
{
    tell(world, "the daemon dies %s", when);
    runner_free(world->runner);
    world->runner = NULL;
    world->incarnation++;
    world->turn_at = 0;
    schedule(world, STUB_RESTART_US, NULL, daemon_boots);
}

/* --- the store --------------------------------------------------------------------------- */

static void *stub_encode(void *arg, const struct unit *unit)
{
    struct stub_world *world = arg;
    return stub_unit_copy(unit, world->arena);
}

static void stub_encoded_free(void *arg, void *encoded)
{
    (void)arg, (void)encoded; /* lies in the world's arena */
}

static const struct stub_fault *unit_fault(const struct stub_world *world,
                                           enum stub_fault_kind kind)
{
    for (uint32_t i = 0; i < world->config->faults_count; i++)
        if (world->config->faults[i].kind == kind &&
            world->config->faults[i].unit == world->out->units)
            return &world->config->faults[i];
    return NULL;
}

static struct str effect_name(struct stub_world *world, const struct effect_ref *ref)
{
    struct str name = key_instance(&world->config->plan->steps[ref->step], ref->item, world->arena);
    return ref->direction == DIRECTION_EXECUTE
               ? name
               : arena_printf(world->arena, STR_FMT ":compensate", STR_ARG(name));
}

static struct str error_message(struct stub_world *world, struct str error)
{
    const struct json *value;
    struct err err;
    if (!error.len || json_parse(error, world->arena, &value, &err) != 0)
        return STR("");
    struct str message = json_get_text(value, "message");
    return message.ptr ? message : STR("");
}

/* Each question writes the effect anew; that it is unknown is told once, and again at the end. */
static bool is_still_asked(struct stub_world *world, const struct unit_run *run,
                           const struct run_record *record)
{
    const struct effect_state *state = &record->effect.state;
    const struct effect_ref *ref = &record->effect.ref;
    const struct record_effect *before =
        stub_row_newest(&world->out->row, ref->step, ref->item, ref->direction);
    bool told =
        before && before->state.state == STEP_UNKNOWN && before->ref.generation == ref->generation;
    for (const struct run_record *other = run->records; other < record; other++)
        told = told || (other->kind == RECORD_EFFECT && other->effect.state.state == STEP_UNKNOWN &&
                        other->effect.ref.step == ref->step &&
                        other->effect.ref.direction == ref->direction &&
                        str_eq(other->effect.ref.item, ref->item));
    return state->state == STEP_UNKNOWN && wall_is_set(state->next_at) && told;
}

/* What the calls do not show by themselves. */
static void record_tell(struct stub_world *world, const struct unit_run *run,
                        const struct run_record *record, struct record_run *was)
{
    struct str name, why;
    switch (record->kind) {
    case RECORD_CLAIM:
    case RECORD_EFFECT:
        if (is_still_asked(world, run, record))
            break;
        name = effect_name(world, &record->effect.ref);
        why = error_message(world, record->effect.state.error);
        switch (record->effect.state.state) {
        case STEP_REFUSED:
        case STEP_UNKNOWN:
        case STEP_SKIPPED:
        case STEP_WITHDRAWN:
            tell(world, STR_FMT " is %s%s" STR_FMT, STR_ARG(name),
                 step_state_name(record->effect.state.state), why.len ? ": " : "", STR_ARG(why));
            break;
        case STEP_WAITING: tell(world, STR_FMT " waits", STR_ARG(name)); break;
        case STEP_NONE:
        case STEP_PENDING:
        case STEP_CLAIMED:
        case STEP_RETRYING:
        case STEP_APPLIED: break;
        }
        break;
    case RECORD_RUN:
        if (record->run.state == was->state && record->run.paused == was->paused)
            break;
        *was = record->run;
        tell(world, "the run is %s%s%s%s", run_state_name(record->run.state),
             record->run.state == RUN_PARKED ? ": " : "",
             record->run.state == RUN_PARKED ? park_reason_name(record->run.reason) : "",
             record->run.paused ? ", paused" : "");
        break;
    case RECORD_NONE:
    case RECORD_START:
    case RECORD_ATTEMPT:
    case RECORD_FINDING:
    case RECORD_APPROVAL:
    case RECORD_INPUT:
    case RECORD_EVENT:
    case RECORD_PIN:
    case RECORD_SIGNAL:
    case RECORD_INBOX:
    case RECORD_BEGUN:
    case RECORD_KIND_COUNT: break;
    }
}

static void verb_schedule(struct stub_world *world, int64_t delay_us, const struct test_verb *verb);

static bool is_approval(const char *verb)
{
    return strcmp(verb, "approve") == 0 || strcmp(verb, "reject") == 0;
}

/* What the obliging person says, unless the test itself has somebody say no; NULL: nothing. */
static const char *approval_word(const struct stub_world *world, uint16_t step, struct str name)
{
    const struct stub_config *config = world->config;
    for (uint32_t i = 0; i < config->faults_count; i++)
        if (config->faults[i].kind == STUB_FAULT_REJECT && config->faults[i].step == step)
            return "reject";
    for (uint32_t i = 0; i < config->verbs_count; i++)
        if (strcmp(config->verbs[i].verb, "reject") == 0 && str_eq(config->verbs[i].step, name))
            return NULL;
    return config->approves ? "approve" : NULL;
}

static void approval_give(struct stub_world *world, const struct record_approval *approval)
{
    struct str name = effect_name(world, &approval->ref);
    const char *word = approval_word(world, approval->ref.step, name);
    if (approval->state != APPROVAL_PENDING || !word)
        return;
    struct test_verb *verb = arena_new(world->arena, struct test_verb);
    *verb = (struct test_verb){.verb = word, .step = name, .reason = STR("test"), .name = STR("")};
    verb_schedule(world, 0, verb);
}

static void unit_write(struct stub_world *world, const struct unit *unit)
{
    struct stub_row *row = &world->out->row;
    for (uint32_t i = 0; i < unit->runs_count; i++) {
        const struct unit_run *run = &unit->runs[i];
        struct record_run was = row->now;
        for (uint32_t j = 0; j < run->records_count; j++)
            record_tell(world, run, &run->records[j], &was);
        /* The run's own row first: claims are checked against its turn. */
        for (int pass = 0; pass < 2; pass++)
            for (uint32_t j = 0; j < run->records_count; j++) {
                const struct run_record *record = &run->records[j];
                bool own = record->kind == RECORD_START || record->kind == RECORD_RUN;
                if (own != (pass == 0))
                    continue;
                if (record->kind == RECORD_RUN && record->run.state != row->now.state)
                    world->out->ended_us = since_submit(world);
                broken(world, stub_row_write(row, record));
                if (record->kind == RECORD_APPROVAL)
                    approval_give(world, &record->approval);
            }
        world->row_exists = true;
    }
}

/* apply_v1 as far as one daemon needs it. */
static struct unit_answer unit_apply(struct stub_world *world, const struct message *message)
{
    struct unit_answer answer = {.verdict = UNIT_APPLIED, .db_now = {world->now}};
    if (message->seq != world->seq + 1) {
        answer.verdict = UNIT_GAP;
        return answer;
    }
    world->seq++;
    unit_write(world, message->unit);
    return answer;
}

static void cancel_now(struct stub_event *event);

static void unit_answered(struct stub_event *event)
{
    struct message *message = event->data;
    if (!event_reaches(event))
        return;
    if (message->invocation)
        runner_commit_answer(event->world->runner, message->invocation, &message->answer);
    else
        runner_unit_answer(event->world->runner, &message->answer);
    daemon_poke(event->world, 0);
}

/* Counts the unit; true if the daemon dies before it is written. */
static bool unit_is_lost(struct stub_world *world)
{
    world->out->units++;
    if (!unit_fault(world, STUB_FAULT_CRASH_BEFORE))
        return false;
    daemon_crash(world, "before its record is written");
    return true;
}

static void unit_is_durable(struct stub_world *world, struct message *message)
{
    if (unit_fault(world, STUB_FAULT_CRASH_AFTER)) {
        daemon_crash(world, "after its record is written");
        return;
    }
    if (unit_fault(world, STUB_FAULT_CANCEL))
        schedule(world, 0, NULL, cancel_now);
    schedule(world, 0, message, unit_answered);
}

static void unit_arrived(struct stub_event *event)
{
    struct stub_world *world = event->world;
    struct message *message = event->data;
    if (!event_reaches(event) || unit_is_lost(world))
        return;
    message->answer = unit_apply(world, message);
    unit_is_durable(world, message);
}

static void stub_send(void *arg, void *encoded, uint64_t epoch, uint64_t seq)
{
    struct stub_world *world = arg;
    struct message *message = arena_new(world->arena, struct message);
    message->unit = encoded;
    message->seq = seq;
    ASSERT(epoch == world->epoch);
    schedule(world, 0, message, unit_arrived);
}

static void ledger_effect(struct stub_world *world, struct stub_effect *effect)
{
    effect->known_at_us = world->now;
    if (!effect->effects++) {
        effect->order = ++world->order;
        effect->first_at_us = world->now;
    }
}

/* A repeat under a key that the service remembers does nothing. */
static bool is_known(const struct stub_world *world, struct stub_effect *effect)
{
    bool kept = !effect->ttl_us || world->now <= effect->known_at_us + effect->ttl_us;
    if (!effect->honours_key || !effect->effects)
        return false;
    effect->forgotten = effect->forgotten || !kept;
    return kept;
}

static struct flight *flight_find(struct stub_world *world, uint64_t id)
{
    struct map_node *node = map_first(&world->flights, rand_mix(id));
    for (; node; node = map_next(node)) {
        struct flight *flight = CONTAINER_OF(node, struct flight, node);
        if (flight->id == id)
            return flight;
    }
    return NULL;
}

/* The rows of the action and its record, or neither. */
static void commit_arrived(struct stub_event *event)
{
    struct stub_world *world = event->world;
    struct message *message = event->data;
    if (!event_reaches(event))
        return;
    struct flight *flight = flight_find(world, message->invocation);
    ASSERT(flight);
    if (unit_is_lost(world))
        return;
    message->answer = (struct unit_answer){.verdict = UNIT_APPLIED, .db_now = {world->now}};
    ledger_effect(world, flight->effect);
    unit_write(world, message->unit);
    unit_is_durable(world, message);
}

static void stub_commit(void *arg, uint64_t id, void *encoded)
{
    struct stub_world *world = arg;
    struct message *message = arena_new(world->arena, struct message);
    message->unit = encoded;
    message->invocation = id;
    schedule(world, 0, message, commit_arrived);
}

static void row_load(struct stub_world *world, bool pickups)
{
    uint32_t count;
    struct stub_row *row = &world->out->row;
    const struct run_record *records = stub_row_load(row, pickups, world->arena, &count);
    runner_loaded(world->runner, row->plan, row->id, records, count);
}

static void load_arrived(struct stub_event *event)
{
    struct stub_world *world = event->world;
    const struct stub_row *row = &world->out->row;
    uint64_t *shards = event->data;
    if (!event_reaches(event))
        return;
    bool open =
        world->row_exists && !run_state_is_terminal(row->now.state) && row->now.state != RUN_PARKED;
    if (open && *shards >> shard_of(row->id) & 1)
        row_load(world, true);
    runner_load_done(world->runner, *shards);
    daemon_poke(world, 0);
}

static void stub_load(void *arg, uint64_t shards)
{
    struct stub_world *world = arg;
    uint64_t *which = arena_new(world->arena, uint64_t);
    *which = shards;
    schedule(world, 0, which, load_arrived);
}

static void load_run_arrived(struct stub_event *event)
{
    struct stub_world *world = event->world;
    struct str *run_id = event->data;
    if (!event_reaches(event))
        return;
    if (world->row_exists && str_eq(*run_id, world->out->row.id))
        row_load(world, false);
    runner_load_run_done(world->runner, *run_id, RUN_NONE);
    daemon_poke(world, 0);
}

static void stub_load_run(void *arg, struct str run_id)
{
    struct stub_world *world = arg;
    struct str *which = arena_new(world->arena, struct str);
    *which = arena_str(world->arena, run_id);
    schedule(world, 0, which, load_run_arrived);
}

/* --- the services ------------------------------------------------------------------------ */

static struct stub_effect *ledger_find(struct stub_world *world, struct str key,
                                       const struct plan_action *action,
                                       const struct effect_ref *ref)
{
    struct stub_effect *effect = world->out->effects;
    /* A child's id is its key; what is in our own database is there once. */
    bool own = action->kind == ACTION_CHILD ||
               (action->kind == ACTION_SQL && action->service == PLAN_SERVICE_NONE);
    for (; effect; effect = effect->next)
        if (str_eq(effect->key, key) && effect->step == ref->step)
            return effect;
    effect = arena_new(world->arena, struct stub_effect);
    *effect = (struct stub_effect){
        .key = arena_str(world->arena, key),
        .step = ref->step,
        .item = ref->item,
        .direction = ref->direction,
        .honours_key = own || action->idempotency.ttl_us > 0,
        .ttl_us = own ? 0 : action->idempotency.ttl_us,
        .repeatable = action->effect == EFFECT_PURE || action->effect == EFFECT_IDEMPOTENT ||
                      (action->on_unknown == ON_UNKNOWN_RETRY && !action->idempotency.ttl_us),
    };
    *world->effects_tail = effect;
    world->effects_tail = &effect->next;
    return effect;
}

static bool targets_equal(const struct target *a, const struct target *b)
{
    return a->step == b->step && a->direction == b->direction && a->asks == b->asks &&
           str_eq(a->item, b->item);
}

static uint32_t send_count(struct stub_world *world, const struct target *target)
{
    struct sends *sends = world->sends;
    for (; sends; sends = sends->next)
        if (targets_equal(&sends->target, target))
            return ++sends->count;
    sends = arena_new(world->arena, struct sends);
    *sends = (struct sends){world->sends, *target, 1};
    world->sends = sends;
    return 1;
}

/* A fault has changed what the action answers, so what the test says to questions about it is
 * another story: the ledger tells. */
static bool is_overtaken(const struct stub_world *world, const struct target *target)
{
    for (uint32_t i = 0; i < world->config->faults_count && target->asks; i++) {
        const struct stub_fault *fault = &world->config->faults[i];
        if (fault->kind == STUB_FAULT_ANSWER && fault->step == target->step && !fault->asks &&
            fault->compensation == (target->direction == DIRECTION_COMPENSATE))
            return true;
    }
    return false;
}

/* A test's own answers for an item win over those for all items of its step. */
static const struct test_answers *answers_find(const struct stub_world *world,
                                               const struct target *target)
{
    const struct test_answers *found = NULL;
    bool compensation = target->direction == DIRECTION_COMPENSATE;
    if (is_overtaken(world, target))
        return NULL;
    for (uint32_t i = 0; i < world->config->answers_count; i++) {
        const struct test_answers *answers = &world->config->answers[i];
        if (answers->step != target->step || answers->compensation != compensation ||
            answers->asks != target->asks || !answers->count)
            continue;
        if (str_eq(answers->item, target->item))
            return answers;
        if (!answers->item.len)
            found = answers;
    }
    return found;
}

/* The fault of that kind at this send; NULL: there is none. */
static const struct stub_fault *fault_find(const struct stub_world *world,
                                           enum stub_fault_kind kind, const struct target *target,
                                           uint32_t send)
{
    for (uint32_t i = 0; i < world->config->faults_count; i++) {
        const struct stub_fault *fault = &world->config->faults[i];
        if (fault->kind == kind && fault->step == target->step && fault->asks == target->asks &&
            fault->compensation == (target->direction == DIRECTION_COMPENSATE) &&
            send >= fault->first && send <= fault->last)
            return fault;
    }
    return NULL;
}

/* What is not written goes as usual: then `*usual` is set. */
static struct test_answer answer_choose(const struct stub_world *world, const struct target *target,
                                        uint32_t send, bool *usual)
{
    const struct stub_fault *fault = fault_find(world, STUB_FAULT_ANSWER, target, send);
    const struct test_answers *answers = answers_find(world, target);
    *usual = !fault && !answers;
    if (fault)
        return fault->answer;
    if (answers)
        return answers->list[MIN(send, answers->count) - 1];
    return (struct test_answer){.kind = TEST_ANSWER_REPLY, .after_us = -1};
}

static bool is_duplicated(const struct stub_world *world, const struct flight *flight)
{
    for (uint32_t i = 0; i < world->config->faults_count; i++)
        if (world->config->faults[i].kind == STUB_FAULT_DUPLICATE &&
            world->config->faults[i].step == flight->target.step &&
            world->config->faults[i].compensation ==
                (flight->target.direction == DIRECTION_COMPENSATE))
            return true;
    return false;
}

static const struct request_pair *headers_make(struct stub_world *world, const struct json *headers,
                                               uint16_t *count)
{
    *count = headers ? (uint16_t)headers->count : 0;
    struct request_pair *pairs = arena_array(world->arena, struct request_pair, *count);
    for (uint16_t i = 0; i < *count; i++)
        pairs[i] = (struct request_pair){headers->members[i].name, headers->members[i].value->text};
    return pairs;
}

/* What the service says, were it to arrive. */
static void reply_make(struct stub_world *world, struct flight *flight)
{
    const struct test_answer *answer = &flight->answer;
    struct reply *reply = &flight->reply;
    bool is_output = flight->target.direction == DIRECTION_EXECUTE && !flight->target.asks;
    struct str usual = is_output && world->config->outputs
                           ? world->config->outputs[flight->effect->step]
                           : STR("{}");
    reply->body = answer->body.ptr ? answer->body : usual;
    switch (flight->action->kind) {
    case ACTION_HTTP:
        reply->kind = REPLY_HTTP;
        reply->status = answer->status ? answer->status : 200;
        reply->headers = headers_make(world, answer->headers, &reply->headers_count);
        if (!answer->body.ptr && reply->status >= 300)
            reply->body = STR_NONE;
        return;
    case ACTION_EXEC:
        reply->kind = REPLY_EXEC;
        reply->status = answer->exit;
        reply->stderr_text = answer->stderr_text;
        return;
    case ACTION_SQL:
        reply->kind = flight->own_database && !answer->sqlstate[0] ? REPLY_SQL_OPEN : REPLY_SQL;
        memcpy(reply->sqlstate, answer->sqlstate, sizeof(reply->sqlstate));
        if (!answer->body.ptr)
            reply->body = str_eq(usual, STR("{}")) ? STR("{\"rows\":[],\"count\":1}") : usual;
        return;
    case ACTION_CHILD: /* played by the test: it is not started here */
        reply->kind = REPLY_CHILD;
        reply->child = flight->action->child.detached ? CHILD_STARTED : CHILD_DONE;
        if (answer->child_end)
            reply->child = child_end_of(str_z(answer->child_end));
        if (reply->child != CHILD_DONE && !answer->body.ptr)
            reply->body = STR_NONE;
        return;
    case ACTION_WORKER:
        reply->kind = REPLY_WORKER;
        reply->failed = answer->failed;
        reply->retryable = answer->retryable;
        reply->code = answer->code;
        reply->error = answer->message;
        if (reply->failed && !answer->body.ptr)
            reply->body = STR_NONE;
        return;
    case ACTION_SLEEP:
    case ACTION_UNTIL:
    case ACTION_WAIT_FOR:
    case ACTION_NONE: break;
    }
    ASSERT(!"a kind that is sent");
}

static void no_step(const void *arg, uint16_t step, struct arena *scratch, struct expr_step *out)
{
    (void)arg, (void)step, (void)scratch;
    *out = (struct expr_step){.state = STR("applied")};
}

/* What has become of it at the service, by its own answer: what the workflow makes of that. Rules
 * that look at more than the answer and the input count as not matching. */
static enum outcome work_outcome(struct stub_world *world, const struct flight *flight)
{
    struct verdict verdict;
    struct expr_scope scope = {.input = world->config->input,
                               .env = world->config->env,
                               .index = -1,
                               .run_id = world->config->run_id,
                               .key = flight->effect->key,
                               .now = {world->now},
                               .started_at = {world->starts_at},
                               .step = no_step};
    if (flight->answer.kind == TEST_ANSWER_LOST || flight->answer.done == TEST_DONE_YES)
        return OUTCOME_APPLIED;
    outcome_judge(flight->action, &flight->reply, &scope, world->arena, &verdict);
    if (verdict.outcome == OUTCOME_APPLIED && flight->answer.done == TEST_DONE_NO)
        return OUTCOME_RETRYABLE;
    return verdict.outcome;
}

/* What it was asked to do has arrived; true: it is done now, or was before. */
static bool work_done(struct stub_world *world, struct flight *flight)
{
    struct stub_effect *effect = flight->effect;
    struct target question = flight->target;
    enum outcome outcome = work_outcome(world, flight);
    question.asks = true;
    effect->requests++;
    effect->refused = outcome == OUTCOME_REFUSED;
    /* What is accepted will be done; when, only those answers know that the test itself gives. */
    if (outcome == OUTCOME_IN_PROGRESS && flight->action->reconcile &&
        flight->answer.done != TEST_DONE_NO) {
        effect->accepted = answers_find(world, &question) != NULL;
        outcome = effect->accepted ? OUTCOME_IN_PROGRESS : OUTCOME_APPLIED;
    }
    if (outcome != OUTCOME_APPLIED)
        return false;
    if (!effect->output.ptr)
        effect->output = flight->reply.body;
    return true;
}

/* Whoever hears nothing (the daemon is away) says it again. */
static void called_back(struct stub_event *event)
{
    struct stub_world *world = event->world;
    struct stub_effect *effect = event->data;
    struct runner_verb verb = {.kind = EVENT_ANSWER,
                               .run_id = world->config->run_id,
                               .name = effect->key,
                               .applied = effect->effects > 0,
                               .output = effect->output,
                               .reason = STR("called back"),
                               .actor = STR("test")};
    struct err err;
    if (!world->runner || runner_verb(world->runner, &verb, NULL, NULL, &err) != 0) {
        schedule(world, 100 * MS_US, effect, called_back);
        return;
    }
    tell(world, "the service says by itself that " STR_FMT " is %s", STR_ARG(effect->key),
         verb.applied ? "applied" : "refused");
    daemon_poke(world, 0);
}

static void call_back(struct stub_world *world, struct flight *flight)
{
    const struct stub_fault *fault =
        fault_find(world, STUB_FAULT_CALLBACK, &flight->target, flight->send);
    if (fault)
        schedule(world, fault->after_us, flight->effect, called_back);
}

static void reply_arrived(struct stub_event *event)
{
    struct flight *flight = event->data;
    if (!event_reaches(event))
        return;
    flight->reply.ended_at = (struct wall){event->world->now};
    runner_reply(event->world->runner, flight->id, &flight->reply);
    daemon_poke(event->world, 0);
}

static void said(const struct reply *reply, struct buf *out)
{
    switch (reply->kind) {
    case REPLY_HTTP: buf_printf(out, "%d", reply->status); break;
    case REPLY_EXEC: buf_printf(out, "exit %d", reply->status); break;
    case REPLY_SQL:
    case REPLY_SQL_OPEN: buf_printf(out, "%s", reply->sqlstate[0] ? reply->sqlstate : "ok"); break;
    case REPLY_CHILD: buf_add_z(out, "ended"); break;
    case REPLY_WORKER: buf_add_z(out, reply->failed ? "failed" : "completed"); break;
    case REPLY_NONE:
    case REPLY_CANNOT_SEND:
    case REPLY_NOT_CONNECTED:
    case REPLY_LOCAL_SHORTAGE:
    case REPLY_NOT_SENT:
    case REPLY_NO_ANSWER: break;
    }
}

/* The request is at the service. */
static void request_arrived(struct stub_event *event)
{
    struct stub_world *world = event->world;
    struct flight *flight = event->data;
    struct stub_effect *effect = flight->effect;
    bool known = false;
    struct buf text = {0};
    reply_make(world, flight);
    unsigned arrivals = is_duplicated(world, flight) ? 2 : 1;
    for (unsigned i = 0; i < arrivals; i++) {
        effect->duplicates += i;
        known = is_known(world, effect);
        if (work_done(world, flight) && !known && !flight->own_database)
            ledger_effect(world, effect);
    }
    call_back(world, flight);
    said(&flight->reply, &text);
    if (flight->answer.kind == TEST_ANSWER_LOST) {
        tell(world, STR_FMT " is done, its answer is lost", STR_ARG(flight->name));
        flight->reply = (struct reply){.kind = REPLY_NO_ANSWER, .error = STR("connection reset")};
    } else {
        tell(world, STR_FMT " -> " STR_FMT "%s%s", STR_ARG(flight->name), STR_ARG(buf_str(&text)),
             arrivals > 1 ? ", arrived twice" : "",
             known && arrivals == 1 ? ", known by its key" : "");
    }
    flight->reply.sent_at = (struct wall){flight->sent_at};
    buf_free(&text);
    schedule(world, 0, flight, reply_arrived)->incarnation = event->incarnation;
}

static void request_failed(struct stub_event *event)
{
    struct flight *flight = event->data;
    if (event_reaches(event))
        tell(event->world, STR_FMT ": " STR_FMT, STR_ARG(flight->name),
             STR_ARG(flight->reply.error));
    reply_arrived(event);
}

/* No service sees the request. */
static void request_fails(struct stub_world *world, struct flight *flight)
{
    struct reply *reply = &flight->reply;
    int64_t delay_us = STUB_LATENCY_US;
    reply->sent_at = (struct wall){world->now};
    reply->kind = REPLY_NO_ANSWER;
    switch (flight->answer.kind) {
    case TEST_ANSWER_CONNECT:
        reply->kind = REPLY_NOT_CONNECTED;
        reply->error = STR("connection refused");
        break;
    case TEST_ANSWER_TIMEOUT:
        reply->timed_out = true;
        reply->error = STR("timed out");
        delay_us = flight->timeout_us;
        break;
    case TEST_ANSWER_LOST_BEFORE: reply->error = STR("connection reset"); break;
    case TEST_ANSWER_NONE:
    case TEST_ANSWER_REPLY:
    case TEST_ANSWER_LOST: ASSERT(!"an answer that fails");
    }
    if (flight->own_database) { /* rolled back for certain */
        reply->kind = REPLY_SQL;
        memcpy(reply->sqlstate, "08006", 6);
    }
    schedule(world, delay_us, flight, request_failed);
}

static void call_note(struct stub_world *world, const struct effect_ref *ref)
{
    struct stub_result *out = world->out;
    out->calls =
        grown(world->arena, out->calls, out->calls_count, &world->calls_size, sizeof(*out->calls));
    out->calls[out->calls_count++] =
        (struct stub_call){since_submit(world), out->units,     ref->step,
                           ref->item,           ref->direction, effect_name(world, ref)};
}

static void ask_note(struct stub_world *world, const struct effect_ref *ref)
{
    struct stub_result *out = world->out;
    out->asks =
        grown(world->arena, out->asks, out->asks_count, &world->asks_size, sizeof(*out->asks));
    out->asks[out->asks_count++] =
        (struct stub_call){since_submit(world), out->units,     ref->step,
                           ref->item,           ref->direction, effect_name(world, ref)};
}

/* "charge: post payments/charges" */
static void send_tell(struct stub_world *world, const struct invocation *from, struct str name)
{
    const struct request *request = from->request;
    struct buf text = {0};
    switch (request->action->kind) {
    case ACTION_HTTP:
        buf_printf(&text, "%s %s" STR_FMT, http_method_name(request->action->http.method),
                   request->service->name, STR_ARG(request->target));
        break;
    case ACTION_EXEC:
        for (uint16_t i = 0; i < request->args_count; i++)
            buf_printf(&text, "%s" STR_FMT, i ? " " : "", STR_ARG(request->args[i]));
        break;
    default: buf_add_z(&text, action_kind_name(request->action->kind));
    }
    tell(world, STR_FMT ": " STR_FMT "%s", STR_ARG(name), STR_ARG(buf_str(&text)),
         from->attempt > 1 ? arena_printf(world->arena, ", attempt %u", from->attempt).ptr : "");
    buf_free(&text);
}

/* Law 3 of the runner: whatever is sent was claimed durably, in a direction that allows it. */
static void claim_check(struct stub_world *world, const struct invocation *from, uint16_t step,
                        struct str item)
{
    const struct record_effect *effect =
        stub_row_newest(&world->out->row, step, item, from->direction);
    if (!effect || effect->state.state != STEP_CLAIMED || effect->state.attempts != from->attempt)
        broken(world, arena_printf(world->arena, "%s is sent without a durable claim",
                                   world->config->plan->steps[step].id)
                          .ptr);
    else if (from->direction == DIRECTION_EXECUTE &&
             world->out->row.now.direction == DIRECTION_COMPENSATE && !effect->state.maybe_applied)
        broken(world, arena_printf(world->arena, "%s is sent forward after the run has turned",
                                   world->config->plan->steps[step].id)
                          .ptr);
}

/* Law 3 for questions: only what is unknown is asked about, and that it is asked is durable. */
static void question_check(struct stub_world *world, const struct invocation *from,
                           const struct effect_ref *ref)
{
    const struct record_effect *effect =
        stub_row_newest(&world->out->row, ref->step, ref->item, ref->direction);
    if (!effect || effect->state.state != STEP_UNKNOWN || effect->state.findings != from->attempt)
        broken(world, arena_printf(world->arena,
                                   STR_FMT " is asked about (%u), which its row does not say",
                                   STR_ARG(effect_name(world, ref)), from->attempt)
                          .ptr);
}

static struct stub_question question_of(struct stub_world *world, const struct flight *flight)
{
    return (struct stub_question){
        .row = &world->out->row,
        .ref = {.step = flight->target.step,
                .item = flight->target.item,
                .direction = flight->target.direction},
        .env = world->config->env,
    };
}

static bool is_unplayed(const struct stub_world *world, const struct flight *flight,
                        enum outcome truth)
{
    for (uint32_t i = 0; i < world->out->unplayed_count; i++)
        if (world->out->unplayed[i].step == flight->target.step &&
            world->out->unplayed[i].direction == flight->target.direction &&
            world->out->unplayed[i].truth == truth)
            return true;
    return false;
}

static void unplayed_note(struct stub_world *world, const struct flight *flight, enum outcome truth)
{
    struct stub_result *out = world->out;
    if (is_unplayed(world, flight, truth))
        return;
    out->unplayed = grown(world->arena, out->unplayed, out->unplayed_count, &world->unplayed_size,
                          sizeof(*out->unplayed));
    out->unplayed[out->unplayed_count++] = (struct stub_unplayed){
        .name = arena_printf(world->arena, "%s%s:reconcile",
                             world->config->plan->steps[flight->target.step].id,
                             flight->target.direction == DIRECTION_COMPENSATE ? ":compensate" : ""),
        .step = flight->target.step,
        .direction = flight->target.direction,
        .truth = truth};
}

/* Nobody wrote an answer: the service says what its ledger knows. */
static void ledger_tell(struct stub_world *world, struct flight *flight)
{
    const struct stub_effect *effect = flight->effect;
    struct stub_question question = question_of(world, flight);
    enum outcome truth = OUTCOME_RETRYABLE;
    if (effect->effects)
        truth = OUTCOME_APPLIED;
    else if (effect->refused)
        truth = OUTCOME_REFUSED;
    const struct stub_fault *lag = fault_find(world, STUB_FAULT_LAG, &flight->target, flight->send);
    if (lag && (!lag->after_us || world->now < effect->first_at_us + lag->after_us))
        truth = OUTCOME_RETRYABLE;
    if (!stub_ask_answer(&question, truth, effect->output, world->arena, &flight->reply))
        unplayed_note(world, flight, truth);
}

/* The test's own answer is the service's word, also where its ledger knows otherwise. */
static void word_believe(struct stub_world *world, struct flight *flight, enum outcome says)
{
    struct stub_effect *effect = flight->effect;
    if (says == OUTCOME_APPLIED && effect->accepted && !effect->effects)
        ledger_effect(world, effect);
    bool lies = says == OUTCOME_APPLIED
                    ? !effect->effects
                    : effect->effects && (says == OUTCOME_REFUSED || says == OUTCOME_RETRYABLE);
    if (lies)
        world->out->vouched[flight->target.step] = true;
}

static void question_arrived(struct stub_event *event)
{
    struct stub_world *world = event->world;
    struct flight *flight = event->data;
    struct buf text = {0};
    if (!event_reaches(event))
        return;
    if (flight->is_made_up)
        ledger_tell(world, flight);
    else
        reply_make(world, flight);
    struct stub_question question = question_of(world, flight);
    enum outcome says =
        stub_ask_says(&question, &flight->reply, (struct wall){flight->sent_at}, world->arena);
    if (!flight->is_made_up)
        word_believe(world, flight, says);
    said(&flight->reply, &text);
    tell(world, STR_FMT " -> " STR_FMT ", %s", STR_ARG(flight->name), STR_ARG(buf_str(&text)),
         says == OUTCOME_UNKNOWN     ? "which proves nothing"
         : says == OUTCOME_RETRYABLE ? "not applied"
                                     : outcome_name(says));
    buf_free(&text);
    flight->reply.sent_at = (struct wall){flight->sent_at};
    reply_arrived(event);
}

/* The answer, or that there will be none, is on its way. */
static void flight_start(struct stub_world *world, struct flight *flight,
                         void (*arrived)(struct stub_event *event))
{
    struct test_answer *answer = &flight->answer;
    if (answer->kind != TEST_ANSWER_REPLY && answer->kind != TEST_ANSWER_LOST) {
        request_fails(world, flight);
        return;
    }
    int64_t after_us = answer->after_us < 0 ? STUB_LATENCY_US : answer->after_us;
    if (after_us < flight->timeout_us || !flight->timeout_us) { /* 0: no limit */
        schedule(world, after_us, flight, arrived);
        return;
    }
    if (flight->target.asks) {
        answer->kind = TEST_ANSWER_TIMEOUT;
        request_fails(world, flight);
        return;
    }
    /* The service is slower than the attempt may be: done, but nobody hears of it. */
    answer->kind = TEST_ANSWER_LOST;
    schedule(world, flight->timeout_us, flight, arrived);
}

static void question_start(struct stub_world *world, const struct invocation *from,
                           struct flight *flight)
{
    const struct effect_ref ref = {.step = flight->target.step,
                                   .item = flight->target.item,
                                   .direction = flight->target.direction};
    const struct plan_action *asked =
        step_action(&world->config->plan->steps[ref.step], ref.direction);
    flight->name = arena_printf(world->arena, STR_FMT ":reconcile", STR_ARG(flight->name));
    flight->effect = ledger_find(world, from->reconciles, asked, &ref);
    question_check(world, from, &ref);
    ask_note(world, &ref);
    send_tell(world, from, flight->name);
    if (flight->answer.kind == TEST_ANSWER_LOST) /* it changes nothing on either way */
        flight->answer.kind = TEST_ANSWER_LOST_BEFORE;
    flight_start(world, flight, question_arrived);
}

static void stub_start(void *arg, const struct invocation *from)
{
    struct stub_world *world = arg;
    const char *dot = memchr(from->step.ptr, '.', from->step.len);
    struct str id = {from->step.ptr, dot ? (size_t)(dot - from->step.ptr) : from->step.len};
    struct str item =
        dot ? arena_str(world->arena, (struct str){dot + 1, from->step.len - id.len - 1}) : STR("");
    uint16_t step = plan_step_find(world->config->plan, id);
    ASSERT(step != PLAN_STEP_NONE);
    struct flight *flight = arena_new(world->arena, struct flight);
    struct effect_ref ref = {.step = step, .item = item, .direction = from->direction};
    flight->id = from->id;
    flight->action = from->request->action;
    flight->target = (struct target){step, item, from->direction, from->reconciles.ptr != NULL};
    flight->name = effect_name(world, &ref);
    flight->timeout_us = from->timeout_us;
    flight->sent_at = world->now;
    flight->send = send_count(world, &flight->target);
    flight->answer = answer_choose(world, &flight->target, flight->send, &flight->is_made_up);
    map_insert(&world->flights, &flight->node, rand_mix(from->id));
    if (flight->target.asks) {
        question_start(world, from, flight);
        return;
    }
    flight->effect = ledger_find(world, from->key, flight->action, &ref);
    flight->own_database =
        flight->action->kind == ACTION_SQL && flight->action->service == PLAN_SERVICE_NONE;
    if (!flight->own_database)
        claim_check(world, from, step, item);
    call_note(world, &ref);
    send_tell(world, from, flight->name);
    if (flight->answer.kind == TEST_ANSWER_LOST && flight->own_database)
        flight->answer.kind =
            TEST_ANSWER_REPLY; /* the port finds out by itself what became of it */
    flight_start(world, flight, request_arrived);
}

static void stub_drop(void *arg, uint64_t id)
{
    (void)arg, (void)id; /* the lane is never lost: only a crash cuts attempts off */
}

/* --- the workers ------------------------------------------------------------------------- */

/* A worker lives apart from the daemon: it goes on while that is away, and asks again. */
struct stub_task {
    struct stub_world *world;
    struct flight flight;
    struct effect_ref ref;
    struct str key, token;
    bool over; /* reported, or its worker is gone */
    bool told; /* what became of the report */
};

static void task_report(struct stub_event *event);

static void task_reported(void *arg, const struct runner_answer *answer)
{
    struct stub_task *task = arg;
    if (answer->err.code == ERR_UNAVAILABLE) {
        schedule(task->world, 100 * MS_US, task, task_report);
        return;
    }
    if (answer->err.code && !task->told)
        tell(task->world, STR_FMT ": its worker is told: %s", STR_ARG(task->flight.name),
             answer->err.text);
    task->told = true;
}

static int task_verb(struct stub_task *task, enum run_event_kind kind,
                     void (*cb)(void *arg, const struct runner_answer *answer))
{
    struct runner_verb verb = {.kind = kind,
                               .run_id = task->world->config->run_id,
                               .key = task->key,
                               .token = task->token,
                               .actor = STR("test"),
                               .reply = &task->flight.reply};
    struct err err;
    if (!task->world->runner || runner_verb(task->world->runner, &verb, cb, task, &err) != 0)
        return -1;
    daemon_poke(task->world, 0);
    return 0;
}

static void task_report(struct stub_event *event)
{
    struct stub_task *task = event->data;
    bool failed = task->flight.reply.failed;
    if (task->told)
        return;
    bool sent = task_verb(task, failed ? EVENT_FAIL : EVENT_COMPLETE, task_reported) == 0;
    schedule(event->world, sent ? ASK_AGAIN_US : 100 * MS_US, task, task_report);
}

/* The worker has done what the task says. */
static void task_done(struct stub_event *event)
{
    struct stub_task *task = event->data;
    struct stub_world *world = event->world;
    struct stub_effect *effect = task->flight.effect;
    task->over = true;
    reply_make(world, &task->flight);
    bool lost = task->flight.answer.kind == TEST_ANSWER_LOST;
    bool known = is_known(world, effect);
    if (work_done(world, &task->flight) && !known)
        ledger_effect(world, effect);
    tell(world, STR_FMT "%s", STR_ARG(task->flight.name),
         lost                        ? " is done, its worker dies before it says so"
         : task->flight.reply.failed ? " -> failed"
                                     : " -> completed");
    task->flight.reply.sent_at = (struct wall){task->flight.sent_at};
    task->flight.reply.ended_at = (struct wall){world->now};
    if (!lost)
        task_report(event);
}

static void task_beat(struct stub_event *event)
{
    struct stub_task *task = event->data;
    if (task->over)
        return;
    if (task_verb(task, EVENT_HEARTBEAT, NULL) != 0) {
        schedule(event->world, 100 * MS_US, task, task_beat);
        return;
    }
    schedule(event->world, task->flight.action->worker.heartbeat_us / 2, task, task_beat);
}

static void task_taken(void *arg, const struct runner_answer *answer)
{
    struct stub_task *task = arg;
    struct stub_world *world = task->world;
    const struct test_answer *given = &task->flight.answer;
    if (answer->err.code || !answer->task)
        return; /* it is no longer offered */
    task->token = arena_str(world->arena, answer->task->token);
    call_note(world, &task->ref);
    tell(world, STR_FMT ": taken by a worker of %s", STR_ARG(task->flight.name),
         task->flight.action->worker.queue);
    task->flight.sent_at = world->now;
    task->flight.effect = ledger_find(world, task->key, task->flight.action, &task->ref);
    task->flight.send = send_count(world, &task->flight.target);
    task->flight.answer =
        answer_choose(world, &task->flight.target, task->flight.send, &task->flight.is_made_up);
    if (given->kind == TEST_ANSWER_LOST_BEFORE) {
        tell(world, STR_FMT ": its worker dies", STR_ARG(task->flight.name));
        return;
    }
    schedule(world, given->after_us < 0 ? STUB_LATENCY_US : given->after_us, task, task_done);
    if (task->flight.action->worker.heartbeat_us)
        schedule(world, task->flight.action->worker.heartbeat_us / 2, task, task_beat);
}

static uint32_t sends_so_far(const struct stub_world *world, const struct target *target)
{
    for (const struct sends *sends = world->sends; sends; sends = sends->next)
        if (targets_equal(&sends->target, target))
            return sends->count;
    return 0;
}

static void task_take(struct stub_event *event)
{
    struct stub_task *task = event->data;
    struct stub_world *world = event->world;
    bool usual;
    struct test_answer next = answer_choose(world, &task->flight.target,
                                            sends_so_far(world, &task->flight.target) + 1, &usual);
    if (next.kind == TEST_ANSWER_TIMEOUT || next.kind == TEST_ANSWER_CONNECT) {
        send_count(world, &task->flight.target);
        tell(world, STR_FMT ": no worker takes it", STR_ARG(task->flight.name));
    } else if (event_reaches(event)) {
        task_verb(task, EVENT_TAKE, task_taken); /* what is still offered is offered again */
    }
}

static void stub_offer(void *arg, struct str queue, struct str run_id, struct str key)
{
    struct stub_world *world = arg;
    struct stub_task *task = arena_new(world->arena, struct stub_task);
    struct str instance;
    (void)queue, (void)run_id;
    task->world = world;
    task->key = arena_str(world->arena, key);
    task->token = STR("");
    bool parsed = key_parse(task->key, &instance, &task->ref.direction, &task->ref.generation);
    ASSERT(parsed);
    const char *dot = memchr(instance.ptr, '.', instance.len);
    struct str id = {instance.ptr, dot ? (size_t)(dot - instance.ptr) : instance.len};
    task->ref.step = plan_step_find(world->config->plan, id);
    ASSERT(task->ref.step != PLAN_STEP_NONE);
    task->ref.item = dot ? (struct str){dot + 1, instance.len - id.len - 1} : STR("");
    task->flight.target =
        (struct target){task->ref.step, task->ref.item, task->ref.direction, false};
    task->flight.name = effect_name(world, &task->ref);
    task->flight.action =
        step_action(&world->config->plan->steps[task->ref.step], task->ref.direction);
    schedule(world, 0, task, task_take);
}

/* --- the operator ------------------------------------------------------------------------ */

struct act {
    struct stub_world *world;
    const struct test_verb *verb;
    bool answered;
};

static void verb_now(struct stub_event *event);

static void verb_done(void *arg, const struct runner_answer *answer)
{
    struct act *act = arg;
    bool too_early = answer->err.code == ERR_NOT_FOUND && !act->world->row_exists;
    if (act->answered)
        return; /* asked again meanwhile */
    if (answer->err.code == ERR_UNAVAILABLE || too_early) {
        schedule(act->world, too_early ? 100 * MS_US : MS_US, act, verb_now);
        return;
    }
    act->answered = true;
    tell(act->world, "%s%s" STR_FMT ": %s", act->verb->verb, act->verb->name.len ? " " : "",
         STR_ARG(act->verb->name), answer->err.code ? answer->err.text : "ok");
}

static void verb_again(struct stub_event *event)
{
    struct act *act = event->data;
    if (!act->answered)
        verb_now(event);
}

static void verb_now(struct stub_event *event)
{
    struct act *act = event->data;
    struct stub_world *world = event->world;
    const struct test_verb *verb = act->verb;
    struct err err;
    struct runner_verb sent = {.kind = run_event_of(str_z(verb->verb)),
                               .run_id = world->config->run_id,
                               .step = verb->step,
                               .reason = verb->reason,
                               .actor = is_approval(verb->verb) ? STR(APPROVER) : STR("test"),
                               .output = verb->output,
                               .name = verb->name,
                               .applied = verb->applied};
    ASSERT(sent.kind != EVENT_NONE);
    if (!world->runner || runner_verb(world->runner, &sent, verb_done, act, &err) != 0) {
        schedule(world, 100 * MS_US, act, verb_now);
        return;
    }
    daemon_poke(world, 0);
    schedule(world, ASK_AGAIN_US, act, verb_again);
}

static void verb_schedule(struct stub_world *world, int64_t delay_us, const struct test_verb *verb)
{
    struct act *act = arena_new(world->arena, struct act);
    *act = (struct act){.world = world, .verb = verb};
    schedule(world, delay_us, act, verb_now);
}

static void cancel_now(struct stub_event *event)
{
    static const struct test_verb cancel = {
        .verb = "cancel", .step = {"", 0}, .reason = {"test", 4}};
    verb_schedule(event->world, 0, &cancel);
}

static void submit(struct stub_event *event);

static void submitted(void *arg, const struct runner_answer *answer)
{
    struct stub_world *world = arg;
    if (answer->err.code)
        schedule(world, 100 * MS_US, NULL, submit);
}

/* A client that hears nothing asks again under the same id. */
static void submit(struct stub_event *event)
{
    struct stub_world *world = event->world;
    struct buf canonical = {0};
    struct err err;
    json_write_canonical(world->config->input, &canonical);
    struct runner_start start = {.plan = world->config->plan,
                                 .run_id = world->config->run_id,
                                 .actor = STR("test"),
                                 .lock = world->config->lock,
                                 .input = json_text(world->config->input, world->arena),
                                 .input_hash = sha256_of(buf_str(&canonical))};
    buf_free(&canonical);
    if (world->row_exists)
        return;
    if (!world->runner || runner_start(world->runner, &start, submitted, world, &err) != 0) {
        schedule(world, 100 * MS_US, NULL, submit);
        return;
    }
    daemon_poke(world, 0);
    schedule(world, ASK_AGAIN_US, NULL, submit);
}

/* --- the world --------------------------------------------------------------------------- */

/* One person who has not submitted the run and is in every group that a step asks for. */
static const struct json *people_make(struct stub_world *world)
{
    const struct plan *plan = world->config->plan;
    struct arena *arena = world->arena;
    struct json *people = json_list_new(arena, 1), *person = json_object_new(arena, 3);
    struct json *ids = json_list_new(arena, 1), *groups = json_list_new(arena, plan->steps_count);
    json_list_add(ids, json_string_z(arena, APPROVER));
    for (uint16_t i = 0; i < plan->steps_count; i++)
        if (plan->steps[i].approve && plan->steps[i].approve->by == APPROVE_BY_GROUP)
            json_list_add(groups, json_string_z(arena, plan->steps[i].approve->group));
    json_object_add_z(person, "name", json_string_z(arena, APPROVER));
    json_object_add_z(person, "ids", ids);
    json_object_add_z(person, "groups", groups);
    json_list_add(people, person);
    return people;
}

static void stub_changed(void *arg, const struct run *run)
{
    broken(arg, run_check(run));
}

static void daemon_boots(struct stub_event *event)
{
    struct stub_world *world = event->world;
    struct runner_config config = {.env = world->config->env,
                                   .people = people_make(world),
                                   .tasks = {.arg = world, .offer = stub_offer}};
    struct port_store store = {.arg = world,
                               .encode = stub_encode,
                               .encoded_free = stub_encoded_free,
                               .send = stub_send,
                               .commit = stub_commit,
                               .load = stub_load,
                               .load_run = stub_load_run};
    struct port_invoke invoke = {.arg = world, .start = stub_start, .drop = stub_drop};
    struct port_watch watch = {.arg = world, .changed = stub_changed};
    map_free(&world->flights);
    world->flights = (struct map){0};
    world->incarnation++;
    world->runner = runner_new(&config, &store, &invoke, &watch);
    world->turn_at = 0;
    world->epoch++;
    if (world->epoch > 1)
        tell(world, "the daemon is back");
    runner_own(world->runner, world->epoch, world->seq, UINT64_MAX);
    daemon_poke(world, 0);
}

/* Without an event left nothing will ever happen again. */
static void events_play(struct stub_world *world)
{
    uint32_t most = world->config->events_max ? world->config->events_max : STUB_EVENTS_MAX;
    for (uint32_t i = 0; i < most && !world->out->broken; i++) {
        struct stub_event *event = world->first;
        if (!event) {
            world->out->at_rest = true;
            return;
        }
        world->first = event->after;
        *(world->first ? &world->first->before : &world->last) = NULL;
        world->now = MAX(world->now, event->at);
        event->fn(event);
    }
}

/* Whoever settles or skips a step is believed, so the promises about it are theirs to keep. */
static bool *vouched_make(const struct stub_config *config, struct arena *arena)
{
    bool *vouched = arena_array(arena, bool, config->plan->steps_count);
    for (uint32_t i = 0; i < config->verbs_count; i++) {
        const struct test_verb *verb = &config->verbs[i];
        if (strcmp(verb->verb, "settle") != 0 && strcmp(verb->verb, "skip") != 0)
            continue;
        size_t len = 0;
        while (len < verb->step.len && verb->step.ptr[len] != '.' && verb->step.ptr[len] != ':')
            len++;
        for (uint16_t step = 0; step < config->plan->steps_count; step++)
            if (!len || str_eq_z((struct str){verb->step.ptr, len}, config->plan->steps[step].id))
                vouched[step] = true;
    }
    return vouched;
}

void stub_play(const struct stub_config *config, struct stub_result *out)
{
    struct stub_world world = {.config = config, .out = out, .arena = &out->arena};
    memset(out, 0, sizeof(*out));
    out->row = (struct stub_row){
        .arena = &out->arena, .id = arena_str(&out->arena, config->run_id), .plan = config->plan};
    out->vouched = vouched_make(config, &out->arena);
    world.effects_tail = &out->effects;
    world.starts_at = wall_is_set(config->starts_at) ? config->starts_at.us : STUB_STARTS_AT_US;
    world.now = world.starts_at - LEAD_US;
    schedule(&world, 0, NULL, daemon_boots);
    schedule(&world, LEAD_US, NULL, submit);
    for (uint32_t i = 0; i < config->verbs_count; i++)
        verb_schedule(&world, LEAD_US + config->verbs[i].at_us, &config->verbs[i]);
    events_play(&world);
    runner_free(world.runner);
    map_free(&world.flights);
}

void stub_result_free(struct stub_result *result)
{
    arena_free(&result->arena);
}
