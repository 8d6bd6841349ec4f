/*
 * ctl_migrate.c: pins open runs to another version of their workflow: what could be done first, for
 * each run, then the deed.
 */
#include "engine/ctl_json.h"
#include "engine/ctl_runs.h"
#include "engine/ctl_text.h"
#include "engine/ctl_verbs.h"

#include <stdio.h>
#include <unistd.h>

struct candidate {
    struct str run;
    bool can;
};

static struct str body_make(struct ctl *ctl, bool dry_run)
{
    struct buf body = {0};
    buf_add_z(&body, "{\"to\":");
    json_write_string(str_z(ctl_option(ctl, OPT_TO)), &body);
    if (ctl_has(ctl, OPT_REASON)) {
        buf_add_z(&body, ",\"reason\":");
        json_write_string(str_z(ctl_option(ctl, OPT_REASON)), &body);
    }
    buf_printf(&body, ",\"dry_run\":%s}", dry_run ? "true" : "false");
    struct str text = arena_str(&ctl->arena, buf_str(&body));
    buf_free(&body);
    return text;
}

static void line_print(struct ctl *ctl, struct str run, const char *what, bool good, struct str why)
{
    text_add(&ctl->out, run);
    if (ctl->format != CTL_FORMAT_NAME) {
        buf_add_z(&ctl->out, "  ");
        text_add_painted(&ctl->out, ctl->color, good ? PAINT_GREEN : PAINT_YELLOW, str_z(what));
        if (why.len) {
            buf_add_z(&ctl->out, ": ");
            text_add(&ctl->out, why);
        }
    }
    buf_add_char(&ctl->out, '\n');
}

/* True if the daemon says yes; a no is printed with its reason. Sets *code where nothing can be
 * said at all. */
static bool ask(struct ctl *ctl, struct str run, bool dry_run, int *code)
{
    struct ctl_request request = {.method = "POST",
                                  .path = ctl_path(ctl, "/v1/runs/", run, "/migrate"),
                                  .body = body_make(ctl, dry_run)};
    struct ctl_reply reply;
    const struct json *answer;
    struct err err;
    *code = CTL_OK;
    if (ctl_call(ctl, &request, &reply, &err) != 0) {
        *code = ctl_fail(ctl, &err);
        return false;
    }
    if (reply.status == 200)
        return true;
    if (reply.status != 409 || ctl_json_parse(reply.body, &ctl->scratch, &answer, &err) != 0) {
        *code = ctl_refused(ctl, &reply);
        return false;
    }
    line_print(ctl, run, "stays", false, json_get_text(answer, "detail"));
    return false;
}

static bool confirmed(struct ctl *ctl, uint32_t can, uint32_t count)
{
    if (ctl_has(ctl, OPT_YES))
        return true;
    if (isatty(STDIN_FILENO) && isatty(STDERR_FILENO))
        return ctl_confirm(ctl,
                           arena_printf(&ctl->scratch, "migrate %u of %u runs", can, count).ptr);
    ctl_say(ctl, "%u of %u runs can be migrated; say --yes to do it", can, count);
    return false;
}

static int candidates_get(struct ctl *ctl, struct candidate **list, uint32_t *count)
{
    struct buf runs = {0};
    struct str only, rest, item;
    const char *next;
    *list = arena_array(&ctl->arena, struct candidate, MAX(ctl->args_count, 1u));
    for (*count = 0; *count < ctl->args_count; ++*count)
        (*list)[*count].run = str_z(ctl->args[*count]);
    if (*count)
        return CTL_OK;
    if (!ctl_has(ctl, OPT_WORKFLOW))
        return ctl_usage(ctl, "migrate needs RUN..., or --workflow W (and --state S)");
    int code = ctl_runs_get(ctl, &runs, &next, &only);
    if (!code) {
        rest = arena_str(&ctl->arena, buf_str(&runs));
        *list = arena_array(&ctl->arena, struct candidate, rest.len / 8 + 1);
        while ((item = ctl_json_next_item(&rest)).ptr) {
            const struct json *run;
            struct err err;
            if (ctl_json_parse(item, &ctl->arena, &run, &err) == 0)
                (*list)[(*count)++].run = json_get_text(run, "run_id");
        }
        if (next)
            ctl_say(ctl, "there are more than these; --limit 0 takes all");
    }
    buf_free(&runs);
    return code;
}

int ctl_verb_migrate(struct ctl *ctl)
{
    struct candidate *list;
    uint32_t count, can = 0, done = 0;
    int code;
    if (!ctl_has(ctl, OPT_TO))
        return ctl_usage(ctl, "migrate needs --to HASH: the version to go on under");
    if (!ctl_has(ctl, OPT_REASON) && !ctl_has(ctl, OPT_DRY_RUN))
        return ctl_usage(ctl, "migrate needs --reason TEXT: it is kept with the act");
    if (ctl_format_is_json(ctl))
        return ctl_usage(ctl, "migrate prints lines; -q gives the ids alone");
    code = candidates_get(ctl, &list, &count);
    for (uint32_t i = 0; i < count && !code; i++) {
        list[i].can = ask(ctl, list[i].run, true, &code);
        can += list[i].can;
        if (list[i].can && ctl_has(ctl, OPT_DRY_RUN))
            line_print(ctl, list[i].run, "can be migrated", true, STR(""));
    }
    if (code)
        return code;
    if (!count)
        ctl_say(ctl, "no runs");
    if (ctl_has(ctl, OPT_DRY_RUN) || !can)
        return can == count ? CTL_OK : CTL_CONFLICT;
    if (ctl->args_count != 1 && !confirmed(ctl, can, count))
        return CTL_USAGE;
    for (uint32_t i = 0; i < count && !code; i++)
        if (list[i].can && ask(ctl, list[i].run, false, &code)) {
            line_print(ctl, list[i].run, "migrated", true, STR(""));
            done++;
        }
    if (!code && done < count)
        code = CTL_CONFLICT;
    return code;
}
