/*
 * test_key.c: keys are what they always were, and no two effects share one.
 */
#include "engine/base/rand.h"
#include "engine/key.h"

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

/* These bytes may never change: an upgrade that changed them would repeat effects. */
static void golden_keys(void **state)
{
    (void)state;
    struct str run = STR("order-ORD-000042");
    struct str key = key_make(run, STR("charge"), DIRECTION_EXECUTE, 1, &arena);
    assert_string_equal(key.ptr, "order-ORD-000042:charge:execute");
    assert_string_equal(key_make(run, STR("charge"), DIRECTION_COMPENSATE, 1, &arena).ptr,
                        "order-ORD-000042:charge:compensate");
    assert_string_equal(key_make(run, STR("send.3"), DIRECTION_EXECUTE, 2, &arena).ptr,
                        "order-ORD-000042:send.3:execute@2");
    assert_string_equal(key_format(key, KEY_FORMAT_PLAIN, &arena).ptr,
                        "order-ORD-000042:charge:execute");
    assert_string_equal(key_format(key, KEY_FORMAT_UUID, &arena).ptr,
                        "b13ec1ed-f332-5bca-bb7d-df452f278292");
    assert_string_equal(key_format(key, KEY_FORMAT_SHA256, &arena).ptr,
                        "6596523a3cb7de7e8cacc76393dc8de208a88bf96a58fc6d68cb811e649fc7a1");
}

/* The shard of a run id is frozen by the first migration; a child lives where its root does. */
static void golden_shards(void **state)
{
    (void)state;
    assert_int_equal(shard_of(STR("order-ORD-000001")), 61);
    assert_int_equal(shard_of(STR("a")), 10);
    assert_int_equal(shard_of(STR("a~charge~x")), shard_of(STR("a")));
}

static struct str random_id(struct rand *rand)
{
    static const char letters[] = "ABYZabyz0189._-";
    char text[RUN_ID_BYTES_MAX + 1];
    size_t len = 1 + rand_below(rand, RUN_ID_BYTES_MAX);
    for (size_t i = 0; i < len; i++)
        text[i] = letters[rand_below(rand, sizeof(letters) - 1)];
    return arena_str(&arena, (struct str){text, len});
}

static int by_bytes(const void *a, const void *b)
{
    return str_cmp(*(const struct str *)a, *(const struct str *)b);
}

/* A-IDEM-5: over 100,000 random ids, steps, directions and generations no two keys are equal, and
 * none is longer than the strictest providers take. */
static void a_idem_5_keys_are_injective(void **state)
{
    enum { COUNT = 100000 };
    struct str *keys = xcalloc(COUNT, sizeof(*keys));
    struct rand rand = rand_seed(5);
    struct err err;
    (void)state;
    for (int i = 0; i < COUNT; i++) {
        struct str id = random_id(&rand);
        assert_int_equal(key_run_id_check(id, &err), 0);
        struct str step = arena_printf(&arena, "s%d.%d", i % 100, i); /* each pair is new */
        keys[i] = key_make(id, step, i % 2 ? DIRECTION_EXECUTE : DIRECTION_COMPENSATE,
                           (uint16_t)(1 + i % 3), &arena);
        assert_true(keys[i].len <= KEY_BYTES_MAX);
    }
    qsort(keys, COUNT, sizeof(*keys), by_bytes);
    for (int i = 1; i < COUNT; i++)
        assert_false(str_eq(keys[i - 1], keys[i]));
    free(keys);
}

static void ids_that_are_refused(void **state)
{
    static const char *const bad[] = {"", "a:b", "a b", "a~b", "a/b", "Z\xc3\xbc"};
    struct err err;
    char longest[RUN_ID_BYTES_MAX + 2];
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_int_equal(key_run_id_check(str_z(bad[i]), &err), ERR_INVALID);
    memset(longest, 'a', sizeof(longest) - 1);
    longest[sizeof(longest) - 1] = '\0';
    assert_int_equal(key_run_id_check(str_z(longest), &err), ERR_INVALID);
    longest[RUN_ID_BYTES_MAX] = '\0';
    assert_int_equal(key_run_id_check(str_z(longest), &err), 0);
}

