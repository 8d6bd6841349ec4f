/*
 * test_repin.c: which versions of a workflow a run may go on under.
 *
 * The run has done `a` and stands at `b`, which was refused under `on_failure: park`.
 */
#include "dsl/dsl.h"
#include "engine/decide.h"
#include "engine/repin.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define HEAD                                                                      \
    "workflow: w\nservices:\n"                                                    \
    "  s: {url: \"http://s\", idempotency: {header: Idempotency-Key, ttl: 1h}}\n" \
    "  q: {url: \"http://s\", idempotency: {query: key, ttl: 1h}}\n"
#define A "  - {id: a, action: {post: s/a}, compensate: {post: s/undo-a}}\n"
#define B "  - {id: b, action: {post: s/b}, on_failure: park, compensate: {post: s/undo-b}}\n"
#define C "  - {id: c, action: {post: s/c}, compensate: {post: s/undo-c}}\n"

static struct plan *compile(const char *yaml)
{
    struct diags diags;
    diags_init(&diags, "w.yaml", str_z(yaml));
    struct plan *plan = dsl_compile(str_z(yaml), NULL, &diags);
    if (!plan) {
        struct buf text = {0};
        diags_print(&diags, false, &text);
        fail_msg("%s\n%s", yaml, text.data);
    }
    diags_free(&diags);
    return plan;
}

static void decide(struct run *run, struct run_event *event, struct run_decision *out)
{
    static struct arena scratch; /* what was decided is looked at before the next call */
    arena_reset(&scratch);
    event->now = (struct wall){INT64_C(1790000000) * SECOND_US};
    run_decide(run, event, &scratch, out);
}

static void reply(struct run *run, uint16_t step, int status)
{
    struct run_decision decision;
    struct reply answer = {.kind = REPLY_HTTP, .status = status};
    struct run_event event = {.kind = EVENT_REPLY};
    const struct effect_state *side = &run->instances[step].execute;
    event.reply.ref = (struct effect_ref){step, STR(""), DIRECTION_EXECUTE, side->generation};
    event.reply.attempt = side->attempts;
    event.reply.reply = &answer;
    decide(run, &event, &decision);
}

/* `b_status` 0: b is in flight. */
static struct run *stand(const char *yaml, int b_status)
{
    struct plan *plan = compile(yaml);
    struct run *run = run_new(plan, STR("r1"));
    struct run_decision decision;
    struct run_event event = {.kind = EVENT_START, .start = {.input = STR("{\"n\": 1}")}};
    plan_unref(plan);
    decide(run, &event, &decision);
    reply(run, 0, 200);
    if (b_status)
        reply(run, 1, b_status);
    return run;
}

static void check(const char *to_yaml, int b_status, const char *problem)
{
    struct run *run = stand(HEAD "steps:\n" A B C, b_status);
    struct plan *to = compile(to_yaml);
    struct err err = {0};
    int code = repin_check(run, to, &err);
    if (problem) {
        assert_int_equal(ERR_CONFLICT, code);
        assert_string_equal(problem, err.text);
    } else if (code) {
        fail_msg("%s", err.text);
    }
    plan_unref(to);
    run_free(run);
}

static void what_fits(void **state)
{
    (void)state;
    check(HEAD "steps:\n" A B C, 422, NULL);
    check(HEAD "steps:\n" A B, 422, NULL); /* what has not run may go */
    check(HEAD "steps:\n" A B "  - {id: d, action: {get: s/d}}\n" C, 422, NULL);
    /* another request, another compensation, for what is still to come */
    check(HEAD "steps:\n"
               "  - {id: a, action: {post: s/other}, compensate: {put: s/other-undo, effect: "
               "compensable}}\n" B C,
          422, NULL);
    check(HEAD "input: {type: object, properties: {n: {type: integer}}}\nsteps:\n" A B C, 422,
          NULL);
}

static void what_does_not(void **state)
{
    (void)state;
    check("workflow: v\nservices: {s: {url: \"http://s\"}}\nsteps:\n" A B, 422,
          "that version belongs to the workflow \"v\"");
    check(HEAD "steps:\n" B C, 422, "step \"a\" has run and is not there any more");
    check(HEAD "steps:\n  - {id: a, effect: idempotent, action: {post: s/a}, compensate: {post: "
               "s/u}}\n" B,
          422, "the action of step \"a\" has run as compensable and is idempotent there");
    check(HEAD "steps:\n  - {id: a, pivot: true, action: {post: s/a}, compensate: {post: s/u}}\n" B,
          422, "step \"a\" has run and is a pivot there");
    check(HEAD "steps:\n  - {id: a, for_each: \"[1, 2]\", action: {post: s/a}, compensate: {post: "
               "s/u}}\n" B,
          422, "the items of step \"a\" would have other keys");
    check(HEAD "steps:\n  - {id: new, action: {get: s/new}}\n" A B, 422,
          "step \"new\" has not run and stands there before \"a\", which has");
    check(HEAD "input: {type: object, properties: {n: {type: string}}}\nsteps:\n" A B, 422,
          "the run's input does not fit there: /n must be text, not a number");
    check(HEAD "steps:\n" A B, 0, "the action of step \"b\" is in flight");
    /* 503: it is tried again under its key */
    check(HEAD "steps:\n" A "  - {id: b, action: {post: q/b}, compensate: {post: s/u}}\n", 503,
          "the action of step \"b\" has been sent and would pass its key in another way");
    check(HEAD "steps:\n" A "  - {id: b, effect: compensable, action: {exec: [x]}, compensate: "
               "{post: s/u}}\n",
          503, "the action of step \"b\" has been sent by http and is exec there");
}

/* The verb: only of a run that rests; nothing is written by a dry run; what is written says what it
 * was and is. */
static void the_verb(void **state)
{
    struct run *run = stand(HEAD "steps:\n" A B C, 422);
    struct plan *to = compile(HEAD "steps:\n" A B);
    struct run_decision decision;
    struct run_event event = {.kind = EVENT_MIGRATE};
    (void)state;
    event.verb.plan = to;
    event.verb.reason = STR("b was wrong");
    event.verb.dry_run = true;
    decide(run, &event, &decision);
    assert_int_equal(0, decision.answer.code);
    assert_int_equal(0, decision.records_count);
    event.verb.dry_run = false;
    decide(run, &event, &decision);
    assert_int_equal(0, decision.answer.code);
    assert_int_equal(2, decision.records_count);
    assert_int_equal(RECORD_PIN, decision.records[0].kind);
    assert_ptr_equal(to, decision.records[0].pin.plan);
    assert_true(decision.reload);
    run_free(run);
    run = stand(HEAD "steps:\n" A B C, 0);
    decide(run, &event, &decision);
    assert_int_equal(ERR_CONFLICT, decision.answer.code);
    assert_string_equal("the run is running: pause it first", decision.answer.text);
    run_free(run);
    plan_unref(to);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_fits),
        cmocka_unit_test(what_does_not),
        cmocka_unit_test(the_verb),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
