/*
 * Expressions and templates from their text to their value. Each row stands in the body of a step
 * of a small workflow, so that the parser, the checker and the evaluation all take part.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>

#include "dsl/dsl.h"
#include "engine/base/uri.h"

static const char source_head[] =
    "workflow: t\n"
    "run_id: t-${{ input.id }}\n"
    "services: {s: {url: \"http://h\", idempotency: {header: K, ttl: 1d}}}\n"
    "steps:\n"
    "  - {id: before, action: {get: s/x}}\n"
    "  - id: now_step\n"
    "    effect: pure\n"
    "    action:\n";

static const char input_text[] =
    "{\"id\":\"a1\",\"n\":5,\"price\":19.90,\"big\":9007199254740993,"
    "\"huge\":1234567890123456789012,\"neg\":-0,\"text\":\"Zo\xC3\xAB \xF0\x9F\x98\x80\","
    "\"quote\":\"a\\\"b\\\\c\\n\",\"tpl\":\"${{ input.n }}\",\"none\":null,\"yes\":true,"
    "\"list\":[3,1,2],\"empty\":[],\"obj\":{\"k\":{\"deep\":1},\"a b\":2},"
    "\"items\":[{\"sku\":\"x\",\"n\":2},{\"sku\":\"y\",\"n\":3}],"
    "\"when\":\"2026-10-25T02:30:00Z\",\"blank\":\"\",\"dots\":\"..\",\"path\":\"a/b?c#d ../ "
    "\xC3\xA9\"}";

struct fixture {
    struct arena arena;
    struct diags diags;
    struct plan *plan;
    struct expr_scope scope;
    const struct json *before_output;
    const char *before_state;
};

static void step_look_up(const void *arg, uint16_t step, struct arena *scratch,
                         struct expr_step *out)
{
    const struct fixture *f = arg;
    (void)scratch;
    assert_int_equal(step, 0);
    out->state = str_z(f->before_state);
    out->output = f->before_output;
    out->key = STR("run1:before:execute");
}

static const struct json *parsed(struct arena *arena, const char *text)
{
    const struct json *value;
    struct err err;
    assert_int_equal(json_parse(str_z(text), arena, &value, &err), 0);
    return value;
}

/* `action` is YAML, indented by six spaces. */
static void setup(struct fixture *f, const char *action)
{
    struct buf source = {0}, text = {0};
    *f = (struct fixture){.before_state = "applied"};
    buf_add_z(&source, source_head);
    buf_add_z(&source, action);
    struct str kept = arena_str(&f->arena, buf_str(&source));
    diags_init(&f->diags, "t.yaml", kept);
    f->plan = dsl_compile(kept, NULL, &f->diags);
    if (!f->plan) {
        diags_print(&f->diags, false, &text);
        fail_msg("%s\n%s", text.data, source.data);
    }
    f->before_output = parsed(&f->arena, "{\"id\":\"o-7\",\"list\":[1,2]}");
    f->scope = (struct expr_scope){
        .input = parsed(&f->arena, input_text),
        .env = parsed(&f->arena, "{\"REGION\":\"eu\"}"),
        .index = -1,
        .run_id = STR("run1"),
        .started_at = {1790000000 * SECOND_US},
        .now = {1790000005 * SECOND_US},
        .key = STR("run1:now_step:execute"),
        .step = step_look_up,
        .step_arg = f,
    };
    buf_free(&source);
}

static void teardown(struct fixture *f)
{
    plan_unref(f->plan);
    diags_free(&f->diags);
    arena_free(&f->arena);
}

/* The body's text, or "! " and the error. */
static struct str body_render(struct fixture *f)
{
    const struct json *value;
    struct err err = {0};
    if (template_render(f->plan->steps[1].action.http.body, &f->scope, &f->arena, &value, &err))
        return arena_printf(&f->arena, "! %s", err.text);
    return value->kind == JSON_NONE ? STR("omit") : json_text(value, &f->arena);
}

struct row {
    const char *expr, *expected;
};

