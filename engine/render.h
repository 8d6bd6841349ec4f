/*
 * render.h: turns an action of the plan and the stored state of a run into a request.
 *
 * Deterministic: the same state gives the same bytes, today and after a restart. That is why the
 * bytes need not be stored: what is stored is their hash (key.h), and a rendering that hashes
 * otherwise is a key conflict.
 */
#ifndef ENGINE_RENDER_H
#define ENGINE_RENDER_H

#include "engine/run.h"

struct render {
    const struct run *run;
    const struct instance *instance;
    enum direction direction;
    uint16_t generation;
    uint32_t claim_no;      /* of this key; 0: not claimed yet */
    struct str step_input;  /* JSON text that a person gave for this key; absent: none */
    struct wall now;        /* first claim of this key: what `now()` says */
    const struct json *env; /* NULL: none declared */
};

struct rendered {
    struct request request;
    struct str instance;    /* "charge" or "send.3" */
    struct str key;         /* as the engine knows it */
    struct str key_sent;    /* as the participant gets it */
    struct str compensates; /* execute key as the participant got it, for compensations */
    struct str reconciles;  /* of a read: the key it asks about, as the participant got it */
    struct str child;       /* of a child: its run id; the request's body is its input */
};

/* Everything in `out` lies in `arena` or borrows from the plan and the run.
 * Errors: ERR_INVALID, naming the part and the missing path; nothing may be sent then. */
MUST_USE int render_action(const struct render *render, struct arena *arena, struct rendered *out,
                           struct err *err);

/* All of it in `arena`, but for what lies in the plan. */
void request_copy(const struct request *from, struct arena *arena, struct request *out);

/* True if both would go over the wire with the same bytes, headers and secrets included. */
bool request_same(const struct request *a, const struct request *b);

/* What is sent, as people are shown it: {key?, kind, service?, method?, statement?, target?, args?,
 * body?}. Without headers: they may hold secrets, and are no part of what is hashed. */
const struct json *render_show(const struct rendered *rendered, struct arena *arena);

/* Why a person cannot give this instead of what the action sends, in words that go on "step input:
 * "; NULL: it can be given. */
const char *render_given_problem(const struct plan_action *action, const struct json *given);

/* The read that asks about the effect: in it, `key` is the key as the participant got it. The hash
 * is not set: a read may change between two attempts. Precondition: the action has a `reconcile`.
 * Errors: ERR_INVALID. */
MUST_USE int render_ask(const struct render *render, struct arena *arena, struct rendered *out,
                        struct expr_scope *scope, struct err *err);

/* The request of the step's `dry_run`, with what the action itself would be rendered from. It has
 * no key and nothing in it knows one; the hash is not set. Precondition: the step has a `dry_run`.
 * Errors: ERR_INVALID, also where it comes out as the very request of the action, its key left
 * out: then it would make the effect. */
MUST_USE int render_dry_run(const struct render *render, struct arena *arena, struct rendered *out,
                            struct err *err);

/* The scope that the expressions of this action see; also for its `outcomes` and the step's `if`.
 * `key` is absent before the first claim. */
MUST_USE int render_scope(const struct render *render, struct arena *arena, struct expr_scope *out,
                          struct err *err);

/* The value that a run of this input locks: "" if its workflow has no `lock`. Errors: ERR_INVALID,
 * also for what is no text of 1 to PLAN_LOCK_BYTES_MAX bytes without control characters. */
MUST_USE int render_lock(const struct plan *plan, const struct json *input, struct arena *arena,
                         struct str *out, struct err *err);

/* A sleep's length. Errors: ERR_INVALID. */
MUST_USE int render_sleep(const struct render *render, struct arena *arena, int64_t *out_us,
                          struct err *err);

/* When an `until` ends. Errors: ERR_INVALID. */
MUST_USE int render_until(const struct render *render, struct arena *arena, struct wall *out,
                          struct err *err);

/* The workflow's output as JSON text, absent if it has none. Errors: ERR_INVALID. */
MUST_USE int render_output(const struct run *run, struct arena *arena, struct str *out,
                           struct err *err);

#endif
