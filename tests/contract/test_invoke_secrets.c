/* Secrets: where they are put in, and that nothing that comes back keeps one. */
#include "engine/http_text.h"
#include "engine/invoke.h"
#include "tests/lib/fake_invoke.h"
#include "tests/lib/ledger.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define SECRET "S3cr3t-\xc3\xbcmlaut+/= \"q\\"

static void assert_str(struct str got, const char *wanted)
{
    char text[4096];
    assert_non_null(got.ptr);
    snprintf(text, sizeof(text), STR_FMT, STR_ARG(got));
    assert_string_equal(text, wanted);
}

static bool contains(struct str text, const char *part)
{
    return text.ptr && memmem(text.ptr, text.len, part, strlen(part));
}

static struct secrets *secrets_of(const char *name, const char *value)
{
    struct err err;
    struct secrets *secrets = secrets_new();
    assert_int_equal(secrets_add_value(secrets, name, str_z(value), &err), 0);
    return secrets;
}

/* A reference becomes the value; what is not known, or broken, is an error without a value. */
static void test_resolve(void **state)
{
    (void)state;
    struct arena arena = {0};
    struct err err;
    struct str out;
    struct secrets *secrets = secrets_of("token", "value-one");
    assert_int_equal(secrets_add_value(secrets, "other", STR("value-two"), &err), 0);
    assert_int_equal(
        secrets_resolve(secrets, STR("a \xFFtoken\xFF\xFFother\xFF z"), &arena, &out, &err), 0);
    assert_str(out, "a value-onevalue-two z");
    struct str plain = STR("no reference");
    assert_int_equal(secrets_resolve(secrets, plain, &arena, &out, &err), 0);
    assert_ptr_equal(out.ptr, plain.ptr);
    assert_int_equal(secrets_resolve(secrets, STR_NONE, &arena, &out, &err), 0);
    assert_null(out.ptr);
    assert_int_equal(secrets_resolve(secrets, STR("\xFFmissing\xFF"), &arena, &out, &err),
                     ERR_NOT_FOUND);
    assert_string_equal(err.text, "secret \"missing\" is not configured");
    assert_int_equal(secrets_resolve(NULL, STR("\xFFtoken\xFF"), &arena, &out, &err),
                     ERR_NOT_FOUND);
    assert_int_equal(secrets_resolve(secrets, STR("\xFFtoken"), &arena, &out, &err), ERR_INVALID);
    assert_int_equal(secrets_resolve(secrets, STR("\xFF\xFF"), &arena, &out, &err), ERR_INVALID);
    secrets_free(secrets);
    arena_free(&arena);
}

/* Values come from files and variables; those that break a rule are refused without being told. */
static void test_sources(void **state)
{
    (void)state;
    struct arena arena = {0};
    struct err err;
    struct str out;
    struct secrets *secrets = secrets_new();
    char path[] = "/tmp/test_secret.XXXXXX", source[64];
    int fd = mkstemp(path);
    assert_int_equal(write(fd, "from-a-file\r\n", 13), 13);
    snprintf(source, sizeof(source), "file:%s", path);
    assert_int_equal(secrets_add(secrets, "file", source, &err), 0);
    setenv("TEST_SECRET", "from-a-variable\n", 1);
    assert_int_equal(secrets_add(secrets, "variable", "env:TEST_SECRET", &err), 0);
    assert_int_equal(secrets_resolve(secrets,
                                     STR("\xFF"
                                         "file\xFF,\xFFvariable\xFF"),
                                     &arena, &out, &err),
                     0);
    assert_str(out, "from-a-file,from-a-variable\n");

    assert_int_equal(ftruncate(fd, 0), 0);
    assert_int_equal(pwrite(fd, "abc\n", 4, 0), 4);
    assert_int_equal(secrets_add(secrets, "short", source, &err), ERR_INVALID);
    assert_string_equal(err.text, "secret \"short\" is shorter than 6 bytes");
    assert_int_equal(pwrite(fd, "abcdefg\0hij", 11, 0), 11);
    assert_int_equal(secrets_add(secrets, "nul", source, &err), ERR_INVALID);
    assert_int_equal(ftruncate(fd, SECRET_BYTES_MAX + 10), 0);
    assert_int_equal(secrets_add(secrets, "long", source, &err), ERR_LIMIT);
    close(fd);
    unlink(path);
    assert_int_equal(secrets_add(secrets, "gone", source, &err), ERR_NOT_FOUND);
    assert_int_equal(secrets_add(secrets, "dir", "file:/tmp", &err), ERR_IO);
    assert_int_equal(secrets_add(secrets, "unset", "env:TEST_NO_SUCH", &err), ERR_NOT_FOUND);
    assert_int_equal(secrets_add(secrets, "bare", "value-itself", &err), ERR_INVALID);
    assert_null(strstr(err.text, "value-itself"));
    assert_int_equal(secrets_add(secrets, "a b", "env:TEST_SECRET", &err), ERR_INVALID);
    secrets_free(secrets);
    arena_free(&arena);
}

