/*
 * ctl_test_faults.c: sagactl test --faults: one run, walked again and again, each time with another
 * fault, and judged by what the services know in the end.
 *
 * Which walks: the run as the test plays it; each call refused for good, not to be had, lost on the
 * way, its answer lost, arriving twice, and where it can be asked about, its answer lost and the
 * questions not answered, or the first one too early; the same for each compensation, in a walk
 * that turns back; the daemon dying at each record, before and after it is durable, also at those
 * of the questions; a cancel at each record. Whoever is asked to approve does so at once, but for
 * one walk in which it is rejected.
 */
#include <stdlib.h>

#include "dsl/jsonschema.h"
#include "engine/ctl_json.h"
#include "engine/ctl_test.h"
#include "engine/ctl_text.h"
#include "engine/key.h"

#define RECORDS_TRIED_MAX 100 /* of each kind of fault: long runs take seconds, not hours */
#define LIST_COLUMNS_MAX 60   /* of what is undone and left, in the table */

enum walk_group { WALK_PLAIN, WALK_CALL, WALK_CRASH, WALK_CANCEL };

/* What a reviewer sees of a walk. Texts lie in the report's arena. */
struct walk {
    enum walk_group group;
    struct str call, fault;
    struct str end, undone, left, doubles;
    enum run_state state;
    struct stub_broken broken;
    struct str trace; /* only where a promise is broken */
    uint32_t times;   /* walks that came to the same */
};

struct faults {
    struct ctl *ctl;
    const struct test_file *file;
    struct arena *arena; /* of the report */
    struct stub_config config;
    struct walk *walks;
    uint32_t count, capacity;
    uint32_t played, broken;
    struct ctl_test_notes notes;
    /* For each step, the step whose refusal makes the run undo it; PLAN_STEP_NONE: the test does it
     * by itself; NOT_UNDONE: nothing does. */
    uint32_t *undone_by;
    uint16_t turning; /* the step whose refusal undoes most */
    uint32_t turning_undoes, plain_units, turning_units;
    bool *reached; /* by step: in any walk */
};
#define NOT_UNDONE UINT32_MAX

/* --- summaries --------------------------------------------------------------------------- */

static void list_add(struct buf *out, const char *separator)
{
    if (out->len)
        buf_add_z(out, separator);
}

static struct str take(struct buf *text, struct arena *arena)
{
    struct str taken = arena_str(arena, buf_str(text));
    buf_free(text);
    return taken;
}

static const struct stub_effect *next_undone(const struct stub_result *result, uint64_t after)
{
    const struct stub_effect *found = NULL;
    for (const struct stub_effect *effect = result->effects; effect; effect = effect->next)
        if (effect->direction == DIRECTION_COMPENSATE && effect->order > after &&
            (!found || effect->order < found->order))
            found = effect;
    return found;
}

static struct str instance_of(const struct faults *faults, const struct stub_effect *effect)
{
    return key_instance(&faults->file->plan->steps[effect->step], effect->item, faults->arena);
}

/* In the order in which it happened. */
static struct str undone_text(const struct faults *faults, const struct stub_result *result)
{
    struct buf out = {0};
    uint64_t after = 0;
    for (const struct stub_effect *effect; (effect = next_undone(result, after));) {
        list_add(&out, " ");
        buf_add_str(&out, instance_of(faults, effect));
        after = effect->order;
    }
    return take(&out, faults->arena);
}

/* "not undone: reserve charge; unknown: confirm" */
static struct str left_text(const struct faults *faults, const struct stub_result *result)
{
    static const char *const whys[][2] = {{"not_undone", "not undone"},
                                          {"unknown", "unknown"},
                                          {"open", "open"},
                                          {"by_hand", "by hand"},
                                          {"declared", "declared"}};
    const struct json *list = ctl_test_value(result->row.now.residue, faults->arena);
    struct buf out = {0};
    for (size_t why = 0; why < ARRAY_LEN(whys); why++) {
        bool first = true;
        for (uint32_t i = 0; list->kind == JSON_LIST && i < list->count; i++) {
            if (!str_eq_z(json_get_text(list->items[i], "why"), whys[why][0]))
                continue;
            if (first) {
                list_add(&out, "; ");
                buf_printf(&out, "%s:", whys[why][1]);
                first = false;
            }
            buf_printf(&out, " " STR_FMT, STR_ARG(json_get_text(list->items[i], "step")));
        }
    }
    return take(&out, faults->arena);
}

