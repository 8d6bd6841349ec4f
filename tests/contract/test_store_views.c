/*
 * What people and the read API see: views and JSON functions over runs that the store wrote.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/lib/rig.h"

#define ALL UINT64_MAX

static struct rig rig;
static PGconn *admin;

static void applied(void *arg, const struct store_answer *answer)
{
    struct rig *r = arg;
    r->answer = *answer;
    r->answer.text = arena_str(&r->arena, answer->text);
    r->answered = true;
}

static const char *apply(const struct plan *plan, struct str parts)
{
    rig.answered = false;
    store_pg_apply(rig.store, plan, parts, "uid:0", applied, &rig);
    while (!rig.answered)
        loop_turn(rig.loop, 10 * MS_US);
    return rig.answer.err.code ? err_code_name(rig.answer.err.code) : rig.answer.text.ptr;
}

static int setup(void **state)
{
    (void)state;
    pg_test_create("views", true);
    admin = pg_test_connect("views", NULL);
    rig_open(&rig, &(struct rig_options){.database = "views", .daemon = "one"});
    rig_wait(&rig, &rig.owns, 1);
    store_pg_claim(rig.store, ALL);
    while (rig.shards != ALL)
        loop_turn(rig.loop, 10 * MS_US);
    rig_ask(&rig, "select 1", NULL); /* the read connection is up */
    assert_string_equal(apply(rig.plan, STR_NONE), "applied");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    PQfinish(admin);
    rig_close(&rig);
    return 0;
}

static const struct json *ask_json(const char *sql, const char *param)
{
    const struct json *out = NULL;
    struct err err;
    const char *text = rig_ask(&rig, sql, param);
    if (json_parse(arena_str(&rig.arena, str_z(text)), &rig.arena, &out, &err))
        fail_msg("%s: %s", text, err.text);
    return out;
}

static const char *text_at(const struct json *json, const char *name)
{
    const struct json *value = json_get_z(json, name);
    if (!value)
        fail_msg("there is no member \"%s\" in %s", name, json_text(json, &rig.arena).ptr);
    return value->kind == JSON_STRING ? arena_str(&rig.arena, value->text).ptr
                                      : json_text(value, &rig.arena).ptr;
}

/* A run that went: reserve applied, charge refused at the second attempt, reserve undone. */
static void write_walked_back(const char *id)
{
    static struct rig_unit unit;
    rig_unit_init(&unit, &rig);
    rig_start(&unit, id, "{\"amount\": 19.90,  \"id\": 12345678901234567890}");
    rig_claim(&unit, id, 0, DIRECTION_EXECUTE, 1);
    assert_int_equal(rig_write(&unit), UNIT_APPLIED);

    rig_unit_init(&unit, &rig);
    struct record_effect *reserve = rig_effect(&unit, id, 0, DIRECTION_EXECUTE, 1, STEP_APPLIED);
    reserve->state.output = STR("{\"b\":1.0,\"a\":[]}");
    reserve->state.ended_at.us = reserve->state.claimed_at.us + SECOND_US;
    rig_claim(&unit, id, 1, DIRECTION_EXECUTE, 2);
    assert_int_equal(rig_write(&unit), UNIT_APPLIED);

    rig_unit_init(&unit, &rig);
    struct record_attempt *attempt = &rig_record(rig_run(&unit, id), RECORD_ATTEMPT)->attempt;
    *attempt = (struct record_attempt){
        .ref = {.step = 1, .item = STR(""), .direction = DIRECTION_EXECUTE, .generation = 1},
        .number = 1,
        .sent_at = {INT64_C(1790000003000000)},
        .ended_at = {INT64_C(1790000003500000)},
        .outcome = OUTCOME_RETRYABLE,
        .status = 503,
        .error = STR("{\"code\":\"busy\",\"status\":503,\"message\":\"later\",\"body\":null}"),
    };
    struct record_effect *charge = rig_effect(&unit, id, 1, DIRECTION_EXECUTE, 2, STEP_REFUSED);
    charge->state.attempts = 2;
    charge->state.outcome = OUTCOME_REFUSED;
    charge->state.error = STR("{\"code\":\"declined\",\"status\":402,\"message\":\"no\"}");
    charge->state.ended_at.us = INT64_C(1790000004000000);
    struct record_run *now = rig_state(&unit, id, RUN_COMPENSATING);
    now->turn = 1;
    now->error = STR("{\"step\":\"charge\",\"code\":\"declined\"}");
    rig_claim(&unit, id, 0, DIRECTION_COMPENSATE, 3)->turn = 1;
    struct record_event *event = rig_event(&unit, id, 1);
    event->what = STR("turned back");
    event->at.us = INT64_C(1790000004000000);
    assert_int_equal(rig_write(&unit), UNIT_APPLIED);

    rig_unit_init(&unit, &rig);
    struct record_effect *undo = rig_effect(&unit, id, 0, DIRECTION_COMPENSATE, 3, STEP_APPLIED);
    undo->state.ended_at.us = INT64_C(1790000005000000);
    now = rig_state(&unit, id, RUN_COMPENSATED);
    now->turn = 1;
    now->error = STR("{\"step\":\"charge\",\"code\":\"declined\"}");
    assert_int_equal(rig_write(&unit), UNIT_APPLIED);
}

