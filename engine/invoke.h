/*
 * invoke.h: one port for all kinds of actions.
 *
 * Sends each invocation to the invoker of its kind (HTTP by way of invoke_oauth.h), and lets no
 * reply pass that still holds a secret: error line, headers, body and standard error are masked
 * (secrets.h) before the runner, and with it everything that stores, sees them.
 */
#ifndef ENGINE_INVOKE_H
#define ENGINE_INVOKE_H

#include "engine/loop.h"
#include "engine/port.h"
#include "engine/secrets.h"

struct invoke_options {
    struct loop *loop;
    struct secrets *secrets; /* may be NULL; lives as long as the invoker; gets access tokens */
    /* Where replies go: the runner's inbox. `reply` is borrowed until it returns. Never called
     * from inside start, drop or drain. */
    void (*reply)(void *arg, uint64_t invocation_id, const struct reply *reply);
    void *reply_arg;

    /* HTTP: see invoke_http.h. */
    bool (*may_send)(void *arg);
    void *may_send_arg;
    const char *(*url)(void *arg, const char *service);
    void *url_arg;
    int64_t connect_timeout_us;
    unsigned transfers_max;
    const char *ca_file;
    const struct egress *egress; /* borrowed */

    /* exec: see invoke_exec.h. */
    const char *exec_directory;
    unsigned exec_children_max;
};

struct invoke;

struct invoke *invoke_new(const struct invoke_options *options); /* copied */
void invoke_free(struct invoke *invoke);                         /* NULL is allowed */

/* Borrowed; lives as long as `invoke`. What has no invoker is answered with REPLY_CANNOT_SEND. */
const struct port_invoke *invoke_port(struct invoke *invoke);

/* Adds the invoker of another kind; `port` is copied. It hands its replies to invoke_reply. */
void invoke_register(struct invoke *invoke, enum action_kind kind, const struct port_invoke *port);
/* For registered invokers: masks the reply and passes it on. `invoke` is a struct invoke. */
void invoke_reply(void *invoke, uint64_t invocation_id, const struct reply *reply);

/* Nothing new is sent over HTTP or by exec from now on: what waits, and what is started later, is
 * answered with REPLY_NOT_SENT. What is under way is awaited, or with `cut` ended now. Registered
 * invokers are drained by whoever registered them. */
void invoke_drain(struct invoke *invoke, bool cut);
/* HTTP and exec invocations that are not answered yet. */
size_t invoke_busy(const struct invoke *invoke);

#endif
