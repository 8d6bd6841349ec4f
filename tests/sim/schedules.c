/*
 * schedules.c: a workflow that the clock starts: daemons that look, the transaction of a tick as a
 * model, the inbox through which its runs come, and what is promised about them.
 *
 * The clocks that schedules go by run faster here than the world, so that a world has many minutes.
 */
#include "engine/base/cron.h"
#include "engine/tick.h"
#include "tests/sim/world.h"

#define PACE 10
#define LOOK_US (500 * MS_US)
#define TICKS_MAX 16
#define OVER_US (12 * SECOND_US) /* after the last tick nothing of a schedule is late any more */

/* One tick that the file names, and what became of it. */
struct sim_tick {
    struct wall at;
    enum tick_answer dealt; /* NONE: not dealt with (yet) */
    struct str waits_for;   /* the run that was open when it came, under `queue`; absent: none */
};

/* A row of the inbox. */
struct sim_inbox {
    struct sim_inbox *next;
    struct str run_id, id, input;
    bool settled;
    uint64_t offered[WORLD_DAEMONS]; /* under which epoch of that daemon's lane */
};

/* Something that a daemon asks the database. */
struct sim_question {
    struct sim_schedule *schedule;
    enum tick_step step;
    struct wall tick, asked_at;
    bool ghost;
    struct wall last, busy_until; /* the answers */
    enum tick_answer answer;
};

/* What one daemon remembers; it dies with it. */
struct sim_memory {
    uint64_t incarnation, connection;
    struct tick_state state;
    struct sim_question *question; /* that is under way */
    int64_t skew_us;               /* of its clock, from the database's */
};

struct sim_schedule {
    struct world *world;
    struct plan *plan;
    struct sim_tick ticks[TICKS_MAX];
    unsigned ticks_count;
    struct sim_memory memory[WORLD_DAEMONS];
    struct sim_inbox *inbox;

    /* The row of saga.schedule. */
    bool exists;
    struct wall began, last_tick;
    struct str last_run; /* absent: none */
};

/* --- clocks --------------------------------------------------------------------------------- */

static struct wall paced(int64_t world_us)
{
    return (struct wall){WORLD_EPOCH_US + (world_us - WORLD_EPOCH_US) * PACE};
}

static int64_t world_time(struct wall at)
{
    return WORLD_EPOCH_US + (at.us - WORLD_EPOCH_US) / PACE;
}

static struct wall daemon_clock(const struct sim_schedule *schedule, int daemon)
{
    struct wall now = paced(schedule->world->now);
    return (struct wall){now.us + schedule->memory[daemon].skew_us};
}

static void clock_jumps(struct world_event *event)
{
    struct world *world = event->world;
    struct sim_memory *memory = world->schedule->memory;
    if (world->healed) {
        for (int i = 0; i < WORLD_DAEMONS; i++)
            memory[i].skew_us = 0;
        return;
    }
    memory[rand_below(&world->rand, WORLD_DAEMONS)].skew_us =
        world_between_ms(world, -150000, 150000);
    world_schedule(world, world_between_ms(world, 1000, 15000), -1, NULL, clock_jumps);
}

/* --- the database --------------------------------------------------------------------------- */

static struct sim_inbox *inbox_find(const struct sim_schedule *schedule, struct str id)
{
    struct sim_inbox *entry = schedule->inbox;
    while (entry && !str_eq(entry->id, id))
        entry = entry->next;
    return entry;
}

static struct str inbox_id(struct sim_schedule *schedule, struct str run_id)
{
    return arena_printf(&schedule->world->arena, "schedule-" STR_FMT, STR_ARG(run_id));
}

static bool last_run_is_open(struct sim_schedule *schedule)
{
    if (!schedule->last_run.ptr)
        return false;
    const struct row_run *row = world_row(schedule->world, schedule->last_run);
    const struct sim_inbox *entry = inbox_find(schedule, inbox_id(schedule, schedule->last_run));
    return (row && !run_state_is_terminal(row->now.state)) || (entry && !entry->settled);
}

