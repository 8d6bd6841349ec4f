#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "dsl/plan.h"

/* Every stored or printed value has the name the language gives it; 0 is "none". */
static void names(void **state)
{
    (void)state;
    assert_string_equal(effect_tier_name(EFFECT_NONE), "none");
    assert_string_equal(effect_tier_name(EFFECT_IRREVERSIBLE), "irreversible");
    assert_string_equal(action_kind_name(ACTION_HTTP), "http");
    assert_string_equal(action_kind_name(ACTION_SLEEP), "sleep");
    assert_string_equal(outcome_name(OUTCOME_NONE), "none");
    assert_string_equal(outcome_name(OUTCOME_IN_PROGRESS), "in_progress");
    assert_string_equal(outcome_name(OUTCOME_CONFLICT), "conflict");
    assert_string_equal(on_failure_name(ON_FAILURE_CONTINUE), "continue");
    assert_string_equal(http_method_name(HTTP_DELETE), "delete");
}

/* A plan lives as long as its last reference. */
static void references(void **state)
{
    struct plan *plan = xcalloc(1, sizeof(*plan));
    (void)state;
    plan->refs = 1;
    arena_alloc(&plan->plan_arena, 100);
    assert_ptr_equal(plan_ref(plan), plan);
    plan_unref(plan);
    assert_int_equal(plan->refs, 1);
    plan_unref(plan);
    plan_unref(NULL);
}

/* Steps are found by their whole id. */
static void finding(void **state)
{
    const struct plan_step steps[] = {{.id = "a"}, {.id = "ab", .index = 1}};
    const struct plan plan = {.steps = steps, .steps_count = 2};
    (void)state;
    assert_int_equal(plan_step_find(&plan, STR("ab")), 1);
    assert_int_equal(plan_step_find(&plan, STR("a")), 0);
    assert_int_equal(plan_step_find(&plan, STR("b")), PLAN_STEP_NONE);
    assert_int_equal(plan_step_find(&plan, STR("")), PLAN_STEP_NONE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names),
        cmocka_unit_test(references),
        cmocka_unit_test(finding),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
