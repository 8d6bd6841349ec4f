#include "engine/approval.h"

#include "engine/attempt.h"
#include "engine/key.h"

#define HASH_DIGITS_MIN 8 /* of a request's hash that a person types */

static const struct plan_step *step_of(const struct draft *draft, const struct instance *instance)
{
    return &draft->run->plan->steps[instance->step];
}

int approval_is_wanted(struct draft *draft, const struct instance *instance,
                       enum direction direction, const struct effect_state *side, bool *out,
                       struct err *err)
{
    const struct plan_approval *approve = step_of(draft, instance)->approve;
    struct expr_scope scope;
    *out = approve && direction == DIRECTION_EXECUTE;
    if (!*out || !approve->condition)
        return 0;
    struct render render = draft_render(draft, instance, direction, side);
    int code = render_scope(&render, draft->scratch, &scope, err);
    if (!code)
        code = expr_eval_bool(approve->condition, &scope, draft->scratch, out, err);
    return code ? err_wrap(err, "approve") : 0;
}

/* --- what the person is shown --------------------------------------------------------------- */

static struct str message_show(struct draft *draft, const struct instance *instance,
                               const struct effect_state *side)
{
    const struct plan_approval *approve = step_of(draft, instance)->approve;
    struct render render = draft_render(draft, instance, DIRECTION_EXECUTE, side);
    struct expr_scope scope;
    struct str text;
    struct err err;
    if (!approve->message)
        return STR("");
    if (render_scope(&render, draft->scratch, &scope, &err) != 0 ||
        template_render_text(approve->message, &scope, TEXT_PLAIN, draft->scratch, &text, &err) !=
            0)
        return arena_printf(draft->scratch, "(the message cannot be shown: %s)", err.text);
    return text.ptr ? text : STR("");
}

static void approval_write(struct draft *draft, const struct record_approval *approval)
{
    draft_record(draft, &(struct run_record){.kind = RECORD_APPROVAL, .approval = *approval});
}

void approval_ask(struct draft *draft, const struct instance *instance, struct effect_state *side,
                  const struct rendered *rendered)
{
    const struct plan_approval *approve = step_of(draft, instance)->approve;
    side->state = STEP_WAITING;
    side->approval = APPROVAL_PENDING;
    side->budget_at = WALL_NONE; /* its time begins when it is sent */
    side->next_at = wall_add(draft->event->now, approve->expires_us);
    struct record_approval approval = {
        .ref = {instance->step, instance->item, DIRECTION_EXECUTE, side->generation},
        .state = APPROVAL_PENDING,
        .request_hash = side->request_hash,
        .request = json_text(render_show(rendered, draft->scratch), draft->scratch),
        .message = message_show(draft, instance, side),
        .by = approve->by == APPROVE_BY_ANY     ? STR("any")
              : approve->by == APPROVE_BY_OTHER ? STR("other")
                                                : str_z(approve->group),
        .asked_at = draft->event->now,
        .expires_at = side->next_at,
    };
    approval_write(draft, &approval);
}

/* --- who may -------------------------------------------------------------------------------- */

static bool list_has(const struct json *list, struct str text)
{
    for (uint32_t i = 0; list && list->kind == JSON_LIST && i < list->count; i++)
        if (list->items[i]->kind == JSON_STRING && str_eq(list->items[i]->text, text))
            return true;
    return false;
}

/* The person whose actor this is, NULL: nobody that is named. */
static const struct json *person_of(const struct draft *draft, struct str actor)
{
    const struct json *people = draft->event->people;
    for (uint32_t i = 0; people && i < people->count; i++)
        if (list_has(json_get_z(people->items[i], "ids"), actor))
            return people->items[i];
    return NULL;
}

static bool is_same_person(const struct draft *draft, struct str a, struct str b)
{
    const struct json *person = person_of(draft, a);
    return str_eq(a, b) || (person && person == person_of(draft, b));
}

