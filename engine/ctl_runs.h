/*
 * ctl_runs.h: getting hold of one run: by id or prefix, now or when it is over.
 */
#ifndef ENGINE_CTL_RUNS_H
#define ENGINE_CTL_RUNS_H

#include "engine/ctl_client.h"
#include "engine/ctl_model.h"

/* A daemon that restarts in the middle of a wait is given this long to come back. */
#define CTL_PATIENCE_US (15 * SECOND_US)

struct ctl_run {
    struct ctl_reply reply; /* the document as it came */
    const struct json *json;
    struct model_run run;
};

/* Reads out->reply.body into the rest. Errors: ERR_INTERNAL. */
MUST_USE int ctl_run_read(struct ctl *ctl, struct ctl_run *out, struct err *err);

/* By id or unique prefix. Returns the exit code after saying what went wrong; an ambiguous prefix
 * is CTL_USAGE. */
MUST_USE int ctl_run_find(struct ctl *ctl, const char *name, struct ctl_run *out);

/* Waits until the run is over; resets the scratch arena. Returns 0 with `out` filled, also when
 * `deadline` (WALL_NONE: never) passed first: see model_is_over. Else the exit code after saying
 * what went wrong. */
MUST_USE int ctl_run_wait(struct ctl *ctl, struct str run_id, struct wall deadline,
                          struct ctl_run *out);

/* The runs that --state, --workflow, --since, --limit and --cursor name: all pages as one JSON
 * list, and what `next` was on the last one (NULL: there are no more). `only` is the page as it
 * came, if one was enough. */
MUST_USE int ctl_runs_get(struct ctl *ctl, struct buf *list, const char **next, struct str *only);

/* Asks again where a daemon that restarts would answer soon. Start with a zeroed `since`. True:
 * try again (it has slept a little); false: the trouble has lasted too long or is of another kind.
 */
bool ctl_patience(struct ctl *ctl, const struct err *err, int status, struct wall *since);
/* A status that passes: 429, 502, 503, 504. */
bool ctl_status_passes(int status);

/* The history as the daemon gives it; `events` is its list. */
MUST_USE int ctl_run_events(struct ctl *ctl, struct str run_id, struct ctl_reply *reply,
                            const struct json **events);
/* Fills in why a parked run is parked, if the run does not say it and its history (NULL: asked for)
 * does. */
void ctl_run_reason_fill(struct ctl *ctl, struct model_run *run, const struct json *events);

/* Of the verbs that change a run: --reason is there and not blank. */
MUST_USE int ctl_reason_check(struct ctl *ctl);
/* Posts the body and prints what came of it. Returns the exit code. */
MUST_USE int ctl_act(struct ctl *ctl, struct str path, struct buf *body);

/* The run in one line, with its output or error below: the answer of run and wait. */
void ctl_run_print_result(struct ctl *ctl, const struct ctl_run *run, bool existing);
/* Any document: pretty, or in one line with -o jsonl. */
void ctl_print_document(struct ctl *ctl, struct str text);

/* Shows a run until it is over: a picture on a terminal, else a line an event. Returns the exit
 * code. `deadline` as for ctl_run_wait. */
int ctl_run_watch(struct ctl *ctl, const struct ctl_run *first, struct wall deadline);
/* The plain way. */
int ctl_run_follow(struct ctl *ctl, struct str run_id, struct wall deadline);

#endif
