/*
 * SQL actions in a database where the participant kit is installed: each is done once there, and a
 * lost COMMIT is found out instead of staying unknown.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "engine/guard.h"
#include "engine/invoke_sql.h"
#include "tests/lib/rig.h"

static struct rig rig;
static struct invoke_sql *sql;
static PGconn *admin;
static struct reply reply;
static unsigned replies_count;
static char url[512];

static void on_reply(void *arg, uint64_t id, const struct reply *it)
{
    (void)arg;
    (void)id;
    reply = *it;
    reply.error = arena_str(&rig.arena, it->error);
    reply.body = it->body.ptr ? arena_str(&rig.arena, it->body) : STR_NONE;
    replies_count++;
}

static void on_commit(void *arg, uint64_t id, const struct unit_answer *answer)
{
    (void)arg;
    (void)id;
    (void)answer;
}

static const char *url_of(void *arg, const char *service)
{
    (void)arg;
    (void)service;
    return url;
}

static int setup(void **state)
{
    struct buf script = {0};
    (void)state;
    pg_test_create("shop", true);
    admin = pg_test_connect("shop", NULL);
    PQclear(PQexec(admin, "set client_min_messages = error; set synchronous_commit = local"));
    guard_print(&script);
    PGresult *installed = PQexec(admin, script.data);
    assert_int_equal(PQresultStatus(installed), PGRES_COMMAND_OK);
    PQclear(installed);
    buf_free(&script);
    pg_test_sql(admin, "create table public.booked (id text, key text)");
    pg_test_sql(admin, "grant usage on schema public to saga_action");
    pg_test_sql(admin, "grant all on public.booked to saga_action");
    pg_test_sql(admin, "select saga_guard.allow('saga_action')");
    snprintf(url, sizeof(url), "postgres:///shop?host=%.200s&user=saga_action", PQhost(admin));
    replies_count = 0;
    rig_open(&rig, &(struct rig_options){.database = "shop", .daemon = "one", .action_lanes = 1});
    rig_wait(&rig, &rig.owns, 1);
    struct invoke_sql_options options = {.loop = rig.loop,
                                         .store = rig.store,
                                         .daemon = "one",
                                         .url = url_of,
                                         .reply = on_reply,
                                         .commit_answer = on_commit};
    sql = invoke_sql_new(&options);
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

struct send {
    const char *key, *compensates; /* compensates: it is an undo; key "": it is a read */
    unsigned char hash;
    const char *statement;
    enum effect_tier effect;
    int64_t timeout_us; /* 0: 2 s */
    bool needs_guard;   /* the workflow declares it */
};

static const char insert[] = "insert into public.booked values ('a', current_setting('saga.key')) "
                             "returning id, 10.10 as amount, clock_timestamp() as at";

static void start(const struct send *send)
{
    static const struct plan_service ledger = {.name = "ledger", .url = "http://x"};
    struct plan_action action = {.kind = ACTION_SQL,
                                 .effect = send->effect,
                                 .sql = {.statement = send->statement ? send->statement : insert}};
    if (send->needs_guard)
        action.idempotency.place = KEY_PLACE_GUARD;
    struct request request = {.action = &action, .service = &ledger, .hash = {{send->hash}}};
    struct invocation invocation = {
        .id = replies_count + 1,
        .request = &request,
        .run_id = STR("run"),
        .step = STR("charge"),
        .key = *send->key ? str_z(send->key) : STR_NONE,
        .compensates = send->compensates ? str_z(send->compensates) : STR_NONE,
        .direction = send->compensates ? DIRECTION_COMPENSATE : DIRECTION_EXECUTE,
        .attempt = 1,
        .timeout_us = send->timeout_us ? send->timeout_us : 2 * SECOND_US,
        .deadline_at = {INT64_C(1790000000000000)}};
    const struct port_invoke *port = invoke_sql_port(sql);
    port->start(port->arg, &invocation);
}

/* Sends and waits; returns the SQLSTATE, "" for success. */
static const char *play(struct send send)
{
    unsigned before = replies_count;
    start(&send);
    rig_wait(&rig, &replies_count, before + 1);
    if (reply.kind != REPLY_SQL)
        fail_msg("%s: " STR_FMT, reply_kind_name(reply.kind), STR_ARG(reply.error));
    return reply.commit_lost ? "unknown" : reply.sqlstate;
}

static void assert_booked(const char *count)
{
    assert_string_equal(pg_test_sql(admin, "select count(*) from public.booked"), count);
}

static void a_repeat_replays(void **state)
{
    (void)state;
    assert_string_equal(play((struct send){.key = "k:execute"}), "");
    struct str first = reply.body;
    assert_non_null(strstr(first.ptr, "\"amount\": 10.10"));
    for (int i = 0; i < 3; i++) {
        assert_string_equal(play((struct send){.key = "k:execute"}), "");
        assert_true(str_eq(reply.body, first)); /* also the time: byte by byte */
    }
    assert_booked("1");
    assert_string_equal(play((struct send){.key = "k:execute", .hash = 1}), GUARD_STATE_CONFLICT);
    assert_booked("1");
}

