#include "engine/schedule.h"

#include "engine/base/cron.h"
#include "engine/log.h"
#include "engine/tick.h"

#include <stdlib.h>

#define LOOK_US SECOND_US
#define SCHEDULE_MAGIC 0x7363686du

/* A scheduled workflow whose shard is ours. */
struct entry {
    unsigned magic;
    struct entry *next;
    struct schedules *schedules;
    struct arena arena;
    struct str workflow;
    struct tick_state state;
    bool seen;
};

struct schedules {
    struct schedules_options o;
    struct loop_timer *timer;
    struct entry *entries;
    bool stopped;
};

static void look(void *arg);

struct schedules *schedules_new(const struct schedules_options *options)
{
    struct schedules *schedules = xcalloc(1, sizeof(*schedules));
    schedules->o = *options;
    schedules->timer = loop_timer_new(options->loop, look, schedules);
    loop_timer_set(schedules->timer, LOOK_US);
    return schedules;
}

void schedules_stop(struct schedules *schedules)
{
    schedules->stopped = true;
    loop_timer_stop(schedules->timer);
}

static void entry_free(struct entry *entry)
{
    arena_free(&entry->arena);
    free(entry);
}

void schedules_free(struct schedules *schedules)
{
    if (!schedules)
        return;
    while (schedules->entries) {
        struct entry *entry = schedules->entries;
        schedules->entries = entry->next;
        entry_free(entry);
    }
    loop_timer_free(schedules->timer);
    free(schedules);
}

static struct entry *entry_of(struct schedules *schedules, const struct plan *plan)
{
    struct entry *entry = schedules->entries;
    while (entry && !str_eq_z(entry->workflow, plan->workflow))
        entry = entry->next;
    if (!entry) {
        entry = xcalloc(1, sizeof(*entry));
        entry->magic = SCHEDULE_MAGIC;
        entry->schedules = schedules;
        entry->workflow = arena_str(&entry->arena, str_z(plan->workflow));
        entry->next = schedules->entries;
        schedules->entries = entry;
    }
    return entry;
}

/* False: it is lost, or the database refused the question. */
static bool answer_is_of_use(const struct entry *entry, const struct store_answer *answer)
{
    if (answer->err.code && answer->err.code != ERR_UNAVAILABLE)
        log_warn("schedule of \"" STR_FMT "\": %s", STR_ARG(entry->workflow), answer->err.text);
    return !answer->err.code && answer->text.ptr;
}

/* {"last", "busy_until"}, both RFC 3339; the second may be null. */
static void learned(void *arg, const struct store_answer *answer)
{
    struct arena scratch = {0};
    struct wall last = WALL_NONE, busy_until = WALL_NONE;
    const struct json *times;
    struct entry *entry;
    struct err err;
    CAST_OBJ(entry, arg, SCHEDULE_MAGIC);
    if (answer_is_of_use(entry, answer) && json_parse(answer->text, &scratch, &times, &err) == 0) {
        if (!wall_parse(json_get_text(times, "last"), &last))
            last = WALL_NONE;
        if (!wall_parse(json_get_text(times, "busy_until"), &busy_until))
            busy_until = WALL_NONE;
    }
    tick_learned(&entry->state, last, busy_until);
    arena_free(&scratch);
}

static void answered(void *arg, const struct store_answer *answer)
{
    enum tick_answer word = TICK_ANSWER_NONE;
    struct entry *entry;
    CAST_OBJ(entry, arg, SCHEDULE_MAGIC);
    if (answer_is_of_use(entry, answer))
        word = tick_answer_of(answer->text);
    if (word == TICK_ANSWER_SKIPPED)
        log_info("schedule of \"" STR_FMT "\": a tick is skipped, the run before it is open",
                 STR_ARG(entry->workflow));
    tick_answered(&entry->state, word);
}

static struct wall now_of(const struct schedules *schedules)
{
    return loop_wall(schedules->o.loop);
}

