/*
 * api_rehearse.c: the declared `dry_run`s of steps, sent for a person who wants to see what would
 * happen: of a run's step (POST /v1/runs/ID/steps/STEP/dry_run), or of all steps of a run that is
 * not started yet whose requests hang on no answer.
 *
 * That somebody asked is in the audit before anything is sent. No key is claimed and nothing is
 * written of a run. They go out one after the other; what each was answered with is shown, cut, and
 * without secrets (invoke.h).
 */
#include "engine/api_impl.h"
#include "engine/limits.h"
#include "engine/log.h"
#include "engine/outcome.h"

/* --- what came back --------------------------------------------------------------------------- */

static struct json *not_sent(struct arena *arena, const char *why)
{
    struct json *out = json_object_new(arena, 1);
    json_object_add_z(out, "not_sent", json_string_z(arena, why));
    return out;
}

static struct json *no_answer(struct arena *arena, const char *why)
{
    struct json *out = json_object_new(arena, 1);
    json_object_add_z(out, "no_answer", json_string_z(arena, why));
    return out;
}

static const char *reply_problem(const struct reply *reply, struct arena *arena)
{
    if (!reply)
        return "the daemon lost its lease meanwhile: what came of it is not known";
    if (reply->timed_out)
        return "no answer in time";
    return arena_str(arena, reply->error.len ? reply->error : str_z(reply_kind_name(reply->kind)))
        .ptr;
}

/* {answer: {status, body, body_cut?, took_ms}}, {no_answer: why} or {not_sent: why} */
static const struct json *reply_show(const struct reply *reply, struct arena *arena)
{
    if (reply && reply->kind >= REPLY_CANNOT_SEND && reply->kind <= REPLY_NOT_SENT)
        return not_sent(arena, reply_problem(reply, arena));
    if (!reply || reply->kind != REPLY_HTTP)
        return no_answer(arena, reply_problem(reply, arena));
    struct json *out = json_object_new(arena, 1);
    struct json *answer = json_object_new(arena, 4);
    const struct json *body = outcome_body_show(reply, REHEARSAL_BODY_BYTES, arena);
    json_object_add_z(answer, "status", json_int(arena, reply->status));
    json_object_add_z(answer, "body", body);
    if (reply->body_dropped || reply->body.len > REHEARSAL_BODY_BYTES)
        json_object_add_z(answer, "body_cut", &json_true);
    json_object_add_z(answer, "took_ms",
                      json_int(arena, (reply->ended_at.us - reply->sent_at.us) / MS_US));
    json_object_add_z(out, "answer", answer);
    return out;
}

/* --- one after the other ---------------------------------------------------------------------- */

static void showing_leave(struct showing *showing)
{
    struct showing **at = &showing->api->showings;
    while (*at != showing)
        at = &(*at)->next;
    *at = showing->next;
    plan_unref(showing->plan);
}

static void showing_go_on(struct showing *showing);

/* `reply` lives only as long as this call. */
static void show_answered(void *arg, const struct reply *reply)
{
    struct showing *showing = arg;
    struct arena *arena = control_arena(showing->request);
    const struct json *shown;
    struct err err;
    if (json_parse(json_text(reply_show(reply, arena), arena), arena, &shown, &err) != 0)
        shown = no_answer(arena, "what came cannot be shown");
    showing->list[showing->at++].shown = shown;
    showing_go_on(showing);
}

/* False: nothing came of it, and why is kept. */
static bool show_send(struct showing *showing, struct err *err)
{
    struct api *api = showing->api;
    const struct show *show = &showing->list[showing->at];
    struct runner_rehearsal wanted = {.plan = showing->plan,
                                      .request = &show->request,
                                      .run_id = showing->run_id,
                                      .step = show->step,
                                      .now = loop_wall(api->o.loop)};
    if (showing->at >= REHEARSALS_PER_RUN_MAX)
        err_set(err, ERR_LIMIT, "only the first %d are sent", REHEARSALS_PER_RUN_MAX);
    else if (showing->at && loop_mono().us >= showing->until.us)
        err_set(err, ERR_LIMIT, "the %d s for all of them are over",
                (int)(REHEARSALS_PER_RUN_US / SECOND_US));
    else
        return runner_rehearse(api->o.runner, &wanted, show_answered, showing, err) == 0;
    return false;
}