/* A statement that fails leaves its key free; so does one that is ended by its time. */
static void a_failure_keeps_nothing(void **state)
{
    (void)state;
    assert_string_equal(play((struct send){.key = "k", .statement = "select 1/0"}), "22012");
    assert_string_equal(play((struct send){.key = "k",
                                           .statement = "select pg_sleep(5)",
                                           .timeout_us = 100 * MS_US}),
                        "57014");
    assert_string_equal(play((struct send){.key = "k", .statement = "commit"}), "55000");
    assert_string_equal(play((struct send){.key = "k"}), "");
    assert_booked("1");
}

static void undo_comes_first(void **state)
{
    struct send undo = {.key = "k:compensate", .compensates = "k:execute"};
    (void)state;
    assert_string_equal(play(undo), "");
    assert_string_equal(reply.body.ptr, "{\"rows\": [], \"count\": 0}");
    assert_string_equal(play(undo), "");
    assert_string_equal(play((struct send){.key = "k:execute"}), GUARD_STATE_REFUSED);
    assert_booked("0");
}

static void undo_is_done_once(void **state)
{
    struct send undo = {.key = "k:compensate",
                        .compensates = "k:execute",
                        .statement = "delete from public.booked where key = "
                                     "current_setting('saga.compensates')"};
    (void)state;
    play((struct send){.key = "k:execute"});
    assert_string_equal(play(undo), "");
    assert_string_equal(reply.body.ptr, "{\"rows\": [], \"count\": 1}");
    assert_booked("0");
    assert_string_equal(play(undo), "");
    assert_string_equal(reply.body.ptr, "{\"rows\": [], \"count\": 1}");
    assert_string_equal(play((struct send){.key = "k:execute"}), GUARD_STATE_REFUSED);
    assert_booked("0");
}

static void answers_are_not_kept_for_ever(void **state)
{
    (void)state;
    pg_test_sql(admin, "select saga_guard.promise_ttl('1 ms')");
    play((struct send){.key = "old"});
    pg_test_sql(admin, "select pg_sleep(0.01)");
    pg_test_sql(admin, "select saga_guard.forget()");
    assert_string_equal(play((struct send){.key = "old"}), "");
    assert_true(reply.body_dropped);
    const char *much = "select repeat('x', 1200000) as x from public.insert_it()";
    pg_test_sql(admin, "create function public.insert_it() returns text language sql as "
                       "$$insert into public.booked values ('b', 'b') returning id$$");
    pg_test_sql(admin, "grant execute on function public.insert_it() to saga_action");
    for (int i = 0; i < 2; i++) {
        assert_string_equal(play((struct send){.key = "large", .statement = much}), "");
        assert_true(reply.body_dropped);
    }
    assert_booked("2");
}

/* Reads and pure actions leave nothing behind, and always look anew. */
static void reads_are_not_guarded(void **state)
{
    const char *statement = "select clock_timestamp() as at";
    (void)state;
    play((struct send){.key = "", .statement = statement});
    assert_string_equal(play((struct send){.key = ""}), ""); /* inserts, and is rolled back */
    assert_booked("0");
    play((struct send){.key = "p", .statement = statement, .effect = EFFECT_PURE});
    struct str first = reply.body;
    play((struct send){.key = "p", .statement = statement, .effect = EFFECT_PURE});
    assert_false(str_eq(first, reply.body));
    assert_string_equal(pg_test_sql(admin, "select count(*) from saga_guard.effect"), "0");
}

/* The same key in two sessions at once: the second waits, then has what the first has done. */
static void at_once_it_is_done_once(void **state)
{
    struct send send = {.key = "k",
                        .statement = "insert into public.booked select 'a', 'k' from pg_sleep(0.2) "
                                     "returning id, clock_timestamp() as at"};
    (void)state;
    for (int i = 0; i < 3; i++)
        start(&send);
    rig_wait(&rig, &replies_count, 3);
    assert_string_equal(reply.sqlstate, "");
    assert_booked("1");
}

static void end_session(void)
{
    pg_test_sql(admin, "select pg_terminate_backend(pid) from pg_stat_activity"
                       " where usename = 'saga_action'");
}

