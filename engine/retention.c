#include "engine/retention.h"

#include "engine/log.h"

#include <stdio.h>
#include <stdlib.h>

#define RETENTION_MAGIC 0x72657469u
#define REST_MIN_US (2 * SECOND_US)
#define REST_MAX_US (10 * MINUTE_US)
#define REST_FACTOR 10 /* at most a tenth of the time is spent on looking */
#define AGAIN_US (500 * MS_US)
#define FIND_RUNS 500
/* A batch is aimed at this time, and the next one waits so many times as long as it took: what runs
 * is worth more. */
#define BATCH_US (10 * MS_US)
#define BATCH_PAUSE 4
#define BATCH_MIN 4
#define BATCH_MAX 256

struct retention {
    unsigned magic;
    struct retention_options o;
    struct loop_timer *timer;
    bool asking, stopped, defined;
    char after[48], after_id[RUN_ID_BYTES_MAX + 1];
    int shard; /* where the walk goes on */
    struct mono began, asked_at;
    uint64_t removed; /* in this walk */
    /* What was found: families of runs, the root first. */
    struct arena arena;
    const struct json *found;
    uint32_t next, batch;           /* of `found`: the first one that is not dealt with */
    uint32_t held_from, held_count; /* under way: held back in the runner */
    bool *held;                     /* of those */
    uint64_t held_epoch;            /* under which; the hold ends with it */
    bool unsure;                    /* the answer was lost: the same batch is asked again */
};

static void step(void *arg);

struct retention *retention_new(const struct retention_options *options)
{
    struct retention *retention = xcalloc(1, sizeof(*retention));
    retention->magic = RETENTION_MAGIC;
    retention->o = *options;
    retention->batch = BATCH_MIN;
    retention->shard = -1;
    retention->timer = loop_timer_new(options->loop, step, retention);
    loop_timer_set(retention->timer, REST_MIN_US);
    return retention;
}

void retention_stop(struct retention *retention)
{
    retention->stopped = true;
    loop_timer_stop(retention->timer);
}

void retention_free(struct retention *retention)
{
    if (!retention)
        return;
    loop_timer_free(retention->timer);
    arena_free(&retention->arena);
    free(retention->held);
    free(retention);
}

static void go_on(struct retention *retention, int64_t after_us)
{
    if (!retention->stopped)
        loop_timer_set(retention->timer, after_us);
}

/* True if the answer is of no use; then it is asked again later. */
static bool answer_is_lost(struct retention *retention, const struct store_answer *answer)
{
    retention->asking = false;
    if (!answer->err.code)
        return false;
    if (answer->err.code != ERR_UNAVAILABLE)
        log_warn("retention: %s", answer->err.text);
    go_on(retention, AGAIN_US);
    return true;
}

static void ask(struct retention *retention, const char *sql, const char *const *params,
                unsigned count, store_answered *done)
{
    retention->asking = true;
    retention->asked_at = loop_mono();
    store_pg_query(retention->o.store, sql, params, count, done, retention);
}

static const char *interval_of(int64_t us, char out[48])
{
    snprintf(out, 48, "%lld microseconds", (long long)us);
    return out;
}

/* --- what definitions say --------------------------------------------------------------------- */

/* How long after the end of a run something may still come for it. */
static int64_t plan_window_us(const struct plan *plan)
{
    int64_t window_us = plan->compensatable_for_us;
    for (uint16_t i = 0; i < plan->steps_count; i++) {
        const struct plan_step *of = &plan->steps[i];
        window_us = MAX(window_us, MAX(of->action.timeout_us, of->compensate.timeout_us));
    }
    return window_us;
}

static void define_came(void *arg, const struct store_answer *answer);

static void define(struct retention *retention, const char *hash, const struct plan *plan)
{
    char retain[48], window[48];
    const char *params[] = {hash,
                            plan && plan->retain_us ? interval_of(plan->retain_us, retain) : NULL,
                            plan ? interval_of(plan_window_us(plan), window) : NULL};
    ask(retention, "select saga.retire_define_v1(decode($1, 'hex'), $2, $3)", params,
        ARRAY_LEN(params), define_came);
}

