#include "engine/ask.h"

#include "engine/admit.h"
#include "engine/attempt.h"
#include "engine/base/rand.h"
#include "engine/key.h"
#include "engine/unknown.h"

/* After the read's own time limit, before it counts as lost: the invoker keeps its limit exactly,
 * so only a crash or a hand-over lets this time pass. */
#define ASK_LOST_AFTER_US (5 * SECOND_US)
#define FINDING_BODY_BYTES_MAX 4096 /* of an answer, kept for people */

static const struct plan_action *
action_of(const struct draft *draft, const struct instance *instance, enum direction direction)
{
    return step_action(&draft->run->plan->steps[instance->step], direction);
}

void ask_begin(const struct draft *draft, const struct plan_action *action,
               struct effect_state *side, int64_t after_us)
{
    struct wall now = draft->event->now;
    struct wall settled = unknown_settled_at(action, side);
    side->state = STEP_UNKNOWN;
    side->ended_at = WALL_NONE;
    side->next_at = wall_add(now, after_us);
    side->ask_until = wall_add(now, action->reconcile->for_us);
    if (side->ask_until.us < settled.us)
        side->ask_until = settled;
}

void ask_again(struct draft *draft, struct instance *instance, enum direction direction)
{
    struct effect_state side = *instance_side(instance, direction);
    ASSERT(side.state == STEP_UNKNOWN);
    ask_begin(draft, action_of(draft, instance, direction), &side, 0);
    draft_effect(draft, instance, direction, &side);
}

void ask_hasten(struct draft *draft, struct instance *instance, enum direction direction)
{
    struct effect_state side = *instance_side(instance, direction);
    ASSERT(unknown_is_asked(&side));
    side.next_at = draft->event->now;
    draft_effect(draft, instance, direction, &side);
}

void finding_add(struct draft *draft, const struct instance *instance, enum direction direction,
                 struct effect_state *side, struct record_finding *finding)
{
    finding->ref = (struct effect_ref){instance->step, instance->item, direction, side->generation};
    finding->at = draft->event->now;
    side->found = finding->says;
    draft_record(draft, &(struct run_record){.kind = RECORD_FINDING, .finding = *finding});
}

/* The distance grows with the time that has been asked: it doubles, up to the longest. */
static struct wall next_read(const struct draft *draft, const struct instance *instance,
                             const struct plan_action *action, const struct effect_state *side)
{
    const struct plan_reconcile *reconcile = action->reconcile;
    struct wall now = draft->event->now;
    int64_t asked_us = now.us - side->unknown_at.us;
    int64_t delay_us = MIN(MAX(asked_us, reconcile->every_us), reconcile->max_every_us);
    uint64_t seed = str_hash(draft->run->id) ^ ((uint64_t)instance->place << 16 | instance->step);
    uint64_t spread = (uint64_t)delay_us / 10;
    int64_t jitter_us = spread ? (int64_t)(rand_mix(seed ^ side->findings) % spread) : 0;
    return wall_add(now, delay_us + jitter_us);
}

/* A person is needed now; the time when it ended says since when. */
static void ask_end(struct draft *draft, struct instance *instance, enum direction direction,
                    struct effect_state *side)
{
    side->next_at = WALL_NONE;
    side->ended_at = draft->event->now;
    draft_effect(draft, instance, direction, side);
}

void ask_give_up(struct draft *draft, struct instance *instance, enum direction direction)
{
    struct effect_state side = *instance_side(instance, direction);
    ASSERT(unknown_is_asked(&side));
    ask_end(draft, instance, direction, &side);
}

static void ask_later(struct draft *draft, struct instance *instance, enum direction direction,
                      struct effect_state *side, struct wall not_before)
{
    const struct plan_action *action = action_of(draft, instance, direction);
    if (draft->event->now.us >= side->ask_until.us) {
        ask_end(draft, instance, direction, side);
        return;
    }
    side->next_at = next_read(draft, instance, action, side);
    /* The last read stands at the end of the time, or when a "not applied" begins to count. */
    if (wall_is_set(not_before) && not_before.us > draft->event->now.us)
        side->next_at = not_before;
    if (side->next_at.us > side->ask_until.us)
        side->next_at = side->ask_until;
    draft_effect(draft, instance, direction, side);
}

