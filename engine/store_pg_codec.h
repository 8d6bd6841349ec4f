/*
 * store_pg_codec.h: records of a run to PostgreSQL's binary format and back.
 *
 * A unit becomes one array per kind of record, of the composite types of sql/migrations
 * (saga.start_v1 ...). The columns of each type stand in one table (store_pg_codec.c), from which
 * the encoder, the decoder and the list of names that a test compares with the database are made.
 * No connection is needed: only the numbers of the composite types, which differ between
 * databases, are put in by pgunit_bind when the unit is sent.
 */
#ifndef ENGINE_STORE_PG_CODEC_H
#define ENGINE_STORE_PG_CODEC_H

#include "engine/port.h"

#include "engine/base/buf.h"

/* What saga.apply_v2 takes, in the order of its parameters. */
#define PGUNIT_LISTS(X)                \
    X(LIST_START, "saga.start_v2")     \
    X(LIST_RUN, "saga.run_v2")         \
    X(LIST_CLAIM, "saga.effect_v2")    \
    X(LIST_EFFECT, "saga.effect_v2")   \
    X(LIST_ATTEMPT, "saga.attempt_v1") \
    X(LIST_FINDING, "saga.finding_v1") \
    X(LIST_EVENT, "saga.event_v1")     \
    X(LIST_INBOX, "saga.inbox_v1")     \
    X(LIST_SIGNAL, "saga.signal_v1")   \
    X(LIST_PIN, "saga.pin_v1")         \
    X(LIST_INPUT, "saga.input_v1")     \
    X(LIST_APPROVAL, "saga.approval_v1")
enum pgunit_list {
#define X(id, type) id,
    PGUNIT_LISTS(X)
#undef X
        LIST_COUNT
};
extern const char *const pgunit_types[LIST_COUNT];

struct pgunit {
    struct buf lists[LIST_COUNT]; /* empty: no record of that kind */
    uint32_t counts[LIST_COUNT];
    uint64_t shards; /* that the records touch */
    uint64_t release_shards;
    char *release_to;
    uint32_t crc;     /* over all lists and the hand-over, with type numbers zero */
    char **inbox_ids; /* rows that this unit settles */
    uint32_t inbox_count;
    struct buf starts; /* of roots: id, NUL, name of the workflow, NUL, and so on */
    void *flight;      /* the store's, while it is sent and not answered */
};

/* Copies all it needs. Records of one run that write the same row are merged into one: the newest
 * values, inserted if any of them inserts. */
struct pgunit *pgunit_encode(const struct unit *unit);
void pgunit_free(struct pgunit *unit);
/* The list as a parameter; absent if it is empty. */
struct str pgunit_list(struct pgunit *unit, enum pgunit_list list,
                       const uint32_t types[LIST_COUNT]);

/* --- rows back into records --- */

/* A cursor over binary data; once something does not fit, `bad` stays set and reads give zeros. */
struct pgreader {
    const char *at, *end;
    bool bad;
};

/* Columns of saga.run_image_v2, read by position. */
#define IMAGE_COLUMNS(X) \
    X(shard)             \
    X(run_id)            \
    X(workflow_hash)     \
    X(workflow)          \
    X(tenant)            \
    X(actor)             \
    X(created_at)        \
    X(deadline_at)       \
    X(input_hash)        \
    X(input)             \
    X(state)             \
    X(direction)         \
    X(turn)              \
    X(cause)             \
    X(park_reason)       \
    X(paused)            \
    X(ended_at)          \
    X(error)             \
    X(output)            \
    X(residue)           \
    X(effects)           \
    X(events)            \
    X(start_at)          \
    X(parent)            \
    X(depth)             \
    X(signals)           \
    X(inputs)            \
    X(compensate_until)  \
    X(suspect_from)      \
    X(lock)
enum image_column {
#define X(name) IMAGE_##name,
    IMAGE_COLUMNS(X)
#undef X
        IMAGE_COUNT
};

struct image {
    uint16_t shard;
    struct str run_id;
    struct sha256 workflow_hash;
    struct str workflow;
    struct run_record *records; /* START, effects in claim order, signals, the newest EVENT, RUN */
    uint32_t count;
};

/* `fields[i].ptr` NULL = null. The plan is asked for by hash first (see image_hash); texts borrow
 * from the fields. Errors: ERR_INTERNAL if the row does not fit the plan. */
MUST_USE int image_decode(const struct str fields[IMAGE_COUNT], const struct plan *plan,
                          struct arena *arena, struct image *out, struct err *err);
bool image_hash(const struct str fields[IMAGE_COUNT], struct sha256 *out);

/* The `taken` of an answer: saga.taken_v1[]. Borrows from `list`. */
MUST_USE int taken_decode(struct str list, struct arena *arena, const struct unit_taken **out,
                          uint32_t *count, struct err *err);

struct wall pg_timestamp(struct str binary); /* absent: none */
int64_t pg_int(struct str binary);           /* 2, 4 or 8 bytes; absent: 0 */
bool pg_bool(struct str binary);

/* For the test that compares these tables with the database: names of the columns of a list's
 * type, NULL at the end. */
const char *const *pgunit_columns(enum pgunit_list list);

#endif
