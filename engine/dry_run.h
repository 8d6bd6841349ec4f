/*
 * dry_run.h: what a run would do, found out by playing it: the real decisions, services that answer
 * with samples (stub_world.h). Nothing is sent and nothing is stored.
 *
 * It is played twice, with two sets of samples that have nothing in common, so what differs between
 * the two is what only an answer would give. Deterministic, and no I/O; a large run takes as long
 * as its decisions take, up to DRY_RUN_EVENTS_MAX events of the play.
 */
#ifndef ENGINE_DRY_RUN_H
#define ENGINE_DRY_RUN_H

#include "engine/request.h"

#define DRY_RUN_EVENTS_MAX 20000
/* Steps times transactions up to which it is also played what a refusal of each step would lead to.
 */
#define DRY_RUN_REFUSALS_MAX 10000
/* Stands where an answer would say what is sent. */
#define DRY_RUN_ANSWER "<answer>"

struct dry_run {
    const struct plan *plan;
    struct str run_id;
    struct str lock; /* "": none */
    const struct json *input;
    const struct json *env; /* NULL: none */
    struct wall now;        /* when it would start */
};

/* A declared `dry_run` that can be sent before the run is started. */
struct dry_run_show {
    uint32_t place; /* of its step in the list of steps */
    struct str step;
    struct request request; /* borrows from the plan */
};
struct dry_run_shows {
    struct dry_run_show *list;
    uint32_t count;
};

/* {ends, reason?, steps: [...]}, in the order in which the steps would be done, each {step, effect,
 * runs: yes|no|depends on answers, irreversible, pivot, approval: null or {by}, request,
 * from_answers (JSON pointers into the request; null: not known), compensation?: {request,
 * from_answers}, not_undone?: why, dry_run?: {request, from_answers, not_sent?: why},
 * if_refused?: {ends, reason?, undone, residue}}; `error` where a request cannot be rendered.
 * `shows` gets those of `dry_run` that hang on no answer, neither in themselves nor in whether
 * their step runs; the others say why not. In `arena`. Errors: ERR_LIMIT, it is too large to be
 * played. */
MUST_USE int dry_run_make(const struct dry_run *order, struct arena *arena, const struct json **out,
                          struct dry_run_shows *shows, struct err *err);

#endif
