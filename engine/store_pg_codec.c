#include "engine/store_pg_codec.h"

#include <stdlib.h>

#define PG_EPOCH_US INT64_C(946684800000000) /* 2000-01-01 in microseconds since 1970 */

/* Types of columns, by their fixed numbers. */
#define OID_BOOL 16
#define OID_BYTEA 17
#define OID_INT2 21
#define OID_INT4 23
#define OID_TEXT 25
#define OID_JSON 114
#define OID_TIMESTAMPTZ 1184

/* Where the number of the composite type stands in an array: after dimensions and flags. */
#define LIST_TYPE_AT 8
#define LIST_COUNT_AT 12
#define LIST_HEAD_BYTES 20

/*
 * The tables: X(kind, column, place). `place` is read by the encoder and written by the decoder.
 * A column kind K has put_K(buf, value) and get_K(reader).
 */
#define RUN_COLUMNS(X, now)                   \
    X(RUN_STATE, state, (now)->state)         \
    X(DIRECTION, direction, (now)->direction) \
    X(INT4, turn, (now)->turn)                \
    X(CAUSE, cause, (now)->cause)             \
    X(PARK, park_reason, (now)->reason)       \
    X(BOOL, paused, (now)->paused)            \
    X(TIME, ended_at, (now)->ended_at)        \
    X(JSON, error, (now)->error)              \
    X(JSON, output, (now)->output)            \
    X(JSON, residue, (now)->residue)

#define START_COLUMNS(X, run, start)                \
    X(INT2, shard, (run)->shard)                    \
    X(TEXT, run_id, (run)->run_id)                  \
    X(HASH, input_hash, (start)->input_hash)        \
    X(HASH, workflow_hash, (run)->plan->hash)       \
    X(TEXT, workflow, str_z((run)->plan->workflow)) \
    X(TEXT, tenant, (start)->tenant)                \
    X(TEXT, actor, (start)->actor)                  \
    X(TIME, created_at, (start)->created_at)        \
    X(TIME, deadline_at, (start)->deadline_at)      \
    X(JSON, input, (start)->input)

/* Of a run's own record alone: a start has none of it. */
#define RUN_MORE_COLUMNS(X, now) X(TIME, compensate_until, (now)->compensate_until)

/* After the columns of the run: they came later. */
#define START_MORE_COLUMNS(X, start)     \
    X(TIME, start_at, (start)->start_at) \
    X(TEXT, parent, (start)->parent)     \
    X(INT2, depth, (start)->depth)       \
    X(TEXT, lock, (start)->lock)

#define RUN_KEY_COLUMNS(X, run)  \
    X(INT2, shard, (run)->shard) \
    X(TEXT, run_id, (run)->run_id)

#define EFFECT_KEY_COLUMNS(X, id, ref)        \
    X(TEXT, step_id, id)                      \
    X(TEXT, item, (ref)->item)                \
    X(DIRECTION, direction, (ref)->direction) \
    X(INT2, generation, (ref)->generation)

#define EFFECT_COLUMNS(X, effect)                             \
    X(INT4, turn, (effect)->turn)                             \
    X(STEP_STATE, state, (effect)->state.state)               \
    X(INT4, claim_no, (effect)->state.claim_no)               \
    X(INT4, attempts, (effect)->state.attempts)               \
    X(INT4, attempts_free, (effect)->state.attempts_free)     \
    X(INT4, attempts_base, (effect)->state.attempts_base)     \
    X(INT4, pickups, (effect)->state.pickups)                 \
    X(BOOL, maybe_applied, (effect)->state.maybe_applied)     \
    X(BOOL, by_hand, (effect)->state.by_hand)                 \
    X(BOOL, output_invalid, (effect)->state.output_invalid)   \
    X(OUTCOME, outcome, (effect)->state.outcome)              \
    X(HASH, request_hash, (effect)->state.request_hash)       \
    X(TIME, claimed_at, (effect)->state.claimed_at)           \
    X(TIME, budget_at, (effect)->state.budget_at)             \
    X(TIME, key_valid_until, (effect)->state.key_valid_until) \
    X(TIME, next_at, (effect)->state.next_at)                 \
    X(TIME, ended_at, (effect)->state.ended_at)               \
    X(JSON, output, (effect)->state.output)                   \
    X(JSON, error, (effect)->state.error)                     \
    X(JSON, items, (effect)->state.items)                     \
    X(TIME, unknown_at, (effect)->state.unknown_at)           \
    X(TIME, ask_until, (effect)->state.ask_until)             \
    X(INT4, findings, (effect)->state.findings)               \
    X(OUTCOME, found, (effect)->state.found)                  \
    X(JSON, answer, (effect)->state.answer)                   \
    X(JSON, step_input, (effect)->state.step_input)           \
    X(TEXT_OR_NULL, renewed, (effect)->state.renewed)         \
    X(WAITS_FOR, waits_for, (effect)->state.waits_for)        \
    X(APPROVAL, approval, (effect)->state.approval)