static void inbox_put(struct sim_schedule *schedule, struct str run_id)
{
    struct arena *arena = &schedule->world->arena;
    struct str id = inbox_id(schedule, run_id);
    if (inbox_find(schedule, id))
        return;
    struct sim_inbox *entry = arena_new(arena, struct sim_inbox);
    entry->id = id;
    entry->run_id = run_id;
    entry->input = arena_printf(arena, "{\"id\":\"" STR_FMT "\",\"n\":%u}", STR_ARG(run_id),
                                (unsigned)(str_hash(run_id) % 1000));
    entry->next = schedule->inbox;
    schedule->inbox = entry;
}

static struct sim_tick *tick_find(struct sim_schedule *schedule, struct wall at)
{
    for (unsigned i = 0; i < schedule->ticks_count; i++)
        if (schedule->ticks[i].at.us == at.us)
            return &schedule->ticks[i];
    return NULL;
}

/* Each tick is dealt with once, none before one that was dealt with, none before its time. */
static void tick_deal(const struct sim_question *question, enum tick_answer how)
{
    struct sim_schedule *schedule = question->schedule;
    struct world *world = schedule->world;
    struct sim_tick *tick = tick_find(schedule, question->tick);
    const char *id =
        tick_run_id(str_z(schedule->plan->workflow), question->tick, &world->arena).ptr;
    if (!tick) {
        world_fail(world, "%s is no tick of the schedule", id);
        return;
    }
    if (tick->dealt)
        world_fail(world, "%s is dealt with twice", id);
    if (tick->at.us <= schedule->began.us)
        world_fail(world, "%s came before the schedule began", id);
    if (tick->at.us > question->asked_at.us)
        world_fail(world, "%s is dealt with before its time", id);
    for (unsigned i = 0; i < schedule->ticks_count; i++)
        if (schedule->ticks[i].at.us > tick->at.us && schedule->ticks[i].dealt)
            world_fail(world, "%s is dealt with after a later one", id);
    if (how == TICK_ANSWER_SKIPPED && schedule->plan->schedule->overlap != OVERLAP_SKIP)
        world_fail(world, "%s is skipped, its schedule says queue", id);
    tick->dealt = how;
}

/* saga.schedule_tick_v1 as a model. */
static enum tick_answer tick_transact(const struct sim_question *question)
{
    struct sim_schedule *schedule = question->schedule;
    if (!schedule->exists || schedule->last_tick.us >= question->tick.us)
        return TICK_ANSWER_OTHER;
    bool open = last_run_is_open(schedule);
    if (open && schedule->plan->schedule->overlap == OVERLAP_QUEUE)
        return TICK_ANSWER_BUSY;
    tick_deal(question, open ? TICK_ANSWER_SKIPPED : TICK_ANSWER_STARTED);
    schedule->last_tick = question->tick;
    if (open)
        return TICK_ANSWER_SKIPPED;
    schedule->last_run =
        tick_run_id(str_z(schedule->plan->workflow), question->tick, &schedule->world->arena);
    inbox_put(schedule, schedule->last_run);
    return TICK_ANSWER_STARTED;
}

/* saga.schedule_get_v2 as a model. */
static void learn_transact(struct sim_question *question)
{
    struct sim_schedule *schedule = question->schedule;
    struct wall now = paced(schedule->world->now);
    if (!schedule->exists) {
        schedule->exists = true;
        schedule->began = schedule->last_tick = now;
    }
    question->last = schedule->last_tick;
    question->busy_until = WALL_NONE;
    const struct row_run *row =
        schedule->last_run.ptr ? world_row(schedule->world, schedule->last_run) : NULL;
    if (last_run_is_open(schedule))
        question->busy_until = now;
    else if (row)
        question->busy_until = paced(row->now.ended_at.us);
}

/* --- questions ------------------------------------------------------------------------------ */

static void question_end(struct sim_memory *memory, const struct sim_question *question)
{
    memory->question = NULL;
    if (!question)
        tick_answered(&memory->state, TICK_ANSWER_NONE);
    else if (question->step == TICK_STEP_LEARN)
        tick_learned(&memory->state, question->last, question->busy_until);
    else
        tick_answered(&memory->state, question->answer);
}

