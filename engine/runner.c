/*
 * runner.c: the laws, in the order in which the code keeps them.
 *
 * 1. A port never calls back before its start function has returned: all input is queued (input_*)
 *    and drained once per turn.
 * 2. All decisions of a turn go out as one unit. An idle lane sends at once; further units follow
 *    only when they are worth a commit, up to UNITS_IN_FLIGHT_MAX.
 * 3. Commands and answers only after the unit that carries their records is acknowledged.
 * 4. An undecided unit is resent byte for byte under the same number. A number whose unit was
 *    rejected is free again: what followed it is told `gap`, renumbered and sent again.
 * 5. One decision in flight per run; later events wait in the run's queue. What cannot be trusted
 *    any more (fenced, rewound) drops the images; loading is the only way back.
 * 6. There is no second recovery path: own, load, RECOVER.
 */
#include "engine/base/rand.h"
#include "engine/limits.h"
#include "engine/log.h"
#include "engine/runner_impl.h"

#include <inttypes.h>
#include <stdlib.h>

static void work_becomes_settlement(struct work *work, const struct record_inbox *inbox);

/* --- life ---------------------------------------------------------------------------------- */

struct runner *runner_new(const struct runner_config *config, const struct port_store *store,
                          const struct port_invoke *invoke, const struct port_watch *watch)
{
    struct runner *runner = xcalloc(1, sizeof(*runner));
    runner->config = *config;
    if (!runner->config.resident_max)
        runner->config.resident_max = RESIDENT_RUNS_MAX;
    runner->store = *store;
    runner->invoke = *invoke;
    runner->watch = *watch;
    runner->ready_tail = &runner->ready;
    runner->inputs_tail = &runner->inputs;
    runner->sent_tail = &runner->sent;
    runner->waiting_tail = &runner->waiting;
    runner->next_invocation = 1;
    runner->store_is_up = true;
    return runner;
}

void work_free(struct work *work)
{
    gates_forgo(work);
    plan_unref(work->plan);
    arena_free(&work->arena);
    free(work);
}

static void input_free(struct input *input)
{
    plan_unref(input->plan);
    arena_free(&input->arena);
    free(input);
}

void slot_free(struct runner *runner, struct slot *slot)
{
    ASSERT(!slot->flights && !slot->head && !slot->busy);
    gates_leave(slot);
    tenants_leave(runner, slot);
    map_remove(&runner->slots, &slot->node);
    heap_remove(&runner->due, &slot->due);
    if (!slot->strays)
        run_free(slot->run);
    free((char *)slot->id.ptr);
    free(slot);
}

static void flight_free(struct runner *runner, struct flight *flight)
{
    map_remove(&runner->flights, &flight->node);
    flight->slot->flights--;
    passage_forgo(&flight->passage);
    free(flight->item);
    free(flight);
}

/* --- slots and events ---------------------------------------------------------------------- */

struct slot *slot_find(const struct runner *runner, struct str id)
{
    struct map_node *node = map_first(&runner->slots, str_hash(id));
    for (; node; node = map_next(node)) {
        struct slot *slot = CONTAINER_OF(node, struct slot, node);
        if (str_eq(slot->id, id))
            return slot;
    }
    return NULL;
}

struct slot *slot_new(struct runner *runner, struct str id)
{
    struct slot *slot = xcalloc(1, sizeof(*slot));
    char *copy = xmalloc(id.len + 1);
    memcpy(copy, id.ptr, id.len);
    copy[id.len] = '\0';
    slot->id = (struct str){copy, id.len};
    slot->shard = shard_of(id);
    slot->tail = &slot->head;
    map_insert(&runner->slots, &slot->node, str_hash(id));
    return slot;
}

static bool slot_can_work(const struct slot *slot)
{
    return slot->head && !slot->busy && !slot->loading;
}

static void slot_ready(struct runner *runner, struct slot *slot)
{
    if (slot->ready || !slot_can_work(slot))
        return;
    slot->ready = true;
    slot->ready_next = NULL;
    *runner->ready_tail = slot;
    runner->ready_tail = &slot->ready_next;
}

struct work *work_new(struct slot *slot, enum run_event_kind kind)
{
    struct work *work = xcalloc(1, sizeof(*work));
    work->slot = slot;
    work->event.kind = kind;
    return work;
}

void work_queue(struct runner *runner, struct work *work)
{
    struct slot *slot = work->slot;
    work->next = NULL;
    *slot->tail = work;
    slot->tail = &work->next;
    slot->queued++;
    slot_ready(runner, slot);
}

/* RECOVER goes before whatever waited for the load. */
void work_queue_first(struct runner *runner, struct work *work)
{
    struct slot *slot = work->slot;
    work->next = slot->head;
    if (!slot->head)
        slot->tail = &work->next;
    slot->head = work;
    slot->queued++;
    slot_ready(runner, slot);
}

static struct work *work_pop(struct slot *slot)
{
    struct work *work = slot->head;
    slot->head = work->next;
    if (!slot->head)
        slot->tail = &slot->head;
    slot->queued--;
    work->next = NULL;
    return work;
}

