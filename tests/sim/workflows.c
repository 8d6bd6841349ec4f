/*
 * workflows.c: random workflows for the simulator, written as YAML and compiled by the real
 * compiler.
 */
#include "tests/sim/world.h"

#include "dsl/dsl.h"

#include <stdio.h>
#include <stdlib.h>

static const char *pick(struct rand *rand, const char *const *from, size_t count)
{
    return from[rand_below(rand, count)];
}

static void needs_write(struct rand *rand, unsigned step, struct buf *out)
{
    if (step == 0 || rand_chance(rand, 60))
        return; /* the step before */
    buf_add_z(out, "    needs: [");
    bool first = true;
    for (unsigned i = 0; i < step; i++)
        if (rand_chance(rand, 40)) {
            buf_printf(out, "%ss%u", first ? "" : ", ", i);
            first = false;
        }
    buf_add_z(out, "]\n");
}

/* Of a loop: what it goes over, how wide, and what its items are called. Some lists hold an item
 * twice: with key_by that refuses the step. */
static void loop_write(struct rand *rand, struct buf *out)
{
    unsigned items = (unsigned)rand_below(rand, 9);
    buf_add_z(out, "    for_each: \"[");
    for (unsigned i = 0; i < items; i++) {
        if (rand_chance(rand, 5))
            buf_printf(out, "%sinput.n", i ? ", " : "");
        else
            buf_printf(out, "%s'i%u'", i ? ", " : "", rand_chance(rand, 4) ? 0 : i);
    }
    buf_add_z(out, "]\"\n");
    if (rand_chance(rand, 40))
        buf_add_z(out, "    key_by: item\n");
    if (rand_chance(rand, 60))
        buf_printf(out, "    max_parallel: %u\n", 1 + (unsigned)rand_below(rand, 5));
    if (rand_chance(rand, 15))
        buf_add_z(out, "    if: index != 1\n");
}

/* A worker's action; its step or compensation goes on behind it. */
static void worker_write(struct rand *rand, const char *queue, unsigned step, struct buf *out)
{
    buf_printf(out, "{worker: %s%u, payload: {n: \"${{ input.n }}\"}", queue, step);
    if (rand_chance(rand, 60))
        buf_printf(out, ", heartbeat: %ums", 300 * (1 + (unsigned)rand_below(rand, 6)));
    if (rand_chance(rand, 30))
        buf_printf(out, ", schedule_timeout: %ums", 500 * (1 + (unsigned)rand_below(rand, 8)));
}

static const char *service_pick(struct rand *rand)
{
    static const char *const services[] = {"keyed", "keyed", "brief", "keyless"};
    return pick(rand, services, ARRAY_LEN(services));
}

/* How the service is asked about what it does; of either direction. */
static void reconcile_write(struct rand *rand, const char *service, struct buf *out)
{
    buf_printf(out,
               "reconcile: {get: %s/ask, query: {key: \"${{ key }}\"}, "
               "applied: response.body.state == 'done', in_progress: response.body.state == "
               "'running', refused: response.body.state == 'refused', not_applied: "
               "response.body.state == 'none', output: {id: \"${{ response.body.id }}\"}, every: "
               "%ums, max_every: 3s, for: %us}",
               service, 100 * (1 + (unsigned)rand_below(rand, 20)),
               1 + (unsigned)rand_below(rand, 30));
}

static void undo_write(struct rand *rand, unsigned step, struct buf *out)
{
    const char *tolerant = rand_chance(rand, 30) ? ", tolerant: true" : "";
    if (rand_chance(rand, 10)) {
        buf_add_z(out, "    compensate: {none: nothing to give back}\n");
        return;
    }
    if (rand_chance(rand, 20)) {
        buf_add_z(out, "    compensate: ");
        worker_write(rand, "undo", step, out);
        buf_printf(out, "%s%s}\n", rand_chance(rand, 60) ? ", effect: idempotent" : "", tolerant);
        return;
    }
    const char *service = service_pick(rand);
    buf_printf(out, "    compensate: {post: %s/undo%u, body: {n: \"${{ input.n }}\"}%s", service,
               step, tolerant);
    if (rand_chance(rand, 40)) {
        buf_add_z(out, ", ");
        reconcile_write(rand, service, out);
    }
    buf_add_z(out, "}\n");
}

/* A request or a worker's task. */
static void effect_step_write(struct rand *rand, unsigned step, bool last, bool pivot, bool worker,
                              struct buf *out)
{
    bool irreversible = last && rand_chance(rand, 30);
    if (irreversible) {
        buf_add_z(out, "    effect: irreversible\n");
        if (rand_chance(rand, 50))
            buf_add_z(out, "    on_failure: continue\n");
        else if (rand_chance(rand, 40))
            buf_add_z(out, "    hold: true\n");
    } else if (rand_chance(rand, worker ? 60 : 15)) {
        buf_add_z(out, "    effect: idempotent\n");
    }
    if (!irreversible && pivot)
        buf_add_z(out, "    pivot: true\n");
    if (worker) {
        buf_printf(out, "    timeout: %us\n    action: ", 1 + (unsigned)rand_below(rand, 6));
        worker_write(rand, "do", step, out);
        buf_add_z(out, "}\n");
    } else {
        static const char *const on_unknown[] = {"park", "compensate", "continue"};
        const char *service = service_pick(rand);
        buf_printf(out, "    action: {post: %s/do%u, body: {n: \"${{ input.n }}\"}}\n", service,
                   step);
        if (rand_chance(rand, 40)) {
            buf_add_z(out, "    ");
            reconcile_write(rand, service, out);
            buf_add_z(out, "\n");
        }
        if (rand_chance(rand, 12))
            buf_printf(out, "    on_unknown: %s\n",
                       pick(rand, on_unknown, ARRAY_LEN(on_unknown) - (pivot || irreversible)));
    }
    if (!irreversible)
        undo_write(rand, step, out);
}

