/*
 * children.c: steps whose participant is this runner itself: they start another run, wait for its
 * end, and undo it by telling it to turn back.
 *
 * Parent and child share a shard, so both are here. A wait is known by the child's id and only
 * lives in memory: after a crash the parent recovers and asks again, which is the same child,
 * because its id is. Whatever is asked of a child, its image is loaded first; so a child that
 * exists is found, ended or not, before it could be started a second time.
 */
#include "engine/log.h"
#include "engine/runner_impl.h"

#include <stdlib.h>

struct child_wait {
    struct map_node node; /* by the child's id */
    struct arena arena;   /* the texts */
    struct str child, parent;
    struct effect_ref ref; /* the parent's */
    uint32_t attempt;
    bool detached;
};

/* What was asked of a child, until it is answered. Lies in the arena of its work. */
struct child_ask {
    struct runner *runner;
    struct str child;
    enum run_event_kind kind; /* EVENT_START, EVENT_CANCEL, EVENT_COMPENSATE */
    struct sha256 input_hash; /* EVENT_START */
    struct str workflow;
    struct err no_plan; /* EVENT_START without a definition: only a child that exists is found */
};

/* --- waits ---------------------------------------------------------------------------------- */

static struct child_wait *wait_find(const struct runner *runner, struct str child)
{
    struct map_node *node = map_first(&runner->children, str_hash(child));
    for (; node; node = map_next(node)) {
        struct child_wait *wait = CONTAINER_OF(node, struct child_wait, node);
        if (str_eq(wait->child, child))
            return wait;
    }
    return NULL;
}

static void wait_free(struct runner *runner, struct child_wait *wait)
{
    map_remove(&runner->children, &wait->node);
    arena_free(&wait->arena);
    free(wait);
}

/* The newest question to a child is the one that its end answers. */
static void wait_put(struct runner *runner, const struct slot *parent,
                     const struct run_command *command, bool detached)
{
    struct child_wait *wait = wait_find(runner, command->rendered.child);
    if (wait)
        wait_free(runner, wait);
    wait = xcalloc(1, sizeof(*wait));
    wait->child = arena_str(&wait->arena, command->rendered.child);
    wait->parent = arena_str(&wait->arena, parent->id);
    wait->ref = command->ref;
    wait->ref.item = arena_str(&wait->arena, command->ref.item);
    wait->attempt = command->attempt;
    wait->detached = detached;
    map_insert(&runner->children, &wait->node, str_hash(wait->child));
}

void children_drop(struct runner *runner, uint64_t shards)
{
    for (size_t i = 0; i < runner->children.size; i++)
        for (struct map_node *node = runner->children.buckets[i], *next; node; node = next) {
            struct child_wait *wait = CONTAINER_OF(node, struct child_wait, node);
            next = node->chain;
            if (shards >> shard_of(wait->child) & 1)
                wait_free(runner, wait);
        }
}

/* The parent's attempt has its answer. A parent that is not here asks again when it is loaded. */
static void wait_answer(struct runner *runner, struct child_wait *wait, const struct reply *from)
{
    struct slot *slot = slot_find(runner, wait->parent);
    if (slot && !slot->loading) {
        struct work *work = work_new(slot, EVENT_REPLY);
        struct reply *reply = arena_new(&work->arena, struct reply);
        *reply = *from;
        reply->kind = REPLY_CHILD;
        reply->sent_at = reply->ended_at = runner->now;
        reply->body = arena_str(&work->arena, from->body);
        reply->error = arena_str(&work->arena, from->error);
        reply->code = arena_str(&work->arena, from->code);
        work->event.reply.ref = wait->ref;
        work->event.reply.ref.item = arena_str(&work->arena, wait->ref.item);
        work->event.reply.attempt = wait->attempt;
        work->event.reply.reply = reply;
        runner->stats.replies[REPLY_CHILD]++;
        work_queue(runner, work);
    }
    wait_free(runner, wait);
}

