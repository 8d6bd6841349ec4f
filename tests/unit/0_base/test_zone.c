/*
 * Time zones against what the C library says, and cron expressions.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "engine/base/civil.h"
#include "engine/base/cron.h"

static struct arena arena;

static struct str file_read(const char *name)
{
    static char bytes[ZONE_FILE_BYTES_MAX];
    char path[256];
    snprintf(path, sizeof(path), "/usr/share/zoneinfo/%s", name);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    size_t len = fread(bytes, 1, sizeof(bytes), file);
    fclose(file);
    return (struct str){bytes, len};
}

static const struct zone *zone(const char *name)
{
    const struct zone *made;
    struct err err;
    if (zone_parse(str_z(name), file_read(name), &arena, &made, &err) != 0)
        fail_msg("%s", err.text);
    return made;
}

static struct wall at(const char *text)
{
    struct wall t;
    assert_true(wall_parse(str_z(text), &t));
    return t;
}

static int64_t local(const char *text)
{
    int64_t us;
    assert_true(local_parse(str_z(text), &us));
    return us;
}

static void offsets_are_those_of_the_library(void **state)
{
    static const char *const names[] = {
        "Europe/Berlin",    "America/New_York", "Australia/Lord_Howe", "Europe/Dublin",
        "Asia/Kathmandu",   "America/Nuuk",     "Africa/Casablanca",   "Pacific/Apia",
        "America/St_Johns", "Asia/Tehran",      "Antarctica/Troll",    "Etc/GMT+5",
        "Africa/Cairo",     "Asia/Gaza",        "America/Santiago",    "UTC"};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        const struct zone *made = zone(names[i]);
        setenv("TZ", names[i], 1);
        tzset();
        /* 1900 to 2100, in steps that meet every hour of the day. */
        for (int64_t t = -2208988800; t < 4102444800; t += 86400 * 3 + 3617) {
            time_t seconds = (time_t)t;
            struct tm tm;
            localtime_r(&seconds, &tm);
            int32_t offset = zone_offset(made, (struct wall){t * SECOND_US});
            if (offset != tm.tm_gmtoff)
                fail_msg("%s at %lld: %d, not %ld", names[i], (long long)t, offset, tm.tm_gmtoff);
        }
    }
    setenv("TZ", "UTC", 1);
    tzset();
}

static void changes_are_exact(void **state)
{
    (void)state;
    const struct zone *berlin = zone("Europe/Berlin");
    assert_int_equal(zone_offset(berlin, at("2026-10-25T00:59:59Z")), 7200);
    assert_int_equal(zone_offset(berlin, at("2026-10-25T01:00:00Z")), 3600);
    assert_int_equal(zone_offset(berlin, at("2099-03-29T00:59:59Z")), 3600); /* by the rule */
    assert_int_equal(zone_offset(berlin, at("2099-03-29T01:00:00Z")), 7200);
    struct zone_stretch winter = zone_stretch_at(berlin, at("2050-01-01T00:00:00Z"));
    assert_int_equal(winter.start_us, at("2049-10-31T01:00:00Z").us);
    assert_int_equal(winter.end_us, at("2050-03-27T01:00:00Z").us);
    assert_int_equal(zone_stretch_at(zone_utc(), at("2026-01-01T00:00:00Z")).end_us, INT64_MAX);
    assert_string_equal(zone_format(berlin, at("2026-10-25T00:30:00Z"), &arena).ptr,
                        "2026-10-25T02:30:00+02:00");
    assert_string_equal(
        zone_format(zone("America/St_Johns"), at("2026-01-01T00:00:00Z"), &arena).ptr,
        "2025-12-31T20:30:00-03:30");
    assert_string_equal(zone_name(berlin), "Europe/Berlin");
    assert_int_equal(zone_offset(zone_copy(&arena, berlin), at("2026-07-01T00:00:00Z")), 7200);
}

