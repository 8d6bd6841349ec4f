/*
 * Large workflow files: what the compiler takes for 500 steps beside what reading the YAML alone
 * takes, and that it takes no more of a step, or of a byte, in a large file than in a small one.
 * Times are compared within one run only, the best of several each, so that any machine may judge.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <yaml.h>

#include "dsl/dsl.h"
#include "dsl/lint.h"

#define ROUNDS 9

/* libyaml is built as the distribution does: a build for finding mistakes is not compared with it,
 * nor is its memory measured. */
#if defined(__SANITIZE_ADDRESS__) || !defined(__OPTIMIZE__)
#define COMPARABLE false
#else
#define COMPARABLE true
#endif

static const char head[] =
    "workflow: big\nrun_id: big-${{ input.id }}\n"
    "services: {s: {url: \"http://h\", idempotency: {header: K, ttl: 1d}}}\n";

/* --- the files --- */

static void steps_write(struct buf *out, int count)
{
    buf_add_z(out, head);
    buf_add_z(out, "steps:\n");
    for (int i = 0; i < count; i++) {
        buf_printf(out,
                   "  - id: step_%d\n"
                   "    action:\n"
                   "      post: s/things/${{ input.id }}\n"
                   "      query: {a: \"${{ input.a }}\"}\n",
                   i);
        if (i)
            buf_printf(out,
                       "      body: {n: \"${{ input.n + %d }}\", "
                       "prev: \"${{ default(steps.step_%d.output.id, omit) }}\"}\n",
                       i, i - 1);
        buf_printf(out,
                   "      outcomes: [{when: \"response.status == 429 && "
                   "response.body.code == 'quota'\", is: refused}]\n"
                   "    compensate: {delete: \"s/things/${{ input.id }}/%d\"}\n"
                   "    retry: {attempts: 5, delay: 1s, budget: 2m}\n",
                   i);
    }
}

static void line_write(struct buf *out, int count) /* all in one line, as JSON is written */
{
    buf_add_z(out, "{workflow: w, services: {s: {url: \"http://h\"}}, steps: [");
    for (int i = 0; i < count; i++)
        buf_printf(out,
                   "{id: s%d, effect: pure, action: {post: \"s/${{ input.id }}\", "
                   "body: {\"\xC3\xA9\": \"${{ input.x }}\"}}}, ",
                   i);
    buf_add_z(out, "]}\n");
}

static void wrong_line_write(struct buf *out, int count)
{
    buf_add_z(out, "{workflow: w, steps: [");
    for (int i = 0; i < count; i++)
        buf_printf(out, "{id: s%d, foo: *nope, if: \"${{ inpt.\xC3\xA9 }}\"}, ", i);
    buf_add_z(out, "]}\n");
}

/* Each step is one that no pivot precedes and that others follow: rules look back and ahead. */
static void irreversible_write(struct buf *out, int count)
{
    buf_add_z(out, head);
    buf_add_z(out, "steps:\n");
    for (int i = 0; i < count; i++)
        buf_printf(out,
                   "  - {id: s%d, on_failure: continue, effect: irreversible, action: {post: "
                   "s/a}}\n",
                   i);
}

static void unknown_steps_write(struct buf *out, int count)
{
    buf_add_z(out, head);
    buf_add_z(out, "steps:\n");
    for (int i = 0; i < count; i++) {
        buf_printf(out, "  - {id: reserve_stock_%d, effect: pure, action: {post: s/a, body: [", i);
        for (int j = 0; j < 20; j++)
            buf_printf(out, "\"${{ steps.reserve_stick_%dx%d.output }}\", ", i, j);
        buf_add_z(out, "]}}\n");
    }
}

static void aliases_write(struct buf *out, int count)
{
    buf_add_z(out, head);
    buf_add_z(out, "x-a: &a 1\nx-b: [");
    for (int i = 0; i < count; i++)
        buf_add_z(out, "*a, ");
    buf_add_z(out, "]\nsteps: [{id: a, effect: pure, action: {post: s/a}}]\n");
}

static void one_step_write(struct buf *out, const char *before, const char *repeated, int count,
                           const char *after)
{
    buf_add_z(out, head);
    buf_printf(out, "steps:\n  - id: a\n    effect: pure\n    action:\n      %s", before);
    for (int i = 0; i < count; i++)
        buf_add_z(out, repeated);
    buf_add_z(out, after);
}

static void path_write(struct buf *out, int count)
{
    one_step_write(out, "post: s/", "abcdefgh", count, "\n");
}

static void wrong_path_write(struct buf *out, int count)
{
    one_step_write(out, "post: \"s/", "<", count, "\"\n");
}

static void foreign_write(struct buf *out, int count)
{
    one_step_write(out, "post: s/a\n      text: |\n", "        {{ a }}\n", count, "");
}

/* --- measuring --- */

static double now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static double compile_ms(const struct buf *source)
{
    struct diags diags;
    diags_init(&diags, "t.yaml", buf_str(source));
    double from = now_ms();
    struct plan *plan = dsl_compile(buf_str(source), NULL, &diags);
    double ms = now_ms() - from;
    plan_unref(plan);
    diags_free(&diags);
    return ms;
}