static bool shard_is_ours(const struct runner *runner, uint16_t shard)
{
    uint64_t bit = UINT64_C(1) << shard;
    return runner->owned && (runner->shards & bit) && !(runner->shards_loading & bit) &&
           !(runner->shards_leaving & bit);
}

static int owner_check(const struct runner *runner, struct str run_id, struct err *err)
{
    if (runner->draining)
        return err_set(err, ERR_UNAVAILABLE, "the daemon is shutting down");
    if (!shard_is_ours(runner, shard_of(run_id)))
        return err_set(err, ERR_UNAVAILABLE, "another daemon owns the run \"" STR_FMT "\"",
                       STR_ARG(run_id));
    return 0;
}

static int slot_check(const struct slot *slot, uint32_t limit, struct err *err)
{
    if (slot && slot->queued >= limit)
        return err_set(err, ERR_LIMIT,
                       "%" PRIu32 " requests wait for the run \"" STR_FMT "\" already",
                       slot->queued, STR_ARG(slot->id));
    return 0;
}

int runner_start(struct runner *runner, const struct runner_start *start,
                 void (*cb)(void *arg, const struct runner_answer *answer), void *arg,
                 struct err *err)
{
    struct slot *slot = slot_find(runner, start->run_id);
    int code = owner_check(runner, start->run_id, err);
    if (!code)
        code = slot_check(slot, RUN_EVENTS_MAX, err);
    if (code)
        return code;
    if (!slot && runner->slots.count >= runner->config.resident_max)
        return err_set(err, ERR_LIMIT, "%u runs are in memory, the limit of this daemon",
                       runner->config.resident_max);
    if (!slot)
        slot = slot_new(runner, start->run_id);
    struct work *work = work_new(slot, EVENT_START);
    work->plan = plan_ref(start->plan);
    work->cb = cb;
    work->cb_arg = arg;
    work->event.start = (struct record_start){
        .tenant = arena_str(&work->arena, start->tenant.ptr ? start->tenant : STR("")),
        .actor = arena_str(&work->arena, start->actor.ptr ? start->actor : STR("")),
        .input = arena_str(&work->arena, start->input),
        .input_hash = start->input_hash,
        .lock = arena_str(&work->arena, start->lock.ptr ? start->lock : STR("")),
        .start_at = start->start_at,
        .suspect_from = start->suspect_from,
    };
    work->event.verb.inbox_id = arena_str(&work->arena, start->inbox_id);
    work_queue(runner, work);
    return 0;
}

static void reply_copy(const struct reply *from, struct arena *arena, struct reply *to)
{
    struct request_pair *headers = arena_array(arena, struct request_pair, from->headers_count);
    *to = *from;
    to->error = arena_str(arena, from->error);
    to->body = arena_str(arena, from->body);
    to->stderr_text = arena_str(arena, from->stderr_text);
    to->code = arena_str(arena, from->code);
    to->headers = headers;
    for (uint16_t i = 0; i < from->headers_count; i++) {
        headers[i].name = arena_str(arena, from->headers[i].name);
        headers[i].value = arena_str(arena, from->headers[i].value);
    }
}

int runner_verb(struct runner *runner, const struct runner_verb *verb,
                void (*cb)(void *arg, const struct runner_answer *answer), void *arg,
                struct err *err)
{
    struct slot *slot = slot_find(runner, verb->run_id);
    int code = owner_check(runner, verb->run_id, err);
    if (!code)
        code = slot_check(slot, verb->token.len ? RUN_REPORTS_MAX : RUN_EVENTS_MAX, err);
    if (code)
        return code;
    if (!slot) {
        slot = slot_new(runner, verb->run_id);
        slot->loading = true;
        runner->store.load_run(runner->store.arg, slot->id);
    }
    struct work *work = work_new(slot, verb->kind);
    struct arena *arena = &work->arena;
    work->cb = cb;
    work->cb_arg = arg;
    work->event.verb.step = arena_str(arena, verb->step.ptr ? verb->step : STR(""));
    work->event.verb.reason = arena_str(arena, verb->reason.ptr ? verb->reason : STR(""));
    work->event.verb.actor = arena_str(arena, verb->actor.ptr ? verb->actor : STR(""));
    work->event.verb.inbox_id = arena_str(arena, verb->inbox_id);
    work->event.verb.output = arena_str(arena, verb->output);
    work->event.verb.input = arena_str(arena, verb->input);
    work->event.verb.step_input = arena_str(arena, verb->step_input);
    work->event.verb.name = arena_str(arena, verb->name);
    work->event.verb.applied = verb->applied;
    work->event.verb.attempt = verb->attempt;
    work->event.verb.force = verb->force;
    work->event.verb.dry_run = verb->dry_run;
    work->plan = verb->plan ? plan_ref(verb->plan) : NULL;
    work->event.verb.plan = work->plan;
    work->event.task.key = arena_str(arena, verb->key);
    work->event.task.token = arena_str(arena, verb->token.ptr ? verb->token : STR(""));
    if (verb->reply) {
        struct reply *reply = arena_new(arena, struct reply);
        reply_copy(verb->reply, arena, reply);
        work->event.task.reply = reply;
    }
    work_queue(runner, work);
    return 0;
}

