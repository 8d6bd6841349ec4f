/*
 * test_group.c: the items of a loop in memory: evaluated, named, counted, put in order.
 */
#include "engine/group.h"
#include "engine/items.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static struct plan_step steps[] = {
    {.id = "send",
     .action = {.kind = ACTION_HTTP, .effect = EFFECT_COMPENSABLE},
     .compensate = {.kind = ACTION_HTTP, .effect = EFFECT_IDEMPOTENT},
     .on_failure = ON_FAILURE_COMPENSATE,
     .max_parallel = 4,
     .for_each = (const struct expr *)"any",
     /* never evaluated here */},
    {.id = "last", .index = 1, .action = {.kind = ACTION_HTTP, .effect = EFFECT_PURE}},
};
static struct plan plan = {.steps = steps, .steps_count = ARRAY_LEN(steps), .refs = 100};

static struct run *run_with(const char *items)
{
    struct run *run = run_new(&plan, STR("r"));
    run_apply(run, &(struct run_record){.kind = RECORD_START, .start.input = STR("{}")});
    run_apply(run, &(struct run_record){.kind = RECORD_CLAIM,
                                        .effect = {.ref = {0, STR(""), DIRECTION_EXECUTE, 1},
                                                   .state = {.state = STEP_WAITING,
                                                             .generation = 1,
                                                             .items = str_z(items)}}});
    return run;
}

static void put(struct run *run, const char *item, enum direction direction, uint32_t claim_no,
                enum step_state state)
{
    struct run_record record = {
        .kind = RECORD_CLAIM,
        .effect = {.ref = {0, str_z(item), direction, 1},
                   .state = {.state = state,
                             .generation = 1,
                             .claim_no = claim_no,
                             .next_at = {state == STEP_RETRYING ? (int64_t)claim_no : 0},
                             .attempts = 1}}};
    run_apply(run, &record);
    const char *broken = run_check(run);
    if (broken)
        fail_msg("%s", broken);
}

#define FIVE "[[\"a\",1],[\"b\",2],[\"c\",3],[\"d\",4],[\"e\",5]]"

/* Items become instances only when something is done about them; the next one is the first that is
 * pending; counters follow every record, also one that is applied twice. */
static void counted(void **state)
{
    struct run *run = run_with(FIVE);
    const struct group *group = run->instances[0].group;
    (void)state;
    assert_int_equal(group->count, 5);
    assert_int_equal(group->standings[STANDING_PENDING], 5);
    assert_null(run_instance(run, 0, STR("a")));
    assert_null(run_instance(run, 0, STR("x")));
    assert_null(run_instance(run, 1, STR("a")));
    put(run, "a", DIRECTION_EXECUTE, 1, STEP_CLAIMED);
    put(run, "c", DIRECTION_EXECUTE, 2, STEP_CLAIMED);
    assert_int_equal(group->next, 1);
    put(run, "b", DIRECTION_EXECUTE, 3, STEP_SKIPPED);
    assert_int_equal(group->next, 3);
    put(run, "a", DIRECTION_EXECUTE, 1, STEP_APPLIED);
    put(run, "a", DIRECTION_EXECUTE, 1, STEP_APPLIED);
    put(run, "c", DIRECTION_EXECUTE, 2, STEP_REFUSED);
    assert_int_equal(group->standings[STANDING_DONE], 2);
    assert_int_equal(group->standings[STANDING_FAILED], 1);
    assert_int_equal(group->applied, 1);
    assert_ptr_equal(group_find(group, STANDING_FAILED), run_instance(run, 0, STR("c")));
    /* In file order, items behind their step. */
    const struct instance *at = run_instance_next(run, NULL);
    const char *order[] = {"", "a", "b", "c", ""};
    for (size_t i = 0; i < ARRAY_LEN(order); i++, at = run_instance_next(run, at))
        assert_true(at && str_eq_z(at->item, order[i]));
    assert_null(at);
    run_free(run);
}

/* On the way back the newest claim comes first, and one that becomes due later is not passed over.
 */
