/*
 * What a compiled plan holds: defaults filled in, services joined, order, hash. What is said of
 * wrong files is in tests/golden/dsl.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>

#include "dsl/dsl.h"
#include "dsl/lint.h"
#include "dsl/services.h"

static struct plan *compile_with(const char *source, const struct dsl_options *options)
{
    struct diags diags;
    struct buf said = {0};
    diags_init(&diags, "t.yaml", str_z(source));
    struct plan *plan = dsl_compile(str_z(source), options, &diags);
    diags_print(&diags, false, &said);
    if (!plan)
        fail_msg("%s", said.data);
    buf_free(&said);
    diags_free(&diags);
    return plan;
}

static struct plan *compile(const char *source)
{
    return compile_with(source, NULL);
}

static struct plan *compile_file(const char *path)
{
    char chunk[4096];
    size_t len;
    struct buf source = {0};
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    while ((len = fread(chunk, 1, sizeof(chunk), file)) > 0)
        buf_add(&source, chunk, len);
    fclose(file);
    struct plan *plan = compile(source.data);
    buf_free(&source);
    return plan;
}

static struct str rendered(const struct template *template, const char *input, struct arena *arena)
{
    struct expr_scope scope = {.index = -1};
    struct err err;
    struct str text;
    assert_int_equal(json_parse(str_z(input), arena, &scope.input, &err), 0);
    if (template_render_text(template, &scope, TEXT_PERCENT, arena, &text, &err))
        fail_msg("%s", err.text);
    return text;
}

/* The order of the language's first page compiles to the plan that its text describes. */
static void order_example(void **state)
{
    struct plan *plan = compile_file("tests/golden/dsl/ok_order.yaml");
    struct arena arena = {0};
    (void)state;
    assert_string_equal(plan->workflow, "order");
    assert_string_equal(plan->description, "Reserve stock, charge the card, confirm by mail.");
    assert_int_equal(plan->deadline_us, 10 * MINUTE_US);
    assert_int_equal(plan->steps_count, 4);
    assert_int_equal(plan->services_count, 3);
    assert_non_null(plan->input);
    assert_non_null(plan->output);
    assert_string_equal(rendered(plan->run_id, "{\"order_id\":\"ORD-000001\"}", &arena).ptr,
                        "order-ORD-000001");

    const struct plan_step *reserve = &plan->steps[0], *charge = &plan->steps[1],
                           *receipt = &plan->steps[3];
    assert_string_equal(reserve->id, "reserve");
    assert_int_equal(reserve->line, 27);
    assert_int_equal(reserve->action.kind, ACTION_HTTP);
    assert_int_equal(reserve->action.effect, EFFECT_COMPENSABLE);
    assert_int_equal(reserve->action.http.method, HTTP_POST);
    assert_int_equal(reserve->action.http.body_kind, BODY_JSON);
    assert_int_equal(reserve->action.timeout_us, 30 * SECOND_US);
    assert_int_equal(reserve->action.idempotency.place, KEY_PLACE_HEADER);
    assert_string_equal(reserve->action.idempotency.name, "Idempotency-Key");
    assert_int_equal(reserve->action.idempotency.ttl_us, 7 * DAY_US);
    assert_string_equal(rendered(reserve->action.http.path, "{}", &arena).ptr, "/reservations");
    assert_int_equal(reserve->compensate.http.method, HTTP_DELETE);
    assert_int_equal(reserve->compensate.effect, EFFECT_IDEMPOTENT);
    assert_int_equal(reserve->compensate.outcomes_count, 1);
    assert_int_equal(reserve->compensate.outcomes[0].is, OUTCOME_APPLIED);
    assert_string_equal(
        rendered(reserve->compensate.http.path, "{\"order_id\":\"a/b\"}", &arena).ptr,
        "/reservations/a%2Fb");
    assert_false(reserve->pivot);
    assert_int_equal(reserve->needs_count, 0);
    assert_int_equal(reserve->needed_by_count, 1);

    assert_int_equal(charge->action.timeout_us, 5 * SECOND_US); /* its service's */
    assert_int_equal(charge->action.retry.attempts, 5);
    assert_int_equal(charge->action.retry.factor_milli, 2000);
    assert_int_equal(charge->action.retry.max_delay_us, 30 * SECOND_US);
    assert_int_equal(charge->action.retry.jitter_percent, 20);
    assert_int_equal(charge->action.retry.budget_us, 2 * MINUTE_US);
    assert_int_equal(charge->compensate.retry.attempts, 10);
    assert_int_equal(charge->compensate.retry.max_delay_us, 5 * MINUTE_US);
    assert_int_equal(charge->compensate.effect, EFFECT_COMPENSABLE);
    assert_int_equal(charge->needs[0], 0);
    assert_int_equal(plan->services[charge->action.service].auth, AUTH_BEARER);

    assert_int_equal(receipt->action.effect, EFFECT_IRREVERSIBLE);
    assert_int_equal(receipt->on_failure, ON_FAILURE_CONTINUE);
    assert_int_equal(receipt->compensate.kind, ACTION_NONE);
    assert_false(receipt->pivot); /* best effort: never a pivot */
    assert_int_equal(receipt->action.idempotency.place, KEY_PLACE_NONE);
    assert_string_equal(plan->services[receipt->action.service].url, "http://127.0.0.1:7003");
    arena_free(&arena);
    plan_unref(plan);
}

