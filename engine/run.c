#include "engine/run.h"

#include "engine/base/rand.h"
#include "engine/group.h"
#include "engine/limits.h"

#include <stdio.h>

#define NAMES(table)        \
    {                       \
        "none", table(NAME) \
    }
#define NAME(id, name) name,

static const char *const direction_names[] = NAMES(DIRECTIONS);
static const char *const reply_kind_names[] = NAMES(REPLY_KINDS);
static const char *const run_state_names[] = NAMES(RUN_STATES);
static const char *const step_state_names[] = NAMES(STEP_STATES);
static const char *const waits_for_names[] = NAMES(WAITS_FOR);
static const char *const run_cause_names[] = NAMES(RUN_CAUSES);
static const char *const park_reason_names[] = NAMES(PARK_REASONS);
static const char *const outcome_names[] = NAMES(OUTCOMES);
static const char *const child_end_names[] = NAMES(CHILD_ENDS);
static const char *const approval_names[] = NAMES(APPROVALS);
static const char *const finding_source_names[] = NAMES(FINDING_SOURCES);

static const char *name_at(const char *const *names, size_t count, unsigned index)
{
    ASSERT(index < count);
    return names[index];
}

/* 0 for an unknown name, which is also what "none" says. */
static unsigned index_of(const char *const *names, size_t count, struct str name)
{
    for (unsigned i = 1; i < count; i++)
        if (str_eq_z(name, names[i]))
            return i;
    return 0;
}

const char *direction_name(enum direction direction)
{
    return name_at(direction_names, ARRAY_LEN(direction_names), direction);
}

const char *reply_kind_name(enum reply_kind kind)
{
    return name_at(reply_kind_names, ARRAY_LEN(reply_kind_names), kind);
}

const char *run_state_name(enum run_state state)
{
    return name_at(run_state_names, ARRAY_LEN(run_state_names), state);
}

const char *step_state_name(enum step_state state)
{
    return name_at(step_state_names, ARRAY_LEN(step_state_names), state);
}

const char *waits_for_name(enum waits_for waits_for)
{
    return name_at(waits_for_names, ARRAY_LEN(waits_for_names), waits_for);
}

const char *run_cause_name(enum run_cause cause)
{
    return name_at(run_cause_names, ARRAY_LEN(run_cause_names), cause);
}

const char *park_reason_name(enum park_reason reason)
{
    return name_at(park_reason_names, ARRAY_LEN(park_reason_names), reason);
}

const char *approval_name(enum approval approval)
{
    return name_at(approval_names, ARRAY_LEN(approval_names), approval);
}

enum approval approval_of(struct str name)
{
    return (enum approval)index_of(approval_names, ARRAY_LEN(approval_names), name);
}

const char *finding_source_name(enum finding_source source)
{
    return name_at(finding_source_names, ARRAY_LEN(finding_source_names), source);
}

enum run_state run_state_of(struct str name)
{
    return (enum run_state)index_of(run_state_names, ARRAY_LEN(run_state_names), name);
}

enum step_state step_state_of(struct str name)
{
    return (enum step_state)index_of(step_state_names, ARRAY_LEN(step_state_names), name);
}

enum waits_for waits_for_of(struct str name)
{
    return (enum waits_for)index_of(waits_for_names, ARRAY_LEN(waits_for_names), name);
}

enum run_cause run_cause_of(struct str name)
{
    return (enum run_cause)index_of(run_cause_names, ARRAY_LEN(run_cause_names), name);
}

enum park_reason park_reason_of(struct str name)
{
    return (enum park_reason)index_of(park_reason_names, ARRAY_LEN(park_reason_names), name);
}

enum outcome outcome_of(struct str name)
{
    return (enum outcome)index_of(outcome_names, ARRAY_LEN(outcome_names), name);
}

enum direction direction_of(struct str name)
{
    return (enum direction)index_of(direction_names, ARRAY_LEN(direction_names), name);
}

enum child_end child_end_of(struct str name)
{
    return (enum child_end)index_of(child_end_names, ARRAY_LEN(child_end_names), name);
}

bool run_state_is_terminal(enum run_state state)
{
    return state == RUN_COMPLETED || state == RUN_COMPENSATED || state == RUN_ABANDONED;
}

