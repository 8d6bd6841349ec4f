#include "engine/ctl_dry_run.h"

#include "engine/ctl_json.h"
#include "engine/ctl_runs.h"
#include "engine/ctl_text.h"
#include "engine/ctl_verbs.h"

static bool is_true(const struct json *object, const char *name)
{
    const struct json *value = json_get_z(object, name);
    return value && value->kind == JSON_BOOL && value->boolean;
}

/* "post payments/charges {...}"; "sleep" */
static void request_add(struct ctl *ctl, const struct json *request)
{
    static const char *const said[] = {"service", "target", "signal", "statement"};
    struct buf *out = &ctl->out;
    struct str method = json_get_text(request, "method");
    const struct json *body = json_get_z(request, "body"), *args = json_get_z(request, "args");
    text_add(out, method.ptr ? method : json_get_text(request, "kind"));
    for (size_t i = 0; i < ARRAY_LEN(said); i++) {
        struct str text = json_get_text(request, said[i]);
        if (!text.len)
            continue;
        if (i != 1)
            buf_add_char(out, ' ');
        text_add(out, text);
    }
    if (args) {
        buf_add_char(out, ' ');
        text_add(out, json_text(args, &ctl->arena));
    }
    if (body) {
        buf_add_char(out, ' ');
        text_add(out, json_text(body, &ctl->arena));
    }
}

static void line_add(struct ctl *ctl, const char *word, const struct json *about)
{
    const struct json *request = json_get_z(about, "request");
    struct str error = json_get_text(about, "error");
    if (!request)
        return;
    buf_printf(&ctl->out, "      %s", word);
    if (error.ptr) {
        buf_add_z(&ctl->out, "cannot be rendered: ");
        text_add(&ctl->out, error);
    } else {
        request_add(ctl, request);
    }
    buf_add_char(&ctl->out, '\n');
}

static void names_add(struct buf *out, const struct json *list)
{
    for (uint32_t i = 0; i < list->count; i++) {
        const struct json *item = list->items[i];
        buf_add_z(out, i ? ", " : "");
        text_add(out, item->kind == JSON_OBJECT ? json_get_text(item, "step") : item->text);
    }
}

static void refusal_add(struct ctl *ctl, const struct json *refusal)
{
    const struct json *undone = json_get_z(refusal, "undone");
    const struct json *residue = json_get_z(refusal, "residue");
    struct str reason = json_get_text(refusal, "reason");
    struct buf *out = &ctl->out;
    buf_add_z(out, "      if refused: ");
    text_add(out, json_get_text(refusal, "ends"));
    if (reason.len) {
        buf_add_z(out, ", ");
        text_add(out, reason);
    }
    if (undone && undone->kind == JSON_LIST && undone->count) {
        buf_add_z(out, "; undone: ");
        names_add(out, undone);
    }
    if (residue && residue->kind == JSON_LIST && residue->count) {
        buf_add_z(out, "; left: ");
        names_add(out, residue);
    }
    buf_add_char(out, '\n');
}

/* What came of a request that shows an effect: its answer, or why there is none. Nothing is printed
 * where none was asked for. */
static void shown_add(struct ctl *ctl, const char *before, const struct json *dry_run)
{
    struct buf *out = &ctl->out;
    const struct json *answer = json_get_z(dry_run, "answer"), *status, *body;
    struct str none = json_get_text(dry_run, "no_answer"),
               unsent = json_get_text(dry_run, "not_sent");
    int64_t number = 0;
    if (answer && answer->kind == JSON_OBJECT) {
        status = json_get_z(answer, "status");
        body = json_get_z(answer, "body");
        if (status && json_to_int(status, &number))
            buf_printf(out, "%s%lld", before, (long long)number);
        if (body && body->kind != JSON_NULL) {
            buf_add_char(out, ' ');
            text_add(out, body->kind == JSON_STRING ? body->text : json_text(body, &ctl->arena));
        }
        buf_add_z(out, is_true(answer, "body_cut") ? " (cut)\n" : "\n");
    } else if (none.ptr || unsent.ptr) {
        buf_printf(out, "%s%s", before, none.ptr ? "no answer: " : "not sent: ");
        text_add(out, none.ptr ? none : unsent);
        buf_add_char(out, '\n');
    }
}

static void dry_run_add(struct ctl *ctl, const struct json *dry_run)
{
    if (!dry_run || dry_run->kind != JSON_OBJECT)
        return;
    line_add(ctl, "dry run: ", dry_run);
    shown_add(ctl, "        ", dry_run);
}

static void step_print(struct ctl *ctl, const struct json *step, uint32_t number)
{
    struct buf *out = &ctl->out;
    struct str runs = json_get_text(step, "runs");
    const struct json *approval = json_get_z(step, "approval");
    const struct json *undo = json_get_z(step, "compensation");
    const struct json *refusal = json_get_z(step, "if_refused");
    buf_printf(out, "  %2u. ", number);
    text_add_painted(out, ctl->color, PAINT_BOLD, json_get_text(step, "step"));
    buf_add_z(out, "  ");
    text_add_painted(out, ctl->color, is_true(step, "irreversible") ? PAINT_RED : PAINT_DIM,
                     json_get_text(step, "effect"));
    if (is_true(step, "pivot"))
        buf_add_z(out, ", no way back after it");
    if (approval && approval->kind == JSON_OBJECT) {
        buf_add_z(out, ", needs approval by ");
        text_add(out, json_get_text(approval, "by"));
    }
    if (str_eq_z(runs, "no"))
        buf_add_z(out, ", skipped");
    else if (!str_eq_z(runs, "yes"))
        buf_add_z(out, ", whether it runs depends on answers");
    buf_add_char(out, '\n');
    line_add(ctl, "", step);
    if (undo && undo->kind == JSON_OBJECT)
        line_add(ctl, "undo: ", undo);
    dry_run_add(ctl, json_get_z(step, "dry_run"));
    if (refusal && refusal->kind == JSON_OBJECT)
        refusal_add(ctl, refusal);
}

