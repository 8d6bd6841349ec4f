/*
 * workers.c: simulated workers. They take what is offered, keep it alive, do the work or not, say
 * so, late, twice, or never; and what they are told is judged on the spot.
 */
#include "engine/key.h"
#include "tests/sim/world.h"

#define SAYS_MAX 60 /* a worker that gets no answer gives up some day */

struct sim_offer {
    struct world *world;
    struct str run_id, key;
};

/* What one take gave one worker. */
struct sim_task {
    struct sim_task *next;
    struct world *world;
    const struct plan_action *action;
    struct str run_id, key, token;
    uint32_t attempt;
    int64_t heartbeat_us, deadline_us;
    int64_t beat_at; /* when the newest beat that was heard was sent */
    enum run_event_kind word;
    struct reply reply;
    unsigned says, repeats;
    bool answered, accepted; /* its last word; accepted: it counted */
    bool done;               /* nothing more will come of it at the participant */
    bool lost;               /* it was told that the task is no longer its own */
};

/* Something that a worker says, with what the rows said when it did. */
struct sim_word {
    struct sim_task *task;
    enum run_event_kind kind;
    int daemon;
    uint64_t epoch;
    int64_t sent_at;
    bool superseded; /* a newer take or generation was durable */
    bool given_up;   /* its silence was durable */
};

/* --- rows ----------------------------------------------------------------------------------- */

/* The effect of a task's key; *is_newest: no newer generation is there. */
static const struct record_effect *task_effect(struct world *world, struct str run_id,
                                               struct str key, bool *is_newest)
{
    struct row_run *row = world_row(world, run_id);
    struct str name;
    enum direction direction;
    uint16_t generation;
    bool is_key = key_parse(key, &name, &direction, &generation);
    ASSERT(is_key);
    for (uint32_t i = 0; row && i < row->effects_count; i++) {
        struct effect_ref ref = row->effects[i].ref;
        if (ref.direction != direction || ref.generation != generation ||
            !str_eq(name, key_instance(&row->plan->steps[ref.step], ref.item, &world->arena)))
            continue;
        ref.generation++;
        *is_newest = !world_row_effect(row, &ref);
        return &row->effects[i];
    }
    return NULL;
}

bool workers_busy(const struct world *world, struct str key)
{
    for (const struct sim_task *task = world->tasks; task; task = task->next)
        if (str_eq(task->key, key) && !task->done)
            return true;
    return false;
}

/* --- what is said, and what comes back ------------------------------------------------------ */

static void task_says(struct world_event *event);

/* A word that counted has ended the attempt, and only the newest take's word counts. */
static void accepted_check(const struct sim_word *word)
{
    struct sim_task *task = word->task;
    struct world *world = task->world;
    bool newest;
    const struct record_effect *effect = task_effect(world, task->run_id, task->key, &newest);
    if (word->superseded)
        world_fail(world, "%s: %s by attempt %u counts after a newer take", task->key.ptr,
                   run_event_name(word->kind), task->attempt);
    if (!effect)
        world_fail(world, "%s: %s counts, there is no such row", task->key.ptr,
                   run_event_name(word->kind));
    if (!effect || word->kind == EVENT_HEARTBEAT || effect->state.by_hand)
        return;
    if (word->kind == EVENT_FAIL && word->given_up && effect->state.outcome == OUTCOME_UNKNOWN)
        world_fail(world, "%s: fail counts after the worker was given up", task->key.ptr);
    if (effect->state.attempts == task->attempt && effect->state.state == STEP_CLAIMED)
        world_fail(world, "%s: %s counts, its attempt goes on", task->key.ptr,
                   run_event_name(word->kind));
    if (word->kind != EVENT_COMPLETE)
        return;
    struct ledger_entry *entry = world_ledger(world, task->key);
    if (entry->completed_by && entry->completed_by != task->attempt)
        world_fail(world, "%s is completed by attempt %u and by attempt %u", task->key.ptr,
                   entry->completed_by, task->attempt);
    entry->completed_by = task->attempt;
    if (effect->state.state != STEP_APPLIED || effect->state.attempts != task->attempt)
        world_fail(world, "%s: complete by attempt %u counts, the row says %s by attempt %u",
                   task->key.ptr, task->attempt, step_state_name(effect->state.state),
                   effect->state.attempts);
}

