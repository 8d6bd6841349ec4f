/*
 * checks.c: the promises of the engine, judged by the participants' ledgers.
 */
#include "engine/key.h"
#include "tests/sim/world.h"

static struct ledger_entry *ledger_of(struct world *world, const struct row_run *row,
                                      const struct effect_ref *ref)
{
    struct str instance = key_instance(&row->plan->steps[ref->step], ref->item, &world->arena);
    return world_ledger(
        world, key_make(row->id, instance, ref->direction, ref->generation, &world->arena));
}

/* Effects of one direction of an instance over all its generations. */
static uint32_t effects_of(struct world *world, const struct row_run *row,
                           const struct effect_ref *of, enum direction direction)
{
    uint32_t effects = 0;
    for (uint32_t i = 0; i < row->effects_count; i++) {
        const struct effect_ref *ref = &row->effects[i].ref;
        if (ref->step == of->step && ref->direction == direction && str_eq(ref->item, of->item))
            effects += ledger_of(world, row, ref)->effects;
    }
    return effects;
}

/* When a step, or the items of a loop, were undone: the first and the last. False: never. An undo
 * of what was never done undoes nothing: a slow worker may come to it after a person said so. */
static bool undo_span(struct world *world, const struct row_run *row, uint16_t step,
                      uint64_t *first, uint64_t *last)
{
    *first = UINT64_MAX;
    *last = 0;
    for (uint32_t i = 0; i < row->effects_count; i++) {
        const struct effect_ref *ref = &row->effects[i].ref;
        if (ref->step != step || ref->direction != DIRECTION_COMPENSATE)
            continue;
        const struct ledger_entry *entry = ledger_of(world, row, ref);
        if (!entry->effects || !effects_of(world, row, ref, DIRECTION_EXECUTE))
            continue;
        *first = MIN(*first, entry->first_order);
        *last = MAX(*last, entry->first_order);
    }
    return *last > 0;
}

static const struct record_effect *newest(const struct row_run *row, uint16_t step, struct str item,
                                          enum direction direction)
{
    const struct record_effect *found = NULL;
    for (uint32_t i = 0; i < row->effects_count; i++) {
        const struct effect_ref *ref = &row->effects[i].ref;
        if (ref->step == step && ref->direction == direction && str_eq(ref->item, item) &&
            (!found || found->ref.generation < ref->generation))
            found = &row->effects[i];
    }
    return found;
}

static const char *row_state_name(const struct row_run *row)
{
    return row ? run_state_name(row->now.state) : "not there";
}

/* What a child step says is what its run has come to. A run that a person abandoned is excused. */
static void child_check(struct world *world, const struct row_run *row,
                        const struct record_effect *effect)
{
    const struct plan_step *step = &row->plan->steps[effect->ref.step];
    const struct record_effect *forward =
        newest(row, effect->ref.step, effect->ref.item, DIRECTION_EXECUTE);
    bool undo = effect->ref.direction == DIRECTION_COMPENSATE;
    struct str name = key_instance(step, effect->ref.item, &world->arena);
    struct str id = key_child(
        row->id, name, undo ? forward->ref.generation : effect->ref.generation, &world->arena);
    const struct row_run *child = world_row(world, id);
    enum run_state state = child ? child->now.state : RUN_NONE;
    const struct record_effect *back =
        newest(row, effect->ref.step, effect->ref.item, DIRECTION_COMPENSATE);
    if (state == RUN_ABANDONED || step->action.child.detached)
        return;
    if (child && !str_eq(child->start.parent, row->id))
        world_fail(world, "run %s does not know its parent %s", id.ptr, row->id.ptr);
    if (undo && effect->state.state == STEP_APPLIED && state != RUN_COMPENSATED)
        world_fail(world, "child %s is called undone, it is %s", id.ptr, row_state_name(child));
    if (!undo && effect->state.state == STEP_APPLIED && state != RUN_COMPLETED &&
        !(back && (state == RUN_COMPENSATED || !run_state_is_terminal(state))))
        world_fail(world, "child %s is called applied, it is %s", id.ptr, row_state_name(child));
    if (!undo && effect->state.state == STEP_REFUSED && child && state != RUN_COMPENSATED)
        world_fail(world, "child %s is called refused, it is %s", id.ptr, row_state_name(child));
    /* Nothing of a child is left where its parent says that all was undone. */
    if (row->now.state == RUN_COMPENSATED && forward && !forward->state.by_hand &&
        !(back && back->state.by_hand) && child && state != RUN_COMPENSATED)
        world_fail(world, "run %s is compensated, its child %s is %s", row->id.ptr, id.ptr,
                   row_state_name(child));
}

