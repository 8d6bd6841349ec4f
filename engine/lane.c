/*
 * lane.c: units on the daemon's write lane: collected, numbered, sent, resent, repaired.
 *
 * Laws 2 and 4 of runner.c. A box is a unit with the works whose records it holds; it is *open*
 * while it collects, *waiting* when its bytes are final and it has no number yet, *sent* until it
 * is answered.
 */
#include "engine/limits.h"
#include "engine/log.h"
#include "engine/runner_impl.h"

#include <stdlib.h>

static void box_send(struct runner *runner, struct box *box);

/* --- boxes ---------------------------------------------------------------------------------- */

static struct box *box_new(void)
{
    return xcalloc(1, sizeof(struct box));
}

static void box_free(struct runner *runner, struct box *box)
{
    if (box->unit.encoded)
        runner->store.encoded_free(runner->store.arg, box->unit.encoded);
    arena_free(&box->arena);
    free(box->works);
    free(box);
}

static void box_add(struct box *box, struct work *work)
{
    if (box->works_count == box->works_size) {
        box->works_size = box->works_size ? box->works_size * 2 : 16;
        box->works = xrealloc(box->works, box->works_size * sizeof(struct work *));
    }
    box->works[box->works_count++] = work;
    box->records += work->durable;
}

/* Fixes the bytes. */
static void box_seal(struct runner *runner, struct box *box)
{
    struct unit_run *runs = arena_array(&box->arena, struct unit_run, box->works_count);
    for (uint32_t i = 0; i < box->works_count; i++) {
        const struct work *work = box->works[i];
        runs[i] = (struct unit_run){
            .run_id = work->slot->id,
            .shard = work->slot->shard,
            .plan = work->slot->run ? work->slot->run->plan : work->plan,
            .records = work->decision.records,
            .records_count = work->decision.records_count,
            .is_start = work->event.kind == EVENT_START,
        };
    }
    box->unit.runs = runs;
    box->unit.runs_count = box->works_count;
    box->unit.records_count = box->records;
    box->unit.encoded = runner->store.encode(runner->store.arg, &box->unit);
}

static void box_append(struct box *box, struct box ***tail)
{
    box->next = NULL;
    **tail = box;
    *tail = &box->next;
}

static struct box *box_pop(struct box **list, struct box ***tail)
{
    struct box *box = *list;
    *list = box->next;
    if (!*list)
        *tail = list;
    box->next = NULL;
    return box;
}

void work_write(struct runner *runner, struct work *work)
{
    work->slot->busy = true;
    if (!runner->open)
        runner->open = box_new();
    box_add(runner->open, work);
}

void *work_encode(struct runner *runner, struct work *work)
{
    struct box *box = box_new();
    box_add(box, work);
    box_seal(runner, box);
    void *encoded = box->unit.encoded;
    box->unit.encoded = NULL;
    box_free(runner, box);
    return encoded;
}

static void list_lost(struct runner *runner, struct box *list)
{
    for (struct box *next; list; list = next) {
        next = list->next;
        for (uint32_t i = 0; i < list->works_count; i++)
            work_lost(runner, list->works[i]);
        box_free(runner, list);
    }
}

void lane_lost(struct runner *runner)
{
    list_lost(runner, runner->sent);
    list_lost(runner, runner->waiting);
    list_lost(runner, runner->open);
    runner->sent = runner->waiting = runner->open = NULL;
    runner->sent_tail = &runner->sent;
    runner->waiting_tail = &runner->waiting;
    runner->sent_count = 0;
}

/* --- law 2: sending ------------------------------------------------------------------------- */

uint64_t runner_quiet_shards(const struct runner *runner)
{
    uint64_t busy = runner->shards_loading;
    for (size_t i = 0; i < runner->slots.size; i++)
        for (struct map_node *node = runner->slots.buckets[i]; node; node = node->chain) {
            const struct slot *slot = CONTAINER_OF(node, struct slot, node);
            if (slot->busy || slot->flights || slot->head || slot->loading)
                busy |= UINT64_C(1) << slot->shard;
        }
    return runner->owned ? runner->shards & ~busy : 0;
}

static void shards_drop(struct runner *runner, uint64_t shards)
{
    children_drop(runner, shards);
    for (size_t i = 0; i < runner->slots.size; i++)
        for (struct map_node *node = runner->slots.buckets[i], *next; node; node = next) {
            struct slot *slot = CONTAINER_OF(node, struct slot, node);
            next = node->chain;
            if (shards >> slot->shard & 1)
                slot_free(runner, slot);
        }
}

/* Quiet shards that are to leave go with this unit. */
static void shards_release(struct runner *runner, struct box *box)
{
    uint64_t quiet = runner->shards_leaving & runner_quiet_shards(runner);
    if (!quiet)
        return;
    shards_drop(runner, quiet);
    runner->shards &= ~quiet;
    runner->shards_leaving &= ~quiet;
    runner->shards_releasing |= quiet;
    box->unit.release_shards |= quiet;
    box->unit.release_to = arena_str(&box->arena, runner->leaving_to);
}

