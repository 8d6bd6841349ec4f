/*
 * ctl_model.h: a run as `show -o json` describes it, read into C: the one place that knows the
 * names of that contract. What is absent or null reads as "" or NULL, so that an older or newer
 * daemon can be shown too. Everything borrows from the JSON and the arena.
 */
#ifndef ENGINE_CTL_MODEL_H
#define ENGINE_CTL_MODEL_H

#include "engine/ctl_core.h"

/* What is known of an outcome that is not. */
struct model_unknown {
    bool set;                   /* else all the rest says nothing */
    bool undo;                  /* it is the compensation's */
    int64_t asked;              /* how often something was learned about it */
    struct wall since, next_at; /* next_at unset: it is not asked about any more */
    struct wall until;          /* of asking; unset: it never was */
    struct str found, source;   /* the newest answer in words; "" = none */
    struct wall found_at;
};

struct model_step {
    struct str label;       /* as people are told of it; the verbs take `id` */
    struct str short_label; /* without the hash: "send (Anna B)" */
    struct str id, effect, state, compensation_state, key, compensation_key;
    int64_t attempts, compensation_attempts;
    const struct json *output, *error, *compensation_error; /* NULL: none */
    struct wall started_at, ended_at, compensation_started_at, compensation_ended_at;
    struct wall next_at;
    int64_t items;                        /* of a loop that has begun: how many it has */
    struct str queue, compensation_queue; /* where workers take its tasks; "": no worker does it */
    struct model_unknown unknown;
    struct str renewed, compensation_renewed; /* why it has another key than the first; "" = not */
    const struct json *step_input, *compensation_step_input; /* a person's; NULL: none */
    struct str stays;    /* why the workflow does not undo it; "": it does */
    struct str approval; /* a person's word on it; "": nobody was asked */
    struct str folded;   /* what they are doing, if they are not shown one by one; else "" */
};

struct model_run {
    struct str id, workflow, version, tenant, state, cause, waiting_for, reason, parent;
    bool paused;
    struct { /* the step that the wait is about; all "" if there is none, or it is not known */
        struct str step, signal, queue, child, service;
        bool taken; /* a worker has the task */
    } waiting;
    struct { /* of its workflow: all "" if it neither holds nor waits for one */
        struct str value, holder;
        uint32_t position; /* 0: it holds it, or has not asked yet */
    } lock;
    struct { /* the parked run that it waits for, over locks and children; all "": none */
        struct str run, reason;
    } behind;
    const struct json *input, *output, *error, *residue; /* NULL: none; residue is a list */
    const struct json *parked_error;                     /* why it stopped; NULL: as `error` */
    const struct json *attempts, *findings;              /* lists, or NULL */
    const struct json *by_hand;  /* settles and skips {step, verb, actor, reason, at}, or NULL */
    const struct json *children; /* {run_id, workflow, state, ...}, ... */
    const struct json *verbs;    /* what the daemon calls safe, a list of texts, or NULL */
    const struct json *inputs;   /* corrected ones {number, direction, input, at, actor}, or NULL */
    struct wall created_at, ended_at, deadline_at, start_at;
    struct wall removed_at; /* of its data, by retention: nothing else than its end is known */
    struct wall compensate_until; /* going back: parked then */
    struct wall undoable_until;   /* completed: until then it may be undone */
    struct model_step *steps;
    uint32_t steps_count;
};

/* "send.131574c87834d71ca6ab77ff67e15a66 (Anna B)": a step, and what its item is called where its
 * id holds a hash of that; without an item_text just the step. */
struct str model_label(struct str step, struct str item_text, struct arena *arena);

struct model_run model_run_read(const struct json *json, struct arena *arena);

/* The error that matters now: of a parked run what stopped it, else its own; NULL: none. */
const struct json *model_run_error(const struct model_run *run);

/* Where the run stands; the order is that of model_end_exit. */
bool model_is_terminal(struct str state);
/* Ended, or parked: nothing more happens by itself. */
bool model_is_over(struct str state);
/* The exit code of a wait that found this state; CTL_OK for a run that is not over. */
int model_exit(struct str state);

/* "402 card_declined: the card was declined"; "" without an error. */
struct str model_error_text(const struct json *error, struct arena *arena);
/* JSON in one line. */
struct str model_value_text(const struct json *value, struct arena *arena);

/* What a step is doing, both directions taken together. */
enum model_phase {
    MODEL_PENDING,
    MODEL_SENDING,
    MODEL_RETRYING,
    MODEL_WAITING,
    MODEL_UNKNOWN,
    MODEL_APPLIED,
    MODEL_REFUSED,
    MODEL_SKIPPED,
    MODEL_WITHDRAWN,
    MODEL_UNDOING,
    MODEL_UNDO_RETRYING,
    MODEL_UNDONE,
    MODEL_UNDO_FAILED,
    MODEL_UNDO_UNKNOWN,
    MODEL_UNDO_SKIPPED,
};
enum model_phase model_phase_of(const struct model_step *step);
/* Folds the items of each loop that shows more than MODEL_ITEMS_SHOWN into its own step, whose
 * `folded` says how many are doing what; the first MODEL_ITEMS_SHOWN of those that something went
 * wrong with stay. The steps of `run` are replaced by others in the arena. */
#define MODEL_ITEMS_SHOWN 10
void model_fold_loops(struct model_run *run, struct arena *arena);
/* How many steps right before `end` are items of one loop, which stands before them; 0: none. */
uint32_t model_items_before(const struct model_run *run, uint32_t end);
/* How long the direction that the phase is about has taken, up to `now` if it is not over; false:
 * it was not begun. */
bool model_phase_took(const struct model_step *step, struct wall now, int64_t *out_us);
/* "applied", "retrying", "undone", ... */
const char *model_phase_word(enum model_phase phase);
/* The same of a step, which may be a worker's: "waiting for a worker", "with a worker". */
const char *model_step_word(const struct model_step *step);
/* The error that matters in this phase, or NULL. */
const struct json *model_phase_error(const struct model_step *step);

/* Why a run waits, as the end of "It waits for ...". */
struct str model_waiting_text(const struct model_run *run, struct arena *arena);
/* "order-7 is parked and needs a person: ...": the run that it stands behind; "": none. */
struct str model_behind_text(const struct model_run *run, struct arena *arena);
/* "unknown since 10:00:05 (20s ago); its service was asked 3 times, and is asked next in 5s, until
 * 10:10:05 at the latest; the newest answer, 2s ago: ..."; "" if the outcome of the step is known.
 */
struct str model_unknown_text(const struct model_step *step, struct wall now, struct arena *arena);
/* Why it turned back / is parked, in a clause: "a step was refused". */
const char *model_cause_text(struct str cause);
const char *model_reason_text(struct str reason);

/* The commands that lead on from here, one a line ("sagactl retry ID --reason ..."), safest first,
 * into a list of at most `max`. Returns how many. */
struct model_next {
    struct str command, meaning;
};
size_t model_next_commands(const struct model_run *run, struct wall now, struct arena *arena,
                           struct model_next *out, size_t max);

#endif
