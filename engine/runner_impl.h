/*
 * runner_impl.h: what runner.c (events, decisions, commands) and lane.c (units) share; nobody else
 * includes it.
 */
#ifndef ENGINE_RUNNER_IMPL_H
#define ENGINE_RUNNER_IMPL_H

#include "engine/base/heap.h"
#include "engine/base/map.h"
#include "engine/runner.h"
#include "engine/tally.h"

struct slot;

/* The gate of a service, by name; there is one from the first run that has limits for it. */
struct gate_entry {
    struct map_node node;
    struct str name;
    struct gate gate;
    char bytes[];
};

/* A run that waits at a gate. */
struct slot_wait {
    struct gate_waiter waiter;
    struct slot_wait *next; /* of the slot */
    struct slot *slot;
    struct gate_entry *entry;
    bool wanted, repeats; /* while it is looked at anew */
};

/* A place in a gate's books. */
struct passage {
    struct gate_entry *entry; /* NULL: none */
    uint64_t opening;
};

/* One event of one run, from its arrival until its consequences are carried out. */
struct work {
    struct work *next;
    struct arena arena; /* the event's texts, the decision, and its scratch */
    struct slot *slot;
    const struct plan *plan; /* EVENT_START: one reference */
    struct run_event event;
    uint64_t invocation_id; /* EVENT_REPLY; EVENT_LOCKED: slot.lock_number when it was asked */
    struct run_decision decision;
    struct passage *passages; /* of the commands, NULL: none; each until it is a flight's */
    uint32_t passages_count;
    struct passage answered; /* EVENT_REPLY: until it is decided */
    uint32_t durable;        /* records of the decision that a store writes */
    enum work_repair { REPAIR_NONE, REPAIR_NO_PAYLOAD, REPAIR_QUARANTINE } repair;
    void (*cb)(void *arg, const struct runner_answer *answer);
    void *cb_arg;
};

struct slot {
    struct map_node node;     /* by run id */
    struct stray_run *strays; /* has the image then; NULL: the slot has it */
    struct heap_node place;   /* tenants.c: waits for a place */
    struct tenant *tenant;    /* where it has a place or waits for one; NULL: neither */
    bool has_place;
    struct heap_node due;
    struct str id;
    uint16_t shard;
    struct run *run; /* NULL: loading, or a start not decided yet */
    bool loading, busy, ready;
    bool held; /* busy until runner_unhold */
    struct slot *ready_next;
    struct work *head, **tail;
    uint32_t queued, flights;
    struct slot_wait *waits;
    uint64_t lock_number; /* under which the lock was asked for; 0: it was not */
};

/* An invocation whose reply has not come. */
struct flight {
    struct map_node node; /* by id */
    uint64_t id;
    struct slot *slot;
    struct effect_ref ref;
    char *item;
    uint32_t attempt;
    bool asks; /* a read: `attempt` numbers the finding */
    struct passage passage;
};

/* A unit and the works whose records it holds. */
struct box {
    struct box *next;
    struct unit unit;
    struct arena arena; /* unit_run array */
    struct work **works;
    uint32_t works_count, works_size, records;
    uint64_t seq;
};

/* A dry run whose answer has not come. */
struct rehearsal {
    struct rehearsal *next;
    uint64_t id;
    struct passage passage;
    void (*cb)(void *arg, const struct reply *reply); /* NULL: nobody waits any more */
    void *arg;
};

enum input_kind {
    INPUT_UNIT,
    INPUT_COMMIT,
    INPUT_REPLY,
    INPUT_LOCKED,
    INPUT_LOADED,
    INPUT_LOAD_DONE,
    INPUT_LOAD_RUN_DONE,
    INPUT_DOWN,
    INPUT_UP
};

struct input {
    struct input *next;
    enum input_kind kind;
    struct arena arena;
    uint64_t id; /* invocation, shards, or number of a lock */
    enum run_state removed;
    struct unit_answer answer;
    struct reply reply;
    const struct plan *plan;
    struct str run_id;
    struct run_record *records;
    uint32_t count;
};

struct runner {
    struct runner_config config;
    struct tally tally;
    struct port_store store;
    struct port_invoke invoke;
    struct port_watch watch;

    struct map slots, flights;
    struct map children; /* children.c: who waits for which child */
    struct map gates;    /* gates.c */
    struct map strays;   /* strays.c */
    struct map tenants;  /* tenants.c */
    struct tenant *tenants_listed;
    uint64_t tenants_shards;
    struct rehearsal *rehearsals;
    uint32_t rehearsals_count;
    struct heap due;
    struct slot *ready, **ready_tail;
    struct input *inputs, **inputs_tail;

    /* the write lane */
    bool owned, store_is_up, repairing, draining, closing;
    uint64_t epoch, seq, decided_seq;
    struct box *sent, **sent_tail;       /* in order, not answered */
    struct box *waiting, **waiting_tail; /* sealed, to be sent (again) under new numbers */
    struct box *open;                    /* collects the decisions of this turn */
    uint32_t sent_count;
    uint64_t shards, shards_loading, shards_leaving;
    uint64_t shards_releasing; /* in a unit that is not decided */
    struct str leaving_to;
    struct arena leaving_arena;

