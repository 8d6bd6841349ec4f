/*
 * SQL actions: exactly once in the engine's database, a plain transaction elsewhere.
 */
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/invoke_sql.h"
#include "tests/lib/rig.h"

static struct rig rig;
static struct invoke_sql *sql;
static const struct port_invoke *port;
static PGconn *admin;

static struct reply replies[64];
static uint64_t reply_ids[64];
static unsigned replies_count;
static struct unit_answer commits[64];
static unsigned commits_count;
static const char *foreign_url;
static struct egress_range egress_ranges[1];
static struct egress egress = {egress_ranges, 0};

static void on_reply(void *arg, uint64_t id, const struct reply *reply)
{
    (void)arg;
    assert_true(replies_count < ARRAY_LEN(replies));
    reply_ids[replies_count] = id;
    replies[replies_count] = *reply;
    replies[replies_count].error = arena_str(&rig.arena, reply->error);
    replies[replies_count].body = arena_str(&rig.arena, reply->body);
    replies_count++;
}

static void on_commit(void *arg, uint64_t id, const struct unit_answer *answer)
{
    (void)arg;
    (void)id;
    assert_true(commits_count < ARRAY_LEN(commits));
    commits[commits_count++] = *answer;
}

static const char *url_of(void *arg, const char *service)
{
    (void)arg;
    return !strcmp(service, "ledger") ? foreign_url : NULL;
}

static int setup(void **state)
{
    (void)state;
    pg_test_create("sqlact", true);
    admin = pg_test_connect("sqlact", NULL);
    PQclear(PQexec(admin, "set client_min_messages = error"));
    pg_test_sql(admin, "create table public.booked (id text primary key, key text, n numeric)");
    pg_test_sql(admin, "grant select, insert, update, delete on public.booked to saga_action");
    pg_test_sql(admin, "grant usage on schema public to saga_action");
    replies_count = commits_count = 0;
    foreign_url = NULL;
    rig_open(&rig, &(struct rig_options){.database = "sqlact", .daemon = "one", .action_lanes = 2});
    rig_wait(&rig, &rig.owns, 1);
    store_pg_claim(rig.store, UINT64_MAX);
    while (rig.shards != UINT64_MAX)
        loop_turn(rig.loop, 10 * MS_US);
    struct invoke_sql_options options = {.loop = rig.loop,
                                         .store = rig.store,
                                         .uri = pg_test_uri("sqlact", "saga_action"),
                                         .daemon = "one",
                                         .lanes = 2,
                                         .url = url_of,
                                         .egress = &egress,
                                         .reply = on_reply,
                                         .commit_answer = on_commit};
    sql = invoke_sql_new(&options);
    port = invoke_sql_port(sql);
    static struct rig_unit unit;
    rig_unit_init(&unit, &rig);
    rig_start(&unit, "run", "{}");
    assert_int_equal(rig_write(&unit), UNIT_APPLIED);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    invoke_sql_free(sql);
    PQfinish(admin);
    rig_close(&rig);
    return 0;
}

/* Starts a statement and waits for its reply. `elsewhere`: at the service "ledger". */
static const struct reply *invoke(uint64_t id, bool elsewhere, const char *statement,
                                  const char *const *args, unsigned count)
{
    static const struct plan_service ledger = {.name = "ledger", .url = "http://x"};
    struct str list[20];
    struct plan_action action = {.kind = ACTION_SQL, .sql = {.statement = statement}};
    for (unsigned i = 0; i < count; i++)
        list[i] = str_z(args[i]);
    struct request request = {.action = &action,
                              .service = elsewhere ? &ledger : NULL,
                              .args = list,
                              .args_count = (uint16_t)count};
    struct invocation invocation = {.id = id,
                                    .request = &request,
                                    .run_id = STR("run"),
                                    .step = STR("charge"),
                                    .key = STR("it's:charge:execute"),
                                    .direction = DIRECTION_EXECUTE,
                                    .attempt = 3,
                                    .timeout_us = 2 * SECOND_US,
                                    .deadline_at = {INT64_C(1790000000000000)}};
    unsigned before = replies_count;
    port->start(port->arg, &invocation);
    assert_int_equal(replies_count, before); /* law 1 */
    rig_wait(&rig, &replies_count, before + 1);
    assert_int_equal(reply_ids[before], id);
    return &replies[before];
}