static void question_answered(struct world_event *event)
{
    struct sim_question *question = event->data;
    struct sim_memory *memory = &question->schedule->memory[event->daemon];
    if (!world_event_reaches(event) || memory->question != question)
        return;
    bool lost = world_fault(event->world, event->world->faults.tick_lost, 20);
    question_end(memory, lost ? NULL : question);
}

static void question_arrived(struct world_event *event)
{
    struct world *world = event->world;
    struct daemon *daemon = world_event_daemon(event);
    struct sim_question *question = event->data;
    bool current =
        daemon->incarnation == event->incarnation && daemon->connection == event->connection;
    if (!current && !question->ghost && world->faults.ghosts && rand_chance(&world->rand, 60)) {
        question->ghost = true;
        world_schedule(world, world_between_ms(world, 1, 15000), event->daemon, question,
                       question_arrived);
        return;
    }
    if (!current && !question->ghost)
        return;
    if (question->step == TICK_STEP_LEARN)
        learn_transact(question);
    else
        question->answer = tick_transact(question);
    world_trace(world, "schedule: daemon %d asks (%d), answer %d%s", event->daemon, question->step,
                question->answer, question->ghost ? ", as a ghost" : "");
    if (!question->ghost)
        world_schedule(world, 2 * MS_US, event->daemon, question, question_answered);
}

static void ask(struct sim_schedule *schedule, int daemon, enum tick_step step, struct wall now)
{
    struct world *world = schedule->world;
    struct sim_memory *memory = &schedule->memory[daemon];
    struct sim_question *question = arena_new(&world->arena, struct sim_question);
    question->schedule = schedule;
    question->step = step;
    question->tick = memory->state.tick;
    question->asked_at = now;
    memory->question = question;
    memory->connection = world->daemons[daemon].connection;
    int64_t slow_us = world_fault(world, world->faults.tick_lost, 20) ? 2 * SECOND_US : 0;
    world_schedule(world, world_between_ms(world, 1, 20) + slow_us, daemon, question,
                   question_arrived);
}

/* --- looking -------------------------------------------------------------------------------- */

/* A tick is asked for by whoever knows that it was not dealt with; without catch_up, one of this
 * minute. */
static void look_check(struct sim_schedule *schedule, const struct tick_state *before,
                       enum tick_step step, struct wall now)
{
    const struct sim_tick *newest = NULL;
    for (unsigned i = 0; i < schedule->ticks_count; i++)
        if (schedule->ticks[i].at.us <= now.us)
            newest = &schedule->ticks[i];
    if (before->asking || !wall_is_set(before->last) || !newest || newest->at.us <= before->last.us)
        return;
    bool missed =
        now.us - newest->at.us > MINUTE_US && schedule->plan->schedule->catch_up == CATCH_UP_NONE;
    if (!missed && step != TICK_STEP_START)
        world_fail(schedule->world, "a tick has come, and nobody asks for its run");
}

static void schedule_look(struct world_event *event)
{
    struct world *world = event->world;
    struct daemon *daemon = world_event_daemon(event);
    struct sim_schedule *schedule = world->schedule;
    struct sim_memory *memory = &schedule->memory[event->daemon];
    world_schedule(world, LOOK_US, event->daemon, NULL, schedule_look);
    if (!daemon->runner || daemon->frozen)
        return;
    if (memory->incarnation != daemon->incarnation) {
        memory->incarnation = daemon->incarnation;
        memory->state = (struct tick_state){0};
        memory->question = NULL;
    }
    if (memory->question && memory->connection != daemon->connection)
        question_end(memory, NULL);
    uint16_t shard = shard_of(str_z(schedule->plan->workflow));
    bool mine = world->faults.tick_race || runner_stats(daemon->runner).shards >> shard & 1;
    if (!mine || !daemon->connected || daemon->draining) {
        if (!memory->question)
            memory->state = (struct tick_state){0};
        return;
    }
    struct wall now = daemon_clock(schedule, event->daemon);
    struct tick_state before = memory->state;
    enum tick_step step = tick_look(&memory->state, schedule->plan, now);
    look_check(schedule, &before, step, now);
    if (step != TICK_STEP_NONE)
        ask(schedule, event->daemon, step, now);
}

