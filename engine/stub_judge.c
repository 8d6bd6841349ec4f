/*
 * stub_judge.c: the promises, judged by what the services know and what the run says of itself.
 *
 * What an operator vouched for is not judged: a wrong word is believed too.
 */
#include <stdarg.h>

#include "engine/key.h"
#include "engine/stub_world.h"

static void promise_broken(struct stub_result *result, struct stub_broken *out, const char *fmt,
                           ...) PRINTF_LIKE(3, 4);
static void promise_broken(struct stub_result *result, struct stub_broken *out, const char *fmt,
                           ...)
{
    struct buf text = {0};
    va_list args;
    if (out->count == STUB_BROKEN_MAX)
        return;
    va_start(args, fmt);
    buf_vprintf(&text, fmt, args);
    va_end(args);
    out->list[out->count++] = arena_str(&result->arena, buf_str(&text));
    buf_free(&text);
}

/* Effects of one direction of an instance over all generations; `order` of the first one. */
static uint32_t effects_of(const struct stub_result *result, uint16_t step, struct str item,
                           enum direction direction, uint64_t *order)
{
    uint32_t effects = 0;
    *order = 0;
    for (const struct stub_effect *effect = result->effects; effect; effect = effect->next) {
        if (effect->step != step || effect->direction != direction || !str_eq(effect->item, item))
            continue;
        effects += effect->effects;
        if (effect->effects && !*order)
            *order = effect->order;
    }
    return effects;
}

/* `why`: NULL for whatever it says. */
static bool residue_names(const struct stub_result *result, struct str instance, const char *why)
{
    struct arena scratch = {0};
    const struct json *list;
    struct err err;
    bool found = false;
    struct str residue = result->row.now.residue;
    if (residue.len && json_parse(residue, &scratch, &list, &err) == 0)
        for (uint32_t i = 0; i < list->count && list->kind == JSON_LIST; i++)
            found = found || (str_eq(json_get_text(list->items[i], "step"), instance) &&
                              (!why || str_eq_z(json_get_text(list->items[i], "why"), why)));
    arena_free(&scratch);
    return found;
}

static struct str name_of(struct stub_result *result, uint16_t step, struct str item)
{
    return key_instance(&result->row.plan->steps[step], item, &result->arena);
}

/* 1. One effect under a key, where it is honoured; elsewhere one send that is not proven not
 * applied, unless repeating does no harm. What the network doubled is not the engine's. */
static void once_judge(struct stub_result *result, const struct stub_effect *effect,
                       struct stub_broken *out)
{
    uint32_t own = effect->effects - MIN(effect->duplicates, effect->effects);
    bool by_declaration = effect->repeatable && (!effect->honours_key || effect->forgotten);
    if (own > 1 && !result->vouched[effect->step] && !by_declaration)
        promise_broken(result, out, "%u effects under the key " STR_FMT, own, STR_ARG(effect->key));
}

/* 2. What the run says of an effect is what its service knows. */
static void truth_judge(struct stub_result *result, const struct record_effect *effect,
                        struct stub_broken *out)
{
    const struct plan_step *step = &result->row.plan->steps[effect->ref.step];
    const struct plan_action *action = step_action(step, effect->ref.direction);
    uint64_t order;
    uint32_t effects =
        effects_of(result, effect->ref.step, effect->ref.item, effect->ref.direction, &order);
    struct str name = name_of(result, effect->ref.step, effect->ref.item);
    bool own_row = step->for_each && !effect->ref.item.len; /* its items are what is done */
    if (effect->state.by_hand || own_row || result->vouched[effect->ref.step] ||
        action_kind_waits(action->kind) || action->kind == ACTION_CHILD)
        return;
    if (effect->state.state == STEP_APPLIED && !effects)
        promise_broken(result, out, STR_FMT " is called applied, but its service did nothing",
                       STR_ARG(name));
    if (effect->state.state == STEP_REFUSED && effects && effect->ref.generation == 1)
        promise_broken(result, out, STR_FMT " is called refused, but its service did it",
                       STR_ARG(name));
}

/* 3. What is applied and has an undo is undone, once, or stands in the residue. */
static void undone_judge(struct stub_result *result, uint16_t index, struct str item,
                         struct stub_broken *out)
{
    const struct plan_step *step = &result->row.plan->steps[index];
    const struct record_effect *forward =
        stub_row_newest(&result->row, index, item, DIRECTION_EXECUTE);
    uint64_t order;
    uint32_t done = effects_of(result, index, item, DIRECTION_EXECUTE, &order);
    uint32_t undone = effects_of(result, index, item, DIRECTION_COMPENSATE, &order);
    struct str name = name_of(result, index, item);
    if (!done || undone || step->action.effect == EFFECT_PURE ||
        residue_names(result, name, NULL) || (forward && forward->state.by_hand) ||
        result->vouched[index])
        return;
    promise_broken(result, out,
                   "the run ended %s, but " STR_FMT
                   " is applied, not undone and not in the residue",
                   run_state_name(result->row.now.state), STR_ARG(name));
}

/* What is told to be left is left, and only what was done is undone, unless that does no harm. */
static void left_judge(struct stub_result *result, uint16_t index, struct str item,
                       struct stub_broken *out)
{
    const struct plan_step *step = &result->row.plan->steps[index];
    uint64_t order;
    uint32_t done = effects_of(result, index, item, DIRECTION_EXECUTE, &order);
    uint32_t undone = effects_of(result, index, item, DIRECTION_COMPENSATE, &order);
    struct str name = name_of(result, index, item);
    if (result->vouched[index] || step->action.kind == ACTION_CHILD)
        return;
    if ((!done || undone) && residue_names(result, name, "not_undone"))
        promise_broken(result, out, STR_FMT " is called not undone, but %s", STR_ARG(name),
                       done ? "it is undone" : "its service did nothing");
    if (!done && undone && !step->compensate.tolerant)
        promise_broken(result, out, STR_FMT " was undone, but never done", STR_ARG(name));
}