static bool is_loop(const struct row_run *row, const struct effect_ref *ref)
{
    return row->plan->steps[ref->step].for_each && !ref->item.len;
}

/* What is undone is what was done: the undo carries the input that its action had, whatever was
 * corrected in between, unless the correction was made on the way back. */
static void undo_check(struct world *world, const struct row_run *row,
                       const struct record_effect *undo)
{
    const struct ledger_entry *entry = ledger_of(world, row, &undo->ref);
    bool done = false;
    if (undo->ref.direction != DIRECTION_COMPENSATE || !entry->body.len)
        return;
    for (uint32_t i = 0; i < row->inputs_count; i++)
        if (row->inputs[i].direction == DIRECTION_COMPENSATE)
            return;
    for (uint32_t i = 0; i < row->effects_count; i++) {
        const struct effect_ref *ref = &row->effects[i].ref;
        if (ref->step != undo->ref.step || ref->direction != DIRECTION_EXECUTE ||
            !str_eq(ref->item, undo->ref.item))
            continue;
        const struct ledger_entry *action = ledger_of(world, row, ref);
        if (!action->effects || !action->body.len)
            continue;
        if (str_eq(action->body, entry->body))
            return;
        done = true;
    }
    if (done)
        world_fail(world, "%s undoes what was not done: " STR_FMT, entry->key,
                   STR_ARG(entry->body));
}

/* Promise 3: one effect per key where the key is honoured, and at most one send that is not proven
 * not-applied where it is not. */
static void once_check(struct world *world, const struct row_run *row,
                       const struct record_effect *effect)
{
    const struct plan_step *step = &row->plan->steps[effect->ref.step];
    const struct plan_action *action = step_action(step, effect->ref.direction);
    const struct ledger_entry *entry = ledger_of(world, row, &effect->ref);
    bool repeatable = action->effect == EFFECT_PURE || action->effect == EFFECT_IDEMPOTENT;
    bool keyed = action->service == PLAN_SERVICE_NONE || action->idempotency.ttl_us > MINUTE_US;
    if (entry->effects > 1 && (keyed || !repeatable))
        world_fail(world, "%s has %u effects", entry->key, entry->effects);
    if (is_loop(row, &effect->ref)) {
        if (entry->requests)
            world_fail(world, "%s was sent: it is a loop", entry->key);
        return;
    }
    if (effect->state.by_hand || action_kind_waits(action->kind))
        return;
    if (action->kind == ACTION_CHILD) {
        child_check(world, row, effect);
        return;
    }
    if (effect->state.state == STEP_APPLIED && !entry->effects)
        world_fail(world, "%s is called applied, the ledger has nothing", entry->key);
    if (effect->state.state == STEP_REFUSED && entry->effects)
        world_fail(world, "%s is called refused, the ledger has it", entry->key);
}

static bool residue_names(const struct row_run *row, struct str instance)
{
    char wanted[160];
    int len = snprintf(wanted, sizeof(wanted), "\"step\":\"" STR_FMT "\"", STR_ARG(instance));
    return row->now.residue.len &&
           memmem(row->now.residue.ptr, row->now.residue.len, wanted, (size_t)len);
}

