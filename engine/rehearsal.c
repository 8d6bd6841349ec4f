#include "engine/rehearsal.h"

#include "engine/key.h"

/* Why what the step would do next is not what its `dry_run` shows; NULL: it is. */
static const char *side_problem(const struct effect_state *side)
{
    switch (side->state) {
    case STEP_NONE:
    case STEP_PENDING: return "is not reached: what it sends is not known yet";
    case STEP_CLAIMED: return "is on its way to the service: what it does is not to be stopped";
    case STEP_APPLIED: return "is applied: it does nothing more";
    case STEP_SKIPPED: return "is skipped: it does nothing";
    case STEP_WITHDRAWN: return "is withdrawn: it does nothing";
    case STEP_RETRYING:
    case STEP_WAITING:
    case STEP_UNKNOWN:
    case STEP_REFUSED: break;
    }
    /* The declared request is made of what the workflow says, not of what the person gave. */
    if (side->step_input.ptr)
        return "sends what a person gave (--step-input), which its dry_run does not know";
    return NULL;
}

static int possible(const struct draft *draft, const struct instance *instance, struct str name,
                    struct err *err)
{
    const struct run *run = draft->run;
    const struct plan_step *step = &run->plan->steps[instance->step];
    if (!step->dry_run)
        return err_set(
            err, ERR_NOT_FOUND,
            "the step \"%s\" declares no `dry_run`: there is only its request to look at",
            step->id);
    if (run_state_is_terminal(run->now.state))
        return err_set(err, ERR_CONFLICT, "the run has ended %s", run_state_name(run->now.state));
    if (run->now.direction == DIRECTION_COMPENSATE)
        return err_set(err, ERR_CONFLICT, "the run goes back: the step is not sent any more");
    if (step->for_each && !instance->item.len)
        return err_set(err, ERR_INVALID, "the step \"%s\" is a loop: name an item, as in %s.0",
                       step->id, step->id);
    const char *problem = side_problem(&instance->execute);
    if (problem)
        return err_set(err, ERR_CONFLICT, "the step \"" STR_FMT "\" %s", STR_ARG(name), problem);
    return 0;
}

void rehearsal_decide(struct draft *draft, const struct instance *instance)
{
    const struct effect_state *side = &instance->execute;
    struct err *err = &draft->out->answer;
    struct str name =
        key_instance(&draft->run->plan->steps[instance->step], instance->item, draft->scratch);
    struct run_rehearsal *made = arena_new(draft->scratch, struct run_rehearsal);
    struct rendered action;
    if (possible(draft, instance, name, err) != 0)
        return;
    struct render render = draft_render(draft, instance, DIRECTION_EXECUTE, side);
    if (render_action(&render, draft->scratch, &action, err) != 0) {
        err_wrap(err, "the action cannot be rendered");
        return;
    }
    if (render_dry_run(&render, draft->scratch, &made->dry_run, err) != 0) {
        err_wrap(err, "the dry_run cannot be rendered");
        return;
    }
    made->plan = draft->run->plan;
    made->action = render_show(&action, draft->scratch);
    made->action_hash = side->request_hash;
    draft->out->rehearsal = made;
}
