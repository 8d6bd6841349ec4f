/*
 * limits.c: limits and breakers of the simulated services, and the promise that they are kept.
 */
#include "tests/sim/world.h"

#include <stdio.h>

static const char *const names[WORLD_SERVICES] = {"keyed", "brief", "keyless"};

/* For how long what was decided under a larger share may still go out: its unit must be written
 * first, which an outage holds up. */
#define SHARE_AGE_US (20 * SECOND_US)

/* From numbers of their own: what else happens in a world does not depend on whether there are
 * limits. */
void limits_draw(struct world *world)
{
    struct rand own = rand_seed(rand_mix(world->seed ^ str_hash(STR("limits"))));
    struct rand *rand = &own;
    bool limited = rand_chance(rand, 45);
    world->tenant.name = "*";
    world->tenant.runs = rand_chance(rand, 40) ? 1 + (uint32_t)rand_below(rand, 6) : 0;
    for (unsigned i = 0; i < WORLD_SERVICES; i++) {
        struct buf text = {0};
        struct world_limits *limits = &world->limits[i];
        if (limited && rand_chance(rand, 70)) {
            limits->in_flight = 1 + (uint32_t)rand_below(rand, 4);
            buf_printf(&text, ", limits: {in_flight: %u", limits->in_flight);
            if (rand_chance(rand, 40))
                buf_printf(&text, ", rate: %u/s", 1 + (unsigned)rand_below(rand, 20));
            if (rand_chance(rand, 40))
                buf_printf(&text, ", retry_share: %u%%", (unsigned)rand_below(rand, 101));
            buf_add_char(&text, '}');
        }
        if (limited && rand_chance(rand, 60))
            buf_printf(&text, ", breaker: {failures: %u, window: %us, open_for: %ums}",
                       1 + (unsigned)rand_below(rand, 4), 1 + (unsigned)rand_below(rand, 20),
                       100 * (1 + (unsigned)rand_below(rand, 60)));
        limits->text = arena_str(&world->arena, buf_str(&text)).ptr;
        if (!limits->text)
            limits->text = "";
        buf_free(&text);
    }
}

static int service_of(const struct invocation *invocation)
{
    for (int i = 0; i < WORLD_SERVICES; i++)
        if (invocation->request->service &&
            str_eq_z(str_z(names[i]), invocation->request->service->name))
            return i;
    return -1;
}

void limits_look(struct daemon *daemon)
{
    struct world *world = daemon->world;
    int owned = 0;
    for (int shard = 0; shard < RUN_SHARDS; shard++)
        owned += world->shard_lane[shard] == daemon->index;
    if (owned < daemon->share && world->now < daemon->share_at + SHARE_AGE_US)
        return;
    daemon->share = owned;
    daemon->share_at = world->now;
}

void limits_sent(struct daemon *daemon, struct sim_invocation *sent,
                 const struct invocation *invocation)
{
    sent->service = service_of(invocation);
    if (sent->service < 0)
        return;
    limits_look(daemon);
    uint32_t most = daemon->world->limits[sent->service].in_flight;
    uint32_t share = most * (uint32_t)daemon->share / RUN_SHARDS;
    uint32_t now = ++daemon->in_flight[sent->service];
    if (most && now > (share ? share : 1))
        world_fail(daemon->world, "daemon %d has %u requests at %s, its share of %u is %u",
                   daemon->index, now, names[sent->service], most, share);
}

void limits_done(struct daemon *daemon, struct sim_invocation *sent)
{
    if (sent->service >= 0)
        daemon->in_flight[sent->service]--;
    sent->service = -1;
}

/* --- breakers hear of each other ------------------------------------------------------------- */

struct news {
    struct str service;
    struct wall open_until;
};

static void heard(struct world_event *event)
{
    const struct news *news = event->data;
    struct daemon *daemon = world_event_daemon(event);
    if (!world_event_reaches(event))
        return;
    runner_breaker(daemon->runner, news->service, news->open_until);
    world_poke(daemon, 0);
}

static void changed(void *arg, struct str service, enum breaker_state state, struct wall open_until)
{
    struct daemon *daemon = arg;
    struct world *world = daemon->world;
    world_trace(world, "daemon %d: the breaker of " STR_FMT " is %s", daemon->index,
                STR_ARG(service), breaker_state_name(state));
    for (int i = 0; state == BREAKER_OPEN && i < WORLD_DAEMONS; i++) {
        struct news *news = arena_new(&world->arena, struct news);
        *news = (struct news){arena_str(&world->arena, service), open_until};
        if (i != daemon->index)
            world_schedule(world, world_between_ms(world, 1, 1000), i, news, heard);
    }
}

struct port_services limits_port(struct daemon *daemon)
{
    return (struct port_services){.arg = daemon, .changed = changed};
}
