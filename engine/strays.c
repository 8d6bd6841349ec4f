/*
 * strays.c: answers to what was sent under a lease that is lost.
 *
 * The run has another owner by then, or will be loaded anew, and its attempt is unknown there. What
 * the participant said all the same is worth more than any guess: it is handed on to whoever owns
 * the run, who takes it as it takes a callback. Nothing here writes, sends, or sends again.
 *
 * A stray keeps the image of its run as it was at the loss, because the action's own rules judge
 * the answer, and these read the run.
 */
#include "engine/attempt.h"
#include "engine/base/rand.h"
#include "engine/decide_impl.h"
#include "engine/key.h"
#include "engine/outcome.h"
#include "engine/runner_impl.h"

#include <stdlib.h>

struct stray_run {
    struct run *run;
    unsigned refs;
};

struct stray {
    struct map_node node; /* by id */
    uint64_t id;
    struct stray_run *of;
    struct effect_ref ref;
    char *item;
    uint32_t attempt;
};

static bool is_wanted(const struct runner *runner)
{
    return !runner->closing && runner->config.strays.answered;
}

void stray_tell(struct runner *runner, struct run *run, const struct effect_ref *ref,
                uint32_t attempt, const struct reply *reply)
{
    struct instance *instance =
        is_wanted(runner) ? run_instance_make(run, ref->step, ref->item) : NULL;
    const struct effect_state *side = instance ? instance_side(instance, ref->direction) : NULL;
    if (!side || side->generation != ref->generation || !outcome_is_answer(reply) ||
        reply->kind == REPLY_SQL_OPEN || reply->kind == REPLY_WORKER)
        return;
    struct arena scratch = {0};
    struct verdict verdict;
    struct run_decision out = {0};
    const struct run_event event = {
        .kind = EVENT_REPLY, .now = runner->now, .env = runner->config.env};
    struct draft draft = {.run = run, .event = &event, .scratch = &scratch, .out = &out};
    attempt_judge(&draft, instance, ref->direction, reply, &verdict);
    if (verdict.outcome == OUTCOME_APPLIED || verdict.outcome == OUTCOME_REFUSED) {
        struct stray_answer answer = {
            .run_id = run->id,
            .key = key_make(run->id, decide_instance_name(&draft, instance), ref->direction,
                            ref->generation, &scratch),
            .applied = verdict.outcome == OUTCOME_APPLIED,
            .output = verdict.outcome == OUTCOME_APPLIED ? verdict.output : verdict.error,
            .attempt = attempt,
        };
        runner->config.strays.answered(runner->config.strays.arg, &answer);
    }
    arena_free(&scratch);
}

bool stray_keep(struct runner *runner, struct flight *flight)
{
    struct slot *slot = flight->slot;
    if (!is_wanted(runner) || !runner->invoke.leave || flight->asks || !slot->run)
        return false;
    if (!slot->strays) {
        slot->strays = xcalloc(1, sizeof(*slot->strays));
        slot->strays->run = slot->run;
    }
    struct stray *stray = xcalloc(1, sizeof(*stray));
    stray->id = flight->id;
    stray->of = slot->strays;
    stray->of->refs++;
    stray->ref = flight->ref;
    stray->item = flight->item; /* ref points into it */
    flight->item = NULL;
    stray->attempt = flight->attempt;
    map_insert(&runner->strays, &stray->node, rand_mix(stray->id));
    return true;
}

static void stray_free(struct runner *runner, struct stray *stray)
{
    map_remove(&runner->strays, &stray->node);
    if (!--stray->of->refs) {
        run_free(stray->of->run);
        free(stray->of);
    }
    free(stray->item);
    free(stray);
}

void stray_reply(struct runner *runner, uint64_t id, const struct reply *reply)
{
    for (struct map_node *node = map_first(&runner->strays, rand_mix(id)); node;
         node = map_next(node)) {
        struct stray *stray = CONTAINER_OF(node, struct stray, node);
        if (stray->id == id) {
            stray_tell(runner, stray->of->run, &stray->ref, stray->attempt, reply);
            stray_free(runner, stray);
            return;
        }
    }
}

void strays_free(struct runner *runner)
{
    struct map_node *node;
    while ((node = map_any(&runner->strays)))
        stray_free(runner, CONTAINER_OF(node, struct stray, node));
    map_free(&runner->strays);
}
