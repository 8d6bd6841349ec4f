/*
 * compile_time.c: time zones and schedules. Zones are read from the system's zone files and become
 * part of the plan, so that evaluation needs no file.
 */
#include "dsl/compiler.h"

#include <stdio.h>
#include <stdlib.h>

#include "dsl/fit.h"
#include "engine/base/cron.h"

#define ZONES_FOLDER "/usr/share/zoneinfo"
#define ZONE_NAMES_MAX 1000

/* --- zones --- */

static bool file_read(const char *path, size_t max, struct buf *out)
{
    char chunk[8192];
    size_t len;
    FILE *file = fopen(path, "rbe");
    if (!file)
        return false;
    while ((len = fread(chunk, 1, sizeof(chunk), file)) > 0 && out->len <= max)
        buf_add(out, chunk, len);
    bool ok = !ferror(file) && out->len <= max;
    fclose(file);
    return ok;
}

/* The names in tzdata's own list: lines "Z NAME ..." and "L TARGET NAME". */
static size_t zone_names(struct str list, const char **names, struct arena *arena)
{
    size_t count = 0, at = 0;
    while (at < list.len && count < ZONE_NAMES_MAX) {
        const char *line = list.ptr + at, *stop = memchr(line, '\n', list.len - at);
        size_t len = stop ? (size_t)(stop - line) : list.len - at;
        at += len + 1;
        if (len < 3 || line[1] != ' ' || (line[0] != 'Z' && line[0] != 'L'))
            continue;
        const char *name = line + 2, *end = memchr(name, ' ', len - 2);
        if (line[0] == 'L') {
            name = end ? end + 1 : name;
            end = line + len;
        }
        if (end && end > name)
            names[count++] = arena_str(arena, (struct str){name, (size_t)(end - name)}).ptr;
    }
    return count;
}

static void zone_unknown(struct compiler *cx, struct str name, struct place place)
{
    struct buf list = {0};
    struct diag *diag =
        cx_error(cx, "E217", place, "unknown time zone `" STR_FMT "`", STR_ARG(name));
    if (!file_read(ZONES_FOLDER "/tzdata.zi", 1024 * 1024, &list)) {
        diag_help(cx->diags, diag, "the zones are those of %s, from the package tzdata",
                  ZONES_FOLDER);
    } else {
        const char **names =
            (const char **)arena_alloc_array(cx->scratch, ZONE_NAMES_MAX, sizeof(*names));
        const char *nearest =
            diag_nearest(name, names, zone_names(buf_str(&list), names, cx->scratch));
        if (nearest)
            diag_help(cx->diags, diag, "a zone with a similar name exists: `%s`", nearest);
        else
            diag_help(cx->diags, diag, "zones are named as in `Europe/Berlin` or `UTC`");
    }
    buf_free(&list);
}

const struct zone *zone_load(struct compiler *cx, struct str name, struct place place)
{
    struct buf bytes = {0};
    struct err err;
    const struct zone *zone = NULL;
    if (str_eq(name, STR("UTC")))
        return zone_utc();
    for (size_t i = 0; i < cx->zones_count; i++)
        if (str_eq_z(name, zone_name(cx->zones[i])))
            return cx->zones[i];
    const char *path = arena_printf(cx->scratch, ZONES_FOLDER "/" STR_FMT, STR_ARG(name)).ptr;
    if (!zone_name_is_valid(name) || !file_read(path, ZONE_FILE_BYTES_MAX, &bytes))
        zone_unknown(cx, name, place);
    else if (zone_parse(name, buf_str(&bytes), cx->arena, &zone, &err) != 0)
        cx_error(cx, "E217", place, "%s", err.text);
    buf_free(&bytes);
    if (zone && cx->zones_count < ARRAY_LEN(cx->zones))
        cx->zones[cx->zones_count++] = zone;
    return zone;
}

void zone_literal_check(struct compiler *cx, const struct zone *zone, struct str text,
                        struct place place)
{
    struct wall instant;
    int64_t local_us;
    struct diag *diag = NULL;
    if (wall_parse(text, &instant)) {
        diag = cx_error(cx, "E206", place, "this time has an offset of its own");
        diag_help(cx->diags, diag, "leave out the offset, or the zone");
        return;
    }
    if (!local_parse(text, &local_us)) {
        cx_error(cx, "E206", place, "this is no local time such as '2026-10-25T02:30:00'");
        return;
    }
    switch (zone_instant(zone, local_us, &instant, NULL)) {
    case ZONE_FIT_ONE: return;
    case ZONE_FIT_GAP:
        diag = cx_warning(cx, "W208", place, "in %s the clocks skip this time: it counts as %s",
                          zone_name(zone), zone_format(zone, instant, cx->scratch).ptr);
        break;
    case ZONE_FIT_TWICE:
        diag = cx_warning(cx, "W208", place,
                          "in %s the clocks show this time twice: the first counts, %s",
                          zone_name(zone), zone_format(zone, instant, cx->scratch).ptr);
        break;
    }
    if (diag)
        diag_help(cx->diags, diag,
                  "the time with its offset, and no zone, says which is meant: '%s'",
                  zone_format(zone, instant, cx->scratch).ptr);
}