/* Promise 5: what is applied and has an undo is undone, or stands in the residue. */
static void undone_check(struct world *world, const struct row_run *row,
                         const struct record_effect *forward)
{
    const struct plan_step *step = &row->plan->steps[forward->ref.step];
    struct str name = key_instance(step, forward->ref.item, &world->arena);
    uint32_t done = effects_of(world, row, &forward->ref, DIRECTION_EXECUTE);
    uint32_t undone = effects_of(world, row, &forward->ref, DIRECTION_COMPENSATE);
    if (!done || undone || step->action.effect == EFFECT_PURE || residue_names(row, name))
        return;
    if (forward->state.by_hand) /* a person said so */
        return;
    world_fail(world, "run %s ended %s, but %s is applied, not undone and not in the residue %s",
               row->id.ptr, run_state_name(row->now.state), name.ptr,
               row->now.residue.len ? row->now.residue.ptr : "(none)");
}

/* What was told of a step late, or by a person, may make its undo late, too. */
static void order_check(struct world *world, const struct row_run *row, uint16_t index)
{
    const struct plan_step *step = &row->plan->steps[index];
    uint64_t mine, last, before, end;
    if (!undo_span(world, row, index, &mine, &last))
        return;
    for (uint16_t i = 0; i < step->needs_count; i++)
        if (undo_span(world, row, step->needs[i], &before, &end) && before < last &&
            !row->told[index] && !row->told[step->needs[i]])
            world_fail(world, "run %s undid %s before %s, which was built on it", row->id.ptr,
                       row->plan->steps[step->needs[i]].id, step->id);
}

/* After the pivot there is no way back, whatever anybody typed. */
static void pivot_check(struct world *world, const struct row_run *row,
                        const struct record_effect *forward)
{
    const struct plan_step *step = &row->plan->steps[forward->ref.step];
    if (step->pivot && row->now.direction == DIRECTION_COMPENSATE &&
        effects_of(world, row, &forward->ref, DIRECTION_EXECUTE) && !forward->state.by_hand)
        world_fail(world, "run %s has turned back after its pivot %s", row->id.ptr, step->id);
}

static void done_check(struct world *world, const struct row_run *row, uint16_t index,
                       struct str item)
{
    const struct plan_step *step = &row->plan->steps[index];
    const struct record_effect *forward = newest(row, index, item, DIRECTION_EXECUTE);
    struct str name = key_instance(step, item, &world->arena);
    if (!forward)
        world_fail(world, "run %s is completed without step %s", row->id.ptr, name.ptr);
    else if (forward->state.state != STEP_APPLIED && forward->state.state != STEP_SKIPPED &&
             step->on_failure != ON_FAILURE_CONTINUE &&
             step->action.on_unknown != ON_UNKNOWN_CONTINUE)
        world_fail(world, "run %s is completed, but step %s is %s", row->id.ptr, name.ptr,
                   step_state_name(forward->state.state));
    if (newest(row, index, item, DIRECTION_COMPENSATE))
        world_fail(world, "run %s is completed and compensates %s", row->id.ptr, name.ptr);
}

static void completed_check(struct world *world, const struct row_run *row, uint16_t index)
{
    const struct record_effect *own = newest(row, index, STR(""), DIRECTION_EXECUTE);
    struct str pair, key;
    done_check(world, row, index, STR(""));
    if (!own || own->state.state != STEP_APPLIED || !own->state.items.ptr)
        return;
    for (size_t at = 0; json_list_walk(own->state.items, &at, &pair);) {
        size_t in = 0;
        if (json_list_walk(pair, &in, &key))
            done_check(world, row, index, (struct str){key.ptr + 1, key.len - 2});
    }
}

/* --- loops, whenever their run is written --------------------------------------------------- */

static bool in_motion(const struct effect_state *side)
{
    return side->state == STEP_CLAIMED || side->state == STEP_RETRYING ||
           side->state == STEP_WAITING ||
           (side->state == STEP_UNKNOWN && wall_is_set(side->next_at)); /* it is asked about */
}

