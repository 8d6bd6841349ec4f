/*
 * tests.h: from YAML to struct tests: the `tests` of a workflow file, or of a file of their own
 * (`workflow: FILE` and `tests`).
 */
#ifndef DSL_TESTS_H
#define DSL_TESTS_H

#include "dsl/diag.h"
#include "dsl/test_plan.h"

/* Compiles the tests in `source`, which is the workflow's own file or, with `own_file`, one of
 * tests alone. NULL: there was an error. A workflow file without `tests` gives an empty list. The
 * result refers to the plan and is freed with tests_free. */
struct tests *dsl_tests_compile(struct str source, bool own_file, const struct plan *plan,
                                struct diags *diags);
void dsl_tests_free(struct tests *tests); /* NULL is allowed */

/* As the key is written: "state", "calls", ... */
const char *dsl_test_expect_name(enum test_expect_kind kind);

/* The `workflow` that a file of tests names, in the arena; absent if it names none (which
 * dsl_tests_compile would say: call it with a NULL plan to get the diagnostics). */
struct str dsl_tests_workflow(struct str source, struct arena *arena);

/* An input for runs of the workflow where nobody wrote one: each property of its schema with its
 * `default`, the first of its `examples` or of its `enum`, its `const`, or the least value of its
 * type. NULL if that does not fit the schema; `errors` says why then. */
struct schema_errors;
const struct json *dsl_sample_input(const struct plan *plan, struct arena *arena,
                                    struct schema_errors *errors);

/* For each step, what its action could answer, so that everything that the workflow reads of
 * `steps.ID.output` is there, of the type that its `output_schema` gives it, else a text: "{}" if
 * nothing is read. steps_count texts. */
const struct str *dsl_sample_outputs(const struct plan *plan, struct arena *arena);

/* What each step does, as its author wrote it, short: "post payments/charges",
 * "delete inventory/reservations/{input.order_id}", "sleep 30m". */
struct dsl_title {
    struct str action, compensate; /* compensate absent: none */
    struct str condition;          /* of `if`; absent: none */
    struct str for_each;           /* absent: no loop */
};
const struct dsl_title *dsl_titles(const struct plan *plan, struct arena *arena);

#endif