static void rows_check(const struct row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct fixture f;
        char action[1024];
        snprintf(action, sizeof(action), "      post: s/x\n      body: >-\n        ${{ %s }}\n",
                 rows[i].expr);
        setup(&f, action);
        struct str actual = body_render(&f);
        if (!str_eq_z(actual, rows[i].expected))
            fail_msg("%s\n  gave     " STR_FMT "\n  expected %s", rows[i].expr, STR_ARG(actual),
                     rows[i].expected);
        teardown(&f);
    }
}
#define CHECK_ROWS(...)                                  \
    do {                                                 \
        static const struct row rows_[] = {__VA_ARGS__}; \
        rows_check(rows_, ARRAY_LEN(rows_));             \
    } while (0)

/* Every operator does what CEL says, and nothing is converted on the way. */
static void operators(void **state)
{
    (void)state;
    CHECK_ROWS(
        {"1 + 2 * 3", "7"}, {"(1 + 2) * 3", "9"}, {"2 - 3 - 4", "-5"}, {"-input.n", "-5"},
        {"-9223372036854775808", "-9223372036854775808"}, {"1 == 1.0", "true"},
        {"input.n == input.text", "false"}, {"1 != 2", "true"}, {"1 < 2", "true"},
        {"2 <= 2", "true"}, {"'a' < 'b'", "true"}, {"'b' >= 'a'", "true"}, {"2 > 10", "false"},
        {"!true", "false"}, {"!(1 > 2)", "true"}, {"true && false", "false"},
        {"true || false", "true"}, {"false && input.nope", "false"}, {"true || input.nope", "true"},
        {"input.nope || true", "! \"input.nope\" is missing"},
        {"input.n > 3 ? 'big' : 'small'", "\"big\""}, {"false ? 1 : false ? 2 : 3", "3"},
        {"'a' + 'b'", "\"ab\""}, {"[1] + [2, 3]", "[1,2,3]"}, {"2 in input.list", "true"},
        {"9 in input.list", "false"}, {"'k' in input.obj", "true"}, {"'x' in input.obj", "false"},
        {"[1, 2] == [1.0, 2]", "true"}, {"input.obj == input.obj", "true"},
        {"null == input.none", "true"}, {"[1, 2][1]", "2"}, {"input.list[0]", "3"},
        {"input['list'][2]", "2"}, {"input.obj['a b']", "2"}, {"input.items[1].sku", "\"y\""},
        {"input.obj.k.deep", "1"}, {"[]", "[]"}, {"[1, omit, 2]", "[1,2]"});
}

/* a_num_1: numbers keep their digits; arithmetic is exact or refused. */
static void a_num_1(void **state)
{
    (void)state;
    CHECK_ROWS({"input.big", "9007199254740993"}, {"input.huge", "1234567890123456789012"},
               {"input.neg", "-0"}, {"input.price", "19.90"}, {"1990 * 0.01", "19.90"},
               {"0.1 + 0.2", "0.3"}, {"0.1 + 0.2 == 0.3", "true"},
               {"input.big + 1", "9007199254740994"}, {"input.big == 9007199254740992", "false"},
               {"input.huge == 1234567890123456789012", "true"},
               {"input.huge > 1234567890123456789011", "true"}, {"1.10", "1.10"},
               {"1.10 == 1.1", "true"},
               {"input.huge + 1", "! the result does not fit a 64-bit integer"},
               {"9223372036854775807 + 1", "! the result does not fit a 64-bit integer"});
}

