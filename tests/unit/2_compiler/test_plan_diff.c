/*
 * What changes between two versions of a workflow is told by the key that changed, and what follows
 * from it where no text did.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "dsl/dsl.h"
#include "dsl/plan_diff.h"

static const char base[] =
    "workflow: w\n"
    "run_id: x\n"
    "deadline: 10m\n"
    "services:\n"
    "  s: {url: \"http://127.0.0.1:1\", idempotency: {header: K, ttl: 1d}, timeout: 5s}\n"
    "defaults: {retry: {attempts: 3}}\n"
    "steps:\n"
    "  - {id: a, action: {post: s/a, body: {n: 1, m: 2}}, compensate: {delete: s/a}}\n"
    "  - {id: b, action: {post: s/b}, compensate: {delete: s/b}, retry: {attempts: 7}}\n"
    "  - {id: c, needs: [a, b], action: {get: s/c}}\n";

static struct plan *compile(struct str text)
{
    struct diags diags;
    struct buf report = {0};
    diags_init(&diags, "w.yaml", text);
    struct plan *plan = dsl_compile(text, NULL, &diags);
    diags_print(&diags, false, &report);
    if (!plan)
        fail_msg("%s", report.data);
    buf_free(&report);
    diags_free(&diags);
    return plan;
}

/* Each change on a line: "step a action.body.n 1 -> 2", with "*" for what follows. */
static struct str diff_text(const struct plan *before, const struct plan *after,
                            struct arena *arena)
{
    struct plan_changes changes;
    struct buf out = {0};
    plan_diff(before, after, arena, &changes);
    for (uint32_t i = 0; i < changes.count; i++) {
        const struct plan_change *change = &changes.list[i];
        buf_printf(&out, "%s%s%s%s%s", plan_part_name(change->part), change->name.len ? " " : "",
                   change->name.ptr, change->key.len ? " " : "", change->key.ptr);
        if (change->key.len)
            buf_printf(&out, ": %s -> %s", change->before.ptr ? change->before.ptr : "(none)",
                       change->after.ptr ? change->after.ptr : "(none)");
        else
            buf_add_z(&out, !change->before.ptr ? " added"
                            : change->after.ptr ? " other"
                                                : " gone");
        buf_add_z(&out, change->follows ? "*\n" : "\n");
    }
    struct str text = arena_str(arena, buf_str(&out));
    buf_free(&out);
    return text;
}

/* `from` in the base becomes `to`. */
static void assert_diff(const char *from, const char *to, const char *wanted)
{
    struct arena arena = {0};
    struct buf other = {0};
    const char *at = strstr(base, from);
    assert_non_null(at);
    buf_add(&other, base, (size_t)(at - base));
    buf_add_z(&other, to);
    buf_add_z(&other, at + strlen(from));
    struct plan *before = compile(str_z(base)), *after = compile(buf_str(&other));
    assert_string_equal(diff_text(before, after, &arena).ptr, wanted);
    plan_unref(before);
    plan_unref(after);
    buf_free(&other);
    arena_free(&arena);
}

static void nothing(void **state)
{
    (void)state;
    assert_diff("deadline: 10m\n", "deadline: 10m # ten\n", "");
    assert_diff("deadline: 10m\n", "deadline: 10m\nx-note: {a: 1}\ntests: []\n", "");
    assert_diff("body: {n: 1, m: 2}", "body: {m: 2, n: 1}", "");
}

static void keys(void **state)
{
    (void)state;
    assert_diff("deadline: 10m\n", "deadline: 5m\n", "workflow deadline: 10m -> 5m\n");
    assert_diff("deadline: 10m\n", "", "workflow deadline: 10m -> (none)\n");
    assert_diff("deadline: 10m\n", "deadline: 10m\noutput: {n: 1}\n",
                "workflow output: (none) -> {\"n\":1}\n");
    assert_diff("body: {n: 1,", "body: {n: 9,", "step a action.body.n: 1 -> 9\n");
    assert_diff("retry: {attempts: 7}", "retry: {attempts: 4}", "step b retry.attempts: 7 -> 4\n");
    assert_diff("retry: {attempts: 7}", "retry: {attempts: 7}, dry_run: {get: s/b}",
                "step b dry_run: (none) -> {\"get\":\"s/b\"}\n");
}

static void steps(void **state)
{
    (void)state;
    assert_diff("  - {id: c, needs: [a, b], action: {get: s/c}}\n", "", "step c gone\n");
    assert_diff("  - {id: c, needs: [a, b], action: {get: s/c}}\n",
                "  - {id: c, needs: [a, b], action: {get: s/c}}\n"
                "  - {id: d, action: {get: s/d}}\n",
                "step d added\n");
    /* b stands after the new step, though nobody touched b */
    assert_diff("  - {id: b,", "  - {id: n, action: {get: s/n}}\n  - {id: b,",
                "step n added\nstep b needs: a -> n*\n");
}

static void what_follows(void **state)
{
    (void)state;
    assert_diff("attempts: 3", "attempts: 5",
                "workflow defaults.retry.attempts: 3 -> 5\n"
                "step a retry: 3 attempts, 1s x 2.0 up to 1m, jitter 20%, budget 1h -> "
                "5 attempts, 1s x 2.0 up to 1m, jitter 20%, budget 1h*\n"
                "step c retry: 3 attempts, 1s x 2.0 up to 1m, jitter 20%, budget 1h -> "
                "5 attempts, 1s x 2.0 up to 1m, jitter 20%, budget 1h*\n");
    assert_diff("timeout: 5s", "timeout: 9s",
                "service s timeout: 5s -> 9s\n"
                "step a timeout: 5s -> 9s*\nstep a compensate.timeout: 5s -> 9s*\n"
                "step b timeout: 5s -> 9s*\nstep b compensate.timeout: 5s -> 9s*\n"
                "step c timeout: 5s -> 9s*\n");
    assert_diff("action: {get: s/c}", "action: {put: s/c}, compensate: {delete: s/c}",
                "step c action.put: (none) -> s/c\nstep c action.get: s/c -> (none)\n"
                "step c compensate: (none) -> {\"delete\":\"s/c\"}\n"
                "step c effect: pure -> compensable*\n");
    assert_diff(", ttl: 1d", "",
                "service s idempotency.ttl: 1d -> (none)\n"
                "step a keys: 1d -> not honoured*\nstep b keys: 1d -> not honoured*\n"
                "step c keys: 1d -> not honoured*\n");
}

static void services(void **state)
{
    (void)state;
    assert_diff("defaults:", "  t: {url: \"http://127.0.0.1:2\"}\ndefaults:", "service t added\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing),  cmocka_unit_test(keys),         cmocka_unit_test(steps),
        cmocka_unit_test(services), cmocka_unit_test(what_follows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