const struct run_transition run_transitions[] = {
    {RUN_NONE, RUN_RUNNING, "submitted"},
    {RUN_NONE, RUN_QUEUED,
     "submitted, to start later, with a `lock`, or without a place of its tenant"},
    {RUN_QUEUED, RUN_RUNNING, "its time has come, it holds its lock, and there is a place"},
    {RUN_QUEUED, RUN_COMPENSATING,
     "cancel, its deadline, or a run that was opened again holds its lock"},
    {RUN_QUEUED, RUN_PARKED, "an abandoned run that was opened again holds its lock"},
    {RUN_QUEUED, RUN_ABANDONED, "abandon"},
    {RUN_RUNNING, RUN_COMPLETED, "every step is done"},
    {RUN_COMPLETED, RUN_COMPENSATING,
     "compensate within its window, or the run whose child it is turns back"},
    {RUN_COMPLETED, RUN_QUEUED, "compensate within its window: it waits for its lock again"},
    {RUN_RUNNING, RUN_COMPENSATING,
     "a step failed for good, a budget or the deadline ended, or cancel"},
    {RUN_RUNNING, RUN_PARKED,
     "a person is needed: outcome unknown, pivot passed, on_failure: park or repair"},
    {RUN_RUNNING, RUN_ABANDONED, "abandon"},
    {RUN_COMPENSATING, RUN_COMPENSATED, "everything applied was undone"},
    {RUN_COMPENSATING, RUN_PARKED,
     "a compensation failed, an unknown outcome is in the way, or the budget of the way back "
     "ended"},
    {RUN_COMPENSATING, RUN_ABANDONED, "abandon"},
    {RUN_PARKED, RUN_RUNNING, "retry, settle or skip of a run that stopped going forward"},
    {RUN_PARKED, RUN_COMPENSATING, "retry, settle or skip on the way back; cancel; compensate"},
    {RUN_PARKED, RUN_ABANDONED, "abandon"},
    {RUN_COMPENSATED, RUN_COMPENSATING, "a step that counted as not applied was applied after all"},
    {RUN_COMPENSATED, RUN_QUEUED, "the same, where it has a lock: it waits for it again"},
    {RUN_ABANDONED, RUN_PARKED, "a step that counted as not applied was applied after all"},
    {RUN_ABANDONED, RUN_QUEUED, "the same, where it has a lock: it waits for it again"},
};
const size_t run_transitions_count = ARRAY_LEN(run_transitions);

bool run_transition_allowed(enum run_state from, enum run_state to)
{
    for (size_t i = 0; i < run_transitions_count; i++)
        if (run_transitions[i].from == from && run_transitions[i].to == to)
            return true;
    return false;
}

bool run_transition_reaches(enum run_state from, enum run_state to)
{
    bool reaches = run_transition_allowed(from, to);
    for (size_t i = 0; i < run_transitions_count && !reaches; i++)
        reaches = run_transitions[i].from == from && run_transitions[i].to != RUN_QUEUED &&
                  run_transition_allowed(run_transitions[i].to, to);
    return reaches;
}

uint16_t shard_of(struct str run_id)
{
    const char *tilde = run_id.len ? memchr(run_id.ptr, '~', run_id.len) : NULL;
    struct str root = {run_id.ptr, tilde ? (size_t)(tilde - run_id.ptr) : run_id.len};
    return sha256_of(root).bytes[0] % RUN_SHARDS;
}

struct run *run_new(const struct plan *plan, struct str id)
{
    struct arena arena = {0};
    struct run *run = arena_new(&arena, struct run);
    run->plan = plan_ref(plan);
    run->id = arena_str(&arena, id);
    run->shard = shard_of(id);
    run->instances_count = plan->steps_count;
    run->instances = arena_array(&arena, struct instance, run->instances_count);
    for (uint16_t i = 0; i < run->instances_count; i++) {
        run->instances[i].step = i;
        run->instances[i].item = STR("");
        run->instances[i].execute.state = STEP_PENDING;
        run->instances[i].compensate.state = STEP_PENDING;
        instance_note(run, &run->instances[i]);
    }
    run->run_arena = arena;
    return run;
}

