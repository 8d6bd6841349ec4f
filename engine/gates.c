/*
 * gates.c: the gates of this daemon: which runs wait at which, and who is woken.
 *
 * A request has its place in the books from its decision until its answer: `work` holds it until
 * the claim is durable, then the flight. Whatever frees a work or a flight without an answer gives
 * the place back.
 */
#include "engine/log.h"
#include "engine/runner_impl.h"

#include <stdlib.h>

static struct gate_entry *entry_find(const struct runner *runner, struct str name)
{
    struct map_node *node = map_first(&runner->gates, str_hash(name));
    for (; node; node = map_next(node)) {
        struct gate_entry *entry = CONTAINER_OF(node, struct gate_entry, node);
        if (str_eq(entry->name, name))
            return entry;
    }
    return NULL;
}

/* NULL: the service has no limits. */
static struct gate_entry *entry_of(struct runner *runner, const struct plan_service *service)
{
    struct str name = str_z(service->name);
    if (!plan_limits_any(&service->limits))
        return NULL;
    struct gate_entry *entry = entry_find(runner, name);
    if (!entry) {
        entry = xcalloc(1, sizeof(*entry) + name.len + 1);
        memcpy(entry->bytes, name.ptr, name.len);
        entry->name = (struct str){entry->bytes, name.len};
        gate_init(&entry->gate, &service->limits);
        map_insert(&runner->gates, &entry->node, str_hash(name));
    } else {
        gate_tighten(&entry->gate, &service->limits);
    }
    entry->gate.share = (uint32_t)__builtin_popcountll(runner->shards);
    return entry;
}

static struct slot_wait *wait_find(const struct slot *slot, const struct gate_entry *entry)
{
    struct slot_wait *wait = slot->waits;
    while (wait && wait->entry != entry)
        wait = wait->next;
    return wait;
}

/* --- decisions ----------------------------------------------------------------------------- */

/* What the answer says of the service itself, whatever the workflow makes of it. */
static enum gate_outcome outcome_of_reply(const struct reply *reply)
{
    switch (reply->kind) {
    case REPLY_NOT_CONNECTED:
    case REPLY_NO_ANSWER: return GATE_FAILS;
    case REPLY_HTTP: return reply->status >= 500 ? GATE_FAILS : GATE_WORKS;
    case REPLY_SQL: { /* connections, resources, shutdown */
        static const char *const classes[] = {"08", "53", "57P"};
        for (size_t i = 0; i < ARRAY_LEN(classes); i++)
            if (strncmp(reply->sqlstate, classes[i], strlen(classes[i])) == 0)
                return GATE_FAILS;
        return reply->commit_lost ? GATE_FAILS : GATE_WORKS;
    }
    case REPLY_CANNOT_SEND:
    case REPLY_LOCAL_SHORTAGE:
    case REPLY_NOT_SENT:
    case REPLY_EXEC:
    case REPLY_SQL_OPEN:
    case REPLY_WORKER:
    case REPLY_CHILD:
    case REPLY_NONE: break;
    }
    return GATE_NOTHING;
}

void gates_open(struct runner *runner, struct work *work)
{
    const struct slot *slot = work->slot;
    const struct plan *plan = slot->run->plan;
    if (work->answered.entry) {
        gate_answered(&work->answered.entry->gate, work->answered.opening,
                      outcome_of_reply(work->event.reply.reply), runner->now);
        work->answered.entry = NULL;
    }
    if (!plan->is_limited)
        return;
    struct gate_room *rooms = arena_array(&work->arena, struct gate_room, plan->services_count);
    for (uint16_t i = 0; i < plan->services_count; i++) {
        struct gate_entry *entry = entry_of(runner, &plan->services[i]);
        const struct slot_wait *wait = entry ? wait_find(slot, entry) : NULL;
        /* A grant is for the event by which its run was woken. */
        bool granted = wait && wait->waiter.granted && work->event.kind == EVENT_DUE;
        if (entry)
            rooms[i] = gate_room(&entry->gate, granted, runner->now);
        else
            rooms[i] = (struct gate_room){.sends = UINT32_MAX, .repeats = UINT32_MAX};
    }
    work->event.rooms = rooms;
}

