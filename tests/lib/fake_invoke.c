#include "tests/lib/fake_invoke.h"

#include <dirent.h>
#include <stdarg.h>
#include <stdio.h>

static void call_init(struct fake_call *call, enum action_kind kind)
{
    *call = (struct fake_call){0};
    call->action.kind = kind;
    call->request.action = &call->action;
    call->request.headers = call->headers;
    call->request.args = call->args;
    call->invocation = (struct invocation){
        .request = &call->request,
        .run_id = STR("order-1"),
        .step = STR("charge"),
        .key = STR("order-1:charge:execute"),
        .direction = DIRECTION_EXECUTE,
        .attempt = 1,
        .timeout_us = 5 * SECOND_US,
    };
}

void fake_http(struct fake_call *call, const char *url, const char *path)
{
    call_init(call, ACTION_HTTP);
    call->service = (struct plan_service){.name = "payments", .url = url};
    call->action.http.method = HTTP_POST;
    call->action.http.body_kind = BODY_JSON;
    call->request.service = &call->service;
    call->request.target = str_z(path);
    call->request.body = STR("{\"amount_cents\":4200}");
    fake_header(call, STR("Content-Type"), STR("application/json"));
}

void fake_exec(struct fake_call *call, const char *program, ...)
{
    va_list args;
    call_init(call, ACTION_EXEC);
    va_start(args, program);
    for (const char *arg = program; arg; arg = va_arg(args, const char *))
        call->args[call->request.args_count++] = str_z(arg);
    va_end(args);
}

void fake_header(struct fake_call *call, struct str name, struct str value)
{
    ASSERT(call->request.headers_count < ARRAY_LEN(call->headers));
    call->headers[call->request.headers_count++] = (struct request_pair){name, value};
}

uint64_t fake_start(struct fake_call *call, const struct port_invoke *port)
{
    static uint64_t last;
    call->request.action = &call->action;
    call->request.headers = call->headers;
    call->request.args = call->args;
    call->invocation.request = &call->request;
    if (call->action.kind == ACTION_HTTP)
        call->request.service = &call->service;
    call->invocation.id = ++last;
    port->start(port->arg, &call->invocation);
    return last;
}

void fake_replies_add(void *arg, uint64_t id, const struct reply *reply)
{
    struct fake_replies *replies = arg;
    struct arena *arena = &replies->arena;
    ASSERT(replies->count < ARRAY_LEN(replies->list));
    for (size_t i = 0; i < replies->count; i++)
        ASSERT(replies->list[i].id != id); /* answered exactly once */
    struct fake_reply *kept = &replies->list[replies->count++];
    struct request_pair *headers = arena_array(arena, struct request_pair, reply->headers_count);
    for (uint16_t i = 0; i < reply->headers_count; i++)
        headers[i] = (struct request_pair){arena_str(arena, reply->headers[i].name),
                                           arena_str(arena, reply->headers[i].value)};
    *kept = (struct fake_reply){id, *reply, loop_mono()};
    kept->reply.headers = headers;
    kept->reply.error = arena_str(arena, reply->error);
    kept->reply.body = arena_str(arena, reply->body);
    kept->reply.stderr_text = arena_str(arena, reply->stderr_text);
}

void fake_replies_free(struct fake_replies *replies)
{
    arena_free(&replies->arena);
}

bool fake_replies_wait(struct fake_replies *replies, size_t count, int64_t limit_us)
{
    struct mono begun = loop_mono();
    while (replies->count < count) {
        int64_t left_us = begun.us + limit_us - loop_mono().us;
        if (left_us <= 0)
            return false;
        loop_turn(replies->loop, left_us);
    }
    return true;
}

void fake_idle(struct loop *loop, int64_t for_us)
{
    struct mono begun = loop_mono();
    for (int64_t left_us = for_us; left_us > 0; left_us = begun.us + for_us - loop_mono().us)
        loop_turn(loop, left_us);
}

const struct reply *fake_reply_to(struct fake_replies *replies, uint64_t id)
{
    struct mono begun = loop_mono();
    for (;;) {
        for (size_t i = 0; i < replies->count; i++)
            if (replies->list[i].id == id)
                return &replies->list[i].reply;
        ASSERT(loop_mono().us - begun.us < 30 * SECOND_US);
        loop_turn(replies->loop, 100 * MS_US);
    }
}

struct str fake_reply_header(const struct reply *reply, const char *name)
{
    for (uint16_t i = 0; i < reply->headers_count; i++)
        if (str_eq_z(reply->headers[i].name, name))
            return reply->headers[i].value;
    return STR_NONE;
}

unsigned fake_open_files(void)
{
    unsigned count = 0;
    DIR *dir = opendir("/proc/self/fd");
    ASSERT(dir);
    while (readdir(dir))
        count++;
    closedir(dir);
    return count - 3; /* ".", ".." and the one of opendir */
}
