/*
 * schedule.c: retry schedules and the undo plan in plain words, for `sagactl validate`.
 */
#include "dsl/lint.h"

#include "engine/base/cron.h"

#define SENDS_SHOWN 12
#define NAMES_SHOWN 12

static void time_print(int64_t us, struct buf *out)
{
    static const struct {
        int64_t us;
        const char *name;
    } units[] = {{DAY_US, "d"}, {HOUR_US, "h"}, {MINUTE_US, "min"}, {SECOND_US, "s"}};
    bool first = true;
    if (us < MINUTE_US) {
        buf_printf(out, "%lld", (long long)(us / SECOND_US));
        us %= SECOND_US;
        for (int64_t unit = SECOND_US / 10; us >= MS_US; us %= unit, unit /= 10)
            buf_printf(out, "%s%lld", unit == SECOND_US / 10 ? "." : "", (long long)(us / unit));
        buf_add_z(out, " s");
        return;
    }
    for (size_t i = 0; i < ARRAY_LEN(units); i++) {
        int64_t count = us / units[i].us;
        us -= count * units[i].us;
        if (!count)
            continue;
        buf_printf(out, "%s%lld %s", first ? "" : " ", (long long)count, units[i].name);
        first = false;
    }
}

/* When each answer is at once a failure; jitter spreads these times. */
static void sends_print(const struct plan_action *action, struct buf *out)
{
    const struct plan_retry *retry = &action->retry;
    int64_t at = 0, delay = retry->delay_us;
    uint32_t sent = 0;
    buf_add_z(out, "sends at ");
    for (uint32_t i = 0; i < retry->attempts; i++) {
        if (i > 0 && (at + delay >= retry->budget_us || at + delay < at))
            break;
        if (i > 0) {
            at += delay;
            delay = (int64_t)MIN((__int128)delay * retry->factor_milli / 1000,
                                 (__int128)retry->max_delay_us);
        }
        sent++;
        if (sent > SENDS_SHOWN)
            continue;
        if (i > 0)
            buf_add_z(out, ", ");
        time_print(at, out);
    }
    if (sent > SENDS_SHOWN)
        buf_printf(out, ", ... (%u in all)", sent);
    buf_add_z(out, "; gives up after ");
    time_print(MIN(at + action->timeout_us, retry->budget_us), out);
}

static void wait_for_print(const struct plan_action *action, struct buf *out)
{
    buf_printf(out, "waits for the signal `%s`", action->wait_for.signal);
    if (!action->timeout_us) {
        buf_add_z(out, ", without a limit");
        return;
    }
    buf_add_z(out, " at most ");
    time_print(action->timeout_us, out);
    switch (action->wait_for.on_timeout) {
    case ON_TIMEOUT_CONTINUE: buf_add_z(out, ", then goes on without it"); break;
    case ON_TIMEOUT_PARK: buf_add_z(out, ", then the run parks"); break;
    case ON_TIMEOUT_REFUSED:
    case ON_TIMEOUT_NONE: buf_add_z(out, ", then it has failed"); break;
    }
}

static void action_print(const struct plan_action *action, struct buf *out)
{
    switch (action->kind) {
    case ACTION_SLEEP:
        if (!action->sleep.duration_us) {
            buf_add_z(out, "sleeps as long as the run says");
            break;
        }
        buf_add_z(out, "sleeps ");
        time_print(action->sleep.duration_us, out);
        break;
    case ACTION_UNTIL: buf_add_z(out, "waits until the time that the run says"); break;
    case ACTION_WAIT_FOR: wait_for_print(action, out); break;
    case ACTION_CHILD:
        buf_printf(out, "starts `%s`%s", action->child.workflow,
                   action->child.detached ? ", which runs on by itself" : " and waits for its end");
        if (action->timeout_us) {
            buf_add_z(out, ", at most ");
            time_print(action->timeout_us, out);
        }
        break;
    case ACTION_NONE:
    case ACTION_HTTP:
    case ACTION_SQL:
    case ACTION_EXEC:
    case ACTION_WORKER: sends_print(action, out); break;
    }
}

static size_t id_width(const struct plan *plan)
{
    size_t width = 0;
    for (uint16_t i = 0; i < plan->steps_count; i++)
        width = MAX(width, strlen(plan->steps[i].id));
    return width;
}

