/*
 * api_start.c: submits: at this daemon, at another one through the inbox, and what comes out of the
 * inbox here.
 */
#include "dsl/jsonschema.h"
#include "engine/api_impl.h"
#include "engine/confirm.h"
#include "engine/dry_run.h"
#include "engine/failpoint.h"
#include "engine/key.h"
#include "engine/render.h"

#include <stdlib.h>

/* --- submitting ------------------------------------------------------------------------------ */

struct submission {
    struct api *api;
    struct control_request *request;
    struct str run_id, workflow, tenant;
    const struct json *input;
    struct sha256 input_hash, workflow_hash;
    struct runner_start start;
    struct str confirm; /* the token; absent: none was given */
    bool rehearse;      /* of a dry run: declared ones are sent */
    int wait_s;
};

static struct sha256 input_hash_of(const struct plan *plan, const struct json *input)
{
    struct arena scratch = {0};
    struct buf canonical = {0};
    json_write_canonical(schema_normalize(plan->input, input, &scratch), &canonical);
    struct sha256 hash = sha256_of(buf_str(&canonical));
    buf_free(&canonical);
    arena_free(&scratch);
    return hash;
}

/* Errors of the input schema, as the `errors` of a problem. */
static const struct json *schema_errors_json(const struct schema_errors *errors,
                                             struct arena *arena)
{
    struct json *list = json_list_new(arena, errors->count);
    for (uint32_t i = 0; i < errors->count; i++) {
        struct json *entry = json_object_new(arena, 2);
        json_object_add_z(entry, "pointer",
                          json_string(arena, arena_printf(arena, "/input" STR_FMT,
                                                          STR_ARG(errors->list[i].pointer))));
        json_object_add_z(entry, "message", json_string(arena, errors->list[i].message));
        json_list_add(list, entry);
    }
    return list;
}

static int input_check(const struct plan *plan, const struct json *input, struct arena *arena,
                       const struct json **errors, struct err *err)
{
    struct schema_errors found = {0};
    *errors = NULL;
    if (input->kind != JSON_OBJECT)
        return err_set(err, ERR_INVALID, "the input must be an object");
    if (!plan->input || schema_check(plan->input, input, arena, &found))
        return 0;
    *errors = schema_errors_json(&found, arena);
    return err_set(err, ERR_INVALID, "the input does not fit the schema of \"%s\": " STR_FMT,
                   plan->workflow, STR_ARG(schema_errors_text(&found, arena)));
}

/* What the workflow's `run_id` gives for this input; absent: it has none. */
static int run_id_render(const struct api *api, const struct plan *plan, const struct json *input,
                         struct wall now, struct arena *arena, struct str *out, struct err *err)
{
    struct expr_scope scope = {.input = input, .index = -1, .now = now, .env = api->o.env};
    *out = STR_NONE;
    if (!plan->run_id)
        return 0;
    int code = template_render_text(plan->run_id, &scope, TEXT_PLAIN, arena, out, err);
    return code ? err_wrap(err, "run_id") : 0;
}

/* The ids that the caller gave must all be one; without any, one is made whose shard is ours, so
 * that the common submit needs no hop. */
static int run_id_choose(struct api *api, const struct plan *plan, const struct json *input,
                         const char *const *given, size_t given_count, struct arena *arena,
                         struct str *out, struct err *err)
{
    uint64_t ours = runner_stats(api->o.runner).shards;
    char uuid[37];
    int code = run_id_render(api, plan, input, loop_wall(api->o.loop), arena, out, err);
    if (code)
        return code;
    for (size_t i = 0; i < given_count; i++) {
        if (!given[i])
            continue;
        if (out->ptr && !str_eq_z(*out, given[i]))
            return err_set(err, ERR_CONFLICT,
                           "the run ids do not agree: \"" STR_FMT "\" and \"%.100s\"",
                           STR_ARG(*out), given[i]);
        *out = str_z(given[i]);
    }
    if (out->ptr)
        return key_run_id_check(*out, err);
    for (int tries = 0; tries < 1000; tries++) {
        uuid7_make(loop_wall(api->o.loop), uuid);
        if (!ours || ours >> shard_of(str_z(uuid)) & 1)
            break;
    }
    *out = arena_str(arena, str_z(uuid));
    return 0;
}