static void instants_of_local_times(void **state)
{
    static const struct {
        const char *zone, *local, *instant;
        enum zone_fit fit;
    } cases[] = {
        {"Europe/Berlin", "2026-07-01T12:00", "2026-07-01T10:00:00Z", ZONE_FIT_ONE},
        {"Europe/Berlin", "2027-03-28T01:59:59", "2027-03-28T00:59:59Z", ZONE_FIT_ONE},
        {"Europe/Berlin", "2027-03-28T02:00", "2027-03-28T01:00:00Z", ZONE_FIT_GAP},
        {"Europe/Berlin", "2027-03-28T02:30", "2027-03-28T01:30:00Z", ZONE_FIT_GAP},
        {"Europe/Berlin", "2027-03-28T03:00", "2027-03-28T01:00:00Z", ZONE_FIT_ONE},
        {"Europe/Berlin", "2026-10-25T01:59:59", "2026-10-24T23:59:59Z", ZONE_FIT_ONE},
        {"Europe/Berlin", "2026-10-25T02:00", "2026-10-25T00:00:00Z", ZONE_FIT_TWICE},
        {"Europe/Berlin", "2026-10-25T02:30", "2026-10-25T00:30:00Z", ZONE_FIT_TWICE},
        {"Europe/Berlin", "2026-10-25T03:00", "2026-10-25T02:00:00Z", ZONE_FIT_ONE},
        {"America/New_York", "2027-03-14T02:30", "2027-03-14T07:30:00Z", ZONE_FIT_GAP},
        {"America/New_York", "2026-11-01T01:30", "2026-11-01T05:30:00Z", ZONE_FIT_TWICE},
        {"Australia/Lord_Howe", "2026-10-04T02:15", "2026-10-03T15:45:00Z", ZONE_FIT_GAP},
        {"Pacific/Apia", "2011-12-30T12:00", "2011-12-30T22:00:00Z",
         ZONE_FIT_GAP}, /* no such day */
        {"UTC", "2027-03-28T02:30", "2027-03-28T02:30:00Z", ZONE_FIT_ONE},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct wall instant, gap_end;
        enum zone_fit fit =
            zone_instant(zone(cases[i].zone), local(cases[i].local), &instant, &gap_end);
        assert_int_equal(fit, cases[i].fit);
        assert_string_equal(wall_format(instant, &arena).ptr, cases[i].instant);
        if (i == 3)
            assert_string_equal(wall_format(gap_end, &arena).ptr, "2027-03-28T01:00:00Z");
    }
}

/* Whatever instant is looked at, its local time leads back to it, or to the first of two. */
static void there_and_back(void **state)
{
    const struct zone *made = zone("America/New_York");
    (void)state;
    for (struct wall t = at("2026-01-01T00:00:00Z"); t.us < at("2027-12-31T00:00:00Z").us;
         t.us += 17 * MINUTE_US) {
        struct wall back;
        enum zone_fit fit = zone_instant(made, zone_local(made, t), &back, NULL);
        assert_true(fit != ZONE_FIT_GAP);
        assert_true(back.us == t.us || (fit == ZONE_FIT_TWICE && back.us == t.us - HOUR_US));
    }
}

static void broken_files_are_refused(void **state)
{
    const struct zone *made;
    struct err err;
    struct str berlin = file_read("Europe/Berlin");
    char *copy = malloc(berlin.len);
    unsigned refused = 0;
    (void)state;
    assert_non_null(copy);
    for (size_t len = 0; len < berlin.len; len++) /* cut anywhere */
        if (zone_parse(STR("x"), (struct str){berlin.ptr, len}, &arena, &made, &err) != 0)
            refused++;
    assert_int_equal(refused, berlin.len);
    for (size_t i = 0; i < berlin.len; i++) { /* one wrong byte: read or refused, never worse */
        memcpy(copy, berlin.ptr, berlin.len);
        copy[i] = (char)(copy[i] ^ 0xA5);
        if (zone_parse(STR("x"), (struct str){copy, berlin.len}, &arena, &made, &err) == 0) {
            struct wall instant;
            zone_offset(made, (struct wall){1});
            zone_instant(made, 1, &instant, NULL);
        }
    }
    free(copy);
    assert_int_equal(zone_parse(STR("x"), STR("no zone"), &arena, &made, &err), ERR_INVALID);
    assert_string_equal(err.text, "\"x\" is no TZif file of version 2 or later");
}

static void names(void **state)
{
    static const char *const good[] = {"UTC",
                                       "Europe/Berlin",
                                       "Etc/GMT+5",
                                       "Etc/GMT-14",
                                       "America/Argentina/Buenos_Aires",
                                       "America/Port-au-Prince"};
    static const char *const bad[] = {"",
                                      "/etc/passwd",
                                      "../../etc/passwd",
                                      "Europe/../UTC",
                                      "a//b",
                                      "Europe/",
                                      ".",
                                      "a b",
                                      "a\nb",
                                      "-x",
                                      "Europe/.hidden",
                                      "a.b"};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(good); i++)
        assert_true(zone_name_is_valid(str_z(good[i])));
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_false(zone_name_is_valid(str_z(bad[i])));
    assert_false(zone_name_is_valid((struct str){"UTC\0", 4}));
}

