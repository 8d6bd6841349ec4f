/*
 * test_base.c: JSON with exact numbers, times, durations, containers.
 */
#include "engine/base/clock.h"
#include "engine/base/heap.h"
#include "engine/base/json.h"
#include "engine/base/map.h"
#include "engine/base/rand.h"
#include "engine/base/sha256.h"
#include "engine/base/uri.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static struct arena arena;

static int arena_clear(void **state)
{
    (void)state;
    arena_free(&arena);
    return 0;
}

static const struct json *parsed(const char *text)
{
    const struct json *value;
    struct err err;
    if (json_parse(str_z(text), &arena, &value, &err) != 0)
        fail_msg("%s: %s", text, err.text);
    return value;
}

/* A-NUM-1, A-NUM-2: digits, order of members and spelling survive. */
static void json_keeps_what_it_reads(void **state)
{
    static const char text[] =
        "{\"b\":1,\"a\":{\"z\":1.0,\"y\":[]},\"n\":[9007199254740993,1610521604143693812,"
        "1234567890123456789012,-0,19.90,1e3],\"t\":\"\\\"\\\\\\n\xc3\xa9\",\"u\":null,\"v\":true}";
    (void)state;
    assert_string_equal(json_text(parsed(text), &arena).ptr, text);
    assert_string_equal(json_text(parsed("\"\\u00e9\\ud83d\\ude00\\/\""), &arena).ptr,
                        "\"\xc3\xa9\xf0\x9f\x98\x80/\"");
}

/* The text of a list is taken apart without building it; broken text ends the walk inside it. */
static void json_list_is_walked(void **state)
{
    static const char *const wanted[] = {"1", "\"a,]\\\"[\"", "[2, [3]]", "{\"k\": [\"}\"]}",
                                         "null"};
    struct str text = STR(" [ 1, \"a,]\\\"[\" ,[2, [3]],{\"k\": [\"}\"]}\n, null ] "), item;
    size_t at = 0;
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(wanted); i++) {
        assert_true(json_list_walk(text, &at, &item));
        assert_true(str_eq_z(item, wanted[i]));
    }
    assert_false(json_list_walk(text, &at, &item));
    static const char *const broken[] = {"",    "[",     "[]",  " ",  "{",  "7",
                                         "[\"", "[\"\\", "[[[", "[1", "[1,"};
    for (size_t i = 0; i < ARRAY_LEN(broken); i++) {
        text = str_z(broken[i]);
        at = 0;
        for (int turns = 0; json_list_walk(text, &at, &item); turns++) {
            assert_true(turns < 3 && item.ptr + item.len <= text.ptr + text.len);
            assert_true(at <= text.len);
        }
    }
}

static void json_refuses(void **state)
{
    static const char *const bad[] = {
        "",
        "{",
        "[1,]",
        "{\"a\":1,}",
        "{\"a\":1,\"a\":2}",
        "nul",
        "NaN",
        "Infinity",
        "01",
        "+1",
        "1.",
        ".5",
        "1e",
        "1e999999",
        "\"\\u0000\"",
        "\"\\ud800\"",
        "\"\\udc00x\"",
        "\"\\x\"",
        "\"a\nb\"",
        "\"\xff\"",
        "\"\xc0\x80\"",
        "1 2",
        "{\"a\" 1}",
        "{a:1}",
        "\"\\ud800\\u0041\"",
        "[1 2]",
        "tru",
        "\"open",
        "\"\xed\xa0\x80\"",
        "-",
    };
    const struct json *value;
    struct err err;
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        if (json_parse(str_z(bad[i]), &arena, &value, &err) == 0)
            fail_msg("accepted: %s", bad[i]);
    char deep[2 * JSON_DEPTH_MAX + 3] = "";
    memset(deep, '[', JSON_DEPTH_MAX + 1);
    memset(deep + JSON_DEPTH_MAX + 1, ']', JSON_DEPTH_MAX + 1);
    assert_int_not_equal(json_parse(str_z(deep), &arena, &value, &err), 0);
    assert_int_equal(json_parse((struct str){deep + 1, 2 * JSON_DEPTH_MAX}, &arena, &value, &err),
                     0);
}

static const char *canonical(const char *text)
{
    struct buf out = {0};
    json_write_canonical(parsed(text), &out);
    const char *copy = arena_str(&arena, buf_str(&out)).ptr;
    buf_free(&out);
    return copy;
}

