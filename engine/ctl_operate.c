/*
 * ctl_operate.c: the verbs that change a run. Each takes a full run id and a reason.
 */
#include "engine/ctl_bulk.h"
#include "engine/ctl_json.h"
#include "engine/ctl_runs.h"
#include "engine/ctl_text.h"
#include "engine/ctl_verbs.h"

int ctl_reason_check(struct ctl *ctl)
{
    const char *reason = ctl_option(ctl, OPT_REASON);
    if (!reason)
        return ctl_usage(ctl, "%s needs --reason TEXT: it is kept with the act", ctl->verb->name);
    if (!reason[strspn(reason, " \t\n")])
        return ctl_usage(ctl, "the reason is empty");
    return CTL_OK;
}

/* A request that was taken in but not decided yet has an id of its own. */
static struct str request_id(const struct json *answer)
{
    struct str id = json_get_text(answer, "request");
    if (!id.ptr)
        id = json_get_text(answer, "request_id");
    return id.ptr ? id : json_get_text(answer, "id");
}

static void answer_print(struct ctl *ctl, const struct ctl_reply *reply, const struct json *answer)
{
    struct model_run run = model_run_read(answer, &ctl->scratch);
    if (ctl_format_is_json(ctl)) {
        ctl_print_document(ctl, reply->body);
        return;
    }
    text_add(&ctl->out, run.id.len ? run.id : str_z(ctl->args[0]));
    if (ctl->format != CTL_FORMAT_NAME) {
        struct str state = reply->status == 202 ? STR("requested") : run.state;
        buf_add_z(&ctl->out, "  ");
        text_add_painted(&ctl->out, ctl->color, text_state_paint(state),
                         state.len ? state : STR("done"));
    }
    buf_add_char(&ctl->out, '\n');
}

/* Sends it and prints the answer. */
int ctl_act(struct ctl *ctl, struct str path, struct buf *body)
{
    struct ctl_request request = {.method = "POST", .path = path, .body = buf_str(body)};
    struct ctl_reply reply;
    const struct json *answer;
    struct err err;
    int code = ctl_call(ctl, &request, &reply, &err);
    if (code == ERR_TIMEOUT) {
        ctl_say(ctl, "%s", err.text);
        ctl_hint(ctl, "  it may have been done: look with sagactl events, or just repeat it");
        return CTL_UNREACHABLE;
    }
    if (code)
        return ctl_fail(ctl, &err);
    if (reply.status != 200 && reply.status != 202)
        return ctl_refused(ctl, &reply);
    if (ctl_json_parse(reply.body, &ctl->scratch, &answer, &err) != 0) {
        ctl_say(ctl, "the daemon's answer cannot be read: %s", err.text);
        return CTL_ERROR;
    }
    if (reply.status == 202)
        ctl_say(ctl,
                "taken in, but not decided yet by the daemon that owns the run (request " STR_FMT
                ")",
                STR_ARG(request_id(answer)));
    answer_print(ctl, &reply, answer);
    return CTL_OK;
}

static void body_text(struct buf *body, const char *name, const char *value)
{
    buf_printf(body, "%s\"%s\":", body->len ? "," : "{", name);
    json_write_string(str_z(value), body);
}

static void body_raw(struct buf *body, const char *name, struct str json)
{
    buf_printf(body, "%s\"%s\":", body->len ? "," : "{", name);
    buf_add_str(body, json);
}

int ctl_verb_operate(struct ctl *ctl)
{
    struct buf body = {0};
    struct str input, step_input;
    int code = ctl_has(ctl, OPT_DRY_RUN) ? CTL_OK : ctl_reason_check(ctl);
    if (!code && ctl_bulk_wanted(ctl))
        return ctl_bulk_run(ctl);
    if (!code)
        code = ctl_option_json(ctl, OPT_INPUT, &input);
    if (!code)
        code = ctl_option_json(ctl, OPT_STEP_INPUT, &step_input);
    if (code)
        return code;
    if (input.ptr)
        body_raw(&body, "input", input);
    if (step_input.ptr)
        body_raw(&body, "step_input", step_input);
    body_text(&body, "reason", ctl_option(ctl, OPT_REASON));
    buf_add_char(&body, '}');
    const char *verb = arena_printf(&ctl->arena, "/%s", ctl->verb->name).ptr;
    code = ctl_act(ctl, ctl_path(ctl, "/v1/runs/", str_z(ctl->args[0]), verb), &body);
    buf_free(&body);
    return code;
}