static struct str doubles_text(const struct faults *faults, const struct stub_result *result)
{
    struct buf out = {0};
    for (const struct stub_effect *effect = result->effects; effect; effect = effect->next) {
        if (effect->effects < 2)
            continue;
        list_add(&out, ", ");
        buf_printf(&out, STR_FMT "%s x%u%s", STR_ARG(instance_of(faults, effect)),
                   effect->direction == DIRECTION_COMPENSATE ? ":compensate" : "", effect->effects,
                   effect->honours_key  ? ""
                   : effect->repeatable ? " (harmless)"
                                        : " (no key)");
    }
    return take(&out, faults->arena);
}

/* --- walking ----------------------------------------------------------------------------- */

static struct walk *walk_new(struct faults *faults)
{
    if (faults->count == faults->capacity) {
        faults->capacity = faults->capacity ? 2 * faults->capacity : 64;
        faults->walks = xrealloc(faults->walks, faults->capacity * sizeof(*faults->walks));
    }
    struct walk *walk = &faults->walks[faults->count++];
    *walk = (struct walk){.times = 1};
    return walk;
}

static bool walks_equal(const struct walk *a, const struct walk *b)
{
    return a->group == b->group && str_eq(a->call, b->call) && str_eq(a->fault, b->fault) &&
           str_eq(a->end, b->end) && str_eq(a->undone, b->undone) && str_eq(a->left, b->left) &&
           str_eq(a->doubles, b->doubles) && !a->broken.count && !b->broken.count;
}

/* Those at a record are many and mostly alike: they are told once for each end. */
static void walk_fold(struct faults *faults)
{
    struct walk *last = &faults->walks[faults->count - 1];
    for (uint32_t i = 0; i + 1 < faults->count && last->group >= WALK_CRASH; i++)
        if (walks_equal(&faults->walks[i], last)) {
            faults->walks[i].times++;
            faults->count--;
            return;
        }
}

/* Not what was skipped, nor what only waited for a person's word. */
static bool is_begun(const struct effect_state *side)
{
    switch (side->state) {
    case STEP_CLAIMED:
    case STEP_RETRYING:
    case STEP_UNKNOWN:
    case STEP_APPLIED: return true;
    case STEP_WAITING: return side->approval != APPROVAL_PENDING;
    case STEP_REFUSED: return side->attempts > 0 || side->approval == APPROVAL_NONE;
    case STEP_WITHDRAWN: return side->attempts > 0;
    case STEP_NONE:
    case STEP_PENDING:
    case STEP_SKIPPED: break;
    }
    return false;
}

static void reached_note(struct faults *faults, const struct stub_result *result)
{
    for (uint32_t i = 0; i < result->row.effects_count; i++) {
        const struct record_effect *effect = &result->row.effects[i];
        if (is_begun(&effect->state))
            faults->reached[effect->ref.step] = true;
    }
}

static void walk_summarise(struct faults *faults, struct walk *walk, struct stub_result *result)
{
    stub_judge(result, &walk->broken);
    for (uint32_t i = 0; i < walk->broken.count; i++)
        walk->broken.list[i] = arena_str(faults->arena, walk->broken.list[i]);
    walk->state = result->row.now.state;
    walk->end = ctl_test_end_text(result, faults->arena);
    walk->undone = undone_text(faults, result);
    walk->left = left_text(faults, result);
    walk->doubles = doubles_text(faults, result);
    ctl_test_unplayed_add(result, faults->arena, &faults->notes);
    reached_note(faults, result);
    faults->played++;
    if (!walk->broken.count)
        return;
    struct buf trace = {0};
    faults->broken++;
    ctl_test_trace_print(result, 8, faults->arena, &trace);
    walk->trace = take(&trace, faults->arena);
}

