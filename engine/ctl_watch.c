/*
 * ctl_watch.c: a run as a picture that is redrawn in place.
 *
 * The state is asked for a few times a second; between two answers only the clock and the spinner
 * move. Each line is cut to the terminal's width, each frame to its height; after a resize the
 * rows that the old frame takes now are counted anew, so that nothing of it stays.
 */
#include "engine/ctl_runs.h"
#include "engine/ctl_text.h"

#include <stdlib.h>
#include <unistd.h>

#define FRAME_US (100 * MS_US)
#define POLL_FRAMES 3 /* the daemon is asked every third frame */
#define ID_COLUMNS_MAX 24
#define FRAME_LINES_MAX 1024 /* of a frame, 500 steps and what stands around them */

struct watch {
    struct ctl *ctl;
    struct ctl_run *shown;
    struct wall now;
    unsigned frame;
    struct wall trouble_since;
    size_t columns;
    size_t widths[FRAME_LINES_MAX]; /* of the lines on the screen */
    size_t lines;
    size_t room; /* left in the line being written */
};

/* --- symbols --------------------------------------------------------------------------------- */

static const char *phase_symbol(enum model_phase phase, bool utf8, unsigned frame)
{
    static const char *const spinner[] = {"⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"};
    static const char *const spinner_ascii[] = {"|", "/", "-", "\\"};
    switch (phase) {
    case MODEL_PENDING: return utf8 ? "○" : ".";
    case MODEL_SENDING:
        return utf8 ? spinner[frame % ARRAY_LEN(spinner)]
                    : spinner_ascii[frame % ARRAY_LEN(spinner_ascii)];
    case MODEL_RETRYING:
    case MODEL_WAITING: return utf8 ? "◷" : "~";
    case MODEL_UNKNOWN:
    case MODEL_UNDO_UNKNOWN: return "?";
    case MODEL_APPLIED: return utf8 ? "✓" : "+";
    case MODEL_REFUSED:
    case MODEL_UNDO_FAILED: return utf8 ? "✗" : "x";
    case MODEL_SKIPPED:
    case MODEL_WITHDRAWN:
    case MODEL_UNDO_SKIPPED: return utf8 ? "–" : "-";
    case MODEL_UNDOING:
    case MODEL_UNDO_RETRYING:
    case MODEL_UNDONE: return utf8 ? "↶" : "<";
    }
    return " ";
}

static enum paint phase_paint(enum model_phase phase)
{
    switch (phase) {
    case MODEL_PENDING:
    case MODEL_SKIPPED:
    case MODEL_WITHDRAWN:
    case MODEL_UNDO_SKIPPED: return PAINT_DIM;
    case MODEL_SENDING: return PAINT_BLUE;
    case MODEL_RETRYING:
    case MODEL_WAITING:
    case MODEL_UNDOING:
    case MODEL_UNDO_RETRYING:
    case MODEL_UNDONE: return PAINT_YELLOW;
    case MODEL_UNKNOWN:
    case MODEL_UNDO_UNKNOWN: return PAINT_MAGENTA;
    case MODEL_APPLIED: return PAINT_GREEN;
    case MODEL_REFUSED:
    case MODEL_UNDO_FAILED: return PAINT_RED;
    }
    return PAINT_NONE;
}

/* --- lines ----------------------------------------------------------------------------------- */

static void line_begin(struct watch *watch)
{
    watch->room = watch->columns - 1; /* the last column would wrap on some terminals */
}

/* Adds text, and spaces up to `columns`, as far as there is room. */
static void line_add(struct watch *watch, enum paint paint, struct str text, size_t columns)
{
    struct ctl *ctl = watch->ctl;
    text_paint(&ctl->out, ctl->color, paint);
    size_t width = text_add_cut(&ctl->out, text, watch->room);
    text_unpaint(&ctl->out, ctl->color, paint);
    watch->room -= width;
    size_t gap = MIN(columns - MIN(columns, width), watch->room);
    text_add_spaces(&ctl->out, gap);
    watch->room -= gap;
}