/* No more items than max_parallel are in motion, in either direction. What a person had sent again,
 * or asked about again, does not count: all that had stopped goes on at once. */
static void width_check(struct world *world, const struct row_run *row, uint16_t index)
{
    const struct plan_step *step = &row->plan->steps[index];
    uint32_t moving[DIRECTION_COMPENSATE + 1] = {0};
    for (uint32_t i = 0; i < row->effects_count; i++) {
        const struct record_effect *effect = &row->effects[i];
        bool again = effect->state.attempts_base > 0 || effect->ref.generation > 1 ||
                     effect->state.state == STEP_UNKNOWN;
        if (effect->ref.step == index && effect->ref.item.len && in_motion(&effect->state) &&
            !(again && row->retried))
            moving[effect->ref.direction]++;
    }
    if (moving[DIRECTION_EXECUTE] > step->max_parallel ||
        moving[DIRECTION_COMPENSATE] > step->max_parallel)
        world_fail(world, "run %s has %u and %u items of %s in motion, max_parallel is %u",
                   row->id.ptr, moving[DIRECTION_EXECUTE], moving[DIRECTION_COMPENSATE], step->id,
                   step->max_parallel);
}

/* An item is undone only after what was in flight has ended, and after every item that was claimed
 * later was undone, or is being undone, or has nothing to undo. */
static void turn_check(struct world *world, const struct row_run *row,
                       const struct record_effect *undo)
{
    const struct effect_ref *ref = &undo->ref;
    const struct record_effect *mine = newest(row, ref->step, ref->item, DIRECTION_EXECUTE);
    if (row->told[ref->step])
        return; /* what was learned late is undone late */
    if (row->plan->steps[ref->step].compensate.kind == ACTION_SQL)
        return; /* a first attempt has no row before it has ended */
    for (uint32_t i = 0; i < row->effects_count; i++) {
        const struct record_effect *other = &row->effects[i];
        if (other->ref.step != ref->step || other->ref.direction != DIRECTION_EXECUTE ||
            !other->ref.item.len ||
            other != newest(row, ref->step, other->ref.item, DIRECTION_EXECUTE))
            continue;
        if (in_motion(&other->state))
            world_fail(world, "run %s undoes %s while %s is in motion", row->id.ptr, ref->item.ptr,
                       other->ref.item.ptr);
        bool to_undo = other->state.state == STEP_APPLIED || other->state.state == STEP_UNKNOWN;
        if (to_undo && other->state.claim_no > mine->state.claim_no &&
            !newest(row, ref->step, other->ref.item, DIRECTION_COMPENSATE))
            world_fail(world, "run %s undoes %s before %s, which was claimed later", row->id.ptr,
                       ref->item.ptr, other->ref.item.ptr);
    }
}

/* A step begins only when the items of the loops that it needs are through; one that a person has
 * sent again since, or that the way back asks about, does not count. */
static void join_check(struct world *world, const struct row_run *row,
                       const struct record_effect *begun)
{
    const struct plan_step *step = &row->plan->steps[begun->ref.step];
    for (uint16_t n = 0; n < step->needs_count; n++)
        for (uint32_t i = 0; i < row->effects_count; i++) {
            const struct record_effect *item = &row->effects[i];
            if (item->ref.step == step->needs[n] && item->ref.item.len &&
                item->ref.direction == DIRECTION_EXECUTE && item->ref.generation == 1 &&
                in_motion(&item->state) && !item->state.attempts_base &&
                !(item->state.state == STEP_UNKNOWN && row->now.direction == DIRECTION_COMPENSATE))
                world_fail(world, "run %s began %s before item %s of %s was through", row->id.ptr,
                           step->id, item->ref.item.ptr, row->plan->steps[step->needs[n]].id);
        }
}

