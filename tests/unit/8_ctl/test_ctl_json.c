/*
 * The daemon's JSON laid out token by token, and its parts found, without a tree.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "engine/base/rand.h"
#include "engine/ctl_json.h"

static void check_pretty(const char *text, const char *pretty)
{
    struct buf out = {0};
    ctl_json_pretty(str_z(text), &out);
    assert_string_equal(out.data, pretty);
    buf_free(&out);
}

/* Layout is two blanks a level, and an empty container stays in its line. */
static void test_pretty(void **state)
{
    (void)state;
    check_pretty("1", "1\n");
    check_pretty(" \"a b\" ", "\"a b\"\n");
    check_pretty("[]", "[]\n");
    check_pretty("{ }", "{}\n");
    check_pretty("[[],{}]", "[\n  [],\n  {}\n]\n");
    check_pretty("{\"a\":1,\"b\":[true,null]}",
                 "{\n  \"a\": 1,\n  \"b\": [\n    true,\n    null\n  ]\n}\n");
    check_pretty("{\"a\\\"b{[\":\"]},:\\\\\"}", "{\n  \"a\\\"b{[\": \"]},:\\\\\"\n}\n");
}

/* A random value whose containers nest at most `depth` deep. */
static void random_value(struct rand *rand, unsigned depth, struct buf *out)
{
    static const char *const scalars[] = {
        "null", "true",           "-0",       "19.90",  "1e400",      "12345678901234567890123",
        "\"\"", "\"a\\\"b\\\\\"", "\"[{,:\"", "\"é \"", "\"\\u0041\""};
    static const char *const blanks[] = {"", "", " ", "\n\t", "\r\n  "};
    uint64_t kind = rand_below(rand, depth ? 4 : 2);
    buf_add_z(out, blanks[rand_below(rand, ARRAY_LEN(blanks))]);
    if (kind < 2) {
        buf_add_z(out, scalars[rand_below(rand, ARRAY_LEN(scalars))]);
    } else {
        uint64_t count = rand_below(rand, 4);
        buf_add_char(out, kind == 2 ? '[' : '{');
        for (uint64_t i = 0; i < count; i++) {
            if (i)
                buf_add_char(out, ',');
            if (kind == 3)
                buf_printf(out, "\"k%d\" :", (int)i);
            random_value(rand, depth - 1, out);
        }
        buf_add_z(out, blanks[rand_below(rand, ARRAY_LEN(blanks))]);
        buf_add_char(out, kind == 2 ? ']' : '}');
    }
    buf_add_z(out, blanks[rand_below(rand, ARRAY_LEN(blanks))]);
}

/* Whatever the value: laying it out changes no token, and doing it twice changes nothing more. */
static void test_layout_keeps_tokens(void **state)
{
    struct rand rand = rand_seed(20260101);
    (void)state;
    for (int i = 0; i < 3000; i++) {
        struct buf text = {0}, compact = {0}, pretty = {0}, again = {0}, squeezed = {0};
        random_value(&rand, 6, &text);
        ctl_json_compact(buf_str(&text), &compact);
        ctl_json_pretty(buf_str(&text), &pretty);
        ctl_json_pretty(buf_str(&pretty), &again);
        ctl_json_compact(buf_str(&pretty), &squeezed);
        assert_string_equal(pretty.data, again.data);
        assert_string_equal(compact.data, squeezed.data);
        /* Both are the same value to a parser that keeps digits. */
        struct arena arena = {0};
        const struct json *a, *b;
        struct err err;
        assert_int_equal(json_parse(buf_str(&text), &arena, &a, &err), 0);
        assert_int_equal(json_parse(buf_str(&pretty), &arena, &b, &err), 0);
        assert_true(str_eq(json_text(a, &arena), json_text(b, &arena)));
        arena_free(&arena);
        buf_free(&text), buf_free(&compact), buf_free(&pretty), buf_free(&again);
        buf_free(&squeezed);
    }
}

