/*
 * Random files and expressions: nothing crashes, hangs or contradicts itself.
 *
 * FUZZ_SEED=n and FUZZ_COUNT=n run others and more; `make fuzz` draws a seed, says it and goes on
 * for a while (with sanitizers: make fuzz BUILD=build-asan OPT="-O1 -g
 * -fsanitize=address,undefined" LDFLAGS=-fsanitize=address,undefined).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

#include "dsl/dsl.h"
#include "dsl/jsonschema.h"
#include "dsl/lint.h"
#include "dsl/set.h"
#include "engine/base/rand.h"

#define SEEDS_MAX 300

static struct buf seeds[SEEDS_MAX];
static size_t seeds_count;
static size_t good[SEEDS_MAX]; /* those that compile: more can be reached from them */
static size_t good_count;

static uint64_t number_of(const char *name, uint64_t fallback)
{
    const char *text = getenv(name);
    return text ? strtoull(text, NULL, 10) : fallback;
}

static void seeds_load(void)
{
    DIR *folder = opendir("tests/golden/dsl");
    struct dirent *entry;
    assert_non_null(folder);
    while ((entry = readdir(folder)) && seeds_count < SEEDS_MAX) {
        char path[512], chunk[4096];
        size_t len;
        if (!strstr(entry->d_name, ".yaml"))
            continue;
        snprintf(path, sizeof(path), "tests/golden/dsl/%s", entry->d_name);
        FILE *file = fopen(path, "rb");
        assert_non_null(file);
        while ((len = fread(chunk, 1, sizeof(chunk), file)) > 0)
            buf_add(&seeds[seeds_count], chunk, len);
        fclose(file);
        if (seeds[seeds_count].len < 8000) /* large ones only slow this down */
            seeds_count++;
        else
            buf_free(&seeds[seeds_count]);
    }
    closedir(folder);
    assert_true(seeds_count > 20);
}

/* --- mutations --- */

static const char *const tokens[] = {
    "${{ ",
    " }}",
    "$${{",
    "{",
    "}",
    "[",
    "]",
    ": ",
    "- ",
    "\n",
    "  ",
    "'",
    "\"",
    "#",
    " #${{",
    "&a ",
    "*a",
    "!",
    "!!int ",
    "<<: ",
    "|\n",
    ">-\n",
    "\\",
    "\t",
    "\xC3\xA9",
    "\xF0\x9F\x98\x80",
    "\xFF",
    "steps",
    "input.id",
    ".output",
    "compensate: ",
    "none: x\n",
    "effect: pure\n",
    "if: ",
    "null",
    "true",
    "0",
    "-1",
    "1e5",
    "99999999999999999999",
    "30s",
    "...",
    "---\n",
    "%YAML 1.2\n",
    "\r\n",
    "(",
    ")",
    "default(",
    "has(",
    ".map(x, ",
    "needs: []\n",
    "/",
    "//",
    "..",
    "?",
    "omit",
    "$1",
    ";",
    "x-a: &a {b: 1}\n",
    "~",
    "secrets.a",
    "response",
    "pivot: true\n",
    "for_each: input.tags\n",
    "key_by: item\n",
    "item",
    "index",
    "tick",
    "child: demo",
    "wait_for: x",
    "until: now()",
    "worker: q",
    "timestamp('2026-10-25T02:30', 'Europe/Berlin')",
    "schedule: {cron: \"* * * * *\", zone: Europe/Paris}\n",
    " 31 2 * ",
    "*/7 ",
    "output_schema: {type: object}\n",
    "\xE2\x80\xA8",
    "\x01",
};

static void bytes_insert(struct buf *text, size_t at, const char *data, size_t len)
{
    buf_room(text, len);
    memmove(text->data + at + len, text->data + at, text->len - len - at);
    memcpy(text->data + at, data, len);
}

static void mutate_once(struct rand *rand, struct buf *text)
{
    size_t at = rand_below(rand, text->len + 1), len = rand_below(rand, 40);
    len = MIN(len, text->len - at);
    switch (rand_below(rand, 6)) {
    case 0: { /* a token goes in */
        const char *token = tokens[rand_below(rand, ARRAY_LEN(tokens))];
        bytes_insert(text, at, token, strlen(token));
        break;
    }
    case 1: /* a part goes out */
        memmove(text->data + at, text->data + at + len, text->len - at - len);
        text->len -= len;
        break;
    case 2: /* a byte changes */
        if (at < text->len)
            text->data[at] = (char)rand_next(rand);
        break;
    case 3: { /* a part of another file goes in */
        const struct buf *other = &seeds[rand_below(rand, seeds_count)];
        size_t from = rand_below(rand, other->len + 1);
        bytes_insert(text, at, other->data + from, MIN(len * 3, other->len - from));
        break;
    }
    case 4: { /* a part is doubled */
        char copy[40];
        memcpy(copy, text->data + at, len);
        bytes_insert(text, at, copy, len);
        break;
    }
    default: /* a line is indented otherwise */
        while (at > 0 && text->data[at - 1] != '\n')
            at--;
        bytes_insert(text, at, "    ", rand_below(rand, 5));
    }
    text->data[text->len] = '\0';
}

