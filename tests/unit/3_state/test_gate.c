/*
 * test_gate.c: how much may be sent to a service, and who goes next.
 */
#include "engine/base/rand.h"
#include "engine/gate.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#define NOW ((struct wall){INT64_C(1790000000) * SECOND_US})
#define WAITERS 64

static struct wall after(int64_t us)
{
    return wall_add(NOW, us);
}

static struct gate gate_of(const struct plan_limits *limits)
{
    struct gate gate;
    gate_init(&gate, limits);
    return gate;
}

static uint32_t room(struct gate *gate, struct wall now)
{
    return gate_room(gate, false, now).sends;
}

/* What a woken waiter does: it decides, and sends. */
static uint64_t go(struct gate *gate, struct gate_waiter *waiter, struct wall now)
{
    assert_int_equal(gate_room(gate, true, now).sends, 1);
    gate_unwait(gate, waiter);
    return gate_sent(gate, waiter->repeats, now);
}

/* --- limits -------------------------------------------------------------------------------- */

static void without_limits_everything_goes(void **state)
{
    (void)state;
    struct gate gate = gate_of(&(struct plan_limits){0});
    for (int i = 0; i < 100000; i++)
        gate_sent(&gate, true, NOW);
    struct gate_room most = gate_room(&gate, false, NOW);
    assert_true(most.sends > 1000000 && most.repeats > 1000000);
    gate_free(&gate);
}

static void in_flight_is_kept_and_freed_by_answers(void **state)
{
    (void)state;
    struct gate gate = gate_of(&(struct plan_limits){.in_flight = 3});
    uint64_t opening = 0;
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(room(&gate, NOW), 3 - i);
        opening = gate_sent(&gate, false, NOW);
    }
    assert_int_equal(room(&gate, NOW), 0);
    assert_int_equal(gate_room(&gate, false, NOW).reason, GATE_LIMIT);
    gate_answered(&gate, opening, GATE_WORKS, NOW);
    assert_int_equal(room(&gate, NOW), 1);
    gate_dropped(&gate, opening);
    assert_int_equal(room(&gate, NOW), 2);
    gate_dropped(&gate, opening);
    gate_free(&gate);
}

static void limits_are_divided_by_shards_but_never_to_nothing(void **state)
{
    (void)state;
    struct gate gate = gate_of(&(struct plan_limits){.in_flight = 10});
    static const struct {
        uint32_t share, room;
    } cases[] = {{64, 10}, {32, 5}, {13, 2}, {7, 1}, {1, 1}, {0, 1}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        gate.share = cases[i].share;
        assert_int_equal(room(&gate, NOW), cases[i].room);
    }
    gate_free(&gate);
}

/* Sends whatever it may, every 7 ms of a minute. */
static uint32_t sent_in_a_minute(struct gate *gate)
{
    uint32_t sent = 0;
    for (int64_t at = 0; at < MINUTE_US; at += 7 * MS_US)
        while (room(gate, after(at))) {
            gate_dropped(gate, gate_sent(gate, false, after(at)));
            sent++;
        }
    return sent;
}

static void the_rate_is_kept(void **state)
{
    (void)state;
    static const struct {
        uint32_t rate, share;
        int64_t per_us;
        uint32_t least, most;
    } cases[] = {
        {100, 64, SECOND_US, 5990, 6010}, {100, 32, SECOND_US, 2995, 3005},
        {10, 64, MINUTE_US, 10, 11},      {1, 64, HOUR_US, 1, 1},
        {7, 64, SECOND_US, 418, 421},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct gate gate =
            gate_of(&(struct plan_limits){.rate = cases[i].rate, .rate_per_us = cases[i].per_us});
        gate.share = cases[i].share;
        assert_in_range(sent_in_a_minute(&gate), cases[i].least, cases[i].most);
        gate_free(&gate);
    }
}