/* Retry, effect, timeout, pivot and failure get the defaults of the language. */
static void defaults(void **state)
{
    struct plan *plan = compile("workflow: t\n"
                                "services: {s: {url: \"http://h/base/\"}}\n"
                                "steps:\n"
                                "  - {id: a, action: {get: s/x}}\n"
                                "  - {id: b, action: {sleep: 5m}}\n"
                                "  - {id: c, action: {put: s/x}, compensate: {put: s/y}}\n"
                                "  - {id: d, effect: irreversible, action: {post: s/x}}\n"
                                "  - {id: e, on_failure: park, action: {exec: [x]}}\n");
    (void)state;
    const struct plan_step *steps = plan->steps;
    assert_int_equal(steps[0].action.effect, EFFECT_PURE);
    assert_int_equal(steps[1].action.effect, EFFECT_PURE);
    assert_int_equal(steps[1].action.sleep.duration_us, 5 * MINUTE_US);
    assert_int_equal(steps[1].action.timeout_us, 0);
    assert_int_equal(steps[2].action.effect, EFFECT_COMPENSABLE);
    assert_int_equal(steps[2].compensate.effect, EFFECT_IDEMPOTENT);
    assert_true(steps[3].pivot);
    assert_int_equal(steps[4].action.service, PLAN_SERVICE_NONE);
    assert_int_equal(steps[4].on_failure, ON_FAILURE_PARK);
    assert_int_equal(steps[0].on_failure, ON_FAILURE_COMPENSATE);
    const struct plan_retry *retry = &steps[0].action.retry;
    assert_int_equal(retry->attempts, 3);
    assert_int_equal(retry->delay_us, SECOND_US);
    assert_int_equal(retry->max_delay_us, MINUTE_US);
    assert_int_equal(retry->budget_us, HOUR_US);
    assert_string_equal(plan->services[0].url, "http://h/base");
    assert_string_equal(plan->description, "");
    assert_int_equal(plan->deadline_us, 0);
    assert_null(plan->run_id);
    assert_null(plan->input);
    plan_unref(plan);
}

/* What the workflow says for all steps holds where a step says nothing. */
static void workflow_defaults(void **state)
{
    struct plan *plan =
        compile("workflow: t\n"
                "on_failure: park\n"
                "defaults: {timeout: 7s, retry: {attempts: 9, delay: 2m}, compensate_retry: "
                "{attempts: 2}}\n"
                "services: {s: {url: \"http://h\"}, q: {url: \"http://h\", timeout: 3s}}\n"
                "steps:\n"
                "  - {id: a, action: {post: s/x}, compensate: {post: q/x}}\n"
                "  - {id: b, on_failure: compensate, timeout: 1s, retry: {attempts: 1}, action: "
                "{post: q/x}, compensate: {post: s/x, timeout: 4s}}\n");
    (void)state;
    const struct plan_step *a = &plan->steps[0], *b = &plan->steps[1];
    assert_int_equal(a->on_failure, ON_FAILURE_PARK);
    assert_int_equal(b->on_failure, ON_FAILURE_COMPENSATE);
    assert_int_equal(a->action.timeout_us, 7 * SECOND_US);
    assert_int_equal(a->compensate.timeout_us, 3 * SECOND_US);
    assert_int_equal(b->action.timeout_us, SECOND_US);
    assert_int_equal(b->compensate.timeout_us, 4 * SECOND_US);
    assert_int_equal(a->action.retry.attempts, 9);
    assert_int_equal(a->action.retry.max_delay_us, 2 * MINUTE_US); /* never below the delay */
    assert_int_equal(b->action.retry.attempts, 1);
    assert_int_equal(b->action.retry.delay_us, 2 * MINUTE_US);
    assert_int_equal(a->compensate.retry.attempts, 2);
    plan_unref(plan);
}

