/*
 * outcome.h: what one reply says about the effect (the table "Outcomes of one attempt").
 *
 * Pure: the judgement depends on the action's rules and the reply alone. What the engine then does
 * about it is decided by the walks.
 */
#ifndef ENGINE_OUTCOME_H
#define ENGINE_OUTCOME_H

#include "engine/run.h"

#define ERROR_BODY_BYTES_MAX 4096 /* of a refusal's body, kept in the error for people */
#define ERROR_BODY_DEPTH_MAX 32   /* an error is parsed again within other values: leaves room */

struct verdict {
    enum outcome outcome;
    bool free;           /* costs time, but no attempt */
    bool output_invalid; /* the answer could not be kept; never a reason to repeat */
    int64_t after_us;    /* the participant asked to wait so long; 0: nothing asked */
    int status;          /* http status, exec exit code or -signal; 0: none */
    struct str output;   /* JSON text; absent: none */
    struct str error;    /* JSON text {code, status, message, body}; absent when applied */
};

/* `scope` is what the action's `outcomes` rules may read besides `response`. Texts in `out` lie in
 * `arena` or borrow from the reply. A rule that cannot be evaluated never makes a success: the
 * status decides, and what would have been applied is unknown. */
void outcome_judge(const struct plan_action *action, const struct reply *reply,
                   const struct expr_scope *scope, struct arena *arena, struct verdict *out);

/* {status, headers, body} of an HTTP answer, {exit, stdout, stderr}, SQL's rows and count: what
 * `response` reads. */
const struct json *outcome_response(const struct reply *reply, struct arena *arena);

/* The participant answered, whatever it said. */
bool outcome_is_answer(const struct reply *reply);

/* Joins the outcome of an attempt with an earlier unknown: applied > unknown > not applied. */
enum outcome outcome_join(bool maybe_applied, enum outcome outcome);

/* Retry-After in both forms (seconds, or one of the three HTTP dates, taken against the answer's
 * own Date when it has one). 0 when absent, unreadable or in the past. */
int64_t outcome_retry_after_us(const struct reply *reply);

/* The answer's body for people: JSON where it is, else a text; cut to `bytes_max` (a text then),
 * and a text where it nests too deep to be read. null: there is none, or it is no text at all. */
const struct json *outcome_body_show(const struct reply *reply, size_t bytes_max,
                                     struct arena *arena);

#endif
