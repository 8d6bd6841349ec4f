/* The HTTP invoker against a participant that does what no participant should. */
#include "engine/invoke_http.h"
#include "tests/lib/fake_invoke.h"
#include "tests/lib/ledger.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <netdb.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#ifdef __SANITIZE_ADDRESS__
#define ASAN 1
#else
#define ASAN 0
#endif

struct world {
    struct loop *loop;
    struct ledger *ledger;
    struct secrets *secrets;
    struct invoke_http *http;
    const struct port_invoke *port;
    struct fake_replies replies;
    unsigned files;
};

/* What the name servers of these tests say. */
static const struct {
    const char *name, *addresses[2];
} name_server[] = {{"rebound.example.com", {"127.0.0.1", NULL}},
                   {"metadata.example.com", {"169.254.169.254", NULL}},
                   {"mixed.example.com", {"169.254.169.254", "127.0.0.1"}},
                   {"inside.test", {"127.0.0.1", NULL}}};
static bool name_moves; /* rebound.example.com leads to the metadata service by now */

static struct addrinfo *address_new(const char *text, const char *service, struct addrinfo *next)
{
    /* In one piece, as freeaddrinfo frees it. */
    struct addrinfo *info = calloc(1, sizeof(*info) + sizeof(struct sockaddr_in));
    struct sockaddr_in *to = (struct sockaddr_in *)(info + 1);
    to->sin_family = AF_INET;
    to->sin_port = htons((uint16_t)atoi(service));
    assert_int_equal(inet_pton(AF_INET, text, &to->sin_addr), 1);
    *info = (struct addrinfo){.ai_family = AF_INET,
                              .ai_socktype = SOCK_STREAM,
                              .ai_addrlen = sizeof(*to),
                              .ai_addr = (struct sockaddr *)to,
                              .ai_next = next};
    return info;
}

/* This symbol takes the place of libc's, also for libcurl. "silent.test" is a name server that does
 * not answer. */
int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
                struct addrinfo **out)
{
    (void)hints;
    if (strcmp(node, "silent.test") == 0)
        usleep(2500000);
    for (size_t i = 0; i < ARRAY_LEN(name_server); i++) {
        if (strcmp(node, name_server[i].name) != 0)
            continue;
        const char *first = name_moves && i == 0 ? "169.254.169.254" : name_server[i].addresses[0];
        *out = name_server[i].addresses[1] ? address_new(name_server[i].addresses[1], service, NULL)
                                           : NULL;
        *out = address_new(first, service, *out);
        return 0;
    }
    return EAI_NONAME;
}

static void world_open(struct world *w, const struct invoke_http_options *given)
{
    struct err err;
    struct invoke_http_options options = *given;
    *w = (struct world){.files = fake_open_files()};
    assert_int_equal(loop_open(&w->loop, &err), 0);
    w->ledger = ledger_new(w->loop);
    w->secrets = secrets_new();
    w->replies.loop = w->loop;
    options.loop = w->loop;
    options.secrets = w->secrets;
    options.reply = fake_replies_add;
    options.reply_arg = &w->replies;
    w->http = invoke_http_new(&options);
    w->port = invoke_http_port(w->http);
}

static int setup(void **state)
{
    static struct world world;
    world_open(&world, &(struct invoke_http_options){0});
    *state = &world;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;
    invoke_http_free(w->http);
    secrets_free(w->secrets);
    ledger_free(w->ledger);
    loop_close(w->loop);
    fake_replies_free(&w->replies);
    assert_int_equal(fake_open_files(), w->files); /* no descriptor stays behind */
    return 0;
}

/* Opens the world again with other options. */
static void reopen(struct world *w, struct invoke_http_options options)
{
    void *state = w;
    teardown(&state);
    world_open(w, &options);
}

static const struct reply *run(struct world *w, struct fake_call *call)
{
    return fake_reply_to(&w->replies, fake_start(call, w->port));
}

static const struct reply *post(struct world *w)
{
    struct fake_call call;
    fake_http(&call, ledger_url(w->ledger), "/charges");
    return run(w, &call);
}

static void assert_str(struct str got, const char *wanted)
{
    char text[2048];
    assert_non_null(got.ptr);
    snprintf(text, sizeof(text), STR_FMT, STR_ARG(got));
    assert_string_equal(text, wanted);
}

static bool contains(struct str text, const char *part)
{
    return text.ptr && memmem(text.ptr, text.len, part, strlen(part));
}

/* What arrives is method, path, body and the headers that a participant is promised. */
static void test_request_arrives_whole(void **state)
{
    struct world *w = *state;
    struct fake_call call;
    fake_http(&call, ledger_url(w->ledger), "/charges?a=1");
    call.invocation.attempt = 3;
    call.invocation.deadline_at = (struct wall){INT64_C(1792895400000000)};
    call.invocation.compensates = STR("order-1:charge:execute");
    fake_header(&call, STR("X-Note"), STR("service's"));
    fake_header(&call, STR("x-note"), STR("action's"));
    fake_header(&call, STR("X-Empty"), STR(""));
    const struct reply *reply = run(w, &call);
    assert_int_equal(reply->kind, REPLY_HTTP);
    assert_int_equal(reply->status, 200);
    assert_str(reply->body, "{\"ok\":true}");
    assert_true(reply->sent_at.us > 0 && reply->ended_at.us >= reply->sent_at.us);

    const struct ledger_request *seen = ledger_get(w->ledger, 0);
    assert_str(seen->method, "POST");
    assert_str(seen->target, "/charges?a=1");
    assert_str(seen->body, "{\"amount_cents\":4200}");
    assert_str(seen->key, "order-1:charge:execute");
    assert_str(ledger_header(seen, "Content-Type"), "application/json");
    assert_str(ledger_header(seen, "Saga-Run"), "order-1");
    assert_str(ledger_header(seen, "Saga-Step"), "charge");
    assert_str(ledger_header(seen, "Saga-Attempt"), "3");
    assert_str(ledger_header(seen, "Saga-Deadline"), "2026-10-25T02:30:00Z");
    assert_str(ledger_header(seen, "Saga-Compensates"), "order-1:charge:execute");
    assert_str(ledger_header(seen, "X-Note"), "action's");
    assert_str(ledger_header(seen, "X-Empty"), "");
    assert_str(ledger_header(seen, "Accept-Encoding"), "identity");
    struct str trace = ledger_header(seen, "traceparent");
    assert_int_equal(trace.len, 55);
    assert_null(ledger_header(seen, "Expect").ptr);
}

/* A service's own header takes the key; the standard one is not sent beside it. */
static void test_key_goes_where_the_service_wants_it(void **state)
{
    struct world *w = *state;
    struct fake_call call;
    fake_http(&call, ledger_url(w->ledger), "/");
    call.action.idempotency.place = KEY_PLACE_HEADER;
    call.action.idempotency.name = "PayPal-Request-Id";
    fake_header(&call, STR("paypal-request-id"), STR("the core's copy"));
    run(w, &call);
    const struct ledger_request *seen = ledger_get(w->ledger, 0);
    assert_str(ledger_header(seen, "PayPal-Request-Id"), "order-1:charge:execute");
    assert_null(seen->key.ptr);
    assert_null(memmem(seen->head.ptr, seen->head.len, "the core's copy", 15));

    fake_http(&call, ledger_url(w->ledger), "/");
    call.invocation.key = STR_NONE; /* a reconcile read has no key of its own */
    run(w, &call);
    assert_null(ledger_get(w->ledger, 1)->key.ptr);
}

