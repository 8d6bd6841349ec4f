#include "engine/ctl_show.h"

#include "engine/ctl_text.h"
#include "engine/ctl_verbs.h"

#define NEXT_MAX 40
#define LABEL_COLUMNS 13

void show_field(struct ctl *ctl, const char *label, struct str text)
{
    size_t room = ctl->terminal ? MAX(text_columns(), (size_t)30) - LABEL_COLUMNS : SIZE_MAX;
    if (!text.len)
        return;
    text_paint(&ctl->out, ctl->color, PAINT_DIM);
    buf_printf(&ctl->out, "%-*s", LABEL_COLUMNS, label);
    text_unpaint(&ctl->out, ctl->color, PAINT_DIM);
    text_add_cut(&ctl->out, text, room);
    buf_add_char(&ctl->out, '\n');
}

void show_heading(struct ctl *ctl, const char *heading)
{
    buf_add_char(&ctl->out, '\n');
    text_add_painted(&ctl->out, ctl->color, PAINT_BOLD, str_z(heading));
    buf_add_char(&ctl->out, '\n');
}

/* --- steps ----------------------------------------------------------------------------------- */

static struct str attempts_text(struct ctl *ctl, const struct model_step *step)
{
    if (step->compensation_attempts)
        return arena_printf(&ctl->scratch, "%lld+%lld", (long long)step->attempts,
                            (long long)step->compensation_attempts);
    if (!step->attempts)
        return STR("");
    return arena_printf(&ctl->scratch, "%lld", (long long)step->attempts);
}

static struct str step_took(struct ctl *ctl, const struct model_step *step)
{
    int64_t took_us;
    if (!model_phase_took(step, ctl_now(), &took_us))
        return STR("");
    return text_duration(took_us, &ctl->scratch);
}

static struct str step_note(struct ctl *ctl, const struct model_step *step)
{
    enum model_phase phase = model_phase_of(step);
    if (step->folded.len)
        return step->folded;
    struct str error = model_error_text(model_phase_error(step), &ctl->scratch);
    if (wall_is_set(step->unknown.next_at))
        return arena_printf(
            &ctl->scratch, "asked " STR_FMT ", next in " STR_FMT "%s" STR_FMT,
            STR_ARG(text_count(step->unknown.asked, "time", &ctl->scratch)),
            STR_ARG(text_duration(MAX(step->unknown.next_at.us - ctl_now().us, INT64_C(0)),
                                  &ctl->scratch)),
            error.len ? "; " : "", STR_ARG(error));
    bool again = phase == MODEL_RETRYING || phase == MODEL_UNDO_RETRYING || phase == MODEL_WAITING;
    if (!again || !wall_is_set(step->next_at))
        return error;
    struct str left = text_duration(step->next_at.us - ctl_now().us, &ctl->scratch);
    return arena_printf(&ctl->scratch, "%s in " STR_FMT "%s" STR_FMT,
                        phase == MODEL_WAITING ? "ends" : "next", STR_ARG(left),
                        error.len ? "; " : "", STR_ARG(error));
}

void show_steps(struct ctl *ctl, const struct model_run *all)
{
    struct table table = {.indent = 2};
    bool wide = ctl->format == CTL_FORMAT_WIDE;
    struct model_run shown = *all, *run = &shown;
    if (!wide)
        model_fold_loops(run, &ctl->scratch);
    table_column(&table, "STEP");
    table_column(&table, "EFFECT");
    table_column(&table, "STATE");
    table_column(&table, "UNDO");
    table_column(&table, "ATTEMPTS");
    table_column(&table, "TOOK");
    if (wide)
        table_column(&table, "KEY");
    table_column(&table, "");
    for (uint32_t i = 0; i < run->steps_count; i++) {
        const struct model_step *step = &run->steps[i];
        table_add(&table, step->label, PAINT_NONE);
        table_add(&table, step->effect, PAINT_DIM);
        table_add(&table, step->state, text_state_paint(step->state));
        table_add(&table, step->compensation_state, text_state_paint(step->compensation_state));
        table_add(&table, attempts_text(ctl, step), PAINT_NONE);
        table_add(&table, step_took(ctl, step), PAINT_DIM);
        if (wide)
            table_add(&table, step->key, PAINT_DIM);
        table_add(&table, step_note(ctl, step), PAINT_DIM);
    }
    if (run->steps_count)
        table_print(&table, ctl);
    table_free(&table);
}