/* A run parked with an unknown outcome. */
static void write_parked(const char *id)
{
    static struct rig_unit unit;
    rig_unit_init(&unit, &rig);
    rig_start(&unit, id, "{}");
    struct record_effect *charge = rig_claim(&unit, id, 1, DIRECTION_EXECUTE, 1);
    charge->state.state = STEP_UNKNOWN;
    charge->state.outcome = OUTCOME_UNKNOWN;
    charge->state.maybe_applied = true;
    rig_state(&unit, id, RUN_PARKED)->reason = PARK_OUTCOME_UNKNOWN;
    rig_event(&unit, id, 1)->what = STR("parked");
    assert_int_equal(rig_write(&unit), UNIT_APPLIED);
}

/* The JSON of a run has the members of the contract, with every digit and space of its payloads. */
static void run_json(void **state)
{
    (void)state;
    static const char *const members[] = {"run_id",   "workflow", "version", "tenant",
                                          "state",    "paused",   "cause",   "waiting_for",
                                          "input",    "output",   "error",   "created_at",
                                          "ended_at", "steps",    "residue"};
    static const char *const step_members[] = {
        "id",  "effect", "state", "compensation_state", "attempts",
        "key", "output", "error", "started_at",         "ended_at"};
    write_walked_back("ORD-1");
    const char *raw = rig_ask(&rig, "select saga.run_json_v1($1)", "ORD-1");
    assert_non_null(strstr(raw, "{\"amount\": 19.90,  \"id\": 12345678901234567890}"));
    assert_non_null(strstr(raw, "{\"b\":1.0,\"a\":[]}"));
    const struct json *run = ask_json("select saga.run_json_v1($1)", "ORD-1");
    for (size_t i = 0; i < ARRAY_LEN(members); i++)
        text_at(run, members[i]);
    assert_string_equal(text_at(run, "state"), "compensated");
    assert_string_equal(text_at(run, "cause"), "step_refused");
    assert_string_equal(text_at(run, "waiting_for"), "null");
    assert_string_equal(text_at(run, "created_at"), "2026-09-21T14:13:20.123456Z");
    assert_string_equal(text_at(run, "ended_at"), "2026-09-21T14:13:29Z");
    assert_string_equal(text_at(run, "residue"), "[]");
    const struct json *steps = json_get_z(run, "steps");
    assert_int_equal(steps->count, 3);
    for (size_t i = 0; i < ARRAY_LEN(step_members); i++)
        text_at(steps->items[0], step_members[i]);
    assert_string_equal(text_at(steps->items[0], "id"), "reserve");
    assert_string_equal(text_at(steps->items[0], "effect"), "compensable");
    assert_string_equal(text_at(steps->items[0], "compensation_state"), "applied");
    assert_string_equal(text_at(steps->items[0], "key"), "ORD-1:reserve:execute");
    assert_string_equal(text_at(steps->items[0], "compensation_key"), "ORD-1:reserve:compensate");
    assert_string_equal(text_at(steps->items[1], "state"), "refused");
    assert_string_equal(text_at(steps->items[1], "attempts"), "2");
    assert_string_equal(text_at(steps->items[1], "compensation_state"), "null");
    assert_string_equal(text_at(steps->items[2], "id"), "receipt");
    assert_string_equal(text_at(steps->items[2], "state"), "pending");
    assert_string_equal(text_at(steps->items[2], "key"), "null");
    assert_string_equal(rig_ask(&rig, "select saga.run_json_v1($1)", "nobody"), "");
}