static void word_answered(struct sim_task *task, int code)
{
    struct world *world = task->world;
    bool again = code == ERR_UNAVAILABLE || code == ERR_LIMIT || code == ERR_DATABASE;
    if (again) {
        world_schedule(world, world_between_ms(world, 100, 600), -1, task, task_says);
        return;
    }
    if (code && task->accepted && task->word == EVENT_COMPLETE)
        world_fail(world, "%s: complete by attempt %u counted, its repetition is refused",
                   task->key.ptr, task->attempt);
    task->answered = task->done = true;
    task->accepted |= !code;
    if (task->repeats++ < 2 && rand_chance(&world->rand, 30)) {
        task->answered = false;
        world_schedule(world, world_between_ms(world, 10, 6000), -1, task, task_says);
    }
}

/* A beat that was heard by the owner keeps the task. A worker that hears that it has lost it, or
 * that the run goes back, may stop before it has done anything. */
static void beat_answered(const struct sim_word *word, const struct runner_answer *answer)
{
    struct sim_task *task = word->task;
    struct world *world = task->world;
    bool owner = world->lane_epoch[word->daemon] == word->epoch &&
                 world->shard_lane[shard_of(task->run_id)] == word->daemon;
    if (!answer->err.code && owner)
        task->beat_at = word->sent_at;
    if (answer->err.code == ERR_CONFLICT || (answer->task && answer->task->turned_back))
        task->lost |= rand_chance(&world->rand, 50);
}

static void said(void *arg, const struct runner_answer *answer)
{
    struct sim_word *word = arg;
    struct sim_task *task = word->task;
    world_trace(task->world, "worker: %s %s attempt %u: %s", run_event_name(word->kind),
                task->key.ptr, task->attempt, answer->err.code ? answer->err.text : "counts");
    if (!answer->err.code)
        accepted_check(word);
    if (word->kind == EVENT_HEARTBEAT)
        beat_answered(word, answer);
    else
        word_answered(task, answer->err.code);
}

/* False: nobody is there to hear it. */
static bool say(struct sim_task *task, enum run_event_kind kind)
{
    struct world *world = task->world;
    struct daemon *daemon = world_owner(world, task->run_id);
    struct err err;
    bool newest = true;
    if (!daemon)
        return false;
    const struct record_effect *effect = task_effect(world, task->run_id, task->key, &newest);
    struct sim_word *word = arena_new(&world->arena, struct sim_word);
    *word = (struct sim_word){.task = task,
                              .kind = kind,
                              .daemon = daemon->index,
                              .epoch = world->lane_epoch[daemon->index],
                              .sent_at = world->now,
                              .superseded =
                                  effect && (!newest || effect->state.attempts != task->attempt),
                              .given_up = effect && effect->state.state != STEP_CLAIMED &&
                                          effect->state.outcome == OUTCOME_UNKNOWN};
    struct runner_verb verb = {.kind = kind,
                               .run_id = task->run_id,
                               .key = task->key,
                               .token = task->token,
                               .actor = STR("worker"),
                               .reply = kind == EVENT_HEARTBEAT ? NULL : &task->reply};
    if (runner_verb(daemon->runner, &verb, said, word, &err) != 0)
        return false;
    world_poke(daemon, 0);
    return true;
}

/* A worker says its last word until it is answered: the daemon may die with it. */
static void task_says(struct world_event *event)
{
    struct sim_task *task = event->data;
    struct world *world = event->world;
    if (task->answered)
        return;
    if (task->says++ > SAYS_MAX) {
        task->done = true;
        return;
    }
    bool sent = say(task, task->word);
    world_schedule(world, sent ? world_between_ms(world, 2000, 4000) : 300 * MS_US, -1, task,
                   task_says);
}

/* --- the work --------------------------------------------------------------------------------- */

static void task_beats(struct world_event *event)
{
    struct sim_task *task = event->data;
    if (task->done || task->lost || task->says)
        return;
    say(task, EVENT_HEARTBEAT);
    world_schedule(event->world, task->heartbeat_us / 3, -1, task, task_beats);
}