void show_unknowns(struct ctl *ctl, const struct model_run *run)
{
    size_t before = ctl->out.len, shown = 0;
    for (uint32_t i = 0; i < run->steps_count; i++) {
        const struct model_step *step = &run->steps[i];
        if (!step->unknown.set)
            continue;
        if (!shown++)
            show_heading(ctl, "Unknown outcomes");
        if (shown > MODEL_ITEMS_SHOWN && ctl->format != CTL_FORMAT_WIDE)
            continue;
        buf_add_z(&ctl->out, "  ");
        text_add(&ctl->out, step->label);
        buf_add_z(&ctl->out, step->unknown.undo ? ":compensate is " : " is ");
        text_add(&ctl->out, model_unknown_text(step, ctl_now(), &ctl->scratch));
        buf_add_char(&ctl->out, '\n');
    }
    if (shown > MODEL_ITEMS_SHOWN && ctl->format != CTL_FORMAT_WIDE && ctl->out.len > before)
        buf_printf(&ctl->out, "  %zu more: sagactl show -o wide\n", shown - MODEL_ITEMS_SHOWN);
}

static void correction_add(struct ctl *ctl, struct table *table, struct str step, bool undo,
                           struct str renewed, const struct json *given)
{
    struct str name =
        undo ? arena_printf(&ctl->scratch, STR_FMT ":compensate", STR_ARG(step)) : step;
    if (renewed.len) {
        table_add(table, name, PAINT_NONE);
        table_add(table, STR("a new key"), PAINT_NONE);
        table_add(table, renewed, PAINT_DIM);
    }
    if (given) {
        table_add(table, name, PAINT_NONE);
        table_add(table, STR("sent with"), PAINT_NONE);
        table_add(table, model_value_text(given, &ctl->scratch), PAINT_DIM);
    }
}

void show_corrections(struct ctl *ctl, const struct model_run *run)
{
    struct table table = {.indent = 2};
    for (int i = 0; i < 3; i++)
        table_column(&table, "");
    for (uint32_t i = 0; run->inputs && i < run->inputs->count; i++) {
        const struct json *entry = run->inputs->items[i], *given = json_get_z(entry, "input");
        table_add(&table, STR("input"), PAINT_NONE);
        table_add(
            &table,
            arena_printf(&ctl->scratch, "by " STR_FMT, STR_ARG(json_get_text(entry, "actor"))),
            PAINT_NONE);
        table_add(&table, model_value_text(given, &ctl->scratch), PAINT_DIM);
    }
    for (uint32_t i = 0; i < run->steps_count; i++) {
        const struct model_step *step = &run->steps[i];
        correction_add(ctl, &table, step->id, false, step->renewed, step->step_input);
        correction_add(ctl, &table, step->id, true, step->compensation_renewed,
                       step->compensation_step_input);
    }
    if (table.count) {
        show_heading(ctl, "What people corrected");
        table_print(&table, ctl);
    }
    table_free(&table);
}

static void show_children(struct ctl *ctl, const struct model_run *run)
{
    struct table table = {.indent = 2};
    if (!run->children || !run->children->count)
        return;
    show_heading(ctl, "Runs that it started");
    table_column(&table, "RUN");
    table_column(&table, "WORKFLOW");
    table_column(&table, "STATE");
    for (uint32_t i = 0; i < run->children->count; i++) {
        const struct json *child = run->children->items[i];
        struct str state = json_get_text(child, "state");
        table_add(&table, json_get_text(child, "run_id"), PAINT_NONE);
        table_add(&table, json_get_text(child, "workflow"), PAINT_DIM);
        table_add(&table, state, text_state_paint(state));
    }
    table_print(&table, ctl);
    table_free(&table);
}

