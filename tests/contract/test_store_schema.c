/*
 * The schema itself: migrations, roles, what is granted, pinned names, plans.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "engine/migrate.h"
#include "sql/bundle.h"
#include "tests/lib/rig.h"

#include <sys/wait.h>
#include <unistd.h>

static PGconn *admin, *super;

static int setup(void **state)
{
    (void)state;
    pg_test_create("bare", false);
    pg_test_create("whole", true);
    super = pg_test_connect("whole", NULL);
    admin = pg_test_connect("bare", NULL);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    PQfinish(super);
    PQfinish(admin);
    return 0;
}

static const char catalog[] =
    "select md5(string_agg(x, '|' order by x)) from (select pg_get_functiondef(oid) || "
    "coalesce(proacl::text, '') as x from pg_proc where pronamespace = 'saga'::regnamespace and "
    "prokind = 'f' union all select relname || coalesce(relacl::text, '') || relkind::text from "
    "pg_class "
    "where relnamespace = 'saga'::regnamespace union all select pg_get_viewdef(oid) from pg_class "
    "where relnamespace = 'saga'::regnamespace and relkind = 'v') y";

/* Migrating twice changes nothing the second time, and says so. */
static void idempotent(void **state)
{
    struct migrate_report report;
    struct err err;
    char before[64];
    (void)state;
    assert_int_equal(migrate_check(pg_test_uri("bare", NULL), &report, &err), 0);
    assert_false(report.up_to_date);
    assert_int_equal(report.schema_version, 0);
    assert_int_equal(migrate_run(pg_test_uri("bare", NULL), &report, &err), 0);
    assert_false(report.up_to_date);
    snprintf(before, sizeof(before), "%s", pg_test_sql(admin, catalog));
    for (int i = 0; i < 2; i++) {
        assert_int_equal(migrate_run(pg_test_uri("bare", NULL), &report, &err), 0);
        assert_true(report.up_to_date);
        assert_int_equal(report.schema_version, migrate_version());
    }
    /* Functions that somebody spoiled come back when the installed ones are not known. */
    pg_test_sql(admin, "grant execute on all functions in schema saga to public");
    pg_test_sql(admin, "update saga.meta set api_hash = ''");
    assert_int_equal(migrate_run(pg_test_uri("bare", NULL), &report, &err), 0);
    assert_string_equal(pg_test_sql(admin, catalog), before);
    assert_int_equal(migrate_check(pg_test_uri("bare", "saga_engine"), &report, &err), 0);
    assert_true(report.up_to_date);
    /* A function that takes more than it did is not left beside the new one. */
    const struct sql_file *file = sql_migrations;
    while (file->name && strncmp(file->name, "0007", 4) != 0)
        file++;
    pg_test_sql(admin, "create function saga.start(workflow text, input jsonb, run_id text default "
                       "null, tenant text default null) returns text language sql return 'old'");
    pg_test_sql(admin, "alter function saga.start(text, jsonb, text, text) owner to saga_admin");
    assert_string_equal(pg_test_sqlstate(admin, "select saga.start('w', '{}')"), "42725");
    pg_test_sql(admin, "%s", file->text);
    assert_string_equal(pg_test_sql(admin, catalog), before);
}

/* The printed script makes the same schema. */
static void printed_script_is_the_same(void **state)
{
    struct buf script = {0};
    struct migrate_report report;
    struct err err;
    char want[64];
    (void)state;
    snprintf(want, sizeof(want), "%s", pg_test_sql(super, catalog));
    migrate_print(&script);
    PGresult *result = PQexec(admin, script.data);
    assert_int_equal(PQresultStatus(result), PGRES_COMMAND_OK);
    PQclear(result);
    assert_string_equal(pg_test_sql(admin, catalog), want);
    assert_int_equal(migrate_run(pg_test_uri("bare", NULL), &report, &err), 0);
    assert_true(report.up_to_date);
    buf_free(&script);
}