static void wait_write(struct rand *rand, struct buf *out)
{
    static const char *const on_timeout[] = {"refused", "continue", "park"};
    if (rand_chance(rand, 30)) {
        buf_printf(out, "    action: {until: \"timestamp('%s')\"}\n",
                   rand_chance(rand, 50) ? "2026-09-21T14:13:30Z" : "2026-09-21T14:13:20Z");
        return;
    }
    buf_printf(out, "    timeout: %us\n", 1 + (unsigned)rand_below(rand, 20));
    buf_printf(out, "    action: {wait_for: %s, on_timeout: %s}\n",
               rand_chance(rand, 70) ? "go" : "stop",
               pick(rand, on_timeout, ARRAY_LEN(on_timeout)));
}

/* `child`: the number of the workflow that may be started. */
static void child_write(struct rand *rand, unsigned child, struct buf *out)
{
    if (rand_chance(rand, 25))
        buf_printf(out, "    timeout: %us\n", 1 + (unsigned)rand_below(rand, 12));
    buf_printf(out, "    action: {child: %s%u, input: {id: x, n: \"${{ input.n }}\"}%s}\n",
               rand_chance(rand, 4) ? "nobody" : "kid", child,
               rand_chance(rand, 10) ? ", detached: true" : "");
}

static void step_write(struct rand *rand, unsigned step, bool last, unsigned child, struct buf *out)
{
    static const char *const on_failure[] = {"continue", "park"};
    buf_printf(out, "  - id: s%u\n", step);
    needs_write(rand, step, out);
    if (rand_chance(rand, 25))
        loop_write(rand, out);
    else if (rand_chance(rand, 10))
        buf_add_z(out, "    if: input.n > 500\n");
    unsigned kind = (unsigned)rand_below(rand, 100);
    if (kind < 8) {
        buf_add_z(out, "    action: {sleep: 3s}\n");
        return;
    }
    if (kind < 16) {
        buf_printf(out, "    action: {get: keyed/look%u}\n", step);
        return;
    }
    if (kind < 30) {
        buf_printf(out,
                   "    action: {sql: insert into t values ($1), params: [\"${{ input.n }}\"]}\n"
                   "    compensate: {sql: delete from t where n = $1, "
                   "params: [\"${{ input.n }}\"]}\n");
        return;
    }
    if (kind < 36) {
        wait_write(rand, out);
        return;
    }
    if (kind < 48 && child < WORLD_KIDS) {
        child_write(rand, child, out);
        return;
    }
    bool pivot = rand_chance(rand, 10), worker = rand_chance(rand, 35);
    effect_step_write(rand, step, last, pivot, worker, out);
    if (rand_chance(rand, 50))
        buf_printf(out, "    retry: {attempts: %u, delay: 500ms}\n",
                   1 + (unsigned)rand_below(rand, 4));
    if (!last && rand_chance(rand, 12)) /* a pivot cannot continue */
        buf_printf(out, "    on_failure: %s\n",
                   pivot ? "park" : pick(rand, on_failure, ARRAY_LEN(on_failure)));
}

struct plan *workflow_make(struct world *world, const char *name, unsigned number, unsigned child,
                           const char *schedule)
{
    struct rand *rand = &world->rand;
    struct buf text = {0};
    struct diags diags;
    unsigned steps = 1 + (unsigned)rand_below(rand, 6);
    buf_printf(&text, "workflow: %s%u\nrun_id: \"${{ input.id }}\"\n", name, number);
    buf_add_z(&text, schedule);
    if (rand_chance(rand, 20))
        buf_add_z(&text, "deadline: 15s\n");
    buf_add_z(&text, "input: {type: object, required: [id, n], properties: {id: {type: string}, "
                     "n: {type: integer}}}\n");
    buf_printf(&text,
               "services:\n"
               "  keyed: {url: \"http://127.0.0.1:1\", timeout: 2s, "
               "idempotency: {header: Idempotency-Key, ttl: 1h, settle_after: 3s}%s}\n"
               "  brief: {url: \"http://127.0.0.1:3\", timeout: 2s, "
               "idempotency: {header: Idempotency-Key, ttl: 5s, settle_after: 3s}%s}\n"
               "  keyless: {url: \"http://127.0.0.1:2\", timeout: 5s, idempotency: none%s}\n"
               "steps:\n",
               world->limits[0].text, world->limits[1].text, world->limits[2].text);
    for (unsigned i = 0; i < steps; i++)
        step_write(rand, i, i + 1 == steps, child, &text);
    diags_init(&diags, "random.yaml", buf_str(&text));
    struct plan *plan = dsl_compile(buf_str(&text), NULL, &diags);
    if (!plan) {
        struct buf report = {0};
        diags_print(&diags, false, &report);
        fprintf(stderr, "%s\n%s\n", text.data, report.data);
        abort();
    }
    diags_free(&diags);
    buf_free(&text);
    return plan;
}