static void after_a_pause_the_rate_allows_a_tenth_of_a_second_at_once(void **state)
{
    (void)state;
    struct gate gate = gate_of(&(struct plan_limits){.rate = 100, .rate_per_us = SECOND_US});
    assert_int_equal(room(&gate, NOW), 11);
    for (int i = 0; i < 11; i++)
        gate_sent(&gate, false, NOW);
    assert_int_equal(room(&gate, NOW), 0);
    assert_int_equal(room(&gate, after(10 * MS_US)), 1);
    assert_int_equal(room(&gate, after(HOUR_US)), 11);
    for (int i = 0; i < 11; i++)
        gate_dropped(&gate, 0);
    gate_free(&gate);
}

static void repeats_have_their_share_and_ten_a_minute(void **state)
{
    (void)state;
    struct gate gate = gate_of(&(struct plan_limits){.retries_limited = true, .retry_percent = 20});
    for (int i = 0; i < 10; i++) {
        assert_int_equal(gate_room(&gate, false, NOW).repeats, 10 - i);
        gate_dropped(&gate, gate_sent(&gate, true, NOW));
    }
    assert_int_equal(gate_room(&gate, false, NOW).repeats, 0);
    assert_true(room(&gate, NOW) > 1000); /* first tries go on */
    for (int i = 0; i < 100; i++)
        gate_dropped(&gate, gate_sent(&gate, false, after(SECOND_US)));
    assert_int_equal(gate_room(&gate, false, after(SECOND_US)).repeats, 10); /* 20 % of 100 */
    /* The window slides: a minute later none of it counts. */
    assert_int_equal(gate_room(&gate, false, after(MINUTE_US)).repeats, 20);
    assert_int_equal(gate_room(&gate, false, after(MINUTE_US + SECOND_US)).repeats, 10);
    gate.share = 1;
    assert_int_equal(gate_room(&gate, false, after(HOUR_US)).repeats, 1);
    gate_free(&gate);
}

static void of_two_words_about_a_service_the_stricter_counts(void **state)
{
    (void)state;
    struct gate gate = gate_of(&(struct plan_limits){.in_flight = 5});
    gate_tighten(&gate, &(struct plan_limits){.in_flight = 9,
                                              .rate = 30,
                                              .rate_per_us = MINUTE_US,
                                              .retries_limited = true,
                                              .retry_percent = 30,
                                              .breaker_failures = 3,
                                              .breaker_window_us = MINUTE_US,
                                              .breaker_open_us = SECOND_US});
    gate_tighten(&gate, &(struct plan_limits){.in_flight = 7,
                                              .rate = 10,
                                              .rate_per_us = SECOND_US,
                                              .retries_limited = true,
                                              .retry_percent = 10,
                                              .breaker_failures = 5,
                                              .breaker_window_us = HOUR_US});
    assert_int_equal(gate.limits.in_flight, 5);
    assert_int_equal(gate.limits.rate, 30);
    assert_int_equal(gate.limits.rate_per_us, MINUTE_US);
    assert_int_equal(gate.limits.retry_percent, 10);
    assert_int_equal(gate.limits.breaker_failures, 3);
    assert_int_equal(gate.limits.breaker_window_us, MINUTE_US);
    gate_free(&gate);
}

/* --- the breaker --------------------------------------------------------------------------- */

static const struct plan_limits breaking = {
    .breaker_failures = 3, .breaker_window_us = 30 * SECOND_US, .breaker_open_us = 15 * SECOND_US};

static void answer(struct gate *gate, enum gate_outcome outcome, struct wall now)
{
    gate_answered(gate, gate_sent(gate, false, now), outcome, now);
}

static void break_it(struct gate *gate, struct wall now)
{
    for (uint32_t i = 0; i < gate->limits.breaker_failures; i++)
        answer(gate, GATE_FAILS, now);
    assert_int_equal(gate->breaker, BREAKER_OPEN);
}

