#include "engine/base/clock.h"

#include <stdio.h>

#include "engine/base/civil.h"

struct wall wall_add(struct wall t, int64_t duration_us)
{
    struct wall sum;
    if (__builtin_add_overflow(t.us, duration_us, &sum.us))
        sum.us = duration_us > 0 ? INT64_MAX : INT64_MIN;
    return sum;
}

struct str wall_format(struct wall t, struct arena *arena)
{
    int64_t y, m, d;
    int64_t days = t.us / DAY_US - (t.us % DAY_US < 0);
    int64_t rest = t.us - days * DAY_US;
    civil_date(days, &y, &m, &d);
    char fraction[16] = "";
    if (rest % SECOND_US)
        snprintf(fraction, sizeof(fraction), ".%06lld", (long long)(rest % SECOND_US));
    return arena_printf(arena, "%04lld-%02lld-%02lldT%02lld:%02lld:%02lld%sZ", (long long)y,
                        (long long)m, (long long)d, (long long)(rest / HOUR_US),
                        (long long)(rest / MINUTE_US % 60), (long long)(rest / SECOND_US % 60),
                        fraction);
}

/* Reads exactly `digits` digits at *at and moves on. */
static bool digits_read(struct str text, size_t *at, int digits, int64_t *out)
{
    int64_t value = 0;
    for (int i = 0; i < digits; i++, (*at)++) {
        if (*at >= text.len || text.ptr[*at] < '0' || text.ptr[*at] > '9')
            return false;
        value = value * 10 + (text.ptr[*at] - '0');
    }
    *out = value;
    return true;
}

static bool char_read(struct str text, size_t *at, const char *any_of)
{
    if (*at >= text.len || !text.ptr[*at] || !strchr(any_of, text.ptr[*at]))
        return false;
    (*at)++;
    return true;
}

static bool fraction_read(struct str text, size_t *at, int64_t *out_us)
{
    int64_t unit = SECOND_US / 10;
    size_t start = *at;
    *out_us = 0;
    for (; *at < text.len && text.ptr[*at] >= '0' && text.ptr[*at] <= '9'; (*at)++, unit /= 10)
        *out_us += (text.ptr[*at] - '0') * unit;
    return *at > start && *at - start <= 9;
}

static bool zone_read(struct str text, size_t *at, int64_t *out_us)
{
    int64_t h, m;
    *out_us = 0;
    if (char_read(text, at, "Zz"))
        return true;
    bool negative = *at < text.len && text.ptr[*at] == '-';
    if (!char_read(text, at, "+-") || !digits_read(text, at, 2, &h) || !char_read(text, at, ":") ||
        !digits_read(text, at, 2, &m) || h > 23 || m > 59)
        return false;
    *out_us = (h * HOUR_US + m * MINUTE_US) * (negative ? -1 : 1);
    return true;
}

/* A date and a time of day; the seconds may be missing where `minutes` are enough. */
static bool local_read(struct str text, size_t *at, bool minutes, int64_t *out_us)
{
    int64_t y, mo, d, h, mi, s = 0, fraction_us = 0;
    if (!digits_read(text, at, 4, &y) || !char_read(text, at, "-") ||
        !digits_read(text, at, 2, &mo) || !char_read(text, at, "-") ||
        !digits_read(text, at, 2, &d) || !char_read(text, at, "Tt ") ||
        !digits_read(text, at, 2, &h) || !char_read(text, at, ":") ||
        !digits_read(text, at, 2, &mi))
        return false;
    bool seconds = char_read(text, at, ":");
    if ((!seconds && !minutes) || (seconds && !digits_read(text, at, 2, &s)))
        return false;
    if (mo < 1 || mo > 12 || d < 1 || d > civil_month_days(y, mo) || h > 23 || mi > 59 || s > 59)
        return false;
    if (seconds && char_read(text, at, ".") && !fraction_read(text, at, &fraction_us))
        return false;
    *out_us =
        civil_days(y, mo, d) * DAY_US + h * HOUR_US + mi * MINUTE_US + s * SECOND_US + fraction_us;
    return true;
}

bool wall_parse(struct str text, struct wall *out)
{
    size_t at = 0;
    int64_t local_us, zone_us;
    if (!local_read(text, &at, false, &local_us) || !zone_read(text, &at, &zone_us) ||
        at != text.len)
        return false;
    out->us = local_us - zone_us;
    return true;
}

bool local_parse(struct str text, int64_t *out_us)
{
    size_t at = 0;
    return local_read(text, &at, true, out_us) && at == text.len;
}

static const struct duration_unit {
    const char *name;
    int64_t us;
} duration_units[] = {
    /* longest names first, so that `ms` is not read as `m` */
    {"us", 1}, {"ms", MS_US}, {"d", DAY_US}, {"h", HOUR_US}, {"m", MINUTE_US}, {"s", SECOND_US},
};

static const struct duration_unit *unit_read(struct str text, size_t *at)
{
    for (size_t i = 0; i < ARRAY_LEN(duration_units); i++) {
        struct str name = str_z(duration_units[i].name);
        struct str rest = {text.ptr + *at, text.len - *at};
        if (str_starts(rest, name)) {
            *at += name.len;
            return &duration_units[i];
        }
    }
    return NULL;
}

bool duration_parse(struct str text, int64_t *out_us)
{
    int64_t total = 0;
    size_t at = 0;
    if (!text.len)
        return false;
    while (at < text.len) {
        int64_t whole = 0, fraction = 0, scale = 1, part;
        size_t start = at;
        for (; at < text.len && text.ptr[at] >= '0' && text.ptr[at] <= '9'; at++)
            if (__builtin_mul_overflow(whole, 10, &whole) ||
                __builtin_add_overflow(whole, text.ptr[at] - '0', &whole))
                return false;
        if (at == start)
            return false;
        if (char_read(text, &at, "."))
            for (start = at; at < text.len && text.ptr[at] >= '0' && text.ptr[at] <= '9'; at++) {
                if (scale >= 1000000)
                    return false;
                fraction = fraction * 10 + (text.ptr[at] - '0');
                scale *= 10;
            }
        if (at == start)
            return false;
        const struct duration_unit *unit = unit_read(text, &at);
        if (!unit || __builtin_mul_overflow(whole, unit->us, &part) ||
            __builtin_add_overflow(total, part, &total) ||
            __builtin_add_overflow(total, fraction * unit->us / scale, &total))
            return false;
    }
    *out_us = total;
    return true;
}

struct str duration_format(int64_t duration_us, struct arena *arena)
{
    char text[96] = "";
    size_t used = 0;
    static const struct duration_unit parts[] = {
        {"d", DAY_US}, {"h", HOUR_US}, {"m", MINUTE_US}, {"s", SECOND_US}, {"ms", MS_US}, {"us", 1},
    };
    if (duration_us == 0)
        return arena_str(arena, STR("0s"));
    for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
        int64_t count = duration_us / parts[i].us;
        if (!count)
            continue;
        used += (size_t)snprintf(text + used, sizeof(text) - used, "%lld%s", (long long)count,
                                 parts[i].name);
        duration_us -= count * parts[i].us;
    }
    return arena_str(arena, str_z(text));
}