/* Percent-encodes every byte that is not a letter or digit; `space` stands for one. */
static struct str percent(struct str text, const char *space, bool lower, struct arena *arena)
{
    struct buf out = {0};
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.ptr[i];
        if (c == ' ')
            buf_add_z(&out, space);
        else if ((c | 32) >= 'a' && (c | 32) <= 'z')
            buf_add_char(&out, (char)c);
        else
            buf_printf(&out, lower ? "%%%02x" : "%%%02X", c);
    }
    struct str copy = arena_str(arena, buf_str(&out));
    buf_free(&out);
    return copy;
}

/* A-SECRET-1: no form that a service or program may echo a secret in gets past the mask. */
static void test_a_secret_1_forms(void **state)
{
    (void)state;
    struct arena arena = {0};
    struct secrets *secrets = secrets_of("token", SECRET);
    struct str value = STR(SECRET);
    struct buf json = {0};
    json_write_string(value, &json);
    struct str forms[32];
    size_t count = 0;
    forms[count++] = value;
    forms[count++] = percent(value, "%20", false, &arena);
    forms[count++] = percent(value, "+", true, &arena);
    forms[count++] = (struct str){json.data + 1, json.len - 2};
    forms[count++] = STR("S3cr3t-\\u00fcmlaut+\\/= \\\"q\\\\");
    forms[count++] = STR("S3cr3t-\\u00FCmlaut\\u002b\\u002F\\u003d\\u0020\\u0022q\\u005C");
    /* Base64: alone, and within longer texts at each place in a group of three. */
    for (int before = 0; before < 3; before++)
        for (int after = 0; after < 3; after++) {
            struct str whole =
                arena_printf(&arena, "%.*s" SECRET "%.*s", before, "us", after, ":x");
            forms[count++] = http_base64(whole, &arena);
        }
    for (size_t i = 0; i < count; i++) {
        struct str text = arena_printf(&arena, "before " STR_FMT " after", STR_ARG(forms[i]));
        struct str masked = secrets_mask(secrets, text, &arena);
        assert_true(contains(masked, "***token***"));
        assert_true(str_starts(masked, STR("before ")));
        assert_false(contains(masked, "S3cr3t"));
        /* Of Base64 at most one character at each end is left: it belongs to the neighbours. */
        struct str middle = {forms[i].ptr + 4, 8};
        assert_null(memmem(masked.ptr, masked.len, middle.ptr, middle.len));
    }
    buf_free(&json);
    secrets_free(secrets);
    arena_free(&arena);
}

/* URL-safe and escaped Base64 are found too. */
static void test_base64_alphabets(void **state)
{
    (void)state;
    struct arena arena = {0};
    struct secrets *secrets =
        secrets_of("token", "\xc3\xbf\xc3\xbe\xc3\xbf\xc3\xbe\xc3\xbf\xc3\xbe");
    struct str standard =
        http_base64(STR("\xc3\xbf\xc3\xbe\xc3\xbf\xc3\xbe\xc3\xbf\xc3\xbe"), &arena);
    assert_str(standard, "w7/DvsO/w77Dv8O+");
    const char *const forms[] = {"w7/DvsO/w77Dv8O+", "w7_DvsO_w77Dv8O-", "w7\\/DvsO\\/w77Dv8O+",
                                 "w7%2FDvsO%2fw77Dv8O%2B"};
    for (size_t i = 0; i < ARRAY_LEN(forms); i++)
        assert_str(secrets_mask(secrets, str_z(forms[i]), &arena), "***token***");
    secrets_free(secrets);
    arena_free(&arena);
}

/* What holds no secret is left alone, byte for byte; the longest of two secrets is named. */
static void test_mask_exactly(void **state)
{
    (void)state;
    struct arena arena = {0};
    struct err err;
    struct secrets *secrets = secrets_of("short", "abcdef");
    assert_int_equal(secrets_add_value(secrets, "long", STR("abcdefghi"), &err), 0);
    struct str plain = STR("abcde %61 \\ \\u0061bc 100% abcdeF");
    assert_ptr_equal(secrets_mask(secrets, plain, &arena).ptr, plain.ptr);
    assert_str(secrets_mask(secrets, STR("abcdefabcdefghiabcdefg"), &arena),
               "***short******long******short***g");
    assert_str(secrets_mask(secrets, STR("%61b%63def"), &arena), "***short***");
    assert_ptr_equal(secrets_mask(NULL, plain, &arena).ptr, plain.ptr);
    assert_null(secrets_mask(secrets, STR_NONE, &arena).ptr);
    secrets_free(secrets);
    arena_free(&arena);
}

