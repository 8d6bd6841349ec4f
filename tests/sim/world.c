#include "tests/sim/world.h"

#include "engine/key.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* The service "brief" forgets a key 5 s after the engine has claimed it, and a little. */
#define BRIEF_TTL_US (6 * SECOND_US)
#define LEASE_US (5 * SECOND_US)
#define SAFETY_US (40 * SECOND_US)
#define END_US (INT64_C(20000) * SECOND_US)

/* --- small things --------------------------------------------------------------------------- */

void world_fail(struct world *world, const char *fmt, ...)
{
    va_list args;
    if (world->failure[0])
        return;
    va_start(args, fmt);
    vsnprintf(world->failure, sizeof(world->failure), fmt, args);
    va_end(args);
    world_trace(world, "FAILURE %s", world->failure);
}

void world_trace(struct world *world, const char *fmt, ...)
{
    va_list args;
    if (!world->trace)
        return;
    fprintf(world->trace, "%10.3f  ", (double)(world->now - WORLD_EPOCH_US) / 1e6);
    va_start(args, fmt);
    vfprintf(world->trace, fmt, args);
    va_end(args);
    fputc('\n', world->trace);
}

bool world_fault(struct world *world, bool enabled, unsigned percent)
{
    return enabled && !world->healed && rand_chance(&world->rand, percent);
}

int64_t world_between_ms(struct world *world, int64_t low, int64_t high)
{
    return (low + (int64_t)rand_below(&world->rand, (uint64_t)(high - low + 1))) * MS_US;
}

/* Things of one instant happen in the order in which they were asked for. */
#define TIE_BITS 24

static void event_set(struct world *world, struct world_event *event, int64_t delay_us)
{
    int64_t tie = (int64_t)(++world->scheduled & ((1 << TIE_BITS) - 1));
    heap_set(&world->queue, &event->node,
             (world->now - WORLD_EPOCH_US + delay_us) * (1 << TIE_BITS) + tie);
}

struct world_event *world_schedule(struct world *world, int64_t delay_us, int daemon, void *data,
                                   void (*fn)(struct world_event *event))
{
    struct world_event *event = arena_new(&world->arena, struct world_event);
    event->fn = fn;
    event->world = world;
    event->daemon = daemon;
    event->data = data;
    if (daemon >= 0) {
        event->incarnation = world->daemons[daemon].incarnation;
        event->connection = world->daemons[daemon].connection;
    }
    event_set(world, event, delay_us);
    return event;
}

struct daemon *world_event_daemon(struct world_event *event)
{
    return &event->world->daemons[event->daemon];
}

bool world_event_reaches(struct world_event *event)
{
    struct daemon *daemon = world_event_daemon(event);
    if (!daemon->runner || daemon->incarnation != event->incarnation)
        return false;
    if (daemon->frozen) {
        event_set(event->world, event, 50 * MS_US);
        return false;
    }
    return true;
}

struct row_run *world_row(const struct world *world, struct str id)
{
    struct map_node *node = map_first(&world->rows, str_hash(id));
    for (; node; node = map_next(node)) {
        struct row_run *row = CONTAINER_OF(node, struct row_run, node);
        if (str_eq(row->id, id))
            return row;
    }
    return NULL;
}

struct ledger_entry *world_ledger(struct world *world, struct str key)
{
    struct map_node *node = map_first(&world->ledger, str_hash(key));
    for (; node; node = map_next(node)) {
        struct ledger_entry *entry = CONTAINER_OF(node, struct ledger_entry, node);
        if (str_eq_z(key, entry->key))
            return entry;
    }
    struct ledger_entry *entry = arena_new(&world->arena, struct ledger_entry);
    entry->key = (char *)arena_str(&world->arena, key).ptr;
    map_insert(&world->ledger, &entry->node, str_hash(key));
    return entry;
}

void world_effect(struct world *world, struct ledger_entry *entry)
{
    if (!entry->effects++) {
        entry->first_order = ++world->order;
        entry->first_at = world->now;
    }
}

/* --- a daemon's loop -------------------------------------------------------------------------- */

static void daemon_turn(struct world_event *event);

void world_poke(struct daemon *daemon, int64_t delay_us)
{
    struct world *world = daemon->world;
    int64_t at = world->now + delay_us;
    if (daemon->turn_at && daemon->turn_at <= at)
        return;
    daemon->turn_at = at;
    world_schedule(world, delay_us, daemon->index, NULL, daemon_turn);
}

static void daemon_turn(struct world_event *event)
{
    struct daemon *daemon = world_event_daemon(event);
    if (!world_event_reaches(event))
        return;
    if (daemon->turn_at && event->world->now >= daemon->turn_at)
        daemon->turn_at = 0;
    limits_look(daemon);
    runner_turn(daemon->runner, (struct wall){event->world->now});
    struct wall due = runner_due(daemon->runner);
    if (runner_has_work(daemon->runner))
        world_poke(daemon, MS_US);
    else if (wall_is_set(due))
        world_poke(daemon, MAX(due.us - event->world->now, INT64_C(0)));
}

/* --- the database ------------------------------------------------------------------------------
 */

static uint32_t record_crc(uint32_t crc, const struct run_record *record)
{
    crc = crc32c(crc, &record->kind, sizeof(record->kind));
    if (record->kind == RECORD_CLAIM || record->kind == RECORD_EFFECT) {
        const struct effect_state *state = &record->effect.state;
        crc = crc32c(crc, &state->state, sizeof(state->state));
        crc = crc32c(crc, &state->attempts, sizeof(state->attempts));
        crc = crc32c(crc, &record->effect.ref.step, sizeof(record->effect.ref.step));
        crc = crc32c(crc, record->effect.ref.item.ptr, record->effect.ref.item.len);
        crc = crc32c(crc, state->items.ptr, state->items.len);
        crc = crc32c(crc, state->output.ptr, state->output.len);
    }
    if (record->kind == RECORD_RUN)
        crc = crc32c(crc, &record->run.state, sizeof(record->run.state));
    return crc;
}

static void *sim_encode(void *arg, const struct unit *unit)
{
    struct daemon *daemon = arg;
    struct arena *arena = &daemon->world->arena;
    struct sim_unit *copy = arena_new(arena, struct sim_unit);
    struct unit_run *runs = arena_array(arena, struct unit_run, unit->runs_count);
    copy->unit = *unit;
    copy->unit.runs = runs;
    copy->unit.release_to = arena_str(arena, unit->release_to);
    for (uint32_t i = 0; i < unit->runs_count; i++) {
        struct run_record *records =
            arena_array(arena, struct run_record, unit->runs[i].records_count);
        runs[i] = unit->runs[i];
        runs[i].run_id = arena_str(arena, unit->runs[i].run_id);
        runs[i].records = records;
        copy->crc = crc32c(copy->crc, runs[i].run_id.ptr, runs[i].run_id.len);
        for (uint32_t j = 0; j < runs[i].records_count; j++) {
            records[j] = unit->runs[i].records[j];
            run_record_copy(&records[j], arena);
            copy->crc = record_crc(copy->crc, &records[j]);
        }
    }
    return copy;
}

static void sim_encoded_free(void *arg, void *encoded)
{
    (void)arg, (void)encoded; /* lies in the world's arena */
}

struct record_effect *world_row_effect(struct row_run *row, const struct effect_ref *ref)
{
    for (uint32_t i = 0; i < row->effects_count; i++) {
        const struct effect_ref *have = &row->effects[i].ref;
        if (have->step == ref->step && have->direction == ref->direction &&
            have->generation == ref->generation && str_eq(have->item, ref->item))
            return &row->effects[i];
    }
    return NULL;
}

static struct row_run *row_new(struct world *world, const struct unit_run *unit_run, int lane,
                               uint64_t seq)
{
    struct row_run *row = arena_new(&world->arena, struct row_run);
    row->id = unit_run->run_id;
    row->plan = unit_run->plan;
    row->created_lane = lane;
    row->created_seq = seq;
    map_insert(&world->rows, &row->node, str_hash(row->id));
    return row;
}

static void effect_insert(struct world *world, struct row_run *row,
                          const struct record_effect *effect)
{
    if (row->effects_count == row->effects_size) {
        struct record_effect *old = row->effects;
        row->effects_size = row->effects_size ? row->effects_size * 2 : 16;
        row->effects = arena_array(&world->arena, struct record_effect, row->effects_size);
        if (old)
            memcpy(row->effects, old, row->effects_count * sizeof(*old));
    }
    row->effects[row->effects_count++] = *effect;
}

/* The items of a loop are written once, by the insert. */
static void effect_update(struct record_effect *row, const struct record_effect *effect)
{
    struct str items = row->state.items;
    *row = *effect;
    row->state.items = items;
}

