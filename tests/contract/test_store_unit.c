/*
 * Units on the write lane: what apply_v2 answers, what it writes, and that it loads as it was.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "engine/base/rand.h"
#include "engine/group.h"
#include "engine/store_pg_codec.h"
#include "tests/lib/rig.h"

#define ALL UINT64_MAX

static struct rig rig;
static PGconn *admin;

static int setup(void **state)
{
    (void)state;
    pg_test_create("unit", true);
    admin = pg_test_connect("unit", NULL);
    PQclear(PQexec(admin, "set client_min_messages = error"));
    rig_open(&rig, &(struct rig_options){.database = "unit", .daemon = "one"});
    rig_wait(&rig, &rig.owns, 1);
    store_pg_claim(rig.store, ALL);
    while (rig.shards != ALL)
        loop_turn(rig.loop, 10 * MS_US);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    PQfinish(admin);
    rig_close(&rig);
    return 0;
}

static struct run *load_run(const char *run_id)
{
    unsigned dones = rig.load_run_dones, runs = rig.loaded_count;
    rig.port.load_run(rig.port.arg, str_z(run_id));
    rig_wait(&rig, &rig.load_run_dones, dones + 1);
    return rig.loaded_count > runs ? rig.loaded[runs] : NULL;
}

/* A unit that was applied loads as the very records it was made of. */
static void loads_what_was_written(void **state)
{
    static struct rig_unit unit;
    (void)state;
    rig_unit_init(&unit, &rig);
    struct record_start *start = rig_start(&unit, "ORD-1", "{\"amount\": 19.90, \"b\":1}");
    start->deadline_at.us = start->created_at.us + HOUR_US;
    rig_claim(&unit, "ORD-1", 0, DIRECTION_EXECUTE, 1);
    assert_int_equal(rig_write(&unit), UNIT_APPLIED);
    assert_true(wall_is_set(rig.answers[rig.answers_count - 1].db_now));

    rig_unit_init(&unit, &rig);
    struct record_effect *effect =
        rig_effect(&unit, "ORD-1", 0, DIRECTION_EXECUTE, 1, STEP_APPLIED);
    effect->state.output = STR("{\"id\": 12345678901234567890, \"n\": -0}");
    effect->state.error = STR("{\"code\":\"x\"}");
    effect->state.pickups = 2;
    effect->state.attempts = 3;
    effect->state.attempts_free = 1;
    effect->state.attempts_base = 1;
    effect->state.maybe_applied = true;
    effect->state.output_invalid = true;
    effect->state.key_valid_until.us = INT64_C(1790009999999999);
    effect->state.ended_at.us = INT64_C(1790000002000002);
    rig_claim(&unit, "ORD-1", 1, DIRECTION_EXECUTE, 2);
    rig_event(&unit, "ORD-1", 1);
    rig_event(&unit, "ORD-1", 2);
    struct record_run *now = rig_state(&unit, "ORD-1", RUN_RUNNING);
    now->error = STR("{\"step\":\"reserve\"}");
    assert_int_equal(rig_write(&unit), UNIT_APPLIED);

    struct run *run = load_run("ORD-1");
    assert_non_null(run);
    assert_int_equal(run->shard, shard_of(STR("ORD-1")));
    assert_true(str_eq_z(run->start.tenant, "acme"));
    assert_true(str_eq_z(run->start.actor, "uid:1000"));
    assert_true(str_eq_z(run->start.input, "{\"amount\": 19.90, \"b\":1}"));
    assert_true(sha256_eq(&run->start.input_hash, &start->input_hash));
    assert_int_equal(run->start.created_at.us, start->created_at.us);
    assert_int_equal(run->start.deadline_at.us, start->deadline_at.us);
    assert_int_equal(run->now.state, RUN_RUNNING);
    assert_true(str_eq_z(run->now.error, "{\"step\":\"reserve\"}"));
    assert_int_equal(run->events, 2);
    assert_int_equal(run->claims, 2);
    const struct effect_state *side = &run->instances[0].execute, *want = &effect->state;
    assert_int_equal(side->state, STEP_APPLIED);
    assert_int_equal(side->outcome, OUTCOME_APPLIED);
    assert_int_equal(side->attempts, 3);
    assert_int_equal(side->attempts_free, 1);
    assert_int_equal(side->attempts_base, 1);
    assert_int_equal(side->pickups, 2);
    assert_true(side->maybe_applied && side->output_invalid && !side->by_hand && side->stored);
    assert_true(sha256_eq(&side->request_hash, &want->request_hash));
    assert_int_equal(side->claimed_at.us, want->claimed_at.us);
    assert_int_equal(side->budget_at.us, want->budget_at.us);
    assert_int_equal(side->key_valid_until.us, want->key_valid_until.us);
    assert_int_equal(side->next_at.us, 0);
    assert_int_equal(side->ended_at.us, want->ended_at.us);
    assert_true(str_eq(side->output, want->output));
    assert_true(str_eq(side->error, want->error));
    assert_int_equal(run->instances[1].execute.state, STEP_CLAIMED);
    assert_int_equal(run->instances[2].execute.state, STEP_PENDING);
}

static const char *sql(const char *text)
{
    return pg_test_sql(admin, "%s", text);
}

static const struct unit_answer *answer(void)
{
    return &rig.answers[rig.answers_count - 1];
}