/* A secret is found in a JSON text that stands in a JSON string, and in one inside that; the whole
 * stays JSON. */
static void test_mask_nested(void **state)
{
    (void)state;
    struct arena arena = {0};
    struct err err;
    const struct json *value;
    struct secrets *secrets = secrets_of("token", SECRET " \xf0\x9f\x98\x80/");
    struct str text = STR(SECRET " \xf0\x9f\x98\x80/");
    for (int level = 1; level <= 4; level++) {
        struct buf quoted = {0};
        json_write_string(text, &quoted);
        text = arena_str(&arena, buf_str(&quoted));
        buf_free(&quoted);
        struct str masked = secrets_mask(secrets, text, &arena);
        assert_true(contains(masked, "***token***"));
        assert_false(contains(masked, "S3cr3t"));
        assert_int_equal(json_parse(masked, &arena, &value, &err), 0);
    }
    text = STR("\"{\\\"k\\\": \\\"S3cr3t-\\\\u00fcmlaut+\\\\/= \\\\\\\"q\\\\\\\\ "
               "\\\\ud83d\\\\ude00\\\\/\\\"}\"");
    assert_str(secrets_mask(secrets, text, &arena), "\"{\\\"k\\\": \\\"***token***\\\"}\"");
    secrets_free(secrets);
    arena_free(&arena);
}

/* A masked answer is still the JSON it was, also where the secret is a number. */
static void test_mask_keeps_json(void **state)
{
    (void)state;
    struct arena arena = {0};
    struct err err;
    const struct json *value;
    struct secrets *secrets = secrets_of("pin", "73914628");
    struct str masked = secrets_mask(
        secrets, STR("{\"pin\": 73914628 ,\"list\":[73914628],\"text\":\"x73914628\"}"), &arena);
    assert_str(masked,
               "{\"pin\": \"***pin***\" ,\"list\":[\"***pin***\"],\"text\":\"x***pin***\"}");
    assert_int_equal(json_parse(masked, &arena, &value, &err), 0);
    secrets_free(secrets);
    arena_free(&arena);
}

/* After a reload the old value resolves no more and is masked all the same. */
static void test_reload(void **state)
{
    (void)state;
    struct arena arena = {0};
    struct err err;
    struct str out;
    struct secrets *secrets = secrets_of("token", "old-value");
    for (int i = 0; i < 3; i++) {
        secrets_retire(secrets);
        assert_int_equal(secrets_resolve(secrets, STR("\xFFtoken\xFF"), &arena, &out, &err),
                         ERR_NOT_FOUND);
        assert_int_equal(secrets_add_value(secrets, "token", STR("new-value"), &err), 0);
        assert_int_equal(secrets_resolve(secrets, STR("\xFFtoken\xFF"), &arena, &out, &err), 0);
        assert_str(out, "new-value");
    }
    assert_str(secrets_mask(secrets, STR("old-value new-value"), &arena),
               "***token*** ***token***");
    secrets_free(secrets);
    arena_free(&arena);
}

struct world {
    struct loop *loop;
    struct secrets *secrets;
    struct ledger *ledger;
    struct invoke *invoke;
    struct fake_replies replies;
    char folder[64];
};

static int setup(void **state)
{
    static struct world world;
    struct world *w = &world;
    struct err err;
    *w = (struct world){0};
    strcpy(w->folder, "/tmp/test_invoke.XXXXXX");
    assert_non_null(mkdtemp(w->folder));
    assert_int_equal(loop_open(&w->loop, &err), 0);
    w->secrets = secrets_of("token", "S3cr3t-token");
    w->ledger = ledger_new(w->loop);
    w->replies.loop = w->loop;
    w->invoke = invoke_new(&(struct invoke_options){
        .loop = w->loop,
        .secrets = w->secrets,
        .exec_directory = w->folder,
        .reply = fake_replies_add,
        .reply_arg = &w->replies,
    });
    *state = w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;
    char command[128];
    invoke_free(w->invoke);
    ledger_free(w->ledger);
    secrets_free(w->secrets);
    loop_close(w->loop);
    fake_replies_free(&w->replies);
    snprintf(command, sizeof(command), "rm -rf %s", w->folder);
    return system(command);
}