static void record_write(struct world *world, struct row_run *row, const struct run_record *record)
{
    struct record_effect *effect;
    if ((record->kind == RECORD_CLAIM || record->kind == RECORD_EFFECT) &&
        record->effect.state.by_hand)
        row->told[record->effect.ref.step] = true;
    switch (record->kind) {
    case RECORD_START:
        row->start = record->start;
        row->now.state = record_start_state(&record->start);
        row->now.direction = DIRECTION_EXECUTE;
        if (wall_is_set(row->start.start_at) && row->plan->deadline_us &&
            row->start.deadline_at.us != row->start.start_at.us + row->plan->deadline_us)
            world_fail(world, "run %s waits for its start_at at the cost of its deadline",
                       row->id.ptr);
        schedule_start_check(world, row);
        if (row->start.start_at.us <= row->start.created_at.us)
            locks_ticket(world, row);
        break;
    case RECORD_CLAIM:
        if (world_row_effect(row, &record->effect.ref))
            world_fail(world, "run %s claims step %u twice under one key", row->id.ptr,
                       record->effect.ref.step);
        if (record->effect.turn != row->now.turn)
            world_fail(world, "run %s claims step %u in turn %u, it is %u", row->id.ptr,
                       record->effect.ref.step, record->effect.turn, row->now.turn);
        if (world->now < row->start.start_at.us)
            world_fail(world, "run %s claims step %u before its start_at", row->id.ptr,
                       record->effect.ref.step);
        effect_insert(world, row, &record->effect);
        break;
    case RECORD_EFFECT:
        effect = world_row_effect(row, &record->effect.ref);
        if (!effect)
            world_fail(world, "run %s updates an effect of step %u that was never claimed",
                       row->id.ptr, record->effect.ref.step);
        else {
            workers_write_check(world, row, &effect->state, &record->effect);
            effect_update(effect, &record->effect);
        }
        break;
    case RECORD_RUN:
        /* A completed child is undone when its parent asks; late successes open a run again. */
        if (run_state_is_terminal(row->now.state) && record->run.state != row->now.state &&
            !run_transition_reaches(row->now.state, record->run.state))
            world_fail(world, "run %s goes on after it has ended", row->id.ptr);
        if (world->now < row->start.start_at.us &&
            (record->run.state == RUN_RUNNING || record->run.state == RUN_COMPLETED))
            world_fail(world, "run %s is %s before its start_at", row->id.ptr,
                       run_state_name(record->run.state));
        row->now = record->run;
        row->has_run_record = true;
        if (run_state_is_terminal(row->now.state))
            locks_release(row);
        break;
    case RECORD_EVENT:
        if (record->event.seq != row->events + 1)
            world_fail(world, "run %s writes event %u after %u", row->id.ptr, record->event.seq,
                       row->events);
        row->events = record->event.seq;
        row->retried = row->retried || str_eq(record->event.what, STR("retry"));
        break;
    case RECORD_SIGNAL:
        ASSERT(row->signals_count < ARRAY_LEN(row->signals));
        for (uint32_t i = 0; i < row->signals_count; i++)
            if (str_eq(row->signals[i].name, record->signal.name))
                world_fail(world, "run %s keeps the signal %s twice", row->id.ptr,
                           record->signal.name.ptr);
        row->signals[row->signals_count++] = record->signal;
        break;
    case RECORD_INPUT:
        ASSERT(row->inputs_count < ARRAY_LEN(row->inputs));
        row->inputs[row->inputs_count++] = record->input;
        break;
    case RECORD_PIN: row->plan = record->pin.plan; break;
    case RECORD_FINDING:
        if (record->finding.source == FINDING_ANSWER)
            row->told[record->finding.ref.step] = true;
        break;
    case RECORD_INBOX: schedule_settled(world, record->inbox.id); break;
    case RECORD_ATTEMPT:
    case RECORD_APPROVAL:
    case RECORD_BEGUN: break;
    case RECORD_NONE:
    case RECORD_KIND_COUNT: ASSERT(!"a record");
    }
}

static bool is_poisoned(const struct unit_run *unit_run)
{
    for (uint32_t i = 0; i < unit_run->records_count; i++) {
        const struct run_record *record = &unit_run->records[i];
        if (record->kind != RECORD_CLAIM && record->kind != RECORD_EFFECT)
            continue;
        struct str output = record->effect.state.output;
        if (output.len && memmem(output.ptr, output.len, "poison", 6))
            return true;
    }
    return false;
}

static void taken_add(struct world *world, struct unit_answer *answer, struct unit_taken **list,
                      const struct row_run *row, uint32_t capacity)
{
    if (!*list)
        *list = arena_array(&world->arena, struct unit_taken, capacity);
    (*list)[answer->taken_count++] = (struct unit_taken){.run_id = row->id,
                                                         .input_hash = row->start.input_hash,
                                                         .workflow = str_z(row->plan->workflow),
                                                         .tenant = row->start.tenant};
    answer->taken = *list;
}

static void row_trace(struct world *world, int lane, uint64_t seq, const struct row_run *row,
                      const struct unit_run *unit_run)
{
    if (!world->trace)
        return;
    world_trace(world, "  lane %d unit %llu writes %s: %s %s", lane, (unsigned long long)seq,
                row->id.ptr, run_state_name(row->now.state),
                row->now.reason ? park_reason_name(row->now.reason) : "");
    for (uint32_t i = 0; i < unit_run->records_count; i++) {
        const struct run_record *record = &unit_run->records[i];
        if (record->kind == RECORD_CLAIM || record->kind == RECORD_EFFECT)
            world_trace(world, "      %s %s.%s %s: %s (%s), attempts %u",
                        record->kind == RECORD_CLAIM ? "claim" : "effect",
                        row->plan->steps[record->effect.ref.step].id, record->effect.ref.item.ptr,
                        direction_name(record->effect.ref.direction),
                        step_state_name(record->effect.state.state),
                        outcome_name(record->effect.state.outcome), record->effect.state.attempts);
    }
}

static void unit_write(struct world *world, int lane, uint64_t seq, const struct unit *unit,
                       struct unit_answer *answer)
{
    struct unit_taken *taken = NULL;
    for (uint32_t i = 0; i < unit->runs_count; i++) {
        const struct unit_run *unit_run = &unit->runs[i];
        struct row_run *row = world_row(world, unit_run->run_id);
        if (world->shard_lane[unit_run->shard] != lane)
            world_fail(world, "lane %d writes run %s of shard %u, which lane %d carries", lane,
                       unit_run->run_id.ptr, unit_run->shard, world->shard_lane[unit_run->shard]);
        if (unit_run->is_start && row) {
            taken_add(world, answer, &taken, row, unit->runs_count);
            continue;
        }
        if (!row)
            row = row_new(world, unit_run, lane, seq);
        /* The run's own columns first: claims are checked against its turn. */
        for (uint32_t j = 0; j < unit_run->records_count; j++)
            if (unit_run->records[j].kind <= RECORD_START ||
                unit_run->records[j].kind == RECORD_RUN)
                record_write(world, row, &unit_run->records[j]);
        for (uint32_t j = 0; j < unit_run->records_count; j++)
            if (unit_run->records[j].kind > RECORD_START && unit_run->records[j].kind != RECORD_RUN)
                record_write(world, row, &unit_run->records[j]);
        loops_check(world, row);
        locks_check(world, row);
        row_trace(world, lane, seq, row, unit_run);
    }
    for (uint16_t shard = 0; shard < RUN_SHARDS; shard++)
        if (unit->release_shards >> shard & 1)
            world->shard_lane[shard] = unit->release_to.ptr[0] - '0';
}

/* apply_v2 as a model. */
static struct unit_answer unit_apply(struct world *world, int lane, const struct sim_unit *unit,
                                     uint64_t epoch, uint64_t seq)
{
    struct unit_answer answer = {.verdict = UNIT_APPLIED, .db_now = {world->now}};
    struct unit_taken *taken = NULL;
    if (world->lane_epoch[lane] != epoch) {
        answer.verdict = UNIT_FENCED;
        return answer;
    }
    if (seq != world->lane_seq[lane] + 1) {
        bool recent = seq && seq <= world->lane_seq[lane] && seq + 8 > world->lane_seq[lane];
        answer.verdict = UNIT_GAP;
        if (recent)
            answer.verdict =
                world->recent[lane][seq % 8].crc == unit->crc ? UNIT_ALREADY : UNIT_CONFLICT;
        for (uint32_t i = 0; answer.verdict == UNIT_ALREADY && i < unit->unit.runs_count; i++) {
            struct row_run *row = world_row(world, unit->unit.runs[i].run_id);
            if (unit->unit.runs[i].is_start &&
                (row->created_lane != lane || row->created_seq != seq))
                taken_add(world, &answer, &taken, row, unit->unit.runs_count);
        }
        return answer;
    }
    for (uint32_t i = 0; i < unit->unit.runs_count; i++)
        if (is_poisoned(&unit->unit.runs[i])) {
            answer.verdict = UNIT_REJECTED;
            err_set(&answer.err, ERR_DATABASE, "invalid value in a payload");
            return answer;
        }
    world->lane_seq[lane] = seq;
    world->recent[lane][seq % 8].seq = seq;
    world->recent[lane][seq % 8].crc = unit->crc;
    unit_write(world, lane, seq, &unit->unit, &answer);
    return answer;
}