/* --- the rest -------------------------------------------------------------------------------- */

static const char *residue_meaning(struct str why)
{
    static const struct {
        const char *why, *meaning;
    } meanings[] = {
        {"declared", "stays, as the workflow says"},
        {"by_hand", "settled or skipped by a person"},
        {"unknown", "may be applied: its outcome is not known"},
        {"not_undone", "is applied and not undone"},
        {"open", "was still in motion"},
    };
    for (size_t i = 0; i < ARRAY_LEN(meanings); i++)
        if (str_eq_z(why, meanings[i].why))
            return meanings[i].meaning;
    return NULL;
}

/* "settled as applied by uid:0: seen in the books"; absent: nobody is known to have done it. */
static struct str by_hand_text(struct ctl *ctl, const struct model_run *run,
                               const struct json *entry)
{
    const struct json *act = NULL;
    for (uint32_t i = 0; run->by_hand && i < run->by_hand->count; i++)
        if (str_eq(json_get_text(run->by_hand->items[i], "step"), json_get_text(entry, "step")))
            act = run->by_hand->items[i];
    if (!act)
        return STR_NONE;
    const char *how = str_eq_z(json_get_text(act, "verb"), "skip") ? "skipped"
                      : str_eq_z(json_get_text(entry, "state"), "applied")
                          ? "settled as applied"
                          : "settled as not applied";
    return arena_printf(&ctl->scratch, "%s by " STR_FMT ": " STR_FMT, how,
                        STR_ARG(json_get_text(act, "actor")),
                        STR_ARG(json_get_text(act, "reason")));
}

/* "send" of "send.3"; "" of what is no item. */
static struct str loop_of(const struct json *entry)
{
    struct str step = json_get_text(entry, "step");
    const char *dot = step.len ? memchr(step.ptr, '.', step.len) : NULL;
    return dot ? (struct str){step.ptr, (size_t)(dot - step.ptr)} : STR("");
}

static struct str label_of(const struct model_run *run, struct str id)
{
    for (uint32_t i = 0; i < run->steps_count; i++)
        if (str_eq(run->steps[i].id, id))
            return run->steps[i].label;
    return id;
}

/* How many entries from `at` on say the same about items of one loop; at least 1. */
static uint32_t residue_alike(const struct json *residue, uint32_t at)
{
    const struct json *first = residue->items[at];
    struct str loop = loop_of(first);
    uint32_t end = at + 1;
    while (loop.len && end < residue->count && str_eq(loop_of(residue->items[end]), loop) &&
           str_eq(json_get_text(residue->items[end], "why"), json_get_text(first, "why")) &&
           str_eq(json_get_text(residue->items[end], "reason"), json_get_text(first, "reason")))
        end++;
    return end - at;
}

