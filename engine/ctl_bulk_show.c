/*
 * ctl_bulk_show.c: verbs for many runs as they stand: the list, the report of one, and its end.
 */
#include "engine/ctl_bulk.h"
#include "engine/ctl_client.h"
#include "engine/ctl_json.h"
#include "engine/ctl_rows.h"
#include "engine/ctl_runs.h"
#include "engine/ctl_show.h"
#include "engine/ctl_text.h"
#include "engine/ctl_verbs.h"

#include <stdlib.h>

int64_t ctl_bulk_number(const struct json *json, const char *name)
{
    const struct json *value = json_get_z(json, name);
    int64_t number = 0;
    return value && json_to_int(value, &number) ? number : 0;
}

/* The first runs that did not obey, each with its reason. */
static void refusals_print(struct ctl *ctl, const struct json *bulk)
{
    const struct json *refusals = json_get_z(bulk, "refusals");
    struct table table = {0};
    if (!refusals || refusals->kind != JSON_LIST || !refusals->count)
        return;
    table_column(&table, "RUN");
    table_column(&table, "OUTCOME");
    table_column(&table, "WHY");
    for (uint32_t i = 0; i < refusals->count; i++) {
        bool lost = str_eq_z(json_get_text(refusals->items[i], "outcome"), "lost");
        table_add(&table, json_get_text(refusals->items[i], "run_id"), PAINT_YELLOW);
        table_add(&table, lost ? STR("lost") : STR("refused"), PAINT_NONE);
        table_add(&table, json_get_text(refusals->items[i], "answer"), PAINT_NONE);
    }
    table_print(&table, ctl);
    table_free(&table);
    if (ctl_bulk_number(bulk, "refused") + ctl_bulk_number(bulk, "lost") > refusals->count)
        ctl_say(ctl, "these are the first %u; all are in the view saga.bulk_runs", refusals->count);
}

/* "ID  retry  stopped  3 of 9 done, 4 refused, 1 lost, 1 not asked for (stopped by uid:0)" */
static void line_print(struct ctl *ctl, const struct json *bulk)
{
    struct str stopped = json_get_text(bulk, "stopped");
    text_add_painted(&ctl->out, ctl->color, PAINT_BOLD, json_get_text(bulk, "bulk_id"));
    buf_add_z(&ctl->out, "  ");
    text_add(&ctl->out, json_get_text(bulk, "verb"));
    buf_add_z(&ctl->out, "  ");
    text_add(&ctl->out, json_get_text(bulk, "state"));
    buf_printf(&ctl->out, "  %lld of %lld done", (long long)ctl_bulk_number(bulk, "done"),
               (long long)ctl_bulk_number(bulk, "total"));
    int64_t refused = ctl_bulk_number(bulk, "refused"), lost = ctl_bulk_number(bulk, "lost");
    int64_t left = ctl_bulk_number(bulk, "total") - ctl_bulk_number(bulk, "released");
    if (refused)
        buf_printf(&ctl->out, ", %lld refused", (long long)refused);
    if (lost)
        buf_printf(&ctl->out, ", %lld lost", (long long)lost);
    if (left)
        buf_printf(&ctl->out, ", %lld not asked for%s", (long long)left,
                   stopped.len || json_get_text(bulk, "ended_at").len ? "" : " yet");
    if (stopped.len) {
        buf_add_z(&ctl->out, " (");
        text_add(&ctl->out, stopped);
        buf_add_char(&ctl->out, ')');
    }
    buf_add_char(&ctl->out, '\n');
}

/* False if these formats took it. */
static bool is_for_people(struct ctl *ctl, const struct ctl_reply *reply, const struct json *bulk)
{
    if (ctl_format_is_json(ctl)) {
        ctl_print_document(ctl, reply->body);
        return false;
    }
    if (ctl->format != CTL_FORMAT_NAME)
        return true;
    text_add(&ctl->out, json_get_text(bulk, "bulk_id"));
    buf_add_char(&ctl->out, '\n');
    return false;
}

void ctl_bulk_print(struct ctl *ctl, const struct ctl_reply *reply, const struct json *bulk)
{
    if (!is_for_people(ctl, reply, bulk))
        return;
    line_print(ctl, bulk);
    refusals_print(ctl, bulk);
}

/* --- the report of one ------------------------------------------------------------------------ */

static double decimal_of(const struct json *json, const char *name)
{
    const struct json *value = json_get_z(json, name);
    return value && value->kind == JSON_NUMBER ? strtod(value->text.ptr, NULL) : 0;
}

/* "10 a second; the 25 to come take about 2.5s" */
static struct str rate_text(struct ctl *ctl, const struct json *bulk, bool works)
{
    double rate = decimal_of(bulk, "rate");
    int64_t left = ctl_bulk_number(bulk, "total") - ctl_bulk_number(bulk, "released");
    struct str text = arena_printf(&ctl->scratch, "%.6g a %s", rate < 1 ? rate * 60 : rate,
                                   rate < 1 ? "minute" : "second");
    if (!works || !left || rate <= 0)
        return text;
    return arena_printf(
        &ctl->scratch, STR_FMT "; the %lld to come take%s about " STR_FMT, STR_ARG(text),
        (long long)left, left == 1 ? "s" : "",
        STR_ARG(text_duration((int64_t)((double)left / rate * SECOND_US), &ctl->scratch)));
}

