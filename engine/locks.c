#include "engine/locks.h"

#include "engine/base/rand.h"
#include "engine/log.h"

#include <stdlib.h>

#define LOOK_US (250 * MS_US)
#define ASKS_PER_QUERY 500
/* Only the oldest ones of a lock can get it next, unless they are paused; so the others are asked
 * for now and then only. */
#define FIRST_ONES 2
#define OTHERS_US (10 * SECOND_US)
#define LOCKS_MAGIC 0x6c6f636bu

/* A run that asks for its lock. */
struct ask {
    struct ask *next;
    uint64_t number, round; /* round: in which it was asked for last */
    uint64_t lock;          /* hash of its tenant and lock */
    struct wall created_at;
    struct mono asked_at;
    bool asked; /* in the query that is not answered */
    struct str run_id;
    char bytes[];
};

struct locks {
    unsigned magic;
    struct locks_options o;
    struct runner *runner;
    struct loop_timer *timer;
    struct ask *list, **tail; /* the oldest run first */
    struct wall newest;       /* of the last one */
    uint64_t round;
    bool asking, cut;    /* cut: the round goes on with another query */
    bool again, stopped; /* again: something changed since the round began */
};

static void look(void *arg);

struct locks *locks_new(const struct locks_options *options)
{
    struct locks *locks = xcalloc(1, sizeof(*locks));
    locks->magic = LOCKS_MAGIC;
    locks->o = *options;
    locks->tail = &locks->list;
    locks->timer = loop_timer_new(options->loop, look, locks);
    return locks;
}

void locks_run(struct locks *locks, struct runner *runner)
{
    locks->runner = runner;
}

void locks_stop(struct locks *locks)
{
    locks->stopped = true;
    loop_timer_stop(locks->timer);
}

/* Runs mostly come in the order of their creation. */
static void ask_add(struct locks *locks, struct ask *ask)
{
    struct ask **at = locks->tail;
    if (locks->list && ask->created_at.us < locks->newest.us)
        for (at = &locks->list; *at && (*at)->created_at.us <= ask->created_at.us;)
            at = &(*at)->next;
    ask->next = *at;
    *at = ask;
    if (!ask->next) {
        locks->tail = &ask->next;
        locks->newest = ask->created_at;
    }
}

void locks_free(struct locks *locks)
{
    if (!locks)
        return;
    while (locks->list) {
        struct ask *ask = locks->list;
        locks->list = ask->next;
        free(ask);
    }
    loop_timer_free(locks->timer);
    free(locks);
}

/* --- the runner's side ----------------------------------------------------------------------- */

static void look_soon(struct locks *locks)
{
    locks->again = true;
    if (!locks->asking && !locks->stopped)
        loop_timer_set(locks->timer, 0);
}

static void port_ask(void *arg, const struct run *run, uint64_t number)
{
    struct locks *locks;
    CAST_OBJ(locks, arg, LOCKS_MAGIC);
    struct ask *ask = xcalloc(1, sizeof(*ask) + run->id.len + 1);
    memcpy(ask->bytes, run->id.ptr, run->id.len);
    ask->run_id = (struct str){ask->bytes, run->id.len};
    ask->number = number;
    ask->lock = rand_mix(str_hash(run->start.tenant)) ^ str_hash(run->start.lock);
    ask->created_at = run->start.created_at;
    ask_add(locks, ask);
    look_soon(locks);
}

static void port_freed(void *arg)
{
    struct locks *locks;
    CAST_OBJ(locks, arg, LOCKS_MAGIC);
    if (locks->list)
        look_soon(locks);
}

struct port_locks locks_port(struct locks *locks)
{
    return (struct port_locks){.arg = locks, .ask = port_ask, .freed = port_freed};
}

/* --- the database's side --------------------------------------------------------------------- */

/* Whether the list of numbers, which rise, goes on with this one. */
static bool number_next(const struct json *list, uint32_t *at, uint32_t number)
{
    int64_t value;
    if (!list || list->kind != JSON_LIST || *at >= list->count ||
        !json_to_int(list->items[*at], &value) || value != number)
        return false;
    (*at)++;
    return true;
}