/* 4. Nothing is undone before what was built on it. */
static void order_judge(struct stub_result *result, uint16_t index, struct stub_broken *out)
{
    const struct plan_step *step = &result->row.plan->steps[index];
    uint64_t last = 0;
    for (const struct stub_effect *effect = result->effects; effect; effect = effect->next)
        if (effect->step == index && effect->direction == DIRECTION_COMPENSATE)
            last = MAX(last, effect->order);
    for (const struct stub_effect *effect = result->effects; last && effect; effect = effect->next)
        for (uint16_t i = 0; i < step->needs_count; i++)
            if (effect->step == step->needs[i] && effect->direction == DIRECTION_COMPENSATE &&
                effect->order && effect->order < last)
                promise_broken(result, out, "%s was undone before %s, which was built on it",
                               result->row.plan->steps[step->needs[i]].id, step->id);
}

/* 5. After the pivot there is no way back. */
static void pivot_judge(struct stub_result *result, uint16_t index, struct stub_broken *out)
{
    const struct plan_step *step = &result->row.plan->steps[index];
    const struct record_effect *forward =
        stub_row_newest(&result->row, index, STR(""), DIRECTION_EXECUTE);
    uint64_t order;
    if (step->pivot && result->row.now.direction == DIRECTION_COMPENSATE && forward &&
        effects_of(result, index, STR(""), DIRECTION_EXECUTE, &order) && !forward->state.by_hand)
        promise_broken(result, out, "the run has turned back after its pivot %s", step->id);
}

/* What a completed run may say of a step: done, or passed over as the workflow says. */
static bool completed_may_be(const struct plan_step *step, enum step_state state)
{
    if (state == STEP_UNKNOWN && step->action.on_unknown == ON_UNKNOWN_CONTINUE)
        return true;
    return state == STEP_APPLIED || state == STEP_SKIPPED ||
           step->on_failure == ON_FAILURE_CONTINUE;
}

/* 6. Completed means that every step is done, and nothing was undone. What became of a step that
 * the run went on without is not concealed. */
static void completed_judge(struct stub_result *result, uint16_t index, struct stub_broken *out)
{
    const struct plan_step *step = &result->row.plan->steps[index];
    for (uint32_t i = 0; i < result->row.effects_count; i++) {
        const struct record_effect *effect = &result->row.effects[i];
        if (effect->ref.step != index)
            continue;
        struct str name = name_of(result, index, effect->ref.item);
        if (effect->ref.direction == DIRECTION_COMPENSATE)
            promise_broken(result, out, "the run is completed and has undone " STR_FMT,
                           STR_ARG(name));
        else if (effect ==
                     stub_row_newest(&result->row, index, effect->ref.item, DIRECTION_EXECUTE) &&
                 !completed_may_be(step, effect->state.state))
            promise_broken(result, out, "the run is completed, but " STR_FMT " is %s",
                           STR_ARG(name), step_state_name(effect->state.state));
        else if (effect->state.state == STEP_UNKNOWN && step->action.effect != EFFECT_PURE &&
                 !residue_names(result, name, NULL))
            promise_broken(result, out, STR_FMT " is unknown, and not in the residue",
                           STR_ARG(name));
    }
}

/* For a signal that never comes, without a limit: the workflow's own end. */
static bool waits_forever(const struct stub_row *row)
{
    for (uint32_t i = 0; i < row->effects_count; i++) {
        const struct record_effect *effect = &row->effects[i];
        const struct plan_action *action = &row->plan->steps[effect->ref.step].action;
        if (action->kind == ACTION_WAIT_FOR && !action->timeout_us &&
            effect->ref.direction == DIRECTION_EXECUTE && effect->state.state == STEP_WAITING)
            return true;
    }
    return false;
}

void stub_judge(struct stub_result *result, struct stub_broken *out)
{
    const struct stub_row *row = &result->row;
    bool rests = run_state_is_terminal(row->now.state) || row->now.state == RUN_PARKED ||
                 (row->now.state == RUN_RUNNING && waits_forever(row));
    out->count = 0;
    if (result->broken)
        promise_broken(result, out, "%s", result->broken);
    if (!result->at_rest || (!rests && !row->now.paused))
        promise_broken(result, out, "the run does not come to an end: it is still %s",
                       run_state_name(row->now.state));
    for (const struct stub_effect *effect = result->effects; effect; effect = effect->next) {
        once_judge(result, effect, out);
        if (effect->direction == DIRECTION_EXECUTE && row->now.state != RUN_COMPLETED)
            undone_judge(result, effect->step, effect->item, out);
        if (effect->direction == DIRECTION_EXECUTE)
            left_judge(result, effect->step, effect->item, out);
    }
    for (uint32_t i = 0; i < row->effects_count; i++)
        if (&row->effects[i] == stub_row_newest(row, row->effects[i].ref.step,
                                                row->effects[i].ref.item,
                                                row->effects[i].ref.direction))
            truth_judge(result, &row->effects[i], out);
    for (uint16_t step = 0; step < row->plan->steps_count; step++) {
        order_judge(result, step, out);
        pivot_judge(result, step, out);
        if (row->now.state == RUN_COMPLETED)
            completed_judge(result, step, out);
    }
}
