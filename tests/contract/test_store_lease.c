/*
 * Leases: who may write, who takes over from whom, and when.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/lib/rig.h"

#include <unistd.h>

#define TTL_US (800 * MS_US)

static struct rig a, b;
static PGconn *admin;
static char lock_a[64], lock_b[64];

static int setup(void **state)
{
    (void)state;
    pg_test_create("lease", true);
    admin = pg_test_connect("lease", NULL);
    snprintf(lock_a, sizeof(lock_a), "/tmp/saga-lease-%d-a", (int)getpid());
    snprintf(lock_b, sizeof(lock_b), "/tmp/saga-lease-%d-b", (int)getpid());
    unlink(lock_a);
    unlink(lock_b);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    unlink(lock_a);
    unlink(lock_b);
    PQfinish(admin);
    return 0;
}

static void open_rig(struct rig *rig, const char *daemon, const char *lock)
{
    rig_open(rig, &(struct rig_options){.database = "lease",
                                        .daemon = daemon,
                                        .lock_file = lock,
                                        .ttl_us = TTL_US,
                                        .action_lanes = 2});
}

static void claim_all(struct rig *rig)
{
    rig_wait(rig, &rig->owns, 1);
    store_pg_claim(rig->store, UINT64_MAX);
    while (rig->shards != UINT64_MAX)
        loop_turn(rig->loop, 10 * MS_US);
}

/* Runs both loops until the condition holds; fails after 20 seconds. */
#define BOTH_UNTIL(condition)                                                         \
    do {                                                                              \
        int64_t limit = loop_mono().us + 20 * SECOND_US;                              \
        while (!(condition)) {                                                        \
            loop_turn(a.loop, 5 * MS_US);                                             \
            loop_turn(b.loop, 5 * MS_US);                                             \
            if (loop_mono().us > limit)                                               \
                fail_msg("waited in vain for %s; %s; %s", #condition, a.problem.text, \
                         b.problem.text);                                             \
        }                                                                             \
    } while (0)

static void write_claimed(struct rig *rig, const char *run_id)
{
    static struct rig_unit unit;
    rig_unit_init(&unit, rig);
    rig_start(&unit, run_id, "{}");
    rig_claim(&unit, run_id, 0, DIRECTION_EXECUTE, 1);
    assert_int_equal(rig_write(&unit), UNIT_APPLIED);
}

static const char *pickups(void)
{
    return pg_test_sql(admin, "select coalesce(max(pickups), -1) from saga.effect");
}

static void released(void *arg)
{
    *(bool *)arg = true;
}

/* A daemon that was killed and started again has its lanes and shards back at once: the lock file
 * proves that its predecessor is dead. The predecessor's attempts count as picked up. */
static void restart_needs_no_ttl(void **state)
{
    (void)state;
    open_rig(&a, "a", lock_a);
    claim_all(&a);
    write_claimed(&a, "run");
    uint64_t epoch = a.epoch;
    rig_close(&a);
    int64_t before = loop_mono().us;
    open_rig(&a, "a", lock_a);
    rig_wait(&a, &a.owns, 1);
    assert_true(loop_mono().us - before < TTL_US);
    assert_true(a.epoch > epoch);
    assert_int_equal(a.seq, 1); /* never reset */
    assert_true(a.shards == UINT64_MAX);
    assert_string_equal(pickups(), "1");
    rig_close(&a);
}

/* Without the proof (no file, or a nonce of another boot) it waits until nothing has moved for
 * longer than the ttl. */
static void without_proof_it_waits(void **state)
{
    (void)state;
    open_rig(&a, "a", lock_a);
    claim_all(&a);
    rig_close(&a);
    for (int i = 0; i < 2; i++) {
        if (i) {
            FILE *file = fopen(lock_a, "r+");
            assert_non_null(file);
            fputs("deadbeef", file); /* another boot */
            fclose(file);
        }
        int64_t before = loop_mono().us;
        open_rig(&a, "a", i ? lock_a : NULL);
        rig_wait(&a, &a.owns, 1);
        assert_true(loop_mono().us - before > TTL_US);
        assert_true(a.shards == UINT64_MAX);
        rig_close(&a);
        if (i == 0) {
            open_rig(&a, "a", NULL);
            rig_wait(&a, &a.owns, 1);
            rig_close(&a);
        }
    }
}

/* Two processes with one name and one lock file: the second is refused by name. */
static void one_name_one_process(void **state)
{
    struct err err;
    (void)state;
    open_rig(&a, "a", lock_a);
    rig_wait(&a, &a.owns, 1);
    rig_open(&b, &(struct rig_options){
                     .database = "lease", .daemon = "a", .lock_file = lock_a, .no_lease = true});
    /* The rig's store was opened with the same lock file. */
    assert_int_equal(store_pg_lease(b.store, &err), ERR_CONFLICT);
    assert_non_null(strstr(err.text, "another sagad named \"a\""));
    rig_close(&b);
    rig_close(&a);
}