/* --- law 1: input is queued ----------------------------------------------------------------- */

static struct input *input_add(struct runner *runner, enum input_kind kind)
{
    struct input *input = xcalloc(1, sizeof(*input));
    input->kind = kind;
    *runner->inputs_tail = input;
    runner->inputs_tail = &input->next;
    return input;
}

static void answer_copy(struct input *input, const struct unit_answer *answer)
{
    struct unit_taken *taken = arena_array(&input->arena, struct unit_taken, answer->taken_count);
    input->answer = *answer;
    input->answer.taken = taken;
    for (uint32_t i = 0; i < answer->taken_count; i++) {
        taken[i] = answer->taken[i];
        taken[i].run_id = arena_str(&input->arena, taken[i].run_id);
        taken[i].workflow = arena_str(&input->arena, taken[i].workflow);
        taken[i].tenant = arena_str(&input->arena, taken[i].tenant);
    }
}

void runner_unit_answer(struct runner *runner, const struct unit_answer *answer)
{
    answer_copy(input_add(runner, INPUT_UNIT), answer);
}

void runner_commit_answer(struct runner *runner, uint64_t invocation_id,
                          const struct unit_answer *answer)
{
    struct input *input = input_add(runner, INPUT_COMMIT);
    input->id = invocation_id;
    answer_copy(input, answer);
}

void runner_reply(struct runner *runner, uint64_t invocation_id, const struct reply *reply)
{
    struct input *input = input_add(runner, INPUT_REPLY);
    input->id = invocation_id;
    reply_copy(reply, &input->arena, &input->reply);
}

void runner_locked(struct runner *runner, struct str run_id, uint64_t number)
{
    struct input *input = input_add(runner, INPUT_LOCKED);
    input->id = number;
    input->run_id = arena_str(&input->arena, run_id);
}

void runner_loaded(struct runner *runner, const struct plan *plan, struct str run_id,
                   const struct run_record *records, uint32_t count)
{
    struct input *input = input_add(runner, INPUT_LOADED);
    runner->stats.loaded++;
    input->plan = plan_ref(plan);
    input->run_id = arena_str(&input->arena, run_id);
    input->records = arena_array(&input->arena, struct run_record, count);
    input->count = count;
    for (uint32_t i = 0; i < count; i++) {
        input->records[i] = records[i];
        run_record_copy(&input->records[i], &input->arena);
    }
}

void runner_load_done(struct runner *runner, uint64_t shards)
{
    input_add(runner, INPUT_LOAD_DONE)->id = shards;
}

void runner_load_run_done(struct runner *runner, struct str run_id, enum run_state removed)
{
    struct input *input = input_add(runner, INPUT_LOAD_RUN_DONE);
    input->removed = removed;
    input->run_id = arena_str(&input->arena, run_id);
}

void runner_store_down(struct runner *runner)
{
    input_add(runner, INPUT_DOWN);
}

void runner_store_up(struct runner *runner)
{
    input_add(runner, INPUT_UP);
}

/* --- law 6: own, load, RECOVER -------------------------------------------------------------- */

void runner_own(struct runner *runner, uint64_t epoch, uint64_t seq, uint64_t shards)
{
    ASSERT(!runner->owned);
    runner->stats.acquired++;
    runner->owned = true;
    runner->epoch = epoch;
    runner->seq = runner->decided_seq = seq;
    runner->repairing = false;
    runner->store_is_up = true;
    runner->shards = 0;
    runner->shards_leaving = runner->shards_releasing = 0;
    runner_own_more(runner, shards);
}

void runner_own_more(struct runner *runner, uint64_t shards)
{
    ASSERT(runner->owned);
    shards &= ~(runner->shards | runner->shards_releasing);
    if (!shards)
        return;
    runner->shards |= shards;
    runner->shards_loading |= shards;
    runner->store.load(runner->store.arg, shards);
}

/* What waited for the run is told why it cannot be had. */
static void slot_unload(struct runner *runner, struct slot *slot, const char *why)
{
    tenants_leave(runner, slot);
    run_free(slot->run);
    slot->run = NULL;
    while (slot->head) {
        struct work *work = work_pop(slot);
        answer_error(work, ERR_INTERNAL, why);
        work_free(work);
    }
    slot_free(runner, slot);
}

