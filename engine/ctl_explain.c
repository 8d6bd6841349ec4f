/*
 * ctl_explain.c: a run, a diagnostic's code, or the states of a run, in plain words.
 */
#include "dsl/dsl.h"
#include "engine/ctl_json.h"
#include "engine/ctl_runs.h"
#include "engine/ctl_show.h"
#include "engine/ctl_text.h"
#include "engine/ctl_verbs.h"
#include "engine/decide.h"

#include <ctype.h>
#include <stdio.h>

static void line_add(struct ctl *ctl, const char *fmt, ...) PRINTF_LIKE(2, 3);
static void line_add(struct ctl *ctl, const char *fmt, ...)
{
    struct buf line = {0};
    va_list args;
    va_start(args, fmt);
    buf_vprintf(&line, fmt, args);
    va_end(args);
    text_add(&ctl->out, buf_str(&line));
    buf_add_char(&ctl->out, '\n');
    buf_free(&line);
}

/* With -o json the words are one member, under the name of what they explain. */
static void words_wrap(struct ctl *ctl, const char *name, struct str value)
{
    struct buf words = ctl->out;
    ctl->out = (struct buf){0};
    buf_printf(&ctl->out, "{\"%s\":", name);
    json_write_string(value, &ctl->out);
    buf_add_z(&ctl->out, ",\"text\":");
    json_write_string(buf_str(&words), &ctl->out);
    buf_add_char(&ctl->out, '}');
    struct buf document = ctl->out;
    ctl->out = (struct buf){0};
    ctl_print_document(ctl, buf_str(&document));
    buf_free(&document);
    buf_free(&words);
}

/* --- a run ----------------------------------------------------------------------------------- */

static const char *state_sentence(const struct model_run *run)
{
    switch (run_state_of(run->state)) {
    case RUN_QUEUED:
        return run->cause.len || run->reason.len
                   ? "had ended, was opened again, and waits for its lock"
                   : "is accepted; nothing was sent yet";
    case RUN_RUNNING: return "is running";
    case RUN_COMPENSATING: return "is going back: what it has applied is being undone";
    case RUN_COMPLETED: return "is completed: every step is done";
    case RUN_COMPENSATED: return "is compensated: what it had applied was undone";
    case RUN_PARKED: return "is parked: it needs a person";
    case RUN_ABANDONED: return "was abandoned: a person closed it as it was";
    case RUN_NONE: break;
    }
    return "is in a state that this version of sagactl does not know";
}

static const char *retrying_text(const struct model_step *step, bool over, struct arena *arena)
{
    return arena_printf(arena, "failed " STR_FMT " and %s",
                        STR_ARG(text_count(step->attempts, "time", arena)),
                        over ? "is not tried again, as the run was closed" : "will be tried again")
        .ptr;
}

/* What it was doing; `over`: until the run was closed as it was. */
static const char *claimed_text(const struct model_step *step, bool over)
{
    if (step->queue.len)
        return over ? "was with a worker when the run was closed" : "is with a worker";
    return over ? "had been sent, and was not answered when the run was closed"
                : "has been sent and is not answered yet";
}

static const char *waiting_text(const struct model_step *step, bool over)
{
    if (over)
        return "was waiting when the run was closed";
    return step->queue.len ? "is waiting for a worker to take it" : "is waiting";
}

static void unknown_explain(struct ctl *ctl, const struct model_step *step)
{
    if (step->unknown.set)
        line_add(ctl, "    It is " STR_FMT ".",
                 STR_ARG(model_unknown_text(step, ctl_now(), &ctl->scratch)));
}

