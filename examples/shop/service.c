#include "examples/shop/service.h"

#include <arpa/inet.h>
#include <errno.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/http.h>
#include <event2/keyvalq_struct.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define FOREVER INT64_MAX

struct switches {
    struct arena arena; /* the texts */
    int64_t slow_ms;
    int64_t drop_times;
    bool keyless;
    int64_t fail_status, fail_times, fail_retry_after;
    int64_t refuse_status; /* 0: off */
    struct str refuse_code, refuse_field, refuse_value;
};

struct server {
    const struct service *service;
    struct event_base *base;
    struct evhttp *http;
    struct effects *effects;
    struct switches switches;
    bool verbose;
};

/* An answer on its way: at once, late, or never. */
struct delivery {
    struct evhttp_request *request;
    struct event *timer;
    int status;
    bool drop;
};

static struct wall wall_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (struct wall){now.tv_sec * SECOND_US + now.tv_nsec / 1000};
}

/* --- switches --- */

static int64_t int_or(const struct json *object, const char *name, int64_t otherwise)
{
    int64_t value;
    return json_to_int(json_get_z(object, name), &value) ? value : otherwise;
}

/* Sets what the object names and leaves the rest. Null switches off. */
static void switches_set(struct switches *switches, const struct json *wanted)
{
    const struct json *fail = json_get_z(wanted, "fail");
    const struct json *refuse = json_get_z(wanted, "refuse");
    const struct json *keyless = json_get_z(wanted, "keyless");
    switches->slow_ms = int_or(wanted, "slow_ms", switches->slow_ms);
    switches->drop_times = int_or(wanted, "drop", switches->drop_times);
    if (keyless)
        switches->keyless = keyless->kind == JSON_BOOL && keyless->boolean;
    if (fail) {
        switches->fail_status = int_or(fail, "status", 503);
        switches->fail_retry_after = int_or(fail, "retry_after", -1);
        switches->fail_times = fail->kind == JSON_OBJECT ? int_or(fail, "times", FOREVER) : 0;
    }
    if (refuse) {
        struct arena *arena = &switches->arena;
        struct str code = json_get_text(refuse, "code");
        switches->refuse_status = refuse->kind == JSON_OBJECT ? int_or(refuse, "status", 422) : 0;
        switches->refuse_code = arena_str(arena, code.ptr ? code : STR("refused"));
        switches->refuse_field = arena_str(arena, json_get_text(refuse, "field"));
        switches->refuse_value = arena_str(arena, json_get_text(refuse, "value"));
    }
}

static const struct json *switches_json(const struct switches *switches, struct arena *arena)
{
    struct json *out = json_object_new(arena, 5);
    json_object_add_z(out, "slow_ms", json_int(arena, switches->slow_ms));
    json_object_add_z(out, "drop", json_int(arena, switches->drop_times));
    json_object_add_z(out, "keyless", json_bool(switches->keyless));
    struct json *fail = json_object_new(arena, 3);
    json_object_add_z(fail, "status", json_int(arena, switches->fail_status));
    if (switches->fail_times != FOREVER)
        json_object_add_z(fail, "times", json_int(arena, switches->fail_times));
    if (switches->fail_retry_after >= 0)
        json_object_add_z(fail, "retry_after", json_int(arena, switches->fail_retry_after));
    json_object_add_z(out, "fail", switches->fail_times ? fail : &json_null);
    struct json *refuse = json_object_new(arena, 4);
    json_object_add_z(refuse, "status", json_int(arena, switches->refuse_status));
    json_object_add_z(refuse, "code", json_string(arena, switches->refuse_code));
    if (switches->refuse_field.ptr) {
        json_object_add_z(refuse, "field", json_string(arena, switches->refuse_field));
        json_object_add_z(refuse, "value", json_string(arena, switches->refuse_value));
    }
    json_object_add_z(out, "refuse", switches->refuse_status ? refuse : &json_null);
    return out;
}

static bool is_refused(const struct switches *switches, const struct call *call)
{
    if (!switches->refuse_status || strcmp(call->method, "GET") == 0)
        return false;
    if (!switches->refuse_field.ptr)
        return true;
    if (str_eq_z(switches->refuse_field, "path"))
        return str_starts(call->path, switches->refuse_value);
    const struct json *field = json_get(call->body, switches->refuse_field);
    return field && (field->kind == JSON_STRING || field->kind == JSON_NUMBER) &&
           str_eq(field->text, switches->refuse_value);
}

/* --- answering --- */

