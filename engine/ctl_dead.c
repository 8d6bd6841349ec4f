/*
 * ctl_dead.c: runs that wait for a person, and the evidence of one as a report.
 */
#include "engine/ctl_json.h"
#include "engine/ctl_report.h"
#include "engine/ctl_rows.h"
#include "engine/ctl_runs.h"
#include "engine/ctl_show.h"
#include "engine/ctl_text.h"
#include "engine/ctl_verbs.h"

/* For scripts: the list goes out as ever, the exit code says whether there is one. */
static int dead_exit(struct ctl *ctl, bool any)
{
    return ctl_has(ctl, OPT_CHECK) && any ? CTL_PARKED : CTL_OK;
}

static int dead_list(struct ctl *ctl)
{
    static const struct rows_column columns[] = {
        {"RUN", "run_id", ROWS_TEXT, false},
        {"WORKFLOW", "workflow", ROWS_TEXT, false},
        {"TENANT", "tenant", ROWS_TEXT, true},
        {"REASON", "reason|park_reason", ROWS_TEXT, false},
        {"STEP", "step_id|step", ROWS_TEXT, false},
        {"AGE", "parked_at", ROWS_AGE, false},
        {"NEXT", "next", ROWS_TEXT, false},
        {"STARTED", "created_at", ROWS_TIME, true},
        {"CAUSE", "cause", ROWS_TEXT, true},
        {"ERROR", "error", ROWS_ERROR, false},
    };
    struct ctl_reply reply;
    int code = ctl_get(ctl, STR("/v1/dead"), &reply, NULL);
    if (code)
        return code;
    struct str list = ctl_json_member(reply.body, "dead"), probe = list;
    bool any = ctl_json_next_item(&probe).ptr != NULL;
    if (ctl->format == CTL_FORMAT_JSON) {
        ctl_print_document(ctl, reply.body);
        return dead_exit(ctl, any);
    }
    if (!any && ctl->format != CTL_FORMAT_JSONL)
        ctl_say(ctl, "no run waits for a person");
    code = rows_print(ctl, list.ptr ? list : STR("[]"), "run_id", columns, ARRAY_LEN(columns));
    return code ? code : dead_exit(ctl, any);
}

/* --- the report of one ----------------------------------------------------------------------- */

/* The run's own row among the dead letters; absent if there is none any more. */
static int row_find(struct ctl *ctl, struct str run_id, struct str *raw, const struct json **row)
{
    struct ctl_reply reply;
    const struct json *parsed;
    struct str item;
    struct err err;
    *raw = STR_NONE;
    *row = NULL;
    int code = ctl_get(ctl, ctl_path(ctl, "/v1/dead?run_id=", run_id, ""), &reply, NULL);
    struct str rest = ctl_json_member(reply.body, "dead");
    while (!code && (item = ctl_json_next_item(&rest)).ptr)
        if (ctl_json_parse(item, &ctl->scratch, &parsed, &err) == 0 &&
            str_eq(json_get_text(parsed, "run_id"), run_id)) {
            *raw = item;
            *row = parsed;
            break;
        }
    return code;
}

static int dead_show(struct ctl *ctl, const char *name)
{
    struct ctl_run found;
    struct ctl_reply reply;
    const struct json *row, *events;
    struct str raw;
    int code = ctl_run_find(ctl, name, &found);
    if (code)
        return code;
    if (!str_eq_z(found.run.state, "parked")) {
        ctl_say(ctl, "the run \"" STR_FMT "\" is " STR_FMT ", not parked: see sagactl show",
                STR_ARG(found.run.id), STR_ARG(found.run.state));
        return CTL_NOT_FOUND;
    }
    code = row_find(ctl, found.run.id, &raw, &row);
    if (!code && ctl_format_is_json(ctl)) {
        ctl_print_document(ctl, raw.ptr ? raw : found.reply.body);
        return CTL_OK;
    }
    if (!code && ctl->format == CTL_FORMAT_NAME) {
        text_add(&ctl->out, found.run.id);
        buf_add_char(&ctl->out, '\n');
        return CTL_OK;
    }
    if (!code)
        code = ctl_run_events(ctl, found.run.id, &reply, &events);
    if (code)
        return code;
    if (!found.run.reason.len)
        found.run.reason =
            json_get_text(row, "reason").ptr ? json_get_text(row, "reason") : STR("");
    ctl_run_reason_fill(ctl, &found.run, events);
    report_print(ctl, &found.run, row, events);
    return CTL_OK;
}

int ctl_verb_dead(struct ctl *ctl)
{
    bool list = !ctl->args_count || strcmp(ctl->args[0], "list") == 0;
    if (list && ctl->args_count > 1)
        return ctl_usage(ctl, "dead list takes no argument");
    if (list)
        return dead_list(ctl);
    if (strcmp(ctl->args[0], "show") != 0)
        return ctl_usage(ctl, "dead takes list or show RUN, not \"%s\"", ctl->args[0]);
    if (ctl->args_count < 2)
        return ctl_usage(ctl, "dead show needs a RUN");
    if (ctl_has(ctl, OPT_CHECK))
        return ctl_usage(ctl, "--check is for the list");
    return dead_show(ctl, ctl->args[1]);
}
