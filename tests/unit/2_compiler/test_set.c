/*
 * Workflows that run each other, looked at together.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "dsl/dsl.h"
#include "dsl/set.h"

#define MEMBERS_MAX 8

static struct plan *compile(const char *source, struct diags *diags)
{
    diags_init(diags, "t.yaml", str_z(source));
    struct plan *plan = dsl_compile(str_z(source), NULL, diags);
    if (!plan) {
        struct buf said = {0};
        diags_print(diags, false, &said);
        fail_msg("%s", said.data);
    }
    return plan;
}

/* `sources` ends with NULL; the last `known` of them are not members. `said` is what is said of
 * the members, one line for each diagnostic. */
static void check(const char *const *sources, size_t known, const char *said)
{
    struct dsl_member members[MEMBERS_MAX] = {0};
    const struct plan *others[MEMBERS_MAX] = {NULL};
    struct diags diags[MEMBERS_MAX];
    struct plan *plans[MEMBERS_MAX];
    struct buf text = {0};
    size_t count = 0;
    for (; sources[count]; count++) {
        assert_true(count < MEMBERS_MAX);
        plans[count] = compile(sources[count], &diags[count]);
        members[count] = (struct dsl_member){plans[count], &diags[count]};
    }
    for (size_t i = 0; i < known; i++)
        others[i] = plans[count - known + i];
    dsl_set_check(NULL, members, count - known, &(struct workflows){others, known});
    for (size_t i = 0; i < count - known; i++)
        for (uint32_t d = 0; d < diags[i].count; d++) {
            const struct diag *diag = &diags[i].list[d];
            buf_printf(&text, "%s %u:%u+%u %s " STR_FMT "%s" STR_FMT "\n", plans[i]->workflow,
                       diag->line, diag->column, diag->span, diag->code, STR_ARG(diag->message),
                       diag->help.ptr ? " | " : "", STR_ARG(diag->help));
        }
    assert_string_equal(buf_str(&text).len ? text.data : "", said);
    for (size_t i = 0; i < count; i++) {
        plan_unref(plans[i]);
        diags_free(&diags[i]);
    }
    buf_free(&text);
}

#define HEAD(name) "workflow: " name "\nrun_id: " name "-${{ input.id }}\n"

static const char booking[] =
    HEAD("booking") "input:\n"
                    "  type: object\n"
                    "  required: [id, seats]\n"
                    "  properties: {id: {type: string}, seats: {type: integer, minimum: 1}}\n"
                    "  additionalProperties: false\n"
                    "steps: [{id: a, action: {sleep: 1s}}]\n";

static void fits(void **state)
{
    const char *const sources[] = {
        HEAD("trip") "steps:\n"
                     "  - id: book\n"
                     "    action: {child: booking, input: {id: \"x-${{ input.id }}\", seats: \"${{ "
                     "input.n }}\"}}\n"
                     "  - {id: all, action: {child: booking, input: \"${{ input }}\"}}\n",
        booking, NULL};
    (void)state;
    check(sources, 0, "");
    check(sources, 1, ""); /* known before */
}

static void unknown_children(void **state)
{
    const char *const sources[] = {HEAD("trip") "steps:\n"
                                                "  - {id: a, action: {child: bookin, input: {}}}\n"
                                                "  - id: b\n"
                                                "    action:\n"
                                                "      child: \"elsewhere\"\n",
                                   booking, NULL};
    (void)state;
    check(sources, 1,
          "trip 4:29+6 W315 no workflow `bookin` is known here | a workflow with a similar name "
          "exists: `booking`\n"
          "trip 7:15+9 W315 no workflow `elsewhere` is known here | until it is applied the step "
          "is refused\n");
}

static void inputs_that_cannot_fit(void **state)
{
    const char *const sources[] = {
        HEAD("trip") "steps:\n"
                     "  - {id: a, action: {child: booking}}\n"
                     "  - {id: b, action: {child: booking, input: {id: 7, seats: 0, extra: 1}}}\n"
                     "  - {id: c, action: {child: booking, input: {id: [x], seats: \"s${{ input.n "
                     "}}\"}}}\n",
        booking, NULL};
    (void)state;
    check(sources, 0,
          "trip 4:29+7 E129 the input of `booking` does not fit: /id is required\n"
          "trip 4:29+7 E129 the input of `booking` does not fit: /seats is required\n"
          "trip 5:29+7 E129 the input of `booking` does not fit: /extra is not expected here\n"
          "trip 5:29+7 E129 the input of `booking` does not fit: /id must be text, not a number\n"
          "trip 5:29+7 E129 the input of `booking` does not fit: /seats must be at least 1\n"
          "trip 6:29+7 E129 the input of `booking` does not fit: /id cannot be a list\n"
          "trip 6:29+7 E129 the input of `booking` does not fit: /seats cannot be text\n");
}