void run_free(struct run *run)
{
    if (!run)
        return;
    struct arena arena = run->run_arena; /* the run lies in its own arena */
    heap_free(&run->retries);
    heap_free(&run->waits);
    plan_unref(run->plan);
    arena_free(&arena);
}

struct instance *run_instance(const struct run *run, uint16_t step, struct str item)
{
    ASSERT(step < run->instances_count);
    struct instance *own = &run->instances[step];
    uint32_t place;
    if (!item.len)
        return own;
    return own->group && group_place(own->group, item, &place) ? own->group->instances[place]
                                                               : NULL;
}

struct instance *run_instance_make(struct run *run, uint16_t step, struct str item)
{
    ASSERT(step < run->instances_count);
    struct instance *own = &run->instances[step];
    uint32_t place;
    if (!item.len)
        return own;
    if (!own->group || !group_place(own->group, item, &place))
        return NULL;
    return group_instance(run, own, place);
}

struct instance *run_instance_next(const struct run *run, const struct instance *after)
{
    uint16_t step = after ? after->step : 0;
    if (!after)
        return run->instances_count ? &run->instances[0] : NULL;
    const struct group *group = run->instances[step].group;
    for (uint32_t i = after->item.len ? after->place + 1 : 0; group && i < group->count; i++)
        if (group->instances[i])
            return group->instances[i];
    return step + 1 < run->instances_count ? &run->instances[step + 1] : NULL;
}

struct instance *run_instance_named(const struct run *run, struct str name)
{
    const char *dot = name.len ? memchr(name.ptr, '.', name.len) : NULL;
    struct str id = {name.ptr, dot ? (size_t)(dot - name.ptr) : name.len};
    struct str item = dot ? (struct str){dot + 1, name.len - id.len - 1} : STR("");
    uint16_t step = plan_step_find(run->plan, id);
    return step == PLAN_STEP_NONE ? NULL : run_instance(run, step, item);
}

/* Keeps the old copy when the text did not change, so that updates do not pile up in the arena. */
static struct str text_keep(struct run *run, struct str old, struct str new)
{
    if (old.ptr && new.ptr && str_eq(old, new))
        return old;
    return arena_str(&run->run_arena, new);
}

enum run_state record_start_state(const struct record_start *start)
{
    bool later = start->start_at.us > start->created_at.us;
    return later || start->lock.len || start->waits ? RUN_QUEUED : RUN_RUNNING;
}

static void start_apply(struct run *run, const struct record_start *start)
{
    ASSERT(run->now.state == RUN_NONE);
    run->start = *start;
    run->start.tenant = arena_str(&run->run_arena, start->tenant);
    run->start.actor = arena_str(&run->run_arena, start->actor);
    run->start.input = arena_str(&run->run_arena, start->input);
    run->start.parent = arena_str(&run->run_arena, start->parent.ptr ? start->parent : STR(""));
    run->start.lock = arena_str(&run->run_arena, start->lock.ptr ? start->lock : STR(""));
    run->now.state = record_start_state(start);
    run->now.direction = DIRECTION_EXECUTE;
}

/* What is sent, or asked, once its time has come: not while the run is paused. */
static bool side_is_sent(const struct effect_state *side)
{
    return side->state == STEP_RETRYING || side->state == STEP_UNKNOWN || side_is_held(side);
}

/* The side waits for a time in the heap of its kind, or in none. */
static void side_wait(struct run *run, struct instance *instance, enum direction direction,
                      const struct effect_state *before)
{
    const struct effect_state *side = instance_side(instance, direction);
    struct due_node *due =
        direction == DIRECTION_COMPENSATE ? &instance->compensate_due : &instance->execute_due;
    due->direction = direction;
    heap_remove(side_is_sent(before) ? &run->retries : &run->waits, &due->node);
    run->held += side_is_held(side);
    run->held -= side_is_held(before);
    if (!wall_is_set(side->next_at))
        return;
    if (side_is_sent(side))
        heap_set(&run->retries, &due->node, side->next_at.us);
    else if (side->state == STEP_WAITING || side->state == STEP_CLAIMED) /* claimed: its limit */
        heap_set(&run->waits, &due->node, side->next_at.us);
}