/* The COMMIT was done and its answer lost: the guard has the answer. */
static void a_lost_answer_is_found(void **state)
{
    (void)state;
    play((struct send){.key = "before"});
    unsigned before = replies_count;
    pg_test_sql(admin, "alter system set synchronous_standby_names = 'nobody'");
    pg_test_sql(admin, "select pg_reload_conf()");
    rig_turn_for(&rig, SECOND_US / 2); /* until the server's processes have seen it */
    start(&(struct send){.key = "k"});
    while (replies_count == before &&
           strcmp(pg_test_sql(admin, "select count(*) from pg_stat_activity where wait_event = "
                                     "'SyncRep' and usename = 'saga_action'"),
                  "1") != 0)
        loop_turn(rig.loop, 10 * MS_US);
    assert_int_equal(replies_count, before);
    end_session(); /* what it has committed stays committed */
    pg_test_sql(admin, "alter system reset synchronous_standby_names");
    pg_test_sql(admin, "select pg_reload_conf()");
    rig_wait(&rig, &replies_count, before + 1);
    assert_string_equal(reply.sqlstate, "");
    assert_false(reply.commit_lost);
    assert_non_null(strstr(reply.body.ptr, "\"amount\": 10.10"));
    assert_booked("2");
    assert_int_equal(invoke_sql_busy(sql), 0);
    assert_string_equal(play((struct send){.key = "k"}), "");
    assert_booked("2");
}

/* The COMMIT was lost before it was done: certainly not applied, so it may be sent again. */
static void a_lost_commit_is_found(void **state)
{
    (void)state;
    pg_test_sql(admin, "create function public.die() returns trigger language plpgsql security "
                       "definer as $$ begin "
                       "perform pg_terminate_backend(pg_backend_pid()); return null; end $$");
    pg_test_sql(admin, "create constraint trigger d after insert on public.booked deferrable "
                       "initially deferred for each row execute function public.die()");
    assert_string_equal(play((struct send){.key = "k"}), "08006");
    assert_booked("0");
    pg_test_sql(admin, "drop trigger d on public.booked");
    assert_string_equal(play((struct send){.key = "k"}), "");
    assert_booked("1");
}

/* When the guard cannot be asked either, the outcome is unknown, after a bounded time. */
static void what_cannot_be_asked_is_unknown(void **state)
{
    (void)state;
    pg_test_sql(admin, "create function public.die() returns trigger language plpgsql security "
                       "definer as $$ begin "
                       "perform pg_terminate_backend(pg_backend_pid()); return null; end $$");
    pg_test_sql(admin, "create constraint trigger d after insert on public.booked deferrable "
                       "initially deferred for each row execute function public.die()");
    play((struct send){.key = "before", .statement = "select 1 as one"});
    pg_test_sql(admin, "alter role saga_action nologin");
    unsigned before = replies_count;
    start(&(struct send){.key = "k"});
    rig_turn_for(&rig, SECOND_US);
    assert_int_equal(replies_count, before); /* it is still being asked */
    invoke_sql_drain(sql, true);
    rig_wait(&rig, &replies_count, before + 1);
    assert_true(reply.commit_lost);
    assert_int_equal(invoke_sql_busy(sql), 0);
    pg_test_sql(admin, "alter role saga_action login");
}

/* Whoever may not use it is where it was without one. */
static void not_allowed_is_not_installed(void **state)
{
    (void)state;
    pg_test_sql(admin, "revoke usage on schema saga_guard from saga_action");
    for (int i = 0; i < 2; i++)
        assert_string_equal(play((struct send){.key = "k"}), "");
    assert_booked("2");
    assert_string_equal(pg_test_sql(admin, "select count(*) from saga_guard.effect"), "0");
}

/* What counts on the guard is not sent without it, and goes out once it is there. */
static void declared_is_needed(void **state)
{
    struct send send = {.key = "k", .needs_guard = true};
    (void)state;
    pg_test_sql(admin, "revoke usage on schema saga_guard from saga_action");
    for (unsigned i = 0; i < 3; i++) {
        start(&send);
        rig_wait(&rig, &replies_count, i + 1);
        assert_int_equal(reply.kind, REPLY_NOT_CONNECTED);
        rig_turn_for(&rig, 100 * MS_US);
    }
    assert_booked("0");
    pg_test_sql(admin, "select saga_guard.allow('saga_action')");
    rig_turn_for(&rig, SECOND_US);
    start(&send);
    rig_wait(&rig, &replies_count, 4);
    if (reply.kind == REPLY_NOT_CONNECTED) /* by a connection from before; it has looked again */
        play(send);
    assert_string_equal(reply.sqlstate, "");
    assert_booked("1");
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_repeat_replays),
        CASE(a_failure_keeps_nothing),
        CASE(undo_comes_first),
        CASE(undo_is_done_once),
        CASE(answers_are_not_kept_for_ever),
        CASE(reads_are_not_guarded),
        CASE(at_once_it_is_done_once),
        CASE(a_lost_answer_is_found),
        CASE(a_lost_commit_is_found),
        CASE(what_cannot_be_asked_is_unknown),
        CASE(not_allowed_is_not_installed),
        CASE(declared_is_needed),
    };
    pg_test_start();
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    pg_test_stop();
    return failed;
}