/* Every function of the language, with its edges. */
static void functions(void **state)
{
    (void)state;
    CHECK_ROWS(
        {"has(input.n)", "true"}, {"has(input.nope)", "false"}, {"has(input.nope.more)", "false"},
        {"has(input.none)", "true"}, {"has(input.none.x)", "false"}, {"has(input.list[2])", "true"},
        {"has(input.list[3])", "false"}, {"has(steps.before.output.id)", "true"},
        {"has(steps.before.output.nope)", "false"}, {"size(input.text)", "5"},
        {"size(input.list)", "3"}, {"size(input.obj)", "2"}, {"size('')", "0"},
        {"string(input.price)", "\"19.90\""}, {"string(true)", "\"true\""},
        {"string('x')", "\"x\""}, {"string(duration('90s'))", "\"1m30s\""},
        {"string(timestamp(input.when))", "\"2026-10-25T02:30:00Z\""}, {"int('42')", "42"},
        {"int('-7')", "-7"}, {"int(19.90)", "19"}, {"int(-19.90)", "-19"},
        {"int('4.2')", "! \"4.2\" is not the text of an integer"},
        {"int('')", "! \"\" is not the text of an integer"}, {"int(duration('90s'))", "90"},
        {"int(timestamp(input.when))", "1792895400"}, {"input.list.all(x, x > 0)", "true"},
        {"input.list.all(x, x > 1)", "false"}, {"input.empty.all(x, false)", "true"},
        {"input.list.exists(x, x == 2)", "true"}, {"input.empty.exists(x, true)", "false"},
        {"input.list.map(x, x * 2)", "[6,2,4]"}, {"input.items.map(i, i.sku)", "[\"x\",\"y\"]"},
        {"input.items.filter(i, i.n > 2)", "[{\"sku\":\"y\",\"n\":3}]"},
        {"input.items.filter(i, i.n > 9)", "[]"}, {"input.obj.map(k, k)", "[\"k\",\"a b\"]"},
        {"input.list.map(x, input.list.filter(y, y < x))", "[[1,2],[],[1]]"},
        {"input.list.map(x, x > 1 ? x : omit)", "[3,2]"}, {"input.text.startsWith('Zo')", "true"},
        {"input.text.endsWith('\\ud83d\\ude00')", "true"},
        {"input.text.contains('\xC3\xAB')", "true"}, {"input.text.contains('')", "true"},
        {"'AbC\xC3\x84'.lowerAscii()", "\"abc\xC3\x84\""}, {"default(input.nope, 1)", "1"},
        {"default(input.none, 1)", "1"}, {"default(input.n, 1)", "5"},
        {"default(input.nope.x.y, 'z')", "\"z\""}, {"default(input.nope, omit)", "omit"},
        {"default(input.blank, 1)", "\"\""},
        {"default(int(input.text), 1)", "! \"input.text\" is not the text of an integer"},
        {"json(input.items)",
         "\"[{\\\"sku\\\":\\\"x\\\",\\\"n\\\":2},{\\\"sku\\\":\\\"y\\\",\\\"n\\\":3}]\""},
        {"json('a')", "\"\\\"a\\\"\""},
        {"sha256('abc')", "\"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\""},
        {"now()", "\"2026-09-21T14:13:25Z\""}, {"now() - run.started_at", "\"5s\""},
        {"now() - duration('5s') == run.started_at", "true"},
        {"timestamp(input.when) + duration('1h')", "\"2026-10-25T03:30:00Z\""},
        {"duration('1h') - duration('2h')", "\"-1h\""}, {"-duration('30s')", "\"-30s\""},
        {"duration('1m') == duration('60s')", "true"}, {"timestamp(input.when) > now()", "true"},
        {"[now(), duration('1s')]", "[\"2026-09-21T14:13:25Z\",\"1s\"]"});
}

/* The roots give what the scope holds. */
static void roots(void **state)
{
    (void)state;
    CHECK_ROWS({"run.id", "\"run1\""}, {"key", "\"run1:now_step:execute\""},
               {"env.REGION", "\"eu\""}, {"env.NOPE", "! \"env.NOPE\" is missing"},
               {"steps.before.output.id", "\"o-7\""}, {"steps.before.state", "\"applied\""},
               {"steps.before.key", "\"run1:before:execute\""},
               {"steps.before.error", "! \"steps.before.error\" is missing"},
               {"run.started_at", "\"2026-09-21T14:13:20Z\""});
}

