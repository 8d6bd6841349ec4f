/*
 * attempt.h: the life of one effect: claim, send, judge, repeat.
 *
 * The same rules serve an action and its compensation. What a finished effect means for the run
 * is the business of the walks (forward.h, compensations/unwind.h).
 */
#ifndef ENGINE_ATTEMPT_H
#define ENGINE_ATTEMPT_H

#include "engine/decision.h"

/* Claims the effect of `instance` in `direction` under its next generation and commands its first
 * attempt. What cannot be rendered ends refused at once, certainly not sent. What only waits
 * starts waiting (wait.h). Precondition: the side is pending, or refused and a person asked for a
 * new generation.
 */
void attempt_claim(struct draft *draft, struct instance *instance, enum direction direction);

/* The same for a side that was refused: `why` it is renewed is stored with it, and what a person
 * gave instead of what the workflow says (absent: nothing). */
void attempt_renew(struct draft *draft, struct instance *instance, enum direction direction,
                   struct str why, struct str step_input);

/* A person has approved it: what was shown is sent, or it ends as a conflict because it is no
 * longer that. Writes `side`. */
void attempt_approved(struct draft *draft, struct instance *instance, struct effect_state *side);

/* Sends the next attempt under the same key. Past its budget, or where what may have been applied
 * may not be repeated any more, it ends as what it is known to be; a request that no longer hashes
 * as it did ends as a conflict. Precondition: the side is retrying. */
void attempt_repeat(struct draft *draft, struct instance *instance, enum direction direction);

/* That repeat would only end the side: its time or its key's is over. */
bool attempt_is_over(const struct draft *draft, const struct instance *instance,
                     enum direction direction);

/* After a take-over or crash: an attempt without an answer is unknown. Sends the *same* attempt
 * again where the table "After an unknown outcome" allows, else ends unknown.
 * Precondition: the side is claimed. */
void attempt_recover(struct draft *draft, struct instance *instance, enum direction direction);

/* What the reply says of the effect; texts lie in the draft's scratch. Changes nothing. */
void attempt_judge(struct draft *draft, const struct instance *instance, enum direction direction,
                   const struct reply *reply, struct verdict *out);

/* What came of its newest attempt. Schedules a repeat or ends the effect. Precondition: the side is
 * claimed, or the reply is a worker's late success. */
void attempt_reply(struct draft *draft, struct instance *instance, enum direction direction,
                   const struct reply *reply);

/* The request of the current generation again, or false after the side was ended and written as a
 * conflict. */
bool attempt_render_again(struct draft *draft, struct instance *instance, enum direction direction,
                          struct effect_state *side, struct rendered *out);

/* No worker took the offered task in time: certainly not applied by this offer. */
void attempt_not_taken(struct draft *draft, struct instance *instance, enum direction direction);

/* Tells the child of a claimed step to turn back; its end is awaited. What is no child's, or
 * detached, is left alone. */
void attempt_recall(struct draft *draft, const struct instance *instance);

/* The child's time is over: it is told to turn back, again and again until it has ended.
 * Precondition: the side is claimed and its next_at has passed. */
#define CHILD_RECALL_EVERY_US MINUTE_US
void attempt_child_late(struct draft *draft, struct instance *instance);

/* No more repeats: a retrying side ends as what it is known to be. */
void attempt_give_up(struct draft *draft, struct instance *instance, enum direction direction);

/* Opens a new budget for a side that ended refused-but-retryable or unknown: same key, history
 * kept. `policy` may be another than the action's own. */
void attempt_reopen(struct draft *draft, struct instance *instance, enum direction direction,
                    const struct plan_retry *policy);

/* It is proven that no attempt was applied: repeated like after a retryable attempt, or ended as
 * refused. Writes `side`. */
void attempt_not_applied(struct draft *draft, struct instance *instance, enum direction direction,
                         struct effect_state *side);

/* Notes in `side` and tells an output that cannot be kept, or that does not fit `output_schema`. */
void attempt_output_look(struct draft *draft, const struct instance *instance,
                         enum direction direction, struct effect_state *side);

#endif