/* What only shows an effect says so, and is no attempt; nothing else says it. */
static void test_dry_run_says_what_it_is(void **state)
{
    struct world *w = *state;
    struct fake_call call;
    fake_http(&call, ledger_url(w->ledger), "/");
    run(w, &call);
    assert_null(ledger_header(ledger_get(w->ledger, 0), "Saga-Dry-Run").ptr);
    fake_http(&call, ledger_url(w->ledger), "/");
    call.invocation.key = STR_NONE;
    call.invocation.attempt = 0;
    call.invocation.is_dry_run = true;
    run(w, &call);
    const struct ledger_request *seen = ledger_get(w->ledger, 1);
    assert_str(ledger_header(seen, "Saga-Dry-Run"), "true");
    assert_str(ledger_header(seen, "Saga-Run"), "order-1");
    assert_null(ledger_header(seen, "Saga-Attempt").ptr);
    assert_null(seen->key.ptr);
}

/* Each method arrives as itself, with a length where a body could be. */
static void test_methods(void **state)
{
    static const struct {
        enum http_method method;
        const char *name, *empty_length;
    } cases[] = {{HTTP_GET, "GET", NULL},
                 {HTTP_DELETE, "DELETE", NULL},
                 {HTTP_POST, "POST", "0"},
                 {HTTP_PUT, "PUT", "0"},
                 {HTTP_PATCH, "PATCH", "0"}};
    struct world *w = *state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct fake_call call;
        fake_http(&call, ledger_url(w->ledger), "/x");
        call.action.http.method = cases[i].method;
        call.request.body = STR_NONE;
        call.request.headers_count = 0;
        assert_int_equal(run(w, &call)->status, 200);
        const struct ledger_request *bare = ledger_get(w->ledger, 2 * i);
        assert_str(bare->method, cases[i].name);
        if (cases[i].empty_length)
            assert_str(ledger_header(bare, "Content-Length"), cases[i].empty_length);
        else
            assert_null(ledger_header(bare, "Content-Length").ptr);
        assert_null(ledger_header(bare, "Content-Type").ptr);

        fake_http(&call, ledger_url(w->ledger), "/x");
        call.action.http.method = cases[i].method;
        assert_int_equal(run(w, &call)->status, 200);
        const struct ledger_request *full = ledger_get(w->ledger, 2 * i + 1);
        assert_str(full->method, cases[i].name);
        assert_str(full->body, "{\"amount_cents\":4200}");
    }
    assert_int_equal(ledger_connections(w->ledger), 1);
}

/* A-HTTP-1: a request that dies on a reused connection is not sent again by the library. */
static void test_a_http_1(void **state)
{
    static const enum ledger_act deaths[] = {LEDGER_RESET, LEDGER_CLOSE};
    struct world *w = *state;
    for (size_t i = 0; i < ARRAY_LEN(deaths); i++) {
        size_t before = ledger_count(w->ledger);
        assert_int_equal(post(w)->kind, REPLY_HTTP);
        ledger_script(w->ledger, (struct ledger_answer){.act = deaths[i]});
        const struct reply *reply = post(w);
        assert_int_equal(reply->kind, REPLY_NO_ANSWER);
        assert_false(reply->timed_out);
        fake_idle(w->loop, 100 * MS_US);
        assert_int_equal(ledger_count(w->ledger), before + 2);
        const struct ledger_request *first = ledger_get(w->ledger, before);
        assert_int_equal(ledger_get(w->ledger, before + 1)->connection, first->connection);
    }
}

/* A-HTTP-1: an irreversible request never travels on a used connection, and leaves none. */
static void test_a_http_1_fresh_connection(void **state)
{
    struct world *w = *state;
    struct fake_call call;
    assert_int_equal(post(w)->status, 200);
    for (int i = 0; i < 2; i++) {
        fake_http(&call, ledger_url(w->ledger), "/messages");
        call.invocation.fresh_connection = true;
        assert_int_equal(run(w, &call)->status, 200);
    }
    assert_int_equal(ledger_connections(w->ledger), 3);
    assert_int_equal(post(w)->status, 200); /* the first connection is still good */
    assert_int_equal(ledger_connections(w->ledger), 3);
    assert_int_equal(ledger_open(w->ledger), 1);
}

static const struct reply *post_to(struct world *w, const char *host)
{
    struct fake_call call;
    char url[128];
    snprintf(url, sizeof(url), "http://%s%s", host, strrchr(ledger_url(w->ledger), ':'));
    fake_http(&call, url, "/charges");
    return run(w, &call);
}

/* A public name that leads inside is not followed; nothing is sent, and it may be tried again. */
static void test_rebound_name(void **state)
{
    struct world *w = *state;
    const struct reply *reply = post_to(w, "rebound.example.com");
    assert_int_equal(reply->kind, REPLY_NOT_CONNECTED);
    assert_true(contains(reply->error, "the address 127.0.0.1 of \"rebound.example.com\" is not "
                                       "allowed: it is a loopback or private address"));
    assert_true(contains(reply->error, "egress.allow"));
    reply = post_to(w, "metadata.example.com");
    assert_int_equal(reply->kind, REPLY_NOT_CONNECTED);
    assert_true(contains(reply->error, "it is link-local"));
    assert_int_equal(ledger_connections(w->ledger), 0);
    assert_int_equal(post_to(w, "inside.test")->status, 200); /* it says itself that it is inside */
    assert_int_equal(post_to(w, "localhost")->status, 200);
}

/* An address in the URL that nothing opens will never do: the step is refused for good. */
static void test_barred_address(void **state)
{
    struct world *w = *state;
    static const char *const hosts[] = {"169.254.169.254", "0.0.0.0",   "0xa9fea9fe",
                                        "2852039166",      "[fe80::1]", "[::ffff:169.254.169.254]"};
    for (size_t i = 0; i < ARRAY_LEN(hosts); i++) {
        const struct reply *reply = post_to(w, hosts[i]);
        assert_int_equal(reply->kind, REPLY_CANNOT_SEND);
        assert_true(contains(reply->error, "is not allowed"));
    }
}

/* The config opens an address to public names, and closes one that was open; of several addresses
 * of a name the allowed ones are used. */
static void test_egress_of_config(void **state)
{
    struct world *w = *state;
    struct egress_range range[2];
    struct egress egress = {range, 1};
    assert_null(egress_range_parse(STR("127.0.0.0/8"), &range[0]));
    range[0].deny = false;
    reopen(w, (struct invoke_http_options){.egress = &egress});
    assert_int_equal(post_to(w, "rebound.example.com")->status, 200);
    assert_int_equal(post_to(w, "mixed.example.com")->status, 200);
    /* A connection that stands is used again: it was judged. A new one is judged anew. */
    name_moves = true;
    ledger_hang_up(w->ledger);
    fake_idle(w->loop, 20 * MS_US);
    range[0].deny = true;
    const struct reply *reply = post_to(w, "127.0.0.1");
    assert_int_equal(reply->kind, REPLY_CANNOT_SEND);
    assert_true(contains(reply->error, "egress.deny"));
    assert_int_equal(post_to(w, "rebound.example.com")->kind, REPLY_NOT_CONNECTED);
    name_moves = false;
    assert_int_equal(ledger_count(w->ledger), 2);
}

