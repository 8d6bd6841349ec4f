/*
 * The JSON Schema subset, from a workflow's `input` to the reasons at submit.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>

#include "dsl/dsl.h"
#include "dsl/jsonschema.h"

/* "" if the value fits, else "POINTER MESSAGE; ..." */
static void reasons(const char *schema, const char *value_text, struct buf *out)
{
    struct buf source = {0};
    struct diags diags;
    struct arena arena = {0};
    struct schema_errors errors;
    const struct json *value;
    struct err err;
    buf_clear(out);
    buf_printf(&source,
               "workflow: t\ninput: {properties: {v: %s}}\n"
               "steps: [{id: a, action: {sleep: 1s}}]\n",
               schema);
    diags_init(&diags, "t.yaml", buf_str(&source));
    struct plan *plan = dsl_compile(buf_str(&source), NULL, &diags);
    if (!plan) {
        diags_print(&diags, false, out);
        fail_msg("%s", out->data);
    }
    struct str wrapped = arena_printf(&arena, "{\"v\":%s}", value_text);
    if (json_parse(wrapped, &arena, &value, &err))
        fail_msg("%s: %s", value_text, err.text);
    bool fits = schema_check(plan->input, value, &arena, &errors);
    assert_int_equal(fits, errors.count == 0);
    for (uint32_t i = 0; i < errors.count; i++)
        buf_printf(out, "%s" STR_FMT " " STR_FMT, i ? "; " : "", STR_ARG(errors.list[i].pointer),
                   STR_ARG(errors.list[i].message));
    plan_unref(plan);
    diags_free(&diags);
    arena_free(&arena);
    buf_free(&source);
}

struct row {
    const char *schema, *value, *expected;
};

static void rows_check(const struct row *rows, size_t count)
{
    struct buf out = {0};
    for (size_t i = 0; i < count; i++) {
        reasons(rows[i].schema, rows[i].value, &out);
        if (!str_eq_z(buf_str(&out), rows[i].expected))
            fail_msg("%s on %s:\n  gave     %s\n  expected %s", rows[i].schema, rows[i].value,
                     buf_str(&out).ptr, rows[i].expected);
    }
    buf_free(&out);
}
#define CHECK_ROWS(...)                                  \
    do {                                                 \
        static const struct row rows_[] = {__VA_ARGS__}; \
        rows_check(rows_, ARRAY_LEN(rows_));             \
    } while (0)

/* Types are those of JSON Schema; 1.0 is an integer. */
static void types(void **state)
{
    (void)state;
    CHECK_ROWS({"{type: string}", "\"x\"", ""},
               {"{type: string}", "1", "/v must be text, not a number"},
               {"{type: integer}", "1", ""}, {"{type: integer}", "1.0", ""},
               {"{type: integer}", "1e2", ""}, {"{type: integer}", "12345678901234567890123", ""},
               {"{type: integer}", "1.5", "/v must be an integer, not a number with a fraction"},
               {"{type: number}", "1", ""}, {"{type: number}", "1.5", ""},
               {"{type: boolean}", "\"true\"", "/v must be a boolean, not text"},
               {"{type: \"null\"}", "null", ""}, {"{type: array}", "[]", ""},
               {"{type: object}", "[]", "/v must be an object, not a list"},
               {"{type: [string, \"null\"]}", "null", ""},
               {"{type: [string, \"null\"]}", "5", "/v must be null or text, not a number"},
               {"true", "5", ""}, {"false", "5", "/v is not allowed"}, {"{}", "[{}]", ""});
}

/* Numbers compare exactly, whatever their size. */
static void numbers(void **state)
{
    (void)state;
    CHECK_ROWS(
        {"{minimum: 1}", "1", ""}, {"{minimum: 1}", "0.999", "/v must be at least 1"},
        {"{maximum: 9007199254740992}", "9007199254740993", "/v must be at most 9007199254740992"},
        {"{exclusiveMinimum: 0}", "0", "/v must be more than 0"},
        {"{exclusiveMaximum: 1}", "0.99999999999999999999999", ""},
        {"{exclusiveMaximum: 1}", "1.0", "/v must be less than 1"}, {"{minimum: 1}", "\"0\"", ""},
        {"{const: 1}", "1.0", ""}, {"{enum: [1, a]}", "2", "/v must be one of [1,\"a\"]"});
}

/* Lengths count code points; patterns match anywhere. */
static void strings(void **state)
{
    (void)state;
    CHECK_ROWS(
        {"{minLength: 2}", "\"\xF0\x9F\x98\x80\"", "/v must have at least 2 characters"},
        {"{maxLength: 1}", "\"\xF0\x9F\x98\x80\"", ""},
        {"{maxLength: 1}", "\"ab\"", "/v must have at most 1 character"},
        {"{pattern: \"^ORD-[0-9]{6}$\"}", "\"ORD-123456\"", ""},
        {"{pattern: \"^ORD-[0-9]{6}$\"}", "\"ORD-1\"", "/v must match the pattern ^ORD-[0-9]{6}$"},
        {"{pattern: b}", "\"abc\"", ""}, {"{const: a}", "\"b\"", "/v must be \"a\""});
}