/* The way the key is passed: the action's word before the service's. */
static void idempotency(void **state)
{
    struct plan *plan = compile(
        "workflow: t\n"
        "services:\n"
        "  h: {url: \"http://h\", idempotency: {header: X-Key, format: uuid, ttl: 1d, "
        "settle_after: 5s}}\n"
        "  b: {url: \"http://h\", idempotency: {body: /meta/key, format: sha256, ttl: 1d}}\n"
        "steps:\n"
        "  - {id: a, action: {post: h/x}, compensate: {post: h/x, idempotency: {query: k}}}\n"
        "  - {id: b, action: {post: h/x, idempotency: none}, compensate: {delete: b/x}}\n"
        "  - {id: c, action: {post: b/x, body: {}}, compensate: {none: \"a test\"}}\n");
    (void)state;
    const struct plan_action *a = &plan->steps[0].action;
    assert_int_equal(a->idempotency.format, KEY_FORMAT_UUID);
    assert_int_equal(a->idempotency.settle_after_us, 5 * SECOND_US);
    assert_string_equal(a->idempotency.name, "X-Key");
    assert_int_equal(plan->steps[0].compensate.idempotency.place, KEY_PLACE_QUERY);
    assert_int_equal(plan->steps[0].compensate.idempotency.ttl_us, 0);
    assert_int_equal(plan->steps[1].action.idempotency.place, KEY_PLACE_NONE);
    /* A service that takes keys in bodies cannot honour one where there is no body. */
    assert_int_equal(plan->steps[1].compensate.idempotency.place, KEY_PLACE_NONE);
    assert_int_equal(plan->steps[1].compensate.idempotency.ttl_us, 0);
    assert_int_equal(plan->steps[2].action.idempotency.place, KEY_PLACE_BODY);
    assert_int_equal(plan->steps[2].action.idempotency.format, KEY_FORMAT_SHA256);
    assert_string_equal(plan->steps[2].compensate_none, "a test");
    assert_int_equal(plan->steps[2].compensate.kind, ACTION_NONE);
    plan_unref(plan);
}

/* The order is a graph: `needs` and its inverse, both ascending. */
static void graph(void **state)
{
    struct plan *plan = compile("workflow: t\n"
                                "steps:\n"
                                "  - {id: a, action: {sleep: 1s}}\n"
                                "  - {id: b, needs: [], action: {sleep: 1s}}\n"
                                "  - {id: c, needs: [b, a], action: {sleep: 1s}}\n"
                                "  - {id: d, action: {sleep: 1s}}\n"
                                "  - {id: e, needs: [a], action: {sleep: 1s}}\n");
    (void)state;
    const struct plan_step *steps = plan->steps;
    assert_int_equal(steps[1].needs_count, 0);
    assert_int_equal(steps[2].needs_count, 2);
    assert_int_equal(steps[2].needs[0], 0);
    assert_int_equal(steps[2].needs[1], 1);
    assert_int_equal(steps[3].needs_count, 1);
    assert_int_equal(steps[3].needs[0], 2);
    assert_int_equal(steps[0].needed_by_count, 2);
    assert_int_equal(steps[0].needed_by[0], 2);
    assert_int_equal(steps[0].needed_by[1], 4);
    assert_int_equal(steps[4].needed_by_count, 0);
    plan_unref(plan);
}

static void hash_of(const char *source, char out[65])
{
    struct plan *plan = compile(source);
    memcpy(out, plan->hash_hex, 65);
    assert_true(str_eq_z(plan->source, source));
    plan_unref(plan);
}