/* RFC 3339; NULL and null: at once. */
static int start_at_read(const struct json *value, struct wall *out, struct err *err)
{
    *out = WALL_NONE;
    if (!value || value->kind == JSON_NULL)
        return 0;
    if (value->kind == JSON_STRING && wall_parse(value->text, out))
        return 0;
    return err_set(err, ERR_INVALID, "start_at must be a time like 2026-10-25T02:30:00Z");
}

/* True if the id belongs to another tenant or workflow; then the request is answered. */
static bool taken_elsewhere(struct submission *submission, struct str tenant, struct str workflow)
{
    struct control_request *request = submission->request;
    if (str_eq(tenant, submission->tenant) && str_eq(workflow, submission->workflow))
        return false;
    submission->api->conflicts++;
    if (!str_eq(tenant, submission->tenant))
        control_problem(request, 409, "run_id_taken", NULL, "the run id is taken");
    else
        control_problem(request, 409, "run_id_conflict", NULL,
                        "the run id \"" STR_FMT "\" was used for the workflow \"" STR_FMT "\"",
                        STR_ARG(submission->run_id), STR_ARG(workflow));
    return true;
}

/* The run as it is stored tells with whom, and where, the submit clashes. */
static void conflict_explain(void *arg, const struct store_answer *answer)
{
    struct submission *submission = arg;
    struct arena *arena = control_arena(submission->request);
    const struct json *run = NULL;
    struct str path = STR_NONE;
    struct err err;
    if (!answer->err.code && answer->text.ptr && json_parse(answer->text, arena, &run, &err) == 0) {
        const struct json *input = json_get_z(run, "input");
        struct str tenant = json_get_text(run, "tenant");
        if (taken_elsewhere(submission, tenant.ptr ? tenant : STR(""),
                            json_get_text(run, "workflow")))
            return;
        if (json_get_text(run, "removed_at").ptr) {
            control_problem(submission->request, 409, "run_id_conflict", NULL,
                            "the run id \"" STR_FMT "\" was used with another input, which was "
                            "removed when its time of retention was over",
                            STR_ARG(submission->run_id));
            return;
        }
        if (input)
            path = json_first_difference(
                schema_normalize(submission->start.plan->input, input, arena),
                schema_normalize(submission->start.plan->input, submission->input, arena), arena);
    }
    control_problem(submission->request, 409, "run_id_conflict", NULL,
                    "the run id \"" STR_FMT "\" was used with another input%s" STR_FMT,
                    STR_ARG(submission->run_id), path.ptr ? ": it differs at /input" : "",
                    STR_ARG(path));
}

static void conflict_answer(struct submission *submission)
{
    submission->api->conflicts++;
    const char *params[] = {submission->run_id.ptr};
    store_pg_query(submission->api->o.store, "select saga.run_json_v1($1)", params, 1,
                   conflict_explain, submission);
}

static void replay_answer(struct submission *submission)
{
    control_header_set(submission->request, "Idempotency-Replayed", "true");
    wait_for_run(submission->api, submission->request, submission->run_id, submission->wait_s, 200,
                 200);
}

static void submit_taken(struct submission *submission, const struct unit_taken *taken)
{
    if (taken_elsewhere(submission, taken->tenant, taken->workflow))
        return;
    if (!sha256_eq(&taken->input_hash, &submission->input_hash))
        conflict_answer(submission);
    else
        replay_answer(submission);
}

static void location_set(struct submission *submission)
{
    control_header_set(submission->request, "Location",
                       arena_printf(control_arena(submission->request), "/v1/runs/" STR_FMT,
                                    STR_ARG(submission->run_id))
                           .ptr);
}