/* A signature covers method, path with the base URL's own, key, time and body; a service without a
 * secret gets none, and without the secret nothing is sent. */
static void test_signature(void **state)
{
    struct world *w = *state;
    struct fake_call call;
    struct err err;
    char url[128], wanted[512], body[65], mac[65];
    assert_int_equal(secrets_add_value(w->secrets, "sign", STR("k3y-of-both"), &err), 0);
    assert_int_equal(post(w)->status, 200);
    assert_null(ledger_header(ledger_get(w->ledger, 0), "Saga-Signature").ptr);

    snprintf(url, sizeof(url), "%s/api", ledger_url(w->ledger));
    for (size_t i = 1; i < 3; i++) {
        fake_http(&call, url, "/charges?a=1");
        call.request.sign_secret = STR("\xFFsign\xFF");
        if (i == 2) {
            call.request.body = STR_NONE;
            call.invocation.key = STR_NONE;
        }
        assert_int_equal(run(w, &call)->status, 200);
        const struct ledger_request *seen = ledger_get(w->ledger, i);
        struct str got = ledger_header(seen, "Saga-Signature");
        long long seconds = 0;
        assert_int_equal(sscanf(got.ptr, "t=%lld,v1=", &seconds), 1);
        assert_true(llabs(seconds - (long long)time(NULL)) < 5);
        struct sha256 hash = sha256_of(i == 1 ? STR("{\"amount_cents\":4200}") : STR(""));
        sha256_hex(&hash, body);
        snprintf(wanted, sizeof(wanted), "saga-v1\nPOST\n/api/charges?a=1\n%s\n%lld\n%s\n",
                 i == 1 ? "order-1:charge:execute" : "", seconds, body);
        hash = sha256_hmac(STR("k3y-of-both"), str_z(wanted));
        sha256_hex(&hash, mac);
        snprintf(wanted, sizeof(wanted), "t=%lld,v1=%s", seconds, mac);
        assert_str(got, wanted);
        assert_null(memmem(seen->head.ptr, seen->head.len, "k3y-of-both", 11));
    }
    fake_http(&call, url, "/charges");
    call.request.sign_secret = STR("\xFFgone\xFF");
    const struct reply *reply = run(w, &call);
    assert_int_equal(reply->kind, REPLY_CANNOT_SEND);
    assert_true(contains(reply->error, "Saga-Signature") && contains(reply->error, "gone"));
    assert_int_equal(ledger_count(w->ledger), 3);
}

/* A connection that was closed while idle is noticed before anything is sent on it. */
static void test_idle_connection_closed(void **state)
{
    struct world *w = *state;
    assert_int_equal(post(w)->status, 200);
    ledger_hang_up(w->ledger);
    fake_idle(w->loop, 20 * MS_US);
    assert_int_equal(post(w)->status, 200);
    assert_int_equal(ledger_count(w->ledger), 2);
}

/* A-HTTP-2: an answer without a body is an answer. */
static void test_a_http_2(void **state)
{
    static const struct ledger_answer answers[] = {
        {.status = 204},
        {.status = 200},
        {.status = 205},
        {.status = 304},
        {.status = 200, .length = LEDGER_CHUNKED},
        {.status = 200, .length = LEDGER_UNTIL_CLOSE},
    };
    struct world *w = *state;
    for (size_t i = 0; i < ARRAY_LEN(answers); i++) {
        ledger_script(w->ledger, answers[i]);
        const struct reply *reply = post(w);
        assert_int_equal(reply->kind, REPLY_HTTP);
        assert_int_equal(reply->status, answers[i].status);
        assert_int_equal(reply->body.len, 0);
        assert_false(reply->body_dropped);
    }
    ledger_script(w->ledger, (struct ledger_answer){.headers = "Content-Type: text/plain\r\n",
                                                    .body = STR("OK")});
    assert_str(post(w)->body, "OK");
}

/* A-HTTP-3, A-HTTP-4: a redirect is an answer; nothing, and no credentials, follow it. */
static void test_a_http_3(void **state)
{
    static const int statuses[] = {301, 302, 303, 307, 308};
    struct world *w = *state;
    struct ledger *elsewhere = ledger_new(w->loop);
    char location[128];
    snprintf(location, sizeof(location), "Location: %s/stolen\r\n", ledger_url(elsewhere));
    for (size_t i = 0; i < ARRAY_LEN(statuses); i++) {
        struct fake_call call;
        ledger_script(w->ledger,
                      (struct ledger_answer){.status = statuses[i], .headers = location});
        fake_http(&call, ledger_url(w->ledger), "/charges");
        call.action.http.method = i % 2 ? HTTP_GET : HTTP_POST;
        fake_header(&call, STR("X-Api-Key"), STR("k"));
        const struct reply *reply = run(w, &call);
        assert_int_equal(reply->kind, REPLY_HTTP);
        assert_int_equal(reply->status, statuses[i]);
        assert_true(contains(fake_reply_header(reply, "location"), "/stolen"));
    }
    fake_idle(w->loop, 50 * MS_US);
    assert_int_equal(ledger_count(w->ledger), ARRAY_LEN(statuses));
    assert_int_equal(ledger_connections(elsewhere), 0);
    ledger_free(elsewhere);
}

/* A-HTTP-5 (adapter part): what a service says of time reaches the engine as it was said. */
static void test_a_http_5(void **state)
{
    struct world *w = *state;
    ledger_script(w->ledger,
                  (struct ledger_answer){.status = 429,
                                         .headers = "Retry-After: 7\r\n"
                                                    "Date: Sun, 25 Oct 2026 02:30:00 GMT\r\n"
                                                    "X-Long:   spaced\t \r\n"
                                                    "X-Raw: a\x01\xff\r\n"});
    const struct reply *reply = post(w);
    assert_int_equal(reply->status, 429);
    assert_str(fake_reply_header(reply, "retry-after"), "7");
    assert_str(fake_reply_header(reply, "date"), "Sun, 25 Oct 2026 02:30:00 GMT");
    assert_str(fake_reply_header(reply, "x-long"), "spaced");
    assert_str(fake_reply_header(reply, "x-raw"), "a??");
}

/* A-HTTP-6: a value that could add headers is refused before anything connects, by its name. */
static void test_a_http_6(void **state)
{
    static char huge[65536];
    memset(huge, 'h', sizeof(huge));
    const struct {
        struct str name, value;
    } bad[] = {
        {STR("X-Note"), STR("secretvalue\r\nX-Evil: 1")},
        {STR("X-Note"), STR("secretvalue\r\n\r\n{}")},
        {STR("X-Note"), STR("secretvalue\n")},
        {STR("X-Note"), STR("secretvalue\0")},
        {STR("X-Note"), STR("secretvalue\x7f")},
        {STR("X-Note"), STR("secretvalue\t")},
        {STR("X-Note"), STR("secretvalue Zo\xc3\xab")},
        {STR("X-Note"), {huge, sizeof(huge)}},
        {STR("X-Note: x\r\nX-Evil"), STR("secretvalue")},
        {STR("X Note"), STR("secretvalue")},
        {STR(""), STR("secretvalue")},
        {STR("Content-Length"), STR("3")},
        {STR("transfer-encoding"), STR("chunked")},
        {STR("Host"), STR("evil.test")},
    };
    struct world *w = *state;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct fake_call call;
        fake_http(&call, ledger_url(w->ledger), "/");
        fake_header(&call, bad[i].name, bad[i].value);
        const struct reply *reply = run(w, &call);
        assert_int_equal(reply->kind, REPLY_CANNOT_SEND);
        assert_false(contains(reply->error, "secretvalue"));
        assert_false(contains(reply->error, "hhhh"));
        if (i < 8)
            assert_true(contains(reply->error, "header \"X-Note\" cannot be sent"));
    }
    fake_idle(w->loop, 20 * MS_US);
    assert_int_equal(ledger_connections(w->ledger), 0);
}