    struct work *committing;  /* wait for the commit of their SQL action */
    uint64_t next_invocation; /* also numbers what locks are asked under */
    struct wall now;
    struct runner_stats stats;
};

/* --- runner.c --- */

struct slot *slot_find(const struct runner *runner, struct str id);
struct slot *slot_new(struct runner *runner, struct str id);
struct work *work_new(struct slot *slot, enum run_event_kind kind);
void work_queue(struct runner *runner, struct work *work);

void slot_free(struct runner *runner, struct slot *slot);
/* After something ended for the slot: goes on with its queue, waits for its due time, or leaves. */
void slot_settle(struct runner *runner, struct slot *slot);
/* Drops the image, which is ahead of the database, and loads it again. Attempts in flight are cut
 * off: what became of them is unknown, as after a take-over. */
void slot_reload(struct runner *runner, struct slot *slot);
void work_free(struct work *work);
void work_queue_first(struct runner *runner, struct work *work);
void answer_send(struct work *work, const struct runner_answer *answer);
void answer_error(struct work *work, enum err_code code, const char *text);
/* The records are durable: commands go out, the caller is answered. */
void work_finish(struct runner *runner, struct work *work);
/* Only after the acknowledgement (law 3). */
void command_invoke(struct runner *runner, struct slot *slot, const struct run_command *command,
                    struct passage *passage);
/* What was not acknowledged is gone with the lease. */
void work_lost(struct runner *runner, struct work *work);
/* The submit's inbox row, if it came by one, must be settled although its run existed before. */
void start_settle_taken(struct work *work, const struct unit_taken *taken);

/* --- children.c --- */

/* Starts the child or tells it to undo itself; its end will be the reply. */
void child_invoke(struct runner *runner, const struct slot *parent,
                  const struct run_command *command);
void child_cancel(struct runner *runner, const struct slot *parent,
                  const struct run_command *command);
/* The run's state is durable: if it has ended, whoever waits for it is told. */
void child_ended(struct runner *runner, const struct run *child);
/* Forgets the waits of these shards: their runs ask again where they are loaded. */
void children_drop(struct runner *runner, uint64_t shards);

/* --- gates.c: limits and breakers; nothing of it costs runs of workflows without --- */

/* Before the decision: what it may send. */
void gates_open(struct runner *runner, struct work *work);
/* After it: what it sends is in the books, and what it was granted is used or given back. */
void gates_pass(struct runner *runner, struct work *work);
/* The places of what will not be sent any more are free. */
void gates_forgo(struct work *work);
void passage_forgo(struct passage *passage);
/* The decision is durable: its run waits for what it says. */
void gates_wait(struct runner *runner, struct slot *slot);
/* The slot waits for nothing any more. */
void gates_leave(struct slot *slot);
/* Wakes those that may go on, in the order of their gates. */
void gates_pump(struct runner *runner);
struct wall gates_due(struct runner *runner);
void gates_count(const struct runner *runner, struct runner_stats *stats);
void gates_free(struct runner *runner);

/* A place for a request that belongs to no run, and waits for none. Errors: ERR_LIMIT. */
MUST_USE int gates_admit(struct runner *runner, const struct plan_service *service, struct wall now,
                         struct passage *out, struct err *err);

/* --- rehearsals.c --- */

/* Passed over if no dry run has this id. */
void rehearsal_replied(struct runner *runner, uint64_t id, const struct reply *reply);
void rehearsals_drop(struct runner *runner);

/* --- tenants.c --- */

/* Before a decision: whether a run that would begin finds a place. */
void tenants_open(struct runner *runner, struct work *work);
/* After one: the run takes its place, gives it back, or waits for one. */
void tenants_count(struct runner *runner, struct slot *slot);
/* The image goes: for good, or it is loaded anew, and the run keeps its place meanwhile. */
void tenants_leave(struct runner *runner, struct slot *slot);
void tenants_reload(struct slot *slot);
/* Wakes as many as there are places, the oldest first. */
void tenants_pump(struct runner *runner);
void tenants_free(struct runner *runner);

/* --- strays.c --- */

/* Hands on what the participant said of an attempt that is lost with the lease. `run` is read. */
void stray_tell(struct runner *runner, struct run *run, const struct effect_ref *ref,
                uint32_t attempt, const struct reply *reply);
/* Takes the flight's run and item, so that its answer can be told when it comes: the flight can
 * only be freed then. False: nobody wants the answer, nothing was taken. */
bool stray_keep(struct runner *runner, struct flight *flight);
/* Passes over ids that are no stray's. */
void stray_reply(struct runner *runner, uint64_t id, const struct reply *reply);
void strays_free(struct runner *runner);

/* --- lane.c --- */

/* Adds the work's records to the unit that is open. */
void work_write(struct runner *runner, struct work *work);
/* The bytes of a unit with this work alone, for a commit together with its SQL action. */
void *work_encode(struct runner *runner, struct work *work);
/* The oldest unit sent was answered. */
void unit_answered(struct runner *runner, const struct unit_answer *answer);
/* Sends what may be sent. */
void lane_pump(struct runner *runner);
/* Sends what is undecided again, byte for byte. */
void lane_resend(struct runner *runner);
void lane_lost(struct runner *runner);

#endif