static void line_end(struct watch *watch)
{
    buf_add_z(&watch->ctl->out, "\033[K\n");
    if (watch->lines < FRAME_LINES_MAX)
        watch->widths[watch->lines++] = watch->columns - 1 - watch->room;
}

/* --- content --------------------------------------------------------------------------------- */

static void header_draw(struct watch *watch)
{
    const struct model_run *run = &watch->shown->run;
    struct arena *arena = &watch->ctl->scratch;
    struct wall until = wall_is_set(run->ended_at) ? run->ended_at : watch->now;
    line_begin(watch);
    line_add(watch, PAINT_BOLD, run->id, text_width(run->id) + 2);
    line_add(watch, PAINT_NONE, run->workflow, text_width(run->workflow) + 2);
    line_add(watch, text_state_paint(run->state), run->state, text_width(run->state) + 2);
    if (run->paused)
        line_add(watch, PAINT_YELLOW, STR("paused"), 8);
    if (wall_is_set(run->created_at))
        line_add(watch, PAINT_DIM, text_duration(until.us - run->created_at.us, arena), 0);
    line_end(watch);
}

/* "retry in 3.2s", where the time is known. */
static struct str phase_text(struct watch *watch, const struct model_step *step,
                             enum model_phase phase)
{
    struct arena *arena = &watch->ctl->scratch;
    const char *word = model_step_word(step);
    if (wall_is_set(step->unknown.next_at)) {
        int64_t left_us = step->unknown.next_at.us - watch->now.us;
        return left_us <= 0 ? STR("unknown, asking")
                            : arena_printf(arena, "unknown, asks in " STR_FMT,
                                           STR_ARG(text_duration(left_us, arena)));
    }
    if (!wall_is_set(step->next_at) || strcmp(word, model_phase_word(phase)) != 0)
        return str_z(word);
    struct str left = text_duration(step->next_at.us - watch->now.us, arena);
    if (phase == MODEL_RETRYING)
        return arena_printf(arena, "retry in " STR_FMT, STR_ARG(left));
    if (phase == MODEL_UNDO_RETRYING)
        return arena_printf(arena, "undo again in " STR_FMT, STR_ARG(left));
    if (phase == MODEL_WAITING)
        return arena_printf(arena, "waits " STR_FMT, STR_ARG(left));
    return str_z(word);
}

static void step_draw(struct watch *watch, const struct model_step *step, size_t id_columns)
{
    struct ctl *ctl = watch->ctl;
    struct arena *arena = &ctl->scratch;
    enum model_phase phase = model_phase_of(step);
    enum paint paint = phase_paint(phase);
    int64_t attempts = step->attempts, took_us;
    if (phase >= MODEL_UNDOING && step->compensation_attempts)
        attempts = step->compensation_attempts;
    line_begin(watch);
    line_add(watch, PAINT_NONE, STR(" "), 1);
    line_add(watch, paint, str_z(phase_symbol(phase, ctl->utf8, watch->frame)), 2);
    struct buf id = {0};
    text_add_cut(&id, step->short_label, ID_COLUMNS_MAX);
    line_add(watch, PAINT_NONE, buf_str(&id), id_columns + 2);
    buf_free(&id);
    struct str doing = phase_text(watch, step, phase);
    line_add(watch, paint, doing, MAX(text_width(doing) + 2, (size_t)15));
    if (attempts > 1 && !step->folded.len)
        line_add(watch, PAINT_DIM, text_count(attempts, "attempt", arena), 13);
    if (model_phase_took(step, watch->now, &took_us)) {
        struct str took = text_duration(took_us, arena);
        line_add(watch, PAINT_DIM, took, MAX(text_width(took) + 2, (size_t)9));
    }
    line_add(watch, PAINT_DIM,
             step->folded.len ? step->folded : model_error_text(model_phase_error(step), arena), 0);
    line_end(watch);
}

static void note_draw(struct watch *watch, enum paint paint, struct str text)
{
    line_begin(watch);
    line_add(watch, PAINT_NONE, STR(" "), 1);
    line_add(watch, paint, text, 0);
    line_end(watch);
}

