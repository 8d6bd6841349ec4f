#include "engine/ctl_report.h"

#include "engine/ctl_show.h"
#include "engine/ctl_text.h"

static struct str member_text(struct ctl *ctl, const struct json *row, const char *name)
{
    const struct json *value = json_get_z(row, name);
    if (!value || value->kind == JSON_NULL)
        return STR("");
    return value->kind == JSON_STRING ? value->text : model_value_text(value, &ctl->scratch);
}

static struct str time_member(struct ctl *ctl, const struct json *attempt, const char *name)
{
    struct wall at;
    struct str text = member_text(ctl, attempt, name);
    return text.len && wall_parse(text, &at) ? text_time_ms(at, &ctl->scratch) : text;
}

static const struct json *member_list(const struct json *row, const char *name,
                                      const struct json *fallback)
{
    const struct json *list = json_get_z(row, name);
    return list && list->kind == JSON_LIST ? list : fallback;
}

static void attempts_show(struct ctl *ctl, const struct json *attempts)
{
    static const char *const titles[] = {"STEP",  "",        "NO",     "SENT",
                                         "ENDED", "OUTCOME", "STATUS", "ERROR"};
    struct table table = {.indent = 2};
    if (!attempts || attempts->kind != JSON_LIST || !attempts->count)
        return;
    show_heading(ctl, "Attempts that did not go right");
    for (size_t i = 0; i < ARRAY_LEN(titles); i++)
        table_column(&table, titles[i]);
    for (uint32_t i = 0; i < attempts->count; i++) {
        const struct json *attempt = attempts->items[i], *error = json_get_z(attempt, "error");
        struct str outcome = member_text(ctl, attempt, "outcome");
        if (error && error->kind == JSON_NULL)
            error = NULL;
        table_add(&table, member_text(ctl, attempt, "step"), PAINT_NONE);
        table_add(&table, member_text(ctl, attempt, "direction"), PAINT_DIM);
        table_add(&table, member_text(ctl, attempt, "number"), PAINT_NONE);
        table_add(&table, time_member(ctl, attempt, "sent_at"), PAINT_DIM);
        table_add(&table, time_member(ctl, attempt, "ended_at"), PAINT_DIM);
        table_add(&table, outcome, text_state_paint(outcome));
        table_add(&table, member_text(ctl, attempt, "status"), PAINT_NONE);
        table_add(&table, model_error_text(error, &ctl->scratch), PAINT_DIM);
    }
    table_print(&table, ctl);
    table_free(&table);
}

/* What was learned otherwise: by asking, late, from people. */
static void findings_show(struct ctl *ctl, const struct json *findings)
{
    static const char *const titles[] = {"STEP", "",     "NO",     "AT",
                                         "FROM", "SAYS", "STATUS", "IN WORDS"};
    struct table table = {.indent = 2};
    if (!findings || findings->kind != JSON_LIST || !findings->count)
        return;
    show_heading(ctl, "What was found out about unknown outcomes");
    for (size_t i = 0; i < ARRAY_LEN(titles); i++)
        table_column(&table, titles[i]);
    for (uint32_t i = 0; i < findings->count; i++) {
        const struct json *finding = findings->items[i];
        struct str says = member_text(ctl, finding, "says"), actor;
        actor = member_text(ctl, finding, "actor");
        if (str_eq_z(says, "retryable"))
            says = STR("not applied");
        table_add(&table, member_text(ctl, finding, "step"), PAINT_NONE);
        table_add(&table, member_text(ctl, finding, "direction"), PAINT_DIM);
        table_add(&table, member_text(ctl, finding, "number"), PAINT_NONE);
        table_add(&table, time_member(ctl, finding, "at"), PAINT_DIM);
        table_add(&table, actor.len ? actor : member_text(ctl, finding, "source"), PAINT_NONE);
        table_add(&table, says, text_state_paint(says));
        table_add(&table, member_text(ctl, finding, "status"), PAINT_NONE);
        table_add(&table, member_text(ctl, finding, "detail"), PAINT_DIM);
    }
    table_print(&table, ctl);
    table_free(&table);
}

/* --- what stands at the participants ---------------------------------------------------------- */

#define BLOCKS_SHOWN 10 /* of each kind, but with -o wide */
#define DETAIL_COLUMNS 15

enum standing {
    STANDING_NONE,
    STANDING_UNKNOWN,
    STANDING_NOT_UNDONE,
    STANDING_APPLIED,
    STANDING_STAYS,
    STANDING_UNDONE,
};

