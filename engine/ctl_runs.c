#include "engine/ctl_runs.h"

#include "engine/ctl_json.h"
#include "engine/ctl_text.h"

#include <unistd.h>

int ctl_run_read(struct ctl *ctl, struct ctl_run *out, struct err *err)
{
    if (ctl_json_parse(out->reply.body, &ctl->scratch, &out->json, err) != 0) {
        err->code = ERR_INTERNAL;
        return err_wrap(err, "the daemon's answer cannot be read");
    }
    out->run = model_run_read(out->json, &ctl->scratch);
    return 0;
}

/* --- by name --------------------------------------------------------------------------------- */

#define CANDIDATES_NAMED 10 /* one more tells that there are others */

static bool candidates_say(struct ctl *ctl, const char *name, const struct ctl_reply *reply)
{
    const struct json *problem, *list;
    struct err err;
    if (reply->status != 409 || ctl_json_parse(reply->body, &ctl->scratch, &problem, &err) != 0)
        return false;
    list = json_get_z(problem, "candidates");
    if (!list || list->kind != JSON_LIST)
        return false;
    ctl_say(ctl, "\"%s\" is the beginning of more than one run id:", name);
    for (uint32_t i = 0; i < MIN(list->count, CANDIDATES_NAMED + 0u); i++)
        ctl_hint(ctl, "  " STR_FMT, STR_ARG(list->items[i]->text));
    if (list->count > CANDIDATES_NAMED)
        ctl_hint(ctl, "  and more: give more of it");
    return true;
}

int ctl_run_find(struct ctl *ctl, const char *name, struct ctl_run *out)
{
    struct ctl_request request = {.method = "GET",
                                  .path = ctl_path(ctl, "/v1/runs/", str_z(name), "?prefix=1")};
    struct err err;
    if (ctl_call(ctl, &request, &out->reply, &err) != 0)
        return ctl_fail(ctl, &err);
    if (candidates_say(ctl, name, &out->reply))
        return CTL_USAGE;
    if (out->reply.status == 404) {
        ctl_say(ctl, "there is no run \"%s\"", name);
        return CTL_NOT_FOUND;
    }
    if (out->reply.status != 200)
        return ctl_refused(ctl, &out->reply);
    return ctl_run_read(ctl, out, &err) ? ctl_fail(ctl, &err) : CTL_OK;
}

/* --- waiting --------------------------------------------------------------------------------- */

#define WAIT_CALL_S 25             /* one long poll: under the idle limit of the socket */
#define WAIT_PACE_US (250 * MS_US) /* for a daemon that answers at once */

bool ctl_status_passes(int status)
{
    return status == 429 || status == 502 || status == 503 || status == 504;
}

bool ctl_patience(struct ctl *ctl, const struct err *err, int status, struct wall *since)
{
    struct wall now = ctl_now();
    bool passing =
        err ? err->code == ERR_UNAVAILABLE || err->code == ERR_TIMEOUT : ctl_status_passes(status);
    if (!passing)
        return false;
    if (!wall_is_set(*since)) {
        *since = now;
        ctl_say(ctl, "the daemon cannot answer now; trying again for %d s",
                (int)(CTL_PATIENCE_US / SECOND_US));
    }
    if (now.us - since->us > CTL_PATIENCE_US)
        return false;
    usleep((useconds_t)WAIT_PACE_US);
    return true;
}

static int seconds_left(struct wall deadline)
{
    int64_t left_us = deadline.us - ctl_now().us;
    if (!wall_is_set(deadline))
        return WAIT_CALL_S;
    return (int)MAX(MIN((left_us + SECOND_US - 1) / SECOND_US, (int64_t)WAIT_CALL_S), (int64_t)0);
}

/* The long poll counts whole seconds; the rest of a deadline is slept here. */
static void wait_pace(struct wall asked_at, struct wall deadline)
{
    struct wall now = ctl_now();
    int64_t pause = WAIT_PACE_US - (now.us - asked_at.us);
    if (wall_is_set(deadline))
        pause = MIN(pause, deadline.us - now.us);
    if (pause > 0)
        usleep((useconds_t)pause);
}