#define ATTEMPT_COLUMNS(X, attempt)         \
    X(INT4, number, (attempt)->number)      \
    X(TIME, sent_at, (attempt)->sent_at)    \
    X(TIME, ended_at, (attempt)->ended_at)  \
    X(OUTCOME, outcome, (attempt)->outcome) \
    X(STATUS, status, (attempt)->status)    \
    X(JSON, error, (attempt)->error)

#define FINDING_COLUMNS(X, finding)      \
    X(INT4, number, (finding)->number)   \
    X(TIME, at, (finding)->at)           \
    X(SOURCE, source, (finding)->source) \
    X(OUTCOME, says, (finding)->says)    \
    X(STATUS, status, (finding)->status) \
    X(TEXT, detail, (finding)->detail)   \
    X(JSON, body, (finding)->body)       \
    X(TEXT, actor, (finding)->actor)

#define EVENT_COLUMNS(X, event)      \
    X(INT4, seq, (event)->seq)       \
    X(TIME, at, (event)->at)         \
    X(TEXT, what, (event)->what)     \
    X(TEXT, step, (event)->step)     \
    X(TEXT, detail, (event)->detail) \
    X(TEXT, actor, (event)->actor)

#define INBOX_COLUMNS(X, inbox)                   \
    X(TEXT, id, (inbox)->id)                      \
    X(TEXT, outcome, record_inbox_outcome(inbox)) \
    X(TEXT, answer, (inbox)->answer)

#define SIGNAL_COLUMNS(X, signal) \
    X(TEXT, name, (signal)->name) \
    X(JSON, data, (signal)->data) \
    X(TIME, at, (signal)->at)     \
    X(TEXT, actor, (signal)->actor)

#define INPUT_COLUMNS(X, correction)                 \
    X(INT4, number, (correction)->number)            \
    X(INT4, from_claim, (correction)->from_claim)    \
    X(DIRECTION, direction, (correction)->direction) \
    X(JSON, input, (correction)->input)              \
    X(TIME, at, (correction)->at)                    \
    X(TEXT, actor, (correction)->actor)

#define APPROVAL_COLUMNS(X, word)               \
    X(APPROVAL, state, (word)->state)           \
    X(HASH, request_hash, (word)->request_hash) \
    X(JSON, request, (word)->request)           \
    X(TEXT_OR_NULL, message, (word)->message)   \
    X(TEXT_OR_NULL, by, (word)->by)             \
    X(TIME, asked_at, (word)->asked_at)         \
    X(TIME, expires_at, (word)->expires_at)     \
    X(TIME, decided_at, (word)->decided_at)     \
    X(TEXT_OR_NULL, actor, (word)->actor)       \
    X(TEXT_OR_NULL, reason, (word)->reason)

#define PIN_COLUMNS(X, pin) X(HASH, workflow_hash, (pin)->plan->hash)

#define NAME_OF(kind, column, place) #column,
#define ONE(kind, column, place) +1
#define PUT(kind, column, place) put_##kind(out, place);

const char *const pgunit_types[LIST_COUNT] = {
#define X(id, type) type,
    PGUNIT_LISTS(X)
#undef X
};

static const char *const start_names[] = {START_COLUMNS(NAME_OF, , ) RUN_COLUMNS(NAME_OF, )
                                              START_MORE_COLUMNS(NAME_OF, ) NULL};
static const char *const run_names[] = {RUN_KEY_COLUMNS(NAME_OF, ) RUN_COLUMNS(NAME_OF, )
                                            RUN_MORE_COLUMNS(NAME_OF, ) NULL};
static const char *const effect_names[] = {
    RUN_KEY_COLUMNS(NAME_OF, ) EFFECT_KEY_COLUMNS(NAME_OF, , ) EFFECT_COLUMNS(NAME_OF, ) NULL};
static const char *const attempt_names[] = {
    RUN_KEY_COLUMNS(NAME_OF, ) EFFECT_KEY_COLUMNS(NAME_OF, , ) ATTEMPT_COLUMNS(NAME_OF, ) NULL};
static const char *const finding_names[] = {
    RUN_KEY_COLUMNS(NAME_OF, ) EFFECT_KEY_COLUMNS(NAME_OF, , ) FINDING_COLUMNS(NAME_OF, ) NULL};