/* The items are known: from here on each of them may become an instance. */
static void loop_apply(struct run *run, struct instance *own)
{
    bool sound = group_open(run, own);
    ASSERT(sound);
    struct err err;
    if (run->start.input.len < INPUT_PARSE_BYTES_MIN || run->input)
        return;
    int code = json_parse(run->start.input, &run->run_arena, &run->input, &err);
    ASSERT(code == 0); /* it was read when the list was made */
}

static void effect_apply(struct run *run, const struct record_effect *effect, bool stored)
{
    struct instance *instance = run_instance_make(run, effect->ref.step, effect->ref.item);
    ASSERT(instance);
    struct effect_state *side = instance_side(instance, effect->ref.direction);
    struct effect_state old = *side;
    ASSERT(effect->state.state != STEP_NONE);
    ASSERT(effect->ref.generation == effect->state.generation);
    ASSERT(effect->state.generation >= old.generation);
    /* Attempts never go back, except of a claim that its own decision took back. */
    ASSERT(effect->state.generation > old.generation || effect->state.attempts >= old.attempts ||
           effect->state.state == STEP_WITHDRAWN);
    *side = effect->state;
    side->stored = stored || (old.stored && old.generation == side->generation);
    side->output = text_keep(run, old.output, effect->state.output);
    side->error = text_keep(run, old.error, effect->state.error);
    side->answer = text_keep(run, old.answer, effect->state.answer);
    side->step_input = text_keep(run, old.step_input, effect->state.step_input);
    side->renewed = text_keep(run, old.renewed, effect->state.renewed);
    side->items = text_keep(run, old.items, effect->state.items);
    if (!side->items.ptr && old.generation == side->generation)
        side->items = old.items;
    run->claims = MAX(run->claims, side->claim_no);
    side_wait(run, instance, effect->ref.direction, &old);
    if (side->items.ptr && !instance->group)
        loop_apply(run, instance);
    instance_note(run, instance);
}

const struct record_signal *run_signal(const struct run *run, struct str name)
{
    for (uint32_t i = 0; i < run->signals_count; i++)
        if (str_eq(run->signals[i].name, name))
            return &run->signals[i];
    return NULL;
}

/* A workflow names few signals and each is kept once, so the list may be copied to grow. */
static void signal_apply(struct run *run, const struct record_signal *signal)
{
    if (run_signal(run, signal->name))
        return;
    struct record_signal *list =
        arena_array(&run->run_arena, struct record_signal, run->signals_count + 1);
    if (run->signals_count)
        memcpy(list, run->signals, run->signals_count * sizeof(*list));
    struct record_signal *added = &list[run->signals_count++];
    *added = *signal;
    added->name = arena_str(&run->run_arena, signal->name);
    added->data = arena_str(&run->run_arena, signal->data);
    added->actor = arena_str(&run->run_arena, signal->actor);
    run->signals = list;
}

struct str run_input(const struct run *run, enum direction direction, uint32_t claim_no,
                     uint32_t forward)
{
    struct str input = run->start.input;
    for (uint32_t i = 0; i < run->inputs_count; i++) {
        const struct record_input *correction = &run->inputs[i];
        bool back = correction->direction == DIRECTION_COMPENSATE;
        uint32_t claim = back || direction == DIRECTION_EXECUTE ? claim_no : forward;
        bool meant = !back || direction == DIRECTION_COMPENSATE;
        if (meant && (!claim || claim >= correction->from_claim))
            input = correction->input;
    }
    return input;
}

/* People correct few inputs, so the list may be copied to grow. */
static void input_apply(struct run *run, const struct record_input *input)
{
    if (input->number <= run->inputs_count)
        return;
    ASSERT(input->number == run->inputs_count + 1);
    struct record_input *list =
        arena_array(&run->run_arena, struct record_input, run->inputs_count + 1);
    if (run->inputs_count)
        memcpy(list, run->inputs, run->inputs_count * sizeof(*list));
    struct record_input *added = &list[run->inputs_count++];
    *added = *input;
    added->input = arena_str(&run->run_arena, input->input);
    added->actor = arena_str(&run->run_arena, input->actor);
    run->inputs = list;
}

