/*
 * tally.h: what the runner has seen, counted for people who watch (S19): outcomes, findings, parked
 * runs, and per service what was sent again and what was answered from memory. Counters of this
 * process, from its start. They decide nothing.
 */
#ifndef ENGINE_TALLY_H
#define ENGINE_TALLY_H

#include "engine/decision.h"

#define TALLY_SERVICES_MAX 100 /* those beyond share one entry, "other" */

struct tally_service {
    char *name; /* of the plan; "" for actions without a service */
    uint64_t sent, repeated;
    uint64_t replayed; /* answers with `Idempotency-Replayed: true` */
    uint64_t unguarded;
};

#define X(id, name) +1
enum {
    TALLY_OUTCOMES = 1 OUTCOMES(X),
    TALLY_FINDINGS = 1 FINDING_SOURCES(X),
    TALLY_REASONS = 1 PARK_REASONS(X)
};
#undef X

struct tally { /* zeroed: nothing yet */
    struct tally_service services[TALLY_SERVICES_MAX + 1];
    uint32_t services_count;
    uint64_t outcomes[TALLY_OUTCOMES];                 /* of attempts */
    uint64_t findings[TALLY_FINDINGS][TALLY_OUTCOMES]; /* by source and what it said */
    uint64_t parked[TALLY_REASONS];
};

/* What was decided is durable. */
void tally_records(struct tally *tally, const struct run_decision *decision);
/* An attempt goes out at `now`: counted as unguarded if it may have been applied before and its
 * participant is not known to honour the key (any more). */
void tally_sent(struct tally *tally, struct run *run, const struct effect_ref *ref,
                uint32_t attempt, struct wall now);
void tally_reply(struct tally *tally, const struct run *run, const struct effect_ref *ref,
                 const struct reply *reply);
void tally_free(struct tally *tally);

#endif