/* A-HTTP-7: proxies of the environment do not count. */
static void test_a_http_7(void **state)
{
    static const char *const names[] = {"http_proxy",  "HTTP_PROXY", "https_proxy",
                                        "HTTPS_PROXY", "all_proxy",  "ALL_PROXY"};
    struct world *w = *state;
    struct ledger *proxy = ledger_new(w->loop);
    setenv("no_proxy", "example.org,::1,10.0.0.0/8", 1);
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        setenv(names[i], ledger_url(proxy), 1);
    assert_int_equal(post(w)->status, 200);
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        unsetenv(names[i]);
    unsetenv("no_proxy");
    assert_int_equal(ledger_connections(proxy), 0);
    assert_int_equal(ledger_count(w->ledger), 1);
    ledger_free(proxy);
}

/* A listening socket whose queue is full: the kernel drops further connection requests. */
struct black_hole {
    int listener, fill[8];
    char url[64];
};

static void black_hole_open(struct black_hole *hole)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(address);
    hole->listener = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(hole->listener, (struct sockaddr *)&address, len), 0);
    assert_int_equal(listen(hole->listener, 0), 0);
    getsockname(hole->listener, (struct sockaddr *)&address, &len);
    for (size_t i = 0; i < ARRAY_LEN(hole->fill); i++) {
        hole->fill[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
        (void)!connect(hole->fill[i], (struct sockaddr *)&address, len);
    }
    snprintf(hole->url, sizeof(hole->url), "http://127.0.0.1:%u", ntohs(address.sin_port));
}

static void black_hole_close(struct black_hole *hole)
{
    for (size_t i = 0; i < ARRAY_LEN(hole->fill); i++)
        close(hole->fill[i]);
    close(hole->listener);
}

static unsigned threads(void)
{
    unsigned count = 0;
    DIR *dir = opendir("/proc/self/task");
    while (readdir(dir))
        count++;
    closedir(dir);
    return count - 2;
}

/* A-HTTP-8: whoever stays silent, and whenever, the time limit holds, and others are not held up:
 * 100 silent servers, 100 connections that never stand, 100 names that never resolve. */
static void test_a_http_8(void **state)
{
    struct world *w = *state;
    struct black_hole hole;
    struct ledger *silent = ledger_new(w->loop);
    struct mono begun = loop_mono();
    uint64_t ids[300];
    unsigned threads_before = threads();
    black_hole_open(&hole);
    ledger_always(silent, (struct ledger_answer){.act = LEDGER_NEVER});
    for (size_t i = 0; i < 300; i++) {
        struct fake_call call;
        const char *const urls[] = {ledger_url(silent), hole.url, "http://silent.test:81"};
        fake_http(&call, urls[i % 3], "/");
        call.invocation.timeout_us = SECOND_US;
        ids[i] = fake_start(&call, w->port);
    }
    int64_t worst_us = 0;
    while (w->replies.count < 300) {
        struct mono sent = loop_mono();
        assert_int_equal(post(w)->status, 200);
        worst_us = MAX(worst_us, loop_mono().us - sent.us);
        assert_true(loop_mono().us - begun.us < 30 * SECOND_US);
    }
    assert_true(worst_us < SECOND_US); /* nobody waited for a silent one's limit */
    for (size_t i = 0; i < 300; i++) {
        const struct reply *reply = fake_reply_to(&w->replies, ids[i]);
        enum reply_kind wanted = i % 3 ? REPLY_NOT_CONNECTED : REPLY_NO_ANSWER;
        assert_int_equal(reply->kind, wanted);
        assert_true(reply->timed_out);
    }
    for (size_t i = 0; i < w->replies.count; i++) {
        int64_t took_us = w->replies.list[i].at.us - begun.us;
        if (w->replies.list[i].reply.kind != REPLY_HTTP)
            assert_in_range(took_us, 900 * MS_US, 1400 * MS_US);
    }
    ledger_free(silent);
    black_hole_close(&hole);
    for (int i = 0; i < 50 && threads() > threads_before; i++)
        fake_idle(w->loop, 100 * MS_US); /* look-ups end when libc lets them */
    assert_int_equal(threads(), threads_before);
}

/* The connect limit is apart from the total one. */
static void test_connect_limit(void **state)
{
    struct world *w = *state;
    struct black_hole hole;
    struct fake_call call;
    reopen(w, (struct invoke_http_options){.connect_timeout_us = 300 * MS_US});
    black_hole_open(&hole);
    struct mono begun = loop_mono();
    fake_http(&call, hole.url, "/");
    const struct reply *reply = run(w, &call);
    assert_int_equal(reply->kind, REPLY_NOT_CONNECTED);
    assert_in_range(loop_mono().us - begun.us, 250 * MS_US, 700 * MS_US);
    black_hole_close(&hole);
}

/* An answer that comes too slowly ends at the limit, and is no answer. */
static void test_trickle(void **state)
{
    struct world *w = *state;
    struct fake_call call;
    ledger_script(w->ledger,
                  (struct ledger_answer){.act = LEDGER_TRICKLE,
                                         .body = STR("0123456789012345678901234567890123456789"),
                                         .delay_us = 30 * MS_US});
    fake_http(&call, ledger_url(w->ledger), "/");
    call.invocation.timeout_us = 400 * MS_US;
    const struct reply *reply = run(w, &call);
    assert_int_equal(reply->kind, REPLY_NO_ANSWER);
    assert_true(reply->timed_out);
    assert_str(reply->error, "service \"payments\": no answer within 400ms");
}

/* A-HTTP-10 (adapter part): status and body of a refusal and of a hidden one arrive untouched. */
static void test_a_http_10(void **state)
{
    struct world *w = *state;
    ledger_script(w->ledger, (struct ledger_answer){.status = 404, .body = STR("{\"gone\":true}")});
    ledger_script(w->ledger, (struct ledger_answer){.status = 200, .body = STR("{\"ok\":false}")});
    const struct reply *reply = post(w);
    assert_int_equal(reply->status, 404);
    assert_str(reply->body, "{\"gone\":true}");
    reply = post(w);
    assert_int_equal(reply->status, 200);
    assert_str(reply->body, "{\"ok\":false}");
}