/* What is known of an unknown outcome stands at its step, what was found out in a list; an older
 * generation, and what is known by now, say nothing. */
static void unknown_json(void **state)
{
    (void)state;
    write_parked("ORD-2");
    const struct json *steps =
        json_get_z(ask_json("select saga.run_json_v1($1)", "ORD-2"), "steps");
    const struct json *unknown = json_get_z(steps->items[1], "unknown");
    assert_string_equal(text_at(steps->items[0], "unknown"), "null");
    assert_string_equal(text_at(unknown, "direction"), "execute");
    assert_string_equal(text_at(unknown, "asked"), "0");
    assert_string_equal(text_at(unknown, "found"), "null");
    assert_string_equal(text_at(unknown, "next_at"), "null");
    pg_test_sql(admin, "update saga.effect set findings = 2, found = 'in_progress', "
                       "unknown_at = '2026-09-21T14:00:00Z', next_at = '2026-09-21T14:01:00Z', "
                       "ask_until = '2026-09-21T14:10:00Z'");
    pg_test_sql(admin,
                "insert into saga.finding (shard, run_id, step_id, item, direction, generation, "
                "number, at, source, says, status, detail, body, actor, daemon) "
                "select shard, run_id, step_id, item, direction, generation, n, "
                "'2026-09-21T14:00:00Z'::timestamptz + n * interval '1 s', 'reconcile', "
                "'in_progress', 200, 'finding ' || n, '{\"n\": 1.50}', '', 'd' "
                "from saga.effect, generate_series(1, 2) n");
    const struct json *run = ask_json("select saga.run_json_v1($1)", "ORD-2");
    unknown = json_get_z(json_get_z(run, "steps")->items[1], "unknown");
    assert_string_equal(text_at(unknown, "asked"), "2");
    assert_string_equal(text_at(unknown, "since"), "2026-09-21T14:00:00Z");
    assert_string_equal(text_at(unknown, "next_at"), "2026-09-21T14:01:00Z");
    assert_string_equal(text_at(unknown, "until"), "2026-09-21T14:10:00Z");
    assert_string_equal(text_at(unknown, "says"), "in_progress");
    assert_string_equal(text_at(unknown, "found"), "finding 2");
    assert_string_equal(text_at(unknown, "found_at"), "2026-09-21T14:00:02Z");
    const struct json *findings = json_get_z(run, "findings");
    assert_int_equal(findings->count, 2);
    assert_string_equal(text_at(findings->items[0], "step"), "charge");
    assert_string_equal(text_at(findings->items[1], "detail"), "finding 2");
    assert_non_null(strstr(rig_ask(&rig, "select saga.run_json_v1($1)", "ORD-2"), "{\"n\": 1.50}"));
    const struct json *dead = json_get_z(ask_json("select saga.dead_json_v1()", NULL), "dead");
    assert_int_equal(json_get_z(dead->items[0], "findings")->count, 2);

    pg_test_sql(admin, "update saga.effect set state = 'applied'");
    steps = json_get_z(ask_json("select saga.run_json_v1($1)", "ORD-2"), "steps");
    assert_string_equal(text_at(steps->items[1], "unknown"), "null");
}

/* The timeline tells what happened in order; its numbers go on where a reader stopped. */
static void timeline(void **state)
{
    (void)state;
    static const char *const want[] = {"submitted",   "claimed",           "claimed",
                                       "applied",     "attempt retryable", "refused",
                                       "turned back", "compensated",       "compensated"};
    write_walked_back("ORD-1");
    const struct json *events =
        json_get_z(ask_json("select saga.events_json_v1($1, 0)", "ORD-1"), "events");
    struct buf seen = {0}, wanted = {0};
    for (uint32_t i = 0; i < events->count; i++) {
        if (strcmp(text_at(events->items[i], "what"), "compensating") != 0)
            buf_printf(&seen, "%s\n", text_at(events->items[i], "what"));
        char number[16];
        snprintf(number, sizeof(number), "%u", i + 1);
        assert_string_equal(text_at(events->items[i], "seq"), number);
    }
    for (size_t i = 0; i < ARRAY_LEN(want); i++)
        buf_printf(&wanted, "%s\n", want[i]);
    assert_string_equal(seen.data, wanted.data);
    buf_free(&seen);
    buf_free(&wanted);
    const struct json *rest = ask_json("select saga.events_json_v1($1, 8)", "ORD-1");
    assert_int_equal(json_get_z(rest, "events")->count, events->count - 8);
    assert_string_equal(text_at(rest, "ended"), "true");
    assert_string_equal(rig_ask(&rig, "select saga.events_json_v1($1, 0)", "nobody"), "");
    assert_string_equal(
        pg_test_sql(admin, "select string_agg(number || ' ' || outcome || ' ' || "
                           "coalesce(status::text, '-'), ', ' order by number) from saga.attempts "
                           "where key = 'ORD-1:charge:execute'"),
        "1 retryable 503, 2 refused -");
}

