/*
 * The stub world plays a run as the engine would, and its judge sees each promise that is broken:
 * a sound walk is made unsound in one place at a time.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "dsl/dsl.h"
#include "engine/stub_world.h"

static const char workflow[] =
    "workflow: trip\n"
    "run_id: x\n"
    "services:\n"
    "  air: {url: \"http://127.0.0.1:1\", idempotency: {header: Idempotency-Key, ttl: 1d}}\n"
    "  inn: {url: \"http://127.0.0.1:2\", idempotency: none}\n"
    "steps:\n"
    "  - {id: flight, action: {post: air/flights}, compensate: {delete: air/flights}}\n"
    "  - {id: room, action: {post: inn/rooms}, compensate: {delete: inn/rooms}}\n"
    "  - {id: meal, action: {post: air/meals}, compensate: {delete: air/meals}}\n"
    "  - {id: ticket, effect: irreversible, action: {post: air/tickets}}\n";

enum { FLIGHT, ROOM, MEAL, TICKET };

/* Without keys; but it can be asked. */
static const char asked_workflow[] =
    "workflow: trip\n"
    "run_id: x\n"
    "services: {inn: {url: \"http://127.0.0.1:2\", idempotency: none}}\n"
    "steps:\n"
    "  - id: room\n"
    "    action: {post: inn/rooms}\n"
    "    compensate: {delete: inn/rooms}\n"
    "    reconcile: {get: inn/rooms, applied: \"response.status == 200\", not_applied: "
    "\"response.status == 404\"}\n";

static struct plan *plan, *asked_plan;
static struct str outputs[4];
static struct stub_broken broken;

static int plan_make(void **state)
{
    struct diags diags;
    (void)state;
    diags_init(&diags, "trip.yaml", str_z(workflow));
    plan = dsl_compile(str_z(workflow), NULL, &diags);
    diags_free(&diags);
    diags_init(&diags, "asked.yaml", str_z(asked_workflow));
    asked_plan = dsl_compile(str_z(asked_workflow), NULL, &diags);
    diags_free(&diags);
    for (size_t i = 0; i < ARRAY_LEN(outputs); i++)
        outputs[i] = STR("{}");
    return plan && asked_plan ? 0 : -1;
}

static int plan_drop(void **state)
{
    (void)state;
    plan_unref(plan);
    plan_unref(asked_plan);
    return 0;
}

static struct stub_fault answers_with(uint16_t step, struct test_answer answer, uint32_t last)
{
    answer.after_us = -1;
    return (struct stub_fault){
        .kind = STUB_FAULT_ANSWER, .step = step, .first = 1, .last = last, .answer = answer};
}

static struct stub_fault refused(uint16_t step)
{
    return answers_with(step, (struct test_answer){.kind = TEST_ANSWER_REPLY, .status = 422},
                        UINT32_MAX);
}

static void play_with(struct stub_config config, struct stub_result *result)
{
    struct arena arena = {0};
    config.run_id = STR("x");
    config.input = json_object_new(&arena, 0);
    config.outputs = outputs;
    stub_play(&config, result);
    arena_free(&arena);
}

static void play(const struct stub_fault *faults, uint32_t count, struct stub_result *result)
{
    play_with((struct stub_config){.plan = plan, .faults = faults, .faults_count = count}, result);
}

static struct stub_effect *effect_of(const struct stub_result *result, uint16_t step,
                                     enum direction direction)
{
    for (struct stub_effect *effect = result->effects; effect; effect = effect->next)
        if (effect->step == step && effect->direction == direction)
            return effect;
    fail_msg("no such effect");
    return NULL;
}

/* The judge says this one thing, and nothing without the change before. */
static void assert_broken(struct stub_result *result, const char *what)
{
    stub_judge(result, &broken);
    assert_int_equal(broken.count, 1);
    assert_string_equal(broken.list[0].ptr, what);
    stub_result_free(result);
}

static void assert_sound(struct stub_result *result)
{
    stub_judge(result, &broken);
    if (broken.count)
        fail_msg("%s", broken.list[0].ptr);
}