void gates_pass(struct runner *runner, struct work *work)
{
    struct slot *slot = work->slot;
    const struct plan *plan = slot->run->plan;
    const struct run_decision *decision = &work->decision;
    for (struct slot_wait *wait = slot->waits; wait; wait = wait->next)
        if (wait->waiter.granted && work->event.kind == EVENT_DUE)
            gate_unwait(&wait->entry->gate, &wait->waiter);
    if (!plan->is_limited || !decision->commands_count)
        return;
    work->passages = arena_array(&work->arena, struct passage, decision->commands_count);
    work->passages_count = decision->commands_count;
    for (uint32_t i = 0; i < decision->commands_count; i++) {
        const struct run_command *command = &decision->commands[i];
        if (command->kind != COMMAND_INVOKE ||
            command->rendered.request.action->service == PLAN_SERVICE_NONE)
            continue;
        struct passage *passage = &work->passages[i];
        passage->entry =
            entry_of(runner, &plan->services[command->rendered.request.action->service]);
        if (passage->entry)
            passage->opening = gate_sent(&passage->entry->gate, command->attempt > 1, runner->now);
    }
}

int gates_admit(struct runner *runner, const struct plan_service *service, struct wall now,
                struct passage *out, struct err *err)
{
    struct gate_entry *entry = entry_of(runner, service);
    if (!entry)
        return 0;
    struct gate_room room = gate_room(&entry->gate, false, now);
    /* While a breaker is not closed, what the service gets through is for the runs that wait. */
    if (room.reason == GATE_BREAKER)
        return err_set(err, ERR_LIMIT,
                       "service \"%s\": its breaker is not closed, nothing but what runs need is "
                       "sent to it now",
                       service->name);
    if (!room.sends)
        return err_set(err, ERR_LIMIT, "service \"%s\": its limits leave no room now",
                       service->name);
    out->entry = entry;
    out->opening = gate_sent(&entry->gate, false, now);
    return 0;
}

void passage_forgo(struct passage *passage)
{
    if (passage->entry)
        gate_dropped(&passage->entry->gate, passage->opening);
    passage->entry = NULL;
}

void gates_forgo(struct work *work)
{
    for (uint32_t i = 0; i < work->passages_count; i++)
        passage_forgo(&work->passages[i]);
    passage_forgo(&work->answered);
}

/* --- waiting ------------------------------------------------------------------------------- */

static void wait_free(struct slot_wait *wait)
{
    gate_unwait(&wait->entry->gate, &wait->waiter);
    free(wait);
}

void gates_leave(struct slot *slot)
{
    while (slot->waits) {
        struct slot_wait *wait = slot->waits;
        slot->waits = wait->next;
        wait_free(wait);
    }
}

/* The run's side waits at the gate of its service. */
static void wait_want(struct runner *runner, struct slot *slot, const struct due_node *due)
{
    const struct plan *plan = slot->run->plan;
    struct instance *instance = due->direction == DIRECTION_COMPENSATE
                                    ? CONTAINER_OF(due, struct instance, compensate_due)
                                    : CONTAINER_OF(due, struct instance, execute_due);
    const struct effect_state *side = instance_side(instance, due->direction);
    if (!side_is_held(side))
        return;
    uint16_t service = step_action(&plan->steps[instance->step], due->direction)->service;
    struct gate_entry *entry = entry_of(runner, &plan->services[service]);
    if (!entry)
        return; /* the service lost its limits: run_due sees to it */
    struct slot_wait *wait = wait_find(slot, entry);
    if (!wait) {
        wait = xcalloc(1, sizeof(*wait));
        wait->slot = slot;
        wait->entry = entry;
        wait->next = slot->waits;
        slot->waits = wait;
    }
    wait->repeats = side->attempts && (!wait->wanted || wait->repeats);
    wait->wanted = true;
}

