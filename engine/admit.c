#include "engine/admit.h"

static const struct plan_action *
action_of(const struct draft *draft, const struct instance *instance, enum direction direction)
{
    return step_action(&draft->run->plan->steps[instance->step], direction);
}

/* NULL: the action's service has no limits. */
static struct gate_room *room_of(const struct draft *draft, const struct plan_action *action)
{
    if (!draft->event->rooms || action->service == PLAN_SERVICE_NONE)
        return NULL;
    return &draft->event->rooms[action->service];
}

/* The share of repeats is for runs that go forward; what is sent on the way back never waits for
 * it, in whichever direction. */
static bool is_shared(const struct draft *draft, const struct effect_state *side)
{
    return draft->run->now.direction == DIRECTION_EXECUTE && side->attempts;
}

static bool fits(const struct draft *draft, const struct gate_room *room,
                 const struct effect_state *side)
{
    return room->sends && (!is_shared(draft, side) || room->repeats);
}

/* From when on nothing may be sent any more (attempt_is_over); none: there is no such time. */
static struct wall over_at(const struct plan_action *action, const struct effect_state *side)
{
    struct wall end = side->budget_at;
    if (side->maybe_applied && action->effect == EFFECT_COMPENSABLE)
        end = wall_first(end, side->key_valid_until);
    return wall_is_set(end) ? wall_add(end, 1) : WALL_NONE;
}

void admit_in_vain(struct draft *draft, const struct instance *instance, enum direction direction,
                   struct effect_state *side)
{
    const struct plan_action *action = action_of(draft, instance, direction);
    if (side->attempts)
        return; /* what its last attempt came to is known */
    side->outcome = OUTCOME_RETRYABLE;
    side->error = draft_error(
        draft, side->waits_for == WAITS_BREAKER ? "breaker_open" : "service_limit",
        arena_printf(draft->scratch, "not sent: %s of the service \"%s\" left no room in time",
                     side->waits_for == WAITS_BREAKER ? "the breaker" : "the limits",
                     draft->run->plan->services[action->service].name)
            .ptr);
}

bool admit_request(struct draft *draft, struct instance *instance, enum direction direction,
                   struct effect_state *side)
{
    const struct plan_action *action = action_of(draft, instance, direction);
    struct gate_room *room = room_of(draft, action);
    struct wall now = draft->event->now;
    if (!room || fits(draft, room, side)) {
        if (room) {
            room->sends--;
            room->repeats -= is_shared(draft, side);
        }
        if (!wall_is_set(side->budget_at) && side_is_held(side))
            side->budget_at = wall_add(now, action->retry.budget_us);
        return true;
    }
    if (side_is_held(side) && !wall_passed(side->next_at, now))
        return false; /* as it was */
    if (direction == DIRECTION_COMPENSATE)
        side->budget_at = WALL_NONE;
    side->state = STEP_WAITING;
    side->waits_for = room->reason == GATE_BREAKER ? WAITS_BREAKER : WAITS_LIMIT;
    side->next_at = wall_first(over_at(action, side), wall_add(now, ADMIT_LOOK_AGAIN_US));
    draft_effect(draft, instance, direction, side);
    return false;
}

bool admit_has_room(const struct draft *draft, const struct instance *instance,
                    enum direction direction)
{
    const struct effect_state *side = instance_side((struct instance *)instance, direction);
    const struct gate_room *room = room_of(draft, action_of(draft, instance, direction));
    return side_is_held(side) && (!room || fits(draft, room, side));
}

struct wall admit_ask_at(const struct draft *draft, const struct plan_action *action)
{
    const struct gate_room *room = room_of(draft, action);
    return room ? room->open_until : WALL_NONE;
}