/* --- schedules --- */

static const char *overlap_word(int value)
{
    static const char *const words[] = {"", "skip", "queue"};
    return (size_t)value < ARRAY_LEN(words) ? words[value] : "";
}

static const char *catch_up_word(int value)
{
    static const char *const words[] = {"", "none", "last", "all"};
    return (size_t)value < ARRAY_LEN(words) ? words[value] : "";
}

/* What cron implementations know besides the five fields. */
static const char *cron_macro(struct str text)
{
    static const struct {
        const char *name, *fields;
    } macros[] = {{"@hourly", "0 * * * *"},   {"@daily", "0 0 * * *"},   {"@midnight", "0 0 * * *"},
                  {"@weekly", "0 0 * * sun"}, {"@monthly", "0 0 1 * *"}, {"@yearly", "0 0 1 1 *"},
                  {"@annually", "0 0 1 1 *"}};
    for (size_t i = 0; i < ARRAY_LEN(macros); i++)
        if (str_eq_z(text, macros[i].name))
            return macros[i].fields;
    return NULL;
}

static const struct cron *cron_compile(struct compiler *cx, const struct node *node,
                                       const char **text)
{
    struct cron *cron = arena_new(cx->arena, struct cron);
    struct str source;
    size_t at, len;
    struct err err;
    if (!read_text(cx, node, "`cron`", &source))
        return NULL;
    *text = source.ptr;
    if (cron_parse(source, cron, &at, &len, &err) == 0)
        return cron;
    struct diag *diag =
        source.len ? cx_error(cx, "E128", text_place(cx, node, at, at + len), "%s", err.text)
                   : node_error(cx, "E128", node, "%s", err.text);
    const char *fields = cron_macro(source);
    if (fields)
        diag_help(cx->diags, diag, "write `%s`", fields);
    return NULL;
}

/* Every run that the schedule starts would be refused for what cannot fit. */
static void schedule_input_check(struct compiler *cx, const struct node *node,
                                 const struct plan_schedule *schedule)
{
    struct schema_errors errors;
    const struct fit_reader reader = {NULL, cx->plan, PLAN_STEP_NONE};
    const struct node *input = node_get(node, "input");
    if (template_fits(schedule->input, cx->plan->input, &reader, cx->scratch, &errors))
        return;
    for (uint32_t i = 0; i < errors.count; i++)
        node_error(cx, "E129", input ? input : node,
                   "the runs' input does not fit the schema of `input`: " STR_FMT " " STR_FMT,
                   STR_ARG(errors.list[i].pointer), STR_ARG(errors.list[i].message));
}

/* The ticks that were missed are due one right after the other. */
static void missed_ticks_check(struct compiler *cx, const struct node *catch_up,
                               const struct plan_schedule *schedule)
{
    if (schedule->catch_up != CATCH_UP_ALL || schedule->overlap != OVERLAP_SKIP)
        return;
    struct diag *diag =
        node_warning(cx, "W317", catch_up,
                     "`catch_up: all` beside `overlap: skip`: a missed tick is skipped while the "
                     "run of the one before is open");
    diag_help(cx->diags, diag,
              "say `overlap: queue`, or `catch_up: last` if one run makes up for all");
}

void schedule_compile(struct compiler *cx, const struct node *node)
{
    const struct expr_rules rules = {
        .where = "`input` of a schedule",
        .roots = ROOT_TICK | ROOT_ENV,
        .step = PLAN_STEP_NONE,
    };
    struct plan_schedule *schedule = arena_new(cx->arena, struct plan_schedule);
    const struct node *part;
    struct str zone;
    int value;
    if (node->kind == NODE_TEXT) {
        struct diag *diag = node_error(cx, "E103", node, "`schedule` must be a map, not text");
        diag_help(cx->diags, diag, "write `schedule: {cron: \"" STR_FMT "\", zone: Europe/Berlin}`",
                  STR_ARG(node->text));
        return;
    }
    if (!keys_check(cx, node, LANG_SCHEDULE))
        return;
    schedule->zone = zone_utc();
    if ((part = node_get(node, "cron")))
        schedule->cron = cron_compile(cx, part, &schedule->cron_text);
    if ((part = node_get(node, "zone")) && read_text(cx, part, "`zone`", &zone))
        schedule->zone = zone_load(cx, zone, doc_node_place(cx->doc, part));
    schedule->zone_name = schedule->zone ? zone_name(schedule->zone) : "";
    if ((part = node_get(node, "overlap")) &&
        read_choice(cx, part, LANG_SCHEDULE, "overlap", overlap_word, &value))
        schedule->overlap = (enum schedule_overlap)(value - 1);
    if ((part = node_get(node, "catch_up")) &&
        read_choice(cx, part, LANG_SCHEDULE, "catch_up", catch_up_word, &value))
        schedule->catch_up = (enum schedule_catch_up)(value - 1);
    missed_ticks_check(cx, part, schedule);
    if ((part = node_get(node, "input")))
        schedule->input = template_compile(cx, part, &rules);
    cx->plan->schedule = schedule;
    schedule_input_check(cx, node, schedule);
}
