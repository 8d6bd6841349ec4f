/*
 * test_access.c: what the config says of addresses and roles is what holds.
 */
#include "engine/config.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

static const char *judge(const struct egress *egress, const char *host, const char *address)
{
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } to = {0};
    if (inet_pton(AF_INET, address, &to.v4.sin_addr) == 1) {
        to.v4.sin_family = AF_INET;
    } else {
        assert_int_equal(inet_pton(AF_INET6, address, &to.v6.sin6_addr), 1);
        to.v6.sin6_family = AF_INET6;
    }
    return egress_problem(egress, str_z(host), &to.any);
}

/* Addresses of metadata services and the like are out of reach, however they are written and
 * whatever the config says. */
static void test_never(void **state)
{
    static const char *const addresses[] = {"169.254.169.254",
                                            "169.254.0.1",
                                            "0.0.0.0",
                                            "0.1.2.3",
                                            "224.0.0.1",
                                            "255.255.255.255",
                                            "240.0.0.1",
                                            "100.100.100.200",
                                            "168.63.129.16",
                                            "192.0.0.192",
                                            "::",
                                            "fe80::1",
                                            "febf::1",
                                            "ff02::1",
                                            "fd00:ec2::254",
                                            "fd20:ce::254",
                                            "::ffff:169.254.169.254",
                                            "::169.254.169.254",
                                            "64:ff9b::a9fe:a9fe",
                                            "2002:a9fe:a9fe::1"};
    struct egress_range all[2];
    struct egress open = {all, 2};
    (void)state;
    assert_null(egress_range_parse(STR("0.0.0.0/0"), &all[0]));
    assert_null(egress_range_parse(STR("::/0"), &all[1]));
    all[0].deny = all[1].deny = false;
    for (size_t i = 0; i < ARRAY_LEN(addresses); i++) {
        assert_non_null(judge(NULL, "pay.example.com", addresses[i]));
        assert_non_null(judge(NULL, "localhost", addresses[i]));
        assert_non_null(judge(&open, addresses[i], addresses[i]));
    }
}

/* Private addresses belong to services that say so in their URL; public ones to all. */
static void test_default(void **state)
{
    static const char *const inside[] = {
        "127.0.0.1",   "127.8.8.8",        "10.1.2.3",       "172.16.0.1",   "172.31.9.9",
        "192.168.1.1", "100.64.0.1",       "198.19.0.1",     "::1",          "fd12::1",
        "fc00::1",     "::ffff:127.0.0.1", "64:ff9b::a00:1", "2002:7f00:1::"};
    static const char *const outside[] = {
        "8.8.8.8",     "172.32.0.1",   "100.128.0.1", "128.0.0.1",  "11.0.0.1",
        "169.255.0.1", "2606:4700::1", "192.169.0.1", "198.20.0.1", "fec0:0::1"};
    static const char *const said[] = {"localhost",      "api.localhost", "payments", "db.internal",
                                       "printer.local.", "x.home.arpa",   "a.b.svc",  "127.0.0.1",
                                       "[::1]",          "10.0.0.1",      "shop.test"};
    static const char *const public[] = {"pay.example.com", "localhost.example.com",
                                         "local.co",        "xlocal.com",
                                         "notinternal.org", "127.0.0.1.nip.io"};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(inside); i++) {
        for (size_t k = 0; k < ARRAY_LEN(said); k++)
            assert_null(judge(NULL, said[k], inside[i]));
        for (size_t k = 0; k < ARRAY_LEN(public); k++)
            assert_non_null(judge(NULL, public[k], inside[i]));
    }
    for (size_t i = 0; i + 1 < ARRAY_LEN(outside); i++)
        assert_null(judge(NULL, "pay.example.com", outside[i]));
    assert_non_null(judge(NULL, "pay.example.com", "fec0::1"));
    assert_true(egress_host_is_address(STR("[::1]")) && egress_host_is_address(STR("10.0.0.1")));
    assert_false(egress_host_is_address(STR("localhost")));
}

static bool parse(struct config *config, const char *text, struct buf *said)
{
    struct diags diags;
    diags_init(&diags, "sagad.yaml", str_z(text));
    bool ok = config_parse(str_z(text), config, &diags);
    diags_sort(&diags);
    diags_print(&diags, false, said);
    diags_free(&diags);
    return ok;
}