/* A walk without faults completes, each call 50 ms after the one before. */
static void completes(void **state)
{
    struct stub_result result;
    (void)state;
    play(NULL, 0, &result);
    assert_sound(&result);
    assert_int_equal(result.row.now.state, RUN_COMPLETED);
    assert_int_equal(result.calls_count, 4);
    assert_int_equal(result.calls[3].at_us, 3 * STUB_LATENCY_US);
    assert_int_equal(result.ended_us, 4 * STUB_LATENCY_US);
    assert_int_equal(result.units, 5);
    stub_result_free(&result);
}

/* A refusal turns the run back, in reverse order. */
static void turns_back(void **state)
{
    struct stub_fault fault = refused(TICKET);
    struct stub_result result;
    (void)state;
    play(&fault, 1, &result);
    assert_sound(&result);
    assert_int_equal(result.row.now.state, RUN_COMPENSATED);
    assert_string_equal(result.calls[4].name.ptr, "meal:compensate");
    assert_string_equal(result.calls[6].name.ptr, "flight:compensate");
    stub_result_free(&result);
}

/* A lost answer is asked for again under the key where the service honours it; elsewhere the run
 * waits for a person. Whether the effect happened does not depend on who heard of it. */
static void lost_answers(void **state)
{
    struct stub_fault fault =
        answers_with(FLIGHT, (struct test_answer){.kind = TEST_ANSWER_LOST}, 1);
    struct stub_result result;
    (void)state;
    play(&fault, 1, &result);
    assert_sound(&result);
    assert_int_equal(result.row.now.state, RUN_COMPLETED);
    assert_int_equal(effect_of(&result, FLIGHT, DIRECTION_EXECUTE)->requests, 2);
    assert_int_equal(effect_of(&result, FLIGHT, DIRECTION_EXECUTE)->effects, 1);
    stub_result_free(&result);

    fault.step = ROOM;
    play(&fault, 1, &result);
    assert_sound(&result);
    assert_int_equal(result.row.now.state, RUN_PARKED);
    assert_int_equal(effect_of(&result, ROOM, DIRECTION_EXECUTE)->effects, 1);
    stub_result_free(&result);

    fault.answer.kind = TEST_ANSWER_LOST_BEFORE;
    play(&fault, 1, &result);
    assert_sound(&result);
    assert_int_equal(effect_of(&result, ROOM, DIRECTION_EXECUTE)->effects, 0);
    stub_result_free(&result);
}

static void play_asked(const struct stub_fault *faults, uint32_t count,
                       const struct test_answers *answers, uint32_t answers_count,
                       struct stub_result *result)
{
    play_with((struct stub_config){.plan = asked_plan,
                                   .faults = faults,
                                   .faults_count = count,
                                   .answers = answers,
                                   .answers_count = answers_count},
              result);
}

/* A service that can be asked says what its ledger knows, one that lags what it knew before, and
 * nothing happens twice. */
static void questions(void **state)
{
    struct stub_fault faults[] = {
        answers_with(0, (struct test_answer){.kind = TEST_ANSWER_LOST}, 1),
        {.kind = STUB_FAULT_LAG, .asks = true, .first = 1, .last = 1},
    };
    struct stub_result result;
    (void)state;
    play_asked(faults, 1, NULL, 0, &result);
    assert_sound(&result);
    assert_int_equal(result.row.now.state, RUN_COMPLETED);
    assert_int_equal(result.calls_count, 1);
    assert_int_equal(result.asks_count, 1);
    assert_string_equal(result.asks[0].name.ptr, "room");
    assert_int_equal(result.unplayed_count, 0);
    stub_result_free(&result);

    play_asked(faults, 2, NULL, 0, &result);
    assert_sound(&result);
    assert_int_equal(result.row.now.state, RUN_COMPLETED);
    assert_int_equal(result.calls_count, 1);
    assert_int_equal(result.asks_count, 2);
    stub_result_free(&result);

    faults[0].answer.kind = TEST_ANSWER_LOST_BEFORE;
    play_asked(faults, 1, NULL, 0, &result);
    assert_sound(&result);
    assert_int_equal(result.row.now.state, RUN_COMPLETED);
    assert_int_equal(result.calls_count, 2);
    stub_result_free(&result);

    /* For ever: a person must look. */
    faults[1] =
        answers_with(0, (struct test_answer){.kind = TEST_ANSWER_REPLY, .status = 503}, UINT32_MAX);
    faults[1].asks = true;
    play_asked(faults, 2, NULL, 0, &result);
    assert_sound(&result);
    assert_int_equal(result.row.now.state, RUN_PARKED);
    assert_int_equal(result.calls_count, 1);
    stub_result_free(&result);
}

