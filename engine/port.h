/*
 * port.h: what the runner needs of the world, as tables of functions.
 *
 * The simulator and the adapters of floor 7 both implement these. Law 1: a port never calls back
 * before its start function has returned; answers go to the runner's inbox (runner.h) and are
 * drained once per turn.
 */
#ifndef ENGINE_PORT_H
#define ENGINE_PORT_H

#include "engine/run.h"

/* The records of one run in one unit; a run stands in a unit at most once. */
struct unit_run {
    struct str run_id;
    uint16_t shard;
    const struct plan *plan; /* names steps and workflow for the encoder */
    const struct run_record *records;
    uint32_t records_count;
    bool is_start; /* holds a RECORD_START: answered with fresh or not */
};

/* What is written as one transaction. Immutable while it is undecided. */
struct unit {
    const struct unit_run *runs;
    uint32_t runs_count;
    uint32_t records_count;  /* over all runs, without memory-only ones */
    uint64_t release_shards; /* bit per shard handed over: its lane becomes `release_to` */
    struct str release_to;
    void *encoded; /* the store's form of it, from port_store.encode */
};

enum unit_verdict {
    UNIT_NONE,
    UNIT_APPLIED,  /* written now */
    UNIT_ALREADY,  /* written before, by these very bytes */
    UNIT_CONFLICT, /* that number was used for other bytes: a bug, stop */
    UNIT_FENCED,   /* another epoch owns the lane: nothing was written, nothing ever will be */
    UNIT_GAP,      /* not the next number: nothing was written */
    UNIT_REJECTED, /* PostgreSQL refused the data: nothing was written, the number is free */
    UNIT_UNDECIDED /* the answer was lost, or does not prove that the commit is durable */
};

/* A submitted id that was taken before. */
struct unit_taken {
    struct str run_id;
    struct sha256 input_hash; /* of the run that has the id */
    struct str workflow;
    struct str tenant;
};

struct unit_answer {
    enum unit_verdict verdict;
    const struct unit_taken *taken; /* borrowed; start groups that were skipped */
    uint32_t taken_count;
    struct wall db_now; /* the database's clock; none if undecided */
    struct err err;     /* UNIT_REJECTED: what PostgreSQL said */
};

struct port_store {
    void *arg;
    /* Makes the store's form of the unit: its bytes are final. Copies all it needs. */
    void *(*encode)(void *arg, const struct unit *unit);
    void (*encoded_free)(void *arg, void *encoded);
    /* Sends it under (epoch, seq) of the daemon's write lane; answered by runner_unit_answer,
     * UNIT_UNDECIDED if the connection goes away first. Answers come in the order of sends. */
    void (*send)(void *arg, void *encoded, uint64_t epoch, uint64_t seq);
    /* Takes `encoded`. Commits an open SQL action together with the unit, on the action's own lane;
     * answered by runner_commit_answer with APPLIED, FENCED, or REJECTED (rolled back for certain:
     * the action and its record do not exist). The port resolves a lost COMMIT by itself. */
    void (*commit)(void *arg, uint64_t invocation_id, void *encoded);
    /* Loads open runs of these shards (bit set); answered by runner_loaded for each run, then by
     * runner_load_done. */
    void (*load)(void *arg, uint64_t shards);
    /* Loads one run, whatever its state; answered the same way (without a run if there is none). */
    void (*load_run)(void *arg, struct str run_id);
};

struct port_invoke {
    void *arg;
    /* Answered by runner_reply exactly once, also after drop. */
    void (*start)(void *arg, const struct invocation *invocation);
    /* The answer is no longer wanted: cut it off. */
    void (*drop)(void *arg, uint64_t invocation_id);
    /* The lease is lost: what was not sent stays unsent, nothing is sent again, but an answer that
     * is under way is still wanted. NULL: as drop. */
    void (*leave)(void *arg, uint64_t invocation_id);
};

/* Definitions, for runs that are started by runs. */
struct port_plans {
    void *arg;
    /* What a new run of that name gets, if it takes this input. Borrowed until the next call.
     * NULL: ERR_NOT_FOUND, or ERR_INVALID where the input does not fit. */
    const struct plan *(*find)(void *arg, struct str workflow, const struct json *input,
                               struct err *err);
};

/* Tasks that workers may take. An offer may come twice and may be void by the time it is taken: the
 * take is what decides (EVENT_TAKE). */
struct port_tasks {
    void *arg;
    void (*offer)(void *arg, struct str queue, struct str run_id, struct str key);
    /* The run has ended: none of its tasks is to be taken any more. May be NULL. */
    void (*forget)(void *arg, struct str run_id);
};

struct run_event;

/* What others want to know; called once the facts are durable. */
struct port_watch {
    void *arg;
    void (*changed)(void *arg, const struct run *run);
};

#endif
