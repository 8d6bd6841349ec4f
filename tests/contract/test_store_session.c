/*
 * Sessions: what a connection makes of the DBA's settings, of errors, and of being cut off.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "engine/pgconn.h"
#include "tests/lib/rig.h"

static struct loop *loop;
static struct pgconn *conn;
static PGconn *admin;
static unsigned ups, downs, finals, dones, losts;
static struct err last;
static char value[256];
static bool close_in_callback;

static void up(void *arg)
{
    (void)arg;
    ups++;
}

static void down(void *arg, const struct err *err, bool is_final)
{
    (void)arg;
    downs++;
    finals += is_final;
    last = *err;
}

static void done(void *arg, const struct pgconn_result *result)
{
    (void)arg;
    dones++;
    losts += result->lost;
    last = result->err;
    value[0] = '\0';
    if (result->rows && PQntuples(result->rows) && PQnfields(result->rows))
        snprintf(value, sizeof(value), "%s", PQgetvalue(result->rows, 0, 0));
    if (close_in_callback) {
        pgconn_close(conn);
        conn = NULL;
    }
}

static int setup(void **state)
{
    struct err err;
    (void)state;
    pg_test_create("session", true);
    admin = pg_test_connect("session", NULL);
    assert_int_equal(loop_open(&loop, &err), 0);
    ups = downs = finals = dones = losts = 0;
    close_in_callback = false;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    pgconn_close(conn);
    conn = NULL;
    loop_close(loop);
    PQfinish(admin);
    return 0;
}

static void open_conn(const char *uri, int64_t stall_us)
{
    static const char *const statements[] = {"select $1::text", "select $1::int + 1"};
    conn = pgconn_open(loop, &(struct pgconn_options){.uri = uri,
                                                      .application = "test",
                                                      .statements = statements,
                                                      .statements_count = 2,
                                                      .stall_us = stall_us,
                                                      .up = up,
                                                      .down = down});
}

static void wait_for(const unsigned *counter, unsigned wanted)
{
    int64_t limit = loop_mono().us + 20 * SECOND_US;
    while (*counter < wanted && loop_mono().us < limit)
        loop_turn(loop, 50 * MS_US);
    if (*counter < wanted)
        fail_msg("waited in vain: %u of %u; %s", *counter, wanted, last.text);
}

static const char *query(const char *sql)
{
    unsigned before = dones;
    pgconn_query(conn, sql, NULL, PGCONN_TEXT, done, NULL);
    wait_for(&dones, before + 1);
    return last.code ? last.sqlstate : value;
}

/* Answers come in the order of the sends, errors to the statement that made them. */
static void answers_in_order(void **state)
{
    struct pgconn_params params = {0};
    (void)state;
    open_conn(pg_test_uri("session", "saga_engine"), 0);
    wait_for(&ups, 1);
    pgconn_param_text(&params, STR("a"));
    for (int i = 0; i < 100; i++)
        pgconn_exec(conn, 0, &params, PGCONN_TEXT, done, NULL);
    assert_int_equal(dones, 0);
    assert_int_equal(pgconn_outstanding(conn), 100);
    wait_for(&dones, 100);
    assert_string_equal(value, "a");
    assert_string_equal(query("select 1/0"), "22012");
    assert_string_equal(query("select 7"), "7");
}

/* Statements with PGCONN_MORE are one transaction with the next: all or none. */
static void more_is_one_transaction(void **state)
{
    (void)state;
    pg_test_sql(admin, "create table t (i int primary key)");
    pg_test_sql(admin, "grant all on t to saga_engine");
    open_conn(pg_test_uri("session", "saga_engine"), 0);
    wait_for(&ups, 1);
    pgconn_query(conn, "insert into public.t values (1)", NULL, PGCONN_MORE, done, NULL);
    pgconn_query(conn, "insert into public.t values (1)", NULL, PGCONN_MORE, done, NULL);
    pgconn_query(conn, "insert into public.t values (2)", NULL, 0, done, NULL);
    wait_for(&dones, 3);
    assert_int_equal(last.code, ERR_DATABASE);
    assert_string_equal(query("select count(*) from public.t"), "0");
    pgconn_query(conn, "insert into public.t values (1)", NULL, PGCONN_MORE, done, NULL);
    pgconn_query(conn, "insert into public.t values (2)", NULL, 0, done, NULL);
    wait_for(&dones, 6);
    assert_string_equal(query("select count(*) from public.t"), "2");
}

/* Large statements and large answers at the same time do not block each other. */
static void large_both_ways(void **state)
{
    (void)state;
    open_conn(pg_test_uri("session", "saga_engine"), 0);
    wait_for(&ups, 1);
    struct buf megabyte = {0};
    memset(buf_room(&megabyte, 1 << 20), 'x', 1 << 20);
    struct pgconn_params params = {0};
    pgconn_param_text(&params, buf_str(&megabyte));
    for (int i = 0; i < 60; i++)
        pgconn_exec(conn, 0, &params, 0, done, NULL);
    wait_for(&dones, 60);
    assert_int_equal(last.code, ERR_NONE);
    buf_free(&megabyte);
}