static void json_canonical(void **state)
{
    static const char *const pairs[][2] = {
        {"{\"b\":1,\"a\":2}", "{\"a\":2,\"b\":1}"},
        {"1.50", "1.5"},
        {"15e-1", "1.5"},
        {"1500", "1500"},
        {"1.5E3", "1500"},
        {"-0.0", "0"},
        {"0.00100", "0.001"},
        {"-12.0", "-12"},
        {"1234567890123456789012", "1234567890123456789012"},
        {"1e60", "0.1e61"},
        {"1e-60", "0.1e-59"},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(pairs); i++)
        assert_string_equal(canonical(pairs[i][0]), pairs[i][1]);
}

static void json_numbers_compare_exactly(void **state)
{
    static const char *const ascending[] = {"-1e9",
                                            "-10.5",
                                            "-10.4999",
                                            "-0.001",
                                            "0",
                                            "1e-50",
                                            "0.3",
                                            "0.30000000000000001",
                                            "1",
                                            "1.5",
                                            "9007199254740992",
                                            "9007199254740993",
                                            "1e400"};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(ascending); i++)
        for (size_t j = 0; j < ARRAY_LEN(ascending); j++) {
            int order = json_number_cmp(str_z(ascending[i]), str_z(ascending[j]));
            assert_int_equal((order > 0) - (order < 0), (i > j) - (i < j));
        }
    assert_int_equal(json_number_cmp(STR("1.0"), STR("10e-1")), 0);
}

static void json_differences(void **state)
{
    (void)state;
    assert_null(json_first_difference(parsed("{\"a\":1.0,\"b\":[1]}"),
                                      parsed("{\"b\":[1],\"a\":1}"), &arena)
                    .ptr);
    assert_string_equal(json_first_difference(parsed("{\"a\":{\"b\":[1,2]}}"),
                                              parsed("{\"a\":{\"b\":[1,3]}}"), &arena)
                            .ptr,
                        "/a/b/1");
    assert_string_equal(json_first_difference(parsed("{}"), parsed("{\"x\":1}"), &arena).ptr, "/x");
}

static void json_integers(void **state)
{
    int64_t value;
    (void)state;
    assert_true(json_to_int(parsed("-9223372036854775808"), &value) && value == INT64_MIN);
    assert_true(json_to_int(parsed("9223372036854775807"), &value) && value == INT64_MAX);
    assert_false(json_to_int(parsed("9223372036854775808"), &value));
    assert_false(json_to_int(parsed("1.0"), &value));
}

static void times(void **state)
{
    struct wall at;
    (void)state;
    assert_true(wall_parse(STR("2026-10-25T02:30:00+02:00"), &at));
    assert_string_equal(wall_format(at, &arena).ptr, "2026-10-25T00:30:00Z");
    assert_true(wall_parse(STR("1969-12-31T23:59:59.5Z"), &at));
    assert_int_equal(at.us, -SECOND_US / 2);
    assert_string_equal(wall_format(at, &arena).ptr, "1969-12-31T23:59:59.500000Z");
    assert_true(wall_parse(STR("2024-02-29T00:00:00Z"), &at));
    assert_false(wall_parse(STR("2023-02-29T00:00:00Z"), &at));
    assert_false(wall_parse(STR("2026-10-25T02:30:00"), &at));
    assert_false(wall_parse(STR("2026-10-25T24:00:00Z"), &at));
    assert_int_equal(wall_add((struct wall){INT64_MAX - 1}, HOUR_US).us, INT64_MAX);
}

static void durations(void **state)
{
    static const char *const bad[] = {
        "", "5", "1x", "h", "-1s", "1.s", "1 s", "PT1S", "99999999999999d"};
    int64_t us;
    (void)state;
    assert_true(duration_parse(STR("1h30m"), &us) && us == 90 * MINUTE_US);
    assert_true(duration_parse(STR("250ms"), &us) && us == 250 * MS_US);
    assert_true(duration_parse(STR("7d"), &us) && us == 7 * DAY_US);
    assert_true(duration_parse(STR("1.5s"), &us) && us == 1500 * MS_US);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_false(duration_parse(str_z(bad[i]), &us));
    assert_string_equal(duration_format(90 * MINUTE_US + 20 * MS_US, &arena).ptr, "1h30m20ms");
}

