/*
 * ctl_conform_send.c: requests of a step, rendered, sent and judged without a daemon.
 */
#include "engine/ctl_conform.h"

#include "dsl/jsonschema.h"
#include "engine/http_request.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define SETTLE_TRIES 20
#define SETTLE_PAUSE_US (500 * MS_US)

/* --- subjects -------------------------------------------------------------------------------- */

static void effect_put(struct run *run, uint16_t step, uint32_t claim_no, struct str output)
{
    struct run_record record = {
        .kind = RECORD_CLAIM,
        .effect = {
            .ref = {.step = step, .item = STR(""), .direction = DIRECTION_EXECUTE, .generation = 1},
            .state = {.state = STEP_APPLIED,
                      .generation = 1,
                      .claim_no = claim_no,
                      .attempts = 1,
                      .outcome = OUTCOME_APPLIED,
                      .claimed_at = run->start.created_at,
                      .ended_at = run->start.created_at,
                      .output = output}}};
    run_apply(run, &record);
}

/* The input for the n-th subject: every `{n}` becomes six digits that were not used lately. */
static struct str input_of(const struct conform *conform, unsigned number)
{
    struct buf text = {0};
    struct str input = conform->input;
    unsigned n = (unsigned)(ctl_now().us / SECOND_US * 16 + number) % 1000000;
    for (size_t i = 0; i < input.len; i++) {
        if (input.len - i >= 3 && memcmp(input.ptr + i, "{n}", 3) == 0) {
            buf_printf(&text, "%06u", n);
            i += 2;
        } else {
            buf_add_char(&text, input.ptr[i]);
        }
    }
    struct str out = arena_str(conform->arena, buf_str(&text));
    buf_free(&text);
    return out;
}

int conform_subject_new(struct conform *conform, struct conform_subject *out, struct err *err)
{
    const struct plan *plan = conform->plan;
    unsigned number = ++conform->subjects;
    struct str id = arena_printf(conform->arena, "%s-%u", conform->prefix, number);
    struct run_record start = {
        .kind = RECORD_START,
        .start = {.actor = STR("conform"),
                  .input = input_of(conform, number),
                  .created_at = ctl_now(),
                  .deadline_at = wall_add(ctl_now(), plan->deadline_us ? plan->deadline_us
                                                                       : 600 * SECOND_US)}};
    const struct json *input;
    struct schema_errors errors = {0};
    *out = (struct conform_subject){0};
    if (json_parse(start.start.input, conform->arena, &input, err) != 0)
        return err_wrap(err, "the input");
    if (plan->input && !schema_check(plan->input, input, conform->arena, &errors))
        return err_set(err, ERR_INVALID,
                       "the input does not fit the workflow: " STR_FMT " " STR_FMT,
                       STR_ARG(errors.list[0].pointer), STR_ARG(errors.list[0].message));
    out->run = run_new(plan, id);
    run_apply(out->run, &start);
    for (uint16_t i = 0; i < plan->steps_count; i++)
        if (i != conform->step->index && !plan->steps[i].for_each)
            effect_put(out->run, i, i + 1u, conform->outputs[i]);
    return 0;
}

void conform_subject_free(struct conform_subject *subject)
{
    run_free(subject->run);
    subject->run = NULL;
}

void conform_subject_apply(struct conform_subject *subject, const struct conform *conform,
                           struct str output)
{
    subject->applied = true;
    effect_put(subject->run, conform->step->index, conform->plan->steps_count + 1u, output);
}

/* --- rendering ------------------------------------------------------------------------------- */

static struct render render_of(const struct conform *conform, const struct conform_subject *subject,
                               bool undo)
{
    return (struct render){.run = subject->run,
                           .instance = run_instance(subject->run, conform->step->index, STR("")),
                           .direction = undo ? DIRECTION_COMPENSATE : DIRECTION_EXECUTE,
                           .generation = 1,
                           .now = subject->run->start.created_at,
                           .env = conform->env};
}

