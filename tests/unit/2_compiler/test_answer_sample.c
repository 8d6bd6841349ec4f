/*
 * Answers to the reads of `reconcile`, made up from its expressions: each proves what it should and
 * nothing else, has what the output takes from it, and what cannot be found is not made up.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>

#include "dsl/answer_sample.h"
#include "dsl/dsl.h"

static struct arena arena;

static struct plan *compile(const char *reconcile)
{
    struct diags diags;
    struct buf report = {0}, text = {0};
    buf_printf(&text,
               "workflow: w\nrun_id: x\n"
               "input: {type: object, properties: {n: {type: integer}}}\n"
               "services: {s: {url: \"http://127.0.0.1:1\", idempotency: none}}\n"
               "steps: [{id: pay, action: {post: s/x}, compensate: {delete: s/x},\n"
               "  reconcile: %s}]\n",
               reconcile);
    diags_init(&diags, "w.yaml", buf_str(&text));
    struct plan *plan = dsl_compile(buf_str(&text), NULL, &diags);
    diags_print(&diags, false, &report);
    if (!plan)
        fail_msg("%s", report.data);
    buf_free(&report);
    buf_free(&text);
    diags_free(&diags);
    return plan;
}

static const struct json *value(const char *text)
{
    const struct json *parsed;
    struct err err;
    assert_int_equal(json_parse(str_z(text), &arena, &parsed, &err), 0);
    return parsed;
}

/* `wanted` NULL: there is none. */
static void assert_answer(const char *reconcile, enum outcome says, const char *output,
                          const char *wanted)
{
    struct plan *plan = compile(reconcile);
    struct expr_scope scope = {.input = value("{\"n\":7}"),
                               .answer = value("{\"headers\":{\"location\":\"/jobs/1\"}}"),
                               .index = -1,
                               .run_id = STR("x"),
                               .key = STR("x:pay:execute"),
                               .now = {INT64_C(1767225600) * SECOND_US}};
    const struct json *answer = answer_sample(plan->steps[0].action.reconcile, says,
                                              output ? value(output) : NULL, &scope, &arena);
    if (!wanted != !answer)
        fail_msg("%s (%s): %s", reconcile, outcome_name(says),
                 answer ? json_text(answer, &arena).ptr : "no answer");
    if (answer)
        assert_string_equal(json_text(answer, &arena).ptr, wanted);
    plan_unref(plan);
    arena_reset(&arena);
}

#define LIST                                                              \
    "{get: s/x, applied: \"size(response.body.data) > 0\", not_applied: " \
    "\"size(response.body.data) == 0\", output: \"${{ response.body.data[0] }}\"}"

/* The form that most services have: a list of what was done under the key. */
static void lists(void **state)
{
    (void)state;
    assert_answer(
        LIST, OUTCOME_APPLIED, "{\"id\":\"ch_1\",\"n\":3}",
        "{\"body\":{\"data\":[{\"id\":\"ch_1\",\"n\":3}]},\"status\":200,\"headers\":{}}");
    assert_answer(LIST, OUTCOME_RETRYABLE, NULL,
                  "{\"body\":{\"data\":[]},\"status\":200,\"headers\":{}}");
    assert_answer(LIST, OUTCOME_UNKNOWN, NULL, "{\"status\":200,\"headers\":{}}");
    assert_answer(LIST, OUTCOME_REFUSED, NULL, NULL); /* nothing says so */
    assert_answer("{get: s/x, applied: \"size(response.body.data) >= 3\"}", OUTCOME_APPLIED, NULL,
                  "{\"body\":{\"data\":[\"sample\",\"sample\",\"sample\"]},\"status\":200,"
                  "\"headers\":{}}");
    assert_answer(
        "{get: s/x, applied: \"response.body.exists(c, c.key == key && c.n == input.n)\"}",
        OUTCOME_APPLIED, NULL,
        "{\"body\":[{\"key\":\"x:pay:execute\",\"n\":7}],\"status\":200,\"headers\":{}}");
    assert_answer("{get: s/x, not_applied: "
                  "\"size(response.body.list.filter(c, c.ok && c.key == key)) == 0\"}",
                  OUTCOME_UNKNOWN, NULL,
                  "{\"body\":{\"list\":[{\"ok\":true,\"key\":\"x:pay:execute\"}]},\"status\":200,"
                  "\"headers\":{}}");
}

#define STATES                                                                                    \
    "{get: s/x, applied: \"response.status == 200 && response.body.state in ['done', 'paid']\", " \
    "in_progress: \"response.body.state == 'pending'\", "                                         \
    "refused: \"response.body.state == 'failed'\", not_applied: \"response.status == 404\"}"

