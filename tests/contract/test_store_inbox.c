/*
 * The inbox: saga.start and the verbs in SQL, and how their rows reach the owner.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/lib/rig.h"

static struct rig rig;
static PGconn *admin, *shop, *person;

static void applied(void *arg, const struct store_answer *answer)
{
    (void)answer;
    ((struct rig *)arg)->answered = true;
}

static int setup(void **state)
{
    (void)state;
    pg_test_create("inbox", true);
    admin = pg_test_connect("inbox", NULL);
    pg_test_sql(admin, "create table orders (id text)");
    pg_test_sql(admin, "grant all on orders to public");
    shop = pg_test_connect("inbox", NULL);
    pg_test_sql(shop, "set session authorization saga_submit");
    person = pg_test_connect("inbox", NULL);
    pg_test_sql(person, "set session authorization saga_operator");
    rig_open(&rig,
             &(struct rig_options){.database = "inbox", .daemon = "one", .polls_inbox = true});
    rig_wait(&rig, &rig.owns, 1);
    store_pg_claim(rig.store, UINT64_MAX);
    while (rig.shards != UINT64_MAX)
        loop_turn(rig.loop, 10 * MS_US);
    rig_ask(&rig, "select 1", NULL);
    store_pg_apply(rig.store, rig.plan,
                   STR("[{\"lit\": \"order-\"}, {\"path\": [\"order\", \"id\"]}]"), "me", applied,
                   &rig);
    for (rig.answered = false; !rig.answered;)
        loop_turn(rig.loop, 10 * MS_US);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    PQfinish(admin);
    PQfinish(shop);
    PQfinish(person);
    rig_close(&rig);
    return 0;
}

static enum unit_verdict settle(const struct store_inbox *row, const char *outcome, bool start)
{
    static struct rig_unit unit;
    rig_unit_init(&unit, &rig);
    if (start)
        rig_start(&unit, row->run_id.ptr, "{\"order\": {\"id\": 7}}");
    rig_record(rig_run(&unit, row->run_id.ptr), RECORD_INBOX)->inbox =
        (struct record_inbox){.id = row->id, .outcome = str_z(outcome), .answer = STR("")};
    return rig_write(&unit);
}

/* A start made in a transaction that is rolled back leaves nothing; a committed one arrives with
 * its definition, its rendered id and who asked, exactly once until it is settled. */
static void starts_with_the_callers_transaction(void **state)
{
    (void)state;
    pg_test_sql(shop, "begin");
    pg_test_sql(shop, "insert into orders values ('lost')");
    assert_string_equal(pg_test_sql(shop, "select saga.start('order', '{\"order\": {\"id\": 6}}')"),
                        "order-6");
    pg_test_sql(shop, "rollback");
    assert_string_equal(pg_test_sql(admin, "select count(*) from saga.requests"), "0");

    pg_test_sql(shop, "begin");
    pg_test_sql(shop, "insert into orders values ('kept')");
    assert_string_equal(
        pg_test_sql(shop, "select saga.start('order', '{\"order\": {\"id\": 7}}', null, 'acme')"),
        "order-7");
    rig_turn_for(&rig, 400 * MS_US);
    assert_int_equal(rig.inbox_count, 0); /* not committed */
    pg_test_sql(shop, "commit");
    rig_wait(&rig, &rig.inbox_count, 1);
    const struct store_inbox *row = &rig.inbox[0];
    assert_true(str_eq_z(row->kind, "start"));
    assert_true(str_eq_z(row->run_id, "order-7"));
    assert_true(str_eq_z(row->actor, "role:saga_submit"));
    assert_ptr_equal(row->plan, rig.plan);
    assert_int_equal(row->shard, shard_of(row->run_id));
    const struct json *body;
    struct err err;
    assert_int_equal(json_parse(row->body, &rig.arena, &body, &err), 0);
    assert_true(str_eq_z(json_get_text(body, "tenant"), "acme"));
    assert_non_null(json_get_z(json_get_z(body, "input"), "order"));
    rig_turn_for(&rig, 500 * MS_US);
    assert_int_equal(rig.inbox_count, 1);
    assert_int_equal(settle(row, "done", true), UNIT_APPLIED);
    assert_string_equal(pg_test_sql(admin, "select outcome from saga.requests"), "done");
    rig_turn_for(&rig, 300 * MS_US);
    assert_int_equal(rig.inbox_count, 1);
}