/* Sends encoded bytes and waits for the answer. */
static enum unit_verdict send_and_wait(void *encoded, uint64_t epoch, uint64_t seq)
{
    unsigned before = rig.answers_count;
    rig.port.send(rig.port.arg, encoded, epoch, seq);
    rig_wait(&rig, &rig.answers_count, before + 1);
    return answer()->verdict;
}

static void *encode(struct rig_unit *unit)
{
    return rig.port.encode(rig.port.arg, &unit->unit);
}

static void start_unit(struct rig_unit *unit, const char *run_id)
{
    rig_unit_init(unit, &rig);
    rig_start(unit, run_id, "{}");
    rig_claim(unit, run_id, 0, DIRECTION_EXECUTE, 1);
}

/* Each verdict of the receipt, and none but `applied` writes anything. */
static void verdicts(void **state)
{
    static struct rig_unit unit;
    void *encoded[12], *other;
    (void)state;
    for (int i = 1; i < 12; i++) {
        char id[16];
        snprintf(id, sizeof(id), "run-%d", i);
        start_unit(&unit, id);
        encoded[i] = encode(&unit);
    }
    start_unit(&unit, "other");
    other = encode(&unit);
    assert_int_equal(send_and_wait(encoded[2], rig.epoch, 2), UNIT_GAP); /* ahead */
    assert_int_equal(send_and_wait(encoded[1], rig.epoch, 0), UNIT_GAP); /* no number */
    assert_string_equal(sql("select count(*) from saga.run_key"), "0");
    for (int i = 1; i < 12; i++)
        assert_int_equal(send_and_wait(encoded[i], rig.epoch, (uint64_t)i), UNIT_APPLIED);
    for (int i = 4; i < 12; i++) /* the last eight */
        assert_int_equal(send_and_wait(encoded[i], rig.epoch, (uint64_t)i), UNIT_ALREADY);
    assert_int_equal(send_and_wait(encoded[3], rig.epoch, 3), UNIT_GAP); /* too old to know */
    assert_int_equal(send_and_wait(other, rig.epoch, 11), UNIT_CONFLICT);
    assert_int_equal(send_and_wait(encoded[10], rig.epoch, 11), UNIT_CONFLICT);
    assert_string_equal(sql("select count(*) || ' ' || (select seq from saga.lane) from saga.run"),
                        "11 11");
    assert_int_equal(send_and_wait(other, rig.epoch - 1, 12), UNIT_FENCED);
    assert_string_equal(sql("select count(*) from saga.run"), "11");
    for (int i = 1; i < 12; i++)
        rig.port.encoded_free(rig.port.arg, encoded[i]);
    rig.port.encoded_free(rig.port.arg, other);
}

/* A lane that was fenced stays silent for good, whatever number it tries. */
static void fenced_for_good(void **state)
{
    static struct rig_unit unit;
    (void)state;
    uint64_t epoch = rig.epoch;
    sql("update saga.lane set epoch = epoch + 1");
    start_unit(&unit, "late");
    void *encoded = encode(&unit);
    assert_int_equal(send_and_wait(encoded, epoch, 1), UNIT_FENCED);
    assert_int_equal(rig.losts, 1);
    assert_int_equal(store_pg_deadline(rig.store).us, 0);
    rig_wait(&rig, &rig.owns, 2); /* it is taken again, under a higher epoch */
    assert_true(rig.epoch > epoch);
    assert_int_equal(send_and_wait(encoded, epoch, 1), UNIT_FENCED);
    rig_wait(&rig, &rig.owns, 3);
    assert_int_equal(send_and_wait(encoded, rig.epoch, 1), UNIT_APPLIED);
    rig.port.encoded_free(rig.port.arg, encoded);
}

/* A start whose id is taken is skipped with all records of its run and returned, also when the
 * unit is sent again; the rest of the unit is written. */
static void taken_is_skipped_as_a_group(void **state)
{
    static struct rig_unit unit;
    (void)state;
    start_unit(&unit, "dup");
    assert_int_equal(rig_write(&unit), UNIT_APPLIED);

    rig_unit_init(&unit, &rig);
    struct record_start *start = rig_start(&unit, "dup", "{\"other\": 1}");
    start->tenant = STR("evil");
    rig_claim(&unit, "dup", 1, DIRECTION_EXECUTE, 7);
    rig_event(&unit, "dup", 1);
    rig_state(&unit, "dup", RUN_RUNNING)->error = STR("{}");
    rig_start(&unit, "fresh", "{}");
    rig_claim(&unit, "fresh", 0, DIRECTION_EXECUTE, 1);
    rig_event(&unit, "fresh", 1);
    void *encoded = encode(&unit);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(send_and_wait(encoded, rig.epoch, 2), i ? UNIT_ALREADY : UNIT_APPLIED);
        assert_int_equal(answer()->taken_count, 1);
        assert_true(str_eq_z(answer()->taken[0].run_id, "dup"));
        assert_true(str_eq_z(answer()->taken[0].workflow, "order"));
        assert_true(str_eq_z(answer()->taken[0].tenant, "acme"));
        struct sha256 hash = sha256_of(STR("{}"));
        assert_true(sha256_eq(&answer()->taken[0].input_hash, &hash));
    }
    rig.port.encoded_free(rig.port.arg, encoded);
    assert_string_equal(sql("select string_agg(run_id || step_id, ' ' order by run_id, step_id) "
                            "from saga.effect"),
                        "dupreserve freshreserve");
    assert_string_equal(sql("select string_agg(run_id, ' ') from saga.event"), "fresh");
    assert_string_equal(sql("select coalesce(error::text, '-') from saga.run where run_id = 'dup'"),
                        "-");
}