/* A parked run is a dead letter with its evidence and ways out, and an unknown outcome says what
 * would settle it. */
static void dead_letters(void **state)
{
    (void)state;
    write_parked("ORD-2");
    const struct json *dead = json_get_z(ask_json("select saga.dead_json_v1()", NULL), "dead");
    assert_int_equal(dead->count, 1);
    assert_string_equal(text_at(dead->items[0], "run_id"), "ORD-2");
    assert_string_equal(text_at(dead->items[0], "reason"), "outcome_unknown");
    assert_string_equal(text_at(dead->items[0], "step_id"), "charge");
    /* The service promised no key: it must not be sent again on a guess. */
    assert_string_equal(text_at(dead->items[0], "next_verbs"), "[\"settle\",\"skip\",\"abandon\"]");
    static const char *const verbs =
        "select array_to_string(next_verbs, ' ') from saga.dead_letters";
    pg_test_sql(admin, "update saga.effect set key_valid_until = now() + interval '1 hour'");
    assert_string_equal(pg_test_sql(admin, verbs), "settle retry skip abandon");
    pg_test_sql(admin, "update saga.effect set key_valid_until = now() - interval '1 second'");
    assert_string_equal(pg_test_sql(admin, verbs), "settle skip abandon");
    /* Held by the participant for something else; refused: nothing is left to settle. */
    pg_test_sql(admin, "update saga.effect set outcome = 'conflict'");
    assert_string_equal(pg_test_sql(admin, verbs), "settle skip abandon");
    pg_test_sql(admin, "update saga.effect set state = 'refused'");
    assert_string_equal(pg_test_sql(admin, verbs), "skip abandon");
    pg_test_sql(admin, "update saga.effect set outcome = 'refused'");
    assert_string_equal(pg_test_sql(admin, verbs), "retry skip abandon");
    pg_test_sql(admin, "update saga.effect set state = 'unknown', outcome = 'unknown'");
    assert_string_equal(text_at(json_get_z(dead->items[0], "effects")->items[0], "key"),
                        "ORD-2:charge:execute");
    assert_string_equal(
        pg_test_sql(admin, "select what_settles_it from saga.unknown_outcomes"),
        "sagactl settle ORD-2 charge:execute --applied | --not-applied --reason ...");
}

