/*
 * set.h: what can be said of workflows only when they are looked at together: children.
 */
#ifndef DSL_SET_H
#define DSL_SET_H

#include "dsl/diag.h"
#include "dsl/plan.h"

struct dsl_member {
    const struct plan *plan; /* NULL: it has errors of its own and is left alone */
    struct diags *diags;     /* of its file; may be NULL with the plan */
};

/* Adds to each member's diagnostics what is wrong with its `child` steps: a workflow that is
 * neither a member nor one of `known` (a warning: it may be applied later), an input that the
 * child's schema refuses for certain, and workflows that start each other without end. A member
 * stands for its name before a known one does. A plan whose diagnostics have errors afterwards
 * should not be used. Diagnostics are sorted. */
void dsl_set_check(const struct dsl_member *members, size_t count, const struct plan *const *known,
                   size_t known_count);

#endif