static void message_answered(struct world_event *event)
{
    struct daemon *daemon = world_event_daemon(event);
    struct message *message = event->data;
    if (!world_event_reaches(event) || daemon->connection != event->connection)
        return;
    if (daemon->messages != message) { /* an earlier answer still waits for a frozen daemon */
        event_set(event->world, event, MS_US);
        return;
    }
    daemon->messages = message->next;
    if (!daemon->messages)
        daemon->messages_tail = &daemon->messages;
    runner_unit_answer(daemon->runner, &message->answer);
    if (message->answer.verdict == UNIT_FENCED)
        daemon->owned = false;
    world_poke(daemon, 0);
}

static void message_arrived(struct world_event *event)
{
    struct world *world = event->world;
    struct daemon *daemon = world_event_daemon(event);
    struct message *message = event->data;
    bool current =
        daemon->incarnation == event->incarnation && daemon->connection == event->connection;
    if (!current && !(world->faults.ghosts && rand_chance(&world->rand, 60)))
        return;
    message->answer = unit_apply(world, event->daemon, message->unit, message->epoch, message->seq);
    world_trace(world, "lane %d unit %llu %s verdict %d", event->daemon,
                (unsigned long long)message->seq, current ? "arrives" : "arrives as a ghost",
                message->answer.verdict);
    if (current)
        world_schedule(world, 2 * MS_US, event->daemon, message, message_answered)->connection =
            event->connection;
}

static int64_t store_delay(struct daemon *daemon)
{
    /* In order: no message overtakes the one before it, answers neither. */
    static const int64_t step = 2 * MS_US;
    int64_t count = 1;
    for (struct message *message = daemon->messages; message; message = message->next)
        count++;
    return count * step;
}

static void sim_send(void *arg, void *encoded, uint64_t epoch, uint64_t seq)
{
    struct daemon *daemon = arg;
    struct message *message = arena_new(&daemon->world->arena, struct message);
    message->unit = encoded;
    message->epoch = epoch;
    message->seq = seq;
    if (!daemon->connected)
        return; /* undecided: resent when the connection is back */
    *daemon->messages_tail = message;
    daemon->messages_tail = &message->next;
    world_schedule(daemon->world, store_delay(daemon), daemon->index, message, message_arrived);
}

/* Records of a row, as a load gives them. */
static void row_load(struct world *world, struct daemon *daemon, struct row_run *row, bool pickups)
{
    struct run_record *records =
        arena_array(&world->arena, struct run_record,
                    row->effects_count + row->signals_count + row->inputs_count + 3);
    uint32_t count = 0;
    records[count++] = (struct run_record){.kind = RECORD_START, .start = row->start};
    for (uint32_t i = 0; i < row->effects_count; i++) {
        struct record_effect *effect = &row->effects[i];
        struct effect_ref newer = effect->ref;
        newer.generation++;
        if (world_row_effect(row, &newer))
            continue;
        if (pickups && effect->state.state == STEP_CLAIMED)
            effect->state.pickups++;
        records[count++] = (struct run_record){.kind = RECORD_CLAIM, .effect = *effect};
    }
    for (uint32_t i = 0; i < row->inputs_count; i++)
        records[count++] = (struct run_record){.kind = RECORD_INPUT, .input = row->inputs[i]};
    for (uint32_t i = 0; i < row->signals_count; i++)
        records[count++] = (struct run_record){.kind = RECORD_SIGNAL, .signal = row->signals[i]};
    if (row->has_run_record)
        records[count++] = (struct run_record){.kind = RECORD_RUN, .run = row->now};
    if (row->events)
        records[count++] = (struct run_record){.kind = RECORD_EVENT, .event = {.seq = row->events}};
    world_trace(world, "daemon %d loads %s (%s)", daemon->index, row->id.ptr,
                run_state_name(row->now.state));
    runner_loaded(daemon->runner, row->plan, row->id, records, count);
}

static void load_arrived(struct world_event *event)
{
    struct world *world = event->world;
    struct daemon *daemon = world_event_daemon(event);
    uint64_t shards = event->number;
    if (!world_event_reaches(event) || daemon->connection != event->connection)
        return;
    for (size_t i = 0; i < world->rows.size; i++)
        for (struct map_node *node = world->rows.buckets[i]; node; node = node->chain) {
            struct row_run *row = CONTAINER_OF(node, struct row_run, node);
            bool open = !run_state_is_terminal(row->now.state) && row->now.state != RUN_PARKED;
            uint16_t shard = shard_of(row->id);
            if (open && shards >> shard & 1 && world->shard_lane[shard] == daemon->index)
                row_load(world, daemon, row, true);
        }
    runner_load_done(daemon->runner, shards);
    world_poke(daemon, 0);
}

static void sim_load(void *arg, uint64_t shards)
{
    struct daemon *daemon = arg;
    world_schedule(daemon->world, world_between_ms(daemon->world, 2, 10), daemon->index, NULL,
                   load_arrived)
        ->number = shards;
}

static void load_run_arrived(struct world_event *event)
{
    struct daemon *daemon = world_event_daemon(event);
    struct str id = str_z(event->data);
    if (!world_event_reaches(event))
        return;
    struct row_run *row = world_row(event->world, id);
    if (row)
        row_load(event->world, daemon, row, false);
    runner_load_run_done(daemon->runner, id, RUN_NONE);
    world_poke(daemon, 0);
}

static void sim_load_run(void *arg, struct str run_id)
{
    struct daemon *daemon = arg;
    world_schedule(daemon->world, world_between_ms(daemon->world, 1, 5), daemon->index,
                   (char *)arena_str(&daemon->world->arena, run_id).ptr, load_run_arrived);
}

/* --- participants ------------------------------------------------------------------------------
 */

static struct sim_invocation *invocation_find(struct daemon *daemon, uint64_t id)
{
    struct map_node *node = map_first(&daemon->invocations, rand_mix(id));
    for (; node; node = map_next(node)) {
        struct sim_invocation *invocation = CONTAINER_OF(node, struct sim_invocation, node);
        if (invocation->id == id)
            return invocation;
    }
    return NULL;
}

/* Together less than a timeout and settle_after, as the workflows declare. */
#define ASK_LAG_US SECOND_US
#define ACCEPTED_MS_MAX 2500

struct delivery { /* a request on the wire */
    uint64_t invocation;
    struct str key, service;
    bool asks, can_be_asked;
    enum effect_tier effect;
    int64_t timeout_us, sent_at;
    struct reply reply;
};

static void reply_arrived(struct world_event *event)
{
    struct delivery *delivery = event->data;
    struct daemon *daemon = world_event_daemon(event);
    if (!world_event_reaches(event))
        return;
    delivery->reply.ended_at = (struct wall){event->world->now};
    struct sim_invocation *sent = invocation_find(daemon, delivery->invocation);
    if (sent)
        limits_done(daemon, sent);
    runner_reply(daemon->runner, delivery->invocation, &delivery->reply);
    world_poke(daemon, 0);
}

static void reply_later(struct world_event *event, struct delivery *delivery, int64_t delay_us)
{
    struct world_event *next =
        world_schedule(event->world, delay_us, event->daemon, delivery, reply_arrived);
    next->incarnation = event->incarnation;
}

static void verb_send(struct world *world, const struct runner_verb *verb);

/* A participant says what it did under a key, to whoever is there to hear it. */
static void called_back(struct world_event *event)
{
    struct ledger_entry *entry = event->data;
    struct str key = str_z(entry->key);
    if (!entry->effects && !entry->refuses)
        return; /* there is nothing to tell */
    verb_send(event->world, &(struct runner_verb){.kind = EVENT_ANSWER,
                                                  .run_id = key_run_id(key),
                                                  .name = key,
                                                  .applied = entry->effects > 0,
                                                  .output = STR("{\"id\":\"called\"}"),
                                                  .reason = STR("called back"),
                                                  .actor = STR("sim")});
}