/* The owner of a run finds its start in the inbox. A new epoch of its lane forgets what it saw. */
static void inbox_look(struct world_event *event)
{
    struct world *world = event->world;
    struct daemon *daemon = world_event_daemon(event);
    struct err err;
    world_schedule(world, world_between_ms(world, 100, 400), event->daemon, NULL, inbox_look);
    if (!daemon->runner || daemon->frozen || !daemon->owned || !daemon->connected ||
        daemon->draining)
        return;
    uint64_t shards = runner_stats(daemon->runner).shards;
    uint64_t epoch = world->lane_epoch[event->daemon];
    for (struct sim_inbox *entry = world->schedule->inbox; entry; entry = entry->next) {
        if (entry->settled || entry->offered[event->daemon] == epoch ||
            !(shards >> shard_of(entry->run_id) & 1))
            continue;
        struct runner_start start = {.plan = world->schedule->plan,
                                     .run_id = entry->run_id,
                                     .actor = STR("schedule"),
                                     .inbox_id = entry->id,
                                     .input = entry->input,
                                     .input_hash = sha256_of(entry->input),
                                     .lock = locks_value(world, entry->run_id.ptr)};
        if (runner_start(daemon->runner, &start, NULL, NULL, &err) == 0) {
            entry->offered[event->daemon] = epoch;
            world_poke(daemon, 0);
        }
    }
}

/* When a tick comes: does it have to wait? */
static void tick_comes(struct world_event *event)
{
    struct sim_tick *tick = event->data;
    struct sim_schedule *schedule = event->world->schedule;
    if (schedule->exists && schedule->plan->schedule->overlap == OVERLAP_QUEUE &&
        last_run_is_open(schedule))
        tick->waits_for = schedule->last_run;
}

/* --- the schedule of a world ----------------------------------------------------------------- */

void schedule_make(struct world *world)
{
    static const char *const overlaps[] = {"skip", "queue"};
    static const char *const catch_ups[] = {"none", "last", "all"};
    struct sim_schedule *schedule = arena_new(&world->arena, struct sim_schedule);
    unsigned step = 1 + (unsigned)rand_below(&world->rand, 3);
    struct str text = arena_printf(
        &world->arena,
        "schedule: {cron: \"14-22/%u 14 21 9 *\", overlap: %s, catch_up: %s, "
        "input: {id: \"${{ tick }}\", n: 1}}\n",
        step, overlaps[rand_below(&world->rand, 2)], catch_ups[rand_below(&world->rand, 3)]);
    world->schedule = schedule;
    schedule->world = world;
    schedule->plan = workflow_make(world, "tick", 0, WORLD_KIDS - 1, text.ptr);
    struct wall first = {(WORLD_EPOCH_US / MINUTE_US + 1) * MINUTE_US};
    for (unsigned minute = 0; minute <= 8; minute += step) {
        struct sim_tick *tick = &schedule->ticks[schedule->ticks_count++];
        tick->at.us = first.us + minute * MINUTE_US;
        world_schedule(world, world_time(tick->at) - world->now, -1, tick, tick_comes);
    }
    world_trace(world, "schedule:\n" STR_FMT, STR_ARG(schedule->plan->source));
    for (int i = 0; i < WORLD_DAEMONS; i++) {
        world_schedule(world, world_between_ms(world, 1, 600), i, NULL, schedule_look);
        world_schedule(world, world_between_ms(world, 1, 600), i, NULL, inbox_look);
    }
    if (world->faults.clock_jumps)
        world_schedule(world, world_between_ms(world, 100, 9000), -1, NULL, clock_jumps);
}

void schedule_free(struct world *world)
{
    if (world->schedule)
        plan_unref(world->schedule->plan);
}

/* --- promises ------------------------------------------------------------------------------- */

/* What is learned late of a run that had ended opens it again, beside those that came after it. */
static bool was_told(const struct row_run *row)
{
    bool told = false;
    for (size_t i = 0; i < ARRAY_LEN(row->told); i++)
        told |= row->told[i];
    return told;
}

