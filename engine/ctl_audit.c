/*
 * ctl_audit.c: what people did, and whether the record of it is whole.
 */
#include "engine/config.h"
#include "engine/ctl_client.h"
#include "engine/ctl_json.h"
#include "engine/ctl_rows.h"
#include "engine/ctl_runs.h"
#include "engine/ctl_show.h"
#include "engine/ctl_text.h"
#include "engine/ctl_verbs.h"

#include "engine/base/uri.h"

static struct str list_path(struct ctl *ctl)
{
    struct buf path = {0};
    buf_add_z(&path, "/v1/audit?limit=");
    buf_printf(&path, "%lld", (long long)ctl_option_count(ctl, OPT_LIMIT, 50));
    if (ctl_has(ctl, OPT_RUN)) {
        buf_add_z(&path, "&run_id=");
        uri_encode(str_z(ctl_option(ctl, OPT_RUN)), &path);
    }
    struct str kept = arena_str(&ctl->scratch, buf_str(&path));
    buf_free(&path);
    return kept;
}

static int audit_list(struct ctl *ctl)
{
    static const struct rows_column columns[] = {
        {"AT", "at", ROWS_TIME, false},         {"VERB", "verb", ROWS_TEXT, false},
        {"RUN", "run_id", ROWS_TEXT, false},    {"STEP", "step_id", ROWS_TEXT, false},
        {"ACTOR", "actor", ROWS_TEXT, false},   {"OUTCOME", "outcome", ROWS_TEXT, false},
        {"REASON", "reason", ROWS_TEXT, false}, {"CHAIN", "chain", ROWS_COUNT, true},
        {"NO", "no", ROWS_COUNT, true},         {"HASH", "hash", ROWS_TEXT, true},
    };
    struct ctl_reply reply;
    int code = ctl_get(ctl, list_path(ctl), &reply, NULL);
    if (code)
        return code;
    if (ctl->format == CTL_FORMAT_JSON) {
        ctl_print_document(ctl, reply.body);
        return CTL_OK;
    }
    struct str list = ctl_json_member(reply.body, "acts"), probe = list;
    if (!ctl_json_next_item(&probe).ptr && ctl->format != CTL_FORMAT_JSONL)
        ctl_say(ctl, "nobody has done anything yet");
    return rows_print(ctl, list.ptr ? list : STR("[]"), "hash", columns, ARRAY_LEN(columns));
}

/* {"noted": [...]} of what an earlier verify printed. */
static int noted_read(struct ctl *ctl, const char *name, struct buf *body)
{
    struct str text;
    const struct json *parsed;
    struct err err;
    if (config_file_read(name, &ctl->scratch, &text, &err) != 0) {
        ctl_say(ctl, "%s", err.text);
        return CTL_USAGE;
    }
    if (ctl_json_parse(text, &ctl->scratch, &parsed, &err) != 0 ||
        !ctl_json_member(text, "chains").ptr) {
        ctl_say(ctl, "\"%s\" is not what sagactl audit verify -o json printed", name);
        return CTL_USAGE;
    }
    buf_add_z(body, "{\"noted\":");
    buf_add_str(body, ctl_json_member(text, "chains"));
    buf_add_char(body, '}');
    return CTL_OK;
}

static int verdict_show(struct ctl *ctl, struct str text, const struct json *answer)
{
    static const struct rows_column columns[] = {
        {"CHAIN", "chain", ROWS_COUNT, false},
        {"ROWS", "no", ROWS_COUNT, false},
        {"HEAD", "hash", ROWS_TEXT, false},
        {"PROBLEM", "problem", ROWS_TEXT, false},
    };
    const struct json *ok = json_get_z(answer, "ok");
    bool whole = ok && ok->kind == JSON_BOOL && ok->boolean;
    struct str list = ctl_json_member(text, "chains");
    int code = CTL_OK;
    if (ctl->format == CTL_FORMAT_JSON)
        ctl_print_document(ctl, text);
    else
        code = rows_print(ctl, list.ptr ? list : STR("[]"), "hash", columns, ARRAY_LEN(columns));
    if (whole)
        ctl_say(ctl, "every chain is whole");
    else
        ctl_say(ctl, "the record of what people did was tampered with, or damaged");
    return code || whole ? code : CTL_ERROR;
}

static int audit_verify(struct ctl *ctl, const char *noted)
{
    struct buf body = {0};
    struct ctl_reply reply;
    const struct json *answer;
    struct err err;
    int code = noted ? noted_read(ctl, noted, &body) : CTL_OK;
    if (!code && !noted)
        buf_add_z(&body, "{}");
    if (code) {
        buf_free(&body);
        return code;
    }
    struct ctl_request request = {
        .method = "POST", .path = STR("/v1/audit/verify"), .body = buf_str(&body)};
    code = ctl_call(ctl, &request, &reply, &err);
    buf_free(&body);
    if (code)
        return ctl_fail(ctl, &err);
    if (reply.status != 200)
        return ctl_refused(ctl, &reply);
    if (ctl_json_parse(reply.body, &ctl->scratch, &answer, &err) != 0)
        return ctl_fail(ctl, &err);
    return verdict_show(ctl, reply.body, answer);
}

int ctl_verb_audit(struct ctl *ctl)
{
    bool list = !ctl->args_count || strcmp(ctl->args[0], "list") == 0;
    if (list && ctl->args_count > 1)
        return ctl_usage(ctl, "audit list takes no argument: see --run");
    if (list)
        return audit_list(ctl);
    if (strcmp(ctl->args[0], "verify") != 0)
        return ctl_usage(ctl, "audit takes list or verify, not \"%s\"", ctl->args[0]);
    if (ctl_has(ctl, OPT_RUN) || ctl_has(ctl, OPT_LIMIT))
        return ctl_usage(ctl, "audit verify checks everything: --run and --limit are for list");
    return audit_verify(ctl, ctl->args_count > 1 ? ctl->args[1] : NULL);
}