static void *record(uint16_t step)
{
    static struct rig_unit unit;
    rig_unit_init(&unit, &rig);
    struct record_effect *effect = rig_claim(&unit, "run", step, DIRECTION_EXECUTE, step + 1u);
    effect->state.state = STEP_APPLIED;
    effect->state.outcome = OUTCOME_APPLIED;
    return rig.port.encode(rig.port.arg, &unit.unit);
}

static enum unit_verdict commit(uint64_t id, void *encoded)
{
    unsigned before = commits_count;
    rig.port.commit(rig.port.arg, id, encoded);
    assert_int_equal(commits_count, before);
    rig_wait(&rig, &commits_count, before + 1);
    return commits[before].verdict;
}

static const char *counts(void)
{
    return pg_test_sql(admin, "select (select count(*) from public.booked) || ' ' || (select "
                              "count(*) from saga.effect)");
}

static const char insert[] = "insert into public.booked values ($1, current_setting('saga.key'), "
                             "$2) returning id, n, key, n > 1 as big, null as nothing, "
                             "'{\"b\": 1.0,\"a\":2}'::json as raw, 'NaN'::float8 as nan";

/* The action's rows and its record are there together, or neither; the result is exact JSON. */
static void commits_with_its_record(void **state)
{
    static const char *const args[] = {"O'Brien'; drop table booked;--", "19.90"};
    (void)state;
    const struct reply *reply = invoke(1, false, insert, args, 2);
    assert_int_equal(reply->kind, REPLY_SQL_OPEN);
    assert_string_equal(reply->body.ptr,
                        "{\"rows\": [{\"id\": \"O'Brien'; drop table booked;--\", \"n\": 19.90, "
                        "\"key\": \"it's:charge:execute\", \"big\": true, \"nothing\": null, "
                        "\"raw\": {\"b\": 1.0,\"a\":2}, \"nan\": \"NaN\"}], \"count\": 1}");
    assert_string_equal(counts(), "0 0"); /* nothing before the commit */
    assert_int_equal(commit(1, record(0)), UNIT_APPLIED);
    assert_true(wall_is_set(commits[0].db_now));
    assert_string_equal(counts(), "1 1");
    assert_int_equal(invoke_sql_busy(sql), 0);
}

/* A dropped open action leaves nothing, and its connection serves the next one. */
static void dropped_is_rolled_back(void **state)
{
    static const char *const args[] = {"a", "1"};
    (void)state;
    for (uint64_t id = 1; id < 6; id++) {
        assert_int_equal(invoke(id, false, insert, args, 2)->kind, REPLY_SQL_OPEN);
        port->drop(port->arg, id);
    }
    assert_int_equal(invoke(9, false, insert, args, 2)->kind, REPLY_SQL_OPEN);
    assert_int_equal(commit(9, record(0)), UNIT_APPLIED);
    assert_string_equal(counts(), "1 1");
}

/* An action whose record is refused does not commit either. */
static void refused_record_takes_the_action_along(void **state)
{
    static const char *const args[] = {"a", "1"}, *const more[] = {"b", "1"};
    (void)state;
    invoke(1, false, insert, args, 2);
    void *twice = record(0);
    assert_int_equal(commit(1, record(0)), UNIT_APPLIED);
    invoke(2, false, insert, more, 2);
    assert_int_equal(commit(2, twice), UNIT_REJECTED); /* that effect exists */
    assert_string_equal(counts(), "1 1");
    invoke(3, false, insert, more, 2);
    assert_int_equal(commit(3, record(1)), UNIT_APPLIED); /* the number was free */
    assert_string_equal(counts(), "2 2");
}