/* Seven processes migrate an empty database in the same moment: one does, none fails. (PGSEC-4) */
static void a_pgsec_4(void **state)
{
    (void)state;
    for (int round = 0; round < 5; round++) {
        pid_t pids[7];
        int gate[2];
        PQfinish(admin);
        pg_test_create("bare", false);
        admin = pg_test_connect("bare", NULL);
        const char *uri = pg_test_uri("bare", NULL);
        assert_int_equal(pipe(gate), 0);
        for (size_t i = 0; i < ARRAY_LEN(pids); i++) {
            pids[i] = fork();
            if (pids[i] == 0) {
                struct migrate_report report;
                struct err err = {0};
                char byte;
                close(gate[1]);
                if (read(gate[0], &byte, 1) != 0) /* all go when the pipe closes */
                    _exit(2);
                int code = migrate_run(uri, &report, &err);
                if (code)
                    fprintf(stderr, "%s\n", err.text);
                _exit(code ? 1 : report.up_to_date ? 0 : 42);
            }
        }
        close(gate[0]);
        close(gate[1]);
        int migrated = 0, failed = 0;
        for (size_t i = 0; i < ARRAY_LEN(pids); i++) {
            int status;
            waitpid(pids[i], &status, 0);
            migrated += WEXITSTATUS(status) == 42;
            failed += WEXITSTATUS(status) != 42 && WEXITSTATUS(status) != 0;
        }
        assert_int_equal(failed, 0);
        assert_int_equal(migrated, 1);
        char expected[16];
        snprintf(expected, sizeof(expected), "1 %d", migrate_version());
        assert_string_equal(pg_test_sql(admin, "select count(*) || ' ' || max(schema_version) from "
                                               "saga.meta"),
                            expected);
    }
}

/* A database that is not UTF-8 is refused by name and with the fix, and nothing is written. */
static void a_text_3(void **state)
{
    static const char *const encodings[] = {"SQL_ASCII", "LATIN1"};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(encodings); i++) {
        struct migrate_report report;
        struct err err;
        pg_test_sql(super, "drop database if exists odd with (force)");
        pg_test_sql(super, "create database odd template template0 encoding '%s' locale 'C'",
                    encodings[i]);
        assert_int_equal(migrate_run(pg_test_uri("odd", NULL), &report, &err), ERR_INVALID);
        assert_non_null(strstr(err.text, encodings[i]));
        assert_non_null(strstr(err.text, "createdb -T template0 -E UTF8"));
        PGconn *odd = pg_test_connect("odd", NULL);
        assert_string_equal(pg_test_sql(odd, "select count(*) from pg_namespace where nspname = "
                                             "'saga'"),
                            "0");
        PQfinish(odd);
    }
}

/* Every column of a unique index that is text compares by bytes. (TEXT-4) */
static void a_text_4(void **state)
{
    (void)state;
    assert_string_equal(
        pg_test_sql(super, "select coalesce(string_agg(i.indexrelid::regclass || '.' || a.attname, "
                           "', '), '') from pg_index i join pg_class c on c.oid = i.indrelid join "
                           "pg_attribute a on a.attrelid = i.indexrelid where c.relnamespace = "
                           "'saga'::regnamespace and a.attcollation not in (0, 'pg_catalog.\"C\"'"
                           "::regcollation)"),
        "");
    /* Names that a locale would order or fold otherwise are different keys. */
    pg_test_sql(super, "insert into saga.lane (lane, daemon, kind, ttl, nonce) select x, x, "
                       "'write', '1s', '' from unnest(array['1-1', '11', 'a b', 'A-b', 'a-b']) x");
    assert_string_equal(pg_test_sql(super, "select string_agg(lane, ',' order by lane) from "
                                           "saga.lane"),
                        "1-1,11,A-b,a b,a-b");
}