/* Records whose rows are not there, claims of another turn, second claims of one effect, settled
 * inbox rows: the unit is rejected whole and its number is free. */
static void mismatches_are_rejected(void **state)
{
    static struct rig_unit unit;
    (void)state;
    start_unit(&unit, "base");
    assert_int_equal(rig_write(&unit), UNIT_APPLIED);
    for (int i = 0; i < 7; i++) {
        rig_unit_init(&unit, &rig);
        rig_start(&unit, "beside", "{}");
        switch (i) {
        case 0: rig_effect(&unit, "base", 1, DIRECTION_EXECUTE, 2, STEP_APPLIED); break;
        case 1: rig_claim(&unit, "base", 1, DIRECTION_EXECUTE, 2)->turn = 1; break;
        case 2: rig_claim(&unit, "base", 0, DIRECTION_EXECUTE, 1); break;
        case 3: rig_claim(&unit, "nobody", 0, DIRECTION_EXECUTE, 1); break;
        case 4: rig_state(&unit, "nobody", RUN_RUNNING); break;
        case 5:
            rig_record(rig_run(&unit, "base"), RECORD_INBOX)->inbox =
                (struct record_inbox){.id = STR("none"), .outcome = STR("done"), .answer = STR("")};
            break;
        case 6:
            unit.unit.release_shards = 1;
            unit.unit.release_to = STR("no such lane");
            break;
        }
        assert_int_equal(rig_write(&unit), UNIT_REJECTED);
        assert_true(!strcmp(rig.problem.sqlstate, "23514") ||
                    !strcmp(rig.problem.sqlstate, "23505"));
        assert_string_equal(sql("select count(*) from saga.run"), "1");
    }
    rig_unit_init(&unit, &rig);
    struct record_run *now = rig_state(&unit, "base", RUN_COMPENSATING);
    now->turn = 1; /* the same claim in the turn that the unit itself begins */
    rig_claim(&unit, "base", 0, DIRECTION_COMPENSATE, 2)->turn = 1;
    assert_int_equal(rig_write(&unit), UNIT_APPLIED);
}

/* Data that PostgreSQL refuses is told with its SQLSTATE, so that the runner can find the run. */
static void bad_data_is_rejected(void **state)
{
    static struct rig_unit unit;
    static const struct {
        struct str output;
        const char *sqlstate;
    } bad[] = {
        {{"{\"a\": ", 6}, "22P02"},     /* not JSON */
        {{"\"\xff\xfe\"", 4}, "22021"}, /* not UTF-8 */
        {{"\"a\0b\"", 5}, "22021"},     /* a NUL */
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        start_unit(&unit, "bad");
        rig_effect(&unit, "bad", 0, DIRECTION_EXECUTE, 1, STEP_APPLIED)->state.output =
            bad[i].output;
        assert_int_equal(rig_write(&unit), UNIT_REJECTED);
        assert_string_equal(rig.problem.sqlstate, bad[i].sqlstate);
    }
    start_unit(&unit, "bad");
    rig_effect(&unit, "bad", 0, DIRECTION_EXECUTE, 1, STEP_APPLIED)->state.output_invalid = true;
    assert_int_equal(rig_write(&unit), UNIT_APPLIED);
    assert_int_equal(load_run("bad")->instances[0].execute.state, STEP_APPLIED);
}

/* Several records of one effect or run in a unit are one row with the newest values. */
static void records_of_one_row_are_merged(void **state)
{
    static struct rig_unit unit;
    (void)state;
    rig_unit_init(&unit, &rig);
    rig_start(&unit, "m", "{}");
    rig_claim(&unit, "m", 0, DIRECTION_EXECUTE, 1);
    rig_effect(&unit, "m", 0, DIRECTION_EXECUTE, 1, STEP_RETRYING)->state.next_at.us = 1;
    rig_effect(&unit, "m", 0, DIRECTION_EXECUTE, 1, STEP_APPLIED);
    rig_state(&unit, "m", RUN_RUNNING);
    rig_state(&unit, "m", RUN_COMPLETED);
    assert_int_equal(rig_write(&unit), UNIT_APPLIED);
    assert_string_equal(sql("select e.state || ' ' || r.state from saga.effect e, saga.run r"),
                        "applied completed");
}

/* The items of a loop are fixed by the claim of its own row, byte for byte: no update touches them,
 * and an own row loads before its items, whatever their claims. */
