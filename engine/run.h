/*
 * run.h: the state of a run, the records that change it, and the only function that writes it.
 *
 * run_apply is used live (the records that run_decide returns) and on reload (the records that a
 * store makes of its rows), so the image in memory and the rows can only differ by what is not yet
 * durable. Records carry full new values, never increments: applying one twice changes nothing.
 */
#ifndef ENGINE_RUN_H
#define ENGINE_RUN_H

#include "engine/base/heap.h"
#include "engine/request.h"

#define RUN_ID_BYTES_MAX 94 /* submitted ids; see "Keys" in the README of engine/ */
#define RUN_SHARDS 64       /* frozen by the first migration */
#define RUN_DEPTH_MAX 16    /* children of children: a workflow that starts itself must end */

#define RUN_STATES(X)                                                            \
    X(RUN_QUEUED, "queued")             /* waits for its time or its lock */     \
    X(RUN_RUNNING, "running")           /* forward */                            \
    X(RUN_COMPENSATING, "compensating") /* backward */                           \
    X(RUN_COMPLETED, "completed")       /* end: everything applied */            \
    X(RUN_COMPENSATED, "compensated")   /* end: everything applied was undone */ \
    X(RUN_PARKED, "parked")             /* waits for a person */                 \
    X(RUN_ABANDONED, "abandoned")       /* end: closed by a person, with a residue */
enum run_state {
    RUN_NONE,
#define X(id, name) id,
    RUN_STATES(X)
#undef X
};
#define X(id, name) +1
enum { RUN_STATE_COUNT = 1 RUN_STATES(X) }; /* for arrays by run_state */
#undef X

#define STEP_STATES(X)                                                                            \
    X(STEP_PENDING, "pending")                                                                    \
    X(STEP_CLAIMED, "claimed")   /* the key is durable; sent or about to be */                    \
    X(STEP_RETRYING, "retrying") /* until next_at */                                              \
    X(STEP_WAITING, "waiting")   /* timer, worker, or what `waits_for` says */                    \
    X(STEP_UNKNOWN, "unknown")   /* may or may not be applied: asked until the participant can */ \
    /* tell, or nothing automatic is left */                                                      \
    X(STEP_APPLIED, "applied")                                                                    \
    X(STEP_REFUSED, "refused") /* permanently not applied */                                      \
    X(STEP_SKIPPED, "skipped")                                                                    \
    X(STEP_WITHDRAWN, "withdrawn") /* a wait ended because the run turned back */
enum step_state {
    STEP_NONE,
#define X(id, name) id,
    STEP_STATES(X)
#undef X
};

/* Why the request of a waiting side may not go out. */
#define WAITS_FOR(X)                                                     \
    X(WAITS_LIMIT, "limit")     /* its service's limits leave no room */ \
    X(WAITS_BREAKER, "breaker") /* its service's breaker is open */
enum waits_for {
    WAITS_NONE,
#define X(id, name) id,
    WAITS_FOR(X)
#undef X
};

/* Why the run turned back. */
#define RUN_CAUSES(X)                                             \
    X(CAUSE_STEP_REFUSED, "step_refused")                         \
    X(CAUSE_BUDGET, "budget") /* retries or their time ran out */ \
    X(CAUSE_DEADLINE, "deadline")                                 \
    X(CAUSE_CANCELLED, "cancelled")                               \
    X(CAUSE_OPERATOR, "operator")                                 \
    X(CAUSE_PARENT, "parent") /* a child whose parent turned back */
enum run_cause {
    CAUSE_NONE,
#define X(id, name) id,
    RUN_CAUSES(X)
#undef X
};