static void check_str(struct str text, const char *expected)
{
    if (!expected) {
        assert_null(text.ptr);
        return;
    }
    assert_non_null(text.ptr);
    assert_true(str_eq_z(text, expected));
}

/* A member's text is found at the top level only, whatever stands around and inside it. */
static void test_member(void **state)
{
    struct str text =
        STR(" {\"x\":{\"runs\":1}, \"s\":\"\\\"runs\\\":2\" ,\"runs\" : [1, {\"a\":[]}] }");
    (void)state;
    check_str(ctl_json_member(text, "runs"), "[1, {\"a\":[]}]");
    check_str(ctl_json_member(text, "s"), "\"\\\"runs\\\":2\"");
    check_str(ctl_json_member(text, "x"), "{\"runs\":1}");
    check_str(ctl_json_member(text, "a"), NULL);
    check_str(ctl_json_member(STR("{}"), "a"), NULL);
    check_str(ctl_json_member(STR("[1]"), "a"), NULL);
    check_str(ctl_json_member(STR(""), "a"), NULL);
    check_str(ctl_json_member(STR_NONE, "a"), NULL);
}

/* The items of a list come one by one, and then nothing. */
static void test_items(void **state)
{
    struct str rest = STR(" [ 1,\"a,]\" , [2,[3]],{\"b\":[4]} ,null ] ");
    static const char *const expected[] = {"1", "\"a,]\"", "[2,[3]]", "{\"b\":[4]}", "null"};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(expected); i++)
        check_str(ctl_json_next_item(&rest), expected[i]);
    check_str(ctl_json_next_item(&rest), NULL);
    check_str(ctl_json_next_item(&rest), NULL);
    rest = STR("[]");
    check_str(ctl_json_next_item(&rest), NULL);
    rest = STR_NONE;
    check_str(ctl_json_next_item(&rest), NULL);
}

/* Text that is no JSON, cut anywhere, is walked without reading past its end. */
static void test_broken(void **state)
{
    static const char text[] = "{\"a\":[1,\"x\\\"y\",{\"b\":{\"c\":[[]]}}],\"d\":\"\\u00e9\"}";
    (void)state;
    for (size_t len = 0; len < sizeof(text); len++) {
        char *copy = malloc(len ? len : 1); /* exactly that long, for the sanitizer */
        struct buf out = {0};
        assert_non_null(copy);
        memcpy(copy, text, len);
        struct str cut = {copy, len}, rest = cut;
        ctl_json_pretty(cut, &out);
        ctl_json_compact(cut, &out);
        ctl_json_member(cut, "d");
        for (int i = 0; i < 100 && ctl_json_next_item(&rest).ptr; i++)
            ;
        buf_free(&out);
        free(copy);
    }
}

/* A payload that is deeper than the parser goes costs only itself: what stands beside is read. */
static void test_deep(void **state)
{
    struct arena arena = {0};
    struct buf text = {0};
    const struct json *json;
    struct err err;
    (void)state;
    buf_add_z(&text, "{\"state\":\"completed\",\"output\":");
    for (int i = 0; i < 5000; i++)
        buf_add_char(&text, '[');
    for (int i = 0; i < 5000; i++)
        buf_add_char(&text, ']');
    buf_add_z(&text, ",\"n\":1.50}");
    assert_int_equal(ctl_json_parse(buf_str(&text), &arena, &json, &err), 0);
    assert_true(str_eq_z(json_get_text(json, "state"), "completed"));
    assert_true(str_eq_z(json_get_z(json, "n")->text, "1.50"));
    assert_int_equal(ctl_json_parse(STR("{\"a\":[}"), &arena, &json, &err), ERR_INVALID);
    buf_free(&text);
    arena_free(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pretty), cmocka_unit_test(test_layout_keeps_tokens),
        cmocka_unit_test(test_member), cmocka_unit_test(test_items),
        cmocka_unit_test(test_broken), cmocka_unit_test(test_deep),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