static void step_explain(struct ctl *ctl, const struct model_step *step, bool over)
{
    struct arena *arena = &ctl->scratch;
    struct str error = model_error_text(step->error, arena);
    struct str tries = step->attempts > 1
                           ? arena_printf(arena, " after %lld attempts", (long long)step->attempts)
                           : STR("");
    struct str why = error.len ? arena_printf(arena, ": " STR_FMT, STR_ARG(error)) : STR(".");
    const char *said = NULL;
    switch (step_state_of(step->state)) {
    case STEP_APPLIED: said = "was applied"; break;
    case STEP_REFUSED:
        said = step->items ? "stopped, as one of its items failed for good"
                           : "was not applied; it failed for good";
        break;
    case STEP_UNKNOWN: said = "may or may not have been applied"; break;
    case STEP_CLAIMED: said = claimed_text(step, over); break;
    case STEP_RETRYING: said = retrying_text(step, over, arena); break;
    case STEP_WAITING: said = waiting_text(step, over); break;
    case STEP_SKIPPED: said = "was skipped"; break;
    case STEP_WITHDRAWN: said = "was waiting when the run turned back, and was withdrawn"; break;
    case STEP_NONE:
    case STEP_PENDING: return;
    }
    if (str_eq_z(step->state, "retrying"))
        tries = STR("");
    if (step->folded.len) {
        line_add(ctl, "  " STR_FMT " is a loop over " STR_FMT ".", STR_ARG(step->label),
                 STR_ARG(step->folded));
        return;
    }
    bool failed = str_eq_z(step->state, "refused") || str_eq_z(step->state, "unknown") ||
                  str_eq_z(step->state, "retrying");
    line_add(ctl, "  " STR_FMT " %s" STR_FMT STR_FMT, STR_ARG(step->label), said, STR_ARG(tries),
             STR_ARG(failed ? why : STR(".")));
    if (!step->unknown.undo)
        unknown_explain(ctl, step);
}

static void undo_explain(struct ctl *ctl, const struct model_step *step, bool over)
{
    struct str error = model_error_text(model_phase_error(step), &ctl->scratch);
    const char *said = NULL;
    if (step->folded.len)
        return; /* its items are counted already */
    switch (model_phase_of(step)) {
    case MODEL_UNDOING:
        said = over ? "was being undone when the run was closed" : "is being undone";
        break;
    case MODEL_UNDO_RETRYING:
        said = over ? "was not undone before the run was closed"
                    : "could not be undone yet; it will be tried again";
        break;
    case MODEL_UNDONE: said = "was undone"; break;
    case MODEL_UNDO_FAILED: said = "could not be undone"; break;
    case MODEL_UNDO_UNKNOWN: said = "may or may not have been undone"; break;
    case MODEL_UNDO_SKIPPED: said = "counts as undone by hand"; break;
    case MODEL_PENDING:
    case MODEL_SENDING:
    case MODEL_RETRYING:
    case MODEL_WAITING:
    case MODEL_UNKNOWN:
    case MODEL_APPLIED:
    case MODEL_REFUSED:
    case MODEL_SKIPPED:
    case MODEL_WITHDRAWN: return;
    }
    line_add(ctl, "  " STR_FMT " %s%s" STR_FMT, STR_ARG(step->label), said, error.len ? ": " : ".",
             STR_ARG(error));
    if (step->unknown.undo)
        unknown_explain(ctl, step);
}

static void happened_explain(struct ctl *ctl, const struct model_run *run)
{
    const char *cause = model_cause_text(run->cause);
    struct str error = show_why(ctl, run->error);
    size_t before = ctl->out.len;
    bool over = model_is_terminal(run->state);
    show_heading(ctl, "What happened");
    size_t start = ctl->out.len;
    for (uint32_t i = 0; i < run->steps_count; i++)
        step_explain(ctl, &run->steps[i], over);
    if (run->cause.len)
        line_add(ctl, "  Then the run turned back: " STR_FMT "%s" STR_FMT "%s",
                 STR_ARG(cause ? str_z(cause) : run->cause), error.len ? " (" : ".", STR_ARG(error),
                 error.len ? ")." : "");
    for (uint32_t i = run->steps_count; i-- > 0;)
        undo_explain(ctl, &run->steps[i], over);
    if (ctl->out.len == start)
        ctl->out.len = before; /* nothing has */
}

/* The step that the wait is about: the one that the daemon names, else the first in motion. */
static const struct model_step *step_in_motion(const struct model_run *run)
{
    for (uint32_t i = 0; run->waiting.step.len && i < run->steps_count; i++)
        if (str_eq(run->steps[i].id, run->waiting.step))
            return &run->steps[i];
    for (uint32_t i = 0; i < run->steps_count; i++) {
        enum model_phase phase = model_phase_of(&run->steps[i]);
        if (phase == MODEL_SENDING || phase == MODEL_RETRYING || phase == MODEL_WAITING ||
            phase == MODEL_UNDOING || phase == MODEL_UNDO_RETRYING ||
            wall_is_set(run->steps[i].unknown.next_at))
            return &run->steps[i];
    }
    return NULL;
}

