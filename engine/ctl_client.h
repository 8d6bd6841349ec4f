/*
 * ctl_client.h: requests to the daemon over its Unix socket, by libcurl.
 *
 * The only file of sagactl that knows libcurl and sockets. Nothing of the environment takes part
 * (no proxies, no netrc); a request that changes something gets a connection of its own, so that
 * libcurl never sends it twice.
 *
 * Which socket: --socket, else $SAGA_SOCKET, and then only that one. Else the nearest
 * .saga/sagad.sock upwards, $XDG_RUNTIME_DIR/sagad.sock, /run/sagad/sagad.sock: the first that
 * exists. If nobody listens on it the next is not tried: a verb meant for a daemon that is down
 * must not reach another one. A .saga that another user left above us (in /tmp, say) is passed.
 */
#ifndef ENGINE_CTL_CLIENT_H
#define ENGINE_CTL_CLIENT_H

#include "engine/ctl_core.h"

#define CTL_CALL_TIMEOUT_S 30                    /* for an answer, beside what the call waits for */
#define CTL_REPLY_BYTES_MAX (1024 * 1024 * 1024) /* 500 steps with 1 MiB each, and a bit */

struct ctl_request {
    const char *method; /* "GET", "POST", "PUT" */
    struct str path;    /* with query, encoded: see ctl_path */
    struct str body;    /* absent: none */
    const char *content_type;
    int wait_s; /* Prefer: wait=N; 0: none */
};

struct ctl_reply {
    int status;
    struct str body;   /* in ctl->scratch */
    bool is_problem;   /* application/problem+json */
    bool replayed;     /* Idempotency-Replayed: true */
    int retry_after_s; /* 0: not said */
};

/* Opens nothing yet; the socket is chosen at the first call. */
struct ctl_client *ctl_client_new(struct ctl *ctl);
void ctl_client_free(struct ctl_client *client);

/* Any HTTP answer is a success here. Errors: ERR_UNAVAILABLE (no socket, nobody listens: certainly
 * not sent), ERR_PERMISSION (the socket may not be used), ERR_INVALID (too large to send),
 * ERR_TIMEOUT (no answer: what was asked for may have been done), ERR_INTERNAL. */
MUST_USE int ctl_call(struct ctl *ctl, const struct ctl_request *request, struct ctl_reply *out,
                      struct err *err);

/* After an ERR_UNAVAILABLE was said: where was looked, and how to start a daemon. */
void ctl_unreachable_hint(struct ctl *ctl);

/* What the daemon's refusal means: says it on stderr and returns the exit code. */
int ctl_refused(struct ctl *ctl, const struct ctl_reply *reply);

/* GET of a document that must be there: calls, refuses, parses. Returns the exit code after saying
 * what went wrong. `json` may be NULL. */
MUST_USE int ctl_get(struct ctl *ctl, struct str path, struct ctl_reply *reply,
                     const struct json **json);

/* A path with one part that is encoded: ctl_path(ctl, "/v1/runs/", run_id, "/events"). */
struct str ctl_path(struct ctl *ctl, const char *before, struct str part, const char *after);

/* Server-sent events. Both functions return false to stop; `tick` (may be NULL) is called every
 * `tick_ms` at least. Also stops when stdout's reader has gone away. */
struct ctl_stream {
    struct str path;
    struct str last_id; /* resume after this one; absent: from the start */
    bool (*event)(void *arg, struct str id, struct str data);
    bool (*tick)(void *arg);
    void *arg;
    int tick_ms;
};
/* `*status` is the HTTP status, with `*reply` filled if it is not 200. Errors as ctl_call; a stream
 * that ends, in order or not, is a success. */
MUST_USE int ctl_stream(struct ctl *ctl, const struct ctl_stream *stream, struct ctl_reply *reply,
                        struct err *err);

/* True if the reader of our stdout (`| head -1`) is known to have gone. */
bool ctl_reader_gone(void);

#endif
