#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <time.h>

#include "dsl/jsonschema_pattern.h"

static bool matches(const char *pattern, const char *text)
{
    struct arena arena = {0};
    const char *error;
    size_t at;
    const struct pattern *compiled = pattern_compile(str_z(pattern), &arena, &error, &at);
    if (!compiled)
        fail_msg("%s: %s at %zu", pattern, error, at);
    bool found = pattern_match(compiled, str_z(text), &arena);
    arena_free(&arena);
    return found;
}

/* The subset matches what ECMA-262 says, by code points and anywhere in the text. */
static void matching(void **state)
{
    static const struct {
        const char *pattern, *text;
        bool expected;
    } rows[] = {
        {"", "", true},
        {"a", "xay", true},
        {"a", "xyz", false},
        {"^a$", "a", true},
        {"^a$", "ab", false},
        {"^$", "", true},
        {"^ORD-[0-9]{6}$", "ORD-123456", true},
        {"^ORD-[0-9]{6}$", "ORD-12345", false},
        {"^ORD-[0-9]{6}$", "ORD-1234567", false},
        {"a|b|cd", "xcdx", true},
        {"^(a|b)+$", "abba", true},
        {"^(a|b)+$", "abca", false},
        {"^(?:ab)*$", "abab", true},
        {"^(?:ab)*$", "aba", false},
        {"^a?b$", "b", true},
        {"^a{2,3}$", "aa", true},
        {"^a{2,3}$", "aaaa", false},
        {"^a{2,}$", "aaaaa", true},
        {"^a{0}$", "", true},
        {"^.$", "\xC3\xA9", true},
        {"^.$", "\n", false},
        {"^[^x]$", "\xF0\x9F\x98\x80", true},
        {"^[a-z\xC3\xA4-\xC3\xBC]+$",
         "n\xC3\xBC"
         "bel",
         true},
        {"^\\d{2}$", "42", true},
        {"^\\D$", "4", false},
        {"^\\w+$", "a_Z9", true},
        {"^\\w+$", "a-b", false},
        {"^\\s$", "\t", true},
        {"^\\S$", " ", false},
        {"^[\\w.+-]+@[\\w-]+\\.[a-z]{2,}$", "ann+x@ex-ample.org", true},
        {"^[\\w.+-]+@[\\w-]+\\.[a-z]{2,}$", "ann@", false},
        {"^[\\d\\s]+$", "1 2", true},
        {"^[^\\d]+$", "ab1", false},
        {"\\.", "a", false},
        {"\\u00e9", "caf\xC3\xA9", true},
        {"\\x41", "A", true},
        {"^[a-]$", "-", true},
        {"^a+?b$", "aab", true},
        {"a$|^b", "ba", true},
        {"^(a*)*$", "aaa", true},
        {"^(a*)*$", "b", false},
        {"[\\]\\\\]", "]", true},
        {"^\\$\\^\\*$", "$^*", true},
        {"^(|a)b$", "b", true},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (matches(rows[i].pattern, rows[i].text) != rows[i].expected)
            fail_msg("%s on %s: expected %d", rows[i].pattern, rows[i].text, rows[i].expected);
}

/* What is not in the subset is refused with its reason, never matched otherwise. */
static void refused(void **state)
{
    static const struct {
        const char *pattern, *reason;
    } rows[] = {
        {"(?=a)", "look-around"},
        {"(?<n>a)", "named groups"},
        {"(a)\\1", "back references"},
        {"\\bword", "word boundaries"},
        {"\\p{L}", "Unicode classes"},
        {"a(b", "not closed"},
        {"a)", "no ("},
        {"[a", "not closed"},
        {"*a", "nothing to repeat"},
        {"a**", "nothing to repeat"},
        {"a{1", "{m}"},
        {"a{,2}", "{m}"},
        {"a{3,2}", "{m}"},
        {"a{1001}", "larger than 1000"},
        {"[z-a]", "backwards"},
        {"\\", "backslash"},
        {"\\q", "unknown escape"},
        {"\\xZZ", "hex"},
        {"a{", "{m}"},
        {"]", "bracket"},
        {"(((a{1000}){1000}){1000})", "too large"},
        {"((((){1000}){1000}){1000}){1000}", "too large"},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct arena arena = {0};
        const char *error = NULL;
        size_t at;
        if (pattern_compile(str_z(rows[i].pattern), &arena, &error, &at))
            fail_msg("%s was accepted", rows[i].pattern);
        if (!strstr(error, rows[i].reason))
            fail_msg("%s: %s", rows[i].pattern, error);
        assert_true(at <= strlen(rows[i].pattern));
        arena_free(&arena);
    }
}

/* Patterns that take other engines years are done at once. */
static void linear_time(void **state)
{
    char text[20001];
    struct timespec from, to;
    (void)state;
    memset(text, 'a', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    clock_gettime(CLOCK_MONOTONIC, &from);
    assert_false(matches("^(a+)+$b", text));
    assert_false(matches("^(a|aa)+$x", text));
    assert_true(matches("^(a?){100}a{100}", text));
    clock_gettime(CLOCK_MONOTONIC, &to);
    assert_true(to.tv_sec - from.tv_sec < 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matching),
        cmocka_unit_test(refused),
        cmocka_unit_test(linear_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