/* Its time is the end of the wait, not what is waited for. */
static bool has_limit(const struct model_run *run)
{
    return run->waiting.signal.len || run->waiting.queue.len || run->waiting.child.len ||
           run->waiting.service.len || str_eq_z(run->waiting_for, "approval");
}

static void waiting_explain(struct ctl *ctl, const struct model_run *run)
{
    const struct model_step *step = step_in_motion(run);
    const char *reason = model_reason_text(run->reason);
    struct str what = model_waiting_text(run, &ctl->scratch);
    if (model_is_terminal(run->state))
        return;
    show_heading(ctl, "What it waits for");
    if (str_eq_z(run->state, "parked")) {
        line_add(ctl, "  A person: " STR_FMT ".",
                 STR_ARG(reason            ? str_z(reason)
                         : run->reason.len ? run->reason
                                           : STR("it is parked")));
        return;
    }
    if (run->paused)
        what = STR("a person to resume it; deadlines and keys run on meanwhile");
    struct str when = STR("");
    bool starts_later = str_eq_z(run->state, "queued") && str_eq_z(run->waiting_for, "timer");
    struct wall at = step ? step->next_at : starts_later ? run->start_at : WALL_NONE;
    bool asked = step && str_eq_z(run->waiting_for, "reconcile");
    if (asked)
        at = step->unknown.next_at;
    if (wall_is_set(at))
        when = arena_printf(&ctl->scratch,
                            has_limit(run) ? ", at most " STR_FMT " more"
                            : asked        ? ", asked next in " STR_FMT
                                           : ", in " STR_FMT,
                            STR_ARG(text_duration(at.us - ctl_now().us, &ctl->scratch)));
    line_add(
        ctl, "  It waits for " STR_FMT "%s" STR_FMT STR_FMT ".",
        STR_ARG(what.len ? what : STR("its next step")), step && !run->paused ? ", for step " : "",
        STR_ARG(step && !run->paused ? step->id : STR("")), STR_ARG(run->paused ? STR("") : when));
    struct str behind = model_behind_text(run, &ctl->scratch);
    if (behind.len)
        line_add(ctl, "  " STR_FMT ".", STR_ARG(behind));
}

static const char *undo_prospect(const struct model_step *step)
{
    enum step_state state = step_state_of(step->state);
    bool may_be_there = state == STEP_APPLIED || state == STEP_UNKNOWN || state == STEP_CLAIMED ||
                        state == STEP_RETRYING;
    if (!may_be_there || str_eq_z(step->effect, "pure"))
        return NULL;
    if (str_eq_z(step->effect, "irreversible"))
        return state == STEP_APPLIED ? "cannot be undone: it is irreversible"
                                     : "could not be undone once it is applied: it is irreversible";
    if (step->stays.len && state != STEP_UNKNOWN)
        return state == STEP_APPLIED ? "stays, as the workflow says"
                                     : "would be awaited; what it did stays, as the workflow says";
    if (state == STEP_UNKNOWN && wall_is_set(step->unknown.next_at))
        return "would be asked about first, and undone if it was applied";
    if (state == STEP_UNKNOWN)
        return "must be settled first: its outcome is not known";
    return state == STEP_APPLIED ? "would be undone"
                                 : "would be awaited, and undone if it was applied";
}

/* What a turn back would do, or has still to do, about this step; NULL: nothing. */
static const char *undo_left(const struct model_step *step, bool backward)
{
    const char *prospect = undo_prospect(step);
    if (!prospect || model_phase_of(step) >= MODEL_UNDOING)
        return NULL;
    if (backward && str_eq_z(step->state, "applied") && !step->stays.len &&
        !str_eq_z(step->effect, "irreversible"))
        return "is still to be undone";
    return prospect;
}