static const char *const event_names[] = {RUN_KEY_COLUMNS(NAME_OF, ) EVENT_COLUMNS(NAME_OF, ) NULL};
static const char *const inbox_names[] = {RUN_KEY_COLUMNS(NAME_OF, ) INBOX_COLUMNS(NAME_OF, ) NULL};
static const char *const signal_names[] = {RUN_KEY_COLUMNS(NAME_OF, ) SIGNAL_COLUMNS(NAME_OF, )
                                               NULL};

static const char *const approval_names[] = {
    RUN_KEY_COLUMNS(NAME_OF, ) EFFECT_KEY_COLUMNS(NAME_OF, , ) APPROVAL_COLUMNS(NAME_OF, ) NULL};
static const char *const input_names[] = {RUN_KEY_COLUMNS(NAME_OF, ) INPUT_COLUMNS(NAME_OF, ) NULL};
static const char *const pin_names[] = {RUN_KEY_COLUMNS(NAME_OF, ) PIN_COLUMNS(NAME_OF, ) NULL};

const char *const *pgunit_columns(enum pgunit_list list)
{
    switch (list) {
    case LIST_START: return start_names;
    case LIST_RUN: return run_names;
    case LIST_CLAIM:
    case LIST_EFFECT: return effect_names;
    case LIST_ATTEMPT: return attempt_names;
    case LIST_FINDING: return finding_names;
    case LIST_EVENT: return event_names;
    case LIST_INBOX: return inbox_names;
    case LIST_SIGNAL: return signal_names;
    case LIST_PIN: return pin_names;
    case LIST_INPUT: return input_names;
    case LIST_APPROVAL: return approval_names;
    case LIST_COUNT: break;
    }
    ASSERT(!"a list");
    return NULL;
}

/* --- one column --- */

static void put_null(struct buf *out, uint32_t oid)
{
    buf_add_be32(out, oid);
    buf_add_be32(out, UINT32_MAX);
}

static void put_INT2(struct buf *out, uint16_t value)
{
    buf_add_be32(out, OID_INT2);
    buf_add_be32(out, 2);
    buf_add_be16(out, value);
}

static void put_INT4(struct buf *out, uint32_t value)
{
    ASSERT(value <= INT32_MAX);
    buf_add_be32(out, OID_INT4);
    buf_add_be32(out, 4);
    buf_add_be32(out, value);
}

/* 0 means that there was no status; signals are negative. */
static void put_STATUS(struct buf *out, int value)
{
    buf_add_be32(out, OID_INT4);
    buf_add_be32(out, value ? 4 : UINT32_MAX);
    if (value)
        buf_add_be32(out, (uint32_t)value);
}

static void put_BOOL(struct buf *out, bool value)
{
    buf_add_be32(out, OID_BOOL);
    buf_add_be32(out, 1);
    buf_add_char(out, value);
}

static void put_bytes(struct buf *out, uint32_t oid, struct str bytes)
{
    ASSERT(bytes.len <= INT32_MAX);
    if (!bytes.ptr) {
        put_null(out, oid);
        return;
    }
    buf_add_be32(out, oid);
    buf_add_be32(out, (uint32_t)bytes.len);
    buf_add_str(out, bytes);
}

/* Texts of keys and events are never null: absent is empty. */
static void put_TEXT(struct buf *out, struct str text)
{
    put_bytes(out, OID_TEXT, text.ptr ? text : STR(""));
}

static void put_JSON(struct buf *out, struct str text)
{
    put_bytes(out, OID_JSON, text);
}

static void put_TEXT_OR_NULL(struct buf *out, struct str text)
{
    put_bytes(out, OID_TEXT, text);
}

/* All zeros: there is none. */
static void put_HASH(struct buf *out, struct sha256 hash)
{
    static const struct sha256 none;
    if (sha256_eq(&hash, &none))
        put_null(out, OID_BYTEA);
    else
        put_bytes(out, OID_BYTEA, (struct str){(const char *)hash.bytes, sizeof(hash.bytes)});
}

static void put_TIME(struct buf *out, struct wall at)
{
    buf_add_be32(out, OID_TIMESTAMPTZ);
    buf_add_be32(out, wall_is_set(at) ? 8 : UINT32_MAX);
    if (wall_is_set(at))
        buf_add_be64(out, (uint64_t)(at.us - PG_EPOCH_US));
}

/* The zero of an enum is null. */
static void put_name(struct buf *out, unsigned value, const char *name)
{
    if (value)
        put_bytes(out, OID_TEXT, str_z(name));
    else
        put_null(out, OID_TEXT);
}

static void put_RUN_STATE(struct buf *out, enum run_state value)
{
    put_name(out, value, run_state_name(value));
}

static void put_STEP_STATE(struct buf *out, enum step_state value)
{
    put_name(out, value, step_state_name(value));
}

