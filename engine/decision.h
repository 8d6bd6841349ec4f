/*
 * decision.h: the input and output of run_decide, and the pen it writes with.
 *
 * A decision is records (facts to be made durable) and commands (things to do once they are).
 * Each record is applied to the run as it is written, so that one event may lead through several
 * transitions (a reply ends a step, the next is claimed) in one decision and thus in one unit. If
 * the unit is not accepted, the runner drops the whole image and loads it again.
 */
#ifndef ENGINE_DECISION_H
#define ENGINE_DECISION_H

#include "engine/gate.h"
#include "engine/outcome.h"
#include "engine/render.h"

#define RUN_EVENTS(X)                                                                           \
    X(EVENT_START, "start")     /* a submit */                                                  \
    X(EVENT_REPLY, "reply")     /* an attempt ended */                                          \
    X(EVENT_DUE, "due")         /* run_due has passed */                                        \
    X(EVENT_RECOVER, "recover") /* ownership gained: attempts without an answer are unknown */  \
    X(EVENT_LOCKED, "locked")   /* the run holds its lock, and will until its end is durable */ \
    /* workers: see task.h */                                                                   \
    X(EVENT_TAKE, "take")                                                                       \
    X(EVENT_COMPLETE, "complete")                                                               \
    X(EVENT_FAIL, "fail")                                                                       \
    X(EVENT_HEARTBEAT, "heartbeat")                                                             \
    /* operator verbs */                                                                        \
    X(EVENT_CANCEL, "cancel")                                                                   \
    X(EVENT_PAUSE, "pause")                                                                     \
    X(EVENT_RESUME, "resume")                                                                   \
    X(EVENT_RETRY, "retry")                                                                     \
    X(EVENT_SETTLE, "settle")                                                                   \
    X(EVENT_SKIP, "skip")                                                                       \
    X(EVENT_COMPENSATE, "compensate")                                                           \
    X(EVENT_ABANDON, "abandon")                                                                 \
    X(EVENT_SIGNAL, "signal")   /* data for a wait_for; needs no reason */                      \
    X(EVENT_MIGRATE, "migrate") /* to another version of the workflow */                        \
    X(EVENT_APPROVE, "approve")                                                                 \
    X(EVENT_REJECT, "reject")                                                                   \
    X(EVENT_ANSWER, "answer")   /* a participant says what became of a key; needs no reason */  \
    X(EVENT_DRY_RUN, "dry_run") /* a person looks at what a step would do; decides nothing */
enum run_event_kind {
    EVENT_NONE,
#define X(id, name) id,
    RUN_EVENTS(X)
#undef X
        EVENT_KIND_COUNT
};
const char *run_event_name(enum run_event_kind kind);
enum run_event_kind run_event_of(struct str name);

struct run_event {
    enum run_event_kind kind;
    struct wall now;           /* database time; time is nothing but this field */
    const struct json *env;    /* what `env.NAME` may read; NULL: nothing */
    const struct json *people; /* who is who: see approval.h; NULL: nobody is named */
    bool no_place;             /* its tenant has as many in flight as it may: nothing begins */
    bool hold;                 /* shutting down: answers are recorded, nothing new is claimed */
    /* What may be sent to each service of the plan; the decision counts down what it sends. NULL:
     * there are no limits. */
    struct gate_room *rooms;
    struct record_start start; /* EVENT_START */

    struct { /* EVENT_REPLY */
        struct effect_ref ref;
        uint32_t attempt; /* asked: the number of the finding */
        bool asked;       /* of a read that asks about the effect */
        const struct reply *reply;
    } reply;

    struct {                       /* EVENT_TAKE to EVENT_HEARTBEAT; inbox_id is the verb's */
        struct str key, token;     /* token: not of a take */
        const struct reply *reply; /* EVENT_COMPLETE, EVENT_FAIL */
    } task;