void ask_send(struct draft *draft, struct instance *instance, enum direction direction)
{
    const struct plan_action *action = action_of(draft, instance, direction);
    struct effect_state side = *instance_side(instance, direction);
    struct wall now = draft->event->now;
    struct render render = draft_render(draft, instance, direction, &side);
    struct run_command command = {.kind = COMMAND_ASK};
    struct expr_scope scope;
    struct err err;
    ASSERT(unknown_is_asked(&side));
    struct wall open_until = admit_ask_at(draft, &action->reconcile->ask);
    if (open_until.us > now.us && now.us < side.ask_until.us) {
        side.next_at = wall_first(open_until, side.ask_until);
        draft_effect(draft, instance, direction, &side);
        return;
    }
    side.findings++;
    if (render_ask(&render, draft->scratch, &command.rendered, &scope, &err) != 0) {
        struct record_finding finding = {
            .number = side.findings,
            .source = FINDING_RECONCILE,
            .says = OUTCOME_UNKNOWN,
            .detail = arena_printf(draft->scratch, "cannot ask: %s", err.text),
        };
        finding_add(draft, instance, direction, &side, &finding);
        ask_later(draft, instance, direction, &side, WALL_NONE);
        return;
    }
    command.ref = (struct effect_ref){instance->step, instance->item, direction, side.generation};
    command.attempt = side.findings;
    command.timeout_us = action->reconcile->ask.timeout_us;
    command.deadline_at = wall_add(now, command.timeout_us);
    side.next_at = wall_add(command.deadline_at, ASK_LOST_AFTER_US);
    draft_effect(draft, instance, direction, &side);
    draft_command(draft, &command);
}

/* Whether the answer can be read as one about the action. "No such thing" is an answer; what the
 * service could not or would not say is none. */
static bool is_readable(const struct reply *reply)
{
    if (!outcome_is_answer(reply) || reply->body_dropped)
        return false;
    if (reply->kind == REPLY_HTTP)
        return (reply->status >= 200 && reply->status < 300 && reply->status != 202) ||
               reply->status == 404 || reply->status == 410;
    if (reply->kind == REPLY_EXEC)
        return reply->status >= 0 && !reply->timed_out;
    return !reply->sqlstate[0] && !reply->commit_lost;
}

static struct str unreadable_text(const struct reply *reply, struct arena *arena)
{
    if (reply->kind == REPLY_HTTP && reply->body_dropped)
        return STR("the answer to the question was too large");
    if (reply->kind == REPLY_HTTP)
        return arena_printf(arena, "the question was answered with %d", reply->status);
    if (reply->kind == REPLY_EXEC && !reply->timed_out)
        return arena_printf(arena, "the program that asks ended by signal %d", -reply->status);
    if (reply->sqlstate[0])
        return arena_printf(arena, "the question failed with SQLSTATE %s", reply->sqlstate);
    if (reply->error.len && str_is_utf8(reply->error))
        return arena_printf(arena, "no answer to the question: " STR_FMT, STR_ARG(reply->error));
    return STR("no answer to the question");
}

/* The expressions in their order; none true: unknown, and `detail` says why. */
static enum outcome proofs_read(const struct plan_reconcile *reconcile,
                                const struct expr_scope *scope, struct arena *arena,
                                struct str *detail)
{
    const struct {
        const struct expr *expr;
        const char *name;
        enum outcome says;
    } proofs[] = {{reconcile->applied, "applied", OUTCOME_APPLIED},
                  {reconcile->in_progress, "in_progress", OUTCOME_IN_PROGRESS},
                  {reconcile->refused, "refused", OUTCOME_REFUSED},
                  {reconcile->not_applied, "not_applied", OUTCOME_RETRYABLE}};
    *detail = STR("the answer proves nothing: none of the expressions is true");
    for (size_t i = 0; i < ARRAY_LEN(proofs); i++) {
        bool holds = false;
        struct err err;
        if (!proofs[i].expr)
            continue;
        if (expr_eval_bool(proofs[i].expr, scope, arena, &holds, &err) != 0) {
            *detail = arena_printf(arena, "`%s` cannot be read: %s", proofs[i].name, err.text);
        } else if (holds) {
            *detail = arena_printf(arena, "`%s` is true", proofs[i].name);
            return proofs[i].says;
        }
    }
    return OUTCOME_UNKNOWN;
}

enum outcome ask_judge(const struct plan_reconcile *reconcile, const struct reply *reply,
                       struct expr_scope *scope, struct arena *arena, struct str *detail)
{
    *detail = unreadable_text(reply, arena);
    if (!is_readable(reply))
        return OUTCOME_UNKNOWN;
    scope->response = outcome_response(reply, arena);
    return proofs_read(reconcile, scope, arena, detail);
}