/* A schema that asks for newer daemons, or that is somebody else's, is refused. */
static void foreign_or_newer_schema(void **state)
{
    struct migrate_report report;
    struct err err;
    (void)state;
    pg_test_sql(super, "update saga.meta set min_version = 99, schema_version = 99");
    assert_int_equal(migrate_run(pg_test_uri("whole", NULL), &report, &err), ERR_CONFLICT);
    assert_int_equal(migrate_check(pg_test_uri("whole", "saga_engine"), &report, &err),
                     ERR_CONFLICT);
    assert_non_null(strstr(err.text, "install a newer sagad"));
    pg_test_sql(super, "update saga.meta set min_version = 1");
    assert_int_equal(migrate_check(pg_test_uri("whole", "saga_engine"), &report, &err), 0);
    assert_true(report.up_to_date);
    pg_test_sql(admin, "create schema saga");
    assert_int_equal(migrate_run(pg_test_uri("bare", NULL), &report, &err), ERR_CONFLICT);
    assert_non_null(strstr(err.text, "not this engine's"));
}

/* A migration sets its own limits; those of the role do not end it. */
static void migrates_under_hostile_settings(void **state)
{
    struct migrate_report report;
    struct err err;
    (void)state;
    pg_test_sql(super, "alter database bare set statement_timeout = '200ms'");
    pg_test_sql(super, "alter database bare set default_transaction_read_only = on");
    pg_test_sql(super, "alter database bare set search_path = 'evil'");
    pg_test_sql(super, "alter database bare set check_function_bodies = on");
    int code = migrate_run(pg_test_uri("bare", NULL), &report, &err);
    if (code)
        fail_msg("%s", err.text);
}

/* The runtime role needs no right to create anything: an owner who is no superuser migrates, the
 * engine works, a reader reads the views and nothing else. (PGSEC-1) */
static void a_pgsec_1(void **state)
{
    static struct rig rig;
    static struct rig_unit unit;
    struct migrate_report report;
    struct err err = {0};
    (void)state;
    pg_test_sql(super, "revoke all on database bare from public");
    pg_test_sql(super, "grant connect on database bare to saga_engine, saga_reader");
    pg_test_sql(super, "do $$ begin create role dba login createrole; exception when "
                       "duplicate_object then null; end $$");
    pg_test_sql(super, "grant saga_admin to dba");
    pg_test_sql(super, "alter database bare owner to dba");
    PGconn *dba = pg_test_connect("bare", NULL);
    pg_test_sql(dba, "set session authorization dba");
    struct buf script = {0};
    migrate_print(&script); /* peer authentication knows no dba: the script is what it would run */
    PGresult *result = PQexec(dba, script.data);
    if (PQresultStatus(result) != PGRES_COMMAND_OK)
        fail_msg("%s", PQerrorMessage(dba));
    PQclear(result);
    PQfinish(dba);
    buf_free(&script);
    assert_int_equal(migrate_check(pg_test_uri("bare", "saga_engine"), &report, &err), 0);
    assert_true(report.up_to_date);

    rig_open(&rig, &(struct rig_options){.database = "bare", .daemon = "one"});
    rig_wait(&rig, &rig.owns, 1);
    store_pg_claim(rig.store, UINT64_MAX);
    while (rig.shards != UINT64_MAX)
        loop_turn(rig.loop, 10 * MS_US);
    rig_unit_init(&unit, &rig);
    rig_start(&unit, "run", "{}");
    assert_int_equal(rig_write(&unit), UNIT_APPLIED);
    PGconn *engine = pg_test_connect("bare", "saga_engine");
    assert_string_equal(pg_test_sqlstate(engine, "create table saga.x (i int)"), "42501");
    assert_string_equal(pg_test_sqlstate(engine, "create table public.x (i int)"), "42501");
    assert_string_equal(pg_test_sqlstate(engine, "delete from saga.run"), "42501");
    PQfinish(engine);
    rig_close(&rig);

    PGconn *reader = pg_test_connect("bare", NULL);
    pg_test_sql(reader, "set session authorization saga_reader");
    assert_string_equal(pg_test_sql(reader, "select run_id from saga.runs"), "run");
    static const char *const forbidden[] = {
        "select * from saga.run",
        "select * from saga.lane",
        "select * from saga.waiting_v1",
        "select saga.start('x', '{}')",
        "select saga.cancel('run', 'why')",
        "select saga.lane_renew_v1('{}', '{}')",
        "select saga.inbox_put_v1('a', 'b', 'c', null, '{}', 'd')",
        "select saga.raise_pickups_v1(-1)",
        "update saga.workflow set current = false",
    };
    for (size_t i = 0; i < ARRAY_LEN(forbidden); i++)
        if (strcmp(pg_test_sqlstate(reader, "%s", forbidden[i]), "42501") != 0)
            fail_msg("%s is not forbidden", forbidden[i]);
    PQfinish(reader);
}