static void submit_answered(void *arg, const struct runner_answer *answer)
{
    struct submission *submission = arg;
    struct control_request *request = submission->request;
    struct arena *arena = control_arena(request);
    FAILPOINT("submit_answer");
    if (answer->err.code) {
        problem_err(request, &answer->err);
        return;
    }
    if (answer->taken) {
        submit_taken(submission, answer->taken);
        return;
    }
    location_set(submission);
    if (submission->wait_s) {
        wait_for_new_run(submission->api, request, submission->run_id, submission->wait_s, 200,
                         202);
        return;
    }
    struct json *out = json_object_new(arena, 3);
    json_object_add_z(out, "run_id", json_string(arena, submission->run_id));
    json_object_add_z(out, "workflow", json_string(arena, submission->workflow));
    json_object_add_z(out, "state", json_string_z(arena, run_state_name(answer->state)));
    control_reply(request, 202, json_text(out, arena));
    FAILPOINT("submit_answered");
}

/* The owner accepted it, or said why not. */
static void submit_by_inbox_settled(void *arg, const struct request_result *result)
{
    struct submission *submission = arg;
    struct control_request *request = submission->request;
    if (!result->settled) {
        control_reply(request, 202, result->json);
    } else if (str_eq(result->outcome, STR("conflict"))) {
        conflict_answer(submission);
    } else if (!str_eq(result->outcome, STR("done"))) {
        control_problem(request, 422, "refused", NULL, STR_FMT, STR_ARG(result->answer));
    } else if (str_eq(result->answer, STR(RUNNER_START_EXISTED))) {
        replay_answer(submission);
    } else {
        location_set(submission);
        wait_for_run(submission->api, request, submission->run_id, submission->wait_s, 200, 202);
    }
}

static void submit_by_inbox(struct submission *submission)
{
    struct arena *arena = control_arena(submission->request);
    struct json *body = json_object_new(arena, 3);
    json_object_add_z(body, "input", submission->input);
    json_object_add_z(body, "tenant", json_string(arena, submission->tenant));
    if (wall_is_set(submission->start.start_at))
        json_object_add_z(body, "start_at",
                          json_string(arena, wall_format(submission->start.start_at, arena)));
    request_put(submission->api, submission->request, STR("start"), submission->run_id,
                &submission->start.plan->hash, json_text(body, arena), submit_by_inbox_settled,
                submission);
}

int prefer_wait(const struct control_request *request)
{
    const char *prefer = control_header(request, "Prefer");
    const char *wait = prefer ? strstr(prefer, "wait=") : NULL;
    int seconds = wait ? atoi(wait + 5) : 0;
    return MAX(0, MIN(seconds, API_WAIT_MAX_S));
}

static void workflow_unknown(struct api *api, struct control_request *request, struct str name)
{
    const char *nearest = name.ptr ? plans_nearest(api->o.plans, name) : NULL;
    control_problem(request, 404, "workflow_not_found", NULL, "there is no workflow \"%.*s\"%s%s%s",
                    (int)MIN(name.len, (size_t)80), name.ptr ? name.ptr : "",
                    nearest ? "; did you mean \"" : "", nearest ? nearest : "",
                    nearest ? "\"?" : "");
}

void run_submit(struct api *api, struct control_request *request);

struct workflow_look {
    struct api *api;
    struct control_request *request;
    struct str name;
};

static void workflow_looked(void *arg, const struct store_answer *answer)
{
    struct workflow_look *look = arg;
    struct api *api = look->api;
    struct err err;
    if (answer->err.code) {
        problem_err(look->request, &answer->err);
        return;
    }
    if (answer->text.ptr)
        plans_learn(api->o.plans, answer->text, true, &err);
    if (plans_current(api->o.plans, look->name))
        run_submit(api, look->request);
    else
        workflow_unknown(api, look->request, look->name);
}

