#include "engine/wait.h"

#include "engine/base/buf.h"

static const struct plan_step *instance_step(const struct draft *draft,
                                             const struct instance *instance)
{
    return &draft->run->plan->steps[instance->step];
}

static void side_end(const struct draft *draft, struct effect_state *side, enum step_state state,
                     struct str output)
{
    side->state = state;
    side->outcome = state == STEP_APPLIED ? OUTCOME_APPLIED : OUTCOME_REFUSED;
    side->next_at = WALL_NONE;
    side->ended_at = draft->event->now;
    side->output = output;
}

/* --- claims -------------------------------------------------------------------------------- */

static int sleep_begin(const struct draft *draft, const struct render *render,
                       struct effect_state *side, struct err *err)
{
    int64_t duration_us;
    int code = render_sleep(render, draft->scratch, &duration_us, err);
    if (!code)
        side->next_at = wall_add(draft->event->now, MAX(duration_us, INT64_C(0)));
    return code;
}

static int until_begin(const struct draft *draft, const struct render *render,
                       struct effect_state *side, struct err *err)
{
    struct wall end;
    int code = render_until(render, draft->scratch, &end, err);
    if (!code && end.us <= draft->event->now.us)
        side_end(draft, side, STEP_APPLIED, STR_NONE);
    else if (!code)
        side->next_at = end;
    return code;
}

static void wait_for_begin(const struct draft *draft, const struct plan_action *action,
                           struct effect_state *side)
{
    const struct record_signal *early = run_signal(draft->run, str_z(action->wait_for.signal));
    if (early)
        side_end(draft, side, STEP_APPLIED, early->data);
    else if (action->timeout_us)
        side->next_at = wall_add(draft->event->now, action->timeout_us);
}

void wait_claim(struct draft *draft, const struct instance *instance, enum direction direction,
                struct effect_state *side)
{
    const struct plan_action *action = step_action(instance_step(draft, instance), direction);
    struct render render = {.run = draft->run,
                            .instance = instance,
                            .direction = direction,
                            .generation = side->generation,
                            .now = side->claimed_at,
                            .env = draft->event->env};
    struct err err;
    int code = 0;
    ASSERT(action_kind_waits(action->kind));
    side->state = STEP_WAITING;
    if (action->kind == ACTION_SLEEP)
        code = sleep_begin(draft, &render, side, &err);
    else if (action->kind == ACTION_UNTIL)
        code = until_begin(draft, &render, side, &err);
    else
        wait_for_begin(draft, action, side);
    if (code) {
        side_end(draft, side, STEP_REFUSED, STR_NONE);
        side->error = draft_error(draft, "cannot_render", err.text);
    }
    draft_effect(draft, instance, direction, side);
}

/* --- ends ---------------------------------------------------------------------------------- */

void wait_end(struct draft *draft, const struct instance *instance, enum direction direction)
{
    const struct plan_action *action = step_action(instance_step(draft, instance), direction);
    struct effect_state side = *instance_side((struct instance *)instance, direction);
    ASSERT(side.state == STEP_WAITING);
    bool in_vain =
        action->kind == ACTION_WAIT_FOR && action->wait_for.on_timeout != ON_TIMEOUT_CONTINUE;
    side_end(draft, &side, in_vain ? STEP_REFUSED : STEP_APPLIED, STR_NONE);
    if (in_vain)
        side.error =
            draft_error(draft, "signal_timeout",
                        arena_printf(draft->scratch, "the signal \"%s\" did not come in time",
                                     action->wait_for.signal)
                            .ptr);
    draft_effect(draft, instance, direction, &side);
}

bool wait_is_parked(const struct plan_step *step, const struct effect_state *side)
{
    return step->action.kind == ACTION_WAIT_FOR && side->state == STEP_REFUSED && side->claim_no &&
           step->action.wait_for.on_timeout == ON_TIMEOUT_PARK;
}

/* --- signals ------------------------------------------------------------------------------- */

static bool waits_for(const struct plan_step *step, struct str name)
{
    return step->action.kind == ACTION_WAIT_FOR && str_eq_z(name, step->action.wait_for.signal);
}

/* "a", "b" and "c": what the workflow waits for; false if it waits for `name` too. */
static bool signal_is_unknown(const struct plan *plan, struct str name, struct buf *names)
{
    for (uint16_t i = 0; i < plan->steps_count; i++) {
        const struct plan_action *action = &plan->steps[i].action;
        bool repeated = false;
        if (action->kind != ACTION_WAIT_FOR)
            continue;
        if (waits_for(&plan->steps[i], name))
            return false;
        for (uint16_t j = 0; j < i && !repeated; j++)
            repeated = waits_for(&plan->steps[j], str_z(action->wait_for.signal));
        if (!repeated)
            buf_printf(names, "%s\"%s\"", names->len ? ", " : "", action->wait_for.signal);
    }
    return true;
}

/* True after answering. */
static bool signal_refuse(struct draft *draft, struct str name, struct str data)
{
    const struct run *run = draft->run;
    struct err *answer = &draft->out->answer;
    struct buf names = {0};
    if (signal_is_unknown(run->plan, name, &names)) {
        err_set(answer, ERR_INVALID, "no step of \"%s\" waits for the signal \"%.*s\"%s%.*s",
                run->plan->workflow, (int)MIN(name.len, 80u), name.ptr,
                names.len ? "; it waits for " : "; it waits for none", (int)MIN(names.len, 300u),
                names.len ? names.data : "");
        buf_free(&names);
        return true;
    }
    buf_free(&names);
    if (data.len > BODY_BYTES_MAX) {
        err_set(answer, ERR_INVALID, "the signal's data has %zu bytes, %d are allowed", data.len,
                BODY_BYTES_MAX);
        return true;
    }
    const struct record_signal *first = run_signal(run, name);
    if (first && !str_eq(first->data, data)) {
        struct str at = wall_format(first->at, draft->scratch);
        err_set(answer, ERR_CONFLICT,
                "the signal \"" STR_FMT "\" came at " STR_FMT
                " with other data; the first one counts",
                STR_ARG(name), STR_ARG(at));
    } else if (!first && run_state_is_terminal(run->now.state)) {
        err_set(answer, ERR_CONFLICT, "the run has ended %s", run_state_name(run->now.state));
    } else if (!first && run->now.direction == DIRECTION_COMPENSATE) {
        err_set(answer, ERR_CONFLICT, "the run has turned back: it waits for no signal any more");
    }
    return answer->code != ERR_NONE || first; /* a repeated one is obeyed already */
}

void wait_signal(struct draft *draft)
{
    struct run *run = draft->run;
    struct str name = draft->event->verb.name, data = draft->event->verb.output;
    if (!data.ptr)
        data = STR("null");
    if (signal_refuse(draft, name, data))
        return;
    struct run_record record = {.kind = RECORD_SIGNAL,
                                .signal = {.name = name,
                                           .data = data,
                                           .at = draft->event->now,
                                           .actor = draft->event->verb.actor}};
    draft_record(draft, &record);
    draft_event(draft, "signal", STR(""), name);
    for (struct instance *instance = run_instance_next(run, NULL); instance;
         instance = run_instance_next(run, instance)) {
        if (instance->execute.state != STEP_WAITING || instance_is_loop(run, instance) ||
            !waits_for(instance_step(draft, instance), name))
            continue;
        struct effect_state side = instance->execute;
        side_end(draft, &side, STEP_APPLIED, data);
        draft_effect(draft, instance, DIRECTION_EXECUTE, &side);
    }
}