/* What is accepted is done by the time that the test's own answers say so, else at once; where they
 * say otherwise than the ledger, they are believed. */
static void accepted(void **state)
{
    const struct test_answer accept = {.kind = TEST_ANSWER_REPLY, .after_us = -1, .status = 202};
    const struct test_answer says[] = {
        {.kind = TEST_ANSWER_TIMEOUT, .after_us = -1},
        {.kind = TEST_ANSWER_REPLY, .after_us = -1, .status = 200},
        {.kind = TEST_ANSWER_REPLY, .after_us = -1, .status = 404},
    };
    struct test_answers answers[] = {
        {.step = 0, .item = STR(""), .list = &accept, .count = 1},
        {.step = 0, .item = STR(""), .asks = true, .list = says, .count = 2},
    };
    struct stub_result result;
    (void)state;
    play_asked(NULL, 0, answers, 1, &result);
    assert_sound(&result);
    assert_int_equal(result.row.now.state, RUN_COMPLETED);
    assert_int_equal(effect_of(&result, 0, DIRECTION_EXECUTE)->effects, 1);
    stub_result_free(&result);

    play_asked(NULL, 0, answers, 2, &result);
    assert_sound(&result);
    assert_int_equal(result.row.now.state, RUN_COMPLETED);
    assert_int_equal(effect_of(&result, 0, DIRECTION_EXECUTE)->effects, 1);
    assert_true(effect_of(&result, 0, DIRECTION_EXECUTE)->first_at_us > 0);
    assert_false(result.vouched[0]);
    stub_result_free(&result);

    /* "It is not there", though its answer was only lost. */
    const struct test_answer lost[] = {{.kind = TEST_ANSWER_LOST, .after_us = -1},
                                       {.kind = TEST_ANSWER_REPLY, .after_us = -1}};
    answers[0].list = lost;
    answers[0].count = 2;
    answers[1].list = says + 2;
    answers[1].count = 1;
    play_asked(NULL, 0, answers, 2, &result);
    assert_true(result.vouched[0]);
    assert_sound(&result);
    assert_int_equal(effect_of(&result, 0, DIRECTION_EXECUTE)->effects, 2);
    stub_result_free(&result);

    /* A fault is another story than the test's: the service tells the truth. */
    struct stub_fault fault = answers_with(0, (struct test_answer){.kind = TEST_ANSWER_LOST}, 1);
    play_asked(&fault, 1, answers, 2, &result);
    assert_false(result.vouched[0]);
    assert_sound(&result);
    assert_int_equal(effect_of(&result, 0, DIRECTION_EXECUTE)->effects, 1);
    stub_result_free(&result);
}

/* A daemon that dies at any record comes back and goes on. */
static void crashes(void **state)
{
    static const enum stub_fault_kind kinds[] = {STUB_FAULT_CRASH_BEFORE, STUB_FAULT_CRASH_AFTER};
    (void)state;
    for (size_t kind = 0; kind < ARRAY_LEN(kinds); kind++)
        for (uint32_t unit = 1; unit <= 5; unit++) {
            struct stub_fault fault = {.kind = kinds[kind], .unit = unit};
            struct stub_result result;
            play(&fault, 1, &result);
            assert_sound(&result);
            assert_true(result.row.now.state == RUN_COMPLETED ||
                        result.row.now.state == RUN_PARKED);
            if (unit < 5 || kind == 0) /* the end itself was durable */
                assert_true(result.ended_us >= STUB_RESTART_US);
            stub_result_free(&result);
        }
}

/* A cancel at each record ends compensated, or finds the run completed. */
static void cancels(void **state)
{
    (void)state;
    for (uint32_t unit = 1; unit <= 5; unit++) {
        struct stub_fault fault = {.kind = STUB_FAULT_CANCEL, .unit = unit};
        struct stub_result result;
        play(&fault, 1, &result);
        assert_sound(&result);
        assert_true(result.row.now.state == RUN_COMPENSATED ||
                    result.row.now.state == RUN_COMPLETED);
        stub_result_free(&result);
    }
}