/* The content's hash covers every byte but the block of tests. */
static void content_hash(void **state)
{
    char a[65], b[65];
    (void)state;
    hash_of("workflow: t\nsteps: [{id: a, action: {sleep: 1s}}]\n", a);
    hash_of("workflow: t\nsteps: [{id: a, action: {sleep: 1s}}]\ntests:\n  - {x: 1}\n  # more\n",
            b);
    assert_string_equal(a, b);
    hash_of("workflow: t\ntests:\n  - {x: 2}\nsteps: [{id: a, action: {sleep: 1s}}]\n", b);
    assert_string_equal(a, b);
    hash_of("workflow: t\nsteps: [{id: a, action: {sleep: 2s}}]\n", b);
    assert_string_not_equal(a, b);
    hash_of("workflow: t\nx-tests: 1\nsteps: [{id: a, action: {sleep: 1s}}]\n", b);
    assert_string_not_equal(a, b);

    struct sha256 expected = sha256_of(STR("workflow: t\nsteps: [{id: a, action: {sleep: 1s}}]\n"));
    char hex[65];
    sha256_hex(&expected, hex);
    assert_string_equal(a, hex);
}

/* The version is the label, kept as it is written, else the start of the hash. */
static void version(void **state)
{
    (void)state;
    struct plan *plan =
        compile("workflow: t\nversion: 1.10\nsteps: [{id: a, action: {sleep: 1s}}]\n");
    assert_string_equal(plan->version, "1.10");
    assert_true(plan->version_is_label);
    plan_unref(plan);
    plan = compile("workflow: t\nsteps: [{id: a, action: {sleep: 1s}}]\n");
    assert_int_equal(strlen(plan->version), 12);
    assert_memory_equal(plan->version, plan->hash_hex, 12);
    assert_false(plan->version_is_label);
    plan_unref(plan);
}

static const char config[] = "services:\n"
                             "  shop:\n"
                             "    url: https://shop.example.com/api/\n"
                             "    timeout: 9s\n"
                             "    headers: {X-Tenant: \"${{ run.id }}\"}\n"
                             "    auth: {basic: {user: me, password: \"${{ secrets.shop }}\"}}\n"
                             "    idempotency: {header: X-Key, ttl: 2d}\n"
                             "    outcomes: [{when: \"response.status == 418\", is: refused}]\n"
                             "  extra: {url: \"http://extra\"}\n";

/* What the daemon's configuration says of a service wins, adds services, and outlives a reload. */
static void configured_services(void **state)
{
    struct arena arena = {0};
    struct diags diags;
    struct doc doc;
    struct dsl_options options = {0};
    (void)state;
    diags_init(&diags, "sagad.yaml", str_z(config));
    doc_load(&doc, str_z(config), DSL_SOURCE_BYTES_MAX, DSL_NODES_MAX, &diags);
    assert_true(dsl_services_compile(&doc, node_get(doc.root, "services"), &arena, &diags,
                                     &options.services, &options.services_count));
    assert_int_equal(options.services_count, 2);
    doc_free(&doc);

    struct plan *plan = compile_with(
        "workflow: t\n"
        "services:\n"
        "  shop: {url: \"http://local\", timeout: 1s, idempotency: none}\n"
        "steps:\n"
        "  - id: a\n"
        "    action: {post: shop/x, outcomes: [{when: \"response.status == 409\", is: applied}]}\n"
        "    compensate: {post: extra/x}\n",
        &options);
    diags_free(&diags);
    arena_free(&arena); /* the plan has copies */

    const struct plan_service *shop = &plan->services[0];
    const struct plan_action *action = &plan->steps[0].action;
    struct expr_scope scope = {.index = -1, .run_id = STR("r1")};
    struct err err;
    struct str text;
    assert_int_equal(plan->services_count, 2);
    assert_string_equal(shop->url, "https://shop.example.com/api");
    assert_int_equal(action->timeout_us, 9 * SECOND_US);
    assert_int_equal(action->idempotency.ttl_us, 2 * DAY_US);
    assert_string_equal(action->idempotency.name, "X-Key");
    assert_int_equal(shop->auth, AUTH_BASIC);
    assert_int_equal(shop->headers_count, 1);
    assert_int_equal(template_render_text(shop->headers[0].value, &scope, TEXT_PLAIN,
                                          &plan->plan_arena, &text, &err),
                     0);
    assert_string_equal(text.ptr, "r1");
    assert_int_equal(action->outcomes_count, 2); /* the action's, then the service's */
    assert_int_equal(action->outcomes[0].is, OUTCOME_APPLIED);
    assert_int_equal(action->outcomes[1].is, OUTCOME_REFUSED);
    const struct json *response;
    bool truth;
    assert_int_equal(json_parse(STR("{\"status\":418}"), &plan->plan_arena, &response, &err), 0);
    scope.response = response;
    assert_int_equal(
        expr_eval_bool(action->outcomes[1].when, &scope, &plan->plan_arena, &truth, &err), 0);
    assert_true(truth);
    assert_string_equal(plan->services[plan->steps[0].compensate.service].name, "extra");
    plan_unref(plan);
}

