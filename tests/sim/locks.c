/*
 * locks.c: the locks of runs in the simulated database, and the promise that of the runs of one
 * lock only one has begun and not ended.
 */
#include "tests/sim/world.h"

#define VALUES 2
#define LOOK_US (250 * MS_US)

/* A run that asks, on its way to the database and back, as often as it takes. */
struct ask {
    struct str run_id;
    uint64_t number;
    bool held;
};

/* From numbers of their own: what else happens in a world does not depend on whether there are
 * locks. */
struct str locks_value(const struct world *world, const char *run_id)
{
    static const char *const values[VALUES] = {"account-0", "account-1"};
    struct rand own = rand_seed(rand_mix(world->seed ^ str_hash(STR("locks"))));
    bool locked = rand_chance(&own, 40);
    own = rand_seed(rand_mix(world->seed ^ str_hash(str_z(run_id)) ^ 1));
    if (!locked || !rand_chance(&own, 70))
        return STR("");
    return str_z(values[rand_below(&own, VALUES)]);
}

void locks_ticket(struct world *world, struct row_run *row)
{
    if (row->start.lock.len && !row->ticket)
        row->ticket = ++world->tickets;
}

void locks_release(struct row_run *row)
{
    row->ticket = 0;
    row->holds_lock = false;
}

static bool same_lock(const struct row_run *a, const struct row_run *b)
{
    return a->start.lock.len && str_eq(a->start.lock, b->start.lock) &&
           str_eq(a->start.tenant, b->start.tenant);
}

/* locks_take_v1 as a model. */
static bool locks_take(struct world *world, struct row_run *row)
{
    if (row->now.state == RUN_QUEUED)
        locks_ticket(world, row);
    if (!row->ticket || row->holds_lock || row->now.paused)
        return row->holds_lock;
    for (size_t i = 0; i < world->rows.size; i++)
        for (struct map_node *node = world->rows.buckets[i]; node; node = node->chain) {
            const struct row_run *other = CONTAINER_OF(node, struct row_run, node);
            bool before = other->ticket < row->ticket && !other->now.paused;
            if (other != row && other->ticket && same_lock(row, other) &&
                (other->holds_lock || before))
                return false;
        }
    row->holds_lock = true;
    world_trace(world, "run %s holds the lock " STR_FMT, row->id.ptr, STR_ARG(row->start.lock));
    return true;
}

static bool has_begun(const struct row_run *row)
{
    return row->now.state != RUN_QUEUED && !run_state_is_terminal(row->now.state);
}

void locks_check(struct world *world, const struct row_run *row)
{
    if (!row->start.lock.len || !has_begun(row))
        return;
    if (!row->holds_lock)
        world_fail(world, "run %s is %s and does not hold its lock", row->id.ptr,
                   run_state_name(row->now.state));
    for (size_t i = 0; i < world->rows.size; i++)
        for (struct map_node *node = world->rows.buckets[i]; node; node = node->chain) {
            const struct row_run *other = CONTAINER_OF(node, struct row_run, node);
            if (other != row && same_lock(row, other) && has_begun(other))
                world_fail(world,
                           "runs %s (%s) and %s (%s) are both under way with the lock " STR_FMT,
                           row->id.ptr, run_state_name(row->now.state), other->id.ptr,
                           run_state_name(other->now.state), STR_ARG(row->start.lock));
        }
}

const struct row_run *locks_holder(const struct world *world, const struct row_run *row)
{
    for (size_t i = 0; i < world->rows.size; i++)
        for (struct map_node *node = world->rows.buckets[i]; node; node = node->chain) {
            const struct row_run *other = CONTAINER_OF(node, struct row_run, node);
            if (other != row && other->holds_lock && same_lock(row, other))
                return other;
        }
    return NULL;
}

/* --- on the way ------------------------------------------------------------------------------ */

static void ask_arrives(struct world_event *event);

static void ask_answered(struct world_event *event)
{
    struct ask *ask = event->data;
    struct daemon *daemon = world_event_daemon(event);
    if (!world_event_reaches(event))
        return;
    if (ask->held && !world_fault(event->world, event->world->faults.store_cut, 10)) {
        runner_locked(daemon->runner, ask->run_id, ask->number);
        world_poke(daemon, 0);
    } else if (runner_asks_lock(daemon->runner, ask->run_id, ask->number)) {
        world_schedule(event->world, LOOK_US, event->daemon, ask, ask_arrives);
    }
}

/* Whoever asked may be dead or have lost the run by now: the database does not look. */
static void ask_arrives(struct world_event *event)
{
    struct ask *ask = event->data;
    struct row_run *row = world_row(event->world, ask->run_id);
    ask->held = row && locks_take(event->world, row);
    if (row)
        locks_check(event->world, row);
    world_schedule(event->world, world_between_ms(event->world, 0, 300), event->daemon, ask,
                   ask_answered);
}

static void sim_ask(void *arg, const struct run *run, uint64_t number)
{
    struct daemon *daemon = arg;
    struct ask *ask = arena_new(&daemon->world->arena, struct ask);
    ask->run_id = arena_str(&daemon->world->arena, run->id);
    ask->number = number;
    world_schedule(daemon->world, world_between_ms(daemon->world, 0, 300), daemon->index, ask,
                   ask_arrives);
}

struct port_locks locks_port(struct daemon *daemon)
{
    return (struct port_locks){.arg = daemon, .ask = sim_ask};
}