/* Says why not. */
static bool may_decide(struct draft *draft, const struct plan_approval *approve)
{
    struct str actor = draft->event->verb.actor;
    struct err *answer = &draft->out->answer;
    const struct json *person = person_of(draft, actor);
    switch (approve->by) {
    case APPROVE_BY_ANY: return true;
    case APPROVE_BY_OTHER:
        if (!is_same_person(draft, actor, draft->run->start.actor))
            return true;
        err_set(answer, ERR_PERMISSION,
                "\"" STR_FMT "\" has submitted the run: another person must approve it",
                STR_ARG(actor));
        return false;
    case APPROVE_BY_GROUP:
        if (person && list_has(json_get_z(person, "groups"), str_z(approve->group)))
            return true;
        err_set(answer, ERR_PERMISSION,
                "\"" STR_FMT "\" is not in the group \"%s\" of the daemon's `people`",
                STR_ARG(actor), approve->group);
        return false;
    }
    return false;
}

/* --- the decision --------------------------------------------------------------------------- */

static void decision_write(struct draft *draft, const struct instance *instance,
                           const struct effect_state *side)
{
    struct record_approval approval = {
        .ref = {instance->step, instance->item, DIRECTION_EXECUTE, side->generation},
        .state = side->approval,
        .request_hash = side->request_hash,
        .decided_at = draft->event->now,
        .actor = draft->event->verb.actor.ptr ? draft->event->verb.actor : STR(""),
        .reason = draft->event->verb.reason.ptr ? draft->event->verb.reason : STR(""),
    };
    approval_write(draft, &approval);
}

static void side_refuse(struct draft *draft, const struct instance *instance,
                        struct effect_state *side, const char *code, const char *message)
{
    side->state = STEP_REFUSED;
    side->outcome = OUTCOME_REFUSED;
    side->next_at = WALL_NONE;
    side->ended_at = draft->event->now;
    side->error = draft_error(draft, code, message);
    draft_effect(draft, instance, DIRECTION_EXECUTE, side);
}

/* Why the decision cannot be taken now, or false: it can. */
static bool decision_is_void(struct draft *draft, const struct effect_state *side)
{
    struct err *answer = &draft->out->answer;
    struct str hash = draft->event->verb.name;
    char hex[65];
    sha256_hex(&side->request_hash, hex);
    bool same = hash.len >= HASH_DIGITS_MIN && str_starts(str_z(hex), hash);
    if (hash.len && !same)
        err_set(answer, ERR_CONFLICT,
                "the request is not the one with that hash (it is %.12s): look at it again", hex);
    else if (!approval_is_pending(side))
        err_set(answer, ERR_CONFLICT, "the step waits for no approval%s%s",
                side->approval ? ": it was " : "",
                side->approval ? approval_name(side->approval) : "");
    else if (draft->run->now.paused)
        err_set(answer, ERR_CONFLICT, "the run is paused: resume it first");
    return answer->code != ERR_NONE;
}

bool approval_decide(struct draft *draft, struct instance *instance)
{
    struct effect_state side = instance->execute;
    bool approve = draft->event->kind == EVENT_APPROVE;
    enum approval wanted = approve ? APPROVAL_GIVEN : APPROVAL_DENIED;
    bool repeated = side.approval == wanted && !draft->event->verb.name.len;
    if (repeated) /* it is obeyed already */
        return false;
    if (decision_is_void(draft, &side) || !may_decide(draft, step_of(draft, instance)->approve))
        return false;
    side.approval = wanted;
    decision_write(draft, instance, &side);
    if (approve)
        attempt_approved(draft, instance, &side);
    else
        side_refuse(draft, instance, &side, "rejected",
                    arena_str(draft->scratch, draft->event->verb.reason).ptr);
    return true;
}

void approval_expire(struct draft *draft, struct instance *instance)
{
    struct effect_state side = instance->execute;
    ASSERT(approval_is_pending(&side));
    side.approval = APPROVAL_EXPIRED;
    decision_write(draft, instance, &side);
    side_refuse(draft, instance, &side, "approval_expired", "nobody approved it in time");
}
