#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>

#include "dsl/diag.h"

static const char source[] = "workflow: order\n"
                             "name: Zo\xC3\xAB \xF0\x9F\x98\x80 x\r\n"
                             "\ttab: \x1b[31m\n"
                             "last";

static const char *printed(struct diags *diags, bool color, struct buf *out)
{
    buf_clear(out);
    diags_print(diags, color, out);
    return out->data ? out->data : "";
}

/* The text has the promised shape: place, code, line, underline, help, second place. */
static void text_shape(void **state)
{
    struct diags diags;
    struct buf out = {0};
    (void)state;
    diags_init(&diags, "a.yaml", str_z(source));
    struct diag *diag = diag_add(&diags, DIAG_ERROR, "E003", 1, 11, 5, "duplicate `%s`", "order");
    diag->other_line = 7;
    diag->other_column = 3;
    diag_help(&diags, diag, "remove %d", 1);
    assert_string_equal(printed(&diags, false, &out),
                        "a.yaml:1:11: error[E003]: duplicate `order` (first at 7:3)\n"
                        "    1 | workflow: order\n"
                        "      |           ^^^^^\n"
                        "   = help: remove 1\n");
    diags_free(&diags);
    buf_free(&out);
}

/* Columns are code points; the line's CR and control characters do not reach the terminal; an
 * underline ends with the line. */
static void unicode_and_controls(void **state)
{
    struct diags diags;
    struct buf out = {0};
    (void)state;
    diags_init(&diags, "a.yaml", str_z(source));
    diag_add(&diags, DIAG_WARNING, "W001", 2, 11, 1, "here");
    diag_add(&diags, DIAG_ERROR, "E001", 3, 7, 99, "a\x1b[31mb");
    diag_add(&diags, DIAG_ERROR, "E001", 4, 1, 4, "last line");
    assert_string_equal(printed(&diags, false, &out),
                        "a.yaml:2:11: warning[W001]: here\n"
                        "    2 | name: Zo\xC3\xAB \xF0\x9F\x98\x80 x\n"
                        "      |           ^\n"
                        "a.yaml:3:7: error[E001]: a [31mb\n"
                        "    3 |  tab:  [31m\n"
                        "      |       ^^^^^\n"
                        "a.yaml:4:1: error[E001]: last line\n"
                        "    4 | last\n"
                        "      | ^^^^\n");
    assert_null(strchr(out.data, '\x1b'));
    diags_free(&diags);
    buf_free(&out);
}

/* A diagnostic of the whole file has no place and no excerpt. */
static void whole_file(void **state)
{
    struct diags diags;
    struct buf out = {0};
    (void)state;
    diags_init(&diags, "a.yaml", STR(""));
    diag_add(&diags, DIAG_ERROR, "E011", 0, 0, 0, "the file is empty");
    assert_string_equal(printed(&diags, false, &out), "a.yaml: error[E011]: the file is empty\n");
    diags_free(&diags);
    buf_free(&out);
}

/* Sorted by line, column, severity and code; the same thing twice is said once. */
static void sorted_and_once(void **state)
{
    struct diags diags;
    (void)state;
    diags_init(&diags, "a.yaml", str_z(source));
    diag_add(&diags, DIAG_WARNING, "W001", 2, 1, 1, "c");
    diag_add(&diags, DIAG_ERROR, "E200", 2, 1, 1, "b");
    diag_add(&diags, DIAG_ERROR, "E100", 2, 1, 1, "a");
    diag_add(&diags, DIAG_ERROR, "E300", 1, 9, 1, "d");
    diag_add(&diags, DIAG_ERROR, "E300", 1, 9, 1, "d");
    diag_add(&diags, DIAG_ERROR, "E300", 1, 2, 1, "e");
    diags_sort(&diags);
    assert_int_equal(diags.count, 5);
    assert_int_equal(diags.errors, 4);
    assert_int_equal(diags.warnings, 1);
    for (uint32_t i = 0; i < 5; i++)
        assert_int_equal(diags.list[i].message.ptr[0], "edabc"[i]);
    diags_free(&diags);
}