void show_residue(struct ctl *ctl, const struct model_run *run)
{
    struct table table = {.indent = 2};
    bool wide = ctl->format == CTL_FORMAT_WIDE;
    uint32_t alike = 0, row = 0;
    if (!run->residue || !run->residue->count)
        return;
    show_heading(ctl, "Residue: what is left at the participants");
    table_column(&table, "");
    table_column(&table, "");
    table_column(&table, "");
    for (uint32_t i = 0; i < run->residue->count; i++) {
        const struct json *entry = run->residue->items[i];
        struct str why = json_get_text(entry, "why"), reason = json_get_text(entry, "reason");
        const char *meaning = residue_meaning(why);
        struct str step = json_get_text(entry, "step");
        if (row == alike) {
            alike = residue_alike(run->residue, i);
            row = 0;
        }
        if (!wide && alike > MODEL_ITEMS_SHOWN && row == MODEL_ITEMS_SHOWN) {
            uint32_t more = alike - row;
            step =
                arena_printf(&ctl->scratch, "%u more of " STR_FMT, more, STR_ARG(loop_of(entry)));
            i += more - 1;
            row = alike;
        } else {
            row++;
        }
        bool one = step.ptr == json_get_text(entry, "step").ptr;
        struct str told = meaning ? str_z(meaning) : why, by_hand = STR_NONE;
        if (one && str_eq_z(why, "by_hand"))
            by_hand = by_hand_text(ctl, run, entry);
        table_add(&table, label_of(run, step), PAINT_NONE);
        table_add(&table, by_hand.ptr ? by_hand : told,
                  str_eq(why, STR("declared")) ? PAINT_NONE : PAINT_YELLOW);
        table_add(&table,
                  reason.len ? arena_printf(&ctl->scratch, "(" STR_FMT ")", STR_ARG(reason))
                             : STR(""),
                  PAINT_DIM);
    }
    table_print(&table, ctl);
    table_free(&table);
}

/* Commands are never cut: where they do not fit beside their meanings, those stand above. */
static bool next_fits(struct ctl *ctl, const struct model_next *next, size_t count)
{
    size_t command = 0, meaning = 0;
    for (size_t i = 0; i < count; i++) {
        command = MAX(command, text_width(next[i].command));
        meaning = MAX(meaning, text_width(next[i].meaning));
    }
    return !ctl->terminal || 2 + command + 2 + meaning <= text_columns();
}

void show_next(struct ctl *ctl, const struct model_run *run)
{
    struct model_next next[NEXT_MAX];
    struct table table = {.indent = 2};
    size_t count = model_next_commands(run, ctl_now(), &ctl->scratch, next, NEXT_MAX);
    if (!count)
        return;
    show_heading(ctl, "What leads on");
    if (!next_fits(ctl, next, count)) {
        for (size_t i = 0; i < count; i++) {
            buf_add_z(&ctl->out, "  ");
            text_add_painted(&ctl->out, ctl->color, PAINT_DIM,
                             arena_printf(&ctl->scratch, "# " STR_FMT, STR_ARG(next[i].meaning)));
            buf_add_z(&ctl->out, "\n  ");
            text_add(&ctl->out, next[i].command);
            buf_add_char(&ctl->out, '\n');
        }
        return;
    }
    table_column(&table, "");
    table_column(&table, "");
    for (size_t i = 0; i < count; i++) {
        table_add(&table, next[i].command, PAINT_NONE);
        table_add(&table, next[i].meaning, PAINT_DIM);
    }
    table_print(&table, ctl);
    table_free(&table);
}

struct str show_error(struct ctl *ctl, const struct json *error)
{
    struct str step = json_get_text(error, "step");
    if (!error)
        return STR("");
    return arena_printf(&ctl->scratch, STR_FMT "%s" STR_FMT, STR_ARG(step), step.len ? ": " : "",
                        STR_ARG(model_error_text(error, &ctl->scratch)));
}

struct str show_why(struct ctl *ctl, const struct json *error)
{
    struct str message = json_get_text(error, "message");
    return message.len && !json_get_text(error, "step").len ? message : show_error(ctl, error);
}

struct str show_cause(struct ctl *ctl, const struct model_run *run)
{
    const char *cause = model_cause_text(run->cause);
    struct str text = cause ? str_z(cause) : run->cause, why = show_why(ctl, run->error);
    if (!text.len || !why.len || json_equal(model_run_error(run), run->error))
        return text;
    return arena_printf(&ctl->scratch, STR_FMT " (" STR_FMT ")", STR_ARG(text), STR_ARG(why));
}

struct str show_when(struct ctl *ctl, struct wall at)
{
    if (!wall_is_set(at))
        return STR("");
    return arena_printf(&ctl->scratch, STR_FMT " (" STR_FMT " ago)",
                        STR_ARG(text_time(at, &ctl->scratch)),
                        STR_ARG(text_age(at, ctl_now(), &ctl->scratch)));
}