/* What cannot be reached was certainly not sent. */
static void test_not_connected(void **state)
{
    struct world *w = *state;
    struct fake_call call;
    char url[64];
    struct ledger *gone = ledger_new(w->loop);
    strcpy(url, ledger_url(gone));
    ledger_free(gone);
    const char *const urls[] = {url, "http://nowhere.test", NULL};
    for (size_t i = 0; urls[i]; i++) {
        fake_http(&call, urls[i], "/");
        const struct reply *reply = run(w, &call);
        assert_int_equal(reply->kind, REPLY_NOT_CONNECTED);
        assert_true(contains(reply->error, "service \"payments\": could not connect"));
    }
    /* TLS with a server that does not speak it: the handshake fails before the request. */
    snprintf(url, sizeof(url), "https://127.0.0.1:%u", ledger_port(w->ledger));
    ledger_always(w->ledger, (struct ledger_answer){.act = LEDGER_CLOSE});
    fake_http(&call, url, "/");
    call.invocation.timeout_us = SECOND_US;
    assert_int_equal(run(w, &call)->kind, REPLY_NOT_CONNECTED);
}

/* After the first byte may have gone out, nothing but a whole answer is an answer. */
static void test_no_answer(void **state)
{
    static const struct ledger_answer answers[] = {
        {.act = LEDGER_RESET},
        {.act = LEDGER_CLOSE},
        {.act = LEDGER_CUT_READ, .bytes = 3},
        {.act = LEDGER_CUT, .bytes = 5, .body = {"{\"ok\":true}", 11}},
        {.act = LEDGER_CUT, .bytes = 50, .body = {"{\"ok\":true}", 11}},
        {.act = LEDGER_RAW, .body = {"nonsense\r\n\r\n", 12}, .close = true},
        {.act = LEDGER_RAW,
         .body = {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 51},
         .close = true},
    };
    struct world *w = *state;
    for (size_t i = 0; i < ARRAY_LEN(answers); i++) {
        ledger_script(w->ledger, answers[i]);
        const struct reply *reply = post(w);
        assert_int_equal(reply->kind, REPLY_NO_ANSWER);
        assert_false(reply->timed_out);
        assert_null(reply->body.ptr);
    }
    assert_int_equal(ledger_count(w->ledger), ARRAY_LEN(answers));
}

/* Interim answers are passed over; the last one counts, with its own headers only. */
static void test_interim_answer(void **state)
{
    struct world *w = *state;
    ledger_script(w->ledger,
                  (struct ledger_answer){.act = LEDGER_RAW,
                                         .body = STR("HTTP/1.1 103 Early Hints\r\nX-A: 1\r\n\r\n"
                                                     "HTTP/1.1 201 Created\r\nX-B: 2\r\n"
                                                     "Content-Length: 2\r\n\r\nhi")});
    const struct reply *reply = post(w);
    assert_int_equal(reply->status, 201);
    assert_str(reply->body, "hi");
    assert_null(fake_reply_header(reply, "x-a").ptr);
    assert_str(fake_reply_header(reply, "x-b"), "2");
}

/* A-IDEM-4: every attempt carries the same bytes, however the one before broke off. */
static void test_a_idem_4(void **state)
{
    static const size_t sizes[] = {1024, 1000 * 1000};
    struct world *w = *state;
    for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
        size_t first = ledger_count(w->ledger);
        char *body = xmalloc(sizes[i]);
        for (size_t at = 0; at < sizes[i]; at++)
            body[at] = (char)('a' + at % 26);
        struct str text = {body, sizes[i]};
        struct sha256 hash = sha256_of(text);
        ledger_script(w->ledger, (struct ledger_answer){.act = LEDGER_CUT_READ, .bytes = 0});
        ledger_script(w->ledger, (struct ledger_answer){.act = LEDGER_CUT_READ, .bytes = 512});
        ledger_script(w->ledger, (struct ledger_answer){.act = LEDGER_RESET});
        ledger_script(w->ledger,
                      (struct ledger_answer){.status = 307, .headers = "Location: /\r\n"});
        for (uint32_t attempt = 1; attempt <= 5; attempt++) {
            struct fake_call call;
            fake_http(&call, ledger_url(w->ledger), "/charges");
            call.request.body = text;
            call.invocation.attempt = attempt;
            const struct reply *reply = run(w, &call);
            assert_int_equal(reply->kind, attempt < 4 ? REPLY_NO_ANSWER : REPLY_HTTP);
            const struct ledger_request *seen = ledger_get(w->ledger, first + attempt - 1);
            assert_int_equal(atol(ledger_header(seen, "Content-Length").ptr), (long)sizes[i]);
            if (attempt >= 3)
                assert_true(sha256_eq(&seen->body_hash, &hash));
        }
        assert_int_equal(ledger_count(w->ledger), first + 5);
        free(body);
    }
}

static long peak_kb(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
}

static struct str gzip_of_zeros(struct arena *arena)
{
    char *bytes = arena_alloc(arena, BODY_BYTES_MAX);
    FILE *pipe = popen("head -c 200000000 /dev/zero | gzip -1", "r");
    size_t len = pipe ? fread(bytes, 1, BODY_BYTES_MAX, pipe) : 0;
    assert_int_equal(pclose(pipe), 0);
    assert_true(len > 1000 && len < BODY_BYTES_MAX);
    return (struct str){bytes, len};
}

/* A-SIZE-2: an answer without end is cut at the limit, packed or not, and its status holds. */
static void test_a_size_2(void **state)
{
    struct world *w = *state;
    struct arena arena = {0};
    static char block[65536];
    memset(block, ' ', sizeof(block));
    struct str bomb = gzip_of_zeros(&arena);
    const struct ledger_answer answers[] = {
        {.act = LEDGER_FLOOD, .body = {block, sizeof(block)}, .repeat = 16384},
        {.act = LEDGER_FLOOD,
         .body = {block, sizeof(block)},
         .repeat = 16384,
         .length = LEDGER_CHUNKED},
        {.act = LEDGER_FLOOD,
         .body = {block, sizeof(block)},
         .repeat = 16384,
         .length = LEDGER_UNTIL_CLOSE},
        {.body = bomb, .headers = "Content-Encoding: gzip\r\n"},
        {.body = bomb, .headers = "Content-Encoding: gzip\r\n", .length = LEDGER_CHUNKED},
        {.body = bomb, .headers = "Content-Encoding: gzip\r\n", .length = LEDGER_UNTIL_CLOSE},
        {.body = bomb, .headers = "Transfer-Encoding: gzip\r\n", .length = LEDGER_UNTIL_CLOSE},
        {.body = bomb, .headers = "Transfer-Encoding: gzip\r\n", .length = LEDGER_CHUNKED},
        {.body = STR("x"), .headers = "Content-Encoding: br\r\n"},
    };
    post(w);
    long before_kb = peak_kb();
    for (size_t i = 0; i < ARRAY_LEN(answers); i++) {
        ledger_script(w->ledger, answers[i]);
        const struct reply *reply = post(w);
        if (reply->kind == REPLY_NO_ANSWER) /* libcurl did not take the coding at all */
            assert_true(answers[i].headers && strstr(answers[i].headers, "Transfer-Encoding"));
        else
            assert_int_equal(reply->status, 200);
        assert_null(reply->body.ptr);
        assert_int_equal(reply->body_dropped, reply->kind == REPLY_HTTP);
        assert_int_equal(post(w)->status, 200);
    }
    if (!ASAN) /* it keeps freed memory for a while */
        assert_in_range(peak_kb() - before_kb, 0, 17 * 1024);
    arena_free(&arena);
}