void runner_release(struct runner *runner, uint64_t shards, struct str to_lane)
{
    runner->shards_leaving = shards & runner->shards;
    arena_reset(&runner->leaving_arena);
    runner->leaving_to = arena_str(&runner->leaving_arena, to_lane);
}

static struct box *box_next(struct runner *runner)
{
    if (runner->waiting)
        return box_pop(&runner->waiting, &runner->waiting_tail);
    struct box *open = runner->open;
    bool worth = open && (!runner->sent_count || open->records >= UNIT_RECORDS_WORTH);
    if (runner->shards_leaving && !runner->sent_count) {
        struct box *box = open ? open : box_new();
        shards_release(runner, box);
        if (open || box->unit.release_shards) {
            runner->open = box;
            open = box;
            worth = true;
        } else {
            box_free(runner, box);
        }
    }
    if (!worth)
        return NULL;
    runner->open = NULL;
    return open;
}

static void box_send(struct runner *runner, struct box *box)
{
    runner->store.send(runner->store.arg, box->unit.encoded, runner->epoch, box->seq);
}

void lane_pump(struct runner *runner)
{
    if (!runner->owned || !runner->store_is_up || runner->repairing)
        return;
    while (runner->sent_count < UNITS_IN_FLIGHT_MAX) {
        struct box *box = box_next(runner);
        if (!box)
            break;
        if (!box->unit.encoded)
            box_seal(runner, box);
        box->seq = ++runner->seq;
        box_append(box, &runner->sent_tail);
        runner->sent_count++;
        box_send(runner, box);
    }
}

/* --- law 4: answers ------------------------------------------------------------------------- */

void lane_resend(struct runner *runner)
{
    runner->store_is_up = true;
    for (struct box *box = runner->sent; box; box = box->next)
        box_send(runner, box);
}

/* The last of a failed series was answered: its numbers are free. */
static void lane_repaired(struct runner *runner)
{
    if (!runner->repairing || runner->sent)
        return;
    runner->repairing = false;
    runner->seq = runner->decided_seq;
}

static bool payload_drop(struct work *work)
{
    bool dropped = false;
    for (uint32_t i = 0; i < work->decision.records_count; i++) {
        struct run_record *record = &work->decision.records[i];
        if (record->kind != RECORD_CLAIM && record->kind != RECORD_EFFECT)
            continue;
        if (!record->effect.state.output.ptr)
            continue;
        record->effect.state.output = STR_NONE;
        record->effect.state.output_invalid = true;
        run_apply(work->slot->run, record);
        dropped = true;
    }
    return dropped;
}

/* The run stops with what the database said; nothing of the refused decision stays. */
static void work_quarantine(struct runner *runner, struct work *work, const struct err *why)
{
    struct run *run = work->slot->run;
    struct run_record *records = arena_array(&work->arena, struct run_record, 2);
    struct json *error = json_object_new(&work->arena, 5);
    json_object_add_z(error, "step", &json_null);
    json_object_add_z(error, "code", json_string_z(&work->arena, "quarantine"));
    json_object_add_z(error, "status", &json_null);
    json_object_add_z(error, "message",
                      json_string(&work->arena, str_is_utf8(str_z(why->text))
                                                    ? arena_str(&work->arena, str_z(why->text))
                                                    : STR("PostgreSQL refused a record")));
    json_object_add_z(error, "body", &json_null);
    records[0] = (struct run_record){.kind = RECORD_RUN, .run = run->now};
    records[0].run.state = RUN_PARKED;
    records[0].run.reason = PARK_QUARANTINE;
    records[0].run.output = STR_NONE;
    records[0].run.residue = STR_NONE;
    records[0].run.ended_at = WALL_NONE;
    records[0].run.error = json_text(error, &work->arena);
    records[1] = (struct run_record){.kind = RECORD_EVENT,
                                     .event = {.seq = run->events + 1,
                                               .at = runner->now,
                                               .what = STR("parked"),
                                               .step = STR(""),
                                               .detail = STR("quarantine"),
                                               .actor = STR("")}};
    gates_forgo(work);
    work->decision.records = records;
    work->decision.records_count = 2;
    work->decision.commands_count = 0;
    work->durable = 2;
    run_apply(run, &records[0]);
    run_apply(run, &records[1]);
}

static void box_requeue(struct runner *runner, struct work *const *works, uint32_t count)
{
    struct box *box = box_new();
    for (uint32_t i = 0; i < count; i++)
        box_add(box, works[i]);
    box_append(box, &runner->waiting_tail);
}