void run_apply(struct run *run, const struct run_record *record)
{
    ASSERT(record->kind == RECORD_START || run->now.state != RUN_NONE);
    switch (record->kind) {
    case RECORD_NONE:
    case RECORD_KIND_COUNT: ASSERT(!"a record"); break;
    case RECORD_START: start_apply(run, &record->start); break;
    case RECORD_CLAIM:
    case RECORD_EFFECT: effect_apply(run, &record->effect, true); break;
    case RECORD_BEGUN: effect_apply(run, &record->effect, false); break;
    case RECORD_RUN: {
        struct record_run old = run->now;
        run->now = record->run;
        run->now.error = text_keep(run, old.error, record->run.error);
        run->now.output = text_keep(run, old.output, record->run.output);
        run->now.residue = text_keep(run, old.residue, record->run.residue);
        break;
    }
    case RECORD_EVENT:
        run->events = MAX(run->events, record->event.seq);
        if (str_eq(record->event.what, STR(RUN_EVENT_TRUSTED)))
            run->start.suspect_from = WALL_NONE;
        break;
    case RECORD_SIGNAL: signal_apply(run, &record->signal); break;
    case RECORD_INPUT: input_apply(run, &record->input); break;
    case RECORD_PIN: /* the image is of the old version until it is loaded again */
    case RECORD_ATTEMPT:
    case RECORD_FINDING:
    case RECORD_APPROVAL:
    case RECORD_INBOX: break; /* history: nothing decides on it */
    }
}

/* What effect_apply takes for granted of an effect. */
static const char *effect_check(struct run *run, const struct record_effect *effect)
{
    if (effect->ref.step >= run->instances_count)
        return "an effect of a step that the workflow does not have";
    struct instance *own = &run->instances[effect->ref.step];
    bool looped = run->plan->steps[effect->ref.step].for_each;
    if (effect->ref.item.len && !looped)
        return "an item of a step that is no loop";
    if (effect->ref.item.len && !own->group)
        return "an item of a loop whose items are not there";
    struct instance *instance = run_instance_make(run, effect->ref.step, effect->ref.item);
    if (!instance)
        return "an item that is not among the items of its loop";
    const struct effect_state *side = instance_side(instance, effect->ref.direction);
    if (effect->state.state == STEP_NONE || effect->ref.generation != effect->state.generation ||
        effect->state.generation <= side->generation)
        return "an effect without a state or with a generation that is not its own";
    if (!effect->state.items.ptr)
        return NULL;
    if (effect->ref.item.len || !looped || effect->ref.direction != DIRECTION_EXECUTE)
        return "items of what is no loop";
    return group_text_check(effect->state.items) ? NULL : "a loop whose items cannot be read";
}

const char *run_load(struct run *run, const struct run_record *record)
{
    const char *broken = NULL;
    bool is_effect = record->kind == RECORD_CLAIM || record->kind == RECORD_EFFECT;
    if ((record->kind == RECORD_START) != (run->now.state == RUN_NONE))
        broken = "a run that does not begin with its start, once";
    else if (is_effect)
        broken = effect_check(run, &record->effect);
    if (!broken)
        run_apply(run, record);
    return broken;
}

static bool same_row(const struct run_record *a, const struct run_record *b)
{
    bool both_effects = (a->kind == RECORD_CLAIM || a->kind == RECORD_EFFECT) &&
                        (b->kind == RECORD_CLAIM || b->kind == RECORD_EFFECT);
    if (both_effects)
        return a->effect.ref.step == b->effect.ref.step &&
               a->effect.ref.direction == b->effect.ref.direction &&
               a->effect.ref.generation == b->effect.ref.generation &&
               str_eq(a->effect.ref.item, b->effect.ref.item);
    return a->kind == RECORD_RUN && b->kind == RECORD_RUN;
}

static uint64_t row_hash(const struct run_record *record)
{
    const struct effect_ref *ref = &record->effect.ref;
    if (record->kind == RECORD_RUN)
        return 0;
    return rand_mix(str_hash(ref->item) ^
                    ((uint64_t)ref->step << 32 | (uint64_t)ref->direction << 16 | ref->generation));
}

