/*
 * zone.c: TZif files, and POSIX rules for what lies past their tables.
 */
#include "engine/base/zone.h"

#include <stdlib.h>

#include "engine/base/ascii.h"
#include "engine/base/civil.h"

#define OFFSET_MAX (26 * 3600) /* RFC 9636: offsets lie within a little more than a day */
#define SEARCH_US ((int64_t)OFFSET_MAX * SECOND_US)

/* When a rule changes the clocks, in a year: M10.5.0/3, J60, 59. */
struct change {
    enum { CHANGE_WEEKDAY, CHANGE_JULIAN, CHANGE_DAY } kind;
    int32_t month, week, day;
    int32_t time; /* seconds after local midnight; may be negative or past the day */
};

struct zone {
    const char *name;
    uint32_t count; /* transitions */
    const int64_t *at_us;
    const int32_t *after; /* offset from transition i on */
    int32_t first;        /* offset before the first one */
    bool changes;         /* the rule has summer time */
    int32_t standard, summer;
    struct change to_summer, to_standard;
};

static const struct zone utc = {.name = "UTC"};

const struct zone *zone_utc(void)
{
    return &utc;
}

const char *zone_name(const struct zone *zone)
{
    return zone->name;
}

bool zone_name_is_valid(struct str name)
{
    bool start = true; /* of a part: letters only, so that `..`, `//` and flags cannot be written */
    for (size_t i = 0; i < name.len; i++) {
        char c = name.ptr[i];
        if (start ? !ascii_is_alpha(c)
                  : !ascii_is_alpha(c) && !ascii_is_digit(c) && !(c && strchr("_+-/", c)))
            return false;
        start = c == '/';
    }
    return name.len > 0 && name.len <= ZONE_NAME_BYTES_MAX && !start;
}

const struct zone *zone_copy(struct arena *arena, const struct zone *zone)
{
    struct zone *copy = arena_new(arena, struct zone);
    int64_t *at_us = arena_array(arena, int64_t, zone->count);
    int32_t *after = arena_array(arena, int32_t, zone->count);
    *copy = *zone;
    copy->name = arena_strdup(arena, zone->name);
    for (uint32_t i = 0; i < zone->count; i++) {
        at_us[i] = zone->at_us[i];
        after[i] = zone->after[i];
    }
    copy->at_us = at_us;
    copy->after = after;
    return copy;
}

/* --- the POSIX rule: CET-1CEST,M3.5.0,M10.5.0/3 --- */

static bool rule_char(struct str *rest, char c)
{
    if (!rest->len || rest->ptr[0] != c)
        return false;
    rest->ptr++;
    rest->len--;
    return true;
}

static bool rule_number(struct str *rest, int32_t max, int32_t *out)
{
    int32_t value = 0;
    size_t digits = 0;
    while (rest->len && ascii_is_digit(rest->ptr[0]) && digits < 4) {
        value = value * 10 + (rest->ptr[0] - '0');
        rest->ptr++;
        rest->len--;
        digits++;
    }
    *out = value;
    return digits > 0 && value <= max;
}

static bool rule_name(struct str *rest)
{
    size_t len = 0;
    if (rule_char(rest, '<')) {
        while (len < rest->len && rest->ptr[len] != '>')
            len++;
        rest->ptr += len;
        rest->len -= len;
        return rule_char(rest, '>');
    }
    while (len < rest->len && ascii_is_alpha(rest->ptr[len]))
        len++;
    rest->ptr += len;
    rest->len -= len;
    return len >= 3;
}

/* [+-]h[:m[:s]] in seconds */
static bool rule_time(struct str *rest, int32_t *out)
{
    int32_t h, m = 0, s = 0;
    bool negative = rule_char(rest, '-');
    if (!negative)
        rule_char(rest, '+');
    if (!rule_number(rest, 167, &h) ||
        (rule_char(rest, ':') &&
         (!rule_number(rest, 59, &m) || (rule_char(rest, ':') && !rule_number(rest, 59, &s)))))
        return false;
    *out = (h * 3600 + m * 60 + s) * (negative ? -1 : 1);
    return true;
}

static bool rule_change(struct str *rest, struct change *out)
{
    *out = (struct change){.time = 2 * 3600};
    if (!rule_char(rest, ','))
        return false;
    if (rule_char(rest, 'M')) {
        out->kind = CHANGE_WEEKDAY;
        if (!rule_number(rest, 12, &out->month) || !rule_char(rest, '.') ||
            !rule_number(rest, 5, &out->week) || !rule_char(rest, '.') ||
            !rule_number(rest, 6, &out->day) || !out->month || !out->week)
            return false;
    } else {
        out->kind = rule_char(rest, 'J') ? CHANGE_JULIAN : CHANGE_DAY;
        if (!rule_number(rest, 365, &out->day) || (out->kind == CHANGE_JULIAN && !out->day))
            return false;
    }
    return !rule_char(rest, '/') || rule_time(rest, &out->time);
}

