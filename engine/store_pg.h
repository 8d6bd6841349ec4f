/*
 * store_pg.h: the store on PostgreSQL: port_store, the daemon's leases, the inbox, definitions,
 * and questions for the read API.
 *
 * Four connections: *write* carries the units of the daemon's write lane and nothing that could
 * delay them; *watch* polls the inbox, keeps and observes leases; *read* answers questions,
 * *search* those that may take long. They come up by themselves and come back by themselves. With
 * fewer sessions the last ones do the work of those that are missing.
 *
 * Life: store_pg_open, then store_pg_lease; `own` tells that the lane is ours. From then on units
 * may be sent. `lost` tells that it is not ours any more (fenced, or the deadline passed while the
 * database was away); the store goes on trying to get it back and will tell `own` again.
 *
 * Law 1 holds: no function here calls back before it has returned. Callbacks come from the loop.
 */
#ifndef ENGINE_STORE_PG_H
#define ENGINE_STORE_PG_H

#include "engine/loop.h"
#include "engine/pgconn.h"
#include "engine/port.h"

struct store_pg;

#define STORE_TTL_US (10 * SECOND_US) /* of a lease */
#define STORE_SESSIONS_MIN 2
#define STORE_SESSIONS_MAX 4
#define STORE_SEARCH_TIMEOUT "10s" /* of store_pg_search */

/* A row of the inbox. Borrowed until the callback returns. */
struct store_inbox {
    uint16_t shard;
    struct str id, kind, run_id;
    struct str body; /* JSON text */
    struct str actor;
    struct wall at;
    const struct plan *plan; /* kind "start": the definition; else NULL */
};

/* A definition as it is stored. Borrowed until the callback returns. */
struct store_workflow {
    struct sha256 hash;
    struct str name, version, source;
    bool current;
};

/* Another daemon, as its lanes tell. */
struct store_daemon {
    const char *name; /* also the name of its write lane */
    uint64_t shards;
    bool clean; /* it drained and left */
    bool is_me;
    int64_t ttl_us;    /* of its lease */
    int64_t silent_us; /* how long nothing moved, by this machine's clock */
};

struct store_pg_events {
    void *arg;
    /* --- as the runner's functions of the same names --- */
    void (*own)(void *arg, uint64_t epoch, uint64_t seq, uint64_t shards);
    void (*own_more)(void *arg, uint64_t shards);
    void (*lost)(void *arg);
    void (*down)(void *arg);
    void (*up)(void *arg);
    void (*unit_answer)(void *arg, const struct unit_answer *answer);
    void (*loaded)(void *arg, const struct plan *plan, struct str run_id,
                   const struct run_record *records, uint32_t count);
    void (*load_done)(void *arg, uint64_t shards);
    void (*load_run_done)(void *arg, struct str run_id, enum run_state removed);
    /* --- definitions: NULL if the hash is not known yet --- */
    const struct plan *(*plan)(void *arg, const struct sha256 *hash);
    /* A definition that this daemon has to know: all current ones when the connection comes up,
     * changed ones later, old ones when a run needs them. After it `plan` should find it. */
    void (*workflow)(void *arg, const struct store_workflow *workflow);
    void (*workflows_done)(void *arg); /* after each series of `workflow` */
    /* --- the inbox: false = not now, it will be offered again --- */
    bool (*inbox)(void *arg, const struct store_inbox *row);
    /* --- the other daemons, after each look --- */
    void (*daemons)(void *arg, const struct store_daemon *daemons, unsigned count);
    /* --- the state of the connections, for logs and health --- */
    void (*problem)(void *arg, const struct err *err, bool is_final);
};

struct store_pg_options {
    const char *uri;       /* NULL: PG* environment */
    const char *daemon;    /* its name: [A-Za-z0-9._-]{1,63} */
    const char *lock_file; /* holds the nonce, see store_pg_lease.c; NULL: none */
    int64_t ttl_us;        /* 0: STORE_TTL_US */
    unsigned sessions;     /* STORE_SESSIONS_MIN to _MAX; 0: the most */
    unsigned action_lanes; /* for SQL actions, see invoke_sql.h */
    bool polls_inbox;
};