int ctl_run_wait(struct ctl *ctl, struct str run_id, struct wall deadline, struct ctl_run *out)
{
    struct ctl_request request = {.method = "GET"};
    struct wall trouble_since = WALL_NONE;
    struct err err;
    run_id = arena_str(&ctl->arena, run_id);
    for (;;) {
        arena_reset(&ctl->scratch);
        request.path = ctl_path(ctl, "/v1/runs/", run_id, "");
        struct wall asked_at = ctl_now();
        /* Shorter than a second: asked without waiting, so that the deadline is kept. */
        request.wait_s = seconds_left(deadline);
        if (wall_is_set(deadline) && deadline.us - asked_at.us < SECOND_US)
            request.wait_s = 0;
        int code = ctl_call(ctl, &request, &out->reply, &err);
        if (code || ctl_status_passes(out->reply.status)) {
            if ((!wall_is_set(deadline) || ctl_now().us < deadline.us) &&
                ctl_patience(ctl, code ? &err : NULL, out->reply.status, &trouble_since))
                continue;
            return code ? ctl_fail(ctl, &err) : ctl_refused(ctl, &out->reply);
        }
        trouble_since = WALL_NONE;
        if (out->reply.status != 200)
            return ctl_refused(ctl, &out->reply);
        if (ctl_run_read(ctl, out, &err) != 0)
            return ctl_fail(ctl, &err);
        if (model_is_over(out->run.state))
            return CTL_OK;
        if (wall_passed(deadline, ctl_now()))
            return CTL_OK;
        wait_pace(asked_at, deadline);
    }
}

/* --- history --------------------------------------------------------------------------------- */

int ctl_run_events(struct ctl *ctl, struct str run_id, struct ctl_reply *reply,
                   const struct json **events)
{
    const struct json *json;
    int code = ctl_get(ctl, ctl_path(ctl, "/v1/runs/", run_id, "/events"), reply, &json);
    if (code)
        return code;
    *events = json_get_z(json, "events");
    if (*events && (*events)->kind == JSON_LIST)
        return CTL_OK;
    ctl_say(ctl, "the daemon's answer has no list of events");
    return CTL_ERROR;
}

void ctl_run_reason_fill(struct ctl *ctl, struct model_run *run, const struct json *events)
{
    struct ctl_reply reply;
    if (run->reason.len || !str_eq_z(run->state, "parked"))
        return;
    if (!events && ctl_run_events(ctl, run->id, &reply, &events) != CTL_OK)
        return;
    for (uint32_t i = events->count; i-- > 0;)
        if (str_eq_z(json_get_text(events->items[i], "what"), "parked")) {
            struct str detail = json_get_text(events->items[i], "detail");
            run->reason = detail.ptr ? detail : STR("");
            return;
        }
}

/* --- printing -------------------------------------------------------------------------------- */

void ctl_print_document(struct ctl *ctl, struct str text)
{
    if (ctl->format == CTL_FORMAT_JSONL)
        ctl_json_compact(text, &ctl->out);
    else
        ctl_json_pretty(text, &ctl->out);
}

static void result_line(struct ctl *ctl, const char *label, enum paint paint, struct str text)
{
    size_t room = ctl->terminal ? MAX(text_columns(), (size_t)20) : SIZE_MAX;
    if (!text.len)
        return;
    buf_printf(&ctl->out, "  %-7s  ", label);
    text_paint(&ctl->out, ctl->color, paint);
    text_add_cut(&ctl->out, text, room == SIZE_MAX ? room : room - 11);
    text_unpaint(&ctl->out, ctl->color, paint);
    buf_add_char(&ctl->out, '\n');
}

static struct str error_with_step(const struct json *error, struct arena *arena)
{
    struct str step = json_get_text(error, "step");
    return arena_printf(arena, STR_FMT "%s" STR_FMT, STR_ARG(step), step.len ? ": " : "",
                        STR_ARG(model_error_text(error, arena)));
}

void ctl_run_print_result(struct ctl *ctl, const struct ctl_run *result, bool existing)
{
    const struct model_run *run = &result->run;
    if (ctl_format_is_json(ctl)) {
        ctl_print_document(ctl, result->reply.body);
        if (existing)
            ctl_say(ctl, "existing run: nothing new was started");
        return;
    }
    text_add(&ctl->out, run->id);
    if (ctl->format != CTL_FORMAT_NAME) {
        buf_add_z(&ctl->out, "  ");
        text_add_painted(&ctl->out, ctl->color, text_state_paint(run->state),
                         run->state.len ? run->state : STR("requested"));
        if (wall_is_set(run->ended_at) && wall_is_set(run->created_at)) {
            struct str took = text_duration(run->ended_at.us - run->created_at.us, &ctl->scratch);
            buf_printf(&ctl->out, "  " STR_FMT, STR_ARG(took));
        }
        if (existing)
            buf_add_z(&ctl->out, "  existing: nothing new was started");
    } else if (existing) {
        ctl_say(ctl, "existing run: nothing new was started");
    }
    buf_add_char(&ctl->out, '\n');
    if (ctl->format == CTL_FORMAT_NAME || !model_is_over(run->state))
        return;
    if (str_eq_z(run->state, "completed"))
        result_line(ctl, "output", PAINT_NONE, model_value_text(run->output, &ctl->scratch));
    else if (model_run_error(run))
        result_line(ctl, "error", PAINT_DIM, error_with_step(model_run_error(run), &ctl->scratch));
    if (str_eq_z(run->state, "parked") && ctl_flush(ctl) == CTL_OK)
        ctl_hint(ctl, "it needs a person: sagactl dead show " STR_FMT, STR_ARG(run->id));
}