static bool rule_parse(struct str rest, struct zone *zone)
{
    int32_t west;
    if (!rest.len)
        return true; /* the last offset goes on */
    if (!rule_name(&rest) || !rule_time(&rest, &west))
        return false;
    zone->standard = -west;
    if (!rest.len)
        return true;
    zone->changes = true;
    zone->summer = zone->standard + 3600;
    if (!rule_name(&rest))
        return false;
    if (rest.len && rest.ptr[0] != ',') {
        if (!rule_time(&rest, &west))
            return false;
        zone->summer = -west;
    }
    return rule_change(&rest, &zone->to_summer) && rule_change(&rest, &zone->to_standard) &&
           !rest.len;
}

/* Local microseconds, on the clocks before the change. */
static int64_t change_local(const struct change *change, int64_t year)
{
    int64_t day;
    if (change->kind == CHANGE_WEEKDAY) {
        int64_t first = civil_days(year, change->month, 1);
        day =
            first + (change->day - civil_weekday(first) + 7) % 7 + (int64_t)(change->week - 1) * 7;
        while (day >= first + civil_month_days(year, change->month))
            day -= 7;
    } else {
        bool leap = civil_month_days(year, 2) == 29;
        day = civil_days(year, 1, 1) + change->day;
        if (change->kind == CHANGE_JULIAN) /* 29 February is never counted */
            day -= !(leap && change->day >= 60);
    }
    return day * DAY_US + (int64_t)change->time * SECOND_US;
}

static int64_t year_of(int64_t us)
{
    int64_t year, month, day;
    civil_date(us / DAY_US - (us % DAY_US < 0), &year, &month, &day);
    return year;
}

struct transition {
    int64_t at_us;
    int32_t after;
};

static int transition_cmp(const void *a, const void *b)
{
    const struct transition *x = a, *y = b;
    return x->at_us < y->at_us ? -1 : x->at_us > y->at_us;
}

/* The stretch around `us`, which is past the table. */
static struct zone_stretch rule_stretch(const struct zone *zone, int64_t us, int64_t table_end)
{
    struct zone_stretch stretch = {table_end, INT64_MAX, zone->standard};
    struct transition list[8];
    size_t count = 0;
    if (!zone->changes)
        return stretch;
    int64_t year = year_of(us);
    for (int64_t y = year - 2; y <= year + 1; y++) {
        list[count++] = (struct transition){
            change_local(&zone->to_summer, y) - (int64_t)zone->standard * SECOND_US, zone->summer};
        list[count++] = (struct transition){change_local(&zone->to_standard, y) -
                                                (int64_t)zone->summer * SECOND_US,
                                            zone->standard};
    }
    qsort(list, count, sizeof(*list), transition_cmp);
    for (size_t i = 0; i < count; i++) {
        if (list[i].at_us > us) {
            stretch.end_us = list[i].at_us;
            break;
        }
        stretch.start_us = MAX(list[i].at_us, table_end);
        stretch.offset = list[i].after;
    }
    return stretch;
}

/* --- TZif --- */

struct header {
    uint32_t utc_count, std_count, leaps, times, types, chars;
};

static uint64_t big_endian(const char *bytes, size_t len)
{
    uint64_t value = 0;
    for (size_t i = 0; i < len; i++)
        value = value << 8 | (unsigned char)bytes[i];
    return value;
}

static bool header_read(struct str bytes, size_t at, struct header *out)
{
    if (at + 44 > bytes.len || memcmp(bytes.ptr + at, "TZif", 4) != 0)
        return false;
    uint32_t *const fields[] = {&out->utc_count, &out->std_count, &out->leaps,
                                &out->times,     &out->types,     &out->chars};
    for (size_t i = 0; i < ARRAY_LEN(fields); i++) {
        *fields[i] = (uint32_t)big_endian(bytes.ptr + at + 20 + i * 4, 4);
        if (*fields[i] > ZONE_FILE_BYTES_MAX)
            return false;
    }
    return true;
}

static size_t data_size(const struct header *header, size_t time_size)
{
    return header->times * (time_size + 1) + header->types * 6u + header->chars +
           header->leaps * (time_size + 4) + header->std_count + header->utc_count;
}