static void deliver(evutil_socket_t fd, short what, void *arg)
{
    struct delivery *delivery = arg;
    (void)fd, (void)what;
    if (delivery->drop)
        evhttp_connection_free(evhttp_request_get_connection(delivery->request));
    else
        evhttp_send_reply(delivery->request, delivery->status, NULL, NULL);
    event_free(delivery->timer);
    free(delivery);
}

static void send_answer(struct server *server, struct evhttp_request *request,
                        const struct answer *answer, int64_t delay_ms, bool drop)
{
    struct evkeyvalq *headers = evhttp_request_get_output_headers(request);
    struct buf text = {0};
    json_write(answer->body, &text);
    buf_add_char(&text, '\n');
    evhttp_add_header(headers, "Content-Type",
                      answer->status < 400 ? "application/json" : "application/problem+json");
    evbuffer_add(evhttp_request_get_output_buffer(request), text.data, text.len);
    buf_free(&text);
    if (!delay_ms && !drop) {
        evhttp_send_reply(request, answer->status, NULL, NULL);
        return;
    }
    struct delivery *delivery = xcalloc(1, sizeof(*delivery));
    *delivery = (struct delivery){.request = request, .status = answer->status, .drop = drop};
    delivery->timer = evtimer_new(server->base, deliver, delivery);
    event_add(delivery->timer, &(struct timeval){delay_ms / 1000, delay_ms % 1000 * 1000});
}

struct str service_id(const struct call *call, const char *prefix)
{
    return arena_printf(call->arena, "%s_%06zu", prefix, effects_count(call->effects) + 1);
}

void service_refuse(const struct call *call, struct answer *answer, int status, const char *code,
                    const char *detail)
{
    struct json *body = json_object_new(call->arena, 3);
    json_object_add_z(body, "status", json_int(call->arena, status));
    json_object_add_z(body, "code", json_string_z(call->arena, code));
    json_object_add_z(body, "detail", json_string_z(call->arena, detail));
    *answer = (struct answer){.status = status, .body = body};
}

/* --- a request --- */

static struct str header(struct evhttp_request *request, const char *name)
{
    return str_z(evhttp_find_header(evhttp_request_get_input_headers(request), name));
}

static struct str request_hash(const struct call *call)
{
    struct buf text = {0};
    buf_printf(&text, "%s\n" STR_FMT "\n", call->method, STR_ARG(call->path));
    if (call->body)
        json_write_canonical(call->body, &text);
    struct sha256 hash = sha256_of(buf_str(&text));
    buf_free(&text);
    char *hex = arena_alloc(call->arena, 65);
    sha256_hex(&hash, hex);
    return str_z(hex);
}

/* Steps 2 to 4 of service.h; `*replayed` says that the answer is an old one. */
static void work(struct server *server, struct evhttp_request *request, const struct call *call,
                 struct answer *answer, bool *replayed)
{
    struct str key = header(request, "Idempotency-Key");
    struct str hash = request_hash(call);
    bool reading = strcmp(call->method, "GET") == 0;
    const struct effect *before = NULL;
    if (key.ptr && !reading) {
        effects_seen(server->effects, key);
        before = server->switches.keyless ? NULL : effects_by_key(server->effects, key);
    }
    if (before && !str_eq(before->request_hash, hash)) {
        service_refuse(call, answer, 422, "idempotency_key_reused",
                       "this key was used with another request");
        return;
    }
    if (before) {
        *answer = (struct answer){.status = before->status, .body = before->answer};
        *replayed = true;
        return;
    }
    if (is_refused(&server->switches, call)) {
        service_refuse(call, answer, (int)server->switches.refuse_status,
                       server->switches.refuse_code.ptr, "refused by a switch");
        return;
    }
    server->service->handle(call, answer);
    if (!answer->kind)
        return;
    struct err err;
    const struct effect effect = {
        .kind = str_z(answer->kind),
        .subject = answer->subject,
        .key = key,
        .run = header(request, "Saga-Run"),
        .step = header(request, "Saga-Step"),
        .request_hash = hash,
        .at = wall_now(),
        .status = answer->status,
        .answer = answer->body,
    };
    if (effects_add(server->effects, &effect, &err) != 0)
        service_refuse(call, answer, 503, "ledger_unavailable", err.text);
}

