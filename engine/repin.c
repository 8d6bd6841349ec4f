#include "engine/repin.h"

#include "dsl/jsonschema.h"

static const struct plan_step *step_of(const struct plan *plan, const char *id)
{
    uint16_t index = plan_step_find(plan, str_z(id));
    return index == PLAN_STEP_NONE ? NULL : &plan->steps[index];
}

static bool has_begun(const struct run *run, const char *id)
{
    uint16_t index = plan_step_find(run->plan, str_z(id));
    return index != PLAN_STEP_NONE && run->instances[index].execute.state != STEP_PENDING;
}

static bool has_ended(const struct effect_state *side)
{
    return side->state == STEP_PENDING || side->state == STEP_APPLIED ||
           side->state == STEP_REFUSED || side->state == STEP_SKIPPED ||
           side->state == STEP_WITHDRAWN;
}

static bool same_key(const struct plan_action *a, const struct plan_action *b)
{
    bool same_place = a->idempotency.place == b->idempotency.place &&
                      a->idempotency.format == b->idempotency.format;
    bool same_name =
        !a->idempotency.name == !b->idempotency.name &&
        (!a->idempotency.name || strcmp(a->idempotency.name, b->idempotency.name) == 0);
    return same_place && same_name;
}

/* One direction that has begun: its key must stay what it is while it may be sent again. */
static int side_check(const char *id, const char *what, const struct effect_state *side,
                      const struct plan_action *from, const struct plan_action *to, struct err *err)
{
    if (side->state == STEP_CLAIMED)
        return err_set(err, ERR_CONFLICT, "%s of step \"%s\" is in flight", what, id);
    if (to->kind == ACTION_NONE)
        return err_set(err, ERR_CONFLICT, "%s of step \"%s\" has begun and is none there", what,
                       id);
    if (from->effect != to->effect)
        return err_set(err, ERR_CONFLICT, "%s of step \"%s\" has run as %s and is %s there", what,
                       id, effect_tier_name(from->effect), effect_tier_name(to->effect));
    if (has_ended(side))
        return 0;
    if (from->kind != to->kind)
        return err_set(err, ERR_CONFLICT, "%s of step \"%s\" has been sent by %s and is %s there",
                       what, id, action_kind_name(from->kind), action_kind_name(to->kind));
    if (!same_key(from, to))
        return err_set(err, ERR_CONFLICT,
                       "%s of step \"%s\" has been sent and would pass its key in another way",
                       what, id);
    return 0;
}

static int instance_check(const struct run *run, const struct instance *instance,
                          const struct plan *to, struct err *err)
{
    const struct plan_step *from_step = &run->plan->steps[instance->step];
    const struct plan_step *to_step = step_of(to, from_step->id);
    int code = 0;
    if (instance->execute.state == STEP_PENDING)
        return 0;
    if (!to_step)
        return err_set(err, ERR_CONFLICT, "step \"%s\" has run and is not there any more",
                       from_step->id);
    if (!from_step->for_each != !to_step->for_each || !from_step->key_by != !to_step->key_by)
        return err_set(err, ERR_CONFLICT, "the items of step \"%s\" would have other keys",
                       from_step->id);
    if (from_step->pivot != to_step->pivot)
        return err_set(err, ERR_CONFLICT, "step \"%s\" has run and %s a pivot there", from_step->id,
                       to_step->pivot ? "is" : "is not");
    code = side_check(from_step->id, "the action", &instance->execute, &from_step->action,
                      &to_step->action, err);
    if (!code && instance->compensate.state != STEP_PENDING)
        code = side_check(from_step->id, "the compensation", &instance->compensate,
                          &from_step->compensate, &to_step->compensate, err);
    return code;
}

/* A step that has not run may not stand before one that has: it would run out of order, and would
 * not be undone before what was built without it. */
static int order_check(const struct run *run, const struct plan *to, struct err *err)
{
    for (uint16_t i = 0; i < to->steps_count; i++) {
        const struct plan_step *step = &to->steps[i];
        if (!has_begun(run, step->id))
            continue;
        for (uint16_t n = 0; n < step->needs_count; n++)
            if (!has_begun(run, to->steps[step->needs[n]].id))
                return err_set(err, ERR_CONFLICT,
                               "step \"%s\" has not run and stands there before \"%s\", which has",
                               to->steps[step->needs[n]].id, step->id);
    }
    return 0;
}

static int input_check(const struct run *run, const struct plan *to, struct err *err)
{
    struct arena scratch = {0};
    struct schema_errors errors = {0};
    const struct json *input;
    int code = json_parse(run->start.input, &scratch, &input, err);
    if (!code && to->input && !schema_check(to->input, input, &scratch, &errors))
        code = err_set(err, ERR_CONFLICT, "the run's input does not fit there: " STR_FMT,
                       STR_ARG(schema_errors_text(&errors, &scratch)));
    arena_free(&scratch);
    return code;
}

int repin_check(const struct run *run, const struct plan *to, struct err *err)
{
    if (strcmp(run->plan->workflow, to->workflow) != 0)
        return err_set(err, ERR_CONFLICT, "that version belongs to the workflow \"%s\"",
                       to->workflow);
    for (const struct instance *instance = run_instance_next(run, NULL); instance;
         instance = run_instance_next(run, instance)) {
        int code = instance_check(run, instance, to, err);
        if (code)
            return code;
    }
    int code = order_check(run, to, err);
    return code ? code : input_check(run, to, err);
}
