/*
 * control.h: HTTP/1.1 over the control socket: transport, identity and limits. What the requests
 * mean is in api.h.
 *
 * The socket is made with mode 0660 before anything can connect. A socket file that nobody listens
 * on is replaced; anything else in its place is refused and left alone. Who is calling is what the
 * kernel says (SO_PEERCRED), never what the caller says.
 */
#ifndef ENGINE_CONTROL_H
#define ENGINE_CONTROL_H

#include "engine/base/json.h"
#include "engine/loop.h"

#include <sys/types.h>

#define CONTROL_BODY_BYTES_MAX (2 * 1024 * 1024) /* an input of 1 MiB with everything around it */
#define CONTROL_HEADERS_BYTES_MAX (32 * 1024)
#define CONTROL_CONNECTIONS_MAX 512
#define CONTROL_IDLE_S 60
#define CONTROL_GROUPS_MAX 1024
/* Besides, no more connections are taken while a quarter of the process's descriptors or less is
 * left: they are for the runs. Clients wait then. */

struct control;
struct control_request; /* one request, alive until it was answered */

enum control_method { CONTROL_GET, CONTROL_POST, CONTROL_PUT, CONTROL_OTHER };

/* Errors: ERR_CONFLICT (another process listens, or something else stands there), ERR_IO,
 * ERR_INVALID (path too long). `handle` is called for each request and must see to it that it is
 * answered exactly once, now or later. */
MUST_USE int control_open(struct loop *loop, const char *path,
                          void (*handle)(void *arg, struct control_request *request), void *arg,
                          struct control **out, struct err *err);
/* The same over TCP, without any identity: whoever can connect is heard, so `handle` must not do
 * more than anybody may see. `address` is "PORT" (of 127.0.0.1), "HOST:PORT" with a numeric host,
 * or
 * "[V6]:PORT". Errors: ERR_INVALID, ERR_IO. */
MUST_USE int control_open_tcp(struct loop *loop, const char *address,
                              void (*handle)(void *arg, struct control_request *request), void *arg,
                              struct control **out, struct err *err);
/* Takes no new connections; open ones stay for their answers. Removes the socket file. */
void control_stop(struct control *control);
void control_close(struct control *control); /* NULL is allowed */

/* --- a request --- */
enum control_method control_method(const struct control_request *request);
/* Decoded path without the query, e.g. "/v1/runs/order-1". */
struct str control_path(const struct control_request *request);
/* Query parameter, percent-decoded; NULL: not given. */
const char *control_query(const struct control_request *request, const char *name);
const char *control_header(const struct control_request *request, const char *name);
struct str control_body(const struct control_request *request);
uid_t control_uid(const struct control_request *request);
/* All groups of the caller; beyond CONTROL_GROUPS_MAX only the primary one is told. */
const gid_t *control_groups(const struct control_request *request, size_t *count);
/* "uid:1000": what is stored as the actor. */
struct str control_actor(const struct control_request *request);
/* The tenants whose runs the caller may look at and touch, a JSON list; NULL: of all. Whoever finds
 * out who the caller is sets it, borrowed until the request is answered. */
const char *control_tenants(const struct control_request *request);
void control_tenants_set(struct control_request *request, const char *tenants);
/* Lives until the request is answered. */
struct arena *control_arena(struct control_request *request);

/* Called once if the client goes away before the answer; the request must then still be answered
 * (the answer goes nowhere). */
void control_on_gone(struct control_request *request, void (*gone)(void *arg), void *arg);

/* --- answers: each frees the request --- */
void control_header_set(struct control_request *request, const char *name, const char *value);
void control_reply(struct control_request *request, int status, struct str json);
void control_reply_text(struct control_request *request, int status, const char *type,
                        struct str text);
/* application/problem+json (RFC 9457); `errors` may be NULL. */
void control_problem(struct control_request *request, int status, const char *code,
                     const struct json *errors, const char *fmt, ...) PRINTF_LIKE(5, 6);
/* Server-sent events: begin, any number of events, end. */
void control_stream_begin(struct control_request *request);
void control_stream_event(struct control_request *request, struct str id, struct str data);
void control_stream_end(struct control_request *request);

#endif