static void wait_refuse(struct runner *runner, struct child_wait *wait, const char *code,
                        const char *why)
{
    struct reply reply = {.child = CHILD_REFUSED, .code = str_z(code), .error = str_z(why)};
    wait_answer(runner, wait, &reply);
}

/* --- ends ----------------------------------------------------------------------------------- */

/* "the child run r1~ship was undone: no boxes left", as far as its first error tells. */
static struct str undone_text(const struct run *child, struct arena *arena)
{
    const struct json *error;
    struct err err;
    struct str why = STR_NONE;
    if (child->now.error.ptr && json_parse(child->now.error, arena, &error, &err) == 0)
        why = json_get_text(error, "message");
    return arena_printf(arena, "the child run " STR_FMT " was undone%s" STR_FMT, STR_ARG(child->id),
                        why.len ? ": " : "", STR_ARG(why));
}

void child_ended(struct runner *runner, const struct run *child)
{
    struct child_wait *wait =
        run_state_is_terminal(child->now.state) ? wait_find(runner, child->id) : NULL;
    struct arena scratch = {0};
    struct reply reply = {0};
    if (!wait)
        return;
    bool undo = wait->ref.direction == DIRECTION_COMPENSATE;
    if (child->now.state == RUN_ABANDONED) {
        reply.child = CHILD_ABANDONED;
        reply.body = child->now.error;
    } else if (child->now.state == RUN_COMPLETED && !undo) {
        reply.child = CHILD_DONE;
        reply.body = child->now.output;
    } else if (child->now.state == RUN_COMPENSATED && undo) {
        reply.child = CHILD_DONE;
    } else if (child->now.state == RUN_COMPENSATED) {
        reply.child = CHILD_UNDONE;
        reply.body = child->now.error;
        reply.error = undone_text(child, &scratch);
    }
    if (reply.child != CHILD_NONE) /* else it is completed and about to turn back */
        wait_answer(runner, wait, &reply);
    arena_free(&scratch);
}

/* --- asking --------------------------------------------------------------------------------- */

static void start_answered(const struct child_ask *ask, struct child_wait *wait,
                           const struct runner_answer *answer)
{
    struct runner *runner = ask->runner;
    const struct slot *slot = slot_find(runner, ask->child);
    const struct unit_taken *taken = answer->taken;
    if (ask->no_plan.code && answer->err.code) {
        wait_refuse(runner, wait,
                    ask->no_plan.code == ERR_NOT_FOUND ? "no_such_workflow" : "input_invalid",
                    ask->no_plan.text);
    } else if (answer->err.code) {
        wait_refuse(runner, wait, "child_refused", answer->err.text);
    } else if (taken && (!sha256_eq(&taken->input_hash, &ask->input_hash) ||
                         !str_eq(taken->workflow, ask->workflow))) {
        wait_refuse(runner, wait, "run_id_conflict",
                    "the child's run id was used with another input or workflow");
    } else if (wait->detached) {
        wait_answer(runner, wait, &(struct reply){.child = CHILD_STARTED});
    } else if (slot && slot->run && answer->state != RUN_NONE && taken) {
        child_ended(runner, slot->run);
    }
}

/* Nothing is concluded from answers that say nothing about the child: the parent goes on waiting,
 * or asks again after the load that follows. */
static bool answer_counts(enum err_code code)
{
    return code == ERR_NONE || code == ERR_INVALID || code == ERR_NOT_FOUND ||
           code == ERR_CONFLICT || code == ERR_LIMIT;
}

static void child_answered(void *arg, const struct runner_answer *answer)
{
    const struct child_ask *ask = arg;
    struct runner *runner = ask->runner;
    struct child_wait *wait = wait_find(runner, ask->child);
    const struct slot *slot = slot_find(runner, ask->child);
    if (!wait || !answer_counts(answer->err.code))
        return;
    if (ask->kind == EVENT_START) {
        start_answered(ask, wait, answer);
    } else if (answer->err.code == ERR_NOT_FOUND) {
        wait_refuse(runner, wait, "child_not_started", "the child was never started");
    } else if (answer->err.code && ask->kind == EVENT_COMPENSATE) {
        wait_refuse(runner, wait, "child_not_undone", answer->err.text);
    } else if (answer->err.code && slot && slot->run) {
        child_ended(runner, slot->run); /* it had ended, or its pivot lets it only go on */
    }
}