/* Why the run is parked. */
#define PARK_REASONS(X)                                                      \
    X(PARK_OUTCOME_UNKNOWN, "outcome_unknown")                               \
    X(PARK_COMPENSATION_FAILED, "compensation_failed")                       \
    X(PARK_PIVOT_PASSED, "pivot_passed")                                     \
    X(PARK_KEY_CONFLICT, "key_conflict")                                     \
    X(PARK_STEP_FAILED, "step_failed") /* on_failure: park */                \
    X(PARK_CRASH_LOOP, "crash_loop")                                         \
    X(PARK_QUARANTINE, "quarantine") /* PostgreSQL refused its records */    \
    X(PARK_REPAIR, "repair")         /* on_failure: repair */                \
    X(PARK_COMPENSATION_BUDGET, "compensation_budget")                       \
    X(PARK_LATE_SUCCESS, "late_success") /* of a step of an abandoned run */ \
    X(PARK_APPROVAL_EXPIRED, "approval_expired")                             \
    X(PARK_SUSPECT, "suspect") /* after a restore: suspect.h */
enum park_reason {
    PARK_NONE,
#define X(id, name) id,
    PARK_REASONS(X)
#undef X
};

const char *waits_for_name(enum waits_for waits_for);
enum waits_for waits_for_of(struct str name);
const char *run_state_name(enum run_state state);
const char *step_state_name(enum step_state state);
const char *run_cause_name(enum run_cause cause);
const char *park_reason_name(enum park_reason reason);
/* Each returns the zero value for an unknown name. */
enum run_state run_state_of(struct str name);
enum step_state step_state_of(struct str name);
enum run_cause run_cause_of(struct str name);
enum park_reason park_reason_of(struct str name);
enum outcome outcome_of(struct str name);
enum direction direction_of(struct str name);

bool run_state_is_terminal(enum run_state state);

/* The transition table of run states, as data: printed by `sagactl explain --states`, drawn in the
 * README, and checked against every transition that the tests see. */
struct run_transition {
    enum run_state from, to; /* RUN_NONE -> the first state */
    const char *why;
};
extern const struct run_transition run_transitions[];
extern const size_t run_transitions_count;
bool run_transition_allowed(enum run_state from, enum run_state to);
/* The same for what a store sees: one decision may lead through a second state, though not through
 * `queued`, in which a run waits for another event. */
bool run_transition_reaches(enum run_state from, enum run_state to);

/* Names one effect: a step instance, a direction, a generation. */
struct effect_ref {
    uint16_t step;   /* index in the plan */
    struct str item; /* "" = the step itself; "3" = instance send.3 */
    enum direction direction;
    uint16_t generation; /* from 1 */
};

/* Waiting and pending: until next_at a person may decide. */
#define APPROVALS(X)               \
    X(APPROVAL_PENDING, "pending") \
    X(APPROVAL_GIVEN, "approved")  \
    X(APPROVAL_DENIED, "rejected") \
    X(APPROVAL_EXPIRED, "expired")
enum approval {
    APPROVAL_NONE,
#define X(id, name) id,
    APPROVALS(X)
#undef X
};
const char *approval_name(enum approval approval);
enum approval approval_of(struct str name); /* APPROVAL_NONE for an unknown name */

/* One direction of a step instance, current generation: what the row of saga.effect holds. */
struct effect_state {
    enum step_state state;
    uint16_t generation;      /* 0: never claimed */
    uint32_t claim_no;        /* the run's own claim counter; 0: skipped, nothing was sent */
    uint32_t attempts;        /* durable sends; never goes back */
    uint32_t attempts_free;   /* of those, the ones that cost none */
    uint32_t attempts_base;   /* attempts when a person opened a new budget */
    uint32_t pickups;         /* take-overs in mid-attempt since the last outcome */
    bool maybe_applied;       /* an attempt ended unknown: sticky until reconcile or a person */
    bool by_hand;             /* settled or skipped by a person */
    enum waits_for waits_for; /* of a waiting side; none: something else */
    bool output_invalid;      /* the answer could not be kept: too large, not text, not JSON */
    enum outcome outcome;     /* joined over the attempts so far */
    struct sha256 request_hash;
    struct wall claimed_at; /* first claim: fixes now(), budget and key lifetime */
    struct wall budget_at;  /* no send after it */
    struct wall key_valid_until;
    struct wall next_at; /* retrying: the next send; waiting: the end */
    struct wall ended_at;
    /* Of an outcome that is or was unknown. */
    struct wall unknown_at; /* since when: the end of the attempt, or its take-over */
    struct wall ask_until;  /* unknown and next_at is set: asked until then; unset: not asked yet */
    uint32_t findings;      /* what was learned about it otherwise than by an attempt's answer */
    enum outcome found;     /* what the newest of them says */
    enum approval approval; /* a person's word, where the step asks for one */
    struct str answer;      /* JSON text of the last answer, where `reconcile` may read it */
    struct str step_input;  /* JSON text that a person gave instead of what the workflow says */
    struct str renewed;     /* why this generation was begun after another; absent: the first */
    struct str output;      /* JSON text; absent: none */
    struct str error;       /* JSON text {code, status, message, body}; absent: none */
    /* Of a for_each's own side (item ""): the JSON list of [key, item] that its instances stand
     * for. Fixed by the claim; absent in an update: as it was. */
    struct str items;
    bool stored; /* a row exists (memory only) */
};