/* A request that arrives twice is one effect where keys are honoured, and not the engine's fault
 * where they are not. */
static void duplicates(void **state)
{
    struct stub_fault fault = {.kind = STUB_FAULT_DUPLICATE, .step = FLIGHT};
    struct stub_result result;
    (void)state;
    play(&fault, 1, &result);
    assert_sound(&result);
    assert_int_equal(effect_of(&result, FLIGHT, DIRECTION_EXECUTE)->effects, 1);
    stub_result_free(&result);
    fault.step = ROOM;
    play(&fault, 1, &result);
    assert_sound(&result);
    assert_int_equal(effect_of(&result, ROOM, DIRECTION_EXECUTE)->effects, 2);
    stub_result_free(&result);
}

/* A service that has forgotten a key does the effect again, which only a repeatable one may lead
 * to; and it may say by itself, late, what became of it. */
static void keys_and_callbacks(void **state)
{
    struct stub_fault faults[] = {
        answers_with(FLIGHT, (struct test_answer){.kind = TEST_ANSWER_LOST}, UINT32_MAX),
        {.kind = STUB_FAULT_CALLBACK,
         .step = FLIGHT,
         .first = 1,
         .last = 1,
         .after_us = DAY_US / 2},
    };
    struct stub_result result;
    (void)state;
    play(faults, 1, &result);
    assert_sound(&result);
    assert_int_equal(result.row.now.state, RUN_PARKED);
    stub_result_free(&result);
    play(faults, 2, &result);
    assert_sound(&result);
    assert_int_equal(result.row.now.state, RUN_COMPENSATED); /* the run had turned back */
    effect_of(&result, FLIGHT, DIRECTION_EXECUTE)->effects = 2;
    effect_of(&result, FLIGHT, DIRECTION_EXECUTE)->repeatable = true;
    assert_broken(&result, "2 effects under the key x:flight:execute");

    play(faults, 2, &result);
    effect_of(&result, FLIGHT, DIRECTION_EXECUTE)->effects = 2;
    effect_of(&result, FLIGHT, DIRECTION_EXECUTE)->repeatable = true;
    effect_of(&result, FLIGHT, DIRECTION_EXECUTE)->forgotten = true;
    assert_sound(&result);
    stub_result_free(&result);
}

/* --- each promise, broken -----------------------------------------------------------------------
 */

static void sees_doubles(void **state)
{
    struct stub_result result;
    (void)state;
    play(NULL, 0, &result);
    effect_of(&result, FLIGHT, DIRECTION_EXECUTE)->effects = 2;
    assert_broken(&result, "2 effects under the key x:flight:execute");
    play(NULL, 0, &result);
    effect_of(&result, ROOM, DIRECTION_EXECUTE)->effects = 2;
    assert_broken(&result, "2 effects under the key x:room:execute");
}

static void sees_what_is_not_undone(void **state)
{
    struct stub_fault fault = refused(TICKET);
    struct stub_result result;
    (void)state;
    play(&fault, 1, &result);
    effect_of(&result, ROOM, DIRECTION_COMPENSATE)->step = TICKET; /* it undid something else */
    stub_judge(&result, &broken);
    assert_true(broken.count >= 1);
    assert_string_equal(broken.list[0].ptr, "the run ended compensated, but room is applied, not "
                                            "undone and not in the residue");
    stub_result_free(&result);

    play(&fault, 1, &result);
    result.row.now.residue = STR("[{\"step\":\"room\",\"why\":\"declared\"}]");
    effect_of(&result, ROOM, DIRECTION_COMPENSATE)->effects = 0;
    assert_broken(&result, "room is called applied, but its service did nothing");
}

static void sees_a_false_residue(void **state)
{
    struct stub_fault fault = refused(TICKET);
    struct stub_result result;
    (void)state;
    play(&fault, 1, &result);
    result.row.now.residue = STR("[{\"step\":\"room\",\"why\":\"not_undone\"}]");
    assert_broken(&result, "room is called not undone, but it is undone");
    play(&fault, 1, &result);
    effect_of(&result, ROOM, DIRECTION_EXECUTE)->effects = 0;
    stub_judge(&result, &broken);
    assert_string_equal(broken.list[0].ptr, "room was undone, but never done");
    stub_result_free(&result);
}

