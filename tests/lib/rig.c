#include "tests/lib/rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define WAIT_US (20 * SECOND_US)

static const char source[] = "workflow: order\n"
                             "input: {type: object}\n"
                             "services:\n"
                             "  shop: {url: \"http://127.0.0.1:1\"}\n"
                             "steps:\n"
                             "  - id: reserve\n"
                             "    action: {post: shop/reservations}\n"
                             "    compensate: {delete: shop/reservations}\n"
                             "  - id: charge\n"
                             "    action: {post: shop/charges}\n"
                             "    compensate: {post: shop/refunds}\n"
                             "  - id: receipt\n"
                             "    effect: irreversible\n"
                             "    on_failure: continue\n"
                             "    action: {post: shop/mails}\n";

/* --- callbacks --- */

static void own(void *arg, uint64_t epoch, uint64_t seq, uint64_t shards)
{
    struct rig *rig = arg;
    rig->owns++;
    rig->epoch = epoch;
    rig->seq = seq;
    rig->shards = shards;
}

static void own_more(void *arg, uint64_t shards)
{
    struct rig *rig = arg;
    assert_int_equal(rig->shards & shards, 0);
    rig->shards |= shards;
}

static void lost(void *arg)
{
    struct rig *rig = arg;
    rig->losts++;
    rig->shards = 0;
}

static void down(void *arg)
{
    ((struct rig *)arg)->downs++;
}

static void up(void *arg)
{
    ((struct rig *)arg)->ups++;
}

static void unit_answer(void *arg, const struct unit_answer *answer)
{
    struct rig *rig = arg;
    assert_true(rig->answers_count < RIG_ANSWERS_MAX);
    struct unit_answer *copy = &rig->answers[rig->answers_count++];
    struct unit_taken *taken = arena_array(&rig->arena, struct unit_taken, answer->taken_count);
    *copy = *answer;
    copy->taken = taken;
    for (uint32_t i = 0; i < answer->taken_count; i++) {
        taken[i] = answer->taken[i];
        taken[i].run_id = arena_str(&rig->arena, answer->taken[i].run_id);
        taken[i].workflow = arena_str(&rig->arena, answer->taken[i].workflow);
        taken[i].tenant = arena_str(&rig->arena, answer->taken[i].tenant);
    }
}

static void loaded(void *arg, const struct plan *plan, struct str run_id,
                   const struct run_record *records, uint32_t count)
{
    struct rig *rig = arg;
    assert_true(rig->loaded_count < RIG_RUNS_MAX);
    struct run *run = run_new(plan, run_id);
    for (uint32_t i = 0; i < count; i++)
        run_apply(run, &records[i]);
    const char *broken = run_check(run);
    if (broken)
        fail_msg("run %s as loaded: %s", run->id.ptr, broken);
    rig->loaded[rig->loaded_count++] = run;
}

static void load_done(void *arg, uint64_t shards)
{
    (void)shards;
    ((struct rig *)arg)->load_dones++;
}

static void load_run_done(void *arg, struct str run_id, enum run_state removed)
{
    (void)run_id;
    ((struct rig *)arg)->removed = removed;
    ((struct rig *)arg)->load_run_dones++;
}

static const struct plan *plan_of(void *arg, const struct sha256 *hash)
{
    struct rig *rig = arg;
    return rig->known && sha256_eq(hash, &rig->known->hash) ? rig->known : NULL;
}

static void workflow(void *arg, const struct store_workflow *workflow)
{
    struct rig *rig = arg;
    rig->workflows++;
    if (sha256_eq(&workflow->hash, &rig->plan->hash))
        rig->known = rig->plan;
}

static bool inbox(void *arg, const struct store_inbox *row)
{
    struct rig *rig = arg;
    if (rig->inbox_refuses)
        return false;
    assert_true(rig->inbox_count < ARRAY_LEN(rig->inbox));
    struct store_inbox *copy = &rig->inbox[rig->inbox_count++];
    *copy = *row;
    copy->id = arena_str(&rig->arena, row->id);
    copy->kind = arena_str(&rig->arena, row->kind);
    copy->run_id = arena_str(&rig->arena, row->run_id);
    copy->body = arena_str(&rig->arena, row->body);
    copy->actor = arena_str(&rig->arena, row->actor);
    return true;
}

static void daemons(void *arg, const struct store_daemon *list, unsigned count)
{
    struct rig *rig = arg;
    assert_true(count <= ARRAY_LEN(rig->daemons));
    memcpy(rig->daemons, list, count * sizeof(*list));
    rig->daemons_count = count;
}