uint32_t *run_records_rows(const struct run_record *records, uint32_t count, struct arena *arena)
{
    uint32_t *first = arena_array(arena, uint32_t, count);
    uint32_t size = 4;
    while (size < count * 2)
        size *= 2;
    uint32_t *table = arena_array(arena, uint32_t, size); /* record + 1 */
    for (uint32_t i = 0; i < count; i++) {
        enum record_kind kind = records[i].kind;
        first[i] = i;
        if (kind != RECORD_CLAIM && kind != RECORD_EFFECT && kind != RECORD_RUN)
            continue;
        uint64_t at = row_hash(&records[i]);
        while (table[at % size] && !same_row(&records[table[at % size] - 1], &records[i]))
            at++;
        if (table[at % size])
            first[i] = table[at % size] - 1;
        else
            table[at % size] = i + 1;
    }
    return first;
}

struct str record_inbox_outcome(const struct record_inbox *inbox)
{
#define X(code, name) "refused:" name,
    static const char *const refused[] = {ERR_CODES(X)};
#undef X
#define X(code, name) "conflict:" name,
    static const char *const conflict[] = {ERR_CODES(X)};
#undef X
    if (inbox->code == ERR_NONE)
        return inbox->outcome;
    return str_z((str_eq_z(inbox->outcome, "conflict") ? conflict : refused)[inbox->code]);
}

void run_record_copy(struct run_record *record, struct arena *arena)
{
    switch (record->kind) {
    case RECORD_START:
        record->start.tenant = arena_str(arena, record->start.tenant);
        record->start.actor = arena_str(arena, record->start.actor);
        record->start.input = arena_str(arena, record->start.input);
        record->start.parent = arena_str(arena, record->start.parent);
        record->start.lock = arena_str(arena, record->start.lock);
        break;
    case RECORD_CLAIM:
    case RECORD_EFFECT:
    case RECORD_BEGUN:
        record->effect.ref.item = arena_str(arena, record->effect.ref.item);
        record->effect.state.output = arena_str(arena, record->effect.state.output);
        record->effect.state.error = arena_str(arena, record->effect.state.error);
        record->effect.state.answer = arena_str(arena, record->effect.state.answer);
        record->effect.state.step_input = arena_str(arena, record->effect.state.step_input);
        record->effect.state.renewed = arena_str(arena, record->effect.state.renewed);
        record->effect.state.items = arena_str(arena, record->effect.state.items);
        break;
    case RECORD_RUN:
        record->run.error = arena_str(arena, record->run.error);
        record->run.output = arena_str(arena, record->run.output);
        record->run.residue = arena_str(arena, record->run.residue);
        break;
    case RECORD_ATTEMPT:
        record->attempt.ref.item = arena_str(arena, record->attempt.ref.item);
        record->attempt.error = arena_str(arena, record->attempt.error);
        break;
    case RECORD_FINDING:
        record->finding.ref.item = arena_str(arena, record->finding.ref.item);
        record->finding.detail = arena_str(arena, record->finding.detail);
        record->finding.body = arena_str(arena, record->finding.body);
        record->finding.actor = arena_str(arena, record->finding.actor);
        break;
    case RECORD_INBOX:
        record->inbox.id = arena_str(arena, record->inbox.id);
        record->inbox.outcome = arena_str(arena, record->inbox.outcome);
        record->inbox.answer = arena_str(arena, record->inbox.answer);
        break;
    case RECORD_APPROVAL:
        record->approval.ref.item = arena_str(arena, record->approval.ref.item);
        record->approval.request = arena_str(arena, record->approval.request);
        record->approval.message = arena_str(arena, record->approval.message);
        record->approval.by = arena_str(arena, record->approval.by);
        record->approval.actor = arena_str(arena, record->approval.actor);
        record->approval.reason = arena_str(arena, record->approval.reason);
        break;
    case RECORD_INPUT:
        record->input.input = arena_str(arena, record->input.input);
        record->input.actor = arena_str(arena, record->input.actor);
        break;
    case RECORD_SIGNAL:
        record->signal.name = arena_str(arena, record->signal.name);
        record->signal.data = arena_str(arena, record->signal.data);
        record->signal.actor = arena_str(arena, record->signal.actor);
        break;
    case RECORD_EVENT:
        record->event.what = arena_str(arena, record->event.what);
        record->event.step = arena_str(arena, record->event.step);
        record->event.detail = arena_str(arena, record->event.detail);
        record->event.actor = arena_str(arena, record->event.actor);
        break;
    case RECORD_PIN: break;
    case RECORD_NONE:
    case RECORD_KIND_COUNT: ASSERT(!"a record");
    }
}