static void footer_draw(struct watch *watch)
{
    const struct model_run *run = &watch->shown->run;
    struct arena *arena = &watch->ctl->scratch;
    const char *cause = model_cause_text(run->cause), *reason = model_reason_text(run->reason);
    if (cause)
        note_draw(watch, PAINT_YELLOW, arena_printf(arena, "turned back: %s", cause));
    bool queued = str_eq_z(run->state, "queued");
    if (run->waiting_for.len && (queued || str_eq_z(run->waiting_for, "lock")))
        note_draw(
            watch, PAINT_YELLOW,
            arena_printf(arena, "waits for " STR_FMT, STR_ARG(model_waiting_text(run, arena))));
    if (run->behind.run.len) {
        note_draw(watch, PAINT_RED, model_behind_text(run, arena));
        note_draw(
            watch, PAINT_NONE,
            arena_printf(arena, "next: sagactl dead show " STR_FMT, STR_ARG(run->behind.run)));
    }
    if (str_eq_z(run->state, "parked")) {
        if (reason)
            note_draw(watch, PAINT_RED, arena_printf(arena, "parked: %s", reason));
        note_draw(watch, PAINT_NONE,
                  arena_printf(arena, "next: sagactl dead show " STR_FMT, STR_ARG(run->id)));
    }
    if (wall_is_set(watch->trouble_since))
        note_draw(watch, PAINT_RED, STR("the daemon cannot answer now; trying again"));
}

#define CHILDREN_DRAWN_MAX 3

/* Children that are still open: (index of the next one from `from` on, or the count). */
static uint32_t child_next(const struct model_run *run, uint32_t from)
{
    uint32_t count = run->children ? run->children->count : 0;
    while (from < count && model_is_terminal(json_get_text(run->children->items[from], "state")))
        from++;
    return from;
}

static size_t children_draw(struct watch *watch, bool draw)
{
    const struct model_run *run = &watch->shown->run;
    uint32_t count = run->children ? run->children->count : 0;
    size_t drawn = 0;
    for (uint32_t i = child_next(run, 0); i < count && drawn < CHILDREN_DRAWN_MAX;
         i = child_next(run, i + 1)) {
        const struct json *child = run->children->items[i];
        struct str state = json_get_text(child, "state");
        drawn++;
        if (!draw)
            continue;
        line_begin(watch);
        line_add(watch, PAINT_DIM, STR(" child"), 7);
        line_add(watch, PAINT_NONE, json_get_text(child, "run_id"),
                 text_width(json_get_text(child, "run_id")) + 2);
        line_add(watch, text_state_paint(state), state, 0);
        line_end(watch);
    }
    return drawn;
}

/* The steps that fit: those around the first one that something still happens to. */
static void window_choose(const struct model_run *run, size_t room, size_t *from, size_t *to)
{
    size_t center = 0;
    *from = 0;
    *to = run->steps_count;
    if (run->steps_count <= room)
        return;
    for (size_t i = 0; i < run->steps_count; i++)
        if (model_phase_of(&run->steps[i]) != MODEL_PENDING)
            center = i;
    for (size_t i = 0; i < run->steps_count; i++) {
        enum model_phase phase = model_phase_of(&run->steps[i]);
        if (phase == MODEL_SENDING || phase == MODEL_RETRYING || phase == MODEL_UNDOING ||
            phase == MODEL_UNDO_RETRYING || phase == MODEL_UNKNOWN)
            center = i;
    }
    room = room > 2 ? room - 2 : 1; /* the two lines that say what is left out */
    *from = center > room / 2 ? center - room / 2 : 0;
    *to = MIN(*from + room, (size_t)run->steps_count);
    *from = *to - room;
}

static void frame_draw(struct watch *watch, size_t rows)
{
    struct model_run folded = watch->shown->run, *run = &folded;
    struct arena *arena = &watch->ctl->scratch;
    size_t id_columns = 0, from, to;
    model_fold_loops(run, arena);
    watch->lines = 0;
    for (uint32_t i = 0; i < run->steps_count; i++)
        id_columns = MAX(id_columns, text_width(run->steps[i].short_label));
    id_columns = MIN(id_columns, (size_t)ID_COLUMNS_MAX);
    header_draw(watch);
    size_t taken = 8 + children_draw(watch, false);
    window_choose(run, rows > taken ? rows - taken : 1, &from, &to);
    if (from)
        note_draw(watch, PAINT_DIM, arena_printf(arena, "%zu earlier not shown", from));
    for (size_t i = from; i < to; i++)
        step_draw(watch, &run->steps[i], id_columns);
    if (to < run->steps_count)
        note_draw(watch, PAINT_DIM,
                  arena_printf(arena, "%zu later not shown", run->steps_count - to));
    children_draw(watch, true);
    footer_draw(watch);
    buf_add_z(&watch->ctl->out, "\033[J");
}