/* Nothing in the schema is granted to PUBLIC, not even by default. */
static void nothing_to_public(void **state)
{
    (void)state;
    assert_string_equal(
        pg_test_sql(
            super, "select coalesce(string_agg(x.what, ', '), '') from (select oid::regclass::text "
                   "as what, relacl as acl, 'r'::\"char\" as kind, relowner as owner from pg_class "
                   "where relnamespace = 'saga'::regnamespace and relkind in ('r', 'v', 'S') union "
                   "all select oid::regprocedure::text, proacl, 'f', proowner from pg_proc where "
                   "pronamespace = 'saga'::regnamespace union all select nspname::text, nspacl, "
                   "'n', nspowner from pg_namespace where nspname = 'saga' union all select "
                   "oid::regtype::text, typacl, 'T', typowner from pg_type t where typnamespace = "
                   "'saga'::regnamespace and typtype in ('c', 'e', 'd') and not exists (select "
                   "from pg_class c where c.oid = t.typrelid and c.relkind <> 'c')) x, "
                   "aclexplode(coalesce(x.acl, acldefault(x.kind, x.owner))) a where a.grantee = "
                   "0"),
        "");
}

/* Every function that runs with its owner's rights has its names pinned, and no object of a
 * caller is ever used in place of ours. (PGSEC-2) */
static void a_pgsec_2(void **state)
{
    (void)state;
    assert_string_equal(
        pg_test_sql(super, "select coalesce(string_agg(p.oid::regprocedure::text, ', '), '') from "
                           "pg_proc p where p.pronamespace = 'saga'::regnamespace and prosecdef "
                           "and not coalesce('search_path=pg_catalog, saga, pg_temp' = any "
                           "(p.proconfig), false)"),
        "");
    pg_test_sql(super, "create schema evil");
    pg_test_sql(super, "grant all on schema evil to saga_operator, saga_engine");
    pg_test_sql(super, "grant temp on database whole to saga_operator, saga_engine");
    PGconn *low = pg_test_connect("whole", NULL);
    pg_test_sql(low, "set session authorization saga_operator");
    pg_test_sql(low, "create function evil.clock_timestamp() returns timestamptz language plpgsql "
                     "as $$ begin raise 'shadowed'; end $$");
    pg_test_sql(low, "create function evil.shard_of(text) returns smallint language plpgsql as $$ "
                     "begin raise 'shadowed'; end $$");
    pg_test_sql(low, "create function evil.lies(text, text) returns boolean language plpgsql as "
                     "$$ begin raise 'shadowed'; end $$");
    pg_test_sql(low, "create operator evil.= (leftarg = text, rightarg = text, function = "
                     "evil.lies)");
    pg_test_sql(low, "set search_path = evil, pg_temp, pg_catalog");
    static const char *const tables[] = {"run",   "run_key", "workflow", "inbox", "lane",
                                         "shard", "effect",  "meta",     "runs",  "steps"};
    for (size_t i = 0; i < ARRAY_LEN(tables); i++)
        pg_test_sql(low, "create temp table %s (x int)", tables[i]);
    pg_test_sql(super, "select saga.workflow_apply_v1(sha256('x'), 'w', 'x', false, '', 's', '[]', "
                       "null, 'me')");
    assert_string_equal(pg_test_sql(low, "select saga.start('w', '{}', 'r')"), "r");
    static const char *const calls[] = {"select saga.cancel('r', 'y')",
                                        "select saga.run_json_v1('r')",
                                        "select saga.events_json_v1('r', 0)",
                                        "select saga.dead_json_v1()",
                                        "select saga.daemons_json_v1()",
                                        "select saga.workflows_json_v1()",
                                        "select saga.workflow_json_v1('w')",
                                        "select saga.run_find_v1('r')",
                                        "select saga.requests_json_v1('r')",
                                        "select saga.runs_json_v1(null, null, null, 1, null)",
                                        "table saga.runs",
                                        "table saga.steps",
                                        "table saga.timeline",
                                        "table saga.dead_letters",
                                        "table saga.why_waiting",
                                        "table saga.keys",
                                        "table saga.daemons",
                                        "select saga.audit_json_v1(null, 9, null)",
                                        "select saga.audit_verify_json_v1(null)",
                                        "select * from saga.audit_verify()",
                                        "table saga.audit",
                                        "table saga.tenants",
                                        "table saga.requests"};
    for (size_t i = 0; i < ARRAY_LEN(calls); i++)
        if (*pg_test_sqlstate(low, "%s", calls[i]))
            fail_msg("%s: %s", calls[i], PQerrorMessage(low));
    PQfinish(low);
    assert_string_equal(pg_test_sql(super, "select count(*) from saga.requests"), "2");
}