static void put_DIRECTION(struct buf *out, enum direction value)
{
    put_name(out, value, direction_name(value));
}

static void put_CAUSE(struct buf *out, enum run_cause value)
{
    put_name(out, value, run_cause_name(value));
}

static void put_PARK(struct buf *out, enum park_reason value)
{
    put_name(out, value, park_reason_name(value));
}

static void put_WAITS_FOR(struct buf *out, enum waits_for value)
{
    put_name(out, value, waits_for_name(value));
}

static void put_OUTCOME(struct buf *out, enum outcome value)
{
    put_name(out, value, outcome_name(value));
}

static void put_SOURCE(struct buf *out, enum finding_source value)
{
    put_name(out, value, finding_source_name(value));
}

static void put_APPROVAL(struct buf *out, enum approval value)
{
    put_name(out, value, approval_name(value));
}

/* --- one row --- */

static void set_be32(struct buf *buf, size_t at, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        buf->data[at + (size_t)i] = (char)(value >> (24 - 8 * i));
}

/* Opens a row of `columns` columns; returns where its length is to be set. */
static size_t row_open(struct pgunit *unit, enum pgunit_list list, uint32_t columns)
{
    struct buf *out = &unit->lists[list];
    if (!unit->counts[list]++) {
        buf_add_be32(out, 1); /* dimensions */
        buf_add_be32(out, 0); /* no null elements */
        buf_add_be32(out, 0); /* type: pgunit_list */
        buf_add_be32(out, 0); /* count: pgunit_encode */
        buf_add_be32(out, 1); /* lower bound */
        ASSERT(out->len == LIST_HEAD_BYTES);
    }
    buf_add_be32(out, 0);
    size_t mark = out->len;
    buf_add_be32(out, columns);
    return mark;
}

static void row_close(struct buf *out, size_t mark)
{
    ASSERT(out->len - mark <= INT32_MAX);
    set_be32(out, mark - 4, (uint32_t)(out->len - mark));
}

#define ROW_BEGIN(list, columns)          \
    struct buf *out = &unit->lists[list]; \
    size_t mark = row_open(unit, list, 0 columns)
#define ROW_END() row_close(out, mark)

static void put_start(struct pgunit *unit, const struct unit_run *run,
                      const struct record_start *start, const struct record_run *now)
{
    ROW_BEGIN(LIST_START, START_COLUMNS(ONE, , ) RUN_COLUMNS(ONE, ) START_MORE_COLUMNS(ONE, ));
    START_COLUMNS(PUT, run, start)
    RUN_COLUMNS(PUT, now)
    START_MORE_COLUMNS(PUT, start)
    ROW_END();
}

static void put_run(struct pgunit *unit, const struct unit_run *run, const struct record_run *now)
{
    ROW_BEGIN(LIST_RUN, RUN_KEY_COLUMNS(ONE, ) RUN_COLUMNS(ONE, ) RUN_MORE_COLUMNS(ONE, ));
    RUN_KEY_COLUMNS(PUT, run)
    RUN_COLUMNS(PUT, now)
    RUN_MORE_COLUMNS(PUT, now)
    ROW_END();
}

static struct str step_id(const struct unit_run *run, const struct effect_ref *ref)
{
    ASSERT(ref->step < run->plan->steps_count);
    return str_z(run->plan->steps[ref->step].id);
}

static void put_effect(struct pgunit *unit, const struct unit_run *run, enum pgunit_list list,
                       const struct record_effect *effect)
{
    ROW_BEGIN(list, RUN_KEY_COLUMNS(ONE, ) EFFECT_KEY_COLUMNS(ONE, , ) EFFECT_COLUMNS(ONE, ));
    RUN_KEY_COLUMNS(PUT, run)
    EFFECT_KEY_COLUMNS(PUT, step_id(run, &effect->ref), &effect->ref)
    EFFECT_COLUMNS(PUT, effect)
    ROW_END();
}

static void put_attempt(struct pgunit *unit, const struct unit_run *run,
                        const struct record_attempt *attempt)
{
    ROW_BEGIN(LIST_ATTEMPT,
              RUN_KEY_COLUMNS(ONE, ) EFFECT_KEY_COLUMNS(ONE, , ) ATTEMPT_COLUMNS(ONE, ));
    RUN_KEY_COLUMNS(PUT, run)
    EFFECT_KEY_COLUMNS(PUT, step_id(run, &attempt->ref), &attempt->ref)
    ATTEMPT_COLUMNS(PUT, attempt)
    ROW_END();
}