static void call_back_some(struct world *world, struct ledger_entry *entry)
{
    if (world_fault(world, world->faults.call_back, 30))
        world_schedule(world, world_between_ms(world, 1, 40000), -1, entry, called_back);
}

/* What was accepted is done, or turns out not to be possible. */
static void accepted_done(struct world_event *event)
{
    struct ledger_entry *entry = event->data;
    entry->accepted = false;
    if (world_fault(event->world, event->world->faults.refuse, 30))
        entry->refuses = true;
    else
        world_effect(event->world, entry);
    call_back_some(event->world, entry);
    world_trace(event->world, "participant: %s was %s", entry->key,
                entry->refuses ? "refused at last" : "done at last");
}

/* The participant works: what it answers, and what its ledger says afterwards. */
static void participant_work(struct world *world, struct delivery *delivery)
{
    struct ledger_entry *entry = world_ledger(world, delivery->key);
    bool honours_key = str_eq_z(delivery->service, "keyed") ||
                       (str_eq_z(delivery->service, "brief") && entry->effects &&
                        world->now <= entry->first_at + BRIEF_TTL_US);
    entry->requests++;
    if (!entry->decided) {
        entry->decided = true;
        entry->refuses = world_fault(world, world->faults.refuse, 12);
    }
    delivery->reply.kind = REPLY_HTTP;
    if (entry->accepted) {
        delivery->reply.status = 202;
        return;
    }
    if (honours_key && entry->effects) {
        if (world_fault(world, world->faults.refuse,
                        8)) { /* validates before it looks for the key */
            delivery->reply.status = 400;
            return;
        }
        delivery->reply.status = 200;
        delivery->reply.body = STR("{\"id\":\"again\"}");
        return;
    }
    if (entry->refuses) {
        delivery->reply.status = 422;
        delivery->reply.body = STR("{\"code\":\"no\"}");
        return;
    }
    if (world_fault(world, world->faults.transient, 15)) {
        delivery->reply.status = 503;
        return;
    }
    if (delivery->can_be_asked && !entry->accepted && !entry->effects &&
        world_fault(world, world->faults.accept, 25)) {
        entry->accepted = true;
        delivery->reply.status = 202;
        world_schedule(world, world_between_ms(world, 100, ACCEPTED_MS_MAX), -1, entry,
                       accepted_done);
        return;
    }
    world_effect(world, entry);
    call_back_some(world, entry);
    delivery->reply.status = world_fault(world, world->faults.error_after, 10) ? 500 : 200;
    delivery->reply.body = world_fault(world, world->faults.poison, 5) ? STR("{\"id\":\"poison\"}")
                                                                       : STR("{\"id\":\"first\"}");
}

/* What it says of the key that is asked about. */
static void participant_tell(struct world *world, struct delivery *delivery)
{
    struct ledger_entry *entry = world_ledger(world, delivery->key);
    bool lags = world_fault(world, world->faults.ask_lags, 40) &&
                !str_eq_z(delivery->service, "keyless") && /* which declares no settle_after */
                world->now < entry->first_at + ASK_LAG_US;
    delivery->reply.kind = REPLY_HTTP;
    delivery->reply.status = 200;
    if (world_fault(world, world->faults.ask_fails, 30)) {
        static const int statuses[] = {200, 503, 500, 401, 429};
        delivery->reply.status = statuses[rand_below(&world->rand, ARRAY_LEN(statuses))];
        delivery->reply.body = STR("{}");
    } else if (entry->effects && !lags) {
        delivery->reply.body = STR("{\"state\":\"done\",\"id\":\"told\"}");
    } else if (entry->accepted) {
        delivery->reply.body = STR("{\"state\":\"running\"}");
    } else if (entry->decided && entry->refuses) {
        delivery->reply.body = STR("{\"state\":\"refused\"}");
    } else {
        delivery->reply.body = STR("{\"state\":\"none\"}");
    }
}

static void request_arrived(struct world_event *event)
{
    struct world *world = event->world;
    struct delivery *delivery = event->data;
    if (delivery->asks)
        participant_tell(world, delivery);
    else
        participant_work(world, delivery);
    world_trace(world, "participant %.*s: %s -> %d", (int)delivery->service.len,
                delivery->service.ptr, delivery->key.ptr, delivery->reply.status);
    if (world_fault(world, world->faults.lose_answer, 15)) {
        delivery->reply = (struct reply){.kind = REPLY_NO_ANSWER,
                                         .timed_out = true,
                                         .sent_at = {delivery->sent_at},
                                         .error = STR("timed out")};
        reply_later(event, delivery, delivery->timeout_us);
        return;
    }
    reply_later(event, delivery, world_between_ms(world, 1, 200));
}

/* A question stands in the row before it is sent, and only what is unknown is asked about. */
static void ask_check(struct world *world, const struct invocation *invocation)
{
    struct row_run *row = world_row(world, invocation->run_id);
    for (uint32_t i = 0; row && i < row->effects_count; i++) {
        const struct record_effect *effect = &row->effects[i];
        struct str name =
            key_instance(&row->plan->steps[effect->ref.step], effect->ref.item, &world->arena);
        if (str_eq(name, invocation->step) && effect->ref.direction == invocation->direction &&
            effect->state.findings == invocation->attempt && effect->state.state == STEP_UNKNOWN &&
            wall_is_set(effect->state.next_at))
            return;
    }
    world_fail(world, "%s is asked about (%u), which its row does not say",
               invocation->reconciles.ptr, invocation->attempt);
}

/* Law 3: whatever is sent was claimed durably, under this attempt, in a direction that allows it.
 */
static void claim_check(struct world *world, const struct invocation *invocation)
{
    struct row_run *row = world_row(world, invocation->run_id);
    for (uint32_t i = 0; row && i < row->effects_count; i++) {
        const struct record_effect *effect = &row->effects[i];
        struct str name =
            key_instance(&row->plan->steps[effect->ref.step], effect->ref.item, &world->arena);
        if (!str_eq(name, invocation->step) || effect->ref.direction != invocation->direction ||
            effect->state.attempts != invocation->attempt || effect->state.state != STEP_CLAIMED)
            continue;
        if (invocation->direction == DIRECTION_EXECUTE &&
            row->now.direction == DIRECTION_COMPENSATE && !effect->state.maybe_applied)
            world_fail(world, "%s is sent forward after the run has turned", invocation->key.ptr);
        return;
    }
    world_fail(world, "%s is sent (attempt %u) without a durable claim", invocation->key.ptr,
               invocation->attempt);
}

static void sql_answered(struct world_event *event)
{
    struct daemon *daemon = world_event_daemon(event);
    struct sim_invocation *invocation = event->data;
    struct reply reply = {.kind = REPLY_SQL_OPEN, .body = STR("{\"rows\":[],\"count\":1}")};
    if (!world_event_reaches(event) || invocation->dropped)
        return;
    if (world_fault(event->world, event->world->faults.transient, 10)) {
        reply = (struct reply){.kind = REPLY_SQL, .sqlstate = "40001"};
    } else if (world_fault(event->world, event->world->faults.refuse, 10)) {
        reply = (struct reply){.kind = REPLY_SQL, .sqlstate = "23505"};
    } else {
        invocation->open = true;
    }
    runner_reply(daemon->runner, invocation->id, &reply);
    world_poke(daemon, 0);
}

/* A key is sent with the same bytes every time. */
static void body_check(struct world *world, const struct invocation *invocation)
{
    struct ledger_entry *entry = world_ledger(world, invocation->key);
    struct str body = invocation->request->body.ptr ? invocation->request->body : STR("");
    if (!entry->body.ptr)
        entry->body = arena_str(&world->arena, body);
    else if (!str_eq(entry->body, body))
        world_fail(world, "%s is sent with another body than before", entry->key);
}

