/*
 * ctl_start.c: run, wait, watch.
 */
#include "engine/ctl_dry_run.h"
#include "engine/ctl_json.h"
#include "engine/ctl_runs.h"
#include "engine/ctl_verbs.h"

static struct wall deadline_of(const struct ctl *ctl)
{
    int64_t timeout_us = ctl_option_duration(ctl, OPT_TIMEOUT, 0);
    return timeout_us ? wall_add(ctl_now(), timeout_us) : WALL_NONE;
}

static void arm_farewell(struct ctl *ctl, struct str run_id)
{
    ctl_on_interrupt(arena_printf(&ctl->arena,
                                  "sagactl: interrupted; the run goes on: sagactl "
                                  "watch " STR_FMT,
                                  STR_ARG(run_id))
                         .ptr);
}

/* Waits, prints, and turns the run's end into an exit code. */
static int wait_and_print(struct ctl *ctl, struct str run_id, struct wall deadline, bool existing)
{
    struct ctl_run result;
    arm_farewell(ctl, run_id);
    int code = ctl_run_wait(ctl, run_id, deadline, &result);
    if (code)
        return code;
    ctl_run_print_result(ctl, &result, existing);
    if (model_is_over(result.run.state))
        return model_exit(result.run.state);
    ctl_say(ctl, "the wait timed out; the run goes on");
    return CTL_TIMEOUT;
}

/* --- run ------------------------------------------------------------------------------------- */

/* A duration means "from now on"; the daemon checks what is neither. */
static struct str start_time(struct ctl *ctl)
{
    struct str text = str_z(ctl_option(ctl, OPT_AT));
    int64_t after_us;
    return duration_parse(text, &after_us) ? wall_format(wall_add(ctl_now(), after_us), &ctl->arena)
                                           : text;
}

/* The body as text, so that the input's digits and order stay as they were given. */
static int body_make(struct ctl *ctl, struct str *out)
{
    struct buf body = {0};
    struct str input;
    int code = ctl_option_json(ctl, OPT_INPUT, &input);
    if (code)
        return code;
    buf_add_z(&body, "{\"workflow\":");
    json_write_string(str_z(ctl->args[0]), &body);
    buf_add_z(&body, ",\"input\":");
    buf_add_str(&body, input.ptr ? input : STR("{}"));
    if (ctl_has(ctl, OPT_ID)) {
        buf_add_z(&body, ",\"run_id\":");
        json_write_string(str_z(ctl_option(ctl, OPT_ID)), &body);
    }
    if (ctl_has(ctl, OPT_TENANT)) {
        buf_add_z(&body, ",\"tenant\":");
        json_write_string(str_z(ctl_option(ctl, OPT_TENANT)), &body);
    }
    if (ctl_has(ctl, OPT_AT)) {
        buf_add_z(&body, ",\"start_at\":");
        json_write_string(start_time(ctl), &body);
    }
    if (ctl_has(ctl, OPT_CONFIRM)) {
        buf_add_z(&body, ",\"confirm\":");
        json_write_string(str_z(ctl_option(ctl, OPT_CONFIRM)), &body);
    }
    if (ctl_has(ctl, OPT_DRY_RUN))
        buf_add_z(&body, ",\"dry_run\":true");
    if (ctl_has(ctl, OPT_REHEARSE))
        buf_add_z(&body, ",\"rehearse\":true");
    buf_add_char(&body, '}');
    *out = arena_str(&ctl->arena, buf_str(&body));
    buf_free(&body);
    return CTL_OK;
}

static int submit(struct ctl *ctl, struct ctl_run *out)
{
    struct ctl_request request = {.method = "POST", .path = STR("/v1/runs")};
    struct err err;
    int code = body_make(ctl, &request.body);
    if (code)
        return code;
    code = ctl_call(ctl, &request, &out->reply, &err);
    if (code == ERR_TIMEOUT) {
        ctl_say(ctl, "%s", err.text);
        ctl_hint(ctl, "  the run may have been started: repeat with the same run id, or look with "
                      "sagactl list");
        return CTL_UNREACHABLE;
    }
    if (code)
        return ctl_fail(ctl, &err);
    if (out->reply.status < 200 || out->reply.status > 202)
        return ctl_refused(ctl, &out->reply);
    if (ctl_run_read(ctl, out, &err) != 0)
        return ctl_fail(ctl, &err);
    if (out->run.id.len)
        return CTL_OK;
    ctl_say(ctl, "the daemon's answer has no run_id");
    return CTL_ERROR;
}

/* Answers to what is sent come one after the other, each in its time. */
#define REHEARSE_WAIT_S 45

static int dry_run(struct ctl *ctl)
{
    struct ctl_request request = {.method = "POST",
                                  .path = STR("/v1/runs"),
                                  .wait_s = ctl_has(ctl, OPT_REHEARSE) ? REHEARSE_WAIT_S : 0};
    struct ctl_reply reply;
    struct err err;
    int code = body_make(ctl, &request.body);
    if (code)
        return code;
    if (ctl_call(ctl, &request, &reply, &err) != 0)
        return ctl_fail(ctl, &err);
    if (reply.status != 200)
        return ctl_refused(ctl, &reply);
    return ctl_dry_run_print(ctl, reply.body);
}

int ctl_verb_run(struct ctl *ctl)
{
    bool wait = ctl_has(ctl, OPT_WAIT), watch = ctl_has(ctl, OPT_WATCH);
    struct wall deadline = deadline_of(ctl);
    struct ctl_run started;
    if (wait && watch)
        return ctl_usage(ctl, "give --wait or --watch, not both");
    if (watch && ctl_format_is_json(ctl))
        return ctl_usage(ctl, "--watch is for people; use --wait with -o json");
    if (ctl_has(ctl, OPT_TIMEOUT) && !wait && !watch)
        return ctl_usage(ctl, "--timeout needs --wait or --watch");
    if (ctl_has(ctl, OPT_REHEARSE) && !ctl_has(ctl, OPT_DRY_RUN))
        return ctl_usage(ctl, "--rehearse goes with --dry-run");
    if (ctl_has(ctl, OPT_DRY_RUN))
        return wait || watch || ctl_has(ctl, OPT_CONFIRM)
                   ? ctl_usage(ctl, "--dry-run starts nothing: it goes without --wait, --watch and "
                                    "--confirm")
                   : dry_run(ctl);
    int code = submit(ctl, &started);
    if (code)
        return code;
    bool existing = started.reply.replayed;
    if (wait)
        return wait_and_print(ctl, started.run.id, deadline, existing);
    if (watch) {
        arm_farewell(ctl, started.run.id);
        if (existing)
            ctl_say(ctl, "existing run: nothing new was started");
        code = ctl_run_find(ctl, arena_str(&ctl->arena, started.run.id).ptr, &started);
        return code ? code : ctl_run_watch(ctl, &started, deadline);
    }
    ctl_run_print_result(ctl, &started, existing);
    return CTL_OK;
}

/* --- wait and watch ----------------------------------------------------------------------------
 */

int ctl_verb_wait(struct ctl *ctl)
{
    struct wall deadline = deadline_of(ctl);
    struct ctl_run found;
    int code = ctl_run_find(ctl, ctl->args[0], &found);
    return code ? code : wait_and_print(ctl, found.run.id, deadline, false);
}

int ctl_verb_watch(struct ctl *ctl)
{
    struct wall deadline = deadline_of(ctl);
    struct ctl_run found;
    int code = ctl_run_find(ctl, ctl->args[0], &found);
    if (code)
        return code;
    arm_farewell(ctl, found.run.id);
    return ctl_run_watch(ctl, &found, deadline);
}