static void play(struct faults *faults, const struct stub_fault *list, uint32_t count,
                 struct stub_result *result)
{
    struct stub_config config = faults->config;
    config.faults = list;
    config.faults_count = count;
    stub_play(&config, result);
}

static bool is_called(const struct stub_result *result, uint16_t step, enum direction direction)
{
    for (uint32_t i = 0; i < result->calls_count; i++)
        if (result->calls[i].step == step && result->calls[i].direction == direction)
            return true;
    return false;
}

/* --- faults of calls --------------------------------------------------------------------- */

enum call_fault {
    CALL_REFUSED,
    CALL_UNAVAILABLE,
    CALL_REQUEST_LOST,
    CALL_ANSWER_LOST,
    CALL_ANSWERS_LOST,
    CALL_TWICE,
    CALL_UNTOLD,
    CALL_LAGGING,
    CALL_FAULTS_COUNT
};

static const char *const call_fault_names[CALL_FAULTS_COUNT] = {
    "refused for good",
    "not to be had",
    "first request lost",
    "first answer lost",
    "every answer lost",
    "arrives twice",
    "answer lost, questions unanswered",
    "answer lost, asked too early",
};

static const struct plan_action *action_of(const struct faults *faults, uint16_t step,
                                           bool compensation)
{
    const struct plan_step *planned = &faults->file->plan->steps[step];
    return compensation ? &planned->compensate : &planned->action;
}

static bool action_is_sent(const struct plan_action *action)
{
    return action->kind == ACTION_HTTP || action->kind == ACTION_SQL ||
           action->kind == ACTION_EXEC || action->kind == ACTION_WORKER;
}

/* Its record commits together with it: neither is lost without the other. */
static bool action_is_local(const struct plan_action *action)
{
    return action->kind == ACTION_SQL && action->service == PLAN_SERVICE_NONE;
}

/* In the words of every kind; a kind reads its own. */
static struct test_answer refusal(bool passes)
{
    struct test_answer answer = {.kind = TEST_ANSWER_REPLY, .after_us = -1, .done = TEST_DONE_NO};
    answer.status = passes ? 503 : 422;
    answer.exit = passes ? 75 : 1;
    answer.failed = true;
    answer.retryable = passes;
    answer.message = STR("it cannot be done");
    memcpy(answer.sqlstate, passes ? "40001" : "23514", 6);
    return answer;
}

static struct stub_fault call_fault(uint16_t step, bool compensation, enum call_fault which)
{
    struct stub_fault fault = {.kind = STUB_FAULT_ANSWER,
                               .step = step,
                               .compensation = compensation,
                               .first = 1,
                               .last = UINT32_MAX};
    switch (which) {
    case CALL_REFUSED: fault.answer = refusal(false); break;
    case CALL_UNAVAILABLE: fault.answer = refusal(true); break;
    case CALL_REQUEST_LOST:
        fault.answer = (struct test_answer){.kind = TEST_ANSWER_LOST_BEFORE, .after_us = -1};
        fault.last = 1;
        break;
    case CALL_ANSWER_LOST:
    case CALL_ANSWERS_LOST:
    case CALL_UNTOLD:
    case CALL_LAGGING:
        fault.answer = (struct test_answer){.kind = TEST_ANSWER_LOST, .after_us = -1};
        fault.last = which == CALL_ANSWERS_LOST ? UINT32_MAX : 1;
        break;
    case CALL_TWICE: fault.kind = STUB_FAULT_DUPLICATE; break;
    case CALL_FAULTS_COUNT: break;
    }
    return fault;
}

/* What happens to the questions about the call. */
static struct stub_fault question_fault(uint16_t step, bool compensation, enum call_fault which)
{
    struct stub_fault fault = {.kind = STUB_FAULT_LAG,
                               .step = step,
                               .compensation = compensation,
                               .asks = true,
                               .first = 1,
                               .last = 1};
    if (which == CALL_UNTOLD) {
        fault.kind = STUB_FAULT_ANSWER;
        fault.answer = refusal(true);
        fault.last = UINT32_MAX;
    }
    return fault;
}

