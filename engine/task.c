#include "engine/task.h"

#include "engine/attempt.h"
#include "engine/key.h"

#include <stdio.h>

#define TOKEN_HASH_BYTES 16

static const struct plan_action *
action_of(const struct draft *draft, const struct instance *instance, enum direction direction)
{
    return step_action(&draft->run->plan->steps[instance->step], direction);
}

static struct str instance_key(const struct draft *draft, const struct instance *instance,
                               enum direction direction, uint16_t generation)
{
    const struct plan_step *step = &draft->run->plan->steps[instance->step];
    return key_make(draft->run->id, key_instance(step, instance->item, draft->scratch), direction,
                    generation, draft->scratch);
}

/* What the newest attempt of this side gave its worker: `DEADLINE.HASH`, both in hexadecimal; the
 * deadline is in it because no row holds it. */
static struct str task_token(struct str key, const struct effect_state *side, struct wall deadline,
                             struct arena *arena)
{
    struct buf text = {0};
    char hex[65];
    buf_add_str(&text, key);
    buf_printf(&text, " %u %lld ", side->attempts, (long long)deadline.us);
    buf_add(&text, side->request_hash.bytes, sizeof(side->request_hash.bytes));
    struct sha256 hash = sha256_of(buf_str(&text));
    buf_free(&text);
    sha256_hex(&hash, hex);
    return arena_printf(arena, "%llx.%.*s", (unsigned long long)deadline.us, 2 * TOKEN_HASH_BYTES,
                        hex);
}

/* The deadline that a token carries; unset if it is none of ours. */
static struct wall token_deadline(struct str token)
{
    unsigned long long us;
    char copy[64], end;
    if (!token.len || token.len >= sizeof(copy))
        return WALL_NONE;
    memcpy(copy, token.ptr, token.len);
    copy[token.len] = '\0';
    if (sscanf(copy, "%16llx%c", &us, &end) != 2 || end != '.' || us > INT64_MAX)
        return WALL_NONE;
    return (struct wall){(int64_t)us};
}

/* --- offering ------------------------------------------------------------------------------- */

static void offer_command(struct draft *draft, const struct instance *instance,
                          enum direction direction, uint16_t generation)
{
    const struct plan_action *action = action_of(draft, instance, direction);
    draft_command(draft,
                  &(struct run_command){
                      .kind = COMMAND_OFFER,
                      .ref = {instance->step, instance->item, direction, generation},
                      .offer = {.queue = str_z(action->worker.queue),
                                .key = instance_key(draft, instance, direction, generation)}});
}

void task_offer(struct draft *draft, const struct instance *instance, enum direction direction,
                struct effect_state *side)
{
    const struct plan_action *action = action_of(draft, instance, direction);
    side->state = STEP_WAITING;
    /* Nobody may take it past its budget; nor what may have been done, past its key's lifetime. */
    side->next_at = side->budget_at;
    if (side->maybe_applied && action->effect == EFFECT_COMPENSABLE)
        side->next_at = wall_first(side->next_at, side->key_valid_until);
    if (action->worker.schedule_timeout_us)
        side->next_at = wall_first(side->next_at,
                                   wall_add(draft->event->now, action->worker.schedule_timeout_us));
    offer_command(draft, instance, direction, side->generation);
}

void task_recover(struct draft *draft, const struct instance *instance, enum direction direction)
{
    const struct effect_state *side = instance_side((struct instance *)instance, direction);
    if (instance_is_loop(draft->run, instance) || side->approval == APPROVAL_PENDING)
        return; /* it waits for its items, or for a person */
    if (action_of(draft, instance, direction)->kind == ACTION_WORKER && side->state == STEP_WAITING)
        offer_command(draft, instance, direction, side->generation);
}

/* --- what workers say ----------------------------------------------------------------------- */

static void lost(struct draft *draft, const char *why)
{
    err_set(&draft->out->answer, ERR_CONFLICT, "task_lost: %s", why);
}

/* The side that a task's key names, NULL after refusing. */
static struct instance *task_find(struct draft *draft, enum direction *direction)
{
    const struct run *run = draft->run;
    struct str instance_name, key = draft->event->task.key;
    uint16_t generation;
    if (!key_parse(key, &instance_name, direction, &generation)) {
        err_set(&draft->out->answer, ERR_INVALID, "this is no key of a task");
        return NULL;
    }
    struct instance *instance = run_instance_named(run, instance_name);
    if (!instance || instance_is_loop(run, instance) ||
        action_of(draft, instance, *direction)->kind != ACTION_WORKER) {
        err_set(&draft->out->answer, ERR_NOT_FOUND, "the run has no such task");
        return NULL;
    }
    if (instance_side(instance, *direction)->generation != generation) {
        lost(draft, "the task's key was renewed");
        return NULL;
    }
    return instance;
}