static void sees_lies(void **state)
{
    struct stub_fault fault = refused(ROOM);
    struct stub_result result;
    (void)state;
    play(NULL, 0, &result);
    effect_of(&result, MEAL, DIRECTION_EXECUTE)->effects = 0;
    assert_broken(&result, "meal is called applied, but its service did nothing");
    play(&fault, 1, &result);
    effect_of(&result, ROOM, DIRECTION_EXECUTE)->effects = 1;
    stub_judge(&result, &broken);
    assert_int_equal(broken.count, 2);
    assert_string_equal(broken.list[1].ptr, "room is called refused, but its service did it");
    stub_result_free(&result);
}

static void sees_a_wrong_order(void **state)
{
    struct stub_fault fault = refused(TICKET);
    struct stub_result result;
    (void)state;
    play(&fault, 1, &result);
    effect_of(&result, FLIGHT, DIRECTION_COMPENSATE)->order = 4;
    effect_of(&result, ROOM, DIRECTION_COMPENSATE)->order = 9;
    assert_broken(&result, "flight was undone before room, which was built on it");
}

static void sees_a_way_back_after_the_pivot(void **state)
{
    struct stub_result result;
    (void)state;
    play(NULL, 0, &result);
    result.row.now.direction = DIRECTION_COMPENSATE;
    assert_broken(&result, "the run has turned back after its pivot ticket");
}

static void sees_an_end_that_is_none(void **state)
{
    struct stub_fault fault = refused(TICKET);
    struct stub_result result;
    (void)state;
    play(NULL, 0, &result);
    result.row.now.state = RUN_RUNNING;
    stub_judge(&result, &broken);
    assert_string_equal(broken.list[0].ptr, "the run does not come to an end: it is still running");
    stub_result_free(&result);

    play(&fault, 1, &result);
    result.row.now.state = RUN_COMPLETED;
    stub_judge(&result, &broken);
    assert_int_equal(broken.count, 4); /* three undone, one refused */
    assert_string_equal(broken.list[3].ptr, "the run is completed, but ticket is refused");
    stub_result_free(&result);

    play(NULL, 0, &result);
    result.broken = "step flight is claimed twice under one key";
    assert_broken(&result, "step flight is claimed twice under one key");
}

/* What a store would refuse is told. */
static void refuses_unsound_writes(void **state)
{
    struct stub_fault fault = refused(TICKET);
    struct stub_result result;
    (void)state;
    play(&fault, 1, &result);
    struct run_record record = {.kind = RECORD_CLAIM, .effect = result.row.effects[0]};
    assert_string_equal(stub_row_write(&result.row, &record),
                        "step flight is claimed twice under one key");
    record.effect.ref.generation = 7;
    record.effect.turn = 9;
    assert_string_equal(stub_row_write(&result.row, &record),
                        "step flight is claimed in turn 9, it is 1");
    record.kind = RECORD_EFFECT;
    assert_string_equal(stub_row_write(&result.row, &record),
                        "an effect of step flight is updated that was never claimed");
    record = (struct run_record){.kind = RECORD_RUN, .run = result.row.now};
    record.run.state = RUN_RUNNING;
    assert_string_equal(stub_row_write(&result.row, &record), "the run goes on after it has ended");
    record = (struct run_record){.kind = RECORD_EVENT, .event = {.seq = 99}};
    assert_non_null(stub_row_write(&result.row, &record));
    stub_result_free(&result);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(completes),
        cmocka_unit_test(turns_back),
        cmocka_unit_test(lost_answers),
        cmocka_unit_test(questions),
        cmocka_unit_test(accepted),
        cmocka_unit_test(crashes),
        cmocka_unit_test(cancels),
        cmocka_unit_test(duplicates),
        cmocka_unit_test(sees_doubles),
        cmocka_unit_test(sees_what_is_not_undone),
        cmocka_unit_test(keys_and_callbacks),
        cmocka_unit_test(sees_a_false_residue),
        cmocka_unit_test(sees_lies),
        cmocka_unit_test(sees_a_wrong_order),
        cmocka_unit_test(sees_a_way_back_after_the_pivot),
        cmocka_unit_test(sees_an_end_that_is_none),
        cmocka_unit_test(refuses_unsound_writes),
    };
    return cmocka_run_group_tests(tests, plan_make, plan_drop);
}
