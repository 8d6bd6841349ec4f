#include "dsl/lint.h"

#include "dsl/compiler.h"

/* E301: an effect that nobody could undo. */
static void compensation_missing_check(struct compiler *cx, uint16_t index)
{
    const struct plan_step *step = &cx->steps[index];
    const struct step_source *source = &cx->sources[index];
    enum effect_tier effect = step->action.effect;
    if (step->action.kind == ACTION_NONE || node_get_pair(source->node, "compensate") ||
        (effect != EFFECT_IDEMPOTENT && effect != EFFECT_COMPENSABLE))
        return;
    for (uint16_t i = 0; i < index; i++) /* past a pivot nothing is undone any more */
        if (cx->steps[i].pivot && step_is_after(cx, index, i))
            return;
    struct diag *diag = node_error(cx, "E301", source->id ? source->id : source->node,
                                   "step `%s` has an effect but no `compensate`", step->id);
    diag_help(cx->diags, diag,
              "add what undoes it, `compensate: {none: \"why not\"}`, or `effect: pure` if it only "
              "reads");
}

void lint_check(struct compiler *cx)
{
    for (uint16_t i = 0; i < cx->plan->steps_count; i++)
        compensation_missing_check(cx, i);
}