static void sim_start(void *arg, const struct invocation *from)
{
    struct daemon *daemon = arg;
    struct world *world = daemon->world;
    struct sim_invocation *invocation = arena_new(&world->arena, struct sim_invocation);
    invocation->id = from->id;
    invocation->service = -1;
    bool asks = from->reconciles.ptr != NULL;
    invocation->key = arena_str(&world->arena, asks ? from->reconciles : from->key);
    invocation->run_id = arena_str(&world->arena, from->run_id);
    map_insert(&daemon->invocations, &invocation->node, rand_mix(from->id));
    invocation->sql = from->request->action->kind == ACTION_SQL;
    if (invocation->sql) {
        world_schedule(world, world_between_ms(world, 1, 50), daemon->index, invocation,
                       sql_answered);
        return;
    }
    if (asks)
        ask_check(world, from);
    else {
        claim_check(world, from);
        body_check(world, from);
    }
    if (!asks)
        limits_sent(daemon, invocation, from);
    world_trace(world, "daemon %d %s %s, %u", daemon->index, asks ? "asks about" : "sends",
                invocation->key.ptr, from->attempt);
    struct delivery *delivery = arena_new(&world->arena, struct delivery);
    delivery->invocation = from->id;
    delivery->key = invocation->key;
    delivery->asks = asks;
    delivery->can_be_asked = from->request->action->reconcile != NULL;
    delivery->service = str_z(from->request->service->name);
    delivery->timeout_us = from->timeout_us;
    delivery->sent_at = world->now;
    delivery->reply.sent_at = (struct wall){world->now};
    struct world_event now = {
        .world = world, .daemon = daemon->index, .incarnation = daemon->incarnation};
    if (world_fault(world, world->faults.not_connect, 10)) {
        delivery->reply.kind = REPLY_NOT_CONNECTED;
        delivery->reply.error = STR("connection refused");
        reply_later(&now, delivery, MS_US);
    } else if (world_fault(world, world->faults.lose_request, 10)) {
        delivery->reply.kind = REPLY_NO_ANSWER;
        delivery->reply.timed_out = true;
        delivery->reply.error = STR("timed out");
        reply_later(&now, delivery, delivery->timeout_us);
    } else {
        world_schedule(world, world_between_ms(world, 1, 300), daemon->index, delivery,
                       request_arrived);
    }
}

static void sim_drop(void *arg, uint64_t id)
{
    struct daemon *daemon = arg;
    struct sim_invocation *invocation = invocation_find(daemon, id);
    ASSERT(invocation);
    invocation->dropped = true;
    invocation->open = false;
    limits_done(daemon, invocation);
}

/* Its lease is lost: the answer is still wanted, and does not count in the service's books. */
static void sim_leave(void *arg, uint64_t id)
{
    struct daemon *daemon = arg;
    struct sim_invocation *invocation = invocation_find(daemon, id);
    ASSERT(invocation);
    if (invocation->sql)
        sim_drop(arg, id);
    else
        limits_done(daemon, invocation);
}

static void stray_brought(struct world_event *event)
{
    const struct runner_verb *verb = event->data;
    verb_send(event->world, verb);
}

/* What came after the lease was lost takes its way through the inbox. */
static void sim_stray(void *arg, const struct stray_answer *answer)
{
    struct daemon *daemon = arg;
    struct world *world = daemon->world;
    struct runner_verb *verb = arena_new(&world->arena, struct runner_verb);
    const struct ledger_entry *entry = world_ledger(world, answer->key);
    if (answer->applied && !entry->effects)
        world_fail(world, "%s is told to be applied", entry->key);
    *verb = (struct runner_verb){.kind = EVENT_ANSWER,
                                 .run_id = arena_str(&world->arena, answer->run_id),
                                 .name = arena_str(&world->arena, answer->key),
                                 .applied = answer->applied,
                                 .attempt = answer->attempt,
                                 .output = arena_str(&world->arena, answer->output),
                                 .reason = STR("late"),
                                 .actor = STR("sim")};
    world_schedule(world, world_between_ms(world, 1, 3000), -1, verb, stray_brought);
}

struct commit {
    struct sim_invocation *invocation;
    struct sim_unit *unit;
    uint64_t epoch;
    struct unit_answer answer;
};

static void commit_answered(struct world_event *event)
{
    struct daemon *daemon = world_event_daemon(event);
    struct commit *commit = event->data;
    if (!world_event_reaches(event))
        return;
    runner_commit_answer(daemon->runner, commit->invocation->id, &commit->answer);
    if (commit->answer.verdict == UNIT_FENCED)
        daemon->owned = false;
    world_poke(daemon, 0);
}

/* The user's rows and the record in one transaction, or neither. */
static void commit_arrived(struct world_event *event)
{
    struct world *world = event->world;
    struct daemon *daemon = world_event_daemon(event);
    struct commit *commit = event->data;
    struct unit_answer answer = {.verdict = UNIT_REJECTED, .db_now = {world->now}};
    err_set(&answer.err, ERR_DATABASE, "connection lost");
    bool here = daemon->runner && daemon->incarnation == event->incarnation;
    if (world->lane_epoch[event->daemon] != commit->epoch) {
        answer.verdict = UNIT_FENCED;
    } else if ((here || rand_chance(&world->rand, 50)) &&
               !world_fault(world, world->faults.store_cut, 10)) {
        answer.verdict = UNIT_APPLIED;
        unit_write(world, event->daemon, 0, &commit->unit->unit, &answer);
        struct ledger_entry *entry = world_ledger(world, commit->invocation->key);
        entry->requests++;
        world_effect(world, entry);
        world_trace(world, "commits %s", commit->invocation->key.ptr);
    }
    commit->answer = answer;
    world_schedule(world, MS_US, event->daemon, commit, commit_answered)->incarnation =
        event->incarnation;
}

static void sim_commit(void *arg, uint64_t id, void *encoded)
{
    struct daemon *daemon = arg;
    struct world *world = daemon->world;
    struct commit *commit = arena_new(&world->arena, struct commit);
    commit->invocation = invocation_find(daemon, id);
    ASSERT(commit->invocation && commit->invocation->open);
    commit->invocation->open = false;
    commit->unit = encoded;
    commit->epoch = world->lane_epoch[daemon->index];
    world_schedule(world, MS_US, daemon->index, commit, commit_arrived);
}

/* --- daemons come and go ------------------------------------------------------------------------
 */

static void sim_changed(void *arg, const struct run *run)
{
    struct daemon *daemon = arg;
    const char *broken = run_check(run);
    if (broken)
        world_fail(daemon->world, "run %s: %s", run->id.ptr, broken);
}

static uint64_t lane_shards(const struct world *world, int lane)
{
    uint64_t shards = 0;
    for (int shard = 0; shard < RUN_SHARDS; shard++)
        if (world->shard_lane[shard] == lane)
            shards |= UINT64_C(1) << shard;
    return shards;
}

static void daemon_acquire(struct world_event *event)
{
    struct world *world = event->world;
    struct daemon *daemon = world_event_daemon(event);
    if (!world_event_reaches(event) || daemon->owned)
        return;
    runner_lost(daemon->runner);
    daemon->connection++; /* whatever was on its way belongs to the past */
    daemon->messages = NULL;
    daemon->messages_tail = &daemon->messages;
    daemon->connected = true;
    daemon->owned = true;
    daemon->epoch = ++world->lane_epoch[daemon->index];
    world_trace(world, "daemon %d owns its lane, epoch %llu", daemon->index,
                (unsigned long long)world->lane_epoch[daemon->index]);
    runner_own(daemon->runner, world->lane_epoch[daemon->index], world->lane_seq[daemon->index],
               lane_shards(world, daemon->index));
    world_poke(daemon, 0);
}

static const struct plan *sim_plan(void *arg, struct str workflow, const struct json *input,
                                   struct err *err)
{
    const struct daemon *daemon = arg;
    (void)input;
    for (unsigned i = 0; i < WORLD_KIDS; i++)
        if (str_eq_z(workflow, daemon->world->kids[i]->workflow))
            return daemon->world->kids[i];
    err_set(err, ERR_NOT_FOUND, "there is no workflow \"" STR_FMT "\"", STR_ARG(workflow));
    return NULL;
}

static void sim_offer(void *arg, struct str queue, struct str run_id, struct str key)
{
    struct daemon *daemon = arg;
    world_trace(daemon->world, "daemon %d offers %s in %s", daemon->index, key.ptr, queue.ptr);
    workers_offer(daemon, run_id, key);
}

static void daemon_boot(struct daemon *daemon)
{
    struct runner_config config = {.plans = {.arg = daemon, .find = sim_plan},
                                   .services = limits_port(daemon),
                                   .locks = locks_port(daemon),
                                   .tenants = &daemon->world->tenant,
                                   .tenants_count = daemon->world->tenant.runs ? 1 : 0,
                                   .strays = {.arg = daemon, .answered = sim_stray},
                                   .tasks = {.arg = daemon, .offer = sim_offer}};
    struct port_store store = {.arg = daemon,
                               .encode = sim_encode,
                               .encoded_free = sim_encoded_free,
                               .send = sim_send,
                               .commit = sim_commit,
                               .load = sim_load,
                               .load_run = sim_load_run};
    struct port_invoke invoke = {
        .arg = daemon, .start = sim_start, .drop = sim_drop, .leave = sim_leave};
    struct port_watch watch = {.arg = daemon, .changed = sim_changed};
    daemon->incarnation++;
    daemon->runner = runner_new(&config, &store, &invoke, &watch);
    daemon->owned = daemon->frozen = daemon->draining = false;
    daemon->turn_at = 0;
    map_free(&daemon->invocations);
    memset(daemon->in_flight, 0, sizeof(daemon->in_flight));
    world_schedule(daemon->world, world_between_ms(daemon->world, 1, 20), daemon->index, NULL,
                   daemon_acquire);
}

