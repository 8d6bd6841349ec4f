/*
 * invoke_http.h: sends HTTP actions, with libcurl on the event loop.
 *
 * What it guarantees:
 *
 *  - One invocation is at most one request on the wire. libcurl would repeat a request by itself
 *    when a reused connection dies before the first byte of the answer; that is caught and
 *    reported as REPLY_NO_ANSWER, because only the engine decides on a repeat.
 *  - "Certainly not sent" (REPLY_CANNOT_SEND, REPLY_NOT_CONNECTED, REPLY_LOCAL_SHORTAGE,
 *    REPLY_NOT_SENT) is only said when no byte of the request was handed to a connection.
 *  - The host comes from the service's URL alone; paths, headers and answers cannot change it. No
 *    redirects, no proxies, no .netrc, no cookies.
 *  - Every connection is judged by its address before it is made (egress.h). An address that may
 *    not be connected to is REPLY_NOT_CONNECTED, because the name may lead elsewhere the next time,
 *    and REPLY_CANNOT_SEND where the URL itself names that address.
 *  - Every invocation is answered exactly once, never from inside start, within its time limit
 *    plus the loop's own delay.
 *  - Answers are bounded (BODY_BYTES_MAX, HEADERS_BYTES_MAX); what is larger keeps its status.
 *
 * What it does not do: judge an answer (engine/outcome.h), retry, mask secrets (invoke.h).
 *
 * Time: the limit of an invocation runs from its start, also while it waits for a connection; it
 * then ends as REPLY_LOCAL_SHORTAGE.
 */
#ifndef ENGINE_INVOKE_HTTP_H
#define ENGINE_INVOKE_HTTP_H

#include "engine/egress.h"
#include "engine/loop.h"
#include "engine/port.h"
#include "engine/secrets.h"

/* An easy handle of libcurl takes about 21 KB. */
#define HTTP_TRANSFERS_MAX 1024
/* Connections of one multi handle: its cost per event grows with them. */
#define HTTP_LANE_TRANSFERS_MAX 16

struct invoke_http_options {
    struct loop *loop;
    const struct secrets *secrets; /* may be NULL: no secret is known */
    /* The base URL of a service as the daemon's config has it; NULL: the workflow's. Optional. */
    const char *(*url)(void *arg, const char *service);
    void *url_arg;
    int64_t connect_timeout_us;  /* 0: 5 s; name lookup, connect and TLS together */
    unsigned transfers_max;      /* 0: half of the descriptors, at most HTTP_TRANSFERS_MAX */
    const char *ca_file;         /* NULL: the system's certificates */
    const struct egress *egress; /* borrowed; NULL: the defaults */
    /* Asked in the last moment before a request goes out; false: REPLY_NOT_SENT. NULL: always. A
     * process that stood still while it connected comes here first when it goes on. */
    bool (*may_send)(void *arg);
    void *may_send_arg;
    /* `reply` is borrowed until it returns. */
    void (*reply)(void *arg, uint64_t invocation_id, const struct reply *reply);
    void *reply_arg;
};

struct invoke_http;

struct invoke_http *invoke_http_new(const struct invoke_http_options *options); /* copied */
/* What is not answered then is never answered. */
void invoke_http_free(struct invoke_http *http); /* NULL is allowed */

/* Borrowed; lives as long as `http`. */
const struct port_invoke *invoke_http_port(struct invoke_http *http);

/* From now on nothing new is sent: what waits, and what is started later, is answered with
 * REPLY_NOT_SENT. With `cut`, transfers under way end now too. Answers come by the loop. */
void invoke_http_drain(struct invoke_http *http, bool cut);
/* Invocations that are not answered yet. */
size_t invoke_http_busy(const struct invoke_http *http);

#endif
