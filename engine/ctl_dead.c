/*
 * ctl_dead.c: runs that wait for a person, and the evidence of one as a report.
 */
#include "engine/ctl_json.h"
#include "engine/ctl_rows.h"
#include "engine/ctl_runs.h"
#include "engine/ctl_show.h"
#include "engine/ctl_text.h"
#include "engine/ctl_verbs.h"

static int dead_list(struct ctl *ctl)
{
    static const struct rows_column columns[] = {
        {"RUN", "run_id", ROWS_TEXT, false},
        {"WORKFLOW", "workflow", ROWS_TEXT, false},
        {"TENANT", "tenant", ROWS_TEXT, true},
        {"REASON", "reason|park_reason", ROWS_TEXT, false},
        {"STEP", "step_id|step", ROWS_TEXT, false},
        {"PARKED", "parked_at", ROWS_AGE, false},
        {"STARTED", "created_at", ROWS_TIME, true},
        {"CAUSE", "cause", ROWS_TEXT, true},
        {"ERROR", "error", ROWS_ERROR, false},
    };
    struct ctl_reply reply;
    int code = ctl_get(ctl, STR("/v1/dead"), &reply, NULL);
    if (code)
        return code;
    if (ctl->format == CTL_FORMAT_JSON) {
        ctl_print_document(ctl, reply.body);
        return CTL_OK;
    }
    struct str list = ctl_json_member(reply.body, "dead"), probe = list;
    if (!ctl_json_next_item(&probe).ptr && ctl->format != CTL_FORMAT_JSONL)
        ctl_say(ctl, "no run waits for a person");
    return rows_print(ctl, list.ptr ? list : STR("[]"), "run_id", columns, ARRAY_LEN(columns));
}

/* --- the report ------------------------------------------------------------------------------ */

/* The run's own row among the dead letters; absent if there is none any more. */
static int row_find(struct ctl *ctl, struct str run_id, struct str *raw, const struct json **row)
{
    struct ctl_reply reply;
    const struct json *parsed;
    struct str item;
    struct err err;
    *raw = STR_NONE;
    *row = NULL;
    int code = ctl_get(ctl, ctl_path(ctl, "/v1/dead?run_id=", run_id, ""), &reply, NULL);
    struct str rest = ctl_json_member(reply.body, "dead");
    while (!code && (item = ctl_json_next_item(&rest)).ptr)
        if (ctl_json_parse(item, &ctl->scratch, &parsed, &err) == 0 &&
            str_eq(json_get_text(parsed, "run_id"), run_id)) {
            *raw = item;
            *row = parsed;
            break;
        }
    return code;
}

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

/* The checkpoint: what was sent, and under which key the service knows it. */
static void effects_show(struct ctl *ctl, const struct json *effects)
{
    static const char *const titles[] = {"KEY", "STATE", "ATTEMPTS", "KEY VALID UNTIL"};
    struct table table = {.indent = 2};
    struct wall until;
    if (!effects || effects->kind != JSON_LIST || !effects->count)
        return;
    show_heading(ctl, "Effects");
    for (size_t i = 0; i < ARRAY_LEN(titles); i++)
        table_column(&table, titles[i]);
    for (uint32_t i = 0; i < effects->count; i++) {
        const struct json *effect = effects->items[i];
        struct str state = member_text(ctl, effect, "state");
        struct str valid = member_text(ctl, effect, "key_valid_until");
        bool dated = wall_parse(valid, &until), past = dated && wall_passed(until, ctl_now());
        if (dated)
            valid = text_time(until, &ctl->scratch);
        if (past)
            valid = arena_printf(&ctl->scratch, STR_FMT " (past)", STR_ARG(valid));
        table_add(&table, member_text(ctl, effect, "key"), PAINT_NONE);
        table_add(&table, state, text_state_paint(state));
        table_add(&table, member_text(ctl, effect, "attempts"), PAINT_NONE);
        table_add(&table, valid, past ? PAINT_RED : PAINT_DIM);
    }
    table_print(&table, ctl);
    table_free(&table);
}