/* It may have been applied at another daemon a moment ago. */
static void workflow_look(struct api *api, struct control_request *request, struct str name)
{
    struct workflow_look *look = arena_new(control_arena(request), struct workflow_look);
    *look = (struct workflow_look){api, request, arena_str(control_arena(request), name)};
    const char *params[] = {look->name.ptr};
    store_pg_query(api->o.store,
                   "select source from saga.workflow_sources_v1(null) where name = $1", params, 1,
                   workflow_looked, look);
}

/* Each misfit is told once: in the list, where there is one. */
static void input_refuse(struct control_request *request, const struct plan *plan,
                         const struct json *errors, const struct err *err)
{
    if (errors)
        control_problem(request, 422, "input_invalid", errors,
                        "the input does not fit the schema of \"%s\"", plan->workflow);
    else
        control_problem(request, 422, "input_invalid", NULL, "%s", err->text);
}

static void submission_start(struct submission *submission)
{
    struct api *api = submission->api;
    struct err err;
    int code = runner_start(api->o.runner, &submission->start, submit_answered, submission, &err);
    if (code == ERR_UNAVAILABLE && store_pg_is_up(api->o.store))
        submit_by_inbox(submission);
    else if (code)
        problem_err(submission->request, &err);
}

/* --- dry runs --------------------------------------------------------------------------------- */

static struct confirm confirm_of(const struct submission *submission)
{
    return (struct confirm){.workflow = submission->start.plan->hash,
                            .input = submission->input_hash,
                            .run_id = submission->run_id,
                            .tenant = submission->tenant,
                            .actor = submission->start.actor,
                            .start_at = submission->start.start_at};
}

/* While the key was asked for, another version may have been applied, and the plan be gone. False
 * after answering. */
static bool plan_is_still(struct submission *submission, const struct store_answer *answer)
{
    const struct plan *plan = plans_current(submission->api->o.plans, submission->workflow);
    submission->start.plan = plan;
    if (answer->err.code)
        problem_err(submission->request, &answer->err);
    else if (!plan || !sha256_eq(&plan->hash, &submission->workflow_hash))
        control_problem(submission->request, 409, "confirm_conflict", NULL,
                        "the workflow has changed a moment ago: look again");
    else
        return true;
    return false;
}

/* The token is for what would be started now. */
static void confirm_check(void *arg, const struct store_answer *answer)
{
    struct submission *submission = arg;
    struct err err;
    if (!plan_is_still(submission, answer))
        return;
    struct confirm confirm = confirm_of(submission);
    if (confirm_token_check(submission->confirm, &confirm, answer->text,
                            loop_wall(submission->api->o.loop), &err) != 0)
        control_problem(submission->request, status_of(err.code),
                        err.code == ERR_CONFLICT ? "confirm_conflict" : "confirm_invalid", NULL,
                        "%s", err.text);
    else
        submission_start(submission);
}

/* A dry run whose declared requests are sent, too. */
struct rehearsed {
    struct showing showing;
    const struct json *plan;
};

static const struct json *with_member(const struct json *object, const char *name,
                                      const struct json *value, struct arena *arena)
{
    struct json *out = json_object_new(arena, object->count + 1);
    for (uint32_t i = 0; i < object->count; i++)
        if (!str_eq_z(object->members[i].name, name))
            json_object_add(out, object->members[i].name, object->members[i].value);
    json_object_add_z(out, name, value);
    return out;
}

/* The step with what its `dry_run` was answered with. */
static const struct json *step_with(const struct json *step, const struct json *shown,
                                    struct arena *arena)
{
    const struct json *dry_run = json_get_z(step, "dry_run");
    for (uint32_t i = 0; i < shown->count; i++)
        dry_run = with_member(dry_run, arena_str(arena, shown->members[i].name).ptr,
                              shown->members[i].value, arena);
    return with_member(step, "dry_run", dry_run, arena);
}

