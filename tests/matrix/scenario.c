/*
 * scenario.c: see the header.
 *
 * The step under test talks to a service of its own; the others honour keys and work. Lifetimes
 * are chosen so that a key of 1 s is over before anything is sent again, and a read that lags 4 s
 * is still within the attempt's timeout and the `settle_after` that the workflow declares.
 */
#include "tests/matrix/scenario.h"

#define LAG_US (4 * SECOND_US)
#define CALLBACK_SOON_US (1500 * MS_US)
#define CALLBACK_LATE_US (2 * HOUR_US)

static const char *const key_texts[] = {"key honoured", "key past its lifetime", "no key"};
static const char *const asking_texts[] = {"no reconcile", "reconcile", "reconcile lagging",
                                           "reconcile down"};
static const char *const course_texts[] = {"forward", "forward, then turned back", "backward"};

const char *extra_text(enum extra extra)
{
    static const char *const texts[] = {
#define X(id, text) [id] = text,
        EXTRAS(X)
#undef X
    };
    return texts[extra];
}

const char *happening_text(enum happening happening)
{
    static const char *const texts[] = {
#define X(id, text) [id] = text,
        HAPPENINGS(X)
#undef X
    };
    return texts[happening];
}

struct str cell_text(const struct cell *cell, struct arena *arena)
{
    return arena_printf(arena, "%s, %s, %s, step %u, %s%s%s", effect_tier_name(cell->tier),
                        key_texts[cell->key], asking_texts[cell->asking], cell->point + 1u,
                        course_texts[cell->course], cell->extra ? ", " : "",
                        extra_text(cell->extra));
}

/* --- the workflow ------------------------------------------------------------------------ */

bool cell_is_meant(const struct cell *cell)
{
    bool back = cell->course == COURSE_BACK;
    switch (cell->extra) {
    case EXTRA_NONE: return true;
    case EXTRA_HOLD: return cell->tier == EFFECT_IRREVERSIBLE && !back;
    case EXTRA_TOLERANT: return back || cell->tier == EFFECT_COMPENSABLE;
    case EXTRA_UNKNOWN_RETRY:
    case EXTRA_UNKNOWN_COMPENSATE:
    case EXTRA_UNKNOWN_CONTINUE:
    case EXTRA_UNKNOWN_PARK:
    case EXTRA_CONTINUE:
    case EXTRA_PARK:
    case EXTRA_APPROVE: return !back;
    case EXTRA_COUNT: break;
    }
    return false;
}

static void reconcile_write(const struct cell *cell, const char *indent, struct buf *out)
{
    if (cell->asking == ASK_NEVER)
        return;
    buf_printf(out,
               "%sreconcile: {get: tested/things, query: {key: \"${{ key }}\"}, "
               "applied: response.status == 200, refused: response.status == 410, "
               "not_applied: response.status == 404, "
               "settle_after: 5s, every: 2s, for: 1m}\n",
               indent);
}

static void tested_step_write(const struct cell *cell, struct buf *out)
{
    bool back = cell->course == COURSE_BACK;
    enum effect_tier tier = back ? EFFECT_COMPENSABLE : cell->tier;
    bool undone = tier == EFFECT_IDEMPOTENT || tier == EFFECT_COMPENSABLE;
    buf_printf(out, "    effect: %s\n    action: {post: %s/things}\n", effect_tier_name(tier),
               back ? "sound" : "tested");
    if (!back)
        reconcile_write(cell, "    ", out);
    if (cell->extra != EXTRA_NONE && cell->extra != EXTRA_TOLERANT)
        buf_printf(out, "    %s\n", extra_text(cell->extra));
    if (cell->extra == EXTRA_UNKNOWN_CONTINUE && tier == EFFECT_IRREVERSIBLE)
        buf_add_z(out, "    pivot: false\n"); /* nobody would know whether there is a way back */
    if (!undone)
        return;
    buf_printf(out, "    compensate:\n      post: %s/undo\n", back ? "tested" : "sound");
    if (back) {
        buf_printf(out, "      effect: %s\n", effect_tier_name(cell->tier));
        reconcile_write(cell, "      ", out);
    }
    if (cell->extra == EXTRA_TOLERANT)
        buf_add_z(out, "      tolerant: true\n");
}

