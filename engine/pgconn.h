/*
 * pgconn.h: one connection to PostgreSQL on the loop: non-blocking, pipelined, reconnecting.
 *
 * A pgconn connects, puts the session into a known state (whatever the DBA set for the role), and
 * prepares its statements; then it is *up* and takes statements. Each is answered exactly once,
 * in the order sent, from the loop and never from inside the call that sent it. A statement is a
 * transaction of its own (it carries its own Sync) unless PGCONN_MORE says that the next one
 * belongs to it; its answer comes only when PostgreSQL has reported the commit, not when the rows
 * arrived. When the connection goes away, what was sent is answered with `lost`: it may or may not
 * have happened. Then the connection is made again, with growing pauses, until pgconn_close.
 *
 * What it does not do: queue while it is down (senders ask pgconn_is_up), or send anything twice.
 * Name lookup blocks (libpq's getaddrinfo).
 */
#ifndef ENGINE_PGCONN_H
#define ENGINE_PGCONN_H

#include "engine/base/clock.h"
#include "engine/base/err.h"
#include "engine/loop.h"

#include <libpq-fe.h>
#include <sys/socket.h>

#define PGCONN_PARAMS_MAX 24
#define PGCONN_RETRY_MIN_US (50 * MS_US)
#define PGCONN_RETRY_MAX_US (5 * SECOND_US)
#define PGCONN_AFTER_US (20 * MS_US)       /* how often it is looked whether `after` is up */
#define PGCONN_CONNECT_US (10 * SECOND_US) /* per attempt; the next one starts at the next host */

struct pgconn;

struct pgconn_setting {
    const char *name, *value; /* NULL value: leave as the role has it */
};

struct pgconn_options {
    const char *uri;                       /* libpq's, or NULL: PG* environment */
    const char *user;                      /* wins over the URI's; NULL: the URI's */
    const char *application;               /* application_name */
    const struct pgconn_setting *settings; /* win over the built-in ones */
    unsigned settings_count;
    const char *const *statements; /* prepared on every new session, in this order */
    unsigned statements_count;
    int64_t stall_us; /* no byte for so long while something is outstanding: 0 = never */
    /* Connects only while that one is up: where sessions are few, the first ones are made first.
     * NULL: at once. It must outlive this one. */
    const struct pgconn *after;

    void *arg;
    void (*up)(void *arg);
    /* Was up, or could not get up. `is_final`: wrong password, unknown database or role, missing
     * schema; it is tried again all the same, the caller decides whether to give up. */
    void (*down)(void *arg, const struct err *err, bool is_final);
    void (*notice)(void *arg, const char *severity, const char *text); /* NULL: dropped */
    /* Asked when a connection by network stands and nothing was sent on it: NULL to go on, else why
     * not. `host` as the URI has it. NULL: every address will do. */
    const char *(*problem)(void *arg, const char *host, const struct sockaddr *peer);
};

/* All strings are copied. Starts to connect at once, or after `after`. */
struct pgconn *pgconn_open(struct loop *loop, const struct pgconn_options *options);
/* Drops what is outstanding without an answer. Allowed in any callback. NULL is allowed. */
void pgconn_close(struct pgconn *conn);

bool pgconn_is_up(const struct pgconn *conn);
unsigned pgconn_outstanding(const struct pgconn *conn);
int pgconn_backend_pid(const struct pgconn *conn); /* 0 while it is down */

/* Parameters, borrowed until the statement is sent. */
struct pgconn_params {
    int count;
    const char *values[PGCONN_PARAMS_MAX];
    int lengths[PGCONN_PARAMS_MAX];
    int formats[PGCONN_PARAMS_MAX]; /* 0 text, 1 binary */
    char ints[PGCONN_PARAMS_MAX][8];
};
/* For parameters of type text and json; absent: null. */
void pgconn_param_text(struct pgconn_params *params, struct str text);
/* For parameters of any type, in its text form; NULL: null. */
void pgconn_param_z(struct pgconn_params *params, const char *text);
void pgconn_param_binary(struct pgconn_params *params, struct str bytes); /* absent: null */
void pgconn_param_int8(struct pgconn_params *params, int64_t value);

struct pgconn_result {
    struct err err;       /* ERR_NONE: done, and reported as committed */
    bool lost;            /* the connection went away first; err is ERR_UNAVAILABLE */
    bool warned;          /* a WARNING came with it: the commit may not be replicated */
    const PGresult *rows; /* NULL unless done; valid in the callback only */
};
typedef void pgconn_done(void *arg, const struct pgconn_result *result);

enum pgconn_flags {
    PGCONN_MORE = 1, /* the next statement belongs to the same transaction; fails with it */
    PGCONN_TEXT = 2, /* result in text format instead of binary */
};

/* Sends a prepared statement (index in options.statements). The connection must be up. `done` may
 * be NULL. */
void pgconn_exec(struct pgconn *conn, unsigned statement, const struct pgconn_params *params,
                 unsigned flags, pgconn_done *done, void *arg);
/* The same with any SQL; parameters are typed by the server. */
void pgconn_query(struct pgconn *conn, const char *sql, const struct pgconn_params *params,
                  unsigned flags, pgconn_done *done, void *arg);

/* Breaks the connection soon, answers what is outstanding with `lost`, connects anew. */
void pgconn_reset(struct pgconn *conn, const char *why);

/* ERR_UNAVAILABLE with the reason why `pg` is not connected, in one line, and the SQLSTATE if it
 * connected with PQERRORS_VERBOSE. */
void pg_connect_error(const PGconn *pg, struct err *err);
/* Will connecting fail for ever with this? */
bool pg_is_final(const char *sqlstate);

#endif
