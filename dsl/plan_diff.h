/*
 * plan_diff.h: what changes when a workflow takes the place of another version of it.
 *
 * Pure: two plans in, a list of differences out. What stands in the files is compared key by key,
 * whatever its order and layout; what follows from defaults (a step's tier, retries, timeouts,
 * order) is compared as the engine will have it, and told where the step's own text does not.
 */
#ifndef DSL_PLAN_DIFF_H
#define DSL_PLAN_DIFF_H

#include "dsl/plan.h"

#define PLAN_PARTS(X)                                                               \
    X(PLAN_PART_WORKFLOW, "workflow") /* the workflow's own keys; it has no name */ \
    X(PLAN_PART_SERVICE, "service")                                                 \
    X(PLAN_PART_STEP, "step")
enum plan_part {
    PLAN_PART_NONE,
#define X(id, name) id,
    PLAN_PARTS(X)
#undef X
};
const char *plan_part_name(enum plan_part part);

struct plan_change {
    enum plan_part part;
    struct str name;          /* of the step or service; "" of the workflow */
    struct str key;           /* "retry.attempts", "action.body.sku"; "" = the part as a whole */
    struct str before, after; /* JSON, or words for what follows; absent: not there */
    bool follows;             /* not written there: it follows from defaults, services or order */
};

struct plan_changes {
    struct plan_change *list; /* workflow, services, steps; in the order of the newer file */
    uint32_t count, capacity;
};

/* Everything in `out` lies in the arena. `tests`, `x-` keys, comments and layout are no change. */
void plan_diff(const struct plan *before, const struct plan *after, struct arena *arena,
               struct plan_changes *out);

#endif
