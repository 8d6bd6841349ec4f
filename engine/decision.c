#include "engine/decision.h"

#include "engine/key.h"
#include "engine/limits.h"

static const char *const event_names[] = {"none",
#define X(id, name) name,
                                          RUN_EVENTS(X)
#undef X
};

const char *run_event_name(enum run_event_kind kind)
{
    ASSERT(kind < EVENT_KIND_COUNT);
    return event_names[kind];
}

enum run_event_kind run_event_of(struct str name)
{
    for (unsigned i = 1; i < EVENT_KIND_COUNT; i++)
        if (str_eq_z(name, event_names[i]))
            return (enum run_event_kind)i;
    return EVENT_NONE;
}

/* Room for one more element; the old array stays behind in the scratch arena. */
static void *grown(struct draft *draft, void *list, uint32_t count, uint32_t *capacity, size_t size)
{
    if (count < *capacity)
        return list;
    *capacity = *capacity ? *capacity * 2 : 8;
    void *larger = arena_alloc_array(draft->scratch, *capacity, size);
    if (count)
        memcpy(larger, list, count * size);
    return larger;
}

void draft_record(struct draft *draft, const struct run_record *record)
{
    struct run_decision *out = draft->out;
    out->records = grown(draft, out->records, out->records_count, &out->records_capacity,
                         sizeof(*out->records));
    out->records[out->records_count++] = *record;
    run_apply(draft->run, record);
}

bool draft_may_claim(struct draft *draft)
{
    if (draft->claims++ < CLAIMS_PER_DECISION)
        return true;
    draft->run->cut_at = draft->event->now;
    return false;
}

void draft_command(struct draft *draft, const struct run_command *command)
{
    struct run_decision *out = draft->out;
    out->commands = grown(draft, out->commands, out->commands_count, &out->commands_capacity,
                          sizeof(*out->commands));
    out->commands[out->commands_count++] = *command;
}

static bool is_of(const struct effect_ref *ref, const struct instance *instance,
                  enum direction direction)
{
    return ref->step == instance->step && ref->direction == direction &&
           str_eq(ref->item, instance->item);
}

bool draft_unclaim(struct draft *draft, const struct instance *instance, enum direction direction)
{
    struct run_decision *out = draft->out;
    bool claimed = false;
    for (uint32_t i = 0; i < out->records_count && !claimed; i++) {
        const struct run_record *record = &out->records[i];
        claimed = (record->kind == RECORD_CLAIM || record->kind == RECORD_BEGUN) &&
                  is_of(&record->effect.ref, instance, direction);
    }
    for (uint32_t i = 0; claimed && i < out->commands_count; i++)
        if (is_of(&out->commands[i].ref, instance, direction)) {
            out->commands_count--;
            memmove(&out->commands[i], &out->commands[i + 1],
                    (out->commands_count - i) * sizeof(*out->commands));
            return true;
        }
    return false;
}

struct render draft_render(const struct draft *draft, const struct instance *instance,
                           enum direction direction, const struct effect_state *side)
{
    return (struct render){.run = draft->run,
                           .instance = instance,
                           .direction = direction,
                           .generation = side->generation,
                           .claim_no = side->claim_no,
                           .step_input = side->step_input,
                           .now = side->claimed_at,
                           .env = draft->event->env};
}

void draft_effect(struct draft *draft, const struct instance *instance, enum direction direction,
                  const struct effect_state *side)
{
    const struct effect_state *old =
        direction == DIRECTION_COMPENSATE ? &instance->compensate : &instance->execute;
    bool has_row = old->stored && old->generation == side->generation;
    struct run_record record = {
        .kind = has_row ? RECORD_EFFECT : RECORD_CLAIM,
        .effect = {.ref = {.step = instance->step,
                           .item = instance->item,
                           .direction = direction,
                           .generation = side->generation},
                   .state = *side,
                   .turn = draft->run->now.turn},
    };
    if (side->state != STEP_WAITING)
        record.effect.state.waits_for = WAITS_NONE;
    draft_record(draft, &record);
}

void draft_run(struct draft *draft, const struct record_run *now)
{
    enum run_state from = draft->run->now.state;
    ASSERT(from == now->state || run_transition_allowed(from, now->state));
    draft_record(draft, &(struct run_record){.kind = RECORD_RUN, .run = *now});
}

void draft_event(struct draft *draft, const char *what, struct str step, struct str detail)
{
    struct run_record record = {
        .kind = RECORD_EVENT,
        .event = {.seq = draft->run->events + 1,
                  .at = draft->event->now,
                  .what = str_z(what),
                  .step = step.ptr ? step : STR(""),
                  .detail = detail.ptr ? detail : STR(""),
                  .actor = draft->event->verb.actor.ptr ? draft->event->verb.actor : STR("")},
    };
    draft_record(draft, &record);
}

struct str draft_error(struct draft *draft, const char *code, const char *message)
{
    struct json *error = json_object_new(draft->scratch, 4);
    json_object_add_z(error, "code", json_string_z(draft->scratch, code));
    json_object_add_z(error, "status", &json_null);
    json_object_add_z(error, "message",
                      json_string(draft->scratch, arena_str(draft->scratch, str_z(message))));
    json_object_add_z(error, "body", &json_null);
    return json_text(error, draft->scratch);
}