/* A connection may be closed from inside a callback, with answers outstanding. */
static void closed_in_a_callback(void **state)
{
    (void)state;
    open_conn(pg_test_uri("session", "saga_engine"), 0);
    wait_for(&ups, 1);
    close_in_callback = true;
    for (int i = 0; i < 3; i++)
        pgconn_query(conn, "select 1", NULL, 0, done, NULL);
    wait_for(&dones, 1);
    for (int i = 0; i < 20; i++)
        loop_turn(loop, MS_US);
    assert_int_equal(dones, 1);
}

/* What was sent when the session ended is answered as lost; the connection comes back alone. */
static void lost_and_back(void **state)
{
    (void)state;
    open_conn(pg_test_uri("session", "saga_engine"), 0);
    wait_for(&ups, 1);
    pgconn_query(conn, "select pg_sleep(10)", NULL, 0, done, NULL);
    pgconn_query(conn, "select 1", NULL, 0, done, NULL);
    for (int i = 0; i < 5; i++)
        loop_turn(loop, 10 * MS_US);
    pg_test_sql(admin, "select pg_terminate_backend(%d)", pgconn_backend_pid(conn));
    wait_for(&dones, 2);
    assert_int_equal(losts, 2);
    assert_int_equal(downs, 1);
    assert_int_equal(finals, 0);
    assert_string_equal(last.sqlstate, "57P01");
    wait_for(&ups, 2);
    assert_string_equal(query("select 1"), "1");
}

/* A server that goes silent is given up after a while. */
static void silence_is_noticed(void **state)
{
    (void)state;
    open_conn(pg_test_uri("session", "saga_engine"), 300 * MS_US);
    wait_for(&ups, 1);
    pgconn_query(conn, "select pg_sleep(5)", NULL, 0, done, NULL);
    wait_for(&dones, 1);
    assert_int_equal(losts, 1);
    wait_for(&ups, 2);
    for (int i = 0; i < 50; i++) /* silence with nothing outstanding is fine */
        loop_turn(loop, 10 * MS_US);
    assert_int_equal(downs, 1);
}

/* Wrong names are final, servers that are away are not. */
static void final_or_passing(void **state)
{
    static const struct {
        const char *uri, *sqlstate;
        bool is_final;
    } cases[] = {
        {"dbname=nothing user=saga_engine", "3D000", true},
        {"dbname=session user=nobody_such", "28000", true},
        {"dbname=session host=/nowhere", "", false},
        {"dbname=session host=127.0.0.1 port=1", "", false},
        {"port", "", true}, /* not a connection string */
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char uri[256];
        unsigned before = downs, finals_before = finals;
        snprintf(uri, sizeof(uri), "%s%s%s", cases[i].uri,
                 strstr(cases[i].uri, "host") || i == 4 ? "" : " host=",
                 strstr(cases[i].uri, "host") || i == 4 ? "" : PQhost(admin));
        open_conn(uri, 0);
        wait_for(&downs, before + 1);
        assert_int_equal(finals - finals_before > 0, cases[i].is_final);
        if (i != 1) /* peer authentication knows no such role: 28000 or 28P01 */
            assert_string_equal(last.sqlstate, cases[i].sqlstate);
        assert_int_equal(ups, 0);
        pgconn_close(conn);
        conn = NULL;
    }
}

/* Of several hosts the one that answers is found, wherever it stands in the list. */
static void several_hosts(void **state)
{
    char uri[256];
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        snprintf(uri, sizeof(uri), "dbname=session user=saga_engine host=%s,%s port=5432,5432",
                 i ? PQhost(admin) : "/nowhere", i ? "/nowhere" : PQhost(admin));
        open_conn(uri, 0);
        wait_for(&ups, i + 1);
        pgconn_close(conn);
        conn = NULL;
    }
}

/* "Too many clients" is a passing state. (PGCONN-6) */
static void a_pgconn_6(void **state)
{
    PGconn *full[100];
    unsigned count = 0;
    (void)state;
    while (count < ARRAY_LEN(full)) {
        full[count] = PQconnectdb(pg_test_uri("session", "saga_engine"));
        if (PQstatus(full[count++]) != CONNECTION_OK)
            break;
    }
    open_conn(pg_test_uri("session", "saga_engine"), 0);
    wait_for(&downs, 3);
    assert_string_equal(last.sqlstate, "53300");
    assert_int_equal(finals, 0);
    while (count)
        PQfinish(full[--count]);
    wait_for(&ups, 1);
}

/* A server that is read-only for a while (a standby, a switch-over) is passing too. */
static void read_only_is_passing(void **state)
{
    (void)state;
    pg_test_sql(admin, "alter role saga_engine set default_transaction_read_only = on");
    open_conn(pg_test_uri("session", "saga_engine"), 0);
    wait_for(&downs, 2);
    assert_int_equal(finals, 0);
    pg_test_sql(admin, "alter role saga_engine reset default_transaction_read_only");
    wait_for(&ups, 1);
}