static void daemon_boots(struct world_event *event)
{
    struct daemon *daemon = world_event_daemon(event);
    if (!daemon->runner)
        daemon_boot(daemon);
}

/* Every half second each daemon looks around: shards that came to it, a peer whose lease ran out.
 */
static void daemon_observe(struct world_event *event)
{
    struct world *world = event->world;
    struct daemon *daemon = world_event_daemon(event);
    world_schedule(world, 500 * MS_US, event->daemon, NULL, daemon_observe);
    if (!daemon->runner || daemon->frozen)
        return;
    if (!daemon->owned) {
        world_schedule(world, 0, event->daemon, NULL, daemon_acquire);
        return;
    }
    for (int other = 0; other < WORLD_DAEMONS; other++) {
        struct daemon *peer = &world->daemons[other];
        bool gone = !peer->runner || peer->frozen;
        if (other == event->daemon || !gone || world->now - peer->frozen_at < LEASE_US ||
            !lane_shards(world, other))
            continue;
        if (world->lane_epoch[event->daemon] != daemon->epoch) { /* it was taken over itself */
            runner_lost(daemon->runner);
            daemon->owned = false;
            return;
        }
        world_trace(world, "daemon %d takes over from %d", event->daemon, other);
        world->lane_epoch[other]++;
        for (int shard = 0; shard < RUN_SHARDS; shard++)
            if (world->shard_lane[shard] == other)
                world->shard_lane[shard] = event->daemon;
    }
    runner_own_more(daemon->runner, lane_shards(world, event->daemon));
    world_poke(daemon, 0);
}

static void daemon_crash(struct daemon *daemon)
{
    struct world *world = daemon->world;
    world_trace(world, "daemon %d dies", daemon->index);
    runner_free(daemon->runner);
    daemon->runner = NULL;
    daemon->connection++;
    daemon->messages = NULL;
    daemon->messages_tail = &daemon->messages;
    daemon->frozen_at = world->now;
    world_schedule(world, world_between_ms(world, 100, 9000), daemon->index, NULL, daemon_boots);
}

/* A drained daemon leaves once nothing is in flight, or when its time is over. */
static void daemon_leaves(struct world_event *event)
{
    struct world *world = event->world;
    struct daemon *daemon = world_event_daemon(event);
    if (!world_event_reaches(event))
        return;
    if (!runner_is_idle(daemon->runner) && !rand_chance(&world->rand, 10)) {
        world_schedule(world, 200 * MS_US, daemon->index, NULL, daemon_leaves);
        return;
    }
    daemon_crash(daemon);
}

static void daemon_drain(struct daemon *daemon)
{
    world_trace(daemon->world, "daemon %d drains", daemon->index);
    daemon->draining = true;
    runner_drain(daemon->runner);
    world_poke(daemon, 0);
    world_schedule(daemon->world, 200 * MS_US, daemon->index, NULL, daemon_leaves);
}

static void connection_cut(struct daemon *daemon);
static bool loads_pending(const struct daemon *daemon);

static void daemon_thaw(struct world_event *event)
{
    struct world *world = event->world;
    struct daemon *daemon = world_event_daemon(event);
    if (!daemon->runner || daemon->incarnation != event->incarnation)
        return;
    daemon->frozen = false;
    world_trace(world, "daemon %d wakes up", daemon->index);
    /* The owner's own deadline: past it nothing is started, whatever it still believes. A daemon
     * that was cut off from the database at the same time learns it from `fenced`. */
    if (world->now - daemon->frozen_at < LEASE_US - SECOND_US) {
        ;
    } else if (daemon->owned && !loads_pending(daemon) && rand_chance(&world->rand, 40)) {
        connection_cut(daemon);
    } else {
        runner_lost(daemon->runner);
        daemon->owned = false;
    }
    world_poke(daemon, 0);
}

static void daemon_freeze(struct daemon *daemon)
{
    struct world *world = daemon->world;
    world_trace(world, "daemon %d freezes", daemon->index);
    daemon->frozen = true;
    daemon->frozen_at = world->now;
    world_schedule(world, world_between_ms(world, 500, 12000), daemon->index, NULL, daemon_thaw);
}

static void connection_back(struct world_event *event)
{
    struct daemon *daemon = world_event_daemon(event);
    if (!world_event_reaches(event) || daemon->connection != event->connection)
        return;
    daemon->connected = true;
    if (daemon->owned) {
        runner_store_up(daemon->runner);
        /* Loads that were cut off are asked for again by taking the lane anew. */
    }
    world_poke(daemon, 0);
}

static void connection_cut(struct daemon *daemon)
{
    struct world *world = daemon->world;
    world_trace(world, "daemon %d loses its connection", daemon->index);
    daemon->connection++;
    daemon->connected = false;
    daemon->messages = NULL;
    daemon->messages_tail = &daemon->messages;
    runner_store_down(daemon->runner);
    world_schedule(world, world_between_ms(world, 1, 1500), daemon->index, NULL, connection_back);
    world_poke(daemon, 0);
}

static bool loads_pending(const struct daemon *daemon)
{
    uint64_t carried = lane_shards(daemon->world, daemon->index);
    return runner_stats(daemon->runner).shards != carried;
}

static void mishap(struct world_event *event)
{
    struct world *world = event->world;
    struct daemon *daemon = &world->daemons[rand_below(&world->rand, WORLD_DAEMONS)];
    if (world->healed)
        return;
    world_schedule(world, world_between_ms(world, 50, 1500), -1, NULL, mishap);
    if (!daemon->runner || daemon->frozen)
        return;
    if (world_fault(world, world->faults.crash, 20))
        daemon_crash(daemon);
    else if (world_fault(world, world->faults.freeze, 12))
        daemon_freeze(daemon);
    else if (daemon->owned && !daemon->draining && world_fault(world, world->faults.drain, 15))
        daemon_drain(daemon);
    else if (daemon->owned && daemon->connected && !loads_pending(daemon) &&
             world_fault(world, world->faults.store_cut, 35))
        connection_cut(daemon);
    else if (daemon->owned && world_fault(world, world->faults.release, 30))
        runner_release(daemon->runner, rand_next(&world->rand) & lane_shards(world, daemon->index),
                       daemon->index ? STR("0") : STR("1"));
}

/* --- clients and operators -----------------------------------------------------------------------
 */

struct submission {
    struct world *world;
    struct client_run *run;
    bool other_input;
    struct str input;
    struct sha256 hash;
};

static void submit(struct world_event *event);

static void submit_again(struct submission *request, int64_t delay_us)
{
    world_schedule(request->world, delay_us, -1, request, submit);
}

static void submitted(void *arg, const struct runner_answer *answer)
{
    struct submission *request = arg;
    struct world *world = request->world;
    if (answer->err.code != ERR_NONE) {
        submit_again(request, world_between_ms(world, 50, 500));
        return;
    }
    bool same = !answer->taken || sha256_eq(&answer->taken->input_hash, &request->hash);
    world_trace(world, "%s is %s", request->run->id,
                !answer->taken ? "started"
                : same         ? "there already"
                               : "taken by another input");
    if (request->other_input) {
        if (same)
            world_fail(world, "run %s started again with another input", request->run->id);
        return;
    }
    if (!same)
        world_fail(world, "run %s belongs to another input", request->run->id);
    request->run->acknowledged = true;
}

struct daemon *world_owner(struct world *world, struct str run_id)
{
    int lane = world->shard_lane[shard_of(run_id)];
    struct daemon *daemon = lane < 0 ? NULL : &world->daemons[lane];
    return daemon && daemon->runner && !daemon->frozen && daemon->owned ? daemon : NULL;
}

/* A client that hears nothing asks again under the same id. */
static void submit(struct world_event *event)
{
    struct submission *request = event->data;
    struct world *world = event->world;
    struct daemon *daemon = world_owner(world, str_z(request->run->id));
    struct err err;
    if (!request->other_input && request->run->acknowledged)
        return;
    struct runner_start start = {.plan = request->run->plan,
                                 .run_id = str_z(request->run->id),
                                 .input = request->input,
                                 .input_hash = request->hash,
                                 .lock = locks_value(world, request->run->id),
                                 .start_at = request->run->start_at};
    if (!daemon || runner_start(daemon->runner, &start, submitted, request, &err) != 0) {
        submit_again(request, world_between_ms(world, 100, 600));
        return;
    }
    world_poke(daemon, 0);
    if (!request->other_input) /* the daemon may die before it answers */
        submit_again(request, 4 * SECOND_US);
}