/* Limits as written, with their defaults; a configured `limits` or `breaker` replaces the
 * workflow's as a whole, and the other stays. */
static void limits(void **state)
{
    static const char by[] = "services:\n"
                             "  pay: {breaker: {failures: 9}}\n"
                             "  mail: {limits: {in_flight: 2}}\n";
    struct arena arena = {0};
    struct diags diags;
    struct doc doc;
    struct dsl_options options = {0};
    (void)state;
    struct plan *plan = compile_file("tests/golden/dsl/ok_limits.yaml");
    const struct plan_limits *pay = &plan->services[0].limits, *mail = &plan->services[1].limits,
                             *stock = &plan->services[2].limits;
    assert_true(plan->is_limited);
    assert_int_equal(pay->in_flight, 20);
    assert_int_equal(pay->rate, 100);
    assert_int_equal(pay->rate_per_us, SECOND_US);
    assert_int_equal(pay->retry_percent, 10);
    assert_int_equal(pay->breaker_failures, 5);
    assert_int_equal(pay->breaker_window_us, MINUTE_US);
    assert_int_equal(pay->breaker_open_us, 20 * SECOND_US);
    assert_int_equal(mail->rate_per_us, HOUR_US);
    assert_true(mail->retries_limited && mail->retry_percent == 20);
    assert_true(!mail->in_flight && !mail->breaker_failures);
    assert_int_equal(stock->breaker_window_us, 30 * SECOND_US);
    assert_int_equal(stock->breaker_open_us, 15 * SECOND_US);
    assert_false(stock->retries_limited);

    diags_init(&diags, "sagad.yaml", str_z(by));
    doc_load(&doc, str_z(by), DSL_SOURCE_BYTES_MAX, DSL_NODES_MAX, &diags);
    assert_true(dsl_services_compile(&doc, node_get(doc.root, "services"), &arena, &diags,
                                     &options.services, &options.services_count));
    doc_free(&doc);
    struct plan *configured = compile_with(plan->source.ptr, &options);
    pay = &configured->services[0].limits;
    mail = &configured->services[1].limits;
    assert_int_equal(pay->in_flight, 20);
    assert_int_equal(pay->breaker_failures, 9);
    assert_int_equal(pay->breaker_window_us, 30 * SECOND_US);
    assert_true(mail->in_flight == 2 && !mail->rate);
    diags_free(&diags);
    arena_free(&arena);
    plan_unref(plan);
    plan_unref(configured);
    plan = compile_with("workflow: t\nservices: {a: {url: \"http://a\"}}\nsteps:\n"
                        "  - {id: a, effect: pure, action: {get: a/x}}\n",
                        NULL);
    assert_false(plan->is_limited);
    plan_unref(plan);
}

/* Loops, waits, workers and children fill their fields, with the defaults that the engine relies
 * on. */