static void civil(void **state)
{
    int64_t y, m, d;
    (void)state;
    for (int64_t days = -800000; days < 800000; days += 13) {
        civil_date(days, &y, &m, &d);
        assert_int_equal(civil_days(y, m, d), days);
        assert_true(m >= 1 && m <= 12 && d >= 1 && d <= civil_month_days(y, m));
    }
    assert_int_equal(civil_weekday(0), 4); /* a Thursday */
    assert_int_equal(civil_weekday(-5), 6);
    assert_int_equal(civil_weekday(civil_days(2026, 10, 25)), 0);
}

/* --- cron --- */

static struct cron cron(const char *text)
{
    struct cron made;
    struct err err;
    size_t start, len;
    if (cron_parse(str_z(text), &made, &start, &len, &err) != 0)
        fail_msg("%s: %s", text, err.text);
    return made;
}

static void ticks(void **state)
{
    static const struct {
        const char *cron, *zone, *after, *ticks[4];
    } cases[] = {
        {"* * * * *", "UTC", "2026-10-25T02:30:00Z", {"2026-10-25T02:31:00Z"}},
        {"* * * * *", "UTC", "2026-10-25T02:30:01Z", {"2026-10-25T02:31:00Z"}},
        {"*/15 * * * *",
         "UTC",
         "2026-10-25T02:30:00Z",
         {"2026-10-25T02:45:00Z", "2026-10-25T03:00:00Z"}},
        {"0 9 * * mon-fri",
         "UTC",
         "2026-10-23T09:00:00Z",
         {"2026-10-26T09:00:00Z", "2026-10-27T09:00:00Z"}},
        {"0 9 1,15 * fri-sun",
         "UTC",
         "2026-10-09T09:00:00Z", /* either day */
         {"2026-10-10T09:00:00Z", "2026-10-11T09:00:00Z", "2026-10-15T09:00:00Z",
          "2026-10-16T09:00:00Z"}},
        {"0 9 */2 * mon",
         "UTC",
         "2026-10-01T09:00:00Z", /* both: one starts with a star */
         {"2026-10-05T09:00:00Z", "2026-10-19T09:00:00Z"}},
        {"30 4 31 * *",
         "UTC",
         "2026-01-31T04:30:00Z",
         {"2026-03-31T04:30:00Z", "2026-05-31T04:30:00Z"}},
        {"0 0 29 feb *",
         "UTC",
         "2026-01-01T00:00:00Z",
         {"2028-02-29T00:00:00Z", "2032-02-29T00:00:00Z"}},
        {"59 23 31 12 *", "UTC", "2026-12-31T23:59:00Z", {"2027-12-31T23:59:00Z"}},
        {"5-10/5 8-9 * JAN,Jul 0",
         "UTC",
         "2026-02-01T00:00:00Z",
         {"2026-07-05T08:05:00Z", "2026-07-05T08:10:00Z", "2026-07-05T09:05:00Z"}},
        {"0 0 * * 7", "UTC", "2026-10-20T00:00:00Z", {"2026-10-25T00:00:00Z"}},
        /* a gap: once, at its end */
        {"30 2 * * *",
         "Europe/Berlin",
         "2027-03-27T12:00:00Z",
         {"2027-03-28T01:00:00Z", "2027-03-29T00:30:00Z"}},
        {"*/20 2 * * *",
         "Europe/Berlin",
         "2027-03-27T12:00:00Z",
         {"2027-03-28T01:00:00Z", "2027-03-29T00:00:00Z"}},
        {"0 3 * * *",
         "Europe/Berlin",
         "2027-03-27T12:00:00Z",
         {"2027-03-28T01:00:00Z", "2027-03-29T01:00:00Z"}},
        {"0 2,3 * * *",
         "Europe/Berlin",
         "2027-03-27T12:00:00Z", /* both at once are one */
         {"2027-03-28T01:00:00Z", "2027-03-29T00:00:00Z"}},
        {"30 2 * * *",
         "America/New_York",
         "2027-03-13T12:00:00Z",
         {"2027-03-14T07:00:00Z", "2027-03-15T06:30:00Z"}},
        /* twice the same time: once, the first */
        {"30 2 * * *",
         "Europe/Berlin",
         "2026-10-24T12:00:00Z",
         {"2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"}},
        {"30 2 * * *", "Europe/Berlin", "2026-10-25T01:15:00Z", {"2026-10-26T01:30:00Z"}},
        {"30 1 * * *",
         "America/New_York",
         "2026-10-31T12:00:00Z",
         {"2026-11-01T05:30:00Z", "2026-11-02T06:30:00Z"}},
        /* every hour: by the time that passes */
        {"30 * * * *",
         "Europe/Berlin",
         "2026-10-24T23:30:00Z",
         {"2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z", "2026-10-25T02:30:00Z"}},
        {"30 * * * *",
         "Europe/Berlin",
         "2027-03-28T00:30:00Z",
         {"2027-03-28T01:30:00Z", "2027-03-28T02:30:00Z"}},
        {"0 * * * *", "Asia/Kathmandu", "2026-01-01T00:00:00Z", {"2026-01-01T00:15:00Z"}},
        {"0 12 * * *",
         "Pacific/Apia",
         "2011-12-29T22:30:00Z", /* a day that was left out */
         {"2011-12-30T10:00:00Z", "2011-12-30T22:00:00Z"}},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct cron made = cron(cases[i].cron);
        struct wall tick = at(cases[i].after);
        for (size_t t = 0; t < ARRAY_LEN(cases[i].ticks) && cases[i].ticks[t]; t++) {
            tick = cron_next(&made, zone(cases[i].zone), tick);
            if (!str_eq_z(wall_format(tick, &arena), cases[i].ticks[t]))
                fail_msg("%s in %s, tick %zu: %s, not %s", cases[i].cron, cases[i].zone, t,
                         wall_format(tick, &arena).ptr, cases[i].ticks[t]);
        }
    }
}

