/*
 * set.h: what can be said of workflows only when they are looked at together: children.
 */
#ifndef DSL_SET_H
#define DSL_SET_H

#include "dsl/dsl.h"

struct dsl_member {
    const struct plan *plan; /* NULL: it has errors of its own and is left alone */
    struct diags *diags;     /* of its file; may be NULL with the plan */
};

/* Adds to each member's diagnostics what is wrong with its `child` steps: a workflow that is
 * neither a member nor one of `known` (a warning: it may be applied later), an input that the
 * child's schema refuses for certain, an output that is read as what it cannot be, and workflows
 * that start each other without end. A member stands for its name before a known one does. A plan
 * whose diagnostics have errors afterwards should not be used. Diagnostics are sorted. `options`
 * are those that the members were compiled with; `known` may be NULL. */
void dsl_set_check(const struct dsl_options *options, const struct dsl_member *members,
                   size_t count, const struct workflows *known);

/* Adds an error to each member whose workflow an earlier one defines, too. */
void dsl_set_names_check(const struct dsl_member *members, size_t count);

/* The other direction: adds to each member's diagnostics which of `known` run it as a child and do
 * not fit it. An error if they fitted what was known before, because their next run would fail
 * there; else a warning. Those that a member replaces are left alone. For members that
 * `dsl_set_check` found no errors in. */
void dsl_set_parents_check(const struct dsl_options *options, const struct dsl_member *members,
                           size_t count, const struct workflows *known);

#endif