static void rehearsed_reply(struct showing *showing)
{
    struct rehearsed *rehearsed = CONTAINER_OF(showing, struct rehearsed, showing);
    struct arena *arena = control_arena(showing->request);
    const struct json *steps = json_get_z(rehearsed->plan, "steps");
    struct json *list = json_list_new(arena, steps->count);
    uint32_t at = 0; /* both are in the order of the steps */
    for (uint32_t i = 0; i < steps->count; i++) {
        bool shown = at < showing->count && showing->list[at].place == i;
        json_list_add(list, shown ? step_with(steps->items[i], showing->list[at].shown, arena)
                                  : steps->items[i]);
        at += shown;
    }
    control_reply(showing->request, 200,
                  json_text(with_member(rehearsed->plan, "steps", list, arena), arena));
}

static void rehearse(struct submission *submission, const struct json *plan,
                     const struct dry_run_shows *shows)
{
    struct arena *arena = control_arena(submission->request);
    struct rehearsed *rehearsed = arena_new(arena, struct rehearsed);
    struct show *list = arena_array(arena, struct show, shows->count);
    for (uint32_t i = 0; i < shows->count; i++)
        list[i] = (struct show){.step = shows->list[i].step,
                                .request = shows->list[i].request,
                                .place = shows->list[i].place};
    *rehearsed = (struct rehearsed){.plan = plan,
                                    .showing = {.api = submission->api,
                                                .request = submission->request,
                                                .plan = submission->start.plan,
                                                .run_id = submission->run_id,
                                                .list = list,
                                                .count = shows->count,
                                                .done = rehearsed_reply}};
    showing_begin(&rehearsed->showing, STR(""), STR(""),
                  arena_printf(arena, "before a run of %s", submission->start.plan->workflow));
}

/* What would be done, and the token that starts it. */
static void dry_run_answer(void *arg, const struct store_answer *answer)
{
    struct submission *submission = arg;
    struct arena *arena = control_arena(submission->request);
    struct wall now = loop_wall(submission->api->o.loop);
    struct wall expires_at = wall_add(now, CONFIRM_TTL_US);
    const struct json *plan;
    struct err err;
    if (!plan_is_still(submission, answer))
        return;
    struct confirm confirm = confirm_of(submission);
    struct dry_run_shows shows;
    struct dry_run order = {.plan = submission->start.plan,
                            .run_id = submission->run_id,
                            .lock = submission->start.lock,
                            .input = submission->input,
                            .env = submission->api->o.env,
                            .now = now};
    if (dry_run_make(&order, arena, &plan, &shows, &err) != 0) {
        problem_err(submission->request, &err);
        return;
    }
    struct json *out = json_object_new(arena, 10 + plan->count);
    json_object_add_z(out, "dry_run", &json_true);
    json_object_add_z(out, "run_id", json_string(arena, submission->run_id));
    json_object_add_z(out, "workflow", json_string(arena, submission->workflow));
    json_object_add_z(out, "version", json_string_z(arena, order.plan->version));
    json_object_add_z(out, "input", submission->input);
    json_object_add_z(out, "lock", order.lock.len ? json_string(arena, order.lock) : &json_null);
    for (uint32_t i = 0; i < plan->count; i++)
        json_object_add(out, plan->members[i].name, plan->members[i].value);
    json_object_add_z(out, "plan_hash", json_string(arena, confirm_plan_hash(&confirm, arena)));
    json_object_add_z(
        out, "confirm",
        json_string(arena, confirm_token_make(&confirm, answer->text, expires_at, arena)));
    json_object_add_z(out, "confirm_until", json_string(arena, wall_format(expires_at, arena)));
    if (submission->rehearse && shows.count)
        rehearse(submission, out, &shows);
    else
        control_reply(submission->request, 200, json_text(out, arena));
}

