/*
 * Text for people: columns, cutting, times, and what must never reach a terminal.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "engine/base/rand.h"
#include "engine/ctl_text.h"

#include <locale.h>

static void check_cut(const char *text, size_t columns, const char *expected)
{
    struct buf out = {0};
    buf_add_z(&out, "");
    size_t width = text_add_cut(&out, str_z(text), columns);
    assert_string_equal(out.data ? out.data : "", expected);
    assert_int_equal(width, text_width(buf_str(&out)));
    assert_true(width <= columns);
    buf_free(&out);
}

/* What does not fit ends with an ellipsis, and the whole is never wider than it may be. */
static void test_cut(void **state)
{
    (void)state;
    text_locale(true);
    check_cut("charge", 6, "charge");
    check_cut("charge", 5, "char…");
    check_cut("charge", 1, "…");
    check_cut("charge", 0, "");
    check_cut("", 0, "");
    check_cut("カード", 6, "カード");
    check_cut("カード", 5, "カー…");
    check_cut("カード", 4, "カ…");
    check_cut("e\xCC\x81t\xC3\xA9", 3, "e\xCC\x81t\xC3\xA9"); /* a combining accent */
    text_locale(false);
    check_cut("charge", 5, "ch...");
    check_cut("charge", 2, "");
    text_locale(true);
}

/* Control characters, C1 too, direction overrides and broken UTF-8 become a replacement. */
static void test_harmless(void **state)
{
    struct buf out = {0};
    (void)state;
    text_locale(true);
    text_add(&out, STR("a\x1b[2Jb\r\nc\x7f\xC2\x9B\xE2\x80\xAE\xFF\xE2\x80"));
    assert_string_equal(out.data, "a\uFFFD[2Jb\uFFFD\uFFFDc\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD");
    buf_clear(&out);
    text_add_lines(&out, STR("a\nb\x1b"));
    assert_string_equal(out.data, "a\nb\uFFFD");
    buf_clear(&out);
    text_locale(false);
    text_add(&out, STR("\x1b[1m"));
    assert_string_equal(out.data, "?[1m");
    text_locale(true);
    buf_free(&out);
}

/* Any bytes: the result is harmless UTF-8, within its columns, and width is what was added. */
static void test_any_bytes(void **state)
{
    struct rand rand = rand_seed(7);
    (void)state;
    for (int i = 0; i < 20000; i++) {
        char bytes[24];
        size_t len = rand_below(&rand, sizeof(bytes));
        struct buf whole = {0}, cut = {0};
        for (size_t j = 0; j < len; j++)
            bytes[j] = (char)(rand_chance(&rand, 40) ? rand_below(&rand, 256)
                                                     : ' ' + rand_below(&rand, 95));
        struct str text = {bytes, len};
        size_t columns = rand_below(&rand, 30);
        text_add(&whole, text);
        size_t width = text_add_cut(&cut, text, columns);
        assert_true(str_is_utf8(buf_str(&whole)));
        assert_true(str_is_utf8(buf_str(&cut)));
        assert_int_equal(text_width(text), text_width(buf_str(&whole)));
        assert_true(width <= columns);
        for (size_t j = 0; j < whole.len; j++)
            assert_true((unsigned char)whole.data[j] >= ' ' && whole.data[j] != 0x7F);
        buf_free(&whole);
        buf_free(&cut);
    }
}

/* Durations and ages read naturally, at the borders of their units too. */
static void test_times(void **state)
{
    static const struct {
        int64_t us;
        const char *duration, *age;
    } cases[] = {
        {0, "0ms", "0s"},
        {999 * MS_US, "999ms", "0s"},
        {SECOND_US, "1.0s", "1s"},
        {MINUTE_US - 1, "59.9s", "59s"},
        {MINUTE_US, "1m 00s", "60s"},
        {HOUR_US - SECOND_US, "59m 59s", "59m"},
        {HOUR_US, "1h 00m", "60m"},
        {DAY_US - 1, "23h 59m", "23h"},
        {DAY_US, "1d 00h", "24h"},
        {400 * DAY_US, "400d 00h", "400d"},
        {-5 * SECOND_US, "0ms", "0s"}, /* clocks that differ */
    };
    struct arena arena = {0};
    struct wall now = {INT64_C(1790000000) * SECOND_US};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        assert_string_equal(text_duration(cases[i].us, &arena).ptr, cases[i].duration);
        assert_string_equal(text_age(wall_add(now, -cases[i].us), now, &arena).ptr, cases[i].age);
    }
    assert_int_equal(text_age(WALL_NONE, now, &arena).len, 0);
    assert_int_equal(text_time(WALL_NONE, &arena).len, 0);
    struct wall at = {INT64_C(1790000000123456)};
    assert_string_equal(text_time(at, &arena).ptr, "2026-09-21T14:13:20Z");
    assert_string_equal(text_time_ms(at, &arena).ptr, "2026-09-21T14:13:20.123Z");
    arena_free(&arena);
}

/* Columns are as wide as their widest cell; nothing is padded at the end of a line. */
static void test_table(void **state)
{
    struct ctl ctl = {0};
    struct table table = {.indent = 1};
    (void)state;
    text_locale(true);
    table_column(&table, "A");
    table_column(&table, "LONG");
    table_column(&table, "");
    table_add(&table, STR("カード"), PAINT_RED);
    table_add(&table, STR("x"), PAINT_NONE);
    table_add(&table, STR(""), PAINT_NONE);
    table_add(&table, STR("b"), PAINT_NONE);
    table_add(&table, STR(""), PAINT_NONE);
    table_add(&table, STR("end"), PAINT_NONE);
    table_print(&table, &ctl);
    assert_string_equal(ctl.out.data, " A       LONG\n"
                                      " カード  x\n"
                                      " b             end\n");
    table_free(&table);
    buf_free(&ctl.out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cut),       cmocka_unit_test(test_harmless),
        cmocka_unit_test(test_any_bytes), cmocka_unit_test(test_times),
        cmocka_unit_test(test_table),
    };
    setlocale(LC_CTYPE, "C.UTF-8");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