static void waits_and_loops(void **state)
{
    struct plan *plan = compile_file("tests/golden/dsl/ok_waits.yaml");
    (void)state;
    const struct plan_step *book = &plan->steps[0], *notify = &plan->steps[1],
                           *day = &plan->steps[2], *paid = &plan->steps[4],
                           *asked = &plan->steps[5], *forever = &plan->steps[6],
                           *print = &plan->steps[7];
    assert_int_equal(book->action.kind, ACTION_CHILD);
    assert_int_equal(book->action.effect, EFFECT_COMPENSABLE);
    assert_string_equal(book->action.child.workflow, "booking");
    assert_non_null(book->action.child.input);
    assert_int_equal(book->action.timeout_us, 2 * HOUR_US);
    assert_int_equal(book->compensate.kind, ACTION_CHILD);
    assert_string_equal(book->compensate.child.workflow, "booking");
    assert_int_equal(book->compensate.effect, EFFECT_IDEMPOTENT);
    assert_int_equal(book->compensate.retry.attempts, 10);
    assert_null(book->compensate_none);
    assert_int_equal(book->compensate.service, PLAN_SERVICE_NONE);
    assert_true(notify->action.child.detached);
    assert_int_equal(notify->action.timeout_us, 0);
    assert_int_equal(notify->compensate.kind, ACTION_NONE);
    assert_non_null(notify->compensate_none); /* declared: listed in the residue */
    assert_false(notify->pivot);

    assert_int_equal(day->action.kind, ACTION_UNTIL);
    assert_int_equal(day->action.effect, EFFECT_PURE);
    assert_int_equal(day->action.timeout_us, 0);
    assert_non_null(day->action.until.until);
    assert_int_equal(paid->action.kind, ACTION_WAIT_FOR);
    assert_int_equal(paid->action.effect, EFFECT_PURE);
    assert_int_equal(paid->action.timeout_us, 48 * HOUR_US);
    assert_string_equal(paid->action.wait_for.signal, "payment-received");
    assert_int_equal(paid->action.wait_for.on_timeout, ON_TIMEOUT_CONTINUE);
    assert_int_equal(asked->action.wait_for.on_timeout, ON_TIMEOUT_REFUSED);
    assert_int_equal(forever->action.timeout_us, 0);

    assert_int_equal(print->action.kind, ACTION_WORKER);
    assert_int_equal(print->action.effect, EFFECT_COMPENSABLE);
    assert_string_equal(print->action.worker.queue, "label-printers");
    assert_int_equal(print->action.worker.heartbeat_us, 30 * SECOND_US);
    assert_int_equal(print->action.worker.schedule_timeout_us, HOUR_US);
    assert_int_equal(print->action.timeout_us, 10 * MINUTE_US);
    assert_int_equal(print->action.outcomes_count, 1);
    assert_int_equal(print->compensate.kind, ACTION_WORKER);
    assert_int_equal(print->compensate.worker.schedule_timeout_us, 0);
    assert_null(print->for_each);
    assert_int_equal(print->max_parallel, 0);
    plan_unref(plan);

    plan = compile_file("tests/golden/dsl/ok_loops.yaml");
    assert_non_null(plan->steps[0].for_each);
    assert_non_null(plan->steps[0].key_by);
    assert_non_null(plan->steps[0].output_schema);
    assert_int_equal(plan->steps[0].max_parallel, 20);
    assert_null(plan->steps[1].key_by);
    assert_int_equal(plan->steps[1].max_parallel, 1);
    plan_unref(plan);
}

/* A schedule has its cron, its zone, and what its runs get; validate shows the next ticks. */
static void schedules(void **state)
{
    struct plan *plan = compile_file("tests/golden/dsl/ok_time.yaml");
    const struct plan_schedule *schedule = plan->schedule;
    struct arena arena = {0};
    struct buf text = {0};
    struct wall now;
    struct err err;
    const struct json *input;
    (void)state;
    assert_non_null(schedule);
    assert_string_equal(schedule->cron_text, "30 2 * * mon-fri");
    assert_string_equal(schedule->zone_name, "Europe/Berlin");
    assert_int_equal(schedule->overlap, OVERLAP_QUEUE);
    assert_int_equal(schedule->catch_up, CATCH_UP_LAST);
    struct expr_scope scope = {.index = -1};
    scope.tick = json_string_z(&arena, "2026-10-26T01:30:00Z");
    assert_int_equal(template_render(schedule->input, &scope, &arena, &input, &err), 0);
    json_write(input, &text);
    assert_string_equal(text.data, "{\"day\":\"2026-10-26T01:30:00Z\",\"full\":false}");
    buf_clear(&text);
    assert_true(wall_parse(STR("2026-10-22T00:30:00Z"), &now));
    dsl_print_ticks(plan, now, &text);
    assert_string_equal(text.data,
                        "\nSchedule (`30 2 * * mon-fri` in Europe/Berlin; the next runs)\n"
                        "  2026-10-23T02:30:00+02:00\n"
                        "  2026-10-26T02:30:00+01:00\n"
                        "  2026-10-27T02:30:00+01:00\n");
    plan_unref(plan);

    buf_clear(&text);
    plan = compile_file("tests/golden/dsl/ok_leap.yaml");
    assert_int_equal(plan->schedule->overlap, OVERLAP_SKIP);
    assert_int_equal(plan->schedule->catch_up, CATCH_UP_NONE);
    assert_string_equal(plan->schedule->zone_name, "UTC");
    assert_null(plan->schedule->input);
    dsl_print_ticks(plan, now, &text);
    assert_string_equal(text.data, "\nSchedule (`0 0 29 2 *` in UTC; the next runs)\n"
                                   "  2028-02-29T00:00:00+00:00\n"
                                   "  2032-02-29T00:00:00+00:00\n"
                                   "  2036-02-29T00:00:00+00:00\n");
    plan_unref(plan);
    buf_free(&text);
    arena_free(&arena);
}