static bool is_about_questions(enum call_fault which)
{
    return which == CALL_UNTOLD || which == CALL_LAGGING;
}

static bool fault_makes_sense(const struct plan_action *action, enum call_fault which)
{
    if (is_about_questions(which))
        return action->reconcile != NULL;
    if (action->kind == ACTION_WORKER) /* a task is taken once */
        return which != CALL_TWICE;
    return !action_is_local(action) || which < CALL_REQUEST_LOST;
}

static struct str call_text(const struct faults *faults, uint16_t step, bool compensation)
{
    return arena_printf(faults->arena, "%s%s", faults->file->plan->steps[step].id,
                        compensation ? ":compensate" : "");
}

/* Which compensations a refusal of `step` (PLAN_STEP_NONE: nothing) leads to. */
static void undone_note(struct faults *faults, const struct stub_result *result, uint16_t step)
{
    uint32_t undoes = 0;
    for (uint16_t i = 0; i < faults->file->plan->steps_count; i++) {
        if (!is_called(result, i, DIRECTION_COMPENSATE))
            continue;
        undoes++;
        if (faults->undone_by[i] == NOT_UNDONE)
            faults->undone_by[i] = step;
    }
    if (undoes > faults->turning_undoes && step != PLAN_STEP_NONE) {
        faults->turning = step;
        faults->turning_undoes = undoes;
        faults->turning_units = result->units;
    }
}

/* The faults of one walk; `*by`: the step whose refusal makes the run turn back first, or NULL. */
#define CALL_FAULTS_LISTED 3
static uint32_t call_faults_list(const struct faults *faults, uint16_t step, bool compensation,
                                 enum call_fault which, struct stub_fault *list, const char **by)
{
    uint32_t count = 0;
    *by = NULL;
    list[count++] = call_fault(step, compensation, which);
    if (is_about_questions(which))
        list[count++] = question_fault(step, compensation, which);
    if (compensation && faults->undone_by[step] != PLAN_STEP_NONE) {
        *by = faults->file->plan->steps[faults->undone_by[step]].id;
        list[count++] = call_fault((uint16_t)faults->undone_by[step], false, CALL_REFUSED);
    }
    return count;
}

static void call_walk(struct faults *faults, uint16_t step, bool compensation,
                      enum call_fault which)
{
    struct stub_result result;
    struct stub_fault list[CALL_FAULTS_LISTED];
    const char *by;
    uint32_t count = call_faults_list(faults, step, compensation, which, list, &by);
    play(faults, list, count, &result);
    if (!is_called(&result, step, compensation ? DIRECTION_COMPENSATE : DIRECTION_EXECUTE)) {
        stub_result_free(&result); /* the test does not get there */
        return;
    }
    struct walk *walk = walk_new(faults);
    walk->group = WALK_CALL;
    walk->call = call_text(faults, step, compensation);
    walk->fault = by ? arena_printf(faults->arena, "%s (%s refused)", call_fault_names[which], by)
                     : str_z(call_fault_names[which]);
    walk_summarise(faults, walk, &result);
    if (!compensation && which == CALL_REFUSED)
        undone_note(faults, &result, step);
    stub_result_free(&result);
}

static bool is_asked_for(const struct stub_result *result, uint16_t step)
{
    for (uint32_t i = 0; i < result->row.effects_count; i++)
        if (result->row.effects[i].ref.step == step &&
            result->row.effects[i].state.approval != APPROVAL_NONE)
            return true;
    return false;
}

static void reject_walk(struct faults *faults, uint16_t step)
{
    struct stub_fault fault = {.kind = STUB_FAULT_REJECT, .step = step};
    struct stub_result result;
    if (!faults->file->plan->steps[step].approve)
        return;
    play(faults, &fault, 1, &result);
    if (is_asked_for(&result, step)) {
        struct walk *walk = walk_new(faults);
        walk->group = WALK_CALL;
        walk->call = call_text(faults, step, false);
        walk->fault = STR("not approved");
        walk_summarise(faults, walk, &result);
    }
    stub_result_free(&result);
}

