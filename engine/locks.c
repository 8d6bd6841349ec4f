#include "engine/locks.h"

#include "engine/log.h"

#include <stdlib.h>

#define LOOK_US (250 * MS_US)
#define ASKS_PER_QUERY 500
#define LOCKS_MAGIC 0x6c6f636bu

/* A run that asks for its lock. */
struct ask {
    struct ask *next;
    uint64_t number;
    struct str run_id;
    char bytes[];
};

struct locks {
    unsigned magic;
    struct locks_options o;
    struct runner *runner;
    struct loop_timer *timer;
    struct ask *list, **tail; /* in the order in which they are asked for next */
    uint32_t asking;          /* the first ones, in a query that is not answered */
    uint32_t left;            /* of this round, behind those */
    bool again, stopped;      /* again: something changed since the round began */
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

static struct ask *ask_pop(struct locks *locks)
{
    struct ask *ask = locks->list;
    locks->list = ask->next;
    if (!locks->list)
        locks->tail = &locks->list;
    ask->next = NULL;
    return ask;
}

static void ask_push(struct locks *locks, struct ask *ask)
{
    *locks->tail = ask;
    locks->tail = &ask->next;
}

void locks_free(struct locks *locks)
{
    if (!locks)
        return;
    while (locks->list)
        free(ask_pop(locks));
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

static void port_ask(void *arg, struct str run_id, uint64_t number)
{
    struct locks *locks;
    CAST_OBJ(locks, arg, LOCKS_MAGIC);
    struct ask *ask = xcalloc(1, sizeof(*ask) + run_id.len + 1);
    memcpy(ask->bytes, run_id.ptr, run_id.len);
    ask->run_id = (struct str){ask->bytes, run_id.len};
    ask->number = number;
    ask_push(locks, ask);
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
    uint32_t at = 0, asked = locks->asking;
    locks->asking = 0;
    for (uint32_t i = 0; i < asked; i++) {
        struct ask *ask = ask_pop(locks);
        if (!number_next(held, &at, i + 1)) {
            ask_push(locks, ask);
            continue;
        }
        runner_locked(locks->runner, ask->run_id, ask->number);
        free(ask);
    }
    arena_free(&scratch);
    if (!locks->stopped && locks->list)
        loop_timer_set(locks->timer, locks->left || locks->again ? 0 : LOOK_US);
}

/* Forgets those that do not wait any more. Returns how many are left. */
static uint32_t list_sweep(struct locks *locks)
{
    uint32_t count = 0;
    struct ask **at = &locks->list;
    while (*at) {
        struct ask *ask = *at;
        if (runner_asks_lock(locks->runner, ask->run_id, ask->number)) {
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

static void look(void *arg)
{
    struct locks *locks;
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
    if (!locks->left || locks->left > count) { /* a new round */
        locks->left = count;
        locks->again = false;
    }
    struct buf ids = {0};
    buf_add_str(&ids, STR("{"));
    struct ask *ask = locks->list;
    for (; locks->asking < MIN(locks->left, (uint32_t)ASKS_PER_QUERY); ask = ask->next)
        buf_printf(&ids, "%s\"" STR_FMT "\"", locks->asking++ ? "," : "", STR_ARG(ask->run_id));
    buf_add_str(&ids, STR("}"));
    locks->left -= locks->asking;
    const char *params[] = {buf_str(&ids).ptr};
    store_pg_query(locks->o.store, "select saga.locks_take_v1($1::text[])", params,
                   ARRAY_LEN(params), look_answered, locks);
    buf_free(&ids);
}