static void failures_within_the_window_open_it(void **state)
{
    (void)state;
    struct gate gate = gate_of(&breaking);
    answer(&gate, GATE_FAILS, NOW);
    answer(&gate, GATE_FAILS, after(16 * SECOND_US));
    answer(&gate, GATE_NOTHING, after(17 * SECOND_US));
    answer(&gate, GATE_FAILS, after(31 * SECOND_US)); /* the first is too old */
    assert_int_equal(gate.breaker, BREAKER_CLOSED);
    assert_false(gate_changed(&gate));
    answer(&gate, GATE_WORKS, after(32 * SECOND_US)); /* makes no failure undone */
    answer(&gate, GATE_FAILS, after(46 * SECOND_US));
    assert_int_equal(gate.breaker, BREAKER_OPEN);
    assert_true(gate_changed(&gate));
    assert_false(gate_changed(&gate));
    struct gate_room shut = gate_room(&gate, false, after(47 * SECOND_US));
    assert_int_equal(shut.sends, 0);
    assert_int_equal(shut.reason, GATE_BREAKER);
    assert_int_equal(shut.open_until.us, after(61 * SECOND_US).us);
    gate_free(&gate);
}

static void half_open_one_request_tries(void **state)
{
    (void)state;
    struct gate gate = gate_of(&breaking);
    break_it(&gate, NOW);
    assert_int_equal(room(&gate, after(15 * SECOND_US - 1)), 0);
    assert_int_equal(room(&gate, after(15 * SECOND_US)), 1);
    assert_int_equal(gate.breaker, BREAKER_HALF_OPEN);
    uint64_t opening = gate_sent(&gate, false, after(15 * SECOND_US));
    assert_int_equal(room(&gate, after(HOUR_US)), 0);
    /* Which fails: shut for as long again. */
    gate_answered(&gate, opening, GATE_FAILS, after(20 * SECOND_US));
    assert_int_equal(gate.breaker, BREAKER_OPEN);
    assert_int_equal(gate.open_until.us, after(35 * SECOND_US).us);
    /* One that says nothing: another one tries. */
    assert_int_equal(room(&gate, after(35 * SECOND_US)), 1);
    answer(&gate, GATE_NOTHING, after(35 * SECOND_US));
    assert_int_equal(gate.breaker, BREAKER_HALF_OPEN);
    assert_int_equal(room(&gate, after(35 * SECOND_US)), 1);
    answer(&gate, GATE_WORKS, after(36 * SECOND_US));
    assert_int_equal(gate.breaker, BREAKER_CLOSED);
    assert_true(room(&gate, after(36 * SECOND_US)) > 1000); /* nobody waited */
    gate_free(&gate);
}

static void answers_from_before_it_opened_say_nothing(void **state)
{
    (void)state;
    struct gate gate = gate_of(&breaking);
    uint64_t old[5];
    for (int i = 0; i < 5; i++)
        old[i] = gate_sent(&gate, false, NOW);
    break_it(&gate, NOW);
    gate_answered(&gate, old[0], GATE_WORKS, after(SECOND_US));
    assert_int_equal(gate.breaker, BREAKER_OPEN);
    /* They hold no place of the request that tries, either. */
    assert_int_equal(room(&gate, after(15 * SECOND_US)), 1);
    gate_answered(&gate, old[1], GATE_FAILS, after(16 * SECOND_US));
    assert_int_equal(gate.breaker, BREAKER_HALF_OPEN);
    gate_answered(&gate, old[2], GATE_WORKS, after(16 * SECOND_US));
    assert_int_equal(gate.breaker, BREAKER_HALF_OPEN);
    gate_dropped(&gate, old[3]);
    gate_dropped(&gate, old[4]);
    gate_free(&gate);
}

static void one_that_another_daemon_found_open_is_open(void **state)
{
    (void)state;
    struct gate gate = gate_of(&breaking);
    gate_open_until(&gate, NOW, NOW); /* is over */
    assert_int_equal(gate.breaker, BREAKER_CLOSED);
    gate_open_until(&gate, after(10 * SECOND_US), NOW);
    assert_int_equal(gate.breaker, BREAKER_OPEN);
    assert_false(gate_changed(&gate)); /* no echo */
    gate_open_until(&gate, after(5 * SECOND_US), NOW);
    assert_int_equal(gate.open_until.us, after(10 * SECOND_US).us);
    assert_int_equal(room(&gate, after(10 * SECOND_US)), 1);
    answer(&gate, GATE_WORKS, after(10 * SECOND_US));
    assert_int_equal(gate.breaker, BREAKER_CLOSED);
    assert_true(gate_changed(&gate));
    gate_free(&gate);
    struct gate plain = gate_of(&(struct plan_limits){.in_flight = 1});
    gate_open_until(&plain, after(10 * SECOND_US), NOW); /* has no breaker */
    assert_int_equal(plain.breaker, BREAKER_CLOSED);
    gate_free(&plain);
}