static void problem(void *arg, const struct err *err, bool is_final)
{
    struct rig *rig = arg;
    rig->problems++;
    rig->finals += is_final;
    rig->problem = *err;
}

/* --- life --- */

static struct plan *plan_compile(void)
{
    struct diags diags;
    diags_init(&diags, "order.yaml", STR(source));
    struct plan *plan = dsl_compile(STR(source), NULL, &diags);
    assert_non_null(plan);
    diags_free(&diags);
    return plan;
}

void rig_open(struct rig *rig, const struct rig_options *options)
{
    struct err err = {0};
    *rig = (struct rig){0};
    snprintf(rig->daemon, sizeof(rig->daemon), "%s", options->daemon);
    snprintf(rig->database, sizeof(rig->database), "%s",
             options->database ? options->database : "");
    assert_int_equal(loop_open(&rig->loop, &err), 0);
    rig->plan = plan_compile();
    rig->known = rig->plan;
    struct store_pg_options store = {
        .uri = options->uri
                   ? options->uri
                   : pg_test_uri(options->database, options->user ? options->user : "saga_engine"),
        .daemon = rig->daemon,
        .lock_file = options->lock_file,
        .ttl_us = options->ttl_us,
        .action_lanes = options->action_lanes,
        .polls_inbox = options->polls_inbox,
    };
    struct store_pg_events events = {
        .arg = rig,
        .own = own,
        .own_more = own_more,
        .lost = lost,
        .down = down,
        .up = up,
        .unit_answer = unit_answer,
        .loaded = loaded,
        .load_done = load_done,
        .load_run_done = load_run_done,
        .plan = plan_of,
        .workflow = workflow,
        .inbox = inbox,
        .daemons = daemons,
        .problem = problem,
    };
    rig->store = store_pg_open(rig->loop, &store, &events);
    rig->port = store_pg_port(rig->store);
    if (options->no_lease)
        return;
    assert_int_equal(store_pg_lease(rig->store, &err), 0);
}

void rig_close(struct rig *rig)
{
    store_pg_close(rig->store);
    for (unsigned i = 0; i < rig->loaded_count; i++)
        run_free(rig->loaded[i]);
    plan_unref(rig->plan);
    arena_free(&rig->arena);
    loop_close(rig->loop);
}

void rig_wait(struct rig *rig, const unsigned *counter, unsigned wanted)
{
    int64_t limit = loop_mono().us + WAIT_US;
    while (*counter < wanted && loop_mono().us < limit)
        loop_turn(rig->loop, 50 * MS_US);
    if (*counter < wanted)
        fail_msg("waited in vain: %u of %u; last problem: %s", *counter, wanted, rig->problem.text);
}

void rig_turn_for(struct rig *rig, int64_t us)
{
    int64_t limit = loop_mono().us + us;
    while (loop_mono().us < limit)
        loop_turn(rig->loop, MS_US * 10);
}

/* --- units --- */

void rig_unit_init(struct rig_unit *unit, struct rig *rig)
{
    unit->rig = rig;
    unit->unit = (struct unit){.runs = unit->runs};
}

struct unit_run *rig_run(struct rig_unit *unit, const char *run_id)
{
    for (uint32_t i = 0; i < unit->unit.runs_count; i++)
        if (str_eq_z(unit->runs[i].run_id, run_id))
            return &unit->runs[i];
    assert_true(unit->unit.runs_count < ARRAY_LEN(unit->runs));
    struct unit_run *run = &unit->runs[unit->unit.runs_count++];
    *run = (struct unit_run){
        .run_id = arena_str(&unit->rig->arena, str_z(run_id)),
        .shard = shard_of(str_z(run_id)),
        .plan = unit->rig->plan,
        .records = arena_array(&unit->rig->arena, struct run_record, 16),
    };
    return run;
}

struct run_record *rig_record(struct unit_run *run, enum record_kind kind)
{
    assert_true(run->records_count < 16);
    struct run_record *record = (struct run_record *)&run->records[run->records_count++];
    record->kind = kind;
    run->is_start |= kind == RECORD_START;
    return record;
}

struct record_start *rig_start(struct rig_unit *unit, const char *run_id, const char *input)
{
    struct record_start *start = &rig_record(rig_run(unit, run_id), RECORD_START)->start;
    *start = (struct record_start){
        .tenant = STR("acme"),
        .actor = STR("uid:1000"),
        .input = arena_str(&unit->rig->arena, str_z(input)),
        .input_hash = sha256_of(str_z(input)),
        .created_at = {INT64_C(1790000000123456)},
    };
    return start;
}

