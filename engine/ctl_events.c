/*
 * ctl_events.c: a run's history, line by line, as it is or as it grows.
 */
#include "engine/ctl_json.h"
#include "engine/ctl_runs.h"
#include "engine/ctl_text.h"
#include "engine/ctl_verbs.h"
#include "engine/run.h"

#include <stdio.h>

static int64_t event_seq(const struct json *event)
{
    const struct json *value = json_get_z(event, "seq");
    int64_t seq = 0;
    return value && json_to_int(value, &seq) ? seq : 0;
}

static void padded_add(struct buf *out, struct str text, size_t columns)
{
    text_add(out, text);
    text_add_spaces(out, columns - MIN(columns, text_width(text)) + 2);
}

/* One event as a line. The widths are fixed, because the rest is not known while it grows. */
static void event_print(struct ctl *ctl, const struct json *event, struct str raw)
{
    struct buf *out = &ctl->out;
    struct str at_text = json_get_text(event, "at"), step = json_get_text(event, "step_id");
    struct str item_text = json_get_text(event, "item_text");
    struct str what = json_get_text(event, "what"), detail = json_get_text(event, "detail");
    struct wall at;
    if (ctl_format_is_json(ctl)) {
        ctl_json_compact(raw, out);
        return;
    }
    if (ctl->format == CTL_FORMAT_NAME) {
        buf_printf(out, "%lld\n", (long long)event_seq(event));
        return;
    }
    if (wall_parse(at_text.ptr ? at_text : STR(""), &at))
        at_text = text_time_ms(at, &ctl->scratch);
    text_paint(out, ctl->color, PAINT_DIM);
    padded_add(out, at_text, 24);
    text_unpaint(out, ctl->color, PAINT_DIM);
    padded_add(out, step.len ? model_label(step, item_text, &ctl->scratch) : STR("-"), 12);
    text_paint(out, ctl->color, text_state_paint(what));
    if (detail.len)
        padded_add(out, what, 16);
    else
        text_add(out, what);
    text_unpaint(out, ctl->color, PAINT_BLUE);
    text_add(out, detail);
    buf_add_char(out, '\n');
}

/* --- following ------------------------------------------------------------------------------- */

#define CHECK_EVERY_US SECOND_US    /* whether the run is over, in quiet times */
#define CHECK_SOON_US (100 * MS_US) /* after an event */
#define TICK_MS 100

struct follow {
    struct ctl *ctl;
    struct str run_id;
    struct wall deadline;
    bool until_parked; /* else only the end ends it */
    int64_t last_seq;
    char last_id[24]; /* the same as text, "" before the first */
    struct wall check_at;
    enum run_state state; /* newest known */
    struct wall trouble_since;
    int code; /* of what went wrong */
};

static bool event_take(struct follow *follow, const struct json *event, struct str raw)
{
    if (event_seq(event) <= follow->last_seq)
        return true;
    follow->last_seq = event_seq(event);
    snprintf(follow->last_id, sizeof(follow->last_id), "%lld", (long long)follow->last_seq);
    event_print(follow->ctl, event, raw);
    follow->code = ctl_flush(follow->ctl);
    return follow->code == CTL_OK;
}

static bool on_event(void *arg, struct str id, struct str data)
{
    struct follow *follow = arg;
    const struct json *event;
    struct err err;
    (void)id;
    arena_reset(&follow->ctl->scratch);
    if (ctl_json_parse(data, &follow->ctl->scratch, &event, &err) != 0) {
        ctl_say(follow->ctl, "an event cannot be read: %s", err.text);
        return true;
    }
    follow->trouble_since = WALL_NONE;
    follow->check_at = wall_first(follow->check_at, wall_add(ctl_now(), CHECK_SOON_US));
    return event_take(follow, event, data);
}

static bool follow_over(const struct follow *follow)
{
    bool parked = follow->state == RUN_PARKED && follow->until_parked;
    return parked || (follow->state != RUN_NONE && run_state_is_terminal(follow->state));
}