static double libyaml_ms(const struct buf *source)
{
    yaml_parser_t parser;
    yaml_event_t event;
    bool more = true;
    double from = now_ms();
    assert_int_equal(yaml_parser_initialize(&parser), 1);
    yaml_parser_set_encoding(&parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&parser, (const unsigned char *)source->data, source->len);
    while (more) {
        assert_int_equal(yaml_parser_parse(&parser, &event), 1);
        more = event.type != YAML_STREAM_END_EVENT;
        yaml_event_delete(&event);
    }
    yaml_parser_delete(&parser);
    return now_ms() - from;
}

static double best_ms(void (*write)(struct buf *out, int count), int count, size_t *bytes)
{
    struct buf source = {0};
    double best = 0;
    write(&source, count);
    for (int i = 0; i < ROUNDS; i++) {
        double ms = compile_ms(&source);
        best = i ? MIN(best, ms) : ms;
    }
    *bytes = source.len;
    buf_free(&source);
    return best;
}

static long peak_kib(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
}

/* --- tests --- */

/* A file of 500 steps is compiled within 20 MiB, and the plan is whole. Runs first: the memory that
 * other files took would count as there already. */
static void large_file(void **state)
{
    struct buf source = {0}, schedule = {0};
    struct diags diags;
    (void)state;
    steps_write(&source, PLAN_STEPS_MAX);
    diags_init(&diags, "t.yaml", buf_str(&source));
    long before_kib = peak_kib();
    double from = now_ms();
    struct plan *plan = dsl_compile(buf_str(&source), NULL, &diags);
    double ms = now_ms() - from;
    long taken_kib = peak_kib() - before_kib;
    assert_non_null(plan);
    print_message("500 steps, %zu KiB: the first time %.1f ms, plan %zu KiB, peak %ld KiB\n",
                  source.len / 1024, ms, plan->plan_arena.used_bytes / 1024, taken_kib);
    assert_int_equal(plan->steps_count, PLAN_STEPS_MAX);
    assert_true(plan->plan_arena.used_bytes > source.len); /* it holds the source */
    assert_true(!COMPARABLE || taken_kib < 20 * 1024);
    dsl_print_schedule(plan, &schedule);
    assert_non_null(strstr(schedule.data, "undoes step_498, step_497"));
    assert_non_null(strstr(schedule.data, "... (499 in all)"));
    buf_free(&schedule);
    plan_unref(plan);
    diags_free(&diags);
    buf_free(&source);
}

/* What was freed is kept, so that no time goes into getting memory from the kernel: what that costs
 * differs by the machine, and begins where a file is large. */
static void memory_keep(void)
{
    mallopt(M_MMAP_THRESHOLD, 16 * 1024 * 1024);
    mallopt(M_TRIM_THRESHOLD, 256 * 1024 * 1024);
}

/* Everything together takes less than three times what libyaml takes for its events alone. */
static void beside_libyaml(void **state)
{
    struct buf source = {0};
    double compile = 0, bare = 0;
    (void)state;
    memory_keep();
    steps_write(&source, PLAN_STEPS_MAX);
    for (int i = 0; i < ROUNDS; i++) { /* by turns: both meet the same neighbours */
        double one = compile_ms(&source), other = libyaml_ms(&source);
        compile = i ? MIN(compile, one) : one;
        bare = i ? MIN(bare, other) : other;
    }
    print_message("500 steps, with memory at hand: %.1f ms, of which libyaml %.1f ms\n", compile,
                  bare);
    assert_true(!COMPARABLE || compile < 3 * bare);
    buf_free(&source);
}

/* Ten times the steps, or sixteen times a text, take about as many times as long: with the square
 * of the size it would be as many times more again. */
static void growth(void **state)
{
    static const struct {
        const char *name;
        void (*write)(struct buf *out, int count);
        int small, large;
    } files[] = {
        {"steps", steps_write, 50, 500},
        {"steps in one line", line_write, 50, 500},
        {"mistakes in one line", wrong_line_write, 50, 500},
        {"irreversible steps", irreversible_write, 50, 500},
        {"unknown steps", unknown_steps_write, 50, 500},
        {"aliases", aliases_write, 1000, 16000},
        {"a path", path_write, 1000, 16000},
        {"mistakes in a path", wrong_path_write, 4000, 64000},
        {"foreign templates", foreign_write, 1000, 16000},
    };
    (void)state;
    memory_keep();
    for (size_t i = 0; i < ARRAY_LEN(files); i++) {
        size_t small_bytes, large_bytes;
        double small = best_ms(files[i].write, files[i].small, &small_bytes);
        double large = best_ms(files[i].write, files[i].large, &large_bytes);
        double size = (double)large_bytes / (double)small_bytes;
        print_message("%-22s %7zu bytes %6.2f ms, %4.1f times the bytes %4.1f times the time\n",
                      files[i].name, large_bytes, large, size, large / small);
        if (large / small > 3 * size)
            fail_msg("%s: %.1f times the bytes take %.1f times as long", files[i].name, size,
                     large / small);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(large_file),
        cmocka_unit_test(beside_libyaml),
        cmocka_unit_test(growth),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