static const char *side_check(const struct run *run, const struct instance *instance,
                              enum direction direction)
{
    const struct effect_state *side =
        direction == DIRECTION_COMPENSATE ? &instance->compensate : &instance->execute;
    bool pending = side->state == STEP_PENDING;
    if (side->state == STEP_NONE)
        return "a side without a state";
    if (pending != (side->generation == 0))
        return "pending and generation 0 are the same thing";
    if (side->claim_no > run->claims)
        return "a claim number above the run's counter";
    if (side->state == STEP_RETRYING && !wall_is_set(side->next_at))
        return "retrying without a time";
    if (side_is_held(side) && !wall_is_set(side->next_at))
        return "held back without a time to look again";
    if (side->waits_for != WAITS_NONE && side->state != STEP_WAITING)
        return "what does not wait waits for something";
    if (side->attempts_free + side->attempts_base > side->attempts)
        return "more free or former attempts than attempts";
    if (side->approval == APPROVAL_PENDING && side->state == STEP_WAITING && side->attempts)
        return "sent before it was approved";
    if (side->state == STEP_UNKNOWN && wall_is_set(side->next_at) && !wall_is_set(side->ask_until))
        return "asked about without an end";
    if (side->state == STEP_REFUSED && side->maybe_applied && !side->by_hand)
        return "refused although an attempt may have been applied";
    if (direction == DIRECTION_COMPENSATE && !pending && side->claim_no &&
        instance->execute.claim_no == 0)
        return "a compensation of something never claimed";
    return NULL;
}

static const char *loop_check(const struct run *run, const struct instance *own)
{
    const struct effect_state *side = &own->execute;
    if (own->compensate.state != STEP_PENDING)
        return "a loop is compensated as a whole";
    if (side->claim_no || side->attempts)
        return "a loop was sent as a whole";
    if ((side->state == STEP_WAITING || (side->state == STEP_APPLIED && !side->by_hand)) &&
        !own->group)
        return "a loop without its items";
    return own->group ? group_check(run, own) : NULL;
}

const char *run_check(const struct run *run)
{
    if (run->now.state == RUN_NONE)
        return "a run without a state";
    if (run->now.direction == DIRECTION_NONE)
        return "a run without a direction";
    if (run->now.direction == DIRECTION_COMPENSATE && run->now.cause == CAUSE_NONE)
        return "turned back without a cause";
    if (run->now.state == RUN_RUNNING && run->now.direction != DIRECTION_EXECUTE)
        return "running backward";
    if ((run->now.state == RUN_COMPENSATING || run->now.state == RUN_COMPENSATED) &&
        run->now.direction != DIRECTION_COMPENSATE)
        return "compensating forward";
    bool will_park = run->now.state == RUN_QUEUED && run->now.reason == PARK_LATE_SUCCESS;
    if ((run->now.state == RUN_PARKED) != (run->now.reason != PARK_NONE) && !will_park)
        return "parked and a park reason are the same thing";
    if (run_state_is_terminal(run->now.state) != wall_is_set(run->now.ended_at))
        return "ended and an end time are the same thing";
    for (const struct instance *instance = run_instance_next(run, NULL); instance;
         instance = run_instance_next(run, instance)) {
        const char *broken = side_check(run, instance, DIRECTION_EXECUTE);
        if (!broken)
            broken = side_check(run, instance, DIRECTION_COMPENSATE);
        if (!broken && instance_is_loop(run, instance))
            broken = loop_check(run, instance);
        if (broken)
            return broken;
        if (run->now.direction == DIRECTION_EXECUTE && run->now.state != RUN_ABANDONED &&
            instance->compensate.state != STEP_PENDING)
            return "a compensation in a run that goes forward";
        if (run->now.state == RUN_COMPLETED && instance->execute.state == STEP_CLAIMED)
            return "completed with an attempt in flight";
    }
    return NULL;
}
