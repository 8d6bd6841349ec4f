/*
 * test_tick.c: which tick of a schedule is started, after whatever downtime.
 */
#include "engine/base/cron.h"
#include "engine/tick.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

static struct arena arena;
static struct cron cron;

static struct wall at(const char *text)
{
    struct wall out;
    assert_true(wall_parse(str_z(text), &out));
    return out;
}

static void due_after(enum schedule_catch_up catch_up, const char *last, const char *busy_until,
                      const char *now, const char *wanted)
{
    struct plan_schedule schedule = {.cron = &cron,
                                     .zone = zone_utc(),
                                     .catch_up = catch_up,
                                     .overlap = busy_until ? OVERLAP_QUEUE : OVERLAP_SKIP};
    struct wall busy = busy_until ? at(busy_until) : at(now);
    struct wall tick = tick_due(&schedule, at(last), busy, at(now));
    assert_string_equal(wall_is_set(tick) ? wall_format(tick, &arena).ptr : "none", wanted);
}

/* Under `overlap: skip` it does not matter how long the run before was open. */
static void due_is(enum schedule_catch_up catch_up, const char *last, const char *now,
                   const char *wanted)
{
    due_after(catch_up, last, NULL, now, wanted);
}

static void cron_is(const char *text)
{
    size_t start, len;
    struct err err;
    assert_int_equal(cron_parse(str_z(text), &cron, &start, &len, &err), 0);
}

static void in_time(void **state)
{
    (void)state;
    cron_is("30 2 * * *");
    for (int i = CATCH_UP_NONE; i <= CATCH_UP_ALL; i++) {
        enum schedule_catch_up catch_up = (enum schedule_catch_up)i;
        due_is(catch_up, "2026-10-24T02:30:00Z", "2026-10-25T02:29:59Z", "none");
        due_is(catch_up, "2026-10-24T02:30:00Z", "2026-10-25T02:30:00Z", "2026-10-25T02:30:00Z");
        due_is(catch_up, "2026-10-24T02:30:00Z", "2026-10-25T02:30:59Z", "2026-10-25T02:30:00Z");
        due_is(catch_up, "2026-10-25T02:30:00Z", "2026-10-25T02:30:59Z", "none");
    }
}

static void after_a_downtime(void **state)
{
    (void)state;
    cron_is("30 2 * * *");
    due_is(CATCH_UP_NONE, "2026-10-20T02:30:00Z", "2026-10-25T12:00:00Z", "none");
    due_is(CATCH_UP_LAST, "2026-10-20T02:30:00Z", "2026-10-25T12:00:00Z", "2026-10-25T02:30:00Z");
    due_is(CATCH_UP_ALL, "2026-10-20T02:30:00Z", "2026-10-25T12:00:00Z", "2026-10-21T02:30:00Z");
    /* Missed ticks do not keep the one of this minute from being started. */
    due_is(CATCH_UP_NONE, "2026-10-20T02:30:00Z", "2026-10-25T02:30:10Z", "2026-10-25T02:30:00Z");
    /* What waited for the run before it was not missed. */
    due_after(CATCH_UP_NONE, "2026-10-20T02:30:00Z", "2026-10-21T02:30:00Z", "2026-10-25T12:00:00Z",
              "2026-10-21T02:30:00Z");
    due_after(CATCH_UP_LAST, "2026-10-20T02:30:00Z", "2026-10-25T12:00:00Z", "2026-10-25T12:00:00Z",
              "2026-10-21T02:30:00Z");
    due_after(CATCH_UP_NONE, "2026-10-20T02:30:00Z", "2026-10-21T02:29:59Z", "2026-10-25T12:00:00Z",
              "none");
    cron_is("0 0 1 1 *");
    due_is(CATCH_UP_LAST, "2001-06-01T00:00:00Z", "2026-10-25T12:00:00Z", "2026-01-01T00:00:00Z");
    cron_is("0 0 29 2 *");
    due_is(CATCH_UP_LAST, "2001-06-01T00:00:00Z", "2027-10-25T12:00:00Z", "2024-02-29T00:00:00Z");
}

/* A-TIME-3: a clock that is set back waits for the next tick, a clock set forward starts one. */
static void a_time_3(void **state)
{
    (void)state;
    cron_is("0 * * * *");
    due_is(CATCH_UP_LAST, "2026-10-25T12:00:00Z", "2026-10-25T04:00:30Z", "none");
    due_is(CATCH_UP_LAST, "2026-10-25T04:00:00Z", "2026-10-25T12:00:30Z", "2026-10-25T12:00:00Z");
}

static struct sha256 hash_of(const char *text)
{
    return sha256_of(str_z(text));
}

/* What a daemon remembers: one question at a time, and asking anew where an answer is missing, is
 * somebody else's, or belongs to another definition. */