/* The longest range decides, deny between equals; one can close everything and open a part. */
static void test_configured(void **state)
{
    struct config config;
    struct buf said = {0};
    (void)state;
    assert_true(parse(&config,
                      "egress:\n"
                      "  allow: [10.1.0.0/16, 203.0.113.7, \"2001:db8::/32\", 9.0.0.0/8]\n"
                      "  deny: [0.0.0.0/0, \"::/0\", 10.1.9.0/24, 9.0.0.0/8]\n",
                      &said));
    const struct egress *egress = &config.egress;
    assert_null(judge(egress, "pay.example.com", "10.1.2.3"));
    assert_null(judge(egress, "pay.example.com", "203.0.113.7"));
    assert_null(judge(egress, "pay.example.com", "2001:db8::5"));
    assert_null(judge(egress, "pay.example.com", "64:ff9b::a01:203"));
    assert_non_null(judge(egress, "pay.example.com", "203.0.113.8"));
    assert_non_null(judge(egress, "pay.example.com", "10.1.9.1"));
    assert_non_null(judge(egress, "10.2.0.1", "10.2.0.1"));
    assert_non_null(judge(egress, "localhost", "127.0.0.1"));
    assert_non_null(judge(egress, "pay.example.com", "9.9.9.9"));
    assert_non_null(judge(egress, "pay.example.com", "2606:4700::1"));
    buf_free(&said);
    config_free(&config);
}

/* A key of the config is no boolean, whatever other tools make of its word; a value may be meant
 * as one. */
static void test_key_on(void **state)
{
    struct config config;
    struct buf said = {0};
    (void)state;
    assert_true(parse(
        &config, "alerts:\n  pager: {url: \"https://pager.example/x\", on: [parked]}\n", &said));
    assert_int_equal(said.len, 0);
    config_free(&config);
    assert_false(
        parse(&config, "alerts:\n  pager: {url: \"https://pager.example/x\", every: on}\n", &said));
    assert_non_null(strstr(said.data, "W001"));
    config_free(&config);
    buf_free(&said);
}

/* What is wrong in the config is told with its place, and what would be right. */
static void test_bad_config(void **state)
{
    static const struct {
        const char *text, *told;
    } cases[] = {
        {"egress: {allow: [10.0.0.1/8]}", "there are bits behind its prefix"},
        {"egress: {allow: [10.0.0.0/33]}", "0 to 32"},
        {"egress: {allow: [\"fd00::/129\"]}", "0 to 128"},
        {"egress: {deny: [example.com]}", "it is no address"},
        {"egress: {deny: [10.0.0.0/]}", "0 to 32"},
        {"egress: {deny: [10.0.0.0/8x]}", "0 to 32"},
        {"egress: {deny: 10.0.0.0/8}", "`egress` has the form"},
        {"egress: {permit: [10.0.0.0/8]}", "`egress` has the form"},
        {"egress: yes", "`egress` has the form"},
        {"roles: {root: [uid:1]}", "roles are read, submit, operate and admin"},
        {"roles: {read: uid:1}", "needs a list"},
        {"roles: [uid:1]", "`roles` has the form"},
        {"roles: {read: [1001]}", "must be a text"},
        {"roles: {read: [alice]}", "write user:NAME"},
        {"roles: {read: [uid:x]}", "it holds no number"},
        {"roles: {read: [uid:4294967295]}", "it holds no number"},
        {"roles: {read: [\"user:\"]}", "it holds no name"},
        {"roles: {read: [{who: uid:1}]}", "an entry of `roles` has the form"},
        {"roles: {read: [{tenants: [a]}]}", "an entry of `roles` has the form"},
        {"roles: {read: [{who: uid:1, tenants: []}]}", "an entry of `roles` has the form"},
        {"roles: {read: [{who: uid:1, tenants: a}]}", "an entry of `roles` has the form"},
        {"roles: {read: [{who: uid:1, tenants: [a], more: 1}]}", "has the form"},
        {"roles: {read: [{who: uid:1, tenants: [1]}]}", "must be a text"},
        {"roles: {read: [{who: [uid:1], tenants: [a]}]}", "must be a text"},
        {"roles: {read: [{who: alice, tenants: [a]}]}", "write user:NAME"},
        {"roles: {admin: [{who: uid:1, tenants: [a]}]}", "cannot be bound to tenants"},
        {"roles: {read: [user:no-such-user]}", "no such user"},
        {"roles: {read: [group:no-such-group]}", "no such group"},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct config config;
        struct buf said = {0};
        assert_false(parse(&config, cases[i].text, &said));
        if (!said.data || !strstr(said.data, cases[i].told))
            fail_msg("%s: %s", cases[i].text, said.data ? said.data : "");
        assert_non_null(strstr(said.data, "sagad.yaml:1:"));
        buf_free(&said);
        config_free(&config);
    }
}