int conform_render(const struct conform *conform, const struct conform_subject *subject, bool undo,
                   struct rendered *out, struct err *err)
{
    struct render render = render_of(conform, subject, undo);
    return render_action(&render, conform->arena, out, err);
}

static struct invocation invocation_of(const struct conform *conform,
                                       const struct conform_subject *subject, bool undo,
                                       const struct rendered *rendered)
{
    return (struct invocation){.plan = conform->plan,
                               .request = &rendered->request,
                               .run_id = subject->run->id,
                               .step = rendered->instance,
                               .key = rendered->key_sent,
                               .compensates = rendered->compensates,
                               .direction = undo ? DIRECTION_COMPENSATE : DIRECTION_EXECUTE,
                               .attempt = 1,
                               .timeout_us = conform->timeout_us,
                               .deadline_at = wall_add(ctl_now(), conform->timeout_us),
                               .fresh_connection = true};
}

/* --- sending --------------------------------------------------------------------------------- */

static void on_reply(void *arg, uint64_t id, const struct reply *reply)
{
    struct conform *conform = arg;
    struct arena *arena = conform->arena;
    if (id < conform->first_id)
        return;
    struct conform_answer *answer = &conform->waiting[id - conform->first_id];
    struct request_pair *headers =
        arena_array(arena, struct request_pair, (size_t)reply->headers_count + 1);
    answer->came = true;
    answer->reply = *reply;
    answer->reply.error = arena_str(arena, reply->error);
    if (reply->body.ptr)
        answer->reply.body = arena_str(arena, reply->body);
    for (uint16_t i = 0; i < reply->headers_count; i++)
        headers[i] = (struct request_pair){arena_str(arena, reply->headers[i].name),
                                           arena_str(arena, reply->headers[i].value)};
    answer->reply.headers = headers;
    conform->missing--;
}

static const char *url_of(void *arg, const char *service)
{
    const struct conform *conform = arg;
    (void)service;
    return conform->url;
}

int conform_open(struct conform *conform, struct err *err)
{
    if (loop_open(&conform->loop, err) != 0)
        return err->code;
    conform->next_id = 1;
    conform->invoke = invoke_new(&(struct invoke_options){.loop = conform->loop,
                                                          .secrets = conform->secrets,
                                                          .url = url_of,
                                                          .url_arg = conform,
                                                          .reply = on_reply,
                                                          .reply_arg = conform});
    return 0;
}

void conform_close(struct conform *conform)
{
    invoke_free(conform->invoke);
    loop_close(conform->loop);
}

void conform_send(struct conform *conform, const struct conform_subject *subject, bool undo,
                  const struct rendered *rendered, unsigned count, struct conform_answer *answers)
{
    const struct port_invoke *port = invoke_port(conform->invoke);
    const struct plan_action *action = rendered->request.action;
    struct render render = render_of(conform, subject, undo);
    struct expr_scope scope;
    struct err err;
    memset(answers, 0, count * sizeof(*answers));
    conform->waiting = answers;
    conform->first_id = conform->next_id;
    conform->missing = count;
    for (unsigned i = 0; i < count; i++) {
        struct invocation invocation = invocation_of(conform, subject, undo, rendered);
        invocation.id = conform->next_id++;
        port->start(port->arg, &invocation);
    }
    while (conform->missing)
        loop_turn(conform->loop, 100 * MS_US);
    int code = render_scope(&render, conform->arena, &scope, &err);
    ASSERT(code == 0); /* it was rendered with the same one */
    for (unsigned i = 0; i < count; i++)
        outcome_judge(action, &answers[i].reply, &scope, conform->arena, &answers[i].verdict);
}

struct conform_answer conform_settle(struct conform *conform, const struct conform_subject *subject,
                                     bool undo, const struct rendered *rendered)
{
    struct conform_answer answer;
    for (unsigned tries = 0; tries < SETTLE_TRIES; tries++) {
        conform_send(conform, subject, undo, rendered, 1, &answer);
        if (answer.verdict.outcome != OUTCOME_RETRYABLE &&
            answer.verdict.outcome != OUTCOME_IN_PROGRESS)
            break;
        loop_turn(conform->loop, 0);
        usleep(SETTLE_PAUSE_US);
    }
    return answer;
}