/* ID, ID.ITEM, and either with :execute or :compensate: caught here because a path would not. */
static int step_check(struct ctl *ctl)
{
    const char *step = ctl->args[1], *colon = strchr(step, ':');
    if (!colon || strcmp(colon, ":execute") == 0 || strcmp(colon, ":compensate") == 0)
        return CTL_OK;
    return ctl_usage(ctl, "\"%s\" is not a step: ID, ID:execute or ID:compensate", step);
}

static int by_hand(struct ctl *ctl, struct buf *body)
{
    struct str output;
    int code = ctl_reason_check(ctl);
    if (!code)
        code = step_check(ctl);
    if (!code)
        code = ctl_option_json(ctl, OPT_OUTPUT, &output);
    if (code)
        return code;
    if (output.ptr)
        body_raw(body, "output", output);
    body_text(body, "reason", ctl_option(ctl, OPT_REASON));
    buf_add_char(body, '}');
    const char *verb = arena_printf(&ctl->arena, "/%s", ctl->verb->name).ptr;
    struct str run = ctl_path(ctl, "/v1/runs/", str_z(ctl->args[0]), "/steps/");
    return ctl_act(ctl, ctl_path(ctl, run.ptr, str_z(ctl->args[1]), verb), body);
}

int ctl_verb_settle(struct ctl *ctl)
{
    struct buf body = {0};
    bool applied = ctl_has(ctl, OPT_APPLIED), not_applied = ctl_has(ctl, OPT_NOT_APPLIED);
    if (applied == not_applied)
        return ctl_usage(ctl, "settle needs either --applied or --not-applied");
    if (not_applied && ctl_has(ctl, OPT_OUTPUT))
        return ctl_usage(ctl, "--output needs --applied: what was not applied has no output");
    body_raw(&body, "applied", applied ? STR("true") : STR("false"));
    if (ctl_has(ctl, OPT_FORCE))
        body_raw(&body, "force", STR("true"));
    int code = by_hand(ctl, &body);
    buf_free(&body);
    return code;
}

int ctl_verb_skip(struct ctl *ctl)
{
    struct buf body = {0};
    int code = by_hand(ctl, &body);
    buf_free(&body);
    return code;
}

int ctl_verb_signal(struct ctl *ctl)
{
    struct buf body = {0};
    struct str data;
    int code = ctl_option_json(ctl, OPT_DATA, &data);
    if (code)
        return code;
    body_text(&body, "name", ctl->args[1]);
    if (data.ptr)
        body_raw(&body, "data", data);
    buf_add_char(&body, '}');
    code = ctl_act(ctl, ctl_path(ctl, "/v1/runs/", str_z(ctl->args[0]), "/signal"), &body);
    buf_free(&body);
    return code;
}

int ctl_verb_answer(struct ctl *ctl)
{
    struct buf body = {0};
    struct str output;
    bool applied = ctl_has(ctl, OPT_APPLIED);
    if (applied == ctl_has(ctl, OPT_REFUSED))
        return ctl_usage(ctl, "answer needs either --applied or --refused");
    if (!applied && ctl_has(ctl, OPT_OUTPUT))
        return ctl_usage(ctl, "--output needs --applied: what was refused has no output");
    int code = ctl_option_json(ctl, OPT_OUTPUT, &output);
    if (code)
        return code;
    body_text(&body, "key", ctl->args[0]);
    body_raw(&body, "applied", applied ? STR("true") : STR("false"));
    if (output.ptr)
        body_raw(&body, "output", output);
    if (ctl_has(ctl, OPT_TEXT))
        body_text(&body, "text", ctl_option(ctl, OPT_TEXT));
    buf_add_char(&body, '}');
    code = ctl_act(ctl, STR("/v1/answers"), &body);
    buf_free(&body);
    return code;
}