static void showing_go_on(struct showing *showing)
{
    struct arena *arena = control_arena(showing->request);
    struct err err = {0};
    while (showing->at < showing->count && !show_send(showing, &err)) {
        struct show *show = &showing->list[showing->at++];
        show->shown = not_sent(arena, arena_str(arena, str_z(err.text)).ptr);
        show->refusal = err;
    }
    if (showing->at < showing->count)
        return; /* show_answered goes on */
    showing_leave(showing);
    showing->done(showing);
}

static void showing_audited(void *arg, const struct store_answer *answer)
{
    struct showing *showing = arg;
    struct api *api = showing->api;
    if (answer->err.code) {
        plan_unref(showing->plan);
        problem_err(showing->request, &answer->err);
        return;
    }
    showing->until.us = loop_mono().us + REHEARSALS_PER_RUN_US;
    showing->next = api->showings;
    api->showings = showing;
    showing_go_on(showing);
}

void showing_begin(struct showing *showing, struct str run_id, struct str step, struct str reason)
{
    struct arena *arena = control_arena(showing->request);
    const char *params[] = {arena_str(arena, run_id).ptr, arena_str(arena, step).ptr,
                            arena_str(arena, control_actor(showing->request)).ptr,
                            arena_str(arena, reason).ptr};
    plan_ref(showing->plan);
    store_pg_query(showing->api->o.store, "select saga.audit_dry_run_v1($1, $2, $3, $4)", params,
                   ARRAY_LEN(params), showing_audited, showing);
}

bool showings_end(struct api *api)
{
    bool some = api->showings != NULL;
    while (api->showings) {
        struct showing *showing = api->showings;
        runner_rehearse_forget(api->o.runner, showing);
        showing_leave(showing);
        control_problem(showing->request, 503, "shutting_down", NULL,
                        "the daemon is shutting down");
    }
    return some;
}

/* --- a step of a run -------------------------------------------------------------------------- */

struct rehearse_call {
    struct showing showing;
    struct str step, reason; /* as they were given */
    const struct json *request, *dry_run;
    char hash_hex[65];
    struct err refusal;
};

static void step_shown(struct showing *showing)
{
    struct rehearse_call *call = CONTAINER_OF(showing, struct rehearse_call, showing);
    struct arena *arena = control_arena(showing->request);
    const struct show *show = &showing->list[0];
    if (show->refusal.code) {
        problem_err(showing->request, &show->refusal);
        return;
    }
    struct json *dry_run = json_object_new(arena, 2);
    json_object_add_z(dry_run, "request", call->dry_run);
    for (uint32_t i = 0; i < show->shown->count; i++)
        json_object_add(dry_run, show->shown->members[i].name, show->shown->members[i].value);
    struct json *out = json_object_new(arena, 5);
    json_object_add_z(out, "run_id", json_string(arena, showing->run_id));
    json_object_add_z(out, "step", json_string(arena, show->step));
    json_object_add_z(out, "request", call->request);
    json_object_add_z(out, "request_hash", json_string_z(arena, call->hash_hex));
    json_object_add_z(out, "dry_run", dry_run);
    control_reply(showing->request, 200, json_text(out, arena));
}

static const struct json *json_copy(const struct json *value, struct arena *arena)
{
    const struct json *copy;
    struct err err;
    int code = json_parse(json_text(value, arena), arena, &copy, &err);
    ASSERT(code == 0); /* it was written from a tree */
    return copy;
}

static void refused_kept(void *arg, const struct store_answer *answer)
{
    struct rehearse_call *call = arg;
    if (answer->err.code) /* nothing was sent: that it was tried may be lost */
        log_warn("a refused dry run is not in the audit: %s", answer->err.text);
    problem_err(call->showing.request, &call->refusal);
}