/* Workers of steps that are declared pure or idempotent remember what they did for a key. */
static void work_do(struct world *world, const struct sim_task *task)
{
    struct ledger_entry *entry = world_ledger(world, task->key);
    bool remembers =
        task->action->effect == EFFECT_IDEMPOTENT || task->action->effect == EFFECT_PURE;
    entry->requests++;
    if (!remembers || !entry->effects)
        world_effect(world, entry);
    world_trace(world, "worker: does %s attempt %u", task->key.ptr, task->attempt);
}

static void task_works(struct world_event *event)
{
    struct sim_task *task = event->data;
    struct world *world = event->world;
    if (task->lost || world_fault(world, world->faults.worker_dies, 8)) {
        task->done = true; /* silently, and nothing was done */
        return;
    }
    if (world_fault(world, world->faults.refuse, 12)) {
        task->word = EVENT_FAIL;
        task->reply.failed = true;
    } else if (world_fault(world, world->faults.transient, 20)) {
        task->word = EVENT_FAIL;
        task->reply.failed = task->reply.retryable = true;
    } else {
        work_do(world, task);
        task->word = EVENT_COMPLETE;
        task->reply.body =
            arena_printf(&world->arena, "{\"attempt\":%u,\"id\":\"%s\"}", task->attempt,
                         world_fault(world, world->faults.poison, 5) ? "poison" : "done");
    }
    if (world_fault(world, world->faults.worker_dies, 8)) {
        task->done = true; /* silently, and the work is done */
        return;
    }
    task_says(event);
}

/* --- takes ------------------------------------------------------------------------------------ */

/* A take is durable, and an attempt of its own, before the worker is told. */
static void taken_check(struct world *world, const struct sim_task *task)
{
    bool newest;
    const struct record_effect *effect = task_effect(world, task->run_id, task->key, &newest);
    if (!effect || effect->state.attempts < task->attempt) {
        world_fail(world, "%s is handed out (attempt %u) without a durable claim", task->key.ptr,
                   task->attempt);
        return;
    }
    for (const struct sim_task *other = world->tasks; other; other = other->next)
        if (str_eq(other->key, task->key) && other->attempt == task->attempt)
            world_fail(world, "%s is handed out twice as attempt %u", task->key.ptr, task->attempt);
}

static int64_t work_time(struct world *world, const struct sim_task *task)
{
    int64_t timeout_us = task->deadline_us - world->now;
    if (world_fault(world, world->faults.worker_slow, 25))
        return timeout_us / 10 * (5 + (int64_t)rand_below(&world->rand, 20));
    int64_t most_us = MAX(MIN(timeout_us, 3 * SECOND_US) / 2, 20 * MS_US);
    return world_between_ms(world, 10, most_us / MS_US);
}

static void task_begin(struct world *world, struct sim_task *task)
{
    bool silent = world_fault(world, world->faults.worker_silent, 20);
    task->reply = (struct reply){.kind = REPLY_WORKER, .sent_at = {world->now}};
    if (world_fault(world, world->faults.worker_hangs_up, 10)) {
        task->word = EVENT_FAIL; /* it was never told: its daemon gives the task back */
        task->reply = (struct reply){.kind = REPLY_NOT_SENT, .error = STR("its worker hung up")};
        task->done = true;
        world_schedule(world, 0, -1, task, task_says);
        return;
    }
    world_schedule(world, work_time(world, task), -1, task, task_works);
    if (task->heartbeat_us && !silent)
        world_schedule(world, task->heartbeat_us / 3, -1, task, task_beats);
}

static void taken(void *arg, const struct runner_answer *answer)
{
    struct sim_offer *offer = arg;
    struct world *world = offer->world;
    const struct run_task *from = answer->task;
    if (answer->err.code) {
        world_trace(world, "worker: take of %s: %s", offer->key.ptr, answer->err.text);
        return;
    }
    const struct row_run *row = world_row(world, offer->run_id);
    bool newest;
    struct sim_task *task = arena_new(&world->arena, struct sim_task);
    task->world = world;
    task->run_id = offer->run_id;
    task->key = arena_str(&world->arena, from->key);
    task->token = arena_str(&world->arena, from->token);
    task->attempt = from->attempt;
    task->heartbeat_us = from->heartbeat_us;
    task->deadline_us = from->deadline_at.us;
    world_trace(world, "worker: takes %s attempt %u", task->key.ptr, task->attempt);
    taken_check(world, task);
    const struct record_effect *effect = task_effect(world, task->run_id, task->key, &newest);
    if (!effect)
        return;
    task->action = step_action(&row->plan->steps[effect->ref.step], from->direction);
    task->next = world->tasks;
    world->tasks = task;
    task_begin(world, task);
}