static void run_loaded(struct runner *runner, struct input *input)
{
    struct slot *slot = slot_find(runner, input->run_id);
    if (!runner->owned || !(runner->shards >> shard_of(input->run_id) & 1))
        return; /* lost while it was loading */
    if (!slot)
        slot = slot_new(runner, input->run_id);
    else if (!slot->loading)
        return; /* an older load of a run that is here by now */
    slot->loading = false;
    slot->run = run_new(input->plan, input->run_id);
    const char *broken = NULL;
    for (uint32_t i = 0; i < input->count && !broken; i++)
        broken = run_load(slot->run, &input->records[i]);
    if (!broken)
        broken = run_check(slot->run);
    if (broken) { /* rows that contradict each other: nothing may be decided on them */
        log_error("run \"" STR_FMT "\" is not loaded, its rows are not sound: %s",
                  STR_ARG(slot->id), broken);
        slot_unload(runner, slot, broken);
        return;
    }
    tenants_count(runner, slot);
    work_queue_first(runner, work_new(slot, EVENT_RECOVER));
}

void answer_send(struct work *work, const struct runner_answer *answer)
{
    if (work->cb)
        work->cb(work->cb_arg, answer);
    work->cb = NULL;
}

void answer_error(struct work *work, enum err_code code, const char *text)
{
    struct runner_answer answer = {0};
    err_set(&answer.err, code, "%s", text);
    answer_send(work, &answer);
}

/* There is nothing that a verb could act on. */
static void work_without_run(struct runner *runner, struct work *work, enum run_state removed)
{
    struct runner_answer answer = {.state = removed, .removed = removed != RUN_NONE};
    if (removed == RUN_NONE)
        err_set(&answer.err, ERR_NOT_FOUND, "there is no such run");
    else
        err_set(&answer.err, ERR_CONFLICT,
                "the run has ended %s, and its data was removed when its time of retention was "
                "over: nothing can be done with it any more",
                run_state_name(removed));
    answer_send(work, &answer);
    if (!work->event.verb.inbox_id.ptr) {
        work_free(work);
        return;
    }
    struct record_inbox inbox = {.id = work->event.verb.inbox_id,
                                 .outcome = answer.removed ? STR("conflict") : STR("refused"),
                                 .code = answer.err.code,
                                 .answer = str_z(answer.err.text)};
    work_becomes_settlement(work, &inbox);
    work_queue(runner, work);
}

/* A load of one run came back without it: verbs have nothing to act on, a start may start. */
static void load_run_done(struct runner *runner, struct str run_id, enum run_state removed)
{
    struct slot *slot = slot_find(runner, run_id);
    if (!slot || !slot->loading)
        return;
    slot->loading = false;
    struct work *list = slot->head;
    slot->head = NULL;
    slot->tail = &slot->head;
    slot->queued = 0;
    bool starts = false; /* what stands behind a start has something to act on */
    for (struct work *work = list, *next; work; work = next) {
        next = work->next;
        starts |= work->event.kind == EVENT_START;
        if (!starts && work->event.kind != EVENT_NONE)
            work_without_run(runner, work, removed);
        else
            work_queue(runner, work);
    }
    if (!slot->head)
        slot_free(runner, slot);
}

void work_lost(struct runner *runner, struct work *work)
{
    if (runner->closing)
        work->cb = NULL;
    if (work->event.kind == EVENT_REPLY && !work->event.reply.asked && work->slot->run)
        stray_tell(runner, work->slot->run, &work->event.reply.ref, work->event.reply.attempt,
                   work->event.reply.reply);
    answer_error(work, ERR_UNAVAILABLE, "the daemon lost its lease");
    work_free(work);
}

/* Drops everything: what was acknowledged is in the database, what was not never happened or will
 * be found there by the next owner. */
void runner_lost(struct runner *runner)
{
    struct map_node *node;
    runner->owned = false;
    runner->shards = runner->shards_loading = runner->shards_leaving = 0;
    lane_lost(runner);
    while (runner->committing) {
        struct work *work = runner->committing;
        runner->committing = work->next;
        work_lost(runner, work);
    }
    while ((node = map_any(&runner->flights))) {
        struct flight *flight = CONTAINER_OF(node, struct flight, node);
        if (stray_keep(runner, flight))
            runner->invoke.leave(runner->invoke.arg, flight->id);
        else if (!runner->closing)
            runner->invoke.drop(runner->invoke.arg, flight->id);
        flight_free(runner, flight);
    }
    children_drop(runner, UINT64_MAX);
    rehearsals_drop(runner);
    runner->ready = NULL;
    runner->ready_tail = &runner->ready;
    while ((node = map_any(&runner->slots))) {
        struct slot *slot = CONTAINER_OF(node, struct slot, node);
        slot->busy = false;
        while (slot->head)
            work_lost(runner, work_pop(slot));
        slot_free(runner, slot);
    }
    /* Answers to what was just dropped say nothing to this owner any more. */
    while (runner->inputs) {
        struct input *input = runner->inputs;
        runner->inputs = input->next;
        if (input->kind == INPUT_REPLY)
            stray_reply(runner, input->id, &input->reply);
        input_free(input);
    }
    runner->inputs_tail = &runner->inputs;
}

void runner_free(struct runner *runner)
{
    if (!runner)
        return;
    runner->closing = true;
    runner_lost(runner);
    strays_free(runner);
    map_free(&runner->slots);
    map_free(&runner->flights);
    map_free(&runner->children);
    gates_free(runner);
    tenants_free(runner);
    heap_free(&runner->due);
    arena_free(&runner->leaving_arena);
    tally_free(&runner->tally);
    free(runner);
}