static enum standing standing_of(const struct model_run *run, const struct model_step *step)
{
    if (step->folded.len || str_eq_z(step->effect, "pure") || !step->key.len)
        return STANDING_NONE;
    switch (model_phase_of(step)) {
    case MODEL_UNDONE:
    case MODEL_UNDO_SKIPPED: return STANDING_UNDONE;
    case MODEL_UNKNOWN:
    case MODEL_SENDING: return STANDING_UNKNOWN;
    case MODEL_UNDOING:
    case MODEL_UNDO_UNKNOWN:
    case MODEL_UNDO_FAILED:
    case MODEL_UNDO_RETRYING: return STANDING_NOT_UNDONE;
    case MODEL_APPLIED:
        if (step->stays.len)
            return STANDING_STAYS;
        return run->cause.len ? STANDING_NOT_UNDONE : STANDING_APPLIED;
    case MODEL_PENDING:
    case MODEL_RETRYING:
    case MODEL_WAITING:
    case MODEL_REFUSED:
    case MODEL_SKIPPED:
    case MODEL_WITHDRAWN: break;
    }
    return STANDING_NONE;
}

/* "key            order-1:charge:execute" below the step; cut to the terminal, but never a key. */
static void detail(struct ctl *ctl, const char *label, struct str text, bool whole)
{
    size_t columns = ctl->terminal && !whole ? MAX(text_columns(), (size_t)30) : SIZE_MAX;
    if (!text.len)
        return;
    buf_add_z(&ctl->out, "    ");
    text_paint(&ctl->out, ctl->color, PAINT_DIM);
    buf_printf(&ctl->out, "%-*s", DETAIL_COLUMNS - 4, label);
    text_unpaint(&ctl->out, ctl->color, PAINT_DIM);
    text_add_cut(&ctl->out, text, columns == SIZE_MAX ? columns : columns - DETAIL_COLUMNS);
    buf_add_char(&ctl->out, '\n');
}

/* One key: what was sent under it, when, and what came back. */
static void effect_show(struct ctl *ctl, const struct json *effect, bool undo)
{
    struct wall until = WALL_NONE, first;
    struct arena *scratch = &ctl->scratch;
    struct str hash = member_text(ctl, effect, "request_hash");
    struct str sent = member_text(ctl, effect, "first_sent");
    struct str attempts = member_text(ctl, effect, "attempts");
    struct str valid = member_text(ctl, effect, "key_valid_until");
    detail(ctl, undo ? "undo's key" : "key", member_text(ctl, effect, "key"), true);
    struct str request = STR("");
    if (hash.len)
        request = arena_printf(scratch, "hash %.*s", (int)MIN(hash.len, (size_t)16), hash.ptr);
    if (sent.len && wall_parse(sent, &first))
        request = arena_printf(scratch, STR_FMT "%sfirst sent " STR_FMT, STR_ARG(request),
                               request.len ? ", " : "", STR_ARG(text_time(first, scratch)));
    if (attempts.len && !str_eq_z(attempts, "1"))
        request = arena_printf(scratch, STR_FMT "%s" STR_FMT " attempts", STR_ARG(request),
                               request.len ? ", " : "", STR_ARG(attempts));
    detail(ctl, "request", request, false);
    if (valid.len && wall_parse(valid, &until))
        detail(ctl, "honoured",
               arena_printf(scratch, "%s " STR_FMT,
                            wall_passed(until, ctl_now()) ? "no more: it was until" : "until",
                            STR_ARG(text_time(until, scratch))),
               false);
    const struct json *error = json_get_z(effect, "error"), *output = json_get_z(effect, "output");
    if (output && output->kind != JSON_NULL)
        detail(ctl, "answer", model_value_text(output, scratch), false);
    else if (error && error->kind != JSON_NULL)
        detail(ctl, "answer", model_error_text(error, scratch), false);
    const struct json *given = json_get_z(effect, "step_input");
    if (given && given->kind != JSON_NULL)
        detail(ctl, "sent with", model_value_text(given, scratch), false);
    detail(ctl, "new key", member_text(ctl, effect, "renewed"), false);
}