static struct record_effect *effect_add(struct rig_unit *unit, const char *run_id,
                                        enum record_kind kind, uint16_t step,
                                        enum direction direction, uint32_t claim_no)
{
    struct record_effect *effect = &rig_record(rig_run(unit, run_id), kind)->effect;
    effect->ref =
        (struct effect_ref){.step = step, .item = STR(""), .direction = direction, .generation = 1};
    effect->state = (struct effect_state){
        .state = STEP_CLAIMED,
        .generation = 1,
        .claim_no = claim_no,
        .attempts = 1,
        .request_hash = sha256_of(STR("request")),
        .claimed_at = {INT64_C(1790000001000001)},
        .budget_at = {INT64_C(1790003600000000)},
    };
    return effect;
}

struct record_effect *rig_claim(struct rig_unit *unit, const char *run_id, uint16_t step,
                                enum direction direction, uint32_t claim_no)
{
    return effect_add(unit, run_id, RECORD_CLAIM, step, direction, claim_no);
}

struct record_effect *rig_effect(struct rig_unit *unit, const char *run_id, uint16_t step,
                                 enum direction direction, uint32_t claim_no, enum step_state state)
{
    struct record_effect *effect =
        effect_add(unit, run_id, RECORD_EFFECT, step, direction, claim_no);
    effect->state.state = state;
    if (state == STEP_APPLIED)
        effect->state.outcome = OUTCOME_APPLIED;
    return effect;
}

struct record_run *rig_state(struct rig_unit *unit, const char *run_id, enum run_state state)
{
    struct record_run *run = &rig_record(rig_run(unit, run_id), RECORD_RUN)->run;
    bool backward = state == RUN_COMPENSATING || state == RUN_COMPENSATED;
    *run = (struct record_run){
        .state = state,
        .direction = backward ? DIRECTION_COMPENSATE : DIRECTION_EXECUTE,
        .cause = backward ? CAUSE_STEP_REFUSED : CAUSE_NONE,
    };
    if (run_state_is_terminal(state))
        run->ended_at.us = INT64_C(1790000009000000);
    return run;
}

struct record_event *rig_event(struct rig_unit *unit, const char *run_id, uint32_t seq)
{
    struct record_event *event = &rig_record(rig_run(unit, run_id), RECORD_EVENT)->event;
    *event = (struct record_event){.seq = seq,
                                   .at = {INT64_C(1790000002000000)},
                                   .what = STR("noted"),
                                   .step = STR("charge"),
                                   .detail = STR("it's \"so\""),
                                   .actor = STR("")};
    return event;
}

void *rig_send(struct rig_unit *unit, uint64_t epoch, uint64_t seq)
{
    struct rig *rig = unit->rig;
    unit->unit.records_count = 0;
    for (uint32_t i = 0; i < unit->unit.runs_count; i++)
        unit->unit.records_count += unit->runs[i].records_count;
    void *encoded = rig->port.encode(rig->port.arg, &unit->unit);
    rig->port.send(rig->port.arg, encoded, epoch, seq);
    return encoded;
}

enum unit_verdict rig_write(struct rig_unit *unit)
{
    struct rig *rig = unit->rig;
    unsigned before = rig->answers_count;
    void *encoded = rig_send(unit, rig->epoch, rig->seq + 1);
    rig_wait(rig, &rig->answers_count, before + 1);
    rig->port.encoded_free(rig->port.arg, encoded);
    const struct unit_answer *answer = &rig->answers[before];
    if (answer->verdict == UNIT_APPLIED)
        rig->seq++;
    if (answer->verdict == UNIT_REJECTED)
        rig->problem = answer->err;
    return answer->verdict;
}

/* --- questions --- */

static void answered(void *arg, const struct store_answer *answer)
{
    struct rig *rig = arg;
    rig->answer = *answer;
    rig->answer.text = arena_str(&rig->arena, answer->text);
    rig->answered = true;
}

const char *rig_ask(struct rig *rig, const char *sql, const char *param)
{
    int64_t limit = loop_mono().us + WAIT_US;
    do {
        rig->answered = false;
        store_pg_query(rig->store, sql, &param, param != NULL, answered, rig);
        while (!rig->answered && loop_mono().us < limit)
            loop_turn(rig->loop, 50 * MS_US);
    } while (rig->answer.err.code == ERR_UNAVAILABLE && loop_mono().us < limit);
    assert_true(rig->answered);
    if (rig->answer.err.code)
        return rig->answer.err.text;
    return rig->answer.text.ptr ? rig->answer.text.ptr : "";
}
