/*
 * lint.h: the saga rules, and what `sagactl validate` prints beside the diagnostics.
 */
#ifndef DSL_LINT_H
#define DSL_LINT_H

#include "dsl/plan.h"
#include "engine/base/buf.h"

struct compiler;

/* Errors and warnings about what the steps do together. The plan's steps are complete. */
void lint_check(struct compiler *cx);

/* For each step its retry schedule in plain time and what would be undone if it failed for good. */
void dsl_print_schedule(const struct plan *plan, struct buf *out);

/* Of a workflow that has a `schedule`: the next three ticks after `now`, and the ticks of the year
 * ahead whose local time the clocks skip or show twice. Else nothing. */
void dsl_print_ticks(const struct plan *plan, struct wall now, struct buf *out);

#endif