static enum access_role held(const struct config *config, uid_t uid, gid_t group, gid_t other)
{
    gid_t groups[] = {group, other};
    return access_role_held(&config->access, 900, uid, groups, 2);
}

/* The highest of the roles of a caller and of its groups counts. */
static void test_roles(void **state)
{
    struct config config;
    struct buf said = {0};
    (void)state;
    assert_true(parse(&config,
                      "roles: {read: [gid:50], submit: [uid:1001], operate: [gid:60, user:nobody],"
                      " admin: [uid:1002]}",
                      &said));
    assert_int_equal(held(&config, 1000, 1, 2), ROLE_NONE);
    assert_int_equal(held(&config, 1000, 50, 2), ROLE_READ);
    assert_int_equal(held(&config, 1001, 50, 2), ROLE_SUBMIT);
    assert_int_equal(held(&config, 1001, 50, 60), ROLE_OPERATE);
    assert_int_equal(held(&config, 65534, 1, 2), ROLE_OPERATE);
    assert_int_equal(held(&config, 1002, 50, 2), ROLE_ADMIN);
    assert_int_equal(held(&config, 0, 0, 0), ROLE_ADMIN);
    assert_int_equal(held(&config, 900, 1, 2), ROLE_ADMIN);
    assert_int_equal(held(&config, (uid_t)-1, 50, 60), ROLE_NONE);
    buf_free(&said);
    config_free(&config);
    config_init(&config);
    assert_int_equal(held(&config, 1000, 1, 2), ROLE_ADMIN);
    assert_true(parse(&config, "roles: {}", &said)); /* nobody but root and the daemon's user */
    assert_int_equal(held(&config, 1000, 1, 2), ROLE_NONE);
    buf_free(&said);
    config_free(&config);
}