/* What is held back waits for steps that do not need it. */
static void needs_write(const struct cell *cell, uint16_t step, struct buf *out)
{
    if (cell->extra != EXTRA_HOLD || step != cell->point + 1)
        return;
    if (cell->point)
        buf_printf(out, "    needs: [s%u]\n", cell->point);
    else
        buf_add_z(out, "    needs: []\n");
}

static struct str source_make(const struct cell *cell, struct arena *arena)
{
    static const char *const keys[] = {"{header: Idempotency-Key, ttl: 7d}",
                                       "{header: Idempotency-Key, ttl: 1s}", "none"};
    struct buf out = {0};
    buf_printf(&out,
               "workflow: cell\nrun_id: x\n"
               "services:\n"
               "  sound: {url: \"http://127.0.0.1:1\", idempotency: {header: Idempotency-Key, ttl: "
               "7d}}\n"
               "  tested: {url: \"http://127.0.0.1:2\", idempotency: %s}\n"
               "defaults:\n  timeout: 2s\n"
               "  retry: &retry {attempts: 3, delay: 3s, factor: 1, jitter: 0%%}\n"
               "  compensate_retry: *retry\n"
               "steps:\n",
               keys[cell->key]);
    for (uint16_t i = 0; i < POINTS; i++) {
        buf_printf(&out, "  - id: s%u\n", i + 1u);
        needs_write(cell, i, &out);
        if (i == cell->point)
            tested_step_write(cell, &out);
        else
            buf_add_z(&out, "    action: {post: sound/things}\n"
                            "    compensate: {delete: sound/things}\n");
    }
    buf_add_z(&out, "  - id: end\n");
    needs_write(cell, END_STEP, &out);
    buf_add_z(&out, "    action: {post: sound/ends}\n    compensate: {delete: sound/ends}\n");
    struct str source = arena_str(arena, buf_str(&out));
    buf_free(&out);
    return source;
}

struct plan *cell_compile(const struct cell *cell, struct arena *arena, struct str *why)
{
    struct str source = source_make(cell, arena);
    struct buf text = {0};
    struct diags diags;
    diags_init(&diags, "cell.yaml", source);
    struct plan *plan = dsl_compile(source, NULL, &diags);
    if (!plan)
        diags_print(&diags, false, &text);
    *why = arena_str(arena, buf_str(&text));
    buf_free(&text);
    diags_free(&diags);
    return plan;
}

/* --- the faults -------------------------------------------------------------------------- */

bool happening_is_at_records(enum happening happening)
{
    return happening >= HAPPENS_CRASH_BEFORE;
}

static struct stub_fault answer_fault(const struct cell *cell, struct test_answer answer,
                                      uint32_t last)
{
    answer.after_us = answer.after_us ? answer.after_us : -1;
    return (struct stub_fault){.kind = STUB_FAULT_ANSWER,
                               .step = cell->point,
                               .compensation = cell->course == COURSE_BACK,
                               .first = 1,
                               .last = last,
                               .answer = answer};
}