static void put_finding(struct pgunit *unit, const struct unit_run *run,
                        const struct record_finding *finding)
{
    ROW_BEGIN(LIST_FINDING,
              RUN_KEY_COLUMNS(ONE, ) EFFECT_KEY_COLUMNS(ONE, , ) FINDING_COLUMNS(ONE, ));
    RUN_KEY_COLUMNS(PUT, run)
    EFFECT_KEY_COLUMNS(PUT, step_id(run, &finding->ref), &finding->ref)
    FINDING_COLUMNS(PUT, finding)
    ROW_END();
}

static void put_event(struct pgunit *unit, const struct unit_run *run,
                      const struct record_event *event)
{
    ROW_BEGIN(LIST_EVENT, RUN_KEY_COLUMNS(ONE, ) EVENT_COLUMNS(ONE, ));
    RUN_KEY_COLUMNS(PUT, run)
    EVENT_COLUMNS(PUT, event)
    ROW_END();
}

static void put_inbox(struct pgunit *unit, const struct unit_run *run,
                      const struct record_inbox *inbox)
{
    ROW_BEGIN(LIST_INBOX, RUN_KEY_COLUMNS(ONE, ) INBOX_COLUMNS(ONE, ));
    RUN_KEY_COLUMNS(PUT, run)
    INBOX_COLUMNS(PUT, inbox)
    ROW_END();
    unit->inbox_ids = xrealloc(unit->inbox_ids, (unit->inbox_count + 1) * sizeof(*unit->inbox_ids));
    char *id = xmalloc(inbox->id.len + 1);
    memcpy(id, inbox->id.ptr, inbox->id.len);
    id[inbox->id.len] = '\0';
    unit->inbox_ids[unit->inbox_count++] = id;
}

static void put_signal(struct pgunit *unit, const struct unit_run *run,
                       const struct record_signal *signal)
{
    ROW_BEGIN(LIST_SIGNAL, RUN_KEY_COLUMNS(ONE, ) SIGNAL_COLUMNS(ONE, ));
    RUN_KEY_COLUMNS(PUT, run)
    SIGNAL_COLUMNS(PUT, signal)
    ROW_END();
}

static void put_input(struct pgunit *unit, const struct unit_run *run,
                      const struct record_input *input)
{
    ROW_BEGIN(LIST_INPUT, RUN_KEY_COLUMNS(ONE, ) INPUT_COLUMNS(ONE, ));
    RUN_KEY_COLUMNS(PUT, run)
    INPUT_COLUMNS(PUT, input)
    ROW_END();
}

static void put_approval(struct pgunit *unit, const struct unit_run *run,
                         const struct record_approval *word)
{
    ROW_BEGIN(LIST_APPROVAL,
              RUN_KEY_COLUMNS(ONE, ) EFFECT_KEY_COLUMNS(ONE, , ) APPROVAL_COLUMNS(ONE, ));
    RUN_KEY_COLUMNS(PUT, run)
    EFFECT_KEY_COLUMNS(PUT, step_id(run, &word->ref), &word->ref)
    APPROVAL_COLUMNS(PUT, word)
    ROW_END();
}

static void put_pin(struct pgunit *unit, const struct unit_run *run, const struct record_pin *pin)
{
    ROW_BEGIN(LIST_PIN, RUN_KEY_COLUMNS(ONE, ) PIN_COLUMNS(ONE, ));
    RUN_KEY_COLUMNS(PUT, run)
    PIN_COLUMNS(PUT, pin)
    ROW_END();
}

/* --- one run, one unit --- */

/* A row may be written once a unit: of several records the last one counts, and it inserts if any
 * of them does. */
static void put_effects(struct pgunit *unit, const struct unit_run *run)
{
    struct arena scratch = {0};
    uint32_t count = run->records_count;
    uint32_t *first = run_records_rows(run->records, count, &scratch);
    uint32_t *last = arena_array(&scratch, uint32_t, count);
    bool *inserts = arena_array(&scratch, bool, count);
    for (uint32_t i = 0; i < count; i++) {
        last[first[i]] = i;
        inserts[first[i]] |= run->records[i].kind == RECORD_CLAIM;
    }
    for (uint32_t i = 0; i < count; i++) {
        const struct run_record *record = &run->records[i];
        bool is_effect = record->kind == RECORD_CLAIM || record->kind == RECORD_EFFECT;
        if (!is_effect || last[first[i]] != i)
            continue;
        struct record_effect effect = record->effect;
        if (!inserts[first[i]])
            effect.state.items = STR_NONE; /* fixed by the claim */
        put_effect(unit, run, inserts[first[i]] ? LIST_CLAIM : LIST_EFFECT, &effect);
    }
    arena_free(&scratch);
}

