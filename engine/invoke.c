#include "engine/invoke.h"

#include "engine/failpoint.h"
#include "engine/invoke_exec.h"
#include "engine/invoke_http.h"
#include "engine/invoke_oauth.h"

#include <stdlib.h>

#define KINDS_MAX 9
_Static_assert(ACTION_WAIT_FOR < KINDS_MAX, "a port for every kind of action");

/* An invocation of a kind that nobody serves. */
struct orphan {
    struct loop_call call;
    struct orphan *next;
    struct invoke *invoke;
    uint64_t id;
    enum action_kind kind;
};

struct invoke {
    unsigned magic;
    struct invoke_options options;
    struct port_invoke port;
    struct port_invoke ports[KINDS_MAX]; /* by kind; start is NULL: none */
    struct invoke_http *http;
    struct invoke_oauth *oauth;
    struct invoke_exec *exec;
    struct orphan *orphans;
    struct arena scratch; /* masked texts of one reply */
};

#define INVOKE_MAGIC 0x696e766f

static void orphan_answer(void *arg)
{
    struct orphan *orphan = arg;
    struct invoke *invoke = orphan->invoke;
    struct wall now = loop_wall(invoke->options.loop);
    struct orphan **at = &invoke->orphans;
    struct reply reply = {.kind = REPLY_CANNOT_SEND, .sent_at = now, .ended_at = now};
    reply.error = arena_printf(&invoke->scratch, "%s actions are not available here",
                               action_kind_name(orphan->kind));
    while (*at != orphan)
        at = &(*at)->next;
    *at = orphan->next;
    uint64_t id = orphan->id;
    free(orphan);
    invoke_reply(invoke, id, &reply);
}

static void start(void *arg, const struct invocation *invocation)
{
    struct invoke *invoke;
    CAST_OBJ(invoke, arg, INVOKE_MAGIC);
    enum action_kind kind = invocation->request->action->kind;
    ASSERT(kind > ACTION_NONE && kind < KINDS_MAX);
    const struct port_invoke *port = &invoke->ports[kind];
    FAILPOINT("invoke_start");
    if (port->start) {
        port->start(port->arg, invocation);
        FAILPOINT("invoke_started");
        return;
    }
    struct orphan *orphan = xcalloc(1, sizeof(*orphan));
    orphan->invoke = invoke;
    orphan->id = invocation->id;
    orphan->kind = kind;
    orphan->next = invoke->orphans;
    invoke->orphans = orphan;
    loop_defer(invoke->options.loop, &orphan->call, orphan_answer, orphan);
}

/* An id names one invocation in the whole process; invokers pass over ids they do not know. */
static void drop(void *arg, uint64_t invocation_id)
{
    struct invoke *invoke;
    CAST_OBJ(invoke, arg, INVOKE_MAGIC);
    for (size_t i = 0; i < KINDS_MAX; i++)
        if (invoke->ports[i].drop)
            invoke->ports[i].drop(invoke->ports[i].arg, invocation_id);
}

static void leave(void *arg, uint64_t invocation_id)
{
    struct invoke *invoke;
    CAST_OBJ(invoke, arg, INVOKE_MAGIC);
    for (size_t i = 0; i < KINDS_MAX; i++) {
        const struct port_invoke *port = &invoke->ports[i];
        if (port->leave)
            port->leave(port->arg, invocation_id);
        else if (port->drop)
            port->drop(port->arg, invocation_id);
    }
}

void invoke_reply(void *arg, uint64_t invocation_id, const struct reply *reply)
{
    struct invoke *invoke;
    CAST_OBJ(invoke, arg, INVOKE_MAGIC);
    const struct secrets *secrets = invoke->options.secrets;
    struct arena *scratch = &invoke->scratch;
    struct reply masked = *reply;
    masked.error = secrets_mask(secrets, reply->error, scratch);
    masked.body = secrets_mask(secrets, reply->body, scratch);
    masked.stderr_text = secrets_mask(secrets, reply->stderr_text, scratch);
    if (secrets && reply->headers_count) {
        struct request_pair *headers =
            arena_array(scratch, struct request_pair, reply->headers_count);
        for (uint16_t i = 0; i < reply->headers_count; i++)
            headers[i] = (struct request_pair){
                reply->headers[i].name, secrets_mask(secrets, reply->headers[i].value, scratch)};
        masked.headers = headers;
    }
    FAILPOINT("invoke_reply");
    invoke->options.reply(invoke->options.reply_arg, invocation_id, &masked);
    FAILPOINT("invoke_replied");
    arena_reset(scratch);
}

static void http_reply(void *arg, uint64_t invocation_id, const struct reply *reply)
{
    struct invoke *invoke = arg;
    invoke_oauth_reply(invoke->oauth, invocation_id, reply);
}

struct invoke *invoke_new(const struct invoke_options *options)
{
    struct invoke *invoke = xcalloc(1, sizeof(*invoke));
    ASSERT(options->loop && options->reply);
    invoke->magic = INVOKE_MAGIC;
    invoke->options = *options;
    invoke->port =
        (struct port_invoke){.arg = invoke, .start = start, .drop = drop, .leave = leave};
    invoke->http = invoke_http_new(&(struct invoke_http_options){
        .loop = options->loop,
        .secrets = options->secrets,
        .may_send = options->may_send,
        .may_send_arg = options->may_send_arg,
        .url = options->url,
        .url_arg = options->url_arg,
        .connect_timeout_us = options->connect_timeout_us,
        .transfers_max = options->transfers_max,
        .ca_file = options->ca_file,
        .egress = options->egress,
        .reply = http_reply,
        .reply_arg = invoke,
    });
    invoke->oauth = invoke_oauth_new(&(struct invoke_oauth_options){
        .loop = options->loop,
        .secrets = options->secrets,
        .http = invoke_http_port(invoke->http),
        .reply = invoke_reply,
        .reply_arg = invoke,
    });
    invoke->exec = invoke_exec_new(&(struct invoke_exec_options){
        .loop = options->loop,
        .secrets = options->secrets,
        .directory = options->exec_directory,
        .children_max = options->exec_children_max,
        .reply = invoke_reply,
        .reply_arg = invoke,
    });
    invoke_register(invoke, ACTION_HTTP, invoke_oauth_port(invoke->oauth));
    invoke_register(invoke, ACTION_EXEC, invoke_exec_port(invoke->exec));
    return invoke;
}

void invoke_register(struct invoke *invoke, enum action_kind kind, const struct port_invoke *port)
{
    ASSERT(kind > ACTION_NONE && kind < KINDS_MAX && !invoke->ports[kind].start);
    invoke->ports[kind] = *port;
}

const struct port_invoke *invoke_port(struct invoke *invoke)
{
    return &invoke->port;
}

void invoke_drain(struct invoke *invoke, bool cut)
{
    invoke_http_drain(invoke->http, cut);
    invoke_exec_drain(invoke->exec, cut);
}

size_t invoke_busy(const struct invoke *invoke)
{
    return invoke_http_busy(invoke->http) + invoke_exec_busy(invoke->exec);
}

void invoke_free(struct invoke *invoke)
{
    if (!invoke)
        return;
    invoke_oauth_free(invoke->oauth);
    invoke_http_free(invoke->http);
    invoke_exec_free(invoke->exec);
    for (struct orphan *next, *orphan = invoke->orphans; orphan; orphan = next) {
        next = orphan->next;
        loop_defer_cancel(invoke->options.loop, &orphan->call);
        free(orphan);
    }
    arena_free(&invoke->scratch);
    invoke->magic = 0;
    free(invoke);
}