/* A commit that fails at COMMIT itself (a deferred constraint) is rejected with its reason. */
static void failed_commit_is_rejected(void **state)
{
    (void)state;
    pg_test_sql(admin, "alter table public.booked add constraint once unique (n) deferrable "
                       "initially deferred");
    static const char *const args[] = {"a", "7"}, *const more[] = {"b", "7"};
    invoke(1, false, insert, args, 2);
    assert_int_equal(commit(1, record(0)), UNIT_APPLIED);
    invoke(2, false, insert, more, 2);
    assert_int_equal(commit(2, record(1)), UNIT_REJECTED);
    assert_string_equal(commits[1].err.sqlstate, "23505");
    assert_string_equal(counts(), "1 1");
}

/* Errors carry their SQLSTATE; what runs too long is ended; the transaction is gone. */
static void errors_and_timeouts(void **state)
{
    (void)state;
    static const char *const args[] = {"a", "x"};
    const struct reply *reply = invoke(1, false, insert, args, 2);
    assert_int_equal(reply->kind, REPLY_SQL);
    assert_string_equal(reply->sqlstate, "22P02");
    reply = invoke(2, false, "select pg_sleep(10)", NULL, 0);
    assert_string_equal(reply->sqlstate, "57014");
    assert_true(reply->timed_out);
    reply = invoke(3, false, "select 1 as a, 2 as a", NULL, 0);
    assert_string_equal(reply->sqlstate, "0A000");
    reply = invoke(4, false, "select * from saga.run", NULL, 0);
    assert_string_equal(reply->sqlstate, "42501"); /* the engine's tables are not its own */
    reply = invoke(5, false, "insert into public.booked values ('x', '', 1); select 1", NULL, 0);
    assert_string_equal(reply->sqlstate, "42601"); /* one statement */
    assert_int_equal(invoke(6, false, "select 1 as a", NULL, 0)->kind, REPLY_SQL_OPEN);
    assert_string_equal(counts(), "0 0");
}

/* A statement may not end the transaction or change the session for those that follow. */
static void session_is_not_the_statements(void **state)
{
    static const char *const bad[] = {
        "commit",      "rollback", "set search_path = evil", "listen x",
        "discard all", "begin",    "prepare p as select 1"};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        const struct reply *reply = invoke(i + 1, false, bad[i], NULL, 0);
        assert_int_equal(reply->kind, REPLY_SQL);
        assert_true(reply->sqlstate[0] != '\0');
    }
    const struct reply *reply =
        invoke(20, false, "select current_setting('search_path') as p", NULL, 0);
    assert_string_equal(reply->body.ptr, "{\"rows\": [{\"p\": \"\\\"$user\\\", public\"}], "
                                         "\"count\": 1}");
}

/* The statement does not know the token, so it cannot write records. */
static void statements_cannot_forge_records(void **state)
{
    (void)state;
    const struct reply *reply =
        invoke(1, false,
               "select saga.apply_or_raise_v1('guess', 'one/sql1', 1, 1, 0, 0, null, null, null, "
               "null, null, null, null)",
               NULL, 0);
    assert_string_equal(reply->sqlstate, "SAG01");
    assert_string_equal(pg_test_sqlstate(admin, "set session authorization saga_action"), "");
    assert_string_equal(pg_test_sqlstate(admin, "select nonce from saga.lane"), "42501");
    assert_string_equal(pg_test_sqlstate(admin, "select saga.lanes_v1()"), "42501");
    assert_string_equal(pg_test_sqlstate(admin, "reset session authorization"), "");
}

static void kill_action_sessions(void)
{
    pg_test_sql(admin, "select pg_terminate_backend(pid) from pg_stat_activity where "
                       "application_name like 'sagad one sql%%'");
}

/* A session lost while the action was open: rolled back for certain. */
static void lost_while_open(void **state)
{
    static const char *const args[] = {"a", "1"};
    (void)state;
    invoke(1, false, insert, args, 2);
    kill_action_sessions();
    assert_int_equal(commit(1, record(0)), UNIT_REJECTED);
    assert_string_equal(counts(), "0 0");
    invoke(2, false, insert, args, 2);
    assert_int_equal(commit(2, record(0)), UNIT_APPLIED);
}