static void items_are_fixed_by_the_claim(void **state)
{
    static const char items[] = "[[\"b\",{\"amount\":19.90}], [\"a\",\"x,]\\\"\"],[\"c\",[1,[2]]]]";
    static struct rig_unit unit;
    (void)state;
    rig_unit_init(&unit, &rig);
    rig_start(&unit, "loop", "{}");
    struct record_effect *own = rig_claim(&unit, "loop", 1, DIRECTION_EXECUTE, 0);
    own->state.state = STEP_WAITING;
    own->state.attempts = 0;
    own->state.items = str_z(items);
    struct record_effect *skipped = rig_claim(&unit, "loop", 1, DIRECTION_EXECUTE, 0);
    skipped->ref.item = STR("a");
    skipped->state.state = STEP_SKIPPED;
    rig_claim(&unit, "loop", 1, DIRECTION_EXECUTE, 1)->ref.item = STR("b");
    assert_int_equal(rig_write(&unit), UNIT_APPLIED);

    rig_unit_init(&unit, &rig);
    own = rig_effect(&unit, "loop", 1, DIRECTION_EXECUTE, 0, STEP_REFUSED);
    own->state.attempts = 0;
    own->state.items = STR("[[\"other\",1]]");
    rig_effect(&unit, "loop", 1, DIRECTION_EXECUTE, 1, STEP_APPLIED)->ref.item = STR("b");
    assert_int_equal(rig_write(&unit), UNIT_APPLIED);
    assert_string_equal(sql("select items::text from saga.effect where item = ''"), items);
    assert_string_equal(sql("select count(*) from saga.effect where item <> '' and items is null"),
                        "2");

    struct run *run = load_run("loop");
    const struct instance *loop = &run->instances[1];
    assert_true(str_eq_z(loop->execute.items, items));
    assert_int_equal(loop->execute.state, STEP_REFUSED);
    assert_int_equal(loop->group->count, 3);
    assert_true(str_eq(group_key(loop->group, 0), STR("b")));
    assert_true(str_eq(group_value(loop->group, 0), STR("{\"amount\":19.90}")));
    assert_true(str_eq(group_value(loop->group, 1), STR("\"x,]\\\"\"")));
    assert_true(str_eq(group_value(loop->group, 2), STR("[1,[2]]")));
    assert_int_equal(run_instance(run, 1, STR("b"))->execute.state, STEP_APPLIED);
    assert_int_equal(run_instance(run, 1, STR("a"))->execute.state, STEP_SKIPPED);
    assert_null(run_instance(run, 1, STR("c")));
    assert_int_equal(loop->group->next, 2);
}

/* A loop of 10,000 items loads whole, each item at its place. */
static void many_items_load(void **state)
{
    static struct rig_unit unit;
    (void)state;
    rig_unit_init(&unit, &rig);
    rig_start(&unit, "many", "{}");
    assert_int_equal(rig_write(&unit), UNIT_APPLIED);
    sql("insert into saga.effect (shard, run_id, step_id, item, direction, generation, state, "
        "claim_no, attempts, attempts_free, attempts_base, pickups, maybe_applied, by_hand, "
        "output_invalid, items) select saga.shard_of('many'), 'many', 'charge', i.item, 'execute', "
        "1, case when i.item = '' then 'waiting' else 'applied' end::saga.step_state, i.n, 0, 0, "
        "0, "
        "0, false, false, false, i.items from (select '' as item, 0 as n, (select "
        "json_agg(json_build_array(n::text, n) order by n) from generate_series(0, 9999) n) as "
        "items "
        "union all select n::text, n + 1, null from generate_series(9999, 0, -1) n) i");
    struct run *run = load_run("many");
    assert_non_null(run);
    const struct group *group = run->instances[1].group;
    assert_int_equal(group->count, 10000);
    assert_int_equal(group->standings[STANDING_DONE], 10000);
    assert_int_equal(group->next, 10000);
    assert_true(str_eq(group->instances[7331]->item, STR("7331")));
    assert_int_equal(group->instances[7331]->execute.claim_no, 7332);
}

/* Daemons of schema version 1 write and read as they did. */
static void version_1_still_works(void **state)
{
    static struct rig_unit unit;
    (void)state;
    rig_unit_init(&unit, &rig);
    rig_start(&unit, "old", "{}");
    assert_int_equal(rig_write(&unit), UNIT_APPLIED);
    assert_string_equal(
        sql("select verdict from saga.lane l, saga.apply_v1(l.lane, l.epoch, l.seq + 1, 0, 0, "
            "null, "
            "null, array[(saga.shard_of('old'), 'old', 'reserve', '', 'execute', 1, 0, 'claimed', "
            "1, "
            "1, 0, 0, 0, false, false, false, null, null, now(), null, null, null, null, null, "
            "null)::saga.effect_v1], null, null, null, null, 0, '') where l.kind = 'write'"),
        "applied");
    assert_string_equal(sql("select state from saga.effect where run_id = 'old'"), "claimed");
    assert_string_equal(sql("select (effects[1]).state from saga.load_run_v1('old')"), "claimed");
    assert_string_equal(sql("select count(*) from saga.load_v1(-1, -1::smallint, '', 10)"), "1");
    sql("insert into saga.lane (lane, daemon, kind, ttl, nonce) select 'act', l.daemon, 'action', "
        "'10s', 'n' from saga.lane l where l.kind = 'write'");
    assert_string_equal(
        sql("select saga.apply_or_raise_v1('n', 'act', 1, 1, 0, 1::bigint << saga.shard_of('old'), "
            "null, null, null, array[(saga.shard_of('old'), 'old', 'reserve', '', 'execute', 1, 0, "
            "'applied', 1, 1, 0, 0, 0, false, false, false, 'applied', null, now(), null, null, "
            "null, now(), '1', null)::saga.effect_v1], null, null, null) is not null"),
        "t");
    assert_string_equal(
        sql("select verdict from saga.lane l, saga.run_key k, saga.apply_v1(l.lane, l.epoch, "
            "l.seq + 1, 0, 0, array[(saga.shard_of('new'), 'new', '', k.workflow_hash, k.workflow, "
            "'', 'me', now(), "
            "null, '{}', 'running', 'execute', 0, null, null, false, null, null, null, "
            "null)::saga.start_v1], null, null, null, null, null, null, 0, '') where l.kind = "
            "'write' and k.run_id = 'old'"),
        "applied");
    assert_string_equal(sql("select string_agg(run_id || coalesce((effects[1]).output::text, '-'), "
                            "' ' order by run_id) from saga.load_v1(-1, -1::smallint, '', 10)"),
                        "new- old1");
    rig.seq += 2; /* as the daemon that wrote it would know */
}

