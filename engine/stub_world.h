/*
 * stub_world.h: one run of a workflow in a simulated world: the real core and runner, services
 * that answer as they are told, time that jumps to whatever happens next.
 *
 * For `sagactl test`. Deterministic: no seed, no clock, no I/O; the same configuration gives the
 * same result, byte for byte. Faults are named one by one (the world that draws them at random is
 * tests/sim). A ledger at the services says what really happened, whatever the engine believes.
 */
#ifndef ENGINE_STUB_WORLD_H
#define ENGINE_STUB_WORLD_H

#include "dsl/test_plan.h"
#include "engine/stub_rows.h"

/* Where a test says nothing of a time. */
#define STUB_STARTS_AT_US (INT64_C(1767225600) * SECOND_US) /* 2026-01-01T00:00:00Z */
#define STUB_LATENCY_US (50 * MS_US)                        /* of an answer */
/* Deciding and storing take no time, so that times are easy to foretell. */
#define STUB_RESTART_US (1 * SECOND_US) /* a daemon that died is back then */
/* A world that does not come to rest by then never will. */
#define STUB_EVENTS_MAX 200000

enum stub_fault_kind {
    STUB_FAULT_NONE,
    STUB_FAULT_ANSWER,    /* `answer` to the sends from `first` to `last` of the effect */
    STUB_FAULT_LAG,       /* to the reads from `first` to `last` the effect does not exist yet */
    STUB_FAULT_DUPLICATE, /* each request of the effect arrives twice */
    STUB_FAULT_CALLBACK,  /* `after_us` later the service says by itself what became of the key */
    STUB_FAULT_CRASH_BEFORE, /* the daemon dies with unit `unit` on its way: it is not written */
    STUB_FAULT_CRASH_AFTER, /* the daemon dies when unit `unit` is durable, before it hears of it */
    STUB_FAULT_CANCEL,      /* an operator cancels when unit `unit` is durable */
    STUB_FAULT_REJECT,      /* who is asked about the step rejects it, at once */
};

struct stub_fault {
    enum stub_fault_kind kind;
    uint16_t step; /* the effect: all items of a loop */
    bool compensation;
    bool asks;            /* it is about the questions, not about the effect */
    uint32_t first, last; /* sends, from 1 */
    struct test_answer answer;
    uint32_t unit;    /* from 1 */
    int64_t after_us; /* STUB_FAULT_CALLBACK; STUB_FAULT_LAG: reads miss what is younger; 0: all */
};

struct stub_config { /* borrowed while the world is played */
    const struct plan *plan;
    struct str run_id;
    struct str lock; /* absent: none; nobody else holds it */
    const struct json *input;
    const struct json *env;    /* NULL: none */
    struct wall starts_at;     /* unset: STUB_STARTS_AT_US */
    const struct str *outputs; /* by step: the body of an answer that nobody wrote */
    const struct test_answers *answers;
    const struct test_verb *verbs;
    const struct stub_fault *faults;
    uint32_t answers_count, verbs_count, faults_count;
    bool approves;       /* somebody approves at once whatever a person is asked for, unless one
                          * of `verbs` rejects it */
    uint32_t events_max; /* 0: STUB_EVENTS_MAX */
};

/* A send, or a question. Its text is "charge", "send.3" or "charge:compensate". */
struct stub_call {
    int64_t at_us; /* since the submit */
    uint32_t unit; /* the newest then */
    uint16_t step;
    struct str item;
    enum direction direction;
    struct str name;
};

/* A question for which the world has found no answer that tells the truth. */
struct stub_unplayed {
    struct str name; /* "charge:reconcile" */
    uint16_t step;
    enum direction direction;
    enum outcome truth;
};

/* What happened, one line each. */
struct stub_line {
    int64_t at_us;
    struct str text;
};

/* What a service knows of one key. */
struct stub_effect {
    struct stub_effect *next;
    struct str key;
    uint16_t step;
    struct str item;
    enum direction direction;
    bool honours_key;    /* a repeat under the key does nothing, for as long as it is remembered */
    bool forgotten;      /* a request came when it no longer was */
    int64_t ttl_us;      /* how long; 0: for ever */
    int64_t known_at_us; /* since when */
    bool repeatable;     /* pure or idempotent, or the workflow says to repeat it all the same */
    bool accepted;       /* but not done: the test's own answers to questions say when it is */
    bool refused;        /* by the newest request */
    struct str output;   /* what it answered, or would have, when it was done; absent: never */
    uint32_t requests;   /* that arrived */
    uint32_t effects;    /* more than 1: a double */
    uint32_t duplicates; /* of those, requests that the network doubled */
    uint64_t order;      /* when the first effect happened; 0: never */
    int64_t first_at_us;
};

struct stub_result {
    struct arena arena; /* owns what follows */
    struct stub_row row;
    bool at_rest;     /* false: it was still going on after STUB_EVENTS_MAX */
    int64_t ended_us; /* the last change of the run's state, since the submit */
    uint32_t units;   /* transactions written or tried */
    struct stub_call *calls, *asks;
    struct stub_line *lines;
    struct stub_effect *effects; /* in order of the first request */
    struct stub_unplayed *unplayed;
    uint32_t calls_count, asks_count, lines_count, unplayed_count;
    bool *vouched; /* by step: an operator or the test's own answer to a question said what became
                    * of it otherwise than the services know, and was believed */
    const char *broken; /* a write that no store would take, or an image that is not sound */
};

void stub_play(const struct stub_config *config, struct stub_result *out);
void stub_result_free(struct stub_result *result);

/* The promises (README of compensations/, and the ledger's own view), judged at the end. Adds one
 * line for each that is broken; returns how many. */
#define STUB_BROKEN_MAX 8
struct stub_broken {
    struct str list[STUB_BROKEN_MAX];
    uint32_t count;
};
void stub_judge(struct stub_result *result, struct stub_broken *out);

#endif