/* --- what must hold --- */

static const char input_text[] =
    "{\"id\":\"a1\",\"n\":5,\"count\":7,\"note\":\"x\",\"tags\":[\"a\"],"
    "\"order_id\":\"ORD-000001\",\"sku\":\"s\",\"email\":\"e\"}";

static void step_look_up(const void *arg, uint16_t step, struct arena *scratch,
                         struct expr_step *out)
{
    (void)step;
    (void)scratch;
    out->state = STR("applied");
    out->output = arg;
    out->key = STR("k");
}

static void scope_fill(struct expr_scope *scope, struct arena *arena)
{
    struct err err;
    *scope = (struct expr_scope){
        .index = -1, .run_id = STR("r"), .started_at = {1}, .key = STR("k"), .now = {2}};
    assert_int_equal(json_parse(STR(input_text), arena, &scope->input, &err), 0);
    scope->response = scope->input;
    scope->step = step_look_up;
    scope->step_arg = scope->input;
}

static void template_use(const struct template *template, const struct expr_scope *scope,
                         struct arena *arena)
{
    const struct json *value, *again;
    struct err err;
    if (!template || template_render(template, scope, arena, &value, &err) ||
        value->kind == JSON_NONE)
        return;
    struct str text = json_text(value, arena);
    if (memchr(text.ptr, 0xFF, text.len)) /* a secret's mark: never stored */
        return;
    assert_int_equal(json_parse(text, arena, &again, &err), 0);
    assert_true(json_equal(value, again));
}

static void expression_use(const struct expr *expr, const struct expr_scope *scope,
                           struct arena *arena)
{
    const struct json *value;
    struct err err;
    if (expr && expr_eval(expr, scope, arena, &value, &err) != 0)
        assert_true(err.text[0] != '\0');
}

static void action_use(const struct plan_action *action, const struct expr_scope *scope,
                       struct arena *arena)
{
    struct err err;
    bool truth;
    if (action->kind == ACTION_HTTP) {
        template_use(action->http.path, scope, arena);
        template_use(action->http.body, scope, arena);
        for (uint16_t i = 0; i < action->http.query_count; i++)
            template_use(action->http.query[i].value, scope, arena);
        for (uint16_t i = 0; i < action->http.headers_count; i++)
            template_use(action->http.headers[i].value, scope, arena);
    } else if (action->kind == ACTION_EXEC) {
        assert_true(action->exec.argv_count > 0);
        for (uint16_t i = 0; i < action->exec.argv_count; i++)
            template_use(action->exec.argv[i], scope, arena);
    } else if (action->kind == ACTION_SQL) {
        assert_non_null(action->sql.statement);
        for (uint16_t i = 0; i < action->sql.params_count; i++)
            template_use(action->sql.params[i], scope, arena);
    }
    assert_true(action->kind == ACTION_NONE || action_kind_waits(action->kind) ||
                action->kind == ACTION_CHILD || action->timeout_us > 0);
    if (action->kind == ACTION_WORKER) {
        assert_non_null(action->worker.queue);
        template_use(action->worker.payload, scope, arena);
    } else if (action->kind == ACTION_CHILD) {
        assert_non_null(action->child.workflow);
        template_use(action->child.input, scope, arena);
    } else if (action->kind == ACTION_WAIT_FOR) {
        assert_non_null(action->wait_for.signal);
        assert_true(action->wait_for.on_timeout != ON_TIMEOUT_NONE);
    } else if (action->kind == ACTION_UNTIL) {
        expression_use(action->until.until, scope, arena);
    }
    for (uint16_t i = 0; i < action->outcomes_count; i++) {
        assert_true(action->outcomes[i].is != OUTCOME_NONE);
        if (expr_eval_bool(action->outcomes[i].when, scope, arena, &truth, &err) != 0)
            assert_true(err.text[0] != '\0');
    }
}

