/*
 * request.h: one attempt on its way out (struct request, struct invocation) and what came back
 * (struct reply). The core renders requests and judges replies; invokers only carry them.
 */
#ifndef ENGINE_REQUEST_H
#define ENGINE_REQUEST_H

#include "dsl/plan.h"

#define DIRECTIONS(X)               \
    X(DIRECTION_EXECUTE, "execute") \
    X(DIRECTION_COMPENSATE, "compensate")
enum direction {
    DIRECTION_NONE,
#define X(id, name) id,
    DIRECTIONS(X)
#undef X
};
const char *direction_name(enum direction direction); /* the action type of a key */

struct request_pair {
    struct str name, value; /* value may hold secret references: see dsl/expr.h */
};

/* A rendered action: everything that is hashed, and the headers, which are not. */
struct request {
    const struct plan_action *action;   /* borrowed from the plan */
    const struct plan_service *service; /* NULL: none */
    struct sha256 hash;                 /* kind, service, method, path, query, body: see key.h */

    struct str target;                  /* http: path and query, percent-encoded, starts with "/" */
    bool from_origin;                   /* the target is not below the service's base path */
    const struct request_pair *headers; /* http: the service's, then the action's, then
                                         * Content-Type (the invoker adds the key and the Saga-
                                         * headers); exec: the declared environment */
    uint16_t headers_count;
    struct str auth_user,
        auth_secret;        /* http: basic user; bearer token or password; absent: none */
    struct str sign_secret; /* http: of the signature; absent: not signed */
    struct str body;        /* http body, exec stdin; absent: none */
    /* What a person gave instead of what the workflow says: the JSON body, a worker's payload, a
     * child's input, stdin, the list of a statement's parameters. NULL: nothing. */
    const struct json *given;

    const struct str *args; /* exec: argv; sql: parameters as text, absent = NULL */
    uint16_t args_count;
};

/* One send of an action. Everything is borrowed until the invoker's start function returns: an
 * invoker copies what it needs longer. */
struct invocation {
    uint64_t id;             /* unique in this process; names the attempt to drop and reply */
    const struct plan *plan; /* an invoker that keeps it takes a reference */
    const struct request *request;
    struct str run_id;
    struct str step;        /* instance: "charge" or "send.3" */
    struct str key;         /* in the form the participant gets (format applied); absent: a read */
    struct str compensates; /* execute key as the participant got it, on compensations only */
    struct str reconciles;  /* the key that a read asks about, as the participant got it */
    enum direction direction;
    uint32_t attempt; /* 1-based */
    int64_t timeout_us;
    struct wall deadline_at; /* of this attempt: sent along as Saga-Deadline */
    bool is_dry_run;         /* shows an effect: without key and attempt, marked as what it is */
    bool fresh_connection;   /* never on a reused connection: see runner.c */
};

#define REPLY_KINDS(X)                                                                            \
    /* certainly never left: */                                                                   \
    X(REPLY_CANNOT_SEND, "cannot_send")     /* bad header value, no URL, missing secret: never */ \
    X(REPLY_NOT_CONNECTED, "not_connected") /* name lookup, connect, TLS handshake */             \
    X(REPLY_LOCAL_SHORTAGE, "local_shortage") /* descriptors, memory, processes: costs nothing */ \
    X(REPLY_NOT_SENT, "not_sent") /* dropped in a drain before it left: costs nothing */          \
    /* may have arrived: */                                                                       \
    X(REPLY_NO_ANSWER, "no_answer") /* reset, timeout, closed after the first byte left */        \
    /* answered: */                                                                               \
    X(REPLY_HTTP, "http")                                                                         \
    X(REPLY_EXEC, "exec")                                                                         \
    X(REPLY_SQL, "sql")                                                                           \
    X(REPLY_SQL_OPEN, "sql_open") /* done in a transaction that waits for its record to commit */ \
    X(REPLY_WORKER, "worker")                                                                     \
    X(REPLY_CHILD, "child") /* the child that was started, or told to turn back, has ended */
enum reply_kind {
    REPLY_NONE,
#define X(id, name) id,
    REPLY_KINDS(X)
#undef X
};
#define X(id, name) +1
enum { REPLY_KIND_COUNT = 1 REPLY_KINDS(X) }; /* for arrays by reply_kind */
#undef X
const char *reply_kind_name(enum reply_kind kind);

/* What became of a child, seen from what was asked of it: to do its work, or to undo it. */
#define CHILD_ENDS(X)                                                            \
    X(CHILD_DONE, "done")           /* completed; undoing: compensated */        \
    X(CHILD_UNDONE, "undone")       /* compensated instead of completed */       \
    X(CHILD_ABANDONED, "abandoned") /* closed by a person */                     \
    X(CHILD_REFUSED, "refused")     /* was not started, or will not be undone */ \
    X(CHILD_STARTED, "started")     /* detached: its start is durable */
enum child_end {
    CHILD_NONE,
#define X(id, name) id,
    CHILD_ENDS(X)
#undef X
};
enum child_end child_end_of(struct str name); /* CHILD_NONE for an unknown name */

struct reply {
    enum reply_kind kind;
    struct wall sent_at, ended_at; /* database time as this process reckons it */
    struct str error;              /* one line; what failed, without secrets */
    bool timed_out;                /* NO_ANSWER: by our own limit */

    int status;                         /* http status; exec exit code, or -signal */
    const struct request_pair *headers; /* http: names in lower case */
    uint16_t headers_count;
    struct str body;        /* http body, exec stdout, sql result as JSON {rows, count} */
    struct str stderr_text; /* exec */
    bool body_dropped;      /* over the limit: body is absent, status holds */
    char sqlstate[6];       /* sql: "" = success */
    bool commit_lost;       /* sql elsewhere: the connection went away in COMMIT */
    bool failed, retryable; /* worker: it failed; it may work later */
    enum child_end child;   /* child; body: its output, or its first error */
    struct str code;        /* worker: its name for the failure, or absent; child that was refused:
                             * why, in a word */
};

#define BODY_BYTES_MAX (1024 * 1024) /* one payload: answer, stdout or rendered body */
#define HEADERS_BYTES_MAX (64 * 1024)

#endif
