/*
 * gate.h: how much may be sent to one service now, and who goes next.
 *
 * A gate keeps the books of one service at one daemon: requests without an answer, the rate, the
 * share of repeats, the breaker, and the runs that wait. It sends nothing and knows no clock: times
 * come in. What limits say for all daemons together is divided by `share`, the shards that this
 * one owns, of GATE_SHARES.
 *
 * The breaker: closed; open until a time; then one request tries (half open). If it gets through,
 * what waits is released in growing cohorts: one more may be in flight for each answer, so about
 * twice as many a round, until nobody waits. A failure on the way halves the cohort.
 *
 * Waiting: what goes back goes before what goes forward; among equals tenants take turns (deficit
 * round robin with requests of equal size), each with its oldest first. A run that was chosen holds
 * its place (`granted`) until it has decided.
 *
 * The owner embeds struct gate_waiter; waiters must be removed before they or the gate go away.
 */
#ifndef ENGINE_GATE_H
#define ENGINE_GATE_H

#include "dsl/plan.h"
#include "engine/base/clock.h"
#include "engine/base/map.h"

#define GATE_SHARES 64
/* Repeats that are always allowed in the window, of all daemons together. */
#define GATE_RETRIES_MIN 10
#define GATE_WINDOW_US MINUTE_US
#define GATE_BUCKETS 60
/* How far ahead of the rate the next one may be: what is late may be made up for, and after a pause
 * so much goes at once. */
#define GATE_BURST_US (100 * MS_US)

#define BREAKER_STATES(X)                                   \
    X(BREAKER_CLOSED, "closed")                             \
    X(BREAKER_OPEN, "open")           /* nothing is sent */ \
    X(BREAKER_HALF_OPEN, "half_open") /* one request tries */
enum breaker_state {
    BREAKER_NONE,
#define X(id, name) id,
    BREAKER_STATES(X)
#undef X
};
const char *breaker_state_name(enum breaker_state state);
enum breaker_state breaker_state_of(struct str name); /* BREAKER_NONE for an unknown name */

/* Why a request does not go out now. */
enum gate_reason { GATE_NO_REASON, GATE_LIMIT, GATE_BREAKER };

struct gate_waiter {
    struct gate_waiter *next, *prev;
    struct gate_tenant *tenant; /* NULL: it does not wait */
    bool back;                  /* its run goes back */
    bool repeats;               /* it has been sent before */
    bool granted;               /* it was chosen, and has not decided yet */
    uint64_t number;            /* in the order in which they came */
};

/* The runs of one tenant that wait in one ring, first tries and repeats apart. */
struct gate_tenant {
    struct map_node node;     /* by name and ring */
    struct gate_tenant *next; /* in the ring of those that have some */
    bool back;
    struct str name;
    struct {
        struct gate_waiter *first, *last;
    } lists[2];
    char bytes[];
};

struct gate {
    struct plan_limits limits;
    uint32_t share; /* of GATE_SHARES; 0 counts as 1 */

    uint32_t in_flight; /* sent or about to be, without an answer */
    uint32_t trying;    /* of those, the ones since the breaker opened last */
    uint32_t granted;   /* places kept for waiters that were chosen */

    struct wall next_send; /* by the rate: when the one after the last is due */

    struct { /* of a second each */
        int64_t second;
        uint32_t first, repeats;
    } buckets[GATE_BUCKETS];

    enum breaker_state breaker;
    struct wall open_until;
    struct wall *failures; /* a ring of limits.breaker_failures times */
    uint32_t failures_size, failures_at;
    uint32_t cohort;   /* trying at most, while it recovers; 0: it does not */
    uint64_t openings; /* raised each time that it opens: answers to older requests do not count */
    bool changed;      /* the breaker's state, since gate_changed last told */

    struct gate_ring {
        struct gate_tenant *first, *last;
    } rings[2]; /* forward, back */
    struct map tenants;
    uint32_t waiting;
    uint64_t numbers;
};

void gate_init(struct gate *gate, const struct plan_limits *limits);
void gate_free(struct gate *gate);
/* Workflows that say different things about a service: the strictest counts. */
void gate_tighten(struct gate *gate, const struct plan_limits *limits);

/* What may be sent by a run that does not wait, or (`granted`) by one that was chosen. */
struct gate_room {
    uint32_t sends;          /* at most so many requests */
    uint32_t repeats;        /* of which so many may be repeats */
    enum gate_reason reason; /* why not more */
    struct wall open_until;  /* the breaker's, while it is open; else none */
};
struct gate_room gate_room(struct gate *gate, bool granted, struct wall now);

/* A request goes out, once its claim is durable. The answer names what gate_sent returned. */
uint64_t gate_sent(struct gate *gate, bool repeat, struct wall now);
/* It was not sent after all, or nobody waits for its answer. */
void gate_dropped(struct gate *gate, uint64_t opening);
enum gate_outcome {
    GATE_NOTHING, /* it says nothing about the service */
    GATE_WORKS,
    GATE_FAILS
};
void gate_answered(struct gate *gate, uint64_t opening, enum gate_outcome outcome, struct wall now);

/* Another daemon found it broken until then. */
void gate_open_until(struct gate *gate, struct wall until, struct wall now);
/* True once after the breaker's state changed. */
bool gate_changed(struct gate *gate);

/* The run waits; a waiter that waits already keeps its place. `tenant` is copied. */
void gate_wait(struct gate *gate, struct gate_waiter *waiter, struct str tenant, bool back,
               bool repeats);
/* It waits no longer, or has decided. NULL-safe for one that never did. */
void gate_unwait(struct gate *gate, struct gate_waiter *waiter);
/* The next one that may send: it is granted a place. NULL: none now. */
struct gate_waiter *gate_next(struct gate *gate, struct wall now);
/* When gate_next is to be asked again at the latest; none: only after an answer, or nobody waits.
 */
struct wall gate_due(struct gate *gate, struct wall now);

#endif