static void plan_use(const struct plan *plan)
{
    struct arena arena = {0};
    struct expr_scope scope;
    struct buf text = {0};
    scope_fill(&scope, &arena);
    assert_true(plan->steps_count > 0 && plan->workflow[0]);
    for (uint16_t i = 0; i < plan->steps_count; i++) {
        const struct plan_step *step = &plan->steps[i];
        assert_int_equal(plan_step_find(plan, str_z(step->id)), i);
        assert_true(step->action.kind != ACTION_NONE && step->action.effect != EFFECT_NONE);
        for (uint16_t n = 0; n < step->needs_count; n++)
            assert_true(step->needs[n] < i);
        assert_true(!step->for_each == !step->max_parallel);
        expression_use(step->for_each, &scope, &arena);
        expression_use(step->key_by, &scope, &arena);
        action_use(&step->action, &scope, &arena);
        action_use(&step->compensate, &scope, &arena);
    }
    template_use(plan->run_id, &scope, &arena);
    template_use(plan->output, &scope, &arena);
    if (plan->input) {
        struct schema_errors errors;
        schema_check(plan->input, scope.input, &arena, &errors);
    }
    dsl_print_schedule(plan, &text);
    dsl_print_ticks(plan, (struct wall){1790000000 * SECOND_US}, &text);
    if (plan->schedule)
        template_use(plan->schedule->input, &scope, &arena);
    buf_free(&text);
    arena_free(&arena);
}

/* Places lie in the file, texts are one line of UTF-8, and both outputs can be made. */
static void diags_use(const struct diags *diags)
{
    struct buf text = {0};
    struct arena arena = {0};
    uint32_t lines = 1;
    for (size_t i = 0; i < diags->source.len; i++)
        lines += diags->source.ptr[i] == '\n';
    for (uint32_t i = 0; i < diags->count; i++) {
        const struct diag *diag = &diags->list[i];
        assert_true(diag->line <= lines && diag->other_line <= lines);
        assert_true(diag->line == 0 || diag->column > 0);
        assert_true(diag->span > 0);
        assert_null(memchr(diag->message.ptr, '\n', diag->message.len));
        assert_true(str_is_utf8(diag->message) && str_is_utf8(diag->help));
        assert_non_null(dsl_explain(diag->code));
    }
    diags_print(diags, true, &text);
    diags_json(diags, &arena);
    buf_free(&text);
    arena_free(&arena);
}

static bool source_use(struct str source)
{
    struct diags diags;
    diags_init(&diags, "f.yaml", source);
    struct plan *plan = dsl_compile(source, NULL, &diags);
    assert_int_equal(plan != NULL, diags.errors == 0);
    if (plan)
        dsl_set_check(NULL, &(struct dsl_member){plan, &diags}, 1, NULL);
    diags_use(&diags);
    bool ok = plan != NULL;
    if (plan)
        plan_use(plan);
    plan_unref(plan);
    diags_free(&diags);
    return ok;
}

/* Files that are nearly right. */
static void files(void **state)
{
    uint64_t seed = number_of("FUZZ_SEED", 1), count = number_of("FUZZ_COUNT", 10000), plans = 0;
    (void)state;
    for (size_t i = 0; i < seeds_count; i++)
        if (source_use(buf_str(&seeds[i])))
            good[good_count++] = i;
    assert_true(good_count > 10);
    print_message("FUZZ_SEED=%llu FUZZ_COUNT=%llu\n", (unsigned long long)seed,
                  (unsigned long long)count);
    for (uint64_t i = 0; i < count; i++) {
        struct rand rand = rand_seed(rand_mix(seed) + i);
        const struct buf *from = rand_chance(&rand, 70)
                                     ? &seeds[good[rand_below(&rand, good_count)]]
                                     : &seeds[rand_below(&rand, seeds_count)];
        struct buf text = {0};
        buf_add(&text, from->data, from->len);
        for (uint64_t n = rand_below(&rand, 5) + 1; n; n--)
            mutate_once(&rand, &text);
        plans += source_use(buf_str(&text));
        buf_free(&text);
    }
    print_message("%llu of them compiled\n", (unsigned long long)plans);
    assert_true(plans > count / 100);
}

/* --- expressions --- */

static void expression_write(struct rand *rand, struct buf *out, unsigned depth);

static void leaf_write(struct rand *rand, struct buf *out)
{
    static const char *const leaves[] = {
        "input.n",
        "input.id",
        "input.yes",
        "input.tags",
        "input.obj",
        "input.obj.k",
        "input.price",
        "1",
        "0",
        "19.90",
        "'a'",
        "''",
        "true",
        "false",
        "[]",
        "[1, 2]",
        "now()",
        "run.id",
        "duration('5m')",
        "timestamp('2026-10-25T02:30:00Z')",
        "-3",
        "9223372036854775807",
        "key",
        "steps.a.state",
        "timestamp('2026-10-25T02:30', 'Europe/Berlin')",
        "timestamp(input.id, 'America/New_York')",
    };
    buf_add_z(out, leaves[rand_below(rand, ARRAY_LEN(leaves))]);
}

