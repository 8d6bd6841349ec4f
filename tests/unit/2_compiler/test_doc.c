/*
 * The YAML loader: what it accepts, how it types scalars, where things stand, and that no file can
 * make it slow or large. What it says of wrong files is in tests/golden/dsl.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "dsl/doc.h"
#include "dsl/dsl.h"

struct loaded {
    struct doc doc;
    struct diags diags;
    struct arena arena;
};

static void load(struct loaded *l, const char *source)
{
    *l = (struct loaded){0};
    diags_init(&l->diags, "t.yaml", str_z(source));
    doc_load(&l->doc, str_z(source), DSL_SOURCE_BYTES_MAX, DSL_NODES_MAX, &l->diags);
}

static void unload(struct loaded *l)
{
    doc_free(&l->doc);
    diags_free(&l->diags);
    arena_free(&l->arena);
}

static const char *as_json(struct loaded *l)
{
    struct buf said = {0};
    if (l->doc.root && !l->diags.errors)
        return json_text(node_json(l->doc.root, &l->arena), &l->arena).ptr;
    diags_print(&l->diags, false, &said);
    const char *text = arena_str(&l->arena, buf_str(&said)).ptr;
    buf_free(&said);
    return text;
}

static void json_check(const char *source, const char *expected)
{
    struct loaded l;
    load(&l, source);
    assert_string_equal(as_json(&l), expected);
    unload(&l);
}

static bool has_code(const struct loaded *l, const char *code)
{
    for (uint32_t i = 0; i < l->diags.count; i++)
        if (strcmp(l->diags.list[i].code, code) == 0)
            return true;
    return false;
}

static void code_check(const char *source, const char *code)
{
    struct loaded l;
    load(&l, source);
    if (!has_code(&l, code))
        fail_msg("%s did not give %s but %s", source, code, as_json(&l));
    unload(&l);
}

/* a_yaml_1: only true and false are booleans; the words of YAML 1.1 are text and get a warning. */
static void a_yaml_1(void **state)
{
    struct loaded l;
    (void)state;
    json_check("{country: NO, flag: yes, sw: off, axis: y, ok: true, no: false}",
               "{\"country\":\"NO\",\"flag\":\"yes\",\"sw\":\"off\",\"axis\":\"y\",\"ok\":true,"
               "\"no\":false}");
    load(&l, "{a: NO, b: yes, c: off, d: y, on: 1, e: \"no\", f: norway, y: 2}");
    assert_int_equal(l.diags.warnings, 5);
    assert_int_equal(l.diags.errors, 0);
    unload(&l);
}

/* a_yaml_2: a key that stands twice is refused in every spelling, with both places. */
static void a_yaml_2(void **state)
{
    static const char *const sources[] = {
        "a: 1\nb: 2\na: 3\n",   "x:\n  - a: 1\n    a: 2\n",
        "\"a\": 1\na: 2\n",     "\"\\x61\": 1\na: 2\n",
        "{a: 1, a: 2}",         "'a': 1\n\"\\u0061\": 2\n",
        "? a\n: 1\n? a\n: 2\n",
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(sources); i++) {
        struct loaded l;
        load(&l, sources[i]);
        assert_int_equal(l.diags.errors, 1);
        assert_string_equal(l.diags.list[0].code, "E003");
        assert_true(l.diags.list[0].line > 0 && l.diags.list[0].other_line > 0);
        assert_true(l.diags.list[0].line > l.diags.list[0].other_line ||
                    l.diags.list[0].column > l.diags.list[0].other_column);
        unload(&l);
    }
    json_check("{a: {a: 1}, b: {a: 2}}", "{\"a\":{\"a\":1},\"b\":{\"a\":2}}");
}

static double seconds_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Refused with this code, within a second and 64 MiB. */
static void bomb_check(const char *source, const char *code)
{
    struct loaded l;
    struct mallinfo2 before = mallinfo2();
    double start = seconds_now();
    load(&l, source);
    struct mallinfo2 after = mallinfo2();
    assert_true(seconds_now() - start < 1);
    size_t grown = after.uordblks + after.hblkhd - before.uordblks - before.hblkhd;
    assert_true((ssize_t)grown < 64 * 1024 * 1024);
    assert_null(l.doc.root);
    assert_true(has_code(&l, code));
    unload(&l);
}

static void repeat(struct buf *out, const char *text, size_t count)
{
    for (size_t i = 0; i < count; i++)
        buf_add_z(out, text);
}

