/*
 * bench_decide.c: what one decision costs in a long run: at the beginning and at the end of a loop
 * of 10,000 items, of its way back, and of a sequence of 500 steps; and what the items cost in
 * memory. The core alone: no database, no network.
 */
#include "dsl/dsl.h"
#include "engine/decide.h"
#include "engine/group.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define ITEMS 10000
#define WINDOW 200 /* transitions that one figure is the median of */
#define STEPS 500
#define ROUNDS 40 /* of the sequence, which is short */

struct bench {
    struct plan *plan;
    struct run *run;
    struct wall now;
    struct arena scratch;
    struct run_decision decision;
    double *costs; /* microseconds, by transition */
    uint32_t costs_count;
};

static double cpu_us(void)
{
    struct timespec at;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &at);
    return (double)at.tv_sec * 1e6 + (double)at.tv_nsec / 1e3;
}

static struct plan *plan_make(const struct buf *yaml)
{
    struct diags diags;
    diags_init(&diags, "bench.yaml", buf_str(yaml));
    struct plan *plan = dsl_compile(buf_str(yaml), NULL, &diags);
    if (!plan) {
        struct buf text = {0};
        diags_print(&diags, false, &text);
        fputs(text.data, stderr);
        exit(1);
    }
    diags_free(&diags);
    return plan;
}

static void decide(struct bench *bench, struct run_event *event)
{
    arena_reset(&bench->scratch);
    bench->now.us += 1000;
    event->now = bench->now;
    double begun = cpu_us();
    run_decide(bench->run, event, &bench->scratch, &bench->decision);
    bench->costs[bench->costs_count++] = cpu_us() - begun;
}

/* What was sent is answered, oldest first, and what is due is done, until nothing more follows. */
struct sent {
    struct effect_ref ref;
    uint32_t attempt;
};

