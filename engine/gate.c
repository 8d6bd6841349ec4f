#include "engine/gate.h"

#include <stdlib.h>

static const char *const breaker_names[] = {"none",
#define X(id, name) name,
                                            BREAKER_STATES(X)
#undef X
};

const char *breaker_state_name(enum breaker_state state)
{
    ASSERT(state < ARRAY_LEN(breaker_names));
    return breaker_names[state];
}

enum breaker_state breaker_state_of(struct str name)
{
    for (unsigned i = 1; i < ARRAY_LEN(breaker_names); i++)
        if (str_eq_z(name, breaker_names[i]))
            return (enum breaker_state)i;
    return BREAKER_NONE;
}

/* --- life ---------------------------------------------------------------------------------- */

/* The ring of failures has the size that the breaker counts to. */
static void failures_resize(struct gate *gate)
{
    if (gate->failures_size == gate->limits.breaker_failures)
        return;
    free(gate->failures);
    gate->failures_size = gate->limits.breaker_failures;
    gate->failures_at = 0;
    gate->failures =
        gate->failures_size ? xcalloc(gate->failures_size, sizeof(*gate->failures)) : NULL;
}

void gate_init(struct gate *gate, const struct plan_limits *limits)
{
    *gate = (struct gate){.limits = *limits, .share = GATE_SHARES, .breaker = BREAKER_CLOSED};
    failures_resize(gate);
}

void gate_free(struct gate *gate)
{
    ASSERT(!gate->waiting && !gate->granted);
    map_free(&gate->tenants);
    free(gate->failures);
    gate->failures = NULL;
}

/* The smaller number, where 0 is none at all. */
static uint32_t stricter(uint32_t a, uint32_t b)
{
    return !a ? b : !b ? a : MIN(a, b);
}

void gate_tighten(struct gate *gate, const struct plan_limits *by)
{
    struct plan_limits *limits = &gate->limits;
    limits->in_flight = stricter(limits->in_flight, by->in_flight);
    bool slower = by->rate && (!limits->rate || (__int128)by->rate * limits->rate_per_us <
                                                    (__int128)limits->rate * by->rate_per_us);
    if (slower) {
        limits->rate = by->rate;
        limits->rate_per_us = by->rate_per_us;
    }
    if (by->retries_limited) {
        limits->retry_percent = limits->retries_limited
                                    ? MIN(limits->retry_percent, by->retry_percent)
                                    : by->retry_percent;
        limits->retries_limited = true;
    }
    if (stricter(limits->breaker_failures, by->breaker_failures) != limits->breaker_failures) {
        limits->breaker_failures = by->breaker_failures;
        limits->breaker_window_us = by->breaker_window_us;
        limits->breaker_open_us = by->breaker_open_us;
        failures_resize(gate);
    }
}

/* --- limits -------------------------------------------------------------------------------- */

static uint32_t share_of(const struct gate *gate)
{
    return MAX(gate->share, 1u);
}

static uint32_t in_flight_max(const struct gate *gate)
{
    uint64_t mine = (uint64_t)gate->limits.in_flight * share_of(gate) / GATE_SHARES;
    return gate->limits.in_flight ? MAX((uint32_t)mine, 1u) : UINT32_MAX;
}

/* Between two requests, where the rate leaves so much. */
static int64_t interval_us(const struct gate *gate)
{
    __int128 all = (__int128)gate->limits.rate_per_us * GATE_SHARES;
    return MAX((int64_t)(all / ((__int128)gate->limits.rate * share_of(gate))), INT64_C(1));
}

static uint32_t rate_room(const struct gate *gate, struct wall now)
{
    if (!gate->limits.rate)
        return UINT32_MAX;
    int64_t ahead = MAX(gate->next_send.us - now.us, INT64_C(0));
    int64_t left = GATE_BURST_US - ahead;
    return left < 0 ? 0 : (uint32_t)MIN(left / interval_us(gate) + 1, (int64_t)UINT32_MAX);
}