static void put_unit_run(struct pgunit *unit, const struct unit_run *run)
{
    /* What RECORD_START implies, see run_apply. */
    struct record_run fresh = {.direction = DIRECTION_EXECUTE};
    const struct record_start *start = NULL;
    const struct record_run *now = NULL;
    for (uint32_t i = 0; i < run->records_count; i++) {
        const struct run_record *record = &run->records[i];
        switch (record->kind) {
        case RECORD_START:
            start = &record->start;
            fresh.state = record_start_state(start);
            break;
        case RECORD_RUN: now = &record->run; break;
        case RECORD_CLAIM:
        case RECORD_EFFECT: break; /* put_effects */
        case RECORD_ATTEMPT: put_attempt(unit, run, &record->attempt); break;
        case RECORD_FINDING: put_finding(unit, run, &record->finding); break;
        case RECORD_EVENT: put_event(unit, run, &record->event); break;
        case RECORD_INBOX: put_inbox(unit, run, &record->inbox); break;
        case RECORD_SIGNAL: put_signal(unit, run, &record->signal); break;
        case RECORD_APPROVAL: put_approval(unit, run, &record->approval); break;
        case RECORD_INPUT: put_input(unit, run, &record->input); break;
        case RECORD_PIN: put_pin(unit, run, &record->pin); break;
        case RECORD_BEGUN: break;
        case RECORD_NONE:
        case RECORD_KIND_COUNT: ASSERT(!"a record");
        }
    }
    put_effects(unit, run);
    if (start)
        put_start(unit, run, start, now ? now : &fresh);
    else if (now)
        put_run(unit, run, now);
    unit->shards |= UINT64_C(1) << run->shard;
}

/* A child is its root's. */
static void start_name(struct pgunit *unit, const struct unit_run *run)
{
    if (memchr(run->run_id.ptr, '~', run->run_id.len))
        return;
    buf_add(&unit->starts, run->run_id.ptr, run->run_id.len);
    buf_add_char(&unit->starts, '\0');
    buf_add(&unit->starts, run->plan->workflow, strlen(run->plan->workflow) + 1);
}

struct pgunit *pgunit_encode(const struct unit *from)
{
    struct pgunit *unit = xcalloc(1, sizeof(*unit));
    for (uint32_t i = 0; i < from->runs_count; i++) {
        put_unit_run(unit, &from->runs[i]);
        if (from->runs[i].is_start)
            start_name(unit, &from->runs[i]);
    }
    unit->release_shards = from->release_shards;
    unit->release_to = xmalloc(from->release_to.len + 1);
    memcpy(unit->release_to, from->release_to.ptr ? from->release_to.ptr : "",
           from->release_to.len);
    unit->release_to[from->release_to.len] = '\0';
    for (int i = 0; i < LIST_COUNT; i++) {
        if (unit->counts[i])
            set_be32(&unit->lists[i], LIST_COUNT_AT, unit->counts[i]);
        /* The count in front keeps a row from standing in for one of another kind. */
        unit->crc = crc32c(unit->crc, &unit->counts[i], sizeof(unit->counts[i]));
        unit->crc = crc32c(unit->crc, unit->lists[i].data, unit->lists[i].len);
    }
    unit->crc = crc32c(unit->crc, &unit->release_shards, sizeof(unit->release_shards));
    unit->crc = crc32c(unit->crc, unit->release_to, from->release_to.len);
    return unit;
}

void pgunit_free(struct pgunit *unit)
{
    if (!unit)
        return;
    for (int i = 0; i < LIST_COUNT; i++)
        buf_free(&unit->lists[i]);
    for (uint32_t i = 0; i < unit->inbox_count; i++)
        free(unit->inbox_ids[i]);
    free(unit->inbox_ids);
    buf_free(&unit->starts);
    free(unit->release_to);
    free(unit);
}

struct str pgunit_list(struct pgunit *unit, enum pgunit_list list, const uint32_t types[LIST_COUNT])
{
    if (!unit->counts[list])
        return STR_NONE;
    set_be32(&unit->lists[list], LIST_TYPE_AT, types[list]);
    return buf_str(&unit->lists[list]);
}

/* --- reading --- */

static uint64_t read_be(struct pgreader *reader, size_t bytes)
{
    uint64_t value = 0;
    if ((size_t)(reader->end - reader->at) < bytes) {
        reader->bad = true;
        return 0;
    }
    for (size_t i = 0; i < bytes; i++)
        value = value << 8 | (uint8_t)*reader->at++;
    return value;
}

/* `len` bytes, -1: null. */
static struct str read_bytes(struct pgreader *reader, int32_t len)
{
    if (len == -1)
        return STR_NONE;
    if (len < 0 || reader->end - reader->at < len) {
        reader->bad = true;
        return STR_NONE;
    }
    struct str out = {reader->at, (size_t)len};
    reader->at += len;
    return out;
}