/* Ticks rise, lie on whole minutes, and none is left out or told twice: walking from tick to tick
 * and asking from every minute give the same ones. */
static void ticks_from_anywhere(void **state)
{
    static const char *const crons[] = {"*/7 1-3 * * *", "30 2 * * sun", "*/7 * * * *"};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(crons); i++) {
        struct cron made = cron(crons[i]);
        const struct zone *berlin = zone("Europe/Berlin");
        struct wall from = at("2026-10-24T00:00:00Z"), tick = from;
        for (; from.us < at("2026-10-27T00:00:00Z").us; from.us += MINUTE_US) {
            if (from.us >= tick.us) {
                struct wall next = cron_next(&made, berlin, tick);
                assert_true(next.us > tick.us && next.us % MINUTE_US == 0);
                tick = next;
            }
            assert_int_equal(cron_next(&made, berlin, from).us, tick.us);
        }
    }
}

static void wrong_crons(void **state)
{
    static const struct {
        const char *cron, *said;
        size_t at, len;
    } cases[] = {
        {"", "the minute is missing: there are five fields", 0, 1},
        {"* * * *", "the day of the week is missing: there are five fields", 6, 1},
        {"0 0 * * * *", "there are five fields: minute, hour, day, month, day of the week", 10, 1},
        {"60 * * * *", "the minute is from 0 to 59", 0, 2},
        {"* 24 * * *", "the hour is from 0 to 23", 2, 2},
        {"* * 0 * *", "the day of the month is from 1 to 31", 4, 1},
        {"* * * 13 *", "the month is from 1 to 12", 6, 2},
        {"* * * * 8", "the day of the week is from 0 to 7", 8, 1},
        {"* * * foo *", "this is no month: write a number or three letters", 6, 3},
        {"x * * * *", "this is no minute", 0, 1},
        {"*/0 * * * *", "a step is from 1 to 59", 0, 3},
        {"5/15 * * * *", "a step needs a range: 5-59/n", 0, 4},
        {"30-10 * * * *", "a range goes upwards", 0, 5},
        {"1,,2 * * * *", "this is no minute", 0, 4},
        {"* * L * *", "this is no day of the month", 4, 1},
        {"*x * * * *", "this does not belong into the minute", 0, 2},
        {"0 0 31 2 *", "this never comes: no such month has such a day", 0, 10},
        {"0 0 31 feb,apr,jun,sep,nov *", "this never comes: no such month has such a day", 0, 28},
        {"0 0 31 2 */2", "this never comes: no such month has such a day", 0, 12},
        {"@daily", "this is no minute", 0, 6},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct cron made;
        struct err err;
        size_t start, len;
        assert_int_equal(cron_parse(str_z(cases[i].cron), &made, &start, &len, &err), ERR_INVALID);
        assert_string_equal(err.text, cases[i].said);
        assert_int_equal(start, cases[i].at);
        assert_int_equal(len, cases[i].len);
    }
}

static int arena_release(void **state)
{
    (void)state;
    arena_free(&arena);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(offsets_are_those_of_the_library),
        cmocka_unit_test(changes_are_exact),
        cmocka_unit_test(instants_of_local_times),
        cmocka_unit_test(there_and_back),
        cmocka_unit_test(broken_files_are_refused),
        cmocka_unit_test(names),
        cmocka_unit_test(civil),
        cmocka_unit_test(ticks),
        cmocka_unit_test(ticks_from_anywhere),
        cmocka_unit_test(wrong_crons),
    };
    return cmocka_run_group_tests_name("zone", tests, NULL, arena_release);
}