static void schedule_print(const struct plan *plan, size_t width, struct buf *out)
{
    buf_add_z(out, "Retries (when every attempt fails at once; delays are spread by the jitter)\n");
    for (uint16_t i = 0; i < plan->steps_count; i++) {
        const struct plan_step *step = &plan->steps[i];
        buf_printf(out, "  %-*s  ", (int)width, step->id);
        if (step->for_each && step->max_parallel > 1)
            buf_printf(out, "for each item, %u at a time: ", step->max_parallel);
        else if (step->for_each)
            buf_add_z(out, "for each item, one after the other: ");
        action_print(&step->action, out);
        buf_add_char(out, '\n');
        if (step->compensate.kind == ACTION_NONE)
            continue;
        buf_printf(out, "  %-*s  undo: ", (int)width, "");
        if (step->compensate.kind == ACTION_CHILD)
            buf_printf(out, "the compensations of `%s`", step->compensate.child.workflow);
        else
            sends_print(&step->compensate, out);
        buf_add_char(out, '\n');
    }
}

enum lot { LOT_OTHER, LOT_UNDONE, LOT_KEPT, LOT_BESIDE };

/* Who runs before whom, and what would become of each step when one fails. */
struct undo {
    const struct plan *plan;
    bool *before;   /* [later * count + earlier] */
    enum lot *lots; /* of the step that is looked at */
};

static bool is_before(const struct undo *undo, uint16_t earlier, uint16_t later)
{
    return undo->before[(size_t)later * undo->plan->steps_count + earlier];
}

/* Needs stand above, so what is before them is known already. */
static void before_fill(struct undo *undo)
{
    const struct plan *plan = undo->plan;
    for (uint16_t i = 0; i < plan->steps_count; i++) {
        bool *row = undo->before + (size_t)i * plan->steps_count;
        for (uint16_t n = 0; n < plan->steps[i].needs_count; n++) {
            uint16_t need = plan->steps[i].needs[n];
            row[need] = true;
            for (uint16_t j = 0; j < need; j++)
                row[j] = row[j] || is_before(undo, j, need);
        }
    }
}

/* Steps that neither need this one nor are needed by it may have run as well. */
static void lots_fill(struct undo *undo, uint16_t index)
{
    for (uint16_t i = 0; i < undo->plan->steps_count; i++) {
        const struct plan_step *step = &undo->plan->steps[i];
        bool undone = step->compensate.kind != ACTION_NONE;
        undo->lots[i] = LOT_OTHER;
        if (i == index || step->action.effect == EFFECT_PURE)
            continue;
        if (is_before(undo, i, index))
            undo->lots[i] = undone ? LOT_UNDONE : LOT_KEPT;
        else if (undone && !is_before(undo, index, i))
            undo->lots[i] = LOT_BESIDE;
    }
}

static void names_print(const struct undo *undo, enum lot lot, const char *intro, struct buf *out)
{
    uint32_t count = 0;
    for (uint16_t i = undo->plan->steps_count; i-- > 0;) {
        if (undo->lots[i] != lot)
            continue;
        if (count < NAMES_SHOWN)
            buf_printf(out, "%s%s", count ? ", " : intro, undo->plan->steps[i].id);
        count++;
    }
    if (count > NAMES_SHOWN)
        buf_printf(out, ", ... (%u in all)", count);
}

static void undo_print(struct undo *undo, uint16_t index, struct buf *out)
{
    const struct plan *plan = undo->plan;
    const struct plan_action *action = &plan->steps[index].action;
    bool signal = action->kind == ACTION_WAIT_FOR;
    if ((action->kind == ACTION_SLEEP && action->sleep.duration_us) ||
        (signal && (!action->timeout_us || action->wait_for.on_timeout == ON_TIMEOUT_CONTINUE)) ||
        (action->kind == ACTION_CHILD && action->child.detached)) {
        buf_add_z(out, "cannot fail\n");
        return;
    }
    if (signal && action->wait_for.on_timeout == ON_TIMEOUT_PARK) {
        buf_add_z(out, "nothing: the run parks\n");
        return;
    }
    switch (plan->steps[index].on_failure) {
    case ON_FAILURE_CONTINUE: buf_add_z(out, "nothing: the run goes on\n"); return;
    case ON_FAILURE_PARK: buf_add_z(out, "nothing: the run parks\n"); return;
    case ON_FAILURE_REPAIR: buf_add_z(out, "nothing: the run parks for corrected input\n"); return;
    case ON_FAILURE_COMPENSATE:
    case ON_FAILURE_NONE: break;
    }
    for (uint16_t i = 0; i < plan->steps_count; i++)
        if (plan->steps[i].pivot && is_before(undo, i, index)) {
            buf_printf(out, "nothing: the run parks, because `%s` is the point of no return\n",
                       plan->steps[i].id);
            return;
        }
    size_t start = out->len;
    lots_fill(undo, index);
    bool items = plan->steps[index].for_each && plan->steps[index].compensate.kind != ACTION_NONE;
    if (items)
        buf_add_z(out, "undoes its other items");
    names_print(undo, LOT_UNDONE, items ? ", " : "undoes ", out);
    names_print(undo, LOT_BESIDE, out->len > start ? "; if it ran, also " : "undoes, if it ran, ",
                out);
    if (out->len == start)
        buf_add_z(out, "nothing to undo");
    names_print(undo, LOT_KEPT, "; cannot undo ", out);
    buf_add_char(out, '\n');
}