struct thing {
    struct map_node node;
    struct heap_node due;
    uint64_t number;
};

/* Both containers against the obvious model, with removals in between. */
static void map_and_heap(void **state)
{
    enum { COUNT = 5000 };
    static struct thing things[COUNT];
    struct map map = {0};
    struct heap heap = {0};
    struct rand rand = rand_seed(9);
    (void)state;
    for (uint64_t i = 0; i < COUNT; i++) {
        things[i] = (struct thing){.number = i};
        map_insert(&map, &things[i].node, i / 3); /* three to a hash */
        heap_set(&heap, &things[i].due, (int64_t)rand_below(&rand, 1000));
    }
    for (uint64_t i = 0; i < COUNT; i += 2) {
        map_remove(&map, &things[i].node);
        heap_remove(&heap, &things[i].due);
        heap_set(&heap, &things[i + 1].due, (int64_t)rand_below(&rand, 1000));
    }
    for (uint64_t i = 0; i < COUNT; i++) {
        bool found = false;
        for (struct map_node *n = map_first(&map, i / 3); n; n = map_next(n))
            found |= CONTAINER_OF(n, struct thing, node)->number == i;
        assert_int_equal(found, i % 2 == 1);
    }
    int64_t last = -1;
    size_t left = 0;
    for (struct heap_node *top; (top = heap_top(&heap)); left++) {
        assert_true(top->key >= last);
        last = top->key;
        heap_remove(&heap, top);
        heap_remove(&heap, top); /* once more is fine */
    }
    assert_int_equal(left, COUNT / 2);
    map_free(&map);
    heap_free(&heap);
}

/* Known answers: CRC-32C of RFC 3720's examples, SHA-256 of FIPS 180-2's. */
static void digests(void **state)
{
    char zeros[32] = {0}, hex[65];
    struct sha256 back;
    (void)state;
    assert_int_equal(crc32c(0, "123456789", 9), 0xE3069283);
    assert_int_equal(crc32c(0, zeros, 32), 0x8A9136AA);
    struct sha256 hash = sha256_of(STR("abc"));
    sha256_hex(&hash, hex);
    assert_string_equal(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    assert_true(sha256_from_hex(str_z(hex), &back) && sha256_eq(&hash, &back));
    assert_false(sha256_from_hex(STR("ba"), &back));
    hash = sha256_hmac(STR("Jefe"), STR("what do ya want for nothing?")); /* RFC 4231, case 2 */
    sha256_hex(&hash, hex);
    assert_string_equal(hex, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    hash = sha256_hmac(STR_NONE, STR(""));
    sha256_hex(&hash, hex);
    assert_string_equal(hex, "b613679a0814d9ec772f95d778c35fc5ff1697c493715653c6c712144292c5ad");
}

static void texts(void **state)
{
    struct buf out = {0};
    (void)state;
    uri_encode(STR("a/b?c#d \xc3\xa9~"), &out);
    assert_string_equal(out.data, "a%2Fb%3Fc%23d%20%C3%A9~");
    buf_free(&out);
    assert_true(str_is_utf8(STR("Zo\xc3\xab \xf0\x9f\x98\x80")));
    assert_false(str_is_utf8(STR("\xf4\x90\x80\x80")));
    assert_false(str_is_utf8(STR("\xc3")));
    assert_true(str_cmp(STR("a"), STR("ab")) < 0 && str_cmp(STR("b"), STR("ab")) > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(json_keeps_what_it_reads, arena_clear),
        cmocka_unit_test_teardown(json_list_is_walked, arena_clear),
        cmocka_unit_test_teardown(json_refuses, arena_clear),
        cmocka_unit_test_teardown(json_canonical, arena_clear),
        cmocka_unit_test_teardown(json_numbers_compare_exactly, arena_clear),
        cmocka_unit_test_teardown(json_differences, arena_clear),
        cmocka_unit_test_teardown(json_integers, arena_clear),
        cmocka_unit_test_teardown(times, arena_clear),
        cmocka_unit_test_teardown(durations, arena_clear),
        cmocka_unit_test_teardown(map_and_heap, arena_clear),
        cmocka_unit_test_teardown(digests, arena_clear),
        cmocka_unit_test_teardown(texts, arena_clear),
    };
    return cmocka_run_group_tests_name("base", tests, NULL, NULL);
}