static void found_applied(struct draft *draft, struct instance *instance, enum direction direction,
                          struct effect_state *side, const struct expr_scope *scope)
{
    const struct plan_reconcile *reconcile = action_of(draft, instance, direction)->reconcile;
    const struct json *output = &json_null;
    struct err err;
    side->state = STEP_APPLIED;
    side->outcome = OUTCOME_APPLIED;
    side->maybe_applied = false;
    side->next_at = WALL_NONE;
    side->ended_at = draft->event->now;
    side->error = STR_NONE;
    if (reconcile->output &&
        template_render(reconcile->output, scope, draft->scratch, &output, &err) != 0) {
        /* It has happened; that its output cannot be told is no reason to doubt it. */
        side->output_invalid = true;
        output = &json_null;
        draft_event(
            draft, "output invalid",
            key_instance(&draft->run->plan->steps[instance->step], instance->item, draft->scratch),
            arena_printf(draft->scratch, "reconcile: output: %s", err.text));
    }
    if (output->kind != JSON_NONE && output->kind != JSON_NULL)
        side->output = json_text(output, draft->scratch);
    attempt_output_look(draft, instance, direction, side);
    draft_effect(draft, instance, direction, side);
}

static void found_refused(struct draft *draft, struct instance *instance, enum direction direction,
                          struct effect_state *side)
{
    side->state = STEP_REFUSED;
    side->outcome = OUTCOME_REFUSED;
    side->maybe_applied = false;
    side->next_at = WALL_NONE;
    side->ended_at = draft->event->now;
    side->error = draft_error(draft, "found_refused",
                              "the participant was asked, and says that it has refused the action");
    draft_effect(draft, instance, direction, side);
}

void ask_reply(struct draft *draft, struct instance *instance, enum direction direction,
               uint32_t number, const struct reply *reply)
{
    const struct plan_action *action = action_of(draft, instance, direction);
    struct effect_state side = *instance_side(instance, direction);
    struct render render = draft_render(draft, instance, direction, &side);
    struct rendered rendered;
    struct expr_scope scope;
    struct err err;
    if (reply->kind == REPLY_SQL_OPEN) /* a read: nothing of it is kept */
        draft_command(draft, &(struct run_command){.kind = COMMAND_ROLLBACK});
    if (!unknown_is_asked(&side) || side.findings != number || !action->reconcile)
        return;
    struct wall settled = unknown_settled_at(action, &side);
    struct record_finding finding = {.number = number,
                                     .source = FINDING_RECONCILE,
                                     .says = OUTCOME_UNKNOWN,
                                     .detail = unreadable_text(reply, draft->scratch)};
    if (outcome_is_answer(reply)) {
        finding.status = reply->status;
        finding.body = json_text(outcome_response(reply, draft->scratch), draft->scratch);
        if (finding.body.len > FINDING_BODY_BYTES_MAX)
            finding.body = STR_NONE;
    }
    if (is_readable(reply)) {
        if (render_ask(&render, draft->scratch, &rendered, &scope, &err) != 0) {
            finding.detail = arena_str(draft->scratch, str_z(err.text));
        } else {
            finding.says =
                ask_judge(action->reconcile, reply, &scope, draft->scratch, &finding.detail);
        }
    }
    /* What counts is when it was asked, not when the answer was read: a daemon that slept in
     * between may hold an answer that was given before the attempt arrived. */
    bool early = finding.says == OUTCOME_RETRYABLE && reply->sent_at.us < settled.us;
    if (early) {
        finding.says = OUTCOME_UNKNOWN;
        finding.detail =
            arena_printf(draft->scratch, STR_FMT ", which proves nothing before " STR_FMT,
                         STR_ARG(finding.detail), STR_ARG(wall_format(settled, draft->scratch)));
    }
    finding_add(draft, instance, direction, &side, &finding);
    if (finding.says ==
        OUTCOME_IN_PROGRESS) /* it may yet be applied, so the time to settle is anew */
        side.unknown_at = draft->event->now;
    switch (finding.says) {
    case OUTCOME_APPLIED: found_applied(draft, instance, direction, &side, &scope); break;
    case OUTCOME_REFUSED: found_refused(draft, instance, direction, &side); break;
    case OUTCOME_RETRYABLE: attempt_not_applied(draft, instance, direction, &side); break;
    case OUTCOME_IN_PROGRESS:
    case OUTCOME_UNKNOWN:
        ask_later(draft, instance, direction, &side, early ? settled : WALL_NONE);
        break;
    case OUTCOME_CONFLICT:
    case OUTCOME_NONE: ASSERT(!"what a read can say");
    }
}