/* a_expr_4: what is missing is an error that names its path, never an empty text. */
static void a_expr_4(void **state)
{
    (void)state;
    CHECK_ROWS(
        {"input.nope", "! \"input.nope\" is missing"},
        {"input.obj.k.nope", "! \"input.obj.k.nope\" is missing"},
        {"input.n.x", "! \"input.n\" is a number, not an object"},
        {"input.none.x", "! \"input.none.x\" is missing"},
        {"input.list[7]", "! \"input.list[7]\" is missing"},
        {"input.list[-1]", "! \"input.list[-1]\" is missing"},
        {"input.list[0.5]", "! \"0.5\" is a number, not an integer"},
        {"input.list['a' + 'b']", "! \"the expression\" is text, not an integer"},
        {"steps.before.output.totl", "! \"steps.before.output.totl\" is missing"},
        {"input.text * 2", "! \"input.text\" is text, not a number"},
        {"input.list.all(x, x)", "! \"x\" is a number, not a boolean"},
        {"input.n < input.text", "! \"input.text\" is text, not a number"},
        {"timestamp(input.text)", "! \"input.text\" is not a time such as 2026-10-25T02:30:00Z"});
    struct fixture f;
    setup(&f, "      post: s/x\n      body: \"${{ steps.before.output.id }}\"\n");
    f.before_output = NULL;
    f.before_state = "skipped";
    assert_string_equal(body_render(&f).ptr, "! \"steps.before.output\" is missing");
    f.before_output = &json_null;
    assert_string_equal(body_render(&f).ptr, "! \"steps.before.output.id\" is missing");
    f.before_output = parsed(&f.arena, "[1]");
    assert_string_equal(body_render(&f).ptr, "! \"steps.before.output\" is a list, not an object");
    teardown(&f);
}

/* a_expr_3: the shape is fixed by the file; a value lands as one string, whatever it holds, and
 * is never looked at for templates again. */
static void a_expr_3(void **state)
{
    struct fixture f;
    (void)state;
    setup(&f, "      post: s/x\n"
              "      body:\n"
              "        note: ${{ input.quote }}\n"
              "        text: \"<${{ input.quote }}>\"\n"
              "        tpl: ${{ input.tpl }}\n"
              "        number: ${{ input.price }}\n"
              "        in_text: \"n=${{ input.price }} b=${{ input.yes }}\"\n"
              "        literal: \"$${{ input.n }}\"\n"
              "        gone: ${{ default(input.nope, omit) }}\n"
              "        list: [1, \"${{ omit }}\", \"${{ input.list }}\", {a: null}]\n"
              "        1a: 1.10\n");
    assert_string_equal(
        body_render(&f).ptr,
        "{\"note\":\"a\\\"b\\\\c\\n\",\"text\":\"<a\\\"b\\\\c\\n>\",\"tpl\":\"${{ input.n }}\","
        "\"number\":19.90,\"in_text\":\"n=19.90 b=true\",\"literal\":\"${{ input.n }}\","
        "\"list\":[1,[3,1,2],{\"a\":null}],\"1a\":1.10}");
    teardown(&f);
}

static struct str text_render(struct fixture *f, const struct template *template,
                              enum text_encoding encoding)
{
    struct str text;
    struct err err = {0};
    if (template_render_text(template, &f->scope, encoding, &f->arena, &text, &err))
        return arena_printf(&f->arena, "! %s", err.text);
    return text;
}

/* a_expr_1: an argument is one text, byte for byte, whatever a shell would make of it. */
static void a_expr_1(void **state)
{
    static const char *const values[] = {"x'; touch /tmp/pwn; echo '",
                                         "$(id)",
                                         "`id`",
                                         "-rf",
                                         "--",
                                         "a\nb",
                                         " ",
                                         "*",
                                         "\\",
                                         "${HOME}"};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(values); i++) {
        struct fixture f;
        struct buf input = {0};
        setup(&f, "      exec: [tool, \"${{ input.v }}\", \"--v=${{ input.v }}\"]\n");
        buf_add_z(&input, "{\"v\":");
        json_write_string(str_z(values[i]), &input);
        buf_add_char(&input, '}');
        f.scope.input = parsed(&f.arena, input.data);
        const struct plan_action *action = &f.plan->steps[1].action;
        assert_int_equal(action->exec.argv_count, 3);
        assert_true(str_eq_z(text_render(&f, action->exec.argv[0], TEXT_PLAIN), "tool"));
        assert_true(str_eq_z(text_render(&f, action->exec.argv[1], TEXT_PLAIN), values[i]));
        struct str joined = text_render(&f, action->exec.argv[2], TEXT_PLAIN);
        assert_true(str_starts(joined, STR("--v=")));
        assert_string_equal(joined.ptr + 4, values[i]);
        buf_free(&input);
        teardown(&f);
    }
}