/* --- who goes next ------------------------------------------------------------------------- */

static void nobody_overtakes(void **state)
{
    (void)state;
    struct gate gate = gate_of(&(struct plan_limits){.in_flight = 2});
    struct gate_waiter first = {0}, second = {0};
    uint64_t opening = gate_sent(&gate, false, NOW);
    gate_sent(&gate, false, NOW);
    gate_wait(&gate, &first, STR("a"), false, false);
    gate_wait(&gate, &second, STR("a"), false, false);
    gate_wait(&gate, &first, STR("a"), false, false); /* keeps its place */
    assert_null(gate_next(&gate, NOW));
    gate_answered(&gate, opening, GATE_WORKS, NOW);
    assert_int_equal(room(&gate, NOW), 0); /* is for who waits */
    assert_ptr_equal(gate_next(&gate, NOW), &first);
    assert_null(gate_next(&gate, NOW)); /* its place is kept for it */
    go(&gate, &first, NOW);
    gate_dropped(&gate, opening);
    assert_ptr_equal(gate_next(&gate, NOW), &second);
    gate_unwait(&gate, &second); /* it had no use for it */
    assert_int_equal(room(&gate, NOW), 1);
    gate_dropped(&gate, opening);
    gate_free(&gate);
}

static void tenants_take_turns(void **state)
{
    (void)state;
    struct gate gate = gate_of(&(struct plan_limits){.in_flight = 1});
    struct gate_waiter storm[WAITERS] = {0}, quiet[2] = {0};
    for (int i = 0; i < WAITERS; i++)
        gate_wait(&gate, &storm[i], STR("storm"), false, false);
    gate_wait(&gate, &quiet[0], STR("quiet"), false, false);
    gate_wait(&gate, &quiet[1], STR("quiet"), false, false);
    struct gate_waiter *expected[] = {&storm[0], &quiet[0], &storm[1],
                                      &quiet[1], &storm[2], &storm[3]};
    for (size_t i = 0; i < ARRAY_LEN(expected); i++) {
        struct gate_waiter *next = gate_next(&gate, NOW);
        assert_ptr_equal(next, expected[i]);
        gate_dropped(&gate, go(&gate, next, NOW));
    }
    for (int i = 4; i < WAITERS; i++)
        gate_unwait(&gate, &storm[i]);
    assert_null(gate_next(&gate, NOW));
    gate_free(&gate);
}

static void what_goes_back_goes_first(void **state)
{
    (void)state;
    struct gate gate = gate_of(&breaking);
    struct gate_waiter forward[2] = {0}, back[2] = {0};
    break_it(&gate, NOW);
    gate_wait(&gate, &forward[0], STR("a"), false, false);
    gate_wait(&gate, &forward[1], STR("b"), false, false);
    gate_wait(&gate, &back[0], STR("a"), true, false);
    gate_wait(&gate, &back[1], STR("a"), true, true);
    assert_null(gate_next(&gate, after(14 * SECOND_US)));
    assert_int_equal(gate_due(&gate, NOW).us, after(15 * SECOND_US).us);
    /* The probe is an undo, and there is one. */
    assert_ptr_equal(gate_next(&gate, after(15 * SECOND_US)), &back[0]);
    assert_null(gate_next(&gate, after(15 * SECOND_US)));
    uint64_t opening = go(&gate, &back[0], after(15 * SECOND_US));
    gate_answered(&gate, opening, GATE_WORKS, after(16 * SECOND_US));
    assert_ptr_equal(gate_next(&gate, after(16 * SECOND_US)), &back[1]);
    assert_ptr_equal(gate_next(&gate, after(16 * SECOND_US)), &forward[0]);
    assert_null(gate_next(&gate, after(16 * SECOND_US)));
    gate_unwait(&gate, &back[1]);
    gate_unwait(&gate, &forward[0]);
    gate_unwait(&gate, &forward[1]);
    gate_free(&gate);
}