static void submit_other(struct world_event *event)
{
    struct client_run *run = event->data;
    if (!run->acknowledged) {
        world_schedule(event->world, SECOND_US, -1, run, submit_other);
        return;
    }
    struct submission *request = arena_new(&event->world->arena, struct submission);
    request->world = event->world;
    request->run = run;
    request->other_input = rand_chance(&event->world->rand, 50);
    request->input = request->other_input
                         ? arena_printf(&event->world->arena, "{\"id\":\"%s\",\"n\":-1}", run->id)
                         : run->input;
    request->hash = sha256_of(request->input);
    if (request->other_input)
        submit_again(request, 0);
}

static void verb_done(void *arg, const struct runner_answer *answer)
{
    struct world *world = arg;
    world_trace(world, "verb: %s", answer->err.code ? answer->err.text : "done");
}

static void verb_send(struct world *world, const struct runner_verb *verb)
{
    struct daemon *daemon = world_owner(world, verb->run_id);
    struct err err;
    if (!daemon)
        return;
    world_trace(world, "operator: %s " STR_FMT " " STR_FMT, run_event_name(verb->kind),
                STR_ARG(verb->run_id), STR_ARG(verb->step));
    if (runner_verb(daemon->runner, verb, verb_done, world, &err) == 0)
        world_poke(daemon, 0);
}

static void cancel_some(struct world_event *event)
{
    struct client_run *run = event->data;
    struct runner_verb verb = {.kind = EVENT_CANCEL,
                               .run_id = str_z(run->id),
                               .reason = STR("changed my mind"),
                               .actor = STR("sim")};
    if (run->acknowledged)
        verb_send(event->world, &verb);
}

/* The run, or one that it has started. */
static struct str family_member(struct world *world, const char *id)
{
    struct str chosen = str_z(id);
    unsigned found = 1;
    for (size_t i = 0; i < world->rows.size; i++)
        for (struct map_node *node = world->rows.buckets[i]; node; node = node->chain) {
            struct row_run *row = CONTAINER_OF(node, struct row_run, node);
            size_t len = strlen(id);
            if (row->id.len > len && row->id.ptr[len] == '~' && !memcmp(row->id.ptr, id, len) &&
                rand_below(&world->rand, ++found) == 0)
                chosen = row->id;
        }
    return chosen;
}

/* A step, or an item of a loop that has begun. */
static struct str some_instance(struct world *world, const struct client_run *run)
{
    const struct row_run *row = world_row(world, str_z(run->id));
    if (row && row->effects_count && rand_chance(&world->rand, 50)) {
        const struct effect_ref *ref =
            &row->effects[rand_below(&world->rand, row->effects_count)].ref;
        return key_instance(&row->plan->steps[ref->step], ref->item, &world->arena);
    }
    return str_z(run->plan->steps[rand_below(&world->rand, run->plan->steps_count)].id);
}

/* Somebody types verbs at any moment, sensible or not. */
static void verb_some(struct world_event *event)
{
    static const enum run_event_kind kinds[] = {EVENT_PAUSE,  EVENT_RESUME,     EVENT_PAUSE,
                                                EVENT_RESUME, EVENT_RETRY,      EVENT_SKIP,
                                                EVENT_CANCEL, EVENT_COMPENSATE, EVENT_ABANDON};
    struct world *world = event->world;
    struct client_run *run = event->data;
    struct runner_verb verb = {.run_id = family_member(world, run->id),
                               .kind = kinds[rand_below(&world->rand, ARRAY_LEN(kinds))],
                               .reason = STR("felt like it"),
                               .actor = STR("sim")};
    if (world->healed)
        return;
    world_schedule(world, world_between_ms(world, 100, 12000), -1, run, verb_some);
    if (verb.kind == EVENT_ABANDON && !rand_chance(&world->rand, 10))
        return;
    if (verb.kind == EVENT_RETRY && rand_chance(&world->rand, 20))
        verb.input = arena_printf(&world->arena, "{\"id\":\"%s\",\"n\":%u}", run->id,
                                  (unsigned)rand_below(&world->rand, 1000));
    if (verb.kind == EVENT_SKIP) {
        verb.step = arena_printf(&world->arena, STR_FMT "%s", STR_ARG(some_instance(world, run)),
                                 rand_chance(&world->rand, 30) ? ":compensate" : "");
    }
    if (run->acknowledged)
        verb_send(world, &verb);
}

static void signal_some(struct world_event *event)
{
    static const char *const data[] = {"1", "2", "{\"by\":\"sim\"}"};
    struct world *world = event->world;
    struct client_run *run = event->data;
    struct runner_verb verb = {.kind = EVENT_SIGNAL,
                               .run_id = str_z(run->id),
                               .name = rand_chance(&world->rand, 60) ? STR("go") : STR("stop"),
                               .output = str_z(data[rand_below(&world->rand, ARRAY_LEN(data))]),
                               .actor = STR("sim")};
    if (world->healed)
        return;
    world_schedule(world, world_between_ms(world, 100, 15000), -1, run, signal_some);
    if (run->acknowledged)
        verb_send(world, &verb);
}

/* A compensation of something that turned out not to be applied: nobody asks about it any more. */
static bool needs_no_undo(struct row_run *row, const struct record_effect *undo)
{
    struct effect_ref ref = undo->ref;
    if (ref.direction != DIRECTION_COMPENSATE)
        return false;
    ref.direction = DIRECTION_EXECUTE;
    ref.generation = 1;
    for (const struct record_effect *done; (done = world_row_effect(row, &ref)); ref.generation++)
        if (done->state.state == STEP_REFUSED)
            return true;
    return false;
}

/* What a careful person does: look at the participant's ledger and say what is true. */
static void operator_help(struct world *world, struct row_run *row)
{
    struct runner_verb verb = {
        .run_id = row->id, .reason = STR("looked it up"), .actor = STR("sim"), .kind = EVENT_RETRY};
    /* It was abandoned, and does not go forward again. */
    if (row->now.reason == PARK_LATE_SUCCESS && row->now.direction == DIRECTION_EXECUTE) {
        verb.kind = rand_chance(&world->rand, 20) ? EVENT_ABANDON : EVENT_COMPENSATE;
        verb_send(world, &verb);
        return;
    }
    for (uint32_t i = 0; i < row->effects_count; i++) {
        const struct record_effect *effect = &row->effects[i];
        if (effect->state.state != STEP_UNKNOWN || effect->state.by_hand ||
            needs_no_undo(row, effect))
            continue;
        if (row->plan->steps[effect->ref.step].action.kind == ACTION_CHILD) {
            /* The child was abandoned: whatever it did is written off, or the parent is, too. */
            verb.kind = rand_chance(&world->rand, 50) ? EVENT_SETTLE : EVENT_ABANDON;
            if (verb.kind == EVENT_ABANDON) {
                verb_send(world, &verb);
                return;
            }
            verb.step = arena_printf(&world->arena, STR_FMT ":%s",
                                     STR_ARG(key_instance(&row->plan->steps[effect->ref.step],
                                                          effect->ref.item, &world->arena)),
                                     direction_name(effect->ref.direction));
            verb.applied = effect->ref.direction == DIRECTION_COMPENSATE;
            verb_send(world, &verb);
            return;
        }
        struct str name =
            key_instance(&row->plan->steps[effect->ref.step], effect->ref.item, &world->arena);
        struct str key =
            key_make(row->id, name, effect->ref.direction, effect->ref.generation, &world->arena);
        if (workers_busy(world, key) || world_ledger(world, key)->accepted)
            return;        /* it may still happen */
        verb.force = true; /* the ledger knows better than what was asked */
        verb.kind = EVENT_SETTLE;
        verb.step = arena_printf(&world->arena, STR_FMT ":%s", STR_ARG(name),
                                 direction_name(effect->ref.direction));
        verb.applied = world_ledger(world, key)->effects > 0;
        /* A person may err; the participant knows better, and says so in the end. */
        if (verb.applied && row->now.direction == DIRECTION_COMPENSATE &&
            effect->ref.direction == DIRECTION_EXECUTE && world->faults.call_back &&
            rand_chance(&world->rand, 50)) {
            verb.applied = false;
            world_schedule(world, world_between_ms(world, 1, 20000), -1, world_ledger(world, key),
                           called_back);
        }
        verb_send(world, &verb);
        return;
    }
    if (rand_chance(&world->rand, 20))
        verb.kind = EVENT_ABANDON;
    verb_send(world, &verb);
}