#define RECORD_KINDS(X)                                                                            \
    X(RECORD_START)   /* run_key and run are inserted; the whole group is skipped if not fresh */  \
    X(RECORD_CLAIM)   /* an effect is inserted */                                                  \
    X(RECORD_EFFECT)  /* an effect is updated */                                                   \
    X(RECORD_ATTEMPT) /* an attempt that did not go right the first time */                        \
    X(RECORD_FINDING) /* what was learned about an effect otherwise than by an attempt's answer */ \
    X(RECORD_RUN)     /* the run's own columns are updated */                                      \
    X(RECORD_EVENT)   /* a line of the run's history that no row tells by itself */                \
    X(RECORD_INBOX)   /* a row of the inbox is settled */                                          \
    X(RECORD_PIN)     /* the run goes on under another version of its workflow */                  \
    X(RECORD_APPROVAL) /* a person is asked, or has decided */                                     \
    X(RECORD_INPUT)    /* a person corrected the run's input, for what is claimed from then on */  \
    X(RECORD_SIGNAL)   /* a signal came: the first of its name, kept for whoever waits for it */   \
    X(RECORD_BEGUN)    /* memory only: a SQL action runs whose record will commit with it */
enum record_kind {
    RECORD_NONE,
#define X(id) id,
    RECORD_KINDS(X)
#undef X
        RECORD_KIND_COUNT
};

struct record_start {
    struct str tenant;        /* "" = none */
    struct str actor;         /* who submitted: "uid:1000", "role:shop" */
    struct str input;         /* JSON text as it came */
    struct sha256 input_hash; /* of the canonical form */
    struct wall created_at, deadline_at;
    struct wall start_at; /* queued until then; none: started at once */
    struct str parent;    /* the run whose step it is; "" = none */
    uint16_t depth;       /* 0: no parent; see RUN_DEPTH_MAX */
    struct str lock;      /* the value that it must hold before it does anything; "" = none */
    bool waits;           /* its tenant had no place for it; not stored: the state tells */
    /* The database was restored: what the run did from then on may be missing. None: it was not, or
     * a person vouches for the run. Computed by the store from its rows. */
    struct wall suspect_from;
};

/* What the run is when nothing but this record is known: queued or running. */
enum run_state record_start_state(const struct record_start *start);

struct record_effect { /* RECORD_CLAIM, RECORD_EFFECT, RECORD_BEGUN */
    struct effect_ref ref;
    struct effect_state state;
    uint32_t turn; /* a claim is refused by the store if the run's turn is another */
};

struct record_attempt {
    struct effect_ref ref;
    uint32_t number;
    struct wall sent_at, ended_at;
    enum outcome outcome;
    int status;       /* 0: none */
    struct str error; /* JSON text or absent */
};

#define FINDING_SOURCES(X)                                                    \
    X(FINDING_RECONCILE, "reconcile") /* the participant was asked */         \
    X(FINDING_ANSWER, "answer")       /* the participant said so by itself */ \
    X(FINDING_PERSON, "person")       /* settle */
enum finding_source {
    FINDING_NONE,
#define X(id, name) id,
    FINDING_SOURCES(X)
#undef X
};
const char *finding_source_name(enum finding_source source);