/* --- a connection that is cut ---------------------------------------------------------------- */

struct address {
    char host[256], port[8];
    struct str path; /* of the base URL; "" = none */
};

static bool address_of(const char *url, struct address *out)
{
    const char *host = url + 7, *end;
    if (strncmp(url, "http://", 7) != 0)
        return false;
    size_t authority = strcspn(host, "/");
    out->path = str_z(host + authority);
    end = memrchr(host, ':', authority);
    if (end && memchr(end, ']', authority - (size_t)(end - host)))
        end = NULL; /* inside an IPv6 address */
    size_t len = end ? (size_t)(end - host) : authority;
    bool bracketed = len > 2 && host[0] == '[';
    snprintf(out->host, sizeof(out->host), "%.*s", (int)(bracketed ? len - 2 : len),
             bracketed ? host + 1 : host);
    snprintf(out->port, sizeof(out->port), "%.*s", end ? (int)(authority - len - 1) : 2,
             end ? end + 1 : "80");
    return true;
}

static int address_connect(const struct address *address, struct err *err)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found = NULL;
    struct timeval limit = {.tv_sec = 5};
    int code = getaddrinfo(address->host, address->port, &hints, &found), fd = -1;
    if (code) {
        err_set(err, ERR_UNAVAILABLE, "%s: %s", address->host, gai_strerror(code));
        return -1;
    }
    for (struct addrinfo *at = found; at && fd < 0; at = at->ai_next) {
        fd = socket(at->ai_family, at->ai_socktype | SOCK_CLOEXEC, at->ai_protocol);
        if (fd < 0)
            continue;
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
        if (connect(fd, at->ai_addr, at->ai_addrlen) != 0) {
            close(fd);
            fd = -1;
        }
    }
    freeaddrinfo(found);
    if (fd < 0)
        err_set(err, ERR_UNAVAILABLE, "could not connect to %s:%s: %s", address->host,
                address->port, strerror(errno));
    return fd;
}

static void request_write(const struct http_request *request, const struct address *address,
                          struct buf *out)
{
    buf_printf(out, "%s " STR_FMT "%s HTTP/1.1\r\nHost: %s:%s\r\nConnection: close\r\n",
               request->method, STR_ARG(address->path), request->path, address->host,
               address->port);
    for (uint16_t i = 0; i < request->headers_count; i++)
        buf_printf(out, STR_FMT ": " STR_FMT "\r\n", STR_ARG(request->headers[i].name),
                   STR_ARG(request->headers[i].value));
    buf_printf(out, "Content-Length: %zu\r\n\r\n", request->body.len);
    if (request->body.len)
        buf_add_str(out, request->body);
}

int conform_cut(struct conform *conform, const struct conform_subject *subject,
                const struct rendered *rendered, struct err *err)
{
    struct invocation invocation = invocation_of(conform, subject, false, rendered);
    struct http_request request;
    struct address address;
    struct buf text = {0};
    size_t sent = 0;
    if (rendered->request.service->auth == AUTH_OAUTH2)
        return err_set(err, ERR_INVALID, "with OAuth 2 the connection cannot be cut here");
    if (!address_of(conform->url, &address))
        return err_set(err, ERR_INVALID, "only over http:// can the connection be cut");
    int code = http_request_render(&invocation, conform->secrets, conform->arena, &request, err);
    if (code)
        return code;
    int fd = address_connect(&address, err);
    if (fd < 0)
        return err->code;
    request_write(&request, &address, &text);
    while (sent < text.len) {
        ssize_t now = send(fd, text.data + sent, text.len - sent, MSG_NOSIGNAL);
        if (now <= 0)
            break;
        sent += (size_t)now;
    }
    close(fd);
    bool whole = sent == text.len;
    explicit_bzero(text.data, text.len); /* it may hold a token */
    buf_free(&text);
    return whole ? 0 : err_set(err, ERR_UNAVAILABLE, "the connection was closed while sending");
}