/* Back to the frame's first line, at the width that the terminal has now. */
static void frame_rewind(struct watch *watch)
{
    size_t rows = 0;
    watch->columns = MAX(text_columns(), (size_t)2);
    for (size_t i = 0; i < watch->lines; i++)
        rows += 1 + (watch->widths[i] ? (watch->widths[i] - 1) / watch->columns : 0);
    if (rows)
        buf_printf(&watch->ctl->out, "\033[%zuA", rows);
    buf_add_z(&watch->ctl->out, "\r");
}

static int frame_show(struct watch *watch, bool last)
{
    watch->now = ctl_now();
    frame_rewind(watch);
    frame_draw(watch, last ? SIZE_MAX : text_rows());
    return ctl_flush(watch->ctl);
}

/* --- turns ----------------------------------------------------------------------------------- */

/* Asks for the run's state. The old picture stays if there is no answer. */
static int shown_renew(struct watch *watch)
{
    struct ctl *ctl = watch->ctl;
    struct arena old = ctl->scratch;
    struct ctl_run fresh;
    struct err err;
    ctl->scratch = (struct arena){0};
    struct ctl_request request = {.method = "GET",
                                  .path = ctl_path(ctl, "/v1/runs/", watch->shown->run.id, "")};
    int code = ctl_call(ctl, &request, &fresh.reply, &err);
    bool passing = code == ERR_UNAVAILABLE || code == ERR_TIMEOUT ||
                   (!code && ctl_status_passes(fresh.reply.status));
    if (!code && fresh.reply.status == 200)
        code = ctl_run_read(ctl, &fresh, &err);
    if (!code && fresh.reply.status == 200) {
        *watch->shown = fresh;
        watch->trouble_since = WALL_NONE;
        arena_free(&old);
        return CTL_OK;
    }
    if (passing && !wall_is_set(watch->trouble_since))
        watch->trouble_since = ctl_now();
    int exit_code = CTL_OK;
    if (!passing || ctl_now().us - watch->trouble_since.us > CTL_PATIENCE_US)
        exit_code = code ? ctl_fail(ctl, &err) : ctl_refused(ctl, &fresh.reply);
    arena_free(&ctl->scratch);
    ctl->scratch = old;
    return exit_code;
}

static int watch_live(struct watch *watch, struct wall deadline)
{
    struct ctl *ctl = watch->ctl;
    for (;; watch->frame++) {
        bool over = model_is_over(watch->shown->run.state);
        bool late = !over && wall_passed(deadline, ctl_now());
        int code = frame_show(watch, over || late);
        if (code)
            return code;
        if (late) {
            ctl_say(ctl, "the wait timed out; the run goes on");
            return CTL_TIMEOUT;
        }
        if (over)
            return model_exit(watch->shown->run.state);
        usleep((useconds_t)FRAME_US);
        if (watch->frame % POLL_FRAMES == 0 && (code = shown_renew(watch)) != CTL_OK)
            return code;
    }
}

int ctl_run_watch(struct ctl *ctl, const struct ctl_run *first, struct wall deadline)
{
    struct ctl_run shown = *first;
    if (!ctl->terminal || (ctl->format != CTL_FORMAT_TABLE && ctl->format != CTL_FORMAT_WIDE))
        return ctl_run_follow(ctl, first->run.id, deadline);
    struct watch *watch = xcalloc(1, sizeof(*watch));
    watch->ctl = ctl;
    watch->shown = &shown;
    ctl_cursor_hide(ctl);
    int code = watch_live(watch, deadline);
    ctl_cursor_show(ctl);
    free(watch);
    return code;
}
