/*
 * answer_sample.h: what a participant could answer to the read of a `reconcile`, made up from the
 * expressions themselves.
 *
 * For playing workflows without their services. The paths that the expressions read of `response`
 * are filled with the values they are compared with, then with others, until the answer proves what
 * it should. A small search in a fixed order: pure, deterministic, bounded. It knows comparisons,
 * presence, sizes, `in`, the loops and the tests of texts; an answer that only arithmetic leads to
 * is not found.
 */
#ifndef DSL_ANSWER_SAMPLE_H
#define DSL_ANSWER_SAMPLE_H

#include "dsl/expr.h"
#include "dsl/plan.h"

/* The `response` that proves `says` and nothing else: OUTCOME_APPLIED, OUTCOME_IN_PROGRESS,
 * OUTCOME_REFUSED, OUTCOME_RETRYABLE (`not_applied`), or OUTCOME_UNKNOWN: none of the expressions.
 * If none proves it alone, one in which it is the first that is true.
 *
 * `output`: what the action itself has answered, or NULL. It is put where the template of the
 * output takes it from, as far as the expressions allow. `scope` has everything but `response`.
 * The answer lies in `arena`, and borrows from the plan, `scope` and `output`. NULL: none found. */
const struct json *answer_sample(const struct plan_reconcile *reconcile, enum outcome says,
                                 const struct json *output, const struct expr_scope *scope,
                                 struct arena *arena);

#endif