static void refusal_keep(struct rehearse_call *call, const struct err *refusal)
{
    struct control_request *request = call->showing.request;
    struct arena *arena = control_arena(request);
    const char *params[] = {run_event_name(EVENT_DRY_RUN),
                            call->showing.run_id.ptr,
                            call->step.ptr,
                            arena_str(arena, control_actor(request)).ptr,
                            arena_str(arena, call->reason).ptr,
                            refusal->text};
    call->refusal = *refusal;
    store_pg_query(call->showing.api->o.store,
                   "select saga.audit_refused_v1($1, $2, $3, $4, $5, $6)", params,
                   ARRAY_LEN(params), refused_kept, call);
}

static void step_decided(void *arg, const struct runner_answer *answer)
{
    struct rehearse_call *call = arg;
    struct arena *arena = control_arena(call->showing.request);
    const struct run_rehearsal *rehearsal = answer->rehearsal;
    if (answer->err.code == ERR_CONFLICT) {
        refusal_keep(call, &answer->err);
        return;
    }
    if (answer->err.code) {
        problem_err(call->showing.request, &answer->err);
        return;
    }
    struct show *show = arena_new(arena, struct show);
    request_copy(&rehearsal->dry_run.request, arena, &show->request);
    show->step = arena_str(arena, rehearsal->dry_run.instance);
    call->request = json_copy(rehearsal->action, arena);
    call->dry_run = json_copy(render_show(&rehearsal->dry_run, arena), arena);
    sha256_hex(&rehearsal->action_hash, call->hash_hex);
    call->showing.plan = rehearsal->plan;
    call->showing.list = show;
    call->showing.count = 1;
    call->showing.done = step_shown;
    showing_begin(&call->showing, call->showing.run_id, show->step, call->reason);
}

/* Only the owner knows what the step would send: who that is. */
static void owner_came(void *arg, const struct store_answer *answer)
{
    struct rehearse_call *call = arg;
    struct control_request *request = call->showing.request;
    bool nobody = !answer->text.ptr || str_eq_z(answer->text, call->showing.api->o.daemon);
    if (answer->err.code)
        problem_err(request, &answer->err);
    else if (nobody) /* it came, or goes, in this moment */
        control_problem(request, 503, "unavailable", NULL,
                        "no daemon owns the run now: try again in a moment");
    else if (!answer->text.len)
        control_problem(request, 404, "not_found", NULL, "there is no such run");
    else
        control_problem(request, 421, "not_owner", NULL,
                        "the run belongs to the daemon \"" STR_FMT "\", which alone knows what the "
                        "step would send: ask at its socket (sagactl --socket PATH)",
                        STR_ARG(answer->text));
}

static void owner_ask(struct rehearse_call *call)
{
    const char *params[] = {call->showing.run_id.ptr};
    store_pg_query(call->showing.api->o.store, "select saga.run_owner_v1($1)", params, 1,
                   owner_came, call);
}

void step_rehearse(struct api *api, struct control_request *request, struct str run_id,
                   struct str step)
{
    static const char *const known[] = {"reason"};
    struct rehearse_call *call = arena_new(control_arena(request), struct rehearse_call);
    const struct json *body;
    struct err err;
    if (!body_read(request, &body) || !members_known(request, body, known, ARRAY_LEN(known)))
        return;
    call->showing.api = api;
    call->showing.request = request;
    call->showing.run_id = run_id;
    call->step = step;
    call->reason = json_get_text(body, "reason");
    if (!call->reason.ptr)
        call->reason = STR("");
    if (call->reason.len > 1000) {
        control_problem(request, 422, "reason_too_long", NULL,
                        "the reason is longer than 1000 bytes");
        return;
    }
    struct runner_verb verb = {.kind = EVENT_DRY_RUN,
                               .run_id = run_id,
                               .step = step,
                               .reason = call->reason,
                               .actor = control_actor(request)};
    int code = runner_verb(api->o.runner, &verb, step_decided, call, &err);
    if (code == ERR_UNAVAILABLE && store_pg_is_up(api->o.store))
        owner_ask(call);
    else if (code)
        problem_err(request, &err);
}