/* Answers arrive in rounds: what each round may send. */
static void after_an_outage_cohorts_grow(void **state)
{
    (void)state;
    struct gate gate = gate_of(&breaking);
    struct gate_waiter waiters[WAITERS] = {0};
    static const int expected[] = {1, 2, 4, 8, 16, 32};
    struct wall now = after(15 * SECOND_US);
    break_it(&gate, NOW);
    for (int i = 0; i < WAITERS; i++)
        gate_wait(&gate, &waiters[i], STR("a"), false, false);
    for (size_t round = 0; round < ARRAY_LEN(expected); round++) {
        uint64_t openings[WAITERS];
        struct gate_waiter *next;
        int sent = 0;
        while ((next = gate_next(&gate, now)))
            openings[sent++] = go(&gate, next, now);
        assert_int_equal(sent, expected[round]);
        now = wall_add(now, SECOND_US);
        for (int i = 0; i < sent; i++)
            gate_answered(&gate, openings[i], GATE_WORKS, now);
    }
    struct gate_waiter *last = gate_next(&gate, now);
    assert_non_null(last);
    gate_dropped(&gate, go(&gate, last, now));
    assert_int_equal(gate.waiting, 0);
    gate_free(&gate);
}

static void a_failure_on_the_way_halves_the_cohort(void **state)
{
    (void)state;
    struct gate gate = gate_of(&breaking);
    struct gate_waiter waiters[WAITERS] = {0};
    struct wall now = after(15 * SECOND_US);
    break_it(&gate, NOW);
    for (int i = 0; i < WAITERS; i++)
        gate_wait(&gate, &waiters[i], STR("a"), false, false);
    for (int i = 0; i < 8; i++)
        gate_answered(&gate, go(&gate, gate_next(&gate, now), now), GATE_WORKS, now);
    assert_int_equal(gate.cohort, 9);
    gate_answered(&gate, go(&gate, gate_next(&gate, now), now), GATE_FAILS, now);
    assert_int_equal(gate.cohort, 4);
    for (int i = 0; i < WAITERS; i++)
        gate_unwait(&gate, &waiters[i]);
    gate_free(&gate);
}

static void repeats_without_a_share_do_not_hold_first_tries_up(void **state)
{
    (void)state;
    struct gate gate =
        gate_of(&(struct plan_limits){.in_flight = 9, .retries_limited = true, .retry_percent = 0});
    struct gate_waiter repeat = {0}, other = {0}, first = {0};
    gate.share = 1; /* of the ten a minute: one */
    gate_wait(&gate, &repeat, STR("a"), false, true);
    gate_wait(&gate, &other, STR("b"), false, true);
    gate_wait(&gate, &first, STR("a"), false, false);
    gate_dropped(&gate, gate_sent(&gate, true, NOW));
    assert_ptr_equal(gate_next(&gate, NOW), &first);
    assert_int_equal(gate_room(&gate, true, NOW).repeats, 0);
    gate_dropped(&gate, go(&gate, &first, NOW));
    assert_null(gate_next(&gate, NOW));
    struct wall due = gate_due(&gate, NOW);
    assert_in_range(due.us, NOW.us + 1, NOW.us + SECOND_US);
    assert_ptr_equal(gate_next(&gate, after(MINUTE_US)), &other); /* its tenant's turn */
    gate_unwait(&gate, &repeat);
    gate_unwait(&gate, &other);
    gate_free(&gate);
}