static void step_findings_show(struct ctl *ctl, const struct json *findings, struct str step)
{
    for (uint32_t i = 0; findings && findings->kind == JSON_LIST && i < findings->count; i++) {
        const struct json *finding = findings->items[i];
        struct str says = member_text(ctl, finding, "says"), actor;
        struct str words = member_text(ctl, finding, "detail");
        struct wall at = WALL_NONE;
        if (!str_eq(member_text(ctl, finding, "step"), step))
            continue;
        actor = member_text(ctl, finding, "actor");
        if (str_eq_z(says, "retryable"))
            says = STR("not applied");
        if (!wall_parse(member_text(ctl, finding, "at"), &at))
            at = WALL_NONE;
        detail(ctl, "found out",
               arena_printf(&ctl->scratch, STR_FMT ": " STR_FMT "%s" STR_FMT ", by " STR_FMT,
                            STR_ARG(text_time(at, &ctl->scratch)), STR_ARG(says),
                            words.len ? ", " : "", STR_ARG(words),
                            STR_ARG(actor.len ? actor : member_text(ctl, finding, "source"))),
               false);
    }
}

static void step_block(struct ctl *ctl, const struct model_run *run, const struct json *row,
                       const struct model_step *step)
{
    const struct json *effects = json_get_z(row, "effects");
    buf_add_z(&ctl->out, "  ");
    text_add_painted(&ctl->out, ctl->color, PAINT_BOLD, step->label);
    buf_printf(&ctl->out, "  %s", model_step_word(step));
    if (step->stays.len)
        buf_printf(&ctl->out, ", stays: " STR_FMT, STR_ARG(step->stays));
    buf_add_char(&ctl->out, '\n');
    bool any = false;
    for (uint32_t i = 0; effects && effects->kind == JSON_LIST && i < effects->count; i++) {
        const struct json *effect = effects->items[i];
        if (!str_eq(json_get_text(effect, "step"), step->id))
            continue;
        effect_show(ctl, effect, str_eq_z(json_get_text(effect, "direction"), "compensate"));
        any = true;
    }
    if (!any)
        detail(ctl, "key", step->key, true);
    detail(ctl, "so far", model_unknown_text(step, ctl_now(), &ctl->scratch), false);
    step_findings_show(ctl, member_list(row, "findings", run->findings), step->id);
}

static void standing_show(struct ctl *ctl, const struct model_run *run, const struct json *row,
                          enum standing standing, const char *heading)
{
    uint32_t shown = 0, more = 0;
    bool wide = ctl->format == CTL_FORMAT_WIDE;
    for (uint32_t i = 0; i < run->steps_count; i++) {
        if (standing_of(run, &run->steps[i]) != standing)
            continue;
        if (!wide && shown == BLOCKS_SHOWN) {
            more++;
            continue;
        }
        if (!shown++)
            show_heading(ctl, heading);
        step_block(ctl, run, row, &run->steps[i]);
    }
    if (more)
        buf_printf(&ctl->out, "  %u more: sagactl dead show -o wide\n", more);
}

/* --- why it stopped ----------------------------------------------------------------------------
 */

/* The steps that stand in the way, as verbs name them. */
static void stopped_show(struct ctl *ctl, const struct model_run *run)
{
    const char *reason = model_reason_text(run->reason);
    show_heading(ctl, "Why it stopped");
    buf_add_z(&ctl->out, "  ");
    text_add_painted(&ctl->out, ctl->color, PAINT_RED, reason ? str_z(reason) : run->reason);
    buf_add_char(&ctl->out, '\n');
    for (uint32_t i = 0; i < run->steps_count; i++) {
        const struct model_step *step = &run->steps[i];
        enum model_phase phase = model_phase_of(step);
        bool undo = phase == MODEL_UNDO_UNKNOWN || phase == MODEL_UNDO_FAILED;
        /* On the way back what was refused stands in nobody's way. */
        bool refused = phase == MODEL_REFUSED && !run->cause.len;
        if (phase != MODEL_UNKNOWN && !refused && !undo)
            continue;
        struct str error = model_error_text(model_phase_error(step), &ctl->scratch);
        buf_add_z(&ctl->out, "  ");
        text_add(&ctl->out, step->label);
        buf_printf(&ctl->out, "%s  %s", undo ? ":compensate" : "", model_phase_word(phase));
        if (error.len) {
            buf_add_z(&ctl->out, ": ");
            text_add(&ctl->out, error);
        }
        buf_add_char(&ctl->out, '\n');
    }
}

/* --- what happened -----------------------------------------------------------------------------
 */

#define HISTORY_MAX 30
#define DATE_BYTES 10

/* The time of day, after a date that is not the one before. */
static struct str event_time(struct ctl *ctl, const struct json *event, struct str *date)
{
    struct wall at;
    struct str text = member_text(ctl, event, "at");
    if (!text.len || !wall_parse(text, &at))
        return text;
    text = text_time_ms(at, &ctl->scratch);
    struct str day = {text.ptr, MIN(text.len, (size_t)DATE_BYTES)};
    if (!str_eq(day, *date) || text.len <= DATE_BYTES + 2) {
        *date = day;
        return text;
    }
    return (struct str){text.ptr + DATE_BYTES + 1, text.len - DATE_BYTES - 2};
}