/* A definition whose `retain` the database does not know. One that does not compile any more gets
 * no `retain_after`: nothing is due after that, so its runs are kept. */
static void define_came(void *arg, const struct store_answer *answer)
{
    struct arena scratch = {0};
    struct retention *retention;
    const struct json *of;
    struct sha256 hash;
    struct err err;
    CAST_OBJ(retention, arg, RETENTION_MAGIC);
    if (answer_is_lost(retention, answer))
        return;
    if (!answer->text.ptr || json_parse(answer->text, &scratch, &of, &err) != 0) {
        retention->defined = true;
        go_on(retention, 0);
        arena_free(&scratch);
        return;
    }
    const char *hex = arena_str(&scratch, json_get_text(of, "hash")).ptr;
    const struct plan *plan = NULL;
    if (plans_learn(retention->o.plans, json_get_text(of, "source"), false, &err) != 0)
        log_warn("retention: the runs of workflow version %.12s are kept: %s", hex, err.text);
    else if (sha256_from_hex(str_z(hex), &hash))
        plan = plans_by_hash(retention->o.plans, &hash);
    if (!retention->stopped)
        define(retention, hex, plan);
    arena_free(&scratch);
}

/* --- what is due ------------------------------------------------------------------------------ */

static void walk_end(struct retention *retention)
{
    int64_t took_us = loop_mono().us - retention->began.us;
    if (retention->removed)
        log_info("retention: the data of %llu finished runs was removed",
                 (unsigned long long)retention->removed);
    retention->removed = 0;
    retention->shard = -1;
    retention->defined = false;
    go_on(retention, MIN(MAX(took_us * REST_FACTOR, REST_MIN_US), REST_MAX_US));
}

static void found_came(void *arg, const struct store_answer *answer)
{
    struct retention *retention;
    const struct json *found;
    struct err err;
    CAST_OBJ(retention, arg, RETENTION_MAGIC);
    if (answer_is_lost(retention, answer))
        return;
    arena_reset(&retention->arena);
    retention->found = NULL;
    retention->next = 0;
    if (!answer->text.ptr || json_parse(arena_str(&retention->arena, answer->text),
                                        &retention->arena, &found, &err) != 0) {
        walk_end(retention);
        return;
    }
    const struct json *shard = json_get_z(found, "shard");
    retention->found = json_get_z(found, "runs");
    retention->shard = -1;
    if (shard && shard->kind == JSON_NUMBER) {
        retention->shard = atoi(arena_str(&retention->arena, shard->text).ptr);
        snprintf(retention->after, sizeof(retention->after), STR_FMT,
                 STR_ARG(json_get_text(found, "after")));
        snprintf(retention->after_id, sizeof(retention->after_id), STR_FMT,
                 STR_ARG(json_get_text(found, "after_id")));
    }
    go_on(retention, 0);
}

static void find(struct retention *retention)
{
    char shards[24], retain[48], shard[16], limit[16];
    uint64_t ours = runner_stats(retention->o.runner).shards;
    bool first = retention->shard < 0;
    snprintf(shards, sizeof(shards), "%lld", (long long)(int64_t)ours);
    snprintf(shard, sizeof(shard), "%d", retention->shard);
    snprintf(limit, sizeof(limit), "%d", FIND_RUNS);
    const char *params[] = {shards,
                            retention->o.retain_us ? interval_of(retention->o.retain_us, retain)
                                                   : NULL,
                            first ? NULL : shard,
                            first ? NULL : retention->after,
                            first ? NULL : retention->after_id,
                            limit};
    if (first)
        retention->began = loop_mono();
    ask(retention, "select saga.retire_find_v1($1, $2, $3, $4, $5, $6, null)", params,
        ARRAY_LEN(params), found_came);
}

/* --- removing --------------------------------------------------------------------------------- */

static struct str root_of(const struct json *family)
{
    return family->items[0]->text;
}

static bool family_hold(struct retention *retention, const struct json *family)
{
    struct str *ids = arena_array(&retention->arena, struct str, family->count);
    for (uint32_t i = 0; i < family->count; i++)
        ids[i] = family->items[i]->text;
    return runner_hold(retention->o.runner, ids, family->count);
}