/* The question goes behind whatever the child's slot has to do, the load first. */
static struct work *child_work(struct runner *runner, struct str child, enum run_event_kind kind,
                               struct child_ask **out)
{
    struct slot *slot = slot_find(runner, child);
    if (!slot) {
        slot = slot_new(runner, child);
        slot->loading = true;
        runner->store.load_run(runner->store.arg, slot->id);
    }
    struct work *work = work_new(slot, kind);
    struct child_ask *ask = arena_new(&work->arena, struct child_ask);
    *ask =
        (struct child_ask){.runner = runner, .child = arena_str(&work->arena, child), .kind = kind};
    work->cb = child_answered;
    work->cb_arg = ask;
    *out = ask;
    return work;
}

static void child_start(struct runner *runner, const struct slot *parent,
                        const struct run_command *command)
{
    const struct request *request = &command->rendered.request;
    const struct record_start *start = &parent->run->start;
    struct child_ask *ask;
    struct work *work = child_work(runner, command->rendered.child, EVENT_START, &ask);
    struct arena *arena = &work->arena;
    const struct json *input;
    struct buf canonical = {0};
    ask->workflow = arena_str(arena, str_z(request->action->child.workflow));
    int code = json_parse(request->body, arena, &input, &ask->no_plan);
    ASSERT(code == 0); /* the renderer made it */
    json_write_canonical(input, &canonical);
    ask->input_hash = sha256_of(buf_str(&canonical));
    buf_free(&canonical);

    const struct port_plans *plans = &runner->config.plans;
    const struct plan *plan =
        plans->find ? plans->find(plans->arg, ask->workflow, input, &ask->no_plan) : NULL;
    if (!plan && !plans->find)
        err_set(&ask->no_plan, ERR_NOT_FOUND, "there is no workflow \"" STR_FMT "\"",
                STR_ARG(ask->workflow));
    if (plan) {
        ask->no_plan.code = ERR_NONE;
        work->plan = plan_ref(plan);
    }
    work->event.start = (struct record_start){
        .tenant = arena_str(arena, start->tenant),
        .actor = arena_str(arena, start->actor),
        .input = arena_str(arena, request->body),
        .input_hash = ask->input_hash,
        .parent = arena_str(arena, parent->id),
        .depth = (uint16_t)(start->depth + 1),
        .suspect_from = start->suspect_from,
    };
    work_queue(runner, work);
}

static void child_tell(struct runner *runner, const struct slot *parent, struct str child,
                       enum run_event_kind kind)
{
    struct child_ask *ask;
    struct work *work = child_work(runner, child, kind, &ask);
    work->event.verb.step = STR("");
    work->event.verb.reason = STR("the run whose child it is turns back");
    work->event.verb.actor = arena_printf(&work->arena, "run:" STR_FMT, STR_ARG(parent->id));
    work->event.verb.by_parent = true;
    work_queue(runner, work);
}

void child_invoke(struct runner *runner, const struct slot *parent,
                  const struct run_command *command)
{
    const struct plan_action *action = command->rendered.request.action;
    bool undo = command->ref.direction == DIRECTION_COMPENSATE;
    wait_put(runner, parent, command, action->child.detached && !undo);
    runner->stats.commands++;
    if (undo)
        child_tell(runner, parent, command->rendered.child, EVENT_COMPENSATE);
    else
        child_start(runner, parent, command);
}

void child_cancel(struct runner *runner, const struct slot *parent,
                  const struct run_command *command)
{
    wait_put(runner, parent, command, false);
    child_tell(runner, parent, command->rendered.child, EVENT_CANCEL);
}
