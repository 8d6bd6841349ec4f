/*
 * ctl_approvals.c: what waits for a person's word, and the word.
 */
#include "engine/ctl_json.h"
#include "engine/ctl_runs.h"
#include "engine/ctl_text.h"
#include "engine/ctl_verbs.h"

static struct str member(const struct json *entry, const char *name)
{
    struct str text = json_get_text(entry, name);
    return text.ptr ? text : STR("");
}

/* The request over several lines, as it would be sent. */
static void request_print(struct ctl *ctl, const struct json *request)
{
    static const char *const shown[] = {"service", "method", "statement", "target", "args", "body"};
    for (size_t i = 0; i < ARRAY_LEN(shown); i++) {
        const struct json *value = json_get_z(request, shown[i]);
        if (!value)
            continue;
        struct str text =
            value->kind == JSON_STRING ? value->text : json_text(value, &ctl->scratch);
        buf_printf(&ctl->out, "    %-10s ", shown[i]);
        text_add(&ctl->out, text);
        buf_add_char(&ctl->out, '\n');
    }
}

/* Whose word it takes, as `by` of the workflow says. */
static struct str people_text(struct ctl *ctl, struct str by)
{
    if (str_eq_z(by, "any"))
        return STR("anyone");
    if (str_eq_z(by, "other"))
        return STR("anyone else");
    return arena_printf(&ctl->scratch, "the group " STR_FMT, STR_ARG(by));
}

/* "09:49:13Z (in 29m)"; with its date unless that is today's. */
static struct str until_text(struct ctl *ctl, struct str time)
{
    struct wall until, now = ctl_now();
    if (!wall_parse(time, &until))
        return time;
    struct str text = text_time(until, &ctl->scratch), today = text_time(now, &ctl->scratch);
    size_t date = sizeof("2026-10-25T") - 1;
    if (text.len > date && today.len > date && memcmp(text.ptr, today.ptr, date) == 0)
        text = (struct str){text.ptr + date, text.len - date};
    if (wall_passed(until, now))
        return text;
    return arena_printf(&ctl->scratch, STR_FMT " (in " STR_FMT ")", STR_ARG(text),
                        STR_ARG(text_duration(until.us - now.us, &ctl->scratch)));
}

static void entry_print(struct ctl *ctl, const struct json *entry)
{
    text_add(&ctl->out, member(entry, "run_id"));
    buf_add_char(&ctl->out, ' ');
    text_add_painted(&ctl->out, ctl->color, PAINT_BOLD, member(entry, "step"));
    buf_printf(&ctl->out, "  hash %.12s\n", member(entry, "request_hash").ptr);
    if (member(entry, "message").len) {
        buf_add_z(&ctl->out, "    ");
        text_add(&ctl->out, member(entry, "message"));
        buf_add_char(&ctl->out, '\n');
    }
    request_print(ctl, json_get_z(entry, "request"));
    buf_add_z(&ctl->out, "    asked by   ");
    text_add(&ctl->out, member(entry, "requested_by"));
    buf_add_z(&ctl->out, ", may be decided by ");
    text_add(&ctl->out, people_text(ctl, member(entry, "by")));
    buf_printf(&ctl->out, " until " STR_FMT "\n",
               STR_ARG(until_text(ctl, member(entry, "expires_at"))));
    if (member(entry, "dry_run").len) {
        buf_add_z(&ctl->out, "    would do   ");
        text_add(&ctl->out, member(entry, "dry_run"));
        buf_add_char(&ctl->out, '\n');
    }
}

/* The list of the daemon, or the exit code after saying what is wrong. */
static int approvals_get(struct ctl *ctl, struct ctl_reply *reply, const struct json **list)
{
    struct ctl_request request = {.method = "GET", .path = STR("/v1/approvals")};
    const struct json *answer;
    struct err err;
    if (ctl_call(ctl, &request, reply, &err) != 0)
        return ctl_fail(ctl, &err);
    if (reply->status != 200)
        return ctl_refused(ctl, reply);
    if (ctl_json_parse(reply->body, &ctl->scratch, &answer, &err) != 0) {
        ctl_say(ctl, "the daemon's answer cannot be read: %s", err.text);
        return CTL_ERROR;
    }
    *list = json_get_z(answer, "approvals");
    return CTL_OK;
}

int ctl_verb_approvals(struct ctl *ctl)
{
    struct ctl_reply reply;
    const struct json *list;
    int code = approvals_get(ctl, &reply, &list);
    if (code)
        return code;
    if (ctl_format_is_json(ctl)) {
        ctl_print_document(ctl, reply.body);
        return CTL_OK;
    }
    for (uint32_t i = 0; list && list->kind == JSON_LIST && i < list->count; i++) {
        if (ctl->format == CTL_FORMAT_NAME) {
            text_add(&ctl->out, member(list->items[i], "run_id"));
            buf_add_char(&ctl->out, '\n');
            continue;
        }
        if (i)
            buf_add_char(&ctl->out, '\n');
        entry_print(ctl, list->items[i]);
    }
    if (!list || !list->count)
        ctl_hint(ctl, "nothing waits for approval");
    return CTL_OK;
}

static const struct json *entry_find(const struct json *list, const char *run, const char *step)
{
    for (uint32_t i = 0; list && list->kind == JSON_LIST && i < list->count; i++)
        if (str_eq_z(member(list->items[i], "run_id"), run) &&
            str_eq_z(member(list->items[i], "step"), step))
            return list->items[i];
    return NULL;
}

/* Without --hash the person must have seen what it is: it is shown, and asked for. */
static int hash_choose(struct ctl *ctl, struct str *out)
{
    struct ctl_reply reply;
    const struct json *list;
    const char *given = ctl_option(ctl, OPT_HASH);
    *out = given ? str_z(given) : STR("");
    if (given || strcmp(ctl->verb->name, "reject") == 0)
        return CTL_OK;
    int code = approvals_get(ctl, &reply, &list);
    if (code)
        return code;
    const struct json *entry = entry_find(list, ctl->args[0], ctl->args[1]);
    if (!entry) {
        ctl_say(ctl, "step \"%s\" of run \"%s\" waits for no approval", ctl->args[1], ctl->args[0]);
        return CTL_CONFLICT;
    }
    entry_print(ctl, entry);
    struct str hash = member(entry, "request_hash");
    if (!ctl_confirm(ctl, "approve this request")) {
        ctl_hint(ctl, "  sagactl approve %s %s --hash %.12s --reason ...", ctl->args[0],
                 ctl->args[1], hash.ptr);
        return CTL_USAGE;
    }
    *out = hash;
    return CTL_OK;
}

int ctl_verb_approve(struct ctl *ctl)
{
    struct str hash;
    struct buf body = {0};
    int code = ctl_reason_check(ctl);
    if (!code)
        code = hash_choose(ctl, &hash);
    if (code)
        return code;
    buf_add_z(&body, "{\"reason\":");
    json_write_string(str_z(ctl_option(ctl, OPT_REASON)), &body);
    if (hash.len) {
        buf_add_z(&body, ",\"hash\":");
        json_write_string(hash, &body);
    }
    buf_add_char(&body, '}');
    const char *verb = arena_printf(&ctl->arena, "/%s", ctl->verb->name).ptr;
    struct str run = ctl_path(ctl, "/v1/runs/", str_z(ctl->args[0]), "/steps/");
    code = ctl_act(ctl, ctl_path(ctl, run.ptr, str_z(ctl->args[1]), verb), &body);
    buf_free(&body);
    return code;
}