/* Objects and lists: each misfit with the pointer to it. */
static void containers(void **state)
{
    (void)state;
    CHECK_ROWS({"{required: [a, b], properties: {a: {type: string}}}", "{\"a\":1}",
                "/v/b is required; /v/a must be text, not a number"},
               {"{properties: {a: {}}, additionalProperties: false}", "{\"a\":1,\"c/d~\":2}",
                "/v/c~1d~0 is not expected here"},
               {"{additionalProperties: {type: integer}}", "{\"a\":1,\"b\":\"x\"}",
                "/v/b must be an integer, not text"},
               {"{items: {type: integer}}", "[1, \"a\", 2.5]",
                "/v/1 must be an integer, not text; /v/2 must be an integer, not a number with a "
                "fraction"},
               {"{minItems: 1}", "[]", "/v must have at least 1 item"},
               {"{maxItems: 1}", "[1, 2]", "/v must have at most 1 item"},
               {"{uniqueItems: true}", "[1, 2, 3]", ""},
               {"{uniqueItems: true}", "[1, 1.0]", "/v must not hold the same item twice: 1"},
               {"{uniqueItems: true}", "[{\"a\":1,\"b\":2},{\"b\":2,\"a\":1}]",
                "/v must not hold the same item twice: {\"a\":1,\"b\":2}"},
               {"{required: [a]}", "\"no object\"", ""});
}

/* Combinations and references. */
static void combinations(void **state)
{
    (void)state;
    CHECK_ROWS(
        {"{anyOf: [{type: string}, {minimum: 5}]}", "7", ""},
        {"{anyOf: [{type: string}, {minimum: 5}]}", "3",
         "/v fits none of the alternatives (anyOf)"},
        {"{oneOf: [{minimum: 1}, {minimum: 5}]}", "3", ""},
        {"{oneOf: [{minimum: 1}, {minimum: 5}]}", "7",
         "/v must fit exactly one of the alternatives (oneOf), but fits 2"},
        {"{allOf: [{minimum: 1}, {maximum: 5}]}", "9", "/v must be at most 5"},
        {"{not: {type: string}}", "\"x\"", "/v has a form that is excluded (not)"},
        {"{$ref: \"#/properties/v/$defs/n\", $defs: {n: {type: integer}}}", "\"x\"",
         "/v must be an integer, not text"},
        {"{$defs: {t: {properties: {l: {$ref: \"#/properties/v/$defs/t\"}, n: {type: integer}}}}, "
         "$ref: \"#/properties/v/$defs/t\"}",
         "{\"l\":{\"l\":{\"n\":\"x\"}}}", "/v/l/l/n must be an integer, not text"});
}

/* A check never takes long: schemas that multiply are cut off and refuse. */
static void work_is_limited(void **state)
{
    struct buf schema = {0}, value = {0}, out = {0};
    (void)state;
    buf_add_z(&schema, "{$defs: {t: {anyOf: [{required: [x], properties: {l: {$ref: "
                       "\"#/properties/v/$defs/t\"}}}, {required: [y], properties: {l: {$ref: "
                       "\"#/properties/v/$defs/t\"}}}]}}, $ref: \"#/properties/v/$defs/t\"}");
    for (int i = 0; i < 50; i++)
        buf_add_z(&value, "{\"l\":");
    buf_add_z(&value, "1");
    for (int i = 0; i < 50; i++)
        buf_add_char(&value, '}');
    reasons(schema.data, value.data, &out);
    assert_string_equal(out.data, " takes too much work to check against its schema");
    buf_free(&schema);
    buf_free(&value);
    buf_free(&out);
}

/* A heavy pattern on a long text and many names in a large object are cut off, too. */
static void heavy_values(void **state)
{
    struct buf value = {0}, out = {0}, schema = {0};
    (void)state;
    buf_add_char(&value, '"');
    for (int i = 0; i < 1000000; i++)
        buf_add_char(&value, 'a');
    buf_add_char(&value, '"');
    reasons("{pattern: \"^[a-z]+$\"}", value.data, &out);
    assert_string_equal(buf_str(&out).ptr, "");
    reasons("{pattern: \"^(a?){900}b$\"}", value.data, &out);
    assert_string_equal(out.data, " takes too much work to check against its schema");
    buf_clear(&value);
    buf_add_char(&value, '{');
    for (int i = 0; i < 60000; i++)
        buf_printf(&value, "%s\"k%d\":1", i ? "," : "", i);
    buf_add_char(&value, '}');
    buf_add_z(&schema, "{properties: {a0: {}");
    for (int i = 1; i < 3000; i++)
        buf_printf(&schema, ", a%d: {}", i);
    buf_add_z(&schema, "}}");
    reasons(schema.data, value.data, &out);
    assert_string_equal(out.data, " takes too much work to check against its schema");
    reasons("{properties: {k1: {}, k2: {}}}", value.data, &out);
    assert_string_equal(buf_str(&out).ptr, "");
    buf_free(&value);
    buf_free(&schema);
    buf_free(&out);
}

