/*
 * tick.h: which tick of a schedule is to be started now, and what a daemon that looks after a
 * schedule remembers of it.
 *
 * The store has the last word on every tick (saga.schedule_tick_v1); whatever is remembered here
 * may be old, and is asked for anew whenever an answer is missing or does not fit.
 */
#ifndef ENGINE_TICK_H
#define ENGINE_TICK_H

#include "dsl/plan.h"

/* A tick that is not older was not missed: the daemon was only slow. */
#define TICK_GRACE_US MINUTE_US

/* What is known of one schedule. Zeroed: nothing yet. */
struct tick_state {
    struct sha256 hash;         /* of the definition that the rest is about */
    struct wall last;           /* the tick that was dealt with last; none: not known */
    struct wall busy_until;     /* the run of that tick was open then; none: it was not seen open */
    struct wall tick, asked_at; /* the question that is under way */
    bool asking;
};

enum tick_step {
    TICK_STEP_NONE,
    TICK_STEP_LEARN, /* ask where the schedule stands, then tick_learned */
    TICK_STEP_START, /* ask for the run of `state->tick`, then tick_answered */
};

/* What became of a tick; the words of saga.schedule_tick_v1. */
enum tick_answer {
    TICK_ANSWER_NONE, /* not known: the question or its answer was lost */
    TICK_ANSWER_STARTED,
    TICK_ANSWER_SKIPPED,
    TICK_ANSWER_BUSY,
    TICK_ANSWER_OTHER,
};

enum tick_answer tick_answer_of(struct str text);

/* What is to be asked at `now`, at most one question at a time. `plan` has a schedule. */
enum tick_step tick_look(struct tick_state *state, const struct plan *plan, struct wall now);
/* `last` none: no answer came. `busy_until`: when the run of the last tick ended, or now if it is
 * open; none if there was no run. */
void tick_learned(struct tick_state *state, struct wall last, struct wall busy_until);
void tick_answered(struct tick_state *state, enum tick_answer answer);
/* The tick that tick_look gave cannot be asked for: it is passed over. */
void tick_give_up(struct tick_state *state);

/* The tick to start at `now`, when `last` was the last one that was dealt with; WALL_NONE: none is
 * due. What lies between them is passed over, as `catch_up` says. What came up to `busy_until`
 * waits under `overlap: queue`, so it was not missed. */
struct wall tick_due(const struct plan_schedule *schedule, struct wall last, struct wall busy_until,
                     struct wall now);

/* WORKFLOW-20261025T023000Z */
struct str tick_run_id(struct str workflow, struct wall tick, struct arena *arena);

#endif