/* The largest body that is allowed comes through; one byte more does not. */
static void test_body_limit(void **state)
{
    struct world *w = *state;
    char *body = xmalloc(BODY_BYTES_MAX + 1);
    memset(body, 'b', BODY_BYTES_MAX + 1);
    ledger_script(w->ledger, (struct ledger_answer){.body = {body, BODY_BYTES_MAX}});
    ledger_script(w->ledger,
                  (struct ledger_answer){.status = 201, .body = {body, BODY_BYTES_MAX + 1}});
    const struct reply *reply = post(w);
    assert_int_equal(reply->body.len, BODY_BYTES_MAX);
    reply = post(w);
    assert_int_equal(reply->status, 201);
    assert_true(reply->body_dropped);
    free(body);
}

/* Headers without end: the status holds, the rest is dropped. */
static void test_header_limit(void **state)
{
    struct world *w = *state;
    struct buf head = {0};
    buf_add_z(&head, "HTTP/1.1 201 Created\r\n");
    for (int i = 0; i < 3000; i++)
        buf_printf(&head, "X-Header-%d: 0123456789012345678901234567890123456789\r\n", i);
    buf_add_z(&head, "Content-Length: 0\r\n\r\n");
    ledger_script(w->ledger, (struct ledger_answer){.act = LEDGER_RAW, .body = buf_str(&head)});
    const struct reply *reply = post(w);
    assert_int_equal(reply->kind, REPLY_HTTP);
    assert_int_equal(reply->status, 201);
    assert_true(reply->body_dropped);
    buf_free(&head);
}

/* A-TEXT-2: bytes that are no text never reach the store; the outcome does. */
static void test_a_text_2(void **state)
{
    static const struct {
        const char *type;
        struct str body;
        const char *text; /* NULL: dropped */
    } cases[] = {
        {"text/plain", {"a\0b", 3}, NULL},
        {"application/json", {"\xff\xfe{}", 4}, NULL},
        {"application/json", {"{\"a\":\"Zo\xc3", 9}, NULL},
        {"application/json", {"{\"a\":\"\xed\xa0\x80\"}", 11}, NULL},
        {"application/json", {"{\"a\":\"\\ud800\"}", 14}, "{\"a\":\"\\ud800\"}"},
        {"text/plain; charset=ISO-8859-1", {"Zo\xeb", 3}, "Zo\xc3\xab"},
        {"text/plain; charset=\"iso-8859-1\"", {"Zo\xeb", 3}, "Zo\xc3\xab"},
        {"text/plain", {"Zo\xeb", 3}, NULL},
        {"text/plain; charset=windows-1252", {"Zo\xeb", 3}, NULL},
        {"text/plain; charset=utf-16", {"ab", 2}, NULL},
        {"text/plain;charset=UTF-8",
         {"Zo\xc3\xab \xf0\x9f\x98\x80", 9},
         "Zo\xc3\xab \xf0\x9f\x98\x80"},
        {"text/plain", {"\xef\xbb\xbf{}", 5}, "{}"},
    };
    struct world *w = *state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char type[80];
        snprintf(type, sizeof(type), "Content-Type: %s\r\n", cases[i].type);
        ledger_script(w->ledger, (struct ledger_answer){.headers = type, .body = cases[i].body});
        const struct reply *reply = post(w);
        assert_int_equal(reply->kind, REPLY_HTTP);
        assert_int_equal(reply->status, 200);
        assert_int_equal(reply->body_dropped, cases[i].text == NULL);
        if (cases[i].text)
            assert_str(reply->body, cases[i].text);
        else
            assert_null(reply->body.ptr);
    }
}

/* A-SECRET-1 (adapter part): secrets are put in at the last moment; what lacks one is not sent. */
static void test_a_secret_1(void **state)
{
    struct world *w = *state;
    struct fake_call call;
    struct err err;
    assert_int_equal(secrets_add_value(w->secrets, "token", STR("S3cr3t-token+/="), &err), 0);
    assert_int_equal(secrets_add_value(w->secrets, "umlaut", STR("S3cr3t-\xc3\xbcmlaut"), &err), 0);

    fake_http(&call, ledger_url(w->ledger), "/");
    call.request.auth_secret = STR("\xFFtoken\xFF");
    fake_header(&call, STR("X-Api-Key"), STR("v1 \xFFtoken\xFF."));
    assert_int_equal(run(w, &call)->status, 200);
    const struct ledger_request *seen = ledger_get(w->ledger, 0);
    assert_str(ledger_header(seen, "Authorization"), "Bearer S3cr3t-token+/=");
    assert_str(ledger_header(seen, "X-Api-Key"), "v1 S3cr3t-token+/=.");

    fake_http(&call, ledger_url(w->ledger), "/");
    call.request.auth_user = STR("us\xc3\xa9r");
    call.request.auth_secret = STR("\xFFumlaut\xFF"); /* Base64 carries any byte */
    assert_int_equal(run(w, &call)->status, 200);
    assert_str(ledger_header(ledger_get(w->ledger, 1), "Authorization"),
               "Basic dXPDqXI6UzNjcjN0LcO8bWxhdXQ=");

    fake_http(&call, ledger_url(w->ledger), "/");
    call.request.auth_secret = STR("\xFFumlaut\xFF"); /* a header does not */
    const struct reply *reply = run(w, &call);
    assert_int_equal(reply->kind, REPLY_CANNOT_SEND);
    assert_str(
        reply->error,
        "service \"payments\": header \"Authorization\" cannot be sent: the value is not ASCII");

    fake_http(&call, ledger_url(w->ledger), "/");
    fake_header(&call, STR("X-Api-Key"), STR("\xFFmissing\xFF"));
    reply = run(w, &call);
    assert_int_equal(reply->kind, REPLY_CANNOT_SEND);
    assert_str(reply->error,
               "service \"payments\": header \"X-Api-Key\": secret \"missing\" is not configured");
    assert_int_equal(ledger_count(w->ledger), 2);
}

static const char *config_url(void *arg, const char *service)
{
    return strcmp(service, "payments") == 0 ? arg : NULL;
}

/* The daemon's URL wins over the workflow's; without any, or with a bad one, nothing is sent. */
static void test_service_urls(void **state)
{
    static const char *const bad[] = {
        NULL,
        "",
        "127.0.0.1",
        "ftp://127.0.0.1",
        "http://",
        "http:///path",
        "http://user:pw@127.0.0.1",
        "http://127.0.0.1?q",
        "http://127.0.0.1#f",
        "http://a b",
        "http://a\r\nb",
    };
    struct world *w = *state;
    struct fake_call call;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        fake_http(&call, bad[i], "/");
        const struct reply *reply = run(w, &call);
        assert_int_equal(reply->kind, REPLY_CANNOT_SEND);
        assert_true(contains(reply->error, "service \"payments\":"));
    }
    char url[96];
    reopen(w, (struct invoke_http_options){.url = config_url, .url_arg = url});
    struct ledger *configured = ledger_new(w->loop);
    snprintf(url, sizeof(url), "%s/api/v2", ledger_url(configured));
    fake_http(&call, ledger_url(w->ledger), "/charges?x=1");
    assert_int_equal(run(w, &call)->status, 200);
    assert_str(ledger_get(configured, 0)->target, "/api/v2/charges?x=1");
    assert_int_equal(ledger_count(w->ledger), 0);
    fake_http(&call, ledger_url(w->ledger), "/");
    call.service.name = "mail"; /* not in the config: the workflow's own URL */
    assert_int_equal(run(w, &call)->status, 200);
    assert_int_equal(ledger_count(w->ledger), 1);
    ledger_free(configured);
}

