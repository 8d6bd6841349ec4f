/*
 * store_pg_impl.h: what the files of the store share. Included by store_pg*.c only.
 */
#ifndef ENGINE_STORE_PG_IMPL_H
#define ENGINE_STORE_PG_IMPL_H

#include "engine/base/map.h"
#include "engine/failpoint.h"
#include "engine/store_pg.h"
#include "engine/store_pg_codec.h"

#define STORE_MAGIC 0x73746f72u

/* Statements of the write connection. */
enum write_statement {
    WRITE_TYPES,
    WRITE_APPLY,
    WRITE_ACQUIRE,
    WRITE_RENEW,
    WRITE_RELEASE,
    WRITE_CLAIM,
    WRITE_KICK,
    WRITE_REWIND,
    WRITE_STATEMENTS
};
/* Statements of the watch connection. */
enum watch_statement {
    WATCH_LOAD,
    WATCH_LOAD_RUN,
    WATCH_TOMBSTONE,
    WATCH_PICK_UP,
    WATCH_APART,
    WATCH_LANES,
    WATCH_TAKE_OVER,
    WATCH_KICK,
    WATCH_POLL,
    WATCH_SOURCES,
    WATCH_STATEMENTS
};
extern const char *const store_write_sql[WRITE_STATEMENTS];
extern const char *const store_watch_sql[WATCH_STATEMENTS];

enum lease_state {
    LEASE_OFF,       /* not asked for, or waits for a connection */
    LEASE_ACQUIRING, /* the statement is under way */
    LEASE_BUSY,      /* somebody seems to hold it: observing */
    LEASE_HELD,
    LEASE_RELEASING,
};

/* A daemon as seen in saga.lane, kept between looks: how long has it stood still? */
struct seen_daemon {
    char name[80];
    char *lanes, *epochs, *beats; /* array literals, for the compare and set */
    uint64_t shards;
    bool clean, present;
    int64_t ttl_us;
    struct mono since;
    unsigned moves; /* seen while we wait for our own name */
};

/* A load in progress: shards page by page, or one run. */
struct load {
    struct load *next;
    struct store_pg *store;
    uint64_t shards; /* 0: one run */
    char *run_id;    /* the run, or the last one of the page before */
    int16_t after_shard;
    uint32_t limit;
    bool sources_asked; /* for the plans that this page needs */
};

/* An answer that somebody waits for. */
struct question {
    struct question *next, **place;
    struct store_pg *store;
    store_answered *done;
    void *arg;
    struct loop_call late; /* there is no connection */
    bool conflict_text;    /* the text "conflict" is ERR_CONFLICT */
};

/* An inbox row that was accepted and is not settled yet. */
struct inbox_row {
    struct map_node node;
    char *id;
    bool settled;
    uint64_t settled_at; /* polls asked when it was settled: their answers may still list it */
};

/* A start that was acknowledged. */
struct acked_start {
    char *run_id, *workflow;
    uint64_t seq;
    struct wall at;
};

/* The last unit that was acknowledged, and the newest starts up to it; store_pg_acked.c. */
struct acked {
    char installation[40]; /* whose numbers these are; "": nothing is known */
    uint64_t seq;
    struct wall at;
    struct acked_start *starts; /* a ring */
    unsigned starts_next;
    struct arena lost_arena;
    const struct json *lost; /* starts that a restore took away: [[id, time], ...]; NULL: none */
};

struct store_pg {
    unsigned magic;
    struct loop *loop;
    struct store_pg_events events;
    char *uri, *daemon, *lock_file;
    char application[4][96]; /* write, watch, read, search */
    unsigned action_lanes;
    bool polls_inbox;
    struct pgconn *write, *watch, *read, *search;
    uint32_t types[LIST_COUNT];

    /* units */
    bool ready; /* the write connection is up and set up */
    bool doubt; /* an answer was undecided: so are all that follow on this session */
    struct flight *in_flight;
    unsigned flights;     /* units sent and not answered */
    unsigned answers_due; /* sends while it was down, to be answered undecided */
    struct loop_call answers_call;
    void (*commit)(void *arg, uint64_t invocation_id, void *encoded);
    void *commit_arg;
    unsigned release_no; /* moves whenever a hand-over is sent or answered */