/* A COMMIT whose answer is lost is resolved, never repeated: the answer says what is there. */
static void lost_commit_is_resolved(void **state)
{
    unsigned applied = 0, rejected = 0;
    (void)state;
    for (int round = 0; round < 12; round++) {
        char id[16], run_id[16];
        const char *args[] = {id, "1"};
        static struct rig_unit unit;
        unsigned before = commits_count;
        snprintf(id, sizeof(id), "r%d", round);
        snprintf(run_id, sizeof(run_id), "run-%d", round);
        rig_unit_init(&unit, &rig);
        rig_start(&unit, run_id, "{}");
        rig_claim(&unit, run_id, 0, DIRECTION_EXECUTE, 1);
        void *encoded = rig.port.encode(rig.port.arg, &unit.unit);
        /* The other connection may not have noticed yet that it was ended in the last round. */
        while (invoke((uint64_t)round + 1, false, insert, args, 2)->kind != REPLY_SQL_OPEN) {
        }
        rig.port.commit(rig.port.arg, (uint64_t)round + 1, encoded);
        if (round % 3 == 0)
            rig_turn_for(&rig, 0);
        if (round % 3 == 2) /* the server has done it; we have not looked */
            while (!strcmp(pg_test_sql(admin, "select count(*) from booked where id = '%s'", id),
                           "0")) {
            }
        kill_action_sessions();
        rig_wait(&rig, &commits_count, before + 1);
        bool there =
            !strcmp(pg_test_sql(admin, "select count(*) from booked where id = '%s'", id), "1");
        bool recorded = !strcmp(
            pg_test_sql(admin, "select count(*) from saga.effect where run_id = '%s'", run_id),
            "1");
        assert_int_equal(there, recorded);
        assert_int_equal(commits[before].verdict, there ? UNIT_APPLIED : UNIT_REJECTED);
        applied += there;
        rejected += !there;
    }
    assert_true(applied > 0);
    printf("applied %u, rejected %u\n", applied, rejected);
}

/* When the lanes are fenced an open action cannot commit. */
static void fenced_action_does_not_commit(void **state)
{
    static const char *const args[] = {"a", "1"};
    (void)state;
    invoke(1, false, insert, args, 2);
    pg_test_sql(admin, "update saga.lane set epoch = epoch + 1 where kind = 'action'");
    assert_int_equal(commit(1, record(0)), UNIT_FENCED);
    assert_string_equal(counts(), "0 0");
}

/* A database at an address that is not allowed gets a connection and not one byte on it. */
static void elsewhere_is_judged(void **state)
{
    static const char *const hosts[] = {"127.0.0.1", "localhost"};
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof(to);
    char url[128];
    (void)state;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&to, sizeof(to)), 0);
    assert_int_equal(listen(listener, 8), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&to, &size), 0);
    assert_null(egress_range_parse(STR("127.0.0.0/8"), &egress_ranges[0]));
    egress_ranges[0].deny = true;
    egress.count = 1;
    for (unsigned i = 0; i < ARRAY_LEN(hosts); i++) {
        snprintf(url, sizeof(url), "postgres://%s:%u/x?user=me&password=hush", hosts[i],
                 ntohs(to.sin_port));
        foreign_url = url;
        const struct reply *reply = invoke(i + 1, true, insert, NULL, 0);
        assert_int_equal(reply->kind, REPLY_NOT_CONNECTED);
        if (!strstr(reply->error.ptr, "the address 127.0.0.1 of"))
            fail_msg("%s", reply->error.ptr);
        int peer = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        char byte;
        assert_int_equal(recv(peer, &byte, 1, 0), 0);
        close(peer);
    }
    egress.count = 0; /* said by the URL itself, loopback is allowed: its first words come */
    foreign_url = url;
    static const struct plan_service ledger = {.name = "ledger", .url = "http://x"};
    struct plan_action action = {.kind = ACTION_SQL, .sql = {.statement = insert}};
    struct request request = {.action = &action, .service = &ledger};
    struct invocation invocation = {.id = 9,
                                    .request = &request,
                                    .run_id = STR("run"),
                                    .step = STR("charge"),
                                    .key = STR("k"),
                                    .direction = DIRECTION_EXECUTE,
                                    .attempt = 1,
                                    .timeout_us = 2 * SECOND_US};
    unsigned before = replies_count;
    port->start(port->arg, &invocation);
    for (int i = 0; i < 20; i++)
        loop_turn(rig.loop, 10 * MS_US);
    int peer = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    char byte;
    assert_int_equal(recv(peer, &byte, 1, 0), 1);
    close(peer);
    close(listener);
    rig_wait(&rig, &replies_count, before + 1);
    assert_int_equal(replies[before].kind, REPLY_NOT_CONNECTED);
}

