#include "engine/answer.h"

#include "engine/ask.h"
#include "engine/attempt.h"

/* Something is still expected of it, or nobody knows what became of it. */
static bool is_open(const struct effect_state *side)
{
    return side->state == STEP_CLAIMED || side->state == STEP_RETRYING ||
           side->state == STEP_WAITING || side->state == STEP_UNKNOWN;
}

static void end_applied(struct draft *draft, struct instance *instance, enum direction direction,
                        struct effect_state *side, const struct answer *answer)
{
    side->state = STEP_APPLIED;
    side->outcome = OUTCOME_APPLIED;
    side->by_hand = false;
    side->output = answer->output;
    side->error = STR_NONE;
    attempt_output_look(draft, instance, direction, side);
}

static void end_refused(struct draft *draft, struct effect_state *side, const struct answer *answer)
{
    side->state = STEP_REFUSED;
    side->outcome = OUTCOME_REFUSED;
    side->error =
        draft_error(draft, "answered_refused",
                    answer->text.len ? arena_str(draft->scratch, answer->text).ptr
                                     : "the participant said by itself that it has refused");
}

bool answer_take(struct draft *draft, struct instance *instance, enum direction direction,
                 const struct answer *answer)
{
    struct effect_state side = *instance_side(instance, direction);
    struct record_finding finding = {
        .number = ++side.findings,
        .source = FINDING_ANSWER,
        .says = answer->applied ? OUTCOME_APPLIED : OUTCOME_REFUSED,
        .detail = answer->text,
        .body = answer->output,
        .actor = answer->actor,
    };
    bool repeats = answer->applied ? side.state == STEP_APPLIED
                                   : side.state == STEP_REFUSED && side.outcome == OUTCOME_REFUSED;
    if (repeats) /* said already */
        return false;
    finding_add(draft, instance, direction, &side, &finding);
    /* A refusal says nothing against what is known to be applied, and one of a single attempt
     * nothing of others. */
    bool counts = answer->applied || (is_open(&side) && !answer->attempt);
    if (counts) {
        if (answer->applied)
            end_applied(draft, instance, direction, &side, answer);
        else
            end_refused(draft, &side, answer);
        side.maybe_applied = false;
        side.next_at = WALL_NONE;
        side.ended_at = draft->event->now;
        side.pickups = 0;
    }
    draft_effect(draft, instance, direction, &side);
    return counts;
}
