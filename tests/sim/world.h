/*
 * world.h: a simulated world around the real core and runner: clock, database, two daemons,
 * participants with their ledgers. Everything is drawn from one seed.
 *
 * Time stands still while code runs and jumps to the next thing that happens. Fault classes are
 * switched on or off per seed (swarm testing), so that some seeds are rich in crashes and poor in
 * lost answers and others the reverse. After `heal_at` no new faults happen: everything that was
 * acknowledged must come to an end.
 */
#ifndef TESTS_SIM_WORLD_H
#define TESTS_SIM_WORLD_H

#include "engine/base/heap.h"
#include "engine/base/map.h"
#include "engine/base/rand.h"
#include "engine/runner.h"

#include <stdio.h>

#define WORLD_EPOCH_US                                                        \
    (INT64_C(1790000000) * SECOND_US) /* some day: simulated time starts here \
                                       */
#define WORLD_DAEMONS 2
#define WORLD_RUNS_MAX 64
#define WORLD_SERVICES 3
#define WORLD_KIDS 3 /* workflows that are started by others; each may start the next one */

/* Faults of this seed. */
struct world_faults {
    bool crash;        /* a daemon dies and comes back */
    bool freeze;       /* a daemon stops, loses its shards, and wakes up as a zombie */
    bool store_cut;    /* the database connection goes away with answers on the way */
    bool ghosts;       /* a cut unit still arrives at the database later */
    bool lose_request; /* a request never reaches the participant, the client sees no answer */
    bool lose_answer;  /* the participant works, its answer is lost */
    bool not_connect;
    bool refuse;          /* participants refuse some keys for good */
    bool transient;       /* 503 before doing anything */
    bool error_after;     /* 500 after the effect */
    bool accept;          /* 202 where it can be asked: the work is done, or refused, later */
    bool ask_fails;       /* questions are not answered, or with what proves nothing */
    bool call_back;       /* participants say by themselves what they did, at any time later */
    bool ask_lags;        /* a read does not see the newest effects yet */
    bool poison;          /* answers that the database refuses to store */
    bool cancel;          /* operators cancel */
    bool signals;         /* signals come, early, late and twice */
    bool release;         /* shards move between living daemons */
    bool resubmit;        /* clients submit again, with the same and with another input */
    bool verbs;           /* operators pause, resume, cancel, retry and skip at any moment */
    bool drain;           /* a daemon drains, leaves when nothing is in flight, and comes back */
    bool worker_dies;     /* before or after the work, without a word */
    bool worker_slow;     /* works beyond its deadline */
    bool worker_silent;   /* sends no heartbeats */
    bool worker_hangs_up; /* before it hears what it took */
    bool worker_race;     /* two go for one offer */
    bool delays;          /* clients ask for runs that start later */
    bool schedule;        /* the clock starts runs */
    bool clock_jumps;     /* of daemons, as schedules see them */
    bool tick_lost;       /* answers about ticks are lost, questions are slow */
    bool tick_race;       /* every daemon looks after the schedule, its owner or not */
    bool operators;       /* parked runs are retried, settled or abandoned during the heal phase */
};

/* One effect at a participant. */
struct ledger_entry {
    struct map_node node;
    char *key;
    uint32_t requests, effects; /* effects may exceed 1 only where the key is not honoured */
    int64_t first_at;           /* of the first effect */
    uint64_t first_order;       /* when the first effect happened, in order over the world */
    bool refuses;               /* this key is refused for good */
    bool decided;
    bool accepted;         /* it was answered with 202, and what becomes of it is still open */
    struct str body;       /* what was sent by HTTP; absent: nothing was */
    uint32_t completed_by; /* the attempt of a worker whose completion counted; 0: none */
};

/* The database: rows as the real one holds them. */
struct row_run {
    struct map_node node;
    struct arena arena;
    struct str id;
    const struct plan *plan;
    struct record_start start;
    struct record_run now;
    bool has_run_record;
    struct record_effect *effects; /* in the order of their claims */
    uint32_t effects_count, effects_size;
    uint32_t events;
    struct record_signal signals[4];
    uint32_t signals_count;
    struct record_input inputs[8];
    uint32_t inputs_count;
    bool retried;    /* a person has let it go on */
    bool told[16];   /* by step: a person, or the participant late, said what became of it */
    uint64_t ticket; /* for its lock; 0: none */
    bool holds_lock;
    int created_lane;
    uint64_t created_seq;
};

struct world_event {
    struct heap_node node;
    void (*fn)(struct world_event *event);
    struct world *world;
    int daemon;
    uint64_t incarnation, connection, number;
    void *data;
};

struct sim_unit {
    struct arena arena;
    struct unit unit;
    uint32_t crc;
    uint32_t refs;
};

struct message { /* a unit on its way to the database */
    struct message *next;
    struct sim_unit *unit;
    uint64_t epoch, seq;
    bool arrived;
    struct unit_answer answer;
    struct unit_taken *taken;
};

struct sim_invocation {
    struct map_node node;
    uint64_t id;
    bool sql, open, dropped;
    int service; /* whose place it has; -1: none */
    struct str run_id, key;
};

struct world_limits {
    uint32_t in_flight; /* 0: any number */
    const char *text;   /* of a service in YAML */
};