enum standing { STANDING_APPLIED, STANDING_UNDONE, STANDING_UNKNOWN, STANDING_NONE };

static enum standing standing_of(const struct model_step *step)
{
    switch (model_phase_of(step)) {
    case MODEL_UNDONE:
    case MODEL_UNDO_SKIPPED: return STANDING_UNDONE;
    case MODEL_UNKNOWN:
    case MODEL_SENDING:
    case MODEL_UNDOING:
    case MODEL_UNDO_UNKNOWN: return STANDING_UNKNOWN;
    case MODEL_UNDO_FAILED:
    case MODEL_UNDO_RETRYING:
    case MODEL_APPLIED: return STANDING_APPLIED;
    case MODEL_PENDING:
    case MODEL_RETRYING:
    case MODEL_WAITING:
    case MODEL_REFUSED:
    case MODEL_SKIPPED:
    case MODEL_WITHDRAWN: break;
    }
    return STANDING_NONE;
}

static void standing_line(struct ctl *ctl, const struct model_run *run, const char *label,
                          enum standing standing, enum paint paint)
{
    struct buf names = {0};
    for (uint32_t i = 0; i < run->steps_count; i++)
        if (standing_of(&run->steps[i]) == standing && !str_eq_z(run->steps[i].effect, "pure")) {
            buf_add_z(&names, names.len ? ", " : "");
            text_add(&names, run->steps[i].id);
        }
    buf_printf(&ctl->out, "  %-10s  ", label);
    text_add_painted(&ctl->out, ctl->color, names.len ? paint : PAINT_DIM,
                     names.len ? buf_str(&names) : STR("nothing"));
    buf_add_char(&ctl->out, '\n');
    buf_free(&names);
}

#define HISTORY_MAX 30

static void history_show(struct ctl *ctl, const struct json *events)
{
    struct table table = {.indent = 2};
    uint32_t from = events->count > HISTORY_MAX ? events->count - HISTORY_MAX : 0;
    if (!events->count)
        return;
    show_heading(ctl, "History");
    if (from)
        buf_printf(&ctl->out, "  %u earlier events: sagactl events RUN\n", from);
    for (int i = 0; i < 4; i++)
        table_column(&table, "");
    for (uint32_t i = from; i < events->count; i++) {
        const struct json *event = events->items[i];
        struct str what = member_text(ctl, event, "what");
        table_add(&table, time_member(ctl, event, "at"), PAINT_DIM);
        table_add(&table, member_text(ctl, event, "step_id"), PAINT_NONE);
        table_add(&table, what, text_state_paint(what));
        table_add(&table, member_text(ctl, event, "detail"), PAINT_NONE);
    }
    table_print(&table, ctl);
    table_free(&table);
}

/* The steps that stand in the way, with the key under which each is known at its service. */
static void stopped_show(struct ctl *ctl, const struct model_run *run)
{
    for (uint32_t i = 0; i < run->steps_count; i++) {
        const struct model_step *step = &run->steps[i];
        enum model_phase phase = model_phase_of(step);
        if (phase != MODEL_UNKNOWN && phase != MODEL_UNDO_UNKNOWN && phase != MODEL_UNDO_FAILED &&
            phase != MODEL_REFUSED)
            continue;
        struct str error = model_error_text(model_phase_error(step), &ctl->scratch);
        show_field(ctl, "stopped at",
                   arena_printf(&ctl->scratch, STR_FMT ", %s%s" STR_FMT, STR_ARG(step->id),
                                model_phase_word(phase), error.len ? ": " : "", STR_ARG(error)));
        bool undo = phase == MODEL_UNDO_UNKNOWN || phase == MODEL_UNDO_FAILED;
        show_field(ctl, "  key",
                   undo && step->compensation_key.len ? step->compensation_key : step->key);
    }
}

