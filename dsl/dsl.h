/*
 * dsl.h: the compiler's front door: YAML in, plan or diagnostics out.
 */
#ifndef DSL_DSL_H
#define DSL_DSL_H

#include "dsl/diag.h"
#include "dsl/plan.h"

#define DSL_SOURCE_BYTES_MAX (1024 * 1024)
#define DSL_NODES_MAX 20000

/* What the daemon's config says of a service wins over the workflow's own words: here `url`,
 * `timeout`, `idempotency`, `headers`, `auth`, `sign` and `outcomes` that are set replace the
 * file's. */
struct dsl_options {
    const struct plan_service *services; /* borrowed; the compiled plan copies what it takes */
    uint16_t services_count;
    const char *const *env_names; /* names that `env.NAME` may read */
    uint16_t env_names_count;
};

/* Compiles one workflow. Returns a plan with one reference if there was no error (there may be
 * warnings), else NULL. `options` may be NULL. The source is copied into the plan. */
struct plan *dsl_compile(struct str source, const struct dsl_options *options, struct diags *diags);

/* Workflows to look for children in: the first of a name counts. Entries may be NULL. */
struct workflows {
    const struct plan *const *list;
    size_t count;
};

/* The same with what the outputs of `known` children are made of: reading them otherwise is an
 * error too. Borrowed for the call. */
struct plan *dsl_compile_among(struct str source, const struct dsl_options *options,
                               const struct workflows *known, struct diags *diags);

/* The plan's `run_id` as JSON that SQL can render: a list of {"lit": text} and {"path": [name,
 * ...]} into the input; the string "complex" for a template that needs more; absent without one. */
struct str dsl_run_id_parts(const struct plan *plan, struct arena *arena);

/* Pages of `sagactl explain CODE`: NULL if there is no such code. */
const char *dsl_explain(const char *code);

#endif