struct daemon {
    struct world *world;
    int index;
    struct runner *runner; /* NULL: dead */
    uint64_t incarnation, connection;
    uint64_t epoch; /* of its lane, as it was given to it */
    bool frozen, connected, owned, draining;
    struct message *messages, **messages_tail; /* in order, not answered */
    struct map invocations;
    int64_t turn_at; /* a turn is scheduled for then; 0: none */
    int64_t frozen_at;
    uint32_t in_flight[WORLD_SERVICES];
    int share; /* the most shards of late */
    int64_t share_at;
};

struct client_run { /* one submit and what became of it */
    char *id;
    const struct plan *plan;
    struct str input;
    struct sha256 input_hash;
    struct wall start_at; /* none: at once */
    bool acknowledged;
};

struct world {
    uint64_t seed;
    struct rand rand;
    struct world_faults faults;
    int64_t now, heal_at;
    struct heap queue;
    uint64_t order, scheduled;
    bool healed;

    uint64_t lane_epoch[WORLD_DAEMONS], lane_seq[WORLD_DAEMONS];
    struct {
        uint64_t seq;
        uint32_t crc;
    } recent[WORLD_DAEMONS][8];
    int shard_lane[RUN_SHARDS]; /* -1: nobody */
    struct map rows;            /* row_run */
    uint64_t tickets;
    struct map ledger;
    struct arena arena;

    struct daemon daemons[WORLD_DAEMONS];
    struct world_limits limits[WORLD_SERVICES];
    struct plan *kids[WORLD_KIDS];
    struct client_run runs[WORLD_RUNS_MAX];
    uint32_t runs_count;
    struct sim_schedule *schedule; /* schedules.c; NULL: none */
    struct sim_task *tasks;        /* workers.c: all that were ever handed out */

    char failure[512]; /* the first broken promise; "" = none */
    FILE *trace;       /* NULL: quiet */
};

void world_init(struct world *world, uint64_t seed, FILE *trace);
void world_free(struct world *world);
/* Runs the safety phase, heals, and runs on until everything stands still. */
void world_run(struct world *world);

void world_fail(struct world *world, const char *fmt, ...) PRINTF_LIKE(2, 3);
void world_trace(struct world *world, const char *fmt, ...) PRINTF_LIKE(2, 3);
struct row_run *world_row(const struct world *world, struct str id);
/* Nothing more happens to it by itself: it has ended, or it, or a child that it waits for, is
 * parked and nobody helps. */
bool world_rests(const struct world *world, const struct row_run *row);
struct ledger_entry *world_ledger(struct world *world, struct str key);

/* For those who act in it. */
bool world_fault(struct world *world, bool enabled, unsigned percent);
int64_t world_between_ms(struct world *world, int64_t low, int64_t high);
struct world_event *world_schedule(struct world *world, int64_t delay_us, int daemon, void *data,
                                   void (*fn)(struct world_event *event));
struct daemon *world_event_daemon(struct world_event *event);
/* True if the daemon that this event was meant for is still there, awake and running. A frozen
 * one gets it later. */
bool world_event_reaches(struct world_event *event);
/* Its next turn comes after the delay at the latest. */
void world_poke(struct daemon *daemon, int64_t delay_us);
/* The daemon that carries the run, if it is there and knows it. */
struct daemon *world_owner(struct world *world, struct str run_id);
struct record_effect *world_row_effect(struct row_run *row, const struct effect_ref *ref);
/* The participant does what the key stands for. */
void world_effect(struct world *world, struct ledger_entry *entry);

/* workflows.c: a random workflow; it may start "kid<child>". `schedule`: its line of that, or "".
 */
struct plan *workflow_make(struct world *world, const char *name, unsigned number, unsigned child,
                           const char *schedule);
/* limits.c: what services allow, and whether it is kept. */
void limits_draw(struct world *world);
/* Whenever a daemon may own more than before. */
void limits_look(struct daemon *daemon);
void limits_sent(struct daemon *daemon, struct sim_invocation *sent,
                 const struct invocation *invocation);
void limits_done(struct daemon *daemon, struct sim_invocation *sent);
struct port_services limits_port(struct daemon *daemon);
/* locks.c: which lock a run has ("" = none), and its ticket. */
struct str locks_value(const struct world *world, const char *run_id);
void locks_ticket(struct world *world, struct row_run *row);
void locks_release(struct row_run *row);
/* Whenever the run was written. */
void locks_check(struct world *world, const struct row_run *row);
/* Another run, which holds its lock; NULL: none does. */
const struct row_run *locks_holder(const struct world *world, const struct row_run *row);
struct port_locks locks_port(struct daemon *daemon);
/* schedules.c: a workflow that the clock starts. */
void schedule_make(struct world *world);
void schedule_free(struct world *world);
/* A run was written for the first time; a row of the inbox was settled. */
void schedule_start_check(struct world *world, const struct row_run *row);
void schedule_settled(struct world *world, struct str id);
/* Its ticks are over and their runs rest. */
bool schedule_rests(const struct world *world);
void schedule_check(struct world *world);
/* workers.c: an offer on its way to whoever takes it, and the promises about what they say. */
void workers_offer(struct daemon *daemon, struct str run_id, struct str key);
/* Somebody may still do what the key stands for. */
bool workers_busy(const struct world *world, struct str key);
void workers_write_check(struct world *world, const struct row_run *row,
                         const struct effect_state *before, const struct record_effect *after);
void workers_check(struct world *world);
/* checks.c: promises at the end of a world, and of loops whenever a run was written. */
void checks_run(struct world *world);
void loops_check(struct world *world, const struct row_run *row);

#endif