void gates_wait(struct runner *runner, struct slot *slot)
{
    const struct run *run = slot->run;
    bool moves =
        (run->now.state == RUN_RUNNING || run->now.state == RUN_COMPENSATING) && !run->now.paused;
    if (!run->held && !slot->waits)
        return;
    for (struct slot_wait *wait = slot->waits; wait; wait = wait->next)
        wait->wanted = false;
    for (size_t i = 1; run->held && moves && i <= run->retries.count; i++)
        wait_want(runner, slot, CONTAINER_OF(run->retries.nodes[i], struct due_node, node));
    for (struct slot_wait **at = &slot->waits; *at;) {
        struct slot_wait *wait = *at;
        if (!wait->wanted) {
            *at = wait->next;
            wait_free(wait);
            continue;
        }
        if (!wait->waiter.granted) /* else the event that uses it is queued */
            gate_wait(&wait->entry->gate, &wait->waiter, run->start.tenant,
                      run->now.direction == DIRECTION_COMPENSATE, wait->repeats);
        at = &wait->next;
    }
}

static void entry_pump(struct runner *runner, struct gate_entry *entry)
{
    struct gate_waiter *waiter;
    entry->gate.share = (uint32_t)__builtin_popcountll(runner->shards);
    while ((waiter = gate_next(&entry->gate, runner->now))) {
        struct slot_wait *wait = CONTAINER_OF(waiter, struct slot_wait, waiter);
        work_queue(runner, work_new(wait->slot, EVENT_DUE));
    }
    if (!gate_changed(&entry->gate))
        return;
    if (entry->gate.breaker == BREAKER_OPEN)
        log_warn("service \"" STR_FMT "\": the breaker is open", STR_ARG(entry->name));
    else if (entry->gate.breaker == BREAKER_CLOSED)
        log_info("service \"" STR_FMT "\": the breaker is closed", STR_ARG(entry->name));
    if (runner->config.services.changed)
        runner->config.services.changed(runner->config.services.arg, entry->name,
                                        entry->gate.breaker, entry->gate.open_until);
}

void gates_pump(struct runner *runner)
{
    if (!runner->gates.count || runner->draining)
        return;
    for (size_t i = 0; i < runner->gates.size; i++)
        for (struct map_node *node = runner->gates.buckets[i]; node; node = node->chain)
            entry_pump(runner, CONTAINER_OF(node, struct gate_entry, node));
}

struct wall gates_due(struct runner *runner)
{
    struct wall due = WALL_NONE;
    if (runner->draining)
        return due;
    for (size_t i = 0; i < runner->gates.size; i++)
        for (struct map_node *node = runner->gates.buckets[i]; node; node = node->chain)
            due = wall_first(
                due, gate_due(&CONTAINER_OF(node, struct gate_entry, node)->gate, runner->now));
    return due;
}

bool runner_has_gates(const struct runner *runner)
{
    return runner->gates.count > 0;
}

void runner_breaker(struct runner *runner, struct str service, struct wall open_until)
{
    struct gate_entry *entry = entry_find(runner, service);
    if (entry)
        gate_open_until(&entry->gate, open_until, runner->now);
}

void gates_count(const struct runner *runner, struct runner_stats *stats)
{
    for (size_t i = 0; i < runner->gates.size; i++)
        for (struct map_node *node = runner->gates.buckets[i]; node; node = node->chain) {
            const struct gate *gate = &CONTAINER_OF(node, struct gate_entry, node)->gate;
            stats->held += gate->waiting + gate->granted;
            stats->open += gate->breaker != BREAKER_CLOSED;
        }
}

void gates_free(struct runner *runner)
{
    struct map_node *node;
    while ((node = map_any(&runner->gates))) {
        struct gate_entry *entry = CONTAINER_OF(node, struct gate_entry, node);
        map_remove(&runner->gates, node);
        gate_free(&entry->gate);
        free(entry);
    }
    map_free(&runner->gates);
}