/* Where it stands; a schedule that is new or has changed begins now. */
static void entry_ask(struct entry *entry, const struct plan *plan)
{
    static const char *const overlaps[] = {"skip", "queue"};
    static const char *const catch_ups[] = {"none", "last", "all"};
    const struct plan_schedule *schedule = plan->schedule;
    struct arena scratch = {0};
    struct wall next = cron_next(schedule->cron, schedule->zone, now_of(entry->schedules));
    const char *params[] = {plan->workflow,
                            plan->hash_hex,
                            schedule->cron_text,
                            schedule->zone_name,
                            overlaps[schedule->overlap],
                            catch_ups[schedule->catch_up],
                            wall_is_set(next) ? wall_format(next, &scratch).ptr : NULL};
    store_pg_query(entry->schedules->o.store,
                   "select saga.schedule_get_v2($1, decode($2, 'hex'), $3, $4, $5, $6, "
                   "$7::timestamptz)",
                   params, ARRAY_LEN(params), learned, entry);
    arena_free(&scratch);
}

static int body_make(const struct schedules *schedules, const struct plan *plan, struct wall tick,
                     struct arena *arena, struct str *out, struct err *err)
{
    const struct json *input = json_object_new(arena, 0);
    struct str text = wall_format(tick, arena);
    struct expr_scope scope = {.index = -1,
                               .now = tick,
                               .started_at = tick,
                               .env = schedules->o.env,
                               .tick = json_string(arena, text)};
    if (plan->schedule->input &&
        template_render(plan->schedule->input, &scope, arena, &input, err) != 0)
        return err->code;
    struct json *body = json_object_new(arena, 2);
    json_object_add_z(body, "input", input);
    json_object_add_z(body, "tick", json_string(arena, text));
    *out = json_text(body, arena);
    return 0;
}

static void entry_tick(struct entry *entry, const struct plan *plan)
{
    struct schedules *schedules = entry->schedules;
    const struct plan_schedule *schedule = plan->schedule;
    struct wall tick = entry->state.tick;
    struct arena scratch = {0};
    struct str body;
    struct err err;
    if (body_make(schedules, plan, tick, &scratch, &body, &err) != 0) {
        log_error("schedule of \"%s\": the input cannot be made: %s", plan->workflow, err.text);
        tick_give_up(&entry->state);
        arena_free(&scratch);
        return;
    }
    struct wall next = cron_next(schedule->cron, schedule->zone, now_of(schedules));
    const char *params[] = {plan->workflow,
                            plan->hash_hex,
                            wall_format(tick, &scratch).ptr,
                            tick_run_id(str_z(plan->workflow), tick, &scratch).ptr,
                            body.ptr,
                            wall_is_set(next) ? wall_format(next, &scratch).ptr : NULL};
    store_pg_query(schedules->o.store,
                   "select saga.schedule_tick_v1($1, decode($2, 'hex'), $3::timestamptz, $4, "
                   "$5::json, $6::timestamptz)",
                   params, ARRAY_LEN(params), answered, entry);
    arena_free(&scratch);
}

static void plan_look(void *arg, const struct plan *plan)
{
    struct schedules *schedules = arg;
    uint64_t ours = runner_stats(schedules->o.runner).shards;
    if (!plan->schedule || !(ours >> shard_of(str_z(plan->workflow)) & 1))
        return;
    struct entry *entry = entry_of(schedules, plan);
    entry->seen = true;
    switch (tick_look(&entry->state, plan, now_of(schedules))) {
    case TICK_STEP_NONE: break;
    case TICK_STEP_LEARN: entry_ask(entry, plan); break;
    case TICK_STEP_START: entry_tick(entry, plan); break;
    }
}

static void look(void *arg)
{
    struct schedules *schedules = arg;
    if (schedules->stopped)
        return;
    for (struct entry *entry = schedules->entries; entry; entry = entry->next)
        entry->seen = false;
    if (store_pg_can_answer(schedules->o.store))
        plans_each(schedules->o.plans, plan_look, schedules);
    /* Whose shard went away, or whose schedule was removed, is asked for anew when it is back. */
    for (struct entry **at = &schedules->entries; *at;) {
        struct entry *entry = *at;
        if (entry->seen || entry->state.asking) {
            at = &entry->next;
            continue;
        }
        *at = entry->next;
        entry_free(entry);
    }
    loop_timer_set(schedules->timer, LOOK_US);
}