static void calls_walk(struct faults *faults, bool compensation)
{
    for (uint16_t i = 0; i < faults->file->plan->steps_count; i++) {
        /* The way back is walked from its end. */
        uint16_t step = compensation ? (uint16_t)(faults->file->plan->steps_count - 1 - i) : i;
        const struct plan_action *action = action_of(faults, step, compensation);
        if (!compensation)
            reject_walk(faults, step);
        if (!action_is_sent(action) || (compensation && faults->undone_by[step] == NOT_UNDONE))
            continue;
        for (int which = 0; which < CALL_FAULTS_COUNT; which++)
            if (fault_makes_sense(action, (enum call_fault)which))
                call_walk(faults, step, compensation, (enum call_fault)which);
    }
}

/* --- faults at records ------------------------------------------------------------------- */

static void record_walk(struct faults *faults, enum walk_group group, const char *call,
                        const struct stub_fault *list, uint32_t count)
{
    struct stub_result result;
    play(faults, list, count, &result);
    struct walk *walk = walk_new(faults);
    walk->group = group;
    walk->call = str_z(call);
    walk->fault = STR("");
    switch (list[0].kind) {
    case STUB_FAULT_CRASH_BEFORE: walk->fault = STR("before it is durable"); break;
    case STUB_FAULT_CRASH_AFTER: walk->fault = STR("after it is durable"); break;
    case STUB_FAULT_CANCEL: walk->fault = STR("cancelled"); break;
    case STUB_FAULT_NONE:
    case STUB_FAULT_ANSWER:
    case STUB_FAULT_LAG:
    case STUB_FAULT_DUPLICATE:
    case STUB_FAULT_REJECT:
    case STUB_FAULT_CALLBACK: break;
    }
    walk_summarise(faults, walk, &result);
    stub_result_free(&result);
    walk_fold(faults);
}

/* Of a run with very many records every n-th is tried. */
static uint32_t records_stride(uint32_t units)
{
    return (units + RECORDS_TRIED_MAX - 1) / RECORDS_TRIED_MAX;
}

static const char *records_text(const struct faults *faults, uint32_t stride, const char *turned)
{
    struct str which =
        stride == 1 ? STR("each record") : arena_printf(faults->arena, "every %u. record", stride);
    return turned ? arena_printf(faults->arena, STR_FMT " (%s refused)", STR_ARG(which), turned).ptr
                  : which.ptr;
}

static void records_walk(struct faults *faults, enum walk_group group, enum stub_fault_kind kind)
{
    uint32_t stride = records_stride(faults->plain_units);
    for (uint32_t unit = 1; unit <= faults->plain_units; unit += stride) {
        struct stub_fault fault = {.kind = kind, .unit = unit};
        record_walk(faults, group, records_text(faults, stride, NULL), &fault, 1);
    }
    if (!faults->turning_undoes || group != WALK_CRASH)
        return;
    stride = records_stride(faults->turning_units);
    const char *turned =
        records_text(faults, stride, faults->file->plan->steps[faults->turning].id);
    for (uint32_t unit = 1; unit <= faults->turning_units; unit += stride) {
        struct stub_fault list[] = {{.kind = kind, .unit = unit},
                                    call_fault(faults->turning, false, CALL_REFUSED)};
        record_walk(faults, group, turned, list, 2);
    }
}