/* Copies the options. Any callback may be NULL except those of units and loads. */
struct store_pg *store_pg_open(struct loop *loop, const struct store_pg_options *options,
                               const struct store_pg_events *events);
void store_pg_close(struct store_pg *store); /* NULL is allowed; leaves the leases as they are */

/* The functions for the runner. `commit` goes to whom store_pg_commit_by names. */
struct port_store store_pg_port(struct store_pg *store);
void store_pg_commit_by(struct store_pg *store,
                        void (*commit)(void *arg, uint64_t invocation_id, void *encoded),
                        void *arg);

/* --- leases --- */

/* Takes the flock and starts to acquire the daemon's lanes. Errors: ERR_CONFLICT if another
 * process on this machine holds the lock file, ERR_IO. */
MUST_USE int store_pg_lease(struct store_pg *store, struct err *err);
/* Takes shards that nobody carries; `own_more` tells which. */
void store_pg_claim(struct store_pg *store, uint64_t shards);
/* After runner_lost on a gap or a doubt: forgets the epoch and acquires anew. */
void store_pg_reacquire(struct store_pg *store);
/* When a start of this id was acknowledged that a restore of the database took away; none: it was
 * not, or not as far as this daemon knows. */
struct wall store_pg_start_lost(const struct store_pg *store, struct str run_id);
/* The end of a drain. `done` is called once, also when the database is away. */
void store_pg_release(struct store_pg *store, void (*done)(void *arg), void *arg);
/* No effect may start at or past it; {0} while the lane is not ours. */
struct mono store_pg_deadline(const struct store_pg *store);
bool store_pg_is_up(const struct store_pg *store);
bool store_pg_can_answer(const struct store_pg *store); /* questions; a moment later than units */

/* An action lane of this daemon, index from 0; false while the lanes are not ours. */
struct store_lane {
    char name[80];
    char token[33];      /* what only this daemon knows of the lease */
    uint64_t epoch, seq; /* seq: of the last unit when it was acquired */
};
bool store_pg_action_lane(const struct store_pg *store, unsigned index, struct store_lane *out);
/* Numbers of the composite types in this database, for pgunit_list; NULL before it was up. */
const uint32_t *store_pg_types(const struct store_pg *store);

/* --- for the API --- */

struct store_answer {
    struct err
        err; /* ERR_UNAVAILABLE: no connection, or it went away (a write may have happened) */
    struct str text; /* first column of the first row, as text; absent: null or no row */
};
typedef void store_answered(void *arg, const struct store_answer *answer);

/* Runs one statement with text parameters (`$1` of any type; NULL: null) on the read connection.
 * Always answers, later. */
void store_pg_query(struct store_pg *store, const char *sql, const char *const *params,
                    unsigned count, store_answered *done, void *arg);
/* The same on a connection of its own, for what looks at many runs: it holds up nobody but other
 * searches, and is given up after STORE_SEARCH_TIMEOUT (SQLSTATE 57014). */
void store_pg_search(struct store_pg *store, const char *sql, const char *const *params,
                     unsigned count, store_answered *done, void *arg);
/* Registers a definition. `run_id_parts`: its run_id template as SQL can render it, a JSON list of
 * {"lit": text} and {"path": [names of input fields]}; absent if it cannot. The answer's text is
 * "applied", "unchanged" or "current" (known before, made current); ERR_CONFLICT: the label stands
 * for other content. */
void store_pg_apply(struct store_pg *store, const struct plan *plan, struct str run_id_parts,
                    const char *actor, store_answered *done, void *arg);
struct store_definition {
    const struct plan *plan;
    struct str run_id_parts;
};
/* Several, all or none; the answer's text is the JSON list of what is said of each. Copies. */
void store_pg_apply_set(struct store_pg *store, const struct store_definition *list, size_t count,
                        const char *actor, store_answered *done, void *arg);
/* Puts a row into the inbox of the shard's owner, whoever that is. The answer's text is the id. A
 * row with the same id is not put twice. `workflow` is for kind "start": its hash. */
void store_pg_inbox_put(struct store_pg *store, struct str id, struct str kind, struct str run_id,
                        const struct sha256 *workflow, struct str body, struct str actor,
                        store_answered *done, void *arg);

#endif
