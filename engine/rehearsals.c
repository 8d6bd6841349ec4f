/*
 * rehearsals.c: requests that show an effect to a person: sent once, answered once, and no part of
 * any run.
 */
#include "engine/limits.h"
#include "engine/runner_impl.h"

#include <stdlib.h>

static int may_send(const struct runner *runner, struct err *err)
{
    if (runner->draining)
        return err_set(err, ERR_UNAVAILABLE, "the daemon is shutting down");
    if (!runner->owned)
        return err_set(err, ERR_UNAVAILABLE, "the daemon does not have its lease");
    if (runner->rehearsals_count >= REHEARSALS_MAX)
        return err_set(err, ERR_LIMIT, "%u dry runs are under way, the limit of this daemon",
                       runner->rehearsals_count);
    return 0;
}

int runner_rehearse(struct runner *runner, const struct runner_rehearsal *wanted,
                    void (*cb)(void *arg, const struct reply *reply), void *arg, struct err *err)
{
    const struct plan_action *action = wanted->request->action;
    struct passage passage = {0};
    int code = may_send(runner, err);
    if (!code)
        code = gates_admit(runner, wanted->request->service, wanted->now, &passage, err);
    if (code)
        return code;
    struct rehearsal *rehearsal = xcalloc(1, sizeof(*rehearsal));
    rehearsal->id = runner->next_invocation++;
    rehearsal->passage = passage;
    rehearsal->cb = cb;
    rehearsal->arg = arg;
    rehearsal->next = runner->rehearsals;
    runner->rehearsals = rehearsal;
    runner->rehearsals_count++;
    int64_t timeout_us = MIN(action->timeout_us, REHEARSAL_TIMEOUT_US);
    struct invocation invocation = {
        .id = rehearsal->id,
        .plan = wanted->plan,
        .request = wanted->request,
        .run_id = wanted->run_id,
        .step = wanted->step,
        .direction = DIRECTION_EXECUTE,
        .timeout_us = timeout_us,
        .deadline_at = wall_add(wanted->now, timeout_us),
        .is_dry_run = true,
    };
    runner->invoke.start(runner->invoke.arg, &invocation);
    return 0;
}

void runner_rehearse_forget(struct runner *runner, const void *arg)
{
    for (struct rehearsal *at = runner->rehearsals; at; at = at->next)
        if (at->arg == arg)
            at->cb = NULL;
}

static void rehearsal_end(struct runner *runner, struct rehearsal **at, const struct reply *reply)
{
    struct rehearsal *rehearsal = *at;
    *at = rehearsal->next;
    runner->rehearsals_count--;
    passage_forgo(&rehearsal->passage);
    if (rehearsal->cb)
        rehearsal->cb(rehearsal->arg, reply);
    free(rehearsal);
}

void rehearsal_replied(struct runner *runner, uint64_t id, const struct reply *reply)
{
    struct rehearsal **at = &runner->rehearsals;
    while (*at && (*at)->id != id)
        at = &(*at)->next;
    if (*at)
        rehearsal_end(runner, at, reply);
}

void rehearsals_drop(struct runner *runner)
{
    while (runner->rehearsals) {
        if (runner->closing)
            runner->rehearsals->cb = NULL;
        else
            runner->invoke.drop(runner->invoke.arg, runner->rehearsals->id);
        rehearsal_end(runner, &runner->rehearsals, NULL);
    }
}