static void operators_look(struct world_event *event)
{
    struct world *world = event->world;
    world_schedule(world, 10 * SECOND_US, -1, NULL, operators_look);
    if (!world->healed)
        return;
    for (size_t i = 0; i < world->rows.size; i++)
        for (struct map_node *node = world->rows.buckets[i]; node; node = node->chain) {
            struct row_run *row = CONTAINER_OF(node, struct row_run, node);
            if (row->now.paused && !run_state_is_terminal(row->now.state))
                verb_send(world, &(struct runner_verb){.run_id = row->id,
                                                       .kind = EVENT_RESUME,
                                                       .reason = STR("all is well"),
                                                       .actor = STR("sim")});
            else if (row->now.state == RUN_PARKED && world->faults.operators)
                operator_help(world, row);
        }
}

/* --- the whole
 * ------------------------------------------------------------------------------------ */

static void heal(struct world_event *event)
{
    struct world *world = event->world;
    world->healed = true;
    world_trace(world, "no more faults from here on");
    for (int i = 0; i < WORLD_DAEMONS; i++) {
        struct daemon *daemon = &world->daemons[i];
        if (daemon->runner && daemon->frozen)
            world_schedule(world, MS_US, i, NULL, daemon_thaw);
    }
}

static void faults_draw(struct world *world)
{
    bool *faults = (bool *)&world->faults;
    for (size_t i = 0; i < sizeof(world->faults) / sizeof(bool); i++)
        faults[i] = rand_chance(&world->rand, 45);
}

static void clients_make(struct world *world)
{
    /* Those that the clock starts stand for some of the others. */
    world->runs_count = 5 + (uint32_t)rand_below(&world->rand, world->faults.schedule ? 12 : 20);
    for (uint32_t i = 0; i < world->runs_count; i++) {
        struct client_run *run = &world->runs[i];
        struct submission *request = arena_new(&world->arena, struct submission);
        run->plan = workflow_make(world, "w", i, (unsigned)rand_below(&world->rand, 2), "");
        run->id = (char *)arena_printf(&world->arena, "r%u-%llx", i,
                                       (unsigned long long)(world->seed & 0xffff))
                      .ptr;
        run->input = arena_printf(&world->arena, "{\"id\":\"%s\",\"n\":%u}", run->id,
                                  (unsigned)rand_below(&world->rand, 1000));
        run->input_hash = sha256_of(run->input);
        *request = (struct submission){
            .world = world, .run = run, .input = run->input, .hash = run->input_hash};
        world_trace(world, "run %s with input " STR_FMT ":\n" STR_FMT, run->id, STR_ARG(run->input),
                    STR_ARG(run->plan->source));
        int64_t submit_us = world_between_ms(world, 10, 15000);
        world_schedule(world, submit_us, -1, request, submit);
        if (world->faults.delays && rand_chance(&world->rand, 40))
            run->start_at.us = world->now + submit_us + world_between_ms(world, -1000, 25000);
        if (world->faults.resubmit && rand_chance(&world->rand, 40))
            world_schedule(world, world_between_ms(world, 100, 20000), -1, run, submit_other);
        if (world->faults.cancel && rand_chance(&world->rand, 30))
            world_schedule(world, world_between_ms(world, 100, 20000), -1, run, cancel_some);
        if (world->faults.signals)
            world_schedule(world, world_between_ms(world, 100, 15000), -1, run, signal_some);
        if (world->faults.verbs && rand_chance(&world->rand, 60))
            world_schedule(world, world_between_ms(world, 100, 20000), -1, run, verb_some);
    }
}

void world_init(struct world *world, uint64_t seed, FILE *trace)
{
    *world = (struct world){
        .seed = seed, .rand = rand_seed(rand_mix(seed)), .now = WORLD_EPOCH_US, .trace = trace};
    faults_draw(world);
    limits_draw(world);
    for (unsigned i = 0; i < WORLD_KIDS; i++) {
        world->kids[i] = workflow_make(world, "kid", i, i + 1, "");
        world_trace(world, "child:\n" STR_FMT, STR_ARG(world->kids[i]->source));
    }
    for (int i = 0; i < WORLD_DAEMONS; i++) {
        struct daemon *daemon = &world->daemons[i];
        daemon->world = world;
        daemon->index = i;
        daemon->connected = true;
        daemon->messages_tail = &daemon->messages;
        daemon_boot(daemon);
        world_schedule(world, 100 * MS_US, i, NULL, daemon_observe);
    }
    clients_make(world);
    if (world->faults.schedule)
        schedule_make(world);
    world_schedule(world, world_between_ms(world, 50, 1500), -1, NULL, mishap);
    world_schedule(world, SAFETY_US, -1, NULL, heal);
    world_schedule(world, SAFETY_US + SECOND_US, -1, NULL, operators_look);
}

/* A run of the same daemon keeps its place because a child of it waits for a person. */
static bool place_is_kept(const struct world *world, const struct row_run *waiting)
{
    int lane = world->shard_lane[shard_of(waiting->id)];
    for (size_t i = 0; i < world->rows.size && world->tenant.runs; i++)
        for (struct map_node *node = world->rows.buckets[i]; node; node = node->chain) {
            const struct row_run *row = CONTAINER_OF(node, struct row_run, node);
            bool active = row->now.state == RUN_RUNNING || row->now.state == RUN_COMPENSATING;
            if (active && !row->start.parent.len && world->shard_lane[shard_of(row->id)] == lane &&
                world_rests(world, row))
                return true;
        }
    return false;
}

bool world_rests(const struct world *world, const struct row_run *row)
{
    struct arena scratch = {0};
    bool rests = run_state_is_terminal(row->now.state) ||
                 (row->now.state == RUN_PARKED && !world->faults.operators);
    const struct row_run *holder = row->now.state == RUN_QUEUED ? locks_holder(world, row) : NULL;
    if (holder && !run_state_is_terminal(holder->now.state))
        rests = world_rests(world, holder);
    if (row->now.state == RUN_QUEUED && !rests)
        rests = place_is_kept(world, row);
    for (uint32_t i = 0; i < row->effects_count && !rests; i++) {
        const struct record_effect *effect = &row->effects[i];
        const struct plan_step *step = &row->plan->steps[effect->ref.step];
        if (effect->state.state != STEP_CLAIMED || step->action.kind != ACTION_CHILD ||
            world->faults.operators)
            continue;
        /* A generation of an undo is not that of the child: look at what it undoes. */
        struct str id;
        for (uint16_t generation = 1; generation < 9 && !rests; generation++) {
            id = key_child(row->id, key_instance(step, effect->ref.item, &scratch), generation,
                           &scratch);
            const struct row_run *child = world_row(world, id);
            rests = child && !run_state_is_terminal(child->now.state) && world_rests(world, child);
        }
    }
    arena_free(&scratch);
    return rests;
}

static bool everything_rests(const struct world *world)
{
    if (!world->healed || world->now < WORLD_EPOCH_US + SAFETY_US + 30 * SECOND_US)
        return false;
    for (uint32_t i = 0; i < world->runs_count; i++) {
        struct row_run *row = world_row(world, str_z(world->runs[i].id));
        if (!world->runs[i].acknowledged || !row)
            return false;
        if (!world_rests(world, row))
            return false;
    }
    for (size_t i = 0; i < world->rows.size; i++)
        for (struct map_node *node = world->rows.buckets[i]; node; node = node->chain) {
            struct row_run *row = CONTAINER_OF(node, struct row_run, node);
            if (row->start.parent.len && !world_rests(world, row))
                return false;
        }
    return schedule_rests(world);
}

void world_run(struct world *world)
{
    while (!world->failure[0] && world->now < WORLD_EPOCH_US + END_US && !everything_rests(world)) {
        struct heap_node *top = heap_top(&world->queue);
        ASSERT(top);
        struct world_event *event = CONTAINER_OF(top, struct world_event, node);
        heap_remove(&world->queue, top);
        world->now = MAX(world->now, WORLD_EPOCH_US + (top->key >> TIE_BITS));
        event->fn(event);
    }
    if (!world->failure[0])
        checks_run(world);
}

void world_free(struct world *world)
{
    for (int i = 0; i < WORLD_DAEMONS; i++) {
        runner_free(world->daemons[i].runner);
        map_free(&world->daemons[i].invocations);
    }
    for (uint32_t i = 0; i < world->runs_count; i++)
        plan_unref(world->runs[i].plan);
    for (unsigned i = 0; i < WORLD_KIDS; i++)
        plan_unref(world->kids[i]);
    schedule_free(world);
    heap_free(&world->queue);
    map_free(&world->rows);
    map_free(&world->ledger);
    arena_free(&world->arena);
}