static const char *schedule_says(const char *function)
{
    char text[200];
    snprintf(text, sizeof(text),
             "select saga.%s('order', '\\x01', '* * * * *', 'UTC', 'queue', 'none', null)",
             function);
    return sql(text);
}

/* Whoever takes over a schedule hears until when the run of its last tick was open. */
static void schedules_tell_how_long_their_run_was_open(void **state)
{
    static struct rig_unit unit;
    (void)state;
    const char *began = schedule_says("schedule_get_v2");
    assert_non_null(strstr(began, "\"busy_until\" : null"));
    sql("update saga.schedule set last_tick = '2026-01-01 00:00Z'");
    assert_string_equal(schedule_says("schedule_get_v1"), "2026-01-01T00:00:00Z");
    assert_string_equal(sql("select saga.schedule_tick_v1('order', '\\x01', '2026-01-02 00:00Z', "
                            "'order-2', '{}', null)"),
                        "started");
    assert_string_equal(sql("select saga.schedule_tick_v1('order', '\\x01', '2026-01-02 00:00Z', "
                            "'order-2', '{}', null)"),
                        "other");
    static const char busy[] = "select busy > now() - interval '1 min' from (select "
                               "(saga.schedule_get_v2('order', '\\x01', '* * * * *', 'UTC', "
                               "'queue', 'none', null) ->> 'busy_until')::timestamptz busy) x";
    assert_string_equal(sql(busy), "t"); /* in the inbox */
    rig_unit_init(&unit, &rig);
    rig_start(&unit, "order-2", "{}");
    rig_record(rig_run(&unit, "order-2"), RECORD_INBOX)->inbox = (struct record_inbox){
        .id = STR("schedule-order-2"), .outcome = STR("done"), .answer = STR("")};
    assert_int_equal(rig_write(&unit), UNIT_APPLIED);
    assert_string_equal(sql(busy), "t"); /* open */
    assert_string_equal(sql("select saga.schedule_tick_v1('order', '\\x01', '2026-01-03 00:00Z', "
                            "'order-3', '{}', null)"),
                        "busy");
    sql("update saga.run set state = 'completed', ended_at = '2026-01-03 06:00Z' where run_id = "
        "'order-2'");
    assert_non_null(
        strstr(schedule_says("schedule_get_v2"), "\"busy_until\" : \"2026-01-03T06:00:00Z\""));
    assert_string_equal(schedule_says("schedule_get_v1"), "2026-01-02T00:00:00Z");
}

/* An inbox row is settled in the same unit as its consequence, once. */
static void inbox_rows_are_settled(void **state)
{
    static struct rig_unit unit;
    (void)state;
    sql("select saga.inbox_put_v1('q1', 'cancel', 'in', null, '{}', 'me')");
    rig_unit_init(&unit, &rig);
    rig_start(&unit, "in", "{}");
    rig_record(rig_run(&unit, "in"), RECORD_INBOX)->inbox =
        (struct record_inbox){.id = STR("q1"), .outcome = STR("refused"), .answer = STR("no")};
    assert_int_equal(rig_write(&unit), UNIT_APPLIED);
    assert_string_equal(sql("select outcome || ' ' || answer from saga.requests"), "refused no");
    rig_unit_init(&unit, &rig);
    rig_record(rig_run(&unit, "in"), RECORD_INBOX)->inbox =
        (struct record_inbox){.id = STR("q1"), .outcome = STR("done"), .answer = STR("")};
    assert_int_equal(rig_write(&unit), UNIT_REJECTED);
}

/* A shard is handed over in the owner's own unit; from then on its units with that shard are
 * fenced, and those without it are not. */
static void handed_over_shards_are_not_ours(void **state)
{
    static struct rig_unit unit;
    (void)state;
    uint16_t shard = shard_of(STR("mine"));
    sql("insert into saga.lane (lane, daemon, kind, ttl, nonce) values ('two', 'two', 'write', "
        "'10s', 'x')");
    rig_unit_init(&unit, &rig);
    unit.unit.release_shards = UINT64_C(1) << shard;
    unit.unit.release_to = STR("two");
    assert_int_equal(rig_write(&unit), UNIT_APPLIED);
    assert_string_equal(pg_test_sql(admin,
                                    "select l.lane from saga.shard s join saga.lane l using "
                                    "(lane_no) where s.shard = %d",
                                    shard),
                        "two");
    char other[32];
    for (int i = 0;; i++) {
        snprintf(other, sizeof(other), "other-%d", i);
        if (shard_of(str_z(other)) != shard)
            break;
    }
    start_unit(&unit, other);
    assert_int_equal(rig_write(&unit), UNIT_APPLIED);
    start_unit(&unit, "mine");
    assert_int_equal(rig_write(&unit), UNIT_FENCED);
    assert_string_equal(sql("select count(*) from saga.run"), "1");
}