/* A-SECRET-1: an answer that echoes the secret arrives masked in body, headers and messages. */
static void test_a_secret_1_replies(void **state)
{
    struct world *w = *state;
    struct fake_call call;
    char path[128];
    ledger_script(w->ledger,
                  (struct ledger_answer){.status = 401,
                                         .headers = "X-Echo: Bearer S3cr3t-token\r\n",
                                         .body = STR("{\"sent\":\"Bearer S3cr3t-token\"}")});
    fake_http(&call, ledger_url(w->ledger), "/");
    call.request.auth_secret = STR("\xFFtoken\xFF");
    const struct reply *reply =
        fake_reply_to(&w->replies, fake_start(&call, invoke_port(w->invoke)));
    assert_str(ledger_header(ledger_get(w->ledger, 0), "Authorization"), "Bearer S3cr3t-token");
    assert_int_equal(reply->status, 401);
    assert_str(reply->body, "{\"sent\":\"Bearer ***token***\"}");
    assert_str(fake_reply_header(reply, "x-echo"), "Bearer ***token***");

    snprintf(path, sizeof(path), "%s/leak", w->folder);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs("#!/bin/sh\necho \"out $TOKEN\"; echo \"err $TOKEN\" >&2; exit 1\n", file);
    fclose(file);
    chmod(path, 0755);
    fake_exec(&call, "leak", NULL);
    fake_header(&call, STR("TOKEN"), STR("\xFFtoken\xFF"));
    reply = fake_reply_to(&w->replies, fake_start(&call, invoke_port(w->invoke)));
    assert_str(reply->body, "out ***token***\n");
    assert_str(reply->stderr_text, "err ***token***\n");

    fake_exec(&call, "S3cr3t-token-program", NULL);
    reply = fake_reply_to(&w->replies, fake_start(&call, invoke_port(w->invoke)));
    assert_int_equal(reply->kind, REPLY_CANNOT_SEND);
    assert_false(contains(reply->error, "S3cr3t"));
}

struct sql_stub {
    struct invoke *invoke;
    unsigned started, dropped;
};

static void sql_start(void *arg, const struct invocation *invocation)
{
    struct sql_stub *stub = arg;
    (void)invocation;
    stub->started++;
}

static void sql_drop(void *arg, uint64_t id)
{
    struct sql_stub *stub = arg;
    stub->dropped++;
    invoke_reply(stub->invoke, id,
                 &(struct reply){.kind = REPLY_SQL, .body = STR("[\"S3cr3t-token\"]")});
}

/* Kinds are served by who is registered for them; the others are refused, after start. */
static void test_dispatch(void **state)
{
    struct world *w = *state;
    struct sql_stub stub = {.invoke = w->invoke};
    struct fake_call call;
    const struct port_invoke *port = invoke_port(w->invoke);
    fake_exec(&call, "x", NULL);
    call.action.kind = ACTION_SQL;
    uint64_t refused = fake_start(&call, port);
    assert_int_equal(w->replies.count, 0);
    const struct reply *reply = fake_reply_to(&w->replies, refused);
    assert_int_equal(reply->kind, REPLY_CANNOT_SEND);
    assert_str(reply->error, "sql actions are not available here");

    invoke_register(w->invoke, ACTION_SQL,
                    &(struct port_invoke){.arg = &stub, .start = sql_start, .drop = sql_drop});
    uint64_t served = fake_start(&call, port);
    assert_int_equal(stub.started, 1);
    port->drop(port->arg, served);
    reply = fake_reply_to(&w->replies, served);
    assert_int_equal(reply->kind, REPLY_SQL);
    assert_str(reply->body, "[\"***token***\"]");
}

/* A drain answers what waits and tells how much is still under way. */
static void test_drain(void **state)
{
    struct world *w = *state;
    struct fake_call call;
    const struct port_invoke *port = invoke_port(w->invoke);
    ledger_always(w->ledger, (struct ledger_answer){.act = LEDGER_NEVER});
    fake_http(&call, ledger_url(w->ledger), "/");
    uint64_t flying = fake_start(&call, port);
    fake_idle(w->loop, 50 * MS_US);
    assert_int_equal(invoke_busy(w->invoke), 1);
    invoke_drain(w->invoke, false);
    fake_http(&call, ledger_url(w->ledger), "/");
    assert_int_equal(fake_reply_to(&w->replies, fake_start(&call, port))->kind, REPLY_NOT_SENT);
    fake_exec(&call, "x", NULL);
    assert_int_equal(fake_reply_to(&w->replies, fake_start(&call, port))->kind, REPLY_NOT_SENT);
    assert_int_equal(invoke_busy(w->invoke), 1);
    invoke_drain(w->invoke, true);
    assert_int_equal(fake_reply_to(&w->replies, flying)->kind, REPLY_NO_ANSWER);
    assert_int_equal(invoke_busy(w->invoke), 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_resolve),
        cmocka_unit_test(test_sources),
        cmocka_unit_test(test_a_secret_1_forms),
        cmocka_unit_test(test_base64_alphabets),
        cmocka_unit_test(test_mask_exactly),
        cmocka_unit_test(test_mask_nested),
        cmocka_unit_test(test_mask_keeps_json),
        cmocka_unit_test(test_reload),
        TEST(test_a_secret_1_replies),
        TEST(test_dispatch),
        TEST(test_drain),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