static struct str read_column(struct pgreader *reader)
{
    read_be(reader, 4); /* the type; the function's signature fixes it */
    return read_bytes(reader, (int32_t)read_be(reader, 4));
}

int64_t pg_int(struct str binary)
{
    struct pgreader reader = {binary.ptr, binary.ptr + binary.len, false};
    switch (binary.len) {
    case 2: return (int16_t)read_be(&reader, 2);
    case 4: return (int32_t)read_be(&reader, 4);
    case 8: return (int64_t)read_be(&reader, 8);
    default: return 0;
    }
}

bool pg_bool(struct str binary)
{
    return binary.len == 1 && *binary.ptr;
}

struct wall pg_timestamp(struct str binary)
{
    return binary.len == 8 ? (struct wall){pg_int(binary) + PG_EPOCH_US} : WALL_NONE;
}

static struct sha256 hash_of(struct str binary)
{
    struct sha256 hash = {0};
    if (binary.len == sizeof(hash.bytes))
        memcpy(hash.bytes, binary.ptr, sizeof(hash.bytes));
    return hash;
}

#define get_INT2(text) ((uint16_t)pg_int(text))
#define get_INT4(text) ((uint32_t)pg_int(text))
#define get_BOOL(text) pg_bool(text)
#define get_TEXT(text) (text)
#define get_TEXT_OR_NULL(text) (text)
#define get_JSON(text) (text)
#define get_HASH(text) hash_of(text)
#define get_TIME(text) pg_timestamp(text)
#define get_RUN_STATE(text) run_state_of(text)
#define get_STEP_STATE(text) step_state_of(text)
#define get_DIRECTION(text) direction_of(text)
#define get_CAUSE(text) run_cause_of(text)
#define get_WAITS_FOR(text) waits_for_of(text)
#define get_PARK(text) park_reason_of(text)
#define get_OUTCOME(text) outcome_of(text)
#define get_APPROVAL(text) approval_of(text)
#define GET_COLUMN(kind, column, place) (place) = get_##kind(read_column(reader));
#define GET_FIELD(kind, column, place) (place) = get_##kind(fields[IMAGE_##column]);

/* Opens an array of composites; returns the number of its elements. */
static uint32_t list_open(struct pgreader *reader, uint32_t limit)
{
    uint64_t dimensions = read_be(reader, 4);
    read_be(reader, 8);
    if (!dimensions)
        return 0;
    uint64_t count = read_be(reader, 4);
    read_be(reader, 4);
    if (dimensions != 1 || count > limit)
        reader->bad = true;
    return reader->bad ? 0 : (uint32_t)count;
}

static bool row_read_open(struct pgreader *reader, uint32_t columns)
{
    read_be(reader, 4);
    if (read_be(reader, 4) != columns)
        reader->bad = true;
    return !reader->bad;
}

static bool effect_read(struct pgreader *reader, const struct plan *plan, struct arena *arena,
                        struct record_effect *effect)
{
    struct {
        uint16_t shard;
        struct str run_id;
    } run;
    struct str id;
    if (!row_read_open(reader,
                       0 RUN_KEY_COLUMNS(ONE, ) EFFECT_KEY_COLUMNS(ONE, , ) EFFECT_COLUMNS(ONE, )))
        return false;
    RUN_KEY_COLUMNS(GET_COLUMN, &run)
    EFFECT_KEY_COLUMNS(GET_COLUMN, id, &effect->ref)
    EFFECT_COLUMNS(GET_COLUMN, effect)
    effect->state.generation = effect->ref.generation;
    effect->state.stored = true;
    effect->ref.item = arena_str(arena, effect->ref.item);
    effect->ref.step = id.ptr ? plan_step_find(plan, id) : PLAN_STEP_NONE;
    if (effect->ref.step == PLAN_STEP_NONE || effect->state.state == STEP_NONE ||
        effect->ref.direction == DIRECTION_NONE)
        reader->bad = true;
    return !reader->bad;
}

static void signal_read(struct pgreader *reader, struct record_signal *signal)
{
    struct {
        uint16_t shard;
        struct str run_id;
    } run;
    if (!row_read_open(reader, 0 RUN_KEY_COLUMNS(ONE, ) SIGNAL_COLUMNS(ONE, )))
        return;
    RUN_KEY_COLUMNS(GET_COLUMN, &run)
    SIGNAL_COLUMNS(GET_COLUMN, signal)
}

static void input_read(struct pgreader *reader, struct record_input *input)
{
    struct {
        uint16_t shard;
        struct str run_id;
    } run;
    if (!row_read_open(reader, 0 RUN_KEY_COLUMNS(ONE, ) INPUT_COLUMNS(ONE, )))
        return;
    RUN_KEY_COLUMNS(GET_COLUMN, &run)
    INPUT_COLUMNS(GET_COLUMN, input)
}

