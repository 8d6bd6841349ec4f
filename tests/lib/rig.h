/*
 * rig.h: a store on a private PostgreSQL with its callbacks recorded, and units to feed it with.
 */
#ifndef TESTS_LIB_RIG_H
#define TESTS_LIB_RIG_H

#include "dsl/dsl.h"
#include "engine/store_pg.h"
#include "tests/lib/pg.h"

#define RIG_ANSWERS_MAX 4096
#define RIG_RUNS_MAX 4096

struct rig {
    struct loop *loop;
    struct store_pg *store;
    struct port_store port;
    struct plan *plan; /* reserve (compensable), charge (compensable), receipt (irreversible) */
    const struct plan *known; /* what the `plan` callback gives; NULL: nothing is known */
    struct arena arena;       /* everything that is recorded */
    char daemon[64], database[64];

    /* leases */
    unsigned owns, losts, downs, ups;
    uint64_t epoch, seq, shards; /* seq is raised by rig_write */
    /* units */
    struct unit_answer answers[RIG_ANSWERS_MAX];
    unsigned answers_count;
    /* loads */
    struct run *loaded[RIG_RUNS_MAX];
    unsigned loaded_count, load_dones, load_run_dones;
    enum run_state removed; /* what the last load of one run said */
    /* inbox */
    struct store_inbox inbox[64];
    unsigned inbox_count;
    bool inbox_refuses;
    /* the rest */
    unsigned workflows, problems, finals;
    struct store_daemon daemons[16];
    unsigned daemons_count;
    struct err problem;
    struct store_answer answer;
    bool answered;
};

struct rig_options {
    const char *database, *daemon, *lock_file;
    const char *user; /* NULL: saga_engine */
    const char *uri;  /* wins over database and user */
    int64_t ttl_us;
    bool polls_inbox, no_lease;
    unsigned action_lanes;
};

void rig_open(struct rig *rig, const struct rig_options *options);
/* As a crash does: the leases stay. */
void rig_close(struct rig *rig);

/* Turns the loop until `*counter` is at least `wanted`; fails the test after 20 seconds. */
void rig_wait(struct rig *rig, const unsigned *counter, unsigned wanted);
void rig_turn_for(struct rig *rig, int64_t us);

/* --- units --- */

/* A unit under construction: records of one or more runs, all on the rig's arena. */
struct rig_unit {
    struct rig *rig;
    struct unit unit;
    struct unit_run runs[512];
};
void rig_unit_init(struct rig_unit *unit, struct rig *rig);
/* Adds a run with room for records; the same id again gives the same run. */
struct unit_run *rig_run(struct rig_unit *unit, const char *run_id);
struct run_record *rig_record(struct unit_run *run, enum record_kind kind);
/* The usual records. */
struct record_start *rig_start(struct rig_unit *unit, const char *run_id, const char *input);
struct record_effect *rig_claim(struct rig_unit *unit, const char *run_id, uint16_t step,
                                enum direction direction, uint32_t claim_no);
struct record_effect *rig_effect(struct rig_unit *unit, const char *run_id, uint16_t step,
                                 enum direction direction, uint32_t claim_no,
                                 enum step_state state);
struct record_run *rig_state(struct rig_unit *unit, const char *run_id, enum run_state state);
struct record_event *rig_event(struct rig_unit *unit, const char *run_id, uint32_t seq);

/* Sends it under the next number and waits for the answer. */
enum unit_verdict rig_write(struct rig_unit *unit);
/* The same under any epoch and number, without waiting; the caller frees the encoded form. */
void *rig_send(struct rig_unit *unit, uint64_t epoch, uint64_t seq);

/* Asks on the read connection and waits; "" for null, the error's text on failure. */
const char *rig_ask(struct rig *rig, const char *sql, const char *param);

#endif