/* Forgets those that do not wait any more. Returns how many are left. */
static uint32_t list_sweep(struct locks *locks)
{
    uint32_t count = 0;
    struct ask **at = &locks->list;
    locks->newest = WALL_NONE;
    while (*at) {
        struct ask *ask = *at;
        if (runner_asks_lock(locks->runner, ask->run_id, ask->number)) {
            locks->newest = ask->created_at;
            at = &ask->next;
            count++;
            continue;
        }
        *at = ask->next;
        free(ask);
    }
    locks->tail = at;
    return count;
}

static void look_answered(void *arg, const struct store_answer *answer)
{
    struct locks *locks;
    struct arena scratch = {0};
    const struct json *held = NULL;
    struct err err;
    CAST_OBJ(locks, arg, LOCKS_MAGIC);
    if (answer->err.code && answer->err.code != ERR_UNAVAILABLE)
        log_warn("locks of workflows: %s", answer->err.text);
    if (answer->err.code || !answer->text.ptr ||
        json_parse(answer->text, &scratch, &held, &err) != 0)
        held = NULL;
    uint32_t at = 0, number = 0;
    locks->asking = false;
    for (struct ask **place = &locks->list; *place;) {
        struct ask *ask = *place;
        bool asked = ask->asked;
        ask->asked = false;
        if (!asked || !number_next(held, &at, ++number)) {
            place = &ask->next;
            continue;
        }
        runner_locked(locks->runner, ask->run_id, ask->number);
        *place = ask->next;
        free(ask);
    }
    list_sweep(locks);
    arena_free(&scratch);
    if (!locks->stopped && locks->list)
        loop_timer_set(locks->timer, locks->cut || locks->again ? 0 : LOOK_US);
}

/* Which ones this query asks for, as a list of ids. Those of one lock are counted by its hash: of
 * two locks that share a place some are asked for less often. */
static void choose(struct locks *locks, uint32_t count, struct buf *ids)
{
    size_t size = 16;
    while (size < 2 * (size_t)count)
        size *= 2;
    uint8_t *counts = xcalloc(size, 1);
    uint32_t chosen = 0;
    struct mono now = loop_mono();
    locks->round += !locks->cut;
    locks->cut = locks->again = false;
    buf_add_str(ids, STR("{"));
    for (struct ask *ask = locks->list; ask && !locks->cut; ask = ask->next) {
        uint8_t *before = &counts[ask->lock & (size - 1)];
        bool first = *before < FIRST_ONES;
        *before += first;
        if (ask->round == locks->round ||
            (!first && ask->round && now.us < ask->asked_at.us + OTHERS_US))
            continue;
        if (chosen == ASKS_PER_QUERY) {
            locks->cut = true;
            continue;
        }
        ask->round = locks->round;
        ask->asked_at = now;
        ask->asked = true;
        buf_printf(ids, "%s\"" STR_FMT "\"", chosen++ ? "," : "", STR_ARG(ask->run_id));
    }
    buf_add_str(ids, STR("}"));
    locks->asking = chosen > 0;
    free(counts);
}

static void look(void *arg)
{
    struct locks *locks;
    struct buf ids = {0};
    CAST_OBJ(locks, arg, LOCKS_MAGIC);
    if (locks->stopped || locks->asking)
        return;
    uint32_t count = list_sweep(locks);
    if (!count)
        return;
    if (!store_pg_can_answer(locks->o.store)) {
        loop_timer_set(locks->timer, LOOK_US);
        return;
    }
    choose(locks, count, &ids);
    const char *params[] = {buf_str(&ids).ptr};
    if (locks->asking)
        store_pg_query(locks->o.store, "select saga.locks_take_v1($1::text[])", params,
                       ARRAY_LEN(params), look_answered, locks);
    else
        loop_timer_set(locks->timer, LOOK_US);
    buf_free(&ids);
}