/* a_expr_2: values of SQL are bound, in their types; the statement is the file's. */
static void a_expr_2_sql(void **state)
{
    struct fixture f;
    const struct json *value;
    struct err err;
    (void)state;
    setup(&f, "      sql: insert into t values ($1, $2, $3)\n"
              "      params: [\"${{ input.quote }}\", \"${{ input.price }}\", \"${{ input.list "
              "}}\"]\n");
    const struct plan_action *action = &f.plan->steps[1].action;
    static const char *const expected[] = {"\"a\\\"b\\\\c\\n\"", "19.90", "[3,1,2]"};
    assert_string_equal(action->sql.statement, "insert into t values ($1, $2, $3)");
    assert_int_equal(action->sql.params_count, 3);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(template_render(action->sql.params[i], &f.scope, &f.arena, &value, &err),
                         0);
        assert_string_equal(json_text(value, &f.arena).ptr, expected[i]);
    }
    teardown(&f);
}

/* a_num_2: a body is rendered to the same bytes every time, members in the order of the file. */
static void a_num_2(void **state)
{
    struct fixture f;
    (void)state;
    setup(&f, "      post: s/x\n      body: {b: 1, a: {z: 1.0, y: []}, c: \"${{ input.obj }}\"}\n");
    struct str first = body_render(&f), second = body_render(&f);
    assert_string_equal(
        first.ptr, "{\"b\":1,\"a\":{\"z\":1.0,\"y\":[]},\"c\":{\"k\":{\"deep\":1},\"a b\":2}}");
    assert_string_equal(first.ptr, second.ptr);
    teardown(&f);
}

struct path_row {
    const char *path, *expected;
};

/* a_expr_2: path values are encoded one by one; a value cannot change which resource is meant. */
static void a_expr_2_paths(void **state)
{
    static const struct path_row rows[] = {
        {"s/x/${{ input.path }}", "/x/a%2Fb%3Fc%23d%20..%2F%20%C3%A9"},
        {"s/${{ input.id }}/y/${{ input.n }}", "/a1/y/5"},
        {"s/x-${{ input.blank }}/y", "/x-/y"},
        {"s/${{ input.blank }}",
         "! the value of \"input.blank\" makes an empty segment of the path"},
        {"s/${{ input.blank }}/y",
         "! the value of \"input.blank\" makes an empty segment of the path"},
        {"s/x/${{ input.dots }}/y",
         "! the value of \"input.dots\" makes a dot segment of the path"},
        {"s/x/.${{ '.' }}", "! the value of \".\" makes a dot segment of the path"},
        {"s/x/${{ input.id }}/", "/x/a1/"},
        {"s/x/", "/x/"},
        {"s/Zo\xC3\xAB/%20/${{ input.text }}", "/Zo%C3%AB/%20/Zo%C3%AB%20%F0%9F%98%80"},
        {"s/x/${{ input.none }}", "! \"input.none\" is null, not text, a number or a boolean"},
        {"s/x/${{ input.list }}", "! \"input.list\" is a list, not text, a number or a boolean"},
        {"s/x/${{ input.nope }}", "! \"input.nope\" is missing"},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct fixture f;
        char action[512];
        snprintf(action, sizeof(action), "      post: \"%s\"\n", rows[i].path);
        setup(&f, action);
        struct str actual = text_render(&f, f.plan->steps[1].action.http.path, TEXT_PERCENT);
        if (!str_eq_z(actual, rows[i].expected))
            fail_msg("%s gave " STR_FMT, rows[i].path, STR_ARG(actual));
        teardown(&f);
    }
}

/* Query values, headers and parameters: text as it is, numbers as written, omit is absence, and a
 * line break stays for the engine to refuse. */
static void named_values(void **state)
{
    struct fixture f;
    struct buf encoded = {0};
    (void)state;
    setup(&f, "      get: s/x\n"
              "      query: {a: \"${{ input.path }}\", b: \"${{ omit }}\", c: 1.10, d: true}\n"
              "      headers:\n"
              "        X-A: \"v ${{ input.quote }}\"\n"
              "        Authorization: \"Bearer ${{ secrets.token }}\"\n");
    const struct plan_action *action = &f.plan->steps[1].action;
    assert_int_equal(action->http.query_count, 4);
    assert_string_equal(action->http.query[2].name, "c");
    struct str a = text_render(&f, action->http.query[0].value, TEXT_PLAIN);
    assert_true(str_eq_z(a, "a/b?c#d ../ \xC3\xA9"));
    uri_encode(a, &encoded);
    assert_string_equal(encoded.data, "a%2Fb%3Fc%23d%20..%2F%20%C3%A9");
    assert_null(text_render(&f, action->http.query[1].value, TEXT_PLAIN).ptr);
    assert_string_equal(text_render(&f, action->http.query[2].value, TEXT_PLAIN).ptr, "1.10");
    assert_string_equal(text_render(&f, action->http.query[3].value, TEXT_PLAIN).ptr, "true");
    assert_string_equal(text_render(&f, action->http.headers[0].value, TEXT_PLAIN).ptr,
                        "v a\"b\\c\n");
    assert_string_equal(text_render(&f, action->http.headers[1].value, TEXT_PLAIN).ptr,
                        "Bearer \xFFtoken\xFF");
    buf_free(&encoded);
    teardown(&f);
}

