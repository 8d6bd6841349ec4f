/*
 * cron.h: cron expressions: five fields, and the next time they name.
 *
 * minute 0-59, hour 0-23, day of month 1-31, month 1-12 or jan-dec, day of week 0-7 (0 and 7 are
 * Sunday) or sun-sat; each `*`, a number, a range `a-b`, either of the last two or `*` with a step
 * (`a-b/n`), or a list of these with commas. A day matches if the day of the month and the day of
 * the week do; if neither field starts with `*`, one of them is enough, as in cron.
 *
 * Where clocks are set forward, the ticks that fall into the gap become one at its end. Where they
 * are set back, a tick comes once, at the first of the two times. An expression that names every
 * hour goes by the time that passes instead: nothing is added at a gap, and nothing pauses when an
 * hour comes twice.
 */
#ifndef BASE_CRON_H
#define BASE_CRON_H

#include "engine/base/zone.h"

struct cron {
    uint64_t minutes; /* bit n: minute n matches; the same below */
    uint32_t hours;
    uint32_t days;
    uint16_t months;
    uint8_t weekdays; /* bit 0 is Sunday */
    bool either_day;  /* the day of the month or of the week is enough */
};

/* ERR_INVALID; `*at` and `*len` are then the bytes that are wrong. */
MUST_USE int cron_parse(struct str text, struct cron *out, size_t *at, size_t *len,
                        struct err *err);

/* It names every hour: its ticks go by the time that passes. */
bool cron_is_hourly(const struct cron *cron);

/* The first tick after `after`, on a whole minute of the zone's clocks; WALL_NONE if there is none
 * within the next hundred years. */
struct wall cron_next(const struct cron *cron, const struct zone *zone, struct wall after);

#endif