static const char *const hostile[] = {
    "statement_timeout = '10ms'",
    "lock_timeout = '1ms'",
    "idle_in_transaction_session_timeout = '1ms'",
    "idle_session_timeout = '200ms'",
    "timezone = 'Asia/Kathmandu'",
    "datestyle = 'SQL, DMY'",
    "intervalstyle = 'sql_standard'",
    "search_path = 'evil'",
    "client_min_messages = 'error'",
    "client_encoding = 'LATIN1'",
    "synchronous_commit = 'off'",
    "bytea_output = 'escape'",
    "default_transaction_isolation = 'serializable'",
    "standard_conforming_strings = 'off'",
};

static void be_hostile(bool on)
{
    for (size_t i = 0; i < ARRAY_LEN(hostile); i++)
        pg_test_sql(admin, "alter role saga_engine %s %.*s", on ? "set" : "reset",
                    on ? (int)strlen(hostile[i]) : (int)strcspn(hostile[i], " "), hostile[i]);
}

/* Settings that the DBA made for the role do not decide how the engine works; only a weaker
 * synchronous_commit is raised. (PGLOCK-3) */
static void a_pglock_3(void **state)
{
    (void)state;
    be_hostile(true);
    open_conn(pg_test_uri("session", "saga_engine"), 0);
    wait_for(&ups, 1);
    be_hostile(false);
    assert_string_equal(query("select string_agg(current_setting(n), '|') from unnest(array["
                              "'statement_timeout', 'lock_timeout', 'idle_session_timeout', "
                              "'timezone', 'datestyle', 'search_path', 'client_min_messages', "
                              "'client_encoding', 'synchronous_commit', 'bytea_output', "
                              "'default_transaction_isolation']) n"),
                        "30s|5s|0|UTC|ISO, YMD|pg_catalog, pg_temp|warning|UTF8|on|hex|read "
                        "committed");
    for (int i = 0; i < 60; i++)
        loop_turn(loop, 10 * MS_US);
    assert_int_equal(downs, 0); /* the quiet session was not ended */
    pg_test_sql(admin, "alter role saga_engine set synchronous_commit = 'remote_apply'");
    pgconn_reset(conn, "again");
    wait_for(&ups, 2);
    assert_string_equal(query("show synchronous_commit"), "remote_apply");
    pg_test_sql(admin, "alter role saga_engine reset synchronous_commit");
}

/* Times are the same whatever zone the role, the database and the process have. (TIME-4) */
static void a_time_4(void **state)
{
    static struct rig rig;
    static struct rig_unit unit;
    (void)state;
    be_hostile(true);
    pg_test_sql(admin, "alter database session set timezone = 'America/St_Johns'");
    setenv("TZ", "Pacific/Chatham", 1);
    rig_open(&rig, &(struct rig_options){.database = "session", .daemon = "one"});
    rig_wait(&rig, &rig.owns, 1);
    store_pg_claim(rig.store, UINT64_MAX);
    while (rig.shards != UINT64_MAX)
        loop_turn(rig.loop, 10 * MS_US);
    rig_unit_init(&unit, &rig);
    rig_start(&unit, "run", "{}")->deadline_at.us = INT64_C(1790000009123456);
    struct record_effect *effect = rig_claim(&unit, "run", 0, DIRECTION_EXECUTE, 1);
    effect->state.state = STEP_WAITING;
    effect->state.next_at.us = INT64_C(1790000010000001);
    assert_int_equal(rig_write(&unit), UNIT_APPLIED);
    int64_t db_now = rig.answers[0].db_now.us, now = loop_wall(rig.loop).us;
    assert_true(db_now <= now && now - db_now < SECOND_US);
    rig.port.load_run(rig.port.arg, STR("run"));
    rig_wait(&rig, &rig.load_run_dones, 1);
    assert_int_equal(rig.loaded[0]->start.deadline_at.us, INT64_C(1790000009123456));
    assert_int_equal(rig.loaded[0]->instances[0].execute.next_at.us, INT64_C(1790000010000001));
    const char *json = rig_ask(&rig, "select saga.run_json_v1($1)", "run");
    assert_non_null(strstr(json, "\"deadline_at\" : \"2026-09-21T14:13:29.123456Z\""));
    assert_string_equal(pg_test_sql(admin, "select saga.time_text(next_at) from saga.effect"),
                        "2026-09-21T14:13:30.000001Z");
    be_hostile(false);
    unsetenv("TZ");
    assert_string_equal(pg_test_sql(admin, "select count(*) from pg_attribute a join pg_class c on "
                                           "c.oid = a.attrelid where c.relnamespace = "
                                           "'saga'::regnamespace and a.atttypid in "
                                           "('timestamp'::regtype, 'time'::regtype, "
                                           "'date'::regtype)"),
                        "0"); /* no time without a zone is stored anywhere */
    rig_close(&rig);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(answers_in_order), CASE(more_is_one_transaction),
        CASE(large_both_ways),  CASE(closed_in_a_callback),
        CASE(lost_and_back),    CASE(silence_is_noticed),
        CASE(final_or_passing), CASE(several_hosts),
        CASE(a_pgconn_6),       CASE(read_only_is_passing),
        CASE(a_pglock_3),       CASE(a_time_4),
    };
    pg_test_start();
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    pg_test_stop();
    return failed;
}
