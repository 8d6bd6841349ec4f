/*
 * test_retry.c: when the next attempt may be sent.
 */
#include "engine/retry.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#define NOW ((struct wall){INT64_C(1790000000) * SECOND_US})

static const struct plan_retry policy = {.attempts = 5,
                                         .delay_us = SECOND_US,
                                         .factor_milli = 2000,
                                         .max_delay_us = 10 * SECOND_US,
                                         .jitter_percent = 0,
                                         .budget_us = HOUR_US};

static int64_t delay_after(const struct plan_retry *retry, uint32_t attempts, uint64_t seed)
{
    struct effect_state side = {.attempts = attempts};
    struct wall next = retry_next(retry, &side, seed, 0, NOW);
    return wall_is_set(next) ? next.us - NOW.us : -1;
}

static void delays_grow_to_the_cap(void **state)
{
    static const int64_t seconds[] = {1, 2, 4, 8, 10, 10};
    (void)state;
    for (uint32_t i = 0; i < ARRAY_LEN(seconds); i++)
        assert_int_equal(delay_after(&policy, i + 1, 7), seconds[i] * SECOND_US);
}

/* A-HERD-1: jitter only adds, spreads at the cap too, and repeats for the same run and attempt. */
static void a_herd_1_jitter(void **state)
{
    struct plan_retry jittery = policy;
    int64_t least = INT64_MAX, most = 0;
    (void)state;
    jittery.jitter_percent = 20;
    for (uint64_t seed = 0; seed < 1000; seed++) {
        int64_t delay = delay_after(&jittery, 6, seed);
        assert_int_equal(delay, delay_after(&jittery, 6, seed));
        assert_true(delay >= 10 * SECOND_US && delay < 12 * SECOND_US);
        least = MIN(least, delay);
        most = MAX(most, delay);
    }
    assert_true(most - least > 3 * SECOND_US / 2);
}

static void the_budget_ends_it(void **state)
{
    struct effect_state side = {.attempts = 4, .budget_at = wall_add(NOW, 7 * SECOND_US)};
    (void)state;
    assert_false(wall_is_set(retry_next(&policy, &side, 7, 0, NOW)));
    side.budget_at = wall_add(NOW, 8 * SECOND_US);
    assert_true(wall_is_set(retry_next(&policy, &side, 7, 0, NOW)));
    /* Retry-After of years is more than any budget reaches. */
    assert_false(wall_is_set(retry_next(&policy, &side, 7, 365 * DAY_US, NOW)));
}

static void what_was_asked_for_goes_first(void **state)
{
    struct effect_state side = {.attempts = 1};
    (void)state;
    assert_int_equal(retry_next(&policy, &side, 7, 30 * SECOND_US, NOW).us,
                     NOW.us + 30 * SECOND_US);
    assert_int_equal(retry_next(&policy, &side, 7, 1, NOW).us, NOW.us + RETRY_FREE_DELAY_MIN_US);
}

/* Attempts that cost none, and those before a person's retry, do not count. */
static void counting(void **state)
{
    struct effect_state side = {.attempts = 5};
    (void)state;
    assert_false(retry_has_attempts(&policy, &side));
    side.attempts_free = 1;
    assert_true(retry_has_attempts(&policy, &side));
    side.attempts = 6;
    assert_false(retry_has_attempts(&policy, &side));
    side.attempts_base = 5;
    assert_true(retry_has_attempts(&policy, &side));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(delays_grow_to_the_cap),
        cmocka_unit_test(a_herd_1_jitter),
        cmocka_unit_test(the_budget_ends_it),
        cmocka_unit_test(what_was_asked_for_goes_first),
        cmocka_unit_test(counting),
    };
    return cmocka_run_group_tests_name("retry", tests, NULL, NULL);
}