/* --- locks ----------------------------------------------------------------------------------- */

bool runner_asks_lock(const struct runner *runner, struct str run_id, uint64_t number)
{
    const struct slot *slot = slot_find(runner, run_id);
    return slot && slot->lock_number == number && slot->run && slot->run->now.state == RUN_QUEUED;
}

static void lock_ask(struct runner *runner, struct slot *slot)
{
    slot->lock_number = runner->next_invocation++;
    if (runner->config.locks.ask)
        runner->config.locks.ask(runner->config.locks.arg, slot->run, slot->lock_number);
    else
        runner_locked(runner, slot->id, slot->lock_number);
}

static void locked_queue(struct runner *runner, const struct input *input)
{
    if (!runner_asks_lock(runner, input->run_id, input->id))
        return;
    struct work *work = work_new(slot_find(runner, input->run_id), EVENT_LOCKED);
    work->invocation_id = input->id;
    work_queue(runner, work);
}

/* What came before it may have ended the run and opened it again: then the answer is about a lock
 * that it held before. */
static bool lock_is_stale(struct slot *slot, const struct work *work)
{
    if (work->event.kind != EVENT_LOCKED)
        return false;
    if (slot->lock_number != work->invocation_id)
        return true;
    slot->lock_number = 0;
    return false;
}

/* --- deciding ------------------------------------------------------------------------------- */

static void slot_due_set(struct runner *runner, struct slot *slot)
{
    struct wall due = slot->run && !runner->draining ? run_due(slot->run) : WALL_NONE;
    if (wall_is_set(due))
        heap_set(&runner->due, &slot->due, due.us);
    else
        heap_remove(&runner->due, &slot->due);
}

/* Images of ended and parked runs are not kept: a verb loads them again. */
void slot_settle(struct runner *runner, struct slot *slot)
{
    bool keep = slot->run && !run_state_is_terminal(slot->run->now.state) &&
                slot->run->now.state != RUN_PARKED;
    if (slot->head || slot->busy) {
        slot_ready(runner, slot);
        return;
    }
    /* Retries and timers of a run do not wait for what is in flight beside them. */
    if (keep)
        slot_due_set(runner, slot);
    else if (!slot->flights && !slot->loading)
        slot_free(runner, slot);
}

static uint32_t durable_count(const struct run_decision *decision)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < decision->records_count; i++)
        count += decision->records[i].kind != RECORD_BEGUN;
    return count;
}

static void work_commit_action(struct runner *runner, struct work *work)
{
    void *encoded = work_encode(runner, work); /* taken by the store */
    work->next = runner->committing;
    runner->committing = work;
    runner->store.commit(runner->store.arg, work->invocation_id, encoded);
}

/* Makes the work one that only settles its inbox row. */
static void work_becomes_settlement(struct work *work, const struct record_inbox *inbox)
{
    struct run_record *record = arena_new(&work->arena, struct run_record);
    record->kind = RECORD_INBOX;
    record->inbox = *inbox;
    run_record_copy(record, &work->arena);
    work->event.kind = EVENT_NONE;
    work->decision = (struct run_decision){.records = record, .records_count = 1};
    work->durable = 1;
}

void start_settle_taken(struct work *work, const struct unit_taken *taken)
{
    const struct record_start *start = &work->event.start;
    bool same = sha256_eq(&taken->input_hash, &start->input_hash) &&
                str_eq_z(taken->workflow, work->plan->workflow) &&
                str_eq(taken->tenant, start->tenant);
    struct record_inbox inbox = {
        .id = work->event.verb.inbox_id,
        .outcome = same ? STR("done") : STR("conflict"),
        .code = same ? ERR_NONE : ERR_CONFLICT,
        .answer = same ? STR(RUNNER_START_EXISTED)
                       : STR("the run id was used with another input or workflow"),
    };
    work_becomes_settlement(work, &inbox);
}

void runner_settle(struct runner *runner, struct str run_id, const struct record_inbox *inbox)
{
    struct slot *slot = slot_find(runner, run_id);
    if (!slot)
        slot = slot_new(runner, run_id);
    struct work *work = work_new(slot, EVENT_NONE);
    work_becomes_settlement(work, inbox);
    work_queue(runner, work);
}

/* A start whose id is here already: the image knows what the database would say. */
static bool start_is_taken(struct work *work)
{
    const struct run *run = work->slot->run;
    if (work->event.kind != EVENT_START || !run)
        return false;
    struct unit_taken taken = {.run_id = run->id,
                               .input_hash = run->start.input_hash,
                               .workflow = str_z(run->plan->workflow),
                               .tenant = run->start.tenant};
    struct runner_answer answer = {.taken = &taken, .state = run->now.state};
    answer_send(work, &answer);
    if (work->event.verb.inbox_id.ptr)
        start_settle_taken(work, &taken);
    return true;
}

