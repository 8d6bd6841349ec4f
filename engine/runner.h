/*
 * runner.h: carries decisions out: one event of a run at a time, records before commands.
 *
 * The runner holds the images of the open runs of the shards that this daemon owns, feeds them
 * events, writes what they decide through the daemon's write lane in batches, and does what they
 * command once it is durable. It makes no library calls: the simulator links this very object.
 * Its laws stand in architecture order in runner.c.
 *
 * Nothing here calls back before the call that asked for it has returned: input is queued and
 * drained by runner_turn, which the owner calls once per loop turn.
 */
#ifndef ENGINE_RUNNER_H
#define ENGINE_RUNNER_H

#include "engine/decide.h"
#include "engine/port.h"

struct runner;

/* What other daemons are to know; called once a turn at most. */
struct port_services {
    void *arg;
    void (*changed)(void *arg, struct str service, enum breaker_state state,
                    struct wall open_until);
};

/* The locks of workflows. A run's lock is its own: it stays with it whoever carries the run. */
struct port_locks {
    void *arg;
    /* Answered by runner_locked with this number as soon as the run holds its lock. Nothing is to
     * come of it any more once runner_asks_lock says no. Borrowed. */
    void (*ask)(void *arg, const struct run *run, uint64_t number);
    /* A run that held one has ended, and that is durable. */
    void (*freed)(void *arg);
};

/* What a participant said of an attempt whose run is another owner's by now, or the next lease's.
 */
struct stray_answer {
    struct str run_id, key;
    bool applied;      /* else this attempt was refused */
    struct str output; /* JSON text of the output, or of the error */
    uint32_t attempt;
};

/* Hands it to whoever owns the run. Called from inside runner_turn and runner_lost; borrowed. */
struct port_strays {
    void *arg;
    void (*answered)(void *arg, const struct stray_answer *answer);
};

/* How many of a tenant's submitted runs may be in flight, over all daemons. */
struct tenant_limit {
    const char *name; /* "": runs without one; "*": each that is not named */
    uint32_t runs;    /* at least 1 */
};

struct runner_config {
    uint32_t resident_max;              /* 0: RESIDENT_RUNS_MAX */
    const struct json *env;             /* borrowed for the runner's life; NULL: none */
    const struct json *people;          /* the same; see approval.h */
    const struct tenant_limit *tenants; /* the same; NULL: none */
    unsigned tenants_count;
    struct port_services services; /* changed is NULL: nobody else is to know */
    struct port_strays strays;     /* answered is NULL: cut off with the lease */
    struct port_tasks tasks;       /* offer is NULL: there are no workers */
    struct port_plans plans;       /* find is NULL: port_invoke plays the children */
    struct port_locks locks;       /* ask is NULL: there are no other runs */
};

struct runner *runner_new(const struct runner_config *config, const struct port_store *store,
                          const struct port_invoke *invoke, const struct port_watch *watch);
/* Calls no one back; what was not acknowledged is lost, as in a crash. */
void runner_free(struct runner *runner);

/* What a submit or verb came to. Borrowed until the callback returns. */
struct runner_answer {
    struct err err;                 /* code 0: done */
    const struct unit_taken *taken; /* start: the id was used before; NULL: started now */
    enum run_state state;           /* of the run, if it is known */
    bool removed;                   /* ERR_CONFLICT: the run has ended, its data was removed */
    const struct run_task *task;    /* EVENT_TAKE, EVENT_HEARTBEAT */
    const struct run_rehearsal *rehearsal; /* EVENT_DRY_RUN */
};

struct runner_start {
    const struct plan *plan;
    struct str run_id, tenant, actor, inbox_id; /* inbox_id absent: came by the socket */
    struct str input;
    struct sha256 input_hash;
    struct str lock;          /* render_lock; "" or absent: none */
    struct wall start_at;     /* queued until then; none or past: starts at once */
    struct wall suspect_from; /* as in record_start */
};

/* What the settled inbox row of a start says when the run existed. */
#define RUNNER_START_EXISTED "the run existed already"

/* Both copy what they need. The callback comes from a later runner_turn; it is not called if
 * these return an error (ERR_UNAVAILABLE: this daemon does not own the shard, or is full). */
MUST_USE int runner_start(struct runner *runner, const struct runner_start *start,
                          void (*cb)(void *arg, const struct runner_answer *answer), void *arg,
                          struct err *err);
struct runner_verb {
    enum run_event_kind kind; /* EVENT_TAKE and later */
    struct str run_id, step, reason, actor, inbox_id, output;
    struct str name;              /* signal; its data is `output` */
    struct str input, step_input; /* retry; absent: as they are */
    bool applied, force, dry_run;
    uint32_t attempt;          /* answer: it is about this attempt only; 0: about the key */
    const struct plan *plan;   /* EVENT_MIGRATE; referenced */
    struct str key, token;     /* EVENT_TAKE to EVENT_HEARTBEAT; token: not of a take */
    const struct reply *reply; /* EVENT_COMPLETE, EVENT_FAIL */
};
MUST_USE int runner_verb(struct runner *runner, const struct runner_verb *verb,
                         void (*cb)(void *arg, const struct runner_answer *answer), void *arg,
                         struct err *err);