/* The same id and input is the same run; another input, workflow or tenant is a conflict. */
static void same_id_same_input(void **state)
{
    (void)state;
    pg_test_sql(shop, "select saga.start('order', '{\"order\": {\"id\": 7}}', null, 'acme')");
    rig_wait(&rig, &rig.inbox_count, 1);
    assert_int_equal(settle(&rig.inbox[0], "done", true), UNIT_APPLIED);
    assert_string_equal(
        pg_test_sql(shop, "select saga.start('order', '{\"order\":{\"id\":7.0}}', 'order-7.0')"),
        "order-7.0"); /* another number text is another id, not this run */
    assert_string_equal(
        pg_test_sql(shop,
                    "select saga.start('order', '{\"order\": {\"id\": 7}}', 'order-7', 'acme')"),
        "order-7");
    assert_string_equal(pg_test_sqlstate(shop, "select saga.start('order', '{\"order\": {\"id\": "
                                               "7}, \"x\": 1}', null, 'acme')"),
                        "23505");
    assert_string_equal(
        pg_test_sqlstate(shop,
                         "select saga.start('order', '{\"order\": {\"id\": 7}}', null, 'other')"),
        "23505");
    assert_string_equal(pg_test_sql(admin, "select count(*) from saga.requests"), "2");
}

/* A start that is to come later takes its time along, whatever the session's time zone. */
static void starts_later(void **state)
{
    (void)state;
    pg_test_sql(shop, "set time zone 'America/New_York'");
    assert_string_equal(
        pg_test_sql(shop, "select saga.start('order', '{\"order\": {\"id\": 7}}', start_at => "
                          "'2031-02-03 04:05:06.5+01')"),
        "order-7");
    pg_test_sql(shop, "select saga.start('order', '{\"order\": {\"id\": 8}}', null, null, null)");
    assert_string_equal(pg_test_sql(admin, "select string_agg(coalesce(body ->> 'start_at', '-'), "
                                           "' ' order by run_id) from saga.inbox"),
                        "2031-02-03T03:05:06.500000Z -");
}

/* What cannot start says why at once. */
static void bad_starts(void **state)
{
    (void)state;
    static const struct {
        const char *args, *sqlstate;
    } bad[] = {
        {"'nothing', '{}'", "42704"},
        {"'order', '{}'", "22023"},                                /* the template needs order.id */
        {"'order', '{\"order\": {\"id\": [1]}}'", "22023"},        /* not a scalar */
        {"'order', '{\"order\": {\"id\": \"a b\"}}'", "22023"},    /* not an id */
        {"'order', '{\"order\": {\"id\": 1}}', 'other'", "22023"}, /* not the template's */
        {"'order', '{\"order\": {\"id\": \"~\"}}'", "22023"}, /* children's ids are not given */
        {"'order', '{\"order\": {\"id\": 1}}', start_at => 'infinity'", "22023"},
    };
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_string_equal(pg_test_sqlstate(shop, "select saga.start(%s)", bad[i].args),
                            bad[i].sqlstate);
    pg_test_sql(admin, "update saga.workflow set run_id_parts = '\"complex\"'");
    assert_string_equal(pg_test_sqlstate(shop, "select saga.start('order', '{}')"), "0A000");
    assert_string_equal(pg_test_sql(shop, "select saga.start('order', '{}', 'given')"), "given");
    pg_test_sql(admin, "update saga.workflow set run_id_parts = null");
    assert_string_equal(pg_test_sql(shop, "select saga.start('order', '{}') ~ "
                                          "'^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab]'"),
                        "t");
}

/* A start never waits for another one, nor the owner for it: it writes no row that they need. */
static void open_transactions_hold_nobody_up(void **state)
{
    static struct rig_unit unit;
    (void)state;
    PGconn *other = pg_test_connect("inbox", NULL);
    pg_test_sql(other, "set session authorization saga_submit");
    pg_test_sql(other, "set statement_timeout = '2s'");
    pg_test_sql(shop, "begin");
    pg_test_sql(shop, "select saga.start('order', '{\"order\": {\"id\": 7}}')");
    pg_test_sql(other, "select saga.start('order', '{\"order\": {\"id\": 7}}')");
    rig_unit_init(&unit, &rig);
    rig_start(&unit, "order-7", "{}");
    assert_int_equal(rig_write(&unit), UNIT_APPLIED);
    pg_test_sql(shop, "commit");
    rig_wait(&rig, &rig.inbox_count, 2);
    PQfinish(other);
}