static void serve(struct server *server, struct evhttp_request *request, const struct call *call)
{
    struct switches *switches = &server->switches;
    struct evkeyvalq *headers = evhttp_request_get_output_headers(request);
    struct answer answer;
    bool replayed = false, drop = false;
    if (switches->fail_times > 0) {
        if (switches->fail_times != FOREVER)
            switches->fail_times--;
        service_refuse(call, &answer, (int)switches->fail_status, "unavailable",
                       "failed by a switch; nothing was done");
        if (switches->fail_retry_after >= 0)
            evhttp_add_header(
                headers, "Retry-After",
                arena_printf(call->arena, "%lld", (long long)switches->fail_retry_after).ptr);
    } else {
        work(server, request, call, &answer, &replayed);
        if (replayed)
            evhttp_add_header(headers, "Idempotency-Replayed", "true");
        if (switches->drop_times > 0 && strcmp(call->method, "GET") != 0) {
            switches->drop_times--;
            drop = true;
        }
    }
    if (server->verbose)
        fprintf(stderr, "%s: %s " STR_FMT " %d%s%s\n", server->service->name, call->method,
                STR_ARG(call->path), answer.status, replayed ? " (replayed)" : "",
                drop ? " (answer dropped)" : "");
    send_answer(server, request, &answer, switches->slow_ms, drop);
}

static const char *method_name(struct evhttp_request *request)
{
    switch (evhttp_request_get_command(request)) {
    case EVHTTP_REQ_GET: return "GET";
    case EVHTTP_REQ_POST: return "POST";
    case EVHTTP_REQ_PUT: return "PUT";
    case EVHTTP_REQ_DELETE: return "DELETE";
    default: return "";
    }
}

static int body_read(struct evhttp_request *request, struct call *call, struct err *err)
{
    struct evbuffer *input = evhttp_request_get_input_buffer(request);
    size_t len = evbuffer_get_length(input);
    if (!len)
        return 0;
    char *text = arena_alloc(call->arena, len + 1);
    evbuffer_remove(input, text, len);
    return json_parse((struct str){text, len}, call->arena, &call->body, err);
}

static void path_read(struct evhttp_request *request, struct call *call)
{
    const struct evhttp_uri *uri = evhttp_request_get_evhttp_uri(request);
    const char *path = evhttp_uri_get_path(uri), *query = evhttp_uri_get_query(uri);
    size_t len = 0;
    char *decoded = evhttp_uridecode(path ? path : "", 0, &len);
    call->path = arena_str(call->arena, (struct str){decoded ? decoded : "", len});
    free(decoded);
    struct evkeyvalq params;
    if (query && evhttp_parse_query_str(query, &params) == 0) {
        call->query_key = arena_str(call->arena, str_z(evhttp_find_header(&params, "key")));
        evhttp_clear_headers(&params);
    }
}

static void request_came(struct evhttp_request *request, void *arg)
{
    struct server *server = arg;
    struct arena arena = {0};
    struct call call = {
        .method = method_name(request), .arena = &arena, .effects = server->effects};
    struct answer answer = {.status = 200};
    struct err err;
    path_read(request, &call);
    if (body_read(request, &call, &err) != 0) {
        service_refuse(&call, &answer, 400, "malformed_json", err.text);
        send_answer(server, request, &answer, 0, false);
    } else if (str_eq_z(call.path, "/ledger")) {
        answer.body = effects_json(server->effects, &arena);
        send_answer(server, request, &answer, 0, false);
    } else if (str_eq_z(call.path, "/switches")) {
        if (strcmp(call.method, "PUT") == 0)
            switches_set(&server->switches, call.body);
        answer.body = switches_json(&server->switches, &arena);
        send_answer(server, request, &answer, 0, false);
    } else {
        serve(server, request, &call);
    }
    arena_free(&arena);
}

/* --- the process --- */

static void usage(const struct service *service, FILE *out)
{
    fprintf(out,
            "usage: %s --ledger FILE [--port N] [switches]\n"
            "  --ledger FILE   where effects are kept\n"
            "  --port N        on 127.0.0.1; 0 takes a free one; default %d\n"
            "  --verbose       a line per request on stderr\n"
            "switches, also to be changed while it runs with PUT /switches:\n"
            "  --slow MS                              answer late\n"
            "  --drop N                               do the work, lose the answer, N times\n"
            "  --fail STATUS[:TIMES[:RETRY_AFTER]]    do nothing and say so\n"
            "  --refuse STATUS:CODE[:FIELD=VALUE]     FIELD is one of the body, or `path`\n"
            "  --keyless                              ignore idempotency keys\n",
            service->name, service->port);
}