/* A-TIME-1: what the clocks skip or show twice is told of a schedule, too; not of one that goes by
 * the time that passes. */
static void a_time_1_schedules(void **state)
{
    static const struct {
        const char *cron, *zone, *said;
    } cases[] = {
        {"30 2 * * *", "Europe/Berlin",
         "  2026-10-25 the clocks show 02:30 twice: the run starts at the first\n"
         "  2027-03-28 the clocks skip 02:30: that run starts at 03:00\n"},
        {"*/30 1-2 * * *", "America/New_York",
         "  2026-11-01 the clocks show 01:00 twice: the run starts at the first\n"
         "  2027-03-14 the clocks skip 02:00: that run starts at 03:00\n"},
        {"15 2 * * *", "Australia/Lord_Howe", /* by half an hour */
         "  2026-10-04 the clocks skip 02:15: that run starts at 02:30\n"},
        {"0 12 * * *", "Europe/Berlin", ""},
        {"30 2 * * mon-sat", "Europe/Berlin", ""},
        {"30 * * * *", "Europe/Berlin", ""},
        {"30 2 * * *", "Asia/Tokyo", ""},
    };
    struct wall now;
    (void)state;
    assert_true(wall_parse(STR("2026-09-22T00:30:00Z"), &now));
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct buf source = {0}, text = {0};
        buf_printf(&source,
                   "workflow: t\nrun_id: t-${{ input.id }}\nschedule: {cron: \"%s\", zone: %s}\n"
                   "steps: [{id: a, action: {sleep: 1s}}]\n",
                   cases[i].cron, cases[i].zone);
        struct plan *plan = compile(source.data);
        dsl_print_ticks(plan, now, &text);
        const char *line = text.data + 1; /* what follows the heading and three ticks */
        for (int n = 0; n < 4; n++)
            line = strchr(line, '\n') + 1;
        assert_string_equal(line, cases[i].said);
        plan_unref(plan);
        buf_free(&source);
        buf_free(&text);
    }
}

/* A local time of the input is taken as the zone's clocks show it. */
static void local_times(void **state)
{
    static const struct {
        const char *given, *instant; /* NULL: refused */
    } cases[] = {
        {"2026-07-01T12:00", "2026-07-01T16:00:00Z"},
        {"2027-03-14T02:30:00", "2027-03-14T07:30:00Z"},
        {"2026-11-01T01:30:00.5", "2026-11-01T05:30:00.500000Z"},
        {"2026-07-01T12:00:00Z", NULL},
        {"2026-07-01", NULL},
        {"noon", NULL},
    };
    struct plan *plan = compile_file("tests/golden/dsl/ok_time.yaml");
    struct arena arena = {0};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct json *input = json_object_new(&arena, 1);
        struct expr_scope scope = {.index = -1, .input = input};
        const struct json *value;
        struct err err;
        json_object_add_z(input, "open", json_string_z(&arena, cases[i].given));
        int code = expr_eval(plan->steps[0].action.until.until, &scope, &arena, &value, &err);
        assert_int_equal(code, cases[i].instant ? 0 : ERR_INVALID);
        if (cases[i].instant)
            assert_string_equal(value->text.ptr, cases[i].instant);
        else
            assert_string_equal(err.text,
                                "\"input.open\" is not a local time such as 2026-10-25T02:30:00");
    }
    plan_unref(plan);
    arena_free(&arena);
}