static void without_end(void **state)
{
    const char *const alone[] = {HEAD("a") "steps: [{id: again, action: {child: a}}]\n", NULL};
    const char *const three[] = {HEAD("a") "steps: [{id: s, action: {child: b}}]\n",
                                 HEAD("b") "steps: [{id: s, action: {child: c, detached: true}}]\n",
                                 HEAD("c") "steps: [{id: s, action: {child: a}}]\n", NULL};
    const char *const ends[] = {
        HEAD("a") "steps: [{id: s, action: {child: b}}]\n",
        HEAD("b") "steps: [{id: s, if: input.deeper, action: {child: a}}]\n",
        HEAD("c") "steps: [{id: s, for_each: input.parts, action: {child: c}}]\n",
        HEAD("d") "steps: [{id: s, action: {child: a}}]\n", NULL};
    (void)state;
    check(alone, 0,
          "a 3:37+1 E307 `a` starts `a`: without end | say with `if` when it is enough\n");
    check(three, 0,
          "a 3:33+1 E307 `a` starts `b`, which starts `c`, which starts `a`: without end | say "
          "with `if` when it is enough\n"
          "b 3:33+1 E307 `b` starts `c`, which starts `a`, which starts `b`: without end | say "
          "with `if` when it is enough\n"
          "c 3:33+1 E307 `c` starts `a`, which starts `b`, which starts `c`: without end | say "
          "with `if` when it is enough\n");
    check(three, 2, /* a is applied anew, b and c are there */
          "a 3:33+1 E307 `a` starts `b`, which starts `c`, which starts `a`: without end | say "
          "with `if` when it is enough\n");
    check(ends, 0, "");
}

/* A member stands for its name, whatever was known under it before. */
static void members_come_first(void **state)
{
    const char *const sources[] = {HEAD("trip") "steps: [{id: s, action: {child: booking}}]\n",
                                   HEAD("booking") "steps: [{id: s, action: {sleep: 1s}}]\n",
                                   booking, NULL};
    (void)state;
    check(sources, 1, "");
}

/* What is known goes through children of children; where they run each other it ends. */
static void outputs_of_children(void **state)
{
    const char *const nested[] = {
        HEAD("a") "steps: [{id: s, action: {child: b}}]\n"
                  "output: {n: \"${{ steps.s.output.of.n + 1 }}\",\n"
                  "  m: \"${{ steps.s.output.of.x }}\"}\n",
        HEAD("b") "steps: [{id: s, action: {child: c}}]\n"
                  "output: {of: \"${{ steps.s.output }}\"}\n",
        HEAD("c") "steps: [{id: s, action: {sleep: 1s}}]\noutput: {n: one}\n", NULL};
    const char *const circle[] = {
        HEAD("a") "steps: [{id: s, if: input.deeper, action: {child: b}}]\n"
                  "output: {n: \"${{ default(steps.s.output.n, 1) }}\",\n"
                  "  t: \"${{ [default(steps.s.output.t, 1), default(steps.s.output.t, 2)] }}\"}\n",
        HEAD("b") "steps: [{id: s, action: {child: a}}]\n"
                  "output: {n: \"${{ steps.s.output.n }}\",\n"
                  "  t: \"${{ [steps.s.output.t, steps.s.output.t] }}\"}\n",
        HEAD("c") "steps:\n"
                  "  - {id: s, action: {child: b}}\n"
                  "  - {id: t, if: \"steps.s.output.n.any == 1 && size(steps.s.output.t) > 0\", "
                  "action: {sleep: 1s}}\n"
                  "  - {id: u, if: steps.s.output.u == 1, action: {sleep: 1s}}\n",
        NULL};
    const char *const unknown[] = {
        HEAD("a") "steps: [{id: s, action: {child: gone}}]\n"
                  "output: {n: \"${{ steps.s.output.any.thing + 1 }}\"}\n",
        NULL};
    (void)state;
    check(nested, 0,
          "a 4:18+23 E206 text and a number cannot be added | string(x) makes text of a number, "
          "int(x) a number of text\n"
          "a 5:29+1 E204 unknown field `x` of `steps.s.output.of` | it has `n`\n");
    check(circle, 0, "c 6:32+1 E204 unknown field `u` of `steps.s.output` | it has `n`, `t`\n");
    check(unknown, 0,
          "a 3:33+4 W315 no workflow `gone` is known here | until it is applied the step is "
          "refused\n");
}

/* Files with errors of their own have no plan. */
static void without_plan(void **state)
{
    struct dsl_member members[] = {{NULL, NULL}};
    (void)state;
    dsl_set_check(NULL, members, 1, NULL);
    dsl_set_check(NULL, NULL, 0, NULL);
    dsl_set_parents_check(NULL, members, 1, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fits),
        cmocka_unit_test(unknown_children),
        cmocka_unit_test(inputs_that_cannot_fit),
        cmocka_unit_test(without_end),
        cmocka_unit_test(members_come_first),
        cmocka_unit_test(outputs_of_children),
        cmocka_unit_test(without_plan),
    };
    return cmocka_run_group_tests_name("set", tests, NULL, NULL);
}