/* Four units in flight when the session is killed: each is undecided, and sent again as it was it
 * is either written now or was before, never twice. (PGCONN-1) */
static void a_pgconn_1(void **state)
{
    static struct rig_unit units[4];
    (void)state;
    for (int round = 0; round < 12; round++) {
        void *encoded[4];
        unsigned ups = rig.ups, answers = rig.answers_count;
        for (int i = 0; i < 4; i++) {
            char id[32];
            snprintf(id, sizeof(id), "r%d-%d", round, i);
            start_unit(&units[i], id);
            encoded[i] = encode(&units[i]);
            rig.port.send(rig.port.arg, encoded[i], rig.epoch, rig.seq + 1 + (uint64_t)i);
        }
        for (int i = 0; i < round % 4; i++)
            loop_turn(rig.loop, 0);
        sql("select pg_terminate_backend(pid) from pg_stat_activity where application_name = "
            "'sagad one write'");
        rig_wait(&rig, &rig.answers_count, answers + 4);
        rig_wait(&rig, &rig.ups, ups + 1);
        for (int i = 0; i < 4; i++) {
            enum unit_verdict before = rig.answers[answers + (unsigned)i].verdict;
            enum unit_verdict after =
                send_and_wait(encoded[i], rig.epoch, rig.seq + 1 + (uint64_t)i);
            assert_true(before == UNIT_UNDECIDED || before == UNIT_APPLIED);
            assert_true(after == UNIT_APPLIED || after == UNIT_ALREADY);
            assert_false(before == UNIT_APPLIED && after == UNIT_APPLIED);
            rig.port.encoded_free(rig.port.arg, encoded[i]);
        }
        rig.seq += 4;
    }
    assert_string_equal(sql("select count(*) || ' ' || count(distinct run_id) from saga.run"),
                        "48 48");
    assert_int_equal(rig.losts, 0);
}

/* A WARNING with the commit means that it may not be replicated: undecided, and so is every later
 * answer of that session, until the units were sent again. */
static void a_warning_is_undecided(void **state)
{
    static struct rig_unit units[3];
    void *encoded[3];
    (void)state;
    sql("create function warn() returns trigger language plpgsql as $$ begin if new.run_id = "
        "'warn-0' and not exists (select from public.warned) then insert into public.warned values "
        "(1); raise "
        "warning 'canceling wait'; end if; return null; end $$");
    sql("create table warned (i int)");
    sql("grant all on warned to public");
    sql("create constraint trigger w after insert on saga.run_key deferrable initially deferred "
        "for each row execute function warn()");
    for (int i = 0; i < 3; i++) {
        char id[32];
        snprintf(id, sizeof(id), "warn-%d", i);
        start_unit(&units[i], id);
        encoded[i] = encode(&units[i]);
        rig.port.send(rig.port.arg, encoded[i], rig.epoch, 1 + (uint64_t)i);
    }
    rig_wait(&rig, &rig.answers_count, 3);
    for (int i = 0; i < 3; i++)
        assert_int_equal(rig.answers[i].verdict, UNIT_UNDECIDED);
    rig_wait(&rig, &rig.ups, 1);
    for (int i = 0; i < 3; i++) {
        enum unit_verdict verdict = send_and_wait(encoded[i], rig.epoch, 1 + (uint64_t)i);
        /* Those behind the first may have been cut off before they ran. */
        if (verdict != UNIT_ALREADY && (i == 0 || verdict != UNIT_APPLIED))
            fail_msg("%d: %d %s", i, verdict, rig.problem.text);
        rig.port.encoded_free(rig.port.arg, encoded[i]);
    }
}

/* A unit that the runner has dropped while it was under way is answered to nobody. */
static void dropped_units_are_not_answered(void **state)
{
    static struct rig_unit unit;
    (void)state;
    start_unit(&unit, "dropped");
    void *encoded = rig_send(&unit, rig.epoch, 1);
    rig.port.encoded_free(rig.port.arg, encoded);
    start_unit(&unit, "kept");
    encoded = rig_send(&unit, rig.epoch, 2);
    rig_wait(&rig, &rig.answers_count, 1);
    rig_turn_for(&rig, 50 * MS_US);
    assert_int_equal(rig.answers_count, 1);
    assert_int_equal(answer()->verdict, UNIT_APPLIED);
    assert_string_equal(sql("select count(*) from saga.run"), "2");
    rig.port.encoded_free(rig.port.arg, encoded);
}

