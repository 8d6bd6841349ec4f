/*
 * Units on the write lane: what apply_v1 answers, what it writes, and that it loads as it was.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/lib/rig.h"

#define ALL UINT64_MAX

static struct rig rig;

static int setup(void **state)
{
    (void)state;
    pg_test_create("unit", true);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(loads_what_was_written, setup, teardown),
    };
    pg_test_start();
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    pg_test_stop();
    return failed;
}
