/*
 * invoke_sql_impl.h: what the parts of the SQL invoker share: connections (slots), their pools, and
 * the invocations on them (jobs).
 *
 * invoke_sql.c holds all of it and the transactions in the engine's own database;
 * invoke_sql_guard.c the end of those in other ones.
 */
#ifndef ENGINE_INVOKE_SQL_IMPL_H
#define ENGINE_INVOKE_SQL_IMPL_H

#include "engine/base/buf.h"
#include "engine/invoke_sql.h"
#include "engine/pgconn.h"

#define SQL_MAGIC 0x73716c61u
#define RESOLVE_AGAIN_US (500 * MS_US)
#define GRACE_US (10 * SECOND_US) /* past the statement_timeout, the session is given up */

enum slot_state {
    SLOT_IDLE,       /* also while it connects */
    SLOT_LOOKING,    /* elsewhere: connected; is the guard installed? */
    SLOT_RUNNING,    /* BEGIN, settings and the statement are under way */
    SLOT_OPEN,       /* answered; waits for commit or drop */
    SLOT_ENDING,     /* ROLLBACK is under way */
    SLOT_COMMITTING, /* COMMIT is under way, here with the record */
    SLOT_RESOLVING,  /* the COMMIT was lost: asking by an empty unit; elsewhere, the guard */
};

/* One invocation, copied. */
struct job {
    struct job *next;
    uint64_t id;
    char *statement;
    char **args; /* NULL: null */
    unsigned args_count;
    int64_t timeout_us;
    struct buf settings; /* the statement that sets the locals */
    struct wall sent_at;

    /* what the guard is told; key NULL: it is not asked */
    char *key, *compensates; /* compensates NULL: none */
    char hash[65];
    enum direction direction;
    bool is_read;     /* asks about an effect: rolled back, whatever it did */
    bool needs_guard; /* the workflow counts on it: not sent without */
};

struct slot {
    unsigned magic;
    struct pool *pool;
    unsigned index;
    struct pgconn *conn; /* NULL: not needed yet */
    struct loop_timer *timer;
    enum slot_state state;
    struct job *job; /* of the transaction that runs or is open */
    struct buf body; /* its result */

    /* the engine's database */
    uint64_t epoch, seq;
    struct pgunit *unit;
    struct unit_answer answer;
    bool in_doubt; /* the COMMIT may have reached the server */

    /* elsewhere */
    bool has_guard;            /* of this connection; known once it is not LOOKING any more */
    bool is_asking;            /* RESOLVING: a question is on its way */
    int old_pid;               /* RESOLVING: the server's process that got the COMMIT */
    struct mono resolve_until; /* 0: no COMMIT of this job was lost yet */
};

/* The connections to one database and what waits for them. */
struct pool {
    struct pool *next;
    struct invoke_sql *sql;
    char *uri;
    bool is_engine;
    char *service;   /* elsewhere: the first that was named, for messages */
    bool said_guard; /* whether the guard is there was said */
    struct slot *slots;
    unsigned slots_count;
    struct job *first, **last;
};

struct invoke_sql {
    unsigned magic;
    struct invoke_sql_options o;
    struct port_invoke port;
    struct pool *pools;
    size_t waiting;
    bool draining;
    struct note *notes; /* answers that must not be given from inside a call */
    struct note **notes_last;
    struct loop_call notes_call;
};

/* --- invoke_sql.c --- */

struct slot *sql_slot_of(void *arg); /* the argument of a callback */

/* Each answers the slot's job, which stays; sql_slot_job_done frees it. */
void sql_reply_error(struct slot *slot, const struct err *err, bool commit_lost);
void sql_reply_success(struct slot *slot, enum reply_kind kind); /* with slot->body */
void sql_slot_job_done(struct slot *slot);

/* The slot is free: takes the next job. */
void sql_slot_idle(struct slot *slot);
/* The same, after a ROLLBACK. */
void sql_slot_rollback(struct slot *slot);
void sql_slot_next(struct slot *slot);
/* Gives the oldest waiting job to an idle connection, or opens one more. */
void sql_pool_pump(struct pool *pool);
/* In a transaction that has begun: the job's own statement, then its commit. */
void sql_statement_send(struct slot *slot);

/* --- invoke_sql_guard.c --- */

/* Looks whether the guard is installed; then the slot is idle. */
void sql_guard_look(struct slot *slot);
/* The guard is asked before this job's statement. */
bool sql_is_guarded(const struct slot *slot);
/* BEGIN and the claim; goes on to the statement, or answers without it. */
void sql_guard_begin(struct slot *slot);
/* COMMIT and the answer; with `keep` the guard keeps slot->body in the same transaction. */
void sql_commit_elsewhere(struct slot *slot, bool keep);

/* The COMMIT was lost (SLOT_RESOLVING): the connection is back; the timer has run out. */
void sql_doubt_ask(struct slot *slot);
void sql_doubt_timer(struct slot *slot);

#endif