/* A dry run is a request without effect, key and retries; whether it is known before the run has
 * begun is found by what it, and whether and for what its step runs, reads. */
static void dry_runs(void **state)
{
    static const bool hangs[] = {false, false, true, true, true, true, false};
    struct plan *plan = compile(
        "workflow: w\n"
        "services:\n"
        "  s: {url: \"http://h\", timeout: 7s, idempotency: {query: k, ttl: 1d}}\n"
        "steps:\n"
        "  - {id: a, action: {post: s/a}, compensate: {none: x}}\n"
        "  - {id: b, action: {post: s/b}, compensate: {none: x}, dry_run: {put: s/b}}\n"
        "  - {id: c, action: {post: s/c}, compensate: {none: x},\n"
        "     dry_run: {get: \"s/${{ steps.a.output.id }}\", timeout: 2s}}\n"
        "  - {id: d, if: \"steps.a.state == 'applied'\", action: {post: s/d},\n"
        "     compensate: {none: x}, dry_run: {get: s/d}}\n"
        "  - {id: e, for_each: steps.a.output.list, action: {post: s/e},\n"
        "     compensate: {none: x}, dry_run: {get: s/e}}\n"
        "  - {id: f, for_each: input.list, key_by: steps.a.output.id, action: {post: s/f},\n"
        "     compensate: {none: x}, dry_run: {get: \"s/${{ item }}\"}}\n"
        "  - {id: g, action: {post: s/g, body: {x: \"${{ steps.a.output }}\"}},\n"
        "     compensate: {none: x}, dry_run: {post: s/h, body: {n: \"${{ input.n }}\"}}}\n");
    (void)state;
    assert_null(plan->steps[0].dry_run);
    assert_false(plan->steps[0].dry_run_hangs);
    for (uint16_t i = 1; i < plan->steps_count; i++) {
        const struct plan_action *dry_run = plan->steps[i].dry_run;
        assert_non_null(dry_run);
        assert_int_equal(dry_run->kind, ACTION_HTTP);
        assert_int_equal(dry_run->effect, EFFECT_PURE);
        assert_int_equal(dry_run->idempotency.place, KEY_PLACE_NONE);
        assert_int_equal(dry_run->timeout_us, (i == 2 ? 2 : 7) * SECOND_US);
        assert_int_equal(plan->steps[i].dry_run_hangs, hangs[i]);
        assert_int_equal(plan->steps[i].action.idempotency.place, KEY_PLACE_QUERY);
    }
    assert_int_equal(plan->steps[1].dry_run->http.method, HTTP_PUT);
    plan_unref(plan);
}

/* Past the limit of diagnostics the help of one is not given to another. */
static void help_past_the_limit(void **state)
{
    struct diags diags;
    struct buf source = {0};
    (void)state;
    buf_add_z(&source, "workflow: w\nsteps:\n- id: a\n  effect: pure\n");
    for (int i = 0; i < DIAGS_MAX; i++)
        buf_printf(&source, "  wrong_%d: 1\n", i);
    buf_add_z(&source, "  action: {sql: \"select ${{ input.x }}\"}\n");
    diags_init(&diags, "t.yaml", buf_str(&source));
    assert_null(dsl_compile(buf_str(&source), NULL, &diags));
    assert_int_equal(diags.count, DIAGS_MAX);
    assert_int_equal(diags.left_out, 1);
    for (uint32_t i = 0; i < diags.count; i++) {
        assert_string_equal(diags.list[i].code, "E101");
        assert_null(diags.list[i].help.ptr);
    }
    diags_free(&diags);
    buf_free(&source);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(order_example),
        cmocka_unit_test(waits_and_loops),
        cmocka_unit_test(schedules),
        cmocka_unit_test(a_time_1_schedules),
        cmocka_unit_test(local_times),
        cmocka_unit_test(defaults),
        cmocka_unit_test(workflow_defaults),
        cmocka_unit_test(idempotency),
        cmocka_unit_test(graph),
        cmocka_unit_test(content_hash),
        cmocka_unit_test(version),
        cmocka_unit_test(configured_services),
        cmocka_unit_test(limits),
        cmocka_unit_test(dry_runs),
        cmocka_unit_test(help_past_the_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