/* a_yaml_3: bombs of aliases, depth and size are refused at once; ordinary aliases work. */
static void a_yaml_3(void **state)
{
    struct buf bomb = {0};
    (void)state;
    buf_add_z(&bomb, "a0: &a0 [x,x,x,x,x,x,x,x,x]\n");
    for (int i = 1; i < 9; i++) {
        buf_printf(&bomb, "a%d: &a%d [", i, i);
        for (int j = 0; j < 9; j++)
            buf_printf(&bomb, "%s*a%d", j ? "," : "", i - 1);
        buf_add_z(&bomb, "]\n");
    }
    bomb_check(bomb.data, "E009");

    buf_clear(&bomb);
    repeat(&bomb, "[", 100000);
    bomb_check(bomb.data, "E009");

    buf_clear(&bomb);
    buf_add_z(&bomb, "&a [ *a ]");
    code_check(bomb.data, "E008");

    buf_clear(&bomb);
    buf_add_z(&bomb, "big: \"");
    repeat(&bomb, "0123456789abcdef", 3200000); /* 50 MB */
    buf_add_z(&bomb, "\"\n");
    bomb_check(bomb.data, "E009");

    buf_clear(&bomb);
    repeat(&bomb, "- x\n", 20001);
    bomb_check(bomb.data, "E009");

    buf_clear(&bomb);
    buf_add_z(&bomb, "a: &a [");
    repeat(&bomb, "x,", 5000);
    buf_add_z(&bomb, "]\nb: [*a, *a, *a, *a]\n");
    bomb_check(bomb.data, "E009");
    buf_free(&bomb);

    json_check("a: &a 1\nb: &b {x: *a, y: *a}\nc: &c [*a, *b]\nd: [*b, *c]\n",
               "{\"a\":1,\"b\":{\"x\":1,\"y\":1},\"c\":[1,{\"x\":1,\"y\":1}],"
               "\"d\":[{\"x\":1,\"y\":1},[1,{\"x\":1,\"y\":1}]]}");
    json_check("a: &x 1\nb: &x 2\nc: *x\n", "{\"a\":1,\"b\":2,\"c\":2}");
}

/* Aliases cannot get around the depth limit. */
static void depth_through_aliases(void **state)
{
    struct buf source = {0};
    (void)state;
    buf_add_z(&source, "a: &a ");
    repeat(&source, "[", 40);
    repeat(&source, "]", 40);
    buf_add_z(&source, "\nb: ");
    repeat(&source, "[", 40);
    buf_add_z(&source, "*a");
    repeat(&source, "]", 40);
    buf_add_char(&source, '\n');
    bomb_check(source.data, "E009");
    buf_free(&source);
}

/* a_yaml_4: one reading of every scalar: dates and times are text, numbers keep their digits. */
static void a_yaml_4(void **state)
{
    (void)state;
    json_check("{v: 1.10, t: 12:30:45, d: 2026-10-25, n: 1_000, s: null, q: 'null', e: , "
               "big: 123456789012345678901, neg: -0, ip: 10.0.0.1, ver: 1.2.3, dash: -, "
               "minus: -x, under: _1, money: 5EUR, empty: ''}",
               "{\"v\":1.10,\"t\":\"12:30:45\",\"d\":\"2026-10-25\",\"n\":\"1_000\",\"s\":null,"
               "\"q\":\"null\",\"e\":null,\"big\":123456789012345678901,\"neg\":-0,"
               "\"ip\":\"10.0.0.1\",\"ver\":\"1.2.3\",\"dash\":\"-\",\"minus\":\"-x\","
               "\"under\":\"_1\",\"money\":\"5EUR\",\"empty\":\"\"}");
    static const char *const refused[] = {
        "0123", "-01",  "+5",    "1e3",  "1.",    ".5",    "0x1F", "0o7", "~",      "Null",
        "NULL", "True", "FALSE", ".inf", "-.INF", "+.Inf", ".nan", "1E5", "1.5e-3", "-.5"};
    for (size_t i = 0; i < ARRAY_LEN(refused); i++) {
        char source[64];
        snprintf(source, sizeof(source), "a: %s\n", refused[i]);
        code_check(source, "E007");
        snprintf(source, sizeof(source), "a: \"%s\"\n", refused[i]);
        struct loaded l;
        load(&l, source);
        assert_int_equal(l.diags.errors, 0);
        assert_true(str_eq_z(node_get(l.doc.root, "a")->text, refused[i]));
        unload(&l);
    }
}

/* a_yaml_5: merge keys are refused by name; a quoted "<<" is an ordinary name. */
static void a_yaml_5(void **state)
{
    (void)state;
    code_check("a: &a {x: 1}\nb:\n  <<: *a\n  x: 2\n", "E005");
    code_check("a: {<<: [{x: 1}]}\n", "E005");
    code_check("a: {<<: 5}\n", "E005");
    json_check("\"<<\": 1\n", "{\"<<\":1}");
}