static void start_prepare(struct runner *runner, struct work *work)
{
    struct record_start *start = &work->event.start;
    work->slot->run = run_new(work->plan, work->slot->id);
    start->created_at = runner->now;
    if (start->start_at.us <= runner->now.us)
        start->start_at = WALL_NONE;
    struct wall from = wall_is_set(start->start_at) ? start->start_at : runner->now;
    if (work->plan->deadline_us)
        start->deadline_at = wall_add(from, work->plan->deadline_us);
}

static void work_decide(struct runner *runner, struct work *work)
{
    struct slot *slot = work->slot;
    if (start_is_taken(work) && work->event.kind == EVENT_START) {
        work_free(work);
        slot_settle(runner, slot);
        return;
    }
    if (lock_is_stale(slot, work)) {
        work_free(work);
        slot_settle(runner, slot);
        return;
    }
    if (work->event.kind == EVENT_NONE) {
        work_write(runner, work);
        return;
    }
    if (work->event.kind != EVENT_START && !slot->run) { /* the start before it came to nothing */
        slot->loading = true;
        work_queue_first(runner, work);
        runner->store.load_run(runner->store.arg, slot->id);
        return;
    }
    if (work->event.kind == EVENT_START && !work->plan) { /* a child that was looked for */
        answer_error(work, ERR_NOT_FOUND, "there is no such run");
        work_free(work);
        slot_settle(runner, slot);
        return;
    }
    if (work->event.kind == EVENT_START)
        start_prepare(runner, work);
    work->event.now = runner->now;
    work->event.env = runner->config.env;
    work->event.people = runner->config.people;
    work->event.hold = runner->draining;
    gates_open(runner, work);
    tenants_open(runner, work);
    run_decide(slot->run, &work->event, &work->arena, &work->decision);
    tenants_count(runner, slot);
    gates_pass(runner, work);
    work->durable = durable_count(&work->decision);
    heap_remove(&runner->due, &slot->due);
    slot->busy = true;
    if (work->decision.commit_action) {
        work_commit_action(runner, work);
        return;
    }
    if (!work->durable) {
        work_finish(runner, work);
        return;
    }
    work_write(runner, work);
}

static void ready_decide(struct runner *runner)
{
    while (runner->ready && (!runner->open || runner->open->works_count < UNIT_RUNS_MAX)) {
        struct slot *slot = runner->ready;
        runner->ready = slot->ready_next;
        if (!runner->ready)
            runner->ready_tail = &runner->ready;
        slot->ready = false;
        if (slot_can_work(slot))
            work_decide(runner, work_pop(slot));
    }
}

static void due_queue(struct runner *runner)
{
    for (struct heap_node *top; (top = heap_top(&runner->due)) && top->key <= runner->now.us;) {
        struct slot *slot = CONTAINER_OF(top, struct slot, due);
        heap_remove(&runner->due, top);
        work_queue(runner, work_new(slot, EVENT_DUE));
    }
}

/* --- law 3: commands after the acknowledgement ----------------------------------------------- */

/* A kept-alive connection may be closed by the other side at the moment of reuse, which looks like
 * a lost answer: not to be risked where an unknown outcome cannot be repeated. */
static bool wants_fresh_connection(const struct plan_action *action)
{
    return action->effect == EFFECT_IRREVERSIBLE ||
           (action->effect == EFFECT_COMPENSABLE && !action->idempotency.ttl_us);
}

void command_invoke(struct runner *runner, struct slot *slot, const struct run_command *command,
                    struct passage *passage)
{
    if (command->rendered.request.action->kind == ACTION_CHILD && runner->config.plans.find) {
        child_invoke(runner, slot, command);
        return;
    }
    struct flight *flight = xcalloc(1, sizeof(*flight));
    flight->id = runner->next_invocation++;
    flight->slot = slot;
    flight->ref = command->ref;
    flight->item = xmalloc(command->ref.item.len + 1);
    memcpy(flight->item, command->ref.item.ptr, command->ref.item.len);
    flight->ref.item.ptr = flight->item;
    flight->attempt = command->attempt;
    flight->asks = command->kind == COMMAND_ASK;
    if (passage) {
        flight->passage = *passage;
        passage->entry = NULL;
    }
    map_insert(&runner->flights, &flight->node, rand_mix(flight->id));
    slot->flights++;
    runner->stats.commands++;
    if (!flight->asks)
        tally_sent(&runner->tally, slot->run, &flight->ref, flight->attempt, runner->now);
    /* The claim's acknowledgement may have taken longer than the key is honoured. */
    if (wall_is_set(command->send_until) && runner->now.us > command->send_until.us) {
        struct reply reply = {.kind = REPLY_NOT_SENT,
                              .sent_at = runner->now,
                              .ended_at = runner->now,
                              .error = STR("the key's lifetime ended before it could be sent")};
        runner_reply(runner, flight->id, &reply);
        return;
    }
    struct invocation invocation = {
        .id = flight->id,
        .plan = slot->run->plan,
        .request = &command->rendered.request,
        .run_id = slot->id,
        .step = command->rendered.instance,
        .key = command->rendered.key_sent,
        .compensates = command->rendered.compensates,
        .reconciles = command->rendered.reconciles,
        .direction = command->ref.direction,
        .attempt = command->attempt,
        .timeout_us = command->timeout_us,
        .deadline_at = command->deadline_at,
        .fresh_connection = wants_fresh_connection(command->rendered.request.action),
    };
    runner->invoke.start(runner->invoke.arg, &invocation);
}