/* Loading gives the open runs of the shards that were asked for, page after page, each once. */
static void load_pages(void **state)
{
    static struct rig_unit unit;
    (void)state;
    for (int i = 0; i < 700; i++) {
        char id[16];
        if (i % 350 == 0)
            rig_unit_init(&unit, &rig);
        snprintf(id, sizeof(id), "L-%d", i);
        rig_start(&unit, id, "{}");
        struct record_effect *claim = rig_claim(&unit, id, 0, DIRECTION_EXECUTE, 1);
        if (i % 10 == 0) {
            claim->state.state = STEP_APPLIED;
            rig_state(&unit, id, RUN_COMPLETED);
        }
        if (i % 350 == 349)
            assert_int_equal(rig_write(&unit), UNIT_APPLIED);
    }
    uint64_t odd = UINT64_C(0xaaaaaaaaaaaaaaaa);
    rig.port.load(rig.port.arg, odd);
    rig.port.load(rig.port.arg, ~odd);
    rig_wait(&rig, &rig.load_dones, 2);
    assert_int_equal(rig.loaded_count, 630);
    for (unsigned i = 0, half = 0; i < rig.loaded_count; i++) {
        half += rig.loaded[i]->shard % 2 == 0;
        assert_true(half == 0 || rig.loaded[i]->shard % 2 == 0); /* the odd ones came first */
        for (unsigned j = 0; j < i; j++)
            assert_false(str_eq(rig.loaded[i]->id, rig.loaded[j]->id));
    }
    assert_null(load_run("nobody"));
    struct run *ended = load_run("L-10");
    assert_non_null(ended);
    assert_int_equal(ended->now.state, RUN_COMPLETED);
}

/* A run whose definition is not known here waits until it was fetched. */
static void definitions_are_fetched(void **state)
{
    static struct rig_unit unit;
    (void)state;
    start_unit(&unit, "old");
    assert_int_equal(rig_write(&unit), UNIT_APPLIED);
    char hex[65];
    sha256_hex(&rig.plan->hash, hex);
    rig.known = NULL;
    unsigned problems = rig.problems;
    assert_null(load_run("old")); /* it is nowhere: said so, once */
    assert_int_equal(rig.problems, problems + 1);
    pg_test_sql(admin,
                "select saga.workflow_apply_v1('\\x%s', 'order', 'x', false, '', 'workflow: x', "
                "'[]', null, 'me')",
                hex);
    struct run *run = load_run("old");
    assert_non_null(run);
    assert_true(rig.workflows >= 1);
}

/* --- the same random batches here and in a model --- */

#define MODEL_RUNS 40

struct model_run {
    bool exists;
    enum run_state state;
    uint32_t turn, claims;
    enum step_state steps[3]; /* STEP_NONE: never claimed */
};

/* Adds random records of one run to the unit and to the model; returns whether they fit. */
static void model_step(struct rig_unit *unit, struct model_run *run, const char *id,
                       struct rand *rand, bool *fits)
{
    uint16_t step = (uint16_t)rand_below(rand, 3);
    bool wrong = rand_chance(rand, 2);
    if (!run->exists || rand_chance(rand, 5)) {
        rig_start(unit, id, "{}");
        if (run->exists) /* taken: nothing else of it counts */
            return;
        *run = (struct model_run){.exists = true, .state = RUN_RUNNING};
        if (rand_chance(rand, 50)) {
            rig_claim(unit, id, step, DIRECTION_EXECUTE, ++run->claims);
            run->steps[step] = STEP_CLAIMED;
        }
        return;
    }
    const struct record_effect *claim = NULL;
    if (run->steps[step] == STEP_NONE) {
        struct record_effect *record = rig_claim(unit, id, step, DIRECTION_EXECUTE, ++run->claims);
        record->turn = run->turn + wrong;
        claim = record;
        run->steps[step] = STEP_CLAIMED;
    } else {
        enum step_state next = rand_chance(rand, 50) ? STEP_APPLIED : STEP_REFUSED;
        struct record_effect *effect =
            rig_effect(unit, id, step, DIRECTION_EXECUTE, run->claims, next);
        effect->ref.generation = effect->state.generation = wrong ? 2 : 1;
        run->steps[step] = next;
        *fits &= !wrong;
    }
    if (rand_chance(rand, 20)) {
        run->turn++;
        run->state = rand_chance(rand, 50) ? RUN_COMPENSATING : RUN_PARKED;
        struct record_run *now = rig_state(unit, id, run->state);
        now->turn = run->turn;
        now->reason = run->state == RUN_PARKED ? PARK_STEP_FAILED : PARK_NONE;
    }
    *fits &= !claim || claim->turn == run->turn; /* the unit's own turn counts */
}

static void model_compare(const struct model_run *model)
{
    for (int i = 0; i < MODEL_RUNS; i++) {
        char id[16];
        snprintf(id, sizeof(id), "M-%d", i);
        struct run *run = load_run(id);
        assert_int_equal(run != NULL, model[i].exists);
        if (!run)
            continue;
        assert_int_equal(run->now.state, model[i].state);
        assert_int_equal(run->now.turn, model[i].turn);
        for (int step = 0; step < 3; step++)
            assert_int_equal(run->instances[step].execute.state,
                             model[i].steps[step] ? model[i].steps[step] : STEP_PENDING);
    }
}

/* Random units (fresh, taken, wrong turn, missing row, sent twice, out of order) leave in the
 * database what they leave in a model of twenty lines. */