/* The request of a declared `dry_run`; all of it is borrowed until runner_rehearse returns. */
struct runner_rehearsal {
    const struct plan *plan;
    const struct request *request;
    struct str run_id, step;
    struct wall now;
};
/* Sends it once, for whoever wants to see the answer: of no run's attempt, under no key, written
 * nowhere. It takes a place at the service's gate like an action, and waits for none: without room
 * it is refused. What is answered says nothing about the service to its breaker. The callback comes
 * from a later runner_turn, within REHEARSAL_TIMEOUT_US; `reply` is borrowed, NULL: the lease was
 * lost meanwhile. It is not called if this returns an error: ERR_UNAVAILABLE (the daemon shuts down
 * or does not have its lease), ERR_LIMIT (REHEARSALS_MAX are under way, or the service takes no
 * more now). */
MUST_USE int runner_rehearse(struct runner *runner, const struct runner_rehearsal *rehearsal,
                             void (*cb)(void *arg, const struct reply *reply), void *arg,
                             struct err *err);
/* The callbacks with this `arg` are not called any more. */
void runner_rehearse_forget(struct runner *runner, const void *arg);

/* Settles an inbox row that came to nothing, or to a run that existed before. Copies. */
void runner_settle(struct runner *runner, struct str run_id, const struct record_inbox *inbox);

/* --- from the invokers --- */
void runner_reply(struct runner *runner, uint64_t invocation_id, const struct reply *reply);

/* --- from the locks --- */
/* It holds its lock. Copied. */
void runner_locked(struct runner *runner, struct str run_id, uint64_t number);
/* The run still waits for the answer of that number. */
bool runner_asks_lock(const struct runner *runner, struct str run_id, uint64_t number);

/* --- from the store --- */
/* The daemon's lane is ours under this epoch, its last applied unit was `seq`, it carries
 * `shards` (bit per shard). Loads them; their runs recover. */
void runner_own(struct runner *runner, uint64_t epoch, uint64_t seq, uint64_t shards);
/* Shards that came later: handed over by another daemon. */
void runner_own_more(struct runner *runner, uint64_t shards);
/* The lease is lost or may be: all images are dropped, no effect starts, callers are told
 * ERR_UNAVAILABLE. */
void runner_lost(struct runner *runner);
/* The connection went away or came back: undecided units are resent byte for byte. */
void runner_store_down(struct runner *runner);
void runner_store_up(struct runner *runner);
/* The answer to the oldest unit sent and not answered. Copied. */
void runner_unit_answer(struct runner *runner, const struct unit_answer *answer);
void runner_commit_answer(struct runner *runner, uint64_t invocation_id,
                          const struct unit_answer *answer);
/* One run as records; copied. The plan is referenced. */
void runner_loaded(struct runner *runner, const struct plan *plan, struct str run_id,
                   const struct run_record *records, uint32_t count);
void runner_load_done(struct runner *runner, uint64_t shards);
/* `removed`: how the run ended, if its data was removed; RUN_NONE: it was loaded, or never was. */
void runner_load_run_done(struct runner *runner, struct str run_id, enum run_state removed);

/* Hands shards over to another lane as soon as none of their runs has anything undecided or in
 * flight. Until then they take no new starts and verbs. Replaces what was asked for before and has
 * not happened yet; 0: nothing is to leave. */
void runner_release(struct runner *runner, uint64_t shards, struct str to_lane);
/* Owned shards that could leave at once. */
uint64_t runner_quiet_shards(const struct runner *runner);

/* Lets nothing of these runs in until runner_unhold: what comes for them waits, also for the id of
 * one that would be started. False, and nothing is held, if one of them is in memory or its shard
 * is not ours. What is held is forgotten with the lease. */
bool runner_hold(struct runner *runner, const struct str *run_ids, uint32_t count);
void runner_unhold(struct runner *runner, struct str run_id);
uint64_t runner_epoch(const struct runner *runner); /* of the lane; 0: it is not ours */
/* It has met services with limits. */
bool runner_has_gates(const struct runner *runner);
/* Another daemon's breaker of the service is open until then. */
void runner_breaker(struct runner *runner, struct str service, struct wall open_until);

/* --- the loop --- */
void runner_turn(struct runner *runner, struct wall now);
/* True if a turn would do something now. */
bool runner_has_work(const struct runner *runner);
/* When the next turn is due by time alone; WALL_NONE: never. */
struct wall runner_due(struct runner *runner);

struct runner_stats {
    uint32_t resident, in_flight, units_in_flight, queued;
    uint32_t held;           /* runs that wait for room at a service */
    uint32_t open;           /* services whose breaker is not closed */
    uint64_t shards;         /* owned and loaded */
    uint64_t units, records; /* acknowledged so far */
    uint64_t started, commands;
    uint64_t acquired;                  /* times that shards came under a new lease */
    uint64_t loaded;                    /* open runs read from the database */
    uint64_t taken;                     /* submits of an id that was used before */
    uint64_t replies[REPLY_KIND_COUNT]; /* attempts that ended, by how */
    uint64_t entered[RUN_STATE_COUNT];  /* runs that came into a state */
};
struct runner_stats runner_stats(const struct runner *runner);
struct tally;
const struct tally *runner_tally(const struct runner *runner);
/* True when nothing is undecided, queued or in flight: a drained daemon may leave. */
bool runner_is_idle(const struct runner *runner);
/* No new claims are carried out: starts and verbs are refused, due times wait. For a drain. */
void runner_drain(struct runner *runner);

#endif