static void undone_newest_claim_first(void **state)
{
    struct run *run = run_with(FIVE);
    struct group *group = run->instances[0].group;
    static const char *const claims[] = {"b", "a", "e", "c"};
    (void)state;
    for (uint32_t i = 0; i < ARRAY_LEN(claims); i++)
        put(run, claims[i], DIRECTION_EXECUTE, i + 1, i == 3 ? STEP_CLAIMED : STEP_APPLIED);
    struct record_run back = {.state = RUN_COMPENSATING,
                              .direction = DIRECTION_COMPENSATE,
                              .cause = CAUSE_CANCELLED,
                              .turn = 1};
    run_apply(run, &(struct run_record){.kind = RECORD_RUN, .run = back});
    assert_true(str_eq(group_next_undo(run, group, UNDO_DUE)->item, STR("e")));
    put(run, "c", DIRECTION_EXECUTE, 4, STEP_APPLIED); /* its answer came late */
    assert_true(str_eq(group_next_undo(run, group, UNDO_DUE)->item, STR("c")));
    static const char *const undone[] = {"c", "e", "a", "b"};
    for (uint32_t i = 0; i < ARRAY_LEN(undone); i++) {
        assert_false(group_is_over(group));
        assert_true(str_eq_z(group_next_undo(run, group, UNDO_DUE)->item, undone[i]));
        put(run, undone[i], DIRECTION_COMPENSATE, 5 + i, STEP_APPLIED);
    }
    assert_null(group_next_undo(run, group, UNDO_DUE));
    assert_true(group_is_over(group));
    run_free(run);
}

/* Sides wait by time in the heap of their kind, and leave it with their state. */
static void due_times(void **state)
{
    struct run *run = run_with(FIVE);
    (void)state;
    put(run, "a", DIRECTION_EXECUTE, 7, STEP_RETRYING);
    put(run, "b", DIRECTION_EXECUTE, 5, STEP_RETRYING);
    put(run, "c", DIRECTION_EXECUTE, 6, STEP_RETRYING);
    assert_int_equal(heap_top(&run->retries)->key, 5);
    put(run, "b", DIRECTION_EXECUTE, 5, STEP_CLAIMED);
    assert_int_equal(heap_top(&run->retries)->key, 6);
    put(run, "c", DIRECTION_EXECUTE, 6, STEP_APPLIED);
    put(run, "a", DIRECTION_EXECUTE, 7, STEP_REFUSED);
    assert_null(heap_top(&run->retries));
    assert_null(heap_top(&run->waits));
    run_free(run);
}

/* What is no list of [key, item] with distinct keys makes no group. */
static void bad_items(void **state)
{
    static const char *const bad[] = {
        "[1]",
        "[[]]",
        "[[\"a\"]]",
        "[[1,2]]",
        "[[\"\",2]]",
        "[[\"a\",1,2]]",
        "[[\"a\",1,\"said\",2]]",
        "[[\"a\",1],[\"a\",2]]",
        "[[\"aaaaaaaaaabbbbbbbbbbccccccccccddddddddddx\",1]]",
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct run *run = run_new(&plan, STR("r"));
        run->instances[0].execute.items = str_z(bad[i]);
        if (group_open(run, &run->instances[0]))
            fail_msg("%s", bad[i]);
        run_free(run);
    }
    struct run *run = run_new(&plan, STR("r"));
    run->instances[0].execute.items = STR("[[\"a\",1],[\"b\",2,\"said of b\"]]");
    assert_true(group_open(run, &run->instances[0]));
    assert_int_equal(run->instances[0].group->count, 2);
    assert_true(str_eq_z(group_value(run->instances[0].group, 1), "2"));
    run_free(run);
}