static void random_batches_equal_the_model(void **state)
{
    static struct rig_unit unit;
    struct model_run model[MODEL_RUNS] = {0};
    struct rand rand = rand_seed(20261);
    unsigned applied = 0, rejected = 0;
    (void)state;
    for (int round = 0; round < 300; round++) {
        struct model_run copy[MODEL_RUNS];
        bool fits = true;
        memcpy(copy, model, sizeof(copy));
        rig_unit_init(&unit, &rig);
        for (int i = 0, n = 1 + (int)rand_below(&rand, 6); i < n; i++) {
            char id[16];
            int which = (int)rand_below(&rand, MODEL_RUNS);
            snprintf(id, sizeof(id), "M-%d", which);
            bool there = false;
            for (uint32_t j = 0; j < unit.unit.runs_count; j++)
                there |= str_eq_z(unit.runs[j].run_id, id);
            if (!there)
                model_step(&unit, &copy[which], id, &rand, &fits);
        }
        void *encoded = encode(&unit);
        if (rand_chance(&rand, 10))
            assert_int_equal(send_and_wait(encoded, rig.epoch, rig.seq + 2), UNIT_GAP);
        enum unit_verdict verdict = send_and_wait(encoded, rig.epoch, rig.seq + 1);
        assert_int_equal(verdict, fits ? UNIT_APPLIED : UNIT_REJECTED);
        if (fits) {
            memcpy(model, copy, sizeof(copy));
            rig.seq++;
            applied++;
            if (rand_chance(&rand, 20))
                assert_int_equal(send_and_wait(encoded, rig.epoch, rig.seq), UNIT_ALREADY);
        } else {
            rejected++;
        }
        rig.port.encoded_free(rig.port.arg, encoded);
    }
    model_compare(model);
    assert_true(applied > 100 && rejected > 10);
}

/* The numbers of types aside, the columns that the encoder writes are those of the types. */
static void columns_are_those_of_the_types(void **state)
{
    (void)state;
    for (int list = 0; list < LIST_COUNT; list++) {
        struct buf names = {0};
        for (const char *const *name = pgunit_columns((enum pgunit_list)list); *name; name++)
            buf_printf(&names, "%s%s", names.len ? " " : "", *name);
        assert_string_equal(
            pg_test_sql(admin,
                        "select string_agg(attname, ' ' order by attnum) from pg_attribute where "
                        "attrelid = '%s'::regclass and attnum > 0",
                        pgunit_types[list]),
            names.data);
        buf_free(&names);
    }
    struct buf image = {0};
#define X(name) buf_printf(&image, "%s%s", image.len ? " " : "", #name);
    IMAGE_COLUMNS(X)
#undef X
    assert_string_equal(sql("select string_agg(attname, ' ' order by attnum) from pg_attribute "
                            "where attrelid = 'saga.run_image_v2'::regclass and attnum > 0"),
                        image.data);
    buf_free(&image);
}

static void enum_compare(const char *type, const char *names)
{
    assert_string_equal(pg_test_sql(admin,
                                    "select string_agg(enumlabel, ' ' order by enumsortorder) from "
                                    "pg_enum where enumtypid = 'saga.%s'::regtype",
                                    type),
                        names);
}

/* The enums of the database have the names of the X-lists, in their order. */
static void enums_are_equal(void **state)
{
    (void)state;
#define X(id, name) " " name
#define COMPARE(type, LIST) enum_compare(type, (LIST(X)) + 1)
    COMPARE("run_state", RUN_STATES);
    COMPARE("step_state", STEP_STATES);
    COMPARE("run_cause", RUN_CAUSES);
    COMPARE("park_reason", PARK_REASONS);
    COMPARE("outcome", OUTCOMES);
    COMPARE("direction", DIRECTIONS);
    COMPARE("effect_tier", EFFECT_TIERS);
#undef X
}

/* shard_of in SQL and in C are the same function. */
static void shards_are_equal(void **state)
{
    (void)state;
    static const char *const ids[] = {"", "a", "ORD-1", "ORD-1~pay", "ORD-1~pay~x", "~", "z.Z_9-"};
    for (size_t i = 0; i < ARRAY_LEN(ids); i++)
        assert_int_equal(atoi(pg_test_sql(admin, "select saga.shard_of('%s')", ids[i])),
                         shard_of(str_z(ids[i])));
    for (int i = 0; i < 200; i++) {
        char id[32];
        snprintf(id, sizeof(id), "id-%d%s", i, i % 3 ? "" : "~child");
        assert_int_equal(atoi(pg_test_sql(admin, "select saga.shard_of('%s')", id)),
                         shard_of(str_z(id)));
    }
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(loads_what_was_written),
        CASE(items_are_fixed_by_the_claim),
        CASE(many_items_load),
        CASE(version_1_still_works),
        CASE(verdicts),
        CASE(fenced_for_good),
        CASE(taken_is_skipped_as_a_group),
        CASE(mismatches_are_rejected),
        CASE(bad_data_is_rejected),
        CASE(records_of_one_row_are_merged),
        CASE(schedules_tell_how_long_their_run_was_open),
        CASE(inbox_rows_are_settled),
        CASE(handed_over_shards_are_not_ours),
        CASE(a_pgconn_1),
        CASE(a_warning_is_undecided),
        CASE(dropped_units_are_not_answered),
        CASE(load_pages),
        CASE(definitions_are_fetched),
        CASE(random_batches_equal_the_model),
        CASE(columns_are_those_of_the_types),
        CASE(enums_are_equal),
        CASE(shards_are_equal),
    };
    pg_test_start();
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    pg_test_stop();
    return failed;
}