void schedule_start_check(struct world *world, const struct row_run *row)
{
    struct sim_schedule *schedule = world->schedule;
    bool wanted = false;
    if (!schedule || row->plan != schedule->plan)
        return;
    for (unsigned i = 0; i < schedule->ticks_count; i++) {
        const struct sim_tick *tick = &schedule->ticks[i];
        struct str id = tick_run_id(str_z(schedule->plan->workflow), tick->at, &world->arena);
        const struct row_run *other = world_row(world, id);
        if (str_eq(id, row->id))
            wanted = tick->dealt == TICK_ANSWER_STARTED;
        else if (other && !run_state_is_terminal(other->now.state) && !was_told(other))
            world_fail(world, "run %s begins while %s is open", row->id.ptr, id.ptr);
    }
    if (!wanted)
        world_fail(world, "run %s begins, no tick has started it", row->id.ptr);
}

void schedule_settled(struct world *world, struct str id)
{
    struct sim_inbox *entry = world->schedule ? inbox_find(world->schedule, id) : NULL;
    if (!entry || entry->settled)
        world_fail(world, "%s is settled, it is %s", id.ptr, entry ? "settled" : "not there");
    else
        entry->settled = true;
}

/* Parked, and nobody helps: what waits for it waits for ever. */
static bool is_stuck(const struct world *world)
{
    const struct sim_schedule *schedule = world->schedule;
    const struct row_run *row =
        schedule->last_run.ptr ? world_row(world, schedule->last_run) : NULL;
    return row && !run_state_is_terminal(row->now.state) && world_rests(world, row) &&
           schedule->plan->schedule->overlap == OVERLAP_QUEUE;
}

/* It waited for a run; not for one whose end was decided before the tick and written after it. */
static bool has_waited(const struct sim_schedule *schedule, const struct sim_tick *tick)
{
    if (!tick->waits_for.ptr)
        return false;
    const struct row_run *row = world_row(schedule->world, tick->waits_for);
    return !row || !wall_is_set(row->now.ended_at) || paced(row->now.ended_at.us).us >= tick->at.us;
}

/* It must be dealt with before the world may end. */
static bool is_owed(const struct sim_schedule *schedule, const struct sim_tick *tick)
{
    bool newest = tick == &schedule->ticks[schedule->ticks_count - 1];
    if (tick->dealt || !schedule->exists || tick->at.us <= schedule->began.us)
        return false;
    if (schedule->plan->schedule->catch_up == CATCH_UP_ALL ||
        (schedule->plan->schedule->catch_up == CATCH_UP_LAST && newest))
        return true;
    /* Of two that look, one may not know that there was a run to wait for; and a clock that has
     * jumped over the minute of a tick has missed it. */
    const struct world_faults *faults = &schedule->world->faults;
    return has_waited(schedule, tick) && !faults->tick_race && !faults->clock_jumps;
}

bool schedule_rests(const struct world *world)
{
    const struct sim_schedule *schedule = world->schedule;
    if (!schedule)
        return true;
    struct wall end = schedule->ticks[schedule->ticks_count - 1].at;
    if (world->now < world_time(end) + OVER_US)
        return false;
    for (const struct sim_inbox *entry = schedule->inbox; entry; entry = entry->next) {
        const struct row_run *row = world_row(world, entry->run_id);
        if (!entry->settled || !row || !world_rests(world, row))
            return false;
    }
    for (unsigned i = 0; i < schedule->ticks_count && !is_stuck(world); i++)
        if (is_owed(schedule, &schedule->ticks[i]) &&
            schedule->ticks[i].at.us > schedule->last_tick.us)
            return false;
    return true;
}

void schedule_check(struct world *world)
{
    struct sim_schedule *schedule = world->schedule;
    for (unsigned i = 0; schedule && i < schedule->ticks_count; i++) {
        const struct sim_tick *tick = &schedule->ticks[i];
        struct str id = tick_run_id(str_z(schedule->plan->workflow), tick->at, &world->arena);
        bool started = tick->dealt == TICK_ANSWER_STARTED;
        if (started != (world_row(world, id) != NULL))
            world_fail(world, "%s was%s started and is%s there", id.ptr, started ? "" : " not",
                       started ? " not" : "");
        bool later = tick->at.us > schedule->last_tick.us;
        if (is_owed(schedule, tick) && !(later && is_stuck(world)))
            world_fail(world, "%s is lost: it was neither started nor skipped", id.ptr);
    }
}