/* On another database: a plain transaction, with the key as a setting. */
static void elsewhere(void **state)
{
    static const char *const args[] = {"a", "2.50"};
    char url[512];
    (void)state;
    const char *folder = PQhost(admin);
    snprintf(url, sizeof(url), "postgres:///sqlact?host=%.200s&user=postgres", folder);
    foreign_url = url;
    const struct reply *reply = invoke(1, true, insert, args, 2);
    assert_int_equal(reply->kind, REPLY_SQL);
    assert_string_equal(reply->sqlstate, "");
    assert_non_null(strstr(reply->body.ptr, "\"n\": 2.50"));
    assert_string_equal(counts(), "1 0");
    reply = invoke(2, true, insert, args, 2);
    assert_string_equal(reply->sqlstate, "23505");
    pg_test_sql(admin, "alter table public.booked add constraint once unique (n) deferrable "
                       "initially deferred");
    static const char *const more[] = {"b", "2.50"};
    reply = invoke(3, true, insert, more, 2);
    assert_string_equal(reply->sqlstate, "23505"); /* at COMMIT: certainly not applied */
    assert_false(reply->commit_lost);
    assert_string_equal(counts(), "1 0");
    foreign_url = "postgres:///sqlact?host=/nowhere";
    reply = invoke(4, true, insert, args, 2);
    assert_int_equal(reply->kind, REPLY_NOT_CONNECTED);
    foreign_url = NULL;
    reply = invoke(5, true, insert, args, 2); /* the plan's URL is http */
    assert_int_equal(reply->kind, REPLY_CANNOT_SEND);
}

/* Elsewhere, a connection lost in COMMIT leaves the outcome unknown, before it not. */
static void lost_elsewhere(void **state)
{
    static const char *const args[] = {"a", "1"};
    char url[512];
    (void)state;
    const char *folder = PQhost(admin);
    snprintf(url, sizeof(url), "postgres:///sqlact?host=%.200s&user=postgres", folder);
    foreign_url = url;
    pg_test_sql(admin, "create function public.die() returns trigger language plpgsql as $$ begin "
                       "perform pg_terminate_backend(pg_backend_pid()); return null; end $$");
    const struct reply *reply =
        invoke(1, true, "select pg_terminate_backend(pg_backend_pid())", NULL, 0);
    assert_int_equal(reply->kind, REPLY_SQL);
    assert_false(reply->commit_lost);
    assert_true(reply->sqlstate[0] != '\0');
    pg_test_sql(admin, "create constraint trigger d after insert on public.booked deferrable "
                       "initially deferred for each row execute function public.die()");
    reply = invoke(2, true, insert, args, 2);
    assert_true(reply->commit_lost);
}

/* A drain answers what waits with not_sent and lets what is open commit. */
static void drains(void **state)
{
    static const char *const args[] = {"a", "1"};
    (void)state;
    invoke(1, false, insert, args, 2);
    invoke_sql_drain(sql, false);
    assert_int_equal(invoke(2, false, insert, args, 2)->kind, REPLY_NOT_SENT);
    assert_int_equal(commit(1, record(0)), UNIT_APPLIED);
    assert_string_equal(counts(), "1 1");
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(commits_with_its_record),
        CASE(dropped_is_rolled_back),
        CASE(refused_record_takes_the_action_along),
        CASE(failed_commit_is_rejected),
        CASE(errors_and_timeouts),
        CASE(session_is_not_the_statements),
        CASE(statements_cannot_forge_records),
        CASE(lost_while_open),
        CASE(lost_commit_is_resolved),
        CASE(fenced_action_does_not_commit),
        CASE(elsewhere_is_judged),
        CASE(elsewhere),
        CASE(lost_elsewhere),
        CASE(drains),
    };
    pg_test_start();
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    pg_test_stop();
    return failed;
}
