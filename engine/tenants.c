/*
 * tenants.c: how many runs of a tenant are in flight at once, where the config says how many may
 * be.
 *
 * A submitted run has a place from its first step until it ends or is parked; its children go with
 * it. One that finds no place waits as `queued`, with nothing claimed, and the oldest goes first.
 * What is on its way, or goes back, is never held up. Several daemons divide the number by the
 * shards that they own, at least one each, as they do with the limits of services.
 */
#include "engine/decide_impl.h"
#include "engine/gate.h"
#include "engine/runner_impl.h"

#include <stdlib.h>

struct tenant {
    struct map_node node; /* by name */
    struct str name;
    uint32_t most, active;
    struct heap waiting; /* of slots, by the creation of their runs */
    struct tenant *next; /* of those that may have a place for one that waits */
    bool listed;
};

/* 0: as many as there are. */
static uint32_t most_of(const struct runner *runner, struct str name)
{
    uint32_t most = 0;
    for (unsigned i = 0; i < runner->config.tenants_count; i++) {
        const struct tenant_limit *limit = &runner->config.tenants[i];
        if (str_eq_z(name, limit->name))
            return limit->runs;
        if (!strcmp(limit->name, "*"))
            most = limit->runs;
    }
    return most;
}

static struct tenant *tenant_find(struct runner *runner, struct str name)
{
    for (struct map_node *node = map_first(&runner->tenants, str_hash(name)); node;
         node = map_next(node)) {
        struct tenant *tenant = CONTAINER_OF(node, struct tenant, node);
        if (str_eq(tenant->name, name))
            return tenant;
    }
    uint32_t most = most_of(runner, name);
    if (!most)
        return NULL;
    struct tenant *tenant = xcalloc(1, sizeof(*tenant));
    char *copy = xmalloc(name.len + 1);
    memcpy(copy, name.ptr, name.len);
    tenant->name = (struct str){copy, name.len};
    tenant->most = most;
    map_insert(&runner->tenants, &tenant->node, str_hash(name));
    return tenant;
}

static struct tenant *tenant_of(struct runner *runner, const struct run *run)
{
    if (!runner->config.tenants_count || run->start.parent.len)
        return NULL;
    return tenant_find(runner, run->start.tenant);
}

/* While runs are being loaded nobody knows who has places. */
static bool is_full(const struct runner *runner, const struct tenant *tenant)
{
    if (runner->shards_loading)
        return true;
    uint64_t share = (uint64_t)__builtin_popcountll(runner->shards);
    return tenant->active >= MAX(tenant->most * share / GATE_SHARES, UINT64_C(1));
}

static void list(struct runner *runner, struct tenant *tenant)
{
    if (tenant->listed || !tenant->waiting.count)
        return;
    tenant->listed = true;
    tenant->next = runner->tenants_listed;
    runner->tenants_listed = tenant;
}

void tenants_open(struct runner *runner, struct work *work)
{
    const struct run *run = work->slot->run;
    bool starts = work->event.kind == EVENT_START;
    if (!runner->config.tenants_count || (!starts && run->now.state != RUN_QUEUED))
        return;
    if (starts ? work->event.start.parent.len > 0 : run->start.parent.len > 0)
        return;
    const struct tenant *tenant =
        tenant_find(runner, starts ? work->event.start.tenant : run->start.tenant);
    work->event.no_place = tenant && is_full(runner, tenant);
    work->event.start.waits = starts && work->event.no_place;
}

void tenants_count(struct runner *runner, struct slot *slot)
{
    const struct run *run = slot->run;
    struct tenant *tenant = tenant_of(runner, run);
    if (!tenant)
        return;
    bool active = decide_is_active(run);
    if (active && !slot->has_place)
        tenant->active++;
    if (!active && slot->has_place)
        tenant->active--;
    slot->has_place = active;
    slot->tenant = active || run->place_wanted ? tenant : NULL;
    if (run->place_wanted)
        heap_set(&tenant->waiting, &slot->place, run->start.created_at.us);
    else
        heap_remove(&tenant->waiting, &slot->place);
    /* Also where one that was woken did not take its place: it was paused meanwhile. */
    if (!is_full(runner, tenant))
        list(runner, tenant);
}

void tenants_leave(struct runner *runner, struct slot *slot)
{
    struct tenant *tenant = slot->tenant;
    if (!tenant)
        return;
    heap_remove(&tenant->waiting, &slot->place);
    if (slot->has_place) {
        tenant->active--;
        list(runner, tenant);
    }
    slot->has_place = false;
    slot->tenant = NULL;
}

void tenants_reload(struct slot *slot)
{
    if (slot->tenant)
        heap_remove(&slot->tenant->waiting, &slot->place);
}

/* As many as there are places: each is asked again, and takes its own. */
static void wake(struct runner *runner, struct tenant *tenant)
{
    uint32_t active = tenant->active;
    struct heap_node *top;
    while (!is_full(runner, tenant) && (top = heap_top(&tenant->waiting))) {
        struct slot *slot = CONTAINER_OF(top, struct slot, place);
        heap_remove(&tenant->waiting, top);
        work_queue(runner, work_new(slot, EVENT_DUE));
        tenant->active++; /* for the moment: it is decided by the event */
    }
    tenant->active = active;
}

void tenants_pump(struct runner *runner)
{
    uint64_t ready = runner->shards & ~runner->shards_loading;
    if (runner->tenants_shards != ready) {
        runner->tenants_shards = ready;
        for (size_t i = 0; i < runner->tenants.size; i++)
            for (struct map_node *node = runner->tenants.buckets[i]; node; node = node->chain)
                list(runner, CONTAINER_OF(node, struct tenant, node));
    }
    while (runner->tenants_listed) {
        struct tenant *tenant = runner->tenants_listed;
        runner->tenants_listed = tenant->next;
        tenant->listed = false;
        wake(runner, tenant);
    }
}

void tenants_free(struct runner *runner)
{
    struct map_node *node;
    while ((node = map_any(&runner->tenants))) {
        struct tenant *tenant = CONTAINER_OF(node, struct tenant, node);
        ASSERT(!tenant->active && !tenant->waiting.count);
        map_remove(&runner->tenants, node);
        heap_free(&tenant->waiting);
        free((char *)tenant->name.ptr);
        free(tenant);
    }
    map_free(&runner->tenants);
}