struct record_finding {
    struct effect_ref ref;
    uint32_t number; /* from 1, per key */
    struct wall at;
    enum finding_source source;
    enum outcome says; /* retryable: proven not applied; unknown: it cannot tell */
    int status;        /* of the read; 0: none */
    struct str detail; /* one line for people */
    struct str body;   /* JSON text of what it is based on; absent: nothing */
    struct str actor;  /* of a person, or "" */
};

struct record_run {
    enum run_state state;
    enum direction direction;
    uint32_t turn; /* raised each time the direction changes */
    enum run_cause cause;
    enum park_reason
        reason; /* while parked; late_success: also while it waits for its lock first */
    bool paused;
    struct str error;   /* first failure: JSON text {step, code, status, message, body} */
    struct str output;  /* JSON text once completed */
    struct str residue; /* JSON list once ended or parked; absent: none */
    struct wall ended_at;
    struct wall compensate_until; /* of a run that goes back; none: it has all the time it takes */
};

struct record_event {
    uint32_t seq; /* the run's own counter, from 1 */
    struct wall at;
    struct str what;   /* "turned back", "parked", "retry", ... */
    struct str step;   /* instance or "" */
    struct str detail; /* one line for people, or "" */
    struct str actor;  /* of an operator's act, or "" */
};

/* The event by which a person vouches for a run of a restored database. */
#define RUN_EVENT_TRUSTED "trusted"

struct record_inbox {
    struct str id;
    struct str outcome; /* "done", "refused", "conflict" */
    enum err_code code; /* why not; ERR_NONE: done */
    struct str answer;  /* one line, or "" */
};

/* As the database takes it: "done", "refused:not_found". */
struct str record_inbox_outcome(const struct record_inbox *inbox);

/* Data for the steps that wait for its name. The first one of a name stays. */
struct record_signal {
    struct str name;
    struct str data; /* JSON text, never absent: without data it is "null" */
    struct wall at;
    struct str actor;
};

/* What a person is asked, and what was decided. A second record of one key decides the first: its
 * request, message and times stay. */
struct record_approval {
    struct effect_ref ref;
    enum approval state;
    struct sha256 request_hash;
    struct str request; /* JSON text of the exact request; absent: as it was */
    struct str message; /* or "" */
    struct str by;      /* any, other, or a group */
    struct wall asked_at, expires_at;
    struct wall decided_at; /* with the claim that consumes it, if it is approved */
    struct str actor, reason;
};

/* The run's input from a claim on: what was claimed before keeps the one that it saw, and so does
 * its compensation. A correction on the way back is for compensations alone. */
struct record_input {
    uint32_t number;     /* from 1 */
    uint32_t from_claim; /* the first claim_no that it is for */
    enum direction direction;
    struct str input; /* JSON text */
    struct wall at;
    struct str actor;
};

struct record_pin {
    const struct plan *plan; /* borrowed; the image is loaded again under it */
};

struct run_record {
    enum record_kind kind;
    union {
        struct record_start start;
        struct record_effect effect;
        struct record_attempt attempt;
        struct record_finding finding;
        struct record_run run;
        struct record_event event;
        struct record_inbox inbox;
        struct record_signal signal;
        struct record_input input;
        struct record_approval approval;
        struct record_pin pin;
    };
};

struct group; /* engine/group.h */

/* A side of an instance in one of its run's heaps. */
struct due_node {
    struct heap_node node;
    enum direction direction;
};

/* A step, or one item of a for_each. The step of a for_each is an instance too, with item "": its
 * execute side holds the items and waits until they are through; it has no compensation. */
struct instance {
    uint16_t step;
    uint8_t standing, undo; /* enum standing, enum undo_status of the state; kept by run_apply */
    uint32_t place;         /* of an item: its index */
    uint32_t undo_place;    /* of an item: its place on the way back (group.h) */
    uint32_t counted_claim; /* of an item: the claim by which it was placed there */
    bool counted_applied;   /* of an item: it counts as applied in its group */
    struct str item;
    struct group *group; /* of a for_each's own instance: its items, once they are known */
    struct effect_state execute, compensate;
    struct due_node execute_due, compensate_due;
};

