/*
 * confirm.h: the token of a dry run, with which the same run is started and no other.
 *
 * It is bound to the workflow's version, the input, the run's id, tenant and start time, and to who
 * asked, by an HMAC under a key of the installation, so that any daemon accepts it, for
 * CONFIRM_TTL_US. As it holds the run's id, a second use finds the run of the first. Pure.
 */
#ifndef ENGINE_CONFIRM_H
#define ENGINE_CONFIRM_H

#include "engine/base/clock.h"
#include "engine/base/err.h"
#include "engine/base/sha256.h"

#define CONFIRM_TTL_US (15 * MINUTE_US)

struct confirm { /* borrowed */
    struct sha256 workflow, input;
    struct str run_id, tenant, actor;
    struct wall start_at; /* unset: at once */
};

/* Of the operation: workflow and input, whoever starts it under whatever id. 64 hex digits. */
struct str confirm_plan_hash(const struct confirm *confirm, struct arena *arena);

struct str confirm_token_make(const struct confirm *confirm, struct str key, struct wall expires_at,
                              struct arena *arena);

/* The run id that the token names; absent: it is no token. Proves nothing. */
struct str confirm_token_run_id(struct str token);

/* Errors: ERR_INVALID, it is no token; ERR_CONFLICT, it is over, or of something else: says of
 * what, as far as the token tells. */
MUST_USE int confirm_token_check(struct str token, const struct confirm *confirm, struct str key,
                                 struct wall now, struct err *err);

#endif