/* A drained daemon's shards are free at once, and its attempts do not count as picked up. */
static void clean_release_frees_at_once(void **state)
{
    bool done = false;
    (void)state;
    open_rig(&a, "a", lock_a);
    claim_all(&a);
    write_claimed(&a, "run");
    store_pg_release(a.store, released, &done);
    while (!done)
        loop_turn(a.loop, 10 * MS_US);
    rig_close(&a);
    int64_t before = loop_mono().us;
    open_rig(&b, "b", lock_b);
    claim_all(&b);
    assert_true(loop_mono().us - before < TTL_US);
    assert_string_equal(pickups(), "0");
    assert_string_equal(pg_test_sql(admin, "select string_agg(daemon || alive || left_cleanly || "
                                           "shards, ' ' order by daemon) from saga.daemons"),
                        "afalsetrue0 btruefalse64");
    rig_close(&b);
}

/* A daemon that died is taken over after its ttl, not before; what it had sent counts as picked
 * up, and when it wakes up it can write nothing. */
static void dead_owner_is_taken_over(void **state)
{
    static struct rig_unit late;
    (void)state;
    open_rig(&a, "a", lock_a);
    claim_all(&a);
    write_claimed(&a, "run");
    open_rig(&b, "b", lock_b);
    rig_wait(&b, &b.owns, 1);
    assert_int_equal(b.shards, 0);
    int64_t frozen = loop_mono().us; /* from here a's loop does not turn */
    while (b.shards != UINT64_MAX) {
        loop_turn(b.loop, 20 * MS_US);
        assert_true(loop_mono().us - frozen < 10 * TTL_US);
    }
    assert_true(loop_mono().us - frozen > TTL_US);
    assert_string_equal(pickups(), "1");

    rig_unit_init(&late, &a); /* thawed: its deadline is over before it looks */
    rig_start(&late, "late", "{}");
    void *encoded = rig_send(&late, a.epoch, a.seq + 1);
    BOTH_UNTIL(a.losts > 0 && a.answers_count > 1);
    assert_int_equal(a.answers[1].verdict, UNIT_FENCED);
    a.port.encoded_free(a.port.arg, encoded);
    assert_string_equal(pg_test_sql(admin, "select count(*) from saga.run"), "1");
    BOTH_UNTIL(a.owns > 1); /* it comes back, without shards */
    assert_int_equal(a.shards, 0);
    write_claimed(&b, "next");
    rig_close(&a);
    rig_close(&b);
}

/* A frozen owner with a half-delivered pipeline holds the row of its lane: its session is ended. */
static void half_delivered_pipeline_is_ended(void **state)
{
    (void)state;
    open_rig(&a, "a", lock_a);
    claim_all(&a);
    write_claimed(&a, "run");
    uint64_t epoch = a.epoch;
    rig_close(&a);
    PGconn *frozen = pg_test_connect("lease", "saga_engine");
    pg_test_sql(frozen, "set application_name = 'sagad a write'");
    pg_test_sql(frozen, "begin");
    assert_string_equal(
        pg_test_sql(frozen,
                    "select verdict from saga.apply_v2('a', %llu, 2, 0, 0, null, "
                    "null, null, null, null, null, null, null, null, null, null, null, 0, '')",
                    (unsigned long long)epoch),
        "applied");
    open_rig(&b, "b", lock_b);
    rig_wait(&b, &b.owns, 1);
    while (b.shards != UINT64_MAX)
        loop_turn(b.loop, 20 * MS_US);
    PQclear(PQexec(frozen, "commit"));
    assert_int_equal(PQstatus(frozen), CONNECTION_BAD);
    assert_string_equal(pg_test_sql(admin, "select seq from saga.lane where lane = 'a'"), "1");
    PQfinish(frozen);
    rig_close(&b);
}

/* The take-over is a compare and set: an owner that moved in between keeps everything. */
static void moved_owner_keeps_its_shards(void **state)
{
    (void)state;
    open_rig(&a, "a", lock_a);
    claim_all(&a);
    open_rig(&b, "b", lock_b);
    rig_wait(&b, &b.owns, 1);
    char seen[128];
    snprintf(seen, sizeof(seen), "%s",
             pg_test_sql(admin,
                         "select quote_literal(array_agg(lane)) || ',' || "
                         "quote_literal(array_agg(epoch)) || ',' || "
                         "quote_literal(array_agg(beat)) from saga.lane where daemon = 'a'"));
    write_claimed(&a, "run"); /* a beat */
    assert_string_equal(pg_test_sql(admin,
                                    "select coalesce(saga.lane_take_over_v1('b', %llu, 'a', "
                                    "%s), -1)",
                                    (unsigned long long)b.epoch, seen),
                        "-1");
    assert_string_equal(pg_test_sql(admin, "select count(*) from saga.shard s join saga.lane l "
                                           "using (lane_no) where l.lane = 'a'"),
                        "64");
    rig_close(&a);
    rig_close(&b);
}