static void batch_release(struct retention *retention)
{
    for (uint32_t i = 0; i < retention->held_count; i++) {
        const struct json *family = retention->found->items[retention->held_from + i];
        for (uint32_t k = 0; retention->held[i] && k < family->count; k++)
            runner_unhold(retention->o.runner, family->items[k]->text);
    }
    retention->held_count = 0;
}

static void retired(void *arg, const struct store_answer *answer)
{
    struct retention *retention;
    CAST_OBJ(retention, arg, RETENTION_MAGIC);
    int64_t took_us = loop_mono().us - retention->asked_at.us;
    /* Without an answer the statement may still be running: its runs stay held until a second call,
     * which waits for the first, tells. */
    retention->unsure = answer->err.code == ERR_UNAVAILABLE;
    if (retention->unsure) {
        retention->asking = false;
        go_on(retention, AGAIN_US);
        return;
    }
    bool refused = answer_is_lost(retention, answer);
    batch_release(retention);
    if (refused)
        return;
    if (answer->text.ptr)
        retention->removed += strtoull(arena_str(&retention->arena, answer->text).ptr, NULL, 10);
    if (took_us > BATCH_US)
        retention->batch = MAX(retention->batch / 2, BATCH_MIN);
    else if (took_us < BATCH_US / 2)
        retention->batch = MIN(retention->batch * 2, BATCH_MAX);
    go_on(retention, took_us * BATCH_PAUSE);
}

static void batch_ask(struct retention *retention)
{
    char epoch[24], shard[8], retain[48];
    struct buf roots = {0};
    uint16_t of = shard_of(root_of(retention->found->items[retention->held_from]));
    snprintf(epoch, sizeof(epoch), "%llu", (unsigned long long)retention->held_epoch);
    snprintf(shard, sizeof(shard), "%u", of);
    buf_add_char(&roots, '{');
    for (uint32_t i = 0; i < retention->held_count; i++)
        if (retention->held[i])
            buf_printf(&roots, "%s\"" STR_FMT "\"", roots.len > 1 ? "," : "",
                       STR_ARG(root_of(retention->found->items[retention->held_from + i])));
    buf_add_char(&roots, '}');
    const char *params[] = {retention->o.daemon, epoch, shard, roots.data,
                            retention->o.retain_us ? interval_of(retention->o.retain_us, retain)
                                                   : NULL};
    ask(retention, "select saga.retire_v1($1, $2, $3, $4, $5, null)", params, ARRAY_LEN(params),
        retired);
    buf_free(&roots);
}

/* The next families of one shard. One of which something is in memory is left for the next walk. */
static void batch_begin(struct retention *retention)
{
    const struct json *found = retention->found;
    uint16_t shard = shard_of(root_of(found->items[retention->next]));
    uint32_t any = 0;
    free(retention->held);
    retention->held = xcalloc(retention->batch, sizeof(bool));
    retention->held_from = retention->next;
    retention->held_count = 0;
    retention->held_epoch = runner_epoch(retention->o.runner);
    while (retention->next < found->count && retention->held_count < retention->batch &&
           shard_of(root_of(found->items[retention->next])) == shard) {
        bool held = family_hold(retention, found->items[retention->next++]);
        retention->held[retention->held_count++] = held;
        any += held;
    }
    if (any)
        batch_ask(retention);
    else
        go_on(retention, 0);
}

static void step(void *arg)
{
    struct retention *retention;
    CAST_OBJ(retention, arg, RETENTION_MAGIC);
    if (retention->stopped || retention->asking)
        return;
    if (!store_pg_can_answer(retention->o.store)) {
        go_on(retention, AGAIN_US);
    } else if (retention->unsure) {
        batch_ask(retention);
    } else if (retention->found && retention->next < retention->found->count) {
        batch_begin(retention);
    } else if (retention->found && retention->shard < 0) {
        retention->found = NULL;
        walk_end(retention);
    } else if (!retention->defined) {
        define(retention, NULL, NULL);
    } else {
        find(retention);
    }
}