/* A-EXPR-2 (adapter part): a path cannot reach another host or leave its place. */
static void test_a_expr_2(void **state)
{
    static const char *const bad[] = {
        "charges",     "http://evil.test/",
        "@evil.test/", "",
        "/a/../b",     "/a/..",
        "/a/%2e%2E",   "/.",
        "/./a",        "/a\r\nX: 1",
        "/a b",        "/a#b",
        "/a\\b",       "/Zo\xc3\xab",
    };
    static const char *const good[] = {
        "/a%2Fb%3Fc%23d%20..%2F%20%C3%A9?q=a%26b%3Dc",
        "//evil.test/x",
        "/...",
        "/a?b=../c",
        "/?",
        "/",
    };
    struct world *w = *state;
    struct fake_call call;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        fake_http(&call, ledger_url(w->ledger), bad[i]);
        assert_int_equal(run(w, &call)->kind, REPLY_CANNOT_SEND);
    }
    assert_int_equal(ledger_connections(w->ledger), 0);
    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        fake_http(&call, ledger_url(w->ledger), good[i]);
        assert_int_equal(run(w, &call)->status, 200);
        assert_str(ledger_get(w->ledger, i)->target, good[i]);
    }
}

/* A-DAEMON-3 (adapter part): no descriptor left is our own shortage, and passes. */
static void test_a_daemon_3(void **state)
{
    struct world *w = *state;
    struct rlimit files, few;
    struct fake_call call;
    getrlimit(RLIMIT_NOFILE, &files);
    few = files;
    few.rlim_cur = fake_open_files() + 1;
    setrlimit(RLIMIT_NOFILE, &few);
    const char *const urls[] = {ledger_url(w->ledger), "http://nowhere.test",
                                "https://127.0.0.1:1"};
    enum reply_kind kinds[ARRAY_LEN(urls)];
    int hog = dup(0); /* the last one */
    for (size_t i = 0; i < ARRAY_LEN(urls); i++) {
        fake_http(&call, urls[i], "/");
        kinds[i] = run(w, &call)->kind;
    }
    close(hog);
    setrlimit(RLIMIT_NOFILE, &files);
    for (size_t i = 0; i < ARRAY_LEN(urls); i++)
        assert_int_equal(kinds[i], REPLY_LOCAL_SHORTAGE);
    assert_int_equal(post(w)->status, 200);
}

/* A certificate for 127.0.0.1, signed by itself, and its key, in one file. */
static void certificate_write(const char *path)
{
    EVP_PKEY *key = EVP_RSA_gen(2048);
    X509 *cert = X509_new();
    X509_set_version(cert, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(cert), 1);
    X509_gmtime_adj(X509_getm_notBefore(cert), -86400);
    X509_gmtime_adj(X509_getm_notAfter(cert), 86400);
    X509_set_pubkey(cert, key);
    X509_NAME *name = X509_get_subject_name(cert);
    X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const unsigned char *)"test", -1, -1, 0);
    X509_set_issuer_name(cert, name);
    X509_EXTENSION *san = X509V3_EXT_conf_nid(NULL, NULL, NID_subject_alt_name, "IP:127.0.0.1");
    X509_add_ext(cert, san, -1);
    X509_EXTENSION_free(san);
    assert_true(X509_sign(cert, key, EVP_sha256()) > 0);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    PEM_write_X509(file, cert);
    PEM_write_PrivateKey(file, key, NULL, NULL, 0, NULL, NULL);
    fclose(file);
    X509_free(cert);
    EVP_PKEY_free(key);
}

struct tls_server {
    pid_t pid;
    int hold; /* it ends when this is closed */
    char url[64], cert[64];
};

static void tls_server_open(struct tls_server *server)
{
    int in[2], out[2];
    char port[16] = "";
    strcpy(server->cert, "/tmp/test_cert.XXXXXX");
    close(mkstemp(server->cert));
    certificate_write(server->cert);
    assert_int_equal(pipe(in), 0);
    assert_int_equal(pipe(out), 0);
    server->pid = fork();
    if (server->pid == 0) {
        dup2(in[0], 0);
        dup2(out[1], 1);
        close(in[1]);
        execlp("tests/lib/tls_server.py", "tls_server.py", server->cert, (char *)NULL);
        _exit(127);
    }
    close(in[0]);
    close(out[1]);
    server->hold = in[1];
    assert_true(read(out[0], port, sizeof(port) - 1) > 0);
    close(out[0]);
    snprintf(server->url, sizeof(server->url), "https://127.0.0.1:%d", atoi(port));
}

static void tls_server_close(struct tls_server *server)
{
    close(server->hold);
    waitpid(server->pid, NULL, 0);
    unlink(server->cert);
}

/* A-DAEMON-5: servers that reset TLS connections while they are closed do not end this process;
 * a certificate that nobody vouches for is no connection. */
static void test_a_daemon_5(void **state)
{
    struct world *w = *state;
    static struct tls_server server;
    struct fake_call call;
    tls_server_open(&server);
    fake_http(&call, server.url, "/");
    const struct reply *reply = run(w, &call);
    assert_int_equal(reply->kind, REPLY_NOT_CONNECTED);
    assert_true(contains(reply->error, "certificate"));
    tls_server_close(&server);

    void *world = w;
    teardown(&world);
    tls_server_open(&server);
    world_open(w, &(struct invoke_http_options){.ca_file = server.cert});
    w->files--; /* the server's */
    for (int i = 0; i < 100; i++) {
        fake_http(&call, server.url, "/");
        call.invocation.fresh_connection = true;
        fake_start(&call, w->port);
    }
    assert_true(fake_replies_wait(&w->replies, 100, 20 * SECOND_US));
    unsigned whole = 0;
    for (size_t i = 0; i < w->replies.count; i++)
        whole += w->replies.list[i].reply.status == 200;
    assert_true(whole > 0); /* a reset may overtake some answers */
    tls_server_close(&server);
}

/* What waits for a connection is sent in order, as many at a time as allowed. */
static void test_queue(void **state)
{
    struct world *w = *state;
    reopen(w, (struct invoke_http_options){.transfers_max = 4}); /* two per service */
    ledger_always(w->ledger, (struct ledger_answer){.delay_us = 30 * MS_US});
    for (unsigned i = 1; i <= 10; i++) {
        struct fake_call call;
        fake_http(&call, ledger_url(w->ledger), "/");
        call.invocation.attempt = i;
        fake_start(&call, w->port);
    }
    assert_int_equal(invoke_http_busy(w->http), 10);
    assert_true(fake_replies_wait(&w->replies, 10, 5 * SECOND_US));
    assert_int_equal(ledger_connections(w->ledger), 2);
    for (unsigned i = 0; i < 10; i++)
        assert_int_equal(atoi(ledger_header(ledger_get(w->ledger, i), "Saga-Attempt").ptr), i + 1);
    assert_int_equal(invoke_http_busy(w->http), 0);
}