/* Some worker sees the offer, sooner or later; sometimes two see it. */
static void offer_seen(struct world_event *event)
{
    struct sim_offer *offer = event->data;
    struct world *world = event->world;
    struct daemon *daemon = world_event_daemon(event);
    struct runner_verb verb = {.kind = EVENT_TAKE, .run_id = offer->run_id, .key = offer->key};
    struct err err;
    if (!world_event_reaches(event))
        return;
    if (runner_verb(daemon->runner, &verb, taken, offer, &err) == 0)
        world_poke(daemon, 0);
    else if (world->shard_lane[shard_of(offer->run_id)] == event->daemon)
        world_schedule(world, 300 * MS_US, event->daemon, offer, offer_seen);
}

void workers_offer(struct daemon *daemon, struct str run_id, struct str key)
{
    struct world *world = daemon->world;
    struct sim_offer *offer = arena_new(&world->arena, struct sim_offer);
    *offer = (struct sim_offer){.world = world,
                                .run_id = arena_str(&world->arena, run_id),
                                .key = arena_str(&world->arena, key)};
    world_schedule(world, world_between_ms(world, 1, 1500), daemon->index, offer, offer_seen);
    if (world_fault(world, world->faults.worker_race, 15))
        world_schedule(world, world_between_ms(world, 1, 1500), daemon->index, offer, offer_seen);
}

/* --- what is written about them --------------------------------------------------------------- */

/* Nobody is given up who was heard in time. A beat may keep the task for up to a quarter of the
 * limit less than it asks for: it is not written each time. */
void workers_write_check(struct world *world, const struct row_run *row,
                         const struct effect_state *before, const struct record_effect *after)
{
    const struct plan_step *step = &row->plan->steps[after->ref.step];
    const struct plan_action *action = step_action(step, after->ref.direction);
    if (action->kind != ACTION_WORKER || before->state != STEP_CLAIMED ||
        after->state.state == STEP_CLAIMED || after->state.by_hand ||
        after->state.outcome != OUTCOME_UNKNOWN)
        return;
    struct str key = key_make(row->id, key_instance(step, after->ref.item, &world->arena),
                              after->ref.direction, after->ref.generation, &world->arena);
    for (const struct sim_task *task = world->tasks; task; task = task->next)
        if (str_eq(task->key, key) && task->attempt == before->attempts && !task->says &&
            task->heartbeat_us && task->beat_at + task->heartbeat_us / 4 * 3 > world->now &&
            task->deadline_us > world->now)
            world_fail(world, "%s attempt %u is given up, its worker was heard in time", key.ptr,
                       task->attempt);
}

/* What counted is still there at the end. */
void workers_check(struct world *world)
{
    for (const struct sim_task *task = world->tasks; task; task = task->next) {
        bool newest;
        const struct record_effect *effect = task_effect(world, task->run_id, task->key, &newest);
        char wanted[32];
        if (task->word != EVENT_COMPLETE || !task->accepted || effect->state.by_hand)
            continue;
        snprintf(wanted, sizeof(wanted), "\"attempt\":%u,", task->attempt);
        struct str output = effect->state.output;
        bool unstorable = memmem(task->reply.body.ptr, task->reply.body.len, "poison", 6);
        if (unstorable && effect->state.output_invalid)
            continue;
        if (effect->state.state != STEP_APPLIED || !output.len ||
            !memmem(output.ptr, output.len, wanted, strlen(wanted)))
            world_fail(world, "%s: complete by attempt %u counted and is lost: %s %s",
                       task->key.ptr, task->attempt, step_state_name(effect->state.state),
                       output.len ? output.ptr : "(no output)");
    }
}