/* Every verb arrives with its arguments, and needs a reason. */
static void verbs(void **state)
{
    (void)state;
    static const struct {
        const char *call, *kind, *body;
    } calls[] = {
        {"cancel('r', 'why')", "cancel", "{\"reason\" : \"why\"}"},
        {"pause('r', 'why')", "pause", "{\"reason\" : \"why\"}"},
        {"resume('r', 'why')", "resume", "{\"reason\" : \"why\"}"},
        {"compensate('r', 'why')", "compensate", "{\"reason\" : \"why\"}"},
        {"abandon('r', 'why')", "abandon", "{\"reason\" : \"why\"}"},
        {"retry('r', 'why', step_input => '{\"a\": 1.50}')", "retry",
         "{\"reason\" : \"why\", \"input\" : null, \"step_input\" : {\"a\": 1.50}}"},
        {"settle('r', 'charge:execute', true, 'why', '{\"id\": 1}')", "settle",
         "{\"reason\" : \"why\", \"step\" : \"charge:execute\", \"applied\" : true, \"force\" : "
         "false, \"output\" : {\"id\": 1}}"},
        {"skip('r', 'charge', 'why')", "skip",
         "{\"reason\" : \"why\", \"step\" : \"charge\", \"output\" : null}"},
        {"signal('r', 'paid', '[1]')", "signal", "{\"name\" : \"paid\", \"data\" : [1]}"},
    };
    for (unsigned i = 0; i < ARRAY_LEN(calls); i++) {
        char id[64];
        snprintf(id, sizeof(id), "%s", pg_test_sql(person, "select saga.%s", calls[i].call));
        rig_wait(&rig, &rig.inbox_count, i + 1);
        assert_string_equal(rig.inbox[i].id.ptr, id);
        assert_string_equal(rig.inbox[i].kind.ptr, calls[i].kind);
        assert_string_equal(rig.inbox[i].body.ptr, calls[i].body);
        assert_string_equal(rig.inbox[i].actor.ptr, "role:saga_operator");
        assert_null(rig.inbox[i].plan);
    }
    assert_string_equal(pg_test_sqlstate(person, "select saga.cancel('r', '')"), "22023");
    assert_string_equal(pg_test_sqlstate(person, "select saga.cancel('r', null)"), "22023");
    assert_string_equal(pg_test_sqlstate(person, "select saga.cancel('', 'why')"), "22023");
    assert_string_equal(pg_test_sqlstate(person, "select saga.settle('r', 's', null, 'why')"),
                        "22023");
    assert_string_equal(pg_test_sqlstate(shop, "select saga.cancel('r', 'why')"), "42501");
}

/* A row that was not accepted, or whose lease was lost meanwhile, is offered again; an id that is
 * put twice is one row. */
static void offered_until_settled(void **state)
{
    (void)state;
    rig.inbox_refuses = true;
    for (int i = 0; i < 2; i++) {
        rig.answered = false;
        store_pg_inbox_put(rig.store, STR("once"), STR("cancel"), STR("r"), NULL, STR("{}"),
                           STR("uid:1"), applied, &rig);
        while (!rig.answered)
            loop_turn(rig.loop, 10 * MS_US);
    }
    rig_turn_for(&rig, 300 * MS_US);
    assert_int_equal(rig.inbox_count, 0);
    rig.inbox_refuses = false;
    rig_wait(&rig, &rig.inbox_count, 1);
    pg_test_sql(admin, "update saga.lane set epoch = epoch + 1");
    rig_wait(&rig, &rig.losts, 1); /* noticed by the next renewal */
    rig_wait(&rig, &rig.owns, 2);
    rig_wait(&rig, &rig.inbox_count, 2);
    assert_int_equal(settle(&rig.inbox[1], "refused", false), UNIT_APPLIED);
    assert_string_equal(pg_test_sql(admin, "select count(*) || max(outcome) from saga.requests"),
                        "1refused");
}

/* The inbox goes on after its session was ended: within the time of one poll. (PGCONN-5) */
static void a_pgconn_5(void **state)
{
    (void)state;
    pg_test_sql(admin, "select pg_terminate_backend(pid) from pg_stat_activity where "
                       "application_name = 'sagad one watch'");
    rig_turn_for(&rig, 500 * MS_US);
    for (unsigned i = 0; i < 10; i++) {
        pg_test_sql(person, "select saga.cancel('r', 'why')");
        int64_t before = loop_mono().us;
        rig_wait(&rig, &rig.inbox_count, i + 1);
        assert_true(loop_mono().us - before < 2 * SECOND_US);
    }
}

/* A definition that another daemon applied becomes known here. */
static void new_definitions_are_told(void **state)
{
    (void)state;
    unsigned before = rig.workflows;
    pg_test_sql(admin, "select saga.workflow_apply_v1(sha256('x'), 'other', 'x', false, '', "
                       "'workflow: other', '[]', null, 'me')");
    rig_wait(&rig, &rig.workflows, before + 2); /* all current ones */
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(starts_with_the_callers_transaction),
        CASE(same_id_same_input),
        CASE(starts_later),
        CASE(bad_starts),
        CASE(open_transactions_hold_nobody_up),
        CASE(verbs),
        CASE(offered_until_settled),
        CASE(a_pgconn_5),
        CASE(new_definitions_are_told),
    };
    pg_test_start();
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    pg_test_stop();
    return failed;
}