static void memory(void **state)
{
    (void)state;
    cron_is("* * * * *");
    struct plan_schedule schedule = {
        .cron = &cron, .zone = zone_utc(), .overlap = OVERLAP_QUEUE, .catch_up = CATCH_UP_NONE};
    struct plan plan = {.schedule = &schedule, .hash = hash_of("one")};
    struct tick_state mine = {0};
    struct wall now = at("2026-10-25T12:00:10Z"), later = at("2026-10-25T12:02:30Z");
    assert_int_equal(tick_look(&mine, &plan, now), TICK_STEP_LEARN);
    assert_int_equal(tick_look(&mine, &plan, now), TICK_STEP_NONE);
    tick_learned(&mine, WALL_NONE, WALL_NONE); /* lost */
    assert_int_equal(tick_look(&mine, &plan, now), TICK_STEP_LEARN);
    tick_learned(&mine, at("2026-10-25T11:59:00Z"), WALL_NONE);
    assert_int_equal(tick_look(&mine, &plan, now), TICK_STEP_START);
    assert_true(mine.tick.us == at("2026-10-25T12:00:00Z").us);
    assert_int_equal(tick_look(&mine, &plan, later), TICK_STEP_NONE);
    tick_answered(&mine, TICK_ANSWER_STARTED);
    assert_int_equal(tick_look(&mine, &plan, now), TICK_STEP_NONE);

    /* Two ticks wait for the run of the first: both are started, the older one before. */
    assert_int_equal(tick_look(&mine, &plan, at("2026-10-25T12:01:00Z")), TICK_STEP_START);
    tick_answered(&mine, TICK_ANSWER_BUSY);
    assert_int_equal(tick_look(&mine, &plan, later), TICK_STEP_START);
    assert_true(mine.tick.us == at("2026-10-25T12:01:00Z").us);
    tick_answered(&mine, TICK_ANSWER_STARTED);
    assert_int_equal(tick_look(&mine, &plan, at("2026-10-25T12:05:00Z")), TICK_STEP_START);
    assert_true(mine.tick.us == at("2026-10-25T12:02:00Z").us);
    tick_answered(&mine, TICK_ANSWER_STARTED);

    /* The same for what came before a run that had waited was started. */
    tick_learned(&mine, at("2026-10-25T12:02:00Z"), at("2026-10-25T12:03:00Z"));
    assert_int_equal(tick_look(&mine, &plan, at("2026-10-25T12:05:50Z")), TICK_STEP_START);
    assert_true(mine.tick.us == at("2026-10-25T12:03:00Z").us);
    tick_answered(&mine, TICK_ANSWER_STARTED);
    assert_int_equal(tick_look(&mine, &plan, at("2026-10-25T12:05:51Z")), TICK_STEP_START);
    assert_true(mine.tick.us == at("2026-10-25T12:04:00Z").us);
    tick_answered(&mine, TICK_ANSWER_SKIPPED);

    assert_int_equal(tick_look(&mine, &plan, at("2026-10-25T12:06:00Z")), TICK_STEP_START);
    tick_answered(&mine, TICK_ANSWER_OTHER);
    assert_int_equal(tick_look(&mine, &plan, at("2026-10-25T12:06:00Z")), TICK_STEP_LEARN);
    tick_learned(&mine, at("2026-10-25T12:06:00Z"), WALL_NONE);
    plan.hash = hash_of("two");
    assert_int_equal(tick_look(&mine, &plan, at("2026-10-25T12:06:01Z")), TICK_STEP_LEARN);
    tick_learned(&mine, at("2026-10-25T12:06:01Z"), WALL_NONE);
    assert_int_equal(tick_look(&mine, &plan, at("2026-10-25T12:07:01Z")), TICK_STEP_START);
    tick_give_up(&mine);
    assert_int_equal(tick_look(&mine, &plan, at("2026-10-25T12:07:02Z")), TICK_STEP_NONE);
    assert_int_equal(tick_look(&mine, &plan, at("2026-10-25T12:08:02Z")), TICK_STEP_START);
    tick_answered(&mine, TICK_ANSWER_NONE);
    assert_int_equal(tick_look(&mine, &plan, at("2026-10-25T12:08:02Z")), TICK_STEP_LEARN);
}

static void words(void **state)
{
    (void)state;
    assert_int_equal(tick_answer_of(STR("started")), TICK_ANSWER_STARTED);
    assert_int_equal(tick_answer_of(STR("skipped")), TICK_ANSWER_SKIPPED);
    assert_int_equal(tick_answer_of(STR("busy")), TICK_ANSWER_BUSY);
    assert_int_equal(tick_answer_of(STR("other")), TICK_ANSWER_OTHER);
    assert_int_equal(tick_answer_of(STR("")), TICK_ANSWER_NONE);
}

static void run_ids(void **state)
{
    (void)state;
    assert_string_equal(tick_run_id(STR("night"), at("2026-10-25T02:30:00Z"), &arena).ptr,
                        "night-20261025T023000Z");
    assert_string_equal(tick_run_id(STR("a-b"), at("2026-10-25T02:30:00.5+02:00"), &arena).ptr,
                        "a-b-20261025T003000Z");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_time),  cmocka_unit_test(after_a_downtime),
        cmocka_unit_test(a_time_3), cmocka_unit_test(memory),
        cmocka_unit_test(words),    cmocka_unit_test(run_ids)};
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    arena_free(&arena);
    return failed;
}