void work_finish(struct runner *runner, struct work *work)
{
    struct slot *slot = work->slot;
    struct runner_answer answer = {.err = work->decision.answer,
                                   .task = work->decision.task,
                                   .rehearsal = work->decision.rehearsal};
    if (work->event.kind == EVENT_NONE) {
        work_free(work);
        slot->busy = false;
        slot_settle(runner, slot);
        return;
    }
    answer.state = slot->run->now.state;
    for (uint32_t i = 0; i < work->decision.commands_count; i++) {
        const struct run_command *command = &work->decision.commands[i];
        if (command->kind == COMMAND_INVOKE || command->kind == COMMAND_ASK)
            command_invoke(runner, slot, command, work->passages ? &work->passages[i] : NULL);
        else if (command->kind == COMMAND_ROLLBACK)
            runner->invoke.drop(runner->invoke.arg, work->invocation_id);
        else if (command->kind == COMMAND_CHILD_CANCEL && runner->config.plans.find)
            child_cancel(runner, slot, command);
        else if (command->kind == COMMAND_LOCK)
            lock_ask(runner, slot);
        else if (command->kind == COMMAND_OFFER && runner->config.tasks.offer)
            runner->config.tasks.offer(runner->config.tasks.arg, command->offer.queue, slot->id,
                                       command->offer.key);
    }
    if (run_state_is_terminal(answer.state) && runner->config.tasks.forget)
        runner->config.tasks.forget(runner->config.tasks.arg, slot->id);
    if (run_state_is_terminal(answer.state) && slot->run->start.lock.len &&
        runner->config.locks.freed)
        runner->config.locks.freed(runner->config.locks.arg);
    runner->stats.started += work->event.kind == EVENT_START;
    tally_records(&runner->tally, &work->decision);
    for (uint32_t i = 0; i < work->decision.records_count; i++)
        if (work->decision.records[i].kind == RECORD_RUN)
            runner->stats.entered[work->decision.records[i].run.state]++;
    gates_wait(runner, slot);
    answer_send(work, &answer);
    child_ended(runner, slot->run);
    if (work->durable)
        runner->watch.changed(runner->watch.arg, slot->run);
    bool quarantined = work->repair == REPAIR_QUARANTINE;
    bool reload = work->decision.reload && !quarantined;
    work_free(work);
    slot->busy = false;
    if (reload) {
        slot_reload(runner, slot);
        return;
    }
    if (quarantined) { /* the image holds what the database refused */
        gates_leave(slot);
        tenants_leave(runner, slot);
        run_free(slot->run);
        slot->run = NULL;
        slot->loading = slot->head != NULL;
        if (slot->loading)
            runner->store.load_run(runner->store.arg, slot->id);
    }
    slot_settle(runner, slot);
}

static struct flight *flight_find(const struct runner *runner, uint64_t id)
{
    struct map_node *node = map_first(&runner->flights, rand_mix(id));
    for (; node; node = map_next(node)) {
        struct flight *flight = CONTAINER_OF(node, struct flight, node);
        if (flight->id == id)
            return flight;
    }
    return NULL;
}

static void reply_queue(struct runner *runner, struct input *input)
{
    struct flight *flight = flight_find(runner, input->id);
    if (!flight) { /* dropped with its run, left, or of none */
        rehearsal_replied(runner, input->id, &input->reply);
        stray_reply(runner, input->id, &input->reply);
        return;
    }
    struct slot *slot = flight->slot;
    struct work *work = work_new(slot, EVENT_REPLY);
    struct reply *reply = arena_new(&work->arena, struct reply);
    reply_copy(&input->reply, &work->arena, reply);
    work->invocation_id = input->id;
    work->event.reply.ref = flight->ref;
    work->event.reply.ref.item = arena_str(&work->arena, flight->ref.item);
    work->event.reply.attempt = flight->attempt;
    work->event.reply.asked = flight->asks;
    work->event.reply.reply = reply;
    work->answered = flight->passage;
    flight->passage.entry = NULL;
    runner->stats.replies[reply->kind]++;
    if (slot->run && !flight->asks)
        tally_reply(&runner->tally, slot->run, &flight->ref, reply);
    flight_free(runner, flight);
    work_queue(runner, work);
}

static struct flight *slot_flight(const struct runner *runner, const struct slot *slot)
{
    for (size_t i = 0; i < runner->flights.size; i++)
        for (struct map_node *node = runner->flights.buckets[i]; node; node = node->chain) {
            struct flight *flight = CONTAINER_OF(node, struct flight, node);
            if (flight->slot == slot)
                return flight;
        }
    return NULL;
}