/* A condition that did not hold is no incident. */
static bool is_quiet(struct ctl *ctl, const struct json *event)
{
    return str_eq(member_text(ctl, event, "what"), STR("skipped")) &&
           !member_text(ctl, event, "detail").len;
}

static void history_show(struct ctl *ctl, const struct json *events)
{
    struct table table = {.indent = 2};
    uint32_t told = 0, skip;
    struct str date = STR("");
    for (uint32_t i = 0; i < events->count; i++)
        told += !is_quiet(ctl, events->items[i]);
    if (!told)
        return;
    bool wide = ctl->format == CTL_FORMAT_WIDE;
    skip = !wide && told > HISTORY_MAX ? told - HISTORY_MAX : 0;
    event_time(ctl, events->items[0], &date);
    show_heading(
        ctl, date.len
                 ? arena_printf(&ctl->scratch, "What happened, " STR_FMT " UTC", STR_ARG(date)).ptr
                 : "What happened");
    if (skip)
        buf_printf(&ctl->out, "  %u earlier events: sagactl events RUN\n", skip);
    for (int i = 0; i < 3; i++)
        table_column(&table, "");
    for (uint32_t i = 0; i < events->count; i++) {
        const struct json *event = events->items[i];
        struct str what = member_text(ctl, event, "what");
        struct str more = member_text(ctl, event, "detail");
        if (is_quiet(ctl, event) || (skip && skip--))
            continue;
        table_add(&table, event_time(ctl, event, &date), PAINT_DIM);
        table_add(&table,
                  model_label(member_text(ctl, event, "step_id"),
                              member_text(ctl, event, "item_text"), &ctl->scratch),
                  PAINT_NONE);
        table_add(&table,
                  arena_printf(&ctl->scratch, STR_FMT "%s" STR_FMT, STR_ARG(what),
                               more.len ? ": " : "", STR_ARG(more)),
                  text_state_paint(what));
    }
    table_print(&table, ctl);
    table_free(&table);
}

static void header_show(struct ctl *ctl, const struct model_run *run, const struct json *row)
{
    struct wall parked_at;
    struct str parked_text = member_text(ctl, row, "parked_at");
    text_add_painted(&ctl->out, ctl->color, PAINT_BOLD, run->id);
    text_add_painted(&ctl->out, ctl->color, PAINT_RED, STR("  parked"));
    if (parked_text.len && wall_parse(parked_text, &parked_at))
        buf_printf(&ctl->out, " " STR_FMT " ago",
                   STR_ARG(text_age(parked_at, ctl_now(), &ctl->scratch)));
    buf_add_char(&ctl->out, '\n');
    show_field(ctl, "workflow",
               arena_printf(&ctl->scratch, STR_FMT " (" STR_FMT ")", STR_ARG(run->workflow),
                            STR_ARG(run->version)));
    show_field(ctl, "tenant", run->tenant);
    show_field(ctl, "step of", run->parent);
    show_field(ctl, "started", text_time(run->created_at, &ctl->scratch));
    show_field(ctl, "direction",
               run->cause.len ? STR("back: it was undoing its steps") : STR("forward"));
    show_field(ctl, "turned back", show_cause(ctl, run));
    show_field(ctl, "error", show_error(ctl, model_run_error(run)));
    show_field(ctl, "input", model_value_text(run->input, &ctl->scratch));
}

void report_print(struct ctl *ctl, struct model_run *run, const struct json *row,
                  const struct json *events)
{
    bool wide = ctl->format == CTL_FORMAT_WIDE;
    header_show(ctl, run, row);
    show_heading(ctl, "What it was to do");
    show_steps(ctl, run);
    show_corrections(ctl, run);
    history_show(ctl, events);
    standing_show(ctl, run, row, STANDING_UNDONE, "Undone");
    standing_show(ctl, run, row, STANDING_STAYS, "Applied, and stays");
    standing_show(ctl, run, row, STANDING_APPLIED, "Applied");
    standing_show(ctl, run, row, STANDING_NOT_UNDONE, "Applied and not undone");
    standing_show(ctl, run, row, STANDING_UNKNOWN, "Not known whether it is applied");
    if (wide) {
        attempts_show(ctl, member_list(row, "attempts", run->attempts));
        findings_show(ctl, member_list(row, "findings", run->findings));
    }
    stopped_show(ctl, run);
    show_next(ctl, run);
}