static void play(struct bench *bench, struct str input, const char *refuses)
{
    static struct sent sent[ITEMS * 4];
    uint32_t first = 0, last = 0;
    struct run_event event = {.kind = EVENT_START};
    bench->run = run_new(bench->plan, STR("bench"));
    bench->costs_count = 0;
    event.start.input = input;
    for (;;) {
        decide(bench, &event);
        for (uint32_t i = 0; i < bench->decision.commands_count; i++) {
            const struct run_command *command = &bench->decision.commands[i];
            struct instance *instance =
                run_instance(bench->run, command->ref.step, command->ref.item);
            sent[last] = (struct sent){command->ref, command->attempt};
            sent[last++].ref.item = instance->item; /* lives as long as the run */
        }
        struct wall due = run_due(bench->run);
        if (wall_is_set(due) && due.us <= bench->now.us) {
            event = (struct run_event){.kind = EVENT_DUE};
            continue;
        }
        if (first == last)
            return;
        const struct sent *next = &sent[first++];
        bool refused = refuses && next->ref.direction == DIRECTION_EXECUTE &&
                       strcmp(bench->plan->steps[next->ref.step].id, refuses) == 0;
        static struct reply reply;
        reply = (struct reply){.kind = REPLY_HTTP, .status = refused ? 422 : 200};
        reply.body = STR("{\"id\":\"0123456789abcdef\"}");
        event = (struct run_event){.kind = EVENT_REPLY};
        event.reply.ref = next->ref;
        event.reply.attempt = next->attempt;
        event.reply.reply = &reply;
    }
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double median_at(const struct bench *bench, uint32_t center, uint32_t window)
{
    static double copy[ITEMS * 4];
    uint32_t from = center > window / 2 ? center - window / 2 : 1; /* 0 is the start */
    memcpy(copy, bench->costs + from, window * sizeof(double));
    qsort(copy, window, sizeof(double), by_value);
    return copy[window / 2];
}

static void ratio_print(const char *what, double early, double late)
{
    printf("%-46s %7.2f us %7.2f us   x%.2f\n", what, early, late, late / early);
}

static struct bench loop_bench(unsigned max_parallel)
{
    struct bench bench = {.now = {INT64_C(1790000000) * SECOND_US}};
    struct buf yaml = {0};
    buf_printf(
        &yaml,
        "workflow: loop\n"
        "services: {s: {url: \"http://s\", idempotency: {header: Idempotency-Key, ttl: 1d}}}\n"
        "steps:\n"
        "  - id: send\n"
        "    for_each: input.items\n"
        "    key_by: item.id\n"
        "    max_parallel: %u\n"
        "    action: {post: s/send, body: {to: \"${{ item.to }}\", n: \"${{ input.n }}\"}}\n"
        "    compensate: {post: s/undo, body: {of: \"${{ steps.send.output.id }}\"}}\n"
        "  - {id: last, action: {post: s/last}, compensate: {none: it is the last}}\n",
        max_parallel);
    bench.plan = plan_make(&yaml);
    bench.costs = xcalloc(ITEMS * 4, sizeof(double));
    buf_free(&yaml);
    return bench;
}

static void bench_free(struct bench *bench)
{
    run_free(bench->run);
    plan_unref(bench->plan);
    arena_free(&bench->scratch);
    free(bench->costs);
}

static struct buf loop_input(void)
{
    struct buf input = {0};
    buf_add_z(&input, "{\"n\": 1, \"items\": [");
    for (unsigned i = 0; i < ITEMS; i++)
        buf_printf(&input, "%s{\"id\": \"c-%05u\", \"to\": \"someone%u@example.org\"}",
                   i ? ", " : "", i, i);
    buf_add_z(&input, "]}");
    return input;
}

static void loop_measure(void)
{
    struct buf input = loop_input();
    struct bench bench = loop_bench(8);
    play(&bench, buf_str(&input), "last");
    if (bench.run->now.state != RUN_COMPENSATED)
        abort();
    ratio_print("loop of 10,000, 8 at a time: item 10, 9,990", median_at(&bench, 10, WINDOW),
                median_at(&bench, ITEMS - 110, WINDOW));
    ratio_print("its way back: item 10, 9,990", median_at(&bench, ITEMS + 110, WINDOW),
                median_at(&bench, 2 * ITEMS - 110, WINDOW));
    printf("%-46s %7.2f ms\n", "its beginning: the list is fixed", bench.costs[0] / 1e3);
    bench_free(&bench);

    bench = loop_bench(ITEMS);
    play(&bench, buf_str(&input), NULL);
    double longest = 0;
    for (uint32_t i = 1; i < bench.costs_count; i++)
        longest = MAX(longest, bench.costs[i]);
    ratio_print("all 10,000 at once: reply 10, 9,990", median_at(&bench, 150, WINDOW),
                median_at(&bench, bench.costs_count - 120, WINDOW));
    printf("%-46s %7.2f ms\n", "the longest decision after the first", longest / 1e3);
    bench_free(&bench);
    buf_free(&input);
}

static void memory_measure(void)
{
    struct buf input = loop_input();
    struct bench bench = loop_bench(1);
    struct run_event event = {.kind = EVENT_START, .start.input = buf_str(&input)};
    bench.run = run_new(bench.plan, STR("bench"));
    size_t empty = bench.run->run_arena.used_bytes;
    decide(&bench, &event);
    size_t begun = bench.run->run_arena.used_bytes;
    run_free(bench.run);
    play(&bench, buf_str(&input), NULL);
    size_t ended = bench.run->run_arena.used_bytes;
    printf(
        "memory of the run: %zu bytes before, %.1f MB with 10,000 items, %.1f MB with all of them "
        "done\n",
        empty, (double)begun / 1e6, (double)ended / 1e6);
    printf("%-46s %7zu bytes, %zu of it the input and the list\n", "an item that has not begun",
           (begun - empty) / ITEMS,
           (input.len + bench.run->instances[0].execute.items.len) / ITEMS);
    printf("%-46s %7zu bytes\n", "an item that has begun: besides", (ended - begun) / ITEMS);
    bench_free(&bench);
    buf_free(&input);
}

static void sequence_measure(void)
{
    struct bench bench = {.now = {INT64_C(1790000000) * SECOND_US}};
    struct buf yaml = {0};
    double early = 0, late = 0;
    buf_add_z(
        &yaml,
        "workflow: sequence\n"
        "services: {s: {url: \"http://s\", idempotency: {header: Idempotency-Key, ttl: 1d}}}\n"
        "steps:\n");
    for (unsigned i = 0; i < STEPS; i++)
        buf_printf(&yaml,
                   "  - {id: s%u, action: {post: s/do%u, body: {n: \"${{ input.n }}\"}}, "
                   "compensate: {post: s/undo%u}}\n",
                   i, i, i);
    bench.plan = plan_make(&yaml);
    bench.costs = xcalloc(ITEMS * 4, sizeof(double));
    for (int round = 0; round < ROUNDS; round++) {
        play(&bench, STR("{\"n\": 1}"), NULL);
        early += median_at(&bench, 10, 18) / ROUNDS;
        late += median_at(&bench, 490, 18) / ROUNDS;
        if (round + 1 < ROUNDS)
            run_free(bench.run);
    }
    ratio_print("sequence of 500 steps: step 10, 490", early, late);
    bench_free(&bench);
    buf_free(&yaml);
}

int main(void)
{
    printf("%-46s %10s %10s\n", "processor time of one decision (median)", "early", "late");
    loop_measure();
    sequence_measure();
    memory_measure();
    return 0;
}