/* Every open run has exactly one reason to wait, and saga.runs says the same one. */
static void why_waiting(void **state)
{
    static struct rig_unit unit;
    (void)state;
    write_walked_back("ORD-1");
    write_parked("ORD-2");
    rig_unit_init(&unit, &rig);
    rig_start(&unit, "claim", "{}");
    rig_start(&unit, "participant", "{}");
    rig_claim(&unit, "participant", 0, DIRECTION_EXECUTE, 1);
    rig_claim(&unit, "participant", 1, DIRECTION_EXECUTE, 2)->state.state = STEP_RETRYING;
    rig_start(&unit, "retry", "{}");
    rig_claim(&unit, "retry", 0, DIRECTION_EXECUTE, 1)->state.state = STEP_APPLIED;
    struct record_effect *effect = rig_claim(&unit, "retry", 1, DIRECTION_EXECUTE, 2);
    effect->state.state = STEP_RETRYING;
    effect->state.next_at.us = INT64_C(1800000000000000);
    rig_start(&unit, "timer", "{}");
    rig_claim(&unit, "timer", 1, DIRECTION_EXECUTE, 1)->state.state = STEP_WAITING;
    rig_start(&unit, "paused", "{}");
    rig_state(&unit, "paused", RUN_RUNNING)->paused = true;
    assert_int_equal(rig_write(&unit), UNIT_APPLIED);
    assert_string_equal(
        pg_test_sql(admin, "select string_agg(run_id || '=' || waiting_for, ' ' order by run_id) "
                           "from saga.why_waiting"),
        "ORD-2=person claim=claim participant=participant paused=paused retry=retry timer=timer");
    assert_string_equal(pg_test_sql(admin, "select count(*) from saga.runs r full join "
                                           "saga.why_waiting w using (run_id) where (r.ended_at is "
                                           "null) <> (w.run_id is not null) or r.waiting_for is "
                                           "distinct from w.waiting_for"),
                        "0");
    assert_string_equal(pg_test_sql(admin, "select string_agg(run_id || ': ' || why, ', ' order by "
                                           "run_id) from saga.stuck"),
                        "ORD-2: it is parked: outcome_unknown, paused: it is paused");
    assert_string_equal(pg_test_sql(admin, "select step_id from saga.stuck where run_id = 'ORD-2'"),
                        "charge");
    pg_test_sql(admin, "update saga.effect set error = '{\"status\": 503, \"code\": \"busy\", "
                       "\"message\": \"later\"}' where run_id = 'retry' and state = 'retrying'");
    assert_string_equal(
        pg_test_sql(admin, "select detail from saga.why_waiting where run_id = 'retry'"),
        "after attempt 1: 503 busy: later");
    pg_test_sql(admin, "update saga.shard set lane_no = null");
    assert_string_equal(pg_test_sql(admin, "select why from saga.stuck where run_id = 'retry'"),
                        "no living daemon carries its shard");
    assert_string_equal(
        pg_test_sql(admin, "select waiting_for from saga.why_waiting where run_id = 'retry'"),
        "owner");
}

/* What is not undone of a run that has turned back, and why. */
static void why_not_compensated(void **state)
{
    static struct rig_unit unit;
    static const char *const sql =
        "select string_agg(step_id || ': ' || why || ', ' || detail, '; ' order by position) "
        "from saga.why_not_compensated where run_id = '%s'";
    (void)state;
    write_walked_back("ORD-1");
    assert_string_equal(pg_test_sql(admin, sql, "ORD-1"), "");
    rig_unit_init(&unit, &rig);
    rig_start(&unit, "back", "{}");
    rig_claim(&unit, "back", 0, DIRECTION_EXECUTE, 1)->state.state = STEP_APPLIED;
    rig_claim(&unit, "back", 1, DIRECTION_EXECUTE, 2)->state.state = STEP_APPLIED;
    assert_int_equal(rig_write(&unit), UNIT_APPLIED);
    rig_unit_init(&unit, &rig);
    struct record_run *now = rig_state(&unit, "back", RUN_COMPENSATING);
    now->turn = 1;
    struct record_effect *undo = rig_claim(&unit, "back", 1, DIRECTION_COMPENSATE, 3);
    undo->turn = 1;
    undo->state.state = STEP_REFUSED;
    undo->state.error = STR("{\"code\":\"gone\",\"status\":410,\"message\":\"no such charge\"}");
    assert_int_equal(rig_write(&unit), UNIT_APPLIED);
    assert_string_equal(pg_test_sql(admin, sql, "back"),
                        "reserve: not_begun, what was built on it is undone first; "
                        "charge: failed, 410 gone: no such charge");
}

