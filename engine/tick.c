#include "engine/tick.h"

#include "engine/base/cron.h"

/* The newest tick after `last` that has come. After a long downtime the search begins near now. */
static struct wall newest(const struct plan_schedule *schedule, struct wall last, struct wall now)
{
    struct wall found = WALL_NONE;
    for (int64_t span_us = DAY_US; !wall_is_set(found); span_us *= 8) {
        struct wall from = {MAX(last.us, now.us - span_us)};
        for (struct wall at = cron_next(schedule->cron, schedule->zone, from); wall_passed(at, now);
             at = cron_next(schedule->cron, schedule->zone, at))
            found = at;
        if (from.us == last.us)
            break;
    }
    return found;
}

struct wall tick_due(const struct plan_schedule *schedule, struct wall last, struct wall now,
                     bool queued)
{
    struct wall tick = cron_next(schedule->cron, schedule->zone, last);
    if (!wall_passed(tick, now))
        return WALL_NONE;
    if (queued || schedule->catch_up == CATCH_UP_ALL)
        return tick;
    tick = newest(schedule, last, now);
    bool missed = now.us - tick.us > TICK_GRACE_US;
    return missed && schedule->catch_up == CATCH_UP_NONE ? WALL_NONE : tick;
}

struct str tick_run_id(struct str workflow, struct wall tick, struct arena *arena)
{
    struct str text = wall_format((struct wall){tick.us - tick.us % SECOND_US}, arena);
    /* 2026-10-25T02:30:00Z without what a run id does not need. */
    char *compact = arena_alloc(arena, text.len + 1);
    size_t len = 0;
    for (size_t i = 0; i < text.len; i++)
        if (text.ptr[i] != '-' && text.ptr[i] != ':')
            compact[len++] = text.ptr[i];
    return arena_printf(arena, STR_FMT "-%.*s", STR_ARG(workflow), (int)len, compact);
}