    /* leases */
    enum lease_state lease;
    bool lease_wanted, crashed, busy_told;
    struct acked acked;
    int lock_fd;
    char nonce[33], nonces[3][33]; /* ours; those that prove that the last holder is dead */
    int64_t ttl_us;
    struct mono deadline, beat_at, looked_at, tried_at;
    struct loop_timer *lease_timer;
    bool renewing, looking, taking_over; /* one statement of each kind at a time */
    struct mono renewed_at;
    unsigned looked_release_no;
    char dead_name[80];
    struct store_lane *lanes; /* [0] = write lane, then the action lanes */
    unsigned lanes_count;
    uint64_t shards;
    struct seen_daemon *seen;
    unsigned seen_count;
    void (*released)(void *arg);
    void *released_arg;

    /* loads and definitions */
    struct load *loads, **loads_last;
    bool loading; /* a page or its definitions are under way */
    struct loop_timer *apart_timer;
    struct buf
        apart; /* the runs taken up apart last, as an array; empty: none is to be looked for */
    unsigned apart_count;
    struct mono apart_since;
    bool apart_patient;   /* as asked last */
    unsigned loads_stale; /* answers under way that nobody waits for */
    int64_t workflows_no;

    /* inbox */
    struct loop_timer *poll_timer;
    int64_t poll_us;
    bool polling;
    struct sha256 asked_hash; /* the last definition asked for because of a row */
    struct mono asked_at;
    uint64_t polls; /* asked so far */
    struct map inbox;

    struct question *questions; /* not answered yet */
};

/* store_pg.c */
void store_problem(struct store_pg *store, const struct err *err, bool is_final);
struct str store_field(const PGresult *rows, int row, int column); /* absent: null */
/* The lane is not ours any more: everybody is told, and it is acquired anew. */
void store_lost(struct store_pg *store);

/* store_pg_lease.c */
int lease_open(struct store_pg *store, struct err *err);
void lease_close(struct store_pg *store);
void lease_ready(struct store_pg *store);  /* the write connection came up */
void lease_broken(struct store_pg *store); /* it went away */
void lease_beat(struct store_pg *store, struct mono sent_at);
void lease_tick(void *arg);

/* store_pg_acked.c */
void acked_read(struct store_pg *store); /* out of the lock file, which is open */
void acked_free(struct store_pg *store);
void acked_note(struct store_pg *store, const struct pgunit *unit, uint64_t seq,
                const struct unit_answer *answer);
/* More was acknowledged than this installation's lane has. */
bool acked_is_ahead(const struct store_pg *store, struct str installation, uint64_t seq);
void acked_set(struct store_pg *store, struct str installation, uint64_t seq, struct wall at);
/* What saga.lost_starts_v1 gave. */
void acked_lost_set(struct store_pg *store, struct str text);
/* Tells it, and notes it in the database: the lane has `seq`, written at `last_time`. */
void acked_rewind(struct store_pg *store, uint64_t seq, struct wall last_time, pgconn_done *done);

/* store_pg_load.c */
void load_start(void *arg, uint64_t shards);
void load_run_start(void *arg, struct str run_id);
void load_pump(struct store_pg *store);
void load_clear(struct store_pg *store);
void load_apart(void *arg); /* the timer: runs that were set apart follow, a few at a time */
/* The current definitions (count 0), or these. */
void sources_ask(struct store_pg *store, const struct sha256 *hashes, unsigned count,
                 pgconn_done *done, void *arg);
void sources_deliver(struct store_pg *store, const PGresult *rows);

/* store_pg_inbox.c */
void inbox_poll(void *arg);
void inbox_settled(struct store_pg *store, const struct pgunit *unit);
void inbox_forget(struct store_pg *store);
/* The answers will not come any more. */
void questions_free(struct store_pg *store);

#endif