/* Asks for the run's state. False: the following ends, with follow->code if that is an error. */
static bool state_check(struct follow *follow)
{
    struct ctl *ctl = follow->ctl;
    struct ctl_request request = {.method = "GET"};
    struct ctl_reply reply;
    const struct json *json;
    struct err err;
    arena_reset(&ctl->scratch);
    request.path = ctl_path(ctl, "/v1/runs/", follow->run_id, "");
    follow->check_at = wall_add(ctl_now(), CHECK_EVERY_US);
    int code = ctl_call(ctl, &request, &reply, &err);
    if (code || reply.status != 200) {
        if (ctl_patience(ctl, code ? &err : NULL, reply.status, &follow->trouble_since))
            return true;
        follow->code = code ? ctl_fail(ctl, &err) : ctl_refused(ctl, &reply);
        return false;
    }
    if (ctl_json_parse(reply.body, &ctl->scratch, &json, &err) == 0)
        follow->state = run_state_of(json_get_text(json, "state"));
    return !follow_over(follow);
}

static bool on_tick(void *arg)
{
    struct follow *follow = arg;
    if (wall_passed(follow->deadline, ctl_now()))
        return false;
    return !wall_passed(follow->check_at, ctl_now()) || state_check(follow);
}

/* What the stream has not brought before it was known that the run is over. */
static int rest_print(struct follow *follow)
{
    struct ctl_reply reply;
    const struct json *events;
    int code = ctl_run_events(follow->ctl, follow->run_id, &reply, &events);
    struct str rest = ctl_json_member(reply.body, "events");
    for (uint32_t i = 0; !code && i < events->count; i++)
        if (!event_take(follow, events->items[i], ctl_json_next_item(&rest)))
            code = follow->code;
    return code;
}

static int follow_run(struct follow *follow)
{
    struct ctl *ctl = follow->ctl;
    struct ctl_reply reply;
    struct err err;
    for (;;) {
        if (!state_check(follow))
            return follow->code ? follow->code : rest_print(follow);
        if (wall_passed(follow->deadline, ctl_now())) {
            ctl_say(ctl, "the wait timed out; the run goes on");
            return CTL_TIMEOUT;
        }
        struct ctl_stream stream = {
            .path = ctl_path(ctl, "/v1/runs/", follow->run_id, "/events"),
            .last_id = str_z(follow->last_id),
            .event = on_event,
            .tick = on_tick,
            .arg = follow,
            .tick_ms = TICK_MS,
        };
        int code = ctl_stream(ctl, &stream, &reply, &err);
        if (follow->code)
            return follow->code;
        bool failed = code || (reply.status && reply.status != 200);
        if (failed && !ctl_patience(ctl, code ? &err : NULL, reply.status, &follow->trouble_since))
            return code ? ctl_fail(ctl, &err) : ctl_refused(ctl, &reply);
        if (!failed && ctl_reader_gone())
            return CTL_OK;
    }
}

int ctl_run_follow(struct ctl *ctl, struct str run_id, struct wall deadline)
{
    struct follow follow = {.ctl = ctl,
                            .run_id = arena_str(&ctl->arena, run_id),
                            .deadline = deadline,
                            .until_parked = true};
    int code = follow_run(&follow);
    return code ? code : model_exit(str_z(run_state_name(follow.state)));
}

/* --- the verb -------------------------------------------------------------------------------- */

int ctl_verb_events(struct ctl *ctl)
{
    struct ctl_run found;
    struct ctl_reply reply;
    const struct json *events;
    int code = ctl_run_find(ctl, ctl->args[0], &found);
    if (code)
        return code;
    if (ctl_has(ctl, OPT_FOLLOW)) {
        struct follow follow = {.ctl = ctl, .run_id = arena_str(&ctl->arena, found.run.id)};
        ctl_on_interrupt(NULL);
        return follow_run(&follow);
    }
    code = ctl_run_events(ctl, found.run.id, &reply, &events);
    if (code)
        return code;
    if (ctl->format == CTL_FORMAT_JSON) {
        ctl_print_document(ctl, reply.body);
        return CTL_OK;
    }
    struct str rest = ctl_json_member(reply.body, "events");
    for (uint32_t i = 0; i < events->count; i++)
        event_print(ctl, events->items[i], ctl_json_next_item(&rest));
    return CTL_OK;
}