/* The daemon dies at each record from the one that makes it unknown to the one that ends that. */
static void questions_walk(struct faults *faults, bool compensation, enum stub_fault_kind kind)
{
    for (uint16_t step = 0; step < faults->file->plan->steps_count; step++) {
        struct stub_fault list[1 + CALL_FAULTS_LISTED];
        struct stub_result result;
        uint32_t from = 0, to = 0;
        const char *by;
        if (!action_of(faults, step, compensation)->reconcile ||
            (compensation && faults->undone_by[step] == NOT_UNDONE))
            continue;
        uint32_t count =
            call_faults_list(faults, step, compensation, CALL_ANSWER_LOST, list + 1, &by);
        play(faults, list + 1, count, &result);
        for (uint32_t i = 0; i < result.asks_count; i++) {
            if (result.asks[i].step != step ||
                (result.asks[i].direction == DIRECTION_COMPENSATE) != compensation)
                continue;
            from = from ? from : result.asks[i].unit;
            to = result.asks[i].unit + 1;
        }
        stub_result_free(&result);
        const char *text = arena_printf(faults->arena, "each record (" STR_FMT " asked about)",
                                        STR_ARG(call_text(faults, step, compensation)))
                               .ptr;
        for (uint32_t unit = from; from && unit <= to && unit < from + RECORDS_TRIED_MAX; unit++) {
            list[0] = (struct stub_fault){.kind = kind, .unit = unit};
            record_walk(faults, WALK_CRASH, text, list, count + 1);
        }
    }
}

/* --- the report -------------------------------------------------------------------------- */

static void plain_walk(struct faults *faults)
{
    struct stub_result result;
    play(faults, NULL, 0, &result);
    struct walk *walk = walk_new(faults);
    walk->group = WALK_PLAIN;
    walk->call = STR("");
    walk->fault = STR("none");
    walk_summarise(faults, walk, &result);
    undone_note(faults, &result, PLAN_STEP_NONE);
    faults->plain_units = result.units;
    stub_result_free(&result);
}

static enum paint state_paint(const struct walk *walk)
{
    return walk->broken.count ? PAINT_RED : text_state_paint(str_z(run_state_name(walk->state)));
}

static struct str dash(struct str text)
{
    return text.len ? text : STR("-");
}

/* Loops undo more than a table holds; `-o wide` and JSON have all of it. */
static struct str list_cut(const struct faults *faults, struct str text)
{
    struct buf out = {0};
    text_add_cut(&out, dash(text),
                 faults->ctl->format == CTL_FORMAT_WIDE ? SIZE_MAX : LIST_COLUMNS_MAX);
    return take(&out, faults->arena);
}

static void table_print_walks(struct faults *faults)
{
    struct table table = {.indent = 2};
    table_column(&table, "CALL");
    table_column(&table, "FAULT");
    table_column(&table, "ENDED");
    table_column(&table, "UNDONE");
    table_column(&table, "LEFT");
    table_column(&table, "DOUBLES");
    for (uint32_t i = 0; i < faults->count; i++) {
        const struct walk *walk = &faults->walks[i];
        bool folded = walk->group >= WALK_CRASH;
        const char *word = walk->group == WALK_CRASH ? "dies " : "";
        table_add(&table, dash(walk->call), PAINT_NONE);
        table_add(&table,
                  folded ? arena_printf(faults->arena, "%s" STR_FMT ", %ux", word,
                                        STR_ARG(walk->fault), walk->times)
                         : walk->fault,
                  PAINT_NONE);
        table_add(&table, walk->end, state_paint(walk));
        table_add(&table, list_cut(faults, walk->undone), PAINT_NONE);
        table_add(&table, list_cut(faults, walk->left), PAINT_NONE);
        table_add(&table, list_cut(faults, walk->doubles),
                  walk->doubles.len ? PAINT_YELLOW : PAINT_NONE);
    }
    table_print(&table, faults->ctl);
    table_free(&table);
}

static void broken_print(struct faults *faults)
{
    struct buf *out = &faults->ctl->out;
    for (uint32_t i = 0; i < faults->count; i++) {
        const struct walk *walk = &faults->walks[i];
        if (!walk->broken.count)
            continue;
        buf_add_z(out, "  ");
        text_add_painted(out, faults->ctl->color, PAINT_RED, STR("BROKEN"));
        buf_add_z(out, "  ");
        text_add(out, dash(walk->call));
        buf_add_z(out, ", ");
        text_add(out, walk->fault);
        buf_add_char(out, '\n');
        for (uint32_t j = 0; j < walk->broken.count; j++) {
            buf_add_z(out, "        ");
            text_add(out, walk->broken.list[j]);
            buf_add_char(out, '\n');
        }
        buf_add_z(out, "        what happened:\n");
        buf_add_str(out, walk->trace);
    }
}