static bool table_read(struct str bytes, size_t at, const struct header *header,
                       struct arena *arena, struct zone *zone)
{
    const char *times = bytes.ptr + at, *indices = times + header->times * 8u,
               *types = indices + header->times;
    int64_t *at_us = arena_array(arena, int64_t, header->times);
    int32_t *after = arena_array(arena, int32_t, header->times);
    uint32_t count = 0;
    if (!header->types)
        return false;
    zone->first = (int32_t)big_endian(types, 4);
    for (uint32_t i = 0; i < header->times; i++) {
        int64_t seconds = (int64_t)big_endian(times + i * 8u, 8);
        uint32_t type = (unsigned char)indices[i];
        if (type >= header->types)
            return false;
        int32_t offset = (int32_t)big_endian(types + type * 6u, 4);
        if (offset < -OFFSET_MAX || offset > OFFSET_MAX ||
            (i > 0 && seconds <= (int64_t)big_endian(times + (i - 1) * 8u, 8)))
            return false;
        if (seconds < -(INT64_C(1) << 40) || seconds > INT64_C(1) << 40) {
            zone->first = offset; /* before all times that matter */
            continue;
        }
        if ((count ? after[count - 1] : zone->first) == offset)
            continue; /* only the name changed */
        at_us[count] = seconds * SECOND_US;
        after[count++] = offset;
    }
    zone->at_us = at_us;
    zone->after = after;
    zone->count = count;
    return zone->first >= -OFFSET_MAX && zone->first <= OFFSET_MAX;
}

int zone_parse(struct str name, struct str bytes, struct arena *arena, const struct zone **out,
               struct err *err)
{
    struct zone *zone = arena_new(arena, struct zone);
    struct header header;
    size_t at = 0;
    zone->name = arena_str(arena, name).ptr;
    if (bytes.len > ZONE_FILE_BYTES_MAX || !header_read(bytes, at, &header) || bytes.ptr[4] < '2')
        return err_set(err, ERR_INVALID, "\"" STR_FMT "\" is no TZif file of version 2 or later",
                       STR_ARG(name));
    at += 44 + data_size(&header, 4);
    if (!header_read(bytes, at, &header) || at + 44 + data_size(&header, 8) > bytes.len ||
        !table_read(bytes, at + 44, &header, arena, zone))
        return err_set(err, ERR_INVALID, "the table of zone \"" STR_FMT "\" is broken",
                       STR_ARG(name));
    at += 44 + data_size(&header, 8);
    struct str rule = {bytes.ptr + at, bytes.len - at};
    zone->standard = zone->count ? zone->after[zone->count - 1] : zone->first;
    if (rule.len < 2 || rule.ptr[0] != '\n' || rule.ptr[rule.len - 1] != '\n' ||
        !rule_parse((struct str){rule.ptr + 1, rule.len - 2}, zone))
        return err_set(err, ERR_INVALID, "the rule of zone \"" STR_FMT "\" is broken",
                       STR_ARG(name));
    *out = zone;
    return 0;
}

/* --- looking up --- */

struct zone_stretch zone_stretch_at(const struct zone *zone, struct wall t)
{
    uint32_t low = 0, high = zone->count; /* the first transition after t */
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (zone->at_us[middle] > t.us)
            high = middle;
        else
            low = middle + 1;
    }
    if (low == zone->count)
        return rule_stretch(zone, t.us, low ? zone->at_us[low - 1] : INT64_MIN);
    return (struct zone_stretch){
        .start_us = low ? zone->at_us[low - 1] : INT64_MIN,
        .end_us = zone->at_us[low],
        .offset = low ? zone->after[low - 1] : zone->first,
    };
}

int32_t zone_offset(const struct zone *zone, struct wall t)
{
    return zone_stretch_at(zone, t).offset;
}

int64_t zone_local(const struct zone *zone, struct wall t)
{
    return t.us + zone_offset(zone, t) * SECOND_US;
}

enum zone_fit zone_instant(const struct zone *zone, int64_t local_us, struct wall *out,
                           struct wall *gap_end)
{
    unsigned found = 0;
    struct zone_stretch before = zone_stretch_at(zone, (struct wall){local_us - SEARCH_US}), at;
    for (at = before;; at = zone_stretch_at(zone, (struct wall){at.end_us})) {
        int64_t us = local_us - at.offset * SECOND_US;
        if (us >= at.start_us && us < at.end_us && !found++)
            out->us = us;
        if (!found && us >= at.end_us)
            before = at; /* the clocks jumped over it at the end of this stretch, or later */
        if (at.end_us == INT64_MAX || at.end_us > local_us + SEARCH_US)
            break;
    }
    if (found)
        return found > 1 ? ZONE_FIT_TWICE : ZONE_FIT_ONE;
    out->us = local_us - before.offset * SECOND_US;
    if (gap_end)
        gap_end->us = before.end_us;
    return ZONE_FIT_GAP;
}

struct str zone_format(const struct zone *zone, struct wall t, struct arena *arena)
{
    int32_t offset = zone_offset(zone, t), size = abs(offset) / 60;
    struct str utc_text = wall_format((struct wall){t.us + offset * SECOND_US}, arena);
    return arena_printf(arena, "%.*s%c%02d:%02d", (int)utc_text.len - 1, utc_text.ptr,
                        offset < 0 ? '-' : '+', size / 60, size % 60);
}