/* What is held back begins when nothing is left that could turn the run back. */
static void hold_check(struct world *world, const struct row_run *row,
                       const struct record_effect *begun)
{
    const struct plan_step *step = &row->plan->steps[begun->ref.step];
    for (uint16_t i = 0; i < step->held_by_count && begun->ref.generation == 1; i++) {
        const struct record_effect *other =
            newest(row, step->held_by[i], STR(""), DIRECTION_EXECUTE);
        if (!other || other->state.state == STEP_CLAIMED || other->state.state == STEP_RETRYING)
            world_fail(world, "run %s sent %s, which is held back, before %s was done", row->id.ptr,
                       step->id, row->plan->steps[step->held_by[i]].id);
    }
}

void loops_check(struct world *world, const struct row_run *row)
{
    for (uint16_t step = 0; step < row->plan->steps_count; step++)
        if (row->plan->steps[step].for_each)
            width_check(world, row, step);
    for (uint32_t i = 0; i < row->effects_count; i++)
        if (row->effects[i].ref.direction == DIRECTION_EXECUTE &&
            row->effects[i].state.state == STEP_CLAIMED) {
            join_check(world, row, &row->effects[i]);
            hold_check(world, row, &row->effects[i]);
        }
    for (uint32_t i = 0; i < row->effects_count; i++)
        if (row->effects[i].ref.item.len && row->effects[i].ref.direction == DIRECTION_COMPENSATE &&
            row->effects[i].state.state == STEP_CLAIMED)
            turn_check(world, row, &row->effects[i]);
}

/* --- all of a run ---------------------------------------------------------------------------- */

/* Compensated says that nothing is left but what was declared, or what a person took over. */
static void residue_check(struct world *world, const struct row_run *row)
{
    static const char *const whys[] = {"\"why\":\"not_undone\"", "\"why\":\"unknown\"",
                                       "\"why\":\"open\""};
    struct str residue = row->now.residue;
    for (size_t i = 0; row->now.state == RUN_COMPENSATED && residue.len && i < ARRAY_LEN(whys); i++)
        if (memmem(residue.ptr, residue.len, whys[i], strlen(whys[i])))
            world_fail(world, "run %s is called compensated, its residue is %s", row->id.ptr,
                       residue.ptr);
}

static void row_check(struct world *world, const struct row_run *row)
{
    residue_check(world, row);
    if (row->now.state != RUN_PARKED && !world_rests(world, row))
        world_fail(world, "run %s is still %s", row->id.ptr, run_state_name(row->now.state));
    for (uint32_t i = 0; i < row->effects_count; i++) {
        once_check(world, row, &row->effects[i]);
        undo_check(world, row, &row->effects[i]);
    }
    for (uint32_t i = 0; i < row->effects_count; i++) {
        const struct effect_ref *ref = &row->effects[i].ref;
        if (&row->effects[i] != newest(row, ref->step, ref->item, DIRECTION_EXECUTE))
            continue;
        if (row->now.state == RUN_COMPENSATED || row->now.state == RUN_ABANDONED ||
            row->now.state == RUN_PARKED)
            undone_check(world, row, &row->effects[i]);
        pivot_check(world, row, &row->effects[i]);
    }
    for (uint16_t step = 0; step < row->plan->steps_count; step++) {
        if (row->now.state == RUN_COMPLETED)
            completed_check(world, row, step);
        order_check(world, row, step);
    }
}

void checks_run(struct world *world)
{
    workers_check(world);
    for (size_t i = 0; i < world->rows.size; i++)
        for (struct map_node *node = world->rows.buckets[i]; node; node = node->chain) {
            const struct row_run *row = CONTAINER_OF(node, struct row_run, node);
            if (row->start.parent.len || row->plan->schedule)
                row_check(world, row);
        }
    schedule_check(world);
    for (uint32_t i = 0; i < world->runs_count; i++) {
        const struct client_run *run = &world->runs[i];
        const struct row_run *row = world_row(world, str_z(run->id));
        if (!run->acknowledged)
            world_fail(world, "the submit of run %s was never answered", run->id);
        else if (!row)
            world_fail(world, "run %s was acknowledged and is lost", run->id);
        else
            row_check(world, row);
    }
}
