#include "engine/breakers.h"

#include "engine/log.h"

#include <stdlib.h>

#define LOOK_US SECOND_US
#define BREAKERS_MAGIC 0x6272656bu
#define TOLD_MAGIC 0x746f6c64u

/* The newest state of one service's breaker here. */
struct told {
    unsigned magic;
    struct told *next;
    struct breakers *breakers;
    struct arena arena;
    struct str service;
    enum breaker_state state;
    struct wall open_until;
    bool pending; /* not written yet */
    bool asking;  /* a write is on its way */
};

struct breakers {
    unsigned magic;
    struct breakers_options o;
    struct runner *runner;
    struct loop_timer *timer;
    struct told *list;
    bool reading, stopped;
};

static void look(void *arg);

struct breakers *breakers_new(const struct breakers_options *options)
{
    struct breakers *breakers = xcalloc(1, sizeof(*breakers));
    breakers->magic = BREAKERS_MAGIC;
    breakers->o = *options;
    breakers->timer = loop_timer_new(options->loop, look, breakers);
    return breakers;
}

void breakers_run(struct breakers *breakers, struct runner *runner)
{
    breakers->runner = runner;
    loop_timer_set(breakers->timer, LOOK_US);
}

void breakers_stop(struct breakers *breakers)
{
    breakers->stopped = true;
    loop_timer_stop(breakers->timer);
}

void breakers_free(struct breakers *breakers)
{
    if (!breakers)
        return;
    while (breakers->list) {
        struct told *told = breakers->list;
        breakers->list = told->next;
        arena_free(&told->arena);
        free(told);
    }
    loop_timer_free(breakers->timer);
    free(breakers);
}

/* --- telling ------------------------------------------------------------------------------- */

static void told_written(void *arg, const struct store_answer *answer)
{
    struct told *told;
    CAST_OBJ(told, arg, TOLD_MAGIC);
    told->asking = false;
    if (!answer->err.code)
        return;
    told->pending = true; /* again with the next look */
    if (answer->err.code != ERR_UNAVAILABLE)
        log_warn("breaker of service \"" STR_FMT "\": %s", STR_ARG(told->service),
                 answer->err.text);
}

static void told_write(struct told *told)
{
    struct breakers *breakers = told->breakers;
    struct arena scratch = {0};
    if (told->asking || breakers->stopped || !store_pg_can_answer(breakers->o.store))
        return;
    bool open = told->state == BREAKER_OPEN;
    const char *params[] = {told->service.ptr, breakers->o.daemon, breaker_state_name(told->state),
                            open ? wall_format(told->open_until, &scratch).ptr : NULL};
    told->pending = false;
    told->asking = true;
    store_pg_query(breakers->o.store, "select saga.service_changed_v1($1, $2, $3, $4::timestamptz)",
                   params, ARRAY_LEN(params), told_written, told);
    arena_free(&scratch);
}

static void changed(void *arg, struct str service, enum breaker_state state, struct wall open_until)
{
    struct breakers *breakers;
    CAST_OBJ(breakers, arg, BREAKERS_MAGIC);
    struct told *told = breakers->list;
    while (told && !str_eq(told->service, service))
        told = told->next;
    if (!told) {
        told = xcalloc(1, sizeof(*told));
        told->magic = TOLD_MAGIC;
        told->breakers = breakers;
        told->service = arena_str(&told->arena, service);
        told->next = breakers->list;
        breakers->list = told;
    }
    told->state = state;
    told->open_until = open_until;
    told->pending = true;
    told_write(told);
}

struct port_services breakers_port(struct breakers *breakers)
{
    return (struct port_services){.arg = breakers, .changed = changed};
}

/* --- hearing ------------------------------------------------------------------------------- */

static void heard(void *arg, const struct store_answer *answer)
{
    struct breakers *breakers;
    struct arena scratch = {0};
    const struct json *said, *list;
    struct err err;
    CAST_OBJ(breakers, arg, BREAKERS_MAGIC);
    breakers->reading = false;
    if (answer->err.code && answer->err.code != ERR_UNAVAILABLE)
        log_warn("breakers of other daemons: %s", answer->err.text);
    if (breakers->stopped || answer->err.code || !answer->text.ptr ||
        json_parse(answer->text, &scratch, &said, &err) != 0)
        said = NULL;
    list = said ? json_get_z(said, "services") : NULL;
    for (uint32_t i = 0; list && list->kind == JSON_LIST && i < list->count; i++) {
        struct wall open_until;
        if (wall_parse(json_get_text(list->items[i], "open_until"), &open_until))
            runner_breaker(breakers->runner, json_get_text(list->items[i], "service"), open_until);
    }
    arena_free(&scratch);
}

static void look(void *arg)
{
    struct breakers *breakers;
    CAST_OBJ(breakers, arg, BREAKERS_MAGIC);
    if (breakers->stopped)
        return;
    for (struct told *told = breakers->list; told; told = told->next)
        if (told->pending)
            told_write(told);
    if (!breakers->reading && runner_has_gates(breakers->runner) &&
        store_pg_can_answer(breakers->o.store)) {
        const char *params[] = {breakers->o.daemon};
        breakers->reading = true;
        store_pg_query(breakers->o.store, "select saga.services_open_v1($1)", params,
                       ARRAY_LEN(params), heard, breakers);
    }
    loop_timer_set(breakers->timer, LOOK_US);
}