static struct sha256 hash_of(const char *target, const char *body, bool is_json)
{
    static const struct plan_service service = {.name = "pay"};
    static const struct plan_action action = {.kind = ACTION_HTTP, .http = {.method = HTTP_POST}};
    struct request request = {
        .action = &action, .service = &service, .target = str_z(target), .body = str_z(body)};
    const struct json *json = NULL;
    struct err err;
    if (is_json)
        assert_int_equal(json_parse(str_z(body), &arena, &json, &err), 0);
    return key_request_hash(&request, json);
}

/* Spelling does not matter to the hash of a JSON body; everything else does. */
static void request_hash(void **state)
{
    (void)state;
    struct sha256 one = hash_of("/charges", "{\"amount\":19.90,\"to\":\"x\"}", true);
    struct sha256 same = hash_of("/charges", "{ \"to\": \"x\", \"amount\": 19.9 }", true);
    struct sha256 other = hash_of("/charges", "{\"amount\":19.91,\"to\":\"x\"}", true);
    struct sha256 elsewhere = hash_of("/charges?x=1", "{\"amount\":19.90,\"to\":\"x\"}", true);
    struct sha256 text = hash_of("/charges", "{\"amount\":19.90,\"to\":\"x\"}", false);
    assert_true(sha256_eq(&one, &same));
    assert_false(sha256_eq(&one, &other));
    assert_false(sha256_eq(&one, &elsewhere));
    struct sha256 spaced = hash_of("/charges", "{\"amount\":19.90,  \"to\":\"x\"}", false);
    assert_false(sha256_eq(&text, &spaced));
}

static void keys_taken_apart(void **state)
{
    static const struct {
        const char *key, *instance;
        enum direction direction;
        uint16_t generation;
    } good[] = {{"r1:charge:execute", "charge", DIRECTION_EXECUTE, 1},
                {"r1:send.3:compensate@2", "send.3", DIRECTION_COMPENSATE, 2},
                {"a~b:c:execute@65535", "c", DIRECTION_EXECUTE, 65535}};
    static const char *const bad[] = {"",
                                      "charge",
                                      "r1:charge",
                                      "r1:charge:undo",
                                      "r1::execute",
                                      ":charge:execute",
                                      "charge:execute",
                                      "r1:charge:execute@",
                                      "r1:charge:execute@1",
                                      "r1:charge:execute@02",
                                      "r1:charge:execute@2x",
                                      "r1:charge:execute@65536",
                                      "r1:charge:execute@99999999999999999999",
                                      "r1:charge:execute "};
    struct str instance;
    enum direction direction;
    uint16_t generation;
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        assert_true(key_parse(str_z(good[i].key), &instance, &direction, &generation));
        assert_true(str_eq_z(instance, good[i].instance));
        assert_int_equal(good[i].direction, direction);
        assert_int_equal(good[i].generation, generation);
    }
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        if (key_parse(str_z(bad[i]), &instance, &direction, &generation))
            fail_msg("taken for a key: \"%s\"", bad[i]);
    assert_true(str_eq_z(key_run_id(str_z(good[0].key)), "r1"));
    assert_int_equal(key_run_id(STR("r1")).len, 0);
    assert_int_equal(key_run_id(STR_NONE).len, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(golden_keys, arena_clear),
        cmocka_unit_test_teardown(golden_shards, arena_clear),
        cmocka_unit_test_teardown(a_idem_5_keys_are_injective, arena_clear),
        cmocka_unit_test_teardown(ids_that_are_refused, arena_clear),
        cmocka_unit_test_teardown(request_hash, arena_clear),
        cmocka_unit_test(keys_taken_apart),
    };
    return cmocka_run_group_tests_name("keys", tests, NULL, NULL);
}
