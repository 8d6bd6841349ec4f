#include "engine/suspect.h"

#include "engine/ask.h"
#include "engine/unknown.h"

static const struct plan_action *
action_of(const struct draft *draft, const struct instance *instance, enum direction direction)
{
    return step_action(&draft->run->plan->steps[instance->step], direction);
}

/* A SQL action in the engine's own database went back with it; the end of a child is known; and
 * what is pure does no harm. */
static bool is_harmless(const struct plan_action *action)
{
    return action->effect == EFFECT_PURE || action->kind == ACTION_CHILD ||
           (action->kind == ACTION_SQL && action->service == PLAN_SERVICE_NONE);
}

/* Sets what is not known any more, and says what is to be done about it. */
static enum unknown_way doubt(const struct draft *draft, const struct plan_action *action,
                              struct effect_state *side)
{
    struct wall first = draft->run->start.suspect_from;
    side->maybe_applied = true;
    side->outcome = OUTCOME_UNKNOWN;
    side->unknown_at = draft->event->now;
    /* The key may have been claimed as early as that. */
    if (wall_is_set(side->key_valid_until) && !side->attempts)
        side->key_valid_until = wall_add(first, action->idempotency.ttl_us);
    return unknown_way(action, side, draft->event->now);
}

static void stop(struct draft *draft, const struct plan_action *action, enum unknown_way way,
                 struct effect_state *side)
{
    side->error = draft_error(draft, "suspect",
                              "the database was restored to an earlier time, and what was sent "
                              "since is not known");
    if (way == UNKNOWN_ASK && action->reconcile) {
        side->waits_for = WAITS_NONE;
        ask_begin(draft, action, side, 0);
        return;
    }
    side->state = STEP_UNKNOWN;
    side->waits_for = WAITS_NONE;
    side->next_at = WALL_NONE;
    side->ended_at = draft->event->now;
}

bool suspect_hold(struct draft *draft, struct instance *instance, enum direction direction,
                  struct effect_state *side)
{
    const struct plan_action *action = action_of(draft, instance, direction);
    if (!wall_is_set(draft->run->start.suspect_from) || is_harmless(action))
        return false;
    enum unknown_way way = doubt(draft, action, side);
    if (way == UNKNOWN_REPEAT)
        return false;
    stop(draft, action, way, side);
    draft_effect(draft, instance, direction, side);
    return true;
}

bool suspect_recover(struct draft *draft, struct instance *instance, enum direction direction)
{
    const struct plan_action *action = action_of(draft, instance, direction);
    struct effect_state side = *instance_side(instance, direction);
    bool offered = side.state == STEP_WAITING && action->kind == ACTION_WORKER &&
                   side.approval != APPROVAL_PENDING && !instance_is_loop(draft->run, instance);
    bool unsent = side.state == STEP_RETRYING || side_is_held(&side) || offered;
    if (!wall_is_set(draft->run->start.suspect_from) || is_harmless(action) || side.maybe_applied ||
        !unsent)
        return false;
    enum unknown_way way = doubt(draft, action, &side);
    if (way != UNKNOWN_REPEAT)
        stop(draft, action, way, &side);
    draft_effect(draft, instance, direction, &side);
    return way != UNKNOWN_REPEAT;
}

bool suspect_is_held(const struct effect_state *side)
{
    return side->state == STEP_UNKNOWN && side->claim_no && !side->attempts &&
           !wall_is_set(side->next_at);
}

void suspect_release(struct draft *draft, struct instance *instance, enum direction direction)
{
    struct effect_state side = *instance_side(instance, direction);
    ASSERT(suspect_is_held(&side));
    side.maybe_applied = false;
    side.outcome = OUTCOME_RETRYABLE;
    draft_effect(draft, instance, direction, &side);
}

void suspect_trust(struct draft *draft)
{
    draft_event(draft, RUN_EVENT_TRUSTED, STR(""), draft->event->verb.reason);
}
