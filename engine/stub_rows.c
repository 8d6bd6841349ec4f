#include "engine/stub_rows.h"

struct unit *stub_unit_copy(const struct unit *unit, struct arena *arena)
{
    struct unit *copy = arena_new(arena, struct unit);
    struct unit_run *runs = arena_array(arena, struct unit_run, unit->runs_count);
    *copy = *unit;
    copy->runs = runs;
    copy->release_to = arena_str(arena, unit->release_to);
    for (uint32_t i = 0; i < unit->runs_count; i++) {
        struct run_record *records =
            arena_array(arena, struct run_record, unit->runs[i].records_count);
        runs[i] = unit->runs[i];
        runs[i].run_id = arena_str(arena, unit->runs[i].run_id);
        runs[i].records = records;
        for (uint32_t j = 0; j < runs[i].records_count; j++) {
            records[j] = unit->runs[i].records[j];
            run_record_copy(&records[j], arena);
        }
    }
    return copy;
}

/* NULL: never claimed. */
static struct record_effect *row_effect(const struct stub_row *row, const struct effect_ref *ref)
{
    for (uint32_t i = 0; i < row->effects_count; i++) {
        const struct effect_ref *have = &row->effects[i].ref;
        if (have->step == ref->step && have->direction == ref->direction &&
            have->generation == ref->generation && str_eq(have->item, ref->item))
            return &row->effects[i];
    }
    return NULL;
}

const struct record_effect *stub_row_newest(const struct stub_row *row, uint16_t step,
                                            struct str item, enum direction direction)
{
    const struct record_effect *found = NULL;
    for (uint32_t i = 0; i < row->effects_count; i++) {
        const struct effect_ref *have = &row->effects[i].ref;
        if (have->step == step && have->direction == direction && str_eq(have->item, item) &&
            (!found || found->ref.generation < have->generation))
            found = &row->effects[i];
    }
    return found;
}

static const char *claim_write(struct stub_row *row, const struct record_effect *effect)
{
    if (row_effect(row, &effect->ref))
        return arena_printf(row->arena, "step %s is claimed twice under one key",
                            row->plan->steps[effect->ref.step].id)
            .ptr;
    if (effect->turn != row->now.turn)
        return arena_printf(row->arena, "step %s is claimed in turn %u, it is %u",
                            row->plan->steps[effect->ref.step].id, effect->turn, row->now.turn)
            .ptr;
    if (row->effects_count == row->effects_capacity) {
        uint32_t capacity = row->effects_capacity ? 2 * row->effects_capacity : 16;
        struct record_effect *grown = arena_array(row->arena, struct record_effect, capacity);
        if (row->effects_count)
            memcpy(grown, row->effects, row->effects_count * sizeof(*grown));
        row->effects = grown;
        row->effects_capacity = capacity;
    }
    row->effects[row->effects_count++] = *effect;
    return NULL;
}

static const char *signal_write(struct stub_row *row, const struct record_signal *signal)
{
    struct record_signal *list =
        arena_array(row->arena, struct record_signal, row->signals_count + 1);
    for (uint32_t i = 0; i < row->signals_count; i++) {
        list[i] = row->signals[i];
        if (str_eq(list[i].name, signal->name))
            return "a signal is kept twice";
    }
    list[row->signals_count++] = *signal;
    row->signals = list;
    return NULL;
}

static const char *input_write(struct stub_row *row, const struct record_input *input)
{
    struct record_input *list = arena_array(row->arena, struct record_input, row->inputs_count + 1);
    if (input->number != row->inputs_count + 1)
        return "an input is corrected out of order";
    for (uint32_t i = 0; i < row->inputs_count; i++)
        list[i] = row->inputs[i];
    list[row->inputs_count++] = *input;
    row->inputs = list;
    return NULL;
}

const char *stub_row_write(struct stub_row *row, const struct run_record *record)
{
    struct record_effect *effect;
    struct str items;
    switch (record->kind) {
    case RECORD_START:
        row->start = record->start;
        row->now.state = record_start_state(&record->start);
        row->now.direction = DIRECTION_EXECUTE;
        return NULL;
    case RECORD_CLAIM: return claim_write(row, &record->effect);
    case RECORD_EFFECT:
        effect = row_effect(row, &record->effect.ref);
        if (!effect)
            return arena_printf(row->arena,
                                "an effect of step %s is updated that was never claimed",
                                row->plan->steps[record->effect.ref.step].id)
                .ptr;
        items = effect->state.items;
        *effect = record->effect;
        if (!effect->state.items.ptr) /* as it was */
            effect->state.items = items;
        return NULL;
    case RECORD_RUN:
        if (run_state_is_terminal(row->now.state) && record->run.state != row->now.state &&
            !run_transition_reaches(row->now.state, record->run.state))
            return "the run goes on after it has ended";
        row->now = record->run;
        row->has_run_record = true;
        return NULL;
    case RECORD_EVENT:
        if (record->event.seq != row->events + 1)
            return arena_printf(row->arena, "event %u is written after %u", record->event.seq,
                                row->events)
                .ptr;
        row->events = record->event.seq;
        return NULL;
    case RECORD_SIGNAL: return signal_write(row, &record->signal);
    case RECORD_INPUT: return input_write(row, &record->input);
    case RECORD_PIN: row->plan = record->pin.plan; return NULL;
    case RECORD_ATTEMPT:
    case RECORD_FINDING:
    case RECORD_APPROVAL:
    case RECORD_INBOX:
    case RECORD_BEGUN: return NULL;
    case RECORD_NONE:
    case RECORD_KIND_COUNT: break;
    }
    ASSERT(!"a record");
    return NULL;
}

const struct run_record *stub_row_load(struct stub_row *row, bool pickups, struct arena *arena,
                                       uint32_t *count)
{
    struct run_record *records = arena_array(
        arena, struct run_record, row->effects_count + row->signals_count + row->inputs_count + 3);
    *count = 0;
    records[(*count)++] = (struct run_record){.kind = RECORD_START, .start = row->start};
    for (uint32_t i = 0; i < row->effects_count; i++) {
        struct record_effect *effect = &row->effects[i];
        struct effect_ref newer = effect->ref;
        newer.generation++;
        if (row_effect(row, &newer))
            continue;
        if (pickups && effect->state.state == STEP_CLAIMED)
            effect->state.pickups++;
        records[(*count)++] = (struct run_record){.kind = RECORD_CLAIM, .effect = *effect};
    }
    for (uint32_t i = 0; i < row->inputs_count; i++)
        records[(*count)++] = (struct run_record){.kind = RECORD_INPUT, .input = row->inputs[i]};
    for (uint32_t i = 0; i < row->signals_count; i++)
        records[(*count)++] = (struct run_record){.kind = RECORD_SIGNAL, .signal = row->signals[i]};
    if (row->has_run_record)
        records[(*count)++] = (struct run_record){.kind = RECORD_RUN, .run = row->now};
    if (row->events)
        records[(*count)++] =
            (struct run_record){.kind = RECORD_EVENT, .event = {.seq = row->events}};
    return records;
}