static struct str undoable_text(struct ctl *ctl, const struct model_run *run)
{
    if (!wall_is_set(run->undoable_until))
        return STR("");
    return arena_printf(&ctl->scratch, "%s " STR_FMT,
                        wall_passed(run->undoable_until, ctl_now()) ? "no more: it was until"
                                                                    : "until",
                        STR_ARG(text_time(run->undoable_until, &ctl->scratch)));
}

static void header_show(struct ctl *ctl, const struct model_run *run)
{
    struct buf *out = &ctl->out;
    const char *reason = model_reason_text(run->reason);
    text_add_painted(out, ctl->color, PAINT_BOLD, run->id);
    buf_add_z(out, "  ");
    text_add_painted(out, ctl->color, text_state_paint(run->state), run->state);
    buf_add_z(out, run->paused ? ", paused\n" : "\n");
    show_field(ctl, "workflow",
               arena_printf(&ctl->scratch, STR_FMT " (" STR_FMT ")", STR_ARG(run->workflow),
                            STR_ARG(run->version)));
    show_field(ctl, "tenant", run->tenant);
    show_field(ctl, "step of", run->parent);
    if (str_eq_z(run->state, "queued"))
        show_field(ctl, "starts", text_time(run->start_at, &ctl->scratch));
    show_field(ctl, str_eq_z(run->state, "queued") ? "submitted" : "started",
               show_when(ctl, run->created_at));
    show_field(ctl, "ended", show_when(ctl, run->ended_at));
    if (wall_is_set(run->removed_at))
        show_field(ctl, "removed",
                   arena_printf(&ctl->scratch,
                                STR_FMT ": its input, output and history, by retention",
                                STR_ARG(show_when(ctl, run->removed_at))));
    if (!model_is_terminal(run->state)) {
        show_field(ctl, "deadline", text_time(run->deadline_at, &ctl->scratch));
        if (!str_eq_z(run->state, "parked"))
            show_field(ctl, "waits for", model_waiting_text(run, &ctl->scratch));
        show_field(ctl, "behind", model_behind_text(run, &ctl->scratch));
    }
    if (run->lock.value.len && !run->lock.position)
        show_field(ctl, "holds lock", run->lock.value);
    if (str_eq_z(run->state, "compensating"))
        show_field(ctl, "parks at", text_time(run->compensate_until, &ctl->scratch));
    show_field(ctl, "undoable", undoable_text(ctl, run));
    show_field(ctl, "parked", reason ? str_z(reason) : run->reason);
    show_field(ctl, "turned back", show_cause(ctl, run));
    show_field(ctl, "error", show_error(ctl, model_run_error(run)));
    show_field(ctl, "input", model_value_text(run->input, &ctl->scratch));
    show_field(ctl, "output", model_value_text(run->output, &ctl->scratch));
}

int ctl_verb_show(struct ctl *ctl)
{
    struct ctl_run found;
    int code = ctl_run_find(ctl, ctl->args[0], &found);
    if (code)
        return code;
    if (ctl_format_is_json(ctl)) {
        ctl_print_document(ctl, found.reply.body);
        return CTL_OK;
    }
    if (ctl->format == CTL_FORMAT_NAME) {
        text_add(&ctl->out, found.run.id);
        buf_add_char(&ctl->out, '\n');
        return CTL_OK;
    }
    ctl_run_reason_fill(ctl, &found.run, NULL);
    header_show(ctl, &found.run);
    if (wall_is_set(found.run.removed_at))
        return CTL_OK;
    show_heading(ctl, "Steps");
    show_steps(ctl, &found.run);
    show_unknowns(ctl, &found.run);
    show_corrections(ctl, &found.run);
    show_children(ctl, &found.run);
    show_residue(ctl, &found.run);
    show_next(ctl, &found.run);
    return CTL_OK;
}