/* Reads `rehearse`, which belongs to a dry run. False after answering. */
static bool rehearse_read(struct control_request *request, const struct json *body, bool dry,
                          bool *out)
{
    const struct json *rehearse = json_get_z(body, "rehearse");
    *out = rehearse && rehearse->kind == JSON_BOOL && rehearse->boolean;
    if (rehearse && rehearse->kind != JSON_BOOL)
        control_problem(request, 422, "invalid", NULL, "\"rehearse\" must be true or false");
    else if (*out && !dry)
        control_problem(request, 422, "invalid", NULL,
                        "\"rehearse\" goes with \"dry_run\": true, and starts nothing");
    else
        return true;
    return false;
}

/* Reads `dry_run` and `confirm`; `named`: the run id of the token. False after answering. */
static bool dry_run_read(struct control_request *request, const struct json *body, bool *dry,
                         struct str *confirm, struct str *named)
{
    const struct json *dry_run = json_get_z(body, "dry_run"), *token = json_get_z(body, "confirm");
    *dry = dry_run && dry_run->kind == JSON_BOOL && dry_run->boolean;
    *confirm = *named = STR_NONE;
    if (dry_run && dry_run->kind != JSON_BOOL) {
        control_problem(request, 422, "invalid", NULL, "\"dry_run\" must be true or false");
        return false;
    }
    if (!token)
        return true;
    if (token->kind == JSON_STRING) {
        *confirm = arena_str(control_arena(request), token->text);
        *named = confirm_token_run_id(*confirm);
        if (named->ptr)
            *named = arena_str(control_arena(request), *named);
    }
    if (!named->ptr || *dry) {
        control_problem(request, 422, "confirm_invalid", NULL, "%s",
                        *dry ? "a dry run needs no \"confirm\": it gives one"
                             : "this is no confirm token: a dry run gives one");
        return false;
    }
    return true;
}

/* False after answering. */
static bool tenant_read(struct submission *submission, const struct json *body)
{
    struct str tenant = json_get_text(body, "tenant");
    submission->tenant = tenant.ptr ? tenant : STR("");
    return tenant_admit(submission->request, submission->tenant);
}

/* False after answering. */
static bool run_id_take(struct submission *submission, const struct plan *plan,
                        const struct json *body, struct str named)
{
    struct control_request *request = submission->request;
    struct arena *arena = control_arena(request);
    const struct json *body_id = json_get_z(body, "run_id");
    struct err err;
    if (body_id && body_id->kind != JSON_STRING) {
        control_problem(request, 422, "run_id_invalid", NULL, "run_id must be a text");
        return false;
    }
    const char *given[] = {body_id ? arena_str(arena, body_id->text).ptr : NULL,
                           control_header(request, "Idempotency-Key"), named.ptr};
    int code = run_id_choose(submission->api, plan, submission->input, given, ARRAY_LEN(given),
                             arena, &submission->run_id, &err);
    if (code) {
        control_problem(request, status_of((enum err_code)code),
                        code == ERR_CONFLICT ? "run_id_mismatch" : "run_id_invalid", NULL, "%s",
                        err.text);
        return false;
    }
    submission->run_id = arena_str(arena, submission->run_id);
    return true;
}

