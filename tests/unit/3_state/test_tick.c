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

static void due_is(enum schedule_catch_up catch_up, bool queued, const char *last, const char *now,
                   const char *wanted)
{
    struct plan_schedule schedule = {.cron = &cron, .zone = zone_utc(), .catch_up = catch_up};
    struct wall tick = tick_due(&schedule, at(last), at(now), queued);
    assert_string_equal(wall_is_set(tick) ? wall_format(tick, &arena).ptr : "none", wanted);
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
        due_is(catch_up, false, "2026-10-24T02:30:00Z", "2026-10-25T02:29:59Z", "none");
        due_is(catch_up, false, "2026-10-24T02:30:00Z", "2026-10-25T02:30:00Z",
               "2026-10-25T02:30:00Z");
        due_is(catch_up, false, "2026-10-24T02:30:00Z", "2026-10-25T02:30:59Z",
               "2026-10-25T02:30:00Z");
        due_is(catch_up, false, "2026-10-25T02:30:00Z", "2026-10-25T02:30:59Z", "none");
    }
}

static void after_a_downtime(void **state)
{
    (void)state;
    cron_is("30 2 * * *");
    due_is(CATCH_UP_NONE, false, "2026-10-20T02:30:00Z", "2026-10-25T12:00:00Z", "none");
    due_is(CATCH_UP_LAST, false, "2026-10-20T02:30:00Z", "2026-10-25T12:00:00Z",
           "2026-10-25T02:30:00Z");
    due_is(CATCH_UP_ALL, false, "2026-10-20T02:30:00Z", "2026-10-25T12:00:00Z",
           "2026-10-21T02:30:00Z");
    /* Missed ticks do not keep the one of this minute from being started. */
    due_is(CATCH_UP_NONE, false, "2026-10-20T02:30:00Z", "2026-10-25T02:30:10Z",
           "2026-10-25T02:30:00Z");
    /* What waited for the run before it was not missed. */
    due_is(CATCH_UP_NONE, true, "2026-10-20T02:30:00Z", "2026-10-25T12:00:00Z",
           "2026-10-21T02:30:00Z");
    cron_is("0 0 1 1 *");
    due_is(CATCH_UP_LAST, false, "2001-06-01T00:00:00Z", "2026-10-25T12:00:00Z",
           "2026-01-01T00:00:00Z");
    cron_is("0 0 29 2 *");
    due_is(CATCH_UP_LAST, false, "2001-06-01T00:00:00Z", "2027-10-25T12:00:00Z",
           "2024-02-29T00:00:00Z");
}

/* A-TIME-3: a clock that is set back waits for the next tick, a clock set forward starts one. */
static void a_time_3(void **state)
{
    (void)state;
    cron_is("0 * * * *");
    due_is(CATCH_UP_LAST, false, "2026-10-25T12:00:00Z", "2026-10-25T04:00:30Z", "none");
    due_is(CATCH_UP_LAST, false, "2026-10-25T04:00:00Z", "2026-10-25T12:00:30Z",
           "2026-10-25T12:00:00Z");
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
    const struct CMUnitTest tests[] = {cmocka_unit_test(in_time),
                                       cmocka_unit_test(after_a_downtime),
                                       cmocka_unit_test(a_time_3), cmocka_unit_test(run_ids)};
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    arena_free(&arena);
    return failed;
}