/* Lists come newest first, filtered, in pages that lose and repeat nothing. */
static void run_pages(void **state)
{
    static struct rig_unit unit;
    (void)state;
    rig_unit_init(&unit, &rig);
    for (int i = 0; i < 25; i++) {
        char id[16];
        snprintf(id, sizeof(id), "R-%02d", i);
        struct record_start *start = rig_start(&unit, id, "{}");
        start->created_at.us += i / 2 * SECOND_US; /* pairs of the same moment */
        if (i % 5 == 0)
            rig_state(&unit, id, RUN_PARKED)->reason = PARK_STEP_FAILED;
    }
    assert_int_equal(rig_write(&unit), UNIT_APPLIED);
    char cursor[64] = "", all[256] = "";
    unsigned pages = 0, count = 0;
    do {
        const struct json *page =
            ask_json("select saga.runs_json_v1(null, null, null, 10, nullif($1, ''))", cursor);
        const struct json *runs = json_get_z(page, "runs");
        for (uint32_t i = 0; i < runs->count; i++, count++)
            strcat(all, text_at(runs->items[i], "run_id") + 1);
        const struct json *next = json_get_z(page, "next");
        snprintf(cursor, sizeof(cursor), "%s",
                 next->kind == JSON_STRING ? text_at(page, "next") : "");
        pages++;
    } while (*cursor);
    assert_int_equal(count, 25);
    assert_int_equal(pages, 3);
    assert_string_equal(all, "-24-22-23-20-21-18-19-16-17-14-15-12-13-10-11-08-09-06-07-04-05-02-03"
                             "-00-01");
    assert_int_equal(
        json_get_z(ask_json("select saga.runs_json_v1('parked', 'order', null, null, null)", NULL),
                   "runs")
            ->count,
        5);
    assert_int_equal(
        json_get_z(ask_json("select saga.runs_json_v1(null, $1, null, 5, null)", "no"), "runs")
            ->count,
        0);
    assert_string_equal(rig_ask(&rig, "select saga.runs_json_v1(null, null, null, 5, $1)", "junk"),
                        "this is not a cursor");
    assert_string_equal(rig_ask(&rig, "select saga.run_find_v1($1)", "R-1"),
                        "[\"R-10\", \"R-11\", \"R-12\", \"R-13\", \"R-14\", \"R-15\", \"R-16\", "
                        "\"R-17\", \"R-18\", \"R-19\"]");
    assert_string_equal(rig_ask(&rig, "select saga.run_find_v1($1)", "R-11"), "[\"R-11\"]");
    assert_string_equal(rig_ask(&rig, "select saga.run_find_v1($1)", "%"), "[]");
}

/* A definition is known by its content; a label cannot come to stand for other content. */
static void definitions(void **state)
{
    (void)state;
    struct plan other = *rig.plan;
    assert_string_equal(apply(rig.plan, STR_NONE), "unchanged");
    other.hash.bytes[0] ^= 1;
    other.version = "v1";
    other.version_is_label = true;
    assert_string_equal(apply(&other, STR_NONE), "applied");
    assert_string_equal(apply(rig.plan, STR_NONE), "current");
    other.hash.bytes[0] ^= 2;
    assert_string_equal(apply(&other, STR_NONE), "conflict");
    const struct json *list =
        json_get_z(ask_json("select saga.workflows_json_v1()", NULL), "workflows");
    assert_int_equal(list->count, 1);
    assert_string_equal(text_at(list->items[0], "hash"), rig.plan->hash_hex);
    const struct json *one = ask_json("select saga.workflow_json_v1($1)", "order");
    assert_int_equal(json_get_z(one, "versions")->count, 2);
    assert_string_equal(text_at(json_get_z(one, "steps")->items[1], "compensate"), "true");
    const struct json *daemons =
        json_get_z(ask_json("select saga.daemons_json_v1()", NULL), "daemons");
    assert_int_equal(daemons->count, 1);
    assert_string_equal(text_at(daemons->items[0], "shards"), "64");
    assert_string_equal(text_at(daemons->items[0], "alive"), "true");
}

/* Every view answers, on an empty database and on one with runs, and teaches itself: each of its
 * columns has a comment. */
static void views_teach(void **state)
{
    (void)state;
    for (int round = 0; round < 2; round++) {
        PGresult *views =
            PQexec(admin, "select c.oid::regclass from pg_class c where c.relkind = 'v' and "
                          "c.relnamespace = 'saga'::regnamespace order by 1");
        assert_true(PQntuples(views) > 12);
        for (int i = 0; i < PQntuples(views); i++)
            assert_string_equal(
                pg_test_sqlstate(admin, "select * from %s", PQgetvalue(views, i, 0)), "");
        PQclear(views);
        if (round == 0) {
            write_walked_back("ORD-1");
            write_parked("ORD-2");
        }
    }
    assert_string_equal(
        pg_test_sql(admin,
                    "select coalesce(string_agg(c.relname || '.' || a.attname, ', '), '') from "
                    "pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 where "
                    "c.relkind = 'v' and c.relnamespace = 'saga'::regnamespace and c.relname !~ "
                    "'_v[0-9]+$' and (col_description(c.oid, a.attnum) is null or "
                    "obj_description(c.oid, 'pg_class') is null)"),
        "");
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(run_json),     CASE(unknown_json), CASE(timeline),
        CASE(dead_letters), CASE(why_waiting),  CASE(why_not_compensated),
        CASE(run_pages),    CASE(definitions),  CASE(views_teach)};
    pg_test_start();
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    pg_test_stop();
    return failed;
}
