/*
 * test_load.c: a run whose rows contradict each other is skipped and told; the others are loaded.
 * What is held back is let in when it is released, and learns then what became of its run.
 */
#include "engine/log.h"
#include "engine/runner.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static struct plan_step steps[] = {
    {.id = "send",
     .action = {.kind = ACTION_SLEEP, .effect = EFFECT_PURE},
     .on_failure = ON_FAILURE_COMPENSATE,
     .max_parallel = 4,
     .for_each = (const struct expr *)"never evaluated here"},
};
static struct plan plan = {.workflow = "w", .steps = steps, .steps_count = 1, .refs = 100};

static char told[512];

static void tell(void *arg, enum log_level level, const char *line)
{
    (void)arg, (void)level;
    snprintf(told, sizeof(told), "%s", line);
}

static void *encode(void *arg, const struct unit *unit)
{
    (void)unit;
    return arg;
}

static void encoded_free(void *arg, void *encoded)
{
    (void)arg, (void)encoded;
}

static void send_unit(void *arg, void *encoded, uint64_t epoch, uint64_t seq)
{
    (void)arg, (void)encoded, (void)epoch, (void)seq;
}

static void load(void *arg, uint64_t shards)
{
    (void)arg, (void)shards;
}

static void answered(void *arg, const struct runner_answer *answer)
{
    *(struct err *)arg = answer->err;
}

static unsigned runs_asked;

static void load_run(void *arg, struct str run_id)
{
    (void)arg, (void)run_id;
    runs_asked++;
}

static void changed(void *arg, const struct run *run)
{
    (void)arg, (void)run;
}

/* A loop that waits for its only item "a", which sleeps for ever; `item` is what the item's own row
 * calls it. */
static void give(struct runner *runner, const char *id, const char *item)
{
    struct run_record records[] = {
        {.kind = RECORD_START, .start = {.input = STR("{}"), .tenant = STR(""), .actor = STR("")}},
        {.kind = RECORD_CLAIM,
         .effect = {.ref = {0, STR(""), DIRECTION_EXECUTE, 1},
                    .state = {.state = STEP_WAITING,
                              .generation = 1,
                              .items = STR("[[\"a\",1]]")}}},
        {.kind = RECORD_CLAIM,
         .effect = {.ref = {0, str_z(item), DIRECTION_EXECUTE, 1},
                    .state = {.state = STEP_WAITING,
                              .generation = 1,
                              .claim_no = 1,
                              .next_at = {INT64_MAX / 2}}}},
    };
    runner_loaded(runner, &plan, str_z(id), records, ARRAY_LEN(records));
}

static void contradicting_rows_are_skipped(void **state)
{
    struct runner_config config = {0};
    struct port_store store = {.encode = encode,
                               .encoded_free = encoded_free,
                               .send = send_unit,
                               .load = load,
                               .load_run = load_run};
    struct port_invoke invoke = {0};
    struct port_watch watch = {.changed = changed};
    struct err err = {0}, answer = {0};
    (void)state;
    log_divert(tell, NULL);
    struct runner *runner = runner_new(&config, &store, &invoke, &watch);
    runner_own(runner, 1, 0, UINT64_MAX);
    give(runner, "broken", "b");
    give(runner, "sound", "a");
    runner_load_done(runner, UINT64_MAX);
    runner_turn(runner, (struct wall){SECOND_US});
    assert_int_equal(runner_stats(runner).resident, 1);
    assert_non_null(strstr(told, "run \"broken\" is not loaded, its rows are not sound: an item "
                                 "that is not among the items of its loop"));

    /* Whoever asks for it is told the same. */
    struct runner_verb verb = {.kind = EVENT_PAUSE, .run_id = STR("broken"), .reason = STR("why")};
    assert_int_equal(runner_verb(runner, &verb, answered, &answer, &err), 0);
    give(runner, "broken", "b");
    runner_load_run_done(runner, STR("broken"), RUN_NONE);
    runner_turn(runner, (struct wall){2 * SECOND_US});
    assert_int_equal(answer.code, ERR_INTERNAL);
    assert_non_null(strstr(answer.text, "not among the items of its loop"));
    assert_int_equal(runner_stats(runner).resident, 1);
    runner_free(runner);
    log_divert(NULL, NULL);
}

static void removed_answered(void *arg, const struct runner_answer *answer)
{
    *(struct runner_answer *)arg = *answer;
}

static void held_back(void **state)
{
    struct runner_config config = {0};
    struct port_store store = {.encode = encode,
                               .encoded_free = encoded_free,
                               .send = send_unit,
                               .load = load,
                               .load_run = load_run};
    struct port_invoke invoke = {0};
    struct port_watch watch = {.changed = changed};
    struct runner_answer answer = {0};
    struct err err = {0};
    (void)state;
    struct runner *runner = runner_new(&config, &store, &invoke, &watch);
    const struct str family[] = {STR("r"), STR("r~child")}, here[] = {STR("q"), STR("sound")};
    assert_false(runner_hold(runner, family, 2)); /* nothing is ours */
    runner_own(runner, 1, 0, UINT64_MAX);
    assert_false(runner_hold(runner, family, 2)); /* it is being loaded */
    give(runner, "sound", "a");
    runner_load_done(runner, UINT64_MAX);
    runner_turn(runner, (struct wall){SECOND_US});
    assert_false(runner_hold(runner, here, 2)); /* one is in memory: none is held */
    assert_true(runner_hold(runner, family, 2));
    assert_false(runner_hold(runner, family, 1));
    assert_int_equal(runner_stats(runner).resident, 3);
    assert_int_equal(runner_quiet_shards(runner) >> shard_of(family[0]) & 1, 0);

    /* What comes meanwhile waits; afterwards it is told how the run had ended. */
    runs_asked = 0;
    struct runner_verb verb = {.kind = EVENT_PAUSE, .run_id = family[0], .reason = STR("why")};
    assert_int_equal(runner_verb(runner, &verb, removed_answered, &answer, &err), 0);
    runner_turn(runner, (struct wall){2 * SECOND_US});
    assert_int_equal(runs_asked, 0);
    runner_unhold(runner, family[0]);
    runner_unhold(runner, family[1]);
    runner_turn(runner, (struct wall){3 * SECOND_US});
    assert_int_equal(runs_asked, 1);
    runner_load_run_done(runner, family[0], RUN_COMPENSATED);
    runner_turn(runner, (struct wall){4 * SECOND_US});
    assert_int_equal(answer.err.code, ERR_CONFLICT);
    assert_true(answer.removed);
    assert_int_equal(answer.state, RUN_COMPENSATED);
    assert_int_equal(runner_stats(runner).resident, 1);

    /* A hold ends with the lease, and its release means nothing to whoever is there by then. */
    assert_true(runner_hold(runner, family, 1));
    runner_lost(runner);
    runner_own(runner, 2, 0, UINT64_MAX);
    give(runner, "sound", "a");
    runner_load_done(runner, UINT64_MAX);
    runner_turn(runner, (struct wall){5 * SECOND_US});
    runner_unhold(runner, family[0]);
    runner_unhold(runner, STR("sound"));
    assert_int_equal(runner_stats(runner).resident, 1);
    runner_free(runner);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(contradicting_rows_are_skipped),
        cmocka_unit_test(held_back),
    };
    return cmocka_run_group_tests_name("load", tests, NULL, NULL);
}