/* "9 completed, 20 compensated, 3 parked" */
static void ends_print(struct faults *faults)
{
    struct buf text = {0};
    for (int state = RUN_QUEUED; state < RUN_STATE_COUNT; state++) {
        uint32_t count = 0;
        for (uint32_t i = 0; i < faults->count; i++)
            if (faults->walks[i].state == (enum run_state)state)
                count += faults->walks[i].times;
        if (count) {
            list_add(&text, ", ");
            buf_printf(&text, "%u %s", count, run_state_name((enum run_state)state));
        }
    }
    buf_printf(&faults->ctl->out, "  " STR_FMT ": " STR_FMT "\n",
               STR_ARG(text_count(faults->played, "walk", faults->arena)), STR_ARG(buf_str(&text)));
    buf_free(&text);
}

static const struct json *walk_json(const struct walk *walk, struct arena *arena)
{
    static const char *const groups[] = {"plain", "call", "crash", "cancel"};
    struct json *out = json_object_new(arena, 9);
    struct json *broken = json_list_new(arena, walk->broken.count);
    for (uint32_t i = 0; i < walk->broken.count; i++)
        json_list_add(broken, json_string(arena, walk->broken.list[i]));
    json_object_add_z(out, "group", json_string_z(arena, groups[walk->group]));
    json_object_add_z(out, "call", json_string(arena, walk->call));
    json_object_add_z(out, "fault", json_string(arena, walk->fault));
    json_object_add_z(out, "times", json_int(arena, walk->times));
    json_object_add_z(out, "ended", json_string(arena, walk->end));
    json_object_add_z(out, "undone", json_string(arena, walk->undone));
    json_object_add_z(out, "left", json_string(arena, walk->left));
    json_object_add_z(out, "doubles", json_string(arena, walk->doubles));
    json_object_add_z(out, "broken", broken);
    return out;
}

static const struct json *report_json(const struct faults *faults, const struct test_case *test,
                                      const struct json *input, struct arena *arena)
{
    const struct plan *plan = faults->file->plan;
    struct json *out = json_object_new(arena, 7);
    struct json *walks = json_list_new(arena, faults->count);
    struct json *unreached = json_list_new(arena, plan->steps_count);
    for (uint16_t i = 0; i < plan->steps_count; i++)
        if (!faults->reached[i])
            json_list_add(unreached, json_string_z(arena, plan->steps[i].id));
    for (uint32_t i = 0; i < faults->count; i++)
        json_list_add(walks, walk_json(&faults->walks[i], arena));
    json_object_add_z(out, "file", json_string_z(arena, faults->file->name));
    json_object_add_z(out, "test", test ? json_string_z(arena, test->name) : &json_null);
    json_object_add_z(out, "input", input);
    json_object_add_z(out, "sample_input", json_bool(test == NULL));
    json_object_add_z(out, "walks", walks);
    json_object_add_z(out, "unreached", unreached);
    json_object_add_z(out, "notes", ctl_test_notes_json(&faults->notes, arena));
    return out;
}

static void report_print(struct faults *faults, const struct test_case *test,
                         const struct json *input, struct test_faults_report *out)
{
    struct ctl *ctl = faults->ctl;
    if (ctl_format_is_json(ctl)) {
        struct str text = json_text(report_json(faults, test, input, faults->arena), faults->arena);
        if (ctl->format == CTL_FORMAT_JSONL)
            ctl_json_compact(text, &ctl->out);
        out->json = ctl_test_value(arena_str(&ctl->arena, text), &ctl->arena);
        return;
    }
    if (ctl->format == CTL_FORMAT_NAME)
        return;
    buf_add_z(&ctl->out, "  ");
    if (test) {
        text_add(&ctl->out, str_z(test->name));
    } else {
        buf_add_z(&ctl->out, "no tests: played with an input made from the schema, ");
        text_add(&ctl->out, json_text(input, faults->arena));
    }
    buf_add_char(&ctl->out, '\n');
    table_print_walks(faults);
    broken_print(faults);
    ctl_test_notes_print(&faults->notes, 2, &ctl->out);
    ends_print(faults);
}

