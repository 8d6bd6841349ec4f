/*
 * plans.h: the compiled definitions that this daemon knows, by hash and by name.
 *
 * Fed from saga.workflow; a definition that no longer compiles (a newer binary is stricter) stays
 * unknown and is logged, so that its runs wait instead of running under another meaning.
 */
#ifndef ENGINE_PLANS_H
#define ENGINE_PLANS_H

#include "dsl/dsl.h"

#define PLANS_HASH_DIGITS_MIN 6

struct plans;

struct plans *plans_new(const struct dsl_options *options); /* borrowed for the cache's life */
void plans_free(struct plans *plans);

/* Compiles a stored definition. `current` makes it the one that new runs of its name get.
 * Errors: ERR_INVALID with the first diagnostic. */
int plans_learn(struct plans *plans, struct str source, bool current, struct err *err);
/* The same for one that may be known already: then only `current` counts. */
MUST_USE int plans_add(struct plans *plans, const struct sha256 *hash, struct str source,
                       bool current, struct err *err);
/* A plan compiled elsewhere; takes a reference. */
void plans_put(struct plans *plans, const struct plan *plan, bool current);

/* Both borrow; NULL if there is none. */
const struct plan *plans_by_hash(const struct plans *plans, const struct sha256 *hash);
const struct plan *plans_current(const struct plans *plans, struct str name);
/* The current definition of `name` if it takes the input. NULL: ERR_NOT_FOUND, or ERR_INVALID with
 * the first misfit. For port_plans. */
const struct plan *plans_for_input(const struct plans *plans, struct str name,
                                   const struct json *input, struct err *err);
struct plans_file {
    struct str source;
    struct diags *diags; /* initialised */
    struct plan *plan;   /* out: one reference; NULL: there are errors */
};
/* `dsl_compile` of files that are to be applied together, checked also against each other and
 * against the current workflows: the children that they run, and the parents that run them. A file
 * without errors may be applied although others have some. Diagnostics are sorted. */
void plans_compile(const struct plans *plans, struct plans_file *files, size_t count);
/* The version that `text` names for a person: its hash or at least PLANS_HASH_DIGITS_MIN digits of
 * it, or its label. Borrowed. Errors: ERR_NOT_FOUND, ERR_CONFLICT (several). */
const struct plan *plans_version(const struct plans *plans, struct str text, struct err *err);
/* Each current definition. `fn` must not change the cache. */
void plans_each(const struct plans *plans, void (*fn)(void *arg, const struct plan *plan),
                void *arg);
/* The known workflow name nearest to `name`, or NULL. */
const char *plans_nearest(const struct plans *plans, struct str name);

#endif