static void call_write(struct rand *rand, struct buf *out, unsigned depth)
{
    static const char *const calls[] = {"size",   "string",    "int",     "json",
                                        "sha256", "timestamp", "duration"};
    static const char *const methods[] = {"startsWith", "endsWith", "contains"};
    static const char *const loops[] = {"all", "exists", "map", "filter"};
    switch (rand_below(rand, 4)) {
    case 0:
    case 1:
        buf_printf(out, "%s(", calls[rand_below(rand, ARRAY_LEN(calls))]);
        expression_write(rand, out, depth + 1);
        break;
    case 2:
        expression_write(rand, out, depth + 1);
        buf_printf(out, ".%s(", methods[rand_below(rand, ARRAY_LEN(methods))]);
        expression_write(rand, out, depth + 1);
        break;
    default:
        leaf_write(rand, out);
        buf_printf(out, ".%s(x%u, ", loops[rand_below(rand, ARRAY_LEN(loops))], depth);
        if (rand_chance(rand, 50))
            buf_printf(out, "x%u == ", depth);
        expression_write(rand, out, depth + 1);
    }
    buf_add_char(out, ')');
}

static void expression_write(struct rand *rand, struct buf *out, unsigned depth)
{
    static const char *const operators[] = {
        "==", "!=", "<", "<=", ">", ">=", "&&", "||", "+", "-", "*", "in"};
    uint64_t choice = rand_below(rand, 10);
    if (depth > 4 || choice < 3) {
        leaf_write(rand, out);
    } else if (choice < 6) {
        buf_add_char(out, '(');
        expression_write(rand, out, depth + 1);
        buf_printf(out, " %s ", operators[rand_below(rand, ARRAY_LEN(operators))]);
        expression_write(rand, out, depth + 1);
        buf_add_char(out, ')');
    } else if (choice < 7) {
        buf_add_z(out, rand_chance(rand, 50) ? "!" : "-");
        expression_write(rand, out, depth + 1);
    } else {
        call_write(rand, out, depth);
    }
}

static const char typed_head[] =
    "workflow: t\n"
    "input:\n"
    "  required: [n, id, yes, tags, obj, price]\n"
    "  properties: {n: {type: integer}, id: {type: string}, yes: {type: boolean}, price: {type: "
    "number}, tags: {type: array, items: {type: string}}, obj: {type: object, required: [k], "
    "properties: {k: {type: integer}}}}\n"
    "steps:\n"
    "  - {id: a, effect: pure, action: {exec: [x]}}\n"
    "  - {id: b, effect: pure, action: {exec: [x], stdin: \"${{ ";

/* What the checker lets through does not fail on types: all inputs here have declared types. */
static void typed_expressions(void **state)
{
    uint64_t seed = number_of("FUZZ_SEED", 1), count = number_of("FUZZ_COUNT", 10000), ran = 0;
    (void)state;
    for (uint64_t i = 0; i < count; i++) {
        struct rand rand = rand_seed(rand_mix(seed + 77) + i);
        struct buf source = {0};
        struct diags diags;
        struct arena arena = {0};
        struct expr_scope scope;
        const struct json *value;
        struct err err;
        buf_add_z(&source, typed_head);
        expression_write(&rand, &source, 0);
        buf_add_z(&source, " }}\"}}\n");
        diags_init(&diags, "f.yaml", buf_str(&source));
        struct plan *plan = dsl_compile(buf_str(&source), NULL, &diags);
        diags_use(&diags);
        if (plan) {
            scope_fill(&scope, &arena);
            assert_int_equal(json_parse(STR("{\"n\":5,\"id\":\"a1\",\"yes\":true,\"price\":1.50,"
                                            "\"tags\":[\"a\",\"b\"],\"obj\":{\"k\":3}}"),
                                        &arena, &scope.input, &err),
                             0);
            int code = template_render(plan->steps[1].action.exec.stdin_body, &scope, &arena,
                                       &value, &err);
            if (code && strstr(err.text, ", not ") && !strstr(err.text, "not the text"))
                fail_msg("%s\n%s", source.data + strlen(typed_head), err.text);
            ran += !code;
        }
        plan_unref(plan);
        diags_free(&diags);
        arena_free(&arena);
        buf_free(&source);
    }
    print_message("%llu expressions gave a value\n", (unsigned long long)ran);
    assert_true(ran > count / 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files),
        cmocka_unit_test(typed_expressions),
    };
    seeds_load();
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    for (size_t i = 0; i < seeds_count; i++)
        buf_free(&seeds[i]);
    return failed;
}