static void report_print(struct ctl *ctl, struct model_run *run, const struct json *row,
                         const struct json *events)
{
    const char *reason = model_reason_text(run->reason), *cause = model_cause_text(run->cause);
    struct wall parked_at;
    struct str parked_text = member_text(ctl, row, "parked_at");
    bool dated = parked_text.len && wall_parse(parked_text, &parked_at);
    text_add_painted(&ctl->out, ctl->color, PAINT_BOLD, run->id);
    text_add_painted(&ctl->out, ctl->color, PAINT_RED, STR("  parked"));
    if (dated)
        buf_printf(&ctl->out, " " STR_FMT " ago",
                   STR_ARG(text_age(parked_at, ctl_now(), &ctl->scratch)));
    buf_add_char(&ctl->out, '\n');
    show_field(ctl, "why", reason ? str_z(reason) : run->reason);
    show_field(ctl, "workflow",
               arena_printf(&ctl->scratch, STR_FMT " (" STR_FMT ")", STR_ARG(run->workflow),
                            STR_ARG(run->version)));
    show_field(ctl, "tenant", run->tenant);
    show_field(ctl, "started", text_time(run->created_at, &ctl->scratch));
    show_field(ctl, "direction",
               run->cause.len ? STR("back: it was undoing its steps") : STR("forward"));
    show_field(ctl, "turned back", cause ? str_z(cause) : run->cause);
    show_field(ctl, "error", show_run_error(ctl, run));
    stopped_show(ctl, run);
    show_field(ctl, "input", model_value_text(run->input, &ctl->scratch));

    show_heading(ctl, "What stands at the participants");
    standing_line(ctl, run, "applied", STANDING_APPLIED, PAINT_GREEN);
    standing_line(ctl, run, "undone", STANDING_UNDONE, PAINT_YELLOW);
    standing_line(ctl, run, "unknown", STANDING_UNKNOWN, PAINT_MAGENTA);
    show_heading(ctl, "Steps");
    show_steps(ctl, run);
    show_unknowns(ctl, run);
    effects_show(ctl, json_get_z(row, "effects"));
    const struct json *attempts = json_get_z(row, "attempts");
    attempts_show(ctl, attempts && attempts->kind == JSON_LIST ? attempts : run->attempts);
    const struct json *findings = json_get_z(row, "findings");
    findings_show(ctl, findings && findings->kind == JSON_LIST ? findings : run->findings);
    show_residue(ctl, run);
    history_show(ctl, events);
    show_next(ctl, run);
}

static int dead_show(struct ctl *ctl, const char *name)
{
    struct ctl_run found;
    struct ctl_reply reply;
    const struct json *row, *events;
    struct str raw;
    int code = ctl_run_find(ctl, name, &found);
    if (code)
        return code;
    if (!str_eq_z(found.run.state, "parked")) {
        ctl_say(ctl, "the run \"" STR_FMT "\" is " STR_FMT ", not parked: see sagactl show",
                STR_ARG(found.run.id), STR_ARG(found.run.state));
        return CTL_NOT_FOUND;
    }
    code = row_find(ctl, found.run.id, &raw, &row);
    if (!code && ctl_format_is_json(ctl)) {
        ctl_print_document(ctl, raw.ptr ? raw : found.reply.body);
        return CTL_OK;
    }
    if (!code && ctl->format == CTL_FORMAT_NAME) {
        text_add(&ctl->out, found.run.id);
        buf_add_char(&ctl->out, '\n');
        return CTL_OK;
    }
    if (!code)
        code = ctl_run_events(ctl, found.run.id, &reply, &events);
    if (code)
        return code;
    if (!found.run.reason.len)
        found.run.reason = member_text(ctl, row, "reason");
    ctl_run_reason_fill(ctl, &found.run, events);
    report_print(ctl, &found.run, row, events);
    return CTL_OK;
}

int ctl_verb_dead(struct ctl *ctl)
{
    bool list = !ctl->args_count || strcmp(ctl->args[0], "list") == 0;
    if (list && ctl->args_count > 1)
        return ctl_usage(ctl, "dead list takes no argument");
    if (list)
        return dead_list(ctl);
    if (strcmp(ctl->args[0], "show") != 0)
        return ctl_usage(ctl, "dead takes list or show RUN, not \"%s\"", ctl->args[0]);
    if (ctl->args_count < 2)
        return ctl_usage(ctl, "dead show needs a RUN");
    return dead_show(ctl, ctl->args[1]);
}