/* After an outage all that waits are repeats, and the breaker lets few through as it is: without
 * them nobody would find out that the service works again. */
static uint32_t repeats_room(const struct gate *gate, struct wall now)
{
    if (!gate->limits.retries_limited || gate->cohort)
        return UINT32_MAX;
    int64_t oldest = now.us / SECOND_US - GATE_WINDOW_US / SECOND_US;
    uint64_t first = 0, repeats = 0;
    for (int i = 0; i < GATE_BUCKETS; i++)
        if (gate->buckets[i].second > oldest) {
            first += gate->buckets[i].first;
            repeats += gate->buckets[i].repeats;
        }
    uint64_t least = MAX(GATE_RETRIES_MIN * share_of(gate) / GATE_SHARES, 1u);
    uint64_t allowed = MAX(first * gate->limits.retry_percent / 100, least);
    return allowed > repeats ? (uint32_t)MIN(allowed - repeats, UINT32_MAX) : 0;
}

static void bucket_add(struct gate *gate, bool repeat, struct wall now)
{
    int64_t second = now.us / SECOND_US;
    unsigned at = (unsigned)(second % GATE_BUCKETS);
    if (gate->buckets[at].second != second) {
        gate->buckets[at].second = second;
        gate->buckets[at].first = gate->buckets[at].repeats = 0;
    }
    gate->buckets[at].first += !repeat;
    gate->buckets[at].repeats += repeat;
}

/* --- the breaker --------------------------------------------------------------------------- */

static void breaker_set(struct gate *gate, enum breaker_state state)
{
    gate->changed |= gate->breaker != state;
    gate->breaker = state;
}

static void breaker_open(struct gate *gate, struct wall until)
{
    gate->changed = true;
    gate->breaker = BREAKER_OPEN;
    gate->open_until = until;
    gate->cohort = 0;
    gate->trying = 0;
    gate->openings++;
    for (uint32_t i = 0; i < gate->failures_size; i++)
        gate->failures[i] = WALL_NONE;
}

/* Its time is over: what is sent now tries. */
static void breaker_look(struct gate *gate, struct wall now)
{
    if (gate->breaker != BREAKER_OPEN || gate->open_until.us > now.us)
        return;
    gate->cohort = 1;
    breaker_set(gate, BREAKER_HALF_OPEN);
}

static void failure_note(struct gate *gate, struct wall now)
{
    if (!gate->failures_size)
        return;
    /* The oldest of those that are counted is the one that this one replaces next. */
    gate->failures[gate->failures_at] = now;
    gate->failures_at = (gate->failures_at + 1) % gate->failures_size;
    struct wall oldest = gate->failures[gate->failures_at];
    if (wall_is_set(oldest) && now.us - oldest.us <= gate->limits.breaker_window_us)
        breaker_open(gate, wall_add(now, gate->limits.breaker_open_us));
}

static void breaker_note(struct gate *gate, enum gate_outcome outcome, struct wall now)
{
    if (gate->breaker == BREAKER_HALF_OPEN && outcome == GATE_FAILS) {
        breaker_open(gate, wall_add(now, gate->limits.breaker_open_us));
        return;
    }
    if (gate->breaker == BREAKER_HALF_OPEN && outcome == GATE_WORKS)
        breaker_set(gate, BREAKER_CLOSED);
    if (gate->breaker != BREAKER_CLOSED)
        return;
    if (gate->cohort && outcome == GATE_WORKS)
        gate->cohort++;
    if (gate->cohort && outcome == GATE_FAILS)
        gate->cohort = MAX(gate->cohort / 2, 1u);
    if (outcome == GATE_FAILS)
        failure_note(gate, now);
    bool released = !gate->waiting || gate->cohort >= in_flight_max(gate);
    if (released && gate->breaker == BREAKER_CLOSED)
        gate->cohort = 0;
}

void gate_open_until(struct gate *gate, struct wall until, struct wall now)
{
    breaker_look(gate, now);
    if (!gate->failures_size || until.us <= now.us ||
        (gate->breaker == BREAKER_OPEN && gate->open_until.us >= until.us))
        return;
    breaker_open(gate, until);
    gate->changed = false; /* who found it tells the others */
}

