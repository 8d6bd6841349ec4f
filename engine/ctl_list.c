/*
 * ctl_list.c: list, workflows, services, daemons, ping.
 */
#include "engine/ctl_client.h"
#include "engine/ctl_json.h"
#include "engine/ctl_rows.h"
#include "engine/ctl_runs.h"
#include "engine/ctl_text.h"
#include "engine/ctl_verbs.h"

#include "engine/base/uri.h"

#include <stdlib.h>

/* --- list ------------------------------------------------------------------------------------ */

#define LIST_LIMIT 100
#define PAGE_LIMIT_MAX 500

static const struct rows_column run_columns[] = {
    {"RUN", "run_id", ROWS_TEXT, false},
    {"WORKFLOW", "workflow", ROWS_TEXT, false},
    {"VERSION", "version", ROWS_TEXT, true},
    {"TENANT", "tenant", ROWS_TEXT, true},
    {"STATE", "state", ROWS_STATE, false},
    {"AGE", "created_at", ROWS_AGE, false},
    {"WAITS FOR", "waiting_for", ROWS_TEXT, false},
    {"CAUSE", "cause", ROWS_TEXT, true},
    {"STARTED", "created_at", ROWS_TIME, true},
    {"ENDED", "ended_at", ROWS_TIME, true},
    {"ERROR", "error", ROWS_ERROR, true},
};

static void query_add(struct buf *path, const char *name, const char *value)
{
    if (!value)
        return;
    buf_add_char(path, memchr(path->data, '?', path->len) ? '&' : '?');
    buf_printf(path, "%s=", name);
    uri_encode(str_z(value), path);
}

static struct str page_path(struct ctl *ctl, int64_t limit, const char *cursor)
{
    struct buf path = {0};
    buf_add_z(&path, "/v1/runs");
    query_add(&path, "state", ctl_option(ctl, OPT_STATE));
    query_add(&path, "workflow", ctl_option(ctl, OPT_WORKFLOW));
    query_add(&path, "tenant", ctl_option(ctl, OPT_TENANT));
    query_add(&path, "since", ctl_option(ctl, OPT_SINCE));
    query_add(&path, "where", ctl_option(ctl, OPT_WHERE));
    query_add(&path, "limit", arena_printf(&ctl->scratch, "%lld", (long long)limit).ptr);
    query_add(&path, "cursor", cursor);
    struct str kept = arena_str(&ctl->scratch, buf_str(&path));
    buf_free(&path);
    return kept;
}

/* The cursor of the next page, NULL at the end. */
static const char *cursor_next(struct ctl *ctl, const struct json *page)
{
    const struct json *next = json_get_z(page, "next");
    if (!next || next->kind == JSON_NULL)
        return NULL;
    struct str text = next->kind == JSON_STRING ? next->text : json_text(next, &ctl->scratch);
    return text.len ? arena_str(&ctl->scratch, text).ptr : NULL;
}

/* Appends the items of one page to a list that is still open. */
static int64_t items_add(struct buf *list, struct str page)
{
    struct str rest = ctl_json_member(page, "runs"), item;
    int64_t count = 0;
    for (; (item = ctl_json_next_item(&rest)).ptr; count++) {
        if (list->len > 1)
            buf_add_char(list, ',');
        buf_add_str(list, item);
    }
    return count;
}

int ctl_runs_get(struct ctl *ctl, struct buf *list, const char **next, struct str *only)
{
    int64_t limit = ctl_option_count(ctl, OPT_LIMIT, LIST_LIMIT), got = 0;
    *next = ctl_option(ctl, OPT_CURSOR);
    buf_add_char(list, '[');
    do {
        int64_t want = limit ? MIN(limit - got, (int64_t)PAGE_LIMIT_MAX) : PAGE_LIMIT_MAX;
        struct ctl_reply reply;
        const struct json *page;
        int code = ctl_get(ctl, page_path(ctl, want, *next), &reply, &page);
        if (code)
            return code;
        int64_t added = items_add(list, reply.body);
        *only = got ? STR_NONE : reply.body;
        got += added;
        *next = added ? cursor_next(ctl, page) : NULL;
    } while (*next && (!limit || got < limit));
    buf_add_char(list, ']');
    return CTL_OK;
}

int ctl_verb_list(struct ctl *ctl)
{
    struct buf list = {0};
    struct str only = STR_NONE;
    const char *next;
    int code = ctl_runs_get(ctl, &list, &next, &only);
    if (!code && ctl->format == CTL_FORMAT_JSON && only.ptr) {
        ctl_print_document(ctl, only);
    } else if (!code && ctl->format == CTL_FORMAT_JSON) {
        struct buf document = {0};
        buf_add_z(&document, "{\"runs\":");
        buf_add_str(&document, buf_str(&list));
        buf_add_z(&document, ",\"next\":");
        if (next)
            json_write_string(str_z(next), &document);
        else
            buf_add_z(&document, "null");
        buf_add_char(&document, '}');
        ctl_json_pretty(buf_str(&document), &ctl->out);
        buf_free(&document);
    } else if (!code) {
        code = rows_print(ctl, buf_str(&list), "run_id", run_columns, ARRAY_LEN(run_columns));
    }
    if (!code && next)
        ctl_say(ctl, "there are more; --limit 0 lists all, --cursor '%s' goes on from here", next);
    else if (!code && list.len == 2 && !ctl_format_is_json(ctl))
        ctl_say(ctl, "no runs");
    buf_free(&list);
    return code;
}