/* At most 20 reasons are given. */
static void reasons_are_limited(void **state)
{
    struct buf value = {0}, out = {0};
    (void)state;
    buf_add_z(&value, "[0");
    for (int i = 0; i < 100; i++)
        buf_add_z(&value, ",0");
    buf_add_char(&value, ']');
    reasons("{items: {type: string}}", value.data, &out);
    assert_non_null(strstr(out.data, "/v/19 "));
    assert_null(strstr(out.data, "/v/20 "));
    buf_free(&value);
    buf_free(&out);
}

/* The canonical form of a value after the declarations of its schema. */
static void normalized(const char *schema, const char *value_text, const char *expected)
{
    struct buf source = {0}, out = {0};
    struct diags diags;
    struct arena arena = {0};
    const struct json *value;
    struct err err;
    buf_printf(&source, "workflow: t\ninput: %s\nsteps: [{id: a, action: {sleep: 1s}}]\n", schema);
    diags_init(&diags, "t.yaml", buf_str(&source));
    struct plan *plan = dsl_compile(buf_str(&source), NULL, &diags);
    assert_non_null(plan);
    assert_int_equal(json_parse(str_z(value_text), &arena, &value, &err), 0);
    json_write_canonical(schema_normalize(plan->input, value, &arena), &out);
    assert_string_equal(out.data, expected);
    buf_free(&out);
    buf_free(&source);
    plan_unref(plan);
    diags_free(&diags);
    arena_free(&arena);
}

/* x-normalize makes spellings of an amount one value, wherever it stands, and nothing else. */
static void amounts(void **state)
{
    (void)state;
    const char *plain = "{properties: {v: {x-normalize: amount}}}";
    normalized(plain, "{\"v\":\"10.10\",\"w\":\"10.10\"}", "{\"v\":10.1,\"w\":\"10.10\"}");
    normalized(plain, "{\"v\":10.100}", "{\"v\":10.1}");
    normalized(plain, "{\"v\":\"-0.50\"}", "{\"v\":-0.5}");
    static const char *const texts[] = {"010", "1e3", "10.", ".5",  "+5",  " 1", "1 ",
                                        "",    "-",   "1,5", "0x1", "--1", "ten"};
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        struct buf value = {0};
        buf_printf(&value, "{\"v\":\"%s\"}", texts[i]);
        normalized(plain, value.data, value.data);
        buf_free(&value);
    }
    normalized("{properties: {l: {items: {properties: {p: {$ref: \"#/$defs/m\"}}}}}, "
               "$defs: {m: {allOf: [{x-normalize: amount}]}}}",
               "{\"l\":[{\"p\":\"1.0\"},{\"q\":\"1.0\"}]}", "{\"l\":[{\"p\":1},{\"q\":\"1.0\"}]}");
    normalized("{additionalProperties: {x-normalize: amount}}", "{\"b\":\"2\"}", "{\"b\":2}");
}

/* All misfits in a line, while they fit into one. */
static void one_line(void **state)
{
    (void)state;
    struct arena arena = {0};
    struct schema_errors errors = {.count = 2};
    errors.list[0] = (struct schema_error){STR("/a"), STR("is required")};
    errors.list[1] = (struct schema_error){STR("/b/0"), STR("must be text, not a number")};
    assert_string_equal(schema_errors_text(&errors, &arena).ptr,
                        "/a is required; /b/0 must be text, not a number");
    char wide[301];
    memset(wide, 'x', sizeof(wide) - 1);
    wide[sizeof(wide) - 1] = '\0';
    errors.count = SCHEMA_ERRORS_MAX;
    for (uint32_t i = 0; i < errors.count; i++)
        errors.list[i] = (struct schema_error){STR("/w"), str_z(wide)};
    struct str text = schema_errors_text(&errors, &arena);
    assert_true(text.len < 450);
    assert_non_null(strstr(text.ptr, "x; and 19 more"));
    arena_free(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(types),        cmocka_unit_test(numbers),
        cmocka_unit_test(strings),      cmocka_unit_test(containers),
        cmocka_unit_test(combinations), cmocka_unit_test(work_is_limited),
        cmocka_unit_test(heavy_values), cmocka_unit_test(reasons_are_limited),
        cmocka_unit_test(amounts),      cmocka_unit_test(one_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
