/*
 * scenario.h: the cells of the matrix: one workflow of three steps each, one of which is under
 * test, and the faults that its participant is put through.
 */
#ifndef TESTS_MATRIX_SCENARIO_H
#define TESTS_MATRIX_SCENARIO_H

#include "dsl/dsl.h"
#include "engine/stub_world.h"

enum key_support { KEY_HONOURED, KEY_PAST_LIFETIME, KEY_NONE, KEY_SUPPORT_COUNT };
enum asking { ASK_NEVER, ASK_TRUTHFUL, ASK_LAGGING, ASK_DOWN, ASKING_COUNT };

/* What becomes of the run: the fault hits the action and it goes on, or `end` is refused
 * afterwards, or the fault hits the compensation that this refusal leads to. */
enum course { COURSE_FORWARD, COURSE_TURNED, COURSE_BACK, COURSE_COUNT };

/* What the workflow says beside the tier. */
#define EXTRAS(X)                                         \
    X(EXTRA_NONE, "")                                     \
    X(EXTRA_UNKNOWN_RETRY, "on_unknown: retry")           \
    X(EXTRA_UNKNOWN_COMPENSATE, "on_unknown: compensate") \
    X(EXTRA_UNKNOWN_CONTINUE, "on_unknown: continue")     \
    X(EXTRA_UNKNOWN_PARK, "on_unknown: park")             \
    X(EXTRA_CONTINUE, "on_failure: continue")             \
    X(EXTRA_PARK, "on_failure: park")                     \
    X(EXTRA_HOLD, "hold: true")                           \
    X(EXTRA_APPROVE, "approve: {}")                       \
    X(EXTRA_TOLERANT, "tolerant: true")
enum extra {
#define X(id, text) id,
    EXTRAS(X)
#undef X
        EXTRA_COUNT
};

#define HAPPENINGS(X)                                                        \
    X(HAPPENS_NOTHING, "nothing")                                            \
    X(HAPPENS_REFUSED, "refused")                                            \
    X(HAPPENS_503, "503 once")                                               \
    X(HAPPENS_503_EVER, "503 for ever")                                      \
    X(HAPPENS_UNCONNECTED, "no connection once")                             \
    X(HAPPENS_UNCONNECTED_EVER, "no connection for ever")                    \
    X(HAPPENS_REQUEST_LOST, "request lost")                                  \
    X(HAPPENS_TIMEOUT, "timed out, nothing done")                            \
    X(HAPPENS_ANSWER_LOST, "answer lost")                                    \
    X(HAPPENS_ANSWER_LOST_EVER, "answer lost for ever")                      \
    X(HAPPENS_LOST_REFUSED, "answer lost, then refused")                     \
    X(HAPPENS_SLOW, "done after the timeout")                                \
    X(HAPPENS_500_DONE, "500, yet done")                                     \
    X(HAPPENS_CALLBACK, "answer lost, said by callback soon")                \
    X(HAPPENS_CALLBACK_LATE, "answer lost for ever, said by callback late")  \
    X(HAPPENS_DUPLICATE, "arrives twice")                                    \
    X(HAPPENS_CRASH_BEFORE, "daemon dies before a record")                   \
    X(HAPPENS_CRASH_AFTER, "daemon dies after a record")                     \
    X(HAPPENS_LOST_CRASH_BEFORE, "answer lost, daemon dies before a record") \
    X(HAPPENS_LOST_CRASH_AFTER, "answer lost, daemon dies after a record")   \
    X(HAPPENS_CANCEL, "cancel at a record")                                  \
    X(HAPPENS_LOST_CANCEL, "answer lost, cancel at a record")
enum happening {
#define X(id, text) id,
    HAPPENINGS(X)
#undef X
        HAPPENING_COUNT
};

#define POINTS 3
#define END_STEP POINTS /* after those */

struct cell {
    enum effect_tier tier; /* of what is under test: the action, or the compensation */
    enum key_support key;
    enum asking asking;
    enum course course;
    enum extra extra;
    uint16_t point; /* which step */
};

const char *extra_text(enum extra extra);
const char *happening_text(enum happening happening);

/* "irreversible, key past its lifetime, reconcile down, step 2, back, hold: true" */
struct str cell_text(const struct cell *cell, struct arena *arena);

/* Whether the extra says something about such a cell. */
bool cell_is_meant(const struct cell *cell);

/* The workflow; NULL with the diagnostics in `why` where the compiler refuses it. */
struct plan *cell_compile(const struct cell *cell, struct arena *arena, struct str *why);

/* It is about a record: played once for each. */
bool happening_is_at_records(enum happening happening);

/* At most FAULTS_MAX faults; `unit`: the record, where it is about one. */
#define FAULTS_MAX 5
uint32_t cell_faults(const struct cell *cell, enum happening happening, uint32_t unit,
                     struct stub_fault *out);

#endif