/* What else is no file of ours. */
static void refused(void **state)
{
    (void)state;
    code_check("", "E011");
    code_check("# only\n", "E011");
    code_check("a: 1\n---\nb: 2\n", "E006");
    code_check("---\n---\n", "E006");
    code_check("a: !!int 5\n", "E004");
    code_check("a: !x\n", "E004");
    code_check("!!map {a: 1}\n", "E004");
    code_check("a: *b\n", "E008");
    code_check("1: a\n", "E010");
    code_check("? [a]\n: b\n", "E010");
    code_check("%YAML 1.1\n---\na: 1\n", "E014");
    code_check("a: \"\xff\"\n", "E001");
    code_check("a: \"\\0\"\n", "E001");
    code_check("a: b: c\n", "E002");
    code_check("a: \"x\xE2\x80\xA8y\"\n", "E001");
    code_check("a: 1\rb: 2\n", "E001");
    code_check("a: \xC2\x85 b\n", "E001");
    json_check("%YAML 1.2\n---\na: 1\n...\n", "{\"a\":1}");
}

static void place_check(const char *source, const char *key, const char *word, uint32_t line,
                        uint32_t column, uint32_t span)
{
    struct loaded l;
    load(&l, source);
    const struct node *node = node_get(l.doc.root, key);
    assert_non_null(node);
    const char *found = strstr(node->text.ptr, word);
    assert_non_null(found);
    size_t at = (size_t)(found - node->text.ptr);
    struct place place = doc_text_place(&l.doc, node, at, at + strlen(word));
    if (place.line != line || place.column != column || place.span != span)
        fail_msg("`%s` in %s: %u:%u+%u instead of %u:%u+%u", word, source, place.line, place.column,
                 place.span, line, column, span);
    unload(&l);
}

/* A part of a value is found in the source, whatever quotes, escapes and folds are between. */
static void places(void **state)
{
    (void)state;
    place_check("a: one two\n", "a", "two", 1, 8, 3);
    place_check("a: 'it''s two'\n", "a", "two", 1, 11, 3);
    place_check("a: \"x\\n\\u00e9\\\"two\"\n", "a", "two", 1, 16, 3);
    place_check("\xC3\xA9: \xF0\x9F\x98\x80 two\n", "\xC3\xA9", "two", 1, 6, 3);
    place_check("x: 1\r\na: one two\r\n", "a", "two", 2, 8, 3);
    place_check("\xEF\xBB\xBF"
                "a: one two\n",
                "a", "two", 1, 8, 3);
    place_check("a: one\n  two\n   three\n", "a", "three", 3, 4, 5);
    place_check("a: \"one\n  two\\\n   three\"\n", "a", "three", 3, 4, 5);
    place_check("a: |\n  one\n    two\n  three\n", "a", "two", 3, 5, 3);
    place_check("a: |\n  one\n    two\n  three\n", "a", "three", 4, 3, 5);
    place_check("a: >-\n  one\n  two\n\n  three\n", "a", "three", 5, 3, 5);
    place_check("a: >-\n\n  one\n", "a", "one", 3, 3, 3);
    place_check("a: 'one\n\n  two'\n", "a", "two", 3, 3, 3);
}

/* Many code points before a place do not shift it. */
static void far_places(void **state)
{
    struct buf source = {0};
    (void)state;
    for (int i = 0; i < 2000; i++)
        buf_printf(&source, "k%d: \xC3\xA4\xE2\x82\xAC\xF0\x9F\x98\x80 x\n", i);
    buf_add_z(&source, "a: \xC3\xA4 two\n");
    place_check(source.data, "a", "two", 2001, 6, 3);
    buf_free(&source);
}

/* A template that a comment cuts off is seen, one inside a quoted text or a real comment is not. */
static void comment_trap(void **state)
{
    (void)state;
    code_check("a: x #${{ input.y }}\n", "E012");
    code_check("a: [x #${{ y }}\n ]\n", "E012");
    static const char *const fine[] = {
        "a: \"x #${{ y }}\"\n", "a: 'x #${{ y }}'\n", "a: |\n  x #${{ y }}\n",  "#${{ y }}\na: 1\n",
        "a: 1\n  #${{ y }}\n",  "a: x#${{ y }}\n",    "a: x # see #${{ y }}\n",
    };
    for (size_t i = 0; i < ARRAY_LEN(fine); i++) {
        struct loaded l;
        load(&l, fine[i]);
        if (l.diags.count)
            fail_msg("%s: %s", fine[i], as_json(&l));
        unload(&l);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_yaml_1),   cmocka_unit_test(a_yaml_2),
        cmocka_unit_test(a_yaml_3),   cmocka_unit_test(depth_through_aliases),
        cmocka_unit_test(a_yaml_4),   cmocka_unit_test(a_yaml_5),
        cmocka_unit_test(refused),    cmocka_unit_test(places),
        cmocka_unit_test(far_places), cmocka_unit_test(comment_trap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
