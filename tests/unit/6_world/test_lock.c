/*
 * test_lock.c: a run begins by the answer to what it asked last, and by no other.
 */
#include "dsl/dsl.h"
#include "engine/runner.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static const char source[] = "workflow: nap\n"
                             "run_id: \"${{ input.id }}\"\n"
                             "lock: one\n"
                             "input: {type: object, properties: {id: {type: string}}}\n"
                             "steps:\n"
                             "  - id: nap\n"
                             "    action: {sleep: 1h}\n";

static uint64_t asked; /* the newest number */
static unsigned asks, freed, units;
static enum run_state seen;
static struct plan *plan;

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
    units++;
}

static void load(void *arg, uint64_t shards)
{
    (void)arg, (void)shards;
}

static void load_run(void *arg, struct str run_id)
{
    (void)arg, (void)run_id;
}

static void changed(void *arg, const struct run *run)
{
    (void)arg;
    seen = run->now.state;
}

static void ask(void *arg, const struct run *run, uint64_t number)
{
    (void)arg;
    assert_true(str_eq_z(run->id, "r"));
    asked = number;
    asks++;
}

static void free_one(void *arg)
{
    (void)arg;
    freed++;
}

/* Whatever is decided becomes durable. */
static void settle(struct runner *runner)
{
    static int64_t seconds = 1000;
    struct unit_answer applied = {.verdict = UNIT_APPLIED};
    do {
        runner_turn(runner, (struct wall){++seconds * SECOND_US});
        for (; units; units--)
            runner_unit_answer(runner, &applied);
    } while (runner_has_work(runner));
}

static struct runner *runner_open(void)
{
    struct runner_config config = {.locks = {.ask = ask, .freed = free_one}};
    struct port_store store = {.encode = encode,
                               .encoded_free = encoded_free,
                               .send = send_unit,
                               .load = load,
                               .load_run = load_run};
    struct port_invoke invoke = {0};
    struct port_watch watch = {.changed = changed};
    asked = asks = freed = units = 0;
    seen = RUN_NONE;
    struct runner *runner = runner_new(&config, &store, &invoke, &watch);
    runner_own(runner, 1, 0, UINT64_MAX);
    runner_load_done(runner, UINT64_MAX);
    settle(runner);
    return runner;
}

static void start(struct runner *runner)
{
    struct runner_start order = {
        .plan = plan, .run_id = STR("r"), .input = STR("{\"id\":\"r\"}"), .lock = STR("one")};
    struct err err;
    assert_int_equal(runner_start(runner, &order, NULL, NULL, &err), 0);
}

static void verb(struct runner *runner, enum run_event_kind kind)
{
    struct runner_verb order = {
        .kind = kind, .run_id = STR("r"), .reason = STR("why"), .actor = STR("me")};
    struct err err;
    assert_int_equal(runner_verb(runner, &order, NULL, NULL, &err), 0);
}

static void begins_once_it_is_told(void **state)
{
    struct runner *runner = runner_open();
    (void)state;
    start(runner);
    assert_int_equal(asks, 0); /* not before the start is durable */
    settle(runner);
    assert_int_equal(asks, 1);
    assert_int_equal(seen, RUN_QUEUED);
    assert_true(runner_asks_lock(runner, STR("r"), asked));
    runner_locked(runner, STR("r"), asked + 1);
    settle(runner);
    assert_int_equal(seen, RUN_QUEUED);
    runner_locked(runner, STR("r"), asked);
    settle(runner);
    assert_int_equal(seen, RUN_RUNNING);
    assert_false(runner_asks_lock(runner, STR("r"), asked));
    verb(runner, EVENT_CANCEL);
    settle(runner);
    assert_int_equal(seen, RUN_COMPENSATED);
    assert_int_equal(freed, 1);
    runner_free(runner);
}

/* The answer came in time, but what stood before it in the run's queue made the run ask again. */
static void an_old_answer_means_nothing(void **state)
{
    struct runner *runner = runner_open();
    (void)state;
    start(runner);
    settle(runner);
    uint64_t first = asked;
    verb(runner, EVENT_PAUSE);
    verb(runner, EVENT_RESUME);
    runner_locked(runner, STR("r"), first);
    settle(runner);
    assert_int_equal(asks, 2);
    assert_int_equal(seen, RUN_QUEUED);
    runner_locked(runner, STR("r"), asked);
    settle(runner);
    assert_int_equal(seen, RUN_RUNNING);
    runner_free(runner);
}

static void a_paused_run_does_not_begin(void **state)
{
    struct runner *runner = runner_open();
    (void)state;
    start(runner);
    settle(runner);
    verb(runner, EVENT_PAUSE);
    runner_locked(runner, STR("r"), asked);
    settle(runner);
    assert_int_equal(seen, RUN_QUEUED);
    verb(runner, EVENT_RESUME); /* the lock stays with it meanwhile */
    settle(runner);
    assert_int_equal(asks, 1);
    assert_int_equal(seen, RUN_RUNNING);
    runner_free(runner);
}

static int plan_make(void **state)
{
    struct diags diags;
    (void)state;
    diags_init(&diags, "nap.yaml", STR(source));
    plan = dsl_compile(STR(source), NULL, &diags);
    diags_free(&diags);
    return plan ? 0 : 1;
}

static int plan_drop(void **state)
{
    (void)state;
    plan_unref(plan);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(begins_once_it_is_told),
        cmocka_unit_test(an_old_answer_means_nothing),
        cmocka_unit_test(a_paused_run_does_not_begin),
    };
    return cmocka_run_group_tests_name("lock", tests, plan_make, plan_drop);
}