/* --- the front door ---------------------------------------------------------------------- */

/* Every signal that is waited for comes at once, with what the workflow reads of it. */
static void signals_make(const struct test_file *file, struct arena *arena, struct test_case *out)
{
    const struct plan *plan = file->plan;
    struct test_verb *verbs = arena_array(arena, struct test_verb, plan->steps_count);
    for (uint16_t i = 0; i < plan->steps_count; i++) {
        const struct plan_action *action = &plan->steps[i].action;
        bool repeated = false;
        if (action->kind != ACTION_WAIT_FOR)
            continue;
        for (uint32_t j = 0; j < out->verbs_count && !repeated; j++)
            repeated = str_eq_z(verbs[j].name, action->wait_for.signal);
        if (!repeated)
            verbs[out->verbs_count++] = (struct test_verb){.verb = "signal",
                                                           .step = STR(""),
                                                           .reason = STR(""),
                                                           .output = file->outputs[i],
                                                           .name = str_z(action->wait_for.signal)};
    }
    out->verbs = verbs;
}

static int sample_make(struct ctl *ctl, const struct test_file *file, struct arena *arena,
                       struct test_case *out)
{
    struct schema_errors errors;
    *out = (struct test_case){.name = "", .line = 1};
    out->input = dsl_sample_input(file->plan, arena, &errors);
    signals_make(file, arena, out);
    if (out->input)
        return CTL_OK;
    ctl_say(ctl, "%s: no input can be made from the schema: %s" STR_FMT " " STR_FMT, file->name,
            errors.list[0].pointer.len ? "" : "it", STR_ARG(errors.list[0].pointer),
            STR_ARG(errors.list[0].message));
    ctl_hint(ctl, "Write `examples: [...]` beside the property, or a test with an `input`.");
    return CTL_USAGE;
}

int ctl_test_faults(struct ctl *ctl, const struct test_file *file, const struct test_case *test,
                    struct test_faults_report *out)
{
    struct arena arena = {0};
    struct test_case sample;
    struct err err;
    int code = CTL_OK;
    if (!test)
        code = sample_make(ctl, file, &arena, &sample);
    const struct test_case *played = test ? test : &sample;
    struct faults faults = {.ctl = ctl, .file = file, .arena = &arena};
    if (!code && ctl_test_config(file, played, &arena, &faults.config, &err) != 0) {
        ctl_say(ctl, "%s:%u: %s", file->name, played->line, err.text);
        code = CTL_USAGE;
    }
    if (!code) {
        faults.undone_by = arena_array(&arena, uint32_t, file->plan->steps_count);
        for (uint16_t i = 0; i < file->plan->steps_count; i++)
            faults.undone_by[i] = NOT_UNDONE;
        faults.reached = arena_array(&arena, bool, file->plan->steps_count);
        faults.config.approves = true;
        plain_walk(&faults);
        calls_walk(&faults, false);
        calls_walk(&faults, true);
        records_walk(&faults, WALK_CRASH, STUB_FAULT_CRASH_BEFORE);
        records_walk(&faults, WALK_CRASH, STUB_FAULT_CRASH_AFTER);
        for (int compensation = 0; compensation < 2; compensation++) {
            questions_walk(&faults, compensation, STUB_FAULT_CRASH_BEFORE);
            questions_walk(&faults, compensation, STUB_FAULT_CRASH_AFTER);
        }
        records_walk(&faults, WALK_CANCEL, STUB_FAULT_CANCEL);
        report_print(&faults, test, played->input, out);
        for (uint16_t i = 0; i < file->plan->steps_count; i++)
            out->reached[i] = out->reached[i] || faults.reached[i];
        out->walks = faults.played;
        out->broken = faults.broken;
    }
    free(faults.walks);
    arena_free(&arena);
    return code;
}