/* Past the limit they are counted, and the last line says how many were left out. */
static void limited(void **state)
{
    struct diags diags;
    struct buf out = {0};
    (void)state;
    diags_init(&diags, "a.yaml", str_z(source));
    for (uint32_t i = 0; i < DIAGS_MAX + 7; i++)
        diag_help(&diags, diag_add(&diags, DIAG_ERROR, "E100", 1, 1 + i, 1, "number %u", i), "x");
    diags_sort(&diags);
    assert_int_equal(diags.count, DIAGS_MAX);
    assert_int_equal(diags.errors, DIAGS_MAX + 7);
    assert_int_equal(diags.left_out, 7);
    struct diag *last = diag_add(&diags, DIAG_WARNING, "W100", 1, 1, 1, "one more");
    assert_true(diags_are_full(&diags) && !diag_is_seen(&diags, last));
    assert_true(diag_is_seen(&diags, &diags.list[DIAGS_MAX - 1]));
    assert_int_equal(diags.warnings, 1);
    diags.left_out--;
    assert_non_null(strstr(printed(&diags, false, &out), "a.yaml: 7 more not shown\n"));
    diags_free(&diags);
    buf_free(&out);
}

/* Colours only when asked for. */
static void colours(void **state)
{
    struct diags diags;
    struct buf out = {0};
    (void)state;
    diags_init(&diags, "a.yaml", str_z(source));
    diag_add(&diags, DIAG_ERROR, "E100", 1, 1, 1, "x");
    assert_null(strchr(printed(&diags, false, &out), '\x1b'));
    assert_non_null(strstr(printed(&diags, true, &out), "\x1b[1;31merror[E100]\x1b[0m"));
    diags_free(&diags);
    buf_free(&out);
}

/* A line of a megabyte is shown around the underlined part only. */
static void long_line(void **state)
{
    struct diags diags;
    struct buf line = {0}, out = {0};
    (void)state;
    for (int i = 0; i < 1000000; i++)
        buf_add_char(&line, i == 500000 ? '!' : 'x');
    diags_init(&diags, "a.yaml", buf_str(&line));
    diag_add(&diags, DIAG_ERROR, "E100", 1, 500001, 1, "x");
    const char *text = printed(&diags, false, &out);
    assert_true(strlen(text) < 500);
    const char *mark = strchr(text, '!'), *under = strchr(text, '^');
    const char *first = strchr(text, '\n') + 1, *second = strchr(first, '\n') + 1;
    assert_int_equal(mark - first, under - second);
    diags_free(&diags);
    buf_free(&line);
    buf_free(&out);
}

/* As JSON every diagnostic has the same members, null where there is nothing. */
static void as_json(void **state)
{
    struct diags diags;
    struct arena arena = {0};
    (void)state;
    diags_init(&diags, "a.yaml", str_z(source));
    struct diag *diag = diag_add(&diags, DIAG_ERROR, "E003", 1, 11, 5, "twice");
    diag->other_line = 7;
    diag->other_column = 3;
    diag_add(&diags, DIAG_WARNING, "W001", 2, 1, 1, "careful");
    assert_string_equal(
        json_text(diags_json(&diags, &arena), &arena).ptr,
        "[{\"file\":\"a.yaml\",\"line\":1,\"column\":11,\"span\":5,\"severity\":\"error\","
        "\"code\":\"E003\",\"message\":\"twice\",\"help\":null,\"other\":{\"line\":7,\"column\":3}}"
        ","
        "{\"file\":\"a.yaml\",\"line\":2,\"column\":1,\"span\":1,\"severity\":\"warning\","
        "\"code\":\"W001\",\"message\":\"careful\",\"help\":null,\"other\":null}]");
    diags_free(&diags);
    arena_free(&arena);
}

/* The nearest name is one that could be meant: at most a third of the letters differ. */
static void nearest(void **state)
{
    static const char *const names[] = {"charge", "reserve", "compensate", "a", "on_failure"};
    static const struct {
        const char *word, *expected;
    } rows[] = {
        {"chrage", "charge"},
        {"Charge", "charge"},
        {"reserv", "reserve"},
        {"compensat", "compensate"},
        {"compensates", "compensate"},
        {"onFailure", "on_failure"},
        {"xyz", NULL},
        {"b", NULL},
        {"", NULL},
        {"charg", "charge"},
        {"refund", NULL},
        {"aa", "a"},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const char *found = diag_nearest(str_z(rows[i].word), names, ARRAY_LEN(names));
        if ((found == NULL) != (rows[i].expected == NULL) ||
            (found && strcmp(found, rows[i].expected) != 0))
            fail_msg("%s gave %s", rows[i].word, found ? found : "nothing");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_shape), cmocka_unit_test(unicode_and_controls),
        cmocka_unit_test(whole_file), cmocka_unit_test(sorted_and_once),
        cmocka_unit_test(limited),    cmocka_unit_test(colours),
        cmocka_unit_test(long_line),  cmocka_unit_test(as_json),
        cmocka_unit_test(nearest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