/* Of the records of one decision, the first one that writes the same row. */
/* Rows that contradict each other are told at the load; none of them reaches run_apply. */
static void rows_that_contradict(void **state)
{
    const struct effect_state began = {
        .state = STEP_WAITING, .generation = 1, .items = STR("[[\"a\",1]]")};
    const struct effect_state sent = {
        .state = STEP_CLAIMED, .generation = 1, .claim_no = 1, .attempts = 1};
    struct effect_state unread = began, other = sent, none = sent;
    struct effect_state listed = {.state = STEP_APPLIED, .generation = 1, .items = STR("[]")};
    unread.items = STR("[[\"a\",1],[\"a\",2]]");
    other.generation = 2;
    none.state = STEP_NONE;
    struct {
        struct record_effect effects[2];
        const char *broken;
    } cases[] = {
        {{{{0, STR(""), DIRECTION_EXECUTE, 1}, began, 0}, {{0, STR("a"), 1, 1}, sent, 0}}, NULL},
        {{{{0, STR(""), DIRECTION_EXECUTE, 1}, began, 0}, {{0, STR("b"), 1, 1}, sent, 0}},
         "an item that is not among the items of its loop"},
        {{{{1, STR(""), DIRECTION_EXECUTE, 1}, sent, 0}, {{0, STR("a"), 1, 1}, sent, 0}},
         "an item of a loop whose items are not there"},
        {{{{0, STR(""), DIRECTION_EXECUTE, 1}, began, 0}, {{1, STR("a"), 1, 1}, sent, 0}},
         "an item of a step that is no loop"},
        {{{{0, STR(""), DIRECTION_EXECUTE, 1}, began, 0}, {{2, STR(""), 1, 1}, sent, 0}},
         "an effect of a step that the workflow does not have"},
        {{{{1, STR(""), DIRECTION_EXECUTE, 1}, sent, 0}, {{0, STR(""), 1, 1}, unread, 0}},
         "a loop whose items cannot be read"},
        {{{{0, STR(""), DIRECTION_EXECUTE, 1}, began, 0}, {{1, STR(""), 1, 1}, listed, 0}},
         "items of what is no loop"},
        {{{{1, STR(""), DIRECTION_EXECUTE, 1}, sent, 0}, {{1, STR(""), 1, 1}, sent, 0}},
         "an effect without a state or with a generation that is not its own"},
        {{{{0, STR(""), DIRECTION_EXECUTE, 1}, began, 0}, {{1, STR(""), 1, 1}, other, 0}},
         "an effect without a state or with a generation that is not its own"},
        {{{{0, STR(""), DIRECTION_EXECUTE, 1}, began, 0}, {{1, STR(""), 1, 1}, none, 0}},
         "an effect without a state or with a generation that is not its own"},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct run *run = run_new(&plan, STR("r"));
        struct run_record start = {.kind = RECORD_START, .start.input = STR("{}")};
        struct run_record first = {.kind = RECORD_CLAIM, .effect = cases[i].effects[0]};
        struct run_record second = {.kind = RECORD_CLAIM, .effect = cases[i].effects[1]};
        assert_non_null(run_load(run, &first)); /* it does not begin with its start */
        assert_null(run_load(run, &start));
        assert_non_null(run_load(run, &start));
        assert_null(run_load(run, &first));
        const char *broken = run_load(run, &second);
        if (cases[i].broken)
            assert_string_equal(broken ? broken : "sound", cases[i].broken);
        else
            assert_null(broken);
        run_free(run);
    }
}

static void rows_of_records(void **state)
{
    struct arena arena = {0};
    struct run_record records[] = {
        {.kind = RECORD_CLAIM, .effect.ref = {0, STR("a"), DIRECTION_EXECUTE, 1}},
        {.kind = RECORD_RUN},
        {.kind = RECORD_EVENT},
        {.kind = RECORD_EFFECT, .effect.ref = {0, STR("b"), DIRECTION_EXECUTE, 1}},
        {.kind = RECORD_EFFECT, .effect.ref = {0, STR("a"), DIRECTION_EXECUTE, 1}},
        {.kind = RECORD_EFFECT, .effect.ref = {0, STR("a"), DIRECTION_COMPENSATE, 1}},
        {.kind = RECORD_EFFECT, .effect.ref = {0, STR("a"), DIRECTION_EXECUTE, 2}},
        {.kind = RECORD_EVENT},
        {.kind = RECORD_RUN},
    };
    static const uint32_t wanted[] = {0, 1, 2, 3, 0, 5, 6, 7, 1};
    (void)state;
    uint32_t *first = run_records_rows(records, ARRAY_LEN(records), &arena);
    assert_memory_equal(first, wanted, sizeof(wanted));
    arena_free(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counted),         cmocka_unit_test(undone_newest_claim_first),
        cmocka_unit_test(due_times),       cmocka_unit_test(bad_items),
        cmocka_unit_test(rows_of_records), cmocka_unit_test(rows_that_contradict),
    };
    return cmocka_run_group_tests_name("groups", tests, NULL, NULL);
}