/* What readers reach belongs to a role that owns no table, and every table that has a run_id has a
 * policy for it: tenants stay apart in views and functions that are added later, too. */
static void readers_meet_policies(void **state)
{
    (void)state;
    assert_string_equal(
        pg_test_sql(super, "select coalesce(string_agg(c.relname, ', '), '') from pg_class c where "
                           "c.relnamespace = 'saga'::regnamespace and c.relowner = "
                           "'saga_views'::regrole and c.relkind <> 'v'"),
        "");
    assert_string_equal(
        pg_test_sql(
            super, "select coalesce(string_agg(distinct v.relname || ' reads ' || t.relname, ', "
                   "'), '') from pg_class v join pg_rewrite w on w.ev_class = v.oid join "
                   "pg_depend d on d.classid = 'pg_rewrite'::regclass and d.objid = w.oid and "
                   "d.refclassid = 'pg_class'::regclass join pg_class t on t.oid = d.refobjid and "
                   "t.oid <> v.oid where v.relkind = 'v' and v.relnamespace = "
                   "'saga'::regnamespace and has_table_privilege('saga_reader', v.oid, 'select') "
                   "and (v.relowner <> 'saga_views'::regrole or (t.relkind = 'v' and t.relowner <> "
                   "'saga_views'::regrole and t.relnamespace = 'saga'::regnamespace))"),
        "");
    assert_string_equal(
        pg_test_sql(super, "select coalesce(string_agg(p.oid::regprocedure::text, ', '), '') from "
                           "pg_proc p where p.pronamespace = 'saga'::regnamespace and p.prosecdef "
                           "and has_function_privilege('saga_reader', p.oid, 'execute') and "
                           "p.proowner <> 'saga_views'::regrole"),
        "saga.tenants_seen()");
    assert_string_equal(
        pg_test_sql(super, "select coalesce(string_agg(c.relname, ', '), '') from pg_class c join "
                           "pg_attribute a on a.attrelid = c.oid and a.attname = 'run_id' where "
                           "c.relnamespace = 'saga'::regnamespace and c.relkind in ('r', 'p') and "
                           "(not c.relrowsecurity or not exists (select from pg_policy p where "
                           "p.polrelid = c.oid and p.polcmd = 'r'))"),
        "");
    assert_string_equal(
        pg_test_sql(super, "select string_agg(r.rolname, ', ') from pg_auth_members m join "
                           "pg_roles r on r.oid = m.member where m.roleid = "
                           "'saga_views'::regrole"),
        "saga_admin");
    assert_string_equal(
        pg_test_sql(super, "select has_schema_privilege('saga_views', 'saga', 'create')"), "f");
}