void run_submit(struct api *api, struct control_request *request)
{
    static const char *const known[] = {"workflow", "input",   "run_id",  "tenant",
                                        "start_at", "dry_run", "confirm", "rehearse"};
    struct arena *arena = control_arena(request);
    const struct json *body, *errors;
    struct err err;
    if (!body_read(request, &body))
        return;
    if (!members_known(request, body, known, ARRAY_LEN(known)))
        return;
    struct str name = json_get_text(body, "workflow");
    const struct plan *plan = name.ptr ? plans_current(api->o.plans, name) : NULL;
    if (!plan) {
        if (name.ptr)
            workflow_look(api, request, name);
        else
            workflow_unknown(api, request, name);
        return;
    }
    struct submission *submission = arena_new(arena, struct submission);
    struct wall start_at;
    const struct json *input = json_get_z(body, "input");
    submission->api = api;
    submission->request = request;
    submission->input = input ? input : json_object_new(arena, 0);
    submission->workflow = arena_str(arena, name);
    if (!tenant_read(submission, body))
        return;
    submission->wait_s = prefer_wait(request);
    if (start_at_read(json_get_z(body, "start_at"), &start_at, &err) != 0) {
        control_problem(request, 422, "start_at_invalid", NULL, "%s", err.text);
        return;
    }
    if (input_check(plan, submission->input, arena, &errors, &err) != 0) {
        input_refuse(request, plan, errors, &err);
        return;
    }
    struct str lock;
    if (render_lock(plan, submission->input, arena, &lock, &err) != 0) {
        control_problem(request, 422, "lock_invalid", NULL, "%s", err.text);
        return;
    }
    bool dry;
    struct str named;
    if (!dry_run_read(request, body, &dry, &submission->confirm, &named) ||
        !rehearse_read(request, body, dry, &submission->rehearse) ||
        !run_id_take(submission, plan, body, named))
        return;
    submission->input_hash = input_hash_of(plan, submission->input);
    submission->workflow_hash = plan->hash;
    submission->start = (struct runner_start){
        .plan = plan,
        .run_id = submission->run_id,
        .tenant = submission->tenant,
        .actor = control_actor(request),
        .input = json_text(submission->input, arena),
        .input_hash = submission->input_hash,
        .lock = lock,
        .start_at = start_at,
        .suspect_from = store_pg_start_lost(api->o.store, submission->run_id)};
    if (submission->start.input.len > BODY_BYTES_MAX) {
        control_problem(request, 413, "input_too_large", NULL, "the input is larger than 1 MiB");
        return;
    }
    if (dry || submission->confirm.ptr)
        store_pg_query(api->o.store, "select saga.confirm_key_v1()", NULL, 0,
                       dry ? dry_run_answer : confirm_check, submission);
    else
        submission_start(submission);
}

/* --- the inbox, on the owner's side ----------------------------------------------------------- */

bool api_inbox_start(struct api *api, const struct store_inbox *row)
{
    struct arena arena = {0};
    const struct json *body, *input, *errors;
    struct wall start_at;
    struct str lock;
    struct err err;
    int code = json_parse(row->body, &arena, &body, &err);
    if (!code)
        code = start_at_read(json_get_z(body, "start_at"), &start_at, &err);
    if (!code) {
        input = json_get_z(body, "input");
        if (!input || input->kind == JSON_NULL)
            input = json_object_new(&arena, 0);
        code = input_check(row->plan, input, &arena, &errors, &err);
    }
    if (!code && row->body.len > BODY_BYTES_MAX)
        code = err_set(&err, ERR_LIMIT, "the input is larger than 1 MiB");
    if (!code)
        code = key_run_id_check(row->run_id, &err);
    if (!code)
        code = render_lock(row->plan, input, &arena, &lock, &err);
    if (!code) {
        struct str rendered = STR_NONE;
        /* The clock's runs are named by their ticks. */
        if (!json_get_z(body, "tick") || !str_eq(row->actor, STR("schedule")))
            code = run_id_render(api, row->plan, input, row->at, &arena, &rendered, &err);
        if (!code && rendered.ptr && !str_eq(rendered, row->run_id))
            code = err_set(&err, ERR_INVALID,
                           "the run id is not the one that the workflow gives this input");
    }
    if (!code) {
        struct runner_start start = {.plan = row->plan,
                                     .run_id = row->run_id,
                                     .tenant = json_get_text(body, "tenant"),
                                     .actor = row->actor,
                                     .inbox_id = row->id,
                                     .input = json_text(input, &arena),
                                     .input_hash = input_hash_of(row->plan, input),
                                     .lock = lock,
                                     .start_at = start_at,
                                     .suspect_from =
                                         store_pg_start_lost(api->o.store, row->run_id)};
        code = runner_start(api->o.runner, &start, NULL, NULL, &err);
        if (code) { /* not now: it is offered again */
            arena_free(&arena);
            return false;
        }
    } else {
        inbox_refuse(api, row, &err);
    }
    arena_free(&arena);
    return true;
}