/* One service that hangs neither takes all connections nor lets its queue wait past the limit. */
static void test_queue_limit(void **state)
{
    struct world *w = *state;
    reopen(w, (struct invoke_http_options){.transfers_max = 4});
    struct ledger *silent = ledger_new(w->loop);
    ledger_always(silent, (struct ledger_answer){.act = LEDGER_NEVER});
    for (int i = 0; i < 6; i++) {
        struct fake_call call;
        fake_http(&call, ledger_url(silent), "/");
        /* Those that wait give up long before a connection becomes free. */
        call.invocation.timeout_us = i < 2 ? 2 * SECOND_US : 300 * MS_US;
        fake_start(&call, w->port);
    }
    assert_int_equal(post(w)->status, 200);
    assert_true(fake_replies_wait(&w->replies, 7, 20 * SECOND_US));
    unsigned sent = 0, waited = 0;
    for (size_t i = 0; i < w->replies.count; i++) {
        sent += w->replies.list[i].reply.kind == REPLY_NO_ANSWER;
        waited += w->replies.list[i].reply.kind == REPLY_LOCAL_SHORTAGE;
    }
    assert_int_equal(sent, 2);
    assert_int_equal(waited, 4);
    assert_int_equal(ledger_count(silent), 2);
    ledger_free(silent);
}

/* More connections to one service than a lane holds. */
static void test_many_connections(void **state)
{
    struct world *w = *state;
    ledger_always(w->ledger, (struct ledger_answer){.delay_us = 50 * MS_US});
    for (int i = 0; i < 200; i++) {
        struct fake_call call;
        fake_http(&call, ledger_url(w->ledger), "/");
        fake_start(&call, w->port);
    }
    assert_true(fake_replies_wait(&w->replies, 200, 5 * SECOND_US));
    for (size_t i = 0; i < w->replies.count; i++)
        assert_int_equal(w->replies.list[i].reply.status, 200);
    assert_int_equal(ledger_count(w->ledger), 200);
}

/* Start never calls back; a dropped invocation is answered once, by what is known of it. */
static void test_drop(void **state)
{
    struct world *w = *state;
    struct fake_call call;
    reopen(w, (struct invoke_http_options){.transfers_max = 2});
    ledger_always(w->ledger, (struct ledger_answer){.act = LEDGER_NEVER});
    fake_http(&call, NULL, "/");
    uint64_t refused = fake_start(&call, w->port);
    fake_http(&call, ledger_url(w->ledger), "/");
    uint64_t flying = fake_start(&call, w->port);
    uint64_t waiting = fake_start(&call, w->port);
    assert_int_equal(w->replies.count, 0);
    fake_idle(w->loop, 50 * MS_US);
    assert_int_equal(w->replies.count, 1);
    assert_int_equal(ledger_count(w->ledger), 1);
    w->port->drop(w->port->arg, waiting);
    w->port->drop(w->port->arg, flying);
    w->port->drop(w->port->arg, flying);
    w->port->drop(w->port->arg, 999999);
    assert_int_equal(w->replies.count, 1);
    fake_idle(w->loop, 50 * MS_US);
    assert_int_equal(w->replies.count, 3);
    assert_int_equal(fake_reply_to(&w->replies, refused)->kind, REPLY_CANNOT_SEND);
    assert_int_equal(fake_reply_to(&w->replies, flying)->kind, REPLY_NO_ANSWER);
    assert_int_equal(fake_reply_to(&w->replies, waiting)->kind, REPLY_NOT_SENT);
    assert_int_equal(ledger_count(w->ledger), 1);
    assert_int_equal(ledger_open(w->ledger), 0);
}

/* What is left is still answered if it went out, and never goes out if it did not. */
static void test_leave(void **state)
{
    struct world *w = *state;
    struct fake_call call;
    reopen(w, (struct invoke_http_options){.transfers_max = 1});
    ledger_always(w->ledger, (struct ledger_answer){.delay_us = 100 * MS_US, .status = 201});
    fake_http(&call, ledger_url(w->ledger), "/");
    uint64_t flying = fake_start(&call, w->port);
    uint64_t waiting = fake_start(&call, w->port);
    fake_idle(w->loop, 50 * MS_US);
    assert_int_equal(ledger_count(w->ledger), 1);
    w->port->leave(w->port->arg, waiting);
    w->port->leave(w->port->arg, flying);
    w->port->leave(w->port->arg, 999999);
    fake_idle(w->loop, 150 * MS_US);
    assert_int_equal(w->replies.count, 2);
    assert_int_equal(fake_reply_to(&w->replies, waiting)->kind, REPLY_NOT_SENT);
    assert_int_equal(fake_reply_to(&w->replies, flying)->status, 201);
    assert_int_equal(ledger_count(w->ledger), 1);
}

/* A drain sends nothing new, awaits what is under way, and cuts it only when told. */
static void test_drain(void **state)
{
    struct world *w = *state;
    struct fake_call call;
    reopen(w, (struct invoke_http_options){.transfers_max = 4});
    ledger_script(w->ledger, (struct ledger_answer){.delay_us = 100 * MS_US});
    ledger_script(w->ledger, (struct ledger_answer){.act = LEDGER_NEVER});
    fake_http(&call, ledger_url(w->ledger), "/");
    uint64_t answered = fake_start(&call, w->port);
    uint64_t silent = fake_start(&call, w->port);
    uint64_t waiting = fake_start(&call, w->port);
    fake_idle(w->loop, 50 * MS_US);
    invoke_http_drain(w->http, false);
    uint64_t late = fake_start(&call, w->port);
    fake_idle(w->loop, 200 * MS_US);
    assert_int_equal(fake_reply_to(&w->replies, answered)->kind, REPLY_HTTP);
    assert_int_equal(fake_reply_to(&w->replies, waiting)->kind, REPLY_NOT_SENT);
    assert_int_equal(fake_reply_to(&w->replies, late)->kind, REPLY_NOT_SENT);
    assert_int_equal(invoke_http_busy(w->http), 1);
    invoke_http_drain(w->http, true);
    assert_int_equal(fake_reply_to(&w->replies, silent)->kind, REPLY_NO_ANSWER);
    assert_int_equal(invoke_http_busy(w->http), 0);
    assert_int_equal(ledger_count(w->ledger), 2);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_request_arrives_whole),
        TEST(test_key_goes_where_the_service_wants_it),
        TEST(test_dry_run_says_what_it_is),
        TEST(test_methods),
        TEST(test_a_http_1),
        TEST(test_a_http_1_fresh_connection),
        TEST(test_signature),
        TEST(test_rebound_name),
        TEST(test_barred_address),
        TEST(test_egress_of_config),
        TEST(test_idle_connection_closed),
        TEST(test_a_http_2),
        TEST(test_a_http_3),
        TEST(test_a_http_5),
        TEST(test_a_http_6),
        TEST(test_a_http_7),
        TEST(test_a_http_8),
        TEST(test_connect_limit),
        TEST(test_trickle),
        TEST(test_a_http_10),
        TEST(test_not_connected),
        TEST(test_no_answer),
        TEST(test_interim_answer),
        TEST(test_a_idem_4),
        TEST(test_a_size_2),
        TEST(test_body_limit),
        TEST(test_header_limit),
        TEST(test_a_text_2),
        TEST(test_a_secret_1),
        TEST(test_service_urls),
        TEST(test_a_expr_2),
        TEST(test_a_daemon_3),
        TEST(test_a_daemon_5),
        TEST(test_queue),
        TEST(test_queue_limit),
        TEST(test_many_connections),
        TEST(test_drop),
        TEST(test_leave),
        TEST(test_drain),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
