/*
 * cron.c: reading cron expressions, and looking for their next tick.
 */
#include "engine/base/cron.h"

#include "engine/base/ascii.h"
#include "engine/base/civil.h"

#define YEARS_AHEAD 100
#define HOURS_ALL ((UINT32_C(1) << 24) - 1)

struct field {
    const char *what;
    unsigned min, max;
    const char *names; /* three letters each, of `min` on; NULL: none */
};

static const struct field fields[] = {
    {"minute", 0, 59, NULL},
    {"hour", 0, 23, NULL},
    {"day of the month", 1, 31, NULL},
    {"month", 1, 12, "janfebmaraprmayjunjulaugsepoctnovdec"},
    {"day of the week", 0, 7, "sunmontuewedthufrisat"},
};

struct reader {
    struct str text;
    size_t at, start; /* `start` of the field */
    const struct field *field;
    struct err *err;
};

static char peek(const struct reader *r)
{
    return r->at < r->text.len ? r->text.ptr[r->at] : '\0';
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

/* A number, or a name of the field. */
static int value_read(struct reader *r, unsigned *out)
{
    size_t start = r->at;
    unsigned value = 0;
    while (ascii_is_digit(peek(r)) && r->at - start < 4)
        value = value * 10 + (unsigned)(r->text.ptr[r->at++] - '0');
    if (r->at > start) {
        if (value < r->field->min || value > r->field->max)
            return err_set(r->err, ERR_INVALID, "the %s is from %u to %u", r->field->what,
                           r->field->min, r->field->max);
        *out = value;
        return 0;
    }
    while (ascii_is_alpha(peek(r)))
        r->at++;
    for (const char *name = r->field->names; name && *name && r->at - start == 3; name += 3) {
        const char *word = r->text.ptr + start;
        if (ascii_lower(word[0]) != name[0] || ascii_lower(word[1]) != name[1] ||
            ascii_lower(word[2]) != name[2])
            continue;
        *out = r->field->min + (unsigned)(name - r->field->names) / 3;
        return 0;
    }
    return err_set(r->err, ERR_INVALID, "this is no %s%s", r->field->what,
                   r->field->names ? ": write a number or three letters" : "");
}

static int step_read(struct reader *r, unsigned *out)
{
    size_t start = ++r->at;
    *out = 0;
    while (ascii_is_digit(peek(r)) && r->at - start < 4)
        *out = *out * 10 + (unsigned)(r->text.ptr[r->at++] - '0');
    if (*out == 0 || *out > r->field->max)
        return err_set(r->err, ERR_INVALID, "a step is from 1 to %u", r->field->max);
    return 0;
}

/* One item of a list: `*`, a, a-b, each but `a` with /n. */
static int item_read(struct reader *r, uint64_t *bits)
{
    unsigned from = r->field->min, to = r->field->max, step = 1;
    bool single = false;
    int code = 0;
    if (peek(r) == '*') {
        r->at++;
    } else {
        code = value_read(r, &from);
        to = from;
        single = peek(r) != '-';
        if (!code && !single) {
            r->at++;
            code = value_read(r, &to);
            if (!code && to == 0 && r->field->max == 7)
                to = 7; /* fri-sun */
            if (!code && to < from)
                code = err_set(r->err, ERR_INVALID, "a range goes upwards");
        }
    }
    if (!code && peek(r) == '/') {
        if (single)
            return err_set(r->err, ERR_INVALID, "a step needs a range: %u-%u/n", from,
                           r->field->max);
        code = step_read(r, &step);
    }
    for (unsigned value = from; !code && value <= to; value += step)
        *bits |= UINT64_C(1) << value;
    return code;
}

static int field_read(struct reader *r, uint64_t *bits, bool *star)
{
    int code;
    while (is_blank(peek(r)))
        r->at++;
    r->start = r->at;
    *star = peek(r) == '*';
    *bits = 0;
    if (r->at >= r->text.len)
        return err_set(r->err, ERR_INVALID, "the %s is missing: there are five fields",
                       r->field->what);
    do {
        code = item_read(r, bits);
    } while (!code && peek(r) == ',' && ++r->at);
    if (!code && r->at < r->text.len && !is_blank(peek(r)))
        code = err_set(r->err, ERR_INVALID, "this does not belong into the %s", r->field->what);
    return code;
}

static bool has_day(const struct cron *cron)
{
    if (cron->either_day)
        return true; /* a weekday comes in every month */
    for (int64_t month = 1; month <= 12; month++)
        for (int64_t day = 1; day <= civil_month_days(2000, month); day++)
            if (cron->months >> month & 1 && cron->days >> day & 1)
                return true;
    return false;
}

int cron_parse(struct str text, struct cron *out, size_t *at, size_t *len, struct err *err)
{
    struct reader r = {.text = text, .err = err};
    uint64_t bits[ARRAY_LEN(fields)];
    bool stars[ARRAY_LEN(fields)];
    int code = 0;
    for (size_t i = 0; i < ARRAY_LEN(fields) && !code; i++) {
        r.field = &fields[i];
        code = field_read(&r, &bits[i], &stars[i]);
    }
    while (!code && is_blank(peek(&r)))
        r.at++;
    if (!code && r.at < text.len) {
        r.start = r.at;
        code = err_set(err, ERR_INVALID,
                       "there are five fields: minute, hour, day, month, day of the week");
    }
    if (code) {
        size_t end = r.start;
        while (end < text.len && !is_blank(text.ptr[end]))
            end++;
        *at = MIN(r.start, text.len ? text.len - 1 : 0);
        *len = MAX(end - MIN(*at, end), (size_t)1);
        return code;
    }
    *out = (struct cron){
        .minutes = bits[0],
        .hours = (uint32_t)bits[1],
        .days = (uint32_t)bits[2],
        .months = (uint16_t)bits[3],
        .weekdays = (uint8_t)((bits[4] | bits[4] >> 7) & 0x7F),
        .either_day = !stars[2] && !stars[4],
    };
    *at = 0;
    *len = text.len;
    if (!has_day(out))
        return err_set(err, ERR_INVALID, "this never comes: no such month has such a day");
    return 0;
}

/* --- the next tick --- */

static bool day_matches(const struct cron *cron, int64_t days, int64_t day)
{
    bool date = cron->days >> day & 1, weekday = cron->weekdays >> civil_weekday(days) & 1;
    return cron->either_day ? date || weekday : date && weekday;
}

/* The lowest bit of `bits` from `from` on; -1: none. */
static int bit_from(uint64_t bits, int64_t from)
{
    uint64_t rest = from < 64 ? bits >> from << from : 0;
    return rest ? __builtin_ctzll(rest) : -1;
}

/* The first minute that matches, not before `minute` (since 1970 on the same clocks); INT64_MAX:
 * none before `last`. */
static int64_t minute_from(const struct cron *cron, int64_t minute, int64_t last)
{
    int64_t days = minute / 1440 - (minute % 1440 < 0), of_day = minute - days * 1440;
    int64_t year, month, day;
    for (; days <= last / 1440; days++, of_day = 0) {
        civil_date(days, &year, &month, &day);
        if (!(cron->months >> month & 1)) {
            days += civil_month_days(year, month) - day;
            continue;
        }
        if (!day_matches(cron, days, day))
            continue;
        int hour = bit_from(cron->hours, of_day / 60);
        int64_t from = hour == of_day / 60 ? of_day % 60 : 0;
        int in_hour = hour < 0 ? -1 : bit_from(cron->minutes, from);
        if (hour >= 0 && in_hour < 0) {
            hour = bit_from(cron->hours, hour + 1);
            in_hour = bit_from(cron->minutes, 0);
        }
        if (hour >= 0)
            return days * 1440 + hour * 60 + in_hour;
    }
    return INT64_MAX;
}

static int64_t floor_minutes(int64_t us)
{
    return us / MINUTE_US - (us % MINUTE_US < 0);
}

/* By the time that passes: in each stretch of one offset the clocks run evenly. */
static struct wall next_passing(const struct cron *cron, const struct zone *zone, struct wall after,
                                int64_t last)
{
    struct wall from = {after.us + 1};
    for (;;) {
        struct zone_stretch stretch = zone_stretch_at(zone, from);
        int64_t offset_us = stretch.offset * SECOND_US;
        int64_t minute = minute_from(cron, floor_minutes(from.us + offset_us - 1) + 1, last);
        if (minute == INT64_MAX)
            return WALL_NONE;
        int64_t us = minute * MINUTE_US - offset_us;
        if (us < stretch.end_us)
            return (struct wall){us};
        from.us = stretch.end_us;
    }
}

bool cron_is_hourly(const struct cron *cron)
{
    return cron->hours == HOURS_ALL;
}

struct wall cron_next(const struct cron *cron, const struct zone *zone, struct wall after)
{
    int64_t minute = floor_minutes(zone_local(zone, after));
    int64_t last = minute + (int64_t)YEARS_AHEAD * 366 * 1440;
    if (cron_is_hourly(cron))
        return next_passing(cron, zone, after, last);
    /* The instants of rising local times never fall, so the first one after `after` is the next. */
    while ((minute = minute_from(cron, minute, last)) != INT64_MAX) {
        struct wall tick, gap_end;
        if (zone_instant(zone, minute * MINUTE_US, &tick, &gap_end) == ZONE_FIT_GAP)
            tick = gap_end;
        if (tick.us > after.us)
            return tick;
        minute++;
    }
    return WALL_NONE;
}