/* What has no share left still tries the service after an outage, and undo is never kept back. */
static void probes_and_undo_need_no_share(void **state)
{
    (void)state;
    struct gate gate =
        gate_of(&(struct plan_limits){.in_flight = 9, .retries_limited = true, .retry_percent = 0});
    struct gate_waiter repeat = {0}, undo = {0};
    gate.share = 1;
    gate_dropped(&gate, gate_sent(&gate, true, NOW));
    gate_wait(&gate, &repeat, STR("a"), false, true);
    assert_null(gate_next(&gate, NOW));
    gate_wait(&gate, &undo, STR("a"), true, true);
    assert_ptr_equal(gate_next(&gate, NOW), &undo);
    gate_dropped(&gate, go(&gate, &undo, NOW));
    assert_null(gate_next(&gate, NOW));
    gate.cohort = 1; /* as when the breaker is half open */
    assert_ptr_equal(gate_next(&gate, NOW), &repeat);
    assert_int_equal(gate_room(&gate, true, NOW).repeats, 1);
    gate_unwait(&gate, &repeat);
    gate_free(&gate);
}

/* The look that gate_due names is never too early nor forgotten: a loop that sleeps by it gets
 * through. */
static void who_sleeps_until_due_gets_through(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        struct plan_limits limits = {.in_flight = (uint32_t)(rand_mix(seed) % 4),
                                     .rate = 1 + (uint32_t)(rand_mix(seed + 1000) % 50),
                                     .rate_per_us = SECOND_US,
                                     .retries_limited = true,
                                     .retry_percent = 20,
                                     .breaker_failures = (uint32_t)(rand_mix(seed + 2000) % 4),
                                     .breaker_window_us = MINUTE_US,
                                     .breaker_open_us = 5 * SECOND_US};
        struct gate gate = gate_of(&limits);
        struct gate_waiter waiters[WAITERS] = {0};
        struct wall now = NOW;
        for (int i = 0; i < WAITERS; i++)
            gate_wait(&gate, &waiters[i], i % 3 ? STR("a") : STR("b"), i % 7 == 0, i % 2);
        int looks = 0;
        while (gate.waiting) {
            struct gate_waiter *next = gate_next(&gate, now);
            if (next) {
                uint64_t opening = go(&gate, next, now);
                assert_true(!limits.in_flight || gate.in_flight <= limits.in_flight);
                bool fails = rand_mix(seed * 77 + (uint64_t)looks) % 4 == 0;
                gate_answered(&gate, opening, fails ? GATE_FAILS : GATE_WORKS, now);
            } else {
                struct wall due = gate_due(&gate, now);
                assert_true(wall_is_set(due) && due.us > now.us);
                now = due;
            }
            assert_true(++looks < 100000);
        }
        gate_free(&gate);
    }
}

static void states_have_names(void **state)
{
    (void)state;
    assert_string_equal(breaker_state_name(BREAKER_HALF_OPEN), "half_open");
    assert_int_equal(breaker_state_of(STR("open")), BREAKER_OPEN);
    assert_int_equal(breaker_state_of(STR("ajar")), BREAKER_NONE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_limits_everything_goes),
        cmocka_unit_test(in_flight_is_kept_and_freed_by_answers),
        cmocka_unit_test(limits_are_divided_by_shards_but_never_to_nothing),
        cmocka_unit_test(the_rate_is_kept),
        cmocka_unit_test(after_a_pause_the_rate_allows_a_tenth_of_a_second_at_once),
        cmocka_unit_test(repeats_have_their_share_and_ten_a_minute),
        cmocka_unit_test(of_two_words_about_a_service_the_stricter_counts),
        cmocka_unit_test(failures_within_the_window_open_it),
        cmocka_unit_test(half_open_one_request_tries),
        cmocka_unit_test(answers_from_before_it_opened_say_nothing),
        cmocka_unit_test(one_that_another_daemon_found_open_is_open),
        cmocka_unit_test(nobody_overtakes),
        cmocka_unit_test(tenants_take_turns),
        cmocka_unit_test(what_goes_back_goes_first),
        cmocka_unit_test(after_an_outage_cohorts_grow),
        cmocka_unit_test(a_failure_on_the_way_halves_the_cohort),
        cmocka_unit_test(repeats_without_a_share_do_not_hold_first_tries_up),
        cmocka_unit_test(probes_and_undo_need_no_share),
        cmocka_unit_test(who_sleeps_until_due_gets_through),
        cmocka_unit_test(states_have_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