/* The items of one loop; a long one's are counted by what would become of them. */
static void undo_items_explain(struct ctl *ctl, const struct model_step *loop,
                               const struct model_step *items, uint32_t count, bool backward)
{
    const char *said[8];
    uint32_t counts[8] = {0}, kinds = 0;
    for (uint32_t i = count; i-- > 0;) {
        const char *left = undo_left(&items[i], backward);
        uint32_t kind = 0;
        if (left && count <= MODEL_ITEMS_SHOWN)
            line_add(ctl, "  " STR_FMT " %s.", STR_ARG(items[i].id), left);
        while (left && kind < kinds && strcmp(said[kind], left) != 0)
            kind++;
        if (!left || kind == ARRAY_LEN(said))
            continue;
        if (kind == kinds)
            said[kinds++] = left;
        counts[kind]++;
    }
    for (uint32_t kind = 0; kind < kinds && count > MODEL_ITEMS_SHOWN; kind++)
        line_add(ctl, "  " STR_FMT " of " STR_FMT "%s %s.",
                 STR_ARG(text_count(counts[kind], "item", &ctl->scratch)), STR_ARG(loop->id),
                 counts[kind] > 1 ? ": each" : "", said[kind]);
}

static void undo_prospects_explain(struct ctl *ctl, const struct model_run *run)
{
    if (model_is_terminal(run->state))
        return;
    bool backward = run->cause.len > 0;
    size_t before = ctl->out.len;
    show_heading(ctl, backward ? "What is still to be undone" : "If it turned back now");
    size_t start = ctl->out.len;
    for (uint32_t end = run->steps_count; end > 0;) {
        uint32_t items = model_items_before(run, end);
        const struct model_step *step = &run->steps[end - items - 1];
        /* A loop itself does nothing: its items are what can be undone. */
        const char *left = items ? NULL : undo_left(step, backward);
        undo_items_explain(ctl, step, step + 1, items, backward);
        if (left && !step->items)
            line_add(ctl, "  " STR_FMT " %s.", STR_ARG(step->label), left);
        end -= items + 1;
    }
    bool any = ctl->out.len > start;
    if (!any)
        ctl->out.len = before;
    if (!any && !backward) {
        show_heading(ctl, "If it turned back now");
        line_add(ctl, "  Nothing would have to be undone.");
    }
}

static int run_explain(struct ctl *ctl)
{
    struct ctl_run found;
    int code = ctl_run_find(ctl, ctl->args[0], &found);
    if (code)
        return code;
    struct model_run *run = &found.run;
    struct arena *arena = &ctl->scratch;
    ctl_run_reason_fill(ctl, run, NULL);
    line_add(ctl, "Run " STR_FMT " of workflow " STR_FMT " (version " STR_FMT ") %s.",
             STR_ARG(run->id), STR_ARG(run->workflow), STR_ARG(run->version), state_sentence(run));
    if (wall_is_set(run->created_at))
        line_add(ctl, "It %s " STR_FMT " ago%s" STR_FMT ".",
                 str_eq_z(run->state, "queued") ? "was submitted" : "started",
                 STR_ARG(text_age(run->created_at, ctl_now(), arena)),
                 wall_is_set(run->ended_at) ? " and took " : "",
                 STR_ARG(wall_is_set(run->ended_at)
                             ? text_duration(run->ended_at.us - run->created_at.us, arena)
                             : STR("")));
    struct model_run folded = *run;
    model_fold_loops(&folded, arena);
    happened_explain(ctl, &folded);
    waiting_explain(ctl, run);
    undo_prospects_explain(ctl, run);
    show_residue(ctl, run);
    show_next(ctl, run);
    if (ctl_format_is_json(ctl))
        words_wrap(ctl, "run_id", run->id);
    return CTL_OK;
}

/* --- a code, the states ------------------------------------------------------------------------
 */

/* A letter and three digits: meant as a code, whether there is one. */
static bool looks_like_code(const char *text)
{
    return isalpha((unsigned char)text[0]) && strlen(text) == 4 &&
           strspn(text + 1, "0123456789") == 3;
}

static bool is_code(const char *text)
{
    return (text[0] == 'E' || text[0] == 'W') && looks_like_code(text);
}

/* The codes of a letter from one number on, as many as there are below another. */
static struct str codes_list(struct ctl *ctl, char letter, unsigned from, unsigned below)
{
    struct buf list = {0};
    for (unsigned n = from; n < below; n++) {
        char code[8];
        snprintf(code, sizeof(code), "%c%03u", letter, n);
        if (dsl_explain(code))
            buf_printf(&list, "%s%s", list.len ? " " : "", code);
    }
    struct str text = arena_str(&ctl->scratch, buf_str(&list));
    buf_free(&list);
    return text;
}