void dsl_print_schedule(const struct plan *plan, struct buf *out)
{
    struct arena scratch = {0};
    struct undo undo = {.plan = plan};
    size_t count = plan->steps_count, width = id_width(plan);
    undo.before = arena_array(&scratch, bool, count *count);
    undo.lots = arena_array(&scratch, enum lot, count);
    before_fill(&undo);
    schedule_print(plan, width, out);
    buf_add_z(out, "\nUndo plan (what follows when the step fails for good)\n");
    for (uint16_t i = 0; i < plan->steps_count; i++) {
        buf_printf(out, "  %-*s  ", (int)width, plan->steps[i].id);
        undo_print(&undo, i, out);
    }
    arena_free(&scratch);
}

#define TICKS_SHOWN 3
#define CHANGES_US (366 * DAY_US) /* how far ahead changes of the clocks are told */

/* One change of the clocks, at `change`, if a tick falls into what they skip or show twice. */
static void change_print(const struct plan_schedule *schedule, struct wall change, int32_t before,
                         struct arena *scratch, struct buf *out)
{
    int32_t after = zone_offset(schedule->zone, change);
    int64_t from_us = change.us + MIN(before, after) * SECOND_US,
            to_us = change.us + MAX(before, after) * SECOND_US;
    /* Local times are looked at as if they were UTC's. */
    struct wall local = cron_next(schedule->cron, zone_utc(), (struct wall){from_us - 1});
    if (!wall_is_set(local) || local.us >= to_us)
        return;
    struct str text = wall_format(local, scratch);
    buf_printf(out, "  %.10s the clocks %s %.5s%s: ", text.ptr, after > before ? "skip" : "show",
               text.ptr + 11, after > before ? "" : " twice");
    if (after > before)
        buf_printf(out, "that run starts at %.5s\n",
                   zone_format(schedule->zone, change, scratch).ptr + 11);
    else
        buf_add_z(out, "the run starts at the first\n");
}

/* A schedule of every hour goes by the time that passes: nothing is special about changes. */
static void changes_print(const struct plan_schedule *schedule, struct wall now,
                          struct arena *scratch, struct buf *out)
{
    struct zone_stretch stretch = zone_stretch_at(schedule->zone, now);
    while (!cron_is_hourly(schedule->cron) && stretch.end_us < now.us + CHANGES_US) {
        struct wall change = {stretch.end_us};
        change_print(schedule, change, stretch.offset, scratch, out);
        stretch = zone_stretch_at(schedule->zone, change);
    }
}

void dsl_print_ticks(const struct plan *plan, struct wall now, struct buf *out)
{
    const struct plan_schedule *schedule = plan->schedule;
    struct arena scratch = {0};
    struct wall tick = now;
    if (!schedule)
        return;
    buf_printf(out, "\nSchedule (`%s` in %s; the next runs)\n", schedule->cron_text,
               schedule->zone_name);
    for (int i = 0; i < TICKS_SHOWN; i++) {
        tick = cron_next(schedule->cron, schedule->zone, tick);
        if (!wall_is_set(tick))
            break;
        buf_printf(out, "  " STR_FMT "\n", STR_ARG(zone_format(schedule->zone, tick, &scratch)));
    }
    changes_print(schedule, now, &scratch, out);
    arena_free(&scratch);
}