void slot_reload(struct runner *runner, struct slot *slot)
{
    while (slot->flights) {
        struct flight *flight = slot_flight(runner, slot);
        runner->invoke.drop(runner->invoke.arg, flight->id);
        flight_free(runner, flight);
    }
    gates_leave(slot);
    tenants_reload(slot);
    run_free(slot->run);
    slot->run = NULL;
    slot->lock_number = 0;
    slot->loading = true;
    heap_remove(&runner->due, &slot->due);
    runner->store.load_run(runner->store.arg, slot->id);
}

/* The action and its record committed together, or neither did and the image, which is ahead of
 * the database, is loaded again. */
static void commit_answered(struct runner *runner, struct input *input)
{
    struct work **at = &runner->committing;
    while (*at && (*at)->invocation_id != input->id)
        at = &(*at)->next;
    struct work *work = *at;
    if (!work)
        return;
    *at = work->next;
    work->next = NULL;
    if (input->answer.verdict == UNIT_APPLIED || input->answer.verdict == UNIT_ALREADY) {
        work_finish(runner, work);
        return;
    }
    struct slot *slot = work->slot;
    work_free(work);
    slot->busy = false;
    slot_reload(runner, slot);
}

/* --- runs that are held back ------------------------------------------------------------------ */

bool runner_hold(struct runner *runner, const struct str *run_ids, uint32_t count)
{
    if (runner->draining)
        return false;
    for (uint32_t i = 0; i < count; i++)
        if (!shard_is_ours(runner, shard_of(run_ids[i])) || slot_find(runner, run_ids[i]))
            return false;
    for (uint32_t i = 0; i < count; i++) {
        struct slot *slot = slot_new(runner, run_ids[i]);
        slot->busy = slot->held = true;
    }
    return true;
}

void runner_unhold(struct runner *runner, struct str run_id)
{
    struct slot *slot = slot_find(runner, run_id);
    if (!slot || !slot->held)
        return;
    slot->busy = slot->held = false;
    slot_settle(runner, slot);
}

uint64_t runner_epoch(const struct runner *runner)
{
    return runner->owned ? runner->epoch : 0;
}

/* --- the turn -------------------------------------------------------------------------------- */

static void input_drain(struct runner *runner)
{
    while (runner->inputs) {
        struct input *input = runner->inputs;
        runner->inputs = input->next;
        if (!runner->inputs)
            runner->inputs_tail = &runner->inputs;
        switch (input->kind) {
        case INPUT_UNIT: unit_answered(runner, &input->answer); break;
        case INPUT_COMMIT: commit_answered(runner, input); break;
        case INPUT_REPLY: reply_queue(runner, input); break;
        case INPUT_LOCKED: locked_queue(runner, input); break;
        case INPUT_LOADED: run_loaded(runner, input); break;
        case INPUT_LOAD_DONE: runner->shards_loading &= ~input->id; break;
        case INPUT_LOAD_RUN_DONE: load_run_done(runner, input->run_id, input->removed); break;
        case INPUT_DOWN: runner->store_is_up = false; break;
        case INPUT_UP: lane_resend(runner); break;
        }
        input_free(input);
    }
}

void runner_turn(struct runner *runner, struct wall now)
{
    runner->now = now;
    do {
        input_drain(runner);
        if (!runner->draining)
            due_queue(runner);
        gates_pump(runner);
        tenants_pump(runner);
        ready_decide(runner);
        gates_pump(runner);
        tenants_pump(runner);
        lane_pump(runner);
    } while (runner->inputs || (runner->ready && !runner->open));
}

bool runner_has_work(const struct runner *runner)
{
    bool room = !runner->open || runner->open->works_count < UNIT_RUNS_MAX;
    return runner->inputs || (runner->ready && room && runner->owned && runner->store_is_up);
}

struct wall runner_due(struct runner *runner)
{
    /* A draining runner lets due times wait: naming one would wake its owner over and over. */
    struct heap_node *top = runner->draining ? NULL : heap_top(&runner->due);
    return wall_first(top ? (struct wall){top->key} : WALL_NONE, gates_due(runner));
}

bool runner_is_idle(const struct runner *runner)
{
    return !runner->flights.count && !runner->sent && !runner->waiting && !runner->open &&
           !runner->inputs && !runner->ready && !runner->committing;
}

void runner_drain(struct runner *runner)
{
    runner->draining = true;
}

const struct tally *runner_tally(const struct runner *runner)
{
    return &runner->tally;
}

struct runner_stats runner_stats(const struct runner *runner)
{
    struct runner_stats stats = runner->stats;
    stats.resident = (uint32_t)runner->slots.count;
    stats.in_flight = (uint32_t)runner->flights.count;
    gates_count(runner, &stats);
    stats.units_in_flight = runner->sent_count;
    stats.shards = runner->owned ? runner->shards & ~runner->shards_loading : 0;
    return stats;
}