/* What the participant does about the effect; false: what it should. */
static bool answer_of(enum happening happening, struct test_answer *out, uint32_t *last)
{
    *last = UINT32_MAX;
    *out = (struct test_answer){.kind = TEST_ANSWER_REPLY};
    switch (happening) {
    case HAPPENS_REFUSED: out->status = 422; return true;
    case HAPPENS_503: *last = 1; /* fall through */
    case HAPPENS_503_EVER: out->status = 503; return true;
    case HAPPENS_UNCONNECTED: *last = 1; /* fall through */
    case HAPPENS_UNCONNECTED_EVER: out->kind = TEST_ANSWER_CONNECT; return true;
    case HAPPENS_REQUEST_LOST:
        *last = 1;
        out->kind = TEST_ANSWER_LOST_BEFORE;
        return true;
    case HAPPENS_TIMEOUT:
        *last = 1;
        out->kind = TEST_ANSWER_TIMEOUT;
        return true;
    case HAPPENS_ANSWER_LOST:
    case HAPPENS_CALLBACK:
    case HAPPENS_LOST_REFUSED:
    case HAPPENS_LOST_CRASH_BEFORE:
    case HAPPENS_LOST_CRASH_AFTER:
    case HAPPENS_LOST_CANCEL: *last = 1; /* fall through */
    case HAPPENS_ANSWER_LOST_EVER:
    case HAPPENS_CALLBACK_LATE: out->kind = TEST_ANSWER_LOST; return true;
    case HAPPENS_SLOW:
        *last = 1;
        out->after_us = 10 * SECOND_US;
        return true;
    case HAPPENS_500_DONE:
        *last = 1;
        out->status = 500;
        out->done = TEST_DONE_YES;
        return true;
    case HAPPENS_NOTHING:
    case HAPPENS_DUPLICATE:
    case HAPPENS_CRASH_BEFORE:
    case HAPPENS_CRASH_AFTER:
    case HAPPENS_CANCEL:
    case HAPPENING_COUNT: break;
    }
    return false;
}

static enum stub_fault_kind record_fault_kind(enum happening happening)
{
    if (happening == HAPPENS_CRASH_BEFORE || happening == HAPPENS_LOST_CRASH_BEFORE)
        return STUB_FAULT_CRASH_BEFORE;
    if (happening == HAPPENS_CRASH_AFTER || happening == HAPPENS_LOST_CRASH_AFTER)
        return STUB_FAULT_CRASH_AFTER;
    return STUB_FAULT_CANCEL;
}

static struct stub_fault asking_fault(const struct cell *cell)
{
    struct stub_fault fault = answer_fault(
        cell, (struct test_answer){.kind = TEST_ANSWER_REPLY, .status = 503}, UINT32_MAX);
    fault.asks = true;
    if (cell->asking == ASK_LAGGING) {
        fault.kind = STUB_FAULT_LAG;
        fault.after_us = LAG_US;
    }
    return fault;
}

uint32_t cell_faults(const struct cell *cell, enum happening happening, uint32_t unit,
                     struct stub_fault *out)
{
    struct test_answer answer;
    uint32_t count = 0, last;
    if (answer_of(happening, &answer, &last))
        out[count++] = answer_fault(cell, answer, last);
    if (happening == HAPPENS_CALLBACK || happening == HAPPENS_CALLBACK_LATE) {
        out[count] = answer_fault(cell, (struct test_answer){0}, 1);
        out[count].kind = STUB_FAULT_CALLBACK;
        out[count++].after_us = happening == HAPPENS_CALLBACK ? CALLBACK_SOON_US : CALLBACK_LATE_US;
    }
    if (happening == HAPPENS_LOST_REFUSED)
        out[count++] = answer_fault(
            cell, (struct test_answer){.kind = TEST_ANSWER_REPLY, .status = 422}, UINT32_MAX);
    if (happening == HAPPENS_DUPLICATE) {
        out[count] = answer_fault(cell, (struct test_answer){0}, UINT32_MAX);
        out[count++].kind = STUB_FAULT_DUPLICATE;
    }
    if (happening_is_at_records(happening))
        out[count++] = (struct stub_fault){.kind = record_fault_kind(happening), .unit = unit};
    if (cell->asking == ASK_LAGGING || cell->asking == ASK_DOWN)
        out[count++] = asking_fault(cell);
    if (cell->course != COURSE_FORWARD) {
        out[count] = answer_fault(
            cell, (struct test_answer){.kind = TEST_ANSWER_REPLY, .status = 422}, UINT32_MAX);
        out[count].step = END_STEP;
        out[count++].compensation = false;
    }
    ASSERT(count <= FAULTS_MAX);
    return count;
}