/* --- the other lists -------------------------------------------------------------------------- */

static int list_show(struct ctl *ctl, const char *path, const char *member, const char *id,
                     const struct rows_column *columns, size_t count, const char *none)
{
    struct ctl_reply reply;
    int code = ctl_get(ctl, str_z(path), &reply, NULL);
    if (code)
        return code;
    if (ctl->format == CTL_FORMAT_JSON) {
        ctl_print_document(ctl, reply.body);
        return CTL_OK;
    }
    struct str list = ctl_json_member(reply.body, member), probe = list;
    if (!ctl_json_next_item(&probe).ptr && ctl->format != CTL_FORMAT_JSONL)
        ctl_say(ctl, "%s", none);
    return rows_print(ctl, list.ptr ? list : STR("[]"), id, columns, count);
}

int ctl_verb_workflows(struct ctl *ctl)
{
    static const struct rows_column columns[] = {
        {"WORKFLOW", "workflow|name", ROWS_TEXT, false},
        {"VERSION", "version", ROWS_TEXT, false},
        {"HASH", "hash", ROWS_TEXT, true},
        {"STEPS", "steps", ROWS_COUNT, false},
        {"APPLIED", "applied_at", ROWS_AGE, false},
        {"BY", "applied_by", ROWS_TEXT, true},
        {"DESCRIPTION", "description", ROWS_TEXT, false},
    };
    return list_show(ctl, "/v1/workflows", "workflows", "workflow|name", columns,
                     ARRAY_LEN(columns), "no workflow is registered; sagactl apply FILE does that");
}

int ctl_verb_daemons(struct ctl *ctl)
{
    static const struct rows_column columns[] = {
        {"DAEMON", "daemon|name", ROWS_TEXT, false},
        {"ALIVE", "alive", ROWS_BOOL, false},
        {"SHARDS", "shards", ROWS_COUNT, false},
        {"OPEN RUNS", "open_runs", ROWS_COUNT, false},
        {"LAST SEEN", "last_seen", ROWS_AGE, false},
        {"LEFT CLEANLY", "left_cleanly", ROWS_BOOL, true},
        {"EPOCH", "epoch", ROWS_COUNT, true},
        {"UNITS", "units", ROWS_COUNT, true},
        {"LEASE", "lease", ROWS_TEXT, true},
    };
    return list_show(ctl, "/v1/daemons", "daemons", "daemon|name", columns, ARRAY_LEN(columns),
                     "no daemon holds a lease");
}

int ctl_verb_services(struct ctl *ctl)
{
    static const struct rows_column columns[] = {
        {"SERVICE", "service|name", ROWS_TEXT, false},  {"BREAKER", "state", ROWS_TEXT, false},
        {"IN FLIGHT", "in_flight", ROWS_COUNT, false},  {"WAITING", "waiting", ROWS_COUNT, false},
        {"OPEN UNTIL", "open_until", ROWS_TIME, false}, {"WHY", "why", ROWS_TEXT, false},
        {"DAEMONS", "daemons", ROWS_TEXT, true},
    };
    return list_show(ctl, "/v1/services", "services", "service|name", columns, ARRAY_LEN(columns),
                     "no current workflow names a service");
}

/* --- ping ------------------------------------------------------------------------------------ */

int ctl_verb_ping(struct ctl *ctl)
{
    struct ctl_reply reply;
    const struct json *json;
    int64_t shards = 0, uptime_s = 0;
    int code = ctl_get(ctl, STR("/v1/ping"), &reply, &json);
    if (code)
        return code;
    if (ctl_format_is_json(ctl)) {
        ctl_print_document(ctl, reply.body);
        return CTL_OK;
    }
    const struct json *value = json_get_z(json, "shards");
    struct str daemon = json_get_text(json, "daemon"), version = json_get_text(json, "version");
    struct str database = json_get_text(json, "database");
    if (value && !json_to_int(value, &shards))
        shards = 0;
    value = json_get_z(json, "uptime_s");
    if (value && !json_to_int(value, &uptime_s))
        uptime_s = 0;
    text_add(&ctl->out, daemon);
    if (ctl->format != CTL_FORMAT_NAME) {
        struct str uptime = text_duration(uptime_s * SECOND_US, &ctl->scratch);
        buf_add_z(&ctl->out, "  version ");
        text_add(&ctl->out, version);
        buf_add_z(&ctl->out, "  database ");
        text_add(&ctl->out, database);
        buf_printf(&ctl->out, "  shards %lld  up " STR_FMT, (long long)shards, STR_ARG(uptime));
    }
    buf_add_char(&ctl->out, '\n');
    return CTL_OK;
}