bool task_take_decide(struct draft *draft)
{
    struct wall now = draft->event->now;
    enum direction direction;
    struct instance *instance = task_find(draft, &direction);
    if (!instance)
        return false;
    struct effect_state side = *instance_side(instance, direction);
    if (side.state != STEP_WAITING || side.approval == APPROVAL_PENDING || draft->run->now.paused ||
        draft->event->hold) {
        lost(draft, "it is not offered any more");
        return false;
    }
    if (wall_passed(side.next_at, now)) {
        task_due(draft, instance, direction);
        lost(draft, "the time in which it could be taken is over");
        return true;
    }
    const struct plan_action *action = action_of(draft, instance, direction);
    struct run_task *task = arena_new(draft->scratch, struct run_task);
    struct rendered rendered;
    if (!attempt_render_again(draft, instance, direction, &side, &rendered)) {
        lost(draft, "its payload is no longer the one that was claimed");
        return true;
    }
    if (!side.attempts)
        side.budget_at = wall_add(now, action->retry.budget_us);
    task->deadline_at = wall_add(now, action->timeout_us);
    task->heartbeat_us = action->worker.heartbeat_us;
    side.state = STEP_CLAIMED;
    side.attempts++;
    side.next_at = task->heartbeat_us
                       ? wall_first(wall_add(now, task->heartbeat_us), task->deadline_at)
                       : task->deadline_at;
    task->key = rendered.key;
    task->step = rendered.instance;
    task->compensates = rendered.compensates;
    task->direction = direction;
    task->attempt = side.attempts;
    task->payload = rendered.request.body;
    task->token = task_token(task->key, &side, task->deadline_at, draft->scratch);
    draft_effect(draft, instance, direction, &side);
    draft->out->task = task;
    return false;
}

static void heartbeat(struct draft *draft, const struct instance *instance,
                      enum direction direction, struct wall deadline)
{
    const struct plan_action *action = action_of(draft, instance, direction);
    struct effect_state side = *instance_side((struct instance *)instance, direction);
    struct run_task *task = arena_new(draft->scratch, struct run_task);
    int64_t silence_us = action->worker.heartbeat_us;
    if (silence_us) {
        struct wall next = wall_first(wall_add(draft->event->now, silence_us), deadline);
        /* A worker that beats more often than needed costs no write; the deadline is its own to the
         * last moment. */
        bool to_the_end = next.us == deadline.us && next.us > side.next_at.us;
        if (to_the_end || next.us - side.next_at.us > silence_us / 4) {
            side.next_at = next;
            draft_effect(draft, instance, direction, &side);
        }
    }
    task->deadline_at = deadline;
    task->heartbeat_us = silence_us;
    task->turned_back =
        direction == DIRECTION_EXECUTE && draft->run->now.direction == DIRECTION_COMPENSATE;
    draft->out->task = task;
}

/* The attempt has ended already: the same word again is answered as it was, another one is not. */
static void repeated(struct draft *draft, const struct effect_state *side)
{
    bool complete = draft->event->kind == EVENT_COMPLETE;
    bool same = complete ? side->state == STEP_APPLIED
                         : draft->event->kind == EVENT_FAIL && side->outcome != OUTCOME_UNKNOWN &&
                               side->state != STEP_APPLIED;
    if (!same)
        lost(draft, side->state == STEP_APPLIED
                        ? "it was completed already"
                        : "it was given up: its worker was silent too long");
}

bool task_report_decide(struct draft *draft)
{
    enum direction direction;
    struct instance *instance = task_find(draft, &direction);
    if (!instance)
        return false;
    const struct effect_state *side = instance_side(instance, direction);
    struct wall deadline = token_deadline(draft->event->task.token);
    struct str key = instance_key(draft, instance, direction, side->generation);
    if (!side->attempts || !wall_is_set(deadline) ||
        !str_eq(draft->event->task.token, task_token(key, side, deadline, draft->scratch))) {
        lost(draft, "the token is not the one of its newest take");
        return false;
    }
    bool complete = draft->event->kind == EVENT_COMPLETE;
    bool over = run_state_is_terminal(draft->run->now.state) && side->state == STEP_CLAIMED;
    /* Nobody else has taken it since, so its word is certain, however late. */
    if (complete &&
        (over || side->state == STEP_UNKNOWN || (side->state == STEP_SKIPPED && side->by_hand))) {
        attempt_reply(draft, instance, direction, draft->event->task.reply);
        return true;
    }
    if (over) {
        lost(draft, "the run has ended");
        return false;
    }
    if (draft->event->kind == EVENT_HEARTBEAT) {
        if (side->state == STEP_CLAIMED)
            heartbeat(draft, instance, direction, deadline);
        else
            repeated(draft, side);
        return false;
    }
    /* Its worker was thought lost and nobody else has taken it yet: late, but certain. */
    bool late = complete && side->maybe_applied &&
                (side->state == STEP_RETRYING || side->state == STEP_WAITING);
    if (side->state != STEP_CLAIMED && !late) {
        repeated(draft, side);
        return false;
    }
    attempt_reply(draft, instance, direction, draft->event->task.reply);
    return true;
}

void task_due(struct draft *draft, struct instance *instance, enum direction direction)
{
    const struct effect_state *side = instance_side(instance, direction);
    struct wall now = draft->event->now;
    if (side->state == STEP_WAITING) {
        attempt_not_taken(draft, instance, direction);
        return;
    }
    struct reply reply = {.kind = REPLY_NO_ANSWER,
                          .sent_at = side->next_at,
                          .ended_at = now,
                          .timed_out = true,
                          .error = STR("its worker was silent for too long")};
    attempt_reply(draft, instance, direction, &reply);
}
