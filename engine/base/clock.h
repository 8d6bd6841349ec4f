/*
 * clock.h: the two kinds of time, which the compiler keeps apart.
 *
 * `struct wall` is database time in microseconds since 1970-01-01T00:00:00Z: deadlines, budgets
 * and everything stored. `struct mono` is CLOCK_BOOTTIME in microseconds: leases and local waits.
 * Zero means "none". Reading a clock is the business of floor 7 (engine/loop.h); here are only
 * the types, their arithmetic and their text forms.
 */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include "engine/base/arena.h"

struct wall {
    int64_t us;
};
struct mono {
    int64_t us;
};

#define WALL_NONE ((struct wall){0})
#define MS_US INT64_C(1000)
#define SECOND_US INT64_C(1000000)
#define MINUTE_US (60 * SECOND_US)
#define HOUR_US (60 * MINUTE_US)
#define DAY_US (24 * HOUR_US)

static inline bool wall_is_set(struct wall t)
{
    return t.us != 0;
}

/* Saturates instead of overflowing; `duration_us` may be negative. */
struct wall wall_add(struct wall t, int64_t duration_us);

/* The earlier of two, where "none" is later than any time. */
static inline struct wall wall_first(struct wall a, struct wall b)
{
    if (!a.us)
        return b;
    return !b.us || a.us <= b.us ? a : b;
}

/* True if `t` is set and not later than `now`. */
static inline bool wall_passed(struct wall t, struct wall now)
{
    return t.us && t.us <= now.us;
}

/* RFC 3339 in UTC with microseconds only where there are any: 2026-10-25T02:30:00Z. */
struct str wall_format(struct wall t, struct arena *arena);
/* Reads RFC 3339 with a zone offset. Returns false on anything else. */
bool wall_parse(struct str text, struct wall *out);
/* Reads a time without a zone, 2026-10-25T02:30 or with seconds, as microseconds since
 * 1970-01-01T00:00 on the same clocks. */
bool local_parse(struct str text, int64_t *out_us);

/* Durations as the language writes them: Go's plus `d` (250ms 30s 1h30m 7d). */
bool duration_parse(struct str text, int64_t *out_us);
struct str duration_format(int64_t duration_us, struct arena *arena);

#endif
