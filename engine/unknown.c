#include "engine/unknown.h"

static bool key_is_honoured(const struct effect_state *side, struct wall at)
{
    return wall_is_set(side->key_valid_until) && at.us <= side->key_valid_until.us;
}

/* What the author declared instead of what the tier says; UNKNOWN_NONE: nothing. */
static enum unknown_way declared_way(const struct plan_action *action,
                                     const struct effect_state *side, struct wall at)
{
    bool key_is_over = wall_is_set(side->key_valid_until) && !key_is_honoured(side, at);
    switch (action->on_unknown) {
    case ON_UNKNOWN_RECONCILE: return UNKNOWN_ASK;
    case ON_UNKNOWN_RETRY:
        if (!key_is_over)
            return UNKNOWN_REPEAT;
        return action->reconcile ? UNKNOWN_ASK : UNKNOWN_PARK;
    case ON_UNKNOWN_COMPENSATE: return UNKNOWN_FAIL;
    case ON_UNKNOWN_CONTINUE: return UNKNOWN_GO_ON;
    case ON_UNKNOWN_PARK: return UNKNOWN_PARK;
    case ON_UNKNOWN_NONE: break;
    }
    return UNKNOWN_NONE;
}

enum unknown_way unknown_way(const struct plan_action *action, const struct effect_state *side,
                             struct wall at)
{
    /* 1. The end of a child is known; asking for it again changes nothing. */
    if (action->kind == ACTION_CHILD)
        return UNKNOWN_PARK;
    /* 2. The author's own word. */
    enum unknown_way declared = declared_way(action, side, at);
    if (declared != UNKNOWN_NONE)
        return declared;
    switch (action->effect) {
    /* 3. A repeat does no harm. */
    case EFFECT_PURE:
    case EFFECT_IDEMPOTENT: return UNKNOWN_REPEAT;
    /* 4. Who can be asked is asked; else an honoured key makes the repeat harmless. */
    case EFFECT_COMPENSABLE:
        if (action->reconcile)
            return UNKNOWN_ASK;
        return key_is_honoured(side, at) ? UNKNOWN_REPEAT : UNKNOWN_PARK;
    /* 5. Never repeated blindly. */
    case EFFECT_IRREVERSIBLE: return action->reconcile ? UNKNOWN_ASK : UNKNOWN_PARK;
    case EFFECT_NONE: break;
    }
    ASSERT(!"an effect tier");
    return UNKNOWN_NONE;
}

struct wall unknown_settled_at(const struct plan_action *action, const struct effect_state *side)
{
    return wall_add(side->unknown_at, action->timeout_us + action->reconcile->settle_after_us);
}

bool unknown_may_ask(const struct plan_action *action, const struct effect_state *side)
{
    return action->reconcile && !wall_is_set(side->ask_until) && side->attempts > 0 &&
           side->outcome != OUTCOME_CONFLICT;
}