/* --- plans --- */

static struct buf plans;

static void collect(void *arg, const char *message)
{
    (void)arg;
    buf_add_z(&plans, message);
}

/* On empty, never analysed tables every statement of a unit finds its rows by their full primary
 * keys, and so it does when the tables have grown under the same plan. */
static void units_go_by_full_keys(void **state)
{
    (void)state;
    PGconn *conn = pg_test_connect("whole", NULL);
    pg_test_sql(conn, "insert into saga.lane (lane, daemon, kind, ttl, nonce) values ('p', 'p', "
                      "'write', '1h', '')");
    pg_test_sql(conn, "update saga.shard set lane_no = (select lane_no from saga.lane)");
    pg_test_sql(conn, "load 'auto_explain'");
    pg_test_sql(conn,
                "set auto_explain.log_min_duration = 0; set auto_explain.log_nested_statements "
                "= on; set client_min_messages = log");
    pg_test_sql(conn, "set enable_seqscan = off; set enable_hashjoin = off; set enable_mergejoin = "
                      "off; set plan_cache_mode = force_generic_plan"); /* as the store does */
    PQsetNoticeProcessor(conn, collect, NULL);
    pg_test_sql(conn, "begin");
    pg_test_sql(
        conn,
        "select * from saga.apply_v2('p', 1, 1, 0, 1, "
        "array[(0, 'r', '\\x00', '\\x00', 'w', '', 'a', now(), null, '{}', 'running', 'execute', "
        "0, "
        "null, null, false, null, null, null, null, null, '', 0::smallint, 'l')::saga.start_v2], "
        "array[(0, 'r', 'running', 'execute', 0, null, null, false, null, null, null, "
        "null, null)::saga.run_v2], "
        "array[(0, 'r', 's', '', 'execute', 1, 0, 'claimed', 1, 1, 0, 0, 0, false, false, false, "
        "null, null, now(), null, null, null, null, null, null, null, null, null, 0, null, "
        "null, null, null, null, null)::saga.effect_v2], "
        "array[(0, 'r', 's', '', 'execute', 1, 0, 'applied', 1, 1, 0, 0, 0, false, false, false, "
        "'applied', null, now(), null, null, null, null, null, null, null, null, null, 0, null, "
        "null, null, null, null, null)::saga.effect_v2], "
        "null, null, null, null, null, null, null, null, 0, '')");
    pg_test_sqlstate(conn, "rollback");
    PQsetNoticeProcessor(conn, NULL, NULL);
    PQfinish(conn);
    assert_non_null(plans.data);
    static const char *const tables[] = {"run", "run_key", "effect", "inbox"};
    for (size_t i = 0; i < ARRAY_LEN(tables); i++) {
        char text[64];
        snprintf(text, sizeof(text), "Seq Scan on %s ", tables[i]);
        if (strstr(plans.data, text))
            fail_msg("%s\n%s", text, plans.data);
    }
    assert_null(strstr(plans.data, "Hash Join"));
    assert_non_null(strstr(plans.data,
                           "Index Cond: ((shard = u.shard) AND (run_id = (u.run_id)::text) AND "
                           "(step_id = (u.step_id)::text) AND (item = (u.item)::text) AND "
                           "(direction = u.side) AND (generation = u.generation))"));
    const char *update = strstr(plans.data, "Update on run r");
    assert_non_null(update);
    assert_non_null(strstr(update, "Index Scan using run_pkey on run r"));
    buf_free(&plans);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(idempotent),
        CASE(printed_script_is_the_same),
        CASE(a_pgsec_4),
        CASE(a_text_3),
        CASE(a_text_4),
        CASE(foreign_or_newer_schema),
        CASE(migrates_under_hostile_settings),
        CASE(a_pgsec_1),
        CASE(nothing_to_public),
        CASE(a_pgsec_2),
        CASE(readers_meet_policies),
        CASE(units_go_by_full_keys),
    };
    pg_test_start();
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    pg_test_stop();
    return failed;
}