/* A status, and the one word that says what became of it. */
static void states(void **state)
{
    (void)state;
    assert_answer(STATES, OUTCOME_APPLIED, NULL,
                  "{\"status\":200,\"body\":{\"state\":\"done\"},\"headers\":{}}");
    assert_answer(STATES, OUTCOME_IN_PROGRESS, NULL,
                  "{\"body\":{\"state\":\"pending\"},\"status\":200,\"headers\":{}}");
    assert_answer(STATES, OUTCOME_REFUSED, NULL,
                  "{\"body\":{\"state\":\"failed\"},\"status\":200,\"headers\":{}}");
    assert_answer(STATES, OUTCOME_UNKNOWN, NULL,
                  "{\"status\":201,\"body\":{\"state\":\"done\"},\"headers\":{}}");
}

/* Only one of the four is true, also where the first that is would decide. */
static void nothing_else(void **state)
{
    (void)state;
    assert_answer("{get: s/x, applied: \"has(response.body.id)\", in_progress: "
                  "\"!has(response.body.done_at)\"}",
                  OUTCOME_APPLIED, NULL,
                  "{\"body\":{\"id\":\"sample\",\"done_at\":\"sample\"},\"status\":200,"
                  "\"headers\":{}}");
    /* There is none that proves it alone: it is the first. */
    assert_answer("{get: s/x, applied: \"response.body.a == 1\", not_applied: \"true\"}",
                  OUTCOME_APPLIED, NULL, "{\"body\":{\"a\":1},\"status\":200,\"headers\":{}}");
}

/* The parts of an output that is put together, where they are taken from. */
static void outputs(void **state)
{
    (void)state;
    assert_answer("{get: s/x, applied: \"response.body.status == 'ok'\", output: "
                  "{id: \"${{ response.body.charge.id }}\", "
                  "by: \"${{ response.headers.server }}\", text: \"no ${{ response.body.no }}\"}}",
                  OUTCOME_APPLIED, "{\"id\":\"ch_1\",\"more\":true}",
                  "{\"body\":{\"status\":\"ok\",\"charge\":{\"id\":\"ch_1\"},\"no\":\"sample\"},"
                  "\"status\":200,\"headers\":{\"server\":\"sample\"}}");
    /* What it has answered does not outweigh what has to be proven. */
    assert_answer("{get: s/x, applied: \"response.body.status == 'paid'\", "
                  "output: \"${{ response.body }}\"}",
                  OUTCOME_APPLIED, "{\"status\":\"accepted\",\"id\":\"ch_1\"}",
                  "{\"body\":{\"status\":\"paid\",\"id\":\"ch_1\"},\"status\":200,\"headers\":{}}");
}

/* Statements and programs answer in their own words. */
static void kinds(void **state)
{
    (void)state;
    assert_answer("{sql: \"select 1\", applied: \"response.count == 2\", not_applied: "
                  "\"response.count == 0\"}",
                  OUTCOME_APPLIED, NULL,
                  "{\"count\":2,\"sqlstate\":\"\",\"rows\":[\"sample\",\"sample\"]}");
    assert_answer("{sql: \"select 1\", applied: \"response.rows[0].done\", not_applied: "
                  "\"response.count == 0\"}",
                  OUTCOME_RETRYABLE, NULL, "{\"count\":0,\"rows\":[],\"sqlstate\":\"\"}");
    assert_answer("{sql: \"select 1\", applied: \"response.rows[0].done\", output: "
                  "\"${{ response.rows[0] }}\"}",
                  OUTCOME_APPLIED, NULL,
                  "{\"rows\":[{\"done\":true}],\"count\":1,\"sqlstate\":\"\"}");
    assert_answer("{exec: [ask], applied: \"response.exit == 0\", not_applied: "
                  "\"response.exit == 3\"}",
                  OUTCOME_RETRYABLE, NULL, "{\"exit\":3,\"stdout\":\"sample\",\"stderr\":\"\"}");
    assert_answer("{exec: [ask], applied: \"response.stdout.startsWith('done')\", not_applied: "
                  "\"response.stdout == 'none'\"}",
                  OUTCOME_APPLIED, NULL, "{\"stdout\":\"done\",\"exit\":0,\"stderr\":\"\"}");
}

/* No answer is read that the engine would not read; what takes arithmetic is not found. */
static void not_found(void **state)
{
    (void)state;
    assert_answer("{get: s/x, applied: \"response.status == 503\"}", OUTCOME_APPLIED, NULL, NULL);
    assert_answer("{get: s/x, applied: \"response.body.a * 7 == 42\"}", OUTCOME_APPLIED, NULL,
                  NULL);
    assert_answer("{get: s/x, applied: \"response.body.a == 1 && response.body.a == 2\"}",
                  OUTCOME_APPLIED, NULL, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists),   cmocka_unit_test(states), cmocka_unit_test(nothing_else),
        cmocka_unit_test(outputs), cmocka_unit_test(kinds),  cmocka_unit_test(not_found),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    arena_free(&arena);
    return failed;
}