bool gate_changed(struct gate *gate)
{
    bool changed = gate->changed;
    gate->changed = false;
    return changed;
}

/* --- sending ------------------------------------------------------------------------------- */

/* Whatever the limits say about all that is not sent yet. */
static struct gate_room room_look(struct gate *gate, uint32_t kept, struct wall now)
{
    struct gate_room room = {0};
    breaker_look(gate, now);
    uint32_t used = gate->in_flight + kept;
    uint32_t most = in_flight_max(gate);
    bool recovers = gate->breaker != BREAKER_CLOSED || gate->cohort;
    room.reason = recovers ? GATE_BREAKER : GATE_LIMIT;
    if (gate->breaker == BREAKER_OPEN) {
        room.open_until = gate->open_until;
        return room;
    }
    room.sends = most > used ? most - used : 0;
    if (gate->cohort) {
        uint32_t tries = gate->trying + kept;
        room.sends = MIN(room.sends, gate->cohort > tries ? gate->cohort - tries : 0);
    }
    uint32_t rate = rate_room(gate, now);
    room.sends = MIN(room.sends, rate > kept ? rate - kept : 0);
    room.repeats = MIN(room.sends, repeats_room(gate, now));
    return room;
}

struct gate_room gate_room(struct gate *gate, bool granted, struct wall now)
{
    /* Its own place is not in its way. */
    struct gate_room room = room_look(gate, gate->granted - granted, now);
    if (granted) {
        room.sends = MIN(room.sends, 1u);
        room.repeats = MIN(room.repeats, 1u);
    } else if (gate->waiting) { /* nobody overtakes */
        room.sends = room.repeats = 0;
    }
    return room;
}

uint64_t gate_sent(struct gate *gate, bool repeat, struct wall now)
{
    gate->in_flight++;
    gate->trying++;
    if (gate->limits.rate)
        gate->next_send =
            wall_add(gate->next_send.us > now.us ? gate->next_send : now, interval_us(gate));
    bucket_add(gate, repeat, now);
    return gate->openings;
}

void gate_dropped(struct gate *gate, uint64_t opening)
{
    ASSERT(gate->in_flight);
    gate->in_flight--;
    if (opening == gate->openings)
        gate->trying--;
}

void gate_answered(struct gate *gate, uint64_t opening, enum gate_outcome outcome, struct wall now)
{
    gate_dropped(gate, opening);
    /* What was sent before it opened says nothing about the service as it is now. */
    if (opening == gate->openings && outcome != GATE_NOTHING)
        breaker_note(gate, outcome, now);
}

/* --- waiting ------------------------------------------------------------------------------- */

static void tenant_append(struct gate_ring *ring, struct gate_tenant *tenant)
{
    tenant->next = NULL;
    *(ring->last ? &ring->last->next : &ring->first) = tenant;
    ring->last = tenant;
}

static void tenant_remove(struct gate_ring *ring, struct gate_tenant *tenant)
{
    struct gate_tenant **at = &ring->first, *before = NULL;
    while (*at != tenant) {
        before = *at;
        at = &before->next;
    }
    *at = tenant->next;
    if (ring->last == tenant)
        ring->last = before;
}

static struct gate_tenant *tenant_make(struct gate *gate, struct str name, bool back)
{
    uint64_t hash = str_hash(name) ^ back;
    struct map_node *node = map_first(&gate->tenants, hash);
    for (; node; node = map_next(node)) {
        struct gate_tenant *at = CONTAINER_OF(node, struct gate_tenant, node);
        if (at->back == back && str_eq(at->name, name))
            return at;
    }
    struct gate_tenant *tenant = xcalloc(1, sizeof(*tenant) + name.len + 1);
    if (name.len)
        memcpy(tenant->bytes, name.ptr, name.len);
    tenant->name = (struct str){tenant->bytes, name.len};
    tenant->back = back;
    map_insert(&gate->tenants, &tenant->node, hash);
    tenant_append(&gate->rings[back], tenant);
    return tenant;
}