/* Idle daemons stay alive: nothing is taken from them for many ttls. */
static void idle_daemons_stay_alive(void **state)
{
    (void)state;
    open_rig(&a, "a", lock_a);
    claim_all(&a);
    open_rig(&b, "b", lock_b);
    int64_t start = loop_mono().us;
    BOTH_UNTIL(loop_mono().us - start > 5 * TTL_US);
    assert_int_equal(a.losts, 0);
    assert_int_equal(b.losts, 0);
    assert_true(a.shards == UINT64_MAX);
    assert_int_equal(b.shards, 0);
    assert_int_equal(b.daemons_count, 2);
    assert_true(store_pg_deadline(a.store).us > loop_mono().us);
    rig_close(&a);
    rig_close(&b);
}

/* Shards that the owner hands over in its own unit arrive at the other daemon. */
static void handed_over_shards_arrive(void **state)
{
    static struct rig_unit unit;
    (void)state;
    open_rig(&a, "a", lock_a);
    claim_all(&a);
    write_claimed(&a, "run");
    open_rig(&b, "b", lock_b);
    BOTH_UNTIL(b.owns == 1);
    uint64_t half = UINT64_C(0xffffffff);
    rig_unit_init(&unit, &a);
    unit.unit.release_shards = half;
    unit.unit.release_to = STR("b");
    a.shards &= ~half; /* what the runner does */
    assert_int_equal(rig_write(&unit), UNIT_APPLIED);
    BOTH_UNTIL(b.shards == half);
    int64_t start = loop_mono().us;
    BOTH_UNTIL(loop_mono().us - start > 2 * TTL_US);
    assert_true(a.shards == ~half); /* and are not taken for ours again */
    assert_string_equal(pickups(), "0");
    rig_close(&a);
    rig_close(&b);
}

/* Whoever cannot reach the database gives up its runs before others may take them, and has them
 * again when it is back. That is no crash: nothing counts as picked up. */
static void cut_off_owner_lets_go(void **state)
{
    (void)state;
    open_rig(&a, "a", lock_a);
    claim_all(&a);
    write_claimed(&a, "run");
    PGconn *other = pg_test_connect("postgres", NULL);
    pg_test_sql(other, "alter database lease with allow_connections false");
    pg_test_sql(other, "select pg_terminate_backend(pid) from pg_stat_activity where usename = "
                       "'saga_engine'");
    int64_t cut = loop_mono().us;
    rig_wait(&a, &a.downs, 1);
    rig_wait(&a, &a.losts, 1);
    assert_true(loop_mono().us - cut < TTL_US);
    assert_int_equal(store_pg_deadline(a.store).us, 0);
    rig_turn_for(&a, 300 * MS_US);
    assert_int_equal(a.owns, 1);
    pg_test_sql(other, "alter database lease with allow_connections true");
    PQfinish(other);
    rig_wait(&a, &a.owns, 2);
    assert_true(a.shards == UINT64_MAX);
    assert_string_equal(pickups(), "0");
    rig_close(&a);
}

/* A run that kills its owners is loaded apart from the others after the second, parked after the
 * fifth, and not loaded again by itself. */
static void crash_loop_is_parked(void **state)
{
    (void)state;
    open_rig(&a, "a", lock_a);
    claim_all(&a);
    write_claimed(&a, "poison");
    for (int i = 1; i <= 6; i++) {
        rig_close(&a);
        open_rig(&a, "a", lock_a);
        rig_wait(&a, &a.owns, 1);
        a.port.load(a.port.arg, UINT64_MAX);
        rig_wait(&a, &a.load_dones, 1);
        if (i > 1) /* set apart: it follows what was loaded at once, if at all */
            assert_int_equal(a.loaded_count, 0);
        if (i <= 5) {
            rig_wait(&a, &a.loaded_count, 1);
            assert_int_equal(a.loaded[0]->instances[0].execute.pickups, i);
        } else {
            while (strcmp(pg_test_sql(admin, "select state from saga.runs"), "parked") != 0)
                rig_turn_for(&a, 10000);
            assert_int_equal(a.loaded_count, 0);
        }
    }
    a.port.load_run(a.port.arg, STR("poison")); /* a person may still look at it */
    rig_wait(&a, &a.load_run_dones, 1);
    assert_int_equal(a.loaded_count, 1);
    assert_int_equal(a.loaded[0]->now.state, RUN_PARKED);
    assert_int_equal(a.loaded[0]->now.reason, PARK_CRASH_LOOP);
    assert_string_equal(pg_test_sql(admin, "select reason || ' ' || array_to_string(next_verbs, "
                                           "' ') from saga.dead_letters"),
                        "crash_loop retry compensate abandon");
    rig_close(&a);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(restart_needs_no_ttl),         CASE(without_proof_it_waits),
        CASE(one_name_one_process),         CASE(clean_release_frees_at_once),
        CASE(dead_owner_is_taken_over),     CASE(half_delivered_pipeline_is_ended),
        CASE(moved_owner_keeps_its_shards), CASE(idle_daemons_stay_alive),
        CASE(handed_over_shards_arrive),    CASE(cut_off_owner_lets_go),
        CASE(crash_loop_is_parked),
    };
    pg_test_start();
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    pg_test_stop();
    return failed;
}