static struct str when_text(struct ctl *ctl, const struct json *bulk, const char *name)
{
    struct wall at;
    return wall_parse(json_get_text(bulk, name), &at) ? show_when(ctl, at) : STR("");
}

/* "2026-10-25T02:30:00Z (5m ago) by uid:0" */
static struct str asked_text(struct ctl *ctl, const struct json *bulk)
{
    struct str text = when_text(ctl, bulk, "at"), by = json_get_text(bulk, "actor");
    return arena_printf(&ctl->scratch, STR_FMT "%s" STR_FMT, STR_ARG(text), by.len ? " by " : "",
                        STR_ARG(by));
}

static void report_print(struct ctl *ctl, const struct json *bulk)
{
    struct str state = json_get_text(bulk, "state"), id = json_get_text(bulk, "bulk_id");
    bool works = str_eq_z(state, "working");
    double share = decimal_of(bulk, "max_error_share");
    line_print(ctl, bulk);
    show_field(ctl, "asked for", asked_text(ctl, bulk));
    show_field(ctl, "reason", json_get_text(bulk, "reason"));
    show_field(ctl, "runs", model_value_text(json_get_z(bulk, "filter"), &ctl->scratch));
    show_field(ctl, "rate", rate_text(ctl, bulk, works));
    if (works)
        show_field(ctl, "stops",
                   arena_printf(&ctl->scratch, "when more than %.4g %% of at least 10 refused",
                                share * 100));
    show_field(ctl, "ended", when_text(ctl, bulk, "ended_at"));
    if (ctl_bulk_number(bulk, "refused") + ctl_bulk_number(bulk, "lost")) {
        show_heading(ctl, "What did not obey");
        refusals_print(ctl, bulk);
    }
    if (!works)
        return;
    show_heading(ctl, "What leads on");
    buf_printf(&ctl->out, "  sagactl bulk stop " STR_FMT "  ask for nothing more of it\n",
               STR_ARG(id));
}

static int bulk_list(struct ctl *ctl)
{
    static const struct rows_column columns[] = {
        {"BULK", "bulk_id", ROWS_TEXT, false}, {"VERB", "verb", ROWS_TEXT, false},
        {"STATE", "state", ROWS_TEXT, false},  {"TOTAL", "total", ROWS_COUNT, false},
        {"DONE", "done", ROWS_COUNT, false},   {"REFUSED", "refused", ROWS_COUNT, false},
        {"LOST", "lost", ROWS_COUNT, true},    {"AGE", "at", ROWS_AGE, false},
        {"BY", "actor", ROWS_TEXT, true},      {"REASON", "reason", ROWS_TEXT, false},
    };
    struct ctl_reply reply;
    int code = ctl_get(ctl, STR("/v1/bulk"), &reply, NULL);
    if (code)
        return code;
    if (ctl->format == CTL_FORMAT_JSON) {
        ctl_print_document(ctl, reply.body);
        return CTL_OK;
    }
    struct str list = ctl_json_member(reply.body, "bulk"), probe = list;
    if (!ctl_json_next_item(&probe).ptr && ctl->format != CTL_FORMAT_JSONL)
        ctl_say(ctl, "no verb for many runs was asked for");
    return rows_print(ctl, list.ptr ? list : STR("[]"), "bulk_id", columns, ARRAY_LEN(columns));
}

static int bulk_stop(struct ctl *ctl, struct ctl_reply *reply, const struct json **bulk)
{
    struct ctl_request request = {.method = "POST",
                                  .path = ctl_path(ctl, "/v1/bulk/", str_z(ctl->args[1]), "/stop"),
                                  .body = STR("{}")};
    struct err err;
    if (ctl_call(ctl, &request, reply, &err) != 0)
        return ctl_fail(ctl, &err);
    if (reply->status != 200)
        return ctl_refused(ctl, reply);
    return ctl_json_parse(reply->body, &ctl->scratch, bulk, &err) == 0 ? CTL_OK
                                                                       : ctl_fail(ctl, &err);
}

int ctl_verb_bulk(struct ctl *ctl)
{
    const char *what = ctl->args_count ? ctl->args[0] : "list";
    bool show = strcmp(what, "show") == 0, stop = strcmp(what, "stop") == 0;
    const struct json *bulk;
    struct ctl_reply reply;
    if (!show && !stop && strcmp(what, "list") != 0)
        return ctl_usage(ctl, "bulk takes list, show ID or stop ID, not \"%s\"", what);
    if (!show && !stop)
        return ctl->args_count > 1 ? ctl_usage(ctl, "bulk list takes no argument") : bulk_list(ctl);
    if (ctl->args_count < 2)
        return ctl_usage(ctl, "bulk %s needs an ID", what);
    int code =
        stop ? bulk_stop(ctl, &reply, &bulk)
             : ctl_get(ctl, ctl_path(ctl, "/v1/bulk/", str_z(ctl->args[1]), ""), &reply, &bulk);
    if (!code && is_for_people(ctl, &reply, bulk))
        report_print(ctl, bulk);
    return code;
}