    struct {             /* verbs */
        struct str step; /* ID[.ITEM][:execute|:compensate], "" = whatever stopped */
        struct str reason, actor;
        struct str inbox_id; /* settles this row in the same unit; absent: came by socket */
        bool applied;        /* settle, answer */
        uint32_t attempt;    /* answer: about this one only; 0: about the key */
        bool force;
        struct str output; /* settle --applied, skip, signal's data: JSON text, absent: none */
        struct str input, step_input; /* retry: JSON texts, absent: as they are */
        /* signal; answer: the key; approve, reject: the request's hash, or "" */
        struct str name;
        bool by_parent;          /* cancel, compensate: asked by the run whose child this is */
        const struct plan *plan; /* migrate: to this version */
        bool dry_run;            /* migrate: only says whether it could */
    } verb;
};

/* What a worker is told: of a take all of it, of a heartbeat the times. Borrowed like the decision
 * it belongs to. */
struct run_task {
    struct str key, token, step, compensates; /* compensates: absent for an execute */
    enum direction direction;
    uint32_t attempt;
    struct str payload; /* JSON text */
    struct wall deadline_at;
    int64_t heartbeat_us; /* 0: none is asked for */
    bool turned_back;     /* the run goes back: what is finished now will be undone */
};

/* What a person may look at before the step does it. Borrowed like the decision it belongs to. */
struct run_rehearsal {
    struct rendered dry_run;   /* without a key */
    const struct plan *plan;   /* in which actions and services lie */
    const struct json *action; /* the request that it stands for, as render_show */
    struct sha256 action_hash;
};

enum run_command_kind {
    COMMAND_NONE,
    COMMAND_INVOKE,       /* send, once the claim is durable */
    COMMAND_ASK,          /* send the read that asks about the effect */
    COMMAND_ROLLBACK,     /* the open SQL action was not applied: end its transaction */
    COMMAND_OFFER,        /* a worker may take it */
    COMMAND_CHILD_CANCEL, /* tell the child to turn back; its end is the reply of its attempt */
    COMMAND_LOCK,         /* ask for the run's lock: EVENT_LOCKED once it is held */
};

struct run_command {
    enum run_command_kind kind;
    struct effect_ref ref;
    uint32_t attempt;
    struct rendered rendered; /* borrows from scratch, plan and run */
    int64_t timeout_us;
    struct wall deadline_at;
    struct wall send_until; /* a repeat under a key that ends then; unset: no limit */

    struct {
        struct str queue, key;
    } offer; /* COMMAND_OFFER */
};

struct run_decision {
    struct run_record *records; /* in order; on the scratch arena */
    uint32_t records_count, records_capacity;
    struct run_command *commands;
    uint32_t commands_count, commands_capacity;
    bool commit_action;          /* the records commit with the SQL action whose reply this was */
    struct err answer;           /* of a verb: code 0 = decided, or why not (ERR_CONFLICT, ...) */
    const struct run_task *task; /* EVENT_TAKE, EVENT_HEARTBEAT */
    const struct run_rehearsal *rehearsal; /* EVENT_DRY_RUN */
    bool reload;                           /* once it is durable the image is loaded again */
};

/* What floors 3 to 5 pass along. */
struct draft {
    struct run *run;
    const struct run_event *event;
    struct arena *scratch; /* lives until the decision was carried out */
    struct run_decision *out;
    uint32_t claims; /* items begun so far */
};

/* To be asked before each item of a loop is begun: false once CLAIMS_PER_DECISION are. Then run_due
 * asks for another event at once, and the rest follows. */
bool draft_may_claim(struct draft *draft);

/* Appends the record and applies it. */
void draft_record(struct draft *draft, const struct run_record *record);
void draft_command(struct draft *draft, const struct run_command *command);

/* True if this very decision claimed the side: nothing of it was sent. Its command is taken back.
 */
bool draft_unclaim(struct draft *draft, const struct instance *instance, enum direction direction);

/* What rendering the action or compensation of a claimed side takes. */
struct render draft_render(const struct draft *draft, const struct instance *instance,
                           enum direction direction, const struct effect_state *side);

/* The same for the common kinds. `side` is the full new state of ref's effect. */
void draft_effect(struct draft *draft, const struct instance *instance, enum direction direction,
                  const struct effect_state *side);
void draft_run(struct draft *draft, const struct record_run *now);
/* {code, status, message, body} of an error that no participant sent. */
struct str draft_error(struct draft *draft, const char *code, const char *message);
void draft_event(struct draft *draft, const char *what, struct str step, struct str detail);

#endif