static void limit_check(const char *expr, const char *input)
{
    struct fixture f;
    char action[512];
    snprintf(action, sizeof(action), "      post: s/x\n      body: \"${{ %s }}\"\n", expr);
    setup(&f, action);
    f.scope.input = parsed(&f.arena, input);
    struct str text = body_render(&f);
    if (text.ptr[0] != '!')
        fail_msg("%s was not limited", expr);
    assert_true(f.arena.used_bytes < 300 * 1024 * 1024);
    teardown(&f);
}

/* Evaluation always ends: work, text and depth are limited whatever the input is. */
static void limits(void **state)
{
    struct buf list = {0}, deep = {0};
    (void)state;
    buf_add_z(&list, "{\"l\":[0");
    for (int i = 1; i < 3000; i++)
        buf_printf(&list, ",%d", i);
    buf_add_z(&list, "],\"t\":\"");
    for (int i = 0; i < 20000; i++)
        buf_add_char(&list, 'x');
    buf_add_z(&list, "\"}");
    limit_check("input.l.map(a, input.l.map(b, a + b))", list.data);
    limit_check("input.l.map(a, input.l)", list.data);
    limit_check("input.l.map(a, input.t + input.t)", list.data);
    limit_check("input.l.filter(a, input.l == input.l)", list.data);
    limit_check("input.l.all(a, input.l.all(b, size(input.t) > 0))", list.data);
    limit_check("input.l.all(a, input.l.all(b, input.t <= input.t))", list.data);
    buf_add_z(&deep, "{\"l\":");
    for (int i = 0; i < 62; i++)
        buf_add_char(&deep, '[');
    for (int i = 0; i < 62; i++)
        buf_add_char(&deep, ']');
    buf_add_char(&deep, '}');
    limit_check("[[[input.l]]]", deep.data);
    buf_free(&list);
    buf_free(&deep);
}

/* A condition must give a boolean; a value of another kind is an error, not "true". */
static void conditions(void **state)
{
    struct fixture f;
    struct err err;
    bool truth;
    (void)state;
    setup(&f, "      post: s/x\n"
              "    if: ${{ steps.before.output.list[0] == 1 && input.n > 2 }}\n");
    const struct expr *condition = f.plan->steps[1].condition;
    assert_int_equal(expr_eval_bool(condition, &f.scope, &f.arena, &truth, &err), 0);
    assert_true(truth);
    f.before_output = parsed(&f.arena, "{\"list\":[\"1\"]}");
    assert_int_equal(expr_eval_bool(condition, &f.scope, &f.arena, &truth, &err), 0);
    assert_false(truth);
    teardown(&f);
    setup(&f, "      post: s/x\n    if: steps.before.output.id\n");
    assert_int_equal(expr_eval_bool(f.plan->steps[1].condition, &f.scope, &f.arena, &truth, &err),
                     ERR_INVALID);
    assert_string_equal(err.text, "\"steps.before.output.id\" is text, not a boolean");
    teardown(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(operators),      cmocka_unit_test(a_num_1),
        cmocka_unit_test(functions),      cmocka_unit_test(roots),
        cmocka_unit_test(a_expr_4),       cmocka_unit_test(a_expr_3),
        cmocka_unit_test(a_expr_2_paths), cmocka_unit_test(a_expr_1),
        cmocka_unit_test(a_expr_2_sql),   cmocka_unit_test(a_num_2),
        cmocka_unit_test(named_values),   cmocka_unit_test(limits),
        cmocka_unit_test(conditions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