/* Which codes there are instead. */
static void code_hint(struct ctl *ctl, const char *code)
{
    char letter = (char)toupper((unsigned char)code[0]);
    unsigned hundred = (unsigned)(code[1] - '0') * 100;
    struct str upper = arena_printf(&ctl->scratch, "%c%s", letter, code + 1);
    struct str alike = codes_list(ctl, letter, hundred, hundred + 100);
    if (dsl_explain(upper.ptr))
        ctl_hint(ctl, "  the code is written with a capital: sagactl explain " STR_FMT,
                 STR_ARG(upper));
    else if (alike.len)
        ctl_hint(ctl, "  of its kind there are " STR_FMT, STR_ARG(alike));
    else
        ctl_hint(ctl, "  a code is E (an error) or W (a warning) with the number that validate "
                      "prints: E0.. about YAML, E1.. the form, E2.. expressions, E3.. the saga, "
                      "E4.. tests");
}

static int code_explain(struct ctl *ctl, const char *code)
{
    const char *page = dsl_explain(code);
    if (!page) {
        ctl_say(ctl, "there is no diagnostic with the code %s", code);
        code_hint(ctl, code);
        return CTL_NOT_FOUND;
    }
    buf_add_z(&ctl->out, page);
    if (ctl->out.data[ctl->out.len - 1] != '\n')
        buf_add_char(&ctl->out, '\n');
    if (ctl_format_is_json(ctl))
        words_wrap(ctl, "code", str_z(code));
    return CTL_OK;
}

static void transition_json(struct buf *out, const struct run_transition *transition)
{
    buf_add_z(out, "{\"from\":");
    if (transition->from == RUN_NONE)
        buf_add_z(out, "null");
    else
        json_write_string(str_z(run_state_name(transition->from)), out);
    buf_add_z(out, ",\"to\":");
    json_write_string(str_z(run_state_name(transition->to)), out);
    buf_add_z(out, ",\"why\":");
    json_write_string(str_z(transition->why), out);
    buf_add_char(out, '}');
}

static int states_explain(struct ctl *ctl)
{
    struct table table = {0};
    struct buf list = {0};
    table_column(&table, "FROM");
    table_column(&table, "TO");
    table_column(&table, "WHY");
    buf_add_z(&list, "{\"transitions\":[");
    for (size_t i = 0; i < run_transitions_count; i++) {
        const struct run_transition *transition = &run_transitions[i];
        struct str from = transition->from == RUN_NONE ? STR("(submit)")
                                                       : str_z(run_state_name(transition->from));
        struct str to = str_z(run_state_name(transition->to));
        table_add(&table, from, text_state_paint(from));
        table_add(&table, to, text_state_paint(to));
        table_add(&table, str_z(transition->why), PAINT_NONE);
        buf_add_z(&list, i ? "," : "");
        transition_json(&list, transition);
        if (ctl->format == CTL_FORMAT_JSONL) {
            transition_json(&ctl->out, transition);
            buf_add_char(&ctl->out, '\n');
        }
    }
    buf_add_z(&list, "]}");
    if (ctl->format == CTL_FORMAT_JSON)
        ctl_print_document(ctl, buf_str(&list));
    else if (ctl->format != CTL_FORMAT_JSONL)
        table_print(&table, ctl);
    buf_free(&list);
    table_free(&table);
    return CTL_OK;
}

int ctl_verb_explain(struct ctl *ctl)
{
    bool states = ctl_has(ctl, OPT_STATES);
    if (states == (ctl->args_count > 0))
        return ctl_usage(ctl, states ? "give --states or an argument, not both"
                                     : "explain needs a RUN, a CODE or --states");
    if (states)
        return states_explain(ctl);
    if (is_code(ctl->args[0]))
        return code_explain(ctl, ctl->args[0]);
    int code = run_explain(ctl);
    if ((code == CTL_NOT_FOUND || code == CTL_UNREACHABLE) && looks_like_code(ctl->args[0]))
        code_hint(ctl, ctl->args[0]);
    return code;
}