/* Every call has a role; what nobody thought of is for admins. */
static void test_calls(void **state)
{
    static const struct {
        enum control_method method;
        const char *path;
        enum access_role needed;
    } cases[] = {
        {CONTROL_GET, "/healthz", ROLE_NONE},
        {CONTROL_GET, "/v1/ping", ROLE_NONE},
        {CONTROL_GET, "/v1/ping/", ROLE_READ},
        {CONTROL_GET, "/metrics", ROLE_READ},
        {CONTROL_GET, "/v1/runs", ROLE_READ},
        {CONTROL_GET, "/v1/runs/order-1/events", ROLE_READ},
        {CONTROL_POST, "/v1/validate", ROLE_READ},
        {CONTROL_POST, "/v1/runs", ROLE_SUBMIT},
        {CONTROL_POST, "/v1/runs/order-1/signal", ROLE_SUBMIT},
        {CONTROL_POST, "/v1/runs/order-1/signal/", ROLE_OPERATE},
        {CONTROL_POST, "/v1/answers", ROLE_SUBMIT},
        {CONTROL_POST, "/v1/queues/q/take", ROLE_SUBMIT},
        {CONTROL_POST, "/v1/tasks/complete", ROLE_SUBMIT},
        {CONTROL_POST, "/v1/runs/order-1/cancel", ROLE_OPERATE},
        {CONTROL_POST, "/v1/runs/order-1/steps/charge/settle", ROLE_OPERATE},
        {CONTROL_POST, "/v1/runs/order-1/steps/signal", ROLE_OPERATE},
        {CONTROL_POST, "/v1/runs//signal", ROLE_OPERATE},
        {CONTROL_POST, "/v1/runs:cancel", ROLE_OPERATE},
        {CONTROL_PUT, "/v1/workflows", ROLE_ADMIN},
        {CONTROL_PUT, "/v1/runs/order-1/steps/charge/settle", ROLE_ADMIN},
        {CONTROL_OTHER, "/v1/runs/order-1", ROLE_ADMIN},
        {CONTROL_POST, "/v1/anything", ROLE_ADMIN},
        {CONTROL_POST, "", ROLE_ADMIN},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        if (access_role_needed(cases[i].method, str_z(cases[i].path)) != cases[i].needed)
            fail_msg("%s", cases[i].path);
}

/* A grant that is bound to tenants is no role of its own; of several the tenants add up, by role.
 */
static void test_tenants(void **state)
{
    static const struct {
        uid_t uid;
        enum access_role role;
        const char *tenants;
    } cases[] = {
        {1, ROLE_READ, "[\"acme\",\"a \\\"b\\\"\",\"bolt\"]"},
        {1, ROLE_SUBMIT, "[\"acme\",\"a \\\"b\\\"\"]"},
        {1, ROLE_OPERATE, "[\"acme\",\"a \\\"b\\\"\"]"},
        {1, ROLE_ADMIN, NULL},
        {2, ROLE_READ, NULL},
        {3, ROLE_READ, NULL},
        {(uid_t)-1, ROLE_READ, NULL},
    };
    const gid_t groups[] = {50};
    struct config config;
    struct buf said = {0};
    struct arena arena = {0};
    (void)state;
    config_init(&config);
    assert_true(parse(&config,
                      "roles:\n"
                      "  operate: [{who: uid:1, tenants: [acme, 'a \"b\"']}]\n"
                      "  read: [{who: uid:1, tenants: [bolt]}, uid:2]\n",
                      &said));
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const char *tenants =
            access_tenants(&config.access, cases[i].uid, groups, 1, cases[i].role, &arena);
        if (!tenants || !cases[i].tenants)
            assert_ptr_equal(tenants, cases[i].tenants);
        else
            assert_string_equal(tenants, cases[i].tenants);
    }
    assert_int_equal(access_role_held(&config.access, 900, 1, groups, 1), ROLE_NONE);
    assert_int_equal(access_role_held(&config.access, 900, 2, groups, 1), ROLE_READ);
    assert_int_equal(access_role_held(&config.access, 900, 0, groups, 1), ROLE_ADMIN);
    arena_free(&arena);
    buf_free(&said);
    config_free(&config);
}

/* What nobody thought of reaches nothing. */
static void test_reaches(void **state)
{
    static const struct {
        enum control_method method;
        const char *path;
        enum access_reach reach;
    } cases[] = {
        {CONTROL_GET, "/v1/runs", REACH_SEEN},
        {CONTROL_GET, "/v1/runs/a/events", REACH_RUN},
        {CONTROL_POST, "/v1/runs", REACH_START},
        {CONTROL_POST, "/v1/runs/a/steps/b/settle", REACH_RUN},
        {CONTROL_POST, "/v1/runs:cancel", REACH_NONE},
        {CONTROL_GET, "/v1/bulk", REACH_NONE},
        {CONTROL_GET, "/metrics", REACH_NONE},
        {CONTROL_POST, "/v1/answers", REACH_NONE},
        {CONTROL_POST, "/v1/tasks/complete", REACH_NONE},
        {CONTROL_GET, "/v1/anything", REACH_NONE},
        {CONTROL_OTHER, "/v1/runs/a", REACH_NONE},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        if (access_reach(cases[i].method, str_z(cases[i].path)) != cases[i].reach)
            fail_msg("%s", cases[i].path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_never),      cmocka_unit_test(test_default),
        cmocka_unit_test(test_configured), cmocka_unit_test(test_key_on),
        cmocka_unit_test(test_bad_config), cmocka_unit_test(test_roles),
        cmocka_unit_test(test_calls),      cmocka_unit_test(test_tenants),
        cmocka_unit_test(test_reaches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
