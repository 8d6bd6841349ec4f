/*
 * zone.h: time zones: what clocks showed, or will show, somewhere at an instant, and back.
 *
 * A zone is made of the bytes of a TZif file (RFC 9636, version 2 and later) that the caller has
 * read, as /usr/share/zoneinfo holds them; it lives in the caller's arena and never changes.
 * Instants past the file's table follow its POSIX rule. Local times are microseconds since
 * 1970-01-01T00:00:00 on the zone's clocks.
 */
#ifndef BASE_ZONE_H
#define BASE_ZONE_H

#include "engine/base/clock.h"
#include "engine/base/err.h"

struct zone;

#define ZONE_NAME_BYTES_MAX 64
#define ZONE_FILE_BYTES_MAX 65536

/* True of names such as `Europe/Berlin`, `Etc/GMT+5`: nothing that could lead out of a folder. */
bool zone_name_is_valid(struct str name);

/* ERR_INVALID if the bytes are no zone. */
MUST_USE int zone_parse(struct str name, struct str bytes, struct arena *arena,
                        const struct zone **out, struct err *err);
const struct zone *zone_utc(void);
const struct zone *zone_copy(struct arena *arena, const struct zone *zone);
const char *zone_name(const struct zone *zone);

/* Seconds that the zone's clocks are ahead of UTC at `t`. */
int32_t zone_offset(const struct zone *zone, struct wall t);
/* What the clocks show at `t`. */
int64_t zone_local(const struct zone *zone, struct wall t);

/* The stretch of time around `t` in which the offset stays as it is: from `start` on, before
 * `end`; INT64_MIN and INT64_MAX where there is no change. */
struct zone_stretch {
    int64_t start_us, end_us;
    int32_t offset;
};
struct zone_stretch zone_stretch_at(const struct zone *zone, struct wall t);

enum zone_fit {
    ZONE_FIT_ONE,
    ZONE_FIT_GAP,   /* clocks skip this time */
    ZONE_FIT_TWICE, /* clocks show it twice */
};
/* The instant of a local time. In a gap: moved on by the gap's length, as if the clocks had not
 * been set forward; `gap_end` (may be NULL) is when the gap ends. Shown twice: the first of both.
 */
enum zone_fit zone_instant(const struct zone *zone, int64_t local_us, struct wall *out,
                           struct wall *gap_end);

/* What the clocks show with the offset beside it: 2026-10-25T02:30:00+02:00. */
struct str zone_format(const struct zone *zone, struct wall t, struct arena *arena);

#endif