/* Leaves its tenant's list, and the tenant the ring with its last one. */
static void waiter_unlink(struct gate *gate, struct gate_waiter *waiter)
{
    struct gate_tenant *tenant = waiter->tenant;
    struct gate_waiter **first = &tenant->lists[waiter->repeats].first;
    struct gate_waiter **last = &tenant->lists[waiter->repeats].last;
    *(waiter->prev ? &waiter->prev->next : first) = waiter->next;
    *(waiter->next ? &waiter->next->prev : last) = waiter->prev;
    waiter->next = waiter->prev = NULL;
    waiter->tenant = NULL;
    gate->waiting--;
    if (tenant->lists[0].first || tenant->lists[1].first)
        return;
    tenant_remove(&gate->rings[waiter->back], tenant);
    map_remove(&gate->tenants, &tenant->node);
    free(tenant);
}

void gate_wait(struct gate *gate, struct gate_waiter *waiter, struct str tenant, bool back,
               bool repeats)
{
    ASSERT(!waiter->granted);
    if (waiter->tenant && waiter->back == back && waiter->repeats == repeats)
        return;
    if (waiter->tenant)
        waiter_unlink(gate, waiter);
    struct gate_tenant *into = tenant_make(gate, tenant, back);
    waiter->tenant = into;
    waiter->back = back;
    waiter->repeats = repeats;
    waiter->number = ++gate->numbers;
    waiter->prev = into->lists[repeats].last;
    *(waiter->prev ? &waiter->prev->next : &into->lists[repeats].first) = waiter;
    into->lists[repeats].last = waiter;
    gate->waiting++;
}

void gate_unwait(struct gate *gate, struct gate_waiter *waiter)
{
    if (waiter->tenant)
        waiter_unlink(gate, waiter);
    if (waiter->granted)
        gate->granted--;
    waiter->granted = false;
}

/* The tenant's oldest one that may be sent. */
static struct gate_waiter *tenant_next(const struct gate_tenant *tenant, bool repeats)
{
    struct gate_waiter *first = tenant->lists[0].first;
    struct gate_waiter *repeat = repeats ? tenant->lists[1].first : NULL;
    if (first && repeat)
        return first->number < repeat->number ? first : repeat;
    return first ? first : repeat;
}

/* The next one of the ring; its tenant goes to the end of it. */
static struct gate_waiter *ring_next(struct gate_ring *ring, bool repeats)
{
    struct gate_waiter *waiter = NULL;
    struct gate_tenant *tenant = ring->first;
    while (tenant && !(waiter = tenant_next(tenant, repeats)))
        tenant = tenant->next;
    if (waiter) {
        tenant_remove(ring, tenant);
        tenant_append(ring, tenant);
    }
    return waiter;
}

struct gate_waiter *gate_next(struct gate *gate, struct wall now)
{
    if (!gate->waiting)
        return NULL;
    struct gate_room room = room_look(gate, gate->granted, now);
    if (!room.sends)
        return NULL;
    struct gate_waiter *waiter = ring_next(&gate->rings[1], true); /* undo has no share to keep */
    if (!waiter)
        waiter = ring_next(&gate->rings[0], room.repeats > 0);
    if (!waiter)
        return NULL;
    waiter_unlink(gate, waiter);
    waiter->granted = true;
    gate->granted++;
    return waiter;
}

struct wall gate_due(struct gate *gate, struct wall now)
{
    if (!gate->waiting)
        return WALL_NONE;
    breaker_look(gate, now);
    if (gate->breaker == BREAKER_OPEN)
        return gate->open_until;
    if (!rate_room(gate, now))
        return (struct wall){MAX(gate->next_send.us - GATE_BURST_US, now.us)};
    /* Repeats forward that wait for their share: each second the oldest of the window drops out. */
    if (!repeats_room(gate, now))
        return (struct wall){(now.us / SECOND_US + 1) * SECOND_US};
    return WALL_NONE;
}