/* A start that the database cannot store is refused; anything else is repaired step by step. */
static void work_rejected(struct runner *runner, struct work *work, const struct err *why)
{
    struct slot *slot = work->slot;
    bool is_start = work->event.kind == EVENT_START;
    bool by_inbox = !is_start && work->event.verb.inbox_id.ptr;
    if (is_start || work->event.kind == EVENT_NONE || by_inbox) {
        answer_error(work, ERR_INVALID, why->text);
        work_free(work);
        slot->busy = false;
        if (is_start) { /* the image never was */
            tenants_leave(runner, slot);
            run_free(slot->run);
            slot->run = NULL;
        }
        /* A request that was settled before has had its effect: this copy of it must have none. */
        if (by_inbox)
            slot_reload(runner, slot);
        else
            slot_settle(runner, slot);
        return;
    }
    if (work->repair == REPAIR_NONE && payload_drop(work)) {
        work->repair = REPAIR_NO_PAYLOAD;
    } else if (work->repair != REPAIR_QUARANTINE) {
        work->repair = REPAIR_QUARANTINE;
        work_quarantine(runner, work, why);
    } else {
        log_error("run \"" STR_FMT "\" cannot even be parked: %s", STR_ARG(slot->id), why->text);
        answer_error(work, ERR_INTERNAL, why->text);
        work_free(work);
        return; /* the slot stays busy: nothing more is tried before a reload */
    }
    box_requeue(runner, &work, 1);
}

static void box_rejected(struct runner *runner, struct box *box, const struct err *why)
{
    log_warn("PostgreSQL refused a unit of %u runs: %s", box->works_count, why->text);
    if (box->unit.release_shards) { /* try the hand-over again with a later unit */
        runner->shards_releasing &= ~box->unit.release_shards;
        runner->shards |= box->unit.release_shards;
        runner->shards_leaving |= box->unit.release_shards;
    }
    if (box->works_count == 1) {
        work_rejected(runner, box->works[0], why);
    } else if (box->works_count) {
        uint32_t half = box->works_count / 2;
        box_requeue(runner, box->works, half);
        box_requeue(runner, box->works + half, box->works_count - half);
    }
    box_free(runner, box);
}

static const struct unit_taken *taken_find(const struct unit_answer *answer, struct str run_id)
{
    for (uint32_t i = 0; i < answer->taken_count; i++)
        if (str_eq(answer->taken[i].run_id, run_id))
            return &answer->taken[i];
    return NULL;
}

/* The id belongs to another run: our image of it never was. */
static void work_taken(struct runner *runner, struct work *work, const struct unit_taken *taken)
{
    struct slot *slot = work->slot;
    runner->stats.taken++;
    struct runner_answer answer = {.taken = taken};
    answer_send(work, &answer);
    tenants_leave(runner, slot);
    run_free(slot->run);
    slot->run = NULL;
    slot->busy = false;
    if (work->event.verb.inbox_id.ptr) {
        start_settle_taken(work, taken);
        work_queue_first(runner, work);
    } else {
        work_free(work);
    }
    if (slot->head && slot->head->event.kind != EVENT_START &&
        slot->head->event.kind != EVENT_NONE) {
        slot->loading = true;
        runner->store.load_run(runner->store.arg, slot->id);
        return;
    }
    slot_settle(runner, slot);
}

static void box_applied(struct runner *runner, struct box *box, const struct unit_answer *answer)
{
    runner->decided_seq = box->seq;
    runner->shards_releasing &= ~box->unit.release_shards;
    runner->stats.units++;
    runner->stats.records += box->records;
    for (uint32_t i = 0; i < box->works_count; i++) {
        struct work *work = box->works[i];
        const struct unit_taken *taken = NULL;
        if (work->event.kind == EVENT_START)
            taken = taken_find(answer, work->slot->id);
        if (taken)
            work_taken(runner, work, taken);
        else
            work_finish(runner, work);
    }
    box_free(runner, box);
}

void unit_answered(struct runner *runner, const struct unit_answer *answer)
{
    if (!runner->sent)
        return; /* the answer to something dropped */
    if (answer->verdict == UNIT_UNDECIDED)
        return; /* stays, to be resent when the store is back */
    ASSERT(answer->verdict != UNIT_NONE);
    if (answer->verdict == UNIT_CONFLICT) {
        log_error("unit %llu was written before with other bytes: a bug",
                  (unsigned long long)runner->sent->seq);
        ASSERT(answer->verdict != UNIT_CONFLICT);
    }
    if (answer->verdict == UNIT_FENCED || (answer->verdict == UNIT_GAP && !runner->repairing)) {
        log_warn(answer->verdict == UNIT_FENCED
                     ? "fenced: another daemon has taken this one's shards"
                     : "the database is older than what it acknowledged: loading everything again");
        runner_lost(runner);
        return;
    }
    struct box *box = box_pop(&runner->sent, &runner->sent_tail);
    runner->sent_count--;
    if (answer->verdict == UNIT_REJECTED) {
        runner->repairing = true;
        box_rejected(runner, box, &answer->err);
    } else if (answer->verdict == UNIT_GAP) {
        box_append(box, &runner->waiting_tail);
    } else {
        box_applied(runner, box, answer);
    }
    lane_repaired(runner);
}