int ctl_dry_run_print(struct ctl *ctl, struct str text)
{
    const struct json *plan;
    struct err err;
    if (ctl_format_is_json(ctl)) {
        if (ctl->format == CTL_FORMAT_JSONL)
            ctl_json_compact(text, &ctl->out);
        else
            ctl_json_pretty(text, &ctl->out);
        return CTL_OK;
    }
    if (ctl_json_parse(text, &ctl->arena, &plan, &err) != 0)
        return ctl_fail(ctl, &err);
    struct buf *out = &ctl->out;
    if (ctl->format == CTL_FORMAT_NAME) {
        text_add(out, json_get_text(plan, "confirm"));
        buf_add_char(out, '\n');
        return CTL_OK;
    }
    const struct json *steps = json_get_z(plan, "steps");
    buf_add_z(out, "dry run of ");
    text_add(out, json_get_text(plan, "workflow"));
    buf_add_z(out, " (version ");
    text_add(out, json_get_text(plan, "version"));
    buf_add_z(out, ") as ");
    text_add(out, json_get_text(plan, "run_id"));
    buf_add_z(out, ctl_has(ctl, OPT_REHEARSE)
                       ? ": only what steps declare as dry_run is sent, nothing is stored\n"
                       : ": nothing is sent, nothing is stored\n");
    struct str lock = json_get_text(plan, "lock");
    if (lock.len) {
        buf_add_z(out, "waits until no other run holds the lock \"");
        text_add(out, lock);
        buf_add_z(out, "\"\n");
    }
    for (uint32_t i = 0; steps && steps->kind == JSON_LIST && i < steps->count; i++)
        step_print(ctl, steps->items[i], i + 1);
    buf_add_z(out, "ends ");
    text_add(out, json_get_text(plan, "ends"));
    buf_add_z(out,
              " if every service does what it is asked; <answer> is what only they will say\n");
    buf_add_z(out, "plan ");
    text_add(out, json_get_text(plan, "plan_hash"));
    buf_add_char(out, '\n');
    ctl_hint(ctl,
             "To start exactly this, within 15 minutes: the same command with --confirm " STR_FMT
             " instead of --dry-run",
             STR_ARG(json_get_text(plan, "confirm")));
    return CTL_OK;
}

/* --- of a step of a run ---------------------------------------------------------------------- */

static void step_answer_print(struct ctl *ctl, const struct json *answer)
{
    const struct json *dry_run = json_get_z(answer, "dry_run");
    struct str hash = json_get_text(answer, "request_hash");
    struct buf *out = &ctl->out;
    text_add(out, json_get_text(answer, "run_id"));
    buf_add_char(out, ' ');
    text_add_painted(out, ctl->color, PAINT_BOLD, json_get_text(answer, "step"));
    buf_printf(out, "  hash %.12s\n    would send  ", hash.ptr ? hash.ptr : "");
    request_add(ctl, json_get_z(answer, "request"));
    buf_add_z(out, "\n    dry run     ");
    request_add(ctl, json_get_z(dry_run, "request"));
    buf_add_char(out, '\n');
    shown_add(ctl, "    answer      ", dry_run);
}

int ctl_verb_dry_run(struct ctl *ctl)
{
    struct buf body = {0};
    struct str run = ctl_path(ctl, "/v1/runs/", str_z(ctl->args[0]), "/steps/");
    struct ctl_request request = {.method = "POST",
                                  .path = ctl_path(ctl, run.ptr, str_z(ctl->args[1]), "/dry_run")};
    struct ctl_reply reply;
    const struct json *answer;
    struct err err;
    buf_add_char(&body, '{');
    if (ctl_has(ctl, OPT_REASON)) {
        buf_add_z(&body, "\"reason\":");
        json_write_string(str_z(ctl_option(ctl, OPT_REASON)), &body);
    }
    buf_add_char(&body, '}');
    request.body = arena_str(&ctl->arena, buf_str(&body));
    buf_free(&body);
    if (ctl_call(ctl, &request, &reply, &err) != 0)
        return ctl_fail(ctl, &err);
    if (reply.status != 200)
        return ctl_refused(ctl, &reply);
    if (ctl_json_parse(reply.body, &ctl->arena, &answer, &err) != 0) {
        ctl_say(ctl, "the daemon's answer cannot be read: %s", err.text);
        return CTL_ERROR;
    }
    if (ctl_format_is_json(ctl))
        ctl_print_document(ctl, reply.body);
    else if (ctl->format == CTL_FORMAT_NAME)
        buf_printf(&ctl->out, STR_FMT "\n", STR_ARG(json_get_text(answer, "run_id")));
    else
        step_answer_print(ctl, answer);
    return json_get_z(json_get_z(answer, "dry_run"), "answer") ? CTL_OK : CTL_ERROR;
}