struct run {
    struct arena run_arena;  /* owns everything below */
    const struct plan *plan; /* one reference */
    struct str id;
    uint16_t shard;
    struct record_start start;
    struct record_run now;      /* the newest RECORD_RUN, or what RECORD_START implies */
    uint32_t claims;            /* highest claim_no */
    uint32_t events;            /* highest event seq */
    struct instance *instances; /* one per step, file order; items hang in their step's group */
    uint16_t instances_count;
    struct record_signal *signals; /* in the order in which they came */
    uint32_t signals_count;
    struct record_input *inputs; /* corrections, in their order */
    uint32_t inputs_count;
    /* Memory only, kept by run_apply. */
    /* Sides with a next_at, by it: those that are retrying, and those that wait or, of a worker,
     * are claimed. */
    struct heap retries, waits;
    uint32_t held;            /* sides that wait for room at their service */
    const struct json *input; /* parsed, for runs that read a large one many times; else NULL */
    struct wall budget_told; /* memory only: the compensate_until that has passed and was seen to */
    /* Memory only: when the last decision was cut (draft_may_claim); unset: it was not. */
    struct wall cut_at;
    bool lock_asked;   /* memory only: the answer is the event that follows */
    bool lock_held;    /* memory only: until the run ends; false: it may hold it all the same */
    bool place_wanted; /* memory only: a DUE follows when its tenant has a place */
};

/* Takes a reference on the plan, copies the id. The run has no state until RECORD_START. */
struct run *run_new(const struct plan *plan, struct str id);
void run_free(struct run *run); /* NULL is allowed */

/* The only writer. Copies what it keeps. A record that cannot apply is a programmer error. */
void run_apply(struct run *run, const struct run_record *record);

/* Applies one record of a load. NULL, or one line that says why this row does not go with those
 * before it: then nothing of it was applied, and the image is good for nothing but run_free. */
const char *run_load(struct run *run, const struct run_record *record);

/* For each record the first one that writes the same row of a store: itself, unless there is an
 * earlier one. An array in `arena`. */
uint32_t *run_records_rows(const struct run_record *records, uint32_t count, struct arena *arena);

/* Moves every text of the record into the arena. */
void run_record_copy(struct run_record *record, struct arena *arena);

/* Walks all invariants; called after every apply in tests and after each load. NULL = sound,
 * else one line that names the broken one. */
const char *run_check(const struct run *run);

/* The signal of that name, NULL if none came. */
const struct record_signal *run_signal(const struct run *run, struct str name);

/* What `input` means for the direction of a side: `claim_no` is its own, `forward` its action's; 0:
 * not claimed yet. */
struct str run_input(const struct run *run, enum direction direction, uint32_t claim_no,
                     uint32_t forward);

/* NULL: there is no such item, or nothing was ever done about it, or its step has not begun. */
struct instance *run_instance(const struct run *run, uint16_t step, struct str item);
/* The same, but an item that nothing was done about is made an instance first. */
struct instance *run_instance_make(struct run *run, uint16_t step, struct str item);
/* Walks all instances that there are, in file order, items behind their step in item order:
 * NULL -> the first; NULL at the end. */
struct instance *run_instance_next(const struct run *run, const struct instance *after);
static inline bool instance_is_loop(const struct run *run, const struct instance *instance)
{
    return run->plan->steps[instance->step].for_each && !instance->item.len;
}
/* By the name that keys and verbs use: "charge", "send.3". NULL: there is none. */
struct instance *run_instance_named(const struct run *run, struct str name);
static inline struct effect_state *instance_side(struct instance *instance,
                                                 enum direction direction)
{
    return direction == DIRECTION_COMPENSATE ? &instance->compensate : &instance->execute;
}
/* Its request may not go out yet (admit.h). */
static inline bool side_is_held(const struct effect_state *side)
{
    return side->state == STEP_WAITING && side->waits_for != WAITS_NONE;
}
static inline const struct plan_action *step_action(const struct plan_step *step,
                                                    enum direction direction)
{
    return direction == DIRECTION_COMPENSATE ? &step->compensate : &step->action;
}

/* sha256(root)[0] & 63, root = the id up to the first `~`; the same function stands in SQL. */
uint16_t shard_of(struct str run_id);

#endif
