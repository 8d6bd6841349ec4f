#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/base/decimal.h"

typedef int (*operation_fn)(struct str a, struct str b, struct arena *arena, struct str *out,
                            struct err *err);

static void check(operation_fn operation, const char *a, const char *b, const char *expected)
{
    struct arena arena = {0};
    struct str out;
    struct err err;
    int code = operation(str_z(a), str_z(b), &arena, &out, &err);
    if (!expected) {
        assert_int_equal(code, ERR_LIMIT);
    } else {
        assert_int_equal(code, 0);
        assert_string_equal(out.ptr, expected);
    }
    arena_free(&arena);
}

/* Sums, differences and products are exact and keep the digits after the point. */
static void exact_results(void **state)
{
    (void)state;
    check(decimal_add, "0.1", "0.2", "0.3");
    check(decimal_add, "1.50", "1.5", "3.00");
    check(decimal_add, "9007199254740993", "1", "9007199254740994");
    check(decimal_add, "-1", "0.25", "-0.75");
    check(decimal_sub, "0", "-0", "0");
    check(decimal_sub, "1", "1.00", "0.00");
    check(decimal_sub, "0", "0.05", "-0.05");
    check(decimal_mul, "1990", "0.01", "19.90");
    check(decimal_mul, "-1.1", "-1.1", "1.21");
    check(decimal_mul, "1e2", "1.5", "150.0");
    check(decimal_mul, "12e-1", "10", "12.0");
    check(decimal_add, "1e-3", "0", "0.001");
}

/* A whole result beyond 64 bits, or more than 36 digits, is refused and never rounded. */
static void overflow_is_refused(void **state)
{
    (void)state;
    check(decimal_add, "9223372036854775807", "0", "9223372036854775807");
    check(decimal_add, "9223372036854775807", "1", NULL);
    check(decimal_sub, "-9223372036854775808", "1", NULL);
    check(decimal_mul, "4294967296", "4294967296", NULL);
    check(decimal_add, "9223372036854775807.5", "1", "9223372036854775808.5");
    check(decimal_add, "1234567890123456789012345678901234567", "1", NULL);
    check(decimal_mul, "0.123456789012345678", "0.1234567890123456789", NULL);
    check(decimal_add, "1e40", "1", NULL);
    check(decimal_add, "1e-40", "1", NULL);
    check(decimal_add, "99999999999999999999", "0.00000000000000000001", NULL);
    check(decimal_add, "0e99999", "1", "1");
}

static int64_t trunc_of(const char *text)
{
    int64_t value = -1;
    struct err err;
    assert_int_equal(decimal_trunc(str_z(text), &value, &err), 0);
    return value;
}

/* Truncation drops the fraction towards zero. */
static void truncation(void **state)
{
    int64_t value;
    struct err err;
    (void)state;
    assert_int_equal(trunc_of("19.90"), 19);
    assert_int_equal(trunc_of("-19.90"), -19);
    assert_int_equal(trunc_of("-0.5"), 0);
    assert_int_equal(trunc_of("1e3"), 1000);
    assert_int_equal(trunc_of("-9223372036854775808"), INT64_MIN);
    assert_int_equal(decimal_trunc(STR("9223372036854775808"), &value, &err), ERR_LIMIT);
}

/* A number is whole by its value, not by its spelling. */
static void whole_numbers(void **state)
{
    static const char *const whole[] = {
        "0",   "-0",  "1.0",  "1e2",     "12.50e2", "10e-1",
        "0.0", "100", "0e-9", "10.0e-1", "1.0e0",   "1234567890123456789012345678901234567890"};
    static const char *const broken[] = {"0.5", "1e-1", "12.55e1", "10e-2", "1.5e0", "0.001e2"};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(whole); i++)
        if (!decimal_is_whole(str_z(whole[i])))
            fail_msg("%s is whole", whole[i]);
    for (size_t i = 0; i < ARRAY_LEN(broken); i++)
        if (decimal_is_whole(str_z(broken[i])))
            fail_msg("%s is not whole", broken[i]);
}

/* Only JSON's spelling is a number. */
static void number_syntax(void **state)
{
    static const char *const good[] = {"0", "-0", "10", "0.5", "1e5", "1E+5", "-1.25e-3"};
    static const char *const bad[] = {"",    "-",   "01", "+1", ".5",  "5.",  "1e",
                                      "1e+", "0x1", "1 ", " 1", "1_0", "NaN", "--1"};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(good); i++)
        assert_true(decimal_is_number(str_z(good[i])));
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_false(decimal_is_number(str_z(bad[i])));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exact_results), cmocka_unit_test(overflow_is_refused),
        cmocka_unit_test(truncation),    cmocka_unit_test(whole_numbers),
        cmocka_unit_test(number_syntax),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
