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

struct wall tick_due(const struct plan_schedule *schedule, struct wall last, struct wall busy_until,
                     struct wall now)
{
    struct wall tick = cron_next(schedule->cron, schedule->zone, last);
    if (!wall_passed(tick, now))
        return WALL_NONE;
    bool waits = schedule->overlap == OVERLAP_QUEUE && tick.us <= busy_until.us;
    if (waits || schedule->catch_up == CATCH_UP_ALL)
        return tick;
    tick = newest(schedule, last, now);
    bool missed = now.us - tick.us > TICK_GRACE_US;
    return missed && schedule->catch_up == CATCH_UP_NONE ? WALL_NONE : tick;
}

enum tick_answer tick_answer_of(struct str text)
{
    if (str_eq(text, STR("started")))
        return TICK_ANSWER_STARTED;
    if (str_eq(text, STR("skipped")))
        return TICK_ANSWER_SKIPPED;
    if (str_eq(text, STR("busy")))
        return TICK_ANSWER_BUSY;
    return str_eq(text, STR("other")) ? TICK_ANSWER_OTHER : TICK_ANSWER_NONE;
}

enum tick_step tick_look(struct tick_state *state, const struct plan *plan, struct wall now)
{
    if (state->asking)
        return TICK_STEP_NONE;
    if (!wall_is_set(state->last) || !sha256_eq(&state->hash, &plan->hash)) {
        *state = (struct tick_state){.hash = plan->hash, .asked_at = now, .asking = true};
        return TICK_STEP_LEARN;
    }
    struct wall tick = tick_due(plan->schedule, state->last, state->busy_until, now);
    if (!wall_is_set(tick))
        return TICK_STEP_NONE;
    state->tick = tick;
    state->asked_at = now;
    state->asking = true;
    return TICK_STEP_START;
}

void tick_learned(struct tick_state *state, struct wall last, struct wall busy_until)
{
    state->asking = false;
    state->last = last;
    state->busy_until = busy_until;
}

void tick_answered(struct tick_state *state, enum tick_answer answer)
{
    state->asking = false;
    switch (answer) {
    case TICK_ANSWER_STARTED:
        state->last = state->tick;
        state->busy_until = state->asked_at; /* ticks before now have waited with this one */
        break;
    case TICK_ANSWER_SKIPPED: state->last = state->tick; break;
    case TICK_ANSWER_BUSY: state->busy_until = state->asked_at; break;
    case TICK_ANSWER_NONE:
    case TICK_ANSWER_OTHER: /* another definition, or somebody else's tick */
        state->last = WALL_NONE;
        break;
    }
}

void tick_give_up(struct tick_state *state)
{
    state->asking = false;
    state->last = state->tick;
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