/* The form of a flag's value is turned into that of PUT /switches. */
static bool switch_flag(struct switches *switches, int flag, const char *value)
{
    char code[64] = "", field[64] = "", wanted[128] = "";
    long long number = 0, times = -1, retry_after = -1;
    struct arena scratch = {0};
    struct str text = STR_NONE;
    const struct json *json;
    struct err err;
    if (flag == 's' && sscanf(value, "%lld", &number) == 1)
        text = arena_printf(&scratch, "{\"slow_ms\":%lld}", number);
    else if (flag == 'd' && sscanf(value, "%lld", &number) == 1)
        text = arena_printf(&scratch, "{\"drop\":%lld}", number);
    else if (flag == 'k')
        text = STR("{\"keyless\":true}");
    else if (flag == 'f' && sscanf(value, "%lld:%lld:%lld", &number, &times, &retry_after) >= 1)
        text = arena_printf(&scratch,
                            "{\"fail\":{\"status\":%lld,\"times\":%lld,\"retry_after\":%lld}}",
                            number, times < 0 ? (long long)FOREVER : times, retry_after);
    else if (flag == 'r' &&
             sscanf(value, "%lld:%63[^:]:%63[^=]=%127[^\n]", &number, code, field, wanted) >= 2)
        text = arena_printf(&scratch,
                            field[0] ? "{\"refuse\":{\"status\":%lld,\"code\":\"%s\","
                                       "\"field\":\"%s\",\"value\":\"%s\"}}"
                                     : "{\"refuse\":{\"status\":%lld,\"code\":\"%s\"}}",
                            number, code, field, wanted);
    bool fits = text.ptr && json_parse(text, &scratch, &json, &err) == 0;
    if (fits)
        switches_set(switches, json);
    arena_free(&scratch);
    return fits;
}

static int listen_on(struct server *server, int port)
{
    struct sockaddr_in address = {0};
    socklen_t len = sizeof(address);
    server->base = event_base_new();
    server->http = evhttp_new(server->base);
    evhttp_set_allowed_methods(server->http, EVHTTP_REQ_GET | EVHTTP_REQ_POST | EVHTTP_REQ_PUT |
                                                 EVHTTP_REQ_DELETE);
    evhttp_set_max_body_size(server->http, 1024 * 1024);
    evhttp_set_max_headers_size(server->http, 64 * 1024);
    evhttp_set_gencb(server->http, request_came, server);
    struct evhttp_bound_socket *bound =
        evhttp_bind_socket_with_handle(server->http, "127.0.0.1", (uint16_t)port);
    if (!bound) {
        fprintf(stderr, "%s: could not listen on port %d: %s\n", server->service->name, port,
                strerror(errno));
        return 1;
    }
    getsockname(evhttp_bound_socket_get_fd(bound), (struct sockaddr *)&address, &len);
    printf("%s: http://127.0.0.1:%d\n", server->service->name, ntohs(address.sin_port));
    fflush(stdout);
    return 0;
}

static void stop(evutil_socket_t fd, short what, void *base)
{
    (void)fd, (void)what;
    event_base_loopbreak(base);
}

static int run(struct server *server, int port)
{
    int code = listen_on(server, port);
    struct event *term = evsignal_new(server->base, SIGTERM, stop, server->base);
    struct event *interrupt = evsignal_new(server->base, SIGINT, stop, server->base);
    signal(SIGPIPE, SIG_IGN);
    event_add(term, NULL);
    event_add(interrupt, NULL);
    if (!code)
        event_base_dispatch(server->base);
    event_free(term);
    event_free(interrupt);
    evhttp_free(server->http);
    event_base_free(server->base);
    return code;
}

int service_main(const struct service *service, int argc, char **argv)
{
    static const struct option options[] = {
        {"port", required_argument, NULL, 'p'}, {"ledger", required_argument, NULL, 'l'},
        {"slow", required_argument, NULL, 's'}, {"drop", required_argument, NULL, 'd'},
        {"fail", required_argument, NULL, 'f'}, {"refuse", required_argument, NULL, 'r'},
        {"keyless", no_argument, NULL, 'k'},    {"verbose", no_argument, NULL, 'v'},
        {"help", no_argument, NULL, 'h'},       {0},
    };
    struct server server = {.service = service};
    const char *ledger = NULL;
    struct err err;
    int port = service->port, flag;
    while ((flag = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (flag == 'h') {
            usage(service, stdout);
            return 0;
        } else if (flag == 'p') {
            port = atoi(optarg);
        } else if (flag == 'l') {
            ledger = optarg;
        } else if (flag == 'v') {
            server.verbose = true;
        } else if (flag == '?' || !switch_flag(&server.switches, flag, optarg)) {
            usage(service, stderr);
            return 2;
        }
    }
    if (!ledger || optind < argc || port < 0 || port > 65535) {
        usage(service, stderr);
        return 2;
    }
    if (effects_open(ledger, &server.effects, &err) != 0) {
        fprintf(stderr, "%s: %s\n", service->name, err.text);
        return 1;
    }
    int code = run(&server, port);
    effects_close(server.effects);
    arena_free(&server.switches.arena);
    return code;
}