bool image_hash(const struct str fields[IMAGE_COUNT], struct sha256 *out)
{
    *out = hash_of(fields[IMAGE_workflow_hash]);
    return fields[IMAGE_workflow_hash].len == sizeof(out->bytes);
}

int image_decode(const struct str fields[IMAGE_COUNT], const struct plan *plan, struct arena *arena,
                 struct image *out, struct err *err)
{
    struct str list = fields[IMAGE_effects];
    struct pgreader reader = {list.ptr, list.ptr + list.len, false};
    uint32_t effects = list.ptr ? list_open(&reader, 1000000) : 0;
    struct str signal_list = fields[IMAGE_signals];
    struct pgreader signal_reader = {signal_list.ptr, signal_list.ptr + signal_list.len, false};
    uint32_t signals = signal_list.ptr ? list_open(&signal_reader, 1000) : 0;
    struct str input_list = fields[IMAGE_inputs];
    struct pgreader input_reader = {input_list.ptr, input_list.ptr + input_list.len, false};
    uint32_t inputs = input_list.ptr ? list_open(&input_reader, 100000) : 0;
    *out = (struct image){.shard = (uint16_t)pg_int(fields[IMAGE_shard]),
                          .run_id = fields[IMAGE_run_id],
                          .workflow = fields[IMAGE_workflow]};
    image_hash(fields, &out->workflow_hash);
    out->records = arena_array(arena, struct run_record, effects + signals + inputs + 3);

    struct record_start *start = &out->records[out->count].start;
    out->records[out->count++].kind = RECORD_START;
    start->tenant = fields[IMAGE_tenant];
    start->actor = fields[IMAGE_actor];
    start->input = fields[IMAGE_input];
    start->input_hash = hash_of(fields[IMAGE_input_hash]);
    start->created_at = pg_timestamp(fields[IMAGE_created_at]);
    start->deadline_at = pg_timestamp(fields[IMAGE_deadline_at]);
    start->suspect_from = pg_timestamp(fields[IMAGE_suspect_from]);
    START_MORE_COLUMNS(GET_FIELD, start)

    for (uint32_t i = 0; i < effects && !reader.bad; i++) {
        struct run_record *record = &out->records[out->count++];
        record->kind = RECORD_CLAIM;
        effect_read(&reader, plan, arena, &record->effect);
    }
    for (uint32_t i = 0; i < inputs && !input_reader.bad; i++) {
        struct run_record *record = &out->records[out->count++];
        record->kind = RECORD_INPUT;
        input_read(&input_reader, &record->input);
    }
    for (uint32_t i = 0; i < signals && !signal_reader.bad; i++) {
        struct run_record *record = &out->records[out->count++];
        record->kind = RECORD_SIGNAL;
        signal_read(&signal_reader, &record->signal);
    }
    if (pg_int(fields[IMAGE_events])) {
        struct run_record *record = &out->records[out->count++];
        record->kind = RECORD_EVENT;
        record->event = (struct record_event){.seq = (uint32_t)pg_int(fields[IMAGE_events]),
                                              .at = start->created_at,
                                              .what = STR("loaded"),
                                              .step = STR(""),
                                              .detail = STR(""),
                                              .actor = STR("")};
    }
    struct record_run *now = &out->records[out->count].run;
    out->records[out->count++].kind = RECORD_RUN;
    RUN_COLUMNS(GET_FIELD, now)
    RUN_MORE_COLUMNS(GET_FIELD, now)
    start->waits = now->state == RUN_QUEUED;
    if (reader.bad || signal_reader.bad || input_reader.bad || now->state == RUN_NONE ||
        now->direction == DIRECTION_NONE)
        return err_set(err, ERR_INTERNAL, "the rows of run \"" STR_FMT "\" do not fit its workflow",
                       STR_ARG(out->run_id));
    return 0;
}

int taken_decode(struct str list, struct arena *arena, const struct unit_taken **out,
                 uint32_t *count, struct err *err)
{
    struct pgreader reader = {list.ptr, list.ptr + list.len, false};
    *count = list.ptr ? list_open(&reader, 1000000) : 0;
    struct unit_taken *taken = arena_array(arena, struct unit_taken, *count);
    *out = taken;
    for (uint32_t i = 0; i < *count && row_read_open(&reader, 4); i++) {
        taken[i].run_id = read_column(&reader);
        taken[i].input_hash = hash_of(read_column(&reader));
        taken[i].workflow = read_column(&reader);
        taken[i].tenant = read_column(&reader);
    }
    if (reader.bad)
        return err_set(err, ERR_INTERNAL, "cannot read the list of taken runs");
    return 0;
}
